"""Blocks of rows that may share a group, and the suppression of those that fail as a whole.

Without boundaries there is one block. With boundaries the blocks are the classes of the maximum
allowed microdata, in which every value is as blurred as it may ever be (Miller, Campan & Truta,
Definition 9). A block that is too small can be released by nobody (Property 6), every other one can
be (Property 5), so leaving out the failing ones is the least suppression for k-anonymity; likewise
for distinct l-diversity and p-sensitivity, which no subset of a failing block can satisfy. For the
other models a part of a failing block might hold: there the suppression need not be the least.

Leaving out a block changes what t-closeness measures: `verify` compares classes with the
distribution of the rows that were released, so the others must not count. Blocks are therefore left
out until those that remain hold against the distribution of what remains, before a method starts,
and the method works on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution, sensitive_of
from sfumato.errors import ParameterError
from sfumato.hierarchy import Ranges
from sfumato.hierarchy.tree import Array
from sfumato.privacy import (
    ClassHistogram,
    Counted,
    Model,
    SensitiveColumn,
    compares,
    recounted,
)
from sfumato.privacy._kernels import groups_hold, held, holds

__all__ = [
    "Blocks",
    "allowed_blocks",
    "lifted",
    "most_left_out",
    "nothing_left",
    "only",
    "own_rows",
    "releasable",
]

Mask = npt.NDArray[np.bool_]


def _blocks_of(problem: Problem) -> Array:
    """Which entries may share a group: entries of different blocks never may.

    Without boundaries that is everybody. With boundaries, entries whose highest allowed values
    differ can never look alike (Miller, Campan & Truta, Property 1); a column limited to a
    width is cut into strips of that width, one limited to intervals into these.
    """
    blocks = np.zeros(problem.entries.entries, dtype=np.int64)
    if problem.apart is not None:
        blocks = np.unique(problem.apart, return_inverse=True)[1]
    for name, limit in problem.limits.items():
        codes = problem.entries.column(name)
        if limit.magval is not None:
            key = limit.magval[codes]
        else:
            assert isinstance(limit.shape, Ranges)
            strips = limit.interval
            if strips is None:
                strips = _strips(limit.shape, float(limit.max_width or 0.0))
            key = strips[limit.shape.position[codes]]
        _, blocks = np.unique(blocks * (int(key.max(initial=0)) + 1) + key, return_inverse=True)
    return blocks.astype(np.int64)


def _strips(shape: Ranges, width: float) -> Array:
    """Strip of each position: as few as possible, none wider than allowed."""
    strips = np.zeros(shape.size, dtype=np.int64)
    strip, begin = -1, -np.inf
    for at, point in enumerate(shape.points):
        if point - begin > width:
            strip, begin = strip + 1, point
        strips[at] = strip
    strips[len(shape.points) :] = np.arange(strip + 1, strip + 1 + shape.size - len(shape.points))
    return strips


def releasable(problem: Problem) -> Mask:
    """Which entries can be released: the blocks that hold when the others are left out.

    For k-anonymity, distinct l-diversity and p-sensitivity these are as many as possible.
    """
    kept = np.ones(problem.entries.entries, dtype=bool)
    if not problem.limits and problem.apart is None:
        return kept
    blocks = _blocks_of(problem)
    count = int(blocks.max(initial=-1)) + 1
    sensitive = sensitive_of(problem)
    rules = problem.rules
    while True:
        there = np.where(kept, blocks, -1)
        good = groups_hold(there, count, problem.counts, sensitive, rules)
        remaining: Mask = kept & good[blocks]
        if remaining.sum() == kept.sum() or not compares(rules) or problem.part:
            return remaining
        kept = remaining
        rules = recounted(rules, _held(problem, kept))


def _held(problem: Problem, kept: Mask | None = None) -> npt.NDArray[np.int64]:
    """How many rows of some entries hold each sensitive value, laid out as rules count them."""
    if not problem.rules.offsets[-1]:  # nothing is counted but rows
        return np.zeros(0, np.int64)
    chosen = np.arange(problem.entries.entries) if kept is None else np.flatnonzero(kept)
    counts: Array = held(chosen, problem.counts, sensitive_of(problem), problem.rules)
    return counts


def only(problem: Problem, kept: Mask) -> Problem:
    """The problem of some of the entries, measured against their own distribution.

    Those of a part stay measured against the distribution of the whole table.
    """
    if kept.all():
        return problem
    rules = problem.rules if problem.part else recounted(problem.rules, _held(problem, kept))
    return replace(
        problem,
        entries=problem.entries.take(kept),
        rules=rules,
        apart=None if problem.apart is None else problem.apart[kept],
        people=None if problem.people is None else problem.people[kept],
    )


def own_rows(problem: Problem) -> Array:
    """Rows to be released that each entry stands for; none where it is people of a population."""
    return problem.counts if problem.people is None else problem.counts * ~problem.people


def most_left_out(problem: Problem) -> int:
    """Rows that a method may leave out: the option ``suppression_limit`` is a share of all."""
    share = problem.options.get("suppression_limit", 0.0)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ParameterError(
            "the suppression limit must be a share of the rows, from 0 to 1",
            remedy="Give e.g. 0.02 for 2 %.",
        )
    return int(share * own_rows(problem).sum() + 1e-9)  # 0.29 of 100 rows are 29, not 28.999…


def lifted(solution: Solution, kept: Mask, problem: Problem) -> Solution:
    """A solution for some of the entries as one for all; the others are suppressed."""
    if kept.all():
        return solution
    numbers = np.flatnonzero(kept)
    if solution.entry is None or solution.rows is None:
        groups = np.full(len(kept), -1, dtype=np.int32)
        groups[numbers] = solution.groups
        return replace(solution, groups=groups)
    out = np.flatnonzero(~kept)
    entry = np.r_[numbers[solution.entry], out]
    order = np.argsort(entry, kind="stable")
    return replace(
        solution,
        groups=np.r_[solution.groups, np.full(len(out), -1, np.int32)][order].astype(np.int32),
        entry=entry[order],
        rows=np.r_[solution.rows, problem.counts[out]][order],
    )


def nothing_left(problem: Problem, models: Sequence[Model]) -> ParameterError:
    """Why no row could be released: for each model the best block, and what the others lack."""
    everybody = _blocks_of(problem)
    people = np.zeros(len(everybody), bool) if problem.people is None else problem.people
    own = ~people
    _, blocks = np.unique(everybody[own], return_inverse=True)
    rows = problem.counts[own]
    sizes = np.bincount(blocks, weights=rows).astype(np.int64)
    crowds = np.bincount(
        everybody[people], weights=problem.counts[people], minlength=int(everybody.max()) + 1
    )[np.unique(everybody[own])].astype(np.int64)
    found, best = [], []
    for model in models:
        counted = Counted(crowds if model.asks_people else sizes)
        if model.about is not None:
            codes = problem.entries.column(model.about)[own]
            values = problem.entries.values_of(model.about)
            column = SensitiveColumn.of(codes, rows, values)
            inside = ClassHistogram.of(blocks, len(sizes), codes, len(values), rows)
            counted = Counted(sizes, column.seen_in(inside), column)
        found.append(model.reach(counted, sizes))
        of = "" if model.about is None else f" for `{model.about}`"
        best.append(found[-1].best + of)
    keeps = "the boundaries keep" if problem.limits else "what rows lack keeps"
    blocking = [
        f"{one.asked} fails for {one.blocked_rows:,} rows in {one.blocked_blocks:,} of "
        f"{len(sizes):,} groups ({one.reason})"
        for one in found
        if one.blocked_rows
    ]
    return ParameterError(
        f"the privacy models cannot be met: all {int(sizes.sum()):,} rows would have to be left "
        f"out, because {keeps} them apart; " + "; ".join(blocking),
        remedy=f"So ask for at most {', '.join(best)}, or allow more blurring.",
    )


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
    if not problem.limits and problem.apart is None:
        return _one_block(problem)
    blocks = _blocks_of(problem)
    count = int(blocks.max(initial=-1)) + 1
    good = groups_hold(blocks, count, problem.counts, sensitive_of(problem), problem.rules)
    order = np.flatnonzero(good[blocks])
    order = order[np.argsort(blocks[order], kind="stable")]
    edges = np.flatnonzero(np.diff(blocks[order])) + 1
    starts = np.r_[0, edges, len(order)] if len(order) else np.zeros(1)
    return Blocks(order, starts.astype(np.int64))


def _one_block(problem: Problem) -> Blocks:
    """All entries together."""
    entries = problem.entries.entries
    # where only persons are asked for, there are enough: see `pipeline.prepare`
    company = problem.person is not None and len(problem.rules.kinds) == 1
    if entries and not company and not holds(problem.rows, _held(problem), problem.rules):
        raise ParameterError(
            "the privacy models cannot be met: not even all rows as one class satisfy them",
            remedy="Ask for a smaller k or l, or a larger t.",
        )
    starts = np.array([0, entries] if entries else [0], dtype=np.int64)
    return Blocks(np.arange(entries), starts)
