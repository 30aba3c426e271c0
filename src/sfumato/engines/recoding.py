"""What a release changes, in a form every engine can apply where the rows are.

A `Recoding` is a list of steps. A step looks at some columns of a row (its *match*), finds the
entry with the same values, and says what the row's new cells are or that the row is left out.
Methods that treat equal rows differently (relaxed Mondrian, clustering, stars) give an entry an
ordinal range: it then speaks only of the first … last of the rows with these values, in the
engine's stable order, so that SQL engines need one window function and one join.

SQL engines find the combination of values a row has (`Lookup.tuples` is what they look it up in);
where rows come out in order, the ordinal range and the new cells are found here, batch by batch.

`Parted` is for tables that are solved part by part while they are written. A *parting* is a small
tree of cuts. A cut sends rows one way whose value lies below a value, or is one of some values, and
all others the other way; null and whatever does not compare goes the other way. It is the same
statement on every engine, so that rows of a part can be brought together where they are, by a
shuffle in Spark and a sort in PostgreSQL, or be dealt to their parts here. What is done with a part
sees only the columns it asked for, and gives back their new cells. All other columns pass by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import each, submitted
from sfumato.engines.encoding import as_arrow, codes_among, codes_of_table
from sfumato.engines.protocol import (
    BATCH_ROWS,
    CodeArray,
    Codes,
    Column,
    Engine,
    TextForm,
    as_declared,
)
from sfumato.engines.writing import compact, marked_as_labels
from sfumato.errors import EngineError
from sfumato.kernels import group_rows
from sfumato.kernels.ranking import translate


@dataclass(frozen=True, eq=False)
class Cells:
    """New cells of one column: a code for every entry of the step, and what the codes mean.

    Where entries have a number in `groups`, there is a code for each number instead; the last one
    is that of entries with the number -1, which are left out.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> labels = Cells(np.array([1, 0]), pa.array(["[20, 30)", "[30, 40)"]), np.array([0, 1, 1, 0]))
    >>> labels.codes.tolist(), labels.of(np.array([2, 3])).tolist()
    ([1, 0, 0, 1], [0, 1])
    """

    shown: CodeArray
    values: pa.Array
    groups: npt.NDArray[np.integer[Any]] | None = None

    @property
    def codes(self) -> CodeArray:
        """The code of each entry."""
        codes: CodeArray = self.shown if self.groups is None else self.shown[self.groups]
        return codes

    def of(self, entries: npt.NDArray[np.integer[Any]]) -> CodeArray:
        """The code of each of some entries."""
        groups = entries if self.groups is None else translate(entries, self.groups)
        return translate(groups, self.shown)


@dataclass(frozen=True, eq=False)
class Step:
    """One look-up: rows that match an entry get its cells, or are left out.

    Parameters
    ----------
    match
        The combinations looked for; every row of the table must match exactly one entry. Counts
        are ignored.
    cells
        New cells by column name. A name the table does not have becomes a new column, appended in
        the order of this mapping.
    keep
        False where matching rows are suppressed (left out); None keeps all.
    first, last
        Half-open ordinal range ``first <= ordinal < last`` among rows with equal values, numbered
        from 0; both None when each combination occurs in `match` once and speaks of all its rows.
    groups
        A number for each entry, such that entries of one number have the same new cells; -1 where
        they are left out. None where no such numbers are known.
    """

    match: Codes
    cells: Mapping[str, Cells] = field(default_factory=dict)
    keep: npt.NDArray[np.bool_] | None = None
    first: npt.NDArray[np.int64] | None = None
    last: npt.NDArray[np.int64] | None = None
    groups: npt.NDArray[np.integer[Any]] | None = None


@dataclass(frozen=True, eq=False)
class Recoding:
    """All changes of a release.

    Steps look at the original values, never at each other's results; a column is written by at most
    one step; a row is kept if every step keeps it. Columns in `drop` do not appear in the output,
    and all others appear in their original order. So do rows, unless they are `sorted` by what they
    show, written columns first: then their order tells nothing that their cells do not. A file that
    is `spreadsheet_safe` has an apostrophe before cells that a spreadsheet would run.
    """

    steps: tuple[Step, ...] = ()
    drop: tuple[str, ...] = ()
    sorted: bool = False
    spreadsheet_safe: bool = False

    @property
    def written(self) -> dict[str, pa.DataType]:
        """The columns that steps write, and their types."""
        return {n: cells.values.type for step in self.steps for n, cells in step.cells.items()}

    def sorting(self, names: Sequence[str]) -> list[str]:
        """Columns of the output in the order in which its rows are compared."""
        written = [name for name in self.written if name in names]
        return [*written, *(name for name in names if name not in written)]


Entries = npt.NDArray[np.int64]


class Lookup:
    """One step of a recoding: its distinct combinations, and the entry of each row.

    Rows must be asked for in their stable order, each once: the ordinal among equal rows is counted
    here, unless it is given.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.engines.protocol import Codes
    >>> match = Codes(("sex",), (np.array([0, 0, 1]),), (pa.array(["F", "M"]),))
    >>> step = Step(match, first=np.array([0, 1, 0]), last=np.array([1, 9, 9]))
    >>> lookup = Lookup(step, "people")
    >>> lookup.tuples.column("sex").to_pylist()
    ['F', 'M']
    >>> lookup.entries(np.array([0, 1, 0, 0])).tolist()
    [0, 2, 1, 1]
    """

    def __init__(self, step: Step, where: str) -> None:
        self.step = step
        self.where = where
        match = step.match
        tuple_of, chosen = _distinct(match.arrays, match.entries)
        self.ranged = step.first is not None
        if not self.ranged and len(chosen) != match.entries:
            raise EngineError(
                "the recoding names the same combination of values twice",
                where=where,
                remedy="Name every combination once, or give it ranges of rows.",
            )
        arrays = [
            values.take(pa.array(codes[chosen].astype(np.int64)))
            for codes, values in zip(match.arrays, match.values, strict=True)
        ]
        self.tuples = pa.table(arrays, names=list(match.columns))
        self.combinations = len(chosen)
        self._entry_of = chosen
        if self.ranged:
            assert step.first is not None
            assert step.last is not None
            self._order = np.lexsort((step.first, tuple_of))
            self._tuple, self._first = tuple_of[self._order], step.first[self._order]
            self._start = np.searchsorted(self._tuple, np.arange(len(chosen)))
            self._seen = np.zeros(len(chosen), dtype=np.int64)

    def entries(self, tuples: Entries, ordinals: Entries | None = None) -> Entries:
        """The entry each of the next rows meets, given the number of its combination."""
        if not self.ranged:
            return self._entry_of[tuples]
        assert self.step.last is not None
        ordinals = self._ordinals(tuples) if ordinals is None else ordinals
        # Ranges of one combination do not overlap, so the last one that starts early enough is the
        # only candidate: search for (tuple, ordinal) among the pairs (tuple, first).
        width = int(max(self._first.max(initial=0), ordinals.max(initial=0))) + 1
        at = np.searchsorted(self._tuple * width + self._first, tuples * width + ordinals, "right")
        at -= 1
        if (at < self._start[tuples]).any():
            raise unmatched(self.where)
        found: Entries = self._order[at]
        if (ordinals >= self.step.last[found]).any():
            raise unmatched(self.where)
        return found

    def _ordinals(self, tuples: Entries) -> Entries:
        """Numbers of these rows among all rows of their combination so far, from 0."""
        order = np.argsort(tuples, kind="stable")
        ordered = tuples[order]
        present, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
        within = np.arange(len(tuples)) - np.repeat(starts, counts)
        ordinals = np.empty(len(tuples), dtype=np.int64)
        ordinals[order] = within + self._seen[ordered]
        self._seen[present] += counts
        return ordinals


class Combinations:
    """A stream of numbers of combinations, handed out in pieces of any length."""

    def __init__(self, batches: Iterator[pa.RecordBatch], steps: int, where: str) -> None:
        self.batches = batches
        self.where = where
        self.held: list[list[Entries]] = [[] for _ in range(steps)]
        self.available = 0

    def take(self, rows: int) -> list[Entries]:
        """The next rows of every step."""
        if not self.held:
            return []
        while self.available < rows:
            batch = next(self.batches, None)
            if batch is None:
                raise unmatched(self.where)
            for held, array in zip(self.held, batch.columns, strict=True):
                if array.null_count:
                    raise unmatched(self.where)
                held.append(array.to_numpy())
            self.available += batch.num_rows
        taken = []
        for at, held in enumerate(self.held):
            whole = np.concatenate(held) if held else np.empty(0, np.int64)
            taken.append(whole[:rows])
            self.held[at] = [whole[rows:]]
        self.available -= rows
        return taken

    def finish(self) -> None:
        """Every row must have been asked for."""
        if self.available or any(batch.num_rows for batch in self.batches):
            raise unmatched(self.where)


def mapping_table(step: Step) -> pa.Table:
    """A step as a table to join with: keys, ordinal ranges, whether to keep, and new cells.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.engines.protocol import Codes
    >>> from sfumato.engines.recoding import Cells
    >>> match = Codes(("age",), (np.array([0, 1]),), (pa.array([20, 30]),))
    >>> step = Step(match, {"age": Cells(np.array([0, 0]), pa.array(["*"]))})
    >>> mapping_table(step).to_pydict()
    {'k0': [20, 30], 'keep': [True, True], 'v0': ['*', '*']}
    """

    def taken(codes: npt.NDArray[Any], values: pa.Array) -> pa.Array:
        return values.take(pa.array(codes.astype(np.int64)))

    match = step.match
    keys = zip(match.arrays, match.values, strict=True)
    keep = np.ones(match.entries, np.bool_) if step.keep is None else step.keep
    ranges = {} if step.first is None else {"first": step.first, "last": step.last}
    return pa.table(
        {
            **{f"k{at}": taken(*pair) for at, pair in enumerate(keys)},
            **{name: pa.array(bound, pa.int64()) for name, bound in ranges.items()},
            "keep": pa.array(keep),
            **{
                f"v{at}": taken(cells.codes, cells.values)
                for at, cells in enumerate(step.cells.values())
            },
        }
    )


def output_schema(columns: Sequence[Column], recoding: Recoding | Parted) -> pa.Schema:
    """Columns and types of what a recoding writes."""
    types = {column.name: column.type for column in columns} | dict(recoding.written)
    fields = [pa.field(n, type_) for n, type_ in types.items() if n not in recoding.drop]
    return pa.schema([marked_as_labels(f) if f.name in recoding.written else f for f in fields])


def copied(form: TextForm | None, schema: pa.Schema, written: Collection[str]) -> TextForm | None:
    """How text is written where only columns that are not written anew keep their cells."""
    if form is None:
        return None
    kept = {n: read for n, read in form.readers.items() if n in schema.names and n not in written}
    return replace(form, readers=kept)


def recoded_batch(
    batch: pa.RecordBatch,
    recoding: Recoding,
    entries: Sequence[npt.NDArray[np.integer[Any]]],
    schema: pa.Schema,
    threads: int | None = 1,
) -> pa.RecordBatch:
    """Some rows after a recoding, given the entry each of them meets in every step.

    New cells are numbers of what stands in a dictionary: a label may list thousands of texts.
    """
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    written: dict[str, tuple[Cells, npt.NDArray[np.integer[Any]]]] = {}
    for step, found in zip(recoding.steps, entries, strict=True):
        if step.keep is not None:
            keep &= step.keep[found]
        # Entries are far apart in memory: their groups are fetched once for all columns.
        groups = None if step.groups is None else translate(found, step.groups)
        for name, cells in step.cells.items():
            written[name] = cells, found
            if groups is not None and cells.groups is step.groups:
                written[name] = replace(cells, groups=None), groups

    def new(name: str) -> pa.Array:
        if name not in written:
            return batch.column(name)
        cells, found = written[name]
        return pa.DictionaryArray.from_arrays(as_arrow(cells.of(found)), cells.values)

    arrays = each(new, schema.names, batch.num_rows * len(schema.names), threads)
    whole = pa.RecordBatch.from_arrays(arrays, names=schema.names)
    return whole if keep.all() else whole.filter(pa.array(keep))


def unmatched(where: str) -> EngineError:
    """What to say when a row is not spoken of by a recoding."""
    return EngineError(
        "rows changed while the release was being made: some match no entry of its recoding",
        where=where,
        remedy="Run it again on a table that does not change.",
    )


def _distinct(arrays: Sequence[npt.NDArray[Any]], entries: int) -> tuple[Entries, Entries]:
    """For each entry the number of its combination, and for each combination one entry."""
    if not arrays:
        return np.zeros(entries, np.int64), np.arange(min(entries, 1), dtype=np.int64)
    order = np.lexsort(arrays[::-1])
    changed = np.zeros(entries, dtype=np.bool_)
    for codes in arrays:
        ordered = codes[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.cumsum(changed)
    tuple_of = np.empty(entries, dtype=np.int64)
    tuple_of[order] = numbers
    first = np.concatenate([[True], changed[1:]]) if entries else changed
    return tuple_of, order[first].astype(np.int64)


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

    def of(self, entries: Codes) -> npt.NDArray[Any]:
        """The part of each entry, as a statement would say it."""
        answer = np.zeros(entries.entries, np.uint32)

        def go(at: int, chosen: npt.NDArray[np.uint32]) -> None:
            if at < 0:
                answer[chosen] = -1 - at
                return
            cut = self.cuts[at]
            values = entries.values_of(cut.column)
            if cut.among:
                known = codes_among(cut.values, values)
                goes = np.zeros(len(values), np.bool_)
                goes[known[known >= 0]] = True
            else:
                both = pa.chunked_array([cut.values.cast(values.type), values])
                ranks = codes_of_table(pa.table({"value": both})).arrays[0]
                goes = ranks[1:] < ranks[0]
            yes = translate(translate(chosen, entries.column(cut.column)), goes)
            go(cut.yes, np.compress(yes, chosen))
            go(cut.no, np.compress(~yes, chosen))

        if self.cuts:
            go(0, np.arange(entries.entries, dtype=np.uint32))
        return answer

    def tables(self, entries: Codes) -> Iterator[tuple[int, pa.Table]]:
        """The entries of each part that has some, in their order."""
        order, starts = group_rows(self.of(entries), self.parts)
        for part, (start, end) in enumerate(pairwise(starts)):
            if start < end:
                yield part, entries.take(order[start:end]).table()

    def thresholds(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The values of all cuts in one row, to stand beside the rows that are cut."""
        return pa.table(
            {
                f"t{at}_{nth}": cut.values.slice(nth, 1).cast(types[cut.column])
                for at, cut in enumerate(self.cuts)
                for nth in range(len(cut.values))
            }
        )

    def listed(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The same in rows: the number of each cut, and its values in the column of their own.

        Examples
        --------
        >>> import pyarrow as pa
        >>> cut = Cut("town", pa.array(["Rome", "Oslo"]), True, -1, -2)
        >>> Parting((cut,), 2).listed({"town": pa.string()}).to_pydict()
        {'cut': [0, 0], 'v0': ['Rome', 'Oslo']}
        """
        sizes = [len(cut.values) for cut in self.cuts]
        columns = {"cut": pa.array(np.repeat(np.arange(len(sizes)), sizes))}
        for at, name in enumerate(self.columns):
            kind = types[name]
            columns[f"v{at}"] = pa.concat_arrays(
                cut.values.cast(kind) if cut.column == name else pa.nulls(len(cut.values), kind)
                for cut in self.cuts
            )
        return pa.table(columns)


class Worked(NamedTuple):
    """What became of the rows of a part: new cells, which rows stay (None: all), and a report."""

    cells: pa.Table
    keep: npt.NDArray[np.bool_] | None
    report: bytes


Work = Callable[..., Worked]
"""What is done with the rows of a part, and with the others that go there, if any do."""


class Others(NamedTuple):
    """Rows of another table that go to the same parts, and the columns that they need there."""

    engine: Engine
    columns: tuple[Column, ...]


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
    sorted, spreadsheet_safe
        Whether rows leave their order for that of what they show, and whether a spreadsheet would
        run no cell (see `Recoding`).
    facts
        Turns the reports of all parts, in their order, into what is known of the release.
    others
        Rows that go to the same parts, where the work is done where the rows are.
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
    others: Others | None = None
    reports: dict[int, bytes] = field(default_factory=dict)
    steps: tuple[()] = ()
    spreadsheet_safe: bool = False

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
    beside
        The columns of the others, where some go to the same part.
    """

    work: Work
    sent: tuple[Column, ...]
    reads: tuple[str, ...]
    schema: pa.Schema
    beside: tuple[Column, ...] = ()

    def __call__(self, rows: pa.Table, *others: pa.Table) -> tuple[pa.Table, bytes]:
        declared = as_declared(rows, self.sent)
        along = (as_declared(other, self.beside) for other in others)
        cells, keep, report = self.work(declared.select(list(self.reads)), *along)
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
                yield current, pa.Table.from_batches(held).remove_column(0)
                held = []
            current = int(numbers[start])
            held.append(batch.slice(start, end - start))
    if held:
        yield current, pa.Table.from_batches(held).remove_column(0)


class Dealt:
    """Rows dealt to their parts, on disk or in memory: one pass brings those of a part together.

    Sorting all rows by their part would move each of them several times. Here some are held at a
    time, and those of a part among them are one record batch.

    Examples
    --------
    >>> import pyarrow as pa, tempfile
    >>> rows = pa.record_batch({"part": [1, 0, 1], "age": [70, 30, 71]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tables = Dealt.out([rows], Path(folder, "dealt.arrow")).tables()
    ...     [(part, table.to_pydict()) for part, table in tables]
    [(0, {'age': [30]}), (1, {'age': [70, 71]})]
    """

    _ROWS, _BYTES = BATCH_ROWS, 1 << 24

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._held: list[pa.RecordBatch] = []
        self._blocks: dict[int, list[int]] = {}
        self._written = 0

    @classmethod
    def out(cls, batches: Iterable[pa.RecordBatch], path: Path | None = None) -> Dealt:
        """Deal rows that come with the number of their part in front; a part keeps their order.

        They go to a file, or without one stay in memory.
        """
        dealt = cls(path)
        keep: Callable[[pa.RecordBatch], object] = dealt._held.append
        with ExitStack() as stack:
            for rows in _some_at_a_time(batches, cls._ROWS, cls._BYTES):
                if path is not None and not dealt._blocks:
                    sink = stack.enter_context(pa.OSFile(str(path), "wb"))
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    file = pa.ipc.new_file(sink, rows.schema.remove(0), options=options)
                    keep = stack.enter_context(file).write_batch
                dealt._deal(rows, keep)
        return dealt

    def _deal(self, rows: pa.Table, keep: Callable[[pa.RecordBatch], object]) -> None:
        numbers = rows.column(0).to_numpy()
        numbers = numbers.astype(np.min_scalar_type(numbers.max()))  # few bits sort by digits
        order = np.argsort(numbers, kind="stable")
        sizes = np.bincount(numbers)
        parts = np.flatnonzero(sizes)
        starts = np.cumsum(sizes)[parts] - sizes[parts]
        sorted_ = rows.remove_column(0).take(pa.array(order)).combine_chunks()
        ends = [*starts[1:].tolist(), len(order)]
        for part, start, end in zip(parts.tolist(), starts.tolist(), ends, strict=True):
            for batch in sorted_.slice(start, end - start).to_batches():
                keep(batch)
                self._blocks.setdefault(part, []).append(self._written)
                self._written += 1

    def table(self, part: int) -> pa.Table | None:
        """The rows of one part; None if it has none."""
        if part not in self._blocks:
            return None
        with self._reading() as block:
            return self._whole(part, block)

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each part."""
        if not self._blocks:
            return
        with self._reading() as block:
            for part in sorted(self._blocks):
                yield part, self._whole(part, block)

    def _whole(self, part: int, block: Callable[[int], pa.RecordBatch]) -> pa.Table:
        # In one piece: who works on it would look at each of many by itself.
        return pa.Table.from_batches(map(block, self._blocks[part])).combine_chunks()

    @contextmanager
    def _reading(self) -> Iterator[Callable[[int], pa.RecordBatch]]:
        """Where the batches are, by their numbers."""
        if self._path is None:
            yield self._held.__getitem__
            return
        with pa.OSFile(str(self._path)) as source, pa.ipc.open_file(source) as file:
            yield file.get_batch


def _some_at_a_time(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.Table]:
    """The same rows, at least so many or so many bytes together but for the last."""
    held: list[pa.RecordBatch] = []
    for batch in filter(len, batches):
        held.append(batch)
        del batch
        if sum(map(len, held)) >= rows or sum(each.nbytes for each in held) >= size:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


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
    is a merge: of each part only a batch is held, of so many bytes at most.
    """

    _ROWS = 2048

    def __init__(self, folder: Path, position: str, most: int = 1 << 24) -> None:
        self._folder = folder
        self._position = position
        self._most = most
        self._rows = self._bytes = 0
        self._paths: list[Path] = []
        self._readers: list[_Reader] | None = None

    def add(self, rows: pa.Table) -> None:
        """Lay the rows of a part aside."""
        path = self._folder / f"part-{len(self._paths)}.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(
            sink, rows.schema, options=options
        ) as file:  # fmt: skip
            for batch in rows.combine_chunks().to_batches(self._ROWS):
                for some in self._small(batch):
                    file.write_batch(some)
                    self._bytes += some.nbytes
        self._rows += rows.num_rows
        self._paths.append(path)

    @property
    def row_bytes(self) -> float:
        """What a row takes on average, without labels that others of its batch show, too."""
        return self._bytes / max(self._rows, 1)

    def _small(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows with dictionaries of their own, in halves as long as they are too large."""
        own, half = compact(batch), batch.num_rows // 2
        if not half or own.nbytes <= self._most:
            yield own
            return
        yield from self._small(batch.slice(0, half))
        yield from self._small(batch.slice(half))

    def before(self, end: int) -> pa.RecordBatch | None:
        """Rows before a position that were not asked for yet, in order; None if there are none."""
        if self._readers is None:
            self._readers = [_Reader(path, self._position) for path in self._paths]
        found = [table for reader in self._readers for table in reader.before(end)]
        if not found:
            return None
        whole = pa.concat_tables(found).unify_dictionaries()
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
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as file:
        for batch in file:
            yield pa.Table.from_batches([batch])
