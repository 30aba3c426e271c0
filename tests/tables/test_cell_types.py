"""Types of text columns: lossless, or text."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sfumato.tables.celltypes import MISSING_WORDS, ColumnReading

UTC = dt.UTC


def read(cells: list[str | None], *, one_by_one: bool = False, **options) -> tuple[str, list]:
    """Type and values of a column of cells."""
    reading = ColumnReading(**options)
    whole = pa.array(cells, pa.string())
    parts = [pa.array([c], pa.string()) for c in cells] if one_by_one else [whole]
    while True:
        for part in parts:
            reading.see(part)
        if not reading.unsure:
            return str(reading.type()), reading.convert(whole).to_pylist()
        reading = reading.again()


TYPED = [
    (["1", "-20", None], "int64", [1, -20, None]),
    (["0", "9223372036854775807"], "int64", [0, 2**63 - 1]),
    (["12345678901234567890", "1"], "decimal128(38, 0)",
     [Decimal("12345678901234567890"), Decimal(1)]),
    (["1", "1.5"], "double", [1.0, 1.5]),
    (["1.0", "1.5", "-0.25"], "double", [1.0, 1.5, -0.25]),
    (["100000.0", "1e-05", "1e+16"], "double", [1e5, 1e-5, 1e16]),  # as Python writes
    (["1e+05", "50000", "1e-04", "120000"], "double", [1e5, 5e4, 1e-4, 1.2e5]),  # as R writes
    (["inf", "-inf", "1.5"], "double", [math.inf, -math.inf, 1.5]),
    (["1.50", "12.25", "-0.10"], "decimal128(4, 2)",
     [Decimal("1.50"), Decimal("12.25"), Decimal("-0.10")]),
    (["0.1234567890123456789"], "decimal128(20, 19)", [Decimal("0.1234567890123456789")]),
    (["true", "false", None], "bool", [True, False, None]),
    (["TRUE"], "bool", [True]),
    (["2024-02-29", "0001-01-01"], "date32[day]", [dt.date(2024, 2, 29), dt.date(1, 1, 1)]),
    (["2024-02-29 12:30:00"], "timestamp[us]", [dt.datetime(2024, 2, 29, 12, 30)]),
    (["2024-02-29T12:30:00Z", "2024-02-29T12:30:00.25Z"], "timestamp[us, tz=UTC]",
     [dt.datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
      dt.datetime(2024, 2, 29, 12, 30, 0, 250_000, tzinfo=UTC)]),
    (["2024-02-29 12:30:00+02"], "timestamp[us, tz=+02:00]",
     [dt.datetime(2024, 2, 29, 10, 30, tzinfo=UTC)]),
    (["NA", "1"], "int64", [None, 1]),
    (["", "1.5"], "double", [None, 1.5]),
    (["?", "true"], "bool", [None, True]),
]  # fmt: skip

TEXT = [
    ["01", "2"],  # a leading zero belongs to the value
    ["1", "1.0"],  # two texts, one number
    ["+1"],
    ["1e5"],  # nobody writes floats like this
    ["1.50", "2.255"],  # neither one scale nor the shortest digits
    ["0.1234567890123456789", "0.5"],
    ["1e400"],
    ["0x10"],
    ["1_000"],
    [" 1"],
    ["1 "],
    ["1."],
    [".5"],
    ["1,5"],
    ["NaN", "nan"],
    ["Infinity", "1.5"],
    ["True", "false"],
    ["yes", "no"],
    ["-0", "0", "1.5"],
    ["-0.0", "0.0"],
    ["2024-02-30"],
    ["0000-01-01"],
    ["2024-2-9"],
    ["29.02.2024"],
    ["2024-02-29", "2024-02-29 00:00:00"],
    ["2024-02-29 12:30:00", "2024-02-29T12:30:00"],
    ["2024-02-29 12:30:00.50", "2024-02-29 12:30:00.5"],
    ["2024-02-29 12:30:00+02", "2024-02-29 12:30:00+01"],
    ["2024-02-29 12:30:60"],
    ["2024-02-29 12:30:00+99:99"],
    ["1600-01-01 00:00:00.123456789"],
    ["NA", "1", None],  # two ways to say nothing
    ["NA", "x"],
    ["NA"],
    [None],
    ["12345678901234567890123456789012345678901"],
]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize(("cells", "type_", "values"), TYPED)
def test_types_that_lose_nothing(cells, type_, values, one_by_one):
    assert read(cells, one_by_one=one_by_one) == (type_, values)


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("cells", TEXT)
def test_everything_else_is_text(cells, one_by_one):
    assert read(cells, one_by_one=one_by_one) == ("string", cells)


def test_nan_is_a_value_and_not_null():
    type_, values = read(["NaN", "1.5", None])
    assert type_ == "double"
    assert math.isnan(values[0])
    assert values[1:] == [1.5, None]


def test_null_words_of_the_user_hold_in_text_too():
    assert read(["NA", "x", "-"], null_words=["NA", "-"]) == ("string", [None, "x", None])
    assert read(["NA", "5", None], null_words=["NA"]) == ("int64", [None, 5, None])


def test_dictionaries_convert_without_pointing_to_null():
    cells = pa.array(["1", "NA", "x", "NA"]).dictionary_encode()
    text, number = ColumnReading(null_words=["NA"]), ColumnReading()
    text.see(cells)
    values = text.convert(cells)
    assert values.to_pylist() == ["1", None, "x", None]
    assert values.dictionary.null_count == 0
    cells = pa.array(["1", "NA", "2", "NA"]).dictionary_encode()
    number.see(cells)
    assert number.convert(cells) == pa.array([1, None, 2, None])


@pytest.mark.parametrize(("late", "unsure"), [("x", False), ("2.5", True), ("7", False)])
def test_a_late_cell_makes_unsure_only_where_another_type_is_left(late, unsure):
    reading = ColumnReading()
    for cell in ("1", "2", late):
        reading.see(pa.array([cell]))
    assert reading.unsure == unsure


NUMBERS = st.one_of(
    st.integers(-(10**22), 10**22).map(str),
    st.floats(allow_nan=False).map(repr),
    st.floats(allow_nan=False).map(lambda x: repr(x).removesuffix(".0")),
    st.decimals(-100, 100, places=2, allow_nan=False).map(str),
    st.from_regex(r"[+-]?0{0,2}[0-9]{1,4}(\.[0-9]{0,3})?(e[+-]?[0-9]{1,2})?", fullmatch=True),
)
MOMENTS = st.one_of(
    st.dates().map(str),
    st.datetimes().map(str),
    st.datetimes().map(lambda d: d.isoformat()),
    st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=2))])).map(str),
)
CELLS = st.one_of(NUMBERS, MOMENTS, st.sampled_from(MISSING_WORDS), st.booleans().map(str))


def partition(values: list) -> list[int]:
    """Which cells agree: the position of the first one like it. NaN agrees with itself."""
    keys = ["nan" if isinstance(v, float) and math.isnan(v) else v for v in values]
    return [keys.index(key) for key in keys]


@given(st.lists(st.one_of(st.none(), CELLS), max_size=6))
@example(["1e+16", "10000000000000000", "1e16"])
@example(["100000", "1e+05"])
@example(["0.00001", "1e-05", "1e-5"])
@example(["NaN", "nan", "NA", None])
def test_cells_that_differ_in_the_file_differ_in_the_table(cells):
    # -0 is the one number with two spellings (a sign of zero is no value anywhere).
    cells = [c for c in cells if c is None or not c.startswith("-0")]
    _, values = read(cells)
    assert partition(values) == partition(cells)


@given(st.lists(st.floats(allow_nan=False).map(lambda x: x + 0.0), min_size=1, max_size=5))
def test_what_python_writes_as_floats_reads_as_floats(numbers):  # zeros without a sign
    type_, values = read([repr(x) for x in numbers])
    assert type_ == "double"
    assert values == numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_what_arrow_writes_as_floats_reads_as_numbers(numbers):
    cells = pa.array(numbers).cast(pa.string()).to_pylist()
    _, values = read(cells)
    assert [float(v) for v in values] == numbers
