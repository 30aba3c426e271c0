"""What the steps of the workbench show, as report pages made of a project's results."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sfumato.quasi.wording import Role
from sfumato.report import charts
from sfumato.report.drawing import gauge
from sfumato.report.of_table import classes_of, scan_page
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.report.wording import percent, phrase
from sfumato.web.project import Project

__all__ = ["candidates", "explore", "risk"]


def explore(project: Project) -> Page:
    """Who can be found in the table, and by which columns."""
    assert project.scan is not None
    roles = project.choices.roles
    columns = tuple(
        replace(column, role=cast("Role", roles.get(column.name, column.role)))
        for column in project.scan.columns
    )
    page = scan_page(replace(project.scan, columns=columns))
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
        f"{k - 1} others like them on {phrase(project.qi)}."
        if below
        else f"Everybody has at least {k - 1} others like them on {phrase(project.qi)}."
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
        sections=[Section("Who looks alike", figures=classes_of(sizes, k))],
    )


def candidates(project: Project) -> Page:
    """Releases that were tried, side by side."""
    rows, lost = [], {}
    for choices, release in project.candidates:
        cost = release.utility.get("ncp")
        name = f"{choices.method}, k = {choices.k}"
        if isinstance(cost, float):
            lost[name] = cost
        rows.append(
            (
                name,
                "–" if release.k is None else f"{release.k:,}",
                f"{release.classes:,}" if release.classes is not None else "–",
                f"{release.suppressed_rows:,}",
                f"{release.suppressed_cells:,}",
                percent(cost) if isinstance(cost, float) else "–",
            )
        )
    heads = ("candidate", "k", "classes", "rows left out", "cells starred", "precision lost")
    figures = []
    if lost:
        figures.append(
            Figure(
                "What each would cost",
                "Precision lost: 0% where every cell is exact, 100% where it says nothing.",
                charts.shares("Precision lost by candidate", lost, what="precision lost"),
            )
        )
    least = min(lost, key=lambda name: lost[name]) if lost else None
    verdict = f"{len(rows)} tried. " + (f"The most precise: {least}." if least else "")
    section = Section(
        "Compared", figures=figures, grids=[Grid(heads, rows, frozenset(range(1, 6)))]
    )
    return Page("Utility", "", verdict, "good", sections=[section])
