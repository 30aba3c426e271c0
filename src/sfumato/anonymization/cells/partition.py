"""A partition of the rows into groups: what it costs, and as groups whose rows may still move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.privacy._kernels import forget, holds, take_in

__all__ = [
    "Groups",
    "Partition",
    "fits",
    "groups_of",
    "join",
    "new_group",
    "refresh",
    "rest_holds",
    "spread_over",
    "total",
    "unite",
]


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

    @classmethod
    def of_rows(cls, table: CellTable, group: Array) -> Partition:
        """Every row in a group; those of one combination are next to each other."""
        entry = np.repeat(np.arange(table.entries), table.counts)
        return cls(entry, np.ones(len(entry), dtype=np.int64), group).tidy()

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
        return int((self.sizes() * table.price_of(starred)).sum())

    def cost(self, table: CellTable) -> float:
        """Price of all stars; their number when every star costs 1."""
        return self.units(table) / PRICE_UNIT


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


class Groups(NamedTuple):
    """Groups as linked lists of units that may move, for compiled loops.

    A unit is one row, or the part of a combination so large that it is a group of its own without
    stars; that part never moves. Every move keeps each group at k rows or empties it.

    Attributes
    ----------
    entry, weight, group
        Of each unit: its combination, rows it stands for, and group.
    after, before
        Neighbours of each unit in its group, -1 at the ends.
    head, size, cost, kept
        Of each group: first unit, rows, price of the stars of one row, and columns it shows.
    spare
        Numbers of unused groups; `spare[-1]` says how many they are.
    """

    entry: Array
    weight: Array
    group: Array
    after: Array
    before: Array
    head: Array
    size: Array
    cost: Array
    kept: Array
    spare: Array


def groups_of(table: CellTable, partition: Partition) -> tuple[Groups, int]:
    """The partition as groups of units, those that may move first and by entry; and their number.

    Rows beyond need of a large combination stay together.
    """
    partition = partition.tidy()
    starred = partition.starred(table)
    cost = table.price_of(starred)
    kept = (~starred).astype(np.int64) @ table.bits
    frozen = (partition.rows >= 2 * table.k) & (cost[partition.group] == 0)
    core = np.where(frozen, partition.rows - table.k, 0)
    single = partition.rows - core
    has_core = np.flatnonzero(core)
    entry = np.concatenate([np.repeat(partition.entry, single), partition.entry[has_core]])
    group = np.concatenate([np.repeat(partition.group, single), partition.group[has_core]])
    weight = np.ones(len(entry), dtype=np.int64)
    weight[len(entry) - len(has_core) :] = core[has_core]
    room = max(partition.groups, table.rows // table.k) + 4
    spare = np.zeros(room + 1, dtype=np.int64)
    unused = np.arange(room - 1, partition.groups - 1, -1)
    spare[: len(unused)], spare[-1] = unused, len(unused)
    groups = Groups(
        entry=entry,
        weight=weight,
        group=np.full(len(entry), -1, dtype=np.int64),
        after=np.full(len(entry), -1, dtype=np.int64),
        before=np.full(len(entry), -1, dtype=np.int64),
        head=np.full(room, -1, dtype=np.int64),
        size=np.zeros(room, dtype=np.int64),
        cost=np.zeros(room, dtype=np.int64),
        kept=np.zeros(room, dtype=np.int64),
        spare=spare,
    )
    groups.cost[: partition.groups], groups.kept[: partition.groups] = cost, kept
    _place(groups, group)
    return groups, len(entry) - len(has_core)


@compiled
def join(groups, unit, q):  # type: ignore[no-untyped-def]
    """Move a unit from its group, if it has one, to group q."""
    old = groups.group[unit]
    if old >= 0:
        ahead, behind = groups.before[unit], groups.after[unit]
        if ahead >= 0:
            groups.after[ahead] = behind
        else:
            groups.head[old] = behind
        if behind >= 0:
            groups.before[behind] = ahead
        groups.size[old] -= groups.weight[unit]
        if groups.head[old] < 0:
            free = groups.spare[-1]
            groups.spare[free] = old
            groups.spare[-1] = free + 1
    first = groups.head[q]
    groups.after[unit], groups.before[unit] = first, -1
    if first >= 0:
        groups.before[first] = unit
    groups.head[q] = unit
    groups.group[unit] = q
    groups.size[q] += groups.weight[unit]


@compiled
def new_group(groups, kept, cost):  # type: ignore[no-untyped-def]
    """The number of a new group without units."""
    free = groups.spare[-1] - 1
    q = groups.spare[free]
    groups.spare[-1] = free
    groups.head[q], groups.size[q] = -1, 0
    groups.kept[q], groups.cost[q] = kept, cost
    return q


@compiled
def unite(groups, q, into):  # type: ignore[no-untyped-def]
    """Move every unit of group q to another group."""
    unit = groups.head[q]
    while unit >= 0:
        following = groups.after[unit]
        join(groups, unit, into)
        unit = following


@compiled
def fits(codes, groups, unit, q):  # type: ignore[no-untyped-def]
    """Whether a unit has the values that a group shows."""
    first = groups.head[q]
    if first < 0:
        return False
    kept, a, b = groups.kept[q], groups.entry[unit], groups.entry[first]
    same = True
    for c in range(codes.shape[1]):
        if (kept >> c) & 1 and codes[a, c] != codes[b, c]:
            same = False
            break
    return same


@compiled
def rest_holds(groups, q, leaving, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Whether the units of a group that are not marked as leaving satisfy all rules."""
    size = 0
    unit = groups.head[q]
    while unit >= 0:
        if not leaving[unit]:
            size += groups.weight[unit]
            take_in(groups.entry[unit], groups.weight[unit], sensitive, rules, tally)
        unit = groups.after[unit]
    good = holds(size, tally, rules)
    unit = groups.head[q]
    while unit >= 0:
        forget(groups.entry[unit], sensitive, rules, tally)
        unit = groups.after[unit]
    return good


@compiled
def refresh(codes, prices, groups):  # type: ignore[no-untyped-def]
    """Show again what all rows of a group have come to agree on; gives what that saves."""
    saved = np.int64(0)
    for q in range(groups.head.shape[0]):
        first = groups.head[q]
        if first < 0 or groups.cost[q] == 0:
            continue
        before, hidden = groups.cost[q], np.int64(0)
        for c in range(codes.shape[1]):
            if (groups.kept[q] >> c) & 1:
                continue
            unit, same = groups.after[first], True
            while unit >= 0 and same:
                same = codes[groups.entry[unit], c] == codes[groups.entry[first], c]
                unit = groups.after[unit]
            if same:
                groups.kept[q] |= np.int64(1) << c
            else:
                hidden += prices[c]
        groups.cost[q] = hidden
        saved += (before - hidden) * groups.size[q]
    return saved


@compiled
def total(groups):  # type: ignore[no-untyped-def]
    """Price of all stars."""
    price = np.int64(0)
    for q in range(groups.head.shape[0]):
        if groups.head[q] >= 0:
            price += groups.cost[q] * groups.size[q]
    return price


@compiled
def _place(groups, group):  # type: ignore[no-untyped-def]
    """Put every unit into the group named."""
    for unit in range(group.shape[0]):
        join(groups, unit, group[unit])
