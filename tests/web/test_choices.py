"""Decisions: kept as files, found again as they were."""

from __future__ import annotations

import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.request import Request
from sfumato.errors import ParameterError, SourceError
from sfumato.hierarchy import flat
from sfumato.web.choices import (
    DEMANDS,
    DISTANCES,
    OFFERED,
    ROLES,
    Choices,
    read_choices,
    write_choices,
)
from sfumato.web.hierarchies import EditableHierarchy

NAMES = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="/\0"), min_size=1, max_size=12
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


def tree(groups: list[str]) -> EditableHierarchy:
    """A small tree with a group and a limit for each name."""
    outline = EditableHierarchy.of(
        flat(pa.array([f"v{at}" for at in range(6)])), 'made; "by" hand\\'
    )
    for at, label in enumerate(groups):
        outline = outline.group([2 * at, 2 * at + 1], label)
        outline = outline.mark([max(outline.names)])
    return outline


@st.composite
def decisions(draw: st.DrawFn) -> Choices:
    columns = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    some = st.none() | st.floats(1, 50)
    labels = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=2, max_size=8)
    return Choices(
        roles={name: draw(st.sampled_from(ROLES)) for name in columns},
        k=draw(st.integers(2, 10**6)),
        l=draw(some),
        l_kind=draw(st.sampled_from(DEMANDS["l_kind"].choices)),
        c=draw(some),
        t=draw(st.none() | st.floats(0, 1)),
        t_distance=draw(st.sampled_from(DISTANCES)),
        p=draw(st.none() | st.integers(1, 9)),
        alpha=draw(st.none() | st.floats(0, 1)),
        method=draw(st.sampled_from(OFFERED)),
        suppression_limit=draw(st.none() | st.floats(0, 1)),
        pseudonyms=tuple(draw(st.lists(st.sampled_from(columns), unique=True))),
        key_file=draw(st.just("") | st.builds("/keys/{}.key".format, NAMES)),
        weights={name: draw(st.floats(0, 100)) for name in columns[:2]},
        trees={
            name: tree(draw(st.lists(labels, max_size=2, unique=True).filter(_unlike_values)))
            for name in columns[:2]
            if Path(f"{name}.csv").stem == name
        },
    )


def _unlike_values(labels: list[str]) -> bool:
    """Labels that name no value, and no node when they are read as ``level:label``."""
    taken = {f"v{at}" for at in range(6)} | {"*"}
    return not any(label in taken or ":" in label for label in labels)


def plain(outline: EditableHierarchy) -> tuple[list[list[str]], set[str], str]:
    levels = [level.to_pylist() for level in outline.hierarchy.levels()]
    return levels, set(outline.mark_labels), outline.said


@given(decisions())
@settings(max_examples=60)
def test_decisions_survive_their_files(choices: Choices) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_choices(choices, Path(folder), "people.csv")
        again = read_choices(Path(folder))
    assert again is not None
    for part in fields(Choices):
        if part.name != "trees":
            assert getattr(again, part.name) == getattr(choices, part.name), part.name
    assert {n: plain(t) for n, t in again.trees.items()} == {
        n: plain(t) for n, t in choices.trees.items()
    }


@given(decisions())
@settings(max_examples=60)
def test_settings_survive_their_file(choices: Choices) -> None:
    if not choices.qi or choices.gap is not None:
        with pytest.raises(ParameterError):
            choices.rehearsed()
        return
    wanted = choices.settings(Path())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "release.toml"
        place.write_text(wanted.to_toml(), encoding="utf-8")
        again = Request.read(place)
    told, asked = again.to_dict(), wanted.to_dict()
    for name in ("hierarchies", "key_file"):  # they lie beside the settings, wherever those are
        if name in asked:
            asked[name] = str(Path(folder) / asked[name])
    assert told == asked


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"l": 2, "roles": {"age": "quasi-identifier"}}, "worth hiding"),
        ({"l": 2.5}, "whole number"),
        ({"l": 2, "l_kind": "recursive", "c": 0}, "a c of 0"),
        ({"t": 0.2, "t_distance": "hierarchical"}, "no tree of its own"),
        ({"p": 2, "roles": {"age": "quasi-identifier"}}, "worth hiding"),
        ({"alpha": 0.5, "roles": {"age": "quasi-identifier"}}, "worth hiding"),
        ({"p": 6}, "larger than k"),
        ({"alpha": 0.0}, "an α of 0"),
    ],
)
def test_demands_with_a_gap_are_told_in_words_of_the_page(
    given: dict[str, Any], missing: str
) -> None:
    roles = {"age": "quasi-identifier", "illness": "sensitive"}
    choices = Choices(**{"roles": roles, **given})
    assert choices.gap is not None
    with pytest.raises(ParameterError, match=missing) as caught:
        choices.rehearsed()
    assert "--" not in str(caught.value)


