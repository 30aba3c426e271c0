"""The report of a table or a dataset: who can be found, by what, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import ParameterError
from sfumato.quasi.measure import Measures
from sfumato.quasi.scan import RUNGS, Scan, scan
from sfumato.report import charts
from sfumato.report.disclosure import name_of
from sfumato.report.drawing import gauge
from sfumato.report.page import Figure, Grid, Page, Section, Tone, tempered
from sfumato.risks import Alike, alike
from sfumato.tables import Table, table
from sfumato.wording import (
    among,
    counted,
    counting,
    percent,
    phrase,
    rows_known,
    sentence,
    unit_of,
    units,
)

if TYPE_CHECKING:
    from sfumato.relational import DatasetScan, TablesRelease


MOST_PAIRS = 14
"""Columns whose pairs are all measured; beyond that only the most identifying ones."""
SAID = 6
"""Names of columns that a verdict lists."""
ROLES = {
    "identifier": "points at one person",
    "quasi-identifier": "others may know it",
    "sensitive": "worth hiding",
    "other": "other",
}


@dataclass(frozen=True, eq=False)
class TableFindings:
    """Everything the report of a table draws.

    Attributes
    ----------
    persons
        How many persons look alike, where they are counted.
    several
        Why rows are counted though persons have several of them, in a sentence; else empty.
    """

    scan: Scan
    qi: tuple[str, ...]
    k: int
    sizes: ClassSizes
    singles: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    persons: Alike | None = None
    several: str = ""


def findings_of(
    source: Any,
    *,
    qi: Sequence[str] | None = None,
    k: int = 5,
    person: str | None = None,
    certified: bool = False,
    seed: int = 0,
    budget: Budget | None = None,
) -> TableFindings:
    """Measure what the report shows; quasi-identifiers are guessed where none are given.

    Parameters
    ----------
    person
        Which rows belong to one person: persons are counted, not rows.
    certified
        Whether a certificate says that the rows are those of persons whom the table does not name.
    """
    if k < 2:
        raise ParameterError(f"k = {k} is out of range", remedy="Give 2 or more.")
    budget = budget or Budget()
    opened = table(source, budget=budget)
    found = scan(opened, person=person, seed=seed, budget=budget)
    names = tuple(opened.require(qi) if qi else _likely(found))
    budget.progress("measuring pairs of columns")
    shown = _telling(found, names)
    singles = {name: _unique(opened, [name], person) for name in shown}
    pairs = {(name, name): singles[name] for name in shown}
    pairs |= {pair: _unique(opened, pair, person) for pair in combinations(shown, 2)}
    sizes = opened.class_sizes(names, budget)
    if person is None:
        told = _several(found, certified)
        return TableFindings(found, names, k, sizes, singles, pairs, several=told)
    people = alike(opened, [names], person, budget)
    return TableFindings(found, names, k, sizes, singles, pairs, people)


def _several(found: Scan, certified: bool) -> str:
    """Why rows are spoken of, not people: some may be one person's."""
    if certified:
        return (
            "The certificate beside the table promises something about persons, who may have "
            "several rows each. Rows are counted here."
        )
    if found.person is None or found.person.persons == found.person.rows:
        return ""
    return (
        f"{found.person.column} seems to name {counted(found.person.persons, 'person')} with "
        f"{counted(found.person.rows, 'row')}. Rows are counted here; persons are with "
        f"--person {found.person.column}."
    )


def _unique(opened: Table, columns: Sequence[str], person: str | None) -> float:
    if person is not None:
        return opened.person_sizes(columns, person).unique
    return opened.class_sizes(columns).unique


def _likely(found: Scan) -> tuple[str, ...]:
    """Quasi-identifiers by their guessed role; of columns that say the same the first one."""
    twins = {name for group in found.twins for name in group[1:]}
    likely = [name for name in found.with_role("quasi-identifier") if name not in twins]
    if not likely:
        likely = [c.name for c in found.columns if c.role != "identifier" and c.name not in twins]
    return tuple(likely)


