"""Entries of a problem in which persons are counted, and what compiled rules know of them.

A person may have many rows, and those of one combination of quasi-identifiers may be many persons'.
Methods that never part rows of one combination get entries as ever, each with a *run* of persons.
Methods that may part them get an entry for each person, so that a part of it is still hers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.anonymization.actions import Merged
from sfumato.anonymization.problem import Problem, Solution
from sfumato.engines.protocol import Codes, beginnings, smallest_dtype
from sfumato.hierarchy.labels import Published
from sfumato.hierarchy.tree import Array
from sfumato.kernels import (
    class_ids,
    group_distinct,
    group_rows,
    group_sums,
    held_by,
    representatives,
)
from sfumato.privacy import Model, Rules, SensitiveColumn, compile_rules, with_persons


@dataclass(frozen=True, eq=False)
class Persons:
    """Who the rows of entries belong to.

    Attributes
    ----------
    entries
        The entries, the column of persons being the number of the entry's run.
    runs, persons
        Run r is ``persons[runs[r]:runs[r + 1]]``: numbers of persons.
    pairs
        For each sensitive column, a number for the person and value of each element of the runs.
    columns
        The sensitive columns, each value counted once a person.
    wide
        What this was read from: distinct combinations with the person beside them.
    """

    entries: Codes
    runs: Array
    persons: Array
    pairs: tuple[Array, ...]
    columns: dict[str, SensitiveColumn]
    wide: Codes | None = None

    @classmethod
    def parted(cls, entries: Codes, person: str, sensitive: Sequence[str]) -> Persons:
        """Of entries that are each of one person."""
        chosen = entries.select((person, *sensitive))
        ids, count = class_ids(chosen.arrays, chosen.cardinalities, entries=entries.entries)
        first = representatives(ids, count)
        held = tuple(chosen.arrays[at][first] for at in range(len(chosen.arrays)))
        return cls._of(_with_runs(entries, person, ids, count), np.arange(count + 1), held, chosen)

    @classmethod
    def whole(
        cls, entries: Codes, of: Array, who: Array, person: str, sensitive: Sequence[str]
    ) -> Persons:
        """Of entries that may be several persons'.

        Parameters
        ----------
        of, who
            Pairs of an entry and a person who has rows of it, in any order and number.
        """
        if len(of) and (np.diff(of.astype(np.int64)) < 0).any():
            people = int(who.max()) + 1
            pair = (of.astype(np.uint32), who.astype(np.uint32))
            ids, count = class_ids(pair, (entries.entries, people), entries=len(of))
            first = representatives(ids, count)
            of, who = of[first], who[first]
        runs = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=entries.entries))])
        values = entries.select(sensitive)
        held = (who, *(array[of] for array in values.arrays))
        numbers = np.arange(entries.entries)
        if not sensitive and len(of) == entries.entries and (np.diff(runs) == 1).all():
            numbers = who  # one person each: see `Rules`
        numbered = _with_runs(entries, person, numbers, int(max(numbers.max(initial=0) + 1, 1)))
        return cls._of(numbered, runs, held, values)

    @classmethod
    def _of(cls, entries: Codes, runs: Array, held: Sequence[Array], of: Codes) -> Persons:
        """`held` are the person and the sensitive values of each element of the runs."""
        who = held[0].astype(np.uint32)
        people = int(who.max()) + 1 if len(who) else 0
        pairs, columns = [], {}
        names = of.columns[len(of.columns) - len(held) + 1 :]
        for name, codes in zip(names, held[1:], strict=True):
            values = of.values_of(name)
            ids, count = class_ids((who, codes), (max(people, 1), len(values)), entries=len(who))
            pairs.append(np.asarray(ids))
            once = codes[representatives(ids, count)]
            columns[name] = SensitiveColumn.of(once, None, values)
        return cls(entries, runs, who, tuple(pairs), columns)

    @property
    def number(self) -> int:
        """How many persons there are."""
        return int(self.persons.max()) + 1 if len(self.persons) else 0

    def holders(self, columns: Sequence[str]) -> dict[str, Array]:
        """By column how many persons hold each of its values."""
        run = self.entries.arrays[-1]
        entries, who = np.arange(len(run), dtype=np.uint32), run
        if not self.single:
            length, elements = _elements(self.runs, run)
            entries, who = np.repeat(entries, length), self.persons[elements]
        order, starts = group_rows(who, max(self.number, 1))
        entries = entries[order]  # all columns are looked at person by person
        return {
            name: held_by(
                self.entries.column(name), len(self.entries.values_of(name)), entries, starts
            )
            for name in columns
        }

    @property
    def single(self) -> bool:
        """Whether the number of a run is that of a person (see `sfumato.privacy.Rules`)."""
        return not self.pairs and bool((np.diff(self.runs) == 1).all())

    def rules(self, models: Sequence[Model]) -> Rules:
        """Models as compiled rules that count persons."""
        return with_persons(
            compile_rules(models, self.columns), self.runs, self.persons, self.pairs
        )


def _with_runs(entries: Codes, person: str, runs: Array, count: int) -> Codes:
    """The same entries, the number of their run in the place of the person."""
    names = [name for name in entries.columns if name != person]
    plain = entries.select(names)
    return replace(
        plain,
        columns=(*plain.columns, person),
        arrays=(*plain.arrays, runs.astype(smallest_dtype(count))),
        values=(*plain.values, pa.nulls(count)),
    )


def narrowed(wide: Codes, names: Sequence[str]) -> tuple[Codes, Array]:
    """The distinct combinations of some columns, and which of them each entry has."""
    chosen = wide.select(names)
    ids, count = numbered(chosen)
    first = np.asarray(representatives(ids, count), dtype=np.int64)
    found = chosen.take(first)
    counts = np.asarray(group_sums(ids, count, wide.counts))
    return replace(found, counts=counts, length=count), ids


def numbered(chosen: Codes) -> tuple[Array, int]:
    """Numbers of the combinations of entries, and how many there are."""
    new = beginnings(chosen.arrays, chosen.entries)
    if new is not None:
        ids = (np.cumsum(new) - 1).astype(np.uint32)
        return ids, int(new.sum())
    ids, count = class_ids(chosen.arrays, chosen.cardinalities, entries=chosen.entries)
    return np.asarray(ids), count


def read(
    wide: Codes,
    person: str,
    sensitive: Sequence[str],
    actions: Any,
    *,
    parts: bool,
    moved: Codes | None = None,
    note: Callable[[Codes, Codes, Array], None] | None = None,
) -> tuple[Codes, Merged | None, Persons]:
    """Entries as the table has them, how actions changed them, and whose they are.

    Parameters
    ----------
    wide
        Distinct combinations of all columns concerned and the person, with counts.
    actions
        What is done to values of single columns first.
    parts
        Whether the method may part rows of one combination.
    moved
        The same combinations where dates were moved first; then parts are needed.
    note
        Told which combination without the person each of the combinations has.
    """
    if moved is not None:
        changed = replace(Merged.of(moved, actions), original=wide)
        whose = Persons.parted(changed.entries, person, sensitive)
        return wide, changed, replace(whose, wide=wide)
    who = wide.column(person)
    names = [name for name in wide.columns if name != person]
    original, of = (wide, None) if parts else narrowed(wide, names)
    if note is not None and of is not None:
        note(original, wide, of)
    merged = Merged.of(original, actions) if any(name in actions for name in names) else None
    entries = original if merged is None else merged.entries
    if of is None:
        found = Persons.parted(entries, person, sensitive)
    else:
        of = of if merged is None else merged.into[of]
        found = Persons.whole(entries, of, who, person, sensitive)
    return original, merged, replace(found, wide=wide)


def entries_of_persons(problem: Problem) -> tuple[Array, Array]:
    """Entries of a problem and the persons who have rows of them, as pairs."""
    assert problem.person is not None
    rules = problem.rules
    run = problem.entries.column(problem.person).astype(np.int64)
    if len(rules.runs) == 1:
        return np.arange(len(run)), run.astype(np.uint32)
    length, elements = _elements(rules.runs, run)
    person = rules.marks[elements, 0] - (rules.people + 2)
    return np.repeat(np.arange(len(run)), length), person.astype(np.uint32)


def group_persons(
    problem: Problem, solution: Solution, names: Sequence[str] | None = None
) -> tuple[Array, Array]:
    """Released classes and the persons in them, as pairs; some may occur more than once.

    Classes are those of a set of columns where `names` are given, else the groups.
    """
    assert problem.person is not None
    entry = solution.entry_of_piece
    classes = solution.groups.astype(np.int64)
    if names is not None:
        used = np.flatnonzero(np.bincount(classes[classes >= 0]))
        shown = solution.view_of(tuple(names)).published
        codes = tuple(_labels(shown[name], len(used)) for name in names)
        sizes = tuple(int(one.max(initial=0)) + 1 for one in codes)
        of_group = np.full(int(classes.max(initial=-1)) + 2, -1, dtype=np.int64)
        of_group[used] = class_ids(codes, sizes, entries=len(used))[0]
        classes = of_group[classes]
    rules = problem.rules
    run = problem.entries.column(problem.person)[entry].astype(np.int64)
    if len(rules.runs) == 1:
        kept = classes >= 0
        return classes[kept], run[kept]
    length, elements = _elements(rules.runs, run)
    of, person = np.repeat(classes, length), rules.marks[elements, 0] - (rules.people + 2)
    if (classes >= 0).all():
        return of, person
    return of[of >= 0], person[of >= 0]


def _elements(runs: Array, run: Array) -> tuple[Array, Array | slice]:
    """How long some runs are, and where their elements stand: everywhere, if these are all runs."""
    length = np.diff(runs)[run]
    if len(run) == len(runs) - 1 and (run == np.arange(len(run))).all():
        return length, slice(None)
    begins = runs[run] - (np.cumsum(length) - length)
    return length, np.repeat(begins, length) + np.arange(length.sum())


def _labels(shown: Published, groups: int) -> npt.NDArray[np.uint32]:
    """A number for what each group shows; different ranges may be one label, as `*` is."""
    numbers = np.asarray(shown.labels.dictionary_encode(null_encoding="encode").indices)
    return numbers[shown.codes[:groups]].astype(np.uint32)


def persons_in_classes(solution: Solution, names: Sequence[str]) -> tuple[Array, Array, Array]:
    """Classes of a set and the persons in them, as pairs, and how many each class holds."""
    classes, who = group_persons(solution.problem, solution, names)
    pairs = classes.astype(np.uint32), who.astype(np.uint32)
    number, persons = int(classes.max(initial=-1)) + 1, int(who.max(initial=0)) + 1
    return *pairs, np.asarray(group_distinct(pairs[0], number, pairs[1], persons))
