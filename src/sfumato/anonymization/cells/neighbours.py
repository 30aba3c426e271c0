"""Near rows: a lower bound and good patterns for tables of many columns.

Where sets of columns are too many to be visited, rows still can be compared. A row shares its group
with k - 1 others, so it pays at least what the columns cost in which the last of its k - 1 nearest
rows differs from it. And what k near rows have in common is a pattern worth looking at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["Neighbours"]

Array = npt.NDArray[Any]

_PLANES = 4
_MOST_STEPS = 1_000
_LEVELS = 6
_ROUNDS = 4
_PAIRS_AT_ONCE, _QUERIES = 100_000_000, 1_024


class Neighbours:
    """The entries of a table, ready to be compared.

    Parameters
    ----------
    k
        Rows of a group, where it is not that of the table.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> near = Neighbours(table_of_codes(np.array([[0, 0, 0], [0, 0, 1], [5, 4, 3]]), k=2))
    >>> near.floor(np.arange(3)).tolist()
    [1000, 1000, 3000]
    """

    def __init__(self, table: CellTable, k: int | None = None) -> None:
        self.table, self.k = table, table.k if k is None else k
        self._words = np.zeros((_PLANES, table.entries), dtype=np.uint64)
        for column in range(table.width):
            buckets = _buckets(table.codes[:, column], table.counts)
            for plane in range(_PLANES):
                bit = (buckets >> plane) & 1
                self._words[plane] |= bit.astype(np.uint64) << np.uint64(column)
        prices = table.prices
        self._step = _step(prices)
        # A price between two levels counts as the lower one: distances only get smaller.
        levels = np.unique(prices[prices > 0] // self._step)
        if len(levels) > _LEVELS:
            levels = levels[np.linspace(0, len(levels) - 1, _LEVELS).astype(int)]
        at = np.searchsorted(levels, prices // self._step, side="right") - 1
        fixed = _bits(np.flatnonzero(prices < 0))
        groups = [_bits(np.flatnonzero((prices > 0) & (at == g))) for g in range(len(levels))]
        self._masks = np.array([*groups, fixed], dtype=np.uint64)
        self._most = int(
            sum(level * bin(g).count("1") for level, g in zip(levels, groups, strict=True))
        )
        self._steps = np.array([*levels, self._most + 1], dtype=np.int64)

    def floor(self, entries: Array, budget: Budget | None = None) -> npt.NDArray[np.int64]:
        """The least any solution pays for one row of each entry, in units; 0 where time ran out."""
        from sfumato.anonymization.cells._neighbours import nearest_distances

        budget = budget or Budget()
        nearest = np.zeros(len(entries), dtype=np.int64)
        at_once = max(1, min(_QUERIES, _PAIRS_AT_ONCE // self.table.entries))
        for at in range(0, len(entries), at_once):
            budget.progress("comparing rows", at / len(entries))
            if budget.spent():
                break
            nearest_distances(
                self._words, self.table.counts, self.k, self._masks, self._steps, self._most,
                entries[at : at + at_once].astype(np.int64), nearest[at : at + at_once],
            )  # fmt: skip
        return np.minimum(nearest, self._most) * self._step

    def patterns(self, order: Array) -> npt.NDArray[np.int64]:
        """What groups of k near rows have in common, one bit a column; greedy in some order."""
        from sfumato.anonymization.cells._neighbours import near_groups

        kept = np.zeros(self.table.entries, dtype=np.int64)
        groups = near_groups(
            self.table.codes, self._words, self.table.counts, self.k, _ROUNDS, self._masks,
            self._steps, self._most, order.astype(np.int64), kept,
        )  # fmt: skip
        return kept[:groups]


def _buckets(codes: Array, counts: Array) -> npt.NDArray[np.int64]:
    """A bucket for each code; frequent codes are spread over different ones."""
    rows = np.bincount(codes, weights=counts)
    bucket = np.empty(len(rows), dtype=np.int64)
    bucket[np.argsort(-rows, kind="stable")] = np.arange(len(rows)) % (1 << _PLANES)
    return bucket[codes]


def _bits(columns: Array) -> int:
    return sum(1 << int(column) for column in columns)


def _step(prices: Array) -> int:
    """What distances are counted in: the price of a star where all cost the same."""
    paid = prices[prices > 0]
    if not len(paid):
        return 1
    common = int(np.gcd.reduce(paid))
    return common if paid.sum() // common <= _MOST_STEPS else max(1, int(paid.sum()) // _MOST_STEPS)
