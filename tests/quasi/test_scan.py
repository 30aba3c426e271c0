"""The first look: facts on real tables, on the synthetic hospital and at the edges."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import sfumato as sf
from samples import sample_path
from sfumato.budget import Budget
from sfumato.demo import people
from sfumato.errors import BudgetError, ColumnError


@pytest.fixture(scope="module")
def adult():
    return sf.scan(sample_path("adult.parquet"))


@pytest.fixture(scope="module")
def hospital():
    return sf.scan(people(5000, seed=3))


def test_adult_has_24_duplicates_and_no_key(adult):
    assert adult.rows == 32_561
    assert adult.duplicate_rows == 24
    assert adult.keys == ()


def test_adult_twins_are_reported_once_and_used_once(adult):
    assert adult.twins == (("education", "education-num"),)
    used = {name for m in (*adult.combinations, *adult.ladder) for name in m.columns}
    assert "education" in used
    assert "education-num" not in used


def test_adult_columns(adult):
    columns = {column.name: column for column in adult.columns}
    distinct = {"age": 73, "workclass": 9, "fnlwgt": 21_648, "native-country": 42, "sex": 2}
    assert {name: columns[name].classes for name in distinct} == distinct
    nulls = {name: column.nulls for name, column in columns.items() if column.nulls}
    assert nulls == {"workclass": 1836, "occupation": 1843, "native-country": 583}
    assert columns["fnlwgt"].role == "other"
    assert columns["age"].role == columns["race"].role == "quasi-identifier"
    assert columns["income"].role == "sensitive"


def test_adult_best_pair_is_that_of_lodha_and_thomas(adult):
    best = adult.combinations[0]
    assert best.columns == ("age", "hours-per-week")
    assert best.unique_rows == 986
    assert adult.choice is None


def test_hospital_roles(hospital):
    roles = {column.name: column.role for column in hospital.columns}
    for name in ("patient_id", "name", "ssn", "email", "phone", "note"):
        assert roles[name] == "identifier", name
    for name in ("birth_date", "sex", "zip", "ethnicity", "language", "admission_date"):
        assert roles[name] == "quasi-identifier", name
    for name in ("diagnosis", "diagnosis_name", "cost"):
        assert roles[name] == "sensitive", name
    assert all(column.why for column in hospital.columns)


def test_hospital_keys_twins_and_flags(hospital):
    assert ("ssn",) in hospital.keys
    assert ("patient_id",) in hospital.keys
    assert hospital.duplicate_rows == 0
    assert ("diagnosis", "diagnosis_name") in hospital.twins
    flags = {column.name: column.flags for column in hospital.columns}
    assert "free text" in flags["note"]
    assert "float" in flags["cost"]
    assert "nearly a key" in flags["phone"]


def test_hospital_next_names_the_identifiers(hospital):
    assert any("ssn" in step and "note" in step for step in hospital.next)


def test_hospital_next_leaves_out_what_would_tell_what_is_blurred(hospital):
    """`department` follows from `doctor`; as it is, it would stand beside a blurred one."""
    assert "department (follows from doctor)" in hospital.proposal
    (blur,) = [step for step in hospital.next if step.startswith("Blur")]
    assert "leaving out department, which others may also know" in blur.split(":")[0]
    known = {c.name for c in hospital.columns if c.role == "quasi-identifier"}
    named = blur.split("sfumato anonymize")[1].replace(" ", ",").split(",")
    assert known <= set(named)


def test_json_has_the_promised_fields_and_no_cell(hospital):
    text = hospital.to_json()
    told = json.loads(text)
    assert set(told) >= {
        *("rows", "duplicate_rows", "columns", "keys", "twins", "combinations", "next")
    }
    assert set(told["columns"][0]) >= {
        *("name", "type", "nulls", "distinct", "unique", "role", "why")
    }
    table = people(5000, seed=3)
    for name in ("name", "ssn", "email", "diagnosis_name", "doctor", "note"):
        cells = set(table.column(name).to_pylist()[:200]) - {None}
        assert not [cell for cell in cells if cell in text], name


def test_a_role_without_a_known_name_comes_from_the_cells():
    table = pa.table(
        {
            "x1": [f"user{i}@example.org" for i in range(50)],
            "x2": [f"{i % 7:03}-{i:02}-{1000 + i}" for i in range(50)],
            "x3": ["M", "F"] * 25,
            "x4": [f"{10000 + i % 20}" for i in range(50)],
            "x5": [f"E11.{i % 10}" for i in range(50)],
            "x6": [f"Seen on day {i}, went home and felt much better" for i in range(50)],
            "x7": [i / 7 for i in range(50)],
            "x8": ["same"] * 50,
            "x9": [None] * 50,
            "x10": [i % 4 for i in range(50)],
        }
    )
    roles = [column.role for column in sf.scan(table).columns]
    assert roles == [
        *("identifier", "identifier", "quasi-identifier", "quasi-identifier", "sensitive"),
        *("identifier", "other", "other", "other", "quasi-identifier"),
    ]


def test_nulls_and_nan_are_counted_as_what_they_are():
    table = pa.table({"a": [1.0, float("nan"), float("nan"), None, None, -0.0, 0.0]})
    (column,) = sf.scan(table).columns
    assert (column.nulls, column.classes, column.unique_rows) == (2, 4, 1)


@pytest.mark.parametrize("rows", [0, 1])
def test_nobody_and_one_person(rows):
    table = pa.table({"age": pa.array([30] * rows, pa.int64()), "sex": ["F"] * rows})
    found = sf.scan(table)
    assert found.rows == rows
    assert found.duplicate_rows == 0
    assert found.keys == ()


def test_one_column():
    found = sf.scan(pa.table({"age": [1, 2, 2]}))
    assert found.combinations == ()
    assert [m.unique_rows for m in found.ladder] == [1]


def test_columns_can_be_chosen():
    found = sf.scan(people(200), ["zip", "sex"])
    assert [column.name for column in found.columns] == ["zip", "sex"]
    with pytest.raises(ColumnError, match="Did you mean `zip`"):
        sf.scan(people(200), ["zpi"])


def test_engines_agree(hospital):
    inside = sf.scan(sf.table(people(5000, seed=3), engine="duckdb"))
    assert inside.engine == "duckdb"
    assert inside.columns == hospital.columns
    assert inside.keys == hospital.keys
    assert inside.twins == hospital.twins
    assert inside.combinations == hospital.combinations
    assert inside.ladder == hospital.ladder


def test_same_seed_same_answer():
    assert sf.scan(people(3000), seed=5).to_json() == sf.scan(people(3000), seed=5).to_json()


def test_no_time_at_all():
    with pytest.raises(BudgetError):
        sf.scan(people(100), budget=Budget(seconds=0))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_dates_that_python_does_not_have(engine):
    far = pa.table(
        {
            "day": pa.array([-10_000_000, 2**30, None], pa.date32()),
            "moment": pa.array([1, 2**40, None], pa.timestamp("s", "UTC")),
        }
    )
    found = sf.scan(sf.table(far, engine=engine))
    assert [column.type for column in found.columns] == ["date", "timestamp"]
    assert [column.classes for column in found.columns] == [3, 3]
