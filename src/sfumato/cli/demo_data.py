"""``sfumato demo-data``: a synthetic hospital table to try things on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sfumato.cli._options import Force, Seed, examples, flag, new_app, option, setting
from sfumato.cli._running import Run, verb

if TYPE_CHECKING:
    from sfumato.demo.hospital import Written, WrittenFolder

app = new_app()

Output = Annotated[
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
    output: Output,
    rows: Rows = 20_000,
    relational: Relational = False,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Make a synthetic hospital table to try things on.

    Nobody in it exists, but it behaves like a real one: where people live goes with ethnicity
    and language, age and sex with the diagnosis, and that with doctor, stay and cost. Names,
    numbers and addresses come from ranges that are never given to anybody.
    """
    from sfumato.demo import write_hospital, write_people

    if relational:
        run.show(write_hospital(output, rows, seed, budget=run.budget), folder_view)
        return
    run.show(write_people(output, rows, seed, force=force, budget=run.budget), view)


def view(written: Written) -> str:
    """What was written, and what to do with it."""
    return (
        f"{written.rows:,} patients with {len(written.columns)} columns: {written.output}\n"
        f"Next: sfumato scan {written.output}"
    )


def folder_view(written: WrittenFolder) -> str:
    """What was written, and what to do with it."""
    told = ", ".join(f"{rows:,} {name}" for name, rows in written.tables.items())
    return f"{told}: {written.output}\nNext: sfumato scan {written.output}"
