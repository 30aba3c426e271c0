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

from sfumato.budget import Budget, within_budget
from sfumato.engines.protocol import ClassSizes, Codes, PersonSizes
from sfumato.errors import ParameterError
from sfumato.quasi.greedy import histogram
from sfumato.quasi.lattice import (
    DEPTH_FIRST_COLUMNS,
    Minimal,
    Set,
    levelwise,
    remedy_of,
    violating,
)
from sfumato.quasi.persons import Histories, persons_of
from sfumato.quasi.proof import Asked, held_here
from sfumato.results import Result
from sfumato.tables import table

DEPTH_FIRST_BYTES = 18
"""What a cell takes while sets are searched depth first, measured."""
_MOST_RESTARTS = 1_000_000
"""Nobody waits for more descents."""


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


@within_budget
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
        Columns that the descent tries to leave out first, in this order; then the last ones first.
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
    if not 0 <= restarts <= _MOST_RESTARTS:
        raise ParameterError(
            f"restarts = {restarts} is out of range", remedy=f"Give 0 to {_MOST_RESTARTS:,}."
        )
    budget = budget or Budget()
    opened = table(source, budget=budget)
    opened, person = persons_of(opened, person)
    if columns is not None:
        opened = opened.select(columns)
    names = opened.columns
    first = dict.fromkeys((*opened.require(order or ()), *names[::-1]))
    budget.progress("reading the table")
    asks: Asked | None = None
    codes: Codes | None = None
    sizes_of: Callable[[Sequence[int]], ClassSizes | PersonSizes]
    if person is not None:
        sizes_of = Histories.of(opened, person, budget).sizes
    elif (codes := held_here(opened, budget)) is not None:
        sizes_of = partial(histogram, codes)
    else:
        asks = Asked(opened, budget)
        sizes_of = asks.class_sizes
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
            lambda s: (sizes_of(s).k or k) < k,
            max_size,
            budget,
            ahead=None if asks is None else asks.ahead,
        )
    sets = tuple(tuple(names[c] for c in s) for s in found.sets)
    least = min((len(s) for s in sets), default=0)
    together = everything.unseparated_pairs
    descents = _descents(
        [names.index(name) for name in first],
        lambda s: sizes_of(s).unseparated_pairs == together,
        restarts,
        np.random.default_rng(seed),
        budget,
    )
    return Violations(
        k_anonymous=holds,
        k=k,
        smallest=everything.k,
        minimal=sets,
        minimum=tuple(s for s in sets if len(s) == least),
        identifying=tuple(names[c] for c in descents[0][0]),
        descents=tuple({"columns": [names[c] for c in s], "times": n} for s, n in descents),
        complete=found.within(len(names), max_size).complete,
        stopped_by=found.stopped_by or budget.stopped_by,
        notes=(
            *remedy_of(found.stopped_by, budget, asked=asks is not None),
            *(() if asks is None else (asks.told(),)),
        ),
        counted="rows" if person is None else "persons",
    )


def _descents(
    first: Sequence[int],
    identifies: Callable[[Sequence[int]], bool],
    restarts: int,
    random: np.random.Generator,
    budget: Budget,
) -> list[tuple[Set, int]]:
    """The minimal sets that descents ended in, the smallest first, and how often each was reached.

    The first one leaves columns out in the order given, `restarts` others in random orders.
    """
    ended: Counter[Set] = Counter()
    for attempt in range(restarts + 1):
        if attempt and budget.spent():
            break
        budget.progress("descending", attempt / (restarts + 1))
        tried = random.permutation(len(first)).tolist() if attempt else first
        ended[_descent(tried, identifies)] += 1
    return sorted(ended.items(), key=lambda item: (len(item[0]), -item[1], item[0]))


def _descent(tried: Sequence[int], identifies: Callable[[Sequence[int]], bool]) -> Set:
    """What remains when columns are left out one after the other, unless rows become alike.

    Twice as many are left out together as before, until they cannot be: of them the first that must
    stay is then found by halving. So few questions are asked where few columns stay.
    """
    kept: list[int] = []
    waiting, together = list(tried), 1
    while waiting:
        fits, fails = 0, len(waiting) + 1  # so many can, and cannot, be left out
        while fits + 1 < fails:
            some = min(together, fails - 1) if fails > len(waiting) else (fits + fails) // 2
            if identifies(sorted(kept + waiting[some:])):
                fits, together = some, 2 * some
            else:
                fails = some
        kept += waiting[fits : fits + 1]
        waiting, together = waiting[fits + 1 :], 1
    return tuple(sorted(kept))
