"""Stripped partitions against the classes of a dictionary."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codetables import classes_of, rows_of, tables
from sfumato import kernels

pytestmark = pytest.mark.usefixtures("by")


def classes_in(partition):
    edges = partition.starts.tolist()
    rows = partition.rows.tolist()
    return {frozenset(rows[a:b]) for a, b in itertools.pairwise(edges)}


def shared(rows):
    return {entries for entries in classes_of(rows) if len(entries) > 1}


def pairs(classes, weights):
    return sum(
        weights[i] * weights[j] for entries in classes for i in entries for j in entries if i < j
    )


small = tables(columns=4, rows=25, widest=300)


@given(small, st.booleans(), st.integers(0, 99))
def test_split_after_split_is_the_classes_of_all_columns(table, weighted, seed):
    arrays, cardinalities = table
    if not arrays:
        return
    entries = len(arrays[0])
    drawn = np.random.default_rng(seed).integers(1, 10, entries)
    weights = drawn if weighted else None
    counts = drawn.tolist() if weighted else [1] * entries
    partition = kernels.whole(entries, weights)
    assert partition.pairs == pairs(classes_in(partition), counts)
    for at, (codes, cardinality) in enumerate(zip(arrays, cardinalities, strict=True)):
        expected = shared(rows_of(arrays[: at + 1]))
        announced = kernels.pairs_after(partition, codes, cardinality)
        partition = kernels.split(partition, codes, cardinality)
        assert classes_in(partition) == expected
        assert partition.classes == len(expected)
        assert partition.pairs == announced == pairs(expected, counts)
    at_once = kernels.partition_of(arrays, cardinalities, weights)
    assert classes_in(at_once) == classes_in(partition)
    assert at_once.pairs == partition.pairs


@given(small, st.integers(0, 300))
def test_a_bound_stops_early_but_never_wrongly(table, bound):
    arrays, cardinalities = table
    for codes, cardinality in zip(arrays, cardinalities, strict=True):
        partition = kernels.whole(len(codes))
        exact = kernels.pairs_after(partition, codes, cardinality)
        bounded = kernels.pairs_after(partition, codes, cardinality, bound)
        assert (bounded == exact) if exact <= bound else (bounded > bound)


def test_a_bound_that_the_first_class_just_reaches_does_not_end_the_count():
    first, second = np.array([0, 0, 0, 1, 1, 1], np.uint8), np.zeros(6, np.uint8)
    partition = kernels.partition_of([first], [2])
    assert kernels.pairs_after(partition, second, 1, bound=3) == 6
    giant = np.r_[np.zeros(3), np.arange(1, 70_000), [1]].astype(np.uint32)
    assert kernels.pairs_after(kernels.whole(len(giant)), giant, 70_000, bound=3) == 4


def test_a_giant_class_is_abandoned_before_its_end(by):
    codes = np.zeros(1_000_000, np.uint8)
    found = kernels.pairs_after(kernels.whole(len(codes)), codes, 1, bound=10)
    assert found > 10
    assert by == "numpy" or found < len(codes) * (len(codes) - 1) // 2


@given(small, st.integers(0, 99))
def test_renumbered_partitions_work_on_gathered_columns(table, seed):
    arrays, cardinalities = table
    if len(arrays) < 2:
        return
    weights = np.random.default_rng(seed).integers(1, 5, len(arrays[0]))
    partition = kernels.partition_of(arrays[:1], cardinalities[:1], weights)
    gathered = [array[partition.rows] for array in arrays]
    there = kernels.split(kernels.renumbered(partition), gathered[1], cardinalities[1])
    here = kernels.split(partition, arrays[1], cardinalities[1])
    assert there.pairs == here.pairs
    assert partition.rows[there.rows].tolist() == here.rows.tolist()


def test_too_many_rows_for_pairs_in_64_bits():
    with pytest.raises(OverflowError):
        kernels.whole(2, np.array([2**32, 1], np.int64))
