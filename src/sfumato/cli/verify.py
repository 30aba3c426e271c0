"""``sfumato verify``: check a table or a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli._options import examples, new_app, split_columns
from sfumato.cli._running import Run, table_verb

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.release.promise import Promise
    from sfumato.release.verify import Verification
    from sfumato.tables import Table

app = new_app()


@app.command(
    epilog=examples(
        "sfumato verify release.parquet",
        "sfumato verify release.csv -k 5 --qi age,sex,zip",
        "sfumato verify release.csv -k 5 --qi age,sex --qi zip --sensitive diagnosis -l 3",
        "sfumato verify release.csv --with earlier.csv --row-key patient_id",
    )
)
@table_verb
def verify(
    run: Run,
    k: Annotated[
        int | None,
        typer.Option("-k", metavar="N", show_default=False, help="k-anonymity to check."),
    ] = None,
    qi: Annotated[
        list[str] | None,
        typer.Option(
            "--qi",
            metavar="A,B,…",
            show_default=False,
            help="Quasi-identifiers; may be given several times, the check is made for each set.",
        ),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,…", show_default=False, help="Sensitive columns."),
    ] = None,
    diversity: Annotated[
        float | None,
        typer.Option("-l", metavar="N", show_default=False, help="l-diversity to check."),
    ] = None,
    l_kind: Annotated[
        str, typer.Option(metavar="KIND", help="distinct, entropy or recursive.")
    ] = "distinct",
    c: Annotated[
        float | None,
        typer.Option("--c", metavar="C", show_default=False, help="c of recursive diversity."),
    ] = None,
    t: Annotated[
        float | None,
        typer.Option("-t", metavar="T", show_default=False, help="t-closeness to check."),
    ] = None,
    wildcards: Annotated[
        bool,
        typer.Option("--wildcards", help="Let suppressed and missing cells match any value."),
    ] = False,
    certificate: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", show_default=False, help="The certificate, if it lies elsewhere."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="File with the key the seal was made with."
        ),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="TABLE",
            show_default=False,
            help="Another release of the same table; the promise must hold for all of them joined. "
            "May be repeated.",
        ),
    ] = None,
    row_key: Annotated[
        str | None,
        typer.Option(
            "--row-key",
            metavar="COLUMN",
            show_default=False,
            help="The column that links the rows of several releases.",
        ),
    ] = None,
) -> None:
    """Check that a table keeps a promise, or that a release is what its certificate says.

    Ends with exit code 1 if a byte or a promise differs.
    """
    from sfumato.release.verify import verify as check

    promises: list[Promise] = []
    if k is not None or qi:
        sets = [split_columns([names], run.table.columns) or [] for names in qi or ()]
        hidden = split_columns(sensitive, run.table.columns) or []
        demands: dict[str, object] = {"k": k, "l": diversity, "l_kind": l_kind, "c": c, "t": t}
        promises.append(_promise(run.table, sets, hidden, demands, wildcards))
    found = check(
        run.table,
        promises=promises,
        certificate=certificate if certificate or promises else _beside(run),
        key=None if key is None else key.read_bytes().strip(),
        others=[run.open(other) for other in others or ()],
        row_key=row_key,
        budget=run.budget,
    )
    run.show(found, view)
    if not found.holds:
        raise typer.Exit(1)


def _beside(run: Run) -> str:
    from sfumato.release.certificate import certificate_path

    assert run.source is not None
    return str(certificate_path(run.source))


def _promise(
    table: Table,
    sets: list[list[str]],
    sensitive: list[str],
    demands: dict[str, object],
    wildcards: bool,
) -> Promise:
    from sfumato.anonymize.demand import models_of, quasi_identifier_sets
    from sfumato.release.anonymity import Anonymity

    names = quasi_identifier_sets(sets)
    for columns in (*names, sensitive):
        table.require(columns)
    ordered = [column.name for column in table.schema if column.ordered]
    models = models_of(sensitive, ordered=ordered, **demands)  # type: ignore[arg-type]
    return Anonymity(models, names, tuple(sensitive), wildcards)


def view(found: Verification) -> RenderableType:
    """What was checked, and what came out."""
    from rich.console import Group
    from rich.text import Text

    parts = []
    for finding in found.findings:
        mark = ("✓ ", "green") if finding.holds else ("✗ ", "bold red")
        parts.append(Text.assemble(mark, finding.say))
        if finding.remedy:
            parts.append(Text(f"  {finding.remedy}", style="dim"))
    verdict = "Everything holds." if found.holds else "It does not hold."
    return Group(*parts, Text(), Text(verdict, style="bold"))
