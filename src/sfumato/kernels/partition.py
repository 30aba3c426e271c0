"""Which class a row is in, and how columns split classes one after the other.

`Lookup` finds rows in a table of combinations. These are folded, too: each stage finds what a row
has in some columns, together with what the stages before it found.

A `Partition` is stripped: it holds the classes that still have more than one entry, and nothing
else. Greedy searches add one column after the other. What matters is how many pairs of rows remain
together, and only classes with at least two entries hold any: lone entries are dropped as they
appear, so that each step is cheaper than the one before. A candidate column is abandoned as soon as
it is sure to leave more pairs than the best one so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels import compiling
from sfumato.kernels.classes import (
    LARGEST_SPACE,
    CodeArray,
    Columns,
    Weights,
    class_ids,
    fitting,
    group_rows,
    group_sums,
    keys_of,
    representatives,
)
from sfumato.kernels.compiling import always_compiled, compiled

Ordinals = npt.NDArray[np.int64] | None
_LOOKUP_CELLS = 1 << 20


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
        if columns.space <= _LOOKUP_CELLS:
            self.table = np.full(columns.space, self.count, np.uint32)
            self.table[self.keys] = np.arange(self.count, dtype=np.uint32)

    @cached_property
    def slots(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """A hash table of the keys, and their numbers."""
        from sfumato.kernels.key_tables import slots_of

        return slots_of(self.keys)

    def find(self, columns: Columns) -> npt.NDArray[np.uint32]:
        """Number of each row's key; one above all numbers where it is not among them."""
        if not compiling.by_numpy(columns.entries):
            from sfumato.kernels.key_tables import find_keys

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


_UNBOUNDED = np.iinfo(np.int64).max
_UNWEIGHTED = np.empty(0, np.int64)
_MOST_ROWS = 1 << 32
"""Above this many rows, pairs outrun a 64-bit integer."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Classes with at least two entries.

    Parameters
    ----------
    rows
        Their entries, class after class.
    starts
        Where each class begins in `rows`, and the end of the last.
    pairs
        Pairs of rows in a common class but in different entries. Rows of one entry agree on every
        column, so these are the pairs that more columns may still separate.
    weights
        Rows that each entry of the table stands for; None when every entry is one row.
    """

    rows: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    pairs: int
    weights: Weights = None

    @property
    def classes(self) -> int:
        """Number of classes with at least two entries."""
        return len(self.starts) - 1


@always_compiled
def _pairs_after(rows, starts, codes, weights, together, bound):  # type: ignore[no-untyped-def]
    """Pairs left after a split; `together` is zeroed scratch, one cell a code."""
    pairs = np.int64(0)
    weighted = len(weights) > 0
    for at in range(len(starts) - 1):
        begin, end = starts[at], starts[at + 1]
        if end - begin == 2:
            first, second = rows[begin], rows[begin + 1]
            if codes[first] == codes[second]:
                pairs += weights[first] * weights[second] if weighted else 1
        else:
            # In stretches, so that a single giant class is abandoned in time too.
            for stretch in range(begin, end, 65536):
                for i in range(stretch, min(end, stretch + 65536)):
                    row = rows[i]
                    code = np.int64(codes[row])
                    weight = weights[row] if weighted else 1
                    pairs += together[code] * weight
                    together[code] += weight
                if pairs > bound:
                    return pairs
            if end - begin < len(together):
                for i in range(begin, end):
                    together[np.int64(codes[rows[i]])] = 0
            else:
                together[:] = 0
        if pairs > bound:
            return pairs
    return pairs


@always_compiled
def _split(rows, starts, codes, sizes, places, appeared, new_rows, new_starts):  # type: ignore[no-untyped-def]
    """Entries and starts of the finer classes; `sizes` is zeroed scratch, one cell a code."""
    written = np.int64(0)
    classes = 0
    for at in range(len(starts) - 1):
        begin, end = starts[at], starts[at + 1]
        different = 0
        for i in range(begin, end):
            code = np.int64(codes[rows[i]])
            if sizes[code] == 0:
                appeared[different] = code
                different += 1
            sizes[code] += 1
        for i in range(different):
            code = appeared[i]
            if sizes[code] > 1:
                places[code] = written
                new_starts[classes] = written
                classes += 1
                written += sizes[code]
            else:
                places[code] = -1
        for i in range(begin, end):
            code = np.int64(codes[rows[i]])
            place = places[code]
            if place >= 0:
                new_rows[place] = rows[i]
                places[code] = place + 1
        for i in range(different):
            sizes[appeared[i]] = 0
    new_starts[classes] = written
    return classes, written


@always_compiled
def _pairs_within(rows, starts, weights):  # type: ignore[no-untyped-def]
    """Pairs of rows in a common class and in different entries."""
    pairs = np.int64(0)
    for at in range(len(starts) - 1):
        so_far = np.int64(0)
        for i in range(starts[at], starts[at + 1]):
            pairs += so_far * weights[rows[i]]
            so_far += weights[rows[i]]
    return pairs


@always_compiled
def _collect(ids, places, rows):  # type: ignore[no-untyped-def]
    for i in range(len(ids)):
        place = places[ids[i]]
        if place >= 0:
            rows[place] = i
            places[ids[i]] = place + 1


def whole(entries: int, weights: Weights = None) -> Partition:
    """All entries in one class.

    Examples
    --------
    >>> whole(4).pairs
    6
    """
    if entries < 2:
        return _weighed(np.empty(0, np.uint32), np.zeros(1, np.int64), weights)
    return _weighed(np.arange(entries, dtype=np.uint32), np.array([0, entries], np.int64), weights)


