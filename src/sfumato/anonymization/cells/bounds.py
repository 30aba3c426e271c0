"""Lower bounds of what any solution must pay: OPT-LB, linear programming, and the optimum.

OPT-LB lets every row pay the price of the cheapest candidate that contains it, which no solution
can undercut (Park & Shim, Lemma 4.16); it needs no mining.

The linear program's bound is a price for each row. Prices are found by ascent over the closed
candidates; whatever they are, they are then lowered in whole numbers until no group of k rows that
could be made alike is priced above its cost, so that by weak duality their sum is a lower bound.
That last walk looks at all patterns anew, not at the candidates.

The optimum of small tables is found by integer programming over the closed candidates. Every group
of an optimal solution lies in a closed candidate with the same stars, and groups in one candidate
may be joined, so it suffices to choose which candidates are open and how many rows of each
combination go to each: an open one gets at least k rows. For k = 2 this is the problem of covering
by pairs and triples, polynomial in theory; the same program solves it. Where the linear program was
climbed, a small program comes first: the candidates that it opens, and the groups of a solution at
hand. What that finds is mostly near the optimum, and by the prices of rows everything is ruled out
that no cheaper solution can use.

Larger tables are repaired: some groups that are near each other are solved anew, all their rows
rearranged, and replaced if that costs less. A few hundred rows get all their closed candidates.
Where the linear program was climbed, some thousands get those that it opens, and the groups they
have: few enough for the same solver, and about those an optimum uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.cells.candidates import (
    MOST_PLACES,
    Candidates,
    Patterns,
    closed_candidates,
    patterns_of,
)
from sfumato.anonymization.cells.table import (
    CellTable,
    Partition,
    bits_for,
    mark_of,
    move_keys,
    new_marks,
    new_slots,
    number_classes,
    slot_of,
    sort_classes,
)
from sfumato.anonymization.dual_ascent import ascend, lower_class
from sfumato.budget import Budget
from sfumato.errors import BudgetError
from sfumato.kernels.compiling import compiled

BOUNDS = ("auto", "opt-lb", "lp", "exact")

_FEW_STEPS, _MANY_STEPS = 50, 200

_MOST_WORK = 2_000_000_000
"""Cells in all patterns up to which `auto` asks for the linear program without a time budget."""

_SMALL = 4_000
"""Combinations times columns up to which `auto` asks for the optimum."""

SECONDS = {"exact": 60, "auto": 10}
"""Seconds after which the optimum is sought no longer."""


_AT_ONCE = 64
"""Patterns after which it is looked whether time is left."""


@dataclass(frozen=True, eq=False)
class Bound:
    """The best lower bound found, and all that were computed, in units.

    `partition` is a solution that was found on the way, if any. `unsolved` says that the optimum
    was sought and its solver ran out of time.
    """

    name: str
    units: int
    all: Mapping[str, int]
    partition: Partition | None = None
    unsolved: bool = False


def opt_lb(
    table: CellTable, patterns: Patterns | None = None, budget: Budget | None = None
) -> npt.NDArray[np.int64]:
    """The least any solution pays for one row of each entry, in units.

    Where patterns were left out or time was, rows without a candidate pay what the cheapest
    pattern not looked at costs, so the sum is a lower bound whatever happened.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> int(opt_lb(table) @ table.counts) // 1000
    4
    """
    patterns = patterns_of(table) if patterns is None else patterns
    budget = budget or Budget()
    most = patterns.certain_below
    price = np.full(table.entries, most, dtype=np.int64)
    useful = int(np.searchsorted(patterns.prices, most))
    keys = table.new_keys()
    for at in range(0, useful, _AT_ONCE):
        budget.progress("bounding from below", at / useful)
        if budget.spent():
            price[price == most] = min(most, int(patterns.prices[at]))
            break
        upto = slice(at, min(at + _AT_ONCE, useful))
        facts = (table.counts, table.k, patterns.kept[upto], patterns.prices[upto])
        if not _cheapest_prices(keys, *facts, price, most):
            break
    return price if patterns.floor is None else np.maximum(price, patterns.floor)


@compiled(direct=True)
def _cheapest_prices(keys_of, counts, k, kept, prices, price, most):  # type: ignore[no-untyped-def]
    """OPT-LB over patterns in turn: `price` of an entry is the first with k rows that look alike.

    Entries without a price hold `most`; gives how many they are. Only they are put down by what
    they show; the others are added where they show the same.
    """
    n = counts.shape[0]
    open_, left = np.empty(n, np.int64), 0
    for i in range(n):
        if price[i] == most:
            open_[left] = i
            left += 1
    keys, stamps, found = new_slots(left)
    marks = new_marks(left)
    numbers, sizes = np.empty(left, np.int32), np.empty(left, np.int64)
    for p in range(kept.shape[0]):
        if left == 0 or prices[p] >= most:
            break
        move_keys(keys_of, kept[p])
        shown, bits, classes = keys_of.keys, bits_for(left), 0
        for z in range(left):
            key = shown[open_[z]]
            at = slot_of(key, bits, p, keys, stamps)
            if stamps[at] != p:
                stamps[at], keys[at], found[at] = p, key, classes
                sizes[classes] = 0
                classes += 1
                marks[mark_of(key, bits)] = True
            numbers[z] = found[at]
        for i in range(n):
            if marks[mark_of(shown[i], bits)]:
                at = slot_of(shown[i], bits, p, keys, stamps)
                if stamps[at] == p:
                    sizes[found[at]] += counts[i]
        w = 0
        for z in range(left):
            i = open_[z]
            marks[mark_of(shown[i], bits)] = False
            if sizes[numbers[z]] >= k:
                price[i] = prices[p]
            else:
                open_[w] = i
                w += 1
        left = w
    return left


def ascent(
    table: CellTable,
    patterns: Patterns,
    least: npt.NDArray[np.int64],
    first: Partition,
    kind: str,
    budget: Budget,
) -> Dual | None:
    """The end of the linear program's ascent, longer for the bounds ``lp`` and ``exact``.

    None where it is not to be had: with many columns the candidates are too many to be listed,
    and where the rows pay no more than they must there is nothing to be gained.
    """
    cost, wanted = first.units(table), kind in ("lp", "exact")
    affordable = patterns.work(table) <= _MOST_WORK or budget.seconds is not None
    if not (patterns.complete and (affordable or wanted)):
        return None
    if int(least @ table.counts) >= cost or budget.spent():
        return None
    return dual_of(table, least, cost, budget, _MANY_STEPS if wanted else _FEW_STEPS)


def lower_bound(
    table: CellTable,
    patterns: Patterns,
    kind: str,
    least: npt.NDArray[np.int64],
    dual: Dual | None,
    found: Partition,
    budget: Budget,
) -> Bound:
    """The best bound of the kind asked; ``auto`` stops as soon as a bound meets the cost.

    Parameters
    ----------
    least
        What `opt_lb` gives.
    dual
        What `ascent` gives.

    Raises
    ------
    BudgetError
        If the optimum is asked of a table that is too large for it.
    """
    cost = found.units(table)
    bounds = {"opt-lb": int(least @ table.counts)}
    if kind != "opt-lb" and (dual is not None or kind != "auto"):
        proven = bounds["opt-lb"]
        if dual is not None:
            proven = _proven_by(table, patterns, dual, proven)
        bounds["lp"] = proven
    solved = None
    small = table.entries * table.width <= _SMALL
    met = max(bounds.values()) >= cost
    if not met and (kind == "exact" or (kind == "auto" and small)):
        solved = optimum(table, budget, SECONDS[kind], least, found)
        if solved is None and kind == "exact":
            raise BudgetError(
                "the optimum cannot be computed: the table is too large, or more than k-anonymity "
                "is asked for",
                remedy="Ask for the bound `lp`.",
            )
    if solved is not None:
        bounds["exact"] = table.payable(solved.bound)
    name = max(bounds, key=lambda known: bounds[known])
    return Bound(
        name,
        bounds[name],
        bounds,
        partition=None if solved is None else solved.partition,
        unsolved=solved is not None and not solved.proven,
    )


_FINE = 1 << 10
"""Prices of rows are whole numbers of this fraction of a unit."""


@dataclass(frozen=True, eq=False)
class Dual:
    """Where the ascent ended.

    Attributes
    ----------
    candidates
        The closed candidates it looked at.
    prices
        Prices of a row of each entry, in units, whose bound is the highest found.
    opened
        Share of the last steps, later ones counting more, in which each candidate was worth more
        than it costs.
    """

    candidates: Candidates
    prices: npt.NDArray[np.float64]
    opened: npt.NDArray[np.float64]


def _proven_by(table: CellTable, patterns: Patterns, dual: Dual, least: int) -> int:
    """The bound that the end of an ascent proves, in units, or the least known if that is more."""
    return max(least, table.payable(max(0, -(-certified(table, patterns, dual.prices) // _FINE))))


def dual_of(
    table: CellTable,
    start: npt.NDArray[Any],
    cost: int,
    budget: Budget | None = None,
    steps: int = 150,
    candidates: Candidates | None = None,
) -> Dual:
    """Raise prices step by step over the closed candidates.

    Parameters
    ----------
    start
        Prices to begin with, in units: those of `opt_lb`.
    cost
        What a known solution costs, in units.
    steps
        Steps of the ascent at most; it ends early when nothing is gained, and takes at most half of
        the time that is left.
    candidates
        The closed candidates, if they are known; else as many as there is room for.
    """
    budget = budget or Budget()
    if candidates is None:
        room = MOST_PLACES if budget.memory is None else min(MOST_PLACES, budget.memory // 12)
        candidates = closed_candidates(table, room)
    found = ascend(
        table.counts, table.k, candidates.starts, candidates.members, candidates.prices, start,
        cost, budget, steps,
    )  # fmt: skip
    return Dual(candidates, found.prices, found.opened)


def certified(table: CellTable, patterns: Patterns, prices: npt.NDArray[Any]) -> int:
    """What prices prove after they are lowered to feasible whole numbers, in fractions of a unit.

    Patterns that are not listed cost at least `certain_below` a row, so no group of theirs is
    overpriced when no row is dearer than that.
    """
    highest = patterns.certain_below * _FINE
    whole = np.floor(np.clip(prices, -1e15 / _FINE, 1e15 / _FINE) * _FINE).astype(np.int64)
    whole = np.minimum(whole, highest)
    useful = int(np.searchsorted(patterns.prices, patterns.certain_below, side="right"))
    # Prices only sink, so patterns may come in parts, between which one can be interrupted.
    for at in range(0, useful, _AT_ONCE):
        upto = slice(at, min(at + _AT_ONCE, useful))
        _lower_to_feasible(
            table.codes, table.counts, table.k, patterns.kept[upto], patterns.prices[upto] * _FINE,
            table.multipliers, whole,
        )  # fmt: skip
    return int(whole @ table.counts)


@compiled(direct=True)
def _lower_to_feasible(codes, counts, k, kept, stars, multipliers, price):  # type: ignore[no-untyped-def]
    """Lower prices until no class is overpriced; gives the number of classes that were.

    In each overpriced class the dearest rows are cut down to a common price. Prices only sink, so a
    class once in order stays so and one walk over all patterns suffices.
    """
    n = codes.shape[0]
    slots, everyone = new_slots(n), np.empty(n, np.int64)
    for i in range(n):
        everyone[i] = i
    numbers = np.empty(n, np.int32)
    starts, order = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    sizes, sums = np.empty(n, np.int64), np.empty(n, np.int64)
    lowered = 0
    for p in range(kept.shape[0]):
        classes = number_classes(codes, everyone, n, kept[p], multipliers, p, slots, numbers)
        # A class with too few rows, or none above the price of its stars, cannot be overpriced.
        for c in range(classes):
            sizes[c], sums[c] = 0, 0
        for i in range(n):
            sizes[numbers[i]] += counts[i]
            if price[i] > stars[p]:
                sums[numbers[i]] += 1
        sort_classes(numbers, n, classes, starts, order)
        for c in range(classes):
            if sizes[c] >= k and sums[c]:
                lowered += lower_class(order[starts[c] : starts[c + 1]], counts, k, stars[p], price)
    return lowered


_MOST_EXACT = 60_000
"""Places in candidates up to which a table counts as small."""

EVER = 0.02
"""Share of the ascent's last steps in which a candidate must have been open to be one of few."""

