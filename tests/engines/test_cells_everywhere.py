"""Stars are chosen from counts of classes and written by the engine that holds the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines import postgres
from sfumato.engines.postgres import Postgres
from sfumato.engines.protocol import Engine
from sfumato.engines.sql_engine import SQLEngine
from sfumato.tables import Table

Opener = Callable[[pa.Table], Engine]

QI = ["age", "town", "married"]
ROWS = 3_000


@pytest.fixture
def destination(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Where the engine at hand writes: a file, a table or a folder."""
    monkeypatch.chdir(tmp_path)  # the certificate of a table is a file where we are
    if kind == "postgres":
        return f"{request.getfixturevalue('postgres_schema')}.starred"
    return str(tmp_path / "starred.parquet")


def people() -> pa.Table:
    """Many rows of few kinds, some kinds rare, with nulls where stars may fall."""
    random = np.random.default_rng(3)
    kinds = random.zipf(1.6, ROWS) % 40
    ages = [None if kind % 11 == 5 else int(20 + kind % 7) for kind in kinds]
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "age": pa.array(ages, pa.int32()),
            "town": [f"town {kind % 9}" for kind in kinds],
            "married": [bool(kind % 3) for kind in kinds],
        }
    )


@pytest.fixture
def fetched(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows in every answer that came from the engine."""
    counted: list[int] = []

    def counting(owner: Any, name: str, count: Callable[[Any], int]) -> None:
        original = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            answer = original(*arguments, **named)
            counted.append(count(answer))
            return answer

        monkeypatch.setattr(owner, name, call)

    if kind == "spark":
        from pyspark.sql.classic.dataframe import DataFrame

        for name in ("toArrow", "toPandas", "collect"):
            counting(DataFrame, name, len)
        monkeypatch.setattr(DataFrame, "toLocalIterator", None)
    if kind == "postgres":
        import psycopg

        counting(psycopg.Cursor, "fetchall", len)
        original = postgres.received

        def received(*arguments: Any) -> Generator[Any]:
            for message in original(*arguments):
                counted.append(bytes(message).count(b"\n") or 1)
                yield message

        monkeypatch.setattr(postgres, "received", received)
    return counted


def read_back(engine: Engine, destination: str) -> pa.Table:
    """All rows of a release."""
    database = engine.connection if isinstance(engine, SQLEngine) else None
    if isinstance(database, Postgres):
        with closing(SQLEngine(Postgres(database.server.url, table=destination))) as written:
            return written.sample(ROWS)
    return pq.read_table(destination)


def test_the_same_stars_everywhere_and_no_rows_fetched(
    opened: Opener, destination: str, kind: str, fetched: list[int]
) -> None:
    table = people()
    kinds = len(set(zip(*(table.column(name).to_pylist() for name in QI), strict=True)))
    assert kinds < ROWS // 20
    engine = opened(table)
    asked: dict[str, Any] = {"qi": QI, "k": 4, "method": "cells", "rows_are_people": True}
    here = sf.anonymize(table, **asked)
    fetched.clear()
    release = sf.anonymize(Table(engine), output=destination, **asked)
    if kind in ("postgres", "spark"):
        assert fetched, "nothing came through the doors that are watched"
        assert sum(fetched) < ROWS // 2
        assert engine.sample(ROWS, ["id"]).num_rows == ROWS
        assert sum(fetched) >= ROWS, "rows that are fetched are not seen"
    assert release.rows == ROWS
    assert release.k is not None
    assert release.k >= 4
    assert 0 < release.suppressed_cells == here.suppressed_cells
    assert release.lower_bound == here.lower_bound
    assert release.details["proven_gap"] == here.details["proven_gap"]

    found = read_back(engine, destination)
    expected = here.table.sample(ROWS)
    assert sorted(found.column("id").to_pylist()) == list(range(ROWS))
    names = [name for name in expected.column_names if name != "id"]
    assert found.column_names == expected.column_names
    shown, wanted = (
        Counter(zip(*(t.column(name).to_pylist() for name in names), strict=True))
        for t in (found, expected)
    )
    assert shown == wanted


def test_protected_columns_and_prices_hold_everywhere(opened: Opener, destination: str) -> None:
    table = people()
    release = sf.anonymize(
        Table(opened(table)), qi=QI, k=6, method="cells", protected=["married"],
        weights={"age": 3}, output=destination, rows_are_people=True,
    )  # fmt: skip
    assert release.column_actions["married"] == "kept"
    assert release.details["cost"] >= release.suppressed_cells
    assert release.k is not None
    assert release.k >= 6
