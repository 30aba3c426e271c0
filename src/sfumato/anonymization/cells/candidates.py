"""Candidate groups: the rows that share a frequent itemset (Park & Shim, sections 4.3 and 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.cells.table import CellTable
from sfumato.errors import BudgetError

__all__ = [
    "MOST_PLACES",
    "Candidates",
    "closed_candidates",
    "frequent_candidates",
    "require_complete",
]

Array = npt.NDArray[Any]

MOST_PLACES = 150_000_000
"""Entries that all candidates together may list; 4 bytes each."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Sets of entries that agree on a set of columns.

    Attributes
    ----------
    kept
        Columns each candidate shows, one bit a column.
    prices
        Price of the stars of one of its rows, in units.
    starts, members
        Entries of candidate c are ``members[starts[c]:starts[c + 1]]``.
    complete
        Whether all candidates are listed.
    """

    kept: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    complete: bool

    def __len__(self) -> int:
        return len(self.kept)

    def take(self, chosen: Array) -> Candidates:
        """Some of the candidates."""
        lengths = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.starts[:-1][chosen] - starts[:-1], lengths)
        members = self.members[shift + np.arange(starts[-1])]
        return Candidates(self.kept[chosen], self.prices[chosen], starts, members, self.complete)


def closed_candidates(table: CellTable, most: int = MOST_PLACES) -> Candidates:
    """All closed itemsets of support k; the empty one (all rows) among them.

    When they need more room than `most`, those found until then are given as incomplete.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 1]]), k=2)
    >>> sorted(format(kept, "02b") for kept in closed_candidates(table).kept.tolist())
    ['00', '01', '10']
    """
    return _mined(table, True, most)


def frequent_candidates(table: CellTable, most: int = MOST_PLACES) -> Candidates:
    """All frequent itemsets, closed or not."""
    return _mined(table, False, most)


def require_complete(candidates: Candidates) -> None:
    """Refuse to go on without all candidates."""
    if not candidates.complete:
        raise BudgetError(
            f"the candidates take more than {MOST_PLACES:,} places in memory",
            remedy="Use the algorithm dr, which needs none of them, or a larger k.",
        )


def _mined(table: CellTable, closed: bool, most: int) -> Candidates:
    from sfumato.anonymization.cells._closed import mine

    fixed = np.flatnonzero(table.prices < 0)
    arrays = tuple(table.codes[:, c].astype(np.uint32) for c in fixed)
    sizes = tuple(int(table.cardinalities[c]) for c in fixed)
    blocks, count = kernels.class_ids(arrays, sizes, entries=table.entries)
    roots, root_starts = kernels.group_rows(blocks, count)
    # Columns of many values first: they split the rows into small sets early.
    free = table.free[np.argsort(-table.cardinalities[table.free], kind="stable")]
    fixed_bits = int(sum(1 << int(c) for c in fixed))
    kept, starts, members, complete = mine(
        table.codes,
        table.counts,
        free,
        table.k,
        roots.astype(np.int64),
        root_starts,
        fixed_bits,
        closed,
        max(most, 4 * table.entries),
    )
    prices = np.zeros(len(kept), dtype=np.int64)
    for column in table.free.tolist():
        prices += np.where((kept >> column) & 1, 0, table.prices[column])
    return Candidates(kept.copy(), prices, starts.copy(), members, bool(complete))