_FINDING = 0.2
"""Share of the time that may go into the small program, which finds; the other one proves."""

_ROUNDING = 1.0
"""More units than floating point may add to the cost of a solution."""

_INFEASIBLE, _ABOVE_ALL = 2, 1 << 62
"""What the solver answers where candidates hold no solution; and what such a one costs."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best partition found by the solver, if any, and what it proves, in units."""

    partition: Partition | None
    bound: int
    proven: bool


def optimum(
    table: CellTable,
    budget: Budget | None = None,
    seconds: float = 60.0,
    least: npt.NDArray[np.int64] | None = None,
    known: Partition | None = None,
) -> Optimum | None:
    """The cheapest partition; None if the table is too large or has rules beyond k.

    Parameters
    ----------
    seconds
        How long it is sought.
    least, known
        What `opt_lb` gives and a solution, which spare most of the work.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> optimum(table).bound, optimum(table).proven
    (4000, True)
    """
    budget = budget or Budget()
    if len(table.rules.kinds) or budget.spent():
        return None
    every = closed_candidates(table, _MOST_EXACT)
    if not every.complete or len(every.members) > _MOST_EXACT:
        return None
    until = budget.elapsed + min(seconds, budget.remaining)
    if least is None or known is None:
        return solve_assignment(table, every, until - budget.elapsed)
    budget.progress("seeking the optimum", 0.0)
    dual = dual_of(table, least, known.units(table), budget, _MANY_STEPS, every)
    opened = every.take(np.flatnonzero(dual.opened >= EVER))
    pool = _with_groups(opened, known.entry, known.group, table.price_of(known.starred(table)))
    found = solve_assignment(table, pool, _FINDING * (until - budget.elapsed)).partition
    if found is not None and found.units(table) < known.units(table):
        known = found
    cost = known.units(table)
    left = _of_cheaper(table, dual, cost)
    if not len(left):
        return Optimum(known, cost, proven=True)
    budget.progress("seeking the optimum", _FINDING)
    last = solve_assignment(table, left, until - budget.elapsed)
    if last.partition is not None and last.partition.units(table) < cost:
        known = last.partition
    return Optimum(known, min(known.units(table), last.bound), last.proven)


