"""The minimum column set with a proof: implicit hitting sets.

Two rows that must be told apart demand one of the columns in which they differ. The minimum key is
therefore the minimum set that hits all these *difference sets*, of which there are far too many to
write down. So a few are kept; the cheapest set that hits them is found exactly; if it is good
enough for the table it is the minimum, because the table demands at least what the few demand;
otherwise rows it fails to tell apart supply new difference sets.

For β-sets the demand comes from column sets that fail: every answer needs a column outside any
failing set, and the larger the failing set, the stronger the demand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.engines.results import ClassSizes, Codes
from sfumato.quasi.greedy import Goal, without_redundant
from sfumato.quasi.hitting_sets import (
    SetFamily,
    differences_within,
    greedy_hitting_set,
    minimum_hitting_set,
)

__all__ = ["Proof", "proven_minimum"]

ORDERS = 4
"""In how many random column orders failing sets are enlarged in one round."""

Sets = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Proof:
    """The best set found, and how good any set can be at most.

    `lower_bound` is a cost that no column set reaching the goal undercuts; `demands` is the number
    of difference sets that prove it.
    """

    columns: tuple[int, ...]
    cost: float
    lower_bound: float
    rounds: int
    demands: int
    stopped_by: str | None = None

    @property
    def proven(self) -> bool:
        """Whether the set found is the minimum."""
        return self.cost <= self.lower_bound + 1e-9


def proven_minimum(
    codes: Codes,
    costs: Sequence[float],
    goal: Goal,
    first: Sequence[int],
    *,
    all_separable: bool,
    budget: Budget | None = None,
    seed: int = 0,
) -> Proof:
    """The cheapest column set that reaches a goal, with a proof that there is no cheaper one.

    Parameters
    ----------
    codes
        Rows or distinct combinations.
    costs
        Cost of every column.
    goal
        What a set must reach; a set of all columns must reach it.
    first
        Some set that reaches it, to improve on.
    all_separable
        Whether the goal is to tell apart all rows that all columns tell apart (a key); then
        colliding pairs of rows are the witnesses, else failing column sets.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    search = _Search(codes, costs, goal, all_separable, random)
    best = without_redundant(first, costs, search.met)
    whole_costs = all(float(cost).is_integer() for cost in costs)
    lower, rounds = 0.0, 0
    while not budget.spent():
        rounds += 1
        candidate = search.feasible_candidate(budget)
        if candidate is not None and search.cost(candidate) < search.cost(best):
            best = candidate
        hit = minimum_hitting_set(search.family, costs, budget)
        bound = math.ceil(hit.lower_bound - 1e-6) if whole_costs else hit.lower_bound
        lower = max(lower, bound)
        budget.progress(f"at least {lower:g}, found {search.cost(best):g}")
        if lower >= search.cost(best) - 1e-9:
            break
        if search.met(hit.columns):
            if search.cost(hit.columns) < search.cost(best):
                best = hit.columns
            if hit.optimal:
                break
        elif not search.learn(hit.columns):
            raise AssertionError("a set that fails must violate a new demand")
    return Proof(
        tuple(sorted(best)),
        search.cost(best),
        min(lower, search.cost(best)),
        rounds,
        len(search.family),
        budget.stopped_by,
    )


class _Search:
    """The demands known so far, and how to find more."""

    def __init__(
        self,
        codes: Codes,
        costs: Sequence[float],
        goal: Goal,
        all_separable: bool,
        random: np.random.Generator,
    ) -> None:
        self.codes, self.costs, self.goal = codes, costs, goal
        self.all_separable = all_separable
        self.random = random
        self.family = SetFamily(len(codes.columns))

    def cost(self, columns: Sequence[int]) -> float:
        return float(sum(self.costs[c] for c in columns))

    def feasible_candidate(self, budget: Budget) -> tuple[int, ...] | None:
        """Learn from quick greedy hitting sets until one of them reaches the goal."""
        while not budget.spent():
            candidate = greedy_hitting_set(self.family, self.costs)
            if self.met(candidate):
                return without_redundant(candidate, self.costs, self.met)
            self.learn(candidate)
        return None

    def met(self, columns: Sequence[int]) -> bool:
        return self.goal.met(self.codes, columns)

    def learn(self, columns: Sequence[int]) -> int:
        """Add demands that a failing set does not meet; returns how many were new."""
        found = 0
        if self.all_separable:
            found = self.family.add(differences_within(self.codes, columns, self.random))
        return found or self.family.add(self._failing(columns))

    def _failing(self, columns: Sequence[int]) -> Sets:
        """What lies outside of failing sets that contain the given one and cannot be enlarged."""
        demands = np.ones((ORDERS, len(self.costs)), dtype=np.bool_)
        for demand in demands:
            failing = self._enlarge(columns)
            demand[list(failing)] = False
        return demands

    def _enlarge(self, columns: Sequence[int]) -> list[int]:
        codes, goal = self.codes, self.goal
        failing = list(columns)
        rest = [c for c in self.random.permutation(len(self.costs)).tolist() if c not in failing]
        groups, count = kernels.class_ids(
            [codes.arrays[c] for c in failing],
            [codes.cardinalities[c] for c in failing],
            entries=codes.entries,
            ordered=False,
        )
        for column in rest:
            pair = ([groups, codes.arrays[column]], [count, codes.cardinalities[column]])
            if not goal.reached(ClassSizes(*kernels.size_histogram(*pair, codes.counts))):
                failing.append(column)
                groups, count = kernels.class_ids(*pair, ordered=False)
        return failing
