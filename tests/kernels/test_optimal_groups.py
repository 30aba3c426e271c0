"""The optimum over contiguous groups, against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ColumnError, ParameterError
from sfumato.kernels.sorted_groups import (
    COSTS,
    Cost,
    grouping_cost,
    optimal_groups,
    quantile_groups,
)


def cost_of(parts: list[np.ndarray], cost: Cost) -> float:
    if cost == "k-median":
        return sum(float(np.abs(part - np.median(part)).sum()) for part in parts)
    radii = [(part.max() - part.min()) / 2 for part in parts]
    if cost == "k-center":
        return float(max(radii))
    return float(sum(r * len(part) for r, part in zip(radii, parts, strict=True)))


def brute_force(rows: np.ndarray, k: int, cost: Cost, ties: bool) -> float:
    """Every contiguous partition into groups of at least k rows, of any size."""
    places = [i for i in range(1, len(rows)) if not ties or rows[i] != rows[i - 1]]
    best = np.inf
    for length in range(len(rows) // k):
        for cuts in combinations(places, length):
            parts = np.split(rows, cuts)
            if min(map(len, parts)) >= k:
                best = min(best, cost_of(parts, cost))
    return best


values = st.lists(st.integers(0, 40) | st.floats(-1e3, 1e3), min_size=1, max_size=11)


@settings(max_examples=150)
@given(values, st.integers(1, 5), st.sampled_from(COSTS), st.booleans())
def test_equals_brute_force(values: list[float], k: int, cost: Cost, ties: bool) -> None:
    rows = np.sort(np.array(values, dtype=float))
    if k > len(rows):
        return
    x, counts = np.unique(rows, return_counts=True)
    groups = optimal_groups(x, k, cost, counts=counts, ties=ties)
    assert groups.k >= k
    assert not (ties and groups.splits_values)
    best = brute_force(rows, k, cost, ties)
    assert grouping_cost(x, groups, cost) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("cost", COSTS)
def test_equals_the_papers_recursion_on_larger_inputs(cost: Cost) -> None:
    random = np.random.default_rng(3)
    for k in (2, 7, 25):
        x = np.sort(random.lognormal(size=400))
        best = np.full(len(x) + 1, np.inf)
        best[0] = 0
        for j in range(k, len(x) + 1):  # appendix B: the last group has k … 2k-1 elements
            for size in range(k, min(2 * k, j + 1)):
                part = cost_of([x[j - size : j]], cost)
                before = best[j - size]
                best[j] = min(best[j], max(before, part) if cost == "k-center" else before + part)
        groups = optimal_groups(x, k, cost)
        assert grouping_cost(x, groups, cost) == pytest.approx(best[-1], rel=1e-9)
        assert groups.sizes.max() < 2 * k or cost == "k-center"


def test_nested_groups_can_beat_contiguous_ones_for_the_cellular_cost() -> None:
    x = [5, 18, 20, 20, 38]
    groups = optimal_groups(x, 2, "cellular", ties=False)
    assert grouping_cost(x, groups, "cellular") == 40
    nested = [np.array([5.0, 38]), np.array([18.0, 20, 20])]
    assert cost_of(nested, "cellular") == 36


@pytest.mark.parametrize("cost", COSTS)
def test_never_worse_than_quantiles(cost: Cost) -> None:
    x = np.sort(np.random.default_rng(9).pareto(2, size=2_000))
    by_rank = quantile_groups(np.ones(len(x), np.int64), 20, ties=False)
    best = optimal_groups(x, 20, cost)
    assert grouping_cost(x, best, cost) <= grouping_cost(x, by_rank, cost) * (1 + 1e-12)


def test_weights_are_rows() -> None:
    x, counts = np.array([1.0, 2.0, 10.0]), np.array([1, 5, 3])
    expanded = optimal_groups(np.repeat(x, counts), 3, "k-median")
    assert optimal_groups(x, 3, "k-median", counts=counts).sizes.tolist() == expanded.sizes.tolist()


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ColumnError, match="finite"):
        optimal_groups([1.0, np.inf], 1)
    with pytest.raises(ParameterError, match="ascending"):
        optimal_groups([2.0, 1.0], 1)
    with pytest.raises(ParameterError, match="k-median, cellular, k-center"):
        optimal_groups([1.0], 1, "k-means")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="larger than"):
        optimal_groups([1.0, 2.0], 3)
