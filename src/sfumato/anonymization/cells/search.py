"""Local search: from any partition to one that costs no more, as long as time allows.

Each round moves rows to cheaper groups, dissolves groups whose rows all fit elsewhere, and walks
over patterns to open new groups: for each class of rows that could share one it asks whether that
pays. Rows that would pay less come in, as far as the groups they leave keep k rows, vanish, or
can be dissolved; if fewer than k come, groups with more than k rows fill it up. When nothing helps
any more, a round may open groups that cost a little, to get out of the dead end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.bounds import EVER, Dual, opt_lb, repaired
from sfumato.anonymization.cells.candidates import Patterns
from sfumato.anonymization.cells.paper import guided
from sfumato.anonymization.cells.table import (
    CellTable,
    Partition,
    bits_for,
    fits,
    groups_of,
    join,
    key_of,
    mark_of,
    move_keys,
    new_group,
    new_marks,
    new_slots,
    refresh,
    rest_holds,
    slot_of,
    sort_classes,
    total,
    unite,
)
from sfumato.budget import Budget
from sfumato.kernels.compiling import compiled
from sfumato.kernels.ranking import largest_first
from sfumato.privacy.rules import forget, holds, take_in

IMPROVEMENTS = ("none", "local", "milp")

_AT_ONCE = 64
_ROUNDS = 30
"""Rounds until a dead end, at most."""
_DEAD_ENDS = 2
"""How often to go on after a dead end: in one round new groups may then cost up to k/2 stars more
than they save."""

FEW_ROUNDS = 12
"""A search seldom makes more rounds until it ends by itself."""

_MOST_WORK = 20_000_000_000
"""Cells looked at by one search without a time budget: on large tables it has fewer rounds."""


def improved(
    table: CellTable,
    patterns: Patterns,
    first: Partition,
    how: str,
    seed: int,
    budget: Budget,
    dual: Dual | None = None,
    least: npt.NDArray[np.int64] | None = None,
) -> Partition:
    """A partition that costs no more, by one of `IMPROVEMENTS`.

    Parameters
    ----------
    dual
        Where the linear program's ascent ended, if it was made: the search then begins where it
        points to.
    least
        What `opt_lb` gives, if it is known.
    """
    if how == "none":
        return first
    begin = first if dual is None else guided(table, patterns, dual)
    better = local_search(table, patterns, begin, budget, seed=seed, least=least)
    found = min(first, better, key=lambda known: known.units(table))
    if how == "milp" and not len(table.rules.kinds):
        pool = None if dual is None else dual.candidates.take(np.flatnonzero(dual.opened >= EVER))
        return repaired(table, found, seed, budget, pool=pool)
    return found


def rounds_of(table: CellTable, patterns: Patterns, budget: Budget) -> int:
    """Rounds that a search may have: as many as time allows, else by the size of the table."""
    if budget.seconds is not None:
        return 1 << 30
    return max(1, _MOST_WORK // max(1, patterns.work(table)))


def local_search(
    table: CellTable,
    patterns: Patterns,
    first: Partition,
    budget: Budget | None = None,
    *,
    seed: int = 0,
    least: npt.NDArray[np.int64] | None = None,
) -> Partition:
    """Improve until nothing helps any more, then from dead end to dead end, or until time is up.

    Parameters
    ----------
    least
        What `opt_lb` gives, if it is known.
    """
    budget = budget or Budget()
    groups, moving = groups_of(table, first)
    floor = opt_lb(table, patterns, budget) if least is None else least
    descent = _Descent(table, patterns, groups, moving, floor, budget)
    descent.to_dead_end()
    best, cost = groups.group.copy(), total(groups)
    heat = int(table.k / 2 * np.maximum(table.prices, 0).sum() / max(1, len(table.free)))
    for turn in range(_DEAD_ENDS):
        budget.progress("improving", (turn + 1) / (_DEAD_ENDS + 1))
        if descent.exhausted() or cost == 0:
            break
        descent.round(heat, seed + turn)
        descent.to_dead_end()
        if total(groups) < cost:
            best, cost = groups.group.copy(), total(groups)
    return Partition(groups.entry, groups.weight, best).tidy()


class _Descent:
    """The moving parts of one search."""

    def __init__(
        self,
        table: CellTable,
        patterns: Patterns,
        groups: Any,
        moving: int,
        floor: npt.NDArray[np.int64],
        budget: Budget,
    ) -> None:
        self.table, self.patterns, self.groups, self.budget = table, patterns, groups, budget
        self.first = np.searchsorted(groups.entry[:moving], np.arange(table.entries + 1))
        self.keys = table.new_keys()
        self.floor = floor
        self.elsewhere = np.full(len(groups.entry), -1, dtype=np.int64)
        self.rounds = rounds_of(table, patterns, budget)

    def to_dead_end(self) -> None:
        """Rounds until one saves next to nothing."""
        for _ in range(_ROUNDS):
            if self.exhausted():
                break
            if self.round(0, 0) <= 2e-4 * total(self.groups):
                break

    def exhausted(self) -> bool:
        """Whether time or the rounds that a table of this size gets are used up."""
        return self.rounds <= 0 or self.budget.spent()

    def round(self, heat: int, seed: int) -> int:
        """Reinsert and dissolve, then open groups of every pattern; gives what was saved."""
        table, groups = self.table, self.groups
        self.rounds -= 1
        saved = int(refresh(table.codes, table.prices, groups))
        _find_elsewhere(table.codes, groups, _ranked(groups), table.multipliers, self.elsewhere)
        facts = (table.codes, table.sensitive, table.rules, groups, self.elsewhere)
        saved += int(_reinsert(*facts))
        for at in range(0, len(self.patterns), _AT_ONCE):
            if self.budget.spent():
                break
            upto = slice(at, at + _AT_ONCE)
            saved += _open_groups(
                *facts, self.keys, self.floor, self.first, self.patterns.kept[upto],
                self.patterns.prices[upto], heat, seed + at,
            )  # fmt: skip
        return saved


def _ranked(groups: Any) -> Any:
    live = np.flatnonzero(groups.head >= 0)
    return live[np.lexsort((live, groups.kept[live], groups.cost[live]))]


_MOST_DONORS = 4096

# Knuth's linear congruential generator: enough to break ties, the same everywhere.
_FACTOR, _SUMMAND = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


@compiled(direct=True)
def _open_groups(  # type: ignore[no-untyped-def]
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


@compiled
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


@compiled
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


@compiled
def _fill(groups, price, members, taken, leaving, selected, count, k):  # type: ignore[no-untyped-def]
    """Add the cheapest donors until there are k; gives what they lose, a lot if there are none."""
    donors = np.empty(min(members.shape[0], _MOST_DONORS), np.int64)
    offers = 0
    for u in members:
        q = groups.group[u]
        if offers < donors.shape[0] and groups.cost[q] <= price and taken[q] == 0:
            donors[offers] = u
            offers += 1
    costs = np.empty(offers, np.int64)
    for i in range(offers):
        costs[i] = groups.cost[groups.group[donors[i]]]
    ranked = largest_first(costs)
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


@compiled
def _all_hold(groups, sensitive, rules, selected, count, leaving, tally):  # type: ignore[no-untyped-def]
    """Whether the new group and those it takes from satisfy all rules."""
    for i in range(count):
        take_in(groups.entry[selected[i]], 1, sensitive, rules, tally)
    good = holds(count, tally, rules)
    for i in range(count):
        forget(groups.entry[selected[i]], sensitive, rules, tally)
    for i in range(count):
        if not good:
            break
        q = groups.group[selected[i]]
        if i and q == groups.group[selected[i - 1]]:
            continue
        good = _gone(groups, q, leaving) or rest_holds(groups, q, leaving, sensitive, rules, tally)
    return good


@compiled
def _gone(groups, q, leaving):  # type: ignore[no-untyped-def]
    unit = groups.head[q]
    while unit >= 0:
        if not leaving[unit]:
            return False
        unit = groups.after[unit]
    return True


@compiled(direct=True)
def _find_elsewhere(codes, groups, ranked, multipliers, elsewhere):  # type: ignore[no-untyped-def]
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


# Joining a group costs its new rows only what they now pay, since they show what it shows. Under
# rules beyond k a move is made, looked at, and taken back where a group no longer satisfies them.

_MOST_COUNTED = 4096
"""Rows of a group up to which its sensitive values are counted for a single move."""


@compiled(direct=True)
def _reinsert(codes, sensitive, rules, groups, elsewhere):  # type: ignore[no-untyped-def]
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


@compiled
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


@compiled
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


@compiled
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
