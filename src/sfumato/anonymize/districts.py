"""Districts: neighbourhoods of entries, small enough for work that looks at every pair.

Mondrian cuts the blocks until a district would become too small. Other seeds prefer other columns,
so that a border of one division is inland in the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymize.blocks import Blocks
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.space import axes_of, positions_of, sensitive_of

__all__ = ["districts"]

Array = npt.NDArray[Any]


def districts(problem: Problem, blocks: Blocks, entries: int, seed: int | None = None) -> Blocks:
    """Cut blocks into districts of at least so many entries, each of which satisfies the rules.

    Parameters
    ----------
    entries
        Least number of entries, on average; districts have at most about twice as many.
    seed
        Which columns to prefer; None cuts where the spread is largest.
    """
    from sfumato.anonymize._mondrian import cut_blocks

    axes = axes_of(problem)
    columns = len(problem.quasi_identifiers)
    priority = np.zeros(columns) if seed is None else np.random.default_rng(seed).random(columns)
    order = blocks.order.copy()
    rows = int(problem.counts[order].sum())
    least = max(problem.rules.k, int(entries * rows / max(len(order), 1)))
    ends = cut_blocks(
        positions_of(problem)[order],
        problem.counts[order],
        sensitive_of(problem)[order],
        np.zeros(0, dtype=np.int64),
        1,
        order,
        blocks.starts,
        axes,
        problem.rules._replace(k=least),
        np.array([1.0, 1.0, 0.0]),
        priority,
        np.zeros(int(axes.offsets[-1]), dtype=np.bool_),
        False,
    )
    return Blocks(order, np.r_[0, ends].astype(np.int64))
