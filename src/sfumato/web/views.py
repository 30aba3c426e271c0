"""What the steps of the workbench show, as report pages made of a project's results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sfumato.budget import Budget
from sfumato.report.drawing import gauge
from sfumato.report.of_table import classes_of, scan_page
from sfumato.report.page import Grid, Page, Section, Tone
from sfumato.report.wording import percent, phrase, sentence
from sfumato.web.project import Project

__all__ = ["explore", "meter", "risk"]


def meter(project: Project) -> tuple[str, Tone]:
    """One line about who can be found with the roles as they are."""
    if not project.qi:
        return (
            "Nothing is known to others yet: nobody can be found, and nothing is blurred.",
            "warn",
        )
    if project.choices.gap is not None:
        what, remedy = project.choices.gap
        return f"{sentence(what)} {remedy}", "warn"
    known = f"{len(project.qi)} column{'s' * (len(project.qi) > 1)}"
    sizes = project.sizes_now()
    if sizes is None:
        return (
            f"Others may know {known}. Who looks alike by them is not counted yet.",
            "warn",
        )
    if not sizes.rows:
        return "The table has no rows: there is nobody to find.", "good"
    k = project.choices.k
    below = sizes.rows_below(k)
    if not below:
        return f"By these {known} everybody has at least {k - 1} others like them.", "good"
    alone = f"By these {known} {sizes.unique_rows:,} of {sizes.rows:,} people stand alone"
    if below == sizes.unique_rows:
        return f"{alone}.", "bad"
    few = f"{percent(below / sizes.rows)} have fewer than {k - 1} others like them"
    return f"{alone}, and {few}.", "bad"


def explore(project: Project) -> Page:
    """Who can be found in the table, and by which columns."""
    page = scan_page(project.explore(Budget()))
    kept = [section for section in page.sections if section.title != "What to do next"]
    return replace(page, sections=kept)


def risk(project: Project, k: int) -> Page:
    """Class sizes against a k that can be moved: drawn from what has been counted already."""
    sizes = project.class_sizes()
    if not sizes.rows:
        return Page("Risk", "", "The table has no rows: there is nobody to find.", "good")
    below = sizes.rows_below(k)
    verdict = (
        f"{below:,} of {sizes.rows:,} people ({percent(below / sizes.rows)}) have fewer than "
        f"{k - 1} others like them on {phrase(project.qi, 6)}."
        if below
        else f"Everybody has at least {k - 1} others like them on {phrase(project.qi, 6)}."
    )
    return Page(
        title="Risk",
        subtitle="",
        verdict=verdict,
        tone="bad" if below else "good",
        facts=(
            ("stand alone", f"{sizes.unique_rows:,}"),
            (f"fewer than {k} alike", f"{below:,}"),
            ("smallest class (k)", f"{sizes.k:,}"),
            ("classes", f"{sizes.classes:,}"),
        ),
        gauges=(
            gauge("highest risk", 1 / sizes.k if sizes.k else None),
            gauge("average risk", sizes.classes / sizes.rows),
            gauge(f"rows below {k} alike", below / sizes.rows),
        ),
        sections=[*_demanded(project, k), Section("Who looks alike", figures=classes_of(sizes, k))],
    )


def _demanded(project: Project, k: int) -> list[Section]:
    """Everything that must hold, against the table as it is."""
    found = project.check_now(k)
    if found is None:
        return []
    rows = [
        (
            model.model,
            model.column or "",
            _figures(model.asked),
            _figures(model.measured),
            f"{model.failing_rows:,} rows ({percent(model.failing_rows / max(1, found.rows))})"
            if model.failing_rows
            else "nobody",
        )
        for model in found.findings
    ]
    heads = ("what must hold", "about", "asked", "as it is", "not protected")
    return [Section("What must hold", grids=[Grid(heads, rows)])]


def _figures(named: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in named.items()
        if value is not None
    )
