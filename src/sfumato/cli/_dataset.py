"""Datasets on the command line: verbs that take several tables in place of one, and their views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sfumato.cli._options import split_columns
from sfumato.cli._running import Run, figures, listed, titled, warned
from sfumato.errors import ParameterError
from sfumato.files import may_be_dataset, write_text
from sfumato.tables.formats import is_postgres
from sfumato.wording import counted, rows_known, several_below

if TYPE_CHECKING:
    from sfumato.anonymization.request import Request
    from sfumato.relational import Dataset, DatasetScan, TablesAttack, TablesRelease
    from sfumato.release.verify import Verification
    from sfumato.report.page import Page


def released(source: str | None, *, required: bool = False) -> bool:
    """Whether a source is a released dataset; a dataset that is none may be refused."""
    if not may_be_dataset(source):
        return False
    from sfumato.relational import is_dataset, is_released

    if required and is_dataset(source) and not is_released(source):
        raise ParameterError(
            "no certificate lies here, so this is not a released dataset",
            where=source,
            remedy="Name the folder that `sfumato anonymize` wrote, with its certificate.json.",
        )
    return is_released(source)


def opened(run: Run, source: str | None, person: str | None = None) -> Dataset:
    """A dataset, opened with the options of a run; tables to exclude need not be readable."""
    from sfumato import relational

    if run.reading.get("parse"):
        raise ParameterError(
            "--parse is about one table, and this is a dataset of several",
            where=source,
            remedy="Leave out --parse, and write the dates and numbers of the tables plainly.",
        )
    exclude = split_columns(run.exclude) or ()
    return relational.dataset(
        source, person=person, opening=run.open, exclude=exclude, budget=run.budget
    )


def scanned(run: Run, columns: Sequence[str] | None, person: str | None, seed: int) -> DatasetScan:
    """The first look at a dataset, without the tables to exclude."""
    from sfumato import relational

    with opened(run, run.source, person) as made:
        left = made.without(split_columns(run.exclude) or ())
        asked = split_columns(columns, left.columns())
        return relational.scan(left, asked, seed=seed, budget=run.budget)


def anonymize(run: Run, requested: Any, kept: Request, writing: Any, written: Path | None) -> None:
    """``sfumato anonymize`` of a dataset."""
    from sfumato import relational

    if writing.spreadsheet_safe:
        raise ParameterError(
            "cells of a dataset are not made safe for spreadsheets",
            remedy="Leave out --spreadsheet-safe, and do not open its files in one.",
        )
    if writing.save_recoding is not None:
        raise ParameterError(
            "a recoding is of one table, and this is a dataset of several",
            remedy="Leave out --save-recoding.",
        )
    with opened(run, run.source) as made:
        request = kept.overridden(requested.given(made.columns()))
        release = relational.anonymize(
            made,
            config=request,
            exclude=split_columns(run.exclude) or (),
            output=None if writing.dry_run else writing.output,
            format=writing.format,
            force=writing.force,
            sign=writing.sign,
            author=writing.author,
            budget=run.budget,
        )
    if written is not None:
        write_text(written, request.to_toml())
    run.show(release, partial(release_view, settings=written))


def verified(
    run: Run, promised: Any, certificate: str | None, signer: str | None, others: Sequence[Any]
) -> Verification:
    """``sfumato verify`` of a released dataset."""
    from sfumato import relational

    if promised.given(()) or any(others):
        raise ParameterError(
            "a released dataset is checked by its certificate",
            remedy="Leave the other options out, or verify one of its tables: released/TABLE.csv.",
        )
    assert run.source is not None
    return relational.verify(run.source, certificate=certificate, signer=signer, budget=run.budget)


def attack(
    run: Run,
    release: str,
    people: str,
    numbers: tuple[int | None, int | None],
    hierarchies: str | None,
    others: Sequence[Any],
) -> TablesAttack:
    """``sfumato attack`` of a released dataset."""
    from sfumato import relational

    if any(others):
        raise ParameterError(
            "of a released dataset the certificate says what is known and who is a person",
            remedy="Leave out --on, --person, --identity and --sampling-weight.",
        )
    k, m = numbers
    with opened(run, people) as made:
        found = relational.attack(
            release, made, k=k, m=m, hierarchies=hierarchies, budget=run.budget
        )
    run.show(found, attack_view)
    return found


def page(
    run: Run, qi: Sequence[str] | None, other: str | None, person: str | None, seed: int
) -> tuple[Page, tuple[str, ...]]:
    """The page of ``sfumato report`` of a dataset, or of a released one."""
    from sfumato import relational
    from sfumato.report.registry import page_of

    if other is not None:
        raise ParameterError(
            "a released dataset has a page of its own", remedy=f"Report on it: {other}."
        )
    if released(run.source):
        assert run.source is not None
        if qi or person:
            raise ParameterError(
                "of a released dataset the certificate says what is known and who is a person",
                remedy="Leave out --qi and --person.",
            )
        return page_of(relational.verify(run.source, budget=run.budget)), ()
    found = scanned(run, qi, person, seed)
    return page_of(found), tuple(f"{t.name}.{c}" for t in found.tables for c in t.known)


def scan_view(found: DatasetScan) -> RenderableType:
    """Tables, references, and who is found."""
    tables = listed(("table", ">rows", "key", "others may know", ">persons alone"))
    for one in found.tables:
        known = ", ".join(
            f"{column}{'' if column in one.own else ' (event)'}" for column in one.known
        )
        alone = "" if one.alone is None else f"{one.alone:,}"
        tables.add_row(one.name, f"{one.rows:,}", one.key or "", known, alone)
    ways = figures(first=False)
    for reference in found.references:
        lost = counted(reference.orphans, "row", does="lead nowhere") if reference.orphans else ""
        how = {"declared": "declared", "database": "declared in the database"}.get(
            reference.how, f"found by {reference.how}"
        )
        ways.add_row(reference.say, Text(how, style="dim"), Text(lost, style="yellow"))
    refers: list[RenderableType] = [ways] if found.references else []
    refers += [Text(f"{one.say} is not followed: {one.why}") for one in found.unfollowed]
    refers = refers or ["No references were found."]
    parts: list[RenderableType] = [
        Text(f"{found.dataset}  {len(found.tables)} tables", style="bold cyan", overflow="fold"),
        "",
        tables,
        *titled("What refers to what", Padding(Group(*refers), (0, 2))),
        *titled("Who can be found", Padding(Group(*map(Text, _verdict(found))), (0, 2))),
    ]
    described = is_postgres(found.dataset)  # a description names files, and nothing else
    if not described and not found.dataset.endswith(".toml"):  # nobody described it yet
        written = Text(found.description.rstrip())
        parts += titled("As a dataset.toml", Padding(written, (0, 2)))
    return Group(*parts)


def _verdict(found: DatasetScan) -> list[str]:
    """Sentences about persons."""
    if found.person is None:
        return [
            "No table seems to be about persons: say which column names them, "
            "--person TABLE.COLUMN."
        ]
    lines = []
    if found.views:
        lines.append(
            f"Views are not part of the dataset and were not looked at: {', '.join(found.views)}."
        )
    if found.guessed:
        elsewhere = "" if is_postgres(found.dataset) else ", or in a dataset.toml"
        lines.append(f"Probably about `{found.person}`; say so with --person{elsewhere}.")
    nowhere = [one.name for one in found.tables if one.way is None]
    if nowhere:
        lines.append(
            f"These tables do not lead to the person: {', '.join(nowhere)}. A release must be told "
            "whether to copy them."
        )
    for one in found.tables:
        if one.nobodys:
            belong = "belongs" if one.nobodys == 1 else "belong"
            lines.append(f"{counted(one.nobodys, 'row')} of `{one.name}` {belong} to nobody.")
        for column, number in (one.contradictions or {}).items():
            lines.append(
                f"`{one.name}.{column}` has one value per person but for {number:,} of them: it "
                "counts as an event."
            )
    lines.append(
        f"{found.alone:,} of {found.persons:,} persons are alone in some table. "
        f"{found.only_joined:,} more are alone only after a join: by their own columns and one "
        f"other row. By all of their rows {found.histories:,} are alone."
    )
    return lines


def release_view(release: TablesRelease, settings: Path | None) -> RenderableType:
    """What holds, what it cost, and where it is and the settings are."""
    linked = release.promise == "linkable"
    promise = (
        f"Linkable: histories stay whole under pseudonyms; {rows_known(release.m)} of a person may "
        "be known beside the own columns."
        if linked
        else "Unlinkable: keys are left out, so no key joins rows of different tables."
    )
    headings = ("table", ">rows", ">left out", "quasi-identifiers", ">NCP", "pseudonyms")
    tables = listed(headings[: 5 + linked])
    for one in release.tables:
        lost = "" if one.ncp is None else f"{one.ncp:.1%}"
        cells = (f"{one.rows:,}", f"{one.left_out:,}", ", ".join(one.qi), lost)
        tables.add_row(one.name, *cells, *([", ".join(one.keys)] if linked else []))
    parts: list[RenderableType] = [Text(promise, style="bold"), ""]
    if not release.verified:
        parts.append(Text("No table was written, so nothing was checked yet.", style="yellow"))
    parts += [Text.assemble(("✓ ", "green"), finding.say) for finding in release.findings]
    told = "no rows of other tables are among what others may know."
    if release.events:
        share = release.events_kept / release.events
        told = (
            f"{release.events_kept:,} of {release.events:,} rows that others may know of are kept "
            f"({share:.1%})."
        )
    parts += ["", tables, "", f"{release.persons:,} persons; {told}"]
    if release.left_out:
        parts.append(f"Tables left out: {', '.join(release.left_out)}.")
    parts += warned(release.warnings)
    ending = (
        f"{'Nothing' if settings is None else 'No table'} was written: give -o FOLDER to publish."
        if release.output is None
        else f"Released as {release.output}, all tables together."
    )
    if settings is not None:
        ending += f"\nSettings written: {settings}"
    return Group(*parts, "", Text(ending, style="bold", no_wrap=True, overflow="ignore"))


def attack_view(found: TablesAttack) -> RenderableType:
    """Who is left, whoever knows what."""
    lines = figures()
    few = several_below(found.k)
    for count, said in (
        (found.matches_none, "are left with nobody"),
        (found.matches_one, "are left with exactly one person"),
        *([(found.matches_few, f"are left with {few} persons")] if few else ()),
        (found.matches_k, f"are left with at least {found.k:,} persons"),
    ):
        lines.add_row(f"{count:,}", f"{said} ({count / max(found.attackers, 1):.1%})")
    title = Text.assemble(
        (f"{found.attackers:,}", "bold"),
        f" attackers, who know own columns and {rows_known(found.m)} of one of "
        f"{found.persons:,} persons",
    )
    fewer = f"is left with fewer than {found.k:,} persons."
    verdict = (
        f"Somebody is left with {counted(found.least or 0, 'person')}; {found.k:,} were asked for."
    )
    if found.holds:
        verdict = f"Nobody who finds anybody {fewer}" if found.matches_none else f"Nobody {fewer}"
    known = [Text(f"Known: {', '.join(found.known)}")]
    if found.moved:
        known.append(
            Text(
                "The release moved dates: who looks for the true ones looks in the wrong places, "
                "and what was counted is not what somebody finds who knows how far.",
                style="yellow",
            )
        )
    return Group(title, "", lines, "", *known, verdict)
