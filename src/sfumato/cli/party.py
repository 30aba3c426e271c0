"""``sfumato party``: two parties compute together without showing their rows."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli._options import Columns, Force, Output, examples, new_app, split_columns
from sfumato.cli._party_meeting import Meeting, party_verb, rows_verb
from sfumato.cli._party_rows import OwnTable, Split, read_schema
from sfumato.cli._party_views import (
    Keys,
    Logarithms,
    Outcome,
    view_keys,
    view_logarithms,
    view_net,
    view_tree,
)
from sfumato.cli._places import new_file
from sfumato.cli._running import Run, verb
from sfumato.errors import ParameterError
from sfumato.files import write_text
from sfumato.results import Result

if TYPE_CHECKING:
    from sfumato.secure import Session

app = new_app(
    help="Two parties compute together without showing their rows: each runs the same command "
    "beside its own table, both get the same result.",
    no_args_is_help=True,
)
_TLS = "--cert alice.crt --key alice.key --peer-cert bob.crt"
_LARGEST_SUM_BITS = 40


class Score(StrEnum):
    """How nets are scored."""

    burnside = "burnside"
    stirling = "stirling"


SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        show_default=False,
        help="Columns and categories both agreed on (JSON). Without it the two sides tell each "
        "other which categories occur.",
    ),
]
SplitChoice = Annotated[
    Split,
    typer.Option(
        "--split",
        help="Each side has whole [bold]rows[/bold], or both have the same rows in the same order "
        "and each some [bold]cells[/bold]: an empty cell is the other side's.",
    ),
]
PageFile = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE",
        show_default=False,
        help="Also write one HTML page: what was found, what it cost, and who learned what.",
    ),
]
MostValues = Annotated[
    int,
    typer.Option("--max-values", metavar="N", min=2, help="Refuse columns with more categories."),
]


@app.command(epilog=examples("sfumato party keys alice", "sfumato party keys bob --folder keys"))
@verb
def keys(
    run: Run,
    name: Annotated[str, typer.Argument(show_default=False, help="A name for the two files.")],
    folder: Annotated[
        str, typer.Option("--folder", metavar="DIR", help="Where to put them.")
    ] = ".",
    days: Annotated[
        int, typer.Option("--days", metavar="N", help="How long they are valid.")
    ] = 730,
) -> None:
    """Make the certificate by which the other party knows this one.

    NAME.crt goes to the other side on a way you both trust; NAME.key stays.
    """
    from sfumato.secure import make_keys

    made = make_keys(folder, name, days=days)
    run.show(Keys(str(made.certificate), str(made.key), made.fingerprint), view_keys)


@app.command(
    epilog=examples(
        f"sfumato party log --me alice --listen 0.0.0.0:7000 {_TLS} --number 600 --number 12",
        "sfumato party log --me bob --peer localhost:7000 --plain --number 400 --number 30",
    )
)
@party_verb
def log(
    run: Run,
    meeting: Meeting,
    number: Annotated[
        list[int],
        typer.Option(
            "--number", metavar="N", show_default=False, help="My part of a sum, at least 1."
        ),
    ],
    output: Output = None,
    report: PageFile = None,
    force: Force = False,
) -> None:
    """Natural logarithms of sums of which each side knows one part.

    A try-out of the machinery: whoever knows a sum and one part knows the other part.
    """
    from sfumato import secure

    largest = (1 << (_LARGEST_SUM_BITS - 1)) - 1
    if not all(1 <= part <= largest for part in number):
        # a sum of nothing has no logarithm, and neither side can see that it is one
        raise ParameterError(
            "this is not a part of a sum", where="--number", remedy=f"Use 1 to {largest:,}."
        )
    ring = secure.Ring.power_of_two(64)

    def compute(session: Session) -> Logarithms:
        mine = secure.private(ring, number)
        shares = secure.log(session, mine, bits=_LARGEST_SUM_BITS)
        opened = secure.reveal_real(session, shares, what="the logarithms of the sums")
        error = secure.log_error(ring, bits=_LARGEST_SUM_BITS)
        return Logarithms(tuple(float(value) for value in opened), error)

    outcome = _together(
        run, meeting, "log", {"numbers": len(number)}, compute, output, report, force
    )
    run.show(outcome, view_logarithms)


@app.command(
    epilog=examples(
        "sfumato party id3 --me alice --listen 0.0.0.0:7000 --rows mine.parquet --target diagnosis "
        f"--min-rows 20 {_TLS}",
        "sfumato party id3 --me bob --peer alice.example:7000 --rows ours.csv --target diagnosis "
        "--min-rows 20 --cert bob.crt --key bob.key --peer-cert alice.crt -o tree.json",
    )
)
@rows_verb
def id3(
    run: Run,
    meeting: Meeting,
    target: Annotated[
        str,
        typer.Option("--target", metavar="COLUMN", show_default=False, help="What to predict."),
    ],
    columns: Columns = None,
    max_depth: Annotated[
        int | None,
        typer.Option(
            "--max-depth", metavar="N", min=0, show_default=False, help="Questions in a row."
        ),
    ] = None,
    min_rows: Annotated[
        int, typer.Option("--min-rows", metavar="N", min=1, help="Smaller nodes ask no further.")
    ] = 2,
    fine: Annotated[
        bool,
        typer.Option("--fine", help="Finer logarithms: equal gains are never confused."),
    ] = False,
    split: SplitChoice = Split.rows,
    schema: SchemaFile = None,
    max_values: MostValues = 64,
    output: Output = None,
    report: PageFile = None,
    force: Force = False,
) -> None:
    """The decision tree of both sides' rows, as if pooled (ID3).

    Both sides learn the tree and nothing else about the other's rows: neither counts nor gains. All
    columns are taken as categories.
    """
    from sfumato import secure

    agreed = None if schema is None else read_schema(schema)
    chosen = run.columns(columns)
    if chosen is not None and split is Split.rows and target not in chosen:
        chosen = (*chosen, *run.table.require([target]))
    own = OwnTable(run, chosen, split, max_values)
    own.require([target], agreed)
    own.require_complete(target)
    options: dict[str, Any] = {
        "target": target, "max_depth": max_depth, "min_rows": min_rows, "fine": fine
    }  # fmt: skip

    def compute(session: Session) -> secure.DecisionTree:
        return secure.id3(session, own.agreed(session, agreed), **options)

    facts = {**options, **_facts(split, agreed)}
    outcome = _together(run, meeting, "id3", facts, compute, output, report, force)
    run.show(outcome, view_tree)


@app.command(
    epilog=examples(
        "sfumato party bayes --me alice --listen 0.0.0.0:7000 --rows mine.parquet "
        f"-c age_group,sex,stage,outcome {_TLS}",
        "sfumato party bayes --me bob --peer localhost:7000 --plain --rows his.csv --split cells "
        "--max-parents 3",
    )
)
@rows_verb
def bayes(
    run: Run,
    meeting: Meeting,
    columns: Columns = None,
    order: Annotated[
        list[str] | None,
        typer.Option(
            "--order",
            metavar="A,B,…",
            show_default=False,
            help="Columns in an order in which causes come before effects. As in Alice's table if "
            "not given.",
        ),
    ] = None,
    max_parents: Annotated[
        int, typer.Option("--max-parents", metavar="N", min=0, help="No column gets more parents.")
    ] = 2,
    score: Annotated[
        Score,
        typer.Option(
            "--score",
            help="Yang & Wright's score by Burnside's formula for factorials, or by Stirling's as "
            "they have it: that favours combinations that never occur.",
        ),
    ] = Score.burnside,
    split: SplitChoice = Split.rows,
    schema: SchemaFile = None,
    max_values: MostValues = 64,
    output: Output = None,
    report: PageFile = None,
    force: Force = False,
) -> None:
    """Which columns depend on which: the Bayes net of both sides' rows, as if pooled (K2).

    Both sides learn the arrows and nothing else: neither counts nor scores.
    """
    from sfumato import secure

    agreed = None if schema is None else read_schema(schema)
    own = OwnTable(run, run.columns(columns), split, max_values)
    wanted = split_columns(order, tuple(own.categories))
    own.require(wanted or [], agreed)
    options: dict[str, Any] = {"order": wanted, "max_parents": max_parents, "score": score.value}

    def compute(session: Session) -> secure.BayesNet:
        return secure.bayes_net(session, own.agreed(session, agreed), **options)

    facts = {**options, **_facts(split, agreed)}
    outcome = _together(run, meeting, "bayes", facts, compute, output, report, force)
    run.show(outcome, view_net)


def _facts(split: Split, agreed: Any) -> dict[str, Any]:
    return {"split": split.value, "schema": None if agreed is None else agreed.digests()}


def _together(
    run: Run,
    meeting: Meeting,
    program: str,
    parameters: dict[str, Any],
    compute: Callable[[Session], Result],
    output: str | None,
    report: str | None,
    force: bool,
) -> Outcome:
    """Meet, compute, and write only after both sides have finished."""
    taken = (run.source, *meeting.files)
    target = None if output is None else new_file(output, force, *taken)
    page = None if report is None else new_file(report, force, *taken, output)
    with meeting.meet(run, program, parameters) as session:
        found = compute(session)
    if target is not None:
        write_text(target, found.to_json(indent=1) + "\n")
    outcome = Outcome(found, session.report(), None if target is None else str(target))
    if page is not None:
        outcome.report(page, force=force)
    return outcome
