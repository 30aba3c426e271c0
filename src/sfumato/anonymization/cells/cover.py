"""Greedy covers made into partitions: APPROX-CF, APPROX-FQ, APPROX-NAIVE and APPROX-DS.

The first three cost at most 2(1 + ln 2k) times the optimum (Theorem 4.11 and 4.14), CF-β at most β
times that. DS covers by small diameters instead (Meyerson & Williams 2004).
"""

from __future__ import annotations

from itertools import combinations
from math import comb, log
from typing import Any

import numpy as np

from sfumato.anonymization.cells.candidates import (
    Candidates,
    closed_candidates,
    frequent_candidates,
    require_complete,
)
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.table import CellTable
from sfumato.errors import ParameterError

__all__ = ["approx_cf", "approx_ds", "approx_fq", "approx_naive", "guarantee"]

MOST_SUBSETS = 200_000
MOST_BALLS_ROWS = 2_000


def guarantee(k: int, beta: float = 1.0) -> float:
    """How many times the optimum APPROX-NAIVE, -FQ and -CF-β cost at most."""
    return beta * 2.0 * (1.0 + log(2 * k))


def approx_cf(table: CellTable, beta: float = 1.0) -> Partition:
    """GEN-COVER-FQ over closed itemsets; with β > 1 only over those with few stars, and all rows.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> approx_cf(table).cost(table)
    4.0
    """
    candidates = closed_candidates(table)
    require_complete(candidates)
    if beta > 1.0:
        dearest = int(table.prices[table.free].sum())
        cheap = candidates.take(np.flatnonzero(candidates.prices * beta < dearest))
        candidates = _joined(cheap, _whole_blocks(table))
    return _covered(table, candidates)


def approx_fq(table: CellTable) -> Partition:
    """GEN-COVER-FQ over all frequent itemsets: never better than CF, kept for comparison."""
    candidates = frequent_candidates(table)
    require_complete(candidates)
    return _covered(table, candidates)


def approx_naive(table: CellTable) -> Partition:
    """GEN-COVER over all subsets of k to 2k - 1 rows; for tiny tables.

    Raises
    ------
    ParameterError
        If there are too many subsets.
    """
    rows = _one_a_row(table)
    n, k = rows.entries, rows.k
    sizes = range(k, min(2 * k - 1, n) + 1)
    if sum(comb(n, size) for size in sizes) > MOST_SUBSETS:
        raise ParameterError(
            f"the algorithm naive would look at more than {MOST_SUBSETS:,} sets of rows",
            remedy="Use cf, which has the same guarantee.",
        )
    fixed = rows.codes[:, rows.prices < 0]
    sets = [
        np.array(chosen)
        for size in sizes
        for chosen in combinations(range(n), size)
        if (fixed[list(chosen)] == fixed[chosen[0]]).all()
    ]
    return _of_rows(table, _covered(rows, _listed(rows, sets)))


def approx_ds(table: CellTable) -> Partition:
    """Greedy cover by balls around rows, least radius per row newly covered; for small tables.

    Raises
    ------
    ParameterError
        If there are too many rows.
    """
    if table.rows > MOST_BALLS_ROWS:
        raise ParameterError(
            f"the algorithm ds takes at most {MOST_BALLS_ROWS:,} rows",
            remedy="Use dr or cf.",
        )
    rows = _one_a_row(table)
    free, fixed = table.free, np.flatnonzero(table.prices < 0)
    sets, radii = [], []
    for centre in range(rows.entries):
        apart = (rows.codes[:, free] != rows.codes[centre, free]).sum(axis=1)
        apart[(rows.codes[:, fixed] != rows.codes[centre, fixed]).any(axis=1)] = len(free) + 1
        for radius in range(len(free) + 1):
            inside = np.flatnonzero(apart <= radius)
            if len(inside) >= rows.k:
                sets.append(inside)
                radii.append(radius)
    balls = _listed(rows, sets)
    balls = Candidates(balls.kept, np.array(radii), balls.starts, balls.members, True)
    found = _covered(rows, balls, most=rows.entries)
    return _of_rows(table, _halved(rows, found))


def _covered(table: CellTable, candidates: Candidates, most: int | None = None) -> Partition:
    from sfumato.anonymization.cells._cover import convert, gen_cover

    at_once = 2 * table.k - 1 if most is None else most
    facts = (candidates.starts, candidates.members.astype(np.int64), candidates.prices)
    set_starts, rows = gen_cover(table.counts, table.k, at_once, *facts)
    owner = convert(table.rows, table.k, set_starts, rows)
    entry = np.repeat(np.arange(table.entries), table.counts)
    return Partition(entry, np.ones(len(entry), dtype=np.int64), owner).tidy()


def _whole_blocks(table: CellTable) -> Candidates:
    """All rows that may share a group, starred wherever possible."""
    fixed = np.flatnonzero(table.prices < 0)
    _, blocks = np.unique(table.codes[:, fixed], axis=0, return_inverse=True)
    blocks = blocks.ravel()
    return _listed(table, [np.flatnonzero(blocks == b) for b in range(blocks.max() + 1)])


def _listed(table: CellTable, sets: list[Any]) -> Candidates:
    """Sets of entries as candidates."""
    starts = np.concatenate([[0], np.cumsum([len(chosen) for chosen in sets])]).astype(np.int64)
    members = np.concatenate(sets).astype(np.int32)
    codes = table.codes[members]
    differ = np.maximum.reduceat(codes, starts[:-1]) > np.minimum.reduceat(codes, starts[:-1])
    bits = np.left_shift(np.int64(1), np.arange(table.width, dtype=np.int64))
    prices = differ.astype(np.int64) @ np.maximum(table.prices, 0)
    return Candidates((~differ).astype(np.int64) @ bits, prices, starts, members, True)


def _joined(a: Candidates, b: Candidates) -> Candidates:
    return Candidates(
        np.concatenate([a.kept, b.kept]),
        np.concatenate([a.prices, b.prices]),
        np.concatenate([a.starts, a.starts[-1] + b.starts[1:]]),
        np.concatenate([a.members, b.members]),
        True,
    )


def _one_a_row(table: CellTable) -> CellTable:
    """The table with an entry for every row."""
    rows = table.take(np.repeat(np.arange(table.entries), table.counts))
    return CellTable(
        rows.codes,
        np.ones(rows.entries, dtype=np.int64),
        rows.cardinalities,
        rows.prices,
        rows.rules,
        rows.sensitive,
    )


def _of_rows(table: CellTable, found: Partition) -> Partition:
    """A partition of single rows as one of combinations."""
    entry = np.repeat(np.arange(table.entries), table.counts)
    return Partition(entry[found.entry], found.rows, found.group).tidy()


def _halved(rows: CellTable, found: Partition) -> Partition:
    """Groups of 2k rows or more cut into groups of k to 2k - 1; rows that are alike stay near."""
    order = np.lexsort((*rows.codes.T[::-1], found.group[np.argsort(found.entry)]))
    group = found.group[np.argsort(found.entry)]
    sizes = np.bincount(group)
    within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parts = np.maximum(1, sizes // rows.k)
    part = np.minimum(within // rows.k, np.repeat(parts, sizes) - 1)
    halved = np.empty(len(order), dtype=np.int64)
    halved[order] = group[order] * (rows.entries + 1) + part
    return Partition(np.arange(len(order)), np.ones(len(order), dtype=np.int64), halved).tidy()
