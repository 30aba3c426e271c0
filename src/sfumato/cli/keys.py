"""``sfumato key``, ``keys``, ``violations`` and ``uniques``: searches for columns that identify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    Beta,
    Columns,
    MaxSize,
    Measuring,
    Person,
    Seed,
    Weights,
    examples,
    flag,
    new_app,
    option,
    parse_numbers,
    parse_weights,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, Stream, figures, read_as_stream, table_verb, titled
from sfumato.wording import counted, hundredths, noun, percent

if TYPE_CHECKING:
    from sfumato.quasi.key import Key
    from sfumato.quasi.minimal_keys import MinimalKeys
    from sfumato.quasi.uniques import Uniques
    from sfumato.quasi.violations import Violations

app = new_app()


SAMPLING = "Sampling"


Unit = Literal["rows", "pairs"]
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
    measure: Measuring = "key",
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
    by: Annotated[Unit, setting("--by", "What to sample.", SAMPLING)] = "rows",
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
    """Find a small set of columns that tells people apart.

    By default a greedy search on all rows adds the column that separates most pairs, and drops
    what became redundant. --proven finds the minimum and proves it. --eps looks at a sample only,
    and the answer says what it promises.
    """
    from sfumato.quasi.key import minimum_key

    once = eps is not None and not verify and (measure != "distinct" or sample is not None)
    read_as_stream(run, stream, once=once)
    read = {"columns": run.columns(columns), "weights": parse_weights(weights)}
    found = minimum_key(run.table, **run.asked("stream", **read))
    run.show(found, view_key)
    if found.sample is not None and found.verified is False:
        raise typer.Exit(1)


def view_key(found: Key) -> RenderableType:
    """The column set as a person reads it."""
    title = Text(", ".join(found.columns) or "no columns at all", style="bold")
    lines = figures()
    weight = "" if found.weight == found.size else f", weight {found.weight:g}"
    lines.add_row(f"{found.size}", f"{noun('columns', found.size)}{weight}")
    if found.proven_minimum:
        lines.add_row("proven", "no cheaper set does it")
    elif found.lower_bound is not None:
        lines.add_row(f"{found.lower_bound:g}", "is the least any set can weigh")
    elif found.size > 1:
        one, most = ("cheaper", "cheapest") if weight else ("smaller", "smallest")
        lines.add_row("greedy", f"a {one} set may do it, too; --proven finds the {most}")
    if found.sample is not None:
        lines.add_row(f"{found.sample.size:,}", f"sampled {found.sample.unit}{_promise(found)}")
    if found.measures is not None:
        who = (
            "rows are alone in their"
            if found.measures.persons is None
            else "persons are alone in a"
        )
        lines.add_row(hundredths(found.measures.unique), f"of {who} class")
        lines.add_row(f"{found.measures.distinct:.6g}", "distinct ratio")
        lines.add_row(f"{found.measures.separation:.9g}", "separation ratio")
    if found.stopped_by:
        lines.add_row("stopped", f"by {found.stopped_by}: this is the best found so far")
    notes = [Text(note) for note in found.notes]
    return Group(title, "", lines, "", *notes, _verdict_of_key(found))


def _promise(found: Key) -> str:
    """What the sample promises, as long as all rows do not contradict it."""
    sample = found.sample
    if sample is None or sample.promised is None or found.verified is False:
        return ""
    kept = f"{sample.measure} ratio at least {sample.promised:g}"
    return f": {kept} with probability {1 - sample.delta:g}"


def _verdict_of_key(found: Key) -> str:
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


SHOWN_KEYS = 40


Method = Literal[
    "auto", "depth-first", "levelwise", "pruned", "iterative", "hitting-set", "agree-sets"
]
"""How the sets are searched for."""


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
    measure: Measuring = "key",
    beta: Beta = None,
    max_size: MaxSize = None,
    method: Annotated[Method, setting("--method", "How to search; all agree.")] = "auto",
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
    """Find all minimal sets of columns that tell people apart.

    No column of a set can be left out. Of columns that say the same in other words only one is
    listed.
    """
    from sfumato.quasi.minimal_keys import minimal_keys

    drawn = parse_numbers(samples, "--samples 0.01,0.1")
    found = minimal_keys(run.table, **run.asked(columns=run.columns(columns), samples=drawn))
    run.show(found, view_keys)


def view_keys(found: MinimalKeys) -> RenderableType:
    """The sets as a person reads them."""
    lines = [Text("  " + ", ".join(key) if key else "  no columns at all") for key in found.keys]
    if len(lines) > SHOWN_KEYS:
        hidden = len(lines) - SHOWN_KEYS
        lines = [
            *lines[:SHOWN_KEYS],
            Text(f"  … and {hidden:,} more (--json has all)", style="dim"),
        ]
    same = [
        Text(f"  {name} could be {' or '.join(others)}")
        for name, others in found.equivalents.items()
    ]
    title = counted(len(found.keys), "minimal set")
    if found.represents > len(found.keys):
        stand = "stands" if len(found.keys) == 1 else "stand"
        title += f", which {stand} for {found.represents:,} (--expand lists them)"
    parts: list[RenderableType] = [Text(title, style="bold"), *lines]
    if same:
        parts += titled("Columns that say the same", *same)
    return Group(*parts, "", *map(Text, found.notes), _verdict_of_keys(found))


def _verdict_of_keys(found: MinimalKeys) -> str:
    if not found.complete:
        why = f"stopped by {found.stopped_by}" if found.stopped_by else "by the size cap"
        return f"There may be more: the search was not finished ({why})."
    if found.delta is not None:
        return f"These are all, except with probability {found.delta:g} (pruned by samples)."
    other = " or one it stands for" if found.represents > len(found.keys) else ""
    return f"These are all: any set that identifies people contains one of them{other}."


SHOWN_VIOLATIONS = 30


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
    max_size: MaxSize = None,
    order: Annotated[
        list[str] | None,
        option(
            "--order A,B,…",
            "Columns that the descent leaves out first, in this order; then the last ones first.",
        ),
    ] = None,
    restarts: Annotated[
        int, setting("--restarts N", "Further descents in random order.", min=0)
    ] = 0,
    seed: Seed = 0,
) -> None:
    """Find the minimal column sets that break k-anonymity.

    Also finds a minimal set that identifies rows as well as all columns together, by leaving out
    one column after the other.
    """
    from sfumato.quasi.violations import violations as find

    ordered = split_columns(order, run.table.columns if order else ())
    found = find(run.table, **run.asked(columns=run.columns(columns), order=ordered))
    run.show(found, view_violations)


def view_violations(found: Violations) -> RenderableType:
    """The violations as a person reads them."""
    parts = []
    if found.minimal:
        title = counted(len(found.minimal), "minimal set", does="make")
        fewer = f"a class of fewer than {found.k} {found.counted}"
        parts.append(Text(f"{title} {fewer}", style="bold"))
        parts += [
            Text("  " + (", ".join(s) or "no columns")) for s in found.minimal[:SHOWN_VIOLATIONS]
        ]
        if len(found.minimal) > SHOWN_VIOLATIONS:
            more = len(found.minimal) - SHOWN_VIOLATIONS
            parts.append(Text(f"  … and {more:,} more (--json has all)", style="dim"))
        parts.append(Text())
    parts.append(Text("A minimal set that identifies as well as all columns", style="bold"))
    parts.append(Text("  " + (", ".join(found.identifying) or "no columns")))
    if len(found.descents) > 1:
        times = found.descents[0]["times"]
        total = sum(item["times"] for item in found.descents)
        parts.append(Text(f"  reached in {times} of {total} descents"))
    return Group(*parts, Text(), *map(Text, found.notes), Text(_verdict_of_violations(found)))


def _verdict_of_violations(found: Violations) -> str:
    if found.k_anonymous:
        return f"The table is {found.k}-anonymous whatever columns somebody knows."
    rest = "" if found.complete else " There may be further sets: the search was not finished."
    return (
        f"The table is not {found.k}-anonymous: with all columns the smallest class has "
        f"{found.smallest} {noun(found.counted, found.smallest)}.{rest}"
    )


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
    """Find the rows that few columns single out, with SUDA and DIS scores.

    A minimal unique is a column set on which a row is alone, although it is alone on no subset.
    Rows are numbered from 0 in the order of the table; their values are not shown.
    """
    from sfumato.quasi.uniques import uniques as find

    found = find(run.table, **run.asked(columns=run.columns(columns)))
    run.show(found, view_uniques)


def view_uniques(found: Uniques) -> RenderableType:
    """The exposed rows as a person reads them."""
    sizes = figures(first=False)
    alone = "alone" if found.persons is None else "like no other person’s"
    for item in found.by_size:
        sizes.add_row(
            f"{item['rows']:>10,}",
            f"rows are {alone} on {counted(item['size'], 'column')} "
            f"({counted(item['uniques'], 'minimal set')})",
        )
    strength = figures(first=False)
    for name, share in sorted(found.columns.items(), key=lambda item: -item[1])[:12]:
        if share:
            strength.add_row(name, f"{share:>6.1%}", "█" * round(30 * share))
    parts: list[RenderableType] = [Text("Alone on few columns", style="bold"), sizes]
    if found.exposed_rows:
        parts += titled("Columns that give people away", strength)
    if found.riskiest:
        parts += titled("Riskiest rows", _rows(found))
    parts.append("")
    if not found.complete:
        parts.append(f"Stopped by {found.stopped_by}: not all sets were looked at.")
    verdict = (
        f"{_exposed(found)} can be singled out by at most {counted(found.max_size, 'column')}; a "
        f"match with a unique row is right with probability {percent(found.dis)}."
    )
    return Group(*parts, verdict)


def _exposed(found: Uniques) -> str:
    if found.persons is None:
        return f"{found.exposed_rows:,} of {found.rows:,} rows"
    return f"{found.exposed_persons:,} of {found.persons:,} persons"


def _rows(found: Uniques) -> RenderableType:
    rows = figures(first=False)
    for item in found.riskiest:
        counts = ", ".join(
            f"{count} of {size}" for size, count in enumerate(item.by_size, start=1) if count
        )
        name = "a row" if item.row is None else f"row {item.row:,}"
        rows.add_row(name, f"score {item.score:,.0f}", f"sets: {counts}")
    return rows
