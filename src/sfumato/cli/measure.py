"""``sfumato measure`` and ``sfumato risk``: what one set of columns gives away."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import (
    Columns,
    Force,
    Missing,
    Person,
    examples,
    new_app,
    new_file,
    option,
    setting,
    split_columns,
)
from sfumato.cli._running import Run, table_verb
from sfumato.errors import ParameterError
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.quasi.measure import Measures
    from sfumato.risks import Risk

app = new_app()


@app.command(
    epilog=examples(
        "sfumato measure people.csv -c birth_date,sex,zip",
        "sfumato measure people.parquet -c birth_date,zip --json",
        "sfumato measure postgresql://localhost/clinic#patients -c zip,sex",
    )
)
@table_verb
def measure(
    run: Run, columns: Columns = None, person: Person = None, missing: Missing = "value"
) -> None:
    """How well a set of columns tells people apart.

    Rows that agree on the columns form a class. Printed are the number of classes, the rows that
    are alone in theirs, the share of pairs of rows that differ (separation), and k, the size of
    the smallest class. All figures are exact.
    """
    from sfumato.quasi.measure import measure as measure_columns

    found = measure_columns(
        run.table, run.columns(columns), person=person, missing=missing, budget=run.budget
    )
    run.show(found, partial(view_measures, wild=missing == "wildcard"))


def view_measures(found: Measures, wild: bool = False) -> RenderableType:
    """The measures as a person reads them."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", style="bold")
    lines.add_column()
    lines.add_row(f"{found.rows:,}", "rows")
    who, of, each = "rows", "", "row"
    alone = found.unique_rows
    if found.persons is not None and found.unique_persons is not None:
        lines.add_row(f"{found.persons:,}", "persons")
        who, of, each = "persons", " of different persons", "person in a class"
        alone = found.unique_persons
    lines.add_row(f"{found.classes:,}", f"classes, {found.distinct:.6g} a {each}")
    by_themselves = "rows that match no other" if wild else f"{who} alone in their class"
    if of:
        by_themselves = "persons alone in a class"
    lines.add_row(f"{alone:,}", f"{by_themselves}: {found.unique:.2%}")
    lines.add_row(
        f"{found.unseparated_pairs:,}",
        f"pairs of rows{of} left together: separation {found.separation:.9g}",
    )
    least = "rows that a row matches at least, itself included (k)"
    lines.add_row(
        "–" if found.k is None else f"{found.k:,}",
        least if wild else f"{who} in the smallest class (k)",
    )
    title = Text("By ").append(", ".join(found.columns) or "no columns", style="bold")
    if wild:
        title.append(", where a missing cell matches any value")
    return Group(title, "", lines, "", _verdict(found, wild))


def _verdict(found: Measures, wild: bool) -> str:
    if found.k is None:
        return "The table has no rows: there is nobody to find."
    if wild and found.k > 1:
        return f"Nobody stands alone: every row matches {found.k:,} rows, itself included, or more."
    if found.unique_persons is not None:
        if found.k > 1:
            return f"Nobody stands alone: the smallest class holds {found.k:,} persons."
        alone = (
            "1 person has"
            if found.unique_persons == 1
            else f"{found.unique_persons:,} persons have"
        )
        return f"{alone} a combination that nobody else has, and can be found by it."
    if found.k > 1:
        return f"Nobody stands alone: the smallest group of equal rows has {found.k:,}."
    if found.unique_rows == found.rows:
        return "Every row stands alone: whoever knows these columns finds anybody."
    alone = counted(found.unique_rows, "row", does="stand")
    return f"{alone} alone: whoever knows these columns of such a person finds their row."


