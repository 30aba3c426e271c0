"""Exact fits under secret sharing: equal to the pooled fit up to the agreed precision."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from joint_studies import study
from ports import at_once, raised, star
from sfumato.errors import InputError, ParameterError, PeerError, UnfinishedError
from sfumato.joint import (
    Exchange,
    LocalArithmetic,
    Shamir,
    fit_cox,
    fit_exact,
    fit_logistic,
    fit_svm,
    read_model,
    score,
    survived,
    write_model,
)
from sfumato.joint.cox import SortedRows
from sfumato.joint.distributed_cox import OPENED, exact_cox, exact_stratified_cox, moments
from sfumato.joint.exact import exact_classifier
from sfumato.secure.channel import Channel

Work = Callable[[str, Shamir], Any]


def together(names: str, work: Work, trust: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Run `work` for every party in its own thread; the first is the coordinator."""
    ends = star(names)

    def party(name: str) -> Any:
        links = {other: Channel(end, timeout=60) for other, end in ends[name].items()}
        own = {k: v[name] if isinstance(v, dict) and name in v else v for k, v in settings.items()}
        trusted = (trust or {}).get(name)
        try:
            with Exchange(name, links, names[0], trust=trusted, **own) as exchange:
                return work(name, Shamir(exchange))
        finally:
            for link in links.values():
                link.close()

    return at_once(names, party)


def made_up(rows: int = 240) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(4)
    x = rng.random((rows, 3))
    time = np.minimum(np.ceil(rng.exponential(np.exp(-x @ [1.0, -1.0, 2.0]) * 20)), 40)
    return x, time, rng.random(rows) < 0.5, rng.choice(list("abc"), rows, p=[0.5, 0.3, 0.2])


GRID = {"time_step": 1.0, "time_max": 40.0}


