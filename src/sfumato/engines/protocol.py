"""What Sfumato asks of the place where rows live, and what it is answered: codes and class sizes.

An *engine* answers questions about one table. Everything the papers describe is computed from the
answers. `MemoryEngine` holds codes and runs compiled loops; `SQLEngine` asks a database (DuckDB,
PostgreSQL, Spark); `StreamEngine` sees its rows once. What an engine can do is declared in its
`Capabilities`: callers look there, never at which engine it is.

Values compare alike everywhere: null equals null and nothing else; NaN is one value and not null;
-0.0 is 0.0; text is compared byte for byte.

Algorithms never see values, they see *codes*: one array a column, uint8/16/32 by the number of
distinct values. Codes are ranks: a smaller code is a smaller value (numbers by value, text byte by
byte, then NaN, then null), so the same table has the same codes whichever engine read it.

Rows that agree on a set of columns form a *class*. `ClassSizes` says how many classes there are of
each size; the measures of Motwani & Xu and the uniqueness of Lodha & Thomas follow from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

from sfumato.errors import ColumnError, TooManyClassesError, spell

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from sfumato.budget import Budget
    from sfumato.engines.recoding import Parted, Recoding
    from sfumato.engines.sql_engine import SQLEngine
    from sfumato.engines.staging import Staged


BATCH_ROWS = 131_072
"""Rows in a record batch unless asked otherwise."""
BATCH_BYTES = 1 << 24
"""Bytes of text, about, in a batch of rows on its way to a file."""
ENOUGH_BYTES = 1 << 30
"""Memory for combinations where nobody named a limit; without one, files take what there is."""
HELD_BYTES = 1 << 28
"""Rows of a database that are held here where nobody named a limit of memory; else a quarter."""
MOST_COLUMNS = 10_000
"""Columns that a table may have; methods compare columns in pairs."""


@dataclass(frozen=True)
class Capabilities:
    """What callers may expect of an engine.

    Examples
    --------
    >>> Capabilities(remote=True, ordered=False).replayable
    True
    """

    remote: bool = False
    """Rows live elsewhere: what is asked for travels, and a release is made where they are."""
    ordered: bool = True
    """Rows have an order of their own, so that a seed alone decides a sample."""
    replayable: bool = True
    """Rows can be read more than once; otherwise one sample is all that can be had."""
    coded: bool = False
    """All rows are held as codes: `codes` gives rows, and counting is a matter of moments."""
    stable: bool = True
    """Rows cannot change between two questions."""
    partitioned: bool = False
    """Rows lie in partitions that are sampled where they are (`PartitionedStream`)."""
    runs_work: bool = False
    """What we do with parts is done where the rows are (`Session.apply`)."""
    sql: bool = False
    """It is a `SQLEngine`, and answers what `asks_sql` lets callers ask for."""


class Source(Protocol):
    """Rows that an embedded engine can read front to back, more than once, in a stable order.

    Files, standard input (kept in a temporary file) and data frames are sources; `tables/` makes
    them. Remote tables are engines themselves and have no source. A source for which reading one
    column does not mean reading all has the attribute ``columns_apart = True``: its columns are
    read at the same time, in several threads.
    """

    name: str
    """As the user wrote it; it appears in messages."""
    memory: int | None
    """Bytes that all work on the rows may take, if there is a limit; their engine says so."""

    @property
    def paths(self) -> Sequence[Path]:
        """Files the rows come from; a release never replaces them."""

    def schema(self) -> tuple[Column, ...]:
        """Columns and types; may need a first look at the rows (CSV)."""

    def row_count(self) -> int | None:
        """Number of rows where it is known without reading them."""

    def code_bytes(self) -> int:
        """About how much memory the codes of all columns would take."""

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order; text may come dictionary-encoded."""

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The same rows as something DuckDB scans natively, in the same order."""

    def fingerprint(self) -> str:
        """``sha256:…`` of the bytes of a file, or of the rows where there is no file."""

    def close(self) -> None:
        """Remove temporary files."""


@dataclass(frozen=True, eq=False)
class TextForm:
    """How a text file is written: what is copied from one to another stays as it stands.

    Attributes
    ----------
    delimiter, encoding
        Those of the file.
    readers
        By column, how its cells become values: whoever reads them back reads them so.
    """

    delimiter: str
    encoding: str
    readers: Mapping[str, Callable[[pa.Array], pa.Array]]


@runtime_checkable
class KeepsText(Protocol):
    """A source whose cells are text, which a release in text repeats as it is."""

    def text_form(self) -> TextForm:
        """How the file is written."""

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The cells of some columns as they stand in the file, null where there is nothing."""


