"""Real public tables for tests; where the folder is missing, tests that need them are skipped.

Set SFUMATO_DATA to a folder with the Parquet files to run those tests elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
ADULT_QI = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass",
            "occupation"]  # fmt: skip
"""What others may know of the people in ``arx_adult.parquet``."""


def sample_path(name: str) -> Path:
    """Path of a real table such as ``adult.parquet``; skips the test where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"real table {name} is not in {FOLDER} (set SFUMATO_DATA)")
    return path
