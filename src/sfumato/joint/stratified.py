"""The exact stratified Cox model: every institution keeps a baseline hazard of its own.

Risk sets then never reach across institutions, so likelihood, gradient and Hessian are sums of
what each computes at home. Nothing is revealed by time: 1 + p + p(p+1)/2 numbers an iteration are
all that is added up, whereas `exact_cox` must reveal totals at every event time. The price: no
common survival curve, and differences between institutions are not learned from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.joint.climbing import climb
from sfumato.joint.cox import SortedRows, Ties
from sfumato.joint.exact import ExactFit, check_pooled, counted
from sfumato.joint.summing import Summing

__all__ = ["exact_stratified_cox"]

Floats = NDArray[np.float64]


def exact_stratified_cox(
    summing: Summing,
    x: Floats,
    time: Floats,
    event: NDArray[np.bool_],
    *,
    weight: float = 1.0,
    penalty: float = 0.0,
    ties: Ties = "efron",
    max_iterations: int = 50,
    names: Sequence[str] | None = None,
) -> ExactFit:
    """Fit the Cox model of everybody's rows, stratified by institution.

    Parameters
    ----------
    summing
        The connection to the other parties.
    x, time, event
        This party's rows; times need no common grid.
    weight
        Weight of this party's rows.
    penalty
        λ of the ridge penalty λ/2·‖w‖².
    names
        What the columns of x are called, where an error must name one.

    Examples
    --------
    >>> from sfumato.joint import fit_cox
    >>> from sfumato.joint.summing import Alone
    >>> x, t, e = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([4.0, 2, 3, 4]), np.ones(4, bool)
    >>> fit = exact_stratified_cox(Alone(), x, t, e)
    >>> bool(np.allclose(fit.coefficients, fit_cox(x, t, e).coefficients))
    True
    """
    if not (weight > 0 and penalty >= 0):
        raise ParameterError("the weight must be positive, and the penalty not negative")
    if len(time) and (not np.isfinite(time).all() or time.min() < 0):
        raise InputError("times must be finite and not negative")
    columns = x.shape[1]
    upper = np.triu_indices(columns)
    first = summing.total(
        "outcomes", np.concatenate(([len(x), event.sum()], x.sum(axis=0), (x * x).sum(axis=0)))
    )
    rows, events = counted(first[:2]).tolist()
    mean = first[2 : 2 + columns] / rows
    check_pooled(events, first[2 + columns :] / rows - mean**2, penalty, names)
    own = SortedRows(x, time, event, np.full(len(x), weight), ties) if event.any() else None

    numbers = 1 + columns + len(upper[0])
    revealed = 0

    def likelihood(w: Floats) -> tuple[float, tuple[Floats, Floats]]:
        nonlocal revealed
        if own is None:  # without an event this party's likelihood is constant
            local = np.zeros(numbers)
        else:
            value, risk, scalars = own.likelihood(w)
            gradient, hessian = own.derivatives(risk, scalars)
            local = np.concatenate(([value], gradient, hessian[upper]))
        total = summing.total("derivatives", local)
        revealed += numbers
        full = np.zeros((columns, columns))
        full[upper] = total[1 + columns :]
        return float(total[0]), (total[1 : 1 + columns], full + np.triu(full, 1).T)

    top = climb(summing, columns, penalty, likelihood, lambda aside: aside, max_iterations)
    return ExactFit(
        coefficients=top.coefficients,
        threshold=0.0,
        times=np.empty(0),
        hazard=np.empty(0),
        iterations=top.iterations,
        rows=rows,
        log_likelihood=top.log_likelihood,
        revealed={"numbers": float(revealed)},
    )
