"""Compiled cuts of Mondrian: entries are moved in memory, so that a group is one run of rows."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymize.space import TREE
from sfumato.privacy._kernels import holds

__all__ = ["cut_blocks"]


@numba.njit(nogil=True, cache=True)
def _node(axes, axis, low, high):  # type: ignore[no-untyped-def]
    """Lowest node of a tree that covers two positions, counted from the axis' first node."""
    base = axes.node_offsets[axis]
    node = axes.leaf[axes.offsets[axis] + low]
    while low < axes.first[base + node] or high > axes.last[base + node]:
        node = axes.parent[base + node]
    return node


@numba.njit(nogil=True, cache=True)
def _spread(axes, axis, low, high):  # type: ignore[no-untyped-def]
    """How much of an axis a group covers: what it loses by being one group."""
    if low == high:
        return 0.0
    if axes.kinds[axis] == TREE:
        return axes.loss[axes.node_offsets[axis] + _node(axes, axis, low, high)]
    places = axes.places[axes.offsets[axis] :]
    return min(1.0, places[high] - places[low])


@numba.njit(nogil=True, cache=True)
def _middle(low, high, sizes, total):  # type: ignore[no-untyped-def]
    """The cut that halves a group exactly, and how many rows of the next position go left too."""
    left = 0
    for position in range(low, high + 1):
        if left + sizes[position] >= total // 2:
            return position - 1, total // 2 - left
        left += sizes[position]
    return high, 0


@numba.njit(nogil=True, cache=True)
def _best_cut(axes, axis, low, high, sizes, total, k, preferred):  # type: ignore[no-untyped-def]
    """Last position of the left part: nearest to half, both parts of at least k rows; -1 if none.

    Trees are cut between children of the group's node. Where the workload's predicates cut
    (`preferred`), a cut is taken before all others.
    """
    node = _node(axes, axis, low, high) if axes.kinds[axis] == TREE else -1
    best, best_distance, best_preferred = -1, total, False
    left = 0
    for position in range(low, high):
        left += sizes[position]
        if left < k:
            continue
        if total - left < k:
            break
        if sizes[position] == 0 and best >= 0:
            continue
        if node >= 0 and _node(axes, axis, position, position + 1) != node:
            continue
        wanted = preferred[axes.offsets[axis] + position]
        distance = abs(2 * left - total)
        if (wanted and not best_preferred) or (
            wanted == best_preferred and distance < best_distance
        ):
            best, best_distance, best_preferred = position, distance, wanted
    return best


@numba.njit(nogil=True, cache=True)
def _entropy(counts, total):  # type: ignore[no-untyped-def]
    entropy = 0.0
    for count in counts:
        if count > 0:
            entropy -= count / total * np.log2(count / total)
    return entropy


@numba.njit(nogil=True, cache=True)
def _gain(table, weights, target, begin, end, axis, cut, classes):  # type: ignore[no-untyped-def]
    """Share of the target's entropy that a cut takes away."""
    left = np.zeros(classes, np.int64)
    right = np.zeros(classes, np.int64)
    for i in range(begin, end):
        if table[i, axis] <= cut:
            left[target[i]] += weights[i]
        else:
            right[target[i]] += weights[i]
    lefts, rights = left.sum(), right.sum()
    total = lefts + rights
    before = _entropy(left + right, total)
    if before <= 0.0:
        return 0.0
    after = (lefts * _entropy(left, lefts) + rights * _entropy(right, rights)) / total
    return (before - after) / before


@numba.njit(nogil=True, cache=True)
def _parts_hold(table, weights, sensitive, begin, end, axis, cut, extra, rules, counts):  # type: ignore[no-untyped-def]
    """Whether both parts of a cut satisfy all rules."""
    counts[:] = 0
    left, right = 0, 0
    for i in range(begin, end):
        side = 0 if table[i, axis] <= cut else 1
        if extra > 0 and table[i, axis] == cut + 1:
            side = 0
            extra -= 1
        if side == 0:
            left += weights[i]
        else:
            right += weights[i]
        for s in range(sensitive.shape[1]):
            counts[side, sensitive[i, s]] += weights[i]
    return holds(left, counts[0], rules) and holds(right, counts[1], rules)


