"""Results in notebooks: what they say as HTML, and their first chart as its specification.

JupyterLab shows one form of an output, and prefers HTML to Vega-Lite; so that both are seen, a
result displays two outputs there. The specification is shown as it is: front ends that know
Vega-Lite draw it themselves, others ignore it.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

from sfumato.report.chart_parts import GRID, INK
from sfumato.report.page import Figure

__all__ = ["VEGALITE", "notebook_spec", "outputs"]

VEGALITE = "application/vnd.vegalite.v5+json"
"""What JupyterLab, VS Code and others call the version our charts are written for."""


def outputs(text: str, html: str, picture: Figure | None) -> list[dict[str, Any]]:
    """What a notebook displays, each by the type of its content."""
    found: list[dict[str, Any]] = [{"text/plain": text, "text/html": html}]
    if picture is not None and picture.spec is not None:
        chart = {VEGALITE: notebook_spec(picture), "text/plain": f"[chart: {picture.title}]"}
        found.append(chart)
    return found


def notebook_spec(figure: Figure) -> dict[str, Any]:
    """The chart with its title and caption, on white, since a notebook has no colours for it."""
    text = json.dumps(figure.spec).replace(INK, "#222222").replace(GRID, "#222222")
    spec: dict[str, Any] = json.loads(text)
    title = {
        "text": figure.title,
        "subtitle": textwrap.wrap(figure.caption, 90),
        "anchor": "start",
        "offset": 14,
        "subtitlePadding": 6,
    }
    return {**spec, "background": "white", "padding": 12, "title": title}
