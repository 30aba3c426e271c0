"""The questions every engine answers: how many rows, which classes, which rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.engines.sql.nodes import Node, count_rows, field, named, quoted, table
from sfumato.engines.sql.rows import ORIGIN, POSITION, Rows

__all__ = [
    "all_rows",
    "at_positions",
    "at_random",
    "class_sizes",
    "classes",
    "no_rows",
    "null_counts",
    "row_count",
    "unconstrained",
]


def row_count(rows: Rows) -> Node:
    """Number of rows."""
    return exp.select(named(count_rows(), "rows")).from_(rows.relation())


def null_counts(rows: Rows, names: Sequence[str]) -> Node:
    """How many cells of each column are null, in one pass."""
    counts = [
        named(exp.Sub(this=count_rows(), expression=exp.Count(this=rows.cell(name))), f"n{at}")
        for at, name in enumerate(names)
    ]
    return exp.select(*counts).from_(rows.relation())


def class_sizes(rows: Rows, names: Sequence[str], part: int | None = None, parts: int = 1) -> Node:
    """Histogram of class sizes: a group-by over a group-by.

    With `part`, of the classes whose hash leaves this remainder when divided by `parts` (DuckDB).
    """
    sized = exp.select(named(count_rows(), "size")).from_(rows.relation())
    if part is not None:
        hashed = exp.Anonymous(this="HASH", expressions=rows.keys(names))
        remainder = exp.Mod(this=hashed, expression=exp.Literal.number(parts))
        sized = sized.where(exp.EQ(this=remainder, expression=exp.Literal.number(part)))
    return (
        exp.select(field("size"), named(count_rows(), "classes"))
        .from_(_by_class(sized, rows, names).subquery(quoted("sized")))
        .group_by(field("size"))
    )


def classes(rows: Rows, names: Sequence[str], limit: int | None = None) -> Node:
    """The classes of a column set with their counts; one more than `limit` shows that it broke."""
    cells = [
        named(key, f"c{rows.at(name)}") for name, key in zip(names, rows.keys(names), strict=True)
    ]
    found = exp.select(*cells, named(count_rows(), "count")).from_(rows.relation())
    found = _by_class(found, rows, names)
    return found if limit is None else found.limit(limit + 1)


def at_positions(rows: Rows, names: Sequence[str], wanted: str) -> Node:
    """The rows at the positions listed in the table `wanted`, in their order."""
    return (
        exp.select(*[field(f"c{rows.at(name)}") for name in names])
        .from_(rows.numbered(names).subquery(quoted("numbered")))
        .where(field(POSITION).isin(query=exp.select(field(POSITION)).from_(table(wanted))))
        .order_by(field(POSITION))
    )


def at_random(rows: Rows, names: Sequence[str], count: int, seed: int | None = None) -> Node:
    """A uniform sample by random order, for engines whose rows have no order of their own."""
    seeds = [] if seed is None else [exp.Literal.number(seed)]
    return (
        exp.select(*rows.cells(names))
        .from_(rows.relation())
        .order_by(
            exp.Anonymous(this="RAND" if rows.dialect == "spark" else "RANDOM", expressions=seeds)
        )
        .limit(count)
    )


def all_rows(rows: Rows, names: Sequence[str]) -> Node:
    """Some columns of all rows."""
    return exp.select(*rows.cells(names)).from_(rows.relation())


def no_rows(source: Node) -> Node:
    """A statement that tells the columns of a relation and nothing else."""
    relation = source.copy()
    relation.set("alias", exp.TableAlias(this=quoted(ORIGIN)))
    return exp.select(exp.Star()).from_(relation).limit(0)


def unconstrained(rows: Rows, names: Sequence[str]) -> Node:
    """For decimals of no declared size: digits after and before the point, and non-numbers."""
    infinite = exp.cast(exp.Literal.string("Infinity"), "numeric")
    figures: list[Node] = []
    for name in names:
        cell, at = rows.cell(name), rows.at(name)
        size = exp.Abs(this=cell.copy())
        finite = exp.Case().when(exp.LT(this=size, expression=infinite.copy()), cell.copy())
        whole = exp.Anonymous(this="TRUNC", expressions=[exp.Max(this=exp.Abs(this=finite))])
        all_finite = exp.EQ(
            this=exp.Count(this=finite.copy()), expression=exp.Count(this=cell.copy())
        )
        figures += [
            named(exp.Max(this=exp.Anonymous(this="SCALE", expressions=[cell])), f"scale{at}"),
            named(exp.Length(this=exp.cast(whole, "text")), f"whole{at}"),
            named(all_finite, f"finite{at}"),
        ]
    return exp.select(*figures).from_(rows.relation())


def _by_class(found: exp.Select, rows: Rows, names: Sequence[str]) -> exp.Select:
    """One output row a class; no columns make one class, unless there are no rows."""
    if names:
        return found.group_by(*rows.keys(names))
    return found.having(exp.GT(this=count_rows(), expression=exp.Literal.number(0)))
