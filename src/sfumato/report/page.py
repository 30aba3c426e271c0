"""What a page consists of, and how it becomes one self-contained HTML file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sfumato._version import __version__
from sfumato.errors import ParameterError, spell
from sfumato.files import write_text
from sfumato.report.disclosure import RARE
from sfumato.report.drawing import chart_data, draw, script, script_hash
from sfumato.wording import visible

Tone = Literal["bad", "warn", "good"]


@dataclass(frozen=True)
class Figure:
    """A picture, and a caption that says what it shows, also to those who cannot see it.

    It is drawn from a Vega-Lite specification, or is SVG already.
    """

    title: str
    caption: str
    spec: dict[str, Any] | None = None
    svg: str | None = None


@dataclass(frozen=True)
class Grid:
    """A table of text; the first column names the row, numbers are set right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, pictures, tables and steps under it."""

    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    grids: Sequence[Grid] = ()
    steps: Sequence[str] = ()


@dataclass(frozen=True)
class Light:
    """One of the questions about a release, its answer, and how bad that is; None: not known."""

    question: str
    tone: Tone | None
    answer: str
    more: tuple[str, ...] = ()
    """Sentences that are shown once they are asked for."""
    shared: tuple[str, ...] = ()
    """Columns of which classes hold one value only."""
    single: tuple[str, ...] = ()
    """Columns with numbers that one row alone holds."""


RED = 0.2
"""Risks above this fill a gauge with red."""


def tempered(tone: Tone, *risks: float | None) -> Tone:
    """The tone of a verdict that stands above gauges: never green above a red one.

    Examples
    --------
    >>> tempered("good", 0.2, None), tempered("good", 1.0), tempered("bad", 0.0)
    ('good', 'warn', 'bad')
    """
    red = any(risk is not None and risk > RED + 1e-9 for risk in risks)
    return "warn" if red and tone == "good" else tone


def _never_green(page: Page) -> Sequence[str]:
    """The gauges of a page: none is green below a verdict of danger."""
    if page.tone != "bad":
        return page.gauges
    return [svg.replace("var(--good)", "var(--warn)") for svg in page.gauges]


AT_HOME = (
    "This page tells about the rows themselves, and guesses about single cells can be tried out on "
    "its figures: it is for those who may see these rows."
)


@dataclass(frozen=True)
class Page:
    """A whole report: a verdict first, then the reasons.

    Without sections it is the compact view that notebooks show.
    """

    title: str
    subtitle: str
    verdict: str
    tone: Tone
    checks: Sequence[tuple[Literal["✓", "!"], str]] = ()
    """What the verdict rests on, a line each."""
    beside: Sequence[str] = ()
    """What the verdict is not about, in sentences: never green."""
    lights: Sequence[Light] = ()
    facts: Sequence[tuple[str, str]] = ()
    gauges: Sequence[str] = ()
    sections: Sequence[Section] = ()
    footer: str = ""
    at_home: str = AT_HOME
    """Who may see it; empty where it tells nothing about rows that were not released."""


_TONES = {"bad": "#D55E00", "warn": "#E69F00", "good": "#009E73"}


def templates(
    package: str, finalize: Callable[[Any], Any] | None = None, **filters: Callable[..., Any]
) -> Any:
    """The templates of a package, in which a name that nobody gave is an error.

    `finalize` makes of each value what is shown for it.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= filters
    return found


@cache
def _templates() -> Any:
    return templates(
        "sfumato.report", _as_html, command=_command, quoted=quoted, blanks=visible_blanks
    )


def _as_html(value: Any) -> Any:
    """A value whose control characters are written out: names may hold them, and HTML has none."""
    if not isinstance(value, str):
        return value
    from markupsafe import Markup

    shown = "\t".join(map(visible, str(value).split("\t")))
    return Markup(shown) if isinstance(value, Markup) else shown


def _command(step: str) -> tuple[str, str]:
    """What to do, and the command that does it: it stands at the end of the sentence."""
    said, found, command = step.partition(": sfumato ")
    return (f"{said}:", f"sfumato {command}") if found else (step, "")


def visible_blanks(name: str) -> str:
    """A name whose blanks at either end can be seen.

    Examples
    --------
    >>> visible_blanks("age "), visible_blanks("age")
    ('age␣', 'age')
    """
    inner = name.strip()
    before = len(name) - len(name.lstrip())
    return "␣" * before + inner + "␣" * (len(name) - before - len(inner))


def quoted(text: str) -> Any:
    """Text for HTML; names between backticks are set as code, with backticks of their own.

    Examples
    --------
    >>> str(quoted("columns `age` and `a`b`"))
    'columns <code>age</code> and <code>a`b</code>'
    """
    from markupsafe import Markup, escape

    name = r"(?<![\w`])`(.+?)`(?![\w`])"
    return Markup(re.sub(name, r"<code>\1</code>", str(escape(text)), flags=re.DOTALL))


def page_html(page: Page, *, interactive: bool = False) -> str:
    """The page as HTML text.

    With `interactive` charts answer the pointer, by a script inside the page (see `live`).
    """
    return _rendered("report.html.j2", page, interactive)


_STYLE = re.compile(r' style="([^"]*)"')


def body_html(page: Page) -> str:
    """What a page says, without head and foot, to stand inside a page of the workbench.

    Styles of pictures become attributes, which say the same: those pages forbid inline styles.
    """

    def attributes(found: re.Match[str]) -> str:
        pairs = (part.partition(":") for part in found[1].split(";") if part.strip())
        return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in pairs)

    return _STYLE.sub(attributes, _rendered("body.html.j2", page, interactive=False))


def _rendered(template: str, page: Page, interactive: bool) -> str:
    from markupsafe import Markup

    number = 0
    pictures = []
    for section in page.sections:
        drawn = []
        for figure in section.figures:
            number += 1
            svg = figure.svg if figure.spec is None else draw(figure.spec, number)
            data = chart_data(figure.spec) if interactive and figure.spec else ""
            drawn.append((figure, Markup(svg), Markup(data)))
        pictures.append(drawn)
    live_script = interactive and any(figure.spec for s in page.sections for figure in s.figures)
    text: str = (
        _templates()
        .get_template(template)
        .render(
            page=page,
            gauges=[Markup(svg) for svg in _never_green(page)],
            sections=list(zip(page.sections, pictures, strict=True)),
            version=__version__,
            rare=RARE,
            script=Markup(script()) if live_script else "",
            allowed=script_hash() if live_script else "",
        )
    )
    return text


def compact_html(page: Page) -> str:
    """What notebooks show: the verdict and the facts, without pictures."""
    template = _templates().get_template("compact.html.j2")
    text: str = template.render(page=page, colour=_TONES[page.tone])
    return text


def write_page(
    page: Page, path: str | os.PathLike[str], *, force: bool = False, interactive: bool = False
) -> Path:
    """Write a page in one atomic step; an existing file is only replaced with `force`."""
    place = Path(path)
    if place.exists() and not force:
        raise ParameterError(
            "the file exists",
            where=str(place),
            remedy=f"Choose another name, or give {spell('force', True)}.",
        )
    text = page_html(page, interactive=interactive)
    write_text(place, text)
    return place
