"""``sfumato population`` and ``sfumato attack``: who is found among all people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    DRY,
    MaxSize,
    Publishing,
    Seed,
    Sort,
    Weights,
    argument,
    examples,
    flag,
    new_app,
    option,
    parse_domains,
    parse_weights,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, figures, listed, noted, table_verb, verb, warned
from sfumato.errors import ParameterError
from sfumato.wording import counted, several_below

if TYPE_CHECKING:
    from sfumato.populations.attack import AttackResult
    from sfumato.populations.survey import PopulationReport
    from sfumato.release import Release

app = new_app()


PLAN = "The plan"


Counting = Literal["product", "joint", "estimate"]
"""How the values of a column set are counted."""


Repairing = Literal["bound", "estimate", "none"]
"""How the plan is made to hold on the data."""


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
        list[str] | None, option("--qi A,B,…", "Columns others may know; all by default.")
    ] = None,
    k: Annotated[int, setting("-k K", "People that a released row should match.")] = 100,
    beta: Annotated[
        float, setting("--beta SHARE", "Probability with which a row may match fewer.")
    ] = 0.1,
    alpha: Annotated[
        float,
        setting(
            "--alpha SHARE",
            "Share of people a set must be expected to make unique to be a quasi-identifier.",
        ),
    ] = 0.5,
    domains: Annotated[
        list[str] | None,
        option(
            "--domains A=60,B=1e5",
            "How many values columns can take; otherwise counted in the table.",
        ),
    ] = None,
    distinct: Annotated[
        Counting, setting("--distinct", "How the values of several columns together are counted.")
    ] = "product",
    max_size: MaxSize = None,
    person: Annotated[
        str | None, option("--person COLUMN", "The column that tells persons apart.")
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
    ] = "bound",
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
    sort: Sort = False,
    publishing: Publishing = DRY,
    seed: Seed = 0,
) -> None:
    """Estimate who is unique among all people, not only among these rows.

    The table counts as a sample of a population. The answer says which column sets can be
    quasi-identifiers there, how many people are unique, and how many values each column may keep
    so that every row matches at least k people with probability 1-β. With -o the columns are
    blurred accordingly, and the release is verified and written.
    """
    from sfumato.populations.survey import population as survey

    read = {
        "qi": run.columns(qi),
        "domains": parse_domains(domains),
        "weights": parse_weights(weights),
        "keep": run.columns(keep) or (),
    }
    report = survey(run.table, **run.asked(**read))
    if report.release is not None:
        run.show(report.release, view_release)
    else:
        run.show(report, view_population)


def view_population(found: PopulationReport) -> RenderableType:
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
        parts += ["", *warned(found.warnings)]
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
    everybody = found.whole.bound is None
    expected = () if everybody else (">expected",)
    table = listed(("columns", ">values D", *expected, ">unique here", ">people per value"))
    rows = [found.whole, *(s for s in found.sets[:12] if s.columns != found.whole.columns)]
    for one in rows:
        table.add_row(
            ", ".join(one.columns),
            f"{one.distinct:,.0f}",
            *([] if one.bound is None else [f"{one.bound:.3g}"]),
            f"{one.unique:.1%}",
            f"{one.k:,.0f}" if one.k >= 10 else f"{one.k:.2g}",
        )
    which = "No set of these columns"
    if found.sets:
        more = "" if found.complete else "More than "
        which = f"{more}{counted(len(found.sets), 'minimal column set')}"
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
    table = listed(("column", ">values", ">may keep", "plan"))
    for column in plan.columns:
        table.add_row(column.column, f"{column.domain:,}", f"{column.distinct:,}", column.action)
    verdict = (
        f"At least {plan.measured.at_least:.1%} of the rows match {plan.k:,} people "
        f"(estimate {plan.measured.estimate:.1%}); {1 - plan.beta:.0%} was asked for."
    )
    theorem = f"Theorem 4 allows {plan.distinct_allowed:,.0f} values for k = {plan.k:,}."
    if plan.repaired:
        theorem += (
            f" Its own plan would reach at least {plan.before_repair.at_least:.1%} on these data "
            f"(estimate {plan.before_repair.estimate:.1%}), so it was coarsened to "
            f"{plan.distinct:,}."
        )
    return Group(table, "", theorem, verdict)


def view_release(release: Release) -> RenderableType:
    """A written release as a person reads it."""
    table = listed(("column", "what was done"), release.column_actions.items())
    parts: list[RenderableType] = [
        Text.assemble("Written and verified: ", (str(release.output), "bold")),
        "",
        table,
        "",
        *(finding.say[0].upper() + finding.say[1:] + "." for finding in release.findings),
        *noted(release),
    ]
    return Group(*parts)


NOT_K_MAP = 1


@app.command(
    epilog=examples(
        "sfumato attack release.csv voters.csv --on birth_date,sex,zip -k 5",
        "sfumato attack release.csv people.csv --on sex,zip --identity patient_id",
        "sfumato attack release.csv census.parquet --on sex,zip -k 5 --check",
        "sfumato attack released/ hospital/dataset.toml -m 1",
    )
)
@verb
def attack(
    run: Run,
    release: Annotated[str, argument("RELEASE", "The released table.")],
    people: Annotated[str, argument("PEOPLE", "A table of people the attacker knows.")],
    on: Annotated[list[str] | None, option("--on A,B,…", "Columns that both tables have.")] = None,
    k: Annotated[
        int | None,
        option(
            "-k K",
            "Matching fewer people is exposed; 5 unless given, of a dataset what it promises.",
        ),
    ] = None,
    m: Annotated[
        int | None,
        option(
            "-m N",
            "Of a dataset: rows of a person that are known; what it promises unless given.",
            min=0,
        ),
    ] = None,
    hierarchies: Annotated[
        str | None, option("--hierarchies FOLDER", "Trees the release was made with.")
    ] = None,
    person: Annotated[
        str | None,
        option(
            "--person COLUMN",
            "The column that tells persons apart, in either table: people are counted, not rows.",
        ),
    ] = None,
    identity: Annotated[
        str | None, option("--identity COLUMN", "True identity, in both tables.")
    ] = None,
    sampling_weight: Annotated[
        str | None,
        option("--sampling-weight COLUMN", "How many people a row of PEOPLE stands for."),
    ] = None,
    check: Annotated[
        bool, flag("--check", "End with 1 unless every row matches k people (k-map).")
    ] = False,
) -> None:
    """Count how many released rows lead back to one person, to a few, or to at least k.

    Ranges, sets, stars, masked codes, parts of dates and nodes of hierarchies are understood. If
    both tables have the true identities, the answer also says how many guesses would be right. A
    released dataset is attacked with its source: by own columns and any m rows.
    """
    from sfumato.cli import _dataset
    from sfumato.populations.attack import attack as join

    if _dataset.released(release, required=True):
        others = (on, person, identity, sampling_weight)
        left = _dataset.attack(run, release, people, (k, m), hierarchies, others)
        if check and not left.holds:
            raise typer.Exit(NOT_K_MAP)
        return
    if on is None or m is not None:
        raise ParameterError(
            "no columns to join the tables by were named"
            if on is None
            else "how many rows are known only matters of a dataset",
            remedy="Name columns that both have, e.g. --on age,sex,zip."
            if on is None
            else "Leave out -m.",
        )
    released, outside = run.open(release), run.open(people)
    read = {"on": split_columns(on, released.columns) or [], "k": 5 if k is None else k}
    found = join(released, outside, **run.asked("release", "people", "m", "check", **read))
    run.show(found, view_attack)
    if check and not found.k_map:
        raise typer.Exit(NOT_K_MAP)


def view_attack(found: AttackResult) -> RenderableType:
    """The outcome as a person reads it."""
    lines = figures()
    share, people = max(found.released, 1), found.counted == "people"
    persons = found.released_as == "people"
    released = "people, each by the row of theirs that matches fewest," if persons else "rows"
    few = several_below(found.k)
    for count, said in (
        (found.matches_none, f"match {'nobody' if people else 'no row'}"),
        (found.matches_one, f"match exactly one {'person' if people else 'row'}"),
        *([(found.matches_few, f"match {few} {found.counted}")] if few else ()),
        (found.matches_k, f"match at least {found.k:,} {found.counted}"),
    ):
        lines.add_row(f"{count:,}", f"{said} ({count / share:.1%})")
    title = Text.assemble(
        (f"{found.released:,}", "bold"), f" released {released} joined with ",
        (f"{found.people:,.0f}", "bold"), f" {found.counted} on ", (", ".join(found.on), "bold"),
    )  # fmt: skip
    verdict = (
        f"k-map holds: every row matches at least {found.k:,} {found.counted}."
        if found.k_map
        else f"k-map does not hold for k = {found.k:,}."
    )
    guess = f"Guessing among the matches is right {found.expected_right:,.1f} times on average."
    if found.guessed_right is not None:
        one, many = ("person", "people") if persons else ("row", "rows")
        certain = counted(found.certain_right or 0, one, many=many, does="are")
        guess = (
            f"With the true identities: {certain} found for certain, and "
            f"guessing is right {found.guessed_right:,.1f} times on average."
        )
    unread = warned(
        f"column `{name}`: {count:,} distinct cells fit no value of the people"
        for name, count in found.unread.items()
    )
    if not people:
        unread.append(
            Text(
                "Rows of the other table were counted. If a person has several there, say which "
                "are theirs: --person COLUMN.",
                "dim",
            )
        )
    return Group(title, "", lines, "", guess, verdict, *unread, *warned(found.warnings))
