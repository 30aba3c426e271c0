"""Several sets of quasi-identifiers: which are solved together, and which apart.

Sets without a common column are anonymized one by one: each blurs only its own columns, so neither
pays for the other. Sets that share columns are solved so that the promise holds for each of them
(see `overlapping`; full-domain recoding judges every set itself). Only where that is not possible
they are solved as their union: whatever holds for the classes of a union holds for the classes of
each of its parts, since those are unions of classes and all models are monotone. The result says
how it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.crowd import with_people, without_people
from sfumato.anonymization.demand import Demand
from sfumato.anonymization.preparing import Prepared, prepare
from sfumato.anonymization.problem import Problem, Solution
from sfumato.anonymization.registry import method
from sfumato.anonymization.several_sets import largest_sets, shared_columns, solve_apart
from sfumato.anonymization.suppression import (
    closeness_asked,
    lifted,
    nothing_left,
    only,
    releasable,
)
from sfumato.anonymization.views import group_sizes, group_view
from sfumato.budget import Budget
from sfumato.errors import PromiseError
from sfumato.tables import Table
from sfumato.utility import View

__all__ = ["Solved", "components", "solve"]

Sets = tuple[tuple[str, ...], ...]
AGAIN = 20
"""How often a method may leave out more rows before its last answer is taken."""


@dataclass(frozen=True, eq=False)
class Solved:
    """One problem and its solution.

    Attributes
    ----------
    sets
        The sets of quasi-identifiers it is about.
    prepared, solution
        What was asked of the method, and what it found.
    """

    sets: Sets
    prepared: Prepared
    solution: Solution

    @property
    def problem(self) -> Problem:
        """The problem that was solved."""
        return self.prepared.problem

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each group; with several sets a class of one set may be many groups."""
        return group_sizes(self.problem, self.solution)

    @cached_property
    def view(self) -> View:
        """The groups as measures of utility read them."""
        return group_view(self.problem, self.solution)

    def view_of(self, names: tuple[str, ...]) -> View:
        """The same with the columns of one set only, whose classes are what it promises."""
        if set(names) == set(self.view.columns):
            return self.view
        return View(
            {name: self.view.original[name] for name in names},
            {name: self.view.published[name] for name in names},
            self.view.counts,
        )


def components(sets: Sets) -> list[Sets]:
    """Sets grouped so that those in different groups share no column.

    Examples
    --------
    >>> components((("age", "sex"), ("zip",), ("sex", "job")))
    [(('age', 'sex'), ('sex', 'job')), (('zip',),)]
    """
    groups: list[list[tuple[str, ...]]] = []
    for names in sets:
        touched = [g for g in groups if any(set(names) & set(other) for other in g)]
        joined = [other for g in touched for other in g] + [names]
        at = groups.index(touched[0]) if touched else len(groups)
        groups = [g for g in groups if g not in touched]
        groups.insert(at, joined)
    return [tuple(group) for group in groups]


def solve(table: Table, demand: Demand, budget: Budget) -> list[Solved]:
    """Solve a demand, set by set where that is possible.

    A row is released only if no solution suppresses it. Where rows are suppressed for one set, the
    classes of another would lose rows, so then all sets are solved as one.
    """
    parts = components(demand.qi)
    solved = [_solved(table, demand, sets, budget) for sets in parts]
    if len(parts) > 1 and any((part.solution.groups < 0).any() for part in solved):
        solved = [_solved(table, demand, demand.qi, budget)]
    return solved


def _solved(table: Table, demand: Demand, sets: Sets, budget: Budget) -> Solved:
    about = demand.about(sets)
    prepared = prepare(table, about, budget)
    budget.progress(f"anonymizing {', '.join(about.columns)}")
    solution = _released(prepared.problem, about)
    _stay_within(prepared.problem, solution, demand.method)
    return Solved(sets, prepared, solution)


def _released(problem: Problem, demand: Demand) -> Solution:
    """The method's solution, held against the distribution of the rows that it releases."""
    rows = problem.entries.entries
    if problem.crowd is not None:
        problem = with_people(problem, demand.k_map)
    kept = releasable(problem)
    for _ in range(AGAIN):
        if rows and not kept[:rows].any():
            raise nothing_left(problem, demand.models)
        solution = _of_sets(only(problem, kept), demand)
        out = solution.groups < 0
        if not out.any() or not closeness_asked(problem.rules) or method(demand.method).judges_sets:
            break
        # t-closeness is measured on what is released: what was left out must not count
        entry = np.arange(len(out)) if solution.entry is None else solution.entry
        kept[np.flatnonzero(kept)[entry[out]]] = False
    solution = lifted(solution, kept, problem)
    if problem.people is not None:
        solution = without_people(solution, rows)
    if rows and not (solution.groups >= 0).any():
        raise nothing_left(problem, demand.models)
    return solution


def _of_sets(problem: Problem, demand: Demand) -> Solution:
    """The solution for all sets of a demand, each by itself where that is possible."""
    chosen = method(demand.method)
    sets = largest_sets(demand.qi)
    if len(sets) == 1:
        return chosen.solve(problem)
    if chosen.judges_sets and not problem.limits:
        solution = chosen.solve(replace(problem, sets=sets))
        by, why = "levels that fit every set", None
    elif chosen.blurs and not problem.limits and shared_columns(sets):
        return solve_apart(problem, sets, demand.method)
    else:
        solution = chosen.solve(problem)
        by = "union"
        why = "within boundaries" if problem.limits else f"method {demand.method}"
    told = {"shared": list(shared_columns(sets)), "by": by}
    if why is not None:
        told["why"] = f"{why}: more is blurred than the sets ask for"
    return replace(solution, details={**solution.details, "several_sets": told})


def _stay_within(problem: Problem, solution: Solution, name: str) -> None:
    """Refuse a solution that blurs cells beyond the boundaries, whatever method made it."""
    entry = np.arange(len(solution.groups)) if solution.entry is None else solution.entry
    rows = problem.counts if solution.rows is None else solution.rows
    for column, limit in problem.limits.items():
        codes = problem.entries.column(column)[entry]
        beyond = 0
        if column in solution.published:
            beyond = limit.violations(codes, solution.published[column].take(solution.groups), rows)
        elif column in solution.starred:
            starred = (solution.groups >= 0) & solution.starred[column][solution.groups]
            beyond = int(rows[starred & ~limit.may_be_starred(codes)].sum())
        if beyond:
            raise PromiseError(
                f"method `{name}` blurred {beyond:,} cells of `{column}` beyond the boundaries",
                remedy="Choose a method that keeps them, e.g. --method mondrian.",
            )
