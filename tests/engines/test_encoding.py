"""Codes are ranks: numbers by value, text byte by byte, then NaN, then null, on every type."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import threading
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato import budget
from sfumato.budget import Budget
from sfumato.engines import encoding
from sfumato.engines.encoding import (
    codes_from_arrow,
    codes_of_table,
    encode_apart,
    encode_batches,
)
from sfumato.engines.protocol import column_of, smallest_dtype
from sfumato.errors import BudgetError
from sfumato.kernels.ranking import number_nearby

UTC = dt.UTC
NEAR = st.integers(-3, 3)

CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), NEAR | st.sampled_from([-(2**63), 2**63 - 1, 2**40])),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])),
    "float64": (
        pa.float64(),
        st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -1.5, 1e300]),
    ),
    "float32": (pa.float32(), st.sampled_from([0.0, -0.0, math.nan, -2.5, 0.25, math.inf])),
    "float16": (pa.float16(), st.sampled_from([0.0, -0.0, math.nan, -2.5, 0.25])),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(1900, 1, 9))),
    "date64": (pa.date64(), st.dates(dt.date(1960, 1, 1), dt.date(2100, 1, 9))),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC)),
    ),
    "duration": (pa.duration("s"), st.integers(-5, 5).map(lambda s: dt.timedelta(seconds=s))),
    "decimal": (pa.decimal128(30, 2), st.integers(-(10**20), 10**20).map(decimal.Decimal)),
    "text": (pa.string(), st.text("aéZ \x00😀", max_size=3)),
    "large text": (pa.large_string(), st.text("ab", max_size=2)),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "fixed binary": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "null": (pa.null(), st.none()),
}


def key(value: Any) -> tuple[int, Any]:
    """Where a value stands among the others."""
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    if isinstance(value, str):
        return (0, value.encode())
    return (0, value)


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Table, list[Any]]:
    """A one-column table in several batches, and its cells."""
    type_, cells = CELLS[draw(st.sampled_from(sorted(CELLS)))]
    values = draw(st.lists(st.none() | cells, max_size=30))
    cut = draw(st.integers(0, len(values)))
    chunks = [pa.array(part, type_) for part in (values[:cut], values[cut:])]
    return pa.table({"cell": pa.chunked_array(chunks, type_)}), chunks[0].to_pylist() + chunks[
        1
    ].to_pylist()


def check(codes: Any, cells: list[Any]) -> None:
    distinct = sorted({key(cell) for cell in cells})
    assert codes.arrays[0].tolist() == [distinct.index(key(cell)) for cell in cells]
    assert [key(value) for value in codes.values[0].to_pylist()] == distinct
    assert codes.arrays[0].dtype == smallest_dtype(len(distinct))


@given(columns())
def test_codes_are_ranks(given_):
    table, cells = given_
    codes = codes_of_table(table)
    check(codes, cells)
    assert codes.values[0].type == table.schema.field(0).type


@given(columns(), st.integers(0, 10))
def test_sliced_batches(given_, offset):
    table, cells = given_
    check(codes_of_table(table.slice(offset)), cells[offset:])


@given(
    st.lists(
        st.lists(st.none() | st.integers(0, 4), max_size=10).flatmap(
            lambda indices: st.tuples(
                st.just(indices),
                st.lists(st.none() | st.sampled_from("abcxyz"), min_size=5, max_size=5),
            )
        ),
        max_size=4,
    )
)
def test_dictionaries_with_unused_doubled_and_null_entries(drawn):
    type_ = pa.dictionary(pa.int32(), pa.string())
    arrays, cells = [], []
    for indices, dictionary in drawn:
        arrays.append(
            pa.DictionaryArray.from_arrays(
                pa.array(indices, pa.int32()), pa.array(dictionary, pa.string())
            )
        )
        cells += [None if at is None else dictionary[at] for at in indices]
    column = column_of("letter", type_)
    batches = [pa.record_batch({"letter": array}) for array in arrays]
    distinct = sorted({key(cell) for cell in cells})
    for held in (encoding._MERGED, 0):  # at 0 they are merged while they come
        with mock.patch.object(encoding, "_MERGED", held):
            (codes,), (values,), length = encode_batches(batches, [column])
        assert length == len(cells)
        assert codes.tolist() == [distinct.index(key(cell)) for cell in cells]
        assert [key(value) for value in values.to_pylist()] == distinct


def test_long_texts_that_every_group_of_a_file_repeats_are_held_once():
    random = np.random.default_rng(1)
    texts = np.array([f"{at:05000}" for at in range(200)])
    rows = [random.permutation(200) for _ in range(60)]
    batches = [pa.record_batch({"text": pa.array(texts[row])}) for row in rows]
    column = [column_of("text", pa.string())]
    (codes,), (values,), _ = encode_batches(batches, column, limit=20 << 20)
    assert codes.tolist() == np.concatenate(rows).tolist()
    assert values.to_pylist() == texts.tolist()


def test_dictionary_of_numbers_and_runs():
    numbers = pa.array([7, None, 3, 7], pa.int64())
    for array in (numbers.dictionary_encode(), pa.compute.run_end_encode(numbers)):
        codes = codes_of_table(pa.table({"n": array}))
        assert codes.arrays[0].tolist() == [1, 2, 0, 1]
        assert codes.values[0].to_pylist() == [3, 7, None]


@pytest.mark.parametrize("type_", [pa.string_view(), pa.binary_view()])
def test_views(type_):
    codes = codes_of_table(pa.table({"v": pa.array(["b", None, "a"], type_)}))
    assert codes.arrays[0].tolist() == [1, 2, 0]


@pytest.mark.parametrize("spread", [1, 1 << 18, 1 << 21, 1 << 40])
@pytest.mark.parametrize("sparse", [False, True])
def test_many_values_near_and_far(spread, sparse):
    random = np.random.default_rng(4)
    values = random.integers(-1000, 120_000, 150_000) * spread
    nulls = random.random(150_000) < 0.1 if sparse else None
    array = pa.chunked_array([pa.array(values, mask=nulls)])
    codes = codes_of_table(pa.Table.from_batches(pa.table({"n": array}).to_batches(20_000)))
    kept = values if nulls is None else values[~nulls]
    distinct, expected = np.unique(kept, return_inverse=True)
    assert codes.arrays[0].dtype == np.uint32
    got = codes.arrays[0] if nulls is None else codes.arrays[0][~nulls]
    assert np.array_equal(got, expected)
    if nulls is not None:
        assert (codes.arrays[0][nulls] == len(distinct)).all()
    assert np.array_equal(codes.values[0].drop_null().to_numpy(), distinct)


def test_values_that_leave_the_table_of_nearby_ones():
    parts = [[0, 5], [-7, 100], [10**9, -(10**9)], [2**62, 5]]
    table = pa.table({"n": pa.chunked_array([pa.array(part) for part in parts])})
    cells = [cell for part in parts for cell in part]
    check(codes_of_table(table), cells)


def test_no_rows_and_no_columns():
    codes = codes_of_table(
        pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    )
    assert codes.entries == 0
    assert codes.cardinalities == (0, 0)
    assert [values.type for values in codes.values] == [pa.int64(), pa.string()]


def test_combinations_with_counts_are_sorted():
    table = pa.table(
        {
            "age": [30, None, 20, 30],
            "sex": ["M", "F", "M", "F"],
            "rows": pa.array([1, 2, 3, 4], pa.int32()),
        }
    )
    codes = codes_from_arrow(table, "rows")
    assert codes.columns == ("age", "sex")
    assert [array.tolist() for array in codes.arrays] == [[0, 1, 1, 2], [1, 0, 1, 0]]
    assert codes.counts is not None
    assert codes.counts.tolist() == [3, 4, 1, 2]
    assert codes.rows == 10


def test_one_class_of_no_columns():
    codes = codes_from_arrow(pa.table({"rows": [7]}), "rows")
    assert codes.entries == 1
    assert codes.rows == 7


def test_time_and_memory_run_out():
    batches = pa.table({"n": np.arange(1000)}).to_batches(100)
    column = [column_of("n", pa.int64())]
    with pytest.raises(BudgetError, match="Allow more time"):
        encode_batches(batches, column, budget=Budget(seconds=0))
    with pytest.raises(BudgetError, match="DuckDB"):
        encode_batches(batches, column, limit=10)


def test_progress_is_told():
    told: list[tuple[str, float | None]] = []
    budget = Budget(on_progress=lambda doing, share: told.append((doing, share)))
    encode_batches(
        pa.table({"n": np.arange(100)}).to_batches(50),
        [column_of("n", pa.int64())],
        rows=100,
        budget=budget,
    )
    assert told == [("reading", 0.0), ("reading", 0.5)]


@pytest.mark.parametrize("ahead", [1, 4000, 1 << 20])
def test_columns_read_while_loops_are_loaded_have_the_same_codes(monkeypatch, ahead):
    random = np.random.default_rng(2)
    table = pa.table({name: random.integers(0, 50, 2000) for name in "abcd"})
    columns = [column_of(name, pa.int64()) for name in "abcd"]
    asked, enough = [], threading.Event()

    def read(names):
        asked.append(names)
        if len(asked) == (4 if ahead > table.nbytes else 1):
            enough.set()
        return iter(table.select(names).to_batches(300))

    class Slow:
        settled = False

        @property
        def dispatcher(self):
            assert enough.wait(10)

        def __call__(self, *given):
            return number_nearby(*given)

    monkeypatch.setattr(budget, "_WORTHWHILE", 16)
    monkeypatch.setattr(encoding, "number_nearby", Slow())
    monkeypatch.setattr(encoding, "_AHEAD", ahead)
    found = encode_apart(read, columns, rows=2000, budget=Budget(threads=2))
    wanted = encode_batches(table.to_batches(), columns)
    for one, other in zip(found[0], wanted[0], strict=True):
        assert one.tolist() == other.tolist()
    assert found[1] == wanted[1]
    assert sorted(asked) == [["a"], ["b"], ["c"], ["d"]]
    assert asked[0] == ["d"]


def test_the_largest_columns_are_read_first_and_other_work_beside_them(monkeypatch):
    table = pa.table({name: [at, 7, 7] * 9 for at, name in enumerate("abc")})
    columns = [column_of(name, pa.int64()) for name in "abc"]
    done = []

    def read(names):
        done.append(*names)
        return table.select(names).to_batches()

    def in_turn(function, items, entries, threads=None):
        return [function(item) for item in items]

    monkeypatch.setattr(budget, "_WORTHWHILE", 1)
    monkeypatch.setattr(encoding, "each", in_turn)
    monkeypatch.setattr(encoding, "number_nearby", SimpleNamespace(settled=True))
    beside = [lambda: done.append("beside")]
    sizes = {"c": 9, "a": 3, "other": 5}
    found = encode_apart(
        read, columns, rows=27, budget=Budget(threads=2), sizes=sizes, beside=beside
    )
    assert done == ["beside", "c", "a", "b"]
    wanted = encode_batches(table.to_batches(), columns)
    assert [codes.tolist() for codes in found[0]] == [codes.tolist() for codes in wanted[0]]
    assert found[1:] == wanted[1:]
