"""The identity of rows without a file: their number, schema and the sum of their 128-bit hashes.

The same rows in any order, cut into any batches, have the same fingerprint in every process. The
row hash mixes well but is not cryptographic; it finds accidents, not forgeries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from sfumato.engines.protocol import Column

__all__ = ["rows_fingerprint"]

Words = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_LANES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""One odd multiplier for each 64-bit half of a hash."""
_NULL = 0x6E756C6C


def rows_fingerprint(schema: Sequence[Column], batches: Iterable[pa.RecordBatch]) -> str:
    """Fingerprint of rows, whatever their order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.engines.protocol import column_of
    >>> age = column_of("age", pa.int64())
    >>> one = rows_fingerprint([age], [pa.record_batch({"age": [1, 2, 2]})])
    >>> other = rows_fingerprint([age], [pa.record_batch({"age": [2]}),
    ...                                  pa.record_batch({"age": [2, 1]})])
    >>> one == other, one[:5]
    (True, 'rows:')
    """
    rows = total = 0
    for batch in batches:
        rows += batch.num_rows
        halves = [np.full(batch.num_rows, np.uint64(lane), dtype=np.uint64) for lane in _LANES]
        for column in batch.columns:
            for half, cells, lane in zip(halves, _cell_hashes(column), _LANES, strict=True):
                half *= np.uint64(lane)
                half += cells
        high, low = (_total(_mixed(half)) for half in halves)
        total = (total + (high << 64) + low) & ((1 << 128) - 1)
    whole = hashlib.sha256(f"{rows}\n{total:032x}\n".encode())
    for column in schema:
        whole.update(f"{len(column.name.encode())}:{column.name}:{column.kind}\n".encode())
    return f"rows:{whole.hexdigest()}"


def _total(hashes: Words) -> int:
    """Exact sum of unsigned 64-bit integers."""
    low = int((hashes & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    return low + (int((hashes >> np.uint64(32)).sum(dtype=np.uint64)) << 32)


def _mixed(words: Words) -> Words:
    """Spread every bit over the whole word (the finalizer of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _cell_hashes(column: pa.Array) -> tuple[Words, Words]:
    """Both halves of the hash of every cell of a column; equal values hash alike."""
    if t.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if t.is_dictionary(column.type):
        at = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(column.dictionary) == 0:
            halves = tuple(np.zeros(len(column), np.uint64) for _ in _LANES)
        else:
            halves = tuple(half[at] for half in _cell_hashes(column.dictionary))
    elif _is_bytes(column.type):
        halves = _byte_hashes(column)
    else:
        words = _as_words(column)
        halves = tuple(_mixed((words + np.uint64(1)) * np.uint64(lane)) for lane in _LANES)
    if column.null_count:
        null = pc.is_null(column).to_numpy(zero_copy_only=False)
        for half, lane in zip(halves, _LANES, strict=True):
            half[null] = np.uint64((_NULL * lane) & _MASK)
    return halves[0], halves[1]


def _is_bytes(type_: pa.DataType) -> bool:
    return not (
        t.is_integer(type_) or t.is_floating(type_) or t.is_boolean(type_) or t.is_temporal(type_)
        or t.is_null(type_)
    )  # fmt: skip


def _as_words(column: pa.Array) -> Words:
    """Values of fixed width as 64-bit words, equal values as equal words."""
    type_ = column.type
    words: Words
    if t.is_null(type_):
        return np.zeros(len(column), np.uint64)
    if t.is_floating(type_):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        values[np.isnan(values)] = np.nan
        words = values.view(np.uint64)
        return words
    if t.is_temporal(type_):
        column = column.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    if t.is_boolean(type_):
        column = column.cast(pa.uint8())
    signed = t.is_signed_integer(column.type)
    wide = column.fill_null(0).to_numpy(zero_copy_only=False)
    words = wide.astype(np.int64 if signed else np.uint64).view(np.uint64)
    return words


def _byte_hashes(column: pa.Array) -> tuple[Words, Words]:
    """Hashes of values of any length, eight bytes at a time over all values at once."""
    if t.is_decimal(column.type):
        column = column.cast(pa.string())
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    # Eight zero bytes behind the data let every value be read in whole words.
    held = np.frombuffer(data, np.uint8)[: ends[-1]] if data is not None else np.empty(0, np.uint8)
    padded = np.concatenate([held, np.zeros(8, np.uint8)])
    words: Any = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    halves = tuple(
        _mixed((lengths.astype(np.uint64) + np.uint64(2)) * np.uint64(lane)) for lane in _LANES
    )
    rest = np.flatnonzero(lengths)
    at = 0
    while rest.size:
        word = words[starts[rest] + at].astype(np.uint64)
        missing = np.clip(8 - (lengths[rest] - at), 0, 8).astype(np.uint64) * np.uint64(8)
        word = (word << missing) >> missing
        for half, lane in zip(halves, _LANES, strict=True):
            half[rest] = _mixed(half[rest] ^ word) * np.uint64(lane)
        at += 8
        rest = rest[lengths[rest] > at]
    return halves[0], halves[1]
