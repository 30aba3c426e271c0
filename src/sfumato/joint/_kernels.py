"""Compiled loops of the joint models; loaded on first use, never by `import sfumato`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["concordant_pairs", "group_totals", "risk_totals", "row_hazard", "tie_scalars"]


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def row_hazard(starts, dying, hazard, tied):  # type: ignore[no-untyped-def]
    """Hazard that each row lived through: Σ over times up to its own, less its own tie's share."""
    out = np.empty(dying.shape[0])
    total = 0.0
    for g in range(starts.shape[0] - 2, -1, -1):
        total += hazard[g]
        for i in range(starts[g], starts[g + 1]):
            out[i] = total - tied[g] if dying[i] else total
    return out


@njit(cache=True)
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