BLANKS = r"[\s\p{Z}\p{Cf}]+"
SPELLINGS = (
    (r"([\p{L}\p{N}])[\p{Pd}_/]+", r"\1"),
    (r"([0-9])\.0+$", r"\1"),
    (r"(^|[^0-9.,])0+([0-9])", r"\1\2"),
)
"""What people write in several ways, blanks and case aside, and what is left of it."""


@dataclass(frozen=True)
class Spelling:
    """Which values of a column are the same, however they are written.

    Attributes
    ----------
    words
        Words for nobody, in small letters.
    numbers
        A number for each value, the same for those that are the same; -1 for nobody.
    changes
        Whether values become others before they are compared, which only `numbers` knows.
        Databases spell by themselves otherwise.
    """

    words: frozenset[str]
    numbers: Callable[[pa.Array], npt.NDArray[np.int64]]
    changes: bool


class Engine(Protocol):
    """One table, wherever its rows live."""

    name: str
    """The table as the user named it."""
    kind: str
    """The engine's own name, to be shown; nothing is decided by it."""
    capabilities: Capabilities

    @property
    def paths(self) -> Sequence[Path]:
        """Files being read, which a release must not replace."""

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""

    def row_count(self) -> int:
        """Number of rows."""

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of the sizes of the classes of a column set; no columns is one class."""

    def person_sizes(
        self, columns: Sequence[str], person: str, budget: Budget | None = None
    ) -> PersonSizes:
        """Class sizes of a column set in different persons."""

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes themselves with their counts, in ascending order of their codes.

        Raises `TooManyClassesError` when there are more than `limit` of them.
        """

    def codes(self, columns: Sequence[str], budget: Budget | None = None) -> Codes:
        """What algorithms work on: the rows where they are held as codes, else the classes."""

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null."""

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts: the classes of that column alone."""

    def different(self, column: str) -> Iterator[pa.Array]:
        """One column's values but null, some at a time."""

    def rows_of_words(self, column: str, words: Collection[str]) -> dict[str, int]:
        """Rows of the cells that are one of some words but for case and blanks."""

    def pairing(
        self, column: str, person: str, spelling: Spelling, budget: Budget | None = None
    ) -> Pairing:
        """How values of a column, in one spelling, and persons go together; none is told."""

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Uniform sample of rows without replacement; all rows if there are not more."""

    def stage(
        self,
        recoding: Recoding | Parted,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Apply a recoding and write the result beside its final place."""

    def fingerprint(self) -> str:
        """Identity of the table's content."""

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows, in the engine's stable order where it has one."""

    def close(self) -> None:
        """Release connections and temporary files."""


