"""Rooms load compilers and models on first use only."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("room", ["hierarchy", "privacy", "utility", "risks"])
def test_importing_a_room_loads_nothing_heavy(room: str) -> None:
    heavy = ["numba", "scipy", "sklearn", "pandas", "pyspark", "duckdb"]
    program = (
        f"import sys, sfumato.{room}\nprint([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
