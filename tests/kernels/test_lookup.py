"""Rows found in a table of combinations, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codetables import rows_of, tables
from sfumato import kernels

pytestmark = pytest.mark.usefixtures("by")


@given(tables(columns=8), st.data())
def test_rows_find_their_combination(table, data):
    arrays, cardinalities = table
    rows = rows_of(arrays)
    if not rows:
        return
    combinations = sorted(set(rows))
    known = data.draw(st.lists(st.sampled_from(combinations), unique=True, max_size=20))
    columns = [np.array([row[at] for row in known], array.dtype) for at, array in enumerate(arrays)]
    lookup = kernels.Lookup(columns, cardinalities)
    place = {row: at for at, row in enumerate(known)}
    assert lookup.find(arrays).tolist() == [place.get(row, -1) for row in rows]


@given(
    st.lists(st.integers(0, 3), max_size=40),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(1, 4)), max_size=8),
    st.integers(1, 7),
)
def test_ordinal_ranges_are_counted_over_all_calls(rows, drawn, step):
    # Ranges of one combination must not overlap: they are laid one after the other with gaps.
    ends: dict[int, int] = {}
    entries = []
    for code, gap, width in drawn:
        first = ends.get(code, 0) + gap
        ends[code] = first + width
        entries.append((code, first, first + width))
    entries = entries[::-1]
    lookup = kernels.Lookup(
        [np.array([code for code, _, _ in entries], np.uint8)],
        [4],
        np.array([first for _, first, _ in entries], np.int64),
        np.array([last for _, _, last in entries], np.int64),
    )
    seen: dict[int, int] = {}
    expected = []
    for row in rows:
        ordinal = seen.get(row, 0)
        seen[row] = ordinal + 1
        matching = [
            at for at, (code, first, last) in enumerate(entries)
            if code == row and first <= ordinal < last
        ]  # fmt: skip
        expected.append(matching[0] if matching else -1)
    found = []
    for at in range(0, len(rows), step):
        found += lookup.find([np.array(rows[at : at + step], np.uint8)]).tolist()
    assert found == expected


def test_three_hundred_columns():
    generator = np.random.default_rng(3)
    table = generator.integers(0, 200, (300, 1000)).astype(np.uint8)
    lookup = kernels.Lookup(list(table), [200] * 300)
    order = generator.permutation(1000)
    changed = table[:, order].copy()
    changed[299, :10] ^= 1  # only the last column tells these rows from a combination
    found = lookup.find(list(changed))
    assert (found[:10] == -1).all()
    assert np.array_equal(found[10:], order[10:])


def test_no_columns_is_one_combination():
    lookup = kernels.Lookup([], [], entries=1)
    assert lookup.find([], entries=3).tolist() == [0, 0, 0]


def test_a_doubled_combination_needs_ranges():
    with pytest.raises(ValueError, match="twice"):
        kernels.Lookup([np.zeros(2, np.uint8)], [1])
