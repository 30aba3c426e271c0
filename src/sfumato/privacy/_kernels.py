"""Whether a group of rows satisfies a set of rules; imported on first use, it loads numba.

Anonymizers call `holds` from their own compiled loops. What they publish is checked again by
`sfumato.privacy.check`, which shares no code with this file.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.hierarchy.tree import Array
from sfumato.privacy.base import TOLERANCE
from sfumato.privacy.rules import (
    ALPHA,
    CLOSE_EQUAL,
    CLOSE_ORDERED,
    CLOSE_TREE,
    DISTINCT,
    ENTROPY,
    LIKE,
    RECURSIVE,
    Rules,
)

__all__ = ["holds"]


@njit(cache=True)  # type: ignore[untyped-decorator]
def holds(size: int, counts: Array, rules: Rules) -> bool:
    """Whether a group of `size` rows with these counts of sensitive values satisfies all rules.

    Where k-map is asked, a group also holds people of the population: then the rows are counted
    where the rules say.
    """
    if rules.mapped >= 0:
        size = int(counts[rules.mapped])
        if size == 0:
            return True
        if counts[rules.mapped + 1] < rules.crowd:
            return False
    if size < rules.k:
        return False
    for r in range(rules.kinds.shape[0]):
        kind, j, value = rules.kinds[r], rules.columns[r], rules.values[r]
        start, stop = rules.offsets[j], rules.offsets[j + 1]
        if kind == DISTINCT:
            if _distinct(counts, start, stop) < value:
                return False
        elif kind == ALPHA:
            if _largest(counts, start, stop, rules.extras[r]) > value * size + TOLERANCE * size:
                return False
        elif kind == ENTROPY:
            if _entropy(counts, start, stop, size) < value - TOLERANCE:
                return False
        elif kind == RECURSIVE:
            if not _recursive(counts, start, stop, int(value), rules.extras[r]):
                return False
        elif kind == CLOSE_EQUAL:
            if _equal(counts, start, stop, size, rules.reference) > value + TOLERANCE:
                return False
        elif kind == CLOSE_ORDERED:
            distance = _ordered(counts, start, rules.ranks[j], size, rules.reference, rules.order)
            if distance > value + TOLERANCE:
                return False
        elif kind == LIKE:
            if not _alike(counts, start, stop, size, rules.reference, value, rules.extras[r] > 0):
                return False
        elif kind == CLOSE_TREE:
            first, last = rules.tree_offsets[j], rules.tree_offsets[j + 1]
            distance = _tree(
                counts,
                start,
                stop,
                size,
                rules.reference,
                rules.tree_parent[first:last],
                rules.tree_cost[first:last],
            )
            if distance > value + TOLERANCE:
                return False
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _distinct(counts: Array, start: int, stop: int) -> int:
    found = 0
    for c in range(start, stop):
        if counts[c] > 0:
            found += 1
    return found


@njit(cache=True)  # type: ignore[untyped-decorator]
def _largest(counts: Array, start: int, stop: int, only: float) -> int:
    if only >= 0:
        largest = counts[start + int(only)]
    else:
        largest = counts[start]
        for c in range(start + 1, stop):
            largest = max(largest, counts[c])
    return largest  # type: ignore[no-any-return]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _entropy(counts: Array, start: int, stop: int, size: int) -> float:
    total = 0.0
    for c in range(start, stop):
        if counts[c] > 0:
            total += counts[c] * np.log(counts[c])
    return float(np.log(size) - total / size)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _recursive(counts: Array, start: int, stop: int, l: int, c: float) -> bool:  # noqa: E741
    ranked = np.sort(counts[start:stop])[::-1]
    rest = 0
    for i in range(l - 1, ranked.shape[0]):
        rest += ranked[i]
    return bool(ranked[0] < c * rest)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _equal(counts: Array, start: int, stop: int, size: int, reference: Array) -> float:
    moved = 0.0
    for c in range(start, stop):
        moved += abs(counts[c] / size - reference[c])
    return moved / 2.0


@njit(cache=True)  # type: ignore[untyped-decorator]
def _ordered(
    counts: Array, start: int, ranks: int, size: int, reference: Array, order: Array
) -> float:
    moved, carried = 0.0, 0.0
    for i in range(ranks - 1):
        c = start + order[start + i]
        carried += counts[c] / size - reference[c]
        moved += abs(carried)
    return moved / max(ranks - 1, 1)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _alike(
    counts: Array, start: int, stop: int, size: int, reference: Array, beta: float, enhanced: bool
) -> bool:
    for c in range(start, stop):
        if counts[c] > 0:
            share = reference[c]
            limit = min(beta, -np.log(share)) if enhanced else beta
            if counts[c] / size / share - 1.0 > limit + TOLERANCE:
                return False
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _tree(
    counts: Array,
    start: int,
    stop: int,
    size: int,
    reference: Array,
    parent: Array,
    cost: Array,
) -> float:
    """Earth mover's distance over a tree, bottom up (Li et al. 2007, section 5.3)."""
    leaves = stop - start
    surplus, lack = np.zeros(parent.shape[0]), np.zeros(parent.shape[0])
    moved = 0.0
    for node in range(parent.shape[0]):
        if node < leaves:
            extra = counts[start + node] / size - reference[start + node]
        else:
            extra = surplus[node] - lack[node]
            moved += cost[node] * min(surplus[node], lack[node])
        above = parent[node]
        if above >= 0:
            if extra > 0:
                surplus[above] += extra
            else:
                lack[above] -= extra
    return moved


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def groups_hold(groups: Array, count: int, weights: Array, sensitive: Array, rules: Rules) -> Array:
    """Whether each group satisfies all rules; members of a group may lie anywhere."""
    good = np.zeros(count, np.bool_)
    order = np.argsort(groups, kind="mergesort")
    counts = np.zeros(rules.offsets[-1], np.int64)
    at = 0
    while at < order.shape[0]:
        group = groups[order[at]]
        size, begin = 0, at
        while at < order.shape[0] and groups[order[at]] == group:
            i = order[at]
            size += weights[i]
            for s in range(sensitive.shape[1]):
                counts[sensitive[i, s]] += weights[i]
            at += 1
        if group >= 0:
            good[group] = holds(size, counts, rules)
        for z in range(begin, at):
            for s in range(sensitive.shape[1]):
                counts[sensitive[order[z], s]] = 0
    return good
