"""Compiled loops of GEN-COVER-FQ and CONVERT (Park & Shim, figures 6 and 9).

Rows of one combination are alike, so those covered so far are always its first ones; `offsets` says
where the rows of each combination begin.
"""

from __future__ import annotations

import heapq

import numba
import numpy as np

__all__ = ["convert", "gen_cover"]


@numba.njit(nogil=True, cache=True)
def gen_cover(counts, k, most, starts, members, prices):  # type: ignore[no-untyped-def]
    """Greedy cover: repeatedly the candidate with the least price per row newly covered.

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


@numba.njit(nogil=True, cache=True)
def convert(total, k, set_starts, rows):  # type: ignore[no-untyped-def]
    """A cover as a partition: the set of each row.

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


@numba.njit(nogil=True, cache=True)
def _root(parent, s):  # type: ignore[no-untyped-def]
    while parent[s] != s:
        parent[s] = parent[parent[s]]
        s = parent[s]
    return s
