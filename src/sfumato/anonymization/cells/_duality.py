"""Compiled: lower prices of rows until no pattern of stars has an overpriced class."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization._ascent import lower_class
from sfumato.anonymization.cells._classes import new_slots, number_classes, sort_classes

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
                lowered += lower_class(order[starts[c] : starts[c + 1]], counts, k, stars[p], price)
    return lowered
