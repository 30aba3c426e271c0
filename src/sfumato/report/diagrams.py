"""Hand-made drawings: who sends what to whom, arcs between names, lattices of sets and levels."""

from __future__ import annotations

import html
import textwrap
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

MOST_MEMBERS = 12
"""Institutions drawn; of more the last box says how many."""
_LINE = 17
_LETTER = 7.4
_BOLD_LETTER = 8.2
"""Height of a line, and about the width of a letter, plain and bold."""


@dataclass(frozen=True)
class Side:
    """One of two parties: what it sent, and what it alone learned."""

    name: str
    sent: str
    learned: Sequence[str] = ()


@dataclass(frozen=True)
class _Room:
    """How much room there is."""

    style: str
    width: int
    box: int
    goal: int


_ROOMS = (_Room("wide", 760, 190, 270), _Room("narrow", 352, 100, 166))


def exchange_svg(sides: tuple[Side, Side], between: str, both: Sequence[str], title: str) -> str:
    """Two parties, what passed between them, and who learned what.

    Examples
    --------
    >>> picture = exchange_svg((Side("alice", "2 MB"), Side("bob", "3 MB")), "9 rounds", [], "Run")
    >>> picture.count('class="box"'), picture.count('class="arrow"'), picture.count("9 rounds")
    (4, 4, 2)
    """
    return "".join(_exchange(room, sides, between, both, title) for room in _ROOMS)


def _exchange(
    room: _Room, sides: tuple[Side, Side], between: str, both: Sequence[str], title: str
) -> str:
    left, right = sides
    wide = room.box if room.style == "wide" else 64
    far, middle = room.width - wide - 1, room.width / 2
    parts = [_box(1, 8, wide, 86, left.name), _box(far, 8, wide, 86, right.name)]
    start, end = wide + 8, far - 8
    for y, side, (x, u) in ((34, left, (start, end)), (76, right, (end, start))):
        parts.append(_arrow(x, y, u, y))
        parts.append(_text(middle, y - 8, side.sent, anchor="middle"))
    parts.append(_text(middle, 112, between, anchor="middle", soft=True))
    columns = [
        (f"{left.name} alone learned", left.learned),
        ("both learned", both),
        (f"{right.name} alone learned", right.learned),
    ]
    beside = room.style == "wide"
    across = room.width / 3 if beside else room.width
    bottom = top = 150.0
    for at, (head, what) in enumerate(columns):
        lines = _wrapped(what or ["nothing"], across - 16)
        corner, level = (at * across + 1, top) if beside else (1.0, bottom)
        parts.append(_text(corner, level, head, strong=True))
        parts += [_text(corner, level + _LINE * line, text) for line, text in enumerate(lines, 1)]
        bottom = max(bottom, level + _LINE * (len(lines) + (0 if beside else 2)))
    return _svg(room, title, bottom + 10, parts)


def gathering_svg(
    members: Sequence[tuple[str, str]], arrow: str, centre: tuple[str, Sequence[str]], title: str
) -> str:
    """Several institutions and what each gives, arriving where it is put together.

    Examples
    --------
    >>> picture = gathering_svg([("A", "90 rows"), ("B", "")], "sums", ("model", ["a"]), "Fit")
    >>> picture.count('class="box"'), picture.count('class="arrow"'), picture.count("goal")
    (4, 4, 2)
    """
    shown = list(members[:MOST_MEMBERS])
    if len(members) > MOST_MEMBERS:
        shown[-1] = (f"{len(members) - MOST_MEMBERS + 1} more", "")
    return "".join(_gathering(room, shown, arrow, centre, title) for room in _ROOMS)


