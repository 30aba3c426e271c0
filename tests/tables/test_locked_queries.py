"""Whatever DuckDB is asked, it opens the files it was given and nothing else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import DuckDB
from sfumato.engines.sql_engine import SQLEngine
from sfumato.errors import SourceError


@pytest.fixture
def people(tmp_path: Path) -> Path:
    place = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [20, 30, 30]}), place)
    (tmp_path / "secret.csv").write_text("word\nxyzzy\n")
    return place


def test_queries_read_the_files_they_name(people: Path, tmp_path: Path) -> None:
    for named in (people, tmp_path / "*.parquet"):
        assert sf.table(f"SELECT age FROM '{named}' WHERE age > 20").rows == 2
    joined = f"SELECT * FROM '{people}', read_csv('{tmp_path / 'secret.csv'}')"
    assert sf.table(joined).columns == ("age", "word")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{folder}' || '/secret.csv')",
        "SELECT content FROM read_text(concat('{folder}', '/secret.csv'))",
        "SELECT * FROM glob('{folder}' || '/*')",
        "SELECT * FROM read_parquet('https://127.0.0.1:1/people.parquet')",
        "SELECT * FROM 's3://bucket/people.parquet'",
        "SELECT * FROM postgres_scan('host=127.0.0.1 port=1', 'public', 'people')",
        "SELECT * FROM people",
    ],
)
def test_queries_read_nothing_else(query: str, people: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused:
        _ = sf.table(query.format(folder=tmp_path)).rows
    assert "xyzzy" not in str(refused.value)


def test_settings_are_locked_before_a_query_is_looked_at() -> None:
    found = sf.table("sql:SELECT current_setting('lock_configuration')::VARCHAR AS locked")
    assert found.to_arrow().column("locked").to_pylist() == ["true"]


def test_the_engine_is_locked_down_before_the_first_question(people: Path, tmp_path: Path) -> None:
    opened = sf.table(people, engine="duckdb")
    assert opened.class_sizes(["age"]).classes == 2
    assert isinstance(opened.engine, SQLEngine)
    database = opened.engine.connection
    assert isinstance(database, DuckDB)
    connection = database.opened()
    for statement in (
        f"SELECT * FROM '{tmp_path / 'secret.csv'}'",
        "COPY (SELECT 1) TO '" + str(tmp_path / "written.csv") + "'",
        f"ATTACH '{tmp_path / 'other.db'}'",
        "LOAD httpfs",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["people.parquet", "secret.csv"]
    (spill,) = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0]
    assert Path(spill).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("form", ["text", "arrow", "frame"])
def test_rows_that_are_kept_elsewhere_are_still_found(form: str, tmp_path: Path) -> None:
    rows = pa.table({"age": [20, 30, 30], "Age": ["a", "b", "b"]})
    given: object = rows
    if form == "text":
        given = tmp_path / "people.csv"
        (tmp_path / "people.csv").write_text("age,Age\n20,a\n30,b\n30,b\n")
    elif form == "arrow":
        given = tmp_path / "people.arrow"
        with pa.OSFile(str(given), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    opened = sf.table(given, engine="duckdb")
    assert opened.class_sizes(["age", "Age"]).classes == 2
