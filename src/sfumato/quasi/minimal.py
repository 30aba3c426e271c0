"""All minimal keys and quasi-identifiers, by whichever search suits the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.errors import ParameterError, did_you_mean
from sfumato.quasi.answer import Question
from sfumato.quasi.equivalents import equivalents, expanded
from sfumato.quasi.exact_key import goal_of
from sfumato.quasi.greedy import Goal, histogram
from sfumato.quasi.lattice import (
    DEPTH_FIRST_COLUMNS,
    Minimal,
    all_subsets,
    depth_first,
    in_order,
    levelwise,
    minimal_from_subsets,
)
from sfumato.quasi.pruning import iterated_pruner, sample_pruner
from sfumato.quasi.pulling import all_combinations, pulled
from sfumato.quasi.transversals import minimal_keys_by_differences
from sfumato.results import Result
from sfumato.tables import table

__all__ = ["METHODS", "MinimalKeys", "minimal_keys"]

METHODS = (
    "auto",
    "depth-first",
    "levelwise",
    "pruned",
    "iterative",
    "hitting-set",
    "agree-sets",
)
PRUNING_ROWS = 2000
"""Rows or pairs of the sample that `pruned` looks at first."""


@dataclass(frozen=True)
class MinimalKeys(Result):
    """All minimal column sets that reach a goal.

    Attributes
    ----------
    keys
        The sets, small ones first. Of columns that say the same only the first is named, unless
        they were asked to be expanded.
    equivalents
        For a column named in `keys`, the others that could stand in its place.
    complete
        Whether these are all of them; `max_size` and a spent budget leave some out.
    method, delta
        How they were found; with sampled pruning a set may be missing with probability δ.
    duplicate_rows
        Rows that equal an earlier row; then a key means "tells apart as well as all columns".
    """

    keys: tuple[tuple[str, ...], ...]
    equivalents: Mapping[str, tuple[str, ...]]
    complete: bool
    method: str
    goal: Mapping[str, Any]
    max_size: int | None
    duplicate_rows: int | None
    delta: float | None
    stopped_by: str | None
    notes: tuple[str, ...] = ()


def minimal_keys(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    measure: str = "key",
    beta: float | None = None,
    max_size: int | None = None,
    method: str = "auto",
    expand: bool = False,
    delta: float = 0.01,
    seed: int = 0,
    budget: Budget | None = None,
) -> MinimalKeys:
    """Find all minimal sets of columns that identify rows.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Columns to choose from; None means all.
    measure, beta
        ``key``, or sets whose ``distinct`` or ``separation`` ratio is at least β.
    max_size
        Only sets of at most so many columns.
    method
        ``depth-first`` (stripped partitions), ``levelwise``, ``pruned`` (levelwise with a sample),
        ``iterative`` (with a series of samples), ``hitting-set`` (difference sets, keys only),
        ``agree-sets`` (one table for all subsets) or ``auto``.
    expand
        Name a set once for every choice among columns that say the same.
    delta
        Probability with which sampled pruning may lose a set.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> sf.minimal_keys(people).keys
    (('age', 'sex'), ('age', 'state'))
    """
    if method not in METHODS:
        raise ParameterError(f"there is no method `{method}`", remedy=did_you_mean(method, METHODS))
    question = Question(
        measure=measure, beta=None if beta == 1 else beta, max_size=max_size, delta=delta, seed=seed
    )
    if measure != "key" and beta is None:
        raise ParameterError(f"`{measure}` needs a ratio to reach", remedy="Give --beta, e.g. 0.9.")
    budget = budget or Budget()
    opened = table(source, budget=budget)
    if columns is not None:
        opened = opened.select(columns)
    budget.progress("reading the table")
    everything = all_combinations(opened, budget)
    twins = equivalents(everything)
    names = opened.columns
    hidden = {other for others in twins.values() for other in others}
    chosen = [at for at in range(len(names)) if at not in hidden]
    codes = everything.select([names[at] for at in chosen])
    search = _Search(codes, question, budget)
    used = search.suited() if method == "auto" else method
    found = search.run(used)
    sets = [tuple(chosen[c] for c in s) for s in found.sets]
    if expand:
        sets = list(in_order(expanded(sets, twins)))
    return MinimalKeys(
        keys=tuple(tuple(names[c] for c in s) for s in sets),
        equivalents={
            names[c]: tuple(names[other] for other in others) for c, others in twins.items()
        },
        complete=found.complete,
        method=used,
        goal={
            "measure": "key" if question.beta is None else question.ratio,
            "at_least": 1.0 if question.beta is None else question.beta,
        },
        max_size=max_size,
        duplicate_rows=search.duplicates if question.beta is None else None,
        delta=delta if search.sampled and question.beta is not None else None,
        stopped_by=found.stopped_by,
        notes=(*search.notes, *pulled(opened, everything)),
    )


class _Search:
    """One search with its goal; remembers what there is to say about it."""

    def __init__(self, codes: Codes, question: Question, budget: Budget) -> None:
        self.codes, self.question, self.budget = codes, question, budget
        self.notes: list[str] = []
        self.sampled = False
        self.duplicates: int | None = None
        self.goal = self._goal()
        if question.beta is not None and all(
            self.goal.met(codes, (c,)) for c in range(len(codes.columns))
        ):
            self.notes.append(f"β = {question.beta:g} is so small that every column qualifies")

    def _goal(self) -> Goal:
        codes, question = self.codes, self.question
        if question.beta is not None:
            return goal_of(codes.rows, question)
        everything = histogram(codes, range(len(codes.columns)))
        self.duplicates = codes.rows - everything.classes
        if self.duplicates:
            self.notes.append(
                f"{self.duplicates:,} rows equal an earlier row in all columns, so there is no "
                "key; these sets tell rows apart as well as all columns do"
            )
        return Goal(pairs=everything.unseparated_pairs)

    def suited(self) -> str:
        """The method that suits the size of the question."""
        width = len(self.codes.columns)
        if self.question.beta is None:
            return "hitting-set"
        if width <= DEPTH_FIRST_COLUMNS:
            return "depth-first"
        return "pruned"

    def run(self, method: str) -> Minimal:
        """Search by the method of that name."""
        codes, question, budget = self.codes, self.question, self.budget
        if method == "hitting-set":
            if question.beta is not None:
                raise ParameterError(
                    "difference sets find keys, not β-sets",
                    remedy="Use the method depth-first, levelwise or agree-sets.",
                )
            return minimal_keys_by_differences(codes, question.max_size, budget, question.seed)
        if method == "agree-sets":
            every = all_subsets(codes, budget)
            return minimal_from_subsets(every, self.goal, question.max_size)
        if method == "depth-first":
            return depth_first(codes, self.goal, question.max_size, budget)
        return self._levelwise(method)

    def _levelwise(self, method: str) -> Minimal:
        codes, question = self.codes, self.question
        random = np.random.default_rng(question.seed)
        pruner = None
        if method == "pruned":
            pruner = sample_pruner(codes, question, PRUNING_ROWS, question.delta, random)
        elif method == "iterative":
            pruner = iterated_pruner(codes, question, question.delta, random, self.budget)
        if method != "levelwise" and pruner is None:
            self.notes.append("the sample is too small to rule anything out: went on without it")
        self.sampled = pruner is not None
        return levelwise(
            len(codes.columns),
            lambda s: self.goal.met(codes, s),
            question.max_size,
            self.budget,
            hopeless=None if pruner is None else pruner.hopeless,
        )
