"""Which page shows which result.

Results know nothing of pages: they name their own type, and this is where it is looked up. Modules
are imported when a result of theirs is shown for the first time.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.report.notebook import outputs
from sfumato.report.page import Figure, Page
from sfumato.report.writing import compact_html, write_page

__all__ = ["compact", "display", "displayed", "page_of", "report"]

_HOMES = {
    "Outcome": "of_secure:outcome",
    "Evaluation": "of_joint:evaluation",
    "JointModel": "of_joint:model",
    "ShareResult": "of_joint:share",
    "SumReport": "of_joint:sums",
    "AttackResult": "of_people:attack",
    "PopulationReport": "of_people:population",
    "PopulationUniqueness": "of_people:uniqueness",
    "Key": "of_keys:key",
    "Measures": "of_risk:measures",
    "MinimalKeys": "of_keys:minimal_keys",
    "Scan": "of_table:scan",
    "Uniques": "of_risk:uniques",
    "Violations": "of_keys:violations",
    "Release": "of_release:release",
    "Verification": "of_risk:verification",
    "Risk": "of_risk:risk",
    "BayesNet": "of_secure:net",
    "SessionReport": "of_secure:session",
    "DecisionTree": "of_secure:tree",
}
"""Result types and where their pages are made: ``<module>:<name>`` stands for the functions
``<name>_summary``, what is said first and costs nothing, and ``<name>_page``, all of it; where the
page measures anew, ``<name>_picture`` is a chart that does not."""


def _home(result: Any) -> tuple[ModuleType, str]:
    kind = type(result)
    home = _HOMES.get(kind.__qualname__, "of_figures:figures")
    module, name = home.split(":")
    return importlib.import_module(f"sfumato.report.{module}"), name


def _builder(result: Any, part: str) -> Callable[[Any], Page]:
    module, name = _home(result)
    builder: Callable[[Any], Page] = getattr(module, f"{name}_{part}")
    return builder


def page_of(result: Any) -> Page:
    """The whole page of a result."""
    return _builder(result, "page")(result)


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
