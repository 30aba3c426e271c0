"""Write, read back, verify, certify, and only then give the output its name."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget, Postponed, each
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import ClassSizes, asks_sql
from sfumato.engines.recoding import Parted, Recoding
from sfumato.engines.staging import Staged
from sfumato.engines.writing import count_formulas
from sfumato.errors import ParameterError, PromiseError, spell
from sfumato.fields import checked
from sfumato.files import keyed_digest
from sfumato.privacy.check import risk_of_classes
from sfumato.release.beside import about_persons, about_promise
from sfumato.release.certificate import (
    FIELDS,
    Certificate,
    certificate_path,
    check_certificate_place,
    checked_author,
)
from sfumato.release.order import told_by_order
from sfumato.release.other_promises import RatioAtMost
from sfumato.release.promise import (
    MEASURED_ELSEWHERE,
    Anonymity,
    Finding,
    Promise,
    class_figures,
    measured_on,
)
from sfumato.results import Frames, Result, plain
from sfumato.tables import Table, table
from sfumato.tables.columnar import ArrowSource, from_pandas, from_polars
from sfumato.tables.source import is_pandas, is_polars
from sfumato.wording import counted, phrase, shown

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sfumato.release.recoding import Recoding as Groups


_PRIVATE = {"private": True}
_COUNT_PERSONS = (Anonymity, RatioAtMost)
"""Promises that may be about persons, whom a release does not name."""


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
    formulas
        Cells that a spreadsheet would run, where the output is a text file.
    findings, verified
        What was checked on the output, and whether it was.
    output, destination
        Where it was written, None before that; in `output` a database has no password.
    certificate
        What lies beside it.
    table
        The output; None where rows live in a remote engine and nothing was written yet.
    frame
        The pandas or polars data frame that it was made of, if it was.
    source, mapping, promises, earlier
        The input, how it becomes the output, what must then hold, and the earlier release whose
        groups it keeps: there it must hold for both together.
    order
        Which row of the data frame each row was, where rows were moved.
    """

    passed_on: ClassVar[Mapping[str, str]] = {
        **{name: FIELDS[name] for name in ("method", "qi", "k", "classes", "rows", "stopped_by")},
        **{name: FIELDS[name] for name in ("suppressed_rows", "suppressed_cells")},
        "verified": "whether the released table was read back and checked",
        "output": "the name of the released table",
        "formulas": "counted on the released table",
    }

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
    formulas: int | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    destination: str | None = field(default=None, metadata=_PRIVATE, repr=False)
    certificate: Certificate | None = field(default=None, metadata=_PRIVATE)
    table: Table | None = field(default=None, metadata=_PRIVATE)
    frame: Any = field(default=None, metadata=_PRIVATE, repr=False)
    source: Table | None = field(default=None, metadata=_PRIVATE, repr=False)
    mapping: Recoding | Parted | None = field(default=None, metadata=_PRIVATE, repr=False)
    promises: tuple[Promise, ...] = field(default=(), metadata=_PRIVATE, repr=False)
    earlier: Table | None = field(default=None, metadata=_PRIVATE, repr=False)
    order: npt.NDArray[np.uint32] | None = field(default=None, metadata=_PRIVATE, repr=False)

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
        return cls(source=source, mapping=recoding, rows=rows, **told, **facts)

    def __getattr__(self, name: str) -> Any:
        """What only some methods can say."""
        if name.startswith("_") or name not in self.details:
            raise AttributeError(f"a release by `{self.method}` has no `{name}`")
        return self.details[name]

    @property
    def changed_before(self) -> tuple[str, ...]:
        """Columns whose values were changed before anything was counted: no loss tells of it."""
        changes = {"top", "bottom", "round", "recode"}
        asked = self.asked.get("columns") or {}
        return tuple(name for name, actions in asked.items() if changes & {*actions})

    @property
    def recoding(self) -> Groups:
        """The groups that the release shows, to be saved or applied to other rows."""
        from sfumato.release.recoding import Recoding as Groups

        return Groups.of(self)

    def to_arrow(self) -> pa.Table:
        """The released rows as an Arrow table."""
        if self.table is not None:
            return self.table.to_arrow()
        if self.destination is None:
            raise ParameterError(
                "the rows of this release are not on this machine",
                remedy="Write it where they are: release.write(…).",
            )
        with table(self.destination) as written:
            return written.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """The released rows as a pandas data frame.

        Where the input was one, rows keep their index, and columns that were not touched their
        cells and types: categories and their order, booleans, time differences, missing values.
        Categories that only rows have which were left out are left out, too.
        An index that names persons, or is called like a column that was changed or left out, is
        replaced by numbers of rows; so is that of rows that were put into another order.

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
        rows = self._kept_rows()
        if rows is None or not is_pandas(self.frame):
            return made
        frame = self.frame.iloc[rows]
        if self.order is not None:
            frame = frame.reset_index(drop=True)  # it would tell where the rows stood
        made.index = _as_shown(frame.index, self.frame.index)
        labels = {str(label): label for label in frame.columns}
        for name, action in self.column_actions.items():
            if action == "kept" and name in made.columns and name in labels:
                made[name] = _as_shown(frame[labels[name]], self.frame[labels[name]])
        return made.rename(columns=labels)

    def to_polars(self) -> pl.DataFrame:
        """The released rows as a polars data frame.

        Where the input was one, columns that were not touched keep their types.
        """
        made = super().to_polars()
        rows = self._kept_rows()
        if rows is None or not is_polars(self.frame):
            return made
        frame = self.frame[rows]
        kept = [n for n, action in self.column_actions.items() if action == "kept"]
        there = [name for name in kept if name in made.columns]
        return made.with_columns(*(_as_shown(frame[n], self.frame[n]) for n in there))

    def _kept_rows(self) -> slice | npt.NDArray[np.integer[Any]] | None:
        """Which of the frame's rows are in the release; None where that is not known any more."""
        if self.order is not None:
            return self.order
        if not isinstance(self.mapping, Recoding) or self.mapping.sorted:
            return None  # made part by part, or sorted elsewhere
        if self.frame is None or not self.suppressed_rows:
            return slice(None)
        rows = (from_pandas if is_pandas(self.frame) else from_polars)(self.frame, "the frame")
        _, keep = MemoryEngine(ArrowSource(rows, "the frame")).recoded(self.mapping)
        return slice(None) if keep is None else np.flatnonzero(keep)

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

    def stays_at_home(self) -> list[str]:
        """Fields of the answer that tell about the input what the release does not.

        Where people are counted whom the release does not name, so do its smallest class and the
        number of classes.
        """
        elsewhere = any(
            promise.kind in MEASURED_ELSEWHERE or getattr(promise, "person", None) is not None
            for promise in self.promises
        )
        counted = {"k", "classes"} if elsewhere else set()
        return [n for n in self.to_dict() if n not in self.passed_on or n in counted]

    @checked
    def write(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        force: bool = False,
        sign: str | os.PathLike[str] | None = None,
        author: str | None = None,
        spreadsheet_safe: bool = False,
        budget: Budget | None = None,
    ) -> Release:
        """Write the release and its certificate; see `publish`."""
        return publish(
            self,
            path,
            format=format,
            force=force,
            sign=sign,
            author=author,
            spreadsheet_safe=spreadsheet_safe,
            budget=budget,
        )


