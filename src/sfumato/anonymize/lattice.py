"""Lattice-descending local recoding: from fine to coarse, whoever finds enough company stays.

Every column has levels: those of its tree, halves of halves of its range, or for a set of values
just "itself" and "anything". The nodes of the lattice of levels are visited by growing average
loss. At each node, rows not yet covered that look alike there and satisfy the rules become a group,
which then shows no more than it must: its lowest common ancestors. It is the covering of Park &
Shim (approximate algorithms for k-anonymity) with levels in the place of sets of columns.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymize.blocks import Blocks, allowed_blocks
from sfumato.anonymize.pricing import prices_of
from sfumato.anonymize.problem import Problem, Shape, Solution
from sfumato.anonymize.space import grouped, positions_of, sensitive_of
from sfumato.hierarchy import BoundHierarchy, Ranges

__all__ = ["descending_groups", "level_groups", "nodes_by_loss", "solve"]

Array = npt.NDArray[Any]
MOST_NODES = 50_000
"""Nodes visited at most; what is still uncovered then joins the group it hurts least."""


def solve(problem: Problem) -> Solution:
    """Cover the rows from the finest node of the lattice to the coarsest."""
    blocks = allowed_blocks(problem)
    return grouped(problem, descending_groups(problem, blocks))


def descending_groups(problem: Problem, blocks: Blocks) -> Array:
    """Group of every entry, -1 outside of the blocks."""
    from sfumato.anonymize._lattice import descend

    shapes = [problem.shapes[name] for name in problem.quasi_identifiers]
    levels = [level_groups(shape) for shape in shapes]
    table = positions_of(problem)
    losses = _average_losses(problem, table, levels)
    nodes = []
    for levels_of_node, _ in nodes_by_loss(losses):
        nodes.append(levels_of_node)
        if len(nodes) >= MOST_NODES or problem.budget.spent():
            break
    random = np.random.default_rng(problem.seed)
    marks, starts = _marks(levels, random)
    base = np.zeros(len(table), dtype=np.uint64)
    names = random.integers(0, 2**63, size=blocks.count, dtype=np.uint64)
    base[blocks.order] = np.repeat(names, np.diff(blocks.starts))
    groups = np.full(len(table), -1, dtype=np.int64)
    descend(
        table,
        problem.counts,
        sensitive_of(problem),
        blocks.order,
        base,
        np.array(nodes, dtype=np.int64),
        starts,
        marks,
        problem.rules,
        groups,
    )
    return _placed(problem, table, blocks, groups)


def level_groups(shape: Shape) -> list[Array]:
    """For each level of a column which positions look alike on it, from finest to coarsest."""
    whole = np.zeros(shape.size, dtype=np.int64)
    finest = np.arange(shape.size)
    if isinstance(shape, BoundHierarchy):
        return [shape.ancestors[shape.order, level] for level in range(shape.height + 1)]
    if not isinstance(shape, Ranges) or shape.width == 0:
        return [finest, whole]
    levels = [whole]
    share = (shape.points - shape.points[0]) / shape.width
    parts = 2
    while parts < 2 * shape.size and len(levels) < 7:
        part = np.minimum((share * parts).astype(np.int64), parts - 1)
        beyond = parts + np.arange(shape.size - len(part))
        levels.append(np.concatenate([part, beyond]))
        parts *= 2
    return [finest, *levels[::-1]]


def nodes_by_loss(losses: Sequence[Sequence[float]]) -> Iterator[tuple[tuple[int, ...], float]]:
    """All nodes of the lattice by growing sum of the losses of their levels, best first.

    Examples
    --------
    >>> [levels for levels, _ in nodes_by_loss([[0, 3], [0, 1, 2]])]
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    """
    bottom = (0,) * len(losses)
    heap = [(sum(loss[0] for loss in losses), bottom)]
    while heap:
        loss, levels = heapq.heappop(heap)
        yield levels, loss
        # each node is reached once: from the node that is one lower on its last raised column
        raised = max((axis for axis, level in enumerate(levels) if level), default=0)
        for axis in range(raised, len(levels)):
            level = levels[axis] + 1
            if level < len(losses[axis]):
                more = losses[axis][level] - losses[axis][level - 1]
                heapq.heappush(heap, (loss + more, (*levels[:axis], level, *levels[axis + 1 :])))


def _average_losses(problem: Problem, table: Array, levels: list[list[Array]]) -> list[list[float]]:
    """Mean loss of the rows on each level of each column, times the column's weight."""
    losses = []
    for axis, name in enumerate(problem.quasi_identifiers):
        shape = problem.shapes[name]
        rows = np.bincount(table[:, axis], weights=problem.counts, minlength=shape.size)
        share = rows / max(float(rows.sum()), 1.0)
        means = [float(share @ _level_loss(shape, groups)) for groups in levels[axis]]
        losses.append([mean * problem.weight(name) for mean in np.maximum.accumulate(means)])
    return losses


def _level_loss(shape: Shape, groups: Array) -> Array:
    """Loss of each position when it shows all that looks like it on a level."""
    if isinstance(shape, BoundHierarchy):
        return np.asarray(shape.loss[groups])
    if isinstance(shape, Ranges):
        low = np.full(int(groups.max(initial=0)) + 1, shape.size)
        high = np.zeros_like(low)
        np.minimum.at(low, groups, np.arange(shape.size))
        np.maximum.at(high, groups, np.arange(shape.size))
        return np.asarray(shape.loss(low[groups], high[groups]))
    sizes = np.bincount(groups)
    return np.asarray((sizes[groups] - 1) / max(shape.size - 1, 1))


def _marks(levels: list[list[Array]], random: np.random.Generator) -> tuple[Array, Array]:
    """A random number for what looks alike on each level, and where those of a level start."""
    starts = np.zeros((len(levels), max(len(column) for column in levels)), dtype=np.int64)
    marks: list[Array] = []
    at = 0
    for axis, column in enumerate(levels):
        for level, groups in enumerate(column):
            starts[axis, level] = at
            drawn = random.integers(0, 2**63, size=int(groups.max(initial=0)) + 1, dtype=np.uint64)
            marks.append(drawn[groups])
            at += len(groups)
    return np.concatenate(marks), starts


def _placed(problem: Problem, table: Array, blocks: Blocks, groups: Array) -> Array:
    """Give what is still uncovered to the groups of its block that it hurts least."""
    from sfumato.anonymize._kmember import place_leftovers

    if not (groups[blocks.order] < 0).any():
        return groups
    prices = prices_of(problem)
    sensitive = sensitive_of(problem)
    next_group = int(groups.max(initial=-1)) + 1
    for block in range(blocks.count):
        members = blocks[block]
        leftovers = members[groups[members] < 0]
        if len(leftovers) == 0:
            continue
        covered = members[groups[members] >= 0]
        names, local = np.unique(groups[covered], return_inverse=True)
        numbers = np.full(len(groups), -1, dtype=np.int64)
        numbers[covered] = local
        place_leftovers(
            table,
            problem.counts,
            sensitive,
            members,
            leftovers,
            prices,
            problem.rules,
            numbers,
            0,
            len(names),
        )
        groups[members] = np.r_[names, next_group][numbers[members]]
        next_group += 1
    return groups
