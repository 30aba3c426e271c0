"""DuckDB over a source: the embedded database for tables that do not fit, which spills to disk.

Memory stays within a limit; what does not fit goes to a private temporary folder. Rows keep the
order of their source, so samples and releases are the same as those of the memory engine.

No connection loads extensions, finds variables of this program by name, or reads a stored secret;
each is locked down to the files it was opened for before the first question (`lock_down`).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.types as t
from sqlglot import exp

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.connection import Connection, Session
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Capabilities,
    Column,
    Kind,
    Source,
    as_declared,
    column_of,
)
from sfumato.engines.spool import Spool, give_back, held_bytes
from sfumato.errors import EngineError, EngineMemoryError, SfumatoError, spell

_ROWS = "rows"
_MEGABYTE = 1 << 20
_LEAST_OF_DUCKDB = 64 * _MEGABYTE
"""Below this, DuckDB cannot even spill."""
_MEMORY_OF_A_THREAD = 112 * _MEGABYTE
_MEMORY_OF_THE_REST = 288 * _MEGABYTE
"""What compiled loops, record batches on their way and DuckDB's own uncounted buffers take."""
_MEMORY_OF_WRITING = 416 * _MEGABYTE
"""The same while a release is written: its rows are read, recoded and packed at the same time."""

_LEAST_OF_WRITING, _NARROW = 384 * _MEGABYTE, 12
"""With less memory than this, releases of more columns (times lookups) are refused; measured."""
_COLUMN = 6 * 8 * 2048
"""Bytes that a column takes in the steps of a statement that moves rows, measured."""
_CELLS, _FEWEST = 16 * BATCH_ROWS, 2048
"""Cells of a batch, and rows of one, where memory is limited: of wide tables few rows pass by."""


def connect(folder: PrivateFolder, **limits: str | int) -> duckdb.DuckDBPyConnection:
    """A database in memory that loads nothing from elsewhere and spills into a private folder."""
    return duckdb.connect(
        ":memory:",
        config={
            "temp_directory": str(folder.path),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,
            **limits,
        },
    ).execute("SET enable_progress_bar = false")  # else it draws one wherever Python is a prompt


def lock_down(connection: duckdb.DuckDBPyConnection) -> None:
    """From now on, no file can be reached but those allowed; there is no way back."""
    connection.execute("SET enable_external_access = false")


class _Dialect(sql.Dialect):
    octets = "OCTET_LENGTH"

    def class_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        return sql.call("HASH", *keys)

    def key_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        signless = exp.BitwiseRightShift(this=self.class_hash(keys), expression=exp.convert(1))
        return exp.cast(signless, "bigint")

    def length(self, cell: sql.Node, kind: Kind) -> sql.Node:
        text = exp.cast(cell, "text")
        return sql.call("STRLEN", text) if kind == "text" else super().length(cell, kind)


_DIALECT = _Dialect("duckdb")


