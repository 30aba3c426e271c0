"""Where a released dataset goes: a folder that appears as one, or a schema; and its certificate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato.engines.protocol import Engine, asks_sql
from sfumato.engines.staging import Staged
from sfumato.engines.writing import check_destination, format_of
from sfumato.errors import ParameterError, spell
from sfumato.files import keyed_digest
from sfumato.relational.description import Dataset, Reference, TableOf
from sfumato.relational.plan import Plan
from sfumato.release import Certificate, Finding
from sfumato.release.certificate import certificate_path, check_certificate_place
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.tables.formats import is_postgres
from sfumato.tables.several import TABLE_ENDINGS, schema_of
from sfumato.wording import shown

CERTIFICATE = "certificate.json"
"""What the certificate is called in the folder of a released dataset."""


_PRIVATE = {"private": True}


@dataclass(frozen=True)
class TableRelease(Result):
    """What became of one table.

    Attributes
    ----------
    rows, left_out
        Rows of the release, and rows that are missing there.
    qi, keys, dropped
        Blurred columns, columns of pseudonyms, and columns that were left out.
    ncp
        Normalized certainty penalty of its quasi-identifiers; a row left out costs 1 each.
    """

    name: str
    rows: int
    left_out: int
    qi: tuple[str, ...]
    keys: tuple[str, ...]
    dropped: tuple[str, ...]
    ncp: float | None = None


@dataclass(frozen=True, eq=False)
class TablesRelease(Result):
    """A released dataset, and what it cost.

    Attributes
    ----------
    promise
        ``linkable`` or ``unlinkable``.
    k, m
        Measured on the output, and how many rows of a person may be known.
    persons, person
        How many there are, and the column that named them.
    tables, left_out
        What became of each table, and the tables that are not published.
    events, events_kept
        Rows of tables of which something may be known, before and after.
    findings, verified, output
        What was checked on the output, whether it was, and where it is.
    """

    dataset: str
    promise: str
    asked: Mapping[str, Any]
    person: str
    k: int | None
    m: int | str | None
    persons: int
    tables: tuple[TableRelease, ...]
    left_out: tuple[str, ...]
    events: int
    events_kept: int
    ncp_own: float | None
    ncp_events: float | None
    findings: tuple[Finding, ...] = ()
    verified: bool = False
    output: str | None = None
    warnings: tuple[str, ...] = ()
    certificate: Certificate | None = field(default=None, metadata=_PRIVATE)


def certificate_of(output: str) -> Path:
    """Where the certificate of a released dataset lies."""
    if is_postgres(output):
        return certificate_path(output.removesuffix(".*"))
    return Path(output) / CERTIFICATE


def check_place(plan: Plan, output: str | None, force: bool, sign: Any) -> None:
    """Refuse an output that could not be published in the end."""
    if output is None:
        if sign is not None:
            raise ParameterError(
                "only a release that is written can be signed",
                remedy=f"Say where to write it, e.g. {spell('output', 'released')}.",
            )
        return
    engines = [one.table.engine for one in plan.made.tables.values()]
    away = [engine for engine in engines if not _reaches(engine, output)]
    if is_postgres(output):
        if schema_of(output) is None or away:
            raise ParameterError(
                "only a schema of PostgreSQL is released to one, of the same database",
                where=shown(output),
                remedy="Write -o postgresql://host/database#schema.*, or the name of a folder.",
            )
        check_certificate_place(certificate_of(output), force=force, sign=sign)
        return
    if away:
        raise ParameterError(
            f"{away[0].name} would be written to another file system than the folder is in, and "
            "tables there could not appear together",
            where=shown(output),
            remedy="Release the tables one by one, or let that file system be this machine's "
            "(fs.defaultFS of Spark).",
        )
    place = Path(output)
    if output.lower().endswith(TABLE_ENDINGS):
        raise ParameterError(
            "a dataset is released to a folder, and this is the name of a file",
            where=output,
            remedy=f"Name a folder; {spell('format', 'parquet')} says how tables are written.",
        )
    is_folder = os.path.isdir(place)
    check_destination(str(place / "x") if is_folder else str(place), force=True)
    inputs = [path for engine in engines for path in engine.paths]
    if is_folder and any(place.resolve() in Path(p).resolve().parents for p in inputs):
        raise ParameterError(
            "this folder holds the tables being read", where=output, remedy="Name another one."
        )
    if os.path.lexists(place):
        if not force:
            raise ParameterError(
                "there is something of this name already",
                where=output,
                remedy="Choose another name, or replace a released dataset with "
                f"{spell('force', True)}.",
            )
        if place.is_symlink() or not (place / CERTIFICATE).is_file():
            raise ParameterError(
                "this is not a released dataset, and nothing else is replaced",
                where=output,
                remedy="Choose another name, or remove it yourself.",
            )
    check_certificate_place(place / "x", force=True, sign=sign)


def _reaches(engine: Engine, output: str) -> bool:
    """Whether what an engine writes there can appear at once with the rest."""
    return engine.reaches(output) if asks_sql(engine) else not is_postgres(output)


def file_name(one: TableOf, format: str | None) -> str:
    """The file of a table in a release: of the kind it has, where that can be written."""
    if format is not None:
        return f"{one.name}.{format.lower().lstrip('.')}"
    if one.file is not None:
        parts = one.file.split(".")[1:]
        ending = ".".join(parts[-2:] if parts[-1:] in (["gz"], ["zst"]) else parts[-1:])
        try:
            format_of(f"x.{ending}")
            return f"{one.name}.{ending}"
        except ParameterError:
            pass
    return f"{one.name}.parquet"


def place_of(plan: Plan, name: str, schema: str | None, folder: Path, format: str | None) -> str:
    if schema is not None:
        doubled = name.replace('"', '""')
        return f'{schema.partition("#")[0]}#"{schema_of(schema)}"."{doubled}"'
    return str(folder / file_name(plan.made.tables[name], format))


def commit_tables(staged: Sequence[Staged], sealed: Certificate, beside: Path, force: bool) -> None:
    from sfumato.engines.postgres import commit_together

    with sealed.beside(
        beside, force=force, appeared=lambda: any(s.target.appeared() for s in staged)
    ):
        commit_together(staged, force=force)


def certified(
    plan: Plan,
    release: TablesRelease,
    promises: Sequence[Mapping[str, Any]],
    written: Mapping[str, Table],
    places: Mapping[str, str],
    output: str,
    described: str | None,
) -> Certificate:
    """What the tables keep; `described` is the digest of the description that lies beside them."""
    home = ("seed", "key_file")
    asked = {n: v for n, v in release.asked.items() if n not in home}
    if isinstance(asked.get("hierarchies"), str):
        asked["hierarchies"] = os.path.basename(asked["hierarchies"].rstrip("/"))
    inputs = {n: t.table.fingerprint() for n, t in plan.made.tables.items()}
    known = known_columns(promises)
    k = release.k if plan.asked.linkable else smallest_class(written, known)
    return Certificate.of(
        **({} if plan.author is None else {"author": plan.author}),
        method="linked tables" if plan.asked.linkable else "tables without keys",
        asked=asked,
        qi=[[f"{n}.{c}" for n, columns in known.items() for c in columns]],
        k=k,
        rows=sum(one.rows for one in written.values()),
        suppressed_rows=sum(one.left_out for one in release.tables),
        input={
            "name": os.path.basename(shown(plan.made.name)),
            "columns": plan.made.columns(),
            "fingerprint": keyed_digest(repr(sorted(inputs.items()))),
        },
        output={
            "name": os.path.basename(shown(output)),
            **({} if described is None else {"description": described}),
            "tables": {
                name: {
                    "file": os.path.basename(places[name]) if "://" not in places[name] else name,
                    "fingerprint": one.fingerprint(),
                    "rows": one.rows,
                    "columns": list(one.columns),
                }
                for name, one in written.items()
            },
        },
        promises=list(promises),
    )


def known_columns(promises: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """By table the quasi-identifiers that a certificate's promises are about."""
    known: dict[str, list[str]] = {}
    for one in promises:
        if one["kind"] == "linked-tables":
            known |= {one["person"][0]: [*one["own"]], **one["events"]}
        elif one["kind"] == "anonymity":
            known[one["table"]] = [name for names in one["qi"] for name in names]
    return known


def smallest_class(tables: Mapping[str, Table], known: Mapping[str, Sequence[str]]) -> int | None:
    """Rows of the smallest class of any table, which whoever has the tables can count."""
    sizes = [tables[n].class_sizes(columns).k for n, columns in known.items() if n in tables]
    return min((k for k in sizes if k is not None), default=None)


def description_of(plan: Plan, places: Mapping[str, str]) -> Dataset:
    """The released dataset as its description tells it."""
    linked = plan.asked.linkable
    tables = {
        n: replace(t, file=os.path.basename(places[n]), key=t.key if linked else None, publish=None)
        for n, t in plan.made.tables.items()
        if n in places
    }
    references: tuple[Reference, ...] = plan.made.references if linked else ()
    return Dataset("", tables, references, plan.person if linked else None)
