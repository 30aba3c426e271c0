"""How well a model learns from the release: cross-validated accuracy, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import MissingExtraError, ParameterError
from sfumato.hierarchy.tree import Array
from sfumato.results import Result
from sfumato.utility.view import View

__all__ = ["Accuracy", "accuracy", "cross_validated"]


@dataclass(frozen=True)
class Accuracy(Result):
    """Share of rows whose target is predicted right.

    Attributes
    ----------
    original, released
        Cross-validated accuracy on the original and the released columns.
    baseline
        Always guessing the commonest target of the original.
    folds
        Number of folds.
    """

    original: float
    released: float
    baseline: float
    folds: int


def accuracy(
    view: View, target: Any, *, folds: int = 10, seed: int = 0, model: Any = None
) -> Accuracy:
    """Learn a target from the quasi-identifiers, before and after.

    Released rows are learned from and predicted as they are published; a suppressed row can be
    neither. Needs scikit-learn (extra ``models``).

    Parameters
    ----------
    target
        Code of the target for every row.
    model
        A scikit-learn classifier that takes categories as integers; naive Bayes by default.
    """
    if view.counts is not None:
        raise ParameterError(
            "accuracy needs rows, not counted combinations", remedy="Give every row by itself."
        )
    target = np.asarray(target)
    original = [np.asarray(view.original[name]) for name in view.columns]
    released = [view.labels(name) for name in view.columns]
    _, times = np.unique(target, return_counts=True)
    return Accuracy(
        cross_validated(original, target, folds=folds, seed=seed, model=model),
        cross_validated(released, target[view.kept], folds=folds, seed=seed, model=model),
        float(times.max() / len(target)),
        folds,
    )


def cross_validated(
    features: Sequence[Array], target: Any, *, folds: int = 10, seed: int = 0, model: Any = None
) -> float:
    """Accuracy of a classifier on held-out rows, categories given as codes.

    Parameters
    ----------
    features
        One array of codes a column.
    target
        Code of the target for every row.
    """
    try:
        from sklearn.base import clone
        from sklearn.model_selection import KFold
        from sklearn.naive_bayes import CategoricalNB
    except ImportError:
        raise MissingExtraError("models", "classification accuracy") from None
    target = np.asarray(target)
    if not 2 <= folds <= len(target):
        raise ParameterError(
            f"{folds} folds are not possible with {len(target)} rows",
            remedy="Give at least 2 folds and at most as many as rows.",
        )
    columns = [np.unique(column, return_inverse=True)[1] for column in features]
    table = np.stack(columns, axis=1)
    if model is None:
        model = CategoricalNB(min_categories=[int(column.max()) + 1 for column in columns])
    right = 0
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(table):
        fitted = clone(model).fit(table[train], target[train])
        right += int((fitted.predict(table[test]) == target[test]).sum())
    return right / len(target)
