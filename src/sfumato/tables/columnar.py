"""Tables that Arrow scans in this process: frames in memory, Parquet, and Arrow's IPC formats.

Parquet is one file, several, or a folder of them, with columns in the folder names if any. Arrow
comes as the IPC file format (also called Feather) and as the IPC stream format.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from itertools import groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import parse_size
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import BATCH_ROWS, column_of
from sfumato.engines.spool import (
    INDEX,
    LONG,
    READ_BYTES,
    Spool,
    allow,
    batch_rows,
    dictionary_of,
    parquet_batches,
    stored_sizes,
    text_as_dictionary,
)
from sfumato.errors import ColumnError, EngineMemoryError, SourceError, spell
from sfumato.tables.source import (
    NUMBER_VALUE,
    TEXT_VALUE,
    BaseSource,
    chosen,
    columns_of,
    errors_without_cells,
    is_pandas,
    is_polars,
    plain_array,
    plain_columns,
    plain_type,
    rows_fingerprint,
    with_plain_types,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow.parquet as pq


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

    def code_bytes(self) -> int:
        """About how much memory the codes take, and under a limit the text values."""
        held = super().code_bytes()
        if self.memory is not None:
            for name in (column.name for column in self._schema if column.kind == "text"):
                held += text_bytes(batch.column(0) for batch in self.batches([name]))
        return held

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        shown = self._table if columns is None else self._table.select(list(columns))
        yield from shown.to_batches(max_chunksize=min(rows, sys.maxsize))

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them, without a copy."""
        return connection.from_arrow(self._table)


def _shown_as(name: str) -> duckdb.Expression:
    """A column of a relation; DuckDB takes a star that is not quoted for all columns."""
    import duckdb

    return duckdb.SQLExpression('"*"') if name == "*" else duckdb.ColumnExpression(name)


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

        return frame.with_columns(pl.Series(n, pl.from_arrow(array)) for n, array in made.items())
    for name, array in made.items():
        frame = frame.set_column(frame.schema.get_field_index(name), name, array)
    return frame


