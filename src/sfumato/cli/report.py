"""``sfumato report`` and ``sfumato serve``: look instead of read, on a page or in the workbench."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from sfumato.budget import parse_size
from sfumato.cli import guarded
from sfumato.cli._options import (
    Force,
    Person,
    Seed,
    argument,
    examples,
    flag,
    new_app,
    option,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, table_verb
from sfumato.errors import MissingExtraError, ParameterError, SfumatoError, SourceError
from sfumato.files import require_file
from sfumato.results import Result

if TYPE_CHECKING:
    from sfumato.report.page import Page
    from sfumato.web.server import Server

app = new_app()


@dataclass(frozen=True)
class WrittenReport(Result):
    """Where the report is, and what it says first."""

    output: str
    verdict: str
    checks: tuple[str, ...]
    qi: tuple[str, ...]


@app.command(
    epilog=examples(
        "sfumato report people.csv -o report.html",
        "sfumato report people.parquet --qi birth_date,sex,zip -k 10 -o report.html",
        "sfumato report people.csv --person patient_id -o report.html",
        "sfumato report people.csv --released release.csv -o before-and-after.html",
        "sfumato report people.csv --interactive -o report.html",
        "sfumato report model.json -o model.html",
        "sfumato report hospital/dataset.toml -o report.html",
    )
)
@table_verb
def report(
    run: Run,
    output: Annotated[str, option("--output -o FILE", "The HTML file.")],
    qi: Annotated[
        list[str] | None, option("--qi A,B,…", "Columns others may know; guessed if not given.")
    ] = None,
    released: Annotated[
        str | None,
        option(
            "--released FILE",
            "A release of the table, its certificate beside it: shows before and after.",
        ),
    ] = None,
    k: Annotated[int, setting("-k N", "How many people should look alike.")] = 5,
    person: Person = None,
    interactive: Annotated[
        bool,
        flag(
            "--interactive",
            "Charts answer the pointer. Puts a script into the page, which grows by about "
            "1 MB; it still asks for nothing from anywhere.",
        ),
    ] = False,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Write one page that says who can be found, by what, and what to do.

    The file opens without a network and prints well. It shows no value held by fewer than ten
    rows. For a model of [bold]sfumato joint fit[/bold] it shows how people fare and who learned
    what; for a dataset, tables, keys and who is found after a join; for a released dataset (a
    folder), what its certificate promises, checked.
    """
    from sfumato.cli import _dataset
    from sfumato.engines.writing import check_destination
    from sfumato.report import write_page

    given = [str(place) for place in (run.source, released) if place]
    check_destination(output, inputs=given, force=force)
    if not output.lower().endswith((".html", ".htm")):
        raise ParameterError(
            "a report is an HTML file", where=output, remedy="Give it a name that ends in .html."
        )
    if person is not None and str(run.source).endswith(".json"):
        raise ParameterError(
            "--person is about a single table", remedy="Leave it out: who is who is known there."
        )
    if run.names_dataset or _dataset.released(run.source):
        page, names = _dataset.page(run, qi, released, person, seed)
    elif str(run.source).endswith(".json"):
        page, names = _of_model(run, released, qi)
    elif released:
        page, names = _of_release(run, released, qi, person)
    else:
        page, names = _of_table(run, qi, k, person, seed)
    run.budget.progress("drawing")
    place = write_page(page, output, force=force, interactive=interactive)
    checks = tuple(f"{mark} {said}" for mark, said in page.checks)
    run.show(WrittenReport(str(place), page.verdict, checks, names), view_report)


def _of_table(
    run: Run, qi: list[str] | None, k: int, person: str | None, seed: int
) -> tuple[Page, tuple[str, ...]]:
    from sfumato.report.pages.table import findings_of, table_page

    names = split_columns(qi, run.table.columns if qi else ())
    findings = findings_of(
        run.table,
        qi=names,
        k=k,
        person=person,
        certified=_is_of_persons(run),
        seed=seed,
        budget=run.budget,
    )
    return table_page(findings), findings.qi


def _is_of_persons(run: Run) -> bool:
    """Whether a certificate beside the table promises something about persons."""
    from sfumato.release.certificate import Certificate, certificate_path

    place = None if run.source is None else certificate_path(str(run.source))
    if place is None or not place.is_file():
        return False
    try:
        promises = Certificate.read(place).body["promises"]
    except SfumatoError:  # it is the table that is reported on
        return False
    return any(promise.get("person") for promise in promises)


