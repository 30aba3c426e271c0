"""``sfumato keys``: all minimal sets of columns that identify rows."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    Beta,
    Columns,
    MaxSize,
    Measure,
    Measuring,
    Person,
    Seed,
    examples,
    flag,
    new_app,
    option,
    setting,
)
from sfumato.cli._running import Run, table_verb
from sfumato.errors import ParameterError
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.quasi.minimal_keys import MinimalKeys

app = new_app()
SHOWN = 40


class Method(StrEnum):
    """How the sets are searched for."""

    auto = "auto"
    depth_first = "depth-first"
    levelwise = "levelwise"
    pruned = "pruned"
    iterative = "iterative"
    hitting_set = "hitting-set"
    agree_sets = "agree-sets"


@app.command(
    epilog=examples(
        "sfumato keys people.csv",
        "sfumato keys people.csv --measure separation --beta 0.999",
        "sfumato keys people.parquet --measure distinct --beta 0.9 --max-size 4",
    )
)
@table_verb
def keys(
    run: Run,
    columns: Columns = None,
    person: Person = None,
    measure: Measuring = Measure.key,
    beta: Beta = None,
    max_size: MaxSize = None,
    method: Annotated[Method, setting("--method", "How to search; all agree.")] = Method.auto,
    expand: Annotated[
        bool, flag("--expand", "Name a set for every choice of columns that say the same.")
    ] = False,
    delta: Annotated[
        float, setting("--delta SHARE", "Probability with which pruning by samples may lose a set.")
    ] = 0.01,
    samples: Annotated[
        str | None,
        option(
            "--samples SIZE,SIZE,…",
            "Samples of --method iterative, growing: shares of the rows up to 1, rows above.",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """All minimal sets of columns that tell people apart.

    No column of a set can be left out. Columns that say the same in other words stand for each
    other and are named once.
    """
    from sfumato.quasi.minimal_keys import minimal_keys

    found = minimal_keys(
        run.table,
        columns=run.columns(columns),
        measure=measure.value,
        beta=beta,
        max_size=max_size,
        method=method.value,
        expand=expand,
        delta=delta,
        samples=None if samples is None else _sizes(samples),
        seed=seed,
        person=person,
        budget=run.budget,
    )
    run.show(found, view)


def _sizes(given: str) -> list[float]:
    try:
        return [float(size) for size in given.split(",")]
    except ValueError as error:
        raise ParameterError(
            "the sizes of samples are numbers", remedy="For example --samples 0.01,0.1."
        ) from error


def view(found: MinimalKeys) -> RenderableType:
    """The sets as a person reads them."""
    lines = [Text("  " + ", ".join(key) if key else "  no columns at all") for key in found.keys]
    if len(lines) > SHOWN:
        hidden = len(lines) - SHOWN
        lines = [*lines[:SHOWN], Text(f"  … and {hidden:,} more (--json has all)", style="dim")]
    same = [
        Text(f"  {name} could be {' or '.join(others)}")
        for name, others in found.equivalents.items()
    ]
    title = f"{counted(len(found.keys), 'minimal set')}"
    if found.represents > len(found.keys):
        stand = "stands" if len(found.keys) == 1 else "stand"
        title += f", which {stand} for {found.represents:,} (--expand lists them)"
    parts = [Text(title, style="bold"), *lines]
    if same:
        parts += [Text(), Text("Columns that say the same", style="bold"), *same]
    parts += [Text(), *(Text(note) for note in found.notes), Text(_verdict(found))]
    return Group(*parts)


def _verdict(found: MinimalKeys) -> str:
    if not found.complete:
        why = f"stopped by {found.stopped_by}" if found.stopped_by else "by the size cap"
        return f"There may be more: the search was not finished ({why})."
    if found.delta is not None:
        return f"These are all, but for a probability of {found.delta:g} (pruned by samples)."
    other = " or one it stands for" if found.represents > len(found.keys) else ""
    return f"These are all: any set that identifies people contains one of them{other}."