@app.command(
    epilog=examples(
        "sfumato risk people.csv --qi birth_date,sex,zip",
        "sfumato risk people.csv --qi birth_date,sex,zip --released release.csv",
        "sfumato risk survey.parquet --qi age,sex --sampling-weight weight",
    )
)
@table_verb
def risk(
    run: Run,
    qi: Annotated[list[str], option("--qi A,B,…", "Columns an attacker may know, all together.")],
    threshold: Annotated[
        float, setting("--threshold RISK", "Rows above this risk are counted; 0.2 is one in 5.")
    ] = 0.2,
    sampling_weight: Annotated[
        str | None,
        option(
            "--sampling-weight COLUMN",
            "Column that says how many of the population a row stands for.",
        ),
    ] = None,
    person: Annotated[
        str | None, option("--person COLUMN", "Tells persons apart where they have several rows.")
    ] = None,
    household: Annotated[
        str | None,
        option(
            "--household COLUMN",
            "Tells households apart: also the risk that anybody in one is found.",
        ),
    ] = None,
    population: Annotated[
        str | None, option("--population TABLE", "A table of the whole population.")
    ] = None,
    released: Annotated[
        str | None, option("--released TABLE", "A released table to measure the same way.")
    ] = None,
    per_row: Annotated[
        str | None,
        option(
            "--per-row FILE",
            "Write the table with the prosecutor's risk of every row in a column `risk`.",
        ),
    ] = None,
    missing: Missing = "value",
    force: Force = False,
) -> None:
    """How likely somebody is found by what an attacker knows.

    The prosecutor knows that a person is in the table, the journalist does not and looks at the
    population, the marketer matches everybody and hopes for many right matches.
    """
    from sfumato.risks import risk as measure_risk
    from sfumato.risks import write_risks

    names = split_columns(qi, run.table.columns) or []
    if per_row is not None and person is not None:
        raise ParameterError(
            "risks are written row by row, not person by person",
            remedy="Leave out --person or --per-row.",
        )
    if per_row is not None:
        new_file(per_row, force, run.source, released, population)
    found = measure_risk(
        run.table,
        names,
        threshold=threshold,
        sampling_weight=sampling_weight,
        person=person,
        household=household,
        population=None if population is None else run.open(population),
        released=None if released is None else run.open(released),
        missing=missing,
        budget=run.budget,
    )
    if per_row is not None:
        write_risks(run.table, names, per_row, missing=missing, force=force, budget=run.budget)
    run.show(found, partial(view_risk, wild=missing == "wildcard"))


def view_risk(found: Risk, wild: bool = False) -> RenderableType:
    """The risks as a person reads them, before and after."""
    sides = [found] if found.after is None else [found, found.after]
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    lines.add_column("")
    for side in ("before", "after")[: len(sides)] if len(sides) > 1 else ("",):
        lines.add_column(side, justify="right", header_style="bold")
    who = "rows" if found.persons is None else "persons"
    for label, cells in (
        ("prosecutor (highest)", [_share(side.prosecutor) for side in sides]),
        ("journalist (highest)", [_share(side.journalist) for side in sides]),
        ("marketer (expected share found)", [_share(side.marketer) for side in sides]),
        (
            f"{who} above {found.threshold:g} (prosecutor)",
            [_share(side.share_above) for side in sides],
        ),
        (
            f"{who} above {found.threshold:g} (journalist)",
            [_share(side.journalist_share_above) for side in sides],
        ),
    ):
        lines.add_row(label, *cells)
    homes = [side.households for side in sides if side.households is not None]
    if homes:
        number = f"{homes[0].number:,} households"
        lines.add_row(f"anybody found, of {number} (highest)", *(_share(h.highest) for h in homes))
        lines.add_row("anybody found (mean)", *(_share(h.mean) for h in homes))
        lines.add_row(
            f"households above {found.threshold:g}", *(_share(h.share_above) for h in homes)
        )
    title = Text("By ").append(", ".join(found.qi), style="bold")
    if wild:
        title.append(", where a missing cell matches any value")
    return Group(title, "", lines, "", f"Population: {found.basis}.")


def _share(risk: float | None) -> str:
    return "–" if risk is None else f"{risk:.3%}"
