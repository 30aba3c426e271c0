"""Many columns: near rows give a true bound and useful patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.cells import candidates as patterns_module
from sfumato.anonymization.cells.bounds import opt_lb
from sfumato.anonymization.cells.candidates import Neighbours, patterns_of
from sfumato.anonymization.cells.paper import approx_dr
from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable, table_of_codes
from sfumato.anonymization.verb import anonymize
from sfumato.budget import Budget
from sfumato.errors import ColumnError
from star_partitions import best_cost, tiny_tables

PRICES = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25, np.inf])


def prices_to_next(table: CellTable) -> list[int]:
    """What the columns cost in which the last of the k nearest rows differs, by sorting them."""
    found = []
    for i in range(table.entries):
        differ = table.codes != table.codes[i]
        away = differ.astype(np.int64) @ np.maximum(table.prices, 0)
        away[differ[:, table.prices < 0].any(axis=1)] = 1 << 40
        order = np.argsort(away, kind="stable")
        reached = np.searchsorted(np.cumsum(table.counts[order]), table.k)
        found.append(int(away[order][reached]) if reached < table.entries else 1 << 40)
    return found


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 12), st.integers(2, 5), st.data())
def test_distances_never_exceed_those_of_sorting(
    seed: int, rows: int, width: int, k: int, data: st.DataObject
) -> None:
    codes = np.random.default_rng(seed).integers(0, 3, (rows, width))
    prices = data.draw(st.lists(PRICES, min_size=width, max_size=width))
    table = table_of_codes(codes, k, np.array(prices))
    floor = Neighbours(table).floor(np.arange(table.entries))
    for found, true in zip(floor.tolist(), prices_to_next(table), strict=True):
        assert found <= true
        if len(set(prices) - {0.0, np.inf}) == 1 and true < 1 << 40:
            assert found == true


@settings(max_examples=60)
@given(tiny_tables())
def test_floor_is_below_the_bound_and_the_optimum(given: tuple[Any, int]) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    floor = Neighbours(table).floor(np.arange(table.entries))
    assert (floor <= opt_lb(table)).all()
    assert int(floor @ table.counts) <= round(best_cost(codes, k) * PRICE_UNIT)


@settings(max_examples=60)
@given(tiny_tables(columns=6), st.integers(4, 40))
def test_bound_holds_with_few_patterns(given: tuple[Any, int], most: int) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    patterns = patterns_of(table, most)
    assert len(patterns) <= max(most, 2**table.width)
    first = approx_dr(table, patterns)
    assert first.sizes().min() >= k
    best = round(best_cost(codes, k) * PRICE_UNIT)
    assert int(opt_lb(table, patterns) @ table.counts) <= best <= first.units(table)


def noisy_kinds(rows: int, width: int, seed: int = 0) -> Any:
    """Rows of a few kinds with a share of cells replaced."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 4, (rows // 20, width))
    codes = kinds[random.integers(0, len(kinds), rows)]
    return np.where(random.random(codes.shape) < 0.08, 4 + random.integers(0, 50), codes)


def test_near_rows_find_what_cheap_patterns_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of_codes(noisy_kinds(600, 30), 5)
    patterns = patterns_of(table)
    assert not patterns.complete
    cost, least = approx_dr(table, patterns).units(table), opt_lb(table, patterns)
    nothing = np.zeros(table.entries, dtype=np.int64), np.zeros(0, dtype=np.int64)
    monkeypatch.setattr(patterns_module, "_near", lambda *_: nothing)
    plain = patterns_of(table)
    assert cost < 0.9 * approx_dr(table, plain).units(table)
    assert least @ table.counts > opt_lb(table, plain) @ table.counts


def test_samples_serve_tables_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = noisy_kinds(900, 30)
    table = table_of_codes(codes, 5)
    whole = approx_dr(table).units(table)
    least = opt_lb(table)
    monkeypatch.setattr(patterns_module, "_SAMPLE", 300)
    monkeypatch.setattr(patterns_module, "_MOST_PAIRS", 300 * table.entries)
    patterns = patterns_of(table)
    assert patterns.floor is not None
    assert (patterns.floor > 0).sum() <= 300
    assert (opt_lb(table, patterns) <= least).all()
    assert approx_dr(table, patterns).units(table) <= 1.5 * whole


def test_no_time_to_compare_rows_still_gives_patterns() -> None:
    table = table_of_codes(noisy_kinds(300, 30), 5)
    budget = Budget(seconds=0)
    patterns = patterns_of(table, budget=budget)
    assert patterns.kept[-1] == 0
    assert (approx_dr(table, patterns).sizes() >= 5).all()


def test_sixty_columns_are_released_and_sixty_three_refused() -> None:
    codes = noisy_kinds(200, 63)
    table = pa.table({f"c{j}": codes[:, j] for j in range(63)})
    names = table.column_names
    release = anonymize(table.select(names[:60]), qi=names[:60], k=4, method="cells")
    assert release.k is not None
    assert release.k >= 4
    assert release.lower_bound is not None
    assert 0 < release.lower_bound <= release.suppressed_cells
    with pytest.raises(ColumnError, match="at most 62"):
        anonymize(table, qi=names, k=4, method="cells")
