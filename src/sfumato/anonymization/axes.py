"""The quasi-identifiers as a space that compiled loops can cut and cluster.

Every column becomes an axis: values have positions on it, and groups of neighbouring positions are
what can be published. On the axis of a tree the leaves below a node are one run of positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.engines.results import usual_dtype
from sfumato.hierarchy import EncodedHierarchy, Published, Ranges, ValueSets
from sfumato.hierarchy.ranges import published_ranges
from sfumato.kernels.cores import each

__all__ = [
    "axes_of",
    "grouped",
    "pieced",
    "positions_of",
    "published_groups",
    "sensitive_of",
    "with_ranges",
]

Array = npt.NDArray[Any]
LINE, TREE = 0, 1


class Axes(NamedTuple):
    """All axes in flat arrays; what belongs to axis j starts at ``offsets[j]``.

    Attributes
    ----------
    kinds
        LINE for ranges and sets of values, TREE for hierarchies.
    sizes
        Number of positions.
    offsets, places
        Where positions of an axis start; place of each position on a line from 0 to 1 (what
        has no place among numbers lies beyond 1).
    node_offsets, parent, first, last, loss
        Nodes of the trees, with the positions they cover and the loss of showing them.
    leaf
        Node of each position.
    """

    kinds: Array
    sizes: Array
    offsets: Array
    places: Array
    node_offsets: Array
    parent: Array
    first: Array
    last: Array
    loss: Array
    leaf: Array


def axes_of(problem: Problem) -> Axes:
    """The axes of a problem, in the order of its quasi-identifiers."""
    kinds, sizes, places, leaf = [], [], [], []
    trees: list[tuple[Array, ...]] = []
    for name in problem.qi:
        shape = problem.shapes[name]
        sizes.append(shape.size)
        if isinstance(shape, EncodedHierarchy):
            kinds.append(TREE)
            places.append(np.zeros(shape.size))
            leaf.append(shape.order)
            trees.append((shape.parent, shape.first, shape.last, shape.loss))
        else:
            kinds.append(LINE)
            places.append(_places(shape))
            leaf.append(np.zeros(shape.size, dtype=np.int32))
            trees.append((np.zeros(0, dtype=np.int32),) * 3 + (np.zeros(0),))
    columns = [np.concatenate(part) for part in zip(*trees, strict=True)]
    return Axes(
        kinds=np.array(kinds, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        offsets=_starts([len(part) for part in places]),
        places=np.concatenate(places),
        node_offsets=_starts([len(tree[0]) for tree in trees]),
        parent=columns[0].astype(np.int64),
        first=columns[1].astype(np.int64),
        last=columns[2].astype(np.int64),
        loss=columns[3].astype(np.float64),
        leaf=np.concatenate(leaf).astype(np.int64),
    )


def _places(shape: Ranges | ValueSets) -> Array:
    if isinstance(shape, ValueSets):
        return np.arange(shape.size) / max(shape.size - 1, 1)
    on_line = (shape.points - shape.points[:1]) / (shape.width or 1.0)
    beyond = 2.0 + np.arange(shape.size - len(on_line))
    return np.concatenate([on_line, beyond])


def _starts(sizes: list[int]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def positions_of(problem: Problem) -> Array:
    """Position of every entry on every axis, one row an entry."""
    shapes = [problem.shapes[name] for name in problem.qi]
    size = (problem.entries.entries, len(shapes))
    widest = usual_dtype(max((shape.size for shape in shapes), default=1), math.prod(size))
    table = np.empty(size, dtype=widest)
    for at, (name, shape) in enumerate(zip(problem.qi, shapes, strict=True)):
        codes = problem.entries.column(name)
        table[:, at] = codes if isinstance(shape, ValueSets) else shape.position[codes]
    return table


def sensitive_of(problem: Problem) -> Array:
    """Where the sensitive values of every entry are counted, and its persons; one row an entry."""
    persons = problem.person is not None
    table = np.empty((problem.entries.entries, len(problem.sensitive) + persons), dtype=np.int64)
    for at, name in enumerate(problem.sensitive):
        table[:, at] = problem.entries.column(name) + problem.rules.offsets[at]
    if problem.person is not None:
        table[:, -1] = problem.entries.column(problem.person)
    return table


def published_groups(
    problem: Problem,
    groups: Array,
    count: int,
    entry: Array | None = None,
    rows: Array | None = None,
) -> dict[str, Published]:
    """What each group shows on each axis: its lowest ancestor, range or set of values.

    `groups` has one number a piece, -1 for suppressed ones; `entry` says which entry a piece is
    of, where pieces are not entries, and `rows` how many of its rows it takes.
    """
    if rows is None:
        rows = problem.counts if entry is None else problem.counts[entry]
    kept = groups >= 0
    sizes = np.bincount(groups[kept], rows[kept], count)

    def showing(name: str) -> Published | tuple[Ranges, Array, Array]:
        codes = problem.entries.column(name)
        codes = codes if entry is None else codes[entry]
        shape = problem.shapes[name]
        if isinstance(shape, EncodedHierarchy):
            return shape.published(shape.lca(codes, groups, count))
        if isinstance(shape, Ranges):
            return (shape, *shape.spans(codes, groups, count))
        return shape.published(*shape.collect(codes, groups, count))

    cells = len(groups) * len(problem.qi)
    found = each(showing, problem.qi, cells, problem.budget.threads)
    return with_ranges(problem, dict(zip(problem.qi, found, strict=True)), sizes)


def with_ranges(
    problem: Problem,
    found: Mapping[str, Published | tuple[Ranges, Array, Array]],
    rows: Array,
) -> dict[str, Published]:
    """What groups of so many rows show in all columns, given spans in place of ranges."""
    shown = {name: one for name, one in found.items() if isinstance(one, Published)}
    ranges = {name: one for name, one in found.items() if not isinstance(one, Published)}
    lost = 0.0
    for published in shown.values():
        there = published.codes >= 0
        lost += float(rows[there] @ published.loss[published.codes[there]])
    shown |= published_ranges(ranges, rows, lost)
    return {name: shown[name] for name in problem.qi}


def grouped(problem: Problem, groups: Array, **facts: Any) -> Solution:
    """The solution that puts whole entries into groups; empty group numbers are closed up."""
    kept = groups >= 0
    used = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int32)
    used[groups[kept]] = 1
    count = int(used.sum())
    closed = np.full(len(groups), -1, dtype=np.int32)
    closed[kept] = (np.cumsum(used) - 1)[groups[kept]]
    return Solution(closed, published_groups(problem, closed, count), **facts)


def pieced(problem: Problem, entry: Array, rows: Array, groups: Array, **facts: Any) -> Solution:
    """The solution that puts some rows of an entry here and some there.

    Pieces come with their entry, their rows and their group; those of one entry in one group become
    one piece.
    """
    count = int(groups.max(initial=-1)) + 1
    keys, inverse = np.unique(entry * (count + 1) + (groups + 1), return_inverse=True)
    joined = np.bincount(inverse, weights=rows).astype(np.int64)
    piece_entry, group = np.divmod(keys, count + 1)
    piece_groups = group - 1
    if len(keys) == problem.entries.entries:
        return grouped(problem, piece_groups, **facts)
    kept = piece_groups >= 0
    _, dense = np.unique(piece_groups[kept], return_inverse=True)
    closed = np.full(len(keys), -1, dtype=np.int32)
    closed[kept] = dense
    count = int(dense.max(initial=-1)) + 1
    shown = published_groups(problem, closed, count, piece_entry, joined)
    return Solution(closed, shown, entry=piece_entry.astype(np.int64), rows=joined, **facts)
