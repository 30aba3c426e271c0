"""What a user wrote, a query or a table's name, as syntax nodes."""

from __future__ import annotations

import sqlglot
import sqlglot.errors
from sqlglot import exp

from sfumato.engines.sql.nodes import Dialect, Node, quoted
from sfumato.errors import SourceError

__all__ = ["parsed_name", "parsed_query"]


def parsed_query(query: str, dialect: Dialect, where: str) -> Node:
    """A user's own SELECT, in parentheses."""
    try:
        found = sqlglot.parse(query, read=dialect)
    except sqlglot.errors.SqlglotError:
        found = []
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise SourceError(
            "this is not one SELECT",
            where=where,
            remedy="Give one query without semicolons, or make a view and name it.",
        )
    return found[0].subquery()


def parsed_name(name: str, dialect: Dialect, where: str) -> tuple[str, ...]:
    """A table name as (schema, table) or (table,); quotes are needed only around dots.

    Examples
    --------
    >>> parsed_name('census."people.2020"', "postgres", "")
    ('census', 'people.2020')
    """
    try:
        found = exp.to_table(name, dialect=dialect)
    except sqlglot.errors.SqlglotError:
        found = exp.Table(this=quoted(name))
    parts = tuple(part.name for part in found.parts)
    if len(parts) > 2:
        raise SourceError(
            f"`{name}` has too many parts", where=where, remedy="Write schema.table or table."
        )
    return parts
