"""Choosing by cross-validation, and what it leaks: nothing but a score per candidate.

The random matrix cannot be chosen by publishing several projections of the same rows: two shares
under different matrices give an attacker twice the equations. So each institution scores the
candidate seeds on its own rows at home (`score_seeds`), and only these scores, rounded to three
decimals, are exchanged (`choose_seed`). The penalty may be chosen on the stacked shares, which are
public already (`choose_penalty`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import fit_cox
from sfumato.joint.margin import fit_svm
from sfumato.joint.metrics import auc, concordance
from sfumato.joint.projection import project, round_to

__all__ = [
    "PENALTIES",
    "choose_penalty",
    "choose_seed",
    "cross_validate",
    "price_of_privacy",
    "score_seeds",
]

Floats = NDArray[np.float64]
Outcomes = tuple[Floats | None, NDArray[np.bool_]]

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridge penalties that are tried; for classifiers ν is the reciprocal."""

_DEFAULT_PENALTY = 0.3
_PRICE_ROWS = 2_000
_PENALTY_ROWS = 5_000  # of more rows any penalty in the list matters little


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
        raise ParameterError("one set of scores and one number of rows an institution are needed")
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
