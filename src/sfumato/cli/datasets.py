"""``sfumato datasets``: public tables to try things on, as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import RenderableType
from rich.table import Table

from sfumato.cli._options import Force, Output, argument, examples, new_app, option
from sfumato.cli._running import Run, verb
from sfumato.errors import ParameterError
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.datasets import Dataset, Listing, Saved

app = new_app()


@app.command(
    epilog=examples(
        "sfumato datasets",
        "sfumato datasets adult -o adult.csv",
        "sfumato datasets arx_adult -o adult.csv --hierarchies adult-trees",
    )
)
@verb
def datasets(
    run: Run,
    name: Annotated[str | None, argument("[NAME]", "Which one; lists all if none.")] = None,
    output: Output = None,
    hierarchies: Annotated[
        Path | None, option("--hierarchies FOLDER", "Where to write its generalization trees.")
    ] = None,
    force: Force = False,
) -> None:
    """Public tables to try things on, as files.

    Without a name, lists them with their licence. The smallest come with the program, all with a
    clone of its repository. Elsewhere others are fetched once from the address in
    SFUMATO_DATASETS_URL, and kept in the cache.
    """
    from sfumato import datasets as tables

    if name is None and output is None and hierarchies is None:
        run.show(tables.listing(), _all)
    elif name is None:
        raise ParameterError("no dataset is named", remedy="Name one: sfumato datasets adult …")
    elif output is not None:
        run.show(tables.save(name, output, trees=hierarchies, force=force), _written)
    elif hierarchies is not None:
        raise ParameterError("there is no file to write", remedy="Name one with --output.")
    else:
        run.show(tables.describe(name), _one)


def _all(found: Listing) -> RenderableType:
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "rows", "columns", "licence"):
        lines.add_column(heading, justify="right" if heading in ("rows", "columns") else "left")
    for one in found.datasets:
        lines.add_row(one.name, f"{one.rows:,}", str(one.columns), one.licence)
    return lines


def _one(found: Dataset) -> str:
    return (
        f"{found.name}  {counted(found.rows, 'row')}, {counted(found.columns, 'column')}\n"
        f"{found.about}\nSource: {found.source}\nLicence: {found.licence}"
    )


def _written(saved: Saved) -> str:
    trees = f"\nIts hierarchies: {saved.hierarchies}" if saved.hierarchies else ""
    return f"{_one(saved.dataset)}\n\nWritten: {saved.output}{trees}"
