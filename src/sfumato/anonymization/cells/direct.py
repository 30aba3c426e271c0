"""APPROX-DR and OPT-LB (Park & Shim, section 4.5), without mining, and a start by the program.

DR takes candidates by increasing price and keeps the still uncovered rows of each that has enough
of them. OPT-LB lets every row pay the price of the cheapest candidate that contains it, which no
solution can undercut (Lemma 4.16). Neither needs closed itemsets: a set of items that is not closed
has the same rows as a larger one, which was visited before at a lower price.

The ascent to the lower bound opens candidates again and again where rows are worth more than they
cost. Those open in a good share of its last steps are about those a fractional optimum opens, so
`guided` covers by them first, cheapest first, and by what APPROX-DR would take then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.bounds import Dual
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns, patterns_of
from sfumato.anonymization.cells.table import (
    CellTable,
    bits_for,
    mark_of,
    move_keys,
    new_marks,
    new_slots,
    number_classes,
    slot_of,
    sort_classes,
)
from sfumato.budget import Budget
from sfumato.kernels.compiling import compiled
from sfumato.privacy._kernels import forget, groups_hold, holds, take_in

__all__ = ["approx_dr", "guided", "opt_lb", "possible_entries"]

_AT_ONCE = 64

_OFTEN = 0.1
"""Share of the last steps in which a candidate must have been open."""


def possible_entries(table: CellTable) -> npt.NDArray[np.bool_]:
    """Entries that can be in a group at all: those of equal protected columns satisfy all rules."""
    blocks, count = table.blocks()
    good = groups_hold(blocks, count, table.counts, table.sensitive, table.rules)
    return np.asarray(good[blocks])


def approx_dr(
    table: CellTable, patterns: Patterns | None = None, budget: Budget | None = None
) -> Partition:
    """Candidates by increasing price; each takes its uncovered rows if they are enough.

    When the budget ends, the rows not reached yet are starred in every column that may be.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> approx_dr(table).cost(table)
    4.0
    """
    patterns = patterns_of(table) if patterns is None else patterns
    budget = budget or Budget()
    group = np.full(table.entries, -1, dtype=np.int64)
    groups = 0
    for at in range(0, len(patterns), _AT_ONCE):
        budget.progress("covering rows", at / len(patterns))
        if budget.spent() or (group >= 0).all():
            break
        upto = slice(at, at + _AT_ONCE)
        if patterns.floor is not None:
            # Rows that must pay more than these patterns cost are set aside.
            group[group < 0] = -1
            group[(group < 0) & (patterns.floor > patterns.prices[upto][-1])] = -2
        groups = _take(table, patterns.kept[upto], group, groups)
    group[group < 0] = -1
    groups = _take(table, patterns.kept[-1:], group, groups)
    return _complete(table, group, groups)


def _take(table: CellTable, kept: Any, group: Any, groups: int) -> int:
    facts = (table.codes, table.counts, table.sensitive, table.rules)
    return int(_take_classes(*facts, kept, table.multipliers, group, groups))


def _complete(table: CellTable, group: Any, groups: int) -> Partition:
    """Put the rows that no candidate took into groups; leave out those that fit none.

    Joining a group keeps every rule that only asks for company. Where a rule does not survive it,
    the groups of a block are joined until it holds again.
    """
    left = np.flatnonzero(group < 0)
    if len(left):
        possible = possible_entries(table)
        _attach(table.codes, table.counts, table.prices, group, groups, left[possible[left]])
        if len(table.rules.kinds):
            _join_broken(table, group, groups)
    return Partition.of_entries(table, group)


def _join_broken(table: CellTable, group: Any, groups: int) -> None:
    """Join groups that a leftover row broke with others of their block, all of it if need be."""
    blocks, _ = table.blocks()
    good = groups_hold(group, groups, table.counts, table.sensitive, table.rules)
    for broken in np.unique(group[(group >= 0) & ~good[group]]):
        mine = np.flatnonzero(group == broken)
        block = np.flatnonzero((blocks == blocks[mine[:1]]) & (group >= 0)) if len(mine) else mine
        for other in np.unique(group[block]):
            one = np.zeros(len(mine), dtype=np.int64)
            if groups_hold(one, 1, table.counts[mine], table.sensitive[mine], table.rules)[0]:
                break
            group[group == other] = broken
            mine = np.flatnonzero(group == broken)


def opt_lb(
    table: CellTable, patterns: Patterns | None = None, budget: Budget | None = None
) -> npt.NDArray[np.int64]:
    """The least any solution pays for one row of each entry, in units.

    Where patterns were left out or time was, rows without a candidate pay what the cheapest
    pattern not looked at costs, so the sum is a lower bound whatever happened.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> int(opt_lb(table) @ table.counts) // 1000
    4
    """
    patterns = patterns_of(table) if patterns is None else patterns
    budget = budget or Budget()
    most = patterns.certain_below
    price = np.full(table.entries, most, dtype=np.int64)
    useful = int(np.searchsorted(patterns.prices, most))
    keys = table.new_keys()
    for at in range(0, useful, _AT_ONCE):
        budget.progress("bounding from below", at / useful)
        if budget.spent():
            price[price == most] = min(most, int(patterns.prices[at]))
            break
        upto = slice(at, min(at + _AT_ONCE, useful))
        facts = (table.counts, table.k, patterns.kept[upto], patterns.prices[upto])
        if not _cheapest_prices(keys, *facts, price, most):
            break
    return price if patterns.floor is None else np.maximum(price, patterns.floor)


def guided(table: CellTable, patterns: Patterns, dual: Dual) -> Partition:
    """The partition that takes candidates which were open often, cheapest first.

    Examples
    --------
    >>> from sfumato.anonymization.cells.direct import opt_lb
    >>> from sfumato.anonymization.cells.bounds import dual_of
    >>> from sfumato.anonymization.cells.patterns import patterns_of
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> dual = dual_of(table, opt_lb(table), 8000)
    >>> guided(table, patterns_of(table), dual).cost(table)
    4.0
    """
    candidates = dual.candidates
    chosen = np.flatnonzero(dual.opened >= _OFTEN)
    order = chosen[np.lexsort((-dual.opened[chosen], candidates.prices[chosen]))]
    group = np.full(table.entries, -1, dtype=np.int64)
    facts = (table.counts, table.sensitive, table.rules)
    groups = _take_candidates(order, candidates.starts, candidates.members, *facts, group, 0)
    return _complete(table, group, _take(table, patterns.kept, group, int(groups)))


@compiled
def _class_holds(members, first, last, counts, sensitive, rules, tally):  # type: ignore[no-untyped-def]
    """Whether the entries members[first:last] together satisfy all rules; `tally` is all zero."""
    size = 0
    for z in range(first, last):
        size += counts[members[z]]
        take_in(members[z], counts[members[z]], sensitive, rules, tally)
    good = holds(size, tally, rules)
    for z in range(first, last):
        forget(members[z], sensitive, rules, tally)
    return good


@compiled
def _take_classes(  # type: ignore[no-untyped-def]
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
            if rules.kinds.shape[0] and not _class_holds(
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


@compiled
def _cheapest_prices(keys_of, counts, k, kept, prices, price, most):  # type: ignore[no-untyped-def]
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


@compiled
def _attach(codes, counts, prices, group, groups, left):  # type: ignore[no-untyped-def]
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


@compiled
def _take_candidates(order, starts, members, counts, sensitive, rules, group, groups):  # type: ignore[no-untyped-def]
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
        if rules.kinds.shape[0] and not _class_holds(
            left, 0, uncovered, counts, sensitive, rules, tally
        ):
            continue
        for z in range(uncovered):
            group[left[z]] = groups
        groups += 1
    return groups
