"""Arrows between columns, as arcs beside the list of their names."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = ["arcs_svg"]

_STEP = 30
_LETTER = 8
"""Height of a line, and about the width of a letter."""


def arcs_svg(names: Sequence[str], arrows: Sequence[tuple[str, str]], title: str) -> str:
    """Names from top to bottom, an arc from the first to the second name of each pair.

    Examples
    --------
    >>> arcs_svg(["rain", "wet"], [("rain", "wet")], "Net").count('class="arc"')
    1
    """
    place = {name: 22 + _STEP * at for at, name in enumerate(names)}
    left = 12 + _LETTER * max(len(_short(name)) for name in names)
    furthest = max((abs(place[a] - place[b]) for a, b in arrows), default=0)
    width, height = left + 40 + furthest / 2 + 20, 22 + _STEP * len(names)
    parts = []
    for start, end in arrows:
        y, v = place[start], place[end]
        reach = left + 14 + abs(v - y) * 0.62
        said = html.escape(f"{end} depends on {start}")
        parts.append(
            f'<g><title>{said}</title><path class="arc" d="M{left + 14} {y}C{reach:.0f} {y} '
            f'{reach:.0f} {v} {left + 22} {v}"/>'
            f'<path class="head" d="M{left + 13} {v}l9 -5v10z"/></g>'
        )
    for name, y in place.items():
        parts.append(
            f'<circle cx="{left + 8}" cy="{y}" r="4"/>'
            f'<text x="{left - 4}" y="{y + 4}" text-anchor="end">{html.escape(_short(name))}</text>'
        )
    said = html.escape(title)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said}">'
        f'<svg class="flow" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img" '
        f'aria-label="{said}"><title>{said}</title>{"".join(parts)}</svg></div>'
    )


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
