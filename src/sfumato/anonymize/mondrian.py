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

from sfumato.anonymize.blocks import Blocks, allowed_blocks
from sfumato.anonymize.problem import Problem, Solution
from sfumato.anonymize.space import (
    axes_of,
    grouped,
    pieced,
    positions_of,
    sensitive_of,
)
from sfumato.errors import ParameterError

__all__ = ["solve"]

METRICS = ("spread", "priority", "gain")


def solve(problem: Problem) -> Solution:
    """Cut until no cut is allowed.

    Options: ``cut_weights`` (mix of the three metrics), ``target`` (a sensitive column whose
    entropy counts), ``relaxed`` (split equal values), ``cuts`` (positions by column at which the
    workload cuts).
    """
    from sfumato.anonymize._mondrian import cut_blocks

    mix = _mix(problem)
    relaxed = bool(problem.options.get("relaxed", False))
    entry = np.arange(problem.entries.entries)
    weights = problem.counts.copy()
    if relaxed:
        entry = np.repeat(entry, problem.counts)
        weights = np.ones(len(entry), dtype=np.int64)
    blocks = allowed_blocks(problem)
    order, starts = blocks.order, blocks.starts
    if relaxed:
        order, starts = _row_blocks(problem, blocks)
    target, classes = _target(problem, entry)
    index = order.astype(np.int64)
    axes = axes_of(problem)
    ends = cut_blocks(
        np.ascontiguousarray(positions_of(problem)[entry[order]]),
        weights[order],
        np.ascontiguousarray(sensitive_of(problem)[entry[order]]),
        target[order] if len(target) else target,
        classes,
        index,
        starts,
        axes,
        problem.rules,
        mix,
        _priorities(problem),
        _preferred(problem, axes.offsets),
        relaxed,
    )
    groups = np.full(len(entry), -1, dtype=np.int32)
    groups[index] = np.repeat(np.arange(len(ends)), np.diff(np.r_[0, ends]))
    if not relaxed:
        return grouped(problem, groups)
    return pieced(problem, entry, weights, groups)


def _row_blocks(
    problem: Problem, blocks: Blocks
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Blocks of entries as blocks of single rows, which are numbered entry after entry."""
    many = problem.counts[blocks.order]
    first = (np.cumsum(problem.counts) - problem.counts)[blocks.order]
    ends = np.cumsum(many)
    order = np.repeat(first - (ends - many), many) + np.arange(int(many.sum()))
    return order, np.r_[0, ends][blocks.starts]


def _mix(problem: Problem) -> np.ndarray[Any, np.dtype[np.float64]]:
    given = {"spread": 1.0, "priority": 1.0, "gain": 0.0}
    if "target" in problem.options:
        given["gain"] = 1.0
    for name, weight in dict(problem.options.get("cut_weights", {})).items():
        if name not in METRICS or not weight >= 0:
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
    weights = np.array([problem.weight(name) for name in problem.quasi_identifiers])
    if not problem.weights or not weights.max():
        return np.zeros(len(weights))
    return np.asarray(weights / weights.max())


def _target(problem: Problem, entry: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    name = problem.options.get("target")
    if name is None:
        return np.zeros(0, dtype=np.int64), 1
    if name not in problem.entries.columns:
        raise ParameterError(f"the target `{name}` is neither sensitive nor a quasi-identifier")
    codes = problem.entries.column(name)[entry].astype(np.int64)
    return codes, len(problem.entries.values_of(name))


def _preferred(problem: Problem, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For each position of each axis whether the workload cuts right after it."""
    wanted = np.zeros(int(offsets[-1]), dtype=np.bool_)
    for name, positions in dict(problem.options.get("cuts", {})).items():
        axis = problem.quasi_identifiers.index(name)
        wanted[offsets[axis] + np.asarray(positions, dtype=np.int64)] = True
    return wanted
