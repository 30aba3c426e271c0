"""Tables that Arrow can scan in this process: pyarrow, pandas, polars and Arrow datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.engines.protocol import BATCH_ROWS, column_of
from sfumato.errors import ColumnError, SourceError
from sfumato.tables.source import (
    BaseSource,
    chosen,
    columns_of,
    plain_type,
    rows_fingerprint,
    with_plain_types,
)

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "ArrowSource",
    "DatasetSource",
    "arrow_ready",
    "from_pandas",
    "from_polars",
    "is_pandas",
    "is_polars",
    "with_columns",
]


class ArrowSource(BaseSource):
    """An Arrow table, not copied; `path` is the file that its rows were read from, if any."""

    columns_apart = True

    def __init__(
        self,
        table: pa.Table,
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        path: Path | None = None,
    ) -> None:
        self.name = name
        self.paths = () if path is None else (path,)
        names = chosen(table.schema.names, columns, exclude, name)
        self._table = with_plain_types(table.select(names))
        self._schema = columns_of(self._table.schema, name)

    def row_count(self) -> int:
        """Number of rows."""
        return int(self._table.num_rows)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        shown = self._table if columns is None else self._table.select(list(columns))
        yield from shown.to_batches(max_chunksize=rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them, without a copy."""
        return connection.from_arrow(self._table)


def is_pandas(source: Any) -> bool:
    """Whether something is a pandas data frame; pandas is not loaded to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def is_polars(source: Any) -> bool:
    """Whether something is a polars data frame; polars is not loaded to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "polars"


def with_columns(frame: Any, made: Mapping[str, pa.Array]) -> Any:
    """A pandas or polars frame or an Arrow table with some columns replaced by Arrow arrays."""
    if is_pandas(frame):
        changed = frame.copy()
        for name, array in made.items():
            kept = array.to_pandas(date_as_object=False)
            kept.index = frame.index
            changed[name] = kept
        return changed
    if is_polars(frame):
        import polars as pl

        return frame.with_columns(**{name: pl.from_arrow(array) for name, array in made.items()})
    for name, array in made.items():
        frame = frame.set_column(frame.schema.get_field_index(name), name, array)
    return frame


def from_pandas(
    frame: Any,
    name: str,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> pa.Table:
    """A pandas data frame as an Arrow table: NaN becomes null, the index is left out.

    Text columns of objects are dictionary-encoded, which usually takes less memory than pandas
    itself needs.
    """
    if frame.columns.nlevels > 1:
        raise ColumnError(
            "the column names of this data frame have several levels",
            where=name,
            remedy='Join them, e.g. df.columns = ["_".join(levels) for levels in df.columns].',
        )
    labels = [str(label) for label in frame.columns]
    names = chosen(labels, columns, exclude, name)
    arrays = []
    for label in names:
        series = frame.iloc[:, labels.index(label)]
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
    return pa.Table.from_arrays(arrays, names=names)


def from_polars(
    frame: Any,
    name: str,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> pa.Table:
    """A polars data frame as an Arrow table; NaN and null stay apart, as polars keeps them."""
    names = chosen(frame.columns, columns, exclude, name)
    arrays = []
    for series in arrow_ready(frame.select(names)):
        try:
            arrays.append(series.to_arrow())
        except Exception:  # polars panics with types of its own, and not only with these
            raise ColumnError(
                f"column `{series.name}` holds {series.dtype} values, which have no Arrow form",
                where=name,
                remedy="Cast it to a plain type, or leave it out.",
            ) from None
    return pa.Table.from_arrays(arrays, names=names)


def arrow_ready(frame: Any) -> Any:
    """A polars frame, lazy or not, with 128-bit integers as decimals, which Arrow can hold."""
    import polars as pl

    wide = [getattr(pl, name) for name in ("Int128", "UInt128") if hasattr(pl, name)]
    return frame.with_columns(pl.col(wide).cast(pl.Decimal(38, 0))) if wide else frame


class DatasetSource(BaseSource):
    """A pyarrow dataset."""

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

    def row_count(self) -> int:
        """Number of rows, mostly from the files' footers."""
        if self._rows is None:
            self._rows = int(self._dataset.count_rows())
        return self._rows

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, fragment by fragment."""
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
