"""Stars that match anything: fewer are needed when a star may stand for every value.

By default a star is a value of its own, which is what an adversary sees. sdcMicro and μ-Argus let
it match every value; then one star hides two rows from each other, and it need not be in both. Rows
here no longer look alike: each *matches* at least k rows, itself included.

Small tables are solved by integer programming, for every group of rows that may match. Others start
from the groups found for stars as values, whose rows all match each other, and lose every star that
their group can do without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget
from sfumato.kernels.compiling import compiled

__all__ = ["Loosened", "fewest", "loosened"]

Array = npt.NDArray[Any]

_MOST_ROWS = 40
"""Rows up to which the fewest stars are sought by integer programming."""

_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Loosened:
    """Stars that match anything.

    Attributes
    ----------
    partition
        Rows that look alike as groups; a group may be smaller than k.
    starred
        For each group and column whether it is starred.
    units
        Price of all stars.
    bound
        What any choice of such stars costs at least, in units; None where nothing is proven.
    """

    partition: Partition
    starred: npt.NDArray[np.bool_]
    units: int
    bound: int | None = None


def loosened(table: CellTable, found: Partition) -> Loosened:
    """The groups of a partition without the stars they can do without.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 0], [1, 1], [1, 2]]), k=2)
    >>> groups = Partition.of_entries(table, np.array([0, 1, 1]))
    >>> groups.units(table), loosened(table, groups).units
    (2000, 1000)
    """
    masks = found.starred(table).astype(np.int64) @ table.bits
    order = np.argsort(found.group, kind="stable")
    rows = found.rows[order]
    entry, group = np.repeat(found.entry[order], rows), np.repeat(found.group[order], rows)
    stars = masks[group]
    starts = np.searchsorted(group, np.arange(found.groups + 1))
    _loosen(table.codes, table.k, table.prices, starts, entry, stars)
    return _shown(table, entry, stars)


def fewest(
    table: CellTable, blank: npt.NDArray[np.bool_], budget: Budget | None = None
) -> Loosened | None:
    """The fewest stars that match anything, or the best found in time; None for larger tables.

    A cell is starred or not; two rows match if in every column in which they differ one of the two
    is starred; every row matches k - 1 others.

    Parameters
    ----------
    blank
        Cells that are missing in the table and match anything already.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 0], [1, 1], [1, 2]]), k=2)
    >>> best = fewest(table, np.zeros((3, 2), dtype=bool))
    >>> best.units, best.bound
    (1000, 1000)
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix

    budget = budget or Budget()
    if table.rows > _MOST_ROWS or budget.spent():
        return None
    entry = np.repeat(np.arange(table.entries), table.counts)
    codes, empty = table.codes[entry], blank[entry]
    n, m = codes.shape
    one, other = np.triu_indices(n, 1)
    differ = (codes[one] != codes[other]) & ~empty[one] & ~empty[other]
    hopeless = (differ & (table.prices < 0)).any(axis=1)
    pair, column = np.nonzero(differ & (table.prices >= 0))
    cells, pairs, at = n * m, len(one), np.arange(len(pair))
    # A match needs a star in each column that differs: match - star - star <= 0.
    rows = [at, at, at, len(at) + one, len(at) + other]
    columns = [cells + pair, one[pair] * m + column, other[pair] * m + column]
    columns += [cells + np.arange(pairs)] * 2
    values = [np.ones(len(at)), -np.ones(len(at)), -np.ones(len(at)), -np.ones(2 * pairs)]
    matrix = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(at) + n, cells + pairs),
    ).tocsr()
    answer = milp(
        np.concatenate([np.tile(np.maximum(table.prices, 0), n), np.zeros(pairs)]).astype(float),
        constraints=LinearConstraint(
            matrix, -np.inf, np.concatenate([np.zeros(len(at)), np.full(n, 1.0 - table.k)])
        ),
        # Once the stars are whole, so is the best choice of matches.
        integrality=np.concatenate([np.ones(cells), np.zeros(pairs)]),
        bounds=Bounds(0, np.concatenate([np.tile(table.prices >= 0, n), ~hopeless]).astype(float)),
        options={"time_limit": max(0.1, min(_SECONDS, budget.remaining)), "mip_rel_gap": 0.0},
    )
    if answer.x is None:
        return None
    starred = answer.x[:cells].reshape(n, m) > 0.5
    if not _all_match(codes, empty | starred, table.k):
        return None
    best = _shown(table, entry, starred.astype(np.int64) @ table.bits)
    known = best.units
    if answer.status != 0:
        known = table.payable(max(0, int((answer.mip_dual_bound or 0.0) - 1)))
    return Loosened(best.partition, best.starred, best.units, min(known, best.units))


