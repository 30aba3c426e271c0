"""Reading back a file that was just written, with explicit settings and nothing guessed.

A release is verified on what a reader finds in the file, so this reader shares no code path with
the guessing one: delimiter, encoding, null and the type of every column are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.engines.protocol import BATCH_ROWS, Column, column_of
from sfumato.engines.spool import Spool, text_as_dictionary
from sfumato.engines.writing import ONE_COLUMN_NULL, FileFormat, header_line, parsed
from sfumato.errors import EngineError
from sfumato.files import file_fingerprint

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["WrittenFile"]

_BLOCK, _LARGEST_BLOCK = 1 << 23, 1 << 30
"""A line must fit a block."""


class WrittenFile:
    """A file of known format and schema, as a `Source`.

    Parameters
    ----------
    path
        The file.
    format
        Its format.
    schema
        What its columns are.
    name
        How messages call it.
    """

    def __init__(self, path: Path, format: FileFormat, schema: pa.Schema, name: str) -> None:
        self.name = name
        self.path = path
        self.paths = (path,)
        self.format = format
        self.arrow_schema = schema
        self._spool: Spool | None = None

    def schema(self) -> tuple[Column, ...]:
        """The columns, as they were declared when the file was written."""
        return tuple(column_of(f.name, f.type, where=self.name) for f in self.arrow_schema)

    def row_count(self) -> int | None:
        """Number of rows where the file states it."""
        if self.format.kind != "parquet":
            return None
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path).num_rows)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows as they stand in the file."""
        import pyarrow as pa

        names = list(self.arrow_schema.names) if columns is None else list(columns)
        read = {"parquet": self._parquet, "arrow": self._arrow}.get(self.format.kind, self._text)
        try:
            for batch in read(names, rows):
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
        except (pa.ArrowException, OSError):
            # Arrow's own words may quote cells, so they are not passed on.
            raise EngineError(
                "what was written cannot be read back as it should",
                where=self.name,
                remedy="Check the disk; this is not about the content of the table.",
            ) from None

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them: Parquet directly, the others after one reading."""
        if self.format.kind == "parquet":
            return connection.read_parquet(str(self.path))
        if self._spool is None:
            self._spool = Spool.of(self.arrow_schema, map(self._declared, self.batches()))
        return self._spool.relation(connection)

    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return file_fingerprint(self.path)

    def close(self) -> None:
        """Remove temporary files; the file itself stays."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _declared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.cast(self.arrow_schema)

    def _parquet(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        text = text_as_dictionary(self.arrow_schema)
        with pq.ParquetFile(self.path, read_dictionary=text) as file:
            for batch in file.iter_batches(rows, columns=names):
                yield batch.select(names)

    def _arrow(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as mapped, pa.ipc.open_file(mapped) as file:
            for index in range(file.num_record_batches):
                yield file.get_batch(index).select(names)

    def _text(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Text in blocks that grow when a line does not fit, going on where it stopped."""
        import pyarrow as pa

        given, block = 0, _BLOCK
        while True:
            try:
                seen = 0
                for batch in self._blocks(names, block):
                    fresh = batch.slice(max(given - seen, 0))
                    seen += batch.num_rows
                    if fresh.num_rows:
                        given = seen
                        yield fresh
                return
            except pa.ArrowInvalid as error:
                if "straddling" not in str(error) or block >= _LARGEST_BLOCK:
                    raise
                block *= 8

    def _blocks(self, names: list[str], block: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.csv

        head = header_line(self.arrow_schema.names, self.format.delimiter)
        null = ONE_COLUMN_NULL if len(self.arrow_schema) == 1 else ""
        with pa.input_stream(str(self.path), compression=self.format.compression) as stream:
            # The line end stays: it reads as a blank line, and keeps a byte order mark in the first
            # cell from being taken for the file's.
            if stream.read(len(head) - 1) != head[:-1]:
                raise pa.ArrowInvalid("the header is not the one that was written")
            try:
                reader = pa.csv.open_csv(
                    stream,
                    pa.csv.ReadOptions(column_names=self.arrow_schema.names, block_size=block),
                    pa.csv.ParseOptions(
                        delimiter=self.format.delimiter, quote_char='"', double_quote=True,
                        escape_char=False, newlines_in_values=True, ignore_empty_lines=True,
                    ),
                    pa.csv.ConvertOptions(
                        column_types=dict.fromkeys(self.arrow_schema.names, pa.string()),
                        null_values=[null], strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                    ),
                )  # fmt: skip
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):  # a header and no rows
                    return
                raise
            fields = [self.arrow_schema.field(name) for name in names]
            for batch in reader:
                arrays = [parsed(batch.column(f.name), f.type) for f in fields]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
