"""Neighbourhoods solved exactly: some groups that are near each other, all their rows rearranged.

Rows are spread over candidates at the least cost by integer programming; if that costs less than
the groups did, they are replaced. A few hundred rows get all their closed candidates. Where the
linear program was climbed, some thousands get those that it opens, and the groups they have: few
enough for the same solver, and about those an optimum uses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.anonymization.cells.candidates import Candidates, closed_candidates
from sfumato.anonymization.cells.dual import Dual
from sfumato.anonymization.cells.exact import solve_assignment
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["repaired"]

_ROWS, _MANY_ROWS = 300, 2_500
_PLACES = 12_000
_SECONDS = 5.0

_EVER = 0.02
"""Share of the ascent's last steps in which a candidate must have been open."""


def repaired(
    table: CellTable,
    partition: Partition,
    seed: int = 0,
    budget: Budget | None = None,
    attempts: int = 20,
    dual: Dual | None = None,
) -> Partition:
    """The partition after so many neighbourhoods, or those that time allows, were solved."""
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    pool = None
    if dual is not None and table.rows > _ROWS:
        pool = dual.candidates.take(np.flatnonzero(dual.opened >= _EVER))
    for attempt in range(attempts):
        budget.progress("repairing neighbourhoods", attempt / attempts)
        dear = np.flatnonzero(partition.starred(table).any(axis=1))
        if budget.spent() or not len(dear):
            break
        rows = _ROWS if pool is None else _MANY_ROWS
        near = _near(table, partition, int(random.choice(dear)), rows, random)
        partition = _solved(table, partition, near, pool, budget)
        if len(near) == partition.groups:
            break
    return partition


def _near(table: CellTable, partition: Partition, centre: int, most: int, random: Any) -> Any:
    """Groups whose rows look most like those of one group, up to so many rows."""
    mine = np.flatnonzero(partition.group == centre)
    model = table.codes[partition.entry[mine[random.integers(len(mine))]]]
    codes = table.codes[partition.entry]
    alike = (codes == model)[:, table.free].mean(axis=1)
    blocked = (codes != model)[:, table.prices < 0].any(axis=1)
    alike[blocked] = -1.0
    closest = np.full(partition.groups, -1.0)
    np.maximum.at(closest, partition.group, alike)
    closest[centre] = 2.0
    order = np.argsort(-(closest + 1e-6 * random.random(len(closest))), kind="stable")
    order = order[closest[order] >= 0]
    rows = np.cumsum(np.minimum(partition.sizes()[order], 4 * table.k))
    return order[: max(1, int(np.searchsorted(rows, most)))]


def _solved(
    table: CellTable, partition: Partition, near: Any, pool: Candidates | None, budget: Budget
) -> Partition:
    inside = np.isin(partition.group, near)
    # Of a large group without stars only what others may need takes part; k rows stay.
    large = partition.sizes() > 4 * table.k
    starred = partition.starred(table)
    plain = ~starred.any(axis=1)
    stays = np.where((large & plain)[partition.group], partition.rows - 3 * table.k, 0)
    inside &= ~(large & ~plain)[partition.group]
    moving = np.where(inside, partition.rows - stays, 0)
    entries, at = np.unique(partition.entry[inside], return_inverse=True)
    if not len(entries):
        return partition
    part = table.take(entries)
    counts = np.bincount(at, weights=moving[inside]).astype(np.int64)
    part = CellTable(
        part.codes, counts, part.cardinalities, part.prices, part.rules, part.sensitive
    )
    if pool is None:
        candidates = closed_candidates(part, _PLACES)
        if not candidates.complete or len(candidates.members) > _PLACES:
            return partition
    else:
        prices = starred.astype(np.int64) @ np.maximum(table.prices, 0)
        known = _inside(pool, table, entries, counts)
        candidates = _with_groups(known, at, partition.group[inside], prices)
    answer = solve_assignment(part, candidates, min(_SECONDS, budget.remaining)).partition
    if answer is None:
        return partition
    merged = Partition(
        np.concatenate([partition.entry, entries[answer.entry]]),
        np.concatenate([partition.rows - moving, answer.rows]),
        np.concatenate([partition.group, answer.group + partition.groups]),
    ).tidy()
    return merged if merged.units(table) < partition.units(table) else partition


def _inside(pool: Candidates, table: CellTable, entries: Any, counts: Any) -> Candidates:
    """Candidates cut down to some entries, as far as k of their rows are there."""
    place = np.full(table.entries, -1, dtype=np.int64)
    place[entries] = np.arange(len(entries))
    members = place[pool.members]
    whose = np.repeat(np.arange(len(pool)), np.diff(pool.starts))
    here = members >= 0
    rows = np.bincount(whose[here], weights=counts[members[here]], minlength=len(pool))
    enough = rows >= table.k
    kept = here & enough[whose]
    lengths = np.bincount(whose[kept], minlength=len(pool))[enough]
    return Candidates(
        pool.kept[enough],
        pool.prices[enough],
        np.concatenate([[0], np.cumsum(lengths)]),
        members[kept].astype(np.int32),
        complete=False,
    )


def _with_groups(pool: Candidates, at: Any, group: Any, prices: Any) -> Candidates:
    """Candidates and the groups there are now, so that a solution is always among them."""
    order = np.argsort(group, kind="stable")
    numbers, lengths = np.unique(group, return_counts=True)
    return Candidates(
        np.concatenate([pool.kept, np.zeros(len(numbers), dtype=np.int64)]),
        np.concatenate([pool.prices, prices[numbers]]),
        np.concatenate([pool.starts, pool.starts[-1] + np.cumsum(lengths)]),
        np.concatenate([pool.members, at[order].astype(np.int32)]),
        complete=False,
    )
