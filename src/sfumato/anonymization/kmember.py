"""Greedy k-member clustering, within boundaries if there are any.

After Byun, Kamra, Bertino & Li 2006: a group starts from an entry far from the last one and takes
the entry with which it loses least until it satisfies the rules; what remains joins the group it
hurts least. Run inside the blocks that boundaries leave, it is GreedyCKA of Miller, Campan & Truta
2008. Time grows with the square of the entries; large blocks are therefore cut into districts
first, and what the borders cost is repaired by a pass of `annealing` over parts with other borders.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.annealing import improve
from sfumato.anonymization.blocks import Blocks, allowed_blocks
from sfumato.anonymization.districts import districts
from sfumato.anonymization.pricing import prices_of
from sfumato.anonymization.problem import Problem, Solution
from sfumato.anonymization.search import Search
from sfumato.anonymization.space import grouped, positions_of, sensitive_of
from sfumato.errors import ParameterError

__all__ = ["clustered_groups", "solve"]

EXACT = 25_000
"""Entries up to which a block is clustered as a whole."""
DISTRICT = 2_000
"""Least number of entries of the districts that larger blocks are cut into."""


def solve(problem: Problem) -> Solution:
    """Cluster every block.

    Options: ``loss`` (``certainty`` or ``height``), ``district`` (least number of entries of
    the districts that larger blocks are cut into; 0 never cuts).
    """
    loss = str(problem.options.get("loss", "certainty"))
    district = _district(problem)
    blocks = allowed_blocks(problem)
    groups, cut = clustered_groups(problem, blocks, loss, district)
    if not cut:
        return grouped(problem, groups)
    problem.budget.progress("repairing borders")
    search = Search(problem, blocks, groups, loss)
    improve(search, problem.seed, passes=1)
    return search.solution(details={"districts": cut})


def clustered_groups(
    problem: Problem, blocks: Blocks, loss: str = "certainty", district: int | None = None
) -> tuple[npt.NDArray[Any], int]:
    """Group of every entry, -1 outside of the blocks; and the number of districts, 0 if none."""
    from sfumato.anonymization._kmember import cluster_blocks

    least = DISTRICT if district is None else district
    cut = 0
    if least and np.diff(blocks.starts).max(initial=0) > (EXACT if district is None else 2 * least):
        blocks = districts(problem, blocks, least)
        cut = blocks.count
    groups = np.full(problem.entries.entries, -1, dtype=np.int64)
    cluster_blocks(
        positions_of(problem),
        problem.counts,
        sensitive_of(problem),
        blocks.order,
        blocks.starts,
        prices_of(problem, loss),
        problem.rules,
        groups,
    )
    return groups, cut


def _district(problem: Problem) -> int | None:
    given = problem.options.get("district")
    if given is None:
        return None
    if not isinstance(given, int) or given < 0:
        raise ParameterError(
            "the size of districts must be a number of entries", remedy="Give e.g. district=2000."
        )
    return given
