"""Which columns can be published together, and the release of them (Motwani & Xu, section 4).

Publish a set C such that no subset of it is a quasi-identifier, i.e. whose ratio exceeds β. Ratios
only grow with columns, so C alone decides. Greedy adds the column that identifies least for its
weight; the proven optimum drops the cheapest columns that hit every minimal violating set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import Budget, within_budget
from sfumato.columns.persons import (
    names_of_persons,
    published_names,
    refused_names,
    require_person,
)
from sfumato.engines.protocol import Codes
from sfumato.engines.recoding import Recoding
from sfumato.errors import BudgetError, InputError, ParameterError, did_you_mean, spell
from sfumato.quasi.greedy import column_weights, pairs_within_entries, whole_weights
from sfumato.quasi.hitting_sets import SetFamily, minimum_hitting_set
from sfumato.quasi.measure import measures_of, measures_of_persons
from sfumato.quasi.persons import Histories, PersonSeparation, require_separation
from sfumato.quasi.proof import SAMPLE_ROWS, Asked, held_here
from sfumato.quasi.sampling import (
    differing_columns,
    log_sets,
    no_pairs,
    prune_below,
    sampled_rows,
    share,
)
from sfumato.release import Release, publish
from sfumato.release.certificate import check_place
from sfumato.release.other_promises import RatioAtMost, WithoutColumns
from sfumato.tables import Table, table
from sfumato.tables.open import refuse_too_wide
from sfumato.wording import counted


class Identifying(Protocol):
    """How much a column set identifies, as an integer that only grows with columns."""

    limit: int
    """The largest value that may be published."""

    def start(self) -> Any:
        """State of the empty set."""

    def after(self, state: Any, column: int) -> int:
        """The value when a column is added to a state."""

    def add(self, state: Any, column: int) -> Any:
        """The state with a column added."""

    def value(self, columns: Sequence[int]) -> int:
        """The value of a set."""


def allowed(beta: float, total: int) -> int:
    """The largest integer whose share of a total is at most β, without rounding errors."""
    return math.floor(Fraction(repr(float(beta))) * total)


class SeparationCount:
    """Pairs of rows a set separates, on exact counts."""

    def __init__(self, codes: Codes, beta: float) -> None:
        self.codes = codes
        self.total = codes.rows * (codes.rows - 1) // 2
        self.limit = allowed(beta, self.total)
        self._within = pairs_within_entries(codes)

    def start(self) -> kernels.Partition:
        return kernels.whole(self.codes.entries, self.codes.counts)

    def after(self, state: kernels.Partition, column: int) -> int:
        left = kernels.pairs_after(
            state, self.codes.arrays[column], self.codes.cardinalities[column]
        )
        return self.total - left - self._within

    def add(self, state: kernels.Partition, column: int) -> kernels.Partition:
        return kernels.split(state, self.codes.arrays[column], self.codes.cardinalities[column])

    def value(self, columns: Sequence[int]) -> int:
        chosen = self.codes.select([self.codes.columns[c] for c in columns])
        return self.total - kernels.unseparated_pairs(
            chosen.arrays, chosen.cardinalities, chosen.counts, entries=chosen.entries
        )


class DistinctCount:
    """Classes a set makes among rows, on exact counts."""

    def __init__(self, codes: Codes, limit: int) -> None:
        self.codes = codes
        self.limit = limit

    def start(self) -> tuple[npt.NDArray[np.uint32], int]:
        return np.zeros(self.codes.entries, dtype=np.uint32), min(1, self.codes.entries)

    def after(self, state: tuple[npt.NDArray[np.uint32], int], column: int) -> int:
        return self.add(state, column)[1]

    def add(
        self, state: tuple[npt.NDArray[np.uint32], int], column: int
    ) -> tuple[npt.NDArray[np.uint32], int]:
        groups, count = state
        if not count:
            return state
        return kernels.refine(
            groups,
            count,
            self.codes.arrays[column],
            self.codes.cardinalities[column],
            ordered=False,
        )

    def value(self, columns: Sequence[int]) -> int:
        state = self.start()
        for column in columns:
            state = self.add(state, column)
        return state[1]


class AskedCount:
    """Classes a set makes, or pairs that it separates, counted where the rows are.

    Hashes of keys are counted, which are no more than the keys: what exceeds the limit by them does
    so by these. That a set keeps it `keeps` tells.

    Attributes
    ----------
    sampled
        The same of sampled rows, which says what is worth asking.
    likely
        The largest value in the sample of a set that keeps the limit.
    """

    def __init__(self, asks: Asked, beta: float, measure: str, seed: int) -> None:
        self.asks = asks
        self.asks.hashed = True
        self.likely = 0
        codes = asks.sample(SAMPLE_ROWS, seed)
        self.sampled: Identifying = DistinctCount(codes, codes.entries * 9 // 10)
        if measure == "separation":
            self.sampled = SeparationCount(codes, 1.0)
            self.sampled.limit -= codes.entries  # what few pairs tell is chance
        self.separation = measure == "separation"
        rows = asks.rows
        self.pairs = rows * (rows - 1) // 2
        self.limit = allowed(beta, self.pairs if self.separation else rows)

    def start(self) -> tuple[int, ...]:
        return ()

    def ahead(self, state: tuple[int, ...], columns: Sequence[int]) -> None:
        """Ask for several values at once."""
        self.asks.ahead([(*state, column) for column in columns])

    def after(self, state: tuple[int, ...], column: int) -> int:
        return self.value((*state, column))

    def add(self, state: tuple[int, ...], column: int) -> tuple[int, ...]:
        return (*state, column)

    def value(self, columns: Sequence[int]) -> int:
        sizes = self.asks.class_sizes(columns)
        found = self.pairs - sizes.unseparated_pairs if self.separation else sizes.classes
        if found <= self.limit:
            self.likely = max(self.likely, self.sampled.value(columns))
        return found

    def keeps(self, columns: Sequence[int], budget: Budget) -> bool:
        """Whether a set keeps the limit by its keys; if not, these are counted from now on."""
        opened = self.asks.opened
        names = [name for at, name in enumerate(opened.columns) if at in columns]
        sizes = opened.class_sizes(names, budget)
        found = self.pairs - sizes.unseparated_pairs if self.separation else sizes.classes
        if found > self.limit:
            self.asks.forget()
        return found <= self.limit

    def beginning(
        self, weights: Sequence[float], columns: Sequence[int], pinned: Sequence[int]
    ) -> tuple[int, ...]:
        """As many columns as keep the limit, in the order in which a sample would take them."""
        taken = greedy_publishable(self.sampled, weights, columns, pinned=pinned).columns
        alone = {c: self.sampled.value((c,)) / weights[c] for c in columns}
        rest = sorted((c for c in columns if c not in taken), key=lambda c: (alone[c], c))
        order = (*taken, *rest)
        kept, broken = len(pinned), len(order) + 1
        with self.asks.until_time_is_over():
            while kept + 1 < broken:
                wanted = {kept + max(1, (broken - kept) * nth // 4) for nth in (1, 2, 3)}
                lengths = sorted(length for length in wanted if length < broken)
                self.asks.ahead([order[:length] for length in lengths])
                for length in lengths:
                    if self.value(order[:length]) > self.limit:
                        broken = length
                        break
                    kept = length
        return order[:kept]

    def made_small(
        self, violating: Sequence[Sequence[int]], keep: Sequence[Sequence[int]]
    ) -> list[tuple[int, ...]]:
        """Small violating sets within others: a sample proposes some of each, all rows decide."""
        most = max(self.sampled.value(columns) for columns in violating)
        eighths = (0, 2) if len(violating) <= _FEW_SETS else (1,)
        levels = [self.likely + max(0, most - self.likely) * nth // 8 for nth in eighths]
        proposed = [
            {minimal_violation(self.sampled.value, level, *one) for level in levels}
            for one in zip(violating, keep, strict=True)
        ]
        self.asks.ahead([columns for some in proposed for columns in some])
        return [
            min((s for s in some if self.value(s) > self.limit), key=len, default=tuple(whole))
            for some, whole in zip(proposed, violating, strict=True)
        ]


class PairShare:
    """Sampled pairs of rows a set separates; the matrix says in which columns a pair differs."""

    def __init__(self, differ: npt.NDArray[np.bool_], limit: int) -> None:
        self.differ = differ
        self.limit = limit

    def start(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self.differ), dtype=np.bool_)

    def after(self, state: npt.NDArray[np.bool_], column: int) -> int:
        return int(np.count_nonzero(state | self.differ[:, column]))

    def add(self, state: npt.NDArray[np.bool_], column: int) -> npt.NDArray[np.bool_]:
        return state | self.differ[:, column]

    def value(self, columns: Sequence[int]) -> int:
        return int(np.count_nonzero(self.differ[:, list(columns)].any(axis=1)))


@dataclass(frozen=True)
class Published:
    """Columns that may be published together, and the weight no such set exceeds."""

    columns: tuple[int, ...]
    upper_bound: float | None = None
    stopped_by: str | None = None


def greedy_publishable(
    how: Identifying,
    weights: Sequence[float],
    columns: Sequence[int],
    *,
    pinned: Sequence[int] = (),
    budget: Budget | None = None,
) -> Published:
    """Add the column that identifies least for its weight, as long as the limit is kept.

    Parameters
    ----------
    how
        What is counted, and its limit.
    weights
        Worth of every column.
    columns
        Columns to choose from.
    pinned
        Columns published in any case; they must keep the limit by themselves.
    """
    budget = budget or Budget()
    state = how.start()
    for column in pinned:
        state = how.add(state, column)
    chosen = list(pinned)
    now = how.value(pinned) if pinned else 0
    waiting = [c for c in columns if c not in chosen]
    while waiting:
        if budget.spent():
            return Published(tuple(chosen), stopped_by=budget.stopped_by)
        budget.progress(
            f"{counted(len(chosen), 'column')} can be published", len(chosen) / len(columns)
        )
        if isinstance(how, AskedCount):
            with how.asks.until_time_is_over():
                how.ahead(state, waiting)
            if budget.spent():
                continue
        after = {c: how.after(state, c) for c in waiting}
        # What breaks the limit now will break it later too.
        waiting = [c for c in waiting if after[c] <= how.limit]
        if not waiting:
            break
        best = min(waiting, key=lambda c: ((after[c] - now) / weights[c], c))
        free = [c for c in waiting if after[c] == now] or [best]
        for column in free:  # columns that identify nothing more can all be taken at once
            state = how.add(state, column)
            chosen.append(column)
        now = after[free[0]]
        waiting = [c for c in waiting if c not in free]
    return Published(tuple(chosen))


def minimal_violation(
    value: Callable[[Sequence[int]], int], limit: int, columns: Sequence[int], keep: Sequence[int]
) -> tuple[int, ...]:
    """A violating set within `columns` from which no column but those of `keep` can be left out."""
    violating = list(columns)
    for column in columns:
        rest = [c for c in violating if c != column]
        if column not in keep and value(rest) > limit:
            violating = rest
    return tuple(violating)


def proven_publishable(
    how: Identifying,
    weights: Sequence[float],
    columns: Sequence[int],
    first: Published,
    *,
    pinned: Sequence[int] = (),
    budget: Budget | None = None,
    seed: int = 0,
) -> Published:
    """The heaviest publishable set, with proof; on a spent budget the best found and a bound.

    The columns left out must hit every minimal violating set. Violating sets are learnt from
    attempts that fail, as in `sfumato.quasi.proof`.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    total = float(sum(weights[c] for c in columns))
    # A column that is pinned cannot be left out: its cost exceeds that of all others together.
    costs = [total + 1 if c in pinned else weights[c] for c in columns]
    family = SetFamily(len(columns))
    best = first.columns
    best_weight = float(sum(weights[c] for c in best))
    upper = total
    asks = how.asks if isinstance(how, AskedCount) else None
    while not budget.spent():
        hit = minimum_hitting_set(family, costs, budget)
        upper = min(upper, total - hit.lower_bound)
        published = [c for at, c in enumerate(columns) if at not in hit.columns]
        if upper <= best_weight + 1e-9:
            return Published(best, best_weight)
        with nullcontext() if asks is None else asks.until_time_is_over():
            value = how.value(published)
        if budget.spent():
            break
        if value <= how.limit:
            weight = float(sum(weights[c] for c in published))
            if weight > best_weight:
                best, best_weight = tuple(published), weight
            if hit.optimal:
                return Published(best, best_weight)
        else:
            with nullcontext() if asks is None else asks.until_time_is_over():
                family.add(_violations(how, columns, published, random))
            budget.progress(f"{best_weight:g} published, at most {upper:g} possible")
    return Published(best, upper, budget.stopped_by)


