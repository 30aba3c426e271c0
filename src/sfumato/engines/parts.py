"""Work on a table part by part: which part a row belongs to, and what is done with each part.

A *parting* is a small tree of cuts. A cut sends rows one way whose value lies below a value, or is
one of some values, and all others the other way; null and whatever does not compare goes the other
way. It is the same statement on every engine, so that rows of a part can be brought together where
they are: by a shuffle in Spark, by a sort in PostgreSQL and DuckDB.

What is done with a part sees only the columns it asked for, and gives back their new cells. All
other columns pass by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import submitted
from sfumato.engines.protocol import BATCH_ROWS, Column
from sfumato.engines.results import as_declared

__all__ = [
    "Cut",
    "Dealt",
    "InOrder",
    "Parted",
    "Parting",
    "Recoder",
    "Worked",
    "in_turn",
    "tables_of_parts",
]


@dataclass(frozen=True, eq=False)
class Cut:
    """Where rows go: those below a value or among some values one way, all others the other.

    Parameters
    ----------
    column
        The column that is looked at.
    values
        One value, or with `among` all those that go the first way.
    among
        Whether rows are compared for equality with all of the values.
    yes, no
        Number of the next cut; ``-1 - part`` where a part begins.
    """

    column: str
    values: pa.Array
    among: bool
    yes: int
    no: int


@dataclass(frozen=True, eq=False)
class Parting:
    """A tree of cuts, of which the first comes first; without any, all rows are part 0.

    Examples
    --------
    >>> import pyarrow as pa
    >>> cut = Cut("age", pa.array([40]), False, -1, -2)
    >>> Parting((cut,), 2).thresholds({"age": pa.int64()}).to_pydict()
    {'t0_0': [40]}
    """

    cuts: tuple[Cut, ...] = ()
    parts: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are looked at."""
        return tuple(dict.fromkeys(cut.column for cut in self.cuts))

    def thresholds(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The values of all cuts in one row, to stand beside the rows that are cut."""
        return pa.table(
            {
                f"t{at}_{nth}": cut.values.slice(nth, 1).cast(types[cut.column])
                for at, cut in enumerate(self.cuts)
                for nth in range(len(cut.values))
            }
        )


class Worked(NamedTuple):
    """What became of the rows of a part: new cells, which rows stay (None: all), and a report."""

    cells: pa.Table
    keep: npt.NDArray[np.bool_] | None
    report: bytes


Work = Callable[["pa.Table"], Worked]


@dataclass(frozen=True, eq=False)
class Parted:
    """A release that is made part by part.

    Parameters
    ----------
    parting
        The parts.
    reads
        Columns that the work looks at.
    written
        Columns that it gives, with their types; those that the table does not have are appended.
    work
        Recodes the rows of a part; it may run in another process, so it must be picklable.
    drop
        Columns that do not appear in the output.
    workers
        How many parts are worked on at the same time, where this machine does the work.
    person
        The column that says whose rows they are, where persons are counted. It is written and
        dropped: rows are laid aside with it until the release was verified.
    sorted
        Whether rows leave their order for that of what they show (see `Recoding`).
    facts
        Turns the reports of all parts, in their order, into what is known of the release.
    steps
        None: there is no list of what became what.
    """

    parting: Parting
    reads: tuple[str, ...]
    written: Mapping[str, pa.DataType]
    work: Work
    drop: tuple[str, ...] = ()
    workers: int = 1
    person: str | None = None
    sorted: bool = False
    facts: Callable[[Sequence[bytes]], Mapping[str, Any]] = field(default=lambda _: {})
    reports: dict[int, bytes] = field(default_factory=dict)
    steps: tuple[()] = ()

    def sorting(self, names: Sequence[str]) -> list[str]:
        """Columns of the output in the order in which its rows are compared, if they are."""
        if not self.sorted:
            return []
        written = [name for name in self.written if name in names]
        return [*written, *(name for name in names if name not in written)]

    def outcome(self) -> Mapping[str, Any]:
        """What is known of the release, once it was staged."""
        return self.facts([self.reports[part] for part in sorted(self.reports)])


@dataclass(frozen=True, eq=False)
class Recoder:
    """Turns the rows of one part, as an engine sends them, into rows of the output.

    Parameters
    ----------
    work
        What is done.
    sent
        The columns as they arrive, in their order.
    reads
        Those of them that the work looks at.
    schema
        Columns and types of what is given back; what the work does not give passes by.
    """

    work: Work
    sent: tuple[Column, ...]
    reads: tuple[str, ...]
    schema: pa.Schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, bytes]:
        declared = as_declared(rows, self.sent)
        cells, keep, report = self.work(declared.select(list(self.reads)))
        found = [
            (cells if name in cells.column_names else declared).column(name)
            for name in self.schema.names
        ]
        cast = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(found, self.schema, strict=True)
        ]
        made = pa.table(cast, schema=self.schema)
        return (made if keep is None else made.filter(pa.array(keep))), report


def tables_of_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each part, from rows that come part after part with its number in front.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"part": [0, 0, 2], "age": [30, 31, 70]})
    >>> [(part, table.num_rows) for part, table in tables_of_parts([rows])]
    [(0, 2), (2, 1)]
    """
    held: list[pa.RecordBatch] = []
    current = -1
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in zip([0, *edges], [*edges, len(numbers)], strict=True):
            if start == end:
                continue
            if held and int(numbers[start]) != current:
                yield current, pa.Table.from_batches(held).drop_columns([held[0].schema.names[0]])
                held = []
            current = int(numbers[start])
            held.append(batch.slice(start, end - start))
    if held:
        yield current, pa.Table.from_batches(held).drop_columns([held[0].schema.names[0]])


class Dealt:
    """Rows dealt to their parts, on disk: one pass brings the rows of each part together.

    Sorting all rows by their part would move each of them several times. Here some are held at a
    time, and those of a part among them are one record batch of a file.

    Examples
    --------
    >>> import pyarrow as pa, tempfile
    >>> rows = pa.record_batch({"part": [1, 0, 1], "age": [70, 30, 71]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tables = Dealt.out([rows], Path(folder, "dealt.arrow")).tables()
    ...     [(part, table.to_pydict()) for part, table in tables]
    [(0, {'age': [30]}), (1, {'age': [70, 71]})]
    """

    _ROWS = BATCH_ROWS

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blocks: dict[int, list[int]] = {}
        self._written = 0

    @classmethod
    def out(cls, batches: Iterable[pa.RecordBatch], path: Path) -> Dealt:
        """Deal rows that come with the number of their part in front; a part keeps their order."""
        dealt, held, file = cls(path), list[pa.RecordBatch](), None
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with ExitStack() as stack:
            for batch in batches:
                if file is None:
                    sink = stack.enter_context(pa.OSFile(str(path), "wb"))
                    rows = batch.schema.remove(0)
                    file = stack.enter_context(pa.ipc.new_file(sink, rows, options=options))
                held.append(batch)
                if sum(each.num_rows for each in held) >= cls._ROWS:
                    dealt._write(pa.Table.from_batches(held), file)
                    held.clear()
            if held:
                dealt._write(pa.Table.from_batches(held), file)
        return dealt

    def _write(self, rows: pa.Table, file: pa.ipc.RecordBatchFileWriter) -> None:
        numbers = rows.column(0).to_numpy()
        order = np.argsort(numbers, kind="stable")
        parts, starts = np.unique(numbers[order], return_index=True)
        sorted_ = rows.remove_column(0).take(pa.array(order)).combine_chunks()
        ends = [*starts[1:].tolist(), len(order)]
        for part, start, end in zip(parts.tolist(), starts.tolist(), ends, strict=True):
            for batch in sorted_.slice(start, end - start).to_batches():
                file.write_batch(batch)
                self._blocks.setdefault(part, []).append(self._written)
                self._written += 1

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each part."""
        if not self._blocks:
            return
        with pa.OSFile(str(self._path)) as source, pa.ipc.open_file(source) as file:
            for part in sorted(self._blocks):
                yield part, pa.Table.from_batches([file.get_batch(n) for n in self._blocks[part]])


def in_turn(
    act: Callable[[pa.Table], Any], parts: Iterable[tuple[int, pa.Table]], workers: int
) -> Iterator[tuple[int, Any]]:
    """Do something with each part, some at the same time; outcomes come in the order of parts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> parts = ((n, pa.table({"age": [n] * n})) for n in range(3))
    >>> list(in_turn(lambda table: table.num_rows, parts, 2))
    [(0, 0), (1, 1), (2, 2)]
    """
    if workers <= 1:
        for part, table in parts:
            yield part, act(table)
        return
    with ThreadPoolExecutor(workers, "sfumato-part") as pool:
        waiting: deque[tuple[int, Future[Any]]] = deque()
        try:
            for part, table in parts:
                waiting.append((part, submitted(pool, act, table)))
                del table  # the next part is on its way: no third one may be held
                if len(waiting) >= workers:
                    number, future = waiting.popleft()
                    yield number, future.result()
            while waiting:
                number, future = waiting.popleft()
                yield number, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


class InOrder:
    """Rows of several parts, laid aside one part after the other and read in their own order.

    Every part holds its rows in ascending order of their positions, so that reading them in order
    is a merge: of each part only a batch is held.
    """

    _ROWS = 2048

    def __init__(self, folder: Path, position: str) -> None:
        self._folder = folder
        self._position = position
        self._paths: list[Path] = []
        self._readers: list[_Reader] | None = None

    def add(self, rows: pa.Table) -> None:
        """Lay the rows of a part aside."""
        path = self._folder / f"part-{len(self._paths)}.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(
            sink, rows.schema, options=options
        ) as file:  # fmt: skip
            for batch in rows.combine_chunks().to_batches(self._ROWS):
                file.write_batch(batch)
        self._paths.append(path)

    def before(self, end: int) -> pa.RecordBatch | None:
        """Rows before a position that were not asked for yet, in order; None if there are none."""
        if self._readers is None:
            self._readers = [_Reader(path, self._position) for path in self._paths]
        found = [table for reader in self._readers for table in reader.before(end)]
        if not found:
            return None
        whole = pa.concat_tables(found)
        order = np.argsort(whole.column(self._position).to_numpy(), kind="stable")
        (rows,) = whole.take(pa.array(order)).combine_chunks().to_batches()
        return rows


class _Reader:
    """One part, batch by batch."""

    def __init__(self, path: Path, position: str) -> None:
        self._batches = _batches(path)
        self._position = position
        self._held: pa.Table | None = None

    def before(self, end: int) -> Iterator[pa.Table]:
        """The rows that come before a position."""
        while True:
            if self._held is None:
                self._held = next(self._batches, None)
            if self._held is None:
                return
            positions = self._held.column(self._position).to_numpy()
            cut = int(np.searchsorted(positions, end))
            if cut:
                yield self._held.slice(0, cut)
            if cut < len(positions):
                self._held = self._held.slice(cut)
                return
            self._held = None


def _batches(path: Path) -> Iterator[pa.Table]:
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as file:
        for index in range(file.num_record_batches):
            yield pa.Table.from_batches([file.get_batch(index)])
