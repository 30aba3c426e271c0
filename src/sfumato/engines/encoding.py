"""From Arrow columns to codes: dense ranks of values, a batch at a time.

Each column is read once. While batches pass, values are numbered as they first appear; at the end
the distinct values are sorted and the numbers become ranks, in the narrowest type that holds them.
Nothing is ever held as wide as it was read, except distinct values.

Two ways of numbering exist: whole numbers, dates, times and floats travel as 64-bit integers in the
order of their values (`_Numbers`); text and everything else keeps the dictionary of each batch and
unifies dictionaries at the end (`_Dictionaries`).

Buffers are read where they are: pyarrow's own conversions copy, and load pandas where it is
installed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import Event, Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from sfumato.budget import Budget, each, usable_threads
from sfumato.engines.protocol import CodeArray, Codes, Column, column_of, smallest_dtype
from sfumato.errors import BudgetError, spell
from sfumato.kernels import class_ids, group_rows
from sfumato.kernels.compiling import by_numpy
from sfumato.kernels.ranking import (
    grown,
    number_hashed,
    number_indices,
    number_nearby,
    number_new,
    text_ranks,
    translate,
)
from sfumato.wording import counted

_WIDEST_TABLE = 1 << 20
_LOOKED_AT = 1 << 12
_AHEAD = 1 << 28
"""Bytes that are read while compiled loops are loaded, if memory is not limited."""
_MERGED = 1 << 23
"""Bytes of dictionaries that are held as they come, even if they repeat each other."""


def encode_batches(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[Column],
    *,
    rows: int | None = None,
    limit: int | None = None,
    budget: Budget | None = None,
    where: str | None = None,
) -> tuple[tuple[CodeArray, ...], tuple[pa.Array, ...], int]:
    """Codes and distinct values of each column, and the number of rows.

    Parameters
    ----------
    batches
        Record batches with exactly these columns, in this order.
    columns
        What the columns are; distinct values come back in these types.
    rows
        How many rows are expected, for progress; None where unknown.
    limit
        Bytes the codes may take.
    budget, where
        Time, progress, and the name of the table for messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"age": [30, 20, None]})
    >>> (ages,), (values,), rows = encode_batches([batch], [column_of("age", pa.int64())])
    >>> ages.tolist(), values.to_pylist(), rows
    ([1, 0, 2], [20, 30, None], 3)
    """
    watch = _Watch(rows, limit, budget, where)
    made, length = _encoded(batches, columns, watch, 0)
    return tuple(array for array, _ in made), tuple(values for _, values in made), length


def encode_apart(
    read: Callable[[Sequence[str]], Iterable[pa.RecordBatch]],
    columns: Sequence[Column],
    *,
    rows: int,
    limit: int | None = None,
    budget: Budget | None = None,
    where: str | None = None,
    sizes: Mapping[str, int] | None = None,
    beside: Sequence[Callable[[], None]] = (),
) -> tuple[tuple[CodeArray, ...], tuple[pa.Array, ...], int]:
    """The same, every column read by itself, on as many cores as the budget allows.

    Parameters
    ----------
    read
        Gives the batches of some columns; it is asked for each column once, from several threads.
    sizes
        By column how much there is to read: whoever reads the most begins first.
    beside
        What else there is to do that takes about as long as a column; left undone on one core.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30, 20], "sex": ["F", "M"]})
    >>> columns = [column_of("age", pa.int64()), column_of("sex", pa.string())]
    >>> arrays, _, _ = encode_apart(lambda c: table.select(c).to_batches(), columns, rows=2)
    >>> [array.tolist() for array in arrays]
    [[1, 0], [0, 1]]
    """
    threads = None if budget is None else budget.threads
    if len(columns) < 2 or usable_threads(threads, rows) < 2:
        names = [column.name for column in columns]
        return encode_batches(
            read(names), columns, rows=rows, limit=limit, budget=budget, where=where
        )
    watch = _Watch(rows, limit, budget, where, len(columns))
    order = sorted(range(len(columns)), key=lambda at: -(sizes or {}).get(columns[at].name, 0))
    loaded, one_begins = Event(), Lock()
    begun: dict[int, Iterable[pa.RecordBatch]] = {}

    def load() -> None:
        try:
            number_nearby.dispatcher  # noqa: B018  loops have most of what they need in common
        finally:
            loaded.set()

    def read_ahead() -> None:
        """Read columns, the last first, while loops are loaded: they cannot be numbered yet."""
        held = 0
        for at in reversed(order):
            with one_begins:
                if at in begun or held >= _AHEAD or loaded.is_set():
                    return
                batches, some = iter(read([columns[at].name])), deque[pa.RecordBatch]()
                for batch in batches:
                    some.append(batch)
                    held += batch.nbytes
                    if held >= _AHEAD or loaded.is_set():
                        break
                begun[at] = chain(_given_up(some), batches)

    def one(at: int) -> None:
        with one_begins:
            batches = begun.pop(at, None) or read([columns[at].name])
            begun[at] = ()
        made[at] = _encoded(batches, [columns[at]], watch, at)

    first = beside if number_nearby.settled or limit is not None else (load, read_ahead, *beside)
    work: list[Callable[[], None]] = [*first, *(partial(one, at) for at in order)]
    made: dict[int, tuple[list[tuple[CodeArray, pa.Array]], int]] = {}
    each(lambda do: do(), work, rows * len(columns), threads)
    arrays, values = zip(*(made[at][0][0] for at in range(len(columns))), strict=True)
    return arrays, values, made[0][1]


def _given_up(batches: deque[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches that nobody holds afterwards."""
    while batches:
        yield batches.popleft()


