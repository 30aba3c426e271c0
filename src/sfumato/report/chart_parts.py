"""What all charts share: sizes, letters, colours and axes.

Colours are those of Okabe & Ito, which people of any colour vision tell apart. When a chart is
drawn they become the page's own (see `drawing`), which are lighter in the dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "ACCENT",
    "CALM",
    "COLOURS",
    "GRID",
    "INK",
    "QUIET",
    "ROWS",
    "WARNING",
    "WIDTH",
    "Spec",
    "chart",
    "name_axis",
    "share_axis",
    "told",
]

Spec = dict[str, Any]
INK, GRID = "#010203", "#040506"
"""Stand-ins for the page's text and line colours."""
ACCENT, WARNING, CALM, QUIET = "#0072B2", "#D55E00", "#009E73", "#999999"
COLOURS = {ACCENT: "accent", WARNING: "bad", CALM: "good", QUIET: "quiet"}
"""What the page calls them."""
WIDTH = 560
ROWS = {
    "title": "rows",
    "labelExpr": "datum.value % 1 ? '' : format(datum.value, '~s')",
    "tickCount": 4,
}
"""An axis that counts rows."""


def chart(title: str, layers: Spec, *, height: int | Spec = 220, width: int = WIDTH) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": title,
        "width": width,
        "height": height,
        "background": None,
        "padding": {"left": _room_for_names(layers), "right": 4, "top": 2, "bottom": 2},
        **layers,
        "config": {
            "font": "Helvetica, Arial, sans-serif",  # only measured; the page sets its own
            "view": {"stroke": None},
            "axis": {
                "labelColor": INK,
                "titleColor": INK,
                "domain": False,
                "ticks": False,
                "labelPadding": 6,
                "titlePadding": 8,
                "gridColor": GRID,
                "gridOpacity": 0.14,
                "labelFontSize": 13,
                "titleFontSize": 13,
                "titleFontWeight": "normal",
                "labelLimit": 280,
            },
            "legend": {
                "labelColor": INK,
                "titleColor": INK,
                "labelFontSize": 13,
                "titleFontSize": 13,
                "titleFontWeight": "normal",
                "symbolStrokeWidth": 0,
                "columnPadding": 24,
                "labelLimit": 280,
            },
            "text": {"color": INK, "fontSize": 13},
        },
    }


def _room_for_names(layers: Spec) -> int:
    """Room to the left of names, since the page's letters may be wider than those measured."""
    axes = [layer["encoding"].get("y", {}) for layer in layers.get("layer", [layers])]
    longest = max((len(str(name)) for axis in axes for name in axis.get("sort", ())), default=0)
    return 10 + min(longest, 40)


def share_axis(field: str, title: str | None, **more: Any) -> Spec:
    """An axis of shares."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": {
            "format": ".3~p",
            "tickCount": 5,
            "title": title,
            "labelSeparation": 8,
            "labelOverlap": True,
        },
        **more,
    }


def name_axis(field: str, order: Sequence[str], **more: Any) -> Spec:
    """An axis of names in the order given."""
    return {
        "field": field,
        "type": "nominal",
        "sort": list(order),
        "title": None,
        "axis": {"grid": False, **more},
    }


CHANNELS = ("y", "x", "x2", "text", "color", "opacity", "detail")
"""What a tooltip tells, in this order."""


UNSPOKEN = frozenset({"said", "nothing"})
"""Fields that say what another one does, or where bars begin."""


def told(encoding: Spec) -> list[Spec]:
    """What a mark says where the pointer rests: its fields, called and written as on the axes."""
    entries: dict[str, dict[str, Any]] = {}
    for channel in CHANNELS:
        found = encoding.get(channel, {})
        name = found.get("field")
        if name is None or name in entries or name in UNSPOKEN:
            continue
        along = encoding.get("x", {}) if channel == "x2" else found
        axis = along.get("axis") or {}
        title = name if channel == "x2" else axis.get("title") or name
        entry: Spec = {"field": name, "title": title}
        if along.get("type") == "quantitative":
            entry |= {"type": "quantitative", "format": axis.get("format", ",.4~g")}
        entries[name] = entry
    return list(entries.values())
