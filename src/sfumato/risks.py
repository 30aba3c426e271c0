"""Re-identification risk: how likely an attacker who knows some columns finds the right row.

*Prosecutor*: the attacker knows that the person is in the table; the risk of a row is one over
the size of its class. *Journalist*: the attacker does not; what counts is the size of the class in
the population the table was drawn from. *Marketer*: the attacker matches everybody and is content
with the expected share of right matches (El Emam 2013, chapter 15).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.budget import Budget, within_budget
from sfumato.columns.persons import require_person
from sfumato.engines.encoding import codes_among
from sfumato.engines.protocol import ClassSizes, CodeArray, Codes
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import ColumnError, ParameterError, spell
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids, group_distinct, group_min, representatives
from sfumato.privacy.check import (
    DEFAULT_THRESHOLD,
    HouseholdRisk,
    Risk,
    risk_of_classes,
    risk_of_persons,
)
from sfumato.privacy.classes import matching_sizes
from sfumato.privacy.models import require_missing
from sfumato.tables import Table, table
from sfumato.wording import counted


@within_budget
def risk(
    source: Any,
    qi: Sequence[str],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    sampling_weight: str | None = None,
    person: str | None = None,
    household: str | None = None,
    population: Any = None,
    released: Any = None,
    missing: str = "value",
    budget: Budget | None = None,
) -> Risk:
    """Re-identification risk of a table.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens; so are `population` and `released`.
    qi
        The columns an attacker knows.
    threshold
        Risk above which a row counts as exposed.
    sampling_weight
        A column of sampling weights: how many persons of the population a row stands for.
    person
        A column that tells persons apart, where a person has several rows. A class is as large as
        the number of different persons in it, and a person is as exposed as their most exposed
        row.
    household
        A column that tells households apart: also the risk that anybody in one is found. To
        count households in the place of persons, name it as the person.
    population
        A table of the whole population with the same columns, blurred as the table is. Its rows
        are counted; its persons, if `person` is a column of it too.
    released
        A released table, measured the same way; not together with a population, whose cells
        are not blurred like the release's.
    missing
        What a missing cell is: a value like any other, or a ``wildcard``, and then a row is as
        exposed as the rows that it matches are few. Rows that lack other columns are in classes of
        their own in any case.

    Examples
    --------
    >>> people = pa.table({"age": [20, 30, 30, 30]})
    >>> found = risk(people, ["age"])
    >>> found.prosecutor, found.marketer, found.share_above
    (1.0, 0.5, 1.0)
    """
    _refuse_bad_parameters(threshold, sampling_weight, population, released)
    opened = table(source, budget=budget)
    people = None if population is None else table(population, budget=budget)
    names = opened.require(list(qi))
    for name in (sampling_weight, person, household):
        if name is not None and name in names:
            raise ColumnError(
                f"`{name}` cannot be a quasi-identifier at the same time",
                where=opened.name,
                remedy="Take it out of the quasi-identifiers.",
            )
    if person is not None:
        require_person(opened, person)
    wild = require_missing(missing)
    if wild and any(one is not None for one in (sampling_weight, person, household, population)):
        raise ParameterError(
            "with wildcards the rows of the table are counted, not persons or a population",
            remedy=f"Leave those out, or {spell('missing', 'wildcard')}.",
        )
    if wild:
        entries = opened.classes(names, None, budget)
        found = risk_of_classes(
            matching_sizes(entries), rows=entries.counts, qi=names, threshold=threshold
        )
    elif sampling_weight is None and person is None and population is None:
        sizes = opened.class_sizes(names, budget)
        found = risk_of_classes(
            sizes.sizes, times=sizes.classes_of_size, qi=names, threshold=threshold
        )
    else:
        found = _detailed(opened, names, threshold, sampling_weight, person, people, budget)
    if household is not None:
        require_person(opened, household)
        found = replace(
            found, households=_households(opened, names, threshold, person, household, budget)
        )
    if released is None:
        return found
    there = table(released, budget=budget)
    if person is not None and person not in there.columns:
        raise ColumnError(
            f"the release does not show `{person}`, so it cannot be counted in persons",
            where=there.name,
            remedy="Count rows in both tables, without a person; `anonymize` tells the risks of "
            "persons before and after when it makes the release.",
        )
    after = risk(
        there,
        names,
        threshold=threshold,
        sampling_weight=sampling_weight,
        person=person,
        household=household,
        missing=missing,
        budget=budget,
    )
    return replace(found, after=after)


def _households(
    opened: Table,
    qi: tuple[str, ...],
    threshold: float,
    person: str | None,
    household: str,
    budget: Budget | None,
) -> HouseholdRisk:
    """Households by the prosecutor's risks of their members: rows, or persons."""
    who = () if person is None else (person,)
    entries = opened.classes(tuple(dict.fromkeys((*qi, household, *who))), None, budget)
    classes, number = _class_numbers(entries, qi)
    home = entries.column(household).astype(np.int64)
    times = entries.row_counts
    if person is None:
        sizes = np.bincount(classes, weights=times, minlength=number)[classes]
    else:
        one = entries.column(person).astype(np.int64)
        once = _once(classes, one, number)
        held = np.bincount(classes[once], minlength=number)[classes]
        order = np.lexsort((held, one, home))  # of each person at home the smallest class
        first = np.ones(len(order), dtype=bool)
        first[1:] = (np.diff(home[order]) != 0) | (np.diff(one[order]) != 0)
        kept = order[first]
        home, sizes, times = home[kept], held[kept], np.ones(len(kept), dtype=np.int64)
    with np.errstate(divide="ignore"):
        unseen = np.log1p(-1.0 / sizes) * times  # nobody finds this member
    risks = -np.expm1(np.bincount(home, weights=unseen))
    return HouseholdRisk(
        column=household,
        number=len(risks),
        highest=float(risks.max(initial=0.0)),
        mean=float(risks.mean()) if len(risks) else 0.0,
        share_above=float((risks > threshold + 1e-12).mean()) if len(risks) else 0.0,
    )


