"""``sfumato joint seeds``: candidate matrices scored on one's own rows."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli._options import Force, examples, new_file
from sfumato.cli._running import Run, table_verb
from sfumato.cli.joint._options import AgreementFile, OutputFile
from sfumato.cli.joint._party import agreed_rows
from sfumato.files import require_file, write_text

__all__ = ["EXAMPLES", "seeds"]

EXAMPLES = examples("sfumato joint seeds patients.parquet -a study.toml -o clinicA.seeds.json")


@table_verb
def seeds(
    run: Run,
    output: OutputFile,
    agreement: AgreementFile,
    candidates: Annotated[
        int, typer.Option(min=2, max=1000, help="How many matrices to try.")
    ] = 20,
    force: Force = False,
) -> None:
    """Score candidate random matrices on your own rows; only the scores are written.

    Publishing the same rows under several matrices would give them away, so every institution
    cross-validates at home. `sfumato joint choose` takes the scores of all and writes the
    agreement with the best seed.
    """
    from sfumato.joint import encode, encode_outcome, read_agreement, score_seeds
    from sfumato.joint.reports import SeedScores

    target = new_file(output, force, run.source, agreement)
    agreed = read_agreement(require_file(agreement, "the agreement"))
    table = agreed_rows(run, agreed)
    names = [f"{agreed.projection.seed}/{number}" for number in range(candidates)]
    scores = score_seeds(
        encode(table, agreed, where=str(run.source)).matrix,
        encode_outcome(table, agreed, where=str(run.source)),
        agreed,
        names,
    )
    found = SeedScores(agreed.hash, table.num_rows, scores)
    write_text(target, found.to_json(indent=1) + "\n")
    run.show(found, lambda told: f"{len(told.scores)} matrices scored; written to {target}.")
