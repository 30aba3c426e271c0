"""The Newton support vector machine and logistic regression against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.joint import fit_logistic, fit_svm
from sfumato.joint.linear_classifiers import loss_sums


def made_up(rows: int = 250) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rng = np.random.default_rng(7)
    x = rng.random((rows, 5))
    return x, x @ [1.0, -1.0, 0.5, 0.0, 2.0] + rng.normal(0, 0.7, rows) > 1.2


@pytest.mark.parametrize("nu", [0.1, 1.0, 50.0])
def test_svm_equals_liblinear_squared_hinge(nu: float) -> None:
    svm = pytest.importorskip("sklearn.svm")
    x, positive = made_up()
    peer = svm.LinearSVC(C=nu / 2, loss="squared_hinge", dual=False, tol=1e-12, max_iter=100_000)
    peer.fit(x, positive)
    fit = fit_svm(x, positive, nu=nu)
    ours = np.append(fit.coefficients, -fit.threshold)
    theirs = np.append(peer.coef_[0], peer.intercept_)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    sign = np.where(positive, 1.0, -1.0)

    def objective(w: NDArray[np.float64]) -> float:
        slack = np.maximum(1 - sign * (x @ w[:-1] + w[-1]), 0)
        return float(nu / 2 * slack @ slack + w @ w / 2)

    assert objective(ours) <= objective(theirs) + 1e-12
    assert objective(ours) == pytest.approx(fit.objective, rel=1e-12)
    assert fit.iterations <= 12


def test_logistic_equals_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    x, positive = made_up()
    # The bias is inside the penalty, as a column of ones.
    wide = np.column_stack((x, -np.ones(len(x))))
    peer = linear.LogisticRegression(C=3.0, fit_intercept=False, tol=1e-12, max_iter=10_000)
    peer.fit(wide, positive)
    fit = fit_logistic(x, positive, nu=3.0)
    np.testing.assert_allclose(np.append(fit.coefficients, fit.threshold), peer.coef_[0], atol=1e-5)
    np.testing.assert_allclose(fit.probability(x), peer.predict_proba(wide)[:, 1], atol=1e-5)


@pytest.mark.parametrize("loss", ["svm", "logistic"])
def test_gradient_and_hessian_are_the_derivatives(loss: str) -> None:
    x, positive = made_up(60)
    sign, weights = np.where(positive, 1.0, -1.0), np.linspace(0.5, 2.0, 60)
    z = np.random.default_rng(0).normal(size=6)
    _, gradient, hessian = loss_sums(loss, x, sign, weights, z)  # type: ignore[arg-type]
    for k in range(6):
        step = np.zeros(6)
        step[k] = 1e-6
        up = loss_sums(loss, x, sign, weights, z + step)  # type: ignore[arg-type]
        down = loss_sums(loss, x, sign, weights, z - step)  # type: ignore[arg-type]
        assert (up[0] - down[0]) / 2e-6 == pytest.approx(gradient[k], abs=1e-5)
        np.testing.assert_allclose((up[1] - down[1]) / 2e-6, hessian[k], atol=1e-4)


def test_weights_count_like_repeated_rows() -> None:
    x, positive = made_up(50)
    twice = np.concatenate((np.arange(50), np.arange(12)))
    weights = np.where(np.arange(50) < 12, 2.0, 1.0)
    one = fit_svm(x, positive, weights=weights)
    other = fit_svm(x[twice], positive[twice])
    np.testing.assert_allclose(one.coefficients, other.coefficients, atol=1e-10)


def test_perfect_separation_stays_finite_and_is_said() -> None:
    x = np.array([[0.0], [0.1], [0.9], [1.0]])
    for fit in (fit_svm(x, [0, 0, 1, 1], nu=1e4), fit_logistic(x, [0, 0, 1, 1], nu=1e4)):
        assert fit.separated
        assert np.isfinite(fit.coefficients).all()
    assert not fit_svm(*made_up()).separated


def test_bad_input_is_refused() -> None:
    x, positive = made_up(10)
    with pytest.raises(InputError, match="one class"):
        fit_svm(x, np.ones(10, bool))
    with pytest.raises(InputError, match="one entry per row"):
        fit_svm(x, positive[:5])
    with pytest.raises(InputError, match="missing or infinite"):
        fit_logistic(np.full((10, 2), np.inf), positive)
    with pytest.raises(ParameterError, match="ν"):
        fit_svm(x, positive, nu=0.0)
    with pytest.raises(ParameterError, match="weights"):
        fit_svm(x, positive, weights=-np.ones(10))
    with pytest.raises(ParameterError, match="probabilities"):
        fit_svm(x, positive).probability(x)
