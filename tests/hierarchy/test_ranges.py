"""Ranges of numbers and dates, and sets of values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import ColumnError, HierarchyError
from sfumato.hierarchy import Ranges, ValueSets


def test_labels_by_type() -> None:
    ages = Ranges(pa.array([29, 20, 25]), "age")
    assert ages.labels([0], [2]).to_pylist() == ["[20, 30)"]
    floats = Ranges(pa.array([1.5, 0.25, 3.0]), "x")
    assert floats.labels([0, 1, 2], [1, 2, 2]).to_pylist() == ["[0.25, 3)", "[1.5, 3]", "3"]
    days = Ranges(pa.array([datetime.date(2024, 2, 29), datetime.date(2024, 2, 1)]), "d")
    assert days.labels([0], [1]).to_pylist() == ["[2024-02-01, 2024-03-01)"]
    largest = Ranges(pa.array([2**63 - 1, 0]), "big")
    assert largest.labels([0], [1]).to_pylist() == ["[0, 9223372036854775808)"]


def test_what_is_no_number_stands_apart() -> None:
    odd = Ranges(pa.array([math.nan, 2.0, None, 1.0, math.inf]), "x")
    assert odd.points.tolist() == [1.0, 2.0]
    assert odd.order.tolist() == [3, 1, 0, 2, 4]
    assert odd.labels([2, 3, 4], [2, 3, 4]).to_pylist() == ["nan", None, "inf"]
    assert odd.labels([0, 2], [2, 3]).to_pylist() == ["*", "*"]
    assert odd.loss([0, 2, 3], [2, 3, 3]).tolist() == [1.0, 1.0, 0.0]
    shown = odd.published([0], [2])
    assert (shown.low.tolist(), shown.high.tolist()) == ([0], [4])


def test_text_has_no_ranges() -> None:
    with pytest.raises(ColumnError, match="column `name`"):
        Ranges(pa.array(["a"]), "name")


def test_one_value_or_none() -> None:
    single = Ranges(pa.array([5]), "x")
    assert single.loss([0], [0]).tolist() == [0.0]
    empty = Ranges(pa.array([None], type=pa.int64()), "x")
    assert empty.labels([0], [0]).to_pylist() == [None]
    assert empty.loss([0], [0]).tolist() == [0.0]


numbers = st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=12, unique=True)


@given(numbers, st.booleans(), st.data())
def test_labels_are_read_back(
    values: list[int | None], as_float: bool, data: st.DataObject
) -> None:
    kind = pa.float64() if as_float else pa.int64()
    ranges = Ranges(pa.array(values, type=kind), "x")
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    low, high = ranges.spans(np.arange(len(values)), np.array(groups), 3)
    for group in range(3):
        held = [v for v, g in zip(values, groups, strict=True) if g == group]
        if not held:
            assert high[group] < low[group]
        elif None not in held:
            assert ranges.points[low[group]] == min(v for v in held if v is not None)
            assert ranges.points[high[group]] == max(v for v in held if v is not None)
    shown = ranges.published(low, high)
    rows = shown.take(groups)
    assert rows.covers(np.arange(len(values))).all()
    again = ranges.read(rows.array())
    expected = rows.low[rows.codes], rows.high[rows.codes]
    assert again[0].tolist() == expected[0].tolist()
    assert again[1].tolist() == expected[1].tolist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, 1, 2], pa.uint64()),
        pa.array([127, 1, 2], pa.int8()),
        pa.array([2**63 - 1, 1, 2], pa.int64()),
        pa.array([Decimal("1.50"), Decimal("0.25"), Decimal("99.00")]),
        pa.array([datetime.datetime(2024, 1, d, 5, 6, 7) for d in (3, 1, 2)], pa.timestamp("us")),
        pa.array([datetime.datetime(2024, 1, d) for d in (3, 1, 2)], pa.timestamp("ms", "UTC")),
        pa.array([datetime.date(2024, 1, d) for d in (3, 1, 2)], pa.date64()),
        pa.array([datetime.time(d) for d in (3, 1, 2)], pa.time64("us")),
        pa.array([datetime.time(d) for d in (3, 1, 2)], pa.time32("s")),
        pa.array([0.1, 1e-9, 1e300]),
    ],
)
def test_every_type_on_a_line_is_read_back(values: pa.Array) -> None:
    ranges = Ranges(values, "x")
    low, high = [0, 0, 1, 2], [1, 2, 2, 2]
    again = ranges.read(ranges.labels(low, high))
    assert (again[0].tolist(), again[1].tolist()) == (low, high)


def test_a_star_is_one_label_whatever_is_missing_beside_what() -> None:
    """Parquet files would hold different bytes, and more, if it were several."""
    ages = Ranges(pa.array([20, 30, 40, None]), "age", held=[9, 9, 9, 9], k=5)
    shown = ages.published([0, 1, 2, 0], [3, 3, 3, 1])
    assert sorted(shown.labels.to_pylist()) == ["*", "[20, 40)"]
    assert shown.loss[shown.codes].tolist() == [1, 1, 1, 0.5]


def test_ends_of_decimals_are_read_exactly() -> None:
    """-25.90 as Arrow makes a float of it is less than -25.9."""
    tenths = [Decimal(at) / 10 for at in range(-300, 300)]
    line = Ranges(pa.array(tenths, pa.decimal128(12, 2)), "paid")
    spans = [line.span(f"[{tenth}, 99)") for tenth in tenths]
    assert spans == [(rank, len(tenths) - 1) for rank in range(len(tenths))]


def test_foreign_labels_are_refused() -> None:
    ages = Ranges(pa.array([20, 30]), "age")
    with pytest.raises(HierarchyError, match="3 distinct labels"):
        ages.read(pa.array(["20", "21", "young", "[22, 25)"]))


sets_of_text = st.lists(
    st.one_of(st.none(), st.text(alphabet='ab,{}" *n', max_size=3)),
    min_size=1,
    max_size=8,
    unique=True,
).filter(lambda values: "*" not in values and not any(v and v[0] == "{" for v in values))


@given(sets_of_text, st.data())
def test_sets_are_read_back(values: list[str | None], data: st.DataObject) -> None:
    sets = ValueSets(pa.array(values, type=pa.string()), "x")
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, len(values) - 1), st.integers(-1, 3)), max_size=20)
    )
    codes = np.array([code for code, _ in rows], dtype=np.int64)
    groups = np.array([group for _, group in rows], dtype=np.int64)
    offsets, members = sets.collect(codes, groups, 4)
    shown = sets.published(offsets, members)
    for group in range(4):
        held = sorted(set(codes[groups == group].tolist()))
        assert members[offsets[group] : offsets[group + 1]].tolist() == held
        entry = shown.codes[group]
        if not held:
            assert entry == -1
            continue
        assert shown.order[shown.low[entry] : shown.high[entry] + 1].tolist() == held
        expected_loss = (len(held) - 1) / max(len(values) - 1, 1)
        assert shown.loss[entry] == pytest.approx(expected_loss)
    offsets2, members2 = sets.read(shown.array())
    filled = [members[a:b].tolist() for a, b in pairwise(offsets) if b > a]
    again = [members2[a:b].tolist() for a, b in pairwise(offsets2)]
    assert again == filled


def test_the_text_null_is_not_a_null() -> None:
    sets = ValueSets(pa.array(["null", None, "x"]), "x")
    shown = sets.published([0, 2, 4], [0, 2, 1, 2])
    assert shown.array().to_pylist() == ['{"null", x}', "{x, null}"]
    offsets, members = sets.read(shown.array())
    assert (offsets.tolist(), members.tolist()) == ([0, 2, 4], [0, 2, 1, 2])


def test_equal_sets_are_one_entry() -> None:
    sets = ValueSets(pa.array(["a", "b", "c"]), "x")
    offsets, members = sets.collect([0, 1, 0, 1, 2, 0, 1, 2], [0, 0, 1, 1, 2, 3, 3, 3], 4)
    shown = sets.published(offsets, members)
    assert shown.codes[0] == shown.codes[1]
    assert shown.array().to_pylist() == ["{a, b}", "{a, b}", "c", "*"]
    assert shown.covers([0, 2, 2, 1]).tolist() == [True, False, True, True]
    assert shown.covered(np.array([True, False, False]))[shown.codes].tolist() == [
        0.5,
        0.5,
        0.0,
        pytest.approx(1 / 3),
    ]
    with pytest.raises(HierarchyError, match="2 distinct labels"):
        sets.read(pa.array(["{a, z}", "q"]))
