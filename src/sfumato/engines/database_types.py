"""Types of PostgreSQL and Spark in Arrow's terms and back, and cells on their way.

PostgreSQL's rows travel as text and are parsed whole batches at a time; no Python object is made
for a cell. Spark's travel as Arrow.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from sfumato.engines.protocol import Column, column_of
from sfumato.engines.writing import parsed, written
from sfumato.errors import ColumnError, ParameterError
from sfumato.kernels import class_ids, group_rows
from sfumato.kernels.ranking import by_appearance, translate

if TYPE_CHECKING:
    import numpy.typing as npt
    import psycopg
    from pyspark.sql import DataFrame


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
    column = column_of("", type_)
    held = column.type
    if column.kind == "decimal":
        return f"decimal({held.precision}, {held.scale})"
    if column.kind == "timestamp":
        return "timestamptz" if held.tz else "timestamp"
    if column.kind == "float":
        return "real" if held.bit_width < 64 else "double precision"
    if column.kind == "integer":
        if held == pa.uint64():
            return "decimal(20, 0)"
        return "bigint" if held.bit_width == 64 or held == pa.uint32() else "integer"
    return {"boolean": "boolean", "date": "date", "time": "time", "binary": "bytea"}.get(
        column.kind, "text"
    )


def bare(columns: Sequence[Column]) -> bool:
    """Whether no text of a cell needs quotes: then COPY's own format is quicker than CSV."""
    return not any(column.kind in ("text", "binary", "null") for column in columns)


def copied_batches(
    messages: Iterable[Any], columns: Sequence[Column], rows: int, where: str
) -> Iterator[pa.RecordBatch]:
    """Record batches of at most `rows` rows from COPY's messages, each of which is one row.

    They are CSV, unless the columns are `bare`. Of long rows fewer make a batch.
    """
    messages = iter(messages)
    more = True
    while more:
        held, number = BytesIO(), 0
        while more and number < rows and held.tell() < _BATCH_BYTES:
            before, some = held.tell(), min(_FEW, rows - number)
            held.writelines(islice(messages, some))  # one by one: to hold many apart takes longer
            more, number = held.tell() > before, number + some
        if held.tell():
            yield _parsed(held.getbuffer(), columns, where)


