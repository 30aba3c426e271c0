"""What a joint model says of made-up people: the agreement alone describes them, no row does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.joint.model import JointModel
from sfumato.joint.projection import project

if TYPE_CHECKING:
    from sfumato.joint.agreement import Column

__all__ = ["column_effects", "fates_of"]

Floats = npt.NDArray[np.float64]
Points = list[tuple[float, float]]


def column_effects(model: JointModel) -> dict[str, float]:
    """Columns and how much they weigh, weightiest first.

    For a Cox model the hazard ratio between the worst and the best value of the agreed range, for
    classifiers the difference of the score; all other columns are in the middle of theirs.
    """
    effects = {}
    for column in model.agreement.columns:
        scores = _scores_along(model, column)
        change = float(scores.max() - scores.min())
        effects[column.name] = float(np.exp(min(change, 50.0))) if model.kind == "cox" else change
    return dict(sorted(effects.items(), key=lambda item: -item[1]))


def fates_of(model: JointModel, moments: Sequence[float]) -> tuple[dict[str, Points], Points]:
    """Survival of three made-up people at some moments, and the hazard of the middle one.

    One is in the middle of every column's range; the others differ from it in the weightiest column
    only, where they are at its best and at its worst.
    """
    name = next(iter(column_effects(model)))
    column = next(c for c in model.agreement.columns if c.name == name)
    scores = np.sort(_scores_along(model, column))
    middle = float(_score(model, _rows(model, None))[0])
    steps = np.concatenate(([0.0], model.hazard))
    reached = steps[np.searchsorted(model.times, np.asarray(moments), side="right")]
    at = [0.0, *moments]
    people = {
        f"{name} at its best": float(scores[0]),
        "everything in the middle": middle,
        f"{name} at its worst": float(scores[-1]),
    }
    curves = {
        who: list(zip(at, [1.0, *np.exp(-np.exp(score) * reached).tolist()], strict=True))
        for who, score in people.items()
    }
    return curves, list(zip(at, [0.0, *(np.exp(middle) * reached).tolist()], strict=True))


def _scores_along(model: JointModel, column: Column) -> Floats:
    return _score(model, _rows(model, column))


def _rows(model: JointModel, along: Column | None) -> Floats:
    """Encoded people in the middle of every range; along one column one for each of its values."""
    count = 1 if along is None else len(along.options())
    blocks = []
    for column in model.agreement.columns:
        options = column.options()
        chosen = options if column is along else options[[(len(options) - 1) // 2] * count]
        blocks.append(chosen)
    return np.ascontiguousarray(np.concatenate(blocks, axis=1))


def _score(model: JointModel, rows: Floats) -> Floats:
    seen = rows if model.exact else project(rows, model.agreement)
    return np.asarray(seen @ model.coefficients, dtype=np.float64)
