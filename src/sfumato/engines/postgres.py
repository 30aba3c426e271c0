"""PostgreSQL: questions run in the server, only answers travel, a release is a new table there.

Samples and histograms come to us; rows stay where they are unless the caller asks for `batches`.
Every question runs in a read-only transaction; with `snapshot` all of them share one, so that they
describe the same moment. Rows travel by COPY and are parsed whole batches at a time; no Python
object is made for a cell. No message tells a password.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.engines import statements as sql
from sfumato.engines.database_types import (
    UNKNOWN_SIZE,
    arrow_type,
    bare,
    copied_batches,
    copied_text,
    decimal_of,
    postgres_type,
)
from sfumato.engines.protocol import BATCH_ROWS, Capabilities, Column, Source, Staged, column_of
from sfumato.engines.sql_engine import Connection, Session, SQLEngine, temporary_name
from sfumato.engines.staging import TargetStaged
from sfumato.engines.writing import format_of
from sfumato.errors import (
    ColumnError,
    EngineError,
    EngineMemoryError,
    MissingExtraError,
    ParameterError,
    SfumatoError,
    SourceError,
    did_you_mean,
    spell,
)
from sfumato.wording import shown

if TYPE_CHECKING:
    import psycopg

    from sfumato.engines.protocol import Kind

__all__ = ["Postgres", "Server", "commit_together"]

_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword")
_LONGEST_NAME = 63
_SECONDS_FOR_LOCKS = "30s"
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # A scan that starts where another one happens to be would make samples differ.
    "synchronize_seqscans": "off",
    # Whoever holds on to one moment waits while parts are solved here.
    "idle_in_transaction_session_timeout": "0",
    # Statements run once, and are not worth being compiled.
    "jit": "off",
    # Workers that hand over a class each has counted, or rows, take more than one by itself.
    "parallel_tuple_cost": "2",
}
"""How values are written on their way to us, whatever the server's own taste."""
_SORTING_MEMORY = 64 << 10
"""Kibibytes for a group-by, unless the server allows more: with too few it sorts all rows."""
_ENOUGH_MEMORY = (
    "SELECT set_config('work_mem', %s, false) FROM pg_settings "
    "WHERE name = 'work_mem' AND setting::bigint < %s"
)
_BY_HASHING = "SET LOCAL enable_sort = off"
"""Before a group-by: where groups do not fit the memory, planners would rather sort all rows, which
takes three times as long as to hash and to spill them."""
_AS_USUAL = "SET LOCAL enable_sort TO DEFAULT"
_PIECE = 1 << 17
"""Bytes that are on their way to a COPY."""
_ONE_MOMENT = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ALL_TABLES = (
    "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN relname::text "
    "ELSE nspname || '.' || relname END "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'v', 'm', 'f', 'p') "
    "AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1"
)


def _typed(value: str, kind: str) -> sql.Node:
    return exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build(kind, dialect="postgres"))


_ANY_VALUE: dict[Kind, sql.Node] = {
    **dict.fromkeys(("integer", "float", "decimal"), exp.Literal.number(0)),
    **dict.fromkeys(("text", "null"), exp.Literal.string("")),
    "boolean": exp.false(),
    "date": _typed("1970-01-01", "date"),
    "time": _typed("00:00", "time"),
    "timestamp": _typed("1970-01-01", "timestamp"),
    "duration": _typed("0", "interval"),
    "binary": _typed("", "bytea"),
}
"""Any value of each kind, to stand beside a null in a join."""

_LONGEST_NAME = 63
"""Bytes of a name, unless somebody compiled a server of their own."""

