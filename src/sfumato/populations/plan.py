"""The plan: how many values each column may keep, and columns blurred to that many.

Lodha & Thomas, section 3, with the curve of privacy against utility of one column. How a column is
blurred depends on what the values are: numbers, dates and times become ranges between quantiles
(section 4 of Lodha & Thomas), columns with a hierarchy climb to its first level with few enough
values, ZIP-like codes lose digits from the right, and plain categories keep their most frequent
values and star the rest.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.columns.codebooks import looks_postal, postal_text
from sfumato.engines.protocol import ClassSizes, Codes, smallest_dtype
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.hierarchy import Ranges, prefixes
from sfumato.hierarchy.labels import as_text, star_beside
from sfumato.kernels import size_histogram
from sfumato.populations.bounds import anonymity_given, distinct_allowed, failure_given
from sfumato.populations.promises import (
    FewValues,
    MatchesPeople,
    PeopleShare,
    people_share,
    share_figure,
)
from sfumato.populations.safe_harbor import FIRST_YEAR, odd_dates
from sfumato.release import Promise, Release
from sfumato.release.other_promises import WithoutColumns
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.hierarchy import Hierarchy


MOSTLY = 0.75
"""Share of numbers from which other text in a column is taken for a mistake."""
NUMBER = r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$"


@dataclass(frozen=True, eq=False)
class Blurred:
    """What a column becomes.

    Parameters
    ----------
    groups
        Group of each of the column's codes.
    labels
        What each group shows.
    action
        What was done, in a few words.
    """

    column: str
    groups: npt.NDArray[np.int64]
    labels: pa.Array
    action: str

    @property
    def distinct(self) -> int:
        """Distinct values left."""
        return len(self.labels)


class Blurrer:
    """A column that can be blurred to any number of values.

    Parameters
    ----------
    name, values, counts
        The column: its distinct values in the order of their codes (a null last), and their rows.
    hierarchy
        How categories generalize, where there is a tree.
    pad
        Give ZIP-like codes the leading zeros back that they lost.

    Examples
    --------
    >>> import pyarrow as pa
    >>> age = Blurrer("age", pa.array([20, 30, 40, 50]), np.array([5, 5, 5, 5]))
    >>> blurred = age.to(2)
    >>> blurred.labels.to_pylist(), blurred.groups.tolist()
    (['[20, 31)', '[40, 51)'], [0, 0, 1, 1])
    """

    def __init__(
        self,
        name: str,
        values: pa.Array,
        counts: npt.ArrayLike,
        hierarchy: Hierarchy | None = None,
        *,
        pad: bool = False,
    ) -> None:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.name = name
        self.counts = np.asarray(counts, dtype=np.int64)
        self.values = values
        self._bound = None
        self._ranges = None
        if hierarchy is not None:
            self._bound = hierarchy.bind(values, name)
        elif looks_postal(name, values):
            self.values = postal_text(name, values, pad=pad)
            self._bound = prefixes(self.values).bind(self.values, name)
        elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            refuse_mixture(name, values)
        elif not (pa.types.is_boolean(values.type) or pa.types.is_null(values.type)):
            self._ranges = Ranges(values, name)

    @property
    def domain(self) -> int:
        """Distinct values the column has."""
        return len(self.values)

    def line(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]] | None:
        """Numbers or dates as ascending numbers with their rows; None for other columns."""
        if self._ranges is None:
            return None
        on_line = self._ranges.order[: len(self._ranges.points)]
        return self._ranges.points, self.counts[on_line]

    def odd_dates(self) -> list[str]:
        """Sentences about dates that can hardly be true."""
        kind = self.values.type
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return []
        year = np.asarray(pc.fill_null(pc.year(self.values), FIRST_YEAR))
        return odd_dates(self.name, year, self.counts, dt.date.today().year)

    @property
    def _star(self) -> str:
        """What stands for values that are not shown: never one of the column's own."""
        return star_beside(as_text(self.values).to_pylist())

    def to(self, distinct: int) -> Blurred:
        """The column with at most so many distinct values."""
        if distinct >= self.domain:
            return Blurred(self.name, np.arange(self.domain), self.values, "untouched")
        if distinct <= 1:
            everything = np.zeros(self.domain, np.int64)
            return Blurred(self.name, everything, pa.array([self._star]), "suppressed")
        if self._bound is not None:
            return self._level(distinct)
        on_line = self._ranges is not None and len(self._ranges.points)  # not only infinities
        return self._quantiles(distinct) if on_line else self._frequent(distinct)

    def _level(self, distinct: int) -> Blurred:
        bound = self._bound
        assert bound is not None
        for level in range(bound.height + 1):
            nodes, groups = np.unique(bound.ancestors[:, level], return_inverse=True)
            if len(nodes) <= distinct:
                break
        action = f"level {level} of {bound.height}: {counted(len(nodes), 'value')}"
        if len(nodes) == 1:
            action = "suppressed"
        return Blurred(self.name, groups.astype(np.int64), bound.labels(nodes), action)

    def _quantiles(self, distinct: int) -> Blurred:
        ranges = self._ranges
        assert ranges is not None
        on_line = len(ranges.points)
        others = self.domain - on_line  # null, NaN, infinities: each a value of its own
        counts = self.counts[ranges.order[:on_line]]
        made = kernels.quantile_groups(counts, groups=max(1, distinct - others))
        low = np.append(made.first_value, np.arange(on_line, self.domain))
        high = np.append(made.last_value, np.arange(on_line, self.domain))
        by_rank = np.append(made.group_of_value, len(made.cuts) + np.arange(others))
        groups = np.empty(self.domain, np.int64)
        groups[ranges.order] = by_rank
        action = f"{counted(len(made.cuts), 'range')} between quantiles"
        return Blurred(self.name, groups, ranges.labels(low, high), action)

    def _frequent(self, distinct: int) -> Blurred:
        order = np.argsort(-self.counts, kind="stable")
        kept = np.sort(order[: distinct - 1])
        groups = np.full(self.domain, len(kept), np.int64)
        groups[kept] = np.arange(len(kept))
        labels = pa.concat_arrays(
            [self.values.take(pa.array(kept)).cast(pa.string()), pa.array([self._star])]
        )
        most = "value" if len(kept) == 1 else f"{len(kept)} values"
        action = f"the most frequent {most}, the others starred"
        return Blurred(self.name, groups, labels, action)


