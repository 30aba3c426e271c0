"""Local search: from any partition to one that costs no more, as long as time allows.

Each round opens groups that pay (splitting groups, taking part of them, uniting whole ones),
reinserts rows where they are cheaper, and dissolves groups whose rows all fit elsewhere. When
nothing helps any more, parts of the solution are torn down and covered anew in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.anonymize.cells.partition import Partition
from sfumato.anonymize.cells.patterns import Patterns
from sfumato.anonymize.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["IMPROVEMENTS", "improved", "local_search"]

IMPROVEMENTS = ("none", "local")

_AT_ONCE = 64


def improved(
    table: CellTable, patterns: Patterns, first: Partition, how: str, seed: int, budget: Budget
) -> Partition:
    """A partition that costs no more."""
    if how == "none":
        return first
    return local_search(table, patterns, first, budget)


def local_search(
    table: CellTable,
    patterns: Patterns,
    first: Partition,
    budget: Budget | None = None,
    rounds: int = 30,
) -> Partition:
    """Improve until nothing helps, the budget ends, or after so many rounds."""
    from sfumato.anonymize.cells import _groups, _search

    budget = budget or Budget()
    groups = _groups_of(table, first)
    units = np.flatnonzero(groups.weight == 1)
    elsewhere = np.full(len(groups.entry), -1, dtype=np.int64)
    least = int(0.0002 * _groups.total(groups))
    ruled = len(table.rules.kinds) > 0
    for turn in range(rounds):
        budget.progress("improving", turn / rounds)
        if budget.spent():
            break
        saved = _groups.refresh(table.codes, table.prices, groups)
        united = np.zeros(1, dtype=np.int64)
        _search.find_elsewhere(
            table.codes, groups, _ranked(groups), table.multipliers, elsewhere, united
        )
        if not ruled:
            saved += _search.reinsert(table.codes, table.k, groups, elsewhere)
        for at in range(0, len(patterns), _AT_ONCE):
            if budget.spent():
                break
            upto = slice(at, at + _AT_ONCE)
            saved += _search.open_groups(
                table.codes, table.sensitive, table.rules, groups, elsewhere,
                patterns.kept[upto], patterns.prices[upto], table.multipliers, units,
            )  # fmt: skip
        if saved <= least:
            break
    return Partition(groups.entry, groups.weight, groups.group).tidy()


def _ranked(groups: Any) -> Any:
    live = np.flatnonzero(groups.head >= 0)
    return live[np.lexsort((live, groups.kept[live], groups.cost[live]))]


def _groups_of(table: CellTable, partition: Partition) -> Any:
    """The partition as groups of units; rows beyond need of a large combination stay together."""
    from sfumato.anonymize.cells import _groups

    starred = partition.starred(table)
    cost = starred.astype(np.int64) @ np.maximum(table.prices, 0)
    bits = np.left_shift(np.int64(1), np.arange(table.width, dtype=np.int64))
    kept = (~starred).astype(np.int64) @ bits
    frozen = (partition.rows >= 2 * table.k) & (cost[partition.group] == 0)
    core = np.where(frozen, partition.rows - table.k, 0)
    single = partition.rows - core
    has_core = np.flatnonzero(core)
    entry = np.concatenate([np.repeat(partition.entry, single), partition.entry[has_core]])
    group = np.concatenate([np.repeat(partition.group, single), partition.group[has_core]])
    weight = np.ones(len(entry), dtype=np.int64)
    weight[len(entry) - len(has_core) :] = core[has_core]
    room = max(partition.groups, table.rows // table.k) + 4
    spare = np.zeros(room + 1, dtype=np.int64)
    unused = np.arange(room - 1, partition.groups - 1, -1)
    spare[: len(unused)], spare[-1] = unused, len(unused)
    groups = _groups.Groups(
        entry=entry,
        weight=weight,
        group=np.full(len(entry), -1, dtype=np.int64),
        after=np.full(len(entry), -1, dtype=np.int64),
        before=np.full(len(entry), -1, dtype=np.int64),
        head=np.full(room, -1, dtype=np.int64),
        size=np.zeros(room, dtype=np.int64),
        cost=np.zeros(room, dtype=np.int64),
        kept=np.zeros(room, dtype=np.int64),
        spare=spare,
    )
    groups.cost[: partition.groups], groups.kept[: partition.groups] = cost, kept
    _groups.place(groups, group)
    return groups
