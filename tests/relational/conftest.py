"""A small house of patients, visits and wards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest


def house_tables(persons: int = 40, seed: int = 0) -> dict[str, pa.Table]:
    """Patients with one to four visits each, in one of three wards."""
    random = np.random.default_rng(seed)
    whose = np.repeat(np.arange(persons), random.integers(1, 5, persons))
    return {
        "patients": pa.table(
            {
                "id": [f"P{one:04d}" for one in range(persons)],
                "sex": random.choice(["F", "M"], persons),
                "born": random.integers(1950, 1956, persons),
            }
        ),
        "visits": pa.table(
            {
                "patient_id": [f"P{one:04d}" for one in whose],
                "ward_id": random.integers(0, 3, len(whose)),
                "ward": random.choice(["eyes", "heart", "skin"], len(whose)),
                "cost": random.permutation(len(whose)) / 100,
            }
        ),
        "wards": pa.table({"id": [0, 1, 2], "floor": ["up", "up", "down"]}),
    }


DESCRIPTION = """\
person = "patients.id"
[tables.patients]
source = "patients.csv"
key = "id"
[tables.visits]
source = "visits.csv"
references = { patient_id = "patients.id", ward_id = "wards.id" }
[tables.wards]
source = "wards.csv"
publish = true
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The house in a folder with its description."""
    folder = tmp_path / "house"
    folder.mkdir()
    for name, rows in house_tables().items():
        pa.csv.write_csv(rows, folder / f"{name}.csv")
    (folder / "dataset.toml").write_text(DESCRIPTION)
    return folder
