"""A dataset of Spark frames: executors write its tables, and all appear together or none."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import killed_house
import sfumato as sf
from cli_tools import killed_again
from houses import fewest_left
from relational.conftest import house_tables
from sfumato.engines.spark import Spark, _Session
from sfumato.errors import ParameterError, PromiseError

pytestmark = pytest.mark.spark
QI = ["patients.sex", "patients.age", "admissions.day"]


@pytest.fixture
def clinic(spark: Any) -> dict[str, Any]:
    """Patients and admissions as frames."""
    tables = house_tables()
    patients = tables["patients"].rename_columns(["id", "sex", "age"])
    visits = tables["visits"].select(["patient_id", "ward", "cost"])
    return {
        "person": "patients.id",
        "tables": {
            "patients": {"source": spark.createDataFrame(patients.to_pandas()), "key": "id"},
            "admissions": {
                "source": spark.createDataFrame(
                    visits.rename_columns(["patient_id", "day", "cost"]).to_pandas()
                ),
                "references": {"patient_id": "patients.id"},
            },
        },
    }


def ask(clinic: dict[str, Any], key: Path, output: Path) -> sf.relational.TablesRelease:
    return sf.relational.anonymize(
        clinic, qi=QI, k=3, m=2, linkable=True, key_file=key, output=output
    )


STREAM = _Session.stream


def only_numbers_of_persons(session: _Session, statement: Any, columns: Any) -> Any:
    """Let the different values of one column pass, which are looked for in other columns."""
    assert len(columns) == 1, "rows were streamed to this machine"
    assert statement.args.get("distinct"), "so were these"
    return STREAM(session, statement, columns)


def test_frames_are_released_together_and_not_collected(
    clinic: dict[str, Any], key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.engines.spark._Session.stream", only_numbers_of_persons)
    release = ask(clinic, key, tmp_path / "released")
    assert release.verified
    monkeypatch.undo()
    names = sorted(one.name for one in (tmp_path / "released").iterdir())
    assert names == ["admissions.parquet", "certificate.json", "dataset.toml", "patients.parquet"]
    assert sf.relational.verify(tmp_path / "released").holds
    with sf.relational.dataset(tmp_path / "released") as again:
        rows = {name: one.table.to_arrow().to_pylist() for name, one in again.tables.items()}
    assert fewest_left(rows, QI, 2) >= 3
    cells = [(row["age"], row["id"]) for row in rows["patients"]]
    assert cells == sorted(cells), "by what was changed: blurred cells first, then pseudonyms"
    assert not any(row["id"].startswith("P0") for row in rows["patients"])


def test_frames_are_released_without_keys_and_not_collected(
    clinic: dict[str, Any], key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = clinic["tables"]["admissions"]["source"]
    owner = {row.cost: row.patient_id for row in frame.collect()}
    stray = frame.sparkSession.createDataFrame([("nobody", "A", -1.0)], frame.schema)
    clinic["tables"]["admissions"]["source"] = frame.union(stray)
    monkeypatch.setattr("sfumato.engines.spark._Session.stream", only_numbers_of_persons)
    release = sf.relational.anonymize(clinic, qi=QI, k=3, output=tmp_path / "released")
    monkeypatch.undo()
    assert release.promise == "unlinkable"
    assert any("of `admissions` belong" in one for one in release.warnings)
    with sf.relational.dataset(tmp_path / "released") as again:
        rows = {name: one.table.to_arrow().to_pylist() for name, one in again.tables.items()}
    assert [*rows["admissions"][0]] == ["day", "cost"]
    assert [*rows["patients"][0]] == ["sex", "age"]
    persons = defaultdict(set)
    for row in rows["admissions"]:
        persons[row["day"]].add(owner[row["cost"]])
    assert len(rows["admissions"]) == len(owner)
    assert min(map(len, persons.values())) >= 3
    alike = Counter((row["sex"], row["age"]) for row in rows["patients"])
    assert min(alike.values()) >= 3
    assert sf.relational.verify(tmp_path / "released").holds


def test_nothing_appears_where_something_goes_wrong(
    clinic: dict[str, Any], key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.relational import verification

    def broken(*_: Any, **__: Any) -> None:
        raise PromiseError("nothing was published", remedy="None.")

    monkeypatch.setattr(verification.LinkedTables, "check", broken)
    with pytest.raises(PromiseError):
        ask(clinic, key, tmp_path / "released")
    assert list(tmp_path.glob("*released*")) == []
    assert list(tmp_path.glob(".*released*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("linkable", [True, False], ids=["linkable", "unlinkable"])
def test_a_killed_release_leaves_all_tables_or_none(
    linkable: bool, key: Path, tmp_path: Path
) -> None:
    """Each in a Spark of its own, which dies with the process that is killed at any moment."""
    source = tmp_path / "house"
    source.mkdir()
    for name, rows in house_tables().items():
        pq.write_table(rows, source / f"{name}.parquet")
    found = []
    folder, output = tmp_path / "out", tmp_path / "out" / "released"
    asked = (str(source), str(output), str(key), linkable)
    spawned = multiprocessing.get_context("spawn")
    folder.mkdir()
    for _ in killed_again(4, killed_house.write_by_spark, *asked, context=spawned, least=0.2):
        found.append(output.exists())
        if output.exists():
            names = {one.name for one in output.iterdir()}
            tables = {"patients.parquet", "visits.parquet"}
            assert names == {*tables, "certificate.json", "dataset.toml"}
            assert sf.relational.verify(output).holds
        shutil.rmtree(folder)
        folder.mkdir()
    assert found[0]
    assert not all(found)


def test_another_file_system_is_refused_before_anything_is_done(
    clinic: dict[str, Any], key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Spark, "reaches", lambda *_: False)
    monkeypatch.setattr(_Session, "stream", lambda *_: pytest.fail("values were looked at"))
    with pytest.raises(ParameterError, match="another file system"):
        ask(clinic, key, tmp_path / "released")
