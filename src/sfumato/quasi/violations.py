"""Which column sets break k-anonymity (Yuan, *Finding QIDs against k-anonymity*).

The essay mixes two things, which are kept apart here: a *violating* set makes a class of fewer than
k rows; an *identifying* set tells rows apart as well as all columns do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.errors import ParameterError
from sfumato.quasi.descent import descend
from sfumato.quasi.greedy import histogram
from sfumato.quasi.lattice import DEPTH_FIRST_COLUMNS, Minimal, levelwise, violating
from sfumato.quasi.pulling import all_combinations
from sfumato.results import Result
from sfumato.tables import table

__all__ = ["Violations", "violations"]


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


def violations(
    source: Any,
    *,
    k: int = 2,
    columns: Sequence[str] | None = None,
    max_size: int | None = None,
    order: Sequence[str] | None = None,
    restarts: int = 0,
    seed: int = 0,
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
    if columns is not None:
        opened = opened.select(columns)
    names = opened.columns
    tried = None if order is None else [names.index(name) for name in opened.require(order)]
    budget.progress("reading the table")
    codes = all_combinations(opened, budget)
    everything = histogram(codes, range(len(names)))
    holds = everything.k is None or everything.k >= k
    found = Minimal(()) if holds else _minimal(codes, k, max_size, budget)
    sets = tuple(tuple(names[c] for c in s) for s in found.sets)
    least = min((len(s) for s in sets), default=0)
    descent = descend(codes, tried, restarts, budget=budget, seed=seed)
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
        complete=found.complete,
        stopped_by=found.stopped_by or descent.stopped_by,
    )


def _minimal(codes: Codes, k: int, max_size: int | None, budget: Budget) -> Minimal:
    if len(codes.columns) <= DEPTH_FIRST_COLUMNS:
        return violating(codes, k, max_size, budget)
    return levelwise(
        len(codes.columns),
        lambda s: histogram(codes, s).rows_below(k) > 0,
        max_size,
        budget,
    )