_HOLDS = """
WITH RECURSIVE within(id) AS (
    SELECT unnest(%s::oid[])
    UNION SELECT found.id FROM within, LATERAL (
        SELECT inhrelid AS id FROM pg_inherits WHERE inhparent = within.id
        UNION ALL SELECT refobjid FROM pg_depend JOIN pg_rewrite AS rule ON objid = rule.oid
        WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass
            AND ev_class = within.id
    ) AS found
), around(id) AS (
    SELECT id FROM within
    UNION SELECT inhparent FROM pg_inherits JOIN around ON inhrelid = around.id
)
SELECT 1 FROM around WHERE id = %s
"""
"""Whether a table is below a view or a divided table that is read, or above such a table."""


class _Dialect(sql.Dialect):
    counts_together = True

    def comparable(self, cell: sql.Node, kind: Kind) -> sql.Node:
        """Text is compared under the ``C`` collation: byte for byte."""
        if kind == "text":
            return exp.Collate(this=exp.cast(cell, "text"), expression=sql.quoted("C"))
        return super().comparable(cell, kind)

    def same(self, left: sql.Node, right: sql.Node, kind: Kind) -> sql.Node:
        """Only ``=`` can be hash-joined, so null is told apart by a condition of its own."""
        absent = exp.EQ(
            this=exp.paren(left.is_(exp.null())), expression=exp.paren(right.is_(exp.null()))
        )
        filler = _ANY_VALUE[kind]
        present = exp.EQ(
            this=exp.Coalesce(this=left.copy(), expressions=[filler.copy()]),
            expression=exp.Coalesce(this=right.copy(), expressions=[filler.copy()]),
        )
        return exp.And(this=absent, expression=present)

    def length(self, cell: sql.Node) -> sql.Node:
        return exp.Anonymous(this="OCTET_LENGTH", expressions=[cell])

    def class_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        hashed = _mixed(_of_record(keys, 0), 0)
        largest = exp.Literal.number((1 << 63) - 1)
        return exp.BitwiseAnd(this=hashed, expression=largest)

    def once(self, statement: exp.Select) -> exp.Select:
        # Otherwise the subquery is dissolved, and its cells are written out wherever they are used.
        return statement.offset(0)

    def row_hash(self, cells: Sequence[sql.Node], columns: Sequence[Column]) -> sql.Node:
        # MD5 takes the server several times as long, and sums of it are no harder to forge. Cells
        # are hashed as they are; but those of 64 bits would be folded to 32 before.
        told = [
            exp.cast(cell, "text") if _folded(column) else cell
            for cell, column in zip(cells, columns, strict=True)
        ]
        return _of_record(told, 1)

    def rewritten(self, cell: sql.Node, pattern: str, by: str) -> sql.Node:
        for theirs, ours in _CLASSES.items():
            pattern = pattern.replace(theirs, ours)
        return super().rewritten(cell, pattern, by)

    def hexadecimal(self, cell: sql.Node) -> sql.Node:
        return exp.Anonymous(this="ENCODE", expressions=[cell, exp.Literal.string("hex")])

    def hash_numbers(self, hashed: sql.Node) -> list[sql.Node]:
        half = exp.BitwiseAnd(this=hashed.copy(), expression=exp.Literal.number((1 << 32) - 1))
        return [_mixed(hashed.copy(), 1), _mixed(half, 2)]


def _of_record(cells: Sequence[sql.Node], seed: int) -> sql.Node:
    """A hash of 64 bits, which is a sum over the cells of a record: see `_mixed`."""
    row = exp.Anonymous(this="ROW", expressions=[cell.copy() for cell in cells])
    seeded = exp.cast(exp.Literal.number(seed), "bigint")
    return exp.Anonymous(this="HASH_RECORD_EXTENDED", expressions=[row, seeded])


def _mixed(hashed: sql.Node, seed: int) -> sql.Node:
    """A hash of the 32 bits in which the halves of a number differ.

    Without it, sums of the hashes of records would not tell whether two rows have exchanged a cell.
    """
    seeded = exp.cast(exp.Literal.number(seed), "bigint")
    return exp.Anonymous(this="HASHINT8EXTENDED", expressions=[hashed, seeded])


