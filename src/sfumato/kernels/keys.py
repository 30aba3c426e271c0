"""Several columns as one number.

An entry with codes c₁, c₂, … under cardinalities K₁, K₂, … has the key (c₁·K₂ + c₂)·K₃ + …: equal
entries have equal keys, different ones different keys, and keys order entries as their codes do.

Loops take any number of columns of any width through their addresses, so that each is compiled
once and not once for every mixture of types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "LARGEST_SPACE", "Columns", "keys_of"]

BLOCK = 8192
"""Entries whose keys are made at a time: small enough to stay in the nearest cache."""

LARGEST_SPACE = 1 << 62
"""Keys stay below this number; more columns are folded into class numbers first."""

MOST_ENTRIES = 1 << 30
"""So many class numbers times any codes still make a key."""

_LOOKED_AT = 1 << 15

CodeArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Columns:
    """Code arrays prepared for compiled loops; keeps them alive while their addresses are used."""

    arrays: tuple[CodeArray, ...]
    cardinalities: tuple[int, ...]
    entries: int
    addresses: npt.NDArray[np.uint64]
    widths: npt.NDArray[np.uint8]
    radices: npt.NDArray[np.uint64]
    space: int
    """Number of possible keys."""

    @classmethod
    def of(
        cls,
        arrays: Sequence[CodeArray],
        cardinalities: Sequence[int],
        entries: int | None = None,
    ) -> Columns:
        """Check and describe code arrays."""
        if len(arrays) != len(cardinalities):
            raise ValueError(f"{len(arrays)} columns but {len(cardinalities)} cardinalities")
        entries = len(arrays[0]) if arrays else int(entries or 0)
        if entries > MOST_ENTRIES:
            raise OverflowError(f"{entries} entries are more than compiled loops can number")
        ready = tuple(
            _ready(array, int(cardinality), entries)
            for array, cardinality in zip(arrays, cardinalities, strict=True)
        )
        space = 1
        radices = []
        for cardinality in reversed(cardinalities):
            radices.append(space)
            space *= max(int(cardinality), 1)
        if space > LARGEST_SPACE:
            radices = [0] * len(radices)
        return cls(
            ready,
            tuple(int(cardinality) for cardinality in cardinalities),
            entries,
            np.array([array.ctypes.data for array in ready], np.uint64),
            np.array([array.itemsize for array in ready], np.uint8),
            np.array(radices[::-1], np.uint64),
            space,
        )

    @property
    def layout(self) -> tuple[npt.NDArray[np.uint64], ...]:
        """What compiled loops take: addresses, widths and radices."""
        return self.addresses, self.widths, self.radices  # type: ignore[return-value]


def _ready(array: CodeArray, cardinality: int, entries: int) -> CodeArray:
    if len(array) != entries:
        raise ValueError(f"a column has {len(array)} entries, another {entries}")
    if array.dtype.kind != "u" or array.itemsize > 4:
        raise TypeError(f"codes must be uint8, uint16 or uint32, not {array.dtype}")
    # Loops trust codes. Looking at all of them would cost as much as a loop, so only small tables
    # are looked at: there a wrong caller shows itself soon enough.
    if 0 < entries <= _LOOKED_AT and int(array.max()) >= max(cardinality, 1):
        raise ValueError(f"a code is not below the cardinality of {cardinality}")
    return np.ascontiguousarray(array)


def keys_of(columns: Columns) -> npt.NDArray[np.uint64]:
    """The key of every entry.

    Examples
    --------
    >>> import numpy as np
    >>> sex, age = np.array([1, 0, 1], np.uint8), np.array([0, 2, 0], np.uint8)
    >>> keys_of(Columns.of((sex, age), (2, 3))).tolist()
    [3, 2, 3]
    """
    keys = np.zeros(columns.entries, np.uint64)
    for array, radix in zip(columns.arrays, columns.radices, strict=True):
        keys += array * radix
    return keys