def _gathering(
    room: _Room,
    members: Sequence[tuple[str, str]],
    arrow: str,
    centre: tuple[str, Sequence[str]],
    title: str,
) -> str:
    head, what = centre
    heads = textwrap.wrap(head, int((room.goal - 26) / _BOLD_LETTER)) or [""]
    lines = _wrapped(what, room.goal - 26)
    step, high, top = 60, 46, 26.0
    tall = 17 + _LINE * (len(heads) + len(lines))
    height = max(step * len(members), tall)
    near, far = room.box + 8, room.width - room.goal - 9
    target = top + height / 2
    parts = [_text((near + far) / 2, 14, arrow, anchor="middle", soft=True)]
    first = top + (height - step * len(members)) / 2 + (step - high) / 2
    for at, (name, note) in enumerate(members):
        y = first + step * at
        parts.append(_box(1, y, room.box, high, name, note))
        parts.append(_arrow(near, y + high / 2, far, target))
    x, y = room.width - room.goal - 1, target - tall / 2
    parts.append(_box(x, y, room.goal, tall, "", kind="box goal"))
    for at, line in enumerate([*heads, *lines]):
        parts.append(_text(x + 14, y + 22 + _LINE * at, line, strong=at < len(heads)))
    return _svg(room, title, top + height + 8, parts)


def _wrapped(what: Sequence[str], width: float) -> list[str]:
    return [line for entry in what for line in textwrap.wrap(entry, int(width / _LETTER))]


def _box(
    x: float, y: float, wide: float, high: float, name: str, note: str = "", *, kind: str = "box"
) -> str:
    middle = x + wide / 2
    parts = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}" rx="8" '
        f'class="{kind}"/>'
    ]
    if name:
        at = y + high / 2 + (-3 if note else 5)
        shown = _short(name, int(wide / _LETTER) - 1)
        parts.append(_text(middle, at, shown, anchor="middle", strong=True))
    if note:
        parts.append(_text(middle, y + high / 2 + 14, note, anchor="middle", soft=True))
    return "".join(parts)


def _arrow(x: float, y: float, u: float, v: float) -> str:
    """A line with a head at its end, turned as the line is."""
    length = max(1.0, ((u - x) ** 2 + (v - y) ** 2) ** 0.5)
    ex, ey = (u - x) / length, (v - y) / length
    back = (u - 9 * ex, v - 9 * ey)
    one = (back[0] - 5 * ey, back[1] + 5 * ex)
    two = (back[0] + 5 * ey, back[1] - 5 * ex)
    return (
        f'<path class="arrow" d="M{x:.1f} {y:.1f}L{back[0]:.1f} {back[1]:.1f}"/>'
        f'<path class="head" d="M{u:.1f} {v:.1f}L{one[0]:.1f} {one[1]:.1f}'
        f'L{two[0]:.1f} {two[1]:.1f}Z"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    strong: bool = False,
    soft: bool = False,
) -> str:
    kind = ' class="strong"' if strong else ' class="soft"' if soft else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{kind}>{html.escape(text)}</text>'


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(room: _Room, title: str, height: float, parts: Sequence[str]) -> str:
    said = html.escape(title)
    return (
        f'<svg class="flow {room.style}" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {room.width} {height:.0f}" width="{room.width}" height="{height:.0f}" '
        f'role="img" aria-label="{said}"><title>{said}</title>{"".join(parts)}</svg>'
    )


_STEP = 30
_WIDE_LETTER = 8
"""Height of a line, and about the width of a letter where names stand beside a drawing."""


def arcs_svg(names: Sequence[str], arrows: Sequence[tuple[str, str]], title: str) -> str:
    """Names from top to bottom, an arc from the first to the second name of each pair.

    Examples
    --------
    >>> arcs_svg(["rain", "wet"], [("rain", "wet")], "Net").count('class="arc"')
    1
    """
    place = {name: 22 + _STEP * at for at, name in enumerate(names)}
    left = 12 + _WIDE_LETTER * max(len(_short(name)) for name in names)
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
    return _scrolling("flow", title, width, height, "".join(parts))


MOST_IN_LATTICE = 5
"""Columns whose sets are all drawn."""
MOST_SETS = 30
"""Sets drawn as dots, and MOST_COLUMNS rows of them."""
MOST_COLUMNS = 60

Sets = Sequence[Sequence[str]]