def refuse_mixture(name: str, values: pa.Array) -> None:
    """Refuse a text column that is numbers but for a few cells: it has neither order nor tree."""
    present = values.drop_null()
    if len(present) < 3:
        return
    numeric = pc.sum(pc.match_substring_regex(present, NUMBER)).as_py()
    if MOSTLY * len(present) <= numeric < len(present):
        raise ColumnError(
            f"{numeric:,} of {len(present):,} distinct values are numbers and the others are not",
            where=f"column `{name}`",
            remedy="Make the others null or give the column a hierarchy.",
        )


Repair = Literal["bound", "estimate", "none"]

CLOSE_ENOUGH = 1.1
"""The search stops when the number of values is known within this factor."""


@dataclass(frozen=True)
class PlannedColumn(Result):
    """What the plan does to one column: values it has, may keep, and keeps."""

    column: str
    domain: int
    weight: float
    allowed: int
    distinct: int
    action: str


@dataclass(frozen=True)
class Plan(Result):
    """How far each column is blurred, and what that promises.

    `distinct_allowed` is Theorem 4's D'. `distinct` is the product of the values the columns keep;
    the theorem alone says of it that a row matches at least `theorem_k` people with probability
    1-β, and at least k with probability `theorem_share`. `measured` is what the sample says of the
    cells that occur, and `before_repair` what it said of the theorem's own plan.
    """

    universe: float
    k: int
    beta: float
    distinct_allowed: float
    distinct: int
    theorem_k: int
    theorem_share: float
    before_repair: PeopleShare
    measured: PeopleShare
    repaired: bool
    holds: bool
    columns: tuple[PlannedColumn, ...]
    blurred: Mapping[str, Blurred] = field(
        default_factory=dict, metadata={"private": True}, repr=False, compare=False
    )


