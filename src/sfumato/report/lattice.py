"""Pictures of column sets: the whole lattice of a few columns, a grid of dots for many.

With up to five columns all sets fit on one page: the empty set below, all columns on top, lines
between sets that differ by one column. Minimal identifying sets are filled, what lies above them
(and so identifies too) is outlined, what lies below is quiet. With more columns each identifying
set is a column of dots beside the names of the columns, strongest first.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import combinations

__all__ = ["MOST_IN_LATTICE", "MOST_SETS", "lattice_svg", "sets_svg"]

MOST_IN_LATTICE = 5
"""Columns whose sets are all drawn."""
MOST_SETS = 30
"""Sets drawn as dots, and MOST_COLUMNS rows of them."""
MOST_COLUMNS = 60
_LETTER = 8
"""About the width of a letter."""

Sets = Sequence[Sequence[str]]


def lattice_svg(columns: Sequence[str], minimal: Sets, title: str) -> str:
    """All sets of the columns, the minimal ones standing out.

    Examples
    --------
    >>> picture = lattice_svg(["age", "sex"], [["age"]], "Keys")
    >>> picture.count("<circle"), picture.count('class="found"'), picture.count('class="above"')
    (4, 1, 1)
    """
    found = {frozenset(names) for names in minimal}
    letters = {name: chr(ord("A") + at) for at, name in enumerate(columns)}
    levels = [list(combinations(columns, size)) for size in range(len(columns) + 1)]
    widest = max(len(level) for level in levels)
    width, step = max(360, 84 * widest), 84
    height = step * len(columns) + 90
    place: dict[frozenset[str], tuple[float, float]] = {}
    for size, level in enumerate(levels):
        for at, names in enumerate(level):
            place[frozenset(names)] = (width * (at + 0.5) / len(level), height - 60 - step * size)
    lines = [
        f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{u:.0f}" y2="{v:.0f}"{_up(names, found)}/>'
        for names, (x, y) in place.items()
        for name in columns
        if name not in names
        for u, v in [place[names | {name}]]
    ]
    nodes = []
    for node, (x, y) in place.items():
        kind = _kind(node, found)
        ordered = [name for name in columns if name in node]
        short = "".join(letters[name] for name in ordered) or "∅"
        said = f"{' + '.join(ordered) or 'no column'}: {_MEANING[kind]}"
        small = ' class="tight"' if len(short) > 3 else ""
        nodes.append(
            f'<g class="{kind}"><title>{html.escape(said)}</title>'
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="24"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle"{small}>{short}</text></g>'
        )
    return _svg(title, width, height, f'<g class="lines">{"".join(lines)}</g>{"".join(nodes)}')


_MEANING = {
    "found": "a minimal set",
    "above": "identifies too, but is not minimal",
    "below": "does not identify by itself",
}


def _up(names: frozenset[str], found: set[frozenset[str]]) -> str:
    """Lines that lead up from a set that identifies stand out."""
    return "" if _kind(names, found) == "below" else ' class="up"'


def _kind(names: frozenset[str], found: set[frozenset[str]]) -> str:
    if names in found:
        return "found"
    return "above" if any(names > smaller for smaller in found) else "below"


def sets_svg(minimal: Sets, title: str) -> str:
    """Sets as columns of dots; rows are the columns that occur most often, top down.

    Examples
    --------
    >>> sets_svg([["age", "zip"], ["name"]], "Keys").count('class="dot"')
    3
    """
    shown = [list(names) for names in minimal[:MOST_SETS]]
    often: dict[str, int] = {}
    for names in minimal:
        for name in names:
            often[name] = often.get(name, 0) + 1
    inside = {name for names in shown for name in names}
    rows = sorted(inside, key=lambda name: (-often[name], name))[:MOST_COLUMNS]
    left = 20 + _LETTER * max(len(_short(name)) for name in rows)
    step, across, bar = 22, 20, 90
    width = left + bar + 20 + across * len(shown) + 10
    height = step * len(rows) + 34
    most = max(often.values(), default=1)
    parts = [
        f'<text x="{left + 4}" y="14" class="soft">in {len(minimal):,} sets</text>',
        f'<text x="{left + bar + 24}" y="14" class="soft">'
        f"{'the sets' if len(shown) == len(minimal) else f'the first {len(shown)} sets'}</text>",
    ]
    at = {name: 34 + step * place for place, name in enumerate(rows)}
    for place, (name, y) in enumerate(at.items()):
        if place % 2 == 0:
            parts.append(f'<rect x="0" y="{y - 11}" width="{width}" height="{step}" class="band"/>')
        length = max(2.0, (bar - 30) * often[name] / most)
        parts.append(
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{html.escape(_short(name))}'
            f"<title>{html.escape(name)}</title></text>"
            f'<rect x="{left}" y="{y - 6}" width="{length:.1f}" height="12" class="bar"/>'
            f'<text x="{left + length + 4:.1f}" y="{y + 4}" class="soft">{often[name]:,}</text>'
        )
    for place, names in enumerate(shown):
        x = left + bar + 30 + across * place
        ys = sorted(at[name] for name in names if name in at)
        said = html.escape(" + ".join(names))
        parts.append(f"<g><title>{said}</title>")
        if ys:
            parts.append(f'<line x1="{x}" y1="{ys[0]}" x2="{x}" y2="{ys[-1]}" class="joint"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="6" class="dot"/>' for y in ys]
        parts.append("</g>")
    return _svg(title, width, height, "".join(parts))


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(title: str, width: float, height: float, inside: str) -> str:
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(title)}">'
        f'<svg class="sets" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title>{inside}</svg></div>"
    )
