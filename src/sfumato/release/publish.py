"""Write, read back, verify, certify, and only then give the output its name."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.engines.protocol import Staged
from sfumato.engines.recoding import Recoding
from sfumato.engines.results import ClassSizes
from sfumato.errors import ParameterError, PromiseError
from sfumato.release.anonymity import Anonymity
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.place import check_certificate_place
from sfumato.release.promise import Finding, Promise
from sfumato.results import Frames, Result, plain
from sfumato.tables import Table, table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Release", "publish", "rehearse"]


_PRIVATE = {"private": True}


@dataclass(frozen=True, eq=False)
class Release(Result, Frames):
    """A table that keeps its promises, and what it cost.

    Before it is written it is a plan: `k`, `rows` and `classes` are those the method foresees, and
    nothing is verified. What only some methods can say is an attribute too (``release.levels``),
    and a field of the JSON.

    Attributes
    ----------
    method, asked, seed
        How it was made, and the request as the user gave it.
    qi
        The sets of quasi-identifiers whose classes the release is about.
    k, rows, classes
        Measured on the output: the smallest class of any set, rows, and classes of the first set.
    suppressed_rows, suppressed_cells
        Rows left out, and cells starred in rows that remain.
    lower_bound
        Proven lower bound of the method's cost, where it has one.
    utility, column_actions
        What it cost, and what happened to each column, in a few words.
    findings, verified
        What was checked on the output, and whether it was.
    output
        Where it was written; None before that.
    certificate
        What lies beside it.
    table
        The output; None where rows live in a remote engine and nothing was written yet.
    frame
        The pandas data frame that it was made of, if it was.
    source, recoding, promises
        The input, how it becomes the output, and what must then hold.
    """

    method: str
    asked: Mapping[str, Any]
    qi: tuple[tuple[str, ...], ...] = ()
    k: int | None = None
    rows: int = 0
    suppressed_rows: int = 0
    suppressed_cells: int = 0
    classes: int | None = None
    lower_bound: float | None = None
    utility: Mapping[str, Any] = field(default_factory=dict)
    column_actions: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    verified: bool = False
    output: str | None = None
    seed: int | None = None
    stopped_by: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = field(default=None, metadata=_PRIVATE)
    table: Table | None = field(default=None, metadata=_PRIVATE)
    frame: Any = field(default=None, metadata=_PRIVATE, repr=False)
    source: Table | None = field(default=None, metadata=_PRIVATE, repr=False)
    recoding: Recoding | None = field(default=None, metadata=_PRIVATE, repr=False)
    promises: tuple[Promise, ...] = field(default=(), metadata=_PRIVATE, repr=False)

    @classmethod
    def planned(
        cls, source: Table, recoding: Recoding, foreseen: ClassSizes | None = None, **facts: Any
    ) -> Release:
        """A release that has been worked out and not yet written.

        Parameters
        ----------
        source, recoding
            The input, and how it becomes the output.
        foreseen
            Class sizes that the method expects.
        facts
            Other fields.
        """
        told: dict[str, Any] = (
            {} if foreseen is None else {"k": foreseen.k, "classes": foreseen.classes}
        )
        rows = source.rows - facts.get("suppressed_rows", 0)
        return cls(source=source, recoding=recoding, rows=rows, **told, **facts)

    def __getattr__(self, name: str) -> Any:
        """What only some methods can say."""
        if name.startswith("_") or name not in self.details:
            raise AttributeError(f"a release by `{self.method}` has no `{name}`")
        return self.details[name]

    def to_arrow(self) -> pa.Table:
        """The released rows as an Arrow table."""
        if self.table is not None:
            return self.table.to_arrow()
        if self.output is None:
            raise ParameterError(
                "the rows of this release are not on this machine",
                remedy="Write it where they are: release.write(…).",
            )
        with table(self.output) as written:
            return written.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """The released rows as a pandas data frame.

        Where the input was one, columns that were not touched keep their types, and the rows their
        index unless some were left out.

        Examples
        --------
        >>> import pandas as pd, sfumato as sf
        >>> frame = pd.DataFrame({"age": [21, 22], "sex": ["F", "M"]}, index=["a", "b"])
        >>> sf.anonymize(frame, qi=["age"], k=2).to_pandas()
                age sex
        a  [20, 23)   F
        b  [20, 23)   M
        """
        made = self.to_arrow().to_pandas()
        if self.frame is None or self.suppressed_rows:
            return made
        made.index = self.frame.index
        for name, action in self.column_actions.items():
            if action == "kept" and name in made.columns and name in self.frame.columns:
                made[name] = self.frame[name]
        return made

    def __len__(self) -> int:
        return self.rows

    def __bool__(self) -> bool:
        return True  # a release is there even if it has no rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

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
        return publish(self, path, format=format, force=force, key=key, budget=budget)


def publish(
    plan: Release,
    destination: str | os.PathLike[str],
    *,
    format: str | None = None,
    force: bool = False,
    key: bytes | None = None,
    certificate: str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
) -> Release:
    """Write a release where it belongs, if what was written keeps every promise.

    The output is written beside its final place, read back, and measured by code that did not make
    it. If a promise is broken nothing is published. Otherwise the certificate is written and then
    the output gets its name, each in one atomic step. The time limit of a budget is for the search
    before: it may take all of it, and its answer is written and verified all the same.

    Parameters
    ----------
    plan
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
    source, recoding = _made_of(plan)
    staged = source.engine.stage(recoding, target, format=format, budget=budget)
    try:
        with Table(staged.engine()) as written:
            remote = target if source.engine.capabilities.remote else None
            with _witnessed(plan, remote, budget) as promised:
                release = _measured(promised, written, budget)
            release = replace(release, promises=plan.promises, output=target)
            sealed = Certificate.of(**_record(release, written, target))
        sealed.write(beside, key)
        try:
            staged.commit(force=force)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except BaseException:
        staged.discard()
        raise
    return replace(release, certificate=sealed, table=None)  # it now lies where it was written


