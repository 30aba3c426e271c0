"""Measure any table against privacy models, independently of what made it.

All models are monotone: the union of classes is never worse than the worst of them. So what the
whole table does not satisfy as one class, no release of its rows satisfies.

Risks are those of classes, too: how likely somebody who knows the quasi-identifiers finds the right
row (see `sfumato.risks`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.hierarchy.tree import Array
from sfumato.kernels import (
    class_ids,
    combination_sums,
    group_distinct,
    group_min,
    group_sums,
    representatives,
)
from sfumato.privacy.base import Counted, Model, SensitiveColumn
from sfumato.privacy.classes import Cells, ClassHistogram, matching_pairs, matching_rows
from sfumato.results import Result
from sfumato.wording import counted, noun


@dataclass(frozen=True)
class ModelFinding(Result):
    """What one model measured on the classes of one set of quasi-identifiers.

    Attributes
    ----------
    model
        Its name.
    qi
        The quasi-identifiers.
    column
        The sensitive column, if any.
    asked, measured
        What was asked and what the worst class has, numbers under the same names; what an empty
        table has is None.
    failing_classes, failing_rows
        Classes that do not satisfy the model, and their rows.
    failing_persons
        Those who have such a row; None where rows are counted, or parts of a table.
    """

    model: str
    qi: tuple[str, ...]
    column: str | None
    asked: Mapping[str, Any]
    measured: Mapping[str, Any]
    holds: bool
    failing_classes: int
    failing_rows: int
    failing_persons: int | None = field(default=None, metadata={"private": True})

    @property
    def say(self) -> str:
        """What was measured and asked, in a line."""
        asked = ", ".join(f"{name} = {value:g}" for name, value in self.asked.items())
        measured = ", ".join(
            f"{name} = {'none' if value is None else format(value, '.6g')}"
            for name, value in self.measured.items()
        )
        of = f" of {self.column}" if self.column else ""
        failing = (
            f" ({counted(self.failing_rows, 'row', does='fail')})" if self.failing_rows else ""
        )
        return (
            f"{self.model}{of} on {', '.join(self.qi)}: {measured} measured, {asked} asked{failing}"
        )


@dataclass(frozen=True)
class Check(Result):
    """Whether every model holds for every set of quasi-identifiers.

    `k` and `classes` are of the first set; `wildcards` says how suppressed cells were read.
    """

    holds: bool
    findings: tuple[ModelFinding, ...]
    rows: int
    classes: int
    k: int | None
    wildcards: bool


@dataclass(frozen=True, eq=False)
class Population:
    """The population that k-map looks people up in, in the codes of the checked table.

    Parameters
    ----------
    codes
        The quasi-identifiers of the population, recoded as the table was.
    counts
        Rows each entry stands for.
    """

    codes: Mapping[str, Array]
    counts: Array | None = None


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

    def persons_of(self, these: Array) -> int | None:
        """Persons with a row in one of these classes; None where rows are counted."""
        if self.person is None:
            return None
        return len(np.unique(self.person[these[self._numbered[0]]]))

    @cached_property
    def cells(self) -> Cells:
        """The quasi-identifiers of each class."""
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
            columns, cardinalities = (*self.arrays, codes), (*self.cardinalities, cardinality)
            sums = combination_sums(columns, cardinalities, self.weights).reshape(-1, cardinality)
            return ClassHistogram.dense(sums[sums.any(axis=1)])
        ids, number = self._numbered
        return ClassHistogram.of(ids, number, codes, cardinality, self.weights)

    @cached_property
    def _numbered(self) -> tuple[Array, int]:
        return class_ids(self.arrays, self.cardinalities, entries=self.entries)


def check(
    models: Sequence[Model],
    codes: Mapping[str, Any],
    qi: Sequence[str] | Sequence[Sequence[str]],
    *,
    counts: Any = None,
    values: Mapping[str, pa.Array] | None = None,
    wildcards: Mapping[str, Sequence[int]] | None = None,
    population: Population | None = None,
    person: Any = None,
    totals: Mapping[str, Array] | None = None,
) -> Check:
    """Measure a table against privacy models.

    Parameters
    ----------
    models
        What must hold, all together.
    codes
        The columns as small integers; for ordered distances a smaller code is a smaller value.
    qi
        The quasi-identifiers, or several sets of them: the models must hold for each.
    counts
        Rows that each entry stands for; 1 each by default.
    values
        Distinct values by code, needed for hierarchies and for limits on a named value.
    wildcards
        For each column the codes that match anything (suppressed or missing cells); by default
        these are values like any other.
    population
        Needed for k-map.
    person
        Who each entry belongs to, as numbers: persons are counted, not rows.
    totals
        Rows of the whole table that hold each sensitive value, where only some of its classes are
        given; put the outcomes together with `merged_checks`.

    Examples
    --------
    >>> from sfumato.privacy import DistinctDiversity, KAnonymity
    >>> codes = {"age": [0, 0, 0, 1, 1], "illness": [0, 1, 1, 1, 1]}
    >>> found = check([KAnonymity(2), DistinctDiversity(2, "illness")], codes, ["age"])
    >>> found.holds, [dict(finding.measured) for finding in found.findings]
    (False, [{'k': 2}, {'l': 1}])
    >>> found.findings[1].failing_rows
    2
    """
    columns = {name: _as_codes(array) for name, array in codes.items()}
    weights = None if counts is None else np.asarray(counts, dtype=np.int64)
    who = None if person is None else _as_codes(person)
    if who is not None and wildcards:
        raise ParameterError(
            "with wildcards rows are counted, not persons",
            remedy="Leave the wildcards out, or the persons.",
        )
    if weights is not None and (weights <= 0).any():  # entries that stand for nobody
        columns = {name: array[weights > 0] for name, array in columns.items()}
        who = None if who is None else who[weights > 0]
        weights = weights[weights > 0]
    sets = _sets(qi)
    _refuse_bad_columns(models, columns, sets)
    values = values or {}
    entries = len(next(iter(columns.values()), np.zeros(0)))
    sensitive = {
        name: (columns[name], max(_cardinality(columns[name]), len(values.get(name, ()))))
        for name in _abouts(models)
    }
    counted = [
        Classes(
            names,
            tuple(columns[name] for name in names),
            tuple(_cardinality(columns[name]) for name in names),
            entries,
            weights,
            sensitive,
            tuple(wildcards.get(name, ()) for name in names) if wildcards and names else None,
            who,
        )
        for names in sets
    ]
    findings = tuple(
        _finding(model, classes, values, population, totals or {})
        for classes in counted
        for model in models
    )
    first = counted[0]
    return Check(
        holds=all(finding.holds for finding in findings),
        findings=findings,
        rows=entries if weights is None else int(weights.sum()),
        classes=len(first.own_sizes),
        k=int(first.sizes.min()) if len(first.sizes) else None,
        wildcards=bool(wildcards),
    )


def _as_codes(array: Any) -> Array:
    """Codes in a width that the compiled loops take."""
    codes = np.asarray(array)
    return codes if codes.dtype.kind == "u" and codes.itemsize <= 4 else codes.astype(np.uint32)


def _cardinality(codes: Array) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def _sets(qi: Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sets of quasi-identifiers, whether one or several were given."""
    if isinstance(qi, str):
        return [(qi,)]
    if all(isinstance(name, str) for name in qi):
        return [tuple(str(name) for name in qi)]
    return [tuple(names) if not isinstance(names, str) else (names,) for names in qi]


