"""Classes of a column set: their numbers and the histogram of their sizes.

Rows that agree on a set of columns form a class. With few possible combinations there is a table
cell for each (`direct_table`), with many the keys are dealt into buckets (`hash_table`). In
between, and where combinations outrun 64 bits, columns are folded: the classes of some become one
column. Tables of few rows are left to numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import usable_threads
from sfumato.kernels import compiling
from sfumato.kernels.compiling import always_compiled
from sfumato.kernels.groups import (
    LARGEST_SPACE,
    Columns,
    Histogram,
    group_sums,
    histogram_of,
    keys_of,
)

__all__ = [
    "class_ids",
    "combination_sums",
    "fitting",
    "refine",
    "representatives",
    "size_histogram",
    "unseparated_pairs",
]

CodeArray = npt.NDArray[Any]
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
    from sfumato.kernels.direct_table import number_cells
    from sfumato.kernels.hash_table import number_keys

    workers = usable_threads(threads, columns.entries)
    cells = _cells_worthwhile(columns.entries)
    if columns.space <= cells:
        return number_cells(columns, workers)
    if not ordered:
        columns = _narrow_first(columns)
    # Numbering a few columns first is cheap, and fewer combinations occur than are possible.
    fit = fitting(columns.cardinalities, cells)
    if fit < 2:
        fit = fitting(columns.cardinalities, LARGEST_SPACE)
        if fit == len(columns.arrays):
            return number_keys(columns, ordered, workers)
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
    from sfumato.kernels.direct_table import cell_histogram
    from sfumato.kernels.hash_table import count_keys

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
        from sfumato.kernels.direct_table import cell_sums

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
