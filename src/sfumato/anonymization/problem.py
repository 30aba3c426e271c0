"""What every anonymizer gets and gives back.

A *problem* is the distinct combinations of quasi-identifiers (and sensitive values) with their
counts, how each column may be blurred, and what must hold. A *solution* puts the rows into groups
and says what each group shows. Methods differ only in how they get from one to the other, and none
of them sees a table, an engine or a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.results import Codes
from sfumato.hierarchy import EncodedHierarchy, Limit, Published, Ranges, ValueSets
from sfumato.privacy import Rules
from sfumato.utility import View

if TYPE_CHECKING:
    from sfumato.anonymization.actions import Merged

__all__ = ["Problem", "Shape", "Solution", "group_view", "piece_view"]

Array = npt.NDArray[Any]

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
        where none are given. Of the methods only those that judge several sets are given them.
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
    person
        The column of `entries` that says whose rows an entry is, where persons are counted: its
        codes are the runs of `rules` (see `sfumato.anonymization.persons`).
    apart
        A number for each entry; entries with different ones never share a group.
    options
        What only this method understands, already validated by it.
    original, merged
        Entries as the table has them, and how they became `entries`, where actions changed values;
        methods need neither.
    histories
        Where persons are counted, the entries as the table has them with the person beside them.
    inferred
        For each column whose tree was inferred, why it looks as it does.
    held
        By quasi-identifier, how many rows (or persons, where those count) hold each value.
    wildcards
        Whether missing and starred cells match any value, of which a method may make use.
    part
        Whether the entries are part of a table that is solved in parts: rules compare with the
        distribution of the whole, and columns are written in the types that other parts write.
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
    person: str | None = None
    apart: npt.NDArray[Any] | None = None
    crowd: Codes | None = None
    people: npt.NDArray[np.bool_] | None = None
    original: Codes | None = None
    merged: Merged | None = None
    histories: Codes | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    wildcards: bool = False
    part: bool = False

    @property
    def source(self) -> Codes:
        """Entries as the table has them."""
        return self.entries if self.original is None else self.original

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
    solves
        The problem, once the solution is the answer to a request.
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
    solves: Problem | None = field(default=None, repr=False)

    @property
    def problem(self) -> Problem:
        """The problem that was solved."""
        assert self.solves is not None
        return self.solves

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each group; with several sets a class of one set may be many groups."""
        return _group_sizes(self.problem, self)

    @cached_property
    def view(self) -> View:
        """The groups as measures of utility read them."""
        return group_view(self.problem, self)

    def view_of(self, names: tuple[str, ...]) -> View:
        """The same with the columns of one set only, whose classes are what it promises."""
        if set(names) == set(self.view.columns):
            return self.view
        return View(
            {name: self.view.original[name] for name in names},
            {name: self.view.published[name] for name in names},
            self.view.counts,
        )


def _group_sizes(problem: Problem, solution: Solution) -> npt.NDArray[np.int64]:
    """Rows of each group."""
    rows = problem.counts if solution.rows is None else solution.rows
    kept = solution.groups >= 0
    if kept.all():
        return np.bincount(solution.groups, weights=rows).astype(np.int64)
    return np.bincount(solution.groups[kept], weights=rows[kept]).astype(np.int64)


def group_view(problem: Problem, solution: Solution) -> View:
    """Groups in place of rows; all suppressed rows are one entry that shows nothing.

    The original codes of a view are of no use here and are left zero.
    """
    sizes = _group_sizes(problem, solution)
    kept = np.flatnonzero(solution.groups >= 0)
    shown = np.flatnonzero(sizes)
    counts = sizes[shown]
    left_out = problem.rows - int(counts.sum())
    if left_out:
        shown, counts = np.append(shown, -1), np.append(counts, left_out)
    member = np.zeros(len(sizes), dtype=np.int64)  # any piece of each group
    member[solution.groups[kept]] = kept
    entry = member if solution.entry is None else solution.entry[member]
    published = {}
    for name in problem.qi:
        column = _of_groups(problem, solution, name, entry, np.arange(len(sizes)))
        published[name] = column.take(shown)
    return View(dict.fromkeys(published, np.zeros(len(counts), np.int64)), published, counts)


def piece_view(problem: Problem, solution: Solution) -> View:
    """Entries (or pieces of them) with their original codes and what they show."""
    pieces = len(solution.groups)
    entry = np.arange(pieces) if solution.entry is None else solution.entry
    rows = problem.counts if solution.rows is None else solution.rows
    left_out = solution.groups < 0
    original, published = {}, {}
    for name in problem.qi:
        original[name] = problem.entries.column(name)[entry].astype(np.int64)
        if name in solution.published:
            published[name] = solution.published[name].take(solution.groups)
        else:
            column = _of_groups(problem, solution, name, entry, solution.groups)
            published[name] = column.take(np.where(left_out, -1, np.arange(pieces)))
    return View(original, published, rows)


def _of_groups(
    problem: Problem, solution: Solution, name: str, entry: Array, groups: Array
) -> Published:
    """What a column shows: blurred, starred or as it was."""
    if name in solution.published:
        return solution.published[name]
    stars = np.zeros(len(groups), dtype=bool)
    if name in solution.starred:
        stars = (groups >= 0) & solution.starred[name][groups]
    codes = problem.entries.column(name)[entry]
    return Published.starred(problem.entries.values_of(name), codes, stars)
