"""A solution beside its problem, as the measures of utility read it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.hierarchy import Published
from sfumato.utility import View

__all__ = ["group_sizes", "group_view", "piece_view"]

Array = npt.NDArray[Any]


def group_sizes(problem: Problem, solution: Solution) -> npt.NDArray[np.int64]:
    """Rows of each group."""
    rows = problem.counts if solution.rows is None else solution.rows
    kept = solution.groups >= 0
    if kept.all():
        return np.bincount(solution.groups, weights=rows).astype(np.int64)
    return np.bincount(solution.groups[kept], weights=rows[kept]).astype(np.int64)


def group_view(problem: Problem, solution: Solution) -> View:
    """Groups in place of rows; all suppressed rows are one entry that shows nothing.

    The original codes of a view are of no use here and are left zero.
    """
    sizes = group_sizes(problem, solution)
    kept = np.flatnonzero(solution.groups >= 0)
    shown = np.flatnonzero(sizes)
    counts = sizes[shown]
    left_out = problem.rows - int(counts.sum())
    if left_out:
        shown, counts = np.append(shown, -1), np.append(counts, left_out)
    member = np.zeros(len(sizes), dtype=np.int64)  # any piece of each group
    member[solution.groups[kept]] = kept
    entry = member if solution.entry is None else solution.entry[member]
    published = {}
    for name in problem.qi:
        column = _of_groups(problem, solution, name, entry, np.arange(len(sizes)))
        published[name] = column.take(shown)
    return View(dict.fromkeys(published, np.zeros(len(counts), np.int64)), published, counts)


def piece_view(problem: Problem, solution: Solution) -> View:
    """Entries (or pieces of them) with their original codes and what they show."""
    pieces = len(solution.groups)
    entry = np.arange(pieces) if solution.entry is None else solution.entry
    rows = problem.counts if solution.rows is None else solution.rows
    left_out = solution.groups < 0
    original, published = {}, {}
    for name in problem.qi:
        original[name] = problem.entries.column(name)[entry].astype(np.int64)
        if name in solution.published:
            published[name] = solution.published[name].take(solution.groups)
        else:
            column = _of_groups(problem, solution, name, entry, solution.groups)
            published[name] = column.take(np.where(left_out, -1, np.arange(pieces)))
    return View(original, published, rows)


def _of_groups(
    problem: Problem, solution: Solution, name: str, entry: Array, groups: Array
) -> Published:
    """What a column shows: blurred, starred or as it was."""
    if name in solution.published:
        return solution.published[name]
    stars = np.zeros(len(groups), dtype=bool)
    if name in solution.starred:
        stars = (groups >= 0) & solution.starred[name][groups]
    codes = problem.entries.column(name)[entry]
    return Published.starred(problem.entries.values_of(name), codes, stars)
