"""Classes of a column set: several columns as one number, classes, and what groups hold.

An entry with codes c₁, c₂, … under cardinalities K₁, K₂, … has the key (c₁·K₂ + c₂)·K₃ + …: equal
entries have equal keys, different ones different keys, and keys order entries as their codes do.
Loops take any number of columns of any width through their addresses, so that each is compiled
once and not once for every mixture of types.

Rows that agree on a set of columns form a class. With few possible combinations there is a table
cell for each, with many the keys are dealt into buckets (`key_tables`). In between, and where
combinations outrun 64 bits, columns are folded: the classes of some become one column. Tables of
few rows are left to numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import usable_threads
from sfumato.kernels import compiling
from sfumato.kernels.compiling import Loop, always_compiled

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


@always_compiled
def _count(groups, sums):  # type: ignore[no-untyped-def]
    for i in range(len(groups)):
        sums[np.int64(groups[i])] += 1


@always_compiled
def _sum(groups, weights, sums):  # type: ignore[no-untyped-def]
    for i in range(len(groups)):
        sums[np.int64(groups[i])] += weights[i]


@always_compiled
def _rows(groups, places, order):  # type: ignore[no-untyped-def]
    for i in range(len(groups)):
        group = np.int64(groups[i])
        place = places[group]
        order[place] = i
        places[group] = place + 1


@always_compiled
def _min(groups, codes, least):  # type: ignore[no-untyped-def]
    for i in range(len(groups)):
        group = np.int64(groups[i])
        least[group] = min(least[group], codes[i])


@always_compiled
def _distinct(groups, codes, ends, placed, last, found):  # type: ignore[no-untyped-def]
    """Bring the groups into the order of the codes; then a group is new to a code by its mark."""
    for i in range(len(codes)):
        at = np.int64(codes[i])
        placed[ends[at]] = groups[i]
        ends[at] += 1
    start = 0
    for code in range(len(ends)):
        for i in range(start, ends[code]):
            group = np.int64(placed[i])
            if last[group] != code:
                last[group] = code
                found[group] += 1
        start = ends[code]


@always_compiled
def _held_by(codes, entries, starts, last, found):  # type: ignore[no-untyped-def]
    """Count a code once for each holder, whose entries stand together."""
    for holder in range(len(starts) - 1):
        for i in range(starts[holder], starts[holder + 1]):
            code = np.int64(codes[entries[i]])
            if last[code] != holder:
                last[code] = holder
                found[code] += 1


@always_compiled
def _max(groups, codes, most):  # type: ignore[no-untyped-def]
    for i in range(len(groups)):
        group = np.int64(groups[i])
        most[group] = max(most[group], codes[i])


def _numbers(groups: CodeArray) -> npt.NDArray[np.uint32]:
    """Group numbers and codes in the one width the loops are compiled for."""
    if groups.dtype == np.int32:
        groups = groups.view(np.uint32)
    return np.ascontiguousarray(groups, dtype=np.uint32)


def _cleared(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros, written while other threads run: with `np.zeros` they may have to wait."""
    return np.full(count, 0, dtype)


