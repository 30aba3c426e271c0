"""Missing values of sensitive columns: they protect nobody, and lie 1 away from every number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import sfumato as sf
from sfumato.privacy import (
    AlphaK,
    ClassHistogram,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    RecursiveDiversity,
    SensitiveColumn,
    Sensitivity,
    check,
    compile_rules,
)
from sfumato.privacy.rules import by_entries, holds, sides_hold

VALUES = 4
INCOME = pa.array([10, 20, 30, 90, None])
MODELS = [
    DistinctDiversity(2, "income"),
    DistinctDiversity(3, "income"),
    EntropyDiversity(1.9, "income"),
    RecursiveDiversity(1.5, 2, "income"),
    RecursiveDiversity(3.0, 3, "income"),
    Sensitivity(2, 2, "income"),
    AlphaK(0.5, 2, "income"),
    Closeness(0.2, "income", "ordered"),
    Closeness(0.2, "income", "equal"),
]

counts = st.lists(st.integers(0, 4), min_size=VALUES + 1, max_size=VALUES + 1).filter(any)


def transported(one, other, far):
    """Earth mover's distance by linear programming."""
    size = len(one)
    equal = [np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))]
    found = linprog(far.ravel(), A_eq=np.vstack(equal), b_eq=np.r_[one, other])
    assert found.status == 0
    return found.fun


def by_rank(size):
    ranks = np.arange(size)
    return np.abs(ranks[:, None] - ranks) / max(size - 1, 1)


def distance(mine, table):
    """From a class to a table, as `check` measures it; both are counts with the missing last."""
    held = ClassHistogram(
        np.array([0, np.count_nonzero(mine)]),
        np.flatnonzero(mine),
        np.asarray(mine)[np.flatnonzero(mine)],
        len(mine),
        table=np.asarray(table),
        missing=len(mine) - 1,
    )
    return float(held.distance_ordered()[0])


@given(counts, counts)
def test_a_missing_number_is_as_far_as_the_ends_of_the_line(mine, theirs):
    table = np.add(mine, theirs)  # a class is part of its table
    mine, occurs = np.array(mine), np.flatnonzero(table[:-1])
    p, q = mine / mine.sum(), table / table.sum()
    found = distance(mine, table)
    far = np.ones((len(occurs) + 1,) * 2) - np.eye(len(occurs) + 1)
    far[:-1, :-1] = by_rank(len(occurs))
    least = transported(p[[*occurs, VALUES]], q[[*occurs, VALUES]], far)
    assert least - 1e-9 <= found <= 1 + 1e-9, "at least the earth mover's distance"
    here, there = 1 - p[-1], 1 - q[-1]
    expected = abs(here - there)
    if here > 0 and there > 0:
        inside = transported(p[occurs] / here, q[occurs] / there, by_rank(len(occurs)))
        expected += min(here, there) * inside
    assert found == pytest.approx(expected, abs=1e-9)
    if p[-1] == q[-1]:
        assert found == pytest.approx(least, abs=1e-9)


everywhere = st.lists(st.integers(1, 9), min_size=VALUES, max_size=VALUES)
shares = st.integers(0, 9)


@given(*[st.tuples(everywhere, shares)] * 3)
def test_the_distance_is_a_metric(one, two, three):
    # every value occurs, so that all three are measured by the same ranks
    a, b, c = ([*known, missing] for known, missing in (one, two, three))
    assert distance(a, b) == pytest.approx(distance(b, a), abs=1e-12)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-12
    same = np.allclose(np.array(a) / sum(a), np.array(b) / sum(b), atol=1e-12)
    assert (distance(a, b) < 1e-12) == same


def test_children_are_not_the_richest():
    adults, children = [4, 4, 4, 4, 0], [0, 0, 0, 0, 16]
    table = np.add(adults, children)
    assert distance(adults, table) == distance(children, table) == 0.5
    with_rich, with_poor = [0, 0, 0, 8, 8], [8, 0, 0, 0, 8]
    assert distance(with_rich, table) == pytest.approx(distance(with_poor, table))


