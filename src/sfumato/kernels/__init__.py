"""Compiled loops over codes: classes, partitions, reductions and look-ups.

Private to the package. Importing this package costs nothing; the first use of one of its names
loads the compiler's runtime and the loops, from its cache on disk where they have run before.

Entries are rows, or distinct combinations with a weight (the number of rows they stand for). Codes
are uint8/16/32 arrays, class numbers are dense uint32 arrays: what comes out of one function is
a column for the next. Every answer is exact for any number of columns and independent of the
number of threads. Codes must be below their column's cardinality: loops trust them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.kernels.classes import (
        class_ids,
        combination_sums,
        refine,
        representatives,
        size_histogram,
        unseparated_pairs,
    )
    from sfumato.kernels.groups import (
        group_distinct,
        group_max,
        group_min,
        group_rows,
        group_sums,
    )
    from sfumato.kernels.lookup import Lookup
    from sfumato.kernels.partition import (
        Partition,
        pairs_after,
        partition_of,
        renumbered,
        split,
        whole,
    )
    from sfumato.kernels.sorted_groups import quantile_groups

__all__ = [
    "Lookup",
    "Partition",
    "class_ids",
    "cold",
    "combination_sums",
    "group_distinct",
    "group_max",
    "group_min",
    "group_rows",
    "group_sums",
    "pairs_after",
    "partition_of",
    "quantile_groups",
    "refine",
    "renumbered",
    "representatives",
    "size_histogram",
    "split",
    "unseparated_pairs",
    "warm",
    "whole",
]

_HOMES = {
    "classes": "class_ids combination_sums refine representatives size_histogram unseparated_pairs",
    "groups": "group_distinct group_max group_min group_rows group_sums",
    "lookup": "Lookup",
    "partition": "Partition pairs_after partition_of renumbered split whole",
    "sorted_groups": "quantile_groups",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def cold() -> bool:
    """Whether the next use will compile: there is no cached code of the main loops yet."""
    from sfumato.kernels import direct_table, hash_table

    for loop in (direct_table._count_in_lanes, hash_table._count):
        name = loop.py_func.__name__
        module = Path(loop.py_func.__code__.co_filename).stem
        if not any(Path(loop.stats.cache_path).glob(f"{module}.{name}-*.nbi")):
            return True
    return False


def warm() -> None:
    """Compile, or load from the cache, the loops that measuring and scanning need."""
    import numpy as np

    from sfumato.kernels import classes, groups, ranking

    narrow, middle, wide = (np.zeros(2, type_) for type_ in (np.uint8, np.uint16, np.uint32))
    for cardinalities in ((2, 2), (1 << 12, 1 << 3), (1 << 40, 2)):
        classes.size_histogram((narrow, wide), cardinalities)
        ids, count = classes.class_ids((narrow, wide), cardinalities)
        groups.group_sums(ids, count)
        classes.representatives(ids, count)
    values, everything = np.zeros(2, np.int64), np.empty(0, np.bool_)
    numbers, known = np.empty(2, np.uint32), np.empty(2, np.int64)
    ranking.number_nearby(values, everything, 0, np.zeros(4, np.uint32), known, 0, 0, numbers)
    ranking.number_hashed(values, everything, ranking.grown(known, 0, 16), known, 0, 0, numbers)
    indices, occurs = np.zeros(2, np.int32), np.zeros(2, np.bool_)
    for codes in (narrow, middle, wide):
        ranking.number_indices(indices, everything, occurs, codes.copy())
        for out in (narrow, middle, wide):
            if out.itemsize <= codes.itemsize:
                ranking.translate(codes, out[:1], out.copy())
    ranking.sorted_order(np.zeros(1 << 14, np.uint64), 2)
    ranking.text_ranks(np.zeros(2, np.uint8), np.array([0, 1, 2], np.int64))
