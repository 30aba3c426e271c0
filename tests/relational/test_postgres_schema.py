"""A schema of PostgreSQL as a dataset: rows stay there, all tables appear in one transaction."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import killed_house
import sfumato as sf
from cli_tools import killed_again, sfumato
from engines.conftest import load
from houses import fewest_left, random_house
from relational.conftest import house_tables
from sfumato.engines import postgres as engine
from sfumato.errors import (
    ColumnError,
    EngineError,
    InputError,
    ParameterError,
    PromiseError,
    SourceError,
)


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


def test_a_description_that_could_not_be_opened_is_not_proposed(clinic: str) -> None:
    """A dataset.toml names files, so that of a database nobody could use."""
    found = sfumato("scan", clinic)
    assert found.code == 0
    assert "say so with --person." in " ".join(found.out.split())
    assert "dataset.toml" not in found.out
    refused = sfumato("anonymize", clinic, "-k", "2", "--qi", "patients.sex")
    assert refused.code == 2
    assert "nobody said whom" in refused.err
    assert "dataset.toml" not in refused.err


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


PLAIN: dict[str, Any] = {name: ASKED[name] for name in ("person", "qi", "k")}


def rows_of(address: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a released schema, in the order in which they were filled in."""
    url, _, schema = address.partition("#")
    found = {}
    for name in ("patients", "admissions"):
        with sf.table(f"{url}#{schema.removesuffix('.*')}.{name}") as released:
            found[name] = released.to_arrow().to_pylist()
    return found


def stray(postgres: Any, clinic: str) -> None:
    """An admission that belongs to nobody."""
    schema = clinic.partition("#")[2].removesuffix(".*")
    with postgres.connect() as connection:
        connection.execute(f"INSERT INTO {schema}.admissions VALUES (9999, NULL, 'A', -1.0)")


def in_memory(clinic: str) -> dict[str, Any]:
    """The same dataset as tables of this process."""
    with sf.relational.dataset(clinic, person="patients.id") as made:
        tables = {name: one.table.to_arrow() for name, one in made.tables.items()}
    return {
        "person": "patients.id",
        "tables": {
            "patients": {"source": tables["patients"], "key": "id"},
            "admissions": {
                "source": tables["admissions"],
                "key": "id",
                "references": {"whose": "patients.id"},
            },
        },
    }


