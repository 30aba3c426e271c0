"""Charts as Vega-Lite specifications: common parts, drawn to SVG or kept alive in the page.

Colours are those of Okabe & Ito, which people of any colour vision tell apart. When a chart is
drawn they become the page's own, which are lighter in the dark.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import html
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from sfumato.errors import MissingExtraError
from sfumato.wording import at_most, percent

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


SHARES = ".3~p"
"""How ticks of shares are written."""


def share_axis(field: str, title: str | None, **more: Any) -> Spec:
    """An axis of shares."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": {
            "format": SHARES,
            "tickCount": 5,
            "title": title,
            "labelSeparation": 8,
            "labelOverlap": True,
        },
        **more,
    }


def name_axis(field: str, order: Sequence[str], **more: Any) -> Spec:
    """An axis of names in the order given; of long ones the middle is left out."""
    return {
        "field": field,
        "type": "nominal",
        "sort": list(order),
        "title": None,
        "axis": {"grid": False, "labelExpr": _elided(22), **more},
    }


def _elided(ends: int) -> str:
    """A name, but for the middle of one that is too long: names often differ in their ends."""
    return (
        f"length(datum.label) > {2 * ends + 1} ? slice(datum.label, 0, {ends}) + '…' + "
        f"slice(datum.label, length(datum.label) - {ends}) : datum.label"
    )


CHANNELS = ("y", "x", "x2", "text", "color", "opacity", "detail")
"""What a tooltip tells, in this order."""


UNSPOKEN = frozenset({"said", "nothing"})
"""Fields that say what another one does, or where bars begin."""


AS_SAID = " as said"


def tooltip_of(encoding: Spec, rows: Sequence[Spec] = ()) -> list[Spec]:
    """What a mark says where the pointer rests: its fields, called and written as on the axes.

    Shares among `rows`, the data of the mark, are written as pages say them: next to each of
    them, under its name and `AS_SAID`.
    """
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
            held = [row[name] for row in rows if row.get(name) is not None]
            whole = bool(held) and all(isinstance(value, int) for value in held)
            written = axis.get("format", ",d" if whole else ",.4~r")
            entry |= {"type": "quantitative", "format": written}
        if entry.get("format") == SHARES:
            said = {"field": f"{name}{AS_SAID}", "title": title}
            for row in (row for row in rows if row.get(name) is not None):
                row[said["field"]], entry = percent(row[name]), said
        entries[name] = entry
    return list(entries.values())


NARROW = 300
"""Width of the plot on a telephone, where the labels need the rest."""

_MARK = re.compile(
    r'<(path|line) aria-label="([^"]*)" role="graphics-symbol"[^>]*? ((?:d|transform)=[^>]*?)/>'
)
"""A mark with what it stands for."""


