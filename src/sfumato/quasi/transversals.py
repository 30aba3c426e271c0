"""All minimal keys as the minimal hitting sets of difference sets.

A key must hold, for any two rows, a column in which they differ. The difference sets of some pairs
are kept; the minimal sets that hit them all are enumerated; each is tried on the table. Those that
fail bring new difference sets, until none fails: then these are all minimal keys, because any key
hits every difference set and so contains one of the enumerated sets.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.quasi.differences import differences_within_classes
from sfumato.quasi.hitting import SetFamily
from sfumato.quasi.lattice import Minimal, Set, in_order

__all__ = ["minimal_hitting_sets", "minimal_keys_by_differences"]

MOST_SETS = 2_000_000
"""Sets enumerated at most; more are of no use to anybody."""
FAILURES = 64
"""Failing sets that are looked into before the difference sets learnt are put to use."""
FIRST_ROWS = 2_000
FIRST_ORDERS = 3
"""How many random rows are looked at to begin with, and in how many random column orders."""


def minimal_keys_by_differences(
    codes: Codes, max_size: int | None, budget: Budget, seed: int = 0
) -> Minimal:
    """All minimal sets that tell apart all rows which all columns tell apart."""
    width = len(codes.columns)
    if codes.entries < 2:
        return Minimal(((),))
    random = np.random.default_rng(seed)
    family = SetFamily(width)
    trial = _Trial(codes, random)
    trial.look_around(family)
    proven: set[Set] = set()
    while True:
        sets, complete = minimal_hitting_sets(family.matrix, max_size)
        budget.progress(f"{len(proven)} proven of {len(sets)}", len(proven) / max(1, len(sets)))
        if not complete:
            return Minimal(in_order(proven), False, "too many sets")
        failed = 0
        for columns in trial.in_search_order(s for s in sets if s not in proven):
            if budget.spent():
                return Minimal(in_order(proven), False, budget.stopped_by)
            if family.hit_by(columns) or not failed:
                demands = trial.demands(columns)
                if len(demands):
                    family.add(demands)
                    failed += 1
                else:
                    proven.add(columns)
            if failed >= FAILURES:
                break
        if not failed:
            whole = max_size is None or max_size >= width
            return Minimal(in_order(sets), whole)


def minimal_hitting_sets(
    edges: npt.NDArray[np.bool_], max_size: int | None = None
) -> tuple[list[Set], bool]:
    """All minimal sets of columns that hit every row of a boolean matrix.

    Examples
    --------
    >>> minimal_hitting_sets(np.array([[True, True, False], [False, True, True]]))[0]
    [(1,), (0, 2)]
    """
    from sfumato.quasi._hitting import hitting_sets

    count, width = edges.shape
    if not count:
        return [()], True
    edges = edges[np.argsort(edges.sum(axis=1), kind="stable")]
    words = (count + 63) // 64
    padded = np.zeros((width, words * 64), dtype=np.bool_)
    padded[:, :count] = edges.T
    packed = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
    found, complete = hitting_sets(
        np.ascontiguousarray(packed), words, MOST_SETS, width if max_size is None else max_size
    )
    sets = [tuple(np.flatnonzero(row).tolist()) for row in found]
    return sorted(sets, key=lambda s: (len(s), s)), bool(complete)


class _Trial:
    """Tries column sets on the table, sharing the partitions of common beginnings."""

    def __init__(self, codes: Codes, random: np.random.Generator) -> None:
        self.codes, self.random = codes, random
        # Columns with many values first: partitions then are small from the start.
        self.rank = {
            column: at
            for at, column in enumerate(
                sorted(range(len(codes.columns)), key=lambda c: -codes.cardinalities[c])
            )
        }
        self._path: list[int] = []
        self._partitions = [kernels.whole(codes.entries)]

    def in_search_order(self, sets: Iterable[Set]) -> list[Set]:
        """Sets ordered so that those with common beginnings follow each other."""
        return sorted(sets, key=lambda s: sorted(self.rank[c] for c in s))

    def demands(self, columns: Set) -> npt.NDArray[np.bool_]:
        """Difference sets of rows a set fails to tell apart; none for a key."""
        return differences_within_classes(
            self.codes, self._partition(columns), self.random, rows=2000, orders=2
        )

    def look_around(self, family: SetFamily) -> None:
        """Learn from random rows: what they demand the whole table demands too."""
        everything = kernels.whole(self.codes.entries)
        family.add(
            differences_within_classes(
                self.codes, everything, self.random, rows=FIRST_ROWS, orders=FIRST_ORDERS
            )
        )

    def _partition(self, columns: Set) -> kernels.Partition:
        wanted = sorted(columns, key=lambda c: self.rank[c])
        common = 0
        while common < min(len(wanted), len(self._path)) and wanted[common] == self._path[common]:
            common += 1
        del self._path[common:], self._partitions[common + 1 :]
        for column in wanted[common:]:
            finer = kernels.split(
                self._partitions[-1], self.codes.arrays[column], self.codes.cardinalities[column]
            )
            self._path.append(column)
            self._partitions.append(finer)
        return self._partitions[-1]
