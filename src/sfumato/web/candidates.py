"""Releases that could be: those that were tried, and nodes of the lattice of levels.

What each protects and costs, side by side and as a curve. `full-domain` lists its lattice with its
answer; here it is drawn, and its nodes lead to what is known of them.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sfumato.release.publish import Release
from sfumato.report.diagrams import MOST_LEVELS, levels_svg
from sfumato.report.pages.risk import worst_risk
from sfumato.web.choices import Choices, choices_from, choices_to
from sfumato.wording import counted, counting, percent, units


@dataclass(frozen=True)
class Candidate:
    """One release that could be; its rows are forgotten, its figures are kept."""

    number: int
    choices: Choices
    k: int | None
    classes: int | None
    rows_left_out: int
    cells_starred: int
    lost: float
    """Precision lost: 0 where every cell is exact, 1 where it says nothing."""
    highest_risk: float | None
    average_risk: float | None
    columns: dict[str, float]
    """Precision lost, by column."""
    stopped: bool = False
    """Whether its search was ended early."""

    @classmethod
    def of(cls, number: int, choices: Choices, release: Release) -> Candidate:
        """The figures of a rehearsed release."""
        risks = release.details.get("risk") or ()
        after = worst_risk(risks).after if risks else None
        return cls(
            number=number,
            choices=choices,
            k=release.k,
            classes=release.classes,
            rows_left_out=release.suppressed_rows,
            cells_starred=release.suppressed_cells,
            lost=float(release.utility["ncp"]),
            highest_risk=None if after is None else after.prosecutor,
            average_risk=None if after is None else after.marketer,
            columns=dict(release.utility["columns"]),
            stopped=release.stopped_by is not None,
        )


def candidates_to(candidates: Sequence[Candidate], table: Any) -> str:
    """Candidates as text, for another day; those with trees of their own are tried again."""
    kept = [
        {**asdict(replace(one, choices=Choices())), "choices": choices_to(one.choices)}
        for one in candidates
        if not one.choices.trees
    ]
    return json.dumps({"table": table, "candidates": kept}, indent=1)


def candidates_from(text: str, table: Any) -> tuple[Candidate, ...]:
    """Candidates of an earlier day, where the table is still the same; else none.

    Raises
    ------
    ValueError, TypeError, KeyError, ParameterError
        The text is not what `candidates_to` writes.
    """
    found = json.loads(text)
    if found["table"] != table:
        return ()
    made = []
    for one in found["candidates"]:
        columns = {str(name): float(lost) for name, lost in one.pop("columns").items()}
        choices = choices_from(one.pop("choices"))
        figures = {n: v for n, v in one.items() if v is None or type(v) in (int, float, bool)}
        made.append(Candidate(choices=choices, columns=columns, **figures))
    return tuple(made)


def names_of(candidates: Sequence[Candidate], chosen: Choices) -> dict[int, str]:
    """How people tell candidates apart, by number: method, demand, and what else is not as chosen.

    Examples
    --------
    >>> age = Choices({"age": "quasi-identifier", "zip": "quasi-identifier"})
    >>> less = Choices({"age": "quasi-identifier", "zip": "other"})
    >>> none = (None, 1, 0, 0, 0.0, None, None, {})
    >>> names_of([Candidate(1, age, *none), Candidate(2, less, *none)], age)
    {1: 'mondrian, k = 5', 2: 'mondrian, k = 5; zip is other'}
    """
    found: dict[int, str] = {}
    for one in candidates:
        trees = one.choices.used_trees
        more = ", own trees" if trees else ""
        more += " and limits" if any(tree.marks for tree in trees.values()) else ""
        more += ", stopped early" if one.stopped else ""
        name = f"{one.choices.method}, {one.choices.demand}{more}"
        found[one.number] = "; ".join([name, *chosen.otherwise(one.choices)])
    for number, name in found.items():
        same = [other for other, said in found.items() if said == name and other < number]
        found[number] = f"{name} ({len(same) + 1})" if same else name
    return found


def best_of(candidates: Sequence[Candidate], chosen: Choices) -> tuple[Candidate, int] | None:
    """The most precise of those that promise the same as the chosen one, and how many do.

    Where what is chosen was not tried, the one that was tried last is compared.
    """
    if not candidates:
        return None
    tried = any(one.choices.same(chosen) for one in candidates)
    promise = (chosen if tried else candidates[-1].choices).promise
    same = [one for one in candidates if one.choices.promise == promise]
    return min(same, key=lambda one: one.lost), len(same)


WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 128, 14, 46
APART, WORD, LETTER = 22, 125, 12
"""Between the names of two lines, and how wide one and its letters are: on a narrow screen."""
MOST_NAMED = 8
"""Lines that are named, single points among them; of more only those that are lines."""


@dataclass(frozen=True)
class Point:
    """A release that could be, by privacy and precision."""

    k: int
    lost: float
    said: str
    href: str
    kind: str
    """``chosen``, ``tried`` or another class of the style sheet."""


def curve(candidates: Sequence[Candidate], chosen: Choices) -> str:
    """Precision lost against how many are alike: one line for settings that differ in k alone.

    Every point is a link to its candidate in the table below.
    """
    points = points_of(candidates, chosen)
    place = {point.href: point for point in points}
    lines = [
        (line[-1].choices.method, [place[f"#candidate-{c.number}"] for c in line])
        for line in _lines([c for c in candidates if c.k is not None])
    ]
    with counting(*chosen.spoken):
        return plot(points, lines)


def points_of(
    candidates: Sequence[Candidate], chosen: Choices, page: str = "", tried: str = "tried"
) -> list[Point]:
    """Candidates as points that lead to their line in the table of a page."""
    names = names_of(candidates, chosen)
    return [
        Point(
            c.k,
            c.lost,
            f"{names[c.number]}: {percent(c.lost)} lost, at least {c.k} alike",
            f"{page}#candidate-{c.number}",
            "chosen" if c.choices.same(chosen) and not page else tried,
        )
        for c in candidates
        if c.k is not None
    ]


def plot(points: Sequence[Point], joined: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """Points by how many are alike and precision lost, some of them joined by lines with names."""
    if not points:
        return ""
    ks = [point.k for point in points]
    low, high = math.log(min(ks)) - 0.15, math.log(max(ks)) + 0.15
    most = max(0.05, max(point.lost for point in points)) * 1.08

    def x(k: int) -> float:
        return LEFT + (math.log(k) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(lost: float) -> float:
        return HEIGHT - BOTTOM - lost / most * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(most, y), _ticks(ks, x)]
    lines = sorted(joined, key=lambda one: y(one[1][-1].lost))
    ends = [(x(line[-1].k) + 12, y(line[-1].lost) + 4) for _, line in lines]
    for _, line in lines:
        way = " ".join(f"{x(point.k):.1f},{y(point.lost):.1f}" for point in line)
        parts.append(f'<polyline points="{way}"/>')
    for (name, _), (across, down) in zip(lines, _spread(ends), strict=True):
        shown = html.escape(name)
        parts.append(f'<text class="name" x="{across:.1f}" y="{down:.1f}">{shown}</text>')
    for point in points:
        said, across, down = html.escape(point.said), x(point.k), y(point.lost)
        parts.append(
            f'<a href="{html.escape(point.href)}" class="{point.kind}" aria-label="{said}">'
            f'<title>{said}</title><circle class="touch" cx="{across:.1f}" cy="{down:.1f}" r="14"/>'
            f'<circle cx="{across:.1f}" cy="{down:.1f}" '
            f'r="{8 if point.kind == "chosen" else 6}"/></a>'
        )
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="Precision lost against {units()} alike">{"".join(parts)}'
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" '
        f'text-anchor="middle">{units()} alike, at least (k)</text>'
        f'<text class="axis upright" x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">precision lost</text></svg>'
    )


def _spread(ends: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places of names, from top to bottom, so that none covers another or the axis.

    Examples
    --------
    >>> _spread([(80, 250), (80, 251), (400, 251)])
    [(80, 229.0), (80, 251.0), (400, 251)]
    """
    placed: list[tuple[float, float]] = []
    for across, down in ends:
        over = [above for other, above in placed if abs(other - across) < WORD]
        placed.append((across, max([down, *(above + APART for above in over)])))
    for at in reversed(range(len(placed))):
        across, down = placed[at]
        under = [below for other, below in placed[at + 1 :] if abs(other - across) < WORD]
        lowest = min([HEIGHT - BOTTOM - 3.0, *(below - APART for below in under)])
        placed[at] = (across, min(down, lowest))
    return placed


