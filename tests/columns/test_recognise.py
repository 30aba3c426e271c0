"""Roles of columns by their names, in several languages, and by the look of cells."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.columns.content import (
    _TELLING,
    FORMS,
    ColumnFacts,
    Forms,
    form_of,
    is_free_text,
    meaning_of,
    words_of,
)
from sfumato.columns.recognise import Neighbours, recognise

NAMES = {
    "identifier": (
        "SSN name Name first_name lastName Nachname Vorname apellidos prénom email E-Mail "
        "telefon phone_number Straße address patient_id MRN iban passport_no IPAddress user_name "
        "Sozialversicherungsnummer codice_fiscale NHS_Number notes Bemerkung"
    ),
    "quasi-identifier": (
        "age Alter edad birth_date DateOfBirth Geburtsdatum fecha_nacimiento date_de_naissance sex "
        "Geschlecht gender zip ZIPCode PLZ code_postal city Wohnort country state_id race "
        "ethnicity marital-status Familienstand estado_civil occupation Beruf education-num "
        "hours-per-week nationality admission_date language household_size city_name"
    ),
    "sensitive": (
        "diagnosis Diagnose diagnosis_name icd10 disease Krankheit medication salary income "
        "Gehalt einkommen capital-gain capital_gains capital_losses religion hiv_status "
        "sexual_orientation"
    ),
    "other": "fnlwgt PWGTP sampling_weight instance_weight",
}


@pytest.mark.parametrize(
    ("name", "role"), [(name, role) for role, names in NAMES.items() for name in names.split()]
)
def test_names(name, role):
    meaning = meaning_of(name)
    assert meaning is not None
    assert meaning.role == role


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("CONTACTLASTNAME", "identifier"),
        ("ORDERDATE", "quasi-identifier"),
        ("MARSTAT", "quasi-identifier"),
        ("SALES", "sensitive"),
        ("hospital_cost", "sensitive"),
        ("tax_id", "identifier"),
        ("cause_of_death", "sensitive"),
        ("address.city", "quasi-identifier"),
        ("condition_type_concept_id", "other"),
        ("PRODUCTLINE", "other"),
    ],
)
def test_names_run_together_and_phrases(name, role):
    assert meaning_of(name).role == role


@pytest.mark.parametrize("name", ["x", "c17", "V3", "flag", "", "ééé", "123"])
def test_names_that_say_nothing(name):
    assert meaning_of(name) is None


def test_a_country_of_birth_is_no_date():
    assert {meaning_of(f"birth_{word}").what for word in ("country", "state")} == {"a place"}
    assert meaning_of("birth_date").what == "a birth date"


def test_words_do_not_depend_on_the_spelling():
    spellings = ("birth_date", "BirthDate", "birth-date", "Birth Date", "birth.date")
    assert {words_of(name) for name in spellings} == {("birth", "date")}


CELLS = {
    "e-mail addresses": ["a@example.org", "b.c@example.com", "d+e@mail.example.net"],
    "web addresses": ["https://example.org/a", "http://example.com", "www.example.org/~x"],
    "internet addresses": ["192.0.2.1", "198.51.100.7", "203.0.113.250"],
    "universal identifiers (UUID)": [
        "123e4567-e89b-12d3-a456-426614174000",
        "123e4567-e89b-12d3-a456-426614174001",
        "123E4567-E89B-12D3-A456-426614174002",
    ],
    "social security numbers": ["900-12-3456", "901-00-0001", "999 49 9999"],
    "bank accounts (IBAN)": [
        "GB82 WEST 1234 5698 7654 32",
        "DE89370400440532013000",
        "FR1420041010050500013M02606",
    ],
    "payment cards": ["4111 1111 1111 1111", "5500000000000004", "340000000000009"],
    "phone numbers": ["(555) 123-4567", "+1 555 987 6543", "0049 30 1234567"],
    "codes of diseases (ICD-10)": ["E11.9", "F32.1", "S72.001A"],
    "postal codes": ["02138", "90210-1234", "SW1A 1AA"],
    "dates": ["1970-01-31", "31.12.1999", "2001/02/03"],
}


@pytest.mark.parametrize(("what", "cells"), CELLS.items())
def test_forms(what, cells):
    form = form_of(pa.array(cells))
    assert form is not None
    assert form.what == what


@pytest.mark.parametrize(("what", "cells"), CELLS.items())
def test_blanks_around_cells_say_nothing(what, cells):
    form = form_of(pa.array([f" {cell}\t" for cell in cells]))
    assert form is not None
    assert form.what == what


@pytest.mark.parametrize(
    ("what", "cell"),
    [
        ("e-mail addresses", "ada@example.org"),
        ("web addresses", "http://localhost"),
        ("web addresses", "www.example"),
        ("hardware addresses", "ab:cd:ef:ab:cd:ef"),
        ("hardware addresses", "ab-cd-ef-ab-cd-ef"),
        ("internet addresses", "fe::ab"),
        ("universal identifiers (UUID)", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
        ("long hexadecimal codes", "ABCDefab" * 4),
        ("picture files", "ada.png"),
        ("picture files", "data:image/ada"),
    ],
)
def test_forms_of_cells_without_a_digit(what, cell):
    form = form_of(pa.array(["some", "words", *[cell] * 4]))
    assert form is not None
    assert form.what == what
    assert form_of(pa.array(["some", "words", "and others"])) is None


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
@given(data=st.data())
@settings(max_examples=25)
def test_what_tells_of_no_form_has_none(form, data):
    cell = data.draw(st.from_regex(re.compile(form.pattern, re.ASCII), fullmatch=True)).strip()
    if form.what != "sexes" and (form.check is None or form.check(cell)):
        assert re.search(_TELLING, cell)


def test_a_few_dates_are_no_telephones():
    words = [f"note {at}" for at in range(8)]
    assert Forms(pa.array([*words, "09.04.2024", "10.04.2024 "])).of_few() is None
    some = Forms(pa.array([*words, "+49 30 1234567", "+49 30 1234568"])).of_few()
    assert some is not None
    assert some.what == "phone numbers"


def test_two_sexes_are_enough():
    form = form_of(pa.array(["F", "M"]))
    assert form is not None
    assert form.what == "sexes"


@pytest.mark.parametrize(
    "cells",
    [
        ["Bachelors", "Masters", "HS-grad"],
        ["1", "2", "3"],
        ["4111111111111112", "5500000000000005", "340000000000008"],  # wrong check digits
        [],
    ],
)
def test_cells_without_a_form(cells):
    assert form_of(pa.array(cells, pa.string())) is None


def test_most_cells_must_fit_but_not_all():
    good = [f"user{i}@example.org" for i in range(9)]
    assert form_of(pa.array([*good, "none"])) is not None
    assert form_of(pa.array([*good[:3], "none", "unknown", "refused"])) is None


def test_short_labels_are_not_free_text():
    assert not is_free_text(pa.array(["Married-civ-spouse", "Never-married"]))
    assert not is_free_text(pa.array([], pa.string()))


def facts(name, kind="text", rows=1000, nulls=0, classes=500, unique_rows=100):
    return ColumnFacts(name, kind, rows, nulls, classes, unique_rows)


@pytest.mark.parametrize(
    ("given", "role"),
    [
        (facts("phone", classes=2, unique_rows=0), "quasi-identifier"),  # has a phone: yes or no
        (facts("department_id", classes=20, unique_rows=0), "quasi-identifier"),
        (facts("x", "integer", classes=1000, unique_rows=1000), "identifier"),
        (facts("x", "integer", classes=970, unique_rows=950), "identifier"),
        (facts("x", "integer", classes=30, unique_rows=1), "quasi-identifier"),
        (facts("x", "float", classes=900, unique_rows=800), "other"),
        (facts("x", "float", classes=8, unique_rows=0), "quasi-identifier"),
        (facts("x", "timestamp", classes=1000, unique_rows=1000), "quasi-identifier"),
        (facts("x", "binary"), "identifier"),  # perhaps a photograph
        (facts("ssn", classes=1, unique_rows=0), "other"),
        (facts("ssn", nulls=1000, classes=1, unique_rows=0), "other"),
    ],
)
def test_counts_decide_where_name_and_cells_do_not(given, role):
    assert recognise(given, pa.array([], pa.string())).role == role


def test_nearly_a_key_looks_at_filled_cells_only():
    assert facts("x", nulls=400, classes=601, unique_rows=600).is_nearly_key
    assert not facts("x", nulls=0, classes=601, unique_rows=600).is_nearly_key
    assert not facts("x", classes=1000, unique_rows=1000).is_nearly_key  # it is one


def test_short_names_mean_something_only_in_their_survey():
    alone = recognise(facts("MAR", "integer", classes=5), pa.array([1, 2, 3, 4, 5]))
    assert alone.confidence < 0.5
    pums = Neighbours.of(["SERIALNO", "AGEP", "PWGTP", "MAR", "FMARP", "HINCP", "FER"])
    assert recognise(facts("MAR", "integer", classes=5), pa.array([1, 2, 3]), pums).what == "family"
    assert recognise(facts("HINCP", "integer"), pa.array([1, 2]), pums).role == "sensitive"
    flag = recognise(facts("FMARP", "integer", classes=2), pa.array([0, 1]), pums)
    assert (flag.role, flag.what) == ("other", "a flag about another column")
    assert recognise(facts("FER", "integer", classes=2), pa.array([1, 2]), pums).role != "other"
    silc = Neighbours.of(["db030", "rb030", "rb090", "py010n", "py010n_f", "ph010"])
    roles = {
        "rb030": "identifier",
        "py010n": "sensitive",
        "py010n_f": "other",
        "ph010": "sensitive",
    }
    for name, role in roles.items():
        assert recognise(facts(name, "integer"), pa.array([1, 2]), silc).role == role, name
    dhs = Neighbours.of(["caseid", "v001", "v005", "v012", "v130", "v190"])
    roles = {"v005": "other", "v012": "quasi-identifier", "v130": "sensitive"}
    for name, role in roles.items():
        assert recognise(facts(name, "integer"), pa.array([1, 2]), dhs).role == role, name


def test_numbers_are_no_addresses_and_records_have_numbers():
    money = facts("MEDREIMB_IP", "float", classes=400, unique_rows=100)
    assert recognise(money, pa.array([1.5, 2.5])).kind is None
    record = facts("veh_no", "integer", classes=900, unique_rows=850)
    assert recognise(record, pa.array([1, 2])).role == "identifier"
    pair = Neighbours.of(["lat", "long", "name"])
    assert recognise(facts("long", "float"), pa.array([1.5]), pair).kind == "B"


def test_a_flag_is_known_by_the_column_it_is_about():
    beside = Neighbours.of(["income", "income_imputed", "health_flag"])
    flag = facts("income_imputed", "integer", classes=2)
    assert recognise(flag, pa.array([0, 1]), beside).role == "other"
    lonely = facts("health_flag", "integer", classes=2)
    assert recognise(lonely, pa.array([0, 1]), beside).role == "sensitive"


def test_numbers_are_known_by_their_spread():
    rows = 4000
    random = np.random.default_rng(2)
    table = pa.table(
        {
            "a": random.integers(0, 97, rows),
            "b": (random.lognormal(9, 1, rows) / 100).astype(int) * 100,
            "c": np.arange(rows) + 1,
            "d": random.normal(0, 1, rows),
            "e": random.integers(0, 2, rows),
            "weight": random.normal(75, 12, rows).round(1),
            "WEIGHT": random.choice([118.3, 328.5, 335.2], rows),
        }
    )
    found = {column.name: column for column in sf.scan(table).columns}
    assert {name: column.role for name, column in found.items()} == {
        "a": "quasi-identifier", "b": "sensitive", "c": "identifier", "d": "other", "e": "other",
        "weight": "quasi-identifier", "WEIGHT": "other",
    }  # fmt: skip
    assert "ages" in found["a"].why
    assert all(found[name].confidence < 0.5 for name in "abde")


def test_a_code_takes_after_its_description():
    names = ["Acute bronchitis (disorder)", "Asthma", "Fracture of foot", "Viral sinusitis"]
    table = pa.table({"CODE": [1, 2, 3, 4] * 50, "DESCRIPTION": names * 50})
    found = {column.name: column for column in sf.scan(table).columns}
    assert found["DESCRIPTION"].role == found["CODE"].role == "sensitive"
    assert "`DESCRIPTION`" in found["CODE"].why


def test_value_labels_speak_where_names_do_not():
    table = pa.table(
        {
            "q1": ["Never married", "Married", "Divorced", "Widowed"] * 25,
            "q2": ["Catholic", "Muslim", "Protestant", "None"] * 25,
            "q3": ["yes", "no", "do not know", "no answer", "no"] * 20,
        }
    )
    found = {column.name: column for column in sf.scan(table).columns}
    assert [found[q].role for q in ("q1", "q2", "q3")] == [
        "quasi-identifier", "sensitive", "quasi-identifier",
    ]  # fmt: skip
    assert found["q3"].confidence < 0.5 < found["q1"].confidence


@pytest.mark.parametrize("name", ["household", "HH", "family", "dwelling"])
def test_numbers_of_households_are_told_from_their_sizes(name):
    sizes = pa.table({name: [1 + i % 9 for i in range(400)]})
    assert sf.scan(sizes).columns[0].role != "identifier"
    numbers = pa.table({name: [1000 + i // 3 for i in range(400)]})
    (found,) = sf.scan(numbers).columns
    assert found.role == "identifier"
    (told,) = sf.safe_harbor(numbers).columns
    assert told["action"] == "dropped"
