"""APPROX-GR: the forest algorithm of Aggarwal et al. 2005, within O(k) of the optimum.

The baseline of the paper. Each row is joined to near rows until every tree has k rows; large trees
are then cut. Nearest rows come from classes of patterns instead of all pairs of rows.
"""

from __future__ import annotations

import numpy as np

from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns, patterns_of
from sfumato.anonymization.cells.table import CellTable

__all__ = ["approx_gr"]


def approx_gr(table: CellTable, patterns: Patterns | None = None) -> Partition:
    """Trees of near rows as groups.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> approx_gr(table).cost(table)
    4.0
    """
    from sfumato.anonymization.cells._forest import cut_trees, grow_forest

    patterns = patterns_of(table) if patterns is None else patterns
    shown = sum((patterns.kept >> c) & 1 for c in range(table.width))
    by_stars = patterns.kept[np.argsort(-shown, kind="stable")]
    entry = np.repeat(np.arange(table.entries), table.counts)
    parent = grow_forest(table.codes, entry, table.k, by_stars, table.multipliers)
    group = cut_trees(parent, table.k)
    return Partition(entry, np.ones(len(entry), dtype=np.int64), group).tidy()
