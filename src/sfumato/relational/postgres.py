"""A schema of PostgreSQL as a dataset: its tables, primary keys and declared foreign keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from sfumato.addresses import shown
from sfumato.engines.postgres import Server
from sfumato.errors import SourceError, did_you_mean
from sfumato.relational import description as described
from sfumato.relational.discovery import keys_and_references
from sfumato.tables import Table

__all__ = ["schema_dataset"]

_TABLES = (
    "SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname = %s ORDER BY 1"
)
_CONSTRAINTS = (
    "SELECT contype::text, t.relname::text, a.attname::text, u.relname::text, b.attname::text, "
    "fn.nspname::text, cardinality(conkey) "
    "FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid "
    "JOIN pg_namespace n ON n.oid = t.relnamespace "
    "JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1] "
    "LEFT JOIN pg_class u ON u.oid = confrelid "
    "LEFT JOIN pg_namespace fn ON fn.oid = u.relnamespace "
    "LEFT JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = confkey[1] "
    "WHERE n.nspname = %s AND contype IN ('p', 'f') ORDER BY 2, 3"
)


def schema_dataset(address: str, opening: Callable[[Any], Table]) -> described.Dataset:
    """The tables of a schema; keys of several columns are not used."""
    schema = described.schema_of(address)
    if schema is None:
        raise SourceError(
            "the address names no schema",
            where=shown(address),
            remedy="A dataset is written postgresql://host/database#schema.*",
        )
    url = address.partition("#")[0]
    server = Server(url)
    with closing(server.connect()) as connection, server.guarded(server.shown):
        names = [name for (name,) in connection.execute(_TABLES, (schema,)).fetchall()]
        constraints = connection.execute(_CONSTRAINTS, (schema,)).fetchall()
        if not names:
            every = connection.execute("SELECT nspname::text FROM pg_namespace").fetchall()
            raise SourceError(
                f"there is no table in a schema `{schema}`",
                where=server.shown,
                remedy=did_you_mean(schema, [name for (name,) in every if name != schema]),
            )
    tables = {name: opening(f'{url}#"{schema}"."{_doubled(name)}"') for name in names}
    keys: dict[str, str | None] = dict.fromkeys(names)
    declared: dict[tuple[str, str], tuple[str, str]] = {}
    for kind, name, column, to, key, there, width in constraints:
        if width != 1 or name not in tables:
            continue
        if kind == "p":
            keys[name] = column
        elif there == schema and to in tables:
            declared[name, column] = (to, key)
    found = keys_and_references(tables, keys, declared)
    references = tuple(
        described.Reference(
            one.table,
            one.column,
            one.to,
            one.key,
            "database" if one.how == "declared" else one.how,
            one.orphans,
        )
        for one in found.references
    )
    made = {n: described.TableOf(n, t, found.keys[n]) for n, t in tables.items()}
    return described.Dataset(shown(address), made, references)


def _doubled(name: str) -> str:
    return name.replace('"', '""')
