"""``sfumato party``: two parties compute together without showing their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from sfumato.cli._options import (
    Columns,
    Force,
    Output,
    examples,
    flag,
    new_app,
    new_file,
    option,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, table_verb, verb
from sfumato.files import write_text
from sfumato.wording import amount

if TYPE_CHECKING:
    from sfumato.secure import (
        BayesNet,
        DecisionTree,
        KeyPaths,
        Logarithms,
        Meeting,
        Outcome,
        ToldCategories,
    )
    from sfumato.secure.decision_tree import Leaf, Split


app = new_app(
    help="Two parties compute together without showing their rows: each runs the same command "
    "beside its own table, both get the same result.",
    no_args_is_help=True,
)
_TLS = "--cert alice.crt --key alice.key --peer-cert bob.crt"
_HIS = "--me bob --peer alice.example:7000 --cert bob.crt --key bob.key --peer-cert alice.crt"
_MEETING = "Meeting the other party"


Me = Literal["alice", "bob"]
"""Which of the two this side is."""
Division = Literal["rows", "cells"]
"""How the table is divided between the two."""
Score = Literal["burnside", "stirling"]
"""How nets are scored."""
Arithmetic = Literal["fast", "paper"]
"""How trees and nets are computed."""
Backend = Literal["ot", "paillier"]
"""How numbers of the two sides are multiplied."""
Scaling = Literal["whole", "table", "exact", "statistical"]
"""How n becomes n · ln 2."""
_PAPER = "As in Ryger, Kardes & Wright"


def _file(name: str, help: str) -> Any:
    return option(f"{name} FILE", help, _MEETING)


@dataclass(frozen=True)
class MeetingOptions:
    """How the two meet: the options every command shares, as `sfumato.secure.Meeting` has them."""

    me: Annotated[
        Me, option("--me", "Who this side is: one of you is alice, the other bob.", _MEETING)
    ]
    peer: Annotated[
        str | None, option("--peer HOST:PORT", "Where the other side listens.", _MEETING)
    ] = None
    listen: Annotated[
        str | None, option("--listen HOST:PORT", "Listen here for the other side.", _MEETING)
    ] = None
    cert: Annotated[str | None, _file("--cert", "My certificate.")] = None
    key: Annotated[str | None, _file("--key", "My private key.")] = None
    peer_cert: Annotated[str | None, _file("--peer-cert", "The other side's certificate.")] = None
    plain: Annotated[
        bool, flag("--plain", "No encryption: between processes of one machine only.", _MEETING)
    ] = False
    timeout: Annotated[
        float,
        setting(
            "--timeout SECONDS",
            "How long to wait for the other side, at the start and at each step.",
            _MEETING,
        ),
    ] = 60.0

    def meeting(self, run: Run) -> Meeting:
        from sfumato.secure import Meeting

        return Meeting(**vars(self), budget=run.budget)


@dataclass(frozen=True)
class Written:
    """Where the result goes."""

    output: Output = None
    report: Annotated[
        str | None,
        option(
            "--report FILE",
            "Also write one HTML page: what was found, what it cost, and who learned what.",
        ),
    ] = None
    force: Force = False

    def after(
        self, run: Run, meeting: Meeting, compute: Callable[[], Outcome[Any]]
    ) -> Outcome[Any]:
        """Compute, and write only after both sides have finished."""
        taken = (run.source, *meeting.files)
        target, page = self.output, self.report
        if target is not None:
            new_file(target, self.force, *taken)
        if page is not None:
            new_file(page, self.force, *taken, target)
        outcome = compute()
        if target is not None:
            write_text(Path(target), outcome.found.to_json(indent=1) + "\n")
            outcome = replace(outcome, output=str(target))
        if page is not None:
            outcome.report(page, force=self.force)
        return outcome


Rows = Annotated[
    str,
    option("--rows TABLE", "This side's rows: a file or database table, as every verb takes it."),
]


@dataclass(frozen=True)
class Agreement:
    """How the table is divided, and what the two sides know of its columns."""

    split: Annotated[
        Division,
        setting(
            "--split",
            "Each side has whole [bold]rows[/bold], or both have the same rows in the same "
            "order and each some [bold]cells[/bold]: an empty cell is the other side's.",
        ),
    ] = "rows"
    schema: Annotated[
        str | None, option("--schema FILE", "Columns and categories both agreed on (JSON).")
    ] = None
    share_categories: Annotated[
        bool,
        flag(
            "--share-categories",
            "Instead of a schema: tell the other side, in clear, which categories occur in "
            "which columns. Without either option they are only listed here.",
        ),
    ] = False
    max_values: Annotated[
        int, setting("--max-values N", "Refuse columns with more categories.", min=2)
    ] = 64

    def settings(self, run: Run, columns: tuple[str, ...] | None) -> dict[str, Any]:
        """What `sfumato.secure` takes; shows what would be told if nobody agreed to tell it."""
        from sfumato.secure import read_schema, told_categories

        if self.schema is None and not self.share_categories:
            told = told_categories(run.table, columns, split=self.split, max_values=self.max_values)
            run.show(told, view_categories)
        return {
            **vars(self),
            "columns": columns,
            "schema": None if self.schema is None else read_schema(self.schema),
        }


@dataclass(frozen=True)
class Setting:
    """How trees and nets are computed: fast, or as in the paper; named as `sfumato.secure` does."""

    setting: Annotated[
        Arithmetic,
        setting(
            "--setting",
            "[bold]paper[/bold]: modulo a prime, with the Taylor series and Paillier's "
            "encryption; hundreds of times slower.",
            _PAPER,
        ),
    ] = "fast"
    terms: Annotated[
        int | None, option("--terms K", "Terms of the series, with --setting paper.", _PAPER)
    ] = None
    backend: Annotated[
        Backend | None,
        option(
            "--backend",
            "How numbers are multiplied and counted; paillier with --setting paper, else ot.",
            _PAPER,
        ),
    ] = None


@app.command(epilog=examples("sfumato party keys alice", "sfumato party keys bob --folder keys"))
@verb
def keys(
    run: Run,
    name: Annotated[str, typer.Argument(show_default=False, help="A name for the two files.")],
    folder: Annotated[str, setting("--folder DIR", "Where to put them.")] = ".",
    days: Annotated[int, setting("--days N", "How long they are valid.")] = 730,
) -> None:
    """Make the certificate by which the other party recognises this one.

    Hand NAME.crt to the other side in a way you both trust; NAME.key stays here.
    """
    from sfumato.secure import make_keys

    run.show(make_keys(folder, name, days=days), view_keys)


@app.command(
    epilog=examples(
        f"sfumato party log --me alice --listen 0.0.0.0:7000 {_TLS} --number 600 --number 12",
        f"sfumato party log {_HIS} --number 400 --number 30",
    )
)
@verb
def log(
    run: Run,
    meeting: MeetingOptions,
    number: Annotated[list[int], option("--number N", "My part of a sum, at least 1.")],
    written: Written,
    dual: Annotated[
        bool,
        flag(
            "--dual",
            "Compute everything twice with exchanged roles: a party that does not follow the "
            "protocol is caught, and learns at most one bit.",
        ),
    ] = False,
    quick: Annotated[
        bool, flag("--quick", "The quick base-two logarithm, off by 0.0745 at most.")
    ] = False,
    modulus: Annotated[
        int | None, option("--modulus M", "Compute modulo this odd number.", _PAPER)
    ] = None,
    bits: Annotated[int | None, option("--bits N", "Every sum is below 2^N.", _PAPER)] = None,
    terms: Annotated[int | None, option("--terms K", "Terms of the series.", _PAPER)] = None,
    precision: Annotated[int | None, option("--precision BITS", "Bits of ε.", _PAPER)] = None,
    backend: Annotated[
        Backend,
        setting(
            "--backend", "How the polynomial is evaluated: ot, or paillier as in the paper.", _PAPER
        ),
    ] = "ot",
    scaling: Annotated[
        Scaling | None,
        option(
            "--scaling",
            "With --modulus, how n becomes n · ln 2: times a [bold]whole[/bold] number; by a "
            "[bold]table[/bold] in the circuit (Lindell & Pinkas); by section 4 "
            "([bold]exact[/bold]) or section 5 ([bold]statistical[/bold]).",
            _PAPER,
        ),
    ] = None,
) -> None:
    """Natural logarithms of sums of which each side knows one part.

    A demonstration, not a protection: whoever knows a sum and one part knows the other part.
    """
    from sfumato.secure import log_of_sums

    peer = meeting.meeting(run)
    outcome = written.after(
        run,
        peer,
        lambda: log_of_sums(
            number,
            peer=peer,
            dual=dual,
            quick=quick,
            modulus=modulus,
            bits=bits,
            terms=terms,
            precision=precision,
            backend=backend,
            scaling=scaling,
        ),
    )
    run.show(outcome, view_logarithms)


@app.command(
    epilog=examples(
        f"sfumato party id3 --me alice --listen 0.0.0.0:7000 {_TLS} --rows mine.parquet "
        "--schema agreed.json --target diagnosis --min-rows 20",
        f"sfumato party id3 {_HIS} --rows ours.csv --schema agreed.json --target diagnosis "
        "--min-rows 20 -o tree.json",
    )
)
@table_verb
def id3(
    run: Run,
    source: Rows,
    meeting: MeetingOptions,
    target: Annotated[str, option("--target COLUMN", "What to predict.")],
    agreement: Agreement,
    written: Written,
    setting: Setting,
    columns: Columns = None,
    max_depth: Annotated[
        int | None, option("--max-depth N", "Ask at most N questions in a row.", min=0)
    ] = None,
    min_rows: Annotated[
        int,
        setting(
            "--min-rows N",
            "Do not split nodes with fewer rows. A leaf may have fewer, even one.",
            min=1,
        ),
    ] = 2,
    fine: Annotated[
        bool, flag("--fine", "Finer logarithms: equal gains are never confused.")
    ] = False,
) -> None:
    """The decision tree of both sides' rows, as if pooled (ID3).

    Both sides learn the tree, but neither counts nor gains; where each has whole rows also the
    other's number of rows, to within a factor of two. All columns are taken as categories.
    """
    from sfumato.secure import id3

    run.source = source
    peer = meeting.meeting(run)
    outcome = written.after(
        run,
        peer,
        lambda: id3(
            run.table,
            target=target,
            peer=peer,
            max_depth=max_depth,
            min_rows=min_rows,
            fine=fine,
            **vars(setting),
            **agreement.settings(run, run.columns(columns)),
        ),
    )
    run.show(outcome, view_tree)


@app.command(
    epilog=examples(
        f"sfumato party bayes --me alice --listen 0.0.0.0:7000 {_TLS} --rows hers.parquet "
        "--split cells --share-categories --max-parents 3",
        f"sfumato party bayes {_HIS} --rows his.csv --split cells --share-categories "
        "--max-parents 3",
    )
)
@table_verb
def bayes(
    run: Run,
    source: Rows,
    meeting: MeetingOptions,
    agreement: Agreement,
    written: Written,
    setting: Setting,
    columns: Columns = None,
    order: Annotated[
        list[str] | None,
        option(
            "--order A,B,…",
            "Columns in an order in which causes come before effects. As in Alice's table if "
            "not given.",
        ),
    ] = None,
    max_parents: Annotated[
        int, setting("--max-parents N", "Give a column at most N parents.", min=0)
    ] = 2,
    score: Annotated[
        Score,
        setting(
            "--score",
            "Yang & Wright's score by Burnside's formula for factorials, or by Stirling's as "
            "they have it: that favours combinations that never occur.",
        ),
    ] = "burnside",
) -> None:
    """Which columns depend on which: the Bayes net of both sides' rows, as if pooled (K2).

    Both sides learn the arrows, but neither counts nor scores; where each has whole rows also the
    other's number of rows, to within a factor of two.
    """
    from sfumato.secure import bayes_net

    run.source = source
    peer = meeting.meeting(run)
    outcome = written.after(
        run,
        peer,
        lambda: bayes_net(
            run.table,
            peer=peer,
            order=split_columns(order, run.table.columns),
            max_parents=max_parents,
            score=score,
            **vars(setting),
            **agreement.settings(run, run.columns(columns)),
        ),
    )
    run.show(outcome, view_net)


_MOST_LINES = 60


def view_keys(made: KeyPaths) -> RenderableType:
    return (
        f"Certificate {made.certificate}: give it to the other party.\n"
        f"Private key {made.key}: it stays here.\n"
        f"Fingerprint, to compare over the telephone:\n{made.fingerprint}"
    )


def view_categories(told: ToldCategories) -> RenderableType:
    """What would be told, column by column."""
    lines = [f"{name}: {', '.join(values)}" for name, values in told.columns.items()]
    title = "What --share-categories would tell the other side, in clear:"
    return _printable("\n".join([title, "", *lines]))


def view_logarithms(outcome: Outcome[Logarithms]) -> RenderableType:
    found = outcome.found
    name = "ln" if found.base == "e" else "log2"
    lines = [f"{name} of sum {i}: {value:.6f}" for i, value in enumerate(found.logarithms, 1)]
    bound = f"Each is off by at most {_rounded_up(found.error)}."
    return _with_costs(outcome, ["\n".join(lines), bound])


def view_tree(outcome: Outcome[DecisionTree]) -> RenderableType:
    """The tree, questions whose answers make no difference left out."""
    found = outcome.found
    simple = found.simplified()
    lines = list(_branches(found, simple.root, ""))
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], f"… and {more:,} more lines: use -o FILE or --json"]
    exact = told_apart("Gains", found.tolerance, "nats a row", 0.01)
    return _with_costs(outcome, [_title(found, simple), "", "\n".join(lines), *exact])


def view_net(outcome: Outcome[BayesNet]) -> RenderableType:
    """Each column with its parents."""
    found = outcome.found
    lines = [
        f"{name} ← {', '.join(found.parents[name])}" if found.parents[name] else f"{name}"
        for name in found.order
    ]
    exact = told_apart("Scores", found.tolerance, "nats", 1)
    title = "Columns, and which they depend on:"
    return _with_costs(outcome, [title, "", "\n".join(lines), *exact])


def told_apart(what: str, tolerance: float, unit: str, coarse: float) -> list[str]:
    """What was decided by figures closer to each other than they are exact.

    Neither side may know which decisions these are: that would tell about the figures.
    """
    if not tolerance:
        return []
    said = (
        f"{what} that differ by less than {_rounded_up(tolerance, 2)} {unit} may have been decided "
        "wrongly; they stay secret, so neither side can tell which."
    )
    if tolerance > coarse:
        said += " That is coarse: more --terms, or --setting fast, tell closer ones apart."
    return ["", said]


def _title(found: DecisionTree, simple: DecisionTree) -> str:
    if not simple.splits:
        title = f"{found.target}: no question makes a difference"
    elif simple.splits == 1:
        title = f"{found.target}, by 1 question"
    else:
        title = f"{found.target}, by {simple.splits:,} questions, at most {simple.depth} in a row"
    left_out = found.splits - simple.splits
    if left_out and simple.splits:
        title += f" ({left_out:,} more make no difference and are left out here)"
    return title


def _rounded_up(bound: float, digits: int = 1) -> str:
    """A bound in so many digits that is still one.

    Examples
    --------
    >>> _rounded_up(2.26e-5)
    '3e-05'
    >>> _rounded_up(119.8, 2)
    '120'
    """
    digit = 10.0 ** (math.floor(math.log10(bound)) - digits + 1)
    return f"{math.ceil(bound / digit - 1e-9) * digit:g}"


def _branches(tree: DecisionTree, node: Leaf | Split, indent: str) -> Iterator[str]:
    from sfumato.secure.decision_tree import Leaf

    labels = tree.schema.values[tree.schema.position(tree.target)]
    if isinstance(node, Leaf):
        yield f"{indent}{labels[node.label]}"
        return
    column = tree.schema.columns[node.column]
    for value, branch in zip(tree.schema.values[node.column], node.branches, strict=True):
        if isinstance(branch, Leaf):
            yield f"{indent}{column} = {value}: {labels[branch.label]}"
        else:
            yield f"{indent}{column} = {value}:"
            yield from _branches(tree, branch, indent + "  ")


def _with_costs(outcome: Outcome[Any], lines: list[str]) -> RenderableType:
    report = outcome.session
    total = report.bytes_sent + report.bytes_received
    line = "TLS 1.3" if report.encrypted else "not encrypted, on this machine"
    costs = (
        f"{report.seconds:.1f} s, {amount(total)} in {report.rounds:,} rounds ({line}); "
        f"sent {amount(report.bytes_sent)}, received {amount(report.bytes_received)}."
    )
    told = [("Both" if who == "both" else who.capitalize(), what) for who, what in report.learned]
    learned = [Text(f"{who} learned {what}.") for who, what in told]
    written = [f"Written to {outcome.output}."] if outcome.output else []
    end = "Nothing else was shown to either side."
    if report.confirmed:
        end += f"\nBoth sides ended with the same result and transcript ({report.confirmed[:16]})."
    shown = [Text(_printable(text)) for text in lines]
    return Group(*shown, "", costs, *learned, end, *written)


def _printable(text: str) -> str:
    """The other side's names and categories must not steer this side's terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
