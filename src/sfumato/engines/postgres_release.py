"""A release made inside PostgreSQL: the recoding is uploaded, the rows never leave.

The new table gets a temporary name in the schema of its destination; `commit` renames it in one
transaction, `discard` drops it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.postgres import PostgresEngine, temporary_name
from sfumato.engines.postgres_types import csv_lines, postgres_type, too_long
from sfumato.engines.protocol import Engine, Source, Staged, column_of
from sfumato.engines.recoding import Recoding, mapping_table, output_schema, unmatched
from sfumato.engines.watching import watching
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresStaged", "stage"]

_SCHEMES = ("postgresql://", "postgres://")
_LONGEST_NAME = 63
_SECONDS_FOR_LOCKS = "30s"


def stage(
    engine: PostgresEngine,
    recoding: Recoding,
    destination: str,
    format: str | None,
    budget: Budget | None,
) -> Staged:
    """Apply a recoding in the server; see `Engine.stage`.

    A destination is a table if it is a database URL with ``#schema.table``, or a name without the
    ending of a file format; anything else is a file, to which the recoded rows are streamed.
    """
    name = _table_named(engine, destination, format)
    if name is None:
        return _stage_file(engine, recoding, destination, format, budget)
    target = _target(engine, name, destination)
    partial = sql.table(temporary_name(), target.db)
    for field in output_schema(engine.schema(), recoding):
        if len(field.name.encode()) > _LONGEST_NAME:
            raise too_long(field.name, destination)
    with _recoded(engine, recoding, budget) as (connection, statement):
        connection.execute(sql.text(sql.table_of(partial, statement), "postgres"))
    return PostgresStaged(engine, destination, target, partial)


class PostgresStaged:
    """A table that does not have its final name yet (see `Staged`)."""

    def __init__(
        self, origin: PostgresEngine, destination: str, target: exp.Table, partial: exp.Table
    ) -> None:
        self.destination = destination
        self._server = origin.server
        self._target = target
        self._partial: exp.Table | None = partial
        self._engine: PostgresEngine | None = None

    def engine(self) -> Engine:
        """Reads back what was written."""
        if self._engine is None:
            name = sql.text(self._partial or self._target, "postgres")
            self._engine = PostgresEngine(self._server.url, table=name)
            self._engine.name = self.destination
        return self._engine

    def commit(self, *, force: bool = False) -> None:
        """Give the table its final name; both steps or none."""
        if self._partial is None:
            return
        self._forget_engine()
        with self._connected() as connection:
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (_SECONDS_FOR_LOCKS,))
            if _relation(connection, self._target) is not None:
                if not force:
                    raise ParameterError(
                        "this table exists already",
                        where=self.destination,
                        remedy="Choose another name, or replace it with --force (force=True).",
                    )
                connection.execute(sql.text(sql.dropped(self._target), "postgres"))
            connection.execute(sql.text(sql.renamed(self._partial, self._target.name), "postgres"))
        self._partial = None

    def discard(self) -> None:
        """Drop the table; after `commit` there is none to drop."""
        self._forget_engine()
        if self._partial is not None:
            with self._connected() as connection:
                connection.execute(sql.text(sql.dropped(self._partial, exists=True), "postgres"))
            self._partial = None

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self._server.connect(writable=True)
        try:
            with self._server.guarded(self.destination), connection.transaction():
                yield connection
        finally:
            connection.close()

    def _forget_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


@contextmanager
def _recoded(
    engine: PostgresEngine, recoding: Recoding, budget: Budget | None
) -> Iterator[tuple[psycopg.Connection[Any], sql.Node]]:
    """A connection to which the recoding was uploaded, and the statement that applies it."""
    rows, total = engine.rows(), engine.row_count()
    with (
        engine.second_connection(writable=True) as connection,
        watching(budget, connection.cancel_safe, "recoding in PostgreSQL", engine.name),
    ):
        mappings = []
        for step in recoding.steps:
            mapping = sql.Mapping(
                temporary_name(), step.match.columns, tuple(step.cells), step.first is not None
            )
            table = mapping_table(step)
            columns = [(field.name, postgres_type(field.type)) for field in table.schema]
            new = sql.text(sql.new_table(mapping.relation, columns), "postgres")
            connection.execute(new)
            filling = sql.text(sql.copied_in(mapping.relation), "postgres")
            with connection.cursor() as cursor, cursor.copy(filling) as copy:
                for lines in csv_lines(table):
                    copy.write(lines)
            connection.execute(sql.text(sql.analyzed(mapping.relation), "postgres"))
            mappings.append(mapping)
        if mappings:
            found = connection.execute(sql.text(sql.entries(rows, mappings), "postgres")).fetchone()
            if found is None or any(figure != total for figure in found):
                raise unmatched(engine.name)
        yield connection, sql.recoded(rows, mappings, recoding.drop)


def _stage_file(
    engine: PostgresEngine,
    recoding: Recoding,
    destination: str,
    format: str | None,
    budget: Budget | None,
) -> Staged:
    from sfumato.engines.duck import DuckEngine
    from sfumato.engines.staging import stage_batches

    def reopen(source: Source) -> Engine:
        return DuckEngine(source)

    schema = output_schema(engine.schema(), recoding)
    columns = [column_of(field.name, field.type) for field in schema]
    with _recoded(engine, recoding, budget) as (connection, statement):
        batches = engine.streamed(connection, statement, columns)
        return stage_batches(batches, schema, destination, format, reopen=reopen)


def _table_named(engine: PostgresEngine, destination: str, format: str | None) -> str | None:
    """The table a destination names; None if it names a file."""
    from sfumato.engines.writing import format_of

    if destination.startswith(_SCHEMES):
        url, _, name = destination.partition("#")
        if not name:
            raise ParameterError(
                "no table is named",
                where=engine.server.shown,
                remedy="Write postgresql://host/database#schema.table.",
            )
        if not engine.server.same_database(url):
            raise ParameterError(
                "the release would go to another database, and rows do not travel",
                where=engine.name,
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


def _target(engine: PostgresEngine, name: str, destination: str) -> exp.Table:
    """The table to be, in a schema that exists, and not the one being read."""
    parts = sql.parsed_name(name, "postgres", destination)
    connection = engine.connection()
    with engine.server.guarded(engine.name), connection.transaction():
        if len(parts) == 1:
            found = connection.execute("SELECT current_schema()").fetchone()
        else:
            statement = "SELECT nspname::text FROM pg_namespace WHERE nspname = %s"
            found = connection.execute(statement, (parts[0],)).fetchone()
        if found is None or found[0] is None:
            raise ParameterError(
                f"there is no schema `{parts[0]}`" if len(parts) == 2 else "no schema is set",
                where=engine.server.shown,
                remedy="Make it first, or name another one.",
            )
        target = sql.table(parts[-1], found[0])
        source = engine.rows().source
        is_table = isinstance(source, exp.Table)
        existing = _relation(connection, target)
        if is_table and existing is not None and existing == _relation(connection, source):
            raise ParameterError(
                "this is the table being read; it would be lost",
                where=engine.name,
                remedy="Write to another name.",
            )
    return target


def _relation(connection: psycopg.Connection[Any], table: sql.Node) -> int | None:
    """The server's number of a table or view; None if there is none."""
    text = sql.text(table, "postgres")
    found = connection.execute("SELECT to_regclass(%s)::oid::bigint", (text,)).fetchone()
    return None if found is None else found[0]
