"""PostgreSQL: questions run in the server, only answers travel, a release is a new table there.

Samples and histograms come to us; rows stay where they are unless the caller asks for `batches`.
Every question runs in a read-only transaction; with `snapshot` all of them share one, so that they
describe the same moment. Rows travel by COPY (`database_types`). No message tells a password.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.engines import statements as sql
from sfumato.engines.connection import Connection, Session, temporary_name
from sfumato.engines.database_types import (
    UNKNOWN_SIZE,
    arrow_type,
    bare,
    copied_batches,
    copied_text,
    decimal_of,
    postgres_type,
    received,
    sent,
)
from sfumato.engines.protocol import BATCH_ROWS, Capabilities, Column, column_of
from sfumato.engines.sql_engine import SQLEngine
from sfumato.engines.staging import Staged
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
    import numpy.typing as npt
    import psycopg

    from sfumato.engines.protocol import Kind


_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword")
_SECONDS_FOR_LOCKS = "30s"
_LONGEST_NAME = 63
"""Bytes of a name, unless somebody compiled a server of their own."""
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
_SET = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS s(name, value)"
_SORTING_MEMORY = 64 << 10
"""Kibibytes for a group-by, unless the server allows more: with too few it sorts all rows."""
_ENOUGH_MEMORY = (
    "SELECT set_config('work_mem', %s, false) FROM pg_settings "
    "WHERE name = 'work_mem' AND setting::bigint < %s"
)
_BY_HASHING = "SET LOCAL enable_sort = off; SET LOCAL enable_nestloop = off"
"""Before a group-by: where groups do not fit the memory, planners would rather sort all rows, which
takes three times as long as to hash and to spill them. What must be sorted all the same costs so
much then that they would as soon compare every row with every group."""
_AS_USUAL = "SET LOCAL enable_sort TO DEFAULT; SET LOCAL enable_nestloop TO DEFAULT"
_ONE_MOMENT = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ALL_TABLES = (
    "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN relname::text "
    "ELSE nspname || '.' || relname END "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'v', 'm', 'f', 'p') "
    "AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1"
)
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

_FINITE = "CASE WHEN ABS(CELL) < CAST('Infinity' AS DECIMAL) THEN CELL END"
_DIGITS = (
    f"SELECT MAX(SCALE(CELL)), LENGTH(CAST(TRUNC(MAX(ABS({_FINITE}))) AS TEXT)), "
    f"COUNT({_FINITE}) = COUNT(CELL)"
)
"""For a decimal of no declared size: digits after and before the point, and that all are finite."""
_SAME = "(ONE IS NULL) = (OTHER IS NULL) AND COALESCE(ONE, FILLER) = COALESCE(OTHER, FILLER)"
_FILLERS: dict[Kind, str] = {
    **dict.fromkeys(("integer", "float", "decimal"), "0"),
    **dict.fromkeys(("text", "null"), "''"),
    "boolean": "FALSE",
    "date": "CAST('1970-01-01' AS DATE)",
    "time": "CAST('00:00' AS TIME)",
    "timestamp": "CAST('1970-01-01' AS TIMESTAMP)",
    "duration": "CAST('0' AS INTERVAL)",
    "binary": "CAST('' AS BYTEA)",
}
"""Any value of each kind, to stand beside a null in a join."""
_CLASSES = {r"\p{L}\p{N}": "[:alnum:]", r"\p{Z}\p{Cf}": "", r"\p{Pd}": "-\u2010-\u2015"}
"""Classes of letters in patterns, as far as PostgreSQL has them."""


class _Dialect(sql.Dialect):
    counts_together = True
    cuts_in_rows = True  # a table has 1,600 columns at most, and each row would look at all of them
    octets = "OCTET_LENGTH"

    def comparable(self, cell: sql.Node, kind: Kind) -> sql.Node:
        """Text is compared under the ``C`` collation: byte for byte."""
        if kind == "text":
            return exp.Collate(this=exp.cast(cell, "text"), expression=sql.quoted("C"))
        return super().comparable(cell, kind)

    def same(self, left: sql.Node, right: sql.Node, kind: Kind) -> sql.Node:
        """Only ``=`` can be hash-joined, so null is told apart by a condition of its own."""
        return sql.filled(_SAME, ONE=left, OTHER=right, FILLER=sql.filled(_FILLERS[kind]))

    def class_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        hashed = _mixed(_of_record(keys, 0), 0)
        return exp.BitwiseAnd(this=hashed, expression=exp.convert((1 << 63) - 1))

    def key_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        return _of_record(keys, 0)

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
        return sql.call("ENCODE", cell, "hex")

    def hash_numbers(self, hashed: sql.Node) -> list[sql.Node]:
        half = exp.BitwiseAnd(this=hashed, expression=exp.convert((1 << 32) - 1))
        return [_mixed(hashed, 1), _mixed(half, 2)]

    def numbers_here(self, hashes: Iterable[npt.NDArray[np.uint64]]) -> list[npt.NDArray[np.int64]]:
        rows: Any = np.uint64(0)
        for one in hashes:
            rows = rows * np.uint64(31) + one
        low, high = (half.astype(np.uint32) for half in (rows, rows >> np.uint64(32)))
        folded = low ^ np.where(high >> np.uint32(31), ~high, high)
        return [_mixed_here(folded, 1), _mixed_here(low, 2)]


def _of_record(cells: Sequence[sql.Node], seed: int) -> sql.Node:
    """A hash of 64 bits, which is a sum over the cells of a record: see `_mixed`."""
    seeded = exp.cast(exp.convert(seed), "bigint")
    return sql.call("HASH_RECORD_EXTENDED", sql.call("ROW", *cells), seeded)


def _mixed(hashed: sql.Node, seed: int) -> sql.Node:
    """A hash of the 32 bits in which the halves of a number differ.

    Without it, sums of the hashes of records would not tell whether two rows have exchanged a cell.
    """
    return sql.call("HASHINT8EXTENDED", hashed, exp.cast(exp.convert(seed), "bigint"))


def _mixed_here(words: npt.NDArray[np.uint32], seed: int) -> npt.NDArray[np.int64]:
    """What `_mixed` gives for numbers of 32 bits, or of 64 that were folded to these."""

    def turned(word: Any, bits: int) -> Any:
        return word << np.uint32(bits) | word >> np.uint32(32 - bits)

    begun = np.full(1, 0x9E3779B9 + 4 + 3_923_095, np.uint32)
    x, y, z = begun, begun + np.uint32(seed), begun
    for bits in (4, 6, 8, 16, 19, 4):
        x, y, z = y, z + y, (x - z) ^ turned(z, bits)
    x, y, z = z, y, x + words
    for bits in (14, 11, 25, 16, 4, 14, 24):
        x, y, z = z, (x ^ y) - turned(y, bits), y
    return (z.astype(np.int64) << 32) | y


def _folded(column: Column) -> bool:
    """Whether a cell has 64 bits, of which the server's hash knows only how the halves differ."""
    wide = column.kind == "integer" and int(column.type.bit_width) > 32
    return wide or column.kind in ("time", "timestamp", "duration")


