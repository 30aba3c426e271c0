"""Imports point down, and whoever follows one run reads few files.

A room is a folder or a module directly below `sfumato`. Imports inside functions count, since they
tie rooms together just as much; imports for type checkers only do not.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato
from cli_tools import Program

ROOT = Path(sfumato.__file__).parent


def room_of(path: Path) -> str:
    """The room a module is in."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of modules that are imported when the code runs."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue  # nothing is imported inside of an expression
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def needs() -> dict[str, dict[str, set[str]]]:
    """For each room the rooms it needs, with the files that say so."""
    rooms = {room_of(path) for path in ROOT.rglob("*.py")} - {"__init__", "__main__"}
    graph: dict[str, dict[str, set[str]]] = {room: {} for room in rooms}
    for path in ROOT.rglob("*.py"):
        mine = room_of(path)
        if mine not in rooms:
            continue
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            parts = name.split(".")
            if parts[0] == "sfumato" and len(parts) > 1 and parts[1] in rooms - {mine}:
                graph[mine].setdefault(parts[1], set()).add(str(path.relative_to(ROOT)))
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of rooms each of which can be reached from all others of its group."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            room = waiting.pop()
            if room not in found:
                found.add(room)
                waiting += graph[room]
        return found

    reach = {room: reached(room) for room in graph}
    groups = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return [set(group) for group in groups]


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_function_level_imports_count_and_type_checking_ones_do_not() -> None:
    code = "if TYPE_CHECKING:\n    import sfumato.a\ndef f():\n    from sfumato.b import c"
    assert list(imported(ast.parse(code))) == ["sfumato.b", "sfumato.b.c"]


def test_rooms_need_each_other_in_no_circle() -> None:
    graph = needs()
    found = [
        f"{room} -> {other} ({', '.join(sorted(graph[room][other]))})"
        for group in circles({room: set(others) for room, others in graph.items()})
        for room in sorted(group)
        for other in sorted(group & graph[room].keys())
    ]
    assert not found, "rooms import each other in a circle:\n" + "\n".join(found)


def test_only_packages_list_their_names() -> None:
    listing = [path for path in ROOT.rglob("*.py") if "\n__all__ " in path.read_text("utf-8")]
    assert {path.name for path in listing} == {"__init__.py"}, listing


MOST_FILES = 46
"""Files that whoever follows `anonymize -k 5` has to open."""

FOLLOWED = """
import json, sys, threading

ran = {}

def note(frame, event, _):
    code = frame.f_code  # modules, bodies of classes and what stands in them have names in <>
    if event == "call" and code.co_flags & 2 and not code.co_name.startswith("<"):
        ran.setdefault(code.co_filename, set()).add(code.co_name)

threading.setprofile(note)
sys.setprofile(note)
from sfumato.cli import main
try:
    main()
finally:
    sys.setprofile(None)
    with open("ran.json", "w") as written:
        json.dump({file: sorted(names) for file, names in ran.items()}, written)
"""


def test_a_plain_run_of_anonymize_passes_through_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [37 * i % 200 for i in range(200)]  # in no order, of which there would be a warning
    lines = [f"{20 + 3 * i % 50},{10000 + i % 7},{'FM'[i % 2]},{'abc'[i % 3]}" for i in rows]
    (tmp_path / "t.csv").write_text("\n".join(["age,zip,sex,illness", *lines]), encoding="utf-8")
    asked = ["anonymize", "t.csv", "-k", "5", "--qi", "age,zip,sex", "-o", "out.csv"]
    monkeypatch.chdir(tmp_path)
    done = Program(*asked, code=FOLLOWED)
    out, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    assert "Written and verified" in out
    ran = json.loads((tmp_path / "ran.json").read_text(encoding="utf-8"))
    assert not any("pandas" in Path(file).parts for file in ran)  # Arrow would load it for nothing
    ours = {
        Path(file).relative_to(ROOT).as_posix(): names
        for file, names in ran.items()
        if Path(file).is_relative_to(ROOT)
    }
    said = sorted(f"{file}: {', '.join(names)}" for file, names in ours.items())
    assert len(ours) <= MOST_FILES, "\n".join(said)
    assert "anonymization/methods/mondrian.py" in ours  # it was followed to the end
    assert "release/certificate.py" in ours
