"""Whether the loops have been compiled on this machine, and compiling them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["cold", "warm"]


def cold() -> bool:
    """Whether the next use will compile: there is no cached code of the main loops yet."""
    from sfumato.kernels import dense, scattered

    for loop in (dense._count_in_lanes, scattered._count):
        name = loop.py_func.__name__
        module = Path(loop.py_func.__code__.co_filename).stem
        if not any(Path(loop.stats.cache_path).glob(f"{module}.{name}-*.nbi")):
            return True
    return False


def warm() -> None:
    """Compile, or load from the cache, the loops that measuring and scanning need."""
    from sfumato.kernels import classes, groups, seen, sorting

    narrow, middle, wide = (np.zeros(2, type_) for type_ in (np.uint8, np.uint16, np.uint32))
    for cardinalities in ((2, 2), (1 << 12, 1 << 3), (1 << 40, 2)):
        classes.size_histogram((narrow, wide), cardinalities)
        ids, count = classes.class_ids((narrow, wide), cardinalities)
        groups.group_sums(ids, count)
        classes.representatives(ids, count)
    values, everything = np.zeros(2, np.int64), np.empty(0, np.bool_)
    numbers, known = np.empty(2, np.uint32), np.empty(2, np.int64)
    seen.number_nearby(values, everything, 0, np.zeros(4, np.uint32), known, 0, 0, numbers)
    seen.number_hashed(values, everything, seen.grown(known, 0, 16), known, 0, 0, numbers)
    indices, occurs = np.zeros(2, np.int32), np.zeros(2, np.bool_)
    for codes in (narrow, middle, wide):
        seen.number_indices(indices, everything, occurs, codes.copy())
        for out in (narrow, middle, wide):
            if out.itemsize <= codes.itemsize:
                seen.translate(codes, out[:1], out.copy())
    sorting.sorted_order(np.zeros(1 << 14, np.uint64), 2)
    sorting.text_ranks(np.zeros(2, np.uint8), np.array([0, 1, 2], np.int64))
