"""Hierarchy files: what is read, what is refused, and what is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.errors import HierarchyError
from sfumato.hierarchy import Hierarchy, Tree, parse_arx, read_arx, read_folder, taxonomy, write_arx
from sfumato.hierarchy.builders import read_taxonomy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;x;*\nb;x;+\n", "places.csv: line 2 ends in another root than line 1"),
        ("a;x;*\n\nb;x;*\na;x;*\n", "places.csv: line 4 repeats the value of line 1"),
        ("a;x;*\nb;*\n", "places.csv: line 2 has 2 fields where line 1 has 3"),
        ("a;x;p;*\nb;y;p;*\nc;x;q;*\n", "line 3 puts its label of level 1 below another label"),
        ("a\nb\n", "places.csv: the hierarchy has values but nothing above them"),
        ("\n\n", "places.csv: the hierarchy is empty"),
        ('a;"x\nb;*\n', "is malformed"),
    ],
)
def test_bad_files_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "places.csv"
    path.write_text(text)
    with pytest.raises(HierarchyError) as caught:
        read_arx(path)
    assert message in str(caught.value)
    assert caught.value.where == str(path)


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(HierarchyError, match="no such file"):
        read_arx(tmp_path / "none.csv")
    (tmp_path / "odd.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HierarchyError, match="UTF-8"):
        read_arx(tmp_path / "odd.csv")


def test_separators_quotes_and_byte_order_marks(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_bytes(b"\xef\xbb\xbf" + b'"a;1";x;*\r\nb,2;x;*\r\n')
    assert read_arx(path).leaves.to_pylist() == ["a;1", "b,2"]
    assert parse_arx("a\tx\t*\nb\tx\t*").height == 2
    assert parse_arx("a,*\nb,*").height == 1
    assert parse_arx('"a;b",*\nc,*').leaves.to_pylist() == ["a;b", "c"]


def test_written_files_are_read_back(tmp_path: Path) -> None:
    h = parse_arx('San Diego;"West; far";US\nLincoln;Midwest;US\n"";Midwest;US\n')
    write_arx(h, tmp_path / "h.csv")
    again = read_arx(tmp_path / "h.csv")
    assert [level.to_pylist() for level in again.levels()] == [
        level.to_pylist() for level in h.levels()
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["h.csv"]


def test_a_ragged_tree_is_padded(tmp_path: Path) -> None:
    h = taxonomy([("cat", "mammal"), ("dog", "mammal"), ("mammal", "all"), ("ant", "all")])
    write_arx(h, tmp_path / "h.csv")
    assert (tmp_path / "h.csv").read_text() == "cat;mammal;all\ndog;mammal;all\nant;ant;all\n"


def test_padding_that_would_merge_nodes_is_refused(tmp_path: Path) -> None:
    # the inner node `b` above `cat` and the leaf `b` would meet on level 1
    tree = Tree.grow([2, 3, 3, -1], size=2)
    clash = Hierarchy(tree, pa.array(["cat", "b", "b", "all"]))
    with pytest.raises(HierarchyError, match="same label on level 1"):
        write_arx(clash, tmp_path / "h.csv")
    assert not (tmp_path / "h.csv").exists()


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "sex.csv").write_text("F;*\nM;*\n")
    assert list(read_folder(tmp_path, ["age", "sex"])) == ["sex"]
    (tmp_path / "agee.csv").write_text("1;*\n")
    with pytest.raises(HierarchyError, match="Did you mean `age`"):
        read_folder(tmp_path, ["age", "sex"])
    with pytest.raises(HierarchyError, match="no such folder"):
        read_folder(tmp_path / "none", ["age"])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "x"), ("a", "y")], "line 2 gives a second parent to the child of line 1"),
        ([("a", "x"), ("b", "y")], "there are 2 roots, at lines 1, 2"),
        ([("a", "x"), ("x", "y"), ("y", "x")], "the node of line 2 stands above itself"),
        ([("a", "a")], "line 1 makes a node its own parent"),
        ([], "empty"),
    ],
)
def test_bad_taxonomies(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(HierarchyError, match=message):
        taxonomy(pairs)


def test_a_deeper_branch_may_come_later() -> None:
    h = taxonomy([("ant", "all"), ("cat", "mammal"), ("mammal", "all")])
    assert (h.height, h.labels.to_pylist()[-1]) == (2, "all")


def test_taxonomy_files(tmp_path: Path) -> None:
    path = tmp_path / "animals.csv"
    path.write_text("cat,mammal\nant,all\nmammal,all\n")
    assert read_taxonomy(path).leaves.to_pylist() == ["cat", "ant"]
    path.write_text("cat,mammal,all\n")
    with pytest.raises(HierarchyError, match="line 1 has 3 fields"):
        read_taxonomy(path)


def test_repeating_a_pair_changes_nothing() -> None:
    once = taxonomy([("a", "x"), ("b", "x")])
    twice = taxonomy([("a", "x"), ("b", "x"), ("a", "x")])
    assert once.labels.equals(twice.labels)
