"""The engine for a table in PostgreSQL: questions run in the server, only answers travel.

Samples and histograms come to us; rows stay where they are unless the caller asks for `batches`.
Every question runs in a read-only transaction; with `snapshot` all of them share one, so that they
describe the same moment.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.postgres_connection import Server
from sfumato.engines.postgres_types import UNKNOWN_SIZE, arrow_type, csv_batches, decimal_of
from sfumato.engines.protocol import BATCH_ROWS, Column, Staged, column_of, columns_named, names_in
from sfumato.engines.recoding import Recoding
from sfumato.engines.results import ClassSizes, Codes, codes_of, rows_identity
from sfumato.engines.watching import watching
from sfumato.errors import ColumnError, ParameterError, SourceError, did_you_mean

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

__all__ = ["PostgresEngine"]


class PostgresEngine:
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

    kind: Literal["memory", "duckdb", "postgres", "spark", "stream"] = "postgres"
    exact_order = False

    def __init__(
        self,
        url: str,
        *,
        table: str | None = None,
        query: str | None = None,
        snapshot: bool = False,
    ) -> None:
        if (table is None) == (query is None):
            raise ParameterError(
                "either a table or a query of the database must be named",
                where=Server(url).shown,
                remedy="Write postgresql://host/database#schema.table.",
            )
        self.server = Server(url)
        self.name = f"{self.server.shown}#{table}" if table else f"{self.server.shown} (query)"
        self.snapshot = snapshot
        self._table = table
        self._query = query
        self._connection: psycopg.Connection[Any] | None = None
        self._stored: sql.Rows | None = None
        self._row_count: int | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self.rows().columns

    def row_count(self) -> int:
        """Number of rows."""
        if self._row_count is None or not self.snapshot:
            found = self._ask(sql.row_count(self.rows()), [_whole_number("rows")])
            self._row_count = int(found.column(0)[0].as_py())
        return self._row_count

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null, in one statement."""
        counts = [_whole_number(f"n{at}") for at in range(len(columns))]
        found = self._ask(sql.null_counts(self.rows(), columns), counts)
        return {name: int(cell[0].as_py()) for name, cell in zip(columns, found, strict=True)}

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of class sizes, by two group-bys in the server."""
        found = self._ask(
            sql.class_sizes(self.rows(), columns),
            [_whole_number("size"), _whole_number("classes")],
            budget,
            "counting classes",
        )
        return ClassSizes.of(dict(zip(*(c.to_pylist() for c in found.columns), strict=True)))

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes with their counts, in ascending order of their codes."""
        declared = columns_named(self.schema(), columns)
        # A name no column can have beside its own.
        count = replace(_whole_number("count"), name="\0count")
        found = self._ask(
            sql.classes(self.rows(), columns, limit), [*declared, count], budget, "listing classes"
        )
        return codes_of(found, declared, limit, self.name)

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        return self.classes([column], limit)

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Rows in random order, the first of them; the seed decides as long as rows do not move."""
        names = names_in(self.schema(), columns)
        statement = sql.at_random(self.rows(), names, rows)
        start = np.random.default_rng(seed).uniform(-1, 1)
        connection = self.connection()
        with self.server.guarded(self.name), connection.transaction(force_rollback=True):
            # Workers would hand rows to the random numbers in an order of their own.
            connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
            connection.execute("SELECT setseed(%s)", (start,))
            return self._copied(connection, statement, columns_named(self.schema(), names))

    def stage(
        self,
        recoding: Recoding,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Write the release as a new table in the server, or as a file if it is named like one."""
        from sfumato.engines.postgres_release import stage

        return stage(self, recoding, destination, format, budget)

    def fingerprint(self) -> str:
        """Row count, schema and the sum of row hashes, computed in the server."""
        names = ("rows", "sum0", "sum1", "sum2", "sum3")
        found = self._ask(sql.fingerprint(self.rows()), [_wide_number(name) for name in names])
        return rows_identity(found, self.schema(), "postgres")

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows, streamed over a connection of their own, in no particular order."""
        names = names_in(self.schema(), columns)
        statement = sql.all_rows(self.rows(), names)
        with self.second_connection() as connection:
            yield from self.streamed(
                connection, statement, columns_named(self.schema(), names), rows
            )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self) -> sql.Rows:
        """The table as SQL sees it."""
        if self._stored is None:
            source = self._source()
            statement = sql.text(sql.no_rows(source), "postgres")
            connection = self.connection()
            with self.server.guarded(self.name), connection.transaction():
                described = connection.execute(statement).description or []
                oids = [column.type_code for column in described]
                found = connection.execute(
                    "SELECT oid, typname, typcategory FROM pg_type WHERE oid = ANY(%s)", (oids,)
                ).fetchall()
            types = {oid: (name, category) for oid, name, category in found}
            self._stored = self._typed(source, described, types)
        return self._stored

    def connection(self) -> psycopg.Connection[Any]:
        """The connection all answers come from."""
        if self._connection is None:
            self._connection = self.server.connect()
            if self.snapshot:
                with self.server.guarded(self.name):
                    self._connection.execute(
                        "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
                    )
        return self._connection

    @contextmanager
    def second_connection(self, *, writable: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Another connection that sees the same moment, inside a transaction."""
        from psycopg.sql import SQL

        moment = None
        if self.snapshot:
            with self.server.guarded(self.name):
                found = self.connection().execute("SELECT pg_export_snapshot()").fetchone()
                assert found is not None
                (moment,) = found
        connection = self.server.connect(writable=writable)
        try:
            with self.server.guarded(self.name), connection.transaction():
                if moment is not None:
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(moment))
                yield connection
        finally:
            connection.close()

    def streamed(
        self,
        connection: psycopg.Connection[Any],
        statement: sql.Node,
        columns: Sequence[Column],
        rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The answer to a statement, batch by batch."""
        copy = sql.text(sql.copied_out(statement), "postgres")
        with (
            self.server.guarded(self.name),
            connection.cursor() as cursor,
            cursor.copy(copy) as messages,
        ):
            yield from csv_batches(messages, columns, rows, self.name)

    def _copied(
        self, connection: psycopg.Connection[Any], statement: sql.Node, columns: Sequence[Column]
    ) -> pa.Table:
        import pyarrow as pa

        schema = pa.schema([pa.field(column.name, column.type) for column in columns])
        return pa.Table.from_batches(self.streamed(connection, statement, columns), schema)

    def _ask(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        budget: Budget | None = None,
        doing: str = "asking PostgreSQL",
    ) -> pa.Table:
        connection = self.connection()
        with (
            watching(budget, connection.cancel_safe, doing, self.name),
            self.server.guarded(self.name),
            connection.transaction(),
        ):
            return self._copied(connection, statement, columns)

    def _source(self) -> sql.Node:
        if self._query is not None:
            return sql.parsed_query(self._query, "postgres", self.name)
        assert self._table is not None
        parts = sql.parsed_name(self._table, "postgres", self.name)
        connection = self.connection()
        with self.server.guarded(self.name), connection.transaction():
            for candidate in (parts, tuple(part.lower() for part in parts)):
                table = sql.table(candidate[-1], candidate[0] if len(candidate) == 2 else None)
                text = sql.text(table, "postgres")
                found = connection.execute("SELECT to_regclass(%s)::oid", (text,)).fetchone()
                if found is not None and found[0] is not None:
                    return table
            known = connection.execute(
                "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN relname::text "
                "ELSE nspname || '.' || relname END "
                "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE relkind IN ('r', 'v', 'm', 'f', 'p') "
                "AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1"
            ).fetchall()
        raise SourceError(
            f"there is no table `{self._table}`",
            where=self.server.shown,
            remedy=did_you_mean(self._table, [name for (name,) in known]),
        )

    def _typed(
        self, source: sql.Node, described: Sequence[Any], types: dict[int, tuple[str, str]]
    ) -> sql.Rows:
        """The relation with its columns' types; digits are counted only where none are declared."""
        import pyarrow as pa

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
        rows = sql.Rows(source, tuple(columns), "postgres")
        return self._counted(rows, open_ended) if open_ended else rows

    def _counted(self, rows: sql.Rows, names: Sequence[str]) -> sql.Rows:
        connection = self.connection()
        statement = sql.text(sql.unconstrained(rows, names), "postgres")
        with self.server.guarded(self.name), connection.transaction():
            figures = connection.execute(statement).fetchone()
        assert figures is not None
        columns = list(rows.columns)
        for nth, name in enumerate(names):
            scale, whole, finite = figures[3 * nth : 3 * nth + 3]
            type_ = decimal_of(whole or 1, scale or 0) if finite else None
            # Not-a-number, infinite or endless decimals can still be told apart as text.
            declared = column_of(name, type_) if type_ is not None else _text(name)
            columns[rows.at(name)] = declared
        return replace(rows, columns=tuple(columns))


def temporary_name() -> str:
    """A name for a table that nobody looks at yet."""
    return f"sfumato_partial_{uuid.uuid4().hex[:16]}"


def _whole_number(name: str) -> Column:
    import pyarrow as pa

    return column_of(name, pa.int64())


def _wide_number(name: str) -> Column:
    import pyarrow as pa

    return column_of(name, pa.decimal128(38, 0))


def _text(name: str) -> Column:
    import pyarrow as pa

    return column_of(name, pa.string())
