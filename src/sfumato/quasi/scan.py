"""The first look at a table: who can be found in it, and by which columns.

Which two or three columns together point at most people, and how far a few columns lead: small
tables are counted whole. In large ones all pairs and triples are first counted on a sample, the
better ones on a larger sample, and the best on the whole table: what is shown is exact, only the
choice is not. The choice carries a guarantee. A row that is unique in the table is unique in
every sample that holds it, and by Hoeffding's inequality (for sampling without replacement,
Hoeffding 1963, section 6) the share of such rows in a sample of r rows is within
``sqrt(ln(M / δ) / 2r)`` below the share in the table, for all M column sets at once with
probability 1 - δ. So the share of unique rows in the sample plus that margin bounds the share in
the table of every column set that was not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import kernels
from sfumato.budget import Budget, within_budget
from sfumato.columns.content import ColumnFacts, looks_coded
from sfumato.columns.persons import person_columns, require_person
from sfumato.columns.profile import (
    Profile,
    cells_of,
    classes_together,
    find_twins,
    positions,
    profile,
)
from sfumato.columns.recognise import SURE, Recognised, recognise_columns
from sfumato.columns.vocabulary import Role
from sfumato.engines.protocol import ClassSizes, Codes, PersonSizes
from sfumato.errors import BudgetError, ColumnError
from sfumato.quasi.measure import Measures, measures_of, measures_of_persons
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.tables.parsing import guessed_kind
from sfumato.wording import at_most, counted, for_shell, name_list, phrase

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
"""Columns that are combined; in wider tables those of the ladder, and those with most values."""
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

    def said(self, rows: int) -> str:
        """How they were chosen of a table with so many rows, in sentences."""
        limits = {"pair": self.other_pairs_at_most, "triple": self.other_triples_at_most}
        told = [
            f"{at_most(limit)} by another {what}"
            for what, limit in limits.items()
            if limit is not None and limit < 1
        ]
        sentences = []
        if self.sample < rows:
            sentences.append(f"Chosen on {self.sample:,} sampled rows, counted on all rows.")
        if told:
            sentences.append(f"{self.confidence:.0%} sure: at most {', '.join(told)}.")
        if None in limits.values():
            sentences.append("Not all combinations were looked at.")
        return " ".join(sentences)


@dataclass(frozen=True, eq=False)
class Combinations:
    """The most identifying pairs and triples, the ladder, and how they were chosen."""

    best: tuple[Measures, ...]
    ladder: tuple[Measures, ...]
    choice: Choice | None


def most_identifying(
    table: Table,
    columns: Sequence[str],
    look: Profile,
    *,
    seed: int,
    budget: Budget,
    person: str | None = None,
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
    person
        Which rows belong to one person: persons who stand alone are counted, not rows.
    """

    def exact(chosen: ColumnSet) -> Measures:
        if person is not None:
            return measures_of_persons(chosen, table.person_sizes(chosen, person, budget))
        return measures_of(chosen, table.class_sizes(chosen, budget))

    def sampled(names: Sequence[str]) -> tuple[Codes, Codes]:
        sample = look.sample.select(names if person is None else [*names, person])
        return sample, _smaller(sample, len(names), seed)

    ladder: list[Measures] = []
    if len(columns) > WIDEST:  # the ladder leads to columns that tell much beside others
        ladder = _ladder(columns, _Counts(sampled(columns)[1], budget, person), exact, budget)
    names = _widest(columns, look, ladder[-1].columns if ladder else ())
    sample, small = sampled(names)
    first = _Counts(small, budget, person)
    pairs = list(combinations(names, 2))
    first.count(pairs, "comparing pairs")
    triples = _triples(names, first)
    first.count(triples, "comparing triples")
    second = first
    if small is not sample:
        second = _Counts(sample, budget, person)
        second.count(first.ranked(2)[:FINALISTS], "comparing the best pairs again")
        second.count(first.helping_triples()[:FINALISTS], "comparing the best triples again")

    chosen = [*second.ranked(2)[:SHOWN], *second.helping_triples()[:SHOWN]]
    best = _while_time(budget, exact, chosen)
    best.sort(key=lambda m: (len(m.columns), -m.alone, m.unseparated_pairs))
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
            # the bound is about rows: of persons a sample says less
            other_pairs_at_most=None if person else left_out.at_most(2, every_set[0]),
            other_triples_at_most=None if person else left_out.at_most(3, every_set[1]),
        )
    ladder = ladder or _ladder(names, second, exact, budget)
    return Combinations(tuple(best), tuple(ladder), choice)


