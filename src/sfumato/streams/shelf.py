"""Rows kept under slot numbers, replaced in bulk, without ever holding many more than the slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Shelf"]

Indices = npt.NDArray[np.int64]


class Shelf:
    """A fixed number of slots, each holding one row of a stream of record batches.

    Replaced rows stay in memory until there are several times as many as slots, then the shelf is
    packed: storing is cheap and memory stays proportional to the slots.
    """

    def __init__(self, slots: int) -> None:
        self._at: Indices = np.full(slots, -1, dtype=np.int64)
        self._pieces: list[pa.Table] = []
        self._stored = 0

    def put(self, slots: Indices, batch: pa.RecordBatch | pa.Table, rows: Indices) -> None:
        """Place rows of a batch into slots; of several rows for one slot the last one stays."""
        if len(slots) == 0:
            return
        wanted, inverse = np.unique(rows, return_inverse=True)
        taken = batch.take(pa.array(wanted))
        piece = taken if isinstance(taken, pa.Table) else pa.Table.from_batches([taken])
        self._at[slots] = self._stored + inverse
        self._pieces.append(piece)
        self._stored += len(wanted)
        if self._stored > 4 * len(self._at) + 4096:
            self._pack()

    def take(self, slots: Any) -> pa.Table:
        """The rows in some slots, in the order given; all of them must be filled."""
        if not self._pieces:
            raise IndexError("nothing was put on the shelf yet")
        return pa.concat_tables(self._pieces, promote_options="none").take(
            pa.array(self._at[slots])
        )

    def _pack(self) -> None:
        filled = np.flatnonzero(self._at >= 0)
        kept, inverse = np.unique(self._at[filled], return_inverse=True)
        table = pa.concat_tables(self._pieces).take(pa.array(kept)).combine_chunks()
        self._pieces = [table]
        self._stored = len(kept)
        self._at[filled] = inverse
