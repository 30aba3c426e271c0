"""OPT-LB <= LP bound <= optimum <= every algorithm, and the guarantees of the paper."""

from __future__ import annotations

from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.cells.bounds import (
    Dual,
    _is_whole,
    _of_cheaper,
    ascent,
    certified,
    lower_bound,
    opt_lb,
    optimum,
    repaired,
    solve_assignment,
)
from sfumato.anonymization.cells.candidates import Patterns, closed_candidates, patterns_of
from sfumato.anonymization.cells.paper import approx_dr, start
from sfumato.anonymization.cells.search import improved, local_search
from sfumato.anonymization.cells.table import (
    PRICE_UNIT,
    CellTable,
    Partition,
    fits,
    groups_of,
    table_of_codes,
    unite,
)
from sfumato.budget import Budget
from star_partitions import best_cost, tiny_tables

MANY = settings(max_examples=100)


def guarantee(k: int, beta: float = 1.0) -> float:
    """How many times the optimum APPROX-NAIVE, -FQ and -CF-β cost at most."""
    return beta * 2.0 * (1.0 + log(2 * k))


def lp_bound(table: CellTable, patterns: Patterns, least: Any, found: Partition) -> int:
    """The bound of the linear program, in units."""
    dual = ascent(table, patterns, least, found, "lp", Budget())
    return lower_bound(table, patterns, "lp", least, dual, found, Budget()).all["lp"]


def require_valid(table: CellTable, partition: Partition) -> None:
    """Every row is in one group, and every group has k rows."""
    held = np.bincount(partition.entry, weights=partition.rows, minlength=table.entries)
    assert (held == table.counts).all()
    assert partition.sizes().min() >= table.k
    assert (partition.group >= 0).all()


@MANY
@given(tiny_tables())
def test_bounds_and_search_enclose_the_optimum(given: tuple[Any, int]) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    patterns = patterns_of(table)
    first = approx_dr(table, patterns)
    better = local_search(table, patterns, first)
    for partition in (first, better):
        require_valid(table, partition)
    least = opt_lb(table, patterns)
    bound = lp_bound(table, patterns, least, better)
    best = round(best_cost(codes, k) * PRICE_UNIT)
    assert int(least @ table.counts) <= bound <= best
    assert best <= better.units(table) <= first.units(table)


@MANY
@given(tiny_tables())
def test_exact_is_the_optimum(given: tuple[Any, int]) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    solved = optimum(table)
    assert solved is not None
    assert solved.proven
    assert solved.partition is not None
    require_valid(table, solved.partition)
    best = round(best_cost(codes, k) * PRICE_UNIT)
    assert solved.bound == solved.partition.units(table) == best
    near = optimum(table, least=opt_lb(table), known=approx_dr(table, patterns_of(table)))
    assert near is not None
    assert near.proven
    assert near.partition is not None
    require_valid(table, near.partition)
    assert near.bound == near.partition.units(table) == best


@MANY
@given(tiny_tables(), st.integers(0, 1_000))
def test_whatever_prices_are_what_a_cheaper_solution_uses_is_not_ruled_out(
    given: tuple[Any, int], seed: int
) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    best, every = round(best_cost(codes, k) * PRICE_UNIT), closed_candidates(table)
    prices = np.random.default_rng(seed).uniform(0, 2 * table.width * PRICE_UNIT, table.entries)
    dual = Dual(every, prices, np.zeros(len(every)))
    left = _of_cheaper(table, dual, best + PRICE_UNIT)
    assert solve_assignment(table, left, 10.0).bound == best


@pytest.mark.parametrize(
    ("algorithm", "beta"), [("cf", 1.0), ("cf", 1.8), ("cf", 3.0), ("fq", 1.0), ("naive", 1.0)]
)
@settings(max_examples=60)
@given(given=tiny_tables())
def test_covers_keep_their_guarantee(algorithm: str, beta: float, given: tuple[Any, int]) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    found = start(table, patterns_of(table), algorithm, beta, Budget())
    require_valid(table, found)
    assert found.sizes().max() <= 2 * k - 1
    best = best_cost(codes, k)
    assert best <= found.cost(table) <= guarantee(k, beta) * best


@pytest.mark.parametrize("algorithm", ["gr", "ds"])
@settings(max_examples=60)
@given(given=tiny_tables())
def test_baselines_are_never_below_the_optimum(algorithm: str, given: tuple[Any, int]) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    found = start(table, patterns_of(table), algorithm, 1.0, Budget())
    require_valid(table, found)
    assert found.sizes().max() <= max(2 * k - 1, 3 * k - 3)
    assert best_cost(codes, k) <= found.cost(table)


@settings(max_examples=60)
@given(tiny_tables(), st.data())
def test_prices_of_columns(given: tuple[Any, int], data: st.DataObject) -> None:
    codes, k = given
    width = codes.shape[1]
    offered = st.sampled_from([0.5, 1.0, 2.0, 3.25])
    prices = data.draw(st.lists(offered, min_size=width, max_size=width))
    table = table_of_codes(codes, k, np.array(prices))
    patterns = patterns_of(table)
    first = approx_dr(table, patterns)
    least = opt_lb(table, patterns)
    dual = ascent(table, patterns, least, first, "lp", Budget())
    found = improved(table, patterns, first, "local", 0, Budget(), dual)
    require_valid(table, found)
    bound = lower_bound(table, patterns, "lp", least, dual, found, Budget())
    best = round(best_cost(codes, k, prices) * PRICE_UNIT)
    assert bound.all["opt-lb"] <= bound.all["lp"] <= best <= found.units(table)
    solved = optimum(table)
    assert solved is not None
    assert solved.bound == best


