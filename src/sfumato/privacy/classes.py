"""The classes of quasi-identifiers: which rows match, and what each holds of a sensitive column.

Every privacy model beyond k is a figure of how often each class holds each value. That histogram is
kept sparse: most classes hold few of the values. Nothing here is shared with the compiled rules
that steer anonymizers, so that checking a release does not repeat their mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.protocol import Codes
from sfumato.errors import BudgetError
from sfumato.hierarchy.tree import Array, Tree
from sfumato.kernels import class_ids, group_sums

_DENSE_CELLS = 1 << 22
"""Cells of the blocks in which distances that need every value are computed."""


@dataclass(frozen=True, eq=False)
class ClassHistogram:
    """Counts of a column's values in every class.

    Parameters
    ----------
    start
        Where the entries of each class begin; one more at the end.
    value, count
        The values a class holds, ascending, and how many of its rows hold them.
    cardinality
        How many values there may be.
    unmerged
        What this was before classes took in rows of one another, or the whole table as one class
        where a person may be in several; None where every row is in one class.
    table
        Rows of the whole table that hold each value, where these are not all of its classes.
    missing
        The code of missing values, if any: the last.

    Examples
    --------
    >>> illness = ClassHistogram.of(np.array([0, 0, 0, 1, 1]), 2, np.array([0, 1, 1, 1, 1]), 2)
    >>> illness.sizes.tolist(), illness.distinct.tolist()
    ([3, 2], [2, 1])
    >>> illness.distance_equal().round(3).tolist()
    [0.133, 0.2]
    """

    start: Array
    value: Array
    count: Array
    cardinality: int
    unmerged: ClassHistogram | None = None
    table: Array | None = None
    missing: int | None = None

    @classmethod
    def of(
        cls, classes: Any, n_classes: int, codes: Any, cardinality: int, counts: Any = None
    ) -> ClassHistogram:
        """From the class and the code of every row (or of entries that stand for several)."""
        keys = np.asarray(classes, dtype=np.int64) * cardinality
        keys += codes
        return cls._summed(keys, counts, n_classes, cardinality)

    @classmethod
    def dense(cls, counts: Array) -> ClassHistogram:
        """From counts of every class (a line each) and value (a column each)."""
        return cls._of_cells(counts.ravel(), *counts.shape)

    @classmethod
    def _summed(cls, keys: Array, counts: Any, n_classes: int, cardinality: int) -> ClassHistogram:
        """From pairs of class and value, folded into one number each."""
        cells = n_classes * cardinality
        if cells <= max(4 * len(keys), 1 << 20):
            return cls._of_cells(group_sums(keys, cells, counts), n_classes, cardinality)
        found, inverse = np.unique(keys, return_inverse=True)
        count = np.bincount(inverse, weights=counts, minlength=len(found))
        count = count.astype(np.int64, copy=False)
        return cls._of_keys(found[count > 0], count[count > 0], n_classes, cardinality)

    @classmethod
    def _of_cells(cls, cells: Array, n_classes: int, cardinality: int) -> ClassHistogram:
        found = np.flatnonzero(cells > 0)
        return cls._of_keys(found, cells[found], n_classes, cardinality)

    @classmethod
    def _of_keys(
        cls, keys: Array, count: Array, n_classes: int, cardinality: int
    ) -> ClassHistogram:
        """From ascending pairs of class and value, folded into one number each."""
        ends = np.arange(n_classes + 1) * max(cardinality, 1)
        start = np.searchsorted(keys, ends)
        value = keys - np.repeat(ends[:-1], np.diff(start))
        return cls(start, value, count, cardinality)

    def merged(self, into: Array, source: Array, n_classes: int) -> ClassHistogram:
        """New classes, each the union of old ones.

        Parameters
        ----------
        into, source
            Pairs: new class `into[i]` takes in all rows of old class `source[i]`.
        """
        length = np.diff(self.start)[source]
        first = np.cumsum(length) - length
        entry = np.repeat(self.start[source] - first, length) + np.arange(int(length.sum()))
        keys = np.repeat(into, length) * self.cardinality + self.value[entry]
        merged = self._summed(keys, self.count[entry], n_classes, self.cardinality)
        return replace(merged, unmerged=self.unmerged or self, missing=self.missing)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.start) - 1

    @cached_property
    def owner(self) -> Array:
        """The class of each entry."""
        return np.repeat(np.arange(self.classes), np.diff(self.start))

    @cached_property
    def sizes(self) -> Array:
        """Rows of each class."""
        before = np.zeros(len(self.count) + 1, dtype=np.int64)
        np.cumsum(self.count, out=before[1:])
        return np.diff(before[self.start])

    @cached_property
    def total(self) -> Array:
        """Rows of the whole table that hold each value."""
        if self.table is not None:
            return self.table
        whole = self.unmerged or self
        rows = np.bincount(whole.value, weights=whole.count, minlength=self.cardinality)
        return rows.astype(np.int64)

    @cached_property
    def known(self) -> ClassHistogram:
        """The same without missing values, which protect nobody."""
        if self.missing is None:
            return self
        there = self.value != self.missing
        kept = np.r_[0, np.cumsum(there)][self.start]
        table = self.total.copy()
        table[self.missing] = 0
        return ClassHistogram(
            kept, self.value[there], self.count[there], self.cardinality, table=table
        )

    @property
    def distinct(self) -> Array:
        """Distinct values in each class."""
        return np.diff(self.start)

    @property
    def entropy(self) -> Array:
        """Entropy of each class, in nats; less than any where it holds nothing."""
        within = self._sum(self.count * np.log(self.count))
        sizes = np.maximum(self.sizes, 1)
        return np.where(self.sizes > 0, np.log(sizes) - within / sizes, -np.inf)

    def largest_share(self, code: int | None = None, sizes: Array | None = None) -> Array:
        """Share of each class that its commonest value (or one given value) takes.

        `sizes` are those of the classes where they are not the rows counted here.
        """
        sizes = self.sizes if sizes is None else sizes
        if code is not None:
            return np.asarray(self._sum(np.where(self.value == code, self.count, 0)) / sizes)
        largest = np.zeros(self.classes, dtype=np.int64)
        np.maximum.at(largest, self.owner, self.count)
        return np.asarray(largest / sizes)

    def recursive_ratio(self, l: int) -> Array:  # noqa: E741
        """r1 / (rl + … + rm) of each class; infinite where it holds fewer than l values."""
        order = np.lexsort((-self.count, self.owner))
        ranked = self.count[order]
        rank = np.arange(len(ranked)) - np.repeat(self.start[:-1], np.diff(self.start))
        tail = self._sum(np.where(rank >= l - 1, ranked, 0))
        largest = self._sum(np.where(rank == 0, ranked, 0))
        return np.asarray(
            np.divide(largest, tail, out=np.full(self.classes, np.inf), where=tail > 0)
        )

    def distance_equal(self) -> Array:
        """Earth mover's distance to the whole table when all values are equally far apart.

        Half the sum of |p - q| over all values; those a class does not hold add what is left of q.
        """
        q = self._shares[self.value]
        p = self.count / self.sizes[self.owner]
        return (self._sum(np.abs(p - q)) + np.maximum(1.0 - self._sum(q), 0.0)) / 2.0

    def distance_ordered(self) -> Array:
        """Earth mover's distance when values are as far apart as their ranks.

        Ranks are counted among values that occur (Li et al. 2007, section 5.2). A missing value has
        no rank and is 1 away from all others: the difference of the shares that are missing, and
        the distance of the others in the share that both have.
        """
        if self.missing is not None:
            here = self.known.sizes / self.sizes
            there = 1.0 - self._shares[self.missing]
            apart = np.where(self.known.sizes > 0, self.known.distance_ordered(), 0.0)
            return np.asarray(np.abs(here - there) + np.minimum(here, there) * apart)
        occurring = np.flatnonzero(self.total)
        if len(occurring) < 2:
            return np.zeros(self.classes)
        result = np.empty(self.classes)
        for block, excess in self._excess():
            carried = np.cumsum(excess[:, occurring], axis=1)
            result[block] = np.abs(carried).sum(axis=1) / (len(occurring) - 1)
        return result

    def distance_tree(self, tree: Tree) -> Array:
        """Earth mover's distance over a hierarchy whose leaves are the values.

        What must move inside a subtree is the smaller of its children's surplus and lack; it moves
        as far as the subtree is high (Li et al. 2007, section 5.3).
        """
        result = np.empty(self.classes)
        cost = tree.level / max(tree.height, 1)
        children: list[list[int]] = [[] for _ in range(tree.nodes)]
        for node, above in enumerate(tree.parent[:-1]):
            children[above].append(node)
        for block, excess in self._excess():
            below = np.concatenate(
                [excess, np.zeros((len(excess), tree.nodes - tree.size))], axis=1
            )
            moved = np.zeros(len(excess))
            for node in range(tree.size, tree.nodes):
                parts = below[:, children[node]]
                below[:, node] = parts.sum(axis=1)
                surplus = np.maximum(parts, 0).sum(axis=1)
                lack = np.maximum(-parts, 0).sum(axis=1)
                moved += cost[node] * np.minimum(surplus, lack)
            result[block] = moved
        return result

    @property
    def _shares(self) -> Array:
        """Share of each value in the whole table."""
        return self.total / max(int(self.total.sum()), 1)

    def _sum(self, per_entry: Array) -> Array:
        """Sums over the entries of each class."""
        return np.bincount(self.owner, weights=per_entry, minlength=self.classes)

    def _excess(self) -> Iterator[tuple[slice, Array]]:
        """Share of each value in a class minus its share in the table, some classes at a time."""
        step = max(1, _DENSE_CELLS // max(self.cardinality, 1))
        for begin in range(0, self.classes, step):
            end = min(self.classes, begin + step)
            excess = np.tile(-self._shares, (end - begin, 1))
            entries = slice(self.start[begin], self.start[end])
            owner = self.owner[entries]
            excess[owner - begin, self.value[entries]] += self.count[entries] / self.sizes[owner]
            yield slice(begin, end), excess


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
    joins: list[tuple[Array, Array, Array, Array]] = []
    known, patterns = cells.patterns(), others.patterns()
    for at, (my_stars, mine) in enumerate(known):
        for other, (their_stars, theirs) in enumerate(patterns):
            if cells is others and other < at:  # these two were joined the other way round
                _, _, left, right = joins[other * len(patterns) + at]
                joins.append((mine, theirs, right, left))
                continue
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