def write_risks(
    source: Any,
    qi: Sequence[str],
    output: str | os.PathLike[str],
    *,
    missing: str = "value",
    force: bool = False,
    budget: Budget | None = None,
) -> None:
    """Write a table with the prosecutor's risk of each row in a column ``risk``: 1 / class size.

    The file holds all other columns as they are, so it is no more public than the table.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [20, 20, 30]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_risks(people, ["age"], f"{folder}/risks.parquet")
    ...     sf.table(f"{folder}/risks.parquet").to_arrow()["risk"].to_pylist()
    [0.5, 0.5, 1.0]
    """
    opened = table(source, budget=budget)
    if "risk" in opened.columns:
        raise ColumnError(
            "the table already has a column `risk`", where=opened.name, remedy="Rename it."
        )
    entries = opened.classes(opened.require(qi), None, budget)
    rows = matching_sizes(entries) if require_missing(missing) else entries.row_counts
    sizes, codes = np.unique(rows, return_inverse=True)
    step = Step(entries, {"risk": Cells(codes.astype(np.int64), pa.array(1.0 / sizes))})
    hidden = [c.name for c in opened.engine.schema() if c.name not in opened.columns]
    staged = opened.engine.stage(Recoding((step,), tuple(hidden)), os.fspath(output), budget=budget)
    try:
        staged.commit(force=force)
    except BaseException:
        staged.discard()
        raise


def _detailed(
    opened: Table,
    qi: tuple[str, ...],
    threshold: float,
    sampling_weight: str | None,
    person: str | None,
    population: Table | None,
    budget: Budget | None,
) -> Risk:
    """Risks where classes must be looked at one by one: of persons, or in a population."""
    extra = tuple(name for name in (sampling_weight, person) if name is not None)
    entries = opened.classes(qi + extra, None, budget)
    classes, number = _class_numbers(entries, qi)
    counts, who = entries.row_counts, None
    if person is not None:
        who = entries.column(person).astype(np.int64)
        if sampling_weight is not None:
            _refuse_several_weights(who, entries.column(sampling_weight), sampling_weight, person)
        counts = np.zeros(len(classes), dtype=np.int64)
        counts[_once(classes, who, number)] = 1
    outside, basis = None, "the table itself"
    if sampling_weight is not None:
        each = sampling_weights(entries.values_of(sampling_weight), sampling_weight)
        people = each[entries.column(sampling_weight).astype(np.int64)] * counts
        outside = np.bincount(classes, weights=people, minlength=number)
        basis = f"sampling weights in `{sampling_weight}`"
    elif population is not None:
        outside = _found_in(population, entries, classes, number, qi, person)
        basis = f"population {population.name}"
    if who is not None:
        return risk_of_persons(
            classes, who, outside, qi=qi, rows=entries.rows, threshold=threshold, basis=basis
        )
    sizes = np.bincount(classes, weights=counts, minlength=number)
    return risk_of_classes(sizes, outside, qi=qi, threshold=threshold, basis=basis)