def _of_cheaper(table: CellTable, dual: Dual, cost: int) -> Candidates:
    """What is left of all candidates for a solution that costs less.

    With any prices of rows, their sum less what the open candidates are worth is what a solution
    costs at least. One that opens another candidate, or puts an entry into one that is worth more
    without it, costs as much more as that one is worth less.
    """
    every, begins = dual.candidates, dual.candidates.starts[:-1]
    whose = np.repeat(np.arange(len(every)), np.diff(every.starts))
    gain = dual.prices[every.members] - every.prices[whose]
    rows, order = table.counts[every.members], np.lexsort((-gain, whose))
    ranked, held = gain[order], rows[order]  # dearest first; candidates stay where they are
    before = np.cumsum(held) - held
    before -= before[begins][whose]
    needed = np.clip(table.k - before, 0, held)
    worth = np.add.reduceat(np.where(ranked > 0, held, needed) * ranked, begins)
    # the k-th row goes if another must come, where it is worth nothing itself
    last = np.minimum(ranked[(before < table.k) & (before + held >= table.k)], 0.0)
    least = float(table.counts @ dual.prices) - float(np.maximum(worth, 0.0).sum())
    with_it = least + (last - np.minimum(worth, 0.0))[whose] - np.minimum(gain, last[whose])
    useful = with_it <= cost - table.payable(1) + _ROUNDING
    enough = np.bincount(whose[useful], rows[useful], len(every)) >= table.k
    useful &= enough[whose]
    lengths = np.bincount(whose[useful], minlength=len(every))[enough]
    return Candidates(
        every.kept[enough],
        every.prices[enough],
        np.concatenate([[0], np.cumsum(lengths)]),
        every.members[useful],
        complete=False,
    )


