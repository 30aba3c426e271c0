"""Tables made, filled, renamed and dropped, and rows copied in and out (PostgreSQL)."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from sfumato.engines.sql.nodes import Node, quoted, table

__all__ = ["analyzed", "copied_in", "copied_out", "dropped", "new_table", "renamed", "table_of"]


def copied_out(statement: Node) -> Node:
    """The rows of a statement as a stream of CSV lines (PostgreSQL)."""
    return exp.Copy(
        this=exp.Subquery(this=statement),
        kind=False,
        files=[exp.to_identifier("STDOUT")],
        params=[exp.CopyParameter(this=exp.var("FORMAT"), expression=exp.var("csv"))],
    )


def copied_in(name: str) -> Node:
    """Fill a table from a stream of CSV lines (PostgreSQL)."""
    return exp.Copy(
        this=table(name),
        kind=True,
        files=[exp.to_identifier("STDIN")],
        params=[exp.CopyParameter(this=exp.var("FORMAT"), expression=exp.var("csv"))],
    )


def new_table(name: str, columns: Sequence[tuple[str, str]]) -> Node:
    """A temporary table for a step of a recoding, gone with its connection."""
    definitions = [
        exp.ColumnDef(this=quoted(column), kind=exp.DataType.build(type_, dialect="postgres"))
        for column, type_ in columns
    ]
    return exp.Create(
        this=exp.Schema(this=table(name), expressions=definitions),
        kind="TABLE",
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
    )


def analyzed(name: str) -> Node:
    """Let the planner know how large an uploaded table is."""
    return _about(table(name), "ANALYZE t")


def table_of(name: exp.Table, statement: Node) -> Node:
    """A table filled with the rows of a statement."""
    return exp.Create(this=name.copy(), kind="TABLE", expression=statement)


def renamed(name: exp.Table, new: str) -> Node:
    """Another name for a table, in its schema."""
    return exp.Alter(this=name.copy(), kind="TABLE", actions=[exp.AlterRename(this=table(new))])


def dropped(name: exp.Table, *, exists: bool = False) -> Node:
    """No table of this name."""
    return _about(name.copy(), "DROP TABLE IF EXISTS t" if exists else "DROP TABLE t")


def _about(name: exp.Table, pattern: str) -> Node:
    """A statement about the table `t`, about another table; its nodes differ among SQLGlots."""
    statement = sqlglot.parse_one(pattern, read="postgres")
    assert isinstance(statement, exp.Expression)
    found = statement.find(exp.Table)
    assert found is not None
    found.replace(name)
    return statement
