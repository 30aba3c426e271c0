"""Generalization boundaries, on the example of Miller, Campan & Truta (Figures 2 to 4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import ColumnError, HierarchyError, InputError, ParameterError
from sfumato.hierarchy import Boundaries, Ranges, ValueSets, parse_arx

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


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text('[location]\nmarks = ["Midwest"]\n[age]\nmax_width = 10\n')
    boundaries = Boundaries.read(path)
    assert boundaries.columns == {"location": {"marks": ["Midwest"]}, "age": {"max_width": 10}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "no TOML"),
        ("marks = ['a']", "outside of a column"),
        ("[age]\nwidth = 3", "`width` is no boundary"),
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
