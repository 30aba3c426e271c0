"""What searches work on: samples large enough for a promise, or all distinct combinations.

All sample sizes are union bounds over the column sets that could be answered: 2^m of them, or fewer
when the answer's size is capped. ε is the share of pairs (or rows) that may be missed, δ the
probability that the promise fails.

Sources: Motwani & Xu, Theorems 5, 7 and 8 and Lemmas 9 and 10; for samples of rows instead of pairs
Hildebrant, Le, Ta & Vu (PODS 2023), here with an explicit constant.

An exact search compares thousands of column sets, which no database answers one by one. The
distinct combinations of all columns with their counts say everything the rows say, and are pulled
over once where they fit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_of_table
from sfumato.engines.protocol import CELL_BYTES, ENOUGH_BYTES, Codes, asks_sql, too_many_classes
from sfumato.engines.stream import StreamEngine
from sfumato.errors import EngineError, ParameterError, TooManyClassesError, spell
from sfumato.tables import Table
from sfumato.wording import counted


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
        raise no_pairs(rows)
    left = random.integers(0, rows, pairs)
    right = random.integers(0, rows - 1, pairs)
    return left, right + (right >= left)


def no_pairs(number: int, of: str = "row", where: str | None = None) -> ParameterError:
    """What is said where a ratio of pairs is asked for, and there is no pair."""
    return ParameterError(
        f"a table of {counted(number, of)} has no pairs of {of}s",
        where=where,
        remedy=f"Give a table with more {of}s.",
    )


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


def refuse_long_cells(opened: Table, budget: Budget) -> None:
    """Refuse cells that a database could not send within the memory."""
    if asks_sql(opened.engine) and opened.engine.source is None:
        opened.engine.check_cells(opened.columns, budget.memory)


def sampled_rows(opened: Table, rows: int, seed: int, budget: Budget) -> Codes:
    """A uniform sample of rows as codes."""
    refuse_long_cells(opened, budget)
    return codes_of_table(opened.sample(rows, None, seed))


def differing_columns(
    opened: Table, pairs: int, seed: int, budget: Budget
) -> npt.NDArray[np.bool_]:
    """For independent uniform pairs of rows, in which columns they differ (pairs x columns).

    Pairs of row numbers are drawn first. The rows they name are then any uniform sample of that
    many different rows, so one sample serves every engine and the pairs are exactly independent.
    A stream has no row numbers yet: there each pair is a reservoir of its own.
    """
    if isinstance(opened.engine, StreamEngine):
        left_rows, right_rows = opened.engine.pairs(pairs, opened.columns, seed)
        codes = codes_of_table(pa.concat_tables([left_rows, right_rows]))
        half = left_rows.num_rows
        if not half:
            raise no_pairs(opened.rows, where=opened.name)
        return np.stack([array[:half] != array[half:] for array in codes.arrays], axis=1)
    random = np.random.default_rng(seed)
    left, right = pair_indices(opened.rows, pairs, random)
    named, at = np.unique(np.concatenate([left, right]), return_inverse=True)
    codes = sampled_rows(opened, len(named), seed, budget)
    where = random.permutation(codes.entries)[at]
    return np.stack([a[where[:pairs]] != a[where[pairs:]] for a in codes.arrays], axis=1)


def combination_bytes(opened: Table, budget: Budget) -> int:
    """What a combination of all columns takes, at most; under a limit long texts are looked at."""
    if budget.memory is not None and asks_sql(opened.engine):
        return opened.engine.combination_bytes(opened.columns)
    return CELL_BYTES * (len(opened.columns) + 1)


def all_combinations(opened: Table, budget: Budget, rows: int | None = None) -> Codes:
    """The rows as codes, or their distinct combinations; refuses more than memory holds.

    Rows are not counted again where it is said how many there are.
    """
    able = opened.engine.capabilities
    if able.coded or not (able.remote or budget.memory):
        return opened.codes(None, budget)
    refuse_long_cells(opened, budget)
    memory = budget.memory or ENOUGH_BYTES
    limit = max(1, memory // combination_bytes(opened, budget))
    try:
        far = able.remote and (opened.rows if rows is None else rows) > limit
        if far and opened.class_sizes(None, budget).classes > limit:  # before they set out
            raise too_many_classes(opened.columns, limit, opened.name)
        return opened.classes(None, limit, budget)
    except TooManyClassesError as error:
        raise EngineError(
            f"the table has more than {limit:,} distinct combinations of its "
            f"{counted(len(opened.columns), 'column')}, too many to pull into {memory >> 20:,} MiB",
            where=opened.name,
            remedy=f"Answer from a sample (for `key` {spell('eps', 0.001)}, for `mask` "
            f"{spell('sample', 20_000)}), choose fewer columns, or allow more memory (e.g. "
            f"{spell('memory', '4GB')}).",
        ) from error


def pulled(opened: Table, codes: Codes) -> tuple[str, ...]:
    """What to say about it: nothing for local tables."""
    if not opened.engine.capabilities.remote:
        return ()
    what = f"{codes.rows:,} rows"
    if codes.counts is not None:
        what = f"{codes.entries:,} distinct combinations of {what}"
    return (f"{what} were pulled over, everything else was computed here",)
