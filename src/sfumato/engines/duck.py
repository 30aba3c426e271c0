"""The embedded engine for tables that do not fit: DuckDB scans the source and spills to disk.

Memory stays within a limit; what does not fit goes to a private temporary folder. Rows keep the
order of their source, so samples and releases are the same as those of the memory engine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import duckdb
import numpy as np

from sfumato.budget import LEAST_MEMORY, Budget
from sfumato.engines import statements as sql
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Column,
    Source,
    Staged,
    column_of,
    columns_named,
    names_in,
)
from sfumato.engines.recoding import (
    Entries,
    Lookup,
    Recoding,
    output_schema,
    recoded_batch,
    unmatched,
)
from sfumato.engines.results import ClassSizes, Codes, as_declared, codes_of
from sfumato.engines.spool import PrivateFolder, Spool
from sfumato.engines.staging import stage_batches
from sfumato.engines.watching import watching
from sfumato.errors import EngineError, SfumatoError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DuckEngine"]

_ROWS = "rows"
_MEGABYTE = 1 << 20
_MEMORY_OF_A_THREAD = 128 * _MEGABYTE
_MEMORY_OF_THE_REST = 256 * _MEGABYTE
"""What compiled loops, record batches on their way and DuckDB's own uncounted buffers take."""
_MEMORY_OF_WRITING = 416 * _MEGABYTE
"""The same while a release is written: its rows are read, recoded and packed at the same time."""

_PARTS = (1, 8, 64, 512)
"""In how many parts classes are counted, one attempt after the other, as long as memory ends."""


