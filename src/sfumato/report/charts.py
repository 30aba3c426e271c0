"""Charts as Vega-Lite specifications: plain dictionaries made of results, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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

LEAST_SHOWN = 0.01
"""The share that the longest bar stands for at least, if it fills the picture."""
BOTH = {"before": QUIET, "after": ACCENT}
"""Colours of a table and its release."""


def _layer(mark: str, encoding: Spec, rows: Sequence[Spec] | None = None, **style: Any) -> Spec:
    """Marks of one kind, and what they stand for; with rows that are theirs alone, if any."""
    layer = {"mark": {"type": mark, **style}, "encoding": encoding}
    return layer if rows is None else {"data": {"values": list(rows)}, **layer}


def _texts(encoding: Spec, rows: Sequence[Spec] | None = None, **style: Any) -> Spec:
    """What each row says, written beside its mark."""
    return _layer("text", {**encoding, "text": {"field": "said"}}, rows, **style, aria=False)


def _line(encoding: Spec, rows: Sequence[Spec] | None = None, **style: Any) -> Spec:
    return _layer("line", encoding, rows, **{"strokeWidth": 2.5, **style}, aria=False)


def _colours(field: str, colours: Mapping[str, str], **legend: Any) -> Spec:
    """A colour for each name, explained above the picture."""
    return {"field": field, "type": "nominal", "title": None,
            "scale": {"domain": list(colours), "range": list(colours.values())},
            "legend": {"orient": "top", **legend}}  # fmt: skip


def _number_axis(field: str, title: str, scale: Spec | None = None, **axis: Any) -> Spec:
    return {"field": field, "type": "quantitative", "axis": {"title": title, **axis},
            **({} if scale is None else {"scale": scale})}  # fmt: skip


_ALONG: Spec = {"field": "position", "type": "quantitative"}
"""The order in which a line joins its points."""
_DOTTED: Spec = {"strokeDash": [3, 3], "color": INK, "opacity": 0.6}
_STROKES: Spec = {"symbolType": "stroke", "symbolStrokeWidth": 3}
"""Lines in place of squares, in a legend."""


def _bars(title: str, rows: list[Spec], what: str) -> Spec:
    """Horizontal bars with their figure at the end: rows of `name`, `share`, `said`."""
    order = [row["name"] for row in rows]
    most = max((row["share"] for row in rows), default=0.0)
    # Room for the figure behind the longest bar; next to nothing must not fill the picture.
    end = max(most, LEAST_SHOWN) * 1.15 if most else 1.15
    x = share_axis("share", what, scale={"domain": [0, end], "nice": False})
    y = name_axis("name", order)
    return _named_bars(title, rows, {"x": x, "y": y}, {})


def _named_bars(title: str, rows: list[Spec], encoding: Spec, start: Spec) -> Spec:
    """Bars with a figure behind each; `start` says where they begin, if that is not at 0."""
    layers = [
        _layer("bar", {**encoding, **start}, color=ACCENT, height={"band": 0.68}),
        _texts(encoding, align="left", dx=5),
    ]
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
        "color": _colours("class", dict(zip(colours, (WARNING, ACCENT), strict=True))),
    }  # fmt: skip
    if len(curves) > 1:
        encoding["xOffset"] = {"field": "table", "sort": list(curves)}
        encoding["opacity"] = {
            "field": "table", "type": "nominal", "title": None, "sort": list(curves),
            "legend": {"orient": "bottom", "symbolType": "square", "symbolFillColor": INK},
            "scale": {"domain": list(curves), "range": [0.45, 1]},
        }  # fmt: skip
    bars = {"data": {"values": rows}, "mark": "bar", "encoding": encoding}
    edge = [{"alike": first, "said": f"k = {k:,}"}]
    at = {"x": {**encoding["x"], "bandPosition": 0}}
    line = _layer("rule", at, edge, **_DOTTED)
    text = _texts(at, rows=edge, align="right", dx=-5, y=8)
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
    colour = _colours("table", dict(zip(curves, (WARNING, CALM), strict=False)), **_STROKES)
    colour |= {"sort": list(curves)} | ({} if len(curves) > 1 else {"legend": None})
    x = _number_axis(
        "risk", "risk of being found", {"type": "log", "domain": [0.001, 1], "nice": False},
        grid=False, labelFlush=False, values=[0.001, 0.01, 0.05, 0.2, 1],
        labelExpr="datum.value >= 0.01 ? format(datum.value, '.0%') : '0.1%'",
    )  # fmt: skip
    many = f"{_counted_in(curves)} with at least this risk"
    y = share_axis("share", many, scale={"domain": [0, 1]})
    line = _line({"x": x, "y": y, "color": colour, "order": _ALONG}, strokeCap="round")
    rows = [{**row, "position": at} for at, row in enumerate(rows)]
    at = {"x": {"field": "risk", "type": "quantitative"}}
    rule = _layer("rule", at, [{"risk": threshold}], **_DOTTED)
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
    layers = [_layer("rect", {"x": x, "y": y, "opacity": colour}, color=ACCENT)]
    side = max(140, min(54 * len(names), WIDTH - 60))
    if len(names) <= MOST_WRITTEN:
        layers.append(_texts({"x": x, "y": y}, fontSize=11))
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
        "color": _colours("cells", {fate: FATES[fate] for fate in used}),
        "order": {"field": "at", "type": "quantitative"},
    }
    return chart(title, _layer("bar", encoding, rows, height={"band": 0.68}), height={"step": 28})


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
        "color": {**_colours("table", BOTH), "sort": None},
    }
    return chart(title, _layer("bar", encoding, rows), height={"step": 26, "for": "position"})


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
    seen = {"y": share_axis("share", "share of rows"), "color": _colours("table", BOTH)}
    held = {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y2": {"datum": 0}, **seen}
    after = {"x": {**x, "field": "at"}, "order": {"field": "position"}, **seen}
    layers = [_layer("rect", held, rows, opacity=0.7), _line(after, steps)]
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
    reach = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}
    at = {"x": x, "y": y}
    layers = [
        _layer("rule", reach, ranges, strokeWidth=4, color=ACCENT, opacity=0.4),
        _layer("point", at, rows, filled=True, size=110, color=ACCENT, opacity=1),
        _texts(at, rows=rows, dy=-13),
    ]
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
    powers = [10**power for power in range(len(str(highest)) + 1)]
    ay = _number_axis("alike", y, {"type": "log"}, format="~s", values=powers)
    points_at = {
        "x": ax, "y": ay, "detail": {"field": "groups"},
        "size": {"condition": {"test": "datum.chosen", "value": 190}, "value": 60},
        "color": {"condition": {"test": "datum.chosen", "value": WARNING}, "value": ACCENT},
    }  # fmt: skip
    layers = [
        _line({"x": ax, "y": ay, "order": _ALONG}, color=ACCENT, strokeWidth=2),
        _layer("point", points_at, filled=True, opacity=1),
    ]
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
    shown = _colours("who", dict(zip(names, colours, strict=True)), **_STROKES, columns=1)
    encoding = {
        "x": _time(time),
        "y": share_axis("alive", "live on", scale={"domain": [0, 1]}),
        "color": {**shown, "sort": names},
    }
    return chart(title, {"data": {"values": rows}, "layer": [_line(encoding)]})


def hazard(title: str, points: Points, *, time: str) -> Spec:
    """Cumulative hazard by time."""
    rows = [{"time": at, "hazard": value} for at, value in points]
    y = _number_axis("hazard", "cumulative hazard", format=".3~g", tickCount=4)
    layer = _line({"x": _time(time), "y": y}, color=ACCENT)
    return chart(title, {"data": {"values": rows}, "layer": [layer]}, height=160)


def _time(title: str) -> Spec:
    return _number_axis("time", title, {"nice": False}, grid=False, tickCount=6, format=",.6~r")


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
    x = _number_axis("value", what, {**scale, "nice": False}, format="~g", tickCount=5)
    return _named_bars(title, rows, {"x": x, "y": y}, {"x2": {"field": "nothing"}})


def fractions(title: str, points: Points, here: tuple[float, float] | None) -> Spec:
    """Share of people who are unique, by the fraction of them that the sample is."""
    rows = [
        {"fraction": f, "unique": share, "position": at} for at, (f, share) in enumerate(points)
    ]
    least = min((f for f, _ in points), default=0.1)
    scale = {"type": "log", "domain": [least, 1], "nice": False}
    x = _number_axis("fraction", "sampling fraction", scale,
                     grid=False, format=".2~p", tickCount=5, labelOverlap=True)  # fmt: skip
    at = {"x": x, "y": share_axis("unique", "people unique", scale={"zero": True})}
    layers = [
        _line({**at, "order": _ALONG}, color=ACCENT),
        _layer("point", at, filled=True, size=60, color=ACCENT, opacity=1),
    ]
    if here is not None:
        this = [{"fraction": here[0], "unique": here[1], "said": "this table"}]
        layers += [
            _layer("point", at, this, filled=True, size=190, color=WARNING, opacity=1),
            _texts(at, rows=this, align="left", dx=4, dy=-18, color=INK),
        ]
    return chart(title, {"data": {"values": rows}, "layer": layers})
