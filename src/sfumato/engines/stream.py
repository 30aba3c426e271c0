"""Rows that pass by once: an engine that draws one sample of them, in constant memory.

The pass happens when the sample is drawn. What needs the rows a second time (class sizes, an exact
check, a release) is refused with the reason.

Rows: Algorithm L (Li 1994) jumps over the rows that do not enter the sample instead of deciding row
by row. A stream of n rows costs about r·ln(n/r) replacements in all, whatever a row weighs.

Pairs: every pair is a reservoir of two rows of its own, as Motwani & Xu's streaming remark asks.
All of them are moved forward together: a pair changes only about 2·ln(n/2) times in n rows, and
each knows the row at which it will change next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Capabilities,
    Column,
    as_declared,
    column_of,
    columns_named,
)
from sfumato.engines.recoding import Parted, Recoding
from sfumato.engines.staging import Staged
from sfumato.errors import EngineError, ParameterError, SourceError

if TYPE_CHECKING:
    from sfumato.engines.spark import Spark


Indices = npt.NDArray[np.int64]
Drawn = TypeVar("Drawn", "RowReservoir", "PairReservoir")


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
        return self._drawn(RowReservoir, rows, columns, seed).sample()

    def pairs(
        self, pairs: int, columns: Sequence[str] | None = None, seed: int = 0
    ) -> tuple[pa.Table, pa.Table]:
        """Independent uniform pairs of rows, drawn while the stream passes."""
        return self._drawn(PairReservoir, pairs, columns, seed).pairs()

    def _drawn(
        self, kind: type[Drawn], size: int, columns: Sequence[str] | None, seed: int
    ) -> Drawn:
        reservoir = kind(size, seed)
        for batch in self.batches(columns):
            reservoir.add(batch)
        return reservoir

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
    """A Spark data frame of which one sample is drawn, by one job that reads it once."""

    def __init__(self, spark: Spark, columns: Sequence[str]) -> None:
        super().__init__((), spark.name)
        self._spark, self._shown = spark, tuple(columns)

    def schema(self) -> tuple[Any, ...]:
        """Columns and types, as Spark declares them."""
        declared = {column.name: column for column in self._spark.rows().columns}
        return tuple(declared[name] for name in self._shown)

    def _drawn(
        self, kind: type[Drawn], size: int, columns: Sequence[str] | None, seed: int
    ) -> Drawn:
        """One reservoir of those of all partitions."""
        if self._rows is not None:
            self._refuse("it has passed already")
        names = self._shown if columns is None else tuple(columns)
        spark = self._spark
        declared = columns_named(spark.rows().columns, names)
        with spark.guarded():
            frame = spark.answer(sql.all_rows(spark.rows(), names))
            draw = _drawing(kind, size, seed)
            found = frame.mapInArrow(draw, "part int, seen bigint, left binary, right binary")
            parts = sorted(tuple(row) for row in found.collect())
        merged = None
        for part, seen, *packed in parts:
            kept = (as_declared(_unpacked(bytes(data)), declared) for data in packed if data)
            own = kind.restored(size, seen, *kept, seed=[seed, part])
            merged = own if merged is None else merged.merge(own)
        if merged is None:
            merged = kind(size, seed)
            merged.add(pa.schema([(column.name, column.type) for column in declared]).empty_table())
        self._rows = merged.rows_seen
        return merged

    def close(self) -> None:
        """Forget the view; the session belongs to the caller."""
        self._spark.close()


def _drawing(kind: type[Drawn], size: int, seed: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What an executor does with a partition: keep some rows, or pairs of rows."""

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        reservoir = kind(size, [seed, part])
        for batch in batches:
            reservoir.add(batch)
        if reservoir.rows_seen:
            yield _packed(part, reservoir.rows_seen, *reservoir.kept())

    return draw


def _packed(part: int, seen: int, left: pa.Table, right: pa.Table | None) -> pa.RecordBatch:
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
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


