"""Class numbers and histograms against a dictionary; every way of counting gives one answer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codetables import numbered, rows_of, sizes_of, tables
from sfumato import kernels
from sfumato.budget import usable_threads
from sfumato.engines.protocol import smallest_dtype
from sfumato.kernels import key_tables
from sfumato.kernels.classes import LARGEST_SPACE, Columns, histogram_of

pytestmark = pytest.mark.usefixtures("by")


def histogram(arrays, cardinalities, weights=None, **options):
    sizes, many = kernels.size_histogram(arrays, cardinalities, weights, **options)
    assert (np.diff(sizes) > 0).all()
    return dict(zip(sizes.tolist(), many.tolist(), strict=True))


@given(tables())
def test_class_numbers_ascend_with_codes(table):
    arrays, cardinalities = table
    rows = rows_of(arrays)
    ids, count = kernels.class_ids(arrays, cardinalities)
    assert ids.dtype == np.uint32
    assert ids.tolist() == numbered(rows)
    assert count == len(set(rows))


@given(tables())
def test_unordered_class_numbers_name_the_same_classes(table):
    arrays, cardinalities = table
    ids, count = kernels.class_ids(arrays, cardinalities, ordered=False)
    expected = numbered(rows_of(arrays))
    assert len(set(zip(ids.tolist(), expected, strict=True))) == count == len(set(expected))
    assert set(ids.tolist()) == set(range(count))


@given(tables(), st.integers(0, 2**32 - 1))
def test_histogram_with_and_without_weights(table, seed):
    arrays, cardinalities = table
    rows = rows_of(arrays)
    weights = np.random.default_rng(seed).integers(1, 2**33, len(rows))
    assert histogram(arrays, cardinalities) == sizes_of(rows)
    assert histogram(arrays, cardinalities, weights) == sizes_of(rows, weights.tolist())


@given(tables(columns=3), st.integers(0, 2**32 - 1))
def test_sums_of_every_combination(table, seed):
    arrays, cardinalities = table
    if np.prod(cardinalities, dtype=float) > 1 << 20:
        return
    rows = rows_of(arrays) if arrays else []
    weights = np.random.default_rng(seed).integers(1, 2**33, len(rows))
    for given_weights in (None, weights):
        expected = Counter()
        for row, weight in zip(rows, weights.tolist(), strict=True):
            expected[row] += 1 if given_weights is None else weight
        sums = kernels.combination_sums(arrays, cardinalities, given_weights)
        assert sums.shape == tuple(cardinalities)
        found = {tuple(map(int, at)): int(sums[tuple(at)]) for at in np.argwhere(sums)}
        assert found == expected


def test_too_many_combinations_for_a_cell_each():
    column = np.zeros(1, np.uint32)
    with pytest.raises(OverflowError, match="too many"):
        kernels.combination_sums((column, column), (1 << 20, 1 << 20))


@given(tables(columns=3))
def test_refining_by_one_column_is_the_classes_of_both(table):
    arrays, cardinalities = table
    if not arrays:
        return
    groups, count = kernels.class_ids(arrays[:-1], cardinalities[:-1], entries=len(arrays[0]))
    ids, finer = kernels.refine(groups, count, arrays[-1], cardinalities[-1])
    expected = numbered(rows_of(arrays))
    assert ids.tolist() == expected
    assert finer == len(set(expected))


@given(tables(columns=3, widest=256))
@settings(max_examples=50)
def test_dense_and_scattered_agree(table):
    arrays, cardinalities = table
    columns = Columns.of(arrays, cardinalities)
    if columns.entries == 0:
        return
    by_cell = key_tables.cell_histogram(columns, None, 1)
    by_key = histogram_of(key_tables.count_keys(columns, 1))
    assert [part.tolist() for part in by_cell] == [part.tolist() for part in by_key]
    cell_ids, cells = key_tables.number_cells(columns, 1)
    key_ids, keys = key_tables.number_keys(columns, True, 1)
    assert cell_ids.tolist() == key_ids.tolist()
    assert cells == keys


@pytest.mark.parametrize("entries", [0, 1, 2])
@pytest.mark.parametrize("cardinalities", [(), (1,), (1, 1, 1), (2**32,)])
def test_tiny_tables(entries, cardinalities):
    arrays = [np.zeros(entries, smallest_dtype(k)) for k in cardinalities]
    expected = {entries: 1} if entries else {}
    assert histogram(arrays, cardinalities, entries=entries) == expected
    ids, count = kernels.class_ids(arrays, cardinalities, entries=entries)
    assert ids.tolist() == [0] * entries
    assert count == min(entries, 1)


@pytest.mark.parametrize("ordered", [True, False])
def test_three_hundred_columns_beyond_64_bits(ordered):
    generator = np.random.default_rng(1)
    base = generator.integers(0, 2, (300, 500))
    twins = generator.integers(0, 500, 200)  # equal rows in every column
    arrays = [np.append(column, column[twins]).astype(np.uint8) for column in base]
    cardinalities = [2 + at % 90 for at in range(300)]
    assert Columns.of(arrays, cardinalities).space > 2**64
    rows = rows_of(arrays)
    assert histogram(arrays, cardinalities) == sizes_of(rows)
    weights = generator.integers(1, 9, 700)
    assert histogram(arrays, cardinalities, weights) == sizes_of(rows, weights.tolist())
    ids, count = kernels.class_ids(arrays, cardinalities, ordered=ordered)
    assert count == len(set(rows))
    assert len(set(zip(ids.tolist(), rows, strict=True))) == count
    if ordered:
        assert ids.tolist() == numbered(rows)


@pytest.mark.parametrize("spread", [8, 300, 3_000, 5_000, 2**31])
def test_answers_do_not_depend_on_threads(spread):
    generator = np.random.default_rng(2)
    arrays = [
        (generator.random(700_000) ** 5 * spread).astype(smallest_dtype(spread)) for _ in range(2)
    ]
    cardinalities = [spread, spread]
    one, count = kernels.class_ids(arrays, cardinalities, threads=1)
    two, same = kernels.class_ids(arrays, cardinalities, threads=2)
    assert count == same
    assert np.array_equal(one, two)
    one, _ = kernels.class_ids(arrays, cardinalities, ordered=False, threads=1)
    two, _ = kernels.class_ids(arrays, cardinalities, ordered=False, threads=2)
    assert np.array_equal(one, two)
    key = arrays[0].astype(np.uint64) * np.uint64(spread) + arrays[1]
    _, sizes = np.unique(key, return_counts=True)
    expected = dict(Counter(sizes.tolist()))
    for threads in (1, 2, 3):
        assert histogram(arrays, cardinalities, threads=threads) == expected


def test_more_large_classes_than_are_listed_at_first():
    sizes = np.repeat(np.arange(20_000, 20_050, dtype=np.uint32), 100)
    found, many = histogram_of(sizes)
    assert found.tolist() == list(range(20_000, 20_050))
    assert set(many.tolist()) == {100}


def test_many_keys_in_one_bucket_make_the_hash_table_grow():
    # Keys that scatter to the same leading bits share a bucket whatever their number.
    scattered_keys = np.arange(1, 10_000, dtype=np.uint64) << np.uint64(20)
    keys = np.array([key_tables.unscatter(key) for key in scattered_keys], np.uint64)
    marks = np.array([0, 2 * len(keys)], np.int64)
    totals = np.zeros(2 * len(keys), np.uint32)
    key_tables._count(marks, 0, 1, np.uint64(1), np.tile(scattered_keys, 2), totals)
    assert (totals[: len(keys)] == 2).all()
    assert (totals[len(keys) :] == 0).all()
    assert np.array_equal([key_tables.scatter(key) for key in keys[:50]], scattered_keys[:50])


def test_the_mark_of_a_free_slot_is_no_key():
    assert int(key_tables.unscatter(key_tables.FREE)) >= LARGEST_SPACE


@given(tables())
def test_unseparated_pairs(table):
    arrays, cardinalities = table
    expected = sum(s * (s - 1) // 2 * c for s, c in sizes_of(rows_of(arrays)).items())
    assert kernels.unseparated_pairs(arrays, cardinalities) == expected


def test_pairs_beyond_64_bits_are_exact():
    weights = np.array([2**40, 2**40 + 1], np.int64)
    total = 2**41 + 1
    pairs = kernels.unseparated_pairs([np.zeros(2, np.uint8)], [1], weights)
    assert pairs == total * (total - 1) // 2


@given(tables())
def test_representatives_are_first_entries(table):
    arrays, cardinalities = table
    rows = rows_of(arrays)
    ids, count = kernels.class_ids(arrays, cardinalities)
    first = kernels.representatives(ids, count)
    assert first.tolist() == [rows.index(row) for row in sorted(set(rows))]


def test_wrong_arrays_are_refused():
    with pytest.raises(ValueError, match="cardinalities"):
        kernels.class_ids([np.zeros(2, np.uint8)], [1, 2])
    with pytest.raises(ValueError, match="entries"):
        kernels.class_ids([np.zeros(2, np.uint8), np.zeros(3, np.uint8)], [1, 2])
    with pytest.raises(ValueError, match="not below the cardinality"):
        kernels.class_ids([np.array([0, 2], np.uint8)], [2])
    with pytest.raises(TypeError, match="int64"):
        kernels.class_ids([np.zeros(2, np.int64)], [1])


def test_slices_and_strides_are_read_right():
    whole = np.arange(20, dtype=np.uint16)
    ids, _ = kernels.class_ids([whole[3:17:2]], [20])
    assert ids.tolist() == list(range(7))
    ids, _ = kernels.class_ids([whole[::-1]], [20])
    assert ids.tolist() == list(range(19, -1, -1))


def test_few_entries_use_one_thread():
    assert usable_threads(8, 1000) == 1
    assert usable_threads(2, 10_000_000) == 2