_FEW_SETS = 8
"""Sets of which a sample proposes two smaller ones each, and of more one."""
_ORDERS = 4
"""In how many random column orders violating sets are made small in one round."""


def _violations(
    how: Identifying,
    columns: Sequence[int],
    published: Sequence[int],
    random: np.random.Generator,
) -> npt.NDArray[np.bool_]:
    """Minimal violating sets inside a set that violates, one per random order.

    Where rows are asked about elsewhere, some columns may be left that could be left out.
    """
    demands = np.zeros((_ORDERS, len(columns)), dtype=np.bool_)
    position = {c: at for at, c in enumerate(columns)}
    orders = [[published[i] for i in random.permutation(len(published))] for _ in demands]
    if isinstance(how, AskedCount):
        found = how.made_small(orders, [()] * len(orders))
    else:
        found = [minimal_violation(how.value, how.limit, order, ()) for order in orders]
    for demand, violating in zip(demands, found, strict=True):
        demand[[position[column] for column in violating]] = True
    return demands


MEASURES = ("distinct", "separation")
ONE_PASS = (
    "a stream passes only once: that the published columns keep β was not checked on all rows, and "
    "holds with probability 1-δ"
)
EXPLAINED = 40
"""Columns left out for which the reason is worked out; beyond that the first ones only."""


