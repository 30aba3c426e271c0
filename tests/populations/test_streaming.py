"""Sampled quantiles over record batches: never below k, on every local engine."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError
from sfumato.populations.streaming import recoded_batches, sampled_groups


def in_batches(values: object, size: int = 1_000) -> list[pa.RecordBatch]:
    return pa.table({"x": values}).to_batches(max_chunksize=size)


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_below_k(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=20_000)
    rows = in_batches(values)
    found = sampled_groups(lambda: rows, "x", 400, eps=0.02, seed=seed)
    assert found.smallest >= 400
    assert found.counts.sum() == 20_000
    group = np.searchsorted(found.cuts, values, side="right")
    assert np.bincount(group).tolist() == found.counts.tolist()
    assert found.groups >= 10


def test_few_distinct_values() -> None:
    rows = in_batches(np.repeat([1, 2, 3], [500, 3, 500]))
    found = sampled_groups(lambda: rows, "x", 100, eps=0.02)
    assert found.smallest >= 100


def test_dates_and_nulls_are_recoded() -> None:
    days = [dt.date(1950, 1, 1) + dt.timedelta(i) for i in range(1_000)]
    rows = in_batches(pa.array([*days, None]), 300)
    found = sampled_groups(lambda: rows, "x", 300, eps=0.02)
    assert found.nulls == 1
    labels = pa.array([f"group {i}" for i in range(found.groups)])
    out = pa.Table.from_batches(recoded_batches(rows, found, labels))["x"].to_pylist()
    assert out[-1] is None
    assert out[0] == "group 0"
    assert {out.count(label) for label in set(out) - {None}} == set(found.counts.tolist())


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_tables_of_every_local_engine(tmp_path: object, engine: str) -> None:
    path = f"{tmp_path}/x.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(3).normal(size=30_000)}), path)
    with sf.table(path, engine=engine) as table:
        found = sampled_groups(lambda: table.batches(["x"]), "x", 1_000, eps=0.02)
    assert found.rows == 30_000
    assert found.smallest >= 1_000


def test_bad_streams() -> None:
    rows = in_batches(np.arange(100))
    with pytest.raises(ParameterError, match="larger than the 100 rows"):
        sampled_groups(lambda: rows, "x", 101)
    with pytest.raises(ColumnError, match="no column `y`"):
        sampled_groups(lambda: rows, "y", 5)
    with pytest.raises(ColumnError, match="numbers or dates"):
        sampled_groups(lambda: in_batches(["a"]), "x", 1)
    passes = iter([rows, rows[:0]])
    with pytest.raises(ColumnError, match="second pass saw 0 values"):
        sampled_groups(lambda: next(passes), "x", 5)
