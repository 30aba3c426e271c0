"""Pages of what an attacker can do: risk, measures, checks of a release, and who is found in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.kernels import class_ids, group_distinct, group_min
from sfumato.privacy.check import Risk, risk_of_classes, risk_of_persons
from sfumato.quasi.measure import Measures
from sfumato.release.beside import (
    NEARLY_ALL,
    Linked,
    Owned,
    at_hand,
    largest_shares,
    linked,
    pseudonyms_of,
    say_shared,
)
from sfumato.release.promise import Finding
from sfumato.release.publish import Release
from sfumato.release.verify import Verification
from sfumato.report import charts
from sfumato.report.disclosure import is_number
from sfumato.report.drawing import gauge
from sfumato.report.page import AT_HOME, Figure, Grid, Light, Page, Section, Tone, tempered
from sfumato.report.pages.comparison import Compared
from sfumato.risks import Alike, alike
from sfumato.tables import Table
from sfumato.tables.parsing import guessed_kind
from sfumato.wording import (
    among,
    at_most,
    counted,
    counting,
    in_units,
    noun,
    percent,
    phrase,
    sentence,
    unit_of,
)


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


def verification_summary(found: Verification) -> Page:
    """Whether a release keeps its promises."""
    outcomes = [_outcome(finding) for finding in found.findings]
    failed = [finding.say for finding in found.findings if not finding.holds]
    checks, broken = len(outcomes) - outcomes.count("none"), outcomes.count("broken")
    return Page(
        title="Verification",
        subtitle="Measured again, as it lies there",
        verdict=" ".join([found.verdict, *([sentence("; ".join(failed))] if failed else ())]),
        tone="good" if found.holds else "bad",
        facts=(("checks", f"{checks:,}"), ("broken", f"{broken:,}")),
        at_home=AT_HOME if found.stays_at_home() else "",
    )


def verification_page(found: Verification) -> Page:
    sections = [Section("What was checked", grids=[findings_grid(found.findings)])]
    said = [] if found.made is None else [f"The certificate says: {found.made}."]
    if told := [*found.unpromised, *said]:
        sections.append(Section("To keep in mind", told))
    return replace(verification_summary(found), sections=sections)


def findings_grid(findings: Sequence[Finding]) -> Grid:
    """Checks with their outcome."""
    rows = [(f.check.replace("-", " "), _outcome(f), f.say) for f in findings]
    return Grid(("check", "outcome", "measured"), rows)


def _outcome(finding: Finding) -> str:
    """Of a check; nothing holds that was not checked, or is not there."""
    if not finding.holds:
        return "broken" if finding.broken else "not checked"
    if finding.measured.get("signed", True) is False:
        return "none"
    return "not all checked" if finding.unchecked else "holds"


ATTACKERS = (
    "The gauges show three attackers. The prosecutor knows that somebody is in the table, the "
    "journalist does not; both are judged by the row that is easiest to find. The marketer matches "
    "everybody, and is judged by the share of right matches."
)


OF_POPULATION = (
    "The gauges show two attackers. The prosecutor knows that somebody is in the table, and is "
    "judged by the row that is easiest to find. The marketer matches everybody, and is judged by "
    "the share of right matches. Whoever does not know who is in the table, and looks people up "
    "in the table of people that was given, finds at least {:,} for every row: a match is right "
    "with a chance of at most {}."
)


def least_alike(found: Release) -> str:
    """How many look alike at least: persons, where they were counted."""
    if found.k is None and (promised := found.details.get("persons_promised")):
        return in_units(f"≥ {counted(promised, 'person')}")
    if found.k is None:
        return "–"
    return in_units(counted(found.k, "person") if found.details.get("persons") else f"{found.k:,}")


@dataclass(frozen=True, eq=False)
class Judged:
    """Who can be found in a release: persons where they can be counted, else rows."""

    risk: Risk
    """Before, and after in it."""
    told: bool
    """Whether it is that of those who are spoken of; else only the highest is known, in `last`."""
    last: Risk
    light: Light
    alike: str
    least: int | None
    """Persons who could have any row, at least."""
    linked: bool


def judged_release(
    found: Release, compared: Compared, person: str | None, owned: Owned | None
) -> Judged:
    """Who can be found: by whoever knows one row, and by pseudonyms that link rows."""
    after, details = compared.sizes["after"], found.details
    risk, told, alone = _risk(compared), person is None, after.alone
    promised = details.get("persons_promised")
    known: Sequence[Risk] = details.get("risk", ()) if details.get("persons") else ()
    if owned is not None:
        known, alone = _risks_of(owned, compared)
    if known:
        risk, told = worst_risk(known), True  # the release itself does not say who is who
    if "linkable" in details:
        told = False  # it is told of single rows, and histories are promised
    last = risk.after or risk
    least = (found.k if person in (None, found.asked.get("person")) else None) or promised
    if owned is not None and last.prosecutor:
        least = round(1 / last.prosecutor)
    elif not told and least:  # not told; at its highest it is that of the smallest class
        last = replace(last, persons=last.rows, prosecutor=1 / least, marketer=None)
    several = "linkable" not in details and not (told and last.rows == last.persons)
    light, shown = _found(last, alone, person, several), least_alike(found)
    if person and least and not promised:
        shown = in_units(counted(least, "person"))
    elif not least and after.k:
        shown = f"{after.k:,}{' rows' if person else ''}"
    whose = _linked(found, compared)
    if whose is not None:
        told, light = False, _found_linked(whose)
        last = replace(last, prosecutor=1 / (1 if whose.alone else whose.least), marketer=None)
        shown = f"{shown if person else f'{after.k:,} rows'}, {counted(whose.least, 'pseudonym')}"
    return Judged(risk, told, last, light, shown, least, whose is not None)


def owned_rows(found: Release, compared: Compared, person: str | None) -> Owned | None:
    """Rows of a release and whose they are, where the table that it was made of tells it.

    Columns of a mask are as they were; rows that Safe Harbor coarsens are where they were. Of
    others it was counted when they were made.
    """
    before, after = compared.before, compared.after
    if person is None or person not in before.columns or not (at_hand(before) and at_hand(after)):
        return None
    if found.method == "mask":
        rows = before.codes(list(dict.fromkeys((*after.columns, person))))
    elif found.method == "safe-harbor" and before.rows == after.rows:
        rows = after.codes()
    else:
        return None
    return Owned(rows, before.codes([person]).arrays[0].astype(np.int64))


def _risks_of(owned: Owned, compared: Compared) -> tuple[list[Risk], int]:
    """The risks of persons by each set, and how many have a row that is nobody else's."""
    who = owned.owners.astype(np.uint32)
    number = int(who.max(initial=0)) + 1
    smallest = np.full(number, np.iinfo(np.uint32).max, np.int64)
    told = []
    for one in compared.sets:
        both = []
        now = [name for name in one if name in compared.after.columns]
        for rows, names in (
            (replace(owned, entries=compared.before.codes(one)), one),
            (owned, now),
        ):
            ids, classes = rows.classes(names)
            sizes = group_distinct(ids, classes, who, number)
            least = group_min(who, number, sizes[ids].astype(np.uint32))
            ids = ids.astype(np.int64)
            both.append(risk_of_persons(ids, owned.owners, sizes=sizes, rows=len(who)))
        smallest = np.minimum(smallest, least)
        told.append(replace(both[0], after=both[1]))
    return told, int((smallest == 1).sum())


