"""The Arrow types that columns travel in."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 38

__all__ = ["plain_array", "plain_type", "with_plain_types"]


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type a column travels in: without extensions and without the rarest widths.

    Extension types are their storage, half floats widen, milliseconds since 1970 that mean a date
    become a date, instants in a time zone that nobody knows are the same instants in UTC, and
    decimals have 128 bits or, beyond 38 digits, are text: so every engine can hold them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plain_type(pa.date64())
    DataType(date32[day])
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
    if t.is_timestamp(type_) and type_.tz is not None and not _known_zone(type_.tz):
        return pa.timestamp(type_.unit, "UTC")
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if t.is_decimal(type_) and not t.is_decimal128(type_):
        fits = type_.precision <= _DIGITS
        return pa.decimal128(type_.precision, type_.scale) if fits else pa.string()
    return type_


@cache
def _known_zone(name: str) -> bool:
    import pyarrow as pa

    try:
        pa.array([0], pa.timestamp("s", name)).cast(pa.string())
    except pa.ArrowException:
        return False
    return True


def plain_array(array: pa.Array) -> pa.Array:
    """The same values in the type of `plain_type`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = plain_type(array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        return plain_array(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return plain_array(pc.run_end_decode(array))
    return array if array.type == wanted else array.cast(wanted)


def with_plain_types(table: pa.Table) -> pa.Table:
    """The same rows in the types of `plain_type`."""
    import pyarrow as pa

    columns = [
        pa.chunked_array([plain_array(chunk) for chunk in column.chunks], plain_type(column.type))
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.schema.names)
