"""The algorithms of Park & Shim by name: greedy covers made into partitions, and a forest.

APPROX-DR (section 4.5) takes candidates by increasing price and keeps the still uncovered rows of
each that has enough of them. It needs no closed itemsets: a set of items that is not closed has the
same rows as a larger one, which was visited before at a lower price. The ascent to the lower bound
opens candidates again and again where rows are worth more than they cost. Those open in a good
share of its last steps are about those a fractional optimum opens, so `guided` covers by them
first, cheapest first, and by what APPROX-DR would take then.

APPROX-CF, -FQ and -NAIVE cost at most 2(1 + ln 2k) times the optimum (Theorem 4.11 and 4.14), CF-β
at most β times that. DS covers by small diameters instead (Meyerson & Williams 2004). GR, the
paper's baseline, is the forest algorithm of Aggarwal et al. 2005, within O(k) of the optimum: each
row is joined to near rows until every tree has k rows, and large trees are cut. Nearest rows come
from classes of patterns instead of all pairs of rows.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.bounds import Dual
from sfumato.anonymization.cells.candidates import (
    DEAREST,
    Candidates,
    Patterns,
    closed_candidates,
    frequent_candidates,
    patterns_of,
    require_complete,
)
from sfumato.anonymization.cells.table import (
    CellTable,
    Partition,
    new_slots,
    number_classes,
    sort_classes,
)
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.kernels.compiling import compiled
from sfumato.privacy.rules import forget, groups_hold, holds, take_in

ALGORITHMS = ("dr", "cf", "fq", "naive", "gr", "ds")
"""OPT-LB, the eighth of the paper with CF-β, is the bound ``opt-lb``."""

_MOST_SUBSETS = 200_000
_MOST_BALLS_ROWS = 2_000


_AT_ONCE = 64
"""Patterns after which it is looked whether time is left."""
_OFTEN = 0.1
"""Share of the last steps in which a candidate must have been open."""


def start(
    table: CellTable, patterns: Patterns, algorithm: str, beta: float, budget: Budget
) -> Partition:
    """A first partition by the algorithm named.

    Raises
    ------
    ParameterError
        If rules beyond k are asked of an algorithm other than dr.
    """
    if algorithm == "dr":
        return approx_dr(table, patterns, budget)
    if len(table.rules.kinds):
        raise ParameterError(
            f"the algorithm {algorithm} supports k-anonymity only",
            remedy="For l-diversity and the other models use the algorithm dr.",
        )
    if algorithm == "cf":
        return approx_cf(table, beta)
    if algorithm == "gr":
        return approx_gr(table, patterns)
    simple = {"fq": approx_fq, "naive": approx_naive, "ds": approx_ds}
    return simple[algorithm](table)


def approx_dr(
    table: CellTable, patterns: Patterns | None = None, budget: Budget | None = None
) -> Partition:
    """Candidates by increasing price; each takes its uncovered rows if they are enough.

    When the budget ends, the rows not reached yet are starred in every column that may be.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> approx_dr(table).cost(table)
    4.0
    """
    patterns = patterns_of(table) if patterns is None else patterns
    budget = budget or Budget()
    group = np.full(table.entries, -1, dtype=np.int64)
    groups = 0
    for at in range(0, len(patterns), _AT_ONCE):
        budget.progress("covering rows", at / len(patterns))
        if budget.spent() or (group >= 0).all():
            break
        upto = slice(at, at + _AT_ONCE)
        if patterns.floor is not None:
            # Rows that must pay more than these patterns cost are set aside.
            group[group < 0] = -1
            group[(group < 0) & (patterns.floor > patterns.prices[upto][-1])] = -2
        groups = _take(table, patterns.kept[upto], group, groups)
    group[group < 0] = -1
    groups = _take(table, patterns.kept[-1:], group, groups)
    return _complete(table, group, groups)


def guided(table: CellTable, patterns: Patterns, dual: Dual) -> Partition:
    """The partition that takes candidates which were open often, cheapest first.

    Examples
    --------
    >>> from sfumato.anonymization.cells.bounds import opt_lb
    >>> from sfumato.anonymization.cells.bounds import dual_of
    >>> from sfumato.anonymization.cells.candidates import patterns_of
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> dual = dual_of(table, opt_lb(table), 8000)
    >>> guided(table, patterns_of(table), dual).cost(table)
    4.0
    """
    candidates = dual.candidates
    chosen = np.flatnonzero(dual.opened >= _OFTEN)
    order = chosen[np.lexsort((-dual.opened[chosen], candidates.prices[chosen]))]
    group = np.full(table.entries, -1, dtype=np.int64)
    facts = (table.counts, table.sensitive, table.rules)
    groups = _take_candidates(order, candidates.starts, candidates.members, *facts, group, 0)
    return _complete(table, group, _take(table, patterns.kept, group, int(groups)))


def approx_cf(table: CellTable, beta: float = 1.0) -> Partition:
    """GEN-COVER-FQ over closed itemsets; with β > 1 only over those with few stars, and all rows.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> approx_cf(table).cost(table)
    4.0
    """
    candidates = closed_candidates(table, below=_cheap(table, beta))
    require_complete(candidates)
    if beta > 1.0:
        candidates = _joined(candidates, _whole_blocks(table))
    return _covered(table, candidates)


def _cheap(table: CellTable, beta: float) -> int:
    """The price below which β lets a set be a candidate: a β-th of all stars of a row."""
    dearest = int(table.prices[table.free].sum())
    if beta <= 1.0:
        return DEAREST
    least = int(dearest / beta)
    while least * beta < dearest:
        least += 1
    return least


def approx_fq(table: CellTable) -> Partition:
    """GEN-COVER-FQ over all frequent itemsets: never better than CF, kept for comparison."""
    candidates = frequent_candidates(table)
    require_complete(candidates)
    return _covered(table, candidates)


def approx_naive(table: CellTable) -> Partition:
    """GEN-COVER over all subsets of k to 2k - 1 rows; for tiny tables.

    Raises
    ------
    ParameterError
        If there are too many subsets.
    """
    rows = _one_a_row(table)
    n, k = rows.entries, rows.k
    sizes = range(k, min(2 * k - 1, n) + 1)
    if sum(comb(n, size) for size in sizes) > _MOST_SUBSETS:
        raise ParameterError(
            f"the algorithm naive would have to look at more than {_MOST_SUBSETS:,} sets of rows",
            remedy="Use cf, which has the same guarantee.",
        )
    fixed = rows.codes[:, rows.prices < 0]
    sets = [
        np.array(chosen)
        for size in sizes
        for chosen in combinations(range(n), size)
        if (fixed[list(chosen)] == fixed[chosen[0]]).all()
    ]
    return _of_rows(table, _covered(rows, _listed(rows, sets)))


def approx_ds(table: CellTable) -> Partition:
    """Greedy cover by balls around rows, least radius per row newly covered; for small tables.

    Raises
    ------
    ParameterError
        If there are too many rows.
    """
    if table.rows > _MOST_BALLS_ROWS:
        raise ParameterError(
            f"the algorithm ds takes at most {_MOST_BALLS_ROWS:,} rows", remedy="Use dr or cf."
        )
    rows = _one_a_row(table)
    free, fixed = table.free, np.flatnonzero(table.prices < 0)
    sets, radii = [], []
    for centre in range(rows.entries):
        apart = (rows.codes[:, free] != rows.codes[centre, free]).sum(axis=1)
        apart[(rows.codes[:, fixed] != rows.codes[centre, fixed]).any(axis=1)] = len(free) + 1
        for radius in range(len(free) + 1):
            inside = np.flatnonzero(apart <= radius)
            if len(inside) >= rows.k:
                sets.append(inside)
                radii.append(radius)
    balls = _listed(rows, sets)
    balls = Candidates(balls.kept, np.array(radii), balls.starts, balls.members, True)
    found = _covered(rows, balls, most=rows.entries)
    return _of_rows(table, _halved(rows, found))


def _covered(table: CellTable, candidates: Candidates, most: int | None = None) -> Partition:
    at_once = 2 * table.k - 1 if most is None else most
    facts = (candidates.starts, candidates.members.astype(np.int64), candidates.prices)
    set_starts, rows = _gen_cover(table.counts, table.k, at_once, *facts)
    return Partition.of_rows(table, _convert(table.rows, table.k, set_starts, rows))


def _whole_blocks(table: CellTable) -> Candidates:
    """All rows that may share a group, starred wherever possible."""
    blocks, count = table.blocks()
    return _listed(table, [np.flatnonzero(blocks == b) for b in range(count)])


def _listed(table: CellTable, sets: list[Any]) -> Candidates:
    """Sets of entries as candidates."""
    starts = np.concatenate([[0], np.cumsum([len(chosen) for chosen in sets])]).astype(np.int64)
    members = np.concatenate(sets).astype(np.int32)
    codes = table.codes[members]
    differ = np.maximum.reduceat(codes, starts[:-1]) > np.minimum.reduceat(codes, starts[:-1])
    kept = (~differ).astype(np.int64) @ table.bits
    return Candidates(kept, table.price_of(differ), starts, members, True)


def _joined(a: Candidates, b: Candidates) -> Candidates:
    return Candidates(
        np.concatenate([a.kept, b.kept]),
        np.concatenate([a.prices, b.prices]),
        np.concatenate([a.starts, a.starts[-1] + b.starts[1:]]),
        np.concatenate([a.members, b.members]),
        True,
    )


def _one_a_row(table: CellTable) -> CellTable:
    """The table with an entry for every row."""
    rows = table.take(np.repeat(np.arange(table.entries), table.counts))
    return replace(rows, counts=np.ones(rows.entries, dtype=np.int64))


def _of_rows(table: CellTable, found: Partition) -> Partition:
    """A partition of single rows as one of combinations."""
    entry = np.repeat(np.arange(table.entries), table.counts)
    return Partition(entry[found.entry], found.rows, found.group).tidy()


def _halved(rows: CellTable, found: Partition) -> Partition:
    """Groups of 2k rows or more cut into groups of k to 2k - 1; rows that are alike stay near."""
    order = np.lexsort((*rows.codes.T[::-1], found.group[np.argsort(found.entry)]))
    group = found.group[np.argsort(found.entry)]
    sizes = np.bincount(group)
    within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parts = np.maximum(1, sizes // rows.k)
    part = np.minimum(within // rows.k, np.repeat(parts, sizes) - 1)
    halved = np.empty(len(order), dtype=np.int64)
    halved[order] = group[order] * (rows.entries + 1) + part
    return Partition(np.arange(len(order)), np.ones(len(order), dtype=np.int64), halved).tidy()


@compiled
def _gen_cover(counts, k, most, starts, members, prices):  # type: ignore[no-untyped-def]
    """GEN-COVER-FQ (figure 9): repeatedly the candidate with the least price per row newly covered.

    Rows of one combination are alike, so those covered so far are always its first ones; `offsets`
    says where the rows of each combination begin.

    `most` rows are taken at once at most (2k - 1 in the paper). Members are reordered in place:
    combinations already covered move to the front of each candidate. The ratio of a candidate only
    grows as rows are covered, so a heap with late updates finds the least.

    Returns
    -------
    set_starts, rows
        Rows of the chosen sets, by number.
    """
    n, sets = counts.shape[0], prices.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        offsets[i + 1] = offsets[i] + counts[i]
    covered, begin = np.zeros(n, np.int64), starts[:-1].copy()
    support = np.zeros(sets, np.int64)
    heap = [(0.0, 0, 0)]
    heap.pop()  # its type is known now
    for s in range(sets):
        for z in range(starts[s], starts[s + 1]):
            support[s] += counts[members[z]]
        fresh = min(support[s], most)
        heap.append((prices[s] / fresh, -fresh, s))
    heapq.heapify(heap)
    room = max(1024, 2 * offsets[n])
    rows, set_starts = np.empty(room, np.int64), [0]
    written, left = 0, offsets[n]
    while left > 0:
        ratio, _, s = heapq.heappop(heap)
        fresh, z = 0, begin[s]
        while z < starts[s + 1] and fresh < most:
            i = members[z]
            if covered[i] == counts[i]:
                members[z], members[begin[s]] = members[begin[s]], i
                begin[s] += 1
            else:
                fresh += counts[i] - covered[i]
            z += 1
        if fresh == 0:
            continue
        fresh = min(fresh, most)
        now = prices[s] / fresh
        if now > ratio:
            heapq.heappush(heap, (now, -fresh, s))
            continue
        if written + max(most, support[s] if support[s] <= most else 0, k) > room:
            room = 2 * room + support[s] + k
            rows = np.append(rows[:written], np.empty(room - written, np.int64))
        fill = support[s] - fresh if support[s] <= most else max(0, k - fresh)
        taken, z = 0, starts[s]
        while z < starts[s + 1] and (taken < fresh or fill > 0):
            i = members[z]
            # Rows covered before come in only to fill up; which of them does not matter.
            for r in range(min(fill, covered[i])):
                rows[written] = offsets[i] + r
                written += 1
            fill -= min(fill, covered[i])
            come = min(fresh - taken, counts[i] - covered[i])
            for r in range(come):
                rows[written] = offsets[i] + covered[i] + r
                written += 1
            covered[i] += come
            taken += come
            z += 1
        left -= taken
        set_starts.append(written)
        heapq.heappush(heap, (now, -fresh, s))
    return np.array(set_starts), rows[:written]


@compiled
def _convert(total, k, set_starts, rows):  # type: ignore[no-untyped-def]
    """CONVERT (figure 6): a cover as a partition, given as the set of each row.

    While a row is in two sets it leaves the larger if that has more than k rows; else both have k
    and become one set of at most 2k - 1.
    """
    sets = set_starts.shape[0] - 1
    parent, size = np.arange(sets), np.empty(sets, np.int64)
    owner = np.full(total, -1, np.int64)
    for s in range(sets):
        size[s] = set_starts[s + 1] - set_starts[s]
    for s in range(sets):
        for z in range(set_starts[s], set_starts[s + 1]):
            mine = _root(parent, s)
            if owner[rows[z]] < 0:
                owner[rows[z]] = mine
                continue
            theirs = _root(parent, owner[rows[z]])
            if theirs == mine:
                size[mine] -= 1  # counted by both before they became one
            elif size[mine] > k and size[mine] >= size[theirs]:
                size[mine] -= 1
            elif size[theirs] > k:
                size[theirs] -= 1
                owner[rows[z]] = mine
            else:
                parent[mine] = theirs
                size[theirs] += size[mine] - 1
    for r in range(total):
        owner[r] = _root(parent, owner[r])
    return owner


@compiled
def _root(parent, s):  # type: ignore[no-untyped-def]
    while parent[s] != s:
        parent[s] = parent[parent[s]]
        s = parent[s]
    return s


def approx_gr(table: CellTable, patterns: Patterns | None = None) -> Partition:
    """Trees of near rows as groups.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> approx_gr(table).cost(table)
    4.0
    """
    patterns = patterns_of(table) if patterns is None else patterns
    shown = sum((patterns.kept >> c) & 1 for c in range(table.width))
    by_stars = patterns.kept[np.argsort(-shown, kind="stable")]
    entry = np.repeat(np.arange(table.entries), table.counts)
    parent = _grow_forest(table.codes, entry, table.k, by_stars, table.multipliers)
    return Partition.of_rows(table, _cut_trees(parent, table.k))


@compiled
def _grow_forest(codes, rows, k, kept, multipliers):  # type: ignore[no-untyped-def]
    """Parent of each row in a forest whose trees have at least k rows, -1 for roots.

    As long as a tree has fewer than k rows, its root is joined to the nearest row outside. Patterns
    come by the number of stars, so rows in one class of a pattern with s stars that are not in
    one tree yet differ in exactly s columns.
    """
    n = rows.shape[0]
    parent = np.full(n, -1, np.int64)
    leader, size, root = np.arange(n), np.ones(n, np.int64), np.arange(n)
    slots = new_slots(n)
    numbers = np.empty(n, np.int32)
    starts, order = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    for p in range(kept.shape[0]):
        classes = number_classes(codes, rows, n, kept[p], multipliers, p, slots, numbers)
        sort_classes(numbers, n, classes, starts, order)
        for c in range(classes):
            members = order[starts[c] : starts[c + 1]]
            for at in range(members.shape[0]):
                u = members[at]
                mine = _leader(leader, u)
                if size[mine] >= k or root[mine] != u:
                    continue
                for step in range(1, members.shape[0]):
                    v = members[(at + step) % members.shape[0]]
                    theirs = _leader(leader, v)
                    if theirs != mine:
                        parent[u] = v
                        kept_root = root[theirs]
                        if size[theirs] < size[mine]:
                            mine, theirs = theirs, mine
                        leader[mine] = theirs
                        size[theirs] += size[mine]
                        root[theirs] = kept_root
                        break
    return parent


@compiled
def _leader(leader, u):  # type: ignore[no-untyped-def]
    while leader[u] != u:
        leader[u] = leader[leader[u]]
        u = leader[u]
    return u


@compiled
def _cut_trees(parent, k):  # type: ignore[no-untyped-def]
    """Cut each tree from the leaves up into parts of k to 3k - 3 rows; the part of each row.

    Subtrees of fewer than k rows that hang on one row are gathered until they are k together.
    """
    n = parent.shape[0]
    children = np.zeros(n, np.int64)
    for u in range(n):
        if parent[u] >= 0:
            children[parent[u]] += 1
    order, done = np.empty(n, np.int64), 0
    for u in range(n):
        if children[u] == 0:
            order[done] = u
            done += 1
    at = 0
    while at < done:
        above = parent[order[at]]
        at += 1
        if above >= 0:
            children[above] -= 1
            if children[above] == 0:
                order[done] = above
                done += 1
    # Each row starts a bunch; bunches below one row are linked until they hold k rows.
    link, part = np.arange(n), np.full(n, -1, np.int64)
    held = np.ones(n, np.int64)
    gathered, last = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    parts = 0
    for at in range(n):
        u = order[at]
        bunch = u
        if gathered[u] >= 0:
            link[gathered[u]] = u
            held[u] += held[gathered[u]]
        above = parent[u]
        if held[bunch] >= k or above < 0:
            if held[bunch] >= k or last[u] < 0:
                part[bunch] = parts
                last[u] = parts
                parts += 1
            else:
                part[bunch] = last[u]
            if above >= 0:
                last[above] = last[u]
            continue
        if last[u] >= 0:
            last[above] = last[u]
        if gathered[above] < 0:
            gathered[above] = bunch
        else:
            link[bunch] = gathered[above]
            held[gathered[above]] += held[bunch]
            if held[gathered[above]] >= k:
                part[gathered[above]] = parts
                last[above] = parts
                gathered[above] = -1
                parts += 1
    for at in range(n - 1, -1, -1):
        u = order[at]
        if part[u] < 0:
            top = u
            while part[top] < 0:
                top = link[top]
            part[u] = part[top]
    return part


def possible_entries(table: CellTable) -> npt.NDArray[np.bool_]:
    """Entries that can be in a group at all: those of equal protected columns satisfy all rules."""
    blocks, count = table.blocks()
    good = groups_hold(blocks, count, table.counts, table.sensitive, table.rules)
    return np.asarray(good[blocks])


def _take(table: CellTable, kept: Any, group: Any, groups: int) -> int:
    facts = (table.codes, table.counts, table.sensitive, table.rules)
    return int(_take_classes(*facts, kept, table.multipliers, group, groups))


def _complete(table: CellTable, group: Any, groups: int) -> Partition:
    """Put the rows that no candidate took into groups; leave out those that fit none.

    Joining a group keeps every rule that only asks for company. Where a rule does not survive it,
    the groups of a block are joined until it holds again.
    """
    left = np.flatnonzero(group < 0)
    if len(left):
        possible = possible_entries(table)
        _attach(table.codes, table.counts, table.prices, group, groups, left[possible[left]])
        if len(table.rules.kinds):
            _join_broken(table, group, groups)
    return Partition.of_entries(table, group)


def _join_broken(table: CellTable, group: Any, groups: int) -> None:
    """Join groups that a leftover row broke with others of their block, all of it if need be."""
    blocks, _ = table.blocks()
    good = groups_hold(group, groups, table.counts, table.sensitive, table.rules)
    for broken in np.unique(group[(group >= 0) & ~good[group]]):
        mine = np.flatnonzero(group == broken)
        block = np.flatnonzero((blocks == blocks[mine[:1]]) & (group >= 0)) if len(mine) else mine
        for other in np.unique(group[block]):
            one = np.zeros(len(mine), dtype=np.int64)
            if groups_hold(one, 1, table.counts[mine], table.sensitive[mine], table.rules)[0]:
                break
            group[group == other] = broken
            mine = np.flatnonzero(group == broken)


@compiled
def _class_holds(members, first, last, counts, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Whether the entries members[first:last] together satisfy all rules; `tally` is all zero."""
    size = 0
    for z in range(first, last):
        size += counts[members[z]]
        take_in(members[z], counts[members[z]], sensitive, rules, tally)
    good = holds(size, tally, rules)
    for z in range(first, last):
        forget(members[z], sensitive, rules, tally)
    return good