def _widest(columns: Sequence[str], look: Profile, first: Sequence[str]) -> list[str]:
    """The columns to combine: those named first, and those with most values."""
    classes = {facts.name: facts.classes for facts in look.facts}
    kept = set(sorted(columns, key=lambda name: (name not in first, -classes[name]))[:WIDEST])
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
        if rung[0].alone == rung[0].total:
            break
    return rungs


class _Counts:
    """Unique rows and unseparated pairs of column sets, counted on the same rows."""

    def __init__(self, codes: Codes, budget: Budget, person: str | None = None) -> None:
        self.codes = codes
        self.budget = budget
        self.person = person
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
        if self.person is not None:
            who, number = self.codes.column(self.person), len(self.codes.values_of(self.person))
            held = PersonSizes.counted(self.codes.select(columns), who, number)
            return held.alone, held.unseparated_pairs
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


@dataclass(frozen=True)
class ColumnScan(Result):
    """One column: counts over all rows, the guessed role and the reason for it."""

    name: str
    type: str
    nulls: int
    classes: int
    distinct: float
    unique_rows: int
    unique: float
    role: Role
    confidence: float
    """How sure the role is, from 0 to 1."""
    why: str
    what: str | None
    """What the column is about, if that is known."""
    flags: tuple[str, ...]
    """Of ``key``, ``nearly a key``, ``constant``, ``float``, ``free text``."""
    mostly: str | None = None
    """What the cells of a text column mostly are, if `parse` would make something better of it."""
    spelled: str | None = None
    """That values of a text column are others but for upper case or blanks; they stay different."""

    @property
    def unread(self) -> bool:
        """Whether some cells may not be what the column mostly is."""
        return self.mostly is not None and not self.mostly.startswith("all cells ")

    @property
    def values(self) -> int:
        """Different values; rows without one are a class, and no value."""
        return self.classes - (self.nulls > 0)


@dataclass(frozen=True)
class PersonScan(Result):
    """Whose rows they are, and what counting rows would hide.

    Attributes
    ----------
    column, counted
        The column that names persons, and whether it was given: then persons are counted.
    persons, rows, own
        Persons and their rows, and the columns that have one value a person.
    by
        The quasi-identifiers proposed.
    unique_rows, unique_persons
        By those, rows that stand alone, and persons who have a combination that nobody else has.
    smallest_rows, smallest_persons
        The smallest class in rows, and in persons.
    """

    column: str
    counted: bool
    persons: int
    rows: int
    own: tuple[str, ...]
    by: tuple[str, ...]
    unique_rows: int
    unique_persons: int
    smallest_rows: int | None
    smallest_persons: int | None


