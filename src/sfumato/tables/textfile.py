"""CSV, TSV and their relatives.

Reading takes two passes: the first, over text, decides the type of every column from all of its
values (`celltypes`), the second reads values. Whoever reads more often gets them from a `Spool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sfumato.engines.protocol import BATCH_ROWS, Column, column_of
from sfumato.engines.spool import Spool
from sfumato.engines.writing import ONE_COLUMN_NULL
from sfumato.errors import SourceError
from sfumato.files import file_fingerprint
from sfumato.tables import csvproblems
from sfumato.tables.celltypes import ColumnReading
from sfumato.tables.columns import chosen
from sfumato.tables.dialect import layout_of
from sfumato.tables.encoding import checked_encoding, guessed_encoding

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["TextFile"]

_SAMPLE = 1 << 20
_BLOCK = 1 << 22
_LARGEST_BLOCK = 1 << 30
_PACKED_RATIO = 5
"""How much larger a compressed text file usually is than its file."""
_HELD_IN_MEMORY = 1 << 26
_LOOKED_AT_KEPT = 1 << 27
"""Bytes of cells kept from deciding on types to reading, so that small files are read once."""
_CHEAP_PASSES = 2
"""Reading this often costs less than making a copy that reads faster."""


class TextFile:
    """A delimited text file as a `Source`.

    Parameters
    ----------
    path
        The file.
    name
        How messages call it.
    compression
        ``gzip``, ``zstd``, ``bz2``, ``lz4`` or None.
    columns, exclude
        Columns to show, or to leave out.
    delimiter, encoding, null_values, header
        As for `sfumato.table`.
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
    ) -> None:
        self.name = name
        self.paths = (path,)
        self._path = path
        self._compression = compression
        with self._bytes() as file:
            sample = file.read(_SAMPLE)
            complete = len(sample) < _SAMPLE
        guessed = guessed_encoding(sample, complete=complete)
        self.encoding = guessed if encoding is None else checked_encoding(encoding)
        self.layout = layout_of(
            sample.decode(self.encoding, errors="replace"),
            name,
            complete=complete,
            delimiter=delimiter,
            header=header,
            tabs=".tsv" in path.name or ".tab" in path.name,
        )
        if any("\ufffd" in column for column in self.layout.names):
            self._refuse_undecodable()
        self._names = chosen(self.layout.names, columns, exclude, name)
        self._at = [self.layout.names.index(column) for column in self._names]
        self._null_words = tuple(null_values or ())
        self._block = _BLOCK
        self._readings: list[ColumnReading] | None = None
        self._rows: int | None = None
        self._passes = 0
        self._spool: Spool | None = None
        self._looked: list[pa.RecordBatch] | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types; the first call reads the file."""
        readings = self._decided()
        return tuple(
            column_of(name, reading.type(), where=self.name)
            for name, reading in zip(self._names, readings, strict=True)
        )

    def row_count(self) -> int | None:
        """Number of rows once the file has been read."""
        return self._rows

    def code_bytes(self) -> int:
        """About how much memory the codes and the text values take."""
        size = self._path.stat().st_size * (_PACKED_RATIO if self._compression else 1)
        shares = sum(not recurs for recurs in self.layout.repetitive) / len(self.layout.names)
        rows = size / self.layout.line_bytes
        return int(4 * rows * len(self._names) + size * shares)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file; recurring text comes dictionary-encoded."""
        names = self._names if columns is None else list(columns)
        self._decided()
        self._passes += 1
        if self._passes > _CHEAP_PASSES and self._spool is None:
            self._spool = self._spooled()
        if self._spool is not None:
            yield from self._spool.batches(names, rows)
            return
        for batch in self._typed(names):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them: a temporary copy in Parquet unless they are few."""
        if self._spool is None:
            self._spool = self._spooled()
        return self._spool.relation(connection)

    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return file_fingerprint(self._path)

    def close(self) -> None:
        """Remove the temporary copy, if any."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
            self._passes = 0

    def _spooled(self) -> Spool:
        import pyarrow as pa

        fields = [(column.name, column.type) for column in self.schema()]
        schema = pa.schema(fields)
        batches = (batch.cast(schema) for batch in self._typed(self._names))
        return Spool.of(schema, batches, _HELD_IN_MEMORY)

    def _decided(self) -> list[ColumnReading]:
        """How each column is read, decided by looking at all of its cells."""
        if self._readings is None:
            readings = {name: ColumnReading(self._null_words) for name in self._names}
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
                self._block *= 8

    def _look_once(self, readings: dict[str, ColumnReading]) -> int:
        rows, last = 0, None
        held: list[pa.RecordBatch] | None = [] if list(readings) == self._names else None
        left = _LOOKED_AT_KEPT
        for batch in self._read(list(readings), typed=False):
            rows += batch.num_rows
            if held is not None:
                left -= batch.nbytes
                held = [*held, batch] if left >= 0 else None
            for reading, column in zip(readings.values(), batch.columns, strict=True):
                reading.see(column)
            last = batch
        if last is not None and last.num_rows:
            self._check_last_cell(last.column(-1)[last.num_rows - 1].as_py())
        self._looked = self._looked if held is None else held
        return rows

    def _check_last_cell(self, cell: str | None) -> None:
        """A quote that is never closed swallows all lines below it into one cell."""
        if cell is not None and ("\n" in cell or "\r" in cell):
            with self._bytes() as file:
                problem = csvproblems.unclosed_quote(file, self.name, self.encoding, self.layout)
            if problem is not None:
                raise problem

    def _typed(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

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
        import pyarrow as pa
        import pyarrow.csv as pc

        if self.layout.empty:
            return
        inner = [f"c{i}" for i in range(len(self.layout.names))]
        wanted = [inner[self._at[self._names.index(name)]] for name in names]
        nulls = ["", ONE_COLUMN_NULL] if len(inner) == 1 else [""]
        try:
            with self._text() as stream:
                reader = pc.open_csv(
                    stream,
                    pc.ReadOptions(block_size=self._block, column_names=inner),
                    pc.ParseOptions(delimiter=self.layout.delimiter, newlines_in_values=True),
                    pc.ConvertOptions(
                        column_types={
                            column: self._stored(name, typed)
                            for name, column in zip(names, wanted, strict=True)
                        },
                        include_columns=wanted,
                        null_values=nulls,
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                    ),
                )
                yield from reader
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if "Empty CSV file" in str(error):  # nothing but blank lines below the header
                return
            raise self._explained(str(error)) from None

    def _stored(self, name: str, typed: bool) -> pa.DataType:
        """The type in which Arrow reads a column."""
        import pyarrow as pa

        at = self._names.index(name)
        if typed and self._readings is not None:
            native = self._readings[at].native_type()
            if native is not None:
                return native
        recurs = self.layout.repetitive[self._at[at]]
        return pa.dictionary(pa.int32(), pa.string()) if recurs else pa.string()

    def _explained(self, complaint: str) -> SourceError | _BlockTooSmall:
        """The reader's complaint in words that help and quote nothing."""
        if "straddling" in complaint and self._block < _LARGEST_BLOCK:
            return _BlockTooSmall(complaint)
        self._refuse_undecodable()
        for look_for in (csvproblems.ragged_line, csvproblems.unclosed_quote):
            with self._bytes() as file:
                problem = look_for(file, self.name, self.encoding, self.layout)
            if problem is not None:
                return problem
        return SourceError(
            "this does not read as a table of text",
            where=self.name,
            remedy="Check the delimiter, the quotes and the encoding.",
        )

    def _refuse_undecodable(self) -> None:
        packed = self._compression is not None
        with self._bytes() as file:
            problem = csvproblems.undecodable_bytes(file, self.name, self.encoding, packed)
        if problem is not None:
            raise problem

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        """The unpacked bytes of the file."""
        import pyarrow as pa

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
        """The rows of the file as UTF-8.

        What stands above them is skipped here and not by Arrow's reader, which loses rows when
        there is a zero byte in the header.
        """
        import pyarrow as pa

        with pa.input_stream(str(self._path), compression=self._compression) as stream:
            if self.encoding != "utf-8":
                stream = pa.transcoding_input_stream(stream, self.encoding, "utf-8")
            left = self.layout.above
            while left and (skipped := len(stream.read(left))):
                left -= skipped
            yield stream


class _BlockTooSmall(Exception):
    """A line is longer than a block; a larger block may hold it."""
