"""A generalization tree while a person changes it.

Nodes have numbers that they keep while others come and go, so that a page can say what was picked,
opened or marked. Every change makes a new outline; the old one is what undo goes back to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sfumato.hierarchy as builders
from sfumato.engines.protocol import Column
from sfumato.errors import HierarchyError, ParameterError
from sfumato.hierarchy import Hierarchy, Tree

LONGEST_LABEL = 200


@dataclass(frozen=True, eq=False)
class EditableHierarchy:
    """Values below groups below larger groups, and which of them are marked.

    Attributes
    ----------
    values
        The values at the leaves, which are the nodes 0, 1, ….
    names
        Labels of the groups by their numbers.
    parent
        What each node but the root stands below.
    marks
        Boundaries: no value may be blurred beyond a marked node above it.
    said
        Where the tree comes from, for people.

    Examples
    --------
    >>> sizes = Hierarchy.from_levels([["S", "M", "L"], ["*"] * 3])
    >>> outline = EditableHierarchy.of(sizes, "made by hand").group([1, 2], "M or L")
    >>> [level.to_pylist() for level in outline.hierarchy.levels()]
    [['S', 'M', 'L'], ['S', 'M or L', 'M or L'], ['*', '*', '*']]
    """

    values: tuple[str, ...]
    names: Mapping[int, str]
    parent: Mapping[int, int]
    root: int
    marks: frozenset[int] = frozenset()
    said: str = ""

    @classmethod
    def of(cls, hierarchy: Hierarchy, said: str, marks: Sequence[str] = ()) -> EditableHierarchy:
        """The outline of a tree; labels that only pad a short branch are drawn once."""
        tree = hierarchy.tree
        labels = hierarchy.labels.to_pylist()
        stands_for = np.arange(tree.nodes)
        # Children have smaller numbers than parents, so a chain is walked from below.
        for node in range(tree.nodes - 1):
            above = int(tree.parent[node])
            same = (tree.first[node], tree.last[node]) == (tree.first[above], tree.last[above])
            if same and labels[node] == labels[above]:
                if above != tree.root:
                    stands_for[above] = stands_for[node]
                elif node >= tree.size:
                    stands_for[stands_for == stands_for[node]] = tree.root
        kept = [node for node in range(tree.nodes) if stands_for[node] == node]
        parent = {}
        for node in kept:
            above = int(tree.parent[node])
            while above >= 0 and stands_for[above] == node:
                above = int(tree.parent[above])
            if above >= 0:
                parent[node] = int(stands_for[above])
        return cls(
            values=tuple(labels[: tree.size]),
            names={node: labels[node] for node in kept if node >= tree.size},
            parent=parent,
            root=tree.root,
            marks=frozenset(int(stands_for[hierarchy.node(label)]) for label in marks),
            said=said,
        )

    # What it is

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """What stands below each group, in the order of the values."""
        found: dict[int, list[int]] = {group: [] for group in self.names}
        for node, above in self.parent.items():
            found[above].append(node)
        for below in found.values():
            below.sort(key=self._first)
        return found

    @cached_property
    def _first_value(self) -> dict[int, int]:
        first: dict[int, int] = {}
        for value in range(len(self.values)):
            node: int | None = value
            while node is not None and node not in first:
                first[node] = value
                node = self.parent.get(node)
        return first

    def _first(self, node: int) -> int:
        return self._first_value[node]

    def label(self, node: int) -> str:
        return self.values[node] if node < len(self.values) else self.names[node]

    def path(self, node: int) -> list[int]:
        """A node and everything above it, up to the root."""
        way = [node]
        while way[-1] != self.root:
            way.append(self.parent[way[-1]])
        return way

    def leaves(self, node: int) -> list[int]:
        """The values below a node."""
        found, waiting = [], [node]
        while waiting:
            at = waiting.pop()
            if at < len(self.values):
                found.append(at)
            else:
                waiting.extend(self.children[at])
        return found

    @cached_property
    def out_of_reach(self) -> frozenset[int]:
        """Groups no value may be blurred to, since marks below them stop every one."""
        found: set[int] = set()
        for group in reversed(self.downward):
            if all(below in self.marks or below in found for below in self.children[group]):
                found.add(group)
        return frozenset(found)

    @cached_property
    def downward(self) -> list[int]:
        """The groups, each before those below it."""
        order = [self.root]
        for group in order:
            order.extend(node for node in self.children[group] if node in self.names)
        return order

    @cached_property
    def heights(self) -> dict[int, int]:
        """The longest way down from each group."""
        height: dict[int, int] = {}
        for group in reversed(self.downward):
            height[group] = 1 + max(height.get(node, 0) for node in self.children[group])
        return height

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The tree, as it is when it has been written to a file and read again."""
        inner = sorted(self.names, key=lambda group: (self.heights[group], group))
        number = {node: at for at, node in enumerate([*range(len(self.values)), *inner])}
        above = [number[self.parent[node]] if node in self.parent else -1 for node in number]
        labels = pa.array([*self.values, *(self.names[group] for group in inner)], pa.string())
        ragged = Hierarchy(Tree.grow(above, len(self.values)), labels)
        return Hierarchy.from_levels(ragged.levels())

    @cached_property
    def mark_labels(self) -> tuple[str, ...]:
        """The marks as a file of boundaries names them."""
        tree = self.hierarchy.tree
        found = []
        for mark in sorted(self.marks - {self.root}):
            below = self.leaves(mark)
            way = tree.ancestors[below[0]]
            node = int(way[np.flatnonzero(tree.leaf_count[way] == len(below))[0]])
            label = self.label(mark)
            for name in (label, f"{tree.level[node]}:{label}"):
                if self._spans(name) == (tree.first[node], tree.last[node]):
                    found.append(name)
                    break
            else:
                raise HierarchyError(
                    f"the marked node `{label}` cannot be told from others",
                    remedy="Give it another name.",
                )
        return tuple(found)

    def _spans(self, name: str) -> tuple[int, int] | None:
        tree = self.hierarchy.tree
        try:
            node = self.hierarchy.node(name)
        except HierarchyError:
            return None
        return int(tree.first[node]), int(tree.last[node])

    # What can be done to it

    def group(self, nodes: Iterable[int], label: str) -> EditableHierarchy:
        """Put nodes below a new group, which stands where their ways to the root meet."""
        picked = self._picked(nodes)
        shared = set(self.path(picked[0])[1:])
        for node in picked[1:]:
            shared &= set(self.path(node)[1:])
        above = next(node for node in self.path(picked[0])[1:] if node in shared)
        if set(picked) == set(self.children[above]):
            raise ParameterError(
                f"these are all of `{self.label(above)}` already", remedy="Rename that instead."
            )
        new = max(self.names) + 1
        names = {**self.names, new: self._new_label(label)}
        parent = {**self.parent, new: above, **dict.fromkeys(picked, new)}
        return self._changed(names, parent)

    def dissolve(self, nodes: Iterable[int]) -> EditableHierarchy:
        """Take groups away; what stood below one stands where it stood."""
        gone = {node for node in self._known(nodes) if node in self.names and node != self.root}
        if not gone:
            raise ParameterError("no group was picked", remedy="Pick one below the topmost.")
        parent = {}
        for node, above in self.parent.items():
            if node not in gone:
                while above in gone:
                    above = self.parent[above]
                parent[node] = above
        names = {node: label for node, label in self.names.items() if node not in gone}
        return self._changed(names, parent)

    def move(self, nodes: Iterable[int], to: int) -> EditableHierarchy:
        """Put nodes below another group; a group that is left empty goes away."""
        picked = self._picked(nodes)
        if to not in self.names:
            raise ParameterError("nothing can stand below a value", remedy="Choose a group.")
        if any(node in picked for node in self.path(to)):
            raise ParameterError("a group cannot stand below itself", remedy="Choose another.")
        return self._changed(self.names, {**self.parent, **dict.fromkeys(picked, to)})

    def rename(self, node: int, label: str) -> EditableHierarchy:
        """Give a group another label."""
        if node not in self.names:
            raise ParameterError(
                "values keep their names", remedy="Pick a group, or put the value into one."
            )
        return self._changed({**self.names, node: self._new_label(label, node)}, self.parent)

    def mark(self, nodes: Iterable[int]) -> EditableHierarchy:
        """Mark nodes as boundaries; where all of them are marked, take the marks away."""
        picked = set(self._known(nodes)) - {self.root}
        if not picked:
            raise ParameterError(
                "nothing to mark was picked",
                remedy="Pick nodes below the topmost: it is not a limit.",
            )
        marks = self.marks - picked if picked <= self.marks else self.marks | picked
        return replace(self, marks=marks)

    def mark_height(self, height: int) -> EditableHierarchy:
        """Let values be blurred up to the groups of one height, and no further."""
        marks = set()
        for value in range(len(self.values)):
            allowed = [n for n in self.path(value) if self.heights.get(n, 0) <= height]
            marks.add(allowed[-1])
        return replace(self, marks=frozenset(marks - {self.root}))

    def unmarked(self) -> EditableHierarchy:
        """The same without boundaries."""
        return replace(self, marks=frozenset())

    def _changed(self, names: Mapping[int, str], parent: Mapping[int, int]) -> EditableHierarchy:
        """The outline after a change, without groups that hold nothing."""
        names, parent = dict(names), dict(parent)
        while empty := set(names) - set(parent.values()):
            for group in empty:
                del names[group], parent[group]
        present = {*range(len(self.values)), *names}
        said = self.said if self.said.endswith(BY_HAND) else f"{self.said}{BY_HAND}"
        made = EditableHierarchy(self.values, names, parent, self.root, self.marks & present, said)
        # Refuse at once what could not be written to a file.
        assert made.hierarchy.tree.size == len(self.values)
        return made

    def _known(self, nodes: Iterable[int]) -> list[int]:
        picked = list(dict.fromkeys(nodes))
        if any(not 0 <= node < len(self.values) and node not in self.names for node in picked):
            raise ParameterError("there is no such node", remedy="Load the page again.")
        return picked

    def _picked(self, nodes: Iterable[int]) -> list[int]:
        """Nodes to be moved: none below another of them, and not the root."""
        known = set(self._known(nodes))
        picked = [node for node in sorted(known) if not known & set(self.path(node)[1:])]
        if not picked or self.root in known:
            raise ParameterError(
                "nothing that can be moved was picked", remedy="Pick values, or groups of them."
            )
        return picked

    def _new_label(self, label: str, node: int | None = None) -> str:
        label = label.strip()
        if not label or len(label) > LONGEST_LABEL or not label.isprintable():
            raise ParameterError(
                "this cannot be the name of a group",
                remedy=f"Write one line of at most {LONGEST_LABEL} characters.",
            )
        taken = any(name == label and at != node for at, name in self.names.items())
        if taken or label in self.values:
            raise ParameterError("this name is taken already", remedy="Choose another.")
        return label


