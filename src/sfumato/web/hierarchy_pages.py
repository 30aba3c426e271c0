"""The pages on which a person looks at a tree and changes it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sfumato.errors import ParameterError, SfumatoError
from sfumato.hierarchy import CALENDAR
from sfumato.report.disclosure import RARE
from sfumato.web import hierarchies
from sfumato.web.hierarchies import EditableHierarchy
from sfumato.web.opened import Decided
from sfumato.web.pages import Form, frame, page, post, told, whole
from sfumato.web.project import Project

if TYPE_CHECKING:
    from sfumato.web.app import Workbench


AT_FIRST = 40
"""Lines that are open when the page is first seen, about."""
MOST_CHILDREN = 250
"""Lines below one group, unless all are asked for."""


@dataclass(frozen=True)
class Line:
    """One node, or a note that more are not shown."""

    depth: int
    node: int | None = None
    label: str = ""
    values: int = 0
    rows: int = 0
    share: float = 0.0
    is_group: bool = False
    is_root: bool = False
    is_open: bool = False
    marked: bool = False
    out_of_reach: bool = False
    hidden: int = 0
    """Values of this note that few rows hold; 0 where there are simply too many lines."""
    below: int | None = None
    """The group that a note stands below."""


def opened_at_first(outline: EditableHierarchy) -> set[int]:
    """Groups from the root downward, as many as fit on a screen."""
    opened = {outline.root}
    shown = len(outline.children[outline.root])
    for group in outline.downward[1:]:
        shown += len(outline.children[group])
        if shown > AT_FIRST:
            break
        opened.add(group)
    return opened


def few_hold(outline: EditableHierarchy, rows: Sequence[int], group: int) -> list[int]:
    """What stands directly below a group and is held by fewer than ten rows."""
    return [
        node
        for node in outline.children.get(group, ())
        if sum(rows[value] for value in outline.leaves(node)) < RARE
    ]


def lines_of(
    outline: EditableHierarchy,
    rows: Sequence[int],
    opened: set[int],
    *,
    with_rare: bool,
    with_all: bool = False,
    named: frozenset[int] = frozenset(),
) -> list[Line]:
    """The lines of a tree.

    Nodes that fewer than ten rows hold are counted but not named, unless they are asked for or
    were just `named` by the user. Long lists are cut unless `with_all` is asked for.
    """
    most = len(rows) + len(outline.names) if with_all else MOST_CHILDREN
    total = max(1, sum(rows))
    held: dict[int, int] = {}
    below: dict[int, int] = {}
    for value, count in enumerate(rows):
        for node in outline.path(value):
            held[node] = held.get(node, 0) + count
            below[node] = below.get(node, 0) + 1

    found: list[Line] = []

    def show(node: int, depth: int) -> None:
        is_group = node in outline.names
        is_open = is_group and node in opened
        found.append(
            Line(
                depth=depth,
                node=node,
                label=outline.label(node),
                values=below[node],
                rows=held[node],
                share=held[node] / total,
                is_group=is_group,
                is_root=node == outline.root,
                is_open=is_open,
                marked=node in outline.marks,
                out_of_reach=node in outline.out_of_reach,
            )
        )
        if not is_open:
            return
        children = outline.children[node]
        shown = [c for c in children if with_rare or held[c] >= RARE or c in named]
        for child in shown[:most]:
            show(child, depth + 1)
        hidden = [c for c in children if c not in set(shown)]
        if len(shown) > most:
            found.append(Line(depth + 1, values=len(shown) - most))
        if hidden:
            few = sum(below[c] for c in hidden)
            found.append(Line(depth + 1, values=few, hidden=few, below=node))

    show(outline.root, 0)
    return found


@dataclass
class Asked:
    """What a request says about the page: what is open, picked and shown."""

    opened: set[int] | None = None
    picked: tuple[int, ...] = ()
    with_rare: bool = False
    with_all: bool = False
    named: frozenset[int] = frozenset()
    """Groups that were just given a name, and are shown even if few rows hold them."""
    problem: str = ""


class Editing:
    """Handlers of the tree page."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        """Where the page is found."""
        place = "/p/{number}/columns/{at}"
        return [
            Route(place, self.show),
            post(place, self.change),
            Route(f"{place}/tree.csv", self.download),
        ]

    def show(self, request: Request) -> Response:
        project, column = self._column(request)
        if project.busy.locked() and not project.has_held(column):  # a page waits for no job
            return self.bench.start(
                f"Reading the values of {column}",
                project,
                f"columns/{request.path_params['at']}",
                lambda _: project.held(column),
            )
        asked = Asked(
            with_rare="rare" in request.query_params, with_all="all" in request.query_params
        )
        return self._page(request, project, column, asked)

    def change(self, request: Request, form: Form) -> Response:
        project, column = self._column(request)
        asked = Asked(
            opened=set(_numbers(form, "open")),
            picked=tuple(_numbers(form, "pick")),
            with_rare="rare" in form,
            with_all="all" in form,
        )
        act = form.get("do", [""])[0]
        try:
            if act.startswith("toggle:"):
                assert asked.opened is not None
                asked.opened ^= {_number(act)}
            else:
                self._act(project, column, act, form, asked)
        except SfumatoError as error:
            asked.problem = told(error)
        return self._page(request, project, column, asked)

    def _act(self, project: Project, column: str, act: str, form: Form, asked: Asked) -> None:
        """Carry out one change."""
        decided = project.decided
        if whole(form, "edition") != decided.edition:
            raise ParameterError(
                "this table's decisions changed meanwhile, and nothing was done",
                remedy="Look at the tree as it is now, and try again.",
            )
        if act == "forget":
            _decide(project, decided, column, None)
            asked.opened, asked.picked = None, ()
            return
        before = project.outline(column, decided.choices)
        if act == "undo":
            project.undo(decided.edition)
            new = set(project.outline(column).names) - set(before.names)
            asked.opened = (asked.opened or set()) | new
            return
        rows = project.held(column).rows_of(before) if "few" in form else []
        for group in _numbers(form, "few"):  # picked without being named
            asked.picked += tuple(few_hold(before, rows, group))
        after = _made(project, column, act, form) or _changed(before, act, form, asked.picked)
        _decide(project, decided, column, after)
        if act in ("build", "read"):
            asked.opened, asked.picked = None, ()
        elif act in ("group", "move", "dissolve"):
            new = set(after.names) - set(before.names)
            asked.opened = (asked.opened or set()).union(*(after.path(group) for group in new))
            asked.picked, asked.named = tuple(new), frozenset(new)

    def download(self, request: Request) -> Response:
        project, column = self._column(request)
        outline = project.outline(column)
        text = io.StringIO()
        levels = (level.to_pylist() for level in outline.hierarchy.levels())
        csv.writer(text, delimiter=";", lineterminator="\n").writerows(zip(*levels, strict=True))
        name = f'attachment; filename="column-{int(request.path_params["at"]) + 1}.csv"'
        return PlainTextResponse(
            text.getvalue(), headers={"content-disposition": name}, media_type="text/csv"
        )

    def _page(self, request: Request, project: Project, column: str, asked: Asked) -> Response:
        decided = project.decided
        outline = project.outline(column, decided.choices)
        held = project.held(column)
        try:
            rows = held.rows_of(outline)
        except SfumatoError as error:
            asked.problem = asked.problem or told(error)
            rows = [0] * len(outline.values)
        opened = opened_at_first(outline) if asked.opened is None else asked.opened
        with_rare = asked.with_rare or not sum(rows)
        lines = lines_of(
            outline, rows, opened, with_rare=with_rare, with_all=asked.with_all, named=asked.named
        )
        fragment = request.headers.get("x-part") == "tree"
        return page(
            "tree-part.html.j2" if fragment else "tree.html.j2",
            **frame(project, decided, "configure"),
            column=column,
            at=int(request.path_params["at"]),
            outline=outline,
            own=column in decided.choices.trees,
            secret=decided.choices.roles[column] == "sensitive",
            lines=lines,
            picked=set(asked.picked),
            with_rare=with_rare,
            with_all=asked.with_all,
            problem=asked.problem,
            groups=[(line.node, line.label) for line in lines if line.is_group],
            heights=sorted(set(outline.heights.values()))[:-1],
            missing=held.missing,
            ordered=held.column.ordered,
            ways=hierarchies.ways(held.column.kind),
            calendar=CALENDAR,
            siblings=[(n, c.name) for n, c in enumerate(project.columns)
                      if decided.choices.roles[c.name] == "quasi-identifier"],
        )  # fmt: skip

    def _column(self, request: Request) -> tuple[Project, str]:
        project = self.bench.project(request)
        names = project.table.columns
        at = _digits(request.path_params["at"])
        if not project.looked or at is None or at >= len(names):
            raise HTTPException(404, "There is no such column.")
        return project, names[at]


def _decide(
    project: Project, decided: Decided, column: str, outline: EditableHierarchy | None
) -> None:
    """Give a column a tree, or none of its own."""
    trees = {name: tree for name, tree in decided.choices.trees.items() if name != column}
    if outline is not None:
        trees[column] = outline
    project.decide(replace(decided.choices, trees=trees), decided.edition)


def _made(project: Project, column: str, act: str, form: Form) -> EditableHierarchy | None:
    """A whole new tree, where one is asked for."""
    if act == "build":
        return hierarchies.built(project.held(column), form.get("way", [""])[0], form)
    if act == "read":
        return hierarchies.read(project.held(column), form.get("text", [""])[0], _file_name(form))
    return None


def _changed(
    outline: EditableHierarchy, act: str, form: Form, picked: tuple[int, ...]
) -> EditableHierarchy:
    label = form.get("label", [""])[0]
    if act == "group":
        return outline.group(picked, label)
    if act == "rename":
        if len(picked) != 1:
            raise ParameterError("one group is renamed at a time", remedy="Pick one.")
        return outline.rename(picked[0], label)
    if act == "dissolve":
        return outline.dissolve(picked)
    if act == "move":
        return outline.move(picked, whole(form, "to"))
    if act == "mark":
        return outline.mark(picked)
    if act.startswith("mark:"):
        return outline.mark([_number(act)])
    if act.startswith("height:"):
        return outline.mark_height(_number(act))
    if act == "unmark":
        return outline.unmarked()
    raise ParameterError("this page has no such action", remedy="Load the page again.")


def _number(act: str) -> int:
    found = _digits(act.partition(":")[2])
    if found is None:
        raise ParameterError("there is no such node", remedy="Load the page again.")
    return found


def _numbers(form: Form, name: str) -> list[int]:
    read = (_digits(text) for text in form.get(name, []))
    return [number for number in read if number is not None]


def _digits(text: str) -> int | None:
    """A number that counts nodes or columns; a longer one counts nothing here."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _file_name(form: Form) -> str:
    name = form.get("file", [""])[0].replace("\\", "/").rpartition("/")[2]
    return name[:100] if name.isprintable() and name else "a file"
