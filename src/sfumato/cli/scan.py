"""``sfumato scan``: the first look at a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import Columns, Person, Seed, examples, new_app
from sfumato.cli._running import Run, table_verb, titled
from sfumato.wording import counted, phrase

if TYPE_CHECKING:
    from sfumato.quasi.measure import Measures
    from sfumato.quasi.scan import ColumnScan, PersonScan, Scan

app = new_app()

HEADINGS = {
    "identifier": ("Points at one person", "bold red"),
    "quasi-identifier": ("Others may know it", "bold yellow"),
    "sensitive": ("Worth hiding", "bold magenta"),
    "other": ("Other columns", "bold"),
}
FLAGS = {
    "Keys": "key",
    "Nearly keys": "nearly a key",
    "Always the same": "constant",
    "Floats": "float",
    "Free text": "free text",
    "Codes": "codes",
}
LISTED = 40
"""Columns of a role that are listed on a terminal."""
BAR = 22
"""Width of a full bar."""
TELLING = (0.9, 0.5)
"""Shares of the rows that make a set of columns worth a sentence, the stronger first."""


@app.command(
    epilog=examples(
        "sfumato scan people.csv",
        "sfumato scan people.parquet --exclude name,ssn --json",
        "sfumato scan postgresql://localhost/clinic#patients",
        "sfumato scan hospital/dataset.toml -c patients.birth_date,admissions.diagnosis",
        "zcat people.csv.gz | sfumato scan -",
    )
)
@table_verb
def scan(run: Run, columns: Columns = None, person: Person = None, seed: Seed = 0) -> None:
    """First look at a table: who can be found in it, and by which columns.

    Counts every column, guesses which of them point at one person, which others may know and
    which are worth hiding, and shows how many rows the most identifying columns single out. The
    figures are exact; in large tables a sample, whose error is stated, chooses what to show. No
    cell of the table is ever printed.

    For a dataset (a dataset.toml, a folder of tables, postgresql://…#schema.*) it shows keys and
    references, how each table leads to the person, and who is found only after a join.
    """
    from sfumato.cli import _dataset
    from sfumato.quasi.scan import scan as look

    if run.names_dataset:
        run.show(_dataset.scanned(run, columns, person, seed), _dataset.scan_view)
        return

    found = look(run.table, run.columns(columns), person=person, seed=seed, budget=run.budget)
    run.show(found, view)


def view(found: Scan) -> RenderableType:
    """The first look as a person reads it, on a terminal of 80 columns."""
    parts: list[RenderableType] = [_title(found), ""]
    who = "Persons" if found.person is not None and found.person.counted else "Rows"
    alone = f"{who} that stand alone"
    if found.rows:
        parts += [_columns(found)]
        remarks = _remarks(found)
        if remarks.row_count:
            parts += titled("What stands out", remarks)
        if found.person is not None:
            parts += titled("Persons, not rows", Padding(_persons(found.person), (0, 2)))
        if found.ladder:
            parts += titled(f"{alone}, adding one column after the other", _ladder(found))
        if found.combinations:
            parts += titled(f"{alone} by two or three columns", _combinations(found))
        if found.choice is not None:
            parts += [Padding(Text(found.choice.said(found.rows), "dim"), (0, 0, 0, 2))]
        if found.proposed:
            parts += titled("Quasi-identifiers to blur", Padding(_proposal(found), (0, 2)))
    parts += titled("Who can be found", Padding(_verdict(found), (0, 2)))
    if found.next:
        parts += titled("What to do next", _steps(found))
    return Group(*parts)


def _title(found: Scan) -> Text:
    title = Text(found.table, style="bold cyan", overflow="fold")
    title.append(
        f"  {counted(found.rows, 'row')}, {counted(len(found.columns), 'column')}", "default"
    )
    if found.duplicate_rows:
        title.append(f", {counted(found.duplicate_rows, 'duplicate row')}: no key", "default")
    return title


def _columns(found: Scan) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", max_width=22, overflow="ellipsis", no_wrap=True)
    table.add_column("type", no_wrap=True)
    table.add_column("values", justify="right", no_wrap=True)
    table.add_column("empty", justify="right", no_wrap=True)
    table.add_column("alone", justify="right", no_wrap=True)
    table.add_column("sure", justify="right", no_wrap=True)
    table.add_column("why", style="dim", overflow="fold")
    for role, (heading, style) in HEADINGS.items():
        members = [column for column in found.columns if column.role == role]
        if not members:
            continue
        table.add_row(Text(heading, style))
        if len(members) > LISTED:
            members.sort(key=lambda column: -column.confidence)
        for column in members[:LISTED]:
            table.add_row(*_column(column, found.rows))
        if len(members) > LISTED:
            table.add_row(f"  … {len(members) - LISTED:,} more", *[""] * 5, "--json lists all")
    return table


def _column(column: ColumnScan, rows: int) -> list[str]:
    return [
        f"  {column.name}",
        column.type,
        f"{column.values:,}",
        _percent(column.nulls, rows) if column.nulls else "",
        _percent(column.unique_rows, rows) if column.unique_rows else "",
        f"{column.confidence:.0%}",
        column.why,
    ]


def _remarks(found: Scan) -> Table:
    """What stands out, each kind in a line."""
    lines = Table.grid(padding=(0, 1))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for label, flag in FLAGS.items():
        names = [column.name for column in found.columns if flag in column.flags]
        if names:
            lines.add_row(f"  {label}", phrase(names))
    for column in found.columns:
        if column.mostly is not None:
            lines.add_row("  Unparsed", f"{column.name}: {column.mostly}")
        if column.spelled is not None and column.role != "identifier":
            lines.add_row("  Spelling", f"{column.name}: {column.spelled}, and count as different")
    for group in found.twins:
        lines.add_row("  Say the same", " = ".join(group))
    return lines


def _persons(found: PersonScan) -> Text:
    """Who has several rows, and what counting rows would hide."""
    names = "names" if found.counted else "seems to name"
    text = Text(found.column, style="bold")
    text.append(
        f" {names} {counted(found.persons, 'person')} with {counted(found.rows, 'row')}.", "default"
    )
    if found.own:
        text.append(f" One value per person: {phrase(found.own)}.", "default")
    if found.by:
        text.append(
            f" By {phrase(found.by)}, {counted(found.unique_rows, 'row', does='stand')} alone; "
            "counted by persons, "
            f"{found.unique_persons:,} have a combination that nobody else has "
            f"({_percent(found.unique_persons, found.persons)})."
        )
    if not found.counted:
        text.append(f" Rows are counted below; persons are with --person {found.column}.")
    return text


def _ladder(found: Scan) -> Table:
    table = _figures()
    for at, rung in enumerate(found.ladder):
        table.add_row("+" if at else "", rung.columns[-1], *_alone(rung))
    return table


def _combinations(found: Scan) -> Table:
    table = _figures()
    for combination in found.combinations:
        table.add_row("", ", ".join(combination.columns), *_alone(combination))
    return table


def _figures() -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
    table.add_column(width=1, justify="right")
    table.add_column(width=36, overflow="fold")
    table.add_column(justify="right", no_wrap=True, width=10)
    table.add_column(justify="right", no_wrap=True, width=6)
    table.add_column(no_wrap=True, style="yellow", width=BAR)
    return table


def _alone(found: Measures) -> list[str]:
    bar = "█" * round(found.unique * BAR)
    return [f"{found.alone:,}", _percent(found.alone, found.total), bar]


def _steps(found: Scan) -> RenderableType:
    """What to do next; a command is copied from the terminal, so its line is never broken."""
    lines: list[RenderableType] = []
    for at, step in enumerate(found.next, 1):
        what, colon, command = step.partition(": sfumato ")
        told = Table.grid(padding=(0, 1))
        told.add_column(width=4, justify="right", no_wrap=True)
        told.add_row(f"{at}.", what + ":" * bool(colon))
        lines.append(told)
        if colon:
            lines.append(Text(f"     sfumato {command}", no_wrap=True, overflow="ignore"))
    return Group(*lines)


def _proposal(found: Scan) -> Text:
    text = Text(phrase(found.proposed, most=10), style="bold")
    return text.append(f"\n{found.proposal[0].upper()}{found.proposal[1:]}.", "dim")


def _verdict(found: Scan) -> Text:
    text = Text()
    if not found.rows:
        return text.append("Nobody: the table has no rows.")
    # a measured number that differs in every row finds nobody: who would know it?
    direct = [c.name for c in found.columns if "key" in c.flags and "float" not in c.flags]
    if direct:
        text.append("Everybody", "bold red").append(f", directly, by {phrase(direct)}. ")
    rung = _telling(found)
    known = found.ladder[-1].columns if found.ladder else ()
    if not known:
        others = "No other column" if direct else "No column"
        text.append(f"{others} was recognised that others may know, so nothing was counted.")
    elif rung is None:
        nobody = "Without them, nobody" if direct else "Nobody"
        text.append(f"{nobody} is the only one of their kind by {phrase(known)}.")
    else:
        text.append("Without them, " if direct else "")
        rows = found.person is not None and not found.person.counted
        text.append(f"{rung.alone:,} of {rung.total:,} {'rows' if rows else 'people'}", "bold red")
        be = "is" if rung.alone == 1 else "are"
        text.append(f" ({_percent(rung.alone, rung.total)}) {be} the only one with their ")
        text.append(phrase(rung.columns), "bold")
        text.append(": whoever knows that of a person finds their row")
        secret = found.with_role("sensitive")
        text.append(f", and with it {phrase(secret)}." if secret else ".")
    if found.stopped_by:
        text.append(f"\nStopped by {found.stopped_by}: there may be more.", "yellow")
    return text


def _telling(found: Scan) -> Measures | None:
    """The fewest columns that find nearly all people, or half of them, or as many as any."""
    sets = [*found.ladder, *found.combinations]
    for share in TELLING:
        telling = [m for m in sets if m.unique >= share]
        if telling:
            return min(telling, key=lambda m: (len(m.columns), -m.alone))
    most = max(sets, key=lambda m: m.alone, default=None)
    return most if most is not None and most.alone else None


def _percent(part: int, whole: int) -> str:
    return _ratio(part / whole) if part != whole else "100%"


def _ratio(share: float) -> str:
    """A share that does not claim all or nothing by rounding."""
    if 0 < share < 0.001:
        return "<0.1%"
    return ">99.9%" if 0.999 < share < 1 else f"{share:.1%}"
