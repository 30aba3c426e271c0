"""Check a table or a release: replay its certificate, or measure what the user demands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from sfumato.budget import Budget
from sfumato.columns.persons import require_person
from sfumato.errors import (
    ColumnError,
    ParameterError,
    PromiseError,
    SourceError,
    did_you_mean,
    spell,
)
from sfumato.fields import declares, parameters
from sfumato.privacy import column_sets, models_of
from sfumato.privacy.models import PromiseFields
from sfumato.release.anonymity import Anonymity, combined
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.promise import Finding, Promise, promise_class, promise_from_dict
from sfumato.results import Result, plain
from sfumato.tables import Table, table

__all__ = ["Verification", "promised", "replay", "verify"]


@dataclass(frozen=True)
class Verification(Result):
    """Whether everything that was checked holds, and what was found."""

    holds: bool
    findings: tuple[Finding, ...]
    table: str
    certificate: str | None


@declares(PromiseFields)
def verify(
    source: Any,
    *,
    promises: Sequence[Promise] = (),
    certificate: str | os.PathLike[str] | None = None,
    key: bytes | None = None,
    others: Sequence[Any] = (),
    row_key: str | None = None,
    wildcards: bool = False,
    budget: Budget | None = None,
    **asked: Unpack[PromiseFields],
) -> Verification:
    """Check what is asked of a table, or replay the certificate of a release.

    What is asked is said in the words of `sfumato.anonymize`. With other releases of one table,
    what is promised about anonymity must also hold for whoever joins them all.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    promises
        What must hold besides; where nothing is asked, the certificate beside the table says it.
    certificate
        The certificate, where it does not lie beside the table.
    key
        The key the certificate must be sealed with.
    others
        Other releases of the same table.
    row_key
        The column that links their rows.
    wildcards
        Whether suppressed and missing cells match any value.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [20, 20, 30], "ill": ["flu", "gout", "flu"]})
    >>> sf.verify(people, qi=["age"], k=2).holds
    False
    >>> sf.verify(people, qi=["age"], k=1, sensitive=["ill"], alpha=1.0).holds
    True
    """
    if bool(others) != (row_key is not None):
        raise ParameterError(
            "several releases are joined by a row key, and one of the two is missing",
            remedy="Name both: the other releases, and the column that links their rows.",
        )
    opened = table(source, budget=budget)
    moved = asked["population"] if set(asked) == {"population"} else None
    if moved is None and asked:
        promises = (*promises, *promised(opened, asked, wildcards=wildcards, budget=budget))
    elif wildcards:
        raise ParameterError(
            "wildcards go with what is asked here; a certificate says it for itself",
            remedy=f"Leave it out, or say what to check, e.g. {spell('k', 5)}.",
        )
    findings = [_checked(promise, opened, budget) for promise in promises]
    place = None
    if certificate is not None or not promises:
        place = _certificate_of(opened, source, certificate)
        findings += replay(opened, place, key, moved, budget)
        promises = _promised(place, key)
    if others and row_key is not None:
        findings += _together(opened, others, row_key, promises, budget)
    return Verification(
        holds=all(finding.holds for finding in findings),
        findings=tuple(findings),
        table=opened.name,
        certificate=None if place is None else str(place),
    )


def promised(
    opened: Table,
    asked: Mapping[str, Any],
    *,
    wildcards: bool = False,
    budget: Budget | None = None,
) -> list[Promise]:
    """What parameters ask of a table."""
    declared = parameters(PromiseFields)
    for name in asked:
        if name not in declared:
            raise ParameterError(
                f"there is no parameter `{name}`", remedy=did_you_mean(name, declared)
            )
    told = {n: declared[n].checked(value) for n, value in asked.items() if value is not None}
    sets, sensitive = column_sets(told.pop("qi", ())), told.pop("sensitive", ())
    person = told.pop("person", None)
    if person is not None:
        require_person(opened, person, [*(n for names in sets for n in names), *sensitive])
    k, population = told.pop("k_map", None), told.pop("population", None)
    if (k is None) != (population is None):
        example = f"{spell('k_map', 20)} {spell('population', 'voters.parquet')}"
        raise ParameterError(
            "k-map looks people up in a population, and one of the two is missing",
            remedy=f"Give both, e.g. {example}.",
        )
    for columns in (*sets, sensitive):
        opened.require(columns)
    both = {name for columns in sets for name in columns}.intersection(sensitive)
    if both:
        raise ColumnError(
            f"column `{min(both)}` is a quasi-identifier and sensitive at the same time",
            where=opened.name,
            remedy="Give it one part.",
        )
    promises: list[Promise] = []
    if told or k is None:
        ordered = [column.name for column in opened.schema if column.ordered]
        models = models_of(told, sensitive=sensitive, ordered=ordered)
        promises.append(Anonymity(models, sets, sensitive, wildcards, person))
    if k is not None:
        people = table(population, budget=budget)
        promises.append(promise_class("k-map")(k, sets, people.name, people=people))
    return promises


def replay(
    opened: Table,
    place: Path,
    key: bytes | None = None,
    population: Any = None,
    budget: Budget | None = None,
) -> list[Finding]:
    """Check everything a certificate says about a table.

    An altered certificate is a finding that does not hold; a missing one, or one of another form,
    is an error.
    """
    try:
        record = Certificate.read(place, key).body
    except PromiseError as error:
        told = error.what if error.where is None else f"{error.where}: {error.what}"
        return [Finding("certificate", False, told, remedy=error.remedy)]
    findings = [Finding("certificate", True, "the certificate is whole and unaltered")]
    try:
        findings.append(_same_bytes(opened, record["output"]["fingerprint"]))
        for recorded in record["promises"]:
            findings += _replayed(opened, dict(recorded), population, budget)
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(
            "the certificate lacks what it must say",
            where=str(place),
            remedy="Get it again from where it was made, or release the table again.",
        ) from error
    return findings


def _promised(place: Path, key: bytes | None) -> list[Promise]:
    """The promises of a certificate; none where it was altered, which `replay` has found."""
    try:
        recorded = Certificate.read(place, key).body["promises"]
    except PromiseError:
        return []
    made = []
    for entry in recorded:
        parameters = {n: v for n, v in entry.items() if n not in ("kind", "measured")}
        made.append(promise_from_dict(entry["kind"], parameters))
    return made


def _together(
    opened: Table,
    others: Sequence[Any],
    row_key: str,
    promises: Sequence[Promise],
    budget: Budget | None,
) -> list[Finding]:
    """What is promised about anonymity, checked on all releases joined."""
    about = [promise for promise in promises if isinstance(promise, Anonymity)]
    if not about:
        raise ParameterError(
            "nothing was promised that could be checked on several releases",
            where=opened.name,
            remedy=f"Say what must hold, e.g. {spell('k', 5)} {spell('qi', ['age', 'sex'])}.",
        )
    releases = [opened, *(table(other, budget=budget) for other in others)]
    findings = []
    for promise in about:
        both, stated = combined(releases, row_key, promise)
        found = stated.check(both, budget)
        findings.append(
            replace(
                found,
                check="combination",
                say=f"{len(releases)} releases joined: {found.say}",
                remedy="Withdraw one of them, or make them from one set of classes.",
            )
        )
    return findings


def _same_bytes(opened: Table, promised: str) -> Finding:
    same = opened.fingerprint() == promised
    return Finding(
        "fingerprint",
        same,
        "the table is the one that was released"
        if same
        else "the table is not the one that was released: its fingerprint differs",
        remedy="Get the released table again, or release this one.",
    )


def _replayed(
    opened: Table, recorded: dict[str, Any], population: Any, budget: Budget | None
) -> list[Finding]:
    """The promise itself, and whether it measures what was measured then."""
    kind, measured = recorded.pop("kind"), recorded.pop("measured")
    promise: Any = promise_from_dict(kind, recorded)
    if population is not None and hasattr(promise, "people"):
        promise = replace(promise, people=table(population, budget=budget))
    finding = _checked(promise, opened, budget)
    if plain(finding.measured) == measured or not _counts_again(promise, opened):
        return [finding]
    differs = Finding(
        "measures", False, f"{kind}: the figures differ from those in the certificate"
    )
    return [finding, differs]


def _counts_again(promise: Promise, opened: Table) -> bool:
    """Whether what was measured then can be measured on this table."""
    return not isinstance(promise, Anonymity) or promise.counts_again(opened)


def _checked(promise: Promise, opened: Table, budget: Budget | None) -> Finding:
    try:
        return promise.check(opened, budget)
    except ColumnError as error:
        raise ColumnError(
            f"the promise cannot be checked: {error.what}",
            where=opened.name,
            remedy=error.remedy,
        ) from error


def _certificate_of(opened: Table, source: Any, given: str | os.PathLike[str] | None) -> Path:
    if given is not None:
        return Path(given)
    if isinstance(source, (str, os.PathLike)):
        return certificate_path(source)
    if os.path.exists(opened.name):
        return certificate_path(opened.name)
    raise ParameterError(
        "nothing was said about what to check",
        where=opened.name,
        remedy="Name the certificate, or say what must hold (e.g. k and quasi-identifiers).",
    )