def lattice_svg(
    columns: Sequence[str], minimal: Sets, title: str, looked: int | None = None
) -> str:
    """All sets of the columns, the minimal ones standing out.

    `looked`: of how many columns the sets were that were all looked at; None: of any number.

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
        if kind == "below" and looked is not None and len(node) > looked:
            kind = "unknown"
        ordered = [name for name in columns if name in node]
        short = "".join(letters[name] for name in ordered) or "∅"
        said = f"{' + '.join(ordered) or 'no column'}: {_MEANING[kind]}"
        small = ' class="tight"' if len(short) > 3 else ""
        nodes.append(
            f'<g class="{kind}"><title>{html.escape(said)}</title>'
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="24"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle"{small}>{short}</text></g>'
        )
    return _scrolling(
        "sets", title, width, height, f'<g class="lines">{"".join(lines)}</g>{"".join(nodes)}'
    )


MOST_LEVELS = 300
"""Nodes of a lattice of levels that are drawn."""
Levels = tuple[int, ...]


def levels_svg(
    lattice: Mapping[str, Any],
    title: str,
    *,
    said: Callable[[int], str],
    link: Callable[[Levels], str] | None = None,
    chosen: Levels | None = None,
) -> str:
    """A lattice of levels as `anonymize` lists it: exact below, everything blurred on top.

    `said` tells about a node by its place in the lists; `link` leads to it.

    Examples
    --------
    >>> two = {"levels": [[0], [1]], "holds": [False, True], "optimal": 1}
    >>> picture = levels_svg(two, "Levels of age", said=str)
    >>> picture.count("<rect"), picture.count('class="holds best"'), picture.count("<line")
    (2, 1, 1)
    """
    nodes: list[Levels] = [tuple(one) for one in lattice["levels"]]
    rows: dict[int, list[Levels]] = defaultdict(list)
    for levels in nodes:
        rows[sum(levels)].append(levels)
    across, step = 14 + 9 * max(3, 2 * len(nodes[0]) - 1), 74
    width = max(360, across * max(len(row) for row in rows.values()))
    height = step * (len(rows) - 1) + 70
    place = {
        levels: (width / 2 + across * (at - (len(rows[total]) - 1) / 2), height - 35 - step * up)
        for up, total in enumerate(sorted(rows))  # of heights where no node is nothing is drawn
        for at, levels in enumerate(rows[total])
    }
    lines = [
        f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{u:.0f}" y2="{v:.0f}"/>'
        for levels, (x, y) in place.items()
        for axis in range(len(levels))
        for u, v in [place.get((*levels[:axis], levels[axis] + 1, *levels[axis + 1 :]), (None, 0))]
        if u is not None
    ]
    drawn = []
    for at, levels in enumerate(nodes):
        x, y = place[levels]
        kind = {True: "holds", False: "fails", None: "unknown"}[lattice["holds"][at]]
        kind += " best" if at == lattice["optimal"] else ""
        kind += " chosen" if levels == chosen else ""
        told = html.escape(said(at))
        inside = (
            f'<g class="{kind}"><title>{told}</title>'
            f'<rect x="{x - across / 2 + 4:.0f}" y="{y - 17:.0f}" width="{across - 8}" height="34" '
            f'rx="17"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">'
            f"{'·'.join(map(str, levels))}</text></g>"
        )
        way = None if link is None else html.escape(link(levels))
        drawn.append(inside if way is None else f'<a href="{way}">{inside}</a>')
    inside = f'<g class="lines">{"".join(lines)}</g>{"".join(drawn)}'
    return _scrolling("levels", title, width, height, inside, "img" if link is None else "group")


_MEANING = {
    "found": "a minimal set",
    "above": "contains a minimal set",
    "below": "contains none of them",
    "unknown": "contains none that was found; larger sets were not all looked at",
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
    left = 20 + _WIDE_LETTER * max(len(_short(name)) for name in rows)
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
    return _scrolling("sets", title, width, height, "".join(parts))


def _scrolling(
    style: str, title: str, width: float, height: float, inside: str, role: str = "img"
) -> str:
    """A drawing that scrolls sideways where the page is narrow."""
    said = html.escape(title)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said}">'
        f'<svg class="{style}" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="{role}" aria-label="{said}"><title>{said}</title>{inside}</svg></div>'
    )
