"""Reservoirs are uniform, independent of how a stream is cut, and mergeable."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sfumato.engines.stream import PairReservoir, RowReservoir
from sfumato.errors import ParameterError


def batches(rows: int, cuts: list[int]) -> list[pa.RecordBatch]:
    edges = [0, *sorted(cut % (rows + 1) for cut in cuts), rows]
    values = np.arange(rows)
    return [pa.record_batch({"x": values[a:b]}) for a, b in itertools.pairwise(edges)]


def rows_sample(rows: int, size: int, seed: int, cuts: list[int]) -> list[int]:
    reservoir = RowReservoir(size, seed)
    for batch in batches(rows, cuts):
        reservoir.add(batch)
    return list(reservoir.sample().to_pydict().get("x", []))


def pair_sample(rows: int, size: int, seed: int, cuts: list[int]) -> list[tuple[int, int]]:
    reservoir = PairReservoir(size, seed)
    for batch in batches(rows, cuts):
        reservoir.add(batch)
    left, right = reservoir.pairs()
    if not left.num_columns:
        return []
    return list(zip(left["x"].to_pylist(), right["x"].to_pylist(), strict=True))


@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 99), st.lists(st.integers(0, 60)))
def test_rows_are_distinct_and_do_not_depend_on_the_cut(rows, size, seed, cuts):
    whole = rows_sample(rows, size, seed, [])
    assert rows_sample(rows, size, seed, cuts) == whole
    assert len(whole) == len(set(whole)) == min(rows, size)


@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 99), st.lists(st.integers(0, 60)))
def test_pairs_are_of_different_rows_and_do_not_depend_on_the_cut(rows, size, seed, cuts):
    whole = pair_sample(rows, size, seed, [])
    assert pair_sample(rows, size, seed, cuts) == whole
    assert len(whole) == (size if rows > 1 else 0)
    assert all(a != b for a, b in whole)


def assert_uniform(counts: list[int]) -> None:
    assert chisquare(counts).pvalue > 1e-6


ROUNDS = pytest.mark.parametrize("rounds", [800, pytest.param(6000, marks=pytest.mark.slow)])


@ROUNDS
def test_every_row_is_equally_likely(rounds):
    counts = np.zeros(30, dtype=int)
    for seed in range(rounds):
        counts[rows_sample(30, 7, seed, [11, 20])] += 1
    assert_uniform(list(counts))


def test_every_pair_is_equally_likely():
    found = pair_sample(12, 60_000, 5, [3, 7])
    counts = dict.fromkeys(itertools.combinations(range(12), 2), 0)
    for pair in found:
        counts[tuple(sorted(pair))] += 1
    assert_uniform(list(counts.values()))


def merged(make: Callable[[int], object], sizes: tuple[int, ...]) -> object:
    parts, start = [], 0
    for seed, size in enumerate(sizes):
        part = make(seed)
        part.add(pa.record_batch({"x": np.arange(start, start + size)}))
        parts.append(part)
        start += size
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole


@pytest.mark.parametrize("sizes", [(3, 9), (1, 11), (11, 1), (0, 12), (12, 0), (1, 1, 10)])
def test_merged_pairs_are_uniform_over_the_union(sizes):
    left, right = merged(lambda seed: PairReservoir(60_000, seed + 100), sizes).pairs()
    counts = dict.fromkeys(itertools.combinations(range(12), 2), 0)
    for pair in zip(left["x"].to_pylist(), right["x"].to_pylist(), strict=True):
        counts[tuple(sorted(pair))] += 1
    assert_uniform(list(counts.values()))


@ROUNDS
@pytest.mark.parametrize("sizes", [(3, 27), (28, 2), (10, 10, 10), (0, 30)])
def test_merged_rows_are_uniform_over_the_union(sizes, rounds):
    counts = np.zeros(30, dtype=int)
    for round_ in range(rounds):
        sample = merged(lambda seed, r=round_: RowReservoir(7, 1000 * r + seed), sizes).sample()
        values = sample["x"].to_pylist()
        assert len(set(values)) == 7
        counts[values] += 1
    assert_uniform(list(counts))


def test_memory_stays_proportional_to_the_sample():
    reservoir = PairReservoir(500, seed=3)
    for start in range(0, 400_000, 1000):
        reservoir.add(pa.record_batch({"x": np.arange(start, start + 1000)}))
    assert reservoir._slots._stored <= 4 * 1000 + 4096
    assert reservoir.rows_seen == 400_000


@pytest.mark.parametrize("kind", [RowReservoir, PairReservoir])
def test_impossible_samples_are_refused(kind):
    with pytest.raises(ParameterError, match="not possible"):
        kind(0)
    with pytest.raises(ParameterError, match="merged"):
        kind(2).merge(kind(3))
