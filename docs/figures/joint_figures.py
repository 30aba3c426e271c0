"""Draw the figures of ``docs/papers/fung-et-al.md`` from what ``benchmarks/joint.py`` measured.

    python -m benchmarks.joint
    python docs/figures/joint_figures.py

Writes ``joint-*.svg`` beside this file, and the tables of the page to standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import vl_convert

HERE = Path(__file__).resolve().parent
MEASURED = HERE.parents[1] / ".benchmarks" / "joint-measured.json"
STUDIES = ("lung", "whas500", "gbsg2", "veteran", "flchain")
MODELS = ("private", "A", "B", "C", "D", "pooled")
INK = {"private": "#c2571a", "pooled": "#2f5d8a", "alone": "#8a8a8a"}
LOOK = {
    "font": "Helvetica, Arial, sans-serif",
    "axis": {"gridColor": "#e6e6e6", "domainColor": "#888", "tickColor": "#888"},
    "view": {"stroke": None},
    "background": "white",
}


def main() -> None:
    """Write all figures and print the tables."""
    measured = json.loads(MEASURED.read_text())
    runs = measured["evaluation"]
    for number, key, name in ((2, "svm_auc", "SVM"), (4, "cox_auc", "Cox")):
        write(f"joint-figure-{number}", single_against_private(runs, key, name))
        write(f"joint-figure-{number + 1}", private_against_pooled(runs, key, name))
    write("joint-leakage", leakage(measured["leakage"]["lung"]))
    tables(measured)


def entries(runs: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """One record a study, share of training rows and model; of private models the largest m̄."""
    out = []
    for run in runs:
        widest = max(m["dimensions"] or 0 for m in run["models"])
        for model in run["models"]:
            if model["dimensions"] not in (None, widest) or model[key] is None:
                continue
            name = "private" if model["dimensions"] else model["model"]
            mean, spread = model[key], model[f"{key}_sd"]
            out.append(
                {
                    "study": run["study"],
                    "train": run["train"],
                    "training rows": f"{run['train']:.0%} of the rows for training",
                    "model": name,
                    "kind": name if name in INK else "alone",
                    "mean": mean,
                    "low": mean - spread,
                    "high": mean + spread,
                }
            )
    return out


def bars(x: dict[str, Any], title: str, color: dict[str, Any]) -> list[dict[str, Any]]:
    """Points with error bars of one standard deviation over splits."""
    y = {"field": "mean", "type": "quantitative", "scale": {"zero": False}, "title": title}
    return [
        {
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {
                "x": x,
                "y": {"field": "low", "type": "quantitative", "title": title},
                "y2": {"field": "high"},
                "color": color,
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": color},
        },
    ]


def colors(*kinds: str) -> dict[str, Any]:
    """The same color for the same kind of model in every figure."""
    scale = {"domain": list(kinds), "range": [INK[kind] for kind in kinds]}
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": None}


def single_against_private(runs: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    """Figures 2 and 4: private models against those of single institutions."""
    rows = [entry for entry in entries(runs, key) if entry["train"] in (0.4, 0.6)]
    x = {"field": "model", "type": "nominal", "sort": list(MODELS), "title": None}
    x["axis"] = {"labelAngle": -60}
    return {
        "data": {"values": rows},
        "facet": {
            "column": {"field": "study", "type": "nominal", "sort": list(STUDIES), "title": None},
            "row": {"field": "training rows", "type": "nominal", "title": None},
        },
        "spec": {
            "width": 130,
            "height": 150,
            "layer": bars(x, f"AUC of {name}", colors("private", "alone", "pooled")),
        },
        "resolve": {"scale": {"y": "independent"}},
        "config": LOOK,
    }


def private_against_pooled(runs: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    """Figures 3 and 5: the gap to the pooled model by training rows, split by split, and by m̄."""
    at = {"svm_auc": 0, "cox_auc": 1}[key]
    panels = []
    for study in ("lung", "gbsg2"):
        by_share = [
            entry
            for entry in entries(runs, key)
            if entry["study"] == study and entry["kind"] != "alone"
        ]
        for entry in by_share:  # side by side, not on top of each other
            entry["x"] = 100 * entry["train"] + (1 if entry["kind"] == "pooled" else -1)
        run = next(r for r in runs if r["study"] == study and r["train"] == 0.4)
        runs_of = {bool(m["dimensions"]): m["runs"] for m in run["models"] if m.get("runs")}
        dots = [
            {"pooled": a[at], "private": b[at]}
            for a, b in zip(runs_of[False], runs_of[True], strict=True)
        ]
        sweep = [
            {
                "m": model["dimensions"],
                "kind": "private",
                "mean": model[key],
                "low": model[key] - model[f"{key}_sd"],
                "high": model[key] + model[f"{key}_sd"],
            }
            for model in run["models"]
            if model["dimensions"]
        ]
        pooled = next(m for m in run["models"] if m["model"] == "pooled")[key]
        share_x = {"field": "x", "type": "quantitative", "title": "training rows, %"}
        share_x["scale"] = {"domain": [10, 90]}
        m_x = {"field": "m", "type": "ordinal", "title": "m̄", "axis": {"labelAngle": 0}}
        panels += [
            _panel(by_share, f"{study}: orange private, blue pooled",
                   bars(share_x, f"AUC of {name}", colors("private", "pooled"))),
            _panel(dots, f"{study}: each split at 40 %", _scatter(dots)),
            _panel(sweep, f"{study}: m̄ at 40 %, line: pooled",
                   [*bars(m_x, f"AUC of {name}", colors("private")), _line(pooled)]),
        ]  # fmt: skip
    return {"concat": panels, "columns": 3, "config": LOOK}


def _panel(rows: list[Any], title: str, layer: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "data": {"values": rows},
        "title": {"text": title, "fontSize": 11, "fontWeight": "normal"},
        "width": 210,
        "height": 170,
        "layer": layer,
    }


def _scatter(dots: list[dict[str, float]]) -> list[dict[str, Any]]:
    values = [v for dot in dots for v in dot.values()]
    ends = [min(values) - 0.01, max(values) + 0.01]
    scale = {"domain": ends, "nice": False}
    encoding = {
        axis: {"field": field, "type": "quantitative", "scale": scale, "title": f"AUC, {field}"}
        for axis, field in (("x", "pooled"), ("y", "private"))
    }
    diagonal = [{"pooled": end, "private": end} for end in ends]
    return [
        {
            "data": {"values": diagonal},
            "mark": {"type": "line", "color": "#999", "strokeWidth": 1},
            "encoding": encoding,
        },
        {
            "mark": {"type": "point", "filled": True, "color": INK["private"], "size": 18},
            "encoding": encoding,
        },
    ]


def _line(value: float) -> dict[str, Any]:
    return {
        "data": {"values": [{"mean": value}]},
        "mark": {"type": "rule", "color": INK["pooled"], "strokeWidth": 1.5},
        "encoding": {"y": {"field": "mean", "type": "quantitative"}},
    }


def leakage(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of lung recovered by the grid attack, by m̄ and rounding."""
    steps = [key for key in rows[0] if key not in ("matrix", "dimensions", "safe")]
    steps.sort(key=float)
    values = [
        {
            "step": "none" if step == "0" else step,
            "recovered": row[step],
            "m̄": str(row["dimensions"]),
            "matrix": f"{row['matrix']} matrix",
        }
        for row in rows
        for step in steps
    ]
    order = ["none" if step == "0" else step for step in steps]
    y = {"field": "recovered", "type": "quantitative", "title": "rows recovered exactly"}
    return {
        "data": {"values": values},
        "facet": {"column": {"field": "matrix", "type": "nominal", "title": None}},
        "spec": {
            "width": 260,
            "height": 180,
            "mark": {"type": "line", "point": True},
            "encoding": {
                "x": {"field": "step", "type": "ordinal", "sort": order, "title": "rounding step",
                      "axis": {"labelAngle": 0}},
                "y": {**y, "axis": {"format": "%"}},
                "color": {"field": "m̄", "type": "nominal", "scale": {"scheme": "viridis"}},
            },
        },
        "config": LOOK,
    }  # fmt: skip


