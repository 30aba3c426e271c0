"""Write, read back, verify, certify, and only then give the output its name."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.budget import Budget
from sfumato.engines.protocol import Staged
from sfumato.errors import PromiseError
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.draft import Draft
from sfumato.release.place import check_certificate_place
from sfumato.release.promise import Finding
from sfumato.results import Result, plain
from sfumato.tables import Table

__all__ = ["Release", "publish", "rehearse"]


@dataclass(frozen=True, eq=False)
class Release(Result):
    """A table that keeps its promises, and what it cost.

    `asked` is the demand; `k`, `rows` and `classes` are measured on the output. `output` is None as
    long as the release has not been written; `table` reads it either way (None where rows live in
    a remote engine and nothing was written yet).
    """

    method: str
    asked: Mapping[str, Any]
    k: int | None
    rows: int
    suppressed_rows: int
    suppressed_cells: int
    classes: int | None
    lower_bound: float | None
    utility: Mapping[str, Any]
    column_actions: Mapping[str, str]
    findings: tuple[Finding, ...]
    verified: bool
    output: str | None
    seed: int | None
    stopped_by: str | None
    warnings: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = field(default=None, metadata={"private": True})
    table: Table | None = field(default=None, metadata={"private": True})
    draft: Draft | None = field(default=None, metadata={"private": True}, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the method's own fields stand beside the common ones."""
        fields = super().to_dict()
        details = fields.pop("details")
        return {**fields, **details}

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        force: bool = False,
        key: bytes | None = None,
        budget: Budget | None = None,
    ) -> Release:
        """Write the release and its certificate; see `publish`."""
        assert self.draft is not None
        return publish(self.draft, path, format=format, force=force, key=key, budget=budget)


def publish(
    draft: Draft,
    destination: str | os.PathLike[str],
    *,
    format: str | None = None,
    force: bool = False,
    key: bytes | None = None,
    certificate: str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
) -> Release:
    """Write a draft where it belongs, if what was written keeps every promise.

    The output is written beside its final place, read back, and measured by code that did not make
    it. If a promise is broken nothing is published. Otherwise the certificate is written and then
    the output gets its name, each in one atomic step. The time limit of a budget is for the search
    before: it may take all of it, and its answer is written and verified all the same.

    Parameters
    ----------
    draft
        What a method worked out.
    destination
        A file (or folder, or ``schema.table``, as the engine writes).
    format
        ``csv``, ``tsv``, ``parquet`` or ``arrow``; by the name of the destination where None.
    force
        Replace what is there.
    key
        Seals the certificate with HMAC-SHA256.
    certificate
        Where the certificate goes; ``<destination>.certificate.json`` where None.
    """
    budget = None if budget is None else budget.unhurried()  # what was found is still written
    target = os.fspath(destination)
    beside = certificate_path(target) if certificate is None else Path(certificate)
    check_certificate_place(beside, force=force)
    staged = draft.table.engine.stage(draft.recoding, target, format=format, budget=budget)
    try:
        with Table(staged.engine()) as written:
            findings = _check(draft, written, budget)
            release = _release(draft, findings, written, target, None)
            sealed = Certificate.of(**_record(draft, release, written, target))
        sealed.write(beside, key)
        try:
            staged.commit(force=force)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except BaseException:
        staged.discard()
        raise
    return _release(draft, findings, None, target, sealed, like=release)


def rehearse(draft: Draft, *, budget: Budget | None = None) -> Release:
    """The release as a table to look at, verified but under no name yet.

    Rows of remote engines stay where they are: there the release has no table until it is written,
    and its figures are those the method foresees. Rows of a stream are gone.
    """
    able = draft.table.engine.capabilities
    if able.remote or not able.replayable:
        return _release(draft, (), None, None, None)
    budget = None if budget is None else budget.unhurried()
    folder = tempfile.TemporaryDirectory(prefix="sfumato-")
    try:
        staged = draft.table.engine.stage(
            draft.recoding, os.path.join(folder.name, "release.arrow"), budget=budget
        )
        written = Table(staged.engine())
        findings = _check(draft, written, budget)
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(written, _forget, staged, folder)  # holds `staged`, which holds the file
    return _release(draft, findings, written, None, None)


def _forget(staged: Staged, folder: tempfile.TemporaryDirectory[str]) -> None:
    staged.discard()
    folder.cleanup()


def _check(draft: Draft, written: Table, budget: Budget | None) -> tuple[Finding, ...]:
    findings = tuple(promise.check(written, budget) for promise in draft.promises)
    broken = [finding for finding in findings if not finding.holds]
    if broken:
        raise PromiseError(
            "nothing was published: " + "; ".join(finding.say for finding in broken),
            where=draft.table.name,
            remedy=" ".join(finding.remedy for finding in broken if finding.remedy) or None,
        )
    return findings


def _release(
    draft: Draft,
    findings: Sequence[Finding],
    written: Table | None,
    output: str | None,
    certificate: Certificate | None,
    like: Release | None = None,
) -> Release:
    """The release with figures measured on `written`, those of `like`, or those foreseen."""
    if written is not None:
        sizes = [written.class_sizes(columns) for columns in draft.qi]
        smallest = min((s.k for s in sizes if s.k is not None), default=None)
        k, classes = smallest, sizes[0].classes if sizes else None
        rows = written.rows
    elif like is not None:
        k, classes, rows = like.k, like.classes, like.rows
    else:
        k = draft.foreseen.k if draft.foreseen else None
        classes = draft.foreseen.classes if draft.foreseen else None
        rows = draft.table.rows - draft.suppressed_rows
    return Release(
        method=draft.method,
        asked=draft.asked,
        k=k,
        rows=rows,
        suppressed_rows=draft.suppressed_rows,
        suppressed_cells=draft.suppressed_cells,
        classes=classes,
        lower_bound=draft.lower_bound,
        utility=draft.utility,
        column_actions=draft.column_actions,
        findings=tuple(findings),
        verified=written is not None or like is not None,
        output=output,
        seed=draft.seed,
        stopped_by=draft.stopped_by,
        warnings=draft.warnings,
        details=draft.details,
        certificate=certificate,
        table=written,
        draft=draft,
    )


def _record(draft: Draft, release: Release, written: Table, target: str) -> dict[str, Any]:
    """The fields of the certificate; findings are recorded with the promises they answer."""
    answered = zip(draft.promises, release.findings, strict=True)
    fields = release.to_dict()
    for name in ("findings", "verified", "output"):
        fields.pop(name)
    return {
        **fields,
        "input": {
            "name": os.path.basename(draft.table.name),
            "fingerprint": draft.table.fingerprint(),
            "rows": draft.table.rows,
            "columns": list(draft.table.engine.schema() and draft.table.columns),
        },
        "output": {
            "name": os.path.basename(target),
            "fingerprint": written.fingerprint(),
            "rows": written.rows,
            "columns": list(written.columns),
        },
        "promises": [
            {"kind": promise.kind, **promise.to_dict(), "measured": plain(finding.measured)}
            for promise, finding in answered
        ],
    }
