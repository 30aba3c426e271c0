"""Trees given by their edges: pairs of child and parent. Branches may be of unequal depth."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.errors import HierarchyError
from sfumato.files import read_text
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.tree import Tree

__all__ = ["read_taxonomy", "taxonomy"]

_ONE_A_LINE = "Write one pair a line, e.g. Lincoln,Midwest"


def taxonomy(
    pairs: Iterable[tuple[str, str]], *, where: str | None = None, first_line: int = 1
) -> Hierarchy:
    """Build a hierarchy from (child, parent) pairs; values are the nodes nothing stands below.

    Parameters
    ----------
    pairs
        Child and parent, in any order; each node is the child of one parent.
    where, first_line
        File and line of the first pair, for error messages.

    Examples
    --------
    >>> h = taxonomy([("cat", "mammal"), ("dog", "mammal"), ("mammal", "all"), ("ant", "all")])
    >>> h.leaves.to_pylist(), h.height, h.uniform
    (['cat', 'dog', 'ant'], 2, False)
    """
    parent_of: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for line, (child, parent) in enumerate(pairs, first_line):
        if parent_of.get(child, parent) != parent:
            raise HierarchyError(
                f"line {line} gives a second parent to the child of line {line_of[child]}",
                where=where,
                remedy="Keep one parent a child.",
            )
        if child == parent:
            raise HierarchyError(
                f"line {line} makes a node its own parent",
                where=where,
                remedy="Leave that line out.",
            )
        if child not in parent_of:
            parent_of[child], line_of[child] = parent, line
    if not parent_of:
        raise HierarchyError("the hierarchy is empty", where=where, remedy=_ONE_A_LINE)
    parents = dict.fromkeys(parent_of.values())
    roots = [label for label in parents if label not in parent_of]
    _refuse_cycles(parent_of, line_of, where)
    if len(roots) != 1:
        first_of: dict[str, int] = {}
        for child, parent in parent_of.items():
            first_of.setdefault(parent, line_of[child])
        lines = ", ".join(str(first_of[root]) for root in roots[:5])
        raise HierarchyError(
            f"there are {len(roots)} roots, at lines {lines}",
            where=where,
            remedy="Put them below one common parent.",
        )

    leaves = [label for label in parent_of if label not in parents]
    height = dict.fromkeys(leaves, 0)
    for leaf in leaves:
        label, steps = leaf, 0
        while label in parent_of:
            label, steps = parent_of[label], steps + 1
            if height.get(label, -1) >= steps:
                break
            height[label] = steps
    inner = sorted((label for label in height if label in parents), key=lambda label: height[label])
    nodes = leaves + inner
    number = {label: i for i, label in enumerate(nodes)}
    above = np.array([number[parent_of[label]] if label in parent_of else -1 for label in nodes])
    return Hierarchy(Tree.grow(above, len(leaves)), pa.array(nodes, type=pa.string()), where)


def read_taxonomy(path: str | Path, delimiter: str = ",") -> Hierarchy:
    """Read a file with one ``child,parent`` a line."""
    text = read_text(path, "the taxonomy", kind=HierarchyError)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise HierarchyError(
            f"this is no text table: {error}", where=str(path), remedy=_ONE_A_LINE
        ) from None
    for line, row in enumerate(rows, 1):
        if len(row) != 2:
            raise HierarchyError(
                f"line {line} has {len(row)} fields instead of child and parent",
                where=str(path),
                remedy=_ONE_A_LINE,
            )
    return taxonomy([(row[0], row[1]) for row in rows], where=str(path))


def _refuse_cycles(parent_of: dict[str, str], line_of: dict[str, int], where: str | None) -> None:
    safe: set[str] = set()
    for start in parent_of:
        way: dict[str, None] = {}
        label = start
        while label in parent_of and label not in safe:
            if label in way:
                raise HierarchyError(
                    f"the node of line {line_of[label]} stands above itself",
                    where=where,
                    remedy="Follow its parents, and correct the line that leads back.",
                )
            way[label] = None
            label = parent_of[label]
        safe.update(way)
