"""``sfumato hierarchy`` as a user's shell sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli.hierarchy import app
from sfumato.hierarchy import read_arx


def run(*arguments: object) -> Any:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = "".join(f"{age},0{2100 + age},x{age % 3}\n" for age in range(17, 91))
    path.write_text("age,zip,team\n" + rows)
    return path


def test_making_files(people: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trees"
    done = run("make", people, "-c", "age,team", "-o", folder, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)["hierarchies"]
    assert [one["name"] for one in told] == ["age", "team"]
    assert told[0]["labels"] == [74, 16, 9, 5, 3, 2, 1]
    assert "intervals of 5" in told[0]["reason"]
    assert read_arx(folder / "age.csv").height == 6
    again = run("make", people, "-c", "age", "-o", folder)
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert run("make", people, "-c", "age", "-o", folder, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (("-c", "age", "--kind", "intervals", "--width", "50"), [74, 2, 1]),
        (("-c", "age", "--kind", "intervals", "--edges", "18,65"), [74, 3, 2, 1]),
        (("-c", "age", "--kind", "frequency", "--count", "2"), [74, 2, 1]),
        (("-c", "age", "--kind", "order", "--fanout", "50"), [74, 2, 1]),
        (("-c", "age", "--kind", "prefixes", "--keep", "1"), [74, 9, 1]),
        (("-c", "team", "--kind", "flat"), [3, 1]),
    ],
)
def test_ways_to_cut(people: Path, options: tuple[str, ...], labels: list[int]) -> None:
    done = run("make", people, *options, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["hierarchies"][0]["labels"] == labels


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no columns were named"),
        (("-c", "age", "--kind", "frequency"), "needs --count"),
        (("-c", "age", "--kind", "intervals"), "exactly one"),
        (("-c", "age", "--kind", "prefixes", "--keep", "a"), "--keep needs whole numbers"),
        (("-c", "team", "--kind", "dates"), "not dates"),
        (("-c", "aeg"), "Did you mean"),
    ],
)
def test_bad_options(people: Path, options: tuple[str, ...], words: str) -> None:
    done = run("make", people, *options)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_column_names_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("../age,a/b\n1,2\n")
    for name in ("../age", "a/b"):
        done = run("make", path, "-c", name, "-o", tmp_path / "trees")
        assert done.exit_code == 2
        assert "cannot be named after" in " ".join(done.stderr.split())
    assert not (tmp_path / "trees").exists()


def test_showing_a_file(tmp_path: Path) -> None:
    path = tmp_path / "place.csv"
    path.write_text("Wichita;Kansas;US\nLincoln;Nebraska;US\nOmaha;Nebraska;US\n")
    done = run("show", path)
    assert done.exit_code == 0
    assert "3 values, height 2" in done.stdout
    assert "Nebraska  2" in done.stdout
    assert "Omaha" not in done.stdout
    assert "Omaha" in run("show", path, "--values").stdout
    assert "… 1 more" in run("show", path, "--width", "1").stdout
    told = json.loads(run("show", path, "--json").stdout)
    assert told["labels"] == [3, 2, 1]
    assert told["ambiguous"] == 0


def test_showing_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "place.csv"
    path.write_text("Wichita;Kansas;US\nLincoln;Nebraska;Us\n")
    done = run("show", path)
    assert done.exit_code == 2
    assert "line 2 ends in another root than line 1" in " ".join(done.stderr.split())


def test_showing_a_taxonomy(tmp_path: Path) -> None:
    path = tmp_path / "animals.csv"
    path.write_text("cat,mammal\nmammal,all\nant,all\n")
    assert "unequal depth" in run("show", path, "--taxonomy").stdout