def _refuse_bad_columns(
    models: Sequence[Model], columns: Mapping[str, Array], sets: Sequence[tuple[str, ...]]
) -> None:
    wanted = [name for names in sets for name in names]
    wanted += _abouts(models)
    for name in wanted:
        if name not in columns:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, columns))
    for name in _abouts(models):
        if any(name in names for names in sets):
            raise ColumnError(
                f"`{name}` is both sensitive and a quasi-identifier",
                remedy="Take it out of one of them.",
            )


def _abouts(models: Sequence[Model]) -> list[str]:
    """The sensitive columns of models."""
    return list(dict.fromkeys(model.about for model in models if model.about is not None))


def _finding(
    model: Model,
    classes: Classes,
    values: Mapping[str, pa.Array],
    population: Population | None,
    totals: Mapping[str, Array],
) -> ModelFinding:
    histogram = column = None
    if model.about is not None:
        histogram = classes.histograms[model.about]
        if model.about in totals:
            histogram = replace(histogram, table=totals[model.about])
        column = SensitiveColumn(histogram.total, values.get(model.about))
        histogram = column.seen_in(histogram)
    sizes = _people(classes, population) if model.asks_people else classes.sizes
    fine, worst = model.measure(Counted(sizes, histogram, column))
    return ModelFinding(
        model=model.title,
        qi=classes.qi,
        column=model.about,
        asked=model.asked,
        measured=worst,
        holds=bool(fine.all()),
        failing_classes=int((~fine).sum()),
        failing_rows=int(classes.own_sizes[~fine].sum()),
        failing_persons=classes.persons_of(~fine),
    )


_WORST_IS_LEAST = ("k", "l", "p")
"""What is worst where it is smallest; other figures are worst where they are largest."""


