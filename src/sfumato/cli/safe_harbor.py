"""``sfumato safe-harbor``: de-identify a table as HIPAA lists it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import (
    DRY,
    Publishing,
    Seed,
    examples,
    flag,
    new_app,
    new_file,
    option,
)
from sfumato.cli._running import Run, table_verb
from sfumato.errors import ParameterError
from sfumato.files import read_text

if TYPE_CHECKING:
    from sfumato.release import Release

app = new_app()


@app.command(
    epilog=examples(
        "sfumato safe-harbor patients.csv",
        "sfumato safe-harbor patients.csv -o release.csv --as-of 2024-12-31",
        "sfumato safe-harbor patients.csv -o release.csv --drop language --areas zip3.csv",
    )
)
@table_verb
def safe_harbor(
    run: Run,
    keep: Annotated[
        list[str] | None, option("--keep A,B,…", "Columns to leave as they are.")
    ] = None,
    drop: Annotated[
        list[str] | None, option("--drop A,B,…", "Columns to drop in any case.")
    ] = None,
    as_of: Annotated[
        str | None, option("--as-of DATE", "Day on which ages are counted. Today if not given.")
    ] = None,
    areas: Annotated[
        str | None,
        option(
            "--areas FILE",
            "Small three-digit ZIP areas, one per line, or lines of area,population; instead "
            "of the list of the guidance.",
        ),
    ] = None,
    pad_zip: Annotated[
        bool, flag("--pad-zip", "Put back leading zeros that ZIP codes lost.")
    ] = False,
    publishing: Publishing = DRY,
    seed: Seed = 0,
) -> None:
    """Remove or coarsen the eighteen identifiers that HIPAA's Safe Harbor lists.

    Columns are recognised by name and content. Names, numbers and addresses are dropped, ZIP codes
    keep three digits (none where few people live), dates their year, ages above 89 become 90+.
    Without -o nothing is written: the list shows what would happen and what a person must decide.
    """
    from sfumato.populations.safe_harbor import RESTRICTED_AREAS, read_areas
    from sfumato.populations.safe_harbor import safe_harbor as make

    if publishing.output is not None:
        new_file(publishing.output, True, areas)
    restricted = RESTRICTED_AREAS
    if areas is not None:
        restricted = read_areas(read_text(areas, "the list of areas").splitlines())
    release = make(
        run.table,
        keep=run.columns(keep) or (),
        drop=run.columns(drop) or (),
        as_of=_day(as_of),
        restricted_areas=restricted,
        pad_zip=pad_zip,
        seed=seed,
        **vars(publishing),
        budget=run.budget,
    )
    run.show(release, view)


def _day(text: str | None) -> dt.date | None:
    try:
        return None if text is None else dt.date.fromisoformat(text)
    except ValueError as error:
        raise ParameterError(
            "the day on which ages are counted cannot be read", remedy="Write e.g. 2024-12-31."
        ) from error


def view(release: Release) -> RenderableType:
    """The release as a person reads it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("column", "law", "what was done", "why"):
        table.add_column(heading)
    for column in release.details["columns"]:
        style = "yellow" if column["undecided"] else None
        table.add_row(
            column["column"], column["kind"] or "", column["action"], column["why"], style=style
        )
    if release.output is None:
        end = "Nothing was written: give -o FILE to make this release."
    else:
        end = f"Written and verified: {release.output}"
    warnings = [Text(f"! {warning}", style="yellow") for warning in release.warnings]
    return Group(table, "", *warnings, end)
