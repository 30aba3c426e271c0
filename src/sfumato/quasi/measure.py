"""How well a set of columns tells people apart: exact figures from one histogram of class sizes.

The measures are those of Motwani & Xu (distinct and separation ratio) and Lodha & Thomas
(uniqueness), with the k of k-anonymity beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.budget import Budget, within_budget
from sfumato.columns.persons import require_person
from sfumato.engines.protocol import ClassSizes, Codes, PersonSizes
from sfumato.errors import ParameterError, spell
from sfumato.privacy.classes import matching_sizes
from sfumato.privacy.models import require_missing
from sfumato.results import Result
from sfumato.tables import table


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


def _by_wildcards(columns: Sequence[str], entries: Codes) -> Measures:
    """The measures where a missing cell matches any value."""
    assert entries.counts is not None
    own, matching = entries.counts, matching_sizes(entries)
    pairs = int((own * (matching - 1)).sum()) // 2
    rows, alone = int(own.sum()), int(own[matching == 1].sum())
    plain = measures_of(columns, ClassSizes.of_counts(own))
    return replace(
        plain,
        unique_rows=alone,
        unseparated_pairs=pairs,
        separation=1.0 - 2 * pairs / (rows * (rows - 1)) if rows > 1 else 1.0,
        unique=alone / rows if rows else 1.0,
        k=int(matching.min()) if rows else None,
    )


@within_budget
def measure(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    person: str | None = None,
    missing: str = "value",
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
    missing
        What a missing cell is: a value like any other, or a ``wildcard``, which no value tells
        apart from any other. Rows that lack other columns are in classes of their own in any case.
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
    if require_missing(missing):
        if person is not None:
            raise ParameterError(
                "with wildcards rows are counted, not persons",
                remedy=f"Leave out the person, or {spell('missing', 'wildcard')}.",
            )
        return _by_wildcards(names, opened.classes(names, budget=budget))
    if person is not None:
        require_person(opened, person, names if columns is not None else ())
        names = tuple(name for name in names if name != person)
        return measures_of_persons(names, opened.person_sizes(names, person, budget))
    return measures_of(names, opened.class_sizes(names, budget))
