"""Compiled loops of APPROX-GR: a forest of near rows, cut into small trees."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization.cells._classes import new_slots, number_classes, sort_classes

__all__ = ["cut_trees", "grow_forest"]


@numba.njit(nogil=True, cache=True)
def grow_forest(codes, rows, k, kept, multipliers):  # type: ignore[no-untyped-def]
    """Parent of each row in a forest whose trees have at least k rows, -1 for roots.

    As long as a tree has fewer than k rows, its root is joined to the nearest row outside. Patterns
    come by the number of stars, so rows in one class of a pattern with s stars that are not in
    one tree yet differ in exactly s columns.
    """
    n = rows.shape[0]
    parent = np.full(n, -1, np.int64)
    leader, size, root = np.arange(n), np.ones(n, np.int64), np.arange(n)
    slots = new_slots(n)
    numbers = np.empty(n, np.int32)
    starts, order = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    for p in range(kept.shape[0]):
        classes = number_classes(codes, rows, n, kept[p], multipliers, p, slots, numbers)
        sort_classes(numbers, n, classes, starts, order)
        for c in range(classes):
            members = order[starts[c] : starts[c + 1]]
            for at in range(members.shape[0]):
                u = members[at]
                mine = _leader(leader, u)
                if size[mine] >= k or root[mine] != u:
                    continue
                for step in range(1, members.shape[0]):
                    v = members[(at + step) % members.shape[0]]
                    theirs = _leader(leader, v)
                    if theirs != mine:
                        parent[u] = v
                        kept_root = root[theirs]
                        if size[theirs] < size[mine]:
                            mine, theirs = theirs, mine
                        leader[mine] = theirs
                        size[theirs] += size[mine]
                        root[theirs] = kept_root
                        break
    return parent


@numba.njit(nogil=True, cache=True)
def _leader(leader, u):  # type: ignore[no-untyped-def]
    while leader[u] != u:
        leader[u] = leader[leader[u]]
        u = leader[u]
    return u


@numba.njit(nogil=True, cache=True)
def cut_trees(parent, k):  # type: ignore[no-untyped-def]
    """Cut each tree from the leaves up into parts of k to 3k - 3 rows; the part of each row.

    Subtrees of fewer than k rows that hang on one row are gathered until they are k together.
    """
    n = parent.shape[0]
    children = np.zeros(n, np.int64)
    for u in range(n):
        if parent[u] >= 0:
            children[parent[u]] += 1
    order, done = np.empty(n, np.int64), 0
    for u in range(n):
        if children[u] == 0:
            order[done] = u
            done += 1
    at = 0
    while at < done:
        above = parent[order[at]]
        at += 1
        if above >= 0:
            children[above] -= 1
            if children[above] == 0:
                order[done] = above
                done += 1
    # Each row starts a bunch; bunches below one row are linked until they hold k rows.
    link, part = np.arange(n), np.full(n, -1, np.int64)
    held = np.ones(n, np.int64)
    gathered, last = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    parts = 0
    for at in range(n):
        u = order[at]
        bunch = u
        if gathered[u] >= 0:
            link[gathered[u]] = u
            held[u] += held[gathered[u]]
        above = parent[u]
        if held[bunch] >= k or above < 0:
            if held[bunch] >= k or last[u] < 0:
                part[bunch] = parts
                last[u] = parts
                parts += 1
            else:
                part[bunch] = last[u]
            if above >= 0:
                last[above] = last[u]
            continue
        if last[u] >= 0:
            last[above] = last[u]
        if gathered[above] < 0:
            gathered[above] = bunch
        else:
            link[bunch] = gathered[above]
            held[gathered[above]] += held[bunch]
            if held[gathered[above]] >= k:
                part[gathered[above]] = parts
                last[above] = parts
                gathered[above] = -1
                parts += 1
    for at in range(n - 1, -1, -1):
        u = order[at]
        if part[u] < 0:
            top = u
            while part[top] < 0:
                top = link[top]
            part[u] = part[top]
    return part
