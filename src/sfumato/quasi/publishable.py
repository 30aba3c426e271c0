"""Which columns can be published together: the search behind masking.

Publish a set C such that no subset of it is a quasi-identifier, i.e. whose ratio exceeds β. Ratios
only grow with columns, so C alone decides (Motwani & Xu, section 5). Greedy adds the column
that identifies least for its weight; the proven optimum drops the cheapest columns that hit every
minimal violating set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.quasi.hitting import SetFamily, minimum_hitting_set

__all__ = [
    "DistinctCount",
    "Identifying",
    "PairShare",
    "SeparationCount",
    "greedy_publishable",
    "minimal_violation",
    "proven_publishable",
]


class Identifying(Protocol):
    """How much a column set identifies, as an integer that only grows with columns."""

    limit: int
    """The largest value that may be published."""

    def start(self) -> Any:
        """State of the empty set."""

    def after(self, state: Any, column: int) -> int:
        """The value when a column is added to a state."""

    def add(self, state: Any, column: int) -> Any:
        """The state with a column added."""

    def value(self, columns: Sequence[int]) -> int:
        """The value of a set."""


def allowed(beta: float, total: int) -> int:
    """The largest integer whose share of a total is at most β, without rounding errors."""
    return math.floor(Fraction(repr(float(beta))) * total)


class SeparationCount:
    """Pairs of rows a set separates, on exact counts."""

    def __init__(self, codes: Codes, beta: float) -> None:
        self.codes = codes
        self.total = codes.rows * (codes.rows - 1) // 2
        self.limit = allowed(beta, self.total)
        self._within = 0
        if codes.counts is not None:
            counts = codes.counts.astype(object)
            self._within = int((counts * (counts - 1) // 2).sum())

    def start(self) -> kernels.Partition:
        return kernels.whole(self.codes.entries, self.codes.counts)

    def after(self, state: kernels.Partition, column: int) -> int:
        left = kernels.pairs_after(
            state, self.codes.arrays[column], self.codes.cardinalities[column]
        )
        return self.total - left - self._within

    def add(self, state: kernels.Partition, column: int) -> kernels.Partition:
        return kernels.split(state, self.codes.arrays[column], self.codes.cardinalities[column])

    def value(self, columns: Sequence[int]) -> int:
        chosen = self.codes.select([self.codes.columns[c] for c in columns])
        return self.total - kernels.unseparated_pairs(
            chosen.arrays, chosen.cardinalities, chosen.counts, entries=chosen.entries
        )


class DistinctCount:
    """Classes a set makes among rows, on exact counts."""

    def __init__(self, codes: Codes, limit: int) -> None:
        self.codes = codes
        self.limit = limit

    def start(self) -> tuple[npt.NDArray[np.uint32], int]:
        return np.zeros(self.codes.entries, dtype=np.uint32), min(1, self.codes.entries)

    def after(self, state: tuple[npt.NDArray[np.uint32], int], column: int) -> int:
        return self.add(state, column)[1]

    def add(
        self, state: tuple[npt.NDArray[np.uint32], int], column: int
    ) -> tuple[npt.NDArray[np.uint32], int]:
        groups, count = state
        if not count:
            return state
        return kernels.refine(
            groups,
            count,
            self.codes.arrays[column],
            self.codes.cardinalities[column],
            ordered=False,
        )

    def value(self, columns: Sequence[int]) -> int:
        state = self.start()
        for column in columns:
            state = self.add(state, column)
        return state[1]


class PairShare:
    """Sampled pairs of rows a set separates; the matrix says in which columns a pair differs."""

    def __init__(self, differ: npt.NDArray[np.bool_], limit: int) -> None:
        self.differ = differ
        self.limit = limit

    def start(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self.differ), dtype=np.bool_)

    def after(self, state: npt.NDArray[np.bool_], column: int) -> int:
        return int(np.count_nonzero(state | self.differ[:, column]))

    def add(self, state: npt.NDArray[np.bool_], column: int) -> npt.NDArray[np.bool_]:
        return state | self.differ[:, column]

    def value(self, columns: Sequence[int]) -> int:
        return int(np.count_nonzero(self.differ[:, list(columns)].any(axis=1)))


@dataclass(frozen=True)
class Published:
    """Columns that may be published together, and the weight no such set exceeds."""

    columns: tuple[int, ...]
    upper_bound: float | None = None
    stopped_by: str | None = None


def greedy_publishable(
    how: Identifying,
    weights: Sequence[float],
    columns: Sequence[int],
    *,
    pinned: Sequence[int] = (),
    budget: Budget | None = None,
) -> Published:
    """Add the column that identifies least for its weight, as long as the limit is kept.

    Parameters
    ----------
    how
        What is counted, and its limit.
    weights
        Worth of every column.
    columns
        Columns to choose from.
    pinned
        Columns published in any case; they must keep the limit by themselves.
    """
    budget = budget or Budget()
    state = how.start()
    chosen: list[int] = []
    now = 0
    for column in pinned:
        now = how.after(state, column)
        state = how.add(state, column)
        chosen.append(column)
    waiting = [c for c in columns if c not in chosen]
    while waiting:
        if budget.spent():
            return Published(tuple(chosen), stopped_by=budget.stopped_by)
        budget.progress(f"{len(chosen)} columns can be published", len(chosen) / len(columns))
        after = {c: how.after(state, c) for c in waiting}
        # What breaks the limit now will break it later too.
        waiting = [c for c in waiting if after[c] <= how.limit]
        if not waiting:
            break
        best = min(waiting, key=lambda c: ((after[c] - now) / weights[c], c))
        free = [c for c in waiting if after[c] == now] or [best]
        for column in free:  # columns that identify nothing more can all be taken at once
            state = how.add(state, column)
            chosen.append(column)
        now = after[free[0]]
        waiting = [c for c in waiting if c not in free]
    return Published(tuple(chosen))


def minimal_violation(
    value: Callable[[Sequence[int]], int], limit: int, columns: Sequence[int], keep: Sequence[int]
) -> tuple[int, ...]:
    """A violating set within `columns` from which no column but those of `keep` can be left out."""
    violating = list(columns)
    for column in columns:
        rest = [c for c in violating if c != column]
        if column not in keep and value(rest) > limit:
            violating = rest
    return tuple(violating)


def proven_publishable(
    how: Identifying,
    weights: Sequence[float],
    columns: Sequence[int],
    first: Published,
    *,
    pinned: Sequence[int] = (),
    budget: Budget | None = None,
    seed: int = 0,
) -> Published:
    """The heaviest publishable set, with proof; on a spent budget the best found and a bound.

    The columns left out must hit every minimal violating set. Violating sets are learnt from
    attempts that fail, as in `sfumato.quasi.proof`.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    total = float(sum(weights[c] for c in columns))
    # A column that is pinned cannot be left out: its cost exceeds that of all others together.
    costs = [total + 1 if c in pinned else weights[c] for c in columns]
    family = SetFamily(len(columns))
    best = first.columns
    best_weight = float(sum(weights[c] for c in best))
    upper = total
    while not budget.spent():
        hit = minimum_hitting_set(family, costs, budget)
        upper = min(upper, total - hit.lower_bound)
        published = [c for at, c in enumerate(columns) if at not in hit.columns]
        if upper <= best_weight + 1e-9:
            return Published(best, best_weight)
        if how.value(published) <= how.limit:
            weight = float(sum(weights[c] for c in published))
            if weight > best_weight:
                best, best_weight = tuple(published), weight
            if hit.optimal:
                return Published(best, best_weight)
        else:
            family.add(_violations(how, columns, published, random))
            budget.progress(f"{best_weight:g} published, at most {upper:g} possible")
    return Published(best, upper, budget.stopped_by)


def _violations(
    how: Identifying,
    columns: Sequence[int],
    published: Sequence[int],
    random: np.random.Generator,
    several: int = 4,
) -> npt.NDArray[np.bool_]:
    """Minimal violating sets inside a set that violates, one per random order."""
    demands = np.zeros((several, len(columns)), dtype=np.bool_)
    position = {c: at for at, c in enumerate(columns)}
    for demand in demands:
        order = [published[i] for i in random.permutation(len(published))]
        for column in minimal_violation(how.value, how.limit, order, ()):
            demand[position[column]] = True
    return demands
