"""A rooted tree as arrays: parents, levels, and leaves numbered so that a subtree is one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.kernels.compiling import compiled

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree over `size` leaves; the arrays are read-only.

    Node ids: the leaves are 0 … size-1, inner nodes follow, every parent has a larger id than its
    children, and the root has the largest. Leaves have a second number, their *position* in
    preorder: the leaves below any node are the positions `first[node] … last[node]`.

    Attributes
    ----------
    parent
        Parent of each node; -1 for the root.
    depth
        Steps from the root.
    level
        0 for leaves, `height` for the root. In a tree whose leaves are all equally deep it is the
        column of the hierarchy file; in a ragged tree it is the longest way down to a leaf.
    leaf_count
        Leaves below each node, itself included for a leaf.
    position, order
        Preorder position of each leaf, and the leaf at each position.
    ancestors
        ``ancestors[leaf, level]``: the highest ancestor of the leaf (or itself) on a level not
        above `level`, so that each level cuts the leaves into nested groups even in ragged trees.

    Examples
    --------
    Two cities below one state, one city below another, both states below the root:

    >>> tree = Tree.grow([3, 3, 4, 5, 5, -1], size=3)
    >>> tree.height, tree.leaf_count.tolist()
    (2, [1, 1, 1, 2, 1, 3])
    >>> tree.ancestors.tolist()
    [[0, 3, 5], [1, 3, 5], [2, 4, 5]]
    """

    size: int
    parent: Array
    depth: Array
    level: Array
    first: Array
    last: Array
    position: Array
    order: Array
    ancestors: Array

    @classmethod
    def grow(cls, parent: Any, size: int, level: Any = None) -> Tree:
        """Derive every array from the parents (and levels, where they are not the heights)."""
        parent = np.asarray(parent, dtype=np.int32)
        inner = np.flatnonzero(parent >= 0)
        if len(inner) != len(parent) - 1 or parent[-1] != -1 or (parent[inner] <= inner).any():
            raise ValueError("parents must have larger ids than children, and one root the largest")
        level = _heights(parent, inner) if level is None else np.asarray(level, dtype=np.int32)
        height = int(level[-1])

        ancestors = np.empty((size, height + 1), dtype=np.int32)
        ancestors[:, 0] = np.arange(size)
        for step in range(1, height + 1):
            below = ancestors[:, step - 1]
            above = parent[below]
            ancestors[:, step] = np.where((above >= 0) & (level[above] <= step), above, below)
        order = np.lexsort(ancestors.T).astype(np.int32)
        position = np.empty(size, dtype=np.int32)
        position[order] = np.arange(size, dtype=np.int32)

        first = np.full(len(parent), size, dtype=np.int32)
        last = np.full(len(parent), -1, dtype=np.int32)
        for step in range(height + 1):
            np.minimum.at(first, ancestors[:, step], position)
            np.maximum.at(last, ancestors[:, step], position)
        tree = cls(size, parent, _depths(parent), level, first, last, position, order, ancestors)
        for array in vars(tree).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        return tree

    @property
    def nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.parent)

    @property
    def root(self) -> int:
        """Id of the root, the last one."""
        return len(self.parent) - 1

    @property
    def height(self) -> int:
        """Level of the root."""
        return int(self.level[-1])

    @property
    def leaf_count(self) -> Array:
        """Leaves below each node."""
        return (self.last - self.first + 1).astype(np.int64)

    @property
    def uniform(self) -> bool:
        """Whether all leaves are equally deep."""
        return bool((self.depth[: self.size] == self.height).all())

    def prune(self, leaves: Array) -> tuple[Tree, Array]:
        """Keep only some leaves, renumbered in the order given, and the nodes above them.

        Parameters
        ----------
        leaves
            Leaf that becomes leaf 0, 1, …; -1 makes a new leaf directly below the root.

        Returns
        -------
        tree
            The smaller tree; levels are those of the larger one.
        kept
            The old id of every inner node that is left.
        """
        old = leaves >= 0
        used = np.zeros(self.nodes, dtype=bool)
        used[self.ancestors[leaves[old]].ravel()] = True
        used[self.root] = True
        kept = self.size + np.flatnonzero(used[self.size :])
        renumbered = np.full(self.nodes, -1, dtype=np.int32)
        renumbered[kept] = len(leaves) + np.arange(len(kept), dtype=np.int32)
        above = np.full(len(leaves), self.root, dtype=np.int64)
        above[old] = self.parent[leaves[old]]
        parent = np.concatenate([renumbered[above], renumbered[self.parent[kept]]])
        parent[-1] = -1
        level = np.concatenate([np.zeros(len(leaves), dtype=np.int32), self.level[kept]])
        return Tree.grow(parent, len(leaves), level), kept


def _heights(parent: Array, inner: Array) -> Array:
    """Longest way down from each node."""
    height = np.zeros(len(parent), dtype=np.int32)
    while True:
        before = height.copy()
        np.maximum.at(height, parent[inner], height[inner] + 1)
        if (before == height).all():
            return height


def _depths(parent: Array) -> Array:
    """Steps from each node up to the root."""
    depth = np.zeros(len(parent), dtype=np.int32)
    above = parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


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