class DuckDB(Connection):
    """A source scanned by DuckDB, out of core.

    Parameters
    ----------
    source
        Where the rows come from.
    memory
        Bytes DuckDB may hold; None leaves the choice to it.
    threads
        Threads it may use; None means all cores.
    """

    kind = "duckdb"
    capabilities = Capabilities()

    def __init__(
        self, source: Source, memory: int | None = None, threads: int | None = None
    ) -> None:
        self.source = self._source = source
        self.name = source.name
        self.memory = memory
        self.threads = threads
        if memory is not None:
            source.memory = memory
        self._folder: PrivateFolder | None = None
        self._spool: Spool | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._stored: sql.Rows | None = None

    def rows(self) -> sql.Rows:
        """The source as a view, in types that DuckDB holds exactly."""
        if self._stored is None:
            declared = self._source.schema()
            stored = tuple(_storable(column) for column in declared)
            # To DuckDB, names that differ in case only are the same name.
            distinct_names = len({column.name.casefold() for column in stored}) == len(stored)
            connection = self.opened()
            with self.guarded():
                if stored == declared and distinct_names:
                    relation = self._source.relation(connection)
                else:
                    relation = self._converted(stored).relation(connection)
                relation.create_view(_ROWS, replace=True)
                lock_down(connection)
            self._stored = sql.Rows(sql.table(_ROWS), stored, _DIALECT)
        return self._stored

    def session(self, *, apart: bool = False, writing: bool = False) -> _Session:
        """Statements to come; DuckDB holds less while a release is written.

        One that is written from a statement alone (`apart`) is sorted by one thread: with two and
        little memory, DuckDB cannot merge what it laid aside.
        """
        return _Session(self, sparing=writing, one_thread=apart and writing)

    def over(self, source: Source, budget: Budget | None = None) -> DuckDB:
        """The same limits over other rows."""
        return DuckDB(source, self.memory, self.threads)

    def close(self) -> None:
        """Close the database and remove everything temporary."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._stored = None
        for held in (self._spool, self._folder):
            if held is not None:
                held.close()
        self._spool = self._folder = None

    def opened(self) -> duckdb.DuckDBPyConnection:
        """The database itself."""
        if self._connection is None:
            self._folder = PrivateFolder()
            settings: dict[str, str | int] = {}
            threads = self.threads
            if self.memory is not None:
                limit = self._limit(self.memory, writing=False)
                settings["memory_limit"] = f"{limit // _MEGABYTE}MiB"
                most = max(1, limit // _MEMORY_OF_A_THREAD)
                threads = most if threads is None else min(threads, most)
            if threads is not None:
                settings["threads"] = threads
            with self.guarded():
                self._connection = connect(self._folder, **settings)
                self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection

    @staticmethod
    def _limit(memory: int, *, writing: bool) -> int:
        """Bytes that DuckDB may count of a limit."""
        if writing:
            return max(memory - _MEMORY_OF_WRITING, memory // 5, _LEAST_OF_DUCKDB)
        return max(memory - _MEMORY_OF_THE_REST, memory // 3, _LEAST_OF_DUCKDB)

    def check_width(self, columns: int, *, writing: bool, lookups: int = 1) -> None:
        """Refuse rows of so many columns that it could not move a few thousand of them at a time.

        Every step of a statement holds as many, so that nothing can be laid aside. Below what
        releases take, only narrow ones are written.
        """
        if self.memory is None:
            return
        needed, limit = _COLUMN * columns, self._limit(self.memory, writing=writing)
        little = writing and self.memory < _LEAST_OF_WRITING and columns * lookups > _NARROW
        if needed > limit or little:
            whole = needed + (_MEMORY_OF_WRITING if writing else _MEMORY_OF_THE_REST)
            raise EngineMemoryError(
                f"rows of {columns:,} columns take about {whole >> 20:,} MiB out of core, more "
                f"than the {self.memory >> 20:,} MiB allowed",
                where=self.name,
                remedy=f"Allow more memory (e.g. {spell('memory', '2GB')}), or leave columns out "
                f"({spell('exclude', 'a,b')}).",
            )

    def most_cuts(self) -> int | None:
        """Each of the values is a column of the statement; half of the limit is for these."""
        if self.memory is None:
            return None
        return self._limit(self.memory, writing=True) // 2 // _COLUMN

    def give_back(self) -> None:
        """Let the system have what DuckDB keeps for later, up to half of its limit.

        It has an allocator of its own, and empties it when its limit is set, also to the same.
        """
        if self.memory is not None:
            connection = self.opened()
            with suppress(duckdb.Error):
                found = connection.execute("SELECT current_setting('memory_limit')").fetchone()
                connection.execute("SET memory_limit = ?", list(found or ()))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn DuckDB's errors into ours."""
        try:
            yield
        except duckdb.Error as error:
            raise _translated(error, self.name) from error
        except OSError as error:  # what a stream of record batches makes of DuckDB's errors
            if not str(error).startswith("Out of Memory Error"):
                raise
            raise _translated(duckdb.OutOfMemoryException(), self.name) from error

    def _converted(self, stored: Sequence[Column]) -> Spool:
        schema = pa.schema([pa.field(f"c{at}", c.type) for at, c in enumerate(stored)])
        batches = (b.rename_columns(schema.names).cast(schema) for b in self._source.batches())
        self._spool = Spool.of(schema, batches, held_bytes(self.memory, 1 << 28))
        return self._spool