def _refuse_several_weights(who: Array, weight: CodeArray, name: str, person: str) -> None:
    """Refuse weights that say two things of one person: any of them would do as well."""
    persons = int(who.max(initial=0)) + 1
    least, most = np.full(persons, np.inf), np.zeros(persons)
    np.minimum.at(least, who, weight)
    np.maximum.at(most, who, weight)
    several = int((least < most).sum())
    if several:
        raise ColumnError(
            f"{counted(several, 'person', does='have')} rows of different weight",
            where=f"column `{name}`",
            remedy=f"Give each person of `{person}` one weight, the same in all of their rows.",
        )


def _once(classes: Array, who: Array, number: int) -> Array:
    """A place for every class and person in it, however many rows (or weights) they have there."""
    pair = (classes.astype(np.uint32), who.astype(np.uint32))
    sizes = (max(number, 1), int(who.max(initial=0)) + 1)
    return np.asarray(representatives(*class_ids(pair, sizes, entries=len(who))), dtype=np.int64)


def _found_in(
    population: Table,
    entries: Codes,
    classes: Array,
    number: int,
    qi: tuple[str, ...],
    person: str | None,
) -> Array:
    """Rows of the population that agree with each class; persons, where it names them too."""
    names = population.require(list(qi))
    named = person if person in population.columns else None
    if named is not None:
        require_person(population, named)
        names = (*names, named)
    people = population.classes(names)
    if not people.rows:
        raise ParameterError(
            "the population has no rows",
            where=population.name,
            remedy="Give a table of the people that the table was drawn from.",
        )
    known = np.ones(people.entries, dtype=bool)
    translated = []
    for name in qi:
        mine, theirs = entries.values_of(name), people.values_of(name)
        if theirs.type != mine.type:
            theirs = _as_type(theirs, mine.type, name, population.name)
        code = codes_among(theirs, mine)[people.column(name).astype(np.int64)]
        known &= code >= 0
        translated.append(code)
    first = np.zeros(number, dtype=np.int64)
    first[classes] = np.arange(len(classes))
    joined = tuple(
        np.concatenate([entries.column(name)[first], code[known]]).astype(np.uint32)
        for name, code in zip(qi, translated, strict=True)
    )
    cardinalities = tuple(len(entries.values_of(name)) for name in qi)
    ids, groups = class_ids(joined, cardinalities, entries=number + int(known.sum()))
    theirs, counts = ids[number:], people.row_counts[known]
    if named is not None:
        once = _once(theirs, people.column(named)[known], groups)
        theirs, counts = theirs[once], np.ones(len(once), dtype=np.int64)
    found = np.bincount(theirs, weights=counts, minlength=groups)
    return np.asarray(found[ids[:number]])


def _as_type(values: pa.Array, wanted: pa.DataType, name: str, where: str) -> pa.Array:
    """The population's values as the table holds them."""
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"column `{name}` holds {values.type} where the table holds {wanted}",
            where=where,
            remedy="Write the column alike in both tables.",
        ) from None


def _class_numbers(entries: Codes, qi: tuple[str, ...]) -> tuple[Array, int]:
    ids, number = entries.numbered(qi)
    return ids.astype(np.int64), number


