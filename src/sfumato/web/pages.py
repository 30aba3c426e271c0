"""What every page handler needs: forms in, pages out."""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sfumato.errors import ParameterError
from sfumato.report.page import Page, body_html
from sfumato.web.project import Decided, Project

__all__ = ["Form", "body", "form_of", "frame", "number_or_none", "page", "to", "whole"]

Form = dict[str, list[str]]
LARGEST_FORM = 4_000_000
"""Bytes of a form; a table of ten thousand columns needs less."""
STEPS = ("configure", "explore", "risk", "utility", "release")


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


def page(template: str, *, status: int = 200, **context: Any) -> Response:
    """A page made of a template."""
    text = _templates().get_template(template).render(status=status, **context)
    return HTMLResponse(text, status)


def frame(project: Project, decided: Decided, step: str) -> dict[str, Any]:
    """What a step and the frame around it show: all of it from one moment."""
    return {"project": project, "decided": decided, "choices": decided.choices,
            "step": step, "steps": STEPS}  # fmt: skip


def to(place: str) -> Response:
    """Go there."""
    return RedirectResponse(place, 303)


_STYLE = re.compile(r' style="([^"]*)"')


def body(shown: Page) -> str:
    """A report page to stand inside another one.

    Styles of pictures become attributes, which say the same: the workbench's pages forbid inline
    styles altogether.
    """

    def attributes(found: re.Match[str]) -> str:
        pairs = (part.partition(":") for part in found[1].split(";") if part.strip())
        return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in pairs)

    return _STYLE.sub(attributes, body_html(shown))


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
        raise ParameterError(f"{name} is not a whole number") from error


def number_or_none(form: Form, name: str) -> float | None:
    """A number of a form, or nothing where the field is empty."""
    text = form.get(name, [""])[0].strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise ParameterError(f"{name} is not a number") from error
