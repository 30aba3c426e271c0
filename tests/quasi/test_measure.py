"""Measures against brute force, the papers' examples and real data."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from samples import sample_path
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import ColumnError
from sfumato.quasi.measure import measures_of

PEOPLE = pa.table(
    {
        "age": [20, 30, 40, 20, 40],
        "sex": ["F", "F", "F", "M", "M"],
        "state": ["CA", "CA", "TX", "NY", "CA"],
    }
)
"""The example table of Motwani & Xu."""


def test_example_of_motwani_and_xu():
    age = sf.measure(PEOPLE, ["age"])
    assert (age.distinct, age.separation) == (0.6, 0.8)
    both = sf.measure(PEOPLE, ["sex", "state"])
    assert (both.distinct, both.separation) == (0.8, 0.9)
    assert sf.measure(PEOPLE, ["age", "sex"]).distinct == 1.0
    assert sf.measure(PEOPLE, ["age", "state"]).distinct == 1.0


cells = st.one_of(st.none(), st.integers(0, 3), st.just(-1))
tables = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[cells] * width), max_size=12))


@settings(max_examples=60)
@given(tables)
def test_brute_force(rows):
    width = len(rows[0]) if rows else 2
    names = [f"c{i}" for i in range(width)]
    table = pa.table(
        {name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(names)}
    )
    for size in range(1, width + 1):
        for chosen in combinations(range(width), size):
            found = sf.measure(table, [names[i] for i in chosen])
            projected = [tuple(row[i] for i in chosen) for row in rows]
            sizes = Counter(projected)
            together = sum(a == b for a, b in combinations(projected, 2))
            pairs = len(rows) * (len(rows) - 1) // 2
            assert found.rows == len(rows)
            assert found.classes == len(sizes)
            assert found.unique_rows == sum(n == 1 for n in sizes.values())
            assert found.unseparated_pairs == together
            assert found.k == (min(sizes.values()) if rows else None)
            assert found.separation == float(Fraction(pairs - together, pairs) if pairs else 1)
            assert found.distinct == (len(sizes) / len(rows) if rows else 1.0)


@settings(max_examples=60)
@given(st.dictionaries(st.integers(1, 2**40), st.integers(1, 2**20), min_size=1, max_size=6))
def test_pair_counts_are_exact_beyond_2_to_the_53(histogram):
    found = measures_of(["a"], ClassSizes.of(histogram))
    rows = sum(size * count for size, count in histogram.items())
    together = sum(count * (size * (size - 1) // 2) for size, count in histogram.items())
    pairs = rows * (rows - 1) // 2
    assert found.rows == rows
    assert found.unseparated_pairs == together
    assert found.separation == float(Fraction(pairs - together, pairs) if pairs else 1)


def test_a_pair_count_that_floats_and_int64_cannot_hold():
    half = 2**33 + 3
    found = measures_of(["a"], ClassSizes.of({half: 2}))
    assert found.unseparated_pairs == half * (half - 1) > 2**63
    assert float(found.unseparated_pairs) != found.unseparated_pairs


@pytest.mark.parametrize(("rows", "k"), [(0, None), (1, 1)])
def test_nobody_and_one_person(rows, k):
    found = sf.measure(pa.table({"a": pa.array([7] * rows, pa.int64())}), ["a"])
    assert (found.distinct, found.separation, found.unique, found.k) == (1.0, 1.0, 1.0, k)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=30))
def test_separation_lies_between_its_bounds(counts):
    """Least with all surplus rows in one class, most with one surplus row in each class."""
    found = measures_of(["a"], ClassSizes.of(Counter(counts)))
    n, d = found.rows, found.classes
    exact = ClassSizes.of(Counter(counts)).exact_separation
    assert exact >= 1 - Fraction((n - d) * (n - d + 1), n * (n - 1))
    if 2 * d >= n:
        assert exact <= 1 - Fraction(2 * (n - d), n * (n - 1))


@pytest.mark.parametrize(
    ("columns", "unique_rows"),
    [
        ("age", 2),
        ("age hours-per-week", 986),
        ("age race sex", 65),
        ("age workclass education occupation", 5056),
        ("age workclass occupation native-country", 3105),
        ("age occupation hours-per-week native-country", 7581),
        ("workclass education occupation native-country", 1384),
        ("age workclass marital-status occupation relationship", 5215),
        ("age workclass occupation relationship hours-per-week", 12870),
    ],
)
def test_figure_3_of_lodha_and_thomas(columns, unique_rows):
    """Unique rows on the raw 32,561 rows of Adult, a missing cell being a value."""
    found = sf.measure(sample_path("adult.parquet"), columns.split())
    assert found.unique_rows == unique_rows


def test_unknown_column_suggests_the_nearest():
    with pytest.raises(ColumnError, match="Did you mean `age`"):
        sf.measure(PEOPLE, ["aeg"])


def test_named_twice():
    with pytest.raises(ColumnError, match="`age` is named twice"):
        sf.measure(PEOPLE, ["age", "age"])