@dataclass(frozen=True)
class Scan(Result):
    """What a first look finds.

    Attributes
    ----------
    duplicate_rows
        Rows that repeat an earlier row in every column; a table with any has no key.
    keys, nearly_keys
        Single columns that tell (nearly) all rows apart.
    twins
        Groups of columns that say the same in other words; only the first is used below.
    combinations
        The pairs and triples of quasi-identifiers that make most rows unique, exact.
    ladder
        The same for one, two, three … columns, each time adding the one that helps most.
    choice
        How combinations were chosen in a table too large to count them all; None if they were.
    proposed
        At most ten quasi-identifiers to blur, most telling first.
    proposal
        Why these, in words.
    person
        The column that names persons with several rows, given or noticed; None where there is
        none.
    next
        What to do now.
    """

    table: str
    engine: str
    rows: int
    duplicate_rows: int | None
    columns: tuple[ColumnScan, ...]
    keys: tuple[tuple[str, ...], ...]
    nearly_keys: tuple[tuple[str, ...], ...]
    twins: tuple[tuple[str, ...], ...]
    combinations: tuple[Measures, ...]
    ladder: tuple[Measures, ...]
    choice: Choice | None
    proposed: tuple[str, ...]
    proposal: str
    person: PersonScan | None
    next: tuple[str, ...]
    stopped_by: str | None

    def with_role(self, role: Role) -> tuple[str, ...]:
        """Names of the columns of this role."""
        return tuple(column.name for column in self.columns if column.role == role)