def _folded(column: Column) -> bool:
    """Whether a cell has 64 bits, of which the server's hash knows only how the halves differ."""
    wide = column.kind == "integer" and int(column.type.bit_width) > 32
    return wide or column.kind in ("time", "timestamp", "duration")


_CLASSES = {r"\p{L}\p{N}": "[:alnum:]", r"\p{Z}\p{Cf}": "", r"\p{Pd}": "-\u2010-\u2015"}
"""Classes of letters in patterns, as far as PostgreSQL has them."""
_DIALECT = _Dialect("postgres")


class Postgres:
    """A table, a view or a query of a PostgreSQL database (see `Connection`).

    Parameters
    ----------
    url
        Where to connect, as libpq reads it.
    table
        Name of a table or view, with its schema if it is not in the search path.
    query
        A SELECT, in place of a table.
    snapshot
        Read everything within one transaction, so that all answers describe the same moment even
        if the table changes meanwhile. Until the engine is closed, others can neither alter nor
        drop the table.
    """

    kind = "postgres"
    source: Source | None = None

    def __init__(
        self,
        url: str,
        *,
        table: str | None = None,
        query: str | sql.Node | None = None,
        snapshot: bool = False,
    ) -> None:
        if (table is None) == (query is None):
            raise ParameterError(
                "name either a table or a query of the database",
                where=Server(url).shown,
                remedy="Write postgresql://host/database#schema.table.",
            )
        self.server = Server(url)
        self.name = f"{self.server.shown}#{table}" if table else f"{self.server.shown} (query)"
        self.snapshot = snapshot
        self.capabilities = Capabilities(remote=True, ordered=False, stable=snapshot)
        self._table = table
        self._query = query
        self._connection: psycopg.Connection[Any] | None = None
        self._lender: Postgres | None = None
        self._stored: sql.Rows | None = None

    def rows(self) -> sql.Rows:
        """The table with its columns' types."""
        if self._stored is None:
            with self.asking() as connection:
                source = self._source(connection)
                described = connection.execute(sql.text(sql.no_rows(source), _DIALECT)).description
                found = connection.execute(
                    "SELECT oid, typname, typcategory FROM pg_type WHERE oid = ANY(%s)",
                    ([column.type_code for column in described or []],),
                ).fetchall()
                types = {oid: (name, category) for oid, name, category in found}
                self._stored = self._described(connection, source, described or [], types)
        return self._stored

    def session(self, *, apart: bool = False, writing: bool = False) -> _Session:
        """Statements of one transaction; apart, on a connection that sees the same moment."""
        return _Session(self, apart=apart or writing, writing=writing)

    def target(self, destination: str, format: str | None, schema: pa.Schema) -> _Target | None:
        """A table if the destination is a database URL with ``#schema.table``, or a name without
        the ending of a file format; anything else is a file, to which rows are streamed."""
        name = self._table_named(destination, format)
        if name is None:
            return None
        for field in schema:
            if len(field.name.encode()) > _LONGEST_NAME:
                raise EngineError(
                    f"column `{field.name}` has a name longer than the 63 bytes PostgreSQL allows",
                    where=destination,
                    remedy="Rename it in a query.",
                )
        return _Target(self, destination, self._checked_target(name, destination))

    def over(self, source: Source) -> Connection:
        """Files are read back by DuckDB."""
        from sfumato.engines.duckdb import DuckDB

        return DuckDB(source)

    def shares(self, other: Connection) -> bool:
        """Whether another table is of the same database."""
        return isinstance(other, Postgres) and self.server.same_database(other.server.url)

    def view(self, statement: sql.Node) -> Postgres:
        """What a statement gives, as a query on the same connection, which stays this one's."""
        found = Postgres(self.server.url, query=statement, snapshot=self.snapshot)
        found.name, found._lender = self.name, self
        return found

    def reaches(self, destination: str) -> bool:
        """A table of the same database, or a file of this machine."""
        if not destination.startswith(_SCHEMES):
            return True
        return self.server.same_database(destination.partition("#")[0])

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def connected(self) -> psycopg.Connection[Any]:
        """The connection all answers come from."""
        if self._lender is not None:
            return self._lender.connected()
        if self._connection is None:
            self._connection = self.server.connect()
            if self.snapshot:
                with self.server.guarded(self.name):
                    self._connection.execute(_ONE_MOMENT)
        return self._connection

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Read within one transaction, as with `snapshot`, and then let go of it."""
        if self.snapshot or self._lender is not None:
            yield
            return
        connection = self.connected()
        with self.server.guarded(self.name):
            connection.execute(_ONE_MOMENT)
        self.snapshot = True
        try:
            yield
        finally:
            self.snapshot = False
            if not connection.closed:
                with self.server.guarded(self.name):
                    connection.execute("ROLLBACK")

    @contextmanager
    def asking(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction on that connection, of which nothing stays."""
        connection = self.connected()
        with self.server.guarded(self.name), connection.transaction(force_rollback=True):
            yield connection

    @contextmanager
    def apart(self, *, writing: bool) -> Iterator[psycopg.Connection[Any]]:
        """A transaction on another connection that sees the same moment."""
        from psycopg.sql import SQL

        moment = None
        if self.snapshot:
            with self.server.guarded(self.name):
                found = self.connected().execute("SELECT pg_export_snapshot()").fetchone()
                assert found is not None
                (moment,) = found
        with (
            closing(self.server.connect(writable=writing)) as connection,
            self.server.guarded(self.name),
            connection.transaction(),
        ):
            if moment is not None:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(moment))
            yield connection

    def _source(self, connection: psycopg.Connection[Any]) -> sql.Node:
        if isinstance(self._query, str):
            return sql.parsed_query(self._query, _DIALECT, self.name)
        if isinstance(self._query, exp.Query):
            return self._query.subquery()
        assert self._table is not None
        parts = sql.parsed_name(self._table, _DIALECT, self.name)
        for candidate in (parts, tuple(part.lower() for part in parts)):
            table = sql.table(candidate[-1], candidate[0] if len(candidate) == 2 else None)
            if _relation(connection, table) is not None:
                return table
        known = connection.execute(_ALL_TABLES).fetchall()
        raise SourceError(
            f"there is no table `{self._table}`",
            where=self.server.shown,
            remedy=did_you_mean(self._table, [name for (name,) in known]),
        )

    def _described(
        self,
        connection: psycopg.Connection[Any],
        source: sql.Node,
        described: Sequence[Any],
        types: dict[int, tuple[str, str]],
    ) -> sql.Rows:
        """The relation with its columns' types; digits are counted only where none are declared."""
        columns: list[Column] = []
        open_ended: list[str] = []
        for column in described:
            name, category = types[column.type_code]
            type_ = arrow_type(name, category, column.precision, column.scale)
            if type_ is None:
                raise ColumnError(
                    f"column `{column.name}` holds nested values ({name}), which cannot be "
                    "compared cell by cell",
                    where=self.name,
                    remedy="Leave it out or flatten it in a query.",
                )
            if any(column.name == known.name for known in columns):
                raise ColumnError(
                    f"column `{column.name}` occurs more than once",
                    where=self.name,
                    remedy="Give it another name in the query.",
                )
            if type_ == UNKNOWN_SIZE:
                open_ended.append(column.name)
                type_ = pa.decimal128(38, 0)
            columns.append(column_of(column.name, type_, where=self.name))
        rows = sql.Rows(source, tuple(columns), _DIALECT)
        if open_ended:
            text = sql.text(_digits(rows, open_ended), _DIALECT)
            figures = connection.execute(text).fetchone()
            assert figures is not None
            for nth, name in enumerate(open_ended):
                scale, whole, finite = figures[3 * nth : 3 * nth + 3]
                exact = decimal_of(whole or 1, scale or 0) if finite else None
                # Not-a-number, infinite or endless decimals can still be told apart as text.
                columns[rows.at(name)] = column_of(name, exact or pa.string())
        return replace(rows, columns=tuple(columns))

    def _table_named(self, destination: str, format: str | None) -> str | None:
        """The table a destination names; None if it names a file."""
        if destination.startswith(_SCHEMES):
            url, _, name = destination.partition("#")
            if not name:
                raise ParameterError(
                    "no table is named",
                    where=self.server.shown,
                    remedy="Write postgresql://host/database#schema.table.",
                )
            if not self.server.same_database(url):
                raise ParameterError(
                    "the release would go to another database, and rows do not travel",
                    where=self.name,
                    remedy="Name a table of the same database, or a file.",
                )
            return name
        try:
            format_of(destination, format)
        except ParameterError:
            if format is not None or "/" in destination:
                raise
            return destination
        return None

    def _checked_target(self, name: str, destination: str) -> exp.Table:
        """The table to be, in a schema that exists, and not the one being read."""
        source = self.rows().source
        parts = sql.parsed_name(name, _DIALECT, destination)
        with self.asking() as connection:
            if len(parts) == 1:
                found = connection.execute("SELECT current_schema()").fetchone()
            else:
                statement = "SELECT nspname::text FROM pg_namespace WHERE nspname = %s"
                found = connection.execute(statement, (parts[0],)).fetchone()
            if found is None or found[0] is None:
                raise ParameterError(
                    f"there is no schema `{parts[0]}`" if len(parts) == 2 else "no schema is set",
                    where=self.server.shown,
                    remedy="Create it first, or name another one.",
                )
            if len(parts[-1].encode()) > _LONGEST_NAME:
                raise ParameterError(
                    f"PostgreSQL cuts names of more than {_LONGEST_NAME} bytes off",
                    where=destination,
                    remedy="Choose a shorter name.",
                )
            target = sql.table(parts[-1], found[0])
            existing = _relation(connection, target)
            named = [sql.table(one.name, one.db or None) for one in source.find_all(exp.Table)]
            read = [_relation(connection, one) for one in named]
            if existing is not None and existing in read:
                raise ParameterError(
                    "this is the table being read; it would be lost",
                    where=self.name,
                    remedy="Write to another name.",
                )
            if existing is not None and connection.execute(_HOLDS, (read, existing)).fetchone():
                raise ParameterError(
                    "this table holds rows that are being read; they would be lost",
                    where=destination,
                    remedy="Write to another name.",
                )
        return target


