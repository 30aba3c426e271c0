"""The first look at a table: exact counts of every column, and rows to look at more closely.

In memory the rows are at hand. Elsewhere each column costs one histogram, and one sample of rows
travels; that is all `scan` needs before it knows which column sets are worth counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.protocol import Kind
from sfumato.engines.results import Codes
from sfumato.errors import BudgetError, spell

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.tables import Table

__all__ = [
    "FEW",
    "ColumnFacts",
    "Profile",
    "cells_of",
    "positions",
    "profile",
]


ROWS_AT_HAND = 250_000
"""Rows looked at closely in this process, the same ones in memory and in DuckDB."""
ROWS_TO_FETCH = 100_000
"""Rows looked at closely where they must travel."""
CELLS = 20_000
"""Different cells of a column that are looked at to guess what it is about."""


NEARLY = 0.9
"""Share of its filled cells that must stand alone for a column to be nearly a key."""
FEW = 12
"""A column with so few values points at nobody, whatever its name."""


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of one column: exact counts over all rows."""

    name: str
    kind: Kind
    rows: int
    nulls: int
    classes: int
    unique_rows: int

    @property
    def is_constant(self) -> bool:
        """Whether all rows agree."""
        return self.classes <= 1

    @property
    def is_key(self) -> bool:
        """Whether no two rows agree."""
        return self.rows > 1 and self.classes == self.rows

    @property
    def is_nearly_key(self) -> bool:
        """Whether most of the rows that have a value are the only ones with it."""
        filled = self.rows - self.nulls
        return not self.is_key and filled > FEW and self.unique_rows >= NEARLY * filled


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


def cells_of(look: Profile, name: str) -> pa.Array:
    """Different cells of a column in the sample, spread evenly over them; none of them null."""
    present = np.unique(look.sample.column(name))
    if len(present) > CELLS:
        present = present[np.linspace(0, len(present) - 1, CELLS).astype(np.int64)]
    cells = look.sample.values_of(name).take(present.astype(np.int64))
    return cells.drop_null()


def _report(budget: Budget, doing: str, share: float | None) -> None:
    if budget.spent():
        raise BudgetError(
            "the time was over before all columns were counted",
            remedy=f"Allow more ({spell('time', '10m')}), or look at fewer columns.",
        )
    budget.progress(doing, share)
