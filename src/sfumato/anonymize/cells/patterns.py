"""Which columns a group keeps: all sets of them, cheapest stars first, or as many as fit.

Candidates with s stars are the classes of the projections on the other columns, so algorithms that
take candidates by price need no mining: they visit patterns in this order and count classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymize.cells.table import CellTable

__all__ = ["MOST_PATTERNS", "Patterns", "patterns_of"]

Array = npt.NDArray[Any]

MOST_PATTERNS = 1 << 14
_CHAINS = 96

_MOST_WORK, _LESS_WORK = 20_000_000_000, 1_500_000_000
"""Cells looked at in one walk over all patterns, and over a choice where all are too many."""


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
        Every pattern cheaper than this is listed; the largest price there is when all are.
    """

    kept: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    certain_below: int
    complete: bool

    def __len__(self) -> int:
        return len(self.kept)

    def work(self, table: CellTable) -> int:
        """Cells that one walk over all patterns looks at."""
        return len(self) * table.entries * table.width


def patterns_of(table: CellTable, most: int | None = None) -> Patterns:
    """The patterns of a table; with many columns the cheap ones and a choice of the others.

    Among equally cheap ones those come first that keep columns of few values: the rows left over
    then differ in many-valued columns, which cost no more to star together.

    Examples
    --------
    >>> from sfumato.anonymize.cells.table import table_of_codes
    >>> patterns = patterns_of(table_of_codes(np.array([[0, 0], [1, 0], [2, 1]]), k=2))
    >>> [format(kept, "02b") for kept in patterns.kept.tolist()]
    ['11', '10', '01', '00']
    """
    free = table.free
    if most is None:
        cells = max(1, table.entries * table.width)
        most = MOST_PATTERNS
        if min(2 ** len(free), most + 1) * cells > _MOST_WORK or 2 ** len(free) > most:
            most = min(most, max(256, _LESS_WORK // cells))
    everything = (1 << table.width) - 1
    if 2 ** len(free) <= most:
        starred = _subsets(free)
        certain, complete = -1, True
    else:
        starred, levels = _cheap_and_chains(table, most)
        cheapest = np.sort(table.prices[free])
        certain, complete = int(cheapest[: levels + 1].sum()), False
    prices = np.zeros(len(starred), dtype=np.int64)
    values = np.zeros(len(starred))
    logs = np.log(np.maximum(table.cardinalities, 1))
    for column in free.tolist():
        bit = (starred >> column) & 1
        prices += bit * table.prices[column]
        values -= bit * logs[column]
    order = np.lexsort((starred, values, prices))
    total = int(prices.max(initial=0))
    return Patterns(
        kept=everything & ~starred[order],
        prices=prices[order],
        certain_below=total if complete else min(certain, total),
        complete=complete,
    )


def _subsets(columns: Array) -> npt.NDArray[np.int64]:
    found = np.zeros(1, dtype=np.int64)
    for column in columns.tolist():
        found = np.concatenate([found, found | (1 << column)])
    return found


def _cheap_and_chains(table: CellTable, most: int) -> tuple[npt.NDArray[np.int64], int]:
    """All sets of few stars, and beyond them growing chains that star many-valued columns first.

    Returns the sets and the number of stars up to which all of them are there.
    """
    free = table.free.tolist()
    levels, room = 0, most // 2 - 1
    while levels < len(free) and comb(len(free), levels + 1) <= room:
        levels += 1
        room -= comb(len(free), levels)
    found = {
        sum(1 << column for column in chosen)
        for stars in range(levels + 1)
        for chosen in combinations(free, stars)
    }
    random = np.random.default_rng(0)
    values = np.log(np.maximum(table.cardinalities[free], 1.0)) + 0.1
    appeal = values / np.maximum(table.prices[free], 1)
    for chain in range(max(1, min(_CHAINS, most // (2 * len(free))))):
        noise = random.gumbel(size=len(free)) if chain else np.zeros(len(free))
        starred = 0
        for at in np.argsort(-(np.log(appeal) + noise), kind="stable"):
            starred |= 1 << free[at]
            found.add(starred)
    return np.array(sorted(found), dtype=np.int64), levels