BY_HAND = ", changed by hand"


MOST_VALUES = 20_000
"""Values of a column whose tree can be changed by hand."""
MOST_LEVELS = 50


@dataclass(frozen=True, eq=False)
class Held:
    """The values of a column, and the rows that hold each."""

    column: Column
    values: pa.Array
    counts: npt.NDArray[np.int64]

    def rows_of(self, outline: EditableHierarchy) -> list[int]:
        """Rows that hold each value of a tree.

        Raises
        ------
        HierarchyError
            If the tree lacks a value of the column.
        """
        bound = outline.hierarchy.bind(self.values, self.column.name)
        rows = [0] * len(outline.values)
        for leaf, count in zip(bound.origin[: bound.size].tolist(), self.counts, strict=True):
            if leaf >= 0:
                rows[leaf] = int(count)
        return rows

    @property
    def missing(self) -> int:
        """Rows without a value: they stand apart in every tree."""
        return int(self.counts[np.asarray(self.values.is_null())].sum())


def inferred(held: Held) -> EditableHierarchy:
    """The tree that a column gets when nobody makes one."""
    tree, reason = builders.infer(held.column.name, held.values, held.counts)
    return EditableHierarchy.of(tree, f"inferred: {reason}")


def read(held: Held, text: str, name: str) -> EditableHierarchy:
    """A tree from a file in ARX's form; it must know every value of the column."""
    tree = builders.parse_arx(text, where=name)
    if tree.height > MOST_LEVELS:
        raise ParameterError(
            f"the tree has {tree.height:,} levels", where=name,
            remedy=f"Leave out all but {MOST_LEVELS}.",
        )  # fmt: skip
    outline = EditableHierarchy.of(tree, f"read from {name}")
    held.rows_of(outline)
    return outline


