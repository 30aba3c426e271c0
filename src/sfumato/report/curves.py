"""Charts of models and samples: survival, what columns weigh, uniqueness by sampling fraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.report.chart_parts import (
    ACCENT,
    CALM,
    INK,
    WARNING,
    Spec,
    chart,
    name_axis,
    share_axis,
)

__all__ = ["fractions", "hazard", "ratios", "survival"]

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