def merged_checks(checks: Sequence[Check]) -> Check:
    """The outcome for a table from those for parts of its classes, by the same models and sets.

    Examples
    --------
    >>> from sfumato.privacy import KAnonymity
    >>> parts = [check([KAnonymity(2)], {"age": ages}, ["age"]) for ages in ([0, 0], [1])]
    >>> whole = merged_checks(parts)
    >>> whole.k, whole.classes, whole.findings[0].failing_rows
    (1, 2, 1)
    """
    return Check(
        holds=all(one.holds for one in checks),
        findings=tuple(
            _merged(found) for found in zip(*(one.findings for one in checks), strict=True)
        ),
        rows=sum(one.rows for one in checks),
        classes=sum(one.classes for one in checks),
        k=min((one.k for one in checks if one.k is not None), default=None),
        wildcards=False,
    )


def _merged(found: Sequence[ModelFinding]) -> ModelFinding:
    """One model on one set, from several parts of its classes."""
    worst: dict[str, Any] = {}
    for name in found[0].measured:
        told = [one.measured[name] for one in found if one.measured[name] is not None]
        choose = min if name in _WORST_IS_LEAST else max
        worst[name] = choose(told, default=None)
    return replace(
        found[0],
        measured=worst,
        holds=all(one.holds for one in found),
        failing_classes=sum(one.failing_classes for one in found),
        failing_rows=sum(one.failing_rows for one in found),
        failing_persons=None,
    )


def _people(classes: Classes, population: Population | None) -> Array:
    """How many people of a population match each class."""
    if population is None:
        raise ParameterError("k-map needs a population table", remedy="Give one, or ask for k.")
    for name in classes.qi:
        if name not in population.codes:
            raise ColumnError(
                f"the population has no column `{name}`",
                remedy=did_you_mean(name, population.codes),
            )
    theirs = Cells.of([population.codes[name] for name in classes.qi], classes.stars)
    counts = np.ones(len(theirs)) if population.counts is None else population.counts
    return matching_rows(classes.cells, theirs, counts)


def smaller_k(number: int, asked: str = "k") -> str:
    """What can be asked of so many rows or persons."""
    return f"Ask for {asked} <= {number:,}." if number > 1 else "There is nothing to release."


def require_reachable(
    models: Sequence[Model],
    sensitive: Mapping[str, SensitiveColumn],
    rows: int,
    *,
    counted: str = "rows",
) -> None:
    """Refuse demands that the whole table as one class does not satisfy.

    Parameters
    ----------
    models
        What is asked.
    sensitive
        The sensitive columns of the table.
    rows, counted
        Rows of the table; or persons, where those are counted.

    Raises
    ------
    ParameterError
        Says what is asked, the best that can be reached, and which rows are in the way.

    Examples
    --------
    >>> from sfumato.privacy import DistinctDiversity
    >>> illness = SensitiveColumn(np.array([5, 3]))
    >>> require_reachable([DistinctDiversity(3, "illness")], {"illness": illness}, 8)
    Traceback (most recent call last):
        ...
    sfumato.errors.ParameterError: distinct l-diversity of `illness` with l = 3 cannot be reached \
with all rows: all 8 rows together hold 2 distinct values, the commonest in 5 rows. Ask for l <= 2.
    """
    whole = np.array([rows])
    for model in models:
        if model.least_rows > max(rows, 1):
            raise ParameterError(
                f"{model.name} with k = {model.least_rows:,} cannot be reached: the table has "
                f"{rows:,} {noun(counted, rows)}",
                remedy=smaller_k(rows),
            )
        if model.about is None or rows == 0:
            continue
        column = sensitive[model.about]
        codes = np.arange(len(column.counts))
        one = ClassHistogram.of(np.zeros(len(codes)), 1, codes, len(codes), column.counts)
        seen = column.seen_in(one)
        found = model.reach(Counted(whole, seen, column), whole)
        if found.blocked_rows and not seen.known.distinct.any():
            raise ParameterError(
                f"{found.asked} cannot be reached: every cell of `{model.about}` is missing",
                remedy="Ask for nothing about it, or leave it out.",
            )
        if found.blocked_rows:
            raise ParameterError(
                f"{found.asked} cannot be reached with all {counted}: "
                f"{found.reason.replace('rows', counted)}",
                remedy=f"Ask for {found.best}.",
            )


DEFAULT_THRESHOLD = 0.2
"""Risk above which a row counts as exposed: that of a class of five."""


@dataclass(frozen=True)
class HouseholdRisk(Result):
    """Risk that anybody of a household is found, 1 - Π(1 - r) over the risks r of its members.

    After Templ, Meindl & Kowarik 2015: who is found gives the others away.

    Attributes
    ----------
    highest, mean
        Of all households.
    share_above
        Share of households whose risk exceeds the threshold.
    """

    column: str
    number: int
    highest: float
    mean: float
    share_above: float


