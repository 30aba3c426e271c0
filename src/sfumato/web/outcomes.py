"""From what was decided to a release: what it costs, the lattice of levels, the release, its rows.

Rows are laid side by side, before and after, only once somebody asked to see them: combinations of
the columns that others may know, as the method found them in the table, each with the cells that
take their place. They are on this machine anyway; no saved report holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from sfumato.engines.recoding import Recoding, Step
from sfumato.errors import ParameterError
from sfumato.kernels import class_ids
from sfumato.release.publish import Release
from sfumato.report.disclosure import as_text, number_ends
from sfumato.web import pages
from sfumato.web.candidates import (
    best_of,
    cheapest,
    curve,
    drawn_lattice,
    names_of,
    node_asked,
    nodes_of,
    place_of,
)
from sfumato.web.choices import DEMANDS, Choices, methods
from sfumato.web.opened import in_time
from sfumato.web.pages import Form, demanded, edition_of, frame, page, post, to, whole
from sfumato.web.project import MOST_AT_HAND, Project
from sfumato.web.verbs import VERBS
from sfumato.wording import phrase

if TYPE_CHECKING:
    from sfumato.web.app import Workbench


RANGE = (2, 3, 5, 10, 20, 50)
"""The k that are tried for a curve."""
MOST_LISTED = 40
"""Nodes of a lattice in the table below its picture."""
MOST_ROWS = 50
ORDERS = {
    "sample": "a sample",
    "riskiest": "those who stood out most",
    "blurred": "the most blurred",
}
"""Which rows are shown, and how that is said."""

Array = npt.NDArray[np.int64]
Texts = tuple[Array, list[str | None]]
"""A column: for every entry the place of its text in a list."""


class Outcomes:
    """Handlers of these pages; what they share lives in the workbench and its projects."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        base = "/p/{number}"
        return [
            Route(f"{base}/utility", self.utility),
            post(f"{base}/utility", self.try_out),
            post(f"{base}/utility/use", self.use),
            Route(f"{base}/release", self.release),
            post(f"{base}/release", self.make_release),
            Route(f"{base}/release/rows", self.rows),
            post(f"{base}/release/rows", self.show_rows),
            post(f"{base}/release/rows/other", self.other_rows),
            post(f"{base}/release/show", self.show_release),
            Route(f"{base}/release/files/{{name:path}}", self.file),
            Route(f"{base}/release/certificates/{{name}}.pdf", self.certificate),
            Route(f"{base}/lattice", self.lattice),
            post(f"{base}/lattice", self.act_on_lattice),
        ]

    # Utility

    def utility(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        candidates = project.candidates
        return page("utility.html.j2", **frame(project, decided, "utility"), verbs=VERBS,
                    picture=curve(candidates, decided.choices), candidates=candidates,
                    tried=any(one.choices.same(decided.choices) for one in candidates),
                    best=best_of(candidates, decided.choices), range=RANGE,
                    names=names_of(candidates, decided.choices), methods=methods(),
                    along=pages.along(decided.choices))  # fmt: skip

    def try_out(self, request: Request, form: Form) -> Response:
        project, decided = self.bench.ready(request)
        keys = self.bench.shelf.keys()
        in_time(edition_of(form), decided)
        if "method" not in form:
            raise ParameterError("no method is ticked", remedy="Tick at least one.")
        # levels of a node are searched for again
        decided = project.alter(lambda now: replace(demanded(now, form, keys), levels={}))
        chosen = decided.choices
        self.bench.may_open(chosen)
        others = [name for name in form.get("method", []) if name != chosen.method]
        ways = [*(replace(chosen, method=name) for name in others), chosen]
        ranged = bool(form.get("range", [""])[0])
        sizes = project.alike_now(chosen.counted)
        whole = project.rows if sizes is None else sizes.total
        some = [k for k in RANGE if k <= whole]
        ks = [*(k for k in some if k != chosen.k), chosen.k] if ranged else [chosen.k]
        # What is chosen comes last, where the list of candidates begins.
        tried = [way.asking(k=k) for way in ways for k in ks]
        named = phrase([way.method for way in ways], len(ways))
        with_k = f"k from {min(ks)} to {max(ks)}" if ranged else chosen.demand
        title = f"Trying {named} with {with_k}"
        return self.bench.start(
            title, project, "utility", lambda budget: project.try_out(tried, budget), True, tried
        )

    def use(self, request: Request, form: Form) -> Response:
        project, _ = self.bench.ready(request)
        number = whole(form, "candidate")
        for candidate in project.candidates:
            if candidate.number == number:
                project.decide(candidate.choices)
                return to(f"/p/{project.number}/utility#candidate-{number}")
        raise HTTPException(404, "This candidate is not kept any more.")

    # Release

    def release(self, request: Request) -> Response:
        project, decided = self.bench.ready(request, known=False)
        made = project.made
        if made is not None and (project.outdated(made) or project.altered(made)):
            project.made = None  # what lies there is measured again before anything is said of it
            return self._show(project, made.name)
        latest = None if made or project.stale else project.latest()
        if latest is not None and not any(
            j.after == f"/p/{project.number}/release" for j in self.bench.jobs.running()
        ):
            return self._show(project, latest)
        changed = [] if made is None else made.differs(decided.choices, project.reading)
        return page("release.html.j2", **frame(project, decided, "release"), verbs=VERBS, made=made,
                    changed=changed, files=project.files(),
                    versions=project.versions())  # fmt: skip

    def rows(self, request: Request) -> Response:
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
            found = rows_of(shown, which, chosen, int(by))
        return page("rows.html.j2", **frame(project, decided, "release"), made=made, found=found,
                    which=which, only=only, orders=ORDERS, k=k, most=MOST_AT_HAND,
                    sets=sets, by=int(by))  # fmt: skip

    def other_rows(self, request: Request, form: Form) -> Response:
        """The same rows with another k: tried for that, and written nowhere."""
        project, _ = self.bench.ready(request)
        k, which, by = whole(form, "k"), *(form.get(n, [""])[0] for n in ("which", "set"))
        place = f"release/rows?which={which if which in ORDERS else 'sample'}&k={k}"
        place += f"&set={by}" if by.isdecimal() else ""
        if project.release_with(k) is not None:
            return to(f"/p/{project.number}/{place}")
        return self.bench.start(f"Trying k = {k:,} for its rows", project, place,
                                lambda budget: project.try_rows(k, budget), True)  # fmt: skip

    def show_rows(self, request: Request, form: Form) -> Response:
        project, _ = self.bench.ready(request)
        project.rows_shown = True
        return to(f"/p/{project.number}/release/rows")

    def show_release(self, request: Request, form: Form) -> Response:
        project, _ = self.bench.ready(request, known=False)
        wanted = form.get("name", [""])[0]
        if wanted not in [one.name for one in project.versions()]:
            raise HTTPException(404, "There is no such release.")
        return self._show(project, wanted)

    def _show(self, project: Project, name: str) -> Response:
        return self.bench.start(
            f"Opening {name}",
            project,
            "release",
            lambda budget: project.reopen(name, budget, self.bench.tables()),
        )

    def make_release(self, request: Request, form: Form) -> Response:
        project, decided = self.bench.ready(request)
        in_time(edition_of(form), decided)
        choices, decides = decided.choices, False
        if "protect" in form or "blur" in form:
            made = project.made
            if made is None or made.choices is None or form.get("of") != [made.name]:
                raise ParameterError(
                    "another release is shown by now", remedy="Load its page again."
                )
            choices, decides = _protected(made.choices, form), True
        self.bench.may_open(choices)
        key = choices.key_file  # a project may have been made elsewhere
        if choices.replaced and key and key not in map(str, self.bench.shelf.keys()):
            raise ParameterError(
                "the key of the pseudonyms is not in the folders that were opened",
                remedy="Choose another under Configure, or name its folder.",
            )
        return self.bench.start(f"Making the release: {choices.way}", project, "release",
                                lambda budget: project.release(budget, choices, decides=decides),
                                True, choices)  # fmt: skip

    def file(self, request: Request) -> Response:
        project = self.bench.project(request)
        wanted, made = request.path_params["name"], project.made
        if made is not None and project.altered(made):
            raise HTTPException(409, "Files of this release were changed: load its page again.")
        names = [one.name for one in project.versions()]
        places = [place for name in names for place in project.files(name)]
        for place in places:  # compared with what may be taken, never opened as it came
            if str(place.relative_to(project.folder)) == wanted:
                return FileResponse(place, filename=place.name)
        raise HTTPException(404, "There is no such file.")

    def certificate(self, request: Request) -> Response:
        """The certificate of a release on one sheet of paper."""
        project = self.bench.project(request)
        wanted = request.path_params["name"]
        for one in project.versions():
            if one.name == wanted:
                made = project.certificate_pdf(one)
                named = {"content-disposition": f'attachment; filename="{one.name}.pdf"'}
                return Response(made, media_type="application/pdf", headers=named)
        raise HTTPException(404, "There is no such release.")

    # The lattice of levels

    def lattice(self, request: Request) -> Response:
        project, decided = self.bench.ready(request)
        choices = decided.choices
        around = frame(project, decided, "utility")
        lattice = project.lattice_of(choices)
        if lattice is None and project.asks_lattice_again(choices):
            return self._look_at_lattice(project, choices)
        if lattice is None:
            return page("lattice.html.j2", **around, lattice=None)
        nodes = nodes_of(lattice)
        known = {node.levels: node for node in nodes}
        wanted = place_of(request.query_params.get("node", "")) or next(
            n.levels for n in nodes if n.best
        )
        if wanted not in known:
            raise HTTPException(404, "There is no such choice of levels.")
        shown = project.number, project.candidates, choices, lattice, nodes, wanted
        picture, line = drawn_lattice(*shown)
        return page("lattice.html.j2", **around, lattice=lattice, picture=picture, curve=line,
                    node=known[wanted], listed=cheapest(nodes)[:MOST_LISTED],
                    held=len(cheapest(nodes)), heights=[int(one) - 1 for one in lattice["heights"]],
                    chosen=node_asked(choices, lattice["columns"]),
                    weighted=any(node.cost != node.lost for node in nodes))  # fmt: skip

    def act_on_lattice(self, request: Request, form: Form) -> Response:
        project, decided = self.bench.ready(request)
        lattice = project.lattice_of(decided.choices)
        if "node" not in form or lattice is None:
            return self._look_at_lattice(project, decided.choices)
        self.bench.may_open(decided.choices)
        wanted = place_of(form["node"][0])
        if list(wanted or ()) not in lattice["levels"]:
            raise HTTPException(404, "There is no such choice of levels.")
        levels = dict(zip(lattice["columns"], wanted or (), strict=True))
        altered = project.alter(lambda now: replace(now, method="full-domain", levels=levels))
        return self.bench.start(
            f"Trying levels {form['node'][0]}",
            project,
            "utility",
            lambda budget: project.try_out([altered.choices], budget),
        )

    def _look_at_lattice(self, project: Project, choices: Choices) -> Response:
        self.bench.may_open(choices)
        return self.bench.start(
            "Looking at the lattice of levels",
            project,
            "lattice",
            lambda budget: project.look_at_lattice(choices, budget),
            True,
        )


def _protected(then: Choices, form: Form) -> Choices:
    """What one click under a release asks for: different values, or a column blurred as well."""
    if "protect" in form:
        return then.asking(l=2, l_kind=DEMANDS["l_kind"].default)
    named = [name for text in form["blur"] for name in (text, *text.split("\n"))]
    roles = {name: "quasi-identifier" for name in named if name in then.roles}
    return replace(then, roles={**then.roles, **roles})


@dataclass(frozen=True)
class Row:
    """One combination of values: what it said, what it says, and how many look like that."""

    cells: tuple[tuple[str, str], ...]
    """Each cell before and after, empty where nothing is there; the same where it is left out."""
    alike_before: int
    alike_after: int
    number: int
    """Of its class in the release; -1 where it is not in it."""
    left_out: bool
    times: int = 1
    """Rows of the table that are this one."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a release, and the columns they are about."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    different: int = 0
    """Rows there are to show, equal ones once."""


def rows_of(release: Release, which: str, only: int | None = None, by: int = 0) -> Rows | None:
    """Rows before and after; those of one class where its number is given.

    Of several sets of columns that others may know, `by` is the number of the one that is shown.

    None where the mapping of the method is not at hand: it is with a release that was just made.
    """
    known = release.qi[by] if by < len(release.qi) else ()
    step = _step(release, known)
    if step is None:
        return None
    match = step.match
    if step.first is not None and step.last is not None:
        counts = (step.last - step.first).astype(np.int64)
    elif match.counts is None:
        counts = np.ones(match.entries, np.int64)
    else:
        counts = np.asarray(match.counts, np.int64)
    names = [name for name in match.columns if name in known]
    before = {n: (match.column(n).astype(np.int64), as_text(match.values_of(n))) for n in names}
    cells = {n: (c.codes.astype(np.int64), as_text(c.values)) for n, c in step.cells.items()}
    shown_as = [cells.get(name, before[name]) for name in names]  # the others are as they were
    kept = np.ones(match.entries, np.bool_) if step.keep is None else step.keep
    classes, sizes = _alike(shown_as, counts * kept)
    classes = np.where(kept, classes, -1)
    held = [before[name] for name in names]
    mine, own = _alike(held, counts)
    lost = np.zeros(match.entries)
    for one, other in zip(held, shown_as, strict=True):
        lost += _lost(one, other)
    order = _order(which, counts, own[mine], np.where(kept, lost, -1))
    if only is not None:
        order = order[classes[order] == only]
    same, first, times = _equal(mine, classes, counts)
    order = order[first[same[order]] == order]
    chosen = sorted(order[:MOST_ROWS].tolist(), key=lambda at: (not kept[at], classes[at], at))
    return Rows(tuple(names), tuple(
        Row(
            tuple(
                (was[codes[at]] or "", (now[shown[at]] if kept[at] else was[codes[at]]) or "")
                for (codes, was), (shown, now) in zip(held, shown_as, strict=True)
            ),
            int(own[mine[at]]), int(sizes[classes[at]]), int(classes[at]), not bool(kept[at]),
            int(times[same[at]]),
        )
        for at in chosen
    ), len(order))  # fmt: skip


def _step(release: Release, known: Sequence[str]) -> Step | None:
    """The step of the mapping that blurs what others may know."""
    mapping, wanted = release.mapping, set(known)
    if not isinstance(mapping, Recoding):
        return None
    return next((s for s in mapping.steps if wanted <= set(s.match.columns)), None)


def _lost(before: Texts, after: Texts) -> npt.NDArray[np.float64]:
    """How much less each cell says, from 0 to 1: its width where it is a range, else its values."""
    (was, old), (now, new) = before, after
    ends = [number_ends(text, whole=False) for text in old]
    known = [low for low, _ in filter(None, ends)]
    span = max(known, default=0.0) - min(known, default=0.0)
    pairs = np.unique(now * len(old) + was) // len(old)
    values = np.bincount(pairs, minlength=len(new))
    lost = np.zeros(len(new))
    for at, text in enumerate(new):
        width = number_ends(text, whole=False)
        if text is None or not text.strip("*"):
            lost[at] = 1.0
        elif width is not None and span and width[0] < width[1]:
            lost[at] = min(1.0, (width[1] - width[0]) / span)
        else:
            lost[at] = (values[at] - 1) / max(1, len(old) - 1)
    number = {text: at for at, text in enumerate(dict.fromkeys([*old, *new]))}
    numbers = [np.array([number[text] for text in texts], np.int64) for texts in (old, new)]
    return np.where(numbers[0][was] != numbers[1][now], lost[now], 0.0)


def _alike(columns: Sequence[Texts], counts: Array) -> tuple[Array, Array]:
    """The class of each entry by its texts, and the rows in every class."""
    arrays, cardinalities = [], []
    for codes, texts in columns:
        number = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        arrays.append(np.array([number[text] for text in texts], np.uint32)[codes])
        cardinalities.append(len(number))
    ids, number_of = class_ids(tuple(arrays), tuple(cardinalities), entries=len(counts))
    return ids.astype(np.int64), np.bincount(ids, weights=counts, minlength=number_of).astype(int)


def _equal(before: Array, after: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Which entries are the same row, before and after; the first of each, and their rows."""
    keys = before * (int(after.max(initial=0)) + 2) + after + 1
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    return same, first, np.bincount(same, weights=counts, minlength=len(first)).astype(int)


def _order(which: str, counts: Array, alike: Array, lost: npt.NDArray[np.float64]) -> Array:
    """Entries in the order in which they are shown."""
    drawn = np.random.default_rng(0).random(len(counts)) ** (1 / np.maximum(counts, 1))
    if which == "riskiest":
        return np.lexsort((-drawn, alike))
    if which == "blurred":
        return np.lexsort((-drawn, -lost))
    return np.argsort(-drawn, kind="stable")