def _found(after: Risk, alone: int, person: str | None, several: bool) -> Light:
    """Who can be found in the release, by the columns that others may know.

    Where persons may have `several` rows, one may have most of those that look alike: whoever takes
    any of them for that person's is right more often than once for each person.
    """
    asked, one = "Who can be found", "row" if after.persons is None else "person"
    if after.prosecutor is None or not after.rows:
        return Light(asked, "good", "Nobody: there are no rows.")
    if after.persons is not None and after.prosecutor == 1 and alone:
        found = among(alone, after.persons, unit_of(one), many=unit_of(one, 2), does="have")
        return Light(
            asked, "bad",
            f"{found} a row that is nobody else’s: whoever knows their published columns finds "
            "them for certain.",
        )  # fmt: skip
    if after.persons is None and alone:
        found = among(alone, after.rows, unit_of(one), many=unit_of(one, 2), does="stand alone")
        return Light(
            asked, "bad",
            f"{found}: whoever knows their published columns finds them for certain.",
        )  # fmt: skip
    alike, sure = round(1 / after.prosecutor), at_most(after.prosecutor)
    if person and after.persons is None:
        said = f"At least {alike:,} rows look alike. How many persons have them was not counted."
        said = in_units(said)
        return Light(asked, tempered("warn", after.prosecutor), said)
    said = f"At least {alike:,} {unit_of(one, 2)} look alike: "
    if person and several:
        said += "a row could be that of any of them, and one of them may have most of these rows."
    else:
        said += f"a match is right with a chance of at most {sure}."
    return Light(asked, tempered("bad" if alike == 1 else "good", after.prosecutor), said)


