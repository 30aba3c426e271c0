"""Compiled depth-first search of the lattice of column sets."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.quasi._partitions import MERGED, count_parts, makes_smaller, refine

__all__ = ["search_below"]

NO_LIMIT = np.iinfo(np.int64).max


@numba.njit(nogil=True, cache=True)
def search_below(  # type: ignore[no-untyped-def]
    table, cardinalities, weights, top, max_pairs, min_classes, k, max_size, known, found, every
):
    """All minimal good sets whose highest column is `top`, given those below it.

    Sets are visited in the order of their bit masks, so that every subset of a set comes before
    it; supersets of a good set are skipped. A set is good if it leaves at most `max_pairs` pairs
    of rows together and makes at least `min_classes` classes; or, where `k` is not 0, if it makes
    a class of fewer than k rows.

    `known` holds the good sets found so far and receives new ones from `found` on. With `every`
    given (pairs and classes of each mask), nothing is skipped and all sets are written down.
    Returns the number of known sets, or -1 - that number when `known` is full.
    """
    m, n = table.shape
    depth_limit = min(max_size, top + 1)
    all_sets = every.shape[0] > 0
    widest = 1
    for c in range(m):
        widest = max(widest, cardinalities[c])
    sums = np.zeros(widest, np.int64)
    lanes = np.zeros(4 * widest, np.int64)
    place = np.zeros(widest, np.int64)
    order = np.empty(n, np.int64)
    seen = np.full(MERGED, -1, np.int64)
    # The partition of each depth.
    tables = [table] * (depth_limit + 1)
    weight = [weights] * (depth_limit + 1)
    starts = np.zeros((depth_limit + 1, n // 2 + 2), np.int64)
    classes = np.zeros(depth_limit + 1, np.int64)
    alone = np.zeros(depth_limit + 1, np.int64)
    fixed = np.zeros(depth_limit + 1, np.int64)
    starts[0, 1] = n
    classes[0] = 1 if n > 0 else 0
    # Its column set, the column to try next, and the one to stop before.
    masks = np.zeros(depth_limit + 1, np.uint64)
    cursor = np.zeros(depth_limit + 1, np.int64)
    before = np.zeros(depth_limit + 1, np.int64)
    cursor[0], before[0] = top, top + 1
    heads = np.full(64, -1, np.int64)
    nexts = np.full(known.shape[0] * 64, -1, np.int64)
    for at in range(found):
        _chain(known[at], at, m, heads, nexts)
    depth = 0
    while depth >= 0:
        column = cursor[depth]
        if column >= before[depth] or depth >= depth_limit:
            depth -= 1
            continue
        cursor[depth] += 1
        mask = masks[depth] | (np.uint64(1) << np.uint64(column))
        if not all_sets and _holds_known(mask, known, heads, nexts, column):
            continue
        values = tables[depth][column]
        if k:
            good = makes_smaller(values, weight[depth], starts[depth], classes[depth], k, sums)
        else:
            pairs, parts = count_parts(
                values,
                weight[depth],
                starts[depth],
                classes[depth],
                cardinalities[column],
                sums,
                lanes,
                NO_LIMIT if all_sets else max_pairs - fixed[depth],
                0 if all_sets else min_classes - alone[depth],
            )
            pairs += fixed[depth]
            parts += alone[depth]
            good = pairs <= max_pairs and parts >= min_classes and not all_sets
            if all_sets:
                every[mask, 0], every[mask, 1] = pairs, parts
        if good:
            if found == known.shape[0]:
                return -1 - found
            known[found] = mask
            _chain(mask, found, m, heads, nexts)
            found += 1
            continue
        down = depth + 1
        if column == 0 or down >= depth_limit:
            continue
        smaller, lighter, made, entries, dropped, dropped_pairs = refine(
            tables[depth],
            weight[depth],
            starts[depth],
            classes[depth],
            column,
            cardinalities,
            sums,
            place,
            order,
            seen,
            starts[down],
        )
        alone[down] = alone[depth] + dropped
        fixed[down] = fixed[depth] + dropped_pairs
        if not all_sets and k == 0:
            stuck = fixed[down] + _pairs_within(lighter, entries)
            if stuck > max_pairs or alone[down] + entries < min_classes:
                continue
        tables[down], weight[down], classes[down] = smaller, lighter, made
        masks[down] = mask
        cursor[down], before[down] = 0, column
        depth = down
    return found


@numba.njit(nogil=True, cache=True)
def _chain(mask, at, columns, heads, nexts):  # type: ignore[no-untyped-def]
    """Put a known set at the head of its columns' chains."""
    for bit in range(columns):
        if mask >> np.uint64(bit) & np.uint64(1):
            nexts[at * 64 + bit] = heads[bit]
            heads[bit] = at


@numba.njit(nogil=True, cache=True)
def _holds_known(mask, known, heads, nexts, bit):  # type: ignore[no-untyped-def]
    """Whether a known set that contains `bit` lies within `mask`."""
    at = heads[bit]
    while at >= 0:
        if known[at] & ~mask == 0:
            return True
        at = nexts[at * 64 + bit]
    return False


@numba.njit(nogil=True, cache=True)
def _pairs_within(weights, entries):  # type: ignore[no-untyped-def]
    """Pairs of rows of one entry: they stay together whatever columns are still to come."""
    pairs = 0
    for i in range(entries):
        pairs += weights[i] * (weights[i] - 1) // 2
    return pairs
