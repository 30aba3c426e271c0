"""What every page needs: forms in, pages out, figures beside the settings, and errors in its words.

Errors name parameters; here each is called what its field is called, and where that is. Of a remedy
only what pages offer is said: options of the command line, of which they know nothing, are not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.errors import MissingExtraError, ParameterError, SfumatoError, spelling
from sfumato.privacy.check import ModelFinding
from sfumato.quasi.scan import ColumnScan
from sfumato.report.page import (
    Grid,
    Page,
    Section,
    Tone,
    quoted,
    tempered,
    templates,
    visible_blanks,
)
from sfumato.report.pages.table import classes_of, risk_gauges_of, scan_page
from sfumato.web.choices import DEMANDS, OFFERED, Choices
from sfumato.web.kept import NOT_HERE
from sfumato.web.opened import Decided
from sfumato.web.project import Project
from sfumato.wording import among, at_most, counted, counting, percent, phrase, sentence, units

T = TypeVar("T")
Form = dict[str, list[str]]
LARGEST_FORM = 4_000_000
"""Bytes of a form; a table of ten thousand columns needs less."""
LANES = {
    "quasi-identifier": ("Others may know", "Blurred until enough look alike.",
                         "Quasi-identifiers"),
    "sensitive": ("Worth hiding", "Kept exact; l, t, p and α protect it.", "Sensitive"),
    "identifier": ("Leave out", "Dropped, or given a pseudonym.", "Identifiers"),
    "other": ("Other", "Kept as it is.", "Insensitive"),
}  # fmt: skip
"""Roles in the order of `ROLES`: what we call each, what becomes of it, and the field's word."""
MUST_HOLD = "What must hold"
"""The part of the risk page that says how far demands are kept."""
LONGEST_NAME = 60
"""Characters of a column's name that are shown at once."""
MANY_COLUMNS = 40
"""From more columns on a table is shown first, and not the board."""
OF_ALL = (
    "Here all columns that others may know are combined. You said that nobody knows all of them "
    "together: Risk counts by the sets that are."
)
BEGAN: ContextVar[float] = ContextVar("BEGAN")
"""When the page that is being made was asked for, by `time.monotonic`."""
STEPS = ("configure", "explore", "risk", "utility", "release")


@cache
def _templates() -> Any:
    return templates("sfumato.web", named=_named, percent=percent, at_most=at_most, coded=quoted,
                     linked=linked, told=told)  # fmt: skip


def _named(name: str) -> str:
    """The name of a column as pages show it: blanks at its ends are seen, and a long one is cut.

    Examples
    --------
    >>> _named("age "), _named("age")
    ('age␣', 'age')
    """
    from markupsafe import Markup

    shown = visible_blanks(name)
    if len(shown) <= LONGEST_NAME:
        return shown
    half = LONGEST_NAME // 2
    cut = f"{shown[:half]}…{shown[-half:]}"
    return Markup('<span title="{}">{}</span>').format(name, cut)


def page(template: str, *, status: int = 200, **context: Any) -> Response:
    """A page made of a template; it can be told what ended since it was asked for."""
    began = BEGAN.get(time.monotonic())
    text = _templates().get_template(template).render(status=status, began=began, **context)
    return HTMLResponse(text, status)


def frame(project: Project, decided: Decided, step: str) -> dict[str, Any]:
    """What a step and the frame around it show: all of it from one moment."""
    return {"project": project, "decided": decided, "choices": decided.choices,
            "step": step, "steps": STEPS, "stale": project.stale}  # fmt: skip


def to(place: str) -> Response:
    """Go there."""
    return RedirectResponse(place, 303)


def post(place: str, handler: Callable[[Request, Form], Response]) -> Route:
    """Where a form is sent to; like those that only show a page, its handler has its own thread."""

    async def read(request: Request) -> Response:
        return await run_in_threadpool(handler, request, await form_of(request))

    return Route(place, read, methods=["POST"])


