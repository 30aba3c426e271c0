"""`table`: anything tabular becomes a handle.

A chain of small recognisers looks at what was given, each for one kind of source; the first that
knows it opens it. A recogniser goes by the name of the object's module, so that nothing is imported
for kinds that are not in play.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.errors import SourceError
from sfumato.tables.choice import EngineName, check_engine, embedded_engine, memory_in_bytes
from sfumato.tables.table import Table

if TYPE_CHECKING:
    from sfumato.engines.protocol import Engine, Source

__all__ = ["table"]


@dataclass(frozen=True)
class Opening:
    """What was asked for when a table was opened."""

    columns: Sequence[str] | None
    exclude: Sequence[str] | None
    engine: str
    memory: int | None
    threads: int | None
    delimiter: str | None
    encoding: str | None
    null_values: Sequence[str] | None
    header: bool

    def embedded(self, source: Source) -> Table:
        """A table of rows that this process reads; columns were chosen by the source."""
        return Table(embedded_engine(source, self.engine, self.memory, self.threads))

    def remote(self, engine: Engine) -> Table:
        """A table on an engine that holds its own rows."""
        opened = Table(engine)
        if self.columns is not None:
            opened = opened.select(self.columns)
        return opened.exclude(self.exclude) if self.exclude is not None else opened


def table(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    engine: EngineName = "auto",
    memory: int | str | None = None,
    threads: int | None = None,
    budget: Budget | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    null_values: Sequence[str] | None = None,
    header: bool = True,
) -> Table:
    """Open anything tabular as a handle; no rows are read that need not be read.

    Parameters
    ----------
    source
        A path (CSV, TSV, Parquet, Arrow; ``.gz`` and ``.zst``), a folder or pattern of Parquet
        files, ``-`` for standard input, ``postgresql://…#schema.table``, a SQL query over files
        (``SELECT … FROM 'people.parquet'``), or a pandas, polars, pyarrow, duckdb, ibis or Spark
        object, or anything with ``__arrow_c_stream__``. A `Table` is passed through.
    columns, exclude
        Columns to show, or to leave out; not both.
    engine
        ``auto`` takes ``memory`` where the codes of the table fit, else ``duckdb``. Databases and
        Spark answer for themselves.
    memory
        How much memory to use, in bytes or as ``"512MB"``; by default half of what is free.
    threads
        How many threads to use; by default one a core.
    budget
        Its memory and threads hold where these are not given.
    delimiter, encoding
        Of a text file, where guessing is not wanted.
    null_values
        Unquoted cells of a text file that mean null; by default the empty cell.
    header
        Whether a text file's first line names the columns; else they are ``column_1``, ….

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.table(pa.table({"id": [1, 2], "age": [30, 30]}), exclude=["id"])
    >>> people.columns, people.rows
    (('age',), 2)
    """
    check_engine(engine)
    if isinstance(source, Table):
        shown = source if columns is None else source.select(columns)
        return shown if exclude is None else shown.exclude(exclude)
    given = memory_in_bytes(memory)
    opening = Opening(
        columns=columns,
        exclude=exclude,
        engine=engine,
        memory=given if given is not None or budget is None else budget.memory,
        threads=threads if threads is not None or budget is None else budget.threads,
        delimiter=delimiter,
        encoding=encoding,
        null_values=null_values,
        header=header,
    )
    for recognise in _RECOGNISERS:
        opened = recognise(source, opening)
        if opened is not None:
            return opened
    raise SourceError(
        f"a {type(source).__module__}.{type(source).__qualname__} is not a table",
        remedy="Give a path, a database URL, or a pandas, polars, pyarrow, duckdb, ibis or Spark "
        "object.",
    )


def _library(source: Any) -> str:
    """The library an object comes from."""
    return type(source).__module__.partition(".")[0]


def _path(source: Any, opening: Opening) -> Table | None:
    if not isinstance(source, (str, os.PathLike)):
        return None
    from sfumato.tables.paths import open_path

    return opening.embedded(open_path(os.fspath(source), opening))


def _arrow(source: Any, opening: Opening) -> Table | None:
    if _library(source) != "pyarrow":
        return None
    import pyarrow as pa

    from sfumato.tables.frames import ArrowSource

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not isinstance(source, pa.Table):
        return None
    return opening.embedded(ArrowSource(source, "an Arrow table", opening.columns, opening.exclude))


_RECOGNISERS: tuple[Callable[[Any, Opening], Table | None], ...] = (_path, _arrow)
