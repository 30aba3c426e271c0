"""``sfumato measure``: the measures of one column set."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli._options import Columns, Missing, Person, examples, new_app
from sfumato.cli._running import Run, table_verb
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.quasi.measure import Measures

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
    run.show(found, partial(view, wild=missing == "wildcard"))


def view(found: Measures, wild: bool = False) -> RenderableType:
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