SOME = 0.05
"""Share of rows that other columns single out, from which on nobody is told that all is well."""


def beside_others(
    light: Light, found: Release, after: Table, sensitive: Sequence[str] | None
) -> Light:
    """A light that also says who stands alone by columns that others were not said to know.

    Columns worth hiding are not among them: what is inferred about these is said apart.
    """
    sets = [[name for name in one if name in after.columns] for one in found.qi]
    worth = {*(found.asked.get("sensitive") or sensitive or ()), *_pseudonyms(found)}
    known = {name for one in sets for name in one}
    others = [name for name in after.columns if name not in known and name not in worth]
    if light.tone != "good" or not sets or not others:
        return light
    if not at_hand(after) or after.rows * len(after.columns) > MOST_CELLS:
        return light
    alone = max(after.class_sizes([*one, *others]).unique_rows for one in sets)
    if not alone:
        return light
    by = counted(len(others), "other published column")
    told = among(alone, after.rows, unit_of("row"), many=unit_of("row", 2), does="stand alone")
    said = f"{light.answer} For whoever also knows {by}, {told}."
    return replace(light, tone="warn" if alone > SOME * after.rows else light.tone, answer=said)


def _linked(found: Release, compared: Compared) -> Linked | None:
    """Whom pseudonyms give away that say which rows belong together; the worst of several sets.

    Where whole histories are promised, what they give away is part of the promise.
    """
    after = compared.after
    if found.asked.get("linkable"):
        return None
    known = [[n for n in one if n in after.columns] for one in compared.sets]
    each = [linked(after, one, name) for name in _pseudonyms(found) for one in known]
    whose = [one for one in each if one is not None]
    if not whose:
        return None
    worst = max(whose, key=lambda one: one.alone)
    return replace(worst, least=min(one.least for one in whose))


def _pseudonyms(found: Release) -> list[str]:
    """Columns that hold pseudonyms."""
    done = [name for name, action in found.column_actions.items() if "pseudonym" in action]
    return list(dict.fromkeys((*done, *pseudonyms_of(found.asked))))


def _found_linked(whose: Linked) -> Light:
    """Who can be found where pseudonyms say which rows belong together."""
    said = f"Rows with the same pseudonym of `{whose.column}` belong together."
    if whose.alone:
        alone = among(whose.alone, whose.persons, "pseudonym", does="are", share=True)
        said += (
            f" {alone} alone with all of their published rows: whoever knows those finds them for "
            "certain."
        )
    least = counted(whose.least, "pseudonym")
    said += (
        f" The rows of a class have at least {least}: whoever picks one of these for a person "
        f"among them is right with a chance of at most {at_most(1 / whose.least)}."
    )
    tone: Tone = "bad" if whose.alone or whose.least == 1 else "good"
    return Light("Who can be found", tempered(tone, 1 / whose.least), said)


