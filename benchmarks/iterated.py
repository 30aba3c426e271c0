"""The yardstick of local recoding: ARX's documented iteration, written down again.

ARX is not on any package registry. Its local recoding (`optimizeIterativeFast`) is documented: find
the best full-domain recoding under a suppression limit, keep the classes that hold, repeat with the
suppressed rows, and require every time that at least a share 1/n of all rows is released. Losses of
suppressed rows are weighed against those of generalized ones by a factor (0.5: alike; below it,
suppressing counts less). The optimum of every iteration is exact here: nodes of the lattice are
visited by a bound of their loss until that exceeds the best found.

Rows show the levels of the node, as ARX publishes them, and what is suppressed in the end loses
everything. Used by `benchmarks.recoding`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.axes import positions_of, sensitive_of
from sfumato.anonymization.methods.lattice import _level_loss, _marks, _number_keys, level_groups
from sfumato.anonymization.problem import Problem
from sfumato.kernels.compiling import always_compiled
from sfumato.privacy._kernels import clear, enough, holds, take_in

__all__ = ["MOST_NODES", "Iterated", "iterated"]

Array = npt.NDArray[Any]
MOST_NODES = 300_000
"""Nodes of a lattice that are enumerated at most."""


@dataclass(frozen=True)
class Iterated:
    """What the iteration comes to.

    Attributes
    ----------
    loss
        Mean loss of all rows and columns (normalized certainty penalty).
    left_out
        Rows that were never released.
    iterations, nodes, cpu
        Optima found, nodes looked at, and CPU seconds.
    finished
        Whether the time sufficed; rows that were not looked at count as left out.
    """

    loss: float
    left_out: int
    iterations: int
    nodes: int
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
    loss, iterations, visited, finished = 0.0, 0, 0, True
    while len(left):
        if time.process_time() - began > most:
            finished = False
            break
        least = -(-problem.rows // steps)
        node, looked = lattice.optimum(left, least, 2.0 * factor)
        visited += looked
        if node is None:
            break
        lost, released = lattice.released(left, node)
        loss += lost
        left = left[~released]
        iterations += 1
    out = int(problem.counts[left].sum())
    total = (loss + out * lattice.everything) / (problem.rows * lattice.everything)
    return Iterated(total, out, iterations, visited, time.process_time() - began, finished)


class _Lattice:
    """Levels of all columns, without those that change nothing."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.table = positions_of(problem)
        self.sensitive = sensitive_of(problem)
        self.levels: list[list[Array]] = []
        self.losses: list[list[Array]] = []
        for name in problem.qi:
            shape = problem.shapes[name]
            groups = level_groups(shape)
            new = [i for i, g in enumerate(groups) if not i or (g != groups[i - 1]).any()]
            self.levels.append([groups[i] for i in new])
            weight = problem.weight(name)
            self.losses.append([weight * _level_loss(shape, groups[i]) for i in new])
        if (many := prod(len(column) for column in self.levels)) > MOST_NODES:
            raise ValueError(f"the lattice has {many:,} nodes")
        self.marks, self.starts = _marks(self.levels, np.random.default_rng(0))
        self.flat = np.concatenate([loss for column in self.losses for loss in column])
        self.everything = float(sum(problem.weight(name) for name in problem.qi))
        counts = [range(len(column)) for column in self.levels]
        self.nodes = np.array(list(product(*counts)), dtype=np.int64)

    def optimum(self, left: Array, least: int, suppressing: float) -> tuple[Array | None, int]:
        """The node of least loss that releases enough of the rows left; and nodes looked at."""
        rows = self.problem.counts[left]
        least = min(least, int(rows.sum()))
        bounds = np.zeros(len(self.nodes))
        for axis, name in enumerate(self.problem.qi):
            # a row loses at least the lesser of both on every column
            cap = suppressing * self.problem.weight(name)
            column = [
                float(rows @ np.minimum(loss[self.table[left, axis]], cap))
                for loss in self.losses[axis]
            ]
            bounds += np.array(column)[self.nodes[:, axis]]
        order = np.argsort(bounds, kind="stable")
        best, looked = _best_node(
            self.table, self.problem.counts, self.sensitive, left, self.nodes[order],
            bounds[order], self.starts, self.marks, self.flat, self.problem.rules, least,
            suppressing * self.everything,
        )  # fmt: skip
        return (None if best < 0 else self.nodes[order[best]]), looked

    def released(self, left: Array, node: Array) -> tuple[float, Array]:
        """What the rows released at a node lose, and which they are."""
        released = np.zeros(len(left), dtype=bool)
        rows, lost = _look(
            self.table, self.problem.counts, self.sensitive, left, node, self.starts, self.marks,
            self.flat, self.problem.rules, released, *_room(len(left), self.problem.rules),
        )  # fmt: skip
        assert rows > 0
        return lost, released


