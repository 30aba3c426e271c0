"""Keys and references: those that PostgreSQL declares, and those that nobody did.

What nobody declared is found by name, type and inclusion of values.

A key is a column with a name like one and no value twice. A column refers to a key if it is called
like that table, or if nearly all of its many values are keys there. Both are guesses in a safe
direction: a release replaces them by pseudonyms.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from sfumato.errors import ColumnError, SourceError, did_you_mean, spell
from sfumato.hierarchy.labels import as_text
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.wording import counted

_KINDS = ("text", "integer", "decimal", "binary")
"""Kinds of columns that may be keys."""
_INCLUDED = 0.5
"""Share of a column's values that must be keys there, where its name says what it refers to."""
_ALL_INCLUDED = 0.98
"""The same where only values speak."""
_MANY = 50
"""Different values that a column of text has at least, where only values speak."""
_PEOPLE = (
    "patient", "person", "people", "customer", "client", "member", "user", "employee", "student",
    "pupil", "resident", "citizen", "inhabitant", "subject", "participant", "beneficiary", "victim",
    "respondent", "insured", "taxpayer", "donor", "worker",
)  # fmt: skip


@dataclass(frozen=True)
class Reference(Result):
    """A column whose cells are keys of another table.

    Attributes
    ----------
    how
        ``declared`` by the user, by the ``database``, or found by ``name`` or by ``values``.
    orphans
        Rows whose cell is no key there; null refers to nothing and is none of them.
    """

    table: str
    column: str
    to: str
    key: str
    how: str = "declared"
    orphans: int = 0

    @property
    def say(self) -> str:
        """The reference as the description writes it."""
        return f"{self.table}.{self.column} → {self.to}.{self.key}"


@dataclass(frozen=True)
class Keys:
    """The key of each table, and what refers to them."""

    keys: Mapping[str, str | None]
    references: tuple[Reference, ...]


