"""What every anonymizer gets and gives back.

A *problem* is the distinct combinations of quasi-identifiers (and sensitive values) with their
counts, how each column may be blurred, and what must hold. A *solution* puts the rows into groups
and says what each group shows. Methods differ only in how they get from one to the other, and none
of them sees a table, an engine or a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.results import Codes
from sfumato.hierarchy import EncodedHierarchy, Limit, Published, Ranges, ValueSets
from sfumato.privacy import Rules

__all__ = ["Problem", "Shape", "Solution"]

Shape = EncodedHierarchy | Ranges | ValueSets
"""How a column may be blurred: up a tree, into ranges, or into sets of values."""


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows to be grouped, and the rules.

    Parameters
    ----------
    entries
        Distinct combinations of the quasi-identifiers followed by the sensitive columns, with
        counts.
    qi, sensitive
        Names of the columns of `entries`, in their order there.
    sets
        Sets of quasi-identifiers for each of which the rules must hold; for all of them together
        where none are given. Only methods that judge several sets are given them.
    shapes
        For every quasi-identifier, how it may be blurred.
    rules
        The privacy models asked, compiled; `rules.k` is the least size of a group.
    weights
        Importance of precision of each quasi-identifier (price of a star for cell suppression).
    limits
        How far values may be blurred at most, by column.
    crowd
        Distinct combinations of the quasi-identifiers in a population, with counts, in the codes of
        `entries`: every group must match enough of its people (k-map). Methods never see it: they
        get a problem that holds the people among its entries (see `crowd`).
    people
        Which entries are people of the population and not rows to be released.
    apart
        A number for each entry; entries with different ones never share a group.
    options
        What only this method understands, already validated by it.
    """

    entries: Codes
    qi: tuple[str, ...]
    sensitive: tuple[str, ...]
    shapes: Mapping[str, Shape]
    rules: Rules
    weights: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    sets: tuple[tuple[str, ...], ...] = ()
    apart: npt.NDArray[Any] | None = None
    crowd: Codes | None = None
    people: npt.NDArray[np.bool_] | None = None

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows each entry stands for."""
        assert self.entries.counts is not None
        return self.entries.counts

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.entries.rows

    def weight(self, column: str) -> float:
        """Importance of a quasi-identifier; 1 unless the user said otherwise."""
        return self.weights.get(column, 1.0)


@dataclass(frozen=True, eq=False)
class Solution:
    """Groups of rows, and what each group shows.

    Parameters
    ----------
    groups
        Group of each piece, -1 where its rows are suppressed. A piece is an entry, or some of the
        rows of an entry where `entry` and `rows` say so.
    published
        What a quasi-identifier shows for each group, where it is blurred.
    starred
        For each group whether a quasi-identifier is starred; elsewhere its value stays. A column
        is in `published`, in `starred`, or untouched.
    entry, rows
        Which entry a piece belongs to (ascending) and how many of its rows it takes; None when
        piece i is the whole of entry i.
    lower_bound
        Proven lower bound of the cost the method minimises.
    details
        Further results, shown to the user.
    """

    groups: npt.NDArray[np.int32]
    published: Mapping[str, Published] = field(default_factory=dict)
    starred: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    entry: npt.NDArray[np.int64] | None = None
    rows: npt.NDArray[np.int64] | None = None
    lower_bound: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    stopped_by: str | None = None
    warnings: tuple[str, ...] = ()