def _lines(points: Sequence[Candidate]) -> list[list[Candidate]]:
    """Candidates that differ in k alone, by k."""
    groups: list[tuple[Choices, list[Candidate]]] = []
    for candidate in points:
        plain = candidate.choices.asking(k=2)
        for known, members in groups:
            if known == plain:
                members.append(candidate)
                break
        else:
            groups.append((plain, [candidate]))
    least = 2 if len(groups) > MOST_NAMED else 1
    return [sorted(m, key=lambda c: (c.k or 1, c.lost)) for _, m in groups if len(m) >= least]


def _grid(most: float, y: Callable[[float], float]) -> str:
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if most / s <= 6)
    lines = []
    for at in range(int(most / step) + 1):
        level = at * step
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}"/>'
            f'<text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level:.0%}</text>'
        )
    return f'<g class="grid" aria-hidden="true">{"".join(lines)}</g>'


def _ticks(ks: Sequence[int], x: Callable[[int], float]) -> str:
    end, texts = -math.inf, []
    for k in sorted(set(ks)):
        half = LETTER / 2 * len(f"{k:,}")
        if x(k) - half > end:
            end = x(k) + half + 6
            texts.append(
                f'<text x="{x(k):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{k:,}</text>'
            )
    return f'<g class="grid" aria-hidden="true">{"".join(texts)}</g>'


