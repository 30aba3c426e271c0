"""The examples of Park & Shim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.anonymization.cells.bounds import opt_lb, optimum
from sfumato.anonymization.cells.candidates import (
    closed_candidates,
    frequent_candidates,
    patterns_of,
)
from sfumato.anonymization.cells.paper import _gen_cover, start
from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable, table_of_codes
from sfumato.budget import Budget
from sfumato.papers.park_shim import FIGURE_1, FIGURE_2


def coded(text: str, k: int) -> tuple[CellTable, list[list[str]]]:
    rows = np.array([line.split() for line in text.splitlines()])
    columns = [np.unique(column, return_inverse=True) for column in rows.T]
    table = table_of_codes(np.stack([codes for _, codes in columns], axis=1), k)
    return table, [values.tolist() for values, _ in columns]


def test_figure_1_closed_itemsets() -> None:
    table, values = coded(FIGURE_1, 2)
    found = closed_candidates(table)
    itemsets = set()
    for at, kept in enumerate(found.kept.tolist()):
        row = table.codes[found.members[found.starts[at]]]
        itemsets.add(frozenset(values[c][row[c]] for c in range(4) if kept >> c & 1))
    assert itemsets == {
        frozenset({"20~29", "Single", "USA"}),
        frozenset({"30~39", "Female"}),
        frozenset({"Female"}),
        frozenset(),
    }


def test_figure_10_has_ten_frequent_itemsets() -> None:
    table, _ = coded(FIGURE_1, 2)
    assert len(frequent_candidates(table)) == 10 + 1  # and the empty one


@pytest.mark.parametrize("algorithm", ["dr", "cf", "fq", "naive", "gr"])
def test_figure_1_costs_six_cells(algorithm: str) -> None:
    table, _ = coded(FIGURE_1, 2)
    assert start(table, patterns_of(table), algorithm, 1.0, Budget()).cost(table) == 6


def test_figure_2_optimum_is_24_cells() -> None:
    table, _ = coded(FIGURE_2, 4)
    solved = optimum(table)
    assert solved is not None
    assert solved.bound == 24_000
    assert int(opt_lb(table) @ table.counts) <= 24_000


@pytest.mark.parametrize("algorithm", ["dr", "cf", "fq", "naive"])
def test_figure_2_algorithms(algorithm: str) -> None:
    table, _ = coded(FIGURE_2, 4)
    found = start(table, patterns_of(table), algorithm, 1.0, Budget())
    assert found.sizes().tolist() in ([4, 4], [8])
    assert found.cost(table) in (24, 32, 40)


def test_example_4_2() -> None:
    table = table_of_codes(np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 1, 0]]), k=3)
    assert start(table, patterns_of(table), "dr", 1.0, Budget()).cost(table) == 6


@pytest.mark.parametrize(("beta", "stars"), [(1.0, 8), (1.99, 8), (2.0, 16), (3.0, 16)])
def test_cf_covers_with_no_set_beyond_beta(beta: float, stars: int) -> None:
    """Pairs of rows that agree on two of four columns: at β = 2 they are just too dear."""
    rows = [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 2, 2], [1, 1, 3, 3]]
    table = table_of_codes(np.array(rows), k=2)
    assert start(table, patterns_of(table), "cf", beta, Budget()).cost(table) == stars


@pytest.mark.parametrize("algorithm", ["cf", "gr", "ds", "dr"])
def test_near_rows_share_a_group_whatever_stands_between_them(algorithm: str) -> None:
    """Rows that differ in one column, and in their order others that differ in all three."""
    table = table_of_codes(np.array([[0, 1, 1], [1, 2, 2], [2, 1, 1], [3, 2, 2]]), k=2)
    assert start(table, patterns_of(table), algorithm, 1.0, Budget()).cost(table) == 4


def test_blocks_of_fewer_than_k_rows_are_no_candidates() -> None:
    """The first column is never starred: one row stands alone, and is in no set."""
    codes = np.array([[0, 0], [0, 1], [1, 2]])
    table = table_of_codes(codes, 2, np.array([np.inf, 1.0]))
    assert _as_sets(closed_candidates(table)) == {(0, 1)}


def test_a_ball_without_a_radius_holds_equal_rows_alone() -> None:
    table = table_of_codes(np.array([[0, 0]] * 3 + [[0, 1]] * 2), k=2)
    assert start(table, patterns_of(table), "ds", 1.0, Budget()).cost(table) == 0


@pytest.mark.parametrize("seed", range(6))
def test_sets_that_are_too_dear_are_left_out_while_mining(seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, random.integers(2, 5, 7), (60, 7)).astype(np.int32)
    table = table_of_codes(codes, 3)
    every = closed_candidates(table)
    for stars in range(9):
        below = stars * PRICE_UNIT
        found = closed_candidates(table, below=below)
        cheap = every.take(np.flatnonzero(every.prices < below))
        assert _as_sets(found) == _as_sets(cheap)


def test_mining_with_a_limit_needs_less_room() -> None:
    codes = np.random.default_rng(0).integers(0, 3, (400, 10)).astype(np.int32)
    table = table_of_codes(codes, 2)
    room = 60_000
    assert not closed_candidates(table, room).complete
    assert closed_candidates(table, room, below=2 * PRICE_UNIT).complete


def _as_sets(candidates: Any) -> set[tuple[int, ...]]:
    parts = np.split(candidates.members, candidates.starts[1:-1])
    return {tuple(sorted(part.tolist())) for part in parts} if len(candidates) else set()


def test_a_candidate_is_judged_by_the_rows_it_newly_covers() -> None:
    """After {0, 1} the second covers one row for 22, the third two rows for 30."""
    counts, starts, members = np.ones(4, np.int64), np.array([0, 2, 4, 6]), [0, 1, 1, 2, 2, 3]
    prices = np.array([20, 22, 30])
    edges, rows = _gen_cover(counts, 2, 3, starts, np.array(members), prices)
    chosen = [sorted(one.tolist()) for one in np.split(rows, edges[1:-1])]
    assert chosen == [[0, 1], [2, 3]]
