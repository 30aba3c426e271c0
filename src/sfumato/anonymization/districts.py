"""Districts: neighbourhoods of entries, small enough for work that looks at every pair.

Mondrian cuts the blocks until a district would become too small. Other seeds prefer other columns,
so that a border of one division is inland in the next.
"""

from __future__ import annotations

import numpy as np

from sfumato.anonymization.blocks import Blocks
from sfumato.anonymization.cutting import cut
from sfumato.anonymization.problem import Problem

__all__ = ["districts"]


def districts(problem: Problem, blocks: Blocks, entries: int, seed: int | None = None) -> Blocks:
    """Cut blocks into districts of at least so many entries, each of which satisfies the rules.

    Parameters
    ----------
    entries
        Least number of entries, on average; districts have at most about twice as many.
    seed
        Which columns to prefer; None cuts where the spread is largest.
    """
    columns = len(problem.qi)
    priority = np.zeros(columns) if seed is None else np.random.default_rng(seed).random(columns)
    rows = int(problem.counts[blocks.order].sum())
    least = max(problem.rules.k, int(entries * rows / max(len(blocks.order), 1)))
    found = cut(
        problem,
        blocks,
        rules=problem.rules._replace(k=least),
        mix=np.array([1.0, 1.0, 0.0]),
        priority=priority,
    )
    return Blocks(found.index.astype(np.int64), np.r_[0, found.ends].astype(np.int64))
