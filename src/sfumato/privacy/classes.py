"""The classes of a set of quasi-identifiers, and what each holds of a sensitive column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sfumato.hierarchy.tree import Array
from sfumato.privacy.histogram import ClassHistogram
from sfumato.privacy.wildcards import Cells, matching_pairs, matching_rows

__all__ = ["Classes"]

_CELLS_AN_ENTRY = 2
"""Up to so many possible combinations an entry, counting all of them beats numbering classes."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows that agree on the quasi-identifiers, in ascending order of their codes.

    Parameters
    ----------
    qi
        The quasi-identifiers.
    arrays, cardinalities
        Their codes, and how many codes each may have.
    entries, weights
        Number of entries, and the rows each stands for; None when every entry is one row.
    sensitive
        Codes of the sensitive columns, and how many codes each may have.
    wildcards
        For each quasi-identifier the codes that match anything; None where all are values.
    person
        Who each entry belongs to, where persons are counted: a person once in a class, and once
        with each value she has there.

    Examples
    --------
    >>> import numpy as np
    >>> sex, illness = np.array([1, 0, 1], np.uint8), np.array([0, 0, 1], np.uint8)
    >>> classes = Classes(("sex",), (sex,), (2,), 3, sensitive={"illness": (illness, 2)})
    >>> classes.sizes.tolist(), classes.histograms["illness"].distinct.tolist()
    ([1, 2], [1, 2])
    """

    qi: tuple[str, ...]
    arrays: tuple[Array, ...]
    cardinalities: tuple[int, ...]
    entries: int
    weights: Array | None = None
    sensitive: Mapping[str, tuple[Array, int]] = field(default_factory=dict)
    wildcards: tuple[Sequence[int], ...] | None = None
    person: Array | None = None

    @cached_property
    def own_sizes(self) -> Array:
        """Rows of each class."""
        from sfumato.kernels import group_sums

        known = next(iter(self._plain.values()), None) if self.person is None else None
        return group_sums(*self._numbered, self.weights) if known is None else known.sizes

    @cached_property
    def sizes(self) -> Array:
        """Rows that look like those of each class: its own, and those that wildcards add.

        Or persons, where those are counted.
        """
        if self.person is not None:
            ids, number = self._numbered
            return np.bincount(ids[self._once(self.person)], minlength=number)
        if self.wildcards is None:
            return self.own_sizes
        return matching_rows(self.cells, self.cells, self.own_sizes)

    @cached_property
    def cells(self) -> Cells:
        """The quasi-identifiers of each class."""
        from sfumato.kernels import representatives

        first = representatives(*self._numbered)
        return Cells.of([array[first] for array in self.arrays], self.stars)

    @property
    def stars(self) -> tuple[Sequence[int], ...]:
        """For each quasi-identifier the codes that match anything."""
        return self.wildcards or ((),) * len(self.qi)

    @cached_property
    def histograms(self) -> dict[str, ClassHistogram]:
        """How often the rows that look like each class hold each value of a sensitive column."""
        if self.wildcards is None:
            return self._plain
        into, source = matching_pairs(self.cells, self.cells)
        number = len(self.own_sizes)
        return {name: plain.merged(into, source, number) for name, plain in self._plain.items()}

    @cached_property
    def _plain(self) -> dict[str, ClassHistogram]:
        """How often each class by itself holds each value."""
        return {name: self._histogram(*column) for name, column in self.sensitive.items()}

    def _once(self, *with_person: Array) -> Array:
        """One entry for every class and every combination of these codes in it."""
        from sfumato.kernels import class_ids, representatives

        ids, number = self._numbered
        sizes = [int(codes.max(initial=0)) + 1 for codes in with_person]
        numbered = class_ids((ids, *with_person), (max(number, 1), *sizes), entries=self.entries)
        return np.asarray(representatives(*numbered), dtype=np.int64)

    def _histogram(self, codes: Array, cardinality: int) -> ClassHistogram:
        if self.person is not None:
            ids, number = self._numbered
            once = self._once(self.person, codes)
            whole = replace(self, qi=(), arrays=(), cardinalities=(), sensitive={})
            all_once = whole._once(self.person, codes)
            table = ClassHistogram.of(np.zeros(len(all_once)), 1, codes[all_once], cardinality)
            found = ClassHistogram.of(ids[once], number, codes[once], cardinality)
            return replace(found, unmerged=table)
        possible = math.prod(self.cardinalities) * cardinality
        if self.entries and possible <= _CELLS_AN_ENTRY * self.entries:
            from sfumato.kernels import combination_sums

            columns, cardinalities = (*self.arrays, codes), (*self.cardinalities, cardinality)
            sums = combination_sums(columns, cardinalities, self.weights).reshape(-1, cardinality)
            return ClassHistogram.dense(sums[sums.any(axis=1)])
        ids, number = self._numbered
        return ClassHistogram.of(ids, number, codes, cardinality, self.weights)

    @cached_property
    def _numbered(self) -> tuple[Array, int]:
        from sfumato.kernels import class_ids

        return class_ids(self.arrays, self.cardinalities, entries=self.entries)
