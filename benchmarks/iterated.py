"""`best` beside ARX's iteration: tables, k and rules, cell by cell.

The iteration runs twice: by hundredths, of which every step releases at least one, and by rows, of
which every step releases at least one, so that it is as fine as can be. `best` answers three times:
without a time limit, with one of a quarter of the CPU time that the better of the two took, and
with one of a quarter of what ARX itself would take by the times of its that are known, all counted
in CPU time.

Where t is asked, `best` promises that classes are close to the rows that are released. The
iteration compares them with all rows, so its release is made to hold first, for which it needs no
time here. What it loses then is what `best` may lose; by what it lost before it is told which of
the two iterations is the better, and how long `best` may take.

An iteration that does not end within its patience is shown as such, and is nothing to beat; a cell
in which neither ends is listed, and not counted.

``python -m benchmarks.iterated`` measures cell by cell for a given time, keeps what it measured for
the next time while the code stays the same (that of the iteration is kept when only `best`
changes), and writes ``docs/recoding.md`` and every cell into ``docs/recoding-cells.md``. Tables
that are not the package's are read from a folder.
"""

from __future__ import annotations

import argparse
import gc
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
from benchmarks.recoding import CELLS, put
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
"""CPU seconds for one iteration from beginning to end, unless others are given, and for a call that
is not measured."""
SAME, MOMENT = 1e-9, 0.03
"""Losses that differ by less are the same; and seconds of quarters that are told apart."""
QUARTERS = {"quarter": 0.25, "arx": 2.5}
"""Time limits as shares of what the iteration took: ARX, which takes 3 and 30 s where the iteration
takes 0.3 and 3, is taken to need ten times as long everywhere."""
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
"""Tables that `best` was made with."""
_ADULT = Columns(
    ("age", "workclass", "education", "marital-status", "race", "sex", "native-country"),
    "occupation")  # fmt: skip