def both_ways(mine, table, model):
    """Whether a class satisfies a model, by the compiled rule and by the check."""
    column = SensitiveColumn(np.asarray(table), INCOME)
    rules = compile_rules([model], {"income": column})
    by_rule = holds(int(np.sum(mine)), np.asarray(mine, np.int64), rules)
    rest = np.subtract(table, mine)
    codes = {
        "class": np.repeat([0, 1], [len(mine)] * 2),
        "income": np.tile(np.arange(len(mine)), 2),
    }
    found = check([model], codes, ["class"], counts=np.r_[mine, rest], values={"income": INCOME})
    own = found.findings[0].failing_rows
    return by_rule, own in (0, int(rest.sum())) if rest.sum() != np.sum(mine) else None


@given(counts, counts, st.sampled_from(MODELS))
def test_rules_and_check_agree(mine, others, model):
    by_rule, by_check = both_ways(mine, np.add(mine, others), model)
    assert by_check is None or by_rule == by_check


@given(counts, counts, counts, st.sampled_from(MODELS))
def test_unions_of_classes_that_hold_hold(one, two, rest, model):
    table = np.add(np.add(one, two), rest)
    rules = compile_rules([model], {"income": SensitiveColumn(table, INCOME)})
    if all(holds(sum(some), np.array(some), rules) for some in (one, two)):
        assert holds(sum(one) + sum(two), np.add(one, two), rules)


@pytest.mark.parametrize(
    ("ill", "known"), [(["flu", None], 1), ([None, None], 0), (["flu", "gout", None], 2)]
)
def test_a_missing_value_protects_nobody(ill, known):
    people = pa.table({"age": [30] * len(ill), "ill": pa.array(ill, pa.string())})
    found = sf.verify(people, qi=["age"], sensitive=["ill"], l=2).findings[0]
    assert found.holds == (known >= 2)
    assert found.measured["checks"][0].measured["l"] == known
    entropy = sf.verify(people, qi=["age"], sensitive=["ill"], l=2, l_kind="entropy")
    assert entropy.holds == (known >= 2)


def test_releases_do_not_count_on_missing_values():
    ill = ["flu", None, "flu", None, "gout", "cold", "flu", "gout"]
    people = pa.table({"age": [20, 20, 30, 30, 40, 40, 50, 50], "ill": ill})
    found = sf.anonymize(people, qi=["age"], sensitive=["ill"], k=2, l=2).to_arrow().to_pandas()
    assert (found.groupby("age")["ill"].nunique() >= 2).all()


entries = st.lists(
    st.tuples(st.booleans(), st.integers(1, 3), st.integers(0, VALUES)), min_size=1, max_size=14
)


@given(entries, st.lists(st.sampled_from(MODELS[:7]), min_size=1, max_size=3))
def test_sides_are_judged_by_their_entries_as_by_all_values(rows, models):
    sides, weights, codes = (np.array(part) for part in zip(*rows, strict=True))
    table = np.bincount(codes, weights, VALUES + 1).astype(np.int64)
    rules = compile_rules(models, {"income": SensitiveColumn(table, INCOME)})._replace(k=0)
    assert by_entries(rules)
    expected = True
    for side in (False, True):
        held = np.bincount(codes[sides == side], weights[sides == side], VALUES + 1)
        size = int(weights[sides == side].sum())
        expected = expected and holds(size, held.astype(np.int64), rules)
    spare = np.zeros((2, VALUES + 1), np.int64)
    found = sides_hold(sides.astype(np.uint8), weights, codes[None], rules, spare)
    assert found == (expected and len(set(sides.tolist())) == 2) or len(set(sides.tolist())) == 1
    assert not spare.any()


def test_closeness_is_not_judged_by_entries():
    column = {"income": SensitiveColumn(np.ones(5, np.int64), INCOME)}
    assert not by_entries(compile_rules([Closeness(0.2, "income")], column))
    assert by_entries(compile_rules([KAnonymity(2)]))