def partition_of(
    arrays: Sequence[CodeArray], cardinalities: Sequence[int], weights: Weights = None
) -> Partition:
    """The classes of a column set.

    Examples
    --------
    >>> import numpy as np
    >>> classes = partition_of((np.array([0, 1, 0, 2], np.uint8),), (3,))
    >>> classes.rows.tolist(), classes.starts.tolist(), classes.pairs
    ([0, 2], [0, 2], 1)
    """
    ids, count = class_ids(arrays, cardinalities)
    sizes = group_sums(ids, count)
    shared = sizes > 1
    if compiling.by_numpy(len(ids)):
        return _shared(ids, sizes, np.arange(len(ids), dtype=np.uint32), weights)
    starts = np.concatenate([[0], np.cumsum(sizes[shared])]).astype(np.int64)
    places = np.full(count, -1, np.int64)
    places[shared] = starts[:-1]
    rows = np.empty(int(starts[-1]), np.uint32)
    _collect(ids, places, rows)
    return _weighed(rows, starts, weights)


def split(partition: Partition, codes: CodeArray, cardinality: int) -> Partition:
    """The partition refined by one more column; classes stay in order, parts as they appear.

    Examples
    --------
    >>> import numpy as np
    >>> split(whole(4), np.array([1, 0, 1, 2], np.uint8), 3).rows.tolist()
    [0, 2]
    """
    rows, starts = partition.rows, partition.starts
    if compiling.by_numpy(len(rows)):
        _, first, ids, sizes = np.unique(
            _keys(partition, codes, cardinality),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        order = np.argsort(first)  # as they appear
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return _shared(rank[ids], sizes[order], rows, partition.weights)
    new_rows = np.empty(len(rows), np.uint32)
    new_starts = np.empty(len(rows) // 2 + 1, np.int64)
    classes, written = _split(
        rows,
        starts,
        codes,
        np.zeros(cardinality, np.int64),
        np.empty(cardinality, np.int64),
        np.empty(cardinality, np.int64),
        new_rows,
        new_starts,
    )
    return _weighed(new_rows[:written].copy(), new_starts[: classes + 1].copy(), partition.weights)


def pairs_after(
    partition: Partition, codes: CodeArray, cardinality: int, bound: int | None = None
) -> int:
    """What `pairs` would be after a split by this column.

    Parameters
    ----------
    partition
        The classes so far.
    codes, cardinality
        The column.
    bound
        Stop as soon as the number is sure to be larger than this, and return some larger number.

    Examples
    --------
    >>> import numpy as np
    >>> pairs_after(whole(4), np.array([1, 0, 1, 2], np.uint8), 3)
    1
    """
    if compiling.by_numpy(len(partition.rows)):
        _, ids, sizes = np.unique(
            _keys(partition, codes, cardinality), return_inverse=True, return_counts=True
        )
        return _pairs(ids, sizes, partition.rows, partition.weights)
    weights = _UNWEIGHTED if partition.weights is None else partition.weights
    limit = _UNBOUNDED if bound is None else bound
    together = np.zeros(cardinality, np.int64)
    return int(_pairs_after(partition.rows, partition.starts, codes, weights, together, limit))


def renumbered(partition: Partition) -> Partition:
    """The same classes over columns gathered as ``array[partition.rows]``.

    Once most entries are alone, gathering the rest makes every later loop run through memory in
    order.

    Examples
    --------
    >>> import numpy as np
    >>> renumbered(split(whole(3), np.array([1, 0, 1], np.uint8), 2)).rows.tolist()
    [0, 1]
    """
    weights = partition.weights
    return replace(
        partition,
        rows=np.arange(len(partition.rows), dtype=np.uint32),
        weights=None if weights is None else weights[partition.rows],
    )


def _keys(partition: Partition, codes: CodeArray, cardinality: int) -> npt.NDArray[np.int64]:
    """One number for the class and the code of each entry of a partition."""
    classes = np.repeat(np.arange(partition.classes), np.diff(partition.starts))
    return classes * cardinality + codes[partition.rows]


def _shared(
    ids: npt.NDArray[Any],
    sizes: npt.NDArray[np.int64],
    rows: npt.NDArray[np.uint32],
    weights: Weights,
) -> Partition:
    """The partition of some entries, given the class of each: without those that are alone."""
    stay = sizes[ids] > 1
    order, _ = group_rows(ids[stay], len(sizes))
    starts = np.concatenate([[0], np.cumsum(sizes[sizes > 1])]).astype(np.int64)
    return _weighed(rows[stay][order], starts, weights)


def _pairs(
    ids: npt.NDArray[Any],
    sizes: npt.NDArray[np.int64],
    rows: npt.NDArray[np.uint32],
    weights: Weights,
) -> int:
    """Pairs of rows in a common class and in different entries."""
    if weights is None:
        return int((sizes * (sizes - 1) // 2).sum())
    own = weights[rows]
    together = group_sums(ids, len(sizes), own)
    squares = sum(w**2 for w in own.tolist())
    return int(sum(many**2 for many in together.tolist()) - squares) // 2


def _weighed(
    rows: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], weights: Weights
) -> Partition:
    """A partition with its pairs counted."""
    sizes = np.diff(starts)
    if weights is None:
        return Partition(rows, starts, _pairs(rows, sizes, rows, None))
    weights = np.ascontiguousarray(weights, dtype=np.int64)
    if int(weights.sum()) > _MOST_ROWS:
        raise OverflowError("pairs of more than 2^32 rows cannot be counted in 64 bits")
    if compiling.by_numpy(len(rows)):
        pairs = _pairs(np.repeat(np.arange(len(sizes)), sizes), sizes, rows, weights)
    else:
        pairs = int(_pairs_within(rows, starts, weights))
    return Partition(rows, starts, pairs, weights)
