"""Classes too wide for the memory limit are counted in parts, to the same histogram."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.recoding import Dealt
from sfumato.errors import EngineMemoryError

TABLE = pa.table(
    {
        "a": [i % 97 for i in range(5000)],
        "b": [None if i % 11 == 0 else f"v{i % 7}" for i in range(5000)],
        "c": [float("nan") if i % 5 == 0 else -0.0 if i % 3 else 0.0 for i in range(5000)],
    }
)


def running_out(engine, monkeypatch, failures):
    """Let the first statements run out of memory, as DuckDB does."""
    ask, failed = engine._ask, []

    def fail(*arguments):
        if len(failed) < failures:
            failed.append(1)
            with engine.connection.guarded():
                raise duckdb.OutOfMemoryException("could not allocate")
        return ask(*arguments)

    monkeypatch.setattr(engine, "_ask", fail)


@pytest.mark.parametrize(
    ("columns", "failures"),
    [
        (["a"], 1),
        (["a"], 2),
        (["b", "c"], 1),
        (["b", "c"], 2),
        pytest.param(["a", "b", "c"], 3, marks=pytest.mark.slow),
    ],
)
def test_same_histogram(monkeypatch, columns, failures):
    whole = sf.table(TABLE, engine="memory").class_sizes(columns)
    table = sf.table(TABLE, engine="duckdb")
    running_out(table.engine, monkeypatch, failures)
    assert table.class_sizes(columns) == whole
    table.close()


def test_memory_that_never_suffices_is_an_error(monkeypatch):
    table = sf.table(TABLE, engine="duckdb")
    running_out(table.engine, monkeypatch, 1000)
    with pytest.raises(EngineMemoryError, match="out of memory"):
        table.class_sizes(["a"])
    table.close()


@pytest.mark.parametrize("held", [1, 7, 100, 10_000])
@pytest.mark.parametrize("file", ["dealt.arrow", None])
def test_rows_are_dealt_to_their_parts_in_their_order(monkeypatch, tmp_path, held, file):
    monkeypatch.setattr(Dealt, "_ROWS", held)
    parts = np.random.default_rng(3).integers(0, 9, 500)
    parts[parts == 4] = 5  # a part without rows
    rows = pa.table({"part": parts, "at": np.arange(500), "b": TABLE.column("b")[:500]})
    place = None if file is None else tmp_path / file
    dealt = dict(Dealt.out(rows.to_batches(30), place).tables())
    assert list(dealt) == sorted(set(parts.tolist()))
    for part, found in dealt.items():
        assert found.equals(rows.filter(parts == part).drop_columns(["part"]))


def test_no_rows_are_dealt_to_no_part(tmp_path):
    assert list(Dealt.out([], tmp_path / "dealt.arrow").tables()) == []
    assert list(Dealt.out([]).tables()) == []
    empty = pa.record_batch({"part": pa.array([], pa.int64()), "at": pa.array([], pa.int64())})
    assert list(Dealt.out([empty]).tables()) == []
