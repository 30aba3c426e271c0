"""How well scores order people, and choosing by cross-validation.

Area under the ROC curve and concordance take O(n log n).

The random matrix cannot be chosen by publishing several projections of the same rows: two shares
under different matrices give an attacker twice the equations. So each institution scores the
candidate seeds on its own rows at home (`score_seeds`), and only these scores, rounded to three
decimals, are exchanged (`choose_seed`). The penalty may be chosen on the stacked shares, which are
public already (`choose_penalty`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError, ParameterError, SourceError
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import fit_cox, time_groups
from sfumato.joint.linear_classifiers import fit_svm
from sfumato.joint.local_data import project, round_to
from sfumato.results import Result

__all__ = [
    "SeedScores",
    "auc",
    "choose_penalty",
    "choose_seed",
    "concordance",
    "cross_validate",
    "price_of_privacy",
    "read_seed_scores",
    "score_seeds",
]

Floats = NDArray[np.float64]
Outcomes = tuple[Floats | None, NDArray[np.bool_]]

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridge penalties that are tried; for classifiers ν is the reciprocal."""

_DEFAULT_PENALTY = 0.3
_PRICE_ROWS = 2_000
_PENALTY_ROWS = 5_000  # of more rows any penalty in the list matters little


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


def _finite(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"`{name}` must be one column of finite numbers")
    return array


def _same_length(one: NDArray[Any], other: NDArray[Any]) -> None:
    if len(one) != len(other):
        raise InputError(f"columns of different length: {len(one)} and {len(other)} rows")


def cross_validate(
    x: Floats,
    outcome: Outcomes,
    *,
    penalty: float = _DEFAULT_PENALTY,
    folds: int = 5,
    seed: int = 0,
) -> float:
    """Concordance of a Cox model, or AUC of a support vector machine, on rows it has not seen.

    Each fold is scored by itself and the scores are averaged; folds in which nothing can be fitted
    or compared are left out. Not a number if that is all of them.
    """
    time, event = outcome
    if folds < 2:
        raise ParameterError("cross-validation needs at least two folds")
    part = np.random.default_rng(seed).permutation(len(event)) % folds
    scores = []
    for fold in range(folds):
        train, test = part != fold, part == fold
        try:
            if time is not None:
                fit = fit_cox(x[train], time[train], event[train], penalty=penalty)
                scores.append(concordance(time[test], event[test], fit.risk(x[test])))
            else:
                plane = fit_svm(x[train], event[train], nu=1.0 / penalty)
                scores.append(auc(event[test], plane.score(x[test])))
        except InputError:  # a fold without an event, or of one class
            continue
    return float(np.mean(scores)) if scores else float("nan")


def choose_penalty(
    x: Floats, outcome: Outcomes, *, candidates: Sequence[float] = PENALTIES, seed: int = 0
) -> float:
    """The penalty with the best cross-validated score on (a sample of) the rows; ties: largest."""
    time, event = outcome
    if len(event) > _PENALTY_ROWS:
        picked = np.random.default_rng(seed).choice(len(event), _PENALTY_ROWS, replace=False)
        x, outcome = x[picked], (None if time is None else time[picked], event[picked])
    scores = [cross_validate(x, outcome, penalty=penalty, seed=seed) for penalty in candidates]
    if np.isnan(scores).all():
        return _DEFAULT_PENALTY
    best = float(np.nanmax(scores))
    return max(p for p, score in zip(candidates, scores, strict=True) if score >= best - 1e-12)


def score_seeds(
    matrix: Floats, outcome: Outcomes, agreement: Agreement, seeds: Sequence[str], *, folds: int = 3
) -> dict[str, float]:
    """Score candidate seeds for B on one institution's own rows; at home, nothing leaves.

    Returns
    -------
    scores
        Cross-validated score of each seed, rounded to three decimals: all that is exchanged.
    """
    scores = {}
    for name in seeds:
        x = project(matrix, agreement.with_projection(seed=name))
        scores[name] = round(cross_validate(x, outcome, folds=folds), 3)
    return scores


def choose_seed(scores: Sequence[Mapping[str, float]], rows: Sequence[int]) -> str:
    """The seed with the best mean score over institutions, each weighed by its rows.

    Examples
    --------
    >>> choose_seed([{"a": 0.6, "b": 0.7}, {"a": 0.9, "b": 0.5}], rows=[100, 10])
    'b'
    """
    if not scores or len(scores) != len(rows):
        raise ParameterError("every institution gives one set of scores and its number of rows")
    names = list(scores[0])
    if any(list(entry) != names for entry in scores):
        raise ParameterError("the institutions scored different seeds")
    total = np.zeros(len(names))
    for entry, count in zip(scores, rows, strict=True):
        values = np.array([entry[name] for name in names])
        total += count * np.where(np.isnan(values), 0.5, values)
    return names[int(np.argmax(total))]


def price_of_privacy(
    matrix: Floats, outcome: Outcomes, agreement: Agreement, rounding: float, *, seed: int = 0
) -> dict[str, float | str]:
    """What projection and rounding cost, cross-validated on (a sample of) the owner's rows."""
    time, event = outcome
    picked = np.random.default_rng(seed).permutation(len(event))[:_PRICE_ROWS]
    some: Outcomes = (None if time is None else time[picked], event[picked])
    projected = project(matrix[picked], agreement)
    return {
        "measure": "auc" if time is None else "concordance",
        "rows": float(len(picked)),
        "all_columns": cross_validate(matrix[picked], some, seed=seed),
        "projected": cross_validate(projected, some, seed=seed),
        "published": cross_validate(round_to(projected, rounding), some, seed=seed),
    }


@dataclass(frozen=True)
class SeedScores(Result):
    """One institution's scores of candidate seeds: all that leaves when a matrix is chosen."""

    agreement: str
    rows: int
    scores: Mapping[str, float]


def read_seed_scores(path: str | Path, agreement: str) -> SeedScores:
    """Read scores that were made under the agreement with this hash."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        scores = {
            str(name): float("nan") if value is None else float(value)
            for name, value in plain["scores"].items()
        }
        found = SeedScores(str(plain["agreement"]), int(plain["rows"]), scores)
    except OSError as error:
        raise SourceError(f"the scores cannot be read: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError("this file does not hold scores of seeds", where=str(path)) from None
    if found.agreement != agreement:
        raise InputError("these scores were made under another agreement", where=str(path))
    return found
