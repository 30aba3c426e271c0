"""Which page shows which result.

Results know nothing of pages: they name their own type, and this is where it is looked up. Modules
are imported when a result of theirs is shown for the first time. A result without a page of its own
shows its figures, and nothing that could be a cell: texts and the keys of mappings may come from
the table; names of fields and numbers do not.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.report.drawing import GRID, INK
from sfumato.report.page import Figure, Grid, Page, Section, compact_html, write_page

_HOMES = {
    "Outcome": "secure:outcome",
    "Evaluation": "joint:evaluation",
    "FitSession": "joint:fit",
    "JointModel": "joint:model",
    "ShareResult": "joint:share",
    "AttackResult": "people:attack",
    "PopulationReport": "people:population",
    "PopulationUniqueness": "people:uniqueness",
    "Key": "keys:key",
    "Measures": "risk:measures",
    "MinimalKeys": "keys:minimal_keys",
    "Scan": "table:scan",
    "DatasetScan": "table:dataset",
    "TablesAttack": "people:dataset_attack",
    "TablesRelease": "table:dataset_release",
    "Uniques": "keys:uniques",
    "Violations": "keys:violations",
    "Release": "release:release",
    "Utility": "comparison:utility",
    "Verification": "risk:verification",
    "Risk": "risk:risk",
    "BayesNet": "secure:net",
    "SessionReport": "secure:session",
    "DecisionTree": "secure:tree",
}
"""Result types and where their pages are made: ``<module>:<name>`` stands for the functions
``<name>_summary``, what is said first and costs nothing, and ``<name>_page``, all of it; where the
page measures anew, ``<name>_picture`` is a chart that does not."""


def _home(result: Any) -> tuple[ModuleType, str]:
    home = _HOMES.get(type(result).__qualname__)
    if home is None:
        return sys.modules[__name__], "figures"
    module, name = home.split(":")
    return importlib.import_module(f"sfumato.report.pages.{module}"), name


def _builder(result: Any, part: str) -> Callable[..., Page]:
    module, name = _home(result)
    builder: Callable[..., Page] = getattr(module, f"{name}_{part}")
    return builder


def page_of(result: Any, **known: Any) -> Page:
    """The whole page of a result, with what else is known about its table."""
    return _builder(result, "page")(result, **known)


def report(
    result: Any, path: str | os.PathLike[str], *, force: bool = False, interactive: bool = False
) -> Path:
    """Write the page of a result as one self-contained HTML file."""
    return write_page(page_of(result), path, force=force, interactive=interactive)


def compact(result: Any) -> str:
    """The view of a result in a notebook."""
    return compact_html(_builder(result, "summary")(result))


def displayed(result: Any) -> list[dict[str, Any]]:
    """What a notebook displays of a result: its compact view, and the first chart it has."""
    return outputs(repr(result), compact(result), _picture(result))


def display(result: Any) -> None:
    """Show a result in a notebook; in a terminal its text."""
    shell = importlib.import_module("IPython").get_ipython()
    show = importlib.import_module("IPython.display").display
    in_notebook = getattr(shell, "kernel", None) is not None
    for output in displayed(result) if in_notebook else [{"text/plain": repr(result)}]:
        show(output, raw=True)


def _picture(result: Any) -> Figure | None:
    """The first chart of the page; where the page is dear, a module names a cheaper one."""
    module, name = _home(result)
    cheap = getattr(module, f"{name}_picture", None)
    if cheap is not None:
        picture: Figure | None = cheap(result)
        return picture
    figures = (figure for section in page_of(result).sections for figure in section.figures)
    return next((figure for figure in figures if figure.spec is not None), None)


VEGALITE = "application/vnd.vegalite.v5+json"
"""What JupyterLab, VS Code and others call the version our charts are written for."""


def outputs(text: str, html: str, picture: Figure | None) -> list[dict[str, Any]]:
    """What a notebook displays, each by the type of its content."""
    found: list[dict[str, Any]] = [{"text/plain": text, "text/html": html}]
    if picture is not None and picture.spec is not None:
        chart = {VEGALITE: notebook_spec(picture), "text/plain": f"[chart: {picture.title}]"}
        found.append(chart)
    return found


def notebook_spec(figure: Figure) -> dict[str, Any]:
    """The chart with its title and caption, on white, since a notebook has no colours for it."""
    text = json.dumps(figure.spec).replace(INK, "#222222").replace(GRID, "#222222")
    spec: dict[str, Any] = json.loads(text)
    title = {
        "text": figure.title,
        "subtitle": textwrap.wrap(figure.caption, 90),
        "anchor": "start",
        "offset": 14,
        "subtitlePadding": 6,
    }
    return {**spec, "background": "white", "padding": 12, "title": title}


MOST_FACTS = 8


def figures_summary(result: Any) -> Page:
    """The first figures of a result."""
    found = _figures(result)
    words = _words(type(result).__name__)
    return Page(
        title=words.capitalize(),
        subtitle="",
        verdict=f"{len(found)} figures; the result itself holds the rest.",
        tone="good",
        facts=found[:MOST_FACTS],
    )


def figures_page(result: Any) -> Page:
    """All figures of a result."""
    grid = Grid(("figure", "value"), _figures(result), frozenset({1}))
    return replace(figures_summary(result), sections=[Section("Figures", grids=[grid])])


def _words(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ")
    return spaced.lower()


def _figures(record: Any, before: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for field in dataclasses.fields(record):
        if field.metadata.get("private"):
            continue
        name = f"{before}{_words(field.name)}"
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found += _figures(value, f"{name}, ")
        else:
            said = _said(value)
            if said is not None:
                found.append((name, said))
    return found


def _said(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if math.isfinite(value) else "–"
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)):
        return f"{len(value):,} entries"
    return None
