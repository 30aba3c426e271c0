"""Hierarchies, and hierarchies bound to a column."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import FOLDER, sample_path
from sfumato.errors import HierarchyError
from sfumato.hierarchy import Hierarchy, parse_arx, read_folder, taxonomy


def places() -> Hierarchy:
    return parse_arx(
        "San Diego;California;West;US\n"
        "Los Angeles;California;West;US\n"
        "Wichita;Kansas;Midwest;US\n"
        "Kansas City;Kansas;Midwest;US\n"
        "Lincoln;Nebraska;Midwest;US\n"
    )


def test_levels_come_back_as_given() -> None:
    levels = places().levels()
    assert levels[1].to_pylist() == ["California"] * 2 + ["Kansas"] * 2 + ["Nebraska"]
    assert places().height == 3
    assert places().uniform


def test_binding_keeps_only_what_occurs() -> None:
    bound = places().bind(pa.array(["Lincoln", "Wichita", "Kansas City"]), "place")
    assert bound.size == 3
    assert bound.height == 3
    assert "West" not in bound.labels(np.arange(bound.nodes)).to_pylist()
    kansas = bound.ancestors[1, 1]
    assert bound.leaf_count[kansas] == 2
    assert bound.loss[kansas] == pytest.approx(1 / 2)
    assert bound.relative_height[kansas] == pytest.approx(1 / 3)
    assert bound.loss[bound.root] == 1.0


def test_null_is_a_leaf_below_the_root() -> None:
    bound = places().bind(pa.array(["Lincoln", None, "Wichita"]), "place")
    assert bound.null_code == 1
    assert bound.parent[1] == bound.root
    assert bound.ancestors[1].tolist() == [1, 1, 1, bound.root]
    assert bound.leaf_count[bound.root] == 3
    nodes = bound.lca([0, 2, 1, 2], groups=[0, 0, 1, 1], n_groups=2)
    assert bound.labels(nodes).to_pylist() == ["Midwest", "US"]
    assert bound.labels([1]).to_pylist() == [None]


def test_a_column_of_nulls_only() -> None:
    bound = places().bind(pa.array([None], type=pa.string()), "place")
    assert (bound.size, bound.nodes, bound.loss.tolist()) == (1, 2, [0.0, 0.0])


def test_missing_values_are_counted_not_quoted() -> None:
    with pytest.raises(HierarchyError) as caught:
        places().bind(pa.array(["Secretville", "Lincoln", "Hidden"]), "place")
    message = str(caught.value)
    assert "column `place`" in message
    assert "2 of the column's 3 distinct values" in message
    assert "Secretville" not in message


@pytest.mark.parametrize(
    ("leaves", "values"),
    [
        (["7", "08", "9.0"], pa.array([7, 8, 9])),
        (["1", "2.50"], pa.array([1.0, 2.5])),
        (["2024-01-05"], pa.array([datetime.date(2024, 1, 5)])),
        (["true", "false"], pa.array([True, False])),
    ],
)
def test_leaves_are_compared_as_the_column_compares(leaves: list[str], values: pa.Array) -> None:
    h = Hierarchy.from_levels([leaves, ["*"] * len(leaves)])
    if "9.0" in leaves:  # no integer is written like this
        with pytest.raises(HierarchyError, match="1 of the column's 3"):
            h.bind(values, "n")
        values = values[:2]
    assert h.bind(values, "n").origin[: len(values)].tolist() == list(range(len(values)))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3)), min_size=1))
def test_lca_of_groups_is_the_lowest_cover(rows: list[tuple[int, int]]) -> None:
    bound = places().bind(places().leaves, "place")
    codes = np.array([code for code, _ in rows], dtype=np.uint8)
    groups = np.array([group for _, group in rows], dtype=np.int32)
    nodes = bound.lca(codes, groups, 4)
    for group in range(4):
        held = set(codes[groups == group].tolist())
        if not held:
            assert nodes[group] == -1
            continue
        level = next(
            level
            for level in range(4)
            if len({int(bound.ancestors[code, level]) for code in held}) == 1
        )
        assert nodes[group] == bound.ancestors[held.pop(), level]


def test_published_and_read_back() -> None:
    bound = places().bind(pa.array(["Lincoln", None, "Wichita", "San Diego"]), "place")
    nodes = np.array([0, 1, bound.ancestors[2, 2], bound.root, -1, 0])
    shown = bound.published(nodes)
    assert shown.array().to_pylist() == ["Lincoln", None, "Midwest", "US", "Lincoln"]
    assert shown.codes.tolist()[4] == -1
    again = bound.read(shown.array())
    assert again.tolist() == nodes[nodes >= 0].tolist()
    assert shown.leaf_count[shown.codes[:4]].tolist() == [1, 1, 2, 4]
    assert bound.read(pa.array(["*"])).tolist() == [bound.root]
    with pytest.raises(HierarchyError, match="1 distinct labels"):
        bound.read(pa.array(["Lincoln", "Atlantis"]))


def test_published_covers_what_lies_below() -> None:
    bound = places().bind(places().leaves, "place")
    shown = bound.published([bound.ancestors[2, 2], 0])
    western = np.array([True, True, True, False, False])
    share = shown.covered(western)[shown.codes]
    assert share.tolist() == [pytest.approx(1 / 3), 1.0]
    assert shown.covers([4, 0]).tolist() == [True, True]
    assert shown.covers([0, 1]).tolist() == [False, False]
    assert shown.take([1, -1, 0]).codes.tolist() == [shown.codes[1], -1, shown.codes[0]]


def test_labels_on_several_levels() -> None:
    h = parse_arx("Alaska;West;West;US\nOhio;Midwest;Midwest;US\nIowa;Midwest;Midwest;US\n")
    assert h.tree.level[h.node("Midwest")] == 2  # one meaning: the topmost of the chain
    ambiguous = parse_arx("a;x;y;*\nb;z;x;*\nc;z;x;*\n")
    with pytest.raises(HierarchyError, match="`1:x`, `2:x`"):
        ambiguous.node("x")
    assert ambiguous.tree.leaf_count[ambiguous.node("2:x")] == 2
    with pytest.raises(HierarchyError, match="Did you mean `Midwest`"):
        h.node("Midwset")
    with pytest.raises(HierarchyError, match="no node"):
        ambiguous.node("7:x")


def test_a_ragged_hierarchy_binds() -> None:
    h = taxonomy([("cat", "mammal"), ("dog", "mammal"), ("mammal", "all"), ("ant", "all")])
    bound = h.bind(pa.array(["ant", "cat"]), "animal")
    assert bound.level.tolist() == [0, 0, 1, 2]
    assert bound.ancestors.tolist() == [[0, 0, 3], [1, 2, 3]]


def test_hierarchies_of_adult() -> None:
    table = pq.read_table(sample_path("arx_adult.parquet"))
    found = read_folder(FOLDER / "hierarchies" / "adult", table.column_names)
    heights = {name: h.height for name, h in found.items()}
    assert heights == {
        "age": 4,
        "education": 3,
        "marital-status": 2,
        "native-country": 2,
        "occupation": 2,
        "race": 1,
        "salary-class": 1,
        "sex": 1,
        "workclass": 2,
    }
    assert found["age"].tree.size == 100
    bound = found["age"].bind(table["age"].unique(), "age")
    assert bound.size == 72
    assert bound.leaf_count[bound.root] == 72
