"""Releases made part by part that die on the way: nothing half-done gets the final name."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import killed_writer
import sfumato as sf
from cli_tools import forks
from sfumato.anonymization.in_parts import planned_in_parts
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.engines.recoding import Parted, Work
from sfumato.errors import EngineError
from sfumato.release import publish
from sfumato.tables import Table

QI = killed_writer.QI
ASKED: dict[str, Any] = {"qi": QI, "k": 4, "person": "patient"}


def visits(rows: int = 800) -> pa.Table:
    random = np.random.default_rng(5)
    return pa.table(
        {
            "age": random.integers(20, 80, rows),
            "height": np.round(random.normal(170, 10, rows), 1),
            "patient": [f"P{one}" for one in random.integers(0, rows // 2, rows)],
        }
    )


def killed(ask: Any, *arguments: Any) -> None:
    """Start a process and kill it at the moment it tells."""
    context = forks()
    reached = context.Event()
    process = context.Process(target=ask, args=(*arguments, reached))
    process.start()
    try:
        while process.is_alive() and not reached.wait(0.1):
            pass
    finally:
        process.kill()
        process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("moment", ["solving", "verifying"])
def test_a_process_killed_out_of_core_leaves_no_release(moment: str, tmp_path: Path) -> None:
    source, output = tmp_path / "visits.parquet", tmp_path / "out" / "released.parquet"
    output.parent.mkdir()
    pq.write_table(visits(), source)
    killed(killed_writer.write_parts, str(source), str(output), "duckdb", moment)
    left = [one.name for one in output.parent.iterdir()]
    assert not [name for name in left if name.startswith("released.parquet")]
    with sf.table(str(source), engine="duckdb") as table:
        assert sf.anonymize(table, parts=4, output=output, **ASKED).verified


@pytest.fixture
def in_postgres(postgres: Any, postgres_schema: str) -> tuple[str, str]:
    """Addresses of a table and of a release."""
    table = f"{postgres_schema}.visits"
    with postgres.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (age bigint, height float8, patient text)")
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in visits().to_pylist():
                copy.write_row(tuple(row.values()))
    place = f"{postgres.url}#{postgres_schema}"
    return f"{place}.visits", f"{place}.released"


def tables(postgres: Any, schema: str) -> list[str]:
    asked = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
    with postgres.connect() as connection:
        return sorted(name for (name,) in connection.execute(asked, (schema,)))


@pytest.mark.postgres
@pytest.mark.parametrize("moment", ["solving", "verifying"])
def test_a_client_killed_beside_postgres_leaves_no_release(
    moment: str,
    postgres: Any,
    postgres_schema: str,
    in_postgres: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source, output = in_postgres
    killed(killed_writer.write_parts, source, output, None, moment)
    there = tables(postgres, postgres_schema)
    assert "released" not in there
    assert all(name == "visits" or name.startswith("sfumato_partial_") for name in there)
    assert not list(tmp_path.iterdir())
    with sf.table(source) as table:
        assert sf.anonymize(table, parts=4, output=output, **ASKED).verified


def dying(work: Work, die: Any, at: int) -> Work:
    """Work during which something is killed, once."""
    times: list[int] = []

    def act(rows: pa.Table) -> Any:
        times.append(1)
        if len(times) == at:
            die()
        return work(rows)

    return act


def planned(table: Table, die: Any) -> Any:
    """A release that will die once while its parts are solved."""
    plan = planned_in_parts(table, Request.of({**ASKED, "parts": 4}).opened(table), 4, Budget())
    assert isinstance(plan.mapping, Parted)
    return replace(plan, mapping=replace(plan.mapping, work=dying(plan.mapping.work, die, 2)))


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["terminated", pytest.param("crashed", marks=pytest.mark.slow)])
def test_a_backend_killed_meanwhile_leaves_no_release(
    how: str,
    postgres: Any,
    postgres_schema: str,
    in_postgres: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source, output = in_postgres
    ours = "FROM pg_stat_activity WHERE application_name = 'sfumato' AND state <> 'idle'"

    def die() -> None:
        with postgres.connect() as connection:
            if how == "terminated":
                connection.execute(f"SELECT pg_terminate_backend(pid) {ours}")
                return
            for (pid,) in connection.execute(f"SELECT pid {ours}").fetchall():
                os.kill(pid, signal.SIGKILL)  # the server then starts again

    with sf.table(source) as table, pytest.raises(EngineError, match="lost"):
        publish(planned(table, die), output)
    for _ in range(200):
        try:
            there = tables(postgres, postgres_schema)
            break
        except psycopg.OperationalError:
            time.sleep(0.1)
    assert there == ["visits"]
    assert not list(tmp_path.iterdir())
    with sf.table(source) as table:
        assert sf.anonymize(table, parts=4, output=output, **ASKED).verified


@pytest.mark.spark
def test_a_worker_killed_on_an_executor_leaves_no_release(spark: Any, tmp_path: Path) -> None:
    """A local Spark tries nothing twice: the job fails, and its folder goes."""
    output, marker = tmp_path / "released.parquet", str(tmp_path / "died")

    def die() -> None:
        if not os.path.exists(marker):
            os.mkdir(marker)
            os.kill(os.getpid(), 9)

    table = sf.table(spark.createDataFrame(visits()))
    plan = planned(table, die)
    plan = replace(plan, mapping=replace(plan.mapping, work=dying(plan.mapping.work, die, 1)))
    with pytest.raises(EngineError):
        publish(plan, output)
    assert [one.name for one in tmp_path.iterdir()] == ["died"]
    assert publish(plan, output).verified


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("moment", ["solving", "verifying"])
def test_a_killed_driver_leaves_no_release(moment: str, spark: Any, tmp_path: Path) -> None:
    source, output = tmp_path / "visits.parquet", tmp_path / "out" / "released.parquet"
    output.parent.mkdir()
    pq.write_table(visits(), source)
    killed(killed_writer.write_parts_by_spark, str(source), str(output), moment)
    names = [one.name for one in output.parent.iterdir()]
    assert all(".partial-" in name or name.endswith(".reached") for name in names)
    table = sf.table(spark.read.parquet(str(source)))
    assert sf.anonymize(table, parts=4, output=output, **ASKED).verified
