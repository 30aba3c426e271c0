"""A uniform sample of rows from a stream, in one pass and constant memory.

Algorithm L (Li 1994): instead of deciding row by row, jump over the rows that do not enter the
sample. A stream of n rows costs about r·ln(n/r) replacements in all, whatever a row weighs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.streams.shelf import Shelf

__all__ = ["RowReservoir"]


class RowReservoir:
    """Uniform sample without replacement of `size` rows of a stream.

    Parameters
    ----------
    size
        Rows to keep; a shorter stream is kept whole.
    seed
        The same stream, cut into the same batches or others, gives the same sample.

    Examples
    --------
    >>> reservoir = RowReservoir(2, seed=1)
    >>> reservoir.add(pa.record_batch({"x": list(range(100))}))
    >>> reservoir.rows_seen, reservoir.sample().num_rows
    (100, 2)
    """

    def __init__(self, size: int, seed: int | Sequence[int] = 0) -> None:
        if size < 1:
            raise ParameterError(f"a sample of {size} rows is not possible", remedy="Ask for 1+.")
        self.size = size
        self.rows_seen = 0
        self._random = np.random.default_rng(seed)
        self._shelf = Shelf(size)
        self._schema: pa.Schema | None = None
        self._filled = 0
        self._next = size - 1
        self._log_weight = 0.0
        self._jump()

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Let the next rows of the stream pass by."""
        if self._schema is None:
            self._schema = batch.schema
        start, end = self.rows_seen, self.rows_seen + batch.num_rows
        slots: list[int] = []
        rows: list[int] = []
        if self._filled < self.size:
            fresh = min(self.size - self._filled, batch.num_rows)
            slots.extend(range(self._filled, self._filled + fresh))
            rows.extend(range(fresh))
            self._filled += fresh
        while self._next < end:
            slots.append(int(self._random.integers(self.size)))
            rows.append(self._next - start)
            self._jump()
        self._shelf.put(np.array(slots, dtype=np.int64), batch, np.array(rows, dtype=np.int64))
        self.rows_seen = end

    def _jump(self) -> None:
        """Choose the next row that enters the sample, counted from the start of the stream."""
        self._log_weight += math.log(1.0 - self._random.random()) / self.size
        # log1p(-exp(w)) keeps its digits where the acceptance probability is tiny.
        gap = math.log(1.0 - self._random.random()) / math.log1p(-math.exp(self._log_weight))
        self._next += int(gap) + 1

    def sample(self) -> pa.Table:
        """The sample so far, in no particular order."""
        if self._schema is None or self._filled == 0:
            return pa.table({}) if self._schema is None else self._schema.empty_table()
        return self._shelf.take(np.arange(self._filled))

    @classmethod
    def restored(
        cls, size: int, rows_seen: int, kept: pa.Table, seed: int | Sequence[int] = 0
    ) -> RowReservoir:
        """A reservoir that was filled elsewhere; it can be merged, but not be fed any further."""
        restored = cls(size, seed)
        restored._schema, restored.rows_seen = kept.schema, rows_seen
        restored._filled = kept.num_rows
        everything = np.arange(kept.num_rows)
        restored._shelf.put(everything, kept, everything)
        restored._next = -1
        return restored

    def merge(self, other: RowReservoir) -> RowReservoir:
        """The sample of both streams together, as if they had been one.

        How many of its rows come from which stream is hypergeometric, as for a uniform sample of
        the union; within a stream its own sample is uniform already. Neither side may be fed any
        further.
        """
        if other.size != self.size:
            raise ParameterError(
                f"samples of {self.size} and {other.size} rows cannot be merged",
                remedy="Use the same size everywhere.",
            )
        merged = RowReservoir(self.size, seed=int(self._random.integers(2**63)))
        total = self.rows_seen + other.rows_seen
        filled = min(self.size, total)
        random = merged._random
        from_self = 0
        if filled:
            from_self = int(random.hypergeometric(self.rows_seen, other.rows_seen, filled))
        parts = []
        for part, wanted in ((self, from_self), (other, filled - from_self)):
            if wanted:
                chosen = random.choice(part._filled, wanted, replace=False)
                parts.append(part._shelf.take(np.sort(chosen)))
        merged._schema = self._schema if self._schema is not None else other._schema
        merged.rows_seen, merged._filled = total, filled
        if parts:
            union = pa.concat_tables(parts)
            everything = np.arange(filled)
            merged._shelf.put(everything, union, everything)
        merged._next = -1
        return merged
