"""Slow and obvious answers on small tables, for comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import pyarrow as pa
from hypothesis import strategies as st

Rows = list[tuple[object, ...]]


def column_sets(width: int, at_most: int | None = None) -> Iterator[tuple[int, ...]]:
    """All column sets, small ones first."""
    for size in range((width if at_most is None else at_most) + 1):
        yield from combinations(range(width), size)


def sizes(rows: Rows, columns: Sequence[int]) -> list[int]:
    """Sizes of the classes of a column set."""
    return list(Counter(tuple(row[c] for c in columns) for row in rows).values())


def classes(rows: Rows, columns: Sequence[int]) -> int:
    """Number of classes."""
    return len(sizes(rows, columns))


def together(rows: Rows, columns: Sequence[int]) -> int:
    """Pairs of rows in a common class."""
    return sum(s * (s - 1) // 2 for s in sizes(rows, columns))


def as_table(rows: Rows, width: int) -> pa.Table:
    """The rows as an Arrow table with columns a, b, c, …"""
    names = [chr(ord("a") + c) for c in range(width)]
    return pa.table({name: [row[c] for row in rows] for c, name in enumerate(names)})


@st.composite
def small_tables(
    draw: st.DrawFn, max_rows: int = 12, max_columns: int = 5, values: int = 3, min_rows: int = 0
) -> tuple[Rows, int]:
    """Rows over few values, some null, and the number of columns."""
    width = draw(st.integers(1, max_columns))
    cell = st.one_of(st.none(), st.integers(0, values - 1))
    rows = draw(st.lists(st.tuples(*[cell] * width), min_size=min_rows, max_size=max_rows))
    return rows, width
