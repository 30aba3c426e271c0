"""The partitions of a Spark data frame as streams, sampled where they are and merged here.

Each executor lets its partition pass by a reservoir of its own; only reservoirs travel. Executors
need this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.engines import statements as sql
from sfumato.engines.protocol import columns_named
from sfumato.engines.reservoirs import PairReservoir, RowReservoir
from sfumato.engines.results import as_declared
from sfumato.engines.stream import StreamEngine

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PartitionedStream"]


class PartitionedStream(StreamEngine):
    """A Spark data frame of which one sample is drawn, by one job that reads it once.

    Parameters
    ----------
    spark
        The engine that holds the data frame.
    columns
        Columns to show.
    """

    def __init__(self, spark: Any, columns: Sequence[str]) -> None:
        super().__init__((), spark.name)
        self._spark, self._shown = spark, tuple(columns)

    def schema(self) -> tuple[Any, ...]:
        """Columns and types, as Spark declares them."""
        declared = {column.name: column for column in self._spark.schema()}
        return tuple(declared[name] for name in self._shown)

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Uniform sample of rows of all partitions."""
        names = self._shown if columns is None else tuple(columns)
        merged: RowReservoir | None = None
        for seen, (kept,), random in self._reservoirs(_rows_of(rows, seed), names, seed):
            part = RowReservoir.restored(rows, seen, kept, random)
            merged = part if merged is None else merged.merge(part)
        self._rows = 0 if merged is None else merged.rows_seen
        return self._empty(names) if merged is None else merged.sample()

    def pairs(
        self, pairs: int, columns: Sequence[str] | None = None, seed: int = 0
    ) -> tuple[pa.Table, pa.Table]:
        """Independent uniform pairs of rows of all partitions."""
        names = self._shown if columns is None else tuple(columns)
        merged: PairReservoir | None = None
        for seen, kept, random in self._reservoirs(_pairs_of(pairs, seed), names, seed):
            part = PairReservoir.restored(pairs, seen, *kept, seed=random)
            merged = part if merged is None else merged.merge(part)
        self._rows = 0 if merged is None else merged.rows_seen
        if merged is None or merged.rows_seen < 2:
            return self._empty(names), self._empty(names)
        return merged.pairs()

    def _reservoirs(
        self, draw: Callable[[Iterator[Any]], Iterator[Any]], names: Sequence[str], seed: int
    ) -> Iterator[tuple[int, tuple[pa.Table, ...], list[int]]]:
        """Rows seen, rows kept and a seed for the merge, of each partition that has rows."""
        if self._rows is not None:
            self._refuse("it has passed already")
        spark = self._spark
        declared = columns_named(spark.schema(), names)
        with spark.guarded():
            frame = spark.session.sql(sql.text(sql.all_rows(spark.rows(), names), "spark"))
            found = frame.mapInArrow(draw, "part int, seen bigint, left binary, right binary")
            parts = sorted(tuple(row) for row in found.collect())
        for part, seen, *packed in parts:
            kept = tuple(as_declared(_unpacked(bytes(data)), declared) for data in packed if data)
            yield seen, kept, [seed, part]

    def _empty(self, names: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        declared = columns_named(self._spark.schema(), names)
        return pa.schema([(column.name, column.type) for column in declared]).empty_table()

    def close(self) -> None:
        """Forget the view; the session belongs to the caller."""
        self._spark.close()


def _rows_of(size: int, seed: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What an executor does with a partition: keep some rows."""

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        reservoir = RowReservoir(size, [seed, part])
        for batch in batches:
            reservoir.add(batch)
        if reservoir.rows_seen:
            yield _packed(part, reservoir.rows_seen, reservoir.sample(), None)

    return draw


def _pairs_of(size: int, seed: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What an executor does with a partition: keep some pairs of rows."""

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        reservoir = PairReservoir(size, [seed, part])
        for batch in batches:
            reservoir.add(batch)
        if reservoir.rows_seen:
            yield _packed(part, reservoir.rows_seen, *reservoir.kept())

    return draw


def _packed(part: int, seen: int, left: pa.Table, right: pa.Table | None) -> pa.RecordBatch:
    import pyarrow as pa

    def as_bytes(table: pa.Table | None) -> bytes | None:
        if table is None:
            return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue().to_pybytes())

    return pa.record_batch(
        {
            "part": pa.array([part], pa.int32()),
            "seen": pa.array([seen], pa.int64()),
            "left": pa.array([as_bytes(left)], pa.binary()),
            "right": pa.array([as_bytes(right)], pa.binary()),
        }
    )


def _unpacked(data: bytes) -> pa.Table:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
