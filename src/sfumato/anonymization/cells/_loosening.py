"""Compiled: which stars a group can do without when a star matches anything."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["MOST_TOGETHER", "loosen"]

MOST_TOGETHER = 128
"""Rows of a group up to which its pairs are counted; of larger ones only the first step is made."""


@numba.njit(nogil=True, cache=True)
def loosen(codes, k, prices, starts, entry, stars):  # type: ignore[no-untyped-def]
    """Take stars away from groups whose rows then still match k rows each, themselves included.

    The rows of group g are ``starts[g]`` to ``starts[g + 1]``; `entry` and `stars` hold the
    combination of each and its starred columns, one bit a column.
    """
    for g in range(starts.shape[0] - 1):
        rows, mine = entry[starts[g] : starts[g + 1]], stars[starts[g] : starts[g + 1]]
        if rows.shape[0] and mine[0]:
            _show_commonest(codes, rows, mine)
            if k < rows.shape[0] <= MOST_TOGETHER:
                _show_more(codes, k, prices, rows, mine)


@numba.njit(nogil=True, cache=True)
def _show_commonest(codes, rows, stars):  # type: ignore[no-untyped-def]
    """In every column show the value most rows have: equal values match, others meet a star."""
    n, all_ = rows.shape[0], stars[0]
    values = np.empty(n, codes.dtype)
    for c in range(codes.shape[1]):
        if not (all_ >> c) & 1:
            continue
        for i in range(n):
            values[i] = codes[rows[i], c]
        ranked = np.sort(values)
        best, most, run = ranked[0], 0, 0
        for i in range(n):
            run = run + 1 if i and ranked[i] == ranked[i - 1] else 1
            if run > most:
                best, most = ranked[i], run
        for i in range(n):
            if values[i] == best:
                stars[i] &= ~(np.int64(1) << c)


@numba.njit(nogil=True, cache=True)
def _show_more(codes, k, prices, rows, stars):  # type: ignore[no-untyped-def]
    """Show cells that break few matches, as long as every row keeps k of them."""
    n, m = rows.shape[0], codes.shape[1]
    apart = np.zeros((n, n), np.int64)  # columns in which two rows differ in sight of both
    matches = np.full(n, n)
    for dearest in np.unique(prices)[::-1]:
        allowed = 0
        while allowed <= n - k:
            for i in range(n):
                for c in range(m):
                    if (stars[i] >> c) & 1 and prices[c] == dearest:
                        _show(codes, k, rows, stars, apart, matches, i, c, allowed)
            allowed = 2 * allowed + 1


@numba.njit(nogil=True, cache=True)
def _show(codes, k, rows, stars, apart, matches, i, c, allowed):  # type: ignore[no-untyped-def]
    """Show one cell if it breaks so many matches at most and leaves k to every row."""
    broken = 0
    for j in range(rows.shape[0]):
        if codes[rows[j], c] != codes[rows[i], c] and not (stars[j] >> c) & 1 and not apart[i, j]:
            broken += 1
            if matches[j] <= k:
                return
    if broken > allowed or matches[i] - broken < k:
        return
    stars[i] &= ~(np.int64(1) << c)
    for j in range(rows.shape[0]):
        if codes[rows[j], c] != codes[rows[i], c] and not (stars[j] >> c) & 1:
            if not apart[i, j]:
                matches[j] -= 1
                matches[i] -= 1
            apart[i, j] += 1
            apart[j, i] += 1
