"""Spark's types in Arrow's terms, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.engines.protocol import Column, column_of
from sfumato.errors import ColumnError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["by_position", "columns_of", "uploadable"]


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
    import pyarrow as pa
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


def _arrow_type(field: Any, where: str) -> pa.DataType:
    import pyarrow as pa
    from pyspark.sql import types as s

    type_ = field.dataType
    plain: Sequence[tuple[Any, pa.DataType]] = (
        (s.BooleanType, pa.bool_()),
        (s.ByteType, pa.int8()),
        (s.ShortType, pa.int16()),
        (s.IntegerType, pa.int32()),
        (s.LongType, pa.int64()),
        (s.FloatType, pa.float32()),
        (s.DoubleType, pa.float64()),
        (s.DateType, pa.date32()),
        (s.TimestampType, pa.timestamp("us", "UTC")),
        (s.TimestampNTZType, pa.timestamp("us")),
        (s.DayTimeIntervalType, pa.duration("us")),
        (s.BinaryType, pa.binary()),
        (s.NullType, pa.null()),
    )
    for spark, arrow in plain:
        if isinstance(type_, spark):
            return arrow
    if isinstance(type_, s.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, s.StringType) or _needs_text(type_):
        return pa.string()
    if type_.typeName() == "time":
        return pa.time64("ns")
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
    import pyarrow as pa
    import pyarrow.types as t
    from pyspark.sql import types as s

    if t.is_dictionary(type_):
        return _spark_type(type_.value_type)
    if t.is_decimal(type_):
        if type_.precision > 38:
            raise ParameterError(
                "Spark has no decimals of more than 38 digits", remedy="Make the column text."
            )
        scale = max(type_.scale, 0)
        return pa.decimal128(type_.precision, scale), s.DecimalType(type_.precision, scale)
    if t.is_timestamp(type_):
        if type_.tz:
            return pa.timestamp("us", "UTC"), s.TimestampType()
        return pa.timestamp("us"), s.TimestampNTZType()
    if type_ == pa.uint64():
        return pa.decimal128(20, 0), s.DecimalType(20, 0)
    by_kind = {
        "boolean": (pa.bool_(), s.BooleanType()),
        "date": (pa.date32(), s.DateType()),
        "duration": (pa.duration("us"), s.DayTimeIntervalType()),
        "binary": (pa.binary(), s.BinaryType()),
        "text": (pa.string(), s.StringType()),
        "null": (pa.string(), s.StringType()),
    }
    kind = column_of("", type_).kind
    if kind in by_kind:
        return by_kind[kind]
    if kind == "time":
        return pa.time64("ns"), s.TimeType()
    if kind == "float":
        narrow = type_ in (pa.float16(), pa.float32())
        return (pa.float32(), s.FloatType()) if narrow else (pa.float64(), s.DoubleType())
    for arrow, spark in (
        (pa.int8(), s.ByteType()),
        (pa.int16(), s.ShortType()),
        (pa.int32(), s.IntegerType()),
    ):
        signed = t.is_signed_integer(type_)
        if type_.bit_width < arrow.bit_width or (signed and type_.bit_width == arrow.bit_width):
            return arrow, spark
    return pa.int64(), s.LongType()