@compiled(direct=True)
def _take_classes(  # type: ignore[no-untyped-def]
    codes, counts, sensitive, rules, kept, multipliers, group, groups
):
    """APPROX-DR over some patterns in turn; fills `group` and gives the number of groups.

    A class of uncovered entries, those in group -1, becomes a group if it satisfies all rules.
    """
    n = codes.shape[0]
    open_ = np.empty(n, np.int64)
    left = 0
    for i in range(n):
        if group[i] == -1:
            open_[left] = i
            left += 1
    slots = new_slots(left)
    numbers = np.empty(left, np.int32)
    sizes = np.empty(left, np.int64)
    number_of = np.empty(left, np.int64)
    starts, order = np.empty(left + 1, np.int64), np.empty(left, np.int64)
    members = np.empty(left, np.int64)
    tally = np.zeros(rules.offsets[-1], np.int64)
    for p in range(kept.shape[0]):
        if left == 0:
            break
        classes = number_classes(codes, open_, left, kept[p], multipliers, p, slots, numbers)
        for c in range(classes):
            sizes[c] = 0
            number_of[c] = -1
        for i in range(left):
            sizes[numbers[i]] += counts[open_[i]]
        any_ = False
        for c in range(classes):
            if sizes[c] >= rules.k:
                any_ = True
        if not any_:
            continue
        if rules.kinds.shape[0]:
            sort_classes(numbers, left, classes, starts, order)
            for i in range(left):
                members[i] = open_[order[i]]
        for c in range(classes):
            if sizes[c] < rules.k:
                continue
            if rules.kinds.shape[0] and not _class_holds(
                members, starts[c], starts[c + 1], counts, sensitive, rules, tally
            ):
                continue
            number_of[c] = groups
            groups += 1
        w = 0
        for i in range(left):
            taken = number_of[numbers[i]]
            if taken >= 0:
                group[open_[i]] = taken
            else:
                open_[w] = open_[i]
                w += 1
        left = w
    return groups


