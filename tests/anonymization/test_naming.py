"""Columns that name persons are published by nobody's mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.errors import ColumnError


def admissions(rows: int = 600, persons: int = 80) -> pa.Table:
    random = np.random.default_rng(2)
    who = np.sort(random.integers(0, persons, rows))
    sex, born = random.choice(["F", "M"], persons), random.integers(1940, 2000, persons)
    return pa.table(
        {
            "patient_id": [f"P{one:05d}" for one in who],
            "sex": sex[who],
            "birth_year": born[who],
            "ward": random.choice(list("ABCDEF"), rows),
            "diagnosis": random.choice(["flu", "gout", "cold"], rows),
        }
    )


ASKED: dict[str, Any] = {"qi": ["sex", "birth_year", "ward"], "k": 3}


def test_a_number_of_persons_stops_a_release() -> None:
    with pytest.raises(ColumnError, match="`patient_id` would be published") as caught:
        sf.anonymize(admissions(), **ASKED)
    for choice in ("identifiers", "pseudonyms", "person", "rows_are_people"):
        assert choice in str(caught.value)


def test_it_is_no_quasi_identifier_either() -> None:
    with pytest.raises(ColumnError, match="`patient_id` would be published"):
        sf.anonymize(admissions(), qi=["sex", "patient_id"], k=3)


@pytest.mark.parametrize("how", ["identifiers", "pseudonyms", "person", "rows_are_people"])
def test_every_choice_of_the_remedy_lets_it_pass(how: str, tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    key.write_text("5b1f0c9ae37d42886f10d9c4b7a2e35d8c61f4907ab35e2dd08f9b16c7423ae5")
    key.chmod(0o600)
    given: dict[str, Any] = {
        "identifiers": {"identifiers": ["patient_id"]},
        "pseudonyms": {"pseudonyms": ["patient_id"], "key_file": key},
        "person": {"person": "patient_id"},
        "rows_are_people": {"rows_are_people": True},
    }[how]
    release = sf.anonymize(admissions(), **ASKED, **given)
    assert release.verified
    if how in ("identifiers", "pseudonyms"):
        assert any("rows were counted where persons should be" in said for said in release.warnings)


def test_a_number_shared_by_many_rows_is_known_by_what_depends_on_it() -> None:
    table = admissions(2_000, 60).rename_columns(["uid", "sex", "birth_year", "ward", "diagnosis"])
    with pytest.raises(ColumnError, match="`uid`"):
        sf.anonymize(table, **ASKED)
    loose = table.set_column(0, "uid", pa.array(np.random.default_rng(0).permutation(2_000) % 60))
    assert sf.anonymize(loose, **ASKED).verified


def test_what_differs_in_every_row_is_not_published_without_a_word() -> None:
    table = admissions().append_column("tag", pa.array([f"{at:x}-tag" for at in range(600)]))
    release = sf.anonymize(table, person="patient_id", **ASKED)
    assert any("different in nearly every row: `tag`" in said for said in release.warnings)


def test_the_program_ends_with_two_and_names_its_options(tmp_path: Path) -> None:
    place = tmp_path / "admissions.parquet"
    pq.write_table(admissions(), place)
    ended = sfumato("anonymize", str(place), "-k", "3", "--qi", "sex,birth_year,ward")
    assert ended.code == 2
    told = " ".join(ended.err.split())
    for option in ("--identifiers patient_id", "--person patient_id", "--rows-are-people"):
        assert option in told


def test_scan_notices_whose_rows_they_are() -> None:
    found = sf.scan(admissions())
    assert found.person is not None
    assert (found.person.column, found.person.counted) == ("patient_id", False)
    assert set(found.person.own) >= {"sex", "birth_year"}
    assert "patient_id" not in found.proposed
    assert any("--person patient_id" in step for step in found.next)
    by = list(found.person.by)
    assert found.person.unique_rows == sf.measure(admissions(), by).unique_rows
    assert (
        found.person.unique_persons
        == sf.measure(admissions(), by, person="patient_id").unique_persons
    )


def test_scan_counts_persons_where_it_is_told_to() -> None:
    found = sf.scan(admissions(), person="patient_id")
    assert found.person is not None
    assert found.person.counted
    rung = found.ladder[-1]
    measured = sf.measure(admissions(), list(rung.columns), person="patient_id")
    assert (rung.unique_persons, rung.k) == (measured.unique_persons, measured.k)


def test_one_row_a_person_is_no_riddle() -> None:
    table = admissions(80, 80).set_column(0, "patient_id", pa.array([f"P{n}" for n in range(80)]))
    assert sf.scan(table).person is None


@pytest.mark.parametrize("column", ["patient_id", "ssn", "name", "e_mail", "first_name", "id"])
@pytest.mark.parametrize("rows", [1, 4, 12])
def test_a_name_that_says_so_stops_a_release_of_any_size(column: str, rows: int) -> None:
    table = pa.table({"age": [40] * rows, column: [f"x{at}" for at in range(rows)]})
    with pytest.raises(ColumnError, match=f"`{column}` would be published"):
        sf.anonymize(table, qi=["age"], k=1)


@pytest.mark.parametrize("numbers", [[1, 2, 3], [1.0, 2.0, None], [7, 7, 7]])
def test_few_patients_are_patients(numbers: list[float | None]) -> None:
    table = pa.table({"age": [40] * 30, "patient_id": numbers * 10})
    with pytest.raises(ColumnError, match="`patient_id` would be published"):
        sf.anonymize(table, qi=["age"], k=2)


def test_of_a_dozen_rows_only_names_of_columns_speak() -> None:
    table = pa.table({"age": [40] * 12, "tag": [f"q{at}-{at:x}" for at in range(12)]})
    assert not sf.anonymize(table, qi=["age"], k=2).warnings
