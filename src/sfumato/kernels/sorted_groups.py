"""Groups of at least k rows of one sorted column: by quantiles, or at the least distance.

Lodha & Thomas, Definition 9 and Theorem 5: quantiles cut n rows into ⌊n/k⌋ groups of as equal size
as possible and map each to its median element, which is the least total change of rank. Rows with
equal values stay together unless asked otherwise: one value, one image. Even groups are then not
always possible, and the groups are those that change ranks least among all that keep them together.

The least distance (section 4.1.1 and appendix B) has three costs:

- ``k-median``: Σ |x - median of its group|
- ``cellular``: Σ radius of its group, a group's radius being half its width
- ``k-center``: the largest radius

The paper's recursion takes O(n·k). The two sums, and the change of rank, satisfy the quadrangle
inequality, which makes O(n log n) of it whatever k; the maximum is found by bisection over widths,
one linear scan each.
For the cellular cost groups that are *not* contiguous can be better ({5, 38}, {18, 20, 20} costs 36
where the best contiguous grouping costs 40, k = 2); the claim here, as there, is the optimum over
contiguous groups, the only ones that are ranges.

Quantiles may be read from a sample (section 4.1.3): ln(2/δ)/(2ε²) rows estimate *all* ranks at once
within ε·n with probability 1-δ (Dvoretzky-Kiefer-Wolfowitz with Massart's constant; the paper's
(1/ε²)·log(1/δ) is for one rank and larger).

Values come as distinct values in ascending order with their counts, the form in which every engine
answers; `quantile_mask` is the short way for a plain array.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import ColumnError, ParameterError
from sfumato.kernels.compiling import compiled

Array = npt.NDArray[Any]
Cost = Literal["k-median", "cellular", "k-center"]
COSTS: tuple[Cost, ...] = ("k-median", "cellular", "k-center")
DELTA = 0.01
"""Chance that a rank read from a sample is further off than stated."""
_MEDIAN, _CELLULAR, _RANK = 0, 1, 2


@dataclass(frozen=True, eq=False)
class SortedGroups:
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
    ([3, 4], [0, 0, 1, 1])
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
        origin = numbers[0]  # sums from the smallest value stay exact longer
        total = np.bincount(group, weights=(numbers[value] - origin) * weight)
        return np.asarray(origin + total / self.sizes)


def check_k(k: int, rows: int, column: str | None = None) -> None:
    """Refuse a k that no grouping of so many rows can have."""
    if k < 1:
        raise ParameterError("k must be at least 1", remedy="Use e.g. k = 5.")
    if k > rows:
        where = f"column `{column}`" if column else None
        raise ParameterError(
            f"k = {k:,} is larger than the {rows:,} rows that have a value",
            where=where,
            remedy="Use a smaller k, or leave the column out.",
        )


def quantile_groups(
    counts: npt.ArrayLike, k: int = 1, *, groups: int | None = None, ties: bool = True
) -> SortedGroups:
    """The quantile transformation of a column given by the counts of its sorted distinct values.

    Parameters
    ----------
    counts
        Rows of each distinct value, values ascending.
    k
        Rows a group must have at least.
    groups
        Groups there may be at most, of sizes as even as a walk over the values makes them; when
        left out, as many as change ranks least.
    ties
        True keeps rows with equal values together: the least rank difference of all groupings that
        do. False is the paper's element-wise transformation (Theorem 5), the least without that.

    Examples
    --------
    The paper's Example 9: {1, 3, 4} become 3 and {7, 12} become 7.

    >>> groups = quantile_groups([1, 1, 1, 1, 1], k=2)
    >>> groups.sizes.tolist(), groups.median_value.tolist(), groups.rank_difference
    ([3, 2], [1, 3], 3)

    Equal values stay together; {2, 1} and {3} change ranks less than {2} and {1, 3}.

    >>> groups = quantile_groups([2, 1, 3], k=2)
    >>> groups.sizes.tolist(), groups.rank_difference
    ([3, 3], 4)
    """
    weights = np.ascontiguousarray(counts, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(weights)])
    rows = int(offsets[-1])
    check_k(k, rows)
    most = rows // k if groups is None else min(groups, rows // k)
    if most < 1:
        raise ParameterError("a column must keep at least one value", remedy="Give 1 or more.")
    if not ties or len(weights) == rows:
        return SortedGroups(_even_cuts(rows, most), offsets)
    if groups is None:
        starts = _sum_groups(weights.astype(np.float64), offsets, k, _RANK)
    else:
        starts = _tied_groups(weights, k, most)
    return SortedGroups(offsets[starts], offsets)


def sampled_quantile_groups(
    numbers: npt.ArrayLike, counts: npt.ArrayLike, k: int, *, sample: int, seed: int = 0
) -> tuple[SortedGroups, float]:
    """Quantiles read from a sample of the rows (section 4.1.3), and how far off a rank may be.

    Groups aim at k + 2εn rows and are counted exactly; what the sample left too small is joined, so
    every group has k rows whatever was drawn.

    Parameters
    ----------
    numbers, counts
        Distinct values in ascending order, and the rows of each.
    sample
        Rows drawn without replacement.

    Returns
    -------
    groups, eps
        With probability 1 - `DELTA` every rank was read within eps · rows; 0 if all were drawn.

    Examples
    --------
    >>> groups, eps = sampled_quantile_groups(np.arange(1000), np.full(1000, 50), 8000, sample=5000)
    >>> groups.sizes.min() >= 8000, round(eps, 4)
    (np.True_, 0.023)
    """
    points, weights = np.asarray(numbers, np.float64), np.asarray(counts, np.int64)
    offsets = np.concatenate([[0], np.cumsum(weights)])
    rows = int(offsets[-1])
    check_k(k, rows)
    if sample < 1:
        raise ParameterError("a sample needs at least one row", remedy="Give 1 or more.")
    if sample >= rows:
        drawn, eps = weights, 0.0
    else:
        ranks = np.random.default_rng(seed).choice(rows, sample, replace=False)
        drawn = np.bincount(np.searchsorted(offsets, ranks, "right") - 1, minlength=len(weights))
        eps = math.sqrt(math.log(2 / DELTA) / (2 * sample))
    cuts = sampled_cuts(np.repeat(points, drawn), rows, k, eps)
    starts = np.searchsorted(points, cuts)
    sizes = np.diff(offsets[np.concatenate([[0], starts, [len(points)]])])
    kept = np.searchsorted(points, merge_small(cuts, sizes, k))
    return SortedGroups(offsets[np.concatenate([[0], kept])], offsets), eps


def sample_size(eps: float, delta: float) -> int:
    """Values to keep so that every rank is within ε·n with probability 1-δ.

    Examples
    --------
    >>> sample_size(0.01, 0.01)
    26492
    """
    if not (0 < eps < 1 and 0 < delta < 1):
        raise ParameterError("ε and δ must lie between 0 and 1", remedy="Give e.g. 0.01.")
    return math.ceil(math.log(2 / delta) / (2 * eps * eps))


def sampled_cuts(
    sample: npt.NDArray[Any], rows: int, k: int, eps: float
) -> npt.NDArray[np.float64]:
    """Smallest value of each group but the first, read from a sample.

    Groups aim at k + 2εn rows, so that with the sample's probability none falls below k.

    Examples
    --------
    >>> sampled_cuts(np.arange(1000.0), rows=1_000_000, k=100_000, eps=0.05).tolist()
    [200.0, 400.0, 600.0, 800.0]
    """
    aim = k + 2 * eps * rows
    groups = max(1, math.floor(rows / aim))
    ordered = np.sort(sample)
    at = (np.arange(1, groups) * len(ordered)) // groups
    return np.asarray(np.unique(ordered[at]))


def merge_small(
    cuts: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], k: int
) -> npt.NDArray[np.float64]:
    """Drop cuts until every group has k rows, given the exact count of each group.

    Examples
    --------
    >>> merge_small(np.array([10.0, 20.0, 30.0]), np.array([5, 2, 4, 1]), k=3).tolist()
    [10.0]
    """
    if counts.sum() < k:
        raise ParameterError(
            f"k = {k:,} is larger than the number of rows that have a value",
            remedy=f"Give at most {int(counts.sum()):,}.",
        )
    kept: list[int] = []
    size = 0
    for i, count in enumerate(counts[:-1].tolist()):
        size += count
        if size >= k:
            kept.append(i)
            size = 0
    if size + counts[-1] < k and kept:
        kept.pop()
    return np.asarray(cuts[kept])


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


def optimal_groups(
    numbers: npt.ArrayLike,
    k: int,
    cost: Cost = "k-median",
    *,
    counts: npt.ArrayLike | None = None,
    ties: bool = True,
) -> SortedGroups:
    """Contiguous groups of at least k rows with the least cost.

    Parameters
    ----------
    numbers
        Distinct values in ascending order (or all values, ascending, without `counts`).
    k
        Rows a group must have at least.
    cost
        ``"k-median"``, ``"cellular"`` or ``"k-center"``.
    counts
        Rows of each value; one each when left out.
    ties
        True keeps rows with equal values together; False lets a group boundary run through them.

    Examples
    --------
    >>> x = [5, 18, 20, 20, 38]
    >>> groups = optimal_groups(x, 2, "cellular", ties=False)
    >>> groups.sizes.tolist(), grouping_cost(x, groups, "cellular")
    ([2, 3], 40.0)
    """
    if cost not in COSTS:
        raise ParameterError(
            f"there is no cost `{cost}`", remedy=f"Choose one of: {', '.join(COSTS)}."
        )
    x = np.ascontiguousarray(numbers, dtype=np.float64)
    weights = np.ones(len(x), np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    if not np.isfinite(x).all():
        raise ColumnError(
            "values that are not finite numbers have no distance",
            remedy="Suppress infinities and NaN first, or use quantiles, which need only an order.",
        )
    if (x[1:] < x[:-1]).any():
        raise ParameterError("values must be given in ascending order", remedy="Sort them.")
    offsets = np.concatenate([[0], np.cumsum(weights)])
    check_k(k, int(offsets[-1]))
    if ties:
        changes = np.concatenate([[True], x[1:] != x[:-1]])
        points, rows = x[changes], np.append(offsets[:-1][changes], offsets[-1])
    else:
        points, rows = np.repeat(x, weights), np.arange(offsets[-1] + 1)
    return SortedGroups(rows[_starts(points, rows, k, cost)], offsets)


def _starts(
    points: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], k: int, cost: Cost
) -> npt.NDArray[np.int64]:
    # prefix sums around the middle keep the digits that matter
    centred = points - points[len(points) // 2]
    if cost == "k-center":
        return np.asarray(_centre_groups(centred, rows, k))
    kind = _MEDIAN if cost == "k-median" else _CELLULAR
    return np.asarray(_sum_groups(centred, rows, k, kind))


def grouping_cost(numbers: npt.ArrayLike, groups: SortedGroups, cost: Cost) -> float:
    """Cost of a grouping, computed from its definition.

    Examples
    --------
    >>> from sfumato.kernels.sorted_groups import quantile_groups
    >>> grouping_cost([1, 3, 4, 7, 12], quantile_groups([1] * 5, k=2), "k-median")
    8.0
    """
    x = np.asarray(numbers, dtype=np.float64)
    if cost == "k-median":
        value, group, first, last = groups.pieces()
        centre = x[groups.median_value]
        return float((np.abs(x[value] - centre[group]) * (last - first)).sum())
    radius = (x[groups.last_value] - x[groups.first_value]) / 2
    return float(radius.max()) if cost == "k-center" else float((radius * groups.sizes).sum())


@compiled
def _tied_groups(weights: Array, k: int, groups: int) -> Array:
    """First value of each group when equal values stay together.

    At most `groups` groups of at least k rows. A group is closed at the value that brings it
    nearest to an even share of what is left.
    """
    left = 0
    for w in weights:
        left += w
    starts = np.empty(len(weights), np.int64)
    made, begin, size = 0, 0, 0
    even = left / groups
    for i in range(len(weights)):
        size += weights[i]
        if made + 1 == groups or size < k or left - size < k:
            continue
        after = size + (weights[i + 1] if i + 1 < len(weights) else 0)
        if size < even and even - size >= after - even:
            continue
        starts[made] = begin
        made += 1
        begin, left, size = i + 1, left - size, 0
        # a value with many rows may have used up several shares
        even = left / min(groups - made, max(1, left // k))
    starts[made] = begin
    return starts[: made + 1].copy()


@compiled
def _group_cost(
    a: int, b: int, kind: int, x: Array, rows: Array, sums: Array, single: bool
) -> float:
    """Cost of one group that holds the values a … b-1; O(1), or O(log) with weights."""
    if kind == _CELLULAR:
        return float(0.5 * (x[b - 1] - x[a]) * (rows[b] - rows[a]))
    if kind == _RANK:
        return float((rows[b] - rows[a]) * (rows[b] - rows[a]) // 4)
    if single:
        m = (a + b - 1) // 2
    else:
        half = rows[a] + (rows[b] - rows[a] + 1) // 2
        low, high = a, b - 1
        while low < high:
            mid = (low + high) // 2
            if rows[mid + 1] >= half:
                high = mid
            else:
                low = mid + 1
        m = low
    below = x[m] * (rows[m] - rows[a]) - (sums[m] - sums[a])
    above = (sums[b] - sums[m]) - x[m] * (rows[b] - rows[m])
    return float(below + above)


@compiled
def _sum_groups(x: Array, rows: Array, k: int, kind: int) -> Array:
    """Groups of at least k rows, contiguous in sorted x, with the least summed cost.

    best[j] = min over i of best[i] + cost(i, j). All costs satisfy the quadrangle inequality, so
    a later start that is better once stays better: each start owns one interval of ends, kept in a
    queue and found by bisection. O(d log d) for d values, whatever k.
    """
    d = len(x)
    single = rows[d] == d
    sums = np.zeros(d + 1)
    for i in range(d):
        sums[i + 1] = sums[i] + x[i] * (rows[i + 1] - rows[i])
    best = np.full(d + 1, np.inf)
    best[0] = 0.0
    origin = np.zeros(d + 1, np.int64)
    queue = np.empty(d + 1, np.int64)  # starts, in the order of the ends they own
    since = np.empty(d + 1, np.int64)  # first end each of them owns
    head, tail, ready = 0, 0, 0
    for j in range(1, d + 1):
        # starts whose group up to j is large enough become candidates
        while ready < j and rows[j] - rows[ready] >= k:
            i = ready
            ready += 1
            if best[i] == np.inf:
                continue
            from_ = j
            while tail > head:
                q = queue[tail - 1]
                at = max(since[tail - 1], j)
                new = best[i] + _group_cost(i, at, kind, x, rows, sums, single)
                old = best[q] + _group_cost(q, at, kind, x, rows, sums, single)
                if new < old:
                    from_ = at
                    tail -= 1
                    continue
                # gallop, then bisect, for the first end where the new start wins
                low, step = at, 1
                high = at + 1
                while high <= d:
                    new = best[i] + _group_cost(i, high, kind, x, rows, sums, single)
                    old = best[q] + _group_cost(q, high, kind, x, rows, sums, single)
                    if new < old:
                        break
                    low = high
                    step *= 2
                    high += step
                if high > d:
                    new = best[i] + _group_cost(i, d, kind, x, rows, sums, single)
                    old = best[q] + _group_cost(q, d, kind, x, rows, sums, single)
                    if not new < old:
                        from_ = d + 1
                        break
                    high = d
                while high - low > 1:
                    mid = (low + high) // 2
                    new = best[i] + _group_cost(i, mid, kind, x, rows, sums, single)
                    old = best[q] + _group_cost(q, mid, kind, x, rows, sums, single)
                    if new < old:
                        high = mid
                    else:
                        low = mid
                from_ = high
                break
            if from_ <= d:
                queue[tail] = i
                since[tail] = from_
                tail += 1
        while tail - head > 1 and since[head + 1] <= j:
            head += 1
        if tail > head:
            i = queue[head]
            best[j] = best[i] + _group_cost(i, j, kind, x, rows, sums, single)
            origin[j] = i
    starts: Array = _traced_back(origin, d)
    return starts


@compiled
def _traced_back(origin: Array, d: int) -> Array:
    """Starts of the groups that lead to the last end."""
    count, j = 0, d
    while j > 0:
        count += 1
        j = origin[j]
    starts = np.empty(count, np.int64)
    j = d
    while j > 0:
        j = origin[j]
        count -= 1
        starts[count] = j
    return starts


@compiled
def _reach(x: Array, rows: Array, k: int, width: float, last: Array) -> tuple[bool, float, float]:
    """Whether groups of k rows or more and at most that width cover everything.

    last[j] becomes the largest end of a group at or before j, so last[j] == j marks reachable ends.
    Also returned are the nearest widths at which the answer could change: the largest that fits and
    the smallest that does not.
    """
    d = len(x)
    last[0] = 0
    low, fit = 0, -1
    below, above = 0.0, np.inf
    for j in range(1, d + 1):
        while x[j - 1] - x[low] > width:
            low += 1
        below = max(below, x[j - 1] - x[low])
        if low > 0:
            above = min(above, x[j - 1] - x[low - 1])
        while fit + 1 < j and rows[j] - rows[fit + 1] >= k:
            fit += 1
        last[j] = last[j - 1]
        if fit >= 0 and last[fit] >= low:
            last[j] = j
    return bool(last[d] == d), below, above


@compiled
def _centre_groups(x: Array, rows: Array, k: int) -> Array:
    """Groups of at least k rows whose largest width is least.

    Whether a width suffices is one linear scan, and is monotone in the width; the least one is
    found by bisection. Each scan tells the next width that matters on either side, so the search
    ends at the exact difference of two values.
    """
    d = len(x)
    last = np.empty(d + 1, np.int64)
    # `high` suffices; no width below `least` does
    least, high = 0.0, x[d - 1] - x[0]
    while least < high:
        enough, below, above = _reach(x, rows, k, least + (high - least) / 2, last)
        if enough:
            high = below
        else:
            least = above
    _reach(x, rows, k, high, last)
    origin = np.zeros(d + 1, np.int64)
    fit = -1
    for j in range(1, d + 1):
        while fit + 1 < j and rows[j] - rows[fit + 1] >= k:
            fit += 1
        if last[j] == j:
            origin[j] = last[fit]
    starts: Array = _traced_back(origin, d)
    return starts
