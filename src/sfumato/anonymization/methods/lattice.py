"""Lattice-descending local recoding: from fine to coarse, whoever finds enough company stays.

Every column has levels: those of its tree, halves of halves of its range, or for a set of values
just "itself" and "anything". The nodes of the lattice of levels are visited from fine to coarse, in
passes with a rising limit on the loss. At each node, rows not yet covered that look alike there,
satisfy the rules and lose no more than the limit become a group, which then shows no more than it
must: its lowest common ancestors. It is the covering of Park & Shim (approximate algorithms for
k-anonymity) with levels in the place of sets of columns.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sfumato.anonymization.methods.kmember import place_leftovers
from sfumato.anonymization.methods.pricing import prices_of
from sfumato.anonymization.problem import (
    Blocks,
    Problem,
    Shape,
    Solution,
    allowed_blocks,
    grouped,
    positions_of,
    sensitive_of,
)
from sfumato.budget import Budget, spans, together, usable_threads
from sfumato.hierarchy import EncodedHierarchy, Ranges
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.privacy.rules import (
    CLOSE_EQUAL,
    DISTINCT,
    PERSONS,
    Rules,
    clear,
    enough,
    few_groups_hold,
    holds,
    take_in,
)

MOST_NODES = 20_000
"""Nodes of a lattice that is visited as a whole; of a larger one some levels are left out."""
PASSES = 24
"""Steps in which the loss limit rises."""
ROUNDING = 1e-9
LOOKED_AHEAD, LEAST_LOOK = 1 << 20, 64
"""Entries times visits in all, and visits of a pass, from which on somebody looks which of them are
worth it."""
UNHELPFUL = 3
"""Passes in which nobody looks after more than half of the visits were worth it."""
WORK = 1_000_000
"""Entries looked at, summed over nodes, before somebody asks whether there is time left."""
TOGETHER = 1 << 18
"""Entries, of all choices of levels together, up to which numpy looks ahead at once."""
SHARED = 1 << 17
"""Entries from which on they are dealt into shares …"""
SHARE_BITS = 8
"""… of which there are two to the power of this."""
HURRIED = 16
"""Nodes visited when there is none: some of those that are left, and the coarsest."""


def solve(problem: Problem) -> Solution:
    """Cover the rows from the finest node of the lattice to the coarsest.

    When the time is over, only a few of the nodes that are left are visited.
    """
    blocks = allowed_blocks(problem)
    groups = placed(problem, blocks, covering_groups(problem, blocks))
    return grouped(problem, groups, stopped_by=problem.budget.stopped_by)


def covering_groups(problem: Problem, blocks: Blocks, *, needed: bool = True) -> Array:
    """Group of every entry that finds company in the end, -1 of the others.

    Where it is not `needed`, what is unfinished when the time is over stays so.
    """
    visits = _Visits.of(problem, blocks)
    nodes, limits, once = visits.nodes, visits.limits, visits.once
    uncovered, group, blind = blocks.order.copy(), 0, 0
    if len(nodes) * len(uncovered) < LOOKED_AHEAD or limits[-1] == np.inf:
        blind = len(nodes)
    ends = np.flatnonzero(np.append(limits[1:] != limits[:-1], True)) + 1
    for begin, end in pairwise([0, *ends]):
        before = limits[begin - 1] - 2 * ROUNDING if begin and once else -np.inf
        turn, blind = np.arange(begin, end), blind - 1
        if blind < 0 and len(turn) >= LEAST_LOOK and 0 < len(uncovered) < SHARED:
            promising = visits.ahead.promising(uncovered, nodes[turn], before, limits[begin])
            blind = UNHELPFUL if 2 * promising.sum() > len(turn) else 0
            turn = turn[promising]
        while len(turn) and len(uncovered):
            problem.budget.progress("descending the lattice", (end - len(turn)) / len(nodes))
            some = turn[: 1 + WORK // len(uncovered)]
            if problem.budget.spent():
                if not needed:
                    return visits.groups
                rest = np.append(turn, np.arange(end, len(nodes)))
                some = rest[np.unique(np.linspace(0, len(rest) - 1, HURRIED).astype(np.int64))]
            group, uncovered = visits.made(uncovered, some, before, group)
            turn = turn[len(some) :]
            if problem.budget.stopped_by:
                return visits.groups
    return visits.groups


@dataclass(frozen=True, eq=False)
class _Visits:
    """The nodes of a lattice, and the groups that are made there.

    Attributes
    ----------
    nodes, limits, prices
        The nodes in turn, up to which loss classes may be taken there, and what levels lose.
    once
        Whether what fails the rules fails them with fewer rows, too.
    """

    problem: Problem
    nodes: Array
    limits: Array
    levels: list[list[Array]]
    prices: list[list[Array]]
    lattice: Lattice
    rules: Rules
    groups: Array
    once: bool

    @classmethod
    def of(cls, problem: Problem, blocks: Blocks) -> _Visits:
        random = np.random.default_rng(problem.seed)
        levels, prices = levels_of(problem, MOST_NODES)
        nodes, limits = _visits(prices, random)
        lattice = lattice_of(problem, blocks, levels, prices, random)
        groups = np.full(len(lattice.table), -1, dtype=np.int64)
        rules = problem.rules._replace(k=least_rows(problem.rules))
        once = bool(np.isin(rules.kinds, (DISTINCT, PERSONS)).all())
        return cls(problem, nodes, limits, levels, prices, lattice, rules, groups, once)

    @cached_property
    def ahead(self) -> _Ahead:
        """Who looks at nodes before they are visited."""
        given = (self.lattice, self.levels, self.prices, self.rules.k)
        return _Ahead(*given, self.problem.budget)

    def made(self, uncovered: Array, turn: Array, before: float, group: int) -> tuple[int, Array]:
        """Visit nodes in turn; the number of the next group, and who is still uncovered."""
        given = (
            self.lattice, uncovered, self.nodes[turn], before, self.limits[turn], self.rules,
            self.groups, group,
        )  # fmt: skip
        if len(uncovered) < SHARED:
            group, left = _descend(*given)
        else:
            group, left = _descend_in_shares(*given, self.problem.budget.threads)
        return group, uncovered[:left]


def levels_of(problem: Problem, most: int) -> tuple[list[list[Array]], list[list[Array]]]:
    """Of each column, level by level: what looks alike, and what each position loses there.

    Levels are left out that change nothing, and so many that there are no more nodes than `most`.
    """
    levels = [level_groups(problem.shapes[name]) for name in problem.qi]
    prices = [
        [problem.weight(name) * _level_loss(problem.shapes[name], groups) for groups in column]
        for name, column in zip(problem.qi, levels, strict=True)
    ]
    kept = _spread([[float(p.sum()) / max(len(p), 1) for p in column] for column in prices], most)
    for column, chosen in enumerate(kept):
        levels[column] = [levels[column][level] for level in chosen]
        prices[column] = [prices[column][level] for level in chosen]
    return levels, prices


def lattice_of(
    problem: Problem,
    blocks: Blocks,
    levels: list[list[Array]],
    prices: list[list[Array]],
    random: np.random.Generator,
    known: tuple[Array, Array] | None = None,
) -> Lattice:
    """What entries look like on each of these levels; their positions and values may be known."""
    table, sensitive = known or (positions_of(problem), sensitive_of(problem))
    marks, starts = _marks(levels, random)
    base = np.zeros(problem.entries.entries, dtype=np.uint64)
    names = random.integers(0, 2**63, size=blocks.count, dtype=np.uint64)
    base[blocks.order] = np.repeat(names, np.diff(blocks.starts))
    return Lattice(
        table,
        problem.counts,
        sensitive,
        base,
        starts,
        marks,
        np.concatenate([price for column in prices for price in column]),
    )


def least_rows(rules: Rules) -> int:
    """How many rows a class has at least that satisfies all rules.

    As many as it needs different values: so that those it lacks are not too common in the table,
    where closeness is asked.
    """
    least = rules.k
    if rules.people >= 0 or rules.mapped >= 0:
        return least
    for kind, column, value in zip(rules.kinds, rules.columns, rules.values, strict=True):
        if kind == DISTINCT:
            least = max(least, math.ceil(value))
        elif kind == CLOSE_EQUAL:
            shares = rules.reference[rules.offsets[column] : rules.offsets[column + 1]]
            lacking = 1.0 - np.cumsum(np.sort(shares)[::-1])
            least = max(least, 1 + int((lacking > value + ROUNDING).sum()))
    return least


def level_groups(shape: Shape) -> list[Array]:
    """For each level of a column which positions look alike on it, from finest to coarsest."""
    whole = np.zeros(shape.size, dtype=np.int64)
    finest = np.arange(shape.size)
    if isinstance(shape, EncodedHierarchy):
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


def _spread(losses: list[list[float]], most: float) -> list[list[int]]:
    """Levels of each column that a lattice of not too many nodes is made of.

    Levels go that lose about what those next to them do. The finest and the coarsest stay, so that
    rows which find no company on a fine level still find it before the very top.

    Examples
    --------
    >>> _spread([[0.0, 0.1, 0.4, 1.0], [0.0, 1.0]], 8)
    [[0, 1, 2, 3], [0, 1]]
    """
    kept = [
        [level for level, loss in enumerate(column) if not level or loss > column[level - 1]]
        for column in losses
    ]
    while math.prod(map(len, kept)) > most:
        gaps = [
            (losses[axis][column[at + 1]] - losses[axis][column[at - 1]], axis, at)
            for axis, column in enumerate(kept)
            for at in range(1, len(column) - 1)
        ]
        if not gaps:
            break
        _, axis, at = min(gaps)
        del kept[axis][at]
    return kept


def _visits(prices: list[list[Array]], random: np.random.Generator) -> tuple[Array, Array]:
    """Nodes to visit in turn, and up to which loss classes may be taken there.

    The loss limit rises step by step; a node is visited while some of its classes may lose as much
    as the limit, until none loses more. Where even with few levels there are too many, some are
    drawn from the bottom to the top, and visited once, without limit.
    """
    least = [[float(price.min(initial=1.0)) for price in column] for column in prices]
    most = [[float(price.max(initial=0.0)) for price in column] for column in prices]
    middle = [
        [(low + high) / 2 for low, high in zip(*column, strict=True)]
        for column in zip(least, most, strict=True)
    ]
    large = math.prod(map(len, prices)) > MOST_NODES
    nodes = _drawn(middle, random) if large else _all_nodes(middle)
    if large:
        return nodes, np.full(len(nodes), np.inf)
    low = _sums(nodes, least)
    high = _sums(nodes, most)
    first = high[high > 0].min(initial=1.0) / 4
    limits = np.concatenate([[0.0], np.geomspace(first, max(float(high.max()), first), PASSES)])
    turns = []
    before = -1.0
    for limit in limits:
        turns.append(np.flatnonzero((low <= limit) & (high > before)))
        before = limit
    return nodes[np.concatenate(turns)], np.repeat(limits, [len(turn) for turn in turns]) + ROUNDING


def _all_nodes(losses: list[list[float]]) -> Array:
    """What `nodes_by_loss` would list to its end.

    Examples
    --------
    >>> _all_nodes([[0, 3], [0, 1, 2]]).tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    total = np.full(1, float(sum(column[0] for column in losses)))
    for column in losses:
        steps = [total]
        for more in np.diff(column):
            steps.append(steps[-1] + more)
        total = np.stack(steps, axis=-1).reshape(-1)
    nodes = np.indices([len(column) for column in losses]).reshape(len(losses), -1).T
    return np.ascontiguousarray(nodes[np.argsort(total, kind="stable")], dtype=np.int64)


