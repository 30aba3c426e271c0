"""A schema of PostgreSQL as a dataset: rows stay there, all tables appear in one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from houses import fewest_left
from relational.conftest import house_tables
from sfumato.engines import postgres as engine
from sfumato.errors import EngineError, ParameterError, SourceError


@pytest.fixture
def clinic(postgres: Any, postgres_schema: str) -> str:
    """Patients and visits with declared keys; the address of their schema."""
    with postgres.connect() as connection:
        connection.execute(f"SET search_path TO {postgres_schema}")
        connection.execute("CREATE TABLE patients (id text PRIMARY KEY, sex text, age int)")
        connection.execute(
            "CREATE TABLE admissions (id int PRIMARY KEY, whose text REFERENCES patients (id), "
            "day text, cost float)"
        )
        tables = house_tables()
        for row in tables["patients"].to_pylist():
            connection.execute("INSERT INTO patients VALUES (%s, %s, %s)", list(row.values()))
        for at, row in enumerate(tables["visits"].to_pylist()):
            cells = (at, row["patient_id"], row["ward"], row["cost"])
            connection.execute("INSERT INTO admissions VALUES (%s, %s, %s, %s)", cells)
    return f"{postgres.url}#{postgres_schema}.*"


@pytest.fixture
def target(postgres: Any, postgres_schema: str) -> Any:
    name = f"{postgres_schema}_out"
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield f"{postgres.url}#{name}.*"
    with postgres.connect() as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


ASKED: dict[str, Any] = {
    "person": "patients.id",
    "qi": ["patients.sex", "patients.age", "admissions.day"],
    "k": 3,
    "m": 2,
    "linkable": True,
}


def names(postgres: Any, address: str) -> list[str]:
    schema = address.partition("#")[2].removesuffix(".*")
    with postgres.connect() as connection:
        told = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = %s"
        return sorted(name for (name,) in connection.execute(told, (schema,)).fetchall())


def test_declared_keys_are_taken_as_they_are(clinic: str) -> None:
    with sf.relational.dataset(clinic, person="patients.id") as made:
        assert {n: t.key for n, t in made.tables.items()} == {"admissions": "id", "patients": "id"}
        (one,) = made.references
        assert (one.say, one.how) == ("admissions.whose → patients.id", "database")
        assert "open-sesame" not in made.name
    found = sf.relational.scan(clinic, ["patients.sex", "admissions.day"])
    assert (found.person, found.guessed) == ("patients.id", True)


def test_a_schema_is_released_to_a_schema_in_one_transaction(
    postgres: Any, clinic: str, target: str, key: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    release = sf.relational.anonymize(clinic, key_file=key, output=target, **ASKED)
    assert release.verified
    assert "open-sesame" not in str(release.to_dict())
    assert names(postgres, target) == ["admissions", "patients"]
    (place,) = tmp_path.glob("*.certificate.json")
    assert "open-sesame" not in place.read_text()
    assert sf.relational.verify(target).holds
    url, _, schema = target.partition("#")
    tables = {}
    for name in ("patients", "admissions"):
        with sf.table(f"{url}#{schema.removesuffix('.*')}.{name}") as released:
            tables[name] = list(released)
    tables["admissions"] = [{**row, "patient_id": row["whose"]} for row in tables["admissions"]]
    assert fewest_left(tables, ASKED["qi"], 2) >= 3
    with pytest.raises(ParameterError, match="certificate of an earlier"):
        sf.relational.anonymize(clinic, key_file=key, output=target, **ASKED)
    sf.relational.anonymize(clinic, key_file=key, output=target, force=True, **ASKED)
    assert sf.relational.verify(target).holds


def test_a_schema_is_released_to_a_folder(clinic: str, key: Path, tmp_path: Path) -> None:
    release = sf.relational.anonymize(clinic, key_file=key, output=tmp_path / "out", **ASKED)
    assert release.verified
    assert sf.relational.verify(tmp_path / "out").holds
    assert sf.relational.anonymize(clinic, key_file=key, **ASKED).output is None


def test_if_one_table_cannot_be_named_none_is(
    postgres: Any, clinic: str, target: str, key: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    renamed: list[Any] = []
    rename = engine._Target.rename

    def fails_at_second(self: Any, connection: Any, *, force: bool) -> None:
        renamed.append(self)
        if len(renamed) == 2:
            raise EngineError("the server fell over")
        rename(self, connection, force=force)

    monkeypatch.setattr(engine._Target, "rename", fails_at_second)
    with pytest.raises(EngineError, match="fell over"):
        sf.relational.anonymize(clinic, key_file=key, output=target, **ASKED)
    assert len(renamed) == 2
    assert names(postgres, target) == []
    assert not list(tmp_path.iterdir())


def test_what_a_database_cannot_do_is_refused(
    clinic: str, target: str, house: Path, key: Path
) -> None:
    plain = {"person": "patients.id", "qi": ASKED["qi"], "k": 3}
    with pytest.raises(ParameterError, match="whole histories"):
        sf.relational.anonymize(clinic, output=target, **plain)
    with pytest.raises(ParameterError, match="one by one"):
        sf.relational.anonymize(clinic, **plain)
    with pytest.raises(ParameterError, match="of the same database"):
        sf.relational.anonymize(
            house, qi=["patients.sex"], k=2, m=1, linkable=True, key_file=key, output=target
        )
    with pytest.raises(SourceError, match="no table in a schema"):
        sf.relational.dataset(clinic.partition("#")[0] + "#nothing.*")
