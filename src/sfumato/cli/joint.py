"""``sfumato joint``: models across institutions that do not share rows."""

from __future__ import annotations

import json
import math
import os
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.cli._options import (
    Columns,
    Force,
    argument,
    examples,
    flag,
    new_app,
    new_file,
    option,
    parse_numbers,
    parse_pairs,
    parse_weights,
    setting,
)
from sfumato.cli._running import Run, table_verb, verb
from sfumato.errors import ParameterError
from sfumato.files import appearing, require_file, write_text
from sfumato.results import Result
from sfumato.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.joint import JointModel, Parties

app = new_app(
    help="Models across institutions that do not share rows: agree, share, fit, score.",
    no_args_is_help=True,
)
EXACT = "Exact fit (--exact): all parties at once, under secret sharing"

OutputFile = Annotated[str, option("--output -o FILE", "Where to write.")]
Horizon = Annotated[
    float | None, option("--horizon T", "Survival beyond T is what classifiers predict.")
]
AgreementFile = Annotated[str, option("--agreement -a FILE", "The study's agreement (TOML).")]


MatrixChoice = Literal["orthonormal", "gaussian"]
"""Kind of random matrix."""


KernelChoice = Literal["linear", "gaussian"]
"""What is computed of a row and the matrix."""


@app.command(
    epilog=examples(
        "sfumato joint agreement A.csv -c age,sex,stage --time days --event dead "
        "--bounds age=18:100 --values sex=f,m --ordered stage=I,II,III --time-max 4000 "
        "--horizon 730 -o study.toml"
    )
)
@table_verb
def agreement(
    run: Run,
    output: OutputFile,
    columns: Columns = None,
    study: Annotated[str | None, option("--study NAME", "The study's name.")] = None,
    time: Annotated[str | None, option("--time COLUMN", "Time under observation.")] = None,
    event: Annotated[str | None, option("--event COLUMN", "Whether it ended in the event.")] = None,
    event_value: Annotated[
        str, setting("--event-value", "Its value where the event happened.")
    ] = "1",
    time_step: Annotated[
        float, setting("--time-step", "Unit to which times are rounded up.")
    ] = 1.0,
    time_max: Annotated[
        float | None, option("--time-max T", "No observation is longer (exact fits need it).")
    ] = None,
    horizon: Horizon = None,
    label: Annotated[
        str | None, option("--label COLUMN", "Predict this instead of survival.")
    ] = None,
    positive: Annotated[
        str | None, option("--positive VALUE", "The label's positive value.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        option("--bounds A=LOW:HIGH:STEP", "A numeric column: bounds, and the unit recorded."),
    ] = None,
    values: Annotated[
        list[str] | None, option("--values A=x,y,…", "A column of categories.")
    ] = None,
    ordered: Annotated[
        list[str] | None, option("--ordered A=x,y,…", "A column of categories in order.")
    ] = None,
    missing: Annotated[
        list[str] | None, option("--missing A=VALUE", "What stands for a missing value.")
    ] = None,
    dimensions: Annotated[
        int | None, option("--dimensions M", "Numbers published a row (m̄); n-1 if not given.")
    ] = None,
    matrix: Annotated[
        MatrixChoice, setting("--matrix", "Random matrix: gaussian as in the paper.")
    ] = "orthonormal",
    kernel: Annotated[KernelChoice, setting("--kernel", "Row-wise kernel.")] = "linear",
    seed: Annotated[
        str | None, option("--seed TEXT", "Seed of the random matrix; drawn if not given.")
    ] = None,
    rounding: Annotated[
        float | None,
        option("--rounding STEP", "Step of published numbers; each finds a safe one if not given."),
    ] = None,
    force: Force = False,
) -> None:
    """Write a first agreement from a table's columns.

    Only names and types are taken from the table. Bounds and categories are declared by you, or
    asked for on a terminal: an agreement is public, so nothing of the rows may be in it.
    """
    from sfumato.joint.agreement import Agreed, Agreement, Outcome, Projection, declared_columns

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
            matrix,
            kernel,
            rounding=rounding,
        ),
    )
    write_text(target, agreed.to_toml())
    run.show(Agreed.of(agreed, str(target)), view_agreement)


