"""Boundaries: values that may not become the root may not be starred."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.verb import anonymize
from sfumato.errors import ParameterError
from sfumato.hierarchy import Hierarchy
from star_partitions import best_cost

PLACES = ["n1", "n2", "s1", "s2"]
TREE = Hierarchy.from_levels(
    [pa.array(PLACES), pa.array(["north", "north", "south", "south"]), pa.array(["*"] * 4)]
)
MARKED = {"north": [0, 1], "s1": [2]}
"""Marks, and the places below them, which must stay in sight."""


def people(codes: Any) -> pa.Table:
    return pa.table(
        {
            "place": [PLACES[code] for code in codes[:, 0]],
            "b": [f"b{code}" for code in codes[:, 1]],
            "c": [f"c{code}" for code in codes[:, 2]],
        }
    )


@settings(max_examples=40)
@given(
    st.lists(st.tuples(*map(st.integers, (0, 0, 0), (3, 2, 2))), min_size=3, max_size=9),
    st.lists(st.sampled_from(sorted(MARKED)), min_size=1, max_size=2, unique=True),
)  # fmt: skip
def test_marked_values_are_never_starred(rows: list[tuple[int, ...]], marks: list[str]) -> None:
    codes, k = np.array(rows), 2
    stays = [place for mark in marks for place in MARKED[mark]]
    block = np.where(np.isin(codes[:, 0], stays), codes[:, 0] + 1, 0)
    held = Counter(block.tolist())
    kept = np.array([held[b] >= k for b in block])
    asked: dict[str, Any] = {
        "qi": ["place", "b", "c"], "k": k, "method": "cells", "bound": "exact",
        "hierarchies": {"place": TREE}, "boundaries": {"place": {"marks": marks}},
    }  # fmt: skip
    if not kept.any():
        with pytest.raises(ParameterError, match=r"must not be starred|keep them apart"):
            anonymize(people(codes), **asked)
        return
    release = anonymize(people(codes), **asked)
    assert release.suppressed_rows == (~kept).sum()
    walls = [1.0, 1.0, 1.0, float("inf")]
    best = best_cost(np.c_[codes, block][kept], k, walls)
    assert release.suppressed_cells == best
    assert release.details["proven_optimum"]
    shown = Counter(release.table.sample(kept.sum()).column("place").to_pylist())
    before = Counter(PLACES[code] for code in codes[kept, 0])
    for place in stays:
        assert shown[PLACES[place]] == before[PLACES[place]]


def test_a_width_keeps_numbers_in_sight() -> None:
    random = np.random.default_rng(4)
    table = pa.table({"a": random.integers(0, 6, 300), "b": random.integers(0, 9, 300)})
    release = anonymize(
        table, qi=["a", "b"], k=3, method="cells", boundaries={"a": {"max_width": 1}}
    )
    assert release.table.sample(300).column("a").to_pylist() == table.column("a").to_pylist()
    wide = anonymize(table, qi=["a", "b"], k=3, method="cells", boundaries={"a": {"max_width": 5}})
    free = anonymize(table, qi=["a", "b"], k=3, method="cells")
    assert wide.suppressed_cells == free.suppressed_cells <= release.suppressed_cells
