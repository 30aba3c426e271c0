"""Pairs of rows from a stream, each uniform over all pairs and independent of the others.

Every pair is a reservoir of two rows of its own, as Motwani & Xu's streaming remark asks. All of
them are moved forward together: a pair changes only about 2·ln(n/2) times in n rows, and each
knows the row at which it will change next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.streams.shelf import Shelf

__all__ = ["PairReservoir"]


class PairReservoir:
    """`size` independent pairs of different rows of a stream, each uniform over all pairs.

    Parameters
    ----------
    size
        Number of pairs.
    seed
        The same stream gives the same pairs, however it is cut into batches.

    Examples
    --------
    >>> reservoir = PairReservoir(3, seed=1)
    >>> reservoir.add(pa.record_batch({"x": [1, 2, 3, 4]}))
    >>> left, right = reservoir.pairs()
    >>> all(a != b for a, b in zip(left["x"].to_pylist(), right["x"].to_pylist(), strict=True))
    True
    """

    def __init__(self, size: int, seed: int | Sequence[int] = 0) -> None:
        if size < 1:
            raise ParameterError(f"a sample of {size} pairs is not possible", remedy="Ask for 1+.")
        self.size = size
        self.rows_seen = 0
        self._random = np.random.default_rng(seed)
        # Each pair draws from its own sequence, so that the cut into batches changes nothing.
        self._stream = self._random.integers(0, 2**64, size, dtype=np.uint64)
        self._drawn = np.zeros(size, dtype=np.uint64)
        self._shelf = Shelf(2 * size)  # slots p and size + p hold the two rows of pair p
        self._schema: pa.Schema | None = None
        self._log_weight = np.zeros(size)
        self._next = np.full(size, 1, dtype=np.float64)
        self._jump(np.arange(size))

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Let the next rows of the stream pass by."""
        if self._schema is None:
            self._schema = batch.schema
        start, end = self.rows_seen, self.rows_seen + batch.num_rows
        slots, rows = [], []
        for first in (0, 1):  # the first two rows of the stream begin every pair
            if start <= first < end:
                slots.append(np.arange(self.size) + first * self.size)
                rows.append(np.full(self.size, first - start))
        due = np.flatnonzero(self._next < end)
        while len(due):
            slots.append(due + self.size * (self._draw(due) < 0.5))
            rows.append(self._next[due].astype(np.int64) - start)
            self._jump(due)
            due = due[self._next[due] < end]
        if slots:
            self._shelf.put(np.concatenate(slots), batch, np.concatenate(rows))
        self.rows_seen = end

    def _jump(self, pairs: npt.NDArray[np.int64]) -> None:
        """Choose the next row that enters each of these pairs (Algorithm L with two slots)."""
        self._log_weight[pairs] += np.log1p(-self._draw(pairs)) / 2
        gaps = np.log1p(-self._draw(pairs)) / np.log1p(-np.exp(self._log_weight[pairs]))
        self._next[pairs] += np.floor(gaps) + 1

    def _draw(self, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The next uniform number in [0, 1) of each of these pairs' sequences (SplitMix64)."""
        self._drawn[pairs] += np.uint64(1)
        state = self._stream[pairs] + self._drawn[pairs] * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
        return np.asarray((state >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def pairs(self) -> tuple[pa.Table, pa.Table]:
        """First and second rows of the pairs, aligned; empty below two rows."""
        if self.rows_seen < 2:
            empty = pa.table({}) if self._schema is None else self._schema.empty_table()
            return empty, empty
        slots = np.arange(self.size)
        return self._shelf.take(slots), self._shelf.take(slots + self.size)

    def kept(self) -> tuple[pa.Table, pa.Table | None]:
        """What another process needs to restore it; a single row is half of every pair."""
        slots = np.arange(self.size)
        if self.rows_seen == 1:
            return self._shelf.take(slots), None
        return self.pairs()

    @classmethod
    def restored(
        cls,
        size: int,
        rows_seen: int,
        left: pa.Table,
        right: pa.Table | None = None,
        *,
        seed: int | Sequence[int] = 0,
    ) -> PairReservoir:
        """A reservoir that was filled elsewhere; it can be merged, but not be fed any further."""
        restored = cls(size, seed)
        restored._schema, restored.rows_seen = left.schema, rows_seen
        slots = np.arange(size)
        restored._shelf.put(slots, left, slots)
        if right is not None:
            restored._shelf.put(slots + size, right, slots)
        restored._next[:] = np.inf
        return restored

    def merge(self, other: PairReservoir) -> PairReservoir:
        """The pairs of both streams together, as if they had been one.

        For each pair the number of its rows that come from this stream is hypergeometric; neither
        side may be fed any further.
        """
        if other.size != self.size:
            raise ParameterError(
                f"samples of {self.size} and {other.size} pairs cannot be merged",
                remedy="Use the same size everywhere.",
            )
        merged = PairReservoir(self.size, seed=int(self._random.integers(2**63)))
        merged._schema = self._schema if self._schema is not None else other._schema
        merged.rows_seen = self.rows_seen + other.rows_seen
        merged._next[:] = np.inf
        if merged.rows_seen < 2:
            for part in (self, other):
                if part.rows_seen == 1:
                    slots = np.arange(self.size)
                    merged._shelf.put(slots, part._shelf.take(slots), slots)
            return merged
        random = merged._random
        from_self = random.hypergeometric(self.rows_seen, other.rows_seen, 2, size=self.size)
        own = self.size * random.integers(0, 2, self.size)
        theirs = self.size * random.integers(0, 2, self.size)
        pairs = np.arange(self.size)
        both, none = from_self == 2, from_self == 0
        # A stream of one row fills only the first slot of its pairs.
        own = np.where((self.rows_seen == 1), 0, own)
        theirs = np.where((other.rows_seen == 1), 0, theirs)
        left_own, left_theirs = ~none, none
        merged._fill(pairs[left_own], self, pairs[left_own] + np.where(both, 0, own)[left_own])
        merged._fill(pairs[left_theirs], other, pairs[left_theirs])
        right_own, right_theirs = both, ~both
        merged._fill(pairs[right_own] + self.size, self, pairs[right_own] + self.size)
        at = pairs + np.where(none, self.size, theirs)
        merged._fill(pairs[right_theirs] + self.size, other, at[right_theirs])
        return merged

    def _fill(
        self,
        slots: npt.NDArray[np.int64],
        source: PairReservoir,
        theirs: npt.NDArray[np.int64],
    ) -> None:
        if len(slots):
            self._shelf.put(slots, source._shelf.take(theirs), np.arange(len(slots)))
