"""Samples that rule column sets out before the whole table is asked (Motwani & Xu, section 4).

What is not a key of some rows is no key of all: keys are pruned without any doubt. A β-set may
look bad in an unlucky sample: it is ruled out only below α·β, where that happens to any set with
probability at most δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.quasi.answer import Question
from sfumato.quasi.greedy import Goal, histogram
from sfumato.quasi.lattice import Set, depth_first
from sfumato.quasi.samples import pair_indices, prune_below

__all__ = ["Pruner", "iterated_pruner", "sample_pruner"]


@dataclass(frozen=True)
class Pruner:
    """A test that rules sets out, and how it was made."""

    hopeless: Callable[[Set], bool]
    rows: int
    unit: str


def sample_pruner(
    codes: Codes, question: Question, rows: int, delta: float, random: np.random.Generator
) -> Pruner | None:
    """A test on a sample of rows (pairs for separation); None when it is too small to prune."""
    rows = min(rows, codes.rows)
    if question.beta is None:
        sample = _some_rows(codes, rows, random)
        goal = _as_all_columns(sample)
        return Pruner(lambda s: not goal.met(sample, s), rows, "rows")
    threshold = prune_below(question.beta, rows, len(codes.columns), delta, question.max_size)
    if threshold <= 0:
        return None
    if question.ratio == "distinct":
        sample = _some_rows(codes, rows, random)
        goal = Goal(classes=math.ceil(threshold * rows))
        return Pruner(lambda s: not goal.met(sample, s), rows, "rows")
    left, right = (_entries(codes, drawn) for drawn in pair_indices(codes.rows, rows, random))
    differ = np.stack([array[left] != array[right] for array in codes.arrays], axis=1)
    needed = threshold * len(differ)
    return Pruner(
        lambda s: bool(np.count_nonzero(differ[:, list(s)].any(axis=1)) < needed), rows, "pairs"
    )


def iterated_pruner(
    codes: Codes,
    question: Question,
    delta: float,
    random: np.random.Generator,
    budget: Budget,
    shares: Sequence[float] = (0.01, 0.1),
) -> Pruner | None:
    """A test from a series of samples: the border found in one is where the next begins.

    Every sample spends its part of δ. What survives the last one must contain a set of its border.
    """
    border: tuple[Set, ...] | None = None
    used = 0
    for share in shares:
        rows = int(share * codes.rows)
        found = _border(codes, question, rows, delta / len(shares), random, budget)
        if found is not None:
            border, used = found, rows
    if border is None:
        return None
    masks = np.array([sum(1 << c for c in s) for s in border], dtype=object)

    def hopeless(columns: Set) -> bool:
        mask = sum(1 << c for c in columns)
        return not any(small & mask == small for small in masks)

    return Pruner(hopeless, used, "rows")


def _border(
    codes: Codes,
    question: Question,
    rows: int,
    delta: float,
    random: np.random.Generator,
    budget: Budget,
) -> tuple[Set, ...] | None:
    """Minimal sets that are not hopeless in a sample of rows; None if it cannot prune."""
    if rows < 2:
        return None
    sample = _some_rows(codes, rows, random)
    goal = _as_all_columns(sample)
    if question.beta is not None:
        # The ratio over all pairs of r rows is an average of averages over r/2 disjoint pairs, so
        # the bound for r/2 independent pairs holds for it (Hoeffding 1963, section 5).
        units = rows if question.ratio == "distinct" else rows // 2
        threshold = prune_below(question.beta, units, len(codes.columns), delta, question.max_size)
        if threshold <= 0:
            return None
        pairs = rows * (rows - 1) // 2
        goal = (
            Goal(classes=math.ceil(threshold * rows))
            if question.ratio == "distinct"
            else Goal(pairs=pairs - math.ceil(threshold * pairs))
        )
    found = depth_first(sample, goal, question.max_size, budget)
    return found.sets if found.complete or question.max_size is not None else None


def _as_all_columns(sample: Codes) -> Goal:
    """To tell apart what all columns tell apart; a set that fails here fails in the table too."""
    return Goal(pairs=histogram(sample, range(len(sample.columns))).unseparated_pairs)


def _some_rows(codes: Codes, rows: int, random: np.random.Generator) -> Codes:
    """Uniform sample of rows without replacement, each an entry of its own."""
    drawn = np.sort(random.choice(codes.rows, rows, replace=False))
    return replace(codes.take(_entries(codes, drawn)), counts=None)


def _entries(codes: Codes, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The entry each row number falls into."""
    if codes.counts is None:
        return rows
    return np.searchsorted(np.cumsum(codes.counts), rows, side="right")
