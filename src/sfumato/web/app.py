"""The workbench's pages: configure, explore, risk, utility, release."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.errors import ParameterError, SfumatoError
from sfumato.report.registry import page_of
from sfumato.report.writing import body_html
from sfumato.tables import table
from sfumato.web import views
from sfumato.web.jobs import Job, Jobs
from sfumato.web.project import ROLES, Choices, Project, methods
from sfumato.web.shelf import Shelf

__all__ = ["Workbench"]

STEPS = ("configure", "explore", "risk", "utility", "release")
LARGEST_FORM = 4_000_000
"""Bytes of a form; a table of ten thousand columns needs less."""
STATIC = {
    "icon.svg": ("image/svg+xml", "web/static/icon.svg"),
    "report.css": ("text/css", "report/templates/report.css"),
    "workbench.css": ("text/css", "web/static/workbench.css"),
    "workbench.js": ("text/javascript", "web/static/workbench.js"),
}
"""What pages load, and where it lies in the package."""


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("sfumato.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class Workbench:
    """All that is open, and the application that shows it."""

    def __init__(self, shelf: Shelf, jobs: Jobs | None = None) -> None:
        self.shelf = shelf
        self.jobs = jobs or Jobs()
        self.projects: dict[str, Project] = {}
        project = "/p/{number}"
        self.app = Starlette(
            routes=[
                Route("/", self.home),
                Route("/open", self.open, methods=["POST"]),
                Route("/static/{name}", self.static),
                Route("/jobs/{number}", self.job),
                Route("/jobs/{number}/events", self.events),
                Route("/jobs/{number}/cancel", self.cancel, methods=["POST"]),
                Route(f"{project}/configure", self.configure),
                Route(f"{project}/configure", self.decide, methods=["POST"]),
                Route(f"{project}/undo", self.undo, methods=["POST"]),
                Route(f"{project}/close", self.close_project, methods=["POST"]),
                Route(f"{project}/explore", self.explore),
                Route(f"{project}/risk", self.risk),
                Route(f"{project}/risk/figure", self.risk_figure),
                Route(f"{project}/utility", self.utility),
                Route(f"{project}/utility", self.try_out, methods=["POST"]),
                Route(f"{project}/release", self.release),
                Route(f"{project}/release", self.make_release, methods=["POST"]),
            ],
            exception_handlers={SfumatoError: self.problem, HTTPException: self.problem},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await run_in_threadpool(self.close)

    def close(self) -> None:
        """Stop all work and close all tables."""
        self.jobs.close()
        for project in self.projects.values():
            project.close()
        self.projects.clear()

    # Pages

    async def home(self, request: Request) -> Response:
        tables = await run_in_threadpool(self.shelf.tables)
        return _page("home.html.j2", tables=tables, projects=list(self.projects.values()))

    async def open(self, request: Request) -> Response:
        form = await _form(request)
        place = self.shelf.table(form.get("table", [""])[0])
        for old in self.projects.values():
            if old.source == place:
                return _to(f"/p/{old.number}/configure")
        project = Project(place, await run_in_threadpool(table, str(place)))
        self.projects[project.number] = project
        return self._look(project)

    async def configure(self, request: Request) -> Response:
        project = self._project(request)
        if project.scan is None:
            return self._look(project)
        return _page("configure.html.j2", **_frame(project, "configure"), roles=ROLES,
                     methods=methods(), columns=project.scan.columns)  # fmt: skip

    async def decide(self, request: Request) -> Response:
        project = self._project(request)
        form = await _form(request)
        names = project.table.columns
        roles = {name: form.get(f"role-{at}", [""])[0] for at, name in enumerate(names)}
        chosen = Choices(roles, _whole(form, "k"), form.get("method", [""])[0])
        await run_in_threadpool(project.decide, chosen)
        return _to(f"/p/{project.number}/{'explore' if project.qi else 'configure'}")

    async def undo(self, request: Request) -> Response:
        project = self._project(request)
        await run_in_threadpool(project.undo)
        return _to(f"/p/{project.number}/configure")

    async def close_project(self, request: Request) -> Response:
        project = self._project(request)
        del self.projects[project.number]
        for job in self.jobs.running():
            if job.after.startswith(f"/p/{project.number}/"):
                self.jobs.cancel(job)
        await run_in_threadpool(project.close)
        return _to("/")

    async def explore(self, request: Request) -> Response:
        project = self._ready(request)
        if not project.has_sizes():
            return self._count(project, "explore")
        body = await run_in_threadpool(lambda: body_html(views.explore(project)))
        return _page("body.html.j2", **_frame(project, "explore"), body=body)

    async def risk(self, request: Request) -> Response:
        project = self._ready(request)
        if not project.has_sizes():
            return self._count(project, "risk")
        k = project.choices.k
        body = await run_in_threadpool(lambda: body_html(views.risk(project, k)))
        return _page("risk.html.j2", **_frame(project, "risk"), body=body, k=k)

    async def risk_figure(self, request: Request) -> Response:
        project = self._ready(request)
        if not project.has_sizes():
            raise HTTPException(409, "Class sizes are not counted yet.")
        k = _whole({"k": [request.query_params.get("k", "")]}, "k")
        if not 2 <= k <= 1_000_000:
            raise ParameterError("k is out of range", remedy="Give 2 or more.")
        return HTMLResponse(await run_in_threadpool(lambda: body_html(views.risk(project, k))))

    async def utility(self, request: Request) -> Response:
        project = self._ready(request)
        body = None
        if project.candidates:
            body = await run_in_threadpool(lambda: body_html(views.candidates(project)))
        return _page("utility.html.j2", **_frame(project, "utility"), body=body, methods=methods())

    async def try_out(self, request: Request) -> Response:
        project = self._ready(request)
        form = await _form(request)
        chosen = replace(project.choices, k=_whole(form, "k"), method=form.get("method", [""])[0])
        return self._start(
            f"Trying {chosen.method} with k = {chosen.k}",
            project,
            "utility",
            lambda budget: project.try_out(chosen, budget),
        )

    async def release(self, request: Request) -> Response:
        project = self._ready(request)
        body = None
        if project.released is not None:
            release, _ = project.released
            body = await run_in_threadpool(lambda: body_html(page_of(release)))
        return _page("release.html.j2", **_frame(project, "release"), body=body,
                     settings=project.choices.settings.to_toml())  # fmt: skip

    async def make_release(self, request: Request) -> Response:
        project = self._ready(request)
        return self._start("Making the release", project, "release", project.release)

    # Jobs

    async def job(self, request: Request) -> Response:
        job = self._job(request)
        if job.state == "done":
            return _to(job.after)
        return _page("job.html.j2", job=job)

    async def events(self, request: Request) -> Response:
        job = self._job(request)

        async def told() -> AsyncIterator[str]:
            last = None
            while True:
                now = json.dumps(job.to_dict())
                if now != last:
                    yield f"data: {now}\n\n"
                    last = now
                if json.loads(now)["state"] in ("done", "failed", "cancelled"):
                    return
                await asyncio.sleep(0.15)

        return StreamingResponse(told(), media_type="text/event-stream")

    async def cancel(self, request: Request) -> Response:
        job = self._job(request)
        self.jobs.cancel(job)
        return _to(f"/jobs/{job.number}")

    # Helpers

    async def static(self, request: Request) -> Response:
        found = STATIC.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "There is no such page.")
        kind, place = found
        return Response(_read(place), media_type=kind)

    async def problem(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 400
        said = error.detail if isinstance(error, HTTPException) else str(error)
        return _page("problem.html.j2", status=status, said=said)

    def _project(self, request: Request) -> Project:
        found = self.projects.get(request.path_params["number"])
        if found is None:
            raise HTTPException(404, "This table is not open any more.")
        return found

    def _ready(self, request: Request) -> Project:
        """A project of which it is known what others may know."""
        project = self._project(request)
        if project.scan is None or not project.qi:
            raise ParameterError(
                "no column is marked as known to others",
                remedy="Mark at least one quasi-identifier under Configure.",
            )
        return project

    def _job(self, request: Request) -> Job:
        found = self.jobs.find(request.path_params["number"])
        if found is None:
            raise HTTPException(404, "This work is over.")
        return found

    def _look(self, project: Project) -> Response:
        return self._start(
            f"First look at {project.source.name}", project, "configure", project.look
        )

    def _count(self, project: Project, step: str) -> Response:
        def work(budget: Budget) -> None:
            budget.progress("counting who looks alike")
            project.class_sizes(budget)

        return self._start("Counting who looks alike", project, step, work)

    def _start(
        self, title: str, project: Project, step: str, work: Callable[[Budget], None]
    ) -> Response:
        after = f"/p/{project.number}/{step}"
        for running in self.jobs.running():
            if (running.title, running.after) == (title, after):
                return _to(f"/jobs/{running.number}")  # asked for twice: by a reload, or in haste
        job = self.jobs.start(title, after, work)
        return _to(f"/jobs/{job.number}")


@cache
def _read(place: str) -> bytes:
    return (Path(__file__).parents[1] / place).read_bytes()


def _page(template: str, *, status: int = 200, **context: Any) -> Response:
    text = _templates().get_template(template).render(status=status, **context)
    return HTMLResponse(text, status)


def _frame(project: Project, step: str) -> dict[str, Any]:
    return {"project": project, "step": step, "steps": STEPS}


def _to(place: str) -> Response:
    return RedirectResponse(place, 303)


async def _form(request: Request) -> dict[str, list[str]]:
    """The fields of a form; nothing larger than a form is read."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            raise HTTPException(413, "This is too large for a form.")
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50_000)
    except (UnicodeDecodeError, ValueError) as error:
        raise HTTPException(400, "This is not a form.") from error


def _whole(form: dict[str, list[str]], name: str) -> int:
    try:
        return int(form.get(name, [""])[0])
    except ValueError as error:
        raise ParameterError(f"{name} is not a whole number") from error
