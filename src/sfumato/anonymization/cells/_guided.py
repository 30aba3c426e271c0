"""Compiled: take candidates in turn, each with its uncovered rows if they are enough."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization.cells._direct import class_holds

__all__ = ["take_candidates"]


@numba.njit(nogil=True, cache=True)
def take_candidates(order, starts, members, counts, sensitive, rules, group, groups):  # type: ignore[no-untyped-def]
    """Fill `group` from the candidates in this order; gives the number of groups."""
    left = np.empty(counts.shape[0], np.int64)
    tally = np.zeros(rules.offsets[-1], np.int64)
    for c in order:
        uncovered, rows = 0, 0
        for z in range(starts[c], starts[c + 1]):
            if group[members[z]] < 0:
                left[uncovered] = members[z]
                uncovered += 1
                rows += counts[members[z]]
        if rows < rules.k:
            continue
        if rules.kinds.shape[0] and not class_holds(
            left, 0, uncovered, counts, sensitive, rules, tally
        ):
            continue
        for z in range(uncovered):
            group[left[z]] = groups
        groups += 1
    return groups
