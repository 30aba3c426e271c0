"""Column sets that tell persons apart, where a person may have several rows.

Rows of one person need not be told apart: of a column set A those pairs of rows count that agree
on A and are of different persons, ``pairs(A) - pairs(A ∪ {person})``. That number falls as columns
are added, and so does the number of persons in a class, so that searches for keys, violations and
unique persons work as they do for rows. The distinct ratio, classes over different (class, person),
may rise and fall: it is measured, and not searched for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.columns.persons import require_person
from sfumato.engines.protocol import CodeArray, Codes, PersonSizes
from sfumato.errors import ParameterError
from sfumato.quasi.greedy import Path
from sfumato.quasi.sampling import all_combinations
from sfumato.tables import Table

Set = tuple[int, ...]


def require_separation(measure: str, person: str | None, sample: object = None) -> None:
    """Refuse what is only known of rows."""
    if person is None:
        return
    if measure == "distinct":
        raise ParameterError(
            "with persons the distinct ratio may fall when a column is added, so that no smallest "
            "set can be searched for",
            remedy="Ask for separation, which counts pairs of different persons.",
        )
    if sample is not None:
        raise ParameterError(
            "samples of rows say nothing sure about persons",
            remedy="Leave the sample out: with persons all rows are counted.",
        )


def persons_of(opened: Table, person: str | None) -> tuple[Table, str | None]:
    """The table without its person column, which is checked, and the name of that column."""
    if person is None:
        return opened, None
    require_person(opened, person)
    return opened.exclude([person]), person


@dataclass(frozen=True, eq=False)
class Histories:
    """Rows as codes, and whose they are.

    Attributes
    ----------
    codes
        The columns to choose from; rows, or distinct combinations with counts.
    who, persons
        Person of each entry, and how many persons there are.
    """

    codes: Codes
    who: CodeArray
    persons: int

    @classmethod
    def of(cls, opened: Table, person: str, budget: Budget) -> Histories:
        """Read the columns that a table shows together with the person."""
        both = Table(opened.engine, tuple(dict.fromkeys((*opened.columns, person))))
        codes = all_combinations(both, budget)
        return cls(codes.select(opened.columns), codes.column(person), len(codes.values_of(person)))

    def sizes(self, columns: Sequence[int]) -> PersonSizes:
        """Class sizes of a column set (by position)."""
        chosen = self.codes.select([self.codes.columns[c] for c in columns])
        return PersonSizes.counted(chosen, self.who, self.persons)

    def unseparated(self, columns: Sequence[int]) -> int:
        """Pairs of rows of different persons that agree on a column set."""
        return self.sizes(columns).unseparated_pairs

    @cached_property
    def everything(self) -> PersonSizes:
        """Class sizes of all columns."""
        return self.sizes(range(len(self.codes.columns)))

    def pairs_allowed(self, beta: float | None) -> int:
        """Pairs of different persons that may stay together; without β as few as possible."""
        if beta is None or beta == 1:
            return self.everything.unseparated_pairs
        return math.floor((1 - Fraction(repr(beta))) * self.everything.pairs_of_persons)

    def greedy(
        self, costs: Sequence[float], pairs: int, max_size: int | None, budget: Budget
    ) -> Path:
        """Add the column that separates most pairs of different persons for its cost."""
        state = _Parts.whole(self)
        path: list[int] = []
        left: list[int] = []
        while state.pairs > pairs and (max_size is None or len(path) < max_size):
            if budget.spent():
                return Path(tuple(path), tuple(left), budget.stopped_by)
            budget.progress(f"choosing column {len(path) + 1}")
            rates = [
                (state.pairs - state.after(c)) / costs[c] if c not in path else -1.0
                for c in range(len(costs))
            ]
            best = int(np.argmax(rates)) if rates else 0
            if not rates or rates[best] <= 0:
                break
            state = state.split(best)
            path.append(best)
            left.append(state.pairs)
        return Path(tuple(path), tuple(left))


@dataclass(frozen=True, eq=False)
class _Parts:
    """Rows parted by some columns, and by these and the person."""

    arrays: tuple[CodeArray, ...]
    cardinalities: tuple[int, ...]
    rows: kernels.Partition
    persons: kernels.Partition

    @classmethod
    def whole(cls, histories: Histories) -> _Parts:
        codes = histories.codes
        rows = kernels.whole(codes.entries, codes.counts)
        persons = kernels.split(rows, histories.who, histories.persons)
        return cls(tuple(codes.arrays), codes.cardinalities, rows, persons)

    @property
    def pairs(self) -> int:
        """Pairs of rows of different persons that are together."""
        return int(self.rows.pairs - self.persons.pairs)

    def after(self, column: int) -> int:
        """What `pairs` would be after a split by a column."""
        cells = self.arrays[column], self.cardinalities[column]
        rows, persons = (kernels.pairs_after(one, *cells) for one in (self.rows, self.persons))
        return int(rows - persons)

    def split(self, column: int) -> _Parts:
        """Parted by one more column."""
        cells = self.arrays[column], self.cardinalities[column]
        return replace(
            self,
            rows=kernels.split(self.rows, *cells),
            persons=kernels.split(self.persons, *cells),
        )


class PersonSeparation:
    """Pairs of rows of different persons that a set separates; what masking may not exceed."""

    def __init__(self, histories: Histories, beta: float) -> None:
        self.histories = histories
        self.total = histories.everything.pairs_of_persons
        self.limit = math.floor(Fraction(repr(float(beta))) * self.total)

    def start(self) -> _Parts:
        return _Parts.whole(self.histories)

    def after(self, state: _Parts, column: int) -> int:
        return self.total - state.after(column)

    def add(self, state: _Parts, column: int) -> _Parts:
        return state.split(column)

    def value(self, columns: Sequence[int]) -> int:
        return self.total - self.histories.unseparated(columns)
