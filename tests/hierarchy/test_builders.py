"""Hierarchies made from values: intervals, frequencies, codes, dates, orders, and by inference."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import sample_path
from sfumato.errors import ColumnError, ParameterError
from sfumato.hierarchy import (
    Hierarchy,
    Ranges,
    dates,
    equal_frequency,
    flat,
    infer,
    intervals,
    ordered_groups,
    prefixes,
)


def contains(label: str, value: float) -> bool:
    """Whether an interval's label covers a number."""
    if label == "*":
        return True
    if label.startswith("<"):
        return value < float(label[1:])
    if label.startswith(">="):
        return value >= float(label[2:])
    if not label.startswith("["):
        return float(label) == value
    low, high = label[1:-1].split(", ")
    below = value < float(high) if label.endswith(")") else value <= float(high)
    return float(low) <= value and below


def assert_labels_are_true(h: Hierarchy) -> None:
    values = [float(text) for text in h.leaves.to_pylist()]
    for level in h.levels():
        for value, label in zip(values, level.to_pylist(), strict=True):
            assert contains(label, value), (value, label)


tenths = st.lists(st.integers(-3000, 3000), min_size=1, max_size=40, unique=True).map(
    lambda items: pa.array([item / 10 for item in items])
)
whole = st.lists(st.integers(-3000, 3000), min_size=1, max_size=40, unique=True).map(pa.array)


@given(st.one_of(tenths, whole), st.sampled_from([0.1, 0.5, 1.0, 3.0, 7.0]), st.integers(2, 4))
def test_every_interval_holds_its_values(values: pa.Array, width: float, fanout: int) -> None:
    assert_labels_are_true(intervals(values, width=width, fanout=fanout))


@given(st.one_of(tenths, whole), st.integers(1, 9), st.integers(2, 3))
def test_equal_width_and_equal_frequency(values: pa.Array, count: int, fanout: int) -> None:
    by_width = intervals(values, count=count, fanout=fanout)
    by_rows = equal_frequency(values, groups=count, fanout=fanout)
    for h in (by_width, by_rows):
        assert_labels_are_true(h)
        assert len(h.levels()[1].unique()) <= max(count, 1)


@given(st.one_of(tenths, whole), st.lists(st.integers(-300, 300), min_size=1, unique=True))
def test_given_edges(values: pa.Array, edges: list[int]) -> None:
    h = intervals(values, edges=sorted(edges))
    assert_labels_are_true(h)
    assert len(h.levels()[1].unique()) <= len(edges) + 1


def test_intervals_in_words() -> None:
    h = intervals(pa.array([17, 18, 64, 65]), edges=[18, 65])
    assert h.levels()[1].to_pylist() == ["< 18", "[18, 65)", "[18, 65)", ">= 65"]
    born = intervals(
        pa.array([datetime.date(1970, 1, 3), datetime.date(1970, 1, 20)]), width=7, fanout=10
    )
    assert born.levels()[1].to_pylist() == [
        "[1970-01-01, 1970-01-08)",
        "[1970-01-15, 1970-01-22)",
    ]
    both_signs = intervals(pa.array([-1, 1]), width=10)
    assert both_signs.levels()[1].to_pylist() == ["[-10, 0)", "[0, 10)"]
    assert both_signs.height == 2


@pytest.mark.parametrize("how", [{"width": 90}, {"count": 2}, {"edges": [18_300]}, {"groups": 2}])
def test_codes_of_a_dictionary_are_cut_as_their_values(how: dict[str, object]) -> None:
    days = pa.array([datetime.date(2020, 1, 1), None, datetime.date(2021, 1, 5)])
    make = equal_frequency if "groups" in how else intervals
    plain, coded = (make(values, **how) for values in (days, days.dictionary_encode()))
    assert coded.labels.equals(plain.labels)


