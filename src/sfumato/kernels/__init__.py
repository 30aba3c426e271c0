"""Compiled loops over codes: classes, partitions, reductions and look-ups.

Private to the package. Importing this package costs nothing, and small tables need no compiler at
all (`sfumato.kernels.compiling`); what is compiled is kept on disk for the next time.

Entries are rows, or distinct combinations with a weight (the number of rows they stand for). Codes
are uint8/16/32 arrays, class numbers are dense uint32 arrays: what comes out of one function is
a column for the next. Every answer is exact for any number of columns and independent of the
number of threads. Codes must be below their column's cardinality: loops trust them.
"""

from __future__ import annotations

import importlib
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
        held_by,
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
    "combination_sums",
    "group_distinct",
    "group_max",
    "group_min",
    "group_rows",
    "group_sums",
    "held_by",
    "pairs_after",
    "partition_of",
    "quantile_groups",
    "refine",
    "renumbered",
    "representatives",
    "size_histogram",
    "split",
    "unseparated_pairs",
    "whole",
]

_HOMES = {
    "classes": "class_ids combination_sums refine representatives size_histogram unseparated_pairs",
    "groups": "group_distinct group_max group_min group_rows group_sums held_by",
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