MOST_CELLS = 40_000_000
"""Rows times columns among which shared sensitive values are counted."""


FIGURES = 1_000
"""Different texts of a column that are looked at for numbers and dates."""


@dataclass(frozen=True)
class Inference:
    """What a release tells about a sensitive column to whoever finds a class, or knows a value."""

    column: str
    shared: int
    """Rows of classes in which all who have a value have the same one."""
    single: int
    """Rows with a number, a date or a text of their own, that no other row holds; texts count where
    most rows have their own, or where most are numbers or dates."""
    rows: int
    nearly: int = 0
    """Rows of classes in which nearly all who have a value, and not all, have the same one."""
    lacking: int = 0
    """Rows without a value among those of `shared` and `nearly`."""
    empty: int = 0
    """Rows of classes in which nobody has a value."""


def inferences(after: Table, qi: Sequence[str], sensitive: Sequence[str]) -> list[Inference] | None:
    """What can be inferred about sensitive columns; None where that takes too long to count.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = sf.table(pa.table({"age": [1, 1, 2, 2], "ill": ["a", "a", "a", "b"]}))
    >>> inferences(people, ["age"], ["ill"])
    [Inference(column='ill', shared=2, single=0, rows=4, nearly=0, lacking=0, empty=0)]
    """
    known = [name for name in qi if name in after.columns]
    if after.rows * (len(known) + 1) > MOST_CELLS:
        return None
    hidden = [name for name in sensitive if name in after.columns and name not in known]
    # Rows that are in memory are classed once; of others each column has classes of its own.
    together = after.engine.capabilities.coded
    kinds = {column.name: column.kind for column in after.schema}
    found = []
    for names in [hidden] if together else [[name] for name in hidden]:
        entries = after.codes([*known, *names])
        counts = np.ones(entries.entries, np.int64) if entries.counts is None else entries.counts
        own = entries.select(tuple(known))
        ids, number = class_ids(
            own.arrays, own.cardinalities, entries=entries.entries, ordered=False
        )
        for name in names:
            values, codes = entries.values_of(name), entries.column(name)
            single = 0
            held = np.bincount(codes, weights=counts, minlength=len(values))
            alone = int((held[np.asarray(values.is_valid())] == 1).sum())
            # few know a rare word of somebody; a date, an amount, or what all have their own of
            exact = is_number(values.type) or pa.types.is_temporal(values.type)
            exact = exact or (kinds[name] == "text" and _holds_figures(values))
            if exact or 2 * alone > counts.sum():
                single = alone
            found.append(_in_classes(name, ids, number, codes, counts, values, single))
    return found


