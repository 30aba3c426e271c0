"""Prices of rows that prove how little any choice of groups can pay.

Rows go into *candidates*, sets of rows that can be made alike at a known cost a row; a candidate
that is opened takes at least k rows. By weak duality, prices of rows at which no candidate is worth
more than it costs sum to a lower bound. They are raised by ascent on the dual, with steps after
Polyak that aim at the cost of a solution at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget

__all__ = ["Ascent", "ascend"]

_MOMENTUM = 0.7
_PATIENCE = 8
_AIM = 0.95
_FORGETTING = 0.1


class Ascent(NamedTuple):
    """Where an ascent ended.

    Attributes
    ----------
    value
        The bound, up to rounding and as far as all candidates are listed.
    prices
        Price of a row of each entry, whose bound is the highest found.
    opened
        Share of the last steps, later ones counting more, in which each candidate was worth more
        than it costs.
    """

    value: float
    prices: npt.NDArray[np.float64]
    opened: npt.NDArray[np.float64]


def ascend(
    counts: npt.NDArray[np.int64],
    k: int,
    starts: npt.NDArray[np.int64],
    members: npt.NDArray[np.int32],
    costs: npt.NDArray[Any],
    start: npt.NDArray[Any],
    known: float,
    budget: Budget,
    steps: int,
    highest: npt.NDArray[np.float64] | None = None,
) -> Ascent:
    """Raise prices step by step; at most half of the time that is left is used.

    Parameters
    ----------
    counts
        Rows of each entry.
    starts, members, costs
        Entries of candidate c are ``members[starts[c]:starts[c + 1]]``, at so much a row.
    start, highest
        Prices to begin with, and those not to be exceeded, if any.
    known
        What a known solution costs.
    steps
        Steps at most; the ascent ends early with the budget or when nothing is gained.

    Examples
    --------
    >>> counts, starts = np.ones(3, np.int64), np.array([0, 2, 5])
    >>> members, costs = np.array([0, 1, 0, 1, 2], np.int32), np.array([0.0, 1.0])
    >>> found = ascend(counts, 2, starts, members, costs, np.array([0.0, 0, 1]), 3.0, Budget(), 50)
    >>> round(found.value, 1)
    2.0
    """
    from sfumato.anonymization._ascent import dual_value

    until = budget.elapsed + budget.remaining / 2
    weights, each = counts.astype(np.float64), costs.astype(np.float64)
    price = start.astype(np.float64)
    best, best_price = float(weights @ price), price.copy()
    slope, direction = np.empty(len(counts)), np.zeros(len(counts))
    opens, opened = np.zeros(len(costs), dtype=np.bool_), np.zeros(len(costs))
    stride, idle = 1.0, 0
    for step in range(steps):
        budget.progress("bounding from below", step / steps)
        if budget.spent() or budget.elapsed > until or stride < 1e-3:
            break
        value = dual_value(counts, k, starts, members, each, price, slope, opens)
        opened += _FORGETTING * (opens - opened)
        idle = 0 if value > best * (1 + 1e-4) else idle + 1
        if value > best:
            best, best_price = value, price.copy()
        if idle >= _PATIENCE:
            stride, idle = stride / 2, 0
            price = best_price.copy()
            direction[:] = 0.0
            continue
        direction = slope + _MOMENTUM * direction
        length = float(direction @ (direction / weights))
        if length == 0.0 or value >= known:
            break
        # What is known to be possible is not yet the least: the steps aim a little lower.
        aim = max(_AIM * known, value + (1 - _AIM) * (known - value))
        price = price + stride * (aim - value) / length * (direction / weights)
        if highest is not None:
            price = np.minimum(price, highest)
    return Ascent(best, best_price, opened)
