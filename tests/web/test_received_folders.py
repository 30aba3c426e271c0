"""A project folder that somebody handed over leads nowhere else, and loses nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.errors import EngineError, InputError, SourceError
from sfumato.files import make_folder
from sfumato.web.choices import write_choices
from sfumato.web.hierarchies import inferred
from sfumato.web.project import Project
from workbench import PEOPLE


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A folder with files that somebody needs."""
    place = tmp_path / "treasure"
    place.mkdir()
    (place / "thesis.csv").write_text("years,of\nwork,1\n")
    return place


def opened(tmp_path: Path) -> Project:
    source = tmp_path / "people.csv"
    source.write_text(PEOPLE)
    return Project(source, sf.table(str(source)))


def with_tree(project: Project) -> None:
    project.look(Budget())
    trees = {"town": inferred(project.held("town"))}
    roles = {**project.choices.roles, "town": "quasi-identifier"}
    project.decide(replace(project.choices, roles=roles, trees=trees, k=5))


def released(project: Project, **more: Any) -> None:
    with_tree(project)
    project.decide(replace(project.choices, **more))
    project.release(Budget())


@pytest.mark.parametrize("name", ["hierarchies", "release.hierarchies"])
def test_nothing_is_deleted_through_a_link(tmp_path: Path, treasure: Path, name: str) -> None:
    folder = tmp_path / "people.csv.sfumato"
    folder.mkdir()
    (folder / name).symlink_to(treasure)
    project = opened(tmp_path)
    with pytest.raises(SourceError, match="this is a link"):
        released(project)
    project.close()
    assert [place.name for place in treasure.iterdir()] == ["thesis.csv"]


def test_the_whole_folder_may_be_no_link(tmp_path: Path, treasure: Path) -> None:
    (tmp_path / "people.csv.sfumato").symlink_to(treasure)
    project = opened(tmp_path)
    with pytest.raises(SourceError, match="this is a link"):
        with_tree(project)
    project.close()
    assert [place.name for place in treasure.iterdir()] == ["thesis.csv"]


@pytest.mark.parametrize("name", ["project.toml", "pseudonyms.key"])
def test_files_are_not_read_through_links(tmp_path: Path, treasure: Path, name: str) -> None:
    folder = tmp_path / "people.csv.sfumato"
    folder.mkdir()
    (folder / name).symlink_to(treasure / "thesis.csv")
    project = opened(tmp_path)
    with pytest.raises(InputError, match="this is a link"):
        released(project, pseudonyms=("name",))
    project.close()
    assert (treasure / "thesis.csv").read_text() == "years,of\nwork,1\n"


@pytest.mark.parametrize("name", ["hierarchies", "."])
def test_a_link_that_is_swapped_in_meanwhile_leads_nowhere(
    tmp_path: Path, treasure: Path, name: str
) -> None:
    """Whatever is asked of the system next, somebody puts a link in the place of the folder."""
    (treasure / "town.csv").write_text("mine;*\n")
    precious = {place.name: place.read_text() for place in treasure.iterdir()}
    project = opened(tmp_path)
    with_tree(project)
    project.close()
    folder, choices = project.folder, project.choices
    part = folder / name
    calls, swaps = 0, 0

    def swap(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal calls, swaps
        if event in ("open", "os.listdir", "os.remove", "os.rename", "os.mkdir"):
            calls += 1
            if calls == at and part.is_dir() and not part.is_symlink():
                swaps += 1
                os.rename(part, tmp_path / f"away-{at}")
                os.symlink(treasure, tmp_path / folder.name / name if name != "." else folder)

    for at in range(1, 100):
        calls = 0
        for place in tmp_path.glob("people.csv.sfumato*"):
            place.unlink() if place.is_symlink() else shutil.rmtree(place)
        with contextlib.suppress(InputError, EngineError, OSError):
            make_folder(folder)
            write_choices(choices, folder, "people.csv")
            watching().append(swap)
            write_choices(replace(choices, k=7), folder, "people.csv")
            write_choices(replace(choices, trees={}), folder, "people.csv")
        watching().clear()
        assert {place.name: place.read_text() for place in treasure.iterdir()} == precious, at
        if calls < at:
            break
    assert swaps > 10


@cache
def watching() -> list[Any]:
    """Who is told of what this process asks the system for; a hook cannot be taken away again."""
    told: list[Any] = []
    sys.addaudithook(lambda *event: [tell(*event) for tell in told] and None if told else None)
    return told


def test_no_file_names_the_handle_it_was_written_through(tmp_path: Path) -> None:
    project = opened(tmp_path)
    released(project, pseudonyms=("name",))
    assert project.made is not None
    assert "/proc/self" not in project.made.shown
    for place in project.files():
        assert "/proc/self" not in place.read_text()
    project.close()


def test_what_another_process_left_is_moved_aside(tmp_path: Path) -> None:
    trees = tmp_path / "people.csv.sfumato" / "hierarchies"
    trees.mkdir(parents=True)
    (trees / "mine.csv").write_text("by;hand\n")
    project = opened(tmp_path)
    with_tree(project)
    assert [place.name for place in trees.iterdir()] == ["town.csv"]
    aside = trees.with_name("hierarchies.earlier-1")
    assert (aside / "mine.csv").read_text() == "by;hand\n"
    project.decide(replace(project.choices, trees={}))
    assert list(trees.iterdir()) == [], "this process made it, and tidies up"
    project.close()
