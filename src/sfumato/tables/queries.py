"""Tables behind a query: SQL over files, DuckDB relations and databases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError, SourceError
from sfumato.tables.streams import StreamSource, failures_in_our_words

if TYPE_CHECKING:
    from sfumato.engines.protocol import Engine

__all__ = ["is_postgres", "is_query", "open_postgres", "open_query", "open_relation"]

_PREFIX = "sql:"


def is_query(given: str) -> bool:
    """Whether a source is a SQL query and not a path.

    Examples
    --------
    >>> is_query("SELECT age FROM 'people.parquet'"), is_query("select.csv")
    (True, False)
    """
    return given.startswith(_PREFIX) or bool(
        re.match(r"\s*(select|with|from|values)\s", given, re.IGNORECASE)
    )


def open_query(
    query: str,
    memory: int | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> StreamSource:
    """What a query over files gives, as DuckDB answers it."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": f"{memory}B"} if memory else {})
    try:
        statements = connection.extract_statements(query.removeprefix(_PREFIX))
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise SourceError(
                "a query must be one SELECT statement", remedy="It may use WITH and files by name."
            )
        relation = connection.sql(statements[0])
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        # These speak about the query's own words, never about rows.
        raise SourceError(
            f"the query is not understood: {error}",
            remedy="Name files in quotes, e.g. SELECT age, sex FROM 'people.parquet'.",
        ) from None
    except duckdb.Error as error:
        raise SourceError(
            f"the query cannot be run: {type(error).__name__}",
            remedy="Check that its files exist and are tables.",
        ) from None
    return open_relation(relation, "the query", columns, exclude)


def open_relation(
    relation: Any,
    name: str,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> StreamSource:
    """A DuckDB relation; it is run once, when its rows are first needed."""
    with failures_in_our_words(name):
        schema = relation.limit(0).to_arrow_table().schema
    return StreamSource(schema, relation.to_arrow_reader, name, columns, exclude)


def is_postgres(given: str) -> bool:
    """Whether a source is the address of a PostgreSQL database."""
    return given.startswith(("postgresql://", "postgres://"))


def open_postgres(given: str, query: str | None = None) -> Engine:
    """A table ``postgresql://…#schema.table``, or a query, on a PostgreSQL server."""
    url, _, fragment = given.partition("#")
    if query is not None and fragment:
        raise ParameterError(
            "both a table and a query were given", remedy="Leave out the part after #."
        )
    if fragment and is_query(fragment):
        query, fragment = fragment.removeprefix(_PREFIX), ""
    if query is None and not fragment:
        raise SourceError(
            "the address names a database but no table in it",
            remedy="Append #schema.table, or # and a SELECT.",
        )
    from sfumato.engines.postgres import Postgres
    from sfumato.engines.sql_engine import SQLEngine

    return SQLEngine(Postgres(url, table=fragment or None, query=query))