def _encoded(
    batches: Iterable[pa.RecordBatch], columns: Sequence[Column], watch: _Watch, reader: int
) -> tuple[list[tuple[CodeArray, pa.Array]], int]:
    """Codes and values of columns that are read together, and the number of rows."""
    encoders = [_encoder(column, watch.rows) for column in columns]
    length = 0
    for batch in batches:
        watch.go_on(reader, length)
        for encoder, array in zip(encoders, batch.columns, strict=True):
            encoder.add(_without_runs(array))
        length += batch.num_rows
        watch.hold(reader, length, sum(encoder.held for encoder in encoders))
    waiting = dict(enumerate(encoders))
    encoders.clear()  # each is given up when it is finished
    cells = length * len(columns)
    return each(lambda at: waiting.pop(at).finish(), range(len(columns)), cells), length


class _Watch:
    """Time and memory of those who read a table, and how far they are."""

    def __init__(
        self,
        rows: int | None,
        limit: int | None,
        budget: Budget | None,
        where: str | None,
        readers: int = 1,
    ) -> None:
        self.rows, self.limit, self.budget, self.where = rows, limit, budget, where
        self._lengths, self._held = [0] * readers, [0] * readers
        self._one_at_a_time = Lock()

    def go_on(self, reader: int, length: int) -> None:
        """A reader may go on after so many rows, unless the time is over."""
        if self.budget is None:
            return
        if self.budget.spent():
            raise BudgetError(
                f"reading stopped after {counted(length, 'row')} ({self.budget.stopped_by})",
                where=self.where,
                remedy="Allow more time.",
            )
        with self._one_at_a_time:
            self._lengths[reader] = length
            done = sum(self._lengths) / len(self._lengths)
            self.budget.progress("reading", min(1.0, done / self.rows) if self.rows else None)

    def hold(self, reader: int, length: int, size: int) -> None:
        """A reader holds so many bytes as codes of its rows."""
        self._held[reader] = size
        held = sum(self._held)
        if self.limit is not None and held > self.limit:
            raise BudgetError(
                f"the first {length} rows already take {held >> 20} MiB as codes",
                where=self.where,
                remedy=f"Allow more memory (e.g. {spell('memory', '4GB')}), or use the DuckDB "
                f"engine ({spell('engine', 'duckdb')}), which works out of core.",
            )


def codes_of_table(table: pa.Table) -> Codes:
    """Rows of an Arrow table as codes, in their order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes = codes_of_table(pa.table({"age": [30, None, 20]}))
    >>> codes.arrays[0].tolist(), codes.values[0].to_pylist()
    ([1, 2, 0], [20, 30, None])
    """
    columns = [column_of(field.name, compared_type(field.type)) for field in table.schema]
    arrays, values, length = encode_batches(table.to_batches(), columns)
    return Codes(tuple(table.column_names), arrays, values, None, length or table.num_rows)


