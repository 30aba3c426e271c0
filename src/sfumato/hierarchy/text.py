"""How values of every type are written in hierarchies and releases."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["as_text"]


def as_text(values: pa.Array) -> pa.Array:
    """Values as text, null as null; bytes in hexadecimal.

    Examples
    --------
    >>> as_text(pa.array([1.5, 2.0, None])).to_pylist()
    ['1.5', '2', None]
    >>> as_text(pa.array([b"\\xff"])).to_pylist()
    ['ff']
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_text(values.cast(kind.value_type))
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return pa.array(
            [None if item is None else item.hex() for item in values.to_pylist()], pa.string()
        )
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    return values.cast(pa.string())
