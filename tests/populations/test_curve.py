"""Privacy against utility: figure 7 of the paper."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from samples import sample_path
from sfumato.errors import ColumnError
from sfumato.populations.plan import privacy_utility_curve


def test_the_error_falls_like_the_inverse_square_of_the_buckets() -> None:
    x = np.sort(np.random.default_rng(1).uniform(size=50_000))
    for point in privacy_utility_curve("x", x).points:
        assert point.error == pytest.approx(point.inverse_square, rel=0.05)


def test_on_adult_the_error_falls_too() -> None:
    ages = pq.read_table(sample_path("adult.parquet"), columns=["age"])["age"].to_numpy()
    values, counts = np.unique(ages, return_counts=True)
    curve = privacy_utility_curve("age", values, counts, buckets=[1, 5, 10, 20])
    errors = [point.error for point in curve.points]
    spread = ((ages - np.median(ages)) ** 2).sum() / ((ages - ages.mean()) ** 2).sum()
    assert errors[0] == pytest.approx(spread)
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.04
    assert curve.rows == 32561


def test_error_against_its_definition() -> None:
    x, counts = np.array([1.0, 2.0, 10.0, 11.0]), np.array([1, 3, 2, 2])
    (_, two) = privacy_utility_curve("x", x, counts, buckets=[1, 2]).points
    rows = np.repeat(x, counts)
    image = np.array([2.0] * 4 + [10.0] * 4)  # the median element, not the mean
    whole = ((rows - rows.mean()) ** 2).sum()
    assert two.error == pytest.approx(((rows - image) ** 2).sum() / whole)
    assert (two.k, two.privacy, two.utility) == (4, 0.75, 0.75)


def test_numbers_without_a_place_are_refused() -> None:
    with pytest.raises(ColumnError, match="finite"):
        privacy_utility_curve("x", [1.0, np.inf])
