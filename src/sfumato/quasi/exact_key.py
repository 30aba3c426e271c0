"""The exact search for a smallest key or β-set, and its proof."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.budget import Budget
from sfumato.quasi.answer import Key, Question
from sfumato.quasi.greedy import Goal, Path, greedy, without_redundant
from sfumato.quasi.measure import measures_of
from sfumato.quasi.proof import proven_minimum
from sfumato.quasi.pulling import all_combinations, pulled
from sfumato.tables import Table

__all__ = ["exact_key", "goal_of"]


def exact_key(opened: Table, costs: list[float], question: Question, budget: Budget) -> Key:
    """Greedy on exact counts, redundancy dropped, and proven minimal where asked."""
    budget.progress("reading the table")
    codes = all_combinations(opened, budget)
    rows = codes.rows
    goal = goal_of(rows, question)
    found = greedy(codes, costs, goal, max_size=question.max_size, budget=budget)
    is_key_search = question.beta is None or question.beta == 1
    if is_key_search:
        # The search ends where no column separates anything more: what is left are equal rows.
        goal = Goal(pairs=found.pairs_left[-1] if found.pairs_left else rows * (rows - 1) // 2)
    chosen, lower, stopped = found.columns, None, found.stopped_by
    reached = goal.met(codes, chosen)
    if reached:
        budget.progress("dropping what is redundant")
        chosen = without_redundant(chosen, costs, lambda s: goal.met(codes, s))
    if reached and question.proven and stopped is None:
        proof = proven_minimum(
            codes,
            costs,
            goal,
            chosen,
            all_separable=is_key_search,
            budget=budget,
            seed=question.seed,
        )
        chosen, lower, stopped = proof.columns, proof.lower_bound, proof.stopped_by
    names = tuple(opened.columns[c] for c in chosen)
    measures = measures_of(names, opened.class_sizes(names, budget))
    whole_search = question.max_size is None and found.stopped_by is None
    duplicates = rows - measures.classes if is_key_search and whole_search else None
    weight = float(sum(costs[c] for c in chosen))
    return Key(
        columns=names,
        size=len(names),
        weight=weight,
        goal={
            "measure": "key" if is_key_search else question.ratio,
            "at_least": 1.0 if question.beta is None else question.beta,
        },
        is_key=measures.classes == rows,
        duplicate_rows=duplicates,
        measures=measures,
        proven_minimum=lower is not None and weight <= lower + 1e-9,
        lower_bound=lower,
        sample=None,
        verified=True,
        steps=_steps(opened.columns, found),
        stopped_by=stopped,
        notes=(*_notes(question, reached, duplicates, stopped), *pulled(opened, codes)),
    )


def goal_of(rows: int, question: Question) -> Goal:
    """Exact integer thresholds of the ratio asked for; a ratio of 1 is a key in either measure."""
    if question.beta is None or question.beta == 1:
        return Goal(pairs=0)
    # The decimal the user wrote, not its nearest binary fraction: 0.9 of 10 rows are 9 rows.
    ratio = Fraction(repr(question.beta))
    if question.ratio == "distinct":
        return Goal(classes=math.ceil(ratio * rows))
    return Goal(pairs=math.floor((1 - ratio) * (rows * (rows - 1) // 2)))


def _steps(columns: Sequence[str], found: Path) -> tuple[Mapping[str, Any], ...]:
    taken = zip(found.columns, found.pairs_left, strict=True)
    return tuple({"column": columns[c], "unseparated_pairs": left} for c, left in taken)


def _notes(
    question: Question, reached: bool, duplicates: int | None, stopped: str | None
) -> tuple[str, ...]:
    if duplicates:
        return (
            f"{duplicates:,} rows equal an earlier row in all columns, so there is no key; "
            "this set tells rows apart as well as all columns do",
        )
    if reached or stopped:
        return ()
    if question.max_size is not None:
        return (f"no set of at most {question.max_size} columns was found that reaches the goal",)
    return (f"even all columns together do not reach {question.beta:g}",)
