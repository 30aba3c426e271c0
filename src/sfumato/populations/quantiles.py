"""One column, k-anonymous by quantiles: the least total change of rank.

Lodha & Thomas, Definition 9 and Theorem 5: sort, cut into ⌊n/k⌋ groups of as equal size as
possible, and map each group to its median element. Rows with equal values stay together unless
asked otherwise: one value, one image.

Values come as distinct values in ascending order with their counts, the form in which every engine
answers; `quantile_mask` is the short way for a plain array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import ParameterError

__all__ = ["Groups", "Representative", "quantile_groups", "quantile_mask"]

Representative = Literal["median", "mean", "range"]


@dataclass(frozen=True, eq=False)
class Groups:
    """Consecutive rows of a sorted column that share one image.

    Parameters
    ----------
    cuts
        Rank of the first row of each group, from 0; the first is 0.
    offsets
        Rank of the first row of each distinct value, and the number of rows at the end.

    Examples
    --------
    >>> groups = quantile_groups([2, 1, 1, 3], k=3)
    >>> groups.sizes.tolist(), groups.group_of_value.tolist()
    ([4, 3], [0, 0, 0, 1])
    """

    cuts: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows in each group."""
        return np.diff(self.cuts, append=self.rows)

    @property
    def k(self) -> int:
        """Size of the smallest group."""
        return int(self.sizes.min())

    @property
    def splits_values(self) -> bool:
        """Whether rows with equal values lie in different groups."""
        return bool((self.offsets[self.first_value] != self.cuts).any())

    @property
    def rank_difference(self) -> int:
        """Total change of rank (Definition 8): a group of s rows around its median costs ⌊s²/4⌋."""
        sizes = self.sizes
        return int((sizes * sizes // 4).sum())

    @property
    def group_of_value(self) -> npt.NDArray[np.int64]:
        """The group of each distinct value; where a value is split, the group of its first row."""
        starts = np.searchsorted(self.offsets[:-1], self.cuts)
        return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(self.offsets) - 1))

    @property
    def median_value(self) -> npt.NDArray[np.int64]:
        """For each group the distinct value that is its (lower) median element."""
        middle = self.cuts + (self.sizes - 1) // 2
        return np.searchsorted(self.offsets, middle, side="right") - 1

    @property
    def first_value(self) -> npt.NDArray[np.int64]:
        """For each group its smallest distinct value."""
        return np.searchsorted(self.offsets, self.cuts, side="right") - 1

    @property
    def last_value(self) -> npt.NDArray[np.int64]:
        """For each group its largest distinct value."""
        last = self.cuts + self.sizes - 1
        return np.searchsorted(self.offsets, last, side="right") - 1

    def pieces(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Every (value, group) pair that occurs, with the range of the value's rows in it.

        Returns
        -------
        value, group, first, last
            Rows ``first <= row < last`` of the value, from 0, lie in the group.
        """
        if not self.splits_values:
            rows = np.diff(self.offsets)
            return np.arange(len(rows)), self.group_of_value, np.zeros_like(rows), rows
        edges = np.union1d(self.cuts, self.offsets[:-1])
        value = np.searchsorted(self.offsets, edges, side="right") - 1
        group = np.searchsorted(self.cuts, edges, side="right") - 1
        ends = np.append(edges[1:], self.rows)
        start = self.offsets[value]
        return value, group, edges - start, ends - start

    def means(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Mean of each group, for distinct values that stand for these numbers."""
        value, group, first, last = self.pieces()
        weight = (last - first).astype(np.float64)
        origin = numbers[
            0
        ]  # sums are taken from the smallest value, so that they stay exact longer
        total = np.bincount(group, weights=(numbers[value] - origin) * weight)
        return np.asarray(origin + total / self.sizes)


def check_k(k: int, rows: int, column: str | None = None) -> None:
    """Refuse a k that no grouping of so many rows can have."""
    if k < 1:
        raise ParameterError("k must be at least 1", remedy="Give -k 2 or more, e.g. -k 5.")
    if k > rows:
        where = f"column `{column}`" if column else None
        raise ParameterError(
            f"k = {k:,} is larger than the {rows:,} rows that have a value",
            where=where,
            remedy="Lower -k or suppress the column.",
        )


def quantile_groups(
    counts: npt.ArrayLike, k: int = 1, *, groups: int | None = None, ties: bool = True
) -> Groups:
    """The quantile transformation of a column given by the counts of its sorted distinct values.

    Parameters
    ----------
    counts
        Rows of each distinct value, values ascending.
    k
        Rows a group must have at least.
    groups
        Groups there may be at most; as many as k allows when left out.
    ties
        True keeps rows with equal values together, and groups may exceed their even size; False is
        the paper's element-wise transformation with the least rank difference of all (Theorem 5).

    Examples
    --------
    The paper's Example 9: {1, 3, 4} become 3 and {7, 12} become 7.

    >>> groups = quantile_groups([1, 1, 1, 1, 1], k=2)
    >>> groups.sizes.tolist(), groups.median_value.tolist(), groups.rank_difference
    ([3, 2], [1, 3], 3)
    """
    weights = np.ascontiguousarray(counts, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(weights)])
    rows = int(offsets[-1])
    check_k(k, rows)
    most = rows // k if groups is None else min(groups, rows // k)
    if most < 1:
        raise ParameterError("a column must keep at least one value", remedy="Give 1 or more.")
    if not ties:
        return Groups(_even_cuts(rows, most), offsets)
    from sfumato.populations._kernels import tied_groups

    return Groups(offsets[tied_groups(weights, k, most)], offsets)


def _even_cuts(rows: int, groups: int) -> npt.NDArray[np.int64]:
    """Starts of groups whose sizes differ by one at most, larger groups first."""
    size, extra = divmod(rows, groups)
    sizes = np.full(groups, size, np.int64)
    sizes[:extra] += 1
    return np.concatenate([[0], np.cumsum(sizes)[:-1]])


def quantile_mask(
    values: npt.NDArray[Any], k: int, representative: Literal["median", "mean"] = "median"
) -> npt.NDArray[Any]:
    """Replace each number by the median or mean of its group; equal values stay together.

    Examples
    --------
    >>> quantile_mask(np.array([1, 12, 4, 7, 3]), k=2).tolist()
    [3, 7, 3, 7, 3]
    """
    check_k(k, len(values))
    order = np.argsort(values)
    ordered = values[order]
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    groups = quantile_groups(np.diff(starts, append=len(ordered)), k)
    if representative == "median":
        images = ordered[groups.cuts + (groups.sizes - 1) // 2]
    else:
        images = groups.means(ordered[starts].astype(np.float64))
    masked = np.empty(len(values), images.dtype)
    masked[order] = np.repeat(images, groups.sizes)
    return masked
