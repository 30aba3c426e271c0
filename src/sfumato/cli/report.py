"""``sfumato report``: look instead of read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli._options import Force, Seed, examples, new_app, split_columns
from sfumato.cli._running import Run, table_verb
from sfumato.results import Result

if TYPE_CHECKING:
    from rich.console import RenderableType

app = new_app()


@dataclass(frozen=True)
class WrittenReport(Result):
    """Where the report is, and what it says first."""

    output: str
    verdict: str
    quasi_identifiers: tuple[str, ...]


@app.command(
    epilog=examples(
        "sfumato report people.csv -o report.html",
        "sfumato report people.parquet --qi age,sex,zip -k 10 -o report.html --force",
    )
)
@table_verb
def report(
    run: Run,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="The HTML file."),
    ],
    qi: Annotated[
        list[str] | None,
        typer.Option(
            "--qi",
            metavar="A,B,…",
            show_default=False,
            help="Columns others may know; guessed if not given.",
        ),
    ] = None,
    k: Annotated[
        int, typer.Option("-k", metavar="N", help="How many people should look alike.")
    ] = 5,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """One page that says who can be found, by what, and what to do.

    The file opens anywhere without a network, prints well, and holds no cell of the table.
    """
    from sfumato.report import write_page
    from sfumato.report.of_table import findings_of, table_page

    names = split_columns(qi, run.table.columns if qi else ())
    findings = findings_of(run.table, qi=names, k=k, seed=seed, budget=run.budget)
    page = table_page(findings)
    run.budget.progress("drawing")
    place = write_page(page, output, force=force)
    run.show(WrittenReport(str(place), page.verdict, findings.qi), view)


def view(written: WrittenReport) -> RenderableType:
    """Where to find it."""
    from rich.console import Group

    return Group(written.verdict, "", f"The report is in {written.output}.")
