"""Reductions over groups against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato import kernels

pytestmark = pytest.mark.usefixtures("by")

grouped = st.integers(1, 6).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, 299)), max_size=30),
    )
)


@given(grouped)
def test_reductions(given_):
    count, entries = given_
    groups = np.array([group for group, _ in entries], np.uint8)
    codes = np.array([code for _, code in entries], np.uint16)
    members = [[code for group, code in entries if group == g] for g in range(count)]
    assert kernels.group_sums(groups, count).tolist() == [len(m) for m in members]
    weights = codes.astype(np.int64) + 1
    expected = [sum(code + 1 for code in m) for m in members]
    assert kernels.group_sums(groups, count, weights).tolist() == expected
    least = [min(m, default=2**32 - 1) for m in members]
    assert kernels.group_min(groups, count, codes).tolist() == least
    most = [max(m, default=0) for m in members]
    assert kernels.group_max(groups, count, codes).tolist() == most
    different = [len(set(m)) for m in members]
    assert kernels.group_distinct(groups, count, codes, 300).tolist() == different
    order, starts = kernels.group_rows(groups, count)
    assert order.tolist() == sorted(range(len(entries)), key=lambda i: entries[i][0])
    assert np.diff(starts).tolist() == [len(m) for m in members]
