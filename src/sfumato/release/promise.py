"""What a release promises, in a form that can be checked on any table and replayed from JSON.

A promise knows nothing of how a release was made. It is checked on the table as read back from
where it was written, before the release gets its name, and again whenever somebody verifies it.
"""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.protocol import Codes, asks_sql
from sfumato.errors import EngineError, InputError
from sfumato.hierarchy.tree import Array
from sfumato.privacy import Model, ModelFinding, check, merged_checks, model_from_dict
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.wording import counted

__all__ = [
    "MEASURED_ELSEWHERE",
    "CountsPersons",
    "Finding",
    "LinkedHistories",
    "Promise",
    "RatioAtMost",
    "WithoutColumns",
    "measured_on",
    "promise_class",
    "promise_from_dict",
    "require_same_classes",
]


@dataclass(frozen=True)
class Finding(Result):
    """Outcome of one check.

    `measured` holds exact figures; `say` is the sentence for people; `remedy` what to change when
    the check failed; `class_sizes` the smallest class of any set and the classes of the first,
    where they were counted on the way.
    """

    check: str
    holds: bool
    say: str
    measured: Mapping[str, Any] = field(default_factory=dict)
    remedy: str | None = None
    class_sizes: tuple[int | None, int] | None = field(
        default=None, repr=False, compare=False, metadata={"private": True}
    )

    def __post_init__(self) -> None:
        if self.holds:
            object.__setattr__(self, "remedy", None)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What was promised and could not be measured again, though nothing speaks against it."""
        return tuple(self.measured.get("not_checked", ()))

    @property
    def broken(self) -> bool:
        """Whether something speaks against it: what nobody could measure here is not broken."""
        return not self.holds and not self.unchecked


class Promise(Protocol):
    """Something that must be true of a released table."""

    @property
    def kind(self) -> str:
        """Name in certificates."""

    def to_dict(self) -> dict[str, Any]:
        """Parameters as JSON values, without the kind."""

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        """Rebuild the promise from a certificate."""

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Measure the table and say whether the promise holds."""


_HOMES = {
    "anonymity": "sfumato.release.anonymity:Anonymity",
    "linked-histories": "sfumato.release.promise:LinkedHistories",
    "k-map": "sfumato.populations.promises:MatchesPopulation",
    "few-values": "sfumato.populations.promises:FewValues",
    "matches-people": "sfumato.populations.promises:MatchesPeople",
    "ratio-at-most": "sfumato.release.promise:RatioAtMost",
    "safe-harbor-forms": "sfumato.populations.safe_harbor:SafeHarborForms",
    "without-columns": "sfumato.release.promise:WithoutColumns",
}
"""Where each kind of promise lives."""
MEASURED_ELSEWHERE = frozenset({"k-map"})
"""Kinds that are measured on another table, too: what was measured there is not passed on."""


def promise_class(kind: str) -> Any:
    """The class of a kind of promise."""
    if kind not in _HOMES:
        raise InputError(
            f"the certificate names a promise `{kind}` that this version does not know",
            remedy="Verify it with the version of Sfumato that made it.",
        )
    module, name = _HOMES[kind].split(":")
    return getattr(importlib.import_module(module), name)


def promise_from_dict(kind: str, parameters: Mapping[str, Any]) -> Promise:
    """Rebuild a promise that a certificate names."""
    found: Promise = promise_class(kind).from_dict(parameters)
    return found


class CountsPersons:
    """What promises have in common that may count persons, whom a release does not name.

    While it is made a *witness* shows them: the same rows with the person beside them.
    """

    person: str | None
    witness: Table | None

    def counts_again(self, table: Table) -> bool:
        """Whether everything that was measured can be measured on a table."""
        return self.person is None or self.person in table.columns


def measured_on(promise: Promise, table: Table) -> bool:
    """Whether figures are of a table alone; those of others stay at home.

    People of a population, and persons whom the release does not name, are counted elsewhere.
    """
    if isinstance(promise, CountsPersons):
        return promise.counts_again(table)
    return promise.kind not in MEASURED_ELSEWHERE


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
                say=f"{self.measure} ratio of the {published}, at most {self.beta:g} promised, was "
                "not checked: pairs of different persons were counted when this was released, by "
                f"`{self.person}`, which it does not show",
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
            f"{ratio:.6g}, at most {self.beta:g} was promised",
            measured={"ratio": ratio, "classes": sizes.classes, "rows": sizes.rows},
            remedy="Publish fewer columns, or allow a larger β.",
            class_sizes=(alike.k, alike.classes),
        )


def require_same_classes(
    table: Table, witness: Table, columns: Sequence[str], budget: Budget | None
) -> None:
    """Refuse a witness that is not about the rows of a table: the same classes, as often.

    Where both are tables of one kind of database, it sums up hashes of their rows.
    """
    both = (table, witness)
    alike = table.engine.kind == witness.engine.kind and all(
        table.column(name).type == witness.column(name).type for name in columns
    )
    sums = [_hash_sums(one, columns, budget) for one in both] if alike else [None]
    if None in sums:
        same = _equal(*(one.classes(columns, budget=budget) for one in both))
    else:
        same = sums[0] == sums[1]
    if not same:
        raise EngineError(
            "the rows that were written twice, once with the persons, are not the same",
            where=table.name,
            remedy="Make sure that nobody changes the table meanwhile.",
        )


def _hash_sums(
    table: Table, columns: Sequence[str], budget: Budget | None
) -> tuple[int, ...] | None:
    engine = table.engine
    return engine.hash_sums(columns, budget) if asks_sql(engine) else None


def _same_values(mine: pa.Array, theirs: pa.Array) -> bool:
    """Whether values are the same; times, in whichever unit a file counts them."""
    try:
        return bool(mine.equals(theirs if theirs.type == mine.type else theirs.cast(mine.type)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _equal(mine: Codes, theirs: Codes) -> bool:
    """Whether two tables have the same combinations, as often."""
    if mine.entries != theirs.entries or mine.rows != theirs.rows:
        return False
    if not all(map(_same_values, mine.values, theirs.values)):
        return False
    ordered = []
    for codes in (mine, theirs):
        order = np.lexsort(codes.arrays[::-1])
        ordered.append([array[order] for array in (*codes.arrays, codes.row_counts)])
    return all(np.array_equal(a, b) for a, b in zip(*ordered, strict=True))


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
            raise TypeError("a model is about something that is no column")
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
        for size in range(1, self.m + 1):
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
