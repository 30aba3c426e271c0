"""One column by its tree, the others in ranges and sets: no tree is inferred then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymization.request import Request
from sfumato.errors import ParameterError

PEOPLE = pa.table(
    {
        "age": [20 + row * 7 % 40 for row in range(240)],
        "sex": ["FM"[row % 2] for row in range(240)],
        "town": [("Aton", "Berg", "Cove", "Dale")[row * 5 % 4] for row in range(240)],
    }
)
TREE = "Aton;north;*\nBerg;north;*\nCove;south;*\nDale;south;*\n"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "town.csv").write_text(TREE)
    return tmp_path / "trees"


@pytest.mark.parametrize("method", ["mondrian", "lattice", "kmember", "best"])
def test_only_the_column_with_a_tree_climbs_it(trees: Path, method: str) -> None:
    asked = {"qi": ["age", "sex", "town"], "k": 20, "method": method, "hierarchies": trees}
    mixed = sf.anonymize(PEOPLE, **asked, infer_hierarchies=False)
    assert "inferred_hierarchies" not in mixed.details
    shown = mixed.table.sample(240)
    towns = set(shown.column("town").to_pylist())
    assert towns <= {"Aton", "Berg", "Cove", "Dale", "north", "south", "*"}
    assert any(age.startswith("[") for age in shown.column("age").to_pylist())
    assert "*" not in set(shown.column("sex").to_pylist())
    climbed = sf.anonymize(PEOPLE, **asked)
    assert set(climbed.details["inferred_hierarchies"]) == {"age", "sex"}


def test_the_setting_survives_its_file(trees: Path, tmp_path: Path) -> None:
    asked = Request.of({"qi": ["age"], "k": 2, "infer_hierarchies": False, "hierarchies": trees})
    (tmp_path / "mine.toml").write_text(asked.to_toml())
    assert "infer_hierarchies = false" in asked.to_toml()
    assert Request.read(tmp_path / "mine.toml").infer_hierarchies is False
    with pytest.raises(ParameterError, match="true or false"):
        Request.of({"qi": ["age"], "k": 2, "infer_hierarchies": "no"})
