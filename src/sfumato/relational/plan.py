"""What is asked of a dataset, table by table: checked before any row is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.anonymization.actions import key_of
from sfumato.anonymization.request import Request
from sfumato.errors import ColumnError, ParameterError, spell
from sfumato.keyfiles import pseudonym_key
from sfumato.relational.description import Dataset, require_person, split_name
from sfumato.tables import Table
from sfumato.tables.several import DESCRIPTION
from sfumato.wording import shown

_UNDERSTOOD = frozenset(
    {
        "qi", "k", "m", "linkable", "person", "identifiers", "pseudonyms", "key_file", "seed",
        "rows_are_people", "categorical", "hierarchies", "infer_hierarchies", "weights",
        "numbers_as", "exact_ends", "shift_dates", "shift_days", "sort",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan:
    """What is asked of each table of a dataset.

    Attributes
    ----------
    made
        The tables that are published, with the references between them.
    asked
        What was asked, as a whole.
    known
        By table its quasi-identifiers.
    linked
        By table the columns that become pseudonyms; in a release of rows that cannot be linked,
        the keys and references that are left out.
    dropped
        By table the columns that are left out.
    left_out
        Tables that are not published.
    key
        The key of pseudonyms.
    lists
        References to tables that lead to nobody and that many persons share, like those to a list
        of wards: by table and column.
    warnings
        What is to be said about columns that seem to name persons.
    author
        Whom the certificate names as its author.
    """

    made: Dataset
    asked: Request
    known: Mapping[str, tuple[str, ...]]
    linked: Mapping[str, tuple[str, ...]]
    dropped: Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...]
    key: bytes | None
    lists: frozenset[tuple[str, str]] = frozenset()
    warnings: tuple[str, ...] = ()
    author: str | None = None

    @property
    def person(self) -> tuple[str, str]:
        """The table and column that name persons."""
        assert self.made.person is not None
        return self.made.person

    @property
    def shown(self) -> list[str]:
        """The tables of which a column is left; others may still lead to the person."""
        return [
            name
            for name, one in self.made.tables.items()
            if set(one.table.columns) - set(self.dropped[name])
        ]

    @property
    def of_persons(self) -> list[str]:
        """The tables that lead to the person, the person's own first."""
        return [self.person[0], *self.made.steps]

    def key_of(self, name: str, column: str) -> bytes:
        """The key of the pseudonyms of a column: one for each key of the dataset."""
        assert self.key is not None
        return key_of(self.key, self.made.domain(name, column) or f"column {column}")

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """By table that leads to the person the pseudonyms that show which rows belong together.

        References to lists are cells as others are.
        """
        return {
            name: tuple(c for c in self.linked[name] if (name, c) not in self.lists)
            for name in self.of_persons
        }

    @property
    def m(self) -> int | None:
        """How many rows of a person may be known; None means all of them."""
        return self.asked.known_rows

    def request(self, name: str, **more: Any) -> Request:
        """What is asked of one table, opened with it."""
        mine = self.made.tables[name].table
        given: dict[str, Any] = {"k": self.asked.k, "seed": self.asked.seed, **more}
        given["exact_ends"] = self.asked.exact_ends
        given["categorical"] = [c for c in mine.columns if f"{name}.{c}" in self.asked.categorical]
        for setting in ("weights", "numbers_as"):
            value = self.asked.values.get(setting)
            given[setting] = (_of(name, value) if isinstance(value, Mapping) else value) or None
        given["hierarchies"] = self._trees(name)
        if given["hierarchies"] is not None:
            given["infer_hierarchies"] = self.asked.infer_hierarchies
        if self.known.get(name):
            return Request.of({"qi": list(self.known[name]), **given}).opened(mine)
        return Request.of(dict(more))

    def _trees(self, name: str) -> Any:
        """A folder of the table's own in the folder of trees, or the trees of its columns."""
        given = self.asked.hierarchies
        if given is None:
            return None
        if isinstance(given, Mapping):
            return _of(name, given)
        place = Path(given) / name
        return str(place) if os.path.isdir(place) else {}


