"""Tables that are read once and kept nowhere, for verbs that can answer from a sample."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli._options import READING, split_columns
from sfumato.cli._running import Run
from sfumato.errors import ParameterError

__all__ = ["Stream", "read_as_stream"]

Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        show_default=False,
        rich_help_panel=READING,
        help="Read the table once and keep nothing of it but a sample; by default for standard "
        "input if a sample is enough. Cells of text files are then compared as text.",
    ),
]


def read_as_stream(run: Run, wanted: bool | None, *, once: bool) -> None:
    """Open the table of a run as a stream if that is wanted, or likely and possible.

    Parameters
    ----------
    wanted
        What the user said; None where nothing was said.
    once
        Whether one pass is enough for what is asked.
    """
    if run.reading.get("parse") and wanted is None:
        return
    if not (once and run.source == "-" if wanted is None else wanted):
        return
    if run.reading.get("parse"):
        raise ParameterError(
            "columns of a stream cannot be parsed: their cells pass by once",
            remedy="Leave out --parse or --stream.",
        )
    from sfumato.tables.stream import stream

    assert run.source is not None
    left_out = ("engine", "parse", "unparsed")
    reading = {name: value for name, value in run.reading.items() if name not in left_out}
    run.table = stream(run.source, exclude=split_columns(run.exclude), **reading)
