"""Which column sets can identify people of a population.

Every set is judged by how many values it can take (Lodha & Thomas, section 2) against how many
people there are; the share of unique rows in the table itself stands beside it, the measure that
earlier definitions used and that says little about a population.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sfumato.engines.results import ClassSizes, Codes
from sfumato.populations.bound import (
    distinct_needed,
    minimal_sets,
    possible_sets,
    product_of,
    uniqueness_bound,
)
from sfumato.results import Result

__all__ = ["ColumnSet", "Distinct", "Domain", "Judge", "sizes_of"]

Distinct = Literal["product", "joint", "estimate"]

MOST_SETS = 200
"""Minimal column sets reported at most."""


@dataclass(frozen=True)
class Domain(Result):
    """How many values a column can take, and where that number comes from."""

    column: str
    distinct: int
    source: Literal["declared", "observed"]


@dataclass(frozen=True)
class ColumnSet(Result):
    """One column set against the population.

    `distinct` is D, by the way named in the report; `bound` is f(D/n), the largest expected share
    of unique people (the paper's F2); `unique` is the share of unique rows in the table itself
    (F1); `k` is about n/D, how many people share a value on average; `observed` and `estimated`
    are the joint distinct values seen in the table and estimated for the population (Chao).
    """

    columns: tuple[str, ...]
    distinct: float
    bound: float
    unique: float
    k: float
    observed: int
    estimated: float
    quasi_identifier: bool


class Judge:
    """Judges column sets of the entries."""

    def __init__(
        self,
        entries: Codes,
        domains: Mapping[str, int],
        people: float,
        counted_by: Distinct,
        alpha: float,
    ) -> None:
        self.entries = entries
        self.domains = domains
        self.people = people
        self.counted_by = counted_by
        self.needed = distinct_needed(alpha, people)
        self._seen: dict[tuple[str, ...], ClassSizes] = {}

    def of(self, columns: tuple[str, ...]) -> ColumnSet:
        sizes = self._sizes(columns)
        values = self.distinct(columns)
        return ColumnSet(
            columns=columns,
            distinct=values,
            bound=uniqueness_bound(values, self.people),
            unique=sizes.unique,
            k=max(1.0, self.people / max(values, 1)),
            observed=sizes.classes,
            estimated=self._estimate(columns),
            quasi_identifier=values >= self.needed,
        )

    def distinct(self, columns: tuple[str, ...]) -> float:
        if self.counted_by == "product":
            return product_of(self.domains, columns)
        joint = self._sizes(columns).classes
        return float(joint) if self.counted_by == "joint" else self._estimate(columns)

    def quasi_identifiers(self, max_size: int | None) -> tuple[list[tuple[str, ...]], bool]:
        """Minimal column sets that reach α, and whether they are all."""
        if self.counted_by == "product":
            return possible_sets(self.domains, self.needed, max_size, MOST_SETS)
        found = minimal_sets(self.domains, self.distinct, self.needed, max_size)
        return found[:MOST_SETS], len(found) <= MOST_SETS

    def _sizes(self, columns: tuple[str, ...]) -> ClassSizes:
        if columns not in self._seen:
            self._seen[columns] = sizes_of(self.entries.select(columns))
        return self._seen[columns]

    def _estimate(self, columns: tuple[str, ...]) -> float:
        """Distinct values in the population after Chao (1984), never above the product.

        Singles and pairs of the sample tell how many values it has not seen: at least
        f1(f1-1)/2(f2+1). Dependence between columns is in these counts. Bounded from below by what
        its parts have, so that more columns never have fewer values.
        """
        sizes = self._sizes(columns)
        few = sizes.to_dict()
        singles, pairs = few.get(1, 0), few.get(2, 0)
        estimate = sizes.classes + singles * (singles - 1) / (2 * (pairs + 1))
        widest = max(self.domains[name] for name in columns)
        return float(min(max(estimate, widest), product_of(self.domains, columns)))


def sizes_of(entries: Codes) -> ClassSizes:
    """Class sizes of all columns of the entries."""
    from sfumato.kernels import size_histogram

    found = size_histogram(
        entries.arrays, entries.cardinalities, entries.counts, entries=entries.entries
    )
    return ClassSizes(*found)
