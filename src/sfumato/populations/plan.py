"""How many people of a population can at most be unique, given how many values there are.

Lodha & Thomas, *Probabilistic Anonymity*, section 2. A universe of n people is drawn with
replacement from any distribution over D distinct values. The expected share of people who are alone
with their value is at most about f(D/n), whatever the distribution; so a set of columns with too
few values is not expected to be a quasi-identifier of the population, however unique its rows look
in a small table. It is an expectation over universes: of one universe that is there, count.

From the bound follows the plan: how many values each column may keep (section 3), and the curve of
privacy against utility of one column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.results import Result

__all__ = [
    "Allotment",
    "CurvePoint",
    "PrivacyUtilityCurve",
    "allot",
    "anonymity_given",
    "check_promise",
    "check_universe",
    "check_weights",
    "distinct_allowed",
    "distinct_needed",
    "failure_given",
    "minimal_sets",
    "possible_sets",
    "privacy_utility_curve",
    "product_of",
    "uniqueness_bound",
]


def uniqueness_bound(distinct: float, universe: float) -> float:
    """Upper bound on the expected share of unique people (Theorems 1 and 2, at finite n).

    Each of n people draws one of D values independently, with any chances p: the expected share of
    those alone with theirs is Σ g(p), where g(p) = p(1-p)^(n-1). The paper replaces (1-p)^(n-1) by
    e^(-np), and its f(D/n) is then too small where n is.

    Up to 2/n g is concave, and beyond 1/n it falls. For D >= n the tangent of g at 1/D rises, so it
    lies above g everywhere, and the sum is largest where all values are equally likely:
    (1-1/D)^(n-1). For D < n no term exceeds g(1/n), which D-1 of them can reach: D·g(1/n) is less
    than 1/n above the maximum.

    Parameters
    ----------
    distinct
        D, how many distinct values the columns can take together: outcomes that are possible, not
        only those that happened.
    universe
        n, how many people there are.

    Examples
    --------
    Gender, date of birth and ZIP in the USA; nationality, date of birth and occupation on earth:

    >>> round(uniqueness_bound(2 * 2e4 * 1e5, 3e8), 2)
    0.93
    >>> round(uniqueness_bound(200 * 2e4 * 100, 6e9), 3)
    0.025
    >>> uniqueness_bound(2, 2)  # two people, heads or tails: alike or different
    0.5
    """
    check_universe(universe)
    if not distinct >= 0:
        raise ParameterError(
            "a number of distinct values cannot be negative", remedy="Give zero or more."
        )
    if distinct <= universe:
        return distinct / universe * _alone(universe, universe)
    return _alone(distinct, universe)


def _alone(values: float, people: float) -> float:
    """(1-1/D)^(n-1): that nobody else draws the value of a person, of D equally likely ones."""
    return math.exp((people - 1) * math.log1p(-1 / values)) if people > 1 else 1.0


def distinct_needed(alpha: float, universe: float) -> float:
    """Fewest distinct values that can make an α-quasi-identifier (Theorem 3, for every α).

    Below it fewer than αn people are expected to be unique, whatever the distribution; at or above
    it the columns may be an α-quasi-identifier. The inverse of `uniqueness_bound`.

    Examples
    --------
    >>> round(distinct_needed(0.5, 3e8) / 3e8, 4), round(distinct_needed(0.2, 3e8) / 3e8, 4)
    (1.4427, 0.5437)
    """
    check_universe(universe)
    if not 0 < alpha < 1:
        raise ParameterError(
            "the share α of unique people must lie between 0 and 1",
            remedy=f"Write e.g. {spell('alpha', 0.2)} for a fifth of the population.",
        )
    least = _alone(universe, universe)
    if alpha <= least:
        return alpha * universe / least
    return -1 / math.expm1(math.log(alpha) / (universe - 1))


def check_universe(universe: float, rows: int = 0) -> None:
    """Refuse a population that has no people, or fewer than the table has rows."""
    if not (universe >= 1 and math.isfinite(universe)):
        raise ParameterError(
            "the universe must be a number of people, at least 1",
            remedy=f"Write e.g. {spell('universe', 300_000_000)}, or {spell('universe', 'table')}.",
        )
    if universe < rows:
        raise ParameterError(
            f"the universe has {universe:,.0f} people but the table already has {rows:,} rows",
            remedy=f"Give the size of the whole population, {spell('universe', 'table')}, or the "
            f"column of the person ({spell('person', '…')}) if several rows belong to one person.",
        )


def product_of(domains: Mapping[str, int], columns: Sequence[str]) -> int:
    """Distinct values of a column set under the paper's Multiple Domain Assumption (Definition 3).

    Examples
    --------
    >>> product_of({"age": 60, "race": 5, "sex": 2}, ["age", "race", "sex"])
    600
    """
    return math.prod(domains[name] for name in columns)


def possible_sets(
    domains: Mapping[str, int], needed: float, max_size: int | None = None, limit: int = 10_000
) -> tuple[list[tuple[str, ...]], bool]:
    """All minimal column sets whose domain product reaches `needed`.

    Columns are added from the largest domain down, so a set is minimal exactly when its last column
    carries the product over the threshold, and a branch is left as soon as the largest columns that
    remain cannot do so: the work is proportional to the answer, not to the power set.

    Returns
    -------
    The sets, and whether they are all (False when there are more than `limit`).

    Examples
    --------
    >>> possible_sets({"sex": 2, "birth": 20_000, "zip": 100_000}, needed=1e9)
    ([('zip', 'birth')], True)
    """
    order = sorted((name for name in domains if domains[name] > 1), key=lambda c: -domains[c])
    logs = [math.log(domains[name]) for name in order]
    before = [0.0]
    for value in logs:
        before.append(before[-1] + value)
    goal = math.log(needed) if needed > 1 else 0.0
    tolerance = 1e-12 * max(1.0, goal)
    found: list[tuple[str, ...]] = []
    longest = min(max_size or len(order), len(order))
    if needed <= 1:
        return [()], True
    stack: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    while stack:
        chosen, total = stack.pop()
        start = chosen[-1] + 1 if chosen else 0
        room = longest - len(chosen)
        deeper: list[tuple[tuple[int, ...], float]] = []
        for i in range(start, len(order)):
            reach = before[min(i + room, len(order))] - before[i]
            if total + reach < goal - tolerance:
                break  # columns only get smaller from here
            extended, sum_ = (*chosen, i), total + logs[i]
            if sum_ >= goal - tolerance:
                found.append(tuple(order[j] for j in extended))
                if len(found) > limit:
                    return found[:limit], False
            elif room > 1:
                deeper.append((extended, sum_))
        stack.extend(reversed(deeper))
    found.sort(key=lambda names: (len(names), [order.index(name) for name in names]))
    return found, True


def minimal_sets(
    domains: Mapping[str, int],
    distinct_of: Callable[[tuple[str, ...]], float],
    needed: float,
    max_size: int | None = None,
    limit: int = 10_000,
) -> tuple[list[tuple[str, ...]], bool]:
    """Minimal column sets that reach `needed` distinct values, for a measured, monotone D.

    A level-wise walk: a set is looked at only if none of its subsets qualified, and is measured
    only if the product of its domains, which is never below the joint count, could reach the
    threshold.

    Returns
    -------
    The sets, and whether they are all (False when there are more than `limit`).

    Examples
    --------
    >>> joint = {("a",): 3, ("b",): 4, ("c",): 4, ("a", "b"): 12, ("a", "c"): 5, ("b", "c"): 16}
    >>> minimal_sets({"a": 3, "b": 4, "c": 4}, lambda s: joint.get(s, 20), needed=12)
    ([('a', 'b'), ('b', 'c')], True)
    """
    names = list(domains)
    position = {name: i for i, name in enumerate(names)}
    longest = min(max_size or len(names), len(names))
    minimal: list[tuple[str, ...]] = []
    level: list[tuple[str, ...]] = [()]
    for _ in range(longest):
        open_sets: list[tuple[str, ...]] = []
        known = set(level)
        for base in level:
            start = position[base[-1]] + 1 if base else 0
            for name in names[start:]:
                candidate = (*base, name)
                subsets = combinations(candidate, len(candidate) - 1)
                if any(subset not in known for subset in subsets):
                    continue
                could = product_of(domains, candidate) >= needed
                if could and distinct_of(candidate) >= needed:
                    minimal.append(candidate)
                    if len(minimal) > limit:
                        return minimal[:limit], False
                else:
                    open_sets.append(candidate)
        level = open_sets
    return minimal, True


def check_promise(universe: float, k: int, beta: float) -> None:
    """Refuse k and β that cannot be promised in a universe of that size."""
    check_universe(universe)
    if k < 1:
        raise ParameterError("k must be at least 1", remedy="Give -k 2 or more, e.g. -k 5.")
    if k > universe:
        raise ParameterError(
            f"k = {k:,} is more than the {universe:,.0f} people of the universe",
            remedy="Lower -k or give the size of the whole population.",
        )
    if not 0 < beta < 1:
        raise ParameterError(
            "β, the probability with which the promise may fail, must lie between 0 and 1",
            remedy=f"Write e.g. {spell('beta', 0.1)}.",
        )


def distinct_allowed(universe: float, k: int, beta: float) -> float:
    """Largest number of distinct values D' that keeps the promise (Theorem 4).

    It assumes D' equally likely values. Infinite for k = 1, where nothing is promised.

    Examples
    --------
    >>> distinct_allowed(3e8, 100, 0.1)
    2443425
    """
    check_promise(universe, k, beta)
    if k == 1:
        return math.inf
    x = -math.log(beta) / (k - 1)
    # 1 + x - sqrt(x² + 2x), written without the cancellation that large x brings
    factor = 1 / (1 + x + math.sqrt(x * x + 2 * x))
    return max(1, math.floor(universe / (k - 1) * factor))


def anonymity_given(universe: float, distinct: float, beta: float) -> int:
    """Largest k that D' equally likely values give with probability 1-β (Theorem 4 for k).

    Examples
    --------
    >>> anonymity_given(3e8, 2443425, 0.1)
    100
    """
    check_promise(universe, 1, beta)
    values = math.ceil(distinct)
    if values <= 1:
        return int(universe)  # a single value is everybody's
    mean = universe / values
    k = max(1, 1 + math.floor(mean - math.sqrt(2 * mean * -math.log(beta))))
    # the closed form may land one off by rounding; Theorem 4 itself decides
    while k + 1 <= universe and values <= distinct_allowed(universe, k + 1, beta):
        k += 1
    while k > 1 and values > distinct_allowed(universe, k, beta):
        k -= 1
    return k


def failure_given(universe: float, distinct: float, k: int) -> float:
    """Bound on the probability β that a row matches fewer than k people (Theorem 4 for β).

    Examples
    --------
    >>> round(failure_given(3e8, 2443425, 100), 6)
    0.1
    """
    check_promise(universe, k, 0.5)
    short = universe - (k - 1) * distinct
    if k == 1:
        return 0.0
    return math.exp(-short * short / (2 * universe * distinct)) if short > 0 else 1.0


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
        for event in (
            (math.log(1 / weight[name]), 1),
            (math.log(domains[name] / weight[name]), -1),
        )
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
