"""Compiled loops over codes: classes, partitions, reductions and look-ups.

Private to the package. Importing this package costs nothing, and small tables need no compiler at
all (`sfumato.kernels.compiling`); what is compiled is kept on disk for the next time.

Entries are rows, or distinct combinations with a weight (the number of rows they stand for). Codes
are uint8/16/32 arrays, class numbers are dense uint32 arrays: what comes out of one function is
a column for the next. Every answer is exact for any number of columns and independent of the
number of threads. Codes must be below their column's cardinality: loops trust them.
"""

from sfumato.kernels.classes import (
    class_ids,
    combination_sums,
    group_distinct,
    group_max,
    group_min,
    group_rows,
    group_spans,
    group_sums,
    held_by,
    refine,
    representatives,
    size_histogram,
    unseparated_pairs,
)
from sfumato.kernels.partition import (
    Lookup,
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
    "group_spans",
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
