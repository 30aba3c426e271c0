"""Folders for rows: private, gone with the process, and removed later if it was killed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sfumato.engines import private_folder
from sfumato.engines.private_folder import MARK, PREFIX, PrivateFolder, remove_abandoned
from workbench import running

pytest.importorskip("fcntl", reason="NOT TESTED for abandoned folders: there are no locks here")

MAKE = """
import sys
from pathlib import Path
from sfumato.engines.private_folder import PrivateFolder
made = PrivateFolder()
inside = made.path / "deep" / "deeper"
inside.mkdir(parents=True)
(inside / "people.csv").write_text("name,age")
(inside / "link").symlink_to(sys.argv[1])
print(made.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test alone."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@contextmanager
def other(temporary: Path, linked: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(linked)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def test_it_is_private_and_goes_away() -> None:
    made = PrivateFolder()
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((made.path / MARK).stat().st_mode) == 0o600
    (made.path / "people.csv").write_text("name,age")
    made.close()
    made.close()
    assert not made.path.exists()


def test_what_a_killed_process_left_is_removed_and_nothing_it_linked_to(
    temporary: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "elsewhere"
    linked.mkdir()
    (linked / "kept.txt").write_text("kept")
    with other(temporary, linked) as (process, place):
        assert remove_abandoned() == 0, "its process lives"
        assert (place / "deep" / "deeper" / "people.csv").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert place.exists()
        assert remove_abandoned() == 1
    assert list(temporary.iterdir()) == []
    assert (linked / "kept.txt").read_text() == "kept"


def test_a_process_that_ends_by_itself_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    with other(temporary, tmp_path) as (process, place):
        process.communicate()
        assert process.returncode == 0
        assert not place.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_that_ends_leaves_the_folder_to_its_process() -> None:
    program = """
import os, sys
from sfumato.engines.private_folder import PrivateFolder
made = PrivateFolder()
if not (child := os.fork()):
    sys.exit(0)
os.waitpid(child, 0)
print(made.path.exists())
made.close()
print(made.path.exists())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


def test_the_next_program_that_needs_one_removes_it(temporary: Path, tmp_path: Path) -> None:
    with other(temporary, tmp_path) as (process, place):
        process.kill()
        process.wait()
        assert place.exists()
        with other(temporary, tmp_path) as (_, another):
            assert list(temporary.iterdir()) == [another]


def test_the_next_workbench_removes_it(temporary: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with other(temporary, shelf) as (process, place):
        process.kill()
        process.wait()
        with running([shelf]) as bench:
            assert bench.get("/").status == 200
            assert not place.exists()


def abandoned(temporary: Path) -> Path:
    """What is left of a folder whose process was killed: nobody holds it."""
    made = PrivateFolder()
    kept = temporary / "copy"
    shutil.copytree(made.path, kept)
    inode = made.path.stat().st_ino
    mark = (made.path / MARK).read_text()
    made.close()
    place = kept.rename(made.path)
    place.chmod(0o700)
    (place / MARK).write_text(mark.replace(f", {inode}\n", f", {place.stat().st_ino}\n"))
    (place / "people.csv").write_text("name,age")
    return place


def test_an_abandoned_folder_is_known_by_its_mark(temporary: Path) -> None:
    place = abandoned(temporary)
    assert remove_abandoned() == 1
    assert not place.exists()


@pytest.mark.parametrize("change", ["open", "renamed", "unmarked", "marked", "linked", "another's"])
def test_what_is_not_provably_ours_stays(
    temporary: Path, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = abandoned(temporary)
    if change == "open":
        place.chmod(0o750)
    elif change == "renamed":
        place = place.rename(temporary / f"{PREFIX}other")
    elif change == "unmarked":
        (place / MARK).unlink()
    elif change == "marked":
        mark = (place / MARK).rename(tmp_path / "mark")
        (place / MARK).symlink_to(mark)
    elif change == "linked":
        hidden = place.rename(tmp_path / place.name)
        place.symlink_to(hidden)
    else:
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert remove_abandoned() == 0
    assert (place / "people.csv").read_text() == "name,age"


def test_a_folder_copied_with_its_mark_stays(temporary: Path) -> None:
    made = PrivateFolder()
    copy = temporary / f"{PREFIX}copy"
    shutil.copytree(made.path, copy)
    copy.chmod(0o700)
    (copy / "people.csv").write_text("name,age")
    assert remove_abandoned() == 0
    assert (copy / "people.csv").exists()
    made.close()


def test_other_things_of_that_name_stay(temporary: Path) -> None:
    (temporary / f"{PREFIX}file").write_text("a file")
    (temporary / "sfumato-other").mkdir(mode=0o700)
    os.mkfifo(temporary / f"{PREFIX}pipe")
    assert remove_abandoned() == 0
    assert len(list(temporary.iterdir())) == 3


def test_one_that_was_left_before_it_was_marked_is_removed(temporary: Path) -> None:
    (temporary / f"{PREFIX}new").mkdir(mode=0o700)
    assert remove_abandoned() == 1
    assert list(temporary.iterdir()) == []


def test_what_takes_its_place_meanwhile_is_not_removed(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking and removing, another folder is put where the abandoned one was."""
    place = abandoned(temporary)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "people.csv").write_text("precious")
    empty = private_folder._empty

    def swapped(handle: int) -> None:
        place.rename(tmp_path / "moved")
        precious.rename(place)
        empty(handle)

    monkeypatch.setattr("sfumato.engines.private_folder._empty", swapped)
    assert remove_abandoned() == 0
    assert (place / "people.csv").read_text() == "precious"
    assert list((tmp_path / "moved").iterdir()) == []


def test_one_that_is_removed_before_it_is_held_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = private_folder._locked
    removed: list[int] = []

    def late(handle: int) -> bool | None:
        if not removed:
            removed.append(0)  # before: what removes it takes hold of it too
            removed[0] = remove_abandoned()
        return locked(handle)

    monkeypatch.setattr("sfumato.engines.private_folder._locked", late)
    made = PrivateFolder()
    assert removed == [1]
    assert list(temporary.iterdir()) == [made.path]
    assert (made.path / MARK).exists()
    made.close()


def test_many_begin_while_others_tidy_up(temporary: Path) -> None:
    stop = threading.Event()

    def tidy() -> None:
        while not stop.is_set():
            remove_abandoned()

    threads = [threading.Thread(target=tidy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        made = [PrivateFolder() for _ in range(100)]
        for one in made:
            (one.path / "people.csv").write_text("name,age")
        assert all((one.path / "people.csv").exists() for one in made)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for one in made:
        one.close()
    remove_abandoned()
    assert list(temporary.iterdir()) == []


def test_where_nothing_can_be_locked_folders_are_left_alone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    place = abandoned(temporary)
    monkeypatch.setattr("fcntl.flock", refuse)
    made = PrivateFolder()
    assert remove_abandoned() == 0
    assert place.exists()
    made.close()
    assert not made.path.exists()