@pytest.mark.parametrize(("ties", "penalty"), [("efron", 0.0), ("breslow", 1.0)])
def test_cox_equals_the_pooled_fit(ties: Any, penalty: float) -> None:
    x, time, event, site = made_up()

    def work(name: str, shared: Shamir) -> Any:
        own = site == name
        return exact_cox(
            shared, x[own], time[own], event[own], ties=ties, penalty=penalty, horizon=12.0, **GRID
        )

    done = raised(together("abc", work))
    pooled = fit_cox(x, time, event, ties=ties, penalty=penalty)
    for name in "abc":
        fit = done[name]
        np.testing.assert_allclose(fit.coefficients, pooled.coefficients, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(fit.coefficients, done["a"].coefficients)
        # The curve is told at a few times only, to ten binary digits.
        assert 12.0 in fit.times
        known = pooled.hazard[np.searchsorted(pooled.times, fit.times)]
        np.testing.assert_allclose(fit.hazard, known, rtol=0, atol=known[-1] / 200)
        assert fit.revealed["smallest_group"] >= 10
        assert fit.iterations <= 8
        assert fit.rows == len(x)


def test_five_parties_and_weights_that_nobody_learns() -> None:
    x, time, event, _ = made_up(120)
    site = np.random.default_rng(1).choice(list("abcde"), len(x))
    weight = {"a": 1.0, "b": 2.0, "c": 0.5, "d": 1.0, "e": 3.0}
    opened = []

    def work(name: str, shared: Shamir) -> Any:
        own = site == name
        fit = exact_cox(shared, x[own], time[own], event[own], weight=weight[name], **GRID)
        opened.append(dict(shared.opened.numbers))
        return fit

    done = raised(together("abcde", work))
    pooled = fit_cox(x, time, event, weights=[weight[s] for s in site])
    np.testing.assert_allclose(done["b"].coefficients, pooled.coefficients, rtol=0, atol=1e-6)
    # That three parties weigh their rows is told; at which time whose died is not.
    assert all(told["weighted"] == 1 and "weights" not in told for told in opened)


class UnluckyArithmetic(LocalArithmetic):
    """What nine parties open when all 126 parts of the mask carry, or none does."""

    def __init__(self, units: float) -> None:
        super().__init__()
        self.units = units

    def places(self, precision: float) -> int:
        return math.ceil(math.log2((126 + 1) / 2 / precision))

    def open(self, step: str, secret: Any, places: int) -> Any:
        shift = self.units if step == "rank" else 0.0
        return super().open(step, secret, places) + shift * 2.0**-places


@pytest.mark.parametrize("units", [-63.0, 63.0])
def test_no_carry_decides_whether_a_column_follows_from_the_others(units: float) -> None:
    x, time, event, _ = made_up(120)
    pooled = fit_cox(x, time, event)
    fit = exact_cox(UnluckyArithmetic(units), x, time, event, **GRID)
    np.testing.assert_allclose(fit.coefficients, pooled.coefficients, rtol=0, atol=1e-6)
    x[:, 2] = x[:, 0]
    with pytest.raises(InputError, match="some column is constant or follows from the others"):
        exact_cox(UnluckyArithmetic(units), x, time, event, **GRID)


@pytest.mark.parametrize("loss", ["svm", "logistic"])
def test_classifiers_equal_the_pooled_fit(loss: Any) -> None:
    x, time, _, site = made_up()
    positive = time > 10
    fit = (fit_svm if loss == "svm" else fit_logistic)(x, positive, nu=20.0)
    done = raised(
        together(
            "abc",
            lambda n, s: exact_classifier(s, loss, x[site == n], positive[site == n], nu=20.0),
        )
    )
    for name in "abc":
        np.testing.assert_allclose(done[name].coefficients, fit.coefficients, rtol=0, atol=1e-6)
        assert done[name].threshold == pytest.approx(fit.threshold, abs=1e-6)
        assert done[name].iterations <= 10


@pytest.mark.parametrize("precision", [1e-2, 1e-4, 1e-8])
def test_coefficients_are_as_precise_as_agreed_and_no_more(precision: float) -> None:
    x, time, event, _ = made_up()
    pooled = fit_cox(x, time, event)
    fit = exact_cox(LocalArithmetic(), x, time, event, precision=precision, **GRID)
    np.testing.assert_allclose(fit.coefficients, pooled.coefficients, rtol=0, atol=precision)
    units = fit.coefficients * 2.0 ** max(fit.ascent.places)
    np.testing.assert_array_equal(units, np.rint(units))
    # Twice as many digits of the coefficients, twice as many bits of steps; not the square.
    assert fit.ascent.places[-1] == max(fit.ascent.places) == LocalArithmetic().places(precision)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_stratified_cox_equals_the_pooled_stratified_fit(ties: Any) -> None:
    lifelines = pytest.importorskip("lifelines")
    pandas = pytest.importorskip("pandas")
    x, time, event, site = made_up()
    if ties == "breslow":  # lifelines knows Efron only; without ties both agree
        time = time + np.random.default_rng(0).random(len(time)) * 0.5

    def work(name: str, shared: Shamir) -> Any:
        own = site == name
        return exact_stratified_cox(shared, x[own], time[own], event[own], ties=ties)

    done = raised(together("abc", work))
    frame = pandas.DataFrame(x, columns=list("xyz")).assign(t=time, e=event, s=site)
    peer = lifelines.CoxPHFitter().fit(
        frame, "t", "e", strata=["s"], fit_options={"precision": 1e-12}
    )
    for name in "abc":
        np.testing.assert_allclose(
            done[name].coefficients, peer.params_.to_numpy(), rtol=0, atol=1e-6
        )


def test_a_party_without_events_may_take_part_in_a_stratified_fit() -> None:
    x, time, event, site = made_up()
    event = event & (site != "c")

    def work(name: str, shared: Shamir) -> Any:
        own = site == name
        return exact_stratified_cox(shared, x[own], time[own], event[own])

    done = raised(together("abc", work))
    assert np.isfinite(done["c"].coefficients).all()


def test_models_that_do_not_exist_are_refused() -> None:
    x, time, event, _ = made_up()
    alone = LocalArithmetic()
    flat = np.c_[x[:, 0], np.full(len(x), 0.3)]
    twice = np.c_[x[:, 0], 1 - x[:, 0]]
    for columns in (flat, twice):
        with pytest.raises(InputError, match="constant or follows from the others"):
            exact_stratified_cox(alone, columns, time, event)
        with pytest.raises(InputError, match="constant or follows from the others"):
            exact_cox(alone, columns, time, event, **GRID)
        exact_cox(alone, columns, time, event, penalty=1.0, **GRID)
    with pytest.raises(InputError, match="there is no event"):
        exact_stratified_cox(alone, x, time, np.zeros(len(x), bool))
    ordered = 1 - time[:, None] / 40
    for fit in (exact_stratified_cox, lambda *rows: exact_cox(*rows, **GRID)):
        with pytest.raises(UnfinishedError, match=r"perfectly|diverges"):
            fit(alone, ordered, time, np.ones(len(x), bool))


def test_a_singular_fit_ends_for_all_parties_alike() -> None:
    x, time, event, site = made_up()
    x[:, 1] = 0.25
    done = together(
        "abc", lambda n, s: exact_stratified_cox(s, x[site == n], time[site == n], event[site == n])
    )
    assert all(isinstance(done[name], InputError) for name in "abc")


def test_steps_that_go_too_far_are_taken_back() -> None:
    """A few rows far out: from zero Newton's first step overshoots by far."""
    rng = np.random.default_rng(3)
    x = np.r_[rng.random((200, 1)) * 0.02, np.ones((4, 1))]
    time = np.r_[
        np.ceil(rng.exponential(np.exp(-60 * x[:200, 0]) * 20)).clip(1, 40), np.full(4, 30)
    ]
    event = np.ones(204, bool)
    pooled = fit_cox(x, time, event)
    fit = exact_cox(LocalArithmetic(), x, time, event, **GRID)
    np.testing.assert_allclose(fit.coefficients, pooled.coefficients, rtol=0, atol=1e-6)
    assert len(fit.ascent.path) == fit.iterations + 1


def test_stratified_models_score_without_a_survival_curve() -> None:
    lung = study("lung")
    model = fit_exact(
        lung.table, lung.agreement, parties=LocalArithmetic(), kind="cox", stratified=True
    )
    found = score(model, lung.table)
    assert found.survival is None
    pooled = fit_cox(lung.encoded.matrix, *lung.outcome)
    np.testing.assert_allclose(found.score, pooled.risk(lung.encoded.matrix), atol=1e-5)
    with pytest.raises(ParameterError, match="no common survival curve"):
        score(model, lung.table, at=365)


def test_a_coarser_grid_rounds_times_up() -> None:
    x, time, event, _ = made_up()
    found = exact_cox(LocalArithmetic(), x, time, event, time_step=7, time_max=42)
    pooled = fit_cox(x, np.ceil(time / 7) * 7, event)
    np.testing.assert_allclose(found.coefficients, pooled.coefficients, rtol=0, atol=1e-6)


def test_no_two_told_times_have_few_deaths_between_them() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 5, 40, 640, 2_000):
        deaths = np.ones(count, int) if count == 640 else rng.integers(1, 4, count)
        for horizon in (None, 0.5, 49.0, count / 3, 2.0 * count):
            at = moments(deaths, np.arange(count) + 1.0, horizon)
            between = np.diff(np.cumsum(deaths)[at], prepend=0)
            assert at[-1] == count - 1
            assert len(at) <= 33
            assert len(at) == 1 or between.min() >= 10


