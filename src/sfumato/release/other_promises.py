"""Promises beside anonymity: columns that are left out, ratios of masks, and linked histories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Self

import numpy as np

from sfumato.budget import Budget
from sfumato.hierarchy.tree import Array
from sfumato.privacy import Model, ModelFinding, check, merged_checks, model_from_dict
from sfumato.release.promise import CountsPersons, Finding, require_same_classes
from sfumato.tables import Table
from sfumato.wording import counted
from sfumato.wording import ratio as told


@dataclass(frozen=True)
class RatioAtMost(CountsPersons):
    """The distinct or separation ratio of the columns does not exceed β (Motwani & Xu, masking).

    With a `person` the pairs are those of rows of different persons; they can be counted where the
    table, or its `witness`, has that column.
    """

    measure: str
    """`distinct` or `separation`."""
    beta: float
    """The largest ratio that is allowed."""
    columns: tuple[str, ...]
    """The published columns."""
    person: str | None = None
    """The column that names persons, if pairs of different persons were counted."""
    witness: Table | None = field(default=None, repr=False, compare=False)
    kind: str = field(default="ratio-at-most", init=False)

    def to_dict(self) -> dict[str, Any]:
        told = {"measure": self.measure, "beta": self.beta, "columns": list(self.columns)}
        return told if self.person is None else {**told, "person": self.person}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            str(parameters["measure"]),
            float(parameters["beta"]),
            tuple(parameters["columns"]),
            parameters.get("person"),
        )

    def __post_init__(self) -> None:
        if self.measure not in ("distinct", "separation"):
            raise ValueError(self.measure)

    @property
    def about(self) -> tuple[str, ...]:
        """The columns that a witness needs."""
        return self.columns if self.person is None else (*self.columns, self.person)

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        if self.counts_again(table) or self.witness is None:
            held = table
        else:
            require_same_classes(table, self.witness, self.columns, budget)
            held = self.witness
        published = counted(len(self.columns), "published column")
        if self.person is not None and self.person not in held.columns:
            return Finding(
                check=self.kind,
                holds=False,
                say=f"{self.measure} ratio of the {published}, at most {self.beta:.12g} promised, "
                "was not checked: pairs of different persons were counted when this was released, "
                f"by `{self.person}`, which it does not show",
                measured={"not_checked": ["pairs of different persons"]},
                remedy="Ask its maker, who can count them.",
            )
        if self.person is None:
            sizes = held.class_sizes(self.columns, budget)
            ratio = sizes.distinct if self.measure == "distinct" else sizes.separation
            alike = sizes
        else:
            persons = held.person_sizes(self.columns, self.person, budget)
            sizes, ratio, alike = persons.rows, persons.separation, persons.persons
        return Finding(
            check=self.kind,
            holds=ratio <= self.beta,
            say=f"{self.measure} ratio of the {published} is "
            f"{told(ratio, 6)}, at most {self.beta:.12g} was promised",
            measured={"ratio": ratio, "classes": sizes.classes, "rows": sizes.rows},
            remedy="Publish fewer columns, or allow a larger β.",
            class_sizes=(alike.k, alike.classes),
        )


@dataclass(frozen=True)
class WithoutColumns:
    """Columns that were to be left out are not in the table."""

    columns: tuple[str, ...]
    """Columns that the release must not have."""
    kind: str = field(default="without-columns", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {"columns": list(self.columns)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(tuple(parameters["columns"]))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        present = [name for name in self.columns if name in table.columns]
        return Finding(
            check=self.kind,
            holds=not present,
            say=_left_out(self.columns, present),
            measured={"present": present},
            remedy="Publish again without: " + ", ".join(f"`{name}`" for name in present),
        )


def _left_out(columns: tuple[str, ...], present: list[str]) -> str:
    if present:
        return "still present though left out: " + ", ".join(present)
    return "left out: " + ", ".join(columns) if columns else "no column had to be left out"


@dataclass(frozen=True)
class LinkedHistories:
    """Own columns and any m rows of a person leave at least k persons (linkable releases).

    It is checked by counting, from nothing but the released table: for every person every
    combination of at most m shown event cells, two equal events being two, must be had by k persons
    of the same shown own cells. Models of sensitive columns must hold for the values of whoever has
    it, a person counting once with each value of hers: for those in all of their rows, since
    somebody may ask what else they have; and for those in the rows that show one of the known
    cells, since somebody may ask what that event was.

    Parameters
    ----------
    k
        Persons that must be left.
    m
        Rows of a person that may be known; None means all of them, and how many they are.
    own, events
        Quasi-identifiers with one value a person, and the others.
    person
        The column of pseudonyms that says whose rows are whose.
    models
        What must hold for sensitive columns.
    """

    k: int
    m: int | None
    own: tuple[str, ...]
    events: tuple[str, ...]
    person: str
    models: tuple[Model, ...] = ()
    kind: str = field(default="linked-histories", init=False)

    @property
    def qi(self) -> tuple[tuple[str, ...], ...]:
        """The quasi-identifiers, as other promises name them."""
        return ((*self.own, *self.events),)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns that models are about."""
        return tuple(dict.fromkeys(model.about for model in self.models if model.about))

    def to_dict(self) -> dict[str, Any]:
        told = {
            "k": self.k,
            "m": self.m,
            "own": list(self.own),
            "events": list(self.events),
            "person": self.person,
        }
        return {**told, "models": [m.to_dict() for m in self.models]} if self.models else told

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        if not all(isinstance(told["column"], str) for told in parameters.get("models", ())):
            raise TypeError("a model is about something that is not a column")
        return cls(
            int(parameters["k"]),
            None if parameters["m"] is None else int(parameters["m"]),
            tuple(parameters["own"]),
            tuple(parameters["events"]),
            str(parameters["person"]),
            tuple(model_from_dict(model) for model in parameters.get("models", ())),
        )

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Count who has what."""
        entries = table.classes((*self.own, *self.events, self.person), budget=budget)
        own = _numbered([entries.column(name) for name in self.own], entries.entries)
        item = _numbered([entries.column(name) for name in self.events], entries.entries)
        who = entries.column(self.person).astype(np.int64)
        odd = self._odd(own, who, table)
        if odd is not None:
            return odd
        had = (
            _singles(own, item, who)
            if self.m == 1
            else np.fromiter(self._supports(own, item, who, entries.row_counts), np.int64)
        )
        fewest = int(had.min()) if len(had) else None
        failing = int((had < self.k).sum())
        many = "all" if self.m is None else f"any {self.m}"
        checks = self._values(table, budget) if self.models else ()
        return Finding(
            check=self.kind,
            holds=not failing and all(check.holds for check in checks),
            say=f"whoever knows {', '.join(self.own) or 'no own column'} of a person and {many} of "
            f"their rows ({', '.join(self.events) or 'which say nothing more'}) is left with at "
            f"least {fewest or 0:,} persons, {self.k:,} asked"
            + "".join(f"; of their values, counting persons, {one.say}" for one in checks),
            measured={"k": fewest, "known": len(had), "failing": failing}
            | ({"checks": list(checks)} if checks else {}),
            remedy="Ask for less, or release rows that cannot be linked.",
            class_sizes=(fewest, int(own.max(initial=-1)) + 1),
        )

    def _supports(self, own: Array, item: Array, who: Array, counts: Array) -> Iterator[int]:
        """How many persons of the same own cells have what may be known of somebody."""
        classes: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        rows = zip(own.tolist(), who.tolist(), item.tolist(), counts.tolist(), strict=True)
        for same, person, one, times in rows:
            classes[same][person] += [one] * times
        for persons in classes.values():
            had: Counter[tuple[int, ...]] = Counter()
            for history in persons.values():
                had.update(set(self._known(sorted(history))))
            yield from had.values()

    def _values(self, table: Table, budget: Budget | None) -> tuple[ModelFinding, ...]:
        """What models measure for the persons that each attacker is left with."""
        names = (*self.own, *self.events, self.person, *self.sensitive)
        entries = table.classes(names, budget=budget)
        row = np.repeat(np.arange(entries.entries), np.asarray(entries.row_counts))
        own = list(zip(*(entries.column(n)[row].tolist() for n in self.own), strict=True))
        item = list(zip(*(entries.column(n)[row].tolist() for n in self.events), strict=True))
        who = entries.column(self.person)[row].tolist()
        classes: dict[Any, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, one in enumerate(who):
            classes[own[at] if own else ()][one].append(at)
        totals = {}
        for name in self.sensitive:
            had = {*zip(who, entries.column(name)[row].tolist(), strict=True)}
            size = len(entries.values_of(name))
            totals[name] = np.bincount([value for _, value in had], minlength=size)
        found = []
        for persons in classes.values():
            group, rows = self._groups(persons, item or [()] * len(row))
            codes = {name: entries.column(name)[row[rows]] for name in self.sensitive}
            found.append(
                check(
                    self.models,
                    {"attacker": group, **codes},
                    ["attacker"],
                    values={name: entries.values_of(name) for name in self.sensitive},
                    person=np.asarray(who)[rows],
                    totals=totals,
                )
            )
        if not found:
            return ()
        told = merged_checks(found).findings
        return tuple(replace(one, qi=self.qi[0], failing_rows=0) for one in told)

    def _groups(self, persons: Mapping[int, list[int]], item: Sequence[Any]) -> tuple[Any, Any]:
        """Rows that some attacker looks at, and the number of what is looked at: persons who have
        what is known, in all of their rows, and in those that show one of the known cells."""
        having: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for one, rows in persons.items():
            for some in {*self._known(sorted(item[row] for row in rows))}:
                having[some].append(one)
        group, taken = [], []
        number = 0
        for some, who in having.items():
            for cell in (None, *{*some}):
                rows = [r for one in who for r in persons[one] if cell is None or item[r] == cell]
                group += [number] * len(rows)
                taken += rows
                number += 1
        return np.array(group, dtype=np.uint32), np.array(taken, dtype=np.int64)

    def _odd(self, own: Array, who: Array, table: Table) -> Finding | None:
        """That pseudonyms do not name persons: nobody, or somebody with two sets of own cells."""
        nobody = table.engine.null_counts([self.person])[self.person]
        people = int(who.max(initial=-1)) + 1
        times = np.bincount(np.unique(own * people + who) % max(people, 1))
        twice = int((times > 1).sum())
        if not nobody and not twice:
            return None
        return Finding(
            check=self.kind,
            holds=False,
            say=f"`{self.person}` does not name persons: {counted(nobody, 'row', does='are')} "
            f"nobody's, and {twice:,} pseudonyms have more than one set of own cells",
            measured={"nobody": nobody, "twice": twice},
            remedy="Get the release again from its maker.",
        )

    def _known(self, history: list[Any]) -> Iterator[tuple[Any, ...]]:
        if self.m is None:
            yield tuple(history)
            return
        yield ()  # who knows no row of hers still knows her own columns
        for size in range(1, min(self.m, len(history)) + 1):
            yield from combinations(history, size)


def _numbered(columns: Sequence[Array], entries: int) -> Array:
    """One number for each combination of codes, from 0."""
    numbers = np.zeros(entries, dtype=np.int64)
    for codes in columns:
        both = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return numbers


def _singles(own: Array, item: Array, who: Array) -> Array:
    """How many persons have each set of own cells, and each of them with one event.

    Examples
    --------
    >>> own, item, who = np.array([0, 0, 0]), np.array([0, 1, 1]), np.array([0, 0, 1])
    >>> _singles(own, item, who).tolist()
    [2, 1, 2]
    """
    people, items = int(who.max(initial=-1)) + 1, int(item.max(initial=-1)) + 1
    known = [own, own * items + item]
    return np.concatenate(
        [
            np.unique(np.unique(one * people + who) // max(people, 1), return_counts=True)[1]
            for one in known
        ]
    )
