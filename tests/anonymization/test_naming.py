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


def histories(**more: Any) -> pa.Table:
    """Four rows a person on average, and further columns."""
    table = pa.table({"pid": [f"P{one:05d}" for one in WHO], "sex": np.array(["F", "M"])[WHO % 2]})
    for name, cells in more.items():
        table = table.append_column(name, pa.array(cells))
    return table


RANDOM = np.random.default_rng(3)
WHO = RANDOM.permutation(np.r_[np.arange(60), RANDOM.integers(0, 60, 180)])
SECOND = [f"X{1000 + 7 * one}" for one in WHO]
MOTHER = RANDOM.integers(0, 60, 60)[WHO]
COUNTED: dict[str, Any] = {"k": 3, "person": "pid", "qi": ["sex"]}


def stopped(table: pa.Table, why: str, **more: Any) -> None:
    with pytest.raises(ColumnError, match=f"`c` would be published.*{why} `pid`"):
        sf.anonymize(table, **COUNTED, **more)
    assert sf.anonymize(table, **COUNTED, **more, rows_are_people=True).verified


def test_a_sensitive_column_may_name_persons_all_the_same() -> None:
    stopped(histories(c=SECOND), "one-to-one with", l=2, sensitive="c")
    stopped(histories(c=[f"P{one:05d}" for one in MOTHER]), "persons of", l=2, sensitive="c")


@pytest.mark.parametrize("word", [None, "", "unknown", "NA"])
def test_missing_cells_do_not_hide_a_second_number(word: str | None) -> None:
    gone = np.random.default_rng(5).random(240)
    for share in (0.1, 0.6):
        cells = [word if one < share else cell for one, cell in zip(gone, SECOND, strict=True)]
        stopped(histories(c=cells), "one-to-one with")


def test_a_few_exceptions_do_not_hide_a_second_number() -> None:
    stopped(histories(c=[f"Y{at}" for at in range(10)] + SECOND[10:]), "one-to-one with")
    couples = [f"X{one - 1 if one in (1, 3, 5, 7) else one}" for one in WHO]
    stopped(histories(c=couples), "one-to-one with")


@pytest.mark.parametrize(("known", "others"), [(50, 10), (10, 3), (8, 7), (20, 15)])
def test_numbers_that_do_not_repeat_are_persons_too(known: int, others: int) -> None:
    cells = [f"P{at:05d}" for at in range(known)] + [f"Z{at:05d}" for at in range(others)]
    stopped(histories(c=cells + [None] * (240 - len(cells))), "persons of")


@pytest.mark.parametrize("action", [{"top": 100_000}, {"round": 1}, {"recode": {"1000": "x"}}])
def test_actions_that_change_next_to_nothing_excuse_nothing(action: dict[str, Any]) -> None:
    numbers = [1000 + 7 * int(one) for one in WHO]
    stopped(histories(c=numbers), "one-to-one with", columns={"c": action})
    rounded = sf.anonymize(histories(c=numbers), **COUNTED, columns={"c": {"round": 200}})
    assert rounded.verified


def test_a_recode_of_one_patient_does_not_hide_the_others() -> None:
    with pytest.raises(ColumnError, match="`patient_id` would be published"):
        sf.anonymize(admissions(), **ASKED, columns={"patient_id": {"recode": {"P00001": "x"}}})


@pytest.mark.parametrize("spelling", ["p{:05d}", "P{:05d} ", "P{}", "{}"])
def test_mothers_are_known_however_they_are_spelled(spelling: str) -> None:
    who = np.arange(240) % 120 if spelling == "{}" else WHO  # plain numbers: beyond chance
    mother = (who * 7 + 3) % 120 if spelling == "{}" else MOTHER
    table = histories(c=[spelling.format(one) for one in np.sort(mother)])
    stopped(table.set_column(0, "pid", pa.array([f"P{one:05d}" for one in who])), "persons of")


def test_what_differs_in_every_row_or_is_shared_names_nobody() -> None:
    day = np.datetime64("2024-01-01T00:00:00") + RANDOM.integers(0, 10**6, 240)
    table = histories(
        cost=RANDOM.random(240), day=day, home=WHO // 2, age=RANDOM.integers(0, 60, 240)
    )
    assert sf.anonymize(table, **COUNTED).verified
    alone = histories().slice(0, 60).set_column(0, "pid", pa.array([f"P{n}" for n in range(60)]))
    alone = alone.append_column("cost", pa.array(RANDOM.integers(0, 10**6, 60)))
    assert sf.anonymize(alone, **COUNTED).verified
