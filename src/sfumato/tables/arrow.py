"""Arrow files: the IPC file format (also called Feather) and the IPC stream format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.protocol import BATCH_ROWS, Column, column_of
from sfumato.engines.spool import Spool
from sfumato.errors import SourceError
from sfumato.files import file_fingerprint
from sfumato.tables.source import chosen, plain_type, with_plain_types

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["ArrowFile"]

_HELD_IN_MEMORY = 1 << 26


class ArrowFile:
    """An Arrow file as a `Source`.

    Parameters
    ----------
    path
        The file.
    name
        How messages call it.
    stream
        Whether it is in the stream format.
    columns, exclude
        Columns to show, or to leave out.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        stream: bool,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        import pyarrow as pa

        self.name = name
        self.paths = (path,)
        self._path = path
        self._stream = stream
        with self._opened() as reader:
            stored = reader.schema
        self._names = chosen(stored.names, columns, exclude, name)
        self._at = [stored.names.index(column) for column in self._names]
        types = [plain_type(stored.field(at).type) for at in self._at]
        self._arrow_schema = pa.schema(list(zip(self._names, types, strict=True)))
        self._schema = tuple(column_of(f.name, f.type, where=name) for f in self._arrow_schema)
        self._spool: Spool | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types, from the file's head."""
        return self._schema

    def row_count(self) -> int | None:
        """The file does not state it."""
        return None if self._spool is None else self._spool.rows

    def code_bytes(self) -> int:
        """About how much memory the codes take, judged by the first batch."""
        size = self._path.stat().st_size
        with self._opened() as reader:
            first = next(self._stored(reader), None)
            if first is None or not first.num_rows:
                return 0
            batches = max(1, size // max(first.nbytes, 1)) if self._stream else None
            rows = first.num_rows * (batches or reader.num_record_batches)
        return int(4 * rows * len(self._names))

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file."""
        import pyarrow as pa

        names = self._names if columns is None else list(columns)
        at = [self._at[self._names.index(name)] for name in names]
        wanted = pa.schema([self._arrow_schema.field(name) for name in names])
        with self._opened() as reader:
            for batch in self._stored(reader):
                table = pa.Table.from_arrays([batch.column(i) for i in at], names=names)
                yield from with_plain_types(table).cast(wanted).to_batches(max_chunksize=rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them: a temporary copy in Parquet unless they are few."""
        if self._spool is None:
            self._spool = Spool.of(self._arrow_schema, self.batches(), _HELD_IN_MEMORY)
        return self._spool.relation(connection)

    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return file_fingerprint(self._path)

    def close(self) -> None:
        """Remove the temporary copy, if any."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _stored(self, reader: Any) -> Iterator[pa.RecordBatch]:
        if self._stream:
            yield from reader
            return
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The reader of the file, its failures in our words."""
        import pyarrow as pa

        try:
            with pa.memory_map(str(self._path)) as mapped:
                opened = pa.ipc.open_stream if self._stream else pa.ipc.open_file
                with opened(mapped) as reader:
                    yield reader
        except (pa.ArrowException, OSError):
            raise SourceError(
                "this Arrow file is damaged, incomplete or unreadable",
                where=self.name,
                remedy="Export it again, or check that the copy finished.",
            ) from None
