"""How many people of a population can at most be unique, given how many values there are.

Lodha & Thomas, *Probabilistic Anonymity*, section 2. A universe of n people is drawn with
replacement from any distribution over D distinct values. The expected share of people who are alone
with their value is at most about f(D/n), whatever the distribution; so a set of columns with too
few values is not expected to be a quasi-identifier of the population, however unique its rows look
in a small table. It is an expectation over universes: of one universe that is there, count.

Theorem 4 (section 3) says how many values keep a promise: that a row matches k people with
probability 1-β.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from sfumato.errors import ParameterError, spell
from sfumato.wording import counted

_MOST_PEOPLE = 2**53
"""Larger whole numbers are no exact floats."""


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
    if universe > _MOST_PEOPLE:
        raise ParameterError(
            "the universe is larger than any population",
            remedy=f"Write e.g. {spell('universe', 300_000_000)}.",
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
    if k < 1 or k % 1:
        raise ParameterError(
            "k must be a whole number, at least 1", remedy=f"Give e.g. {spell('k', 5)}."
        )
    if k > universe:
        raise ParameterError(
            f"k = {k:,} is more than the {counted(int(universe), 'person', many='people')} of the "
            "universe",
            remedy="Lower k, or give the size of the whole population.",
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
