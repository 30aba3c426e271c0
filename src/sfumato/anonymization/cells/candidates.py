"""Candidate groups: rows that are alike in some columns, listed by columns or mined as itemsets.

`Patterns` are the sets of columns that a group may keep, cheapest stars first. Candidates with s
stars are the classes of the projections on the other columns, so algorithms that take candidates by
price need no mining: they visit patterns in this order and count classes. With many columns the
sets are too many: then those of few stars are listed, and those that near rows share. Rows can
always be compared: a row shares its group with k - 1 others, so it pays at least for the columns in
which the last of its k - 1 nearest rows differs from it; and what k near rows have in common is a
pattern worth looking at.

`Candidates` are the rows that share a frequent itemset (Park & Shim, sections 4.3 and 4.4). Closed
itemsets are mined after LCM (Uno et al. 2004). Each row has exactly one item a column, so a set of
rows is extended by splitting it on a column: one counting pass gives all extensions at once. Each
closed set is reached once, by the extension that adds no item left of the column it splits (prefix
preserving). The list of sets found is also the queue of sets to be extended: no recursion, and no
memory besides the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget, each
from sfumato.errors import BudgetError
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.kernels.key_tables import bit_count

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
        budget = budget or Budget()
        nearest = np.zeros(len(entries), dtype=np.int64)
        at_once = max(1, min(_QUERIES, _PAIRS_AT_ONCE // self.table.entries))

        def compare(at: int) -> None:
            if budget.spent():
                return
            budget.progress("comparing rows", at / len(entries))
            _nearest_distances(
                self._words, self.table.counts, self.k, self._masks, self._steps, self._most,
                entries[at : at + at_once].astype(np.int64), nearest[at : at + at_once],
            )  # fmt: skip

        pairs = len(entries) * self.table.entries
        each(compare, range(0, len(entries), at_once), pairs, budget.threads)
        return np.minimum(nearest, self._most) * self._step

    def patterns(self, order: Array) -> npt.NDArray[np.int64]:
        """What groups of k near rows have in common, one bit a column; greedy in some order."""
        kept = np.zeros(self.table.entries, dtype=np.int64)
        groups = _near_groups(
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


# Codes of a column are spread over a few buckets, and bit c of each of some machine words says in
# which bucket column c is. Two rows then differ at least where their words do, so one row is
# compared with another in a handful of instructions whatever the number of columns.

_AT_ONCE = 2048


@compiled
def _apart(words, i, first, last, within, masks, steps, differ, distances):  # type: ignore[no-untyped-def]
    """Distances of entry i from the entries first to last, in columns of `within` only."""
    differ, distances = differ[: last - first], distances[: last - first]
    for z in range(distances.shape[0]):
        differ[z], distances[z] = np.uint64(0), 0
    for b in range(words.shape[0]):
        plane, word = words[b, first:last], words[b, i]
        for z in range(differ.shape[0]):
            differ[z] |= plane[z] ^ word
    for g in range(masks.shape[0]):
        mask, step = masks[g] & within, steps[g]
        if mask:
            for z in range(differ.shape[0]):
                distances[z] += step * np.int64(bit_count(differ[z] & mask))


@compiled
def _nearest_distances(words, counts, k, masks, steps, most, queries, nearest):  # type: ignore[no-untyped-def]
    """Fill in how far from each queried entry one must go to have k rows.

    `masks` are sets of columns and `steps` what a difference in one of them counts; distances
    beyond `most` are not reached by any k rows that may share a group. Entries are passed in pieces
    that stay in the processor's cache while all queries look at them.
    """
    n, everywhere = counts.shape[0], ~np.uint64(0)
    differ, distances = np.empty(_AT_ONCE, np.uint64), np.empty(_AT_ONCE, np.int64)
    tallies = np.zeros((queries.shape[0], most + 2), np.int64)
    nearest[:] = most + 1
    for first in range(0, n, _AT_ONCE):
        last = min(n, first + _AT_ONCE)
        for a in range(queries.shape[0]):
            _apart(words, queries[a], first, last, everywhere, masks, steps, differ, distances)
            limit, tally, closer = nearest[a], tallies[a], False
            for z in range(last - first):
                if distances[z] < limit:
                    tally[distances[z]] += counts[first + z]
                    closer = True
            if closer:
                rows = np.int64(0)
                for d in range(limit):
                    rows += tally[d]
                    if rows >= k:
                        nearest[a] = d
                        break


@compiled
def _near_groups(  # type: ignore[no-untyped-def]
    codes, words, counts, k, rounds, masks, steps, most, queue, kept
):
    """Group near rows greedily; fills `kept` with what each group has in common.

    The first entry of the queue takes k - 1 rows from behind it and both leave the queue. In each
    round it takes those nearest in the columns still common, more in later rounds. Gives the number
    of groups; the last rows may be in none.
    """
    m, left, groups = codes.shape[1], queue.shape[0], 0
    queue, waiting = queue.copy(), np.empty((words.shape[0], left), np.uint64)
    for b in range(words.shape[0]):
        for z in range(left):
            waiting[b, z] = words[b, queue[z]]
    differ, distances = np.empty(left, np.uint64), np.empty(left, np.int64)
    tally, gone = np.empty(most + 2, np.int64), np.zeros(left, np.bool_)
    at = taken = 0
    while at < left:
        if gone[at]:
            at += 1
            continue
        i = queue[at]
        gone[at] = True
        common, rows = ~np.uint64(0), counts[i]
        taken += 1
        for turn in range(rounds):
            if rows >= k:
                break
            wanted = max(1, (k - rows) // (rounds - turn))
            _apart(waiting, at, at, left, common, masks, steps, differ, distances)
            tally[:] = 0
            for z in range(at + 1, left):
                if not gone[z] and distances[z - at] <= most:
                    tally[distances[z - at]] += counts[queue[z]]
            near, limit = np.int64(0), most
            for d in range(most + 1):
                near += tally[d]
                if near >= wanted:
                    limit = d
                    break
            for z in range(at + 1, left):
                if wanted > 0 and not gone[z] and distances[z - at] <= limit:
                    j = queue[z]
                    gone[z] = True
                    taken += 1
                    rows += counts[j]
                    wanted -= counts[j]
                    for c in range(m):
                        if codes[j, c] != codes[i, c]:
                            common &= ~(np.uint64(1) << np.uint64(c))
        if rows >= k:
            kept[groups] = np.int64(common & ((np.uint64(1) << np.uint64(m)) - np.uint64(1)))
            groups += 1
        if 4 * taken > left:
            left = _closed_up(queue, waiting, gone, at + 1, left)
            at = taken = 0
    return groups


@compiled
def _closed_up(queue, waiting, gone, at, left):  # type: ignore[no-untyped-def]
    """Drop those who left the queue; gives how many remain."""
    stay = 0
    for z in range(at, left):
        if not gone[z]:
            queue[stay] = queue[z]
            for b in range(waiting.shape[0]):
                waiting[b, stay] = waiting[b, z]
            stay += 1
    gone[:stay] = False
    return stay


MOST_PLACES = 150_000_000
"""Entries that all candidates together may list; 4 bytes each."""
DEAREST = 1 << 62
"""More than any candidate costs."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Sets of entries that agree on a set of columns.

    Attributes
    ----------
    kept
        Columns each candidate shows, one bit a column.
    prices
        Price of the stars of one of its rows, in units.
    starts, members
        Entries of candidate c are ``members[starts[c]:starts[c + 1]]``.
    complete
        Whether all candidates are listed.
    """

    kept: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    complete: bool

    def __len__(self) -> int:
        return len(self.kept)

    def take(self, chosen: Array) -> Candidates:
        """Some of the candidates."""
        lengths = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.starts[:-1][chosen] - starts[:-1], lengths)
        members = self.members[shift + np.arange(starts[-1])]
        return Candidates(self.kept[chosen], self.prices[chosen], starts, members, self.complete)


def closed_candidates(
    table: CellTable, most: int = MOST_PLACES, *, below: int = DEAREST
) -> Candidates:
    """All closed itemsets of support k whose price is below a limit; without one, all of them.

    The empty one (all rows) is among them if it is cheap enough. Sets that cannot become cheaper
    than the limit are not extended. When they need more room than `most`, those found until then
    are given as incomplete.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 1]]), k=2)
    >>> sorted(format(kept, "02b") for kept in closed_candidates(table).kept.tolist())
    ['00', '01', '10']
    """
    return _mined(table, True, most, below)


def frequent_candidates(table: CellTable) -> Candidates:
    """All frequent itemsets, closed or not."""
    return _mined(table, False, MOST_PLACES, DEAREST)


def require_complete(candidates: Candidates) -> None:
    """Refuse to go on without all candidates."""
    if not candidates.complete:
        raise BudgetError(
            f"the candidates take more than {MOST_PLACES:,} places in memory",
            remedy="Use the algorithm dr, which needs none of them, or a larger k.",
        )


def _mined(table: CellTable, closed: bool, most: int, below: int) -> Candidates:
    roots, root_starts = kernels.group_rows(*table.blocks())
    # Columns of many values first: they split the rows into small sets early.
    free = table.free[np.argsort(-table.cardinalities[table.free], kind="stable")]
    fixed_bits = int(table.bits[table.prices < 0].sum())
    kept, starts, members, complete = _mine(
        table.codes,
        table.counts,
        free,
        table.k,
        roots.astype(np.int64),
        root_starts,
        fixed_bits,
        closed,
        max(most, 4 * table.entries),
        table.prices.astype(np.int64),
        below,
    )
    prices = np.zeros(len(kept), dtype=np.int64)
    for column in table.free.tolist():
        prices += np.where((kept >> column) & 1, 0, table.prices[column])
    found = Candidates(kept.copy(), prices, starts.copy(), members, bool(complete))
    cheap = prices < below
    return found if cheap.all() else found.take(np.flatnonzero(cheap))


@compiled
def _mine(codes, counts, free, k, roots, root_starts, kept0, closed, most, prices, below):  # type: ignore[no-untyped-def]
    """Sets of entries with a common itemset of support k.

    Parameters
    ----------
    free
        Columns to extend by, in order.
    roots, root_starts
        Entries of each block (one block without protected columns).
    kept0
        Bits of the protected columns.
    closed
        Whether itemsets must be closed; else all frequent ones are listed.
    most
        Places for entries; when they are used up, the last answer is False.
    prices, below
        Price of a star in each column, and of the sets that matter. An extension shows no column
        left of the one it splits that its parent does not show: what those cost it cannot save.

    Returns
    -------
    kept, starts, members, complete
    """
    capacity, room = 1024, max(4096, 4 * roots.shape[0])
    kept, core = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    starts = np.zeros(capacity + 1, np.int64)
    members = np.empty(room, np.int32)
    widest = 0
    for c in range(codes.shape[1]):
        widest = max(widest, codes[:, c].max() + 1)
    tally, place = np.zeros(widest, np.int64), np.zeros(widest, np.int64)
    values = np.empty(max(1, min(widest, codes.shape[0])), np.int64)
    found, complete = 0, True
    for b in range(root_starts.shape[0] - 1):
        first, last = root_starts[b], root_starts[b + 1]
        support = 0
        for z in range(first, last):
            support += counts[roots[z]]
        if support < k:
            continue
        if found + 1 >= capacity:
            capacity *= 2
            kept, core = _longer(kept, capacity), _longer(core, capacity)
            starts = _longer(starts, capacity + 1)
        at = starts[found]
        for z in range(first, last):
            members[at + z - first] = roots[z]
        kept[found] = kept0
        if closed:
            kept[found] = _closure(codes, members, at, at + last - first, free, kept0, 0, -1)
        core[found] = -1
        starts[found + 1] = at + last - first
        found += 1
    parent = 0
    while parent < found:
        lo, hi = starts[parent], starts[parent + 1]
        spent = 0
        for f in range(core[parent] + 1):
            if not (kept[parent] >> free[f]) & 1:
                spent += prices[free[f]]
        for f in range(core[parent] + 1, free.shape[0]):
            d = free[f]
            if spent >= below:
                break
            if (kept[parent] >> d) & 1:
                continue
            spent += prices[d]
            distinct = 0
            for z in range(lo, hi):
                v = codes[members[z], d]
                if tally[v] == 0:
                    values[distinct] = v
                    distinct += 1
                tally[v] += counts[members[z]]
            at = starts[found]
            if at + hi - lo > members.shape[0]:
                if at + hi - lo > most:
                    complete = False
                else:
                    members = _longer(members, min(most, 2 * (at + hi - lo)))
            if not complete:
                for z in range(distinct):
                    tally[values[z]] = 0
                return kept[:found], starts[: found + 1], members[: starts[found]], complete
            # Entries of each value that is frequent go side by side behind the sets found so far.
            ends = at
            for z in range(distinct):
                place[values[z]] = -1
                if tally[values[z]] >= k:
                    place[values[z]] = 0
            for z in range(lo, hi):
                v = codes[members[z], d]
                if place[v] >= 0:
                    place[v] += 1
            for z in range(distinct):
                v = values[z]
                if place[v] >= 0:
                    length = place[v]
                    place[v] = ends
                    ends += length
            for z in range(lo, hi):
                v = codes[members[z], d]
                if place[v] >= 0:
                    members[place[v]] = members[z]
                    place[v] += 1
            begin, write = at, at
            for z in range(distinct):
                v = values[z]
                tally[v] = 0
                if place[v] < 0:
                    continue
                end = place[v]
                shown = kept[parent] | (np.int64(1) << d)
                if closed:
                    shown = _closure(codes, members, begin, end, free, shown, f, kept[parent])
                if shown >= 0:
                    if found + 1 >= capacity:
                        capacity *= 2
                        kept, core = _longer(kept, capacity), _longer(core, capacity)
                        starts = _longer(starts, capacity + 1)
                    for y in range(begin, end):
                        members[write + y - begin] = members[y]
                    write += end - begin
                    kept[found], core[found] = shown, f
                    starts[found + 1] = write
                    found += 1
                begin = end
        parent += 1
    return kept[:found], starts[: found + 1], members[: starts[found]], complete


@compiled
def _closure(codes, members, lo, hi, free, shown, upto, parent):  # type: ignore[no-untyped-def]
    """All columns on which the entries agree; -1 if one left of `upto` is new to the parent."""
    first = members[lo]
    for f in range(free.shape[0]):
        c = free[f]
        if (shown >> c) & 1:
            continue
        value, same = codes[first, c], True
        for z in range(lo + 1, hi):
            if codes[members[z], c] != value:
                same = False
                break
        if same:
            if f < upto and parent >= 0:
                return np.int64(-1)
            shown |= np.int64(1) << c
    return np.int64(shown)


@compiled
def _longer(array, length):  # type: ignore[no-untyped-def]
    longer = np.empty(length, array.dtype)
    for i in range(array.shape[0]):
        longer[i] = array[i]
    return longer
