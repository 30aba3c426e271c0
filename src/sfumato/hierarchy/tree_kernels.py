"""Compiled loops over trees; imported on first use because they load numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.kernels.compiling import compiled

__all__ = ["climb", "join_table", "lowest_common_ancestors", "spans"]

Array = np.ndarray[Any, np.dtype[Any]]


@compiled
def climb(parent: Array, first: Array, last: Array, node: int, low: int, high: int) -> int:
    """Lowest ancestor of `node` (or itself) whose leaves include positions `low` to `high`.

    Leaves are numbered in preorder, so the leaves below any node are one run of positions and the
    lowest common ancestor of a set is that of its first and last position.
    """
    while low < first[node] or high > last[node]:
        node = parent[node]
    return node


@compiled
def spans(
    position: Array, codes: Array, groups: Array, n_groups: int, weights: Array
) -> tuple[Array, Array]:
    """First and last position that each group holds; an empty group has last < first.

    Rows with a negative group, and rows that stand for nobody (weight zero), are left out. An
    empty array of weights means that every row counts.
    """
    low = np.full(n_groups, np.iinfo(np.int32).max, dtype=np.int32)
    high = np.full(n_groups, -1, dtype=np.int32)
    for i in range(codes.shape[0]):
        g = groups[i]
        if g < 0 or (weights.shape[0] > 0 and weights[i] <= 0):
            continue
        p = position[codes[i]]
        if p < low[g]:
            low[g] = p
        if p > high[g]:
            high[g] = p
    return low, high


@compiled
def lowest_common_ancestors(
    parent: Array, first: Array, last: Array, order: Array, low: Array, high: Array
) -> Array:
    """Lowest common ancestor of each span of positions; -1 for an empty span."""
    nodes = np.empty(low.shape[0], dtype=np.int32)
    for g in range(low.shape[0]):
        if high[g] < low[g]:
            nodes[g] = -1
        else:
            nodes[g] = climb(parent, first, last, order[low[g]], low[g], high[g])
    return nodes


@compiled
def join_table(parent: Array, first: Array, last: Array, position: Array) -> Array:
    """Lowest common ancestor of every (node, leaf)."""
    n_nodes, n_leaves = parent.shape[0], position.shape[0]
    table = np.empty((n_nodes, n_leaves), dtype=np.int32)
    for node in range(n_nodes):
        for leaf in range(n_leaves):
            p = position[leaf]
            table[node, leaf] = climb(parent, first, last, node, p, p)
    return table
