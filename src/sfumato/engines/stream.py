"""Rows that pass by once: an engine that can only draw one sample.

The pass happens when the sample is drawn. What needs the rows a second time (class sizes, an exact
check, a release) is refused with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.parts import Parted
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Capabilities,
    Column,
    Staged,
    column_of,
    columns_named,
)
from sfumato.engines.recoding import Recoding
from sfumato.engines.reservoirs import PairReservoir, RowReservoir
from sfumato.engines.results import as_declared
from sfumato.errors import EngineError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.engines.spark import Spark

__all__ = ["PartitionedStream", "StreamEngine"]


class StreamEngine:
    """A stream of record batches as a table of which one sample can be had.

    Parameters
    ----------
    batches
        Record batches of one schema, or a function that returns them.
    name
        What to call the stream in messages.
    on_close
        Called when the stream is closed, to close what its rows come from.

    Examples
    --------
    >>> batches = (pa.record_batch({"x": [i, i + 1]}) for i in range(0, 1000, 2))
    >>> engine = StreamEngine(batches)
    >>> engine.sample(10, ["x"]).num_rows, engine.row_count()
    (10, 1000)
    """

    kind = "stream"
    capabilities = Capabilities(replayable=False)
    paths = ()

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch] | Callable[[], Iterable[pa.RecordBatch]],
        name: str = "the stream",
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._on_close = on_close
        self._batches = iter(batches() if callable(batches) else batches)
        self._first: list[pa.RecordBatch] = []
        self._rows: int | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types, from the first batch."""
        if not self._first:
            first = next(self._batches, None)
            if first is None:
                raise SourceError(
                    "the stream is empty",
                    where=self.name,
                    remedy="Give at least one record batch; it may have no rows.",
                )
            if not isinstance(first, pa.RecordBatch):
                raise SourceError(
                    f"a stream is made of record batches, not of {type(first).__name__}",
                    where=self.name,
                    remedy="Give an iterator of pyarrow.RecordBatch.",
                )
            self._first = [first]
        schema = self._first[0].schema
        return tuple(column_of(field.name, field.type, where=self.name) for field in schema)

    def row_count(self) -> int:
        """Number of rows, once the stream has passed."""
        if self._rows is None:
            self._refuse("its length is not known before it has passed")
        return self._rows

    @property
    def passed(self) -> bool:
        """Whether the stream has passed."""
        return self._rows is not None

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Uniform sample of rows, drawn while the stream passes."""
        reservoir = RowReservoir(rows, seed)
        for batch in self.batches(columns):
            reservoir.add(batch)
        return reservoir.sample()

    def pairs(
        self, pairs: int, columns: Sequence[str] | None = None, seed: int = 0
    ) -> tuple[pa.Table, pa.Table]:
        """Independent uniform pairs of rows, drawn while the stream passes."""
        reservoir = PairReservoir(pairs, seed)
        for batch in self.batches(columns):
            reservoir.add(batch)
        return reservoir.pairs()

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, once."""
        names = [column.name for column in self.schema()] if columns is None else list(columns)
        if self._rows is not None:
            self._refuse("it has passed already")
        seen = 0
        declared = self._first[0].schema if self._first else None
        for batch in itertools.chain(self._first, self._batches):
            if declared is not None and not batch.schema.equals(declared):
                raise SourceError(
                    f"the record batch after row {seen:,} has other columns or types than the "
                    "first one",
                    where=self.name,
                    remedy="Give all record batches the same schema.",
                )
            seen += batch.num_rows
            yield batch.select(names)
        self._first = self._first[:1] and [self._first[0].slice(0, 0)]
        self._rows = seen

    def _refuse_figures(self, *_: object, **__: object) -> NoReturn:
        """Refused: exact figures need all rows."""
        self._refuse("exact figures need all of its rows")

    class_sizes = person_sizes = classes = codes = null_counts = values = _refuse_figures
    different = rows_of_words = pairing = _refuse_figures

    def stage(
        self,
        recoding: Recoding | Parted,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Refused: a release needs the rows again."""
        self._refuse("a release needs its rows a second time")

    def fingerprint(self) -> str:
        """Refused: the rows are gone."""
        self._refuse("its content is not kept")

    def close(self) -> None:
        """Let go of what has not been read."""
        ended = getattr(self._batches, "close", None)
        self._batches = iter(())
        if ended is not None:
            ended()
        if self._on_close is not None:
            self._on_close()

    def _refuse(self, why: str) -> NoReturn:
        raise EngineError(
            f"a stream passes only once: {why}",
            where=self.name,
            remedy="Save it to a file first, or ask for an answer from a sample.",
        )


class PartitionedStream(StreamEngine):
    """A Spark data frame of which one sample is drawn, by one job that reads it once.

    Parameters
    ----------
    spark
        Where the data frame is.
    columns
        Columns to show.
    """

    def __init__(self, spark: Spark, columns: Sequence[str]) -> None:
        super().__init__((), spark.name)
        self._spark, self._shown = spark, tuple(columns)

    def schema(self) -> tuple[Any, ...]:
        """Columns and types, as Spark declares them."""
        declared = {column.name: column for column in self._spark.rows().columns}
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
        declared = columns_named(spark.rows().columns, names)
        with spark.guarded():
            frame = spark.answer(sql.all_rows(spark.rows(), names))
            found = frame.mapInArrow(draw, "part int, seen bigint, left binary, right binary")
            parts = sorted(tuple(row) for row in found.collect())
        for part, seen, *packed in parts:
            kept = tuple(as_declared(_unpacked(bytes(data)), declared) for data in packed if data)
            yield seen, kept, [seed, part]

    def _empty(self, names: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        declared = columns_named(self._spark.rows().columns, names)
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
