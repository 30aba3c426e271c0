"""The optimum of small tables, by integer programming over the closed candidates.

Every group of an optimal solution lies in a closed candidate with the same stars, and groups in one
candidate may be joined, so it suffices to choose which candidates are open and how many rows of
each combination go to each: an open one gets at least k rows. For k = 2 this is the problem of
covering by pairs and triples, polynomial in theory; the same program solves it.

Larger tables are repaired: some groups that are near each other are solved anew, all their rows
rearranged, and replaced if that costs less. A few hundred rows get all their closed candidates.
Where the linear program was climbed, some thousands get those that it opens, and the groups they
have: few enough for the same solver, and about those an optimum uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.anonymization.cells.candidates import Candidates, closed_candidates
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["Optimum", "optimum", "repaired"]

_MOST_EXACT = 60_000
"""Places in candidates up to which a table counts as small."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best partition found by the solver, if any, and what it proves, in units."""

    partition: Partition | None
    bound: int
    proven: bool


def optimum(
    table: CellTable, budget: Budget | None = None, seconds: float = 60.0
) -> Optimum | None:
    """The cheapest partition; None if the table is too large or has rules beyond k.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> optimum(table).bound, optimum(table).proven
    (4000, True)
    """
    budget = budget or Budget()
    if len(table.rules.kinds) or budget.spent():
        return None
    candidates = closed_candidates(table, _MOST_EXACT)
    if not candidates.complete or len(candidates.members) > _MOST_EXACT:
        return None
    return solve_assignment(table, candidates, min(seconds, budget.remaining))


def solve_assignment(table: CellTable, candidates: Candidates, seconds: float) -> Optimum:
    """The cheapest way to spread the rows over some of the candidates."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    places, choices = len(candidates.members), len(candidates)
    whose = np.repeat(np.arange(choices), np.diff(candidates.starts))
    counts = table.counts[candidates.members].astype(np.float64)
    costs = np.concatenate([candidates.prices[whose], np.zeros(choices)])
    matrix, low, high = _constraints(table, candidates, whose)
    answer = milp(
        costs.astype(np.float64),
        constraints=LinearConstraint(matrix, low, high),
        # Once the open candidates are chosen, the rest is a flow problem, whole by itself.
        integrality=np.concatenate([np.zeros(places), np.ones(choices)]),
        bounds=Bounds(0, np.concatenate([counts, np.ones(choices)])),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": 0.0},
    )
    proven = bool(answer.status == 0)
    partition = None
    if answer.x is not None:
        rows = np.round(answer.x[:places]).astype(np.int64)
        found = Partition(candidates.members.astype(np.int64), rows, whose).tidy()
        if _is_whole(table, found):
            partition = found
    proven = proven and partition is not None
    known = answer.mip_dual_bound if answer.mip_dual_bound is not None else 0.0
    # The solver works in floating point: what it calls a bound is trusted to a thousandth of
    # a unit.
    bound = partition.units(table) if proven and partition is not None else max(0, int(known - 1))
    return Optimum(partition, bound, proven)


def _constraints(table: CellTable, candidates: Candidates, whose: Any) -> tuple[Any, Any, Any]:
    """All rows are somewhere; an open candidate has k rows; a closed one has none."""
    from scipy.sparse import coo_matrix

    places, choices, entries = len(candidates.members), len(candidates), table.entries
    at = np.arange(places)
    counts = table.counts[candidates.members].astype(np.float64)
    ones = np.ones(places)
    rows = [candidates.members, entries + whose, entries + np.arange(choices)]
    columns = [at, at, places + np.arange(choices)]
    values = [ones, ones, np.full(choices, -float(table.k))]
    rows += [entries + choices + at, entries + choices + at]
    columns += [at, places + whose]
    values += [-ones, counts]
    matrix = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(entries + choices + places, places + choices),
    ).tocsr()
    low = np.concatenate([table.counts.astype(np.float64), np.zeros(choices + places)])
    high = np.concatenate([table.counts.astype(np.float64), np.full(choices + places, np.inf)])
    return matrix, low, high


def _is_whole(table: CellTable, found: Partition) -> bool:
    """Whether the solver's answer, rounded, is a partition into groups of k."""
    held = np.bincount(found.entry, weights=found.rows, minlength=table.entries)
    return bool((held == table.counts).all() and found.sizes().min(initial=table.k) >= table.k)


_ROWS, _MANY_ROWS = 300, 2_500
_PLACES = 12_000
_SECONDS = 5.0


def repaired(
    table: CellTable,
    partition: Partition,
    seed: int = 0,
    budget: Budget | None = None,
    attempts: int = 20,
    pool: Candidates | None = None,
) -> Partition:
    """The partition after so many neighbourhoods, or those that time allows, were solved.

    `pool` are the candidates to choose from, if not all of a small neighbourhood.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    if table.rows <= _ROWS:
        pool = None
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
    counts = np.bincount(at, weights=moving[inside]).astype(np.int64)
    part = replace(table.take(entries), counts=counts)
    if pool is None:
        candidates = closed_candidates(part, _PLACES)
        if not candidates.complete or len(candidates.members) > _PLACES:
            return partition
    else:
        known = _inside(pool, table, entries, counts)
        candidates = _with_groups(known, at, partition.group[inside], table.price_of(starred))
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
