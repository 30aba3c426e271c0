"""Check a released dataset: replay its one certificate on all of its tables.

A certificate is data that anybody may have written: it opens nothing but files that lie beside it
under plain names, or tables of the schema that the user named.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.addresses import shown
from sfumato.budget import Budget
from sfumato.errors import InputError, PromiseError, SourceError
from sfumato.files import refuse_link
from sfumato.keyfiles import public_key
from sfumato.relational.description import DESCRIPTION, schema_of
from sfumato.relational.promise import LinkedTables, WholeReferences
from sfumato.relational.publishing import CERTIFICATE, certificate_of
from sfumato.release import Certificate, Finding
from sfumato.release.promise import promise_from_dict
from sfumato.release.verify import Verification, counts_again, signed
from sfumato.results import plain
from sfumato.tables import Table, table
from sfumato.tables.open import is_postgres

__all__ = ["is_released", "opened_release", "verify"]

_TOGETHER: Mapping[str, Any] = {"linked-tables": LinkedTables, "whole-references": WholeReferences}
_AGAIN = "Get it again from where it was made, or release the dataset again."


def is_released(source: Any) -> bool:
    """Whether a source is a released dataset: a folder with its certificate, or a schema."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    if is_postgres(text):
        return schema_of(text) is not None
    return (Path(text) / CERTIFICATE).is_file()


def verify(
    source: str | os.PathLike[str],
    *,
    certificate: str | os.PathLike[str] | None = None,
    signer: str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
) -> Verification:
    """Check that a released dataset is the one that was certified, and keeps its promises.

    Parameters
    ----------
    source
        The folder, or ``postgresql://…#schema.*``.
    certificate
        Its certificate; the one that lies there where None.
    signer
        The file of the public key that must have signed it.
    """
    text = os.fspath(source)
    place = certificate_of(text) if certificate is None else Path(certificate)
    demanded = None if signer is None else public_key(signer)
    try:
        record = Certificate.read(place)
    except PromiseError as error:
        told = error.what if error.where is None else f"{error.where}: {error.what}"
        broken = Finding("certificate", False, told, remedy=error.remedy)
        return Verification(False, (broken,), shown(text), str(place))
    findings = [Finding("certificate", True, "the certificate is whole"), signed(record, demanded)]
    with ExitStack() as stack:
        try:
            tables = opened_release(text, record, stack)
            findings += _same(tables, record.body["output"]["tables"])
            findings += _described(text, tables)
            promised = record.body["promises"]
            findings += [one for told in promised for one in _replayed(dict(told), tables, budget)]
            if not any(told["kind"] in ("linked-tables", "anonymity") for told in promised):
                findings.append(
                    Finding("promises", False, "the certificate promises nothing about persons")
                )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SourceError(
                "the certificate lacks what it must say", where=str(place), remedy=_AGAIN
            ) from error
    return Verification(
        holds=all(finding.holds for finding in findings),
        findings=tuple(findings),
        table=shown(text),
        certificate=str(place),
        promised=tuple({k: v for k, v in told.items() if k != "measured"} for told in promised),
        not_promised=_not_promised(promised, record.body["output"]["tables"], text),
        signed_by=str(record.signed["by"]) if record.signed and findings[1].holds else None,
        made=record.maker,
    )


def opened_release(text: str, record: Certificate, stack: ExitStack) -> dict[str, Table]:
    """The tables of a released dataset."""
    tables: dict[str, Table] = {}
    for name, told in record.body["output"]["tables"].items():
        if is_postgres(text):
            doubled = str(name).replace('"', '""')
            source = f'{text.partition("#")[0]}#"{schema_of(text)}"."{doubled}"'
        else:
            file = str(told["file"])
            if file != os.path.basename(file) or file in ("", ".", ".."):
                raise SourceError(
                    "the certificate names a file that does not lie beside it",
                    where=text,
                    remedy=_AGAIN,
                )
            refuse_link(Path(text) / file)
            source = str(Path(text) / file)
        tables[str(name)] = stack.enter_context(table(source))
    return tables


def _same(tables: Mapping[str, Table], recorded: Mapping[str, Any]) -> list[Finding]:
    """Whether the tables are those that were released."""
    differ = [n for n, one in tables.items() if one.fingerprint() != recorded[n]["fingerprint"]]
    listed = ", ".join(f"`{name}`" for name in differ)
    return [
        Finding(
            "fingerprint",
            not differ,
            f"the {len(tables)} tables are those that were released"
            if not differ
            else f"not as they were released, their fingerprints differ: {listed}",
            remedy=_AGAIN,
        )
    ]


def _described(text: str, tables: Mapping[str, Table]) -> list[Finding]:
    """That the description beside the tables names others as well, if it does."""
    place = Path(text) / DESCRIPTION
    if is_postgres(text) or not place.is_file():
        return []
    refuse_link(place)
    try:
        told = tomllib.loads(place.read_text(encoding="utf-8-sig"))
        others = sorted(set(told["tables"]) - set(tables))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return [Finding("description", False, f"{DESCRIPTION} cannot be read", remedy=_AGAIN)]
    if not others:
        return []
    listed = ", ".join(f"`{name}`" for name in others)
    say = f"{DESCRIPTION} names tables that were not released here: {listed}"
    return [Finding("description", False, say, remedy=_AGAIN)]


def _beside(text: str, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """That files which lie beside the tables are none of the release, if there are any."""
    if is_postgres(text):
        return ()
    own = {CERTIFICATE, DESCRIPTION, *(str(told["file"]) for told in tables.values())}
    others = sorted(file.name for file in Path(text).iterdir() if file.name not in own)
    if not others:
        return ()
    some = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
    return (f"files that lie here and are not of this release were not looked at: {some}",)


def _replayed(
    told: dict[str, Any], tables: Mapping[str, Table], budget: Budget | None
) -> list[Finding]:
    """One promise, measured again; and whether it measures what was measured then."""
    kind, measured, name = str(told.pop("kind")), told.pop("measured"), told.pop("table", None)
    promise: Any
    if kind in _TOGETHER:
        promise = _TOGETHER[kind].from_dict(told)
        finding = promise.check(tables, budget)
        again = True
    else:
        try:
            promise = promise_from_dict(kind, told)
        except InputError as error:
            return [Finding("promises", False, error.what, remedy=error.remedy)]
        finding = promise.check(tables[str(name)], budget)
        finding = replace(finding, say=f"{name}: {finding.say}")
        again = kind != "without-columns" and counts_again(promise, tables[str(name)])
    if not again or plain(finding.measured) == measured:
        return [finding]
    differs = f"{kind}: the figures differ from those in the certificate"
    return [finding, Finding("measures", False, differs)]


def _not_promised(
    promised: Any, tables: Mapping[str, Any], text: str
) -> dict[str, tuple[str, ...]]:
    """Columns of the tables that no promise is about."""
    about: set[str] = set()
    for told in promised:
        if told["kind"] == "linked-tables":
            about |= {f"{told['person'][0]}.{column}" for column in told["own"]}
            about |= {f"{n}.{c}" for n, columns in told["events"].items() for c in columns}
            about |= {f"{n}.{c}" for n, columns in told["keys"].items() for c in columns}
        elif told["kind"] == "anonymity":
            about |= {f"{told['table']}.{c}" for columns in told["qi"] for c in columns}
    every = [f"{name}.{column}" for name, told in tables.items() for column in told["columns"]]
    remarks = _beside(text, tables)
    return {"remarks": remarks, "columns": tuple(c for c in every if c not in about), "models": ()}
