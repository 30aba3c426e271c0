"""Smallest sets that hit all given sets, solved exactly by integer programming (HiGHS)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget

__all__ = ["Hitting", "SetFamily", "minimum_hitting_set"]

Matrix = npt.NDArray[np.bool_]


class SetFamily:
    """Sets of columns that every answer must hit; only inclusion-minimal ones are kept."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._sets: Matrix = np.zeros((0, columns), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def matrix(self) -> Matrix:
        """One row a set."""
        return self._sets

    def add(self, sets: Matrix) -> int:
        """Add sets, drop those that contain another; returns how many new ones stayed."""
        sets = np.unique(sets[sets.any(axis=1)], axis=0)
        if not len(sets):
            return 0
        fresh = sets[~_contains_any(sets, self._sets)]
        fresh = minimal_sets(fresh)
        if not len(fresh):
            return 0
        old = self._sets[~_contains_any(self._sets, fresh)]
        self._sets = np.concatenate([old, fresh])
        return len(fresh)

    def hit_by(self, columns: Iterable[int]) -> bool:
        """Whether a column set hits all sets."""
        chosen = list(columns)
        return bool(self._sets[:, chosen].any(axis=1).all()) if len(self._sets) else True


def minimal_sets(sets: Matrix) -> Matrix:
    """The sets that contain no other one; equal ones once."""
    sets = np.unique(sets, axis=0)
    sizes = sets.sum(axis=1)
    kept = sets[:0]
    for size in np.unique(sizes):
        level = sets[sizes == size]
        kept = np.concatenate([kept, level[~_contains_any(level, kept)]])
    return kept


def _contains_any(sets: Matrix, smaller: Matrix) -> npt.NDArray[np.bool_]:
    """For every set whether it contains (or equals) one of the smaller ones."""
    answer = np.zeros(len(sets), dtype=np.bool_)
    if not len(smaller):
        return answer
    sizes = smaller.sum(axis=1, dtype=np.float32)
    for start in range(0, len(sets), 4096):
        part = sets[start : start + 4096].astype(np.float32)
        common = part @ smaller.T.astype(np.float32)
        answer[start : start + 4096] = (common == sizes).any(axis=1)
    return answer


@dataclass(frozen=True)
class Hitting:
    """A hitting set, its cost, and a cost below which there is none."""

    columns: tuple[int, ...]
    cost: float
    lower_bound: float
    optimal: bool


def minimum_hitting_set(
    family: SetFamily, costs: Sequence[float], budget: Budget | None = None
) -> Hitting:
    """The cheapest set of columns that hits every set of the family.

    Examples
    --------
    >>> family = SetFamily(3)
    >>> family.add(np.array([[True, True, False], [False, True, True]]))
    2
    >>> minimum_hitting_set(family, [1, 1, 1]).columns
    (1,)
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    fallback = greedy_hitting_set(family, costs)
    if not len(family):
        return Hitting((), 0.0, 0.0, True)
    options = {}
    if budget is not None and budget.seconds is not None:
        options["time_limit"] = max(0.01, budget.remaining)
    price = np.asarray(costs, dtype=np.float64)
    solved = milp(
        price,
        constraints=LinearConstraint(csr_array(family.matrix.astype(np.float64)), lb=1),
        integrality=np.ones(len(price)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0, **options},
    )
    fallback_cost = float(price[list(fallback)].sum())
    bound = solved.mip_dual_bound
    lower = 0.0 if bound is None or not np.isfinite(bound) else float(bound)
    if solved.x is None:
        return Hitting(fallback, fallback_cost, lower, False)
    chosen = tuple(int(c) for c in np.flatnonzero(solved.x > 0.5))
    cost = float(price[list(chosen)].sum())
    return Hitting(chosen, cost, cost if solved.status == 0 else lower, solved.status == 0)


def greedy_hitting_set(family: SetFamily, costs: Sequence[float]) -> tuple[int, ...]:
    """A hitting set found by always taking the column that hits most sets for its cost."""
    price = np.asarray(costs, dtype=np.float64)
    waiting = family.matrix
    chosen: list[int] = []
    while len(waiting):
        best = int(np.argmax(waiting.sum(axis=0) / price))
        chosen.append(best)
        waiting = waiting[~waiting[:, best]]
    return tuple(sorted(chosen))
