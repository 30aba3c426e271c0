"""The quantile transformation: Examples 9 to 11, Theorem 5 and ties."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.kernels.sorted_groups import quantile_groups, quantile_mask

S = [1, 12, 4, 7, 3]


def test_examples_9_to_11() -> None:
    masked = quantile_mask(np.array(S), 2)
    assert dict(zip(S, masked.tolist(), strict=True)) == {1: 3, 3: 3, 4: 3, 7: 7, 12: 7}
    groups = quantile_groups([1] * 5, 2)
    assert groups.k == 2
    assert groups.rank_difference == 3
    # Example 10: "r-th largest" is r-th smallest in the paper's own example
    rank = {value: i + 1 for i, value in enumerate(sorted(S))}
    assert (rank[7], rank[3]) == (4, 2)
    assert sum(abs(rank[int(masked[i])] - rank[s]) for i, s in enumerate(S)) == 3


@given(st.integers(1, 6), st.integers(1, 4))
def test_theorem_5_no_k_anonymous_transformation_changes_ranks_less(n: int, k: int) -> None:
    if k > n:
        return
    least = min(
        sum(abs(i - f[i]) for i in range(n))
        for f in product(range(n), repeat=n)
        if all(f.count(image) >= k for image in set(f))
    )
    assert quantile_groups([1] * n, k, ties=False).rank_difference == least


@given(st.integers(1, 200), st.integers(1, 60))
def test_definition_9_sizes(n: int, k: int) -> None:
    if k > n:
        return
    q, r = divmod(n, k)
    groups = quantile_groups([1] * n, k, ties=False)
    assert len(groups.sizes) == q
    assert set(groups.sizes.tolist()) <= {k + r // q, k + -(-r // q)}
    # without equal values keeping them together changes nothing
    assert sorted(quantile_groups([1] * n, k).sizes) == sorted(groups.sizes)


counts = st.lists(st.integers(1, 9), min_size=1, max_size=40)


@given(counts, st.integers(1, 20), st.one_of(st.none(), st.integers(1, 10)))
def test_ties_stay_together_and_no_group_is_small(
    counts: list[int], k: int, most: int | None
) -> None:
    if k > sum(counts):
        return
    groups = quantile_groups(counts, k, groups=most)
    assert groups.k >= k
    assert groups.rows == sum(counts)
    assert not groups.splits_values
    assert len(groups.cuts) <= (most or sum(counts))
    sizes = np.bincount(groups.group_of_value, weights=counts)
    assert sizes.tolist() == groups.sizes.tolist()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=10), st.integers(1, 12))
def test_with_ties_no_grouping_changes_ranks_less(counts: list[int], k: int) -> None:
    if k > sum(counts):
        return
    costs = []
    for cuts in product([False, True], repeat=len(counts) - 1):
        starts = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(counts)]
        sizes = [sum(counts[a:b]) for a, b in pairwise(starts)]
        if min(sizes) >= k:
            costs.append(sum(size * size // 4 for size in sizes))
    assert quantile_groups(counts, k).rank_difference == min(costs)


@given(counts, st.integers(1, 20))
def test_pieces_cover_every_row_once(counts: list[int], k: int) -> None:
    if k > sum(counts):
        return
    groups = quantile_groups(counts, k, ties=False)
    value, group, first, last = groups.pieces()
    assert (last > first).all()
    assert np.bincount(value, weights=last - first).tolist() == counts
    assert np.bincount(group, weights=last - first).tolist() == groups.sizes.tolist()
    ordered = np.repeat(np.arange(len(counts)), counts)
    middle = groups.cuts + (groups.sizes - 1) // 2
    assert groups.median_value.tolist() == ordered[middle].tolist()
    assert groups.first_value.tolist() == ordered[groups.cuts].tolist()
    assert groups.last_value.tolist() == ordered[groups.cuts + groups.sizes - 1].tolist()
    means = [part.mean() for part in np.split(ordered, groups.cuts[1:])]
    assert groups.means(np.arange(len(counts), dtype=float)) == pytest.approx(means)


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60), st.integers(1, 15))
def test_mask_is_one_value_one_image_with_k_preimages(values: list[int], k: int) -> None:
    if k > len(values):
        return
    masked = quantile_mask(np.array(values), k)
    _, times = np.unique(masked, return_counts=True)
    assert times.min() >= k
    assert set(masked.tolist()) <= set(values)
    images: dict[int, int] = {}
    for value, image in zip(values, masked.tolist(), strict=True):
        assert images.setdefault(value, image) == image


def test_mean_keeps_the_total() -> None:
    values = np.random.default_rng(1).normal(size=1000)
    assert quantile_mask(values, 7, "mean").sum() == pytest.approx(values.sum())


def test_dates_are_masked_too() -> None:
    days = np.array(["1950-01-01", "1960-05-05", "1961-01-01", "1980-01-01"], "datetime64[D]")
    assert quantile_mask(days, 2).astype(str).tolist() == [
        "1950-01-01", "1950-01-01", "1961-01-01", "1961-01-01",
    ]  # fmt: skip


def test_k_above_the_rows_is_refused() -> None:
    with pytest.raises(ParameterError, match="k = 6 is larger than the 5 rows"):
        quantile_groups([1] * 5, 6)


def test_a_single_value_is_one_group() -> None:
    assert quantile_groups([10], 3).sizes.tolist() == [10]
