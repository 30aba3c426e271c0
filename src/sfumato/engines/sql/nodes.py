"""The pieces statements are made of: quoted names, cells, counts, row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlglot import exp

__all__ = [
    "Dialect",
    "Node",
    "count_rows",
    "field",
    "named",
    "quoted",
    "row_number",
    "table",
    "text",
]

Dialect = Literal["duckdb", "postgres", "spark"]
Node = exp.Expression


def text(statement: Node, dialect: Dialect) -> str:
    """A statement as the engine reads it."""
    return statement.sql(dialect=dialect, comments=False)


def table(name: str, schema: str | None = None) -> exp.Table:
    """A table by name, quoted."""
    return exp.Table(this=quoted(name), db=quoted(schema) if schema is not None else None)


def quoted(name: str) -> exp.Identifier:
    """A name that no engine folds or takes for a reserved word."""
    return exp.to_identifier(name, quoted=True)


def field(name: str, relation: str | None = None) -> exp.Column:
    """A column of a relation."""
    return exp.Column(this=quoted(name), table=None if relation is None else quoted(relation))


def named(node: Node, name: str) -> Node:
    """An output column under a name."""
    return exp.Alias(this=node, alias=quoted(name))


def count_rows() -> Node:
    """How many rows a group has."""
    return exp.Count(this=exp.Star())


def row_number(partition: Sequence[Node], order: Sequence[Node]) -> Node:
    """The number of a row, from 0, within its partition."""
    ordered = [exp.Ordered(this=node, nulls_first=False) for node in order]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=list(partition),
        order=exp.Order(expressions=ordered) if ordered else None,
    )
    return exp.Sub(this=window, expression=exp.Literal.number(1))
