"""Rows that boundaries keep from being released, found before a method starts.

A block whose rows fail the demand even as one class cannot be released. Leaving it out changes what
t-closeness measures: `verify` compares classes with the distribution of the rows that were
released, so the others must not count. Blocks are therefore left out until those that remain hold
against the distribution of what remains, and the method works on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.anonymization.space import blocks_of, sensitive_of
from sfumato.errors import ParameterError
from sfumato.privacy import ClassHistogram, KAnonymity, KMap, Model, SensitiveColumn, reach
from sfumato.privacy.rules import CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE, Rules, recounted

__all__ = ["closeness_asked", "held", "lifted", "nothing_left", "only", "releasable"]

Mask = npt.NDArray[np.bool_]


def releasable(problem: Problem) -> Mask:
    """Which entries can be released: the blocks that hold when the others are left out.

    For k-anonymity, distinct l-diversity and p-sensitivity these are as many as possible.
    """
    from sfumato.anonymization._rules import groups_hold

    kept = np.ones(problem.entries.entries, dtype=bool)
    if not problem.limits:
        return kept
    blocks = blocks_of(problem)
    count = int(blocks.max(initial=-1)) + 1
    sensitive = sensitive_of(problem)
    rules = problem.rules
    while True:
        there = np.where(kept, blocks, -1)
        good = groups_hold(there, count, problem.counts, sensitive, rules)
        remaining: Mask = kept & good[blocks]
        if remaining.sum() == kept.sum() or not closeness_asked(rules):
            return remaining
        kept = remaining
        rules = recounted(rules, held(problem, kept))


def closeness_asked(rules: Rules) -> bool:
    """Whether the rules compare classes with the distribution of all rows."""
    return bool(np.isin(rules.kinds, (CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE)).any())


def held(problem: Problem, kept: Mask) -> npt.NDArray[np.int64]:
    """How many rows of some entries hold each sensitive value, laid out as rules count them."""
    places = sensitive_of(problem)[kept]
    rows = np.repeat(problem.counts[kept], places.shape[1])
    total = np.bincount(places.ravel(), weights=rows, minlength=int(problem.rules.offsets[-1]))
    return total.astype(np.int64)


def only(problem: Problem, kept: Mask) -> Problem:
    """The problem of some of the entries, measured against their own distribution."""
    if kept.all():
        return problem
    return replace(
        problem,
        entries=problem.entries.take(kept),
        rules=recounted(problem.rules, held(problem, kept)),
        apart=None if problem.apart is None else problem.apart[kept],
        people=None if problem.people is None else problem.people[kept],
    )


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
    everybody = blocks_of(problem)
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
        if isinstance(model, (KAnonymity, KMap)):
            found.append(reach(model, sizes, crowds=crowds))
            of = " for k-map" if isinstance(model, KMap) else ""
            best.append(found[-1].best + of)
            continue
        codes = problem.entries.column(model.column)[own]
        values = problem.entries.values_of(model.column)
        column = SensitiveColumn.of(codes, rows, values)
        inside = ClassHistogram.of(blocks, len(sizes), codes, len(values), rows)
        found.append(reach(model, sizes, inside, column))
        best.append(f"{found[-1].best} for `{model.column}`")
    blocking = [
        f"{one.asked} fails for {one.blocked_rows:,} rows in {one.blocked_blocks:,} of "
        f"{len(sizes):,} groups ({one.reason})"
        for one in found
        if one.blocked_rows
    ]
    return ParameterError(
        f"the demand cannot be met: all {int(sizes.sum()):,} rows would have to be left out, "
        "because the boundaries keep them apart; " + "; ".join(blocking),
        remedy=f"Within these boundaries ask at most for {', '.join(best)}; or allow more "
        "blurring.",
    )
