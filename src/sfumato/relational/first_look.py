"""The first look at a dataset: its keys, its ways to the person, and who is found after a join.

Somebody may be alone in no table and alone in their join: many patients were born that year, many
had that illness, and one of those born that year had it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.budget import Budget, within_budget
from sfumato.columns.profile import profile
from sfumato.columns.recognise import recognise_columns
from sfumato.relational.description import Dataset, Reference, dataset, require_person, split_name
from sfumato.relational.discovery import Unfollowed
from sfumato.relational.histories import Histories, Part, read_histories
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.wording import shown


@dataclass(frozen=True)
class TableScan(Result):
    """One table of a dataset.

    Attributes
    ----------
    key, way
        Its key, and the references that lead to the person; None where none do.
    identifiers
        Columns that point at persons.
    known
        Columns that others may know: those the figures are about.
    own
        Those of them that have one value a person.
    contradictions
        Of the others, how many persons have several values, where those are few.
    nobodys
        Rows that lead to nobody.
    alone
        Persons who have a row here, by these columns, that nobody else has.
    """

    name: str
    rows: int
    columns: int
    key: str | None
    way: tuple[str, ...] | None
    identifiers: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    contradictions: Mapping[str, int] | None = None
    nobodys: int = 0
    alone: int | None = None


@dataclass(frozen=True)
class DatasetScan(Result):
    """What was found in a dataset.

    Attributes
    ----------
    person, guessed
        The column that names persons, and whether that is a guess.
    references
        What refers to what, with the rows that lead nowhere.
    alone
        Persons who are alone in some table.
    joined
        Persons who are alone by their own columns and one other row.
    only_joined
        Those of them who are alone in no table.
    histories
        Persons who are alone by their own columns and all of their rows.
    description
        The dataset as a TOML file would describe it.
    unfollowed
        Declared keys of several columns, which do not lead to the person.
    views
        Views of the schema, which were not looked at.
    """

    dataset: str
    person: str | None
    guessed: bool
    persons: int
    tables: tuple[TableScan, ...]
    references: tuple[Reference, ...]
    alone: int | None
    joined: int | None
    only_joined: int | None
    histories: int | None
    description: str
    unfollowed: tuple[Unfollowed, ...] = ()
    views: tuple[str, ...] = ()


@within_budget
def scan(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    person: str | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> DatasetScan:
    """Look at a dataset: keys, references, ways to the person, and who can be found.

    Parameters
    ----------
    source
        Anything `sfumato.relational.dataset` opens.
    columns
        What others may know, as ``table.column``; guessed where None.
    person
        The column that names persons, as ``table.column``.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> house = {"person": "patients.id", "tables": {
    ...     "patients": {"source": pa.table({"id": [1, 2, 3, 4], "sex": ["F", "F", "M", "M"]})},
    ...     "visits": {"source": pa.table({"patient": [1, 2, 3, 4], "ward": list("ABBA")})},
    ... }}
    >>> found = sf.relational.scan(house, ["patients.sex", "visits.ward"])
    >>> found.alone, found.joined, found.only_joined
    (0, 4, 4)
    """
    budget = budget or Budget()
    made = dataset(source, person=person, budget=budget)
    try:
        return _scanned(made, columns, seed, budget)
    finally:
        if not isinstance(source, Dataset):
            made.close()


def _scanned(
    made: Dataset, columns: Sequence[str] | None, seed: int, budget: Budget
) -> DatasetScan:
    guessed = made.person is None
    if guessed:
        made = replace(made, person=made.likely_person)
    roles = {name: _roles(one.table, seed, budget) for name, one in made.tables.items()}
    known: dict[str, tuple[str, ...]] = {}
    if columns is None:
        known = {name: roles[name][1] for name in made.tables}
    else:
        for given in columns:
            name, column = split_name(given, made.tables, shown(made.name))
            known[name] = (*known.get(name, ()), column)
    keys = {(r.table, r.column) for r in made.references} | {
        (n, t.key) for n, t in made.tables.items()
    }
    known = {n: tuple(c for c in mine if (n, c) not in keys) for n, mine in known.items()}
    histories = None
    if made.person is not None:
        require_person(made)
        histories = read_histories(made, known, {}, list(made.steps), budget)
    return _found(made, histories, known, {n: r[0] for n, r in roles.items()}, guessed)


def _roles(mine: Table, seed: int, budget: Budget) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that point at persons, and columns that others may know."""
    found = recognise_columns(profile(mine, seed=seed, budget=budget))
    return tuple(n for n, r in found.items() if r.role == "identifier"), tuple(
        n for n, r in found.items() if r.role == "quasi-identifier"
    )


