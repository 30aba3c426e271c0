"""Tables with everything that engines are known to disagree about, and a plain oracle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sfumato.engines.protocol import Codes

NAN, INFINITY = float("nan"), float("inf")


def zoo() -> pa.Table:
    """Twelve rows with a column for every type, nulls and duplicates in each."""
    return pa.table(
        {
            "id": pa.array(range(12), pa.int32()),
            "small": pa.array([1, 1, -1, None, 32767, -32768, 0, 0, 2, 2, 3, None], pa.int16()),
            "big": pa.array(
                [2**63 - 1, -(2**63), 2**53, 2**53 + 1, None, 0, 0, 1, 2**53, None, -1, 7],
                pa.int64(),
            ),
            "double": pa.array(
                [0.0, -0.0, NAN, NAN, None, 1.5, INFINITY, -INFINITY, 1e-300, 0.1, 1.5, None]
            ),
            "single": pa.array(
                [0.1, -0.0, 0.0, NAN, None, 0.1, -NAN, 3e38, 1.5, 1.5, -1.5, None], pa.float32()
            ),
            "price": pa.array(
                [Decimal(v) if v else None for v in (
                    "1.00", "1.0", "-0.00", "0", None, "99999999.99", "-99999999.99", "0.01",
                    "1", "2.5", "2.50", None,
                )],
                pa.decimal128(10, 2),
            ),
            "huge": pa.array(
                [Decimal(10) ** 37, Decimal(10) ** 37 + 1, None, *map(Decimal, range(9))],
                pa.decimal128(38, 0),
            ),
            "birth": pa.array(
                [date(1969, 12, 31), date(1970, 1, 1), date(2020, 2, 29), None, date(1, 1, 1),
                 date(9999, 12, 31), None, *[date(1970, 1, 1)] * 5]
            ),
            "local": pa.array(
                [datetime(2021, 3, 14, 2, 30), datetime(2021, 3, 14, 2, 30, 0, 1), None,
                 *[datetime(1969, 12, 31, 23, 59, 59, 999999)] * 9],
                pa.timestamp("us"),
            ),
            "moment": pa.array(
                [datetime(2021, 11, 7, hour, 30, tzinfo=UTC) for hour in (5, 6, 5, 6, 7, 5)]
                + [None, datetime(1969, 1, 1, tzinfo=UTC), None]
                + [datetime(2021, 11, 7, 5, 30, 0, 1, tzinfo=UTC)] * 3,
                pa.timestamp("us", "UTC"),
            ),
            "yes": pa.array([True, False, None] * 4),
            "text": pa.array(
                ["", " ", None, "a", "A", "é", "e\u0301", "日本", '"q"', "2\nlines\t\\N", "", "a"]
            ),
            "blob": pa.array(
                [b"", b"\x00", b"\x00\xff", None, b"a", b"a", None, *[b"\\x00"] * 5], pa.binary()
            ),
            "empty": pa.array([None] * 12, pa.string()),
        }
    )  # fmt: skip


def odd_names() -> pa.Table:
    """Columns whose names mean something else to a database."""
    names = [
        "select", "group", "order", 'say "hi"', "it's", "`tick`", "dot.ted", "semi;colon --", "a",
        "A", "count", "size", "c0", "position", "origin", "straße", "with space", "%s", "{x}", "*",
    ]  # fmt: skip
    return pa.table({name: [at % 2, at % 3, at % 5, at % 2] for at, name in enumerate(names)})


def comparable(value: Any) -> Any:
    """A value such that equal values, in Sfumato's sense, are equal in Python."""
    if isinstance(value, float):
        return "not a number" if math.isnan(value) else value + 0.0
    return value


def rows_of(table: pa.Table, columns: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    """Rows as tuples of comparable values."""
    names = table.column_names if columns is None else list(columns)
    cells = [map(comparable, table.column(name).to_pylist()) for name in names]
    return list(zip(*cells, strict=True)) if names else [()] * table.num_rows


def classes_of(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The classes of a column set with their counts, by plain counting."""
    return Counter(rows_of(table, columns))


def decoded(codes: Codes) -> dict[tuple[Any, ...], int]:
    """Classes that an engine answered with, as values."""
    assert codes.counts is not None
    cells = []
    for array, values in zip(codes.arrays, codes.values, strict=True):
        plain = [comparable(value) for value in values.to_pylist()]
        cells.append([plain[code] for code in array.tolist()])
    found = list(zip(*cells, strict=True)) if cells else [()] * codes.entries
    assert len(set(found)) == len(found)
    return dict(zip(found, codes.counts.tolist(), strict=True))
