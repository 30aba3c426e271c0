"""Yuan's descent: leave columns out one after the other while no two rows become alike.

What remains is a minimal set that identifies rows as well as all columns do. Which one depends on
the order, so several random orders may be tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.quasi.greedy import Goal, histogram

__all__ = ["Descent", "descend"]


@dataclass(frozen=True)
class Descent:
    """The minimal sets descents ended in, the smallest first, and how often each was reached."""

    columns: tuple[int, ...]
    reached: tuple[tuple[tuple[int, ...], int], ...]
    stopped_by: str | None = None


def descend(
    codes: Codes,
    order: Sequence[int] | None = None,
    restarts: int = 0,
    *,
    budget: Budget | None = None,
    seed: int = 0,
) -> Descent:
    """Descend once in the given order, then `restarts` times in random orders.

    Parameters
    ----------
    order
        Columns in the order in which they are tried; the last column first where None.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    width = len(codes.columns)
    goal = Goal(classes=histogram(codes, range(width)).classes)
    first = list(range(width))[::-1] if order is None else list(order)
    ended: Counter[tuple[int, ...]] = Counter()
    for attempt in range(restarts + 1):
        if attempt and budget.spent():
            break
        budget.progress("descending", attempt / (restarts + 1))
        tried = first if attempt == 0 else random.permutation(width).tolist()
        ended[_once(codes, goal, tried)] += 1
    reached = sorted(ended.items(), key=lambda item: (len(item[0]), -item[1], item[0]))
    return Descent(reached[0][0], tuple(reached), budget.stopped_by)


def _once(codes: Codes, goal: Goal, order: Sequence[int]) -> tuple[int, ...]:
    kept = list(range(len(codes.columns)))
    for column in order:
        rest = [c for c in kept if c != column]
        if goal.met(codes, rest):
            kept = rest
    return tuple(kept)
