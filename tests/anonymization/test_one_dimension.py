"""``anonymize`` with one column: quantiles and the optimum, through to a verified release."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from sfumato.anonymization.verb import anonymize
from sfumato.errors import ColumnError, ParameterError
from sfumato.hierarchy import Hierarchy

S = pa.table({"x": [1, 12, 4, 7, 3]})


def shown(release: object, column: str = "x") -> list[object]:
    table = release.table  # type: ignore[attr-defined]
    return table.sample(10_000)[column].to_pylist()


def test_the_papers_example_in_ranges_medians_and_means() -> None:
    release = anonymize(S, qi=["x"], k=2, method="quantiles", exact_ends=True)
    assert release.k == 2
    assert shown(release) == ["[1, 5)", "[7, 13)", "[1, 5)", "[7, 13)", "[1, 5)"]
    assert release.details["rank_difference"] == 3
    median = anonymize(S, qi=["x"], k=2, method="quantiles", numbers_as="median")
    assert shown(median) == pytest.approx([8 / 3, 9.5, 8 / 3, 9.5, 8 / 3], abs=1e-4)
    mean = anonymize(S, qi=["x"], k=2, method="quantiles", numbers_as="mean")
    assert shown(mean) == pytest.approx([8 / 3, 9.5, 8 / 3, 9.5, 8 / 3], abs=1e-4)


@pytest.mark.parametrize("cost", ["k-median", "cellular", "k-center"])
def test_the_optimum_of_each_cost(cost: str) -> None:
    table = pa.table({"x": [5, 18, 20, 20, 38]})
    release = anonymize(table, qi=["x"], k=2, method="optimal-1d", cost=cost)
    assert release.k is not None
    assert release.k >= 2


def test_equal_values_are_split_on_request() -> None:
    table = pa.table({"x": [1] * 5 + [2] * 5})
    together = anonymize(table, qi=["x"], k=3, method="quantiles")
    apart = anonymize(table, qi=["x"], k=3, method="quantiles", ties=False)
    assert sorted(set(shown(together))) == [1, 2]
    counts = {v: shown(apart).count(v) for v in set(shown(apart))}
    assert sorted(counts.values()) == [3, 3, 4]
    assert apart.k == 3


def test_dates_and_nulls() -> None:
    days = [dt.date(1950, 1, 1) + dt.timedelta(100 * i) for i in range(20)]
    table = pa.table({"x": pa.array([*days, None, None, None])})
    release = anonymize(table, qi=["x"], k=3, method="quantiles")
    assert release.rows == 23
    assert shown(release).count(None) == 3
    few = anonymize(table.slice(0, 21), qi=["x"], k=3, method="quantiles")
    assert few.suppressed_rows == 1
    assert few.rows == 20


def test_a_hierarchy_is_climbed_until_every_node_has_k_rows() -> None:
    tree = Hierarchy.from_levels([["a", "b", "c"], ["ab", "ab", "c+"], ["*"] * 3])
    table = pa.table({"x": ["a", "b", "b", "c", "c", "c"]})
    release = anonymize(table, qi=["x"], k=3, method="quantiles", hierarchies={"x": tree})
    assert shown(release) == ["ab"] * 3 + ["c+"] * 3


def test_a_node_of_one_row_too_few_is_climbed_on_from() -> None:
    tree = Hierarchy.from_levels([["a", "b", "c"], ["ab", "ab", "c+"], ["*"] * 3])
    table = pa.table({"x": ["a", "b", "b", "c", "c"]})
    release = anonymize(table, qi=["x"], k=3, method="quantiles", hierarchies={"x": tree})
    assert shown(release) == ["*"] * 5


def test_many_values_on_both_sides_of_the_line() -> None:
    random = np.random.default_rng(1)
    table = pa.table({"x": random.normal(size=2_000).round(2), "y": random.integers(0, 9, 2_000)})
    for method in ("quantiles", "optimal-1d"):
        release = anonymize(table, qi=["x"], k=25, method=method, sensitive=["y"])
        assert release.k is not None
        assert release.k >= 25


def test_what_these_methods_do_not_do() -> None:
    two = pa.table({"x": [1, 2, 3], "y": [1, 2, 3]})
    with pytest.raises(ParameterError, match="one column, not 2"):
        anonymize(two, qi=["x", "y"], k=2, method="quantiles")
    with pytest.raises(ParameterError, match="supports k-anonymity only"):
        anonymize(two, qi=["x"], k=2, l=2, sensitive=["y"], method="quantiles")
    with pytest.raises((ParameterError, ColumnError), match="neither numbers nor dates"):
        anonymize(pa.table({"x": ["a", "b"]}), qi=["x"], k=2, method="quantiles")
