"""Classes of a column set: their numbers and sizes, which one a row is in, how columns split them.

Rows that agree on a set of columns form a class. With few possible combinations there is a table
cell for each, with many the keys are dealt into buckets (`key_tables`). In between, and where
combinations outrun 64 bits, columns are folded: the classes of some become one column. Tables of
few rows are left to numpy.

`Lookup` finds rows in a table of combinations. These are folded, too: each stage finds what a row
has in some columns, together with what the stages before it found.

A `Partition` is stripped: it holds the classes that still have more than one entry, and nothing
else. Greedy searches add one column after the other. What matters is how many pairs of rows remain
together, and only classes with at least two entries hold any: lone entries are dropped as they
appear, so that each step is cheaper than the one before. A candidate column is abandoned as soon as
it is sure to leave more pairs than the best one so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import usable_threads
from sfumato.kernels import compiling
from sfumato.kernels.compiling import always_compiled, compiled
from sfumato.kernels.groups import (
    LARGEST_SPACE,
    CodeArray,
    Columns,
    Histogram,
    group_rows,
    group_sums,
    histogram_of,
    keys_of,
)

__all__ = [
    "Lookup",
    "Partition",
    "class_ids",
    "combination_sums",
    "fitting",
    "pairs_after",
    "partition_of",
    "refine",
    "renumbered",
    "representatives",
    "size_histogram",
    "split",
    "unseparated_pairs",
    "whole",
]

Weights = npt.NDArray[np.int64] | None

MOST_CELLS = 1 << 27
MOST_WEIGHED_CELLS = 1 << 22
"""Cells that hold whole sums take eight times the room."""

_SAMPLE = 1 << 15


@always_compiled
def _first_entries(ids, first):  # type: ignore[no-untyped-def]
    for i in range(len(ids) - 1, -1, -1):
        first[np.int64(ids[i])] = i


def class_ids(
    arrays: Sequence[CodeArray],
    cardinalities: Sequence[int],
    *,
    entries: int | None = None,
    ordered: bool = True,
    threads: int | None = None,
) -> tuple[npt.NDArray[np.uint32], int]:
    """Class number of every entry, and the number of classes.

    Parameters
    ----------
    arrays, cardinalities
        The columns: codes, and how many different codes each may have.
    entries
        Number of entries; needed only where there are no columns.
    ordered
        Number classes in ascending order of their codes, the first column first. Otherwise in
        any order, which is cheaper for very many classes.
    threads
        Upper limit; None means all cores.

    Examples
    --------
    >>> import numpy as np
    >>> sex, age = np.array([1, 0, 1, 1], np.uint8), np.array([0, 2, 0, 1], np.uint8)
    >>> ids, count = class_ids((sex, age), (2, 3))
    >>> ids.tolist(), count
    ([1, 0, 1, 2], 3)
    """
    columns = Columns.of(arrays, cardinalities, entries)
    if columns.entries == 0 or columns.space == 1:
        return np.zeros(columns.entries, np.uint32), min(columns.entries, 1)
    if compiling.by_numpy(columns.entries):
        return _numbered(columns)
    from sfumato.kernels.key_tables import number_cells, number_keys

    workers = usable_threads(threads, columns.entries)
    cells = _cells_worthwhile(columns.entries)
    if columns.space <= cells:
        return number_cells(columns, workers)
    if not ordered:
        columns = _narrow_first(columns)
    # Numbering a few columns first is cheap, and fewer combinations occur than are possible.
    fit = fitting(columns.cardinalities, cells)
    if columns.space <= LARGEST_SPACE and (fit < 2 or _mostly_different(columns)):
        return number_keys(columns, ordered, workers)
    if fit < 2:
        fit = fitting(columns.cardinalities, LARGEST_SPACE)
    ids, count = class_ids(
        columns.arrays[:fit], columns.cardinalities[:fit], ordered=ordered, threads=threads
    )
    if count == columns.entries:
        return ids, count
    return class_ids(
        (ids, *columns.arrays[fit:]),
        (count, *columns.cardinalities[fit:]),
        ordered=ordered,
        threads=threads,
    )


def _numbered(columns: Columns) -> tuple[npt.NDArray[np.uint32], int]:
    """The same by numpy, as many columns at a time as make a key."""
    fit = fitting(columns.cardinalities, LARGEST_SPACE)
    leading = Columns.of(columns.arrays[:fit], columns.cardinalities[:fit])
    keys = keys_of(leading)
    if leading.space <= _cells_worthwhile(columns.entries):
        occurs = np.zeros(leading.space, np.bool_)
        occurs[keys] = True
        count = int(np.count_nonzero(occurs))
        ids = (np.cumsum(occurs, dtype=np.uint32) - np.uint32(1))[keys]
    else:
        found, places = np.unique(keys, return_inverse=True)
        count, ids = len(found), places.astype(np.uint32)
    if fit == len(columns.arrays):
        return ids, count
    return class_ids((ids, *columns.arrays[fit:]), (count, *columns.cardinalities[fit:]))


def refine(
    groups: CodeArray,
    group_count: int,
    codes: CodeArray,
    cardinality: int,
    *,
    ordered: bool = True,
) -> tuple[npt.NDArray[np.uint32], int]:
    """Split existing classes by one more column.

    Examples
    --------
    >>> import numpy as np
    >>> ids, count = refine(np.array([0, 0, 1], np.uint32), 2, np.array([5, 4, 4], np.uint8), 6)
    >>> ids.tolist(), count
    ([1, 0, 2], 3)
    """
    return class_ids((groups, codes), (group_count, cardinality), ordered=ordered)


def representatives(ids: npt.NDArray[np.uint32], count: int) -> npt.NDArray[np.uint32]:
    """First entry of every class.

    Examples
    --------
    >>> import numpy as np
    >>> representatives(np.array([1, 0, 1], np.uint32), 2).tolist()
    [1, 0]
    """
    first = np.zeros(count, np.uint32)
    if compiling.by_numpy(len(ids)):
        found, places = np.unique(ids, return_index=True)
        first[found] = places
    else:
        _first_entries(ids, first)
    return first


def size_histogram(
    arrays: Sequence[CodeArray],
    cardinalities: Sequence[int],
    weights: Weights = None,
    *,
    entries: int | None = None,
    threads: int | None = None,
) -> Histogram:
    """Sizes of classes that occur, ascending, and how many classes have each.

    Parameters
    ----------
    arrays, cardinalities, entries, threads
        As for `class_ids`.
    weights
        Rows each entry stands for; None when every entry is one row.

    Examples
    --------
    >>> import numpy as np
    >>> sizes, classes = size_histogram((np.array([1, 0, 1, 1], np.uint8),), (2,))
    >>> sizes.tolist(), classes.tolist()
    ([1, 3], [1, 1])
    """
    columns = Columns.of(arrays, cardinalities, entries)
    if columns.entries == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if columns.space == 1:
        total = columns.entries if weights is None else int(weights.sum())
        return np.array([total], np.int64), np.array([1], np.int64)
    if compiling.by_numpy(columns.entries):
        return histogram_of(group_sums(*_numbered(columns), weights))
    if columns.space > LARGEST_SPACE:
        return _folded_histogram(columns, weights, threads)
    from sfumato.kernels.key_tables import cell_histogram, count_keys

    workers = usable_threads(threads, columns.entries)
    cells = _cells_worthwhile(columns.entries)
    if columns.space <= (cells if weights is None else min(cells, MOST_WEIGHED_CELLS)):
        return cell_histogram(columns, weights, workers)
    columns = _narrow_first(columns)
    fit = fitting(columns.cardinalities, cells)
    if fit >= 2 and _may_shrink(columns, fit, cells):
        ids, count = class_ids(
            columns.arrays[:fit], columns.cardinalities[:fit], ordered=False, threads=threads
        )
        return size_histogram(
            (ids, *columns.arrays[fit:]),
            (count, *columns.cardinalities[fit:]),
            weights,
            threads=threads,
        )
    if weights is None:
        return histogram_of(count_keys(columns, workers))
    ids, count = class_ids(columns.arrays, columns.cardinalities, ordered=False, threads=threads)
    return histogram_of(group_sums(ids, count, weights))


def combination_sums(
    arrays: Sequence[CodeArray], cardinalities: Sequence[int], weights: Weights = None
) -> npt.NDArray[np.int64]:
    """Entries of every possible combination, or the sum of their weights, an axis a column.

    For columns with few possible combinations: there is a cell for each.

    Examples
    --------
    >>> import numpy as np
    >>> sex, age = np.array([1, 0, 1, 1], np.uint8), np.array([0, 2, 0, 1], np.uint8)
    >>> combination_sums((sex, age), (2, 3)).tolist()
    [[0, 0, 1], [2, 1, 0]]
    """
    columns = Columns.of(arrays, cardinalities)
    if columns.space > MOST_CELLS:
        raise OverflowError(f"{columns.space} combinations are too many to have a cell each")
    if compiling.by_numpy(columns.entries + columns.space):
        sums = group_sums(keys_of(columns), columns.space, weights)
    else:
        from sfumato.kernels.key_tables import cell_sums

        sums = cell_sums(columns, weights)
    return sums.reshape(columns.cardinalities)


def unseparated_pairs(
    arrays: Sequence[CodeArray],
    cardinalities: Sequence[int],
    weights: Weights = None,
    *,
    entries: int | None = None,
) -> int:
    """Pairs of rows in a common class, an exact integer of any size.

    Examples
    --------
    >>> import numpy as np
    >>> unseparated_pairs((np.array([1, 0, 1, 1], np.uint8),), (2,))
    3
    """
    sizes, classes = size_histogram(arrays, cardinalities, weights, entries=entries)
    pairs = zip(sizes.tolist(), classes.tolist(), strict=True)
    return sum(size * (size - 1) // 2 * many for size, many in pairs)


def _cells_worthwhile(entries: int) -> int:
    """Up to how many possible combinations a table cell for each is the faster way."""
    return min(max(16 * entries, 1 << 12), MOST_CELLS)


def _narrow_first(columns: Columns) -> Columns:
    """The same columns, those with the fewest codes first."""
    order = np.argsort(columns.cardinalities, kind="stable")
    return Columns.of(
        [columns.arrays[at] for at in order], [columns.cardinalities[at] for at in order]
    )


def _may_shrink(columns: Columns, leading: int, cells: int) -> bool:
    """Whether a table may do once the leading columns are one column of their classes.

    The classes of some entries are at most as many as those of all: if even they are too many,
    numbering would be in vain.
    """
    step = max(1, columns.entries // _SAMPLE)
    some = [np.ascontiguousarray(array[::step]) for array in columns.arrays[:leading]]
    _, at_least = class_ids(some, columns.cardinalities[:leading], ordered=False)
    return at_least * math.prod(columns.cardinalities[leading:]) <= cells


def _mostly_different(columns: Columns) -> bool:
    """Whether most entries seem to be alone in their class, so that no table holds them all."""
    step = columns.entries // _SAMPLE
    if step < 4:
        return False
    some = [np.ascontiguousarray(array[::step]) for array in columns.arrays]
    _, different = class_ids(some, columns.cardinalities, ordered=False)
    return 2 * different > len(some[0])


def fitting(cardinalities: Sequence[int], space: int) -> int:
    """How many leading columns have no more possible combinations than `space`."""
    combinations = 1
    for at, cardinality in enumerate(cardinalities):
        combinations *= max(cardinality, 1)
        if combinations > space:
            return at
    return len(cardinalities)


def _folded_histogram(columns: Columns, weights: Weights, threads: int | None) -> Histogram:
    """Histogram of a set whose combinations outrun 62 bits, dropping lone entries on the way."""
    # Wide columns first: they leave the fewest entries for the columns after them.
    order = np.argsort([-cardinality for cardinality in columns.cardinalities], kind="stable")
    arrays = [columns.arrays[at] for at in order]
    cardinalities = [columns.cardinalities[at] for at in order]
    lone: list[npt.NDArray[np.int64]] = []
    while True:
        fit = fitting(cardinalities, LARGEST_SPACE)
        ids, count = class_ids(arrays[:fit], cardinalities[:fit], ordered=False, threads=threads)
        if fit == len(arrays):
            lone.append(group_sums(ids, count, weights))
            break
        shared = group_sums(ids, count) > 1
        stay = shared[ids]
        lone.append(
            np.ones(len(ids) - np.count_nonzero(stay), np.int64)
            if weights is None
            else weights[~stay]
        )
        if not stay.any():
            break
        kept = np.flatnonzero(stay)
        renumbered = (np.cumsum(shared) - 1).astype(np.uint32)[ids[kept]]
        arrays = [renumbered, *(array[kept] for array in arrays[fit:])]
        cardinalities = [int(np.count_nonzero(shared)), *cardinalities[fit:]]
        weights = None if weights is None else weights[kept]
    return histogram_of(np.concatenate(lone))


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
