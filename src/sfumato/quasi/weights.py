"""Weights of columns, as users give them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sfumato.errors import ParameterError, did_you_mean
from sfumato.tables import Table

__all__ = ["column_weights"]


def column_weights(opened: Table, weights: Mapping[str, float] | None) -> list[float]:
    """The weight of every column of a table, 1 where none is given."""
    given = dict(weights or {})
    for name, weight in given.items():
        if name not in opened.columns:
            raise ParameterError(
                f"there is a weight for a column `{name}` that does not exist",
                where=opened.name,
                remedy=did_you_mean(name, opened.columns),
            )
        if not (isinstance(weight, (int, float)) and weight > 0 and math.isfinite(weight)):
            raise ParameterError(
                f"the weight of `{name}` is {weight}",
                where=opened.name,
                remedy="Give a number larger than zero, or leave the column out with --exclude.",
            )
    return [float(given.get(name, 1.0)) for name in opened.columns]
