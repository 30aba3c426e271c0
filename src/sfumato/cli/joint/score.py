"""``sfumato joint score``: new people scored at home."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli._options import Force, examples, new_file
from sfumato.cli._running import Run, table_verb
from sfumato.cli.joint._options import text
from sfumato.cli.joint._party import agreed_rows
from sfumato.cli.joint._views import view_scores
from sfumato.errors import ParameterError
from sfumato.files import appearing, require_file

__all__ = ["EXAMPLES", "score"]

EXAMPLES = examples(
    "sfumato joint score model.json new.parquet",
    "sfumato joint score model.json new.parquet --at 730 -o scores.csv",
)


@table_verb
def score(
    run: Run,
    model: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="model.json")],
    output: Annotated[
        str | None, text("--output -o", "FILE", "Write the scores (.csv or .parquet), row by row.")
    ] = None,
    at: Annotated[
        float | None, text("--at", "T", "Moment for which survival is told; the horizon.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Probability of survival from which a row counts as surviving.")
    ] = 0.5,
    force: Force = False,
) -> None:
    """Score new people at home: nothing leaves, nothing is published."""
    from sfumato.joint import read_model
    from sfumato.joint import score as score_rows

    target = None if output is None else new_file(output, force, run.source, model)
    if target is not None and target.suffix not in (".csv", ".parquet"):
        raise ParameterError("scores are written as .csv or .parquet", where=str(target))
    fitted = read_model(require_file(model, "the model"))
    found = score_rows(
        fitted, agreed_rows(run, fitted.agreement, outcome=False), at=at, threshold=threshold,
        where=str(run.source),
    )  # fmt: skip
    if target is not None:
        _write_scores(found, target)
        found = replace(found, path=str(target))
    run.show(found, view_scores)


def _write_scores(found: Any, target: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    columns = {"score": found.score, "survival": found.survival, "positive": found.positive}
    table = pa.table({name: column for name, column in columns.items() if column is not None})
    write = csv.write_csv if target.suffix == ".csv" else pq.write_table
    with appearing(target) as unfinished:
        write(table, unfinished)
