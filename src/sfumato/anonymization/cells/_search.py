"""Compiled local search: open cheaper groups, unite equal ones.

`open_groups` walks over patterns. For each class of rows that could share a group it asks whether
opening that group pays: rows that would pay less come in, as far as the groups they leave keep k
rows, vanish, or can be dissolved into other groups; if fewer than k come, rows of groups with
more than k rows fill it up.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymization.cells._classes import (
    bits_for,
    key_of,
    mark_of,
    move_keys,
    new_marks,
    new_slots,
    slot_of,
    sort_classes,
)
from sfumato.anonymization.cells._groups import fits, join, new_group, rest_holds, unite
from sfumato.privacy._kernels import holds

__all__ = ["find_elsewhere", "open_groups"]

_MOST_DONORS = 4096

# Knuth's linear congruential generator: enough to break ties, the same everywhere.
_FACTOR, _SUMMAND = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


@numba.njit(nogil=True, cache=True)
def open_groups(  # type: ignore[no-untyped-def]
    codes, sensitive, rules, groups, elsewhere, keys_of, floor, first, kept, prices, heat, seed
):
    """One walk over the patterns; gives what was saved.

    `elsewhere` names for each unit another group it fits, or -1. `keys_of` says what entries show
    (see `move_keys`). `floor` is the least a row of each entry can pay at all: below it no class
    has k rows, so units that pay no more have nothing to gain. Units that may move come first and
    by entry; those of entry e are first[e] to first[e + 1]. With some `heat`, groups are opened
    that cost up to that much more, to get out of a dead end.
    """
    entries, n, state = codes.shape[0], first[-1], np.uint64(2 * seed + 1)
    gainers, most = np.empty(n, np.int64), 0
    for u in range(n):
        if groups.cost[groups.group[u]] > floor[groups.entry[u]]:
            gainers[most] = u
            most += 1
    keys, stamps, found = new_slots(most)
    marks = new_marks(most)
    chosen, numbers = np.empty(n, np.int64), np.empty(n, np.int32)
    starts, order = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    members = np.empty(n, np.int64)
    taken = np.zeros(groups.head.shape[0], np.int64)
    leaving = np.zeros(groups.group.shape[0], np.bool_)
    tally = np.zeros(rules.offsets[-1], np.int64)
    saved = np.int64(0)
    for p in range(kept.shape[0]):
        price, listed, classes = prices[p], 0, 0
        for i in range(most):
            u = gainers[i]
            if groups.cost[groups.group[u]] > price and floor[groups.entry[u]] <= price:
                chosen[listed] = u
                listed += 1
        if listed == 0:
            continue
        move_keys(keys_of, kept[p])
        shown, bits = keys_of.keys, bits_for(listed)
        for i in range(listed):
            key = shown[groups.entry[chosen[i]]]
            at = slot_of(key, bits, p, keys, stamps)
            if stamps[at] != p:
                stamps[at], keys[at], found[at] = p, key, classes
                classes += 1
                marks[mark_of(key, bits)] = True
            numbers[i] = found[at]
        gaining = listed
        for e in range(entries):
            if marks[mark_of(shown[e], bits)]:
                at = slot_of(shown[e], bits, p, keys, stamps)
                if stamps[at] == p:
                    for u in range(first[e], first[e + 1]):
                        q = groups.group[u]
                        if groups.cost[q] <= price and groups.size[q] > rules.k:
                            chosen[listed], numbers[listed] = u, found[at]
                            listed += 1
        for i in range(gaining):
            marks[mark_of(shown[groups.entry[chosen[i]]], bits)] = False
        sort_classes(numbers, listed, classes, starts, order)
        for i in range(listed):
            members[i] = chosen[order[i]]
        for c in range(classes):
            if starts[c + 1] - starts[c] >= rules.k:
                state = state * _FACTOR + _SUMMAND
                loss = np.int64(state >> np.uint64(33)) * heat >> 31
                saved += _open(
                    codes, sensitive, rules, groups, elsewhere, kept[p], price,
                    members[starts[c] : starts[c + 1]], taken, leaving, tally, loss,
                )  # fmt: skip
    return saved


@numba.njit(nogil=True, cache=True)
def _open(  # type: ignore[no-untyped-def]
    codes, sensitive, rules, groups, elsewhere, kept, price, members, taken, leaving, tally, loss
):
    """Open a group for some of the members if that pays, or costs `loss` at most; gives savings."""
    k, ruled = rules.k, rules.kinds.shape[0] > 0
    touched = np.empty(members.shape[0], np.int64)
    touches = 0
    for u in members:
        q = groups.group[u]
        if groups.cost[q] > price:
            if taken[q] == 0:
                touched[touches] = q
                touches += 1
            taken[q] += 1
            leaving[u] = True
    # How many of the rows that would pay less may leave each group: all, what it has above k, or
    # all because the rest finds other groups (dissolve).
    quota = np.zeros(touches, np.int64)
    dissolve = np.zeros(touches, np.bool_)
    coming, gain = 0, np.int64(0)
    for t in range(touches):
        q = touched[t]
        quota[t] = taken[q]
        if taken[q] < groups.size[q] and groups.size[q] - taken[q] < k:
            quota[t] = max(0, groups.size[q] - k)
        coming += quota[t]
        gain += quota[t] * (groups.cost[q] - price)
    if not ruled:
        for t in range(touches):
            q = touched[t]
            if quota[t] < taken[q]:
                more = _worth_dissolving(codes, groups, elsewhere, price, q, taken, leaving)
                more -= quota[t] * (groups.cost[q] - price)
                if more > 0 or (coming < k and gain + more > -loss):
                    dissolve[t] = True
                    coming += taken[q] - quota[t]
                    gain += more
                    quota[t] = taken[q]
    selected = np.empty(max(coming, k), np.int64)
    count = 0
    for t in range(touches):
        taken[touched[t]] = quota[t]
    if gain > -loss:
        for u in members:
            q = groups.group[u]
            if groups.cost[q] > price:
                if taken[q] > 0:
                    taken[q] -= 1
                    selected[count] = u
                    count += 1
                else:
                    leaving[u] = False
    if 0 < count < k:
        gain -= _fill(groups, price, members, taken, leaving, selected, count, k)
        for u in members:
            taken[groups.group[u]] = 0
        count = k if gain > -loss else 0
    good = count >= k and gain > -loss
    if good and ruled:
        good = _all_hold(groups, sensitive, rules, selected, count, leaving, tally)
    for u in members:
        leaving[u] = False
        taken[groups.group[u]] = 0
    if not good:
        return np.int64(0)
    fresh = new_group(groups, kept, price)
    for i in range(count):
        join(groups, selected[i], fresh)
    for t in range(touches):
        if dissolve[t]:
            unit = groups.head[touched[t]]
            while unit >= 0:
                following = groups.after[unit]
                join(groups, unit, elsewhere[unit])
                unit = following
    return gain


@numba.njit(nogil=True, cache=True)
def _worth_dissolving(codes, groups, elsewhere, price, q, taken, leaving):  # type: ignore[no-untyped-def]
    """What is gained if the marked rows of q leave and the others go elsewhere; or a loss."""
    worth = taken[q] * (groups.cost[q] - price)
    unit = groups.head[q]
    while unit >= 0:
        if not leaving[unit]:
            other = elsewhere[unit]
            if other < 0 or other == q or taken[other] or not fits(codes, groups, unit, other):
                return -(np.int64(1) << 60)
            worth += (groups.cost[q] - groups.cost[other]) * groups.weight[unit]
        unit = groups.after[unit]
    return worth


@numba.njit(nogil=True, cache=True)
def _fill(groups, price, members, taken, leaving, selected, count, k):  # type: ignore[no-untyped-def]
    """Add the cheapest donors until there are k; gives what they lose, a lot if there are none."""
    donors = np.empty(min(members.shape[0], _MOST_DONORS), np.int64)
    offers = 0
    for u in members:
        q = groups.group[u]
        if offers < donors.shape[0] and groups.cost[q] <= price and taken[q] == 0:
            donors[offers] = u
            offers += 1
    ranked = np.argsort(-groups.cost[groups.group[donors[:offers]]], kind="mergesort")
    loss = np.int64(0)
    for at in ranked:
        u = donors[at]
        q = groups.group[u]
        if groups.size[q] - taken[q] > k:
            taken[q] += 1
            loss += price - groups.cost[q]
            selected[count] = u
            leaving[u] = True
            count += 1
            if count == k:
                return loss
    return np.int64(1) << 60


@numba.njit(nogil=True, cache=True)
def _all_hold(groups, sensitive, rules, selected, count, leaving, tally):  # type: ignore[no-untyped-def]
    """Whether the new group and those it takes from satisfy all rules."""
    for i in range(count):
        for s in range(sensitive.shape[1]):
            tally[sensitive[groups.entry[selected[i]], s]] += 1
    good = holds(count, tally, rules)
    for i in range(count):
        for s in range(sensitive.shape[1]):
            tally[sensitive[groups.entry[selected[i]], s]] = 0
    for i in range(count):
        if not good:
            break
        q = groups.group[selected[i]]
        if i and q == groups.group[selected[i - 1]]:
            continue
        good = _gone(groups, q, leaving) or rest_holds(groups, q, leaving, sensitive, rules, tally)
    return good


@numba.njit(nogil=True, cache=True)
def _gone(groups, q, leaving):  # type: ignore[no-untyped-def]
    unit = groups.head[q]
    while unit >= 0:
        if not leaving[unit]:
            return False
        unit = groups.after[unit]
    return True


@numba.njit(nogil=True, cache=True)
def find_elsewhere(codes, groups, ranked, multipliers, elsewhere):  # type: ignore[no-untyped-def]
    """For each unit the cheapest other group it fits, or -1.

    `ranked` are the groups by price and pattern. Groups that show the same are united on the way:
    that costs nothing and leaves more rows above k.
    """
    slots = new_slots(ranked.shape[0])
    keys, stamps, found = slots
    bits = bits_for(ranked.shape[0])
    elsewhere[:] = -1
    at = 0
    while at < ranked.shape[0]:
        kept, begin = groups.kept[ranked[at]], at
        while at < ranked.shape[0] and groups.kept[ranked[at]] == kept:
            q = ranked[at]
            key = key_of(codes, groups.entry[groups.head[q]], kept, multipliers)
            slot = slot_of(key, bits, begin, keys, stamps)
            if stamps[slot] == begin:
                unite(groups, q, found[slot])
            else:
                stamps[slot], keys[slot], found[slot] = begin, key, q
            at += 1
        for u in range(elsewhere.shape[0]):
            own = groups.group[u]
            if elsewhere[u] >= 0 or groups.cost[own] == 0:
                continue
            key = key_of(codes, groups.entry[u], kept, multipliers)
            slot = slot_of(key, bits, begin, keys, stamps)
            if stamps[slot] == begin and found[slot] != own:
                elsewhere[u] = found[slot]
