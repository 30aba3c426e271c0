"""Compiled: rows move to cheaper groups, and groups whose rows all fit elsewhere are dissolved.

Joining a group costs its new rows only what they now pay, since they show what it shows. Under
rules beyond k a move is made, looked at, and taken back where a group no longer satisfies them.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization.cells._groups import fits, join, rest_holds

__all__ = ["reinsert"]

_MOST_COUNTED = 4096
"""Rows of a group up to which its sensitive values are counted for a single move."""


@numba.njit(nogil=True, cache=True)
def reinsert(codes, sensitive, rules, groups, elsewhere):  # type: ignore[no-untyped-def]
    """Move and dissolve; gives what was saved."""
    k, ruled = rules.k, rules.kinds.shape[0] > 0
    leaving = np.zeros(groups.group.shape[0], np.bool_)
    tally = np.zeros(rules.offsets[-1], np.int64)
    saved = np.int64(0)
    for u in range(elsewhere.shape[0]):
        own, other = groups.group[u], elsewhere[u]
        if other < 0 or groups.cost[other] >= groups.cost[own] or groups.size[own] <= k:
            continue
        if other == own or groups.weight[u] != 1 or not fits(codes, groups, u, other):
            continue
        if not ruled:
            join(groups, u, other)
            saved += groups.cost[own] - groups.cost[other]
        elif _moved(groups, u, other, leaving, sensitive, rules, tally):
            saved += groups.cost[own] - groups.cost[other]
    for q in range(groups.head.shape[0]):
        if groups.head[q] < 0 or groups.cost[q] == 0 or groups.size[q] > 4 * k:
            continue
        worth = _worth_elsewhere(codes, groups, elsewhere, q)
        if worth <= 0:
            continue
        if not ruled:
            unit = groups.head[q]
            while unit >= 0:
                following = groups.after[unit]
                join(groups, unit, elsewhere[unit])
                unit = following
            saved += worth
        elif _dissolved(groups, elsewhere, q, leaving, sensitive, rules, tally):
            saved += worth
    return saved


@numba.njit(nogil=True, cache=True)
def _worth_elsewhere(codes, groups, elsewhere, q):  # type: ignore[no-untyped-def]
    """What is gained if every row of a group goes elsewhere; or a loss if one cannot."""
    worth, unit = np.int64(0), groups.head[q]
    while unit >= 0:
        other = elsewhere[unit]
        if other < 0 or other == q or not fits(codes, groups, unit, other):
            return -(np.int64(1) << 60)
        worth += (groups.cost[q] - groups.cost[other]) * groups.weight[unit]
        unit = groups.after[unit]
    return worth


@numba.njit(nogil=True, cache=True)
def _moved(groups, unit, other, leaving, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Move a unit if both groups satisfy all rules afterwards; says whether it was moved."""
    own = groups.group[unit]
    if max(groups.size[own], groups.size[other]) > _MOST_COUNTED:
        return False
    join(groups, unit, other)
    if rest_holds(groups, own, leaving, sensitive, rules, tally) and rest_holds(
        groups, other, leaving, sensitive, rules, tally
    ):
        return True
    join(groups, unit, own)
    return False


@numba.njit(nogil=True, cache=True)
def _dissolved(groups, elsewhere, q, leaving, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Send every unit of a group elsewhere if all that take one still satisfy all rules."""
    units = np.empty(groups.size[q], np.int64)
    count, unit = 0, groups.head[q]
    while unit >= 0:
        if groups.size[elsewhere[unit]] > _MOST_COUNTED:
            return False
        units[count] = unit
        count += 1
        unit = groups.after[unit]
    for i in range(count):
        join(groups, units[i], elsewhere[units[i]])
    for i in range(count):
        if not rest_holds(groups, elsewhere[units[i]], leaving, sensitive, rules, tally):
            groups.spare[-1] -= 1  # the group is needed again
            for j in range(count):
                join(groups, units[j], q)
            return False
    return True
