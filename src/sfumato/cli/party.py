"""``sfumato party``: two parties compute together without showing their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli._options import (
    Columns,
    Force,
    Output,
    examples,
    new_app,
    new_file,
    option,
    split_columns,
)
from sfumato.cli._party_views import (
    view_categories,
    view_keys,
    view_logarithms,
    view_net,
    view_tree,
)
from sfumato.cli._running import Run, table_verb, verb
from sfumato.files import write_text

if TYPE_CHECKING:
    from sfumato.secure import Meeting, Outcome

app = new_app(
    help="Two parties compute together without showing their rows: each runs the same command "
    "beside its own table, both get the same result.",
    no_args_is_help=True,
)
_TLS = "--cert alice.crt --key alice.key --peer-cert bob.crt"
_MEETING = "Meeting the other party"


class Me(StrEnum):
    """Which of the two this side is."""

    alice = "alice"
    bob = "bob"


class Split(StrEnum):
    """How the table is divided between the two."""

    rows = "rows"
    cells = "cells"


class Score(StrEnum):
    """How nets are scored."""

    burnside = "burnside"
    stirling = "stirling"


class Arithmetic(StrEnum):
    """How trees and nets are computed."""

    fast = "fast"
    paper = "paper"


class Backend(StrEnum):
    """How numbers of the two sides are multiplied."""

    ot = "ot"
    paillier = "paillier"


class Scaling(StrEnum):
    """How n becomes n · ln 2."""

    whole = "whole"
    table = "table"
    exact = "exact"
    statistical = "statistical"


_PAPER = "As in Ryger, Kardes & Wright"


def _file(name: str, help: str) -> Any:
    return option(_MEETING, name, metavar="FILE", help=help)


@dataclass(frozen=True)
class MeetingOptions:
    """How the two meet: the options every command shares, as `sfumato.secure.Meeting` has them."""

    me: Annotated[
        Me,
        typer.Option(
            "--me",
            show_default=False,
            rich_help_panel=_MEETING,
            help="Who this side is: one of you is alice, the other bob.",
        ),
    ]
    peer: Annotated[
        str | None,
        option(_MEETING, "--peer", metavar="HOST:PORT", help="Where the other side listens."),
    ] = None
    listen: Annotated[
        str | None,
        option(_MEETING, "--listen", metavar="HOST:PORT", help="Listen here for the other side."),
    ] = None
    cert: Annotated[str | None, _file("--cert", "My certificate.")] = None
    key: Annotated[str | None, _file("--key", "My private key.")] = None
    peer_cert: Annotated[str | None, _file("--peer-cert", "The other side's certificate.")] = None
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            rich_help_panel=_MEETING,
            help="No encryption: between processes of one machine only.",
        ),
    ] = False
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            rich_help_panel=_MEETING,
            help="How long to wait for the other side, at the start and at each step.",
        ),
    ] = 60.0

    def meeting(self, run: Run) -> Meeting:
        """The meeting, checked."""
        from sfumato.secure import Meeting

        given = {**vars(self), "me": self.me.value}
        return Meeting(**given, budget=run.budget)


@dataclass(frozen=True)
class Written:
    """Where the result goes."""

    output: Output = None
    report: Annotated[
        str | None,
        option(
            None,
            "--report",
            metavar="FILE",
            help="Also write one HTML page: what was found, what it cost, and who learned what.",
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
    option(
        None,
        "--rows",
        metavar="TABLE",
        help="This side's rows: a file or database table, as every verb takes it.",
    ),
]


@dataclass(frozen=True)
class Agreement:
    """How the table is divided, and what the two sides know of its columns."""

    split: Annotated[
        Split,
        typer.Option(
            "--split",
            help="Each side has whole [bold]rows[/bold], or both have the same rows in the same "
            "order and each some [bold]cells[/bold]: an empty cell is the other side's.",
        ),
    ] = Split.rows
    schema: Annotated[
        str | None,
        option(
            None,
            "--schema",
            metavar="FILE",
            help="Columns and categories both agreed on (JSON).",
        ),
    ] = None
    share_categories: Annotated[
        bool,
        typer.Option(
            "--share-categories",
            help="Instead of a schema: tell the other side, in clear, which categories occur in "
            "which columns. Without either option they are only listed here.",
        ),
    ] = False
    max_values: Annotated[
        int,
        typer.Option(
            "--max-values", metavar="N", min=2, help="Refuse columns with more categories."
        ),
    ] = 64

    def settings(self, run: Run, columns: tuple[str, ...] | None) -> dict[str, Any]:
        """What `sfumato.secure` takes; shows what would be told if nobody agreed to tell it."""
        from sfumato.secure import read_schema, told_categories

        split: Any = self.split.value
        if self.schema is None and not self.share_categories:
            told = told_categories(run.table, columns, split=split, max_values=self.max_values)
            run.show(told, view_categories)
        return {
            "columns": columns,
            "split": split,
            "schema": None if self.schema is None else read_schema(self.schema),
            "share_categories": self.share_categories,
            "max_values": self.max_values,
        }


@dataclass(frozen=True)
class Setting:
    """How trees and nets are computed: fast, or as in the paper."""

    setting: Annotated[
        Arithmetic,
        typer.Option(
            "--setting",
            rich_help_panel=_PAPER,
            help="[bold]paper[/bold]: modulo a prime, with the Taylor series and Paillier's "
            "encryption; hundreds of times slower.",
        ),
    ] = Arithmetic.fast
    terms: Annotated[
        int | None,
        option(_PAPER, "--terms", metavar="K", help="Terms of the series, with --setting paper."),
    ] = None
    backend: Annotated[
        Backend | None,
        typer.Option(
            "--backend",
            show_default=False,
            rich_help_panel=_PAPER,
            help="How numbers are multiplied and counted; paillier with --setting paper, else ot.",
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """As `sfumato.secure` takes them."""
        backend = None if self.backend is None else self.backend.value
        return {"setting": self.setting.value, "terms": self.terms, "backend": backend}


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
    """Make the certificate by which the other party recognises this one.

    Hand NAME.crt to the other side in a way you both trust; NAME.key stays here.
    """
    from sfumato.secure import make_keys

    run.show(make_keys(folder, name, days=days), view_keys)


@app.command(
    epilog=examples(
        f"sfumato party log --me alice --listen 0.0.0.0:7000 {_TLS} --number 600 --number 12",
        "sfumato party log --me bob --peer localhost:7000 --plain --number 400 --number 30",
    )
)
@verb
def log(
    run: Run,
    meeting: MeetingOptions,
    number: Annotated[
        list[int], option(None, "--number", metavar="N", help="My part of a sum, at least 1.")
    ],
    written: Written,
    dual: Annotated[
        bool,
        typer.Option(
            "--dual",
            help="Compute everything twice with exchanged roles: a party that does not follow the "
            "protocol is caught, and learns at most one bit.",
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="The quick base-two logarithm, off by 0.0745 at most.")
    ] = False,
    modulus: Annotated[
        int | None,
        option(_PAPER, "--modulus", metavar="M", help="Compute modulo this odd number."),
    ] = None,
    bits: Annotated[
        int | None, option(_PAPER, "--bits", metavar="N", help="Every sum is below 2^N.")
    ] = None,
    terms: Annotated[
        int | None, option(_PAPER, "--terms", metavar="K", help="Terms of the series.")
    ] = None,
    precision: Annotated[
        int | None, option(_PAPER, "--precision", metavar="BITS", help="Bits of ε.")
    ] = None,
    backend: Annotated[
        Backend,
        typer.Option(
            help="How the polynomial is evaluated: ot, or paillier as in the paper.",
            rich_help_panel=_PAPER,
        ),
    ] = Backend.ot,
    scaling: Annotated[
        Scaling | None,
        typer.Option(
            "--scaling",
            show_default=False,
            rich_help_panel=_PAPER,
            help="With --modulus, how n becomes n · ln 2: times a [bold]whole[/bold] number; by a "
            "[bold]table[/bold] in the circuit (Lindell & Pinkas); by section 4 "
            "([bold]exact[/bold]) or section 5 ([bold]statistical[/bold]).",
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
            backend=backend.value,
            scaling=None if scaling is None else scaling.value,
        ),
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
@table_verb
def id3(
    run: Run,
    source: Rows,
    meeting: MeetingOptions,
    target: Annotated[str, option(None, "--target", metavar="COLUMN", help="What to predict.")],
    agreement: Agreement,
    written: Written,
    setting: Setting,
    columns: Columns = None,
    max_depth: Annotated[
        int | None,
        option(None, "--max-depth", metavar="N", min=0, help="Ask at most N questions in a row."),
    ] = None,
    min_rows: Annotated[
        int,
        typer.Option("--min-rows", metavar="N", min=1, help="Do not split nodes with fewer rows."),
    ] = 2,
    fine: Annotated[
        bool,
        typer.Option("--fine", help="Finer logarithms: equal gains are never confused."),
    ] = False,
) -> None:
    """The decision tree of both sides' rows, as if pooled (ID3).

    Both sides learn the tree and nothing else about the other's rows: neither counts nor gains. All
    columns are taken as categories.
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
            **setting.settings(),
            **agreement.settings(run, run.columns(columns)),
        ),
    )
    run.show(outcome, view_tree)


@app.command(
    epilog=examples(
        "sfumato party bayes --me alice --listen 0.0.0.0:7000 --rows mine.parquet "
        f"-c age_group,sex,stage,outcome {_TLS}",
        "sfumato party bayes --me bob --peer localhost:7000 --plain --rows his.csv --split cells "
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
            None,
            "--order",
            metavar="A,B,…",
            help="Columns in an order in which causes come before effects. As in Alice's table if "
            "not given.",
        ),
    ] = None,
    max_parents: Annotated[
        int,
        typer.Option("--max-parents", metavar="N", min=0, help="Give a column at most N parents."),
    ] = 2,
    score: Annotated[
        Score,
        typer.Option(
            "--score",
            help="Yang & Wright's score by Burnside's formula for factorials, or by Stirling's as "
            "they have it: that favours combinations that never occur.",
        ),
    ] = Score.burnside,
) -> None:
    """Which columns depend on which: the Bayes net of both sides' rows, as if pooled (K2).

    Both sides learn the arrows and nothing else: neither counts nor scores.
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
            score=score.value,
            **setting.settings(),
            **agreement.settings(run, run.columns(columns)),
        ),
    )
    run.show(outcome, view_net)