@within_budget
def mask(
    source: Any,
    *,
    measure: str = "distinct",
    beta: float,
    weights: Mapping[str, float] | None = None,
    must_publish: Sequence[str] = (),
    must_drop: Sequence[str] = (),
    sample: int | None = None,
    delta: float = 0.01,
    proven: bool = False,
    explain: bool = True,
    seed: int = 0,
    output: str | Path | None = None,
    force: bool = False,
    sign: str | Path | None = None,
    author: str | None = None,
    spreadsheet_safe: bool = False,
    sort: bool = False,
    person: str | None = None,
    rows_are_people: bool = False,
    budget: Budget | None = None,
) -> Release:
    """Publish many columns whose ratio together does not exceed β; the most, where `proven`.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    measure
        ``distinct`` (β = 0.2: on average five rows alike) or ``separation``.
    beta
        The largest ratio a published column set may have.
    weights
        Worth of publishing a column; 1 unless given.
    must_publish, must_drop
        Columns that are published, or left out, in any case.
    sample
        Work on so many sampled rows (distinct) or pairs (separation); with probability 1-δ the
        published set obeys β.
    proven
        Find the heaviest set and prove it.
    explain
        Say for each column left out which quasi-identifier it would complete.
    output
        Write the release there; else it is only rehearsed.
    sign
        The key file that signs the certificate, as `sfumato keygen` made it.
    author
        Whom the certificate names as its author; nobody unless given.
    spreadsheet_safe
        Put an apostrophe before cells that a spreadsheet would run.
    sort
        Sort rows by the cells of the release, so that their order gives nothing away.
    person
        Which rows belong to one person: pairs of different persons are counted (separation
        only), and the column is left out.
    rows_are_people
        Publish columns although they seem to name persons.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> sf.mask(people, measure="distinct", beta=0.8).details["published"]
    ('sex', 'state')
    """
    budget = budget or Budget()
    opened = table(source, budget=budget)
    if not opened.engine.capabilities.replayable:
        _check_stream(opened, sample, output)
    check_place(
        opened, output, force=force, sign=sign, spreadsheet_safe=spreadsheet_safe, budget=budget
    )
    plan = plan_mask(
        opened,
        Demand(measure, beta, sample, delta, proven, explain, seed, person, rows_are_people),
        weights=weights,
        must_publish=must_publish,
        must_drop=must_drop,
        budget=budget,
    )
    return publish(
        plan,
        output,
        sort=sort,
        force=force,
        sign=sign,
        author=author,
        spreadsheet_safe=spreadsheet_safe,
        budget=budget,
    )


