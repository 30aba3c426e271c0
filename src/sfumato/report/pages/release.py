"""The page of a release: what was promised, who can be found in it, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from sfumato.errors import SfumatoError
from sfumato.hierarchy.labels import without_marks
from sfumato.release.beside import NOT_PROMISED, beside, pseudonyms_of
from sfumato.release.publish import Release
from sfumato.report import charts
from sfumato.report.disclosure import name_of
from sfumato.report.page import AT_HOME, Figure, Grid, Light, Page, Section, Tone, tempered
from sfumato.report.pages.certificate import ALIKE
from sfumato.report.pages.comparison import (
    MOST_COLUMNS,
    Compared,
    comparison_of,
    distributions,
    fates_of_columns,
)
from sfumato.report.pages.risk import (
    MOST_CELLS,
    beside_others,
    findings_grid,
    inferred_values,
    judged_release,
    least_alike,
    owned_rows,
    people_matched,
    protection,
    risk_gauges,
)
from sfumato.tables import Table
from sfumato.utility import compare
from sfumato.utility.comparison import NotPaired, measured_by_cells
from sfumato.wording import counted, percent, phrase, sentence, shortened, unit_of

PASS_ON = "Pass on the release and its certificate, which tell nothing that was hidden."
MEASURES = {
    "ncp": ("normalized certainty penalty", "precision lost, 0 to 1; 0: every cell is exact"),
    "information_loss": ("information loss", "how far cells were moved up their trees, summed"),
    "granularity": (
        "granularity",
        "detail kept as ARX counts it, 1 to 0: among all values of a tree, also those no row holds",
    ),
    "non_uniform_entropy": (
        "non-uniform entropy",
        "bits lost of all that could be, 0 to 1: common values cost less to blur than rare ones",
    ),
    "discernibility": ("discernibility", "each row pays for those it cannot be told from"),
    "weighted_discernibility_by_label": (
        "weighted discernibility, by label",
        "the same, column by column: a row pays for those that read like it",
    ),
    "average_class_size": ("average class size", "rows that look alike, on average"),
    "published_columns": ("published columns", "columns that are shown as they are"),
    "weight": ("weight", "how much the published columns matter, summed"),
}
"""Names and meanings of measures."""
OF_FIRST = ("discernibility", "average_class_size")
"""Measures that are those of the first of several sets of columns."""


def release_summary(found: Release) -> Page:
    """What is said of a release first; nothing is measured again."""
    broken = [finding for finding in found.findings if finding.broken]
    tone: Tone = "good"
    checks: list[tuple[Literal["✓", "!"], str]] = []
    if not found.verified:
        tone, verdict = "warn", "Not verified yet: the figures are those the method foresees."
    elif broken:
        tone = "bad"
        said = shortened("; ".join(finding.say for finding in broken), _lists(found))
        verdict = f"Do not publish it: {said}."
    elif undecided := found.details.get("undecided"):
        tone, which = "warn", phrase([f"`{name}`" for name in undecided])
        verdict = f"Not decided yet: whether {which} may be published. Nothing is written before."
    elif unchecked := [what for finding in found.findings for what in finding.unchecked]:
        tone = "warn"
        verdict = (
            "Nothing was found that breaks a promise, and not all of them were checked again: "
            f"{phrase(unchecked, len(unchecked))}."
        )
    elif found.findings:
        verdict, checks = "The release keeps its promises.", _checks(found)
    else:
        tone, verdict = "warn", "Nothing was promised of it."
    cost = found.utility.get("ncp")
    facts = [
        (f"{unit_of('row', 2)} published", f"{found.rows:,}"),
        (f"{unit_of('row', 2)} left out", f"{found.suppressed_rows:,}"),
        ("cells starred", f"{found.suppressed_cells:,}"),
        (ALIKE, least_alike(found)),
    ]
    people = found.details.get("persons")
    if people:
        lost = people.get("left_out")  # in parts only counted once written
        who = unit_of("person", 2)
        facts[2:2] = [
            (f"{who} published", "–" if lost is None else f"{people['persons'] - lost:,}"),
            (f"{who} left out", "–" if lost is None else f"{lost:,}"),
        ]
    if isinstance(cost, float):
        facts.append(("precision lost", percent(cost)))
    return Page(
        title=_title(found),
        subtitle=f"Method {found.method} · {_demand(found)}",
        verdict=verdict,
        tone=tone,
        checks=checks,
        beside=[sentence(w) for w in found.warnings if w.startswith(NOT_PROMISED)],
        facts=facts,
    )


def _checks(found: Release) -> list[tuple[Literal["✓", "!"], str]]:
    """What was found of each promise, model by model; a missing signature promises nothing."""
    lists, checks = _lists(found), list[tuple[Literal["✓", "!"], str]]()
    for finding in found.findings:
        said = [str(one.say) for one in finding.measured.get("checks", ())]
        if "; ".join(said) != finding.say:  # something is said of all of them
            said = [finding.say]
        mark: Literal["✓", "!"] = "✓" if finding.measured.get("signed", True) else "!"
        short = [shortened(one, lists) for one in said]
        checks += [(mark, one if one[1:2] == "-" else one[:1].upper() + one[1:]) for one in short]
    return checks


def _lists(found: Release) -> list[Sequence[str]]:
    """Names that findings list: columns others may know, and those that were left out."""
    sets = found.qi or found.asked.get("qi")
    dropped = [n for n, action in found.column_actions.items() if action in ("dropped", "left out")]
    return [*(sets or ()), dropped]


def _title(found: Release) -> str:
    if found.source is not None:
        return f"Release of {name_of(found.source.name)}"
    described = found.certificate.body.get("input") if found.certificate is not None else None
    return f"Release of {described['name']}" if isinstance(described, Mapping) else "Release"


def _demand(found: Release) -> str:
    """What was asked, as far as it is a number or the name of a measure."""
    said = [
        f"{name} = {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"
        for name, value in found.asked.items()
        if (isinstance(value, (int, float)) and not isinstance(value, bool)) or name == "measure"
    ]
    return "asked: " + ", ".join(said) if said else "as asked"


def release_page(
    found: Release,
    original: Table | None = None,
    sensitive: Sequence[str] | None = None,
    person: str | None = None,
) -> Page:
    """The page of a release, measured again before and after.

    `original` is the table it was made of, where the release was read from its certificate and
    does not know it; `sensitive` are the columns worth hiding, and `person` the column that says
    whose rows they are, where the request did not say.
    """
    unmeasured: list[str] = []
    altered = any(one.check == "fingerprint" and not one.holds for one in found.findings)
    if altered:  # what was known of the file that was written is not said of another one
        found = replace(found, k=None, utility={}, details={}, column_actions={}, mapping=None)
    elif original is not None and not found.utility:
        measured, unmeasured = _measured(found, original)
        found = replace(found, utility=measured)
    page = release_summary(found)
    sections = []
    lights: list[Light] = []
    cost = None
    with comparison_of(found, original) as compared:
        if compared is not None and altered:
            published = (f"{unit_of('row', 2)} published", f"{compared.after.rows:,}")
            page = replace(page, facts=[published, (ALIKE, least_alike(found))])
        if compared is not None:
            person = found.asked.get("person") or person
            owned = None if altered else owned_rows(found, compared, person)
            judged = judged_release(found, compared, person, owned)
            lights = [judged.light, inferred_values(found, compared, sensitive, person, owned)]
            lights[0] = beside_others(lights[0], found, compared.after, sensitive)
            if lights[0].tone == "good" and any(one.unchecked for one in found.findings):
                said = f"{lights[0].answer} Not all of it was counted again."
                lights[0] = replace(lights[0], tone="warn", answer=said)
            last, told = judged.last, judged.told
            page = replace(
                page, facts=[(n, judged.alike if n == ALIKE else v) for n, v in page.facts]
            )
            tone = tempered(page.tone, last.prosecutor, last.marketer)
            if lights[0].tone == "warn" and tone == "good":
                tone = "warn"
            if tone == "good" and lights[1].tone not in (None, "good"):
                tone = "warn"
            gauges = risk_gauges(judged.risk) if told else ()
            if people_matched(
                found
            ):  # they look people up in a table that was given, not in this one
                gauges = (*gauges[:1], *gauges[2:])
            page = replace(page, gauges=gauges, tone=tone)
            page = replace(page, beside=_beside(page.beside, found, compared.after))
            protects = protection(found, compared, judged, person, drawn=bool(gauges))
            sections = [protects, fates_of_columns(compared), *distributions(compared)]
            cost = None if altered else _paid(found, compared)
    sections += [*_cost(found, unmeasured), *_why(found), _record(found)]
    shown = [section for section in sections if section is not None]
    knows = found.source is not None or original is not None
    paid = Light("What it cost", None, "Not known: the file is not the one that was written.")
    page = replace(page, lights=[*lights, paid if altered else cost or _paid(found)])
    return replace(page, sections=shown, at_home=f"{AT_HOME} {PASS_ON}" if knows else "")


def _measured(found: Release, original: Table) -> tuple[dict[str, Any], list[str]]:
    """What a release cost, of which only its certificate is known, and what is not said of that.

    Rows are paired once more; where they cannot be, measures that look at cells alone remain.
    """
    if found.method in ("mask", "safe-harbor") or not found.qi or found.output is None:
        return {}, []
    if why := _not_measured(found, original):
        return {}, [f"{ELSEWHERE} {why}"]
    names, weights = without_marks(found.qi[0]), found.asked.get("weights")
    try:
        cost = compare(found.output, original, qi=names, weights=weights)
    except NotPaired as error:
        words = f"Measures that hold each row against itself are left out. {sentence(error.what)}"
        try:
            told = measured_by_cells(found.output, original, qi=names, weights=weights)
        except SfumatoError as worse:
            return {}, [f"{ELSEWHERE} {sentence(error.what)} {sentence(worse.what)}"]
        return {"ncp": told.pop("certainty_penalty"), **told}, [f"{words} {PAIRED}"]
    except SfumatoError as error:
        return {}, [f"{ELSEWHERE} It cannot be measured again: {sentence(error.what)}"]
    told = {"ncp": cost.certainty_penalty, "columns": cost.columns}
    # how high the trees were is not said
    same = [n for n in MEASURES if hasattr(cost, n) and n != "information_loss"]
    return told | {name: getattr(cost, name) for name in same}, []


ELSEWHERE = "What it cost is in the answer that whoever made it got."
PAIRED = "If a published column tells all rows apart, `sfumato utility --row-key` pairs them by it."


def _not_measured(found: Release, original: Table) -> str:
    """Why what a release cost is not measured for its page."""
    if len(found.qi) > 1:
        return "With several sets of columns it is measured by `sfumato utility`, not here."
    if found.asked.get("hierarchies") is not None:
        return (
            "It cannot be measured by the certificate, which does not hold the trees that were "
            "given: `sfumato utility` takes them (--hierarchies)."
        )
    if original.rows * len(original.columns) > MOST_CELLS:
        return "The table is too large to be measured here: `sfumato utility` does it."
    return ""


def _beside(said: Sequence[str], found: Release, after: Table) -> list[str]:
    """What is not promised; also of whoever knows a column that counts as worth hiding."""
    sets = found.qi or found.asked.get("qi")
    if not found.asked.get("sensitive") or not sets or after.rows * len(after.columns) > MOST_CELLS:
        return [*said]
    hidden = [name for name, action in found.column_actions.items() if "pseudonym" in action]
    hidden += pseudonyms_of(found.asked)
    elsewhere = [name for one in sets[1:] for name in one if name not in sets[0]]
    known = [name for name in sets[0] if name in after.columns]
    told = beside(after, known, [*hidden, *elsewhere], several=len(sets) > 1)
    if told is None:
        return [*said]
    sensitive = {*found.asked["sensitive"]} & {*told.all_columns}
    told = replace(told, worth_hiding=bool(sensitive))
    if told.say_of_its_own is not None:  # it names also those of which something was said before
        said = [one for one in said if " own in most rows, and whoever knows " not in one]
    if told.say is not None and len(sets) == 1:  # it counts at least those who were counted before
        said = [one for one in said if " alone for whoever knows " not in one]
    new = [sentence(one) for one in (told.say, told.say_of_its_own) if one is not None]
    return [*said, *(one for one in new if one not in said)]


def _paid(found: Release, compared: Compared | None = None) -> Light:
    lost = found.utility.get("ncp")
    whole = found.rows + found.suppressed_rows
    said = [f"{percent(lost)} of the precision of what others may know"] if lost is not None else []
    if found.suppressed_rows:
        said.append(f"{found.suppressed_rows:,} of {whole:,} {unit_of('row', 2)} left out")
    coarser = _coarsened(found, compared)
    said += coarser
    gone = [n for n, action in found.column_actions.items() if action in ("dropped", "left out")]
    if gone:
        said.append(f"{len(gone)} of {len(found.column_actions)} columns left out")
    if (stars := found.suppressed_cells) and lost is None:
        said.append(f"{counted(stars, 'cell')} starred")
    left = found.suppressed_rows / max(1, whole)
    most = 2 * len(gone) > len(found.column_actions)
    tone: Tone = "warn" if coarser or most or left > 0.05 or (lost or 0) > 0.3 else "good"
    if left > 0.2 or (lost or 0) > 0.6:
        tone = "bad"
    answer = sentence(phrase(said)) if said else "Nothing."
    if changed := phrase([f"`{name}`" for name in found.changed_before]):
        answer += f" What rounding and the like took from {changed} before is not in it."
        tone = tone if tone == "bad" else "warn"
    if (
        lost is None and not coarser and found.source is None
    ):  # only whoever made it has measured that
        blurred = sum(action == "recoded" for action in found.column_actions.values())
        if blurred:
            unknown = f"What {counted(blurred, 'changed column')} lost in precision is not known."
            answer = f"{answer} {unknown}" if said else unknown
            tone = tone if tone == "bad" else "warn"
    return Light("What it cost", tone, answer)


def _coarsened(found: Release, compared: Compared | None) -> list[str]:
    """What Safe Harbor left in a coarser form, in words: no measure says what that cost."""
    if found.method != "safe-harbor":
        return []
    same = ("kept", "dropped", "left out")
    names = [n for n, action in found.column_actions.items() if not action.startswith(same)]
    if compared is None:
        return [f"the detail of {counted(len(names), 'column')}"] if names else []
    kept = [compared.fate(name).get("as it was", 0.0) for name in names]
    every, some = kept.count(0.0), sum(0 < share < 1 for share in kept)
    return [
        f"the detail of {counted(number, 'column')} in {where}"
        for number, where in ((every, "every row"), (some, "some rows"))
        if number
    ]


def _cost(found: Release, unmeasured: Sequence[str] = ()) -> list[Section]:
    """Utility figures, and the precision that each column lost."""
    of_first = ", by the first set of columns" if len(found.qi) > 1 else ""
    numbers = [
        (named, _number(value), meaning + of_first * (name in OF_FIRST))
        for name, value in found.utility.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        for named, meaning in [MEASURES.get(name, (name.replace("_", " "), ""))]
    ]
    lost = release_picture(found)
    if not numbers and lost is None and not unmeasured:
        return []
    grids = [Grid(("measure", "value", "what it says"), numbers, frozenset({1}))] if numbers else []
    return [Section("Utility", unmeasured, figures=[] if lost is None else [lost], grids=grids)]


def release_picture(found: Release) -> Figure | None:
    """Precision lost by column, where the method says so."""
    columns = found.utility.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        return None
    lost = {str(name): float(share) for name, share in columns.items()}
    lost = dict(sorted(lost.items(), key=lambda item: -item[1])[:MOST_COLUMNS])
    return Figure(
        "Precision lost by column",
        "Normalized certainty penalty: 0% where every cell is exact, 100% where it says nothing "
        "any more.",
        charts.shares("Precision lost by column", lost, what="precision lost"),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1e4 else f"{value:,.4g}"


def _why(found: Release) -> list[Section]:
    """Why columns were left out, where the method says so."""
    why = found.details.get("why")
    if not isinstance(why, Mapping) or not why:
        return []
    rows = [(str(name), _reason(str(name), others)) for name, others in why.items()]
    return [Section("Why columns were left out", grids=[Grid(("column", "why"), rows)])]


def _reason(name: str, why: str | Sequence[str]) -> str:
    """Why a column was left out: what was asked, or the columns that it would identify with."""
    if isinstance(why, str):
        return why
    others = [str(other) for other in why if other != name]
    return (
        f"would break the promise with {phrase(others)}"
        if others
        else "would break the promise by itself"
    )


MOST_DROPPED = 12
"""Columns that were left out, of which each has a line of its own."""
STOPPED = {None: "nothing: it ran to its end", "time": "a time limit, or by hand"}


def _record(found: Release) -> Section:
    """Checks, what happened to columns, and the certificate."""
    grids = []
    if found.findings:
        grids.append(findings_grid(found.findings))
    if found.column_actions:
        actions = list(found.column_actions.items())
        gone = [name for name, action in actions if action == "dropped"]
        if len(gone) > MOST_DROPPED and any(f.check == "without-columns" for f in found.findings):
            actions = [(name, action) for name, action in actions if action != "dropped"]
            actions.append((f"{len(gone):,} others, named above", "dropped"))
        grids.append(Grid(("column", "what happened"), actions))
    body = found.certificate.body if found.certificate is not None else {}
    facts = []
    for side in ("input", "output"):
        described = body.get(side)
        if isinstance(described, Mapping):
            rows = f" · {described['rows']:,} rows" if "rows" in described else ""
            facts.append((side, f"{described['name']}{rows}"))
    if "output" in body:
        facts.append(("output fingerprint", str(body["output"]["fingerprint"])))
    facts += [
        ("method", found.method),
        ("seed", "–" if found.seed is None else str(found.seed)),
        ("stopped by", STOPPED.get(found.stopped_by) or str(found.stopped_by)),
    ]
    if found.lower_bound is not None:
        least = "no recoding with these trees loses less than"
        if "cost" in found.details:
            least = "no release that only stars cells costs less than"
        facts.append((least, f"{found.lower_bound:,.6g}"))
    grids.append(Grid(("certificate", "value"), facts))
    return Section("For the record", [sentence(w) for w in found.warnings], grids=grids)
