"""The paper's dose variable, equation 5.8."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from cli_tools import sfumato
from sfumato.errors import ColumnError, InputError
from sfumato.joint import add_dose, equivalent_dose


def test_equation_5_8() -> None:
    # 1.8 Gy twice daily to 61.2 Gy in 24 days: no repopulation; 2.75 Gy to 66 Gy in 32 days.
    found = equivalent_dose([61.2, 66.0], [1.8, 2.75], [24, 32])
    np.testing.assert_allclose(found, [61.2 * 11.8 / 12, 66 * 12.75 / 12 - 0.66 * 4])


def test_negative_doses_are_refused() -> None:
    with pytest.raises(InputError, match="not be negative"):
        equivalent_dose(60, -2, 30)


TREATED = pa.table({"gy": [61.2, 66.0, 60.0], "each": [1.8, 2.75, None], "days": [24, 32, 30]})


def test_a_dose_is_a_column_beside_the_others(tmp_path) -> None:
    wanted = [*equivalent_dose([61.2, 66.0], [1.8, 2.75], [24, 32]).tolist(), None]
    found = add_dose(TREATED, total="gy", per_fraction="each", days="days")
    assert found.column("eqd2").to_pylist() == wanted
    assert found.drop(["eqd2"]) == TREATED
    csv.write_csv(TREATED, tmp_path / "treated.csv")
    asked = ["--total", "gy", "--fraction", "each", "--days", "days", "-o", tmp_path / "dosed.csv"]
    done = sfumato("joint", "dose", tmp_path / "treated.csv", *asked, "--json")
    assert (done.code, done.json["rows"], done.json["empty"]) == (0, 3, 1)
    assert csv.read_csv(tmp_path / "dosed.csv").column("eqd2").to_pylist() == wanted
    again = sfumato("joint", "dose", tmp_path / "treated.csv", *asked)
    assert (again.code, "--force" in again.err) == (2, True)


def test_doses_that_cannot_be_had(tmp_path) -> None:
    asked = {"total": "gy", "per_fraction": "each", "days": "days"}
    with pytest.raises(ColumnError, match="no column `dys`"):
        add_dose(TREATED, **{**asked, "days": "dys"})
    with pytest.raises(ColumnError, match="a column `gy` already"):
        add_dose(TREATED, **asked, name="gy")
    with pytest.raises(InputError, match="numbers"):
        add_dose(pa.table({"gy": ["much"], "each": [2.0], "days": [1]}), **asked)