def codes_among(values: pa.Array, known: pa.Array) -> npt.NDArray[np.int64]:
    """The code of each value among known ones in their order; -1 for a value that is unknown.

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes_among(pa.array([30, None, 7]), pa.array([20, 30, None])).tolist()
    [1, 2, -1]
    """
    both = codes_of_table(pa.table({"value": pa.chunked_array([known, values.cast(known.type)])}))
    ranks = both.arrays[0]
    code = np.full(both.cardinalities[0], -1, np.int64)
    code[ranks[: len(known)]] = np.arange(len(known))
    return code[ranks[len(known) :]]


def codes_from_arrow(table: pa.Table, count_column: str) -> Codes:
    """Distinct combinations with their counts as codes, ascending.

    Parameters
    ----------
    table
        One row a combination, in any order.
    count_column
        The column with the number of rows that each combination stands for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes = codes_from_arrow(pa.table({"sex": ["M", "F"], "rows": [3, 4]}), "rows")
    >>> codes.arrays[0].tolist(), codes.counts.tolist(), codes.values[0].to_pylist()
    ([0, 1], [4, 3], ['F', 'M'])
    """
    counts = stored_cells(table.column(count_column).cast(pa.int64()).combine_chunks())
    codes = codes_of_table(table.drop_columns([count_column]))
    ids, count = class_ids(codes.arrays, codes.cardinalities, entries=codes.entries)
    order, _ = group_rows(ids, count)
    sorted_ = codes.take(order)
    return Codes(sorted_.columns, sorted_.arrays, sorted_.values, counts[order], codes.entries)


def _without_runs(array: pa.Array) -> pa.Array:
    return pc.run_end_decode(array) if t.is_run_end_encoded(array.type) else array


def _encoder(column: Column, rows: int | None) -> _Numbers | _Dictionaries:
    numeric = ("integer", "float", "boolean", "date", "time", "timestamp", "duration")
    return _Numbers(column, rows) if column.kind in numeric else _Dictionaries(column)


class _Parts:
    """Numbers of the batches so far, each as narrow as its batch allows; 0 is null."""

    def __init__(self) -> None:
        self.parts: list[CodeArray] = []
        self.held = 0

    def keep(self, numbers: CodeArray) -> None:
        self.parts.append(numbers)
        self.held += numbers.nbytes

    def codes(self, ranks: Sequence[npt.NDArray[Any]], cardinality: int) -> CodeArray:
        """All numbers as ranks, one table for each part; the parts are given up on the way."""
        out = np.empty(sum(map(len, self.parts)), smallest_dtype(cardinality))
        at = 0
        self.parts.reverse()
        for rank in ranks:
            part = self.parts.pop()
            translate(part, rank.astype(out.dtype), out[at : at + len(part)])
            at += len(part)
        return out


