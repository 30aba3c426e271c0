"""The uniqueness bound of Lodha & Thomas, sections 2 and 5.1, and the walk over column sets."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from samples import sample_path
from sfumato.errors import ParameterError
from sfumato.populations.bounds import (
    distinct_needed,
    minimal_sets,
    possible_sets,
    product_of,
    uniqueness_bound,
)
from sfumato.populations.promises import MatchesPeople

DECLARED = {
    "age": 60, "workclass": 8, "education": 15, "marital-status": 7, "occupation": 14,
    "relationship": 6, "race": 5, "sex": 2, "hours-per-week": 20, "native-country": 40,
}  # fmt: skip
FIGURE_3 = {  # columns: S, F1, D, F2, k-anonymity as printed (the paper takes e = 2.7)
    "A1": (2, 6.1e-5, 60, 7.4e-8, 5e6),
    "A1 A9": (986, 0.03, 1200, 1.48e-6, 2.5e5),
    "A1 A7 A8": (65, 0.002, 600, 7.4e-7, 5e5),
    "A1 A2 A3 A5": (5056, 0.16, 1e5, 1.2e-4, 3e3),
    "A1 A2 A5 A10": (3105, 0.095, 2.7e5, 3.3e-4, 1.1e3),
    "A1 A5 A9 A10": (7581, 0.23, 6.7e5, 8.3e-4, 450),
    "A2 A3 A5 A10": (1384, 0.043, 6.7e4, 8.3e-5, 4.5e3),
    "A1 A2 A3 A5 A10": (7659, 0.235, 4e6, 4.9e-3, 75),
    "A1 A2 A4 A5 A6": (5215, 0.16, 2.8e5, 3.4e-4, 1e3),
    "A1 A2 A5 A6 A9": (12870, 0.40, 8e5, 9.9e-4, 380),
    "A1 A2 A5 A9 A10": (10402, 0.32, 5.4e6, 6.7e-3, 55),
    "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10": (24802, 0.76, 33e9, 0.99, 1),
}


def named(labels: str) -> list[str]:
    return [list(DECLARED)[int(label[1:]) - 1] for label in labels.split()]


def test_example_2_distinct_values_are_the_product_of_the_domains() -> None:
    usa = {"gender": 2, "birth": 20_000, "zip": 100_000}
    world = {"nationality": 200, "birth": 20_000, "occupation": 100}
    assert product_of(usa, list(usa)) == 4 * 10**9
    assert product_of(world, list(world)) == 4 * 10**8


def test_example_1_and_3_gender_birth_zip_may_identify_americans() -> None:
    bound = uniqueness_bound(4e9, 3e8)
    assert bound == pytest.approx(math.exp(-0.075))
    assert round(bound, 2) == 0.93
    assert bound >= 0.87  # what was observed (Example 1) does not exceed the bound


def test_example_4_nationality_birth_occupation_cannot_identify_the_world() -> None:
    bound = uniqueness_bound(4e8, 6e9)
    assert bound == pytest.approx(0.025, abs=6e-4)
    assert distinct_needed(0.05, 6e9) > 4e8


def test_the_two_branches_meet_smoothly() -> None:
    n, step = 1e6, 1.0
    assert uniqueness_bound(n, n) == pytest.approx(1 / math.e, rel=1e-6)
    assert uniqueness_bound(n + 1e-6, n) == pytest.approx(1 / math.e, rel=1e-6)
    left = uniqueness_bound(n, n) - uniqueness_bound(n - step, n)
    right = uniqueness_bound(n + step, n) - uniqueness_bound(n, n)
    assert left == pytest.approx(right, rel=1e-5)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1, 1e10))
def test_the_inverse_inverts(alpha: float, universe: float) -> None:
    assert uniqueness_bound(distinct_needed(alpha, universe), universe) == pytest.approx(alpha)


def test_theorem_3_is_the_upper_branch_of_the_inverse() -> None:
    assert distinct_needed(0.75, 1e9) == pytest.approx(1e9 / math.log(1 / 0.75))
    assert distinct_needed(0.75, 1e9) > 3e9  # the paper: unlikely below 3n


@pytest.mark.parametrize("labels", FIGURE_3)
def test_figure_3_on_adult(labels: str) -> None:
    columns = named(labels)
    singles, f1, distinct, f2, k = FIGURE_3[labels]
    table = pq.read_table(sample_path("adult.parquet"), columns=columns)
    groups = table.group_by(columns).aggregate([([], "count_all")])
    seen = pc.sum(pc.equal(groups["count_all"], 1)).as_py()
    assert seen == singles
    assert seen / table.num_rows == pytest.approx(f1, rel=0.05, abs=5e-4)
    product = product_of(DECLARED, columns)
    assert product == pytest.approx(distinct, rel=0.035)
    assert uniqueness_bound(product, 3e8) == pytest.approx(f2, rel=0.04)  # e = 2.7 in print
    assert (3e8 / product if product < 3e8 else 1) == pytest.approx(k, rel=0.07)


def test_figure_3_reading_only_the_last_set_can_be_a_quasi_identifier() -> None:
    needed = distinct_needed(0.2, 3e8)
    reach = [product_of(DECLARED, named(labels)) >= needed for labels in FIGURE_3]
    assert reach == [False] * 11 + [True]


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 30), max_size=8),
    st.integers(2, 5000),
    st.integers(1, 8),
)
def test_possible_sets_equals_the_power_set_filtered(
    domains: dict[str, int], needed: int, size: int
) -> None:
    reach = {
        frozenset(chosen)
        for length in range(1, size + 1)
        for chosen in combinations(domains, length)
        if math.prod(domains[name] for name in chosen) >= needed
    }
    minimal = {s for s in reach if not any(other < s for other in reach)}
    found, complete = possible_sets(domains, needed, size)
    assert complete
    assert len(found) == len(set(found))
    assert {frozenset(s) for s in found} == minimal


@given(st.data(), st.integers(2, 40), st.integers(1, 5))
def test_minimal_sets_equals_brute_force_on_joint_counts(
    data: st.DataObject, needed: int, size: int
) -> None:
    rows = data.draw(
        st.lists(st.tuples(*[st.integers(0, 3)] * 5), min_size=1, max_size=60), label="rows"
    )
    table = np.array(rows)
    names = "abcde"

    def joint(chosen: tuple[str, ...]) -> int:
        return len(np.unique(table[:, [names.index(c) for c in chosen]], axis=0))

    domains = {name: joint((name,)) for name in names}
    reach = {
        frozenset(chosen)
        for length in range(1, size + 1)
        for chosen in combinations(names, length)
        if joint(chosen) >= needed
    }
    minimal = {s for s in reach if not any(other < s for other in reach)}
    found, complete = minimal_sets(domains, joint, needed, size)
    assert complete
    assert {frozenset(s) for s in found} == minimal


def test_a_limit_is_said() -> None:
    found, complete = possible_sets({f"c{i}": 2 for i in range(20)}, 2**10, limit=100)
    assert len(found) == 100
    assert not complete


def test_the_bound_holds_for_any_distribution() -> None:
    """Theorems 1 and 2 against the exact expectation Σ p(1-p)^(n-1) of random distributions."""
    random = np.random.default_rng(5)
    for _ in range(300):
        distinct, people = random.integers(1, 400), int(random.integers(20, 400))
        chances = random.dirichlet(np.full(distinct, random.choice([0.05, 0.3, 1, 10])))
        expected = (chances * (1 - chances) ** (people - 1)).sum()
        assert expected <= uniqueness_bound(distinct, people) * (1 + 1e-12)


@pytest.mark.crossed(14)
@pytest.mark.parametrize("people", [1, 2, 3, 5, 10, 30])
@pytest.mark.parametrize("distinct", [1, 2, 3, 7, 10, 12, 40])
def test_no_distribution_is_expected_to_make_more_people_unique(distinct: int, people: int) -> None:
    """Climbing from many starts reaches the bound where D >= n, and nearly where D < n."""
    best = _largest_expected(distinct, people)
    bound = uniqueness_bound(distinct, people)
    assert best <= bound * (1 + 1e-9)
    if distinct >= people:
        assert best == pytest.approx(bound, rel=1e-6)
    else:
        assert bound - best < 1 / people


def _largest_expected(distinct: int, people: int) -> float:
    """max Σ p(1-p)^(n-1), found without the theory: p = softmax(x), by its gradient."""
    random = np.random.default_rng(people * 100 + distinct)
    starts = [np.zeros(distinct), np.r_[9.0, np.zeros(distinct - 1)]]
    starts += [random.normal(scale=3, size=distinct) for _ in range(6)]

    def falls(x: np.ndarray) -> tuple[float, np.ndarray]:
        p = np.exp(x - x.max())
        p /= p.sum()
        alone = (1 - p) ** (people - 1)
        slope = alone - (people - 1) * p * (1 - p) ** max(people - 2, 0)
        return -(p * alone).sum(), -p * (slope - (p * slope).sum())

    return max(-minimize(falls, x, jac=True, method="BFGS").fun for x in starts)


def test_the_theorem_as_printed_is_too_small_for_few_people() -> None:
    """f(1) = 1/e: ten people who draw from ten equally likely values are unique more often."""
    assert uniqueness_bound(10, 10) == pytest.approx(0.9**9)
    assert 1 / math.e < 0.9**9
    assert uniqueness_bound(40, 10) == pytest.approx((39 / 40) ** 9)
    assert math.exp(-10 / 40) < (39 / 40) ** 9
    assert uniqueness_bound(1, 1) == 1


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan")])
def test_alpha_outside_is_refused(alpha: float) -> None:
    with pytest.raises(ParameterError, match="between 0 and 1"):
        distinct_needed(alpha, 100)


@pytest.mark.parametrize("universe", [0, -5, float("inf"), float("nan")])
def test_an_impossible_universe_is_refused(universe: float) -> None:
    with pytest.raises(ParameterError, match="universe"):
        uniqueness_bound(10, universe)


def test_people_are_whole() -> None:
    for k in (50.9, 0.5, 0, -1):
        with pytest.raises(ParameterError, match="k must be a whole number, at least 1"):
            MatchesPeople(1e6, k, 0.1, ("age",))  # type: ignore[arg-type]
    assert MatchesPeople(1e6, 50, 0.1, ("age",)).k == 50
