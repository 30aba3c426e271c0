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
    met = np.zeros(len(slots), np.int64)  # addresses beside the slots: one look finds most
    found = 0
    for i in range(len(addresses)):
        address = addresses[i]
        key = np.uint64(address) * _SPREAD
        at = (key ^ (key >> np.uint64(32))) & mask
        while met[at] != address or slots[at] == 0:
            if slots[at] == 0:
                if found == len(first):
                    return -1
                first[found] = i
                found += 1
                slots[at], met[at] = found, address
                break
            at = (at + np.uint64(1)) & mask
        numbers[i] = slots[at] - 1
    return found
