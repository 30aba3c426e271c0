"""Prices and protected columns: every algorithm and the whole search against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.cells.bounds import ascent, lower_bound, opt_lb, optimum
from sfumato.anonymization.cells.candidates import patterns_of
from sfumato.anonymization.cells.paper import ALGORITHMS, guided, possible_entries, start
from sfumato.anonymization.cells.search import improved
from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable, Partition, table_of_codes
from sfumato.budget import Budget
from star_partitions import best_cost, tiny_tables

NEVER = float("inf")


def require_valid(table: CellTable, partition: Partition) -> None:
    """Every row is in one group of k rows that agree on the protected columns."""
    held = np.bincount(partition.entry, weights=partition.rows, minlength=table.entries)
    assert (held == table.counts).all()
    assert partition.sizes().min() >= table.k
    assert not partition.starred(table)[:, table.prices < 0].any()


@st.composite
def priced_tables(draw: st.DrawFn) -> tuple[CellTable, int]:
    """A table some columns of which are dearer or protected, and its optimum in units."""
    codes, k = draw(tiny_tables())
    width = codes.shape[1]
    offered = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.25, NEVER])
    prices = draw(st.lists(offered, min_size=width, max_size=width))
    table = table_of_codes(codes, k, np.array(prices))
    possible = possible_entries(table)
    if not possible.any():  # no row looks like enough others on the protected columns
        prices = [1.0 if price == NEVER else price for price in prices]
        table = table_of_codes(codes, k, np.array(prices))
        possible = np.ones(table.entries, dtype=np.bool_)
    table = table.take(np.flatnonzero(possible))
    rows = np.repeat(table.codes, table.counts, axis=0)
    return table, round(best_cost(rows, k, prices) * PRICE_UNIT)


@pytest.mark.parametrize(
    ("prices", "units", "payable"),
    [
        ([1, 1], 1, 1000),
        ([1, 1], 2000, 2000),
        ([1, 1], 120_096, 121_000),
        ([1, 1.5], 1001, 1500),
        ([3, 0], 3001, 6000),
        ([3, NEVER], 1, 3000),
        ([0, 0], 0, 0),
    ],
)
def test_bounds_are_rounded_up_to_what_can_be_paid(
    prices: list[float], units: int, payable: int
) -> None:
    table = table_of_codes(np.array([[0, 0], [0, 1]]), 2, np.array(prices))
    assert table.payable(units) == payable


@settings(max_examples=150)
@given(priced_tables())
def test_the_whole_search_and_all_bounds(given: tuple[CellTable, int]) -> None:
    table, best = given
    patterns = patterns_of(table)
    first = start(table, patterns, "dr", 1.0, Budget())
    least = opt_lb(table, patterns)
    dual = ascent(table, patterns, least, first, "lp", Budget())
    found = improved(table, patterns, first, "local", 0, Budget(), dual)
    for partition in [first, found] + ([] if dual is None else [guided(table, patterns, dual)]):
        require_valid(table, partition)
        assert best <= partition.units(table)
    assert found.units(table) <= first.units(table)
    bounds = lower_bound(table, patterns, "lp", least, dual, found, Budget()).all
    assert bounds["opt-lb"] <= bounds["lp"] <= best
    solved = optimum(table)
    assert solved is not None
    assert solved.partition is not None
    require_valid(table, solved.partition)
    assert solved.proven
    assert solved.bound == solved.partition.units(table) == best


@settings(max_examples=60)
@given(priced_tables())
def test_repair_reaches_the_optimum(given: tuple[CellTable, int]) -> None:
    table, best = given
    patterns = patterns_of(table)
    first = start(table, patterns, "dr", 1.0, Budget())
    found = improved(table, patterns, first, "milp", 0, Budget())
    require_valid(table, found)
    assert found.units(table) >= best
    if len(table.free) == table.width:
        assert found.units(table) == best


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=60)
@given(given=priced_tables(), beta=st.sampled_from([1.0, 1.8]))
def test_every_algorithm(algorithm: str, given: tuple[CellTable, int], beta: Any) -> None:
    table, best = given
    found = start(table, patterns_of(table), algorithm, beta, Budget())
    require_valid(table, found)
    assert best <= found.units(table)
