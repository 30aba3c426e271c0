"""From a specification to a picture inside the page."""

from __future__ import annotations

import html
import re
from typing import Any

from sfumato.errors import MissingExtraError
from sfumato.report.charts import GRID, INK

__all__ = ["draw", "gauge"]


def draw(spec: dict[str, Any], number: int) -> str:
    """The chart as SVG text that carries its own description and the page's colours.

    Parameters
    ----------
    spec
        A Vega-Lite specification.
    number
        Makes names inside the picture unique on the page.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("report", "drawing charts") from error
    svg = str(vl_convert.vegalite_to_svg(spec))
    width, height = _size(svg)
    title = html.escape(str(spec.get("description", "")))
    svg = re.sub(r"<svg [^>]*>", "", svg, count=1)
    svg = re.sub(r'\b(id=")(\w)', rf"\g<1>c{number}-\2", svg)
    svg = re.sub(r"url\(#(\w)", rf"url(#c{number}-\1", svg)
    svg = re.sub(r' aria-[a-z]+="[^"]*"| role="[^"]*"', "", svg)
    svg = svg.replace(INK, "currentColor").replace(GRID, "currentColor")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'role="img" aria-labelledby="c{number}-title" style="max-width:{width}px">'
        f'<title id="c{number}-title">{title}</title>{svg}'
    )


def _size(svg: str) -> tuple[str, str]:
    found = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
    if found is None:
        raise ValueError("a drawn chart has no size")
    return found[1], found[2]


def gauge(label: str, value: float | None, after: float | None = None) -> str:
    """A half circle that fills with a risk from 0 to 1; a thin mark shows the risk afterwards."""
    shown = 0.0 if value is None else min(1.0, max(0.0, value))
    text = "–" if value is None else f"{value:.1%}"
    colour = "var(--bad)" if shown > 0.2 else "var(--good)"
    length = 157.08  # of a half circle of radius 50
    parts = [
        '<path d="M10 60 A50 50 0 0 1 110 60" class="track"/>',
        f'<path d="M10 60 A50 50 0 0 1 110 60" style="stroke:{colour};'
        f'stroke-dasharray:{shown * length:.1f} 400"/>',
    ]
    spoken = f"{label}: {text}"
    if after is not None:
        angle = 180 - 180 * min(1.0, max(0.0, after))
        parts.append(
            f'<line x1="60" y1="60" x2="112" y2="60" class="after" '
            f'transform="rotate({-angle:.1f} 60 60)"/>'
        )
        text = f"{text} → {after:.1%}"
        spoken = f"{label}: {text} after the release"
    return (
        f'<svg class="gauge" viewBox="0 0 120 84" role="img"><title>{html.escape(spoken)}</title>'
        f'{"".join(parts)}<text x="60" y="56" text-anchor="middle">{text}</text>'
        f'<text x="60" y="80" text-anchor="middle" class="label">{html.escape(label)}</text></svg>'
    )
