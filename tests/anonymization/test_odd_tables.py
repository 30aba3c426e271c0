"""Columns of unusual types, and tables of unusual shape, are released or refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError

ROWS = 24


def every(*values: object) -> list[object]:
    return [values[i % len(values)] for i in range(ROWS)]


UTC = dt.UTC
ODD = {
    "decimal": pa.array(every(Decimal("0.25"), Decimal("1.5"), None), pa.decimal128(10, 2)),
    "wide decimal": pa.array(every(Decimal(10) ** 40, Decimal(10) ** 40 + 1), pa.decimal256(50, 0)),
    "time with zone": pa.array(
        every(dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 5, 1, tzinfo=UTC)),
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "nanoseconds": pa.array(every(1577836800000000001, 1577836800000000002), pa.timestamp("ns")),
    "time": pa.array(every(dt.time(1), dt.time(2)), pa.time64("us")),
    "duration": pa.array(every(dt.timedelta(1), dt.timedelta(2)), pa.duration("s")),
    "nothing": pa.nulls(ROWS),
    "no text": pa.nulls(ROWS, pa.string()),
    "no number": pa.nulls(ROWS, pa.int64()),
    "huge": pa.array(every(2**63, 2**63 + 1, 2**64 - 1), pa.uint64()),
    "lowest": pa.array(every(-(2**63), -(2**63) + 1), pa.int64()),
    "no number at all": pa.array(every(float("nan"), 1.0, None, 2.0)),
    "endless": pa.array(every(float("inf"), float("-inf"), 0.0, -0.0)),
    "truth": pa.array(every(True, False, None)),
    "half": pa.array(np.array(every(0.5, 1.5), np.float16)),
    "bytes": pa.array(every(b"\xff\x00", b"\x00")),
    "dictionary": pa.array(every("a", "b", None)).dictionary_encode(),
    "labels": pa.array(every("", "{a, b}", "[1, 2)", "null", "\n\t\"',;")),
    "large text": pa.array(every("x" * 1000, "ü\u202e😀"), pa.large_string()),
    "text view": pa.array(every("p", "q"), pa.string_view()),
}


@pytest.mark.crossed(20)
@pytest.mark.parametrize("method", ["mondrian", "lattice", "full-domain"])
@pytest.mark.parametrize("name", ODD)
def test_odd_columns_are_released_and_verified(name: str, method: str, tmp_path: Path) -> None:
    table = pa.table({name: ODD[name], "q": every(1, 2, 3), "s": every("x", "y", "z", "w")})
    for ending in ("csv", "parquet"):
        out = str(tmp_path / f"out.{ending}")
        sf.anonymize(table, qi=[name, "q"], k=3, sensitive=["s"], l=2, method=method, output=out)
        assert sf.verify(out).holds


NESTED = [
    pa.array([[1]] * 4),
    pa.array([{"a": 1}] * 4),
    pa.array([[("a", 1)]] * 4, pa.map_("string", "int8")),
]


@pytest.mark.parametrize("column", NESTED)
def test_nested_columns_are_refused(column: pa.Array) -> None:
    with pytest.raises(ColumnError, match="nested"):
        sf.anonymize(pa.table({"n": column, "q": [1, 1, 2, 2]}), qi=["q"], k=2)


def test_names_and_sizes() -> None:
    twice = pa.Table.from_arrays([pa.array([1, 1]), pa.array([2, 2])], names=["a", "a"])
    nameless = pa.Table.from_arrays([pa.array([1, 1])], names=[""])
    for table, says in ((twice, "occurs 2 times"), (nameless, "has no name")):
        with pytest.raises(ColumnError, match=says):
            sf.anonymize(table, qi=["a"], k=2)
    assert sf.anonymize(pa.table({"a": [1]}), qi=["a"], k=1).rows == 1
    with pytest.raises(ParameterError, match="nothing to release"):
        sf.anonymize(pa.table({"a": pa.array([], pa.int64())}), qi=["a"], k=1)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow"])
@pytest.mark.parametrize("method", ["cells", "mondrian"])
def test_the_sign_of_zero_tells_nobody_apart(method: str, ending: str, tmp_path: Path) -> None:
    """0.0 and -0.0 are equal, so they must read alike where the column is kept."""
    table = pa.table(
        {
            "zero": pa.array([-0.0, 0.0, 0.0]),
            "half": pa.array(np.array([-0.0, 0.0, 0.0], np.float16)),
            "labels": pa.array([-0.0, 0.0, 0.0]).dictionary_encode(),
            "sex": ["F", "M", "F"],
        }
    )
    out = tmp_path / f"out.{ending}"
    names = table.column_names
    release = sf.anonymize(table, qi=names, k=3, method=method, output=str(out))
    assert sf.verify(str(out)).holds
    read = sf.table(str(out)).sample(3)
    shown = [str(cell) for row in read.to_pylist() for cell in row.values()]
    assert release.suppressed_cells == shown.count("*") == 3
    assert len({tuple(map(str, row.values())) for row in read.to_pylist()}) == 1


def test_of_one_row_no_k_is_recommended_that_cannot_be_asked() -> None:
    rows = pa.table({"age": [30], "sex": ["F"]})
    with pytest.raises(
        ParameterError, match=r"which has 1 row\. There is nothing to release"
    ) as told:
        sf.anonymize(rows, qi=["age", "sex"], k=2)
    assert "k <=" not in str(told.value)
