"""The optimum of small tables, by integer programming over the closed candidates.

Every group of an optimal solution lies in a closed candidate with the same stars, and groups in one
candidate may be joined, so it suffices to choose which candidates are open and how many rows of
each combination go to each: an open one gets at least k rows. For k = 2 this is the problem of
covering by pairs and triples, polynomial in theory; the same program solves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.anonymization.cells.candidates import Candidates, closed_candidates
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["MOST_EXACT", "Optimum", "optimum"]

MOST_EXACT = 60_000
"""Places in candidates up to which a table counts as small."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best partition found by the solver, if any, and what it proves, in units."""

    partition: Partition | None
    bound: int
    proven: bool


def optimum(
    table: CellTable, budget: Budget | None = None, seconds: float = 60.0
) -> Optimum | None:
    """The cheapest partition; None if the table is too large or has rules beyond k.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> optimum(table).bound, optimum(table).proven
    (4000, True)
    """
    budget = budget or Budget()
    if len(table.rules.kinds) or budget.spent():
        return None
    candidates = closed_candidates(table, MOST_EXACT)
    if not candidates.complete or len(candidates.members) > MOST_EXACT:
        return None
    return solve_assignment(table, candidates, min(seconds, budget.remaining))


def solve_assignment(table: CellTable, candidates: Candidates, seconds: float) -> Optimum:
    """The cheapest way to spread the rows over some of the candidates."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    places, choices = len(candidates.members), len(candidates)
    whose = np.repeat(np.arange(choices), np.diff(candidates.starts))
    counts = table.counts[candidates.members].astype(np.float64)
    costs = np.concatenate([candidates.prices[whose], np.zeros(choices)])
    matrix, low, high = _constraints(table, candidates, whose)
    answer = milp(
        costs.astype(np.float64),
        constraints=LinearConstraint(matrix, low, high),
        # Once the open candidates are chosen, the rest is a flow problem, whole by itself.
        integrality=np.concatenate([np.zeros(places), np.ones(choices)]),
        bounds=Bounds(0, np.concatenate([counts, np.ones(choices)])),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": 0.0},
    )
    proven = bool(answer.status == 0)
    partition = None
    if answer.x is not None:
        rows = np.round(answer.x[:places]).astype(np.int64)
        found = Partition(candidates.members.astype(np.int64), rows, whose).tidy()
        if _is_whole(table, found):
            partition = found
    proven = proven and partition is not None
    known = answer.mip_dual_bound if answer.mip_dual_bound is not None else 0.0
    # The solver works in floating point: what it calls a bound is trusted to a thousandth of
    # a unit.
    bound = partition.units(table) if proven and partition is not None else max(0, int(known - 1))
    return Optimum(partition, bound, proven)


def _constraints(table: CellTable, candidates: Candidates, whose: Any) -> tuple[Any, Any, Any]:
    """All rows are somewhere; an open candidate has k rows; a closed one has none."""
    from scipy.sparse import coo_matrix

    places, choices, entries = len(candidates.members), len(candidates), table.entries
    at = np.arange(places)
    counts = table.counts[candidates.members].astype(np.float64)
    ones = np.ones(places)
    rows = [candidates.members, entries + whose, entries + np.arange(choices)]
    columns = [at, at, places + np.arange(choices)]
    values = [ones, ones, np.full(choices, -float(table.k))]
    rows += [entries + choices + at, entries + choices + at]
    columns += [at, places + whose]
    values += [-ones, counts]
    matrix = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(entries + choices + places, places + choices),
    ).tocsr()
    low = np.concatenate([table.counts.astype(np.float64), np.zeros(choices + places)])
    high = np.concatenate([table.counts.astype(np.float64), np.full(choices + places, np.inf)])
    return matrix, low, high


def _is_whole(table: CellTable, found: Partition) -> bool:
    """Whether the solver's answer, rounded, is a partition into groups of k."""
    held = np.bincount(found.entry, weights=found.rows, minlength=table.entries)
    return bool((held == table.counts).all() and found.sizes().min(initial=table.k) >= table.k)
