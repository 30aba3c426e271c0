"""Who is exposed: minimal sample uniques of every row, and scores made of them.

A *minimal sample unique* of a row is a column set on which the row is alone, and on none of whose
subsets it is. The fewer columns it takes and the more such sets there are, the easier the person
is to find: SUDA's score adds ∏_{i=s}^{M} (m - i) for every set of s of m columns, M being the
largest size looked at (Elliot, Manning & Ford 2002; Manning, Haglin & Keane 2008).

The DIS score estimates the probability that a match with a unique row is right, from the number of
uniques and pairs and the sampling fraction (Skinner & Elliot 2002), and shares it out among rows by
their SUDA score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import PROGRAM_MEMORY, Budget, within_budget
from sfumato.engines.numbering import SEARCH_BYTES
from sfumato.engines.protocol import Codes
from sfumato.errors import ColumnError, EngineMemoryError, ParameterError, spell
from sfumato.quasi.greedy import histogram
from sfumato.quasi.persons import Histories, persons_of
from sfumato.quasi.proof import held_here
from sfumato.quasi.sampling import all_combinations
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.wording import counted

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class RowUniques(Result):
    """One exposed row: its number (from 0), its minimal uniques by size, and its scores.

    The number is None where rows have no order of their own (databases).
    """

    row: int | None
    smallest: int
    by_size: tuple[int, ...]
    score: float
    dis: float


@dataclass(frozen=True)
class Uniques(Result):
    """Rows that few columns single out.

    Attributes
    ----------
    exposed_rows
        Rows with a minimal unique of at most `max_size` columns; where persons are counted, those
        that are like no other person's.
    by_size
        For each size 1 … `max_size`, the number of minimal uniques and of rows that have one.
    columns
        For each column the share of the total score that comes from sets which contain it.
    riskiest
        The rows with the highest scores.
    dis
        Estimated probability that a match with a unique row is right.
    complete
        Whether all sets were looked at.
    persons, exposed_persons
        Persons, and those who have a combination that nobody else has; None where rows are
        counted.
    """

    rows: int
    max_size: int
    exposed_rows: int
    by_size: tuple[Mapping[str, int], ...]
    columns: Mapping[str, float]
    riskiest: tuple[RowUniques, ...]
    dis: float
    complete: bool
    stopped_by: str | None
    persons: int | None
    exposed_persons: int | None
    scores: npt.NDArray[np.float64] = field(repr=False, metadata={"private": True})
    smallest: npt.NDArray[np.uint8] = field(repr=False, metadata={"private": True})
    fewest: npt.NDArray[np.uint8] | None = field(repr=False, metadata={"private": True})
    """For each person, the fewest columns that single one of their rows out; 0: none does."""


@within_budget
def uniques(
    source: Any,
    *,
    max_size: int = 3,
    columns: Sequence[str] | None = None,
    sampling_fraction: float = 0.01,
    top: int = 10,
    person: str | None = None,
    budget: Budget | None = None,
) -> Uniques:
    """Find the rows that few columns single out.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    max_size
        Largest column sets to look at.
    columns
        Columns an adversary may know; None means all.
    sampling_fraction
        Share of the population that is in the table, for the DIS score.
    top
        How many of the riskiest rows to list.
    person
        Which rows belong to one person: a row is singled out where all rows like it are hers.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [20, 20, 30, 30], "sex": ["F", "M", "M", "M"]})
    >>> found = sf.uniques(people, max_size=2)
    >>> found.exposed_rows, [(r.row, r.by_size) for r in found.riskiest]
    (2, [(0, (1, 0)), (1, (0, 1))])
    """
    if max_size < 1:
        raise ParameterError(f"max_size = {max_size} is out of range", remedy="Give 1 or more.")
    if not 0 < sampling_fraction <= 1:
        raise ParameterError(
            f"a sampling fraction of {sampling_fraction:g} is out of range",
            remedy="Give the share of the population that is in the table, e.g. 0.01.",
        )
    budget = budget or Budget()
    opened = table(source, budget=budget)
    opened, person = persons_of(opened, person)
    if columns is not None:
        opened = opened.select(columns)
    if not opened.columns:
        raise ColumnError("no columns were named", where=opened.name, remedy="Name at least one.")
    budget.progress("reading the table")
    if person is None:
        histories, codes = None, held_here(opened, budget) or all_combinations(opened, budget)
        sizes = histogram(codes, range(len(codes.columns)))
    else:
        histories = Histories.of(opened, person, budget)
        codes, sizes = histories.codes, histories.everything.persons
    _refuse_too_many(opened, codes, max_size, budget)
    search = _Search(codes, min(max_size, len(codes.columns)), histories)
    complete = search.run(budget)
    dis = _match_probability(sizes.to_dict(), sampling_fraction)
    return search.result(opened.columns, max_size, dis, top, complete, budget)


def _refuse_too_many(opened: Table, codes: Codes, max_size: int, budget: Budget) -> None:
    """Refuse to look at more sets than can be remembered until larger ones were looked at.

    A set has a bit for each entry while sets of one column more are looked at.
    """
    if budget.memory is None:
        return
    width = len(codes.columns)
    kept = (math.comb(width, size) + math.comb(width, size - 1) for size in range(1, max_size))
    each = SEARCH_BYTES + 4 * max_size + max(kept, default=0) / 8
    needed = int(sum(array.nbytes for array in codes.arrays) + codes.entries * each)
    if not budget.holds(needed):
        fewer = (
            [f"look at smaller sets ({spell('max_size', max_size - 1)})"] if max_size > 1 else []
        )
        ways = ["Choose fewer columns", *fewer, f"or allow more memory ({spell('memory', '4GB')})"]
        raise EngineMemoryError(
            f"looking at sets of up to {counted(max_size, 'column')} out of {width:,} takes about "
            f"{needed + PROGRAM_MEMORY >> 20:,} MiB, more than the {budget.memory >> 20:,} MiB "
            "allowed",
            where=opened.name,
            remedy=", ".join(ways) + ".",
        )


class _Search:
    """Goes through column sets by size and remembers which rows each of them singles out."""

    def __init__(self, codes: Codes, max_size: int, histories: Histories | None = None) -> None:
        self.codes, self.max_size, self.histories = codes, max_size, histories
        entries, width = codes.entries, len(codes.columns)
        self.counts = np.zeros((max_size, entries), dtype=np.uint32)
        self.contribution = np.zeros(width)
        self.single = np.ones(entries, bool) if codes.counts is None else codes.counts == 1

    def run(self, budget: Budget) -> bool:
        """Look at all sets; whether there was time for all."""
        width = len(self.codes.columns)
        below: dict[tuple[int, ...], Bits] = {}
        total = sum(math.comb(width, size) for size in range(1, self.max_size + 1))
        looked = 0
        for size in range(1, self.max_size + 1):
            here: dict[tuple[int, ...], Bits] = {}
            for shared in combinations(range(width), size - 1):
                groups, count = self._groups(shared)
                for column in range(shared[-1] + 1 if shared else 0, width):
                    if looked % 16 == 0:
                        budget.progress(f"sets of {counted(size, 'column')}", looked / total)
                        if budget.spent():
                            return False
                    looked += 1
                    alone = self._alone(groups, count, column)
                    columns = (*shared, column)
                    self._count(columns, alone, below)
                    if size < self.max_size:
                        here[columns] = np.packbits(alone)
            below = here
        return True

    def _groups(self, columns: Sequence[int]) -> tuple[npt.NDArray[np.uint32], int]:
        return kernels.class_ids(
            [self.codes.arrays[c] for c in columns],
            [self.codes.cardinalities[c] for c in columns],
            entries=self.codes.entries,
            ordered=False,
        )

    def _alone(
        self, groups: npt.NDArray[np.uint32], count: int, column: int
    ) -> npt.NDArray[np.bool_]:
        """Entries of one row that are alone in their class; or those of a person who is."""
        codes = self.codes
        ids, classes = kernels.class_ids(
            [groups, codes.arrays[column]], [count, codes.cardinalities[column]], ordered=False
        )
        if self.histories is not None:
            held = kernels.group_distinct(ids, classes, self.histories.who, self.histories.persons)
            return np.asarray((held == 1)[ids])
        sizes = kernels.group_sums(ids, classes)
        alone: npt.NDArray[np.bool_] = (sizes == 1)[ids] & self.single
        return alone

    def _count(
        self,
        columns: tuple[int, ...],
        alone: npt.NDArray[np.bool_],
        below: Mapping[tuple[int, ...], Bits],
    ) -> None:
        """Count the set for the rows it singles out and no subset does."""
        size = len(columns)
        if size > 1:
            known = np.zeros((len(alone) + 7) // 8, dtype=np.uint8)
            for part in combinations(columns, size - 1):
                known |= below[part]
            alone = alone & ~np.unpackbits(known, count=len(alone)).astype(np.bool_)
        self.counts[size - 1] += alone
        self.contribution[list(columns)] += self._rows(alone) * self._score(size)

    def _rows(self, chosen: npt.NDArray[np.bool_]) -> int:
        """Rows of some entries."""
        counts = self.codes.counts
        return int(np.count_nonzero(chosen) if counts is None else counts[chosen].sum())

    def _score(self, size: int) -> float:
        """SUDA's score of one minimal unique of that size; 1 where all factors are used up."""
        width = len(self.codes.columns)
        return float(math.prod(max(1, width - i) for i in range(size, self.max_size + 1)))

    def result(
        self,
        names: Sequence[str],
        max_size: int,
        dis: float,
        top: int,
        complete: bool,
        budget: Budget,
    ) -> Uniques:
        """The figures people read."""
        per_size = np.array([self._score(size) for size in range(1, self.max_size + 1)])
        scores = np.asarray(per_size @ self.counts, dtype=np.float64)
        has = self.counts > 0
        smallest = np.where(has.any(axis=0), has.argmax(axis=0) + 1, 0).astype(np.uint8)
        exposed = self._rows(smallest > 0)
        each = 1 if self.codes.counts is None else self.codes.counts
        total = float((scores * each).sum())
        shared = np.minimum(1.0, dis * exposed * scores / total) if total else scores
        order = np.argsort(-scores, kind="stable")[: min(top, np.count_nonzero(smallest))]
        fewest = self._fewest(smallest)
        return Uniques(
            rows=self.codes.rows,
            max_size=max_size,
            exposed_rows=exposed,
            by_size=tuple(
                {
                    "size": size,
                    "uniques": int((self.counts[size - 1] * each).sum()),
                    "rows": self._rows(has[size - 1]),
                }
                for size in range(1, self.max_size + 1)
            ),
            columns={
                name: float(self.contribution[at] / total) if total else 0.0
                for at, name in enumerate(names)
            },
            riskiest=tuple(
                RowUniques(
                    row=int(at) if self.codes.counts is None else None,
                    smallest=int(smallest[at]),
                    by_size=tuple(int(c) for c in self.counts[:, at]),
                    score=float(scores[at]),
                    dis=float(shared[at]),
                )
                for at in order
            ),
            dis=dis,
            complete=complete,
            stopped_by=budget.stopped_by,
            persons=None if self.histories is None else self.histories.persons,
            exposed_persons=None if fewest is None else int(np.count_nonzero(fewest)),
            scores=scores,
            smallest=smallest,
            fewest=fewest,
        )

    def _fewest(self, smallest: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8] | None:
        """The same for each person: of their rows that which takes the fewest columns."""
        if self.histories is None:
            return None
        none = np.uint8(255)
        found = np.full(self.histories.persons, none)
        np.minimum.at(found, self.histories.who, np.where(smallest > 0, smallest, none))
        return np.where(found == none, 0, found).astype(np.uint8)


def _match_probability(sizes: Mapping[int, int], fraction: float) -> float:
    """DIS: U·π / (U·π + 2·P·(1-π)), with U rows alone and P pairs alike in the whole table.

    A row is taken out and put back with probability π. It then matches one row alone if it was
    alone and came back, or if it was one of two and did not: either row of the pair may be taken.
    """
    alone, twos = sizes.get(1, 0) * fraction, 2 * sizes.get(2, 0) * (1 - fraction)
    return alone / (alone + twos) if alone + twos else 0.0