@dataclass(frozen=True)
class Demand:
    """The parameters of masking, checked."""

    measure: str
    beta: float
    sample: int | None = None
    delta: float = 0.01
    proven: bool = False
    explain: bool = True
    seed: int = 0
    person: str | None = None
    rows_are_people: bool = False

    def __post_init__(self) -> None:
        require_separation(self.measure, self.person, self.sample)
        if self.measure not in MEASURES:
            raise ParameterError(
                f"there is no measure `{self.measure}` for masking",
                remedy=did_you_mean(self.measure, MEASURES),
            )
        share("β", self.beta)
        share("δ", self.delta)
        if self.sample is not None and self.sample < 1:
            raise ParameterError(f"a sample of {self.sample} is not possible", remedy="Give 1+.")
        if self.sample is not None and self.proven:
            raise ParameterError(
                "an optimum cannot be proven on a sample",
                remedy=f"Leave out {spell('sample', self.sample)} or {spell('proven', True)}.",
            )


def plan_mask(
    source: Any,
    demand: Demand,
    *,
    weights: Mapping[str, float] | None = None,
    must_publish: Sequence[str] = (),
    must_drop: Sequence[str] = (),
    budget: Budget | None = None,
) -> Release:
    """Work out which columns to publish."""
    budget = budget or Budget()
    opened = table(source, budget=budget)
    if opened.engine.capabilities.replayable and not opened.rows:
        raise _no_rows(opened)
    refuse_too_wide(opened, budget, writing=True, lookups=0)
    worth = column_weights(opened, weights)
    whole, unit = whole_weights(worth, opened.name) if demand.proven else (worth, 1.0)
    names = opened.columns
    pinned = [names.index(name) for name in opened.require(must_publish)]
    banned = {names.index(name) for name in opened.require(must_drop)}
    if banned & set(pinned):
        both = ", ".join(f"`{names[c]}`" for c in sorted(banned & set(pinned)))
        raise ParameterError(
            f"{both} must be published and must be left out",
            where=opened.name,
            remedy="Ask for one of the two.",
        )
    if demand.person is not None:
        require_person(opened, demand.person, must_publish)
        banned.add(names.index(demand.person))
    choices = [c for c in range(len(names)) if c not in banned]
    how = _identifying(opened, demand, budget)
    if how.limit < (demand.measure == "distinct"):  # the rows are one class without any column
        raise _none_publishable(opened, demand)
    if pinned and how.value(pinned) > how.limit:
        guilty = minimal_violation(how.value, how.limit, pinned, ())
        raise ParameterError(
            "the columns that must be published already exceed β together: "
            + ", ".join(f"`{names[c]}`" for c in guilty),
            where=opened.name,
            remedy="Let one of them be left out, or allow a larger β.",
        )
    while True:
        first: Sequence[int] = pinned
        if isinstance(how, AskedCount):
            first = how.beginning(worth, choices, pinned)
        found = greedy_publishable(how, worth, choices, pinned=first, budget=budget)
        proven = False
        if not found.columns and found.stopped_by is None:
            raise _none_publishable(opened, demand)
        if demand.proven and found.stopped_by is None:
            found = proven_publishable(
                how, whole, choices, found, pinned=pinned, budget=budget, seed=demand.seed
            )
            proven = found.stopped_by is None
            found = replace(found, upper_bound=(found.upper_bound or 0.0) * unit)
        if not isinstance(how, AskedCount) or how.keeps(found.columns, budget.unhurried()):
            break
    return _plan(opened, demand, how, found, worth, banned, proven, budget)


