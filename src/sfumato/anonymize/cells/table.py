"""The rows as the algorithms of this room see them: distinct combinations, prices, and k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymize.problem import Problem
from sfumato.errors import ParameterError

__all__ = ["CellTable", "Partition", "cell_table"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class CellTable:
    """Distinct combinations of quasi-identifiers with counts.

    Attributes
    ----------
    codes
        One row a combination, one column a quasi-identifier.
    counts
        Rows each combination stands for.
    cardinalities
        Distinct values of each column.
    prices
        Price of a star in each column; infinite where stars are forbidden.
    k
        Least number of rows of a group.
    """

    codes: Array
    counts: npt.NDArray[np.int64]
    cardinalities: npt.NDArray[np.int64]
    prices: npt.NDArray[np.float64]
    k: int

    @property
    def entries(self) -> int:
        """Number of distinct combinations."""
        return len(self.codes)

    @property
    def width(self) -> int:
        """Number of quasi-identifiers."""
        return int(self.codes.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def patterns(self, most_stars: int | None = None) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Sets of kept columns with the price of starring the others, cheapest first.

        Among equally cheap ones those come first that keep columns of few values: rows are then
        left that differ in many-valued columns, which cost no more to star together.
        """
        free = [c for c in range(self.width) if np.isfinite(self.prices[c])]
        most = len(free) if most_stars is None else min(most_stars, len(free))
        logs = np.log(np.maximum(self.cardinalities, 1))
        found = []
        for stars in range(most + 1):
            for starred in combinations(free, stars):
                kept = tuple(c for c in range(self.width) if c not in starred)
                price = float(self.prices[list(starred)].sum())
                found.append((price, float(logs[list(kept)].sum()), kept))
        for price, _, kept in sorted(found):
            yield price, kept


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of rows; a combination may be split among several groups.

    `entry`, `rows` and `group` have one place a piece: some rows of one combination in one group.
    """

    entry: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group.max(initial=-1)) + 1

    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each group."""
        return np.bincount(self.group, weights=self.rows, minlength=self.groups).astype(np.int64)

    def starred(self, table: CellTable) -> npt.NDArray[np.bool_]:
        """For each group and column whether its rows differ there (groups x columns)."""
        codes = table.codes[self.entry].astype(np.int64)
        low = np.full((self.groups, table.width), np.iinfo(np.int64).max)
        high = np.full((self.groups, table.width), -1)
        np.minimum.at(low, self.group, codes)
        np.maximum.at(high, self.group, codes)
        return high > low

    def cost(self, table: CellTable) -> float:
        """Price of all stars."""
        starred = self.starred(table)
        finite = np.where(np.isfinite(table.prices), table.prices, 0.0)
        if (starred & ~np.isfinite(table.prices)).any():
            return float("inf")
        return float((self.sizes() * (starred @ finite)).sum())


def cell_table(problem: Problem) -> CellTable:
    """The combinations of a problem; sensitive columns are left out of sight here.

    Raises
    ------
    ParameterError
        If every column is protected from stars.
    """
    names = problem.quasi_identifiers
    protected = set(problem.options.get("protected", ()))
    prices = np.array([np.inf if n in protected else problem.weight(n) for n in names])
    if not np.isfinite(prices).any():
        raise ParameterError(
            "all quasi-identifiers are protected from stars",
            remedy="Let at least one of them be starred.",
        )
    return CellTable(
        codes=np.stack([problem.entries.column(n).astype(np.int32) for n in names], axis=1),
        counts=problem.counts,
        cardinalities=np.array([len(problem.entries.values_of(n)) for n in names]),
        prices=prices,
        k=problem.rules.k,
    )