class _Session(Session):
    """Statements to one DuckDB."""

    def __init__(self, database: DuckDB, *, sparing: bool, one_thread: bool) -> None:
        self._database = database
        self._sparing = sparing and database.memory is not None
        self._one_thread = one_thread and self._sparing
        self._before: dict[str, str | int] = {}
        self._uploaded: list[str] = []

    def execute(self, statement: sql.Node, columns: Sequence[Column]) -> pa.Table:
        """The answer to a statement."""
        try:
            with self._database.guarded():
                found = self._database.opened().sql(sql.text(statement, _DIALECT)).to_arrow_table()
        finally:
            self._database.give_back()
        return as_declared(found, columns)

    def stream(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        rows: int = BATCH_ROWS,
        pieces: int = 1,
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement, batch by batch."""
        relation = self._database.opened().sql(sql.text(statement, _DIALECT))
        if self._database.memory is not None:
            rows = min(rows, max(_FEWEST, _CELLS // max(len(columns), 1)))
        try:
            with self._database.guarded(), relation.to_arrow_reader(rows) as reader:
                for batch in reader:
                    yield from as_declared(pa.Table.from_batches([batch]), columns).to_batches()
        finally:
            self._database.give_back()

    def run(self, statement: sql.Node) -> None:
        """Run a statement that has no answer."""
        with self._database.guarded():
            self._database.opened().execute(sql.text(statement, _DIALECT))

    def upload(self, name: str, table: pa.Table) -> None:
        """Let statements see a table; nothing is copied."""
        self._database.opened().register(name, table)
        self._uploaded.append(name)

    def cancel(self) -> None:
        """Give up the current statement."""
        self._database.opened().interrupt()

    def __enter__(self) -> Self:
        if self._database.memory is not None:
            give_back()  # what Arrow and C keep for later is room that DuckDB takes as its own
        if self._sparing:
            limit = self._database._limit(self._database.memory or 0, writing=True)
            self._set(memory_limit=f"{limit // _MEGABYTE}MiB")
        if self._one_thread:
            self._set(threads=1)
        return self

    def _set(self, **settings: str | int) -> None:
        """Change settings until the session ends."""
        connection = self._database.opened()
        for name, value in settings.items():
            ((before,),) = connection.execute("SELECT current_setting(?)", [name]).fetchall()
            self._before.setdefault(name, before)
            connection.execute(f"SET {name} = ?", [value])

    def __exit__(self, *_: object) -> None:
        connection = self._database.opened()
        for name in self._uploaded:
            connection.unregister(name)
        for name, value in self._before.items():
            connection.execute(f"SET {name} = ?", [value])


def _storable(column: Column) -> Column:
    """The column in a type that DuckDB holds without loss; most stay as they are.

    DuckDB has no 16-bit floats, no decimals beyond 38 digits, and intervals only to the microsecond
    and with calendar units.
    """
    if t.is_float16(column.type):
        return replace(column, type=pa.float32())
    if t.is_duration(column.type):
        return column_of(column.name, pa.int64())
    if t.is_decimal256(column.type) or (t.is_decimal(column.type) and column.type.scale < 0):
        return column_of(column.name, pa.string())
    if t.is_null(column.type):
        return column_of(column.name, pa.bool_())
    return column


def _translated(error: duckdb.Error, where: str) -> SfumatoError:
    """A DuckDB error without its own words where these could quote a cell."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return EngineMemoryError(
            "DuckDB ran out of memory or of room for temporary files",
            where=where,
            remedy=f"Allow more memory (e.g. {spell('memory', '4GB')}), free disk space, "
            "or point TMPDIR to a larger disk.",
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
        remedy=f"If the table is fine, try another engine, e.g. {spell('engine', 'memory')}.",
    )
