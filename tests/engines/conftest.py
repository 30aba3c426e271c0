"""The four engines, each holding whatever table a test gives it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.types as t
import pytest
from psycopg import sql as psql

from sfumato.engines.duckdb import DuckDB
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import Engine
from sfumato.engines.sql_engine import SQLEngine
from sfumato.tables.columnar import ArrowSource

Opener = Callable[[pa.Table], Engine]

KINDS = [
    "memory",
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("spark", marks=pytest.mark.spark),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


@pytest.fixture
def opened(kind: str, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Puts a table where the engine keeps its rows, and opens it there."""
    # Servers are asked for before the first table is, so that engines are closed before they go.
    opener = _opener(kind, request)
    with ExitStack() as stack:

        def open_table(table: pa.Table) -> Engine:
            engine = opener(table)
            stack.callback(engine.close)
            return engine

        yield open_table


def _opener(kind: str, request: pytest.FixtureRequest) -> Opener:
    if kind == "memory":
        return lambda table: MemoryEngine(ArrowSource(table, "people"))
    if kind == "duckdb":
        return lambda table: SQLEngine(DuckDB(ArrowSource(table, "people"), threads=2))
    if kind == "postgres":
        from sfumato.engines.postgres import Postgres

        server = request.getfixturevalue("postgres")
        schema = request.getfixturevalue("postgres_schema")

        def in_postgres(table: pa.Table) -> Engine:
            name = f"t{uuid.uuid4().hex[:8]}"
            with server.connect() as connection:
                load(connection, schema, name, table)
            return SQLEngine(Postgres(server.url, table=f"{schema}.{name}"))

        return in_postgres
    from sfumato.engines.spark import Spark

    session = request.getfixturevalue("spark")

    def in_spark(table: pa.Table) -> Engine:
        from pyspark.sql.pandas.types import from_arrow_schema

        # Without a schema, Spark takes local times for moments in the session's zone.
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return SQLEngine(Spark(session.createDataFrame(table, schema), name="people"))

    return in_spark


def load(connection: psycopg.Connection[Any], schema: str, name: str, table: pa.Table) -> None:
    """Copy an Arrow table into a new PostgreSQL table, cell by cell."""
    target = psql.Identifier(schema, name)
    columns = psql.SQL(", ").join(
        psql.SQL("{} {}").format(psql.Identifier(field.name), psql.SQL(postgres_type(field.type)))
        for field in table.schema
    )
    connection.execute(psql.SQL("CREATE TABLE {} ({})").format(target, columns))
    with connection.cursor() as cursor:
        cells = [column.to_pylist() for column in table.columns]
        with cursor.copy(psql.SQL("COPY {} FROM STDIN").format(target)) as copy:
            for row in zip(*cells, strict=True):
                copy.write_row(row)


def postgres_type(type_: pa.DataType) -> str:
    """What to call an Arrow type in a CREATE TABLE."""
    if t.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    if t.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    names = {
        pa.bool_(): "boolean",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.date32(): "date",
        pa.string(): "text",
        pa.binary(): "bytea",
    }
    return names[type_]
