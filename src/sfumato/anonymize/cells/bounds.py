"""Lower bounds of what any solution must pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.anonymize.cells.direct import opt_lb
from sfumato.anonymize.cells.partition import Partition
from sfumato.anonymize.cells.patterns import Patterns
from sfumato.anonymize.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["BOUNDS", "Bound", "lower_bound"]

BOUNDS = ("auto", "opt-lb")


@dataclass(frozen=True, eq=False)
class Bound:
    """The best lower bound found, and all that were computed, in units.

    `partition` is an optimal solution where one was found on the way.
    """

    name: str
    units: int
    all: Mapping[str, int]
    partition: Partition | None = None


def lower_bound(
    table: CellTable, patterns: Patterns, kind: str, found: Partition, budget: Budget
) -> Bound:
    """The best bound of the kind asked."""
    units = int(opt_lb(table, patterns, budget) @ table.counts)
    return Bound("opt-lb", units, {"opt-lb": units})
