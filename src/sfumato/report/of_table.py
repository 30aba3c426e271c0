"""The report of a table: who can be found, by what, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sfumato.budget import Budget
from sfumato.engines.sizes import ClassSizes
from sfumato.errors import ParameterError
from sfumato.quasi.scan import Scan, scan
from sfumato.report import charts
from sfumato.report.drawing import gauge
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.tables import Table, table

__all__ = ["TableFindings", "findings_of", "table_page"]

MOST_PAIRS = 14
"""Columns whose pairs are all measured; beyond that only the most identifying ones."""
ROLES = {
    "identifier": "points at one person",
    "quasi-identifier": "others may know it",
    "sensitive": "worth hiding",
    "other": "other",
}


@dataclass(frozen=True, eq=False)
class TableFindings:
    """Everything the report of a table draws."""

    scan: Scan
    qi: tuple[str, ...]
    k: int
    sizes: ClassSizes
    singles: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]


def findings_of(
    source: Any,
    *,
    qi: Sequence[str] | None = None,
    k: int = 5,
    seed: int = 0,
    budget: Budget | None = None,
) -> TableFindings:
    """Measure what the report shows; quasi-identifiers are guessed where none are given."""
    if k < 2:
        raise ParameterError(f"k = {k} is out of range", remedy="Give 2 or more.")
    budget = budget or Budget()
    opened = table(source, budget=budget)
    found = scan(opened, seed=seed, budget=budget)
    names = opened.require(qi) if qi else _likely(found)
    budget.progress("measuring pairs of columns")
    shown = names[:MOST_PAIRS]
    singles = {name: _unique(opened, [name]) for name in shown}
    pairs = {(name, name): singles[name] for name in shown}
    pairs |= {pair: _unique(opened, pair) for pair in combinations(shown, 2)}
    return TableFindings(found, names, k, opened.class_sizes(names, budget), singles, pairs)


def _unique(opened: Table, columns: Sequence[str]) -> float:
    return opened.class_sizes(columns).unique


def _likely(found: Scan) -> tuple[str, ...]:
    """Quasi-identifiers by their guessed role; of columns that say the same the first one."""
    twins = {name for group in found.twins for name in group[1:]}
    likely = [name for name in found.with_role("quasi-identifier") if name not in twins]
    if not likely:
        likely = [c.name for c in found.columns if c.role != "identifier" and c.name not in twins]
    return tuple(likely)


def table_page(findings: TableFindings) -> Page:
    """The page of a table."""
    found, sizes = findings.scan, findings.sizes
    rows = max(1, sizes.rows)
    below = sizes.rows_below(findings.k)
    tone, verdict = _verdict(findings, below)
    return Page(
        title=found.table,
        subtitle=f"Who can be found in this table, and by which columns · {sizes.rows:,} rows, "
        f"{len(found.columns)} columns",
        verdict=verdict,
        tone=tone,
        facts=(
            ("rows", f"{sizes.rows:,}"),
            ("stand alone", f"{sizes.unique_rows:,}"),
            (f"fewer than {findings.k} alike", f"{below:,}"),
            ("smallest class (k)", "–" if sizes.k is None else f"{sizes.k:,}"),
            ("duplicate rows", f"{found.duplicate_rows or 0:,}"),
        ),
        gauges=(
            gauge("highest risk", None if not sizes.k else 1 / sizes.k),
            gauge("average risk", sizes.classes / rows if sizes.rows else None),
            gauge(f"rows below {findings.k} alike", below / rows if sizes.rows else None),
        ),
        sections=[*_who(findings), *_by_what(findings), *_columns(found), *_next(findings)],
        footer=f"Figures are exact. Quasi-identifiers: {', '.join(findings.qi)}.",
    )


def _verdict(findings: TableFindings, below: int) -> tuple[Any, str]:
    found, sizes = findings.scan, findings.sizes
    if not sizes.rows:
        return "good", "The table has no rows: there is nobody to find."
    direct = found.with_role("identifier")
    by = ", ".join(findings.qi)
    if direct:
        start = (
            f"Do not release this table as it is: {', '.join(direct)} point at people directly. "
        )
    elif below:
        start = "Do not release this table as it is. "
    else:
        start = ""
    if not below:
        rest = f"At least {sizes.k} people look alike on {by}."
        return ("bad" if direct else "good"), start + rest
    share = sizes.unique_rows / sizes.rows
    alone = f"{sizes.unique_rows:,} of {sizes.rows:,} people ({share:.1%}) are the only one with"
    return "bad", f"{start}{alone} their {by}."


def _who(findings: TableFindings) -> list[Section]:
    found, sizes, k = findings.scan, findings.sizes, findings.k
    if not sizes.rows:
        return []
    figures = [
        Figure(
            f"How many people share the values of {', '.join(findings.qi)}. Whoever is in a class "
            f"of fewer than {k} can be singled out with a risk above {1 / k:.0%}.",
            charts.class_sizes("Rows by the size of their class", sizes, k),
        ),
        Figure(
            "How many rows carry at least a given risk: one over the number of people alike.",
            charts.risk_curve("Share of rows by risk", {"table": sizes}),
        ),
    ]
    ladder = []
    if found.ladder:
        ladder = [
            Figure(
                "Adding one column after the other, each time the one that singles out most: a few "
                "columns that seem harmless each are enough together.",
                charts.strength("Rows that stand alone, adding columns", found.ladder),
            )
        ]
    return [Section("Who can be found", figures=[*ladder, *figures])]


def _by_what(findings: TableFindings) -> list[Section]:
    if not findings.scan.rows or len(findings.singles) < 2:
        return []
    figures = [
        Figure(
            "For every pair of columns the share of rows that stand alone; on the diagonal each "
            "column by itself.",
            charts.pair_strength("Rows alone by pairs of columns", findings.pairs, what="alone"),
        )
    ]
    if findings.scan.combinations:
        figures.append(
            Figure(
                "The pairs and triples that make most rows stand alone.",
                charts.strength("Most identifying combinations", findings.scan.combinations[:10]),
            )
        )
    paragraphs = [
        f"{', '.join(group)} say the same in other words: releasing one releases all."
        for group in findings.scan.twins
    ]
    return [Section("By which columns", paragraphs, figures)]


def _columns(found: Scan) -> list[Section]:
    heads = ("column", "role", "type", "values", "missing", "alone", "why")
    rows = [
        (
            column.name,
            ROLES.get(column.role, column.role),
            column.type,
            f"{column.classes:,}",
            f"{column.nulls:,}",
            f"{column.unique:.1%}",
            ", ".join((column.why, *column.flags)),
        )
        for column in found.columns
    ]
    grid = Grid(heads, rows, frozenset({3, 4, 5}))
    say = "Roles are guesses from names and content; correct them where you know better."
    return [Section("The columns", [say], grids=[grid])]


def _next(findings: TableFindings) -> list[Section]:
    return [Section("What to do next", steps=findings.scan.next)]