def table_page(findings: TableFindings) -> Page:
    if findings.persons is not None:
        with counting("people", "person"):
            exact = "Counts are exact. A person is as exposed as the most exposed of their rows."
            return _page(findings, findings.persons, _verdict_of_persons, exact)
    sizes, exact = Alike.of_rows(findings.sizes), "Class sizes and counts are exact."
    page = _page(findings, sizes, _verdict_of_rows, exact)
    if not findings.several:
        return page
    return replace(
        page, sections=[Section("Rows, not persons", [findings.several]), *page.sections]
    )


def _page(
    findings: TableFindings, sizes: Alike, verdict: Callable[[Alike, int, str], str], exact: str
) -> Page:
    """The page of a table in which rows are counted, or persons, whom one of its columns names."""
    found, k = findings.scan, findings.k
    below, number, persons = sizes.below(k), sizes.total, sizes.who == "person"
    direct = found.with_role("identifier")
    start = "Do not release this table as it is. " if below else ""
    if direct:
        named = phrase(direct, SAID)
        start = f"Do not release this table as it is: {named} can point at one person. "
    rest = verdict(sizes, k, phrase(findings.qi, SAID))
    of = f"{counted(number, 'person', many='people')} with " if persons else ""
    in_people = ("people who ", "people with ", ", in people") if persons else ("", "", " (k)")
    facts = [
        (f"{in_people[0]}stand alone", f"{sizes.alone:,}"),
        (f"{in_people[1]}fewer than {k} alike", f"{below:,}"),
        (f"smallest class{in_people[2]}", "–" if sizes.k is None else f"{sizes.k:,}"),
    ]
    if not persons:
        facts.append(_duplicates(found))
    highest = 1 / sizes.k if sizes.k else None
    return Page(
        title=name_of(found.table),
        subtitle=f"Who can be found in this table, and by which columns · {of}"
        f"{counted(found.rows, 'row')}, {counted(len(found.columns), 'column')}",
        verdict=start + rest if number else "The table has no rows: there is nobody to find.",
        tone="bad" if number and (direct or below) else tempered("good", highest),
        facts=facts,
        gauges=risk_gauges_of(sizes, k),
        sections=[*_who(findings, sizes), *_by_what(findings), *columns_of(found), *next_of(found)],
        footer=f"{exact} Taken as known to others: {', '.join(findings.qi)}.",
    )


def _duplicates(found: Scan) -> tuple[str, str]:
    return "duplicate rows", "–" if found.duplicate_rows is None else f"{found.duplicate_rows:,}"


def risk_gauges_of(sizes: Alike, k: int) -> tuple[str, ...]:
    """The risks of those who look alike, and how many of them are fewer than k."""
    below = sizes.below(k) / sizes.total if sizes.total else None
    return (
        gauge("highest risk", 1 / sizes.k if sizes.k else None, highest=True),
        gauge("average risk", sizes.average if sizes.total else None),
        gauge(f"{units()} below {k:,} alike", below),
    )


def _verdict_of_persons(sizes: Alike, k: int, by: str) -> str:
    some, whom = sizes.alone, "nobody else has"
    if not some:
        some, whom = sizes.below(k), f"fewer than {k - 1:,} others have"
    if not some:
        return f"Every combination of {by} is that of at least {sizes.k:,} people."
    does = f"have a combination of {by} that {whom}."
    return among(some, sizes.total, "person", many="people", does=does, share=True)


def _verdict_of_rows(sizes: Alike, k: int, by: str) -> str:
    below, everyone = sizes.below(k), counted(sizes.total, units(1), many=units())
    if not below:
        return f"At least {sizes.k} {units()} look alike on {by}."
    if not sizes.alone:
        share = percent(below / sizes.total)
        return f"{below:,} of {everyone} ({share}) share their {by} with fewer than {k - 1} others."
    each = "is" if sizes.alone == 1 else "are each"
    share = percent(sizes.alone / sizes.total)
    return f"{sizes.alone:,} of {everyone} ({share}) {each} the only one with their {by}."


def _who(findings: TableFindings, sizes: Alike) -> list[Section]:
    if not sizes.total:
        return []
    figures = [*ladder_of(findings.scan), *classes_of(sizes, findings.k)]
    return [Section("Who can be found", figures=figures)]


def _who_of(found: Measures, number: int = 2) -> str:
    """What was counted."""
    return unit_of("row" if found.persons is None else "person", number)


