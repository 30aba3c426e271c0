"""A generalization hierarchy: values at the leaves, more general values above, one root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import HierarchyError, did_you_mean
from sfumato.hierarchy.labels import Published, as_text, decoded, different_texts, null_code
from sfumato.hierarchy.tree import Array, Tree, join_table, lowest_common_ancestors
from sfumato.kernels import group_spans
from sfumato.results import Result

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
        self.null_code = null_code(values)
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

    def lca(self, codes: Any, groups: Any, n_groups: int) -> Array:
        """Lowest common ancestor of the codes in each group; -1 for an empty group.

        Parameters
        ----------
        codes
            One code a row.
        groups
            The group of each row, 0 … n_groups-1; a negative group is left out.
        """
        low, high = group_spans(self.position, np.asarray(codes), np.asarray(groups), int(n_groups))
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
        distinct = different_texts(labels)
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


class Hierarchy:
    """An immutable tree of labels over the values of a column.

    A node is a label *on a level*: a label that a file repeats on several levels to pad a short
    branch makes a chain of nodes over the same values, which cost the same and print the same.

    Parameters
    ----------
    tree
        The shape.
    labels
        Text of every node, in the order of the tree's ids.
    source
        File it was read from, for error messages.

    Examples
    --------
    >>> places = Hierarchy.from_levels(
    ...     [["San Diego", "Wichita", "Lincoln"], ["West", "Midwest", "Midwest"], ["US"] * 3]
    ... )
    >>> places.height, places.labels_of(places.tree.ancestors[1]).to_pylist()
    (2, ['Wichita', 'Midwest', 'US'])
    """

    remedy = (
        "Read it from its file, e.g. sf.hierarchy.read_arx(path), or name the folder of all files."
    )
    """What to do where something else was given for one."""

    def __init__(self, tree: Tree, labels: pa.Array, source: str | None = None) -> None:
        if len(labels) != tree.nodes:
            raise ValueError("a hierarchy needs one label a node")
        self.tree = tree
        self.labels = labels
        self.source = source

    @classmethod
    def from_levels(
        cls, levels: Sequence[Any], *, where: str | None = None, lines: Array | None = None
    ) -> Hierarchy:
        """Build from the labels of every leaf on every level, leaves first.

        Parameters
        ----------
        levels
            One sequence (or Arrow array) of text a level, all of the same length; entry i of each
            is what leaf i becomes on that level.
        where
            File or column, for error messages.
        lines
            Line of each leaf in its file, for error messages.
        """
        columns = [
            level.cast(pa.string()) if isinstance(level, pa.Array) else pa.array(level, pa.string())
            for level in levels
        ]
        line = np.arange(1, len(columns[0]) + 1) if lines is None else lines
        if len(columns) < 2:
            raise HierarchyError(
                "the hierarchy has values but nothing above them",
                where=where,
                remedy="Give each value at least one more general label, e.g. `*`.",
            )
        if len(columns[0]) == 0:
            raise HierarchyError(
                "the hierarchy is empty", where=where, remedy="Give it at least one value."
            )
        encoded = [column.dictionary_encode() for column in columns]
        codes = [np.asarray(level.indices) for level in encoded]
        _refuse_repeated_leaf(codes[0], line, where)
        _refuse_two_roots(codes[-1], line, where)

        starts = np.cumsum([0] + [len(level.dictionary) for level in encoded])
        parent = np.full(starts[-1], -1, dtype=np.int64)
        for step in range(len(codes) - 1):
            _refuse_two_parents(codes[step], codes[step + 1], step, line, where)
            parent[starts[step] + codes[step]] = starts[step + 1] + codes[step + 1]
        level_of = np.repeat(np.arange(len(encoded)), np.diff(starts))
        labels = pa.concat_arrays([level.dictionary for level in encoded])
        return cls(Tree.grow(parent, len(columns[0]), level_of), labels, where)

    @property
    def leaves(self) -> pa.Array:
        """Text of the leaves."""
        return self.labels[: self.tree.size]

    @property
    def height(self) -> int:
        """Number of steps from the leaves to the root."""
        return self.tree.height

    @property
    def uniform(self) -> bool:
        """Whether all leaves are equally deep."""
        return self.tree.uniform

    def __repr__(self) -> str:
        return f"Hierarchy({self.tree.size} values, height {self.height})"

    def levels(self) -> list[pa.Array]:
        """The labels of every leaf on every level, leaves first; what `from_levels` takes."""
        return [self.labels_of(column) for column in self.tree.ancestors.T]

    def labels_of(self, nodes: Any) -> pa.Array:
        """Text of some nodes."""
        return self.labels.take(pa.array(np.asarray(nodes)))

    def node(self, label: str, *, where: str | None = None) -> int:
        """The node with a label; ``level:label`` picks one where a label occurs more than once.

        Of a chain that pads a short branch with one label, the topmost node is meant.

        Examples
        --------
        >>> h = Hierarchy.from_levels([["a", "b", "c"], ["b", "b", "c"], ["*"] * 3])
        >>> h.labels_of([h.node("1:b")]).to_pylist(), h.node("c") == h.node("1:c")
        (['b'], True)
        """
        found = self._nodes_with(label)
        if len(found) == 0 and ":" in label:
            level, _, rest = label.partition(":")
            if level.isascii() and level.isdigit():
                found = self._nodes_with(rest)
                found = found[self.tree.level[found] == int(level)]
        if len(found) == 0:
            inner = self.labels[self.tree.size :].to_pylist()
            raise HierarchyError(
                f"the hierarchy has no node `{label}`",
                where=where,
                remedy=did_you_mean(label, dict.fromkeys(inner)),
            )
        first, last = self.tree.first[found], self.tree.last[found]
        if (first != first[0]).any() or (last != last[0]).any():
            levels = ", ".join(f"`{level}:{label}`" for level in self.tree.level[found])
            raise HierarchyError(
                f"the label `{label}` stands for {len(found)} different nodes",
                where=where,
                remedy=f"Say which one is meant: {levels}.",
            )
        return int(found[-1])

    def bind(self, values: pa.Array, name: str) -> EncodedHierarchy:
        """Align the hierarchy with the distinct values of a column.

        Parameters
        ----------
        values
            The column's distinct values, in the order of its codes; may hold one null, which
            becomes a leaf directly below the root.
        name
            The column, for error messages.

        Raises
        ------
        HierarchyError
            If a value of the column is not a leaf.
        """
        values = decoded(values)
        leaf = self._find_leaves(values)
        is_null = np.asarray(values.is_null())
        missing = int(((leaf < 0) & ~is_null).sum())
        if missing:
            raise HierarchyError(
                f"{missing} of the column's {len(values)} distinct values "
                f"{'is' if missing == 1 else 'are'} not in the hierarchy",
                where=f"column `{name}`" if self.source is None else self.source,
                remedy="Add a line for each of them, or leave the file out to have one inferred.",
            )
        tree, kept = self.tree.prune(leaf)
        labels = pa.concat_arrays(
            [as_text(values), self.labels.take(pa.array(kept)).cast(pa.string())]
        )
        return EncodedHierarchy(self, tree, np.concatenate([leaf, kept]), labels, values, name)

    def _nodes_with(self, label: str) -> Array:
        return np.flatnonzero(np.asarray(pc.equal(self.labels, label)))

    def _find_leaves(self, values: pa.Array) -> Array:
        """Leaf of each value; -1 where there is none."""

        def lookup(wanted: pa.Array, known: pa.Array) -> Array:
            found = pc.index_in(wanted, value_set=known, skip_nulls=True)
            return np.asarray(found.fill_null(-1)).astype(np.int64)

        leaf = lookup(as_text(values), self.leaves)
        if (leaf < 0).any() and not pa.types.is_string(values.type):
            # `7.0` and `007` are the number 7, `2024-01-05` is a date: compare as the column does.
            leaf = np.where(leaf < 0, lookup(values, _parsed(self.leaves, values.type)), leaf)
        return leaf


def _parsed(leaves: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Text as values of a type; null where it does not parse."""
    try:
        return leaves.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    parsed = []
    for text in leaves:
        try:
            parsed.append(text.cast(wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            parsed.append(pa.scalar(None, wanted))
    return pa.array([item.as_py() for item in parsed], type=wanted)


def _refuse_repeated_leaf(codes: Array, line: Array, where: str | None) -> None:
    _, first, count = np.unique(codes, return_index=True, return_counts=True)
    if len(first) < len(codes):
        code = int(np.argmax(count > 1))
        again = np.flatnonzero(codes == code)[1]
        raise HierarchyError(
            f"line {line[again]} repeats the value of line {line[first[code]]}",
            where=where,
            remedy="Keep one line per value.",
        )


def _refuse_two_roots(codes: Array, line: Array, where: str | None) -> None:
    other = np.flatnonzero(codes != codes[0])
    if len(other):
        raise HierarchyError(
            f"line {line[other[0]]} ends in another root than line {line[0]}",
            where=where,
            remedy="End every line with the same label, e.g. `*`.",
        )


def _refuse_two_parents(
    codes: Array, above: Array, step: int, line: Array, where: str | None
) -> None:
    node, first = np.unique(codes, return_index=True)
    expected = np.empty(int(node.max()) + 1, dtype=np.int64)
    expected[node] = above[first]
    wrong = np.flatnonzero(above != expected[codes])
    if len(wrong):
        earlier = first[np.searchsorted(node, codes[wrong[0]])]
        raise HierarchyError(
            f"line {line[wrong[0]]} puts its label of level {step} below another label of level "
            f"{step + 1} than line {line[earlier]} does",
            where=where,
            remedy="Give the two groups different labels, or the same label above.",
        )


@dataclass(frozen=True)
class HierarchySummary(Result):
    """Size and shape of a hierarchy.

    Attributes
    ----------
    name
        Column or file.
    values
        Values at the leaves.
    labels
        Distinct labels on each level, leaves first.
    uniform
        Whether all values are equally deep.
    ambiguous
        Labels that stand for different nodes on different levels: marks must name the level.
    reason
        Why it was made this way, where it was inferred.
    file
        Where it was written, if it was.
    """

    name: str
    values: int
    height: int
    labels: tuple[int, ...]
    uniform: bool
    ambiguous: int
    reason: str | None = None
    file: str | None = None


def describe(
    hierarchy: Hierarchy, name: str, reason: str | None = None, file: str | None = None
) -> HierarchySummary:
    """Describe a hierarchy.

    Examples
    --------
    >>> h = Hierarchy.from_levels([["a", "b", "c"], ["x", "x", "c"], ["*"] * 3])
    >>> found = describe(h, "letters")
    >>> found.labels, found.height, found.ambiguous
    ((3, 2, 1), 2, 0)
    """
    tree = hierarchy.tree
    labels = tuple(len(np.unique(tree.ancestors[:, level])) for level in range(tree.height + 1))
    numbered = np.asarray(hierarchy.labels.dictionary_encode().indices)
    meaning = np.unique(np.stack([numbered, tree.first, tree.last], axis=1), axis=0)
    _, meanings = np.unique(meaning[:, 0], return_counts=True)
    return HierarchySummary(
        name=name,
        values=tree.size,
        height=tree.height,
        labels=labels,
        uniform=tree.uniform,
        ambiguous=int((meanings > 1).sum()),
        reason=reason,
        file=file,
    )
