"""The list of mutants stays true to the source, and its runner tells the dead from the living."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@cache
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@cache
def defined_in(file: Path) -> dict[str, bool]:
    """The tests of a file, and whether `make test` leaves them out."""
    found = {}
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = "pytest.mark.slow" in map(ast.unparse, node.decorator_list)
    return found


LISTED = runner().listed(ROOT)


def test_there_are_mutants_of_every_room():
    rooms = Counter(mutant.room for mutant in LISTED)
    assert sum(rooms.values()) >= 150
    assert all((ROOT / "src" / "sfumato" / room).exists() or room == "cells" for room in rooms)
    assert min(rooms.values()) >= 5
    changes = Counter((mutant.file, mutant.old, mutant.new) for mutant in LISTED)
    assert max(changes.values()) == 1


@pytest.mark.parametrize("room", sorted({mutant.room for mutant in LISTED}))
def test_every_mutant_finds_its_place_and_its_tests(room):
    for mutant in LISTED:
        if mutant.room != room:
            continue
        changed = mutant.mutated(mutant.source(ROOT).read_text("utf-8"))
        assert changed != mutant.source(ROOT).read_text("utf-8"), mutant
        ast.parse(changed)
        assert mutant.tests, mutant
        for test in mutant.tests:
            file, _, node = test.partition("::")
            there = defined_in(ROOT / "tests" / file)
            assert not node or there.get(node.split("::")[-1].split("[")[0]) is False, test


ROOM = """\
def enough(size: int, k: int) -> bool:
    return size >= k
"""
TESTS = """\
from sfumato.room import enough


def test_both_sides():
    assert enough(5, 5)
    assert not enough(4, 5)


def test_one_side():
    assert enough(6, 5)
"""
DEAD = {"told": "test_room.py", "good": True, "sure": False, "seconds": 0.0}
PROFILE = "from hypothesis import settings\nsettings.register_profile('mutants')\n"


def mutant(test: str, *, new: str = "size >= k - 1", why: str = "") -> str:
    lines = [
        "[[room]]",
        'breaks = "a group has k rows"',
        'file = "room.py"',
        "old = 'size >= k'",
        f"new = '{new}'",
        f'tests = ["test_room.py::{test}"]',
        f'why = "{why}"' if why else "",
    ]
    return "\n".join(lines)


def made(tree: Path, *mutants: str) -> Path:
    """A project of one function, with a good and a bad test of it."""
    package, tests = tree / "src" / "sfumato", tree / "tests"
    package.mkdir(parents=True)
    tests.mkdir()
    (package / "__init__.py").touch()
    (package / "room.py").write_text(ROOM)
    (tests / "conftest.py").write_text(PROFILE)
    (tests / "test_room.py").write_text(TESTS)
    (tests / "mutants.toml").write_text("\n".join(mutants))
    return tree


def test_the_dead_are_told_from_the_living(tmp_path, capsys, monkeypatch):
    tree = made(
        tmp_path,
        mutant("test_both_sides"),
        mutant("test_one_side"),
        mutant("test_one_side", why="nobody can see it"),
        mutant("test_both_sides", why="nobody can see it"),
        mutant("test_both_sides", new="size >="),
    )
    monkeypatch.setattr(runner(), "LIBRARIES", ())  # this room needs none
    assert runner().main([], tree) == 1
    told = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    told = [cells for cells in told if cells[0] == "room.py:2"]
    assert told[0][1] == "size >= k → size >= k - 1"
    for cells, ended in zip(
        told,
        [
            "test_room.py::test_both_sides",
            "SURVIVED",
            "explained",
            "explained, and yet killed by test_room.py::test_both_sides",
            "the tests could not be run (pytest ended with 4)",
        ],
        strict=True,
    ):
        assert cells[3] == ended
    for place in (tree, tree / "build" / "mutants" / "tree"):
        assert (place / "src" / "sfumato" / "room.py").read_text() == ROOM
    # those that are dead or explained are not tried again
    again = []
    monkeypatch.setattr(runner(), "untouched", lambda *_: None)
    monkeypatch.setattr(runner(), "tried", lambda one, *_: again.append(one.new) or DEAD)
    assert runner().main(["room"], tree) == 0
    assert again == ["size >= k - 1", "size >= k - 1", "size >="]
    with pytest.raises(SystemExit):
        runner().main(["attic"], tree)
    assert "Choose from room" in capsys.readouterr().err


def test_loops_that_hold_a_part_of_what_changed_are_compiled_again():
    package = ROOT / "src" / "sfumato"
    reached = {
        path.relative_to(package).as_posix()
        for path in runner().reached(package, package / "privacy" / "rules.py")
    }
    assert {
        "privacy/rules.py",
        "anonymization/methods/mondrian.py",
        "anonymization/cells/search.py",
    } <= reached
    assert "secure/_kernels.py" not in reached
