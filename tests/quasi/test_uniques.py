"""Minimal sample uniques against brute force, and the scores made of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from brute import as_table, column_sets, small_tables
from samples import sample_path
from sfumato.errors import ParameterError


def minimal_uniques(rows, width, max_size):
    """For each row the minimal column sets on which it is alone."""
    alone = {}
    for columns in column_sets(width, min(max_size, width)):
        counts = Counter(tuple(row[c] for c in columns) for row in rows)
        for at, row in enumerate(rows):
            if counts[tuple(row[c] for c in columns)] == 1 and columns:
                sets = alone.setdefault(at, [])
                if not any(set(s) <= set(columns) for s in sets):
                    sets.append(columns)
    return alone


@given(small_tables(), st.integers(1, 4))
@settings(max_examples=150)
def test_minimal_uniques_equal_brute_force(drawn, max_size):
    rows, width = drawn
    expected = minimal_uniques(rows, width, max_size)
    found = sf.uniques(as_table(rows, width), max_size=max_size, top=len(rows))
    assert found.exposed_rows == len(expected)
    assert {item.row: dict(enumerate(item.by_size, start=1)) for item in found.riskiest} == {
        at: {size: sum(len(s) == size for s in sets) for size in range(1, min(max_size, width) + 1)}
        for at, sets in expected.items()
    }
    for item in found.riskiest:
        assert item.smallest == min(len(s) for s in expected[item.row])


def test_scores_follow_the_published_formula():
    """Two columns of four single the row out, sets up to three: (4-2)·(4-3) = 2 a set."""
    table = pa.table(
        {
            "a": [0, 0, 1, 1, 0, 1],
            "b": [0, 1, 0, 1, 1, 1],
            "c": [0, 0, 0, 0, 0, 0],
            "d": [0, 0, 0, 0, 0, 0],
        }
    )
    found = sf.uniques(table, max_size=3)
    assert {item.row: item.score for item in found.riskiest} == {0: 2.0, 2: 2.0}
    assert found.columns == {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0}


def test_the_match_probability_of_skinner_and_elliot():
    table = pa.table({"a": [1, 2, 3, 4, 4, 5, 5, 6, 6, 6]})
    found = sf.uniques(table, max_size=1, sampling_fraction=0.1)
    assert found.dis == pytest.approx(3 * 0.1 / (3 * 0.1 + 2 * 2 * 0.9))


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_the_match_probability_is_that_of_the_simulation(fraction):
    """Take each row out, put it back or not, and weigh what matches one row alone."""
    values = [1, 2, 3, 4, 4, 5, 5, 6, 6, 6]
    right = wrong = 0.0
    for taken, value in enumerate(values):
        others = values[:taken] + values[taken + 1 :]
        right += fraction * (others.count(value) == 0)
        wrong += (1 - fraction) * (others.count(value) == 1)
    found = sf.uniques(pa.table({"a": values}), max_size=1, sampling_fraction=fraction)
    assert found.dis == pytest.approx(right / (right + wrong))


def test_classes_with_counts_give_the_same_rows_as_rows_do():
    rows = pa.table({"a": [1, 1, 2, 3, 3], "b": [1, 1, 1, 1, 2]})
    memory = sf.uniques(sf.table(rows, engine="memory"), max_size=2)
    duck = sf.uniques(sf.table(rows, engine="duckdb"), max_size=2)
    assert memory.exposed_rows == duck.exposed_rows == 3
    assert memory.by_size == duck.by_size


def test_a_spent_budget_says_so():
    opened = sf.table(pa.table({f"c{i}": np.arange(20) % (i + 2) for i in range(6)}))
    opened.codes()
    found = sf.uniques(opened, budget=sf.Budget(seconds=0))
    assert not found.complete
    assert found.stopped_by == "time"


def test_bad_parameters_are_refused():
    table = pa.table({"a": [1, 2]})
    with pytest.raises(ParameterError, match="max_size"):
        sf.uniques(table, max_size=0)
    with pytest.raises(ParameterError, match="sampling fraction"):
        sf.uniques(table, sampling_fraction=0)


def test_adult_counts_of_single_columns():
    table = pq.read_table(sample_path("adult.parquet"))
    found = sf.uniques(table, max_size=1, columns=["age", "native-country"])
    assert found.by_size[0]["uniques"] == sum(
        sf.measure(table, [name]).unique_rows for name in ("age", "native-country")
    )
