"""``sfumato verify``: check a table or a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli._options import examples, new_app
from sfumato.cli._request import Promised
from sfumato.cli._running import Run, table_verb
from sfumato.errors import ParameterError
from sfumato.files import read_bytes, require_file

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.release.verify import Verification

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
    promised: Promised,
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

    asked = promised.given(run.table.columns)
    if "population" in asked:
        asked["population"] = run.open(asked["population"])
    found = check(
        run.table,
        certificate=_certificate(run, certificate, bool(set(asked) - {"population"})),
        key=None if key is None else _key(key),
        others=[run.open(other) for other in others or ()],
        row_key=row_key,
        wildcards=wildcards,
        budget=run.budget,
        **asked,
    )
    run.show(found, view)
    if not found.holds:
        raise typer.Exit(1)


def _key(path: Path) -> bytes:
    key = read_bytes(path, "the key").strip()
    if not key:
        raise ParameterError(
            "the key is empty", where=str(path), remedy="Name the file that holds the key."
        )
    return key


def _certificate(run: Run, named: str | None, has_promises: bool) -> str | None:
    """The certificate that was named, else the one beside the table where nothing is asked."""
    from sfumato.release.certificate import certificate_path

    if named is not None:
        return require_file(named, "the certificate")
    assert run.source is not None
    return None if has_promises else str(certificate_path(run.source))


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