def ladder_of(found: Scan) -> list[Figure]:
    """How fast rows begin to stand alone."""
    if not found.ladder:
        return []
    last = found.ladder[-1]
    figure = Figure(
        _ladder_title(found),
        f"Each bar adds one column to those above it, each time the one that singles out most: "
        f"with {len(last.columns)} of them {percent(last.unique)} of the {_who_of(last)} stand "
        f"alone.{' By more columns it may be more.' * (len(last.columns) == RUNGS)}",
        charts.ladder(
            f"{_who_of(last).capitalize()} that stand alone, adding one column after the other",
            found.ladder,
        ),
    )
    return [figure]


HARMLESS = 0.05
"""Share of rows that a column may single out by itself and still look harmless."""


def _telling(found: Scan, names: Sequence[str]) -> list[str]:
    """The columns whose pairs are drawn, in their order: those that single out most."""
    alone = {column.name: column.unique for column in found.columns}
    by_pairs = sorted(found.combinations, key=lambda one: -one.unique)
    ranked = [name for one in by_pairs for name in one.columns if name in names]
    ranked += sorted(names, key=lambda name: -alone.get(name, 0.0))
    most = [*dict.fromkeys(ranked)][:MOST_PAIRS]
    return [name for name in names if name in most]


def _ladder_title(found: Scan) -> str:
    """What the ladder shows, and no more: often one column is enough, or all are not."""
    last = found.ladder[-1]
    if last.unique < 0.5:
        return "What columns single out together"
    alone = {column.name: column.unique for column in found.columns}
    if len(last.columns) > 1 and all(alone.get(n, 1.0) <= HARMLESS for n in last.columns):
        return "A few harmless columns are enough together"
    return "A few columns are enough" if len(last.columns) > 1 else "One column is enough"


def classes_of(sizes: Alike, k: int) -> list[Figure]:
    """Class sizes and risks of a table."""
    below, over, total = sizes.below(k), sizes.below(5), max(1, sizes.total)
    who, one = unit_of(sizes.who, 2), unit_of(sizes.who)
    easiest = (
        "" if sizes.who == "row" else " The row counts by which somebody is found most easily."
    )
    if sizes.classes is None:
        easiest += " Of several sets of columns the one counts that finds somebody most easily."
    return [
        Figure(
            f"How many {who} look alike",
            f"{who.capitalize()} by the number of {who} that share all the values others may "
            f"know.{easiest} {counted(below, one, many=who)} ({percent(below / total)}) with fewer "
            f"than {counted(k - 1, 'companion')}: the risk of each, one over the number "
            f"alike, is above {f'{1 / k:.0%}' if k <= 100 else f'1 in {k:,}'}.",
            charts.class_sizes(
                f"{who.capitalize()} by the size of their class", {"table": sizes}, k
            ),
        ),
        Figure(
            f"How exposed {who} are",
            f"The risk of one is one over the number of {who} alike; the line says how many {who} "
            f"carry at least that risk. The dotted line is a risk of 20%; above it: "
            f"{counted(over, one, many=who)} ({percent(over / total)}).",
            charts.risk_curve(f"Share of {who} by risk", {"table": sizes}),
        ),
    ]


def _by_what(findings: TableFindings) -> list[Section]:
    if not findings.scan.rows or len(findings.singles) < 2:
        return []
    few = len(findings.singles) <= charts.MOST_WRITTEN
    dots = "; where figures are written, a dot stands for almost nobody" if few else ""
    who = unit_of("row" if findings.persons is None else "person", 2)
    worst = max(findings.pairs, key=lambda pair: findings.pairs[pair])
    shown, all_of = len(findings.singles), len(findings.qi)
    of = f"Drawn are {shown} of {all_of} columns. " if shown < all_of else ""
    figures = [
        Figure(
            "Pairs of columns",
            f"The share of {who} that stand alone by each pair of columns, the darker the more; on "
            f"the diagonal each column by itself{dots}. {of}The most telling: "
            f"{phrase(tuple(dict.fromkeys(worst)))} with "
            f"{percent(findings.pairs[worst])}.",
            charts.pair_strength(
                f"{who.capitalize()} alone by pairs of columns", findings.pairs, who
            ),
        )
    ]
    figures += combinations_of(findings.scan)
    paragraphs = [
        f"{phrase(group)} say the same in other words: releasing one releases all."
        for group in findings.scan.twins
    ]
    return [Section("By which columns", paragraphs, figures)]


