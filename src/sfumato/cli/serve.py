"""``sfumato serve``: the workbench in the browser."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.budget import parse_size
from sfumato.cli._ending import guarded
from sfumato.cli._options import argument, examples, flag, new_app, setting
from sfumato.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from sfumato.web.server import Server

app = new_app()


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
    """The workbench: assign roles, see risk and cost move, make a verified release.

    Only this machine can reach it, with a link that works once. Tables are opened from the named
    folders, and decisions are saved beside them; tables that are uploaded are kept in a private
    folder, and removed when the workbench ends.
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
