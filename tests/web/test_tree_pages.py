"""The page of a column's tree: every change, saved, taken back, and used by the release."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.web.hierarchies import EditableHierarchy
from sfumato.web.project import Project
from workbench import Answer, Running, running

TOWNS = ("Aton", "Berg", "Cove", "Dale", "Eden", "Ford")
TABLE = "name,age,town,code,born,illness\n" + "".join(
    f"person{row},{20 + row * 7 % 40},{TOWNS[row % 6]},{10_000 + row % 40 * 13},"
    f"19{50 + row % 30}-0{1 + row % 9}-1{row % 9},{('flu', 'gout', 'none')[row % 3]}\n"
    for row in range(600)
) + "rare,40,Zzyzx,99999,1950-01-10,flu\n"  # fmt: skip
KNOWN = ("age", "town", "code", "born")


@dataclass
class Editor:
    """The tree page of one column, as a browser without scripts uses it."""

    bench: Running
    project: Project
    column: str

    @property
    def place(self) -> str:
        at = self.project.table.columns.index(self.column)
        return f"/p/{self.project.number}/columns/{at}"

    @property
    def outline(self) -> EditableHierarchy:
        return self.project.outline(self.column)

    def do(self, act: str, *picked: str, **form: object) -> Answer:
        known = {label: at for at, label in self.outline.names.items()}
        known |= {label: at for at, label in enumerate(self.outline.values)}
        if isinstance(to := form.get("to"), str):
            form["to"] = known[to]
        sent = {"edition": self.project.decided.edition, **form, "do": act}
        return self.bench.post(self.place, pick=[known[label] for label in picked], **sent)

    def of(self, column: str) -> Editor:
        return Editor(self.bench, self.project, column)


@pytest.fixture
def towns(tmp_path: Path) -> Iterator[Editor]:
    (tmp_path / "people.csv").write_text(TABLE)
    with running([tmp_path]) as bench:
        bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
        (project,) = bench.workbench.projects.values()
        roles = {
            f"role-{at}": "identifier" if name == "name" else
            "quasi-identifier" if name in KNOWN else "sensitive"
            for at, name in enumerate(project.table.columns)
        }  # fmt: skip
        bench.follow(bench.post(f"/p/{project.number}/configure", k=5, method="mondrian", **roles))
        yield Editor(bench, project, "town")


def above(outline: EditableHierarchy, value: str) -> list[str]:
    return [outline.label(node) for node in outline.path(outline.values.index(value))]


def test_groups_by_hand(towns: Editor) -> None:
    assert "How is town blurred?" in towns.bench.get(towns.place).text
    page = towns.do("group", "Aton", "Berg", label="north")
    assert "north" in page.text
    towns.do("group", "Cove", "Dale", label="south")
    towns.do("group", "north", "south", label="mainland")
    assert above(towns.outline, "Dale") == ["Dale", "south", "mainland", "*"]
    towns.do("move", "Dale", to="north")
    towns.do("rename", "north", label="uplands")
    assert above(towns.outline, "Dale") == ["Dale", "uplands", "mainland", "*"]
    towns.do("dissolve", "mainland")
    assert above(towns.outline, "Dale") == ["Dale", "uplands", "*"]
    towns.do("mark", "uplands")
    assert towns.outline.mark_labels == ("uplands",)
    for _ in range(7):
        towns.do("undo")
    assert towns.column not in towns.project.choices.trees
    assert above(towns.outline, "Dale") == ["Dale", "*"]


def test_trees_and_marks_are_found_again(towns: Editor, tmp_path: Path) -> None:
    towns.do("group", "Aton", "Berg", label="north")
    towns.do("mark", "north", "Eden")
    towns.of("age").do("build", way="cuts", cuts="30, 45")
    folder = tmp_path / "people.csv.sfumato"
    assert {place.name for place in (folder / "hierarchies").iterdir()} == {"age.csv", "town.csv"}
    saved = tomllib.loads((folder / "project.toml").read_text())
    assert set(saved["trees"]["town"]["marks"]) == {"north", "Eden"}
    towns.bench.post(f"/p/{towns.project.number}/close")
    towns.bench.follow(towns.bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = towns.bench.workbench.projects.values()
    again = project.outline("town")
    assert above(again, "Berg") == ["Berg", "north", "*"]
    assert set(again.mark_labels) == {"north", "Eden"}
    assert above(project.outline("age"), "27")[1] == "< 30"
    Editor(towns.bench, project, "age").do("forget")
    assert {place.name for place in (folder / "hierarchies").iterdir()} == {"town.csv"}


@pytest.mark.parametrize(
    ("column", "form", "labels"),
    [
        ("age", {"way": "width", "width": "10"}, ["27", "[20, 30)", "[20, 40)", "[0, 40)", "*"]),
        ("age", {"way": "cuts", "cuts": "30 45"}, ["27", "< 30", "< 45", "*"]),
        ("age", {"way": "frequency", "groups": "2"}, ["27", "[20, 40)", "*"]),
        ("age", {"way": "flat"}, ["27", "*"]),
        ("code", {"way": "prefixes", "keep": "2,4,3"}, ["10013", "1001*", "100**", "10***", "*"]),
        ("town", {"way": "order", "fanout": "3"}, ["Berg", "Aton … Cove", "*"]),
        (
            "born",
            {"way": "dates", "calendar": ["year", "month", "quarter"]},
            ["1951-02-11", "1951-02", "1951-Q1", "1951", "*"],
        ),
    ],
)
def test_trees_are_built(
    towns: Editor, column: str, form: dict[str, object], labels: list[str]
) -> None:
    editor = towns.of(column)
    editor.do("build", **form)
    assert above(editor.outline, labels[0]) == labels
    assert column in editor.project.choices.trees


def test_a_tree_is_read_from_a_file_and_given_back(towns: Editor) -> None:
    text = "".join(f"{town};{'AB' if town < 'C' else 'rest'};*\n" for town in (*TOWNS, "Zzyzx"))
    page = towns.do("read", text=text, file="../../towns.csv")
    assert "read from towns.csv" in page.text
    assert above(towns.outline, "Berg") == ["Berg", "AB", "*"]
    assert towns.bench.get(f"{towns.place}/tree.csv").text == text
    refused = towns.do("read", text="Aton;x;*\n", file="towns.csv")
    assert "6 of the column" in refused.text
    assert above(towns.outline, "Berg") == ["Berg", "AB", "*"]


@pytest.mark.parametrize(
    ("act", "picked", "form"),
    [
        ("group", (), {"label": "x"}),
        ("group", ("Aton", "Berg"), {"label": ""}),
        ("rename", ("Aton",), {"label": "x"}),
        ("rename", ("Aton", "Berg"), {"label": "x"}),
        ("move", ("Aton",), {"to": 10**9}),
        ("move", ("Aton",), {}),
        ("mark:x", (), {}),
        ("mark:99999999999999999999999", (), {}),
        ("height:-1", (), {}),
        ("nonsense", (), {}),
        ("", (), {}),
        ("build", (), {"way": "width", "width": "10"}),
        ("build", (), {"way": "prefixes", "keep": "two"}),
        ("build", (), {"way": "prefixes", "keep": "0"}),
        ("build", (), {"way": "dates", "calendar": ["year"]}),
        ("build", (), {"way": "dates"}),
        ("build", (), {"way": "order", "fanout": "1"}),
        ("read", (), {"text": "a;b\nc\n"}),
        ("read", (), {"text": ""}),
        ("read", (), {"text": "Aton;" + "x;" * 3000 + "*\n"}),
        ("group", ("Aton", "Berg"), {"label": "x", "edition": -1}),
        ("group", ("Aton", "Berg"), {"label": "x", "edition": "soon"}),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_changes(
    towns: Editor, act: str, picked: tuple[str, ...], form: dict[str, object]
) -> None:
    before = towns.project.choices
    page = towns.do(act, *picked, **form)
    assert page.status == 200
    assert 'class="verdict bad" role="alert"' in page.text
    assert towns.project.choices == before


def test_columns_that_are_not_there(towns: Editor) -> None:
    base = f"/p/{towns.project.number}/columns"
    for wrong in ("6", "-1", "999999", "age"):
        assert towns.bench.get(f"{base}/{wrong}").status == 404


@pytest.mark.parametrize("field", ["pick", "open", "few", "do"])
def test_numbers_longer_than_any_are_no_nodes(towns: Editor, field: str) -> None:
    long = "9" * 5000
    form = {"do": "group", "label": "x", field: f"toggle:{long}" if field == "do" else long}
    form["edition"] = str(towns.project.decided.edition)
    assert towns.bench.post(towns.place, **form).status == 200
    assert towns.bench.get(f"{towns.place.rpartition('/')[0]}/{long}").status == 404


def test_what_is_open_and_picked_stays_so(towns: Editor) -> None:
    towns.do("group", "Aton", "Berg", label="north")
    root = towns.outline.root
    group = next(at for at, name in towns.outline.names.items() if name == "north")
    closed = towns.do("toggle:0", open=[root])
    assert f'id="n{group}"' in closed.text
    assert ">Aton<" not in closed.text
    opened = towns.do(f"toggle:{group}", open=[root])
    assert ">Aton<" in opened.text
    marked = towns.do(f"mark:{group}", "Aton", open=[root, group])
    assert re.search(r'name="pick" value="0"[^>]* checked', marked.text)
    assert f'name="open" value="{group}"' in marked.text


def test_rare_values_are_shown_when_asked_for(towns: Editor) -> None:
    shown = towns.bench.get(towns.place).text
    assert "Zzyzx" not in shown
    assert "1 value that fewer than ten rows hold" in shown
    assert "Zzyzx" in towns.bench.get(f"{towns.place}?rare=1").text
    page = towns.do("group", "Ford", few=[towns.outline.root], label="elsewhere")
    assert above(towns.outline, "Zzyzx") == ["Zzyzx", "elsewhere", "*"]
    assert above(towns.outline, "Ford") == ["Ford", "elsewhere", "*"]
    assert "Zzyzx" not in page.text
    towns.do("dissolve", "elsewhere")
    alone = towns.do("group", few=[towns.outline.root], label="one of a kind")
    assert "one of a kind" in alone.text  # whoever named it may see the name
    codes = towns.of("code")
    codes.do("build", way="prefixes", keep="4")
    tree, shown = codes.outline, codes.bench.get(codes.place).text
    hidden = {name for name in tree.names.values() if name not in shown}
    held = {code: TABLE.count(f",{code},") for code in tree.values}
    few = {
        name
        for group, name in tree.names.items()
        if sum(held[tree.values[value]] for value in tree.leaves(group)) < 10
    }
    assert hidden == few == {"9999*"}


def test_long_lists_are_cut_and_shown_whole_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "many.csv").write_text(
        "town,age\n" + "".join(f"town {row % 300},{row % 7}\n" for row in range(3600))
    )
    with running([tmp_path]) as bench:
        bench.follow(bench.post("/open", table=str(tmp_path / "many.csv")))
        (project,) = bench.workbench.projects.values()
        place = f"/p/{project.number}/columns/0"
        cut, whole = bench.get(place).text, bench.get(f"{place}?all=1").text
        assert cut.count('class="label">town') == 250
        assert "50 more" in cut
        assert whole.count('class="label">town') == 300
        root = project.outline("town").root
        form = {"edition": project.decided.edition, "do": "group", "label": "two", "pick": [0, 1]}
        kept = bench.post(place, open=root, all=1, **form).text
        assert kept.count('class="label">town') == 300, "what was asked for stays open"


SLOW = [pytest.param(method, marks=pytest.mark.slow) for method in ("lattice", "kmember")]


@pytest.mark.parametrize("method", ["mondrian", "full-domain", *SLOW])
def test_the_command_line_repeats_a_release_with_trees_and_limits(
    towns: Editor, method: str, tmp_path: Path
) -> None:
    towns.do("group", "Aton", "Berg", "Cove", label="north")
    towns.do("group", "Dale", "Eden", label="south")
    towns.do("mark", "north", "south", "Ford", "Zzyzx")
    towns.of("age").do("build", way="width", width="20")
    towns.of("age").do("height:1")
    towns.of("code").do("build", way="prefixes", keep="3,2")
    bench, base = towns.bench, f"/p/{towns.project.number}"
    demand = {"k": 3, "l": 2, "method": method, "suppression_limit": 50}
    tried = bench.follow(bench.post(f"{base}/utility", **demand))
    assert "own trees and limits" in tried.text
    done = bench.follow(bench.post(f"{base}/release"))
    assert 'data-holds="yes"' in done.text, done.text
    folder = tmp_path / "people.csv.sfumato"
    # The folder can be moved: paths in the settings are relative to them.
    moved = folder.rename(tmp_path / "taken away")
    again = tmp_path / "again.csv"
    answer = sfumato(
        "anonymize", tmp_path / "people.csv", "--config", moved / "release.toml", "-o", again
    )
    assert answer.code == 0, answer.err
    assert again.read_bytes() == (moved / "release.csv").read_bytes()
    assert sf.verify(str(again)).holds
    released = sf.table(str(again))
    shown = set(released.values("town").values[0].to_pylist())
    assert shown <= {*TOWNS, "north", "south"}
    assert "*" not in set(released.values("age").values[0].to_pylist())


def test_a_tree_that_lacks_a_value_is_told_and_can_be_left(towns: Editor, tmp_path: Path) -> None:
    towns.do("group", "Aton", "Berg", label="north")
    towns.bench.post(f"/p/{towns.project.number}/close")
    with (tmp_path / "people.csv").open("a") as file:
        file.write("new,33,Newtown,10000,1950-01-10,flu\n")
    towns.bench.follow(towns.bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = towns.bench.workbench.projects.values()
    again = Editor(towns.bench, project, "town")
    page = towns.bench.get(again.place)
    assert "1 of the column" in page.text
    refused = towns.bench.follow(towns.bench.post(f"/p/{project.number}/release"))
    assert "not in the hierarchy" in refused.text
    again.do("forget")
    assert "Newtown" in again.outline.values
    assert 'class="verdict bad"' not in towns.bench.get(again.place).text


def test_columns_with_very_many_values_are_left_to_the_method(
    towns: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.web.opened.MOST_VALUES", 5)
    page = towns.bench.get(towns.place)
    assert page.status == 400
    assert "7 values" in page.text