_PLACES = re.compile(r' (?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
"""Attributes that say where something is: a tenth of a pixel is fine enough."""


def draw(spec: dict[str, Any], number: int) -> str:
    """The chart as SVG text, once for wide screens and once for narrow ones.

    The style sheet shows one of the two. Both carry their description, name each mark when the
    pointer rests on it, and take the page's colours, so that they follow it into the dark.

    Parameters
    ----------
    spec
        A Vega-Lite specification.
    number
        Makes names inside the picture unique on the page.
    """
    return _both(json.dumps(spec, sort_keys=True), number)


@lru_cache(maxsize=256)
def _both(wide: str, number: int) -> str:
    """The chart for both screens; one that was drawn lately is not drawn again."""
    narrow = json.dumps(narrowed(json.loads(wide)), sort_keys=True)
    return _drawn(wide, f"c{number}", "wide") + _drawn(narrow, f"n{number}", "narrow")


def picture(spec: dict[str, Any], name: str) -> str:
    """The chart as an SVG file of its own, for pages that are not ours to style.

    Parameters
    ----------
    spec
        A Vega-Lite specification.
    name
        Makes names inside the picture unique where several are put into one page.
    """
    drawn = _drawn(json.dumps(spec, sort_keys=True), name, "wide") + "\n"
    # nobody's style sheet reaches into a picture
    return drawn.replace('class="wide"', 'font-family="Helvetica, Arial, sans-serif"', 1)


def narrowed(spec: dict[str, Any]) -> dict[str, Any]:
    """The same chart for a narrow screen.

    A chart may say in its ``usermeta`` what else becomes different there: names of several parts
    stand one below the other (`lines`), layers that need room are left out (`layers`).
    """
    small = copy.deepcopy(spec)
    small["width"] = min(spec["width"], NARROW)
    small["config"]["axis"]["labelLimit"] = 130
    if not isinstance(spec["height"], dict):
        small["height"] = min(spec["height"], NARROW)
    for part in (small, *small.get("layer", ())):
        axis = part.get("encoding", {}).get("y", {}).get("axis") or {}
        if axis.get("labelExpr") == _elided(22):
            axis["labelExpr"] = _elided(9)
    wishes = spec.get("usermeta", {}).get("narrow", {})
    if "layers" in wishes:
        small["layer"] = small["layer"][: wishes["layers"]]
    if "lines" in wishes:
        small["height"] = {"step": 12 + 16 * wishes["lines"]}
        parts = "split(datum.label, ' + ')"
        raised = [
            {"test": f"length({parts}) === {lines}", "value": -7.5 * (lines - 1)}
            for lines in range(2, wishes["lines"] + 1)
        ]
        for layer in small["layer"]:
            axis = layer["encoding"]["y"]["axis"]
            axis |= {"labelExpr": parts, "labelOffset": {"condition": raised, "value": 0}}
    return small


def _svg(spec: Spec) -> str:
    """The chart as it comes; no other thread runs meanwhile."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("report", "drawing charts") from error
    return str(vl_convert.vegalite_to_svg(spec))


_DRAWS = """
import json, sys, vl_convert
for line in sys.stdin:
    print(json.dumps(vl_convert.vegalite_to_svg(json.loads(line))), flush=True)
"""


class _Draws:
    """A process that draws charts, one after the other; it is started for the first."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def draw(self, spec: Spec) -> str | None:
        """The chart; None where it could not be drawn, and is to be drawn here."""
        with self._turn, suppress(OSError, ValueError):
            process = self._process = self._process or subprocess.Popen(
                [sys.executable, "-c", _DRAWS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                start_new_session=True,  # whoever interrupts the program does not interrupt it
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(spec) + "\n")
            process.stdin.flush()
            return str(json.loads(process.stdout.readline()))
        return None

    def close(self) -> None:
        """End it, once it has drawn what it was given."""
        with self._turn:
            if self._process is not None:
                with self._process as process:  # its pipes are closed, and its end awaited
                    process.kill()


_apart: list[_Draws] = []
"""The process that draws, if there is one."""


@contextmanager
def in_own_process() -> Iterator[None]:
    """Let charts be drawn by a process of their own, so that other threads go on meanwhile."""
    draws = _Draws()
    _apart.append(draws)
    try:
        yield
    finally:
        _apart.remove(draws)
        draws.close()


def _drawn(text: str, name: str, style: str) -> str:
    """The chart of a specification."""
    spec: dict[str, Any] = json.loads(text)
    described = _described(spec)
    svg = next(filter(None, (one.draw(described) for one in _apart)), None) or _svg(described)
    found = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
    assert found is not None, "vl-convert states the size of what it draws"
    width, height = found[1], found[2]
    title = html.escape(str(spec.get("description", "")))
    svg = re.sub(r"<svg [^>]*>", "", svg, count=1)
    svg = re.sub(r'<path class="(back|fore)ground"[^>]*/>', "", svg)
    svg = _MARK.sub(r"<\1 \3><title>\2</title></\1>", svg)
    svg = re.sub(r' (aria-[a-z]+|role|font-family|pointer-events|opacity)="[^"]*"', _kept, svg)
    svg = _PLACES.sub(lambda place: re.sub(r"(\d\.\d)\d{2,}", r"\1", place[0]), svg)
    svg = re.sub(r'(opacity="\d\.\d\d)\d+', r"\1", svg)
    svg = re.sub(r'\b(id=")(\w)', rf"\g<1>{name}-\2", svg)
    svg = re.sub(r"url\(#(\w)", rf"url(#{name}-\1", svg)
    svg = svg.replace(INK, "currentColor").replace(GRID, "currentColor")
    for colour, variable in COLOURS.items():
        svg = svg.replace(f'"{colour}"', f'"var(--{variable},{colour})"')
    return (
        f'<svg class="{style}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="{name}-title">'
        f'<title id="{name}-title">{title}</title>{svg}'
    )


def _described(spec: dict[str, Any]) -> dict[str, Any]:
    """The chart whose marks say the same as they do where charts are alive."""
    told_spec = copy.deepcopy(spec)
    for layer in told_spec.get("layer", [told_spec]):
        encoding = layer["encoding"]
        parts = [
            json.dumps(f"{entry['title']}: ") + " + " + _written(entry)
            for entry in tooltip_of(encoding, _rows(layer, told_spec))
        ]
        if parts:
            encoding["description"] = {"value": {"expr": " + '; ' + ".join(parts)}}
    return told_spec


def _rows(layer: Spec, whole: Spec) -> list[Spec]:
    """The data of a layer: its own, or those of the whole chart."""
    data: Spec = layer.get("data") or whole.get("data") or {}
    return list(data.get("values", ()))


def _written(entry: dict[str, Any]) -> str:
    value = f"datum[{json.dumps(entry['field'])}]"
    return f"format({value}, {json.dumps(entry['format'])})" if "format" in entry else value


def _kept(attribute: re.Match[str]) -> str:
    """Opacity stays unless it is the default; the rest is said better by the whole picture."""
    text = attribute[0]
    return text if attribute[1] == "opacity" and text != ' opacity="1"' else ""


def gauge(
    label: str, value: float | None, after: float | None = None, *, highest: bool = False
) -> str:
    """A half circle that fills with a risk from 0 to 1; a second one inside is the risk afterwards.

    The `highest` of risks is rounded up, as nobody's is above it.

    Examples
    --------
    >>> "highest risk: 100% before, 20% after the release" in gauge("highest risk", 1.0, 0.2)
    True
    """
    say = at_most if highest else percent
    if after is None:
        parts = [_arc(50, 10, value)]
        text, spoken, below = say(value), f"{label}: {say(value)}", 60
    else:
        parts = [_arc(52, 6, value), _arc(41, 10, after)]
        text, below = f"{say(value)} → {say(after)}", 82
        spoken = f"{label}: {say(value)} before, {say(after)} after the release"
    # bold figures are two thirds as wide as they are high, letters half; there is room for 116
    size = 18 if after is None else min(15.0, 116 / (0.66 * len(text)))
    small = min(10.5, 116 / (0.54 * len(label)))
    return (
        f'<svg class="gauge" viewBox="0 0 120 {below + 26}" role="img" '
        f'aria-label="{html.escape(spoken)}"><title>{html.escape(spoken)}</title>{"".join(parts)}'
        f'<text x="60" y="{below}" text-anchor="middle" style="font-size:{size:.3g}px">'
        f"{html.escape(text)}</text>"
        f'<text x="60" y="{below + 20}" text-anchor="middle" class="label" '
        f'style="font-size:{small:.3g}px">'
        f"{html.escape(label)}</text></svg>"
    )


def _arc(radius: int, width: int, value: float | None) -> str:
    shown = 0.0 if value is None else min(1.0, max(0.0, value))
    path = f'd="M{60 - radius} 62 A{radius} {radius} 0 0 1 {60 + radius} 62"'
    track = f'<path {path} class="track" style="stroke-width:{width}"/>'
    if shown < 0.0005:
        return track
    tone = "bad" if shown > 0.2 + 1e-9 else "good"
    return (
        f'{track}<path {path} pathLength="100" style="stroke:var(--{tone});stroke-width:{width};'
        f'stroke-dasharray:{100 * shown:.2f} 200"/>'
    )


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
"""The page's own."""


@cache
def script() -> str:
    """Vega and the few lines that put charts in their places, as one script."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("report", "interactive charts") from error
    own = files("sfumato.report").joinpath("templates/live.js").read_text(encoding="utf-8")
    text = str(vl_convert.javascript_bundle(own))
    # Inside an HTML page these two would end the script, or begin a comment in it.
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def script_hash() -> str:
    """By which a content security policy knows the script."""
    digest = hashlib.sha256(script().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def chart_data(spec: dict[str, Any]) -> str:
    """A chart as JSON that may stand inside HTML: for wide screens, and what narrow ones change."""
    wide = _themed(_telling(spec))
    small = narrowed(wide)
    changes = {
        name: small[name] for name in ("width", "height", "config", "layer") if name in small
    }
    text = json.dumps({"wide": wide, "narrow": changes}, ensure_ascii=False, allow_nan=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _themed(spec: dict[str, Any]) -> dict[str, Any]:
    """The page's colours and letters in place of stand-ins."""
    text = json.dumps(spec).replace(INK, "currentColor").replace(GRID, "currentColor")
    for colour, variable in COLOURS.items():
        text = text.replace(f'"{colour}"', f'"var(--{variable},{colour})"')
    themed: dict[str, Any] = json.loads(text)
    del themed["$schema"]  # Vega would warn that its own version is newer
    themed["config"]["font"] = FONT
    return themed


def _telling(spec: dict[str, Any]) -> dict[str, Any]:
    """The same chart with a tooltip on each mark that says what its axes say.

    A line is one mark and would speak of its first point only: unseen points along it speak.
    """
    speaking = copy.deepcopy(spec)
    for layer in list(speaking.get("layer", [speaking])):
        spoken = layer
        if isinstance(layer["mark"], dict) and layer["mark"]["type"] == "line":
            mark = {"type": "point", "filled": True, "size": 160, "opacity": 0, "aria": False}
            encoding = {name: found for name, found in layer["encoding"].items() if name != "order"}
            spoken = {**layer, "mark": mark, "encoding": encoding}
            speaking["layer"].append(spoken)
        spoken["encoding"]["tooltip"] = tooltip_of(spoken["encoding"], _rows(layer, speaking))
    return speaking
