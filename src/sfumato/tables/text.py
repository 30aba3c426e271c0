"""CSV, TSV and their relatives, as files and as streams.

Reading a file takes two passes: the first, over text, decides the type of every column from all of
its values (`celltypes`), the second reads values. Whoever reads more often gets them from a
`Spool`. A stream passes once, so its cells stay text: ``1`` and ``1.0`` are two values.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.protocol import BATCH_ROWS, Column, TextForm, column_of
from sfumato.engines.spool import Spool
from sfumato.engines.writing import ONE_COLUMN_NULL
from sfumato.errors import SourceError, spell
from sfumato.tables.celltypes import TYPES, ColumnReading
from sfumato.tables.dialect import (
    Layout,
    checked_encoding,
    guessed_encoding,
    layout_of,
    ragged_line,
    unclosed_quote,
    undecodable_bytes,
)
from sfumato.tables.source import TEXT_VALUE, BaseSource, chosen
from sfumato.wording import counted

if TYPE_CHECKING:
    from pyarrow import csv


_SAMPLE = 1 << 20
_BLOCK = 1 << 21
"""Bytes that Arrow reads at once: it reads 32 of these ahead of whoever works on them."""
_LARGEST_BLOCK = 1 << 28
_PACKED_RATIO = 5
"""How much larger a compressed text file usually is than its file."""
_LOOKED_AT_KEPT = 1 << 27
"""Bytes of cells kept from deciding on types to reading, so that small files are read once."""
_CHEAP_PASSES = 2
"""Reading this often costs less than making a copy that reads faster."""


class TextFile(BaseSource):
    """A delimited text file.

    Parameters
    ----------
    compression
        ``gzip``, ``zstd``, ``bz2``, ``lz4`` or None.
    delimiter, encoding, null_values, header
        As for `sfumato.table`.
    as_text
        Columns whose cells stay text, whatever they look like.
    memory
        Bytes that all work on it may take, if there is a limit: a quarter is for cells kept.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        compression: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        null_values: Sequence[str] | None = None,
        header: bool = True,
        as_text: Collection[str] = (),
        memory: int | None = None,
    ) -> None:
        self.name = name
        self.paths = (path,)
        self._kept = _LOOKED_AT_KEPT if memory is None else min(_LOOKED_AT_KEPT, memory // 4)
        self._largest = (
            _LARGEST_BLOCK if memory is None else min(_LARGEST_BLOCK, max(_BLOCK, memory // 64))
        )
        self._path = path
        self._compression = compression
        with self._bytes() as file:
            sample = file.read(_SAMPLE)
        if len(sample) == _SAMPLE and not any(end in sample for end in (b"\n", b"\r")):
            raise SourceError(
                f"the first line is longer than {_SAMPLE >> 20} MB",
                where=name,
                remedy="Check that this is a table: a line of column names, then one line per row.",
            )
        tabs = ".tsv" in path.name or ".tab" in path.name
        self.encoding, self.layout = _reading_of(sample, name, delimiter, encoding, header, tabs)
        self._marked = sample.startswith(codecs.BOM_UTF8)
        self._western = encoding is None and self.encoding == "cp1252"
        if any("\ufffd" in column for column in self.layout.names):
            self._refuse_undecodable()
        self._names = chosen(self.layout.names, columns, exclude, name)
        self._at = [self.layout.names.index(column) for column in self._names]
        self._null_words = tuple(null_values or ())
        self._as_text = frozenset(as_text)
        self._block = _BLOCK
        self._readings: list[ColumnReading] | None = None
        self._rows: int | None = None
        self._passes = 0
        self._looked: list[pa.RecordBatch] | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types; the first call reads the file."""
        return self._declared

    @cached_property
    def _declared(self) -> tuple[Column, ...]:
        return tuple(
            column_of(name, reading.type(), where=self.name)
            for name, reading in zip(self._names, self._decided(), strict=True)
        )

    def row_count(self) -> int | None:
        """Number of rows once the file has been read."""
        return self._rows

    def code_bytes(self) -> int:
        """About how much memory the codes and the text values take."""
        size = self._path.stat().st_size * (_PACKED_RATIO if self._compression else 1)
        shares = sum(not recurs for recurs in self.layout.repetitive) / len(self.layout.names)
        rows = size / self.layout.line_bytes
        held = 4 * rows * len(self._names) + size * shares
        if self.memory is not None:
            recurring = dict(zip(self.layout.names, self.layout.repetitive, strict=True))
            texts = [one.name for one in self.schema() if one.kind == "text"]
            differing = sum(not recurring[name] for name in texts)
            held += (TEXT_VALUE * rows + size / len(self.layout.names)) * differing
        return int(held)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file; recurring text comes dictionary-encoded."""
        names = self._names if columns is None else list(columns)
        self._decided()
        self._passes += 1
        if self._passes > _CHEAP_PASSES or self._copied is not None:
            yield from self.copy().batches(names, rows)
            return
        for batch in self._typed(names):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def text_form(self) -> TextForm:
        """How the file is written; cells that only the user calls missing are written anew."""
        readings = dict(zip(self._names, self._decided(), strict=True))
        return TextForm(
            self.layout.delimiter,
            self._written_encoding(),
            {} if self._null_words else {n: reading.convert for n, reading in readings.items()},
        )

    def _written_encoding(self) -> str:
        """The encoding of a release: that of the file, with the byte order mark it needs or has."""
        if self.encoding == "utf-8":
            return "utf-8-sig" if self._marked else "utf-8"
        for wide in ("utf-16", "utf-32"):
            if self.encoding.startswith(wide):
                return wide
        return self.encoding if "a,b\n".encode(self.encoding) == b"a,b\n" else "utf-8"

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The cells of some columns as they stand in the file, null where there is nothing."""
        names = list(columns)
        self._decided()
        for batch in self._read(names, typed=False):
            yield batch.rename_columns(names)

    def copy(self) -> Spool:
        """The copy; types are known once the file has been read."""
        self._arrow_schema = pa.schema([(column.name, column.type) for column in self.schema()])
        return super().copy()

    def to_copy(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        return self._typed(self._names)

    def close(self) -> None:
        """Remove the temporary copy, if any."""
        if self._copied is not None:
            self._passes = 0
        super().close()

    def _decided(self) -> list[ColumnReading]:
        """How each column is read, decided by looking at all of its cells."""
        if self._readings is None:
            readings = {
                name: ColumnReading(self._null_words, () if name in self._as_text else TYPES)
                for name in self._names
            }
            asked = self._names
            while asked:
                readings.update(self._look_at({name: readings[name] for name in asked}))
                asked = [name for name in asked if readings[name].unsure]
            self._readings = list(readings.values())
        return self._readings

    def _look_at(self, readings: dict[str, ColumnReading]) -> dict[str, ColumnReading]:
        """Show columns all of their cells, in blocks that grow if a line does not fit."""
        while True:
            fresh = {name: reading.again() for name, reading in readings.items()}
            try:
                self._rows = self._look_once(fresh)
                return fresh
            except _BlockTooSmall:
                self._block = min(8 * self._block, self._largest)

    def _look_once(self, readings: dict[str, ColumnReading]) -> int:
        rows, last = 0, None
        held: list[pa.RecordBatch] | None = [] if list(readings) == self._names else None
        left = self._kept
        for batch in self._read(list(readings), typed=False):
            rows += batch.num_rows
            if held is not None:
                left -= batch.nbytes
                held = [*held, batch] if left >= 0 else None
            for reading, column in zip(readings.values(), batch.columns, strict=True):
                reading.see(column)
                if self._western:
                    self._refuse_marks(column)
            last = batch
        if last is not None and last.num_rows:
            self._check_last_cell(last.column(-1)[last.num_rows - 1].as_py())
        self._looked = self._looked if held is None else held
        return rows

    def _refuse_marks(self, column: pa.Array) -> None:
        """Nobody writes thorn beside ÿ: another file was put behind one in Windows Western."""
        texts = column.dictionary if pa.types.is_dictionary(column.type) else column
        if pc.any(pc.match_substring_regex(texts, "ÿþ|þÿ")).as_py():
            raise SourceError(
                "the file begins like cp1252 (Windows Western), and holds the mark with which a "
                "file in utf-16 begins",
                where=self.name,
                remedy="If files of several encodings were joined, open them one by one. If that "
                f"is text, say so: {spell('encoding', 'cp1252')}.",
            )

    def _check_last_cell(self, cell: str | None) -> None:
        """A quote that is never closed swallows all lines below it into one cell."""
        if cell is not None and ("\n" in cell or "\r" in cell):
            with self._bytes() as file:
                problem = unclosed_quote(file, self.name, self.encoding, self.layout)
            if problem is not None:
                raise problem

    def _typed(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        readings = dict(zip(self._names, self._decided(), strict=True))
        looked, self._looked = self._looked, None
        batches = (
            self._read(names, typed=True)
            if looked is None
            else (batch.select([self._names.index(name) for name in names]) for batch in looked)
        )
        for batch in batches:
            arrays = [
                column if pa.types.is_primitive(column.type) else readings[name].convert(column)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _read(self, names: list[str], *, typed: bool) -> Iterator[pa.RecordBatch]:
        """Record batches of some columns: all text, or values where Arrow reads them itself."""
        if self.layout.empty:
            return
        stored = {self._at[self._names.index(n)]: self._stored(n, typed) for n in names}
        one = len(self.layout.names) == 1
        try:
            with self._text() as stream:
                yield from _batches(stream, self.layout, stored, self._block, or_na=one)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self._explained(str(error)) from None

    def _stored(self, name: str, typed: bool) -> pa.DataType:
        """The type in which Arrow reads a column."""
        at = self._names.index(name)
        if typed and self._readings is not None:
            native = self._readings[at].native_type()
            if native is not None:
                return native
        recurs = self.layout.repetitive[self._at[at]]
        return pa.dictionary(pa.int32(), pa.string()) if recurs else pa.string()

    def _explained(self, complaint: str) -> SourceError | _BlockTooSmall:
        """The reader's complaint in words that help and quote nothing."""
        if "straddling" in complaint and self._block < self._largest:
            return _BlockTooSmall(complaint)
        if "straddling" in complaint:
            more = "" if self._largest == _LARGEST_BLOCK else "allow more memory, "
            return SourceError(
                f"a row is longer than {self._block >> 20:,} MB",
                where=self.name,
                remedy=f"Look for a quote that is never closed, {more}or leave the long column out "
                "where the file is made.",
            )
        self._refuse_undecodable()
        for look_for in (unclosed_quote, ragged_line):
            with self._bytes() as file:
                problem = look_for(file, self.name, self.encoding, self.layout)
            if problem is not None:
                return problem
        return _explained([], self.name)

    def _refuse_undecodable(self) -> None:
        packed = self._compression is not None
        with self._bytes() as file:
            problem = undecodable_bytes(file, self.name, self.encoding, packed)
        if problem is not None:
            raise problem

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        """The unpacked bytes of the file."""
        try:
            with pa.input_stream(str(self._path), compression=self._compression) as stream:
                yield stream
        except OSError as error:
            packed = f"this {self._compression} file is damaged or incomplete"
            raise SourceError(
                f"cannot be read: {error.strerror}" if error.strerror else packed,
                where=self.name,
                remedy="Export it again, or check that the copy finished.",
            ) from None

    @contextmanager
    def _text(self) -> Iterator[pa.NativeFile]:
        """The rows of the file as UTF-8."""
        with pa.input_stream(str(self._path), compression=self._compression) as stream:
            yield _rows_of(stream, self.encoding, self.layout)


class _BlockTooSmall(Exception):
    """A line is longer than a block; a larger block may hold it."""


def _reading_of(
    sample: bytes,
    name: str,
    delimiter: str | None,
    encoding: str | None,
    header: bool,
    tabs: bool,
) -> tuple[str, Layout]:
    """Encoding and layout of a text by its beginning, as far as the user does not give them."""
    complete = len(sample) < _SAMPLE
    guessed = guessed_encoding(sample, complete=complete)
    used = guessed if encoding is None else checked_encoding(encoding)
    try:
        text = sample.decode(used, errors="replace")
    except UnicodeError:
        raise SourceError(
            f"the file cannot be read as {used}",
            where=name,
            remedy=f"Name another encoding, e.g. {spell('encoding', 'cp1252')}.",
        ) from None
    found = layout_of(text, name, complete=complete, delimiter=delimiter, header=header, tabs=tabs)
    return used, found


def _rows_of(stream: pa.NativeFile, encoding: str, layout: Layout) -> pa.NativeFile:
    """A stream as UTF-8 from its first row on.

    What stands above is skipped here and not by Arrow's reader, which loses rows when there is
    a zero byte in the header.
    """
    if encoding != "utf-8":
        stream = pa.transcoding_input_stream(stream, encoding, "utf-8")
    left = layout.above
    while left and (skipped := len(stream.read(left))):
        left -= skipped
    return stream


def _batches(
    stream: pa.NativeFile,
    layout: Layout,
    types: dict[int, pa.DataType],
    block: int,
    *,
    or_na: bool = False,
    on_ragged: Callable[[csv.InvalidRow], str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows, by position, in the types that Arrow reads them in."""
    from pyarrow import csv

    inner = [f"c{at}" for at in range(len(layout.names))]
    try:
        reader = csv.open_csv(
            stream,
            csv.ReadOptions(block_size=block, column_names=inner),
            csv.ParseOptions(
                delimiter=layout.delimiter,
                newlines_in_values=True,
                invalid_row_handler=on_ragged,
            ),
            csv.ConvertOptions(
                column_types={inner[at]: type_ for at, type_ in types.items()},
                include_columns=[inner[at] for at in types],
                null_values=["", ONE_COLUMN_NULL] if or_na else [""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # nothing but blank lines below the header
            return
        raise
    yield from reader


def text_batches(
    stream: BinaryIO,
    name: str,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    null_values: Sequence[str] | None = None,
    header: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of a text file as they arrive; options are those of `sfumato.table`.

    The first batch has no rows: it names the columns before any row has come.

    Examples
    --------
    >>> batches = text_batches(io.BytesIO(b"age,sex\\n30,F\\n40,M\\n"), "people")
    >>> [batch.to_pydict() for batch in batches]
    [{'age': [], 'sex': []}, {'age': ['30', '40'], 'sex': ['F', 'M']}]
    """
    sample = read_fully(stream, _SAMPLE)
    spelled, layout = _reading_of(sample, name, delimiter, encoding, header, tabs=False)
    schema = pa.schema([(column, pa.string()) for column in layout.names])
    yield pa.RecordBatch.from_pylist([], schema=schema)
    if layout.empty:
        return
    ragged: list[csv.InvalidRow] = []

    def remember(row: csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    types = dict.fromkeys(range(len(layout.names)), pa.string())
    try:
        piped = pa.PythonFile(joined(sample, stream), mode="r")
        rows = _rows_of(piped, spelled, layout)
        for batch in _batches(rows, layout, types, _BLOCK, on_ragged=remember):
            cells = [_without(column, null_values) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(cells, schema=schema)
    except (pa.ArrowException, UnicodeError, OSError):
        raise _explained(ragged, name) from None


def _without(cells: pa.Array, words: Sequence[str] | None) -> pa.Array:
    """Cells with null in place of some words."""
    if not words:
        return cells
    absent = pc.is_in(cells, value_set=pa.array(words, pa.string()))
    return pc.if_else(absent, pa.scalar(None, pa.string()), cells)


def _explained(ragged: Sequence[csv.InvalidRow], name: str) -> SourceError:
    """The reader's complaint in words that quote nothing."""
    if ragged:
        row = ragged[0]
        where = "a line" if row.number is None else f"line {row.number:,}"
        return SourceError(
            f"{where} does not fit the header: {row.actual_columns} instead of "
            f"{counted(row.expected_columns, 'cell')}",
            where=name,
            remedy=f"Repair it, or say which delimiter it has, e.g. {spell('delimiter', ';')}.",
        )
    return SourceError(
        "this cannot be read as a table of text",
        where=name,
        remedy="Check the delimiter, the quotes and the encoding.",
    )


def read_fully(stream: BinaryIO, size: int) -> bytes:
    """As many bytes as there are, up to `size`; a pipe hands out fewer at a time."""
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def joined(first: bytes, rest: BinaryIO) -> BinaryIO:
    """What has been read of a stream already, followed by the rest of it."""
    return cast(BinaryIO, _Joined(first, rest))


class _Joined(io.RawIOBase):
    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first, self._rest = io.BytesIO(first), rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as there are, up to `size`; readers take fewer for the end."""
        begun = self._first.read(size)
        if size < 0:
            return begun + self._rest.read()
        return begun + read_fully(self._rest, size - len(begun))
