"""What else others may know, and what else a release is for: sets, a population, a target.

Different people may know different columns; a row may have to match people of another table; and a
column may have to stay predictable from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.web.choices import Choices
from sfumato.web.pages import Form, edition_of, form_of, frame, number_or_none, page, to, whole
from sfumato.web.project import Project
from sfumato.wording import percent

if TYPE_CHECKING:
    from sfumato.web.app import Workbench

__all__ = ["Knowledge"]

MOST_SETS = 6


@dataclass(frozen=True)
class Exposed:
    """Who can be found by one set of columns; None where it is not counted yet."""

    columns: tuple[str, ...]
    alone: int | None = None
    below: int | None = None
    share: str = ""


class Knowledge:
    """Handlers of the page."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        """Where it is found."""
        place = "/p/{number}/knowledge"
        return [Route(place, self.show), Route(place, self.decide, methods=["POST"])]

    async def show(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices
        sets = [one for one in choices.sets if set(one) & set(choices.qi)]
        room = min(MOST_SETS, max(3, len(sets) + 1))
        tables = await self._tables(project)
        return page("knowledge.html.j2", **frame(project, decided, "risk"), tables=tables,
                    sets=[*sets, *[()] * (room - len(sets))],
                    exposed=[_exposed(project, one, choices) for one in choices.known],
                    targets=[*choices.with_role("sensitive"), *choices.qi])  # fmt: skip

    async def decide(self, request: Request) -> Response:
        project, _ = self.bench.ready(request)
        form = await form_of(request)
        tables = await self._tables(project)
        decided = await run_in_threadpool(
            project.alter, lambda now: _decided(now, form, tables), edition_of(form)
        )
        person = decided.choices.person
        wanted = [((one,), person) for one in decided.choices.known]
        missing = [one for one in wanted if not project.has_alike(one)]
        if not missing:
            return to(f"/p/{project.number}/knowledge")

        def work(budget: Budget) -> None:
            for one in missing:
                budget.progress("counting who looks alike")
                project.alike(one, budget)

        return self.bench.start("Counting who looks alike", project, "knowledge", work)

    async def _tables(self, project: Project) -> list[Path]:
        """Tables that may be a population: those that can be opened, but for this one."""
        found = await run_in_threadpool(self.bench.tables)
        return [place for place in found if place != project.source]


def _decided(now: Choices, form: Form, tables: Sequence[Path]) -> Choices:
    population = form.get("population", [""])[0]
    if population not in ("", now.population, *map(str, tables)):
        raise ParameterError("this table is not in the folders that were opened")
    asked = number_or_none(form, "k_map")
    if (asked is None) != (not population):
        raise ParameterError(
            "a k-map needs both, a number and a table of people",
            remedy="Give both, or neither.",
        )
    target = form.get("target", [""])[0]
    if target and target not in now.roles:
        raise ParameterError("there is no such column", remedy="Choose one of the list.")
    sets = [tuple(n for n in now.qi if n in form.get(f"set-{at}", ())) for at in range(MOST_SETS)]
    chosen = tuple(dict.fromkeys(one for one in sets if one))
    return replace(
        now,
        sets=chosen if len(chosen) > 1 else (),
        k_map=None if asked is None else whole(form, "k_map"),
        population=population,
        target=target,
        unit=form.get("unit", [now.unit])[0].strip(),
    )


def _exposed(project: Project, columns: tuple[str, ...], choices: Choices) -> Exposed:
    sizes = project.alike_now(((columns,), choices.person))
    if sizes is None:
        return Exposed(columns)
    below = sizes.below(choices.k)
    return Exposed(columns, sizes.alone, below, percent(below / max(1, sizes.total)))