def _holds_figures(values: pa.Array) -> bool:
    """Whether most texts of a column are numbers or dates, beside others such as a code."""
    there = values.drop_null()
    return guessed_kind(there[:: max(1, len(there) // FIGURES)].to_pylist()) is not None


def _in_classes(
    name: str, ids: Any, number: int, codes: Any, counts: Any, values: pa.Array, single: int
) -> Inference:
    """What classes tell about a column, of which missing values protect nobody."""
    there = counts * np.asarray(values.is_valid())[codes]
    known, most = largest_shares(ids, number, codes, there)
    size = np.bincount(ids, weights=counts, minlength=number).astype(np.int64)
    all_same, empty = (most == known) & (known > 0), known == 0
    nearly = (most >= NEARLY_ALL * known) & (most < known)
    return Inference(
        name, int(size[all_same].sum()), single, int(size.sum()), int(size[nearly].sum()),
        int((size - known)[all_same | nearly].sum()), int(size[empty].sum()),
    )  # fmt: skip


def inferred_values(
    found: Release,
    compared: Compared,
    sensitive: Sequence[str] | None,
    person: str | None,
    owned: Owned | None,
) -> Light:
    """What can be inferred about people who are not found."""
    asked, after = "What can be inferred about them", compared.after
    named = [str(name) for name in found.asked.get("sensitive") or sensitive or ()]
    worth = [name for name in named if name in after.columns]
    sets = found.qi or found.asked.get("qi") or ()
    by_all_else = found.method == "mask" or not sets
    if by_all_else:  # they may know all else that is published
        sets = (tuple(name for name in after.columns if name not in worth),)
    hidden = [name for name in worth if not any(name in one for one in sets)]
    if not hidden:
        return Light(asked, None, "Not counted: no published column was named as worth hiding.")
    by_set = [inferences(after, one, hidden) for one in sets]
    if any(found is None for found in by_set):
        return Light(asked, None, "Not counted: the table is too large for that.")
    # Of several sets, for each column the one that tells most about it.
    by_column = zip(*(found for found in by_set if found is not None), strict=False)
    inferred = [
        replace(
            same[0],
            shared=max(one.shared for one in same),
            nearly=max(one.nearly for one in same),
            lacking=max(one.lacking for one in same),
            empty=max(one.empty for one in same),
        )
        for same in by_column
    ]
    told = [
        (one.column, (max(one.shared, one.single) / max(1, one.rows), one.nearly / one.rows), words)
        for one in inferred
        for words in _exposure(one)
    ]
    known = [[name for name in one if name in after.columns] for one in sets]
    told += _sharing(found, after, known, hidden, person, owned)
    if not told:
        which = phrase([f"`{name}`" for name in hidden])
        return Light(
            asked, "good", f"Nobody’s {which} for certain: {_differs(inferred, by_all_else)}."
        )
    worst = max(share for _, (share, _), _ in told)
    shared = tuple(one.column for one in inferred if one.shared)
    single = tuple(one.column for one in inferred if one.single)
    tone: Tone = "bad" if worst > 0.2 else "warn"
    return Light(asked, tone, *_worst_first(told), shared=shared, single=single)


MOST_TOLD = 3
"""Columns of which all is said at once, if that is not much."""
MOST_SENTENCES = 4
"""What is said of them at once."""


Told = list[tuple[str, tuple[float, float], str]]
"""By column the shares for whom it is certain, and nearly, and a sentence."""


def _worst_first(told: Told) -> tuple[str, tuple[str, ...]]:
    """What is said of columns: of many the worst, and of the others once that is asked for.

    Examples
    --------
    >>> _worst_first([(name, (name == "c", 0.0), f"{name}.") for name in "abcd"])
    ('`c` is the worst of 4 columns. c. The other 3 are below.', ('a.', 'b.', 'd.'))
    """
    names = list(dict.fromkeys(name for name, _, _ in told if name))
    if len(names) < 2 or (len(names) <= MOST_TOLD and len(told) <= MOST_SENTENCES):
        return " ".join(said for _, _, said in told), ()
    worst = max(names, key=lambda one: max(share for name, share, _ in told if name == one))
    answer = [said for name, _, said in told if name in (worst, "")]
    first = f"`{worst}` is the {'worst' if len(names) > 2 else 'worse'} of {len(names)} columns."
    rest = f"The other {len(names) - 1} are below." if len(names) > 2 else "The other is below."
    return " ".join((first, *answer, rest)), tuple(
        said for one in names if one != worst for name, _, said in told if name == one
    )


def _sharing(
    found: Release,
    after: Table,
    sets: Sequence[Sequence[str]],
    hidden: Sequence[str],
    person: str | None,
    owned: Owned | None,
) -> Told:
    """What persons of a class have in common, or pseudonyms: by column shares, and sentences."""
    counts: list[tuple[str, str, int, int, int]] = []
    lacking = False
    if owned is not None:
        shared = owned.sharing(sets, hidden)
        counts += [("", name, *shared[name], owned.persons) for name in hidden]
    elif person is not None and not found.asked.get("linkable"):
        told = found.details.get("persons") or {}
        by_all, nearly = (told.get(f"held_by_{who}") or {} for who in ("all", "nearly_all"))
        whole = max(1, told.get("persons", 0) - (told.get("left_out") or 0))
        there = [name for name in hidden if name in by_all and name in nearly]
        counts += [("", name, by_all[name], nearly[name], whole) for name in there]
        lacking = len(there) < len(hidden)
    for one in _pseudonyms(found):
        if one not in after.columns or after.class_sizes([one]).classes == after.rows:
            continue
        if not at_hand(after):
            lacking = True
            continue
        rows = after.codes(list(dict.fromkeys((*(n for own in sets for n in own), *hidden, one))))
        known = np.asarray(rows.values_of(one).is_valid())[rows.column(one)]
        rows = rows.take(np.flatnonzero(known))  # rows without a pseudonym are nobody's
        # Of somebody of whom one row may be known, it tells the class.
        single = bool(found.asked.get("linkable")) and str(found.asked.get("m")) == "1"
        linking = Owned(rows, rows.column(one).astype(np.int64), linked=not single)
        by, shared = "" if single else one, linking.sharing(sets, hidden)
        counts += [(by, name, *shared[name], linking.persons) for name in hidden]
    told = [
        (name, (by_all / max(1, whole), nearly / max(1, whole)), sentence(in_units(said)))
        for by, name, by_all, nearly, whole in counts
        for said in say_shared(name, by_all, nearly, whole, by)
    ]
    if lacking:
        told.append(("", (0.0, 0.0), in_units(ROWS_ONLY)))
    return told


ROWS_ONLY = (
    "Rows were counted: what persons who look alike have in common in some row is not known."
)


def _differs(inferred: Sequence[Inference], by_all_else: bool) -> str:
    """Why nobody's value is known."""
    if all(one.empty == one.rows for one in inferred):
        return "it is missing in every row"
    missing = any(one.empty for one in inferred)
    alike = "it differs among those alike" + " in all other columns" * by_all_else
    return alike + ", or is missing in all of them" * missing


def _exposure(one: Inference) -> list[str]:
    """What can be inferred about one column, in sentences."""
    told, row, rows = [], unit_of("row"), unit_of("row", 2)
    aside, theirs = (
        (", missing ones aside", "theirs, if they have one") if one.lacking else ("", "theirs")
    )
    if one.shared:
        found = among(one.shared, one.rows, row, many=rows, does="are", share=True)
        told.append(
            f"{found} in classes that hold one `{one.column}` only{aside}: whoever finds the class "
            f"of somebody there knows {theirs}."
        )
    if one.nearly:
        found = among(one.nearly, one.rows, row, many=rows, does="are", share=True)
        told.append(
            f"{found} in classes of which at least {NEARLY_ALL:.0%}, and not all, hold one "
            f"`{one.column}`{aside}: whoever finds the class of somebody there guesses {theirs}, "
            "and is nearly surely right."
        )
    if one.single:
        told.append(
            f"{counted(one.single, row, many=rows, does='hold')} a value of `{one.column}` that no "
            "other has: whoever knows it finds the row."
        )
    return told


def worst_risk(risks: Sequence[Risk]) -> Risk:
    """Of the risks of several sets of columns each figure that of the set where it is highest."""
    if len(risks) == 1:
        return risks[0]
    names = ("prosecutor", "journalist", "marketer", "share_above", "journalist_share_above")
    highest: dict[str, Any] = {
        name: max((v for one in risks if (v := getattr(one, name)) is not None), default=None)
        for name in names
    }
    after = [one.after for one in risks if one.after is not None]
    return replace(risks[0], **highest, after=worst_risk(after) if after else None)


def _risk(compared: Compared) -> Risk:
    """The risks before, with those after in them: of several sets each that of the worst."""
    before, after = compared.before, compared.after
    if len(compared.sets) == 1:
        return replace(_of_set(compared.sizes["before"]), after=_of_set(compared.sizes["after"]))
    both = []
    for one in compared.sets:
        now = alike(after, [[name for name in one if name in after.columns]])
        both.append(replace(_of_set(alike(before, [one])), after=_of_set(now)))
    return worst_risk(both)


def _of_set(sizes: Alike) -> Risk:
    """The risks of the rows of one set of columns."""
    held = np.array([[size, rows // size] for size, rows in sizes.members.items()], np.int64)
    held = held.reshape(-1, 2)
    return risk_of_classes(held[:, 0], times=held[:, 1])


def people_matched(found: Release) -> int | None:
    """How many people of another table every row matches at least, where that was measured."""
    asked = found.asked.get("k_map")
    holds = found.verified and all(one.holds for one in found.findings)
    return asked if isinstance(asked, int) and holds else None


def protection(
    found: Release, compared: Compared, judged: Judged, person: str | None, *, drawn: bool
) -> Section | None:
    """How many look alike before and after; whether gauges are drawn."""
    before, after = compared.sizes["before"], compared.sizes["after"]
    if not before.total:
        return None
    asked = found.asked.get("k")
    k = int(asked) if isinstance(asked, int) and asked > 1 else 5
    by = "; or ".join(phrase(one, 6) for one in compared.sets[:MOST_SETS])
    if len(compared.sets) > MOST_SETS:
        by += f"; or one of {len(compared.sets) - MOST_SETS} more sets"
    of_persons = person is not None and person in compared.before.columns
    many = "rows" if of_persons or judged.linked else unit_of("row", 2)
    words = [
        f"Before, {before.alone:,} of {before.total:,} {many} stood alone with their {by}; "
        f"afterwards {after.alone:,} of {after.total:,} do."
    ]
    if person is not None and of_persons:
        words = [*_persons_before(judged, compared, person, by, k), *words]
    if len(compared.sets) > 1:
        words.append(OF_SETS)
    if judged.linked or found.asked.get("linkable"):
        words.append(in_units(OF_LINKED))
    elif of_persons:
        words.append(in_units(OF_PERSONS))
    if drawn:
        matched = people_matched(found)
        told = OF_POPULATION.format(matched, at_most(1 / matched)) if matched else ATTACKERS
        words.append(told)
    with counting(many):
        figures = [
            Figure(
                f"How many {many} look alike",
                f"{many.capitalize()} by the size of their class, before (pale) and after (full). "
                f"Below {k} alike: {before.below(k):,} {noun(many, before.below(k))} before, "
                f"{after.below(k):,} after.",
                charts.class_sizes(
                    f"{many.capitalize()} by the size of their class", compared.sizes, k
                ),
            ),
            Figure(
                f"How exposed {many} are",
                f"Share of {many} that carry at least a given risk: one over the number of {many} "
                "alike. The dotted line is a risk of 20%.",
                charts.risk_curve(f"Share of {many} by risk, before and after", compared.sizes),
            ),
        ]
    return Section("What it protects", words, figures)


MOST_SETS = 4
"""Sets of columns that are named in one sentence."""


OF_PERSONS = (
    "The charts count rows, of which some persons may have several: the release does not say whose "
    "they are."
)


OF_LINKED = (
    "The charts count single rows, of which some persons may have several; pseudonyms say which "
    "belong together."
)


OF_SETS = (
    "Others may know one of several sets of columns: a row counts with the set that finds it most "
    "easily, and each gauge shows the set in which the risk is highest."
)


def _persons_before(
    judged: Judged, compared: Compared, person: str, by: str, k: int
) -> Iterator[str]:
    """How many persons could be found before; and afterwards, as far as that is known."""
    then = alike(compared.before, compared.sets, person)
    one, many = unit_of("person"), unit_of("person", 2)
    alone = among(then.alone, then.total, one, many=many, does="were")
    few = among(then.below(k), then.total, one, many=many, does="had")
    yield (
        f"Before, {alone} the only one with their {by} in some row, and {few} a row that fewer "
        f"than {k} {many} could have."
    )
    if judged.least and judged.least > 1:
        yield f"Afterwards at least {judged.least:,} {many} could have any row."
