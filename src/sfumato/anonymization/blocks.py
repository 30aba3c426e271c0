"""Blocks: rows that may share a group. Rows of blocks that fail the rules cannot be released.

Without boundaries there is one block. With boundaries the blocks are the classes of the maximum
allowed microdata, in which every value is as blurred as it may ever be (Miller, Campan & Truta,
Definition 9). A block that is too small can be released by nobody (Property 6), every other one can
be (Property 5), so leaving out the failing ones is the least suppression for k-anonymity; likewise
for distinct l-diversity and p-sensitivity, which no subset of a failing block can satisfy. For the
other models a part of a failing block might hold: there the suppression need not be the least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem
from sfumato.anonymization.space import blocks_of, sensitive_of
from sfumato.errors import ParameterError

__all__ = ["Blocks", "allowed_blocks"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Entries that can be released, block after block.

    Attributes
    ----------
    order
        The entries of all blocks that satisfy the rules.
    starts
        Block b is ``order[starts[b]:starts[b + 1]]``.
    """

    order: Array
    starts: Array

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.starts) - 1

    def __getitem__(self, block: int) -> Array:
        return self.order[self.starts[block] : self.starts[block + 1]]


def allowed_blocks(problem: Problem) -> Blocks:
    """The blocks of a problem that satisfy its rules.

    Raises
    ------
    ParameterError
        If there are no boundaries and even all rows together do not satisfy the rules.
    """
    from sfumato.anonymization._rules import groups_hold

    if not problem.limits and problem.apart is None:
        return _one_block(problem)
    blocks = blocks_of(problem)
    count = int(blocks.max(initial=-1)) + 1
    good = groups_hold(blocks, count, problem.counts, sensitive_of(problem), problem.rules)
    order = np.flatnonzero(good[blocks])
    order = order[np.argsort(blocks[order], kind="stable")]
    edges = np.flatnonzero(np.diff(blocks[order])) + 1
    starts = np.r_[0, edges, len(order)] if len(order) else np.zeros(1)
    return Blocks(order, starts.astype(np.int64))


def _one_block(problem: Problem) -> Blocks:
    """All entries together."""
    from sfumato.privacy._kernels import holds

    entries = problem.entries.entries
    counts = [
        np.bincount(
            problem.entries.column(name), weights=problem.counts, minlength=int(size)
        ).astype(np.int64)[: int(size)]
        for name, size in zip(problem.sensitive, np.diff(problem.rules.offsets), strict=True)
    ]
    whole = np.concatenate([np.zeros(0, dtype=np.int64), *counts])
    if entries and not holds(problem.rows, whole, problem.rules):
        raise ParameterError(
            "the demand cannot be met: even one class of all rows does not satisfy it",
            remedy="Ask for a smaller k or l, or a larger t.",
        )
    starts = np.array([0, entries] if entries else [0], dtype=np.int64)
    return Blocks(np.arange(entries), starts)
