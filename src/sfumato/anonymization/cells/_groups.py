"""Compiled: groups as linked lists of units that may move.

A unit is one row, or the part of a combination so large that it is a group of its own without
stars; that part never moves. Every move keeps each group at k rows or empties it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from sfumato.privacy._kernels import holds

__all__ = [
    "Groups",
    "fits",
    "join",
    "new_group",
    "place",
    "refresh",
    "rest_holds",
    "total",
    "unite",
]

Array = npt.NDArray[Any]


class Groups(NamedTuple):
    """Groups and their units.

    Attributes
    ----------
    entry, weight, group
        Of each unit: its combination, rows it stands for, and group.
    after, before
        Neighbours of each unit in its group, -1 at the ends.
    head, size, cost, kept
        Of each group: first unit, rows, price of the stars of one row, and columns it shows.
    spare
        Numbers of unused groups; `spare[-1]` says how many they are.
    """

    entry: Array
    weight: Array
    group: Array
    after: Array
    before: Array
    head: Array
    size: Array
    cost: Array
    kept: Array
    spare: Array


@numba.njit(nogil=True, cache=True)
def join(groups, unit, q):  # type: ignore[no-untyped-def]
    """Move a unit from its group, if it has one, to group q."""
    old = groups.group[unit]
    if old >= 0:
        ahead, behind = groups.before[unit], groups.after[unit]
        if ahead >= 0:
            groups.after[ahead] = behind
        else:
            groups.head[old] = behind
        if behind >= 0:
            groups.before[behind] = ahead
        groups.size[old] -= groups.weight[unit]
        if groups.head[old] < 0:
            free = groups.spare[-1]
            groups.spare[free] = old
            groups.spare[-1] = free + 1
    first = groups.head[q]
    groups.after[unit], groups.before[unit] = first, -1
    if first >= 0:
        groups.before[first] = unit
    groups.head[q] = unit
    groups.group[unit] = q
    groups.size[q] += groups.weight[unit]


@numba.njit(nogil=True, cache=True)
def new_group(groups, kept, cost):  # type: ignore[no-untyped-def]
    """The number of a new group without units."""
    free = groups.spare[-1] - 1
    q = groups.spare[free]
    groups.spare[-1] = free
    groups.head[q], groups.size[q] = -1, 0
    groups.kept[q], groups.cost[q] = kept, cost
    return q


@numba.njit(nogil=True, cache=True)
def unite(groups, q, into):  # type: ignore[no-untyped-def]
    """Move every unit of group q to another group."""
    unit = groups.head[q]
    while unit >= 0:
        following = groups.after[unit]
        join(groups, unit, into)
        unit = following


@numba.njit(nogil=True, cache=True)
def fits(codes, groups, unit, q):  # type: ignore[no-untyped-def]
    """Whether a unit has the values that a group shows."""
    first = groups.head[q]
    if first < 0:
        return False
    kept, a, b = groups.kept[q], groups.entry[unit], groups.entry[first]
    same = True
    for c in range(codes.shape[1]):
        if (kept >> c) & 1 and codes[a, c] != codes[b, c]:
            same = False
            break
    return same


@numba.njit(nogil=True, cache=True)
def rest_holds(groups, q, leaving, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Whether the units of a group that are not marked as leaving satisfy all rules."""
    size = 0
    unit = groups.head[q]
    while unit >= 0:
        if not leaving[unit]:
            size += groups.weight[unit]
            for s in range(sensitive.shape[1]):
                tally[sensitive[groups.entry[unit], s]] += groups.weight[unit]
        unit = groups.after[unit]
    good = holds(size, tally, rules)
    unit = groups.head[q]
    while unit >= 0:
        for s in range(sensitive.shape[1]):
            tally[sensitive[groups.entry[unit], s]] = 0
        unit = groups.after[unit]
    return good


@numba.njit(nogil=True, cache=True)
def refresh(codes, prices, groups):  # type: ignore[no-untyped-def]
    """Show again what all rows of a group have come to agree on; gives what that saves."""
    saved = np.int64(0)
    for q in range(groups.head.shape[0]):
        first = groups.head[q]
        if first < 0 or groups.cost[q] == 0:
            continue
        before, hidden = groups.cost[q], np.int64(0)
        for c in range(codes.shape[1]):
            if (groups.kept[q] >> c) & 1:
                continue
            unit, same = groups.after[first], True
            while unit >= 0 and same:
                same = codes[groups.entry[unit], c] == codes[groups.entry[first], c]
                unit = groups.after[unit]
            if same:
                groups.kept[q] |= np.int64(1) << c
            else:
                hidden += prices[c]
        groups.cost[q] = hidden
        saved += (before - hidden) * groups.size[q]
    return saved


@numba.njit(nogil=True, cache=True)
def total(groups):  # type: ignore[no-untyped-def]
    """Price of all stars."""
    price = np.int64(0)
    for q in range(groups.head.shape[0]):
        if groups.head[q] >= 0:
            price += groups.cost[q] * groups.size[q]
    return price


@numba.njit(nogil=True, cache=True)
def place(groups, group):  # type: ignore[no-untyped-def]
    """Put every unit into the group named."""
    for unit in range(group.shape[0]):
        join(groups, unit, group[unit])
