"""Recoding Adult and a census table: loss and CPU seconds of every method, and of anonypy.

Adult is ARX's table (30,162 rows, 8 quasi-identifiers, k = 5). Losses of both sides are the same
measure, the normalized certainty penalty, computed here from the groups of rows. Seconds are those
of the method alone, the table being in memory on both sides.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.census import census_file
from benchmarks.runner import Comparison, Measured, ask_peer, peer_environment, report
from sfumato.anonymize.demand import Demand, models_of
from sfumato.anonymize.preparing import prepare
from sfumato.anonymize.problem import Problem, Solution
from sfumato.anonymize.registry import method
from sfumato.budget import Budget
from sfumato.hierarchy import read_folder

__all__ = ["main"]

DATA = Path(__file__).parents[2] / "shared" / "data"
PEER = Path(__file__).parent / "peers" / "anonypy_mondrian.py"
QI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass",
      "occupation")  # fmt: skip
CENSUS_QI = ["age", "sex", "race", "marital_status", "education", "state", "class_of_worker",
             "occupation"]  # fmt: skip
K = 5
PINNED = "0.2.1"


def adult(name: str, trees: bool, rows: int | None = None) -> Problem:
    """Adult, ready for a method."""
    table = pq.read_table(DATA / "arx_adult.parquet", columns=list(QI)).slice(0, rows)
    grown = read_folder(DATA / "hierarchies" / "adult", [*QI, "salary-class"]) if trees else {}
    grown = {column: tree for column, tree in grown.items() if column in QI}
    demand = Demand((QI,), (), models_of((), k=K), name, {}, grown, trees)
    problem: Problem = prepare(sf.table(table), demand, Budget()).problem
    return problem


def loss(problem: Problem, solution: Solution) -> float:
    """Normalized certainty penalty of a solution without suppressed rows."""
    rows = problem.counts if solution.rows is None else solution.rows
    lost = [
        float((shown.loss[shown.codes[solution.groups]] * rows).sum())
        for shown in solution.published.values()
    ]
    return sum(lost) / problem.rows / len(lost)


def timed(call: Callable[[], Any], repetitions: int = 3) -> tuple[Any, Measured]:
    """The answer and the least time of several calls."""
    best = Measured(np.inf, np.inf)
    answer = call()
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = call()
        cpu = time.process_time() - cpu
        best = Measured(min(best.wall, time.perf_counter() - wall), min(best.cpu, cpu))
    return answer, best


def methods(facts: dict[str, Any]) -> Measured:
    """Every method with trees, and with ranges and sets; returns Mondrian's seconds without."""
    plain = Measured(0.0, 0.0)
    for trees in (True, False):
        for name in ("mondrian", "lattice", "kmember", "best"):
            problem = adult(name, trees)
            solution, taken = timed(lambda n=name, p=problem: method(n).solve(p), 1)
            kind = "trees" if trees else "ranges and sets"
            facts[f"{name}, {kind}"] = f"loss {loss(problem, solution):.4f}, {taken.cpu:.3f} s CPU"
            if name == "mondrian" and not trees:
                plain = timed(lambda p=problem: method("mondrian").solve(p), 10)[1]
    problem = adult("kmember", True, 10_000)
    _, taken = timed(lambda: method("kmember").solve(problem))
    facts["kmember, 10,000 rows"] = f"{taken.cpu:.3f} s CPU"
    return plain


def against_anonypy(ours: Measured, facts: dict[str, Any]) -> Comparison:
    """anonypy's strict Mondrian on the same rows."""
    interpreter = peer_environment("anonypy", [f"anonypy=={PINNED}", "pandas", "pyarrow"])
    question = {"path": str(DATA / "arx_adult.parquet"), "columns": list(QI), "k": K}
    answer = ask_peer(interpreter, PEER, question)
    table = pq.read_table(DATA / "arx_adult.parquet", columns=list(QI))
    groups = np.empty(table.num_rows, dtype=np.int64)
    for group, rows in enumerate(answer["groups"]):
        groups[rows] = group
    assert min(len(rows) for rows in answer["groups"]) >= K, "anonypy broke k-anonymity"
    problem = adult("mondrian", False)
    rows = sf.table(table).codes(QI)
    lost = 0.0
    for name, column in zip(QI, rows.arrays, strict=True):
        shape = problem.shapes[name]
        if shape.kind == "ranges":
            shown = shape.published(*shape.spans(column, groups, len(answer["groups"])))
        else:
            shown = shape.published(*shape.collect(column, groups, len(answer["groups"])))
        lost += float(shown.loss[shown.codes[groups]].sum())
    facts["anonypy"] = f"loss {lost / table.num_rows / len(QI):.4f}"
    peer = Measured(answer["wall"], answer["cpu"])
    return Comparison("strict Mondrian of Adult", {"sfumato": ours, "anonypy": peer})


def census(rows: int, name: str, facts: dict[str, Any]) -> None:
    """From Parquet to verified Parquet."""
    path = census_file(rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        cpu = time.process_time()
        release = sf.anonymize(
            str(path), qi=CENSUS_QI, k=10, method=name, output=f"{folder}/release.parquet"
        )
        cpu = time.process_time() - cpu
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    facts[f"{name}, {rows:,} rows"] = (
        f"{cpu:.1f} s CPU, {grown:.2f} GiB, loss {release.utility['ncp']:.4f}, k = {release.k}"
    )


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--large", action="store_true", help="also 1 M and 10 M census rows")
    chosen = options.parse_args()
    facts: dict[str, Any] = {}
    plain = methods(facts)
    comparison = against_anonypy(plain, facts)
    if chosen.large:
        census(1_000_000, "mondrian", facts)
        census(1_000_000, "kmember", facts)
        census(10_000_000, "mondrian", facts)
    report(
        "recoding",
        [comparison],
        data="arx_adult, 30,162 x 8, k = 5",
        versions={"sfumato": version("sfumato"), "anonypy": PINNED},
        facts=facts,
    )


if __name__ == "__main__":
    main()
