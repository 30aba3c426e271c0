"""Quantiles of a column that is too long to hold: one pass to sample, one to count and recode.

Works on anything that yields record batches: a table of any engine, a file larger than memory, a
cursor. The first pass keeps a uniform sample with rank error ε·n at probability 1-δ (see
`reservoir`), the second counts exactly and joins groups below k, so that what is released has k
rows in every group whatever the sample did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.populations.reservoir import ValueReservoir, merge_small, sampled_cuts
from sfumato.results import Result

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamGroups", "recoded_batches", "sampled_groups"]

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
    import pyarrow as pa

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
    from sfumato.hierarchy.ranges import numbers

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
