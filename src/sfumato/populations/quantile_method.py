"""``anonymize --method quantiles``: one column, with the least total change of rank."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.populations.one_column import solve_one_column
from sfumato.populations.quantiles import Groups, quantile_groups

__all__ = ["solve"]


def solve(problem: Problem) -> Solution:
    """Cut the column at its quantiles (Lodha & Thomas, Theorem 5)."""
    return solve_one_column(problem, _grouping)


def _grouping(
    numbers: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], k: int, ties: bool
) -> Groups:
    return quantile_groups(rows, k, ties=ties)
