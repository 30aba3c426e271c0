"""Column sets that break k-anonymity, all minimal ones or (Yuan's descent) one at a time.

The descent leaves columns out one after the other while no two rows become alike. What remains is a
minimal set that identifies rows as well as all columns do. Which one depends on the order, so
several random orders may be tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.protocol import ClassSizes, Codes
from sfumato.errors import ParameterError
from sfumato.quasi.greedy import Goal, histogram
from sfumato.quasi.lattice import DEPTH_FIRST_COLUMNS, Minimal, levelwise, violating
from sfumato.quasi.persons import Histories, persons_of
from sfumato.quasi.proof import Asked, held_here
from sfumato.results import Result
from sfumato.tables import table

__all__ = [
    "Descent",
    "Violations",
    "descend",
    "violations",
]

DEPTH_FIRST_BYTES = 18
"""What a cell takes while sets are searched depth first, measured."""


@dataclass(frozen=True)
class Descent:
    """The minimal sets descents ended in, the smallest first, and how often each was reached."""

    columns: tuple[int, ...]
    reached: tuple[tuple[tuple[int, ...], int], ...]
    stopped_by: str | None = None


def descend(
    codes: Codes,
    order: Sequence[int] | None = None,
    restarts: int = 0,
    *,
    budget: Budget | None = None,
    seed: int = 0,
) -> Descent:
    """Descend once in the given order, then `restarts` times in random orders.

    Parameters
    ----------
    order
        Columns in the order in which they are tried; the last column first where None.
    """
    sizes_of = partial(histogram, codes)
    return _descend(sizes_of, len(codes.columns), order, restarts, budget or Budget(), seed)


def _descend(
    sizes_of: Callable[[Sequence[int]], ClassSizes],
    width: int,
    order: Sequence[int] | None,
    restarts: int,
    budget: Budget,
    seed: int,
) -> Descent:
    random = np.random.default_rng(seed)
    goal = Goal(classes=sizes_of(range(width)).classes)
    first = list(range(width))[::-1] if order is None else list(order)
    ended: Counter[tuple[int, ...]] = Counter()
    for attempt in range(restarts + 1):
        if attempt and budget.spent():
            break
        budget.progress("descending", attempt / (restarts + 1))
        tried = first if attempt == 0 else random.permutation(width).tolist()
        ended[_once(sizes_of, goal, tried)] += 1
    reached = sorted(ended.items(), key=lambda item: (len(item[0]), -item[1], item[0]))
    return Descent(reached[0][0], tuple(reached), budget.stopped_by)


def _once(
    sizes_of: Callable[[Sequence[int]], ClassSizes], goal: Goal, order: Sequence[int]
) -> tuple[int, ...]:
    kept = sorted(order)
    for column in order:
        rest = [c for c in kept if c != column]
        if goal.reached(sizes_of(rest)):
            kept = rest
    return tuple(kept)


@dataclass(frozen=True)
class Violations(Result):
    """What breaks k-anonymity, and a minimal set that identifies as well as all columns.

    Attributes
    ----------
    k_anonymous
        Whether no column set makes a class of fewer than `k` rows; all columns decide.
    k
        What was asked; `smallest` is what all columns have.
    minimal, minimum
        All minimal violating sets, and those of the smallest size.
    identifying, descents
        Where the descent ended, and how often each set was reached when it was repeated.
    complete
        Whether `minimal` lists all of them.
    """

    k_anonymous: bool
    k: int
    smallest: int | None
    minimal: tuple[tuple[str, ...], ...]
    minimum: tuple[tuple[str, ...], ...]
    identifying: tuple[str, ...]
    descents: tuple[Mapping[str, Any], ...]
    complete: bool
    stopped_by: str | None = None
    notes: tuple[str, ...] = ()
    counted: str = "rows"


def violations(
    source: Any,
    *,
    k: int = 2,
    columns: Sequence[str] | None = None,
    max_size: int | None = None,
    order: Sequence[str] | None = None,
    restarts: int = 0,
    seed: int = 0,
    person: str | None = None,
    budget: Budget | None = None,
) -> Violations:
    """Find the minimal column sets that break k-anonymity, and a minimal identifying set.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    k
        Size below which a class is a violation; with 2, sets that make somebody unique.
    max_size
        Only violating sets of at most so many columns.
    order
        Order in which the descent tries to leave columns out; last column first where None.
    restarts
        Further descents in random orders.
    person
        Which rows belong to one person: a class is as large as the persons in it.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [20, 20, 30, 30], "sex": ["F", "M", "F", "M"]})
    >>> found = sf.violations(people, k=2)
    >>> found.k_anonymous, found.minimal
    (False, (('age', 'sex'),))
    """
    if k < 1:
        raise ParameterError(f"k = {k} is out of range", remedy="Give 1 or more.")
    if max_size is not None and max_size < 1:
        raise ParameterError(f"max_size = {max_size} is out of range", remedy="Give 1 or more.")
    budget = budget or Budget()
    opened = table(source, budget=budget)
    opened, person = persons_of(opened, person)
    if columns is not None:
        opened = opened.select(columns)
    names = opened.columns
    tried = None if order is None else [names.index(name) for name in opened.require(order)]
    budget.progress("reading the table")
    if person is not None:
        histories = Histories.of(opened, person, budget)
        return _of_persons(histories, k, max_size, tried, restarts, seed, budget)
    codes = held_here(opened, budget)
    asks: Asked | None = None
    sizes_of: Callable[[Sequence[int]], ClassSizes]
    if codes is None:
        asks = Asked(opened, budget)
        sizes_of = asks.class_sizes
    else:
        sizes_of = partial(histogram, codes)
    everything = sizes_of(range(len(names)))
    holds = everything.k is None or everything.k >= k
    found = Minimal(())
    each = DEPTH_FIRST_BYTES * len(names)
    deep = len(names) <= DEPTH_FIRST_COLUMNS
    if not holds and codes is not None and deep and budget.holds(each * codes.entries):
        found = violating(codes, k, max_size, budget)
    elif not holds:
        found = levelwise(
            len(names),
            lambda s: sizes_of(s).rows_below(k) > 0,
            max_size,
            budget,
            ahead=None if asks is None else asks.ahead,
        )
    sets = tuple(tuple(names[c] for c in s) for s in found.sets)
    least = min((len(s) for s in sets), default=0)
    descent = _descend(sizes_of, len(names), tried, restarts, budget, seed)
    return Violations(
        k_anonymous=holds,
        k=k,
        smallest=everything.k,
        minimal=sets,
        minimum=tuple(s for s in sets if len(s) == least),
        identifying=tuple(names[c] for c in descent.columns),
        descents=tuple(
            {"columns": [names[c] for c in reached], "times": times}
            for reached, times in descent.reached
        ),
        complete=found.within(len(names), max_size).complete,
        stopped_by=found.stopped_by or descent.stopped_by,
        notes=() if asks is None else (asks.told(),),
    )


def _of_persons(
    histories: Histories,
    k: int,
    max_size: int | None,
    order: Sequence[int] | None,
    restarts: int,
    seed: int,
    budget: Budget,
) -> Violations:
    """The same where classes are counted in persons."""
    names = histories.codes.columns
    smallest, least_pairs = histories.everything.k, histories.everything.unseparated_pairs
    holds = smallest is None or smallest >= k
    found = Minimal(())
    if not holds:
        found = levelwise(len(names), lambda s: (histories.sizes(s).k or k) < k, max_size, budget)
    sets = tuple(tuple(names[c] for c in s) for s in found.sets)
    least = min((len(s) for s in sets), default=0)
    random = np.random.default_rng(seed)
    first = list(range(len(names)))[::-1] if order is None else list(order)
    ended: Counter[tuple[int, ...]] = Counter()
    for attempt in range(restarts + 1):
        tried = first if attempt == 0 else random.permutation(len(names)).tolist()
        kept = sorted(tried)
        for column in tried:
            rest = [c for c in kept if c != column]
            kept = rest if histories.unseparated(rest) <= least_pairs else kept
        ended[tuple(kept)] += 1
    reached = sorted(ended.items(), key=lambda item: (len(item[0]), -item[1], item[0]))
    return Violations(
        k_anonymous=holds,
        k=k,
        smallest=smallest,
        minimal=sets,
        minimum=tuple(s for s in sets if len(s) == least),
        identifying=tuple(names[c] for c in reached[0][0]),
        descents=tuple({"columns": [names[c] for c in s], "times": n} for s, n in reached),
        complete=found.within(len(names), max_size).complete,
        stopped_by=found.stopped_by,
        counted="persons",
    )
