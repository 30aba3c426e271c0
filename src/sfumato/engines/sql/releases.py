"""The rows of a release: every step of a recoding is uploaded as a mapping and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.sql.nodes import (
    Dialect,
    Node,
    count_rows,
    field,
    named,
    quoted,
    row_number,
    table,
)
from sfumato.engines.sql.rows import ORIGIN, POSITION, Rows

if TYPE_CHECKING:
    from sfumato.engines.schema import Kind

__all__ = ["TUPLE", "Mapping", "entries", "matched", "recoded"]

TUPLE = "tuple"


@dataclass(frozen=True)
class Mapping:
    """An uploaded step of a recoding: keys ``k0``, …; ``first``, ``last``; ``keep``; ``v0``, ….

    Parameters
    ----------
    relation
        Where it was uploaded.
    columns
        Names of the columns its keys are compared with.
    cells
        Names of the columns its cells are written to.
    ranged
        Whether entries speak of ordinal ranges.
    """

    relation: str
    columns: tuple[str, ...]
    cells: tuple[str, ...]
    ranged: bool


def matched(rows: Rows, mappings: Sequence[Mapping]) -> Node:
    """For each row, in order, the number of the tuple it matches in each mapping, or null."""
    needed = [name for name in rows.names if any(name in m.columns for m in mappings)]
    found = exp.select(
        *[named(field(TUPLE, m.relation), f"t{at}") for at, m in enumerate(mappings)]
    ).from_(rows.numbered(needed).subquery(quoted(ORIGIN)))
    return _joined(found, rows, mappings).order_by(field(POSITION, ORIGIN))


def entries(rows: Rows, mappings: Sequence[Mapping]) -> Node:
    """How many rows come out of the joins of a recoding, and how many met an entry of each step.

    All figures equal the row count exactly when every row matches one entry of every step.
    """
    met = [
        named(exp.Count(this=field("keep", m.relation)), f"met{at}")
        for at, m in enumerate(mappings)
    ]
    found = exp.select(named(count_rows(), "rows"), *met).from_(_with_ordinals(rows, mappings, ()))
    return _joined(found, rows, mappings)


def recoded(rows: Rows, mappings: Sequence[Mapping], drop: Sequence[str]) -> Node:
    """The rows of a release under their own names: one window and one join a step."""
    written = {
        name: field(f"v{at}", mapping.relation)
        for mapping in mappings
        for at, name in enumerate(mapping.cells)
    }
    kept = [name for name in rows.names if name not in drop and name not in written]
    outputs = [*rows.names, *(name for name in written if name not in rows.names)]
    cells = [
        named(written[name] if name in written else _as_published(rows, name), name)
        for name in outputs
        if name not in drop
    ]
    found = exp.select(*cells).from_(_with_ordinals(rows, mappings, kept))
    found = _joined(found, rows, mappings)
    for mapping in mappings:
        found = found.where(field("keep", mapping.relation))
    return found


def _with_ordinals(rows: Rows, mappings: Sequence[Mapping], kept: Sequence[str]) -> Node:
    """The rows with their number among rows of equal keys, for each step that has ranges.

    The order is that of all columns: rows that tie are equal in every cell, so whichever comes
    first, the release is the same.
    """
    needed = [
        name for name in rows.names if name in kept or any(name in m.columns for m in mappings)
    ]
    ordinals = [
        named(row_number(rows.keys(mapping.columns), rows.keys(rows.names)), f"ordinal{at}")
        for at, mapping in enumerate(mappings)
        if mapping.ranged
    ]
    cells = [*rows.cells(needed), *ordinals] or [named(exp.Literal.number(1), "one")]
    return exp.select(*cells).from_(rows.relation()).subquery(quoted(ORIGIN))


def _joined(found: exp.Select, rows: Rows, mappings: Sequence[Mapping]) -> exp.Select:
    """The statement with every mapping joined to the rows where its keys and ordinals fit."""
    for at, mapping in enumerate(mappings):
        conditions = [
            _same(
                rows.key(name),
                field(f"k{nth}", mapping.relation),
                rows.kind(name),
                rows.dialect,
            )
            for nth, name in enumerate(mapping.columns)
        ]
        if mapping.ranged:
            ordinal = field(f"ordinal{at}", ORIGIN)
            conditions += [
                exp.GTE(this=ordinal, expression=field("first", mapping.relation)),
                exp.LT(this=ordinal.copy(), expression=field("last", mapping.relation)),
            ]
        found = found.join(
            table(mapping.relation),
            on=exp.and_(*conditions) if conditions else exp.true(),
            join_type="left",
        )
    return found


def _as_published(rows: Rows, name: str) -> Node:
    """A kept cell; the sign of a zero would tell rows apart that are equal."""
    cell = rows.cell(name)
    if rows.kind(name) != "float":
        return cell
    zero = exp.EQ(this=cell, expression=exp.Literal.number(0))
    return exp.Case().when(zero, exp.Abs(this=cell.copy())).else_(cell.copy())


def _same(left: Node, right: Node, kind: Kind, dialect: Dialect) -> Node:
    """Equality in which null equals null.

    Postgres can hash-join on ``=`` only, so there null is told apart by a condition of its own.
    """
    if dialect != "postgres":
        return exp.NullSafeEQ(this=left, expression=right)
    absent = exp.EQ(
        this=exp.paren(left.is_(exp.null())), expression=exp.paren(right.is_(exp.null()))
    )
    filler = _ANY_VALUE[kind]
    present = exp.EQ(
        this=exp.Coalesce(this=left.copy(), expressions=[filler.copy()]),
        expression=exp.Coalesce(this=right.copy(), expressions=[filler.copy()]),
    )
    return exp.And(this=absent, expression=present)


def _typed(value: str, kind: str) -> Node:
    type_ = exp.DataType.build(kind, dialect="postgres")
    return exp.Cast(this=exp.Literal.string(value), to=type_)


_ANY_VALUE: dict[Kind, Node] = {
    "integer": exp.Literal.number(0),
    "float": exp.Literal.number(0),
    "decimal": exp.Literal.number(0),
    "boolean": exp.false(),
    "date": _typed("1970-01-01", "date"),
    "time": _typed("00:00", "time"),
    "timestamp": _typed("1970-01-01", "timestamp"),
    "duration": _typed("0", "interval"),
    "text": exp.Literal.string(""),
    "binary": _typed("", "bytea"),
    "null": exp.Literal.string(""),
}
"""Any value of each kind, to stand beside a null in a Postgres join."""
