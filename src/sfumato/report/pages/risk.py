"""Pages of what an attacker can do: risk, measures, risky rows, and checks of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.quasi.measure import Measures
from sfumato.quasi.uniques import Uniques
from sfumato.release.promise import Finding
from sfumato.release.verify import Verification
from sfumato.report import charts
from sfumato.report.drawing import gauge
from sfumato.report.page import AT_HOME, Figure, Grid, Page, Section, Tone
from sfumato.risks import Risk
from sfumato.wording import among, at_most, percent, phrase

__all__ = [
    "findings_grid",
    "measures_page",
    "measures_summary",
    "risk_gauges",
    "risk_page",
    "risk_summary",
    "uniques_page",
    "uniques_summary",
    "verification_page",
    "verification_summary",
]


def risk_gauges(before: Risk) -> tuple[str, ...]:
    """Prosecutor, journalist and marketer, before and after where both are known."""
    after = before.after
    return (
        gauge("prosecutor", before.prosecutor, after.prosecutor if after else None, highest=True),
        gauge("journalist", before.journalist, after.journalist if after else None, highest=True),
        gauge("marketer", before.marketer, after.marketer if after else None),
    )


def risk_summary(found: Risk) -> Page:
    """What is said of a risk first."""
    last = found.after or found
    who = "rows" if found.persons is None else "persons"
    total = last.rows if last.persons is None else last.persons
    released = "After the release " if found.after else ""
    tone: Tone = "bad" if total and last.share_above else "good"
    if not total:
        verdict = "There is nobody in the table."
    elif last.share_above:
        verdict = (
            f"{released}{percent(last.share_above)} of {total:,} {who} carry a risk above "
            f"{percent(found.threshold)} for those who know {phrase(found.qi)}."
        )
    else:
        verdict = (
            f"{released}no one of {total:,} {who} carries a risk above {percent(found.threshold)} "
            f"for those who know {phrase(found.qi)}."
        )
    return Page(
        title="Re-identification risk",
        subtitle=f"{found.rows:,} rows · population: {found.basis}",
        verdict=verdict[0].upper() + verdict[1:],
        tone=tone,
        facts=(
            ("highest risk", at_most(last.prosecutor)),
            ("average risk", percent(last.marketer)),
            (f"above {percent(found.threshold)}", percent(last.share_above)),
            ("classes", f"{last.classes:,}"),
        ),
        gauges=risk_gauges(found),
    )


def risk_page(found: Risk) -> Page:
    """The page of a risk."""
    rows = [
        (
            name,
            meaning,
            say(getattr(found, field)),
            say(getattr(found.after, field)) if found.after else "–",
        )
        for name, field, meaning in (
            ("prosecutor", "prosecutor", "knows the person is in the table; the worst row"),
            ("journalist", "journalist", "does not know it; the worst row in the population"),
            ("marketer", "marketer", "matches everybody; the share of right matches"),
            (
                f"above {percent(found.threshold)}",
                "share_above",
                "rows whose risk exceeds the threshold",
            ),
        )
        for say in [at_most if field in ("prosecutor", "journalist") else percent]
    ]
    if found.households is not None:
        after = None if found.after is None else found.after.households
        rows.append(
            (
                "household",
                f"finds anybody of the household, mean of {found.households.number:,}",
                percent(found.households.mean),
                percent(after.mean) if after else "–",
            )
        )
    heads = ("attacker", "what they do", "risk", "after")
    grid = Grid(heads if found.after else heads[:3], rows if found.after else [r[:3] for r in rows],
                frozenset({2, 3}))  # fmt: skip
    return replace(risk_summary(found), sections=[Section("Three attackers", grids=[grid])])


def measures_summary(found: Measures) -> Page:
    """What is said of the measures of a column set."""
    who = "row" if found.persons is None else "person"
    alone = among(found.alone, found.total, who, does="stand alone", share=True)
    verdict = f"{alone} by {phrase(found.columns)}."
    return Page(
        title="What a column set reveals",
        subtitle=f"{phrase(found.columns)} · {found.rows:,} rows",
        verdict=verdict if found.rows else "The table has no rows: there is nobody to find.",
        tone="bad" if found.rows and found.alone else "good",
        facts=(
            ("classes", f"{found.classes:,}"),
            ("smallest class (k)", "–" if found.k is None else f"{found.k:,}"),
            ("distinct ratio", f"{found.distinct:.4g}"),
            ("separation ratio", f"{found.separation:.6g}"),
        ),
        gauges=(gauge("stand alone", found.unique if found.rows else None),),
    )


_RATIOS = (
    "Distinct: classes for each row. Separation: pairs of rows that differ. Alone: rows that are "
    "the only one of their class."
)
_RATIOS_OF_PERSONS = (
    "Distinct: classes for each person in each of them. Separation: pairs of rows of different "
    "persons that differ. Alone: persons with a row that is like nobody else's."
)


def measures_page(found: Measures) -> Page:
    """The page of the measures of a column set."""
    shown = {"distinct": found.distinct, "separation": found.separation, "alone": found.unique}
    figure = Figure(
        "The three ratios",
        _RATIOS if found.persons is None else _RATIOS_OF_PERSONS,
        charts.shares("Ratios of the column set", shown, what="ratio"),
    )
    return replace(measures_summary(found), sections=[Section("Measures", figures=[figure])])


def uniques_summary(found: Uniques) -> Page:
    """What is said of risky rows first."""
    share = found.exposed_rows / found.rows if found.rows else 0.0
    few = (
        "one column singles" if found.max_size == 1 else f"{found.max_size} columns or fewer single"
    )
    return Page(
        title="Risky rows",
        subtitle=f"{found.rows:,} rows · sets of up to {found.max_size} columns",
        verdict=f"{few[0].upper()}{few[1:]} out {found.exposed_rows:,} of {found.rows:,} rows "
        f"({percent(share)}).",
        tone="bad" if found.exposed_rows else "good",
        facts=(
            ("exposed rows", f"{found.exposed_rows:,}"),
            ("right matches (DIS)", percent(found.dis)),
            ("complete", "yes" if found.complete else "no"),
        ),
        gauges=(gauge("exposed rows", share),),
    )


def uniques_page(found: Uniques) -> Page:
    """The page of risky rows; no row is named."""
    if not found.rows:
        return uniques_summary(found)
    reached = {
        "1 column" if at == 1 else f"{at} columns": _exposed_by(found, at) / found.rows
        for at in range(1, found.max_size + 1)
    }
    strongest = dict(sorted(found.columns.items(), key=lambda item: -item[1])[:40])
    figures = [
        Figure(
            "How few columns are enough",
            "Rows that some set of at most so many columns singles out.",
            charts.shares("Rows singled out by few columns", reached, what="share of rows"),
        ),
        Figure(
            "Which columns do it",
            "How much of all rows' score comes from sets that contain the column; a set counts for "
            "each of its columns, so the shares add up to more than one.",
            charts.shares("Columns by their share of the score", strongest, what="share of score"),
        ),
    ]
    return replace(uniques_summary(found), sections=[Section("Who, and by what", figures=figures)])


def _exposed_by(found: Uniques, size: int) -> int:
    return int(((found.smallest > 0) & (found.smallest <= size)).sum())


def verification_summary(found: Verification) -> Page:
    """Whether a release keeps its promises."""
    broken = [finding for finding in found.findings if not finding.holds]
    verdict = (
        "Everything that was checked holds."
        if found.holds
        else "Not every promise holds: " + "; ".join(finding.say for finding in broken) + "."
    )
    return Page(
        title="Verification",
        subtitle="Measured again on the table as it lies there",
        verdict=verdict,
        tone="good" if found.holds else "bad",
        facts=(("checks", f"{len(found.findings)}"), ("broken", f"{len(broken)}")),
        at_home=AT_HOME if found.stays_at_home() else "",
    )


def verification_page(found: Verification) -> Page:
    """The page of a verification."""
    section = Section("What was checked", grids=[findings_grid(found.findings)])
    return replace(verification_summary(found), sections=[section])


def findings_grid(findings: Sequence[Finding]) -> Grid:
    """Checks with their outcome."""
    rows = [(f.check, _outcome(f), f.say) for f in findings]
    return Grid(("check", "outcome", "measured"), rows)


def _outcome(finding: Finding) -> str:
    """Of a check; nothing holds that was not checked, or is not there."""
    if not finding.holds:
        return "broken"
    if finding.measured.get("signed", True) is False:
        return "none"
    return "not all checked" if finding.unchecked else "holds"