class DuckEngine:
    """A source scanned by DuckDB, out of core.

    Parameters
    ----------
    source
        Where the rows come from.
    memory
        Bytes the engine may hold; None leaves the choice to DuckDB.
    threads
        Threads it may use; None means all cores.
    """

    kind: Literal["memory", "duckdb", "postgres", "spark", "stream"] = "duckdb"
    exact_order = True

    def __init__(
        self, source: Source, memory: int | None = None, threads: int | None = None
    ) -> None:
        self.source = source
        self.name = source.name
        self.memory = memory
        self.threads = threads
        self._columns: tuple[Column, ...] | None = None
        self._row_count: int | None = None
        self._folder: PrivateFolder | None = None
        self._spool: Spool | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._stored: sql.Rows | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types of the source."""
        if self._columns is None:
            self._columns = self.source.schema()
        return self._columns

    def row_count(self) -> int:
        """Number of rows; counted where the source does not state it."""
        if self._row_count is None:
            self._row_count = self.source.row_count()
        if self._row_count is None:
            found = self._ask(sql.row_count(self._rows()))
            self._row_count = int(found.column(0)[0].as_py())
        return self._row_count

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null."""
        found = self._ask(sql.null_counts(self._rows(), columns))
        return {name: int(cell[0].as_py()) for name, cell in zip(columns, found, strict=True)}

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of class sizes, by a group-by that spills.

        Groups of many columns can be too wide even for that; they are then counted in parts, each
        reading all rows and keeping the classes with a certain remainder of their hash.
        """
        *few, most = _PARTS
        for parts in few:
            try:
                return self._class_sizes(columns, parts, budget)
            except EngineError as error:
                if not isinstance(error.__cause__, duckdb.OutOfMemoryException):
                    raise
        return self._class_sizes(columns, most, budget)

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes with their counts, in ascending order of their codes."""
        rows = self._rows()
        found = self._ask(sql.classes(rows, columns, limit), budget, "listing classes")
        return codes_of(found, columns_named(self.schema(), columns), limit, self.name)

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        return self.classes([column], limit)

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Rows at seeded positions, in the order of the table."""
        import pyarrow as pa

        names = names_in(self.schema(), columns)
        total = self.row_count()
        if rows >= total:
            chosen = np.arange(total)
        else:
            chosen = np.random.default_rng(seed).choice(total, rows, replace=False, shuffle=False)
        wanted = pa.table({sql.POSITION: np.sort(chosen).astype(np.int64)})
        with self._uploaded({"wanted": wanted}):
            found = self._ask(sql.at_positions(self._rows(), names, "wanted"))
        return as_declared(found, columns_named(self.schema(), names))

    def stage(
        self,
        recoding: Recoding,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Look every row up in DuckDB, recode batch by batch, write beside the final place."""

        def reopen(source: Source) -> DuckEngine:
            return DuckEngine(source, self.memory, self.threads)

        schema = output_schema(self.schema(), recoding)
        return stage_batches(
            self._recoded(recoding, schema, budget),
            schema,
            destination,
            format,
            reopen=reopen,
            inputs=getattr(self.source, "paths", ()),
        )

    def fingerprint(self) -> str:
        """Identity of the source's content."""
        return self.source.fingerprint()

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The source's own rows."""
        return self.source.batches(columns, rows)

    def close(self) -> None:
        """Close the database and remove everything temporary."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._stored = None
        for held in (self._spool, self._folder):
            if held is not None:
                held.close()
        self._spool = self._folder = None
        self.source.close()

    def _class_sizes(self, columns: Sequence[str], parts: int, budget: Budget | None) -> ClassSizes:
        histogram: Counter[int] = Counter()
        for part in range(parts):
            statement = sql.class_sizes(self._rows(), columns, None if parts == 1 else part, parts)
            found = self._ask(statement, budget, "counting classes")
            for size, classes in zip(*(c.to_pylist() for c in found.columns), strict=True):
                histogram[size] += classes
        return ClassSizes.of(histogram)

    def _recoded(
        self, recoding: Recoding, schema: pa.Schema, budget: Budget | None
    ) -> Iterator[pa.RecordBatch]:
        lookups = [Lookup(step, self.name) for step in recoding.steps]
        total, done = self.row_count(), 0
        written = {name for step in recoding.steps for name in step.cells}
        read = [name for name in schema.names if name not in written]
        # A reading of no column might lose the number of rows.
        batches = self.source.batches(read or names_in(self.schema(), None)[:1])
        with self._met(lookups, budget) as met:
            for batch in batches:
                entries = [
                    lookup.entries(tuples)
                    for lookup, tuples in zip(lookups, met.take(batch.num_rows), strict=True)
                ]
                yield recoded_batch(batch, recoding, entries, schema)
                done += batch.num_rows
                if budget is not None:
                    budget.progress("writing", done / total if total else None)
            met.finish()

    @contextmanager
    def _met(self, lookups: Sequence[Lookup], budget: Budget | None) -> Iterator[_Tuples]:
        """The combination every row has in each step, row by row in order."""
        import pyarrow as pa

        if not lookups:
            yield _Tuples(iter(()), 0, self.name)
            return
        rows = self._rows()
        mappings, uploads = [], {}
        for at, lookup in enumerate(lookups):
            columns = lookup.step.match.columns
            mapping = sql.Mapping(f"step{at}", columns, (), ranged=False)
            keys = [
                _stand_in(lookup.tuples.column(name), rows.columns[rows.at(name)].type)
                for name in columns
            ]
            numbers = pa.array(np.arange(lookup.combinations, dtype=np.int64))
            names = [*(f"k{nth}" for nth in range(len(columns))), sql.TUPLE]
            uploads[mapping.relation] = pa.table([*keys, numbers], names=names)
            mappings.append(mapping)
        statement = sql.text(sql.matched(rows, mappings), "duckdb")
        connection = self._open()
        with (
            self._uploaded(uploads),
            self._guarded(),
            self._sparing(),
            watching(budget, connection.interrupt, "recoding", self.name),
            connection.sql(statement).to_arrow_reader(BATCH_ROWS) as reader,
        ):
            yield _Tuples(reader, len(lookups), self.name)

    def _ask(
        self, statement: sql.Node, budget: Budget | None = None, doing: str = "asking DuckDB"
    ) -> pa.Table:
        connection = self._open()
        with self._guarded(), watching(budget, connection.interrupt, doing, self.name):
            return connection.sql(sql.text(statement, "duckdb")).to_arrow_table()

    def _rows(self) -> sql.Rows:
        """The source as a view, in types that DuckDB holds exactly."""
        if self._stored is None:
            stored = tuple(_storable(column) for column in self.schema())
            # To DuckDB, names that differ in case only are the same name.
            distinct_names = len({column.name.casefold() for column in stored}) == len(stored)
            connection = self._open()
            with self._guarded():
                if stored == self.schema() and distinct_names:
                    relation = self.source.relation(connection)
                else:
                    relation = self._converted(stored).relation(connection)
                relation.create_view(_ROWS, replace=True)
            self._stored = sql.Rows(sql.table(_ROWS), stored, "duckdb")
        return self._stored

    def _converted(self, stored: Sequence[Column]) -> Spool:
        import pyarrow as pa

        schema = pa.schema([pa.field(f"c{at}", c.type) for at, c in enumerate(stored)])
        converted = (
            pa.RecordBatch.from_arrays(
                [_stand_in(array, f.type) for array, f in zip(batch.columns, schema, strict=True)],
                schema=schema,
            )
            for batch in self.source.batches()
        )
        self._spool = Spool.of(schema, converted, memory=(self.memory or 1 << 30) // 4)
        return self._spool

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._folder = PrivateFolder()
            settings: dict[str, str | bool | int] = {
                "temp_directory": str(self._folder.path),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            threads = self.threads
            if self.memory is not None:
                limit = max(self.memory - _MEMORY_OF_THE_REST, self.memory // 2, LEAST_MEMORY)
                settings["memory_limit"] = f"{limit // _MEGABYTE}MiB"
                most = max(1, limit // _MEMORY_OF_A_THREAD)
                threads = most if threads is None else min(threads, most)
            if threads is not None:
                settings["threads"] = threads
            with self._guarded():
                self._connection = duckdb.connect(":memory:", config=settings)
                self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection

    @contextmanager
    def _sparing(self) -> Iterator[None]:
        """Hold less while others hold more: reading, recoding and packing go on at once."""
        if self.memory is None:
            yield
            return
        connection = self._open()
        limit = max(self.memory - _MEMORY_OF_WRITING, self.memory // 5, LEAST_MEMORY)
        (before,) = connection.execute("SELECT current_setting('memory_limit')").fetchall()[0]
        connection.execute("SET memory_limit = ?", [f"{limit // _MEGABYTE}MiB"])
        try:
            yield
        finally:
            connection.execute("SET memory_limit = ?", [before])

    @contextmanager
    def _uploaded(self, tables: dict[str, pa.Table]) -> Iterator[None]:
        connection = self._open()
        try:
            for name, table in tables.items():
                connection.register(name, table)
            yield
        finally:
            for name in tables:
                connection.unregister(name)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            raise _translated(error, self.name) from error


class _Tuples:
    """A stream of numbers of combinations, handed out in pieces of any length."""

    def __init__(self, batches: Iterator[pa.RecordBatch], steps: int, where: str) -> None:
        self.batches = batches
        self.where = where
        self.held: list[list[Entries]] = [[] for _ in range(steps)]
        self.available = 0

    def take(self, rows: int) -> list[Entries]:
        """The next rows of every step."""
        if not self.held:
            return []
        while self.available < rows:
            batch = next(self.batches, None)
            if batch is None:
                raise unmatched(self.where)
            for held, array in zip(self.held, batch.columns, strict=True):
                if array.null_count:
                    raise unmatched(self.where)
                held.append(array.to_numpy())
            self.available += batch.num_rows
        taken = []
        for at, held in enumerate(self.held):
            whole = np.concatenate(held) if held else np.empty(0, np.int64)
            taken.append(whole[:rows])
            self.held[at] = [whole[rows:]]
        self.available -= rows
        return taken

    def finish(self) -> None:
        """Every row must have been asked for."""
        if self.available or any(batch.num_rows for batch in self.batches):
            raise unmatched(self.where)


def _storable(column: Column) -> Column:
    """The column in a type that DuckDB holds without loss; most stay as they are.

    DuckDB has no 16-bit floats, no decimals beyond 38 digits, and intervals only to the microsecond
    and with calendar units.
    """
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_float16(column.type):
        return replace(column, type=pa.float32())
    if t.is_duration(column.type):
        return column_of(column.name, pa.int64())
    if t.is_decimal256(column.type) or (t.is_decimal(column.type) and column.type.scale < 0):
        return column_of(column.name, pa.string())
    if t.is_null(column.type):
        return column_of(column.name, pa.bool_())
    return column


def _stand_in(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Values in the type they are stored in."""
    return array if array.type == type_ else array.cast(type_)


def _translated(error: duckdb.Error, where: str) -> SfumatoError:
    """A DuckDB error without its own words where these could quote a cell."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return EngineError(
            "DuckDB ran out of memory or of room for temporary files",
            where=where,
            remedy="Raise --memory, free disk space, or point TMPDIR to a larger disk.",
        )
    if isinstance(error, duckdb.IOException):
        told = re.sub(r"\s+", " ", str(error)).removeprefix("IO Error: ")
        return EngineError(
            f"DuckDB could not read or write: {told}",
            where=where,
            remedy="Check that the file is still there and that the disk has room.",
        )
    if isinstance(error, duckdb.InterruptException):
        return EngineError("DuckDB was interrupted", where=where, remedy="Run it again.")
    return EngineError(
        f"DuckDB could not answer ({type(error).__name__})",
        where=where,
        remedy="If the table is fine, try another engine with --engine.",
    )
