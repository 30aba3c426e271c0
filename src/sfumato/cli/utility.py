"""``sfumato utility``: what a release cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import (
    Force,
    examples,
    new_app,
    new_file,
    option,
    parse_kinds,
    parse_weights,
    split_columns,
)
from sfumato.cli._running import Run, table_verb

if TYPE_CHECKING:
    from sfumato.utility import Utility

app = new_app()


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
            "What is to be predicted: how many rows differ from the majority of their class, "
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
    """What a release cost: how much its cells tell less than those of the original.

    Ranges, sets, stars, nodes of trees, and numbers that stand for a class are understood. What is
    to be parsed (--parse) is parsed in the original: a release has parsed values already.
    """
    from sfumato.utility.view import compare

    if report is not None:
        new_file(report, force, run.source, of)
    parse = parse_kinds(run.reading.pop("parse", None))
    names = None if qi is None else split_columns(qi, run.table.columns)
    found = compare(
        run.table,
        run.open(of, parse),
        qi=names,
        row_key=row_key,
        hierarchies=hierarchies,
        weights=parse_weights(weights),
        target=target,
        pair=None if pair is None else split_columns(pair, run.table.columns),
        budget=run.budget,
    )
    if report is not None:
        found.report(report, force=force)
    run.show(found, view)


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


def view(found: Utility) -> RenderableType:
    """The measures as a person reads them."""
    columns = Table.grid(padding=(0, 2))
    columns.add_column()
    columns.add_column(justify="right")
    columns.add_column(justify="right")
    columns.add_row("column", "precision lost", "distribution moved", style="bold")
    for name, lost in found.columns.items():
        columns.add_row(name, f"{lost:.2%}", f"{found.distribution[name]:.2%}")
    figures = Table.grid(padding=(0, 2))
    for name, value in (
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
    ):
        figures.add_row(name, value)
    return Group(Text("What it cost", style="bold"), columns, "", figures)
