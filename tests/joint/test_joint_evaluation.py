"""The paper's experiment: splits, institutions, private and pooled models."""

from __future__ import annotations

import numpy as np
import pytest

from joint_studies import study
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.joint import evaluate


def test_the_lung_experiment_has_the_papers_shape() -> None:
    lung = study("lung")
    time, event = lung.outcome
    found = evaluate(
        lung.encoded,
        time,
        event,
        lung.institution,
        lung.agreement,
        horizon=365,
        train=0.4,
        splits=30,
        dimensions=(1, 5),
    )
    names = [entry.model for entry in found.models]
    assert names == ["pooled", "A", "B", "C", "D", "private m̄=1", "private m̄=5"]
    pooled, private = found.model("pooled"), found.private
    assert private.dimensions == 5
    # A larger m̄ is better (Figures 3 and 5, right), and near to the pooled model.
    assert private.concordance > found.model("private m̄=1").concordance + 0.02
    assert private.svm_auc > found.model("private m̄=1").svm_auc + 0.02
    assert abs(private.concordance - pooled.concordance) < 0.02
    # More data beats the average single institution (Figures 2 and 4).
    alone = [found.model(name).concordance for name in "ABCD"]
    assert private.concordance > np.mean(alone)
    assert all(entry.concordance_sd > 0 for entry in found.models)
    assert found.institutions == {n: int((lung.institution == n).sum()) for n in "ABCD"}
    assert found.to_dict()["models"][0]["model"] == "pooled"


def test_choosing_the_matrix_and_the_same_seed_again() -> None:
    lung = study("lung")
    time, event = lung.outcome
    rows = (lung.encoded, time, event, lung.institution, lung.agreement)
    settings = {"horizon": 365.0, "splits": 4, "dimensions": (2,)}
    plain = evaluate(*rows, **settings)  # type: ignore[arg-type]
    chosen = evaluate(*rows, candidates=5, **settings)  # type: ignore[arg-type]
    again = evaluate(*rows, candidates=5, **settings)  # type: ignore[arg-type]
    assert chosen.to_dict() == again.to_dict()
    np.testing.assert_array_equal(chosen.model("pooled").runs, plain.model("pooled").runs)
    assert chosen.private.concordance != plain.private.concordance


def test_safe_shares_and_tuned_penalties() -> None:
    lung = study("lung", dimensions=5)
    time, event = lung.outcome
    rows = (lung.encoded, time, event, lung.institution, lung.agreement)
    whole = evaluate(*rows, horizon=365, splits=2, penalty=None)
    safe = evaluate(*rows, horizon=365, splits=2, penalty=None, rounding="safe")
    np.testing.assert_array_equal(safe.model("A").runs, whole.model("A").runs)
    assert (safe.private.runs != whole.private.runs).any()
    assert safe.private.concordance > 0.55


def test_a_spent_budget_keeps_what_was_done() -> None:
    lung = study("lung")
    budget = Budget()
    budget.cancel()
    found = evaluate(
        lung.encoded,
        *lung.outcome,
        lung.institution,
        lung.agreement,
        horizon=365,
        splits=50,
        budget=budget,
    )
    assert (found.splits, found.stopped_by) == (1, "cancelled")


def test_bad_settings_are_refused() -> None:
    lung = study("lung")
    time, event = lung.outcome
    rows = (lung.encoded, time, event, lung.institution, lung.agreement)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        evaluate(*rows, horizon=365, train=1.0)
    with pytest.raises(ParameterError, match="between 1 and 5"):
        evaluate(*rows, horizon=365, dimensions=(6,))
    with pytest.raises(ParameterError, match="at least one"):
        evaluate(*rows, horizon=365, splits=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lung", "gbsg2"])
@pytest.mark.parametrize("rounding", [0.0, "safe"])
def test_tuned_private_models_are_near_the_pooled_ones(name: str, rounding: float | str) -> None:
    """Within 0.02 AUC and 0.01 concordance at m̄ = n-1, unrounded and at the safe step."""
    one = study(name)
    found = evaluate(
        one.encoded,
        *one.outcome,
        one.institution,
        one.agreement,
        horizon=one.horizon,
        splits=40,
        rounding=rounding,  # type: ignore[arg-type]
        penalty=None,
        candidates=20,
    )
    pooled, private = found.model("pooled"), found.private
    assert private.svm_auc > pooled.svm_auc - 0.02
    assert private.cox_auc > pooled.cox_auc - 0.02
    assert private.concordance > pooled.concordance - 0.01