def test_a_party_that_leaves_stops_everybody_cleanly() -> None:
    x, time, event, site = made_up()

    def work(name: str, shared: Shamir) -> Any:
        if name == "c":
            raise RuntimeError("power cut")
        own = site == name
        return exact_cox(shared, x[own], time[own], event[own], **GRID)

    done = together("abcd", work)
    for name in "abd":
        assert isinstance(done[name], PeerError)
        # who was about to send may find the line closed before it is told why
        if name == "a" or "closed the connection" not in str(done[name]):
            assert "`c` left" in str(done[name])
            assert "by the difference" in str(done[name])  # why nobody goes on without it


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
        Exchange("a", links, "a")
    for _, other in ends.values():
        other.close()


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
    model = fit_exact(lung.table, lung.agreement, "cox", parties=LocalArithmetic())
    pooled = fit_cox(lung.encoded.matrix, time, event)
    np.testing.assert_allclose(model.coefficients, pooled.coefficients, rtol=0, atol=1e-6)
    assert model.columns == lung.agreement.encoded_names
    assert model.exact
    assert lung.agreement.outcome.horizon == 365
    found = score(model, lung.table, at=365)
    np.testing.assert_allclose(found.score, pooled.risk(lung.encoded.matrix), atol=1e-5)
    np.testing.assert_allclose(
        found.survival, pooled.survival(lung.encoded.matrix, [365])[:, 0], atol=1e-2
    )