Protect = Literal["rows", "cells"]
"""What the attack must not make certain."""


@app.command(
    epilog=examples(
        "sfumato joint share A.csv -a study.toml -o A.share.parquet",
        "sfumato joint share D.csv --time t --event died -a study.toml -o D.share.parquet",
    )
)
@table_verb
def share(
    run: Run,
    output: OutputFile,
    agreement: AgreementFile,
    time: Annotated[
        str | None, option("--time COLUMN", "This table's name for the agreed time column.")
    ] = None,
    event: Annotated[
        str | None, option("--event COLUMN", "This table's name for the agreed event column.")
    ] = None,
    institution: Annotated[
        str | None, option("--institution NAME", "Whose rows; from the output's name if not given.")
    ] = None,
    rounding: Annotated[
        float | None, option("--rounding STEP", "Step of the published numbers; 0 for none.")
    ] = None,
    decimals: Annotated[
        int | None, option("--decimals N", "The same in decimals: 2 for a step of 0.01.")
    ] = None,
    protect: Annotated[
        Protect,
        setting("--protect", "What nobody may be able to recover: whole rows, or any cell."),
    ] = "rows",
    publish_anyway: Annotated[
        bool, flag("--publish-anyway", "Write the share even if rows can be recovered from it.")
    ] = False,
    allow_constant: Annotated[
        bool, flag("--allow-constant", "Accept columns in which all rows agree.")
    ] = False,
    attack_rows: Annotated[
        int | None,
        option("--attack-rows N", "Attack so many rows, drawn at random; all if not given."),
    ] = None,
    report: Annotated[
        str | None, option("--report FILE", "Write the leakage report as JSON, for your eyes only.")
    ] = None,
    force: Force = False,
) -> None:
    """Make the one file that may leave the house, and measure what it gives away.

    The rows are scaled by the agreement's bounds, multiplied by the common random matrix and
    rounded. Before anything is written every row of the share is attacked with all that it
    and the agreement tell; if one can be recovered, nothing is written. With --attack-rows N only a
    sample is attacked, and the result tells how many of all rows might be recovered (95 %
    confidence). Without --rounding the finest safe step is searched for.
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
            raise ParameterError(
                "--rounding and --decimals mean the same thing", remedy="Give only one."
            )
        if not 0 <= decimals <= 15:
            raise ParameterError(
                "--decimals must lie between 0 and 15", remedy="Write e.g. --decimals 3."
            )
        rounding = 10.0**-decimals
    names = {agreed.outcome.time: time, agreed.outcome.event: event}
    made = make_share(
        run.table,
        agreed,
        institution or target.name.split(".")[0],
        renamed={wanted: own for wanted, own in names.items() if wanted and own},
        rounding=rounding,
        protect=protect,
        publish_anyway=publish_anyway,
        allow_constant=allow_constant,
        attack_rows=attack_rows,
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


Model = Literal["cox", "svm", "logistic"]
"""What is fitted."""


TiesChoice = Literal["efron", "breslow"]
"""Treatment of equal event times."""


@dataclass(frozen=True)
class PartyOptions:
    """This party's end of an exact fit, as `sfumato.joint.Parties` has it."""

    name: Annotated[str | None, option("--name NAME", "This party.", EXACT)] = None
    coordinator: Annotated[
        str | None, option("--coordinator NAME", "The party that listens.", EXACT)
    ] = None
    listen: Annotated[
        str | None, option("--listen HOST:PORT", "Listen here (the coordinator).", EXACT)
    ] = None
    connect: Annotated[
        str | None, option("--connect HOST:PORT", "Where the coordinator listens.", EXACT)
    ] = None
    certificate: Annotated[str | None, option("--certificate FILE", "My certificate.", EXACT)] = (
        None
    )
    key: Annotated[str | None, option("--key FILE", "My private key.", EXACT)] = None
    party: Annotated[
        list[str] | None, option("--party NAME=FILE", "Another party's certificate.", EXACT)
    ] = None
    precision: Annotated[
        float,
        setting(
            "--precision",
            "How far coefficients may be off; no digit beyond is shown to anybody.",
            EXACT,
        ),
    ] = 1e-6
    covariance: Annotated[
        bool,
        flag(
            "--covariance",
            "Show everybody the covariance of the coefficients, too (not svm).",
            EXACT,
        ),
    ] = False
    open_anyway: Annotated[
        bool,
        flag(
            "--open-anyway", "Take part even if what is opened tells too much about my rows.", EXACT
        ),
    ] = False
    stratified: Annotated[
        bool,
        flag(
            "--stratified",
            "A baseline hazard for each party: nothing is told by time (Cox).",
            EXACT,
        ),
    ] = False
    timeout: Annotated[float, setting("--timeout", "Seconds to wait for the others.", EXACT)] = 60.0

    def parties(self, run: Run) -> Parties:
        """The parties, checked."""
        from sfumato.joint import Parties

        given = {
            k: v
            for k, v in vars(self).items()
            if k not in ("party", "precision", "covariance", "open_anyway", "stratified")
        }
        others = parse_pairs(self.party, "--party", "B=B.crt")
        return Parties(**given, others=others, budget=run.budget)