def _found(
    made: Dataset,
    histories: Histories | None,
    known: Mapping[str, tuple[str, ...]],
    identifiers: Mapping[str, tuple[str, ...]],
    guessed: bool,
) -> DatasetScan:
    alone, joined, whole = _alone(histories) if histories is not None else ({}, set(), set())
    anywhere = set().union(*alone.values()) if alone else set()
    paths, tables = made.paths, []
    for name, one in made.tables.items():
        part = None if histories is None else histories.parts.get(name)
        own, contradictions = _own(part, histories) if part is not None else ((), {})
        tables.append(
            TableScan(
                name,
                one.table.rows,
                len(one.table.columns),
                one.key,
                paths.get(name),
                tuple(c for c in identifiers[name] if c != one.key),
                known.get(name, ()),
                own,
                contradictions,
                0 if part is None else part.nobodys,
                len(alone[name]) if name in alone else None,
            )
        )
    counted = histories is not None
    return DatasetScan(
        dataset=shown(made.name),
        person=None if made.person is None else ".".join(made.person),
        guessed=guessed,
        persons=0 if histories is None else histories.persons,
        tables=tuple(tables),
        references=made.references,
        alone=len(anywhere) if counted else None,
        joined=len(joined) if counted else None,
        only_joined=len(joined - anywhere) if counted else None,
        histories=len(whole) if counted else None,
        description=made.to_toml(),
        unfollowed=made.unfollowed,
        views=made.views,
    )


def _alone(histories: Histories) -> tuple[dict[str, set[int]], set[int], set[int]]:
    """By table who has a row that nobody else has; who is alone after a join; by all rows."""
    own_cells = histories.own.cells()
    alone: dict[str, set[int]] = {}
    joined: set[int] = set()
    rows: dict[int, list[Any]] = defaultdict(list)
    for part in histories.parts.values():
        if not part.qi:
            continue
        single: dict[Any, set[int]] = defaultdict(set)
        beside: dict[Any, set[int]] = defaultdict(set)
        for person, cells in zip(part.person.tolist(), part.cells(), strict=True):
            if person >= 0:
                single[cells].add(person)
                beside[own_cells[person], cells].add(person)
                if part is not histories.own:
                    rows[person].append((part.name, cells))
        alone[part.name] = {p for some in single.values() if len(some) == 1 for p in some}
        joined |= {p for some in beside.values() if len(some) == 1 for p in some}
    whole = Counter((own_cells[p], tuple(sorted(rows[p]))) for p in range(histories.persons))
    everything = {
        p for p in range(histories.persons) if whole[own_cells[p], tuple(sorted(rows[p]))] == 1
    }
    return alone, joined, everything


def _own(part: Part, histories: Histories | None) -> tuple[tuple[str, ...], dict[str, int]]:
    """Columns with one value a person; of the others how many persons contradict, if few do."""
    assert histories is not None
    own, contradictions = [], {}
    there = part.person >= 0
    for name in part.qi:
        codes = part.entries.column(name)[part.entry].astype(np.int64)
        pairs = np.unique(np.stack([part.person[there], codes[there]], axis=1), axis=0)
        several = int((np.bincount(pairs[:, 0], minlength=1) > 1).sum())
        if not several:
            own.append(name)
        elif 20 * several <= histories.persons:
            contradictions[name] = several
    return tuple(own), contradictions
