"""Compiled loops of APPROX-DR and OPT-LB: visit patterns, count classes, take what is large enough.

Neither needs closed itemsets: a set of items that is not closed has the same rows as a larger one,
which was visited before at a lower price.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization.cells._classes import (
    bits_for,
    mark_of,
    move_keys,
    new_marks,
    new_slots,
    number_classes,
    slot_of,
    sort_classes,
)
from sfumato.privacy._kernels import holds

__all__ = ["attach", "cheapest_prices", "class_holds", "take_classes"]


@numba.njit(nogil=True, cache=True)
def class_holds(members, first, last, counts, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Whether the entries members[first:last] together satisfy all rules; `tally` is all zero."""
    size = 0
    for z in range(first, last):
        size += counts[members[z]]
        for s in range(sensitive.shape[1]):
            tally[sensitive[members[z], s]] += counts[members[z]]
    good = holds(size, tally, rules)
    for z in range(first, last):
        for s in range(sensitive.shape[1]):
            tally[sensitive[members[z], s]] = 0
    return good


@numba.njit(nogil=True, cache=True)
def take_classes(  # type: ignore[no-untyped-def]
    codes, counts, sensitive, rules, kept, multipliers, group, groups
):
    """APPROX-DR over some patterns in turn; fills `group` and gives the number of groups.

    A class of uncovered entries, those in group -1, becomes a group if it satisfies all rules.
    """
    n = codes.shape[0]
    open_ = np.empty(n, np.int64)
    left = 0
    for i in range(n):
        if group[i] == -1:
            open_[left] = i
            left += 1
    slots = new_slots(left)
    numbers = np.empty(left, np.int32)
    sizes = np.empty(left, np.int64)
    number_of = np.empty(left, np.int64)
    starts, order = np.empty(left + 1, np.int64), np.empty(left, np.int64)
    members = np.empty(left, np.int64)
    tally = np.zeros(rules.offsets[-1], np.int64)
    for p in range(kept.shape[0]):
        if left == 0:
            break
        classes = number_classes(codes, open_, left, kept[p], multipliers, p, slots, numbers)
        for c in range(classes):
            sizes[c] = 0
            number_of[c] = -1
        for i in range(left):
            sizes[numbers[i]] += counts[open_[i]]
        any_ = False
        for c in range(classes):
            if sizes[c] >= rules.k:
                any_ = True
        if not any_:
            continue
        if rules.kinds.shape[0]:
            sort_classes(numbers, left, classes, starts, order)
            for i in range(left):
                members[i] = open_[order[i]]
        for c in range(classes):
            if sizes[c] < rules.k:
                continue
            if rules.kinds.shape[0] and not class_holds(
                members, starts[c], starts[c + 1], counts, sensitive, rules, tally
            ):
                continue
            number_of[c] = groups
            groups += 1
        w = 0
        for i in range(left):
            taken = number_of[numbers[i]]
            if taken >= 0:
                group[open_[i]] = taken
            else:
                open_[w] = open_[i]
                w += 1
        left = w
    return groups


@numba.njit(nogil=True, cache=True)
def cheapest_prices(keys_of, counts, k, kept, prices, price, most):  # type: ignore[no-untyped-def]
    """OPT-LB over patterns in turn: `price` of an entry is the first with k rows that look alike.

    Entries without a price hold `most`; gives how many they are. Only they are put down by what
    they show; the others are added where they show the same.
    """
    n = counts.shape[0]
    open_, left = np.empty(n, np.int64), 0
    for i in range(n):
        if price[i] == most:
            open_[left] = i
            left += 1
    keys, stamps, found = new_slots(left)
    marks = new_marks(left)
    numbers, sizes = np.empty(left, np.int32), np.empty(left, np.int64)
    for p in range(kept.shape[0]):
        if left == 0 or prices[p] >= most:
            break
        move_keys(keys_of, kept[p])
        shown, bits, classes = keys_of.keys, bits_for(left), 0
        for z in range(left):
            key = shown[open_[z]]
            at = slot_of(key, bits, p, keys, stamps)
            if stamps[at] != p:
                stamps[at], keys[at], found[at] = p, key, classes
                sizes[classes] = 0
                classes += 1
                marks[mark_of(key, bits)] = True
            numbers[z] = found[at]
        for i in range(n):
            if marks[mark_of(shown[i], bits)]:
                at = slot_of(shown[i], bits, p, keys, stamps)
                if stamps[at] == p:
                    sizes[found[at]] += counts[i]
        w = 0
        for z in range(left):
            i = open_[z]
            marks[mark_of(shown[i], bits)] = False
            if sizes[numbers[z]] >= k:
                price[i] = prices[p]
            else:
                open_[w] = i
                w += 1
        left = w
    return left


@numba.njit(nogil=True, cache=True)
def attach(codes, counts, prices, group, groups, left):  # type: ignore[no-untyped-def]
    """Put each leftover entry into the group where the total grows least (never below k)."""
    n, m = codes.shape
    first = np.full(groups, -1, np.int64)
    starred = np.zeros((groups, m), np.bool_)
    size = np.zeros(groups, np.int64)
    for i in range(n):
        q = group[i]
        if q < 0:
            continue
        if first[q] < 0:
            first[q] = i
        for c in range(m):
            if codes[i, c] != codes[first[q], c]:
                starred[q, c] = True
        size[q] += counts[i]
    for i in left:
        best, least = -1, np.int64(1) << 62
        for q in range(groups):
            before, after = np.int64(0), np.int64(0)
            possible = True
            for c in range(m):
                if starred[q, c]:
                    before += prices[c]
                    after += prices[c]
                elif codes[i, c] != codes[first[q], c]:
                    if prices[c] < 0:
                        possible = False
                        break
                    after += prices[c]
            if not possible:
                continue
            more = (size[q] + counts[i]) * after - size[q] * before
            if more < least:
                least, best = more, q
        group[i] = best
        if best >= 0:
            size[best] += counts[i]
            for c in range(m):
                if codes[i, c] != codes[first[best], c]:
                    starred[best, c] = True