def combinations_of(found: Scan) -> list[Figure]:
    """The pairs and triples that single out most."""
    if not found.combinations:
        return []
    ordered = sorted(found.combinations, key=lambda m: -m.unique)[:10]
    sizes = Counter(len(m.columns) for m in ordered)
    pairs, triples = (
        what if sizes[size] == 1 else f"{sizes[size]} {what}s"
        for size, what in ((2, "pair"), (3, "triple"))
    )
    caption = f"The {pairs} by which most {_who_of(ordered[0])} stand alone"
    if sizes[3]:
        caption += f", and the {triples}, of those that single out more than any pair in them"
    caption += ". "
    if found.choice is not None:
        caption += found.choice.said(found.rows)
    return [
        Figure(
            "The most telling combinations",
            caption,
            charts.strength("Most identifying combinations", ordered),
        )
    ]


def _said(flag: str, why: str) -> bool:
    """Whether a reason says what a flag does."""
    return {"constant": "the same in every row"}.get(flag, flag) in why


def columns_of(found: Scan, left_out: Sequence[str] | None = None) -> list[Section]:
    """The table of columns."""
    counted_rows = any(m.persons is not None for m in (*found.combinations, *found.ladder))
    alone = "rows alone" if counted_rows else "alone"  # beside figures that count persons
    heads = ("column", "role", "type", "values", "missing", alone, "why")
    rows = [
        (
            column.name,
            "left out" if column.name in (left_out or ()) else ROLES.get(column.role, column.role),
            column.type,
            f"{column.values:,}",
            f"{column.nulls:,}",
            percent(column.unique),
            ", ".join((column.why, *(one for one in column.flags if not _said(one, column.why)))),
        )
        for column in found.columns
    ]
    grid = Grid(heads, rows, frozenset({3, 4, 5}))
    say = "Roles are as decided under Configure."
    if left_out is None:
        say = "Roles are guesses from names and content; correct them where you know better."
    say += (
        " What others may know are quasi-identifiers, what is worth hiding is sensitive, and what "
        "points at one person is an identifier."
    )
    return [Section("The columns", [say], grids=[grid])]


def next_of(found: Scan) -> list[Section]:
    """What to do now."""
    steps = [step.replace(found.table, name_of(found.table)) for step in found.next]
    return [Section("What to do next", steps=steps)] if steps else []


def scan_summary(found: Scan, left_out: Sequence[str] | None = None) -> Page:
    """What is said of a first look.

    `left_out` are columns that somebody decided to leave out though they point at nobody; None
    where nothing was decided, and roles are guesses.
    """
    direct = [name for name in found.with_role("identifier") if name not in (left_out or ())]
    strongest = max((*found.combinations, *found.ladder), key=lambda m: m.unique, default=None)
    said = []
    if direct:
        said.append(f"{phrase(direct, SAID)} can point at one person.")
    known = [column for column in found.columns if column.role == "quasi-identifier"]
    together = {name for m in found.ladder for name in m.columns}
    together |= {name for group in found.twins for name in group[1:]}
    whole = all(column.name in together for column in known if column.classes > 1)
    single = max(known, key=lambda column: column.unique, default=None)
    counts: tuple[int, int, str, Sequence[str]] | None = None
    if strongest is not None:
        who = "row" if strongest.persons is None else "person"
        counts = strongest.alone, strongest.total, who, strongest.columns
    if single is not None and single.unique > (0.0 if strongest is None else strongest.unique):
        counts = single.unique_rows, found.rows, "row", [single.name]  # no other was counted with
    if found.rows > 1 and counts is not None and counts[0]:
        alone, total, who, by = counts
        does, many = "stand alone", unit_of(who, 2)
        told = among(alone, total, unit_of(who), many=many, does=does, share=True)
        said.append(f"{told} by {phrase(by)}.")
        if alone < total and not whole:
            said.append("By all that others may know it may be more.")
    good = "Nobody stands alone by any of the combinations that were counted."
    if not found.rows:
        good = "There are no rows, so nothing was counted."
    elif strongest is None and found.with_role("quasi-identifier"):
        good = "No columns were counted together."
        if found.rows == 1:
            good = "The only row stands alone, whatever is known of it."
    elif strongest is None:
        good = "No column was recognised that others may know, so nothing was counted."
    return Page(
        title=name_of(found.table),
        subtitle=f"First look · {counted(found.rows, 'row')}, "
        f"{counted(len(found.columns), 'column')}",
        verdict=" ".join(said) or good,
        tone="bad" if said else "warn" if strongest is None or not whole else "good",
        facts=(
            ("rows", f"{found.rows:,}"),
            _duplicates(found),
            ("others may know", counted(len(found.with_role("quasi-identifier")), "column")),
            ("worth hiding", counted(len(found.with_role("sensitive")), "column")),
        ),
    )