@app.command(
    epilog=examples(
        "sfumato joint fit cox *.share.parquet -o model.json",
        "sfumato joint fit svm *.share.parquet --horizon 730 --institution-weights A=2 "
        "-o model.json",
        "sfumato joint fit cox A.csv --exact -a study.toml --name A --coordinator A "
        "--listen 10.0.0.7:9000 --certificate A.crt --key A.key --party B=B.crt --party C=C.crt "
        "-o model.json",
    )
)
@verb
def fit(
    run: Run,
    model: Annotated[Model, typer.Argument(show_default=False, help="What to fit.")],
    sources: Annotated[list[str], argument("SHARES…", "Shares; with --exact a table.")],
    output: OutputFile,
    party: PartyOptions,
    penalty: Annotated[
        float | None,
        option("--penalty λ", "Ridge penalty (ν = 1/λ); by cross-validation on the shares."),
    ] = None,
    institution_weights: Annotated[
        list[str] | None,
        option("--institution-weights A=2,B=1", "How much rows of an institution count."),
    ] = None,
    horizon: Horizon = None,
    ties: Annotated[TiesChoice, setting("--ties", "How equal event times are treated.")] = "efron",
    exact: Annotated[bool, flag("--exact", "Fit all columns exactly.", EXACT)] = False,
    agreement: Annotated[
        str | None, option("--agreement -a FILE", "The agreement; shares are checked against it.")
    ] = None,
    force: Force = False,
) -> None:
    """Fit a model: from shares, by anybody; or exactly, by all parties at once.

    Cox models give relative hazards and survival curves; the support vector machine and logistic
    regression tell two classes apart. With --exact no projection is used: every party runs the
    same command on its own table, and the result equals the fit of the pooled rows up to
    --precision. It is fast with three parties or more; if one leaves, the fit ends for all.
    """
    from sfumato.joint import fit_exact, read_agreement, write_model
    from sfumato.joint.model import Fitted

    target = new_file(output, force, agreement, *sources)
    if agreement is not None:
        require_file(agreement, "the agreement")
    weighed = parse_weights(institution_weights)
    settings: dict[str, Any] = {"penalty": penalty, "ties": ties, "horizon": horizon}
    if exact:
        parties = party.parties(run)
        if agreement is None or len(sources) != 1:
            raise ParameterError(
                "an exact fit needs the agreement, and one table: this party's own",
                remedy="Write e.g. sfumato joint fit mine.csv --agreement study.toml --exact …",
            )
        run.source = sources[0]
        found = fit_exact(
            run.table,
            read_agreement(agreement),
            model,
            parties=parties,
            weight=weighed.get(party.name or "", 1.0),
            precision=party.precision,
            covariance=party.covariance,
            open_anyway=party.open_anyway,
            stratified=party.stratified,
            where=sources[0],
            **settings,
        )
    else:
        if party.covariance:
            raise ParameterError(
                "shares are projected and rounded: what is fitted on them has no covariance",
                remedy="Fit with --exact, or leave --covariance out.",
            )
        found = _fit_shares(sources, agreement, model, institution_weights=weighed, **settings)
    write_model(found, target)
    run.show(Fitted(found, str(target)), view_fit)


