"""The first look on every engine finds the same figures, and asks remote ones few questions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.demo import people

ROWS = 2000


def plain(found):
    """What must not depend on where the rows are."""
    told = found.to_dict()
    for name in ("table", "engine", "next"):
        del told[name]
    return told


@pytest.fixture(scope="module")
def table():
    columns = ["ssn", "birth_date", "sex", "zip", "email", "diagnosis", "diagnosis_name", "cost"]
    return people(ROWS).select(columns)


@pytest.fixture(scope="module")
def expected(table):
    return plain(sf.scan(sf.table(table, engine="memory")))


def test_duckdb(table, expected, tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(table, path)
    assert plain(sf.scan(sf.table(str(path), engine="duckdb"))) == expected


@pytest.mark.postgres
def test_postgres_asks_few_questions(table, expected, postgres, monkeypatch):
    url = filled(postgres, table)
    opened = sf.table(url)
    asked = counted(opened.engine, monkeypatch)
    assert plain(sf.scan(opened)) == expected
    opened.close()
    # one histogram a column, the sample, twins, six sets and the ladder
    assert asked["class_sizes"] <= table.num_columns + 1 + 6 + 8
    assert asked["sample"] == 1
    assert asked["batches"] == asked["classes"] == asked["values"] == 0


@pytest.mark.postgres
def test_what_postgres_cannot_parse_is_not_proposed_to_be(postgres):
    url = filled(postgres, pa.table({"seen": [f"{n % 9 + 1}.3.2020" for n in range(40)]}))
    with sf.table(url) as opened:
        steps = sf.scan(opened).next
    assert "Read dates and numbers as such: convert seen in a query" in steps
    assert not [step for step in steps if "--parse" in step]


@pytest.mark.spark
def test_spark(table, expected, spark, tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(table, path)
    assert plain(sf.scan(spark.read.parquet(str(path)))) == expected


def filled(server, table: pa.Table) -> str:
    kinds = {"date32[day]": "date", "double": "double precision", "string": "text"}
    columns = ", ".join(f'"{f.name}" {kinds[str(f.type)]}' for f in table.schema)
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS scanned")
        connection.execute(f"CREATE TABLE scanned ({columns})")
        with connection.cursor().copy("COPY scanned FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    return f"{server.url}#scanned"


def counted(engine, monkeypatch) -> dict[str, int]:
    questions = ("class_sizes", "sample", "batches", "classes", "values")
    asked = dict.fromkeys(questions, 0)

    def watch(name):
        method = getattr(engine, name)

        def ask(*arguments, **options):
            asked[name] += 1
            return method(*arguments, **options)

        monkeypatch.setattr(engine, name, ask)

    for name in questions:
        watch(name)
    return asked
