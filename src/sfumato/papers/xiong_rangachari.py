"""Xiong & Rangachari: Figures 1 to 4, under three readings of weighted discernibility.

The paper prints no numbers, only curves; what it says about them is judged for every k. Adult are
the 30,162 complete training rows with eight quasi-identifiers, as in LeFevre's Mondrian; credit
screening are the 653 complete rows with six continuous columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sfumato as sf
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import Problem, Solution, group_view
from sfumato.anonymization.request import Request
from sfumato.anonymization.verb import solver
from sfumato.budget import Budget
from sfumato.hierarchy import Ranges
from sfumato.papers.reproduction import (
    Found,
    Grid,
    Picture,
    adult_complete,
    claim,
    figure,
    lines,
    read,
)
from sfumato.utility import discernibility, weighted_discernibility

Array = npt.NDArray[Any]

KS = (2, 5, 10, 25, 50, 100)
ADULT = (
    "age", "workclass", "education-num", "marital-status", "occupation", "race", "sex",
    "native-country",
)  # fmt: skip
CREDIT = ("A2", "A3", "A8", "A11", "A14", "A15")
READINGS = ("by label", "by overlap", "by region")
"""Classes of one column: rows that read the same; rows whose tight ranges overlap; rows of the same
region of the partition, as LeFevre's Mondrian publishes it."""
WHY = {
    "by label": "tight ranges of one column differ from group to group: a column that is blurred "
    "in many ways has many small classes",
    "by overlap": "",
    "by region": "cuts at medians differ from part to part, so regions of one column have many "
    "labels, too",
}


def _solved(table: pa.Table, **asked: Any) -> tuple[Problem, Solution]:
    opened = sf.table(table)
    # ranges end at values, as the paper's: round ends would make labels of different groups alike
    demand = Request.of({**asked, "exact_ends": True})
    problem: Any = prepare(opened, demand.opened(opened), Budget())
    return problem, solver("mondrian")(problem)


@dataclass
class _Region:
    """A part of the table in LeFevre's recursion: its rows, and the bounds of its region."""

    rows: Array
    low: Array
    high: Array


def regions(codes: Array, k: int, priority: Array) -> list[_Region]:
    """Strict Mondrian with the regions it cuts: the column of the largest score, at its median.

    The score is spread (the range of values in the part over that of the column) plus priority,
    where at least one column has a priority (formula 4.4 without gain); else spread alone.
    """
    whole = codes.max(axis=0) - codes.min(axis=0) + 0.0
    waiting = [_Region(np.arange(len(codes)), codes.min(axis=0), codes.max(axis=0))]
    done = []
    while waiting:
        part = waiting.pop()
        cells = codes[part.rows]
        least, most = cells.min(axis=0), cells.max(axis=0)
        score = (most - least) / np.maximum(whole, 1.0) + priority
        for column in np.argsort(-np.where(most > least, score, -1.0), kind="stable"):
            if most[column] == least[column]:
                done.append(part)
                break
            values = cells[:, column]
            at = np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2]
            left = values <= at
            if k <= left.sum() <= len(values) - k:
                lower, upper = part.high.copy(), part.low.copy()
                lower[column], upper[column] = at, at + 1
                waiting.append(_Region(part.rows[left], part.low, lower))
                waiting.append(_Region(part.rows[~left], upper, part.high))
                break
        else:
            done.append(part)
    return done


def _by_region(parts: Sequence[_Region], column: int) -> int:
    """Σ|class|² where a class has the same region in a column."""
    sizes: dict[tuple[int, int], int] = {}
    for part in parts:
        label = (int(part.low[column]), int(part.high[column]))
        sizes[label] = sizes.get(label, 0) + len(part.rows)
    return sum(size * size for size in sizes.values())


def _ranks(table: pa.Table) -> Array:
    columns = [
        np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)[1]
        for column in table.columns
    ]
    return np.stack(columns, axis=1)


