"""A hierarchy aligned with the codes of one column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import HierarchyError
from sfumato.hierarchy.labels import Published, as_text
from sfumato.hierarchy.tree import Array, Tree, join_table, lowest_common_ancestors, spans

if TYPE_CHECKING:
    from sfumato.hierarchy.hierarchy import Hierarchy

__all__ = ["EncodedHierarchy"]

_LARGEST_JOIN_TABLE = 4 * 2**20
"""Entries of a table of all lowest common ancestors; beyond, climbing is cheaper than the cache
misses."""


class EncodedHierarchy:
    """A hierarchy over exactly the values that occur in a column.

    Node ids 0 … size-1 are the column's codes; values of the hierarchy that do not occur are gone,
    so leaf counts are those of the table, while levels and height remain the hierarchy's own.
    The arrays of `tree` are available directly (``bound.parent``, ``bound.level``, …), and
    `origin` is the node of the whole hierarchy that each node was (-1 for null).

    Examples
    --------
    >>> from sfumato.hierarchy import Hierarchy
    >>> h = Hierarchy.from_levels([["a", "b", "c"], ["ab", "ab", "c+"], ["*"] * 3])
    >>> bound = h.bind(pa.array(["c", None, "a"]), "letter")
    >>> bound.labels([0, 1, 2, bound.root]).to_pylist()
    ['c', None, 'a', '*']
    >>> nodes = bound.lca([0, 2, 2], groups=[0, 0, 1], n_groups=2)
    >>> bound.published(nodes).array().to_pylist()
    ['*', 'a']
    """

    kind: Literal["hierarchy"] = "hierarchy"

    def __init__(
        self,
        hierarchy: Hierarchy,
        tree: Tree,
        origin: Array,
        labels: pa.Array,
        values: pa.Array,
        name: str,
    ) -> None:
        self.hierarchy = hierarchy
        self.tree = tree
        self.origin = origin
        self.values = values
        self.name = name
        self._labels = labels
        self._join_table: Array | None = None
        nulls = np.flatnonzero(np.asarray(values.is_null()))
        self.null_code: int | None = int(nulls[0]) if len(nulls) else None
        self.size = tree.size
        self.nodes = tree.nodes
        self.root = tree.root
        self.height = tree.height
        self.parent = tree.parent
        self.depth = tree.depth
        self.level = tree.level
        self.first = tree.first
        self.last = tree.last
        self.position = tree.position
        self.order = tree.order
        self.ancestors = tree.ancestors
        self.leaf_count = tree.leaf_count
        self.loss = (self.leaf_count - 1) / max(self.size - 1, 1)
        self.relative_height = self.level / max(self.height, 1)
        whole = hierarchy.tree
        self.domain_loss = (whole.leaf_count[origin] - 1) / max(whole.size - 1, 1)
        self.domain_loss[origin < 0] = 0.0

    def __repr__(self) -> str:
        return f"EncodedHierarchy(column `{self.name}`, {self.size} values, height {self.height})"

    def join_table(self) -> Array | None:
        """Lowest common ancestor of every (node, code), or None where that table is too large."""
        if self._join_table is None and self.nodes * self.size <= _LARGEST_JOIN_TABLE:
            self._join_table = join_table(self.parent, self.first, self.last, self.position)
        return self._join_table

    def lca(self, codes: Any, groups: Any, n_groups: int, weights: Any = None) -> Array:
        """Lowest common ancestor of the codes in each group; -1 for an empty group.

        Parameters
        ----------
        codes
            One code a row.
        groups
            The group of each row, 0 … n_groups-1; a negative group is left out.
        weights
            Rows of weight zero are left out.
        """

        weights = np.empty(0) if weights is None else np.asarray(weights)
        low, high = spans(
            self.position, np.asarray(codes), np.asarray(groups), int(n_groups), weights
        )
        return np.asarray(
            lowest_common_ancestors(self.parent, self.first, self.last, self.order, low, high)
        )

    def labels(self, nodes: Any) -> pa.Array:
        """Text of some nodes; null for the leaf that is null."""
        return self._labels.take(pa.array(np.asarray(nodes, dtype=np.int64)))

    def published(self, nodes: Any) -> Published:
        """What rows or groups that show these nodes publish; -1 is a suppressed row."""
        nodes = np.asarray(nodes, dtype=np.int64)
        used = np.zeros(self.nodes + 1, dtype=bool)
        used[nodes] = True  # -1 marks the extra last place
        entries = np.flatnonzero(used[:-1])
        entry_of = np.full(self.nodes + 1, -1, dtype=np.int32)
        entry_of[entries] = np.arange(len(entries), dtype=np.int32)
        return Published(
            codes=entry_of[nodes],
            labels=self.labels(entries),
            loss=self.loss[entries],
            height_loss=self.relative_height[entries],
            domain_loss=self.domain_loss[entries],
            low=self.first[entries].astype(np.int64),
            high=self.last[entries].astype(np.int64),
            order=self.order,
        )

    def read(self, labels: pa.Array) -> Array:
        """The node that each label of a release means.

        A label on several levels means the one that covers most, the cautious reading. A null is
        the null leaf where the column had nulls, else a suppressed cell: the root. So is ``*``.
        """
        if isinstance(labels, pa.ChunkedArray):
            labels = labels.combine_chunks()
        labels = as_text(labels)
        distinct = labels.dictionary_encode(null_encoding="encode")
        known = self._labels[::-1]  # from the root downward: the first match covers most
        found = np.asarray(
            pc.index_in(distinct.dictionary, value_set=known, skip_nulls=True).fill_null(-1)
        )
        nodes = np.where(found >= 0, self.nodes - 1 - found, -1)
        is_null = np.asarray(distinct.dictionary.is_null())
        nodes[is_null] = self.root if self.null_code is None else self.null_code
        stars = np.asarray(pc.equal(distinct.dictionary, "*").fill_null(False))
        nodes[stars & (found < 0)] = self.root
        unknown = int((nodes < 0).sum())
        if unknown:
            raise HierarchyError(
                f"{unknown} distinct labels of the release are not in the hierarchy",
                where=f"column `{self.name}`",
                remedy="Give the hierarchy that the release was made with.",
            )
        return np.asarray(nodes[np.asarray(distinct.indices)])