async def form_of(request: Request) -> Form:
    """The fields of a form; nothing larger than a form is read."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_FORM:
            raise HTTPException(413, "This is too large for a form.")
    try:
        # Browsers send every end of a line as two characters; a column's name may hold one.
        text = content.decode("utf-8").replace("%0D%0A", "%0A")
        return parse_qs(text, keep_blank_values=True, max_num_fields=50_000)
    except (UnicodeDecodeError, ValueError) as error:
        raise HTTPException(400, "This is not a form.") from error


def one_line_end(name: str) -> str:
    r"""A name as forms bring it, in which all ends of lines are alike.

    Examples
    --------
    >>> one_line_end("birth\r\nyear") == one_line_end("birth\ryear") == "birth\nyear"
    True
    """
    return name.replace("\r\n", "\n").replace("\r", "\n")


def whole(form: Form, name: str) -> int:
    """A whole number of a form."""
    try:
        return int(form.get(name, [""])[0])
    except ValueError as error:
        raise ParameterError(f"`{name}` is not a whole number") from error


def edition_of(form: Form) -> int | None:
    """The edition of the decisions that a page showed, where it says so."""
    return whole(form, "edition") if "edition" in form else None


def number_or_none(form: Form, name: str) -> float | None:
    """A number of a form, or nothing where the field is empty."""
    text = form.get(name, [""])[0].strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise ParameterError(f"`{name}` is not a number") from error


def demanded(now: Choices, form: Form, keys: Sequence[Path]) -> Choices:
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
        **{name: _asked_of(form, name) for name in DEMANDS if name in form},
        method=_method(now, form),
        suppression_limit=share,
        key_file=key,
        person=form.get("person", [now.person])[0],
        names_published="names_published" in form if "who" in form else now.names_published,
        sort="sort" in form if "who" in form else now.sort,
    )


def _method(now: Choices, form: Form) -> str:
    """The method that is chosen where several are tried: the one of before, or the last one."""
    ticked = form.get("method", [now.method])
    return now.method if now.method in ticked else ticked[-1]


def _asked_of(form: Form, name: str) -> Any:
    """What a form asks of a privacy model."""
    one = DEMANDS[name]
    if one.kind not in (int, float):
        return form.get(name, [one.default or ""])[0]
    if one.kind is int and (name == "k" or number_or_none(form, name) is not None):
        return whole(form, name)
    return number_or_none(form, name)


def _in_units(drawn: Callable[[Project, Choices], T]) -> Callable[[Project, Choices], T]:
    """Speak of what the rows of this table are about."""

    @wraps(drawn)
    def spoken(project: Project, choices: Choices) -> T:
        with counting(*choices.spoken):
            return drawn(project, choices)

    return spoken


@_in_units
def meter(project: Project, choices: Choices) -> tuple[str, Tone]:
    """One line about who can be found with the roles as they are."""
    if not choices.qi:
        return (
            "No column is marked as one that others may know: nothing is blurred, and nobody has "
            "counted who can be found.",
            "warn",
        )
    if choices.gap is not None:
        what, remedy = choices.gap
        return f"{sentence(what)} {remedy}", "warn"
    known = counted(len(choices.qi), "column")
    these = f"these {known}" if len(choices.qi) > 1 else "this column"
    if len(choices.known) > 1:
        these = f"one of {len(choices.known)} sets of these {known}"
    sizes = project.alike_now(choices.counted)
    if sizes is None:
        return (f"Others may know {known}. Who looks alike by them is not counted yet.", "warn")
    if not sizes.total:
        return "The table has no rows: there is nobody to find.", "good"
    k = choices.k
    below = sizes.below(k)
    if not below:
        return f"By {these} everybody has at least {_others(k)} like them.", "good"
    found = among(sizes.alone, sizes.total, units(1), many=units(), does="stand alone")
    alone = f"By {these} {found}"
    if below == sizes.alone:
        return f"{alone}.", "bad"
    few = f"{percent(below / sizes.total)} have fewer than {_others(k)} like them"
    return f"{alone}, and {few}.", "bad"


def _others(k: int) -> str:
    """How many others somebody has who is one of at least k."""
    return counted(k - 1, "other")


def listed(project: Project, choices: Choices, sort: str) -> dict[str, Any]:
    """The columns as a table shows them: in which order, and whether there is to be a table."""
    roles = choices.roles
    orders: dict[str, Callable[[ColumnScan], Any]] = {
        "name": lambda one: one.name.casefold(),
        "role": lambda one: list(LANES).index(roles[one.name]),
        "type": lambda one: one.type,
        "values": lambda one: -one.values,
        "alone": lambda one: -one.unique,
        "missing": lambda one: -one.nulls,
    }
    numbered = list(enumerate(project.columns))
    if sort in orders:
        numbered.sort(key=lambda one: orders[sort](one[1]))
    wide = len(project.columns) > MANY_COLUMNS
    return {"columns": numbered, "sort": sort if sort in orders else "",
            "table": project.view == "table" or (wide and project.view != "board")}  # fmt: skip


def blurred(project: Project, choices: Choices) -> dict[str, str]:
    """How each column is blurred, or would be if others knew it, in words for its card."""
    return {
        column.name: _blurred(choices, column.name, project.table.column(column.name).ordered)
        for column in project.columns
    }


def _blurred(choices: Choices, name: str, ordered: bool) -> str:
    own = choices.trees.get(name)
    if choices.method == "cells":
        return "starred"
    if own is not None:
        limits = f", {counted(len(own.marks), 'limit')}" if own.marks else ""
        return f"blurred by own tree{limits}"
    if choices.infers_trees:
        return "blurred by inferred tree"
    return "blurred in ranges" if ordered else "blurred in sets"


def along(choices: Choices) -> dict[str, str]:
    """What each method makes of the trees that were made, where that is not plain."""
    return {method: _along(replace(choices, method=method)) for method in OFFERED}


def _along(choices: Choices) -> str:
    bare = [name for name in choices.qi if name not in choices.trees]
    if choices.method == "cells":
        stars = "cells stars values and leaves the others exact: of trees only their limits count."
        return stars if choices.used_trees else ""
    if not bare or not choices.infers_trees:
        return ""
    return f"{choices.method} climbs trees only: those of {phrase(bare, 4)} are inferred."


@_in_units
def explore(project: Project, choices: Choices) -> Page:
    """Who can be found in the table, and by which columns."""
    guessed = [column.name for column in project.columns if column.role == "identifier"]
    left_out = [name for name in choices.with_role("identifier") if name not in guessed]
    page = scan_page(project.explore(choices, Budget()), left_out)
    kept = [section for section in page.sections if section.title != "What to do next"]
    beside = [OF_ALL] if len(choices.known) > 1 else []
    sizes = project.alike_now(((choices.qi,), choices.person)) if len(choices.qi) > 1 else None
    if sizes is not None and sizes.alone:
        one, many = units(1), units()
        told = among(sizes.alone, sizes.total, one, many=many, does="stand alone", share=True)
        if f"{sizes.alone:,} of {sizes.total:,} " not in page.verdict:
            beside.append(f"By all {len(choices.qi)} columns that others may know, {told}.")
    return replace(page, sections=kept, beside=beside)


@_in_units
def risk(project: Project, choices: Choices) -> Page:
    """Class sizes against a k that can be moved: drawn from what has been counted already."""
    k, sizes = choices.k, project.alike(choices.counted)
    if not sizes.total:
        return Page("Risk", "", "The table has no rows: there is nobody to find.", "good")
    below = sizes.below(k)
    few = "nobody" if k == 2 else f"fewer than {_others(k)}"
    found = among(below, sizes.total, units(1), many=units(), does=f"have {few}", share=True)
    known = "; or ".join(phrase(one, 6) for one in choices.known)
    enough = f"Everybody has at least {_others(k)} like them on {known}."
    verdict = f"{found} like them on {known}." if below else enough
    if k > sizes.total:
        rows = counted(sizes.total, units(1), many=units())
        verdict += f" No release can have k = {k:,}: the table has {rows}."
    return Page(
        title="Risk",
        subtitle="",
        verdict=verdict,
        tone="bad" if below else tempered("good", 1 / (sizes.k or 1)),
        facts=(
            ("stand alone", f"{sizes.alone:,}"),
            (f"fewer than {k:,} alike", f"{below:,}"),
            ("smallest class (k)", f"{sizes.k:,}"),
            *((("classes", f"{sizes.classes:,}"),) if sizes.classes is not None else ()),
        ),
        gauges=risk_gauges_of(sizes, k),
        sections=[
            *_demanded(project, choices),
            Section("Who looks alike", figures=classes_of(sizes, k)),
        ],
    )


def _demanded(project: Project, choices: Choices) -> list[Section]:
    """Everything that must hold, against the table as it is."""
    found = project.check_now(choices)
    if found is None:
        return []
    total = project.alike(choices.counted).total
    rows = [
        (
            model.model,
            _about(model, len(choices.known) > 1),
            _figures(model.asked),
            _figures(model.measured),
            _unprotected(model, total),
        )
        for model in found.findings
    ]
    heads = ("what must hold", "about", "asked", "as it is", "not protected")
    return [Section(MUST_HOLD, grids=[Grid(heads, rows)])]


def _about(model: ModelFinding, several: bool) -> str:
    """What something must hold of, and for whom where others may know several sets."""
    by = f"for whoever knows {phrase(model.qi, 6)}" if several else ""
    return " ".join(part for part in (model.column or "", by) if part)


def _unprotected(model: ModelFinding, total: int) -> str:
    """Who is in classes that lack it: persons where they are counted, else rows."""
    failing = model.failing_rows if model.failing_persons is None else model.failing_persons
    said = counted(failing, units(1), many=units())
    return f"{said} ({percent(failing / max(1, total))})" if failing else "nobody"


def _figures(named: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in named.items()
        if value is not None
    )


_READ = "under “how the file is read”"
_KNOWS = "under Risk (who knows what)"
_CONTROLS = {
    "qi": "“Others may know” under Configure",
    "sensitive": "“Worth hiding” under Configure",
    "identifiers": "“Leave out” under Configure",
    "pseudonyms": "“pseudonym” beside a column that is left out, under Configure",
    "columns": "“pseudonym” beside a column that is left out, under Configure",
    "key_file": "a key under “The key of pseudonyms”, under Configure",
    "hierarchies": "the tree of a column, under Configure",
    "boundaries": "limits in the tree of a column, under Configure",
    "weights": "“matters” beside a column, under Configure",
    "person": "“counted in” under Risk",
    "rows_are_people": "tick “publish columns that seem to name persons” under Risk",
    "sort": "tick “sort rows by what the release shows” under Risk",
    "sets": f"“Several sets of columns” {_KNOWS}",
    "k_map": f"“People a row matches, at least” {_KNOWS}",
    "population": f"“of the table” {_KNOWS}",
    "target": f"“Keep predictable” {_KNOWS}",
    "suppression_limit": "“Rows that may be left out, %” under Utility",
    "levels": "levels in the lattice under Utility",
    "exclude": f"“Leave unread” {_READ}",
    "unparsed": f"“Cells that do not parse” {_READ}",
    "null_values": f"“Missing cells say” {_READ}",
    "header": f"“The first line names the columns” {_READ}",
    "delimiter": f"“Delimiter” {_READ}",
    "keep": "“Keep as they are”",
    "drop": "“Leave out in any case”",
    "must_drop": "“Leave out” under Configure",
    "must_publish": "“Must be published”",
    "max_size": "“Columns together, at most”",
    "universe": "“People in the population”",
    "on": "“Joined by”",
    "row_key": "“Rows are paired”",
    "pair": "“Lay side by side”",
}
"""Where pages ask for a parameter."""
_FIGURES = ("k", "l", "t", "p", "alpha", "beta", "c")
"""Called the same everywhere."""
_PLACES = {
    _CONTROLS["k_map"]: "knowledge#k_map",
    _CONTROLS["population"]: "knowledge#population",
    _CONTROLS["target"]: "knowledge#target",
    f"under {_CONTROLS['on']}": "ask/attack",
    "under Configure": "configure",
    "under Risk (who knows what)": "knowledge",
    "under Risk": "risk",
    "under Utility": "utility",
    "under Release": "release",
    "under “how the file is read”": "import",
}
_LIMITS = r"(?<=Ask for )([klpt]|α|alpha)(?= (?:=|&[lg]t;=) \d)"
"""Figures that a remedy names, which are asked for under Risk."""
OTHERWISE = "Choose other columns under Configure, or another method under Utility."
"""What pages offer where nothing of a remedy is left."""


@contextmanager
def in_page_words() -> Iterator[None]:
    """Errors name what a page lets one set as the page does."""
    before = spelling.set(_on_the_page)
    try:
        yield
    finally:
        spelling.reset(before)


def _on_the_page(name: str, value: Any) -> str:
    if name == "exclude" and list(value) == [""]:
        return f"“Leave out a column without a name” {_READ}"
    if name in _CONTROLS:
        return _CONTROLS[name]
    if name == "parse" and isinstance(value, Mapping):
        kinds = ", ".join(f"{column} as {kind}" for column, kind in value.items())
        return f"“read it as” {_READ}: {kinds}"
    if name == "encoding":
        return f"{name} {value} {_READ}"
    if name == "spreadsheet_safe":  # which no page asks for
        return "`--spreadsheet-safe` on the command line"
    if name == "method":
        return f"the method {value} under Utility"
    if name in _FIGURES:
        return f"{name} = {value}"
    if name in DEMANDS:
        return f"“{DEMANDS[name].field.label}” under Risk"
    return f"{NOT_HERE}{name}"


def told(error: Exception) -> str:
    """What a page says of a problem, as a sentence; a file that it begins with keeps its name.

    Examples
    --------
    >>> told(SfumatoError("no column is picked")), told(SfumatoError("is empty", where="a.csv"))
    ('No column is picked.', 'a.csv: is empty')
    >>> from sfumato.errors import spell
    >>> with in_page_words():
    ...     told(SfumatoError("it is late", remedy=f"Wait ({spell('time', '1h')}), or go home."))
    'It is late. Go home.'
    """
    if not isinstance(error, SfumatoError):
        # What went wrong may quote cells: the page is told only the kind of it.
        return f"An unexpected problem ({type(error).__name__})."
    if not isinstance(error, MissingExtraError):  # what is to be installed is, by a command
        remedy = _offered(error.remedy)
        error = SfumatoError(error.what, where=error.where, remedy=remedy)
    inside = error.where is None or error.where.startswith(("column ", "line "))
    return sentence(str(error)) if inside else str(error)


def _offered(remedy: str | None) -> str | None:
    """Of a remedy what pages offer."""
    if remedy is None:
        return None
    said = []
    for one in re.split(r"(?<=[.?]) (?=[A-Z“])", remedy):
        parts = re.split(r",? or |; ", one.rstrip("."))
        here = [
            part
            for part in parts
            if NOT_HERE not in part and not re.search(r"`sfumato (?!serve)", part)
        ]
        if len(here) == len(parts):
            said.append(one)
        elif here:
            said.append(sentence(", or ".join(here)))
    return " ".join(said) or OTHERWISE


def linked(said: str, number: str) -> Any:
    """What is said of a problem as HTML, with links to the places of a table's pages it names."""
    from markupsafe import Markup

    def link(found: re.Match[str]) -> str:
        field = {"α": "alpha"}.get(found[0], found[0])
        return f'<a href="/p/{number}/{_PLACES.get(found[0], f"risk#{field}")}">{found[0]}</a>'

    return Markup(re.sub("|".join([_LIMITS, *map(re.escape, _PLACES)]), link, quoted(said)))
