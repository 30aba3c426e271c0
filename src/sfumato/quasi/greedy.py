"""Greedy search for small column sets that tell rows apart, on exact counts.

Each step adds the column that separates most of the pairs still together, for its cost (Motwani &
Xu, section 2.2): a key of at most (1 + 2 ln n) times the minimum. Afterwards columns that became
redundant are dropped. Only rows not yet alone are looked at again, and a column is given up as
soon as it cannot win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.engines.protocol import ClassSizes, CodeArray, Codes
from sfumato.errors import ParameterError, did_you_mean, spell
from sfumato.tables import Table


def column_weights(opened: Table, weights: Mapping[str, float] | None) -> list[float]:
    """The weight of every column of a table, 1 where none is given."""
    given = dict(weights or {})
    for name, weight in given.items():
        if name not in opened.columns:
            raise ParameterError(
                f"there is a weight for a column `{name}` that does not exist",
                where=opened.name,
                remedy=did_you_mean(name, opened.columns),
            )
        if not (isinstance(weight, Real) and weight > 0 and math.isfinite(weight)):
            raise ParameterError(
                f"the weight of `{name}` is {weight}",
                where=opened.name,
                remedy="Give a number larger than zero, or leave the column out.",
            )
    return [float(given.get(name, 1.0)) for name in opened.columns]


MOST_WHOLE = 1_000_000
"""What weights may sum up to as whole numbers: a solver's tolerances are one over this."""


def whole_weights(weights: Sequence[float], where: str) -> tuple[list[float], float]:
    """Weights as whole numbers, whose sums a proof compares exactly, and what one of them weighs.

    Examples
    --------
    >>> whole_weights([0.5, 2.0, 1e-1], "people.csv")
    ([5.0, 20.0, 1.0], 0.1)
    """
    exact = [Fraction(repr(float(weight))) for weight in weights]
    shared = math.lcm(*(one.denominator for one in exact))
    common = math.gcd(*(int(one * shared) for one in exact))
    whole = [int(one * shared) // common for one in exact]
    if sum(whole) > MOST_WHOLE:
        raise ParameterError(
            "these weights lie too far apart, or have too many digits, for a proof",
            where=where,
            remedy=f"Give weights that add up to at most {MOST_WHOLE:,}, as whole numbers in the "
            f"same proportions, or leave out {spell('proven', True)}.",
        )
    return [float(one) for one in whole], float(Fraction(common, shared))


GATHER_BELOW = 0.5
"""Columns are copied into the order of the remaining rows once these are so few of those held."""


@dataclass(frozen=True)
class Goal:
    """When a column set is good enough.

    At most `pairs` pairs of rows may stay together, and at least `classes` classes must exist.
    """

    pairs: int | None = None
    classes: int = 0

    def met(self, codes: Codes, columns: Sequence[int]) -> bool:
        """Whether a column set (by position) reaches the goal."""
        return self.reached(histogram(codes, columns))

    def reached(self, sizes: ClassSizes) -> bool:
        """Whether a histogram of class sizes reaches the goal."""
        if sizes.classes < self.classes:
            return False
        return self.pairs is None or sizes.unseparated_pairs <= self.pairs


def histogram(codes: Codes, columns: Sequence[int]) -> ClassSizes:
    """Class sizes of a column set (by position)."""
    return ClassSizes(
        *kernels.size_histogram(
            [codes.arrays[c] for c in columns],
            [codes.cardinalities[c] for c in columns],
            codes.counts,
            entries=codes.entries,
        )
    )


@dataclass(frozen=True)
class Path:
    """Columns in the order the search took them, and the pairs of rows left together after each."""

    columns: tuple[int, ...]
    pairs_left: tuple[int, ...]
    stopped_by: str | None = None


def greedy(
    codes: Codes,
    costs: Sequence[float],
    goal: Goal,
    *,
    max_size: int | None = None,
    budget: Budget | None = None,
) -> Path:
    """Add columns until the goal is met, or nothing more can be separated.

    Parameters
    ----------
    codes
        Rows or distinct combinations.
    costs
        Cost of every column; the gain of a column is divided by it.
    goal
        When to stop.
    """
    budget = budget or Budget()
    arrays: list[CodeArray] = list(codes.arrays)
    cardinalities = codes.cardinalities
    fixed = pairs_within_entries(codes)
    partition = kernels.whole(codes.entries, codes.counts)
    path: list[int] = []
    left: list[int] = []

    def take(column: int) -> None:
        nonlocal partition, arrays
        partition = kernels.split(partition, arrays[column], cardinalities[column])
        path.append(column)
        left.append(partition.pairs + fixed)
        if len(partition.rows) <= GATHER_BELOW * len(arrays[column]):
            arrays = [array[partition.rows] for array in arrays]
            partition = kernels.renumbered(partition)

    def enough() -> bool:
        pairs = partition.pairs + fixed
        if goal.pairs is not None and pairs > goal.pairs:
            return False
        return goal.classes == 0 or goal.met(codes, path)

    while not enough() and partition.pairs and (max_size is None or len(path) < max_size):
        if budget.spent():
            return Path(tuple(path), tuple(left), budget.stopped_by)
        budget.progress(f"choosing column {len(path) + 1}")
        best = _best_column(partition, arrays, cardinalities, costs, path)
        if best is None:
            break
        take(best)
    return Path(tuple(path), tuple(left))


def _best_column(
    partition: kernels.Partition,
    arrays: Sequence[CodeArray],
    cardinalities: Sequence[int],
    costs: Sequence[float],
    taken: Sequence[int],
) -> int | None:
    """The column with the largest gain for its cost; None when no column separates anything.

    Columns with many values usually win, so they go first and give the others a bound to fail at.
    """
    candidates = sorted(
        (c for c in range(len(arrays)) if c not in taken),
        key=lambda c: -cardinalities[c] / costs[c],
    )
    best, best_rate = None, 0.0
    for column in candidates:
        # A larger rate needs fewer pairs left than this; equal rates go to the earlier column.
        bound = partition.pairs - int(best_rate * costs[column])
        after = kernels.pairs_after(partition, arrays[column], cardinalities[column], bound)
        rate = (partition.pairs - after) / costs[column]
        if rate > best_rate or (rate == best_rate > 0 and best is not None and column < best):
            best, best_rate = column, rate
    return best


def without_redundant(
    columns: Sequence[int], costs: Sequence[float], met: Callable[[Sequence[int]], bool]
) -> tuple[int, ...]:
    """Drop columns that the others make superfluous, dearest first, then latest first."""
    kept = list(columns)
    order = sorted(range(len(columns)), key=lambda at: (-costs[columns[at]], -at))
    for at in order:
        rest = [c for c in kept if c != columns[at]]
        if met(rest):
            kept = rest
    return tuple(kept)


def pairs_within_entries(codes: Codes) -> int:
    """Pairs of rows that no column tells apart because they are one entry."""
    if codes.counts is None:
        return 0
    counts = codes.counts.astype(object) if codes.rows >= 1 << 31 else codes.counts
    return int((counts * (counts - 1) // 2).sum())
