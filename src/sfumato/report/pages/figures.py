"""The page of a result that has none of its own: its figures, and nothing that could be a cell.

Texts and the keys of mappings are left out, because they may come from the table; names of fields
and numbers do not.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.report.page import Grid, Page, Section

__all__ = [
    "figures_page",
    "figures_summary",
]


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
