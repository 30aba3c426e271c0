"""Quantiles of a column that is too long to hold: one pass to sample, one to count and recode.

Lodha & Thomas, section 4.1.3. A sample of s = ln(2/δ)/(2ε²) values estimates *all* ranks at once
within ε·n with probability 1-δ (Dvoretzky-Kiefer-Wolfowitz with Massart's constant; the paper's
(1/ε²)·log(1/δ) is for one rank and larger). One pass, constant memory, mergeable.

Works on anything that yields record batches: a table of any engine, a file larger than memory, a
cursor. A rank error can push a group below k, so `sampled_cuts` aims at groups of k + 2εn rows, and
a second pass counts exactly and joins what is still too small: what is released has k rows in every
group whatever the sample did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.hierarchy.ranges import numbers
from sfumato.kernels.compiling import compiled
from sfumato.kernels.sorted_groups import merge_small, sample_size, sampled_cuts
from sfumato.results import Result


class ValueReservoir:
    """A uniform sample, without replacement, of all numbers fed to it so far.

    Parameters
    ----------
    size
        Values kept.
    seed
        Same seed and same values in the same order give the same sample, however they are batched.

    Examples
    --------
    >>> reservoir = ValueReservoir(100, seed=1)
    >>> for start in range(0, 10_000, 1_000):
    ...     reservoir.add(np.arange(start, start + 1_000))
    >>> reservoir.seen, len(reservoir.values())
    (10000, 100)
    """

    def __init__(self, size: int, seed: int | np.random.Generator = 0) -> None:
        if size < 1:
            raise ParameterError("a sample needs at least one value", remedy="Give 1 or more.")
        self.size = size
        self.seen = 0
        self._kept = np.empty(size)
        self._random = np.random.default_rng(seed)
        self._skip = 0
        self._w = 1.0

    @classmethod
    def for_ranks(cls, eps: float, delta: float, seed: int = 0) -> ValueReservoir:
        """A reservoir just large enough for rank error ε with probability 1-δ."""
        return cls(sample_size(eps, delta), seed)

    def add(self, values: npt.ArrayLike) -> None:
        """Feed a batch of numbers (no nulls)."""
        batch = np.ascontiguousarray(values, dtype=np.float64)
        self.seen, self._skip, self._w = _feed(
            batch, self._kept, self.seen, self._skip, self._w, self._random
        )

    def merge(self, other: ValueReservoir) -> ValueReservoir:
        """A uniform sample of what both have seen; neither is changed, and it takes no more values.

        How many come from each side is hypergeometric, as in one draw from the union.
        """
        size = min(self.size, other.size)
        merged = ValueReservoir(size, self._random.spawn(1)[0])
        merged.seen = self.seen + other.seen
        mine, theirs = self.values(), other.values()
        take = min(size, merged.seen)
        if merged.seen <= size:
            kept = np.concatenate([mine, theirs])
        else:
            from_self = _hypergeometric(merged._random, self.seen, other.seen, take)
            kept = np.concatenate(
                [
                    merged._random.choice(mine, from_self, replace=False),
                    merged._random.choice(theirs, take - from_self, replace=False),
                ]
            )
            # where Algorithm L would stand after so many values: w is the largest of `size`
            # uniform keys among the smallest of `seen`, i.e. Beta(size, seen - size + 1)
            merged._w = float(merged._random.beta(size, merged.seen - size + 1))
            draw = math.log(1 - merged._random.random()) / math.log1p(-merged._w)
            merged._skip = math.floor(draw)
        merged._kept[:take] = kept
        if merged.seen == size:
            merged._w = math.exp(math.log(1 - merged._random.random()) / size)
            merged._skip = math.floor(
                math.log(1 - merged._random.random()) / math.log1p(-merged._w)
            )
        return merged

    def values(self) -> npt.NDArray[np.float64]:
        """The sample, in no particular order."""
        return self._kept[: min(self.seen, self.size)].copy()

    def quantile(self, rank: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Estimated values at ranks given as shares of all rows, in [0, 1)."""
        ordered = self.values()
        ordered.sort()
        at = np.floor(np.asarray(rank) * len(ordered)).astype(np.int64)
        return np.asarray(ordered[np.clip(at, 0, len(ordered) - 1)])


@compiled
def _feed(
    values: npt.NDArray[Any],
    kept: npt.NDArray[Any],
    seen: int,
    skip: int,
    w: float,
    random: np.random.Generator,
) -> tuple[int, int, float]:
    """Li's Algorithm L: keep a uniform sample while jumping over values that are not taken.

    `skip` is how many values are still to be passed over before the next one is taken.
    """
    size = len(kept)
    i = 0
    while seen < size and i < len(values):
        kept[seen] = values[i]
        seen += 1
        i += 1
        if seen == size:
            w = math.exp(math.log(1.0 - random.random()) / size)
            skip = _jump(w, random)
    while i < len(values):
        if skip >= len(values) - i:
            skip -= len(values) - i
            seen += len(values) - i
            break
        i += skip
        seen += skip + 1
        kept[random.integers(0, size)] = values[i]
        i += 1
        w *= math.exp(math.log(1.0 - random.random()) / size)
        skip = _jump(w, random)
    return seen, skip, w


@compiled
def _jump(w: float, random: np.random.Generator) -> int:
    jump = math.floor(math.log(1.0 - random.random()) / math.log1p(-w))
    return int(min(jump, 4.0e18))


