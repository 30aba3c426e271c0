"""The first look at a table: exact counts of every column, and rows to look at more closely.

In memory the rows are at hand. Elsewhere each column costs one histogram, and one sample of rows
travels; that is all `scan` needs before it knows which column sets are worth counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.budget import Budget
from sfumato.columns.recognise import ColumnFacts
from sfumato.engines.results import Codes
from sfumato.errors import BudgetError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.tables import Table

__all__ = [
    "Profile",
    "cells_of",
    "positions",
    "profile",
]


ROWS_AT_HAND = 250_000
"""Rows looked at closely in this process, the same ones in memory and in DuckDB."""
ROWS_TO_FETCH = 100_000
"""Rows looked at closely where they must travel."""
CELLS = 1_000
"""Different cells of a column that are looked at to guess what it is about."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Exact facts of all columns, and some rows (all of them where the table is small)."""

    rows: int
    facts: tuple[ColumnFacts, ...]
    sample: Codes

    @property
    def whole(self) -> bool:
        """Whether the sample is the table."""
        return self.sample.entries == self.rows


def profile(table: Table, *, seed: int, budget: Budget) -> Profile:
    """Count every column and take a uniform sample of rows."""
    if table.engine.capabilities.coded:
        return _look_in_memory(table, seed, budget)
    from sfumato.engines.encoding import codes_of_table

    rows = table.rows
    nulls = table.engine.null_counts(table.columns)
    facts = []
    for at, column in enumerate(table.schema):
        _report(budget, f"counting `{column.name}`", at / len(table.columns))
        sizes = table.class_sizes([column.name], budget)
        facts.append(
            ColumnFacts(
                column.name,
                column.kind,
                rows,
                nulls[column.name],
                sizes.classes,
                sizes.unique_rows,
            )
        )
    _report(budget, "taking a sample", None)
    wanted = ROWS_TO_FETCH if table.engine.capabilities.remote else ROWS_AT_HAND
    return Profile(rows, tuple(facts), codes_of_table(table.sample(wanted, None, seed)))


def _look_in_memory(table: Table, seed: int, budget: Budget) -> Profile:
    from sfumato import kernels

    codes = table.codes(None, budget)
    facts = []
    for at, column in enumerate(table.schema):
        _report(budget, f"counting `{column.name}`", at / len(codes.columns))
        values = codes.values[at]
        counts = kernels.group_sums(codes.arrays[at], len(values))
        # a null is the last value
        nulls = int(counts[-1]) if values.null_count else 0
        facts.append(
            ColumnFacts(
                column.name,
                column.kind,
                codes.entries,
                nulls,
                len(values),
                int(np.count_nonzero(counts == 1)),
            )
        )
    return Profile(
        codes.entries, tuple(facts), codes.take(positions(codes.entries, ROWS_AT_HAND, seed))
    )


def positions(rows: int, wanted: int, seed: int) -> Any:
    """Positions of a uniform sample without replacement, in order; of all rows if not more."""
    if wanted >= rows:
        return slice(None)
    chosen = np.random.default_rng(seed).choice(rows, wanted, replace=False, shuffle=False)
    return np.sort(chosen)


def cells_of(look: Profile, name: str) -> list[Any]:
    """Some different cells of a column, spread evenly over those in the sample."""
    values = look.sample.values_of(name)
    present = np.unique(look.sample.column(name))
    if len(present) > CELLS:
        present = present[np.linspace(0, len(present) - 1, CELLS).astype(np.int64)]
    cells = (_seen(cell) for cell in values.take(present.astype(np.int64)))
    return [cell for cell in cells if cell is not None]


def _seen(cell: pa.Scalar) -> Any:
    """A cell as a Python object, or None where Python has none like it: the year 20000, say."""
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        return None


def _report(budget: Budget, doing: str, share: float | None) -> None:
    if budget.spent():
        raise BudgetError(
            "the time was over before all columns were counted",
            remedy="Allow more with --time, or look at fewer columns.",
        )
    budget.progress(doing, share)