def _identifying(opened: Table, demand: Demand, budget: Budget) -> Identifying:
    """What is counted: exact figures, or those of a sample with its tightened limit."""
    if demand.person is not None:
        apart = PersonSeparation(Histories.of(opened, demand.person, budget), demand.beta)
        if not apart.total:
            raise no_pairs(1, "person", opened.name)
        return apart
    if demand.sample is None:
        if demand.measure == "separation" and opened.rows < 2:
            raise no_pairs(opened.rows, "row", opened.name)
        budget.progress("reading the table")
        codes = held_here(opened, budget, apart=demand.measure == "distinct")
        if codes is None:
            return AskedCount(Asked(opened, budget), demand.beta, demand.measure, demand.seed)
        if demand.measure == "separation":
            return SeparationCount(codes, demand.beta)
        return DistinctCount(codes, allowed(demand.beta, codes.rows))
    width, size = len(opened.columns), demand.sample
    threshold = prune_below(demand.beta, size, width, demand.delta)
    if threshold <= 0:
        least = math.floor(2 * (log_sets(width) - math.log(demand.delta)) / demand.beta) + 1
        raise ParameterError(
            f"a sample of {size:,} says nothing about β = {demand.beta:g} with {width} columns",
            where=opened.name,
            remedy=f"Draw at least {least:,}; some ten times as many lose little.",
        )
    budget.progress(f"drawing {size:,} {'pairs' if demand.measure == 'separation' else 'rows'}")
    if demand.measure == "separation":
        differ = differing_columns(opened, size, demand.seed, budget)
        return PairShare(differ, math.floor(threshold * len(differ)))
    codes = sampled_rows(opened, size, demand.seed, budget)
    if not codes.entries:  # of a stream, which is not known before it has passed
        raise _no_rows(opened)
    return DistinctCount(codes, math.floor(threshold * codes.entries))


