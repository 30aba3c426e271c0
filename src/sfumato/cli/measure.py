"""``sfumato measure``, ``risk`` and ``utility``: what columns give away, what a release cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    Columns,
    Force,
    Missing,
    Person,
    examples,
    new_app,
    new_file,
    option,
    parse_kinds,
    parse_weights,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, figures, listed, table_verb
from sfumato.errors import ParameterError
from sfumato.wording import counted, hundredths, noun, ratio

if TYPE_CHECKING:
    from sfumato.privacy.check import Risk
    from sfumato.quasi.measure import Measures
    from sfumato.utility import Utility

app = new_app()


@app.command(
    epilog=examples(
        "sfumato measure people.csv -c birth_date,sex,zip",
        "sfumato measure people.parquet -c birth_date,zip --json",
        "sfumato measure postgresql://localhost/clinic#patients -c zip,sex",
    )
)
@table_verb
def measure(
    run: Run, columns: Columns = None, person: Person = None, missing: Missing = "value"
) -> None:
    """Measure how well a set of columns tells people apart.

    Rows that agree on the columns form a class. The figures are the number of classes, the rows
    alone in theirs, the share of pairs of rows that differ (separation), and k, the size of the
    smallest class. All are exact.
    """
    from sfumato.quasi.measure import measure as measure_columns

    found = measure_columns(run.table, **run.asked(columns=run.columns(columns)))
    run.show(found, partial(view_measures, wild=missing == "wildcard"))


def view_measures(found: Measures, wild: bool = False) -> RenderableType:
    """The measures as a person reads them."""
    lines = figures()
    lines.add_row(f"{found.rows:,}", "rows")
    who, of, each = "rows", "", "row"
    alone = found.unique_rows
    if found.persons is not None and found.unique_persons is not None:
        lines.add_row(f"{found.persons:,}", "persons")
        who, of, each = "persons", " of different persons", "person in a class"
        alone = found.unique_persons
    lines.add_row(f"{found.classes:,}", f"classes, {found.distinct:.6g} a {each}")
    by_themselves = "rows that match no other" if wild else f"{who} alone in their class"
    if of:
        by_themselves = "persons alone in a class"
    lines.add_row(f"{alone:,}", f"{by_themselves}: {hundredths(found.unique)}")
    lines.add_row(
        f"{found.unseparated_pairs:,}",
        f"{noun('pairs', found.unseparated_pairs)} of rows{of} left together: separation "
        f"{ratio(found.separation)}",
    )
    least = "rows that a row matches at least, itself included (k)"
    lines.add_row(
        "–" if found.k is None else f"{found.k:,}",
        least if wild else f"{who} in the smallest class (k)",
    )
    title = Text("By ").append(", ".join(found.columns) or "no columns", style="bold")
    if wild:
        title.append(", where a missing cell matches any value")
    return Group(title, "", lines, "", _verdict(found, wild))


def _verdict(found: Measures, wild: bool) -> str:
    if found.k is None:
        return "The table has no rows: there is nobody to find."
    if wild and found.k > 1:
        return f"Nobody stands alone: every row matches {found.k:,} rows, itself included, or more."
    if found.unique_persons is not None:
        if found.k > 1:
            return f"Nobody stands alone: the smallest class holds {found.k:,} persons."
        alone = (
            "1 person has"
            if found.unique_persons == 1
            else f"{found.unique_persons:,} persons have"
        )
        return f"{alone} a combination that nobody else has, and can be found by it."
    if found.k > 1:
        return f"Nobody stands alone: the smallest group of equal rows has {found.k:,}."
    if found.unique_rows == found.rows:
        return "Every row stands alone: whoever knows these columns finds anybody."
    alone = counted(found.unique_rows, "row", does="stand")
    return f"{alone} alone: whoever knows these columns of such a person finds their row."


@app.command(
    epilog=examples(
        "sfumato risk people.csv --qi birth_date,sex,zip",
        "sfumato risk people.csv --qi birth_date,sex,zip --released release.csv",
        "sfumato risk survey.parquet --qi age,sex --sampling-weight weight",
    )
)
@table_verb
def risk(
    run: Run,
    qi: Annotated[list[str], option("--qi A,B,…", "Columns an attacker may know, all together.")],
    threshold: Annotated[
        float, setting("--threshold RISK", "Rows above this risk are counted; 0.2 is one in 5.")
    ] = 0.2,
    sampling_weight: Annotated[
        str | None,
        option(
            "--sampling-weight COLUMN",
            "Column that says how many of the population a row stands for.",
        ),
    ] = None,
    person: Annotated[
        str | None,
        option("--person COLUMN", "Column that tells persons apart if they have several rows."),
    ] = None,
    household: Annotated[
        str | None,
        option(
            "--household COLUMN",
            "Column that tells households apart: also the risk that anybody in one is found.",
        ),
    ] = None,
    population: Annotated[
        str | None, option("--population TABLE", "A table of the whole population.")
    ] = None,
    released: Annotated[
        str | None, option("--released TABLE", "A released table to measure the same way.")
    ] = None,
    per_row: Annotated[
        str | None,
        option(
            "--per-row FILE",
            "Write the table with the prosecutor's risk of every row in a column `risk`.",
        ),
    ] = None,
    missing: Missing = "value",
    force: Force = False,
) -> None:
    """Measure how likely somebody is found by what an attacker knows.

    The prosecutor knows that a person is in the table. The journalist does not, and looks at the
    population. The marketer matches everybody and hopes for many correct matches.
    """
    from sfumato.risks import risk as measure_risk
    from sfumato.risks import write_risks

    names = split_columns(qi, run.table.columns) or []
    if per_row is not None and person is not None:
        raise ParameterError(
            "risks are written row by row, not person by person",
            remedy="Leave out --person or --per-row.",
        )
    if per_row is not None:
        new_file(per_row, force, run.source, released, population)
    others = {"population": population, "released": released}
    opened = {name: None if place is None else run.open(place) for name, place in others.items()}
    found = measure_risk(run.table, **run.asked("per_row", "force", qi=names, **opened))
    if per_row is not None:
        write_risks(run.table, names, per_row, missing=missing, force=force, budget=run.budget)
    run.show(found, partial(view_risk, wild=missing == "wildcard"))


def view_risk(found: Risk, wild: bool = False) -> RenderableType:
    """The risks as a person reads them, before and after."""
    sides = [found] if found.after is None else [found, found.after]
    lines = listed(("", ">before", ">after") if len(sides) > 1 else ("", ">"))
    who = "rows" if found.persons is None else "persons"
    for label, cells in (
        ("prosecutor (highest)", [_share(side.prosecutor) for side in sides]),
        ("journalist (highest)", [_share(side.journalist) for side in sides]),
        ("marketer (expected share found)", [_share(side.marketer) for side in sides]),
        (
            f"{who} above {found.threshold:g} (prosecutor)",
            [_share(side.share_above) for side in sides],
        ),
        (
            f"{who} above {found.threshold:g} (journalist)",
            [_share(side.journalist_share_above) for side in sides],
        ),
    ):
        lines.add_row(label, *cells)
    homes = [side.households for side in sides if side.households is not None]
    if homes:
        number = f"{homes[0].number:,} households"
        lines.add_row(f"anybody found, of {number} (highest)", *(_share(h.highest) for h in homes))
        lines.add_row("anybody found (mean)", *(_share(h.mean) for h in homes))
        lines.add_row(
            f"households above {found.threshold:g}", *(_share(h.share_above) for h in homes)
        )
    title = Text("By ").append(", ".join(found.qi), style="bold")
    if wild:
        title.append(", where a missing cell matches any value")
    return Group(title, "", lines, "", f"Population: {found.basis}.")


def _share(risk: float | None) -> str:
    return "–" if risk is None else hundredths(risk, 3)


@app.command(
    epilog=examples(
        "sfumato utility release.csv --of people.csv",
        "sfumato utility release.csv --of people.csv --qi sex,zip --row-key patient_id",
        "sfumato utility release.csv --of people.csv --weights zip=2 --target diagnosis",
    )
)
@table_verb
def utility(
    run: Run,
    of: Annotated[str, option("--of TABLE", "The original table.")],
    qi: Annotated[
        list[str] | None,
        option("--qi A,B,…", "Columns to compare; those of the certificate if not given."),
    ] = None,
    row_key: Annotated[
        str | None,
        option(
            "--row-key COLUMN",
            "The column that links rows of both; without it they are in the same order.",
        ),
    ] = None,
    hierarchies: Annotated[
        str | None, option("--hierarchies FOLDER", "The trees that the release was made with.")
    ] = None,
    weights: Annotated[
        list[str] | None,
        option(
            "--weights A=2,B=0.5",
            "Importance of the columns, for weighted discernibility; 1 if not given.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        option(
            "--target COLUMN",
            "The column to predict: how many rows differ from the majority of their class, "
            "and how well it can be learned before and after.",
        ),
    ] = None,
    pair: Annotated[
        list[str] | None,
        option("--pair A,B", "Two columns whose table is counted before and after."),
    ] = None,
    report: Annotated[
        str | None, option("--report FILE", "Also write all measures as one HTML page.")
    ] = None,
    force: Force = False,
) -> None:
    """Measure what a release cost: how much less its cells say than those of the original.

    Ranges, sets, stars, nodes of trees, and numbers that stand for a class are understood. --parse
    applies to the original only: a release has parsed values already.
    """
    from sfumato.utility.comparison import compare

    if report is not None:
        new_file(report, force, run.source, of)
    parse = parse_kinds(run.reading.pop("parse", None))
    named = {"qi": qi, "pair": pair}
    columns = {name: split_columns(given, run.table.columns) for name, given in named.items()}
    asked = run.asked("of", "report", "force", **columns, weights=parse_weights(weights))
    found = compare(run.table, run.open(of, parse), **asked)
    if report is not None:
        found.report(report, force=force)
    run.show(found, view_utility)


def _of_target(found: Utility) -> list[tuple[str, str]]:
    """What can still be said of the target."""
    if found.majority_penalty is None:
        return []
    rows = [("rows unlike the majority of their class", f"{found.majority_penalty:.1%}")]
    if (learned := found.accuracy) is not None:
        rows += [
            ("predicted right, from the original", f"{learned.original:.1%}"),
            ("predicted right, from the release", f"{learned.released:.1%}"),
            ("by always guessing the commonest", f"{learned.baseline:.1%}"),
        ]
    return rows


def _of_pair(found: Utility) -> list[tuple[str, str]]:
    """How two columns go together."""
    pair = found.contingency
    if pair is None or pair.association is None or pair.released_association is None:
        return []
    said = f"{pair.association:.3f} before, {pair.released_association:.3f} after"
    return [(f"association of {pair.columns[0]} and {pair.columns[1]}", said)]


def _alike(found: Utility) -> list[tuple[str, str]]:
    """How alike rows were in pairs."""
    pairs = (("within classes", found.similarity.within), ("between", found.similarity.between))
    return [
        (f"cells alike, {where}", f"{share:.1%}") for where, share in pairs if share is not None
    ]


def view_utility(found: Utility) -> RenderableType:
    """The measures as a person reads them."""
    moved = found.distribution
    columns = listed(
        ("column", ">precision lost", ">distribution moved"),
        ((name, f"{lost:.2%}", f"{moved[name]:.2%}") for name, lost in found.columns.items()),
    )
    told = [
        ("normalized certainty penalty", f"{found.certainty_penalty:.4f}"),
        ("entropy lost", f"{found.non_uniform_entropy:.1%}"),
        ("average class size", f"{found.average_class_size:.1f}"),
        ("discernibility", f"{found.discernibility:,}"),
        ("weighted, by label", f"{found.weighted_discernibility_by_label:,.0f}"),
        ("weighted, by overlap", f"{found.weighted_discernibility_by_overlap:,.0f}"),
        ("weighted, by region", f"{found.weighted_discernibility_by_region:,.0f}"),
        ("general loss", f"{found.general_loss:.4f}"),
        *_alike(found),
        *_of_target(found),
        *_of_pair(found),
        ("rows left out", f"{found.suppressed_rows:,}"),
        ("cells that tell nothing", f"{found.suppressed_cells:,}"),
    ]
    return Group(Text("What it cost", style="bold"), columns, "", figures(told, first=False))
