"""`best` beside ARX's documented iteration: tables, k and rules, cell by cell.

`best` answers twice: without a time limit, and with one of a quarter of the CPU time that the
iteration took, counted in CPU time too.

``python -m benchmarks.iterated`` measures cell by cell for a given time, keeps what it measured for
the next time while the code stays the same (that of the iteration is kept when only `best`
changes), and writes ``docs/recoding.md`` when it has all cells.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.iteration import iterated
from benchmarks.recoding import put
from benchmarks.runner import cache_folder, compile_first, measure, report
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import Problem, group_view
from sfumato.anonymization.request import Request
from sfumato.anonymization.verb import solver
from sfumato.budget import Budget, Clock, parse_time
from sfumato.hierarchy import read_folder
from sfumato.utility import certainty_penalty

__all__ = ["KS", "RULES", "SIDES", "TABLES", "Cell", "kept", "main", "posed"]

Cell = tuple[str, str, int]
"""A table, what is asked beside k, and k."""
Facts = dict[str, Any]
STEPS, FACTOR = 100, 0.05
"""A hundredth of the rows in every step; the factor loses least of 0, 0.05 and 0.5."""
PATIENCE, WARMING = 600.0, 0.3
"""CPU seconds for one iteration from beginning to end, and for a call that is not measured."""
SAME = 1e-9
"""Losses that differ by less are the same."""
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


def posed(table: str, rules: str, k: int) -> Problem:
    """A table with what is asked of it, ready for `best`."""
    columns = TABLES[table]
    # the iteration leaves out any number of rows, so `best` may, too
    asked: dict[str, Any] = {"k": k, "method": "best", "suppression_limit": 1.0, **RULES[rules]}
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


def _iteration(problem: Problem, limit: float) -> Facts:
    return asdict(iterated(problem, STEPS, FACTOR, limit))


def _best(problem: Problem, limit: float) -> Facts:
    with _cpu_limited(problem, limit) as limited:
        found, taken = measure(partial(solver("best"), limited))
    view = group_view(problem, found)
    rows = problem.counts if found.rows is None else found.rows
    left_out = int(rows[found.groups < 0].sum())
    return {"loss": certainty_penalty(view), "left_out": left_out, "cpu": taken.cpu}


@contextmanager
def _cpu_limited(problem: Problem, limit: float) -> Iterator[Problem]:
    """The problem with a time limit, which counts CPU seconds of this process."""
    if limit == math.inf:
        yield problem
        return
    now = Clock.__dict__["now"]
    Clock.now = staticmethod(time.process_time)  # type: ignore[method-assign]
    try:
        yield replace(problem, budget=Budget(seconds=limit))
    finally:
        Clock.now = now  # type: ignore[method-assign]


ITERATION = ("hierarchy", "privacy/rules.py", "../../benchmarks/iteration.py")
BEST = ("anonymization", "hierarchy", "privacy")
SIDES: dict[str, tuple[Callable[[Problem, float], Facts], tuple[str, ...]]] = {
    "iteration": (_iteration, ITERATION),
    "best": (_best, BEST),
    "quarter": (_best, (*BEST, *ITERATION)),
}
"""What answers, and the code on which its answers depend."""


def kept(side: str) -> Path:
    """Where answers of a side are kept that were measured with this code."""
    code = hashlib.sha256()
    for room in SIDES[side][1]:
        place = Path(sf.__file__).parent / room
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            code.update(file.read_bytes())
    return cache_folder() / f"local-{side}-{code.hexdigest()[:16]}.jsonl"


def _known(file: Path) -> dict[Cell, Facts]:
    lines = file.read_text().splitlines() if file.exists() else []
    facts = [json.loads(line) for line in lines]
    return {(table, rules, int(k)): one for one in facts for table, rules, k in [one["cell"]]}


def _measure(side: str, cell: Cell) -> Facts:
    """The answer of a side in a cell: one that is kept, or a new one."""
    answer, file = SIDES[side][0], kept(side)
    known = _known(file)
    if cell not in known:
        limit = {"iteration": PATIENCE, "best": math.inf}.get(side, math.nan)
        if side == "quarter":
            limit = _measure("iteration", cell)["cpu"] / 4
        answer(posed(*cell), min(limit, WARMING))  # what is loaded once is there already
        known[cell] = {"cell": cell, **answer(posed(*cell), limit)}
        print(side, *cell, known[cell], flush=True)
        with file.open("a") as lines:
            lines.write(json.dumps(known[cell]) + "\n")
    return known[cell]


def _row(cell: Cell, ours: Facts, soon: Facts, theirs: Facts) -> str:
    shown = [_shown(one) for one in (ours, soon, theirs)]
    unfinished = "" if theirs["finished"] else ", unfinished"
    return (
        f"| {cell[0]} | {cell[1]} | {cell[2]} | {shown[0]} | {ours['cpu']:.2f} "
        f"| {shown[1]} | {soon['cpu']:.3f} | {'yes' if _reached(soon, theirs) else 'no'} "
        f"| {shown[2]}{unfinished} | {theirs['cpu']:.3f} |"
    )


def _reached(soon: Facts, theirs: Facts) -> bool:
    """Whether an answer loses no more than the iteration and took a quarter of its time at most."""
    return bool(soon["loss"] <= theirs["loss"] + SAME and 4 * soon["cpu"] <= theirs["cpu"])


def _shown(one: Facts) -> str:
    out = one["left_out"]
    return f"{one['loss']:.4f}" + (
        f" ({out:,} {'row' if out == 1 else 'rows'} left out)" * (out > 0)
    )


def _publish() -> Facts:
    """Write all cells into the page as soon as all sides have them; what is said about them."""
    order = list(product(TABLES, RULES, KS))
    theirs, ours, soon = (_known(kept(side)) for side in SIDES)
    all_of = [cell for cell in order if cell in ours and cell in soon and cell in theirs]
    rows = [
        "| table | asked | k | `best` | CPU s | in a quarter | CPU s | goal | iteration | CPU s |",
        "|:--|:--|--:|--:|--:|--:|--:|:--|--:|--:|",
        *(_row(cell, ours[cell], soon[cell], theirs[cell]) for cell in all_of),
    ]
    counts = []
    for side in (ours, soon):
        gains = [theirs[cell]["loss"] - side[cell]["loss"] for cell in all_of]
        ahead, behind = sum(gain > SAME for gain in gains), sum(gain < -SAME for gain in gains)
        counts.append((ahead, len(all_of) - ahead - behind, behind))
    reached = sum(_reached(soon[cell], theirs[cell]) for cell in all_of)
    late = sum(4 * soon[cell]["cpu"] > theirs[cell]["cpu"] for cell in all_of)
    spent = [sum(side[cell]["cpu"] for cell in all_of) for side in (ours, soon, theirs)]
    told = (
        f"{len(all_of)} of {len(order)} cells were measured. Without a time limit `best` loses "
        f"less than the iteration in {counts[0][0]} of them, as much in {counts[0][1]}, more in "
        f"{counts[0][2]}; it takes {spent[0]:,.0f} s in all, the iteration {spent[2]:,.0f} s. "
        f"Limited to a quarter of the iteration's CPU time it loses less in {counts[1][0]}, as "
        f"much in {counts[1][1]}, more in {counts[1][2]}, and takes {spent[1]:,.0f} s in all; in "
        f"{late} cells it needs more than that quarter. It loses no more in no more than a quarter "
        f"of the time in {reached} cells, and does not in {len(all_of) - reached}."
    )
    if len(all_of) == len(order):
        put("local", "\n".join([*rows, "", told]))
    return {
        "cells": f"{len(all_of)} of {len(order)}",
        "behind": counts[0][2],
        "reached in a quarter": reached,
    }


def main() -> None:
    """Measure cells while there is time, and publish them when all were measured."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", nargs="*", default=list(TABLES))
    options.add_argument("--rules", nargs="*", default=list(RULES))
    options.add_argument("--k", nargs="*", type=int, default=list(KS))
    options.add_argument("--time", default="30m", help="begin no cell after it (default: 30m)")
    options.add_argument("--side", choices=list(SIDES), help="measure one side, publish nothing")
    given = options.parse_args()
    compile_first()
    end = time.monotonic() + parse_time(given.time)
    rows = {name: pq.read_metadata(sf.datasets.path(name)).num_rows for name in given.tables}
    for cell in product(sorted(given.tables, key=rows.__getitem__), given.rules, given.k):
        if time.monotonic() >= end:
            break
        for side in SIDES if given.side is None else [given.side]:
            _measure(side, cell)
    if given.side:
        return
    facts = _publish()
    data, versions = ", ".join(given.tables), {"sfumato": version("sfumato")}
    report("iterated", [], data=data, versions=versions, facts=facts)


if __name__ == "__main__":
    main()
