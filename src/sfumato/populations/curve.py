"""Privacy against utility of one blurred column, as figures to be drawn.

Lodha & Thomas, section 5.2 and figure 7: with b groups of k rows the error Σ(x'-x)², relative to
that of replacing everything by the mean, falls like 1/b²; privacy p = 1-1/k and utility
u = 1-k²/n² are tied by (1-p)²·(1-u) = 1/n².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import ColumnError
from sfumato.populations.quantiles import quantile_groups
from sfumato.results import Result

__all__ = ["CurvePoint", "PrivacyUtilityCurve", "privacy_utility_curve"]


@dataclass(frozen=True)
class CurvePoint(Result):
    """One number of groups.

    `k` is the smallest group, `error` the measured relative error, `inverse_square` the paper's
    1/b², `privacy` 1-1/k and `utility` 1-k²/n².
    """

    buckets: int
    k: int
    error: float
    inverse_square: float
    privacy: float
    utility: float


@dataclass(frozen=True)
class PrivacyUtilityCurve(Result):
    """Error, privacy and utility of a column for several numbers of groups."""

    column: str
    rows: int
    points: tuple[CurvePoint, ...]


def privacy_utility_curve(
    column: str,
    numbers: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    buckets: Sequence[int] = (1, 2, 3, 5, 8, 12, 18, 25, 50, 100, 200, 500),
) -> PrivacyUtilityCurve:
    """Blur a column into more and more groups and measure each time.

    Parameters
    ----------
    column
        Its name.
    numbers, counts
        Distinct values in ascending order, and their rows.
    buckets
        Numbers of groups to try; those beyond the distinct values are left out.

    Examples
    --------
    >>> curve = privacy_utility_curve("x", np.arange(1000.0), buckets=[1, 10, 100])
    >>> [(point.buckets, round(point.error, 4)) for point in curve.points]
    [(1, 1.0), (10, 0.01), (100, 0.0001)]
    """
    x = np.asarray(numbers, dtype=np.float64)
    weights = np.ones(len(x), np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    rows = int(weights.sum())
    if rows == 0 or not np.isfinite(x).all():
        raise ColumnError(
            "a curve needs finite numbers",
            where=f"column `{column}`",
            remedy="Leave out rows without a number.",
        )
    mean = np.average(x, weights=weights)
    whole = float((weights * (x - mean) ** 2).sum())
    points = []
    for wanted in sorted({b for b in buckets if 1 <= b <= len(x)}):
        groups = quantile_groups(weights, groups=wanted)
        image = groups.means(x)[groups.group_of_value]
        error = float((weights * (x - image) ** 2).sum())
        made, k = len(groups.cuts), groups.k
        points.append(
            CurvePoint(
                buckets=made,
                k=k,
                error=error / whole if whole else 0.0,
                inverse_square=1 / made**2,
                privacy=1 - 1 / k,
                utility=1 - (k / rows) ** 2,
            )
        )
    return PrivacyUtilityCurve(column, rows, tuple(points))
