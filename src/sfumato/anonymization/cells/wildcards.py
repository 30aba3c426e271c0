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

__all__ = ["MOST_ROWS", "Loosened", "fewest", "loosened"]

Array = npt.NDArray[Any]

MOST_ROWS = 40
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
    from sfumato.anonymization.cells._loosening import loosen

    bits = np.left_shift(np.int64(1), np.arange(table.width, dtype=np.int64))
    masks = found.starred(table).astype(np.int64) @ bits
    order = np.argsort(found.group, kind="stable")
    rows = found.rows[order]
    entry, group = np.repeat(found.entry[order], rows), np.repeat(found.group[order], rows)
    stars = masks[group]
    starts = np.searchsorted(group, np.arange(found.groups + 1))
    loosen(table.codes, table.k, table.prices, starts, entry, stars)
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
    if table.rows > MOST_ROWS or budget.spent():
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
    bits = np.left_shift(np.int64(1), np.arange(m, dtype=np.int64))
    best = _shown(table, entry, starred.astype(np.int64) @ bits)
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
    dear = starred.astype(np.int64) @ np.maximum(table.prices, 0)
    group = ids.astype(np.int64)
    units = int(dear[group].sum())
    pieces = Partition(entry.astype(np.int64), np.ones(len(entry), dtype=np.int64), group)
    return Loosened(pieces.tidy(), starred, units)
