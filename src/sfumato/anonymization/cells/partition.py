"""A partition of the rows into groups, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable

__all__ = ["Partition", "spread_over"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of rows; a combination may be split among several groups.

    `entry`, `rows` and `group` have one place a piece: some rows of one combination in one group,
    or left out of the release where the group is -1.
    """

    entry: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]

    @classmethod
    def of_entries(cls, table: CellTable, group: Array) -> Partition:
        """Every combination as a whole in one group."""
        return cls(np.arange(table.entries), table.counts, group.astype(np.int64)).tidy()

    def tidy(self) -> Partition:
        """Pieces of one combination in one group joined, groups numbered without gaps."""
        kept = self.rows > 0
        group = self.group[kept]
        inside = group >= 0
        _, dense = np.unique(group[inside], return_inverse=True)
        group = group.copy()
        group[inside] = dense
        count = int(group.max(initial=-1)) + 2
        keys, at = np.unique(self.entry[kept] * count + group + 1, return_inverse=True)
        rows = np.bincount(at, weights=self.rows[kept], minlength=len(keys)).astype(np.int64)
        entry, number = np.divmod(keys, count)
        return Partition(entry, rows, number - 1)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group.max(initial=-1)) + 1

    @property
    def left_out(self) -> int:
        """Rows that are in no group."""
        return int(self.rows[self.group < 0].sum())

    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each group."""
        kept = self.group >= 0
        weights = self.rows[kept]
        found = np.bincount(self.group[kept], weights=weights, minlength=self.groups)
        return found.astype(np.int64)

    def starred(self, table: CellTable) -> npt.NDArray[np.bool_]:
        """For each group and column whether its rows differ there (groups x columns)."""
        kept = np.flatnonzero(self.group >= 0)
        order = kept[np.argsort(self.group[kept], kind="stable")]
        if not len(order):
            return np.zeros((0, table.width), dtype=np.bool_)
        starts = np.r_[0, np.flatnonzero(np.diff(self.group[order])) + 1]
        codes = table.codes[self.entry[order]]
        low, high = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
        return np.asarray(high > low)

    def units(self, table: CellTable) -> int:
        """Price of all stars, in units."""
        starred = self.starred(table)
        assert not (starred & (table.prices < 0)).any()
        dear = starred.astype(np.int64) @ np.maximum(table.prices, 0)
        return int((self.sizes() * dear).sum())

    def cost(self, table: CellTable) -> float:
        """Price of all stars; their number when every star costs 1."""
        return self.units(table) / PRICE_UNIT

    def cells(self, table: CellTable) -> int:
        """Number of stars."""
        return int((self.sizes() * self.starred(table).sum(axis=1)).sum())


def spread_over(partition: Partition, belongs: Array, counts: Array) -> Partition:
    """The same groups with the pieces of a finer table.

    Parameters
    ----------
    belongs, counts
        For each finer entry, the combination it belongs to and its rows. The rows of a combination
        are alike to the partition, so its pieces are cut from its finer entries in order.
    """
    fine = np.argsort(belongs, kind="stable")
    pieces = np.argsort(partition.entry, kind="stable")
    fine_ends = np.cumsum(counts[fine])
    piece_ends = np.cumsum(partition.rows[pieces])
    ends = np.union1d(fine_ends, piece_ends)
    rows = np.diff(np.r_[0, ends])
    entry = fine[np.searchsorted(fine_ends, ends)]
    group = partition.group[pieces[np.searchsorted(piece_ends, ends)]]
    order = np.argsort(entry, kind="stable")
    return Partition(entry[order], rows[order], group[order])
