"""The rows a statement speaks of, with their columns addressed by position.

Values compare as everywhere in Sfumato: null equals null, -0.0 is 0.0, NaN is one value, and text
is compared byte for byte whatever collation the database would use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.sql.nodes import Dialect, Node, field, named, quoted, row_number

if TYPE_CHECKING:
    from sfumato.engines.schema import Column, Kind

__all__ = ["ORIGIN", "POSITION", "Rows"]

ORIGIN = "origin"
POSITION = "position"


@dataclass(frozen=True)
class Rows:
    """A relation whose columns are called c0, c1, … by position.

    Parameters
    ----------
    source
        A table, or a query in parentheses; its column names do not matter.
    columns
        The columns in the order of the source.
    dialect
        The language of the engine that holds it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.engines.sql import class_sizes, table, text
    >>> from sfumato.engines.schema import column_of
    >>> people = Rows(table("people"), (column_of("age", pa.int64()),), "duckdb")
    >>> text(class_sizes(people, ["age"]), "duckdb")  # doctest: +NORMALIZE_WHITESPACE
    'SELECT "size", COUNT(*) AS "classes" FROM
     (SELECT COUNT(*) AS "size" FROM "people" AS "origin"("c0") GROUP BY "origin"."c0") AS "sized"
     GROUP BY "size"'
    """

    source: Node
    columns: tuple[Column, ...]
    dialect: Dialect

    def relation(self) -> Node:
        """The source under one alias, with positional column names."""
        names = [quoted(f"c{at}") for at in range(len(self.columns))]
        source = self.source.copy()
        source.set("alias", exp.TableAlias(this=quoted(ORIGIN), columns=names))
        return source

    def at(self, name: str) -> int:
        """Position of a column."""
        return next(at for at, column in enumerate(self.columns) if column.name == name)

    def kind(self, name: str) -> Kind:
        """Kind of a column's values."""
        return self.columns[self.at(name)].kind

    def cell(self, name: str) -> Node:
        """A column's cell as it is stored."""
        return field(f"c{self.at(name)}", ORIGIN)

    def key(self, name: str) -> Node:
        """A column's cell in the form in which equal values are equal in this dialect."""
        return _comparable(self.cell(name), self.kind(name), self.dialect)

    def keys(self, names: Sequence[str]) -> list[Node]:
        """The comparable cells of some columns."""
        return [self.key(name) for name in names]

    def cells(self, names: Sequence[str]) -> list[Node]:
        """Some columns' cells as they are stored, under their positional names."""
        return [named(self.cell(name), f"c{self.at(name)}") for name in names]

    def numbered(self, names: Sequence[str]) -> exp.Select:
        """Some columns and the position of each row, for engines whose rows have an order.

        An empty window numbers rows in that order.
        """
        position = named(row_number([], []), POSITION)
        return exp.select(*self.cells(names), position).from_(self.relation())

    @property
    def names(self) -> tuple[str, ...]:
        """All column names."""
        return tuple(column.name for column in self.columns)


def _comparable(cell: Node, kind: Kind, dialect: Dialect) -> Node:
    """A cell in the form in which equal values are equal.

    Floats lose the sign of zero; Postgres compares text under the ``C`` collation.
    """
    if kind == "float":
        zero = exp.Literal.number(0)
        return exp.Case().when(exp.EQ(this=cell, expression=zero), zero.copy()).else_(cell.copy())
    if kind == "text" and dialect == "postgres":
        return exp.Collate(this=exp.cast(cell, "text"), expression=quoted("C"))
    return cell
