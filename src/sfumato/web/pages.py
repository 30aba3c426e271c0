"""What every page needs: forms in, pages out, and the figures beside the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, wraps
from typing import Any, TypeVar
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.privacy.check import ModelFinding
from sfumato.quasi.scan import ColumnScan
from sfumato.report.drawing import gauge
from sfumato.report.page import Grid, Page, Section, Tone, quoted, tempered
from sfumato.report.pages.table import classes_of, scan_page
from sfumato.web.choices import OFFERED, Choices
from sfumato.web.project import Decided, Project
from sfumato.web.remedies import linked
from sfumato.wording import among, at_most, counted, counting, percent, phrase, sentence, units

__all__ = [
    "BEGAN",
    "LANES",
    "Form",
    "along",
    "blurred",
    "edition_of",
    "explore",
    "form_of",
    "frame",
    "listed",
    "meter",
    "number_or_none",
    "page",
    "risk",
    "to",
    "whole",
]


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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("sfumato.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"named": _named, "percent": percent, "at_most": at_most, "coded": quoted,
                      "linked": linked}  # fmt: skip
    return found


def _named(name: str) -> str:
    """The name of a column as pages show it: blanks at its ends are seen, and a long one is cut.

    Examples
    --------
    >>> _named("age "), _named("age")
    ('age␣', 'age')
    """
    from markupsafe import Markup

    inner = name.strip()
    before = len(name) - len(name.lstrip())
    shown = "␣" * before + inner + "␣" * (len(name) - before - len(inner))
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


async def form_of(request: Request) -> Form:
    """The fields of a form; nothing larger than a form is read."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_FORM:
            raise HTTPException(413, "This is too large for a form.")
    try:
        return parse_qs(content.decode("utf-8"), keep_blank_values=True, max_num_fields=50_000)
    except (UnicodeDecodeError, ValueError) as error:
        raise HTTPException(400, "This is not a form.") from error


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
        return (
            f"Others may know {known}. Who looks alike by them is not counted yet.",
            "warn",
        )
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
        limits = f", {len(own.marks)} limit{'s' * (len(own.marks) > 1)}" if own.marks else ""
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
        gauges=(
            gauge("highest risk", 1 / sizes.k if sizes.k else None, highest=True),
            gauge("average risk", sizes.average),
            gauge(f"{units()} below {k:,} alike", below / sizes.total),
        ),
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
    rows = [
        (
            model.model,
            _about(model, len(choices.known) > 1),
            _figures(model.asked),
            _figures(model.measured),
            _unprotected(model.failing_rows, found.rows),
        )
        for model in found.findings
    ]
    heads = ("what must hold", "about", "asked", "as it is", "not protected")
    return [Section("What must hold", grids=[Grid(heads, rows)])]


def _about(model: ModelFinding, several: bool) -> str:
    """What something must hold of, and for whom where others may know several sets."""
    by = f"for whoever knows {phrase(model.qi, 6)}" if several else ""
    return " ".join(part for part in (model.column or "", by) if part)


def _unprotected(failing: int, rows: int) -> str:
    return f"{counted(failing, 'row')} ({percent(failing / max(1, rows))})" if failing else "nobody"


def _figures(named: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in named.items()
        if value is not None
    )
