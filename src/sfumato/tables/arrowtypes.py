"""The Arrow types that columns travel in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["plain_type", "with_plain_types"]


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type a column travels in: without extensions and without the rarest widths.

    Extension types are their storage, half floats widen, milliseconds since 1970 that mean a date
    become a date, and decimals wider than needed narrow, so that every engine can hold them.
    """
    import pyarrow as pa
    import pyarrow.types as t

    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if t.is_dictionary(type_):
        value = plain_type(type_.value_type)
        return type_ if value == type_.value_type else value
    if t.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if t.is_float16(type_):
        return pa.float32()
    if t.is_date64(type_):
        return pa.date32()
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if t.is_decimal(type_) and not t.is_decimal128(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    return type_


def with_plain_types(table: pa.Table) -> pa.Table:
    """The same rows in the types of `plain_type`."""
    import pyarrow as pa

    columns = []
    for column in table.columns:
        wanted = plain_type(column.type)
        if isinstance(column.type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in column.chunks]
            column = pa.chunked_array(chunks, type=column.type.storage_type)
        columns.append(column if column.type == wanted else column.cast(wanted))
    return pa.Table.from_arrays(columns, names=table.schema.names)