def group_sums(
    groups: CodeArray, count: int, weights: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Entries in each group, or the sum of their weights.

    Examples
    --------
    >>> import numpy as np
    >>> group_sums(np.array([0, 2, 0], np.uint32), 3).tolist()
    [2, 0, 1]
    """
    if compiling.by_numpy(len(groups)):
        numbers = groups.astype(np.int64)
        if weights is None:
            return np.bincount(numbers, minlength=count)
        sums = np.zeros(count, np.int64)
        np.add.at(sums, numbers, weights)
        return sums
    sums = _cleared(count, np.int64)
    if weights is None:
        _count(_numbers(groups), sums)
    else:
        _sum(_numbers(groups), np.ascontiguousarray(weights, dtype=np.int64), sums)
    return sums


def group_rows(
    groups: CodeArray, count: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Entries group after group, in their own order, and where each group begins.

    Examples
    --------
    >>> import numpy as np
    >>> order, starts = group_rows(np.array([1, 0, 1], np.uint32), 2)
    >>> order.tolist(), starts.tolist()
    ([1, 0, 2], [0, 1, 3])
    """
    numbers = _numbers(groups)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(group_sums(numbers, count), out=starts[1:])
    if compiling.by_numpy(len(numbers)):
        return np.argsort(numbers, kind="stable").astype(np.uint32), starts
    order = np.empty(len(numbers), np.uint32)
    _rows(numbers, starts[:-1].copy(), order)
    return order, starts


def group_min(groups: CodeArray, count: int, codes: CodeArray) -> npt.NDArray[np.uint32]:
    """Smallest code of each group; 2^32 - 1 for an empty one.

    Examples
    --------
    >>> import numpy as np
    >>> group_min(np.array([0, 0], np.uint32), 1, np.array([7, 4], np.uint8)).tolist()
    [4]
    """
    least = np.full(count, np.iinfo(np.uint32).max, np.uint32)
    _reduce(np.minimum, _min, groups, codes, least)
    return least


def group_max(groups: CodeArray, count: int, codes: CodeArray) -> npt.NDArray[np.uint32]:
    """Largest code of each group; 0 for an empty one.

    Examples
    --------
    >>> import numpy as np
    >>> group_max(np.array([0, 0], np.uint32), 1, np.array([7, 4], np.uint8)).tolist()
    [7]
    """
    most = np.zeros(count, np.uint32)
    _reduce(np.maximum, _max, groups, codes, most)
    return most


def _reduce(
    function: np.ufunc, loop: Loop, groups: CodeArray, codes: CodeArray, out: CodeArray
) -> None:
    """Reduce the codes of each group into its cell."""
    if compiling.by_numpy(len(groups)):
        function.at(out, groups, codes)
    else:
        loop(_numbers(groups), _numbers(codes), out)


def _few_spans(
    position: CodeArray, codes: CodeArray, groups: CodeArray, n_groups: int
) -> tuple[CodeArray, CodeArray]:
    """`group_spans` by numpy."""
    low, high = np.full(n_groups, 2**31 - 1, np.int32), np.full(n_groups, -1, np.int32)
    there = groups >= 0
    held, at = position[codes[there]], groups[there]
    np.minimum.at(low, at, held)
    np.maximum.at(high, at, held)
    return low, high


@partial(Loop, instead=_few_spans, direct=True)
def group_spans(
    position: CodeArray, codes: CodeArray, groups: CodeArray, n_groups: int
) -> tuple[CodeArray, CodeArray]:
    """First and last position that each group holds; an empty group has last < first.

    Rows with a negative group are left out.
    """
    low = np.full(n_groups, 2**31 - 1, np.int32)
    high = np.full(n_groups, -1, np.int32)
    for i in range(codes.shape[0]):
        g = groups[i]
        if g < 0:
            continue
        p = position[codes[i]]
        if p < low[g]:
            low[g] = p
        if p > high[g]:
            high[g] = p
    return low, high


def group_distinct(
    groups: CodeArray, count: int, codes: CodeArray, cardinality: int
) -> npt.NDArray[np.int64]:
    """How many different codes each group holds.

    Examples
    --------
    >>> import numpy as np
    >>> group_distinct(np.array([0, 0, 1], np.uint32), 2, np.array([3, 5, 3], np.uint8), 6).tolist()
    [2, 1]
    """
    numbers = _numbers(groups)
    few = max(count, cardinality) <= 4 * len(numbers)
    if few and not compiling.by_numpy(len(numbers)):
        plain, held = _numbers(codes), np.zeros(count, np.int64)
        ends = np.zeros(cardinality + 1, np.int64)
        _count(plain, ends[1:])
        starts, last = np.cumsum(ends)[:-1], np.full(count, -1, np.int64)
        _distinct(numbers, plain, starts, np.empty_like(numbers), last, held)
        return held
    ids, found = refine(numbers, count, codes, cardinality, ordered=False)
    return group_sums(numbers[representatives(ids, found)], count)


def held_by(
    codes: CodeArray, size: int, entries: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """How many holders each code has.

    Parameters
    ----------
    codes, size
        Code of each entry, and how many there are.
    entries, starts
        The entries of holder h are ``entries[starts[h]:starts[h + 1]]``.

    Examples
    --------
    >>> import numpy as np
    >>> two = np.array([0, 3, 1], np.uint32), np.array([0, 2, 3])
    >>> held_by(np.array([5, 2, 2, 5], np.uint8), 6, *two).tolist()
    [0, 0, 1, 0, 0, 1]
    """
    if compiling.by_numpy(len(entries)):
        holders = np.repeat(np.arange(len(starts) - 1, dtype=np.uint32), np.diff(starts))
        return group_distinct(codes[entries], size, holders, max(len(starts) - 1, 1))
    found, last = np.zeros(size, np.int64), np.full(size, -1, np.int64)
    _held_by(np.ascontiguousarray(codes), entries, starts, last, found)
    return found


Histogram = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Sizes that occur, ascending, and how many classes have each."""
_COMMON = 1 << 14
"""Sizes below this are counted in a table; larger ones are few and sorted."""


@always_compiled
def _count_sizes(sizes, table, large):  # type: ignore[no-untyped-def]
    """Count small sizes and list large ones; returns how many would be listed."""
    listed = 0
    for i in range(len(sizes)):
        size = np.int64(sizes[i])
        if size < len(table):
            table[size] += 1
        else:
            if listed < len(large):
                large[listed] = size
            listed += 1
    return listed


def histogram_of(sizes: npt.NDArray[Any]) -> Histogram:
    """Histogram of class sizes, zeros left out.

    Examples
    --------
    >>> import numpy as np
    >>> sizes, classes = histogram_of(np.array([3, 0, 1, 3], np.uint32))
    >>> sizes.tolist(), classes.tolist()
    ([1, 3], [1, 2])
    """
    if compiling.by_numpy(len(sizes)):
        found, classes = np.unique(sizes[sizes > 0], return_counts=True)
        return found.astype(np.int64), classes
    table = np.zeros(_COMMON, np.int64)
    large = np.empty(1 << 12, np.int64)
    listed = _count_sizes(sizes, table, large)
    if listed > len(large):
        large = np.empty(listed, np.int64)
        _count_sizes(sizes, np.zeros_like(table), large)
    table[0] = 0
    common = np.flatnonzero(table)
    larger, classes = np.unique(large[:listed], return_counts=True)
    return np.concatenate([common, larger]), np.concatenate([table[common], classes])


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
    first = _cleared(count, np.uint32)
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