def make_plan(
    entries: Codes,
    blurrers: Mapping[str, Blurrer],
    universe: float,
    k: int,
    beta: float,
    *,
    domains: Mapping[str, int] | None = None,
    weights: Mapping[str, float] | None = None,
    repair: Repair = "bound",
    seed: int = 0,
    budget: Budget | None = None,
) -> Plan:
    """Plan the blurring of a table's quasi-identifiers.

    Parameters
    ----------
    entries
        Rows, or distinct combinations with counts, of exactly the columns of `blurrers`.
    universe, k, beta
        Every row shall match at least k of so many people with probability 1-β.
    domains
        How many values each column can take, where that is more than the table shows.
    weights
        Importance of each column; it gets distinct values in proportion.
    repair
        ``"bound"`` coarsens until the measured share is at least 1-β whatever the distribution,
        ``"estimate"`` until its likeliest value is, ``"none"`` keeps the theorem's plan.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ages = np.arange(10_000) % 80
    >>> entries = Codes(("age",), (ages.astype(np.uint8),), (pa.array(range(80)),), None, 10_000)
    >>> age = Blurrer("age", entries.values[0], np.bincount(ages))
    >>> plan = make_plan(entries, {"age": age}, universe=1e6, k=20_000, beta=0.1)
    >>> plan.distinct, plan.measured.at_least >= 0.9
    (40, True)
    """
    wide = {c: max(b.domain, (domains or {}).get(c, 1)) for c, b in blurrers.items()}
    allowed = distinct_allowed(universe, k, beta)
    figure = "estimate" if repair == "estimate" else "at_least"

    def attempt(limit: float) -> _Attempt:
        kept = {a.column: a for a in allot(wide, limit, weights)}
        blurred = {
            # a column that may keep all the values it can take stays as it is
            name: blurrer.to(blurrer.domain if kept[name].untouched else kept[name].distinct)
            for name, blurrer in blurrers.items()
        }
        sizes = cell_sizes(entries, blurred)
        columns = tuple(
            PlannedColumn(
                name,
                wide[name],
                kept[name].weight,
                kept[name].distinct,
                wide[name] if kept[name].untouched else blurred[name].distinct,
                blurred[name].action,
            )
            for name in blurrers
        )
        reached = share_figure(figure, sizes, universe, k, seed=seed)
        return _Attempt(columns, blurred, sizes, reached)

    first = best = attempt(allowed)
    if repair != "none" and first.reached < 1 - beta:
        best = _coarsen(attempt, first, allowed, 1 - beta, budget)
    distinct = math.prod(column.distinct for column in best.columns)
    return Plan(
        universe=universe,
        k=k,
        beta=beta,
        distinct_allowed=allowed,
        distinct=distinct,
        theorem_k=anonymity_given(universe, distinct, beta),
        theorem_share=1 - failure_given(universe, distinct, k) if distinct > 1 else 1.0,
        before_repair=people_share(first.sizes, universe, k, seed=seed),
        measured=people_share(best.sizes, universe, k, seed=seed),
        repaired=best is not first,
        holds=best.reached >= 1 - beta,
        columns=best.columns,
        blurred=best.blurred,
    )


@dataclass(frozen=True, eq=False)
class _Attempt:
    columns: tuple[PlannedColumn, ...]
    blurred: Mapping[str, Blurred]
    sizes: ClassSizes
    reached: float
    """The figure that must reach 1-β."""


def _coarsen(
    attempt: Callable[[float], _Attempt],
    first: _Attempt,
    allowed: float,
    goal: float,
    budget: Budget | None,
) -> _Attempt:
    """The plan with most values, up to `CLOSE_ENOUGH`, that reaches the goal.

    Bisection on the logarithm of the number of values; a single value always reaches it.
    """
    start = min(allowed, math.prod(column.distinct for column in first.columns))
    low, high, best = 0.0, math.log(max(start, 1.0)), attempt(1)
    while high - low > math.log(CLOSE_ENOUGH) and not (budget and budget.spent()):
        middle = (low + high) / 2
        tried = attempt(math.exp(middle))
        if tried.reached >= goal:
            low, best = middle, tried
        else:
            high = middle
    return best


def cell_sizes(entries: Codes, blurred: Mapping[str, Blurred]) -> ClassSizes:
    """Class sizes after blurring, without touching a row."""
    arrays: list[npt.NDArray[np.unsignedinteger]] = []
    cardinalities: list[int] = []
    for name, column in blurred.items():
        narrow = column.groups.astype(smallest_dtype(column.distinct))
        arrays.append(narrow[entries.column(name)])
        cardinalities.append(column.distinct)
    sizes, classes = size_histogram(arrays, cardinalities, entries.counts, entries=entries.entries)
    return ClassSizes(sizes, classes)


