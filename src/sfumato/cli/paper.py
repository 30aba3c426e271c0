"""``sfumato paper``: the tables and figures of a paper, done again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import argument, examples, flag, new_app, option
from sfumato.cli._running import Run, verb

if TYPE_CHECKING:
    from sfumato.papers.reproduction import Reproduction, Shelf

app = new_app()


@app.command(
    epilog=examples(
        "sfumato paper",
        "sfumato paper lodha-thomas --quick",
        "sfumato paper park-shim -o pages",
    )
)
@verb
def paper(
    run: Run,
    name: Annotated[str | None, argument("[NAME]", "Which one; lists all if none.")] = None,
    quick: Annotated[
        bool, flag("--quick", "A part that takes seconds, with fewer samples.")
    ] = False,
    output: Annotated[
        Path | None,
        option(
            "--output -o FOLDER",
            "Where to write the page and its pictures. In a clone of the repository a run "
            "that is not quick writes docs/papers.",
        ),
    ] = None,
) -> None:
    """The tables and figures of a paper, done again: what it says, what comes out here, and why.

    The program runs each experiment with the paper's own parameters, compares figure by figure,
    and counts those that are exact, within noise of samples, different, or not comparable.
    """
    from sfumato.papers.reproduction import reproduce, shelf

    if name is None:
        run.show(shelf(), _all)
        return
    done = reproduce(name, quick=quick, budget=run.budget)
    from sfumato.papers.reproduction import home, write

    folder = output if output is not None or quick else home()
    run.show(done if folder is None else write(done, folder), _view)


def _all(found: Shelf) -> RenderableType:
    lines = Table.grid(padding=(0, 2))
    for name, title in found.papers.items():
        lines.add_row(name, title)
    return lines


def _view(done: Reproduction) -> RenderableType:
    styles = {"exact": "green", "within noise": "green", "differs": "red"}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("in the paper", "paper says", "here", "verdict", "why different"):
        table.add_column(heading, overflow="fold")
    for cell in done.cells:
        verdict = Text(cell.verdict, style=styles.get(cell.verdict, "dim"))
        table.add_row(cell.where, cell.says, cell.here, verdict, cell.why)
    counted = ", ".join(f"{many} {verdict}" for verdict, many in done.counts.items())
    told = f"{len(done.cells)} cells: {counted}; {done.cpu_seconds:,.1f} s CPU."
    parts: list[RenderableType] = [Text(done.title, style="bold"), table, Text(), Text(told)]
    if done.page is not None:
        told = "Its page says the same, but for what varies from run to run"
        parts.append(Text(f"{told if done.kept else 'Written'}: {done.page}"))
    return Group(*parts)
