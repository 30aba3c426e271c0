"""The best grouping that a given time finds: start from the best of the others, then improve.

The start is the least lossy of Mondrian, lattice-descending recoding and, where it does not take
too long, k-member clustering. A search then founds, closes and rearranges classes under all rules
and within all boundaries. Without a time limit it makes one round, with one it goes on round by
round while that still gains something; whenever it is stopped, the best so far is the answer. Where
every column has a tree, it can be asked to prove how much less any recoding could lose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization import mondrian
from sfumato.anonymization.annealing import improve
from sfumato.anonymization.blocks import Blocks, allowed_blocks
from sfumato.anonymization.kmember import EXACT, clustered_groups
from sfumato.anonymization.lattice import descending_groups
from sfumato.anonymization.least_loss import least_loss, require_trees
from sfumato.anonymization.problem import Problem, Solution
from sfumato.anonymization.search import Search
from sfumato.errors import ParameterError, did_you_mean

__all__ = ["solve"]

ENOUGH = 5e-4
"""A round that gains a smaller share of the loss is the last one."""
BOUNDS = ("none", "lp")
SEARCHING = 0.5
"""Share of a time limit that is left to the search where a bound is asked too."""
STARTING = 0.3
"""Share of a time limit that may go into the start."""
CLUSTERED = 8_000
"""Entries up to which k-member clustering is one of the starts: its time grows with the square.
Tables that are so large that it cuts them into districts have it as a start again."""


def solve(problem: Problem) -> Solution:
    """Improve the best start until nothing gains or the time budget is spent.

    Options: ``loss`` (``certainty`` or ``height``); ``bound`` (``none``, or ``lp`` to prove how
    little any recoding with these trees can lose: with a time limit, that takes half of it).
    """
    bound = str(problem.options.get("bound", "none"))
    if bound not in BOUNDS:
        raise ParameterError(f"there is no bound `{bound}`", remedy=did_you_mean(bound, BOUNDS))
    if bound == "none":
        return _searched(problem)
    require_trees(problem)
    half = dataclasses.replace(problem, budget=problem.budget.part(SEARCHING))
    return _bounded(problem, _searched(half))


def _searched(problem: Problem) -> Solution:
    loss = _loss(problem)
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


def _bounded(problem: Problem, found: Solution) -> Solution:
    """The solution with a loss that no other undercuts."""
    entry = np.arange(len(found.groups)) if found.entry is None else found.entry
    kept = np.unique(entry[found.groups >= 0])
    known = float(found.details["loss_after"])
    least = least_loss(problem, kept, known * _cells(problem), _loss(problem))
    if least is None:
        why = "the time was over" if problem.budget.spent() else "the lattice of levels is large"
        return dataclasses.replace(
            found, warnings=(*found.warnings, f"no bound was proven: {why}; give more --time")
        )
    least /= _cells(problem)
    gap = known / least - 1 if least else None
    return dataclasses.replace(
        found, lower_bound=least, details={**found.details, "proven_gap": gap}
    )


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


def _loss(problem: Problem) -> str:
    return str(problem.options.get("loss", "certainty"))


def _cells(problem: Problem) -> float:
    weights = [problem.weight(name) for name in problem.qi]
    return float(max(problem.rows, 1) * np.sum(weights))