@dataclass(frozen=True)
class Risk(Result):
    """Risks of a table by some columns; all are shares in [0, 1].

    Attributes
    ----------
    prosecutor, journalist
        The highest risk of any row. Without a population or weights they are the same.
    marketer
        Expected share of right matches.
    share_above, journalist_share_above
        Share of rows (or persons) whose risk exceeds `threshold`.
    persons
        Persons, where a column tells them apart; else None, and every row is a person.
    basis
        What population the journalist's and marketer's risks refer to.
    households
        Where households were given: how many there are, and the risk that anybody in one is found.
    after
        The same for a released table, where one was given.
    """

    qi: tuple[str, ...]
    rows: int
    persons: int | None
    classes: int
    prosecutor: float | None
    journalist: float | None
    marketer: float | None
    share_above: float
    journalist_share_above: float
    threshold: float
    basis: str
    households: HouseholdRisk | None = None
    after: Risk | None = None


def risk_of_classes(
    sizes: Any,
    in_population: Any = None,
    *,
    times: Any = None,
    rows: Any = None,
    qi: Sequence[str] = (),
    threshold: float = DEFAULT_THRESHOLD,
    basis: str = "the table itself",
) -> Risk:
    """Risks from the sizes of classes alone.

    Parameters
    ----------
    sizes
        Rows of each class.
    in_population
        Size of each class in the population; never taken to be smaller than in the table.
    times
        How many classes there are like this one; 1 each by default.
    rows
        Rows of each class that are its own, where its size counts others that it matches too.

    Examples
    --------
    >>> found = risk_of_classes([1, 4], in_population=[10, 100])
    >>> found.prosecutor, found.journalist, round(found.marketer, 4)
    (1.0, 0.1, 0.028)
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    outside = sizes.astype(float)
    if in_population is not None:
        outside = np.maximum(np.asarray(in_population, dtype=float), sizes)
    number = np.ones(len(sizes), dtype=np.int64) if times is None else np.asarray(times)
    held = sizes * number if rows is None else np.asarray(rows, dtype=np.int64)
    all_rows = int(held.sum())
    if all_rows == 0:
        return Risk(tuple(qi), 0, None, 0, None, None, None, 0.0, 0.0, threshold, basis)
    return Risk(
        qi=tuple(qi),
        rows=all_rows,
        persons=None,
        classes=int(number.sum()),
        prosecutor=float(1.0 / sizes.min()),
        journalist=float(1.0 / outside.min()),
        marketer=float((held / outside).sum() / all_rows),
        share_above=float(held[_exposed(sizes, threshold)].sum() / all_rows),
        journalist_share_above=float(held[_exposed(outside, threshold)].sum() / all_rows),
        threshold=threshold,
        basis=basis,
    )


def risk_of_persons(
    classes: Array,
    who: Array,
    in_population: Array | None = None,
    *,
    sizes: Array | None = None,
    qi: Sequence[str] = (),
    rows: int = 0,
    threshold: float = DEFAULT_THRESHOLD,
    basis: str = "the table itself",
) -> Risk:
    """Risks of persons: class sizes in persons, and the worst row of each person.

    Parameters
    ----------
    classes, who
        Pairs of a class and a person who is in it, both numbered from 0, in any order and number.
    in_population
        Size of each class in the population.
    sizes
        Persons of each class, where they were counted already.
    rows
        Rows of the table.
    """
    number, persons = (
        (int(classes.max()) + 1 if len(classes) else 0),
        (int(who.max()) + 1 if len(who) else 0),
    )
    if sizes is None:
        pairs = classes.astype(np.uint32), who.astype(np.uint32)
        sizes = group_distinct(pairs[0], number, pairs[1], max(persons, 1))
    outside = sizes if in_population is None else np.maximum(in_population, sizes)
    plain = risk_of_classes(
        sizes[sizes > 0], outside[sizes > 0], qi=qi, threshold=threshold, basis=basis
    )
    if persons == 0:
        return replace(plain, persons=0)
    there = np.bincount(who, minlength=persons) > 0
    smallest = group_min(who, persons, sizes[classes])
    smallest_outside = smallest
    if in_population is not None:
        smallest_outside = np.full(persons, np.inf)
        np.minimum.at(smallest_outside, who, outside[classes])
    return replace(
        plain,
        rows=rows,
        persons=int(there.sum()),
        marketer=float((1.0 / smallest_outside[there]).mean()),
        share_above=float(_exposed(smallest[there], threshold).mean()),
        journalist_share_above=float(_exposed(smallest_outside[there], threshold).mean()),
    )


def _exposed(sizes: Array, threshold: float) -> Array:
    """Whether one over the size exceeds the threshold, with room for rounding."""
    return np.asarray(sizes * threshold < 1.0 - 1e-12)
