"""How many distinct values a release may keep, and how to share them among its columns.

Lodha & Thomas, section 3: a release is probabilistically (1-β, k)-anonymous in a universe of n
people if every row matches at least k of them with probability above 1-β. Theorem 4 turns that into
a number of distinct values D'; the allocation shares D' among the columns with the least weighted
rank distortion Σ w_i/d_i.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sfumato.errors import ParameterError, did_you_mean
from sfumato.populations.bound import check_universe
from sfumato.results import Result

__all__ = [
    "Allotment",
    "allot",
    "anonymity_given",
    "check_promise",
    "check_weights",
    "distinct_allowed",
    "failure_given",
]


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
            remedy="Write e.g. --beta 0.1.",
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