def _all_match(codes: Array, hidden: Array, k: int) -> bool:
    """Whether every row matches k rows, itself included."""
    seen = ~(hidden[:, None, :] | hidden[None, :, :])
    apart = ((codes[:, None, :] != codes[None, :, :]) & seen).any(axis=2)
    return bool(((~apart).sum(axis=1) >= k).all())


def _shown(table: CellTable, entry: Array, stars: Array) -> Loosened:
    """Single rows with their stars as groups of those that look alike."""
    hidden = (stars[:, None] >> np.arange(table.width)) & 1 == 1
    codes = np.where(hidden, table.cardinalities, table.codes[entry]).astype(np.uint32)
    ids, count = kernels.class_ids(
        tuple(np.ascontiguousarray(column) for column in codes.T),
        tuple(int(size) + 1 for size in table.cardinalities),
        entries=len(entry),
    )
    starred = hidden[kernels.representatives(ids, count)]
    group = ids.astype(np.int64)
    units = int(table.price_of(starred)[group].sum())
    pieces = Partition(entry.astype(np.int64), np.ones(len(entry), dtype=np.int64), group)
    return Loosened(pieces.tidy(), starred, units)


_MOST_TOGETHER = 128
"""Rows of a group up to which its pairs are counted; of larger ones only the first step is made."""


@compiled
def _loosen(codes, k, prices, starts, entry, stars):  # type: ignore[no-untyped-def]
    """Take stars away from groups whose rows then still match k rows each, themselves included.

    The rows of group g are ``starts[g]`` to ``starts[g + 1]``; `entry` and `stars` hold the
    combination of each and its starred columns, one bit a column.
    """
    for g in range(starts.shape[0] - 1):
        rows, mine = entry[starts[g] : starts[g + 1]], stars[starts[g] : starts[g + 1]]
        if rows.shape[0] and mine[0]:
            _show_commonest(codes, rows, mine)
            if k < rows.shape[0] <= _MOST_TOGETHER:
                _show_more(codes, k, prices, rows, mine)


@compiled
def _show_commonest(codes, rows, stars):  # type: ignore[no-untyped-def]
    """In every column show the value most rows have: equal values match, others meet a star."""
    n, all_ = rows.shape[0], stars[0]
    values = np.empty(n, codes.dtype)
    for c in range(codes.shape[1]):
        if not (all_ >> c) & 1:
            continue
        for i in range(n):
            values[i] = codes[rows[i], c]
        ranked = np.sort(values)
        best, most, run = ranked[0], 0, 0
        for i in range(n):
            run = run + 1 if i and ranked[i] == ranked[i - 1] else 1
            if run > most:
                best, most = ranked[i], run
        for i in range(n):
            if values[i] == best:
                stars[i] &= ~(np.int64(1) << c)


@compiled
def _show_more(codes, k, prices, rows, stars):  # type: ignore[no-untyped-def]
    """Show cells that break few matches, as long as every row keeps k of them."""
    n, m = rows.shape[0], codes.shape[1]
    apart = np.zeros((n, n), np.int64)  # columns in which two rows differ in sight of both
    matches = np.full(n, n)
    for dearest in np.unique(prices)[::-1]:
        allowed = 0
        while allowed <= n - k:
            for i in range(n):
                for c in range(m):
                    if (stars[i] >> c) & 1 and prices[c] == dearest:
                        _show(codes, k, rows, stars, apart, matches, i, c, allowed)
            allowed = 2 * allowed + 1


@compiled
def _show(codes, k, rows, stars, apart, matches, i, c, allowed):  # type: ignore[no-untyped-def]
    """Show one cell if it breaks so many matches at most and leaves k to every row."""
    broken = 0
    for j in range(rows.shape[0]):
        if codes[rows[j], c] != codes[rows[i], c] and not (stars[j] >> c) & 1 and not apart[i, j]:
            broken += 1
            if matches[j] <= k:
                return
    if broken > allowed or matches[i] - broken < k:
        return
    stars[i] &= ~(np.int64(1) << c)
    for j in range(rows.shape[0]):
        if codes[rows[j], c] != codes[rows[i], c] and not (stars[j] >> c) & 1:
            if not apart[i, j]:
                matches[j] -= 1
                matches[i] -= 1
            apart[i, j] += 1
            apart[j, i] += 1