def ways(kind: str) -> tuple[str, ...]:
    """Ways to build a tree that make sense for a kind of column."""
    if kind in ("integer", "float", "decimal", "duration", "time"):
        return ("width", "cuts", "frequency", "prefixes", "flat")
    if kind in ("date", "timestamp"):
        return ("dates", "frequency", "flat")
    return ("prefixes", "order", "dates", "flat") if kind == "text" else ("flat",)


def built(held: Held, way: str, form: Mapping[str, Sequence[str]]) -> EditableHierarchy:
    """A tree of the kind the form asks for."""
    if way == "infer":
        return inferred(held)
    if way not in ways(held.column.kind):
        raise ParameterError("there is no such way to make a tree", remedy="Choose one listed.")
    values, name = held.values, held.column.name
    if way == "width":
        width = _one(form, "width", float)
        tree = builders.intervals(values, width=width, name=name)
        said = f"intervals of {width:g}, each next level twice as wide"
    elif way == "cuts":
        edges = sorted(set(_list(form, "cuts", float)))
        tree = builders.intervals(values, edges=edges, name=name)
        said = f"cut at {', '.join(f'{edge:g}' for edge in edges)}"
    elif way == "frequency":
        groups = _one(form, "groups", int)
        tree = builders.equal_frequency(values, held.counts, groups=groups, name=name)
        said = f"{groups} intervals of about equally many rows"
    elif way == "prefixes":
        kept = sorted(set(_list(form, "keep", int)), reverse=True)
        tree = builders.prefixes(values, keep=kept)
        said = f"the first {', '.join(map(str, kept))} characters"
    elif way == "order":
        fanout = _one(form, "fanout", int)
        tree, said = builders.neighbours(values, fanout), f"{fanout} neighbours at a time"
    elif way == "dates":
        levels = [level for level in builders.CALENDAR if level in form.get("calendar", ())]
        if not levels:
            raise ParameterError(
                "no level of the calendar was chosen", remedy="Choose at least one."
            )
        tree, said = builders.dates(values, levels, name=name), "dates: " + ", ".join(levels)
    else:
        tree, said = builders.flat(values), "nothing but * above"
    return EditableHierarchy.of(tree, said)


def _one(form: Mapping[str, Sequence[str]], name: str, kind: Callable[[str], Any]) -> Any:
    return _list(form, name, kind)[0]


def _list(form: Mapping[str, Sequence[str]], name: str, kind: Callable[[str], Any]) -> list[Any]:
    """Numbers as people write them: separated by commas or spaces."""
    written = "".join(form.get(name, [""])[:1]).replace(",", " ").split()
    try:
        numbers = [kind(part) for part in written[:1000]]
    except ValueError:
        numbers = []
    if not numbers or not all(abs(number) < 1e300 for number in numbers):
        raise ParameterError("numbers were expected", remedy="Write e.g. 18, 30, 65.")
    return numbers
