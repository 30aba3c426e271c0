"""The synthetic hospital: seeded, correlated, and nobody real in it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.budget import Budget
from sfumato.demo import BLOCK, people, people_batches, write_hospital
from sfumato.errors import BudgetError, ParameterError


@pytest.fixture(scope="module")
def table():
    return people(20_000)


def test_same_seed_same_people(table):
    assert people(20_000).equals(table)
    assert not people(20_000, seed=1).equals(table)


def test_more_rows_begin_with_the_same_blocks():
    few, more = people(BLOCK), people(BLOCK + 10)
    assert more.num_rows == BLOCK + 10
    assert more.slice(0, BLOCK).combine_chunks().equals(few.combine_chunks())


def test_numbers_are_keys_even_beyond_a_block():
    table = people(2 * BLOCK + 1)
    for name in ("patient_id", "ssn"):
        assert pc.count_distinct(table.column(name)).as_py() == table.num_rows


def test_nothing_can_belong_to_somebody(table):
    assert all(
        # never a social security number (900-999), never a taxpayer number (group 50 and above)
        re.fullmatch(r"9\d\d-[0-4]\d-\d{4}", cell)
        for cell in table.column("ssn").to_pylist()
    )
    phones = table.column("phone").drop_null().to_pylist()
    assert all(re.fullmatch(r"\(555\) [2-9]\d\d-\d{4}", cell) for cell in phones)
    emails = table.column("email").drop_null().to_pylist()
    assert all(re.fullmatch(r"[a-z.]+\d+@example\.(com|org|net)", cell) for cell in emails)


def share(table, column, value):
    return pc.mean(pc.equal(table.column(column), value).cast(pa.float64())).as_py()


def test_diagnosis_goes_with_sex_and_age(table):
    deliveries = table.filter(pc.field("diagnosis") == "O80")
    assert deliveries.num_rows > 100
    assert set(deliveries.column("sex").to_pylist()) == {"F"}
    prostate = table.filter(pc.field("diagnosis").isin(["C61", "N40.1"]))
    assert set(prostate.column("sex").to_pylist()) == {"M"}
    days = pc.days_between(table.column("birth_date"), table.column("admission_date"))
    old = table.append_column("age", pc.divide(days, 365)).filter(pc.field("diagnosis") == "G30.9")
    assert pc.mean(old.column("age")).as_py() > 75


def test_language_goes_with_the_neighbourhood(table):
    east = table.filter(pc.field("zip") == "02128")
    west = table.filter(pc.field("zip") == "02138")
    assert share(east, "language", "Spanish") > 3 * share(west, "language", "Spanish")


def test_dates_are_in_order(table):
    filled = table.filter(pc.field("discharge_date").is_valid())
    assert pc.all(
        pc.less_equal(filled.column("admission_date"), filled.column("discharge_date"))
    ).as_py()
    assert pc.all(pc.less_equal(table.column("birth_date"), table.column("admission_date"))).as_py()


def test_some_are_very_old_and_some_places_very_small(table):
    days = pc.days_between(table.column("birth_date"), table.column("admission_date"))
    ages = np.asarray(days) / 365.25
    assert (ages > 89).sum() > 50
    assert ages.max() < 106
    counts = sorted(pair["counts"] for pair in table.column("zip").value_counts().to_pylist())
    assert counts[0] < 10 < 500 < counts[-1]


@pytest.mark.parametrize("rows", [0, 1])
def test_nobody_and_one_person(rows):
    assert people(rows).num_rows == rows


def test_batches_are_bounded():
    assert [batch.num_rows for batch in people_batches(BLOCK + 1)] == [BLOCK, 1]


@pytest.mark.parametrize("bad", [{"rows": -1}, {"rows": 50_000_001}, {"seed": -1}])
def test_impossible_hospitals(bad):
    with pytest.raises(ParameterError):
        people(**bad)


def test_a_hospital_that_is_not_finished_leaves_no_folder(tmp_path: Path) -> None:
    stopped = Budget()
    stopped.cancel()
    with pytest.raises(BudgetError):
        write_hospital(tmp_path / "hospital", rows=10, budget=stopped)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").mkdir()
    with pytest.raises(ParameterError, match="cannot be made"):
        write_hospital(tmp_path / "there", rows=10)
