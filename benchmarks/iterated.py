"""`best` beside ARX's documented iteration: tables, k and rules, cell by cell.

``python -m benchmarks.iterated`` measures cell by cell for a given time, keeps what it measured for
the next time while the code stays the same (that of the iteration is kept when only `best`
changes), and writes the cells that both have into ``docs/recoding.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.iteration import iterated
from benchmarks.recoding import put
from benchmarks.runner import cache_folder, measure, report
from sfumato.anonymization.pipeline import solver
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import Problem, group_view
from sfumato.anonymization.request import Request
from sfumato.budget import Budget, parse_time
from sfumato.hierarchy import read_folder
from sfumato.utility import certainty_penalty

__all__ = ["KS", "RULES", "SIDES", "TABLES", "Cell", "kept", "main", "posed"]

Cell = tuple[str, str, int]
"""A table, what is asked beside k, and k."""
Facts = dict[str, Any]
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


def _iteration(problem: Problem) -> Facts:
    return asdict(iterated(problem, STEPS, FACTOR, PATIENCE))


def _best(problem: Problem) -> Facts:
    found, taken = measure(partial(solver("best"), problem))
    view = group_view(problem, found)
    rows = problem.counts if found.rows is None else found.rows
    left_out = int(rows[found.groups < 0].sum())
    return {"loss": certainty_penalty(view), "left_out": left_out, "cpu": taken.cpu}


SIDES: dict[str, tuple[Callable[[Problem], Facts], tuple[str, ...]]] = {
    "iteration": (
        _iteration,
        ("hierarchy", "privacy/rules.py", "../../benchmarks/iteration.py"),
    ),
    "best": (_best, ("anonymization", "hierarchy", "privacy")),
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


def _measured(side: str, cells: Iterable[Cell], end: float) -> dict[Cell, Facts]:
    """Answers of a side that are kept, and new ones of these cells while there is time."""
    answer, file = SIDES[side][0], kept(side)
    known = _known(file)
    waiting = [cell for cell in cells if cell not in known]
    if waiting:
        answer(posed("crx", "k, l = 3", 25))  # what is compiled is compiled before
    for cell in waiting:
        if time.monotonic() >= end:
            break
        known[cell] = {"cell": cell, **answer(posed(*cell))}
        print(side, *cell, known[cell], flush=True)
        with file.open("a") as lines:
            lines.write(json.dumps(known[cell]) + "\n")
    return known


def _row(cell: Cell, ours: Facts, theirs: Facts) -> str:
    shown = [_shown(one) for one in (ours, theirs)]
    unfinished = "" if theirs["finished"] else ", unfinished"
    return (
        f"| {cell[0]} | {cell[1]} | {cell[2]} | {shown[0]} | {ours['cpu']:.2f} "
        f"| {shown[1]}{unfinished} | {theirs['cpu']:.2f} |"
    )


def _shown(one: Facts) -> str:
    out = one["left_out"]
    return f"{one['loss']:.4f}" + (
        f" ({out:,} {'row' if out == 1 else 'rows'} left out)" * (out > 0)
    )


def _publish(ours: dict[Cell, Facts], theirs: dict[Cell, Facts]) -> Facts:
    """Write the cells that both sides have into the page; what is said about them."""
    order = list(product(TABLES, RULES, KS))
    both = [cell for cell in order if cell in ours and cell in theirs]
    rows = [
        "| table | asked | k | `best` | CPU s | iteration | CPU s |",
        "|:--|:--|--:|--:|--:|--:|--:|",
        *(_row(cell, ours[cell], theirs[cell]) for cell in both),
    ]
    gains = [theirs[cell]["loss"] - ours[cell]["loss"] for cell in both]
    ahead, behind = sum(gain > 1e-9 for gain in gains), sum(gain < -1e-9 for gain in gains)
    quick = sum(4 * ours[cell]["cpu"] <= theirs[cell]["cpu"] for cell in both)
    quicker = sum(ours[cell]["cpu"] <= theirs[cell]["cpu"] for cell in both)
    spent = [sum(side[cell]["cpu"] for cell in both) for side in (ours, theirs)]
    told = (
        f"{len(both)} of {len(order)} cells were measured. `best` loses less than the iteration in "
        f"{ahead} of them, as much in {len(both) - ahead - behind}, more in {behind or 'none'}. It "
        f"takes no more CPU than the iteration in {quicker} cells and at most a quarter of it in "
        f"{quick or 'none'}; over all of them {spent[0]:,.0f} s against {spent[1]:,.0f} s."
    )
    put("local", "\n".join([*rows, "", told]))
    return {"cells": f"{len(both)} of {len(order)}", "behind": behind, "in a quarter": quick}


def main() -> None:
    """Measure cells while there is time, and publish all that were measured."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", nargs="*", default=list(TABLES))
    options.add_argument("--rules", nargs="*", default=list(RULES))
    options.add_argument("--k", nargs="*", type=int, default=list(KS))
    options.add_argument("--time", default="5m", help="begin no cell after it (default: 5m)")
    options.add_argument("--side", choices=list(SIDES), help="measure one side, publish nothing")
    given = options.parse_args()
    end = time.monotonic() + parse_time(given.time)
    rows = {name: pq.read_metadata(sf.datasets.path(name)).num_rows for name in given.tables}
    cells = list(product(sorted(given.tables, key=rows.__getitem__), given.rules, given.k))
    if given.side:
        _measured(given.side, cells, end)
        return
    theirs = _measured("iteration", cells, end)
    ours = _measured("best", [cell for cell in cells if cell in theirs], end)
    facts = _publish(ours, theirs)
    data, versions = ", ".join(given.tables), {"sfumato": version("sfumato")}
    report("iterated", [], data=data, versions=versions, facts=facts)


if __name__ == "__main__":
    main()
