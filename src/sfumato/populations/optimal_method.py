"""``anonymize --method optimal-1d``: one column, at the least distance."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.populations.one_column import solve_one_column
from sfumato.populations.optimal import Cost, optimal_groups
from sfumato.populations.quantiles import Groups

__all__ = ["solve"]


def solve(problem: Problem) -> Solution:
    """Group the column at the least k-median, cellular or k-center cost."""
    return solve_one_column(problem, partial(_grouping, problem.options.get("cost", "k-median")))


def _grouping(
    cost: Cost,
    numbers: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    k: int,
    ties: bool,
) -> Groups:
    return optimal_groups(numbers, k, cost, counts=rows, ties=ties)
