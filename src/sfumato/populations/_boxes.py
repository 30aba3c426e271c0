"""Compiled loops of the join attack: how many people lie in each of many boxes.

People are points of whole numbers with a weight, released rows are boxes. A k-d tree halves the
points by their widest column; a box takes a whole subtree where it contains it and skips it where
it misses it, so that a release is joined in about (boxes + people)·log time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["build_tree", "count_people", "count_persons"]

Array = npt.NDArray[Any]

LEAF = 16


@njit(cache=True)  # type: ignore[untyped-decorator]
def _halve(order: Array, points: Array, column: int, start: int, stop: int, middle: int) -> None:
    """Order a stretch so that no value before `middle` exceeds one after it (Hoare's selection)."""
    low, high = start, stop - 1
    while low < high:
        pivot = points[order[(low + high) // 2], column]
        i, j = low, high
        while i <= j:
            while points[order[i], column] < pivot:
                i += 1
            while points[order[j], column] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@njit(cache=True)  # type: ignore[untyped-decorator]
def build_tree(points: Array, weights: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Order points into a k-d tree.

    Returns the order, and for each node its range in that order, its two children (-1 for a leaf),
    the box around its points and their weight.
    """
    n, m = points.shape
    order = np.arange(n)
    most = max(1, 4 * (n // LEAF + 1))
    span = np.zeros((most, 2), np.int64)
    child = np.full((most, 2), -1, np.int64)
    box = np.zeros((most, m, 2), np.int64)
    total = np.zeros(most)
    span[0, 1] = n
    made, node = 1, 0
    while node < made:
        start, stop = span[node]
        wide, width = 0, -1
        for d in range(m):
            low = high = points[order[start], d] if stop > start else 0
            for i in range(start, stop):
                value = points[order[i], d]
                low, high = min(low, value), max(high, value)
            box[node, d, 0], box[node, d, 1] = low, high
            if high - low > width:
                wide, width = d, high - low
        for i in range(start, stop):
            total[node] += weights[order[i]]
        if stop - start > LEAF and width > 0:
            middle = (start + stop) // 2
            _halve(order, points, wide, start, stop, middle)
            child[node, 0], child[node, 1] = made, made + 1
            span[made, 0], span[made, 1] = start, middle
            span[made + 1, 0], span[made + 1, 1] = middle, stop
            made += 2
        node += 1
    return order, span[:made], child[:made], box[:made], total[:made]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _inside(cell: int, low: int, high: int, first: int, last: int, members: Array) -> int:
    """0: no place of low … high is covered; 2: all are; 1: it depends."""
    if high < first or low > last:
        return 0
    if members.shape[0] == 0:
        return 2 if first <= low and high <= last else 1
    covered = members[cell, high + 1] - members[cell, low]
    if covered == 0:
        return 0
    return 2 if covered == high - low + 1 else 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _visit(cells: Array, low: Array, high: Array, members: Any, node: int, box: Array) -> int:
    """How the released row meets the box around a node: 0 not, 2 wholly, 1 partly."""
    whole = 2
    for d in range(len(cells)):
        cell = cells[d]
        found = _inside(
            cell, box[node, d, 0], box[node, d, 1], low[d][cell], high[d][cell], members[d]
        )
        if found == 0:
            return 0
        whole = min(whole, found)
    return whole


@njit(cache=True)  # type: ignore[untyped-decorator]
def _matches(cells: Array, low: Any, high: Any, members: Any, point: Array) -> bool:
    for d in range(len(cells)):
        cell = cells[d]
        if _inside(cell, point[d], point[d], low[d][cell], high[d][cell], members[d]) == 0:
            return False
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def count_people(
    rows: Array,
    low: Any,
    high: Any,
    members: Any,
    points: Array,
    weights: Array,
    order: Array,
    span: Array,
    child: Array,
    box: Array,
    total: Array,
) -> Array:
    """Weight of the points that each released row may stand for."""
    found = np.zeros(len(rows))
    stack = np.empty(len(span) + 2, np.int64)
    for r in range(len(rows)):
        stack[0], depth = 0, 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            meets = _visit(rows[r], low, high, members, node, box)
            if meets == 0:
                continue
            if meets == 2:
                found[r] += total[node]
            elif child[node, 0] < 0:
                for i in range(span[node, 0], span[node, 1]):
                    if _matches(rows[r], low, high, members, points[order[i]]):
                        found[r] += weights[order[i]]
            else:
                stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
                depth += 2
    return found


@njit(cache=True)  # type: ignore[untyped-decorator]
def count_persons(
    rows: Array,
    low: Any,
    high: Any,
    members: Any,
    points: Array,
    person: Array,
    persons: int,
    order: Array,
    span: Array,
    child: Array,
    box: Array,
) -> Array:
    """Different persons among the points that each released row may stand for."""
    found = np.zeros(len(rows))
    seen = np.full(persons, -1, np.int64)
    stack = np.empty(len(span) + 2, np.int64)
    for r in range(len(rows)):
        stack[0], depth = 0, 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            meets = _visit(rows[r], low, high, members, node, box)
            if meets == 0:
                continue
            if meets == 1 and child[node, 0] >= 0:
                stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
                depth += 2
                continue
            for i in range(span[node, 0], span[node, 1]):
                who = person[order[i]]
                if seen[who] != r and (
                    meets == 2 or _matches(rows[r], low, high, members, points[order[i]])
                ):
                    seen[who] = r
                    found[r] += 1
    return found