def publish(
    plan: Release,
    destination: str | os.PathLike[str] | None,
    *,
    sort: bool = False,
    format: str | None = None,
    force: bool = False,
    sign: str | os.PathLike[str] | None = None,
    author: str | None = None,
    spreadsheet_safe: bool = False,
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
        A file (or folder, or ``schema.table``, as the engine writes); it is only rehearsed where
        None.
    sort
        Sort rows by their cells, so that their order gives nothing away.
    format
        ``csv``, ``tsv``, ``parquet`` or ``arrow``; by the name of the destination where None.
    force
        Replace what is there.
    sign
        The file of the key that signs the certificate (see `sfumato.keyfiles.make_pair`).
    author
        Whom the certificate names as its author; nobody where None.
    spreadsheet_safe
        Put an apostrophe before cells that a spreadsheet would take for formulas and run. Without
        it there is a warning that counts them, where a text file is written.
    certificate
        Where the certificate goes; ``<destination>.certificate.json`` where None.
    """
    if sort:
        plan = _in_order_of_cells(plan)
    if destination is None:
        return rehearse(plan, budget=budget)
    target = os.fspath(destination)
    beside = certificate_path(target) if certificate is None else Path(certificate)
    check_certificate_place(beside, force=force, sign=sign)
    named = {} if (author := checked_author(author)) is None else {"author": author}
    if spreadsheet_safe:
        plan = replace(plan, mapping=replace(_made_of(plan)[1], spreadsheet_safe=True))
    with staged_release(plan, target, format=format, budget=budget) as (release, staged, written):
        sealed = Certificate.of(**named, **_record(release, written, target))
        if sign is not None:
            sealed = sealed.signed_with(sign)
        with sealed.beside(beside, force=force, appeared=staged.target.appeared):
            staged.commit(force=force)
    return replace(release, certificate=sealed, table=None)  # it now lies where it was written


def _as_shown(shown: Any, whole: Any) -> Any:
    """A column or index of a frame without the categories that only rows left out had."""
    if hasattr(shown, "remove_unused_levels"):
        shown = shown.remove_unused_levels()
        return shown.set_levels(
            [*map(_as_shown, shown.levels, whole.remove_unused_levels().levels)]
        )
    if type(shown.dtype).__name__ not in ("CategoricalDtype", "Enum"):
        return shown
    gone = {*whole.unique()} - {*shown.unique()}
    if hasattr(shown.dtype, "ordered"):
        return getattr(shown, "cat", shown).remove_categories([*gone])
    return shown.cast(type(shown.dtype)([one for one in shown.dtype.categories if one not in gone]))


@contextmanager
def staged_release(
    plan: Release, target: str, *, format: str | None = None, budget: Budget | None = None
) -> Iterator[tuple[Release, Staged, Table]]:
    """A release that was written and measured and has no name yet, and what was written.

    Unless it gets its name until the block ends, nothing of it stays.
    """
    source, recoding = _made_of(plan)
    if {*source.columns, *recoding.written} <= {*recoding.drop}:
        raise ParameterError(
            "every column would be left out: there is nothing to release",
            where=source.name,
            remedy="Keep a column.",
        )
    budget = _to_write(plan, budget)
    staged = source.engine.stage(recoding, target, format=format, budget=budget)
    plan = replace(plan, formulas=staged.formulas)
    try:
        remote = target if source.engine.capabilities.remote else None
        release, written = _verified(plan, staged, remote, budget)
        told = (*release.warnings, *_run_by(staged, written.columns))
        actions = dict(release.column_actions)
        actions |= {
            n: "formulas made text" for n in staged.made_text if actions.get(n, "kept") == "kept"
        }
        release = replace(release, column_actions=actions, warnings=told)
        yield (
            replace(release, output=shown(target), destination=target),
            staged,
            written,
        )
    finally:
        staged.discard()


def rehearse(plan: Release, *, budget: Budget | None = None) -> Release:
    """The release as a table to look at, verified but under no name yet.

    Rows of remote engines stay where they are: there the release has no table until it is written,
    and its figures are those the method foresees. Rows of a stream are gone.
    """
    source, recoding = _made_of(plan)
    able = source.engine.capabilities
    if able.remote or not able.replayable:
        if isinstance(recoding, Parted):
            assert asks_sql(source.engine)
            source.engine.try_parts(recoding, budget)
        return _as_staged(plan, budget)
    budget = _to_write(plan, budget)
    folder = tempfile.TemporaryDirectory(prefix="sfumato-")
    try:
        staged = source.engine.stage(
            recoding, os.path.join(folder.name, "release.arrow"), budget=budget
        )
        release, written = _verified(plan, staged, None, budget)
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(written, _forget, staged, folder)  # holds `staged`, which holds the file
    return replace(release, table=written)


def _to_write(plan: Release, budget: Budget | None) -> Budget | None:
    """What was found is still written, however late; what it cost is computed meanwhile."""
    if budget is None:
        return None
    rest = budget.unhurried()
    if isinstance(plan.utility, Postponed):
        rest.meanwhile = plan.utility.step
    return rest


def _verified(
    plan: Release, staged: Staged, remote: str | None, budget: Budget | None
) -> tuple[Release, Table]:
    """The release with figures of what was written, if that keeps every promise, and the latter.

    `remote` is its destination where that is in a remote engine.
    """
    plan, written = _as_staged(plan, budget), Table(staged.engine())
    if isinstance(written.engine, MemoryEngine):
        written.engine.expect_fingerprint()
    with _witnessed(plan, staged, written, remote, budget) as promised:
        release = _measured(promised, written, budget)
    order = None if plan.frame is None else staged.order
    return replace(release, promises=plan.promises, order=order), written


def _as_staged(plan: Release, budget: Budget | None) -> Release:
    """The release with what became known while it was written, and what its order tells."""
    source, mapping = _made_of(plan)
    told: dict[str, Any] = {"utility": dict(plan.utility)}
    if isinstance(mapping, Parted):
        told = dict(mapping.outcome())
    actions = told.get("column_actions", plan.column_actions)
    warned = (*told.get("warnings", ()), *told_by_order(source, mapping, actions, budget))
    return replace(plan, **told | {"warnings": (*plan.warnings, *warned)})


def _forget(staged: Staged, folder: tempfile.TemporaryDirectory[str]) -> None:
    staged.discard()
    folder.cleanup()


def _made_of(plan: Release) -> tuple[Table, Recoding | Parted]:
    """What a release is made of; one that was read from its certificate knows neither."""
    if plan.source is None or plan.mapping is None:
        raise ParameterError(
            "only a release that was just worked out can be written",
            remedy="Copy the file it was read from, with its certificate.",
        )
    # A table may show fewer columns than its engine holds: the others were not to be looked at.
    schema, seen = plan.source.engine.schema(), (*plan.source.columns, *plan.mapping.drop)
    hidden = tuple(column.name for column in schema if column.name not in seen)
    return plan.source, replace(plan.mapping, drop=(*plan.mapping.drop, *hidden))


def _run_by(staged: Staged, names: Sequence[str]) -> tuple[str, ...]:
    """A warning about cells and headings that a spreadsheet would run."""
    if not staged.formulas:
        return ()
    headings = count_formulas(pa.array(names))
    found = {"cell": staged.formulas - headings, "heading": headings}
    remedies = {
        "cell": f"{spell('spreadsheet_safe', True)} makes text of such cells",
        "heading": "rename such headings in the table first",
    }
    there = {what: number for what, number in found.items() if number}
    return (
        f"{phrase([counted(number, what) for what, number in there.items()])} "
        f"{'begins' if staged.formulas == 1 else 'begin'} like formulas (= + - @), which "
        f"spreadsheets run; {'; '.join(remedies[what] for what in there)}",
    )


def _in_order_of_cells(plan: Release) -> Release:
    """The release with its rows sorted by what they show."""
    _, recoding = _made_of(plan)
    details = dict(plan.details)
    if "persons" in details:
        details["persons"] = {**details["persons"], "sorted": True}
    mapping = replace(recoding, sorted=True)
    return replace(plan, mapping=mapping, asked={**plan.asked, "sort": True}, details=details)


@contextmanager
def _witnessed(
    plan: Release, staged: Staged, written: Table, destination: str | None, budget: Budget | None
) -> Iterator[Release]:
    """The plan, its promises about persons with what shows them: who owns the rows, or a witness.

    Where it is known which row of the source each row was, so is its owner. Otherwise a witness
    has the same rows with the person: it is written like the release, measured, and removed, in
    a file of its own, or beside the release where that is in a remote engine.
    """
    source, recoding = _made_of(plan)
    asked = [p for p in plan.promises if isinstance(p, _COUNT_PERSONS) and p.person is not None]
    if not asked:
        yield plan
        return
    if staged.beside is not None:
        with Table(staged.beside.engine()) as witness:
            yield _with_owners(plan, witness, budget)
        staged.beside.discard()
        return
    known = staged.order is not None or _in_order(plan, source, written)
    if known and all(isinstance(p, Anonymity) for p in asked):
        owned = tuple(_owned(p, source, staged.order, budget) for p in plan.promises)
        yield replace(plan, promises=owned)
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
        beside = source.engine.stage(Recoding(steps, drop), place, budget=budget)
        try:
            yield _with_owners(plan, Table(beside.engine()), budget)
        finally:
            beside.discard()


def _with_owners(plan: Release, witness: Table, budget: Budget | None) -> Release:
    """The plan, its promises about persons with the witness; who is left out is counted there."""
    promises = tuple(
        replace(p, witness=witness) if isinstance(p, _COUNT_PERSONS) and p.person is not None else p
        for p in plan.promises
    )
    told = plan.details.get("persons")
    if told is None or "left_out" in told:
        return replace(plan, promises=promises)
    there = witness.class_sizes([told["column"]], budget).classes
    told = {**told, "left_out": told["persons"] - there}
    return replace(plan, promises=promises, details={**plan.details, "persons": told})


def _in_order(plan: Release, source: Table, written: Table) -> bool:
    """Whether row i of what was written is row i of the source, both being at hand."""
    coded = all(one.engine.capabilities.coded for one in (source, written))
    kept = not plan.suppressed_rows and written.rows == source.rows
    return coded and kept and not _moves(plan.mapping)


def _moves(mapping: Recoding | Parted | None) -> bool:
    """Whether rows leave their order."""
    return mapping is not None and mapping.sorted


def _owned(
    promise: Promise, source: Table, order: npt.NDArray[np.uint32] | None, budget: Budget | None
) -> Promise:
    """A promise about persons that knows whose the rows are."""
    if not isinstance(promise, Anonymity) or promise.person is None:
        return promise
    (person,) = source.codes([promise.person], budget).arrays
    return replace(promise, owners=person if order is None else person[order])


def _measured(plan: Release, written: Table, budget: Budget | None) -> Release:
    """The release with figures of what was written, if that keeps every promise."""
    findings = tuple(promise.check(written, budget) for promise in plan.promises)
    both, beside = _with_earlier(plan, written, budget)
    broken = [finding for finding in (*findings, *both) if not finding.holds]
    if broken:
        assert plan.source is not None
        raise PromiseError(
            "nothing was published: " + "; ".join(finding.say for finding in broken),
            where=plan.source.name,
            remedy=" ".join(finding.remedy for finding in broken if finding.remedy) or None,
        )
    k, classes = class_figures(plan.qi, findings, written)
    figures, told = _not_promised(plan, written, budget)
    utility, risk = _of_classes(plan, written, classes, budget)
    return replace(
        plan,
        utility=utility,
        k=k,
        classes=classes,
        rows=written.rows,
        findings=findings,
        verified=True,
        details={**plan.details, **risk, **figures, **({"together": both} if both else {})},
        warnings=tuple(dict.fromkeys((*plan.warnings, *beside, *told))),
    )


def _of_classes(
    plan: Release, written: Table, classes: int | None, budget: Budget | None
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Figures about classes, counted on what was written where parts made some of them alike."""
    if not isinstance(plan.mapping, Parted) or (len(plan.qi) == 1 and classes == plan.classes):
        return plan.utility, {}
    sizes = [written.class_sizes(names, budget) for names in plan.qi]
    first, left = sizes[0], plan.suppressed_rows
    squares = sum(size * size * many for size, many in first.to_dict().items())
    new = {
        "discernibility": squares + left * (written.rows + left),
        "average_class_size": written.rows / first.classes if first.classes else 0.0,
    }
    risk = [
        replace(one, after=risk_of_classes(own.sizes, times=own.classes_of_size, qi=one.qi))
        for one, own in zip(plan.details.get("risk", ()), sizes, strict=False)
        if one.persons is None
    ]
    return {**plan.utility, **new}, {"risk": tuple(risk)} if risk else {}


def _with_earlier(
    plan: Release, written: Table, budget: Budget | None
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """What is promised, held against this and the earlier release together; and what to know."""
    if plan.earlier is None:
        return (), ()
    from sfumato.release.several_releases import stacked

    known = plan.earlier.columns
    about = [promise for promise in plan.promises if isinstance(promise, Anonymity)]
    common = [
        replace(
            promise,
            models=tuple(m for m in promise.models if m.about is None or m.about in known),
            sensitive=tuple(name for name in promise.sensitive if name in known),
        )
        for promise in about
    ]
    both = [stacked([plan.earlier, written], one, budget, newest=True) for one in common]
    told = [line for _, lines in both for line in lines]
    told += [
        f"the earlier release does not show `{name}`: what is promised of it was checked for the "
        "new release alone"
        for promise in about
        for name in promise.sensitive
        if name not in known
    ]
    told += [
        f"`{name}` is shown as{action.partition(', shown as')[2]} here, and a range in the earlier "
        "release: no class is in both, so what their classes have in common is not counted"
        for name, action in plan.column_actions.items()
        if ", shown as" in action and any(name in names for one in about for names in one.qi)
    ]
    both_show = [
        name
        for name, action in plan.column_actions.items()
        if "pseudonym" in action and name in plan.earlier.columns
    ]
    if both_show:
        name = both_show[0]
        told.append(
            f"both releases show pseudonyms of `{name}`, by which their rows can be joined: "
            f"check that with `sfumato verify --with … --row-key {name}`, or use another key"
        )
    return tuple(one for one, _ in both), tuple(told)


def _not_promised(
    plan: Release, written: Table, budget: Budget | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the promise about anonymity leaves open, counted on what was written."""
    about = next((p for p in plan.promises if isinstance(p, Anonymity)), None)
    if about is None:
        return {}, ()
    hidden = [name for name, action in plan.column_actions.items() if "pseudonym" in action]
    figures, told = about_promise(written, about, hidden, budget)
    shared, more = about_persons(written, about, budget)
    if shared and (persons := plan.details.get("persons")):
        held = {name: by_all for name, (by_all, _) in shared.items()}
        nearly = {name: most for name, (_, most) in shared.items()}
        told_of = {**persons, "held_by_all": held, "held_by_nearly_all": nearly}
        figures = {**figures, "persons": told_of}
    return figures, (*told, *more)


def _record(release: Release, written: Table, target: str) -> dict[str, Any]:
    """The fields of the certificate; findings are recorded with the promises they answer.

    Each is a choice of the maker, or a function of the released table alone: what methods and
    measures say about the input stays at home.
    """
    source, recoding = _made_of(release)
    together = source.engine.capabilities.coded and written.engine.capabilities.coded
    read, made = each(
        lambda one: one.fingerprint(), (source, written), written.rows if together else 0
    )
    files = written.engine.files_fingerprint() if asks_sql(written.engine) else None
    k, classes = release.k, release.classes
    if not all(measured_on(promise, written) for promise in release.promises):
        k, classes = class_figures(release.qi, (), written)
    return {
        "method": release.method,
        "asked": _passed_on(release.asked),
        "qi": release.qi,
        "k": k,
        "classes": classes,
        "rows": release.rows,
        "suppressed_rows": release.suppressed_rows,
        "suppressed_cells": release.suppressed_cells,
        "column_actions": _passed_on_actions(release, source, written, recoding),
        "stopped_by": release.stopped_by,
        "input": {
            "name": os.path.basename(source.name),
            "columns": list(source.engine.schema() and source.columns),
            "fingerprint": keyed_digest(read),
        },
        "output": {
            "name": os.path.basename(shown(target)),
            "fingerprint": made,
            **({"files": files} if files else {}),
            "rows": release.rows,
            "columns": list(written.columns),
            **({"sorted": "by cells"} if _moves(recoding) else {}),
        },
        "promises": recorded_promises(release, written),
    }


def recorded_promises(release: Release, written: Table) -> list[dict[str, Any]]:
    """What a certificate says of promises, and of what was measured on the released table."""
    return [
        {
            "kind": promise.kind,
            **promise.to_dict(),
            "measured": plain(finding.measured) if measured_on(promise, written) else {},
        }
        for promise, finding in zip(release.promises, release.findings, strict=True)
    ]


_AT_HOME = ("seed", "key_file")
"""Settings that a certificate does not repeat: with them a reader could do the work again."""
_FILES = ("population", "hierarchies", "boundaries", "workload", "like", "recoding")
"""Settings that may be the places of files, of which a certificate repeats the last part."""


def _passed_on(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, without what stays at home; of recodings only that there was one."""
    told = {name: value for name, value in asked.items() if name not in _AT_HOME}
    for name in _FILES:
        if isinstance(told.get(name), str):
            told[name] = os.path.basename(told[name].rstrip("/"))
    if isinstance(told.get("columns"), Mapping):
        told["columns"] = {
            name: {action: None if action == "recode" else how for action, how in actions.items()}
            for name, actions in told["columns"].items()
        }
    return told


def _passed_on_actions(
    release: Release, source: Table, written: Table, recoding: Recoding | Parted
) -> dict[str, str]:
    """What the release says was done to each column, without how often that was necessary.

    Columns that it says nothing of, such as the ends of ranges, were made anew.
    """
    anew = dict.fromkeys(recoding.written, "recoded")
    done = {**dict.fromkeys(source.columns, "kept"), **anew, **release.column_actions}
    return {
        name: "left out"
        if name not in written.columns
        else "kept"
        if done[name] == "kept"
        else "recoded"
        for name in dict.fromkeys((*source.columns, *written.columns))
    }
