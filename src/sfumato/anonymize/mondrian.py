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

from sfumato.anonymize.problem import Problem, Solution
from sfumato.anonymize.space import (
    axes_of,
    blocks_of,
    grouped,
    positions_of,
    published_groups,
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
    blocks, out = _allowed_blocks(problem, entry, weights)
    order = np.flatnonzero(~out)
    order = order[np.argsort(blocks[order], kind="stable")]
    starts = np.r_[0, np.flatnonzero(np.diff(blocks[order])) + 1, len(order)] if len(order) else [0]
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
        np.asarray(starts, dtype=np.int64),
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
    return _pieces(problem, entry, groups, len(ends))


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


def _allowed_blocks(
    problem: Problem, entry: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The block of each piece, and whether the block fails the rules and must be left out."""
    from sfumato.anonymize._rules import groups_hold

    blocks = blocks_of(problem)[entry]
    count = int(blocks.max(initial=-1)) + 1
    good = groups_hold(blocks, count, weights, sensitive_of(problem)[entry], problem.rules)
    if not problem.limits and count and not good.all():
        raise ParameterError(
            "the demand cannot be met: even one class of all rows does not satisfy it",
            remedy="Ask for a smaller k or l, or a larger t.",
        )
    return blocks, ~good[blocks]


def _pieces(
    problem: Problem, entry: np.ndarray[Any, Any], groups: np.ndarray[Any, Any], count: int
) -> Solution:
    """Rows of one entry in one group become one piece."""
    keys, rows = np.unique(entry * (count + 1) + (groups + 1), return_counts=True)
    piece_entry, piece_group = np.divmod(keys, count + 1)
    piece_groups = (piece_group - 1).astype(np.int32)
    return Solution(
        piece_groups,
        published_groups(problem, piece_groups, count, piece_entry),
        entry=piece_entry.astype(np.int64),
        rows=rows.astype(np.int64),
    )
