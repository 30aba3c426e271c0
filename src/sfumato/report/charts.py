"""Charts as Vega-Lite specifications: plain dictionaries made of results, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.quasi.measure import Measures
from sfumato.report.drawing import (
    ACCENT,
    CALM,
    INK,
    QUIET,
    ROWS,
    WARNING,
    WIDTH,
    Spec,
    chart,
    name_axis,
    share_axis,
)
from sfumato.risks import Alike
from sfumato.wording import percent, unit_of

__all__ = [
    "class_sizes",
    "column_fates",
    "distribution",
    "fractions",
    "hazard",
    "histogram",
    "intervals",
    "ladder",
    "pair_strength",
    "ratios",
    "risk_curve",
    "shares",
    "strength",
    "survival",
    "trade",
]


LEAST_SHOWN = 0.01
"""The share that the longest bar stands for at least, if it fills the picture."""


def _bars(title: str, rows: list[Spec], what: str) -> Spec:
    """Horizontal bars with their figure at the end: rows of `name`, `share`, `said`."""
    order = [row["name"] for row in rows]
    most = max((row["share"] for row in rows), default=0.0)
    # Room for the figure behind the longest bar; next to nothing must not fill the picture.
    end = max(most, LEAST_SHOWN) * 1.15 if most else 1.15
    x = share_axis("share", what, scale={"domain": [0, end], "nice": False})
    y = name_axis("name", order)
    layers = [
        {"mark": {"type": "bar", "color": ACCENT, "height": {"band": 0.68}},
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "text", "align": "left", "dx": 5, "aria": False},
         "encoding": {"x": x, "y": y, "text": {"field": "said"}}},
    ]  # fmt: skip
    return chart(title, {"data": {"values": rows}, "layer": layers}, height={"step": 28})


def strength(title: str, found: Sequence[Measures]) -> Spec:
    """Rows that stand alone by each of some column sets, as bars."""
    rows = [
        {"name": " + ".join(m.columns), "share": m.unique, "said": percent(m.unique)} for m in found
    ]
    lines = max((len(m.columns) for m in found), default=1)
    bars = _bars(title, rows, _stand_alone(found))
    return {**bars, "usermeta": {"narrow": {"lines": lines}}}


def ladder(title: str, found: Sequence[Measures]) -> Spec:
    """The same for column sets that grow by one column: only the new one is named."""
    rows, before = [], 0
    for m in found:
        added = " + ".join(m.columns[before:])
        name = f"+ {added}" if before else added
        rows.append({"name": name, "share": m.unique, "said": percent(m.unique)})
        before = len(m.columns)
    return _bars(title, rows, _stand_alone(found))


def _stand_alone(found: Sequence[Measures]) -> str:
    many = unit_of("person" if any(m.persons is not None for m in found) else "row", 2)
    return f"{many} {_who(many)} stand alone"


def _who(many: str) -> str:
    return "who" if many in ("people", "persons") else "that"


def shares(title: str, values: Mapping[str, float], *, what: str) -> Spec:
    """One share for each name, in the order given."""
    rows = [{"name": n, "share": share, "said": percent(share)} for n, share in values.items()]
    return _bars(title, rows, what)


BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, 19), (20, 49), (50, 99), (100, 999), (1000, None))
"""Class sizes shown together: from, up to."""


LARGEST_SHOWN = 1000
"""Classes with more rows share the lowest risk that is drawn."""


def _bins(k: int) -> list[tuple[int, int | None]]:
    """The bins, one of them split so that none holds sizes on both sides of k."""
    made: list[tuple[int, int | None]] = []
    for low, high in BINS:
        if low < k and (high is None or k <= high):
            made += [(low, k - 1), (k, high)]
        else:
            made.append((low, high))
    return made


def class_sizes(title: str, curves: Mapping[str, Alike], k: int) -> Spec:
    """How many rows are in classes of which size; those below k stand out, left of a line."""
    rows, order, first = [], [], None
    colours = [f"fewer than {k:,} alike", f"{k:,} or more alike"]
    for low, high in _bins(k):
        label = f"{low:,}" if low == high else f"{low:,}+" if high is None else f"{low:,}–{high:,}"
        order.append(label)
        first = label if first is None and low >= k else first
        for name, sizes in curves.items():
            held = sum(
                n for s, n in sizes.members.items() if s >= low and (high is None or s <= high)
            )
            what = colours[0] if low < k else colours[1]
            rows.append({"alike": label, "rows": held, "table": name, "class": what})
    many = _counted_in(curves)
    encoding: Spec = {
        "x": {"field": "alike", "type": "nominal", "sort": order,
              "axis": {"title": f"{many} {_who(many)} look alike", "labelAngle": 0, "grid": False,
                       "labelOverlap": True}},
        "y": {"field": "rows", "type": "quantitative",
              "axis": ROWS | {"title": many}},
        "color": {"field": "class", "type": "nominal", "title": None,
                  "scale": {"domain": colours, "range": [WARNING, ACCENT]},
                  "legend": {"orient": "top"}},
    }  # fmt: skip
    if len(curves) > 1:
        encoding["xOffset"] = {"field": "table", "sort": list(curves)}
        encoding["opacity"] = {
            "field": "table", "type": "nominal", "title": None, "sort": list(curves),
            "legend": {"orient": "bottom", "symbolType": "square", "symbolFillColor": INK},
            "scale": {"domain": list(curves), "range": [0.45, 1]},
        }  # fmt: skip
    bars = {"data": {"values": rows}, "mark": "bar", "encoding": encoding}
    edge = {"data": {"values": [{"alike": first, "said": f"k = {k:,}"}]}}
    x = {**encoding["x"], "bandPosition": 0}
    line = {
        **edge, "mark": {"type": "rule", "strokeDash": [3, 3], "color": INK, "opacity": 0.6},
        "encoding": {"x": x},
    }  # fmt: skip
    text = {
        **edge,
        "mark": {"type": "text", "align": "right", "dx": -5, "y": 8, "aria": False},
        "encoding": {"x": x, "text": {"field": "said"}},
    }
    return chart(title, {"layer": [bars, line, text]})


def _counted_in(curves: Mapping[str, Alike]) -> str:
    """What is counted: rows or persons, in the word for them."""
    return unit_of(next(iter(curves.values())).who, 2)


def risk_curve(title: str, curves: Mapping[str, Alike], threshold: float = 0.2) -> Spec:
    """Share of rows whose risk (one over the size of their class) is at least so much."""
    rows = []
    for name, sizes in curves.items():
        total, seen, points = max(1, sizes.total), 0, []
        for size, count in sizes.members.items():
            if size > LARGEST_SHOWN:
                break
            seen += count
            points.append((1 / size, seen / total))
        points = points if points and points[0][0] == 1 else [(1.0, 0.0), *points]
        # A step lasts from one risk down to the next: what a size adds begins at its own risk.
        for (risk, share), after in zip(points, [*points[1:], (0.001, 1.0)], strict=True):
            rows.append({"table": name, "risk": max(risk, 0.001), "share": share})
            rows.append({"table": name, "risk": max(after[0], 0.001), "share": share})
    colour = {
        "field": "table", "type": "nominal", "title": None, "sort": list(curves),
        "scale": {"domain": list(curves), "range": [WARNING, CALM]},
        "legend": {"orient": "top", "symbolType": "stroke", "symbolStrokeWidth": 3}
        if len(curves) > 1 else None,
    }  # fmt: skip
    x = {
        "field": "risk", "type": "quantitative",
        "scale": {"type": "log", "domain": [0.001, 1], "nice": False},
        "axis": {"title": "risk of being found", "grid": False, "labelFlush": False,
                 "labelExpr": "datum.value >= 0.01 ? format(datum.value, '.0%') : '0.1%'",
                 "values": [0.001, 0.01, 0.05, 0.2, 1]},
    }  # fmt: skip
    line = {
        "mark": {"type": "line", "strokeWidth": 2.5, "strokeCap": "round", "aria": False},
        "encoding": {
            "x": x,
            "y": share_axis(
                "share", f"{_counted_in(curves)} with at least this risk", scale={"domain": [0, 1]}
            ),
            "color": colour,
            "order": {"field": "position", "type": "quantitative"},
        },
    }
    rows = [{**row, "position": at} for at, row in enumerate(rows)]
    rule = {
        "data": {"values": [{"risk": threshold}]},
        "mark": {"type": "rule", "strokeDash": [3, 3], "color": INK, "opacity": 0.6},
        "encoding": {"x": {"field": "risk", "type": "quantitative"}},
    }
    return chart(title, {"data": {"values": rows}, "layer": [rule, line]})


MOST_WRITTEN = 10
"""Columns whose pairs have their figure written into the map."""


def pair_strength(title: str, pairs: Mapping[tuple[str, str], float], who: str = "rows") -> Spec:
    """Rows alone by every pair of columns, as a heat map; the diagonal is a column by itself."""
    rows = []
    for (one, other), share in pairs.items():
        said = percent(share) if share >= 0.0005 else "·"
        rows.append({"one": one, "other": other, "alone": share, "said": said})
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    most = max(pairs.values(), default=0.0) or 1.0
    x = name_axis("one", names, labelAngle=-40)
    y = name_axis("other", names)
    legend = {"title": f"{who} alone", "orient": "top", "format": ".0%" if most >= 0.05 else ".1%",
              "values": [0, most / 2, most], "symbolType": "square", "symbolFillColor": ACCENT,
              "symbolStrokeWidth": 0, "symbolSize": 220}  # fmt: skip
    colour = {"field": "alone", "type": "quantitative", "legend": legend,
              "scale": {"domain": [0, most], "range": [0.05, 0.6]}}  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "rect", "color": ACCENT}, "encoding": {"x": x, "y": y, "opacity": colour}}
    ]
    side = max(140, min(54 * len(names), WIDTH - 60))
    if len(names) <= MOST_WRITTEN:
        layers.append(
            {"mark": {"type": "text", "fontSize": 11, "aria": False},
             "encoding": {"x": x, "y": y, "text": {"field": "said"}}}
        )  # fmt: skip
    body = {"data": {"values": rows}, "layer": layers}
    if len(names) > 6:
        body["usermeta"] = {"narrow": {"layers": 1}}  # the figures would run into each other
    return chart(title, body, height={"step": 30} if side > 200 else side, width=side)


FATES = {"as it was": CALM, "blurred": ACCENT, "starred": WARNING, "left out": QUIET}


def column_fates(title: str, fates: Mapping[str, Mapping[str, float]]) -> Spec:
    """What happened to the cells of each column: as shares of its rows, stacked."""
    rows = [
        {"column": name, "cells": fate, "share": share, "at": at}
        for name, found in fates.items()
        for at, (fate, share) in enumerate(found.items())
        if share > 0
    ]
    used = [fate for fate in FATES if any(row["cells"] == fate for row in rows)]
    encoding = {
        "y": name_axis("column", list(fates)),
        "x": share_axis("share", "share of rows", scale={"domain": [0, 1]}, stack="zero"),
        "color": {"field": "cells", "type": "nominal", "title": None,
                  "scale": {"domain": used, "range": [FATES[fate] for fate in used]},
                  "legend": {"orient": "top"}},
        "order": {"field": "at", "type": "quantitative"},
    }  # fmt: skip
    mark = {"type": "bar", "height": {"band": 0.68}}
    layers = {"data": {"values": rows}, "mark": mark, "encoding": encoding}
    return chart(title, layers, height={"step": 28})


def distribution(title: str, values: Sequence[tuple[str, float, float]]) -> Spec:
    """Shares of each value before and after, as two bars."""
    rows = [
        {"value": value, "table": when, "share": share}
        for value, before, after in values
        for when, share in (("before", before), ("after", after))
    ]
    encoding = {
        "y": name_axis("value", [value for value, _, _ in values]),
        "yOffset": {"field": "table", "sort": ["before", "after"]},
        "x": share_axis("share", "share of rows"),
        "color": {"field": "table", "type": "nominal", "title": None, "sort": None,
                  "scale": {"domain": ["before", "after"], "range": [QUIET, ACCENT]},
                  "legend": {"orient": "top"}},
    }  # fmt: skip
    layers = {"data": {"values": rows}, "mark": {"type": "bar"}, "encoding": encoding}
    return chart(title, layers, height={"step": 26, "for": "position"})


HUGE = 1e12
"""From here on ticks are written with an exponent."""


def _whole_ticks(bins: Sequence[tuple[float, ...]]) -> Spec:
    """Ticks of whole numbers: never between two of them, and years and codes without commas.

    Numbers of more digits than a reader counts are written short, as 2e+29.
    """
    if max(abs(edge) for low, high, *_ in bins for edge in (low, high)) >= HUGE:
        return {"format": ".3~g", "labelOverlap": True}
    if any(not edge.is_integer() for low, high, *_ in bins for edge in (low, high)):
        return {}
    long = max(abs(edge) for low, high, *_ in bins for edge in (low, high)) >= 10_000
    return {"tickMinStep": 1, "format": ",d" if long else "d"}


MOST_CODES = 12
"""Bars that each stand for one whole number and have it below them."""


def histogram(
    title: str,
    bins: Sequence[tuple[float, float, float, float]],
    column: str,
    *,
    whole: bool = False,
) -> Spec:
    """Shares of rows in each range of a number: before as bars, after as a line of steps.

    A range of `whole` numbers that holds one only has it at its middle.
    """
    first = sum(before for _, _, before, _ in bins) or 1.0
    then = sum(after for _, _, _, after in bins) or 1.0
    rows = [
        {"from": low, "to": high, "share": before / first, "table": "before"}
        for low, high, before, _ in bins
    ]
    steps = [
        {"at": edge, "share": after / then, "position": 2 * at + side, "table": "after"}
        for at, (low, high, _, after) in enumerate(bins)
        for side, edge in enumerate((low, high))
    ]
    axis = {"title": column, "grid": False, "tickCount": 6, **_whole_ticks(bins)}
    if whole and len(bins) <= MOST_CODES and all(high - low == 1 for low, high, *_ in bins):
        middles = [low + 0.5 for low, *_ in bins]
        axis |= {"values": middles, "labelExpr": "format(datum.value - 0.5, 'd')", "ticks": False}
    x = {"type": "quantitative", "scale": {"zero": False, "nice": False}, "axis": axis}
    colour = {
        "field": "table", "type": "nominal", "title": None, "legend": {"orient": "top"},
        "scale": {"domain": ["before", "after"], "range": [QUIET, ACCENT]},
    }  # fmt: skip
    y = share_axis("share", "share of rows")
    layers = [
        {"data": {"values": rows},
         "mark": {"type": "rect", "opacity": 0.7},
         "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": y,
                      "y2": {"datum": 0}, "color": colour}},
        {"data": {"values": steps},
         "mark": {"type": "line", "strokeWidth": 2.5, "aria": False},
         "encoding": {"x": {**x, "field": "at"}, "order": {"field": "position"}, "y": y,
                      "color": colour}},
    ]  # fmt: skip
    return chart(title, {"layer": layers}, height=180)


def intervals(
    title: str,
    found: Sequence[tuple[str, float, float | None, float | None]],
    *,
    what: str,
    domain: tuple[float, float] | None = None,
) -> Spec:
    """Estimates as points, with the range they lie in where it is known."""
    rows = [
        {"name": n, "estimate": value, "low": low, "high": high, "said": percent(value)}
        for n, value, low, high in found
    ]
    y = name_axis("name", [name for name, _, _, _ in found])
    scale = {"zero": domain is None} if domain is None else {"domain": list(domain)}
    x = share_axis("estimate", what, scale=scale)
    x["axis"]["format"] = ".6~p"
    ranges = [row for row in rows if row["low"] is not None]
    layers = [
        {"data": {"values": ranges},
         "mark": {"type": "rule", "strokeWidth": 4, "color": ACCENT, "opacity": 0.4},
         "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}},
        {"data": {"values": rows},
         "mark": {"type": "point", "filled": True, "size": 110, "color": ACCENT, "opacity": 1},
         "encoding": {"x": x, "y": y}},
        {"data": {"values": rows},
         "mark": {"type": "text", "dy": -13, "aria": False},
         "encoding": {"x": x, "y": y, "text": {"field": "said"}}},
    ]  # fmt: skip
    return chart(title, {"layer": layers}, height={"step": 46})


def trade(
    title: str, points: Sequence[tuple[float, int, int]], *, x: str, y: str, chosen: int | None
) -> Spec:
    """What is kept, people alike and number of groups, as points on a line; one of them chosen."""
    rows = [
        {"kept": kept, "alike": alike, "groups": groups, "position": at, "chosen": at == chosen}
        for at, (kept, alike, groups) in enumerate(points)
    ]
    ax = share_axis("kept", x, scale={"domain": [0, 1]})
    highest = max((alike for _, alike, _ in points), default=1)
    ay = {
        "field": "alike", "type": "quantitative", "scale": {"type": "log"},
        "axis": {"title": y, "format": "~s",
                 "values": [10**power for power in range(len(str(highest)) + 1)]},
    }  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": ACCENT, "strokeWidth": 2, "aria": False},
         "encoding": {"x": ax, "y": ay, "order": {"field": "position", "type": "quantitative"}}},
        {"mark": {"type": "point", "filled": True, "opacity": 1},
         "encoding": {
             "x": ax, "y": ay, "detail": {"field": "groups"},
             "size": {"condition": {"test": "datum.chosen", "value": 190}, "value": 60},
             "color": {"condition": {"test": "datum.chosen", "value": WARNING}, "value": ACCENT},
         }},
    ]  # fmt: skip
    return chart(title, {"data": {"values": rows}, "layer": layers}, height=260)


Points = Sequence[tuple[float, float]]


def survival(title: str, curves: Mapping[str, Points], *, time: str) -> Spec:
    """Share of people who live on, by time, for up to three kinds of people."""
    rows = [
        {"who": who, "time": at, "alive": share}
        for who, points in curves.items()
        for at, share in points
    ]
    names = list(curves)
    colours = {1: [ACCENT], 2: [CALM, WARNING], 3: [CALM, ACCENT, WARNING]}[len(names)]
    encoding = {
        "x": _time(time),
        "y": share_axis("alive", "live on", scale={"domain": [0, 1]}),
        "color": {"field": "who", "type": "nominal", "title": None, "sort": names,
                  "scale": {"domain": names, "range": colours},
                  "legend": {"orient": "top", "symbolType": "stroke", "symbolStrokeWidth": 3,
                             "columns": 1}},
    }  # fmt: skip
    mark = {"type": "line", "strokeWidth": 2.5, "aria": False}
    return chart(title, {"data": {"values": rows}, "layer": [{"mark": mark, "encoding": encoding}]})


def hazard(title: str, points: Points, *, time: str) -> Spec:
    """Cumulative hazard by time."""
    rows = [{"time": at, "hazard": value} for at, value in points]
    y = {"field": "hazard", "type": "quantitative",
         "axis": {"title": "cumulative hazard", "format": ".3~g", "tickCount": 4}}  # fmt: skip
    mark = {"type": "line", "strokeWidth": 2.5, "color": ACCENT, "aria": False}
    layer = {"mark": mark, "encoding": {"x": _time(time), "y": y}}
    return chart(title, {"data": {"values": rows}, "layer": [layer]}, height=160)


def _time(title: str) -> Spec:
    return {"field": "time", "type": "quantitative", "scale": {"nice": False},
            "axis": {"title": title, "grid": False, "tickCount": 6, "format": ",.6~r"}}  # fmt: skip


def ratios(title: str, found: Mapping[str, float], *, what: str, factor: bool) -> Spec:
    """What each name multiplies something by (`factor`), or adds to it: bars from nothing."""
    nothing = 1.0 if factor else 0.0
    rows = [
        {"name": name, "value": value, "nothing": nothing,
         "said": f"x {value:.3g}" if factor else f"{value:+.3g}"}
        for name, value in found.items()
    ]  # fmt: skip
    y = name_axis("name", list(found))
    most = max(found.values(), default=nothing)
    scale = {"type": "log", "domain": [1, max(1.2, most**1.15)]} if factor else {}
    x = {"field": "value", "type": "quantitative", "scale": {**scale, "nice": False},
         "axis": {"title": what, "format": "~g", "tickCount": 5}}  # fmt: skip
    layers = [
        {"mark": {"type": "bar", "color": ACCENT, "height": {"band": 0.68}},
         "encoding": {"x": x, "x2": {"field": "nothing"}, "y": y}},
        {"mark": {"type": "text", "align": "left", "dx": 5, "aria": False},
         "encoding": {"x": x, "y": y, "text": {"field": "said"}}},
    ]  # fmt: skip
    return chart(title, {"data": {"values": rows}, "layer": layers}, height={"step": 28})


def fractions(title: str, points: Points, here: tuple[float, float] | None) -> Spec:
    """Share of people who are unique, by the fraction of them that the sample is."""
    rows = [
        {"fraction": f, "unique": share, "position": at} for at, (f, share) in enumerate(points)
    ]
    least = min((f for f, _ in points), default=0.1)
    x = {"field": "fraction", "type": "quantitative",
         "scale": {"type": "log", "domain": [least, 1], "nice": False},
         "axis": {"title": "sampling fraction", "grid": False, "format": ".2~p",
                  "tickCount": 5, "labelOverlap": True}}  # fmt: skip
    y = share_axis("unique", "people unique", scale={"zero": True})
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": ACCENT, "strokeWidth": 2.5, "aria": False},
         "encoding": {"x": x, "y": y, "order": {"field": "position", "type": "quantitative"}}},
        {"mark": {"type": "point", "filled": True, "size": 60, "color": ACCENT, "opacity": 1},
         "encoding": {"x": x, "y": y}},
    ]  # fmt: skip
    if here is not None:
        at = {"values": [{"fraction": here[0], "unique": here[1], "said": "this table"}]}
        layers += [
            {"data": at,
             "mark": {"type": "point", "filled": True, "size": 190, "color": WARNING,
                      "opacity": 1},
             "encoding": {"x": x, "y": y}},
            {"data": at,
             "mark": {"type": "text", "align": "left", "dx": 4, "dy": -18, "color": INK,
                      "aria": False},
             "encoding": {"x": x, "y": y, "text": {"field": "said"}}},
        ]  # fmt: skip
    return chart(title, {"data": {"values": rows}, "layer": layers})