def _weighted(
    table: pa.Table, column: str, ks: Sequence[int]
) -> dict[str, dict[str, dict[int, float]]]:
    """C_DM, and C_WDM of one column under each reading, for plain and prioritized Mondrian."""
    names = tuple(table.column_names)
    only = {name: float(name == column) for name in names}
    codes, at = _ranks(table), names.index(column)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for way, weights in (("Mondrian", {}), ("prioritized", only)):
        costs: dict[str, dict[int, float]] = {name: {} for name in ("C_DM", *READINGS)}
        for k in ks:
            view = group_view(*_solved(table, qi=list(names), k=k, weights=weights))
            costs["C_DM"][k] = discernibility(view)
            costs["by label"][k] = weighted_discernibility(view, only)
            costs["by overlap"][k] = weighted_discernibility(view, only, by="overlap")
            priority = np.array([weights.get(name, 0.0) for name in names])
            costs["by region"][k] = _by_region(regions(codes, k, priority), at)
        found[way] = costs
    return found


def _exploratory(number: int, column: str, quick: bool) -> Iterator[Found]:
    table = adult_complete().select(ADULT)
    ks = (50,) if quick else KS[1:]
    found = _weighted(table, column, ks)
    if not quick:
        records = [
            {"k": k, "C_WDM": cost, "way": f"{way}, {reading}"}
            for way, costs in found.items()
            for reading in READINGS
            for k, cost in costs[reading].items()
        ]
        caption = f"Figure {number}(b): C_WDM of {column} by k under three readings"
        yield Picture(
            str(number), caption, lines(caption, records, "k", "C_WDM", "way", log_y=True)
        )
        yield Grid(
            f"Figure {number}",
            ["k", *(f"{what}, {way}" for what in ("C_DM", *READINGS) for way in found)],
            [
                [k, *(int(found[way][what][k]) for what in ("C_DM", *READINGS) for way in found)]
                for k in ks
            ],
        )  # fmt: skip
    ratios = [found["prioritized"]["C_DM"][k] / found["Mondrian"]["C_DM"][k] for k in ks]
    yield claim(
        f"Figure {number}(a), {column} first", "general discernibility is comparable",
        f"{min(ratios):.2f} to {max(ratios):.2f} times", max(ratios) < 1.25,
    )  # fmt: skip
    for reading in READINGS:
        ratios = [found["Mondrian"][reading][k] / found["prioritized"][reading][k] for k in ks]
        improved = min(ratios) > 1.05
        why = WHY[reading]
        if not improved and column == "sex" and reading != "by label":
            why = "Sex has two values, which Mondrian cuts early anyway"
        yield claim(
            f"Figure {number}(b), {column} first, C_WDM {reading}",
            "weighted discernibility is much improved",
            f"{min(ratios):.2f} to {max(ratios):.2f} times smaller", improved,
            "" if improved else why,
        )  # fmt: skip


TABLE_1 = {
    "age": ["[25, 28]"] * 4, "gender": ["Male", "Female"] * 2,
    "zipcode": ["[53710, 53711]", "53712"] * 2,
    "disease": ["Influenza", "Lymphoma", "Bronchitis", "Influenza"],
}  # fmt: skip
"""The anonymized table as it is printed."""


def table_1(quick: bool) -> Iterator[Found]:
    """Table 1: four records."""
    qi = ["age", "gender", "zipcode"]
    found = sf.verify(pa.table(TABLE_1), qi=qi, k=2, l=2, sensitive=["disease"])
    yield claim(
        "Table 1, the anonymized data", "2-anonymity and 2-diversity",
        "both hold" if found.holds else "one does not hold", found.holds,
    )  # fmt: skip


def figure_1(quick: bool) -> Iterator[Found]:
    """Figure 1: Adult, Sex first."""
    yield from _exploratory(1, "sex", quick)


def figure_2(quick: bool) -> Iterator[Found]:
    """Figure 2: Adult, Age first."""
    yield from _exploratory(2, "age", quick)