class _Session:
    """Statements of one transaction (see `Session`)."""

    def __init__(self, database: Postgres, *, apart: bool, writing: bool) -> None:
        self._database = database
        self._opening = database.apart(writing=writing) if apart else database.asking()
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        assert self._connection is not None, "the session has not begun"
        return self._connection

    def execute(self, statement: sql.Node, columns: Sequence[Column]) -> pa.Table:
        """The answer to a statement."""
        schema = pa.schema([pa.field(column.name, column.type) for column in columns])
        return pa.Table.from_batches(self.stream(statement, columns), schema)

    def stream(
        self, statement: sql.Node, columns: Sequence[Column], rows: int = BATCH_ROWS
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement, batch by batch."""
        format_ = "text" if bare(columns) else "csv"
        copying = _copy(exp.Subquery(this=_as_text(statement, columns)), "STDOUT", format_)
        received = _received(self.connection, sql.text(copying, _DIALECT))
        with self._database.server.guarded(self._database.name), closing(received) as messages:
            self.connection.execute(_BY_HASHING if statement.find(exp.Group) else _AS_USUAL)
            yield from copied_batches(messages, columns, rows, self._database.name)

    def run(self, statement: sql.Node) -> None:
        """Run a statement that has no answer."""
        self.connection.execute(sql.text(statement, _DIALECT))

    def upload(self, name: str, table: pa.Table) -> None:
        """Fill a temporary table, and let the planner know how large it is."""
        columns = [(field.name, postgres_type(field.type)) for field in table.schema]
        self.run(sql.new_table(name, columns, _DIALECT))
        filling = sql.text(_copy(sql.table(name), "STDIN", "text"), _DIALECT)
        _sent(self.connection, filling, copied_text(table))
        self.run(sql.about(sql.table(name), "ANALYZE t"))

    def apply(self, *_: object) -> None:
        """None: the server does not run what we do."""

    def seed(self, seed: int) -> None:
        """Make random numbers repeatable, as long as rows do not move."""
        # Workers would hand rows to the random numbers in an order of their own.
        self.connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        start = np.random.default_rng(seed).uniform(-1, 1)
        self.connection.execute("SELECT setseed(%s)", (start,))

    def cancel(self) -> None:
        """Give up the current statement."""
        if self._connection is not None:
            self._connection.cancel_safe()

    def __enter__(self) -> _Session:
        self._connection = self._opening.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opening.__exit__(*error)


class _Target:
    """A table of the same database, renamed in one transaction (see `Target`)."""

    def __init__(self, origin: Postgres, destination: str, target: exp.Table) -> None:
        self._origin = origin
        self._server = origin.server
        self._destination = destination
        self._target = target
        self._partial = sql.table(temporary_name(), target.db)
        self._table = self._partial

    def fill(self, session: Session, statement: sql.Node) -> None:
        """Make the table under its temporary name."""
        session.run(sql.table_of(self._partial, statement))

    def fill_rows(
        self, schema: pa.Schema, written: Container[str], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Make the table, and send it rows as text."""
        types = {f.name: postgres_type(f.type) for f in schema if f.name in written}
        empty = sql.nothing_of(self._origin.rows(), schema.names, types)
        # In a table of this very transaction rows may come as if they had been there for ever: then
        # nobody who reads them has to find out, and write down, that they are there to stay.
        filling = _copy(self._partial, "STDIN", "text", "FREEZE")
        with self.connected() as connection:
            connection.execute(sql.text(sql.table_of(self._partial, empty), _DIALECT))
            texts = (text for batch in batches for text in copied_text(batch))
            _sent(connection, sql.text(filling, _DIALECT), texts)

    def engine(self) -> SQLEngine:
        """Reads the table, as it is at one moment until it has its final name."""
        named, waits = sql.text(self._table, _DIALECT), self._table != self._target
        database = Postgres(self._server.url, table=named, snapshot=waits)
        database.name = shown(self._destination)
        return SQLEngine(database)

    def publish(self, *, force: bool) -> None:
        """Give the table its final name; drop the old one in the same transaction."""
        with self.connected() as connection:
            self.rename(connection, force=force)
        self._table = self._target

    def rename(self, connection: psycopg.Connection[Any], *, force: bool) -> None:
        """Give the table its final name as soon as a transaction ends well."""
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (_SECONDS_FOR_LOCKS,))
        if _relation(connection, self._target) is not None:
            if not force:
                raise ParameterError(
                    "this table exists already",
                    where=self._destination,
                    remedy=f"Choose another name, or replace it with {spell('force', True)}.",
                )
            connection.execute(sql.text(sql.dropped(self._target), _DIALECT))
        connection.execute(sql.text(sql.renamed(self._partial, self._target.name), _DIALECT))

    def remove(self) -> None:
        """Drop the table that has the temporary name."""
        with self.connected() as connection:
            connection.execute(sql.text(sql.dropped(self._partial, exists=True), _DIALECT))

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of its own."""
        with (
            closing(self._server.connect(writable=True)) as connection,
            self._server.guarded(self._destination),
            connection.transaction(),
        ):
            yield connection


def commit_together(staged: Sequence[Staged], *, force: bool = False) -> None:
    """Give tables of one database their final names in one transaction: all of them or none."""
    together = [one for one in staged if isinstance(one, TargetStaged)]
    targets = [one.target for one in together if isinstance(one.target, _Target)]
    if len(targets) != len(staged):
        raise EngineError(
            "these tables are not all of one database", remedy="Write them to files instead."
        )
    for one in together:
        one.rest()
    if targets:
        with targets[0].connected() as connection:
            for target in targets:
                target.rename(connection, force=force)
    for one in together:
        one.settled()


class Server:
    """Where to connect to, and as whom.

    Examples
    --------
    >>> Server("postgresql://ann:secret@db.example/census?sslmode=require").shown
    'postgresql://ann@db.example/census?sslmode=require'
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.shown = shown(url)
        self._secrets = _secrets_of(url, self.shown)

    def __repr__(self) -> str:
        return f"<Server {self.shown}>"

    def connect(self, *, writable: bool = False) -> psycopg.Connection[Any]:
        """A new connection; statements outside a transaction commit by themselves."""
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError("postgres", "a PostgreSQL table") from None
        try:
            connection = psycopg.connect(
                self.url, autocommit=True, application_name="sfumato", client_encoding="UTF8"
            )
        except psycopg.Error as error:
            raise EngineError(
                f"cannot connect: {self._said(error)}",
                where=self.shown,
                remedy="Check that the server runs and that host, port, database, user and "
                "password are right.",
            ) from None
        with self.guarded(self.shown):
            for name, value in _SETTINGS.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            connection.execute(_ENOUGH_MEMORY, (f"{_SORTING_MEMORY}kB", _SORTING_MEMORY))
            if not writable:
                connection.execute("SET default_transaction_read_only = on")
        return connection

    def same_database(self, url: str) -> bool:
        """Whether another URL leads to the same database of the same server."""
        from psycopg.conninfo import conninfo_to_dict

        mine, other = conninfo_to_dict(self.url), conninfo_to_dict(url)
        places = ("host", "hostaddr", "port", "dbname")
        return all(str(mine.get(key, "")) == str(other.get(key, "")) for key in places)

    @contextmanager
    def guarded(self, where: str) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self._translated(error, where) from None

    def _translated(self, error: psycopg.Error, where: str) -> SfumatoError:
        import psycopg

        state = error.sqlstate
        if state is None or state.startswith(("08", "57P")):
            return EngineError(
                "the connection to PostgreSQL was lost",
                where=where,
                remedy="Check that the server still runs, then start again; nothing was published.",
            )
        if state.startswith("42") and not isinstance(error, psycopg.errors.InsufficientPrivilege):
            return SourceError(
                f"PostgreSQL does not understand this: {self._said(error)}",
                where=where,
                remedy="Check the names of schema, table and columns after the #.",
            )
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return EngineError(
                self._said(error), where=where, remedy="Ask its owner for permission."
            )
        if isinstance(error, (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory)):
            return EngineMemoryError(
                f"the server ran out of room: {self._said(error)}",
                where=where,
                remedy="Free space on the server; nothing was published.",
            )
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return EngineError(
                "somebody else is using the table to be replaced",
                where=where,
                remedy="Try again when they are done.",
            )
        # Messages about data quote it.
        told = "" if state.startswith(("22", "23")) else f": {self._said(error)}"
        return EngineError(
            f"PostgreSQL refused ({type(error).__name__}, SQLSTATE {state}){told}",
            where=where,
            remedy="If the table was changed meanwhile, start again.",
        )

    def _said(self, error: psycopg.Error) -> str:
        """The server's words in one line, without any secret."""
        said = " ".join((error.diag.message_primary or str(error)).split())
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return said.rstrip(".")


