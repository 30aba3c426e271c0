"""What exact searches work on: rows that are here, or distinct combinations of rows elsewhere.

An exact search compares thousands of column sets, which no database answers one by one. The
distinct combinations of all columns with their counts say everything the rows say, and are pulled
over once where they fit.
"""

from __future__ import annotations

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.errors import EngineError
from sfumato.tables import Table

__all__ = ["all_combinations", "pulled"]

PULLED_BYTES = 1 << 30
"""Memory for combinations where the budget names none."""
CELL_BYTES = 16
"""What a pulled cell takes until it is a code."""


def all_combinations(opened: Table, budget: Budget) -> Codes:
    """The rows as codes, or their distinct combinations; refuses more than memory holds."""
    if opened.engine.kind not in ("postgres", "spark"):
        return opened.codes(None, budget)
    memory = budget.memory or PULLED_BYTES
    limit = max(1, memory // (CELL_BYTES * (len(opened.columns) + 1)))
    try:
        return opened.classes(None, limit, budget)
    except EngineError as error:
        if not error.what.startswith("there are more than"):
            raise
        raise EngineError(
            f"the table has more than {limit:,} distinct combinations of its "
            f"{len(opened.columns)} columns, too many to pull into {memory >> 20:,} MiB",
            where=opened.name,
            remedy="Answer from a sample (key --eps, mask --sample), choose fewer columns, or "
            "allow more --memory.",
        ) from error


def pulled(opened: Table, codes: Codes) -> tuple[str, ...]:
    """What to say about it: nothing for local tables."""
    if opened.engine.kind not in ("postgres", "spark"):
        return ()
    return (
        f"{codes.entries:,} distinct combinations of {codes.rows:,} rows were pulled over, "
        "everything else was computed here",
    )
