"""Theorem 4 both ways, and the allocation of distinct values to columns."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.populations.bounds import anonymity_given, distinct_allowed, failure_given
from sfumato.populations.plan import allot

USA = {"gender": 2, "birth": 20_000, "zip": 100_000}


def test_example_6_how_many_values_100_anonymity_allows() -> None:
    assert distinct_allowed(3e8, 100, 0.1) == 2_443_425
    assert distinct_allowed(3e8, 100, 0.1) >= 2.4e6  # the paper's n/125
    assert distinct_allowed(3e8, 100, 0.1) >= 2 * 120 * 10_000  # gender, half-year, 4-digit ZIP


def test_example_7_gender_untouched_the_others_share_evenly() -> None:
    plan = {a.column: a for a in allot(USA, 2.4e6)}
    assert plan["gender"].untouched
    assert plan["birth"].share == pytest.approx(1095.4, abs=0.1)
    assert plan["zip"].share == pytest.approx(1095.4, abs=0.1)
    assert plan["birth"].distinct >= 60 * 12  # month of birth fits
    assert plan["zip"].distinct >= 1_000  # three digits fit
    assert math.prod(a.distinct for a in plan.values()) <= 2.4e6


def test_example_8_hipaa_leaves_two_digits_of_zip() -> None:
    allowed = 3e8 / 20_000
    plan = {a.column: a for a in allot({"zip": 100_000}, allowed / (2 * 100))}
    assert plan["zip"].distinct == 75
    # Theorem 4 proper is a little stricter than n/k
    exact = distinct_allowed(3e8, 20_000, 0.1) // 200
    assert 70 <= exact <= 75


def test_the_curse_of_dimensionality() -> None:
    plan = allot({f"c{i}": 1000 for i in range(25)}, distinct_allowed(3e8, 10, 0.1))
    assert all(1.8 < a.share < 2.1 for a in plan)
    assert {a.distinct for a in plan} <= {1, 2, 3}
    assert any(a.suppressed for a in plan)


def test_k_1_promises_nothing_and_allows_everything() -> None:
    assert distinct_allowed(1000, 1, 0.1) == math.inf
    assert all(a.untouched for a in allot(USA, math.inf))
    assert failure_given(1000, 10_000, 1) == 0


@given(st.integers(10, 10**9), st.data(), st.floats(1e-4, 0.9))
def test_theorem_4_read_backwards(universe: int, data: st.DataObject, beta: float) -> None:
    k = data.draw(st.integers(2, max(2, universe // 10)))
    distinct = distinct_allowed(universe, k, beta)
    assert distinct >= 1
    if distinct > 1:
        # at the number allowed the promise holds, one value more and it does not
        assert failure_given(universe, distinct, k) <= beta * (1 + 1e-9)
        assert failure_given(universe, distinct + 1, k) > beta * (1 - 1e-9)
        assert anonymity_given(universe, distinct, beta) >= k


@given(st.integers(100, 10**9), st.floats(1, 1e6), st.floats(1e-4, 0.9))
def test_anonymity_given_is_the_largest(universe: int, distinct: float, beta: float) -> None:
    k = anonymity_given(universe, distinct, beta)
    assert k >= 1
    if k > 1:
        assert distinct <= distinct_allowed(universe, k, beta)
    if k + 1 <= universe:
        assert distinct > distinct_allowed(universe, k + 1, beta)


domains = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 12), min_size=1, max_size=4)


@given(domains, st.floats(1, 3000), st.data())
def test_allotment_against_every_whole_number_plan(
    domains: dict[str, int], allowed: float, data: st.DataObject
) -> None:
    weights = {c: data.draw(st.floats(0.1, 10)) for c in domains}
    plan = allot(domains, allowed, weights)
    chosen = [a.distinct for a in plan]
    assert all(1 <= a.distinct <= a.domain for a in plan)
    assert math.prod(chosen) <= allowed
    loss = sum(a.weight / a.distinct for a in plan)
    real = sum(a.weight / a.share for a in plan)
    best = min(
        sum(w / d for w, d in zip(weights.values(), ds, strict=True))
        for ds in product(*[range(1, n + 1) for n in domains.values()])
        if math.prod(ds) <= allowed
    )
    assert real <= best * (1 + 1e-9)  # the real-valued optimum bounds every whole-number plan
    assert best <= loss * (1 + 1e-12)
    for a in plan:  # no column can be given one value more
        more = math.prod(chosen) // a.distinct * (a.distinct + 1)
        assert a.distinct == a.domain or more > allowed


@given(domains, st.floats(1, 3000))
def test_real_shares_use_up_the_product(domains: dict[str, int], allowed: float) -> None:
    plan = allot(domains, allowed)
    everything = math.prod(domains.values())
    assert math.prod(a.share for a in plan) == pytest.approx(min(allowed, everything), rel=1e-6)


def test_weights_shift_the_shares() -> None:
    plan = {a.column: a for a in allot({"a": 10**6, "b": 10**6}, 10_000, {"a": 4, "b": 1})}
    assert plan["a"].share == pytest.approx(200)
    assert plan["b"].share == pytest.approx(50)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_that_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(ParameterError, match="`zip` must be larger than zero"):
        allot(USA, 100, {"zip": weight})


def test_a_weight_for_another_column_is_refused() -> None:
    with pytest.raises(ParameterError, match="`city`"):
        allot(USA, 100, {"city": 1})


@pytest.mark.parametrize("beta", [0, 1, -1, 2, float("nan")])
def test_beta_outside_is_refused(beta: float) -> None:
    with pytest.raises(ParameterError, match="β"):
        distinct_allowed(1000, 5, beta)


def test_k_above_the_universe_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"k = 1,001 is more than the 1,000 people"):
        distinct_allowed(1000, 1001, 0.1)
