"""``sfumato joint agreement``: what the institutions fix before anybody looks at rows."""

from __future__ import annotations

import secrets
import sys
from enum import StrEnum
from typing import Annotated

import typer

from sfumato.cli._options import Columns, Force, examples, new_file
from sfumato.cli._running import Run, table_verb
from sfumato.cli.joint._declarations import declared_columns, parse_pairs
from sfumato.cli.joint._options import OutputFile, text
from sfumato.cli.joint._views import view_agreement
from sfumato.files import write_text

__all__ = ["EXAMPLES", "agreement"]

EXAMPLES = examples(
    "sfumato joint agreement patients.parquet -c age,sex,stage --time days --event dead "
    "--bounds age=18:100 --values sex=f,m --ordered stage=I,II,III --time-max 4000 "
    "--horizon 730 -o study.toml",
)


class MatrixChoice(StrEnum):
    """Kind of random matrix."""

    orthonormal = "orthonormal"
    gaussian = "gaussian"


class KernelChoice(StrEnum):
    """What is computed of a row and the matrix."""

    linear = "linear"
    gaussian = "gaussian"


@table_verb
def agreement(
    run: Run,
    output: OutputFile,
    columns: Columns = None,
    study: Annotated[str | None, text("--study", "NAME", "The study's name.")] = None,
    time: Annotated[str | None, text("--time", "COLUMN", "Time under observation.")] = None,
    event: Annotated[str | None, text("--event", "COLUMN", "How it ended.")] = None,
    event_value: Annotated[str, typer.Option(help="Its value where the event happened.")] = "1",
    time_step: Annotated[float, typer.Option(help="Unit to which times are rounded up.")] = 1.0,
    time_max: Annotated[
        float | None, text("--time-max", "T", "No observation is longer (exact fits need it).")
    ] = None,
    horizon: Annotated[
        float | None, text("--horizon", "T", "Survival beyond T is what classifiers predict.")
    ] = None,
    label: Annotated[
        str | None, text("--label", "COLUMN", "Predict this instead of survival.")
    ] = None,
    positive: Annotated[
        str | None, text("--positive", "VALUE", "The label's positive value.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        text("--bounds", "A=LOW:HIGH:STEP", "A numeric column: bounds, and the unit recorded."),
    ] = None,
    values: Annotated[
        list[str] | None, text("--values", "A=x,y,…", "A column of categories.")
    ] = None,
    ordered: Annotated[
        list[str] | None, text("--ordered", "A=x,y,…", "A column of categories in order.")
    ] = None,
    missing: Annotated[
        list[str] | None, text("--missing", "A=VALUE", "What stands for a missing value.")
    ] = None,
    dimensions: Annotated[
        int | None, text("--dimensions", "M", "Numbers published a row (m̄); n-1 if not given.")
    ] = None,
    matrix: Annotated[
        MatrixChoice, typer.Option(help="Random matrix: gaussian as in the paper.")
    ] = MatrixChoice.orthonormal,
    kernel: Annotated[KernelChoice, typer.Option(help="Row-wise kernel.")] = KernelChoice.linear,
    seed: Annotated[
        str | None, text("--seed", "TEXT", "Seed of the random matrix; drawn if not given.")
    ] = None,
    rounding: Annotated[
        float | None,
        text(
            "--rounding", "STEP", "Step of published numbers; each finds a safe one if not given."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write a first agreement from a table's columns.

    Only names and types are taken from the table. Bounds and categories are declared by you, or
    asked for on a terminal: an agreement is public, so nothing of the rows may be in it.
    """
    from sfumato.joint.agreement import Agreement, Outcome, Projection
    from sfumato.joint.reports import Agreed

    target = new_file(output, force, run.source)
    outcome = (
        Outcome(time, event, event_value, time_step, time_max, horizon, label, positive)
        if label is None
        else Outcome(label=label, positive=positive)
    )
    taken = {time, event, label}
    run.table.require([name for name in (time, event, label) if name is not None])
    wanted = run.columns(columns) or [name for name in run.table.columns if name not in taken]
    schema = [run.table.column(name) for name in wanted]
    ask = typer.prompt if sys.stdin.isatty() and not run.as_json else None
    found = declared_columns(
        schema,
        parse_pairs(bounds, "--bounds", "age=0:120:1"),
        parse_pairs(values, "--values", "sex=f,m"),
        parse_pairs(ordered, "--ordered", "stage=I,II,III"),
        parse_pairs(missing, "--missing", "age=60"),
        ask,
    )
    width = sum(column.width for column in found)
    agreed = Agreement(
        study or target.stem,
        found,
        outcome,
        Projection(
            seed or secrets.token_hex(16),
            max(1, width - 1) if dimensions is None else dimensions,
            matrix.value,
            kernel.value,
            rounding=rounding,
        ),
    )
    write_text(target, agreed.to_toml())
    run.show(Agreed.of(agreed, str(target)), view_agreement)
