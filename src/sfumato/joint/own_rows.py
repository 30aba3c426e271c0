"""This party's part of an exact fit, checked before anybody is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.joint.agreement import Agreement
from sfumato.joint.encoding import encode, encode_outcome, require_rows
from sfumato.joint.metrics import survived

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OwnRows", "rows_to_fit"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OwnRows:
    """This party's rows as an exact fit takes them."""

    x: Floats
    time: Floats
    event: NDArray[np.bool_]
    """Whether the event happened; for classifiers whether the row is of the positive class."""
    penalty: float
    horizon: float | None


def rows_to_fit(
    table: pa.Table,
    agreement: Agreement,
    kind: Literal["cox", "svm", "logistic"],
    *,
    weight: float = 1.0,
    penalty: float | None = None,
    horizon: float | None = None,
    stratified: bool = False,
    where: str = "table",
) -> OwnRows:
    """Encode this party's rows; whatever can be wrong on this side alone is found here.

    Parameters are those of `fit_exact`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.joint import Category, Number, Outcome, Projection
    >>> agreed = Agreement(
    ...     study="lung",
    ...     columns=(Number("age", 18, 98, 1), Category("sex", ("f", "m"))),
    ...     outcome=Outcome(time="days", event="dead", time_max=100),
    ...     projection=Projection(seed="2026-11", dimensions=1),
    ... )
    >>> people = {"age": [38, 58], "sex": ["f", "m"], "days": [3, 5], "dead": [1, 0]}
    >>> rows_to_fit(pa.table(people), agreed, "cox").x.tolist()
    [[0.25, 0.0], [0.5, 1.0]]
    """
    require_rows(table.num_rows, where)
    if not (weight > 0 and np.isfinite(weight)):
        raise ParameterError("the weight must be a positive number")
    x = encode(table, agreement, where=where).matrix
    time, event = encode_outcome(table, agreement, where=where)
    horizon = agreement.outcome.horizon if horizon is None else horizon
    if kind == "cox":
        if time is None:
            raise InputError("a Cox model needs times", remedy="Fit `svm` or `logistic` instead.")
        if not stratified and agreement.outcome.time_max is None:
            raise InputError(
                "the exact Cox fit needs `time_max` in the agreement: the grid of times ends there",
                where="[outcome]",
                remedy="Agree on one that no follow-up exceeds.",
            )
        ridge = 0.0 if penalty is None else penalty
        if not (ridge >= 0 and np.isfinite(ridge)):
            raise ParameterError("the penalty must not be negative")
        return OwnRows(x, time, event, ridge, horizon)
    positive = event
    if time is not None:
        if horizon is None:
            raise ParameterError("a classifier of survival needs a horizon")
        positive, known = survived(time, event, horizon)
        x, positive = x[known], positive[known]
    ridge = 1.0 if penalty is None else penalty
    if not (ridge > 0 and np.isfinite(ridge)):
        raise ParameterError("a classifier needs a positive penalty")
    return OwnRows(x, np.empty(0), positive, ridge, horizon)
