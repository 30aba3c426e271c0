"""Cell suppression as a method of `anonymize`: the fewest stars, and how many fewer there could be.

Values stay as they are; some cells become stars. The solution carries the price of its stars, a
proven lower bound of what any solution must pay, and the gap between the two.

By default a star is a value of its own, which is what an adversary sees. sdcMicro and μ-Argus let
it match every value; then one star hides two rows from each other, and it need not be in both. Rows
no longer look alike: each *matches* at least k rows, itself included. Small tables are then solved
by integer programming, for every group of rows that may match. Others start from the groups found
for stars as values, whose rows all match each other, and lose every star that their group can do
without.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import kernels
from sfumato.anonymization.cells.bounds import (
    BOUNDS,
    SECONDS,
    Bound,
    Dual,
    ascent,
    lower_bound,
    opt_lb,
)
from sfumato.anonymization.cells.candidates import Patterns, patterns_of
from sfumato.anonymization.cells.paper import ALGORITHMS, possible_entries, start
from sfumato.anonymization.cells.search import FEW_ROUNDS, IMPROVEMENTS, improved, rounds_of
from sfumato.anonymization.cells.table import (
    PRICE_UNIT,
    CellTable,
    Partition,
    cell_table,
    spread_over,
)
from sfumato.anonymization.problem import Problem, Solution
from sfumato.budget import Budget
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.wording import counted


@dataclass(frozen=True)
class Choices:
    """What the user may choose.

    Parameters
    ----------
    algorithm
        One of `ALGORITHMS`: ``dr`` unless told otherwise.
    beta
        For ``cf``: only candidates that star less than m/β columns (and the whole table); the
        guarantee is β times weaker and the search faster.
    improve
        ``none``, ``local`` (local search from where the linear program points to) or ``milp``
        (then some neighbourhoods are solved exactly).
    bound
        ``opt-lb`` (every row pays its cheapest candidate), ``lp`` (prices from linear
        programming), ``exact`` (the optimum, for small tables) or ``auto``.
    protected
        Columns that are never starred.
    marker
        Text of a suppressed cell in text columns.
    wildcards
        Whether a star matches any value, as in sdcMicro and μ-Argus: fewer stars are needed, and
        they protect less.
    """

    algorithm: str = "dr"
    beta: float = 1.0
    improve: str = "local"
    bound: str = "auto"
    protected: tuple[str, ...] = ()
    marker: str = "*"
    wildcards: bool = False

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """The options of a problem, checked."""
        known = {field.name for field in fields(cls)}
        chosen = cls(
            **{n: v for n, v in problem.options.items() if n in known and v is not None},
            # What holds where stars are values holds where they match more, so that is sought.
            wildcards=problem.wildcards and not len(problem.rules.kinds),
        )
        for name, offered in (
            ("algorithm", ALGORITHMS),
            ("improve", IMPROVEMENTS),
            ("bound", BOUNDS),
        ):
            if getattr(chosen, name) not in offered:
                raise ParameterError(
                    f"there is no {name} `{getattr(chosen, name)}`",
                    remedy=did_you_mean(str(getattr(chosen, name)), offered),
                )
        if not chosen.marker:
            raise ParameterError(
                "the marker of suppressed cells is empty",
                remedy="Choose a text that occurs in no column.",
            )
        if not float(chosen.beta) >= 1:
            raise ParameterError(
                "beta is below 1", remedy="Give at least 1, which keeps all candidates."
            )
        if float(chosen.beta) != 1 and chosen.algorithm != "cf":
            raise ParameterError(
                f"beta does not apply to the algorithm {chosen.algorithm}",
                remedy="Use the algorithm cf.",
            )
        if problem.wildcards and chosen.marker != "*":
            raise ParameterError(
                "where stars match any value the marker is `*`: whoever checks the release must "
                "know what does",
                remedy=f"Drop the option marker, or {spell('missing', 'wildcard')}.",
            )
        return chosen


def solve(problem: Problem) -> Solution:
    """Star as few cells as possible so that every row looks like enough others.

    Options: see `Choices`.
    """
    choices = Choices.of(problem)
    _require_unused_marker(problem, choices.marker)
    whole, belongs = cell_table(problem)
    possible = _possible(problem, whole, choices)
    table = whole if possible.all() else whole.take(possible)
    budget = problem.budget
    patterns = patterns_of(table, budget=budget)
    first = start(table, patterns, choices.algorithm, float(choices.beta), budget)
    least = opt_lb(table, patterns, budget)
    dual = None
    if choices.improve != "none" or choices.bound != "opt-lb":
        dual = ascent(table, patterns, least, first, choices.bound, budget)
    found = improved(table, patterns, first, choices.improve, problem.seed, budget, dual, least)
    bound = lower_bound(table, patterns, choices.bound, least, dual, found, budget)
    if bound.partition is not None and bound.partition.units(table) < found.units(table):
        found = bound.partition
    details = _details(table, patterns, choices, first, found, bound)
    program = dual is None and patterns.complete and choices.bound == "auto"
    program = program and not details["proven_optimum"] and not budget.spent()
    unsolved = bound.unsolved and not details["proven_optimum"]
    sought = SECONDS[choices.bound] if unsolved and not budget.spent() else None
    details["cut_off"] = _cut_off(table, patterns, dual, budget, program=program, sought=sought)
    shown = Loosened(found, found.starred(table), found.units(table), bound.units)
    if choices.wildcards:
        shown = _loosened(problem, table, found, possible, belongs)
        details |= _wild_details(shown)
    stars = int((shown.partition.sizes() * shown.starred.sum(axis=1)).sum())
    details["starred_share"] = stars / max(1, table.rows * len(problem.qi))
    if table is not whole:
        within = _within(shown.partition, possible, whole)
        shown = replace(shown, partition=within)
    return _solution(problem, choices, whole, belongs, shown, details)


def _loosened(
    problem: Problem, table: CellTable, found: Partition, possible: Any, belongs: Any
) -> Loosened:
    """The stars that are still needed when a star matches anything."""
    loose = loosened(table, found)
    # Which cells are missing is the same for all entries of a combination.
    first = np.unique(belongs, return_index=True)[1][possible]
    blank = np.zeros(table.codes.shape, dtype=np.bool_)
    for at, name in enumerate(problem.qi):
        nulls = problem.entries.values_of(name).is_null().to_numpy(zero_copy_only=False)
        blank[:, at] = nulls[problem.entries.column(name)[first]]
    best = fewest(table, blank, problem.budget)
    if best is None:
        return loose
    return best if best.units <= loose.units else replace(loose, bound=best.bound)


def _wild_details(shown: Loosened) -> dict[str, Any]:
    """What changes when stars match anything: bounds for stars as values no longer hold."""
    bound = shown.bound
    return {
        "wildcards": True,
        "cost": shown.units / PRICE_UNIT,
        "bounds": {} if bound is None else {"exact": bound / PRICE_UNIT},
        "bound": None if bound is None else "exact",
        "proven_gap": shown.units / bound - 1.0 if bound else None if shown.units else 0.0,
        "proven_optimum": shown.units == bound,
    }


def _possible(problem: Problem, whole: CellTable, choices: Choices) -> Any:
    """Entries that can be in a group at all."""
    possible = possible_entries(whole)
    if possible.any():
        return possible
    if not _in_sight(problem, choices):
        raise ParameterError(
            "the privacy models cannot be met: not even all rows as one class satisfy them",
            remedy="Ask for a smaller k or l, or a larger t.",
        )
    raise ParameterError(
        f"no row can be kept: {_in_sight(problem, choices)} must not be starred, and every row "
        "shares its values there with too few others",
        remedy="Protect fewer columns, widen the boundaries, or ask for less.",
    )


def _in_sight(problem: Problem, choices: Choices) -> str:
    """The columns that must not be starred, or not everywhere, as a list to read."""
    given = choices.protected
    protected = {given} if isinstance(given, str) else set(given)
    names = [n for n in problem.qi if n in protected or n in problem.limits]
    return ", ".join(f"`{name}`" for name in names)


def _details(
    table: CellTable,
    patterns: Patterns,
    choices: Choices,
    first: Partition,
    found: Partition,
    bound: Bound,
) -> dict[str, Any]:
    units = found.units(table)
    proven = 1.0 if not units else units / bound.units if bound.units else None
    # Stars that satisfy more rules satisfy k-anonymity, so its bound holds for them all the more.
    told = {"bound_of": "k-anonymity alone"} if len(table.rules.kinds) else {}
    return {
        **told,
        "algorithm": choices.algorithm,
        "improve": choices.improve,
        "cost": units / PRICE_UNIT,
        "cost_before_improvement": first.cost(table),
        "bounds": {name: value / PRICE_UNIT for name, value in bound.all.items()},
        "bound": bound.name,
        "proven_gap": None if proven is None else proven - 1.0,
        "proven_optimum": units == bound.units,
        "patterns": len(patterns),
        "all_patterns": patterns.complete,
    }


def _within(found: Partition, possible: Any, whole: CellTable) -> Partition:
    """The partition of some entries as one of all; the others are left out."""
    kept, out = np.flatnonzero(possible), np.flatnonzero(~possible)
    entry = np.concatenate([kept[found.entry], out])
    rows = np.concatenate([found.rows, whole.counts[out]])
    group = np.concatenate([found.group, np.full(len(out), -1)])
    order = np.argsort(entry, kind="stable")
    return Partition(entry[order], rows[order], group[order])


def _solution(
    problem: Problem,
    choices: Choices,
    whole: CellTable,
    belongs: Any,
    shown: Loosened,
    details: dict[str, Any],
) -> Solution:
    found, starred = shown.partition, shown.starred
    pieces = spread_over(found, belongs, problem.counts)
    undivided = len(pieces.entry) == problem.entries.entries
    warnings = []
    if found.left_out:
        warnings.append(
            f"{counted(found.left_out, 'row', does='were')} left out: "
            f"{_in_sight(problem, choices)} must not be starred, and they "
            "share their values there with too few others"
        )
    warnings += details["cut_off"]
    if choices.wildcards:
        warnings.append(
            "a star counts as matching any value, so a row may still be the only one that looks as "
            "it does: an adversary who reads stars differently can single it out"
        )
    return Solution(
        groups=pieces.group.astype(np.int32),
        starred={name: np.ascontiguousarray(starred[:, at]) for at, name in enumerate(problem.qi)},
        entry=None if undivided else pieces.entry,
        rows=None if undivided else pieces.rows,
        lower_bound=None if shown.bound is None else shown.bound / PRICE_UNIT,
        details=details,
        stopped_by=problem.budget.stopped_by,
        warnings=tuple(warnings),
    )


def _require_unused_marker(problem: Problem, marker: str) -> None:
    """A star must not look like a value that was there before."""
    for name in problem.qi:
        values = problem.entries.values_of(name)
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            continue
        if pc.any(pc.equal(values, marker)).as_py():
            raise ColumnError(
                f"column `{name}` already contains the text that marks suppressed cells",
                remedy=f"Choose another marker, e.g. {spell('marker', '?')}.",
            )


def _cut_off(
    table: CellTable,
    patterns: Patterns,
    dual: Dual | None,
    budget: Budget,
    *,
    program: bool,
    sought: int | None = None,
) -> tuple[str, ...]:
    """What was not looked at, in sentences: no release keeps silent about it.

    Parameters
    ----------
    dual
        Where the ascent to the linear program's bound ended, if it was made.
    program
        Whether it was asked for and left out because of the size of the table.
    sought
        Seconds after which the solver that sought the optimum had not proven it.
    """
    said = []
    if not patterns.complete:
        said.append(
            f"{len(patterns):,} of 2^{len(table.free)} sets of columns were looked at: those of "
            "few stars and those that near rows share"
        )
    if patterns.floor is not None:
        compared = int(np.count_nonzero(patterns.floor))
        if compared < table.entries:
            said.append(
                f"for the lower bound, {compared:,} of {table.entries:,} combinations were "
                "compared with all others"
            )
    if program:
        said.append(
            "the lower bound looks at single rows only: on a table of this size the linear program "
            f"is left out ({spell('bound', 'lp')} asks for it)"
        )
    if sought is not None:
        said.append(
            f"the optimum was sought, and not proven within {sought} seconds: a faster run may "
            "find fewer stars"
        )
    if dual is not None and not dual.candidates.complete:
        said.append(
            f"the linear program saw {len(dual.candidates):,} candidates, as many as fit into "
            "memory; the lower bound holds for all"
        )
    rounds = rounds_of(table, patterns, budget)
    if rounds < FEW_ROUNDS:
        said.append(f"on a table of this size the search makes at most {rounds} rounds")
    if budget.stopped_by == "time":
        said.append("time ran out: this is the best release found until then")
    return tuple(said)


_MOST_ROWS = 40
"""Rows up to which the fewest stars are sought by integer programming."""

_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Loosened:
    """Stars that match anything.

    Attributes
    ----------
    partition
        Rows that look alike as groups; a group may be smaller than k.
    starred
        For each group and column whether it is starred.
    units
        Price of all stars.
    bound
        What any choice of such stars costs at least, in units; None where nothing is proven.
    """

    partition: Partition
    starred: npt.NDArray[np.bool_]
    units: int
    bound: int | None = None


def loosened(table: CellTable, found: Partition) -> Loosened:
    """The groups of a partition without the stars they can do without.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 0], [1, 1], [1, 2]]), k=2)
    >>> groups = Partition.of_entries(table, np.array([0, 1, 1]))
    >>> groups.units(table), loosened(table, groups).units
    (2000, 1000)
    """
    masks = found.starred(table).astype(np.int64) @ table.bits
    order = np.argsort(found.group, kind="stable")
    rows = found.rows[order]
    entry, group = np.repeat(found.entry[order], rows), np.repeat(found.group[order], rows)
    stars = masks[group]
    starts = np.searchsorted(group, np.arange(found.groups + 1))
    _loosen(table.codes, table.k, table.prices, starts, entry, stars)
    return _shown(table, entry, stars)


def fewest(
    table: CellTable, blank: npt.NDArray[np.bool_], budget: Budget | None = None
) -> Loosened | None:
    """The fewest stars that match anything, or the best found in time; None for larger tables.

    A cell is starred or not; two rows match if in every column in which they differ one of the two
    is starred; every row matches k - 1 others.

    Parameters
    ----------
    blank
        Cells that are missing in the table and match anything already.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 0], [1, 1], [1, 2]]), k=2)
    >>> best = fewest(table, np.zeros((3, 2), dtype=bool))
    >>> best.units, best.bound
    (1000, 1000)
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix

    budget = budget or Budget()
    if table.rows > _MOST_ROWS or budget.spent():
        return None
    entry = np.repeat(np.arange(table.entries), table.counts)
    codes, empty = table.codes[entry], blank[entry]
    n, m = codes.shape
    one, other = np.triu_indices(n, 1)
    differ = (codes[one] != codes[other]) & ~empty[one] & ~empty[other]
    hopeless = (differ & (table.prices < 0)).any(axis=1)
    pair, column = np.nonzero(differ & (table.prices >= 0))
    cells, pairs, at = n * m, len(one), np.arange(len(pair))
    # A match needs a star in each column that differs: match - star - star <= 0.
    rows = [at, at, at, len(at) + one, len(at) + other]
    columns = [cells + pair, one[pair] * m + column, other[pair] * m + column]
    columns += [cells + np.arange(pairs)] * 2
    values = [np.ones(len(at)), -np.ones(len(at)), -np.ones(len(at)), -np.ones(2 * pairs)]
    matrix = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(at) + n, cells + pairs),
    ).tocsr()
    answer = milp(
        np.concatenate([np.tile(np.maximum(table.prices, 0), n), np.zeros(pairs)]).astype(float),
        constraints=LinearConstraint(
            matrix, -np.inf, np.concatenate([np.zeros(len(at)), np.full(n, 1.0 - table.k)])
        ),
        # Once the stars are whole, so is the best choice of matches.
        integrality=np.concatenate([np.ones(cells), np.zeros(pairs)]),
        bounds=Bounds(0, np.concatenate([np.tile(table.prices >= 0, n), ~hopeless]).astype(float)),
        options={"time_limit": max(0.1, min(_SECONDS, budget.remaining)), "mip_rel_gap": 0.0},
    )
    if answer.x is None:
        return None
    starred = answer.x[:cells].reshape(n, m) > 0.5
    if not _all_match(codes, empty | starred, table.k):
        return None
    best = _shown(table, entry, starred.astype(np.int64) @ table.bits)
    known = best.units
    if answer.status != 0:
        known = table.payable(max(0, int((answer.mip_dual_bound or 0.0) - 1)))
    return Loosened(best.partition, best.starred, best.units, min(known, best.units))


