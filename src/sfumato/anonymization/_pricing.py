"""Compiled prices: what a group shows on each column, and what that costs.

A group's memory is one row of a table of numbers, laid out by `Prices.head`. The three arrays of
`Prices` are handed on one by one: unpacking a tuple in the innermost loops would cost more than
what they do.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization._compiled import bare
from sfumato.anonymization.pricing import (
    CAP,
    END,
    FIRST,
    KIND,
    LAST,
    LEAF,
    PARENT,
    PRICE,
    SET,
    SLOT,
    TREE,
    WORD,
)

__all__ = [
    "begin",
    "covers",
    "group_loss",
    "grow",
    "grow_all",
    "loss_of",
    "loss_with",
    "losses_with",
    "memories_of",
    "total_loss",
    "union_loss",
]


@bare
def _climb(head, ints, axis, node, low, high):  # type: ignore[no-untyped-def]
    """Lowest ancestor of a node, or itself, that covers these positions."""
    parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
    while low < ints[first + node] or high > ints[last + node]:
        node = ints[parent + node]
    return node


@bare
def _span(head, floats, axis, low, high):  # type: ignore[no-untyped-def]
    base = head[axis, PRICE]
    return min(floats[head[axis, CAP]], floats[base + high] - floats[base + low])


@bare
def begin(head, ints, memories, group, table, entry):  # type: ignore[no-untyped-def]
    """Make a group's memory that of a single entry."""
    for axis in range(head.shape[0]):
        at = head[axis, SLOT]
        position = np.int64(table[entry, axis])
        if head[axis, KIND] == TREE:
            memories[group, at] = ints[head[axis, LEAF] + position]
        elif head[axis, KIND] == SET:
            for slot in range(at + 1, head[axis, END]):
                memories[group, slot] = 0
            memories[group, at] = 1
            memories[group, at + 1 + position // WORD] = np.int64(1) << (position % WORD)
        else:
            memories[group, at] = position
            memories[group, at + 1] = position


@bare
def grow(head, ints, memories, group, axis, position):  # type: ignore[no-untyped-def]
    """Let a position join a group on one axis; whether the group shows something else now."""
    at = head[axis, SLOT]
    position = np.int64(position)
    if head[axis, KIND] == TREE:
        node = _climb(head, ints, axis, memories[group, at], position, position)
        changed = node != memories[group, at]
        memories[group, at] = node
        return changed
    if head[axis, KIND] == SET:
        word, bit = at + 1 + position // WORD, np.int64(1) << (position % WORD)
        if memories[group, word] & bit:
            return False
        memories[group, word] |= bit
        memories[group, at] += 1
        return True
    if memories[group, at] <= position <= memories[group, at + 1]:
        return False
    memories[group, at] = min(memories[group, at], position)
    memories[group, at + 1] = max(memories[group, at + 1], position)
    return True


@bare
def grow_all(head, ints, memories, group, table, entry):  # type: ignore[no-untyped-def]
    """Let an entry join a group."""
    for axis in range(head.shape[0]):
        grow(head, ints, memories, group, axis, table[entry, axis])


@bare
def covers(head, ints, memories, group, table, entry):  # type: ignore[no-untyped-def]
    """Whether what a group shows is true of an entry."""
    for axis in range(head.shape[0]):
        at = head[axis, SLOT]
        position = np.int64(table[entry, axis])
        if head[axis, KIND] == SET:
            if not (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1:
                return False
            continue
        low, high = memories[group, at], np.int64(0)
        if head[axis, KIND] == TREE:
            high = ints[head[axis, LAST] + low]
            low = ints[head[axis, FIRST] + low]
        else:
            high = memories[group, at + 1]
        if position < low or position > high:
            return False
    return True


@bare
def loss_of(head, floats, memories, group, axis):  # type: ignore[no-untyped-def]
    """What a group loses on an axis."""
    at = head[axis, SLOT]
    if head[axis, KIND] == TREE:
        return floats[head[axis, PRICE] + memories[group, at]]
    if head[axis, KIND] == SET:
        return (memories[group, at] - 1) * floats[head[axis, PRICE]]
    return _span(head, floats, axis, memories[group, at], memories[group, at + 1])


@bare
def group_loss(head, floats, memories, group):  # type: ignore[no-untyped-def]
    """What each row of a group loses, over all axes."""
    total = 0.0
    for axis in range(head.shape[0]):
        total += loss_of(head, floats, memories, group, axis)
    return total


@bare
def loss_with(head, ints, floats, memories, group, axis, position):  # type: ignore[no-untyped-def]
    """What a group would lose on an axis if a position joined it."""
    at = head[axis, SLOT]
    position = np.int64(position)
    if head[axis, KIND] == TREE:
        node = _climb(head, ints, axis, memories[group, at], position, position)
        return floats[head[axis, PRICE] + node]
    if head[axis, KIND] == SET:
        known = (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1
        return (memories[group, at] - known) * floats[head[axis, PRICE]]
    low, high = min(memories[group, at], position), max(memories[group, at + 1], position)
    return _span(head, floats, axis, low, high)


@bare
def losses_with(head, ints, floats, memories, group, axis, table, entries, many, losses):  # type: ignore[no-untyped-def]
    """What a group would lose on an axis if any one of the first so many entries joined it."""
    if head[axis, KIND] != TREE:
        for i in range(many):
            position = table[entries[i], axis]
            losses[i] = loss_with(head, ints, floats, memories, group, axis, position)
        return
    parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
    shown, price = memories[group, head[axis, SLOT]], head[axis, PRICE]
    low, high, loss = ints[first + shown], ints[last + shown], floats[price + shown]
    for i in range(many):
        position = np.int64(table[entries[i], axis])
        if low <= position <= high:
            losses[i] = loss
            continue
        node = ints[parent + shown]
        while position < ints[first + node] or position > ints[last + node]:
            node = ints[parent + node]
        losses[i] = floats[price + node]


@bare
def _bits(word):  # type: ignore[no-untyped-def]
    """How many bits of a word are set."""
    word = word - ((word >> 1) & 0x5555555555555555)
    word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F
    word = word + (word >> 8)
    word = word + (word >> 16)
    return (word + (word >> 32)) & 0x7F


@bare
def union_loss(head, ints, floats, memories, group, other):  # type: ignore[no-untyped-def]
    """What each row of two groups would lose if they were one."""
    total = 0.0
    for axis in range(head.shape[0]):
        at = head[axis, SLOT]
        if head[axis, KIND] == TREE:
            twin = memories[other, at]
            low, high = ints[head[axis, FIRST] + twin], ints[head[axis, LAST] + twin]
            node = _climb(head, ints, axis, memories[group, at], low, high)
            total += floats[head[axis, PRICE] + node]
        elif head[axis, KIND] == SET:
            values = 0
            for word in range(at + 1, head[axis, END]):
                values += _bits(memories[group, word] | memories[other, word])
            total += (values - 1) * floats[head[axis, PRICE]]
        else:
            low = min(memories[group, at], memories[other, at])
            high = max(memories[group, at + 1], memories[other, at + 1])
            total += _span(head, floats, axis, low, high)
    return total


@numba.njit(nogil=True, cache=True)
def memories_of(head, ints, table, entry, groups, many):  # type: ignore[no-untyped-def]
    """What each of so many groups of pieces shows."""
    memories = np.zeros((many, head[-1, END]), np.int64)
    begun = np.zeros(many, np.bool_)
    for piece in range(entry.shape[0]):
        group = groups[piece]
        if begun[group]:
            grow_all(head, ints, memories, group, table, entry[piece])
        else:
            begin(head, ints, memories, group, table, entry[piece])
            begun[group] = True
    return memories


@numba.njit(nogil=True, cache=True)
def total_loss(head, ints, floats, table, entry, rows, groups, many):  # type: ignore[no-untyped-def]
    """What all rows of so many groups of pieces lose, over all axes."""
    memories = memories_of(head, ints, table, entry, groups, many)
    sizes = np.zeros(many, np.int64)
    for piece in range(entry.shape[0]):
        sizes[groups[piece]] += rows[piece]
    total = 0.0
    for group in range(many):
        if sizes[group] > 0:
            total += sizes[group] * group_loss(head, floats, memories, group)
    return total