def _secrets_of(url: str, where: str) -> list[str]:
    """The passwords in an address, which must be written so that none can be taken for a host."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtraError("postgres", "a PostgreSQL table") from None
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        parts = {"host": "@"}  # its words would quote what could not be read
    places = [parts.get(name, "") for name in ("host", "hostaddr", "dbname")]
    ports = parts.get("port", "")
    if any("@" in place for place in places) or not re.fullmatch(r"[0-9,]*", ports):
        raise SourceError(
            "the address of the database cannot be read",
            where=where,
            remedy="Write special characters of a password as %40 for @, %2F for /, %3F for ?, "
            "%23 for # and %25 for %, or keep it in ~/.pgpass; parameters have lower-case names.",
        )
    return [parts[name] for name in _SECRETS if parts.get(name)]


def _relation(connection: psycopg.Connection[Any], table: sql.Node) -> int | None:
    """The server's number of a table or view; None if there is none."""
    text = sql.text(table, _DIALECT)
    found = connection.execute("SELECT to_regclass(%s)::oid::bigint", (text,)).fetchone()
    return None if found is None else found[0]


def _digits(rows: sql.Rows, names: Sequence[str]) -> sql.Node:
    """For decimals of no declared size: digits after and before the point, and non-numbers."""
    infinite = exp.cast(exp.Literal.string("Infinity"), "numeric")
    figures: list[sql.Node] = []
    for name in names:
        cell = rows.cell(name)
        size = exp.Abs(this=cell.copy())
        finite = exp.Case().when(exp.LT(this=size, expression=infinite.copy()), cell.copy())
        whole = exp.Anonymous(this="TRUNC", expressions=[exp.Max(this=exp.Abs(this=finite))])
        all_finite = exp.EQ(
            this=exp.Count(this=finite.copy()), expression=exp.Count(this=cell.copy())
        )
        scale = exp.Max(this=exp.Anonymous(this="SCALE", expressions=[cell]))
        figures += [scale, exp.Length(this=exp.cast(whole, "text")), all_finite]
    return exp.select(*figures).from_(rows.relation())