def from_pandas(
    frame: Any,
    name: str,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    types: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> pa.Table:
    """A pandas data frame as an Arrow table: NaN becomes null, the index is left out.

    Text columns of objects are dictionary-encoded, which usually takes less memory than pandas
    itself needs; unless `types` say what columns become.
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
            array = pa.array(series, types.get(label), from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # Arrow quotes the cell it stumbled over, so its own words are not shown.
            raise _mixed(label, name) from None
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if isinstance(kind, pa.BaseExtensionType) and pa.types.is_nested(kind.storage_type):
            raise ColumnError(
                f"column `{label}` holds intervals, which have no plain form",
                where=name,
                remedy=f'Make them text, e.g. df["{label}"] = df["{label}"].astype(str).',
            )
        if series.dtype == object and pa.types.is_string(array.type) and not types:
            array = array.dictionary_encode()
        arrays.append(array)
    return pa.Table.from_arrays(arrays, names=names)


def _mixed(label: str, name: str) -> ColumnError:
    return ColumnError(
        f"column `{label}` mixes values of different types",
        where=name,
        remedy=f'Make them one type, e.g. df["{label}"] = df["{label}"].astype(str).',
    )


def from_polars(
    frame: Any,
    name: str,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> pa.Table:
    """A polars data frame as an Arrow table; NaN and null stay apart, as polars keeps them."""
    names = chosen(frame.columns, columns, exclude, name)
    arrays = []
    for series in arrow_ready(frame[names]):  # `select` would take * and ^…$ for patterns
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


class FrameSource(BaseSource):
    """A pandas or polars frame whose rows become Arrow as they pass by: no copy of it is held."""

    columns_apart = True

    def __init__(
        self,
        frame: Any,
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._frame = frame
        self._types: dict[str, pa.DataType] = {}
        self._rows_at = frame.iloc if is_pandas(frame) else frame
        empty = self._converted(self._rows_at[:0], columns, exclude)
        names = empty.column_names
        self._types = {field.name: field.type for field in empty.schema}
        if is_pandas(frame):
            for at, label in enumerate(map(str, frame.columns)):
                if label in names and frame.dtypes.iloc[at].kind == "O":
                    self._types[label] = _inferred(frame.iloc[:, at], name)
        shown = [plain_type(type_) for type_ in self._types.values()]
        self._arrow_schema = pa.schema(list(zip(names, shown, strict=True)))
        self._schema = columns_of(self._arrow_schema, name)
        self._text_bytes = 0
        for column in self._schema:  # also to find cells of another type before work starts
            if column.kind == "text":
                cells = (batch.column(0) for batch in self.batches([column.name]))
                self._text_bytes += text_bytes(cells)
            elif self._types[column.name] != empty.schema.field(column.name).type:
                deque(self.batches([column.name]), 0)

    def _converted(
        self, frame: Any, columns: Sequence[str] | None, exclude: Sequence[str] | None = None
    ) -> pa.Table:
        if is_pandas(frame):
            return from_pandas(frame, self.name, columns, exclude, self._types)
        return from_polars(frame, self.name, columns, exclude)

    def row_count(self) -> int:
        """Number of rows."""
        return len(self._frame)

    def code_bytes(self) -> int:
        """About how much memory the codes and the text values take."""
        return super().code_bytes() + self._text_bytes

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        names = self._arrow_schema.names if columns is None else list(columns)
        for start in range(0, len(self._frame), rows):
            some = self._converted(self._rows_at[start : start + rows], names)
            yield from with_plain_types(some).combine_chunks().to_batches()


def _inferred(series: Any, name: str) -> pa.DataType:
    """The type that Arrow gives to objects, found without converting them."""
    try:
        return pa.infer_type(series.to_numpy(), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise _mixed(str(series.name), name) from None


def text_bytes(cells: Iterable[pa.Array]) -> int:
    """About how much memory the texts of a column take until they are numbered and ranked.

    Of each batch those count that the first one lacks, judged by some.

    Examples
    --------
    >>> text_bytes([pa.array(["ab", "cd"])]), text_bytes([pa.array(["ab"])] * 1_000)
    (108, 54)
    """
    first: pa.Array | None = None
    held = 0
    for array in cells:
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        known, new = array.dictionary, 1.0
        if first is not None and len(known):
            some = known[:_LOOKED_AT]
            seen = len(some) if known.equals(first) else pc.sum(pc.is_in(some, first)).as_py()
            new = 1 - seen / len(some)
        first = known if first is None else first
        held += int(new * (known.nbytes + TEXT_VALUE * len(known)))
    return held


_LOOKED_AT = 1 << 12


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
        shown = [_shown_as(name) for name in self._names]
        return connection.from_arrow(self._dataset).select(*shown)

    def fingerprint(self) -> str:
        """Fingerprint of the rows."""
        return rows_fingerprint(self._schema, self.batches())


_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class ParquetSource(BaseSource):
    """Parquet files of one schema, read one after the other.

    `root` is the folder that was named, if one was: names of folders below it may hold columns.
    """

    columns_apart = True

    def __init__(
        self,
        paths: Sequence[Path],
        name: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        root: Path | None = None,
    ) -> None:
        self.name = name
        self.paths = tuple(paths)
        self._metadata = [_metadata(path, name) for path in self.paths]
        for metadata in self._metadata:
            _check_cells(metadata, name)
        stored = _common_schema(self._metadata, self.paths, name)
        self._folders = _folder_columns(self.paths, root, set(stored.names))
        names = [*stored.names, *self._folders]
        self._names = chosen(names, columns, exclude, name)
        types = {field.name: field.type for field in stored}
        shown = [types.get(column) or pa.string() for column in self._names]
        self._schema = tuple(
            column_of(column, plain_type(type_), where=name)
            for column, type_ in zip(self._names, shown, strict=True)
        )
        self._arrow_schema = pa.schema([(column.name, column.type) for column in self._schema])
        self._native = all(plain_type(type_) == type_ for type_ in shown)
        self._numbered = {field.name for field in stored if pa.types.is_dictionary(field.type)}
        self._sizes: dict[float, dict[str, int]] = {}

    def row_count(self) -> int:
        """Number of rows, from the files' footers."""
        return sum(metadata.num_rows for metadata in self._metadata)

    def column_sizes(self) -> dict[str, int]:
        """About how much there is to read of each column."""
        return stored_sizes(self._metadata[0])

    def code_bytes(self) -> int:
        """About how much memory the codes and the text values take."""
        text = set(text_as_dictionary(self._arrow_schema))
        held = 4 * self.row_count() * len(self._names)
        for metadata in self._metadata:
            for group in range(metadata.num_row_groups):
                parts = metadata.row_group(group)
                for at in range(parts.num_columns):
                    part = parts.column(at)
                    if part.path_in_schema in text:
                        held += part.total_uncompressed_size
                        if self.memory is not None and _differ(part):
                            # such texts are held more often than codes while they are numbered
                            held += part.total_uncompressed_size + TEXT_VALUE * part.num_values
                    elif part.path_in_schema in self._names and self.memory is not None:
                        held += NUMBER_VALUE * part.num_values * _differ(part)
        return held

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, file by file; text comes dictionary-encoded, unless it is long and differs."""
        names = self._names if columns is None else list(columns)
        if self.memory is not None:
            sizes = self._column_bytes(READ_BYTES)
            most = max(self.memory - _BESIDE, self.memory // 2)
            for name in names:
                if sizes[name] > most:
                    raise _large_dictionary(name, sizes[name] + _BESIDE, self.memory, self.name)
            if len(names) > 1 and sum(sizes[name] for name in names) > self.memory // 4:
                yield from self.copy().batches(names, rows)
                return
            rows = batch_rows(rows, len(names), LONG)
        stored = [name for name in names if name not in self._folders]
        text = [name for name in text_as_dictionary(self._arrow_schema) if name in stored]
        for index, path in enumerate(self.paths):
            metadata = self._metadata[index]
            try:
                for batch in parquet_batches(path, stored, text, rows, self.memory, metadata):
                    yield self._arranged(batch, names, index)
            except (pa.ArrowMemoryError, pa.ArrowCapacityError) as error:
                raise _too_large(self.name) from error
            except (pa.ArrowException, OSError) as error:
                raise _damaged(path, self.name) from error

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The files as DuckDB scans them, or a copy.

        That is where types are not its own, and where groups of rows would not fit its memory: it
        holds what is stored of all columns of one.
        """
        import duckdb

        if not self._native or not self._fit(connection):
            return super().relation(connection)

        def shown(name: str, folder: tuple[str | None, ...]) -> duckdb.Expression:
            if name not in self._folders:
                return _shown_as(name)
            value = folder[list(self._folders).index(name)]
            return duckdb.ConstantExpression(value).cast("VARCHAR").alias(name)

        def folder_of(index: int) -> tuple[str | None, ...]:
            return tuple(values[index] for values in self._folders.values())

        allow(connection, self.paths)
        parts = []
        for folder, indices in groupby(range(len(self.paths)), folder_of):
            files = connection.read_parquet(
                [str(self.paths[index]) for index in indices],
                union_by_name=True,
                hive_partitioning=False,
            )
            parts.append(files.select(*(shown(name, folder) for name in self._names)))
        return reduce(lambda above, below: above.union(below), parts)

    def to_copy(self) -> Iterator[pa.RecordBatch]:
        """The rows; of wide tables, some columns after the others are laid aside before."""
        sizes = self._column_bytes(READ_BYTES)
        most = math.inf if self.memory is None else self.memory // 4
        slices: list[list[str]] = [[]]
        held = 0
        for name in self._names:
            held += sizes[name]
            if slices[-1] and held > most:
                slices.append([])
                held = sizes[name]
            slices[-1].append(name)
        if len(slices) == 1:
            yield from self.batches()
            return
        with ExitStack() as laid_aside:
            spools = []
            for names in slices:
                schema = pa.schema([self._arrow_schema.field(name) for name in names])
                rows = (batch.cast(schema) for batch in self.batches(names))
                spools.append(Spool.of(schema, rows, int(most) // (4 * len(slices))))
                laid_aside.callback(spools[-1].close)
            few = batch_rows(BATCH_ROWS, len(self._names), LONG)
            for parts in _in_step([spool.batches(rows=few) for spool in spools]):
                arrays = [array for part in parts for array in part.columns]
                yield pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _fit(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Whether DuckDB may scan groups of rows as they are."""
        if self.memory is None:
            return True
        settings = "SELECT current_setting('threads'), current_setting('memory_limit')"
        ((threads, given),) = connection.execute(settings).fetchall()
        most = min(self.memory // 4, parse_size(given) // 3)
        return sum(self._column_bytes().values()) * int(threads) <= most

    def _column_bytes(self, buffer: float = math.inf) -> dict[str, int]:
        """What reading a group of rows takes for each column: what is stored and what is unpacked.

        What is stored comes in pieces as large as the buffer. Values of a page are unpacked at a
        time, and held several times over; those of a dictionary all of the time.
        """
        if buffer in self._sizes:
            return self._sizes[buffer]
        sizes = self._sizes[buffer] = dict.fromkeys(self._names, 0)
        for path, metadata in zip(self.paths, self._metadata, strict=True):
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                for part in map(group.column, range(group.num_columns)):
                    name, stored = part.path_in_schema, min(part.total_compressed_size, buffer)
                    if name in sizes:
                        size = int(stored) + _UNPACKED * min(part.total_uncompressed_size, _PAGE)
                        if part.physical_type == "BYTE_ARRAY":  # of others, none are collected
                            values, held = dictionary_of(path, part)
                            numbered = name in self._numbered or values <= BATCH_ROWS
                            size += (_NUMBERED if numbered else _UNPACKED) * held
                            size += _ENTRY * values if numbered else 0
                        sizes[name] = max(sizes[name], size)
        return sizes

    def _arranged(self, batch: pa.RecordBatch, names: list[str], index: int) -> pa.RecordBatch:
        """Columns in the order asked for, of the table's types, with those of the folder names."""
        arrays = []
        for name in names:
            if name in self._folders:
                value = pa.scalar(self._folders[name][index], pa.string())
                arrays.append(pa.repeat(value, batch.num_rows))
                continue
            array = plain_array(batch.column(name))
            wanted = self._arrow_schema.field(name).type
            if pa.types.is_dictionary(wanted):
                wanted = wanted.value_type
            held = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
            arrays.append(array if held == wanted else array.cast(wanted))
        return pa.RecordBatch.from_arrays(arrays, names=names)


class CopySource(ParquetSource):
    """Rows that their library writes to a temporary Parquet file by itself."""

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
            with errors_without_cells(name):
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


def _metadata(path: Path, name: str) -> pq.FileMetaData:
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, name) from error


_PAGE, _UNPACKED = 1 << 20, 3
"""Bytes unpacked at a time, and how often they are held, as are those of a dictionary."""
_NUMBERED, _ENTRY, _BESIDE = 6, 100, 96 << 20
"""How often those of a dictionary are held that Arrow numbers, what each value takes besides, and
what the rows take meanwhile; measured."""


def _in_step(
    streams: Sequence[Iterator[pa.RecordBatch]],
) -> Iterator[list[pa.RecordBatch]]:
    """Batches of the same rows from streams that cut theirs at different places."""
    waiting = [batch for stream in streams for batch in islice(stream, 1)]
    while len(waiting) == len(streams):
        rows = min(batch.num_rows for batch in waiting)
        yield [batch.slice(0, rows) for batch in waiting]
        rest = [batch.slice(rows) for batch in waiting]
        waiting = [
            batch
            for one, stream in zip(rest, streams, strict=True)
            for batch in ([one] if one.num_rows else islice(stream, 1))
        ]


def _differ(part: pq.ColumnChunkMetaData) -> bool:
    """Whether values are stored one by one, because most of them differ."""
    return bool(part.total_uncompressed_size > INDEX * part.num_values)


_LARGEST_CELL = 16 << 20
"""Bytes that the cells of a column may have on average within a group of rows."""


def _check_cells(metadata: pq.FileMetaData, name: str) -> None:
    """Refuse cells that would take all memory before any of them could be looked at."""
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        if group.total_byte_size <= _LARGEST_CELL * max(group.num_rows, 1):
            continue
        for column in map(group.column, range(group.num_columns)):
            if column.total_uncompressed_size > _LARGEST_CELL * max(group.num_rows, 1):
                size = column.total_uncompressed_size / max(group.num_rows, 1) / 2**20
                raise ColumnError(
                    f"the cells of column `{column.path_in_schema}` have {size:,.0f} MB on average",
                    where=name,
                    remedy="Leave the column out where the file is made.",
                )


def _too_large(name: str) -> EngineMemoryError:
    return EngineMemoryError(
        "a cell, or a group of rows, does not fit into memory",
        where=name,
        remedy="Leave long columns out where the file is made, or write smaller groups of rows.",
    )


def _large_dictionary(column: str, size: int, memory: int, name: str) -> EngineMemoryError:
    return EngineMemoryError(
        f"reading the dictionary of column `{column}` takes about {size >> 20:,} MiB, more than "
        f"the {memory >> 20:,} MiB allowed",
        where=name,
        remedy=f"Allow more memory (e.g. {spell('memory', '2GB')}), leave the column out "
        f"({spell('exclude', [column])}), or write the file with small groups of rows.",
    )


def _damaged(path: Path, name: str) -> SourceError:
    return SourceError(
        "this Parquet file is damaged, incomplete or unreadable",
        where=str(path) if str(path) != name else name,
        remedy="Export it again, or check that the copy finished.",
    )


def _common_schema(metadata: list[Any], paths: Sequence[Path], name: str) -> pa.Schema:
    """One schema for all files: the same names, and types that fit together."""
    schemas = [m.schema.to_arrow_schema().remove_metadata() for m in metadata]
    first = schemas[0]
    for path, schema in zip(paths[1:], schemas[1:], strict=True):
        for column in sorted(set(first.names) ^ set(schema.names)):
            lacking = path if column in first.names else paths[0]
            raise ColumnError(
                f"column `{column}` is missing in some of the files, e.g. in {lacking}",
                where=name,
                remedy="Read files of one kind together, e.g. with a narrower glob.",
            )
    if all(schema.equals(first) for schema in schemas):
        return first
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException:
        raise ColumnError(
            "the files disagree about the types of their columns",
            where=name,
            remedy="Write them again with one schema.",
        ) from None
    return pa.schema([unified.field(column) for column in first.names])


def _folder_columns(
    paths: Sequence[Path], root: Path | None, stored: set[str]
) -> dict[str, list[str | None]]:
    """Columns in folder names such as ``year=2020``, one value a file; stored columns win."""
    found: dict[str, list[str | None]] = {}
    if root is None:
        return found
    for path in paths:
        for part in path.relative_to(root).parent.parts:
            key, equals, value = part.partition("=")
            if equals and key and key not in stored:
                found.setdefault(key, []).append(None if value == _HIVE_NULL else unquote(value))
    return {key: values for key, values in found.items() if len(values) == len(paths)}


class ArrowFile(BaseSource):
    """An Arrow file, in the file format or in the `stream` format."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        stream: bool,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.paths = (path,)
        self._path = path
        self._stream = stream
        with self._opened() as reader:
            stored = reader.schema
        self._arrow_schema, self._at = plain_columns(stored, columns, exclude, name)
        self._schema = columns_of(self._arrow_schema, name)

    def code_bytes(self) -> int:
        """About how much memory the codes and the text values take, judged by the first batch."""
        size = self._path.stat().st_size
        with self._opened() as reader:
            first = next(self._stored(reader), None)
            if first is None or not first.num_rows:
                return 0
            whole = max(1, size // max(first.nbytes, 1))
            batches = whole if self._stream else reader.num_record_batches
            fields = zip(self._at, self._schema, strict=True)
            text = sum(first.column(at).nbytes for at, own in fields if own.kind == "text")
        return int(batches * (4 * first.num_rows * len(self._schema) + text))

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file."""
        known = self._arrow_schema.names
        names = known if columns is None else list(columns)
        at = [self._at[known.index(name)] for name in names]
        wanted = pa.schema([self._arrow_schema.field(name) for name in names])
        with self._opened() as reader:
            for batch in self._stored(reader):
                table = pa.Table.from_arrays([batch.column(i) for i in at], names=names)
                yield from with_plain_types(table).cast(wanted).to_batches(max_chunksize=rows)

    def _stored(self, reader: Any) -> Iterator[pa.RecordBatch]:
        if self._stream:
            yield from reader
            return
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The reader of the file, its failures in our words."""
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
