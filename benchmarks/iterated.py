"""The yardstick of local recoding: ARX's documented iteration, written down again.

ARX is not on any package registry. Its local recoding (`optimizeIterativeFast`) is documented: find
the best full-domain recoding under a suppression limit, keep the classes that hold, repeat with the
suppressed rows, and require every time that at least a share 1/n of all rows is released. Losses of
suppressed rows are weighed against those of generalized ones by a factor (0.5: alike; below it,
suppressing counts less). The optimum of every iteration is exact here: nodes of the lattice are
visited by a bound of their loss until that exceeds the best found.

Rows show the levels of the node, as ARX publishes them, and what is suppressed in the end loses
everything. `contest` sets it beside our method `best`.

``python -m benchmarks.iterated`` measures cell by cell for a given time, keeps what it measured for
the next time while the code of recoding stays the same, and writes the cells that there are into
``docs/recoding.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.recoding import put
from benchmarks.runner import Measured, cache_folder, measure, report
from sfumato.anonymization.axes import positions_of, sensitive_of
from sfumato.anonymization.methods.lattice import _level_loss, _marks, _number_keys, level_groups
from sfumato.anonymization.pipeline import prepare
from sfumato.anonymization.problem import Problem, group_view
from sfumato.anonymization.registry import method
from sfumato.anonymization.request import Request
from sfumato.budget import Budget, parse_time
from sfumato.hierarchy import read_folder
from sfumato.kernels.compiling import compiled
from sfumato.privacy._kernels import clear, enough, holds, take_in
from sfumato.utility import certainty_penalty

__all__ = ["KS", "RULES", "TABLES", "Cell", "Iterated", "contest", "iterated", "main", "posed"]

Array = npt.NDArray[Any]
MOST_NODES = 300_000
"""Nodes of a lattice that are enumerated at most."""
STEPS, FACTOR = 100, 0.05
"""A hundredth of the rows in every step; the factor loses least of 0, 0.05 and 0.5."""
PATIENCE = 600.0
"""CPU seconds for one iteration from beginning to end."""
KS = (2, 5, 10, 25, 50, 100, 200)
RULES: dict[str, dict[str, Any]] = {"k": {}, "k, l = 3": {"l": 3}, "k, t = 0.2": {"t": 0.2}}
"""What is asked for beside k."""


@dataclass(frozen=True)
class Columns:
    """What a table is recoded by; trees are inferred where it comes without.

    Attributes
    ----------
    sensitive
        Asked about by l and t, and then no quasi-identifier.
    codes
        Numbers that are codes.
    """

    qi: tuple[str, ...]
    sensitive: str
    codes: tuple[str, ...] = ()


TABLES = {
    "arx_adult": Columns(
        ("sex", "age", "race", "marital-status", "education", "native-country", "workclass",
         "occupation"), "occupation"),
    "pums_oregon_calm_person": Columns(
        ("AGEP", "SEX", "RAC1P", "MAR", "SCHL", "COW", "MIL", "CIT"), "SCHL",
        ("SEX", "RAC1P", "MAR", "SCHL", "COW", "MIL", "CIT")),
    "crx": Columns(("A1", "A2", "A4", "A6", "A9", "A14", "A11"), "A7"),
    "nursery": Columns(("parents", "has_nurs", "form", "children", "housing", "finance", "social",
                        "health"), "class"),
    "arx_fars_subset": Columns(
        ("iage", "irace", "ideathmon", "ideathday", "isex", "ihispanic", "istatenum", "iinjury"),
        "iinjury"),
    "nist_acs_national2019": Columns(
        ("PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT"), "INDP_CAT"),
    "letter": Columns(("x-box", "y-box", "width", "high", "onpix", "x-bar"), "lettr"),
}  # fmt: skip
"""Tables whose lattice of levels can be enumerated."""


@dataclass(frozen=True)
class Cell:
    """A table, what was asked of it, and what both sides made of it."""

    table: str
    rules: str
    k: int
    loss: float
    ours: Measured
    reference: Iterated

    @property
    def facts(self) -> dict[str, Any]:
        """The cell as it is kept."""
        return {
            "cell": [self.table, self.rules, self.k],
            "row": self.row,
            "loses more": self.loss > self.reference.loss + 1e-9,
            "takes more than a quarter": 4 * self.ours.cpu > self.reference.cpu,
        }

    @property
    def row(self) -> str:
        """The cell as a row of a table."""
        theirs = self.reference
        left_out = f" ({theirs.left_out:,} rows left out)" if theirs.left_out else ""
        unfinished = "" if theirs.finished else ", unfinished"
        return (
            f"| {self.table} | {self.rules} | {self.k} | {self.loss:.4f} | {self.ours.cpu:.1f} "
            f"| {theirs.loss:.4f}{left_out}{unfinished} | {theirs.cpu:.1f} |"
        )


def posed(table: str, rules: str, k: int) -> Problem:
    """A table with what is asked of it, ready for `best`."""
    columns = TABLES[table]
    asked: dict[str, Any] = {"k": k, "method": "best", **RULES[rules]}
    qi = [name for name in columns.qi if rules == "k" or name != columns.sensitive]
    trees = {}
    if table == "arx_adult":
        found = read_folder(sf.datasets.hierarchies(table), [*columns.qi, "salary-class"])
        trees = {name: tree for name, tree in found.items() if name in qi}
    if RULES[rules]:
        asked["sensitive"] = [columns.sensitive]
    codes = [name for name in columns.codes if name in qi]
    opened = sf.table(pq.read_table(sf.datasets.path(table)))
    demand = Request.of({"qi": qi, "hierarchies": trees, "categorical": codes, **asked})
    problem: Problem = prepare(opened, demand.opened(opened), Budget())
    return problem


def contest(cells: Iterable[tuple[str, str, int]]) -> Iterator[Cell]:
    """One cell after the other; what is compiled is compiled before."""
    warm = posed("crx", "k, l = 3", 25)
    method("best").solve(warm)
    iterated(warm, STEPS, FACTOR)
    for table, asked, k in cells:
        problem = posed(table, asked, k)
        found, taken = measure(partial(method("best").solve, problem))
        loss = certainty_penalty(group_view(problem, found))
        reference = iterated(problem, STEPS, FACTOR, PATIENCE)
        yield Cell(table, asked, k, loss, taken, reference)


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
    numbers = [np.empty(many, np.int64) for _ in range(3)]
    counts = np.zeros(rules.offsets[-1], np.int64)
    return np.empty(many, np.uint64), np.empty(slots, np.int64), *numbers, counts


@compiled
def _require(weights, sensitive, left, number, found, sizes, rules, counts, sequence):  # type: ignore[no-untyped-def]
    """Set the size of every class that breaks a rule beyond k to zero."""
    many = left.shape[0]
    ends = np.zeros(found + 1, np.int64)
    for i in range(many):
        ends[number[i] + 1] += 1
    for c in range(found):
        ends[c + 1] += ends[c]
    for i in range(many):
        sequence[ends[number[i]]] = left[i]
        ends[number[i]] += 1  # now where the next class begins
    at = 0
    for c in range(found):
        begin, at = at, ends[c]
        if sizes[c] < rules.k:
            continue
        clear(rules, counts)
        for z in range(begin, at):
            take_in(sequence[z], weights[sequence[z]], sensitive, rules, counts)
            if enough(rules, counts):
                break
        if not holds(sizes[c], counts, rules):
            sizes[c] = 0


@compiled
def _look(  # type: ignore[no-untyped-def]
    table, weights, sensitive, left, node, starts, marks, prices, rules, released,
    keys, slots, number, sizes, sequence, counts,
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
        _require(weights, sensitive, left, number, found, sizes, rules, counts, sequence)
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


@compiled
def _best_node(  # type: ignore[no-untyped-def]
    table, weights, sensitive, left, nodes, bounds, starts, marks, prices, rules, least, suppressed,
):  # fmt: skip
    """Number of the node of least loss that releases enough rows, -1 if none; nodes looked at."""
    many = left.shape[0]
    slots = 16
    while slots < 2 * many:
        slots *= 2
    table_of_keys = np.empty(slots, np.int64)
    keys, number = np.empty(many, np.uint64), np.empty(many, np.int64)
    sizes, sequence = np.empty(many, np.int64), np.empty(many, np.int64)
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
            keys, table_of_keys, number, sizes, sequence, counts,
        )  # fmt: skip
        loss = lost + (total - rows) * suppressed
        if rows >= least and rows > 0 and loss < best - 1e-9:
            best, found = loss, z
    return found, looked


def kept() -> Path:
    """Where cells are kept that were measured with this code."""
    code = hashlib.sha256()
    for room in ("anonymization", "hierarchy", "privacy"):
        for file in sorted((Path(sf.__file__).parent / room).rglob("*.py")):
            code.update(file.read_bytes())
    return cache_folder() / f"iterated-{code.hexdigest()[:16]}.jsonl"


def main() -> None:
    """Measure cells while there is time, and publish all that were measured."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", nargs="*", default=list(TABLES))
    options.add_argument("--rules", nargs="*", default=list(RULES))
    options.add_argument("--k", nargs="*", type=int, default=list(KS))
    options.add_argument("--time", default="5m", help="begin no cell after it (default: 5m)")
    given = options.parse_args()
    end = time.monotonic() + parse_time(given.time)
    file = kept()
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    there = [tuple(one["cell"]) for one in done]
    # those that most readers ask for first
    asked = sorted(product(given.tables, given.rules, given.k), key=lambda one: one[2] != 25)
    waiting = [one for one in asked if one not in there]
    for cell in contest(one for one in waiting if time.monotonic() < end):
        done.append(cell.facts)
        print(cell.row, flush=True)
        with file.open("a") as lines:
            lines.write(json.dumps(cell.facts) + "\n")
    order = list(product(TABLES, RULES, KS))
    done.sort(key=lambda one: order.index(tuple(one["cell"])))
    heads = "| table | asked | k | `best` | CPU s | iteration | CPU s |"
    rows = [heads, "|:--|:--|--:|--:|--:|--:|--:|", *(one["row"] for one in done)]
    worse, slow = (
        [one for one in done if one[what]] for what in ("loses more", "takes more than a quarter")
    )
    told = (
        f"{len(done)} of {len(order)} cells were measured. `best` loses more than the iteration "
        f"in {len(worse) or 'none'} of them, and takes at most a quarter of its CPU in "
        f"{len(done) - len(slow)}."
    )
    put("local", "\n".join([*rows, "", told]))
    report(
        "iterated",
        [],
        data=", ".join(given.tables),
        versions={"sfumato": version("sfumato")},
        facts={
            "cells": f"{len(done)} of {len(order)}",
            "in which the iteration loses less": len(worse),
            "in which `best` takes more than a quarter of its CPU": len(slow),
        },
    )


if __name__ == "__main__":
    main()
