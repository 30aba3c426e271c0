"""A plan that keeps its promise on the data: Theorem 4 first, then coarser until it is measured.

The theorem's number of values assumes equally likely cells. Starting from it, the columns are
blurred, the share of rows whose cell holds at least k people is judged from the sample
(`measured`), and the number of values is lowered until that share is at least 1-β. Both figures are
kept: what the theorem says, and what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.results import ClassSizes, Codes, smallest_dtype
from sfumato.populations.blur import Blurred, Blurrer
from sfumato.populations.measured import PeopleShare, people_share
from sfumato.populations.plan import allot, anonymity_given, distinct_allowed, failure_given
from sfumato.results import Result

__all__ = ["Plan", "PlannedColumn", "Repair", "make_plan"]

Repair = Literal["bound", "estimate", "none"]

CLOSE_ENOUGH = 1.1
"""The search stops when the number of values is known within this factor."""


@dataclass(frozen=True)
class PlannedColumn(Result):
    """What the plan does to one column: values it has, may keep, and keeps."""

    column: str
    domain: int
    weight: float
    allowed: int
    distinct: int
    action: str


@dataclass(frozen=True)
class Plan(Result):
    """How far each column is blurred, and what that promises.

    `distinct_allowed` is Theorem 4's D'. `distinct` is the product of the values the columns keep;
    the theorem alone says of it that a row matches at least `theorem_k` people with probability
    1-β, and at least k with probability `theorem_share`. `measured` is what the sample says of the
    cells that occur, and `before_repair` what it said of the theorem's own plan.
    """

    universe: float
    k: int
    beta: float
    distinct_allowed: float
    distinct: int
    theorem_k: int
    theorem_share: float
    before_repair: PeopleShare
    measured: PeopleShare
    repaired: bool
    holds: bool
    columns: tuple[PlannedColumn, ...]
    blurred: Mapping[str, Blurred] = field(
        default_factory=dict, metadata={"private": True}, repr=False, compare=False
    )


def make_plan(
    entries: Codes,
    blurrers: Mapping[str, Blurrer],
    universe: float,
    k: int,
    beta: float,
    *,
    domains: Mapping[str, int] | None = None,
    weights: Mapping[str, float] | None = None,
    repair: Repair = "bound",
    seed: int = 0,
    budget: Budget | None = None,
) -> Plan:
    """Plan the blurring of a table's quasi-identifiers.

    Parameters
    ----------
    entries
        Rows, or distinct combinations with counts, of exactly the columns of `blurrers`.
    universe, k, beta
        Every row shall match at least k of so many people with probability 1-β.
    domains
        How many values each column can take, where that is more than the table shows.
    weights
        Importance of each column; it gets distinct values in proportion.
    repair
        ``"bound"`` coarsens until the measured share is at least 1-β whatever the distribution,
        ``"estimate"`` until its likeliest value is, ``"none"`` keeps the theorem's plan.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ages = np.arange(10_000) % 80
    >>> entries = Codes(("age",), (ages.astype(np.uint8),), (pa.array(range(80)),), None, 10_000)
    >>> age = Blurrer("age", entries.values[0], np.bincount(ages))
    >>> plan = make_plan(entries, {"age": age}, universe=1e6, k=20_000, beta=0.1)
    >>> plan.distinct, plan.measured.at_least >= 0.9
    (40, True)
    """
    wide = {c: max(b.domain, (domains or {}).get(c, 1)) for c, b in blurrers.items()}
    allowed = distinct_allowed(universe, k, beta)

    def attempt(limit: float) -> _Attempt:
        kept = {a.column: a for a in allot(wide, limit, weights)}
        blurred = {
            # a column that may keep all the values it can take stays as it is
            name: blurrer.to(blurrer.domain if kept[name].untouched else kept[name].distinct)
            for name, blurrer in blurrers.items()
        }
        share = people_share(cell_sizes(entries, blurred), universe, k, seed=seed)
        columns = tuple(
            PlannedColumn(
                name,
                wide[name],
                kept[name].weight,
                kept[name].distinct,
                wide[name] if kept[name].untouched else blurred[name].distinct,
                blurred[name].action,
            )
            for name in blurrers
        )
        return _Attempt(columns, blurred, share)

    first = attempt(allowed)
    best = _coarsen(attempt, first, allowed, 1 - beta, repair, budget)
    distinct = math.prod(column.distinct for column in best.columns)
    return Plan(
        universe=universe,
        k=k,
        beta=beta,
        distinct_allowed=allowed,
        distinct=distinct,
        theorem_k=anonymity_given(universe, distinct, beta),
        theorem_share=1 - failure_given(universe, distinct, k) if distinct > 1 else 1.0,
        before_repair=first.share,
        measured=best.share,
        repaired=best is not first,
        holds=best.figure(repair) >= 1 - beta,
        columns=best.columns,
        blurred=best.blurred,
    )


@dataclass(frozen=True, eq=False)
class _Attempt:
    columns: tuple[PlannedColumn, ...]
    blurred: Mapping[str, Blurred]
    share: PeopleShare

    def figure(self, repair: Repair) -> float:
        """The figure that must reach 1-β."""
        return self.share.estimate if repair == "estimate" else self.share.at_least


def _coarsen(
    attempt: Callable[[float], _Attempt],
    first: _Attempt,
    allowed: float,
    goal: float,
    repair: Repair,
    budget: Budget | None,
) -> _Attempt:
    """The plan with most values, up to `CLOSE_ENOUGH`, that reaches the goal.

    Bisection on the logarithm of the number of values; a single value always reaches it.
    """
    if repair == "none" or first.figure(repair) >= goal:
        return first
    start = min(allowed, math.prod(column.distinct for column in first.columns))
    low, high, best = 0.0, math.log(max(start, 1.0)), attempt(1)
    while high - low > math.log(CLOSE_ENOUGH) and not (budget and budget.spent()):
        middle = (low + high) / 2
        tried = attempt(math.exp(middle))
        if tried.figure(repair) >= goal:
            low, best = middle, tried
        else:
            high = middle
    return best


def cell_sizes(entries: Codes, blurred: Mapping[str, Blurred]) -> ClassSizes:
    """Class sizes after blurring, without touching a row."""
    from sfumato.kernels import size_histogram

    arrays: list[npt.NDArray[np.unsignedinteger]] = []
    cardinalities: list[int] = []
    for name, column in blurred.items():
        narrow = column.groups.astype(smallest_dtype(column.distinct))
        arrays.append(narrow[entries.column(name)])
        cardinalities.append(column.distinct)
    sizes, classes = size_histogram(arrays, cardinalities, entries.counts, entries=entries.entries)
    return ClassSizes(sizes, classes)