def _as_text(statement: sql.Node, columns: Sequence[Column]) -> sql.Node:
    """A statement whose texts are those that questions compare.

    What a type shows is not always what it is cast to: ``character(5)`` is shown with blanks at
    its end, and a host of ``inet`` without its mask.
    """
    if not any(column.kind == "text" for column in columns):
        return statement
    names = [f"a{at}" for at in range(len(columns))]
    cells = [
        exp.cast(sql.field(name), "text") if column.kind == "text" else sql.field(name)
        for name, column in zip(names, columns, strict=True)
    ]
    return exp.select(*cells).from_(_DIALECT.relation(exp.Subquery(this=statement), names))


def _copy(what: sql.Node, where: str, form: str, *more: str) -> sql.Node:
    """Rows out of a query or into a table."""
    format_ = exp.CopyParameter(this=exp.var("FORMAT"), expression=exp.var(form))
    params = [format_, *(exp.CopyParameter(this=exp.var(word)) for word in more)]
    return exp.Copy(
        this=what, kind=where == "STDIN", files=[exp.to_identifier(where)], params=params
    )


def _sent(connection: psycopg.Connection[Any], copying: str, texts: Iterable[Any]) -> None:
    """Send text to a COPY, piece by piece, each when the server has taken the one before.

    Whatever it has not taken libpq keeps, however much that is, and moves each time some is taken.
    """
    from psycopg.waiting import Wait

    pgconn = connection.pgconn

    def taken() -> Generator[Wait, Any]:
        while pgconn.flush():
            yield Wait.W

    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        for text in texts:
            for start in range(0, len(text), _PIECE):
                copy.write(text[start : start + _PIECE])
                connection.wait(taken())


def _received(connection: psycopg.Connection[Any], copying: str) -> Generator[Any]:
    """The messages of a COPY, each of which is one row; the driver is asked only to wait."""
    from psycopg.errors import error_from_result
    from psycopg.pq import ExecStatus

    pgconn = connection.pgconn
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        while True:
            size, message = pgconn.get_copy_data(1)
            if size > 0:
                yield message
            elif size == 0:
                waited_for = copy.read()
                if not waited_for:
                    return
                yield waited_for
            else:
                break
        # The connection is at rest only after the last result.
        for result in list(iter(pgconn.get_result, None)):
            if result.status != ExecStatus.COMMAND_OK:
                raise error_from_result(result)
