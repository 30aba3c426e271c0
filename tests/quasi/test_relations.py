"""Relations between the measures, baselines, and tables with a planted minimum key."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.quasi.greedy import Goal, greedy, histogram


@given(st.lists(st.integers(0, 30), min_size=2, max_size=60))
def test_the_number_of_classes_bounds_the_separation_ratio(values):
    """Motwani & Xu, section 1: extremes are one large class, and classes of two."""
    found = sf.measure(pa.table({"x": values}))
    n, d = found.rows, found.classes
    assert found.separation >= 1 - (n - d) * (n - d + 1) / (n * (n - 1)) - 1e-12
    if 2 * d >= n:
        assert found.separation <= 1 - 2 * (n - d) / (n * (n - 1)) + 1e-12


def test_fifty_classes_among_a_hundred_rows():
    one_large = sf.measure(pa.table({"x": [0] * 51 + list(range(1, 50))}))
    twos = sf.measure(pa.table({"x": [i // 2 for i in range(100)]}))
    assert (one_large.classes, twos.classes) == (50, 50)
    assert one_large.separation == pytest.approx(0.742, abs=5e-4)
    assert twos.separation == pytest.approx(0.990, abs=5e-4)


@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=2, max_size=30),
    st.permutations(range(4)),
)
def test_ratios_only_grow_with_columns(rows, order):
    table = pa.table({f"c{i}": [row[i] for row in rows] for i in range(4)})
    before = (0.0, 0.0)
    for size in range(1, 5):
        found = sf.measure(table, [f"c{i}" for i in order[:size]])
        assert (found.distinct, found.separation) >= before
        assert found.distinct >= before[0]
        assert found.separation >= before[1]
        before = (found.distinct, found.separation)


def naive_key(table: sf.Table) -> list[int]:
    """Columns by their own separation ratio until they are a key: blind to correlation."""
    codes = table.codes()
    alone = [histogram(codes, [c]).unseparated_pairs for c in range(len(codes.columns))]
    chosen: list[int] = []
    for column in np.argsort(alone, kind="stable").tolist():
        chosen.append(column)
        if not histogram(codes, chosen).unseparated_pairs:
            break
    return chosen


def test_naive_greedy_loses_on_correlated_columns():
    random = np.random.default_rng(0)
    rows = 3000
    first, second = np.arange(rows) // 50, np.arange(rows) % 50
    shuffled = [random.permutation(60)[first] * 60 + first for _ in range(5)]
    names = {f"copy{i}": values // (i + 1) for i, values in enumerate(shuffled)}
    table = sf.table(pa.table({**names, "first": first, "second": second}))
    ours = sf.minimum_key(table)
    assert ours.is_key
    assert ours.size == 2 < len(naive_key(table))


def planted(width: int, size: int, rows: int, seed: int) -> tuple[pa.Table, tuple[str, ...]]:
    """A table whose only minimum key are `size` planted columns.

    Planted columns are the digits of a row number, all other columns are functions of a single
    planted one: they tell nothing that it does not tell, and less.
    """
    random = np.random.default_rng(seed)
    base = int(np.ceil(rows ** (1 / size)))
    number = random.permutation(base**size)
    digits = [number // base**i % base for i in range(size)]
    order = random.permutation(width)
    columns: dict[str, np.ndarray] = {}
    for at in range(width):
        if at < size:
            columns[f"c{order[at]:02}"] = digits[at]
        else:
            columns[f"c{order[at]:02}"] = digits[at % size] // 2
    key = tuple(sorted(f"c{order[at]:02}" for at in range(size)))
    return pa.table({name: columns[name] for name in sorted(columns)}), key


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 6), st.integers(0, 1000))
def test_a_planted_minimum_key_is_found_and_proven(size, more, seed):
    table, key = planted(size + more, size, 400, seed)
    found = sf.minimum_key(table, proven=True)
    assert tuple(sorted(found.columns)) == key
    assert (found.proven_minimum, found.lower_bound) == (True, size)
    assert sf.minimal_keys(table).keys == (key,)
    assert tuple(sorted(sf.minimum_key(table).columns)) == key


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=2, max_size=25))
def test_greedy_is_never_worse_than_its_bound_against_the_best(rows):
    table = pa.table({f"c{i}": [row[i] for row in rows] for i in range(4)})
    codes = sf.table(table).codes()
    left = histogram(codes, range(4)).unseparated_pairs
    best = min(
        size
        for size in range(5)
        for chosen in combinations(range(4), size)
        if histogram(codes, chosen).unseparated_pairs == left
    )
    found = greedy(codes, [1.0] * 4, Goal(pairs=left))
    assert best <= len(found.columns) <= max(1, best) * (1 + 2 * np.log(len(rows)))


def test_equal_rows_stay_together_whether_rows_or_their_counts_are_given():
    table = sf.table(pa.table({"a": [0, 0, 0, 1, 1, 2], "b": [0, 0, 1, 0, 0, 0]}))
    rows, combinations_ = table.codes(), table.classes()
    assert rows.counts is None
    assert combinations_.counts is not None
    for codes in (rows, combinations_):
        found = greedy(codes, [1.0, 1.0], Goal(pairs=0))
        assert (found.columns, found.pairs_left) == ((0, 1), (4, 2))
