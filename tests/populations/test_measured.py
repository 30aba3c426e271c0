"""The share of rows that match at least k people, judged from a sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.protocol import ClassSizes
from sfumato.errors import ParameterError
from sfumato.populations import promises as measured
from sfumato.populations.promises import people_share


def draw(people: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, float]:
    """Rows sampled from each cell, and the sampling fraction that came out."""
    counts = np.random.default_rng(seed).binomial(people, fraction)
    return counts, counts.sum() / people.sum()


CELLS = {
    "even": np.full(4_000, 150),
    "too small": np.full(8_000, 60),
    "half and half": np.concatenate([np.full(3_000, 40), np.full(1_500, 400)]),
    "geometric": np.random.default_rng(1).geometric(1 / 200, 3_000),
    "long tail": (np.random.default_rng(2).pareto(1.1, 3_000) * 60 + 1).astype(int),
    "a few giants": np.concatenate([np.full(5, 100_000), np.full(2_000, 20)]),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_the_bound_holds_and_the_estimate_is_near(name: str, fraction: float) -> None:
    people, k = CELLS[name], 100
    bounds, estimates, truths = [], [], []
    for seed in range(2):
        counts, _ = draw(people, fraction, seed)
        share = people_share(ClassSizes.of_counts(counts), people.sum(), k)
        truth = counts[people >= k].sum() / counts.sum()
        assert share.at_least <= truth + 1e-12
        bounds.append(share.at_least)
        estimates.append(share.estimate)
        truths.append(truth)
    assert np.mean(estimates) == pytest.approx(np.mean(truths), abs=0.2 if fraction < 0.1 else 0.1)
    assert 0 <= min(bounds) <= max(bounds) <= 1


def test_the_bound_is_worth_something() -> None:
    people = np.full(5_000, 300)
    counts, _ = draw(people, 0.05, 3)
    assert people_share(ClassSizes.of_counts(counts), people.sum(), 100).at_least > 0.95


def test_the_table_as_universe_is_counted() -> None:
    share = people_share(ClassSizes.of({1: 10, 5: 4, 20: 1}), 50, 5)
    assert share.exact
    assert share.estimate == share.at_least == 40 / 50
    share = people_share(ClassSizes.of({1: 10, 4: 5, 20: 1}), 50, 5)  # four are one too few
    assert share.estimate == share.at_least == 20 / 50


def test_k_rows_of_the_sample_are_k_people() -> None:
    share = people_share(ClassSizes.of({1: 50, 100: 5}), 10_000, 100)
    assert share.at_least >= 500 / 550


def test_k_1_always_holds() -> None:
    assert people_share(ClassSizes.of({1: 50}), 10_000, 1).at_least == 1


@given(st.integers(2, 60), st.floats(0.02, 0.6))
def test_candidate_numbers_bound_every_cell(k: int, fraction: float) -> None:
    """E[a | N] >= 1 for N < k, >= 0 otherwise, for all N and not only those of the grid."""
    largest = measured._largest_count(k, fraction)
    candidates = measured._candidates(k, fraction, largest)
    classes = np.random.default_rng(k).integers(0, 50, largest)
    rows = float((classes * np.arange(1, largest + 1)).sum()) or 1.0
    people = np.arange(1, 6 * k + 60)
    chances = measured._others(people, fraction, largest)
    tried = [*candidates.fixed, candidates.best(classes, rows)]
    if candidates.chances is not None:
        program = candidates._program(classes / max(1, classes.sum()), 4.0)
        tried += [] if program is None else [program]
    for a in tried:
        expected = chances @ a
        assert (expected >= (people < k) - 0.02 * max(1.0, np.abs(a).max())).all()


def test_k_above_the_universe_is_refused() -> None:
    with pytest.raises(ParameterError, match="more than the 20 people"):
        people_share(ClassSizes.of({1: 10}), 20, 30)


@pytest.mark.parametrize(("k", "fraction"), [(20_000, 0.5), (5_000, 0.02), (1_000, 0.2)])
def test_large_cells_take_little_and_are_judged_well(k: int, fraction: float) -> None:
    random = np.random.default_rng(7)
    people = (k * random.uniform(0.2, 4, size=400)).astype(int)
    counts, _ = draw(people, fraction, 1)
    share = people_share(ClassSizes.of_counts(counts), people.sum(), k)
    truth = counts[people >= k].sum() / counts.sum()
    assert share.at_least <= truth
    assert share.estimate == pytest.approx(truth, abs=0.03)
    assert share.at_least > truth - 0.25
