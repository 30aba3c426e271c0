"""HIPAA's Safe Harbor: every planted identifier found, no false alarm, the allowed forms."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from samples import sample_path, survival
from sfumato.columns.content import ColumnFacts, words_of
from sfumato.columns.recognise import KINDS, Recognised, recognise
from sfumato.demo import people
from sfumato.engines.protocol import Codes, column_of, smallest_dtype
from sfumato.errors import ColumnError, ParameterError
from sfumato.populations.safe_harbor import (
    RESTRICTED_AREAS,
    SafeHarborForms,
    disallowed,
    harbor_cells,
    read_areas,
)

TODAY = dt.date(2024, 12, 31)
ROWS = 200


def look(name: str, values: list[object]) -> Recognised:
    array = pa.array(values)
    different = [value for value in set(values) if value is not None]
    alone = sum(values.count(value) == 1 for value in different)
    kind = column_of(name, array.type).kind
    nulls = array.null_count
    facts = ColumnFacts(name, kind, len(values), nulls, len(different) + bool(nulls), alone)
    return recognise(facts, array.drop_null().unique())


def numbered(form: str) -> list[object]:
    return [form.format(i=i, j=i * 7919 % 10_000) for i in range(ROWS)]


PLANTED: dict[str, tuple[str, list[object]]] = {
    "name": ("A", numbered("Ann{i} Lee")),
    "LastName": ("A", numbered("Lee{i}")),
    "patient_name": ("A", numbered("Ann{i} Lee")),
    "mother's name": ("A", numbered("Ann{i} Lee")),
    "city": ("B", ["Boston"] * ROWS),
    "home_address": ("B", numbered("{i} Main Street")),
    "where": ("B", numbered("{i} Elm Ave")),
    "latitude": ("B", [42.0 + i / 1000 for i in range(ROWS)]),
    "census_tract": ("B", numbered("{i:06}")),
    "zip": ("B", numbered("0{j:04}")),
    "birth_date": ("C", [dt.date(1950, 1, 1) + dt.timedelta(i) for i in range(ROWS)]),
    "seen": ("C", [dt.datetime(2020, 1, 1) + dt.timedelta(i) for i in range(ROWS)]),
    "admitted": ("C", ["2020-01-05"] * ROWS),
    "visit": ("C", ["3/14/2020"] * ROWS),
    "birth_month": ("C", [1 + i % 12 for i in range(ROWS)]),
    "age": ("C", [20 + i % 75 for i in range(ROWS)]),
    "age_group": ("C", ["20-29", "90-99"] * (ROWS // 2)),
    "year_of_birth": ("C", [1930 + i % 75 for i in range(ROWS)]),
    "phone": ("D", numbered("555{i}")),
    "contact": ("D", numbered("(555) 226-{j:04}")),
    "fax_number": ("E", numbered("555{i}")),
    "e-mail": ("F", numbered("x{i}@example.org")),
    "reach": ("F", numbered("x{i}@example.org")),
    "ssn": ("G", numbered("900-12-{j:04}")),
    "tax": ("G", numbered("900-12-{j:04}")),
    "MRN": ("H", numbered("{i}")),
    "PatientID": ("H", numbered("P{i:08}")),
    "member_id": ("I", numbered("M{i}")),
    "policy number": ("I", numbered("M{i}")),
    "account": ("J", numbered("{i}")),
    "payment": ("J", numbered("4111 1111 1111 {j:04}")),
    "license_no": ("K", numbered("L{i}")),
    "vin": ("L", numbered("1HGCM82633A{i:06}")),
    "car": ("L", numbered("1HGCM82633A0{j:05}")),
    "license_plate": ("L", numbered("MA {i}")),
    "device_serial": ("M", numbered("S{i}")),
    "hw": ("M", numbered("00:1B:44:11:3A:{i:02}")[:99]),
    "website": ("N", numbered("example.org/{i}")),
    "page": ("N", numbered("https://example.org/{i}")),
    "ip_address": ("O", numbered("10.0.0.{i}")),
    "host": ("O", numbered("10.0.0.{i}")),
    "fingerprint": ("P", numbered("{i:x}")),
    "photo": ("Q", numbered("{i}")),
    "scan": ("Q", numbered("face{i}.jpg")),
    "raw": ("Q", [b"\x89PNG"] * ROWS),
    "study_id": ("R", numbered("X-{i}")),
    "token": ("R", [str(uuid.UUID(int=i)) for i in range(ROWS)]),
    "code": ("R", numbered("AB{i:05}")),
}


@pytest.mark.parametrize("name", PLANTED)
def test_every_planted_identifier_is_found(name: str) -> None:
    kind, values = PLANTED[name]
    found = look(name, values)
    assert found.kind == kind, KINDS[found.kind or "A"]
    assert found.why


ODD: dict[str, tuple[str | None, bool, list[object]]] = {
    "AGEP": ("C", False, [i % 97 for i in range(ROWS)]),
    "yrs": ("C", True, [i % 97 for i in range(ROWS)]),
    "byr": ("C", True, [1920 + i % 90 for i in range(ROWS)]),
    "SERIALNO": ("R", False, [2006000000530 + 1523 * i for i in range(ROWS)]),
    "sno": ("R", False, list(range(1, ROWS + 1))),
    "payload": ("C", False, numbered('{{"seen": "2021-03-04", "n": {i}}}')),
    "ymd": ("C", False, [20200101 + i % 28 for i in range(ROWS)]),
    "written": ("C", False, [f"{1 + i % 28} March 2020" for i in range(ROWS)]),
    "subj_nm": ("A", False, [f"Ann Lee{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(ROWS)]),
    "NOK": (None, True, [f"Ann{'abcd'[i % 4]} Lee{'abcdefgh'[i // 4 % 8]}" for i in range(ROWS)]),
    "handynr": ("R", False, numbered("0151123{i:05}")),
    "lic": ("R", False, numbered("S99{i:06}")),
    "Wohnort": ("B", False, ["Bonn", "Ulm"] * (ROWS // 2)),
    "zp": ("B", False, numbered("0{j:04}")),
    "template": ("R", False, numbered("{i:064x}")),
    "mostly words": (None, True, [*["fine"] * 150, *numbered("w{i}")[:49], "ann@example.org"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_found_by_content_or_asked_for(name: str) -> None:
    kind, unsure, values = ODD[name]
    found = look(name, values)
    assert (found.kind, found.unsure) == (kind, unsure), found.why


PARTS = {
    "year and month": ["2020-01", "2020-02", "2021-11"],
    "month and year": ["01/2020", "2/2020", "11/2021"],
    "day and month": ["Jan 5", "Feb 17", "March 3rd"],
    "day before month": ["5. März", "17 Feb", "3-Dec"],
    "day and month in digits": ["5.3.", "17.12.", "03.04."],
    "month and short year": ["Jan-12", "Feb-13", "Dec '14"],
    "week": ["2020-W01", "2020-W53", "2021W07"],
    "quarter": ["2020Q1", "Q2 2020", "2020-Q4"],
    "months": ["Jan", "Feb", "March", "Dec."],
    "months as numbers": [202001 + month for month in range(12)],
}


@pytest.mark.parametrize("form", PARTS)
def test_all_elements_of_dates_but_the_year_are_found(form: str) -> None:
    values: list[object] = list(PARTS[form]) * 20
    assert look("col1", values).kind == "C"
    released = sf.safe_harbor(pa.table({"col1": values, "b": ["x", "y"] * (len(values) // 2)}))
    assert next(c["action"] for c in released.columns if c["column"] == "col1") == "dropped"


@pytest.mark.parametrize(
    "values",
    [
        ["Marketing", "Maintenance", "Sales", "Decoration"],
        ["2019", "2020", "2021"],
        ["2020-17", "2020-31", "2021-44"],
        [123456, 654321, 222299, 199913, 200000],
    ],
)
def test_what_only_resembles_parts_of_dates_is_none(values: list[object]) -> None:
    assert look("col1", values * 20).kind is None


def test_ages_of_a_census_table_are_not_published() -> None:
    release = sf.safe_harbor(sample_path("pums_oregon_calm_person.parquet"), as_of=TODAY)
    assert release.column_actions["AGEP"] == "ages above 89 to 90+"
    assert release.column_actions["SERIALNO"] == "dropped"
    assert release.table is not None
    shown = release.table.values("AGEP").values[0].to_pylist()
    assert max(int(age) for age in shown if age != "90+") == 89
    assert "90+" in shown


def test_all_eighteen_kinds_are_planted() -> None:
    assert {kind for kind, _ in PLANTED.values()} == set(KINDS) == set("ABCDEFGHIJKLMNOPQR")


random = np.random.default_rng(1)
CLINICAL: dict[str, list[object]] = {
    "race": random.choice(["White", "Black", "Asian", "Brown", "Green"], ROWS).tolist(),
    "ethnicity": random.choice(["Hispanic", "Native American"], ROWS).tolist(),
    "sex": random.choice(["F", "M"], ROWS).tolist(),
    "diagnosis": random.choice(["I10", "E11.9", "J45.901"], ROWS).tolist(),
    "diagnosis_name": random.choice(["Acute kidney failure", "Hypertension"], ROWS).tolist(),
    "drug name": random.choice(["Amoxicillin", "Lisinopril"], ROWS).tolist(),
    "department_name": random.choice(["Internal Medicine", "Cardiology"], ROWS).tolist(),
    "hospital_name": random.choice(["St. Mary Hospital", "General Hospital"], ROWS).tolist(),
    "blood_pressure": random.choice(["120/80", "135/85"], ROWS).tolist(),
    "stage": random.integers(1, 5, ROWS).tolist(),
    "dosage": random.integers(5, 500, ROWS).tolist(),
    "white_cell_count": random.integers(3000, 11000, ROWS).tolist(),
    "heart_block": random.choice(["none", "first degree"], ROWS).tolist(),
    "urinary_tract": random.choice(["clear", "infected"], ROWS).tolist(),
    "length_of_stay_days": random.integers(0, 40, ROWS).tolist(),
    "cost": random.gamma(2, 1000, ROWS).tolist(),
    "creatinine": random.normal(1, 0.2, ROWS).tolist(),
    "state": random.choice(["MA", "NY"], ROWS).tolist(),
    "marital_status": random.choice(["Married", "Single"], ROWS).tolist(),
    "insurance": random.choice(["Medicare", "Private"], ROWS).tolist(),
    "smoker": random.choice([True, False], ROWS).tolist(),
    "survival_months": random.integers(0, 120, ROWS).tolist(),
    "icu": random.choice(["yes", "no"], ROWS).tolist(),
    "tumor_grade": random.choice(["G1", "G2"], ROWS).tolist(),
    "event": random.integers(0, 2, ROWS).tolist(),
}


@pytest.mark.parametrize("name", CLINICAL)
def test_no_false_alarm_on_clinical_columns(name: str) -> None:
    found = look(name, CLINICAL[name])
    assert (found.kind, found.unsure, found.form == "free text") == (None, False, False)


@pytest.mark.parametrize(
    "name", ["adult", "arx_adult", "whas500", "lung", "gbsg2", "flchain", "veteran"]
)
def test_real_clinical_and_census_tables(name: str) -> None:
    real = pq.read_table(sample_path(f"{name}.parquet")) if "adult" in name else survival(name)
    release = sf.safe_harbor(real, as_of=TODAY)
    found = {c["column"]: c["kind"] for c in release.details["columns"] if c["kind"]}
    assert found == {"age": "C"}


def test_the_demo_table() -> None:
    release = sf.safe_harbor(people(3_000, seed=4), as_of=TODAY)
    columns = {c["column"]: c for c in release.details["columns"]}
    dropped = {"patient_id", "name", "ssn", "email", "phone", "note"}
    assert {c for c in columns if columns[c]["action"] == "dropped"} == dropped
    kinds = {c: columns[c]["kind"] for c in columns if columns[c]["kind"]}
    assert kinds == {
        "patient_id": "H", "name": "A", "ssn": "G", "email": "F", "phone": "D",
        "birth_date": "C", "admission_date": "C", "discharge_date": "C", "zip": "B",
    }  # fmt: skip
    clinical = {"sex", "ethnicity", "language", "marital_status", "insurance", "department",
                "diagnosis", "diagnosis_name", "cost"}  # fmt: skip
    assert all(columns[c]["action"] == "kept" and not columns[c]["undecided"] for c in clinical)
    assert release.details["undecided"] == ["doctor"]
    assert release.table is not None
    rows = release.table.sample(5_000)
    zips = set(rows["zip"].to_pylist())
    assert all(len(area) == 3 for area in zips)
    assert not zips & RESTRICTED_AREAS
    assert "000" in zips
    years = {y for y in rows["birth_date"].to_pylist() if y is not None}
    assert "90+" in years
    assert min(int(y) for y in years - {"90+"}) == 2024 - 89
    assert set(rows["admission_date"].to_pylist()) <= {2023, 2024}
    assert release.verified


def cells_of(form: str, values: list[object], **options: object) -> list[object]:
    distinct = pa.array(values)
    codes = Codes(
        (str(options.pop("name", "x")),), (np.arange(len(values)).astype(np.uint8),), (distinct,),
        np.ones(len(values), np.int64),
    )  # fmt: skip
    cells, _, _ = harbor_cells(form, codes, as_of=TODAY, **options)  # type: ignore[arg-type]
    if cells is None:
        return values
    return cells.values.take(pa.array(cells.codes)).to_pylist()


def test_zip_codes_keep_three_digits_but_not_of_small_areas() -> None:
    zips = ["02138", "03601", "05901-1234", None, "89301"]
    assert cells_of("zip", zips) == ["021", "000", "000", None, "000"]
    assert cells_of("zip", zips, restricted={"021"}) == ["000", "036", "059", None, "893"]


def test_zip_codes_that_lost_their_zero_are_said() -> None:
    with pytest.raises(ColumnError, match=r"fewer than 5 digits.*pad_zip=True"):
        cells_of("zip", [2138, 10001])
    assert cells_of("zip", [2138, 10001], pad=True) == ["021", "100"]


def test_what_is_no_zip_code_is_refused() -> None:
    with pytest.raises(ColumnError, match="1 distinct value holds no ZIP code"):
        cells_of("zip", ["02138", "SW1A 1AA"])


def test_ages() -> None:
    assert cells_of("age", [0, 89, 90, 104, None]) == ["0", "89", "90+", "90+", None]
    assert cells_of("age", [10, 89]) == [10, 89]
    assert cells_of("age", [89.5, 90.0]) == ["89.5", "90+"]
    assert cells_of("age", [100, 1080], name="age_months") == ["100", "90+"]
    assert cells_of("age", [100, 4680], name="age_in_weeks") == ["100", "90+"]
    assert cells_of("age", [1000, 32850], name="AGE_DAYS") == ["1000", "90+"]
    assert cells_of("age", ["80 -95", "-1", "7"]) == ["90+", "-1", "7"]
    as_text = ["34", "unknown", "91", "[80, 89]", "[85, 95)", "90-94", None]
    assert cells_of("age", as_text) == ["34", "unknown", "90+", "[80, 89]", "90+", "90+", None]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("month", [1 + row % 12 for row in range(ROWS)]),
        ("adm_month", ["January", "May", "December"] * (ROWS // 3)),
        ("day_of_week", ["Mon", "Tue", "Sun"] * (ROWS // 3)),
        ("DOY", [300 + row % 66 for row in range(ROWS)]),
    ],
)
def test_a_part_of_a_date_is_decided_by_a_person(
    name: str, cells: list[object], tmp_path: Path
) -> None:
    people = pa.table({name: cells, "sex": ["FM"[at % 2] for at in range(len(cells))]})
    plan = sf.safe_harbor(people, as_of=TODAY)
    assert plan.details["undecided"] == [name]
    with pytest.raises(ColumnError, match="named like a part of a date"):
        sf.safe_harbor(people, output=str(tmp_path / "release.csv"))
    assert sf.safe_harbor(people, keep=[name], output=str(tmp_path / "release.csv")).verified


@pytest.mark.parametrize(
    ("name", "cells"),
    [("hours_per_week", [7, 12, 40]), ("month", [1, 12, 60]), ("day", ["0.5", "2.25", "3.5"])],
)
def test_what_only_sounds_like_a_part_of_a_date_is_kept(name: str, cells: list[object]) -> None:
    people = pa.table({name: cells * 40, "sex": ["F", "M", "F"] * 40})
    assert sf.safe_harbor(people, as_of=TODAY).details["undecided"] == []


def test_dates_keep_their_year_and_birth_years_their_secret() -> None:
    days = [dt.date(2020, 5, 5), None, dt.date(1934, 12, 31), dt.date(1935, 1, 1)]
    assert cells_of("date", days) == [2020, None, 1934, 1935]
    assert cells_of("birth date", days) == ["2020", None, "90+", "1935"]
    assert cells_of("birth year", [1934, 1935]) == ["90+", "1935"]
    assert cells_of("date", ["2020-05-05", "1999-01-01 10:00"]) == [2020, 1999]
    assert cells_of("date", ["5/14/2020", "14.5.1999"]) == [2020, 1999]


def test_dates_without_a_year_are_refused() -> None:
    with pytest.raises(ColumnError, match="no year of four digits"):
        cells_of("date", ["5/14/20", "5/15/20"])


def test_dates_that_can_hardly_be_true_are_said() -> None:
    days = pa.array([dt.date(1899, 1, 1), dt.date(2000, 1, 1), dt.date(2099, 1, 1)])
    codes = Codes(("d",), (np.arange(3, dtype=np.uint8),), (days,), np.array([5, 1, 2]))
    _, _, said = harbor_cells("date", codes, as_of=TODAY)
    assert said == [
        "column `d`: 5 dates lie before 1900 (placeholders?)",
        "column `d`: 2 dates lie in the future",
    ]


def test_released_forms_are_checked() -> None:
    assert disallowed("zip", "zip", pa.array(["021", "000"]), RESTRICTED_AREAS) == 0
    assert disallowed("zip", "zip", pa.array(["0213", "036"]), RESTRICTED_AREAS) == 2
    assert disallowed("age", "age", pa.array(["89", "90+", None]), ()) == 0
    assert disallowed("age", "age", pa.array([89, 90]), ()) == 1
    assert disallowed("born", "birth date", pa.array(["1990", "90+", "1990-01"]), ()) == 1


def test_areas_from_a_file() -> None:
    assert read_areas(["zip3,population", "36,100", "021,20001", "", "059,20000"]) == {"036", "059"}
    with pytest.raises(ParameterError, match="line 2"):
        read_areas(["036", "boston"])


def test_the_user_decides_in_the_end() -> None:
    table = pa.table({"name": ["Ann", "Bob"], "sex": ["F", "M"], "doctor": ["A", "B"]})
    release = sf.safe_harbor(table, keep=["name"], drop=["doctor"])
    assert release.table is not None
    assert release.table.columns == ("name", "sex")
    assert release.column_actions["name"] == "kept"


def test_listed_columns_that_the_user_keeps_are_named() -> None:
    table = pa.table(
        {
            "ssn": [f"123-45-{row:04}" for row in range(ROWS)],
            "birth_date": [dt.date(1990, 1, 1 + row % 28) for row in range(ROWS)],
            "age": [20 + row % 50 for row in range(ROWS)],
            "sex": ["FM"[row % 2] for row in range(ROWS)],
            "note": [f"Patient {row} came by ambulance and was seen again" for row in range(ROWS)],
        }
    )
    told = sf.safe_harbor(table, as_of=TODAY, keep=table.column_names).warnings
    named = [one.split("`")[1] for one in told if "not de-identified by Safe Harbor" in one]
    assert named == ["ssn", "birth_date", "note"]
    old = table.set_column(2, "age", pa.array([20 + row % 90 for row in range(ROWS)]))
    told = sf.safe_harbor(old, as_of=TODAY, keep=["age"], drop=["note"]).warnings
    assert any("`age` stays as it is, and the law lists dates and ages" in one for one in told)
    assert not any("Safe Harbor" in one for one in sf.safe_harbor(table, as_of=TODAY).warnings)


def test_words_of_names() -> None:
    assert words_of("SSNLast4") == ("ssn", "last", "4")
    assert words_of("patientID") == ("patient", "id")
    assert words_of("Date of Birth") == ("date", "of", "birth")


def test_a_written_release_verifies_and_replays(tmp_path: object) -> None:
    from pathlib import Path

    from sfumato.release.certificate import Certificate, certificate_path
    from sfumato.release.promise import promise_from_dict

    target = Path(str(tmp_path)) / "out.parquet"
    with pytest.raises(ColumnError, match=r"not decided: `doctor` .*keep=\["):
        sf.safe_harbor(people(500), as_of=TODAY, output=str(target))
    assert not target.exists()
    sf.safe_harbor(people(500), as_of=TODAY, keep=["doctor"], output=str(target))
    promises = Certificate.read(certificate_path(target)).body["promises"]
    assert {promise["kind"] for promise in promises} == {"without-columns", "safe-harbor-forms"}
    with sf.table(target) as written:
        for promise in promises:
            parameters = {k: v for k, v in promise.items() if k not in ("kind", "measured")}
            assert promise_from_dict(promise["kind"], parameters).check(written).holds


def test_smallest_dtype_is_enough_for_many_years() -> None:
    days = [dt.date(1600, 1, 1) + dt.timedelta(366 * i) for i in range(400)]
    codes = Codes(("d",), (np.arange(400).astype(smallest_dtype(400)),), (pa.array(days),))
    cells, _, _ = harbor_cells("date", codes, as_of=TODAY)
    assert cells is not None
    assert len(cells.values) > 256
    assert cells.codes.dtype == np.uint16


def test_numbers_of_other_patients_are_dropped_with_their_own() -> None:
    random = np.random.default_rng(3)
    ids = [f"P{one:05d}" for one in range(60)]
    table = pa.table(
        {
            "pid": ids,
            "sex": random.choice(["F", "M"], 60),
            "mother": [f"p{one}" for one in random.integers(0, 60, 60)],
        }
    )
    release = sf.safe_harbor(table)
    assert release.column_actions == {"pid": "dropped", "sex": "kept", "mother": "dropped"}
    assert sf.safe_harbor(table, keep=["mother"]).column_actions["mother"] == "kept"


@pytest.mark.parametrize("day", [dt.date(1, 1, 1), dt.date(987, 6, 5), dt.date(9999, 12, 31)])
def test_years_of_placeholders_have_four_digits_too(tmp_path: Path, day: dt.date) -> None:
    seen = pa.table({"admission_date": [day, day, dt.date(2020, 1, 2), None]})
    release = sf.safe_harbor(seen, output=str(tmp_path / "out.csv"))
    assert f"{day.year:04}" in (tmp_path / "out.csv").read_text()
    assert release.verified
    assert sf.verify(tmp_path / "out.csv").holds


def test_forms_that_nobody_knows_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"no form `zipp`\. Did you mean `zip`"):
        SafeHarborForms({"zip": "zipp"}, ())
