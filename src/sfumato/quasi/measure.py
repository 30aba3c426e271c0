"""How well a set of columns tells people apart: exact figures from one histogram of class sizes.

The measures are those of Motwani & Xu (distinct and separation ratio) and Lodha & Thomas
(uniqueness), with the k of k-anonymity beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.budget import Budget
from sfumato.columns.persons import require_person
from sfumato.engines.results import ClassSizes, PersonSizes
from sfumato.results import Result
from sfumato.tables import table

__all__ = ["Measures", "measure", "measures_of", "measures_of_persons"]


@dataclass(frozen=True)
class Measures(Result):
    """What a column set reveals.

    Ratios lie in [0, 1]; without rows all are 1 and `k` is None. Where persons are counted, `k` is
    the persons of the smallest class, `unique` the share of persons who have a combination that
    nobody else has, and `distinct` and `separation` are about rows of different persons.
    """

    columns: tuple[str, ...]
    rows: int
    classes: int
    unique_rows: int
    unseparated_pairs: int
    distinct: float
    separation: float
    unique: float
    k: int | None
    persons: int | None = None
    unique_persons: int | None = None

    @property
    def alone(self) -> int:
        """Who stands alone: rows, or persons where those are counted."""
        return self.unique_rows if self.unique_persons is None else self.unique_persons

    @property
    def total(self) -> int:
        """Of how many: rows, or persons."""
        return self.rows if self.persons is None else self.persons


def measures_of(columns: Sequence[str], sizes: ClassSizes) -> Measures:
    """The measures of a histogram of class sizes."""
    return Measures(
        columns=tuple(columns),
        rows=sizes.rows,
        classes=sizes.classes,
        unique_rows=sizes.unique_rows,
        unseparated_pairs=sizes.unseparated_pairs,
        distinct=sizes.distinct,
        separation=sizes.separation,
        unique=sizes.unique,
        k=sizes.k,
    )


def measures_of_persons(columns: Sequence[str], sizes: PersonSizes) -> Measures:
    """The measures of class sizes in persons."""
    return Measures(
        columns=tuple(columns),
        rows=sizes.rows.rows,
        classes=sizes.rows.classes,
        unique_rows=sizes.rows.unique_rows,
        unseparated_pairs=sizes.unseparated_pairs,
        distinct=sizes.distinct,
        separation=sizes.separation,
        unique=sizes.unique,
        k=sizes.k,
        persons=sizes.number,
        unique_persons=sizes.alone,
    )


def measure(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    person: str | None = None,
    budget: Budget | None = None,
) -> Measures:
    """Measure how well a set of columns tells the rows of a table apart.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Column names; None means all columns.
    person
        Which rows belong to one person: persons are told apart, not rows.
    budget
        Limits of time and memory.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> found = sf.measure(people, ["sex", "state"])
    >>> found.distinct, found.separation, found.k
    (0.8, 0.9, 1)
    """
    opened = table(source, budget=budget)
    names = opened.require(columns)
    if person is not None:
        require_person(opened, person, names if columns is not None else ())
        names = tuple(name for name in names if name != person)
        return measures_of_persons(names, opened.person_sizes(names, person, budget))
    return measures_of(names, opened.class_sizes(names, budget))
