"""Compiled search for the entries that are near each entry of a district."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymize._pricing import begin, loss_with
from sfumato.anonymize.pricing import END

__all__ = ["nearest_entries"]

SAMPLE = 64
"""Entries by which the axes of a district are judged."""


@numba.njit(nogil=True, cache=True)
def _telling_axes(table, members, head, ints, floats, memory):  # type: ignore[no-untyped-def]
    """The axes, first those on which strangers lose most together: most candidates fail there."""
    spread = np.zeros(table.shape[1])
    stride = max(1, members.shape[0] // SAMPLE)
    for i in range(0, members.shape[0], stride):
        begin(head, ints, memory, 0, table, members[i])
        for j in range(0, members.shape[0], stride):
            for axis in range(table.shape[1]):
                position = table[members[j], axis]
                spread[axis] += loss_with(head, ints, floats, memory, 0, axis, position)
    return np.argsort(-spread)


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
def nearest_entries(table, order, starts, head, ints, floats, near):  # type: ignore[no-untyped-def]
    """For every entry those of its district with which it would lose least, -1 where too few.

    District d is ``order[starts[d]:starts[d + 1]]``.
    """
    columns, wish = table.shape[1], near.shape[1]
    memory = np.zeros((1, head[-1, END]), np.int64)
    price = np.empty(wish)
    near[:] = -1
    for d in range(starts.shape[0] - 1):
        members = order[starts[d] : starts[d + 1]]
        many = members.shape[0]
        axes = _telling_axes(table, members, head, ints, floats, memory)
        codes, firsts, values = _number(table, members, axes)
        key = np.zeros(many)
        for z in range(columns):
            key = key * (firsts[z + 1] - firsts[z]) + (codes[:, z] - firsts[z])
        sequence = np.argsort(key)
        codes, members = codes[sequence], members[sequence]
        losses = np.zeros(firsts[columns])
        for i in range(many):
            begin(head, ints, memory, 0, table, members[i])
            for z in range(columns):
                for at in range(firsts[z], firsts[z + 1]):
                    losses[at] = loss_with(head, ints, floats, memory, 0, axes[z], values[at])
            found, limit = 0, np.inf
            # the members that agree on the first axes are side by side: a low limit is soon found
            for step in (1, -1):
                j = i + step
                while 0 <= j < many:
                    loss, z = losses[codes[j, 0]], 1
                    while z < columns and loss < limit:
                        loss += losses[codes[j, z]]
                        z += 1
                    if loss < limit:
                        _insert(near[members[i]], price, found, members[j], loss)
                        found = min(found + 1, wish)
                        if found == wish:
                            limit = price[wish - 1]
                    j += step
