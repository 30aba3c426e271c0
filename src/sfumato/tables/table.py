"""The handle all verbs take: a table somewhere, seen through its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.protocol import BATCH_ROWS, Column, Engine
from sfumato.engines.results import ClassSizes, Codes, PersonSizes
from sfumato.errors import ColumnError, did_you_mean
from sfumato.results import Frames

__all__ = ["Table"]


class Table(Frames):
    """A table, wherever its rows live; made by `sfumato.table`.

    Making one reads no rows. Column names given to any method are checked, and unknown ones are
    refused with the nearest known name. A handle may show only some of the engine's columns
    (`select`, `exclude`); the rows are always all rows.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.table(pa.table({"age": [20, 30, 30], "sex": ["F", "F", "F"]}))
    >>> people.columns, people.rows
    (('age', 'sex'), 3)
    >>> people.class_sizes(["age"]).to_dict()
    {1: 1, 2: 1}
    >>> len(people), next(iter(people))
    (3, {'age': 20, 'sex': 'F'})
    """

    def __init__(self, engine: Engine, columns: Sequence[str] | None = None) -> None:
        self.engine = engine
        self._shown = None if columns is None else tuple(columns)

    @property
    def name(self) -> str:
        """The table as the user named it."""
        return self.engine.name

    @property
    def schema(self) -> tuple[Column, ...]:
        """The columns this handle shows."""
        schema = self.engine.schema()
        if self._shown is None:
            return schema
        by_name = {column.name: column for column in schema}
        return tuple(by_name[name] for name in self._shown)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns this handle shows."""
        return tuple(column.name for column in self.schema)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.engine.row_count()

    def column(self, name: str) -> Column:
        """One column by name."""
        (found,) = self.require([name])
        return next(column for column in self.schema if column.name == found)

    def require(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """The given columns if all exist and none is doubled; all columns for None."""
        known = self.columns
        if columns is None:
            return known
        if isinstance(columns, str):
            columns = [columns]
        for at, name in enumerate(columns):
            if name not in known:
                raise ColumnError(
                    f"there is no column `{name}`",
                    where=self.name,
                    remedy=did_you_mean(name, known),
                )
            if name in columns[:at]:
                raise ColumnError(
                    f"column `{name}` is named twice", where=self.name, remedy="Name it once."
                )
        return tuple(columns)

    def select(self, columns: Sequence[str]) -> Table:
        """The same table showing only these columns."""
        return Table(self.engine, self.require(columns))

    def exclude(self, columns: Sequence[str]) -> Table:
        """The same table without these columns."""
        hidden = self.require(columns)
        return Table(self.engine, [name for name in self.columns if name not in hidden])

    def class_sizes(
        self, columns: Sequence[str] | None = None, budget: Budget | None = None
    ) -> ClassSizes:
        """Histogram of class sizes of a column set (of all columns for None)."""
        return self.engine.class_sizes(self.require(columns), budget)

    def person_sizes(
        self, columns: Sequence[str] | None, person: str, budget: Budget | None = None
    ) -> PersonSizes:
        """Class sizes of a column set in different persons."""
        names = [name for name in self.require(columns) if name != person]
        return self.engine.person_sizes(names, person, budget)

    def classes(
        self,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        budget: Budget | None = None,
    ) -> Codes:
        """The classes of a column set with their counts."""
        return self.engine.classes(self.require(columns), limit, budget)

    def codes(self, columns: Sequence[str] | None = None, budget: Budget | None = None) -> Codes:
        """What algorithms work on: the rows where they are in memory, else the classes.

        Either way entry counts tell how many rows an entry stands for.
        """
        names = self.require(columns)
        return self.engine.codes(names, budget)

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        return self.engine.values(self.require([column])[0], limit)

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Uniform sample of rows without replacement."""
        return self.engine.sample(rows, self.require(columns), seed)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows as record batches."""
        return self.engine.batches(self.require(columns), rows)

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table; they must fit into memory."""
        schema = pa.schema([(column.name, column.type) for column in self.schema])
        batches = [batch.cast(schema) for batch in self.batches()]
        return pa.Table.from_batches(batches, schema)

    def __len__(self) -> int:
        return self.rows

    def __bool__(self) -> bool:
        return True  # a table is there even if it has no rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def fingerprint(self) -> str:
        """Identity of the table's content."""
        return self.engine.fingerprint()

    def close(self) -> None:
        """Release connections and temporary files."""
        self.engine.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Table {self.name!r} on {self.engine.kind}>"
