"""``sfumato attack``: join a release with known people and count who is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli._options import examples, new_app, split_columns
from sfumato.cli._running import Run, verb

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.populations.attack import AttackResult

app = new_app()
NOT_K_MAP = 1


@app.command(
    epilog=examples(
        "sfumato attack release.csv voters.csv --on age,sex,zip -k 5",
        "sfumato attack release.csv people.csv --on age,zip --identity patient_id",
        "sfumato attack release.csv census.parquet --on age,zip -k 20 --check",
    )
)
@verb
def attack(
    run: Run,
    release: Annotated[
        str, typer.Argument(metavar="RELEASE", show_default=False, help="The released table.")
    ],
    people: Annotated[
        str,
        typer.Argument(
            metavar="PEOPLE", show_default=False, help="A table of people the attacker knows."
        ),
    ],
    on: Annotated[list[str], typer.Option(metavar="A,B,…", help="Columns that both tables have.")],
    k: Annotated[
        int, typer.Option("-k", metavar="K", help="Matching fewer people is exposed.")
    ] = 5,
    hierarchies: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Trees the release was made with."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            show_default=False,
            help="Which rows belong to one person, in either table: people are counted, not rows.",
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", show_default=False, help="True identity, in both tables."),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", show_default=False, help="Sampling weights of the people."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 unless every row matches k people (k-map).")
    ] = False,
) -> None:
    """How many released rows lead back to one person, to a few, or to at least k?

    Ranges, sets, stars, masked codes, parts of dates and the nodes of hierarchies are understood.
    With true identities in both tables it is also counted how many guesses would be right.
    """
    from sfumato.populations.attack import attack as join

    released, outside = run.open(release), run.open(people)
    found = join(
        released,
        outside,
        on=split_columns(on, released.columns) or [],
        k=k,
        hierarchies=hierarchies,
        person=person,
        identity=identity,
        weight=weight,
        budget=run.budget,
    )
    run.show(found, view)
    if check and not found.k_map:
        raise typer.Exit(NOT_K_MAP)


def view(found: AttackResult) -> RenderableType:
    """The outcome as a person reads it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", style="bold")
    lines.add_column()
    share, people = max(found.released, 1), found.counted == "people"
    for count, said in (
        (found.matches_none, f"match {'nobody' if people else 'no row'}"),
        (found.matches_one, f"match exactly one {'person' if people else 'row'}"),
        (found.matches_few, f"match fewer than {found.k:,} {found.counted}"),
        (found.matches_k, f"match at least {found.k:,} {found.counted}"),
    ):
        lines.add_row(f"{count:,}", f"{said} ({count / share:.1%})")
    title = Text.assemble(
        (f"{found.released:,}", "bold"), " released rows joined with ",
        (f"{found.people:,.0f}", "bold"), f" {found.counted} on ", (", ".join(found.on), "bold"),
    )  # fmt: skip
    verdict = (
        f"k-map holds: every row matches at least {found.k:,} {found.counted}."
        if found.k_map
        else f"k-map does not hold for k = {found.k:,}."
    )
    guess = f"Guessing among the matches is right {found.expected_right:,.1f} times on average."
    if found.guessed_right is not None:
        guess = (
            f"With the true identities: {found.certain_right:,} rows are found for certain, and "
            f"guessing is right {found.guessed_right:,.1f} times on average."
        )
    unread = [
        Text(f"! column `{name}`: {count:,} distinct cells fit no value of the people", "yellow")
        for name, count in found.unread.items()
    ]
    if not people:
        unread.append(
            Text(
                "Rows of the other table were counted. If a person has several there, say which "
                "are hers: --person COLUMN.",
                "dim",
            )
        )
    warnings = [Text(f"! {warning}", "yellow") for warning in found.warnings]
    return Group(title, "", lines, "", guess, verdict, *unread, *warnings)