def _all_match(codes: Array, hidden: Array, k: int) -> bool:
    """Whether every row matches k rows, itself included."""
    seen = ~(hidden[:, None, :] | hidden[None, :, :])
    apart = ((codes[:, None, :] != codes[None, :, :]) & seen).any(axis=2)
    return bool(((~apart).sum(axis=1) >= k).all())


def _shown(table: CellTable, entry: Array, stars: Array) -> Loosened:
    """Single rows with their stars as groups of those that look alike."""
    hidden = (stars[:, None] >> np.arange(table.width)) & 1 == 1
    codes = np.where(hidden, table.cardinalities, table.codes[entry]).astype(np.uint32)
    ids, count = kernels.class_ids(
        tuple(np.ascontiguousarray(column) for column in codes.T),
        tuple(int(size) + 1 for size in table.cardinalities),
        entries=len(entry),
    )
    starred = hidden[kernels.representatives(ids, count)]
    group = ids.astype(np.int64)
    units = int(table.price_of(starred)[group].sum())
    pieces = Partition(entry.astype(np.int64), np.ones(len(entry), dtype=np.int64), group)
    return Loosened(pieces.tidy(), starred, units)


_MOST_TOGETHER = 128
"""Rows of a group up to which its pairs are counted; of larger ones only the first step is made."""


