"""Measures what a classifier still learns from anonymized credit data.

``python docs/figures/crx.py`` anonymizes the credit screening table plainly and with priorities,
and writes the tables of docs/papers/xiong-rangachari-crx.md. It needs
scikit-learn.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.anonymization.request import Request
from sfumato.anonymization.pipeline import solve
from sfumato.hierarchy import Ranges

HERE = Path(__file__).parent

PAGE = HERE.parent / "papers" / "xiong-rangachari-crx.md"
FEATURES = ("A2", "A3", "A8", "A11", "A14", "A15")
KS = (2, 5, 10, 20, 50, 100)
REPEATS = 10
RANGES = 10

Array = np.ndarray[Any, Any]


def credit() -> pa.Table:
    """The 653 rows without a missing cell."""
    return pq.read_table(sf.datasets.path("crx")).drop_null()


def accuracy(features: Array, target: Array) -> float:
    """Gaussian naive Bayes, ten folds, averaged over shuffles of the rows."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.naive_bayes import GaussianNB

    scores = []
    for seed in range(REPEATS):
        folds = StratifiedKFold(10, shuffle=True, random_state=seed)
        scores.append(cross_val_score(GaussianNB(), features, target, cv=folds).mean())
    return float(np.mean(scores))


def numbers(table: pa.Table, columns: tuple[str, ...]) -> Array:
    return np.stack([np.asarray(table.column(name), dtype=float) for name in columns], axis=1)


def priorities(table: pa.Table, columns: tuple[str, ...], target: Array) -> dict[str, float]:
    """Accuracy of each column alone, scaled so that the best has 1 and the worst 0."""
    alone = {name: accuracy(numbers(table, (name,)), target) for name in columns}
    worst, best = min(alone.values()), max(alone.values())
    return {name: (score - worst) / (best - worst) for name, score in alone.items()}


def released(table: pa.Table, **asked: Any) -> tuple[Array, dict[str, Any]]:
    """Middles of the published ranges, row by row, and what the release cost."""
    release = sf.anonymize(table, **asked)
    opened = sf.table(table)
    (part,) = solve(opened, Request.of(asked).opened(opened), sf.Budget())
    entries = part.problem.entries
    codes = {name: opened.codes([name]).arrays[0] for name in entries.columns}
    place = {tuple(int(a[e]) for a in entries.arrays): e for e in range(entries.entries)}
    rows = [place[key] for key in zip(*(codes[n].tolist() for n in entries.columns), strict=True)]
    middles = []
    for name in part.problem.qi:
        shown, shape = part.published[name], part.problem.shapes[name]
        assert isinstance(shape, Ranges)
        middle = (shape.points[shown.low] + shape.points[shown.high]) / 2
        middles.append(middle[shown.codes[part.groups[rows]]])
    return np.stack(middles, axis=1), dict(release.utility)


def experiment(table: pa.Table, columns: tuple[str, ...], target: Array) -> list[str]:
    """One table: accuracy and discernibility of three ways to anonymize."""
    weights = priorities(table, columns, target)
    with_target = table.append_column("the target", pa.array(target))
    original = accuracy(numbers(table, columns), target)
    guess = np.unique(target, return_counts=True)[1].max() / len(target)
    told = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
    lines = [
        f"Accuracy on the original {original:.1%}; always guessing the commonest {guess:.1%}.",
        f"Priorities from single columns: {told}.",
        "",
        "| k | plain | prioritized | by gain | C_DM plain | prioritized | C_WDM plain "
        "| prioritized |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for k in KS:
        asked = {"qi": list(columns), "k": k}
        plain, plain_cost = released(table, **asked)
        first, first_cost = released(
            table, weights=weights, cut_weights={"spread": 1, "priority": 3}, **asked
        )
        gained, _ = released(
            with_target, target="the target", cut_weights={"spread": 1, "gain": 3}, **asked
        )
        weighted = sum(weights[name] * alone(plain[:, at]) for at, name in enumerate(columns))
        scores = [accuracy(features, target) for features in (plain, first, gained)]
        lines.append(
            f"| {k} | "
            + " | ".join(f"{score:.1%}" for score in scores)
            + f" | {plain_cost['discernibility']:,} | {first_cost['discernibility']:,}"
            + f" | {weighted:,.0f} | {first_cost['weighted_discernibility']:,.0f} |"
        )
    return lines


def readings(table: pa.Table, credit_given: Array) -> list[str]:
    """Prediction of A3 as the paper words it: all columns in equal-width ranges, all categories."""
    others = [name for name in FEATURES if name != "A3"]
    lines = [
        "| ranges of the features | of A3 | A16 as a feature | guessing | original "
        "| k = 5: plain | prioritized | k = 20: plain | prioritized | k = 100: plain "
        "| prioritized |",
        "|--:|--:|:--|" + "--:|" * 8,
    ]
    for ranges in (5, 10):
        features = {
            name: equal_width(np.asarray(table.column(name), dtype=float), ranges)
            for name in others
        }
        recoded = pa.table({name: codes.astype(np.int64) for name, codes in features.items()})
        shown = {}
        for target_ranges in (3, 5, 10):
            target = equal_width(np.asarray(table.column("A3"), dtype=float), target_ranges)
            alone = {name: categorical([codes], target) for name, codes in features.items()}
            worst, best = min(alone.values()), max(alone.values())
            weights = {name: (score - worst) / (best - worst) for name, score in alone.items()}
            for k in (5, 20, 100):
                asked = {"qi": others, "k": k}
                shown[k] = [
                    released(recoded, **asked)[0],
                    released(
                        recoded, weights=weights, cut_weights={"spread": 1, "priority": 3}, **asked
                    )[0],
                ]
            guess = np.bincount(target).max() / len(target)
            for more, told in (([], "no"), ([credit_given], "yes")):
                scores = [guess, categorical([*features.values(), *more], target)]
                for pair in shown.values():
                    scores += [categorical([*middles.T, *more], target) for middles in pair]
                figures = " | ".join(f"{score:.1%}" for score in scores)
                lines.append(f"| {ranges} | {target_ranges} | {told} | {figures} |")
    return lines


def categorical(features: list[Array], target: Array) -> float:
    """Naive Bayes that takes every different range for a category, ten folds, three shuffles."""
    from sfumato.utility import cross_validated

    return float(np.mean([cross_validated(features, target, seed=seed) for seed in range(3)]))


def alone(shown: Array) -> int:
    """Σ|class|² of a column by itself."""
    return int((np.unique(shown, return_counts=True)[1].astype(np.int64) ** 2).sum())


def equal_width(column: Array, ranges: int) -> Array:
    """The range of each value, all equally wide."""
    edges = np.linspace(column.min(), column.max(), ranges + 1)[1:-1]
    return np.digitize(column, edges)


def put(page: str, name: str, lines: list[str]) -> str:
    """The page with one of its tables replaced."""
    block = f"<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- end of {name} -->"
    pattern = rf"<!-- {name} -->.*?<!-- end of {name} -->"
    return re.sub(pattern, lambda _: block, page, flags=re.DOTALL)


def main() -> None:
    table = credit()
    credit_given = np.asarray(table.column("A16").to_pylist()) == "+"
    page = PAGE.read_text(encoding="utf-8")
    features = table.select(FEATURES)
    page = put(page, "classification", experiment(features, FEATURES, credit_given))
    others = tuple(name for name in FEATURES if name != "A3")
    ranges = equal_width(np.asarray(table.column("A3"), dtype=float), RANGES)
    page = put(page, "prediction", experiment(table.select(others), others, ranges))
    page = put(page, "readings", readings(table, credit_given))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
