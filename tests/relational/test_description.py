"""Descriptions of datasets: read, found, and refused where they lead elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from relational.conftest import DESCRIPTION, house_tables
from sfumato.errors import ColumnError, InputError, ParameterError, SourceError
from sfumato.relational import is_dataset


def test_keys_and_references_are_found_in_a_folder(house: Path) -> None:
    (house / "dataset.toml").unlink()
    with sf.relational.dataset(house) as found:
        assert {name: one.key for name, one in found.tables.items()} == {
            "patients": "id",
            "visits": None,
            "wards": "id",
        }
        told = {(one.say, one.how, one.orphans) for one in found.references}
        assert told == {
            ("visits.patient_id → patients.id", "name", 0),
            ("visits.ward_id → wards.id", "name", 0),
        }
        assert found.person is None
        again = found.about("patients.id")
        assert set(again.paths) == {"patients", "visits"}


def test_a_description_is_written_as_it_is_read(house: Path) -> None:
    with sf.relational.dataset(house / "dataset.toml") as made:
        (house / "dataset.toml").write_text(made.to_toml())
    with sf.relational.dataset(house) as again:
        assert again.to_toml() == made.to_toml()
        assert again.person == ("patients", "id")
        assert again.tables["wards"].publish is True


def test_values_alone_find_references_of_many_texts() -> None:
    names = [f"u{one:03d}" for one in range(80)]
    found = sf.relational.dataset(
        {
            "tables": {
                "users": {"source": pa.table({"id": names})},
                "log": {"source": pa.table({"who": names[:70], "n": list(range(70))})},
            }
        }
    )
    assert [(one.say, one.how) for one in found.references] == [("log.who → users.id", "values")]


def test_orphans_are_counted_and_false_references_disclaimed() -> None:
    tables = house_tables()
    patients = tables["patients"].slice(0, 30)
    described = {
        "tables": {
            "patients": {"source": patients},
            "visits": {"source": tables["visits"], "references": {"ward_id": False}},
            "wards": {"source": tables["wards"]},
        }
    }
    (found,) = sf.relational.dataset(described).references
    missing = set(tables["patients"]["id"].to_pylist()[30:])
    assert found.orphans == sum(
        one in missing for one in tables["visits"]["patient_id"].to_pylist()
    )


@pytest.mark.parametrize(
    "source",
    [
        "../patients.csv",
        "/etc/passwd",
        "postgresql://elsewhere/db#patients",
        "https://example.org/patients.csv",
        "sub/../../patients.csv",
        "no\\u0000name.csv",
        "",
    ],
)
def test_a_description_opens_nothing_that_does_not_lie_beside_it(house: Path, source: str) -> None:
    (house.parent / "patients.csv").write_text("id\n1\n")
    text = DESCRIPTION.replace('"patients.csv"', f'"{source}"')
    (house / "dataset.toml").write_text(text)
    with pytest.raises(SourceError):
        sf.relational.dataset(house)


def test_a_description_follows_no_link(house: Path) -> None:
    (house.parent / "secret.csv").write_text("id,sex\n1,F\n")
    (house / "patients.csv").unlink()
    (house / "patients.csv").symlink_to(house.parent / "secret.csv")
    with pytest.raises(SourceError, match="link"):
        sf.relational.dataset(house)
    folder = house.parent / "elsewhere"
    folder.mkdir()
    (folder / "patients.csv").write_text("id,sex\n1,F\n")
    (house / "sub").symlink_to(folder)
    text = DESCRIPTION.replace('"patients.csv"', '"sub/patients.csv"')
    (house / "dataset.toml").write_text(text)
    with pytest.raises(SourceError, match="link"):
        sf.relational.dataset(house)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[[", "not TOML"),
        ("a = " + "[" * 20_000, "not TOML"),
        ("person = 'x'", "no tables"),
        ("[tables]\npatients = 3", "where the table is"),
        ('[tables.patients]\nsource = "patients.csv"\nsecret = 1', "no setting `secret`"),
        ('[tables."../patients"]\nsource = "patients.csv"', "name of a table"),
        ("[tables.patients]\nsource = 5", "name of a file"),
        ('[tables.patients]\nsource = "patients.csv"\npublish = "yes"', "true or false"),
        ('[tables.patients]\nsource = "patient.csv"', "no such file"),
        ('person = "patients.nobody"\n[tables.patients]\nsource = "patients.csv"', "no column"),
        ('[tables.patients]\nsource = "patients.csv"\nreferences = { sex = "wards.id" }', "column"),
        ("x = '" + "a" * (1 << 20) + "'", "larger than 1 MB"),
    ],
)
def test_strange_descriptions_are_refused_in_words(house: Path, text: str, said: str) -> None:
    (house / "dataset.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        sf.relational.dataset(house / "dataset.toml")


def test_a_reference_must_lead_to_a_key(house: Path) -> None:
    described = {
        "tables": {
            "a": {"source": pa.table({"id": [1, 1]})},
            "b": {"source": pa.table({"to": [1]}), "references": {"to": "a.id"}},
        }
    }
    with pytest.raises(ColumnError, match="not a key"):
        sf.relational.dataset(described)


def test_parts_of_one_table_are_no_dataset(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"{name}.parquet")
    assert not is_dataset(tmp_path)
    pq.write_table(pa.table({"y": [1]}), tmp_path / "c.parquet")
    assert is_dataset(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not is_dataset(empty)


def test_one_table_is_no_dataset(house: Path, tmp_path: Path) -> None:
    """What is asked of one table points to the verbs of datasets, whatever names the dataset."""
    for name, columns in (("a", {"x": [1]}), ("b", {"y": [1]})):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    made = sf.relational.dataset(house)
    schema = "postgresql:///db#ward.*"
    description = house / "dataset.toml"
    for given in (description, str(house), schema, made):
        with pytest.raises(ParameterError, match=r"of several tables\. .* sfumato\.relational"):
            sf.table(given)
        with pytest.raises(ParameterError, match="of several tables"):
            sf.risk(given, qi=["sex"])
    with pytest.raises(SourceError, match="no such file"):
        sf.table(tmp_path / "other.toml")
    with pytest.raises(ColumnError, match=r"missing in some of the files.*b\.parquet"):
        sf.table(tmp_path)


def test_a_person_must_be_said_and_be_one_row_each(house: Path, key: Path) -> None:
    asked = {"qi": ["patients.sex"], "k": 2, "m": 1, "linkable": True, "key_file": key}
    (house / "dataset.toml").unlink()
    with pytest.raises(ParameterError, match="nobody said"):
        sf.relational.anonymize(house, **asked)
    with pytest.raises(InputError, match="one person per row"):
        sf.relational.anonymize(house, person="visits.patient_id", **asked)


def test_a_name_of_two_columns_is_refused() -> None:
    tables = {
        "a.b": {"source": pa.table({"c": [1, 2]})},
        "a": {"source": pa.table({"b.c": [1, 2]})},
    }
    with pytest.raises(ColumnError, match=r"`a\.b\.c` names 2 columns of the dataset"):
        sf.relational.dataset({"person": "a.b.c", "tables": tables})
