"""How large a sample must be for a promise to hold, and how pairs of rows are drawn.

All bounds are union bounds over the column sets that could be answered: 2^m of them, or fewer when
the answer's size is capped. ε is the share of pairs (or rows) that may be missed, δ the
probability that the promise fails.

Sources: Motwani & Xu, Theorems 5, 7 and 8 and Lemmas 9 and 10; for samples of rows instead of pairs
Hildebrant, Le, Ta & Vu (PODS 2023), here with an explicit constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import ParameterError

__all__ = [
    "log_sets",
    "pair_indices",
    "pairs_for_beta",
    "pairs_for_separation",
    "prune_below",
    "rows_for_distinct",
    "rows_for_separation",
    "share",
]


def share(name: str, value: float) -> float:
    """Check that a parameter lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ParameterError(
            f"{name} = {value:g} is out of range", remedy=f"Give 0 < {name} < 1, e.g. 0.01."
        )
    return float(value)


def log_sets(columns: int, max_size: int | None = None) -> float:
    """Natural logarithm of the number of column sets of at most `max_size` columns.

    Examples
    --------
    >>> round(math.exp(log_sets(14))), round(math.exp(log_sets(14, max_size=2)))
    (16384, 106)
    """
    if max_size is None or max_size >= columns:
        return columns * math.log(2)
    return math.log(sum(math.comb(columns, size) for size in range(max_size + 1)))


def pairs_for_separation(
    columns: int, eps: float, delta: float, max_size: int | None = None
) -> int:
    """Pairs that separate good column sets from bad ones (Motwani & Xu, Theorem 5).

    With this many random pairs, a set that separates all of them separates all but ε of all pairs,
    with probability 1-δ and for all sets at once.

    Examples
    --------
    >>> [pairs_for_separation(m, 0.001, 0.01) for m in (14, 41, 54)]
    [14303, 33008, 42015]
    """
    share("ε", eps), share("δ", delta)
    return math.ceil((log_sets(columns, max_size) - math.log(delta)) / -math.log1p(-eps))


def rows_for_separation(columns: int, eps: float, delta: float, max_size: int | None = None) -> int:
    """Rows of which order m/√ε do what m/ε pairs do.

    A bad set leaves more than ε of the pairs together. The sample misses that with the largest
    probability when one class holds a share s = √ε of the rows and all others are alone: then
    at most one sampled row may lie in that class.

    Examples
    --------
    >>> [rows_for_separation(m, 0.001, 0.01) for m in (14, 41, 54)]
    [537, 1142, 1429]
    """
    share("ε", eps), share("δ", delta)
    s = math.sqrt(eps)
    limit = math.log(delta) - log_sets(columns, max_size)

    def missed(rows: int) -> float:
        """Logarithm of the probability that at most one of the rows lies in the class."""
        return (rows - 1) * math.log1p(-s) + math.log(1 - s + rows * s)

    return _smallest(lambda rows: missed(rows) <= limit, 2)


def rows_for_distinct(
    rows: int, columns: int, eps: float, delta: float, max_size: int | None = None
) -> int:
    """Rows of which a key is a (1-ε)-distinct quasi-identifier of all (Motwani & Xu, Theorem 7).

    The smallest r with r(r-1) >= 2·n·(1-ε)/ε·ln(sets/δ); at least n means: look at all rows.
    """
    share("ε", eps), share("δ", delta)
    wanted = 2 * rows * (1 - eps) / eps * (log_sets(columns, max_size) - math.log(delta))
    return _smallest(lambda r: r * (r - 1) >= wanted, 2)


def pairs_for_beta(
    columns: int, beta: float, eps: float, delta: float, max_size: int | None = None
) -> int:
    """Pairs for the minimum β-separation set: 8/(βε²)·ln(sets/δ), the tighter Chernoff bound."""
    share("β", beta), share("ε", eps), share("δ", delta)
    return math.ceil(8 / (beta * eps**2) * (log_sets(columns, max_size) - math.log(delta)))


def prune_below(
    beta: float, size: int, columns: int, delta: float, max_size: int | None = None
) -> float:
    """Ratio in a sample below which a set is no β-set of the whole table, but for probability δ.

    α·β with α = 1 - √(2·ln(sets/δ)/(β·size)); not positive when the sample is too small to prune.
    """
    share("β", beta), share("δ", delta)
    spread = 2 * (log_sets(columns, max_size) - math.log(delta)) / (beta * size)
    return (1 - math.sqrt(spread)) * beta


def pair_indices(
    rows: int, pairs: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Independent pairs (i, j), i != j, each uniform over all pairs of row numbers."""
    if rows < 2:
        raise ParameterError(
            f"a table of {rows} rows has no pairs of rows", remedy="Give a table with more rows."
        )
    left = random.integers(0, rows, pairs)
    right = random.integers(0, rows - 1, pairs)
    return left, right + (right >= left)


def _smallest(holds: Any, at_least: int) -> int:
    """Smallest integer from which a monotone condition holds."""
    high = at_least
    while not holds(high):
        high *= 2
    low = at_least
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
