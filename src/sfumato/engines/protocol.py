"""What Sfumato asks of the place where rows live: columns, sources, engines.

An *engine* answers questions about one table. Everything the papers describe is computed from the
answers. `MemoryEngine` holds codes and runs compiled loops; `SQLEngine` asks a database (DuckDB,
PostgreSQL, Spark); `StreamEngine` sees its rows once. What an engine can do is declared in its
`Capabilities`: callers look there, never at which engine it is.

Values compare alike everywhere: null equals null and nothing else; NaN is one value and not null;
-0.0 is 0.0; text is compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa
import pyarrow.types as t

from sfumato.errors import ColumnError, spell

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import numpy as np
    import numpy.typing as npt

    from sfumato.budget import Budget
    from sfumato.engines.parts import Parted
    from sfumato.engines.recoding import Recoding
    from sfumato.engines.results import ClassSizes, Codes, Pairing, PersonSizes
    from sfumato.engines.sql_engine import SQLEngine
    from sfumato.engines.staging import Beside

__all__ = [
    "BATCH_ROWS",
    "BLANKS",
    "MOST_COLUMNS",
    "SPELLINGS",
    "Capabilities",
    "Column",
    "Engine",
    "KeepsText",
    "Kind",
    "Source",
    "Spelling",
    "Staged",
    "TextForm",
    "asks_sql",
    "column_of",
    "columns_named",
    "names_in",
    "whole_number",
    "wide_number",
]

BATCH_ROWS = 131_072
"""Rows in a record batch unless asked otherwise."""
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


class Staged(Protocol):
    """Output that has been written but is not yet visible under its final name."""

    destination: str
    formulas: int | None
    """Cells of a text file that a spreadsheet would run; None where it is no text file."""
    order: npt.NDArray[np.uint32] | None
    """Which row of the source each row was, where that is known and rows were moved."""
    beside: Beside | None
    """The same rows with their owners, where these were laid aside on the way."""

    def engine(self) -> Engine:
        """Reads back what was written."""

    def commit(self, *, force: bool = False) -> None:
        """Give it its final name in one atomic step; refuses to replace without `force`."""

    def discard(self) -> None:
        """Leave nothing behind; safe to call more than once, and after `commit`."""


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
