"""Pictures of what passes between people who compute together.

Two parties are two boxes with an arrow each way; several institutions are boxes whose arrows meet
where their numbers are added up or stacked. Below stands who learned what. Each picture is drawn
twice, for wide and for narrow screens; the style sheet shows one of the two.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MOST_MEMBERS", "Side", "exchange_svg", "gathering_svg"]

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
    members: Sequence[tuple[str, str]],
    arrow: str,
    centre: tuple[str, Sequence[str]],
    title: str,
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


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(room: _Room, title: str, height: float, parts: Sequence[str]) -> str:
    said = html.escape(title)
    return (
        f'<svg class="flow {room.style}" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {room.width} {height:.0f}" width="{room.width}" height="{height:.0f}" '
        f'role="img" aria-label="{said}"><title>{said}</title>{"".join(parts)}</svg>'
    )
