"""Fitting shares, keeping the model, scoring at home; choosing penalty and matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from joint_studies import Study, study
from sfumato.errors import ColumnError, InputError, ParameterError, SourceError
from sfumato.joint import (
    Agreement,
    JointModel,
    Outcome,
    Share,
    choose_penalty,
    choose_seed,
    concordance,
    cross_validate,
    fit_cox,
    fit_shares,
    fit_svm,
    make_share,
    project,
    read_model,
    score,
    score_seeds,
    survived,
    write_model,
)


def shares_of(lung: Study, rounding: float | None = None) -> list[Share]:
    made = [
        make_share(
            lung.part(name),
            lung.agreement,
            name,
            rounding=rounding,
            publish_anyway=True,
            price=False,
            interval_rows=0,
        )
        for name in "ABCD"
    ]
    return [entry.share for entry in made if entry.share is not None]


def test_unrounded_shares_give_the_fit_of_the_pooled_projection() -> None:
    lung = study("lung")
    time, event = lung.outcome
    model = fit_shares(shares_of(lung, 0.0), "cox", penalty=0.5)
    pooled = fit_cox(project(lung.encoded.matrix, lung.agreement), time, event, penalty=0.5)
    np.testing.assert_allclose(model.coefficients, pooled.coefficients, atol=1e-9)
    np.testing.assert_allclose(model.hazard, pooled.hazard, atol=1e-9)
    assert model.institutions == {n: int((lung.institution == n).sum()) for n in "ABCD"}
    assert model.rows == lung.table.num_rows


def test_scoring_at_home_equals_the_public_model() -> None:
    lung = study("lung")
    time, event = lung.outcome
    model = fit_shares(shares_of(lung), "cox")
    found = score(model, lung.table)
    assert found.at == 365
    assert found.survival is not None
    assert found.positive is not None
    assert concordance(time, event, found.score) > 0.6
    assert ((found.survival >= 0.5) == found.positive).all()
    order = np.argsort(found.score)
    assert (np.diff(found.survival[order]) <= 1e-12).all()
    later = score(model, lung.table, at=700).survival
    assert later is not None
    assert (later <= found.survival).all()
    for moment, words in (
        (-1, "must not be negative"),
        (2_000, "unknown. The agreed longest time is"),
    ):
        with pytest.raises(ParameterError, match=words):
            score(model, lung.table, at=moment)


@pytest.mark.parametrize("kind", ["svm", "logistic"])
def test_classifiers_use_rows_with_known_survival(kind: str) -> None:
    lung = study("lung")
    time, event = lung.outcome
    model = fit_shares(shares_of(lung, 0.0), kind, penalty=1.0)  # type: ignore[arg-type]
    lived, known = survived(time, event, 365)
    assert model.rows == known.sum()
    assert model.notes == (f"{(~known).sum()} rows censored before the horizon were left out",)
    everybody = fit_shares(shares_of(lung, 0.0), kind, penalty=1.0, horizon=60)  # type: ignore[arg-type]
    assert everybody.notes == ()
    with pytest.raises(ParameterError, match="only knows its own horizon"):
        score(model, lung.table, at=365)
    x = project(lung.encoded.matrix, lung.agreement)[known]
    if kind == "svm":
        expected = fit_svm(x, lived[known], nu=1.0)
        np.testing.assert_allclose(model.coefficients, expected.coefficients, atol=1e-9)
    assert model.auc is not None
    assert model.auc > 0.6
    found = score(model, lung.table)
    assert found.survival is None
    assert ((found.score > 0) == found.positive).all()


def test_weights_of_institutions_matter() -> None:
    shares = shares_of(study("lung"), 0.0)
    plain = fit_shares(shares, penalty=1.0)
    same = fit_shares(shares, penalty=1.0, institution_weights={"A": 1.0})
    other = fit_shares(shares, penalty=1.0, institution_weights={"A": 5.0})
    np.testing.assert_array_equal(plain.coefficients, same.coefficients)
    assert np.abs(plain.coefficients - other.coefficients).max() > 0.01


@pytest.mark.parametrize(
    ("part", "value"),
    [("rows", -1), ("rows", 0), ("horizon", -5), ("horizon", 0), ("penalty", -1.0),
     ("iterations", -1), ("times", -1.0), ("hazard", -1.0), ("times", 1e9), ("hazard", 1e9),
     ("kind", "tree")],
)  # fmt: skip
def test_numbers_that_no_fit_gives_are_refused(tmp_path: Path, part: str, value: Any) -> None:
    path = tmp_path / "model.json"
    write_model(fit_shares(shares_of(study("lung")), "cox", penalty=1.0), path)
    plain = json.loads(path.read_text())
    plain[part] = [value, *plain[part][1:]] if isinstance(plain[part], list) else value
    path.write_text(json.dumps(plain))
    with pytest.raises(InputError, match="no fit gives"):
        read_model(path)


def test_model_files_round_trip_and_are_checked(tmp_path: Path) -> None:
    model = fit_shares(shares_of(study("lung")), "cox")
    path = tmp_path / "model.json"
    write_model(model, path)
    back = read_model(path)
    assert isinstance(back, JointModel)
    assert back.to_dict() == model.to_dict()
    plain = json.loads(path.read_text())
    for change, words in (
        ({"format": 7}, "format 1"),
        ({"hash": "0" * 64}, "does not fit"),
        ({"coefficients": [1.0]}, "does not fit"),
        ({"times": "x"}, "incomplete"),
    ):
        path.write_text(json.dumps({**plain, **change}))
        with pytest.raises(InputError, match=words):
            read_model(path)
    path.write_text("not json")
    with pytest.raises(InputError, match="not JSON"):
        read_model(path)
    with pytest.raises(SourceError, match="cannot be read"):
        read_model(tmp_path / "none.json")


def test_bad_demands_are_refused() -> None:
    lung = study("lung")
    shares = shares_of(lung)
    with pytest.raises(ParameterError, match="not a model"):
        fit_shares(shares, "forest")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="positive penalty"):
        fit_shares(shares, "svm", penalty=0.0)
    with pytest.raises(InputError, match="one class"):
        fit_shares(shares, "svm", penalty=1.0, horizon=1090)
    model = fit_shares(shares)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        score(model, lung.table, threshold=1.0)
    with pytest.raises(ColumnError, match="`age`"):
        score(model, lung.table.drop_columns(["age"]))
    with pytest.raises(InputError, match="no rows"):
        score(model, lung.table.slice(0, 0))


def test_labels_need_no_horizon_and_cox_needs_times() -> None:
    lung = study("lung")
    outcome = Outcome(label="status", positive="2")
    agreed = Agreement("l", lung.agreement.columns, outcome, lung.agreement.projection)
    share = make_share(lung.table, agreed, "A", price=False, interval_rows=0).share
    assert share is not None
    model = fit_shares([share], "svm")
    assert model.horizon is None
    with pytest.raises(InputError, match="needs times"):
        fit_shares([share], "cox")


def test_separation_is_noted() -> None:
    lung = study("lung")
    share = shares_of(lung, 0.0)[0]
    few = Share(
        "A", share.agreement, 0.0, share.projected[:4], np.array([1.0, 2, 3, 4]), np.ones(4, bool)
    )
    model = fit_shares([few], "cox", penalty=0.0)
    assert model.separated
    assert any("order the events perfectly" in note for note in model.notes)
    assert np.isfinite(model.coefficients).all()


def test_cross_validation_scores_unseen_rows() -> None:
    rng = np.random.default_rng(0)
    noise, label = rng.random((400, 3)), rng.random(400) < 0.5
    assert abs(cross_validate(noise, (None, label)) - 0.5) < 0.1
    told = np.column_stack((noise, label + rng.normal(0, 0.5, 400)))
    assert cross_validate(told, (None, label)) > 0.8
    assert np.isnan(cross_validate(noise[:4], (None, np.ones(4, bool))))
    with pytest.raises(ParameterError, match="folds"):
        cross_validate(noise, (None, label), folds=1)


def test_penalty_is_chosen_by_score() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((60, 20))
    time, event = rng.exponential(np.exp(-2 * x[:, 0])), np.ones(60, bool)
    chosen = choose_penalty(x, (time, event), candidates=(1e-3, 1.0))
    scores = [cross_validate(x, (time, event), penalty=p) for p in (1e-3, 1.0)]
    assert chosen == (1e-3, 1.0)[int(np.argmax(scores))]
    assert choose_penalty(x[:3], (time[:3], np.zeros(3, bool))) == 0.3


def test_seeds_are_scored_at_home_and_only_scores_travel() -> None:
    lung = study("lung", dimensions=2)
    time, event = lung.outcome
    matrix = lung.encoded.matrix
    seeds = [f"candidate {k}" for k in range(6)]
    scores, rows = [], []
    for name in "ABCD":
        own = lung.institution == name
        scores.append(score_seeds(matrix[own], (time[own], event[own]), lung.agreement, seeds))
        rows.append(int(own.sum()))
    assert all(round(value, 3) == value for entry in scores for value in entry.values())
    best = choose_seed(scores, rows)
    total = {s: sum(n * e[s] for e, n in zip(scores, rows, strict=True)) for s in seeds}
    assert total[best] == max(total.values())
    with pytest.raises(ParameterError, match="different seeds"):
        choose_seed([{"a": 1.0}, {"b": 1.0}], [1, 1])
    with pytest.raises(ParameterError, match="one set of scores"):
        choose_seed([], [])
