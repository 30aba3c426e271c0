"""Sources of rows: columns chosen, plain types, and rows kept that come once.

Streams, queries and lazy frames are read the first time they are needed, into a spool, and from
then on read from there. Standard input, pipes and unpacked files live in a private temporary file.

Rows without a file have an identity of their own: their number, schema and the sum of their 128-bit
hashes. The same rows in any order, cut into any batches, have the same fingerprint in every
process. The row hash mixes well but is not cryptographic; it finds accidents, not forgeries.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import BATCH_ROWS, MOST_COLUMNS, Column, Source, column_of
from sfumato.engines.spool import Spool, held_bytes
from sfumato.errors import (
    ColumnError,
    EngineError,
    ParameterError,
    SfumatoError,
    did_you_mean,
    spell,
)
from sfumato.files import file_fingerprint

if TYPE_CHECKING:
    import duckdb


TEXT_VALUE, NUMBER_VALUE = 48, 24
"""Bytes that a text takes besides its letters while different ones are numbered and ranked, and
that a number does besides its code."""


class BaseSource:
    """What sources have in common; DuckDB scans a copy where it cannot scan the rows themselves.

    All are given the `name` that messages call them by, and which columns to show or to leave out.
    """

    name: str
    paths: Sequence[Path] = ()
    memory: int | None = None
    held_in_memory: int = 1 << 26
    """Bytes of a copy that stays in memory; a larger one goes to a temporary file."""
    _schema: tuple[Column, ...]
    _arrow_schema: pa.Schema
    _copied: Spool | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self._schema

    def row_count(self) -> int | None:
        """Number of rows where it is known."""
        return None if self._copied is None else self._copied.rows

    def code_bytes(self) -> int:
        """About how much memory the codes take."""
        return 4 * (self.row_count() or 0) * len(self.schema())

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        raise NotImplementedError

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them."""
        return self.copy().relation(connection)

    def copy(self) -> Spool:
        """The copy, made when it is first needed."""
        if self._copied is None:
            rows = (batch.cast(self._arrow_schema) for batch in self.to_copy())
            held = held_bytes(self.memory, self.held_in_memory)
            self._copied = Spool.of(self._arrow_schema, rows, held)
        return self._copied

    def to_copy(self) -> Iterator[pa.RecordBatch]:
        """The rows that are copied."""
        return self.batches()

    def fingerprint(self) -> str:
        """SHA-256 of the files, or the fingerprint of the rows where there is none."""
        if self.paths:
            return file_fingerprint(*self.paths)
        return rows_fingerprint(self.schema(), self.batches())

    def close(self) -> None:
        """Remove the copy, if there is one."""
        if self._copied is not None:
            self._copied.close()
            self._copied = None