def _fit_shares(
    sources: list[str], agreement: str | None, model: Any, **settings: Any
) -> JointModel:
    from sfumato.joint import fit_shares, read_agreement, read_share

    shares = [read_share(require_file(path, "the share")) for path in sources]
    if agreement is not None and read_agreement(agreement).hash != shares[0].agreement.hash:
        raise ParameterError(
            "the shares were made under another agreement than this one",
            where=agreement,
            remedy="Give the agreement they were made under, or ask for new shares.",
        )
    return fit_shares(shares, model, **settings)


@app.command(
    epilog=examples(
        "sfumato joint score model.json new.csv",
        "sfumato joint score model.json new.csv --at 730 -o scores.csv",
    )
)
@table_verb
def score(
    run: Run,
    model: Annotated[str, argument("MODEL", "model.json")],
    output: Annotated[
        str | None, option("--output -o FILE", "Write the scores (.csv or .parquet), row by row.")
    ] = None,
    at: Annotated[
        float | None, option("--at T", "Time for which survival is given; the horizon by default.")
    ] = None,
    threshold: Annotated[
        float,
        setting("--threshold", "Probability of survival from which a row counts as surviving."),
    ] = 0.5,
    force: Force = False,
) -> None:
    """Score new people at home: nothing leaves, nothing is published."""
    from sfumato.joint import read_model
    from sfumato.joint import score as score_rows

    target = None if output is None else _table_file(output, force, run.source, model)
    fitted = read_model(require_file(model, "the model"))
    found = score_rows(fitted, run.table, at=at, threshold=threshold, where=str(run.source))
    if target is not None:
        _write_scores(found, target)
        found = replace(found, path=str(target))
    run.show(found, view_scores)


def _table_file(output: str, force: bool, *taken: Any) -> Path:
    """Where a small table of results may be written."""
    target = new_file(output, force, *taken)
    if target.suffix not in (".csv", ".parquet"):
        raise ParameterError(
            "this is written as .csv or .parquet",
            where=str(target),
            remedy="Give the file one of these endings.",
        )
    return target


def _write_scores(found: Any, target: Path) -> None:
    import pyarrow as pa

    columns = {"score": found.score, "survival": found.survival, "positive": found.positive}
    _write(
        pa.table({name: column for name, column in columns.items() if column is not None}), target
    )


def _write(table: pa.Table, target: Path) -> None:
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    write = csv.write_csv if target.suffix == ".csv" else pq.write_table
    with appearing(target) as unfinished:
        write(table, unfinished)


@dataclass(frozen=True)
class Doses(Result):
    """A table was written with a column of equivalent doses."""

    column: str
    rows: int
    empty: int
    output: str


