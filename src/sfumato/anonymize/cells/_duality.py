"""Compiled: prices of rows that prove a lower bound.

Prices y prove Σ y as a lower bound if no group of k rows that could be made alike is priced above
what it costs. Among the rows of a class with stars worth s the dearest group of at least k rows is
dearer than its cost if and only if its k dearest rows are: their prices must not sum to more than
k·s (rows after those only add what is below s).
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymize.cells._classes import new_slots, number_classes, sort_classes

__all__ = ["lower_to_feasible"]


@numba.njit(nogil=True, cache=True)
def lower_to_feasible(codes, counts, k, kept, stars, multipliers, price):  # type: ignore[no-untyped-def]
    """Lower prices until no class is overpriced; gives the number of classes that were.

    In each overpriced class the dearest rows are cut down to a common price. Prices only sink, so a
    class once in order stays so and one walk over all patterns suffices.
    """
    n = codes.shape[0]
    everyone = np.arange(n)
    slots = new_slots(n)
    numbers = np.empty(n, np.int32)
    starts, order = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    sizes, sums = np.empty(n, np.int64), np.empty(n, np.int64)
    lowered = 0
    for p in range(kept.shape[0]):
        classes = number_classes(codes, everyone, n, kept[p], multipliers, p, slots, numbers)
        # A class with too few rows, or none above the price of its stars, cannot be overpriced.
        for c in range(classes):
            sizes[c], sums[c] = 0, 0
        for i in range(n):
            sizes[numbers[i]] += counts[i]
            if price[i] > stars[p]:
                sums[numbers[i]] += 1
        sort_classes(numbers, n, classes, starts, order)
        for c in range(classes):
            if sizes[c] >= k and sums[c]:
                lowered += _lower(order[starts[c] : starts[c + 1]], counts, k, stars[p], price)
    return lowered


@numba.njit(nogil=True, cache=True)
def _lower(members, counts, k, stars, price):  # type: ignore[no-untyped-def]
    """Cut the dearest rows of one class down to a common price, if it is overpriced."""
    ranked = members[np.argsort(-price[members])]
    room, total, last = k, np.int64(0), 0
    for at in range(ranked.shape[0]):
        rows = min(room, counts[ranked[at]])
        total += rows * price[ranked[at]]
        room -= rows
        last = at
        if room == 0:
            break
    if total <= k * stars:
        return 0
    # With the first j entries at price x and the k rows after them unchanged, x is the largest
    # that makes the sum right; j grows until x is no smaller than the next price.
    above, rest = np.int64(0), total
    for at in range(last + 1):
        rows = min(k - above, counts[ranked[at]])
        above += rows
        rest -= rows * price[ranked[at]]
        common = (k * stars - rest) // above
        following = price[ranked[at + 1]] if at + 1 < ranked.shape[0] else common
        if common >= following or at == last:
            for z in range(ranked.shape[0]):
                if price[ranked[z]] <= common:
                    break
                price[ranked[z]] = common
            return 1
    return 1
