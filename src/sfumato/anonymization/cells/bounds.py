"""Lower bounds of what any solution must pay: OPT-LB, linear programming, and the optimum.

The linear program's bound is a price for each row. Prices are found by ascent over the closed
candidates; whatever they are, they are then lowered in whole numbers until no group of k rows that
could be made alike is priced above its cost, so that by weak duality their sum is a lower bound.
That last walk looks at all patterns anew, not at the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.candidates import MOST_PLACES, Candidates, closed_candidates
from sfumato.anonymization.cells.exact import optimum
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.table import CellTable, new_slots, number_classes, sort_classes
from sfumato.anonymization.dual_ascent import ascend, lower_class
from sfumato.budget import Budget
from sfumato.errors import BudgetError
from sfumato.kernels.compiling import compiled

__all__ = ["BOUNDS", "Bound", "Dual", "ascent", "certified", "dual_of", "lower_bound"]

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
            proven = _proven_by(table, patterns, dual, proven)
        bounds["lp"] = proven
    solved = None
    small = table.entries * table.width <= _SMALL
    met = max(bounds.values()) >= cost
    if not met and (kind == "exact" or (kind == "auto" and small)):
        solved = optimum(table, budget, 60.0 if kind == "exact" else 10.0)
        if solved is None and kind == "exact":
            raise BudgetError(
                "the optimum cannot be computed: the table is too large, or more than k-anonymity "
                "is asked for",
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


_FINE = 1 << 10
"""Prices of rows are whole numbers of this fraction of a unit."""

_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Dual:
    """Where the ascent ended.

    Attributes
    ----------
    candidates
        The closed candidates it looked at.
    prices
        Prices of a row of each entry, in units, whose bound is the highest found.
    opened
        Share of the last steps, later ones counting more, in which each candidate was worth more
        than it costs.
    """

    candidates: Candidates
    prices: npt.NDArray[np.float64]
    opened: npt.NDArray[np.float64]


def _proven_by(table: CellTable, patterns: Patterns, dual: Dual, least: int) -> int:
    """The bound that the end of an ascent proves, in units, or the least known if that is more."""
    return max(least, table.payable(max(0, -(-certified(table, patterns, dual.prices) // _FINE))))


def dual_of(
    table: CellTable,
    start: npt.NDArray[Any],
    cost: int,
    budget: Budget | None = None,
    steps: int = 150,
) -> Dual:
    """Raise prices step by step over the closed candidates.

    Parameters
    ----------
    start
        Prices to begin with, in units: those of `opt_lb`.
    cost
        What a known solution costs, in units.
    steps
        Steps of the ascent at most; it ends early when nothing is gained, and takes at most half of
        the time that is left.
    """
    budget = budget or Budget()
    room = MOST_PLACES if budget.memory is None else min(MOST_PLACES, budget.memory // 12)
    candidates = closed_candidates(table, room)
    found = ascend(
        table.counts, table.k, candidates.starts, candidates.members, candidates.prices, start,
        cost, budget, steps,
    )  # fmt: skip
    return Dual(candidates, found.prices, found.opened)


def certified(table: CellTable, patterns: Patterns, prices: npt.NDArray[Any]) -> int:
    """What prices prove after they are lowered to feasible whole numbers, in fractions of a unit.

    Patterns that are not listed cost at least `certain_below` a row, so no group of theirs is
    overpriced when no row is dearer than that.
    """
    highest = patterns.certain_below * _FINE
    whole = np.floor(np.clip(prices, -1e15 / _FINE, 1e15 / _FINE) * _FINE).astype(np.int64)
    whole = np.minimum(whole, highest)
    useful = int(np.searchsorted(patterns.prices, patterns.certain_below, side="right"))
    # Prices only sink, so patterns may come in parts, between which one can be interrupted.
    for at in range(0, useful, _AT_ONCE):
        upto = slice(at, min(at + _AT_ONCE, useful))
        _lower_to_feasible(
            table.codes, table.counts, table.k, patterns.kept[upto], patterns.prices[upto] * _FINE,
            table.multipliers, whole,
        )  # fmt: skip
    return int(whole @ table.counts)


@compiled
def _lower_to_feasible(codes, counts, k, kept, stars, multipliers, price):  # type: ignore[no-untyped-def]
    """Lower prices until no class is overpriced; gives the number of classes that were.

    In each overpriced class the dearest rows are cut down to a common price. Prices only sink, so a
    class once in order stays so and one walk over all patterns suffices.
    """
    n = codes.shape[0]
    everyone = np.arange(n)
    slots = new_slots(n)
    numbers = np.empty(n, np.int32)
    starts, order = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    sizes, sums = np.empty(n, np.int64), np.empty(n, np.int64)
    lowered = 0
    for p in range(kept.shape[0]):
        classes = number_classes(codes, everyone, n, kept[p], multipliers, p, slots, numbers)
        # A class with too few rows, or none above the price of its stars, cannot be overpriced.
        for c in range(classes):
            sizes[c], sums[c] = 0, 0
        for i in range(n):
            sizes[numbers[i]] += counts[i]
            if price[i] > stars[p]:
                sums[numbers[i]] += 1
        sort_classes(numbers, n, classes, starts, order)
        for c in range(classes):
            if sizes[c] >= k and sums[c]:
                lowered += lower_class(order[starts[c] : starts[c + 1]], counts, k, stars[p], price)
    return lowered