class StreamSource(BaseSource):
    """Record batches that can be had once: `read` is called at most once."""

    def __init__(
        self,
        schema: pa.Schema,
        read: Callable[[], Iterable[pa.RecordBatch]],
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._arrow_schema, self._at = plain_columns(schema, columns, exclude, name)
        self._schema = columns_of(self._arrow_schema, name)
        self._read = read

    @property
    def columns_apart(self) -> bool:
        """Whether columns are read one by one: those of a copy in a file are."""
        return self._copied is not None and self._copied.path is not None

    def code_bytes(self) -> int:
        """About how much memory the codes and texts take; a stream must be read to know."""
        return 4 * self.copy().rows * len(self._schema) + self.copy().text_bytes

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order they came."""
        return self.copy().batches(columns, rows)

    def to_copy(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come, in plain types."""
        names = self._arrow_schema.names
        with errors_without_cells(self.name):
            for batch in self._read():
                shown = [batch.column(at) for at in self._at]
                table = with_plain_types(pa.Table.from_arrays(shown, names=names))
                yield from table.cast(self._arrow_schema).to_batches()

    def close(self) -> None:
        """Remove the temporary copy; the rows cannot be had again."""
        if self._copied is not None:
            self._copied.close()


def plain_columns(
    stored: pa.Schema, columns: Sequence[str] | None, exclude: Sequence[str] | None, where: str
) -> tuple[pa.Schema, list[int]]:
    """The columns to show in plain types, and where they are."""
    at = [stored.names.index(name) for name in chosen(stored.names, columns, exclude, where)]
    return pa.schema([(stored.names[i], plain_type(stored.field(i).type)) for i in at]), at


def columns_of(schema: pa.Schema, where: str) -> tuple[Column, ...]:
    """The columns of a schema; nested ones are refused."""
    return tuple(column_of(field.name, field.type, where=where) for field in schema)


@contextmanager
def errors_without_cells(name: str) -> Iterator[None]:
    """What another library says when it fails may quote cells; it is not passed on."""
    try:
        yield
    except SfumatoError:
        raise
    except Exception as error:
        raise EngineError(
            f"computing the rows failed with a {type(error).__name__}",
            where=name,
            remedy="Run it on its own to see why.",
        ) from None


_CHUNK = 1 << 20


class TemporarySource:
    """A source together with the private folder that holds its file; both go away together."""

    paths = ()

    def __init__(self, source: Source, folder: PrivateFolder) -> None:
        self.name = source.name
        self._source = source
        self._folder = folder

    @property
    def memory(self) -> int | None:
        """Bytes that all work on the rows may take, if there is a limit."""
        return self._source.memory

    @memory.setter
    def memory(self, size: int | None) -> None:
        self._source.memory = size

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self._source.schema()

    def row_count(self) -> int | None:
        """Number of rows where it is known."""
        return self._source.row_count()

    def code_bytes(self) -> int:
        """About how much memory the codes take."""
        return self._source.code_bytes()

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        return self._source.batches(columns, rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them."""
        return self._source.relation(connection)

    def fingerprint(self) -> str:
        """SHA-256 of what came in."""
        return self._source.fingerprint()

    def close(self) -> None:
        """Remove the temporary file."""
        self._source.close()
        self._folder.close()


def is_pandas(source: Any) -> bool:
    """Whether something is a pandas data frame; pandas is not loaded to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def is_polars(source: Any) -> bool:
    """Whether something is a polars data frame; polars is not loaded to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "polars"


def spare_pandas() -> None:
    """Let Arrow do without pandas, which it would load to convert its first array.

    Arrow looks once whether pandas is installed, in case that it is given some of its values. This
    is for programs that give it none; whoever imports pandas later finds it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Missing)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(_Missing)


class _Missing:
    """Looks for modules, and says that pandas is not there."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def saved_stream(stream: BinaryIO, folder: PrivateFolder, name: str) -> Path:
    """Copy a stream to a file in a private folder."""
    path = folder.path / "input"
    try:
        with path.open("xb") as file:
            shutil.copyfileobj(stream, file, _CHUNK)
    except OSError as error:
        folder.close()
        raise EngineError(
            f"the input could not be copied to a temporary file: {error.strerror or error}",
            where=name,
            remedy="Free some space, or point TMPDIR to a larger disk.",
        ) from None
    except BaseException:
        folder.close()
        raise
    return path


def chosen(
    names: Iterable[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    where: str,
) -> list[str]:
    """Names of the columns to show, each of them usable and there exactly once.

    Parameters
    ----------
    names
        All columns of the source, in its order.
    columns
        The ones asked for, in the order asked for; None means all.
    exclude
        The ones to leave out; None leaves out none.
    where
        The source, for messages.

    Examples
    --------
    >>> chosen(["id", "age", "sex"], None, ["id"], "people.csv")
    ['age', 'sex']
    """
    known = list(names)
    if len(known) > MOST_COLUMNS:
        raise ColumnError(
            f"the table has {len(known):,} columns, more than {MOST_COLUMNS:,}",
            where=where,
            remedy="Choose columns in the program that makes it, or check the delimiter.",
        )
    if columns is not None and exclude is not None:
        raise ParameterError(
            "columns to show and columns to exclude were both given",
            where=where,
            remedy="Give one of the two.",
        )
    asked = [columns] if isinstance(columns, str) else columns
    hidden = [exclude] if isinstance(exclude, str) else (exclude or ())
    for name in (*(asked or ()), *hidden):
        if name not in known:
            raise ColumnError(
                f"there is no column `{name}`", where=where, remedy=did_you_mean(name, known)
            )
    shown = list(asked) if asked is not None else [name for name in known if name not in hidden]
    if not shown:
        raise ColumnError("the table has no columns", where=where, remedy="Keep at least one.")
    for name in shown:
        _check_name(name, known if asked is None else [*known, *shown], shown, where)
    return shown


def _check_name(name: str, known: list[str], shown: list[str], where: str) -> None:
    if not name.strip():
        raise ColumnError(
            f"column {known.index(name) + 1} has no name",
            where=where,
            remedy=f"Name it, or leave it out ({spell('exclude', [''])}). It may be the index that "
            "pandas writes unless told index=False.",
        )
    if any("\ud800" <= one <= "\udfff" for one in name):
        raise ColumnError(
            f"the name of column {known.index(name) + 1} holds half of a character",
            where=where,
            remedy="Rename it: no file and no page can show it.",
        )
    if shown.count(name) > 1:
        raise ColumnError(
            f"column `{name}` occurs {shown.count(name)} times",
            where=where,
            remedy="A name must mean one column. Give each a name of its own, or leave all of them "
            f"out with {spell('exclude', [name])}.",
        )


_DIGITS = 38


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type a column travels in: without extensions and without the rarest widths.

    Extension types are their storage, but days of pandas' periods are dates and its other periods
    the text that they are shown as; half floats widen, milliseconds since 1970 that mean a date
    become a date, instants in a time zone that nobody knows are the same instants in UTC, and
    decimals have 128 bits or, beyond 38 digits, are text: so every engine can hold them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plain_type(pa.date64())
    DataType(date32[day])
    """
    if isinstance(type_, pa.BaseExtensionType):
        if type_.extension_name == _PERIOD:
            return pa.date32() if type_.freq == "D" else pa.string()
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
    try:
        pa.array([0], pa.timestamp("s", name)).cast(pa.string())
    except pa.ArrowException:
        return False
    return True


def plain_array(array: pa.Array) -> pa.Array:
    """The same values in the type of `plain_type`."""
    wanted = plain_type(array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        if array.type.extension_name == _PERIOD:
            return _periods(array)
        return plain_array(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return plain_array(pc.run_end_decode(array))
    return array if array.type == wanted else array.cast(wanted)


_PERIOD = "pandas.period"


def _periods(array: pa.Array) -> pa.Array:
    """Periods of pandas, which are stored as numbers since 1970: days as dates, others as text."""
    import pandas as pd

    if array.type.freq == "D":
        return array.storage.cast(pa.int32()).cast(pa.date32())
    numbers = array.storage.dictionary_encode()
    found = numbers.dictionary.to_pylist()
    texts = [str(pd.Period(ordinal=one, freq=array.type.freq)) for one in found]
    return pa.array(texts, pa.string()).take(numbers.indices)


def with_plain_types(table: pa.Table) -> pa.Table:
    """The same rows in the types of `plain_type`."""
    columns = [
        pa.chunked_array([plain_array(chunk) for chunk in column.chunks], plain_type(column.type))
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.schema.names)


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
