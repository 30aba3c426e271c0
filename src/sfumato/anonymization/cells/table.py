"""The table as cell suppression sees it: distinct combinations, prices of stars, and rules.

A *pattern* is a set of columns that stay in sight, one bit a column. Everything here that walks
over patterns asks one thing of this module: which rows look alike under a pattern. Their keys are
sums, so going from one pattern to the next reads only the columns in which the two differ.

A `Partition` puts the rows into groups and says what that costs; `Groups` are those of a partition
whose rows may still move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.problem import Problem, sensitive_of
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.privacy import Rules
from sfumato.privacy.rules import forget, holds, take_in

MOST_COLUMNS = 62
"""Sets of columns are the bits of one machine word."""

PRICE_UNIT = 1_000
"""Prices are whole numbers of thousandths, so that every sum and every bound is exact."""

_DEAREST = 1e6


@dataclass(frozen=True, eq=False)
class CellTable:
    """Combinations of quasi-identifiers with counts.

    Attributes
    ----------
    codes
        One row a combination, one column a quasi-identifier. Where some values of a column may be
        starred and others not, a last column keeps such rows apart; it is never starred.
    counts
        Rows each combination stands for.
    cardinalities
        Distinct values of each column.
    prices
        Price of a star in each column, in units of `PRICE_UNIT`; -1 where stars are forbidden.
    rules
        What every group must satisfy; `rules.k` is its least number of rows.
    sensitive
        Where the sensitive values of each combination are counted (see `Rules`); no columns when
        only k is asked, and equal combinations are then one.
    """

    codes: Array
    counts: npt.NDArray[np.int64]
    cardinalities: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    rules: Rules
    sensitive: Array

    @property
    def k(self) -> int:
        """Least number of rows of a group."""
        return self.rules.k

    @property
    def entries(self) -> int:
        """Number of combinations."""
        return len(self.codes)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.codes.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def free(self) -> npt.NDArray[np.int64]:
        """Columns that may be starred."""
        return np.flatnonzero(self.prices >= 0)

    def payable(self, units: int) -> int:
        """The least cost that can occur and is not below: costs are sums of prices."""
        step = int(np.gcd.reduce(self.prices[self.prices > 0], initial=0))
        return -(-units // step) * step if step else units

    @property
    def bits(self) -> npt.NDArray[np.int64]:
        """The bit of each column in a pattern."""
        return np.left_shift(np.int64(1), np.arange(self.width, dtype=np.int64))

    def price_of(self, starred: Array) -> npt.NDArray[np.int64]:
        """Price of the stars of one row where these columns are starred (patterns x columns)."""
        return np.asarray(starred.astype(np.int64) @ np.maximum(self.prices, 0))

    def blocks(self) -> tuple[Array, int]:
        """Which combinations may share a group (equal in all protected columns), and how many."""
        fixed = np.flatnonzero(self.prices < 0)
        arrays = tuple(self.codes[:, c].astype(np.uint32) for c in fixed)
        sizes = tuple(int(self.cardinalities[c]) for c in fixed)
        blocks, count = kernels.class_ids(arrays, sizes, entries=self.entries)
        return blocks.astype(np.int64), count

    @property
    def multipliers(self) -> npt.NDArray[np.uint64]:
        """Random odd numbers, one a column: the key of a row is a sum of products with them.

        Two different rows share a key with probability 2⁻⁶³. Should it ever happen, rows are
        thought to be alike that are not: groups are then dearer than foreseen and bounds lower,
        but what is released is starred by its values and every bound still holds.
        """
        random = np.random.default_rng(20070612)
        numbers = random.integers(1, 2**63, size=self.width, dtype=np.uint64)
        return np.asarray(numbers | np.uint64(1))

    def new_keys(self) -> Any:
        """What every combination shows: nothing at first (see `move_keys`)."""
        return Keys(
            columns=np.ascontiguousarray(self.codes.T),
            multipliers=self.multipliers,
            keys=np.zeros(self.entries, dtype=np.uint64),
            kept=np.zeros(1, dtype=np.int64),
        )

    def take(self, entries: Array) -> CellTable:
        """Some of the combinations."""
        return replace(
            self,
            codes=np.ascontiguousarray(self.codes[entries]),
            counts=np.ascontiguousarray(self.counts[entries]),
            sensitive=np.ascontiguousarray(self.sensitive[entries]),
        )


def table_of_codes(codes: Array, k: int, prices: Array | None = None) -> CellTable:
    """A table straight from codes, one row a row; equal rows become one combination.

    Examples
    --------
    >>> table = table_of_codes(np.array([[0, 1], [0, 1], [2, 0]]), k=2)
    >>> table.entries, table.counts.tolist()
    (2, [2, 1])
    """
    from sfumato.privacy import KAnonymity, compile_rules

    ranks = [np.unique(column, return_inverse=True)[1] for column in np.asarray(codes).T]
    found, counts = np.unique(np.stack(ranks, axis=1), axis=0, return_counts=True)
    width = len(ranks)
    given = np.ones(width) if prices is None else np.asarray(prices, dtype=np.float64)
    return CellTable(
        codes=np.ascontiguousarray(found.astype(np.int32)),
        counts=counts.astype(np.int64),
        cardinalities=found.max(axis=0, initial=-1).astype(np.int64) + 1,
        prices=np.where(np.isfinite(given), np.round(given * PRICE_UNIT), -1).astype(np.int64),
        rules=compile_rules([KAnonymity(k)]),
        sensitive=np.zeros((len(found), 0), dtype=np.int64),
    )


def cell_table(problem: Problem) -> tuple[CellTable, Array]:
    """The combinations of a problem, and which of them each of its entries belongs to.

    Raises
    ------
    ParameterError
        If every column is protected from stars, or a price cannot be used.
    ColumnError
        If a protected column is not a quasi-identifier, or there are too many columns.
    """
    names = problem.qi
    prices = _prices(problem)
    arrays = [problem.entries.column(name) for name in names]
    cardinalities = [len(problem.entries.values_of(name)) for name in names]
    for name, limit in problem.limits.items():
        if not limit.may_be_starred(problem.entries.column(name)).any():
            prices[names.index(name)] = -1
    blocks = _blocks(problem)
    if blocks is not None:
        arrays.append(blocks.astype(np.uint32))
        cardinalities.append(int(blocks.max(initial=0)) + 1)
        prices = np.append(prices, -1)
    if len(arrays) > MOST_COLUMNS:
        raise ColumnError(
            f"cell suppression takes at most {MOST_COLUMNS} quasi-identifiers, not {len(names)}",
            remedy=f"Leave out columns nobody can know, or use {spell('method', 'mondrian')}.",
        )
    codes = np.stack([array.astype(np.int32) for array in arrays], axis=1)
    counts, sensitive = problem.counts, sensitive_of(problem)
    belongs = np.arange(problem.entries.entries)
    if not len(problem.rules.kinds):
        ids, count = kernels.class_ids(tuple(arrays), tuple(cardinalities))
        belongs = ids.astype(np.int64)
        codes = codes[kernels.representatives(ids, count)]
        counts = kernels.group_sums(ids, count, counts)
        sensitive = np.zeros((count, 0), dtype=np.int64)
    table = CellTable(
        codes=np.ascontiguousarray(codes),
        counts=np.ascontiguousarray(counts, dtype=np.int64),
        cardinalities=np.array(cardinalities, dtype=np.int64),
        prices=prices,
        rules=problem.rules,
        sensitive=np.ascontiguousarray(sensitive),
    )
    return table, belongs


def _blocks(problem: Problem) -> Array | None:
    """Which entries may share a group, where not all may.

    A value that its boundary keeps from being starred stays in sight, so its rows are only ever
    with rows of the same value; those whose values may all be starred are with each other.
    """
    keys = [] if problem.apart is None else [np.asarray(problem.apart)]
    for name, limit in problem.limits.items():
        codes = problem.entries.column(name).astype(np.int64)
        free = limit.may_be_starred(codes)
        if free.any() and not free.all():
            keys.append(np.where(free, 0, codes + 1))
    if not keys:
        return None
    _, blocks = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    return np.asarray(blocks.ravel())


def _prices(problem: Problem) -> npt.NDArray[np.int64]:
    names = problem.qi
    protected = problem.options.get("protected") or ()
    protected = [protected] if isinstance(protected, str) else list(protected)
    for name in protected:
        if name not in names:
            raise ColumnError(
                f"the protected column `{name}` is not a quasi-identifier",
                remedy=did_you_mean(name, names),
            )
    if set(protected) >= set(names):
        raise ParameterError(
            "all quasi-identifiers are protected from stars",
            remedy="Allow stars in at least one of them.",
        )
    prices = []
    for name in names:
        price = problem.weight(name)
        if not 0 <= price <= _DEAREST:
            raise ParameterError(
                f"the price of a star in `{name}` is not between 0 and {_DEAREST:,.0f}",
                remedy=f"Set prices, e.g. {spell('weights', {name: 2})}; to forbid stars in a "
                "column, protect it.",
            )
        if 0 < price < 1 / PRICE_UNIT:
            raise ParameterError(
                f"the price of a star in `{name}` is below 1/{PRICE_UNIT:,}",
                remedy="Multiply all prices by the same factor.",
            )
        prices.append(-1 if name in protected else round(price * PRICE_UNIT))
    return np.array(prices, dtype=np.int64)


# Rows that agree on a pattern get one number; memory is that of the rows asked about.

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def key_of(codes, entry, kept, multipliers):  # type: ignore[no-untyped-def]
    """What a row shows under a pattern, as one number."""
    key = np.uint64(0)
    for c in range(codes.shape[1]):
        if (kept >> c) & 1:
            key += np.uint64(codes[entry, c] + 1) * multipliers[c]
    return key


class Keys(NamedTuple):
    """What every entry shows under one pattern, ready to move on to the next.

    Attributes
    ----------
    columns
        Codes, one row a column.
    multipliers
        See `CellTable.multipliers`.
    keys, kept
        The key of each entry under the pattern kept[0].
    """

    columns: Array
    multipliers: Array
    keys: Array
    kept: Array


@compiled
def move_keys(keys, kept):  # type: ignore[no-untyped-def]
    """Make `keys` those of another pattern: only columns in which the two differ are read."""
    for c in range(keys.columns.shape[0]):
        shows, showed = (kept >> c) & 1, (keys.kept[0] >> c) & 1
        if shows and not showed:
            for i in range(keys.keys.shape[0]):
                keys.keys[i] += np.uint64(keys.columns[c, i] + 1) * keys.multipliers[c]
        elif showed and not shows:
            for i in range(keys.keys.shape[0]):
                keys.keys[i] -= np.uint64(keys.columns[c, i] + 1) * keys.multipliers[c]
    keys.kept[0] = kept


@compiled
def new_marks(count):  # type: ignore[no-untyped-def]
    """Marks that say of most keys in one look that they are not among up to `count` others."""
    return np.zeros(8 << bits_for(count), np.bool_)


@compiled
def mark_of(key, bits):  # type: ignore[no-untyped-def]
    """Where a key is marked among eight times as many marks as slots."""
    return np.int64((key * _SPREAD) >> np.uint64(61 - bits))


@compiled
def bits_for(count):  # type: ignore[no-untyped-def]
    """Bits of a table that `count` keys fill to half at most."""
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    return bits


@compiled
def new_slots(count):  # type: ignore[no-untyped-def]
    """An empty table for up to `count` keys: keys, stamps and numbers."""
    size = 1 << bits_for(count)
    stamps = np.empty(size, np.int64)
    stamps[:] = -1
    return np.empty(size, np.uint64), stamps, np.empty(size, np.int32)


@compiled
def slot_of(key, bits, stamp, keys, stamps):  # type: ignore[no-untyped-def]
    """Where a key is, or would be, in the table; other stamps mean free."""
    at = np.int64((key * _SPREAD) >> np.uint64(64 - bits))
    last = (1 << bits) - 1
    while stamps[at] == stamp and keys[at] != key:
        at = (at + 1) & last
    return at


@compiled
def number_classes(  # type: ignore[no-untyped-def]
    codes, entries, count, kept, multipliers, stamp, slots, numbers
):
    """Fill `numbers` with the class of each listed entry; gives the number of classes."""
    keys, stamps, found = slots
    bits = bits_for(count)
    classes = 0
    for i in range(count):
        key = key_of(codes, entries[i], kept, multipliers)
        at = slot_of(key, bits, stamp, keys, stamps)
        if stamps[at] != stamp:
            stamps[at] = stamp
            keys[at] = key
            found[at] = classes
            classes += 1
        numbers[i] = found[at]
    return classes


@compiled
def sort_classes(numbers, count, classes, starts, order):  # type: ignore[no-untyped-def]
    """Positions of each class together: those of class c are order[starts[c]:starts[c + 1]]."""
    for c in range(classes + 1):
        starts[c] = 0
    for i in range(count):
        starts[numbers[i] + 1] += 1
    for c in range(classes):
        starts[c + 1] += starts[c]
    for i in range(count):
        order[starts[numbers[i]]] = i
        starts[numbers[i]] += 1
    for c in range(classes, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


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