def test_equal_frequency_balances_rows() -> None:
    values = pa.array(range(100))
    counts = np.arange(100) + 1
    h = equal_frequency(values, counts, groups=4)
    rows = np.bincount(h.levels()[1].dictionary_encode().indices, weights=counts)
    assert len(rows) == 4
    assert rows.max() - rows.min() <= 200
    common = equal_frequency(pa.array([0, 1, 2, 3, 4]), [1000, 1, 1, 1, 1], groups=4)
    shown = ["[-0.5, 0.5)", *["[0.5, 2.5)"] * 2, *["[2.5, 4.5)"] * 2]
    assert common.levels()[1].to_pylist() == shown


def test_intervals_of_equally_many_rows_end_at_no_value_of_few_rows() -> None:
    incomes = np.unique((10 ** (np.random.default_rng(5).random(1_000) * 8)).astype(np.int64))
    h = equal_frequency(pa.array(incomes), np.ones(len(incomes)), groups=16, k=5)
    labels = h.levels()[1].unique().to_pylist()
    assert len(labels) == 16
    ends = {float(end) for label in labels for end in label[1:-1].split(", ")}
    assert not ends & set(incomes.astype(float).tolist())
    assert_labels_are_true(h)


@given(
    st.lists(st.integers(0, 9), min_size=8, max_size=90), st.integers(1, 6), st.integers(-40, 40)
)
def test_inferred_intervals_end_at_no_value_of_few_rows(
    rows: list[int], k: int, first: int
) -> None:
    values = pa.array(range(first, first + len(rows)))
    h, _ = infer("age", values, rows, k=k)
    assert_labels_are_true(h)
    rare = {float(v) for v, n in zip(values.to_pylist(), rows, strict=True) if 0 < n < k}
    labels = {label for level in h.levels()[1:-1] for label in level.to_pylist() if "," in label}
    assert not rare & {float(e) for label in labels for e in label[1:-1].split(", ")}


def test_intervals_of_a_width_step_aside_or_lie_between_values() -> None:
    ages = pa.array(range(20, 60))
    all_held = intervals(ages, width=10, counts=[9] * 40)
    assert all_held.levels()[1].unique().to_pylist()[0] == "[20, 30)"
    one_rare = intervals(ages, width=10, counts=[1 if age == 30 else 9 for age in range(20, 60)])
    assert one_rare.levels()[1].unique().to_pylist() == ["[20, 40)", "[40, 50)", "[50, 60)"]
    all_rare = intervals(ages, width=10, counts=[3] * 40)
    assert all_rare.levels()[1].unique().to_pylist()[:2] == ["[19.5, 29.5)", "[29.5, 39.5)"]
    floats = intervals(pa.array([at / 4 for at in range(400)]), width=10, counts=[3] * 400)
    assert floats.levels()[1][0].as_py() == "[-0.005, 9.995)"


def test_intervals_of_numbers_beyond_floating_point_hold_their_values() -> None:
    large = [10 * 2**53 + 7 * at for at in range(40)]
    h = equal_frequency(pa.array(large[::-1]), groups=8, k=5)
    for value, label in zip(large[::-1], h.levels()[1].to_pylist(), strict=True):
        low, high = (Decimal(end) for end in label[1:-1].split(", "))
        assert low <= value < high
        assert not {low, high} & set(large)
    assert len(h.levels()[1].unique()) == 8