_DIALECT = _Dialect("postgres")


def _written(template: str, **given: sql.Node) -> str:
    """A statement about tables, as the server reads it."""
    return sql.text(sql.filled(template, **given), _DIALECT)


class Postgres(Connection):
    """A table, a view or a query of a PostgreSQL database.

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
        """The table with its columns' types; digits are counted only where none are declared."""
        if self._stored is None:
            with self.asking() as connection:
                source = self._source(connection)
                nothing = sql.select(
                    "SELECT * FROM NAME LIMIT 0", NAME=_DIALECT.relation(source, [])
                )
                described = connection.execute(sql.text(nothing, _DIALECT)).description or []
                found = connection.execute(
                    "SELECT oid, typname, typcategory FROM pg_type WHERE oid = ANY(%s)",
                    ([column.type_code for column in described],),
                ).fetchall()
                types = {oid: (name, category) for oid, name, category in found}
                columns = {c.name: self._type_of(c, *types[c.type_code]) for c in described}
                if len(columns) < len(described):
                    names = [column.name for column in described]
                    twice = next(name for name in names if names.count(name) > 1)
                    raise ColumnError(
                        f"column `{twice}` occurs more than once",
                        where=self.name,
                        remedy="Give it another name in the query.",
                    )
                digits = [name for name, type_ in columns.items() if type_ == UNKNOWN_SIZE]
                columns |= dict.fromkeys(digits, pa.decimal128(38, 0))
                stored = tuple(column_of(*one, where=self.name) for one in columns.items())
                rows = sql.Rows(source, stored, _DIALECT)
                if digits:
                    columns |= self._counted(rows, digits, connection)
                    stored = tuple(column_of(*one, where=self.name) for one in columns.items())
                self._stored = replace(rows, columns=stored)
        return self._stored

    def session(self, *, apart: bool = False, writing: bool = False) -> _Session:
        """Statements of one transaction; apart, on a connection that sees the same moment."""
        apart = apart or writing
        return _Session(self, self._apart(writing=writing) if apart else self.asking())

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
                self._execute(_ONE_MOMENT)
        return self._connection

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Read within one transaction, as with `snapshot`, and then let go of it."""
        if self.snapshot or self._lender is not None:
            yield
            return
        self._execute(_ONE_MOMENT)
        self.snapshot = True
        try:
            yield
        finally:
            self.snapshot = False
            if not self.connected().closed:
                self._execute("ROLLBACK")

    @contextmanager
    def asking(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction on that connection, of which nothing stays."""
        connection = self.connected()
        with self.server.guarded(self.name), connection.transaction(force_rollback=True):
            yield connection

    @contextmanager
    def _apart(self, *, writing: bool) -> Iterator[psycopg.Connection[Any]]:
        """A transaction on another connection that sees the same moment."""
        from psycopg.sql import SQL

        moment = self._execute("SELECT pg_export_snapshot()").fetchone() if self.snapshot else None
        with self.server.transaction(self.name, writable=writing) as connection:
            if moment is not None:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(moment[0]))
            yield connection

    def _execute(self, statement: str) -> psycopg.Cursor[Any]:
        connection = self.connected()
        with self.server.guarded(self.name):
            return connection.execute(statement)

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

    def _type_of(self, column: Any, name: str, category: str) -> Any:
        found = arrow_type(name, category, column.precision, column.scale)
        if found is None:
            raise ColumnError(
                f"column `{column.name}` holds nested values ({name}), which cannot be compared "
                "cell by cell",
                where=self.name,
                remedy="Leave it out or flatten it in a query.",
            )
        return found

    def _counted(
        self, rows: sql.Rows, names: Sequence[str], connection: psycopg.Connection[Any]
    ) -> dict[str, pa.DataType]:
        """The types of decimals of no declared size, by the digits that they have."""
        asked = [f for n in names for f in sql.select(_DIGITS, CELL=rows.cell(n)).expressions]
        statement = sql.select("SELECT FIGURES FROM ORIGIN", rows, FIGURES=asked)
        figures = connection.execute(sql.text(statement, _DIALECT)).fetchone() or ()
        types = {}
        for name, scale, whole, finite in zip(
            names, figures[::3], figures[1::3], figures[2::3], strict=True
        ):
            exact = decimal_of(whole or 1, scale or 0) if finite else None
            # Not-a-number, infinite or endless decimals can still be told apart as text.
            types[name] = exact or pa.string()
        return types

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


