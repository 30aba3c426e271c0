"""The algorithms of the paper by name."""

from __future__ import annotations

from sfumato.anonymization.cells.cover import approx_cf, approx_ds, approx_fq, approx_naive
from sfumato.anonymization.cells.direct import approx_dr
from sfumato.anonymization.cells.forest import approx_gr
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget
from sfumato.errors import ParameterError

__all__ = ["ALGORITHMS", "start"]

ALGORITHMS = ("dr", "cf", "fq", "naive", "gr", "ds")
"""OPT-LB, the eighth of the paper with CF-β, is no algorithm but the bound ``opt-lb``."""


def start(
    table: CellTable, patterns: Patterns, algorithm: str, beta: float, budget: Budget
) -> Partition:
    """A first partition by the algorithm named.

    Raises
    ------
    ParameterError
        If rules beyond k are asked of an algorithm other than dr.
    """
    if algorithm == "dr":
        return approx_dr(table, patterns, budget)
    if len(table.rules.kinds):
        raise ParameterError(
            f"the algorithm {algorithm} knows k-anonymity only",
            remedy="Use the algorithm dr with l-diversity and the other models.",
        )
    if algorithm == "cf":
        return approx_cf(table, beta)
    if algorithm == "gr":
        return approx_gr(table, patterns)
    simple = {"fq": approx_fq, "naive": approx_naive, "ds": approx_ds}
    return simple[algorithm](table)
