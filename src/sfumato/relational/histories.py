"""Whose rows are whose: the tables of a dataset read as histories of persons.

Of each table only the distinct combinations of keys, references and quasi-identifiers leave its
engine. A row belongs to the person that its references lead to. What it shows of keys, and what
the rows show that it refers to, are its *tokens*: a release replaces them by pseudonyms, so that
equal ones can be seen to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.protocol import Codes
from sfumato.errors import ColumnError, spell
from sfumato.hierarchy.labels import as_text
from sfumato.relational.description import Dataset, Reference
from sfumato.tables import Table
from sfumato.wording import counted

__all__ = ["Histories", "Part", "of_two_persons", "read_histories"]

Array = npt.NDArray[Any]
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Part:
    """One table of the histories.

    Attributes
    ----------
    qi, linked
        Its quasi-identifiers, and the columns that become pseudonyms.
    entries
        Distinct combinations of these columns, with counts.
    entry
        For each row its entry; rows of one entry stand together.
    person
        For each row the number of its person, or -1.
    shown
        For each row a number for each linked column, -1 where there is nothing.
    needs
        For each row the rows that it refers to: by which column, table and number.
    tokens
        For each row what can be seen of keys through it, its own and those of the rows it refers
        to: pairs of a place and a number. Those of the person are left out.
    """

    name: str
    table: Table
    qi: tuple[str, ...]
    linked: tuple[str, ...]
    entries: Codes
    entry: Array
    person: Array
    shown: Array
    needs: list[tuple[tuple[str, str, int], ...]] = field(repr=False)
    tokens: list[tuple[tuple[int, int], ...]] = field(default_factory=list, repr=False)

    @property
    def nobodys(self) -> int:
        """Rows that belong to nobody in the table of persons."""
        return int((self.person == NOBODY).sum())


@dataclass(frozen=True, eq=False)
class Histories:
    """All tables that lead to the person, the person's own first."""

    persons: int
    parts: Mapping[str, Part]

    @property
    def own(self) -> Part:
        """The table with one row a person."""
        return next(iter(self.parts.values()))

    @property
    def events(self) -> list[Part]:
        """The other tables of which something may be known."""
        return [part for part in list(self.parts.values())[1:] if part.qi]


