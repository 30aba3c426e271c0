"""Compiled: rows that agree on a pattern get one number.

The one primitive of this room. Everything that walks over patterns calls it with a list of rows;
memory is that of the list, never of the candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

__all__ = [
    "Keys",
    "bits_for",
    "key_of",
    "mark_of",
    "move_keys",
    "new_marks",
    "new_slots",
    "number_classes",
    "slot_of",
    "sort_classes",
]

Array = npt.NDArray[Any]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(nogil=True, cache=True)
def key_of(codes, entry, kept, multipliers):  # type: ignore[no-untyped-def]
    """What a row shows under a pattern, as one number."""
    key = np.uint64(0)
    for c in range(codes.shape[1]):
        if (kept >> c) & 1:
            key += np.uint64(codes[entry, c] + 1) * multipliers[c]
    return key


class Keys(NamedTuple):
    """What every entry shows under one pattern, ready to move on to the next.

    Attributes
    ----------
    columns
        Codes, one row a column.
    multipliers
        See `CellTable.multipliers`.
    keys, kept
        The key of each entry under the pattern kept[0].
    """

    columns: Array
    multipliers: Array
    keys: Array
    kept: Array


@numba.njit(nogil=True, cache=True)
def move_keys(keys, kept):  # type: ignore[no-untyped-def]
    """Make `keys` those of another pattern: only columns in which the two differ are read."""
    for c in range(keys.columns.shape[0]):
        shows, showed = (kept >> c) & 1, (keys.kept[0] >> c) & 1
        if shows and not showed:
            for i in range(keys.keys.shape[0]):
                keys.keys[i] += np.uint64(keys.columns[c, i] + 1) * keys.multipliers[c]
        elif showed and not shows:
            for i in range(keys.keys.shape[0]):
                keys.keys[i] -= np.uint64(keys.columns[c, i] + 1) * keys.multipliers[c]
    keys.kept[0] = kept


@numba.njit(nogil=True, cache=True)
def new_marks(count):  # type: ignore[no-untyped-def]
    """Marks that say of most keys in one look that they are not among up to `count` others."""
    return np.zeros(8 << bits_for(count), np.bool_)


@numba.njit(nogil=True, cache=True)
def mark_of(key, bits):  # type: ignore[no-untyped-def]
    """Where a key is marked among eight times as many marks as slots."""
    return np.int64((key * _SPREAD) >> np.uint64(61 - bits))


@numba.njit(nogil=True, cache=True)
def bits_for(count):  # type: ignore[no-untyped-def]
    """Bits of a table that `count` keys fill to half at most."""
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    return bits


@numba.njit(nogil=True, cache=True)
def new_slots(count):  # type: ignore[no-untyped-def]
    """An empty table for up to `count` keys: keys, stamps and numbers."""
    size = 1 << bits_for(count)
    return np.empty(size, np.uint64), np.full(size, -1, np.int64), np.empty(size, np.int32)


@numba.njit(nogil=True, cache=True)
def slot_of(key, bits, stamp, keys, stamps):  # type: ignore[no-untyped-def]
    """Where a key is, or would be, in the table; other stamps mean free."""
    at = np.int64((key * _SPREAD) >> np.uint64(64 - bits))
    last = (1 << bits) - 1
    while stamps[at] == stamp and keys[at] != key:
        at = (at + 1) & last
    return at


@numba.njit(nogil=True, cache=True)
def number_classes(  # type: ignore[no-untyped-def]
    codes, entries, count, kept, multipliers, stamp, slots, numbers
):
    """Fill `numbers` with the class of each listed entry; gives the number of classes."""
    keys, stamps, found = slots
    bits = bits_for(count)
    classes = 0
    for i in range(count):
        key = key_of(codes, entries[i], kept, multipliers)
        at = slot_of(key, bits, stamp, keys, stamps)
        if stamps[at] != stamp:
            stamps[at] = stamp
            keys[at] = key
            found[at] = classes
            classes += 1
        numbers[i] = found[at]
    return classes


@numba.njit(nogil=True, cache=True)
def sort_classes(numbers, count, classes, starts, order):  # type: ignore[no-untyped-def]
    """Positions of each class together: those of class c are order[starts[c]:starts[c + 1]]."""
    for c in range(classes + 1):
        starts[c] = 0
    for i in range(count):
        starts[numbers[i] + 1] += 1
    for c in range(classes):
        starts[c + 1] += starts[c]
    for i in range(count):
        order[starts[numbers[i]]] = i
        starts[numbers[i]] += 1
    for c in range(classes, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0
