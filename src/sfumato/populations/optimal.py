"""One column, k-anonymous at the least distance: the optimum over contiguous groups.

Lodha & Thomas, section 4.1.1 and appendix B. Three costs:

- ``k-median``: Σ |x - median of its group|
- ``cellular``: Σ radius of its group, a group's radius being half its width
- ``k-center``: the largest radius

The paper's recursion takes O(n·k). The two sums satisfy the quadrangle inequality, which makes
O(n log n) of it whatever k; the maximum is found by bisection over widths, one linear scan each.

For the cellular cost groups that are *not* contiguous can be better ({5, 38}, {18, 20, 20} costs 36
where the best contiguous grouping costs 40, k = 2); the claim here, as there, is the optimum over
contiguous groups, the only ones that are ranges.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import ColumnError, ParameterError
from sfumato.populations.quantiles import Groups, check_k

__all__ = ["COSTS", "Cost", "grouping_cost", "optimal_groups"]

Cost = Literal["k-median", "cellular", "k-center"]
COSTS: tuple[Cost, ...] = ("k-median", "cellular", "k-center")


def optimal_groups(
    numbers: npt.ArrayLike,
    k: int,
    cost: Cost = "k-median",
    *,
    counts: npt.ArrayLike | None = None,
    ties: bool = True,
) -> Groups:
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
        raise ParameterError(f"unknown cost `{cost}`", remedy=f"Known are: {', '.join(COSTS)}.")
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
    return Groups(rows[_starts(points, rows, k, cost)], offsets)


def _starts(
    points: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], k: int, cost: Cost
) -> npt.NDArray[np.int64]:
    from sfumato.populations import _kernels

    # prefix sums around the middle keep the digits that matter
    centred = points - points[len(points) // 2]
    if cost == "k-center":
        return np.asarray(_kernels.centre_groups(centred, rows, k))
    kind = _kernels.MEDIAN if cost == "k-median" else _kernels.CELLULAR
    return np.asarray(_kernels.sum_groups(centred, rows, k, kind))


def grouping_cost(numbers: npt.ArrayLike, groups: Groups, cost: Cost) -> float:
    """Cost of a grouping, computed from its definition.

    Examples
    --------
    >>> from sfumato.populations.quantiles import quantile_groups
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