def _no_rows(opened: Table) -> InputError:
    return InputError(
        "the table has no rows to publish", where=opened.name, remedy="Name one that has rows."
    )


def _none_publishable(opened: Table, demand: Demand) -> ParameterError:
    """Why nothing is published: no column keeps β, or none is sure to by so small a sample."""
    if demand.sample is not None:
        return ParameterError(
            f"by a sample of {demand.sample:,} no column is sure to keep β = {demand.beta:g}",
            where=opened.name,
            remedy="Draw a larger sample, allow a larger β, or let all rows be counted.",
        )
    return ParameterError(
        f"not even one column can be published at β = {demand.beta:g}",
        where=opened.name,
        remedy="Allow a larger β, or blur columns in place of leaving them out: that is what "
        "`anonymize` does, and Release in the workbench.",
    )


def _plan(
    opened: Table,
    demand: Demand,
    how: Identifying,
    found: Published,
    worth: Sequence[float],
    banned: set[int],
    proven: bool,
    budget: Budget,
) -> Release:
    names = opened.columns
    published = tuple(name for at, name in enumerate(names) if at in found.columns)
    if not published:
        raise BudgetError(
            f"the search stopped before a column was found to publish ({found.stopped_by})",
            where=opened.name,
            remedy="Allow more time.",
        )
    named = _refuse_names(opened, demand, published, budget)
    dropped = tuple(name for at, name in enumerate(names) if at not in found.columns)
    why = _reasons(opened, how, found, banned, dropped, budget) if demand.explain else {}
    streamed = not opened.engine.capabilities.replayable
    # the search may have taken all the time; what it found is measured and written all the same
    measures, sizes, several = None, None, False
    persons: dict[str, Any] = {}
    if demand.person is not None:
        held = opened.person_sizes(published, demand.person, budget.unhurried())
        sizes, measures = held.persons, measures_of_persons(published, held)
        several = held.number < opened.rows
        counts = {"persons": held.number, "left_out": 0, "sorted": several}
        persons = {"persons": {"column": demand.person, **counts}}
    elif not streamed:
        sizes = opened.class_sizes(published, budget.unhurried())
        measures = measures_of(published, sizes)
    details: dict[str, Any] = {
        "published": published,
        "dropped": dropped,
        "why": why,
        "measures": measures,
        "weight": float(sum(worth[c] for c in found.columns)),
        "proven_optimum": proven,
        "upper_bound": found.upper_bound,
        "sample": None if demand.sample is None else demand.sample,
        **persons,
    }
    return Release.planned(
        opened,
        Recoding(drop=dropped, sorted=several),  # their order could tell whose they are
        sizes,
        method="mask",
        asked={
            "measure": demand.measure,
            "beta": demand.beta,
            **({} if demand.person is None else {"person": demand.person}),
            **({} if demand.sample is None else {"sample": demand.sample, "delta": demand.delta}),
        },
        promises=(
            RatioAtMost(demand.measure, demand.beta, published, demand.person),
            WithoutColumns(dropped),
        ),
        qi=(published,),
        column_actions={name: "kept" if name in published else "dropped" for name in names},
        utility={"published_columns": len(published), "weight": details["weight"]},
        details=details,
        seed=demand.seed,
        stopped_by=found.stopped_by,
        warnings=(ONE_PASS,) if streamed else named,
    )


