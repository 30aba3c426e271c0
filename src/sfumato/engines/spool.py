"""Rows that must be read more than once, kept in memory while small and in a private file beyond.

Streams can be read only once, and CSV is slow to read again: a `Spool` takes their record batches
and gives them back as often as asked. Its temporary folder is readable by nobody else and goes away
on `close`, when the spool is forgotten, and when the process ends.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as t

from sfumato.budget import usable_threads
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import BATCH_ROWS
from sfumato.errors import EngineError

if TYPE_CHECKING:
    import duckdb
    import pyarrow.parquet as pq


_ROW_GROUP = 8 * BATCH_ROWS
_ROW_GROUP_BYTES, _LEAST_GROUP = 1 << 26, 1 << 20
_FEW_ROWS = 1024


def allow(connection: duckdb.DuckDBPyConnection, paths: Iterable[str | Path]) -> None:
    """Let a connection read files also after it is locked down, which must come later."""
    more = [str(path) for path in paths]
    found = connection.execute("SELECT current_setting('allowed_paths')").fetchone()
    before = [] if found is None or not found[0] else list(found[0])
    connection.execute("SET allowed_paths = ?", [[*before, *more]])


class Spool:
    """Record batches of one schema, to be read again and again.

    Parameters
    ----------
    schema
        Schema of the batches.
    memory
        Bytes to hold in memory before turning to a temporary Parquet file, and, up to a limit, in
        each of its groups of rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"age": [1, 2]})
    >>> spool = Spool.of(batch.schema, [batch, batch])
    >>> spool.rows, spool.table().column("age").to_pylist()
    (4, [1, 2, 1, 2])
    """

    def __init__(self, schema: pa.Schema, memory: int) -> None:
        self.schema = schema
        self.rows = self.text_bytes = 0
        self._text = text_as_dictionary(schema)
        self.path: Path | None = None
        self._closed = False
        self._memory = memory
        self._group = min(_ROW_GROUP_BYTES, max(memory, _LEAST_GROUP))
        self._bytes = self._waiting = self._waiting_rows = 0
        self._held: list[pa.RecordBatch] = []
        self._folder: PrivateFolder | None = None
        self._writer: pq.ParquetWriter | None = None

    @classmethod
    def of(
        cls, schema: pa.Schema, batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch],
        memory: int = 1 << 26,
    ) -> Spool:  # fmt: skip
        """A spool filled with these batches; nothing is left behind if reading them fails."""
        spool = cls(schema, memory)
        try:
            for batch in batches:
                spool.append(batch)
            spool.finish()
        except BaseException:
            spool.close()
            raise
        return spool

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows at the end."""
        batch = _compact(batch)
        size = batch.nbytes  # of wide tables it takes a while to add up
        self._held.append(batch)
        self._bytes += size
        self._waiting_rows += batch.num_rows
        self._waiting += size
        self.text_bytes += sum(batch.column(name).nbytes for name in self._text)
        self.rows += batch.num_rows
        if self._writer is None and self._bytes > self._memory:
            self._start_file()
        if self._writer is not None and (
            self._waiting_rows >= _ROW_GROUP or self._waiting >= self._group
        ):
            self._flush()

    def finish(self) -> None:
        """No more rows come."""
        if self._writer is not None:
            self._flush()
            self._guarded(self._writer.close)
            self._writer = None
            give_back()

    def table(self) -> pa.Table | None:
        """The rows if they are held in memory."""
        self._check_open()
        return None if self.path else pa.Table.from_batches(self._held, self.schema)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order they came in."""
        self._check_open()
        names = list(self.schema.names) if columns is None else list(columns)
        if self.path is None:
            for batch in self._held:
                chosen = batch.select(names)
                for start in range(0, batch.num_rows, rows):
                    yield chosen.slice(start, rows)
            return
        import pyarrow.parquet as pq

        text = text_as_dictionary(self.schema)
        with pq.ParquetFile(self.path, read_dictionary=text, pre_buffer=False) as file:
            few = batch_rows(rows, len(names), self._group)
            for batch in file.iter_batches(few, columns=names):
                yield _as_spooled(batch, names, self.schema)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them."""
        self._check_open()
        if self.path is None:
            return connection.from_arrow(self.table())
        allow(connection, [self.path])
        return connection.read_parquet(str(self.path))

    def close(self) -> None:
        """Forget the rows and remove the temporary file."""
        self._closed = True
        self._held.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._folder is not None:
            self._folder.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the table has been closed", remedy="Open it again.")

    def _start_file(self) -> None:
        import pyarrow.parquet as pq

        self._folder = PrivateFolder()
        self.path = self._folder.path / "rows.parquet"
        self._writer = self._guarded(
            pq.ParquetWriter, str(self.path), self.schema, compression="zstd", compression_level=1
        )

    def _flush(self) -> None:
        if self._held:
            assert self._writer is not None
            held = pa.Table.from_batches(self._held, self.schema)
            fit = held.num_rows * self._group // max(held.nbytes, 1)  # one batch may be large
            self._guarded(self._writer.write_table, held, min(_ROW_GROUP, max(fit, 1)))
            self._held.clear()
            self._waiting = self._waiting_rows = 0

    def _guarded(self, act: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return act(*arguments, **options)
        except OSError as error:
            self.close()
            raise EngineError(
                f"the temporary copy of the table could not be written: {error.strerror or error}",
                where=tempfile.gettempdir(),
                remedy="Free some space, or point TMPDIR to a larger disk.",
            ) from error


def text_as_dictionary(schema: pa.Schema) -> list[str]:
    """Text columns, which Parquet hands out dictionary-encoded almost for free."""
    return [
        field.name for field in schema
        if t.is_string(field.type) or t.is_large_string(field.type)
        or (t.is_dictionary(field.type) and t.is_string(field.type.value_type))
    ]  # fmt: skip


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows without values that none of them has: each group would hold all of them."""
    columns = [
        one.dictionary_decode().dictionary_encode()
        if t.is_dictionary(one.type) and len(one.dictionary) > max(len(one), _FEW_ROWS)
        else one
        for one in batch.columns
    ]
    names = batch.schema.names
    return pa.RecordBatch.from_arrays(columns, names=names).cast(batch.schema)


def _as_spooled(batch: pa.RecordBatch, names: list[str], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as they went in: Parquet has its own order of columns and its own units of time."""

    def plain(type_: pa.DataType) -> pa.DataType:
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    arrays = []
    for name in names:
        array, wanted = batch.column(name), plain(schema.field(name).type)
        arrays.append(array if plain(array.type) == wanted else array.cast(wanted))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def stored_sizes(metadata: pq.FileMetaData) -> dict[str, int]:
    """Bytes of each column in the first group of rows of a Parquet file."""
    groups = map(metadata.row_group, range(min(1, metadata.num_row_groups)))
    parts = [group.column(at) for group in groups for at in range(group.num_columns)]
    return {part.path_in_schema: part.total_compressed_size for part in parts}


def parquet_batches(
    path: str | Path, columns: Sequence[str], text: Sequence[str], rows: int,
    memory: int | None, metadata: pq.FileMetaData | None = None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Rows of a Parquet file; texts as dictionaries, unless many of them differ.

    Parameters
    ----------
    columns, text
        Columns to read, and those of texts.
    rows
        Of a batch, at most.
    memory
        Limit of all work, if there is one.
    metadata
        Of the file, where it is known.
    """
    import pyarrow.parquet as pq

    shown = [name for name in text if name in columns]
    metadata = metadata or pq.read_metadata(path)
    long, size = _long_texts(path, metadata, shown, rows, memory)
    size += _unpacked_bytes(path, metadata, {*columns} - {*shown})
    few = max(1, min(rows, int(LONG // max(size, 1))))
    with pq.ParquetFile(
        path,
        read_dictionary=[name for name in shown if name not in long],
        pre_buffer=False,
        buffer_size=0 if memory is None else READ_BYTES,
    ) as file:
        several = usable_threads(None) > 1
        yield from file.iter_batches(few, columns=list(columns), use_threads=several)


LONG, INDEX, READ_BYTES = 1 << 24, 6, 1 << 16
"""Bytes of text in a group of rows or in a batch, what a row of a dictionary takes at most, and
bytes that are read at a time where memory is limited."""


def _unpacked_bytes(path: str | Path, metadata: pq.FileMetaData, names: Set[str]) -> float:
    """Bytes of a row in columns that come cell by cell, though each value is stored only once."""
    lengths = dict.fromkeys(names, 0.0)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for part in map(group.column, range(group.num_columns)):
            if part.path_in_schema in names and part.physical_type == "BYTE_ARRAY":
                values, held = dictionary_of(path, part)
                length = max(lengths[part.path_in_schema], held / max(values, 1))
                lengths[part.path_in_schema] = length
    return sum(lengths.values())


def _long_texts(
    path: str | Path,
    metadata: pq.FileMetaData,
    text: Sequence[str],
    rows: int,
    memory: int | None,
) -> tuple[Collection[str], float]:
    """Columns that hold much text cell by cell, and bytes of a row that count.

    As dictionaries, Arrow would hold all texts of a group of rows, and give them with every batch;
    and so much is kept of many small groups that a limit counts what all hold together. The same
    holds of dictionaries that are longer than a batch: numbering takes more than their texts. Under
    a limit, those of all groups that a batch takes rows from count too.
    """
    largest, together, lengths = (dict.fromkeys(text, 0.0) for _ in range(3))
    long = set[str]()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for part in map(group.column, range(group.num_columns)):
            name, size, cells = part.path_in_schema, part.total_uncompressed_size, group.num_rows
            if name not in largest:
                continue
            length = size / max(cells, 1)
            if part.total_compressed_size - _dictionary_stored(part) > INDEX * max(cells, 1):
                largest[name], together[name] = max(largest[name], size), together[name] + size
                long.add(name)
            elif memory is not None:
                values, held = dictionary_of(path, part)
                if values > rows:
                    largest[name] = together[name] = math.inf
                    long.add(name)
                    length = held / values
            lengths[name] = max(lengths[name], length)
    much, least = (largest, LONG) if memory is None else (together, memory // 256)
    long = {name for name in long if much[name] >= least}
    return long, sum(lengths[name] for name in (long if memory is None else text))


def _dictionary_stored(part: pq.ColumnChunkMetaData) -> int:
    """Bytes that the dictionary of a group of rows takes in the file."""
    start = part.dictionary_page_offset if part.has_dictionary_page else None
    return 0 if start is None else part.data_page_offset - start


_MUCH = 1 << 16
"""Bytes of a column, unpacked, from which on it is looked at what its dictionary takes."""


def dictionary_of(path: str | Path, part: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """How many values a large dictionary of a group of rows has, and their bytes; else zeros.

    That stands before it: three or four numbers, the second of which are its bytes, and a structure
    that begins with how many values there are (in Thrift's compact protocol).
    """
    if not _dictionary_stored(part) or part.total_uncompressed_size < _MUCH:
        return 0, 0
    try:
        with open(path, "rb") as file:
            file.seek(part.dictionary_page_offset)
            header = iter(file.read(_HEADER))
    except OSError:  # it is told where rows are read
        return 0, 0
    numbers: list[int] = []
    inside = False
    for kind in header:
        if kind & 15 == _STRUCTURE:
            inside = True
            continue
        numbers.append(0)
        for at, byte in enumerate(header):
            numbers[-1] += (byte & 127) << 7 * at
            if byte < 128:
                break
        if inside and len(numbers) > 2:
            return numbers[-1] >> 1, numbers[1] >> 1
    return 0, 0


_HEADER, _STRUCTURE = 64, 12


def batch_rows(rows: int, columns: int, size: int = _ROW_GROUP_BYTES) -> int:
    """Rows of a batch: of wide tables fewer than were asked for, so that they pass by in parts.

    Examples
    --------
    >>> batch_rows(131_072, 12), batch_rows(131_072, 2_000)
    (131072, 4194)
    """
    return min(rows, max(_FEW_ROWS, size // (8 * max(columns, 1))))


def held_bytes(memory: int | None, most: int = 1 << 26) -> int:
    """Bytes of rows that may be at hand, or pass by together: a sixteenth of a memory limit.

    Examples
    --------
    >>> held_bytes(None) >> 20, held_bytes(256 << 20) >> 20
    (64, 16)
    """
    return most if memory is None else min(most, memory // 16)


def give_back() -> None:
    """Let the system have what Arrow and C keep for later: DuckDB allocates for itself."""
    import ctypes

    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):  # only the GNU C library has it
        ctypes.CDLL(None).malloc_trim(0)
