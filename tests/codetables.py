"""Small random tables of codes, and what brute force says about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sfumato.engines.protocol import smallest_dtype

Row = tuple[int, ...]


@st.composite
def tables(
    draw: st.DrawFn, columns: int = 6, rows: int = 40, widest: int = 2**32
) -> tuple[list[Any], list[int]]:
    """Code arrays of mixed widths and their cardinalities (which may exceed what occurs)."""
    offered = [k for k in (1, 2, 3, 7, 256, 300, 70_000, 2**32) if k <= widest]
    cardinalities = draw(st.lists(st.sampled_from(offered), max_size=columns))
    entries = draw(st.integers(0, rows))
    arrays = []
    for cardinality in cardinalities:
        # Few different codes, near the ends of the range, so that classes have company.
        codes = st.sampled_from(sorted({0, cardinality // 2, cardinality - 1}))
        chosen = draw(st.lists(codes, min_size=entries, max_size=entries))
        arrays.append(np.array(chosen, dtype=smallest_dtype(cardinality)))
    return arrays, cardinalities


def rows_of(arrays: list[Any], entries: int | None = None) -> list[Row]:
    """Entries as tuples."""
    if not arrays:
        return [()] * (entries or 0)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


def numbered(rows: list[Row]) -> list[int]:
    """Class numbers in ascending order of codes."""
    place = {row: at for at, row in enumerate(sorted(set(rows)))}
    return [place[row] for row in rows]


def sizes_of(rows: list[Row], weights: list[int] | None = None) -> dict[int, int]:
    """Histogram of class sizes."""
    total: Counter[Row] = Counter()
    for at, row in enumerate(rows):
        total[row] += 1 if weights is None else weights[at]
    return dict(Counter(total.values()))


def classes_of(rows: list[Row]) -> set[frozenset[int]]:
    """The classes as sets of entries."""
    members: defaultdict[Row, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        members[row].append(at)
    return {frozenset(entries) for entries in members.values()}
