"""Pages of a table as a sample of a population, and of attacks with outside tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.populations.attack import AttackResult
from sfumato.populations.estimators import PopulationUniqueness
from sfumato.populations.survey import PopulationReport
from sfumato.report import charts
from sfumato.report.drawing import gauge
from sfumato.report.page import Figure, Grid, Page, Section, tempered
from sfumato.wording import counted, percent, phrase, rows_known, sentence, several_below

if TYPE_CHECKING:
    from sfumato.relational import TablesAttack


MOST_CURVES = 6
MODELS = {"pitman": "Pitman", "zayatz": "Zayatz", "snb": "negative binomial (SNB)"}
"""Models of uniqueness in a population, as people write them."""


def population_summary(found: PopulationReport) -> Page:
    """What is said of a table as a sample first."""
    plan = found.plan
    unique = found.unique
    by = found.unique_by
    if by == "bound":
        alone = (
            f"{_people(unique, found.universe, 'At most')} are expected to be alone with what this "
            "table says about them, if they are drawn at random from no more than "
            f"{found.whole.distinct:,.0f} values. "
        )
    else:
        about = {"estimate": "About", "counted": "At least"}[by]
        if found.whole.bound is None:
            about = "Counted:"
        said = _people(unique, found.universe, about)
        alone = f"{said} are alone with what this table says about them. "
    promise = (
        f"Blurred as planned, a row matches at least {plan.k:,} people in "
        f"{_at_least(plan.measured.at_least)}"
    )
    asked = f"{percent(1 - plan.beta)} was asked for."
    return Page(
        title="Anonymity in a population",
        subtitle=f"{found.rows:,} {found.counted} of {found.universe:,.0f} people "
        f"({percent(found.sampling_fraction)})",
        verdict=f"{alone}{promise}; {asked}",
        tone=tempered("good" if plan.holds else "bad", found.whole.unique, unique),
        facts=(
            ("people", f"{found.universe:,.0f}"),
            (f"{found.counted} alone in the table", percent(found.whole.unique)),
            ("values to keep, planned", f"{plan.distinct:,}"),
            ("columns looked at", f"{len(found.whole.columns):,}"),
            ("sets of them that tell", f"{len(found.sets):,}" + ("" if found.complete else "+")),
        ),
        gauges=(
            gauge(f"{found.counted} alone", found.whole.unique),
            gauge(f"alone of all, {_how(found)}", unique),
            gauge(f"fewer than {plan.k:,}, estimated", 1 - plan.measured.estimate),
        ),
    )


def _how(found: PopulationReport) -> str:
    """How the share of people who are alone is known."""
    if found.whole.bound is None:
        return "counted"
    return {"bound": "at most", "estimate": "estimated", "counted": "at least"}[found.unique_by]


def _at_least(share: float) -> str:
    """A share of cases, or a larger one."""
    return "every case" if share == 1 else f"{percent(share)} of the cases or more"


def _people(share: float, universe: float, about: str = "About") -> str:
    """So many of all people, as exactly as an estimate deserves."""
    if about in ("Counted:", "At least"):
        return f"{about} {share * universe:,.0f} of {universe:,.0f} people"
    if 0.999 < share < 1:
        return f"{'Up to nearly' if about == 'At most' else 'Nearly'} all of {universe:,.0f} people"
    said = percent(share).removeprefix("<")
    if 0 < share < 0.001:
        about = "By estimate, fewer than" if about == "About" else "Fewer than"
    return f"{about} {said} of {universe:,.0f} people"


def population_page(found: PopulationReport) -> Page:
    """The page of a table as a sample."""
    bound = found.whole.bound if found.unique_by == "bound" else None
    models = Section(
        "In the table and in the population",
        figures=_uniqueness(found.uniqueness, bound, found.counted),
    )
    sections = [
        *([] if found.whole.bound is None else [models]),
        *_sets(found),
        *_plan(found),
        *_curves(found),
    ]
    if found.warnings:
        sections.append(Section("To keep in mind", [sentence(w) for w in found.warnings]))
    return replace(population_summary(found), sections=sections)


def uniqueness_summary(found: PopulationUniqueness) -> Page:
    """What is said of uniqueness in a population."""
    said = (
        "No model has a solution for this sample."
        if found.estimate is None
        else f"{_people(found.estimate, found.universe)} are unique "
        f"({MODELS.get(str(found.chosen), found.chosen)})."
    )
    return Page(
        title="Uniqueness in a population",
        subtitle=f"A sample of {percent(found.sampling_fraction)}",
        verdict=said,
        tone=tempered(
            "bad" if found.estimate is None or found.estimate > 0.05 else "good",
            found.sample_unique,
        ),
        facts=(
            ("unique in the sample", percent(found.sample_unique)),
            ("in the population, estimated", percent(found.estimate)),
        ),
        gauges=(
            gauge("in the sample", found.sample_unique),
            gauge("of all, estimated", found.estimate),
        ),
    )


def uniqueness_page(found: PopulationUniqueness) -> Page:
    section = Section("By model", [sentence(note) for note in found.notes], _uniqueness(found))
    return replace(uniqueness_summary(found), sections=[section])


def _uniqueness(
    found: PopulationUniqueness, bound: float | None = None, who: str = "rows"
) -> list[Figure]:
    """The sample and what each model makes of it for the whole population.

    `bound` is what is said in their place, where that is less; `who` is counted in the sample.
    """
    sample = f"sample ({percent(found.sampling_fraction)})"
    rows: list[tuple[str, float, float | None, float | None]] = [
        (sample, found.sample_unique, None, None)
    ]
    for name, value in found.estimates.items():
        if value is not None:
            known = name == found.chosen and found.low is not None
            label = f"all people, {MODELS.get(name, name)}" + (
                " (chosen)" if name == found.chosen and bound is None else ""
            )
            rows.append((label, value, found.low if known else None, found.high if known else None))
    if bound is not None:
        rows.append(("all people, at most", bound, None, None))
    caption = (
        f"{who.capitalize()} alone in the sample, a fraction of "
        f"{percent(found.sampling_fraction)}, and the estimated share of people alone when "
        "everybody is looked at."
    )
    if len(rows) > 2:
        caption += " Each of the others is a model of what a sample says about everybody"
        caption += (
            "."
            if bound is None
            else (
                ", but for the last: more cannot be expected with as many values as there are, "
                "which the models do not know."
            )
        )
    if found.low is not None and found.confidence is not None:
        model = MODELS.get(str(found.chosen), found.chosen)
        caption += f" The bar is the {percent(found.confidence)} interval of {model}."
    figures = [
        Figure(
            "Fewer people are alone among all than in a sample"
            if found.estimate is not None and found.estimate < found.sample_unique
            else "Who is alone in the sample, and among all",
            caption,
            charts.intervals("Uniqueness in the sample and by model", rows, what="share alone"),
        )
    ]
    if len(found.by_fraction) > 2 and found.estimate is not None:
        figures.append(
            Figure(
                "The larger the population, the fewer are unique",
                "People unique in the population, had this sample been another fraction of it: at "
                "100% the table is everybody. By the rule of Dankar and others: Pitman's model up "
                "to 10%, above it the smaller of two others. The large dot is this table.",
                charts.fractions(
                    "Uniqueness by sampling fraction",
                    found.by_fraction,
                    (found.sampling_fraction, found.estimate),
                ),
            )
        )
    return figures


def _sets(found: PopulationReport) -> list[Section]:
    if not found.sets:
        return []
    everybody = found.whole.bound is None
    figures = {
        " + ".join(s.columns): s.certain if s.bound is None else max(s.bound, s.certain)
        for s in found.sets
    }
    shares = dict(sorted(figures.items(), key=lambda item: -item[1])[:12])
    what = "Share" if everybody else "Largest expected share"
    figure = Figure(
        "Column sets that make people unique"
        if everybody
        else "Column sets that can make people unique",
        f"{what} of unique people for each minimal set that reaches {percent(found.alpha)}; "
        f"{len(found.sets):,} sets in all.",
        charts.shares(
            f"{what} of unique people",
            shares,
            what="people unique" if everybody else "people unique, expected at most",
        ),
    )
    return [Section("By which columns", figures=[figure])]


def _plan(found: PopulationReport) -> list[Section]:
    plan = found.plan
    grid = Grid(
        ("column", "values now", "allowed", "kept", "what to do"),
        [
            (c.column, f"{c.domain:,}", f"{c.allowed:,}", f"{c.distinct:,}", c.action)
            for c in plan.columns
        ],
        frozenset({1, 2, 3}),
    )
    kept = {c.column: c.distinct / c.domain for c in plan.columns if c.domain}
    figure = Figure(
        "How far each column is blurred",
        "The share of its different values that a column keeps in the plan.",
        charts.shares("Values kept by column", kept, what="values kept"),
    )
    words = (
        f"{plan.distinct:,} combinations of values remain where the theorem allows "
        f"{plan.distinct_allowed:,.0f}."
    )
    return [Section("The plan", [words], [figure], [grid])]


def _curves(found: PopulationReport) -> list[Section]:
    planned = {c.column: c.distinct for c in found.plan.columns}
    figures = []
    for curve in found.curves[:MOST_CURVES]:
        if len(curve.points) < 2:
            continue
        points = [(1 - p.error, p.k, p.buckets) for p in curve.points]
        kept = planned.get(curve.column)
        chosen = None
        if kept is not None:
            gaps = [abs(p.buckets - kept) for p in curve.points]
            chosen = gaps.index(min(gaps))
        figures.append(
            Figure(
                f"Privacy and utility of {curve.column}",
                "More groups keep more of the column's variation and leave fewer people in each. "
                "The large dot is the number of groups nearest to the plan.",
                charts.trade(
                    f"Privacy against utility of {curve.column}",
                    points,
                    x="variation kept",
                    y="rows in each group, at least",
                    chosen=chosen,
                ),
            )
        )
    return [Section("Privacy against utility", figures=figures)] if figures else []


def attack_summary(found: AttackResult) -> Page:
    """What is said of an attack first."""
    good, few = found.k_map, several_below(found.k)
    by = ", each by the row of theirs that matches fewest" if found.released_as == "people" else ""
    verdict = (
        f"Every one of {found.released:,} released {found.released_as} matches at least {found.k} "
        f"{found.counted}{by}."
        if good
        else f"{found.matches_one:,} of {found.released:,} released {found.released_as} match "
        f"exactly one "
        f"{_one(found)}, "
        f"{found.matches_few:,} more match fewer than {found.k}{by}."
    )
    return Page(
        title="Attack with an outside table",
        subtitle=f"Joined on {phrase(found.on)} with {found.people:,.0f} {found.counted}",
        verdict=verdict,
        tone="good" if good else "bad",
        facts=(
            ("match one", f"{found.matches_one:,}"),
            *((("match " + few, f"{found.matches_few:,}"),) if few else ()),
            ("expected right guesses", f"{found.expected_right:,.1f}"),
        ),
        gauges=(gauge("match one", found.matches_one / max(1, found.released)),),
    )


def _one(found: AttackResult) -> str:
    return "person" if found.counted == "people" else "row"


def attack_page(found: AttackResult) -> Page:
    total, few = max(1, found.released), several_below(found.k)
    by, one = "", "row"
    if found.released_as == "people":
        by, one = ", by the row that fewest fit", "person"
    shown = {
        "none": found.matches_none / total,
        f"one {_one(found)}": found.matches_one / total,
        **({f"{few} {found.counted}": found.matches_few / total} if few else {}),
        f"{found.k} {found.counted} or more": found.matches_k / total,
    }
    figure = Figure(
        f"How many {found.counted} a released {one} matches",
        f"Released {found.released_as} by the number of {found.counted} in the outside table that "
        f"fit them{by}.",
        charts.shares(
            f"Released {found.released_as} by matching {found.counted}",
            shown,
            what=f"share of released {found.released_as}",
        ),
    )
    sections = [Section("Matches", figures=[figure])]
    told = [
        f"Column `{name}`: {counted(count, 'distinct cell')} of the release fit no value of the "
        "outside table."
        for name, count in found.unread.items()
    ]
    told += [sentence(warning) for warning in found.warnings]
    if told:
        sections.append(Section("To keep in mind", told))
    return replace(attack_summary(found), sections=sections)


def dataset_attack_summary(found: TablesAttack) -> Page:
    """What is said of an attack on a released dataset first."""
    few, below = several_below(found.k), found.matches_one + found.matches_few
    verdict = (
        f"No attacker is left with 1 to {found.k - 1:,} persons."
        if found.holds
        else f"{below:,} of {found.attackers:,} attackers are left with fewer than {found.k:,} "
        f"persons, {found.matches_one:,} of them with exactly one."
    )
    moved = "Dates were moved: whoever knows how far finds others than were counted here."
    return Page(
        title="Attack with the dataset it was made of",
        subtitle=f"{found.release}: {found.persons:,} persons, each known by own columns and "
        f"{rows_known(found.m)}, in every combination",
        verdict=verdict,
        tone="good" if found.holds and not found.moved else "warn" if found.holds else "bad",
        beside=(moved,) if found.moved else (),
        facts=(
            ("attackers", f"{found.attackers:,}"),
            ("left with nobody", f"{found.matches_none:,}"),
            ("left with one person", f"{found.matches_one:,}"),
            *(((f"left with {few}", f"{found.matches_few:,}"),) if few else ()),
        ),
        gauges=(gauge("left with one", found.matches_one / max(1, found.attackers)),),
    )


def dataset_attack_page(found: TablesAttack) -> Page:
    total, few = max(1, found.attackers), several_below(found.k)
    shown = {
        "nobody": found.matches_none / total,
        "one person": found.matches_one / total,
        **({f"{few} persons": found.matches_few / total} if few else {}),
        f"{found.k:,} persons or more": found.matches_k / total,
    }
    figure = Figure(
        "Whom attackers are left with",
        "Attackers by the number of released persons who fit what they know.",
        charts.shares("Attackers by fitting persons", shown, what="share of attackers"),
    )
    known = f"Known: {phrase([f'`{name}`' for name in found.known])}."
    return replace(
        dataset_attack_summary(found), sections=[Section("Who is left", [known], [figure])]
    )
