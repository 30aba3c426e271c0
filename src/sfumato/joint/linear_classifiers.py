"""Classifiers fitted by Newton's method: the paper's support vector machine, and logistic.

Both minimise a strongly convex function of z = (w, γ) for the plane x'w = γ, so a few Newton
steps reach machine precision whatever the number of rows. `loss_sums` gives the sums over rows
that one step needs; the exact distributed fit adds up the same sums over institutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError, ParameterError, UnfinishedError
from sfumato.joint.cox import newton
from sfumato.results import Result

Floats = NDArray[np.float64]
Loss = Literal["svm", "logistic"]
_MOST_STEPS, _HALVINGS = 200, 50


@dataclass(frozen=True)
class ClassifierFit(Result):
    """A fitted plane x'w = γ.

    Attributes
    ----------
    coefficients, threshold
        w and γ; `score` is x'w - γ, positive on the side of the positive class.
    loss
        Which model it is.
    objective
        Value that was minimised.
    iterations
        Newton steps taken.
    separated
        Whether the plane parts the two classes without an error on the training rows; the
        regularisation then alone decides how large the coefficients are.
    """

    coefficients: Floats
    threshold: float
    loss: Loss
    objective: float
    iterations: int
    separated: bool

    def score(self, x: ArrayLike) -> Floats:
        """Signed distance to the plane in units of the margin."""
        return np.asarray(np.asarray(x, dtype=np.float64) @ self.coefficients - self.threshold)

    def probability(self, x: ArrayLike) -> Floats:
        """Probability of the positive class (logistic model only)."""
        if self.loss != "logistic":
            raise ParameterError("a support vector machine has no probabilities")
        return np.asarray(1.0 / (1.0 + np.exp(-self.score(x))))


def fit_svm(
    x: ArrayLike,
    positive: ArrayLike,
    *,
    nu: float = 1.0,
    weights: ArrayLike | None = None,
    tolerance: float = 1e-10,
) -> ClassifierFit:
    """Fit the Newton support vector machine of the paper (section 4.1).

    Minimises ν/2·‖(e - D(Aw - eγ))₊‖² + ½(w'w + γ²): squared slack, and the margin measured in
    the space of (w, γ). Equal to liblinear's squared hinge with C = ν/2.

    Examples
    --------
    >>> fit = fit_svm([[0.0], [0.2], [0.8], [1.0]], [0, 0, 1, 1], nu=100.0)
    >>> (fit.score([[0.1], [0.9]]) > 0).tolist()
    [False, True]
    """
    return _fit("svm", x, positive, nu, weights, tolerance)


def fit_logistic(
    x: ArrayLike,
    positive: ArrayLike,
    *,
    nu: float = 1.0,
    weights: ArrayLike | None = None,
    tolerance: float = 1e-10,
) -> ClassifierFit:
    """Fit logistic regression: ν·Σ log(1 + exp(-D(Aw - eγ))) + ½(w'w + γ²).

    Examples
    --------
    >>> fit = fit_logistic([[0.0], [0.2], [0.8], [1.0]], [0, 0, 1, 1], nu=100.0)
    >>> (fit.probability([[0.1], [0.9]]) > 0.5).tolist()
    [False, True]
    """
    return _fit("logistic", x, positive, nu, weights, tolerance)


def loss_sums(
    loss: Loss, x: Floats, sign: Floats, weights: Floats, z: Floats
) -> tuple[float, Floats, Floats]:
    """Value, gradient and Hessian at z = (w, γ) of the summed loss, without ν and penalty."""
    losses, slope, bend = row_losses(loss, sign * (x @ z[:-1] - z[-1]))
    value, turned, bend = float(weights @ losses), weights * slope * sign, weights * bend
    gradient = np.append(turned @ x, -turned.sum())
    cross = bend @ x
    hessian = np.empty((len(z), len(z)))
    hessian[:-1, :-1] = x.T @ (x * bend[:, None])
    hessian[:-1, -1] = hessian[-1, :-1] = -cross
    hessian[-1, -1] = bend.sum()
    return value, gradient, hessian


def row_losses(loss: Loss, margin: Floats) -> tuple[Floats, Floats, Floats]:
    """Each row's loss, and its first and second derivative by the margin."""
    if loss == "svm":
        slack = np.maximum(1.0 - margin, 0.0)
        return 0.5 * slack * slack, -slack, (slack > 0).astype(np.float64)
    chance = np.exp(-np.logaddexp(0.0, margin))
    return np.logaddexp(0.0, -margin), -chance, chance * (1.0 - chance)


def _fit(
    loss: Loss,
    x: ArrayLike,
    positive: ArrayLike,
    nu: float,
    weights: ArrayLike | None,
    tolerance: float,
) -> ClassifierFit:
    matrix = np.asarray(x, dtype=np.float64)
    truth = np.asarray(positive, dtype=bool)
    if matrix.ndim != 2 or len(matrix) != len(truth):
        raise InputError("`x` and `positive` must have one entry per row")
    if not np.isfinite(matrix).all():
        raise InputError("a column holds missing or infinite values; fill them before fitting")
    if not (nu > 0 and np.isfinite(nu)):
        raise ParameterError("ν must be a positive number")
    case = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=np.float64)
    if case.shape != truth.shape or not (np.isfinite(case) & (case > 0)).all():
        raise ParameterError("weights must be positive numbers, one per row")
    if truth.all() or not truth.any():
        raise InputError(
            "all rows are of one class: there is nothing to tell apart",
            remedy="Choose another horizon or label, or bring in more rows.",
        )
    sign = np.where(truth, 1.0, -1.0)

    def objective(z: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, hessian = loss_sums(loss, matrix, sign, case, z)
        hessian = nu * hessian
        hessian[np.diag_indices(len(z))] += 1.0
        return nu * value + float(z @ z) / 2, nu * gradient + z, hessian

    z, value, iterations = _minimise(objective, matrix.shape[1] + 1, tolerance)
    right = bool((sign * (matrix @ z[:-1] - z[-1]) > 0).all())
    return ClassifierFit(z[:-1], float(z[-1]), loss, value, iterations, right)


def _minimise(
    objective: Callable[[Floats], tuple[float, Floats, Floats]], size: int, tolerance: float
) -> tuple[Floats, float, int]:
    """The minimum of a strongly convex function by Newton's method: place, value, steps taken."""
    z = np.zeros(size)
    value, gradient, hessian = objective(z)
    for iteration in range(1, _MOST_STEPS + 1):
        step = -newton(gradient, hessian)
        slope = float(gradient @ step)
        for _ in range(_HALVINGS):
            moved = z + step
            after, gradient_after, hessian_after = objective(moved)
            if after <= value + 1e-4 * slope + 1e-12 * max(1.0, abs(value)):
                break
            step, slope = step / 2, slope / 2
        z, value, gradient, hessian = moved, after, gradient_after, hessian_after
        if float(np.abs(step).max()) <= tolerance * max(1.0, float(np.abs(z).max())):
            return z, value, iteration
    raise UnfinishedError("the classifier did not converge", remedy="Lower ν.")
