"""Columns and their kinds, the same names on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.errors import ColumnError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "Kind", "column_of", "columns_named", "names_in"]

Kind = Literal[
    "integer", "float", "decimal", "boolean", "date", "time", "timestamp", "duration", "text",
    "binary", "null",
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its name, what kind of values it holds, and the Arrow type they travel in."""

    name: str
    kind: Kind
    type: pa.DataType

    @property
    def ordered(self) -> bool:
        """Whether values lie on a line, so that ranges of them mean something."""
        return self.kind in ("integer", "float", "decimal", "date", "time", "timestamp", "duration")


def column_of(name: str, type_: pa.DataType, *, where: str | None = None) -> Column:
    """The column of an Arrow field; nested types are refused by name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_of("age", pa.int8()).kind
    'integer'
    """
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return column_of(name, type_.value_type, where=where)
    if t.is_run_end_encoded(type_):
        return column_of(name, type_.value_type, where=where)
    tests: tuple[tuple[Kind, tuple[object, ...]], ...] = (
        ("boolean", (t.is_boolean,)),
        ("integer", (t.is_integer,)),
        ("float", (t.is_floating,)),
        ("decimal", (t.is_decimal,)),
        ("date", (t.is_date,)),
        ("timestamp", (t.is_timestamp,)),
        ("time", (t.is_time,)),
        ("duration", (t.is_duration,)),
        ("text", (t.is_string, t.is_large_string, t.is_string_view)),
        ("binary", (t.is_binary, t.is_large_binary, t.is_binary_view, t.is_fixed_size_binary)),
        ("null", (t.is_null,)),
    )
    for kind, predicates in tests:
        if any(predicate(type_) for predicate in predicates):  # type: ignore[operator]
            return Column(name, kind, type_)
    # The names of a struct's fields may be keys that stood in the cells: they are not quoted.
    held = f"nested values ({str(type_).partition('<')[0]})" if t.is_nested(type_) else f"{type_}s"
    raise ColumnError(
        f"column `{name}` holds {held}, which cannot be compared cell by cell",
        where=where,
        remedy="Flatten it into plain columns, or leave it out with --exclude.",
    )


def names_in(schema: Sequence[Column], names: Sequence[str] | None) -> tuple[str, ...]:
    """These names; all of the schema's where none are given."""
    return tuple(column.name for column in schema) if names is None else tuple(names)


def columns_named(schema: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns of these names, in the order of the names."""
    known = {column.name: column for column in schema}
    return [known[name] for name in names]
