"""Full-domain recoding: every column on one level for the whole table, the best choice of levels.

The levels of all columns form a lattice. Rows in classes that fail the rules are left out, up to a
limit. Two facts keep most nodes from being looked at:

- No node loses less than its levels alone, left-out rows or not; nodes are visited by growing loss
  of their levels, and the search ends when that exceeds the best loss found.
- Where a node leaves out too many rows, so does every node below it: classes only grow upward
  (Samarati 2001; LeFevre et al. 2005, Incognito). For entropy, recursive and (α,k) rules and for
  t-closeness a class that holds may fail together with one that does not, so with a limit above
  zero those are searched without this. So they are where persons are counted: two classes that
  share persons may hold alone and fail together.

Where several sets of quasi-identifiers are asked for, the classes of each must hold: both facts
stay true. Leaving out rows for one set takes them from the classes of the others, and from the
distribution that t-closeness compares with; so rows are left out until nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from sfumato import kernels
from sfumato.anonymization.methods.lattice import nodes_by_loss
from sfumato.anonymization.persons import entries_of_persons
from sfumato.anonymization.problem import (
    Blocks,
    Problem,
    Solution,
    allowed_blocks,
    most_left_out,
    own_rows,
    sensitive_of,
)
from sfumato.budget import each
from sfumato.errors import ParameterError, PromiseError, did_you_mean, spell
from sfumato.hierarchy import EncodedHierarchy
from sfumato.hierarchy.tree import Array
from sfumato.privacy.rules import (
    DISTINCT,
    MAPPED,
    PERSONS,
    Rules,
    compares,
    groups_hold,
    held,
    recounted,
)

T = TypeVar("T")
Levels = tuple[int, ...]
UNKNOWN, FAILS, HOLDS = 0, 1, 2
LARGEST = 50_000_000
"""Nodes of a lattice beyond which levels cannot be enumerated."""
MOST_LOOKED_AT = 200_000_000
"""Nodes times combinations of values up to which every node is looked at, if asked for."""
LISTED = 20_000
"""Nodes of a lattice that is listed as a whole; of larger ones only what was visited."""


@dataclass(frozen=True)
class Node:
    """What a node of the lattice comes to.

    Attributes
    ----------
    k
        Rows of the smallest class that is released, or persons where those count; None if none is.
    loss
        Mean loss of all rows and columns, by the weights of columns; a row left out loses all.
    ncp
        The same with all columns alike: the normalized certainty penalty of such a release.
    suppressed
        Rows left out, beyond those that boundaries leave out.
    holds
        Whether no more rows are left out than allowed, and not all of them.
    """

    levels: Levels
    k: int | None
    loss: float
    ncp: float
    suppressed: int
    holds: bool


def solve(problem: Problem) -> Solution:
    """The node of least loss among those that leave out no more rows than allowed.

    Options: ``suppression_limit``, the share of rows that may be left out (default 0); ``levels``,
    of columns whose level is not searched for; ``every_node``, whether all nodes are looked at.
    """
    lattice = _Lattice(problem, most_left_out(problem))
    best: Node | None = None
    allowed = _allowed(problem, lattice)
    losses = [
        [own[level] for level in some] for own, some in zip(lattice.losses, allowed, strict=True)
    ]
    for places, bound in nodes_by_loss(losses):
        levels = tuple(some[place] for some, place in zip(allowed, places, strict=True))
        if best is not None and bound >= best.loss - 1e-12:
            break
        if problem.budget.spent() and best is not None:
            break
        if lattice.status[levels] == FAILS:
            continue
        node = lattice.visit(levels)
        if node.holds and (best is None or node.loss < best.loss):
            best = node
        elif not node.holds:
            lattice.leap(levels)
    if best is None:
        highest = lattice.visit(tuple(some[-1] for some in allowed))
        raise PromiseError(
            f"at these levels {highest.suppressed:,} rows look like too few others, and "
            f"{lattice.limit:,} may be left out",
            remedy=f"Give higher levels, or let more rows go ({spell('suppression_limit', 0.05)}).",
        )
    if problem.options.get("every_node"):
        lattice.visit_all()
    return lattice.solution(best, problem.budget.stopped_by)


def _allowed(problem: Problem, lattice: _Lattice) -> list[Sequence[int]]:
    """The levels of each column that may be chosen: all, or the one that was asked for."""
    asked = problem.options.get("levels") or {}
    for name in asked:
        if name not in problem.qi:
            raise ParameterError(
                f"`{name}` is not a column whose level is chosen",
                remedy=did_you_mean(name, problem.qi),
            )
    found: list[Sequence[int]] = []
    for name, height in zip(problem.qi, lattice.status.shape, strict=True):
        level = asked.get(name)
        if level is not None and level not in range(height):
            raise ParameterError(
                f"the tree of `{name}` has no level {level:g}",
                remedy=f"Give a whole number from 0 (exact) to {height - 1}.",
            )
        found.append(range(height) if level is None else (int(level),))
    return found


class _Lattice:
    """The lattice of levels, and what is known of its nodes."""

    def __init__(self, problem: Problem, limit: int) -> None:
        self.problem = problem
        self.limit = limit
        self.blocks: Blocks = allowed_blocks(problem)
        self.shapes = [_tree(problem, name) for name in problem.qi]
        self.nodes = [self._nodes(name, shape) for name, shape in self._named()]
        heights = tuple(nodes.shape[1] for nodes in self.nodes)
        if np.prod([float(height) for height in heights]) > LARGEST:
            raise ParameterError(
                f"the lattice of levels has more than {LARGEST:,} nodes",
                remedy="Use fewer quasi-identifiers or lower hierarchies, or "
                f"{spell('method', 'lattice')}.",
            )
        self.status = np.zeros(heights, dtype=np.int8)
        self.visited: dict[Levels, Node] = {}
        self.kept = self.blocks.order
        self.rows = problem.counts[self.kept]
        self.sensitive = sensitive_of(problem)[self.kept]
        self.codes = [problem.entries.column(name)[self.kept] for name, _ in self._named()]
        weights = np.array([problem.weight(name) for name, _ in self._named()])
        self.weights = weights / weights.sum() if weights.sum() else weights
        self.own = own_rows(problem)[self.kept]
        self.total = int(own_rows(problem).sum())
        self.left_out = self.total - int(self.own.sum())
        self.losses = self._losses()
        names = problem.qi
        self.sets = [[names.index(n) for n in one] for one in problem.sets or (names,)]
        self.persons = self._persons()
        kinds = problem.rules.kinds
        company = bool(np.isin(kinds, (DISTINCT, MAPPED, PERSONS)).all())
        self.monotone = company or (limit == 0 and problem.person is None)

    def _named(self) -> list[tuple[str, EncodedHierarchy]]:
        return list(zip(self.problem.qi, self.shapes, strict=True))

    def _nodes(self, name: str, shape: EncodedHierarchy) -> Array:
        """Node that each code shows on each level, never beyond its boundary."""
        nodes = shape.ancestors.astype(np.int64)
        limit = self.problem.limits.get(name)
        if limit is None or limit.magval is None:
            return nodes
        highest = limit.magval[:, None]
        beyond = shape.level[nodes] > shape.level[highest]
        return np.where(beyond, highest, nodes)

    def _each(self, function: Callable[[int], T], axes: Sequence[int]) -> list[T]:
        """What a function gives for some columns, several at a time."""
        return each(function, axes, len(axes) * len(self.kept), self.problem.budget.threads)

    def _persons(self) -> tuple[Array, Array] | None:
        """Kept entries and the persons who have rows of them, as pairs, where those count."""
        if self.problem.person is None:
            return None
        own = np.flatnonzero(self.own)  # the others are people of a population
        entries = self.problem.entries.take(self.kept[own])
        of, who = entries_of_persons(replace(self.problem, entries=entries))
        return own[of], who

    def _losses(self) -> list[list[float]]:
        """What each level of each column adds to the loss if no further row is left out."""
        total = max(self.total, 1)
        losses = []
        for axis, shape in enumerate(self.shapes):
            rows = np.bincount(self.codes[axis], weights=self.own, minlength=shape.size)
            lost = rows @ shape.loss[self.nodes[axis]]
            losses.append((self.weights[axis] * (lost + self.left_out) / total).tolist())
        return losses

    def classes_of_sets(self, levels: Levels) -> list[tuple[Array, int]]:
        """Classes at a node, by each set of columns that others may know together."""
        return [self.classes(levels, axes) for axes in self.sets]

    def released(self, classes: Sequence[tuple[Array, int]]) -> tuple[Array, int | None]:
        """Which of the kept entries are released at a node, and their smallest class."""
        rules = self.problem.rules
        again = len(classes) > 1 or compares(rules)
        released = np.ones(len(self.kept), dtype=bool)
        while True:
            before, smallest = int(released.sum()), None
            for ids, count in classes:
                good, sizes = self._good(ids, count, released, rules)
                released &= good[ids]
                occurs = good & (sizes > 0)
                if occurs.any():
                    least = int(sizes[occurs].min())
                    smallest = least if smallest is None else min(least, smallest)
            remain = int(released.sum())
            if not again or remain == before:
                return released, smallest if remain else None
            if compares(rules):
                rules = recounted(rules, self._held(released))

    def classes(self, levels: Levels, axes: Sequence[int]) -> tuple[Array, int]:
        """Class of each kept entry by some columns, and the number of classes."""
        shown = self._each(
            lambda axis: self.nodes[axis][:, levels[axis]].astype(np.uint32)[self.codes[axis]],
            axes,
        )
        sizes = [self.shapes[axis].nodes for axis in axes]
        ids, count = kernels.class_ids(shown, sizes, entries=len(self.kept), ordered=False)
        return np.asarray(ids), int(count)

    def _good(self, ids: Array, count: int, released: Array, rules: Rules) -> tuple[Array, Array]:
        """Which classes hold with the released entries alone, and their rows."""
        sizes = kernels.group_sums(ids, count, np.where(released, self.own, 0))
        if not len(rules.kinds):
            return sizes >= rules.k, sizes
        there = np.where(released, ids.astype(np.int64), -1)
        return groups_hold(there, count, self.rows, self.sensitive, rules), sizes

    def _held(self, released: Array) -> Array:
        """How many released rows hold each sensitive value."""
        chosen = np.flatnonzero(released)
        return np.asarray(held(chosen, self.rows, self.sensitive, self.problem.rules))

    def visit(self, levels: Levels) -> Node:
        """Look at a node, and tell its neighbours."""
        if levels in self.visited:
            return self.visited[levels]
        classes = self.classes_of_sets(levels)
        kept, smallest = self.released(classes)
        if self.persons is not None and smallest is not None:
            smallest = self._fewest_persons(classes, kept)
        suppressed = int(self.own[~kept].sum())
        gone = self.left_out + suppressed + 0.0

        def share(axis: int) -> float:
            cell = self.shapes[axis].loss[self.nodes[axis][:, levels[axis]]][self.codes[axis]]
            return (float((cell * self.own)[kept].sum()) + gone) / max(self.total, 1)

        lost = np.array(self._each(share, range(len(self.shapes))))
        node = Node(
            levels,
            smallest,
            float(self.weights @ lost),
            float(lost.mean()),
            suppressed,
            suppressed <= self.limit and suppressed < self.total - self.left_out,
        )
        self.visited[levels] = node
        self.status[levels] = HOLDS if node.holds else FAILS
        if self.monotone:
            if node.holds:
                above = self.status[tuple(slice(level, None) for level in levels)]
                above[...] = HOLDS
            else:
                below = self.status[tuple(slice(None, level + 1) for level in levels)]
                below[...] = FAILS
        return node

    def _fewest_persons(self, classes: Sequence[tuple[Array, int]], released: Array) -> int:
        """Persons of the smallest class that is released."""
        assert self.persons is not None
        of, who = (one[released[self.persons[0]]] for one in self.persons)
        number = int(who.max()) + 1
        found = []
        for ids, count in classes:
            persons = kernels.group_distinct(ids[of], count, who, number)
            found.append(int(persons[persons > 0].min()))
        return min(found)

    def visit_all(self) -> None:
        """Look at every node, where that takes no longer than a person waits."""
        if self.status.size > LISTED or self.status.size * len(self.kept) > MOST_LOOKED_AT:
            return
        for levels in np.ndindex(*self.status.shape):
            if self.problem.budget.spent():
                return
            self.visit(levels)

    def leap(self, levels: Levels) -> None:
        """Halve the way up from a failing node, to learn of as many failing nodes as possible."""
        if not self.monotone:
            return
        way = [levels]
        while True:
            last = way[-1]
            steps = [
                (self.losses[axis][level + 1] - self.losses[axis][level], axis)
                for axis, level in enumerate(last)
                if level + 1 < self.status.shape[axis]
            ]
            if not steps:
                break
            axis = min(steps)[1]
            way.append((*last[:axis], last[axis] + 1, *last[axis + 1 :]))
        low, high = 0, len(way)
        while high - low > 1:
            middle = (low + high) // 2
            known = self.status[way[middle]]
            if known == UNKNOWN:
                known = HOLDS if self.visit(way[middle]).holds else FAILS
            if known == FAILS:
                low = middle
            else:
                high = middle

    def solution(self, best: Node, stopped_by: str | None) -> Solution:
        """The release at a node, and the lattice as far as it is known."""
        released, _ = self.released(self.classes_of_sets(best.levels))
        ids, count = self.classes(best.levels, range(len(self.shapes)))
        occurs = np.zeros(count, dtype=bool)
        occurs[ids[released]] = True
        number = np.cumsum(occurs) - 1
        groups = np.full(self.problem.entries.entries, -1, dtype=np.int32)
        groups[self.kept] = np.where(released, number[ids], -1)
        first = np.asarray(kernels.representatives(ids, count), dtype=np.int64)[occurs]
        published = {
            name: shape.published(self.nodes[axis][self.codes[axis][first], best.levels[axis]])
            for axis, (name, shape) in enumerate(self._named())
        }
        details = {
            "levels": dict(zip(self.problem.qi, best.levels, strict=True)),
            "lattice": self._listing(best),
        }
        return Solution(groups, published, details=details, stopped_by=stopped_by)

    def _listing(self, best: Node) -> dict[str, Any]:
        """All nodes, or the visited ones of a very large lattice; null where nothing is known."""
        if self.status.size <= LISTED:
            nodes = [tuple(int(i) for i in index) for index in np.ndindex(*self.status.shape)]
        else:
            nodes = sorted(self.visited)
        seen = [self.visited.get(levels) for levels in nodes]
        known = {UNKNOWN: None, FAILS: False, HOLDS: True}
        return {
            "columns": list(self.problem.qi),
            "heights": list(self.status.shape),
            "nodes": int(self.status.size),
            "visited": len(self.visited),
            "levels": [list(levels) for levels in nodes],
            "holds": [known[int(self.status[levels])] for levels in nodes],
            "k": [None if node is None else node.k for node in seen],
            "loss": [None if node is None else node.loss for node in seen],
            "ncp": [None if node is None else node.ncp for node in seen],
            "suppressed": [None if node is None else node.suppressed for node in seen],
            "optimal": nodes.index(best.levels),
        }


def _tree(problem: Problem, name: str) -> EncodedHierarchy:
    shape = problem.shapes[name]
    if not isinstance(shape, EncodedHierarchy):
        raise ParameterError(
            f"full-domain recoding needs a hierarchy for `{name}`",
            remedy=f"Give one ({spell('hierarchies', 'folder')}); `sfumato hierarchy make` drafts "
            "it.",
        )
    return shape
