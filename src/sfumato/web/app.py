"""The workbench: tables that are open, jobs that run, and the pages that show them."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

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
from sfumato.web.opened import Decided
from sfumato.web.outcomes import Outcomes
from sfumato.web.pages import BEGAN, form_of, frame, in_page_words, page, to, told
from sfumato.web.project import Project
from sfumato.web.sources import ENDINGS, TableFolders, Uploads, read_reading
from sfumato.web.steps import Steps
from sfumato.web.verbs import VERBS, Asking

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


State = Literal["waiting", "running", "done", "failed", "cancelled"]
KEPT = 100
"""Finished jobs remembered."""


@dataclass(eq=False)
class Job:
    """One piece of work; `number` names it."""

    number: str
    title: str
    after: str
    """The page that shows the outcome."""
    table: str = ""
    keeps: bool = False
    """Whether it can end early with the best it has."""
    asked: object = None
    """What was asked for, where its title does not say it all."""
    state: State = "waiting"
    doing: str = "waiting"
    share: float | None = None
    problem: str | None = None
    began: float | None = None
    """When it came to its turn, by `time.monotonic`."""
    ended: float | None = None
    """When it came to its end, by `time.monotonic`; None of one that never began."""
    budget: Budget = field(default_factory=Budget)

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def to_dict(self) -> dict[str, Any]:
        """What the page is told."""
        return {"state": self.state, "doing": self.doing, "share": self.share,
                "problem": self.problem, "after": self.after}  # fmt: skip

    def in_tray(self) -> dict[str, Any]:
        """What every page is told while it runs, and pages that are older once it has ended."""
        lasted = 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began
        return {"number": self.number, "title": self.title, "table": self.table,
                "doing": self.doing, "share": self.share, "keeps": self.keeps,
                "elapsed": round(lasted), "state": self.state}  # fmt: skip


Work = Callable[[Budget], object]


class Jobs:
    """Runs jobs in a few threads; the compiled loops below do not hold Python's lock.

    Jobs of one queue run one after the other and take one thread together, so that work on a
    table never waits for that on another.
    """

    def __init__(self, workers: int = 8) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="sfumato-job")
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, deque[tuple[Job, Work]]] = {}
        """What waits for a job that runs; a queue is there as long as one does."""
        self._lock = threading.Lock()

    def start(
        self,
        title: str,
        after: str,
        work: Work,
        table: str = "",
        keeps: bool = False,
        queue: str | None = None,
        asked: object = None,
    ) -> Job:
        """Run `work` in the background, after what is in its queue already."""
        job = Job(secrets.token_hex(8), title, after, table, keeps, asked)
        job.budget.on_progress = lambda doing, share: self._progress(job, doing, share)
        with self._lock:
            finished = [number for number, old in self._jobs.items() if old.finished]
            for number in finished[: max(0, len(self._jobs) - KEPT)]:
                del self._jobs[number]
            self._jobs[job.number] = job
            if queue is not None and queue in self._queues:
                job.doing = "waiting for other work on this table"
                self._queues[queue].append((job, work))
                return job
            if queue is not None:
                self._queues[queue] = deque()
        self._pool.submit(self._run_queue, queue, job, work)
        return job

    def _run_queue(self, queue: str | None, job: Job, work: Work) -> None:
        """Run a job, and those that came into its queue meanwhile."""
        while True:
            self._run(job, work)
            with self._lock:
                if queue is None or not self._queues[queue]:
                    self._queues.pop(queue or "", None)
                    return
                job, work = self._queues[queue].popleft()

    def find(self, number: str) -> Job | None:
        """A job by its number."""
        return self._jobs.get(number)

    def running(self) -> list[Job]:
        with self._lock:
            return [job for job in self._jobs.values() if not job.finished]

    def ended_since(self, moment: float, under: str) -> list[Job]:
        """Jobs that ended after a moment and whose outcome is shown under an address."""
        with self._lock:
            return [
                job
                for job in self._jobs.values()
                if job.finished
                and job.ended is not None
                and job.ended > moment
                and job.after.startswith(under)
            ]

    def cancel(self, job: Job) -> None:
        """Ask a job to stop; one that has not begun never will."""
        job.budget.cancel()
        if job.state == "waiting":
            job.state = "cancelled"

    def finish(self, job: Job) -> None:
        """Ask a job to end with the best it has."""
        job.budget.end()

    def close(self) -> None:
        """Stop everything and wait until it has stopped."""
        for job in self.running():
            self.cancel(job)
        self._pool.shutdown(wait=True, cancel_futures=True)
        for job in self.running():  # those that never began
            job.state = "cancelled"

    @staticmethod
    def _progress(job: Job, doing: str, share: float | None) -> None:
        job.doing, job.share = doing, share

    @classmethod
    def _run(cls, job: Job, work: Work) -> None:
        if job.budget.spent():
            job.state = "cancelled"
            return
        job.began = time.monotonic()
        job.state = "running"
        state = cls._work(job, work)
        job.ended = time.monotonic()  # before anybody sees that it has
        job.state = state

    @staticmethod
    def _work(job: Job, work: Work) -> State:
        """Do it, and say how it ended."""
        try:
            with job.budget.at_work():
                work(job.budget)
        except SfumatoError as error:
            job.problem = told(error)
            # Work that was told to stop may end with any refusal, whether it had heard or not.
            return "cancelled" if job.budget.spent() else "failed"
        except Exception as error:
            job.problem = told(error)
            return "failed"
        return "cancelled" if job.budget.stopped_by == "cancelled" else "done"


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
        self._starting = threading.Lock()
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
                *Outcomes(self).routes(),
                *Editing(self).routes(),
                *Asking(self).routes(),
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
            project.problem = error
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
        asked: object = None,
    ) -> Response:
        """Begin a job, and show the page that follows it; `keeps`: it can end with its best."""
        after = f"/p/{project.number}/{step}"

        def worded(budget: Budget) -> object:
            with in_page_words():
                return work(budget)

        with self._starting:
            for running in self.jobs.running():
                same = (running.title, running.after, running.asked) == (title, after, asked)
                if same and not running.budget.spent():  # asked for twice: by a reload, or in haste
                    return to(f"/jobs/{running.number}")
            table, queue = project.label, project.number
            job = self.jobs.start(title, after, worded, table, keeps, queue, asked)
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
        home = f"/p/{around['project'].number}/" if around else "/"
        came = urlsplit(request.headers.get("referer", "")).path if around else ""
        back = came if came.startswith(home) else f"{home}configure" if around else home
        said = said.replace("Load this page again", "Go back")  # this one would ask for it again
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
        opened = [one.source for one in list(self.projects.values())]
        return list(dict.fromkeys([*self.shelf.tables(), *opened]))

    def may_open(self, choices: Choices) -> None:
        """Refuse a population that was named elsewhere: decisions may come with a folder."""
        if choices.population and choices.population not in map(str, self.tables()):
            raise ParameterError(
                "the population is not in the folders that were opened",
                remedy="Choose another under Risk (who knows what), or name its folder.",
            )
        if choices.population:
            choices.match_people()

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
