"""The best grouping that a given time finds: start from the best of the others, then improve.

The start is the least lossy of Mondrian, lattice-descending recoding and, where it does not take
too long, k-member clustering. A search then founds, closes and rearranges classes under all rules
and within all boundaries. Without a time limit it makes one round, with one it goes on round by
round while that still gains something; whenever it is stopped, the best so far is the answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymize import mondrian
from sfumato.anonymize.annealing import improve
from sfumato.anonymize.blocks import Blocks, allowed_blocks
from sfumato.anonymize.kmember import EXACT, clustered_groups
from sfumato.anonymize.lattice import descending_groups
from sfumato.anonymize.problem import Problem, Solution
from sfumato.anonymize.search import Search

__all__ = ["solve"]

ENOUGH = 5e-4
"""A round that gains a smaller share of the loss is the last one."""
STARTING = 0.3
"""Share of a time limit that may go into the start."""
CLUSTERED = 8_000
"""Entries up to which k-member clustering is one of the starts: its time grows with the square.
Tables that are so large that it cuts them into districts have it as a start again."""


def solve(problem: Problem) -> Solution:
    """Improve the best start until nothing gains or the time budget is spent.

    Options: ``loss`` (``certainty`` or ``height``).
    """
    loss = str(problem.options.get("loss", "certainty"))
    blocks = allowed_blocks(problem)
    starts = _starts(problem, blocks, loss)
    start = min(starts, key=lambda name: starts[name][0])
    before, search = starts[start]
    after, rounds = before, 0
    while after > 0.0 and not problem.budget.spent():
        gained = improve(search, problem.seed + rounds) / _cells(problem)
        rounds += 1
        after -= gained
        if problem.budget.seconds is None or gained <= ENOUGH * after:
            break
    details = {
        "start": start,
        "loss_before": before,
        "loss_after": after,
        "starts": {name: value for name, (value, _) in starts.items()},
        "rounds": rounds,
    }
    return search.solution(details=details, stopped_by=problem.budget.stopped_by)


def _starts(problem: Problem, blocks: Blocks, loss: str) -> dict[str, tuple[float, Search]]:
    """Loss of each start, and the search that begins there."""
    found: dict[str, tuple[float, Search]] = {}
    for name, groups in _groupings(problem, blocks, loss):
        search = Search(problem, blocks, groups, loss)
        found[name] = (search.loss() / _cells(problem), search)
        if problem.budget.spent():
            break
    return found


def _groupings(
    problem: Problem, blocks: Blocks, loss: str
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    problem.budget.progress("cutting")
    plain = dataclasses.replace(problem, options={}, budget=problem.budget.part(STARTING))
    yield "mondrian", mondrian.solve(plain).groups
    yield "lattice", descending_groups(plain, blocks)
    if not CLUSTERED < len(blocks.order) <= EXACT:
        problem.budget.progress("clustering")
        yield "kmember", clustered_groups(problem, blocks, loss)[0]


def _cells(problem: Problem) -> float:
    weights = [problem.weight(name) for name in problem.quasi_identifiers]
    return float(max(problem.rows, 1) * np.sum(weights))