@numba.njit(nogil=True, cache=True)
def _move(table, weights, sensitive, target, index, begin, end, axis, cut, extra, spare):  # type: ignore[no-untyped-def]
    """Bring the left part of a cut to the front, in order; returns where the right one starts."""
    columns = table.shape[1]
    front, back = begin, 0
    for i in range(begin, end):
        goes_left = table[i, axis] <= cut
        if extra > 0 and table[i, axis] == cut + 1:
            goes_left = True
            extra -= 1
        if goes_left:
            if front != i:
                for c in range(columns):
                    table[front, c] = table[i, c]
                for s in range(sensitive.shape[1]):
                    sensitive[front, s] = sensitive[i, s]
                weights[front] = weights[i]
                index[front] = index[i]
                if target.shape[0]:
                    target[front] = target[i]
            front += 1
        else:
            for c in range(columns):
                spare[0][back, c] = table[i, c]
            for s in range(sensitive.shape[1]):
                spare[1][back, s] = sensitive[i, s]
            spare[2][back] = weights[i]
            spare[3][back] = index[i]
            if target.shape[0]:
                spare[4][back] = target[i]
            back += 1
    for i in range(back):
        for c in range(columns):
            table[front + i, c] = spare[0][i, c]
        for s in range(sensitive.shape[1]):
            sensitive[front + i, s] = spare[1][i, s]
        weights[front + i] = spare[2][i]
        index[front + i] = spare[3][i]
        if target.shape[0]:
            target[front + i] = spare[4][i]
    return front


@numba.njit(nogil=True, cache=True)
def cut_blocks(  # type: ignore[no-untyped-def]
    table,
    weights,
    sensitive,
    target,
    classes,
    index,
    starts,
    axes,
    rules,
    mix,
    priority,
    preferred,
    relaxed,
):
    """Cut every block until no cut is allowed; returns where groups start, in the moved order.

    `starts` are the blocks' first rows and the end; `mix` the weights of spread, priority and gain
    in the score of an axis (Xiong & Rangachari, section 4). Relaxed cuts of lines halve a group
    exactly and need entries of one row each.
    """
    entries, columns = table.shape
    rows = 0
    for i in range(entries):
        rows += weights[i]
    ends = np.empty(min(entries, rows // max(1, rules.k)) + starts.shape[0], np.int64)
    groups = 0
    widest = 1
    for c in range(columns):
        widest = max(widest, axes.sizes[c])
    sizes = np.zeros(widest, np.int64)
    counts = np.zeros((2, rules.offsets[-1]), np.int64)
    spare = (
        np.empty_like(table),
        np.empty_like(sensitive),
        np.empty_like(weights),
        np.empty_like(index),
        np.empty_like(target),
    )
    low = np.zeros(columns, np.int64)
    high = np.zeros(columns, np.int64)
    score = np.zeros(columns, np.float64)
    stack_begin = np.empty(entries + 2, np.int64)
    stack_end = np.empty(entries + 2, np.int64)
    mixed = mix[0] + mix[1] + mix[2]
    for block in range(starts.shape[0] - 1):
        stack_begin[0], stack_end[0] = starts[block], starts[block + 1]
        depth = 1
        while depth > 0:
            depth -= 1
            begin, end = stack_begin[depth], stack_end[depth]
            total = 0
            for c in range(columns):
                low[c], high[c] = table[begin, c], table[begin, c]
            for i in range(begin, end):
                total += weights[i]
                for c in range(columns):
                    low[c] = min(low[c], table[i, c])
                    high[c] = max(high[c], table[i, c])
            chosen, cut, extra = -1, -1, 0
            if total >= 2 * rules.k:
                for c in range(columns):
                    score[c] = -1.0
                    if low[c] == high[c]:
                        continue
                    score[c] = mix[0] * _spread(axes, c, low[c], high[c]) + mix[1] * priority[c]
                    if mix[2] > 0.0:
                        sizes[low[c] : high[c] + 1] = 0
                        for i in range(begin, end):
                            sizes[table[i, c]] += weights[i]
                        at = _best_cut(axes, c, low[c], high[c], sizes, total, rules.k, preferred)
                        if at < 0:
                            score[c] = -1.0
                            continue
                        gain = _gain(table, weights, target, begin, end, c, at, classes)
                        score[c] += mix[2] * gain
                    score[c] /= mixed
                for _ in range(columns):
                    axis = int(np.argmax(score))
                    if score[axis] < 0.0:
                        break
                    score[axis] = -1.0
                    sizes[low[axis] : high[axis] + 1] = 0
                    for i in range(begin, end):
                        sizes[table[i, axis]] += weights[i]
                    extra = 0
                    if relaxed and axes.kinds[axis] != TREE:
                        at, extra = _middle(low[axis], high[axis], sizes, total)
                    else:
                        at = _best_cut(
                            axes, axis, low[axis], high[axis], sizes, total, rules.k, preferred
                        )
                        if at < 0:
                            continue
                    if rules.kinds.shape[0] and not _parts_hold(
                        table, weights, sensitive, begin, end, axis, at, extra, rules, counts
                    ):
                        continue
                    chosen, cut = axis, at
                    break
            if chosen < 0:
                ends[groups] = end
                groups += 1
                continue
            middle = _move(
                table, weights, sensitive, target, index, begin, end, chosen, cut, extra, spare
            )
            stack_begin[depth], stack_end[depth] = middle, end
            stack_begin[depth + 1], stack_end[depth + 1] = begin, middle
            depth += 2
    return ends[:groups]
