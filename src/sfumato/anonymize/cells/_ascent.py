"""Compiled: the dual of cell suppression and its slopes, over listed candidates.

With a price y for every row, open a candidate only if the rows it would take (all priced above its
stars, at least k) are worth more than they cost. Σ y minus what the open candidates are worth is a
lower bound for any y, concave in y; where it is largest it equals the linear-programming bound.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["dual_value"]


@numba.njit(nogil=True, cache=True)
def dual_value(counts, k, starts, members, stars, price, slope, opened):  # type: ignore[no-untyped-def]
    """The bound that prices give.

    Fills `slope` with its change for each entry's price, and `opened` with the candidates that are
    worth opening.
    """
    value = 0.0
    for i in range(price.shape[0]):
        slope[i] = counts[i]
        value += counts[i] * price[i]
    fill, gains = np.empty(k, np.int64), np.empty(k)
    for c in range(stars.shape[0]):
        opened[c] = False
        s, worth, rows = stars[c], 0.0, 0
        for z in range(starts[c], starts[c + 1]):
            i = members[z]
            if price[i] > s:
                worth += counts[i] * (price[i] - s)
                rows += counts[i]
        if rows == 0:
            continue
        fills = 0
        if rows < k:
            fills = _dearest_below(counts, k - rows, starts, members, c, s, price, fill, gains)
            missing = k - rows
            for j in range(fills):
                taken = min(missing, counts[fill[j]])
                worth += taken * gains[j]
                missing -= taken
        if worth <= 0:
            continue
        value -= worth
        opened[c] = True
        for z in range(starts[c], starts[c + 1]):
            i = members[z]
            if price[i] > s:
                slope[i] -= counts[i]
        missing = k - rows
        for j in range(fills):
            taken = min(missing, counts[fill[j]])
            slope[fill[j]] -= taken
            missing -= taken
    return value


@numba.njit(nogil=True, cache=True)
def _dearest_below(counts, need, starts, members, c, s, price, fill, gains):  # type: ignore[no-untyped-def]
    """The dearest entries priced at most s that hold `need` rows, dearest first."""
    fills, rows = 0, 0
    for z in range(starts[c], starts[c + 1]):
        i = members[z]
        gain = price[i] - s
        if gain > 0 or (rows >= need and gain <= gains[fills - 1]):
            continue
        at = fills if fills < fill.shape[0] else fills - 1
        if fills == fill.shape[0]:
            rows -= counts[fill[fills - 1]]
        else:
            fills += 1
        while at > 0 and gains[at - 1] < gain:
            gains[at], fill[at] = gains[at - 1], fill[at - 1]
            at -= 1
        gains[at], fill[at] = gain, i
        rows += counts[i]
        while fills > 1 and rows - counts[fill[fills - 1]] >= need:
            rows -= counts[fill[fills - 1]]
            fills -= 1
    return fills
