"""The linear-programming bound: prices of rows that prove how little any solution can pay.

The prices are found by ascent over the closed candidates. Whatever they are, they are then lowered
in whole numbers until no group of k rows that could be made alike is priced above its cost; by weak
duality their sum is a lower bound. That last walk looks at all patterns anew, not at the
candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.ascent import ascend
from sfumato.anonymization.cells.candidates import MOST_PLACES, Candidates, closed_candidates
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["Dual", "certified", "dual_of", "lp_bound", "proven_by", "rounded_up"]

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


def lp_bound(
    table: CellTable,
    patterns: Patterns,
    start: npt.NDArray[np.int64],
    cost: int,
    budget: Budget | None = None,
    steps: int = 150,
) -> int:
    """The best bound that prices of rows prove, in units; never below that of `start`.

    Parameters
    ----------
    start
        Prices to begin with, in units: those of `opt_lb`.
    cost
        What a known solution costs, in units.
    steps
        Steps of the ascent at most; it ends early with the budget or when nothing is gained.

    Examples
    --------
    >>> from sfumato.anonymization.cells.direct import opt_lb
    >>> from sfumato.anonymization.cells.patterns import patterns_of
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 0], [0, 1]]), k=2)
    >>> least = opt_lb(table)
    >>> int(least @ table.counts), lp_bound(table, patterns_of(table), least, 3000)
    (1000, 2000)
    """
    budget = budget or Budget()
    begin = int(start @ table.counts)
    if begin >= cost or budget.spent() or not patterns.complete:
        return begin  # with many columns the candidates are too many to be listed
    return proven_by(table, patterns, dual_of(table, start, cost, budget, steps), begin)


def proven_by(table: CellTable, patterns: Patterns, dual: Dual, least: int) -> int:
    """The bound that the end of an ascent proves, in units, or the least known if that is more."""
    return max(least, rounded_up(table, certified(table, patterns, dual.prices)))


def dual_of(
    table: CellTable,
    start: npt.NDArray[Any],
    cost: int,
    budget: Budget | None = None,
    steps: int = 150,
) -> Dual:
    """Raise prices step by step over the closed candidates; parameters as of `lp_bound`.

    At most half of the time that is left is used.
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
    from sfumato.anonymization.cells._duality import lower_to_feasible

    highest = patterns.certain_below * _FINE
    whole = np.floor(np.clip(prices, -1e15 / _FINE, 1e15 / _FINE) * _FINE).astype(np.int64)
    whole = np.minimum(whole, highest)
    useful = int(np.searchsorted(patterns.prices, patterns.certain_below, side="right"))
    # Prices only sink, so patterns may come in parts, between which one can be interrupted.
    for at in range(0, useful, _AT_ONCE):
        upto = slice(at, min(at + _AT_ONCE, useful))
        lower_to_feasible(
            table.codes, table.counts, table.k, patterns.kept[upto], patterns.prices[upto] * _FINE,
            table.multipliers, whole,
        )  # fmt: skip
    return int(whole @ table.counts)


def rounded_up(table: CellTable, fractions: int) -> int:
    """A bound in fractions of a unit, up to the next price a solution can have."""
    step = gcd(*table.prices[table.prices > 0].tolist()) * _FINE
    if step == 0:
        return 0
    return max(0, -(-fractions // step)) * step // _FINE
