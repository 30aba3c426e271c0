"""How well scores order people: area under the ROC curve and concordance, in O(n log n)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError, ParameterError

__all__ = ["auc", "concordance", "survived"]

Floats = NDArray[np.float64]


def auc(positive: ArrayLike, score: ArrayLike) -> float:
    """Probability that a positive row scores above a negative one; ties count one half.

    Examples
    --------
    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    truth = np.asarray(positive, dtype=bool)
    values = _finite(score, "score")
    _same_length(truth, values)
    positives = int(truth.sum())
    negatives = truth.size - positives
    if not positives or not negatives:
        raise InputError(
            "the area under the curve needs rows of both classes",
            remedy="Use more test rows, or another horizon.",
        )
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2.0
    above = float(middle[place[truth]].sum()) - positives * (positives + 1) / 2.0
    return above / (positives * negatives)


def concordance(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """Harrell's c: share of comparable pairs in which the higher risk died first.

    Two rows are comparable when the one with the shorter time had the event. Equal risks count
    one half; pairs that died at the same time are left out.

    Examples
    --------
    >>> concordance([1, 2, 3, 4], [1, 1, 0, 1], [4.0, 3.0, 2.0, 1.0])
    1.0
    """
    from sfumato.joint._kernels import concordant_pairs

    times = _finite(time, "time")
    dying = np.asarray(event, dtype=bool)
    values = _finite(risk, "risk")
    _same_length(times, values)
    _same_length(times, dying)
    order = np.argsort(-times, kind="stable")
    starts = time_groups(times[order])
    levels, rank = np.unique(values[order], return_inverse=True)
    concordant, discordant, tied = concordant_pairs(
        rank.astype(np.int64), len(levels), dying[order], starts
    )
    comparable = concordant + discordant + tied
    if comparable == 0:
        raise InputError(
            "no two rows can be compared: there is no event before the end of another row",
            remedy="Use more test rows, or check how events are coded.",
        )
    return float((concordant + tied / 2.0) / comparable)


def survived(
    time: ArrayLike, event: ArrayLike, horizon: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who lived beyond `horizon`, and of whom that is known.

    Rows censored before the horizon are not known (the paper's SVM leaves them out).

    Examples
    --------
    >>> lived, known = survived([100, 800, 300], [1, 0, 0], horizon=730)
    >>> lived.tolist(), known.tolist()
    ([False, True, False], [True, True, False])
    """
    times = np.asarray(time, dtype=np.float64)
    if not horizon > 0:
        raise ParameterError("the horizon must be larger than zero")
    lived = times > horizon
    return lived, lived | np.asarray(event, dtype=bool)


def time_groups(falling: Floats) -> NDArray[np.int64]:
    """Start of each run of equal values in sorted `falling`, with its length at the end."""
    edges = np.flatnonzero(np.diff(falling)) + 1
    return np.concatenate(([0], edges, [len(falling)])).astype(np.int64)


def _finite(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"`{name}` must be one column of finite numbers")
    return array


def _same_length(one: NDArray[Any], other: NDArray[Any]) -> None:
    if len(one) != len(other):
        raise InputError(f"columns of different length: {len(one)} and {len(other)} rows")