def scan_page(found: Scan, left_out: Sequence[str] | None = None) -> Page:
    """The page of a first look; see `scan_summary`."""
    figures = [*ladder_of(found), *combinations_of(found)] if found.rows else []
    apart = [c.name for c in found.columns if c.role == "quasi-identifier" and "key" in c.flags]
    words = []
    if apart and found.rows > 1:
        each = "differs" if len(apart) == 1 else "each differ"
        words = [
            f"{phrase(apart, SAID)} {each} in every row and would tell all of them apart without "
            "any other column: the combinations are those of the other columns."
        ]
    sections = [Section("Who can be found", words, figures)] if figures or words else []
    listed = columns_of(found, left_out)
    return replace(scan_summary(found, left_out), sections=[*sections, *listed, *next_of(found)])


def dataset_summary(found: DatasetScan) -> Page:
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
    named = f"persons are {'probably ' if found.guessed else ''}named by {found.person}"
    return Page(
        title="A dataset",
        subtitle=f"{found.dataset}: {named if found.person else 'nobody said who the persons are'}",
        verdict=verdict,
        tone=tone,
        facts=(
            ("persons", f"{found.persons:,}"),
            ("tables", f"{len(found.tables):,}"),
            ("references", f"{len(found.references):,}"),
        ),
        gauges=gauges,
    )


def dataset_page(found: DatasetScan) -> Page:
    tables = Grid(
        ("table", "rows", "key", "leads to the person by", "persons alone", "others may know"),
        [
            (
                one.name,
                f"{one.rows:,}",
                one.key or "",
                "nothing" if one.way is None else _columns_of(one.way) or "itself",
                "" if one.alone is None else f"{one.alone:,}",
                ", ".join(one.known),
            )
            for one in found.tables
        ],
        frozenset({1, 4}),
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
    return replace(dataset_summary(found), sections=sections)


def _columns_of(way: Sequence[str]) -> str:
    """The columns that lead from a table to the person; what they refer to is told elsewhere."""
    return ", ".join(step.partition(" → ")[0] for step in way)


def dataset_release_summary(found: TablesRelease) -> Page:
    """What is said of a released dataset first."""
    share = found.events_kept / found.events if found.events else None
    linked = found.promise == "linkable"
    return Page(
        title="A released dataset",
        subtitle=f"{found.dataset}: {counted(len(found.tables), 'table')}, {found.promise}",
        verdict=f"Whoever knows own columns and {rows_known(found.m)} of a person is left with at "
        f"least {counted(found.k or 0, 'person')}."
        if linked
        else f"Every class of quasi-identifiers holds at least {counted(found.k or 0, 'person')}.",
        tone="good" if found.verified else "warn",
        facts=(
            ("persons", f"{found.persons:,}"),
            ("rows kept", percent(share)),
            ("loss of own columns", percent(found.ncp_own)),
            ("loss of other rows", percent(found.ncp_events)),
        ),
    )


def _of_table(found: TablesRelease, said: str) -> str:
    """A note as a sentence, in which the name of a table before it stays as it is."""
    name, colon, rest = said.partition(": ")
    known = colon and name in {one.name for one in found.tables}
    return sentence(f"`{name}`: {rest}" if known else said)


def dataset_release_page(found: TablesRelease) -> Page:
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
        Section("What was checked", [_of_table(found, one.say) for one in found.findings]),
        Section("Tables", grids=[tables]),
    ]
    if found.warnings:
        told = [_of_table(found, one) for one in found.warnings]
        sections.append(Section("To keep in mind", told))
    return replace(dataset_release_summary(found), sections=sections)