def sampling_weights(values: pa.Array, name: str) -> Array:
    """Sampling weights as numbers."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise ColumnError(
            f"weights must be numbers, not {kind}",
            where=f"column `{name}`",
            remedy="Name a column of numbers.",
        )
    weights = np.asarray(values.cast(pa.float64(), safe=False).fill_null(np.nan))
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise ColumnError(
            "weights must all be larger than zero",
            where=f"column `{name}`",
            remedy="Leave out rows without one, or give them weight 1.",
        )
    return weights


def _refuse_bad_parameters(
    threshold: float, sampling_weight: str | None, population: Any, released: Any
) -> None:
    if not 0 < threshold <= 1:
        raise ParameterError(f"a threshold of {threshold:g} is not possible", remedy="Give 0 to 1.")
    if population is not None and sampling_weight is not None:
        raise ParameterError(
            "either sampling weights or a population can be given",
            remedy="The population knows more: leave the weights out.",
        )
    if population is not None and released is not None:
        raise ParameterError(
            "blurred cells of a release do not compare with a population as it is",
            remedy="`sfumato attack` joins a release with people; or blur both alike and measure "
            "the release by itself.",
        )


@dataclass(frozen=True, eq=False)
class Alike:
    """How many rows, or persons, have how many like them.

    Attributes
    ----------
    members
        By the size of a class, ascending, those whose smallest class is that large: of several
        sets of columns, and of several rows of a person, the one that finds them easiest.
    classes
        Classes; None where several sets of columns have classes of their own.
    who
        What is counted, ``row`` or ``person``; also in the size of a class.
    """

    members: Mapping[int, int]
    classes: int | None
    who: str = "row"

    @classmethod
    def of_rows(cls, sizes: ClassSizes) -> Alike:
        """Rows of one set of columns.

        Examples
        --------
        >>> found = Alike.of_rows(ClassSizes.of({1: 2, 3: 1}))
        >>> found.total, found.alone, found.below(4), found.k, found.average
        (5, 2, 5, 1, 0.6)
        """
        return cls({s: s * c for s, c in sizes.to_dict().items()}, sizes.classes)

    @property
    def total(self) -> int:
        """Rows or persons."""
        return sum(self.members.values())

    @property
    def alone(self) -> int:
        """Those who have nobody like them."""
        return self.members.get(1, 0)

    @property
    def k(self) -> int | None:
        """Size of the smallest class; None where there is nobody."""
        return next(iter(self.members), None)

    @property
    def average(self) -> float:
        """The mean of one over the size."""
        return sum(n / size for size, n in self.members.items()) / max(1, self.total)

    def below(self, k: int) -> int:
        """Those who are fewer than `k`."""
        return sum(n for size, n in self.members.items() if size < k)


def alike(
    source: Table,
    sets: Sequence[Sequence[str]],
    person: str | None = None,
    budget: Budget | None = None,
) -> Alike:
    """How many look alike by any of several sets of columns.

    Examples
    --------
    >>> people = table(pa.table({"who": [1, 1, 2], "age": [5, 6, 5], "sex": ["F", "F", "F"]}))
    >>> dict(alike(people, [["age"], ["sex"]]).members)
    {1: 1, 2: 2}
    >>> dict(alike(people, [["age"]], "who").members)
    {1: 1, 2: 1}
    """
    if person is None and len(sets) == 1:
        return Alike.of_rows(source.class_sizes(sets[0], budget))
    names = dict.fromkeys(name for one in sets for name in one if name != person)
    entries = source.classes([*names, *(() if person is None else (person,))], budget=budget)
    who = None if person is None else entries.column(person).astype(np.uint32)
    persons = 0 if who is None else int(who.max(initial=0)) + 1
    smallest = np.full(entries.entries, np.iinfo(np.uint32).max, np.int64)
    for one in sets:
        ids, number = entries.numbered([name for name in one if name != person])
        if who is None:
            sizes = np.bincount(ids, weights=entries.row_counts, minlength=number).astype(np.int64)
        else:
            sizes = group_distinct(ids, number, who, persons)
        np.minimum(smallest, sizes[ids], out=smallest)
    weights = entries.row_counts
    if who is not None:
        there = np.bincount(who, minlength=persons) > 0
        smallest = group_min(who, persons, smallest.astype(np.uint32))[there].astype(np.int64)
        weights = np.ones(len(smallest), np.int64)
    seen, place = np.unique(smallest, return_inverse=True)
    held = np.bincount(place, weights=weights, minlength=len(seen)).astype(np.int64)
    return Alike(
        dict(zip(seen.tolist(), held.tolist(), strict=True)),
        number if len(sets) == 1 else None,
        "row" if person is None else "person",
    )
