"""The search on a sample, with its guarantee and the exact check of it afterwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.quasi import samples
from sfumato.quasi.answer import Key, Question, Sample
from sfumato.quasi.draws import differing_columns, sampled_rows
from sfumato.quasi.exact_key import exact_key
from sfumato.quasi.greedy import Goal, greedy, without_redundant
from sfumato.quasi.measure import measures_of
from sfumato.tables import Table

__all__ = ["greedy_cover", "sampled_key"]

EQUAL_ROWS = (
    "the sampled rows hold equal rows, of which a sample of rows promises nothing: pairs were "
    "drawn instead, and the promise is about pairs that some column separates"
)
ONE_PASS = "a stream passes only once: the promise was not checked on all of its rows"
NO_KEY = "the sampled rows hold equal rows: no set is a key of them, and the promise is not implied"
OWN_SIZE = "the size of the sample was given, so the guarantee is not implied by it"


def sampled_key(opened: Table, costs: list[float], question: Question, budget: Budget) -> Key:
    """A small column set of a sample, which holds for the table with probability 1-δ."""
    streamed = opened.engine.kind == "stream"
    if streamed:
        question = _for_a_stream(opened, question)
    unit, size = _needed(opened, question)
    if question.sample is None and _is_everything(opened, unit, size):
        exact = exact_key(opened, costs, replace(question, eps=None), budget)
        note = f"the guarantee needs {size:,} {unit}, the table has not more: answered exactly"
        return replace(exact, notes=(*exact.notes, note))
    notes = [] if question.sample is None else [OWN_SIZE]
    notes += [ONE_PASS] if streamed else []
    budget.progress(f"drawing {size:,} {unit}")
    chosen: tuple[int, ...] | None = None
    if unit == "rows":
        chosen, alike = _key_of_rows(opened, costs, size, question, budget)
        if chosen is not None and alike:
            notes.append(NO_KEY)
    if chosen is None:
        if unit == "rows":
            notes.append(EQUAL_ROWS)
            unit, size = _needed(opened, replace(question, by="pairs", measure="separation"))
        chosen, equal = _cover_of_pairs(opened, costs, size, question)
        if equal:
            notes.append(
                f"{equal:,} of the sampled pairs are of equal rows, which no column separates: the "
                "promise is about the others"
            )
    names = tuple(opened.columns[c] for c in chosen)
    promised = (1 - (question.eps or 0)) * (question.beta or 1)
    measures = verified = None
    if question.verify if question.verify is not None else _is_local(opened):
        budget.progress("verifying on all rows")
        measures = measures_of(names, opened.class_sizes(names, budget))
        ratio = getattr(measures, question.ratio)
        verified = ratio >= promised
        if not verified:
            notes.append(
                f"the promise was missed: the ratio is {ratio:.6g}, {promised:g} was promised"
            )
    return Key(
        columns=names,
        size=len(names),
        weight=float(sum(costs[c] for c in chosen)),
        goal={"measure": question.ratio, "at_least": promised},
        is_key=None if measures is None else measures.classes == measures.rows,
        duplicate_rows=None,
        measures=measures,
        proven_minimum=False,
        lower_bound=None,
        sample=Sample(
            unit,
            size,
            question.eps or 0.0,
            question.delta,
            promised,
            question.ratio,
            question.max_size,
        ),
        verified=verified,
        notes=tuple(notes),
    )


def _for_a_stream(opened: Table, question: Question) -> Question:
    """The question as a stream can answer it, in one pass and before its length is known."""
    if question.verify:
        raise ParameterError(
            "a stream passes only once, so its answer cannot be verified",
            where=opened.name,
            remedy="Leave out --verify, or let the rows be kept (--no-stream).",
        )
    if question.ratio == "separation":
        # Equal rows would call for a second pass with a sample of rows, not with one of pairs.
        return replace(question, by="pairs")
    if question.sample is None:
        raise ParameterError(
            "how many rows `distinct` needs depends on the length of the stream",
            where=opened.name,
            remedy="Give --sample, or let the rows be kept (--no-stream).",
        )
    return question


def _is_local(opened: Table) -> bool:
    return opened.engine.kind in ("memory", "duckdb")


def _is_everything(opened: Table, unit: str, size: int) -> bool:
    """Whether a sample of that size would be the whole table."""
    if opened.engine.kind == "stream":
        return False
    rows = opened.rows
    return size >= (rows if unit == "rows" else rows * (rows - 1) // 2)


def _needed(opened: Table, question: Question) -> tuple[str, int]:
    """What to draw and how much of it."""
    assert question.eps is not None
    width, eps, delta, cap = len(opened.columns), question.eps, question.delta, question.max_size
    if question.beta is not None:
        unit = "pairs"
        size = samples.pairs_for_beta(width, question.beta, eps, delta, cap)
    elif question.measure == "distinct" and question.sample is not None:
        unit, size = "rows", question.sample
    elif question.measure == "distinct":
        unit, size = "rows", samples.rows_for_distinct(opened.rows, width, eps, delta, cap)
    elif question.by == "rows":
        unit, size = "rows", samples.rows_for_separation(width, eps, delta, cap)
    else:
        unit, size = "pairs", samples.pairs_for_separation(width, eps, delta, cap)
    return unit, question.sample or size


def _key_of_rows(
    opened: Table, costs: list[float], size: int, question: Question, budget: Budget
) -> tuple[tuple[int, ...] | None, bool]:
    """A key of sampled rows, and whether some stay alike; None where pairs serve better then."""
    codes = sampled_rows(opened, size, question.seed)
    goal = Goal(pairs=0)
    found = greedy(codes, costs, goal, max_size=question.max_size, budget=budget)
    alike = bool(found.pairs_left and found.pairs_left[-1])
    if alike and question.ratio == "separation":
        return None, True
    goal = Goal(pairs=found.pairs_left[-1] if found.pairs_left else 0)
    return without_redundant(found.columns, costs, lambda s: goal.met(codes, s)), alike


def _cover_of_pairs(
    opened: Table, costs: list[float], size: int, question: Question
) -> tuple[tuple[int, ...], int]:
    """Columns that separate sampled pairs, and how many pairs no column separates."""
    differ = differing_columns(opened, size, question.seed)
    needed = size
    if question.beta is not None:
        needed = math.ceil((2 - (question.eps or 0)) * question.beta * size / 2)
    equal = len(differ) - int(np.count_nonzero(differ.any(axis=1)))
    return greedy_cover(differ, costs, needed, question.max_size), equal


def greedy_cover(
    differ: npt.NDArray[Any], costs: Sequence[float], needed: int, max_size: int | None = None
) -> tuple[int, ...]:
    """Columns that separate `needed` of the pairs, or all that can be, greedily by gain per cost.

    Examples
    --------
    >>> greedy_cover(np.array([[True, False], [True, True], [False, True]]), [1, 1], 3)
    (0, 1)
    """
    price = np.asarray(costs)
    waiting = differ
    chosen: list[int] = []
    separated = 0
    while separated < needed and (max_size is None or len(chosen) < max_size):
        gain = waiting.sum(axis=0)
        best = int(np.argmax(gain / price))
        if not gain[best]:
            break
        chosen.append(best)
        separated += int(gain[best])
        waiting = waiting[~waiting[:, best]]
    return tuple(chosen)
