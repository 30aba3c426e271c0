"""The Gaussian copula: its integrals, its fit, and the uniqueness it predicts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import multivariate_normal, norm

from samples import sample_path
from sfumato.engines.protocol import Codes, smallest_dtype
from sfumato.errors import ParameterError
from sfumato.populations import estimators as copula
from sfumato.populations.estimators import box_probabilities, fit_copula


def as_codes(columns: dict[str, np.ndarray]) -> Codes:
    arrays, values = [], []
    for column in columns.values():
        distinct, at = np.unique(column, return_inverse=True)
        arrays.append(at.astype(smallest_dtype(len(distinct))))
        values.append(pa.array(distinct))
    return Codes(tuple(columns), tuple(arrays), tuple(values), None, len(arrays[0]))


def unique_share(columns: dict[str, np.ndarray]) -> float:
    _, counts = np.unique(np.column_stack(list(columns.values())), axis=0, return_counts=True)
    return float((counts == 1).sum() / counts.sum())


def test_box_probabilities_equal_scipys() -> None:
    random = np.random.default_rng(1)
    correlation = np.array([[1, 0.5, 0.2], [0.5, 1, -0.3], [0.2, -0.3, 1]])
    low = random.normal(size=(20, 3)) - 0.5
    high = low + random.random((20, 3)) * 1.5
    points = copula._lattice(4_000, 3, random)
    found = box_probabilities(low, high, np.linalg.cholesky(correlation), points)
    exact = [
        multivariate_normal(cov=correlation).cdf(b, lower_limit=a)
        for a, b in zip(low, high, strict=True)
    ]
    assert found == pytest.approx(exact, rel=5e-3, abs=1e-5)


def test_a_discretized_pair_has_its_shares_and_its_correlation() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.4])
    joint = copula._normal_pair(p, q, 0.7)
    assert joint.sum(axis=1) == pytest.approx(p)
    assert joint.sum(axis=0) == pytest.approx(q, abs=1e-4)
    cut = [norm.ppf(0.5), norm.ppf(0.6)]
    exact = multivariate_normal(cov=[[1, 0.7], [0.7, 1]]).cdf(cut)
    assert joint[0, 0] == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.9])
def test_the_fit_finds_the_correlation_again(correlation: float) -> None:
    random = np.random.default_rng(2)
    shared, own = random.normal(size=(2, 20_000))
    first = shared
    second = correlation * shared + np.sqrt(1 - correlation**2) * own
    edges = norm.ppf(np.cumsum([0.4, 0.3, 0.15, 0.1]))  # falling shares, as the model orders them
    entries = as_codes({"a": np.searchsorted(edges, first), "b": np.searchsorted(edges, second)})
    assert fit_copula(entries).correlation[0, 1] == pytest.approx(correlation, abs=0.05)


def test_uniqueness_of_a_simulated_population_from_a_small_sample() -> None:
    random = np.random.default_rng(3)
    people = 100_000
    common = random.normal(size=people)
    columns = {
        name: np.searchsorted(
            norm.ppf(np.cumsum(shares)[:-1]), 0.6 * common + 0.8 * random.normal(size=people)
        )
        for name, shares in {
            "a": np.full(100, 0.01), "b": np.full(60, 1 / 60), "c": np.full(12, 1 / 12),
        }.items()
    }  # fmt: skip
    drawn = random.choice(people, 3_000, replace=False)
    sample = {name: column[drawn] for name, column in columns.items()}
    found = fit_copula(as_codes(sample)).uniqueness(people)
    assert found.unique == pytest.approx(unique_share(columns), abs=0.06)
    assert unique_share(sample) > 3 * found.unique  # the sample itself says something else


@pytest.mark.parametrize(
    "names",
    [
        ["age", "sex"],
        ["age", "race", "sex", "hours-per-week"],
        ["age", "workclass", "education", "occupation", "native-country"],
        ["age", "workclass", "education", "marital-status", "occupation", "relationship", "race",
         "sex", "hours-per-week", "native-country"],
    ],
)  # fmt: skip
def test_adult_from_a_twentieth_of_it(names: list[str]) -> None:
    table = pq.read_table(sample_path("adult.parquet"), columns=names)
    columns = {n: np.array([str(v) for v in table[n].to_pylist()]) for n in names}
    drawn = np.random.default_rng(1).choice(table.num_rows, table.num_rows // 20, replace=False)
    model = fit_copula(as_codes({name: column[drawn] for name, column in columns.items()}))
    found = model.uniqueness(table.num_rows)
    assert found.unique == pytest.approx(unique_share(columns), abs=0.09)


def test_more_people_fewer_uniques() -> None:
    random = np.random.default_rng(4)
    model = fit_copula(
        as_codes({"a": random.integers(0, 99, 4_000), "b": random.integers(0, 99, 4_000)})
    )
    shares = [model.uniqueness(n).unique for n in (10, 1e3, 1e5, 1e7)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.99
    assert shares[-1] < 1e-6


def test_counts_are_rows_and_seeds_repeat() -> None:
    random = np.random.default_rng(6)
    rows = {"a": random.integers(0, 20, 3_000), "b": random.integers(0, 9, 3_000)}
    entries = as_codes(rows)
    pairs, counts = np.unique(np.column_stack(entries.arrays), axis=0, return_counts=True)
    classes = Codes(
        entries.columns, (pairs[:, 0].astype(np.uint8), pairs[:, 1].astype(np.uint8)),
        entries.values, counts, len(pairs),
    )  # fmt: skip
    one, two = fit_copula(entries), fit_copula(classes)
    assert one.correlation == pytest.approx(two.correlation)
    assert one.uniqueness(5_000, seed=3) == two.uniqueness(5_000, seed=3)


def test_dependent_columns_give_a_usable_matrix() -> None:
    a = np.random.default_rng(7).integers(0, 30, 2_000)
    model = fit_copula(as_codes({"a": a, "same": a * 2, "b": a % 5}))
    np.linalg.cholesky(model.correlation)
    assert np.diag(model.correlation) == pytest.approx(1)
    assert model.uniqueness(1e6).unique < 0.05


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least two rows"):
        fit_copula(Codes((), (), (), None, 5))