Place = tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """What is known of one choice of levels; None: it was not looked at."""

    levels: Place
    holds: bool | None
    k: int | None
    """Of the rows that are not left out; a node that does not hold would leave out too many."""
    cost: float | None
    """What the search makes least: precision lost, by how much columns matter."""
    lost: float | None
    """Precision lost, as everywhere: all columns count alike."""
    left_out: int | None
    best: bool

    @property
    def risk(self) -> float | None:
        """The highest risk: one over the smallest class."""
        return 1 / self.k if self.k else None

    @property
    def said(self) -> str:
        """The node in a line."""
        told = {True: "holds", False: "does not hold", None: "not looked at"}[self.holds]
        if self.lost is None:
            return f"levels {self.name}: {told}"
        left = counted(self.left_out or 0, "row")
        if not self.holds:
            return f"levels {self.name}: {told}, {left} would be left out"
        alike = "nobody is left" if self.k is None else f"at least {self.k:,} alike"
        return f"levels {self.name}: {told}, {alike}, {percent(self.lost)} lost, {left} left out"

    @property
    def name(self) -> str:
        """Its levels, as addresses have them too."""
        return "·".join(map(str, self.levels))


def nodes_of(lattice: Mapping[str, Any]) -> list[Node]:
    """The nodes that `full-domain` lists.

    Examples
    --------
    >>> listed = {"levels": [[0], [1]], "holds": [False, True], "k": [1, 6], "loss": [0.0, 0.5],
    ...           "ncp": [0.0, 0.5], "suppressed": [4, 0], "optimal": 1}
    >>> nodes_of(listed)[1].said
    'levels 1: holds, at least 6 alike, 50% lost, 0 rows left out'
    """
    lists = [lattice[name] for name in ("levels", "holds", "k", "loss", "ncp", "suppressed")]
    found = []
    for at, (levels, holds, k, *losses, gone) in enumerate(zip(*lists, strict=True)):
        cost, lost = (None if one is None else round(one, 12) for one in losses)  # 1 says 100%
        found.append(Node(tuple(levels), holds, k, cost, lost, gone, at == lattice["optimal"]))
    return found


def place_of(text: str) -> Place | None:
    parts = text.split("·")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None


def node_asked(choices: Choices, columns: Sequence[str]) -> Place | None:
    """The node that the decisions ask for."""
    if choices.method != "full-domain" or set(choices.levels) != set(columns):
        return None
    return tuple(choices.levels[name] for name in columns)


def cheapest(nodes: Sequence[Node]) -> list[Node]:
    """Those that hold and were looked at, the cheapest first."""
    held = [node for node in nodes if node.holds and node.cost is not None]
    return sorted(held, key=lambda node: (node.cost, node.levels))


def drawn_lattice(
    number: str,
    candidates: Sequence[Candidate],
    choices: Choices,
    lattice: Mapping[str, Any],
    nodes: Sequence[Node],
    wanted: Place,
) -> tuple[str, str]:
    """The lattice, and its nodes among the candidates by privacy and precision."""
    place = f"/p/{number}/lattice?node="

    def link(levels: Place) -> str:
        return f"{place}{'·'.join(map(str, levels))}#node"

    picture = ""
    if len(nodes) == lattice["nodes"] and len(nodes) <= MOST_LEVELS:  # some of many lie far apart
        picture = levels_svg(
            lattice,
            f"Lattice of {len(nodes)} choices of levels",
            said=lambda at: nodes[at].said,
            link=link,
            chosen=wanted,
        )
    points = [
        Point(node.k, node.lost, node.said, link(node.levels),
              "chosen" if node.levels == wanted else "tried")
        for node in nodes
        if node.holds and node.k is not None and node.lost is not None
    ][:MOST_LEVELS]  # fmt: skip
    others = points_of(candidates, choices, f"/p/{number}/utility", "other")
    with counting(*choices.spoken):
        return picture, plot([*points, *others], [_frontier(points)]) if points else ""


def _frontier(points: Sequence[Point]) -> tuple[str, list[Point]]:
    """Nodes for which no other has as many alike and loses less."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (-one.k, one.lost)):
        if not found or point.lost < found[-1].lost:
            found.append(point)
    return "the frontier", found[::-1]
