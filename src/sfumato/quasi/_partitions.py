"""Compiled steps from one partition of the entries to a finer one.

Entries lie in the order of their classes, which `starts` bounds; an entry stands for the rows it
weighs. Classes of one entry are dropped, since no column can part them: how many there were and the
pairs of rows within them is carried along.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["count_parts", "makes_smaller", "refine"]

MERGED = 1 << 14
"""Entries are merged when the columns left have at most so many combinations."""


@numba.njit(nogil=True, cache=True)
def count_parts(  # type: ignore[no-untyped-def]
    values, weights, starts, classes, cardinality, sums, lanes, most_pairs, least_parts
):
    """Pairs of rows that one more column leaves together, and the parts it makes of the classes.

    Gives up with what it has as soon as there are more pairs than `most_pairs`, or there cannot be
    `least_parts` parts any more.
    """
    pairs, parts = 0, 0
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        if pairs > most_pairs or parts + starts[classes] - begin < least_parts:
            return pairs, parts
        if end - begin == 2:  # most classes of a deep partition
            first, second = weights[begin], weights[begin + 1]
            pairs += (first * (first - 1) + second * (second - 1)) // 2
            if values[begin] == values[begin + 1]:
                pairs += first * second
                parts += 1
            else:
                parts += 2
        elif end - begin >= 4 * cardinality:
            more = _count_large(values[begin:end], weights[begin:end], cardinality, lanes)
            pairs += more[0]
            parts += more[1]
        else:
            for i in range(begin, end):
                before, weight = sums[values[i]], weights[i]
                pairs += before * weight + weight * (weight - 1) // 2
                parts += before == 0
                sums[values[i]] = before + weight
            for i in range(begin, end):
                sums[values[i]] = 0
    return pairs, parts


@numba.njit(nogil=True, cache=True)
def _count_large(values, weights, cardinality, lanes):  # type: ignore[no-untyped-def]
    """Pairs and number of parts of one class that holds many entries a value.

    Neighbours count in tables of their own: equal ones would wait for each other's additions.
    """
    lanes[: 4 * cardinality] = 0
    size = values.shape[0]
    at = 0
    while at + 3 < size:
        lanes[4 * np.int64(values[at])] += weights[at]
        lanes[4 * np.int64(values[at + 1]) + 1] += weights[at + 1]
        lanes[4 * np.int64(values[at + 2]) + 2] += weights[at + 2]
        lanes[4 * np.int64(values[at + 3]) + 3] += weights[at + 3]
        at += 4
    while at < size:
        lanes[4 * np.int64(values[at])] += weights[at]
        at += 1
    pairs, parts = 0, 0
    for value in range(cardinality):
        first = 4 * value
        rows = lanes[first] + lanes[first + 1] + lanes[first + 2] + lanes[first + 3]
        pairs += rows * (rows - 1) // 2
        parts += rows > 0
    return pairs, parts


@numba.njit(nogil=True, cache=True)
def makes_smaller(values, weights, starts, classes, k, sums):  # type: ignore[no-untyped-def]
    """Whether one more column makes a class of fewer than k rows."""
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        for i in range(begin, end):
            sums[values[i]] += weights[i]
        small = False
        for i in range(begin, end):
            small |= 0 < sums[values[i]] < k
            sums[values[i]] = -1
        for i in range(begin, end):
            sums[values[i]] = 0
        if small:
            return True
    return False


@numba.njit(nogil=True, cache=True)
def refine(  # type: ignore[no-untyped-def]
    table, weights, starts, classes, column, cardinalities, sums, place, order, seen, new_starts
):
    """The partition that one more column makes, told by the columns before it.

    Entries are copied into the order of their classes, so that all loops run through memory, and
    merged where that is cheap.

    Returns the columns before it and the weights of the new entries, the number of classes, of
    their entries, of classes dropped, and of pairs in those.
    """
    made, filled, alone, fixed = _split(
        table[column], weights, starts, classes, sums, place, order, new_starts
    )
    smaller, lighter = _gather(table, weights, column, order, filled)
    combinations = 1
    for before in range(column):
        combinations = min(combinations * cardinalities[before], MERGED + 1)
    if column >= 2 and combinations <= MERGED and 2 * made < filled:
        made, filled, dropped, pairs = _merge(
            smaller, lighter, new_starts, made, cardinalities, combinations, seen
        )
        alone += dropped
        fixed += pairs
    return smaller, lighter, made, filled, alone, fixed


@numba.njit(nogil=True, cache=True)
def _split(values, weights, starts, classes, sums, place, order, new_starts):  # type: ignore[no-untyped-def]
    """Where the entries of a finer partition come from; classes of one entry are dropped.

    Returns the number of classes, of their entries, of classes dropped, and of pairs in those.
    """
    filled, made, alone, fixed = 0, 0, 0, 0
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        for i in range(begin, end):
            sums[values[i]] += 1
        for i in range(begin, end):
            value = values[i]
            if sums[value] > 1:
                new_starts[made] = filled
                made += 1
                place[value] = filled
                filled += sums[value]
                sums[value] = -1
            if sums[value] == -1:
                order[place[value]] = i
                place[value] += 1
            else:
                alone += 1
                fixed += weights[i] * (weights[i] - 1) // 2
        for i in range(begin, end):
            sums[values[i]] = 0
    new_starts[made] = filled
    return made, filled, alone, fixed


@numba.njit(nogil=True, cache=True)
def _gather(table, weights, columns, order, filled):  # type: ignore[no-untyped-def]
    """The first columns of a table at some entries, in their order, and the entries' weights."""
    taken = np.empty((columns, filled), table.dtype)
    for column in range(columns):
        for i in range(filled):
            taken[column, i] = table[column, order[i]]
    return taken, weights[order[:filled]]


@numba.njit(nogil=True, cache=True)
def _merge(table, weights, starts, classes, cardinalities, combinations, seen):  # type: ignore[no-untyped-def]
    """Make one entry of the entries of a class that agree in all columns left, in place.

    What is still to come cannot tell them apart. Classes of one entry are dropped; returns the
    number of classes, of their entries, of classes dropped, and of pairs in those.
    """
    columns = table.shape[0]
    filled, made, alone, fixed = 0, 0, 0, 0
    keys = np.empty(combinations, np.int64)
    begin = starts[0]
    for c in range(classes):
        end, first = starts[c + 1], filled
        for i in range(begin, end):
            key = np.int64(0)
            for column in range(columns):
                key = key * cardinalities[column] + table[column, i]
            at = seen[key]
            if at < 0:
                seen[key] = filled
                keys[filled - first] = key
                for column in range(columns):
                    table[column, filled] = table[column, i]
                weights[filled] = weights[i]
                filled += 1
            else:
                weights[at] += weights[i]
        for i in range(filled - first):
            seen[keys[i]] = -1
        begin = end
        if filled - first == 1:
            alone += 1
            fixed += weights[first] * (weights[first] - 1) // 2
            filled = first
        else:
            starts[made] = first
            made += 1
    starts[made] = filled
    return made, filled, alone, fixed
