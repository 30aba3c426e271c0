"""Entries of a problem in which persons are counted, and what compiled rules know of them.

A person may have many rows, and those of one combination of quasi-identifiers may be many persons'.
Methods that never part rows of one combination get entries as ever, each with a *run* of persons.
Methods that may part them get an entry for each person, so that a part of it is still hers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.actions import Merged
from sfumato.anonymization.problem import Problem, Solution
from sfumato.engines.results import Codes, smallest_dtype
from sfumato.privacy import Model, Rules, SensitiveColumn, compile_rules, with_persons

__all__ = ["Persons", "group_persons"]

Array = npt.NDArray[Any]


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
        from sfumato.kernels import class_ids, representatives

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
        from sfumato.kernels import class_ids, representatives

        people = int(who.max()) + 1 if len(who) else 0
        pair = (of.astype(np.uint32), who.astype(np.uint32))
        ids, count = class_ids(pair, (max(entries.entries, 1), max(people, 1)), entries=len(of))
        first = representatives(ids, count)
        owner = pair[0][first]
        runs = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=entries.entries))])
        values = entries.select(sensitive)
        held = (pair[1][first], *(array[owner] for array in values.arrays))
        numbered = _with_runs(entries, person, np.arange(entries.entries), entries.entries)
        return cls._of(numbered, runs, held, values)

    @classmethod
    def _of(cls, entries: Codes, runs: Array, held: Sequence[Array], of: Codes) -> Persons:
        """`held` are the person and the sensitive values of each element of the runs."""
        from sfumato.kernels import class_ids, representatives

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

    def holders(self, column: str) -> Array:
        """How many persons hold each value of a column."""
        run = self.entries.arrays[-1].astype(np.int64)
        length = np.diff(self.runs)[run]
        begins = self.runs[run] - (np.cumsum(length) - length)
        who = self.persons[np.repeat(begins, length) + np.arange(length.sum())].astype(np.int64)
        codes = np.repeat(self.entries.column(column).astype(np.int64), length)
        pairs = np.unique(codes * self.number + who)
        size = len(self.entries.values_of(column))
        return np.bincount(pairs // max(self.number, 1), minlength=size)

    def rules(self, models: Sequence[Model]) -> Rules:
        """Models as compiled rules that count persons."""
        return with_persons(
            compile_rules(models, self.columns), self.runs, self.persons, self.pairs
        )


def _with_runs(entries: Codes, person: str, runs: Array, count: int) -> Codes:
    """The same entries, the number of their run in the place of the person."""
    import pyarrow as pa

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
    from sfumato.kernels import class_ids, group_sums, representatives

    chosen = wide.select(names)
    ids, count = class_ids(chosen.arrays, chosen.cardinalities, entries=wide.entries)
    found = chosen.take(np.asarray(representatives(ids, count), dtype=np.int64))
    counts = np.asarray(group_sums(ids, count, wide.counts))
    return replace(found, counts=counts, length=count), np.asarray(ids)


def read(
    wide: Codes, person: str, sensitive: Sequence[str], actions: Any, *, parts: bool
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
    """
    who = wide.column(person)
    names = [name for name in wide.columns if name != person]
    original, of = (wide, None) if parts else narrowed(wide, names)
    merged = Merged.of(original, actions) if any(name in actions for name in names) else None
    entries = original if merged is None else merged.entries
    if of is None:
        found = Persons.parted(entries, person, sensitive)
    else:
        of = of if merged is None else merged.into[of]
        found = Persons.whole(entries, of, who, person, sensitive)
    return original, merged, replace(found, wide=wide)


def group_persons(
    problem: Problem, solution: Solution, names: Sequence[str] | None = None
) -> tuple[Array, Array]:
    """Released classes and the persons in them, as pairs; some may occur more than once.

    Classes are those of a set of columns where `names` are given, else the groups.
    """
    from sfumato.kernels import class_ids

    assert problem.person is not None
    entry = np.arange(len(solution.groups)) if solution.entry is None else solution.entry
    classes = solution.groups.astype(np.int64)
    if names is not None:
        used = np.flatnonzero(np.bincount(classes[classes >= 0]))
        shown = solution.view_of(tuple(names)).published
        codes = tuple(shown[name].codes[: len(used)].astype(np.uint32) for name in names)
        sizes = tuple(int(one.max(initial=0)) + 1 for one in codes)
        of_group = np.full(int(classes.max(initial=-1)) + 2, -1, dtype=np.int64)
        of_group[used] = class_ids(codes, sizes, entries=len(used))[0]
        classes = of_group[classes]
    rules = problem.rules
    run = problem.entries.column(problem.person)[entry].astype(np.int64)
    length = np.diff(rules.runs)[run]
    first = np.cumsum(length) - length
    element = np.repeat(rules.runs[run] - first, length) + np.arange(int(length.sum()))
    person = rules.marks[element, 0] - rules.people - 2
    of = np.repeat(classes, length)
    kept = of >= 0
    return of[kept], person[kept]