def _hypergeometric(random: np.random.Generator, good: int, bad: int, draws: int) -> int:
    """numpy's sampler stops at 10⁹ rows; beyond, the binomial differs by less than draws/rows."""
    if good + bad < 1_000_000_000:
        return int(random.hypergeometric(good, bad, draws))
    return int(min(good, max(draws - bad, random.binomial(draws, good / (good + bad)))))


Batches = Callable[[], Iterable["pa.RecordBatch"]]
"""Starts a pass over the rows."""


@dataclass(frozen=True, eq=False)
class StreamGroups(Result):
    """Groups of a column read from a sample and counted exactly.

    `cuts` is the smallest value of each group but the first, `counts` the rows of each group;
    `nulls` rows have no value. With probability 1-`delta` every rank was read within `eps` of all
    rows from a sample of `sample` values.
    """

    column: str
    k: int
    rows: int
    nulls: int
    groups: int
    smallest: int
    eps: float
    delta: float
    sample: int
    cuts: npt.NDArray[np.float64] = field(metadata={"private": True})
    counts: npt.NDArray[np.int64] = field(metadata={"private": True})


def sampled_groups(
    batches: Batches, column: str, k: int, *, eps: float = 0.01, delta: float = 0.01, seed: int = 0
) -> StreamGroups:
    """Group a column by sampled quantiles, in two passes and constant memory.

    Parameters
    ----------
    batches
        Called twice; each time yields all rows as record batches that have the column.
    column
        A column of numbers, dates or timestamps.
    k
        Rows every group shall have at least.
    eps, delta
        Rank error as a share of all rows, and the probability of a larger one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = [pa.record_batch({"x": np.arange(i, i + 1000)}) for i in range(0, 20_000, 1000)]
    >>> found = sampled_groups(lambda: rows, "x", k=2_000, eps=0.05)
    >>> found.rows, found.smallest >= 2_000
    (20000, True)
    """
    if k < 1:
        raise ParameterError("k must be at least 1", remedy="Give -k 2 or more, e.g. -k 5.")
    reservoir = ValueReservoir.for_ranks(eps, delta, seed)
    nulls = 0
    for batch in batches():
        numbers, missing = _numbers(batch, column)
        reservoir.add(numbers)
        nulls += missing
    if reservoir.seen < k:
        raise ParameterError(
            f"k = {k:,} is larger than the {reservoir.seen:,} rows that have a value",
            where=f"column `{column}`",
            remedy="Give a smaller k.",
        )
    error = eps if reservoir.seen > reservoir.size else 0.0  # everything was kept: no error
    cuts = sampled_cuts(reservoir.values(), reservoir.seen, k, error)
    counts = _count(batches(), column, cuts)
    if counts.sum() != reservoir.seen:
        raise ColumnError(
            f"the second pass saw {int(counts.sum()):,} values, the first {reservoir.seen:,}",
            where=f"column `{column}`",
            remedy="Read from a source that stays the same, e.g. a file.",
        )
    kept = merge_small(cuts, counts, k)
    owner = np.searchsorted(kept, cuts, side="right")
    merged = np.bincount(np.concatenate([[0], owner]), weights=counts).astype(np.int64)
    return StreamGroups(
        column=column,
        k=k,
        rows=reservoir.seen,
        nulls=nulls,
        groups=len(merged),
        smallest=int(merged.min()),
        eps=eps,
        delta=delta,
        sample=min(reservoir.size, reservoir.seen),
        cuts=kept,
        counts=merged,
    )


def recoded_batches(
    batches: Iterable[pa.RecordBatch], groups: StreamGroups, labels: pa.Array
) -> Iterator[pa.RecordBatch]:
    """The rows with the column replaced by the label of its group; nulls stay null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = [pa.record_batch({"x": [1.0, 2.0, 8.0, 9.0]})]
    >>> found = sampled_groups(lambda: rows, "x", k=2, eps=0.001)
    >>> out = recoded_batches(rows, found, pa.array(["low", "high"]))
    >>> next(out).column("x").to_pylist()
    ['low', 'low', 'high', 'high']
    """
    for batch in batches:
        at = batch.schema.get_field_index(groups.column)
        present = np.asarray(batch.column(at).is_valid())
        numbers, _ = _numbers(batch, groups.column)
        codes = np.zeros(batch.num_rows, np.int64)
        codes[present] = np.searchsorted(groups.cuts, numbers, side="right")
        shown = labels.take(pa.array(codes, mask=~present))
        yield batch.set_column(at, groups.column, shown)


def _numbers(batch: pa.RecordBatch, column: str) -> tuple[npt.NDArray[np.float64], int]:
    """Values that are there, as numbers, and how many are not."""
    at = batch.schema.get_field_index(column)
    if at < 0:
        raise ColumnError(
            f"there is no column `{column}`", remedy=did_you_mean(column, batch.schema.names)
        )
    values = batch.column(at)
    missing = values.null_count
    found = numbers(values.drop_null() if missing else values, column)
    return found, missing


def _count(
    batches: Iterable[pa.RecordBatch], column: str, cuts: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    counts = np.zeros(len(cuts) + 1, np.int64)
    for batch in batches:
        numbers, _ = _numbers(batch, column)
        counts += np.bincount(np.searchsorted(cuts, numbers, side="right"), minlength=len(counts))
    return counts
