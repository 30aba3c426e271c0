"""Attack a released dataset with the one it was made of: who is left, whoever knows what.

An attacker knows the quasi-identifying own columns of a person and the quasi-identifying cells of
m of their rows, in whichever tables. Released persons match if their own cells cover what is known,
and so do as many different rows of theirs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.anonymization.linkable import require_countable
from sfumato.budget import Budget, within_budget
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import ParameterError
from sfumato.hierarchy import read_folder
from sfumato.relational.description import RELEASED_LINK_BYTES, Dataset, dataset, require_room
from sfumato.relational.histories import Histories, read_histories
from sfumato.relational.publishing import certificate_of
from sfumato.relational.verification import opened_release
from sfumato.release import Certificate
from sfumato.release.label_matching import Reading, read_cells
from sfumato.results import Result

Item = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class TablesAttack(Result):
    """How many released persons match what may be known of each person.

    Attributes
    ----------
    persons, released
        Persons of the dataset, and of the release.
    k, m
        How many persons should match, and how many rows are known.
    attackers
        What may be known, person by person: combinations of rows.
    matches_none, matches_one, matches_few, matches_k
        Attackers who are left with nobody, exactly one person, fewer than k, and at least k.
    least
        The fewest persons that any attacker is left with, who is left with any.
    moved
        Whether the release moved dates, so that whoever looks for the true ones is led astray.
    """

    release: str
    persons: int
    released: int
    k: int
    m: int | str
    known: tuple[str, ...]
    attackers: int
    matches_none: int
    matches_one: int
    matches_few: int
    matches_k: int
    least: int | None
    moved: bool = False

    @property
    def holds(self) -> bool:
        """Whether no attacker who is left with anybody is left with fewer than k persons."""
        return self.matches_one + self.matches_few == 0


@within_budget
def attack(
    release: str | Path,
    people: Any,
    *,
    k: int | None = None,
    m: int | None = None,
    hierarchies: str | Path | None = None,
    budget: Budget | None = None,
) -> TablesAttack:
    """Join a released dataset with the people whom it is about, and count who is left.

    Parameters
    ----------
    release
        The folder of the release, or the address of its schema.
    people
        The dataset with what attackers know; anything `sfumato.relational.dataset` opens.
    k, m
        What was promised, unless given.
    hierarchies
        The folder of trees the release was made with, a folder in it for each table.
    """
    for name, number, least in (("k", k, 1), ("m", m, 0)):
        if number is not None and number < least:
            raise ParameterError(
                f"{name} = {number} is out of range", remedy=f"Give {least} or more."
            )
    budget = budget or Budget()
    text = str(release)
    record = Certificate.read(certificate_of(text))
    told = next((p for p in record.body["promises"] if p["kind"] == "linked-tables"), None)
    if told is None:
        raise ParameterError(
            "the tables of this release cannot be joined: it has no keys",
            where=text,
            remedy="Attack them one by one, e.g. sfumato attack released/patients.csv people.csv.",
        )
    known = {
        told["person"][0]: tuple(told["own"]),
        **{n: tuple(c) for n, c in told["events"].items()},
    }
    k = int(told["k"]) if k is None else k
    most = m if m is not None else (None if told["m"] is None else int(told["m"]))
    with ExitStack() as stack:
        released = _released(told, opened_release(text, record, stack, budget))
        outside = dataset(people, person=".".join(told["person"]), budget=budget)
        if not isinstance(people, Dataset):
            stack.callback(outside.close)
        _require(known, outside)
        both = [*released.tables.values(), *outside.tables.values()]
        require_room(both, {*released.links(), *outside.links()}, budget, RELEASED_LINK_BYTES)
        mine = read_histories(released, known, {}, list(released.steps), budget)
        theirs = read_histories(
            outside, known, {}, [n for n in known if n in outside.steps], budget
        )
        require_countable(ClassSizes.of_counts(theirs.lengths), 1 if most is None else most)
        counted = _counted(mine, theirs, _readings(mine, theirs, hierarchies), k, most, budget)
    return TablesAttack(
        release=text,
        persons=theirs.persons,
        released=mine.persons,
        k=k,
        m="all" if most is None else most,
        known=tuple(f"{n}.{c}" for n, columns in known.items() for c in columns),
        moved=bool(record.body["asked"].get("shift_dates")),
        **counted,
    )


def _require(known: Mapping[str, Sequence[str]], outside: Dataset) -> None:
    """Refuse people of whom what is shown cannot be known."""
    for name, columns in known.items():
        there = outside.tables[name].table.columns if name in outside.tables else ()
        for column in columns:
            if column not in there:
                raise ParameterError(
                    f"the release shows `{name}.{column}`, which the people do not have",
                    where=outside.name,
                    remedy="Give the dataset that was released; columns that are shown as bounds "
                    "cannot be attacked.",
                )


def _released(told: Mapping[str, Any], tables: Mapping[str, Any]) -> Dataset:
    """The released tables as a dataset, linked as the certificate says."""
    described: dict[str, Any] = {
        "person": ".".join(told["person"]),
        "tables": {
            name: {
                "source": one,
                "references": {c: f"{to}.{key}" for t, c, to, key in told["links"] if t == name},
            }
            for name, one in tables.items()
            if name in told["keys"]
        },
    }
    return dataset(described, found=False)


def _readings(
    mine: Histories, theirs: Histories, hierarchies: str | Path | None
) -> dict[tuple[str, str], Reading]:
    """By table and column which values each released cell covers."""
    found = {}
    for name, part in mine.parts.items():
        if not part.qi:
            continue
        place = None if hierarchies is None else Path(hierarchies) / name
        trees = (
            read_folder(place, part.qi, pass_over=True)
            if place is not None and os.path.isdir(place)
            else {}
        )
        for column in part.qi:
            labels = part.entries.values_of(column)
            values = theirs.parts[name].entries.values_of(column)
            found[name, column] = read_cells(column, labels, values, trees.get(column))
    return found


def _counted(
    mine: Histories,
    theirs: Histories,
    readings: Mapping[tuple[str, str], Reading],
    k: int,
    m: int | None,
    budget: Budget,
) -> dict[str, Any]:
    """Attackers by how many released persons they are left with."""
    shown, known = _items(mine), _items(theirs)
    classes: dict[tuple[int, ...], list[int]] = {}
    for person, (own, _) in enumerate(shown):
        classes.setdefault(own, []).append(person)
    covers = _Covers(readings, mine, (budget.memory or _ENOUGH) // 8 // _PAIR_BYTES)
    number: Counter[str] = Counter()
    least: int | None = None
    for at, (own, rows) in enumerate(known):
        budget.progress("attacking", at / max(len(known), 1))
        near = [
            p
            for cells, persons in classes.items()
            if covers.of((mine.own.name, cells), (mine.own.name, own))
            for p in persons
        ]
        size = len(rows) if m is None else min(m, len(rows))
        for some, times in Counter(combinations(sorted(rows), size)).items():
            left = sum(
                _fits(some, shown[p][1], covers)
                and (m is not None or len(shown[p][1]) == len(rows))
                for p in near
            )
            number["attackers"] += times
            if left:
                least = left if least is None else min(least, left)
            few = "matches_one" if left == 1 and k > 1 else "matches_few"
            name = "matches_none" if not left else few if left < k else "matches_k"
            number[name] += times
    names = ("attackers", "matches_none", "matches_one", "matches_few", "matches_k")
    return {**{name: number[name] for name in names}, "least": least}


def _items(histories: Histories) -> list[tuple[tuple[int, ...], list[Item]]]:
    """Own cells and rows of each person, as codes."""
    found: list[tuple[tuple[int, ...], list[Item]]] = [(one, []) for one in histories.own.cells()]
    for part in histories.events:
        for person, one in zip(part.person.tolist(), part.cells(), strict=True):
            if person >= 0:
                found[person][1].append((part.name, one))
    return found


class _Covers:
    """Whether a released row covers a known one; so many pairs are remembered."""

    def __init__(
        self, readings: Mapping[tuple[str, str], Reading], mine: Histories, most: int
    ) -> None:
        self._readings, self._mine, self._most = readings, mine, most
        self._seen: dict[tuple[Item, Item], bool] = {}

    def of(self, released: Item, known: Item) -> bool:
        if released[0] != known[0]:
            return False
        at = (released, known)
        if at not in self._seen:
            if len(self._seen) >= self._most:
                self._seen.clear()
            name = released[0]
            cells = zip(self._mine.parts[name].qi, released[1], known[1], strict=True)
            self._seen[at] = all(
                self._readings[name, column].covers(np.array([cell]), np.array([value])).all()
                for column, cell, value in cells
            )
        return self._seen[at]


_ENOUGH = 1 << 30
"""Memory where nobody named a limit."""
_PAIR_BYTES = 400
"""What a pair takes that is remembered, measured."""


def _fits(known: Sequence[Item], released: Sequence[Item], covers: _Covers) -> bool:
    """Whether every known row is covered by a released one of its own (augmenting paths)."""
    taken: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for at, item in enumerate(released):
            if at in tried or not covers.of(item, known[row]):
                continue
            tried.add(at)
            if at not in taken or place(taken[at], tried):
                taken[at] = row
                return True
        return False

    return all(place(row, set()) for row in range(len(known)))
