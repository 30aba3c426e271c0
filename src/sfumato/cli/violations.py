"""``sfumato violations``: which column sets break k-anonymity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    Columns,
    Person,
    Seed,
    examples,
    new_app,
    option,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, table_verb
from sfumato.wording import noun

if TYPE_CHECKING:
    from sfumato.quasi.violations import Violations

app = new_app()
SHOWN = 30


@app.command(
    epilog=examples(
        "sfumato violations people.csv -k 5",
        "sfumato violations people.csv -k 2 -c birth_date,sex,zip",
        "sfumato violations people.parquet --restarts 100",
    )
)
@table_verb
def violations(
    run: Run,
    columns: Columns = None,
    person: Person = None,
    k: Annotated[int, setting("-k N", "Classes of fewer than N are violations.")] = 2,
    max_size: Annotated[
        int | None, option("--max-size N", "Only sets of at most N columns.")
    ] = None,
    order: Annotated[
        list[str] | None,
        option(
            "--order A,B,…",
            "Order in which the descent leaves columns out; last column first if not given.",
        ),
    ] = None,
    restarts: Annotated[
        int, setting("--restarts N", "Further descents in random order.", min=0)
    ] = 0,
    seed: Seed = 0,
) -> None:
    """The minimal column sets that break k-anonymity.

    Also descends to a minimal set that identifies rows as well as all columns do, by leaving out
    one column after the other.
    """
    from sfumato.quasi.violations import violations as find

    found = find(
        run.table,
        k=k,
        columns=run.columns(columns),
        max_size=max_size,
        order=split_columns(order, run.table.columns if order else ()),
        restarts=restarts,
        seed=seed,
        person=person,
        budget=run.budget,
    )
    run.show(found, view)


def view(found: Violations) -> RenderableType:
    """The violations as a person reads them."""
    parts = []
    if found.minimal:
        fewer = f"fewer than {found.k} {found.counted}"
        title = f"{len(found.minimal):,} minimal sets make a class of {fewer}"
        parts.append(Text(title, style="bold"))
        parts += [Text("  " + (", ".join(s) or "no columns")) for s in found.minimal[:SHOWN]]
        if len(found.minimal) > SHOWN:
            more = len(found.minimal) - SHOWN
            parts.append(Text(f"  … and {more:,} more (--json has all)", style="dim"))
        parts.append(Text())
    parts.append(Text("A minimal set that identifies as well as all columns", style="bold"))
    parts.append(Text("  " + (", ".join(found.identifying) or "no columns")))
    if len(found.descents) > 1:
        times = found.descents[0]["times"]
        total = sum(item["times"] for item in found.descents)
        parts.append(Text(f"  reached in {times} of {total} descents"))
    return Group(*parts, Text(), Text(_verdict(found)))


def _verdict(found: Violations) -> str:
    if found.k_anonymous:
        return f"The table is {found.k}-anonymous whatever columns somebody knows."
    rest = "" if found.complete else " There may be further sets: the search was not finished."
    return (
        f"The table is not {found.k}-anonymous: with all columns the smallest class has "
        f"{found.smallest} {noun(found.counted, found.smallest)}.{rest}"
    )
