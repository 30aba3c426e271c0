"""PostgreSQL's types in Arrow's terms, and rows as they come over the wire.

Rows travel as ``COPY … TO STDOUT (FORMAT csv)`` and are parsed whole batches at a time; no Python
object is made for a cell.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.engines.protocol import Column, column_of
from sfumato.engines.writing import lines, parsed
from sfumato.errors import ColumnError, EngineError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "UNKNOWN_SIZE",
    "arrow_type",
    "csv_batches",
    "csv_lines",
    "decimal_of",
    "postgres_type",
    "too_long",
]

_MOST_DIGITS = 76
UNKNOWN_SIZE = "decimal of unknown size"
"""Stands for the type of a `numeric` whose digits have to be counted."""


def arrow_type(name: str, category: str, precision: int | None, scale: int | None) -> Any:
    """The Arrow type of a PostgreSQL type; None for a nested one.

    Parameters
    ----------
    name, category
        ``typname`` and ``typcategory`` of the catalog.
    precision, scale
        Of a `numeric`, where it declares them.

    Examples
    --------
    >>> arrow_type("int4", "N", None, None)
    DataType(int32)
    >>> arrow_type("uuid", "U", None, None)
    DataType(string)
    """
    import pyarrow as pa

    plain = {
        "bool": pa.bool_(),
        "int2": pa.int16(),
        "int4": pa.int32(),
        "int8": pa.int64(),
        "oid": pa.int64(),
        "float4": pa.float32(),
        "float8": pa.float64(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "bytea": pa.binary(),
    }
    if name in plain:
        return plain[name]
    if name == "numeric":
        if precision is None or scale is None or max(precision, precision - scale) > _MOST_DIGITS:
            return UNKNOWN_SIZE
        return decimal_of(precision - scale, scale)
    if category in ("A", "C") or name in ("record", "int2vector", "oidvector"):
        return None
    # Everything else has a text form that is one to one: text itself, uuid, enumerations,
    # intervals, addresses, ranges, JSON as it was written.
    return pa.string()


def decimal_of(whole: int, scale: int) -> pa.DataType | None:
    """A decimal with so many digits before and after the point; None if Arrow has none."""
    import pyarrow as pa

    scale = max(scale, 0)
    digits = max(whole, 0) + scale
    if digits <= 38:
        return pa.decimal128(max(digits, 1), scale)
    return pa.decimal256(digits, scale) if digits <= _MOST_DIGITS else None


def postgres_type(type_: pa.DataType) -> str:
    """What to call an Arrow type in PostgreSQL.

    Examples
    --------
    >>> import pyarrow as pa
    >>> postgres_type(pa.decimal128(10, 2)), postgres_type(pa.large_string())
    ('decimal(10, 2)', 'text')
    """
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return postgres_type(type_.value_type)
    if t.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    if t.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    if t.is_time(type_):
        return "time"
    if t.is_date(type_):
        return "date"
    if t.is_boolean(type_):
        return "boolean"
    if t.is_floating(type_):
        return "real" if type_ in (pa.float16(), pa.float32()) else "double precision"
    if t.is_integer(type_):
        if type_ == pa.uint64():
            return "decimal(20, 0)"
        return "bigint" if type_.bit_width == 64 or type_ == pa.uint32() else "integer"
    if column_of("", type_).kind == "binary":
        return "bytea"
    return "text"


def csv_batches(
    messages: Iterable[Any], columns: Sequence[Column], rows: int, where: str
) -> Iterator[pa.RecordBatch]:
    """Record batches of at most `rows` rows from COPY's messages, each of which is one row."""
    held, count = io.BytesIO(), 0
    for message in messages:
        held.write(message)
        count += 1
        if count == rows:
            yield _parsed(held.getbuffer(), columns, where)
            held, count = io.BytesIO(), 0
    if count:
        yield _parsed(held.getbuffer(), columns, where)


def csv_lines(table: pa.Table) -> Iterator[Any]:
    """A table of at least two columns as text that COPY reads."""
    import pyarrow as pa

    for batch in table.to_batches():
        arrays = [_hexadecimal(array) for array in batch.columns]
        yield lines(pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), ",")


def _parsed(data: memoryview, columns: Sequence[Column], where: str) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.csv

    names = [f"c{at}" for at in range(len(columns))]
    text = pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(
            column_names=names, block_size=max(len(data) + 1, 1 << 16), use_threads=False
        ),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).combine_chunks()
    arrays = []
    for cells, column in zip(text.columns, columns, strict=True):
        try:
            arrays.append(_valued(_whole(cells), column.type))
        except pa.ArrowException as error:  # its words quote the cell
            raise ColumnError(
                f"column `{column.name}` holds a {column.kind} beyond what Arrow can represent",
                where=where,
                remedy="Infinite or very remote dates and not-a-number decimals are such values: "
                "leave them out or cast the column to text in a query.",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _whole(cells: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    return cells.chunk(0) if cells.num_chunks else pa.array([], cells.type)


def _valued(text: pa.Array, type_: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    if t.is_boolean(type_):
        return pc.equal(text, "t")
    if t.is_binary(type_):
        # PostgreSQL writes bytes as \x and hexadecimal digits.
        values = [None if cell is None else bytes.fromhex(cell[2:]) for cell in text.to_pylist()]
        return pa.array(values, type_)
    return parsed(text, type_)


def _hexadecimal(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    if column_of("", array.type).kind != "binary":
        return array
    return pa.array([None if v is None else "\\x" + v.hex() for v in array.to_pylist()])


def too_long(name: str, where: str) -> EngineError:
    """What to say about a column name that PostgreSQL would cut off."""
    return EngineError(
        f"column `{name}` has a name longer than the 63 bytes PostgreSQL allows",
        where=where,
        remedy="Rename it in a query.",
    )
