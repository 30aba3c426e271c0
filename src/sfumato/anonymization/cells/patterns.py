"""Which columns a group keeps: all sets of them, cheapest stars first, or as many as fit.

Candidates with s stars are the classes of the projections on the other columns, so algorithms that
take candidates by price need no mining: they visit patterns in this order and count classes. With
many columns the sets are too many: then those of few stars are listed, and those that near rows
share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.neighbours import Neighbours
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["MOST_PATTERNS", "Patterns", "patterns_of"]

Array = npt.NDArray[Any]

MOST_PATTERNS = 1 << 14

_MOST_WORK, _CHOSEN_WORK = 25_000_000_000, 10_000_000_000
"""Cells looked at in one walk over all patterns, and over a choice where these are too many."""

_SAMPLE, _SAMPLES = 20_000, 3
"""Entries among which near rows are sought, and how often where these are not all."""

_MOST_PAIRS = 20_000_000_000
"""Pairs of entries compared for the lower bound."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Sets of kept columns in order of the price of starring the others.

    Attributes
    ----------
    kept
        One bit a column.
    prices
        Price of the stars of one row, in units, ascending.
    certain_below
        Every pattern cheaper than this is listed, unless no k rows share it; the largest price
        there is when all are.
    complete
        Whether all patterns are listed.
    floor
        Where they are not: the least that any solution pays for a row of each entry, in units, as
        far as comparing rows tells; 0 for entries that were not compared.
    """

    kept: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    certain_below: int
    complete: bool
    floor: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.kept)

    def work(self, table: CellTable) -> int:
        """Cells that one walk over all patterns looks at."""
        return len(self) * table.entries * table.width


def patterns_of(
    table: CellTable, most: int | None = None, budget: Budget | None = None
) -> Patterns:
    """The patterns of a table; with many columns the cheap ones and those that near rows share.

    Among equally cheap ones those come first that keep columns of few values: the rows left over
    then differ in many-valued columns, which cost no more to star together.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> patterns = patterns_of(table_of_codes(np.array([[0, 0], [1, 0], [2, 1]]), k=2))
    >>> [format(kept, "02b") for kept in patterns.kept.tolist()]
    ['11', '10', '01', '00']
    """
    free = table.free
    cells = max(1, table.entries * table.width)
    every = min(MOST_PATTERNS, max(256, _MOST_WORK // cells)) if most is None else most
    if 2 ** len(free) <= every:
        return _ordered(table, _subsets(free), -1, None)
    if most is None:
        most = min(MOST_PATTERNS, max(256, _CHOSEN_WORK // cells))
    floor, shared = _near(table, budget or Budget())
    cheap, levels = _cheap(table, most // 4)
    certain = int(np.sort(table.prices[free])[: levels + 1].sum())
    chosen = np.concatenate([cheap, _chain(table), shared])
    # Patterns cheaper than any row can pay are shared by no k rows.
    listed = _ordered(table, np.unique(chosen), certain, floor)
    useful = np.flatnonzero(listed.prices >= floor.min(initial=0))
    if len(useful) > most:
        useful = useful[np.linspace(0, len(useful) - 1, most).astype(np.int64)]
    return replace(listed, kept=listed.kept[useful], prices=listed.prices[useful])


def _ordered(table: CellTable, starred: Array, certain: int, floor: Array | None) -> Patterns:
    prices, values = np.zeros(len(starred), dtype=np.int64), np.zeros(len(starred))
    logs = np.log(np.maximum(table.cardinalities, 1))
    for column in table.free.tolist():
        bit = (starred >> column) & 1
        prices += bit * table.prices[column]
        values -= bit * logs[column]
    order = np.lexsort((starred, values, prices))
    total = int(prices.max(initial=0))
    return Patterns(
        kept=((1 << table.width) - 1) & ~starred[order],
        prices=prices[order],
        certain_below=total if certain < 0 else min(certain, total),
        complete=certain < 0,
        floor=floor,
    )


def _subsets(columns: Array) -> npt.NDArray[np.int64]:
    found = np.zeros(1, dtype=np.int64)
    for column in columns.tolist():
        found = np.concatenate([found, found | (1 << column)])
    return found


def _cheap(table: CellTable, most: int) -> tuple[npt.NDArray[np.int64], int]:
    """All sets of few stars, and the number of stars up to which all of them are there."""
    free = table.free.tolist()
    levels, room = 0, most - 1
    while levels < len(free) and comb(len(free), levels + 1) <= room:
        levels += 1
        room -= comb(len(free), levels)
    found = [
        sum(1 << column for column in chosen)
        for stars in range(levels + 1)
        for chosen in combinations(free, stars)
    ]
    return np.array(found, dtype=np.int64), levels


def _chain(table: CellTable) -> npt.NDArray[np.int64]:
    """One column starred after the other, many-valued and cheap ones first, to the last."""
    free = table.free
    values = np.log(np.maximum(table.cardinalities[free], 1.0)) + 0.1
    order = np.argsort(-values / np.maximum(table.prices[free], 1), kind="stable")
    return np.bitwise_or.accumulate(np.left_shift(np.int64(1), free[order]))


def _near(table: CellTable, budget: Budget) -> tuple[npt.NDArray[np.int64], Array]:
    """What each entry pays at least, and the columns starred in groups of near rows.

    Large tables are sampled: rows that share a pattern with fewer than k others in a sample may
    share it with k in the table, so samples are grouped for smaller k as well.
    """
    random, everyone = np.random.default_rng(0), np.arange(table.entries)
    floor = np.zeros(table.entries, dtype=np.int64)
    sampled = table.entries > _SAMPLE
    found = []
    for turn in range(_SAMPLES if sampled else 1):
        if budget.spent():
            break
        k = max(2, table.k // (turn + 1))
        part = np.sort(random.choice(everyone, _SAMPLE, replace=False)) if sampled else everyone
        near = Neighbours(table.take(part) if sampled else table, k)
        least = near.floor(np.arange(len(part)), budget)
        if not sampled:
            floor = least
        if not budget.spent():
            found.append(near.patterns(np.argsort(least, kind="stable")))
    if sampled and not budget.spent():
        most = max(1, _MOST_PAIRS // table.entries)
        part = everyone if most >= len(everyone) else np.sort(random.permutation(everyone)[:most])
        floor[part] = Neighbours(table).floor(part, budget)
    bits = int(sum(1 << int(column) for column in table.free))
    return floor, bits & ~np.concatenate([np.zeros(0, dtype=np.int64), *found])