@compiled
def _loosen(codes, k, prices, starts, entry, stars):  # type: ignore[no-untyped-def]
    """Take stars away from groups whose rows then still match k rows each, themselves included.

    The rows of group g are ``starts[g]`` to ``starts[g + 1]``; `entry` and `stars` hold the
    combination of each and its starred columns, one bit a column.
    """
    for g in range(starts.shape[0] - 1):
        rows, mine = entry[starts[g] : starts[g + 1]], stars[starts[g] : starts[g + 1]]
        if rows.shape[0] and mine[0]:
            _show_commonest(codes, rows, mine)
            if k < rows.shape[0] <= _MOST_TOGETHER:
                _show_more(codes, k, prices, rows, mine)


@compiled
def _show_commonest(codes, rows, stars):  # type: ignore[no-untyped-def]
    """In every column show the value most rows have: equal values match, others meet a star."""
    n, all_ = rows.shape[0], stars[0]
    values = np.empty(n, codes.dtype)
    for c in range(codes.shape[1]):
        if not (all_ >> c) & 1:
            continue
        for i in range(n):
            values[i] = codes[rows[i], c]
        ranked = np.sort(values)
        best, most, run = ranked[0], 0, 0
        for i in range(n):
            run = run + 1 if i and ranked[i] == ranked[i - 1] else 1
            if run > most:
                best, most = ranked[i], run
        for i in range(n):
            if values[i] == best:
                stars[i] &= ~(np.int64(1) << c)