def rehearse(plan: Release, *, budget: Budget | None = None) -> Release:
    """The release as a table to look at, verified but under no name yet.

    Rows of remote engines stay where they are: there the release has no table until it is written,
    and its figures are those the method foresees. Rows of a stream are gone.
    """
    source, recoding = _made_of(plan)
    able = source.engine.capabilities
    if able.remote or not able.replayable:
        return plan
    budget = None if budget is None else budget.unhurried()
    folder = tempfile.TemporaryDirectory(prefix="sfumato-")
    try:
        staged = source.engine.stage(
            recoding, os.path.join(folder.name, "release.arrow"), budget=budget
        )
        written = Table(staged.engine())
        with _witnessed(plan, None, budget) as promised:
            release = _measured(promised, written, budget)
        release = replace(release, promises=plan.promises)
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(written, _forget, staged, folder)  # holds `staged`, which holds the file
    return replace(release, table=written)


def _forget(staged: Staged, folder: tempfile.TemporaryDirectory[str]) -> None:
    staged.discard()
    folder.cleanup()


def _made_of(plan: Release) -> tuple[Table, Recoding]:
    """What a release is made of; one that was read from its certificate knows neither."""
    if plan.source is None or plan.recoding is None:
        raise ParameterError(
            "only a release that was just worked out can be written",
            remedy="Copy the file it was read from, with its certificate.",
        )
    return plan.source, plan.recoding


@contextmanager
def _witnessed(plan: Release, destination: str | None, budget: Budget | None) -> Iterator[Release]:
    """The plan, its promises about persons with a witness: the same rows with the person.

    The witness is written like the release, measured, and removed: to a file of its own, or where
    the rows are in a remote engine and the release will be, too, beside the release.
    """
    source, recoding = _made_of(plan)
    asked = [p for p in plan.promises if isinstance(p, Anonymity) and p.person is not None]
    if not asked:
        yield plan
        return
    about = {name for promise in asked for name in promise.about}
    steps = tuple(
        replace(step, cells={n: cells for n, cells in step.cells.items() if n in about})
        for step in recoding.steps
        if step.keep is not None or about & set(step.cells)
    )
    drop = tuple(c.name for c in source.engine.schema() if c.name not in about)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        place = destination or os.path.join(folder, "witness.arrow")
        staged = source.engine.stage(Recoding(steps, drop), place, budget=budget)
        try:
            witness = Table(staged.engine())
            yield replace(
                plan,
                promises=tuple(
                    replace(p, witness=witness) if p in asked else p for p in plan.promises
                ),
            )
        finally:
            staged.discard()


def _measured(plan: Release, written: Table, budget: Budget | None) -> Release:
    """The release with figures of what was written, if that keeps every promise."""
    findings = tuple(promise.check(written, budget) for promise in plan.promises)
    broken = [finding for finding in findings if not finding.holds]
    if broken:
        assert plan.source is not None
        raise PromiseError(
            "nothing was published: " + "; ".join(finding.say for finding in broken),
            where=plan.source.name,
            remedy=" ".join(finding.remedy for finding in broken if finding.remedy) or None,
        )
    k, classes = _classes(plan.qi, findings, written)
    return replace(plan, k=k, classes=classes, rows=written.rows, findings=findings, verified=True)


def _classes(
    qi: Sequence[tuple[str, ...]], findings: Sequence[Finding], written: Table
) -> tuple[int | None, int | None]:
    """The smallest class of any set and the classes of the first, as a finding counted them."""
    for finding in findings:
        if finding.class_sizes is not None:
            return finding.class_sizes
    sizes = [written.class_sizes(columns) for columns in qi]
    smallest = min((s.k for s in sizes if s.k is not None), default=None)
    return smallest, sizes[0].classes if sizes else None


def _record(release: Release, written: Table, target: str) -> dict[str, Any]:
    """The fields of the certificate; findings are recorded with the promises they answer."""
    source, _ = _made_of(release)
    answered = zip(release.promises, release.findings, strict=True)
    fields = release.to_dict()
    for name in ("findings", "verified", "output"):
        fields.pop(name)
    return {
        **fields,
        "input": {
            "name": os.path.basename(source.name),
            "fingerprint": source.fingerprint(),
            "rows": source.rows,
            "columns": list(source.engine.schema() and source.columns),
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
