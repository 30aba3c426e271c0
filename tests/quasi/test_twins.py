"""Twins against the definition: each column decides the other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.budget import Budget
from sfumato.columns import profile as looking
from sfumato.columns.profile import equivalents, find_twins, profile


def twins_of(table: pa.Table):
    opened = sf.table(table)
    budget = Budget()
    return find_twins(opened, profile(opened, seed=0, budget=budget), budget)


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=3, max_size=10))
def test_brute_force(rows):
    columns = {f"c{i}": [row[i] for row in rows] for i in range(4)}
    # a copy in other words, so that there is a pair of twins in most tables
    columns["c4"] = [f"value {cell}" for cell in columns["c1"]]
    together = {
        frozenset(pair) for group in twins_of(pa.table(columns)) for pair in combinations(group, 2)
    }
    for one, other in combinations(columns, 2):
        pairs = len(set(zip(columns[one], columns[other], strict=True)))
        alone = len(set(columns[one])), len(set(columns[other]))
        expected = alone[0] == alone[1] == pairs and 1 < pairs < len(rows)
        assert (frozenset((one, other)) in together) == expected


def test_three_of_a_kind_are_one_group():
    cells = [1, 2, 3, 1, 2, 3]
    table = pa.table(
        {"a": cells, "x": [0, 1] * 3, "b": [str(c) for c in cells], "c": [-c for c in cells]}
    )
    assert twins_of(table) == (("a", "b", "c"),)


def test_nearly_twins_that_only_a_sample_confuses(monkeypatch):
    """The sample sees no difference; the whole table has one row that differs."""
    monkeypatch.setattr(looking, "ROWS_AT_HAND", 5)
    a = [0, 1] * 5000
    b = [0, 1] * 4999 + [1, 0]
    assert twins_of(pa.table({"a": a, "b": b})) == ()
    assert twins_of(pa.table({"a": a, "b": a})) == (("a", "b"),)


def test_rows_of_a_sample_need_not_hold_all_values():
    a = [0, 0, 1, 1, 2]
    codes = sf.table(pa.table({"a": a, "b": [5 - c for c in a], "c": [0, 1, 1, 1, 1]})).codes()
    assert equivalents(codes) == {0: (1,)}
    assert equivalents(codes.take(np.arange(4))) == {0: (1,)}


def test_twins_that_are_constant_in_the_sample_are_found(monkeypatch):
    monkeypatch.setattr(looking, "ROWS_AT_HAND", 5)
    rare = [0] * 9_999 + [1]
    table = pa.table({"a": rare, "x": [0] * 9_998 + [1, 1], "b": [str(c) for c in rare]})
    assert twins_of(table) == (("a", "b"),)


def test_keys_and_constants_are_no_twins():
    table = pa.table({"k": [1, 2, 3], "l": [3, 2, 1], "x": [0] * 3, "y": ["-"] * 3})
    assert twins_of(table) == ()