def copied_text(table: pa.Table | pa.RecordBatch) -> Iterator[pa.Buffer]:
    r"""A table as text that COPY reads.

    Rows that show the same labels, which are numbers of what stands in dictionaries, come one after
    the other: the labels are written once for all of them, and whoever counts them is quicker.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"name": ["Ann", "a\tb", None], "age": [30, None, 50]})
    >>> b"".join(copied_text(rows))
    b'Ann\t30\na\\tb\t\\N\n\\N\t50\n'
    >>> labels = pa.array(["young", "old", "young"]).dictionary_encode()
    >>> b"".join(copied_text(pa.table({"age": labels, "pay": [1, 2, 3]})))
    b'young\t1\nyoung\t3\nold\t2\n'
    """
    for batch in [table] if isinstance(table, pa.RecordBatch) else table.to_batches():
        labelled = [t.is_dictionary(column.type) for column in batch.columns]
        if any(labelled) and batch.num_rows:
            yield from _by_labels(batch, labelled)
            continue
        rows = max(batch.num_rows // (1 + batch.nbytes // _TEXT_BYTES), 1)
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            texts = [_escaped(*pair) for pair in zip(part.columns, part.schema.names, strict=True)]
            yield _joined(texts).buffers()[2]


def _by_labels(batch: pa.RecordBatch, labelled: Sequence[bool]) -> Iterator[pa.Buffer]:
    """The same of rows of which some columns are labels.

    Those of equal labels follow the first of them: where rows are tells no more than it did.
    """
    columns = list(zip(batch.columns, batch.schema.names, labelled, strict=True))
    labels = [array for array, _, label in columns if label]
    codes = [_codes(array) for array in labels]
    spaces = [len(array.dictionary) + 1 for array in labels]
    ids, count = class_ids(codes, spaces, ordered=False, threads=1)
    shown = by_appearance(ids.view(np.int32), np.empty(0, np.bool_), count)[0] - np.uint32(1)
    order, starts = group_rows(shown, count)
    firsts, shown = order[starts[:-1]], shown[order]
    sizes = np.zeros(count, np.int64)
    for array, own in zip(labels, codes, strict=True):
        lengths = pc.fill_null(pc.binary_length(array.dictionary), 0).to_numpy()
        sizes += np.append(lengths, 0)[own[firsts]] + 1
    beside = sum(array.nbytes for array, _, label in columns if not label) // len(order)
    ends = np.cumsum(sizes[shown] + beside)
    cuts = np.searchsorted(ends, np.arange(_TEXT_BYTES, int(ends[-1]), _TEXT_BYTES), "right")
    values = {name: _escaped(array.dictionary, name) for array, name, label in columns if label}
    for start, end in pairwise(dict.fromkeys([0, *cuts.tolist(), len(order)])):
        least, most = shown[start], shown[end - 1] + 1
        rows, classes = pa.array(order[start:end]), pa.array(firsts[least:most])
        which, texts = pa.array(shown[start:end] - least), []
        for label, run in groupby(columns, key=itemgetter(2)):
            if label:
                once = [values[name].take(array.indices.take(classes)) for array, name, _ in run]
                texts.append(_joined(once, "\n" if all(labelled) else "").take(which))
            else:
                texts += [_escaped(array.take(rows), name) for array, name, _ in run]
        yield (texts[0] if all(labelled) else _joined(texts)).buffers()[2]


def _codes(labels: pa.DictionaryArray) -> npt.NDArray[Any]:
    """Numbers that are equal where labels are, even if a label has several places."""
    most = len(labels.dictionary)  # the number of what is null
    places = pc.fill_null(labels.dictionary.dictionary_encode().indices, most).to_numpy()
    places = np.append(places, most).astype(np.min_scalar_type(most))
    return translate(pc.fill_null(labels.indices, most).to_numpy(), places)


def _joined(texts: Sequence[pa.Array], end: str = "\n") -> pa.Array:
    """Cells side by side, as lines or as parts of them."""
    absent = {"null_handling": "replace", "null_replacement": r"\N"}
    if end:  # with the last cells alone that is less to move
        texts = [*texts[:-1], pc.binary_join_element_wise(texts[-1], "", end, **absent)]
    return pc.binary_join_element_wise(*texts, "\t", **absent) if len(texts) > 1 else texts[0]


def _escaped(array: pa.Array, name: str) -> pa.Array:
    """Cells as text in which nothing ends a cell or a line."""
    found = _plain(array, name)
    if not t.is_string(found.type):
        return found.cast(pa.string())
    _, offsets, data = found.buffers()
    ends = memoryview(offsets).cast("B").cast("i")[found.offset :]
    shown = bytes(memoryview(data)[ends[0] : ends[len(found)]]) if data is not None else b""
    for special, written_as in _SPECIAL.items():
        if special.encode() in shown:
            found = pc.replace_substring(found, special, written_as)
    return found


_SPECIAL = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
"""Characters that COPY reads otherwise, and how they are written; first what writes the others."""
_PIECE = 1 << 17
"""Bytes that are on their way to a COPY."""
_TEXT_BYTES = 1 << 24
"""Bytes of cells of which one text is made at a time."""
_BATCH_BYTES, _FEW = 1 << 24, 1024
"""Bytes of a batch on its way, about, and rows that come before these are looked at again."""


def _parsed(data: memoryview, columns: Sequence[Column], where: str) -> pa.RecordBatch:
    whole = [t.is_integer(column.type) for column in columns]
    plainly = bare(columns)
    try:
        read = _read(
            data,
            [c.type if w else pa.string() for c, w in zip(columns, whole, strict=True)],
            plainly,
        )
    except pa.ArrowInvalid:  # which column it is shows cell by cell
        whole = [False] * len(columns)
        read = _read(data, [pa.string()] * len(columns), plainly)
    arrays = []
    for cells, column, done in zip(read.columns, columns, whole, strict=True):
        try:
            one = cells.chunk(0) if cells.num_chunks else pa.array([], cells.type)
            arrays.append(one if done else _valued(one, column.type))
        except pa.ArrowException as error:  # its words quote the cell
            raise ColumnError(
                f"column `{column.name}` holds a {column.kind} that Arrow cannot represent",
                where=where,
                remedy="Infinite or very remote dates and not-a-number decimals are such values: "
                "leave them out or cast the column to text in a query.",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _read(data: memoryview, types: Sequence[pa.DataType], plainly: bool) -> pa.Table:
    """Cells of these types; whole numbers need not become text first."""
    from pyarrow import csv

    kinds = {f"c{at}": type_ for at, type_ in enumerate(types)}
    cut = {"delimiter": "\t", "quote_char": False} if plainly else {}
    return csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(
            column_names=list(kinds), block_size=max(len(data) + 1, 1 << 16), use_threads=False
        ),
        parse_options=csv.ParseOptions(
            newlines_in_values=not plainly, ignore_empty_lines=False, **cut
        ),
        convert_options=csv.ConvertOptions(
            column_types=kinds,
            null_values=["\\N" if plainly else ""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).combine_chunks()


def _valued(text: pa.Array, type_: pa.DataType) -> pa.Array:
    if t.is_boolean(type_):
        return pc.equal(text, "t")
    if t.is_binary(type_):
        # PostgreSQL writes bytes as \x and hexadecimal digits.
        values = [None if cell is None else bytes.fromhex(cell[2:]) for cell in text.to_pylist()]
        return pa.array(values, type_)
    return parsed(text, type_)


def _plain(array: pa.Array, name: str) -> pa.Array:
    """Cells as numbers or text that PostgreSQL reads."""
    if t.is_integer(array.type) or t.is_string(array.type):
        return array
    if column_of("", array.type).kind == "binary":
        return pa.array([None if v is None else "\\x" + v.hex() for v in array.to_pylist()])
    return written(array, name)


def sent(connection: psycopg.Connection[Any], copying: str, texts: Iterable[Any]) -> None:
    """Send text to a COPY, piece by piece, each when the server has taken the one before.

    Whatever it has not taken libpq keeps, however much that is, and moves each time some is taken.
    """
    from psycopg.waiting import Wait

    pgconn = connection.pgconn

    def taken() -> Generator[Wait, Any]:
        while pgconn.flush():
            yield Wait.W

    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        for text in texts:
            for start in range(0, len(text), _PIECE):
                copy.write(text[start : start + _PIECE])
                connection.wait(taken())


def received(connection: psycopg.Connection[Any], copying: str) -> Generator[Any]:
    """The messages of a COPY, each of which is one row; the driver is asked only to wait."""
    from psycopg.errors import error_from_result
    from psycopg.pq import ExecStatus

    pgconn = connection.pgconn
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        while True:
            size, message = pgconn.get_copy_data(1)
            if size > 0:
                yield message
            elif size == 0:
                waited_for = copy.read()
                if not waited_for:
                    return
                yield waited_for
            else:
                break
        # The connection is at rest only after the last result.
        for result in list(iter(pgconn.get_result, None)):
            if result.status != ExecStatus.COMMAND_OK:
                raise error_from_result(result)


def columns_of(frame: DataFrame, where: str) -> tuple[Column, ...]:
    """Columns and types of a data frame."""
    columns: list[Column] = []
    for field in frame.schema.fields:
        if any(field.name == known.name for known in columns):
            raise ColumnError(
                f"column `{field.name}` occurs more than once",
                where=where,
                remedy="Rename or drop one of them.",
            )
        columns.append(column_of(field.name, _arrow_type(field, where), where=where))
    return tuple(columns)


def by_position(frame: DataFrame) -> DataFrame:
    """The same rows with columns c0, c1, …; text compares byte for byte."""
    names = [f"c{at}" for at in range(len(frame.columns))]
    # By position, since Spark cannot tell apart names that differ in case only.
    renamed = frame.toDF(*names)
    casts = [
        renamed[name].cast("string") if _needs_text(field.dataType) else renamed[name]
        for name, field in zip(names, frame.schema.fields, strict=True)
    ]
    return renamed.select(*[cell.alias(name) for cell, name in zip(casts, names, strict=True)])


def uploadable(table: pa.Table) -> tuple[pa.Table, Any]:
    """An Arrow table in types that Spark has, and its Spark schema."""
    from pyspark.sql import types as s

    pairs = [_spark_type(field.type) for field in table.schema]
    arrays = [
        column if column.type == arrow else column.cast(arrow)
        for column, (arrow, _) in zip(table.columns, pairs, strict=True)
    ]
    fields = [
        s.StructField(name, spark)
        for name, (_, spark) in zip(table.column_names, pairs, strict=True)
    ]
    return pa.table(arrays, names=table.column_names), s.StructType(fields)


_SPARK = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "DateType": pa.date32(),
    "TimeType": pa.time64("ns"),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "BinaryType": pa.binary(),
    "StringType": pa.string(),
    "NullType": pa.null(),
}
"""Spark's types that need no digits, by the names of their classes."""


def _arrow_type(field: Any, where: str) -> pa.DataType:
    type_ = field.dataType
    if type_.typeName() == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    found = pa.string() if _needs_text(type_) else _SPARK.get(type(type_).__name__)
    if found is not None:
        return found
    raise ColumnError(
        f"column `{field.name}` holds nested values ({type_.simpleString()}), which cannot be "
        "compared cell by cell",
        where=where,
        remedy="Flatten it into plain columns, or drop it.",
    )


def _needs_text(type_: Any) -> bool:
    """Text of another collation or of fixed length, and intervals that Spark cannot group by."""
    from pyspark.sql import types as s

    if isinstance(type_, (s.CharType, s.VarcharType, s.YearMonthIntervalType)):
        return True
    if isinstance(type_, s.StringType):
        return getattr(type_, "collation", "UTF8_BINARY") != "UTF8_BINARY"
    return bool(type_.typeName() in ("interval", "calendarinterval"))


def _spark_type(type_: pa.DataType) -> tuple[pa.DataType, Any]:
    """The Arrow type to convert to, and the Spark type it becomes."""
    from pyspark.sql import types as s

    column = column_of("", type_)
    held, kind = column.type, column.kind
    if held == pa.uint64():
        held = pa.decimal128(20, 0)
    if t.is_decimal(held):
        if held.precision > 38:
            raise ParameterError(
                "Spark has no decimals of more than 38 digits", remedy="Make the column text."
            )
        scale = max(held.scale, 0)
        return pa.decimal128(held.precision, scale), s.DecimalType(held.precision, scale)
    if kind == "integer":
        bits = held.bit_width + t.is_unsigned_integer(held)
        arrow = next(one for one in _INTEGERS if one.bit_width >= bits)
    elif kind == "float":
        arrow = pa.float32() if held.bit_width < 64 else pa.float64()
    elif kind == "timestamp":
        arrow = pa.timestamp("us", "UTC" if held.tz else None)
    else:
        arrow = _OTHERS.get(kind, pa.string())
    return arrow, getattr(s, next(name for name, one in _SPARK.items() if one == arrow))()


_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_OTHERS = {
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.time64("ns"),
    "duration": pa.duration("us"),
    "binary": pa.binary(),
}
