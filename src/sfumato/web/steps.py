"""The steps from a table to a release: configure, explore, risk, utility, release."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.report.registry import page_of
from sfumato.web import views
from sfumato.web.candidates import curve
from sfumato.web.choices import DISTANCES, L_KINDS, ROLES, Choices, methods
from sfumato.web.pages import Form, body, form_of, frame, number_or_none, page, to, whole
from sfumato.web.project import RELEASE_TREES, Project

if TYPE_CHECKING:
    from sfumato.web.app import Workbench

__all__ = ["Steps"]

RANGE = (2, 3, 5, 10, 20, 50)
"""The k that are tried for a curve."""


class Steps:
    """Handlers of the steps; what they share lives in the workbench and its projects."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        """Where the steps are found."""
        base = "/p/{number}"
        return [
            Route(f"{base}/configure", self.configure),
            Route(f"{base}/configure", self.decide, methods=["POST"]),
            Route(f"{base}/configure/meter", self.meter),
            Route(f"{base}/undo", self.undo, methods=["POST"]),
            Route(f"{base}/explore", self.explore),
            Route(f"{base}/risk", self.risk),
            Route(f"{base}/risk", self.keep_k, methods=["POST"]),
            Route(f"{base}/risk/figure", self.risk_figure),
            Route(f"{base}/utility", self.utility),
            Route(f"{base}/utility", self.try_out, methods=["POST"]),
            Route(f"{base}/utility/use", self.use, methods=["POST"]),
            Route(f"{base}/release", self.release),
            Route(f"{base}/release", self.make_release, methods=["POST"]),
            Route(f"{base}/release/files/{{name:path}}", self.file),
        ]

    # Configure

    async def configure(self, request: Request) -> Response:
        project = self.bench.project(request)
        if not project.looked:
            return self.bench.look(project)
        meter = await run_in_threadpool(views.meter, project)
        return page("configure.html.j2", **frame(project, "configure"), roles=ROLES,
                    meter=meter, **_offer())  # fmt: skip

    async def decide(self, request: Request) -> Response:
        project = self.bench.project(request)
        form = await form_of(request)
        if not project.looked:
            raise HTTPException(409, "This table has not been looked at yet.")
        chosen = _decided(project, form)
        edition = whole(form, "edition") if "edition" in form else None
        await run_in_threadpool(project.decide, chosen, edition)
        if "application/json" in request.headers.get("accept", ""):
            return await self._meter(project)
        return to(f"/p/{project.number}/{'explore' if project.qi else 'configure'}")

    async def meter(self, request: Request) -> Response:
        project = self.bench.ready(request)
        if project.can_count_soon:
            await run_in_threadpool(project.class_sizes)
        return await self._meter(project)

    async def _meter(self, project: Project) -> Response:
        said, tone = await run_in_threadpool(views.meter, project)
        return JSONResponse(
            {
                "said": said,
                "tone": tone,
                "undo": project.can_undo,
                "more": project.can_count_soon,
                "edition": project.edition,
            }
        )

    async def undo(self, request: Request) -> Response:
        project = self.bench.project(request)
        form = await form_of(request)
        await run_in_threadpool(project.undo)
        step = form.get("step", ["configure"])[0]
        return to(f"/p/{project.number}/{step if step in ('risk', 'utility') else 'configure'}")

    # Explore and risk

    async def explore(self, request: Request) -> Response:
        project = self.bench.ready(request)
        if not project.has_explored():
            return self.bench.start(
                "Looking for telling combinations", project, "explore", project.explore
            )
        shown = await run_in_threadpool(lambda: body(views.explore(project)))
        return page("explore.html.j2", **frame(project, "explore"), body=shown)

    async def risk(self, request: Request) -> Response:
        project = self.bench.ready(request)
        if not project.has_sizes():
            return self._count(project, "risk")
        k = project.choices.k
        shown = await run_in_threadpool(lambda: body(views.risk(project, k)))
        return page("risk.html.j2", **frame(project, "risk"), body=shown, k=k)

    async def risk_figure(self, request: Request) -> Response:
        project = self.bench.ready(request)
        if not project.has_sizes():
            raise HTTPException(409, "Class sizes are not counted yet.")
        k = whole({"k": [request.query_params.get("k", "")]}, "k")
        if not 2 <= k <= 1_000_000:
            raise ParameterError("k is out of range", remedy="Give 2 or more.")
        return HTMLResponse(await run_in_threadpool(lambda: body(views.risk(project, k))))

    async def keep_k(self, request: Request) -> Response:
        project = self.bench.ready(request)
        form = await form_of(request)
        await run_in_threadpool(project.decide, replace(project.choices, k=whole(form, "k")))
        return to(f"/p/{project.number}/utility")

    # Utility

    async def utility(self, request: Request) -> Response:
        project = self.bench.ready(request)
        picture = await run_in_threadpool(curve, project.candidates, project.choices)
        best = min(project.candidates, key=lambda c: c.lost, default=None)
        return page("utility.html.j2", **frame(project, "utility"), picture=picture, best=best,
                    range=RANGE, **_offer())  # fmt: skip

    async def try_out(self, request: Request) -> Response:
        project = self.bench.ready(request)
        form = await form_of(request)
        chosen = _demanded(project.choices, form)
        tried = [chosen]
        title = f"Trying {chosen.method} with {chosen.demand}"
        if form.get("range", [""])[0]:
            tried = [replace(chosen, k=k) for k in RANGE]
            title = f"Trying {chosen.method} with k from {RANGE[0]} to {RANGE[-1]}"
        else:
            await run_in_threadpool(project.decide, chosen)
        return self.bench.start(
            title, project, "utility", lambda budget: project.try_out(tried, budget)
        )

    async def use(self, request: Request) -> Response:
        project = self.bench.ready(request)
        number = whole(await form_of(request), "candidate")
        for candidate in project.candidates:
            if candidate.number == number:
                await run_in_threadpool(project.decide, candidate.choices)
                return to(f"/p/{project.number}/utility#candidate-{number}")
        raise HTTPException(404, "This candidate is not kept any more.")

    # Release

    async def release(self, request: Request) -> Response:
        project = self.bench.ready(request)
        shown = None
        if project.released is not None:
            release, _ = project.released
            shown = await run_in_threadpool(lambda: body(page_of(release)))
        settings = await run_in_threadpool(
            lambda: project.choices.settings(RELEASE_TREES).to_toml()
        )
        return page("release.html.j2", **frame(project, "release"), body=shown,
                    settings=settings, files=project.files())  # fmt: skip

    async def make_release(self, request: Request) -> Response:
        project = self.bench.ready(request)
        return self.bench.start("Making the release", project, "release", project.release)

    async def file(self, request: Request) -> Response:
        project = self.bench.project(request)
        wanted = request.path_params["name"]
        for place in project.files():  # compared with what may be taken, never opened as it came
            if str(place.relative_to(project.folder)) == wanted:
                return FileResponse(place, filename=place.name)
        raise HTTPException(404, "There is no such file.")

    def _count(self, project: Project, step: str) -> Response:
        def work(budget: Budget) -> None:
            budget.progress("counting who looks alike")
            project.class_sizes(budget)

        return self.bench.start("Counting who looks alike", project, step, work)


def _offer() -> dict[str, Any]:
    """What the form about privacy lets one choose."""
    return {"methods": methods(), "l_kinds": L_KINDS, "distances": DISTANCES}


def _decided(project: Project, form: Form) -> Choices:
    """The decisions of the first page; what it does not ask about stays."""
    names = project.table.columns
    roles = {name: form.get(f"role-{at}", [""])[0] for at, name in enumerate(names)}
    weights = {}
    for at, name in enumerate(names):
        given = number_or_none(form, f"weight-{at}")
        if given is not None and given != 1:
            weights[name] = given
    return _demanded(replace(project.choices, roles=roles, weights=weights), form)


def _demanded(choices: Choices, form: Form) -> Choices:
    """What must hold, and how to get there."""
    share = number_or_none(form, "suppression_limit")
    return replace(
        choices,
        k=whole(form, "k"),
        l=number_or_none(form, "l"),
        l_kind=form.get("l_kind", ["distinct"])[0],
        c=number_or_none(form, "c"),
        t=number_or_none(form, "t"),
        t_distance=form.get("t_distance", [""])[0],
        method=form.get("method", [""])[0],
        suppression_limit=None if share is None else share / 100,
    )
