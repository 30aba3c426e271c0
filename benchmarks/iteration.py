"""ARX's local recoding, written down again from its documentation and source: a yardstick.

ARX is not on any package registry. Its local recoding (`optimizeIterativeFast`) finds the best
full-domain recoding under a suppression limit, keeps the classes that hold, and repeats that with
the suppressed rows; every time at least a share 1/n of all rows must be released. What a recoding
loses is ARX's model "Loss" with the arithmetic mean: a released row loses what its generalized
values lose, a suppressed one that and a share of the rest (twice `gsFactor`, at most all of it).
Rows show the levels of the node, and what is suppressed in the end loses everything.

Where classes are compared with all rows (t-closeness), those are the rows of the input, also those
that are suppressed in the end; so what is released need not hold by itself. What it loses when it
is made to is told beside, and takes no time.

The optimum is found in two ways. `documented` is ARX's own search: Flash (Kohlmayer et al. 2012)
looks at nodes of the lattice one by one, and groups rows by a hash table. `bounded` is a branch and
bound of ours over the columns. Both are exact, and choose the same of several optima.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.methods.annealing import rows_of_values
from sfumato.anonymization.methods.lattice import _level_loss, level_groups
from sfumato.anonymization.problem import Problem, positions_of, sensitive_of
from sfumato.kernels.compiling import compiled
from sfumato.privacy.rules import (
    CLOSE_EQUAL,
    DISTINCT,
    Rules,
    compares,
    groups_hold,
    holds,
    recounted,
)

__all__ = ["Iterated", "iterated"]

Array = npt.NDArray[Any]
TIED = 1e-7
"""Losses that differ by less are the same: they may be summed in another order."""
HISTORY, SNAPSHOT, SMALLER = 200, 0.2, 0.8
"""What ARX keeps: so many snapshots, of classes no more than this share of the rows, and than this
share of those in the snapshot of which they were made."""


@dataclass(frozen=True)
class Iterated:
    """What the iteration comes to.

    Attributes
    ----------
    loss
        Mean loss of all rows and columns (normalized certainty penalty).
    held
        What is lost when classes are compared with the rows that are released, and rows of those
        that fail are left out until all hold.
    left_out
        Rows that were never released.
    iterations, cpu
        Optima found, and CPU seconds.
    finished
        Whether the time sufficed; rows that were not looked at count as left out.
    """

    loss: float
    held: float
    left_out: int
    iterations: int
    cpu: float
    finished: bool


def iterated(
    problem: Problem,
    steps: int,
    factor: float,
    most: float = np.inf,
    search: Literal["documented", "bounded"] = "documented",
) -> Iterated:
    """Recode, keep what holds, repeat with the rest.

    Parameters
    ----------
    steps
        Every iteration releases at least one row in so many of the table.
    factor
        ARX's `gsFactor`, from 0 (suppressing costs nothing more) to 0.5 (it costs everything).
    most
        CPU seconds after which no further iteration begins.
    search
        How the optimum is found.
    """
    began = time.process_time()
    lattice = _Lattice(problem)
    left = np.arange(len(lattice.table))
    loss, released_at, finished, node = 0.0, list[tuple[Array, Array]](), True, None
    while len(left):
        if time.process_time() - began > most:
            finished = False
            break
        least = -(-problem.rows // steps)
        if search == "documented":
            node = lattice.documented(left, least, 2.0 * factor)
        else:
            node = lattice.bounded(left, least, 2.0 * factor, node)
        if node is None:
            break
        lost, released = lattice.released(left, node)
        loss += lost
        released_at.append((left[released], node))
        left = left[~released]
    cpu, out = time.process_time() - began, int(problem.counts[left].sum())
    whole = problem.rows * lattice.everything
    total = (loss + out * lattice.everything) / whole
    groups, losses = lattice.grouped(released_at)
    kept = made_to_hold(problem, groups) >= 0
    held = float(problem.counts @ np.where(kept, losses, lattice.everything)) / whole
    return Iterated(total, held, out, len(released_at), cpu, finished)


class _Lattice:
    """Levels of all columns, without those that change nothing."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.table = np.ascontiguousarray(positions_of(problem), np.int64)
        self.sensitive = sensitive_of(problem)
        self.levels: list[list[Array]] = []
        self.losses: list[list[Array]] = []
        for name in problem.qi:
            shape = problem.shapes[name]
            groups = level_groups(shape)
            new = [i for i, g in enumerate(groups) if not i or (g != groups[i - 1]).any()]
            self.levels.append([np.unique(groups[i], return_inverse=True)[1] for i in new])
            weight = problem.weight(name)
            self.losses.append([weight * _level_loss(shape, groups[i]) for i in new])
        self.heights = np.array([len(column) for column in self.levels])
        self.starts = np.zeros((len(self.levels), self.heights.max()), np.int64)
        for axis, column in enumerate(self.levels):
            before = sum(len(group) for earlier in self.levels[:axis] for group in earlier)
            self.starts[axis, : len(column)] = before + np.arange(len(column)) * len(column[0])
        self.labels = np.concatenate([group for column in self.levels for group in column])
        self.looks = np.ones_like(self.starts)
        for axis, column in enumerate(self.levels):
            self.looks[axis, : len(column)] = [int(group.max(initial=0)) + 1 for group in column]
        self.flat = np.concatenate([loss for column in self.losses for loss in column])
        self.everything = float(sum(problem.weight(name) for name in problem.qi))
        self.top = self.heights - 1
        # columns whose first step loses much come first: most of what is cut off is cut off there
        steps = [-float(column[min(1, len(column) - 1)].mean()) for column in self.losses]
        self.order = np.argsort(steps, kind="stable")
        # for the search that looks at nodes: all of them, how far apart those are that differ by a
        # level, and in which order they come: by height, mean height, and distinct values
        self.nodes = np.indices(self.heights).reshape(len(self.heights), -1).T.copy()
        self.steps = np.append(np.cumprod(self.heights[:0:-1])[::-1], 1)
        height = self.nodes / np.maximum(self.top, 1)
        distinct = (self.looks / self.looks[:, :1])[np.arange(len(self.top)), self.nodes]
        keys = (-distinct.mean(axis=1), height.mean(axis=1), self.nodes.sum(axis=1))
        self.turn = np.lexsort(keys)
        self.rank = np.argsort(self.turn)
        sizes = [len(column[0]) for column in self.levels]
        assert math.prod(sizes) < 2**62
        apart = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
        self.keys = np.concatenate(
            [group * apart[axis] for axis, column in enumerate(self.levels) for group in column]
        )

    def _generalized(self, left: Array) -> Array:
        """What these rows lose in all on every level of every column, none being suppressed."""
        lost, rows = np.zeros(self.starts.shape), self.problem.counts[left]
        for axis, column in enumerate(self.losses):
            held = np.bincount(self.table[left, axis], rows, len(column[0]))
            lost[axis, : len(column)] = [float(held @ loss) for loss in column]
        return lost

    def _bounds(self, lost: Array) -> Array:
        """What every node loses at least: what it would if nothing were suppressed."""
        total = np.zeros(len(self.nodes))
        for axis, column in enumerate(lost):
            total += column[self.nodes[:, axis]]
        return total

    def documented(self, left: Array, least: int, suppressing: float) -> Array | None:
        """The node of least loss that releases enough of the rows left; None if none does.

        Parameters
        ----------
        suppressing
            Which share of the rest a row loses that is suppressed.
        """
        rows, rules, many = self.problem.counts[left], self.problem.rules, len(left)
        table, columns = self.table[left], self.sensitive.shape[1] * bool(len(rules.kinds))
        values = np.zeros((many, rules.offsets[-1] if columns else 0), np.int32)
        for column in range(columns):
            values[np.arange(many), self.sensitive[left, column]] = rows
        looks = self.keys[self.starts[:, 0] + table].sum(axis=1)

        def room(number: int, classes: int) -> _Classes:
            whole = (np.empty((number, classes), np.int64) for _ in range(3))
            return _Classes(*whole, np.empty((number, classes, values.shape[1]), np.int32))

        total = int(rows.sum())
        chosen = _flash(
            _Search(
                table, self.starts, self.keys, self.flat, self.nodes, self.heights, self.steps,
                self._bounds(self._generalized(left)), self.rank, self.turn,
                _Classes(np.arange(many), rows, looks, values), room(2, many),
                room(HISTORY, max(1, int(SNAPSHOT * total))), np.full(HISTORY, -1),
                np.zeros(HISTORY, np.int64), np.zeros(HISTORY, np.int64),
                np.zeros(len(self.nodes), np.uint8), np.empty(len(self.nodes), np.int64),
                np.empty(4 * many + 16, np.int64), np.empty(many, np.bool_), rules,
                bool((rules.kinds == DISTINCT).all()) and rules.people < 0, suppressing,
                suppressing * self.everything, total - max(1, min(least, total)),
                np.array([0, -1, 0, 0, 0, -1]), np.array([np.inf]),
            )
        )  # fmt: skip
        return None if chosen < 0 else self.nodes[chosen]

    def bounded(
        self, left: Array, least: int, suppressing: float, near: Array | None = None
    ) -> Array | None:
        """The same node as `documented`, found by branch and bound.

        Parameters
        ----------
        near
            A node from which a good one is looked for first.
        """
        rows, lost = self.problem.counts[left], self._generalized(left)
        least = max(1, min(least, int(rows.sum())))
        given = (
            self.table[left], rows, self.sensitive[left], self.starts, self.looks, self.labels,
            suppressing * self.flat, (1.0 - suppressing) * lost, self.problem.rules, least,
            suppressing * self.everything,
        )  # fmt: skip
        start = self.top if near is None else near
        known = _climbed(start.copy(), self.heights, *given)
        if near is not None:
            known = min(known, _climbed(self.top.copy(), self.heights, *given))
        found = _good_nodes(known, self.order, self.heights, *given)
        turns = np.lexsort([found @ self.steps, self._bounds(lost)[found @ self.steps]])
        best, chosen = np.inf, None
        for node in found[turns]:
            loss, enough = _weigh(node, *given)
            if enough and loss < best - TIED:
                best, chosen = loss, node
        return chosen

    def released(self, left: Array, node: Array) -> tuple[float, Array]:
        """What the rows released at a node lose, and which they are."""
        rows = self.problem.counts[left]
        released = np.zeros(len(left), dtype=bool)
        many, lost = _look(
            node, self.table[left], rows, self.sensitive[left], self.starts, self.looks,
            self.labels, self.flat, self.problem.rules, released,
        )  # fmt: skip
        assert many > 0
        return lost, released

    def grouped(self, steps: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Class of every entry, -1 of those never released, and what a row of it loses.

        Parameters
        ----------
        steps
            The entries released in each step, and the node.
        """
        groups = np.full(len(self.table), -1)
        losses = np.full(len(self.table), self.everything)
        for entries, node in steps:
            shown = list(enumerate(zip(node, self.table[entries].T, strict=True)))
            losses[entries] = sum(self.losses[axis][level][at] for axis, (level, at) in shown)
            looks = np.stack([self.levels[axis][level][at] for axis, (level, at) in shown])
            own = np.unique(looks, axis=1, return_inverse=True)[1].reshape(-1)
            groups[entries] = groups.max() + 1 + own
        return groups, losses


def made_to_hold(problem: Problem, groups: Array) -> Array:
    """Leave rows out (-1) until all classes hold when compared with the rows that are released.

    Of a class that fails those go first whose values are too common there, a twentieth of it at a
    time; all of it where it has no more than k rows.
    """
    rules, groups = problem.rules, groups.copy()
    sensitive, counts = sensitive_of(problem), problem.counts
    while compares(rules) and (groups >= 0).any():
        kept = np.flatnonzero(groups >= 0)
        values, rows, own = sensitive[kept], counts[kept], groups[kept]
        asked = recounted(rules, rows_of_values(values, rows, rules))
        good = groups_hold(own, own.max() + 1, rows, values, asked)
        failing = np.flatnonzero(~good[own])
        if not len(failing):
            break
        tallies, sizes = np.zeros((len(good), len(asked.reference))), np.bincount(own, rows)
        np.add.at(tallies, (own[:, None], values), rows[:, None])
        excess = tallies[own] / sizes[own, None] - asked.reference
        excess = np.take_along_axis(excess, values, axis=1).max(axis=1)
        order = failing[np.lexsort((-excess[failing], own[failing]))]
        group = own[order]
        many = np.bincount(group)[group]
        most = np.where(sizes[group] > rules.k, -(-many // 20), many)
        turn = np.arange(len(order)) - np.searchsorted(group, group)
        groups[kept[order[turn < most]]] = -1
    return groups


@compiled
def _narrowed(before, many, found, axis, level, table, starts, looks, labels, slots, number):  # type: ignore[no-untyped-def]
    """Number what looks alike so far and on one more column; returns how many there are."""
    at, values = starts[axis, level], looks[axis, level]
    mask = slots.shape[0] - 1
    direct = found * values <= slots.shape[0]
    slots[:] = -1
    found = 0
    for i in range(many):
        old, label = before[i, 1], labels[at + table[before[i, 0], axis]]
        place = old * values + label
        if not direct:
            mixed = np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
            place = np.int64(mixed >> np.uint64(20)) & mask
        while slots[place] >= 0 and not direct:
            other = slots[place]
            if before[other, 1] == old and labels[at + table[before[other, 0], axis]] == label:
                break
            place = (place + 1) & mask
        if slots[place] < 0:
            slots[place] = i
            number[i] = found
            found += 1
        else:
            number[i] = number[slots[place]]
    return found


@compiled
def _broken(alive, many, found, sizes, weights, sensitive, rules, last):  # type: ignore[no-untyped-def]
    """Set the size of every class that breaks a rule beyond k to zero.

    Before the last column is chosen, of every class no part of which can keep them.
    """
    if rules.kinds.shape[0] == 0:
        return
    large = 0
    place = np.full(found, -1, np.int64)
    for c in range(found):
        if sizes[c] >= rules.k:
            place[c] = large
            large += 1
    counts = np.zeros((large, rules.offsets[-1]), np.int64)
    for i in range(many):
        c = place[alive[i, 1]]
        for s in range(sensitive.shape[1] if c >= 0 else 0):
            counts[c, sensitive[alive[i, 0], s]] += weights[alive[i, 0]]
    for c in range(found):
        if place[c] < 0:
            continue
        if last or _only_values(rules):
            good = holds(sizes[c], counts[place[c]], rules)
        else:
            good = _may_be_close(counts[place[c]], rules)
        if not good:
            sizes[c] = 0


@compiled
def _may_be_close(counts, rules):  # type: ignore[no-untyped-def]
    """Whether k rows of a class that has these values may be as close to all rows as is asked.

    What is too rare in the class to be common enough among k of its rows must be moved there.
    """
    for r in range(rules.kinds.shape[0]):
        moved = 0.0
        for c in range(rules.offsets[rules.columns[r]], rules.offsets[rules.columns[r] + 1]):
            moved += max(0.0, rules.reference[c] - counts[c] / rules.k)
        if moved > rules.values[r] + TIED:
            return False
    return True


@compiled
def _without(alive, losses, many, sizes, k):  # type: ignore[no-untyped-def]
    """Drop entries of classes that are too small; how many stay."""
    kept = 0
    for i in range(many):
        if sizes[alive[i, 1]] >= k:
            alive[kept] = alive[i]
            losses[kept] = losses[i]
            kept += 1
    return kept


@compiled
def _look(  # type: ignore[no-untyped-def]
    node, table, weights, sensitive, starts, looks, labels, prices, rules, released,
):  # fmt: skip
    """Rows released at a node, and what they lose; fills `released`."""
    many, columns = table.shape
    bits = 4
    while (1 << bits) < 2 * many:
        bits += 1
    slots, number = np.empty(1 << bits, np.int64), np.zeros(many, np.int64)
    alive = np.zeros((many, 2), np.int64)
    alive[:, 0] = np.arange(many)
    found = 1
    for axis in range(columns):
        if looks[axis, node[axis]] > 1:
            found = _narrowed(
                alive, many, found, axis, node[axis], table, starts, looks, labels, slots, number
            )
            alive[:, 1] = number
    sizes = np.zeros(found, np.int64)
    for i in range(many):
        sizes[number[i]] += weights[i]
    _broken(alive, many, found, sizes, weights, sensitive, rules, True)
    rows, lost = np.int64(0), 0.0
    for i in range(many):
        released[i] = sizes[number[i]] >= rules.k
        if released[i]:
            loss = 0.0
            for axis in range(columns):
                loss += prices[starts[axis, node[axis]] + table[i, axis]]
            rows += weights[i]
            lost += loss * weights[i]
    return rows, lost


@compiled
def _weigh(  # type: ignore[no-untyped-def]
    node, table, weights, sensitive, starts, looks, labels, prices, anyway, rules, least,
    suppressed,
):  # fmt: skip
    """What a node loses with what it suppresses, and whether it releases enough.

    Prices are what a row loses more when it is released, `suppressed` when it is not, and `anyway`
    what all rows lose on every level of every column.
    """
    released = np.empty(table.shape[0], np.bool_)
    rows, lost = _look(
        node, table, weights, sensitive, starts, looks, labels, prices, rules, released
    )
    lost += (weights.sum() - rows) * suppressed
    for axis in range(table.shape[1]):
        lost += anyway[axis, node[axis]]
    return lost, rows >= least


@compiled
def _climbed(  # type: ignore[no-untyped-def]
    node, heights, table, weights, sensitive, starts, looks, labels, prices, anyway, rules, least,
    suppressed,
):  # fmt: skip
    """The least loss on a way from a node to better and better ones beside it."""
    given = (
        table, weights, sensitive, starts, looks, labels, prices, anyway, rules, least, suppressed,
    )  # fmt: skip
    loss, good = _weigh(node, *given)
    best = loss if good else np.inf
    at, since = 0, 0
    while since < 2 * heights.shape[0]:
        axis, step = at // 2 % heights.shape[0], 1 - 2 * (at % 2)
        at, since = at + 1, since + 1
        if not 0 <= node[axis] + step < heights[axis]:
            continue
        node[axis] += step
        loss, good = _weigh(node, *given)
        if good and loss < best:
            best, since = loss, 0
        else:
            node[axis] -= step
    return best


@compiled
def _step(  # type: ignore[no-untyped-def]
    alive, losses, left, depth, axis, level, last, table, weights, sensitive, starts, looks, labels,
    prices, rules, slots, number, sizes, least, suppressed, most,
):  # fmt: skip
    """Choose a level of one more column; who then still has company, and what each loses so far.

    Nobody, where releasing any of them changes the loss by more than `most`.
    """
    here, found, bits = left[depth, 0], left[depth, 1], 4
    while (1 << bits) < 2 * here:
        bits += 1
    found = _narrowed(
        alive[depth], here, found, axis, level, table, starts, looks, labels, slots[: 1 << bits],
        number,
    )  # fmt: skip
    sizes[:found] = 0
    for i in range(here):
        sizes[number[i]] += weights[alive[depth, i, 0]]
    at, after = starts[axis, level], 0
    for i in range(here):
        if sizes[number[i]] >= rules.k:
            entry = alive[depth, i, 0]
            alive[depth + 1, after, 0], alive[depth + 1, after, 1] = entry, number[i]
            losses[depth + 1, after] = losses[depth, i] + prices[at + table[entry, axis]]
            after += 1
    change = _least(alive[depth + 1], losses[depth + 1], after, weights, least, suppressed, False)
    if change > most:
        after = 0
    elif last or _only_values(rules) or _only_close(rules):
        _broken(alive[depth + 1], after, found, sizes, weights, sensitive, rules, last)
        after = _without(alive[depth + 1], losses[depth + 1], after, sizes, rules.k)
    left[depth + 1, 0], left[depth + 1, 1] = after, found


@compiled
def _only_values(rules):  # type: ignore[no-untyped-def]
    """Whether a class that breaks a rule has no part that keeps it, and small ones often do."""
    only = rules.kinds.shape[0] > 0 and rules.people < 0
    for r in range(rules.kinds.shape[0]):
        only = only and rules.kinds[r] == DISTINCT and rules.k < 4 * rules.values[r]
    return only


@compiled
def _only_close(rules):  # type: ignore[no-untyped-def]
    """Whether rules beyond k ask for closeness of values that are equally far from each other."""
    only = rules.kinds.shape[0] > 0 and rules.people < 0
    for r in range(rules.kinds.shape[0]):
        only = only and rules.kinds[r] == CLOSE_EQUAL
    return only


@compiled
def _least(alive, losses, many, weights, least, suppressed, last):  # type: ignore[no-untyped-def]
    """By how much releasing some of these entries changes the loss at least; infinite if too few.

    With all columns chosen, all of them are released.
    """
    rows, gaining, gain, change, cheapest = 0, 0, 0.0, 0.0, np.inf
    for i in range(many):
        weight, more = weights[alive[i, 0]], losses[i] - suppressed
        rows += weight
        change += more * weight
        if more <= 0.0:
            gaining += weight
            gain += more * weight
        else:
            cheapest = min(cheapest, more)
    if rows < least:
        return np.inf
    if last:
        return change
    return gain + (least - gaining) * cheapest if gaining < least else gain


@compiled
def _good_nodes(  # type: ignore[no-untyped-def]
    best, order, heights, table, weights, sensitive, starts, looks, labels, prices, anyway, rules,
    least, suppressed,
):  # fmt: skip
    """The nodes that release enough rows and lose no more than any other; ties are among them.

    Levels are chosen column by column. Rows that have too little company on some columns (or too
    few values, where distinct or close ones count) have no more on all, so they are suppressed
    whatever follows; the others lose what they do so far, or are suppressed; enough must be
    released; and all lose what they do anyway.
    """
    many, columns = table.shape
    slots = np.empty(4 * many + 16, np.int64)
    number, sizes = np.empty(many, np.int64), np.empty(many, np.int64)
    alive, losses = np.zeros((columns + 1, many, 2), np.int64), np.zeros((columns + 1, many))
    left = np.ones((columns + 1, 2), np.int64)
    left[0, 0] = many
    alive[0, :, 0] = np.arange(many)
    nothing = np.full(columns + 1, weights.sum() * suppressed)
    level, nodes, values = np.full(columns, -1), np.empty((16, columns), np.int64), np.empty(16)
    kept, depth = 0, 0
    while depth >= 0:
        level[depth] += 1
        axis, last = order[depth], depth == columns - 1
        if level[depth] == heights[axis]:
            level[depth] = -1
            depth -= 1
            continue
        nothing[depth + 1] = nothing[depth] + anyway[axis, level[depth]]
        _step(
            alive, losses, left, depth, axis, level[depth], last, table, weights, sensitive, starts,
            looks, labels, prices, rules, slots, number, sizes, least, suppressed,
            best - nothing[depth + 1] + TIED,
        )  # fmt: skip
        bound = nothing[depth + 1] + _least(
            alive[depth + 1], losses[depth + 1], left[depth + 1, 0], weights, least, suppressed,
            last,
        )  # fmt: skip
        if bound > best + TIED or bound == np.inf:
            continue
        if not last:
            depth += 1
            continue
        best = min(best, bound)
        if kept == nodes.shape[0]:  # those that are good no more make room
            good = np.flatnonzero(values <= best + TIED)
            kept = good.shape[0]
            nodes = np.concatenate((nodes[good], np.empty((kept + 16, columns), np.int64)))
            values = np.concatenate((values[good], np.empty(kept + 16)))
        for z in range(columns):
            nodes[kept, order[z]] = level[z]
        values[kept] = bound
        kept += 1
    return nodes[:kept][values[:kept] <= best + TIED]


class _Classes(NamedTuple):
    """Classes of a node: an entry of each, its rows, its look as a number, its sensitive values."""

    entry: Array
    rows: Array
    look: Array
    values: Array


class _Search(NamedTuple):
    """A search for the optimum among the nodes of the lattice, checked one by one, as ARX does.

    What ARX's pages and source say: paths are built upwards and checked by halves, in an order of
    nodes by height, mean height and distinct values (Flash); what holds is tagged upwards and what
    fails downwards, by k alone where the other rules are not monotone; above what holds all nodes
    are visited, since the loss with suppression is not monotone, but for those that lose as much as
    the best one by generalization alone (with ARX's option to compute that beforehand); classes are
    made of those of the last node or of a snapshot, and of columns that changed. In two things it
    is quicker than what is said: it begins with distinct combinations and not with rows, and takes
    the fewer classes of the last node and the snapshots.

    Attributes
    ----------
    table, starts, keys, prices
        Entries, where the values of a column begin on a level, and for each of them what it looks
        like there (times a step for each column, so that their sum is a look) and loses.
    levels, heights, steps
        Of each node the level of every column; how many there are; and how far apart nodes are
        that differ by one of them.
    bound
        What every node loses at least, by generalization alone.
    rank, turn
        In which order nodes are looked at, and which node comes when.
    entries, two, kept
        Entries as classes; the classes of this check and the last one; snapshots of earlier ones.
    held, lengths, used
        Of which node a snapshot is (-1: none), its classes, and when it was used last.
    flags, stack, slots, good
        What is known of a node; room for walks, for the hash table, for which classes hold.
    whole, share, fixed
        Whether rules hold for coarser nodes, too; a suppressed row does not lose this share of what
        it would lose released, but this much.
    most
        Rows that may be suppressed.
    state, best
        What changes: see the numbers below; and the least loss so far.
    """

    table: Array
    starts: Array
    keys: Array
    prices: Array
    levels: Array
    heights: Array
    steps: Array
    bound: Array
    rank: Array
    turn: Array
    entries: _Classes
    two: _Classes
    kept: _Classes
    held: Array
    lengths: Array
    used: Array
    flags: Array
    stack: Array
    slots: Array
    good: Array
    rules: Rules
    whole: bool
    share: float
    fixed: float
    most: int
    state: Array
    best: Array


HOLDS, FAILS, VISITED, CHECKED, PASSED = 1, 2, 4, 8, 16
"""What is known of a node: whether it holds, was visited or checked, all above it were visited."""
SIDE, LAST, MANY, SOURCE, TIME, CHOSEN = range(6)
"""State: the side of `two` that is current; its node, its classes, and those of the snapshot that
it was made of (0: of none); snapshots used; and the best node."""


@compiled
def _is_above(s, node, other):  # type: ignore[no-untyped-def]
    """Whether a node is another one or coarser."""
    finer = 0
    for axis in range(s.heights.shape[0]):
        finer += s.levels[node, axis] < s.levels[other, axis]
    return finer == 0


@compiled
def _loses_more(s, node):  # type: ignore[no-untyped-def]
    """Whether a node, and so any above it, is no better than the best one, or as good and later."""
    best, chosen, bound = s.best[0], s.state[CHOSEN], s.bound[node]
    if bound < best - TIED:
        return False
    return bound > best + TIED or (bound, node) > (s.bound[chosen], chosen)


@compiled
def _rolled_up(s, source, many, before, node, target):  # type: ignore[no-untyped-def]
    """Merge classes of a finer node into those of this one; how many there are.

    Columns on the same level of both are not looked at.
    """
    columns, changed = s.heights.shape[0], 0
    old, new, axes = np.empty(columns, np.int64), np.empty(columns, np.int64), np.arange(columns)
    for axis in range(columns):
        if s.levels[node, axis] != s.levels[before, axis]:
            old[changed] = s.starts[axis, s.levels[before, axis]]
            new[changed] = s.starts[axis, s.levels[node, axis]]
            axes[changed] = axis
            changed += 1
    bits = 4
    while (1 << bits) < 2 * many:
        bits += 1
    slots, mask, shift = s.slots[: 1 << bits], (1 << bits) - 1, np.uint64(64 - bits)
    slots[:] = -1
    found = 0
    for i in range(many):
        entry, look = source.entry[i], source.look[i]
        for z in range(changed):
            code = s.table[entry, axes[z]]
            look += s.keys[new[z] + code] - s.keys[old[z] + code]
        place = np.int64((np.uint64(look) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while slots[place] >= 0 and target.look[slots[place]] != look:
            place = (place + 1) & mask
        c = slots[place]
        if c < 0:
            slots[place] = c = found
            found += 1
            target.entry[c], target.rows[c], target.look[c] = entry, source.rows[i], look
            target.values[c] = source.values[i]
        else:
            target.rows[c] += source.rows[i]
            for v in range(source.values.shape[1]):
                target.values[c, v] += source.values[i, v]
    return found


@compiled
def _keep(s):  # type: ignore[no-untyped-def]
    """Keep the classes of the last node for those above it, if they are few and it has any."""
    last, many, source = s.state[LAST], s.state[MANY], s.state[SOURCE]
    if last < 0 or many > s.kept.entry.shape[1] or many > SMALLER * source > 0:
        return
    if s.flags[last] & PASSED or _loses_more(s, last):
        return
    place = -1
    for z in range(s.held.shape[0]):
        if s.held[z] >= 0 and (s.flags[s.held[z]] & PASSED or _loses_more(s, s.held[z])):
            s.held[z] = -1
        if s.held[z] < 0:
            place = z
    if place < 0:
        place = np.argmin(s.used)
    side = s.state[SIDE]
    s.kept.entry[place, :many] = s.two.entry[side, :many]
    s.kept.rows[place, :many] = s.two.rows[side, :many]
    s.kept.look[place, :many] = s.two.look[side, :many]
    s.kept.values[place, :many] = s.two.values[side, :many]
    s.state[TIME] += 1
    s.held[place], s.lengths[place], s.used[place] = last, many, s.state[TIME]


@compiled
def _part(classes, at):  # type: ignore[no-untyped-def]
    """The classes of one of several nodes."""
    return _Classes(classes.entry[at], classes.rows[at], classes.look[at], classes.values[at])


@compiled
def _grouped(s, node):  # type: ignore[no-untyped-def]
    """Make the classes of a node of those of a finer one: the fewest at hand, or all entries."""
    _keep(s)
    fewest, found = s.entries.entry.shape[0], -1
    for z in range(s.held.shape[0]):
        if s.held[z] >= 0 and s.lengths[z] < fewest and _is_above(s, node, s.held[z]):
            fewest, found = s.lengths[z], z
    side, last = s.state[SIDE], s.state[LAST]
    target = _part(s.two, 1 - side)
    if last >= 0 and s.state[MANY] <= fewest and _is_above(s, node, last):
        many = _rolled_up(s, _part(s.two, side), s.state[MANY], last, node, target)
        s.state[SOURCE] = 0
    elif found >= 0:
        many = _rolled_up(s, _part(s.kept, found), fewest, s.held[found], node, target)
        s.state[TIME] += 1
        s.used[found], s.state[SOURCE] = s.state[TIME], fewest
    else:
        many = _rolled_up(s, s.entries, fewest, 0, node, target)
        s.state[SOURCE] = 0
    s.state[SIDE], s.state[LAST], s.state[MANY] = 1 - side, node, many
    return target


@compiled
def _check(s, node):  # type: ignore[no-untyped-def]
    """Look whether a node holds (where it is not `whole`: for k alone), and whether it is best."""
    s.flags[node] |= CHECKED
    classes = _grouped(s, node)
    many, out = s.state[MANY], 0
    for c in range(many):
        if classes.rows[c] < s.rules.k:
            out += classes.rows[c]
    if out > s.most:
        return False
    for c in range(many):
        s.good[c] = classes.rows[c] >= s.rules.k
        if s.good[c] and s.rules.kinds.shape[0]:
            s.good[c] = holds(classes.rows[c], classes.values[c], s.rules)
            if not s.good[c]:
                out += classes.rows[c]
                if out > s.most:
                    return not s.whole
    columns, lost = s.heights.shape[0], 0.0
    starts = np.array([s.starts[axis, s.levels[node, axis]] for axis in range(columns)])
    for c in range(many):
        if s.good[c]:
            loss = 0.0
            for axis in range(columns):
                loss += s.prices[starts[axis] + s.table[classes.entry[c], axis]]
            lost += loss * classes.rows[c]
    value = (1.0 - s.share) * s.bound[node] + s.share * lost + out * s.fixed
    best, chosen = s.best[0], s.state[CHOSEN]
    if value < best - TIED or (
        value <= best + TIED and (s.bound[node], node) < (s.bound[chosen], chosen)
    ):
        s.state[CHOSEN] = node
        s.best[0] = value
    return True


@compiled
def _tag(s, node, mark, step):  # type: ignore[no-untyped-def]
    """Say of a node, and of all that are coarser (or finer), what is known of it."""
    s.flags[node] |= mark
    s.stack[0], many = node, 1
    while many:
        many -= 1
        here = s.stack[many]
        for axis in range(s.heights.shape[0]):
            if 0 <= s.levels[here, axis] + step < s.heights[axis]:
                there = here + step * s.steps[axis]
                if not s.flags[there] & mark:
                    s.flags[there] |= mark
                    s.stack[many] = there
                    many += 1


@compiled
def _successors(s, node, out):  # type: ignore[no-untyped-def]
    """The nodes right above a node, in the order in which nodes are looked at; how many."""
    many = 0
    for axis in range(s.heights.shape[0]):
        if s.levels[node, axis] + 1 < s.heights[axis]:
            there, z = node + s.steps[axis], many
            while z and s.rank[out[z - 1]] > s.rank[there]:
                out[z] = out[z - 1]
                z -= 1
            out[z] = there
            many += 1
    return many


@compiled
def _all_above(s, start):  # type: ignore[no-untyped-def]
    """Visit the nodes above one that holds, depth first: what is suppressed may change the loss."""
    depths = s.heights.sum() - s.heights.shape[0] + 2
    path, ahead = np.empty(depths, np.int64), np.zeros((depths, 2), np.int64)
    above = np.empty((depths, s.heights.shape[0]), np.int64)
    depth, node = -1, start
    while True:
        if not s.flags[node] & (FAILS | VISITED) and not _loses_more(s, node):
            if not s.flags[node] & CHECKED:
                _check(s, node)
            s.flags[node] |= VISITED
            depth += 1
            path[depth] = node
            ahead[depth, 0], ahead[depth, 1] = 0, _successors(s, node, above[depth])
        while depth >= 0 and ahead[depth, 0] == ahead[depth, 1]:
            s.flags[path[depth]] |= PASSED
            depth -= 1
        if depth < 0:
            return
        node = above[depth, ahead[depth, 0]]
        ahead[depth, 0] += 1


@compiled
def _flash(s):  # type: ignore[no-untyped-def]
    """Search as Flash does: along paths upwards, by halves, and then above what holds."""
    path = np.empty(s.heights.sum() + 1, np.int64)
    above = np.empty(s.heights.shape[0], np.int64)
    bottom = _check(s, 0)
    for first in s.turn:
        queue = [s.rank[first]]
        while len(queue):
            head = s.turn[heappop(queue)]
            if s.flags[head] & (HOLDS | FAILS) or _loses_more(s, head):
                continue
            length, going = 0, True
            while going:
                path[length], length, going = head, length + 1, False
                for z in range(_successors(s, head, above)):
                    if not (s.flags[above[z]] & (HOLDS | FAILS) or _loses_more(s, above[z])):
                        head, going = above[z], True
                        break
            low, high, lowest = 0, length - 1, -1
            while low <= high:
                middle = (low + high) // 2
                node = path[middle]
                if s.flags[node] & (HOLDS | FAILS) or _loses_more(s, node):
                    high = middle - 1
                    continue
                if bottom if node == 0 else _check(s, node):
                    _tag(s, node, HOLDS, 1)
                    lowest, high = node, middle - 1
                    continue
                _tag(s, node, FAILS, -1)
                low = middle + 1
                for z in range(_successors(s, node, above)):
                    if not (s.flags[above[z]] & (HOLDS | FAILS) or _loses_more(s, above[z])):
                        heappush(queue, s.rank[above[z]])
            if lowest >= 0:
                _all_above(s, lowest)
    return s.state[CHOSEN]
