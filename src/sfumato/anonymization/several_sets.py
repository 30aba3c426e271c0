"""Sets of quasi-identifiers that share columns, solved apart where they differ.

The promise is about each set, not about their union, which asks for more: whoever knows age and
zip code does not know age and job. But a shared column is published once, so the sets cannot be
solved one by one either. They are solved in two stages:

1. The *shared* columns (those of two sets or more) are grouped so that each group has at least K
   rows, K being larger than k, and satisfies all other rules.
2. Within these groups every set blurs its own columns, as if the other sets did not exist.

The classes of a set are unions of the groups of its second stage. Each of those satisfies the
rules, and all models are monotone; so the promise holds for every set. A small K keeps shared
columns precise and leaves few rows to tell the own columns apart, a large K does the opposite: the
K of least loss is searched for. Where the union loses less (its groups fit all columns at once),
the union is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.anonymization.actions import Merged
from sfumato.anonymization.problem import Problem, Solution, group_view
from sfumato.anonymization.verb import Sets, solver
from sfumato.engines.protocol import Codes
from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids, group_sums, representatives
from sfumato.privacy import Rules
from sfumato.utility import column_losses

Solve = Callable[[Problem], Solution]
CHOOSING = {"mondrian": "mondrian"}
"""The method that chooses K, by the method that is used then; a fast one where not listed."""
FAST = "lattice"


def shared_columns(sets: Sets) -> tuple[str, ...]:
    """Columns of two sets or more, in the order given.

    Examples
    --------
    >>> shared_columns([("age", "zip"), ("age", "job")])
    ('age',)
    """
    names = dict.fromkeys(name for names in sets for name in names)
    return tuple(name for name in names if sum(name in one for one in sets) > 1)


def solve_apart(problem: Problem, sets: Sets, name: str) -> Solution:
    """The better of two solutions: the sets apart in two stages, or their union.

    Parameters
    ----------
    problem
        About all columns of the sets together.
    sets
        No set is part of another, and every set shares a column with some other.
    name
        The method.
    """
    solve = solver(name)
    fast = solver(CHOOSING.get(name, FAST))
    union = solve(replace(problem, budget=problem.budget.part(0.5)))
    union_loss = _loss(problem, union)
    found = _best_size(problem, sets, fast)
    if fast is not solve and not problem.budget.spent():
        found = _Stages.of(problem, sets, found.size, solve)
    told = {
        "shared": list(shared_columns(sets)),
        "loss": min(found.loss, union_loss),
        "loss_in_two_stages": found.loss,
        "loss_of_union": union_loss,
    }
    if found.loss >= union_loss:
        return replace(union, details={**union.details, "several_sets": {**told, "by": "union"}})
    return replace(found.solution(), details={"several_sets": {**told, "by": "two stages"}})


@dataclass(frozen=True, eq=False)
class _Stages:
    """Rows in pieces, and the group of each piece in every stage.

    Attributes
    ----------
    size
        Least rows of a group of shared columns.
    entry, rows
        The entry each piece is of, and its rows.
    groups, published
        For each stage the group of each piece, and what a group shows of the stage's columns.
    """

    problem: Problem
    size: int
    entry: Array
    rows: Array
    groups: tuple[Array, ...]
    published: tuple[Mapping[str, Published], ...]
    loss: float
    stopped_by: str | None

    @classmethod
    def of(cls, problem: Problem, sets: Sets, size: int, solve: Solve) -> _Stages:
        """Group the shared columns, then the own columns of every set within."""
        shared = shared_columns(sets)
        whole = np.arange(problem.entries.entries)
        start = cls(problem, size, whole, problem.counts, (), (), 0.0, None)
        own = [tuple(name for name in names if name not in shared) for names in sets]
        own = [names for names in own if names]
        share = 1 / (len(own) + 1)
        stages = start._with(shared, solve, problem.rules._replace(k=size), share)
        for at, names in enumerate(own):
            stages = stages._with(names, solve, problem.rules, 1 / (len(own) - at))
        weights = sum(problem.weight(name) for name in problem.qi)
        return replace(stages, loss=stages.loss / weights if weights else 0.0)

    def _with(self, columns: tuple[str, ...], solve: Solve, rules: Rules, share: float) -> _Stages:
        """One more stage, within the groups of shared columns if there are any yet.

        It may take a share of the time that is left.
        """
        whole = self.problem
        others = [n for n in whole.entries.columns if n not in whole.qi]
        pieces = whole.entries.select([*columns, *others]).take(self.entry)
        pieces = replace(pieces, counts=self.rows)
        merged, apart = _merged(pieces, self.groups[0] if self.groups else None)
        part = replace(
            whole,
            entries=merged.entries,
            qi=columns,
            shapes={name: whole.shapes[name] for name in columns},
            rules=rules,
            weights={n: w for n, w in whole.weights.items() if n in columns},
            options=_options_about(whole.options, columns),
            apart=apart,
            people=None,
            budget=whole.budget.part(share),
        )
        found = solve(part)
        groups, owner, rows, _ = merged.expanded(found.groups, found.entry, found.rows)
        owner = np.arange(len(self.entry)) if owner is None else owner
        return replace(
            self,
            entry=self.entry[owner],
            rows=self.rows if rows is None else rows,
            groups=(*(earlier[owner] for earlier in self.groups), groups),
            published=(*self.published, found.published),
            loss=self.loss + _loss(part, found, mean=False),
            stopped_by=self.stopped_by or found.stopped_by,
        )

    def solution(self) -> Solution:
        """Pieces that show the same in every stage are a group."""
        arrays = tuple(groups.astype(np.uint32) for groups in self.groups)
        sizes = tuple(int(groups.max(initial=0)) + 1 for groups in self.groups)
        ids, count = class_ids(arrays, sizes, entries=len(self.entry))
        first = np.asarray(representatives(ids, count), dtype=np.int64)
        published = {
            name: shown.take(groups[first])
            for groups, stage in zip(self.groups, self.published, strict=True)
            for name, shown in stage.items()
        }
        parted = len(self.entry) > self.problem.entries.entries
        return Solution(
            np.asarray(ids).astype(np.int32),
            published,
            entry=self.entry if parted else None,
            rows=self.rows if parted else None,
            stopped_by=self.stopped_by,
        )


def _best_size(problem: Problem, sets: Sets, solve: Solve) -> _Stages:
    """The two stages of least loss among K = k, 2k, 4k, … up to all rows.

    The loss falls and rises again, up to small bumps, so that only some sizes are tried.
    """
    tried: dict[int, _Stages] = {}
    own = problem.counts if problem.people is None else problem.counts[~problem.people]
    rows = int(own.sum())

    def at(step: int) -> float:
        if step not in tried:
            size = min(problem.rules.k * 2**step, rows)
            tried[step] = _Stages.of(problem, sets, size, solve)
        return tried[step].loss

    low, high = 0, max(1, (rows // problem.rules.k).bit_length())
    while high - low > 2:
        middle = (low + high) // 2
        if at(middle) <= at(middle + 1):
            high = middle + 1
        else:
            low = middle
    best = min(range(low, high + 1), key=at)
    return tried[best]


def _merged(pieces: Codes, apart: Array | None) -> tuple[Merged, Array | None]:
    """Equal pieces as one entry, those in different groups of shared columns apart."""
    arrays = list(pieces.arrays)
    sizes = [int(codes.max(initial=0)) + 1 for codes in arrays]  # people have a code of their own
    if apart is not None:
        arrays.append(apart.astype(np.uint32))
        sizes.append(int(apart.max(initial=0)) + 1)
    ids, count = class_ids(tuple(arrays), tuple(sizes), entries=pieces.entries)
    first = np.asarray(representatives(ids, count), dtype=np.int64)
    entries = replace(
        pieces.take(first), counts=np.asarray(group_sums(ids, count, pieces.row_counts))
    )
    into = np.asarray(ids).astype(np.int64)
    return Merged(entries, pieces, into), None if apart is None else apart[first]


def _options_about(options: Mapping[str, Any], columns: tuple[str, ...]) -> Mapping[str, Any]:
    """A method's options as far as they are about these columns; no stage may leave out rows."""
    stays = {name: how for name, how in options.items() if name != "suppression_limit"}
    if "cuts" in stays:
        stays["cuts"] = {name: at for name, at in stays["cuts"].items() if name in columns}
    return stays


def _loss(problem: Problem, solution: Solution, *, mean: bool = True) -> float:
    """Weighted certainty penalty; the sum over columns, or their weighted mean."""
    lost = column_losses(group_view(problem, solution))
    total = sum(problem.weight(name) * loss for name, loss in lost.items())
    weights = sum(problem.weight(name) for name in lost)
    return total / weights if mean and weights else total
