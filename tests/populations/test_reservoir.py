"""Sampled quantiles: uniform, one pass, mergeable, within their rank error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sfumato.errors import ParameterError
from sfumato.populations.reservoir import ValueReservoir, merge_small, sample_size, sampled_cuts


def test_the_sample_is_smaller_than_the_papers() -> None:
    for eps, delta in ((0.1, 0.1), (0.01, 0.01), (0.001, 0.05)):
        assert sample_size(eps, delta) < np.log(1 / delta) / eps**2


def times_chosen(make: object, people: int, runs: int) -> np.ndarray:
    times = np.zeros(people)
    for seed in range(runs):
        times[make(seed).values().astype(int)] += 1  # type: ignore[operator]
    return times


def test_every_value_is_equally_likely() -> None:
    def fed(seed: int) -> ValueReservoir:
        reservoir = ValueReservoir(5, seed)
        for part in np.split(np.arange(40.0), [3, 4, 20, 20, 39]):
            reservoir.add(part)
        return reservoir

    assert chisquare(times_chosen(fed, 40, 4_000)).pvalue > 1e-4


def test_a_merged_sample_is_uniform_and_stays_so_when_fed() -> None:
    def fed(seed: int) -> ValueReservoir:
        left, right = ValueReservoir(5, seed), ValueReservoir(6, seed + 1_000_000)
        left.add(np.arange(12.0))
        right.add(np.arange(12.0, 30.0))
        merged = left.merge(right)
        merged.add(np.arange(30.0, 40.0))
        assert merged.seen == 40
        return merged

    assert chisquare(times_chosen(fed, 40, 4_000)).pvalue > 1e-4


def test_merging_what_has_not_filled_up_keeps_everything() -> None:
    left, right = ValueReservoir(10), ValueReservoir(10)
    left.add([1, 2, 3])
    right.add([4, 5])
    assert sorted(left.merge(right).values()) == [1, 2, 3, 4, 5]


def test_the_same_seed_gives_the_same_sample_however_batched() -> None:
    values = np.random.default_rng(0).normal(size=10_000)
    whole, parts = ValueReservoir(100, 7), ValueReservoir(100, 7)
    whole.add(values)
    for part in np.array_split(values, 13):
        parts.add(part)
    assert whole.values().tolist() == parts.values().tolist()


def worst_rank_error(values: np.ndarray, eps: float, delta: float, seed: int) -> float:
    """Largest error, in shares of all rows, of the ranks 1 %, 2 %, … 99 % read from the sample."""
    reservoir = ValueReservoir.for_ranks(eps, delta, seed)
    reservoir.add(values)
    asked = np.arange(1, 100) / 100
    ranks = np.searchsorted(np.sort(values), reservoir.quantile(asked)) / len(values)
    return float(np.abs(ranks - asked).max())


@pytest.mark.slow
def test_rank_errors_over_a_thousand_seeds() -> None:
    values = np.random.default_rng(1).normal(size=50_000)
    eps, delta = 0.05, 0.1
    wrong = sum(worst_rank_error(values, eps, delta, seed) > eps for seed in range(1_000))
    assert wrong <= delta * 1_000


def test_rank_errors_over_a_hundred_seeds() -> None:
    values = np.random.default_rng(2).normal(size=20_000)
    wrong = sum(worst_rank_error(values, 0.05, 0.1, seed) > 0.05 for seed in range(100))
    assert wrong <= 10
    # half the error needs four times the sample: with this one it is exceeded most of the time
    assert sum(worst_rank_error(values, 0.05, 0.1, seed) > 0.02 for seed in range(100)) > 50


def masked_sizes(values: np.ndarray, k: int, eps: float, seed: int) -> np.ndarray:
    reservoir = ValueReservoir.for_ranks(eps, 0.05, seed)
    reservoir.add(values)
    cuts = sampled_cuts(reservoir.values(), len(values), k, eps)
    counts = np.bincount(np.searchsorted(cuts, values, side="right"), minlength=len(cuts) + 1)
    kept = merge_small(cuts, counts, k)
    return np.bincount(np.searchsorted(kept, values, side="right"), minlength=len(kept) + 1)


def test_a_sampled_release_is_never_below_k() -> None:
    values = np.random.default_rng(3).gamma(2.0, size=30_000)
    for seed in range(60):
        sizes = masked_sizes(values, 300, 0.01, seed)
        assert sizes.min() >= 300
        assert len(sizes) >= 20


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(1, 30))
def test_merge_small_keeps_k(counts: list[int], k: int) -> None:
    if sum(counts) < k:
        return
    cuts = np.arange(1.0, len(counts))
    kept = merge_small(cuts, np.array(counts), k)
    rows = np.repeat(np.arange(len(counts)) + 0.5, counts)
    sizes = np.bincount(np.searchsorted(kept, rows, side="right"), minlength=len(kept) + 1)
    assert sizes.min() >= k


def test_a_quantile_is_read_from_the_sample() -> None:
    reservoir = ValueReservoir(1_000, 1)
    reservoir.add(np.arange(100.0))
    assert reservoir.quantile([0.0, 0.05, 0.999]).tolist() == [0, 5, 99]


@pytest.mark.parametrize(("eps", "delta"), [(0, 0.1), (1, 0.1), (0.1, 0), (0.1, 1)])
def test_impossible_errors_are_refused(eps: float, delta: float) -> None:
    with pytest.raises(ParameterError, match="ε and δ"):
        sample_size(eps, delta)
