"""pyarrow datasets: many files, filters and projections that Arrow scans itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.engines.protocol import BATCH_ROWS, Column, column_of
from sfumato.errors import SourceError
from sfumato.tables.arrowtypes import plain_type, with_plain_types
from sfumato.tables.columns import chosen
from sfumato.tables.fingerprint import rows_fingerprint

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["DatasetSource"]


class DatasetSource:
    """A pyarrow dataset as a `Source`.

    Parameters
    ----------
    dataset
        The dataset.
    name
        How messages call it.
    columns, exclude
        Columns to show, or to leave out.
    """

    def __init__(
        self,
        dataset: Any,
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.paths = tuple(getattr(dataset, "files", ()))
        self._dataset = dataset
        self._names = chosen(dataset.schema.names, columns, exclude, name)
        fields = [dataset.schema.field(column) for column in self._names]
        self._schema = tuple(column_of(f.name, plain_type(f.type), where=name) for f in fields)
        self._rows: int | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self._schema

    def row_count(self) -> int:
        """Number of rows, mostly from the files' footers."""
        if self._rows is None:
            self._rows = int(self._dataset.count_rows())
        return self._rows

    def code_bytes(self) -> int:
        """About how much memory the codes take."""
        return 4 * self.row_count() * len(self._names)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, fragment by fragment."""
        import pyarrow as pa

        names = self._names if columns is None else list(columns)
        try:
            for batch in self._dataset.to_batches(columns=names, batch_size=rows):
                if batch.num_rows:
                    yield from with_plain_types(pa.Table.from_batches([batch])).to_batches()
        except (pa.ArrowException, OSError):
            raise SourceError(
                "the dataset could not be read",
                where=self.name,
                remedy="Check that its files are still there and whole.",
            ) from None

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The dataset as DuckDB scans it."""
        import duckdb

        shown = [duckdb.ColumnExpression(name) for name in self._names]
        return connection.from_arrow(self._dataset).select(*shown)

    def fingerprint(self) -> str:
        """Fingerprint of the rows."""
        return rows_fingerprint(self._schema, self.batches())

    def close(self) -> None:
        """Nothing to release."""
