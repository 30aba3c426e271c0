"""The workbench: tables that are open, jobs that run, and the pages that show them."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sfumato.budget import Budget
from sfumato.errors import ParameterError, SfumatoError, SourceError
from sfumato.web.choices import Choices
from sfumato.web.hierarchy_pages import Editing
from sfumato.web.jobs import Job, Jobs
from sfumato.web.knowledge import Knowledge
from sfumato.web.lattice import Levels
from sfumato.web.pages import BEGAN, form_of, frame, page, to
from sfumato.web.project import Decided, Project
from sfumato.web.reading import read_reading
from sfumato.web.remedies import in_page_words, told
from sfumato.web.sources import ENDINGS, TableFolders, Uploads
from sfumato.web.steps import Steps
from sfumato.web.verbs import VERBS, Asking

__all__ = ["Workbench"]

STATIC = {
    "icon.svg": ("image/svg+xml", "web/static/icon.svg"),
    "report.css": ("text/css", "report/templates/report.css"),
    "workbench.css": ("text/css", "web/static/workbench.css"),
    "workbench.js": ("text/javascript", "web/static/workbench.js"),
    "drag.js": ("text/javascript", "web/static/drag.js"),
    "columns.js": ("text/javascript", "web/static/columns.js"),
    "roles.js": ("text/javascript", "web/static/roles.js"),
    "tree.js": ("text/javascript", "web/static/tree.js"),
}
"""What pages load, and where it lies in the package."""
DEMO = "made-up-patients.csv"
DEMO_ROWS = 5000


class NothingKnown(ParameterError):
    """A page was asked for that is about what others may know, and nothing is."""


class AroundRequest:
    """Lets errors name what pages let one set as they do, and pages say when they were asked."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        BEGAN.set(time.monotonic())
        with in_page_words():
            await self.app(scope, receive, send)


