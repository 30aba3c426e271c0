"""The transformers are good citizens of scikit-learn, and k-anonymous."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra `models`)")

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.sklearn import MondrianAnonymizer, Recoder, TopBottomCoder


def own_checks():
    for estimator in (MondrianAnonymizer(), MondrianAnonymizer(k=2, gain=1), TopBottomCoder()):
        for one, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            # asks for a setting of SciPy's for the whole process, which `make slow` makes
            marks = [pytest.mark.slow] if name == "check_array_api_input" else []
            yield pytest.param(one, check, id=f"{estimator}-{name}", marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(own_checks()))
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@given(st.lists(st.tuples(*[st.integers(-4, 4)] * 3), min_size=8, max_size=60), st.integers(1, 8))
def test_every_training_row_becomes_one_of_k_and_keeps_the_mean(rows, k):
    features = np.array(rows, dtype=float)
    anonymizer = MondrianAnonymizer(k=k)
    changed = anonymizer.fit_transform(features)
    assert min(Counter(map(tuple, changed.tolist())).values()) >= k
    assert np.allclose(changed.mean(axis=0), features.mean(axis=0))
    assert np.array_equal(changed, anonymizer.transform(features))


def test_weights_keep_a_feature_precise():
    features = np.random.default_rng(0).normal(size=(600, 3))
    plain = MondrianAnonymizer(k=10).fit_transform(features)
    first = MondrianAnonymizer(k=10, weights=[9, 1, 1]).fit_transform(features)

    def off(changed):
        return np.abs(changed[:, 0] - features[:, 0]).mean()

    assert off(first) < off(plain)


def test_gain_keeps_the_target_learnable():
    features, target = make_classification(800, 6, n_informative=2, random_state=3)

    def score(gain):
        pipeline = make_pipeline(MondrianAnonymizer(k=40, gain=gain), LogisticRegression())
        return pipeline.fit(features, target).score(features, target)

    assert score(5.0) >= score(0.0)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, np.nan]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="2 numbers"):
        MondrianAnonymizer(k=1, weights=weights).fit([[1.0, 2.0]])


def test_top_and_bottom_are_values_that_occur():
    rows = np.arange(101.0).reshape(-1, 1)
    coded = TopBottomCoder(bottom=0.05, top=0.9).fit_transform(rows)
    assert coded.min() == 5
    assert coded.max() == 90
    with pytest.raises(ValueError, match="shares"):
        TopBottomCoder(bottom=0.9, top=0.1).fit(rows)


def test_later_rows_show_the_groups_of_the_training_rows():
    import pandas as pd
    from sklearn.preprocessing import OneHotEncoder

    random = np.random.default_rng(4)
    train, later = (
        pd.DataFrame({"age": random.integers(18, 60, n), "sex": random.choice(["F", "M"], n)})
        for n in (300, 50)
    )
    recoder = Recoder(k=9).fit(train)
    shown = recoder.transform(train)
    assert not (shown == "*").any(axis=None)
    known = set(map(tuple, shown.to_numpy().tolist()))
    assert known <= {tuple(group.values()) for group in recoder.recoding_}
    blurred = recoder.transform(later)
    assert set(map(tuple, blurred.to_numpy().tolist())) <= known | {("*", None)}
    assert list(recoder.get_feature_names_out()) == ["age", "sex"]
    assert make_pipeline(Recoder(k=9), OneHotEncoder()).fit_transform(train).shape[0] == 300
