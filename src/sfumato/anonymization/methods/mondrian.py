"""Prioritized Mondrian: greedy top-down cuts of the space of quasi-identifiers.

After LeFevre, DeWitt & Ramakrishnan 2006 and Xiong & Rangachari (application-oriented
anonymization). A group is cut on the axis with the largest score, a mix of

- *spread*: how much of the axis the group covers,
- *priority*: how much the user's analysis needs the column,
- *gain*: how much the cut tells about a target column (the reduction of its entropy; the paper's
  formula 4.3 prints the entropy that remains, of which less is better),

as long as both parts satisfy every rule. Strict cuts keep equal values together; relaxed ones may
split them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.anonymization.cuts import cut
from sfumato.anonymization.problem import Problem, Solution, pieced
from sfumato.anonymization.suppression import Blocks, allowed_blocks
from sfumato.errors import ParameterError

__all__ = ["solve"]

METRICS = ("spread", "priority", "gain")


def solve(problem: Problem) -> Solution:
    """Cut until no cut is allowed.

    Options: ``cut_weights`` (mix of the three metrics), ``target`` (a sensitive column whose
    entropy counts), ``relaxed`` (split equal values), ``cuts`` (positions by column at which the
    workload cuts).
    """
    mix = _mix(problem)
    entry = None
    blocks = allowed_blocks(problem)
    if problem.options.get("relaxed", False):
        entry = np.repeat(np.arange(problem.entries.entries), problem.counts)
        blocks = _row_blocks(problem, blocks)
    found = cut(
        problem,
        blocks,
        rules=problem.rules,
        mix=mix,
        priority=_priorities(problem),
        wanted=dict(problem.options.get("cuts", {})),
        target=_target(problem),
        entry=entry,
    )
    if entry is None:
        return Solution(found.groups(problem.entries.entries), found.published(problem))
    return pieced(problem, entry, np.ones(len(entry), dtype=np.int64), found.groups(len(entry)))


def _row_blocks(problem: Problem, blocks: Blocks) -> Blocks:
    """Blocks of entries as blocks of single rows, which are numbered entry after entry."""
    many = problem.counts[blocks.order]
    first = (np.cumsum(problem.counts) - problem.counts)[blocks.order]
    ends = np.cumsum(many)
    order = np.repeat(first - (ends - many), many) + np.arange(int(many.sum()))
    return Blocks(order, np.r_[0, ends][blocks.starts])


def _mix(problem: Problem) -> np.ndarray[Any, np.dtype[np.float64]]:
    given = {"spread": 1.0, "priority": 1.0, "gain": 0.0}
    if "target" in problem.options:
        given["gain"] = 1.0
    for name, weight in dict(problem.options.get("cut_weights", {})).items():
        number = isinstance(weight, (int, float)) and 0 <= weight < np.inf
        if name not in METRICS or not number:
            raise ParameterError(
                "the weights of the cut metrics could not be read",
                remedy="Give e.g. spread=1,priority=1,gain=0.",
            )
        given[name] = float(weight)
    if sum(given.values()) <= 0:
        raise ParameterError("all weights of the cut metrics are zero", remedy="Give spread=1.")
    return np.array([given[name] for name in METRICS])


def _priorities(problem: Problem) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weights of the columns from 0 to 1; without any, no column comes before another."""
    weights = np.array([problem.weight(name) for name in problem.qi])
    if not problem.weights or not weights.max():
        return np.zeros(len(weights))
    return np.asarray(weights / weights.max())


def _target(problem: Problem) -> tuple[np.ndarray[Any, Any], int] | None:
    name = problem.options.get("target")
    if name is None:
        return None
    if name not in problem.entries.columns:
        raise ParameterError(
            f"the target `{name}` is neither sensitive nor a quasi-identifier",
            remedy="List it among one of them.",
        )
    return problem.entries.column(name), len(problem.entries.values_of(name))
