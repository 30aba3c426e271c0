"""Compiled loops of this room; loaded on first use, compiled once and kept on disk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = [
    "box_probabilities",
    "centre_groups",
    "feed_reservoir",
    "sum_groups",
    "tied_groups",
]

Array = npt.NDArray[Any]

MEDIAN, CELLULAR = 0, 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def tied_groups(weights: Array, k: int, groups: int) -> Array:
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def _group_cost(
    a: int,
    b: int,
    kind: int,
    x: Array,
    rows: Array,
    sums: Array,
    single: bool,
) -> float:
    """Cost of one group that holds the values a … b-1; O(1), or O(log) with weights."""
    if kind == CELLULAR:
        return float(0.5 * (x[b - 1] - x[a]) * (rows[b] - rows[a]))
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def sum_groups(x: Array, rows: Array, k: int, kind: int) -> Array:
    """Groups of at least k rows, contiguous in sorted x, with the least summed cost.

    best[j] = min over i of best[i] + cost(i, j). Both costs satisfy the quadrangle inequality, so
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
    starts: Array = _starts(origin, d)
    return starts


@njit(cache=True)  # type: ignore[untyped-decorator]
def _starts(origin: Array, d: int) -> Array:
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


@njit(cache=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def centre_groups(x: Array, rows: Array, k: int) -> Array:
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
    starts: Array = _starts(origin, d)
    return starts


@njit(cache=True)  # type: ignore[untyped-decorator]
def feed_reservoir(
    values: Array,
    kept: Array,
    seen: int,
    skip: int,
    w: float,
    random: np.random.Generator,
) -> tuple[int, int, float]:
    """Li's Algorithm L: keep a uniform sample while jumping over values that are not taken.

    `skip` is how many values are still to be passed over before the next one is taken.
    """
    size = len(kept)
    i = 0
    while seen < size and i < len(values):
        kept[seen] = values[i]
        seen += 1
        i += 1
        if seen == size:
            w = math.exp(math.log(1.0 - random.random()) / size)
            skip = _jump(w, random)
    while i < len(values):
        if skip >= len(values) - i:
            skip -= len(values) - i
            seen += len(values) - i
            break
        i += skip
        seen += skip + 1
        kept[random.integers(0, size)] = values[i]
        i += 1
        w *= math.exp(math.log(1.0 - random.random()) / size)
        skip = _jump(w, random)
    return seen, skip, w


@njit(cache=True)  # type: ignore[untyped-decorator]
def _jump(w: float, random: np.random.Generator) -> int:
    jump = math.floor(math.log(1.0 - random.random()) / math.log1p(-w))
    return int(min(jump, 4.0e18))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _below(x: float) -> float:
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _quantile(p: float) -> float:
    """Inverse of `_below`: a rational start (Abramowitz & Stegun 26.2.23), then Halley's steps."""
    tail = min(p, 1.0 - p)
    if tail < 1e-300:
        return -37.0 if p < 0.5 else 37.0
    t = math.sqrt(-2.0 * math.log(tail))
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    if p < 0.5:
        x = -x
    for _ in range(2):
        error = (_below(x) - p) * 2.5066282746310002 * math.exp(0.5 * x * x)
        x -= error / (1.0 + 0.5 * x * error)
    return x


@njit(cache=True)  # type: ignore[untyped-decorator]
def box_probabilities(low: Array, high: Array, factor: Array, points: Array) -> Array:
    """P(low < z < high) for z ~ N(0, factor·factorᵀ), one box a row of `low` and `high`.

    Genz's separation of variables: one dimension after the other is drawn inside its limits given
    the ones before, and the chances of doing so are multiplied; averaged over quasi-random points.
    """
    boxes, m = low.shape
    chances = np.empty(boxes)
    z = np.empty(m)
    for row in range(boxes):
        total = 0.0
        for i in range(points.shape[0]):
            chance = 1.0
            for d in range(m):
                shift = 0.0
                for j in range(d):
                    shift += factor[d, j] * z[j]
                a = _below((low[row, d] - shift) / factor[d, d])
                b = _below((high[row, d] - shift) / factor[d, d])
                chance *= max(b - a, 0.0)
                if chance == 0.0:
                    break
                if d + 1 < m:
                    z[d] = _quantile(a + points[i, d] * (b - a))
            total += chance
        chances[row] = total / points.shape[0]
    return chances
