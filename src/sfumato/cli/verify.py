"""``sfumato verify``: check a table or a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import Asked, examples, flag, new_app, option
from sfumato.cli._running import Run, table_verb
from sfumato.files import require_file
from sfumato.privacy.models import PromiseFields

if TYPE_CHECKING:
    from sfumato.release.promise import Finding
    from sfumato.release.verify import Verification

app = new_app()


class Promised(Asked):
    """What must hold of a table."""

    declared = PromiseFields


@app.command(
    epilog=examples(
        "sfumato verify release.parquet",
        "sfumato verify release.csv -k 5 --qi birth_date,sex,zip",
        "sfumato verify release.csv -k 5 --qi sex,zip --sensitive diagnosis -l 3",
        "sfumato verify release.csv --signer hospital.pub",
        "sfumato verify release.csv --with earlier.csv --row-key patient_id",
        "sfumato verify released/",
        "sfumato verify february_release.csv --with january.csv --other-rows",
        "sfumato verify release.csv --boundaries bounds.toml --of people.csv",
    )
)
@table_verb
def verify(
    run: Run,
    promised: Promised,
    certificate: Annotated[
        str | None, option("--certificate FILE", "The certificate, if it lies elsewhere.")
    ] = None,
    signer: Annotated[
        str | None,
        option("--signer FILE.pub", "The public key that must have signed the certificate."),
    ] = None,
    of: Annotated[
        str | None,
        option(
            "--of TABLE", "The table it must have been made of; only its maker has the key to tell."
        ),
    ] = None,
    hierarchies: Annotated[
        str | None,
        option("--hierarchies FOLDER", "The trees whose labels a release with k-map shows."),
    ] = None,
    others: Annotated[
        list[str] | None,
        option(
            "--with TABLE",
            "Another release; the promise must hold for all of them together: joined by "
            "--row-key, or with --other-rows one under the other. May be repeated.",
        ),
    ] = None,
    row_key: Annotated[
        str | None,
        option(
            "--row-key COLUMN",
            "The column that links the rows of several releases, or those of a release and of "
            "its table.",
        ),
    ] = None,
    boundaries: Annotated[
        str | None,
        option(
            "--boundaries FILE",
            "How far each value may be blurred (TOML); counts cells beyond it, with --of.",
        ),
    ] = None,
    other_rows: Annotated[
        bool, flag("--other-rows", "The other releases are of other tables.")
    ] = False,
) -> None:
    """Check that a table keeps a promise, or that a release is what its certificate says.

    The exit code is 1 if a byte or a promise differs, or if a promise could not be checked. Nothing
    that a certificate names is opened. For a released dataset give its folder, or
    postgresql://…#schema.*.
    """
    from sfumato.cli import _dataset
    from sfumato.release.verify import verify as check

    if _dataset.released(run.source, required=True):
        other = (of, hierarchies, others, row_key)
        found = _dataset.verified(run, promised, certificate, signer, other)
        run.show(found, view)
        if not found.holds:
            raise typer.Exit(1)
        return

    asked = promised.given(run.table.columns)
    if "population" in asked:
        asked["population"] = run.open(asked["population"])
    found = check(
        run.table,
        certificate=_certificate(
            run, certificate, bool(set(asked) - {"population"}) or boundaries is not None
        ),
        signer=signer,
        of=None if of is None else run.open(of),
        hierarchies=hierarchies,
        others=[run.open(other) for other in others or ()],
        row_key=row_key,
        other_rows=other_rows,
        boundaries=None if boundaries is None else require_file(boundaries, "the boundaries"),
        budget=run.budget,
        **asked,
    )
    run.show(found, view)
    if not found.holds:
        raise typer.Exit(1)


def _certificate(run: Run, named: str | None, has_promises: bool) -> str | None:
    """The certificate that was named, else the one beside the table where nothing is asked."""
    from sfumato.release.certificate import certificate_path

    if named is not None:
        return require_file(named, "the certificate")
    assert run.source is not None
    return None if has_promises else str(certificate_path(run.source))


def view(found: Verification) -> RenderableType:
    """What was checked, what came out, and what nobody promised."""
    parts = []
    for finding in found.findings:
        parts.append(Text.assemble(_mark(found, finding), finding.say))
        if finding.remedy:
            parts.append(Text(f"  {finding.remedy}", style="dim"))
    if found.made is not None:
        parts.append(Text(f"  The certificate says: {found.made}.", style="dim"))
    parts.append(Text())
    parts += [Text(line, style="yellow") for line in found.unpromised]
    return Group(*parts, Text(found.verdict, style="bold"))


def _mark(found: Verification, finding: Finding) -> tuple[str, str]:
    if not finding.holds:
        return "✗ ", "bold red"
    unsigned = finding.check == "signature" and found.signed_by is None
    return ("! ", "yellow") if unsigned else ("✓ ", "green")
