"""``sfumato anonymize``: blur a table until the privacy demanded provably holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli._options import (
    Author,
    Force,
    Output,
    Sign,
    SpreadsheetSafe,
    examples,
    new_app,
    new_file,
    option,
)
from sfumato.cli._request import Requested
from sfumato.cli._running import Run, table_verb
from sfumato.errors import ParameterError
from sfumato.files import write_text

if TYPE_CHECKING:
    from sfumato.anonymization.request import Request

app = new_app()

WRITING = "Writing the release"


def _methods() -> str:
    """The methods with a line each, for the help text."""
    from sfumato.anonymization.registry import METHODS

    lines = [f"[bold]{name}[/bold]: {method.says}." for name, method in METHODS.items()]
    return "[bold]Methods[/bold]\n\n" + "\n\n".join(f"  {line}" for line in lines)


@dataclass(frozen=True)
class Writing:
    """Where the release goes, and in which form."""

    output: Output = None
    force: Force = False
    sign: Sign = None
    author: Author = None
    spreadsheet_safe: SpreadsheetSafe = False
    format: Annotated[
        str | None,
        option(
            WRITING,
            "--format",
            metavar="csv|parquet|xlsx|sav|…",
            help="Format of the output, if its ending does not say it.",
        ),
    ] = None
    save_recoding: Annotated[
        Path | None,
        option(
            WRITING,
            "--save-recoding",
            metavar="FILE",
            help="Write the groups that the release shows, for --recoding.",
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", rich_help_panel=WRITING, help="Say what would happen, write nothing."
        ),
    ] = False


@dataclass(frozen=True)
class Repeating:
    """Parameters kept in files."""

    config: Annotated[
        str | None,
        option(
            None,
            "--config",
            metavar="FILE",
            help="A TOML file with these settings, or the certificate of an earlier release; "
            "options given here come before it.",
        ),
    ] = None
    write_config: Annotated[
        Path | None,
        option(
            None, "--write-config", metavar="FILE", help="Write the settings of this run as TOML."
        ),
    ] = None


@app.command(
    epilog=_methods()
    + "\n\n"
    + examples(
        "sfumato anonymize people.csv -k 5 --qi birth_date,sex,zip "
        "--identifiers patient_id,name,ssn,email,phone,note",
        "sfumato anonymize people.csv -k 5 --qi birth_date,sex,zip --sensitive diagnosis -l 3 "
        "--identifiers patient_id,name,ssn,email,phone,note -o out.csv",
        "sfumato anonymize people.csv --config anonymize.toml --qi sex,zip --qi language,sex "
        "--weights zip=5",
        "sfumato anonymize people.parquet --config anonymize.toml -o out.parquet",
        "sfumato anonymize hospital -k 5 -m 2 --linkable --key-file secret.key "
        "--identifiers patients.name,patients.ssn,patients.email,patients.phone "
        "--qi patients.birth_date,admissions.diagnosis -o linked",
        "sfumato anonymize february.csv --like january.csv.certificate.json -o out.csv",
    )
)
@table_verb
def anonymize(
    run: Run,
    requested: Requested,
    writing: Writing,
    repeating: Repeating,
) -> None:
    """Blur a table as little as possible until the privacy demanded provably holds.

    What is written is read back and measured by code that did not make it; if a promise is
    broken, nothing is published. Beside the output lies its certificate, which `sfumato verify`
    replays. Without -o no release is written: the answer says what would be.

    All tables of a dataset (a dataset.toml, a folder of tables, postgresql://…#schema.*) are
    blurred together and appear together; columns are written table.column, and --exclude names
    tables to leave out.
    """
    from sfumato.anonymization.request import Request
    from sfumato.anonymization.verb import anonymize as make
    from sfumato.cli import _dataset
    from sfumato.cli._anonymize_view import view
    from sfumato.release.recoding import refuse_unreadable

    if writing.format is not None and writing.output is None:
        raise ParameterError(
            "a format is given, and no output to write in it", remedy="Give -o FILE as well."
        )
    _check_dry(writing, repeating.write_config)
    if _dataset.named(run):
        kept = Request() if repeating.config is None else Request.read(repeating.config)
        if kept.parse:
            raise ParameterError(
                "what is parsed is said of one table, and this is a dataset of several",
                where=str(repeating.config),
                remedy="Leave out [parse], and write the dates and numbers of the tables plainly.",
            )
        _dataset.anonymize(run, requested, kept, writing, repeating.write_config)
        return
    like, recoding = requested.said("like"), requested.said("recoding")
    start = Request.starting(repeating.config, like, recoding)
    run.parse |= start.parse
    if start.unparsed != "stop":
        run.reading["unparsed"] = start.unparsed
    given = requested.given(run.table.columns)
    if run.parse:
        given |= {"parse": run.parse, "unparsed": run.reading.get("unparsed", "stop")}
    request = start.overridden(given)
    _check_places(run, request, writing, repeating.write_config)
    if writing.save_recoding is not None:
        asked = {"numbers_as": request.numbers_as}
        refuse_unreadable(request.qi or (), asked, "--save-recoding")
    people = request.population
    release = make(
        run.table,
        config=request if people is None else request.overridden({"population": run.open(people)}),
        output=None if writing.dry_run else writing.output,
        format=writing.format,
        force=writing.force,
        sign=writing.sign,
        author=writing.author,
        spreadsheet_safe=writing.spreadsheet_safe,
        budget=run.budget,
    )
    if writing.save_recoding is not None:
        release.recoding.save(writing.save_recoding)
    if repeating.write_config is not None:
        write_text(repeating.write_config, request.to_toml())
    besides = {"Groups": writing.save_recoding, "Settings": repeating.write_config}
    written = {what: str(place) for what, place in besides.items() if place is not None}
    run.show(release, partial(view, besides=written))


def _check_dry(writing: Writing, config: Path | None) -> None:
    """Refuse to write other files in a run that writes nothing."""
    named = {"--save-recoding": writing.save_recoding, "--write-config": config}
    for flag, place in named.items():
        if writing.dry_run and place is not None:
            raise ParameterError(
                f"--dry-run writes nothing, and {flag} names a file to write",
                where=str(place),
                remedy="Leave out one of them; without -o the release itself is not written.",
            )


def _check_places(run: Run, request: Request, writing: Writing, written: Path | None) -> None:
    """Refuse to write over anything that this command reads or writes besides."""
    from sfumato.release.certificate import certificate_path

    named = (
        request.population,
        request.key_file,
        request.boundaries,
        request.workload,
        request.like,
        request.recoding,
        writing.sign,
    )
    read = [str(name) for name in named if isinstance(name, (str, Path))]
    output = writing.output
    if output is not None and "://" not in output:
        new_file(output, True, *read)  # that it exists is looked at with its certificate
        read += [output, str(certificate_path(output))]
    for place in (written, writing.save_recoding):
        if place is not None:
            new_file(str(place), writing.force, run.source, *read)
            read.append(str(place))
