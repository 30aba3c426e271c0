"""``sfumato mask`` and ``sfumato safe-harbor``: publish whole columns, drop or coarsen others."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    DRY,
    Person,
    Publishing,
    Seed,
    Sort,
    Weights,
    examples,
    flag,
    new_app,
    new_file,
    option,
    parse_weights,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, Stream, figures, listed, noted, read_as_stream, table_verb
from sfumato.errors import ParameterError
from sfumato.files import read_text
from sfumato.wording import counted, hundredths, ratio

if TYPE_CHECKING:
    from sfumato.release import Release

app = new_app()


Measure = Literal["distinct", "separation"]
"""What must stay small."""


@app.command(
    epilog=examples(
        "sfumato mask people.csv --beta 0.2 -o masked.csv",
        "sfumato mask people.csv --beta 0.5 --publish diagnosis --drop ssn -o masked.csv",
        "sfumato mask people.parquet --measure separation --beta 0.8 --proven",
    )
)
@table_verb
def mask(
    run: Run,
    beta: Annotated[
        float,
        option(
            "--beta RATIO",
            "The largest ratio of the published columns; 0.2 distinct: five alike on average.",
        ),
    ],
    measure: Annotated[Measure, setting("--measure", "Which ratio.")] = "distinct",
    weights: Weights = None,
    publish: Annotated[
        list[str] | None, option("--publish A,B,…", "Columns published in any case.")
    ] = None,
    drop: Annotated[
        list[str] | None, option("--drop A,B,…", "Columns left out in any case.")
    ] = None,
    proven: Annotated[bool, flag("--proven", "Find the largest set and prove it.")] = False,
    sample: Annotated[
        int | None, option("--sample N", "Work on N sampled rows (pairs for separation).")
    ] = None,
    delta: Annotated[
        float, setting("--delta SHARE", "Probability with which a sample may mislead.")
    ] = 0.01,
    person: Person = None,
    rows_are_people: Annotated[
        bool, flag("--rows-are-people", "Publish columns although they seem to name persons.")
    ] = False,
    sort: Sort = False,
    stream: Stream = None,
    seed: Seed = 0,
    publishing: Publishing = DRY,
) -> None:
    """Publish many columns with no quasi-identifier among them; as many as possible with --proven.

    Columns are left out until no set of the published ones exceeds the ratio. The output is read
    back and measured before it gets its name, and a certificate is written beside it. Without -o
    nothing is written: the answer says what would be published.
    """
    from sfumato.quasi.mask import mask as mask_table

    read_as_stream(run, stream, once=sample is not None and publishing.output is None)
    known = run.table.columns
    read = {
        "weights": parse_weights(weights),
        "must_publish": split_columns(publish, known) or (),
        "must_drop": split_columns(drop, known) or (),
    }
    release = mask_table(run.table, **run.asked("stream", "publish", "drop", **read))
    run.show(release, view_mask)


def view_mask(release: Release) -> RenderableType:
    """What is published, what not, and why."""
    details = release.details
    published, dropped = details["published"], details["dropped"]
    sampled = details["sample"] is not None  # it keeps a margin, and says nothing for sure
    would, does = ("may", "may identify") if sampled else ("would", "identifies")
    lines = figures(first=False)
    for name in dropped:
        why = details["why"].get(name, "")
        if isinstance(why, tuple):
            others = [other for other in why if other != name]
            why = f"{would} identify with {', '.join(others)}" if others else f"{does} by itself"
        lines.add_row(f"  {name}", str(why))
    measures = details["measures"]
    parts: list[RenderableType] = [
        Text(f"{counted(len(published), 'column')} can be published", style="bold"),
        Text("  " + ", ".join(published)),
        Text(),
    ]
    if dropped:
        parts += [
            Text(f"{counted(len(dropped), 'column', does='are')} left out", style="bold"),
            lines,
            Text(),
        ]
    if measures is not None:
        who = "rows" if measures.persons is None else "persons"
        parts.append(
            Text(
                f"distinct ratio {measures.distinct:.6g}, separation ratio "
                f"{ratio(measures.separation)}, {hundredths(measures.unique)} of {who} alone"
            )
        )
    parts += noted(release)
    if details["proven_optimum"]:
        parts.append(Text("Proven: no heavier set of columns can be published."))
    elif details["upper_bound"] is not None:
        parts.append(Text(f"No set weighs more than {details['upper_bound']:g}."))
    elif release.stopped_by:
        parts.append(Text("The search was stopped: more may be possible; allow more time."))
    elif dropped:
        only = " on all rows" if sampled else ""
        parts.append(Text(f"Chosen greedily: more may be possible; --proven finds out{only}."))
    parts.append(Text(_verdict(release)))
    return Group(*parts)


def _verdict(release: Release) -> str:
    if release.output is None:
        return "Nothing was written; give -o FILE to publish."
    return f"Published and verified: {release.output}, with its certificate beside it."


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
        str | None, option("--as-of DATE", "Day on which ages are counted; today by default.")
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
    sort: Sort = False,
    publishing: Publishing = DRY,
    seed: Seed = 0,
) -> None:
    """Remove or coarsen the eighteen identifiers that HIPAA's Safe Harbor lists.

    Columns are recognised by name and content. Names, numbers and addresses are dropped; ZIP codes
    keep three digits (none where few people live) and dates their year; ages above 89 become 90+.
    Without -o nothing is written: the list shows what would happen and what you must decide.
    """
    from sfumato.populations.safe_harbor import RESTRICTED_AREAS, read_areas
    from sfumato.populations.safe_harbor import safe_harbor as make

    if publishing.output is not None:
        new_file(publishing.output, True, areas)
    restricted = RESTRICTED_AREAS
    if areas is not None:
        restricted = read_areas(read_text(areas, "the list of areas").splitlines())
    read = {
        "keep": run.columns(keep) or (),
        "drop": run.columns(drop) or (),
        "as_of": _day(as_of),
        "restricted_areas": restricted,
    }
    release = make(run.table, **run.asked("areas", **read))
    run.show(release, view_safe_harbor)


def _day(text: str | None) -> dt.date | None:
    try:
        return None if text is None else dt.date.fromisoformat(text)
    except ValueError as error:
        raise ParameterError(
            "the day on which ages are counted cannot be read", remedy="Write e.g. 2024-12-31."
        ) from error


def view_safe_harbor(release: Release) -> RenderableType:
    """The release as a person reads it."""
    table = listed(("column", "law", "what was done", "why"))
    for column in release.details["columns"]:
        style = "yellow" if column["undecided"] else None
        table.add_row(
            column["column"], column["kind"] or "", column["action"], column["why"], style=style
        )
    if release.output is None:
        end = "Nothing was written: give -o FILE to make this release."
    else:
        end = f"Written{' and verified' if release.findings else ''}: {release.output}"
    return Group(table, "", *noted(release), end)
