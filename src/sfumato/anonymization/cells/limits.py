"""What was not looked at, in words: no release keeps silent about it."""

from __future__ import annotations

import numpy as np

from sfumato.anonymization.cells.dual import Dual
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.search import FEW_ROUNDS, rounds_of
from sfumato.anonymization.cells.table import CellTable
from sfumato.budget import Budget

__all__ = ["cut_off"]


def cut_off(
    table: CellTable,
    patterns: Patterns,
    dual: Dual | None,
    budget: Budget,
    *,
    program: bool,
    unsolved: bool = False,
) -> tuple[str, ...]:
    """Sentences that say what was left out, none if nothing was.

    Parameters
    ----------
    dual
        Where the ascent to the linear program's bound ended, if it was made.
    program
        Whether it was asked for and left out because of the size of the table.
    unsolved
        Whether the solver that sought the optimum ran out of time.
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
            "this size (--option bound=lp asks for it)"
        )
    if unsolved:
        said.append(
            "the optimum was asked for, and not proven within a minute: a faster machine may "
            "prove more"
        )
    if dual is not None and not dual.candidates.complete:
        said.append(
            f"the linear program saw {len(dual.candidates):,} candidates, as many as fit into "
            "memory; the lower bound holds for all"
        )
    rounds = rounds_of(table, patterns, budget)
    if rounds < FEW_ROUNDS:
        said.append(f"the search may make {rounds} rounds at most on a table of this size")
    if budget.stopped_by == "time":
        said.append("time ran out: the best found until then is released")
    return tuple(said)