class _Reservoir:
    """Some rows of a stream, in slots; several that were filled apart can be merged."""

    drawn: ClassVar[str]
    """What is drawn, `size` of them."""
    tables: ClassVar[int]
    """How many slots each of them takes."""

    def __init__(self, size: int, seed: int | Sequence[int] = 0) -> None:
        if size < 1:
            raise ParameterError(
                f"a sample of {size} {self.drawn} is not possible", remedy="Ask for at least 1."
            )
        self.size = size
        self.rows_seen = 0
        self._random = np.random.default_rng(seed)
        self._slots = SlotStore(self.tables * size)
        self._schema: pa.Schema | None = None

    def _passing(self, batch: pa.RecordBatch | pa.Table) -> tuple[int, int]:
        """The numbers of the first of the next rows, and of the one behind the last."""
        if self._schema is None:
            self._schema = batch.schema
        start = self.rows_seen
        self.rows_seen += batch.num_rows
        return start, self.rows_seen

    def _nothing(self) -> pa.Table:
        return pa.table({}) if self._schema is None else self._schema.empty_table()

    @classmethod
    def restored(
        cls, size: int, rows_seen: int, *kept: pa.Table | None, seed: int | Sequence[int] = 0
    ) -> Self:
        """A reservoir that was filled elsewhere; it can be merged, but not be fed any further."""
        restored = cls(size, seed)
        restored.rows_seen = rows_seen
        for nth, rows in enumerate(table for table in kept if table is not None):
            restored._schema = rows.schema
            everything = np.arange(rows.num_rows)
            restored._slots.put(everything + nth * size, rows, everything)
        return restored

    def _with(self, other: Self) -> Self:
        """An empty reservoir of both streams; neither side may be fed any further."""
        if other.size != self.size:
            raise ParameterError(
                f"samples of {self.size} and {other.size} {self.drawn} cannot be merged",
                remedy="Use the same size everywhere.",
            )
        merged = type(self)(self.size, seed=int(self._random.integers(2**63)))
        merged._schema = self._schema if self._schema is not None else other._schema
        merged.rows_seen = self.rows_seen + other.rows_seen
        return merged