@app.command(
    epilog=examples(
        "sfumato joint dose treated.csv --total gy --fraction gy_each --days days -o dosed.csv"
    )
)
@table_verb
def dose(
    run: Run,
    output: OutputFile,
    total: Annotated[str, option("--total COLUMN", "Total dose, in Gy.")],
    fraction: Annotated[str, option("--fraction COLUMN", "Dose a fraction, in Gy.")],
    days: Annotated[str, option("--days COLUMN", "Overall treatment time, in days.")],
    name: Annotated[str, setting("--name COLUMN", "The new column.")] = "eqd2",
    beta: Annotated[float, setting("--beta", "β, in Gy.")] = 10.0,
    loss: Annotated[float, setting("--loss", "γ: dose lost a day, in Gy.")] = 0.66,
    kick_off: Annotated[float, setting("--kick-off", "T_k: the day from which it is lost.")] = 28.0,
    force: Force = False,
) -> None:
    """Add the equivalent dose in 2 Gy fractions, corrected for treatment time (EQD2,T).

    D · (d + β) / (2 + β) - γ · max(0, T - T_k), equation 5.8 of Fung et al.; a predictor like any
    other afterwards. Where one of the three columns is empty, the dose is.
    """
    from sfumato.joint import add_dose

    target = _table_file(output, force, run.source)
    dosed = add_dose(
        run.table,
        total=total,
        per_fraction=fraction,
        days=days,
        name=name,
        beta=beta,
        loss=loss,
        kick_off=kick_off,
    )
    _write(dosed, target)
    empty = dosed.column(name).null_count
    run.show(Doses(name, dosed.num_rows, empty, str(target)), _view_doses)


def _view_doses(found: Doses) -> RenderableType:
    lacking = f", {found.empty:,} of them empty" if found.empty else ""
    return f"`{found.column}` of {counted(found.rows, 'row')}{lacking}, written to {found.output}."


@app.command(epilog=examples("sfumato joint seeds A.csv -a study.toml -o A.seeds.json"))
@table_verb
def seeds(
    run: Run,
    output: OutputFile,
    agreement: AgreementFile,
    candidates: Annotated[
        int, setting("--candidates", "How many matrices to try.", min=2, max=1000)
    ] = 20,
    force: Force = False,
) -> None:
    """Score candidate random matrices on your own rows; only the scores are written.

    Publishing the same rows under several matrices would give them away, so every institution
    cross-validates at home. The scores tell about the rows, too: try few matrices. `sfumato joint
    choose` takes the scores of all and writes the agreement with the best seed.
    """
    from sfumato.joint import encode, encode_outcome, read_agreement, score_seeds
    from sfumato.joint.local_data import local_rows
    from sfumato.joint.validation import SeedScores

    target = new_file(output, force, run.source, agreement)
    agreed = read_agreement(require_file(agreement, "the agreement"))
    table = local_rows(run.table, agreed)
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


@app.command(
    epilog=examples(
        "sfumato joint evaluate A.csv B.csv C.csv -a study.toml --train 0.4 --splits 100"
    )
)
@verb
def evaluate(
    run: Run,
    sources: Annotated[list[str], argument("TABLE…", "A table of each institution.")],
    agreement: AgreementFile,
    train: Annotated[
        float, setting("--train SHARE", "Share of each institution's rows for training.")
    ] = 0.4,
    splits: Annotated[int, setting("--splits", "How many random splits.", min=1)] = 100,
    dimensions: Annotated[
        str | None, option("--dimensions M,M,…", "Values of m̄; one less than columns if not given.")
    ] = None,
    rounding: Annotated[
        float | None,
        option("--rounding STEP", "Step of published numbers, 0 for none; as agreed if not given."),
    ] = None,
    protect: Annotated[
        Protect, setting("--protect", "What a safe step protects: whole rows, or any cell.")
    ] = "rows",
    candidates: Annotated[
        int, setting("--candidates", "Matrices among which the best is chosen.", min=1, max=1000)
    ] = 1,
    seed: Annotated[int, setting("--seed", "Seed of the splits.")] = 0,
) -> None:
    """What a joint study would gain, tried on tables that one person may see.

    Private, pooled and single-institution models over random splits, as in Fung et al.: AUC of
    support vector machines and Cox models, and concordance. Nothing is written.
    """
    from sfumato.joint import read_agreement
    from sfumato.joint.validation import evaluate_tables

    names = [Path(source).stem for source in sources]
    if len(set(names)) < len(names):
        raise ParameterError(
            "two tables have the same name", remedy="Name each file after its institution."
        )
    tables = {name: run.open(source) for name, source in zip(names, sources, strict=True)}
    agreed = read_agreement(require_file(agreement, "the agreement"))
    swept = parse_numbers(dimensions, "--dimensions 1,2,3", int)
    asked = run.asked("sources", "agreement", dimensions=swept)
    found = evaluate_tables(tables, agreed, **asked)
    run.show(found, view_evaluation)


