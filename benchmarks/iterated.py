"""`best` beside ARX's iteration: tables, k and rules, cell by cell.

The iteration runs twice: by hundredths, of which every step releases at least one, and by rows, of
which every step releases at least one, so that it is as fine as can be. `best` answers three times:
without a time limit, and with one of a quarter of the CPU time that the better of the two took, and
that the one by hundredths took, counted in CPU time too.

``python -m benchmarks.iterated`` measures cell by cell for a given time, keeps what it measured for
the next time while the code stays the same (that of the iteration is kept when only `best`
changes), and writes ``docs/recoding.md``.
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
FACTOR = 0.0
"""Suppressing for nothing: as in ARX's own examples."""
PATIENCE, WARMING = 600.0, 1.0
"""CPU seconds for one iteration from beginning to end, and for a call that is not measured."""
SAME, MOMENT = 1e-9, 0.03
"""Losses that differ by less are the same; and seconds of quarters that are told apart."""
_YES_NO = ("no", "yes")
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


def _by_hundredths(problem: Problem, limit: float) -> Facts:
    return asdict(iterated(problem, 100, FACTOR, limit))


def _by_rows(problem: Problem, limit: float) -> Facts:
    return asdict(iterated(problem, problem.rows, FACTOR, limit))


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


ITERATION = (
    "hierarchy", "privacy/rules.py", "anonymization/methods/lattice.py",
    "../../benchmarks/iteration.py",
)  # fmt: skip
BEST = ("anonymization", "hierarchy", "privacy")
SIDES: dict[str, tuple[Callable[[Problem, float], Facts], tuple[str, ...]]] = {
    "hundredths": (_by_hundredths, ITERATION),
    "rows": (_by_rows, ITERATION),
    "quarter": (_best, (*BEST, *ITERATION)),
    "sooner": (_best, (*BEST, *ITERATION)),
    "best": (_best, BEST),
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


def _measure(side: str, cell: Cell, warmed: set[tuple[str, ...]]) -> Facts:
    """The answer of a side in a cell: one that is kept, or a new one."""
    answer, file = SIDES[side][0], kept(side)
    known = _known(file)
    if cell not in known:
        limit = math.inf if side == "best" else PATIENCE
        if side in ("quarter", "sooner"):
            theirs = _measure("hundredths", cell, warmed)
            if side == "quarter":
                theirs = _better(theirs, _measure("rows", cell, warmed))
            limit = theirs["cpu"] / 4
        if (warm := (side, *cell[:2])) not in warmed:  # what is loaded once is there already
            answer(posed(*cell), WARMING)
            warmed.add(warm)
        if limit < WARMING:
            answer(posed(*cell), limit)
        known[cell] = {"cell": cell, **answer(posed(*cell), limit)}
        print(side, *cell, known[cell], flush=True)
        with file.open("a") as lines:
            lines.write(json.dumps(known[cell]) + "\n")
    return known[cell]


def _better(one: Facts, other: Facts) -> Facts:
    """What loses less; of two that lose the same, what took less time."""
    if abs(one["loss"] - other["loss"]) <= SAME:
        return min(one, other, key=lambda facts: float(facts["cpu"]))
    return min(one, other, key=lambda facts: float(facts["loss"]))


def _row(cell: Cell, coarse: Facts, fine: Facts, soon: Facts, sooner: Facts, ours: Facts) -> str:
    told = [*cell, _shown(ours), f"{ours['cpu']:.2f}"]
    for theirs in (coarse, fine):
        told += [_shown(theirs), f"{theirs['cpu']:.3f}"]
    for answer, theirs in ((soon, _better(coarse, fine)), (sooner, coarse)):
        told += [_shown(answer), f"{answer['cpu']:.3f}", _YES_NO[_reached(answer, theirs)]]
    return f"| {' | '.join(map(str, told))} |"


def _reached(answer: Facts, theirs: Facts) -> bool:
    """Whether an answer loses no more than the iteration and took a quarter of its time at most."""
    return bool(answer["loss"] <= theirs["loss"] + SAME and 4 * answer["cpu"] <= theirs["cpu"])


def _shown(one: Facts) -> str:
    out = one["left_out"]
    return f"{one['loss']:.4f}" + (
        f" ({out:,} {'row' if out == 1 else 'rows'} left out)" * (out > 0)
    )


def _compared(ours: dict[Cell, Facts], theirs: dict[Cell, Facts]) -> tuple[int, int, int]:
    """In how many cells ours lose less than theirs, as much, and more."""
    gains = [theirs[cell]["loss"] - one["loss"] for cell, one in ours.items()]
    ahead, behind = sum(gain > SAME for gain in gains), sum(gain < -SAME for gain in gains)
    return ahead, len(gains) - ahead - behind, behind


def _publish() -> Facts:
    """Write the cells that all sides have into the page; what is said about them."""
    order = list(product(TABLES, RULES, KS))
    sides = [_known(kept(side)) for side in SIDES]
    cells = [cell for cell in order if all(cell in side for side in sides)]
    coarse, fine, soon, sooner, ours = ({c: side[c] for c in cells} for side in sides)
    for cell in cells:
        if not coarse[cell]["finished"] or not fine[cell]["finished"]:
            raise AssertionError(f"{cell}: the iteration has not ended")
    theirs = {cell: _better(coarse[cell], fine[cell]) for cell in cells}
    rows = [
        "| table | asked | k | `best` | CPU s | iteration by hundredths | CPU s | by rows | CPU s "
        "| `best` in a quarter of the better | CPU s | goal | in a quarter of hundredths | CPU s "
        "| goal |",
        "|:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|:--|--:|--:|:--|",
        *(_row(c, coarse[c], fine[c], soon[c], sooner[c], ours[c]) for c in cells),
    ]
    spent = [sum(one["cpu"] for one in side.values()) for side in (coarse, fine, ours)]
    alone = _compared(ours, theirs)
    told = (
        f"{len(cells)} of {len(order)} cells were measured. Without a time limit `best` loses less "
        f"than the better of the two iterations in {alone[0]} cells, as much in {alone[1]}, more "
        f"in {alone[2]}; it takes {spent[2]:,.0f} s in all, the iteration {spent[0]:,.0f} s by "
        f"hundredths and {spent[1]:,.0f} s by rows. {_told(soon, theirs, 'the better of the two')} "
        f"{_told(sooner, coarse, 'the one by hundredths')}"
    )
    if cells:
        put("local", "\n".join([*rows, "", told]))
    return {
        "cells": f"{len(cells)} of {len(order)}",
        "behind": alone[2],
        "reached in a quarter": sum(_reached(soon[cell], theirs[cell]) for cell in cells),
        "by hundredths": sum(_reached(sooner[cell], coarse[cell]) for cell in cells),
    }


def _told(answers: dict[Cell, Facts], theirs: dict[Cell, Facts], name: str) -> str:
    """A sentence about answers that had a quarter of the time."""
    less, same, more = _compared(answers, theirs)
    late = [cell for cell, one in answers.items() if 4 * one["cpu"] > theirs[cell]["cpu"]]
    long = [cell for cell, one in theirs.items() if one["cpu"] >= 4 * MOMENT]
    reached = {cell for cell, one in answers.items() if _reached(one, theirs[cell])}
    return (
        f"Limited to a quarter of the time of {name}, it loses less in {less}, as much in {same}, "
        f"more in {more}; in {len(late)} it needs more than the quarter. So it loses no more in no "
        f"more than a quarter of the time in {len(reached)} cells: in {len(reached & {*long})} of "
        f"the {len(long)} where that is {MOMENT} s or more, and in {len(reached - {*long})} of the "
        f"{len(theirs) - len(long)} where it is shorter."
    )


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
    warmed: set[tuple[str, ...]] = set()
    for cell in product(sorted(given.tables, key=rows.__getitem__), given.rules, given.k):
        if time.monotonic() >= end:
            break
        for side in SIDES if given.side is None else [given.side]:
            _measure(side, cell, warmed)
    if given.side:
        return
    facts = _publish()
    data, versions = ", ".join(given.tables), {"sfumato": version("sfumato")}
    report("iterated", [], data=data, versions=versions, facts=facts)


if __name__ == "__main__":
    main()