class _Tokens:
    """One number for each text that is the same key: pseudonyms are equal likewise."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, codes: Array, values: Any, domain: str) -> Array:
        texts = as_text(values).to_pylist()
        numbers = [
            NOBODY if one is None else self._numbers.setdefault((domain, one), len(self._numbers))
            for one in texts
        ]
        return np.array([*numbers, NOBODY], dtype=np.int64)[codes.astype(np.int64)]


def read_histories(
    made: Dataset,
    qi: Mapping[str, Sequence[str]],
    linked: Mapping[str, Sequence[str]],
    tables: Sequence[str],
    budget: Budget,
) -> Histories:
    """Read the tables that lead to the person, and find out whose rows are whose.

    Parameters
    ----------
    qi, linked
        By table the quasi-identifiers, and the columns that become pseudonyms.
    tables
        Tables to be read; those that others lead through are read as well.
    """
    assert made.person is not None
    root, key = made.person
    steps, tokens = made.steps, _Tokens()
    order = [root, *_with_ways(made, tables)]
    parts: dict[str, Part] = {}
    at_key: dict[tuple[str, str], dict[int, int]] = {}
    for at, name in enumerate(order):
        budget.progress(f"reading {name}", at / len(order))
        mine = made.tables[name].table
        refers = [r for r in made.references if r.table == name and r.to in order]
        keys = [made.tables[name].key, *(r.key for r in made.references if r.to == name)]
        known = (*(k for k in keys if k), *(r.column for r in refers), *linked.get(name, ()))
        links = tuple(dict.fromkeys((key, *known) if name == root else known))
        columns = (*qi.get(name, ()), *links)
        entries = mine.classes(tuple(dict.fromkeys(columns)), budget=budget)
        assert entries.counts is not None
        entry = np.repeat(np.arange(entries.entries), entries.counts)
        shown = {
            n: tokens.of(entries.column(n), entries.values_of(n), made.domain(name, n))[entry]
            for n in links
        }
        if name == root:
            person = np.arange(len(entry))
        else:
            step = steps[name]
            person = _owners(shown[step.column], at_key[step.to, step.key], parts[step.to].person)
        for column in {r.key for r in made.references if r.to == name} | (
            {key} if name == root else set()
        ):
            rows = zip(shown[column].tolist(), range(len(entry)), strict=True)
            at_key[name, column] = {token: row for token, row in rows if token != NOBODY}
        parts[name] = Part(
            name,
            mine,
            tuple(qi.get(name, ())),
            links,
            entries,
            entry,
            person,
            np.stack([shown[n] for n in links], axis=1),
            [()] * len(entry),
        )
    for name in order[1:]:
        _refer(made, name, parts, at_key)
    places = _Places()
    for name in order[1:]:
        _see(parts, name, places)
    return Histories(len(parts[root].entry), parts)


def _with_ways(made: Dataset, tables: Sequence[str]) -> list[str]:
    """The tables and those on their ways to the person, each after what it leads through."""
    steps = made.steps
    wanted: set[str] = set()
    for name in tables:
        while name in steps and name not in wanted:
            wanted.add(name)
            name = steps[name].to
    return [name for name in steps if name in wanted]


def _owners(tokens: Array, rows: Mapping[int, int], persons: Array) -> Array:
    """The person of each row, by the row that it refers to."""
    at = np.array([rows.get(token, -1) for token in tokens.tolist()], dtype=np.int64)
    return np.where(at >= 0, np.append(persons, NOBODY)[at], NOBODY)


def _refer(
    made: Dataset,
    name: str,
    parts: Mapping[str, Part],
    at_key: Mapping[tuple[str, str], Mapping[int, int]],
) -> None:
    """Find the rows that the rows of a table refer to; refuse rows of two persons."""
    part, root = parts[name], next(iter(parts))
    needs: list[list[tuple[str, str, int]]] = [[] for _ in part.needs]
    for one in made.references:
        if one.table != name or one.to not in parts:
            continue
        rows, there = at_key[one.to, one.key], parts[one.to].person
        column = part.shown[:, part.linked.index(one.column)]
        two = 0
        for at, token in enumerate(column.tolist()):
            to = rows.get(token)
            if to is None:
                continue
            two += int(part.person[at] != NOBODY and there[to] not in (part.person[at], NOBODY))
            if one.to != root and (one.to, to) != (name, at):
                needs[at].append((one.column, one.to, to))
        if two:
            raise of_two_persons(made, one, two)
    part.needs[:] = [tuple(one) for one in needs]


def of_two_persons(made: Dataset, one: Reference, rows: int) -> ColumnError:
    """Why rows cannot be anybody's that lead to two persons."""
    both = (made.steps[one.table].column, one.column)
    several = " or ".join(spell("identifiers", [f"{one.table}.{name}"]) for name in both)
    false = " or ".join(f"references = {{ {name} = false }}" for name in both)
    return ColumnError(
        f"{counted(rows, 'row')} of `{one.table}` {'belongs' if rows == 1 else 'belong'} to two "
        f"persons: `{both[1]}` leads to another one than `{both[0]}`",
        where=made.tables[one.table].table.name,
        remedy="Mend these rows or leave them out. If one of the two columns is about somebody "
        f"else, leave that one out ({several}), or say so in a description ({false}).",
    )


class _Places:
    """One number for each way from a row to a cell of a key."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}

    def of(self, way: tuple[str, ...]) -> int:
        return self._numbers.setdefault(way, len(self._numbers))


def _see(parts: Mapping[str, Part], name: str, places: _Places) -> None:
    """Write down what can be seen of keys through each row of a table."""
    part, persons = parts[name], next(iter(parts.values())).shown[:, 0]

    def through(table: str, row: int, way: tuple[str, ...], passed: frozenset[Any]) -> Any:
        there = parts[table]
        for column, token in zip(there.linked, there.shown[row].tolist(), strict=True):
            if token != NOBODY:
                yield places.of((*way, table, column)), token
        for column, to, at in there.needs[row]:
            if (to, at) not in passed:
                yield from through(to, at, (*way, table, column), passed | {(to, at)})

    for at, owner in enumerate(part.person.tolist()):
        hers = int(persons[owner]) if owner != NOBODY else NOBODY
        seen = through(name, at, (), frozenset({(name, at)}))
        part.tokens.append(tuple((place, token) for place, token in seen if token != hers))
