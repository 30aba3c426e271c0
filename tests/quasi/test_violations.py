"""Sets that break k-anonymity, and the descent to an identifying set."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from brute import as_table, classes, column_sets, sizes, small_tables
from sfumato.errors import ColumnError, ParameterError
from sfumato.quasi.violations import _descent

ROWS = ["x1x6x", "xx27x", "x3x8x", "xx4x9", "5xxx0"]
YUAN = pa.table({name: [row[c] for row in ROWS] for c, name in enumerate("abcde")})


def positions(names):
    return tuple(sorted(ord(name) - ord("a") for name in names))


def test_the_descent_of_the_essay_ends_one_column_further():
    """The essay stops at {a, b, c} because it overlooks that {b, c} tells all rows apart."""
    found = sf.violations(YUAN, k=2)
    assert set(found.identifying) == {"b", "c"}
    assert {frozenset(s) for s in found.minimal} == {frozenset(c) for c in "abcde"}
    assert len(found.minimum) == 5


def test_the_set_cover_example_of_the_essay():
    """Section 4.2: {c1, c4} is a key of the six rows, {c1, c2, c3} is not."""
    sets = {"c1": "abc", "c2": "ab", "c3": "c", "c4": "def"}
    table = pa.table(
        {name: [e if e in members else "-" for e in "abcdef"] for name, members in sets.items()}
    )
    assert sf.measure(table, ["c1", "c4"]).distinct == 1
    assert sf.measure(table, ["c1", "c2", "c3"]).distinct < 1


@pytest.mark.parametrize("depth_first", [True, False])
@given(drawn=small_tables(), k=st.integers(1, 5))
@settings(max_examples=150)
def test_minimal_violations_equal_brute_force(depth_first, drawn, k):
    rows, width = drawn
    expected: list[tuple[int, ...]] = []
    for columns in column_sets(width):
        bad = any(size < k for size in sizes(rows, columns))
        if bad and not any(set(s) <= set(columns) for s in expected):
            expected.append(columns)
    with pytest.MonkeyPatch.context() as patch:
        if not depth_first:
            patch.setattr("sfumato.quasi.violations.DEPTH_FIRST_COLUMNS", 0)
        found = sf.violations(as_table(rows, width), k=k)
    assert {positions(s) for s in found.minimal} == set(expected)
    assert found.k_anonymous == (not expected)
    if expected:
        least = min(map(len, expected))
        assert {positions(s) for s in found.minimum} == {s for s in expected if len(s) == least}


@given(small_tables(), st.integers(0, 5))
@settings(max_examples=100)
def test_a_descent_ends_in_a_minimal_identifying_set(drawn, restarts):
    rows, width = drawn
    found = sf.violations(as_table(rows, width), restarts=restarts)
    everything = classes(rows, range(width))
    assert sum(item["times"] for item in found.descents) == restarts + 1
    for item in found.descents:
        columns = positions(item["columns"])
        assert classes(rows, columns) == everything
        for column in columns:
            assert classes(rows, [c for c in columns if c != column]) < everything


@given(small_tables(), st.data())
@settings(max_examples=50)
def test_an_order_of_some_columns_ends_in_a_minimal_identifying_set(drawn, data):
    rows, width = drawn
    some = data.draw(st.permutations("abcdefgh"[:width]))[: data.draw(st.integers(0, width))]
    columns = positions(sf.violations(as_table(rows, width), order=some).identifying)
    everything = classes(rows, range(width))
    assert classes(rows, columns) == everything
    for column in columns:
        assert classes(rows, [c for c in columns if c != column]) < everything


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), max_size=6), st.permutations(range(10)))
@settings(max_examples=100)
def test_a_descent_leaves_columns_out_as_if_one_by_one(needed, order):
    def identifies(columns):
        return all(one & set(columns) for one in needed)

    kept = list(order)
    for column in order:
        rest = [c for c in kept if c != column]
        kept = rest if identifies(rest) else kept
    assert _descent(order, identifies) == tuple(sorted(kept))


def test_a_descent_asks_little_where_few_columns_stay():
    asked = []
    stay = {3, 170, 299}
    assert _descent(range(300), lambda s: asked.append(s) or stay <= set(s)) == (3, 170, 299)
    assert len(asked) < 50


@pytest.mark.parametrize("person", [None, "a"])
def test_descents_end_with_the_time(person):
    budget = sf.Budget(on_progress=lambda doing, _: doing == "descending" and budget.end())
    found = sf.violations(YUAN, restarts=1_000, person=person, budget=budget)
    assert found.stopped_by == "time"
    assert sum(item["times"] for item in found.descents) == 1


def test_more_columns_than_fit_a_word():
    random = np.random.default_rng(0)
    table = pa.table({f"c{i}": random.integers(0, 2, 30) for i in range(70)})
    found = sf.violations(table, k=2, max_size=2)
    assert all(len(s) <= 2 for s in found.minimal)
    assert not found.complete


def test_bad_parameters_are_refused():
    with pytest.raises(ParameterError, match="k = 0"):
        sf.violations(YUAN, k=0)
    with pytest.raises(ParameterError, match="max_size"):
        sf.violations(YUAN, max_size=0)
    for restarts in (-1, 10**30):
        with pytest.raises(ParameterError, match=r"restarts = .* Give 0 to 1,000,000"):
            sf.violations(YUAN, restarts=restarts)
    with pytest.raises(ColumnError, match="no column `z`"):
        sf.violations(YUAN, order=["z"])