def _accuracy(features: Array, target: Array, shuffles: int) -> float:
    """Gaussian naive Bayes, ten stratified folds, mean over shuffles of the rows."""
    kinds, codes = np.unique(target, return_inverse=True)
    scores = []
    for seed in range(shuffles):
        order = np.random.default_rng(seed).permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        fold = np.empty(len(codes), dtype=np.int64)
        fold[order] = np.arange(len(codes)) % 10
        right = 0
        for test in (fold == number for number in range(10)):
            right += int(
                (
                    _naive_bayes(features[~test], codes[~test], features[test], len(kinds))
                    == codes[test]
                ).sum()
            )
        scores.append(right / len(codes))
    return float(np.mean(scores))


def _naive_bayes(features: Array, codes: Array, asked: Array, kinds: int) -> Array:
    smallest = 1e-9 * features.var(axis=0).max()
    logs = np.full((len(asked), kinds), -np.inf)
    for kind in range(kinds):
        own = features[codes == kind]
        if len(own):
            mean, spread = own.mean(axis=0), own.var(axis=0) + smallest
            fit = -0.5 * (np.log(2 * np.pi * spread) + (asked - mean) ** 2 / spread).sum(axis=1)
            logs[:, kind] = np.log(len(own) / len(codes)) + fit
    chosen: Array = logs.argmax(axis=1)
    return chosen


def _middles(table: pa.Table, problem: Problem, solution: Solution) -> Array:
    """Middles of the published ranges, row by row."""
    entries = problem.entries
    opened = sf.table(table)
    codes = [opened.codes([name]).arrays[0].tolist() for name in entries.columns]
    place = {tuple(int(a[e]) for a in entries.arrays): e for e in range(entries.entries)}
    rows = [place[key] for key in zip(*codes, strict=True)]
    middles = []
    for name in problem.qi:
        shown, shape = solution.published[name], problem.shapes[name]
        assert isinstance(shape, Ranges)
        middle = (shape.points[shown.low] + shape.points[shown.high]) / 2
        middles.append(middle[shown.codes[solution.groups[rows]]])
    return np.stack(middles, axis=1)


def _numbers(table: pa.Table, columns: Sequence[str]) -> Array:
    return np.stack([np.asarray(table.column(name), dtype=float) for name in columns], axis=1)


def _credit(
    number: int, what: str, columns: tuple[str, ...], target: Array, quick: bool
) -> Iterator[Found]:
    table = read("crx").drop_null().select(columns)
    ks, shuffles = ((2, 100), 1) if quick else (KS, 10)
    alone = {name: _accuracy(_numbers(table, (name,)), target, shuffles) for name in columns}
    worst, best = min(alone.values()), max(alone.values())
    weights = {name: (score - worst) / (best - worst) for name, score in alone.items()}
    original = _accuracy(_numbers(table, columns), target, shuffles)
    guess = float(np.unique(target, return_counts=True)[1].max() / len(target))
    with_target = table.append_column("target", pa.array(target))
    ways: Mapping[str, tuple[pa.Table, dict[str, Any]]] = {
        "Mondrian": (table, {}),
        "prioritized": (table, {"weights": weights, "cut_weights": {"spread": 1, "priority": 3}}),
        "by gain": (with_target, {"target": "target", "cut_weights": {"spread": 1, "gain": 3}}),
    }
    costs: dict[str, dict[str, dict[int, float]]] = {}
    for way, (source, asked) in ways.items():
        measures: dict[str, dict[int, float]] = {n: {} for n in ("accuracy", "C_DM", "C_WDM")}
        for k in ks:
            problem, solution = _solved(source, qi=list(columns), k=k, **asked)
            view = group_view(problem, solution)
            measures["C_DM"][k] = discernibility(view)
            measures["C_WDM"][k] = weighted_discernibility(view, weights, by="overlap")
            measures["accuracy"][k] = _accuracy(
                _middles(source, problem, solution), target, shuffles
            )
        costs[way] = measures
    if not quick:
        records = [
            {"k": k, "accuracy": score, "way": way}
            for way, measures in costs.items()
            for k, score in measures["accuracy"].items()
        ]
        records += [{"k": k, "accuracy": original, "way": "original"} for k in ks]
        records += [{"k": k, "accuracy": guess, "way": "the commonest"} for k in ks]
        caption = f"Figure {number}(c): accuracy of naive Bayes, {what}"
        yield Picture(
            str(number), caption, lines(caption, records, "k", "accuracy", "way", log_x=True)
        )
        yield Grid(
            f"Figure {number}; accuracy on the original {original:.1%}, always the commonest "
            f"{guess:.1%}; C_WDM by overlap; priorities "
            + ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items()),
            ["k", *(f"{what}, {way}" for what in ("accuracy", "C_DM", "C_WDM") for way in costs)],
            [
                [k, *(round(costs[way]["accuracy"][k], 3) for way in costs),
                 *(int(costs[way][m][k]) for m in ("C_DM", "C_WDM") for way in costs)]
                for k in ks
            ],
        )  # fmt: skip
    yield from _credit_claims(number, costs, original, ks)
    if number == 3:
        yield figure("section 5.2, instances", 653, table.num_rows)
        yield figure("section 5.2, attributes beside the class", 15, len(read("crx").columns) - 1)
    points = [
        (costs[way]["C_WDM"][k], costs[way]["accuracy"][k]) for way in tuple(ways)[:2] for k in ks
    ]
    related = float(np.corrcoef(np.array(points).T)[0, 1])
    yield claim(
        f"section 5.2, Figure {number}, C_WDM and accuracy", "correspond well",
        f"correlation {related:.2f}", related < -0.5,
        "" if related < -0.5 else "few releases, and their accuracy is close together",
    )  # fmt: skip