def _drawn(losses: list[list[float]], random: np.random.Generator) -> Array:
    """Different nodes on random ways from the bottom of the lattice to its top, by their loss."""
    heights = np.array([len(column) - 1 for column in losses])
    steps = np.repeat(np.arange(len(heights)), heights)
    ways = []
    for _ in range(MOST_NODES // (len(steps) + 1)):
        raised = random.permutation(steps)
        ways.append(np.cumsum(np.eye(len(heights), dtype=np.int64)[raised], axis=0))
    nodes = np.unique(np.concatenate([np.zeros((1, len(heights)), np.int64), *ways]), axis=0)
    return nodes[np.argsort(_sums(nodes, losses), kind="stable")]


def _sums(nodes: Array, values: list[list[float]]) -> Array:
    """Sum over the columns of what each node's levels have."""
    total = np.zeros(len(nodes))
    for axis, column in enumerate(values):
        total += np.array(column)[nodes[:, axis]]
    return total


def _level_loss(shape: Shape, groups: Array) -> Array:
    """Loss of each position when it shows all that looks like it on a level."""
    if isinstance(shape, EncodedHierarchy):
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
    looks: list[Array] = []
    at = drawn = 0
    for axis, column in enumerate(levels):
        for level, groups in enumerate(column):
            starts[axis, level] = at
            looks.append(drawn + groups)
            at, drawn = at + len(groups), drawn + int(groups.max(initial=-1)) + 1
    return random.integers(0, 2**63, drawn, np.uint64)[np.concatenate(looks)], starts


def placed(problem: Problem, blocks: Blocks, groups: Array) -> Array:
    """The same groups after what is still uncovered joined those of its block that it hurts least.

    -1 outside of the blocks.
    """
    if not (groups[blocks.order] < 0).any():
        return groups
    table, groups, prices = positions_of(problem), groups.copy(), prices_of(problem)
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


class Lattice(NamedTuple):
    """What the search for company looks at.

    `marks[starts[axis, level] + position]` is a random number shared by the positions that look
    alike on that level, `base` one for what never may share a group. Entries are alike where the
    sums agree; should two sums agree by chance, a group is larger than it needs to be, and nothing
    else. `prices` are laid out like `marks`.
    """

    table: Array
    weights: Array
    sensitive: Array
    base: Array
    starts: Array
    marks: Array
    prices: Array


class _Ahead:
    """Looks which nodes have classes of enough rows, before they are visited.

    Levels are chosen column by column, once for all nodes that share them: entries that have too
    little company on some columns have no more on all, and those that lose too much or too little
    on some may do so on all. So most nodes are passed over together with many others.
    """

    def __init__(
        self,
        lattice: Lattice,
        levels: list[list[Array]],
        prices: list[list[Array]],
        k: int,
        budget: Budget,
    ) -> None:
        self.lattice, self.budget, self.k = lattice, budget, k
        # columns whose first step loses much come first
        steps = [-float(column[min(1, len(column) - 1)].mean()) for column in prices]
        self.order = np.argsort(steps, kind="stable")
        named = [[np.unique(level, return_inverse=True)[1] for level in one] for one in levels]
        self.labels = np.concatenate([level for column in named for level in column])
        self.starts, self.looks = lattice.starts[self.order], np.ones_like(lattice.starts)
        for at, axis in enumerate(self.order):
            looks = [level.max(initial=0) + 1 for level in named[axis]]
            self.looks[at, : len(looks)] = looks
        self.entries = _Known(*np.zeros((3, 0)))
        self.least, self.most = (
            [reduce(column) for column in prices]
            for reduce in (np.minimum.reduce, np.maximum.reduce)
        )

    def _known(self, uncovered: Array) -> _Known:
        axes = self.order
        table = np.ascontiguousarray(self.lattice.table[uncovered].T[axes])
        rest = np.zeros((2, len(axes) + 1, len(uncovered)))
        for at in range(len(axes) - 1, -1, -1):
            rest[0, at] = rest[0, at + 1] + self.least[axes[at]][table[at]]
            rest[1, at] = rest[1, at + 1] + self.most[axes[at]][table[at]]
        return _Known(table, self.lattice.weights[uncovered], rest)

    def promising(self, uncovered: Array, nodes: Array, before: float, limit: float) -> Array:
        """Which of these nodes may have classes to take: all that were not looked at in time.

        Parameters
        ----------
        before, limit
            The limits on the loss of the last pass and of this one.
        """
        many, axes = len(uncovered), self.order
        if len(self.entries.weights) != many:  # entries are taken away and never come back
            self.entries = self._known(uncovered)
        turn = np.lexsort(nodes[:, axes[::-1]].T)
        state = _Looking(
            alive=np.tile(np.arange(many, dtype=np.int32), (len(axes), 1)),
            classes=np.zeros((len(axes), many), np.int64),
            losses=np.zeros((len(axes), many)),
            left=np.full((len(axes), 2), (many, 1)),
            level=np.zeros(len(axes), np.int64),
            state=np.zeros(2, np.int64),
            found=np.ones(len(nodes), dtype=np.bool_),
        )
        sorted_nodes = np.ascontiguousarray(nodes[turn][:, axes])
        while not self.budget.spent():
            if _look_ahead(
                *self.entries, self.starts, self.looks, self.labels, self.lattice.prices,
                sorted_nodes, before, limit + ROUNDING, self.k, WORK, state,
            ):  # fmt: skip
                break
        found = np.empty_like(state.found)
        found[turn] = state.found
        return found


class _Known(NamedTuple):
    """What is known of uncovered entries: positions by axis, rows, and what each loses at least and
    at most on the columns that follow."""

    table: Array
    weights: Array
    rest: Array


class _Looking(NamedTuple):
    """How far a look ahead is.

    Attributes
    ----------
    alive, classes, losses
        After so many columns: the entries that may be taken, who looks alike, and what each loses.
    left
        After so many columns: how many entries, and how many classes.
    level
        The levels chosen last, column by column.
    state
        The next node, and for how many columns what is said above is about the last.
    found
        The nodes with classes of enough rows.
    """

    alive: Array
    classes: Array
    losses: Array
    left: Array
    level: Array
    state: Array
    found: Array


def _few_look_ahead(
    table: Array, weights: Array, rest: Array, starts: Array, looks: Array, labels: Array,
    prices: Array, nodes: Array, low: float, high: float, k: int, work: int, now: _Looking,
) -> bool:  # fmt: skip
    """`_look_ahead` by numpy, to the end: many choices of levels at a time, column by column."""
    heights, parents = nodes.max(axis=0) + 1, np.zeros(len(nodes), np.int64)
    numbers, children = [], []
    for column, height in enumerate(heights):
        known = int(parents.max()) + 1
        chosen, parents = np.unique(parents * height + nodes[:, column], return_inverse=True)
        child = np.full((known, height), -1)
        child[chosen // height, chosen % height] = np.arange(len(chosen))
        numbers.append(parents)
        children.append(child)
    now.found[:] = False
    entry = np.arange(table.shape[1])
    nothing = np.zeros(len(entry), np.int64)
    waiting: list[tuple[int, tuple[Array, ...]]] = [(0, (nothing, entry, nothing, rest[0, -1]))]
    while waiting:
        column, (parent, entry, classes, lost) = waiting.pop()
        found = []
        for level in range(heights[column]):
            child = children[column][parent, level]
            at = starts[column, level] + table[column, entry]
            loss = lost + prices[at]
            least, most = rest[:, column + 1, entry] + loss
            may = (child >= 0) & (least <= high) & (most > low)
            cell = (classes * looks[column, level] + labels[at])[may]
            _, cell = np.unique(cell, return_inverse=True)
            enough = np.bincount(cell, weights[entry[may]]) >= k
            kept, number = enough[cell], np.cumsum(enough) - 1
            found.append((child[may][kept], entry[may][kept], number[cell[kept]], loss[may][kept]))
        if column + 1 == len(table):
            taken = np.concatenate([one[0] for one in found])
            now.found[np.isin(numbers[column], taken)] = True
        elif sum(len(one[1]) for one in found) > TOGETHER:
            waiting += [(column + 1, one) for one in found]
        else:
            before = 0
            for _, _, names, _ in found:
                names += before
                before = int(names.max(initial=before - 1)) + 1
            waiting.append((column + 1, tuple(map(np.concatenate, zip(*found, strict=True)))))
    return True


@compiled(most=1 << 17, instead=_few_look_ahead, direct=True)
def _look_ahead(  # type: ignore[no-untyped-def]
    table, weights, rest, starts, looks, labels, prices, nodes, low, high, k, work, now
):
    """Say which nodes have classes of k rows that lose more than `low`, up to `high`.

    Nodes are sorted, so that those with the same first levels follow each other. Whether it came
    to the end; it goes past so many entries at most.
    """
    columns, many = table.shape
    bits = 4
    while (1 << bits) < 2 * many:
        bits += 1
    mask = (1 << bits) - 1
    owner, name, stamp = np.zeros(mask + 1, np.int64), np.zeros(mask + 1, np.int64), 0
    turn = np.zeros(mask + 1, np.int64)
    cell, sizes = np.zeros(many, np.int64), np.zeros(many, np.int64)
    renamed = np.zeros(many, np.int64)
    alive, classes, losses, left, level = now.alive, now.classes, now.losses, now.left, now.level
    node, known, bounded = now.state[0], now.state[1], low > -np.inf or high < np.inf
    while node < nodes.shape[0] and work > 0:
        depth = 0
        while depth < known and level[depth] == nodes[node, depth]:
            depth += 1
        known = depth
        enough = depth == 0 or left[depth, 0] > 0
        while enough and depth < columns:
            level[depth] = nodes[node, depth]
            here, last = left[depth, 0], depth == columns - 1
            values, at = looks[depth, level[depth]], starts[depth, level[depth]]
            direct = left[depth, 1] * values <= mask + 1
            work -= here
            stamp += 1
            kept, found, enough = 0, 0, False
            for i in range(here):
                entry = alive[depth, i]
                position = table[depth, entry]
                loss = 0.0
                if bounded:
                    loss = losses[depth, i] + prices[at + position]
                    lost = loss + rest[0, depth + 1, entry]
                    if lost > high or loss + rest[1, depth + 1, entry] <= low:
                        continue
                look = classes[depth, i] * values + labels[at + position]
                place = look
                if not direct:
                    mixed = np.uint64(look) * np.uint64(0x9E3779B97F4A7C15)
                    place = np.int64(mixed >> np.uint64(20)) & mask
                    while turn[place] == stamp and owner[place] != look:
                        place = (place + 1) & mask
                if turn[place] != stamp:
                    turn[place], owner[place], name[place] = stamp, look, found
                    sizes[found] = 0
                    found += 1
                number = name[place]
                sizes[number] += weights[entry]
                enough = enough or sizes[number] >= k
                if last and enough:
                    break
                if not last:
                    alive[depth + 1, kept], losses[depth + 1, kept] = entry, loss
                    cell[kept] = number
                    kept += 1
            depth += 1
            if last:
                break
            after = 0
            for c in range(found):
                renamed[c] = after
                after += sizes[c] >= k
            left[depth, 1], after = after, 0
            for i in range(kept if enough else 0):
                if sizes[cell[i]] >= k:
                    alive[depth, after] = alive[depth, i]
                    losses[depth, after] = losses[depth, i]
                    classes[depth, after] = renamed[cell[i]]
                    after += 1
            left[depth, 0], known = after, depth
        now.found[node] = enough
        node += 1
    now.state[0], now.state[1] = node, known
    return node == nodes.shape[0]


def _descend_in_shares(
    lattice: Lattice,
    uncovered: Array,
    nodes: Array,
    before: float,
    limits: Array,
    rules: Rules,
    groups: Array,
    group: int,
    asked: int | None,
) -> tuple[int, int]:
    """Visit nodes as `_descend` does, where entries are many: in shares, on several cores.

    Entries that look alike have the same key, so the keys' leading bits deal them into shares that
    have nothing to do with each other, each small enough for a processor's cache.
    """
    many = len(uncovered)
    threads = usable_threads(asked, many)
    keys, dealt = np.empty(many, np.uint64), np.empty(many, np.uint64)
    order, taken = np.empty(many, np.int32), np.empty(many, np.int32)
    for node, limit in zip(nodes, limits, strict=True):
        if many < rules.k and lattice.weights[uncovered[:many]].sum() < rules.k:
            break
        runs = spans(many, threads)
        tallies = np.zeros((len(runs), 1 << SHARE_BITS), np.int64)
        filling = zip(runs, tallies, strict=True)
        together(_tally, [(lattice, uncovered, node, *run, keys, row) for run, row in filling])
        # share by share, and inside of a share run by run: entries keep their order
        places = np.cumsum(tallies.T.ravel()).reshape(tallies.T.shape).T - tallies
        dealing = zip(runs, np.ascontiguousarray(places), strict=True)
        together(_deal, [(keys, *run, row, dealt, order) for run, row in dealing])
        ends = np.append(0, np.cumsum(tallies.sum(axis=0)))
        shares = [ends[low : high + 1] for low, high in spans(1 << SHARE_BITS, threads)]
        given = (lattice, uncovered, node, before, limit, dealt, order)
        together(_find_company, [(*given, share, rules, taken) for share in shares])
        group, many = _name_taken(uncovered[:many], taken, groups, group)
    return group, many


@compiled
def _fill_keys(lattice, uncovered, node, start, stop, keys):  # type: ignore[no-untyped-def]
    """What entries look like at a node, as a number that only those that look alike share."""
    table, base, starts, marks = lattice.table, lattice.base, lattice.starts, lattice.marks
    for i in range(start, stop):
        entry = uncovered[i]
        key = base[entry]
        for axis in range(table.shape[1]):
            key += marks[starts[axis, node[axis]] + table[entry, axis]]
        keys[i] = key * np.uint64(0x9E3779B97F4A7C15)


@compiled
def _tally(lattice, uncovered, node, start, stop, keys, sizes):  # type: ignore[no-untyped-def]
    """Fill keys, and count those of each share."""
    _fill_keys(lattice, uncovered, node, start, stop, keys)
    for i in range(start, stop):
        sizes[np.int64(keys[i] >> np.uint64(64 - SHARE_BITS))] += 1


@compiled
def _deal(keys, start, stop, places, dealt, order):  # type: ignore[no-untyped-def]
    """Put keys into their shares, and beside them where they come from."""
    for i in range(start, stop):
        share = np.int64(keys[i] >> np.uint64(64 - SHARE_BITS))
        dealt[places[share]] = keys[i]
        order[places[share]] = i
        places[share] += 1


@compiled
def _number_keys(keys, slots, number):  # type: ignore[no-untyped-def]
    """Number equal keys alike, in order of appearance; returns how many there are."""
    mask = slots.shape[0] - 1
    slots[:] = -1
    found = 0
    for i in range(keys.shape[0]):
        at = np.int64(keys[i] >> np.uint64(20)) & mask
        while slots[at] >= 0 and keys[slots[at]] != keys[i]:
            at = (at + 1) & mask
        if slots[at] < 0:
            slots[at] = i
            number[i] = found
            found += 1
        else:
            number[i] = number[slots[at]]
    return found


@compiled
def _find_company(lattice, uncovered, node, before, limit, keys, order, starts, rules, taken):  # type: ignore[no-untyped-def]
    """Who finds company at a node, share by share: the first of an entry's class, or -1.

    A class is taken if it holds and loses more than before, and no more than the limit.
    """
    table, weights, sensitive = lattice.table, lattice.weights, lattice.sensitive
    levels, prices = lattice.starts, lattice.prices
    largest = np.int64(0)
    for share in range(starts.shape[0] - 1):
        largest = max(largest, starts[share + 1] - starts[share])
    bits = 4
    while (1 << bits) < 2 * largest:
        bits += 1
    slots = np.empty(1 << bits, np.int64)
    number = np.empty(largest, np.int64)
    sizes = np.empty(largest, np.int64)
    name = np.empty(largest, np.int64)
    # The entries of a class, one after the other: few classes are looked through to their end.
    first = np.empty(largest if rules.kinds.shape[0] else 0, np.int64)
    following = np.empty(first.shape[0], np.int64)
    counts = np.zeros(rules.offsets[-1], np.int64)
    for share in range(starts.shape[0] - 1):
        begin, many = starts[share], starts[share + 1] - starts[share]
        bits = 4
        while (1 << bits) < 2 * many:
            bits += 1
        found = _number_keys(keys[begin : begin + many], slots[: 1 << bits], number)
        sizes[:found] = 0
        for i in range(many):
            c, entry = number[i], uncovered[order[begin + i]]
            if sizes[c] == 0:
                name[c] = order[begin + i]
            sizes[c] += weights[entry]
        for c in range(found):
            if sizes[c] >= rules.k:
                entry, price = uncovered[name[c]], 0.0
                for axis in range(table.shape[1]):
                    price += prices[levels[axis, node[axis]] + table[entry, axis]]
                if before < price <= limit:
                    continue
            name[c] = -1
        if rules.kinds.shape[0]:
            first[:found] = -1
            for i in range(many - 1, -1, -1):
                following[i] = first[number[i]]
                first[number[i]] = i
            for c in range(found):
                if name[c] < 0:
                    continue
                clear(rules, counts)
                member = first[c]
                while member >= 0 and rules.people < 0:  # as `take_in` does, without a call
                    entry = uncovered[order[begin + member]]
                    for s in range(sensitive.shape[1]):
                        counts[sensitive[entry, s]] += weights[entry]
                    member = following[member]
                while member >= 0 and not enough(rules, counts):
                    entry = uncovered[order[begin + member]]
                    take_in(entry, weights[entry], sensitive, rules, counts)
                    member = following[member]
                if not holds(sizes[c], counts, rules):
                    name[c] = -1
        for i in range(many):
            taken[order[begin + i]] = name[number[i]]


@compiled
def _name_taken(uncovered, taken, groups, group):  # type: ignore[no-untyped-def]
    """Number the classes that were taken from `group` on, and move up who is still uncovered.

    Returns the number of the next class, and how many entries are left.
    """
    left = 0
    for i in range(uncovered.shape[0]):
        entry, leader = uncovered[i], taken[i]
        if leader < 0:
            uncovered[left] = entry
            left += 1
            continue
        if leader == i:
            taken[i] = group
            group += 1
        groups[entry] = taken[leader]
    return group, left


def _few_descend(
    lattice: Lattice,
    uncovered: Array,
    nodes: Array,
    before: float,
    limits: Array,
    rules: Rules,
    groups: Array,
    group: int,
) -> tuple[int, int]:
    """`_descend` by numpy."""
    many, axes = len(uncovered), np.arange(lattice.table.shape[1])
    for levels, limit in zip(nodes, limits, strict=True):
        here = uncovered[:many]
        if lattice.weights[here[: rules.k]].sum() < rules.k:
            break
        at = lattice.starts[axes, levels] + lattice.table[here]
        keys = lattice.base[here] + lattice.marks[at].sum(axis=1, dtype=np.uint64)
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
        sizes = np.zeros(len(first), np.int64)
        np.add.at(sizes, number, lattice.weights[here])
        price = np.zeros(len(first))
        for axis in axes:
            price += lattice.prices[at[first, axis]]
        good = (sizes >= rules.k) & (before < price) & (price <= limit)
        if len(rules.kinds) and good.any():
            asked = np.where(good, np.cumsum(good) - 1, -1)[number]
            given = (asked, int(good.sum()), lattice.weights[here], lattice.sensitive[here], rules)
            good[good] = few_groups_hold(*given)
        taken = np.flatnonzero(good)
        name = np.full(len(first), -1)
        name[taken[np.argsort(first[taken])]] = group + np.arange(len(taken))
        covered = name[number] >= 0
        groups[here[covered]] = name[number[covered]]
        group, left = group + len(taken), here[~covered]
        many = len(left)
        uncovered[:many] = left
    return group, many


@compiled(most=1 << 17, patience=0.3, instead=_few_descend, direct=True)
def _descend(lattice, uncovered, nodes, before, limits, rules, groups, group):  # type: ignore[no-untyped-def]
    """Visit lattice nodes in turn; groups of yet uncovered entries that hold are taken.

    `nodes` are rows of levels; at a node only classes that lose more than `before`, and no more
    than its limit, are taken. The first has the number `group`. Returns that of the next, and how
    many entries are left, which then are the first of `uncovered`.
    """
    many = uncovered.shape[0]
    keys = np.empty(many, np.uint64)
    taken = np.empty(many, np.int32)
    order = np.empty(many, np.int32)
    for i in range(many):
        order[i] = i
    starts = np.zeros(2, np.int64)
    for node in range(nodes.shape[0]):
        rows = np.int64(0)
        for i in range(min(many, rules.k)):
            rows += lattice.weights[uncovered[i]]
        if rows < rules.k:
            break
        starts[1] = many
        levels = nodes[node]
        _fill_keys(lattice, uncovered, levels, 0, many, keys)
        _find_company(
            lattice, uncovered, levels, before, limits[node], keys, order, starts, rules, taken
        )
        group, many = _name_taken(uncovered[:many], taken, groups, group)
    return group, many
