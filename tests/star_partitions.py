"""The optimum of tiny tables by trying every partition, and random tables for it."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

Codes = np.ndarray[Any, Any]


def best_cost(codes: Codes, k: int, prices: list[float] | None = None) -> float:
    """The least price of stars of any partition into groups of at least k rows."""
    n, width = codes.shape
    price = [1.0] * width if prices is None else prices

    @cache
    def least(left: int) -> float:
        if left == 0:
            return 0.0
        first = (left & -left).bit_length() - 1
        others = [j for j in range(first + 1, n) if left >> j & 1]
        best = float("inf")
        # Larger groups can be cut into groups of k to 2k - 1 without another star.
        for size in range(k - 1, min(2 * k - 2, len(others)) + 1):
            for chosen in combinations(others, size):
                rows = [first, *chosen]
                rest = left
                for row in rows:
                    rest &= ~(1 << row)
                if rest and rest.bit_count() < k:
                    continue
                stars = sum(price[c] for c in range(width) if len(set(codes[rows, c])) > 1)
                best = min(best, (len(rows) * stars if stars else 0.0) + least(rest))
        return best

    return least((1 << n) - 1)


@st.composite
def tiny_tables(draw: st.DrawFn, rows: int = 8, columns: int = 4) -> tuple[Codes, int]:
    """Codes over three values, and a k that the number of rows allows."""
    width = draw(st.integers(1, columns))
    row = st.tuples(*[st.integers(0, 2)] * width)
    codes = draw(st.lists(row, min_size=2, max_size=rows))
    k = draw(st.integers(2, min(4, len(codes))))
    return np.array(codes), k