@app.command(epilog=examples("sfumato joint choose *.seeds.json -a study.toml -o study-final.toml"))
@verb
def choose(
    run: Run,
    sources: Annotated[list[str], argument("SCORES…", "All parties' scores.")],
    output: OutputFile,
    agreement: AgreementFile,
    force: Force = False,
) -> None:
    """Write the agreement with the seed that scored best over all institutions."""
    from sfumato.joint import choose_seed, read_agreement
    from sfumato.joint.agreement import Agreed
    from sfumato.joint.validation import read_seed_scores

    target = new_file(output, force, agreement, *sources)
    agreed = read_agreement(require_file(agreement, "the agreement"))
    scored = [read_seed_scores(require_file(path, "the scores"), agreed.hash) for path in sources]
    for at, (path, one) in enumerate(zip(sources, scored, strict=True)):
        if one in scored[:at] or any(os.path.samefile(path, other) for other in sources[:at]):
            raise ParameterError(
                "these scores were given before", where=path, remedy="Give each party's once."
            )
    best = choose_seed([entry.scores for entry in scored], [entry.rows for entry in scored])
    final = agreed.with_projection(seed=best)
    write_text(target, final.to_toml())
    run.show(Agreed.of(final, str(target)), view_agreement)


@app.command(epilog=examples("sfumato joint keys A --folder keys"))
@verb
def keys(
    run: Run,
    name: Annotated[str, argument("NAME", "This party.")],
    folder: Annotated[str, setting("--folder DIR", "Where to write them.")] = ".",
) -> None:
    """Make this party's certificate and private key for exact fits.

    Give NAME.crt to all other parties in a way you trust, and read its fingerprint to them over the
    telephone. NAME.key stays.
    """
    from sfumato.secure import make_keys

    run.show(make_keys(folder, name), view_keys)


def view_agreement(found: Any) -> RenderableType:
    return (
        f"Agreement of study {found.study}: {found.columns} columns, {found.encoded} encoded, "
        f"{found.dimensions} numbers published a row.\nHash {found.hash}\nWritten to {found.path}."
    )


def view_share(found: Any) -> RenderableType:
    """A share with its leakage, column by column."""
    leak = found.leakage
    lines = Table(title="What the share gives away", title_justify="left")
    for heading in ("column", "certain", "interval left"):
        lines.add_column(heading, justify="left" if heading == "column" else "right")
    intervals = leak.interval or {}
    for name, certain in leak.pinned.items():
        widths = [v for k, v in intervals.items() if k == name or k.startswith(f"{name}=")]
        lines.add_row(name, f"{certain:.0%}", f"{min(widths):.0%}" if widths else "–")
    of = "all" if leak.attacked_rows == leak.rows else "a sample of"
    facts = [
        f"Share of {found.institution}: {counted(found.rows, 'row')}, "
        f"{found.events:,} of them with the event; {found.dimensions} numbers a row "
        f"rounded to {found.rounding:g} (chosen by {found.chosen_by}).",
        f"Attacked {of} {leak.attacked_rows:,} rows: {leak.recovered_rows:,} recovered"
        + ("" if of == "all" else f", at most {leak.recovered_at_most:.2%} of all (95 %)")
        + f"; a guess is right for {leak.guessed:.1%}.",
        f"Certain cells: {leak.certain_cells:,} of {leak.judged_cells:,} looked at.",
    ]
    if found.price and any(value != value for value in found.price.values()):
        facts.append("Price: not measured, there are too few rows to cross-validate.")
    elif found.price:
        facts.append(
            f"Price ({found.price['measure']}, cross-validated): {found.price['all_columns']:.3f} "
            f"with all columns, {found.price['projected']:.3f} projected, "
            f"{found.price['published']:.3f} as published."
        )
    notes = [f"Note: {note}." for note in found.notes]
    return Group(*facts, "", lines, "", *notes, f"Written to {found.path}.")


