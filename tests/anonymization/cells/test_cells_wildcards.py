"""Stars that match anything: every row still matches enough, with the fewest on tiny tables."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.cells.method import Loosened, _all_match, fewest, loosened
from sfumato.anonymization.cells.paper import approx_dr
from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable, table_of_codes
from sfumato.anonymization.verb import anonymize
from sfumato.errors import ParameterError
from star_partitions import tiny_tables

LOCAL = pa.table(
    {
        "age": ["young", "young", "old", "old"],
        "region": ["north", "north", "south", "west"],
        "sex": ["F", "F", "M", "M"],
    }
)


@cache
def choices(rows: int, columns: int) -> Any:
    """Every choice of starred cells (choices x rows x columns)."""
    bits = np.arange(2 ** (rows * columns))[:, None] >> np.arange(rows * columns)
    return (bits & 1).astype(bool).reshape(-1, rows, columns)


def matches(codes: Any, hidden: Any) -> Any:
    """Rows that each row matches, itself included, for one or many choices of hidden cells."""
    differ = codes[:, None, :] != codes[None, :, :]
    open_ = ~hidden[..., :, None, :] & ~hidden[..., None, :, :]
    return (~(differ & open_).any(axis=-1)).sum(axis=-1)


def least(codes: Any, k: int, prices: Any, blank: Any) -> float:
    starred = choices(*codes.shape)
    good = (matches(codes, starred | blank) >= k).all(axis=1)
    return float((starred @ np.asarray(prices)).sum(axis=1)[good].min())


def cells_of(table: CellTable, found: Loosened) -> tuple[Any, Any]:
    """Codes and stars, one row a row."""
    pieces = found.partition
    held = np.bincount(pieces.entry, weights=pieces.rows, minlength=table.entries)
    assert (held == table.counts).all()
    entry, group = np.repeat(pieces.entry, pieces.rows), np.repeat(pieces.group, pieces.rows)
    return table.codes[entry], found.starred[group]


@settings(max_examples=150)
@given(tiny_tables(rows=4, columns=3), st.data())
def test_fewest_is_the_least_of_all_choices(given: tuple[Any, int], data: st.DataObject) -> None:
    codes, k = given
    width = codes.shape[1]
    offered = st.sampled_from([1.0, 1.0, 2.0, 0.5])
    prices = data.draw(st.lists(offered, min_size=width, max_size=width))
    table = table_of_codes(codes, k, np.array(prices))
    hollow = st.lists(st.booleans(), min_size=width, max_size=width)
    # One of the values may stand for a missing cell, which matches anything anyway.
    blank = (table.codes == 0) & np.array(data.draw(hollow))
    found = fewest(table, blank)
    assert found is not None
    rows, starred = cells_of(table, found)
    hidden = np.repeat(blank, table.counts, axis=0)
    assert (matches(rows, starred | ((rows == 0) & hidden.any(axis=0))) >= k).all()
    expanded = np.repeat(table.codes, table.counts, axis=0)
    best = round(least(expanded, k, prices, hidden) * PRICE_UNIT)
    assert found.units == found.bound == best


@settings(max_examples=150)
@given(tiny_tables(rows=12, columns=4))
def test_loosened_groups_still_match(given: tuple[Any, int]) -> None:
    codes, k = given
    table = table_of_codes(codes, k)
    groups = approx_dr(table)
    found = loosened(table, groups)
    rows, starred = cells_of(table, found)
    assert (matches(rows, starred) >= k).all()
    assert starred.sum() * PRICE_UNIT == found.units <= groups.units(table)
    if groups.units(table):
        assert found.units < groups.units(table)


def test_large_groups_match_too() -> None:
    random = np.random.default_rng(0)
    table = table_of_codes(random.integers(0, 6, (700, 3)), 200)
    found = loosened(table, approx_dr(table))
    rows, starred = cells_of(table, found)
    assert (matches(rows, starred) >= 200).all()


def by_importance(codes: Any, k: int, order: list[int]) -> int:
    """Stars of a rule of thumb: a row that matches too few loses columns in a given order."""
    hidden = np.zeros(codes.shape, dtype=bool)
    for row in range(len(codes)):
        for column in order:
            if matches(codes, hidden)[row] >= k:
                break
            hidden[row, column] = True
    return int(hidden.sum())


def test_one_star_where_an_order_of_importance_uses_three() -> None:
    # `region` is to be spared most, so `sex` and `age` go first, for nothing.
    codes = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 2, 1]])
    assert by_importance(codes, 2, order=[2, 0, 1]) == 3
    asked: dict[str, Any] = {"qi": ["age", "region", "sex"], "k": 2, "method": "cells"}
    release = anonymize(LOCAL, **asked, missing="wildcard")
    assert release.suppressed_cells == release.lower_bound == 1
    assert release.details["proven_optimum"]
    assert release.details["cost"] == 1
    assert all(finding.holds for finding in release.findings)
    assert release.findings[0].say.startswith("with stars that match anything, k-anonymity on age")
    plain = anonymize(LOCAL, **asked)
    assert plain.findings[0].say.startswith("k-anonymity on age")
    assert plain.suppressed_cells == plain.lower_bound == 2


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_release_keeps_the_promise_it_records(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    holes = [None if v == 0 else int(v) for v in random.integers(0, 5, 80)]
    names = [f"b{v}" for v in random.integers(0, 5, 80)]
    table = pa.table({"a": random.integers(0, 5, 80), "b": names, "c": holes})
    asked: dict[str, Any] = {"qi": ["a", "b", "c"], "k": k, "method": "cells", "bound": "lp"}
    release = anonymize(table, **asked, missing="wildcard")
    assert all(finding.holds for finding in release.findings)
    assert release.promises[0].to_dict()["missing"] == "wildcard"
    assert release.suppressed_cells < anonymize(table, **asked).suppressed_cells
    assert release.lower_bound is None


def test_other_rules_hold_by_values_and_markers_are_refused() -> None:
    table = LOCAL.append_column("ill", pa.array(["flu", "cold", "flu", "cold"]))
    asked: dict[str, Any] = {"qi": ["age", "region"], "k": 2, "method": "cells"}
    wild = anonymize(table, **asked, missing="wildcard", sensitive=["ill"], l=2)
    assert all(finding.holds for finding in wild.findings)
    assert (
        wild.suppressed_cells == anonymize(table, **asked, sensitive=["ill"], l=2).suppressed_cells
    )
    with pytest.raises(ParameterError, match="the marker is"):
        anonymize(table, **asked, missing="wildcard", marker="(hidden)")


def test_every_row_matches_k_rows_or_the_answer_is_refused() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 1]])
    nothing, middle = np.zeros((3, 2), bool), np.zeros((3, 2), bool)
    middle[1] = True
    assert _all_match(codes, nothing, 1)
    assert not _all_match(codes, nothing, 2)
    assert _all_match(codes, middle, 2)
    assert not _all_match(codes, middle, 3)
