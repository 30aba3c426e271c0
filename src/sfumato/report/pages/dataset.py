"""Pages of datasets: their tables, what refers to what, and who is found after a join."""

from __future__ import annotations

from dataclasses import replace

from sfumato.relational import DatasetScan, TablesRelease
from sfumato.report.drawing import gauge
from sfumato.report.page import Grid, Page, Section, Tone
from sfumato.wording import percent, sentence

__all__ = ["release_page", "release_summary", "scan_page", "scan_summary"]


def scan_summary(found: DatasetScan) -> Page:
    """What is said of a dataset first."""
    persons = max(found.persons, 1)
    tone: Tone = "warn"
    gauges: tuple[str, ...] = ()
    verdict = "No table was found to be about persons."
    if found.alone is not None and found.only_joined is not None:
        whole = found.alone + found.only_joined
        verdict = (
            f"{found.alone:,} of {found.persons:,} persons are alone in some table, and "
            f"{found.only_joined:,} more only after a join."
        )
        tone = "bad" if 20 * whole > found.persons else "good"
        gauges = (
            gauge("alone in a table", found.alone / persons),
            gauge("alone after a join", whole / persons),
            gauge("alone by all rows", (found.histories or 0) / persons),
        )
    return Page(
        title="A dataset",
        subtitle=f"{found.dataset}: {len(found.tables)} tables",
        verdict=verdict,
        tone=tone,
        facts=(
            ("persons", f"{found.persons:,}"),
            ("named by", (found.person or "nobody") + (" (a guess)" if found.guessed else "")),
            ("tables", f"{len(found.tables):,}"),
            ("references", f"{len(found.references):,}"),
        ),
        gauges=gauges,
    )


def scan_page(found: DatasetScan) -> Page:
    """The page of a dataset."""
    tables = Grid(
        ("table", "rows", "key", "leads to the person by", "others may know", "persons alone"),
        [
            (
                one.name,
                f"{one.rows:,}",
                one.key or "",
                "nothing" if one.way is None else "; ".join(one.way) or "itself",
                ", ".join(one.known),
                "" if one.alone is None else f"{one.alone:,}",
            )
            for one in found.tables
        ],
        frozenset({1, 5}),
    )
    references = Grid(
        ("reference", "how it is known", "rows that lead nowhere"),
        [
            *((one.say, one.how, f"{one.orphans:,}") for one in found.references),
            *((one.say, f"database; not followed: {one.why}", "") for one in found.unfollowed),
        ],
        frozenset({2}),
    )
    sections = [
        Section("Tables", grids=[tables]),
        Section("What refers to what", grids=[references]),
    ]
    return replace(scan_summary(found), sections=sections)


def release_summary(found: TablesRelease) -> Page:
    """What is said of a released dataset first."""
    share = found.events_kept / found.events if found.events else None
    linked = found.promise == "linkable"
    return Page(
        title="A released dataset",
        subtitle=f"{found.dataset}: {len(found.tables)} tables, {found.promise}",
        verdict=f"Whoever knows own columns and {found.m} rows of a person is left with at least "
        f"{found.k or 0:,} persons."
        if linked
        else f"Every class of every table holds at least {found.k or 0:,} persons.",
        tone="good" if found.verified else "warn",
        facts=(
            ("persons", f"{found.persons:,}"),
            ("rows kept", percent(share)),
            ("loss of own columns", percent(found.ncp_own)),
            ("loss of other rows", percent(found.ncp_events)),
        ),
    )


def release_page(found: TablesRelease) -> Page:
    """The page of a released dataset."""
    tables = Grid(
        (
            "table",
            "rows",
            "left out",
            "quasi-identifiers",
            "pseudonyms",
            "columns left out",
            "loss",
        ),
        [
            (
                one.name,
                f"{one.rows:,}",
                f"{one.left_out:,}",
                ", ".join(one.qi),
                ", ".join(one.keys),
                ", ".join(one.dropped),
                percent(one.ncp),
            )
            for one in found.tables
        ],
        frozenset({1, 2, 6}),
    )
    sections = [
        Section("What was checked", [sentence(finding.say) for finding in found.findings]),
        Section("Tables", grids=[tables]),
    ]
    if found.warnings:
        sections.append(Section("To keep in mind", [sentence(w) for w in found.warnings]))
    return replace(release_summary(found), sections=sections)
