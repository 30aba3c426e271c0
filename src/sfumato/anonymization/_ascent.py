"""Compiled: what prices of rows prove, the dual of choosing groups among candidates.

With a price y for every row, open a candidate only if the rows it would take (all priced above what
it costs a row, at least k) are worth more than they cost. Σ y minus what the open candidates are
worth is a lower bound for any y, concave in y; where it is largest it equals the linear-programming
bound.

Prices at which no candidate is worth more than it costs prove their sum. Among rows that can be
made alike at a cost s each, the dearest group of at least k rows is dearer than its cost if and
only if its k dearest rows are: their prices must not sum to more than k·s (rows after those only
add what is below s).
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["dual_value", "lower_class", "lower_classes"]


@numba.njit(nogil=True, cache=True)
def dual_value(counts, k, starts, members, costs, price, slope, opened):  # type: ignore[no-untyped-def]
    """The bound that prices give.

    Fills `slope` with its change for each entry's price, and `opened` with the candidates that are
    worth opening.
    """
    value = 0.0
    for i in range(price.shape[0]):
        slope[i] = counts[i]
        value += counts[i] * price[i]
    fill, gains = np.empty(k, np.int64), np.empty(k)
    for c in range(costs.shape[0]):
        opened[c] = False
        s, worth, rows = costs[c], 0.0, 0
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


@numba.njit(nogil=True, cache=True)
def lower_classes(order, starts, sizes, counts, k, costs, price):  # type: ignore[no-untyped-def]
    """Lower prices until no class is overpriced; entries of class c are order[starts[c]:…]."""
    for c in range(len(sizes)):
        if sizes[c] < k:
            continue
        for at in range(starts[c], starts[c + 1]):
            if price[order[at]] > costs[c]:  # else none of its rows is too dear
                lower_class(order[starts[c] : starts[c + 1]], counts, k, costs[c], price)
                break


@numba.njit(nogil=True, cache=True)
def lower_class(members, counts, k, cost, price):  # type: ignore[no-untyped-def]
    """Cut the dearest rows of a class down to a common price, if it is overpriced.

    Gives 1 where it was, 0 where not.
    """
    ranked = members[np.argsort(-price[members], kind="mergesort")]
    room, total, last = k, np.int64(0), 0
    for at in range(ranked.shape[0]):
        rows = min(room, counts[ranked[at]])
        total += rows * price[ranked[at]]
        room -= rows
        last = at
        if room == 0:
            break
    if total <= k * cost:
        return 0
    # With the first j entries at price x and the k rows after them unchanged, x is the largest
    # that makes the sum right; j grows until x is no smaller than the next price.
    above, rest = np.int64(0), total
    for at in range(last + 1):
        rows = min(k - above, counts[ranked[at]])
        above += rows
        rest -= rows * price[ranked[at]]
        common = (k * cost - rest) // above
        following = price[ranked[at + 1]] if at + 1 < ranked.shape[0] else common
        if common >= following or at == last:
            for z in range(ranked.shape[0]):
                if price[ranked[z]] <= common:
                    break
                price[ranked[z]] = common
            return 1
    return 1
