"""Roles of columns by their names, in several languages, and by the look of cells."""

from __future__ import annotations

import pytest

from sfumato.columns.recognise import ColumnFacts, form_of, guess_role, is_free_text
from sfumato.columns.vocabulary import meaning_of, words_of

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


@pytest.mark.parametrize("name", ["x", "c17", "V3", "Elevation", "flag", "", "ééé", "123"])
def test_names_that_say_nothing(name):
    assert meaning_of(name) is None


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
    form = form_of(cells)
    assert form is not None
    assert form.what == what


def test_two_sexes_are_enough():
    form = form_of(["F", "M"])
    assert form is not None
    assert form.what == "sexes"


@pytest.mark.parametrize(
    "cells",
    [
        ["Bachelors", "Masters", "HS-grad"],
        ["1", "2", "3"],
        ["4111111111111112", "5500000000000005", "340000000000008"],  # wrong check digits
        [],
        [1, 2, 3],
    ],
)
def test_cells_without_a_form(cells):
    assert form_of(cells) is None


def test_most_cells_must_fit_but_not_all():
    good = [f"user{i}@example.org" for i in range(9)]
    assert form_of([*good, "none"]) is not None
    assert form_of([*good[:3], "none", "unknown", "refused"]) is None


def test_short_labels_are_not_free_text():
    assert not is_free_text(["Married-civ-spouse", "Never-married"])
    assert not is_free_text([])


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
        (facts("x", "binary"), "other"),
        (facts("ssn", classes=1, unique_rows=0), "other"),
        (facts("ssn", nulls=1000, classes=1, unique_rows=0), "other"),
    ],
)
def test_counts_decide_where_name_and_cells_do_not(given, role):
    assert guess_role(given, []).role == role


def test_nearly_a_key_looks_at_filled_cells_only():
    assert facts("x", nulls=400, classes=601, unique_rows=600).is_nearly_key
    assert not facts("x", nulls=0, classes=601, unique_rows=600).is_nearly_key
    assert not facts("x", classes=1000, unique_rows=1000).is_nearly_key  # it is one