def solve_assignment(table: CellTable, candidates: Candidates, seconds: float) -> Optimum:
    """The cheapest way to spread the rows over some of the candidates.

    Where there is none, that is proven, and the bound is above any cost.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    places, choices = len(candidates.members), len(candidates)
    whose = np.repeat(np.arange(choices), np.diff(candidates.starts))
    counts = table.counts[candidates.members].astype(np.float64)
    costs = np.concatenate([candidates.prices[whose], np.zeros(choices)])
    matrix, low, high = _constraints(table, candidates, whose)
    answer = milp(
        costs.astype(np.float64),
        constraints=LinearConstraint(matrix, low, high),
        # Once the open candidates are chosen, the rest is a flow problem, whole by itself.
        integrality=np.concatenate([np.zeros(places), np.ones(choices)]),
        bounds=Bounds(0, np.concatenate([counts, np.ones(choices)])),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": 0.0},
    )
    if answer.status == _INFEASIBLE:
        return Optimum(None, _ABOVE_ALL, proven=True)
    proven = bool(answer.status == 0)
    partition = None
    if answer.x is not None:
        rows = np.round(answer.x[:places]).astype(np.int64)
        found = Partition(candidates.members.astype(np.int64), rows, whose).tidy()
        if _is_whole(table, found):
            partition = found
    proven = proven and partition is not None
    known = answer.mip_dual_bound if answer.mip_dual_bound is not None else 0.0
    # The solver works in floating point: what it calls a bound is trusted to a thousandth of
    # a unit.
    bound = partition.units(table) if proven and partition is not None else max(0, int(known - 1))
    return Optimum(partition, bound, proven)


def _constraints(table: CellTable, candidates: Candidates, whose: Any) -> tuple[Any, Any, Any]:
    """All rows are somewhere; an open candidate has k rows; a closed one has none."""
    from scipy.sparse import coo_matrix

    places, choices, entries = len(candidates.members), len(candidates), table.entries
    at = np.arange(places)
    counts = table.counts[candidates.members].astype(np.float64)
    ones = np.ones(places)
    rows = [candidates.members, entries + whose, entries + np.arange(choices)]
    columns = [at, at, places + np.arange(choices)]
    values = [ones, ones, np.full(choices, -float(table.k))]
    rows += [entries + choices + at, entries + choices + at]
    columns += [at, places + whose]
    values += [-ones, counts]
    matrix = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(entries + choices + places, places + choices),
    ).tocsr()
    low = np.concatenate([table.counts.astype(np.float64), np.zeros(choices + places)])
    high = np.concatenate([table.counts.astype(np.float64), np.full(choices + places, np.inf)])
    return matrix, low, high


def _is_whole(table: CellTable, found: Partition) -> bool:
    """Whether the solver's answer, rounded, is a partition into groups of k."""
    held = np.bincount(found.entry, weights=found.rows, minlength=table.entries)
    return bool((held == table.counts).all() and found.sizes().min(initial=table.k) >= table.k)