@compiled
def _show_more(codes, k, prices, rows, stars):  # type: ignore[no-untyped-def]
    """Show cells that break few matches, as long as every row keeps k of them."""
    n, m = rows.shape[0], codes.shape[1]
    apart = np.zeros((n, n), np.int64)  # columns in which two rows differ in sight of both
    matches = np.full(n, n)
    for dearest in np.unique(prices)[::-1]:
        allowed = 0
        while allowed <= n - k:
            for i in range(n):
                for c in range(m):
                    if (stars[i] >> c) & 1 and prices[c] == dearest:
                        _show(codes, k, rows, stars, apart, matches, i, c, allowed)
            allowed = 2 * allowed + 1


@compiled
def _show(codes, k, rows, stars, apart, matches, i, c, allowed):  # type: ignore[no-untyped-def]
    """Show one cell if it breaks so many matches at most and leaves k to every row."""
    broken = 0
    for j in range(rows.shape[0]):
        if codes[rows[j], c] != codes[rows[i], c] and not (stars[j] >> c) & 1 and not apart[i, j]:
            broken += 1
            if matches[j] <= k:
                return
    if broken > allowed or matches[i] - broken < k:
        return
    stars[i] &= ~(np.int64(1) << c)
    for j in range(rows.shape[0]):
        if codes[rows[j], c] != codes[rows[i], c] and not (stars[j] >> c) & 1:
            if not apart[i, j]:
                matches[j] -= 1
                matches[i] -= 1
            apart[i, j] += 1
            apart[j, i] += 1
