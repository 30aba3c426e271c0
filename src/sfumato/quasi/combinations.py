"""Which two or three columns together point at most people, and how far a few columns lead.

Small tables are counted whole. In large ones all pairs and triples are first counted on a sample,
the better ones on a larger sample, and the best on the whole table: what is shown is exact, only
the choice is not. The choice carries a guarantee. A row that is unique in the table is unique in
every sample that holds it, and by Hoeffding's inequality (for sampling without replacement,
Hoeffding 1963, section 6) the share of such rows in a sample of r rows is within
``sqrt(ln(M / δ) / 2r)`` below the share in the table, for all M column sets at once with
probability 1 - δ. So the share of unique rows in the sample plus that margin bounds the share in
the table of every column set that was not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.engines.sizes import ClassSizes
from sfumato.errors import BudgetError
from sfumato.quasi.looking import Look, positions
from sfumato.quasi.measure import Measures, measures_of
from sfumato.results import Result

if TYPE_CHECKING:
    from sfumato.tables import Table

__all__ = ["Choice", "Combinations", "most_identifying"]

SHOWN = 3
"""Pairs, and triples, that are counted exactly and returned."""
RUNGS = 8
"""Columns that the ladder climbs at most."""
CONFIDENCE = 0.99
CELLS_TO_COUNT = 2e8
"""Rows times column sets that are counted without a second thought (a second or two)."""
ROWS_AT_FIRST = (5_000, 50_000)
"""Fewest and most rows of the first sample."""
FINALISTS = 100
"""Pairs, and triples, that are counted again on the larger sample."""
WIDEST = 100
"""Columns that are combined; in wider tables those with most values."""
MOST_TRIPLES = 12_000
"""Beyond this only triples that extend one of the best pairs are looked at."""
EXTENDED = 40
"""The best pairs, in that case."""

WORTH_LEAVING_OUT = 0.2
"""Share of unique rows from which on they are left out of further counting."""

ColumnSet = tuple[str, ...]


@dataclass(frozen=True)
class Choice(Result):
    """How column sets were chosen where not all of them were counted on all rows.

    With probability `confidence` no pair (triple) other than those returned makes a larger share
    of the rows unique than `other_pairs_at_most` (`other_triples_at_most`); None where not all of
    them were looked at.
    """

    first_sample: int
    sample: int
    confidence: float
    pairs: int
    triples: int
    other_pairs_at_most: float | None
    other_triples_at_most: float | None


@dataclass(frozen=True, eq=False)
class Combinations:
    """The most identifying pairs and triples, the ladder, and how they were chosen."""

    best: tuple[Measures, ...]
    ladder: tuple[Measures, ...]
    choice: Choice | None


def most_identifying(
    table: Table, columns: Sequence[str], look: Look, *, seed: int, budget: Budget
) -> Combinations:
    """The pairs and triples of columns that make most rows unique, and a greedy ladder.

    Triples are those in which every column helps: no pair in them makes as many rows unique.

    Parameters
    ----------
    table, look
        The table and its first look.
    columns
        Columns to combine.
    seed
        Of the smaller sample.
    budget
        When it is spent, what was counted so far is returned.
    """
    names = _widest(columns, look)
    sample = look.sample.select(names)
    small = _smaller(sample, len(names), seed)
    first = _Counts(small, budget)
    pairs = list(combinations(names, 2))
    first.count(pairs, "comparing pairs")
    triples = _triples(names, first)
    first.count(triples, "comparing triples")
    second = first
    if small is not sample:
        second = _Counts(sample, budget)
        second.count(first.ranked(2)[:FINALISTS], "comparing the best pairs again")
        second.count(first.helping_triples()[:FINALISTS], "comparing the best triples again")

    def exact(chosen: ColumnSet) -> Measures:
        return measures_of(chosen, table.class_sizes(chosen, budget))

    chosen = [*second.ranked(2)[:SHOWN], *second.helping_triples()[:SHOWN]]
    best = _while_time(budget, exact, chosen)
    best.sort(key=lambda m: (len(m.columns), -m.unique_rows, m.unseparated_pairs))
    choice = None
    every_set = math.comb(len(columns), 2), math.comb(len(columns), 3)
    if not look.whole or small is not sample or (len(pairs), len(triples)) != every_set:
        left_out = _LeftOut(first, second, look.whole, {m.columns for m in best})
        choice = Choice(
            first_sample=small.entries,
            sample=sample.entries,
            confidence=CONFIDENCE,
            pairs=len(pairs),
            triples=len(triples),
            other_pairs_at_most=left_out.at_most(2, every_set[0]),
            other_triples_at_most=left_out.at_most(3, every_set[1]),
        )
    return Combinations(tuple(best), tuple(_ladder(names, second, exact, budget)), choice)


def _widest(columns: Sequence[str], look: Look) -> list[str]:
    classes = {facts.name: facts.classes for facts in look.facts}
    kept = set(sorted(columns, key=lambda name: -classes[name])[:WIDEST])
    return [name for name in columns if name in kept]


def _smaller(sample: Codes, columns: int, seed: int) -> Codes:
    """The sample itself, or as many of its rows as all pairs and triples can be counted on."""
    sets = math.comb(columns, 2) + min(math.comb(columns, 3), MOST_TRIPLES)
    if sets * sample.entries <= CELLS_TO_COUNT:
        return sample
    fewest, most = ROWS_AT_FIRST
    rows = int(min(max(CELLS_TO_COUNT / sets, fewest), most))
    return sample if rows >= sample.entries else sample.take(positions(sample.entries, rows, seed))


def _triples(names: Sequence[str], counts: _Counts) -> list[ColumnSet]:
    if math.comb(len(names), 3) <= MOST_TRIPLES:
        return list(combinations(names, 3))
    order = {name: at for at, name in enumerate(names)}
    extended = {
        tuple(sorted({*pair, name}, key=order.__getitem__))
        for pair in counts.ranked(2)[:EXTENDED]
        for name in names
        if name not in pair
    }
    return sorted(extended, key=lambda triple: [order[name] for name in triple])


def _while_time(
    budget: Budget, exact: Callable[[ColumnSet], Measures], sets: Sequence[ColumnSet]
) -> list[Measures]:
    found: list[Measures] = []
    for chosen in sets:
        budget.progress(f"counting {', '.join(chosen)}", len(found) / len(sets))
        if budget.spent():
            break
        try:
            found.append(exact(chosen))
        except BudgetError:
            break
    return found


def _ladder(
    names: Sequence[str],
    counts: _Counts,
    exact: Callable[[ColumnSet], Measures],
    budget: Budget,
) -> list[Measures]:
    """Add the column that makes most rows unique, again and again, until it does not help."""
    rungs: list[Measures] = []
    while len(rungs) < min(RUNGS, len(names)):
        standing: ColumnSet = rungs[-1].columns if rungs else ()
        longer = [(*standing, name) for name in names if name not in standing]
        counts.count(longer, "adding columns")
        counted = [chosen for chosen in longer if chosen in counts.figures]
        if not counted:
            break
        rung = _while_time(budget, exact, [min(counted, key=counts.worth)])
        if not rung or (rungs and rung[0].classes == rungs[-1].classes):
            break
        rungs.extend(rung)
        if rung[0].unique_rows == rung[0].rows:
            break
    return rungs


class _Counts:
    """Unique rows and unseparated pairs of column sets, counted on the same rows."""

    def __init__(self, codes: Codes, budget: Budget) -> None:
        self.codes = codes
        self.budget = budget
        self.figures: dict[ColumnSet, tuple[int, int]] = {}
        self._start = _Start((), None, 1, None, 0)

    def count(self, sets: Sequence[ColumnSet], doing: str) -> None:
        """Count these sets until the budget is spent; quickest if equal beginnings are together."""
        for at, columns in enumerate(sets):
            if at % 64 == 0:
                if self.budget.spent():
                    return
                self.budget.progress(doing, at / len(sets))
            if columns not in self.figures:
                self.figures[columns] = self._count(columns)

    def ranked(self, size: int) -> list[ColumnSet]:
        """The counted sets of this many columns, most identifying first."""
        return sorted((c for c in self.figures if len(c) == size), key=self.worth)

    def helping_triples(self) -> list[ColumnSet]:
        """The counted triples in which every column helps: no pair in it does as well."""
        return [
            triple
            for triple in self.ranked(3)
            if all(
                self.figures.get(pair, (-1,))[0] < self.figures[triple][0]
                for pair in combinations(triple, 2)
            )
        ]

    def worth(self, columns: ColumnSet) -> tuple[int, int, int]:
        """Sorts most identifying sets first: most unique rows, then fewest pairs left together.

        Where a small sample cannot tell sets apart any more, the last column with more values wins.
        """
        unique, pairs = self.figures[columns]
        return -unique, pairs, -len(self.codes.values_of(columns[-1]))

    def _count(self, columns: ColumnSet) -> tuple[int, int]:
        from sfumato import kernels

        start = self._started(columns[:-1])
        last = self.codes.column(columns[-1])
        arrays = [last if start.rows is None else last[start.rows]]
        cardinalities = [len(self.codes.values_of(columns[-1]))]
        if start.ids is not None:
            arrays.insert(0, start.ids)
            cardinalities.insert(0, start.classes)
        sizes, classes = kernels.size_histogram(
            arrays, cardinalities, entries=len(arrays[0]), threads=self.budget.threads
        )
        found = ClassSizes(sizes, classes)
        return start.unique + found.unique_rows, found.unseparated_pairs

    def _started(self, columns: ColumnSet) -> _Start:
        """The classes of all columns but the last, kept while sets begin with the same ones."""
        from sfumato import kernels

        if self._start.columns != columns:
            codes = self.codes.select(columns)
            ids, classes = kernels.class_ids(
                codes.arrays,
                codes.cardinalities,
                entries=codes.entries,
                ordered=False,
                threads=self.budget.threads,
            )
            sizes = kernels.group_sums(ids, classes)
            unique = int((sizes == 1).sum())
            if unique > WORTH_LEAVING_OUT * codes.entries:
                rows = np.flatnonzero(sizes[ids] > 1)
                self._start = _Start(columns, ids[rows], classes, rows, unique)
            else:
                self._start = _Start(columns, ids, classes, None, 0)
        return self._start


@dataclass(frozen=True, eq=False)
class _Start:
    """Classes of the first columns of a set, of the rows that are still to be told apart."""

    columns: ColumnSet
    ids: npt.NDArray[np.uint32] | None
    classes: int
    rows: npt.NDArray[np.int64] | None
    """The rows that `ids` are of; None for all."""
    unique: int
    """Unique rows that were left out."""


@dataclass(frozen=True)
class _LeftOut:
    """The column sets that were counted on samples only."""

    first: _Counts
    second: _Counts
    whole: bool
    """Whether the second sample is the table."""
    returned: set[ColumnSet]

    def at_most(self, size: int, sets: int) -> float | None:
        """Bound on the share of unique rows of every set of this size that was not returned."""
        if sum(len(columns) == size for columns in self.first.figures) < sets:
            return None
        shares = [
            self._share(self.second, columns, self.whole)
            if columns in self.second.figures
            else self._share(self.first, columns, False)
            for columns in self.first.figures
            if len(columns) == size and columns not in self.returned
        ]
        return min(1.0, max(shares)) if shares else None

    def _share(self, counts: _Counts, columns: ColumnSet, exact: bool) -> float:
        rows = counts.codes.entries
        share = counts.figures[columns][0] / rows
        # half of the risk for each of the two samples, spread over all sets
        risk = (1.0 - CONFIDENCE) / 2 / len(self.first.figures)
        return share if exact else share + math.sqrt(-math.log(risk) / (2 * rows))
