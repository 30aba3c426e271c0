"""What is special about DuckDB: working out of core, and types it does not have."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

import sfumato as sf
from brute import as_table, small_tables
from sfumato.budget import Budget
from sfumato.engines.duckdb import DuckDB
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.engines.sql_engine import SQLEngine
from sfumato.errors import BudgetError, EngineError
from sfumato.tables.columnar import ArrowSource, ParquetSource
from zoo import classes_of, decoded


def opened(table: pa.Table) -> SQLEngine:
    return SQLEngine(DuckDB(ArrowSource(table, "people"), threads=2))


def foreign() -> pa.Table:
    """Types that DuckDB holds only in another form, or not at all."""
    return pa.table(
        {
            "span": pa.array([1, 2, 2, None], pa.duration("ns")),
            "wide": pa.array([Decimal(10) ** 49, Decimal(10) ** 49 + 1, None, None],
                             pa.decimal256(50, 0)),
            "rounded": pa.array([Decimal(100), Decimal(200), Decimal(100), None],
                                pa.decimal128(5, -2)),
            "moment": pa.array([1, 2, 2, None], pa.timestamp("ns", "Europe/Rome")),
            "clock": pa.array([1, 2, 2, None], pa.time64("ns")),
            "unsigned": pa.array([2**64 - 1, 2**63, 2**63, None], pa.uint64()),
            "fixed": pa.array([b"ab", b"ac", b"ac", None], pa.binary(2)),
            "nothing": pa.nulls(4),
        }
    )  # fmt: skip


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_column_that_is_called_star_is_one_column(ending: str, tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "y"] * 6, "*": list(range(6)) * 2, "b": [1, 2, 3] * 4})
    place = tmp_path / f"people.{ending}"
    if ending == "parquet":
        pq.write_table(table, place)
    else:
        feather.write_feather(table, place, compression="uncompressed")
    found = sf.table(str(place), engine="duckdb")
    assert {name: found.class_sizes([name]).classes for name in found.columns} == {
        "a": 2,
        "*": 6,
        "b": 3,
    }
    assert sf.anonymize(found, qi=["a", "*"], k=3, output=tmp_path / "out.csv").verified
    assert sf.measure(sf.table(str(tmp_path / "out.csv"), engine="memory"), ["a", "*"]).k >= 3


@pytest.mark.parametrize("column", foreign().column_names)
def test_foreign_types_keep_their_values(column: str) -> None:
    table = foreign().select([column])
    engine, memory = opened(table), MemoryEngine(ArrowSource(table, "people"))
    assert engine.class_sizes([column]) == memory.class_sizes([column])
    found, expected = engine.values(column), memory.values(column)
    assert found.values[0].type == expected.values[0].type
    assert found.values[0].equals(expected.values[0])
    assert found.counts is not None
    assert found.counts.tolist() == expected.counts.tolist()  # type: ignore[union-attr]
    assert engine.sample(3, seed=1).equals(memory.sample(3, seed=1))


def test_a_release_of_foreign_types(tmp_path: Path) -> None:
    table = foreign().drop_columns(["nothing"])
    engine = opened(table)
    match = engine.classes(["span", "wide"])
    step = Step(match, {"mark": Cells(np.arange(match.entries), pa.array(["x", "y", "z", "w"]))})
    engine.stage(Recoding((step,)), str(tmp_path / "out.arrow")).commit()
    found = pa.ipc.open_file(tmp_path / "out.arrow").read_all()
    assert found.schema.types[:-1] == [column.type for column in engine.schema()]
    assert found["span"].equals(table["span"])
    assert found["unsigned"].equals(table["unsigned"])


@settings(max_examples=40)
@given(small_tables(max_rows=14, max_columns=4), st.integers(0, 20))
def test_random_tables(drawn: tuple[list[tuple[object, ...]], int], wanted: int) -> None:
    rows, width = drawn
    table = as_table(rows, width).cast(pa.schema([(chr(97 + c), pa.int64()) for c in range(width)]))
    engine, memory = opened(table), MemoryEngine(ArrowSource(table, "people"))
    names = table.column_names
    assert engine.class_sizes(names).to_dict() == Counter(classes_of(table, names).values())
    assert decoded(engine.classes(names)) == classes_of(table, names)
    assert engine.sample(wanted, seed=wanted).equals(memory.sample(wanted, seed=wanted))
    engine.close()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> ParquetSource:
    """Rows that all differ, too many for a small memory."""
    path = tmp_path_factory.mktemp("wide") / "wide.parquet"
    choice = np.random.default_rng(5)
    rows = 400_000
    table = pa.table({f"n{at}": choice.integers(0, 2**60, rows) for at in range(12)})
    pq.write_table(table, path)
    return ParquetSource([path], "wide")


def test_a_histogram_that_does_not_fit_goes_to_disk(wide: ParquetSource) -> None:
    engine = SQLEngine(DuckDB(wide, memory=64 << 20, threads=2))
    names = [column.name for column in engine.schema()]
    assert engine.class_sizes(names).to_dict() == {1: 400_000}
    limit = engine.connection.opened().sql("SELECT current_setting('memory_limit')").fetchall()
    assert limit == [("64.0 MiB",)]
    engine.close()


def test_nothing_temporary_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    engine = opened(pa.table({"span": pa.array([1, 2], pa.duration("ns"))}))
    engine.class_sizes(["span"])
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    engine.close()
    engine.close()
    assert list(tmp_path.iterdir()) == []
    assert engine.class_sizes(["span"]).rows == 2  # a closed engine opens again
    engine.close()


def test_a_spent_budget_stops_the_statement(wide: ParquetSource) -> None:
    engine = SQLEngine(DuckDB(wide, memory=64 << 20))
    names = [column.name for column in engine.schema()]
    with pytest.raises(BudgetError, match="wide: counting classes was stopped"):
        engine.class_sizes(names, Budget(seconds=0.1))
    cancelled = Budget()
    cancelled.cancel()
    with pytest.raises(BudgetError):
        engine.classes(names, budget=cancelled)
    assert engine.row_count() == 400_000
    engine.close()


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [1, 2]}), path)
    engine = SQLEngine(DuckDB(ParquetSource([path], "people")))
    path.unlink()
    with pytest.raises(EngineError, match="DuckDB could not read"):
        engine.class_sizes(["age"])
    engine.close()


def test_a_recoding_that_names_a_combination_twice(tmp_path: Path) -> None:
    engine = opened(pa.table({"age": [1, 2]}))
    match = engine.values("age").take(np.array([0, 1, 1]))
    with pytest.raises(EngineError, match="twice"):
        engine.stage(Recoding((Step(match),)), str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []


def test_less_is_held_while_a_release_is_written(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [1, 2, 1]}), path)
    engine = SQLEngine(DuckDB(ParquetSource([path], "people"), memory=512 << 20))

    def limit(setting: str = "memory_limit") -> Any:
        return (
            engine.connection.opened()
            .execute("SELECT current_setting(?)", [setting])
            .fetchall()[0][0]
        )

    assert limit() == "224.0 MiB"
    with engine.connection.session(writing=True):
        assert limit() == "102.0 MiB"
    assert limit() == "224.0 MiB"
    with pytest.raises(ZeroDivisionError), engine.connection.session(writing=True):
        raise ZeroDivisionError
    assert limit() == "224.0 MiB"
    threads = limit("threads")
    with engine.connection.session(apart=True, writing=True):
        assert (limit(), limit("threads")) == ("102.0 MiB", 1)
    assert (limit(), limit("threads")) == ("224.0 MiB", threads)
    engine.close()
