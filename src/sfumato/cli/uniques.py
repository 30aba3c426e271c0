"""``sfumato uniques``: the rows that few columns single out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import Columns, Person, examples, new_app, setting
from sfumato.cli._running import Run, table_verb

if TYPE_CHECKING:
    from sfumato.quasi.uniques import Uniques

app = new_app()


@app.command(
    epilog=examples(
        "sfumato uniques people.csv --max-size 3",
        "sfumato uniques people.csv -c birth_date,sex,zip --sampling-fraction 0.05",
    )
)
@table_verb
def uniques(
    run: Run,
    columns: Columns = None,
    person: Person = None,
    max_size: Annotated[
        int, setting("--max-size N", "Column sets of at most N columns.", min=1)
    ] = 3,
    sampling_fraction: Annotated[
        float, setting("--sampling-fraction SHARE", "Share of the population that is in the table.")
    ] = 0.01,
    top: Annotated[int, setting("--top N", "How many of the riskiest rows to list.", min=0)] = 10,
) -> None:
    """The rows that few columns single out, with SUDA and DIS scores.

    A minimal unique is a column set on which a row is alone, and on none of whose subsets it is.
    Rows are numbered from 0 in the order of the table; their values are not shown.
    """
    from sfumato.quasi.uniques import uniques as find

    found = find(
        run.table,
        max_size=max_size,
        columns=run.columns(columns),
        sampling_fraction=sampling_fraction,
        top=top,
        person=person,
        budget=run.budget,
    )
    run.show(found, view)


def view(found: Uniques) -> RenderableType:
    """The exposed rows as a person reads them."""
    sizes = Table.grid(padding=(0, 2))
    for item in found.by_size:
        sizes.add_row(
            f"{item['rows']:>10,}",
            f"rows are alone on {item['size']} column{'s' if item['size'] > 1 else ''}"
            f" ({item['uniques']:,} minimal sets)",
        )
    strength = Table.grid(padding=(0, 2))
    for name, share in sorted(found.columns.items(), key=lambda item: -item[1])[:12]:
        if share:
            strength.add_row(name, f"{share:>6.1%}", "█" * round(30 * share))
    parts: list[RenderableType] = [Text("Alone on few columns", style="bold"), sizes, Text()]
    if found.exposed_rows:
        parts += [Text("Columns that give people away", style="bold"), strength, Text()]
    if found.riskiest:
        parts += [Text("Riskiest rows", style="bold"), _rows(found), Text()]
    if not found.complete:
        parts.append(Text(f"Stopped by {found.stopped_by}: not all sets were looked at."))
    parts.append(
        Text(
            f"{_exposed(found)} can be singled out by at most "
            f"{found.max_size} columns; a match with a unique row is right with probability "
            f"{found.dis:.1%}."
        )
    )
    return Group(*parts)


def _exposed(found: Uniques) -> str:
    if found.persons is None:
        return f"{found.exposed_rows:,} of {found.rows:,} rows"
    return f"{found.exposed_persons:,} of {found.persons:,} persons"


def _rows(found: Uniques) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    for item in found.riskiest:
        counts = ", ".join(
            f"{count} of {size}" for size, count in enumerate(item.by_size, start=1) if count
        )
        name = "a row" if item.row is None else f"row {item.row:,}"
        rows.add_row(name, f"score {item.score:,.0f}", f"sets: {counts}")
    return rows
