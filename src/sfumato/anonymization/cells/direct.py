"""APPROX-DR and OPT-LB (Park & Shim, section 4.5), without mining.

DR takes candidates by increasing price and keeps the still uncovered rows of each that has enough
of them. OPT-LB lets every row pay the price of the cheapest candidate that contains it, which no
solution can undercut (Lemma 4.16).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns, patterns_of
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["approx_dr", "complete", "opt_lb", "possible_entries"]

_AT_ONCE = 64


def possible_entries(table: CellTable) -> npt.NDArray[np.bool_]:
    """Entries that can be in a group at all: those of equal protected columns satisfy all rules."""
    from sfumato.anonymization._rules import groups_hold

    fixed = np.flatnonzero(table.prices < 0)
    arrays = tuple(table.codes[:, c].astype(np.uint32) for c in fixed)
    sizes = tuple(int(table.cardinalities[c]) for c in fixed)
    blocks, count = kernels.class_ids(arrays, sizes, entries=table.entries)
    blocks = blocks.astype(np.int64)
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
    from sfumato.anonymization.cells._direct import take_classes

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
        groups = _take(take_classes, table, patterns.kept[upto], group, groups)
    group[group < 0] = -1
    groups = _take(take_classes, table, patterns.kept[-1:], group, groups)
    return complete(table, group, groups)


def _take(take: Any, table: CellTable, kept: Any, group: Any, groups: int) -> int:
    facts = (table.codes, table.counts, table.sensitive, table.rules)
    return int(take(*facts, kept, table.multipliers, group, groups))


def complete(table: CellTable, group: Any, groups: int) -> Partition:
    """Put the rows that no candidate took into groups; leave out those that fit none.

    Joining a group keeps every rule that only asks for company. Where a rule does not survive it,
    the groups of a block are joined until it holds again.
    """
    from sfumato.anonymization.cells._direct import attach

    left = np.flatnonzero(group < 0)
    if len(left):
        possible = possible_entries(table)
        attach(table.codes, table.counts, table.prices, group, groups, left[possible[left]])
        if len(table.rules.kinds):
            _join_broken(table, group, groups)
    return Partition.of_entries(table, group)


def _join_broken(table: CellTable, group: Any, groups: int) -> None:
    """Join groups that a leftover row broke with others of their block, all of it if need be."""
    from sfumato.anonymization._rules import groups_hold

    fixed = np.flatnonzero(table.prices < 0)
    arrays = tuple(table.codes[:, c].astype(np.uint32) for c in fixed)
    sizes = tuple(int(table.cardinalities[c]) for c in fixed)
    blocks, _ = kernels.class_ids(arrays, sizes, entries=table.entries)
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
    from sfumato.anonymization.cells._direct import cheapest_prices

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
        if not cheapest_prices(keys, *facts, price, most):
            break
    return price if patterns.floor is None else np.maximum(price, patterns.floor)
