"""A fingerprint of rows wherever they lie, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.sql.nodes import Dialect, Node, count_rows, field, named, quoted
from sfumato.engines.sql.rows import Rows

if TYPE_CHECKING:
    from sfumato.engines.schema import Column

__all__ = ["fingerprint"]


def fingerprint(rows: Rows) -> Node:
    """Row count and the order-free sum of 128-bit row hashes, in four chunks of 32 bits.

    The hash is MD5 of all cells with their lengths; chunks are summed apart so that no engine's
    integers overflow.
    """
    cells = [_written(rows.key(column.name), column, rows.dialect) for column in rows.columns]
    row = _piped(cells) if cells else exp.Literal.string("")
    hashed = exp.select(named(exp.MD5(this=row), "hash")).from_(rows.relation())
    chunks = [
        named(exp.Sum(this=_hex_number(chunk, rows.dialect)), f"sum{at}")
        for at, chunk in enumerate(
            exp.Substring(
                this=field("hash"),
                start=exp.Literal.number(1 + 8 * at),
                length=exp.Literal.number(8),
            )
            for at in range(4)
        )
    ]
    return exp.select(named(count_rows(), "rows"), *chunks).from_(hashed.subquery(quoted("hashed")))


def _written(key: Node, column: Column, dialect: Dialect) -> Node:
    """A cell as text with its length, or a mark for null; no two rows concatenate alike."""
    if column.kind == "binary":
        plain: Node = (
            exp.Anonymous(this="ENCODE", expressions=[key, exp.Literal.string("hex")])
            if dialect == "postgres"
            else exp.Hex(this=key)
        )
    else:
        plain = exp.cast(key, "text")
    length = exp.cast(exp.Length(this=plain), "text")
    return exp.Coalesce(
        this=_piped([length, exp.Literal.string(":"), plain.copy()]),
        expressions=[exp.Literal.string("-")],
    )


def _piped(parts: Sequence[Node]) -> Node:
    """Concatenation as a balanced tree: hundreds of columns must not nest hundreds deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return exp.DPipe(this=_piped(parts[:half]), expression=_piped(parts[half:]), safe=False)


def _hex_number(digits: Node, dialect: Dialect) -> Node:
    """Eight hexadecimal digits as a number."""
    if dialect == "postgres":
        marked = exp.DPipe(this=exp.Literal.string("x"), expression=digits, safe=False)
        bits = exp.cast(exp.paren(marked), exp.DataType.build("bit(32)", dialect="postgres"))
        return exp.cast(bits, "bigint")
    converted = exp.Anonymous(
        this="CONV", expressions=[digits, exp.Literal.number(16), exp.Literal.number(10)]
    )
    return exp.cast(converted, exp.DataType.build("decimal(20, 0)"))
