"""The lattice of levels, to look at and to choose from: what each choice of levels comes to.

`full-domain` lists it with its answer; here it is drawn, its nodes lead to what is known of them,
and the one that is chosen is tried like any other setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.report.diagrams import MOST_LEVELS, levels_svg
from sfumato.web.candidates import Point, plot, points_of
from sfumato.web.choices import Choices
from sfumato.web.pages import form_of, frame, page
from sfumato.web.project import Project
from sfumato.wording import counted, counting, percent

if TYPE_CHECKING:
    from sfumato.web.app import Workbench

__all__ = ["Levels", "Node", "nodes_of"]

MOST_LISTED = 40
"""Nodes in the table below the picture."""
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


class Levels:
    """Handlers of the page of the lattice."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        """Where it is found."""
        place = "/p/{number}/lattice"
        return [Route(place, self.show), Route(place, self.act, methods=["POST"])]

    async def show(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices
        around = frame(project, decided, "utility")
        lattice = project.lattice_of(choices)
        if lattice is None and project.asks_lattice_again(choices):
            return await self._look(project, choices)
        if lattice is None:
            return page("lattice.html.j2", **around, lattice=None)
        nodes = await run_in_threadpool(nodes_of, lattice)
        known = {node.levels: node for node in nodes}
        wanted = _place(request.query_params.get("node", "")) or next(
            n.levels for n in nodes if n.best
        )
        if wanted not in known:
            raise HTTPException(404, "There is no such choice of levels.")
        picture, curve = await run_in_threadpool(_drawn, project, choices, lattice, nodes, wanted)
        return page("lattice.html.j2", **around, lattice=lattice, picture=picture, curve=curve,
                    node=known[wanted], listed=_listed(nodes)[:MOST_LISTED],
                    held=len(_listed(nodes)), heights=_heights(lattice),
                    chosen=_chosen(choices, lattice["columns"]),
                    weighted=any(node.cost != node.lost for node in nodes))  # fmt: skip

    async def act(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        form = await form_of(request)
        lattice = project.lattice_of(decided.choices)
        if "node" not in form or lattice is None:
            return await self._look(project, decided.choices)
        await run_in_threadpool(self.bench.may_open, decided.choices)
        wanted = _place(form["node"][0])
        if list(wanted or ()) not in lattice["levels"]:
            raise HTTPException(404, "There is no such choice of levels.")
        levels = dict(zip(lattice["columns"], wanted or (), strict=True))
        altered = await run_in_threadpool(
            project.alter, lambda now: replace(now, method="full-domain", levels=levels)
        )
        return self.bench.start(
            f"Trying levels {form['node'][0]}",
            project,
            "utility",
            lambda budget: project.try_out([altered.choices], budget),
        )

    async def _look(self, project: Project, choices: Choices) -> Response:
        await run_in_threadpool(self.bench.may_open, choices)
        return self.bench.start(
            "Looking at the lattice of levels",
            project,
            "lattice",
            lambda budget: project.look_at_lattice(choices, budget),
            True,
        )


def _place(text: str) -> Place | None:
    parts = text.split("·")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None


def _chosen(choices: Choices, columns: Sequence[str]) -> Place | None:
    """The node that the decisions ask for."""
    if choices.method != "full-domain" or set(choices.levels) != set(columns):
        return None
    return tuple(choices.levels[name] for name in columns)


def _heights(lattice: Mapping[str, Any]) -> list[int]:
    return [int(height) - 1 for height in lattice["heights"]]


def _listed(nodes: Sequence[Node]) -> list[Node]:
    """Those that hold and were looked at, the cheapest first."""
    held = [node for node in nodes if node.holds and node.cost is not None]
    return sorted(held, key=lambda node: (node.cost, node.levels))


def _drawn(
    project: Project,
    choices: Choices,
    lattice: Mapping[str, Any],
    nodes: Sequence[Node],
    wanted: Place,
) -> tuple[str, str]:
    """The lattice, and its nodes among the candidates by privacy and precision."""
    place = f"/p/{project.number}/lattice?node="

    def link(levels: Place) -> str:
        return f"{place}{'·'.join(map(str, levels))}#node"

    picture = ""
    if len(nodes) <= MOST_LEVELS:
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
    others = points_of(project.candidates, choices, f"/p/{project.number}/utility", "other")
    with counting(*choices.spoken):
        return picture, plot([*points, *others], [_frontier(points)]) if points else ""


def _frontier(points: Sequence[Point]) -> tuple[str, list[Point]]:
    """Nodes for which no other has as many alike and loses less."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (-one.k, one.lost)):
        if not found or point.lost < found[-1].lost:
            found.append(point)
    return "the frontier", found[::-1]