class _Numbers:
    """Encodes a column whose values are numbers on a line."""

    def __init__(self, column: Column, rows: int | None) -> None:
        self.column = column
        self.numbers = _Parts()
        self.nulls = False
        self.seen = np.empty(256, np.int64)
        self.found = 0
        self.base = 0
        self.table: npt.NDArray[np.uint32] | None = np.zeros(0, np.uint32)
        self.slots = np.empty(0, np.uint32)
        self.by_numpy = True
        self.rows = 0
        self.expected = rows or 0

    @property
    def held(self) -> int:
        return self.numbers.held + self.seen.nbytes

    def add(self, array: pa.Array) -> None:
        values, valid = sortable(array)
        self.nulls |= len(valid) > 0
        self.rows += len(values)
        if self.by_numpy and by_numpy(max(self.rows, self.expected)):
            numbers, self.seen = number_new(values, valid, self.seen[: self.found])
            self.found = len(self.seen)
            self.numbers.keep(numbers.astype(smallest_dtype(self.found + 1)))
            return
        self.by_numpy = False  # what numpy numbers is not in the tables below
        numbers = np.empty(len(values), np.uint32)
        at = 0
        while at < len(values):
            if self.table is not None:
                at, self.found = number_nearby(
                    values, valid, self.base, self.table, self.seen, self.found, at, numbers
                )
            else:
                at, self.found = number_hashed(
                    values, valid, self.slots, self.seen, self.found, at, numbers
                )
            if at == len(values):
                break
            if self.found == len(self.seen):
                self.seen = np.concatenate(
                    [self.seen, np.empty(max(3 * self.found, 256), np.int64)]
                )
            elif self.table is not None:
                self._widen(values[at:], valid[at:])
                if self.table is None:
                    self.slots = grown(self.seen, self.found, _slots_for(self.found))
            else:
                self.slots = grown(self.seen, self.found, _slots_for(self.found))
        self.numbers.keep(numbers.astype(smallest_dtype(self.found + 1)))

    def _widen(self, values: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_]) -> None:
        """Make the table cover these values too, or give it up if that is too wide."""
        new = values[valid] if len(valid) else values
        low, high = int(new.min()), int(new.max())
        if self.found:
            known = self.seen[: self.found]
            low, high = min(low, int(known.min())), max(high, int(known.max()))
        width = high - low + 1
        if width > _WIDEST_TABLE:
            self.table = None
            return
        slack = min(width, (_WIDEST_TABLE - width) // 2)
        self.base = max(low - slack, -(1 << 63))
        table = np.zeros(high + slack + 1 - self.base, np.uint32)
        table[self.seen[: self.found] - self.base] = np.arange(1, self.found + 1, dtype=np.uint32)
        self.table = table

    def finish(self) -> tuple[CodeArray, pa.Array]:
        seen = self.seen[: self.found]
        order = np.argsort(seen)
        ranks = np.empty(self.found + 1, np.uint32)
        ranks[order + 1] = np.arange(self.found, dtype=np.uint32)
        ranks[0] = self.found
        cardinality = self.found + self.nulls
        codes = self.numbers.codes([ranks] * len(self.numbers.parts), cardinality)
        return codes, values_of(seen[order], self.column.type, self.nulls)


def _slots_for(found: int) -> int:
    return 1 << max(12, (4 * found + 1).bit_length())


class _Dictionaries:
    """Encodes a column of text, or of anything else that Arrow can compare."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.numbers = _Parts()
        self.dictionaries: list[pa.Array] = []
        self.dictionary_of: list[int] = []
        self.occurs: list[npt.NDArray[np.bool_]] = []
        self.dictionary_bytes = 0
        self.last: pa.Array | None = None
        self.merged: list[npt.NDArray[np.integer[Any]]] = []
        """Of the first that came, where their values are in the first dictionary that is held."""
        self.most = _MERGED

    @property
    def held(self) -> int:
        return self.numbers.held + self.dictionary_bytes

    def add(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        if t.is_null(array.type):
            array = array.cast(pa.bool_())
        if not t.is_dictionary(array.type):
            array = array.cast(compared_type(array.type)).dictionary_encode()
        dictionary = array.dictionary.cast(compared_type(array.type))
        if self._continues(dictionary):
            self._continue(dictionary)
        elif self.last is None or not dictionary.equals(self.last):
            self.last = dictionary
            self.dictionaries.append(dictionary)
            self.occurs.append(np.zeros(len(dictionary) + 1, np.bool_))
            self.dictionary_bytes += dictionary.nbytes
            if self.dictionary_bytes > self.most:
                self._merge()
        self.dictionary_of.append(len(self.occurs) - 1)
        indices = array.indices.cast(pa.int32())
        numbers = np.empty(len(indices), smallest_dtype(len(dictionary) + 1))
        number_indices(stored_cells(indices), valid_cells(indices), self.occurs[-1], numbers)
        self.numbers.keep(numbers)

    def _continues(self, dictionary: pa.Array) -> bool:
        """Whether a dictionary begins with the last one: within a group of rows it only grows."""
        known = self.last
        if known is None or len(dictionary) <= len(known) or self.dictionaries[-1] is not known:
            return False
        return bool(dictionary[: len(known)].equals(known))

    def _continue(self, dictionary: pa.Array) -> None:
        """Hold a dictionary in place of the last one, with which it begins."""
        self.dictionary_bytes += dictionary.nbytes - self.dictionaries[-1].nbytes
        self.last = self.dictionaries[-1] = dictionary
        more = np.zeros(len(dictionary) + 1 - len(self.occurs[-1]), np.bool_)
        self.occurs[-1] = np.concatenate([self.occurs[-1], more])

    def _merge(self) -> None:
        """Hold values once that many dictionaries repeat: each group of a file has its own."""
        if _repeats(self.dictionaries):
            joined = _joined(self.dictionaries, self.dictionary_bytes)
            encoded = joined.dictionary_encode(null_encoding="encode")
            self.merged += self._places(stored_cells(encoded.indices))
            self.dictionaries = [encoded.dictionary]
            self.dictionary_bytes = encoded.dictionary.nbytes
        self.most = max(_MERGED, 2 * self.dictionary_bytes)

    def _places(self, found: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """What was found of all values that are held, for each dictionary that is not merged."""
        ends = np.cumsum([len(dictionary) for dictionary in self.dictionaries])
        return np.split(found, ends[:-1])[1 if self.merged else 0 :]

    def finish(self) -> tuple[CodeArray, pa.Array]:
        type_ = compared_type(self.column.type)
        if not self.dictionaries:
            return np.empty(0, np.uint8), pa.nulls(0, type_)
        joined = _joined(self.dictionaries, self.dictionary_bytes)
        local, distinct = _ranked(joined, _repeats(self.dictionaries))
        # A dictionary may hold entries that no row uses: ranks count only values that occur.
        ranks = [*(local[places] for places in self.merged), *self._places(local)]
        tables = [np.concatenate([[-1], rank]) for rank in ranks]
        occurs = np.zeros(len(distinct) + 1, np.bool_)  # the last cell is null
        for table, used in zip(tables, self.occurs, strict=True):
            occurs[table[used]] = True
        final = np.cumsum(occurs) - 1
        nulls = bool(occurs[-1])
        tables = [final[table] for table in tables]
        codes = self.numbers.codes(
            [tables[which] for which in self.dictionary_of], int(np.count_nonzero(occurs))
        )
        if not occurs[:-1].all():
            distinct = distinct.take(as_arrow(np.flatnonzero(occurs[:-1])))
        values = distinct.cast(type_) if len(distinct) else pa.nulls(0, type_)
        return codes, pa.concat_arrays([values, pa.nulls(1, type_)]) if nulls else values


def _repeats(dictionaries: Sequence[pa.Array]) -> bool:
    """Whether dictionaries seem to hold mostly the same values, judged by the first and last."""
    if len(dictionaries) < 2:
        return False
    some = dictionaries[-1][:_LOOKED_AT]
    return 2 * (pc.sum(pc.is_in(some, dictionaries[0])).as_py() or 0) > len(some)


def _ranked(values: pa.Array, repeated: bool) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Rank of each value (-1 for null), and the distinct values in order.

    Where most are `repeated`, only different ones are sorted.
    """
    given = values.drop_null()
    texts = (t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)
    if any(is_kind(values.type) for is_kind in texts):
        encoded = given.dictionary_encode() if repeated else None
        each_once = given if encoded is None else encoded.dictionary
        found, one_of = text_ranks(*text_cells(each_once))
        distinct = each_once.take(as_arrow(one_of))
        if encoded is not None:
            found = found[stored_cells(encoded.indices)]
    else:
        encoded = given.dictionary_encode()
        order = stored_cells(pc.sort_indices(encoded.dictionary))
        rank_of = np.empty(len(order), np.uint32)
        rank_of[order] = np.arange(len(order), dtype=np.uint32)
        found = rank_of[stored_cells(encoded.indices)]
        distinct = encoded.dictionary.take(as_arrow(order))
    ranks = np.full(len(values), -1, np.int64)
    real = valid_cells(values)
    ranks[real if len(real) else slice(None)] = found
    return ranks, distinct


def _joined(dictionaries: list[pa.Array], size: int) -> pa.Array:
    """All dictionaries in one array, with wide offsets where narrow ones would overflow."""
    wide = {t.is_string: pa.large_string(), t.is_binary: pa.large_binary()}
    for narrow, type_ in wide.items():
        if size >= 1 << 31 and narrow(dictionaries[0].type):
            dictionaries = [dictionary.cast(type_) for dictionary in dictionaries]
    return pa.concat_arrays(dictionaries)


_NOT_A_NUMBER = np.iinfo(np.int64).max
_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_SIGN = np.uint64(1 << 63)
_ALL_VALID = np.empty(0, np.bool_)


def compared_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values are compared: no dictionary, no runs, no views."""
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        return compared_type(type_.value_type)
    if t.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if t.is_binary_view(type_) else type_


def sortable(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Values as integers in the same order, and which are not null (empty when all are).

    -0.0 and 0.0 become one integer, all NaNs the largest.

    Examples
    --------
    >>> import pyarrow as pa
    >>> keys, valid = sortable(pa.array([1.5, -2.0, 0.0, -0.0]))
    >>> bool(keys[1] < keys[2] == keys[3] < keys[0]), len(valid)
    (True, 0)
    """
    type_ = compared_type(array.type)
    if type_ != array.type:
        array = array.cast(type_)
    valid = valid_cells(array)
    stored = stored_cells(array.cast("uint8") if t.is_boolean(type_) else array)
    if t.is_floating(type_):
        floats = stored.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        bits = floats.view(np.int64)
        keys = bits ^ ((bits >> 63) & _ALL_BUT_SIGN)
        keys[np.isnan(floats)] = _NOT_A_NUMBER
        return keys, valid
    if stored.dtype == np.uint64:
        return (stored ^ _SIGN).view(np.int64), valid
    return stored.astype(np.int64, copy=False), valid


def values_of(keys: npt.NDArray[np.int64], type_: pa.DataType, nulls: bool) -> pa.Array:
    """Values again, from their integers; a null last if there is one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> keys, _ = sortable(pa.array([1.5, -2.0]))
    >>> values_of(keys, pa.float64(), nulls=True).to_pylist()
    [1.5, -2.0, None]
    """
    type_ = compared_type(type_)
    if t.is_floating(type_):
        bits = keys ^ ((keys >> 63) & _ALL_BUT_SIGN)
        bits[keys == _NOT_A_NUMBER] = np.array(np.nan).view(np.int64)
        values = as_arrow(bits.view(np.float64).astype(_stored_as(type_)), type_)
    elif t.is_boolean(type_):
        values = as_arrow(keys.astype(np.uint8)).cast(type_)
    elif t.is_uint64(type_):
        values = as_arrow(keys.view(np.uint64) ^ _SIGN, type_)
    else:
        values = as_arrow(keys.astype(_stored_as(type_)), type_)
    return pa.concat_arrays([values, pa.nulls(1, type_)]) if nulls else values


def as_arrow(numbers: npt.NDArray[Any], type_: pa.DataType | None = None) -> pa.Array:
    """An Arrow array over the same memory, of a type that is kept as these numbers.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> as_arrow(np.array([1], np.int32), pa.date32()).to_pylist()
    [datetime.date(1970, 1, 2)]
    """
    numbers = np.ascontiguousarray(numbers)
    type_ = type_ or pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(numbers)])


