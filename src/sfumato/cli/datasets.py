"""``sfumato datasets``, ``demo-data`` and ``paper``: tables and experiments to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    Force,
    Output,
    Seed,
    argument,
    examples,
    flag,
    new_app,
    option,
    setting,
)
from sfumato.cli._running import Run, figures, listed, verb
from sfumato.errors import ParameterError
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.datasets import Dataset, Listing, Saved
    from sfumato.demo import Written, WrittenFolder
    from sfumato.papers.reproduction import Reproduction

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
    name: Annotated[str | None, argument("[NAME]", "Which one; all are listed if none.")] = None,
    output: Output = None,
    hierarchies: Annotated[
        Path | None, option("--hierarchies FOLDER", "Where to write its generalization trees.")
    ] = None,
    force: Force = False,
) -> None:
    """Save public tables to try things on.

    Without a name, lists them with their licence. The smallest come with the program, all with a
    clone of its repository. Otherwise they are downloaded once from the address in
    SFUMATO_DATASETS_URL and cached.
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
    rows = ((one.name, f"{one.rows:,}", str(one.columns), one.licence) for one in found.datasets)
    return listed(("name", ">rows", ">columns", "licence"), rows)


def _one(found: Dataset) -> str:
    return (
        f"{found.name}  {counted(found.rows, 'row')}, {counted(found.columns, 'column')}\n"
        f"{found.about}\nSource: {found.source}\nLicence: {found.licence}"
    )


def _written(saved: Saved) -> str:
    trees = f"\nIts hierarchies: {saved.hierarchies}" if saved.hierarchies else ""
    return f"{_one(saved.dataset)}\n\nWritten: {saved.output}{trees}"


DemoOutput = Annotated[
    str,
    option(
        "--output -o FILE",
        "Where to write it: .csv, .tsv, .parquet or .arrow; a new folder for --relational.",
    ),
]
Rows = Annotated[int, setting("--rows -n N", "How many patients.", min=0)]

Relational = Annotated[
    bool,
    flag(
        "--relational",
        "Write patients, admissions and prescriptions, with a dataset.toml, into a folder.",
    ),
]


@app.command(
    epilog=examples(
        "sfumato demo-data -o people.parquet",
        "sfumato demo-data -o people.csv --rows 1000000 --seed 7",
        "sfumato demo-data --relational -o hospital",
    )
)
@verb
def demo_data(
    run: Run,
    output: DemoOutput,
    rows: Rows = 20_000,
    relational: Relational = False,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Make a synthetic hospital table to try things on.

    Nobody in it exists, but it behaves like a real one: ethnicity goes with place and language,
    age and sex with the diagnosis, and that with doctor, stay and cost. Names, numbers and
    addresses come from ranges that are never assigned to anybody.
    """
    from sfumato.demo import write_hospital, write_people

    if relational:
        run.show(write_hospital(output, rows, seed, budget=run.budget), view_demo_folder)
        return
    run.show(write_people(output, rows, seed, force=force, budget=run.budget), view_demo)


def view_demo(written: Written) -> str:
    return (
        f"{written.rows:,} patients with {len(written.columns)} columns: {written.output}\n"
        f"Next: sfumato scan {written.output}"
    )


def view_demo_folder(written: WrittenFolder) -> str:
    told = ", ".join(f"{rows:,} {name}" for name, rows in written.tables.items())
    return f"{told}: {written.output}\nNext: sfumato scan {written.output}"


@app.command(
    epilog=examples(
        "sfumato paper", "sfumato paper lodha-thomas --quick", "sfumato paper park-shim -o pages"
    )
)
@verb
def paper(
    run: Run,
    name: Annotated[str | None, argument("[NAME]", "Which one; all are listed if none.")] = None,
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
    """Reproduce the tables and figures of a paper, and say where they differ and why.

    Each experiment runs with the paper's own parameters. Every figure is compared and counted as
    exact, within the noise of samples, different, or not comparable.
    """
    from sfumato.papers.reproduction import list_papers, reproduce

    if name is None:
        run.show(list_papers(), lambda found: figures(found.papers.items(), first=False))
        return
    done = reproduce(name, quick=quick, budget=run.budget)
    from sfumato.papers.reproduction import home, write

    folder = output if output is not None or quick else home()
    run.show(done if folder is None else write(done, folder), _reproduction)


def _reproduction(done: Reproduction) -> RenderableType:
    styles = {"exact": "green", "within noise": "green", "differs": "red"}
    table = listed(("in the paper", "paper says", "here", "verdict", "why different"))
    for cell in done.cells:
        verdict = Text(cell.verdict, style=styles.get(cell.verdict, "dim"))
        table.add_row(cell.where, cell.says, cell.here, verdict, cell.why)
    counted = ", ".join(f"{many} {verdict}" for verdict, many in done.counts.items())
    told = f"{len(done.cells)} cells: {counted}; {done.cpu_seconds:,.1f} s CPU."
    parts: list[RenderableType] = [Text(done.title, style="bold"), table, Text(), Text(told)]
    if done.page is not None:
        told = "Its page says the same, except for what varies from run to run"
        parts.append(Text(f"{told if done.kept else 'Written'}: {done.page}"))
    return Group(*parts)
