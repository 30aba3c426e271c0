"""Compiled numbering of Python objects by who they are; imported on first use, it loads numba."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["number_objects"]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(nogil=True, cache=True)
def number_objects(addresses, slots, first, numbers):  # type: ignore[no-untyped-def]
    """Number objects in order of appearance; returns how many, or -1 where there are too many.

    `slots` is a hash table of zeros, its length a power of two; `first` takes the place where each
    object was first met.
    """
    mask = np.uint64(len(slots) - 1)
    found = 0
    for i in range(len(addresses)):
        key = np.uint64(addresses[i]) * _SPREAD
        at = (key ^ (key >> np.uint64(32))) & mask
        while slots[at] != 0 and addresses[first[slots[at] - 1]] != addresses[i]:
            at = (at + np.uint64(1)) & mask
        if slots[at] == 0:
            if found == len(first):
                return -1
            first[found] = i
            found += 1
            slots[at] = found
        numbers[i] = slots[at] - 1
    return found
