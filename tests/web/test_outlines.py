"""Trees changed by hand, against what the same change means for every single value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.hierarchy import Boundaries, Hierarchy, flat, parse_arx, read_arx, write_arx
from sfumato.web.hierarchies import EditableHierarchy

PLACES = parse_arx(
    "San Diego;California;West Coast;US\nLos Angeles;California;West Coast;US\n"
    "Wichita;Kansas;Midwest;US\nLincoln;Nebraska;Midwest;US\nAnchorage;Alaska;Alaska;US\n"
)


def node(outline: EditableHierarchy, label: str) -> int:
    """The node of a label that occurs once."""
    known = {name: at for at, name in outline.names.items()}
    return known[label] if label in known else outline.values.index(label)


def ways(outline: EditableHierarchy) -> dict[str, list[str]]:
    """The labels above each value, from itself to the root."""
    return {
        value: [outline.label(n) for n in outline.path(at)]
        for at, value in enumerate(outline.values)
    }


def levels(hierarchy: Hierarchy) -> list[list[str]]:
    return [level.to_pylist() for level in hierarchy.levels()]


def test_a_file_is_drawn_without_its_padding() -> None:
    outline = EditableHierarchy.of(PLACES, "read")
    assert ways(outline)["Anchorage"] == ["Anchorage", "Alaska", "US"]
    assert ways(outline)["Wichita"] == ["Wichita", "Kansas", "Midwest", "US"]
    assert levels(outline.hierarchy) == levels(PLACES)


def test_groups_stand_where_their_members_meet() -> None:
    outline = EditableHierarchy.of(flat(pa.array(list("abcde"))), "flat")
    pair = outline.group([0, 1], "first")
    assert ways(pair)["a"] == ["a", "first", "*"]
    wider = pair.group([node(pair, "first"), 2], "wider")
    assert ways(wider)["b"] == ["b", "first", "wider", "*"]
    assert ways(wider)["c"] == ["c", "wider", "*"]
    split = wider.group([0], "alone")
    assert ways(split)["a"] == ["a", "alone", "first", "wider", "*"]
    across = EditableHierarchy.of(PLACES, "read").group([0, 2], "mixed")
    assert ways(across)["San Diego"] == ["San Diego", "mixed", "US"]
    # Kansas held nothing else: a group without values goes away.
    assert "Kansas" not in across.names.values()


def test_dissolving_moving_and_renaming() -> None:
    outline = EditableHierarchy.of(PLACES, "read")
    gone = outline.dissolve([node(outline, "California"), node(outline, "West Coast")])
    assert ways(gone)["San Diego"] == ["San Diego", "US"]
    moved = outline.move([node(outline, "Nebraska")], node(outline, "West Coast"))
    assert ways(moved)["Lincoln"] == ["Lincoln", "Nebraska", "West Coast", "US"]
    named = outline.rename(outline.root, "anywhere")
    assert levels(named.hierarchy)[-1] == ["anywhere"] * 5
    assert named.said == "read, changed by hand"


@pytest.mark.parametrize(
    "act",
    [
        lambda o: o.group([], "x"),
        lambda o: o.group([0, 1], "x"),  # all of California
        lambda o: o.group([o.root], "x"),
        lambda o: o.group([0, 2], " "),
        lambda o: o.group([0, 2], "Kansas"),
        lambda o: o.group([0, 2], "Wichita"),
        lambda o: o.group([0, 2], "two\nlines"),
        lambda o: o.group([0, 999], "x"),
        lambda o: o.rename(0, "x"),
        lambda o: o.rename(node(o, "Kansas"), "Nebraska"),
        lambda o: o.move([node(o, "Midwest")], node(o, "Kansas")),
        lambda o: o.move([0], 1),
        lambda o: o.move([0], 999),
        lambda o: o.dissolve([0]),
        lambda o: o.dissolve([o.root]),
        lambda o: o.mark([o.root]),
        lambda o: o.mark([]),
        lambda o: o.mark([-1]),
    ],
)
def test_what_makes_no_sense_is_refused(act: object) -> None:
    assert callable(act)
    with pytest.raises(ParameterError):
        act(EditableHierarchy.of(PLACES, "read"))


def test_marks_stop_what_stands_above_them() -> None:
    outline = EditableHierarchy.of(PLACES, "read")
    marked = outline.mark([node(outline, "California"), node(outline, "Kansas")])
    assert marked.mark_labels == ("California", "Kansas")
    assert [marked.label(n) for n in marked.out_of_reach] == ["West Coast"]
    assert marked.mark([node(outline, "Kansas")]).mark_labels == ("California",)
    assert marked.unmarked().marks == frozenset()
    level = outline.mark_height(1)
    assert set(level.mark_labels) == {"California", "Kansas", "Nebraska", "Alaska"}
    found = {level.label(n) for n in level.out_of_reach}
    assert found == {"West Coast", "Midwest", "US"}


def test_marks_with_labels_that_mean_several_things_name_their_level() -> None:
    twice = Hierarchy.from_levels([["a", "b", "c"], ["b", "b", "c"], ["*"] * 3])
    outline = EditableHierarchy.of(twice, "read")
    group = next(at for at, name in outline.names.items() if name == "b")
    marked = outline.mark([group])
    assert marked.mark_labels == ("1:b",)
    assert EditableHierarchy.of(marked.hierarchy, "", marked.mark_labels).marks == marked.marks


@st.composite
def edited(draw: st.DrawFn) -> EditableHierarchy:
    """A tree that somebody changed for a while."""
    size = draw(st.integers(1, 9))
    outline = EditableHierarchy.of(flat(pa.array([f"v{at}" for at in range(size)])), "flat")
    for step in range(draw(st.integers(0, 7))):
        nodes = [*range(size), *outline.names]
        picked = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=4))
        act = draw(st.sampled_from(["group", "dissolve", "move", "rename", "mark", "height"]))
        try:
            if act == "group":
                outline = outline.group(picked, f"g{step}")
            elif act == "dissolve":
                outline = outline.dissolve(picked)
            elif act == "move":
                outline = outline.move(picked, draw(st.sampled_from(nodes)))
            elif act == "rename":
                outline = outline.rename(picked[0], f"r{step}")
            elif act == "mark":
                outline = outline.mark(picked)
            else:
                outline = outline.mark_height(draw(st.integers(0, 4)))
        except ParameterError:
            continue
    return outline


@given(edited())
@settings(max_examples=150)
def test_whatever_is_done_the_tree_stays_one(outline: EditableHierarchy) -> None:
    hierarchy = outline.hierarchy
    assert hierarchy.leaves.to_pylist() == list(outline.values)
    # Every label above a value stands above it in the file, in the same order, and no other does.
    for at, value in enumerate(outline.values):
        column = hierarchy.labels_of(hierarchy.tree.ancestors[at]).to_pylist()
        assert list(dict.fromkeys(column)) == ways(outline)[value]
    again = EditableHierarchy.of(hierarchy, outline.said, outline.mark_labels)
    assert ways(again) == ways(outline)
    assert {again.label(n) for n in again.marks} == {outline.label(n) for n in outline.marks}


@given(edited())
@settings(max_examples=100)
def test_marks_are_the_boundaries_of_a_release(outline: EditableHierarchy) -> None:
    values = pa.array(outline.values)
    bound = outline.hierarchy.bind(values, "column")
    rule = {"column": {"marks": list(outline.mark_labels)}}
    limit = Boundaries(rule).limits({"column": bound})["column"]
    assert limit.magval is not None
    for at in range(len(outline.values)):
        way = outline.path(at)
        allowed = next((n for n in way if n in outline.marks), outline.root)
        below = set(outline.leaves(allowed))
        top = int(limit.magval[at])
        reached = set(bound.order[bound.first[top] : bound.last[top] + 1].tolist())
        assert reached == below


@given(edited())
@settings(max_examples=60)
def test_out_of_reach_is_what_no_value_may_become(outline: EditableHierarchy) -> None:
    allowed = set()
    for at in range(len(outline.values)):
        for above in outline.path(at):
            allowed.add(above)
            if above in outline.marks:
                break
    assert outline.out_of_reach == frozenset(set(outline.names) - allowed)


def test_a_tree_survives_its_file(tmp_path: Path) -> None:
    outline = EditableHierarchy.of(PLACES, "read").group([0, 2, 4], 'odd; "named"')
    write_arx(outline.hierarchy, tmp_path / "place.csv")
    again = EditableHierarchy.of(read_arx(tmp_path / "place.csv"), "read")
    assert ways(again) == ways(outline)
    assert np.array_equal(again.hierarchy.tree.ancestors, outline.hierarchy.tree.ancestors)