def _of_model(run: Run, released: str | None, qi: list[str] | None) -> tuple[Page, tuple[str, ...]]:
    from sfumato.joint import read_model
    from sfumato.report.registry import page_of

    if released or qi:
        raise ParameterError(
            "a model has no rows: --released and --qi are about a table",
            remedy="Leave them out, or give the table.",
        )
    return page_of(read_model(require_file(str(run.source), "the model"))), ()


def _of_release(
    run: Run, released: str, qi: list[str] | None, person: str | None
) -> tuple[Page, tuple[str, ...]]:
    from sfumato.columns.persons import require_person
    from sfumato.report.pages.certificate import certified_release
    from sfumato.report.pages.release import release_page

    if qi:
        raise ParameterError(
            "the certificate of a release says what others may know", remedy="Leave out --qi."
        )
    _require_certified(released)
    found = certified_release(released, run.table, budget=run.budget)
    asked = found.asked.get("person")
    if person is not None and asked not in (None, person):
        raise ParameterError(
            f"the certificate counts persons by `{asked}`, not by `{person}`",
            where=released,
            remedy="Leave out --person, or release the table with the other one.",
        )
    if person is not None:
        require_person(run.table, person, [name for one in found.qi for name in one])
    sets = found.asked.get("qi") or [found.details.get("published", ())]
    return release_page(found, run.table, person=person), tuple(sets[0])


def _require_certified(released: str) -> None:
    """Say what is missing: the release itself, or its certificate."""
    from sfumato.release.certificate import certificate_path

    if not Path(released).is_dir() and "://" not in released:
        require_file(released, "the release")
    if not certificate_path(released).is_file():
        raise SourceError(
            "there is no certificate beside it, so its promises are unknown",
            where=released,
            remedy="Give a release that Sfumato wrote, e.g. `sfumato anonymize … -o`.",
        )


def view_report(written: WrittenReport) -> RenderableType:
    return Group(written.verdict, *written.checks, "", f"The report is in {written.output}.")


@app.command(epilog=examples("sfumato serve", "sfumato serve ~/studies people.csv --port 8800"))
def serve(
    places: Annotated[
        list[Path] | None,
        argument(
            "[FOLDER|FILE]…", "Where tables may be opened from; this folder if none is named."
        ),
    ] = None,
    port: Annotated[int, setting("--port", "0 takes any that is free.", min=0, max=65535)] = 0,
    upload_limit: Annotated[
        str,
        setting(
            "--upload-limit SIZE", "The largest table that may be uploaded through the browser."
        ),
    ] = "2GB",
    browser: Annotated[
        bool, flag("--browser/--no-browser", "Open the link in the browser.")
    ] = True,
) -> None:
    """Open the workbench in your browser: assign roles, see risk and cost, make a verified release.

    Only this machine can reach it, with a link that works once. Tables are opened from the named
    folders, and decisions are saved beside them. Uploaded tables are kept in a private folder and
    removed when the workbench ends.
    """
    with guarded(as_json=False):
        _serve(places or [Path()], port, _upload_limit(upload_limit), browser)


def _upload_limit(text: str) -> int:
    size = parse_size(text)
    if size <= 0:
        raise ParameterError(
            "an upload limit must be larger than zero", remedy="Write e.g. --upload-limit 2GB."
        )
    return size


def _serve(places: list[Path], port: int, upload_limit: int, browser: bool) -> None:
    try:
        from sfumato.web.app import Workbench
        from sfumato.web.server import Server, entrance
    except ImportError as error:
        raise MissingExtraError("web", "the workbench") from error
    from sfumato.web.sources import TableFolders, Uploads

    server = Server(Workbench(TableFolders(places), uploads=Uploads(upload_limit)), port)

    with ExitStack() as kept:

        def ready(link: str) -> None:
            typer.echo(f"The workbench is at {link}", err=True)
            if sys.stdin is not None and sys.stdin.isatty():
                server.guard.way_in = (
                    "Press Enter in the terminal in which `sfumato serve` runs: it prints a fresh "
                    "link, which works once. Open it in this browser."
                )
                threading.Thread(target=_fresh_links, args=(server,), daemon=True).start()
                typer.echo("Enter prints a fresh link, for another browser.", err=True)
            typer.echo("Ctrl-C ends it.", err=True)
            if browser:
                import webbrowser

                # Everybody on this machine sees the browser's command line, which the link is
                # not part of.
                webbrowser.open(kept.enter_context(entrance(link)))

        server.run(ready)


def _fresh_links(server: Server) -> None:
    """Print a link whenever somebody presses Enter; the one before works no more."""
    for _ in sys.stdin:
        typer.echo(f"The workbench is at {server.guard.renew()}", err=True)