@pytest.mark.parametrize("kind", ["svm", "logistic"])
def test_classifier_models_of_tables(kind: Any) -> None:
    lung = study("lung")
    time, event = lung.outcome
    lived, known = survived(time, event, 365)
    model = fit_exact(lung.table, lung.agreement, parties=LocalArithmetic(), kind=kind, penalty=0.5)
    fit = (fit_svm if kind == "svm" else fit_logistic)(
        lung.encoded.matrix[known], lived[known], nu=2.0
    )
    np.testing.assert_allclose(model.coefficients, fit.coefficients, rtol=0, atol=1e-6)


def test_bad_input_is_refused() -> None:
    x, time, event, _ = made_up(50)
    alone = LocalArithmetic()
    with pytest.raises(InputError, match="censored"):
        exact_cox(alone, x, time, np.zeros(50, bool), **GRID)
    with pytest.raises(InputError, match="agreed maximum"):
        exact_cox(alone, x, time + 200, event, **GRID)
    with pytest.raises(ParameterError, match="grid"):
        exact_cox(alone, x, time, event, time_step=1e-5, time_max=150)
    with pytest.raises(ParameterError, match="ties"):
        exact_cox(alone, x, time, event, ties="exact", **GRID)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="between 0 and 1"):
        exact_cox(alone, x * 2, time, event, **GRID)
    with pytest.raises(ParameterError, match="weight of an institution"):
        exact_cox(alone, x, time, event, weight=1000.0, **GRID)
    with pytest.raises(ParameterError, match="precision"):
        exact_cox(alone, x, time, event, precision=1e-12, **GRID)
    two = LocalArithmetic()
    two.parties = ("a", "b")  # type: ignore[assignment]
    many = np.ones(600, bool)
    with pytest.raises(InputError, match="gigabytes"):
        exact_cox(two, np.tile(x, (12, 1)), np.tile(time, 12), many, **GRID)
    with pytest.raises(InputError, match="one class"):
        exact_classifier(alone, "svm", x, np.ones(50, bool))
    with pytest.raises(ParameterError, match="positive"):
        exact_classifier(alone, "svm", x, event, nu=0.0)
    with pytest.raises(ParameterError, match="star"):
        Exchange("a", {}, "a")


def listed() -> dict[str, str]:
    """The steps and models that `docs/joint.md` lists as opened."""
    page = (Path(__file__).parents[2] / "docs" / "joint.md").read_text(encoding="utf-8")
    table = page.split("### What the others learn")[1].split("###")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", table, flags=re.MULTILINE)
    return dict(rows)


def test_the_rank_is_opened_once() -> None:
    """Of one matrix it is a small number; of every iteration it would be a function of the rows."""
    x, _, event, _ = made_up()
    alone = LocalArithmetic()
    fit = exact_classifier(alone, "logistic", x, event)
    assert fit.iterations > 1
    assert alone.opened.numbers["rank"] == 1


