"""AUC and concordance against counting pairs, and against the usual libraries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError, ParameterError
from sfumato.joint import auc, concordance, survived

people = st.lists(
    st.tuples(st.integers(0, 6), st.booleans(), st.integers(-3, 3)), min_size=2, max_size=25
)


@given(people)
def test_concordance_equals_counting_pairs(rows: list[tuple[int, bool, int]]) -> None:
    good, comparable = 0.0, 0
    for time, event, risk in rows:
        for other_time, other_event, other_risk in rows:
            if event and (time < other_time or (time == other_time and not other_event)):
                comparable += 1
                good += 1.0 if risk > other_risk else 0.5 if risk == other_risk else 0.0
    time, event, risk = (np.array(column) for column in zip(*rows, strict=True))
    if comparable == 0:
        with pytest.raises(InputError, match="no two rows"):
            concordance(time, event, risk)
    else:
        assert concordance(time, event, risk) == pytest.approx(good / comparable, abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=25))
def test_auc_equals_counting_pairs(rows: list[tuple[bool, int]]) -> None:
    positive = [score for truth, score in rows if truth]
    negative = [score for truth, score in rows if not truth]
    truth, score = (np.array(column) for column in zip(*rows, strict=True))
    if not positive or not negative:
        with pytest.raises(InputError, match="both classes"):
            auc(truth, score)
        return
    good = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    assert auc(truth, score) == pytest.approx(good / (len(positive) * len(negative)), abs=1e-12)


def test_equal_to_scikit_survival_and_scikit_learn() -> None:
    metrics = pytest.importorskip("sksurv.metrics")
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    time, event = np.ceil(rng.exponential(10, 400)), rng.random(400) < 0.6
    risk = rng.normal(size=400).round(1)
    expected = metrics.concordance_index_censored(event, time, risk)[0]
    assert concordance(time, event, risk) == pytest.approx(expected, abs=1e-12)
    assert auc(event, risk) == pytest.approx(sklearn.roc_auc_score(event, risk), abs=1e-12)


def test_survival_beyond_a_horizon_is_unknown_for_early_censored_rows() -> None:
    lived, known = survived([1.0, 2.0, 3.0, 2.0], [True, False, True, True], horizon=2.0)
    assert lived.tolist() == [False, False, True, False]
    assert known.tolist() == [True, False, True, True]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="different length"):
        auc([True, False], [1.0])
    with pytest.raises(InputError, match="finite"):
        concordance([1.0, np.nan], [True, True], [0.0, 1.0])
    with pytest.raises(ParameterError, match="horizon"):
        survived([1.0], [True], horizon=0.0)
