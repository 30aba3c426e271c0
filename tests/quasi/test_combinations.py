"""The most identifying pairs and triples, against counting them all."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.budget import Budget
from sfumato.columns import profile as looking
from sfumato.columns.profile import profile
from sfumato.quasi import scan as module
from sfumato.quasi.scan import most_identifying


def correlated(rows: int, seed: int = 0, columns: int = 7) -> pa.Table:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 1000, rows)
    widths = [3, 5, 40, 7, 300, 2, 60, 11][:columns]
    return pa.table(
        {
            f"c{i}": (base * (i % 3) // 2 + rng.integers(0, width, rows)) % width
            for i, width in enumerate(widths)
        }
    )


def found_in(table: pa.Table, budget: Budget | None = None):
    opened = sf.table(table)
    budget = budget or Budget()
    look = profile(opened, seed=0, budget=budget)
    return opened, most_identifying(opened, opened.columns, look, seed=0, budget=budget)


def most_unique(opened, size):
    """Unique rows of the sets in which every column helps, most first."""

    def unique(columns):
        return opened.class_sizes(columns).unique_rows

    counted = [
        unique(columns)
        for columns in combinations(opened.columns, size)
        if size == 2 or all(unique(pair) < unique(columns) for pair in combinations(columns, 2))
    ]
    return sorted(counted, reverse=True)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(2, 400))
def test_small_tables_are_counted_whole(seed, rows):
    opened, found = found_in(correlated(rows, seed, columns=5))
    assert found.choice is None
    for size in (2, 3):
        shown = [m for m in found.best if len(m.columns) == size]
        assert [m.unique_rows for m in shown] == most_unique(opened, size)[: module.SHOWN]
    for measured in (*found.best, *found.ladder):
        sizes = opened.class_sizes(measured.columns)
        assert measured.unique_rows == sizes.unique_rows
        assert measured.unseparated_pairs == sizes.unseparated_pairs


def test_the_ladder_adds_one_column_at_a_time_and_the_best_one():
    opened, found = found_in(correlated(2000))
    standing: tuple[str, ...] = ()
    for rung in found.ladder:
        assert rung.columns[:-1] == standing
        others = [(*standing, name) for name in opened.columns if name not in standing]
        assert rung.unique_rows == max(opened.class_sizes(o).unique_rows for o in others)
        standing = rung.columns


@pytest.fixture
def small_samples(monkeypatch):
    """Treat a few thousand rows as a large table."""
    monkeypatch.setattr(looking, "ROWS_AT_HAND", 4000)
    monkeypatch.setattr(module, "CELLS_TO_COUNT", 20_000)
    monkeypatch.setattr(module, "ROWS_AT_FIRST", (500, 1000))
    monkeypatch.setattr(module, "FINALISTS", 8)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("seed", range(5))
def test_large_tables_state_what_they_may_have_missed(seed):
    opened, found = found_in(correlated(20_000, seed))
    choice = found.choice
    assert choice is not None
    assert (choice.first_sample, choice.sample) == (500, 4000)
    for size, limit in ((2, choice.other_pairs_at_most), (3, choice.other_triples_at_most)):
        returned = {m.columns for m in found.best if len(m.columns) == size}
        others = [s for s in combinations(opened.columns, size) if s not in returned]
        assert limit is not None
        assert max(opened.class_sizes(s).unique for s in others) <= limit
    for measured in found.best:
        assert measured.unique_rows == opened.class_sizes(measured.columns).unique_rows


@pytest.mark.slow
@pytest.mark.usefixtures("small_samples")
def test_the_stated_bound_holds_as_often_as_it_says():
    """1 % of 300 tables may break it; 12 or more would be a chance of one in ten thousand."""
    broken = 0
    for seed in range(300):
        opened, found = found_in(correlated(6_000, seed, columns=5))
        assert found.choice is not None
        limit = found.choice.other_pairs_at_most
        returned = {m.columns for m in found.best}
        others = [s for s in combinations(opened.columns, 2) if s not in returned]
        broken += max(opened.class_sizes(s).unique for s in others) > limit
    assert broken < 12


@pytest.mark.usefixtures("small_samples")
def test_wide_tables_say_that_not_all_triples_were_looked_at(monkeypatch):
    monkeypatch.setattr(module, "MOST_TRIPLES", 10)
    monkeypatch.setattr(module, "EXTENDED", 2)
    _, found = found_in(correlated(5000))
    assert found.choice is not None
    assert found.choice.other_triples_at_most is None
    assert found.choice.other_pairs_at_most is not None
    assert any(len(m.columns) == 3 for m in found.best)


def test_very_wide_tables_combine_the_columns_that_tell_most(monkeypatch):
    """Copies of one column have as many values as others, and say nothing beside it."""
    monkeypatch.setattr(module, "WIDEST", 8)
    rng = np.random.default_rng(3)
    base = rng.integers(0, 6, 300)
    copies = {f"q{i}": np.where(rng.random(300) < 0.99, base, (base + i) % 6) for i in range(12)}
    others = {f"z{i}": rng.integers(0, 6, 300) for i in range(6)}
    opened, found = found_in(pa.table({**copies, **others}))
    assert found.choice is not None
    assert found.choice.other_pairs_at_most is None
    assert "Not all combinations were looked at." in found.choice.said(300)
    assert found.ladder[-1].alone > 290
    best = max(measured.alone for measured in found.best if len(measured.columns) == 3)
    assert best >= 0.9 * most_unique(opened.select([*others, "q0"]), 3)[0]


def test_no_time_is_no_answer_rather_than_a_wrong_one():
    opened = sf.table(correlated(1000))
    look = profile(opened, seed=0, budget=Budget())
    budget = Budget(seconds=0)
    found = most_identifying(opened, opened.columns, look, seed=0, budget=budget)
    assert (found.best, found.ladder) == ((), ())
    assert budget.stopped_by == "time"