def test_the_documented_list_is_what_is_opened() -> None:
    """Whatever a party is shown comes through `open`; nothing else is broadcast in clear."""
    assert set(listed()) == set(OPENED)
    x, time, event, site = made_up()
    fits: dict[str, Work] = {
        "cox": lambda n, s: exact_cox(s, *(v[site == n] for v in (x, time, event)), **GRID),
        "cox `--stratified`": lambda n, s: exact_stratified_cox(
            s, *(v[site == n] for v in (x, time, event))
        ),
        "svm, logistic": lambda n, s: exact_classifier(
            s, "logistic", x[site == n], event[site == n]
        ),
    }
    for model, fit in fits.items():
        heard: set[str] = set()

        class Listening(Exchange):
            def broadcast(self, step: str, message: bytes, steps: Any = heard) -> Any:
                steps.add(step)
                return super().broadcast(step, message)

        def work(name: str, shared: Shamir, fit: Work = fit, kind: Any = Listening) -> Any:
            shared._exchange.__class__ = kind
            fit(name, shared)
            return set(shared.opened.numbers)

        done = raised(together("abc", work))
        expected = {step for step, models in listed().items() if models in (model, "all")}
        assert done["a"] == done["b"] == done["c"] == expected, model
        # Under masks: products, and numbers before the places below their grid were dropped.
        hidden = {"product", "done", *(f"hide {step}" for step in expected)}
        assert heard == {f"open {step}" for step in expected} | hidden, model


@pytest.mark.parametrize("kind", ["cox", "stratified", "logistic"])
def test_the_covariance_is_that_of_the_pooled_rows_and_opened_only_when_asked(kind: str) -> None:
    x, time, event, owner = made_up()

    def work(name: str, shared: Shamir, covariance: bool) -> Any:
        own = owner == name
        if kind == "logistic":
            fit = exact_classifier(shared, "logistic", x[own], event[own], covariance=covariance)
        elif kind == "cox":
            fit = exact_cox(
                shared, x[own], time[own], event[own], time_step=1, time_max=40, penalty=0.5,
                covariance=covariance,
            )  # fmt: skip
        else:
            fit = exact_stratified_cox(
                shared, x[own], time[own], event[own], penalty=0.5, covariance=covariance
            )
        return fit, dict(shared.opened.numbers)

    asked = raised(together("abc", lambda name, shared: work(name, shared, True)))
    fit, opened = asked["a"]
    entries = len(fit.covariance) * (len(fit.covariance) + 1) // 2
    assert opened["covariance"] % entries == 0
    expected = np.linalg.inv(minus_hessian(kind, fit, x, time, event, owner))
    np.testing.assert_allclose(
        fit.covariance, expected, rtol=0, atol=3 * np.abs(expected).max() / 2**12
    )
    _, unasked = raised(together("abc", lambda name, shared: work(name, shared, False)))["b"]
    assert "covariance" not in unasked
    assert set(opened) == {*unasked, "covariance"}


def minus_hessian(kind: str, fit: Any, x: Any, time: Any, event: Any, owner: Any) -> Any:
    """Minus the second derivatives of the pooled rows' penalized likelihood."""
    w = fit.coefficients
    if kind == "logistic":
        wide = np.c_[x, -np.ones(len(x))]
        p = 1 / (1 + np.exp(-wide @ np.r_[w, fit.threshold]))
        return (wide * (p * (1 - p))[:, None]).T @ wide + np.eye(len(w) + 1)
    parts = [owner == name for name in "abc"] if kind == "stratified" else [np.ones(len(x), bool)]
    total = 0.5 * np.eye(len(w))
    for part in parts:
        rows = SortedRows(x[part], time[part], event[part], np.ones(part.sum()), "efron")
        _, risk, scalars = rows.likelihood(w)
        total = total + rows.derivatives(risk, scalars)[1]
    return total


def test_all_must_ask_for_the_covariance(tmp_path: Path) -> None:
    lung = study("lung")
    with pytest.raises(ParameterError, match="no likelihood"):
        fit_exact(
            lung.table, lung.agreement, "svm", parties=LocalArithmetic(), horizon=400,
            covariance=True,
        )  # fmt: skip
    model = fit_exact(lung.table, lung.agreement, parties=LocalArithmetic(), covariance=True)
    assert model.standard_errors is not None
    write_model(model, tmp_path / "model.json")
    again = read_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.covariance, model.covariance)
    plain = fit_exact(lung.table, lung.agreement, parties=LocalArithmetic())
    assert plain.covariance is None
    assert plain.standard_errors is None
