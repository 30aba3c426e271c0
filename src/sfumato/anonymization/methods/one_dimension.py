"""One quasi-identifier, k-anonymous in one dimension (Lodha & Thomas).

``quantiles`` changes ranks least in total, or reads its cuts from a sample; ``optimal-1d`` changes
distances least (see `sorted_groups`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.errors import ParameterError, spell
from sfumato.hierarchy import EncodedHierarchy, Ranges
from sfumato.hierarchy.ranges import published_ranges
from sfumato.hierarchy.tree import Array
from sfumato.kernels.sorted_groups import (
    DELTA,
    SortedGroups,
    check_k,
    optimal_groups,
    quantile_groups,
    sampled_quantile_groups,
)

Grouping = Callable[[Array, Array, int, bool], SortedGroups]
"""From ascending numbers, their rows, k and whether ties stay together, to groups."""


def solve_quantiles(problem: Problem) -> Solution:
    """Cut the column at its quantiles (Theorem 5): the least total change of rank.

    Options: ``ties`` (whether equal values stay together); ``sample`` (rows to read the cuts from,
    section 4.1.3: then the change is not the least, and every group still has k rows).
    """
    sample = problem.options.get("sample")
    if sample is None:
        return _solved(problem, lambda _, rows, k, ties: quantile_groups(rows, k, ties=ties))
    if sample < 1 or problem.options.get("ties") is False:
        raise ParameterError(
            "quantiles of a sample are cuts between different values, of at least one row",
            remedy=f"Give {spell('sample', 10_000)}, and leave ties out.",
        )
    seed, told = problem.seed or 0, {}

    def grouping(numbers: Array, rows: Array, k: int, ties: bool) -> SortedGroups:
        made, eps = sampled_quantile_groups(numbers, rows, k, sample=sample, seed=seed)
        drawn = min(int(sample), int(rows.sum()))
        told["sampled_ranks"] = {"sample": drawn, "eps": eps, "delta": DELTA if eps else 0.0}
        return made

    found = _solved(problem, grouping)
    return replace(found, details={**found.details, **told})


def solve_optimal(problem: Problem) -> Solution:
    """Group the column at the least cost.

    Options: ``cost`` (``k-median``, ``cellular`` or ``k-center``), and that of `solve_quantiles`.
    """
    cost = problem.options.get("cost", "k-median")

    def grouping(numbers: Array, rows: Array, k: int, ties: bool) -> SortedGroups:
        return optimal_groups(numbers, k, cost, counts=rows, ties=ties)

    return _solved(problem, grouping)


def _solved(problem: Problem, grouping: Grouping) -> Solution:
    """Group the values of the one quasi-identifier.

    Numbers and dates are grouped on their line; a column with a hierarchy climbs to its first level
    on which every node has k rows. Values without a place on the line (null, not-a-number) keep
    their own group, or are left out where fewer than k rows have them.
    """
    if len(problem.qi) != 1:
        raise ParameterError(
            f"this method blurs one column, not {len(problem.qi)}",
            remedy=f"Name one quasi-identifier, or use {spell('method', 'mondrian')}.",
        )
    if problem.person is not None:
        raise ParameterError(
            "this method counts rows, and a person may have several of them",
            remedy=f"Use {spell('method', 'mondrian')}, which counts persons.",
        )
    if len(problem.rules.kinds):
        raise ParameterError(
            "this method supports k-anonymity only",
            remedy=f"Use {spell('method', 'mondrian')} for l-diversity, t-closeness and the like.",
        )
    (name,) = problem.qi
    shape = problem.shapes[name]
    if isinstance(shape, EncodedHierarchy):
        return _climb(problem, name, shape)
    if not isinstance(shape, Ranges):
        raise ParameterError(
            f"column `{name}` holds neither numbers nor dates",
            remedy=f"Give it a hierarchy ({spell('hierarchies', 'folder')}).",
        )
    return _on_the_line(problem, name, shape, grouping)


def _rows_of_values(problem: Problem, name: str) -> npt.NDArray[np.int64]:
    codes = problem.entries.column(name)
    size = len(problem.entries.values_of(name))
    return np.bincount(codes, weights=problem.counts, minlength=size).astype(np.int64)


def _climb(problem: Problem, name: str, tree: EncodedHierarchy) -> Solution:
    rows, k = _rows_of_values(problem, name), problem.rules.k
    for level in range(tree.height + 1):
        nodes, node_of = np.unique(tree.ancestors[:, level], return_inverse=True)
        if np.bincount(node_of, weights=rows).min() >= k:
            break
    groups = node_of[problem.entries.column(name)].astype(np.int32)
    return Solution(groups, {name: tree.published(nodes)}, details={"level": int(level)})


def _on_the_line(problem: Problem, name: str, line: Ranges, grouping: Grouping) -> Solution:
    rows, k = _rows_of_values(problem, name), problem.rules.k
    ties = bool(problem.options.get("ties", True))
    on_line = len(line.points)
    by_rank = rows[line.order]
    check_k(k, int(by_rank[:on_line].sum()), name)
    made = grouping(line.points, by_rank[:on_line], k, ties)
    if made.splits_values and problem.sensitive:
        raise ParameterError(
            "equal values can only be split where no sensitive column is named",
            remedy="Name no sensitive columns, or keep equal values together.",
        )
    others = np.arange(on_line, line.size)
    low = np.append(made.first_value, others)
    high = np.append(made.last_value, others)
    kept = np.where(by_rank[others] >= k, len(made.cuts) + np.arange(len(others)), -1)
    sizes = np.append(made.sizes, by_rank[others])
    published = published_ranges({name: (line, low, high)}, sizes)[name]
    details = {"rank_difference": made.rank_difference, "groups": len(made.cuts)}
    if not made.splits_values:
        group_of_rank = np.append(made.group_of_value, kept)
        group_of_code = np.empty(line.size, np.int32)
        group_of_code[line.order] = group_of_rank
        groups = group_of_code[problem.entries.column(name)]
        return Solution(groups, {name: published}, details=details)
    value, group, first, last = made.pieces()
    value, group = np.append(value, others), np.append(group, kept)
    taken = np.append(last - first, by_rank[others])
    entry_of_code = np.empty(line.size, np.int64)
    entry_of_code[problem.entries.column(name)] = np.arange(problem.entries.entries)
    entry = entry_of_code[line.order[value]]
    in_order = np.argsort(entry, kind="stable")
    return Solution(
        group[in_order].astype(np.int32),
        {name: published},
        entry=entry[in_order],
        rows=taken[in_order],
        details=details,
    )
