"""How many classes there are of each size."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

__all__ = ["Histogram", "histogram_of"]

Histogram = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Sizes that occur, ascending, and how many classes have each."""

_COMMON = 1 << 14
"""Sizes below this are counted in a table; larger ones are few and sorted."""


@numba.njit(nogil=True, cache=True)
def _count_sizes(sizes, table, large):  # type: ignore[no-untyped-def]
    """Count small sizes and list large ones; returns how many would be listed."""
    listed = 0
    for i in range(len(sizes)):
        size = np.int64(sizes[i])
        if size < len(table):
            table[size] += 1
        else:
            if listed < len(large):
                large[listed] = size
            listed += 1
    return listed


def histogram_of(sizes: npt.NDArray[Any]) -> Histogram:
    """Histogram of class sizes, zeros left out.

    Examples
    --------
    >>> import numpy as np
    >>> sizes, classes = histogram_of(np.array([3, 0, 1, 3], np.uint32))
    >>> sizes.tolist(), classes.tolist()
    ([1, 3], [1, 2])
    """
    table = np.zeros(_COMMON, np.int64)
    large = np.empty(1 << 12, np.int64)
    listed = _count_sizes(sizes, table, large)
    if listed > len(large):
        large = np.empty(listed, np.int64)
        _count_sizes(sizes, np.zeros_like(table), large)
    table[0] = 0
    common = np.flatnonzero(table)
    larger, classes = np.unique(large[:listed], return_counts=True)
    return np.concatenate([common, larger]), np.concatenate([table[common], classes])
