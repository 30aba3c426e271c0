"""Compiled search for all rows of the agreed grid that a published row is consistent with."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["search_rows"]


@njit(cache=True)
def search_rows(  # type: ignore[no-untyped-def]
    begin,
    count,
    turned,
    plain,
    pivot,
    turned_low,
    turned_high,
    plain_low,
    plain_high,
    target_turned,
    target_plain,
    half,
    truth,
    avoid_truth,
    enough,
    most,
    nodes_allowed,
):
    """Depth-first enumeration in the manner of a sphere decoder.

    Level s decides one column. `turned` holds each option's contribution in the rotated space, in
    which later columns leave more and more coordinates alone, sorted within a level by its
    pivot coordinate; `plain` the same in the space of the published numbers. A branch is cut when
    what remains to be explained is out of reach of the columns still to come: in the ball around
    the rounding cell (rotated) or in the cell itself (plain).

    A row's search ends when `enough` hits were found and every column differs from the truth in
    one of them, or at `most` hits. With `avoid_truth` the first level must differ from the true
    value and one hit is enough: that proves the value is not certain.

    `truth` names the true option of every level by its place in these arrays.

    Returns, per row: hits, whether the search was exhaustive, and per level whether a hit differs
    from the truth.
    """
    rows = target_turned.shape[0]
    levels = begin.shape[0]
    size = target_turned.shape[1]
    hits = np.zeros(rows, np.int64)
    exhaustive = np.ones(rows, np.bool_)
    differs = np.zeros((rows, levels), np.bool_)
    rest_turned = np.empty((levels + 1, size))
    rest_plain = np.empty((levels + 1, size))
    low = np.empty(levels, np.int64)
    high = np.empty(levels, np.int64)
    left = np.empty(levels, np.int64)
    right = np.empty(levels, np.int64)
    centre = np.empty(levels)
    true_rest = np.empty(levels)
    chosen = np.empty(levels, np.int64)

    for row in range(rows):
        radius2 = 0.0
        for k in range(size):
            rest_turned[0, k] = target_turned[row, k]
            rest_plain[0, k] = target_plain[row, k]
            radius2 += half[row, k] * half[row, k]
        for level in range(levels):
            true_rest[level] = target_turned[row, pivot[level]]
            for before in range(level):
                true_rest[level] -= turned[truth[row, before], pivot[level]]
        radius2 *= 1.0 + 1e-9
        radius = np.sqrt(radius2)
        nodes = 0
        missing = levels
        s = 0
        entering = True
        while s >= 0:
            if entering:
                k = pivot[s]
                first, last = begin[s], begin[s] + count[s]
                smallest = rest_turned[s, k] - turned_high[s, k] - radius
                largest = rest_turned[s, k] - turned_low[s, k] + radius
                a, b = first, last
                while a < b:
                    middle = (a + b) // 2
                    if turned[middle, k] < smallest:
                        a = middle + 1
                    else:
                        b = middle
                low[s] = a
                b = last
                while a < b:
                    middle = (a + b) // 2
                    if turned[middle, k] <= largest:
                        a = middle + 1
                    else:
                        b = middle
                high[s] = a
                # Near the truth first, where other answers lie; a column that differs from it is
                # made up for by the next ones.
                centre[s] = turned[truth[row, s], k] + rest_turned[s, k] - true_rest[s]
                a, b = low[s], high[s]
                while a < b:
                    middle = (a + b) // 2
                    if turned[middle, k] < centre[s]:
                        a = middle + 1
                    else:
                        b = middle
                right[s] = a
                left[s] = a - 1
                entering = False

            k = pivot[s]
            if right[s] < high[s] and (
                left[s] < low[s]
                or turned[right[s], k] - centre[s] <= centre[s] - turned[left[s], k]
            ):
                pick = right[s]
                right[s] += 1
            elif left[s] >= low[s]:
                pick = left[s]
                left[s] -= 1
            else:
                s -= 1
                continue
            if avoid_truth and s == 0 and pick == truth[row, 0]:
                continue
            nodes += 1
            if nodes > nodes_allowed:
                exhaustive[row] = False
                break
            reach = 0.0
            possible = True
            for j in range(size):
                v = rest_plain[s, j] - plain[pick, j]
                rest_plain[s + 1, j] = v
                if v < plain_low[s, j] - half[row, j] or v > plain_high[s, j] + half[row, j]:
                    possible = False
                    break
            if not possible:
                continue
            for j in range(size):
                v = rest_turned[s, j] - turned[pick, j]
                rest_turned[s + 1, j] = v
                if v < turned_low[s, j]:
                    reach += (turned_low[s, j] - v) ** 2
                elif v > turned_high[s, j]:
                    reach += (v - turned_high[s, j]) ** 2
            if reach > radius2 + 1e-15:
                continue
            chosen[s] = pick
            if s + 1 < levels:
                s += 1
                entering = True
                continue
            hits[row] += 1
            for level in range(levels):
                if not differs[row, level] and chosen[level] != truth[row, level]:
                    differs[row, level] = True
                    missing -= 1
            if avoid_truth or (hits[row] >= enough and missing == 0) or hits[row] >= most:
                exhaustive[row] = False
                break
    return hits, exhaustive, differs
