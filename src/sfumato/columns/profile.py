"""The first look at a table: exact counts of every column, and rows to look at more closely.

In memory the rows are at hand. Elsewhere each column costs one histogram, and one sample of rows
travels; that is all `scan` needs before it knows which column sets are worth counting.

Some columns say the same in other words, such as `education` and `education-num`. Two columns are
equivalent if each decides the other: they have as many classes alone as together. They give every
answer twice, so only the first of them is used in a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.columns.content import ColumnFacts
from sfumato.engines.encoding import codes_of_table
from sfumato.engines.protocol import TEXT_COPIES, VALUE_BYTES, Codes, asks_sql
from sfumato.errors import BudgetError, EngineMemoryError, spell
from sfumato.tables import Table
from sfumato.tables.open import refuse_too_wide

Item = TypeVar("Item")

ROWS_AT_HAND = 250_000
"""Rows looked at closely in this process, the same ones in memory and in DuckDB."""
ROWS_TO_FETCH = 100_000
"""Rows looked at closely where they must travel."""
_SHARE = 0.3
"""Share of a memory limit that rows may take until they are codes."""
_FEWEST = 100
_NUMBER_BYTES = 8
CELLS = 20_000
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
    refuse_too_wide(table, budget, writing=False)
    rows = table.rows
    nulls = table.engine.null_counts(table.columns)
    facts = []
    for at, column in enumerate(table.schema):
        _report(budget, f"counting `{column.name}`", at / len(table.columns))
        sizes = table.class_sizes([column.name], budget)
        facts.append(
            ColumnFacts(
                column.name, column.kind, rows, nulls[column.name], sizes.classes, sizes.unique_rows
            )
        )
    _report(budget, "taking a sample", None)
    wanted = ROWS_TO_FETCH if table.engine.capabilities.remote else ROWS_AT_HAND
    wanted = _that_fit(table, facts, wanted, budget)
    return Profile(rows, tuple(facts), codes_of_table(table.sample(wanted, None, seed)))


def _that_fit(table: Table, facts: Sequence[ColumnFacts], wanted: int, budget: Budget) -> int:
    """As many rows as are wanted, or fewer where many or long values have little memory."""
    if budget.memory is None or not asks_sql(table.engine):
        return wanted
    row, rows = 2.0 * _NUMBER_BYTES * len(facts), facts[0].rows
    long = table.engine.text_bytes(table.columns)
    for one in facts:
        different = min(1.0, one.classes / min(wanted, one.rows))
        letters = long.get(one.name, 0.0)
        row += letters + different * (VALUE_BYTES + TEXT_COPIES * letters)
    fit = int(budget.memory * _SHARE / row)
    if fit < min(wanted, rows, _FEWEST):
        raise EngineMemoryError(
            f"rows are about {int(row) >> 10:,} KiB long while they are looked at, and not even "
            f"{_FEWEST} fit into what is left of the {budget.memory >> 20:,} MiB allowed",
            where=table.name,
            remedy=f"Allow more memory (e.g. {spell('memory', '2GB')}), or leave columns of long "
            f"texts out ({spell('exclude', 'a,b')}).",
        )
    return min(wanted, fit)


def _look_in_memory(table: Table, seed: int, budget: Budget) -> Profile:
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


def find_twins(table: Table, look: Profile, budget: Budget) -> tuple[tuple[str, ...], ...]:
    """Groups of columns that decide each other, each group in the order of the table.

    Columns with one value and keys are left out: all of them are trivially alike. Every group is
    exact: the sample only spares counting pairs that already differ there.
    """
    facts = {one.name: one for one in look.facts if not one.is_constant and not one.is_key}

    def twins(one: ColumnFacts, other: ColumnFacts) -> bool:
        if (one.classes, one.unique_rows) != (other.classes, other.unique_rows):
            return False
        pair = (one.name, other.name)
        return look.whole or table.class_sizes(pair, budget).classes == one.classes

    found = []
    names = list(facts)
    for first, others in equivalents(look.sample.select(names)).items():
        found += grouped([facts[names[at]] for at in (first, *others)], twins)
    found.sort(key=lambda group: names.index(group[0].name))
    return tuple(tuple(one.name for one in group) for group in found)


def grouped(items: Iterable[Item], alike: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Groups of several that are alike; each item is compared with one member of each group."""
    groups: list[list[Item]] = []
    for item in items:
        for group in groups:
            if alike(group[0], item):
                group.append(item)
                break
        else:
            groups.append([item])
    return [group for group in groups if len(group) > 1]


def classes_together(codes: Codes) -> int:
    """How many classes the columns make together."""
    arrays, sizes = codes.arrays, codes.cardinalities
    return int(kernels.class_ids(arrays, sizes, entries=codes.entries, ordered=False)[1])


LOOKED_AT = 512
"""About how many rows are looked at before whole columns are compared."""


def equivalents(codes: Codes) -> Mapping[int, tuple[int, ...]]:
    """For each column that stands for others, those others; two classes of columns never meet.

    Columns decide each other if they make as many classes together as alone. Values that no entry
    has, as there are in samples, do not matter.
    """
    looks: dict[bytes, list[int]] = {}
    for column, cardinality in enumerate(codes.cardinalities):
        if cardinality > 1:
            looks.setdefault(_look(codes, column), []).append(column)
    shapes: dict[tuple[bytes, bytes], list[int]] = {}
    for look, columns in looks.items():
        for column in columns if len(columns) > 1 else ():
            shapes.setdefault((look, _class_sizes(codes, column)), []).append(column)
    groups: list[list[int]] = []
    for (_, sizes), columns in shapes.items():
        classes = len(sizes) // 8  # eight bytes for each
        groups += grouped(columns, partial(_alike, codes, classes))
    return {group[0]: tuple(group[1:]) for group in sorted(groups)}


def _alike(codes: Codes, classes: int, one: int, other: int) -> bool:
    return classes_together(codes.select([codes.columns[at] for at in (one, other)])) == classes


def _look(codes: Codes, column: int) -> bytes:
    """Some rows of a column, values numbered as they appear: the same for columns alike."""
    some = codes.arrays[column][:: max(1, codes.entries // LOOKED_AT)]
    _, first, at = np.unique(some, return_index=True, return_inverse=True)
    return bytes(np.argsort(np.argsort(first))[at].astype(np.uint32))


def _class_sizes(codes: Codes, column: int) -> bytes:
    """How often the values of a column occur, in ascending order: the same for columns alike."""
    sizes = kernels.group_sums(codes.arrays[column], codes.cardinalities[column])
    return bytes(np.sort(sizes[sizes > 0]).astype(np.int64))


def expanded(
    sets: Sequence[tuple[int, ...]], twins: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """All sets that arise when columns are exchanged for those that say the same.

    Examples
    --------
    >>> expanded([(0, 1)], {1: (2,)})
    [(0, 1), (0, 2)]
    """
    return [
        tuple(sorted(choice))
        for columns in sets
        for choice in product(*((c, *twins.get(c, ())) for c in columns))
    ]
