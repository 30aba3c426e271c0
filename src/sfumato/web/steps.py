"""The steps from a table to a release: configure, explore, risk, utility, release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.engines.foreign import FOREIGN, parts_of
from sfumato.errors import ParameterError
from sfumato.report.page import body_html
from sfumato.web import pages
from sfumato.web.candidates import best_of, curve, names_of
from sfumato.web.choices import DEMANDS, DISTANCES, FIRST, Choices, methods
from sfumato.web.jobs import Job
from sfumato.web.pages import Form, edition_of, form_of, frame, number_or_none, page, to, whole
from sfumato.web.project import MOST_AT_HAND, Decided, Project, in_time
from sfumato.web.reading import DELIMITERS, KINDS, Reading
from sfumato.web.rows import ORDERS, rows_of
from sfumato.web.verbs import VERBS
from sfumato.wording import phrase

if TYPE_CHECKING:
    from sfumato.web.app import Workbench

__all__ = ["Steps"]

FOREIGN_ENDINGS = {".parquet", ".pq", ".arrow", ".feather", ".ipc"} | {
    f".{end}" for one in FOREIGN.values() for end in one.endings
}
"""Of files that are no text, about which there is less to say."""
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
            Route(f"{base}/import", self.reading),
            Route(f"{base}/import", self.read, methods=["POST"]),
            Route(f"{base}/import/rows", self.show_first, methods=["POST"]),
            Route(f"{base}/configure", self.configure),
            Route(f"{base}/configure", self.decide, methods=["POST"]),
            Route(f"{base}/configure/meter", self.meter),
            Route(f"{base}/undo", self.undo, methods=["POST"]),
            Route(f"{base}/explore", self.explore),
            Route(f"{base}/risk", self.risk),
            Route(f"{base}/risk", self.keep_demands, methods=["POST"]),
            Route(f"{base}/risk/figure", self.risk_figure),
            Route(f"{base}/utility", self.utility),
            Route(f"{base}/utility", self.try_out, methods=["POST"]),
            Route(f"{base}/utility/use", self.use, methods=["POST"]),
            Route(f"{base}/release", self.release),
            Route(f"{base}/release", self.make_release, methods=["POST"]),
            Route(f"{base}/release/rows", self.rows),
            Route(f"{base}/release/rows", self.show_rows, methods=["POST"]),
            Route(f"{base}/release/rows/other", self.other_rows, methods=["POST"]),
            Route(f"{base}/release/show", self.show_release, methods=["POST"]),
            Route(f"{base}/release/files/{{name:path}}", self.file),
            Route(f"{base}/release/certificates/{{name}}.pdf", self.certificate),
        ]

    # How the file is read

    async def reading(self, request: Request) -> Response:
        project = self.bench.project(request)
        if not project.looked and not project.problem:
            return self.bench.look(project, "import")
        asked = project.tried or project.reading
        text = not FOREIGN_ENDINGS & set(project.source.suffixes)
        return page("import.html.j2", **frame(project, project.decided, "import"), asked=asked,
                    text=text, kinds=KINDS, delimiters=DELIMITERS, names=_named(project),
                    parts=await run_in_threadpool(parts_of, project.source))  # fmt: skip

    async def read(self, request: Request) -> Response:
        project = self.bench.project(request)
        form = await form_of(request)
        asked = Reading.asked(form, _named(project))

        def work(budget: Budget) -> None:
            project.look(budget, asked)
            if not project.problem:
                project.keep_reading()

        return self.bench.start(f"Reading {project.label}", project, "import", work)

    async def show_first(self, request: Request) -> Response:
        project = self.bench.project(request)
        project.rows_shown = True
        return to(f"/p/{project.number}/import#rows")

    # Configure

    async def configure(self, request: Request) -> Response:
        project = self.bench.project(request)
        if not project.looked:
            return self.bench.look(project)
        decided = project.decided
        project.view = request.query_params.get("view", project.view)
        sort = request.query_params.get("sort", "")
        meter = await run_in_threadpool(pages.meter, project, decided.choices)
        return page("configure.html.j2", **frame(project, decided, "configure"),
                    roles=pages.LANES, meter=meter, blurred=pages.blurred(project, decided.choices),
                    more=project.can_count_soon(decided.choices.counted),
                    listed=pages.listed(project, decided.choices, sort),
                    keys=await run_in_threadpool(self.bench.shelf.keys))  # fmt: skip

    async def decide(self, request: Request) -> Response:
        project = self.bench.project(request)
        form = await form_of(request)
        if not project.looked:
            raise HTTPException(409, "This table has not been looked at yet.")
        keys = await run_in_threadpool(self.bench.shelf.keys)
        decided = await run_in_threadpool(
            project.alter, lambda now: _decided(project, now, form, keys), edition_of(form)
        )
        if "application/json" in request.headers.get("accept", ""):
            return await self._meter(project, decided)
        stays = not decided.choices.qi or {"bulk", "rest"} & set(form)
        return to(f"/p/{project.number}/{'configure' if stays else 'explore'}")

    async def meter(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        if project.can_count_soon(decided.choices.counted):
            await run_in_threadpool(project.alike, decided.choices.counted)
        return await self._meter(project, decided)

    async def _meter(self, project: Project, decided: Decided) -> Response:
        choices = decided.choices
        said, tone = await run_in_threadpool(pages.meter, project, choices)
        return JSONResponse(
            {
                "said": said,
                "tone": tone,
                "lacks": choices.gap is not None,
                "undo": decided.can_undo,
                "more": project.can_count_soon(choices.counted),
                "edition": decided.edition,
                "blurred": list(pages.blurred(project, choices).values()),
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
        project, decided = self.bench.ready(request)
        choices = decided.choices

        def work(budget: Budget) -> None:
            project.explore(choices, budget)
            budget.progress("drawing")  # here, and not while the page waits: it is drawn once
            body_html(pages.explore(project, choices))

        if not project.has_explored(choices):
            return self.bench.start("Looking for telling combinations", project, "explore", work)
        shown = await run_in_threadpool(lambda: body_html(pages.explore(project, choices)))
        return page(
            "explore.html.j2", **frame(project, decided, "explore"), verbs=VERBS, body=shown
        )

    async def risk(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices
        if not project.has_alike(choices.counted):
            return self._count(project)
        shown = await run_in_threadpool(lambda: body_html(pages.risk(project, choices)))
        return page("risk.html.j2", **frame(project, decided, "risk"), verbs=VERBS,
                    body=shown, demands=DEMANDS, first=FIRST, distances=DISTANCES)  # fmt: skip

    async def risk_figure(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        counted = await run_in_threadpool(project.alike_now, decided.choices.counted)
        if counted is None:
            raise HTTPException(409, "Class sizes are not counted yet.")
        k = whole({"k": [request.query_params.get("k", "")]}, "k")
        choices = decided.choices.asking(k=k)
        return HTMLResponse(
            await run_in_threadpool(lambda: body_html(pages.risk(project, choices)))
        )

    async def keep_demands(self, request: Request) -> Response:
        project, _ = self.bench.ready(request)
        form = await form_of(request)
        whole(form, "k")  # without it this is not the form
        decided = await run_in_threadpool(
            project.alter, lambda now: _demanded(now, form, ()), edition_of(form)
        )
        if "application/json" in request.headers.get("accept", ""):
            return await self._meter(project, decided)
        return to(f"/p/{project.number}/utility")

    # Utility

    async def utility(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        candidates = project.candidates
        picture = await run_in_threadpool(curve, candidates, decided.choices)
        return page("utility.html.j2", **frame(project, decided, "utility"), verbs=VERBS,
                    picture=picture, candidates=candidates,
                    tried=any(one.choices.same(decided.choices) for one in candidates),
                    best=best_of(candidates, decided.choices), range=RANGE,
                    names=names_of(candidates, decided.choices), methods=methods(),
                    along=pages.along(decided.choices))  # fmt: skip

    async def try_out(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        form = await form_of(request)
        keys = await run_in_threadpool(self.bench.shelf.keys)
        in_time(edition_of(form), decided)
        if "method" not in form:
            raise ParameterError("no method is ticked", remedy="Tick at least one.")
        decided = await run_in_threadpool(  # levels of a node are searched for again
            project.alter, lambda now: replace(_demanded(now, form, keys), levels={})
        )
        chosen = decided.choices
        await run_in_threadpool(self.bench.may_open, chosen)
        others = [name for name in form.get("method", []) if name != chosen.method]
        ways = [*(replace(chosen, method=name) for name in others), chosen]
        ranged = bool(form.get("range", [""])[0])
        sizes = await run_in_threadpool(project.alike_now, chosen.counted)
        whole = project.rows if sizes is None else sizes.total
        some = [k for k in RANGE if k <= whole]
        ks = [*(k for k in some if k != chosen.k), chosen.k] if ranged else [chosen.k]
        # What is chosen comes last, where the list of candidates begins.
        tried = [way.asking(k=k) for way in ways for k in ks]
        named = phrase([way.method for way in ways], len(ways))
        with_k = f"k from {min(ks)} to {max(ks)}" if ranged else chosen.demand
        title = f"Trying {named} with {with_k}"
        return self.bench.start(
            title, project, "utility", lambda budget: project.try_out(tried, budget), True
        )

    async def use(self, request: Request) -> Response:
        project, _ = self.bench.ready(request)
        number = whole(await form_of(request), "candidate")
        for candidate in project.candidates:
            if candidate.number == number:
                await run_in_threadpool(project.decide, candidate.choices)
                return to(f"/p/{project.number}/utility#candidate-{number}")
        raise HTTPException(404, "This candidate is not kept any more.")

    # Release

    async def release(self, request: Request) -> Response:
        project, decided = self.bench.ready(request, known=False)
        made = project.made
        if made is not None and await run_in_threadpool(project.altered, made):
            project.made = None  # what lies there is measured again before anything is said of it
            return self._show(project, made.name)
        latest = None if made or project.stale else await run_in_threadpool(project.latest)
        if latest is not None and not any(j.after == _place(project) for j in self._running()):
            return self._show(project, latest)
        changed = [] if made is None else made.differs(decided.choices, project.reading)
        return page("release.html.j2", **frame(project, decided, "release"), verbs=VERBS, made=made,
                    changed=changed, files=project.files(),
                    versions=await run_in_threadpool(project.versions))  # fmt: skip

    async def rows(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        made = project.made
        if made is None or made.choices is None:
            return to(f"/p/{project.number}/release")
        asked = request.query_params
        which, only, at = asked.get("which", "sample"), asked.get("only"), asked.get("k", "")
        sets, by = made.release.qi, asked.get("set", "0")
        if (
            which not in ORDERS
            or (only is not None and not only.isdecimal())
            or not (by.isdecimal() and int(by) < len(sets))
        ):
            raise HTTPException(404, "There are no such rows.")
        k = int(at) if at.isdigit() else made.choices.k
        shown = project.release_with(k)
        if shown is None:
            return to(f"/p/{project.number}/release/rows")
        found = None
        if project.rows_shown:
            chosen = None if only is None else int(only)
            found = await run_in_threadpool(rows_of, shown, which, chosen, int(by))
        return page("rows.html.j2", **frame(project, decided, "release"), made=made, found=found,
                    which=which, only=only, orders=ORDERS, k=k, most=MOST_AT_HAND,
                    sets=sets, by=int(by))  # fmt: skip

    async def other_rows(self, request: Request) -> Response:
        """The same rows with another k: tried for that, and written nowhere."""
        project, _ = self.bench.ready(request)
        form = await form_of(request)
        k, which, by = whole(form, "k"), *(form.get(n, [""])[0] for n in ("which", "set"))
        place = f"release/rows?which={which if which in ORDERS else 'sample'}&k={k}"
        place += f"&set={by}" if by.isdecimal() else ""
        if project.release_with(k) is not None:
            return to(f"/p/{project.number}/{place}")
        return self.bench.start(f"Trying k = {k:,} for its rows", project, place,
                                lambda budget: project.try_rows(k, budget), True)  # fmt: skip

    async def show_rows(self, request: Request) -> Response:
        project, _ = self.bench.ready(request)
        project.rows_shown = True
        return to(f"/p/{project.number}/release/rows")

    async def show_release(self, request: Request) -> Response:
        project, _ = self.bench.ready(request, known=False)
        wanted = (await form_of(request)).get("name", [""])[0]
        if wanted not in [one.name for one in await run_in_threadpool(project.versions)]:
            raise HTTPException(404, "There is no such release.")
        return self._show(project, wanted)

    def _show(self, project: Project, name: str) -> Response:
        return self.bench.start(
            f"Opening {name}",
            project,
            "release",
            lambda budget: project.reopen(name, budget, self.bench.tables()),
        )

    def _running(self) -> list[Job]:
        return self.bench.jobs.running()

    async def make_release(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        form = await form_of(request)
        in_time(edition_of(form), decided)
        wanted, choices = None, decided.choices
        if "protect" in form or "blur" in form:
            made = project.made
            if made is None or made.choices is None or form.get("of") != [made.name]:
                raise ParameterError(
                    "another release is shown by now", remedy="Load its page again."
                )
            wanted = choices = _protected(made.choices, form)
        await run_in_threadpool(self.bench.may_open, choices)
        key = choices.key_file
        if choices.replaced and key:
            keys = await run_in_threadpool(self.bench.shelf.keys)
            if key not in map(str, keys):  # a project may have been made elsewhere
                raise ParameterError(
                    "the key of the pseudonyms is not in the folders that were opened",
                    remedy="Choose another under Configure, or name its folder.",
                )
        return self.bench.start(f"Making the release: {choices.way}", project, "release",
                                lambda budget: project.release(budget, wanted), True)  # fmt: skip

    async def file(self, request: Request) -> Response:
        project = self.bench.project(request)
        wanted, made = request.path_params["name"], project.made
        if made is not None and await run_in_threadpool(project.altered, made):
            raise HTTPException(409, "Files of this release were changed: load its page again.")
        names = [one.name for one in await run_in_threadpool(project.versions)]
        places = [place for name in names for place in project.files(name)]
        for place in places:  # compared with what may be taken, never opened as it came
            if str(place.relative_to(project.folder)) == wanted:
                return FileResponse(place, filename=place.name)
        raise HTTPException(404, "There is no such file.")

    async def certificate(self, request: Request) -> Response:
        """The certificate of a release on one sheet of paper."""
        project = self.bench.project(request)
        wanted = request.path_params["name"]
        for one in await run_in_threadpool(project.versions):
            if one.name == wanted:
                made = await run_in_threadpool(project.certificate_pdf, one)
                named = {"content-disposition": f'attachment; filename="{one.name}.pdf"'}
                return Response(made, media_type="application/pdf", headers=named)
        raise HTTPException(404, "There is no such release.")

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


def _protected(then: Choices, form: Form) -> Choices:
    """What one click under a release asks for: different values, or a column blurred as well."""
    if "protect" in form:
        return then.asking(l=2, l_kind=DEMANDS["l_kind"].default)
    roles = {name: "quasi-identifier" for name in form["blur"] if name in then.roles}
    return replace(then, roles={**then.roles, **roles})


def _place(project: Project) -> str:
    return f"/p/{project.number}/release"


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
    return _demanded(chosen, form, keys)


def _together(names: Sequence[str], form: Form) -> dict[str, str]:
    """The role that one click gives to all columns that are picked, or to all others."""
    asked = [one for one in ("bulk", "rest") if one in form]
    picked = {name for at, name in enumerate(names) if str(at) in form.get("pick", [])}
    if asked and not picked:
        raise ParameterError("no column is picked", remedy="Tick some in the table first.")
    return {name: form[one][0] for one in asked for name in names
            if (name in picked) == (one == "bulk")}  # fmt: skip


def _demanded(now: Choices, form: Form, keys: Sequence[Path]) -> Choices:
    """What must hold, and how to get there; what a form does not ask about stays."""
    share = now.suppression_limit
    if "suppression_limit" in form:
        given = number_or_none(form, "suppression_limit")
        share = None if given is None else given / 100
    key = form.get("key", [now.key_file])[0]
    if key not in ("", now.key_file, *map(str, keys)):
        raise ParameterError("this key is not in the folders that were opened")
    return replace(
        now,
        **{name: _asked(form, name) for name in DEMANDS if name in form},
        method=_method(now, form),
        suppression_limit=share,
        key_file=key,
        person=form.get("person", [now.person])[0],
        names_published="names_published" in form if "who" in form else now.names_published,
    )


def _method(now: Choices, form: Form) -> str:
    """The method that is chosen where several are tried: the one of before, or the last one."""
    ticked = form.get("method", [now.method])
    return now.method if now.method in ticked else ticked[-1]


def _asked(form: Form, name: str) -> Any:
    """What a form asks of a privacy model."""
    one = DEMANDS[name]
    if one.kind not in (int, float):
        return form.get(name, [one.default or ""])[0]
    if one.kind is int and (name == "k" or number_or_none(form, name) is not None):
        return whole(form, name)
    return number_or_none(form, name)
