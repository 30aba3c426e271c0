"""Rows, or distinct combinations with their counts, as small integers.

Algorithms never see values, they see *codes*: one array a column, uint8/16/32 by the number of
distinct values. Codes are ranks: a smaller code is a smaller value (numbers by value, text byte by
byte, then NaN, then null), so the same table has the same codes whichever engine read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Codes", "smallest_dtype"]

CodeArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Codes:
    """Entries of a table as codes: rows, or distinct combinations with counts.

    Parameters
    ----------
    columns
        Column names.
    arrays
        One array of codes a column, all of the same length.
    values
        For each column its distinct values in order of their codes, as an Arrow array; a null, if
        any, is the last entry.
    counts
        How many rows each entry stands for; None when every entry is one row.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> codes = Codes(("sex",), (np.array([0, 1, 0], np.uint8),), (pa.array(["F", "M"]),))
    >>> codes.entries, codes.rows, codes.cardinalities
    (3, 3, (2,))
    """

    columns: tuple[str, ...]
    arrays: tuple[CodeArray, ...]
    values: tuple[pa.Array, ...]
    counts: npt.NDArray[np.int64] | None = None
    length: int | None = None
    """Number of entries; needed only when there are no columns."""

    @property
    def entries(self) -> int:
        """Number of entries (rows, or distinct combinations)."""
        return len(self.arrays[0]) if self.arrays else (self.length or 0)

    @property
    def rows(self) -> int:
        """Number of rows the entries stand for."""
        return self.entries if self.counts is None else int(self.counts.sum())

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of distinct values of each column."""
        return tuple(len(values) for values in self.values)

    def select(self, columns: Sequence[str]) -> Codes:
        """The same entries with fewer columns, in the order given; nothing is copied."""
        at = [self.columns.index(name) for name in columns]
        return Codes(
            tuple(columns),
            tuple(self.arrays[i] for i in at),
            tuple(self.values[i] for i in at),
            self.counts,
            self.entries,
        )

    def take(self, entries: npt.NDArray[Any]) -> Codes:
        """Some entries, by index or boolean mask, with the same codes and values."""
        counts = None if self.counts is None else self.counts[entries]
        arrays = tuple(array[entries] for array in self.arrays)
        length = len(arrays[0]) if arrays else int(np.arange(self.entries)[entries].size)
        return Codes(self.columns, arrays, self.values, counts, length)

    def column(self, name: str) -> CodeArray:
        """The codes of one column."""
        return self.arrays[self.columns.index(name)]

    def values_of(self, name: str) -> pa.Array:
        """The distinct values of one column, in order of their codes."""
        return self.values[self.columns.index(name)]


def smallest_dtype(cardinality: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes below `cardinality`.

    Examples
    --------
    >>> smallest_dtype(256), smallest_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if cardinality <= 1 << 16 else np.dtype(np.uint32)
