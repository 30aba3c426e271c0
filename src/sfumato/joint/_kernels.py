"""Compiled loops of the joint models; loaded on first use, never by `import sfumato`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels.compiling import compiled


@compiled
def group_totals(values, starts):  # type: ignore[no-untyped-def]
    """Running total of `values` at the end of each group of rows (rows sorted by time, falling)."""
    groups = starts.shape[0] - 1
    out = np.empty(groups)
    total = 0.0
    for g in range(groups):
        for i in range(starts[g], starts[g + 1]):
            total += values[i]
        out[g] = total
    return out


@compiled
def risk_totals(x, risk, dying, starts, first, last, carry):  # type: ignore[no-untyped-def]
    """Covariate sums over the risk set and over the deaths of groups `first` to `last` - 1.

    Returns S1 (one row a group: the sum over everybody still at risk) and D1 (the sum over the
    group's deaths only). `carry` is the running sum and is brought up to date in place, so that
    calls over consecutive ranges stream through any number of rows.
    """
    columns = x.shape[1]
    at_risk = np.empty((last - first, columns))
    deaths = np.zeros((last - first, columns))
    for g in range(first, last):
        for i in range(starts[g], starts[g + 1]):
            r = risk[i]
            if dying[i]:
                for j in range(columns):
                    v = r * x[i, j]
                    carry[j] += v
                    deaths[g - first, j] += v
            else:
                for j in range(columns):
                    carry[j] += r * x[i, j]
        at_risk[g - first] = carry
    return at_risk, deaths


@compiled
def tie_scalars(s0, d0, deaths, weight, efron):  # type: ignore[no-untyped-def]
    """The sums over tied deaths on which likelihood, gradient and Hessian depend.

    With f = l/d and c = 1/(S0 - f·D0) for l = 0..d-1 (Efron; f = 0 throughout for Breslow) and the
    mean weight v of the deaths, the columns are Σ v·log(1/c), Σ v·c, Σ v·c·f, Σ v·c², Σ v·c²·f
    and Σ v·c²·f².
    """
    groups = s0.shape[0]
    out = np.zeros((groups, 6))
    for g in range(groups):
        d = deaths[g]
        if d == 0:
            continue
        v = weight[g] / d
        for rank in range(d):
            f = rank / d if efron else 0.0
            below = s0[g] - f * d0[g]
            c = 1.0 / below
            out[g, 0] += v * math.log(below)
            out[g, 1] += v * c
            out[g, 2] += v * c * f
            out[g, 3] += v * c * c
            out[g, 4] += v * c * c * f
            out[g, 5] += v * c * c * f * f
    return out


@compiled
def row_hazard(starts, dying, hazard, tied):  # type: ignore[no-untyped-def]
    """Hazard that each row lived through: Σ over times up to its own, less its own tie's share."""
    out = np.empty(dying.shape[0])
    total = 0.0
    for g in range(starts.shape[0] - 2, -1, -1):
        total += hazard[g]
        for i in range(starts[g], starts[g + 1]):
            out[i] = total - tied[g] if dying[i] else total
    return out


@compiled
def concordant_pairs(rank, levels, dying, starts):  # type: ignore[no-untyped-def]
    """Concordant, discordant and risk-tied pairs; rows sorted by time, falling, risks ranked.

    A Fenwick tree holds the ranks of all who outlived the row at hand: O(n log n). Rows censored
    at the very time of a death count as having outlived it (Harrell).
    """
    tree = np.zeros(levels + 1, np.int64)
    inside = 0
    concordant = 0
    discordant = 0
    tied = 0
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            if not dying[i]:
                inside += 1
                k = rank[i] + 1
                while k <= levels:
                    tree[k] += 1
                    k += k & -k
        for i in range(starts[g], starts[g + 1]):
            if dying[i]:
                below = 0
                k = rank[i]
                while k > 0:
                    below += tree[k]
                    k -= k & -k
                upto = 0
                k = rank[i] + 1
                while k > 0:
                    upto += tree[k]
                    k -= k & -k
                concordant += below
                tied += upto - below
                discordant += inside - upto
        for i in range(starts[g], starts[g + 1]):
            if dying[i]:
                inside += 1
                k = rank[i] + 1
                while k <= levels:
                    tree[k] += 1
                    k += k & -k
    return concordant, discordant, tied


Array = np.ndarray[Any, Any]


class Levels(NamedTuple):
    """What each level's options contribute, and what the levels after it still can.

    Attributes
    ----------
    begin, end
        Where the options of each level lie among all options.
    turned, plain
        Contribution of each option in the rotated space, in which later columns leave more and
        more coordinates alone, and in the space of the published numbers.
    pivot
        The rotated coordinate by which the options of a level are sorted.
    turned_low, turned_high, plain_low, plain_high
        Least and greatest sum of the contributions of the levels after each level.
    """

    begin: Array
    end: Array
    turned: Array
    plain: Array
    pivot: Array
    turned_low: Array
    turned_high: Array
    plain_low: Array
    plain_high: Array


class Targets(NamedTuple):
    """The attacked rows.

    Attributes
    ----------
    turned, plain, half
        Middle of each row's rounding cell in both spaces, and half its width in the plain one.
    truth
        The true option of every level, by its place among all options.
    """

    turned: Array
    plain: Array
    half: Array
    truth: Array


class Limits(NamedTuple):
    """When the search of a row ends.

    When `enough` hits were found and every column differs from the truth in one of them, at `most`
    hits, or after so many `nodes`. With `avoid_truth` the first level must differ from the true
    value and one hit is enough: that proves the value is not certain.
    """

    avoid_truth: bool
    enough: int
    most: int
    nodes: int


@compiled
def search_rows(levels, targets, limits):  # type: ignore[no-untyped-def]
    """Per row: hits, whether the search was exhaustive, and for each level whether a hit differs.

    A hit is a consistent row of the grid; it differs where it is not the truth.
    """
    rows = targets.turned.shape[0]
    hits = np.zeros(rows, np.int64)
    exhaustive = np.ones(rows, np.bool_)
    differs = np.zeros((rows, levels.begin.shape[0]), np.bool_)
    for row in range(rows):
        hits[row], exhaustive[row] = _search_row(
            levels,
            targets.turned[row],
            targets.plain[row],
            targets.half[row],
            targets.truth[row],
            limits,
            differs[row],
        )
    return hits, exhaustive, differs


@compiled
def _search_row(  # type: ignore[no-untyped-def]
    levels, target_turned, target_plain, half, truth, limits, differs
):
    """Hits of one row, whether the search was exhaustive; marks the levels in which hits differ."""
    begin, end, turned, plain, pivot = levels[:5]
    turned_low, turned_high, plain_low, plain_high = levels[5:]
    depth, size = turned_low.shape
    rest_turned = np.empty((depth + 1, size))
    rest_plain = np.empty((depth + 1, size))
    rest_turned[0], rest_plain[0] = target_turned, target_plain
    # Of each level's options those from low to high are within reach, and those between left and
    # right were tried: from the centre outwards.
    low, high, left, right = np.empty((4, depth), np.int64)
    centre = np.empty(depth)
    chosen = np.empty(depth, np.int64)
    true_rest = _follow_truth(turned, pivot, truth, target_turned)
    radius2 = (half * half).sum() * (1.0 + 1e-9)
    radius = np.sqrt(radius2)
    hits, nodes, missing = 0, 0, depth
    s, entering = 0, True
    while s >= 0:
        k = pivot[s]
        if entering:
            rest = rest_turned[s, k]
            low[s] = _bisect(turned, k, begin[s], end[s], rest - turned_high[s, k] - radius, False)
            high[s] = _bisect(turned, k, low[s], end[s], rest - turned_low[s, k] + radius, True)
            # Near the truth first, where other answers lie; a column that differs from it is made
            # up for by the next ones.
            centre[s] = turned[truth[s], k] + rest - true_rest[s]
            right[s] = _bisect(turned, k, low[s], high[s], centre[s], False)
            left[s] = right[s] - 1
            entering = False
        if right[s] < high[s] and (
            left[s] < low[s] or turned[right[s], k] - centre[s] <= centre[s] - turned[left[s], k]
        ):
            pick = right[s]
            right[s] += 1
        elif left[s] >= low[s]:
            pick = left[s]
            left[s] -= 1
        else:
            s -= 1
            continue
        if limits.avoid_truth and s == 0 and pick == truth[0]:
            continue
        nodes += 1
        if nodes > limits.nodes:
            return hits, False
        if not _in_cell(s, pick, plain, plain_low, plain_high, half, rest_plain):
            continue
        if _distance2(s, pick, turned, turned_low, turned_high, rest_turned) > radius2 + 1e-15:
            continue
        chosen[s] = pick
        if s + 1 < depth:
            s, entering = s + 1, True
            continue
        hits += 1
        missing -= _note_differences(chosen, truth, differs)
        if limits.avoid_truth or (hits >= limits.enough and missing == 0) or hits >= limits.most:
            return hits, False
    return hits, True


@compiled
def _follow_truth(turned, pivot, truth, target):  # type: ignore[no-untyped-def]
    """What remains at each level's pivot when all columns before it are as in truth."""
    rest = np.empty(truth.shape[0])
    for s in range(truth.shape[0]):
        rest[s] = target[pivot[s]]
        for before in range(s):
            rest[s] -= turned[truth[before], pivot[s]]
    return rest


@compiled
def _bisect(turned, k, first, last, value, after):  # type: ignore[no-untyped-def]
    """Where a value belongs among sorted options; after equal ones on request."""
    while first < last:
        middle = (first + last) // 2
        if turned[middle, k] < value or (after and turned[middle, k] == value):
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def _in_cell(s, pick, plain, low, high, half, rest):  # type: ignore[no-untyped-def]
    """Take an option off what remains; whether later columns can explain that within the cell."""
    for j in range(half.shape[0]):
        left = rest[s, j] - plain[pick, j]
        rest[s + 1, j] = left
        if left < low[s, j] - half[j] or left > high[s, j] + half[j]:
            return False
    return True


@compiled
def _distance2(s, pick, turned, low, high, rest):  # type: ignore[no-untyped-def]
    """Take an option off what remains; how far, squared, that is from what later columns reach."""
    distance2 = 0.0
    for j in range(rest.shape[1]):
        left = rest[s, j] - turned[pick, j]
        rest[s + 1, j] = left
        if left < low[s, j]:
            distance2 += (low[s, j] - left) ** 2
        elif left > high[s, j]:
            distance2 += (left - high[s, j]) ** 2
    return distance2


@compiled
def _note_differences(chosen, truth, differs):  # type: ignore[no-untyped-def]
    """Mark the levels in which a hit is not the truth; returns how many are new."""
    new = 0
    for s in range(truth.shape[0]):
        if not differs[s] and chosen[s] != truth[s]:
            differs[s] = True
            new += 1
    return new


@compiled
def reduce_lattice(basis, moves, most):  # type: ignore[no-untyped-def]
    """Lenstra, Lenstra & Lovász's reduction of the rows of `basis`, in place, in floating point.

    The same is done to the rows of `moves`, which keeps them exact if they are whole numbers. Ends
    after `most` steps at the latest; returns how many it took.
    """
    count = basis.shape[0]
    mu = np.zeros((count, count))
    norms = np.zeros(count)
    norms[0] = basis[0] @ basis[0]
    k, steps = 1, 0
    while k < count and steps < most:
        steps += 1
        for _ in range(20):  # until rounding moves nothing: then the coefficients are accurate
            moved = False
            for j in range(k):
                dot = basis[k] @ basis[j]
                for i in range(j):
                    dot -= mu[j, i] * mu[k, i] * norms[i]
                mu[k, j] = dot / norms[j]
            for j in range(k - 1, -1, -1):
                if abs(mu[k, j]) > 0.51:
                    times = np.rint(mu[k, j])
                    moved = True
                    basis[k] -= times * basis[j]
                    moves[k] -= times * moves[j]
                    for i in range(j):
                        mu[k, i] -= times * mu[j, i]
                    mu[k, j] -= times
            if not moved:
                break
        norms[k] = basis[k] @ basis[k]
        for j in range(k):
            norms[k] -= mu[k, j] * mu[k, j] * norms[j]
        norms[k] = max(norms[k], 1e-12)
        if norms[k] < (0.99 - mu[k, k - 1] * mu[k, k - 1]) * norms[k - 1]:
            held, moved_too = basis[k].copy(), moves[k].copy()
            basis[k], moves[k] = basis[k - 1], moves[k - 1]
            basis[k - 1], moves[k - 1] = held, moved_too
            # Both rows are computed again.
            norms[k - 1] = basis[k - 1] @ basis[k - 1]
            for j in range(k - 1):
                mu[k - 1, j], mu[k, j] = mu[k, j], mu[k - 1, j]
                norms[k - 1] -= mu[k - 1, j] * mu[k - 1, j] * norms[j]
            k = max(k - 1, 1)
        else:
            k += 1
    return steps