@compiled
def _attach(codes, counts, prices, group, groups, left):  # type: ignore[no-untyped-def]
    """Put each leftover entry into the group where the total grows least (never below k)."""
    n, m = codes.shape
    first = np.full(groups, -1, np.int64)
    starred = np.zeros((groups, m), np.bool_)
    size = np.zeros(groups, np.int64)
    for i in range(n):
        q = group[i]
        if q < 0:
            continue
        if first[q] < 0:
            first[q] = i
        for c in range(m):
            if codes[i, c] != codes[first[q], c]:
                starred[q, c] = True
        size[q] += counts[i]
    for i in left:
        best, least = -1, np.int64(1) << 62
        for q in range(groups):
            before, after = np.int64(0), np.int64(0)
            possible = True
            for c in range(m):
                if starred[q, c]:
                    before += prices[c]
                    after += prices[c]
                elif codes[i, c] != codes[first[q], c]:
                    if prices[c] < 0:
                        possible = False
                        break
                    after += prices[c]
            if not possible:
                continue
            more = (size[q] + counts[i]) * after - size[q] * before
            if more < least:
                least, best = more, q
        group[i] = best
        if best >= 0:
            size[best] += counts[i]
            for c in range(m):
                if codes[i, c] != codes[first[best], c]:
                    starred[best, c] = True


@compiled(direct=True)
def _take_candidates(order, starts, members, counts, sensitive, rules, group, groups):  # type: ignore[no-untyped-def]
    """Fill `group` from the candidates in this order; gives the number of groups."""
    left = np.empty(counts.shape[0], np.int64)
    tally = np.zeros(rules.offsets[-1], np.int64)
    for c in order:
        uncovered, rows = 0, 0
        for z in range(starts[c], starts[c + 1]):
            if group[members[z]] < 0:
                left[uncovered] = members[z]
                uncovered += 1
                rows += counts[members[z]]
        if rows < rules.k:
            continue
        if rules.kinds.shape[0] and not _class_holds(
            left, 0, uncovered, counts, sensitive, rules, tally
        ):
            continue
        for z in range(uncovered):
            group[left[z]] = groups
        groups += 1
    return groups
