"""The verb `attack`: join a release with an outside table and say who is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.budget import Budget
from sfumato.engines.results import Codes
from sfumato.errors import ColumnError, ParameterError, SourceError, did_you_mean
from sfumato.hierarchy import Hierarchy, read_folder
from sfumato.populations.attack import AttackResult, join_attack
from sfumato.tables import Table, table

__all__ = ["attack"]


def attack(
    release: Any,
    people: Any,
    *,
    on: Sequence[str],
    k: int = 5,
    hierarchies: str | Mapping[str, Hierarchy] | None = None,
    person: str | None = None,
    identity: str | None = None,
    weight: str | None = None,
    budget: Budget | None = None,
) -> AttackResult:
    """Join a release with a table of known people, as an attacker would.

    Parameters
    ----------
    release, people
        Anything `sfumato.table` opens. The release may show ranges, sets, stars, parts of dates
        and nodes of hierarchies.
    on
        Columns that both have.
    k
        Rows that match fewer people are exposed.
    hierarchies
        Folder of the trees the release was made with, or trees by column.
    person
        Column (in either table) that says which rows belong to one person.
    identity
        Column of both tables with the true identity, to count right guesses.
    weight
        Column of `people` with sampling weights.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"name": ["Ann", "Bob", "Cid"], "age": [21, 25, 40]})
    >>> release = pa.table({"age": ["[20, 30)", "[40, 50)"], "illness": ["flu", "gout"]})
    >>> found = sf.attack(release, people, on=["age"], k=2)
    >>> found.matches_one, found.matches_k, found.k_map
    (1, 1, False)
    """
    budget = budget or Budget()
    if not on:
        raise ParameterError("name at least one column to join on", remedy="E.g. --on age,sex,zip.")
    released, outside = table(release, budget=budget), table(people, budget=budget)
    columns = released.require(on)
    outside.require(on)
    if person is not None and person not in (*released.columns, *outside.columns):
        raise ColumnError(
            f"neither table has a column `{person}`",
            remedy=did_you_mean(person, [*released.columns, *outside.columns]),
        )
    for needed, tables in ((identity, (released, outside)), (weight, (outside,))):
        for one in tables:
            one.require([] if needed is None else [needed])
    if not released.rows:
        raise SourceError(
            "the release has no rows, so there is nobody to look for",
            where=released.name,
            remedy="Give the released table.",
        )
    if not outside.rows:
        raise SourceError(
            "the outside table has no rows, so there are no people to match",
            where=outside.name,
            remedy="Give a table of people.",
        )
    trees = _trees(hierarchies, columns)
    return join_attack(
        _entries(released, columns, (person, identity), budget),
        _entries(outside, columns, (person, identity, weight), budget),
        columns,
        k=k,
        hierarchies=trees,
        person=person,
        identity=identity,
        weight=weight,
    )


def _entries(opened: Table, on: Sequence[str], more: Sequence[str | None], budget: Budget) -> Codes:
    """Distinct combinations with counts of the columns that the table has."""
    wanted = dict.fromkeys([*on, *(name for name in more if name in opened.columns and name)])
    return opened.classes(list(wanted), None, budget)


def _trees(
    given: str | Mapping[str, Hierarchy] | None, columns: Sequence[str]
) -> Mapping[str, Hierarchy]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    return read_folder(given, columns)
