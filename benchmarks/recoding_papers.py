"""The tables of Miller, Campan & Truta and of Xiong & Rangachari, measured anew on Adult.

Writes them between the marks of ``docs/papers/miller-campan-truta.md`` and
``docs/papers/xiong-rangachari.md``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.runner import report
from sfumato.anonymization.pipeline import prepare
from sfumato.anonymization.problem import Problem, Solution, group_view
from sfumato.anonymization.registry import method
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.hierarchy import Boundaries, Hierarchy, flat
from sfumato.utility import discernibility, weighted_discernibility

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "docs" / "papers"
BOUNDED_QI = (
    "education-num",
    "workclass",
    "marital-status",
    "occupation",
    "race",
    "sex",
    "age",
    "native-country",
)
REGIONS = {
    "North America": ["United-States", "Canada", "Outlying-US(Guam-USVI-etc)"],
    "Central America": ["Mexico", "Guatemala", "Honduras", "Nicaragua", "El-Salvador"],
    "Caribbean": [
        "Puerto-Rico", "Cuba", "Jamaica", "Haiti", "Dominican-Republic", "Trinadad&Tobago",
    ],
    "South America": ["Columbia", "Ecuador", "Peru"],
    "Western Europe": [
        "England", "Ireland", "Scotland", "France", "Germany", "Holand-Netherlands",
    ],
    "Southern Europe": ["Italy", "Portugal", "Greece"],
    "Eastern Europe": ["Poland", "Hungary", "Yugoslavia"],
    "East Asia": ["China", "Hong", "Japan", "Taiwan", "South"],
    "Southeast Asia": ["Cambodia", "Laos", "Philippines", "Thailand", "Vietnam"],
    "South and West Asia": ["India", "Iran"],
}  # fmt: skip
CONTINENTS = {
    "America": ["North America", "Central America", "Caribbean", "South America"],
    "Europe": ["Western Europe", "Southern Europe", "Eastern Europe"],
    "Asia": ["East Asia", "Southeast Asia", "South and West Asia"],
}
MARRIED = ["Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"]


def adult() -> pa.Table:
    """The 30,162 complete rows."""
    table = pq.read_table(sf.datasets.path("adult"))
    complete = pc.is_valid(table.column(0))
    for column in table.columns:
        complete = pc.and_(complete, pc.is_valid(column))
    return table.filter(complete)


def country() -> Hierarchy:
    """Countries by region and continent."""
    continent_of = {region: name for name, regions in CONTINENTS.items() for region in regions}
    rows = [
        (place, region, continent_of[region], "*")
        for region, places in REGIONS.items()
        for place in places
    ]
    return Hierarchy.from_levels([list(level) for level in zip(*rows, strict=True)])


def trees(table: pa.Table) -> dict[str, Hierarchy]:
    """Hierarchies of the heights the paper gives: 4, 1, 2, 1, 1, 1, and two of our own."""
    found = {
        name: flat(table.column(name).unique())
        for name in ("workclass", "occupation", "race", "sex")
    }
    states = sorted(table.column("marital-status").unique().to_pylist())
    found["marital-status"] = Hierarchy.from_levels(
        [states, ["once" if state in MARRIED else "alone" for state in states], ["*"] * len(states)]
    )
    found["education-num"] = _halved(range(1, 17), (2, 4, 8))
    found["age"] = _halved(range(10, 100), (5, 10, 20, 40), first=10)
    found["native-country"] = country()
    return found


def _halved(values: Sequence[int], widths: Sequence[int], first: int = 1) -> Hierarchy:
    levels = [[str(value) for value in values]]
    for width in widths:
        starts = [(value - first) // width * width + first for value in values]
        levels.append([f"{start}-{start + width - 1}" for start in starts])
    levels.append(["*"] * len(levels[0]))
    return Hierarchy.from_levels(levels)


def solve(
    table: pa.Table, k: int, bounds: Boundaries | None, grown: dict[str, Hierarchy]
) -> tuple[Problem, Solution, float]:
    """k-member with information loss as the paper has it, and the CPU seconds it took."""
    demand = Request.of(
        {"qi": BOUNDED_QI, "k": k, "method": "kmember", "loss": "height", "part_size": 0}
        | {"hierarchies": grown, "boundaries": bounds}
    )
    problem: Any = prepare(opened := sf.table(table), demand.opened(opened), Budget())
    begun = time.process_time()
    solution = method("kmember").solve(problem)
    return problem, solution, time.process_time() - begun


def information_loss(problem: Problem, solution: Solution) -> float:
    """Definition 11 over its maximum; a suppressed row loses 1 a column."""
    kept = solution.groups >= 0
    rows = problem.counts.astype(float)
    lost = float(rows[~kept].sum()) * len(problem.qi)
    for shown in solution.published.values():
        lost += float((shown.height_loss[shown.codes[solution.groups[kept]]] * rows[kept]).sum())
    return lost / (problem.rows * len(problem.qi))


def violations(problem: Problem, solution: Solution, bounds: Boundaries) -> int:
    """Cells generalized beyond their boundary, over all bounded columns."""
    return sum(
        limit.violations(
            problem.entries.column(name),
            solution.published[name].take(solution.groups),
            problem.counts,
        )
        for name, limit in bounds.limits(problem.shapes).items()
    )


def bounded_table() -> str:
    """Tables 1 and 2 and figures 8 and 9 of Miller, Campan & Truta."""
    table = adult()
    chosen = np.sort(np.random.default_rng(0).choice(table.num_rows, 10_000, replace=False))
    table = table.take(pa.array(chosen))
    grown = trees(table)
    one = Boundaries({"native-country": {"marks": list(CONTINENTS)}})
    ages = [f"{start}-{start + 9}" for start in range(10, 100, 10)]
    two = Boundaries({"native-country": {"marks": list(CONTINENTS)}, "age": {"marks": ages}})
    lines = [
        "| k | violations, country | country and age | suppressed by GreedyCKA, country "
        "| country and age | information loss, unbounded | country | country and age "
        "| CPU s, unbounded | country | country and age |",
        "|--:" * 11 + "|",
    ]
    for k in range(2, 11):
        free, plain, seconds = solve(table, k, None, grown)
        cells = [violations(free, plain, one), violations(free, plain, two)]
        losses, times, left_out = [information_loss(free, plain)], [seconds], []
        for bounds in (one, two):
            problem, solution, seconds = solve(table, k, bounds, grown)
            assert violations(problem, solution, bounds) == 0
            left_out.append(int(problem.counts[solution.groups < 0].sum()))
            losses.append(information_loss(problem, solution))
            times.append(seconds)
        shown = [f"{value:,}" for value in (*cells, *left_out)]
        shown += [f"{value:.3f}" for value in losses] + [f"{value:.2f}" for value in times]
        lines.append(f"| {k} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


MONDRIAN_QI = ["age", "workclass", "education-num", "marital-status", "occupation", "race", "sex",
               "native-country"]  # fmt: skip


def only(column: str) -> dict[str, float]:
    """Weights that count one column."""
    return {name: float(name == column) for name in MONDRIAN_QI}


def mondrian(table: pa.Table, k: int, first: str | None) -> tuple[Problem, Solution]:
    """Strict Mondrian, plain or with one column first."""
    weights = {} if first is None else only(first)
    demand = Request.of({"qi": list(MONDRIAN_QI), "k": k, "weights": weights})
    problem: Any = prepare(opened := sf.table(table), demand.opened(opened), Budget())
    return problem, method("mondrian").solve(problem)


def prioritized_table() -> str:
    """Figures 1 and 2 of Xiong & Rangachari."""
    table = adult().select(MONDRIAN_QI)
    lines = [
        "| k | C_DM plain | Age first | Sex first | C_WDM of Age, plain | Age first "
        "| C_WDM of Sex, plain | Sex first | by label: Age, plain | Age first | Sex, plain "
        "| Sex first |",
        "|--:" * 12 + "|",
    ]
    for k in (2, 5, 10, 25, 50, 100):
        solved = {first: mondrian(table, k, first) for first in (None, "age", "sex")}
        views = {first: group_view(*found) for first, found in solved.items()}
        numbers: list[float] = [discernibility(view) for view in views.values()]
        for overlapping in (True, False):
            numbers += [
                weighted_discernibility(views[first], only(column), overlapping=overlapping)
                for column in ("age", "sex")
                for first in (None, column)
            ]
        lines.append(f"| {k} | " + " | ".join(f"{number:,.0f}" for number in numbers) + " |")
    return "\n".join(lines)


def write(page: str, mark: str, text: str) -> None:
    """Put a table between its marks on a page."""
    path = PAPERS / page
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def main() -> None:
    """Measure and write all tables."""
    write("miller-campan-truta.md", "boundaries on Adult", bounded_table())
    write("xiong-rangachari.md", "priorities on Adult", prioritized_table())
    pages = "docs/papers/miller-campan-truta.md and xiong-rangachari.md"
    report("recoding papers", [], data="Adult", versions={}, facts={"tables written to": pages})


if __name__ == "__main__":
    main()
