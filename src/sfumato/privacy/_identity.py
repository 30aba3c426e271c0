"""Compiled numbering of Python objects by who they are; imported on first use, it loads numba."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compiling import compiled

__all__ = ["number_objects"]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def number_objects(addresses, first, numbers):  # type: ignore[no-untyped-def]
    """Number objects in order of appearance; returns how many, or -1 where there are too many.

    `first` takes the place where each object was first met; its length is a power of two.
    """
    slots = 2 * len(first)
    shift = np.uint64(64)
    while np.uint64(1) << (np.uint64(64) - shift) < slots:
        shift -= np.uint64(1)
    met = np.full(slots, -1, np.int64)  # where no object can be
    number = np.empty(slots, numbers.dtype)
    found = 0
    for i in range(len(addresses)):
        address = addresses[i]
        at = (np.uint64(address) * _SPREAD) >> shift
        while met[at] != address:
            if met[at] == -1:
                if found == len(first):
                    return -1
                met[at], number[at], first[found] = address, found, i
                found += 1
                break
            at = (at + np.uint64(1)) & np.uint64(slots - 1)
        numbers[i] = number[at]
    return found
