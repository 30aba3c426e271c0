"""``sfumato joint fit``: a model of shares, or of everybody's rows by masked sums."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli._options import Force, examples, new_file, parse_weights
from sfumato.cli._running import Run, verb
from sfumato.cli.joint._declarations import parse_pairs
from sfumato.cli.joint._options import OutputFile, text
from sfumato.cli.joint._party import Party, fit_together
from sfumato.cli.joint._views import view_fit
from sfumato.errors import ParameterError
from sfumato.files import require_file

if TYPE_CHECKING:
    from sfumato.joint import JointModel
    from sfumato.joint.traffic import SumReport

__all__ = ["EXAMPLES", "fit"]

EXAMPLES = examples(
    "sfumato joint fit cox *.share.parquet -o model.json",
    "sfumato joint fit svm *.share.parquet --horizon 730 --weights clinicA=2 -o model.json",
    "sfumato joint fit cox patients.parquet --exact -a study.toml --name A --coordinator A "
    "--listen 10.0.0.7:9000 --certificate A.crt --key A.key --party B=B.crt --party C=C.crt "
    "-o model.json",
)
EXACT = "Exact fit (--exact): all parties at once, nothing but masked sums leaves"


class Model(StrEnum):
    """What is fitted."""

    cox = "cox"
    svm = "svm"
    logistic = "logistic"


class TiesChoice(StrEnum):
    """Treatment of equal event times."""

    efron = "efron"
    breslow = "breslow"


@verb
def fit(
    run: Run,
    model: Annotated[Model, typer.Argument(show_default=False, help="What to fit.")],
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SHARES…", show_default=False, help="Shares; with --exact a table."),
    ],
    output: OutputFile,
    penalty: Annotated[
        float | None,
        text("--penalty", "λ", "Ridge penalty (ν = 1/λ); by cross-validation on the shares."),
    ] = None,
    weights: Annotated[
        list[str] | None, text("--weights", "A=2,B=1", "Weights of institutions.")
    ] = None,
    horizon: Annotated[
        float | None, text("--horizon", "T", "Survival beyond T is what classifiers predict.")
    ] = None,
    ties: Annotated[TiesChoice, typer.Option(help="Equal event times.")] = TiesChoice.efron,
    exact: Annotated[
        bool, typer.Option("--exact", rich_help_panel=EXACT, help="Fit all columns exactly.")
    ] = False,
    agreement: Annotated[
        str | None, text("--agreement -a", "FILE", "The agreement; shares are checked against it.")
    ] = None,
    name: Annotated[str | None, text("--name", "NAME", "This party.", EXACT)] = None,
    coordinator: Annotated[
        str | None, text("--coordinator", "NAME", "The party that listens.", EXACT)
    ] = None,
    listen: Annotated[
        str | None, text("--listen", "HOST:PORT", "Listen here (the coordinator).", EXACT)
    ] = None,
    connect: Annotated[
        str | None, text("--connect", "HOST:PORT", "Where the coordinator listens.", EXACT)
    ] = None,
    certificate: Annotated[
        str | None, text("--certificate", "FILE", "My certificate.", EXACT)
    ] = None,
    key: Annotated[str | None, text("--key", "FILE", "My private key.", EXACT)] = None,
    party: Annotated[
        list[str] | None, text("--party", "NAME=FILE", "Another party's certificate.", EXACT)
    ] = None,
    min_parties: Annotated[
        int | None,
        text(
            "--min-parties",
            "N",
            "Go on without parties that leave, down to N; none if not given.",
            EXACT,
        ),
    ] = None,
    min_group: Annotated[
        int,
        typer.Option(
            min=1, rich_help_panel=EXACT, help="Merge times until so many leave together."
        ),
    ] = 1,
    stratified: Annotated[
        bool,
        typer.Option(
            "--stratified",
            rich_help_panel=EXACT,
            help="A baseline hazard for each party: reveals the least (Cox).",
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option(rich_help_panel=EXACT, help="Seconds to wait for the others.")
    ] = 60.0,
    force: Force = False,
) -> None:
    """Fit a model: from shares, by anybody; or exactly, by all parties at once.

    Cox models give relative hazards and survival curves; the support vector machine and logistic
    regression tell two classes apart. With --exact no projection is used: every party runs the
    same command on its own table, and the result equals the fit of the pooled rows.
    """
    from sfumato.joint import write_model
    from sfumato.joint.reports import Fitted

    target = new_file(output, force, agreement, *sources)
    if agreement is not None:
        require_file(agreement, "the agreement")
    weighed = dict(parse_weights(weights))
    settings = {"penalty": penalty, "ties": ties.value, "horizon": horizon}
    if exact:
        others = parse_pairs(party, "--party", "B=B.crt")
        here = Party(
            name, coordinator, listen, connect, certificate, key, others, min_parties, timeout
        )
        settings |= {"min_group": min_group, "stratified": stratified}
        weight = weighed.get(name or "", 1.0)
        found, session = _fit_exactly(
            run, sources, agreement, here, model.value, weight=weight, **settings
        )
    else:
        found = _fit_shares(sources, agreement, model.value, weights=weighed, **settings)
        session = None
    write_model(found, target)
    run.show(Fitted.of(found, str(target), session), view_fit)


def _fit_exactly(
    run: Run, sources: list[str], agreement: str | None, party: Party, model: Any, **settings: Any
) -> tuple[JointModel, SumReport]:
    from sfumato.joint import read_agreement

    if agreement is None or len(sources) != 1:
        raise ParameterError("an exact fit needs --agreement, and one table: this party's own")
    run.source = sources[0]
    return fit_together(run, read_agreement(agreement), party, model, **settings)


def _fit_shares(
    sources: list[str], agreement: str | None, model: Any, **settings: Any
) -> JointModel:
    from sfumato.joint import fit_shares, read_agreement, read_share

    shares = [read_share(require_file(path, "the share")) for path in sources]
    if agreement is not None and read_agreement(agreement).hash != shares[0].agreement.hash:
        raise ParameterError(
            "the shares were made under another agreement than this one", where=agreement
        )
    return fit_shares(shares, model, **settings)