Kind = Literal[
    "integer", "float", "decimal", "boolean", "date", "time", "timestamp", "duration", "text",
    "binary", "null",
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its name, what kind of values it holds, and the Arrow type they travel in."""

    name: str
    kind: Kind
    type: pa.DataType

    @property
    def ordered(self) -> bool:
        """Whether values lie on a line, so that ranges of them mean something."""
        return self.kind in ("integer", "float", "decimal", "date", "time", "timestamp", "duration")


def asks_sql(engine: Engine) -> TypeGuard[SQLEngine]:
    """Whether an engine asks a database, told without loading what writes its statements."""
    return engine.capabilities.sql


def one_moment(engine: Engine) -> AbstractContextManager[None]:
    """Work on one moment of a table that others may change."""
    return engine.one_moment() if asks_sql(engine) else nullcontext()


def column_of(name: str, type_: pa.DataType, *, where: str | None = None) -> Column:
    """The column of an Arrow field; nested types are refused by name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_of("age", pa.int8()).kind
    'integer'
    """
    if t.is_dictionary(type_):
        return column_of(name, type_.value_type, where=where)
    if t.is_run_end_encoded(type_):
        return column_of(name, type_.value_type, where=where)
    kind = _kind_of(type_)
    if kind is not None:
        return Column(name, kind, type_)
    # The names of a struct's fields may be keys that stood in the cells: they are not quoted.
    held = f"nested values ({str(type_).partition('<')[0]})" if t.is_nested(type_) else f"{type_}s"
    raise ColumnError(
        f"column `{name}` holds {held}, which cannot be compared cell by cell",
        where=where,
        remedy=f"Flatten it into plain columns, or leave it out ({spell('exclude', [name])}).",
    )


@lru_cache(maxsize=256)
def _kind_of(type_: pa.DataType) -> Kind | None:
    """What a plain type holds; None if it is not plain."""
    tests: tuple[tuple[Kind, tuple[object, ...]], ...] = (
        ("boolean", (t.is_boolean,)),
        ("integer", (t.is_integer,)),
        ("float", (t.is_floating,)),
        ("decimal", (t.is_decimal,)),
        ("date", (t.is_date,)),
        ("timestamp", (t.is_timestamp,)),
        ("time", (t.is_time,)),
        ("duration", (t.is_duration,)),
        ("text", (t.is_string, t.is_large_string, t.is_string_view)),
        ("binary", (t.is_binary, t.is_large_binary, t.is_binary_view, t.is_fixed_size_binary)),
        ("null", (t.is_null,)),
    )
    for kind, predicates in tests:
        if any(predicate(type_) for predicate in predicates):  # type: ignore[operator]
            return kind
    return None


def whole_number(name: str) -> Column:
    """The column of a count."""
    return column_of(name, pa.int64())


def wide_number(name: str) -> Column:
    """The column of a sum that 64 bits might not hold."""
    return column_of(name, pa.decimal128(38, 0))


def names_in(schema: Sequence[Column], names: Sequence[str] | None) -> tuple[str, ...]:
    """These names; all of the schema's where none are given."""
    return tuple(column.name for column in schema) if names is None else tuple(names)


def columns_named(schema: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns of these names, in the order of the names."""
    known = {column.name: column for column in schema}
    return [known[name] for name in names]


CodeArray = npt.NDArray[Any]

CELL_BYTES = 64
"""What a cell of a combination takes, at most, until the problem it is part of is solved.

It comes as text, with its parsed copy, and becomes a code.
"""
VALUE_BYTES = 72
"""What a value takes, besides its letters, while the values of a column are numbered; measured."""
TEXT_COPIES = 5
"""How often a text that is different in every row is held at once while texts are numbered."""
_NO_BURDEN = 1 << 24
"""Codes in a table that may take twice the memory they need."""


@dataclass(frozen=True)
class Pairing:
    """How the values of a column and persons go together, on rows that have both.

    Attributes
    ----------
    values, persons, rows
        How many there are.
    of_values, of_persons
        Rows of each value that are of its most frequent person, in all; and of each person that
        have her most frequent value.
    """

    values: int
    persons: int
    rows: int
    of_values: int
    of_persons: int


@dataclass(frozen=True, eq=False)
class Codes:
    """Entries of a table as codes: rows, or distinct combinations with counts.

    Parameters
    ----------
    columns
        Column names.
    arrays
        One array of codes a column, all of the same length.
    values
        For each column its distinct values in order of their codes, as an Arrow array; a null, if
        any, is the last entry.
    counts
        How many rows each entry stands for; None when every entry is one row.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> codes = Codes(("sex",), (np.array([0, 1, 0], np.uint8),), (pa.array(["F", "M"]),))
    >>> codes.entries, codes.rows, codes.cardinalities
    (3, 3, (2,))
    """

    columns: tuple[str, ...]
    arrays: Sequence[CodeArray]
    values: tuple[pa.Array, ...]
    counts: npt.NDArray[np.int64] | None = None
    length: int | None = None
    """Number of entries; needed only when there are no columns."""

    @property
    def entries(self) -> int:
        """Number of entries (rows, or distinct combinations)."""
        return len(self.arrays[0]) if self.arrays else (self.length or 0)

    @cached_property
    def rows(self) -> int:
        """Number of rows the entries stand for."""
        return self.entries if self.counts is None else int(self.counts.sum())

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of distinct values of each column."""
        return tuple(len(values) for values in self.values)

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """How many rows each entry stands for, also where every entry is one row."""
        return np.ones(self.entries, np.int64) if self.counts is None else self.counts

    def numbered(self, columns: Sequence[str]) -> tuple[npt.NDArray[np.uint32], int]:
        """A number for what each entry has in some columns, and how many numbers there are."""
        from sfumato.kernels import class_ids

        chosen = self.select(columns)
        return class_ids(chosen.arrays, chosen.cardinalities, entries=self.entries)

    def select(self, columns: Sequence[str]) -> Codes:
        """The same entries with fewer columns, in the order given; nothing is copied."""
        at = [self.columns.index(name) for name in columns]
        return Codes(
            tuple(columns),
            tuple(self.arrays[i] for i in at),
            tuple(self.values[i] for i in at),
            self.counts,
            self.entries,
        )

    def take(self, entries: npt.NDArray[Any]) -> Codes:
        """Some entries, by index or boolean mask, with the same codes and values."""
        counts = None if self.counts is None else self.counts[entries]
        arrays = tuple(array[entries] for array in self.arrays)
        length = len(arrays[0]) if arrays else int(np.arange(self.entries)[entries].size)
        return Codes(self.columns, arrays, self.values, counts, length)

    def table(self) -> pa.Table:
        """The entries as values."""
        from sfumato.engines.encoding import as_arrow

        pairs = zip(self.arrays, self.values, strict=True)
        taken = [values.take(as_arrow(codes)) for codes, values in pairs]
        return pa.Table.from_arrays(taken, names=list(self.columns))

    def drawn(self, rows: int, seed: int) -> Codes:
        """Entries at seeded positions, in their order; all if there are no more."""
        if rows >= self.entries:
            return self
        chosen = np.random.default_rng(seed).choice(
            self.entries, rows, replace=False, shuffle=False
        )
        return self.take(np.sort(chosen))

    def column(self, name: str) -> CodeArray:
        """The codes of one column."""
        return self.arrays[self.columns.index(name)]

    def values_of(self, name: str) -> pa.Array:
        """The distinct values of one column, in order of their codes."""
        return self.values[self.columns.index(name)]


def smallest_dtype(cardinality: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes below `cardinality`.

    Examples
    --------
    >>> smallest_dtype(256), smallest_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if cardinality <= 1 << 16 else np.dtype(np.uint32)


def usual_dtype(cardinality: int, size: int) -> np.dtype[Any]:
    """As `smallest_dtype`, but not below 16 bits for a table of codes that is no burden.

    Long loops take many seconds to compile for each width: what was compiled for a table with 300
    values in a column then serves one with 200 as well.

    Examples
    --------
    >>> usual_dtype(2, size=1000), usual_dtype(2, size=1 << 30)
    (dtype('uint16'), dtype('uint8'))
    """
    return smallest_dtype(max(cardinality, 257) if size <= _NO_BURDEN else cardinality)


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """How many classes there are of each size.

    Parameters
    ----------
    sizes
        The sizes that occur, ascending.
    classes_of_size
        How many classes have that size.

    Examples
    --------
    >>> sizes = ClassSizes.of({1: 2, 3: 1})
    >>> sizes.rows, sizes.classes, sizes.unique_rows, sizes.k
    (5, 3, 2, 1)
    >>> sizes.distinct, sizes.separation
    (0.6, 0.7)
    """

    sizes: npt.NDArray[np.int64]
    classes_of_size: npt.NDArray[np.int64]

    @classmethod
    def of(cls, histogram: Mapping[int, int]) -> ClassSizes:
        """From a mapping of size to number of classes."""
        items = sorted((int(s), int(c)) for s, c in histogram.items() if c)
        return cls(
            np.array([s for s, _ in items], dtype=np.int64),
            np.array([c for _, c in items], dtype=np.int64),
        )

    @classmethod
    def of_counts(cls, counts: npt.NDArray[Any]) -> ClassSizes:
        """From the size of every class, in any order; zeros are ignored."""
        from sfumato.kernels.classes import histogram_of

        return cls(*histogram_of(counts))

    def to_dict(self) -> dict[int, int]:
        """The histogram as a plain mapping."""
        pairs = zip(self.sizes.tolist(), self.classes_of_size.tolist(), strict=True)
        return dict(pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassSizes) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(s * c for s, c in self.to_dict().items())

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.classes_of_size.sum())

    @property
    def unique_rows(self) -> int:
        """Rows that are alone in their class."""
        return self.to_dict().get(1, 0)

    @property
    def k(self) -> int | None:
        """Size of the smallest class; None for a table without rows."""
        return int(self.sizes[0]) if len(self.sizes) else None

    @property
    def unseparated_pairs(self) -> int:
        """Pairs of rows in a common class, an exact integer of any size."""
        return sum(s * (s - 1) // 2 * c for s, c in self.to_dict().items())

    @property
    def distinct(self) -> float:
        """Distinct ratio: classes / rows (1 for no rows)."""
        return self.classes / self.rows if self.rows else 1.0

    @property
    def separation(self) -> float:
        """Separation ratio: the share of pairs of rows that differ (1 below two rows)."""
        return float(self.exact_separation)

    @property
    def exact_separation(self) -> Fraction:
        """The separation ratio without rounding."""
        n = self.rows
        if n < 2:
            return Fraction(1)
        pairs = n * (n - 1) // 2
        return Fraction(pairs - self.unseparated_pairs, pairs)

    @property
    def unique(self) -> float:
        """Share of rows that are alone in their class (1 for no rows)."""
        return self.unique_rows / self.rows if self.rows else 1.0

    def rows_below(self, k: int) -> int:
        """Rows in classes smaller than `k`."""
        small = self.sizes < k
        return int((self.sizes[small] * self.classes_of_size[small]).sum())


@dataclass(frozen=True, eq=False)
class PersonSizes:
    """Classes of a column set A, where several rows may be one person's.

    Parameters
    ----------
    rows, parted
        Class sizes of A, and of A together with the person, in rows.
    persons
        Class sizes of A in persons.
    alone
        Persons who have a combination that nobody else has.
    number
        Persons of the table.
    same
        Pairs of rows of one person.
    """

    rows: ClassSizes
    parted: ClassSizes
    persons: ClassSizes
    alone: int
    number: int
    same: int

    @classmethod
    def counted(cls, codes: Codes, who: CodeArray, number: int) -> PersonSizes:
        """Of entries and the person of each.

        Examples
        --------
        >>> import pyarrow as pa
        >>> sex = Codes(("sex",), (np.array([0, 0, 1, 1], np.uint8),), (pa.array(["F", "M"]),))
        >>> sizes = PersonSizes.counted(sex, np.array([0, 0, 0, 1], np.uint8), 2)
        >>> sizes.k, sizes.alone, sizes.unseparated_pairs, sizes.pairs_of_persons
        (1, 1, 1, 3)
        """
        from sfumato import kernels

        ids, count = kernels.class_ids(codes.arrays, codes.cardinalities, entries=codes.entries)
        both, parts = kernels.refine(ids, count, who, max(number, 1), ordered=False)
        first = np.asarray(kernels.representatives(both, parts), dtype=np.int64)
        held = np.bincount(ids[first], minlength=count)
        alone = np.unique(who[first][held[ids[first]] == 1])
        own = ClassSizes.of_counts(kernels.group_sums(who, max(number, 1), codes.counts))
        return cls(
            ClassSizes.of_counts(kernels.group_sums(ids, count, codes.counts)),
            ClassSizes.of_counts(kernels.group_sums(both, parts, codes.counts)),
            ClassSizes.of_counts(held),
            len(alone),
            number,
            own.unseparated_pairs,
        )

    @property
    def k(self) -> int | None:
        """Persons of the smallest class; None for a table without rows."""
        return self.persons.k

    @property
    def unseparated_pairs(self) -> int:
        """Pairs of rows of different persons in a common class."""
        return self.rows.unseparated_pairs - self.parted.unseparated_pairs

    @property
    def pairs_of_persons(self) -> int:
        """Pairs of rows of different persons."""
        rows = self.rows.rows
        return rows * (rows - 1) // 2 - self.same

    @property
    def distinct(self) -> float:
        """Classes over different (class, person); 1 where every class is one person's."""
        return self.rows.classes / self.parted.classes if self.parted.classes else 1.0

    @property
    def separation(self) -> float:
        """Share of the pairs of rows of different persons that differ (1 without such pairs)."""
        total = self.pairs_of_persons
        return float(Fraction(total - self.unseparated_pairs, total)) if total else 1.0

    @property
    def unique(self) -> float:
        """Share of persons who have a combination that nobody else has (1 for no rows)."""
        return self.alone / self.number if self.number else 1.0


def as_declared(found: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """An answer under the names and in the types that its columns are declared with.

    Engines have fewer types than Arrow (one size of text, microseconds); what comes back is cast.
    """
    if not columns:
        return found.select([])
    arrays = [_cast(found.column(at), column.type) for at, column in enumerate(columns)]
    return pa.table(arrays, names=[column.name for column in columns])


def codes_of(found: pa.Table, limit: int | None, where: str) -> Codes:
    """Classes that came back with their counts in the last column, as codes."""
    from sfumato.engines.encoding import codes_from_arrow

    if limit is not None and found.num_rows > limit:
        raise too_many_classes(found.column_names[:-1], limit, where)
    return codes_from_arrow(found, found.column_names[-1])


def too_many_classes(columns: Sequence[str], limit: int, where: str) -> TooManyClassesError:
    """What to say when a column set has more classes than were asked for."""
    named = ", ".join(f"`{name}`" for name in columns)
    return TooManyClassesError(
        f"the columns {named} have more than {limit:,} classes",
        where=where,
        remedy="Ask for fewer columns, coarser values or a higher limit.",
    )


def rows_identity(rows: int, sums: Sequence[int], columns: Sequence[Column], engine: str) -> str:
    """Fingerprint from a row count and the sums of the numbers that all row hashes consist of.

    Row hashes are the engine's own, so the engine is part of the fingerprint.
    """
    bits, total = 128 // len(sums), 0
    for number in sums:
        total = (total << bits) + number
    total &= (1 << 128) - 1
    whole = hashlib.sha256(f"{rows}\n{total:032x}\n".encode())
    for column in columns:
        whole.update(f"{len(column.name.encode())}:{column.name}:{column.kind}\n".encode())
    return f"{engine}-rows:{whole.hexdigest()}"


def _cast(array: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if array.type == type_:
        return array
    if t.is_null(type_):
        return pa.chunked_array([pa.nulls(len(array))])
    return array.cast(type_)


def beginnings(arrays: Sequence[CodeArray], entries: int) -> npt.NDArray[np.bool_] | None:
    """Where another combination begins, if the entries are in ascending order; else None."""
    new, same = np.zeros(entries, dtype=bool), np.ones(max(entries - 1, 0), dtype=bool)
    new[:1] = True
    for array in arrays:
        if (same & (array[1:] < array[:-1])).any():
            return None
        same &= array[1:] == array[:-1]
    new[1:] = ~same
    return new