class RowReservoir(_Reservoir):
    """Uniform sample without replacement of `size` rows of a stream.

    Parameters
    ----------
    size
        Rows to keep; a shorter stream is kept whole.
    seed
        The same stream, cut into the same batches or others, gives the same sample.

    Examples
    --------
    >>> reservoir = RowReservoir(2, seed=1)
    >>> reservoir.add(pa.record_batch({"x": list(range(100))}))
    >>> reservoir.rows_seen, reservoir.sample().num_rows
    (100, 2)
    """

    drawn, tables = "rows", 1

    def __init__(self, size: int, seed: int | Sequence[int] = 0) -> None:
        super().__init__(size, seed)
        self._next = size - 1
        self._log_weight = 0.0
        self._jump()

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Let the next rows of the stream pass by."""
        start, end = self._passing(batch)
        slots = list(range(start, min(self.size, end)))
        rows = list(range(len(slots)))
        while self._next < end:
            slots.append(int(self._random.integers(self.size)))
            rows.append(self._next - start)
            self._jump()
        self._slots.put(np.array(slots, dtype=np.int64), batch, np.array(rows, dtype=np.int64))

    def _jump(self) -> None:
        """Choose the next row that enters the sample, counted from the start of the stream."""
        self._log_weight += math.log(1.0 - self._random.random()) / self.size
        # log1p(-exp(w)) keeps its digits where the acceptance probability is tiny.
        gap = math.log(1.0 - self._random.random()) / math.log1p(-math.exp(self._log_weight))
        self._next += int(gap) + 1

    @property
    def _filled(self) -> int:
        return min(self.size, self.rows_seen)

    def sample(self) -> pa.Table:
        """The sample so far, in no particular order."""
        return self._slots.take(np.arange(self._filled)) if self._filled else self._nothing()

    def kept(self) -> tuple[pa.Table, None]:
        """What another process needs to restore it."""
        return self.sample(), None

    def merge(self, other: RowReservoir) -> RowReservoir:
        """The sample of both streams together, as if they had been one.

        How many of its rows come from which stream is hypergeometric, as for a uniform sample of
        the union; within a stream its own sample is uniform already.
        """
        merged = self._with(other)
        random, filled, from_self = merged._random, merged._filled, 0
        if filled:
            from_self = int(random.hypergeometric(self.rows_seen, other.rows_seen, filled))
        done = 0
        for part, wanted in ((self, from_self), (other, filled - from_self)):
            if wanted:
                chosen = random.choice(part._filled, wanted, replace=False)
                everything = np.arange(wanted)
                merged._slots.put(done + everything, part._slots.take(np.sort(chosen)), everything)
                done += wanted
        return merged


class PairReservoir(_Reservoir):
    """`size` independent pairs of different rows of a stream, each uniform over all pairs.

    Parameters
    ----------
    size
        Number of pairs.
    seed
        The same stream gives the same pairs, however it is cut into batches.

    Examples
    --------
    >>> reservoir = PairReservoir(3, seed=1)
    >>> reservoir.add(pa.record_batch({"x": [1, 2, 3, 4]}))
    >>> left, right = reservoir.pairs()
    >>> all(a != b for a, b in zip(left["x"].to_pylist(), right["x"].to_pylist(), strict=True))
    True
    """

    drawn, tables = "pairs", 2  # slots p and size + p hold the two rows of pair p

    def __init__(self, size: int, seed: int | Sequence[int] = 0) -> None:
        super().__init__(size, seed)
        # Each pair draws from its own sequence, so that the cut into batches changes nothing.
        self._stream = self._random.integers(0, 2**64, size, dtype=np.uint64)
        self._drawn = np.zeros(size, dtype=np.uint64)
        self._log_weight = np.zeros(size)
        self._next = np.full(size, 1, dtype=np.float64)
        self._jump(np.arange(size))

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Let the next rows of the stream pass by."""
        start, end = self._passing(batch)
        slots, rows = [], []
        for first in (0, 1):  # the first two rows of the stream begin every pair
            if start <= first < end:
                slots.append(np.arange(self.size) + first * self.size)
                rows.append(np.full(self.size, first - start))
        due = np.flatnonzero(self._next < end)
        while len(due):
            slots.append(due + self.size * (self._draw(due) < 0.5))
            rows.append(self._next[due].astype(np.int64) - start)
            self._jump(due)
            due = due[self._next[due] < end]
        if slots:
            self._slots.put(np.concatenate(slots), batch, np.concatenate(rows))

    def _jump(self, pairs: Indices) -> None:
        """Choose the next row that enters each of these pairs (Algorithm L with two slots)."""
        self._log_weight[pairs] += np.log1p(-self._draw(pairs)) / 2
        gaps = np.log1p(-self._draw(pairs)) / np.log1p(-np.exp(self._log_weight[pairs]))
        self._next[pairs] += np.floor(gaps) + 1

    def _draw(self, pairs: Indices) -> npt.NDArray[np.float64]:
        """The next uniform number in [0, 1) of each of these pairs' sequences (SplitMix64)."""
        self._drawn[pairs] += np.uint64(1)
        state = self._stream[pairs] + self._drawn[pairs] * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
        return np.asarray((state >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def pairs(self) -> tuple[pa.Table, pa.Table]:
        """First and second rows of the pairs, aligned; empty below two rows."""
        if self.rows_seen < 2:
            return self._nothing(), self._nothing()
        slots = np.arange(self.size)
        return self._slots.take(slots), self._slots.take(slots + self.size)

    def kept(self) -> tuple[pa.Table, pa.Table | None]:
        """What another process needs to restore it; a single row is half of every pair."""
        if self.rows_seen == 1:
            return self._slots.take(np.arange(self.size)), None
        return self.pairs()

    def merge(self, other: PairReservoir) -> PairReservoir:
        """The pairs of both streams together, as if they had been one.

        For each pair the number of its rows that come from this stream is hypergeometric.
        """
        merged, size = self._with(other), self.size
        pairs = np.arange(size)
        if merged.rows_seen < 2:
            for part in (self, other):
                if part.rows_seen == 1:
                    merged._slots.put(pairs, part._slots.take(pairs), pairs)
            return merged
        random = merged._random
        from_self = random.hypergeometric(self.rows_seen, other.rows_seen, 2, size=size)
        # A stream of one row fills only the first slot of its pairs.
        own = size * random.integers(0, 2, size) * (self.rows_seen > 1)
        theirs = size * random.integers(0, 2, size) * (other.rows_seen > 1)
        both, none = from_self == 2, from_self == 0
        for slots, mine, at_mine, at_theirs in (
            (pairs, ~none, pairs + np.where(both, 0, own), pairs),
            (pairs + size, both, pairs + size, pairs + np.where(none, size, theirs)),
        ):
            for part, some, at in ((self, mine, at_mine), (other, ~mine, at_theirs)):
                if some.any():
                    taken = part._slots.take(at[some])
                    merged._slots.put(slots[some], taken, np.arange(taken.num_rows))
        return merged


class SlotStore:
    """A fixed number of slots, each holding one row of a stream of record batches.

    Replaced rows stay in memory until there are several times as many as slots, then the store is
    packed: storing is cheap and memory stays proportional to the slots.
    """

    def __init__(self, slots: int) -> None:
        self._at: Indices = np.full(slots, -1, dtype=np.int64)
        self._pieces: list[pa.Table] = []
        self._stored = 0

    def put(self, slots: Indices, batch: pa.RecordBatch | pa.Table, rows: Indices) -> None:
        """Place rows of a batch into slots; of several rows for one slot the last one stays."""
        if len(slots) == 0:
            return
        wanted, inverse = np.unique(rows, return_inverse=True)
        taken = batch.take(pa.array(wanted))
        piece = taken if isinstance(taken, pa.Table) else pa.Table.from_batches([taken])
        self._at[slots] = self._stored + inverse
        self._pieces.append(piece)
        self._stored += len(wanted)
        if self._stored > 4 * len(self._at) + 4096:
            self._pack()

    def take(self, slots: Any) -> pa.Table:
        """The rows in some slots, in the order given; all of them must be filled."""
        if not self._pieces:
            raise IndexError("nothing was put in a slot yet")
        return pa.concat_tables(self._pieces, promote_options="none").take(
            pa.array(self._at[slots])
        )

    def _pack(self) -> None:
        filled = np.flatnonzero(self._at >= 0)
        kept, inverse = np.unique(self._at[filled], return_inverse=True)
        table = pa.concat_tables(self._pieces).take(pa.array(kept)).combine_chunks()
        self._pieces = [table]
        self._stored = len(kept)
        self._at[filled] = inverse
