"""Rows that come once, or are computed: streams, queries and lazy frames.

They are read the first time they are needed, into a spool, and from then on read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.engines.protocol import BATCH_ROWS, Column, column_of
from sfumato.engines.spool import PrivateFolder, Spool
from sfumato.errors import EngineError, SfumatoError
from sfumato.tables.arrowtypes import plain_type, with_plain_types
from sfumato.tables.columns import chosen
from sfumato.tables.fingerprint import rows_fingerprint
from sfumato.tables.parquet import ParquetSource

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pyarrow as pa

__all__ = ["CopySource", "StreamSource", "failures_in_our_words"]

_HELD_IN_MEMORY = 1 << 26


class StreamSource:
    """Record batches that can be had once, as a `Source`.

    Parameters
    ----------
    schema
        What the batches look like.
    read
        Gives the batches; called at most once.
    name
        How messages call the table.
    columns, exclude
        Columns to show, or to leave out.
    """

    paths = ()

    def __init__(
        self,
        schema: pa.Schema,
        read: Callable[[], Iterable[pa.RecordBatch]],
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        import pyarrow as pa

        self.name = name
        self._names = chosen(schema.names, columns, exclude, name)
        self._at = [schema.names.index(column) for column in self._names]
        self._read = read
        types = [plain_type(schema.field(at).type) for at in self._at]
        self._schema = tuple(
            column_of(column, type_, where=name)
            for column, type_ in zip(self._names, types, strict=True)
        )
        self._arrow_schema = pa.schema(list(zip(self._names, types, strict=True)))
        self._spool: Spool | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self._schema

    def row_count(self) -> int | None:
        """Number of rows once they have been read."""
        return None if self._spool is None else self._spool.rows

    def code_bytes(self) -> int:
        """About how much memory the codes take; a stream must be read to know."""
        return 4 * self._spooled().rows * len(self._names)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order they came."""
        return self._spooled().batches(columns, rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them."""
        return self._spooled().relation(connection)

    def fingerprint(self) -> str:
        """Fingerprint of the rows."""
        return rows_fingerprint(self._schema, self.batches())

    def close(self) -> None:
        """Remove the temporary copy; the rows cannot be had again."""
        if self._spool is not None:
            self._spool.close()

    def _spooled(self) -> Spool:
        if self._spool is None:
            self._spool = Spool.of(self._arrow_schema, self._plain(), _HELD_IN_MEMORY)
        return self._spool

    def _plain(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with failures_in_our_words(self.name):
            for batch in self._read():
                shown = [batch.column(at) for at in self._at]
                table = with_plain_types(pa.Table.from_arrays(shown, names=self._names))
                yield from table.cast(self._arrow_schema).to_batches()


class CopySource(ParquetSource):
    """Rows that their library writes to a temporary Parquet file by itself, out of core.

    Parameters
    ----------
    write
        Writes the rows to a path.
    name, columns, exclude
        As for `StreamSource`.
    """

    def __init__(
        self,
        write: Callable[[Path], None],
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self._folder = PrivateFolder()
        path = self._folder.path / "rows.parquet"
        try:
            with failures_in_our_words(name):
                write(path)
            super().__init__([path], name, columns, exclude)
        except BaseException:
            self._folder.close()
            raise

    def fingerprint(self) -> str:
        """Fingerprint of the rows: the copy is nobody's file."""
        return rows_fingerprint(self.schema(), self.batches())

    def close(self) -> None:
        """Remove the copy."""
        self._folder.close()


@contextmanager
def failures_in_our_words(name: str) -> Iterator[None]:
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
