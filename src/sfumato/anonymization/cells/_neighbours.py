"""Compiled: how many columns apart the nearest rows are.

Codes of a column are spread over a few buckets, and bit c of each of some machine words says in
which bucket column c is. Two rows then differ at least where their words do, so one row is compared
with another in a handful of instructions whatever the number of columns.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

__all__ = ["near_groups", "nearest_distances"]

_AT_ONCE = 2048


@intrinsic  # type: ignore[untyped-decorator]
def _ones(typing_context: Any, word: Any) -> Any:
    """Number of bits set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@numba.njit(nogil=True, cache=True)
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
                distances[z] += step * np.int64(_ones(differ[z] & mask))


@numba.njit(nogil=True, cache=True)
def nearest_distances(words, counts, k, masks, steps, most, queries, nearest):  # type: ignore[no-untyped-def]
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


@numba.njit(nogil=True, cache=True)
def near_groups(  # type: ignore[no-untyped-def]
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


@numba.njit(nogil=True, cache=True)
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
