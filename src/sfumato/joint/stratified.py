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

from sfumato.errors import InputError, ParameterError, UnfinishedError
from sfumato.joint.cox import SortedRows, Ties, newton
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

    def sums(w: Floats) -> tuple[float, Floats, Floats]:
        if own is None:  # without an event this party's likelihood is constant
            local = np.zeros(1 + columns + len(upper[0]))
        else:
            value, risk, scalars = own.likelihood(w)
            gradient, hessian = own.derivatives(risk, scalars)
            local = np.concatenate(([value], gradient, hessian[upper]))
        total = summing.total("derivatives", local)
        full = np.zeros((columns, columns))
        full[upper] = total[1 + columns :]
        return float(total[0]), total[1 : 1 + columns], full + np.triu(full, 1).T

    w = np.zeros(columns)
    value, gradient, hessian = sums(w)
    length, revealed = 0.0, 1
    for iteration in range(1, max_iterations + 1):
        objective = value - penalty / 2 * length
        ridge = penalty * np.eye(columns)
        step = summing.same("step", newton(gradient - penalty * w, hessian + ridge))
        for _ in range(40):
            moved = w + step
            value, gradient, hessian = sums(moved)
            revealed += 1
            told = summing.same("value", np.array([value, float(moved @ moved)]))
            value, length = told.tolist()
            if value - penalty / 2 * length >= objective - 1e-11 * max(1.0, abs(objective)):
                break
            step = step / 2
        w = moved
        if float(np.abs(w).max()) > 200.0:
            break
        if float(np.abs(step).max()) <= 1e-10 * max(1.0, float(np.abs(w).max())):
            numbers = float(revealed * (1 + columns + len(upper[0])))
            empty = np.empty(0)
            return ExactFit(w, 0.0, empty, empty, iteration, rows, value, {"numbers": numbers})
    raise UnfinishedError(
        "the Cox model has no finite maximum: some combination of columns orders the events "
        "perfectly",
        remedy="Start again with a penalty.",
    )