def _refuse_names(
    opened: Table, demand: Demand, published: Sequence[str], budget: Budget
) -> tuple[str, ...]:
    """Refuse to publish columns that name persons; what is to be said where that is overridden.

    A stream has passed, and is not written.
    """
    if not opened.engine.capabilities.replayable:
        return ()
    why, told = names_of_persons(
        opened, published, demand.person, seed=demand.seed, budget=budget.unhurried()
    )
    if why and not demand.rows_are_people:
        replacing = "or replace them by pseudonyms (sfumato anonymize)"
        raise refused_names(why, opened.name, "must_drop", [replacing])
    return (*told, *published_names(why))


def _check_stream(opened: Table, sample: int | None, output: str | Path | None) -> None:
    """A stream can be masked by a sample, and its rows cannot be written afterwards."""
    if sample is None:
        raise ParameterError(
            "a stream passes only once, so only a sample of it can be looked at",
            where=opened.name,
            remedy=f"Give a sample, e.g. {spell('sample', 20_000)}, or let the rows be kept "
            "(`sf.table` in Python, `--no-stream` on the command line).",
        )
    if output is not None:
        raise ParameterError(
            "a stream passes only once, and a release needs its rows a second time",
            where=opened.name,
            remedy="Leave out the output to learn what to publish, or let the rows be kept "
            "(`sf.table` in Python, `--no-stream` on the command line).",
        )


def _reasons(
    opened: Table,
    how: Identifying,
    found: Published,
    banned: set[int],
    dropped: Sequence[str],
    budget: Budget,
) -> Mapping[str, Any]:
    """For each column left out, a minimal quasi-identifier it would complete."""
    names = opened.columns
    reasons: dict[str, Any] = {}
    guilty: dict[int, Sequence[int]] = {}
    told = {name: names.index(name) for name in dropped[:EXPLAINED]}
    if isinstance(how, AskedCount) and not budget.spent():
        asked = [column for column in told.values() if column not in banned]
        whole = [(*found.columns, column) for column in asked]
        with how.asks.until_time_is_over():
            small = how.made_small(whole, [(column,) for column in asked]) if asked else []
            guilty = dict(zip(asked, small, strict=True))
    for name, column in told.items():
        if column in banned:
            reasons[name] = "left out on request"
        elif isinstance(how, AskedCount):
            if column in guilty:
                reasons[name] = tuple(names[c] for c in sorted(guilty[column]))
        elif not budget.spent():
            violating = minimal_violation(
                how.value, how.limit, (*found.columns, column), keep=(column,)
            )
            reasons[name] = tuple(names[c] for c in sorted(violating))
    return reasons
