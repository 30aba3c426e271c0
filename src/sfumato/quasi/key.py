"""A smallest set of columns that identifies rows: exactly, from a sample, or proven minimal.

The exact search is greedy on class sizes, drops what is redundant and can prove the minimum. The
sampled one draws rows or pairs (`sfumato.quasi.sampling` says how many), and its promise can be
checked afterwards by one exact pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget, within_budget
from sfumato.engines.protocol import one_moment
from sfumato.errors import ParameterError, did_you_mean, spell
from sfumato.quasi import sampling
from sfumato.quasi.greedy import (
    Goal,
    Path,
    column_weights,
    greedy,
    whole_weights,
    without_redundant,
)
from sfumato.quasi.lattice import levelwise
from sfumato.quasi.measure import Measures, measures_of, measures_of_persons
from sfumato.quasi.persons import Histories, persons_of, require_separation
from sfumato.quasi.proof import Collisions, held_here, proven_minimum, proven_there
from sfumato.quasi.sampling import (
    all_combinations,
    differing_columns,
    pulled,
    sampled_rows,
)
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.wording import counted

MEASURES = ("key", "distinct", "separation")


@dataclass(frozen=True)
class KeyQuery:
    """The parameters of a search, checked; see `sfumato.minimum_key` for their meaning."""

    measure: str = "key"
    eps: float | None = None
    delta: float = 0.01
    beta: float | None = None
    proven: bool = False
    by: str = "rows"
    sample: int | None = None
    max_size: int | None = None
    verify: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ParameterError(
                f"there is no measure `{self.measure}`",
                remedy=did_you_mean(self.measure, MEASURES),
            )
        if self.beta is not None and not 0 < self.beta <= 1:
            raise ParameterError(f"β = {self.beta:g} is out of range", remedy="Give 0 < β <= 1.")
        if self.by not in ("rows", "pairs"):
            raise ParameterError(
                f"samples are of rows or pairs, not `{self.by}`", remedy="Write rows or pairs."
            )
        for name in ("sample", "max_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(f"{name} = {value} is out of range", remedy="Give 1 or more.")
        if self.eps is None and self.sample is not None:
            raise ParameterError(
                "a sample needs an ε", remedy=f"Give one, e.g. {spell('eps', 0.001)}."
            )
        if self.eps is not None:
            self._check_sampled(self.eps)

    def _check_sampled(self, eps: float) -> None:
        sampling.share("ε", eps)
        sampling.share("δ", self.delta)
        if self.proven:
            raise ParameterError(
                "a sampled answer cannot be a proven minimum",
                remedy=f"Leave out {spell('eps', eps)} or {spell('proven', True)}.",
            )
        if self.measure == "distinct" and self.by == "pairs":
            raise ParameterError(
                "pairs say nothing about the distinct ratio", remedy="Sample rows for `distinct`."
            )
        if self.measure == "distinct" and self.beta is not None:
            raise ParameterError(
                "there is no sampled algorithm for the minimum β-distinct set",
                remedy=f"Leave out {spell('eps', eps)} for the exact one, or use "
                f"{spell('measure', 'separation')}.",
            )

    @property
    def ratio(self) -> str:
        """The ratio that decides: separation unless distinct was asked."""
        return "distinct" if self.measure == "distinct" else "separation"

    @property
    def is_for_key(self) -> bool:
        """Whether all rows are to be told apart: a ratio of 1 is a key in either measure."""
        return self.beta is None or self.beta == 1

    @property
    def goal(self) -> dict[str, Any]:
        """What is asked of a set, as results state it."""
        if self.is_for_key:
            return {"measure": "key", "at_least": 1.0}
        return {"measure": self.ratio, "at_least": self.beta}


@dataclass(frozen=True)
class Sample(Result):
    """What a sampled answer was computed from, and what it promises.

    With probability at least 1-δ the column set has a `measure` ratio of at least `promised`; None
    where the theorem behind the size of the sample does not apply, and nothing is promised.
    """

    unit: str
    size: int
    eps: float
    delta: float
    promised: float | None
    measure: str
    max_size: int | None = None


@dataclass(frozen=True)
class Key(Result):
    """A small column set that tells rows apart.

    Attributes
    ----------
    columns, size, weight
        The set, how many columns it has, and the sum of their weights.
    goal
        What was asked of it, ``{"measure": …, "at_least": …}``; of sampled answers also whether
        all rows confirm it (``"met"``; None: not checked). A key must tell apart all rows that
        all columns together tell apart.
    is_key
        Whether every row is alone (None where that is not known).
    duplicate_rows
        Rows that equal an earlier row in all columns, where the exact search saw all of them.
    measures
        Exact measures of the set on the whole table; None where nothing was verified.
    proven_minimum, lower_bound
        Whether no cheaper set reaches the goal, and the weight no set undercuts.
    sample, verified
        What a sampled answer rests on, and whether an exact pass found the ratio that was asked
        for (None: not checked).
    steps
        How the greedy search got there: column, and pairs of rows still together after it.
    """

    columns: tuple[str, ...]
    size: int
    weight: float
    goal: Mapping[str, Any]
    is_key: bool | None
    duplicate_rows: int | None = None
    measures: Measures | None = None
    proven_minimum: bool = False
    lower_bound: float | None = None
    sample: Sample | None = None
    verified: bool | None = True
    steps: tuple[Mapping[str, Any], ...] = ()
    stopped_by: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, names: tuple[str, ...], weight: float, measures: Measures | None, **found: Any
    ) -> Key:
        """A set with the sum of its weights, its measures where they are known, and the rest."""
        is_key = None if measures is None else measures.unseparated_pairs == 0
        return cls(names, len(names), weight, is_key=is_key, measures=measures, **found)


def persons_key(
    opened: Table, person: str, costs: list[float], question: KeyQuery, budget: Budget
) -> Key:
    """A small set that tells persons apart: greedy, redundancy dropped, minimal where asked."""
    budget.progress("reading the table")
    histories = Histories.of(opened, person, budget)
    allowed = histories.pairs_allowed(question.beta)

    def met(columns: Sequence[int]) -> bool:
        return histories.unseparated(columns) <= allowed

    found = histories.greedy(costs, allowed, question.max_size, budget)
    chosen, lower, stopped = found.columns, None, found.stopped_by
    reached = met(chosen)
    if reached:
        chosen = without_redundant(chosen, costs, met)
    if reached and question.proven and stopped is None:
        every = levelwise(len(costs), met, None, budget)
        stopped = every.stopped_by
        if every.complete:
            chosen = min(every.sets, key=lambda s: (sum(costs[c] for c in s), len(s), s))
            lower = float(sum(costs[c] for c in chosen))
    names = tuple(opened.columns[c] for c in chosen)
    measures = measures_of_persons(names, histories.sizes(chosen))
    alike = histories.everything.unseparated_pairs
    notes = []
    if alike and allowed == alike:
        notes.append(
            f"{alike:,} pairs of rows of different persons are equal in all columns, so there is "
            "no key; this set tells persons apart as well as all columns do"
        )
    elif not reached and stopped is None:
        notes.append("no set of the size allowed reaches the goal")
    return Key.of(
        names,
        float(sum(costs[c] for c in chosen)),
        measures,
        goal=question.goal,
        proven_minimum=lower is not None,
        lower_bound=lower,
        steps=_steps(opened.columns, found),
        stopped_by=stopped,
        notes=(*notes, *pulled(opened, histories.codes)),
    )


def exact_key(opened: Table, costs: list[float], question: KeyQuery, budget: Budget) -> Key:
    """Greedy on exact counts, redundancy dropped, and proven minimal where asked."""
    whole, unit = whole_weights(costs, opened.name) if question.proven else (costs, 1.0)
    budget.progress("reading the table")
    codes = held_here(opened, budget)
    if codes is None and question.is_for_key and question.max_size is None:
        return _key_there(opened, costs, question, budget)
    codes = codes or all_combinations(opened, budget)
    rows = codes.rows
    goal = goal_of(rows, question)
    found = greedy(codes, costs, goal, max_size=question.max_size, budget=budget)
    if question.is_for_key:
        # The search ends where no column separates anything more: what is left are equal rows.
        goal = Goal(pairs=found.pairs_left[-1] if found.pairs_left else rows * (rows - 1) // 2)
    chosen, lower, stopped = found.columns, None, found.stopped_by
    reached = goal.met(codes, chosen)
    if reached:
        budget.progress("dropping what is redundant")
        chosen = without_redundant(chosen, costs, lambda s: goal.met(codes, s))
    weight, proven = float(sum(costs[c] for c in chosen)), False
    if reached and question.proven and stopped is None:
        proof = proven_minimum(
            codes,
            whole,
            goal,
            chosen,
            all_separable=question.is_for_key,
            budget=budget,
            seed=question.seed,
        )
        chosen, proven, stopped = proof.columns, proof.proven, proof.stopped_by
        weight = float(sum(costs[c] for c in chosen))
        lower = weight if proven else proof.lower_bound * unit
    names = tuple(opened.columns[c] for c in chosen)
    measures = measures_of(names, opened.class_sizes(names, budget.unhurried()))
    whole_search = question.max_size is None and found.stopped_by is None
    duplicates = rows - measures.classes if question.is_for_key and whole_search else None
    return Key.of(
        names,
        weight,
        measures,
        goal=question.goal,
        duplicate_rows=duplicates,
        proven_minimum=proven,
        lower_bound=lower,
        steps=_steps(opened.columns, found),
        stopped_by=stopped,
        notes=(*_notes(question, reached, duplicates, stopped), *pulled(opened, codes)),
    )


def _key_there(opened: Table, costs: list[float], question: KeyQuery, budget: Budget) -> Key:
    """The same where the rows are: by counterexamples."""
    asks = Collisions(opened, budget, question.seed)
    whole, unit = whole_weights(costs, opened.name) if question.proven else (costs, 1.0)
    proof = proven_there(asks, whole, prove=question.proven, budget=budget)
    weight = float(sum(costs[c] for c in proof.columns))
    least = weight if proof.proven else proof.lower_bound * unit
    names = tuple(opened.columns[c] for c in proof.columns)
    asks.budget = budget.unhurried()  # time may be over
    measures = measures_of(names, asks.class_sizes(proof.columns))
    duplicates = None if proof.stopped_by else measures.rows - measures.classes
    return Key.of(
        names,
        weight,
        measures,
        goal=question.goal,
        duplicate_rows=duplicates,
        proven_minimum=question.proven and proof.proven,
        lower_bound=least if question.proven else None,
        stopped_by=proof.stopped_by,
        notes=(*_notes(question, True, duplicates, proof.stopped_by), asks.told()),
    )


def goal_of(rows: int, question: KeyQuery) -> Goal:
    """Exact integer thresholds of the ratio asked for."""
    if question.beta is None or question.is_for_key:
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
    question: KeyQuery, reached: bool, duplicates: int | None, stopped: str | None
) -> tuple[str, ...]:
    if duplicates:
        return (
            counted(duplicates, "row", does="equal an earlier row")
            + " in all columns that were looked at, so there is no key; this set tells rows apart "
            "as well as all of those columns do",
        )
    if reached or stopped:
        return ()
    if question.max_size is not None:
        most = counted(question.max_size, "column")
        return (f"no set of at most {most} was found that reaches the goal",)
    return (f"even all columns together do not reach {question.beta:g}",)


EQUAL_ROWS = "the sampled rows hold equal rows, so pairs were drawn instead"
EQUAL_PAIRS = (
    "of the sampled pairs {equal:,} are of equal rows, which no column separates: with probability "
    "{sure:g} this set separates all pairs that some column separates but {eps:g} of all pairs, "
    "and a ratio is not promised"
)
ONE_PASS = "a stream passes only once: the answer was not checked on all of its rows"
NO_KEY = "the sampled rows hold equal rows: no set is a key of them, and nothing is promised"
TOO_FEW = "no set of that size does for the sample, so nothing is promised"
OWN_SIZE = "the size of the sample was given, so nothing is promised"


def sampled_key(opened: Table, costs: list[float], question: KeyQuery, budget: Budget) -> Key:
    """A small column set of a sample, which holds for the table with probability 1-δ."""
    streamed = not opened.engine.capabilities.replayable
    if streamed:
        question = _for_a_stream(opened, question)
    unit, size = _needed(opened, question)
    if question.sample is None and _is_everything(opened, unit, size):
        exact = exact_key(opened, costs, replace(question, eps=None), budget)
        note = f"the guarantee needs {size:,} {unit}, the table has not more: answered exactly"
        return replace(exact, notes=(*exact.notes, note))
    notes = [OWN_SIZE] if question.sample is not None else []
    budget.progress(f"drawing {size:,} {unit}")
    chosen: tuple[int, ...] | None = None
    void: str | None = None
    if unit == "rows":
        chosen, void = _key_of_rows(opened, costs, size, question, budget)
    if chosen is None:
        if unit == "rows":
            notes.append(EQUAL_ROWS)
            unit, size = _needed(opened, replace(question, by="pairs", measure="separation"))
        chosen, void = _cover_of_pairs(opened, costs, size, question, budget)
    notes += [void] if void else []
    notes += [ONE_PASS] if streamed else []
    names = tuple(opened.columns[c] for c in chosen)
    asked = (1 - (question.eps or 0)) * (question.beta or 1)
    measures = verified = None
    if question.verify if question.verify is not None else _is_local(opened):
        budget.progress("verifying on all rows")
        measures = measures_of(names, opened.class_sizes(names, budget))
        ratio = getattr(measures, question.ratio)
        verified = ratio >= asked
        if not verified:
            notes.append(f"all rows do not confirm it: the ratio is {ratio:.6g}, not {asked:g}")
    return Key.of(
        names,
        float(sum(costs[c] for c in chosen)),
        measures,
        goal={"measure": question.ratio, "at_least": asked, "met": verified},
        sample=Sample(
            unit,
            size,
            question.eps or 0.0,
            question.delta,
            asked if void is None and question.sample is None else None,
            question.ratio,
            question.max_size,
        ),
        verified=verified,
        notes=tuple(notes),
    )


def _for_a_stream(opened: Table, question: KeyQuery) -> KeyQuery:
    """The question as a stream can answer it, in one pass and before its length is known."""
    if question.verify:
        raise ParameterError(
            "a stream passes only once, so its answer cannot be verified",
            where=opened.name,
            remedy=f"Leave out {spell('verify', True)}, or let the rows be kept (`sf.table` in "
            "Python, `--no-stream` on the command line).",
        )
    if question.ratio == "separation":
        # Equal rows would call for a second pass with a sample of rows, not with one of pairs.
        return replace(question, by="pairs")
    if question.sample is None:
        raise ParameterError(
            "how many rows `distinct` needs depends on the length of the stream",
            where=opened.name,
            remedy=f"Give a sample, e.g. {spell('sample', 20_000)}, or let the rows be kept "
            "(`sf.table` in Python, `--no-stream` on the command line).",
        )
    return question


def _is_local(opened: Table) -> bool:
    able = opened.engine.capabilities
    return able.replayable and not able.remote


def _is_everything(opened: Table, unit: str, size: int) -> bool:
    """Whether a sample of that size would be the whole table."""
    if not opened.engine.capabilities.replayable:
        return False
    rows = opened.rows
    return size >= (rows if unit == "rows" else rows * (rows - 1) // 2)


def _needed(opened: Table, question: KeyQuery) -> tuple[str, int]:
    """What to draw and how much of it."""
    assert question.eps is not None
    width, eps, delta, cap = len(opened.columns), question.eps, question.delta, question.max_size
    if question.beta is not None:
        unit = "pairs"
        size = sampling.pairs_for_beta(width, question.beta, eps, delta, cap)
    elif question.measure == "distinct" and question.sample is not None:
        unit, size = "rows", question.sample
    elif question.measure == "distinct":
        unit, size = "rows", sampling.rows_for_distinct(opened.rows, width, eps, delta, cap)
    elif question.by == "rows":
        unit, size = "rows", sampling.rows_for_separation(width, eps, delta, cap)
    else:
        unit, size = "pairs", sampling.pairs_for_separation(width, eps, delta, cap)
    return unit, question.sample or size


def _key_of_rows(
    opened: Table, costs: list[float], size: int, question: KeyQuery, budget: Budget
) -> tuple[tuple[int, ...] | None, str | None]:
    """A key of sampled rows, and why nothing is promised if so; None where pairs serve better."""
    codes = sampled_rows(opened, size, question.seed, budget)
    found = greedy(codes, costs, Goal(pairs=0), max_size=question.max_size, budget=budget)
    alike = found.pairs_left[-1] if found.pairs_left else codes.rows * (codes.rows - 1) // 2
    if alike and question.ratio == "separation":
        return None, None
    goal = Goal(pairs=alike)
    chosen = without_redundant(found.columns, costs, lambda s: goal.met(codes, s))
    capped = question.max_size is not None and len(found.columns) == question.max_size
    return chosen, (TOO_FEW if capped else NO_KEY) if alike else None


def _cover_of_pairs(
    opened: Table, costs: list[float], size: int, question: KeyQuery, budget: Budget
) -> tuple[tuple[int, ...], str | None]:
    """Columns that separate enough of sampled pairs, and why nothing is promised if they do not."""
    differ = differing_columns(opened, size, question.seed, budget)
    eps = question.eps or 0
    needed = size
    if question.beta is not None:
        needed = math.ceil((2 - eps) * question.beta * size / 2)
    chosen = greedy_cover(differ, costs, needed, question.max_size)
    separated = int(np.count_nonzero(differ[:, list(chosen)].any(axis=1)))
    separable = int(np.count_nonzero(differ.any(axis=1)))
    if separated >= needed:
        return chosen, None
    if separated < separable or question.beta is not None:
        return chosen, TOO_FEW
    sure = 1 - question.delta
    return chosen, EQUAL_PAIRS.format(equal=size - separable, sure=sure, eps=eps)


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


@within_budget
def minimum_key(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    measure: str = "key",
    eps: float | None = None,
    delta: float = 0.01,
    beta: float | None = None,
    weights: Mapping[str, float] | None = None,
    proven: bool = False,
    by: str = "rows",
    sample: int | None = None,
    max_size: int | None = None,
    verify: bool | None = None,
    seed: int = 0,
    person: str | None = None,
    budget: Budget | None = None,
) -> Key:
    """Find a smallest set of columns that identifies rows.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Columns to choose from; None means all.
    measure
        ``key`` (tell all rows apart), ``distinct`` or ``separation``.
    eps, delta
        With `eps` the answer comes from a sample: with probability 1-δ its ratio is at least 1-ε
        (with `beta`: at least (1-ε)·β).
    beta
        Look for the smallest set whose ratio is at least β (separation unless `measure` says
        distinct).
    weights
        What a column costs an adversary; 1 unless given. The sum is made small.
    proven
        Find the minimum and prove it (exact searches only).
    by
        Sample ``rows`` (default) or ``pairs`` of rows, as Motwani & Xu do.
    sample
        Number of rows or pairs to draw, instead of the number the guarantee needs.
    max_size
        Only sets of at most so many columns; tightens samples.
    verify
        Measure a sampled answer exactly in one pass; by default on local engines.
    person
        Which rows belong to one person: persons are told apart, not rows.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> sf.minimum_key(people, proven=True).columns
    ('age', 'sex')
    """
    question = KeyQuery(measure, eps, delta, beta, proven, by, sample, max_size, verify, seed)
    budget = budget or Budget()
    opened = table(source, budget=budget)
    require_separation(measure, person, eps)
    opened, person = persons_of(opened, person)
    if columns is not None:
        opened = opened.select(columns)
    costs = column_weights(opened, weights)
    if person is not None:
        return persons_key(opened, person, costs, question, budget)
    if eps is not None:
        return sampled_key(opened, costs, question, budget)
    with one_moment(opened.engine):  # of rows that change meanwhile nothing can be proven
        return exact_key(opened, costs, question, budget)
