"""Draws the figures of docs/papers/lodha-thomas.md as SVG, beside this file.

``python docs/figures/population_figures.py`` measures what figures 4 to 7 show and draws them all;
``--universes`` first simulates the hundred universes again (some ten minutes) and keeps their
figures in universes.csv.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

HEADINGS = (
    "seed", "columns", "correlation", "theorem", "theorem_estimate", "theorem_values",
    "repaired", "repaired_at_least", "repaired_values", "by_estimate", "unique", "bound",
)  # fmt: skip
INK, ACCENT, PALE = "#3b3a38", "#9c4a2f", "#b9b2a6"
CONFIG: dict[str, Any] = {
    "font": "Georgia, serif",
    "view": {"stroke": None},
    "axis": {"labelColor": INK, "titleColor": INK, "gridColor": "#eeeae3", "domainColor": PALE},
    "legend": {"labelColor": INK, "titleColor": INK},
    "title": {"color": INK, "anchor": "start", "fontSize": 14},
}


def draw(name: str, spec: dict[str, Any]) -> None:
    """Write one chart as SVG."""
    import vl_convert

    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": CONFIG,
        "width": 460,
        "height": 260,
        **spec,
    }
    (HERE / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(whole), encoding="utf-8")


def line(rows: list[dict[str, Any]], x: str, y: str, title: str) -> dict[str, Any]:
    """A line with points through `rows`."""
    return {
        "title": title,
        "data": {"values": rows},
        "mark": {"type": "line", "point": {"color": ACCENT}, "color": ACCENT},
        "encoding": {
            "x": {"field": x, "type": "quantitative"},
            "y": {"field": y, "type": "quantitative"},
        },
    }


def bound() -> None:
    """Figure 1: the largest expected share of unique people against D/n."""
    from sfumato.populations.plan import uniqueness_bound

    rows = [
        {"D/n": float(r), "share": uniqueness_bound(float(r) * 1e6, 1e6)}
        for r in np.linspace(0.01, 8, 200)
    ]
    spec = line(rows, "D/n", "share", "Largest expected share of unique people, f(D/n)")
    spec["mark"] = {"type": "line", "color": ACCENT}
    draw("population-bound", spec)


def timings() -> None:
    """Figures 4 to 6: CPU time against rows, columns and groups."""
    from benchmarks.population import figures

    titles = {
        "rows": "Figure 4: one column, 25 groups, against rows",
        "columns": "Figure 5: 250,000 rows, against columns",
        "groups": "Figure 6: 250,000 rows, against groups",
    }
    for name, points in figures().items():
        rows = [{name: at, "CPU milliseconds": 1000 * seconds} for at, seconds in points]
        draw(f"population-{name}", line(rows, name, "CPU milliseconds", titles[name]))


def trade() -> None:
    """Figure 7: error against groups, beside 1/b², on uniform and on skewed values."""
    from sfumato.populations.plan import privacy_utility_curve

    random = np.random.default_rng(1)
    buckets = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
    rows = []
    for kind, values in {
        "uniform": random.uniform(size=100_000),
        "normal": random.normal(size=100_000),
    }.items():
        curve = privacy_utility_curve(kind, np.sort(values), buckets=buckets)
        rows += [{"groups": p.buckets, "error": p.error, "values": kind} for p in curve.points]
    rows += [{"groups": b, "error": 1 / b**2, "values": "1/b²"} for b in buckets]
    draw(
        "population-trade",
        {
            "title": "Figure 7: error Σ(x'-x)² / Σ(x̄-x)² against groups",
            "data": {"values": rows},
            "mark": {"type": "line", "point": True},
            "encoding": {
                "x": {"field": "groups", "type": "quantitative", "scale": {"type": "log"}},
                "y": {"field": "error", "type": "quantitative", "scale": {"type": "log"}},
                "color": {
                    "field": "values",
                    "type": "nominal",
                    "scale": {
                        "domain": ["uniform", "normal", "1/b²"],
                        "range": [ACCENT, INK, PALE],
                    },
                },
                "strokeDash": {
                    "condition": {"test": "datum.values == '1/b²'", "value": [5, 4]},
                    "value": [1, 0],
                },
            },
        },
    )


def simulate() -> None:
    """A hundred universes of ten million people, a hundredth of each sampled; k = 100, β = 0.1."""
    from population.universes import correlation_of, make_universe, true_share, unique_share
    from sfumato.populations.plan import uniqueness_bound
    from sfumato.populations.blur import make_plan

    with (HERE / "universes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADINGS)
        for seed in range(100):
            universe = make_universe(10_000_000, seed)
            entries, blurrers, drawn = universe.sample(0.01, seed)
            theorem = make_plan(entries, blurrers, universe.people, 100, 0.1, repair="none")
            plan = make_plan(entries, blurrers, universe.people, 100, 0.1)
            likely = make_plan(entries, blurrers, universe.people, 100, 0.1, repair="estimate")
            unique, distinct = unique_share(universe)
            figures = [
                correlation_of(seed),
                true_share(universe, drawn, theorem, 100), theorem.measured.estimate,
                theorem.distinct,
                true_share(universe, drawn, plan, 100), plan.measured.at_least, plan.distinct,
                true_share(universe, drawn, likely, 100),
                unique, uniqueness_bound(distinct, universe.people),
            ]  # fmt: skip
            shown = [f"{figure:.6g}" for figure in figures]
            writer.writerow([seed, " ".join(universe.columns), *shown])
            file.flush()


def universes() -> None:
    """Share of rows that truly match 100 people: the theorem's plan and the repaired one."""
    with (HERE / "universes.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    rows = [
        {"share": float(row[plan]), "plan": name, "correlation": float(row["correlation"])}
        for row in found
        for plan, name in (("theorem", "Theorem 4 alone"), ("repaired", "repaired"))
    ]
    draw(
        "population-universes",
        {
            "title": "Rows that match at least 100 people (promised: 0.9)",
            "data": {"values": rows},
            "layer": [
                {
                    "mark": {"type": "circle", "opacity": 0.6, "size": 40},
                    "encoding": {
                        "x": {"field": "share", "type": "quantitative", "scale": {"zero": False}},
                        "y": {"field": "correlation", "type": "quantitative"},
                        "color": {
                            "field": "plan",
                            "type": "nominal",
                            "scale": {
                                "domain": ["Theorem 4 alone", "repaired"],
                                "range": [PALE, ACCENT],
                            },
                        },
                    },
                },
                {
                    "mark": {"type": "rule", "color": INK, "strokeDash": [4, 3]},
                    "encoding": {"x": {"datum": 0.9}},
                },
            ],
        },
    )


if __name__ == "__main__":
    if "--universes" in sys.argv:
        simulate()
    bound()
    timings()
    trade()
    universes()
