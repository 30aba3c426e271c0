"""Declarations of columns, as they are written after options: ``age=18:100``, ``sex=f,m``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from sfumato.engines.protocol import Column as SchemaColumn
from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.joint.agreement import Category, Column, Number

__all__ = ["declared_columns", "parse_pairs"]

NUMERIC = ("integer", "float", "decimal", "boolean")


def parse_pairs(given: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """``name=text`` entries, one an option.

    Examples
    --------
    >>> parse_pairs(["sex=f,m", "age=0:120"], "--values", "sex=f,m")
    {'sex': 'f,m', 'age': '0:120'}
    """
    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, rest = text.partition("=")
        if not sign or not name or not rest:
            raise ParameterError(
                f"{option} could not be read", remedy=f"Write e.g. {option} {example}"
            )
        if name in pairs:
            raise ParameterError(f"{option} names `{name}` twice")
        pairs[name] = rest
    return pairs


def declared_columns(
    schema: Sequence[SchemaColumn],
    bounds: Mapping[str, str],
    values: Mapping[str, str],
    ordered: Mapping[str, str],
    missing: Mapping[str, str],
    ask: Callable[[str], str] | None,
) -> tuple[Column, ...]:
    """The agreement's columns from declarations; what was not declared is asked for.

    Nothing is ever filled in from the rows: the bounds of an agreement are public.
    """
    known = [column.name for column in schema]
    for name in (*bounds, *values, *ordered, *missing):
        if name not in known:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, known))
    columns: list[Column] = []
    undeclared: list[str] = []
    for column in schema:
        name = column.name
        texts = {
            "bounds": bounds.get(name),
            "values": values.get(name),
            "ordered": ordered.get(name),
        }
        given = {key: text for key, text in texts.items() if text is not None}
        if len(given) > 1:
            raise ParameterError(f"column `{name}` is declared in two ways")
        if not given and ask is not None:
            given = _asked(column, ask)
        if not given:
            undeclared.append(name)
            continue
        (way, text), stand_in = next(iter(given.items())), missing.get(name)
        if way == "bounds":
            columns.append(_number(name, text, column.kind == "integer", stand_in))
        else:
            categories = tuple(part.strip() for part in text.split(","))
            columns.append(Category(name, categories, way == "ordered", stand_in))
    if undeclared:
        raise ParameterError(
            f"nothing is declared about {', '.join(f'`{name}`' for name in undeclared)}",
            remedy="Use --bounds, --values or --ordered, or name the columns to use with -c.",
        )
    return tuple(columns)


def _asked(column: SchemaColumn, ask: Callable[[str], str]) -> dict[str, str]:
    if column.kind in NUMERIC:
        return {"bounds": ask(f"Bounds of `{column.name}`, as low:high or low:high:step")}
    return {"values": ask(f"Categories of `{column.name}`, separated by commas")}


def _number(name: str, text: str, whole: bool, stand_in: str | None) -> Number:
    where = f"column `{name}`"
    parts = text.split(":")
    try:
        low, high, *rest = (float(part) for part in parts)
        if len(rest) > 1 or not all(math.isfinite(v) for v in (low, high, *rest)):
            raise ValueError
        fill = None if stand_in is None else float(stand_in)
    except ValueError:
        raise ParameterError(
            "the bounds could not be read", where=where, remedy=f"Write e.g. {name}=0:120:1"
        ) from None
    # Without a unit, whole numbers count in ones and others in thousandths of the range.
    step = rest[0] if rest else 1.0 if whole else (high - low) / 1000.0
    return Number(name, low, high, step, fill)
