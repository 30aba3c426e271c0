"""What was not looked at, in words: no release keeps silent about it."""

from __future__ import annotations

import numpy as np

from sfumato.anonymize.cells.patterns import Patterns
from sfumato.anonymize.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["cut_off"]


def cut_off(
    table: CellTable,
    patterns: Patterns,
    budget: Budget,
    *,
    program: bool,
    rounds: int | None = None,
) -> tuple[str, ...]:
    """Sentences that say what was left out, none if nothing was.

    Parameters
    ----------
    program
        Whether the linear program was asked for and left out because of the size of the table.
    rounds
        Rounds of the search that a table of this size gets, where it may have ended by them.
    """
    said = []
    if not patterns.complete:
        said.append(
            f"{len(patterns):,} of 2^{len(table.free)} sets of columns were looked at: those of "
            "few stars and those that near rows share"
        )
    if patterns.floor is not None:
        compared = int(np.count_nonzero(patterns.floor))
        if compared < table.entries:
            said.append(
                f"for the lower bound, {compared:,} of {table.entries:,} combinations were "
                "compared with all others"
            )
    if program:
        said.append(
            "the lower bound is that of single rows: the linear program was left out on a table of "
            "this size (--bound lp asks for it)"
        )
    if rounds is not None:
        said.append(f"the search had {rounds:,} rounds, as many as a table of this size gets")
    if budget.stopped_by == "time":
        said.append("time ran out: the best found until then is released")
    return tuple(said)
