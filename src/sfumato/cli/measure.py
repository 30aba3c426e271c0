"""``sfumato measure``: the measures of one column set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.cli._options import Columns, examples, new_app
from sfumato.cli._running import Run, table_verb

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.quasi.measure import Measures

app = new_app()


@app.command(
    epilog=examples(
        "sfumato measure people.csv -c age,sex,zip",
        "sfumato measure people.parquet -c birth_date,zip --json",
        "sfumato measure postgresql://localhost/clinic#patients -c zip,sex",
    )
)
@table_verb
def measure(run: Run, columns: Columns = None) -> None:
    """How well a set of columns tells people apart.

    Rows that agree on the columns form a class. Printed are the number of classes, the rows that
    are alone in theirs, the share of pairs of rows that differ (separation), and k, the size of
    the smallest class. All figures are exact.
    """
    from sfumato.quasi.measure import measure as measure_columns

    run.show(measure_columns(run.table, run.columns(columns), budget=run.budget), view)


def view(found: Measures) -> RenderableType:
    """The measures as a person reads them."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", style="bold")
    lines.add_column()
    lines.add_row(f"{found.rows:,}", "rows")
    lines.add_row(f"{found.classes:,}", f"classes, {found.distinct:.6g} a row")
    lines.add_row(f"{found.unique_rows:,}", f"rows alone in their class: {found.unique:.2%}")
    lines.add_row(
        f"{found.unseparated_pairs:,}",
        f"pairs of rows left together: separation {found.separation:.9g}",
    )
    lines.add_row("–" if found.k is None else f"{found.k:,}", "rows in the smallest class (k)")
    title = Text("By ").append(", ".join(found.columns) or "no columns", style="bold")
    return Group(title, "", lines, "", _verdict(found))


def _verdict(found: Measures) -> str:
    if found.k is None:
        return "The table has no rows: there is nobody to find."
    if found.k > 1:
        return f"Nobody stands alone: the smallest group of equal rows has {found.k:,}."
    if found.unique_rows == found.rows:
        return "Every row stands alone: whoever knows these columns finds anybody."
    alone = "1 row stands" if found.unique_rows == 1 else f"{found.unique_rows:,} rows stand"
    return f"{alone} alone: whoever knows these columns of such a person finds their row."
