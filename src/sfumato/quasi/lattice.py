"""Searches of the lattice of column sets: depth first, level by level, and all sets at once.

Whatever is asked (a key, a β-distinct or β-separation set) only gets truer with more columns. So a
search never looks at a superset of a set that is good already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.codes import CodeArray, Codes, smallest_dtype
from sfumato.errors import ParameterError
from sfumato.quasi.greedy import Goal

__all__ = [
    "DEPTH_FIRST_COLUMNS",
    "SUBSET_COLUMNS",
    "Minimal",
    "Set",
    "all_subsets",
    "depth_first",
    "in_order",
    "levelwise",
    "minimal_from_subsets",
    "violating",
]

SUBSET_COLUMNS = 24
"""Columns up to which the table of all subsets fits memory."""
DEPTH_FIRST_COLUMNS = 64
"""Columns up to which a column set fits a machine word."""

Set = tuple[int, ...]


@dataclass(frozen=True)
class Minimal:
    """Minimal good sets, and whether these are all."""

    sets: tuple[Set, ...]
    complete: bool = True
    stopped_by: str | None = None


def depth_first(codes: Codes, goal: Goal, max_size: int | None, budget: Budget) -> Minimal:
    """All minimal sets that reach a goal."""
    if goal.met(codes, ()):
        return Minimal(((),))
    max_pairs = np.iinfo(np.int64).max if goal.pairs is None else goal.pairs
    return _search(codes, max_pairs, goal.classes, 0, max_size, budget)


def violating(codes: Codes, k: int, max_size: int | None, budget: Budget) -> Minimal:
    """All minimal sets that make a class of fewer than k rows."""
    if 0 < codes.rows < k:
        return Minimal(((),))
    return _search(codes, 0, 0, k, max_size, budget)


def _search(
    codes: Codes, max_pairs: int, min_classes: int, k: int, max_size: int | None, budget: Budget
) -> Minimal:
    """Depth-first search with stripped partitions.

    Each set costs one pass over the rows that are not yet alone, and memory is one partition for
    each level of the search.
    """
    from sfumato.quasi._depth_first import search_below

    width = len(codes.columns)
    if width > DEPTH_FIRST_COLUMNS:
        raise ParameterError(
            f"the depth-first search takes at most {DEPTH_FIRST_COLUMNS} columns, not {width}",
            remedy="Use the method `hitting-set` for keys or `levelwise` with a --max-size.",
        )
    order, table, cardinalities, weights = _prepared(codes)
    largest = width if max_size is None else max_size
    known = np.zeros(1024, dtype=np.uint64)
    none = np.zeros((0, 2), dtype=np.int64)
    found = 0
    for top in range(width):
        budget.progress(f"{found} found", top / width)
        if budget.spent():
            return Minimal(_sets_of(known[:found], order), False, budget.stopped_by)
        asked = (table, cardinalities, weights, top, max_pairs, min_classes, k, largest)
        while (outcome := search_below(*asked, known, found, none)) < 0:
            known = np.concatenate([known, np.zeros(len(known), dtype=np.uint64)])
        found = outcome
    return Minimal(_sets_of(known[:found], order), max_size is None or max_size >= width)


def all_subsets(codes: Codes, budget: Budget) -> npt.NDArray[np.int64]:
    """Unseparated pairs of rows and number of classes of every column set, by bit mask.

    The number of pairs a set leaves together is the number of pairs whose *agree set* (the columns
    in which they agree) contains it: one table answers every β. Bit i stands for column i.
    """
    from sfumato.quasi._depth_first import search_below

    width = len(codes.columns)
    if width > SUBSET_COLUMNS:
        raise ParameterError(
            f"a table of all column sets takes at most {SUBSET_COLUMNS} columns, not {width}",
            remedy="Choose fewer columns, or the method `levelwise` with a --max-size.",
        )
    order, table, cardinalities, weights = _prepared(codes)
    every = np.zeros((1 << width, 2), dtype=np.int64)
    known = np.zeros(0, dtype=np.uint64)
    for top in range(width):
        budget.progress("measuring all column sets", (1 << top) / (1 << width))
        if budget.spent():
            raise ParameterError(
                "the time is too short to measure all column sets",
                remedy="Allow more --time, or name fewer columns.",
            )
        search_below(table, cardinalities, weights, top, 0, 0, 0, width, known, 0, every)
    rows = codes.rows
    every[0] = rows * (rows - 1) // 2, min(1, rows)
    # From bits in search order back to bits in column order.
    masks = np.arange(1 << width)
    searched = np.zeros(1 << width, dtype=np.int64)
    for bit, column in enumerate(order):
        searched |= (masks >> column & 1) << bit
    return every[searched]


def minimal_from_subsets(every: npt.NDArray[np.int64], goal: Goal, max_size: int | None) -> Minimal:
    """Minimal good sets, read off the table of all subsets."""
    good = every[:, 1] >= goal.classes
    if goal.pairs is not None:
        good &= every[:, 0] <= goal.pairs
    width = len(every).bit_length() - 1
    masks = np.arange(len(every))
    minimal = good.copy()
    for bit in range(width):
        has = (masks >> bit & 1).astype(np.bool_)
        minimal[has] &= ~good[masks[has] ^ (1 << bit)]
    sets = tuple(
        tuple(c for c in range(width) if mask >> c & 1) for mask in np.flatnonzero(minimal).tolist()
    )
    if max_size is not None:
        sets = tuple(s for s in sets if len(s) <= max_size)
    return Minimal(in_order(sets), max_size is None or max_size >= width)


def levelwise(
    width: int,
    good: Callable[[Set], bool],
    max_size: int | None,
    budget: Budget,
    *,
    hopeless: Callable[[Set], bool] | None = None,
) -> Minimal:
    """All minimal good sets, level by level, asking one set after the other.

    Parameters
    ----------
    good
        Whether a set reaches the goal.
    hopeless
        A cheap test that may rule a set out before `good` is asked (a sample).
    """
    found: list[Set] = []
    level: list[Set] = [()]
    top = width if max_size is None else min(max_size, width)
    for size in range(top + 1):
        open_sets: list[Set] = []
        for at, columns in enumerate(level):
            if at % 64 == 0:
                budget.progress(f"{len(found)} found, sets of {size}", at / max(1, len(level)))
                if budget.spent():
                    return Minimal(in_order(found), False, budget.stopped_by)
            if (hopeless is None or not hopeless(columns)) and good(columns):
                found.append(columns)
            else:
                open_sets.append(columns)
        if size == top:
            return Minimal(in_order(found), top == width or not open_sets)
        level = _next_level(open_sets, width)
    return Minimal(in_order(found))


def _next_level(open_sets: Sequence[Set], width: int) -> list[Set]:
    """Sets one larger all of whose subsets one smaller are still open."""
    still = set(open_sets)
    grown = []
    for columns in open_sets:
        for column in range(columns[-1] + 1 if columns else 0, width):
            larger = (*columns, column)
            if all(part in still for part in combinations(larger, len(columns))):
                grown.append(larger)
    return grown


def in_order(sets: Iterable[Set]) -> tuple[Set, ...]:
    """Small sets first, then by their columns."""
    return tuple(sorted((tuple(sorted(s)) for s in sets), key=lambda s: (len(s), s)))


def _prepared(
    codes: Codes,
) -> tuple[
    list[int],
    CodeArray,
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
]:
    """The codes as one matrix, columns with few values first, so that high bits split most."""
    order = sorted(range(len(codes.columns)), key=lambda c: codes.cardinalities[c])
    widest = smallest_dtype(max(codes.cardinalities, default=1))
    table = np.empty((len(order), codes.entries), dtype=widest)
    for at, column in enumerate(order):
        table[at] = codes.arrays[column]
    cardinalities = np.array([codes.cardinalities[c] for c in order], dtype=np.int64)
    weights = np.ones(codes.entries, dtype=np.int64) if codes.counts is None else codes.counts
    return order, table, cardinalities, weights


def _sets_of(masks: npt.NDArray[np.uint64], order: Sequence[int]) -> tuple[Set, ...]:
    sets = [
        tuple(column for bit, column in enumerate(order) if mask >> bit & 1)
        for mask in masks.tolist()
    ]
    return in_order(sets)
