"""What a page consists of; `writing` puts it into HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Figure", "Grid", "Page", "Section", "Tone"]

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
class Page:
    """A whole report: a verdict first, then the reasons.

    Without sections it is the compact view that notebooks show.
    """

    title: str
    subtitle: str
    verdict: str
    tone: Tone
    facts: Sequence[tuple[str, str]] = ()
    gauges: Sequence[str] = ()
    sections: Sequence[Section] = ()
    footer: str = ""
