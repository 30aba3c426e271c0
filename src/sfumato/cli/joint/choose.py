"""``sfumato joint choose``: the agreement with the matrix that scored best."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli._options import Force, examples, new_file
from sfumato.cli._running import Run, verb
from sfumato.cli.joint._options import AgreementFile, OutputFile
from sfumato.cli.joint._views import view_agreement
from sfumato.files import require_file, write_text

__all__ = ["EXAMPLES", "choose"]

EXAMPLES = examples("sfumato joint choose *.seeds.json -a study.toml -o study-final.toml")


@verb
def choose(
    run: Run,
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SCORES…", show_default=False, help="All parties' scores."),
    ],
    output: OutputFile,
    agreement: AgreementFile,
    force: Force = False,
) -> None:
    """Write the agreement with the seed that scored best over all institutions."""
    from sfumato.joint import choose_seed, read_agreement
    from sfumato.joint.reports import Agreed, read_seed_scores

    target = new_file(output, force, agreement, *sources)
    agreed = read_agreement(require_file(agreement, "the agreement"))
    scored = [read_seed_scores(require_file(path, "the scores"), agreed.hash) for path in sources]
    best = choose_seed([entry.scores for entry in scored], [entry.rows for entry in scored])
    final = agreed.with_projection(seed=best)
    write_text(target, final.to_toml())
    run.show(Agreed.of(final, str(target)), view_agreement)