def _of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given for the columns of one table, by their own names."""
    prefix = f"{name}."
    return {n.removeprefix(prefix): v for n, v in given.items() if n.startswith(prefix)}


def plan_of(made: Dataset, asked: Request, exclude: Sequence[str] = ()) -> Plan:
    """Check what is asked of a dataset.

    Parameters
    ----------
    asked
        Columns are named with their table before them.
    exclude
        Tables that are not published.
    """
    _refuse_strange(asked)
    require_person(made)
    whole = made
    made, left_out = _published(made, exclude)
    assert made.person is not None
    identifiers = _by_table(asked.identifiers, made)
    pseudonyms = _by_table(asked.pseudonyms, made)
    _by_table(asked.categorical, made)
    for setting in ("weights", "numbers_as"):
        value = asked.values.get(setting)
        if isinstance(value, Mapping):
            _by_table(list(value), made)
    made = _without(made, identifiers)
    linked = _linked(made, pseudonyms)
    known = _by_table([name for names in asked.qi for name in names], made)
    if len(asked.qi) > 1 or not known:
        raise ParameterError(
            "of a dataset one set of quasi-identifiers is asked for, their tables before them",
            remedy=f"Name them, e.g. {spell('qi', ['patients.birth_date', 'conditions.code'])}.",
        )
    for one in whole.references:  # what refers to a table that is left out leads nowhere
        spoken = (*known.get(one.table, ()), *linked.get(one.table, ()))
        if one.to in left_out and one.table in made.tables and one.column not in spoken:
            mine = identifiers.get(one.table, ())
            identifiers[one.table] = tuple(dict.fromkeys((*mine, one.column)))
    several = _of_several(made, known, _linked(made, {}), identifiers, asked.linkable)
    if not asked.linkable:
        linked = {n: (*linked[n], *several.get(n, ())) for n in made.tables}
    else:
        identifiers |= {n: (*identifiers.get(n, ()), *mine) for n, mine in several.items()}
    _check_parts(made, known, linked, identifiers)
    if not asked.linkable:
        dropped = {
            n: tuple(dict.fromkeys((*identifiers.get(n, ()), *linked[n]))) for n in made.tables
        }
    else:
        dropped = {n: identifiers.get(n, ()) for n in made.tables}
    lists = _lists(made, pseudonyms) if asked.linkable else frozenset()
    found = Plan(made, asked, known, linked, dropped, left_out, _key(asked), lists)
    empty = [name for name in made.tables if name not in found.shown]
    told = [
        f"`{name}` is not released: all of its columns are left out"
        + (", as keys would link rows" if set(linked[name]) & set(dropped[name]) else "")
        for name in empty
    ]
    if several:
        columns_of = ", ".join(f"`{n}.{c}`" for n, mine in several.items() for c in mine)
        told.append(f"left out, as columns of keys that would link rows: {columns_of}")
    if made.views:
        views = ", ".join(f"`{name}`" for name in made.views)
        told.append(f"views are not part of the dataset and are not released: {views}")
    return replace(found, left_out=(*left_out, *empty), warnings=(*told, *_uncounted(found)))


def _refuse_strange(asked: Request) -> None:
    """Refuse what is not promised of datasets."""
    strange = [name for name in asked.values if name not in _UNDERSTOOD]
    if asked.method != "mondrian":
        strange.append("method")
    if strange:
        raise ParameterError(
            f"of datasets only k persons are promised, and `{strange[0]}` is not understood",
            remedy="Leave it out, or release the tables one by one.",
        )
    if asked.k is None:
        raise ParameterError(
            "k is missing: how many persons must look alike", remedy=f"Give {spell('k', 5)}."
        )
    if not asked.shift_dates and "shift_days" in asked.values:
        raise ParameterError(
            "a number of days is given, and no dates are moved",
            remedy=f"Ask for it: {spell('shift_dates', True)}.",
        )
    if asked.shift_dates and asked.shift_days < 1:
        raise ParameterError(
            "dates cannot be moved by fewer than one day",
            remedy=f"Give e.g. {spell('shift_days', 365)}.",
        )
    if not asked.linkable:
        if asked.m is not None or asked.pseudonyms or (asked.key_file and not asked.shift_dates):
            raise ParameterError(
                "pseudonyms link the rows of a person, and how many of them may be known must then "
                "be said",
                remedy=f"Ask for both ({spell('linkable', True)} {spell('m', 2)}), or leave out "
                "m, pseudonyms and their key: then tables are released without their keys.",
            )
        return
    known = str(asked.m)
    if asked.m is None or not (known == "all" or (known.isdigit() and int(known) >= 1)):
        raise ParameterError(
            "a dataset whose rows can be linked must say how many rows of a person may be known",
            remedy=f"Give e.g. {spell('m', 2)}, or {spell('m', 'all')}.",
        )


def _key(asked: Request) -> bytes | None:
    if not asked.linkable and not asked.shift_dates:
        return None
    if asked.key_file is None:
        raise ParameterError(
            "keys become pseudonyms, which need a secret key"
            if asked.linkable
            else "dates are moved by a secret key",
            remedy=f"Name its file, e.g. {spell('key_file', 'secret.key')} "
            "(openssl rand -hex 32, or sfumato keygen).",
        )
    return pseudonym_key(asked.key_file)


def _published(made: Dataset, exclude: Sequence[str]) -> tuple[Dataset, tuple[str, ...]]:
    """The tables that are published, and the names of the others."""
    assert made.person is not None
    hidden = [n for n, t in made.tables.items() if t.publish is False]
    smaller = made.without([*exclude, *hidden])
    kept = smaller.tables
    if made.person[0] not in kept:
        raise ParameterError(
            f"`{made.person[0]}` is the table of persons and cannot be left out",
            where=shown(made.name),
            remedy="Leave out columns of it, or release the other tables one by one.",
        )
    for name, one in kept.items():
        if name in smaller.paths:
            continue
        if name in made.paths:
            raise ParameterError(
                f"`{name}` leads to the person only through a table that is left out",
                where=shown(made.name),
                remedy="Publish that table, too, or leave out both.",
            )
        by = [u for u in smaller.unfollowed if u.table == name and u.to in (*kept, *made.unread)]
        if by and one.publish is None:
            raise ParameterError(
                f"`{name}` leads on only by a reference that is not followed, {by[0].say}, so "
                "nothing can be promised about it",
                where=shown(made.name),
                remedy=f"Leave the table out: {spell('exclude', [name])}. References of one "
                "column to a table that may be read are followed.",
            )
        if one.publish is None:
            raise ParameterError(
                f"`{name}` does not lead to the person, so nothing can be promised about it",
                where=shown(made.name),
                remedy=f"Say in the {DESCRIPTION} whether it is copied: [tables.{name}] "
                f"publish = true, or publish = false. {spell('exclude', [name])} leaves it out, "
                "too; if it does lead there, declare how: references.",
            )
    return smaller, (*(n for n in made.tables if n not in kept), *made.unread)


def _by_table(names: Sequence[str], made: Dataset) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name in names:
        table, column = split_name(name, made.tables, shown(made.name))
        found.setdefault(table, []).append(column)
    return {name: tuple(dict.fromkeys(mine)) for name, mine in found.items()}


def _without(made: Dataset, identifiers: Mapping[str, tuple[str, ...]]) -> Dataset:
    """The dataset without keys and references that are left out."""
    assert made.person is not None
    gone = {(name, column) for name, columns in identifiers.items() for column in columns}
    if made.person in gone:
        raise ParameterError(
            f"`{'.'.join(made.person)}` names the persons: it becomes a pseudonym, or is left out "
            "with all keys",
            remedy="Take it out of the identifiers.",
        )
    smaller = replace(
        made,
        tables={
            n: replace(t, key=None if (n, t.key) in gone else t.key) for n, t in made.tables.items()
        },
        references=tuple(
            r
            for r in made.references
            if (r.table, r.column) not in gone and (r.to, r.key) not in gone
        ),
    )
    for name in made.paths:
        if name not in smaller.paths:
            raise ParameterError(
                f"`{name}` would not lead to the person any more",
                where=shown(made.name),
                remedy="Keep the columns of its way there; keys become pseudonyms or are left out "
                "by themselves.",
            )
    return smaller


def _linked(made: Dataset, pseudonyms: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """By table its keys and references, and what else becomes a pseudonym."""
    assert made.person is not None
    found: dict[str, tuple[str, ...]] = {}
    for name, one in made.tables.items():
        keys = [made.person[1]] if name == made.person[0] else []
        keys += [one.key] if one.key is not None else []
        keys += [r.key for r in made.references if r.to == name]
        keys += [r.column for r in made.references if r.table == name]
        found[name] = tuple(dict.fromkeys((*keys, *pseudonyms.get(name, ()))))
    return found


def _of_several(
    made: Dataset,
    known: Mapping[str, tuple[str, ...]],
    linked: Mapping[str, tuple[str, ...]],
    identifiers: Mapping[str, tuple[str, ...]],
    linkable: bool,
) -> dict[str, tuple[str, ...]]:
    """By table columns of declared keys that are not followed: they would link rows as they are.

    Quasi-identifiers are blurred and counted, and a key without one of its columns is none.
    """
    found: dict[str, list[str]] = {}
    for one in made.unfollowed:
        sides = [(one.table, one.columns)]
        sides += [(one.to, one.keys)] if one.to in made.tables else []
        shown_there = [
            (name, column)
            for name, columns in sides
            for column in columns
            if column not in (*known.get(name, ()), *linked[name], *identifiers.get(name, ()))
        ]
        within = not one.to or one.to in made.tables
        if linkable and within and shown_there:
            columns_of = [f"{name}.{column}" for name, column in shown_there]
            raise ParameterError(
                f"{one.say} is a key of several columns, which does not become a pseudonym: "
                f"{', '.join(f'`{name}`' for name in columns_of)} would be published as they are",
                where=shown(made.name),
                remedy=f"Leave them out: {spell('identifiers', columns_of)}; or the table: "
                f"{spell('exclude', [one.table])}; or name them among the quasi-identifiers. Rows "
                "that cannot be linked are released without them.",
            )
        for name, column in shown_there:
            if column not in found.setdefault(name, []):
                found[name].append(column)
    return {name: tuple(columns) for name, columns in found.items() if columns}


def _lists(made: Dataset, pseudonyms: Mapping[str, tuple[str, ...]]) -> frozenset[tuple[str, str]]:
    """References to tables that lead to nobody, unless most of what they refer to is one person's.

    Stays that only drugs refer to are such: which drugs were given in one stay is then counted
    among what is known.
    """
    assert made.person is not None
    found = set()
    for one in made.references:
        leads = one.to == made.person[0] or one.to in made.steps
        if leads or one.column in pseudonyms.get(one.table, ()):
            continue
        step = made.steps.get(one.table)
        if step is None or not _of_one(made.tables[one.table].table, one.column, step.column):
            found.add((one.table, one.column))
    return frozenset(found)


def _of_one(mine: Table, column: str, whose: str) -> bool:
    """Whether most values of a column stand beside one value of another only."""
    pairs = mine.classes((column, whose))
    codes = pairs.column(column)
    if pairs.values_of(column).null_count:
        codes = codes[codes != len(pairs.values_of(column)) - 1]
    beside = np.bincount(codes)
    beside = beside[beside > 0]
    return bool(len(beside) and 2 * int((beside == 1).sum()) > len(beside))


def _check_parts(
    made: Dataset,
    known: Mapping[str, tuple[str, ...]],
    linked: Mapping[str, tuple[str, ...]],
    dropped: Mapping[str, tuple[str, ...]],
) -> None:
    """Refuse columns with two parts to play, and quasi-identifiers that nobody is known by."""
    for name, columns in known.items():
        if name not in made.paths:
            raise ColumnError(
                f"`{name}` does not lead to the person, so nobody is known by its columns",
                where=shown(made.name),
                remedy="Declare how it leads there (references), or take it out.",
            )
        for column in columns:
            part = "a key or reference" if column in linked[name] else None
            part = "left out" if column in dropped.get(name, ()) else part
            if part is not None:
                raise ColumnError(
                    f"column `{name}.{column}` is a quasi-identifier and {part} at the same time",
                    where=shown(made.name),
                    remedy="Leave it in one of the two.",
                )
    for name, columns in dropped.items():
        both = set(columns) & set(linked[name])
        if both:
            raise ColumnError(
                f"column `{name}.{min(both)}` is left out and a pseudonym at the same time",
                where=shown(made.name),
                remedy="Leave it in one of the two.",
            )


def _uncounted(plan: Plan) -> Iterator[str]:
    """Warnings about references that show which rows belong together and are not counted."""
    if not plan.asked.linkable:
        return
    for name, counted in plan.keys.items():
        for column in plan.linked[name]:
            if column not in counted:
                yield (
                    f"`{name}.{column}` refers to a table that does not lead to the person: which "
                    "rows show the same pseudonym there is not counted as known; declare how that "
                    "table leads to the person, or leave the column out"
                )
