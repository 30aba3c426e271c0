"""Numbers in order of first appearance: the compiled half of encoding.

Values arrive as int64 and leave as small numbers from 1; 0 is null. Narrow ranges go through
a table with one cell a value, wide ones through a hash table of whole values.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["grown", "number_hashed", "number_indices", "number_nearby", "translate"]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(nogil=True, cache=True)
def number_nearby(values, valid, base, table, seen, found, start, numbers):  # type: ignore[no-untyped-def]
    """Number values of base … base + len(table); stops at the first one outside.

    Returns where it stopped and how many different values have been found.
    """
    width = np.uint64(len(table))
    nulls = len(valid) > 0
    for i in range(start, len(values)):
        if nulls and not valid[i]:
            numbers[i] = 0
            continue
        cell = np.uint64(values[i]) - np.uint64(base)
        if cell >= width:
            return i, found
        number = table[cell]
        if number == 0:
            if found == len(seen):
                return i, found
            seen[found] = values[i]
            found += 1
            number = found
            table[cell] = number
        numbers[i] = number
    return len(values), found


@numba.njit(nogil=True, cache=True)
def number_hashed(values, valid, slots, seen, found, start, numbers):  # type: ignore[no-untyped-def]
    """Number any values; stops when the table is half full or `seen` is full."""
    mask = np.uint64(len(slots) - 1)
    nulls = len(valid) > 0
    for i in range(start, len(values)):
        if nulls and not valid[i]:
            numbers[i] = 0
            continue
        value = values[i]
        at = _home(value, mask)
        while slots[at] != 0 and seen[slots[at] - 1] != value:
            at = (at + np.uint64(1)) & mask
        if slots[at] == 0:
            if found == len(seen) or 2 * found >= len(slots):
                return i, found
            seen[found] = value
            found += 1
            slots[at] = found
        numbers[i] = slots[at]
    return len(values), found


@numba.njit(nogil=True, cache=True)
def _home(value, mask):  # type: ignore[no-untyped-def]
    key = np.uint64(value) * _SPREAD
    return (key ^ (key >> np.uint64(32))) & mask


@numba.njit(nogil=True, cache=True)
def grown(seen, found, size):  # type: ignore[no-untyped-def]
    """A larger hash table of the values seen so far."""
    slots = np.zeros(size, np.uint32)
    mask = np.uint64(size - 1)
    for number in range(found):
        at = _home(seen[number], mask)
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number + 1
    return slots


@numba.njit(nogil=True, cache=True)
def number_indices(indices, valid, occurs, numbers):  # type: ignore[no-untyped-def]
    """Indices into a dictionary as numbers from 1, marking those that occur."""
    nulls = len(valid) > 0
    for i in range(len(indices)):
        number = np.int64(0)
        if not nulls or valid[i]:
            number = np.int64(indices[i]) + 1
        numbers[i] = number
        occurs[number] = True


@numba.njit(nogil=True, cache=True)
def translate(numbers, codes, out):  # type: ignore[no-untyped-def]
    """Codes of numbers, by a table."""
    for i in range(len(numbers)):
        out[i] = codes[np.int64(numbers[i])]