def _credit_claims(
    number: int, costs: Mapping[str, Any], original: float, ks: Sequence[int]
) -> Iterator[Found]:
    plain, first = costs["Mondrian"], costs["prioritized"]
    lost = "no column says much about A3: the original itself is no better than guessing"
    ratios = [first["C_DM"][k] / plain["C_DM"][k] for k in ks]
    yield claim(
        f"Figure {number}(a)", "general discernibility is comparable",
        f"{min(ratios):.2f} to {max(ratios):.2f} times", min(ratios) > 0.75 and max(ratios) < 1.25,
    )  # fmt: skip
    ratios = [plain["C_WDM"][k] / first["C_WDM"][k] for k in ks]
    why = "A11, the column that matters most, is zero in most rows, and that zero stays one class"
    yield claim(
        f"Figure {number}(b)", "weighted discernibility is improved",
        f"{min(ratios):.2f} to {max(ratios):.2f} times smaller", min(ratios) > 1,
        "" if min(ratios) > 1 else why if number == 3 else lost,
    )  # fmt: skip
    wins = sum(first["accuracy"][k] >= plain["accuracy"][k] for k in ks)
    yield claim(
        f"Figure {number}(c), against Mondrian", "prioritized is more accurate",
        f"for {wins} of {len(ks)} k", wins == len(ks), "" if wins == len(ks) else lost,
    )  # fmt: skip
    behind = [original - first["accuracy"][k] for k in ks]
    yield claim(
        f"Figure {number}(c), against the original", "prioritized is comparable",
        f"{min(behind):+.1%} to {max(behind):+.1%} behind", max(behind) < 0.05,
        "" if max(behind) < 0.05 else lost,
    )  # fmt: skip


def figure_3(quick: bool) -> Iterator[Found]:
    """Figure 3: credit screening, classification of A16."""
    target = np.asarray(read("crx").drop_null().column("A16").to_pylist()) == "+"
    yield from _credit(3, "is credit given (A16)?", CREDIT, target.astype(np.int64), quick)


def figure_4(quick: bool) -> Iterator[Found]:
    """Figure 4: credit screening, prediction of A3 in ten equal ranges."""
    values = np.asarray(read("crx").drop_null().column("A3"), dtype=float)
    target = np.digitize(values, np.linspace(values.min(), values.max(), 11)[1:-1])
    others = tuple(name for name in CREDIT if name != "A3")
    yield from _credit(4, "which tenth of its range does A3 lie in?", others, target, quick)


EXPERIMENTS = (table_1, figure_1, figure_2, figure_3, figure_4)
