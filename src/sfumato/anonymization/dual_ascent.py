"""Prices of rows that prove how little any choice of groups can pay.

Rows go into *candidates*, sets of rows that can be made alike at a known cost a row; a candidate
that is opened takes at least k rows. By weak duality, prices of rows at which no candidate is worth
more than it costs sum to a lower bound. They are raised by ascent on the dual, with steps after
Polyak that aim at the cost of a solution at hand.

With a price y for every row, open a candidate only if the rows it would take (all priced above what
it costs a row, at least k) are worth more than they cost. Σ y minus what the open candidates are
worth is a lower bound for any y, concave in y; where it is largest it equals the linear-programming
bound.

Among rows that can be made alike at a cost s each, the dearest group of at least k rows is dearer
than its cost if and only if its k dearest rows are: their prices must not sum to more than k·s
(rows after those only add what is below s).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.kernels.compiling import compiled
from sfumato.kernels.ranking import largest_first

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
        value = _dual_value(counts, k, starts, members, each, price, slope, opens)
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
    return Ascent(float(best), best_price, opened)


@compiled(direct=True)
def _dual_value(counts, k, starts, members, costs, price, slope, opened):  # type: ignore[no-untyped-def]
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


@compiled
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


@compiled
def lower_classes(order, starts, sizes, counts, k, costs, price):  # type: ignore[no-untyped-def]
    """Lower prices until no class is overpriced; entries of class c are order[starts[c]:…]."""
    for c in range(len(sizes)):
        if sizes[c] < k:
            continue
        for at in range(starts[c], starts[c + 1]):
            if price[order[at]] > costs[c]:  # else none of its rows is too dear
                lower_class(order[starts[c] : starts[c + 1]], counts, k, costs[c], price)
                break


@compiled
def lower_class(members, counts, k, cost, price):  # type: ignore[no-untyped-def]
    """Cut the dearest rows of a class down to a common price, if it is overpriced.

    Gives 1 where it was, 0 where not.
    """
    dear = np.empty(members.shape[0], np.int64)
    for at in range(members.shape[0]):
        dear[at] = price[members[at]]
    ranked = largest_first(dear)
    for at in range(members.shape[0]):
        ranked[at] = members[ranked[at]]
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