def test_what_is_no_number_repeats_itself() -> None:
    h = intervals(pa.array([1.0, float("nan"), None, 12.0]), width=10)
    assert h.leaves.to_pylist() == ["1", "nan", "12"]
    assert h.levels()[1].to_pylist() == ["[0, 10)", "nan", "[10, 20)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one"),
        ({"width": 1, "count": 2}, "exactly one"),
        ({"width": 0}, "width of 0"),
        ({"width": 1e-9}, "intervals"),
        ({"count": 0}, "0 intervals"),
        ({"edges": []}, "ascending"),
        ({"edges": [3, 1]}, "ascending"),
        ({"width": 5, "fanout": 1}, "fanout"),
    ],
)
def test_bad_intervals(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        intervals(pa.array([1, 90]), **arguments)  # type: ignore[arg-type]
    with pytest.raises(ColumnError):
        intervals(pa.array(["x"]), width=1)


def test_prefixes() -> None:
    h = prefixes(pa.array(["02138", "02139", "02210"]))
    assert h.height == 5
    assert [level[0].as_py() for level in h.levels()] == [
        "02138",
        "0213*",
        "021**",
        "02***",
        "0****",
        "*",
    ]
    mixed = prefixes(pa.array(["12", "123"]), keep=[2, 1])
    assert mixed.levels()[1].to_pylist() == ["12", "12*"]
    lost_zeros = prefixes(pa.array([2138, 10001]), digits=5, keep=[3])
    assert lost_zeros.levels()[1].to_pylist() == ["021**", "100**"]
    assert lost_zeros.leaves.to_pylist() == ["2138", "10001"]
    for keep in ([0], [2, 3], [2, 2]):
        with pytest.raises(ParameterError, match="descend"):
            prefixes(pa.array(["123"]), keep=keep)
    with pytest.raises(ParameterError, match="masked"):
        prefixes(pa.array(["1*3"]))


def test_dates() -> None:
    day = datetime.date(2024, 12, 31)
    h = dates(pa.array([day, datetime.date(2024, 11, 1)]))
    assert [level[0].as_py() for level in h.levels()] == [
        "2024-12-31",
        "2024-12",
        "2024-Q4",
        "2024",
        "2020s",
        "*",
    ]
    moments = pa.array([datetime.datetime(2024, 1, 2, 3, 4)])
    assert dates(moments, ["day", "year"]).levels()[1].to_pylist() == ["2024-01-02"]
    with pytest.raises(ColumnError):
        dates(pa.array(["yesterday"]))
    with pytest.raises(ParameterError, match="order"):
        dates(pa.array([day]), ["year", "month"])
    with pytest.raises(ParameterError):
        dates(pa.array([day]), ["week"])


def test_orders_cut_in_groups() -> None:
    h = ordered_groups(
        ["a", "b", "c", "d"], [[1, 2, 1], [2, 1]], [["A", "BC", "D"], ["low", "high"]]
    )
    assert [level.to_pylist() for level in h.levels()[1:3]] == [
        ["A", "BC", "BC", "D"],
        ["low", "low", "low", "high"],
    ]
    assert ordered_groups(["a", "b", "c"], [[1, 2]]).levels()[1].to_pylist() == [
        "a",
        "b … c",
        "b … c",
    ]
    for sizes, labels in [([[1, 1]], ()), ([[3, 0]], ()), ([[3]], [["x", "y"]]), ([[3]], [[], []])]:
        with pytest.raises(ParameterError):
            ordered_groups(["a", "b", "c"], sizes, labels)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("member", pa.array([True, False]), "yes or no"),
        ("born", pa.array([datetime.date(1990, 5, 1)]), "dates"),
        ("born", pa.array(["1990-05-01", "1990-05-02"]), "dates"),
        ("seen", pa.array([datetime.datetime(1990, 5, 1, 12)]), "times"),
        ("children", pa.array([0, 1, 2, 3]), "categories"),
        ("age", pa.array(range(17, 91)), "intervals of 5"),
        ("zip", pa.array([2138, 10001]), "postal codes of 5 digits"),
        ("ward", pa.array(["A01", "A02", "B17"]), "codes of 3 characters"),
        ("icd", pa.array(["E11.9", "E11", "I10"]), "dotted codes"),
        ("colour", pa.array(["red", "green"]), "only \\* above"),
        ("gone", pa.array([None], type=pa.string()), "no values but null"),
    ],
)
def test_inference(name: str, values: pa.Array, reason: str) -> None:
    h, why = infer(name, values)
    assert re.search(reason, why)
    if values.null_count < len(values):
        assert h.bind(values, name).size == len(values)


