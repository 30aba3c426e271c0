"""Every error of the rooms that users meet first says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sfumato
from sfumato import errors

SOURCES = Path(sfumato.__file__).parent
ROOMS = ("anonymization", "engines", "hierarchy", "quasi", "release", "tables", "utility")
CLI = [f"cli/{path.name}" for path in sorted((SOURCES / "cli").glob("*.py"))]
OWN = {name for name in vars(errors) if name.endswith("Error")} - {"MissingExtraError"}


def without_remedy(path: Path) -> list[int]:
    """Lines that make an error of ours and give no remedy."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in OWN
        and not any(given.arg == "remedy" for given in call.keywords)
    ]


@pytest.mark.parametrize(
    "room", [*ROOMS, *CLI, "budget.py", "demo.py", "fields.py", "files.py", "risks.py"]
)
def test_every_error_has_a_remedy(room):
    place = SOURCES / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert files
    found = {str(path.relative_to(SOURCES)): without_remedy(path) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}
