"""How values of every type are written in hierarchies and releases, and signs they leave free."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

__all__ = ["STAR", "as_text", "braces_around", "star_beside"]

STAR = "*"
"""What stands for all values of a column."""


def as_text(values: pa.Array) -> pa.Array:
    """Values as text, null as null; bytes in hexadecimal.

    Examples
    --------
    >>> as_text(pa.array([1.5, 2.0, None])).to_pylist()
    ['1.5', '2', None]
    >>> as_text(pa.array([b"\\xff"])).to_pylist()
    ['ff']
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_text(values.cast(kind.value_type))
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return pa.array(
            [None if item is None else item.hex() for item in values.to_pylist()], pa.string()
        )
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    return values.cast(pa.string())


def star_beside(texts: Iterable[str | None]) -> str:
    """A sign for all values of a column that is none of them: one star more than any has.

    Examples
    --------
    >>> star_beside(["F", "M"]), star_beside(["a", "*", None])
    ('*', '**')
    """
    longest = max((len(text) for text in texts if text and not text.strip(STAR)), default=0)
    return STAR * (longest + 1)


def braces_around(text: str) -> int:
    """How many braces a text has around it.

    Examples
    --------
    >>> braces_around("{a, b}"), braces_around("{{a}"), braces_around("a}")
    (1, 1, 0)
    """
    before, after = len(text) - len(text.lstrip("{")), len(text) - len(text.rstrip("}"))
    return min(before, after)