class _Values:
    """The distinct values of columns as text, each read once, and how many rows hold them."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self._read: dict[tuple[str, str], dict[str, int]] = {}

    def of(self, table: str, column: str) -> dict[str, int]:
        at = (table, column)
        if at not in self._read:
            values = self._tables[table].values(column)
            assert values.counts is not None
            text = as_text(values.values[0]).to_pylist()
            counts = np.zeros(len(text), dtype=np.int64)
            np.add.at(counts, values.arrays[0].astype(np.int64), values.counts)
            pairs = zip(text, counts.tolist(), strict=True)
            self._read[at] = {one: number for one, number in pairs if one is not None}
        return self._read[at]


def orphans_of(held: Mapping[str, int], keys: Mapping[str, int]) -> int:
    """Rows whose value is no key."""
    return sum(number for value, number in held.items() if value not in keys)


def keys_and_references(
    tables: Mapping[str, Table],
    keys: Mapping[str, str | None],
    declared: Mapping[tuple[str, str], tuple[str, str]],
) -> Keys:
    """What is declared, and what is found beside it.

    Parameters
    ----------
    keys
        Declared keys; None where a table's is to be found.
    declared
        By table and column what it refers to; an empty name where it was said to refer to nothing.
    """
    values = _Values(tables)
    known = {
        name: keys[name] if keys[name] is not None else _key_of(name, one)
        for name, one in tables.items()
    }
    found = [
        Reference(t, c, to, key, "declared", orphans_of(values.of(t, c), values.of(to, key)))
        for (t, c), (to, key) in declared.items()
        if to
    ]
    for one in found:
        _require_key(tables[one.to], one)
    for name, mine in tables.items():
        for column in mine.schema:
            at = (name, column.name)
            if at in declared or column.kind not in _KINDS:
                continue
            reference = _refers(name, column.name, tables, known, values)
            if reference is not None:
                found.append(reference)
    return Keys(known, tuple(found))


def require_named(name: str, key: str, mine: Table) -> None:
    """Refuse a declared key that does not name rows."""
    sizes, empty = mine.class_sizes([key]), mine.engine.null_counts([key])[key]
    if sizes.classes < sizes.rows or empty:
        why = f"it is empty in {counted(empty, 'row')}" if empty else "some values occur twice"
        raise ColumnError(
            f"`{name}.{key}` was said to be the key of `{name}`, and does not name its rows: {why}",
            where=mine.name,
            remedy="Name a column without empty cells in which no value occurs twice, or none.",
        )


def _require_key(to: Table, one: Reference) -> None:
    sizes = to.class_sizes([one.key])
    if sizes.classes < sizes.rows:
        raise ColumnError(
            f"`{one.table}.{one.column}` refers to `{one.to}.{one.key}`, which is not a key: some "
            "of its values occur more than once",
            where=to.name,
            remedy="Refer to a column that names rows, or leave the reference out.",
        )


def _key_of(name: str, mine: Table) -> str | None:
    """The column that is called like a key and has no value twice."""
    wanted = ("id", "key", *(f"{stem}{end}" for stem in (name, singular(name)) for end in _ENDS))
    for column in mine.schema:
        if column.kind in _KINDS and _plain(column.name) in {_plain(one) for one in wanted}:
            sizes = mine.class_sizes([column.name])
            null = mine.engine.null_counts([column.name])[column.name]
            if sizes.rows and sizes.classes == sizes.rows and not null:
                return column.name
    return None


_ENDS = ("", "_id", "_no", "_nr", "_number", "_key", "_code", "_uuid")


def _refers(
    name: str,
    column: str,
    tables: Mapping[str, Table],
    keys: Mapping[str, str | None],
    values: _Values,
) -> Reference | None:
    """What a column refers to, the surest first."""
    best: tuple[float, Reference] | None = None
    for to, key in keys.items():
        if key is None or (to == name and column == key):
            continue
        called = _is_called(column, to, key)
        text = tables[name].column(column).kind == "text"
        if not called and (to == name or not text or column == keys[name]):
            continue
        held, there = values.of(name, column), values.of(to, key)
        included = sum(value in there for value in held) / len(held) if held else 1.0
        enough = _INCLUDED if called else _ALL_INCLUDED
        if included < enough or (not called and len(held) < _MANY):
            continue
        how = "name" if called else "values"
        one = Reference(name, column, to, key, how, orphans_of(held, there))
        sure = included + called
        if best is None or sure > best[0]:
            best = (sure, one)
    return None if best is None else best[1]


def _is_called(column: str, to: str, key: str) -> bool:
    """Whether a column is called like a table or its key."""
    plain = _plain(column)
    stems = {_plain(to), _plain(singular(to))}
    if _plain(key) not in ("id", "key") and plain == _plain(key):
        return True
    return any(plain in (stem, stem + _plain(key)) or _tail(plain, stem) for stem in stems)


def _tail(plain: str, stem: str) -> bool:
    return plain in {stem + _plain(end) for end in _ENDS}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def singular(name: str) -> str:
    """One of what a table holds, as far as English tells.

    Examples
    --------
    >>> singular("patients"), singular("families"), singular("addresses"), singular("people")
    ('patient', 'family', 'address', 'person')
    """
    if name.lower() == "people":
        return "person"
    if name.lower().endswith("ies"):
        return name[:-3] + "y"
    if name.lower().endswith(("sses", "xes", "ches", "shes")):
        return name[:-2]
    return name[:-1] if name.lower().endswith("s") and not name.lower().endswith("ss") else name


def likely_person(tables: Collection[str], references: Sequence[Reference]) -> str | None:
    """Of tables with keys the one that is about persons: called so, or most referred to."""
    referred = {n: sum(one.to == n for one in references) for n in tables}
    named = [n for n in tables if _plain(singular(n)) in _PEOPLE]
    return max(named or filter(referred.get, tables), key=referred.__getitem__, default=None)


_RELATIONS = (
    "SELECT relname::text, relkind IN ('v', 'm', 'f'), has_any_column_privilege(c.oid, 'SELECT') "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relispartition AND nspname = %s ORDER BY 1"
)
_NAMES = (
    "ARRAY(SELECT a.attname::text FROM unnest({numbers}) WITH ORDINALITY AS u(number, at) "
    "JOIN pg_attribute a ON a.attrelid = {table} AND a.attnum = u.number ORDER BY at)"
)
_CONSTRAINTS = (
    f"SELECT contype::text, t.relname::text, {_NAMES.format(numbers='conkey', table='conrelid')}, "
    f"u.relname::text, {_NAMES.format(numbers='confkey', table='confrelid')}, fn.nspname::text "
    "FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid "
    "JOIN pg_namespace n ON n.oid = t.relnamespace "
    "LEFT JOIN pg_class u ON u.oid = confrelid "
    "LEFT JOIN pg_namespace fn ON fn.oid = u.relnamespace "
    "WHERE n.nspname = %s AND contype IN ('p', 'f') ORDER BY 2, 3"
)


@dataclass(frozen=True)
class Unfollowed(Result):
    """A declared key that does not lead to rows here.

    It has several columns, or refers to a table that cannot be read.

    Attributes
    ----------
    table, columns
        Where it is declared.
    to, keys
        What it refers to; empty where it is the key of its own table.
    """

    table: str
    columns: tuple[str, ...]
    to: str = ""
    keys: tuple[str, ...] = ()

    @property
    def say(self) -> str:
        """The key, and what it refers to."""
        here = f"{self.table} ({', '.join(self.columns)})"
        return f"{here} → {self.to} ({', '.join(self.keys)})" if self.to else here

    @property
    def why(self) -> str:
        """Why it is not followed."""
        several = len(self.columns) > 1
        return "a key of several columns" if several else "that table may not be read"


@dataclass(frozen=True)
class Declared:
    """What a schema of a database declares.

    Attributes
    ----------
    keys
        By table its key of one column; None where it has none.
    references
        By table and column what it refers to.
    unfollowed
        Keys of several columns, and references to tables that cannot be read.
    views
        Views, materialized views and foreign tables, which are no tables of the dataset.
    unread
        Tables that may not be read and are left out.
    """

    keys: dict[str, str | None]
    references: dict[tuple[str, str], tuple[str, str]]
    unfollowed: tuple[Unfollowed, ...] = ()
    views: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def keys_of_schema(url: str, schema: str, exclude: Collection[str] = ()) -> Declared:
    """Tables of a schema with their primary keys, and what their foreign keys refer to.

    Parameters
    ----------
    exclude
        Tables that need not be readable.
    """
    from sfumato.engines.postgres import Server

    server = Server(url)
    with closing(server.connect()) as connection, server.guarded(server.shown):
        relations = connection.execute(_RELATIONS, (schema,)).fetchall()
        constraints = connection.execute(_CONSTRAINTS, (schema,)).fetchall()
        tables = [name for name, view, _ in relations if not view]
        if not tables:
            every = connection.execute("SELECT nspname::text FROM pg_namespace").fetchall()
            raise SourceError(
                f"there is no table in a schema `{schema}`",
                where=server.shown,
                remedy=did_you_mean(schema, [name for (name,) in every if name != schema]),
            )
    closed = [name for name, view, readable in relations if not view and not readable]
    for name in closed:
        if name not in exclude:
            raise SourceError(
                f"table `{name}` of the schema may not be read",
                where=server.shown,
                remedy=f"Leave it out ({spell('exclude', [name])}), or have its owner grant SELECT "
                "on it.",
            )
    keys: dict[str, str | None] = {name: None for name in tables if name not in closed}
    declared: dict[tuple[str, str], tuple[str, str]] = {}
    unfollowed: list[Unfollowed] = []
    for kind, name, columns, to, there, place in constraints:
        if name not in keys or (kind == "f" and (place != schema or to not in tables)):
            continue
        if len(columns) > 1 or (kind == "f" and to in closed):
            unfollowed.append(Unfollowed(name, tuple(columns), to or "", tuple(there)))
        elif kind == "p":
            keys[name] = columns[0]
        else:
            declared[name, columns[0]] = (to, there[0])
    views = tuple(name for name, view, _ in relations if view)
    return Declared(keys, declared, tuple(unfollowed), views, tuple(closed))