class _Session(Session):
    """Statements of one transaction."""

    def __init__(
        self,
        database: Postgres,
        opening: AbstractContextManager[psycopg.Connection[Any]],
    ) -> None:
        self._database = database
        self._opening = opening
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        assert self._connection is not None, "the session has not begun"
        return self._connection

    def stream(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        rows: int = BATCH_ROWS,
        pieces: int = 1,
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement, batch by batch."""
        form = "text" if bare(columns) else "csv"
        asked = exp.Subquery(this=_as_text(statement, columns))
        copying = _written(f"COPY QUESTION TO STDOUT WITH (FORMAT {form})", QUESTION=asked)
        messages = received(self.connection, copying)
        with self._database.server.guarded(self._database.name), closing(messages):
            self.connection.execute(_BY_HASHING if statement.find(exp.Group) else _AS_USUAL)
            yield from copied_batches(messages, columns, rows, self._database.name)

    def run(self, statement: sql.Node) -> None:
        """Run a statement that has no answer."""
        self.connection.execute(sql.text(statement, _DIALECT))

    def upload(self, name: str, table: pa.Table) -> None:
        """Fill a temporary table, and let the planner know how large it is."""
        types = {field.name: postgres_type(field.type) for field in table.schema}
        nothing = sql.nothing_of(None, table.column_names, types, _DIALECT)
        new = sql.table(name)
        self.run(sql.filled("CREATE TEMPORARY TABLE NEW AS NOTHING", NEW=new, NOTHING=nothing))
        filling = _written("COPY NEW FROM STDIN WITH (FORMAT text)", NEW=new)
        sent(self.connection, filling, copied_text(table))
        self.run(sql.filled("ANALYZE NEW", NEW=new))

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

    def __enter__(self) -> Self:
        self._connection = self._opening.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opening.__exit__(*error)


class _Target:
    """A table of the same database, renamed in one transaction (see `Target`)."""

    def __init__(self, origin: Postgres, destination: str, target: exp.Table) -> None:
        self._origin = origin
        self._destination = destination
        self._target = target
        self._partial = sql.table(temporary_name(), target.db)
        self._table = self._partial

    def fill(
        self,
        session: Session | None,
        rows: sql.Node | Iterator[pa.RecordBatch],
        schema: pa.Schema,
        written: Container[str],
    ) -> None:
        """Make the table under its temporary name; rows that come from here are sent as text."""
        new = "CREATE TABLE NEW AS QUERY"
        if isinstance(rows, sql.Node):
            assert session is not None
            session.run(sql.filled(new, NEW=self._partial, QUERY=rows))
            return
        types = {f.name: postgres_type(f.type) for f in schema if f.name in written}
        empty = sql.nothing_of(self._origin.rows(), schema.names, types, _DIALECT)
        # In a table of this very transaction rows may come as if they had been there for ever: then
        # nobody who reads them has to find out, and write down, that they are there to stay.
        filling = "COPY NEW FROM STDIN WITH (FORMAT text, FREEZE)"
        with self.transaction() as connection:
            connection.execute(_written(new, NEW=self._partial, QUERY=empty))
            texts = (text for batch in rows for text in copied_text(batch))
            sent(connection, _written(filling, NEW=self._partial), texts)

    def engine(self) -> SQLEngine:
        """Reads the table, as it is at one moment until it has its final name."""
        named, waits = sql.text(self._table, _DIALECT), self._table != self._target
        database = Postgres(self._origin.server.url, table=named, snapshot=waits)
        database.name = shown(self._destination)
        return SQLEngine(database)

    def publish(self, *, force: bool) -> None:
        """Give the table its final name; drop the old one in the same transaction."""
        with self.transaction() as connection:
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
            connection.execute(_written("DROP TABLE OLD", OLD=self._target))
        final = sql.table(self._target.name)
        connection.execute(
            _written("ALTER TABLE NEW RENAME TO FINAL", NEW=self._partial, FINAL=final)
        )

    def appeared(self) -> bool:
        """Whether the temporary name is gone; where the server is gone, it may be.

        Whoever reads the table waits for a transaction that is just about to rename it.
        """
        try:
            with self.transaction() as connection:
                connection.execute(_written("SELECT 1 FROM NEW LIMIT 0", NEW=self._partial))
        except SfumatoError:
            return True
        return False

    def remove(self) -> None:
        """Drop the table that has the temporary name."""
        with self.transaction() as connection:
            connection.execute(_written("DROP TABLE IF EXISTS OLD", OLD=self._partial))

    def transaction(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A transaction of its own."""
        return self._origin.server.transaction(self._destination, writable=True)


def commit_together(staged: Sequence[Staged], *, force: bool = False) -> None:
    """Give tables of one database their final names in one transaction: all of them or none."""
    targets = [one.target for one in staged if isinstance(one.target, _Target)]
    if len(targets) != len(staged):
        raise EngineError(
            "these tables are not all of one database", remedy="Write them to files instead."
        )
    for one in staged:
        one.rest()
    if targets:
        with targets[0].transaction() as connection:
            for target in targets:
                target.rename(connection, force=force)
    for one in staged:
        one.settled()


_UNLIKE = "PostgreSQL refused ({kind}, SQLSTATE {state})"
_MEANWHILE = "If the table was changed meanwhile, start again."
_Refusal = tuple[tuple[str, ...], type[SfumatoError], str, str]
_REFUSALS: tuple[_Refusal, ...] = (
    (
        ("08", "57P"),
        EngineError,
        "the connection to PostgreSQL was lost",
        "Check that the server still runs, and start again if there is no release.",
    ),
    (("42501",), EngineError, "{said}", "Ask its owner for permission."),
    (
        ("42",),
        SourceError,
        "PostgreSQL does not understand this: {said}",
        "Check the names of schema, table and columns after the #.",
    ),
    (
        ("53100", "53200"),
        EngineMemoryError,
        "the server ran out of room: {said}",
        "Free space on the server; nothing was published.",
    ),
    (
        ("55P03",),
        EngineError,
        "somebody else is using the table to be replaced",
        "Try again when they are done.",
    ),
    (("22", "23"), EngineError, _UNLIKE, _MEANWHILE),  # messages about data quote it
    (("",), EngineError, f"{_UNLIKE}: {{said}}", _MEANWHILE),
)
"""By the beginning of the SQLSTATE: what a driver's error becomes, what is said, and the remedy."""


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
        settings = _SETTINGS | ({} if writable else {"default_transaction_read_only": "on"})
        with self.guarded(self.shown):
            connection.execute(_ENOUGH_MEMORY, (f"{_SORTING_MEMORY}kB", _SORTING_MEMORY))
            connection.execute(_SET, (list(settings), list(settings.values())))
        return connection

    @contextmanager
    def transaction(self, where: str, *, writable: bool) -> Iterator[psycopg.Connection[Any]]:
        """A transaction on a connection of its own."""
        with (
            closing(self.connect(writable=writable)) as connection,
            self.guarded(where),
            connection.transaction(),
        ):
            yield connection

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
            state = error.sqlstate or "08"
            _, made, what, remedy = next(one for one in _REFUSALS if state.startswith(one[0]))
            told = what.format(said=self._said(error), kind=type(error).__name__, state=state)
            raise made(told, where=where, remedy=remedy) from None

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
    given = _DIALECT.relation(exp.Subquery(this=statement), names)
    return sql.select("SELECT CELLS FROM GIVEN", CELLS=cells, GIVEN=given)