def test_rows_without_their_keys_stay_in_the_database(
    postgres: Any, clinic: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray(postgres, clinic)
    here = sf.relational.anonymize(in_memory(clinic), output=tmp_path / "here", **PLAIN)
    with sf.relational.dataset(tmp_path / "here") as made:
        expected = {name: one.table.to_arrow().to_pylist() for name, one in made.tables.items()}
    monkeypatch.chdir(tmp_path)

    def fetched(*_: Any, **__: Any) -> None:
        raise AssertionError("rows were fetched")

    monkeypatch.setattr("sfumato.engines.sql_engine.SQLEngine.batches", fetched)
    release = sf.relational.anonymize(clinic, output=target, **PLAIN)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert (release.promise, release.verified) == ("unlinkable", True)
    assert (release.k, release.ncp_own) == (here.k, here.ncp_own)
    assert release.ncp_events == here.ncp_events
    mine = [one for one in release.warnings if "to nobody in" in one]
    assert mine == ["1 row of `admissions` belongs to nobody in `patients` and is left out"]
    assert rows_of(target) == expected
    assert sf.relational.verify(target).holds
    with pytest.raises(ParameterError, match="certificate of an earlier"):
        sf.relational.anonymize(clinic, output=target, **PLAIN)
    asked = ["-k", 3, "--person", "patients.id", "--qi", ",".join(PLAIN["qi"]), "--force"]
    done = sfumato("anonymize", clinic, *asked, "-o", target)
    assert done.code == 0, done.err
    assert "all tables together" in done.out
    assert "open-sesame" not in done.out + done.err
    assert rows_of(target) == expected
    assert names(postgres, target) == ["admissions", "patients"], "no witness is left behind"


@pytest.mark.parametrize("seed", [0, 5, 7])
def test_random_houses_are_released_as_in_memory(
    seed: int, postgres: Any, postgres_schema: str, tmp_path: Path
) -> None:
    """Drugs lead to stays, stays to patients; some lead nowhere."""
    house = random_house(seed)
    with postgres.connect() as connection, ExitStack() as stack:
        there = {"person": house.described["person"], "tables": {}}
        for name, one in house.described["tables"].items():
            load(connection, postgres_schema, name, one["source"])
            opened = stack.enter_context(sf.table(f"{postgres.url}#{postgres_schema}.{name}"))
            there["tables"][name] = {**one, "source": opened}
        connection.commit()
        answers = []
        for place, source in {"here": house.described, "there": there}.items():
            try:
                release = sf.relational.anonymize(
                    source, qi=house.qi, k=house.k, output=tmp_path / place
                )
            except (PromiseError, InputError) as error:
                answers.append((type(error), error.what))
                continue
            with sf.relational.dataset(tmp_path / place) as made:
                rows = {n: t.table.to_arrow().to_pylist() for n, t in made.tables.items()}
            answers.append((release.k, release.tables, rows))
    assert answers[0] == answers[1]


def test_rows_without_their_keys_are_written_to_a_folder_or_foreseen(
    clinic: str, tmp_path: Path
) -> None:
    foreseen = sf.relational.anonymize(clinic, **PLAIN)
    assert (foreseen.verified, foreseen.output) == (False, None)
    release = sf.relational.anonymize(clinic, output=tmp_path / "out", **PLAIN)
    assert (foreseen.k, foreseen.ncp_own) == (release.k, release.ncp_own)
    assert sf.relational.verify(tmp_path / "out").holds
    (here,) = tmp_path.iterdir()
    assert sorted(one.name for one in here.iterdir()) == [
        "admissions.parquet", "certificate.json", "dataset.toml", "patients.parquet",
    ]  # fmt: skip


def test_rows_of_two_persons_are_refused_in_the_database(
    postgres: Any, clinic: str, tmp_path: Path
) -> None:
    schema = clinic.partition("#")[2].removesuffix(".*")
    with postgres.connect() as connection:
        connection.execute(f"SET search_path TO {schema}")
        connection.execute(
            "CREATE TABLE drugs AS SELECT id AS stay, whose AS patient, 'a'::text AS drug "
            "FROM admissions"
        )
        connection.execute("ALTER TABLE drugs ADD FOREIGN KEY (stay) REFERENCES admissions (id)")
        connection.execute("ALTER TABLE drugs ADD FOREIGN KEY (patient) REFERENCES patients (id)")
    asked = {**PLAIN, "qi": [*PLAIN["qi"], "drugs.drug"]}
    assert sf.relational.anonymize(clinic, output=tmp_path / "good", **asked).verified
    with postgres.connect() as connection:
        connection.execute(f"UPDATE {schema}.drugs SET patient = 'P0001' WHERE patient = 'P0003'")
        told = f"SELECT count(*) FROM {schema}.admissions WHERE whose = 'P0003'"
        (rows,) = connection.execute(told).fetchone()
    with pytest.raises(ColumnError, match=rf"{rows} rows? of `drugs` belongs? to two persons"):
        sf.relational.anonymize(clinic, output=tmp_path / "bad", **asked)
    assert not (tmp_path / "bad").exists()


def test_what_is_read_is_never_replaced(
    postgres: Any, clinic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="being read"):
        sf.relational.anonymize(clinic, output=clinic, force=True, **PLAIN)
    assert names(postgres, clinic) == ["admissions", "patients"]
    assert not list(tmp_path.iterdir())


def test_tables_of_several_places(clinic: str, tmp_path: Path) -> None:
    """Rows of this machine may lead to a database; those of a database lead nowhere else."""
    url, _, schema = clinic.partition("#")
    address = f"{url}#{schema.removesuffix('.*')}"
    mixed = in_memory(clinic)
    with sf.table(f"{address}.patients") as there:
        mixed["tables"]["patients"]["source"] = there
        sf.relational.anonymize(mixed, output=tmp_path / "mixed", **PLAIN)
    sf.relational.anonymize(in_memory(clinic), output=tmp_path / "here", **PLAIN)
    found = {}
    for place in ("mixed", "here"):
        with sf.relational.dataset(tmp_path / place) as made:
            found[place] = {n: t.table.to_arrow().to_pylist() for n, t in made.tables.items()}
    assert found["mixed"] == found["here"]
    other = in_memory(clinic)
    with sf.table(f"{address}.admissions") as there:
        other["tables"]["admissions"]["source"] = there
        with pytest.raises(ParameterError, match="`patients`, which they lead through, is else"):
            sf.relational.anonymize(other, output=tmp_path / "other", **PLAIN)
    assert not (tmp_path / "other").exists()


def test_a_killed_release_leaves_all_tables_or_none(
    postgres: Any, clinic: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    schema = target.partition("#")[2].removesuffix(".*")
    asked = {**PLAIN, "output": target, "force": True}
    for _ in killed_again(3, killed_house.ask, clinic, asked, least=0.3):
        there = [one for one in names(postgres, target) if not one.startswith("sfumato_partial_")]
        assert there in ([], ["admissions", "patients"])
        found.append(bool(there))
        if there:
            assert sf.relational.verify(target).holds
            assert {len(row) for row in rows_of(target)["patients"]} == {2}
        with postgres.connect() as connection:
            for one in names(postgres, target):
                connection.execute(f'DROP TABLE {schema}."{one}"')
    assert found[0]


def test_tables_that_were_interrupted_after_they_got_their_names_have_their_certificate(
    clinic: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    together = engine.commit_together

    def interrupted(*given: Any, **how: Any) -> None:
        together(*given, **how)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "commit_together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sf.relational.anonymize(clinic, output=target, **PLAIN)
    assert sf.relational.verify(target).holds


def test_what_a_database_cannot_do_is_refused(
    clinic: str, target: str, house: Path, key: Path
) -> None:
    with pytest.raises(ParameterError, match="of the same database"):
        sf.relational.anonymize(
            house, qi=["patients.sex"], k=2, m=1, linkable=True, key_file=key, output=target
        )
    with pytest.raises(SourceError, match="no table in a schema"):
        sf.relational.dataset(clinic.partition("#")[0] + "#nothing.*")


SEVERAL = (
    "CREATE TABLE patients (patient_id int PRIMARY KEY, sex text, born int)",
    "INSERT INTO patients SELECT i, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END, 1940 + i * 37 % 60 "
    "FROM generate_series(1, 80) i",
    "CREATE TABLE stay (site text, slot int, patient_id int REFERENCES patients, illness text, "
    "PRIMARY KEY (site, slot))",
    "INSERT INTO stay SELECT 's' || i % 3, i / 3, 1 + i * 7919 % 80, 'x' || i % 4 "
    "FROM generate_series(1, 300) i",
    "CREATE TABLE drug (at text, number int, patient_id int REFERENCES patients, drug text, "
    "FOREIGN KEY (at, number) REFERENCES stay (site, slot))",
    "INSERT INTO drug SELECT 's' || i % 3, i / 3, 1 + i * 7919 % 80, 'd' || i % 5 "
    "FROM generate_series(1, 300) i",
    "CREATE VIEW visit AS SELECT patient_id, illness FROM stay",
    "CREATE MATERIALIZED VIEW seen AS SELECT patient_id FROM stay",
)
OF_SEVERAL = {
    "person": "patients.patient_id",
    "k": 3,
    "qi": ["patients.sex", "patients.born", "stay.illness", "drug.drug"],
}


@pytest.fixture
def wards(postgres: Any, postgres_schema: str) -> str:
    """Stays with a key of two columns, drugs that refer to them, and two views."""
    with postgres.connect() as connection:
        connection.execute(f"SET search_path TO {postgres_schema}")
        for statement in SEVERAL:
            connection.execute(statement)
    return f"{postgres.url}#{postgres_schema}.*"


def test_keys_of_several_columns_are_left_out_or_refused(
    wards: str, key: Path, tmp_path: Path
) -> None:
    release = sf.relational.anonymize(wards, output=tmp_path / "out", **OF_SEVERAL)
    kept = {
        name: set(sf.table(tmp_path / "out" / f"{name}.parquet").columns)
        for name in ("stay", "drug")
    }
    assert kept == {"stay": {"illness"}, "drug": {"drug"}}
    told = "\n".join(release.warnings)
    assert "link rows: `drug.at`, `drug.number`, `stay.site`, `stay.slot`" in told
    assert "not released: `seen`, `visit`" in told
    linkable = {**OF_SEVERAL, "linkable": True, "m": 1, "key_file": key}
    for more in ({}, {"pseudonyms": ["drug.at", "drug.number", "stay.site", "stay.slot"]}):
        with pytest.raises(ParameterError, match=r"drug \(at, number\) → stay \(site, slot\) is a"):
            sf.relational.anonymize(wards, **linkable, **more)
    gone = ["drug.at", "drug.number", "stay.site", "stay.slot"]
    linked = sf.relational.anonymize(
        wards, output=tmp_path / "linked", identifiers=gone, **linkable
    )
    assert linked.verified
    assert set(sf.table(tmp_path / "linked" / "drug.parquet").columns) == {"patient_id", "drug"}
    blurred = {**OF_SEVERAL, "qi": ["patients.sex", "stay.illness", "stay.site"]}
    with_site = sf.relational.anonymize(wards, exclude=["drug"], **blurred)
    dropped = {one.name: one.dropped for one in with_site.tables}
    assert "slot" in dropped["stay"]
    assert "site" not in dropped["stay"]


def test_cells_that_may_join_rows_stay_in_the_database(
    wards: str, postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = wards.partition("#")[2].removesuffix(".*")
    with postgres.connect() as connection:
        for name in ("stay", "drug"):
            connection.execute(f"ALTER TABLE {schema}.{name} ADD episode int")
            connection.execute(f"UPDATE {schema}.{name} SET episode = 700 + patient_id % 40")
    monkeypatch.delattr("sfumato.relational.release.as_text")  # nothing is compared here
    release = sf.relational.anonymize(wards, output=tmp_path / "out", **OF_SEVERAL)
    assert any("still join their rows: `episode` (drug and stay)" in w for w in release.warnings)


def test_keys_of_several_columns_and_views_are_named_by_scan(wards: str, postgres: Any) -> None:
    found = sfumato("scan", wards, "--person", "patients.patient_id")
    told = " ".join(found.out.split())
    assert "drug (at, number) → stay (site, slot) is not followed: a key of several" in told
    assert "columns stay (site, slot) is not followed: a key of several columns" in told
    assert "were not looked at: seen, visit" in told
    schema = wards.partition("#")[2].removesuffix(".*")
    with postgres.connect() as connection:
        connection.execute(f"ALTER TABLE {schema}.drug DROP COLUMN patient_id")
    with pytest.raises(ParameterError, match="`drug` leads on only by a reference that is not"):
        sf.relational.anonymize(wards, **{**OF_SEVERAL, "qi": ["patients.sex"]})


def test_a_table_that_may_not_be_read_is_left_out_by_name(
    wards: str, postgres: Any, tmp_path: Path
) -> None:
    schema = wards.partition("#")[2].removesuffix(".*")
    role = f"reader_{schema}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        connection.execute(f"GRANT SELECT ON {schema}.patients, {schema}.drug TO {role}")
    address = wards.replace(f"//{postgres.user}:", f"//{role}:")
    asked = ("--person", "patients.patient_id", "-k", 3, "--qi", "patients.sex,drug.drug")
    try:
        refused = sfumato("anonymize", address, *asked)
        assert refused.code == 2
        assert "`stay` of the schema may not be read" in refused.err
        assert "--exclude stay" in refused.err
        assert sfumato("scan", address, "-x", "stay").code == 0
        made = sfumato("anonymize", address, *asked, "-x", "stay", "-o", tmp_path / "out")
        assert made.code == 0, made.err
        assert set(sf.table(tmp_path / "out" / "drug.parquet").columns) == {"drug"}
        assert "Tables left out: stay." in made.out
    finally:
        with postgres.connect() as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