def _room(many: int, rules: Any) -> tuple[Array, ...]:
    slots = 16
    while slots < 2 * many:
        slots *= 2
    numbers = [np.empty(many, np.int64) for _ in range(2)]
    counts = np.zeros(rules.offsets[-1], np.int64)
    return np.empty(many, np.uint64), np.empty(slots, np.int64), *numbers, counts


@always_compiled
def _look(  # type: ignore[no-untyped-def]
    table, weights, sensitive, left, node, starts, marks, prices, rules, released,
    keys, slots, number, sizes, counts,
):  # fmt: skip
    """Rows released at a node, and what they lose; fills `released`."""
    many, columns = left.shape[0], table.shape[1]
    for i in range(many):
        key = np.uint64(0)
        for axis in range(columns):
            key += marks[starts[axis, node[axis]] + table[left[i], axis]]
        keys[i] = key * np.uint64(0x9E3779B97F4A7C15)
    found = _number_keys(keys, many, slots, number)
    sizes[:found] = 0
    for i in range(many):
        sizes[number[i]] += weights[left[i]]
    if rules.kinds.shape[0]:
        sequence = np.argsort(number[:many], kind="mergesort")
        at = 0
        while at < many:
            c, first = number[sequence[at]], at
            while at < many and number[sequence[at]] == c:
                at += 1
            if sizes[c] < rules.k:
                continue
            clear(rules, counts)
            for z in range(first, at):
                entry = left[sequence[z]]
                take_in(entry, weights[entry], sensitive, rules, counts)
                if enough(rules, counts):
                    break
            if not holds(sizes[c], counts, rules):
                sizes[c] = 0
    rows, lost = np.int64(0), 0.0
    for i in range(many):
        entry = left[i]
        released[i] = sizes[number[i]] >= rules.k
        if released[i]:
            loss = 0.0
            for axis in range(columns):
                loss += prices[starts[axis, node[axis]] + table[entry, axis]]
            rows += weights[entry]
            lost += loss * weights[entry]
    return rows, lost


@always_compiled
def _best_node(  # type: ignore[no-untyped-def]
    table, weights, sensitive, left, nodes, bounds, starts, marks, prices, rules, least, suppressed,
):  # fmt: skip
    """Number of the node of least loss that releases enough rows, -1 if none; nodes looked at."""
    many = left.shape[0]
    slots = 16
    while slots < 2 * many:
        slots *= 2
    table_of_keys = np.empty(slots, np.int64)
    keys, number, sizes = (
        np.empty(many, np.uint64),
        np.empty(many, np.int64),
        np.empty(many, np.int64),
    )
    counts = np.zeros(rules.offsets[-1], np.int64)
    released = np.empty(many, np.bool_)
    total = np.int64(0)
    for i in range(many):
        total += weights[left[i]]
    best, found, looked = np.inf, -1, 0
    for z in range(nodes.shape[0]):
        if bounds[z] >= best - 1e-9:
            break
        looked += 1
        rows, lost = _look(
            table, weights, sensitive, left, nodes[z], starts, marks, prices, rules, released,
            keys, table_of_keys, number, sizes, counts,
        )  # fmt: skip
        loss = lost + (total - rows) * suppressed
        if rows >= least and rows > 0 and loss < best - 1e-9:
            best, found = loss, z
    return found, looked
