"""Exact fits over secure aggregation: equal to the pooled fit, in threads and in processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from joint_studies import study
from sfumato.errors import InputError, ParameterError, PeerError, UnfinishedError
from sfumato.joint import SecureSum, fit_cox, fit_exact, fit_logistic, fit_svm, score, survived
from sfumato.joint.distributed_cox import exact_cox, exact_stratified_cox
from sfumato.joint.exact import exact_classifier
from sfumato.joint.secure_sum import LocalSum, until_complete
from sfumato.secure.channel import Channel

Work = Callable[[str, SecureSum], Any]


def together(names: str, work: Work, trust: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Run `work` for every party in its own thread; the first is the coordinator."""
    hub = names[0]
    pairs = {name: socket.socketpair() for name in names[1:]}
    done: dict[str, Any] = {}

    def party(name: str) -> None:
        ends = {n: p[0] for n, p in pairs.items()} if name == hub else {hub: pairs[name][1]}
        links = {other: Channel(end, timeout=20) for other, end in ends.items()}
        own = {k: v[name] if isinstance(v, dict) and name in v else v for k, v in settings.items()}
        try:
            with SecureSum(name, links, hub, trust=(trust or {}).get(name), **own) as summing:
                done[name] = until_complete(lambda: work(name, summing))
                done[name + " gone"] = summing.gone
        except BaseException as error:
            done[name] = error
        finally:
            for link in links.values():
                link.close()

    threads = [threading.Thread(target=party, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return done


def good(done: dict[str, Any]) -> dict[str, Any]:
    for value in done.values():
        if isinstance(value, BaseException):
            raise value
    return done


def made_up(rows: int = 400) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(4)
    x = rng.random((rows, 4))
    time = np.minimum(np.ceil(rng.exponential(np.exp(-x @ [1.0, -1.0, 0.5, 2.0]) * 30)), 150)
    return x, time, rng.random(rows) < 0.7, rng.choice(list("abc"), rows, p=[0.6, 0.3, 0.1])


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_cox_equals_the_pooled_fit(ties: Any, penalty: float) -> None:
    x, time, event, site = made_up()

    def work(name: str, summing: SecureSum) -> Any:
        own = site == name
        return exact_cox(
            summing,
            x[own],
            time[own],
            event[own],
            time_step=1,
            time_max=150,
            ties=ties,
            penalty=penalty,
        )

    done = good(together("abc", work))
    pooled = fit_cox(x, time, event, ties=ties, penalty=penalty)
    for name in "abc":
        np.testing.assert_allclose(done[name].coefficients, pooled.coefficients, rtol=0, atol=1e-10)
        np.testing.assert_allclose(done[name].hazard, pooled.hazard, rtol=1e-9)
        np.testing.assert_array_equal(done[name].times, pooled.times)
        assert done[name].iterations <= 10
        assert done[name].rows == len(x)


def test_weights_of_institutions_reach_the_exact_fit() -> None:
    x, time, event, site = made_up()
    weight = {"a": 1.0, "b": 2.0, "c": 0.5}

    def work(name: str, summing: SecureSum) -> Any:
        own = site == name
        return exact_cox(
            summing, x[own], time[own], event[own], time_step=1, time_max=150, weight=weight[name]
        )

    done = good(together("abc", work))
    pooled = fit_cox(x, time, event, weights=[weight[s] for s in site])
    np.testing.assert_allclose(done["b"].coefficients, pooled.coefficients, atol=1e-9)


@pytest.mark.parametrize("loss", ["svm", "logistic"])
def test_classifiers_equal_the_pooled_fit(loss: Any) -> None:
    x, time, _, site = made_up()
    positive = time > 15
    fit = (fit_svm if loss == "svm" else fit_logistic)(x, positive, nu=20.0)
    done = good(
        together(
            "abc",
            lambda n, s: exact_classifier(s, loss, x[site == n], positive[site == n], nu=20.0),
        )
    )
    for name in "abc":
        np.testing.assert_allclose(done[name].coefficients, fit.coefficients, atol=1e-10)
        assert done[name].threshold == pytest.approx(fit.threshold, abs=1e-10)
        assert done[name].iterations <= 10


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_stratified_cox_equals_the_pooled_stratified_fit(ties: Any) -> None:
    lifelines = pytest.importorskip("lifelines")
    pandas = pytest.importorskip("pandas")
    x, time, event, site = made_up()
    if ties == "breslow":  # lifelines knows Efron only; without ties both agree
        time = time + np.random.default_rng(0).random(len(time)) * 0.5

    def work(name: str, summing: SecureSum) -> Any:
        own = site == name
        return exact_stratified_cox(summing, x[own], time[own], event[own], ties=ties)

    done = good(together("abc", work))
    frame = pandas.DataFrame(x, columns=list("wxyz")).assign(t=time, e=event, s=site)
    peer = lifelines.CoxPHFitter().fit(
        frame, "t", "e", strata=["s"], fit_options={"precision": 1e-12}
    )
    for name in "abc":
        np.testing.assert_allclose(done[name].coefficients, peer.params_.to_numpy(), atol=1e-8)
        # 15 numbers a step, and nothing by time
        assert done[name].revealed["numbers"] <= 15 * 10


def test_a_party_without_events_may_take_part_in_a_stratified_fit() -> None:
    x, time, event, site = made_up()
    event = event & (site != "c")

    def work(name: str, summing: SecureSum) -> Any:
        own = site == name
        return exact_stratified_cox(summing, x[own], time[own], event[own])

    done = good(together("abc", work))
    assert np.isfinite(done["c"].coefficients).all()
    with pytest.raises(InputError, match="censored"):
        exact_stratified_cox(LocalSum(), x, time, np.zeros(len(x), bool))
    with pytest.raises(InputError, match="column `b` is constant"):
        exact_stratified_cox(
            LocalSum(), np.c_[x[:, 0], np.ones(len(x))], time, event, names=("a", "b")
        )
    with pytest.raises(UnfinishedError, match="perfectly"):
        exact_stratified_cox(LocalSum(), -time[:, None], time, np.ones(len(x), bool))


def test_stratified_models_score_without_a_survival_curve() -> None:
    lung = study("lung")
    model = fit_exact(lung.table, lung.agreement, parties=LocalSum(), kind="cox", stratified=True)
    found = score(model, lung.table)
    assert found.survival is None
    pooled = fit_cox(lung.encoded.matrix, *lung.outcome)
    np.testing.assert_allclose(found.score, pooled.risk(lung.encoded.matrix), atol=1e-8)
    with pytest.raises(ParameterError, match="no common survival curve"):
        score(model, lung.table, at=365)


def test_merged_times_leave_nobody_alone() -> None:
    x, time, event, _ = made_up()
    fine = exact_cox(LocalSum(), x, time, event, time_step=1, time_max=150)
    merged = exact_cox(LocalSum(), x, time, event, time_step=1, time_max=150, min_group=10)
    assert fine.revealed["alone"] > 0
    assert merged.revealed["alone"] == 0
    assert merged.revealed["smallest_group"] >= 10
    assert merged.revealed["times"] < fine.revealed["times"]
    assert np.abs(merged.coefficients - fine.coefficients).max() < 0.3


def test_merging_equals_the_pooled_fit_on_merged_times() -> None:
    x, time, event, site = made_up()

    def work(name: str, summing: SecureSum) -> Any:
        own = site == name
        return exact_cox(
            summing, x[own], time[own], event[own], time_step=1, time_max=150, min_group=25
        )

    done = good(together("abc", work))
    edges = done["a"].times
    grouped = edges[np.minimum(np.searchsorted(edges, time), len(edges) - 1)]
    pooled = fit_cox(x, grouped, event)
    np.testing.assert_allclose(done["c"].coefficients, pooled.coefficients, atol=1e-9)


def test_a_coarser_grid_rounds_times_up() -> None:
    x, time, event, _ = made_up()
    found = exact_cox(LocalSum(), x, time, event, time_step=7, time_max=154)
    pooled = fit_cox(x, np.ceil(time / 7) * 7, event)
    np.testing.assert_allclose(found.coefficients, pooled.coefficients, atol=1e-10)


def test_a_single_risk_set_step_does_expose_a_person_and_the_model_says_so() -> None:
    # Why `alone` is counted: the difference of two totals is one person's covariates.
    x, _, _, _ = made_up(60)
    seen: list[NDArray[Any]] = []

    class Listening(LocalSum):
        def total(self, step: str, values: NDArray[Any]) -> NDArray[Any]:
            if step == "covariates":
                seen.append(values)
            return values

    time = np.arange(1.0, 61.0)
    exact_cox(Listening(), x, time, np.ones(60, bool), time_step=1, time_max=60)
    s1 = seen[0][4 + 10 :].reshape(60, 4)  # risk is 1 for everybody at the first step
    difference = s1[1:] - s1[:-1]
    expected = (x - x.mean(axis=0))[::-1][1:]
    np.testing.assert_allclose(difference, expected, atol=1e-12)


def test_a_party_that_leaves_stops_everybody_cleanly() -> None:
    x, time, event, site = made_up()

    def work(name: str, summing: SecureSum) -> Any:
        if name == "c":
            raise RuntimeError("power cut")
        own = site == name
        return exact_cox(summing, x[own], time[own], event[own], time_step=1, time_max=150)

    done = together("abcd", work)
    for name in "abd":
        assert isinstance(done[name], PeerError)
        assert "`c` left" in str(done[name])


@pytest.mark.parametrize("rounds_before", [0, 3])
def test_the_others_may_go_on_without_it(rounds_before: int) -> None:
    x, time, event, site = made_up()
    stays = site != "c"

    def work(name: str, summing: SecureSum) -> Any:
        own = site == name
        if name == "c":
            summing.total = _failing_after(summing.total, rounds_before)  # type: ignore[method-assign]
        return exact_cox(summing, x[own], time[own], event[own], time_step=1, time_max=150)

    done = together("abcd", work, min_parties=3)
    pooled = fit_cox(x[stays], time[stays], event[stays])
    for name in "abd":
        np.testing.assert_allclose(done[name].coefficients, pooled.coefficients, atol=1e-10)
        assert done[name + " gone"] == ("c",)


def _failing_after(total: Any, rounds: int) -> Any:
    left = [rounds]

    def failing(step: str, values: NDArray[Any]) -> NDArray[Any]:
        if left[0] == 0:
            raise RuntimeError("power cut")
        left[0] -= 1
        return np.asarray(total(step, values))

    return failing


def test_two_parties_are_refused_unless_meant() -> None:
    done = together("ab", lambda n, s: s.total("x", np.ones(1)))
    assert all(isinstance(done[name], PeerError) for name in "ab")
    assert any("compute the other's numbers" in str(done[name]) for name in "ab")
    meant = good(together("ab", lambda n, s: s.total("x", np.ones(1)), min_parties=2))
    assert meant["a"] == meant["b"] == 2.0


def test_other_parameters_are_named() -> None:
    done = together(
        "abc",
        lambda n, s: None,
        parameters={"a": {"model": 1}, "b": {"model": 1}, "c": {"model": 2}},
    )
    assert any("different parameters: model" in str(done[name]) for name in "abc")
    assert all(isinstance(done[name], PeerError) for name in "abc")


@pytest.mark.parametrize(
    "card",
    [b"not json", b"[1]", b"{}", b'{"card": {"name": "b", "public": "xy"}, "signature": ""}'],
)
def test_unreadable_greetings_are_refused(card: bytes) -> None:
    ends = {name: socket.socketpair() for name in "bc"}
    for name, message in (("b", card), ("c", b"{}")):
        Channel(ends[name][1], timeout=5).send("greeting", message)
    links = {name: Channel(pair[0], timeout=5) for name, pair in ends.items()}
    with pytest.raises(PeerError):
        SecureSum("a", links, "a")
    for _, other in ends.values():
        other.close()


def test_a_coordinator_that_invents_steps_is_caught() -> None:
    def work(name: str, summing: SecureSum) -> Any:
        return summing.same("step", np.array([5.0 if name == "a" else 1.0]))

    done = together("abc", work)
    assert any("do not follow from the totals" in str(done[name]) for name in "bc")


class Forged:
    """A trust in which only b's signature is good."""

    others: ClassVar = {"b": None, "c": None}

    def sign(self, message: bytes) -> bytes:
        return b"x"

    def verify(self, name: str, message: bytes, signature: bytes) -> bool:
        return name == "b"


def test_keys_that_are_not_signed_are_refused() -> None:
    done = together("abc", lambda n, s: None, trust={"a": Forged(), "b": Forged(), "c": Forged()})
    assert any("not signed by its certificate" in str(done[name]) for name in "abc")
    assert all(isinstance(done[name], PeerError) for name in "abc")


def test_models_of_tables_score_like_the_pooled_model() -> None:
    lung = study("lung")
    time, event = lung.outcome

    def work(name: str, summing: SecureSum) -> Any:
        return fit_exact(lung.part(name), lung.agreement, "cox", parties=summing)

    done = good(together("ABCD", work))
    pooled = fit_cox(lung.encoded.matrix, time, event)
    model = done["B"]
    np.testing.assert_allclose(model.coefficients, pooled.coefficients, atol=1e-8)
    assert model.columns == lung.agreement.encoded_names
    assert model.exact
    assert model.iterations <= 10
    assert any("alone in leaving" in note for note in model.notes)
    found = score(model, lung.table, at=365)
    np.testing.assert_allclose(found.score, pooled.risk(lung.encoded.matrix), atol=1e-8)
    np.testing.assert_allclose(
        found.survival, pooled.survival(lung.encoded.matrix, [365])[:, 0], atol=1e-9
    )


@pytest.mark.parametrize("kind", ["svm", "logistic"])
def test_classifier_models_of_tables(kind: Any) -> None:
    lung = study("lung")
    time, event = lung.outcome
    lived, known = survived(time, event, 365)
    model = fit_exact(lung.table, lung.agreement, parties=LocalSum(), kind=kind, penalty=0.5)
    fit = (fit_svm if kind == "svm" else fit_logistic)(
        lung.encoded.matrix[known], lived[known], nu=2.0
    )
    np.testing.assert_allclose(model.coefficients, fit.coefficients, atol=1e-9)


def test_bad_input_is_refused() -> None:
    x, time, event, _ = made_up(50)
    alone = LocalSum()
    grid = {"time_step": 1.0, "time_max": 150.0}
    with pytest.raises(InputError, match="censored"):
        exact_cox(alone, x, time, np.zeros(50, bool), **grid)
    with pytest.raises(InputError, match="column 1 is constant"):
        exact_cox(alone, np.ones((50, 2)), time, event, **grid)
    with pytest.raises(InputError, match="column `b` is constant"):
        exact_cox(alone, np.c_[x[:, 0], np.ones(50)], time, event, **grid, names=("a", "b"))
    with pytest.raises(InputError, match="agreed maximum"):
        exact_cox(alone, x, time + 200, event, **grid)
    with pytest.raises(ParameterError, match="grid"):
        exact_cox(alone, x, time, event, time_step=1e-5, time_max=150)
    with pytest.raises(ParameterError, match="min_group"):
        exact_cox(alone, x, time, event, min_group=0, **grid)
    with pytest.raises(InputError, match="fewer than 500"):
        exact_cox(alone, x, time, event, min_group=500, **grid)
    with pytest.raises(UnfinishedError, match="perfectly"):
        exact_cox(alone, -time[:, None], time, np.ones(50, bool), **grid)
    with pytest.raises(InputError, match="one class"):
        exact_classifier(alone, "svm", x, np.ones(50, bool))
    with pytest.raises(ParameterError, match="positive"):
        exact_classifier(alone, "svm", x, event, nu=0.0)
    with pytest.raises(ParameterError, match="star"):
        SecureSum("a", {}, "a")