anything = st.one_of(
    st.lists(st.floats(), max_size=30).map(lambda xs: pa.array(xs, pa.float64())),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30).map(
        lambda xs: pa.array(xs, pa.int64())
    ),
    st.lists(st.integers(0, 99999), max_size=30).map(lambda xs: pa.array(xs, pa.int32())),
    st.lists(st.text(alphabet="a1.-* é", max_size=4), max_size=30).map(pa.array),
    st.lists(st.dates(), max_size=30).map(lambda xs: pa.array(xs, pa.date32())),
    st.lists(st.datetimes(), max_size=30).map(lambda xs: pa.array(xs, pa.timestamp("us"))),
    st.lists(st.decimals(-1000, 1000, places=3), max_size=30).map(
        lambda xs: pa.array(xs, pa.decimal128(10, 3))
    ),
    st.lists(st.times(), max_size=30).map(lambda xs: pa.array(xs, pa.time64("us"))),
    st.lists(st.binary(max_size=3), max_size=30).map(lambda xs: pa.array(xs, pa.binary())),
)


@given(st.sampled_from(["x", "zip"]), anything)
@settings(max_examples=300)
def test_inference_copes_with_anything(name: str, column: pa.Array) -> None:
    values = column.unique()
    h, why = infer(name, values)
    if len(values):
        bound = h.bind(values, name)
        assert bound.size == len(values)
        assert bound.leaf_count[bound.root] == len(values)
    assert why


@pytest.mark.parametrize(
    "numbers",
    [
        [1.7e308, -1.7e308, 0.0, 1.0, 2.0, 3.0, 4.0],
        [5e-324 * 2 * k for k in range(12)],
        [1e15 + k / 4 for k in range(12)],
        [1e300 * k for k in range(12)],
        [1e-300 * k for k in range(12)],
    ],
)
def test_inference_copes_with_extreme_numbers(numbers: list[float]) -> None:
    values = pa.array(numbers)
    h, _ = infer("x", values)
    assert h.bind(values, "x").size == len(numbers)
    assert_labels_are_true(h)
    assert len(h.levels()[1].unique()) > 2


@pytest.mark.parametrize("step", [(0.0, 5e-324), (1e15, 0.125)])
def test_neighbours_with_no_number_between_are_not_cut(step: tuple[float, float]) -> None:
    values = pa.array([step[0] + step[1] * at for at in range(12)])
    h, _ = infer("x", values)
    assert h.levels()[1].unique().to_pylist() == ["*"]


def test_numbers_too_far_apart_are_refused() -> None:
    apart = pa.array([1.7e308, -1.7e308])
    with pytest.raises(ParameterError, match="too far apart"):
        intervals(apart, count=3)
    with pytest.raises(ColumnError, match="too far apart"):
        Ranges(apart, "x")


def test_dotted_codes_meet_above() -> None:
    h, _ = infer("icd", pa.array(["E11.9", "E11", "E11.21.A", "I10"]))
    assert h.levels()[2].to_pylist() == ["E11.*", "E11.*", "E11.*", "I10.*"]


def test_uneven_numbers_are_cut_by_rows() -> None:
    values = pa.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100_000])
    h, why = infer("gain", values)
    assert "equally many rows" in why
    assert len(h.levels()[1].unique()) > 5


def test_every_column_of_adult_gets_one() -> None:
    table = pq.read_table(sample_path("adult.parquet"))
    for name in table.column_names:
        found = table[name].value_counts()
        values, counts = found.field("values"), found.field("counts").to_numpy()
        h, why = infer(name, values, counts)
        bound = h.bind(values, name)
        assert bound.size == len(values)
        assert why


def test_flat() -> None:
    assert flat(pa.array([3, None, 1])).levels()[0].to_pylist() == ["3", "1"]