@settings(max_examples=60)
@given(tiny_tables(), st.data())
def test_any_prices_of_rows_prove_no_more_than_the_optimum(
    given: tuple[Any, int], data: st.DataObject
) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    wild = st.floats(-3000, 9000)
    prices = data.draw(st.lists(wild, min_size=table.entries, max_size=table.entries))
    proven = certified(table, patterns_of(table), np.array(prices))
    assert proven <= best_cost(codes, k) * PRICE_UNIT * 1024


def test_two_rows_that_cost_two_stars_are_priced_no_higher() -> None:
    table = table_of_codes(np.array([[0, 0], [1, 0]]), k=2)
    for prices in ([1.4, 1.4], [2.9, 0.0], [1.0, 1.001], [9.0, 9.0]):
        proven = certified(table, patterns_of(table), np.array(prices) * PRICE_UNIT)
        assert proven <= 2 * PRICE_UNIT * 1024


@settings(max_examples=100)
@given(tiny_tables(columns=4), st.integers(2, 9), st.floats(0, 9000))
def test_rows_are_priced_no_higher_than_patterns_that_are_not_listed(
    given: tuple[Any, int], most: int, price: float
) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    proven = certified(table, patterns_of(table, most), np.full(table.entries, price))
    assert proven <= best_cost(codes, k) * PRICE_UNIT * 1024


@settings(max_examples=60)
@given(tiny_tables(columns=4), st.integers(2, 9))
def test_few_patterns_still_bound_and_cover(given: tuple[Any, int], most: int) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    patterns = patterns_of(table, most)
    found = approx_dr(table, patterns)
    require_valid(table, found)
    least = opt_lb(table, patterns)
    bound = lp_bound(table, patterns, least, found)
    assert int(least @ table.counts) <= bound <= best_cost(codes, k) * PRICE_UNIT


@settings(max_examples=60)
@given(tiny_tables(rows=10))
def test_repair_by_integer_programming_reaches_the_optimum_of_tiny_tables(
    given: tuple[Any, int],
) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    patterns = patterns_of(table)
    found = improved(table, patterns, approx_dr(table, patterns), "milp", 0, Budget())
    require_valid(table, found)
    assert found.cost(table) == best_cost(codes, k)


def test_repair_with_what_the_linear_program_opens() -> None:
    random = np.random.default_rng(2)
    codes = random.integers(0, 4, (350, 5)) * (random.random((350, 5)) < 0.5)
    table = table_of_codes(codes, 2)
    patterns = patterns_of(table)
    first, least = approx_dr(table, patterns), opt_lb(table, patterns)
    dual = ascent(table, patterns, least, first, "lp", Budget())
    assert dual is not None
    found = improved(table, patterns, first, "local", 0, Budget(), dual)
    pool = dual.candidates.take(np.flatnonzero(dual.opened >= 0.02))
    better = repaired(table, found, attempts=2, pool=pool)
    require_valid(table, better)
    bound = lower_bound(table, patterns, "lp", least, dual, found, Budget())
    assert bound.units <= better.units(table) < found.units(table)


def test_answers_of_a_solver_are_looked_at() -> None:
    """What is rounded from floating point is a partition into groups of k rows, or nothing."""
    table = table_of_codes(np.array([[0], [0], [1], [1]]), k=2)
    for rows, group, whole in (
        ([2, 2], [0, 1], True),
        ([2, 2], [0, 0], True),
        ([1, 1, 2], [0, 1, 1], False),
        ([2, 1], [0, 0], False),
    ):
        entry = np.array([0, 1] if len(rows) == 2 else [0, 0, 1])
        found = Partition(entry, np.array(rows), np.array(group))
        assert _is_whole(table, found) is whole


def test_bounds_of_a_solver_that_ran_out_of_time_are_rounded_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = table_of_codes(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), k=2)

    def unfinished(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(status=1, x=None, mip_dual_bound=3999.9999)

    monkeypatch.setattr("scipy.optimize.milp", unfinished)
    found = solve_assignment(table, closed_candidates(table), 1.0)
    assert (found.partition, found.proven) == (None, False)
    assert found.bound == 3998


def test_a_row_fits_a_group_whose_values_it_has_as_long_as_the_group_is_there() -> None:
    """A group that the search remembers may have gone since, and its number be another's."""
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    table = table_of_codes(codes, k=2)
    groups, _ = groups_of(table, Partition(np.arange(4), np.ones(4, int), np.array([0, 0, 1, 1])))
    of = {tuple(table.codes[groups.entry[u]].tolist()): u for u in range(4)}
    where = {tuple(row): int(groups.group[of[tuple(row)]]) for row in table.codes.tolist()}
    for row, u in of.items():
        for other, q in where.items():
            assert fits(table.codes, groups, u, q) == (row[0] == other[0])
    first, second = sorted(set(where.values()))
    unite(groups, first, second)
    assert not any(fits(table.codes, groups, u, first) for u in range(4))


def test_a_spent_budget_still_gives_a_partition_and_a_bound() -> None:
    random = np.random.default_rng(3)
    codes = random.integers(0, 4, (300, 6))
    table = table_of_codes(codes, 5)
    budget = Budget()
    budget.cancel()
    found = approx_dr(table, budget=budget)
    require_valid(table, found)
    least = int(opt_lb(table, budget=budget) @ table.counts)
    assert 0 <= least <= local_search(table, patterns_of(table), approx_dr(table)).units(table)
