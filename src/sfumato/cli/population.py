"""``sfumato population``: who is unique in the population behind a table."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import (
    Author,
    Force,
    Output,
    Seed,
    Sign,
    SpreadsheetSafe,
    Weights,
    examples,
    flag,
    new_app,
    option,
    parse_weights,
    setting,
)
from sfumato.cli._running import Run, table_verb
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.populations.survey import PopulationReport
    from sfumato.release import Release

app = new_app()
PLAN = "The plan"


class Counting(StrEnum):
    """How the values of a column set are counted."""

    product = "product"
    joint = "joint"
    estimate = "estimate"


class Repairing(StrEnum):
    """How the plan is made to hold on the data."""

    bound = "bound"
    estimate = "estimate"
    none = "none"


@app.command(
    epilog=examples(
        "sfumato population people.csv --universe 3e8 --qi sex,birth_date,zip",
        "sfumato population people.csv --universe 3e8 -k 50 --qi sex,zip -o blurred.csv",
        "sfumato population people.csv --universe table -k 5 --domains zip=100000",
    )
)
@table_verb
def population(
    run: Run,
    universe: Annotated[
        str,
        setting(
            "--universe PEOPLE",
            "People in the population, e.g. 3e8; [bold]table[/bold] if the table is all.",
        ),
    ],
    qi: Annotated[
        list[str] | None, option("--qi A,B,…", "Columns others may know. All if not given.")
    ] = None,
    k: Annotated[int, setting("-k K", "People that a released row should match.")] = 100,
    beta: Annotated[
        float, setting("--beta SHARE", "Probability with which a row may match fewer.")
    ] = 0.1,
    alpha: Annotated[
        float,
        setting(
            "--alpha SHARE",
            "Columns expected to make so many people unique may be quasi-identifiers.",
        ),
    ] = 0.5,
    domains: Annotated[
        list[str] | None,
        option(
            "--domains A=60,B=1e5",
            "How many values columns can take; counted in the table where not given.",
        ),
    ] = None,
    distinct: Annotated[
        Counting, setting("--distinct", "How the values of several columns together are counted.")
    ] = Counting.product,
    max_size: Annotated[
        int | None, option("--max-size N", "Only sets of at most N columns.")
    ] = None,
    person: Annotated[
        str | None, option("--person COLUMN", "Which rows belong to one person.")
    ] = None,
    weights: Weights = None,
    hierarchies: Annotated[
        str | None, option("--hierarchies FOLDER", "Generalization trees.", PLAN)
    ] = None,
    repair: Annotated[
        Repairing,
        setting(
            "--repair",
            "Coarsen until the promise is proven on the data, likely, or not at all.",
            PLAN,
        ),
    ] = Repairing.bound,
    pad_zip: Annotated[
        bool, flag("--pad-zip", "Put back leading zeros that ZIP codes lost.", PLAN)
    ] = False,
    keep: Annotated[
        list[str] | None,
        option(
            "--keep A,B,…",
            "Columns to release although they look like names, numbers or free text.",
            PLAN,
        ),
    ] = None,
    output: Output = None,
    force: Force = False,
    sign: Sign = None,
    author: Author = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    seed: Seed = 0,
) -> None:
    """Who is unique among all people, not only among these rows?

    Takes the table as a sample of a population. Says which column sets can be quasi-identifiers of
    that population, how many people are unique in it, and how many values each column may keep so
    that every row matches at least k people with probability 1-β; with -o the columns are blurred
    accordingly and the release is verified and written.
    """
    from sfumato.populations.survey import population as survey

    report = survey(
        run.table,
        universe=universe,
        qi=run.columns(qi),
        k=k,
        beta=beta,
        alpha=alpha,
        domains=parse_domains(domains),
        distinct=distinct.value,
        max_size=max_size,
        weights=parse_weights(weights),
        hierarchies=hierarchies,
        repair=repair.value,
        person=person,
        keep=run.columns(keep) or (),
        pad_zip=pad_zip,
        seed=seed,
        output=output,
        force=force,
        sign=sign,
        author=author,
        spreadsheet_safe=spreadsheet_safe,
        budget=run.budget,
    )
    if report.release is not None:
        run.show(report.release, view_release)
    else:
        run.show(report, view)


def parse_domains(given: Sequence[str] | None) -> dict[str, int]:
    """Domain sizes from ``name=number`` lists.

    Examples
    --------
    >>> parse_domains(["age=60,zip=1e5"])
    {'age': 60, 'zip': 100000}
    """
    sizes: dict[str, int] = {}
    for text in given or ():
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, number = part.rpartition("=")
            try:
                sizes[name] = int(float(number))
            except (ValueError, OverflowError) as error:
                raise ParameterError(
                    "a domain size could not be read", remedy="Write e.g. --domains age=60,zip=1e5"
                ) from error
    return sizes


def view(found: PopulationReport) -> RenderableType:
    """The report as a person reads it."""
    people = f"{found.universe:,.0f} people"
    title = Text.assemble(
        (f"{found.rows:,}", "bold"), f" {found.counted} as a sample of ", (people, "bold"),
        f" ({found.sampling_fraction:.3g} of them)",
    )  # fmt: skip
    everybody = found.whole.bound is None
    if everybody:
        title = Text.assemble(
            (f"{found.rows:,}", "bold"), f" {found.counted}, which are all the people"
        )
    headline = Text(_headline(found), style="bold")
    models = [] if everybody else ["", _uniques(found)]
    parts: list[RenderableType] = [
        title, headline, "", _sets(found), *models, "", _plan(found),
    ]  # fmt: skip
    if found.warnings:
        parts += ["", *(Text(f"! {warning}", style="yellow") for warning in found.warnings)]
    return Group(*parts)


def _headline(found: PopulationReport) -> str:
    """The one figure to go by, and what it takes for granted."""
    unique, bound = f"{found.unique:.2%}", found.whole.bound
    if bound is None:
        return f"Unique among all people: {unique}, counted."
    drawn = f"drawn at random from no more than {found.whole.distinct:,.0f} values"
    if found.unique_by == "counted":
        return (
            f"Unique among all people: at least {unique}, counted: only "
            f"{found.universe - found.rows:,.0f} of them are not in the table."
        )
    if found.unique_by == "bound":
        return f"Unique among all people: at most {unique} expected, if people are {drawn}."
    return (
        f"Unique among all people: about {unique}, estimated by {found.uniqueness.chosen}; "
        f"at most {bound:.2%} expected, if people are {drawn}."
    )


def _sets(found: PopulationReport) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    everybody = found.whole.bound is None
    expected = [] if everybody else ["expected"]
    for heading in ("columns", "values D", *expected, "unique here", "people per value"):
        table.add_column(heading, justify="left" if heading == "columns" else "right")
    rows = [found.whole, *(s for s in found.sets[:12] if s.columns != found.whole.columns)]
    for one in rows:
        table.add_row(
            ", ".join(one.columns),
            f"{one.distinct:,.0f}",
            *([] if one.bound is None else [f"{one.bound:.3g}"]),
            f"{one.unique:.1%}",
            f"{one.k:,.0f}",
        )
    which = "No set of these columns"
    if found.sets:
        more = "" if found.complete else "More than "
        which = f"{more}{len(found.sets)} minimal column set{'s' if len(found.sets) > 1 else ''}"
    if everybody:
        verb = "make" if len(found.sets) > 1 else "makes"
        return Group(table, "", f"{which} {verb} at least {found.alpha:.0%} of the people unique.")
    said = (
        f"{which} can be expected to make at least {found.alpha:.0%} of the people unique, "
        "whatever the distribution, if they are drawn at random from D values"
    )
    said += ", or do so by count. " if found.whole.certain >= found.alpha else ". "
    seen = any(domain.source == "observed" for domain in found.domains)
    said += (
        "D comes from what the table shows; --domains says how many there can be."
        if seen or found.counted_by != "product"
        else "D was declared."
    )
    return Group(table, "", said)


def _uniques(found: PopulationReport) -> RenderableType:
    uniqueness = found.uniqueness
    figures = ", ".join(
        f"{name} {'–' if value is None else f'{value:.2%}'}"
        for name, value in uniqueness.estimates.items()
    )
    between = ""
    if uniqueness.low is not None and uniqueness.high is not None:
        between = f" ({uniqueness.low:.2%} to {uniqueness.high:.2%})"
    estimate = "unknown" if uniqueness.estimate is None else f"{uniqueness.estimate:.2%}"
    copula = (
        "" if found.copula is None else f" A copula of the columns says {found.copula.unique:.2%}."
    )
    beyond = ""
    if uniqueness.estimate is not None and found.unique_by == "bound":
        beyond = (
            f" That is more than D values let expect: of {found.whole.unique:.1%} unique "
            f"{found.counted}, such a model concludes that new values never end. Go by what is "
            "expected only if no more than D values are possible."
        )
    return (
        f"Models of class sizes, which do not know D: {estimate}{between} by {uniqueness.chosen} "
        f"({figures}).{beyond}{copula}"
    )


def _plan(found: PopulationReport) -> RenderableType:
    plan = found.plan
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("column", "values", "may keep", "plan"):
        table.add_column(heading, justify="right" if heading in ("values", "may keep") else "left")
    for column in plan.columns:
        table.add_row(column.column, f"{column.domain:,}", f"{column.distinct:,}", column.action)
    verdict = (
        f"At least {plan.measured.at_least:.1%} of the rows match {plan.k:,} people "
        f"(estimate {plan.measured.estimate:.1%}); {1 - plan.beta:.0%} was asked."
    )
    theorem = f"Theorem 4 allows {plan.distinct_allowed:,.0f} values for k = {plan.k:,}."
    if plan.repaired:
        theorem += (
            f" Its own plan would reach {plan.before_repair.estimate:.1%} on these data, so it was "
            f"coarsened to {plan.distinct:,}."
        )
    return Group(table, "", theorem, verdict)


def view_release(release: Release) -> RenderableType:
    """A written release as a person reads it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("column")
    table.add_column("what was done")
    for name, action in release.column_actions.items():
        table.add_row(name, action)
    parts: list[RenderableType] = [
        Text.assemble("Written and verified: ", (str(release.output), "bold")),
        "",
        table,
        "",
        *(finding.say[0].upper() + finding.say[1:] + "." for finding in release.findings),
        *(Text(f"! {warning}", style="yellow") for warning in release.warnings),
    ]
    return Group(*parts)
