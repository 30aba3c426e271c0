"""Charts as Vega-Lite specifications: plain dictionaries made of results, and nothing else.

Colours are those of Okabe & Ito, which people of any colour vision tell apart. Text and grid lines
take the page's own colours when they are drawn (see `drawing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.engines.sizes import ClassSizes
from sfumato.quasi.measure import Measures

__all__ = [
    "ACCENT",
    "GRID",
    "INK",
    "WARNING",
    "before_after",
    "class_sizes",
    "column_shares",
    "pair_strength",
    "risk_curve",
    "strength",
]

Spec = dict[str, Any]
INK, GRID = "#010203", "#040506"
"""Stand-ins for the page's text and line colours."""
ACCENT, WARNING, CALM = "#0072B2", "#D55E00", "#009E73"
WIDTH = 560


def _chart(title: str, layers: Spec, *, height: int | Spec = 220, width: int = WIDTH) -> Spec:
    font = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": title,
        "width": width,
        "height": height,
        "background": None,
        **layers,
        "config": {
            "font": font,
            "view": {"stroke": None},
            "axis": {
                "labelColor": INK,
                "titleColor": INK,
                "domainColor": GRID,
                "tickColor": GRID,
                "gridColor": GRID,
                "gridOpacity": 0.35,
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
                "labelLimit": 260,
            },
            "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12},
            "text": {"color": INK, "fontSize": 12},
        },
    }


def strength(title: str, found: Sequence[Measures]) -> Spec:
    """Rows that stand alone by each of some column sets, as bars."""
    rows = [{"set": ", ".join(m.columns), "share": m.unique, "rows": m.unique_rows} for m in found]
    order = [row["set"] for row in rows]
    y = {"field": "set", "type": "nominal", "sort": order, "title": None}
    x = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "axis": {"format": ".0%", "title": "rows that stand alone", "tickCount": 5},
    }
    layers = {
        "data": {"values": rows},
        "layer": [
            {"mark": {"type": "bar", "color": ACCENT, "cornerRadiusEnd": 2},
             "encoding": {"x": x, "y": y}},
            {"mark": {"type": "text", "align": "left", "dx": 4},
             "encoding": {"x": x, "y": y, "text": {"field": "share", "format": ".1%"}}},
        ],
    }  # fmt: skip
    return _chart(title, layers, height={"step": 24})


def column_shares(title: str, shares: Mapping[str, float], *, what: str) -> Spec:
    """One share for each column, largest first."""
    rows = [{"column": name, "share": share} for name, share in shares.items()]
    y = {"field": "column", "type": "nominal", "sort": "-x", "title": None}
    x = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domainMin": 0},
        "axis": {"format": ".0%", "title": what, "tickCount": 5},
    }
    layers = {
        "data": {"values": rows},
        "mark": {"type": "bar", "color": ACCENT, "cornerRadiusEnd": 2},
        "encoding": {"x": x, "y": y},
    }
    return _chart(title, layers, height={"step": 20})


BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, 19), (20, 49), (50, 99), (100, 999), (1000, None))
"""Class sizes shown together: from, up to."""


def class_sizes(title: str, sizes: ClassSizes, k: int) -> Spec:
    """How many rows are in classes of which size; those below k stand out."""
    rows = []
    for low, high in BINS:
        inside = [
            s * c for s, c in sizes.to_dict().items() if s >= low and (high is None or s <= high)
        ]
        label = str(low) if low == high else f"{low:,}+" if high is None else f"{low}–{high}"
        rows.append({"size": label, "rows": sum(inside), "small": low < k})
    order = [row["size"] for row in rows]
    layers = {
        "data": {"values": rows},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "x": {"field": "size", "type": "nominal", "sort": order,
                  "axis": {"title": "people who look alike", "labelAngle": 0}},
            "y": {"field": "rows", "type": "quantitative",
                  "axis": {"title": "rows", "format": "~s", "tickCount": 5}},
            "color": {
                "field": "small", "type": "nominal",
                "scale": {"domain": [True, False], "range": [WARNING, ACCENT]},
                "legend": {"title": None, "orient": "top", "labelExpr":
                           f"datum.value ? 'fewer than {k} alike' : '{k} or more alike'"},
            },
        },
    }  # fmt: skip
    return _chart(title, layers)


def risk_curve(title: str, curves: Mapping[str, ClassSizes]) -> Spec:
    """Share of rows whose risk (one over the size of their class) is at least so much."""
    rows = []
    for name, sizes in curves.items():
        total, seen = max(1, sizes.rows), 0
        for size, count in sizes.to_dict().items():
            rows.append({"table": name, "risk": 1 / size, "share": (seen + size * count) / total})
            seen += size * count
    layers = {
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2.5},
        "encoding": {
            "x": {"field": "risk", "type": "quantitative",
                  "scale": {"type": "log", "domain": [0.001, 1], "clamp": True},
                  "axis": {"title": "risk of being found, at least", "format": ".1%",
                           "values": [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1]}},
            "y": {"field": "share", "type": "quantitative", "scale": {"domain": [0, 1]},
                  "axis": {"title": "share of rows", "format": ".0%", "tickCount": 5}},
            "color": {"field": "table", "type": "nominal", "title": None,
                      "scale": {"range": [WARNING, CALM]},
                      "legend": {"orient": "top"} if len(curves) > 1 else None},
        },
    }  # fmt: skip
    return _chart(title, layers)


def pair_strength(title: str, pairs: Mapping[tuple[str, str], float], *, what: str) -> Spec:
    """A share for every pair of columns, as a heat map; a column with itself is that column."""
    rows = []
    for (one, other), share in pairs.items():
        rows.append({"one": one, "other": other, "share": share})
        if one != other:
            rows.append({"one": other, "other": one, "share": share})
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    axis = {"labelAngle": -40, "title": None}
    layers = {
        "data": {"values": rows},
        "mark": "rect",
        "encoding": {
            "x": {"field": "one", "type": "nominal", "sort": names, "axis": axis},
            "y": {"field": "other", "type": "nominal", "sort": names, "axis": {"title": None}},
            "color": {
                "field": "share", "type": "quantitative",
                "scale": {"scheme": "viridis", "domain": [0, 1]},
                "legend": {"title": what, "format": ".0%", "gradientLength": 140},
            },
        },
    }  # fmt: skip
    side = max(120, min(30 * len(names), 420))
    return _chart(title, layers, height=side, width=side)


def before_after(title: str, figures: Mapping[str, tuple[float, float]]) -> Spec:
    """Some figures of a table before and after a release, side by side."""
    rows = [
        {"figure": name, "when": when, "value": value}
        for name, pair in figures.items()
        for when, value in zip(("before", "after"), pair, strict=True)
    ]
    layers = {
        "data": {"values": rows},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": {"field": "figure", "type": "nominal", "title": None, "sort": list(figures)},
            "yOffset": {"field": "when", "sort": ["before", "after"]},
            "x": {"field": "value", "type": "quantitative",
                  "axis": {"format": ".0%", "title": None, "tickCount": 5}},
            "color": {"field": "when", "type": "nominal", "title": None, "sort":
                      ["before", "after"], "scale": {"range": [WARNING, CALM]},
                      "legend": {"orient": "top"}},
        },
    }  # fmt: skip
    return _chart(title, layers, height={"step": 22})