def release_of_plan(
    table: Table,
    plan: Plan,
    repair: Repair,
    *,
    weights: Mapping[str, float],
    foreseen: ClassSizes,
    identifiers: Mapping[str, str],
    several: bool = False,
    warnings: tuple[str, ...] = (),
    seed: int = 0,
) -> Release:
    """The release that a plan describes: columns blurred one by one, rows untouched.

    `identifiers` are other columns that go, with the reason. Where persons have several rows, whose
    order could tell whose they are, rows are sorted.
    """
    suppressed = tuple(name for name, b in plan.blurred.items() if b.action == "suppressed")
    kept = tuple(name for name in plan.blurred if name not in suppressed)
    drop = (*suppressed, *identifiers)
    steps = tuple(
        step for name in kept if (step := _step(table, name, plan.blurred[name])) is not None
    )
    asked: dict[str, Any] = {
        "k": plan.k,
        "beta": plan.beta,
        "universe": plan.universe,
        "repair": repair,
    }
    if weights:
        asked["weights"] = dict(weights)
    loss = sum(column.weight / column.distinct for column in plan.columns)
    return Release.planned(
        table,
        Recoding(steps, drop, several),
        foreseen,
        method="population",
        asked=asked,
        promises=_promises(plan, repair, kept, drop),
        qi=(kept,) if kept else (),
        column_actions={column.column: column.action for column in plan.columns}
        | {name: f"dropped: {why}" for name, why in identifiers.items()},
        utility={"weighted_inverse_distinct": loss},
        details={"plan": plan.to_dict()},
        seed=seed,
        warnings=warnings,
    )


def _step(table: Table, name: str, blurred: Blurred) -> Step | None:
    values = table.values(name)
    if blurred.action == "untouched" and blurred.labels.equals(values.values[0]):
        return None
    # codes of `values` are those of the plan: both are ranks of the same distinct values
    groups = blurred.groups[values.arrays[0]]
    codes = np.asarray(groups).astype(smallest_dtype(blurred.distinct))
    return Step(values, {name: Cells(codes, blurred.labels)})


def _promises(
    plan: Plan, repair: Repair, kept: tuple[str, ...], drop: tuple[str, ...]
) -> tuple[Promise, ...]:
    promises: list[Promise] = []
    if kept and repair == "none":
        promises.append(FewValues(plan.distinct_allowed, kept))
    elif kept:
        figure = "estimate" if repair == "estimate" else "at_least"
        promises.append(MatchesPeople(plan.universe, plan.k, plan.beta, kept, figure))
    if drop:
        promises.append(WithoutColumns(drop))
    return tuple(promises)


@dataclass(frozen=True)
class Allotment(Result):
    """How many values one column may keep.

    `distinct` is the whole number allotted, `share` the real number before rounding. `untouched`:
    the column has no more values than that. `suppressed`: a single value is left, which says
    nothing.
    """

    column: str
    domain: int
    weight: float
    share: float
    distinct: int

    @property
    def untouched(self) -> bool:
        """Whether the column may keep every value it has."""
        return self.distinct >= self.domain

    @property
    def suppressed(self) -> bool:
        """Whether nothing of the column is left."""
        return self.distinct == 1 and self.domain > 1


def allot(
    domains: Mapping[str, int], allowed: float, weights: Mapping[str, float] | None = None
) -> tuple[Allotment, ...]:
    """Share `allowed` distinct values among columns, minimising Σ w_i/d_i.

    The optimum over real numbers is d_i = min(domain_i, max(1, c·w_i)) for one level c (section
    3.1: d_i proportional to w_i; a column that has fewer values stays untouched and leaves).
    Whole numbers: rounded down, then the slack goes step by step to the column that gains most, so
    the product never exceeds `allowed`.

    Examples
    --------
    >>> plan = allot({"gender": 2, "birth": 20_000, "zip": 100_000}, 2.4e6)
    >>> [(a.column, a.distinct) for a in plan]
    [('gender', 2), ('birth', 1095), ('zip', 1095)]
    """
    for name, domain in domains.items():
        if domain < 1:
            raise ParameterError(
                f"column `{name}` must have at least one value", remedy="Give 1 or more."
            )
    weight = check_weights(domains, weights)
    level = _water_level(domains, weight, allowed)
    share = {name: min(domains[name], max(1.0, level * weight[name])) for name in domains}
    # a share that is a whole number up to rounding error is that number
    distinct = {name: math.floor(share[name] * (1 + 1e-12)) for name in domains}
    if math.isfinite(allowed):
        _hand_out_slack(domains, weight, distinct, math.floor(allowed))
    return tuple(
        Allotment(name, domains[name], weight[name], share[name], distinct[name])
        for name in domains
    )


