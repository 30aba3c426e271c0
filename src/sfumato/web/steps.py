"""The steps before a release: how the file is read, who may know what, and who can be found.

Different people may know different columns; a row may have to match people of another table; and a
column may have to stay predictable from the others: that is asked on a page of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.engines.foreign import FOREIGN, parts_of
from sfumato.errors import ParameterError
from sfumato.report.page import body_html
from sfumato.tables.parsing import KINDS
from sfumato.web import pages
from sfumato.web.choices import DEMANDS, DISTANCES, FIRST, Choices
from sfumato.web.opened import Decided
from sfumato.web.pages import (
    Form,
    demanded,
    edition_of,
    frame,
    number_or_none,
    page,
    post,
    to,
    whole,
)
from sfumato.web.project import Project
from sfumato.web.sources import DELIMITERS, Reading
from sfumato.web.verbs import VERBS
from sfumato.wording import counted, percent

if TYPE_CHECKING:
    from sfumato.web.app import Workbench


FOREIGN_ENDINGS = {".parquet", ".pq", ".arrow", ".feather", ".ipc"} | {
    f".{end}" for one in FOREIGN.values() for end in one.endings
}
"""Of files that are no text, about which there is less to say."""
MOST_SETS = 6
"""Sets of columns that different people may know."""


class Steps:
    """Handlers of the steps; what they share lives in the workbench and its projects."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        base = "/p/{number}"
        return [
            Route(f"{base}/import", self.reading),
            post(f"{base}/import", self.read),
            post(f"{base}/import/rows", self.show_first),
            Route(f"{base}/configure", self.configure),
            post(f"{base}/configure", self.decide),
            Route(f"{base}/configure/meter", self.meter),
            post(f"{base}/undo", self.undo),
            Route(f"{base}/explore", self.explore),
            Route(f"{base}/risk", self.risk),
            post(f"{base}/risk", self.keep_demands),
            Route(f"{base}/risk/figure", self.risk_figure),
            Route(f"{base}/knowledge", self.knowledge),
            post(f"{base}/knowledge", self.decide_knowledge),
        ]

    # How the file is read

    def reading(self, request: Request) -> Response:
        project = self.bench.project(request)
        if not project.looked and not project.problem:
            return self.bench.look(project, "import")
        asked = project.tried or project.reading
        text = not FOREIGN_ENDINGS & set(project.source.suffixes)
        return page("import.html.j2", **frame(project, project.decided, "import"), asked=asked,
                    text=text, kinds=KINDS, delimiters=DELIMITERS, names=_named(project),
                    parts=parts_of(project.source))  # fmt: skip

    def read(self, request: Request, form: Form) -> Response:
        project = self.bench.project(request)
        asked = Reading.asked(form, _named(project))

        def work(budget: Budget) -> None:
            project.look(budget, asked)
            if not project.problem:
                project.keep_reading()

        return self.bench.start(f"Reading {project.label}", project, "import", work)

    def show_first(self, request: Request, form: Form) -> Response:
        project = self.bench.project(request)
        project.rows_shown = True
        return to(f"/p/{project.number}/import#rows")

    # Configure

    def configure(self, request: Request) -> Response:
        project = self.bench.project(request)
        if not project.looked:
            return self.bench.look(project)
        decided = project.decided
        project.view = request.query_params.get("view", project.view)
        sort = request.query_params.get("sort", "")
        meter = pages.meter(project, decided.choices)
        return page("configure.html.j2", **frame(project, decided, "configure"),
                    roles=pages.LANES, meter=meter, blurred=pages.blurred(project, decided.choices),
                    more=project.can_count_soon(decided.choices.counted),
                    listed=pages.listed(project, decided.choices, sort),
                    keys=self.bench.shelf.keys())  # fmt: skip

    def decide(self, request: Request, form: Form) -> Response:
        project = self.bench.project(request)
        if not project.looked:
            raise HTTPException(409, "This table has not been looked at yet.")
        keys = self.bench.shelf.keys()
        decided = project.alter(lambda now: _decided(project, now, form, keys), edition_of(form))
        if "application/json" in request.headers.get("accept", ""):
            return self._meter(project, decided)
        stays = not decided.choices.qi or {"bulk", "rest"} & set(form)
        return to(f"/p/{project.number}/{'configure' if stays else 'explore'}")

    def meter(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        if project.can_count_soon(decided.choices.counted):
            project.alike(decided.choices.counted)
        return self._meter(project, decided)

    def _meter(self, project: Project, decided: Decided) -> Response:
        choices = decided.choices
        said, tone = pages.meter(project, choices)
        return JSONResponse(
            {
                "said": said,
                "tone": tone,
                "lacks": choices.gap is not None,
                "counts": choices.spoken[0].capitalize(),
                "undo": decided.can_undo,
                "more": project.can_count_soon(choices.counted),
                "edition": decided.edition,
                "blurred": list(pages.blurred(project, choices).values()),
            }
        )

    def undo(self, request: Request, form: Form) -> Response:
        project = self.bench.project(request)
        project.undo()
        step = form.get("step", ["configure"])[0]
        return to(f"/p/{project.number}/{step if step in ('risk', 'utility') else 'configure'}")

    # Explore and risk

    def explore(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices

        def work(budget: Budget) -> None:
            project.explore(choices, budget)
            budget.progress("drawing")  # here, and not while the page waits: it is drawn once
            body_html(pages.explore(project, choices))

        if not project.has_explored(choices):
            return self.bench.start("Looking for telling combinations", project, "explore", work)
        shown = body_html(pages.explore(project, choices))
        return page(
            "explore.html.j2", **frame(project, decided, "explore"), verbs=VERBS, body=shown
        )

    def risk(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices
        if not project.has_alike(choices.counted):
            return self._count(project)
        shown = body_html(pages.risk(project, choices))
        return page("risk.html.j2", **frame(project, decided, "risk"), verbs=VERBS,
                    body=shown, demands=DEMANDS, first=FIRST, distances=DISTANCES)  # fmt: skip

    def risk_figure(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        if project.alike_now(decided.choices.counted) is None:
            raise HTTPException(409, "Class sizes are not counted yet.")
        k = whole({"k": [request.query_params.get("k", "")]}, "k")
        choices = decided.choices.asking(k=k)
        drawn = body_html(pages.risk(project, choices))
        lacks = pages.MUST_HOLD not in drawn and project.stale is None and project.checks(choices)
        return HTMLResponse(drawn, headers={"X-Later": "1"} if lacks else {})

    def keep_demands(self, request: Request, form: Form) -> Response:
        project, _ = self.bench.ready(request)
        whole(form, "k")  # without it this is not the form
        decided = project.alter(lambda now: demanded(now, form, ()), edition_of(form))
        if "application/json" in request.headers.get("accept", ""):
            return self._meter(project, decided)
        return to(f"/p/{project.number}/utility")

    # Who knows what

    def knowledge(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices
        sets = [one for one in choices.sets if set(one) & set(choices.qi)]
        room = min(MOST_SETS, max(3, len(sets) + 1))
        return page("knowledge.html.j2", **frame(project, decided, "risk"),
                    tables=self._tables(project),
                    sets=[*sets, *[()] * (room - len(sets))],
                    exposed=[_exposed(project, one, choices) for one in choices.known],
                    targets=[*choices.with_role("sensitive"), *choices.qi])  # fmt: skip

    def decide_knowledge(self, request: Request, form: Form) -> Response:
        project, _ = self.bench.ready(request)
        tables = self._tables(project)
        decided = project.alter(lambda now: _known(now, form, tables), edition_of(form))
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

    def _tables(self, project: Project) -> list[Path]:
        """Tables that may be a population: those that can be opened, but for this one."""
        return [place for place in self.bench.tables() if place != project.source]

    def _count(self, project: Project) -> Response:
        def work(budget: Budget) -> None:
            budget.progress("counting who looks alike")
            choices = project.choices
            project.alike(choices.counted, budget)
            budget.progress("drawing")
            body_html(pages.risk(project, choices))

        return self.bench.start("Counting who looks alike", project, "risk", work)


def _named(project: Project) -> tuple[str, ...]:
    """The columns that may be turned into something: those read, else those that were to be."""
    return project.first.names or tuple((project.tried or project.reading).parse)


def _decided(project: Project, now: Choices, form: Form, keys: Sequence[Path]) -> Choices:
    """The decisions of the first page; what it does not ask about stays."""
    names = project.table.columns
    roles = {name: form.get(f"role-{at}", [""])[0] for at, name in enumerate(names)}
    pseudonyms = tuple(name for at, name in enumerate(names) if f"pseudonym-{at}" in form)
    weights = {}
    for at, name in enumerate(names):
        given = number_or_none(form, f"weight-{at}")
        if given is not None and given != 1:
            weights[name] = given
    roles |= _together(names, form)
    chosen = replace(now, roles=roles, weights=weights, pseudonyms=pseudonyms)
    return demanded(chosen, form, keys)


def _together(names: Sequence[str], form: Form) -> dict[str, str]:
    """The role that one click gives to all columns that are picked, or to all others."""
    asked = [one for one in ("bulk", "rest") if one in form]
    picked = {name for at, name in enumerate(names) if str(at) in form.get("pick", [])}
    if asked and not picked:
        raise ParameterError("no column is picked", remedy="Tick some in the table first.")
    return {name: form[one][0] for one in asked for name in names
            if (name in picked) == (one == "bulk")}  # fmt: skip


def _known(now: Choices, form: Form, tables: Sequence[Path]) -> Choices:
    population = form.get("population", [""])[0]
    if population not in ("", now.population, *map(str, tables)):
        raise ParameterError("this table is not in the folders that were opened")
    asked = number_or_none(form, "k_map")
    if (asked is None) != (not population):
        raise ParameterError(
            "a k-map needs both, a number and a table of people", remedy="Give both, or neither."
        )
    target = form.get("target", [""])[0]
    if target and target not in now.roles:
        raise ParameterError("there is no such column", remedy="Choose one of the list.")
    sets = [tuple(n for n in now.qi if n in form.get(f"set-{at}", ())) for at in range(MOST_SETS)]
    chosen = tuple(dict.fromkeys(one for one in sets if one))
    if population in map(str, tables):
        replace(now, population=population).match_people()
    return replace(
        now,
        sets=chosen if len(chosen) > 1 else (),
        k_map=None if asked is None else whole(form, "k_map"),
        population=population,
        target=target,
        unit=form.get("unit", [now.unit])[0].strip(),
    )


def _exposed(project: Project, columns: Sequence[str], choices: Choices) -> str:
    """Who can be found by one set of columns."""
    sizes = project.alike_now(((tuple(columns),), choices.person))
    by = f"By {', '.join(columns)}"
    if sizes is None:
        return f"{by}: not counted yet."
    below = sizes.below(choices.k)
    share = percent(below / max(1, sizes.total))
    few = counted(choices.k - 1, "other")
    return (
        f"{by}: {sizes.alone:,} stand alone, {below:,} ({share}) have fewer than {few} like them."
    )
