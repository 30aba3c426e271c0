"""What Sfumato asks of the place where rows live: the questions, and nothing else.

An *engine* answers seven questions about one table, plus its fingerprint and an iterator of its
rows. Everything the papers describe is computed from the answers. Four engines exist: `memory`
(codes and compiled loops), `duck` (embedded, out of core), `postgres` and `spark` (remote: rows
never leave).

Values compare alike everywhere: null equals null and nothing else; NaN is one value and not null;
-0.0 is 0.0; text is compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.engines.recoding import Recoding
from sfumato.engines.schema import Column
from sfumato.engines.sizes import ClassSizes

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["BATCH_ROWS", "Engine", "Source", "Staged"]

BATCH_ROWS = 131_072
"""Rows in a record batch unless asked otherwise."""


class Source(Protocol):
    """Rows that an embedded engine can read front to back, more than once, in a stable order.

    Files, standard input (kept in a temporary file) and data frames are sources; `tables/` makes
    them. Remote tables are engines themselves and have no source.
    """

    name: str
    """As the user wrote it; it appears in messages."""

    def schema(self) -> tuple[Column, ...]:
        """Columns and types; may need a first look at the rows (CSV)."""

    def row_count(self) -> int | None:
        """Number of rows where it is known without reading them."""

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


class Staged(Protocol):
    """Output that has been written but is not yet visible under its final name."""

    destination: str

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
    kind: Literal["memory", "duckdb", "postgres", "spark", "stream"]
    exact_order: bool
    """Whether rows have an order of their own, so that a seed alone decides a sample."""

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""

    def row_count(self) -> int:
        """Number of rows."""

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of the sizes of the classes of a column set; no columns is one class."""

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes themselves with their counts, in ascending order of their codes.

        Raises `EngineError` when there are more than `limit` of them.
        """

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts: the classes of that column alone."""

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Uniform sample of rows without replacement; all rows if there are not more."""

    def stage(
        self,
        recoding: Recoding,
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