@within_budget
def scan(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    person: str | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> Scan:
    """Look at a table for the first time: who can be found in it, and by which columns?

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Column names; None means all columns.
    person
        Which rows belong to one person: those are counted who have a combination that nobody
        else has. A probable column is noticed, and only told.
    seed
        Of the samples that large tables need.
    budget
        Limits of time and memory. When the time is over, column sets that were not counted are
        missing from the result and `stopped_by` says so.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> found = sf.scan(people)
    >>> found.duplicate_rows, found.combinations[0].columns, found.combinations[0].unique_rows
    (0, ('age', 'state'), 5)
    """
    budget = budget or Budget()
    opened = table(source, budget=budget)
    shown = opened if columns is None else opened.select(columns)
    if not shown.columns:
        raise ColumnError("the table has no columns", where=shown.name, remedy="Name at least one.")
    if person is not None:
        require_person(opened, person)
        if person not in shown.columns:
            shown = opened.select((*shown.columns, person))
    look = profile(shown, seed=seed, budget=budget)
    return combine(shown, look, describe(look), seed=seed, budget=budget, person=person)


def combine(
    table: Table,
    look: Profile,
    columns: tuple[ColumnScan, ...],
    *,
    seed: int = 0,
    budget: Budget,
    person: str | None = None,
) -> Scan:
    """What a look at all columns and their roles lead to: which of them point at people together.

    Parameters
    ----------
    columns
        The columns of `table` with their roles, guessed by `describe` or known better.
    person
        Which rows belong to one person, where persons are to be counted.
    """
    if person is not None:
        columns = tuple(_naming(c) if c.name == person else c for c in columns)
    twins = find_twins(table, look, budget)
    found = most_identifying(
        table, _to_combine(columns, twins), look, seed=seed, budget=budget, person=person
    )
    proposed, proposal = _proposed(columns, twins, look)
    whose = _persons(table, look, columns, proposed, person, budget)
    return Scan(
        table=table.name,
        engine=table.engine.kind,
        rows=look.rows,
        duplicate_rows=_duplicates(table, look, twins, budget),
        columns=columns,
        keys=tuple((facts.name,) for facts in look.facts if facts.is_key),
        nearly_keys=tuple((facts.name,) for facts in look.facts if facts.is_nearly_key),
        twins=twins,
        combinations=found.best,
        ladder=found.ladder,
        choice=found.choice,
        proposed=proposed,
        proposal=proposal,
        person=whose,
        next=_next(table, look.rows, columns, found, proposed, whose),
        stopped_by=budget.stopped_by,
    )


def describe(look: Profile) -> tuple[ColumnScan, ...]:
    """All columns in figures, with the roles they seem to play."""
    found = recognise_columns(look)
    named = {one.name for one in person_columns(None, look, found)}
    described = (
        _described(facts, found[facts.name], cells_of(look, facts.name), look)
        for facts in look.facts
    )
    return tuple(_naming(one) if one.name in named else one for one in described)


def _naming(column: ColumnScan) -> ColumnScan:
    """A column that names persons: no quasi-identifier, since nobody knows it but who knows all."""
    if column.role == "identifier":
        return column
    return replace(column, role="identifier", why="names persons, who have several rows")


def _persons(
    table: Table,
    look: Profile,
    columns: Sequence[ColumnScan],
    proposed: tuple[str, ...],
    person: str | None,
    budget: Budget,
) -> PersonScan | None:
    """Whose rows they are: as given, or as it seems."""
    roles = {c.name: Recognised(c.role, c.confidence, c.why, c.what) for c in columns}
    if budget.spent():
        return None
    likely = person_columns(table, look, roles, budget)
    chosen = next((one for one in likely if person in (None, one.name)), None)
    if chosen is None and person is None:
        return None
    name = person if chosen is None else chosen.name
    assert name is not None
    sizes = table.person_sizes(proposed, name, budget)
    return PersonScan(
        column=name,
        counted=person is not None,
        persons=sizes.number,
        rows=sizes.rows.rows,
        own=() if chosen is None else chosen.own,
        by=proposed,
        unique_rows=sizes.rows.unique_rows,
        unique_persons=sizes.alone,
        smallest_rows=sizes.rows.k,
        smallest_persons=sizes.k,
    )


def _described(facts: ColumnFacts, guess: Recognised, cells: pa.Array, look: Profile) -> ColumnScan:
    mostly = None
    if facts.kind == "text" and (guess.role != "identifier" or guess.kind is None):
        mostly = _mostly(facts, cells, look)
    return ColumnScan(
        name=facts.name,
        type=facts.kind,
        nulls=facts.nulls,
        classes=facts.classes,
        distinct=facts.classes / facts.rows if facts.rows else 1.0,
        unique_rows=facts.unique_rows,
        unique=facts.unique_rows / facts.rows if facts.rows else 0.0,
        role=guess.role,
        confidence=guess.confidence,
        why=guess.why,
        what=guess.what,
        flags=_flags(facts, guess, cells),
        mostly=mostly,
        spelled=_spelled(cells, whole=len(cells) >= facts.classes - (facts.nulls > 0))
        if facts.kind == "text"
        else None,
    )


def _mostly(facts: ColumnFacts, cells: pa.Array, look: Profile) -> str | None:
    """What the cells of a text column are, counted; judged first by some that lie far apart."""
    if guessed_kind(cells[:: max(1, len(cells) // LOOKED_AT)].to_pylist()) is None:
        return None
    codes, values = look.sample.column(facts.name), look.sample.values_of(facts.name)
    held = np.bincount(codes, weights=look.sample.counts, minlength=len(values))
    at = pc.index_in(cells, value_set=values).to_numpy()
    whole = look.whole and len(cells) == facts.classes - (facts.nulls > 0)
    found = guessed_kind(cells.to_pylist(), held[at].astype(np.int64).tolist(), whole=whole)
    return None if found is None else found.say


def _spelled(cells: pa.Array, *, whole: bool) -> str | None:
    """How many of these values are others but for upper case or blanks; `whole`: these are all.

    Examples
    --------
    >>> _spelled(pa.array(["flu", "Flu ", "none", "FLU"]), whole=True)
    '3 values differ only in upper case or blanks'
    """
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(cells.cast(pa.string())))
    folded = pc.replace_substring_regex(plain, r"\s+", " ")
    times = pc.value_counts(folded).field("counts")
    number = int(pc.sum(pc.if_else(pc.greater(times, 1), times, 0)).as_py() or 0)
    if not number:
        return None
    told = f"{counted(number, 'value')} differ only in upper case or blanks"
    return told if whole else f"at least {told}"


def _flags(facts: ColumnFacts, guess: Recognised, cells: pa.Array) -> tuple[str, ...]:
    found = {
        "key": facts.is_key,
        "nearly a key": facts.is_nearly_key,
        "constant": facts.is_constant,
        "float": facts.kind == "float",
        "free text": guess.what == "free text",
        "codes": looks_coded(facts, cells, guess.what),
    }
    return tuple(flag for flag, holds in found.items() if holds)


def _to_combine(columns: Sequence[ColumnScan], twins: Sequence[Sequence[str]]) -> list[str]:
    """What others may know of a person, leaving out what finds anybody alone or says it twice."""
    repeated = {name for group in twins for name in group[1:]}
    useful = [
        column
        for column in columns
        if column.name not in repeated and not {"constant", "key"} & set(column.flags)
    ]
    known = [column.name for column in useful if column.role == "quasi-identifier"]
    return known or [column.name for column in useful if column.role != "identifier"]


LOOKED_AT = 1_000
"""Different cells that are looked at for dates and numbers written by hand."""
MOST_PROPOSED = 10
"""Quasi-identifiers that are proposed at most: more leave little of a table."""


def _proposed(
    columns: Sequence[ColumnScan], twins: Sequence[Sequence[str]], look: Profile
) -> tuple[tuple[str, ...], str]:
    """The quasi-identifiers to blur, and why these.

    Those that are surely known to others come first, and among them those that tell most people
    apart. A column that another proposed one decides would say nothing more.
    """
    known = [c for c in columns if c.role == "quasi-identifier" and c.classes > 1]
    repeated = {name: group[0] for group in twins for name in group[1:]}
    worth = {c.name: c.confidence * (1 + _bits(look, c.name)) for c in known}
    chosen: list[str] = []
    decided: dict[str, str] = {}
    for column in sorted(known, key=lambda c: -worth[c.name]):
        if column.name in repeated:
            decided[column.name] = repeated[column.name]
            continue
        by = next((name for name in chosen if _decides(look, name, column.name)), None)
        if by is not None:
            decided[column.name] = by
        elif len(chosen) < MOST_PROPOSED:
            chosen.append(column.name)
    return tuple(chosen), _why_these(known, chosen, decided)


def _why_these(known: Sequence[ColumnScan], chosen: Sequence[str], decided: dict[str, str]) -> str:
    if not chosen:
        return "no column seems to be known to others"
    parts = []
    left = [c for c in known if c.name not in (*chosen, *decided)]
    if left:
        parts.append(
            f"{len(chosen)} of {len(known)} that others may know: those recognised most surely "
            "that tell most people apart"
        )
    else:
        parts.append("all that others may know")
    if decided:
        shown = [f"{name} (follows from {by})" for name, by in list(decided.items())[:5]]
        more = f" and {len(decided) - 5:,} more" if len(decided) > 5 else ""
        parts.append(f"without {', '.join(shown)}{more}")
    guessed = [c.name for c in known if c.name in chosen and c.confidence < SURE]
    if guessed:
        parts.append(f"nothing is known of {', '.join(guessed)}")
    return "; ".join(parts)


def _bits(look: Profile, name: str) -> float:
    """How much one column tells of a row: its entropy in the sample, up to that of 64 values."""
    counts = np.bincount(look.sample.column(name).astype(np.int64))
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(min(-(shares * np.log2(shares)).sum(), 6.0))


def _decides(look: Profile, one: str, other: str) -> bool:
    """Whether in the sample each value of one column goes with one value of the other.

    Nearly a key decides everything, which says nothing of the other column.
    """
    pair = look.sample.select([one, other])
    classes = {facts.name: facts.classes for facts in look.facts}
    if classes[one] <= classes[other] or classes[one] > 0.1 * max(pair.entries, 1):
        return False
    return classes_together(pair) == len(np.unique(pair.arrays[0]))


def _duplicates(
    table: Table, look: Profile, twins: Sequence[Sequence[str]], budget: Budget
) -> int | None:
    """Rows that repeat an earlier one; None if the time is over before they are counted."""
    if look.rows < 2 or any(facts.is_key for facts in look.facts):
        return 0
    if budget.spent():
        return None
    budget.progress("looking for duplicate rows")
    repeated = {name for group in twins for name in group[1:]}
    deciding = [facts for facts in look.facts if facts.name not in repeated]
    deciding.sort(key=lambda facts: -facts.classes)
    return look.rows - table.class_sizes([facts.name for facts in deciding], budget).classes


def _parsing(name: str, columns: Sequence[ColumnScan]) -> str:
    """How to read columns that are mostly dates or numbers; what they do not tell is assumed."""
    listed, assumed = [], []
    for column in columns:
        if column.mostly is None:
            continue
        kind = "date" if "are dates" in column.mostly else "number"
        if "dd/mm/yyyy or mm/dd/yyyy" in column.mostly:
            kind = "date:dmy"
            assumed.append("date:mdy where months come first")
        elif "points or commas" in column.mostly:
            kind = "number:point"
            assumed.append("number:comma where a comma begins the fraction")
        listed.append(f"--parse {for_shell(f'{column.name}={kind}')}")
    if any(column.unread for column in columns):
        listed.append("--unparsed null")
    instead = f" ({', '.join(dict.fromkeys(assumed))})" if assumed else ""
    command = " ".join(["sfumato scan", for_shell(name), *listed])
    return f"Read dates and numbers as such{instead}: {command}"


def _next(
    table: Table,
    rows: int,
    columns: Sequence[ColumnScan],
    found: Combinations,
    proposed: Sequence[str],
    whose: PersonScan | None,
) -> tuple[str, ...]:
    """Commands that run as they are printed."""
    name = table.name
    person = "" if whose is None else f" --person {_listed([whose.column])}"
    identifiers = [column.name for column in columns if column.role == "identifier"]
    steps = []
    written = [column.name for column in columns if column.mostly]
    if written and table.engine.capabilities.remote:
        steps.append(f"Read dates and numbers as such: convert {phrase(written)} in a query")
    elif written:
        steps.append(_parsing(name, columns))
    if identifiers:
        steps.append(f"Leave out what points at one person: {', '.join(identifiers)}")
    if found.ladder:
        names = _listed(found.ladder[-1].columns[:3])
        steps.append(
            f"Measure any set of columns: sfumato measure {for_shell(name)} -c {names}{person}"
        )
        steps.append(
            f"See what an attacker can do: sfumato risk {for_shell(name)} --qi {names}{person}"
        )
    if found.ladder and rows >= _ALIKE:
        told = _anonymize(name, columns, found, proposed, whose)
        left = phrase(_not_blurred(columns, proposed), 5)
        without = f", leaving out {left}, which others may also know" if left else ""
        steps.append(f"Blur it until everybody has company{without}: {told}")
    return tuple(steps)


def _not_blurred(columns: Sequence[ColumnScan], proposed: Sequence[str]) -> list[str]:
    """What others may know and is not proposed: as it is, it would tell what is blurred."""
    known = [c.name for c in columns if c.role == "quasi-identifier" and c.classes > 1]
    return [name for name in known if proposed and name not in proposed]


_ALIKE = 5
"""How many rows the suggested release makes alike."""


def _anonymize(
    name: str,
    columns: Sequence[ColumnScan],
    found: Combinations,
    proposed: Sequence[str],
    whose: PersonScan | None,
) -> str:
    secret = [c.name for c in columns if c.role == "sensitive" and c.classes > 1]
    person = [] if whose is None else [whose.column]
    hidden = [c.name for c in columns if c.role == "identifier" and c.name not in person]
    known = proposed or [n for n in found.ladder[-1].columns if n not in (*secret, *hidden)]
    hidden += _not_blurred(columns, known)
    parts = [f"sfumato anonymize {for_shell(name)} -k {_ALIKE} --qi {_listed(known)}"]
    if secret:
        parts.append(f"--sensitive {_listed(secret)} -l 2")
    if hidden:
        parts.append(f"--identifiers {_listed(hidden)}")
    codes = [c.name for c in columns if c.name in known and "codes" in c.flags]
    if codes:
        parts.append(f"--categorical {_listed(codes)}")
    if person:
        parts.append(f"--person {_listed(person)}")
    return " ".join(parts)


def _listed(names: Sequence[str]) -> str:
    """Columns as a shell and the command line read them."""
    return for_shell(name_list(names))
