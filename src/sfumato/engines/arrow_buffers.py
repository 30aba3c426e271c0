"""Arrow cells as numbers in the order of their values, and back.

Buffers are read where they are: pyarrow's own conversions copy, and load pandas where it is
installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

__all__ = [
    "as_arrow",
    "plain_type",
    "sortable",
    "stored_cells",
    "text_cells",
    "valid_cells",
    "values_of",
]

_NOT_A_NUMBER = np.iinfo(np.int64).max
_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_SIGN = np.uint64(1 << 63)
_ALL_VALID = np.empty(0, np.bool_)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values are compared: no dictionary, no runs, no views."""
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if t.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if t.is_binary_view(type_) else type_


def sortable(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Values as integers in the same order, and which are not null (empty when all are).

    -0.0 and 0.0 become one integer, all NaNs the largest.

    Examples
    --------
    >>> import pyarrow as pa
    >>> keys, valid = sortable(pa.array([1.5, -2.0, 0.0, -0.0]))
    >>> bool(keys[1] < keys[2] == keys[3] < keys[0]), len(valid)
    (True, 0)
    """
    type_ = plain_type(array.type)
    if type_ != array.type:
        array = array.cast(type_)
    valid = valid_cells(array)
    stored = stored_cells(array.cast("uint8") if t.is_boolean(type_) else array)
    if t.is_floating(type_):
        floats = stored.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        bits = floats.view(np.int64)
        keys = bits ^ ((bits >> 63) & _ALL_BUT_SIGN)
        keys[np.isnan(floats)] = _NOT_A_NUMBER
        return keys, valid
    if stored.dtype == np.uint64:
        return (stored ^ _SIGN).view(np.int64), valid
    return stored.astype(np.int64, copy=False), valid


def values_of(keys: npt.NDArray[np.int64], type_: pa.DataType, nulls: bool) -> pa.Array:
    """Values again, from their integers; a null last if there is one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> keys, _ = sortable(pa.array([1.5, -2.0]))
    >>> values_of(keys, pa.float64(), nulls=True).to_pylist()
    [1.5, -2.0, None]
    """
    type_ = plain_type(type_)
    if t.is_floating(type_):
        bits = keys ^ ((keys >> 63) & _ALL_BUT_SIGN)
        bits[keys == _NOT_A_NUMBER] = np.array(np.nan).view(np.int64)
        values = as_arrow(bits.view(np.float64).astype(_stored_as(type_)), type_)
    elif t.is_boolean(type_):
        values = as_arrow(keys.astype(np.uint8)).cast(type_)
    elif t.is_uint64(type_):
        values = as_arrow(keys.view(np.uint64) ^ _SIGN, type_)
    else:
        values = as_arrow(keys.astype(_stored_as(type_)), type_)
    return pa.concat_arrays([values, pa.nulls(1, type_)]) if nulls else values


def as_arrow(numbers: npt.NDArray[Any], type_: pa.DataType | None = None) -> pa.Array:
    """An Arrow array over the same memory, of a type that is kept as these numbers.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> as_arrow(np.array([1], np.int32), pa.date32()).to_pylist()
    [datetime.date(1970, 1, 2)]
    """
    numbers = np.ascontiguousarray(numbers)
    type_ = type_ or pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(numbers)])


def valid_cells(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which cells are not null; empty when all are."""
    if not array.null_count:
        return _ALL_VALID
    first, last = array.offset, array.offset + len(array)
    packed = np.frombuffer(array.buffers()[0], np.uint8)[first // 8 : (last + 7) // 8]
    bits = np.unpackbits(packed, bitorder="little")
    return bits[first % 8 : first % 8 + len(array)].view(np.bool_)


def stored_cells(array: pa.Array) -> npt.NDArray[Any]:
    """Numbers as Arrow keeps them, without a copy; under a null there may be anything."""
    dtype = _stored_as(array.type)
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def text_cells(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Bytes of all texts, and where each begins and the last one ends."""
    wide = t.is_large_string(array.type) or t.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    if len(array) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, marks, data = array.buffers()
    offsets = np.frombuffer(marks, dtype, len(array) + 1, array.offset * dtype.itemsize)
    characters = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return characters, offsets.astype(np.int64)


def _stored_as(type_: pa.DataType) -> np.dtype[Any]:
    """How Arrow keeps values of a type: dates, times and durations as integers."""
    own = t.is_integer(type_) or t.is_floating(type_)
    dtype: np.dtype[Any] = np.dtype(type_.to_pandas_dtype() if own else f"int{type_.bit_width}")
    return dtype
