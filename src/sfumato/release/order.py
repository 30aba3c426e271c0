"""What the order of rows tells: columns in which rows that stand together are alike.

Embedded engines keep the order of their source: of a file sorted by birth date, the place of a row
tells the date more closely than its cell. Whether a column is in order is told by von Neumann's
ratio on ranks (Bartels 1982): how far apart neighbours are, squared, against any two rows. It is 1
in random order and 0 where the column is sorted; ties share a rank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_of_table
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import BATCH_ROWS, Codes, asks_sql
from sfumato.engines.recoding import Parted, Recoding
from sfumato.errors import spell
from sfumato.hierarchy.tree import Array
from sfumato.tables import Table
from sfumato.wording import phrase

SHOWN = ("kept", "untouched")
"""What may be done to a column of which the release then tells all."""

ALIKE = 0.4
"""The ratio up to which a column is in order; in public tables that nobody sorted it is 0.7 to 1.2,
and half of that where the rows of a household stand together."""
CERTAIN = 5
"""By how many standard deviations it lies below that of a random order, so that chance never is."""
FEWEST = 20
"""Rows with another value than the most common one: fewer stand together by chance."""
_PAIRS = 1 << 14
"""Pairs of neighbours, spread evenly over the rows."""
_EARLY_BYTES = 1 << 26


def told_by_order(
    source: Table, mapping: Recoding | Parted, actions: Mapping[str, str], budget: Budget | None
) -> tuple[str, ...]:
    """A warning that a release keeps the order of rows, where that tells what it does not show."""
    changed = {*mapping.drop, *mapping.written}
    hidden = [name for name in changed if actions.get(name) not in SHOWN]
    if mapping.sorted or not hidden:
        return ()
    if isinstance(mapping, Parted) and not source.engine.capabilities.ordered:
        keeps = "rows are written part by part, in the order in which they are read"
    elif names := in_order(source, hidden, budget):
        listed = phrase([f"`{name}`" for name in names])
        keeps = f"neighbouring rows of the table are more alike than others in {listed}, "
        keeps += "and the release keeps their order"
    else:
        return ()
    return (
        f"{keeps}: the position of a row may give away what its cells do not; sort the release "
        f"by its cells ({spell('sort', True)})",
    )


def in_order(table: Table, names: Collection[str], budget: Budget | None = None) -> tuple[str, ...]:
    """Columns in which neighbouring rows are much more alike than any two.

    In memory, those that were not read are judged by the first rows alone.
    """
    engine = table.engine
    if not (engine.capabilities.ordered and engine.capabilities.replayable):
        return ()
    read = [name for name in table.columns if name in names]
    held = engine.held if isinstance(engine, MemoryEngine) else read
    early = [name for name in read if name not in held]
    rest = [name for name in read if name in held]
    found: set[str] = set()
    if early:
        rows = _first(table, early)
        chosen, first = _neighbours(rows.num_rows, _PAIRS)
        found |= _alike(codes_of_table(rows.take(pa.array(chosen))), first)
    if rest:
        pairs = _PAIRS
        if asks_sql(engine):
            pairs = engine.fitting(2 * _PAIRS, rest, budget) // 2
        chosen, first = _neighbours(table.rows, pairs)
        if asks_sql(engine):
            found |= _alike(codes_of_table(engine.rows_at(chosen, rest)), first)
        else:  # of a wide table one column after the other
            for name in rest:
                found |= _alike(table.codes([name], budget=budget).take(chosen), first)
    return tuple(name for name in read if name in found)


def _first(table: Table, names: Sequence[str]) -> pa.Table:
    """The first rows, fewer where they are long."""
    held: list[pa.RecordBatch] = []
    with closing(table.engine.batches(names, BATCH_ROWS // 8)) as batches:  # type: ignore[type-var]
        for batch in batches:
            held.append(batch)
            if sum(map(len, held)) >= BATCH_ROWS or sum(b.nbytes for b in held) >= _EARLY_BYTES:
                break
    return pa.Table.from_batches(held) if held else pa.table({name: [] for name in names})


def _neighbours(rows: int, pairs: int) -> tuple[Array, Array]:
    """Rows of evenly spread pairs of neighbours, and where among them the first of each is."""
    first = np.arange(0, rows - 1, max(1, -(-(rows - 1) // max(pairs, 1))))
    chosen = np.unique(np.concatenate([first, first + 1]))
    return chosen, np.searchsorted(chosen, first)


def _alike(codes: Codes, first: Array) -> set[str]:
    """The columns that are in order."""
    return {
        name
        for name, array in zip(codes.columns, codes.arrays, strict=True)
        if _resembles(array[first], array[first + 1])
    }


def _resembles(one: Array, other: Array) -> bool:
    """Whether numbers are nearer to their neighbours than chance allows.

    Examples
    --------
    >>> ages = np.repeat(np.arange(20), 3)
    >>> _resembles(ages[:-1], ages[1:])
    True
    >>> shuffled = np.random.default_rng(0).permutation(ages)
    >>> _resembles(shuffled[:-1], shuffled[1:])
    False
    """
    both = np.concatenate([one, other])
    counts = np.bincount(both)
    if len(both) - counts.max(initial=0) < 2 * FEWEST:  # each row is in two pairs, or nearly so
        return False
    rank = np.cumsum(counts) - counts / 2
    ratio = ((rank[one] - rank[other]) ** 2).mean() / (2 * rank[both].var())
    return bool(ratio <= ALIKE and 1 - ratio >= CERTAIN / np.sqrt(len(one)))
