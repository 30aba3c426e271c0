"""Compiled test of rules on many groups at once."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.privacy._kernels import holds

__all__ = ["groups_hold"]


@numba.njit(nogil=True, cache=True)
def groups_hold(groups, count, weights, sensitive, rules):  # type: ignore[no-untyped-def]
    """Whether each group satisfies all rules; members of a group may lie anywhere."""
    good = np.zeros(count, np.bool_)
    order = np.argsort(groups, kind="mergesort")
    counts = np.zeros(rules.offsets[-1], np.int64)
    at = 0
    while at < order.shape[0]:
        group = groups[order[at]]
        size, begin = 0, at
        while at < order.shape[0] and groups[order[at]] == group:
            i = order[at]
            size += weights[i]
            for s in range(sensitive.shape[1]):
                counts[sensitive[i, s]] += weights[i]
            at += 1
        if group >= 0:
            good[group] = holds(size, counts, rules)
        for z in range(begin, at):
            for s in range(sensitive.shape[1]):
                counts[sensitive[order[z], s]] = 0
    return good
