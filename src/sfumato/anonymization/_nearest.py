"""Compiled search for the entries that are near each entry of a district."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization._pricing import begin, loss_with
from sfumato.anonymization.pricing import END

__all__ = ["nearest_entries"]

SAMPLE = 64
"""Entries by which the axes of a district are judged."""
LEAST = 1e-9
"""Losses that differ by less are the same."""


@numba.njit(nogil=True, cache=True)
def _telling_axes(table, members, head, ints, floats, memory):  # type: ignore[no-untyped-def]
    """The axes, first those of few positions on which strangers lose much together.

    There most candidates fail, and many at once.
    """
    spread = np.zeros(table.shape[1])
    stride = max(1, members.shape[0] // SAMPLE)
    for i in range(0, members.shape[0], stride):
        begin(head, ints, memory, 0, table, members[i])
        for j in range(0, members.shape[0], stride):
            for axis in range(table.shape[1]):
                position = table[members[j], axis]
                spread[axis] += loss_with(head, ints, floats, memory, 0, axis, position)
    for axis in range(table.shape[1]):
        seen = np.zeros(table[:, axis].max() + 1, np.bool_)
        for member in members:
            seen[table[member, axis]] = True
        spread[axis] /= np.log(2.0 + seen.sum())
    return np.argsort(-spread, kind="mergesort")


@numba.njit(nogil=True, cache=True)
def _number(table, members, axes):  # type: ignore[no-untyped-def]
    """Positions of a district numbered through all axes, where each axis starts, and positions."""
    many, columns = members.shape[0], axes.shape[0]
    codes = np.empty((many, columns), np.int32)
    starts = np.zeros(columns + 1, np.int64)
    values = np.empty(many * columns, np.int64)
    for z in range(columns):
        column = np.empty(many, np.int64)
        for i in range(many):
            column[i] = table[members[i], axes[z]]
        distinct = np.unique(column)
        starts[z + 1] = starts[z] + distinct.shape[0]
        values[starts[z] : starts[z + 1]] = distinct
        codes[:, z] = starts[z] + np.searchsorted(distinct, column)
    return codes, starts, values


@numba.njit(nogil=True, cache=True)
def _insert(near, price, found, entry, loss):  # type: ignore[no-untyped-def]
    """Insert an entry into a list sorted by loss, of which it is one; the last may fall out."""
    at = min(found, price.shape[0] - 1)
    while at > 0 and price[at - 1] > loss:
        price[at], near[at] = price[at - 1], near[at - 1]
        at -= 1
    price[at], near[at] = loss, entry


@numba.njit(nogil=True, cache=True)
def _leads(codes):  # type: ignore[no-untyped-def]
    """On how many first axes each sorted member agrees with the one before it; the last has 0."""
    many, columns = codes.shape
    leads = np.zeros(many + 1, np.int64)
    for i in range(1, many):
        while leads[i] < columns - 1 and codes[i, leads[i]] == codes[i - 1, leads[i]]:
            leads[i] += 1
    return leads


@numba.njit(nogil=True, cache=True)
def _skips(leads, columns):  # type: ignore[no-untyped-def]
    """The next member after each that differs from it on the first axes: one, two, three …"""
    many = leads.shape[0] - 1
    skips = np.empty((many, columns), np.int32)
    for i in range(many - 1, -1, -1):
        for z in range(columns):
            skips[i, z] = i + 1 if leads[i + 1] <= z else skips[i + 1, z]
    return skips


@numba.njit(nogil=True, cache=True)
def _near_one(codes, members, leads, skips, losses, i, limit, near, price):  # type: ignore[no-untyped-def]
    """Fill the list of member number i, given its losses by position.

    Members that agree on their first axes lose the same there, and are passed over together when
    that is too much. At least as many as the list has room for lose less than the limit.
    """
    many, columns = codes.shape
    partial = np.zeros(columns + 1)
    found, wish = 0, near.shape[0]
    for begin_, end in ((i + 1, many), (0, i)):
        j, z = begin_, 0
        while j < end:
            loss = partial[z]
            while z < columns:
                loss += losses[codes[j, z]]
                if loss >= limit:
                    break
                z += 1
                partial[z] = loss
            if z < columns:
                j = skips[j, z]
            else:
                _insert(near, price, found, members[j], loss)
                found = min(found + 1, wish)
                if found == wish:
                    limit = price[wish - 1]
                j += 1
            z = leads[j]


@numba.njit(nogil=True, cache=True)
def _limit(codes, place, losses, member, other, near):  # type: ignore[no-untyped-def]
    """A loss below which there are enough members: what those near another one lose, and itself."""
    worst = 0.0
    for z in range(-1, near.shape[0]):
        friend = other if z < 0 else near[z]
        if friend < 0:
            return np.inf
        if friend != member:
            loss = 0.0
            for at in codes[place[friend]]:
                loss += losses[at]
            worst = max(worst, loss)
    return worst + LEAST


@numba.njit(nogil=True, cache=True)
def nearest_entries(table, order, starts, head, ints, floats, near):  # type: ignore[no-untyped-def]
    """For every entry those of its district with which it would lose least, -1 where too few.

    District d is ``order[starts[d]:starts[d + 1]]``.
    """
    columns, wish = table.shape[1], near.shape[1]
    memory = np.zeros((1, head[-1, END]), np.int64)
    price, place = np.empty(wish), np.empty(near.shape[0], np.int64)
    near[:] = -1
    for d in range(starts.shape[0] - 1):
        members = order[starts[d] : starts[d + 1]]
        many = members.shape[0]
        axes = _telling_axes(table, members, head, ints, floats, memory)
        codes, firsts, values = _number(table, members, axes)
        key = np.zeros(many)
        for z in range(columns):
            key = key * (firsts[z + 1] - firsts[z]) + (codes[:, z] - firsts[z])
        sequence = np.argsort(key, kind="mergesort")
        codes, members = codes[sequence], members[sequence]
        for i in range(many):
            place[members[i]] = i
        leads = _leads(codes)
        skips = _skips(leads, columns)
        losses = np.zeros(firsts[columns])
        for i in range(many):
            begin(head, ints, memory, 0, table, members[i])
            for z in range(columns):
                for at in range(firsts[z], firsts[z + 1]):
                    losses[at] = loss_with(head, ints, floats, memory, 0, axes[z], values[at])
            limit = np.inf
            if i > 0:
                other = members[i - 1]
                limit = _limit(codes, place, losses, members[i], other, near[other])
            _near_one(codes, members, leads, skips, losses, i, limit, near[members[i]], price)