class Workbench:
    """All that is open, and the application that shows it."""

    def __init__(
        self, shelf: TableFolders, jobs: Jobs | None = None, uploads: Uploads | None = None
    ) -> None:
        self.shelf = shelf
        self.jobs = jobs or Jobs()
        self.uploads = uploads or Uploads()
        self.projects: dict[str, Project] = {}
        self._opening: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.app = Starlette(
            routes=[
                Route("/", self.home),
                Route("/open", self.open, methods=["POST"]),
                Route("/upload", self.upload, methods=["POST"]),
                Route("/demo", self.demo, methods=["POST"]),
                Route("/static/{name}", self.static),
                Route("/jobs", self.tray),
                Route("/jobs/{number}", self.job),
                Route("/jobs/{number}/finish", self.finish, methods=["POST"]),
                Route("/jobs/{number}/events", self.events),
                Route("/jobs/{number}/cancel", self.cancel, methods=["POST"]),
                Route("/p/{number}/close", self.close_project, methods=["POST"]),
                Route("/p/{number}/anew", self.begin_anew, methods=["POST"]),
                *Steps(self).routes(),
                *Editing(self).routes(),
                *Asking(self).routes(),
                *Levels(self).routes(),
                *Knowledge(self).routes(),
            ],
            exception_handlers={
                SfumatoError: self.problem,
                HTTPException: self.problem,
                Exception: self.problem,
            },
            lifespan=self._lifespan,
            middleware=[Middleware(AroundRequest)],
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(self.uploads.tidy)
        try:
            yield
        finally:
            await run_in_threadpool(self.close)

    def close(self) -> None:
        """Stop all work, close all tables, and remove what was uploaded."""
        self.jobs.close()
        while self.projects:
            self.projects.popitem()[1].close()
        self.uploads.close()

    # Tables

    async def home(self, request: Request) -> Response:
        tables = await run_in_threadpool(self.shelf.listed)
        projects = list(self.projects.values())
        closed = [one for one in tables if one.place not in [p.source for p in projects]]
        working = {one.after.split("/")[2] for one in self.jobs.running()}
        return page("home.html.j2", working=working, begun=[one for one in closed if one.begun],
                    tables=[one for one in closed if not one.begun], projects=projects,
                    endings=ENDINGS, most=self.uploads.most)  # fmt: skip

    async def open(self, request: Request) -> Response:
        form = await form_of(request)
        place = await run_in_threadpool(self.shelf.table, form.get("table", [""])[0])
        step = "release" if "release" in form else "configure"
        async with self._opening[place]:  # who clicks twice opens it once
            for old in self.projects.values():
                if old.source == place:
                    return to(f"/p/{old.number}/{step}")
            return await self._open(place, step)

    async def upload(self, request: Request) -> Response:
        if request.headers.get("content-type") != "application/octet-stream":
            raise HTTPException(415, "A table is sent as it is.")
        size = request.headers.get("content-length", "0")
        if not size.isdigit() or int(size) > self.uploads.most:
            raise HTTPException(413, "This table is too large to be uploaded.")
        name = request.query_params.get("name", "")
        return await self._open(await self.uploads.receive(name, request.stream()))

    async def demo(self, request: Request) -> Response:
        from sfumato.demo import write_people

        place = self.uploads.place(DEMO)
        try:
            await run_in_threadpool(write_people, place, DEMO_ROWS, 0)
        except BaseException:
            self.uploads.remove(place)
            raise
        return await self._open(place)

    async def _open(self, place: Path, step: str = "configure") -> Response:
        project = Project(place, kept=not self.uploads.holds(place))
        if project.folder.is_file() and not project.folder.is_symlink():
            raise SourceError(
                "a file lies where decisions and releases of the table would be kept",
                where=str(project.folder),
                remedy="Rename or move that file, and open the table again; or drop the table on "
                "the first page: then all is kept in a private folder while it is open.",
            )
        try:
            project.reading = await run_in_threadpool(read_reading, project.folder)
        except SourceError as error:  # the page that says so lets one say it anew
            project.problem = told(error)
        self.projects[project.number] = project
        self._tell_apart()
        return self.look(project, step)

    def _tell_apart(self) -> None:
        """Say of tables of one name where they lie."""
        names = Counter(one.source.name for one in self.projects.values())
        uploads: Counter[str] = Counter()
        for one in self.projects.values():
            name = one.source.name
            uploads[name] += not one.kept
            said = f"in {one.source.parent}" if one.kept else f"upload {uploads[name]}"
            one.apart = said if names[name] > 1 else ""

    async def close_project(self, request: Request) -> Response:
        project = self.project(request)
        del self.projects[project.number]
        self._tell_apart()
        for job in self.jobs.running():
            if job.after.startswith(f"/p/{project.number}/"):
                self.jobs.cancel(job)
        await run_in_threadpool(project.close)
        await run_in_threadpool(self.uploads.remove, project.source)
        return to("/")

    async def begin_anew(self, request: Request) -> Response:
        """Set decisions aside that cannot be read, and look at the table without them."""
        project = self.project(request)
        await run_in_threadpool(project.set_aside)
        return self.look(project)

    # Jobs

    async def job(self, request: Request) -> Response:
        job = replace(self._job(request))  # as it is now: it may end while the page is drawn
        if job.state == "done":
            return to(job.after)
        return page("job.html.j2", job=job, back=_back(job.after), **self._around(job.after))

    async def tray(self, request: Request) -> Response:
        """What runs, and what a page that is about a table does not know yet."""
        found: dict[str, Any] = {"running": [job.in_tray() for job in self.jobs.running()]}
        number = request.query_params.get("of", "")
        if number:
            project = self.projects.get(number)
            ended = self.jobs.ended_since(_moment(request), f"/p/{number}/")
            found["ended"] = [job.in_tray() for job in ended]
            found["open"] = project is not None
            found["edition"] = None if project is None else project.decided.edition
        return JSONResponse(found)

    async def finish(self, request: Request) -> Response:
        job = self._job(request)
        self.jobs.finish(job)
        return to(f"/jobs/{job.number}")

    async def events(self, request: Request) -> Response:
        job = self._job(request)

        async def stream() -> AsyncIterator[str]:
            last = None
            while True:
                now = json.dumps(job.to_dict())
                if now != last:
                    yield f"data: {now}\n\n"
                    last = now
                if json.loads(now)["state"] in ("done", "failed", "cancelled"):
                    return
                await asyncio.sleep(0.15)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def cancel(self, request: Request) -> Response:
        job = self._job(request)
        self.jobs.cancel(job)
        return to(f"/jobs/{job.number}")

    def start(
        self,
        title: str,
        project: Project,
        step: str,
        work: Callable[[Budget], object],
        keeps: bool = False,
    ) -> Response:
        """Begin a job, and show the page that follows it; `keeps`: it can end with its best."""
        after = f"/p/{project.number}/{step}"
        for running in self.jobs.running():
            same = (running.title, running.after) == (title, after)
            if same and not running.budget.spent():
                return to(f"/jobs/{running.number}")  # asked for twice: by a reload, or in haste

        def worded(budget: Budget) -> object:
            with in_page_words():
                return work(budget)

        table, queue = project.label, project.number
        job = self.jobs.start(title, after, worded, table, keeps, queue)
        return to(f"/jobs/{job.number}")

    def look(self, project: Project, step: str = "configure") -> Response:
        """Begin the first look at a table, or go where it is said why that failed."""
        if project.problem:
            return to(f"/p/{project.number}/import")
        return self.start(f"First look at {project.label}", project, step, project.look)

    # Helpers

    async def static(self, request: Request) -> Response:
        found = STATIC.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "There is no such page.")
        kind, place = found
        return Response(_read(place), media_type=kind)

    async def problem(self, request: Request, error: Exception) -> Response:
        status, said = _told(error)
        if status == 303:
            return to(said)
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"problem": said}, status)
        around = self._around(request.url.path)
        if isinstance(error, NothingKnown) and request.method == "GET" and around:
            step = request.url.path.rpartition("/")[2]
            return page("unknown.html.j2", **{**around, "step": step}, verbs=VERBS)
        back = f"/p/{around['project'].number}/configure" if around else "/"
        return page("problem.html.j2", status=status, said=said, back=back, **around)

    def _around(self, place: str) -> dict[str, Any]:
        """The frame of the table that a place belongs to; nothing where it belongs to none."""
        _, _, number = place.partition("/p/")
        project = self.projects.get(number.partition("/")[0])
        return {} if project is None else frame(project, project.decided, "")

    def project(self, request: Request) -> Project:
        """The project a request is about."""
        found = self.projects.get(request.path_params["number"])
        if found is None:
            raise HTTPException(404, "This table is not open any more.")
        return found

    def ready(self, request: Request, known: bool = True) -> tuple[Project, Decided]:
        """A project that was looked at, and its decisions; `known`: what others may know too."""
        project = self.project(request)
        decided = project.decided
        if not project.looked:  # its page looks, or says why that did not work
            raise HTTPException(303, f"/p/{project.number}/configure")
        if known and not decided.choices.qi:
            raise NothingKnown(
                "no column is marked as known to others",
                remedy="Mark at least one under Configure.",
            )
        return project, decided

    def tables(self) -> list[Path]:
        """Tables that may be opened: those in the folders, and those that are."""
        opened = [one.source for one in self.projects.values()]
        return list(dict.fromkeys([*self.shelf.tables(), *opened]))

    def may_open(self, choices: Choices) -> None:
        """Refuse a population that was named elsewhere: decisions may come with a folder."""
        if choices.population and choices.population not in map(str, self.tables()):
            raise ParameterError(
                "the population is not in the folders that were opened",
                remedy="Choose another under Risk (who knows what), or name its folder.",
            )

    def _job(self, request: Request) -> Job:
        found = self.jobs.find(request.path_params["number"])
        if found is None:
            raise HTTPException(404, "This work is over.")
        return found


def _moment(request: Request) -> float:
    """When the page that asks was made; one that does not say so knows everything."""
    try:
        return float(request.query_params.get("since", ""))
    except ValueError:
        return math.inf


def _back(after: str) -> str:
    """Where to go on when work came to nothing: pages that would begin it again are left out."""
    project, _, step = after.partition("?")[0].rpartition("/")
    if step == "rows":
        return after.partition("?")[0]
    if project.endswith("/columns"):
        return f"{project.removesuffix('/columns')}/configure"
    if project.endswith("/ask") or step in ("lattice", "knowledge"):
        return after
    return {"configure": "/", "utility": after, "release": after}.get(step, f"{project}/configure")


def _told(error: Exception) -> tuple[int, str]:
    """How a problem is answered."""
    if isinstance(error, HTTPException):
        strange = error.status_code == 404 and error.detail == "Not Found"
        return error.status_code, "There is no such page." if strange else error.detail
    return 400 if isinstance(error, SfumatoError) else 500, told(error)


@cache
def _read(place: str) -> bytes:
    return (Path(__file__).parents[1] / place).read_bytes()
