"""``sfumato attack``: join a release with known people and count who is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import argument, examples, flag, new_app, option, split_columns
from sfumato.cli._running import Run, verb
from sfumato.errors import ParameterError
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.populations.attack import AttackResult

app = new_app()
NOT_K_MAP = 1


@app.command(
    epilog=examples(
        "sfumato attack release.csv voters.csv --on birth_date,sex,zip -k 5",
        "sfumato attack release.csv people.csv --on sex,zip --identity patient_id",
        "sfumato attack release.csv census.parquet --on sex,zip -k 5 --check",
        "sfumato attack released/ hospital/dataset.toml -m 1",
    )
)
@verb
def attack(
    run: Run,
    release: Annotated[str, argument("RELEASE", "The released table.")],
    people: Annotated[str, argument("PEOPLE", "A table of people the attacker knows.")],
    on: Annotated[list[str] | None, option("--on A,B,…", "Columns that both tables have.")] = None,
    k: Annotated[
        int | None,
        option(
            "-k K",
            "Matching fewer people is exposed; 5 unless given, of a dataset what it promises.",
        ),
    ] = None,
    m: Annotated[
        int | None,
        option(
            "-m N",
            "Of a dataset: rows of a person that are known; what it promises unless given.",
            min=0,
        ),
    ] = None,
    hierarchies: Annotated[
        str | None, option("--hierarchies FOLDER", "Trees the release was made with.")
    ] = None,
    person: Annotated[
        str | None,
        option(
            "--person COLUMN",
            "Which rows belong to one person, in either table: people are counted, not rows.",
        ),
    ] = None,
    identity: Annotated[
        str | None, option("--identity COLUMN", "True identity, in both tables.")
    ] = None,
    sampling_weight: Annotated[
        str | None,
        option("--sampling-weight COLUMN", "How many people a row of PEOPLE stands for."),
    ] = None,
    check: Annotated[
        bool, flag("--check", "End with 1 unless every row matches k people (k-map).")
    ] = False,
) -> None:
    """How many released rows lead back to one person, to a few, or to at least k?

    Ranges, sets, stars, masked codes, parts of dates and the nodes of hierarchies are understood.
    With true identities in both tables it is also counted how many guesses would be right. A
    released dataset is attacked with the dataset it was made of: by own columns and any m rows.
    """
    from sfumato.cli import _dataset
    from sfumato.populations.attack import attack as join

    if _dataset.released(release, required=True):
        left = _dataset.attack(run, release, people, (k, m), hierarchies, on, person or identity)
        if check and not left.holds:
            raise typer.Exit(NOT_K_MAP)
        return
    if on is None or m is not None:
        raise ParameterError(
            "it is not said by which columns the tables are joined"
            if on is None
            else "how many rows are known only matters of a dataset",
            remedy="Name columns that both have, e.g. --on age,sex,zip."
            if on is None
            else "Leave out -m.",
        )
    released, outside = run.open(release), run.open(people)
    found = join(
        released,
        outside,
        on=split_columns(on, released.columns) or [],
        k=5 if k is None else k,
        hierarchies=hierarchies,
        person=person,
        identity=identity,
        sampling_weight=sampling_weight,
        budget=run.budget,
    )
    run.show(found, view)
    if check and not found.k_map:
        raise typer.Exit(NOT_K_MAP)


def view(found: AttackResult) -> RenderableType:
    """The outcome as a person reads it."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", style="bold")
    lines.add_column()
    share, people = max(found.released, 1), found.counted == "people"
    persons = found.released_as == "people"
    released = "people, each by the row of theirs that matches fewest," if persons else "rows"
    for count, said in (
        (found.matches_none, f"match {'nobody' if people else 'no row'}"),
        (found.matches_one, f"match exactly one {'person' if people else 'row'}"),
        (found.matches_few, f"match fewer than {found.k:,} {found.counted}"),
        (found.matches_k, f"match at least {found.k:,} {found.counted}"),
    ):
        lines.add_row(f"{count:,}", f"{said} ({count / share:.1%})")
    title = Text.assemble(
        (f"{found.released:,}", "bold"), f" released {released} joined with ",
        (f"{found.people:,.0f}", "bold"), f" {found.counted} on ", (", ".join(found.on), "bold"),
    )  # fmt: skip
    verdict = (
        f"k-map holds: every row matches at least {found.k:,} {found.counted}."
        if found.k_map
        else f"k-map does not hold for k = {found.k:,}."
    )
    guess = f"Guessing among the matches is right {found.expected_right:,.1f} times on average."
    if found.guessed_right is not None:
        one, many = ("person", "people") if persons else ("row", "rows")
        certain = counted(found.certain_right or 0, one, many=many, does="are")
        guess = (
            f"With the true identities: {certain} found for certain, and "
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
                "are theirs: --person COLUMN.",
                "dim",
            )
        )
    warnings = [Text(f"! {warning}", "yellow") for warning in found.warnings]
    return Group(title, "", lines, "", guess, verdict, *unread, *warnings)
