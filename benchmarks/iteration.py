"""ARX's documented local recoding, written down again: the yardstick of `best`.

ARX is not on any package registry. Its local recoding (`optimizeIterativeFast`) is documented: find
the best full-domain recoding under a suppression limit, keep the classes that hold, repeat with the
suppressed rows, and require every time that at least a share 1/n of all rows is released. Losses of
suppressed rows are weighed against those of generalized ones by a factor (0.5: alike; below it,
suppressing counts less). The optimum of every iteration is exact here: no levels are passed over
but those that are proven to lose more.

Rows show the levels of the node, as ARX publishes them, and what is suppressed in the end loses
everything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.methods.lattice import _level_loss, level_groups
from sfumato.anonymization.problem import Problem, positions_of, sensitive_of
from sfumato.kernels.compiling import compiled
from sfumato.privacy.rules import CLOSE_EQUAL, DISTINCT, holds

__all__ = ["Iterated", "iterated"]

Array = npt.NDArray[Any]
ROUNDING, TIED = 1e-9, 1e-7
"""Losses that differ by less are the same; and may be, when they are summed in another order."""


@dataclass(frozen=True)
class Iterated:
    """What the iteration comes to.

    Attributes
    ----------
    loss
        Mean loss of all rows and columns (normalized certainty penalty).
    left_out
        Rows that were never released.
    iterations, cpu
        Optima found, and CPU seconds.
    finished
        Whether the time sufficed; rows that were not looked at count as left out.
    """

    loss: float
    left_out: int
    iterations: int
    cpu: float
    finished: bool


def iterated(problem: Problem, steps: int, factor: float, most: float = np.inf) -> Iterated:
    """Recode, keep what holds, repeat with the rest.

    Parameters
    ----------
    steps
        Every iteration releases at least one row in so many of the table.
    factor
        ARX's `gsFactor`, from 0 (suppressing costs nothing) to 0.5 (it costs what it loses).
    most
        CPU seconds after which no further iteration begins.
    """
    began = time.process_time()
    lattice = _Lattice(problem)
    left = np.arange(len(lattice.table))
    loss, iterations, finished, node = 0.0, 0, True, None
    while len(left):
        if time.process_time() - began > most:
            finished = False
            break
        least = -(-problem.rows // steps)
        node = lattice.optimum(left, least, 2.0 * factor, node)
        if node is None:
            break
        lost, released = lattice.released(left, node)
        loss += lost
        left = left[~released]
        iterations += 1
    out = int(problem.counts[left].sum())
    total = (loss + out * lattice.everything) / (problem.rows * lattice.everything)
    return Iterated(total, out, iterations, time.process_time() - began, finished)


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

    def optimum(
        self, left: Array, least: int, suppressing: float, near: Array | None = None
    ) -> Array | None:
        """The node of least loss that releases enough of the rows left; None if none does.

        Parameters
        ----------
        near
            A node from which a good one is looked for first.
        """
        rows = self.problem.counts[left]
        least = max(1, min(least, int(rows.sum())))
        given = (
            self.table[left], rows, self.sensitive[left], self.starts, self.looks, self.labels,
            self.flat, self.problem.rules, least, suppressing * self.everything,
        )  # fmt: skip
        start = self.top if near is None else near
        known = _climbed(start.copy(), self.heights, *given)
        if near is not None:
            known = min(known, _climbed(self.top.copy(), self.heights, *given))
        found = _good_nodes(known, self.order, self.heights, *given)
        best, chosen = np.inf, None
        for node in found[self._turns(found, left, suppressing)]:
            lost, enough = _weigh(node, *given)
            if enough and lost < best - ROUNDING:
                best, chosen = lost, node
        return chosen

    def _turns(self, nodes: Array, left: Array, suppressing: float) -> Array:
        """Nodes by what each loses at least; of several optima the first is chosen."""
        if len(nodes) < 2:
            return np.arange(len(nodes))
        rows, least = self.problem.counts[left], np.zeros(len(nodes))
        for axis, name in enumerate(self.problem.qi):
            # a row loses at least the lesser of both on every column
            cap = suppressing * self.problem.weight(name)
            column = [
                float((rows * np.minimum(loss[self.table[left, axis]], cap)).sum())
                for loss in self.losses[axis]
            ]
            least += np.array(column)[nodes[:, axis]]
        return np.lexsort([*nodes.T[::-1], least])

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
    node, table, weights, sensitive, starts, looks, labels, prices, rules, least, suppressed,
):  # fmt: skip
    """What a node loses with what it suppresses, and whether it releases enough."""
    released = np.empty(table.shape[0], np.bool_)
    rows, lost = _look(
        node, table, weights, sensitive, starts, looks, labels, prices, rules, released
    )
    return lost + (weights.sum() - rows) * suppressed, rows >= least


@compiled
def _climbed(  # type: ignore[no-untyped-def]
    node, heights, table, weights, sensitive, starts, looks, labels, prices, rules, least,
    suppressed,
):  # fmt: skip
    """The least loss on a way from a node to better and better ones beside it."""
    given = (table, weights, sensitive, starts, looks, labels, prices, rules, least, suppressed)
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
    best, order, heights, table, weights, sensitive, starts, looks, labels, prices, rules, least,
    suppressed,
):  # fmt: skip
    """The nodes that release enough rows and lose no more than any other; ties are among them.

    Levels are chosen column by column. Rows that have too little company on some columns (or too
    few values, where distinct or close ones count) have no more on all, so they are suppressed
    whatever follows; the others lose what they do so far, or are suppressed; and enough must be
    released.
    """
    many, columns = table.shape
    slots = np.empty(4 * many + 16, np.int64)
    number, sizes = np.empty(many, np.int64), np.empty(many, np.int64)
    alive, losses = np.zeros((columns + 1, many, 2), np.int64), np.zeros((columns + 1, many))
    left = np.ones((columns + 1, 2), np.int64)
    left[0, 0] = many
    alive[0, :, 0] = np.arange(many)
    nothing = weights.sum() * suppressed
    level, nodes, values = np.full(columns, -1), np.empty((16, columns), np.int64), np.empty(16)
    kept, depth = 0, 0
    while depth >= 0:
        level[depth] += 1
        axis, last = order[depth], depth == columns - 1
        if level[depth] == heights[axis]:
            level[depth] = -1
            depth -= 1
            continue
        _step(
            alive, losses, left, depth, axis, level[depth], last, table, weights, sensitive, starts,
            looks, labels, prices, rules, slots, number, sizes, least, suppressed,
            best - nothing + TIED,
        )  # fmt: skip
        bound = nothing + _least(
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