_HOUSES = Columns(
    ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex", "age"), "hhcivil",
    ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex"))  # fmt: skip
OTHERS = {
    "adult": _ADULT,
    "adult_all": _ADULT,
    "census_income_kdd_test": Columns(
        ("age", "sex", "race", "marital stat", "education", "class of worker", "citizenship"),
        "major occupation code"),
    "covtype": Columns(("Elevation", "Aspect", "Slope", "Hillshade_Noon"), "Cover_Type"),
    "pums_oregon_calm_household": Columns(
        ("NP", "BLD", "RMS", "TEN", "VEH", "YBL", "HFL"), "FES", ("BLD", "TEN", "YBL", "HFL")),
    "synthea/patients": Columns(
        ("BIRTHDATE", "MARITAL", "RACE", "ETHNICITY", "GENDER", "COUNTY"), "CITY"),
    "synthea/conditions": Columns(("START", "STOP"), "DESCRIPTION"),
    "synthea/careplans": Columns(("START", "STOP", "DESCRIPTION"), "REASONDESCRIPTION"),
    "synthea/imaging_studies": Columns(("DATE", "MODALITY_CODE"), "BODYSITE_DESCRIPTION"),
    "synthea/immunizations": Columns(("DATE",), "DESCRIPTION"),
    "synthea/payer_transitions": Columns(("START_YEAR", "END_YEAR", "OWNERSHIP"), "PAYER"),
    "sdcmicro_CASCrefmicrodata": Columns(("AGI", "FEDTAX", "PTOTVAL", "INTVAL"), "ERNVAL"),
    "sdcmicro_francdat": Columns(("Key1", "Key2", "Key3"), "Key4"),
    "sdcmicro_free1": Columns(
        ("REGION", "SEX", "AGE", "MARSTAT", "KINDPERS", "EDUC1", "ETNI"), "POSLABLY",
        ("SEX", "MARSTAT", "KINDPERS", "ETNI")),
    "sdcmicro_testdata": _HOUSES,
    "sdcmicro_testdata2": _HOUSES,
    "surv_bmt": Columns(("z1", "z2", "z3", "z4", "z5", "z6"), "group"),
    "surv_colon": Columns(("rx", "sex", "age", "obstruct", "adhere", "nodes", "extent"), "differ"),
    "surv_flchain": Columns(("age", "sex", "sample.yr", "creatinine", "mgus"), "flc.grp"),
    "surv_gbsg2": Columns(("horTh", "age", "menostat", "tsize", "pnodes"), "tgrade"),
    "surv_lung": Columns(("inst", "age", "sex", "ph.karno", "wt.loss"), "ph.ecog"),
    "surv_nwtco": Columns(("instit", "histol", "study", "age", "rel"), "stage"),
    "surv_rossi": Columns(("age", "race", "wexp", "mar", "paro", "fin"), "prio"),
    "surv_veteran": Columns(("trt", "karno", "diagtime", "age", "prior"), "celltype"),
}  # fmt: skip
"""Tables that it was not."""
ALL = TABLES | OTHERS


def path_of(table: str, folder: Path | None = None) -> Path | None:
    """Where a table is: among those of the package, or in a folder."""
    if table in sf.datasets.names():
        return sf.datasets.path(table)
    file = folder / f"{table}.parquet" if folder else None
    return file if file and file.exists() else None


def posed(table: str, rules: str, k: int, folder: Path | None = None) -> Problem:
    """A table with what is asked of it, ready for `best`."""
    columns = ALL[table]
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
    opened = sf.table(pq.read_table(path_of(table, folder)))
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
    "best": (_best, BEST),
    "arx": (_best, (*BEST, *ITERATION)),
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


def _measure(
    side: str,
    cell: Cell,
    warmed: set[tuple[str, ...]],
    folder: Path | None = None,
    patience: float = PATIENCE,
) -> Facts:
    """The answer of a side in a cell: one that is kept, or a new one."""
    answer, file = SIDES[side][0], kept(side)
    limit = math.inf if side == "best" else patience
    if side in QUARTERS:
        both = [_measure(one, cell, warmed, folder, patience) for one in ("hundredths", "rows")]
        theirs = _better(*both)
        limit = QUARTERS[side] * theirs["cpu"]
        if not _ended(theirs):
            limit = min(limit, patience)
    if (known := _known(file).get(cell)) and _stands(known, side, limit):
        return known
    if side == "arx" and (ours := _measure("best", cell, warmed, folder))["cpu"] <= limit:
        return ours  # one round ends sooner
    if (warm := (side, *cell[:2])) not in warmed:  # what is loaded once is there already
        answer(posed(*cell, folder), WARMING)
        warmed.add(warm)
        gc.collect()
        gc.freeze()  # nor is it looked through for garbage meanwhile
    if limit < WARMING:
        answer(posed(*cell, folder), limit)
    found = {"cell": cell, **answer(posed(*cell, folder), limit)}
    if side in QUARTERS:
        found["limit"] = limit
    print(side, *cell, found, flush=True)
    with file.open("a") as lines:
        lines.write(json.dumps(found) + "\n")
    return found


def _stands(known: Facts, side: str, limit: float) -> bool:
    """Whether an answer would be no other with this limit."""
    if side in QUARTERS:
        return bool(known.get("limit", limit) == limit)
    return _ended(known) or known["cpu"] >= limit


def _ended(answer: Facts) -> bool:
    """Whether an answer is not that of an iteration for which there was too little patience."""
    return bool(answer.get("finished", True))


def _better(one: Facts, other: Facts) -> Facts:
    """What ended, and loses less; of two that lose the same, what took less time."""
    if _ended(one) != _ended(other):
        return one if _ended(one) else other
    if abs(one["loss"] - other["loss"]) <= SAME:
        return min(one, other, key=lambda facts: float(facts["cpu"]))
    return min(one, other, key=lambda facts: float(facts["loss"]))


def _iteration(known: dict[str, dict[Cell, Facts]], cell: Cell) -> Facts:
    return _better(known["hundredths"][cell], known["rows"][cell])


def _row(cell: Cell, answers: dict[str, Facts]) -> str:
    theirs = _better(answers["hundredths"], answers["rows"])
    told = [*cell]
    for side in SIDES:
        told += [_shown(answers[side]), f"{answers[side]['cpu']:.3f}"]
        if side in QUARTERS:
            reached = _YES_NO[_reached(answers[side], theirs, side)]
            told.append(reached if _ended(theirs) else "not counted")
    return f"| {' | '.join(map(str, told))} |"


def _reached(answer: Facts, theirs: Facts, side: str) -> bool:
    """Whether an answer loses no more than the iteration's that holds, and took no longer than it
    may."""
    less = answer["loss"] <= theirs["held"] + SAME
    return bool(less and answer["cpu"] <= QUARTERS[side] * theirs["cpu"])


def _shown(one: Facts) -> str:
    if not _ended(one):
        return "did not end"
    out, held = one["left_out"], one.get("held", one["loss"])
    return (
        f"{one['loss']:.4f}"
        + f" ({out:,} {'row' if out == 1 else 'rows'} left out)" * (out > 0)
        + f"; {held:.4f} made to hold" * (held > one["loss"] + SAME)
    )


def _publish() -> Facts:
    """Write the cells that all sides have into the pages; what is said about them."""
    known = {side: _known(kept(side)) for side in SIDES}
    sooner = {
        cell: ours
        for cell, ours in known["best"].items()
        if cell in known["hundredths"]
        and cell in known["rows"]
        and ours["cpu"] <= QUARTERS["arx"] * _iteration(known, cell)["cpu"]
    }
    known["arx"] = sooner | known["arx"]
    order = list(product(ALL, RULES, KS))
    cells = [cell for cell in order if all(cell in answers for answers in known.values())]
    answers = {cell: {side: known[side][cell] for side in SIDES} for cell in cells}
    rows = [
        "| table | asked | k | iteration by hundredths | CPU s | by rows | CPU s "
        "| `best` in a quarter of the better | CPU s | goal | `best` without a limit | CPU s "
        "| in a quarter of ARX's time, estimated | CPU s | goal |",
        "|:--|:--|--:|--:|--:|--:|--:|--:|--:|:--|--:|--:|--:|--:|:--|",
        *(_row(cell, answers[cell]) for cell in cells),
    ]
    if cells:
        put("local", "\n".join(_summary(answers)))
        put("cells", "\n".join(rows), CELLS)
    return {
        f"{name}: {what}": count
        for name, tables in (("tables it was made with", TABLES), ("other tables", OTHERS))
        for what, count in _counts([a for cell, a in answers.items() if cell[0] in tables]).items()
    }


def _counts(answers: list[dict[str, Facts]]) -> Facts:
    """In how many of some cells `best` does what; where no iteration ended, it does nothing."""
    both = [(one, _better(one["hundredths"], one["rows"])) for one in answers]
    pairs = [(a, one) for a, one in both if _ended(one)]
    theirs = [one for _, one in pairs]
    gains = [one["held"] - a["best"]["loss"] for a, one in pairs]
    reached = {side: [_reached(a[side], one, side) for a, one in pairs] for side in QUARTERS}
    long = [one["cpu"] >= MOMENT / QUARTERS["quarter"] for one in theirs]
    return {
        "cells": len(pairs),
        "loses less": sum(gain > SAME for gain in gains),
        "as much": sum(abs(gain) <= SAME for gain in gains),
        "more": sum(gain < -SAME for gain in gains),
        "reached in a quarter": sum(reached["quarter"]),
        f"where that is {MOMENT} s or more": sum(long),
        "reached of these": sum(
            both for both, many in zip(reached["quarter"], long, strict=True) if many
        ),
        "reached in a quarter of ARX's time": sum(reached["arx"]),
    }


def _summary(answers: dict[Cell, dict[str, Facts]]) -> list[str]:
    """A row for each table, and for each group of them."""
    lines = ["", ""]
    chosen = {name: [a for cell, a in answers.items() if cell[0] == name] for name in ALL}
    chosen["**tables it was made with**"] = [a for c, a in answers.items() if c[0] in TABLES]
    chosen["**other tables**"] = [a for c, a in answers.items() if c[0] in OTHERS]
    for name, some in chosen.items():
        if some:
            counts = _counts(some)
            lines[0] = f"| table | {' | '.join(counts)} |"
            lines[1] = f"|:--|{'--:|' * len(counts)}"
            lines.append(f"| {name} | {' | '.join(map(str, counts.values()))} |")
    return lines


def main() -> None:
    """Measure cells while there is time, and publish them when all were measured."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", nargs="*", default=list(ALL))
    options.add_argument("--rules", nargs="*", default=list(RULES))
    options.add_argument("--k", nargs="*", type=int, default=list(KS))
    options.add_argument("--folder", type=Path, help="where tables are that are not the package's")
    options.add_argument("--time", default="30m", help="begin no cell after it (default: 30m)")
    options.add_argument("--patience", default=f"{PATIENCE:.0f}s",
                         help="CPU time for one iteration (default: %(default)s)")  # fmt: skip
    options.add_argument("--side", choices=list(SIDES), help="measure one side, publish nothing")
    given = options.parse_args()
    compile_first()
    end, patience = time.monotonic() + parse_time(given.time), parse_time(given.patience)
    files = {name: path_of(name, given.folder) for name in given.tables}
    rows = {name: pq.read_metadata(file).num_rows for name, file in files.items() if file}
    warmed: set[tuple[str, ...]] = set()
    for cell in product(sorted(rows, key=rows.__getitem__), given.rules, given.k):
        if time.monotonic() >= end:
            break
        for side in SIDES if given.side is None else [given.side]:
            if cell[2] <= rows[cell[0]]:
                _measure(side, cell, warmed, given.folder, patience)
    if given.side:
        return
    facts, versions = _publish(), {"sfumato": version("sfumato")}
    report("iterated", [], data=", ".join(rows), versions=versions, facts=facts)


if __name__ == "__main__":
    main()
