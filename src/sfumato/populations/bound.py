"""How many people of a population can at most be unique, given how many values there are.

Lodha & Thomas, *Probabilistic Anonymity*, section 2. A universe of n people is drawn from any
distribution over D distinct values. The expected share of people who are alone with their value is
at most f(D/n), whatever the distribution; so a set of columns with too few values cannot be a
quasi-identifier of the population, however unique its rows look in a small table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from sfumato.errors import ParameterError

__all__ = [
    "check_universe",
    "distinct_needed",
    "minimal_sets",
    "possible_sets",
    "product_of",
    "uniqueness_bound",
]


def uniqueness_bound(distinct: float, universe: float) -> float:
    """Upper bound f(D/n) on the expected share of unique people (Theorems 1 and 2).

    Parameters
    ----------
    distinct
        D, how many distinct values the columns can take together.
    universe
        n, how many people there are.

    Examples
    --------
    Gender, date of birth and ZIP in the USA; nationality, date of birth and occupation on earth:

    >>> round(uniqueness_bound(2 * 2e4 * 1e5, 3e8), 2)
    0.93
    >>> round(uniqueness_bound(200 * 2e4 * 100, 6e9), 3)
    0.025
    """
    check_universe(universe)
    if not distinct >= 0:
        raise ParameterError(
            "a number of distinct values cannot be negative", remedy="Give zero or more."
        )
    if distinct <= universe:
        return distinct / (math.e * universe)
    return math.exp(-universe / distinct)


def distinct_needed(alpha: float, universe: float) -> float:
    """Fewest distinct values that can make an α-quasi-identifier (Theorem 3, for every α).

    Below it the answer "not an α-quasi-identifier" is safe; at or above it the columns may be one.

    Examples
    --------
    >>> round(distinct_needed(0.5, 3e8) / 3e8, 4), round(distinct_needed(0.2, 3e8) / 3e8, 4)
    (1.4427, 0.5437)
    """
    check_universe(universe)
    if not 0 < alpha < 1:
        raise ParameterError(
            "the share α of unique people must lie between 0 and 1",
            remedy="Write e.g. --alpha 0.2 for a fifth of the population.",
        )
    if alpha <= 1 / math.e:
        return alpha * math.e * universe
    return universe / -math.log(alpha)


def check_universe(universe: float, rows: int = 0) -> None:
    """Refuse a population that has no people, or fewer than the table has rows."""
    if not (universe >= 1 and math.isfinite(universe)):
        raise ParameterError(
            "the universe must be a number of people, at least 1",
            remedy="Write e.g. --universe 3e8, or --universe table.",
        )
    if universe < rows:
        raise ParameterError(
            f"the universe has {universe:,.0f} people but the table already has {rows:,} rows",
            remedy="Give the size of the whole population, --universe table, or --person COLUMN "
            "if several rows belong to one person.",
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
) -> list[tuple[str, ...]]:
    """Minimal column sets that reach `needed` distinct values, for a measured, monotone D.

    A level-wise walk: a set is looked at only if none of its subsets qualified, and is measured
    only if the product of its domains, which is never below the joint count, could reach the
    threshold.

    Examples
    --------
    >>> joint = {("a",): 3, ("b",): 4, ("c",): 4, ("a", "b"): 12, ("a", "c"): 5, ("b", "c"): 16}
    >>> minimal_sets({"a": 3, "b": 4, "c": 4}, lambda s: joint.get(s, 20), needed=12)
    [('a', 'b'), ('b', 'c')]
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
                else:
                    open_sets.append(candidate)
        level = open_sets
    return minimal
