"""Charts that answer the pointer: the specifications themselves, and the script that draws them.

The script is Vega as the installed vl-convert package bundles it, inlined into the page; nothing of
it is part of Sfumato. The page's policy admits exactly this script, by its hash, and no other; Vega
reads expressions with its interpreter, so that no text is ever compiled into code. Where scripts
are off, on paper, and until the script has run, the same pictures are shown as without it.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from sfumato.errors import MissingExtraError
from sfumato.report.chart_parts import COLOURS, GRID, INK, told
from sfumato.report.drawing import narrowed

__all__ = ["chart_data", "script", "script_hash"]

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
        spoken["encoding"]["tooltip"] = told(spoken["encoding"])
    return speaking
