"""The algorithms of the paper by name."""

from __future__ import annotations

from sfumato.anonymize.cells.direct import approx_dr
from sfumato.anonymize.cells.partition import Partition
from sfumato.anonymize.cells.patterns import Patterns
from sfumato.anonymize.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["ALGORITHMS", "start"]

ALGORITHMS = ("dr",)


def start(
    table: CellTable, patterns: Patterns, algorithm: str, beta: float, budget: Budget
) -> Partition:
    """A first partition."""
    return approx_dr(table, patterns, budget)
