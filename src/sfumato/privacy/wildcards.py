"""Cells that match anything: which classes could be the same person's.

With suppressed or missing cells as *wildcards*, a class is protected by every class that agrees
with it wherever neither is starred. This is the generous reading (as in μ-Argus and sdcMicro);
by default a suppressed cell is a value like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.results import Codes
from sfumato.errors import BudgetError
from sfumato.hierarchy.tree import Array

__all__ = ["Cells", "matching_pairs", "matching_rows", "matching_sizes", "star_codes"]

_MOST_PAIRS = 200_000_000


@dataclass(frozen=True, eq=False)
class Cells:
    """Distinct combinations of cells, some of which match anything.

    Parameters
    ----------
    arrays
        One array of codes a column.
    starred
        For each column, which cells match anything.
    """

    arrays: tuple[Array, ...]
    starred: tuple[Array, ...]

    @classmethod
    def of(cls, arrays: Sequence[Any], wildcards: Sequence[Sequence[int]]) -> Cells:
        """From codes, and for each column the codes that match anything."""
        codes = tuple(np.asarray(array, dtype=np.int64) for array in arrays)
        stars = tuple(np.isin(a, np.asarray(w)) for a, w in zip(codes, wildcards, strict=True))
        return cls(codes, stars)

    def __len__(self) -> int:
        return len(self.arrays[0]) if self.arrays else 0

    def patterns(self) -> list[tuple[tuple[bool, ...], Array]]:
        """The combinations of starred columns that occur, with the entries of each."""
        if not self.arrays:
            return []
        marks = np.stack(self.starred, axis=1)
        found, inverse = np.unique(marks, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        return [
            (tuple(bool(mark) for mark in row), np.flatnonzero(inverse == i))
            for i, row in enumerate(found)
        ]


def star_codes(values: pa.Array) -> list[int]:
    """Codes of cells that may stand for any value: nulls, and stars in columns of text."""
    return [code for code, value in enumerate(values.to_pylist()) if value is None or value == "*"]


def matching_sizes(entries: Codes) -> Array:
    """For each combination of a table, the rows that it matches where wildcards match anything.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.table(pa.table({"age": [20, 20, 30, None]}))
    >>> matching_sizes(people.classes(["age"])).tolist()
    [3, 2, 4]
    """
    cells = Cells.of(entries.arrays, [star_codes(values) for values in entries.values])
    return matching_rows(cells, cells, entries.counts)


def matching_rows(cells: Cells, others: Cells, counts: Any) -> Array:
    """For each entry, the rows of all other entries that could be the same.

    Examples
    --------
    >>> cells = Cells.of([[0, 0, 1], [5, 9, 9]], wildcards=[[], [9]])
    >>> matching_rows(cells, cells, [2, 1, 4]).tolist()
    [3, 3, 4]
    """
    counts = np.asarray(counts, dtype=np.int64)
    rows = np.zeros(len(cells), dtype=np.int64)
    for mine, theirs, left, right in _joins(cells, others):
        groups = int(max(left.max(initial=-1), right.max(initial=-1))) + 1
        sums = np.bincount(right, weights=counts[theirs], minlength=groups)
        rows[mine] += sums[left].astype(np.int64)
    return rows


def matching_pairs(cells: Cells, others: Cells) -> tuple[Array, Array]:
    """All pairs of an entry and another that could be the same.

    Raises
    ------
    BudgetError
        If there are so many pairs that they cannot be held in memory.
    """
    pairs: list[tuple[Array, Array]] = []
    held = 0
    for mine, theirs, left, right in _joins(cells, others):
        order = np.argsort(right, kind="stable")
        ranked = right[order]
        begin, end = np.searchsorted(ranked, left), np.searchsorted(ranked, left, "right")
        length = end - begin
        held += int(length.sum())
        if held > _MOST_PAIRS:
            raise BudgetError(
                f"more than {_MOST_PAIRS:,} pairs of classes match each other through wildcards",
                remedy="Check with suppressed cells as values of their own.",
            )
        first = np.cumsum(length) - length
        at = np.repeat(begin - first, length) + np.arange(int(length.sum()))
        pairs.append((np.repeat(mine, length), theirs[order[at]]))
    if not pairs:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _joins(cells: Cells, others: Cells) -> list[tuple[Array, Array, Array, Array]]:
    """For every two patterns: their entries, and numbers that agree where the entries match."""
    from sfumato.kernels import class_ids

    joins = []
    for my_stars, mine in cells.patterns():
        for their_stars, theirs in others.patterns():
            shared = [
                j
                for j, (a, b) in enumerate(zip(my_stars, their_stars, strict=True))
                if not (a or b)
            ]
            columns = [
                np.concatenate([cells.arrays[j][mine], others.arrays[j][theirs]]) for j in shared
            ]
            numbers, _ = class_ids(
                tuple(column.astype(np.uint32) for column in columns),
                tuple(int(column.max(initial=0)) + 1 for column in columns),
                entries=len(mine) + len(theirs),
                ordered=False,
            )
            numbers = numbers.astype(np.int64)
            joins.append((mine, theirs, numbers[: len(mine)], numbers[len(mine) :]))
    return joins
