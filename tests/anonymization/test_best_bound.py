"""What no recoding with given trees undercuts: below the exhaustive optimum, and near it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.methods import best
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from tree_partitions import TREES, optimum, small_table

ASKED = {"qi": list(TREES), "method": "best", "hierarchies": TREES, "bound": "lp"}


@given(seed=st.integers(0, 10**6), k=st.integers(2, 3), extra=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_no_partition_loses_less(seed, k, extra):
    random = np.random.default_rng(seed)
    table = small_table(random, 2 * k + extra)
    release = sf.anonymize(table, k=k, **ASKED)
    least = optimum(table, k)
    assert release.lower_bound <= least + 1e-12 <= release.utility["ncp"] + 2e-12
    if release.lower_bound:
        gap = release.utility["ncp"] / release.lower_bound - 1
        assert release.details["proven_gap"] == pytest.approx(gap, abs=1e-6)


def test_the_bound_is_nearer_to_the_optimum_than_what_rows_lose_by_themselves(monkeypatch):
    random = np.random.default_rng(11)
    tables = [small_table(random, 9) for _ in range(6)]
    optima = [optimum(table, 2) for table in tables]

    def share():
        bounds = [sf.anonymize(table, k=2, **ASKED).lower_bound for table in tables]
        return float(np.mean(np.array(bounds) / optima))

    together = share()
    monkeypatch.setattr(best, "MOST_PLACES", 0)
    alone = share()
    assert alone < together <= 1 + 1e-9
    assert together > 0.85


@given(seed=st.integers(0, 10**6), weight=st.sampled_from([0.25, 3.0]))
@settings(max_examples=20, deadline=None)
def test_weights_and_heights(seed, weight):
    table = small_table(np.random.default_rng(seed), 8)
    for option, name in (("certainty", "loss"), ("height", "relative_height")):
        release = sf.anonymize(table, k=2, weights={"town": weight}, loss=option, **ASKED)
        least = optimum(table, 2, {"town": weight}, name)
        assert release.lower_bound <= least + 1e-12
        assert least <= release.details["loss_after"] + 1e-12


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_however_far_prices_may_rise_they_prove_a_bound(seed):
    table = small_table(np.random.default_rng(seed), 9)
    least = optimum(table, 2)
    for reach in ((1.0, 0.0), (9.0, 1.0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(best, "REACHES", (reach,))
            assert sf.anonymize(table, k=2, **ASKED).lower_bound <= least + 1e-12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best, "MOST_PLACES", 0)  # only what rows lose by themselves is left
        alone = sf.anonymize(table, k=2, **ASKED).lower_bound
    assert alone <= sf.anonymize(table, k=2, **ASKED).lower_bound


def test_other_rules_leave_the_bound_of_k():
    random = np.random.default_rng(3)
    table = small_table(random, 80)
    table = table.append_column("illness", pa.array(random.choice(["flu", "gout", "cold"], 80)))
    plain = sf.anonymize(table, k=4, **ASKED)
    diverse = sf.anonymize(table, k=4, l=3, sensitive=["illness"], **ASKED)
    assert 0 < plain.lower_bound <= plain.utility["ncp"] < diverse.utility["ncp"]
    assert diverse.lower_bound == pytest.approx(plain.lower_bound, rel=0.05)


def test_rows_that_are_left_out_do_not_count():
    table = pa.table({"job": ["nurse", "cook"] * 3 + ["judge"], "town": list("abcdeab")})
    marks = {"job": {"marks": ["care", "desk"]}}
    inside = sf.anonymize(table, k=3, boundaries=marks, **ASKED)
    assert inside.suppressed_rows == 1  # nobody else works at a desk
    assert 0 < inside.lower_bound <= inside.details["loss_after"] + 1e-12


def test_without_time_there_is_no_bound_and_it_is_said(monkeypatch):
    table = small_table(np.random.default_rng(5), 40)
    asked = {"qi": list(TREES), "k": 3, "method": "best", "bound": "lp", "hierarchies": TREES}
    demand = Request.of(asked)
    problem = prepare(opened := sf.table(table), demand.opened(opened), Budget())
    found = best.solve(replace(problem, budget=Budget(seconds=0)))
    assert found.lower_bound is None
    assert found.warnings == ("no bound was proven: the time was over; allow more time",)
    assert (found.groups >= 0).all()
    monkeypatch.setattr(best, "MOST_WORK", 0)
    found = best.solve(problem)
    assert found.lower_bound is None
    assert "the lattice of levels is large" in found.warnings[0]
    assert best.solve(replace(problem, budget=Budget(seconds=4))).lower_bound > 0


def test_nothing_to_lose_is_proven_at_once():
    table = pa.table({"job": ["cook"] * 6, "town": ["a"] * 6})
    release = sf.anonymize(table, k=3, **ASKED)
    assert (release.lower_bound, release.details["proven_gap"]) == (0.0, None)


def test_what_has_no_bound_is_refused():
    table = small_table(np.random.default_rng(5), 30)
    asked = {"qi": list(TREES), "k": 2, "method": "best"}
    with pytest.raises(ParameterError, match="hierarchy for every column, and `job` has none"):
        sf.anonymize(table, bound="lp", **asked)
    with pytest.raises(ParameterError, match="no bound `pl`"):
        sf.anonymize(table, bound="pl", **asked)
    with pytest.raises(ParameterError, match="does not cover k-map"):
        sf.anonymize(table, qi=list(TREES), k_map=2, population=table, method="best",
                     hierarchies=TREES, bound="lp")  # fmt: skip
