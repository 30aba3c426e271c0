"""Pages into HTML: one file, no network, no script, readable on screen, phone and paper."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from sfumato._version import __version__
from sfumato.atomic import write_text
from sfumato.errors import ParameterError
from sfumato.report.drawing import draw
from sfumato.report.page import Page
from sfumato.report.showable import RARE

__all__ = ["body_html", "compact_html", "page_html", "write_page"]

_TONES = {"bad": "#D55E00", "warn": "#E69F00", "good": "#009E73"}


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sfumato.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["command"] = _command
    return environment


def _command(step: str) -> tuple[str, str]:
    """What to do, and the command that does it: it stands at the end of the sentence."""
    said, found, command = step.partition(": sfumato ")
    return (f"{said}:", f"sfumato {command}") if found else (step, "")


def page_html(page: Page) -> str:
    """The page as HTML text."""
    return _rendered("report.html.j2", page)


def body_html(page: Page) -> str:
    """What a page says, without head and foot, to stand inside another page."""
    return _rendered("body.html.j2", page)


def _rendered(template: str, page: Page) -> str:
    from markupsafe import Markup

    number = 0
    pictures = []
    for section in page.sections:
        drawn = []
        for figure in section.figures:
            number += 1
            svg = figure.svg if figure.spec is None else draw(figure.spec, number)
            drawn.append((figure.title, Markup(svg), figure.caption, figure.spec is not None))
        pictures.append(drawn)
    text: str = (
        _environment()
        .get_template(template)
        .render(
            page=page,
            gauges=[Markup(svg) for svg in page.gauges],
            sections=list(zip(page.sections, pictures, strict=True)),
            version=__version__,
            rare=RARE,
        )
    )
    return text


def compact_html(page: Page) -> str:
    """What notebooks show: the verdict and the facts, without pictures."""
    template = _environment().get_template("compact.html.j2")
    text: str = template.render(page=page, colour=_TONES[page.tone])
    return text


def write_page(page: Page, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a page in one atomic step; an existing file is only replaced with `force`."""
    place = Path(path)
    if place.exists() and not force:
        raise ParameterError(
            "the file exists", where=str(place), remedy="Choose another name, or give --force."
        )
    text = page_html(page)
    write_text(place, text)
    return place
