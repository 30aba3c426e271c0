"""Compiled walk down a lattice of levels: group what is alike at a node, keep what holds."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.privacy._kernels import holds

__all__ = ["descend"]


@numba.njit(nogil=True, cache=True)
def _classes(keys, many, slots, number):  # type: ignore[no-untyped-def]
    """Number equal keys alike, in order of appearance; returns how many there are."""
    mask = slots.shape[0] - 1
    slots[:] = -1
    found = 0
    for i in range(many):
        at = np.int64(keys[i] >> np.uint64(20)) & mask
        while slots[at] >= 0 and keys[slots[at]] != keys[i]:
            at = (at + 1) & mask
        if slots[at] < 0:
            slots[at] = i
            number[i] = found
            found += 1
        else:
            number[i] = number[slots[at]]
    return found


@numba.njit(nogil=True, cache=True)
def descend(  # type: ignore[no-untyped-def]
    table,
    weights,
    sensitive,
    order,
    base,
    nodes,
    limits,
    level_starts,
    marks,
    prices,
    rules,
    groups,
    group,
):
    """Visit lattice nodes in turn; groups of yet uncovered entries that hold are taken.

    The first has the number `group`; returns that of the next.

    `nodes` are rows of levels; `marks[level_starts[axis, level] + position]` is a random number
    shared by the positions that look alike on that level, `base` one for what never may share a
    group. Entries are alike where the sums agree; should two sums agree by chance, a group is
    larger than it needs to be, and nothing else. `prices` are laid out like `marks`; at a node only
    classes that lose no more than its limit are taken.
    """
    uncovered = order.copy()
    many, columns = uncovered.shape[0], table.shape[1]
    keys = np.empty(many, np.uint64)
    number = np.empty(many, np.int64)
    bits = 4
    while (1 << bits) < 2 * many:
        bits += 1
    slots = np.empty(1 << bits, np.int64)
    sizes = np.empty(many, np.int64)
    name = np.empty(many, np.int64)
    counts = np.zeros(rules.offsets[-1], np.int64)
    left = np.int64(0)
    for i in range(many):
        left += weights[uncovered[i]]
    price = np.empty(many)
    for node in range(nodes.shape[0]):
        if left < rules.k:
            break
        for i in range(many):
            entry = uncovered[i]
            key = base[entry]
            for axis in range(columns):
                key += marks[level_starts[axis, nodes[node, axis]] + table[entry, axis]]
            keys[i] = key * np.uint64(0x9E3779B97F4A7C15)
        while (1 << (bits - 1)) >= 2 * many and bits > 4:
            bits -= 1
        found = _classes(keys, many, slots[: 1 << bits], number)
        sizes[:found] = 0
        for i in range(many):
            c, entry = number[i], uncovered[i]
            if sizes[c] == 0:
                price[c] = 0.0
                for axis in range(columns):
                    price[c] += prices[level_starts[axis, nodes[node, axis]] + table[entry, axis]]
            sizes[c] += weights[entry]
        some = False
        for c in range(found):
            name[c] = -1
            if sizes[c] >= rules.k and price[c] <= limits[node]:
                name[c] = 0
                some = True
        if not some:
            continue
        if rules.kinds.shape[0]:
            sequence = np.argsort(number[:many], kind="mergesort")
            at = 0
            while at < many:
                c, first = number[sequence[at]], at
                while at < many and number[sequence[at]] == c:
                    at += 1
                if name[c] < 0:
                    continue
                counts[:] = 0
                for z in range(first, at):
                    entry = uncovered[sequence[z]]
                    for s in range(sensitive.shape[1]):
                        counts[sensitive[entry, s]] += weights[entry]
                if not holds(sizes[c], counts, rules):
                    name[c] = -1
        for c in range(found):
            if name[c] >= 0:
                name[c] = group
                left -= sizes[c]
                group += 1
        kept = 0
        for i in range(many):
            entry = uncovered[i]
            if name[number[i]] >= 0:
                groups[entry] = name[number[i]]
            else:
                uncovered[kept] = entry
                kept += 1
        many = kept
    return group
