"""Tables already in memory: pyarrow, pandas and polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.engines.fingerprint import rows_fingerprint
from sfumato.engines.protocol import BATCH_ROWS
from sfumato.engines.schema import Column, column_of
from sfumato.errors import ColumnError
from sfumato.tables.columns import chosen

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["ArrowSource", "from_pandas", "from_polars", "plain_type"]


class ArrowSource:
    """An Arrow table as a `Source`; nothing is copied.

    Parameters
    ----------
    table
        The rows.
    name
        How messages call it.
    columns, exclude
        Columns to show, or to leave out.
    """

    paths = ()

    def __init__(
        self,
        table: pa.Table,
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        names = chosen(table.schema.names, columns, exclude, name)
        self._table = _with_plain_types(table.select(names))
        self._schema = tuple(column_of(f.name, f.type, where=name) for f in self._table.schema)

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self._schema

    def row_count(self) -> int:
        """Number of rows."""
        return int(self._table.num_rows)

    def code_bytes(self) -> int:
        """About how much memory the codes take; values are in memory already."""
        return 4 * self.row_count() * len(self._schema)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        shown = self._table if columns is None else self._table.select(list(columns))
        yield from shown.to_batches(max_chunksize=rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them, without a copy."""
        return connection.from_arrow(self._table)

    def fingerprint(self) -> str:
        """Fingerprint of the rows."""
        return rows_fingerprint(self._schema, self.batches())

    def close(self) -> None:
        """Nothing to release: the rows belong to the caller."""


def from_pandas(frame: Any, name: str) -> pa.Table:
    """A pandas data frame as an Arrow table: NaN becomes null, the index is left out.

    Text columns of objects are dictionary-encoded, which usually takes less memory than pandas
    itself needs.
    """
    import pyarrow as pa

    if frame.columns.nlevels > 1:
        raise ColumnError(
            "the column names of this data frame have several levels",
            where=name,
            remedy='Join them, e.g. df.columns = ["_".join(levels) for levels in df.columns].',
        )
    arrays, names = [], []
    for position, label in enumerate(frame.columns):
        series = frame.iloc[:, position]
        try:
            array = pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # Arrow quotes the cell it stumbled over, so its own words are not shown.
            raise ColumnError(
                f"column `{label}` mixes values of different types",
                where=name,
                remedy=f'Make them one type, e.g. df["{label}"] = df["{label}"].astype(str).',
            ) from None
        if series.dtype == object and pa.types.is_string(array.type):
            array = array.dictionary_encode()
        arrays.append(array)
        names.append(str(label))
    return pa.Table.from_arrays(arrays, names=names)


def from_polars(frame: Any) -> pa.Table:
    """A polars data frame as an Arrow table; NaN and null stay apart, as polars keeps them."""
    return frame.to_arrow()


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type a column travels in: without extensions and without the rarest widths.

    Extension types are their storage, half floats widen, milliseconds since 1970 that mean a date
    become a date, and decimals wider than needed narrow, so that every engine can hold them.
    """
    import pyarrow as pa
    import pyarrow.types as t

    if isinstance(type_, pa.BaseExtensionType):
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
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if t.is_decimal(type_) and not t.is_decimal128(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    return type_


def _with_plain_types(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    columns = []
    for column in table.columns:
        wanted = plain_type(column.type)
        if isinstance(column.type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in column.chunks]
            column = pa.chunked_array(chunks, type=column.type.storage_type)
        columns.append(column if column.type == wanted else column.cast(wanted))
    return pa.Table.from_arrays(columns, names=table.schema.names)
