"""Finding rows in a table of combinations.

The combinations are folded into one number, a few columns at a time: each stage finds what a row
has in its columns, together with what the stages before it found, in a table with a cell for every
possible key or, where that is too large, in a hash table of whole keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels import compiling
from sfumato.kernels.classes import class_ids, fitting, representatives
from sfumato.kernels.compiling import compiled
from sfumato.kernels.groups import LARGEST_SPACE, Columns, keys_of

__all__ = ["Lookup"]

CodeArray = npt.NDArray[Any]
Ordinals = npt.NDArray[np.int64] | None

_MOST_CELLS = 1 << 20


@compiled
def _in_range(found, first, last, entry, ends, cursors, seen, entries):  # type: ignore[no-untyped-def]
    """The entry whose ordinal range holds each row; rows of a combination come in order."""
    missing = len(cursors)
    for i in range(len(found)):
        number = np.int64(found[i])
        entries[i] = -1
        if number == missing:
            continue
        ordinal = seen[number]
        seen[number] = ordinal + 1
        at = cursors[number]
        while at < ends[number] and last[at] <= ordinal:
            at += 1
        cursors[number] = at
        if at < ends[number] and first[at] <= ordinal:
            entries[i] = entry[at]


class Lookup:
    """A table of combinations in which rows are found.

    Parameters
    ----------
    arrays, cardinalities
        The combinations: codes, and how many different codes each column may have. Without ordinal
        ranges each combination occurs once.
    first, last
        Half-open ordinal ranges: a combination speaks of the rows first … last among those with
        its values.

    Examples
    --------
    >>> import numpy as np
    >>> sexes = Lookup((np.array([2, 0], np.uint8),), (3,))
    >>> sexes.find((np.array([0, 1, 2], np.uint8),)).tolist()
    [1, -1, 0]
    """

    def __init__(
        self,
        arrays: Sequence[CodeArray],
        cardinalities: Sequence[int],
        first: Ordinals = None,
        last: Ordinals = None,
        *,
        entries: int | None = None,
    ) -> None:
        self._cardinalities = tuple(cardinalities)
        self._entries = len(arrays[0]) if arrays else int(entries or 0)
        ids, count = class_ids(arrays, cardinalities, entries=self._entries)
        if first is None and count < self._entries:
            raise ValueError("a combination occurs twice and there are no ordinal ranges")
        chosen = representatives(ids, count)
        self._count = count
        self._entry = np.append(chosen.astype(np.int64), -1)
        self._stages = _stages([array[chosen] for array in arrays], self._cardinalities)
        self._ranges: tuple[npt.NDArray[np.int64], ...] | None = None
        if first is not None and last is not None:
            order = np.lexsort((first, ids))
            starts = np.searchsorted(ids[order], np.arange(count + 1))
            self._ranges = (
                np.ascontiguousarray(first[order], dtype=np.int64),
                np.ascontiguousarray(last[order], dtype=np.int64),
                order.astype(np.int64),
                starts[1:].astype(np.int64),
                starts[:-1].astype(np.int64),
                np.zeros(count, np.int64),
            )

    def find(
        self, arrays: Sequence[CodeArray], *, entries: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Which combination each row has, or -1.

        With ordinal ranges rows are counted over all calls: ask for each row once, in order.
        """
        rows = len(arrays[0]) if arrays else int(entries or 0)
        found = np.zeros(rows, np.uint32)
        if self._count == 0:
            return np.full(rows, -1, np.int64)
        before = 0
        for stage in self._stages:
            columns = Columns.of(
                (found, *arrays[before : stage.until]),
                (stage.incoming, *self._cardinalities[before : stage.until]),
            )
            found, before = stage.find(columns), stage.until
        if self._ranges is None:
            return self._entry[found]
        matched = np.empty(rows, np.int64)
        loop = _in_range.plain if compiling.by_numpy(rows) else _in_range
        loop(found, *self._ranges, matched)
        return matched


class _Stage:
    """Some columns of the combinations, together with the numbers found so far, as a table."""

    def __init__(self, columns: Columns, until: int) -> None:
        keys = keys_of(columns)
        keys.sort()  # np.unique would hash first, which takes many times as long
        self.keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        self.until = until
        self.incoming = columns.cardinalities[0]
        self.count = len(self.keys)
        self.table = np.empty(0, np.uint32)
        if columns.space <= _MOST_CELLS:
            self.table = np.full(columns.space, self.count, np.uint32)
            self.table[self.keys] = np.arange(self.count, dtype=np.uint32)

    @cached_property
    def slots(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """A hash table of the keys, and their numbers."""
        from sfumato.kernels.hash_table import slots_of

        return slots_of(self.keys)

    def find(self, columns: Columns) -> npt.NDArray[np.uint32]:
        """Number of each row's key; one above all numbers where it is not among them."""
        if not compiling.by_numpy(columns.entries):
            from sfumato.kernels.hash_table import find_keys

            slots = (np.empty(0, np.uint64), self.table) if len(self.table) else self.slots
            return find_keys(columns, *slots, self.count)
        keys = keys_of(columns)
        if len(self.table):
            return self.table[keys]
        at = np.searchsorted(self.keys, keys)
        met = self.keys[np.minimum(at, self.count - 1)] == keys
        return np.where(met, at, self.count).astype(np.uint32)


def _stages(arrays: Sequence[CodeArray], cardinalities: tuple[int, ...]) -> list[_Stage]:
    """Fold the columns into stages whose keys fit 62 bits.

    What is not found has a number of its own, one above those found, so that it stays not found.
    """
    stages: list[_Stage] = []
    entries = len(arrays[0]) if arrays else 0
    numbers, incoming, at = np.zeros(entries, np.uint32), 1, 0
    while at < len(arrays):
        until = at + fitting((incoming, *cardinalities[at:]), LARGEST_SPACE) - 1
        columns = Columns.of((numbers, *arrays[at:until]), (incoming, *cardinalities[at:until]))
        stage = _Stage(columns, until)
        numbers, _ = class_ids(columns.arrays, columns.cardinalities)
        stages.append(stage)
        incoming, at = stage.count + 1, until
    return stages
