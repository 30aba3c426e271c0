"""``sfumato key``: a small set of columns that identifies rows, or the smallest."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import (
    Beta,
    Columns,
    MaxSize,
    Measure,
    Measuring,
    Person,
    Seed,
    Weights,
    examples,
    flag,
    new_app,
    option,
    parse_weights,
    setting,
)
from sfumato.cli._running import Run, Stream, read_as_stream, table_verb

if TYPE_CHECKING:
    from sfumato.quasi.key import Key

app = new_app()
SAMPLING = "Sampling"


Unit = StrEnum("Unit", ["rows", "pairs"])
"""What a sample is made of."""


@app.command(
    epilog=examples(
        "sfumato key people.csv",
        "sfumato key people.csv --proven",
        "sfumato key people.parquet --eps 0.001",
        "cat people.csv | sfumato key - --eps 0.001",
        "sfumato key people.parquet --measure distinct --beta 0.9 --weights ssn=10",
    )
)
@table_verb
def key(
    run: Run,
    columns: Columns = None,
    person: Person = None,
    measure: Measuring = Measure.key,
    beta: Beta = None,
    weights: Weights = None,
    proven: Annotated[bool, flag("--proven", "Find the minimum and prove that it is one.")] = False,
    max_size: MaxSize = None,
    eps: Annotated[
        float | None,
        option(
            "--eps SHARE",
            "Answer from a sample that may miss this share of rows or pairs.",
            SAMPLING,
        ),
    ] = None,
    delta: Annotated[
        float, setting("--delta SHARE", "Probability with which the promise may fail.", SAMPLING)
    ] = 0.01,
    by: Annotated[Unit, setting("--by", "What to sample.", SAMPLING)] = Unit.rows,
    sample: Annotated[
        int | None,
        option("--sample N", "Draw N rows or pairs instead of what the promise needs.", SAMPLING),
    ] = None,
    verify: Annotated[
        bool | None,
        option(
            "--verify/--no-verify",
            "Check a sampled answer on all rows; by default where the rows are local.",
            SAMPLING,
        ),
    ] = None,
    stream: Stream = None,
    seed: Seed = 0,
) -> None:
    """A small set of columns that tells people apart.

    Without options the search is exact: it adds the column that separates most pairs of rows, and
    drops what became redundant. With --proven the answer is the minimum, and the proof is printed.
    With --eps only a sample is looked at, and the answer says what it promises.
    """
    from sfumato.quasi.key import minimum_key

    once = eps is not None and not verify and (measure != Measure.distinct or sample is not None)
    read_as_stream(run, stream, once=once)
    found = minimum_key(
        run.table,
        columns=run.columns(columns),
        measure=measure.value,
        eps=eps,
        delta=delta,
        beta=beta,
        weights=parse_weights(weights),
        proven=proven,
        by=by.value,
        sample=sample,
        max_size=max_size,
        verify=verify,
        seed=seed,
        person=person,
        budget=run.budget,
    )
    run.show(found, view)
    if found.sample is not None and found.verified is False:
        raise typer.Exit(1)


def view(found: Key) -> RenderableType:
    """The column set as a person reads it."""
    title = Text(", ".join(found.columns) or "no columns at all", style="bold")
    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", style="bold")
    lines.add_column()
    weight = "" if found.weight == found.size else f", weight {found.weight:g}"
    lines.add_row(f"{found.size}", f"column{'s' if found.size != 1 else ''}{weight}")
    if found.proven_minimum:
        lines.add_row("proven", "no cheaper set does it")
    elif found.lower_bound is not None:
        lines.add_row(f"{found.lower_bound:g}", "is the least any set can weigh")
    elif found.size > 1:
        lines.add_row("greedy", "a smaller set may do it, too; --proven finds the smallest")
    if found.sample is not None:
        lines.add_row(f"{found.sample.size:,}", f"sampled {found.sample.unit}{_promise(found)}")
    if found.measures is not None:
        who = (
            "rows are alone in their"
            if found.measures.persons is None
            else "persons are alone in a"
        )
        lines.add_row(f"{found.measures.unique:.2%}", f"of {who} class")
        lines.add_row(f"{found.measures.distinct:.6g}", "distinct ratio")
        lines.add_row(f"{found.measures.separation:.9g}", "separation ratio")
    if found.stopped_by:
        lines.add_row("stopped", f"by {found.stopped_by}: this is the best found so far")
    notes = [Text(note) for note in found.notes]
    return Group(title, "", lines, "", *notes, _verdict(found))


def _promise(found: Key) -> str:
    """What the sample promises, as long as all rows do not contradict it."""
    sample = found.sample
    if sample is None or sample.promised is None or found.verified is False:
        return ""
    kept = f"{sample.measure} ratio at least {sample.promised:g}"
    return f": {kept} with probability {1 - sample.delta:g}"


def _verdict(found: Key) -> str:
    if not found.columns:
        return "Nothing needs to be told apart."
    if found.is_key:
        by_persons = found.measures is not None and found.measures.persons is not None
        one = "their rows and nobody else's" if by_persons else "exactly one row"
        return f"Whoever knows these columns of a person finds {one}."
    if found.measures is not None and found.measures.persons is not None:
        alone = found.measures.unique_persons
        return f"Whoever knows these columns finds {alone:,} of {found.measures.persons:,} persons."
    if found.measures is not None:
        alone = found.measures.unique_rows
        return f"Whoever knows these columns finds {alone:,} of {found.measures.rows:,} rows alone."
    promise = _promise(found).removeprefix(": ")
    if not promise:
        return "How well these columns tell the rows apart was not measured (--verify does)."
    return f"Promised, not measured on all rows (--verify does): {promise}."