def tables(measured: dict[str, Any]) -> None:
    """The numbers behind the figures, as Markdown."""
    for key, title in (
        ("svm_auc", "SVM, AUC"),
        ("cox_auc", "Cox, AUC"),
        ("concordance", "Cox, concordance"),
    ):
        say(f"\n{title}\n\n| study | train | " + " | ".join(MODELS) + " |")
        say("|---|---:|" + "---:|" * len(MODELS))
        rows = entries(measured["evaluation"], key)
        for study in STUDIES:
            for train in (0.4, 0.6):
                cells = []
                for model in MODELS:
                    wanted = (study, train, model)
                    found = [r for r in rows if (r["study"], r["train"], r["model"]) == wanted]
                    cells.append(
                        f"{found[0]['mean']:.3f} ± {found[0]['high'] - found[0]['mean']:.3f}"
                        if found
                        else "–"
                    )
                say(f"| {study} | {train:.0%} | " + " | ".join(cells) + " |")
    say("\nm̄ sweep at 40 %: SVM AUC / Cox AUC / concordance\n")
    for run in measured["evaluation"]:
        if run["train"] == 0.4:
            cells = [
                f"m̄={m['dimensions']}: {m['svm_auc']:.3f} / {m['cox_auc']:.3f} / "
                f"{m['concordance']:.3f}"
                for m in run["models"]
                if m["dimensions"]
            ]
            say(f"- {run['study']} ({run['seconds']:.1f} s CPU): " + "; ".join(cells))
    say("\ntuned\n")
    for run in measured.get("tuned", ()):
        for model in run["models"]:
            if model["model"] == "pooled" or model["dimensions"]:
                say(
                    f"- {run['study']} rounding {run['rounding']} {model['model']}: SVM "
                    f"{model['svm_auc']:.3f} Cox {model['cox_auc']:.3f} "
                    f"c {model['concordance']:.3f} ({run['seconds']:.0f} s)"
                )


def say(line: str) -> None:
    """Print a line of a table."""
    sys.stdout.write(line + "\n")


def write(name: str, specification: dict[str, Any]) -> None:
    """Render one figure."""
    svg = vl_convert.vegalite_to_svg(specification)
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
