"""The Cox model against its definition, scikit-survival and lifelines."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.joint import cox, fit_cox, validation

Floats = NDArray[np.float64]


def made_up(rows: int, seed: int, ties: bool = True) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    x = rng.random((rows, 4))
    time = rng.exponential(np.exp(-x @ [1.0, -1.0, 0.5, 0.0]) * 12)
    return x, np.ceil(time) if ties else time, rng.random(rows) < 0.7


def efron_likelihood(w: Floats, x: Floats, time: Floats, event: NDArray[np.bool_]) -> float:
    """Straight from the definition, one death at a time."""
    total = 0.0
    risk = np.exp(x @ w)
    for moment in np.unique(time[event]):
        dead = event & (time == moment)
        for rank in range(int(dead.sum())):
            below = risk[time >= moment].sum() - rank / dead.sum() * risk[dead].sum()
            total -= math.log(below)
        total += float((x[dead] @ w).sum())
    return total


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_the_fit_maximises_the_partial_likelihood(seed: int) -> None:
    x, time, event = made_up(40, seed)
    fit = fit_cox(x, time, event, penalty=0.1)
    best = efron_likelihood(fit.coefficients, x, time, event)
    assert fit.log_likelihood == pytest.approx(best, abs=1e-9)
    penalised = best - 0.05 * fit.coefficients @ fit.coefficients
    rng = np.random.default_rng(seed)
    for _ in range(5):
        near = fit.coefficients + rng.normal(0, 1e-3, 4)
        assert efron_likelihood(near, x, time, event) - 0.05 * near @ near <= penalised + 1e-12


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_equal_to_scikit_survival(ties: str, penalty: float) -> None:
    models = pytest.importorskip("sksurv.linear_model")
    x, time, event = made_up(300, 1)
    outcome = np.array(list(zip(event, time, strict=True)), dtype=[("e", bool), ("t", float)])
    peer = models.CoxPHSurvivalAnalysis(alpha=penalty, ties=ties, tol=1e-14, n_iter=200)
    peer.fit(x, outcome)
    fit = fit_cox(x, time, event, penalty=penalty, ties=ties)  # type: ignore[arg-type]
    np.testing.assert_allclose(fit.coefficients, peer.coef_, rtol=0, atol=1e-9)


def test_equal_to_lifelines_with_weights_and_ties() -> None:
    lifelines = pytest.importorskip("lifelines")
    pandas = pytest.importorskip("pandas")
    x, time, event = made_up(300, 2)
    weights = np.random.default_rng(0).integers(1, 4, 300)
    frame = pandas.DataFrame(x, columns=list("abcd")).assign(t=time, e=event, w=weights)
    peer = lifelines.CoxPHFitter().fit(
        frame, "t", "e", weights_col="w", robust=True, fit_options={"precision": 1e-12}
    )
    fit = fit_cox(x, time, event, weights=weights)
    np.testing.assert_allclose(fit.coefficients, peer.params_.to_numpy(), rtol=0, atol=1e-8)


def test_survival_curves_equal_lifelines_without_ties() -> None:
    lifelines = pytest.importorskip("lifelines")
    pandas = pytest.importorskip("pandas")
    x, time, event = made_up(200, 5, ties=False)
    frame = pandas.DataFrame(x, columns=list("abcd")).assign(t=time, e=event)
    peer = lifelines.CoxPHFitter().fit(frame, "t", "e", fit_options={"precision": 1e-12})
    fit = fit_cox(x, time, event)
    moments = np.sort(time[event])[[20, 60, 110]]
    expected = peer.predict_survival_function(frame[list("abcd")], times=moments).to_numpy().T
    np.testing.assert_allclose(fit.survival(x, moments), expected, atol=1e-7)
    assert fit.survival(x[:2], [0.0]).tolist() == [[1.0], [1.0]]


def test_weight_two_equals_a_row_twice_under_breslow() -> None:
    x, time, event = made_up(60, 9)
    twice = np.concatenate((np.arange(60), np.arange(10)))
    weights = np.ones(60)
    weights[:10] = 2.0
    one = fit_cox(x, time, event, weights=weights, ties="breslow")
    other = fit_cox(x[twice], time[twice], event[twice], ties="breslow")
    np.testing.assert_allclose(one.coefficients, other.coefficients, atol=1e-9)


def test_streaming_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, time, event = made_up(500, 4)
    whole = fit_cox(x, time, event)
    monkeypatch.setattr("sfumato.joint.cox._BLOCK", 7)
    np.testing.assert_allclose(fit_cox(x, time, event).coefficients, whole.coefficients, atol=1e-12)


def test_perfect_separation_is_said_and_regularised() -> None:
    fit = fit_cox([[0.0], [0.0], [1.0], [1.0]], [4.0, 3.0, 2.0, 1.0], [True] * 4)
    assert fit.separated
    assert fit.penalty > 0
    assert np.isfinite(fit.coefficients).all()
    assert not fit_cox(*made_up(60, 3)).separated


@pytest.mark.parametrize("seed", range(8))
def test_strong_effects_of_heavy_tailed_columns_are_not_taken_for_separation(seed: int) -> None:
    models = pytest.importorskip("sksurv.linear_model")
    rng = np.random.default_rng(seed)
    x = np.column_stack((rng.lognormal(0, 1.2, 200), rng.normal(0, 3, 200), rng.random(200)))
    time = rng.exponential(np.exp(-np.clip(x @ [0.3, -0.5, 0.4], -20, 20)))
    event = rng.random(200) < 0.6
    fit = fit_cox(x, time, event)
    assert not fit.separated
    outcome = np.array(list(zip(event, time, strict=True)), dtype=[("e", bool), ("t", float)])
    peer = models.CoxPHSurvivalAnalysis(ties="efron", tol=1e-13, n_iter=300).fit(x, outcome)
    np.testing.assert_allclose(fit.coefficients, peer.coef_, atol=1e-7)


def test_separation_by_one_of_several_columns() -> None:
    x, time, event = made_up(60, 3)
    told = np.column_stack((x, -time))
    fit = fit_cox(told, time, event)
    assert fit.separated
    assert np.isfinite(fit.coefficients).all()


def test_bad_input_is_refused() -> None:
    x, time, event = made_up(20, 0)
    with pytest.raises(InputError, match="censored"):
        fit_cox(x, time, np.zeros(20, bool))
    with pytest.raises(InputError, match="negative"):
        fit_cox(x, -time, event)
    with pytest.raises(InputError, match="constant"):
        fit_cox(np.ones((20, 2)), time, event)
    with pytest.raises(InputError, match="missing or infinite"):
        fit_cox(np.where(x > 0.9, np.nan, x), time, event)
    with pytest.raises(InputError, match="one entry per row"):
        fit_cox(x, time[:-1], event)
    with pytest.raises(ParameterError, match="penalty"):
        fit_cox(x, time, event, penalty=-1.0)
    with pytest.raises(ParameterError, match="weights"):
        fit_cox(x, time, event, weights=np.zeros(20))
    with pytest.raises(ParameterError, match="ties"):
        fit_cox(x, time, event, ties="exact")  # type: ignore[arg-type]


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 60), times=st.sampled_from([1, 4, 1000]))
@settings(max_examples=12)
def test_numpy_gives_what_compiled_loops_give(seed: int, rows: int, times: int) -> None:
    """To the last digit, so that no figure depends on whether anything was compiled."""
    random = np.random.default_rng(seed)
    starts = cox.time_groups(-np.sort(-random.integers(0, times, rows).astype(float)))
    dying, risk, x = random.random(rows) < 0.5, random.random(rows), random.normal(size=(rows, 3))
    first, last = len(starts) // 3, len(starts) - 1
    deaths, own = (
        np.add.reduceat(np.where(dying, part, 0), starts[:-1]) for part in (1, risk * 1e-160)
    )
    totals = cox.group_totals(risk, starts)
    totals[random.random(last) < 0.1] = 0.0  # where the risk of all who are left is too small
    rank = random.integers(0, 5, rows)
    for loop, *asked in (
        (cox.risk_totals, x, risk, dying, starts, first, last, np.ones(3)),
        (cox.tie_scalars, totals, own, deaths, 1.5 * deaths, seed % 2 == 0),
        (validation.concordant_pairs, rank, 5, dying, starts),
    ):
        one, other = copy.deepcopy(asked), copy.deepcopy(asked)
        for found, compiled in zip(loop.instead(*one), loop.dispatcher(*other), strict=True):
            np.testing.assert_array_equal(found, compiled)
        for left, compiled in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, compiled)
