"""Rows kept for reading again."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.spool import Spool
from sfumato.errors import EngineError

BATCH = pa.record_batch(
    {"n": list(range(1000)), "s": [f"text {i % 10}" for i in range(1000)],
     "t": pa.array(range(1000), pa.timestamp("s"))}
)  # fmt: skip


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_rows_come_back_in_order_as_often_as_asked(memory):
    spool = Spool.of(BATCH.schema, [BATCH] * 3, memory)
    assert (spool.path is None) == (memory > 0)
    assert spool.rows == 3000
    for _ in range(2):
        read = list(spool.batches(["s", "n", "t"], rows=700))
        assert max(batch.num_rows for batch in read) <= 700
        whole = pa.Table.from_batches([b.cast(b.schema.set(0, pa.field("s", pa.string())))
                                       for b in read])  # fmt: skip
        assert whole.column_names == ["s", "n", "t"]
        assert whole.column("n").to_pylist() == list(range(1000)) * 3
        assert whole.schema.field("t").type == pa.timestamp("s")
    connection = duckdb.connect()
    assert spool.relation(connection).aggregate("sum(n)").fetchall() == [(3 * 499_500,)]
    spool.close()


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_closed_is_not_empty(memory):
    spool = Spool.of(BATCH.schema, [BATCH], memory)
    spool.close()
    with pytest.raises(EngineError, match="has been closed"):
        list(spool.batches())
    with pytest.raises(EngineError, match="has been closed"):
        spool.relation(duckdb.connect())


def test_temporary_files_go_away():
    spool = Spool.of(BATCH.schema, [BATCH], 0)
    folder = spool.path.parent
    assert folder.stat().st_mode & 0o077 == 0
    spool.close()
    assert not folder.exists()
    forgotten = Spool.of(BATCH.schema, [BATCH], 0)
    folder = forgotten.path.parent
    del forgotten
    assert not folder.exists()


def test_temporary_files_go_away_when_reading_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken():
        yield BATCH
        yield BATCH
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Spool.of(BATCH.schema, broken(), 0)
    assert not list(tmp_path.iterdir())


def test_no_room_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match="no temporary folder"):
        PrivateFolder()
    with pytest.raises(EngineError, match="no temporary folder"):
        Spool.of(BATCH.schema, [BATCH], 0)


def test_a_quarter_of_the_smallest_limit_is_held_unless_more_is_asked_for() -> None:
    zeros = pa.record_batch({"age": np.zeros(1 << 20, np.int64)})
    spool = Spool.of(zeros.schema, [zeros] * 10)
    assert spool.path is not None
    assert spool.rows == 10 << 20
    spool.close()
