"""The least loss of recoding a small table with two trees, by trying everything."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from sfumato.hierarchy import Hierarchy

JOBS = Hierarchy.from_levels(
    [["nurse", "cook", "clerk", "judge"], ["care", "care", "desk", "desk"], ["*"] * 4]
)
TOWNS = Hierarchy.from_levels(
    [list("abcdef"), ["west"] * 2 + ["mid"] * 2 + ["east"] * 2, ["*"] * 6]
)
TREES = {"job": JOBS, "town": TOWNS}


def small_table(random, rows):
    return pa.table(
        {
            "job": random.choice(["nurse", "cook", "clerk", "judge"], rows),
            "town": random.choice(list("abcdef"), rows),
        }
    )


def optimum(table, k, weights=None, loss="loss", out=0):
    """Least mean loss of all partitions into groups of at least k rows, by dynamic programming.

    `loss` is ``loss`` (certainty penalty) or ``relative_height``; so many rows may be left `out`.
    """
    weights = dict.fromkeys(TREES, 1.0) | (weights or {})
    bound = {
        n: tree.bind(pa.array(sorted(set(table[n].to_pylist()))), n) for n, tree in TREES.items()
    }
    codes = {
        n: np.array([sorted(set(table[n].to_pylist())).index(v) for v in table[n].to_pylist()])
        for n in TREES
    }
    rows = table.num_rows

    @cache
    def lost(group):
        members = [row for row in range(rows) if group >> row & 1]
        zeros = np.zeros(len(members), dtype=int)
        return len(members) * sum(
            weights[n]
            * float(getattr(bound[n], loss)[bound[n].lca(codes[n][members], zeros, 1)[0]])
            for n in TREES
        )

    @cache
    def least(left, out):
        if left == 0:
            return 0.0
        first = left & -left
        rest, best = left ^ first, float("inf")
        if out:
            best = sum(weights.values()) + least(rest, out - 1)
        if left.bit_count() < k:
            return best
        others = rest
        while True:
            size = others.bit_count() + 1
            if k <= size < 2 * k:  # larger groups can be split without losing more
                best = min(best, lost(others | first) + least(left ^ first ^ others, out))
            if others == 0:
                return best
            others = (others - 1) & rest

    return least((1 << rows) - 1, out) / rows / sum(weights.values())
