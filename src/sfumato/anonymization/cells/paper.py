"""The algorithms of Park & Shim by name: greedy covers made into partitions, and a forest.

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

from sfumato.anonymization.cells.candidates import (
    DEAREST,
    Candidates,
    closed_candidates,
    frequent_candidates,
    require_complete,
)
from sfumato.anonymization.cells.direct import approx_dr
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns, patterns_of
from sfumato.anonymization.cells.table import CellTable, new_slots, number_classes, sort_classes
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.kernels.compiling import compiled

__all__ = [
    "ALGORITHMS",
    "approx_cf",
    "approx_ds",
    "approx_fq",
    "approx_gr",
    "approx_naive",
    "start",
]

ALGORITHMS = ("dr", "cf", "fq", "naive", "gr", "ds")
"""OPT-LB, the eighth of the paper with CF-β, is the bound ``opt-lb``."""

_MOST_SUBSETS = 200_000
_MOST_BALLS_ROWS = 2_000


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
