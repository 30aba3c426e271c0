"""Neighbourhoods solved exactly: some groups that are near each other, all their rows rearranged.

A few hundred rows are spread over closed candidates at the least cost by integer programming; if
that costs less than the groups did, they are replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.anonymize.cells.candidates import closed_candidates
from sfumato.anonymize.cells.exact import solve_assignment
from sfumato.anonymize.cells.partition import Partition
from sfumato.anonymize.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["repaired"]

_ROWS = 300
_PLACES = 12_000
_SECONDS = 5.0


def repaired(
    table: CellTable,
    partition: Partition,
    seed: int = 0,
    budget: Budget | None = None,
    attempts: int = 20,
) -> Partition:
    """The partition after so many neighbourhoods, or those that time allows, were solved."""
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    for attempt in range(attempts):
        budget.progress("repairing neighbourhoods", attempt / attempts)
        dear = np.flatnonzero(partition.starred(table).any(axis=1))
        if budget.spent() or not len(dear):
            break
        near = _near(table, partition, int(random.choice(dear)), random)
        partition = _solved(table, partition, near, budget)
        if len(near) == partition.groups:
            break
    return partition


def _near(table: CellTable, partition: Partition, centre: int, random: Any) -> Any:
    """Groups whose rows look most like those of one group, up to a few hundred rows."""
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
    return order[: max(1, int(np.searchsorted(rows, _ROWS)))]


def _solved(table: CellTable, partition: Partition, near: Any, budget: Budget) -> Partition:
    inside = np.isin(partition.group, near)
    # Of a large group without stars only what others may need takes part; k rows stay.
    large = partition.sizes() > 4 * table.k
    plain = ~partition.starred(table).any(axis=1)
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
    candidates = closed_candidates(part, _PLACES)
    if not candidates.complete or len(candidates.members) > _PLACES:
        return partition
    answer = solve_assignment(part, candidates, min(_SECONDS, budget.remaining)).partition
    if answer is None:
        return partition
    merged = Partition(
        np.concatenate([partition.entry, entries[answer.entry]]),
        np.concatenate([partition.rows - moving, answer.rows]),
        np.concatenate([partition.group, answer.group + partition.groups]),
    ).tidy()
    return merged if merged.units(table) < partition.units(table) else partition
