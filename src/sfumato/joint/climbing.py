"""Newton's method as all parties take it together: the same step everywhere, halved if too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UnfinishedError
from sfumato.joint.cox import newton
from sfumato.joint.summing import Summing

__all__ = ["TOLERANCE", "Summit", "climb"]

Floats = NDArray[np.float64]
Aside = TypeVar("Aside")

TOLERANCE = 1e-10
"""A step this small beside the coefficients is the last one."""
_FLAT = 1e-11
_HALVINGS = 40
_ENDLESS = 200.0
"""Coefficients beyond this grow for ever."""


@dataclass(frozen=True)
class Summit(Generic[Aside]):
    """Where the climb ended: coefficients, log-likelihood, what came aside with it, and steps."""

    coefficients: Floats
    log_likelihood: float
    aside: Aside
    iterations: int


def climb(
    summing: Summing,
    columns: int,
    penalty: float,
    likelihood: Callable[[Floats], tuple[float, Aside]],
    derivatives: Callable[[Aside], tuple[Floats, Floats]],
    max_iterations: int,
) -> Summit[Aside]:
    """Maximise the log-likelihood of everybody's rows less the penalty λ/2·‖w‖².

    Parameters
    ----------
    likelihood
        Log-likelihood at some coefficients, and whatever `derivatives` needs of it.
    derivatives
        Its gradient, and minus its Hessian.
    """
    w = np.zeros(columns)
    value, aside = likelihood(w)
    length = 0.0
    for iteration in range(1, max_iterations + 1):
        gradient, hessian = derivatives(aside)
        objective = value - penalty / 2 * length
        ridge = penalty * np.eye(columns)
        step = summing.same("step", newton(gradient - penalty * w, hessian + ridge))
        for _ in range(_HALVINGS):
            moved = w + step
            value, aside = likelihood(moved)
            told = summing.same("value", np.array([value, float(moved @ moved)]))
            value, length = told.tolist()
            if value - penalty / 2 * length >= objective - _FLAT * max(1.0, abs(objective)):
                break
            step = step / 2
        w = moved
        largest = float(np.abs(w).max())
        if largest > _ENDLESS:
            break
        if float(np.abs(step).max()) <= TOLERANCE * max(1.0, largest):
            return Summit(w, value, aside, iteration)
    raise UnfinishedError(
        "the Cox model has no finite maximum: some combination of columns orders the events "
        "perfectly",
        remedy="Start again with a penalty.",
    )
