"""Release a dataset: all tables blurred together, verified together, published together or not.

Tables are written beside their final place, read back, and counted by code that did not make them.
Only if every promise holds does the folder get its name, in one step; in PostgreSQL all tables get
theirs in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from sfumato.anonymization.actions import pseudonym_step
from sfumato.anonymization.preparing import shape_of
from sfumato.anonymization.problem import Problem
from sfumato.anonymization.releasing import as_released, release_of, require_new_names, step_of
from sfumato.anonymization.request import Request, RequestFields
from sfumato.anonymization.verb import solve
from sfumato.budget import Budget, within_budget
from sfumato.engines.recoding import Recoding, Step
from sfumato.engines.staging import Staged, appearing_folder
from sfumato.engines.writing import format_of
from sfumato.errors import InputError, PromiseError, spell
from sfumato.fields import declares
from sfumato.files import file_fingerprint, write_text
from sfumato.hierarchy.labels import as_text
from sfumato.privacy import KAnonymity, compile_rules
from sfumato.relational.description import RELEASED_LINK_BYTES, Dataset, dataset, require_room
from sfumato.relational.events import Blurred, blur
from sfumato.relational.histories import (
    Histories,
    Part,
    free_name,
    moved_dates,
    of_somebody,
    read_histories,
    without_names,
)
from sfumato.relational.plan import Plan, plan_of
from sfumato.relational.publishing import (
    CERTIFICATE,
    TableRelease,
    TablesRelease,
    certificate_of,
    certified,
    check_place,
    commit_tables,
    description_of,
    place_of,
)
from sfumato.relational.verification import LinkedTables, WholeReferences
from sfumato.release import Release
from sfumato.release.beside import remarks
from sfumato.release.certificate import checked_author
from sfumato.release.other_promises import WithoutColumns
from sfumato.release.publish import recorded_promises, staged_release
from sfumato.results import plain
from sfumato.tables import Table, table
from sfumato.tables.formats import is_postgres
from sfumato.tables.several import DESCRIPTION
from sfumato.utility import column_losses
from sfumato.wording import counted, shown

_FEWEST_VALUES = 10
"""Different values of a column that several tables keep, from which on it may join their rows."""
_MOST_VALUES = 1_000_000
"""Different values beyond which such columns are not compared."""


@declares(RequestFields)
@within_budget
def anonymize(
    source: Any,
    *,
    output: str | Path | None = None,
    config: Request | None = None,
    exclude: Sequence[str] = (),
    format: str | None = None,
    force: bool = False,
    sign: str | Path | None = None,
    author: str | None = None,
    budget: Budget | None = None,
    **asked: Unpack[RequestFields],
) -> TablesRelease:
    """Blur all tables of a dataset together, so that the promise holds for their joined view.

    Parameters
    ----------
    source
        Anything `sfumato.relational.dataset` opens.
    output
        The folder to be, or ``postgresql://…#schema.*`` of the same database; without it nothing is
        written.
    config
        A request; what is given here comes before it.
    exclude
        Tables that are not published.
    format, force, sign, author
        The format of all files, whether a released dataset there is replaced, the key that signs
        the certificate, and whom it names as its author.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> sexes, wards = ["F", "F", "M", "M"], ["A", "A", "B", "B", "B"]
    >>> house = {
    ...     "person": "patients.id",
    ...     "tables": {
    ...         "patients": {"source": pa.table({"id": [1, 2, 3, 4], "sex": sexes})},
    ...         "visits": {"source": pa.table({"patient": [1, 2, 3, 4, 4], "ward": wards})},
    ...     },
    ... }
    >>> release = sf.relational.anonymize(house, k=2, qi=["patients.sex", "visits.ward"])
    >>> release.promise, release.k
    ('unlinkable', 2)
    """
    budget = budget or Budget()
    request = (config or Request()).overridden(asked)
    with ExitStack() as stack:
        made = dataset(source, person=request.person, exclude=exclude, budget=budget)
        if not isinstance(source, Dataset):
            stack.callback(made.close)
        target = _Target(None if output is None else os.fspath(output), format, force, sign)
        plan = replace(plan_of(made, request, exclude), author=checked_author(author))
        if format is not None:
            format_of(target.output or "", format)
        check_place(plan, target.output, force, sign)  # before any row is looked at
        plan = without_names(plan, budget)
        if request.shift_dates:
            plan = moved_dates(plan, budget)
        return (_linked if request.linkable else _unlinked)(plan, target, budget)


@dataclass(frozen=True)
class _Target:
    """Where a release goes, as it was asked for; it is only rehearsed without an output."""

    output: str | None
    format: str | None
    force: bool
    sign: Any

    @property
    def remote(self) -> bool:
        """Whether it goes to a database."""
        return self.output is not None and is_postgres(self.output)

    def foresees(self, plan: Plan) -> bool:
        """Whether figures are foreseen: rows live elsewhere, and go to no place."""
        tables = plan.made.tables.values()
        return self.output is None and any(t.table.engine.capabilities.remote for t in tables)

    @contextmanager
    def places(self, plan: Plan, names: Iterable[str]) -> Iterator[tuple[Path, dict[str, str]]]:
        """The folder that is being made, and by table where it is written."""
        with nullcontext(Path()) if self.remote else appearing_folder(self.output) as folder:
            schema = self.output if self.remote else None
            yield folder, {n: place_of(plan, n, schema, folder, self.format) for n in names}

    def published(
        self,
        plan: Plan,
        release: TablesRelease,
        promises: Sequence[Mapping[str, Any]],
        staged: Mapping[str, Staged],
        written: Mapping[str, Table],
        folder: Path,
        places: Mapping[str, str],
    ) -> TablesRelease:
        """Certify the tables, and let all of them appear; those that are staged still wait."""
        assert self.output is not None
        described = None
        if not self.remote:
            write_text(folder / DESCRIPTION, description_of(plan, places).to_toml())
            described = file_fingerprint(folder / DESCRIPTION)
        sealed = certified(plan, release, promises, written, places, self.output, described)
        sealed = sealed if self.sign is None else sealed.signed_with(self.sign)
        if self.remote:
            beside = certificate_of(self.output)
            commit_tables(list(staged.values()), sealed, beside, self.force)
        else:
            for one in staged.values():
                one.commit(force=False)
            sealed.write(folder / CERTIFICATE)
        return replace(release, output=shown(self.output), certificate=sealed)


# --- rows that can be linked ---


def _linked(plan: Plan, target: _Target, budget: Budget) -> TablesRelease:
    histories = read_histories(
        plan.made, plan.known, plan.keys, plan.of_persons, budget, RELEASED_LINK_BYTES
    )
    requests = {name: plan.request(name) for name in histories.parts}
    problems = {
        name: _problem(part, requests[name], budget) for name, part in histories.parts.items()
    }
    blurred = blur(histories, problems, plan.asked.k, plan.m, budget)
    recodings = _recodings(plan, histories, requests, blurred)
    promises = _promises(plan, histories, requests, recodings)
    release = _foreseen(plan, histories, blurred)
    if target.foresees(plan):
        return release
    with ExitStack() as stack:
        folder, places = stack.enter_context(target.places(plan, recodings))
        staged: dict[str, Staged] = {}
        for name, recoding in recodings.items():
            budget.progress(f"writing {name}")
            engine = plan.made.tables[name].table.engine
            staged[name] = engine.stage(recoding, places[name], budget=budget.unhurried())
            stack.callback(staged[name].discard)
        written = {name: Table(one.engine()) for name, one in staged.items()}
        release = _checked(plan, release, promises, written, budget)
        formulas = sum(one.formulas or 0 for one in staged.values())
        if formulas:
            told = f"{formulas:,} cells or headings begin like formulas, which spreadsheets run"
            release = replace(release, warnings=(*release.warnings, told))
        if target.output is None:
            return release
        if not target.remote:
            written |= _read_here(staged, written, places)
        recorded = _recorded(plan, release, promises, written)
        return target.published(plan, release, recorded, staged, written, folder, places)


def _read_here(
    staged: Mapping[str, Staged], written: Mapping[str, Table], places: Mapping[str, str]
) -> dict[str, Table]:
    """Tables that Spark wrote, as whoever gets the folder will read them."""
    found = {}
    for name, one in written.items():
        if one.engine.capabilities.remote:
            staged[name].commit(force=False)  # the folder itself has no name yet
            found[name] = table(places[name])
    return found


def _problem(part: Part, request: Request, budget: Budget) -> Problem:
    """How the quasi-identifiers of a table may be blurred."""
    shapes, held = {}, {}
    for name in part.qi:
        values = part.entries.values_of(name)
        codes = part.entries.column(name)[part.entry].astype(np.int64)
        pairs = np.unique(np.stack([codes, part.person], axis=1), axis=0)
        held[name] = np.bincount(pairs[:, 0], minlength=len(values)).astype(np.int64)
        shapes[name] = shape_of(request, name, values, held[name], request.k)[0]
    return Problem(
        entries=part.entries,
        qi=part.qi,
        sensitive=(),
        shapes=shapes,
        rules=compile_rules([KAnonymity(request.k or 1)]),
        weights=dict(request.weights),
        budget=budget,
        seed=request.seed,
        sets=(part.qi,),
        held=held,
    )


def _recodings(
    plan: Plan, histories: Histories, requests: Mapping[str, Request], blurred: Blurred
) -> dict[str, Recoding]:
    """By published table how it becomes what is written."""
    found: dict[str, Recoding] = {}
    for name in plan.shown:
        one = plan.made.tables[name]
        steps: list[Step] = []
        parted: list[str] = []
        if name in blurred.solutions:
            step = step_of(blurred.solutions[name], requests[name])
            steps.append(step)
            parted = as_released(requests[name], step.cells)[0] if histories.parts[name].qi else []
            added = set(step.cells) - set(histories.parts[name].qi)
            require_new_names(added, one.table.columns, one.table.name)
        steps += [
            pseudonym_step(one.table, column, plan.key_of(name, column))
            for column in plan.linked[name]
        ]
        found[name] = Recoding(tuple(steps), (*plan.dropped[name], *parted), sorted=True)
    return found


def _promises(
    plan: Plan,
    histories: Histories,
    requests: Mapping[str, Request],
    recodings: Mapping[str, Recoding],
) -> tuple[LinkedTables, WholeReferences]:
    """What must hold of the output."""
    shown_as = {
        part.name: as_released(requests[part.name], recodings[part.name].written)[1][0]
        for part in histories.parts.values()
        if part.qi
    }
    own = plan.person[0]
    links = [r for r in plan.made.references if r.table in histories.parts]
    linked = LinkedTables(
        plan.asked.k,
        plan.m,
        plan.person,
        shown_as.get(own, ()),
        {name: columns for name, columns in shown_as.items() if name != own},
        tuple((r.table, r.column, r.to, r.key) for r in links if r.to in histories.parts),
        {name: plan.keys[name] for name in histories.parts},
    )
    whole = WholeReferences(
        tuple((r.table, r.column, r.to, r.key, r.orphans) for r in plan.made.references)
    )
    return linked, whole


def _foreseen(plan: Plan, histories: Histories, blurred: Blurred) -> TablesRelease:
    """What becomes of the dataset, before it is written."""
    tables, losses = [], {}
    for name in plan.shown:
        one = plan.made.tables[name]
        part = histories.parts.get(name)
        kept = blurred.kept.get(name)
        rows = one.table.rows
        stay = rows if kept is None else int(kept.sum())
        ncp = None
        if part is not None and part.qi:
            lost = column_losses(blurred.solutions[name].view)
            ncp = losses[name] = float(np.mean([lost[column] for column in part.qi]))
        tables.append(
            TableRelease(
                name,
                stay,
                rows - stay,
                plan.known.get(name, ()),
                plan.linked[name],
                plan.dropped[name],
                ncp,
            )
        )
    events = [part.name for part in histories.events]
    weights = {name: len(histories.parts[name].entry) for name in events}
    total = sum(weights.values())
    return TablesRelease(
        dataset=shown(plan.made.name),
        promise="linkable",
        asked=plan.asked.to_dict(),
        person=".".join(plan.person),
        k=plan.asked.k,
        m="all" if plan.m is None else plan.m,
        persons=histories.persons,
        tables=tuple(tables),
        left_out=plan.left_out,
        events=total,
        events_kept=sum(int(blurred.kept[name].sum()) for name in events),
        ncp_own=losses.get(plan.person[0]),
        ncp_events=sum(losses[n] * w for n, w in weights.items()) / total if total else None,
        warnings=(*plan.warnings, *_told(plan, histories)),
    )


def _told(plan: Plan, histories: Histories) -> Iterator[str]:
    """What is to be said about a release."""
    for part in histories.parts.values():
        if part.nobodys:
            yield _nobodys(plan, part.name, part.nobodys)
    yield from _unnamed(plan)
    for one in plan.made.references:
        if one.table == plan.person[0]:
            seen = "which of a person's rows it names" if one.to in plan.made.steps else ""
            yield (
                f"`{one.table}.{one.column}` stays as a pseudonym: "
                f"{seen or 'which persons share it'} can be seen, and that is not counted among "
                "what is known"
            )


def _unnamed(plan: Plan) -> Iterator[str]:
    """That nothing is promised about tables without quasi-identifiers."""
    how = "under pseudonyms" if plan.asked.linkable else "without their keys"
    for name in plan.of_persons:
        mine = set(plan.made.tables[name].table.columns) - {*plan.linked[name]}
        own = name == plan.person[0]
        if name not in plan.shown or plan.known.get(name) or (own and not mine):
            continue
        yield (
            f"no quasi-identifier of `{name}` is named: its rows are published {how}, and nothing "
            "is promised to who knows something of them"
        )


def _alone(plan: Plan, written: Mapping[str, Table], budget: Budget) -> Iterator[str]:
    """Who stands alone by columns that stay, in tables whose release does not tell it itself."""
    for name in plan.of_persons:
        qi = plan.known.get(name, ())
        if name not in written or (qi and not plan.asked.linkable):
            continue
        mine = written[name]
        sets = ([column for column in qi if column in mine.columns],)
        for said in remarks(mine, sets, (), plan.linked[name], (), budget)[1]:
            yield f"{name}: {said}"


def _nobodys(plan: Plan, name: str, rows: int) -> str:
    """That rows of nobody are left out."""
    belong, are = ("belongs", "is") if rows == 1 else ("belong", "are")
    return (
        f"{counted(rows, 'row')} of `{name}` {belong} to nobody in `{plan.person[0]}` and {are} "
        "left out"
    )


def _checked(
    plan: Plan,
    release: TablesRelease,
    promises: tuple[LinkedTables, WholeReferences],
    written: Mapping[str, Table],
    budget: Budget,
) -> TablesRelease:
    """The release with what was counted on the output, if that keeps every promise."""
    budget.progress("verifying")
    findings = [promise.check(written, budget.unhurried()) for promise in promises]
    for name, columns in plan.dropped.items():
        if columns and name in written:
            finding = WithoutColumns(columns).check(written[name])
            findings.append(replace(finding, say=f"{name}: {finding.say}"))
    broken = [finding for finding in findings if not finding.holds]
    if broken:
        remedy = " ".join(finding.remedy for finding in broken if finding.remedy) or None
        if "broken" in broken[0].measured:  # persons stay, also where rows of theirs do not
            column = spell("identifiers", broken[0].measured["broken"])
            remedy = (
                f"Rows that persons refer to had to be left out. Leave that out, too: {column}."
            )
        raise PromiseError(
            "nothing was published: " + "; ".join(finding.say for finding in broken),
            where=shown(plan.made.name),
            remedy=remedy,
        )
    return replace(
        release,
        k=findings[0].measured["k"],
        findings=tuple(findings),
        verified=True,
        warnings=(*release.warnings, *_alone(plan, written, budget)),
    )


def _recorded(
    plan: Plan,
    release: TablesRelease,
    promises: tuple[LinkedTables, WholeReferences],
    written: Mapping[str, Table],
) -> list[Mapping[str, Any]]:
    """What the certificate promises, with what was measured."""
    linked, whole = promises
    counted = release.findings[:2]
    both: list[LinkedTables | WholeReferences] = [linked, whole.settled(counted[1])]
    told: list[Mapping[str, Any]] = [
        {"kind": one.kind, **one.to_dict(), "measured": plain(finding.measured)}
        for one, finding in zip(both, counted, strict=True)
    ]
    told += [
        {"kind": "without-columns", "table": name, "columns": list(columns), "measured": {}}
        for name, columns in plan.dropped.items()
        if columns and name in written
    ]
    return told


# --- rows that cannot be linked ---


def _unlinked(plan: Plan, target: _Target, budget: Budget) -> TablesRelease:
    """Every table by itself, without keys: k different persons in every class of it."""
    here = [t for t in plan.made.tables.values() if not t.table.engine.capabilities.remote]
    require_room(here, plan.made.links(), budget)
    with ExitStack() as stack:
        planned, lost = _all_planned(plan, stack, budget)
        if target.foresees(plan):
            return _without_links(plan, planned, lost)
        folder, places = stack.enter_context(target.places(plan, planned))
        releases: dict[str, Release] = {}
        staged: dict[str, Staged] = {}
        written: dict[str, Table] = {}
        promises: list[Mapping[str, Any]] = []
        for name, one in planned.items():
            budget.progress(f"writing {name}")
            releases[name], staged[name], written[name] = stack.enter_context(
                staged_release(one, places[name], budget=budget)
            )
            told = recorded_promises(releases[name], written[name])
            promises += [{**promise, "table": name} for promise in told]
            if not target.remote:
                staged[name].commit(force=False)  # the folder itself has no name yet
                written[name] = stack.enter_context(table(places[name], budget=budget))
        release = _without_links(plan, releases, lost)
        alone = tuple(_alone(plan, written, budget))
        release = replace(release, warnings=(*release.warnings, *alone))
        if target.output is None:
            return release
        waiting = staged if target.remote else {}
        return target.published(plan, release, promises, waiting, written, folder, places)


def _all_planned(
    plan: Plan, stack: ExitStack, budget: Budget
) -> tuple[dict[str, Release], dict[str, int]]:
    """By table how it is released without its keys, and how many rows belong to nobody."""
    owners: dict[str, list[str | None]] = {}
    planned, lost = {}, {}
    for name in plan.shown:
        one, person = plan.made.tables[name], None
        if name in plan.made.paths and plan.known.get(name):
            person = free_name(plan.made)
        opened, lost[name] = of_somebody(plan.made, name, person, owners)
        if opened is not one.table:
            stack.callback(opened.close)
        planned[name] = _planned(plan, name, opened, person, budget)
        if planned[name].suppressed_rows:
            raise PromiseError(
                f"rows of `{name}` would have to be left out",
                where=shown(plan.made.name),
                remedy="Ask for a smaller k, or for whole histories.",
            )
    return planned, lost


def _without_links(
    plan: Plan, releases: Mapping[str, Release], lost: Mapping[str, int]
) -> TablesRelease:
    """What becomes of the dataset, its tables being released one by one."""
    tables, findings = [], []
    warnings = [*plan.warnings, *_unnamed(plan), *_still_joined(plan)]
    losses: dict[str, tuple[float, int]] = {}
    for name, release in releases.items():
        qi, rows = plan.known.get(name, ()), plan.made.tables[name].table.rows
        findings += [replace(f, say=f"{name}: {f.say}") for f in release.findings]
        warnings += [f"{name}: {told}" for told in release.warnings]
        if lost[name]:
            warnings.append(_nobodys(plan, name, lost[name]))
        ncp = release.utility.get("ncp") if qi else None
        if ncp is not None:
            losses[name] = (float(ncp), rows)
        left_out = rows - release.rows
        tables.append(TableRelease(name, release.rows, left_out, qi, (), plan.dropped[name], ncp))
    events = [t for t in tables if t.qi and t.name != plan.person[0]]
    blurred = [losses[t.name] for t in events if t.name in losses]  # nothing, in an empty table
    weight = sum(rows for _, rows in blurred)
    return TablesRelease(
        dataset=shown(plan.made.name),
        promise="unlinkable",
        asked=plan.asked.to_dict(),
        person=".".join(plan.person),
        k=min(one.k or 0 for n, one in releases.items() if plan.known.get(n) and one.rows),
        m=None,
        persons=plan.made.tables[plan.person[0]].table.rows,
        tables=tuple(tables),
        left_out=plan.left_out,
        events=sum(plan.made.tables[t.name].table.rows for t in events),
        events_kept=sum(t.rows for t in events),
        ncp_own=losses.get(plan.person[0], (None, 0))[0],
        ncp_events=sum(loss * rows for loss, rows in blurred) / weight if weight else None,
        findings=tuple(findings),
        verified=all(release.verified for release in releases.values()),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _still_joined(plan: Plan) -> Iterator[str]:
    """That columns which several tables keep may join rows, where values are of few persons."""
    having: dict[str, list[tuple[str, str]]] = {}
    for name in plan.shown:
        gone = {*plan.dropped[name], *plan.known.get(name, ())}
        for column in plan.made.tables[name].table.columns:
            if column not in gone:
                having.setdefault(column.lower(), []).append((name, column))
    found = [
        f"`{column}` ({' and '.join(name for name, _ in places)})"
        for column, places in having.items()
        if any(_joins(plan, one, other) for one, other in combinations(places, 2))
    ]
    if found:
        yield (
            "keys are left out, and columns that several tables keep, with many different values, "
            f"may still join their rows: {', '.join(found)}; leave them out or blur them"
        )


def _joins(plan: Plan, one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two columns share values, those of one of them being of few persons or rows each."""
    held, few = [], False
    for name, column in (one, other):
        mine = plan.made.tables[name].table
        sizes = mine.class_sizes([column])
        if sizes.classes < _FEWEST_VALUES:
            return False
        step = plan.made.steps.get(name)
        owned = sizes.rows if step is None else mine.class_sizes([column, step.column]).classes
        few = few or owned < 2 * (plan.asked.k or 1) * sizes.classes
        held.append((mine, column, sizes.classes))
    if not few:
        return False
    if any(t.engine.capabilities.remote or many > _MOST_VALUES for t, _, many in held):
        return True  # such cells stay where they are, or would take long to compare
    first, second = ({*as_text(t.values(c).values[0]).to_pylist()} - {None} for t, c, _ in held)
    return 2 * len(first & second) >= min(len(first), len(second)) > 0


def _planned(plan: Plan, name: str, opened: Table, person: str | None, budget: Budget) -> Release:
    """How one table is released: blurred, or only without its keys.

    Rows come in the order of what they show: their own could tell whose they are.
    """
    drop = plan.dropped[name]
    if person is not None and not opened.rows and name != plan.person[0]:
        drop, person = (*drop, person), None  # nobody is in it, so nothing is to be blurred
    without = (WithoutColumns(drop),) if drop else ()
    if not plan.known.get(name) or person is None:
        return Release.planned(
            opened, Recoding((), drop, True), method="copy", asked={}, promises=without
        )
    at = replace(plan.made.tables[name], table=opened)
    there = replace(plan, made=replace(plan.made, tables={**plan.made.tables, name: at}))
    request = there.request(name, identifiers=list(drop), person=person, sort=True)
    try:
        found = release_of(opened, request, solve(opened, request, budget))
    except InputError as error:  # people know the table by its own name
        where = name if error.where == opened.name else error.where
        raise type(error)(error.what, where=where, remedy=error.remedy) from error
    # The table has no column of its own that names its persons: nothing is to be said of it.
    promises = [one for one in found.promises if not isinstance(one, WithoutColumns)]
    return replace(found, promises=(*promises, *without))
