"""Local search: improve any grouping by small steps, none of which breaks a rule.

Equal rows need not stay together: an entry of many rows that lends some of them to its neighbours
may save those more than its rows lose. Entries are therefore taken as pieces, single rows as far as
they can be spared and one piece for the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.blocks import Blocks
from sfumato.anonymization.pricing import prices_of
from sfumato.anonymization.problem import Problem, Solution
from sfumato.anonymization.space import pieced, positions_of, sensitive_of

__all__ = ["Search"]

Array = npt.NDArray[Any]


class Search:
    """A grouping of pieces that can be improved: part by part (see `annealing`).

    Parameters
    ----------
    blocks
        Entries that may be grouped.
    groups
        Group of each entry to start from; -1 outside of the blocks.
    loss
        What a group loses; see `prices_of`.
    """

    def __init__(
        self, problem: Problem, blocks: Blocks, groups: Array, loss: str = "certainty"
    ) -> None:
        self.problem = problem
        self.blocks = blocks
        self.table = positions_of(problem)
        self.sensitive = sensitive_of(problem)
        self.prices = prices_of(problem, loss)
        self.entry, self.rows, self.first_piece = _pieces(problem, groups >= 0)
        _, dense = np.unique(groups[self.entry], return_inverse=True)
        self.groups: Array = dense.astype(np.int64)

    def loss(self) -> float:
        """What all rows in groups lose together, over all columns."""
        from sfumato.anonymization._pricing import total_loss

        many = int(self.groups.max(initial=-1)) + 1
        pieces = (self.table, self.entry, self.rows, self.groups)
        return float(total_loss(*self.prices, *pieces, many))

    def solution(self, **facts: Any) -> Solution:
        """The grouping as it is now; entries that were in no group are suppressed."""
        left_out = np.flatnonzero(np.diff(self.first_piece) == 0)
        entry = np.concatenate([self.entry, left_out])
        rows = np.concatenate([self.rows, self.problem.counts[left_out]])
        groups = np.concatenate([self.groups, np.full(len(left_out), -1)])
        return pieced(self.problem, entry, rows, groups, **facts)


def _pieces(problem: Problem, kept: Array) -> tuple[Array, Array, Array]:
    """Entry and rows of each piece, and where the pieces of each entry begin."""
    spare = problem.rules.k - 1
    large = problem.counts > 2 * spare  # a piece that still satisfies k, and rows to spare
    many = np.where(large, spare + 1, problem.counts)
    many = np.where(kept, many, 0)
    first = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    entry = np.repeat(np.arange(len(many)), many)
    rows = np.ones(len(entry), dtype=np.int64)
    core = large & kept
    rows[first[:-1][core]] = problem.counts[core] - spare
    return entry, rows, first
