"""Local search: from any partition to one that costs no more, as long as time allows.

Each round opens groups that pay (splitting groups, taking part of them, uniting whole ones),
reinserts rows where they are cheaper, and dissolves groups whose rows all fit elsewhere. When
nothing helps any more, parts of the solution are torn down and covered anew in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.direct import opt_lb
from sfumato.anonymization.cells.dual import Dual
from sfumato.anonymization.cells.guided import guided
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.repair import repaired
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["FEW_ROUNDS", "IMPROVEMENTS", "improved", "local_search", "rounds_of"]

IMPROVEMENTS = ("none", "local", "milp")

_AT_ONCE = 64
_DEAD_ENDS = 2

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
        return repaired(table, found, seed, budget, dual=dual)
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
    dead_ends: int = _DEAD_ENDS,
    least: npt.NDArray[np.int64] | None = None,
) -> Partition:
    """Improve until nothing helps any more, then from dead end to dead end, or until time is up.

    Parameters
    ----------
    dead_ends
        How often to go on after a dead end: in one round new groups may then cost up to k/2 stars
        more than they save.
    least
        What `opt_lb` gives, if it is known.
    """
    from sfumato.anonymization.cells import _groups

    budget = budget or Budget()
    groups, moving = _groups_of(table, first)
    floor = opt_lb(table, patterns, budget) if least is None else least
    descent = _Descent(table, patterns, groups, moving, floor, budget)
    descent.to_dead_end()
    best, cost = groups.group.copy(), _groups.total(groups)
    heat = int(table.k / 2 * np.maximum(table.prices, 0).sum() / max(1, len(table.free)))
    for turn in range(dead_ends):
        budget.progress("improving", (turn + 1) / (dead_ends + 1))
        if descent.exhausted() or cost == 0:
            break
        descent.round(heat, seed + turn)
        descent.to_dead_end()
        if _groups.total(groups) < cost:
            best, cost = groups.group.copy(), _groups.total(groups)
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

    def to_dead_end(self, rounds: int = 30) -> None:
        """Rounds until one saves next to nothing."""
        from sfumato.anonymization.cells import _groups

        for _ in range(rounds):
            if self.exhausted():
                break
            if self.round(0, 0) <= 2e-4 * _groups.total(self.groups):
                break

    def exhausted(self) -> bool:
        """Whether time or the rounds that a table of this size gets are used up."""
        return self.rounds <= 0 or self.budget.spent()

    def round(self, heat: int, seed: int) -> int:
        """Reinsert and dissolve, then open groups of every pattern; gives what was saved."""
        from sfumato.anonymization.cells import _groups, _moving, _search

        table, groups = self.table, self.groups
        self.rounds -= 1
        saved = int(_groups.refresh(table.codes, table.prices, groups))
        _search.find_elsewhere(
            table.codes, groups, _ranked(groups), table.multipliers, self.elsewhere
        )
        facts = (table.codes, table.sensitive, table.rules, groups, self.elsewhere)
        saved += int(_moving.reinsert(*facts))
        for at in range(0, len(self.patterns), _AT_ONCE):
            if self.budget.spent():
                break
            upto = slice(at, at + _AT_ONCE)
            saved += _search.open_groups(
                *facts, self.keys, self.floor, self.first, self.patterns.kept[upto],
                self.patterns.prices[upto], heat, seed + at,
            )  # fmt: skip
        return saved


def _ranked(groups: Any) -> Any:
    live = np.flatnonzero(groups.head >= 0)
    return live[np.lexsort((live, groups.kept[live], groups.cost[live]))]


def _groups_of(table: CellTable, partition: Partition) -> tuple[Any, int]:
    """The partition as groups of units, those that may move first and by entry; and their number.

    Rows beyond need of a large combination stay together.
    """
    from sfumato.anonymization.cells import _groups

    partition = partition.tidy()
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
    return groups, len(entry) - len(has_core)