_ROWS, _MANY_ROWS = 300, 2_500
_PLACES = 12_000
_SECONDS = 5.0


def repaired(
    table: CellTable,
    partition: Partition,
    seed: int = 0,
    budget: Budget | None = None,
    attempts: int = 20,
    pool: Candidates | None = None,
) -> Partition:
    """The partition after so many neighbourhoods, or those that time allows, were solved.

    `pool` are the candidates to choose from, if not all of a small neighbourhood.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    if table.rows <= _ROWS:
        pool = None
    for attempt in range(attempts):
        budget.progress("repairing neighbourhoods", attempt / attempts)
        dear = np.flatnonzero(partition.starred(table).any(axis=1))
        if budget.spent() or not len(dear):
            break
        rows = _ROWS if pool is None else _MANY_ROWS
        near = _near(table, partition, int(random.choice(dear)), rows, random)
        partition = _solved(table, partition, near, pool, budget)
        if len(near) == partition.groups:
            break
    return partition


def _near(table: CellTable, partition: Partition, centre: int, most: int, random: Any) -> Any:
    """Groups whose rows look most like those of one group, up to so many rows."""
    mine = np.flatnonzero(partition.group == centre)
    model = table.codes[partition.entry[mine[random.integers(len(mine))]]]
    codes = table.codes[partition.entry]
    alike = (codes == model)[:, table.free].mean(axis=1)
    blocked = (codes != model)[:, table.prices < 0].any(axis=1)
    alike[blocked] = -1.0
    closest = np.full(partition.groups, -1.0)
    np.maximum.at(closest, partition.group, alike)
    closest[centre] = 2.0
    order = np.argsort(-(closest + 1e-6 * random.random(len(closest))), kind="stable")
    order = order[closest[order] >= 0]
    rows = np.cumsum(np.minimum(partition.sizes()[order], 4 * table.k))
    return order[: max(1, int(np.searchsorted(rows, most)))]


def _solved(
    table: CellTable, partition: Partition, near: Any, pool: Candidates | None, budget: Budget
) -> Partition:
    inside = np.isin(partition.group, near)
    # Of a large group without stars only what others may need takes part; k rows stay.
    large = partition.sizes() > 4 * table.k
    starred = partition.starred(table)
    plain = ~starred.any(axis=1)
    stays = np.where((large & plain)[partition.group], partition.rows - 3 * table.k, 0)
    inside &= ~(large & ~plain)[partition.group]
    moving = np.where(inside, partition.rows - stays, 0)
    entries, at = np.unique(partition.entry[inside], return_inverse=True)
    if not len(entries):
        return partition
    counts = np.bincount(at, weights=moving[inside]).astype(np.int64)
    part = replace(table.take(entries), counts=counts)
    if pool is None:
        candidates = closed_candidates(part, _PLACES)
        if not candidates.complete or len(candidates.members) > _PLACES:
            return partition
    else:
        known = _inside(pool, table, entries, counts)
        candidates = _with_groups(known, at, partition.group[inside], table.price_of(starred))
    answer = solve_assignment(part, candidates, min(_SECONDS, budget.remaining)).partition
    if answer is None:
        return partition
    merged = Partition(
        np.concatenate([partition.entry, entries[answer.entry]]),
        np.concatenate([partition.rows - moving, answer.rows]),
        np.concatenate([partition.group, answer.group + partition.groups]),
    ).tidy()
    return merged if merged.units(table) < partition.units(table) else partition


def _inside(pool: Candidates, table: CellTable, entries: Any, counts: Any) -> Candidates:
    """Candidates cut down to some entries, as far as k of their rows are there."""
    place = np.full(table.entries, -1, dtype=np.int64)
    place[entries] = np.arange(len(entries))
    members = place[pool.members]
    whose = np.repeat(np.arange(len(pool)), np.diff(pool.starts))
    here = members >= 0
    rows = np.bincount(whose[here], weights=counts[members[here]], minlength=len(pool))
    enough = rows >= table.k
    kept = here & enough[whose]
    lengths = np.bincount(whose[kept], minlength=len(pool))[enough]
    return Candidates(
        pool.kept[enough],
        pool.prices[enough],
        np.concatenate([[0], np.cumsum(lengths)]),
        members[kept].astype(np.int32),
        complete=False,
    )


def _with_groups(pool: Candidates, at: Any, group: Any, prices: Any) -> Candidates:
    """Candidates and the groups there are now, so that a solution is always among them."""
    order = np.argsort(group, kind="stable")
    numbers, lengths = np.unique(group, return_counts=True)
    return Candidates(
        np.concatenate([pool.kept, np.zeros(len(numbers), dtype=np.int64)]),
        np.concatenate([pool.prices, prices[numbers]]),
        np.concatenate([pool.starts, pool.starts[-1] + np.cumsum(lengths)]),
        np.concatenate([pool.members, at[order].astype(np.int32)]),
        complete=False,
    )