def valid_cells(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which cells are not null; empty when all are."""
    if not array.null_count:
        return _ALL_VALID
    first, last = array.offset, array.offset + len(array)
    packed = np.frombuffer(array.buffers()[0], np.uint8)[first // 8 : (last + 7) // 8]
    bits = np.unpackbits(packed, bitorder="little")
    return bits[first % 8 : first % 8 + len(array)].view(np.bool_)


def stored_cells(array: pa.Array) -> npt.NDArray[Any]:
    """Numbers as Arrow keeps them, without a copy; under a null there may be anything."""
    dtype = _stored_as(array.type)
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def text_cells(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Bytes of all texts, and where each begins and the last one ends."""
    wide = t.is_large_string(array.type) or t.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    if len(array) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, marks, data = array.buffers()
    offsets = np.frombuffer(marks, dtype, len(array) + 1, array.offset * dtype.itemsize)
    characters = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return characters, offsets.astype(np.int64)


def _stored_as(type_: pa.DataType) -> np.dtype[Any]:
    """How Arrow keeps values of a type: dates, times and durations as integers."""
    own = t.is_integer(type_) or t.is_floating(type_)
    dtype: np.dtype[Any] = np.dtype(type_.to_pandas_dtype() if own else f"int{type_.bit_width}")
    return dtype
