"""``sfumato joint share``: the one file that may leave the house."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from sfumato.cli._options import Force, examples, new_file
from sfumato.cli._running import Run, table_verb
from sfumato.cli.joint._options import AgreementFile, OutputFile, text
from sfumato.cli.joint._party import agreed_rows
from sfumato.cli.joint._views import view_share
from sfumato.errors import ParameterError
from sfumato.files import require_file, write_text

__all__ = ["EXAMPLES", "share"]

EXAMPLES = examples(
    "sfumato joint share patients.parquet -a study.toml -o clinicA.share.parquet",
    "sfumato joint share patients.csv --time days --event died -a study.toml "
    "-o clinicA.share.parquet --protect cells",
)


class Protect(StrEnum):
    """What the attack must not make certain."""

    rows = "rows"
    cells = "cells"


@table_verb
def share(
    run: Run,
    output: OutputFile,
    agreement: AgreementFile,
    time: Annotated[
        str | None, text("--time", "COLUMN", "This table's name for the agreed time column.")
    ] = None,
    event: Annotated[
        str | None, text("--event", "COLUMN", "This table's name for the agreed event column.")
    ] = None,
    institution: Annotated[
        str | None,
        text("--institution", "NAME", "Whose rows; from the output's name if not given."),
    ] = None,
    rounding: Annotated[
        float | None, text("--rounding", "STEP", "Step of the published numbers; 0 for none.")
    ] = None,
    decimals: Annotated[
        int | None, text("--decimals", "N", "The same in decimals: 2 for a step of 0.01.")
    ] = None,
    protect: Annotated[
        Protect, typer.Option(help="What nobody may be able to recover: whole rows, or any cell.")
    ] = Protect.rows,
    publish_anyway: Annotated[
        bool, typer.Option("--publish-anyway", help="Write the share even if it can be undone.")
    ] = False,
    allow_constant: Annotated[
        bool, typer.Option("--allow-constant", help="Accept columns in which all rows agree.")
    ] = False,
    attack_rows: Annotated[
        int, typer.Option(min=0, help="Rows to attack, drawn at random; 0 for all.")
    ] = 2_000,
    report: Annotated[
        str | None,
        text("--report", "FILE", "Write the leakage report as JSON, for your eyes only."),
    ] = None,
    force: Force = False,
) -> None:
    """Make the one file that may leave the house, and measure what it gives away.

    The rows are scaled by the agreement's bounds, multiplied by the common random matrix and
    rounded. Before anything is written the share is attacked with all that others know; if a row
    can be recovered, nothing is written. Without --rounding the finest safe step is searched for.
    """
    from sfumato.joint import make_share, read_agreement, write_share

    target = new_file(output, force, run.source, agreement)
    if target.suffix != ".parquet":
        raise ParameterError(
            "a share is a Parquet file",
            where=output,
            remedy="Give it a name that ends in .parquet.",
        )
    side = None if report is None else new_file(report, force, run.source, agreement, output)
    agreed = read_agreement(require_file(agreement, "the agreement"))
    if decimals is not None:
        if rounding is not None:
            raise ParameterError("--rounding and --decimals say the same", remedy="Give one.")
        if not 0 <= decimals <= 15:
            raise ParameterError("--decimals must lie between 0 and 15")
        rounding = 10.0**-decimals
    names = {agreed.outcome.time: time, agreed.outcome.event: event}
    made = make_share(
        agreed_rows(run, agreed, {wanted: own for wanted, own in names.items() if wanted and own}),
        agreed,
        institution or target.name.split(".")[0],
        rounding=rounding,
        protect=protect.value,
        publish_anyway=publish_anyway,
        allow_constant=allow_constant,
        attack_rows=attack_rows or None,
        where=str(run.source),
        budget=run.budget,
    )
    assert made.share is not None
    write_share(made.share, target)
    told = replace(made, path=str(target))
    if side is not None:
        by_row = {**told.to_dict(), "by_row": made.leakage.by_row()}
        write_text(side, json.dumps(by_row, indent=1) + "\n")
    run.show(told, view_share)
