"""Generalization boundaries, on the example of Miller, Campan & Truta (Figures 2 to 4)."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from cli_tools import sfumato
from sfumato.errors import ColumnError, HierarchyError, InputError, ParameterError
from sfumato.hierarchy import Boundaries, Ranges, ValueSets, parse_arx
from sfumato.utility.comparison import boundary_violations

LOCATION = """\
San Diego;California;West Coast;United States
Los Angeles;California;West Coast;United States
Wichita;Kansas;Midwest;United States
Kansas City;Kansas;Midwest;United States
Lincoln;Nebraska;Midwest;United States
"""
VALUES = pa.array(["San Diego", "Los Angeles", "Wichita", "Kansas City", "Lincoln"])
ROWS = np.array([0, 1, 2, 3, 4, 4, 2])  # r1 … r7


def location() -> tuple[object, object]:
    bound = parse_arx(LOCATION).bind(VALUES, "location")
    marks = {"location": {"marks": ["California", "Kansas", "Midwest"]}}
    return bound, Boundaries(marks).limits({"location": bound})["location"]


def test_magset_of_the_paper() -> None:
    _, limit = location()
    assert limit.magset == ["California", "Kansas", "Midwest"]


def test_violations_of_the_paper() -> None:
    bound, limit = location()
    hierarchy = bound.hierarchy
    node = {
        name: int(np.flatnonzero(bound.origin == hierarchy.node(name))[0])
        for name in ("California", "Kansas", "Midwest", "Lincoln", "United States")
    }
    california, kansas, midwest = node["California"], node["Kansas"], node["Midwest"]
    mm1 = bound.published([california] * 2 + [midwest] * 5)
    assert limit.violations(ROWS, mm1) == 3  # r3, r4 and r7: Kansas became Midwest
    mm2 = bound.published([california] * 2 + [kansas] * 2 + [node["Lincoln"]] * 2 + [kansas])
    assert limit.violations(ROWS, mm2) == 0
    beyond = bound.published([node["United States"]] * 6 + [-1])
    assert limit.violations(ROWS, beyond) == 6
    assert limit.violations(ROWS, beyond, counts=np.array([10, 1, 1, 1, 1, 1, 50])) == 15


def test_without_marks_the_root_is_allowed() -> None:
    bound, _ = location()
    limit = Boundaries({"location": {"marks": []}}).limits({"location": bound})["location"]
    assert (limit.magval == bound.root).all()


def test_a_leaf_may_be_marked_and_a_null_is_free() -> None:
    bound = parse_arx(LOCATION).bind(pa.array(["Lincoln", None]), "location")
    limit = Boundaries({"location": {"marks": ["Lincoln"]}}).limits({"location": bound})["location"]
    assert limit.magval.tolist() == [0, bound.root]


def test_a_marked_node_may_be_absent_from_the_table() -> None:
    bound = parse_arx(LOCATION).bind(pa.array(["Lincoln"]), "location")
    limit = Boundaries({"location": {"marks": ["California"]}}).limits({"location": bound})
    assert limit["location"].magval.tolist() == [bound.root]


def test_maximum_width() -> None:
    ages = Ranges(pa.array([20, 25, 40, None]), "age")
    limit = Boundaries({"age": {"max_width": 5}}).limits({"age": ages})["age"]
    codes = np.array([0, 1, 2, 3, 2])
    shown = ages.published([0, 0, 1, 0, 1], [1, 1, 2, 3, 0])
    # 25..40 is too wide; the null shown as * has no width; the last row is suppressed
    assert limit.violations(codes, shown) == 1
    assert limit.violations(np.array([0, 1, 2, 0, 2]), shown) == 2


@pytest.mark.parametrize(("width", "broken"), [(5, 0), (4.9, 2), (2.5, 2)])
def test_a_width_is_reached_and_not_passed(width: float, broken: int) -> None:
    ages = Ranges(pa.array([20, 25, None]), "age")
    limit = Boundaries({"age": {"max_width": width}}).limits({"age": ages})["age"]
    shown = ages.published([0, 0], [1, 1])
    assert limit.violations(np.array([0, 1]), shown) == broken


def test_a_number_shown_together_with_missing_ones_is_beyond_any_width() -> None:
    ages = Ranges(pa.array([20, 22, None]), "age")
    limit = Boundaries({"age": {"max_width": 100}}).limits({"age": ages})["age"]
    shown = ages.published([0, 0, 0], [1, 2, 2])
    assert limit.violations(np.array([0, 1, 2]), shown) == 1


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text('[location]\nmarks = ["Midwest"]\n[age]\nmax_width = 10\n')
    boundaries = Boundaries.read(path)
    assert boundaries.columns == {"location": {"marks": ["Midwest"]}, "age": {"max_width": 10}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "not TOML"),
        ("marks = ['a']", "outside of a column"),
        ("[age]\nwidth = 3", "`width` is not a boundary"),
        ("[age]\nmarks = ['a']\nmax_width = 3", "either marks or a max_width"),
        ("[age]\nmarks = 'a'", "list of labels"),
        ("[age]\nmax_width = -1", "zero or larger"),
        ("[age]\nmax_width = true", "zero or larger"),
        ("[age]", "either marks or a max_width"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "b.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        Boundaries.read(path)
    assert str(path) in str(caught.value)


def test_boundaries_that_do_not_fit() -> None:
    bound, _ = location()
    ages = Ranges(pa.array([1, 2]), "age")
    with pytest.raises(ColumnError, match="Did you mean `location`"):
        Boundaries({"locaton": {"marks": []}}).limits({"location": bound})
    with pytest.raises(HierarchyError, match="no node `Mars`"):
        Boundaries({"location": {"marks": ["Mars"]}}).limits({"location": bound})
    with pytest.raises(HierarchyError, match="max_width limits ranges"):
        Boundaries({"location": {"max_width": 3}}).limits({"location": bound})
    for shape in (ages, ValueSets(pa.array([1, 2]), "age")):
        with pytest.raises(HierarchyError, match="this column has none"):
            Boundaries({"age": {"marks": ["x"]}}).limits({"age": shape})
    with pytest.raises(InputError, match="no such file"):
        Boundaries.read("missing.toml")
    with pytest.raises(ParameterError):
        Boundaries({"age": {}})


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
@settings(max_examples=30)
def test_intervals_by_their_ends(values: list[int], ends: list[int]) -> None:
    """MAGVal of a number is the interval it lies in; a range across an end is a violation."""
    distinct = sorted(set(values))
    ages = Ranges(pa.array(distinct), "age")
    limit = Boundaries({"age": {"intervals": ends}}).limits({"age": ages})["age"]

    def interval(value: int) -> int:
        return sum(end <= value for end in set(ends))

    pairs = [(a, b) for a in range(len(distinct)) for b in range(a, len(distinct))]
    for low, high in pairs:
        shown = ages.published([low] * (high - low + 1), [high] * (high - low + 1))
        across = interval(distinct[low]) != interval(distinct[high])
        broken = limit.violations(np.arange(low, high + 1), shown)
        assert broken == (high - low + 1 if across else 0)
    assert len(limit.magset) == len({interval(value) for value in distinct})
    assert limit.may_be_starred([0]).tolist() == [len(limit.magset) == 1]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 6))
def test_intervals_found_in_the_table_hold_about_equally_many_rows(
    counts: list[int], wanted: int
) -> None:
    ages = Ranges(pa.array(range(len(counts))), "age")
    boundaries = Boundaries({"age": {"intervals": wanted}})
    limit = boundaries.limits({"age": ages}, {"age": np.array(counts)})["age"]
    interval = limit.interval
    assert interval.tolist() == sorted(interval.tolist())
    held = np.bincount(interval, weights=counts)
    assert len(held) <= wanted
    # a value is not cut, so an interval is off by less than the two values at its ends
    assert (
        np.abs(held[held > 0] - sum(counts) / wanted).max() <= max(counts) or len(counts) < wanted
    )
    with pytest.raises(HierarchyError, match="how many rows hold each value"):
        boundaries.limits({"age": ages})


@pytest.mark.parametrize("asked", [[30, 65], 4])
@pytest.mark.parametrize("method", ["kmember", "mondrian", "best"])
def test_no_release_crosses_an_interval(asked: object, method: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    table = pa.table({"age": random.integers(18, 95, 400), "sex": random.choice(["f", "m"], 400)})
    bounds = {"age": {"intervals": asked}}
    release = sf.anonymize(table, qi=["age", "sex"], k=5, method=method, boundaries=bounds)
    assert release.suppressed_rows == 0
    assert boundary_violations(table, release.to_arrow(), Boundaries(bounds)) == {"age": 0}
    free = sf.anonymize(table, qi=["age", "sex"], k=40, method=method).to_arrow()
    assert boundary_violations(table, free, Boundaries(bounds))["age"] > 0
    pq.write_table(table, tmp_path / "people.parquet")
    pq.write_table(free, tmp_path / "free.parquet")
    (tmp_path / "b.toml").write_text(f"[age]\nintervals = {asked}\n")
    given_ = ["--boundaries", tmp_path / "b.toml", "--of", tmp_path / "people.parquet"]
    assert sfumato("verify", tmp_path / "free.parquet", *given_).code == 1


def test_a_bound_of_ranges_is_kept_where_other_columns_have_trees() -> None:
    """Numbers without a tree of their own would be given one, which intervals do not fit."""
    table = pa.table({"age": list(range(40)), "place": ["Lincoln", "Wichita"] * 20})
    asked = {"qi": ["age", "place"], "k": 4, "method": "kmember"}
    trees = {"place": parse_arx(LOCATION)}
    for bound in ({"intervals": [10, 20]}, {"max_width": 9}):
        release = sf.anonymize(table, **asked, hierarchies=trees, boundaries={"age": bound})
        rules = Boundaries({"age": bound})
        assert boundary_violations(table, release.to_arrow(), rules) == {"age": 0}


def test_intervals_of_dates_and_wrong_ones() -> None:
    days = Ranges(pa.array([date(1950, 1, 1), date(1980, 6, 1), None]), "born")
    for end in (date(1970, 1, 1), "1970-01-01"):
        rule = Boundaries({"born": {"intervals": [end]}})
        assert rule.columns == {"born": {"intervals": ["1970-01-01"]}}
        limit = rule.limits({"born": days})["born"]
        assert limit.interval.tolist() == [0, 1, 2]
    with pytest.raises(HierarchyError, match="not all of these are values"):
        Boundaries({"born": {"intervals": ["then"]}}).limits({"born": days})
    for bad in ([], 0, True, "18"):
        with pytest.raises(ParameterError, match="where they begin"):
            Boundaries({"born": {"intervals": bad}})
