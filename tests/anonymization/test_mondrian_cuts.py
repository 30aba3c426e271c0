"""Strict Mondrian cuts as a plain recursion over lists of entries would."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.methods.mondrian import _positions, _runs, _sorted_runs, solve
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import axes_of, published_groups
from sfumato.anonymization.request import Request
from sfumato.hierarchy import EncodedHierarchy, Hierarchy, ValueSets

JOBS = Hierarchy.from_levels([list("abcd"), ["ab", "ab", "cd", "cd"], ["*"] * 4])


@st.composite
def problems(draw):
    rows = draw(st.integers(6, 60))
    column = lambda cells: draw(st.lists(cells, min_size=rows, max_size=rows))  # noqa: E731
    table = pa.table(
        {
            "age": pa.array(column(st.one_of(st.none(), st.integers(20, 29))), pa.int64()),
            "pay": pa.array(column(st.sampled_from([1, 5, 10**9])), pa.int64()),
            "job": column(st.sampled_from("abcd")),
            "city": column(st.sampled_from(["Graz", "Linz", "Wien", "Enns", "Rust"])),
        }
    )
    qi = tuple(table.column_names)
    k = draw(st.integers(1, 5))
    asked = {"qi": qi, "k": k, "hierarchies": {"job": JOBS}, "infer_hierarchies": False}
    demand = Request.of(asked)
    return prepare(opened := sf.table(table), demand.opened(opened), sf.Budget())


def by_recursion(problem):
    """Groups of entries."""
    axes = axes_of(problem)
    table, _ = _positions(problem, None)
    shapes = [problem.shapes[name] for name in problem.qi]
    counts, k = problem.counts, problem.rules.k

    def spread(axis, held):
        shape = shapes[axis]
        if isinstance(shape, ValueSets):
            return (len(held) - 1) / (shape.size - 1)
        if isinstance(shape, EncodedHierarchy):
            return shape.loss[lca(shape, held[0], held[-1])]
        places = axes.places[axes.offsets[axis] :]
        return min(1.0, places[held[-1]] - places[held[0]])

    def lca(shape, low, high):
        covering = [
            n for n in range(shape.nodes) if shape.first[n] <= low and shape.last[n] >= high
        ]
        return min(covering, key=lambda node: shape.leaf_count[node])

    def split(entries):
        total = int(counts[entries].sum())
        held = [sorted(set(row[entries].tolist())) for row in table]
        axes_left = [axis for axis in range(len(shapes)) if len(held[axis]) > 1]
        for axis in sorted(axes_left, key=lambda axis: -spread(axis, held[axis])):
            shape, places = shapes[axis], held[axis]
            best = None
            for here, following in pairwise(places):
                if isinstance(shape, EncodedHierarchy) and lca(shape, here, following) != lca(
                    shape, places[0], places[-1]
                ):
                    continue
                left = int(counts[[e for e in entries if table[axis, e] <= here]].sum())
                if min(left, total - left) < k:
                    continue
                off = abs(Fraction(left) - Fraction(total, 2))
                if best is None or off < best[0]:
                    best = (off, here)
            if best is not None and total >= 2 * k:
                left = [e for e in entries if table[axis, e] <= best[1]]
                right = [e for e in entries if table[axis, e] > best[1]]
                return split(left) + split(right)
        return [frozenset(entries)]

    return set(split(list(range(problem.entries.entries))))


@given(problems())
@settings(max_examples=120)
def test_groups_are_those_of_the_recursion(problem):
    solution = solve(problem)
    groups = solution.groups
    found = {frozenset(np.flatnonzero(groups == group).tolist()) for group in set(groups.tolist())}
    assert found == by_recursion(problem)
    again = published_groups(problem, groups, int(groups.max()) + 1)
    for name, shown in solution.published.items():
        assert shown.array().to_pylist() == again[name].array().to_pylist()
        assert shown.loss[shown.codes].tolist() == pytest.approx(
            again[name].loss[again[name].codes].tolist()
        )


def test_common_categories_are_parted_first():
    jobs = ["a"] * 5 + ["z"] * 10 + ["b"] * 2 + ["y"] * 10
    release = sf.anonymize(pa.table({"job": jobs}), qi=["job"], k=5)
    shown = pa.Table.from_batches(list(release.table.batches(["job"]))).column("job").to_pylist()
    assert set(shown) == {"y", "z", "{a, b}"}


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(1, 3)), min_size=1, max_size=80))
@settings(max_examples=60)
def test_rows_of_each_position_whether_near_or_far_apart(entries):
    column = np.array([position for position, _ in entries], np.uint16)
    weights = np.array([rows for _, rows in entries], np.int32)
    expected = Counter()
    for position, rows in entries:
        expected[position] += rows
    sizes, runs = np.zeros(40_001, np.int64), np.zeros((2, 40_001), np.int64)
    found = _runs(column, weights, int(column.min()), int(column.max()), sizes, runs)
    assert list(zip(*runs[:, :found].tolist(), strict=True)) == sorted(expected.items())


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=40))
def test_positions_that_lie_far_apart_are_sorted(entries):
    column, weights = np.array(entries).T.copy()
    runs, compiled = np.zeros((2, 2, len(entries)), np.int64)
    found = _sorted_runs.instead(column, weights, runs)
    assert found == _sorted_runs.dispatcher(column, weights, compiled)
    assert runs[:, :found].tolist() == compiled[:, :found].tolist()
    assert runs[0, :found].tolist() == sorted(set(column.tolist()))
    assert runs[1].sum() == weights.sum()