def check_weights(columns: Collection[str], given: Mapping[str, float] | None) -> dict[str, float]:
    """The weight of each column, 1 where none is given."""
    weight = dict.fromkeys(columns, 1.0) | dict(given or {})
    for name, value in weight.items():
        if name not in columns:
            raise ParameterError(
                f"a weight is given for `{name}`, which is not among the quasi-identifiers",
                remedy=did_you_mean(name, columns),
            )
        if not (value > 0 and math.isfinite(value)):
            raise ParameterError(
                f"the weight of column `{name}` must be larger than zero",
                remedy="A column of no importance is better left out of the release.",
            )
    return weight


def _water_level(domains: Mapping[str, int], weight: Mapping[str, float], allowed: float) -> float:
    """The c with Π min(domain_i, max(1, c·w_i)) = allowed; its logarithm is piecewise linear."""
    if math.prod(domains.values()) <= allowed:
        return math.inf
    goal = math.log(max(1.0, allowed))
    # c where column i leaves 1 and where it reaches its domain, in ascending order
    events = sorted(
        event
        for name in domains
        for event in ((math.log(1 / weight[name]), 1), (math.log(domains[name] / weight[name]), -1))
    )
    total, slope, at = 0.0, 0, events[0][0]
    for position, change in events:
        step = slope * (position - at)
        if total + step >= goal:
            break
        total, at, slope = total + step, position, slope + change
    return math.exp(at + (goal - total) / slope) if slope else math.exp(at)


def _hand_out_slack(
    domains: Mapping[str, int], weight: Mapping[str, float], distinct: dict[str, int], allowed: int
) -> None:
    product = math.prod(distinct.values())
    while True:
        best, gain = None, 0.0
        for name, d in distinct.items():
            if d < domains[name] and product // d * (d + 1) <= allowed:
                saved = weight[name] / d - weight[name] / (d + 1)
                if saved > gain:
                    best, gain = name, saved
        if best is None:
            return
        product = product // distinct[best] * (distinct[best] + 1)
        distinct[best] += 1


@dataclass(frozen=True)
class CurvePoint(Result):
    """One number of groups.

    `k` is the smallest group, `error` the measured relative error of rows that became the median
    of their group, `inverse_square` the paper's 1/b², `privacy` 1-1/k and `utility` 1-k²/n².
    """

    buckets: int
    k: int
    error: float
    inverse_square: float
    privacy: float
    utility: float


@dataclass(frozen=True)
class PrivacyUtilityCurve(Result):
    """Error, privacy and utility of a column for several numbers of groups."""

    column: str
    rows: int
    points: tuple[CurvePoint, ...]


def privacy_utility_curve(
    column: str,
    numbers: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    buckets: Sequence[int] = (1, 2, 3, 5, 8, 12, 18, 25, 50, 100, 200, 500),
) -> PrivacyUtilityCurve:
    """Blur a column into more and more groups and measure each time.

    Parameters
    ----------
    column
        Its name.
    numbers, counts
        Distinct values in ascending order, and their rows.
    buckets
        Numbers of groups to try; those beyond the distinct values are left out.

    Examples
    --------
    >>> curve = privacy_utility_curve("x", np.arange(1000.0), buckets=[1, 10, 100])
    >>> [(point.buckets, round(point.error, 4)) for point in curve.points]
    [(1, 1.0), (10, 0.01), (100, 0.0001)]
    """
    x = np.asarray(numbers, dtype=np.float64)
    weights = np.ones(len(x), np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    rows = int(weights.sum())
    if rows == 0 or not np.isfinite(x).all():
        raise ColumnError(
            "a curve needs finite numbers",
            where=f"column `{column}`",
            remedy="Leave out rows without a number.",
        )
    mean = np.average(x, weights=weights)
    whole = float((weights * (x - mean) ** 2).sum())
    points = []
    for wanted in sorted({b for b in buckets if 1 <= b <= len(x)}):
        groups = kernels.quantile_groups(weights, groups=wanted)
        image = x[groups.median_value][groups.group_of_value]  # Definition 9
        error = float((weights * (x - image) ** 2).sum())
        made, k = len(groups.cuts), groups.k
        points.append(
            CurvePoint(
                buckets=made,
                k=k,
                error=error / whole if whole else 0.0,
                inverse_square=1 / made**2,
                privacy=1 - 1 / k,
                utility=1 - (k / rows) ** 2,
            )
        )
    return PrivacyUtilityCurve(column, rows, tuple(points))