def view_keys(made: Any) -> RenderableType:
    return (
        f"Certificate for the others: {made.certificate}\nPrivate key, stays here: {made.key}\n"
        f"Fingerprint: {made.fingerprint}"
    )


def view_fit(fitted: Any) -> RenderableType:
    found = fitted.model
    quality = [
        f"{name} {value:.3f} (training rows)"
        for name, value in (("concordance", found.concordance), ("AUC", found.auc))
        if value is not None
    ]
    lines = [
        f"{found.kind} of {found.rows:,} rows from {', '.join(found.institutions)}: "
        f"{found.iterations} Newton steps, penalty {found.penalty:g}."
    ]
    lines += ["; ".join(quality)] if quality else []
    if found.leakage is not None:
        leak = found.leakage
        of = "have the event" if found.kind == "cox" else "are of the positive class"
        lines.append(
            f"Of your {leak.rows:,} rows {leak.events:,} {of}. A fit of these alone would open "
            f"about {leak.opened_bits:,.0f} bits; tables with the same outcomes are told apart by "
            f"{leak.table_bits:,.0f}. This fit opened {found.revealed['bits']:,.0f}, counts of all "
            "parties' rows included."
        )
    if found.standard_errors is not None:
        told = zip(found.columns, found.coefficients, found.standard_errors, strict=True)
        lines += [f"  {name}: {w:.4g} (standard error {e:.2g})" for name, w, e in told]
    lines += [f"Note: {note}." for note in found.notes]
    return "\n".join([*lines, f"Written to {fitted.path}."])


def view_evaluation(found: Any) -> RenderableType:
    """Private, pooled and single models, mean and standard deviation over the splits."""
    told = f"{found.splits} splits, {found.train:.0%} of {found.rows:,} rows for training\n"
    told += _rounded(found)
    lines = Table(title=told, title_justify="left")
    lines.add_column("model")
    for heading in ("SVM, AUC", "Cox, AUC", "Cox, concordance"):
        lines.add_column(heading, justify="right")
    for model in found.models:
        lines.add_row(
            model.model,
            _mean(model.svm_auc, model.svm_auc_sd),
            _mean(model.cox_auc, model.cox_auc_sd),
            _mean(model.concordance, model.concordance_sd),
        )
    if any(math.isnan(value) for m in found.models for value in (m.svm_auc, m.concordance)):
        lines.caption = (
            "–: in no split could this be fitted and judged. Its training rows had no event, or "
            "all lived, or none, beyond the horizon, or no share was safe. A larger --train helps."
        )
    return lines


def _rounded(found: Any) -> str:
    """How the shares behind the private models were rounded."""
    if found.rounding == "safe":
        what = "row" if found.protect == "rows" else "cell"
        return f"private: shares rounded at the step from which no {what} is recovered"
    if found.rounding:
        return f"private: shares rounded to {found.rounding:g}"
    return "private: shares not rounded, which can give rows away"


def _mean(mean: float, spread: float) -> str:
    return "–" if math.isnan(mean) else f"{mean:.3f} ± {spread:.3f}"


def view_scores(found: Any) -> RenderableType:
    lines = Table(title=f"{counted(found.rows, 'row')} scored", title_justify="left")
    lines.add_column("row", justify="right")
    lines.add_column("score", justify="right")
    if found.survival is not None:
        lines.add_column(f"lives beyond {found.at:g}", justify="right")
    for row in range(min(found.rows, 20)):
        cells = [str(row + 1), f"{found.score[row]:.4f}"]
        if found.survival is not None:
            cells.append(f"{found.survival[row]:.1%}")
        lines.add_row(*cells)
    if found.path is not None:
        lines.caption = f"All are in {found.path}."
    elif found.rows > 20:
        lines.caption = "The first 20; write all with -o."
    return lines
