"""Lower bounds of what any solution must pay: OPT-LB, linear programming, and the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.dual import Dual, dual_of, proven_by
from sfumato.anonymization.cells.exact import optimum
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget
from sfumato.errors import BudgetError

__all__ = ["BOUNDS", "Bound", "ascent", "lower_bound"]

BOUNDS = ("auto", "opt-lb", "lp", "exact")

_FEW_STEPS, _MANY_STEPS = 50, 200

_MOST_WORK = 2_000_000_000
"""Cells in all patterns up to which `auto` asks for the linear program without a time budget."""

_SMALL = 4_000
"""Combinations times columns up to which `auto` asks for the optimum."""


@dataclass(frozen=True, eq=False)
class Bound:
    """The best lower bound found, and all that were computed, in units.

    `partition` is a solution that was found on the way, if any. `unsolved` says that the optimum
    was asked for and its solver ran out of time.
    """

    name: str
    units: int
    all: Mapping[str, int]
    partition: Partition | None = None
    unsolved: bool = False


def ascent(
    table: CellTable,
    patterns: Patterns,
    least: npt.NDArray[np.int64],
    first: Partition,
    kind: str,
    budget: Budget,
) -> Dual | None:
    """The end of the linear program's ascent, longer for the bounds ``lp`` and ``exact``.

    None where it is not to be had: with many columns the candidates are too many to be listed,
    and where the rows pay no more than they must there is nothing to be gained.
    """
    cost, wanted = first.units(table), kind in ("lp", "exact")
    affordable = patterns.work(table) <= _MOST_WORK or budget.seconds is not None
    if not (patterns.complete and (affordable or wanted)):
        return None
    if int(least @ table.counts) >= cost or budget.spent():
        return None
    return dual_of(table, least, cost, budget, _MANY_STEPS if wanted else _FEW_STEPS)


def lower_bound(
    table: CellTable,
    patterns: Patterns,
    kind: str,
    least: npt.NDArray[np.int64],
    dual: Dual | None,
    found: Partition,
    budget: Budget,
) -> Bound:
    """The best bound of the kind asked; ``auto`` stops as soon as a bound meets the cost.

    Parameters
    ----------
    least
        What `opt_lb` gives.
    dual
        What `ascent` gives.

    Raises
    ------
    BudgetError
        If the optimum is asked of a table that is too large for it.
    """
    cost = found.units(table)
    bounds = {"opt-lb": int(least @ table.counts)}
    if kind != "opt-lb" and (dual is not None or kind != "auto"):
        proven = bounds["opt-lb"]
        if dual is not None:
            proven = table.payable(proven_by(table, patterns, dual, proven))
        bounds["lp"] = proven
    solved = None
    small = table.entries * table.width <= _SMALL
    met = max(bounds.values()) >= cost
    if not met and (kind == "exact" or (kind == "auto" and small)):
        solved = optimum(table, budget, 60.0 if kind == "exact" else 10.0)
        if solved is None and kind == "exact":
            raise BudgetError(
                "the optimum cannot be computed: the table is too large, or rules beyond k are "
                "asked",
                remedy="Ask for the bound `lp`.",
            )
    if solved is not None:
        bounds["exact"] = table.payable(solved.bound)
    name = max(bounds, key=lambda known: bounds[known])
    return Bound(
        name,
        bounds[name],
        bounds,
        partition=None if solved is None else solved.partition,
        unsolved=kind == "exact" and solved is not None and not solved.proven,
    )