def test_pseudonyms_are_for_columns_that_would_be_left_out() -> None:
    roles = {"id": "identifier", "name": "identifier", "age": "quasi-identifier"}
    choices = Choices(roles, pseudonyms=("id", "age"))
    made = choices.settings(Path("beside"))
    assert (made.identifiers, made.pseudonyms) == (("name",), ("id",))
    assert made.key_file == str(Path("beside/pseudonyms.key"))
    elsewhere = replace(choices, key_file="/keys/mine.key").settings(Path("beside"))
    assert elsewhere.key_file == "/keys/mine.key"
    tried = choices.rehearsed()
    assert (tried.identifiers, tried.pseudonyms, tried.key_file) == (("id", "name"), (), None)


def test_recursive_diversity_needs_no_c() -> None:
    roles = {"age": "quasi-identifier", "illness": "sensitive"}
    assert Choices(roles, l=2, l_kind="recursive").rehearsed().c == 3


@pytest.mark.parametrize(
    "written",
    ["k = 5.5", 'suppression_limit = "a"', "l = nan", "p = 2.5", "p = true", "alpha = 2",
     "pseudonyms = [1]", "pseudonyms = 1", "key_file = 1"],
)  # fmt: skip
def test_files_changed_by_hand_are_checked(written: str, tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text(written)
    with pytest.raises(SourceError, match="cannot be read"):
        read_choices(tmp_path)


def test_there_may_be_nothing_to_find(tmp_path: Path) -> None:
    assert read_choices(tmp_path) is None


@pytest.mark.parametrize("name", ["a/b", "\0", "a\\b/../c"])
def test_files_are_not_named_after_what_leads_elsewhere(name: str, tmp_path: Path) -> None:
    choices = Choices({name: "other"}, trees={name: tree([])})
    with pytest.raises(ParameterError, match="cannot be named"):
        write_choices(choices, tmp_path, "people.csv")
    assert list(tmp_path.rglob("*.csv")) == []


def test_decisions_that_lack_something_can_be_compared() -> None:
    then = Choices({"age": "quasi-identifier", "ill": "sensitive"}, k=5, l=2)
    for now in (
        Choices({"age": "other", "ill": "sensitive"}, k=5),
        Choices({"age": "quasi-identifier", "ill": "other"}, k=5, l=2),
    ):
        assert then.differs(now)
        assert now.differs(then)
        assert now.differs(now) == []


def test_what_differs_is_named() -> None:
    known = {"age": "quasi-identifier", "zip": "quasi-identifier"}
    then = Choices(known, method="full-domain", weights={"age": 3})
    said = {
        "zip was read then": replace(then, roles={"age": "quasi-identifier"}),
        "job was not read then": replace(then, roles={**known, "job": "other"}),
        "the weight of age, 3, is now 1": replace(then, weights={}),
        "up to 0% of the rows left out is now up to 5%": replace(then, suppression_limit=0.05),
        "levels searched is now 1·0": replace(then, levels={"age": 1, "zip": 0}),
    }
    assert {told: then.differs(now) for told, now in said.items()} == {one: [one] for one in said}
    assert then.same(replace(then, suppression_limit=0.0))
    mondrian = replace(then, method="mondrian", levels={"age": 1, "zip": 0})
    pinned = said["levels searched is now 1·0"]
    assert "levels are searched" not in pinned.otherwise(mondrian)
