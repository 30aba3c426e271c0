"""A release that has been worked out but not yet written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.engines.recoding import Recoding
from sfumato.engines.results import ClassSizes
from sfumato.release.promise import Promise
from sfumato.tables import Table

__all__ = ["Draft"]


@dataclass(frozen=True, eq=False)
class Draft:
    """What a method hands over to be published.

    Parameters
    ----------
    table
        The input.
    recoding
        How the input becomes the output.
    method
        Name of the method that worked it out.
    asked
        The demand, as the user gave it (``k``, ``l``, ``beta``, …).
    promises
        What the output must fulfil; checked on the written output.
    qi
        The column sets whose classes the release is about; `k` and `classes` of the release are
        measured on them (the smallest k, the classes of the first set).
    suppressed_rows, suppressed_cells
        Rows left out, and cells starred in rows that remain.
    column_actions
        What happened to each column, in a few words.
    lower_bound
        Proven lower bound of the method's cost, where it has one.
    utility
        What the release cost, computed from the mapping.
    details
        Further fields of the method's result (they become fields of the release).
    foreseen
        Class sizes the method expects, shown by a dry run.
    """

    table: Table
    recoding: Recoding
    method: str
    asked: Mapping[str, Any]
    promises: tuple[Promise, ...]
    qi: tuple[tuple[str, ...], ...]
    suppressed_rows: int = 0
    suppressed_cells: int = 0
    column_actions: Mapping[str, str] = field(default_factory=dict)
    lower_bound: float | None = None
    utility: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    foreseen: ClassSizes | None = None
    seed: int | None = None
    stopped_by: str | None = None
    warnings: tuple[str, ...] = ()
