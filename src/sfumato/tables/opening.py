"""`table`: anything tabular becomes a handle.

A chain of small recognisers looks at what was given, each for one kind of source; the first that
knows it opens it. A recogniser goes by the name of the object's module, so that nothing is imported
for kinds that are not in play.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.errors import ParameterError, SourceError
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
    query: str | None

    def refuse_text_options(self, name: str, kind: str) -> None:
        """Refuse what is said about text files where the table is something else."""
        given = {
            "--delimiter (delimiter=…)": self.delimiter is not None,
            "--encoding (encoding=…)": self.encoding is not None,
            "--null (null_values=…)": bool(self.null_values),
            "--no-header (header=False)": not self.header,
        }
        for option, used in given.items():
            if used:
                raise ParameterError(
                    f"{option} is about text files, and this is {kind}",
                    where=name,
                    remedy="Leave it out.",
                )

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
    query: str | None = None,
) -> Table:
    """Open anything tabular as a handle; no rows are read that need not be read.

    Parameters
    ----------
    source
        A path (CSV, TSV, Parquet, Arrow; ``.gz`` and ``.zst``), a folder or pattern of Parquet
        files, ``-`` for standard input, ``postgresql://…#schema.table``, a SQL query over files
        (``SELECT … FROM 'people.parquet'``), or a pandas, polars, pyarrow, duckdb, ibis or Spark
        object, or anything with ``__arrow_c_stream__``, or an iterator of record batches (which
        passes by once: only answers from samples). A `Table` is passed through.
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
        Cells of a text file that mean null, quoted or not, besides the empty unquoted one.
    header
        Whether a text file's first line names the columns; else they are ``column_1``, ….
    query
        With the address of a database, the SELECT that gives the rows.

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
        query=query,
    )
    if query is not None and not (isinstance(source, str) and "://" in source):
        raise ParameterError(
            "a query goes with the address of a database",
            remedy="To query files, give the query itself as the source.",
        )
    if not isinstance(source, (str, os.PathLike)):
        opening.refuse_text_options(type(source).__name__, "an object in memory")
    for recognise in _RECOGNISERS:
        opened = recognise(source, opening)
        if opened is not None:
            return opened
    raise SourceError(
        f"a {type(source).__module__}.{type(source).__qualname__} is not a table",
        remedy="Give a path, a database URL, a pandas, polars, pyarrow, duckdb, ibis or Spark "
        "object, or an iterator of record batches.",
    )


def _is(source: Any, library: str, *names: str) -> bool:
    """Whether an object is of a library's class, judged without importing the library."""
    return any(
        base.__module__.partition(".")[0] in (library, f"_{library}") and base.__name__ in names
        for base in type(source).__mro__
    )


def _text(source: Any, opening: Opening) -> Table | None:
    if not isinstance(source, (str, os.PathLike)):
        return None
    from sfumato.tables import paths, queries

    given = os.fspath(source)
    if isinstance(given, bytes):
        given = os.fsdecode(given)
    if given == "-":
        return opening.embedded(paths.open_standard_input(opening))
    if isinstance(source, str) and queries.is_postgres(source):
        opening.refuse_text_options("the database", "a table of PostgreSQL")
        return opening.remote(queries.open_postgres(source, opening.query))
    if isinstance(source, str) and queries.is_query(source) and not os.path.exists(source):
        opening.refuse_text_options("the query", "a query")
        return opening.embedded(
            queries.open_query(source, opening.memory, opening.columns, opening.exclude)
        )
    return opening.embedded(paths.open_path(given, opening))


def _pandas(source: Any, opening: Opening) -> Table | None:
    if not _is(source, "pandas", "DataFrame"):
        return None
    from sfumato.tables.frames import ArrowSource, from_pandas

    name = "the pandas data frame"
    rows = from_pandas(source, name, opening.columns, opening.exclude)
    return opening.embedded(ArrowSource(rows, name))


def _polars(source: Any, opening: Opening) -> Table | None:
    name = "the polars data frame"
    if _is(source, "polars", "DataFrame"):
        from sfumato.tables.frames import ArrowSource, from_polars

        rows = from_polars(source, name, opening.columns, opening.exclude)
        return opening.embedded(ArrowSource(rows, name))
    if _is(source, "polars", "LazyFrame"):
        from sfumato.tables.frames import arrow_ready
        from sfumato.tables.streams import CopySource

        lazy = arrow_ready(source)
        return opening.embedded(
            CopySource(lazy.sink_parquet, name, opening.columns, opening.exclude)
        )
    return None


def _pyarrow(source: Any, opening: Opening) -> Table | None:
    if _is(source, "pyarrow", "RecordBatch"):
        import pyarrow as pa

        source = pa.Table.from_batches([source])
    if _is(source, "pyarrow", "Table"):
        from sfumato.tables.frames import ArrowSource

        name = "the Arrow table"
        return opening.embedded(ArrowSource(source, name, opening.columns, opening.exclude))
    if _is(source, "pyarrow", "Dataset"):
        from sfumato.tables.datasets import DatasetSource

        name = "the Arrow dataset"
        return opening.embedded(DatasetSource(source, name, opening.columns, opening.exclude))
    return None


def _duckdb(source: Any, opening: Opening) -> Table | None:
    if not _is(source, "duckdb", "DuckDBPyRelation"):
        return None
    from sfumato.tables.queries import open_relation

    name = "the DuckDB relation"
    return opening.embedded(open_relation(source, name, opening.columns, opening.exclude))


def _spark(source: Any, opening: Opening) -> Table | None:
    if not _is(source, "pyspark", "DataFrame"):
        return None
    from sfumato.engines.spark import Spark
    from sfumato.engines.sql_engine import SQLEngine

    # A pandas-on-Spark frame is a Spark frame in disguise.
    frame = source.to_spark() if hasattr(source, "to_spark") else source
    return opening.remote(SQLEngine(Spark(frame)))


def _arrow_stream(source: Any, opening: Opening) -> Table | None:
    """Ibis tables, record batch readers and all others that speak Arrow's stream interface."""
    if not hasattr(source, "__arrow_c_stream__"):
        return None
    import pyarrow as pa

    from sfumato.tables.streams import StreamSource

    name = "the ibis table" if _is(source, "ibis", "Table") else f"the {type(source).__name__}"
    reader = pa.RecordBatchReader.from_stream(source)
    return opening.embedded(
        StreamSource(reader.schema, lambda: reader, name, opening.columns, opening.exclude)
    )


def _record_batches(source: Any, opening: Opening) -> Table | None:
    """A generator or iterator of record batches: rows that pass by once and are kept nowhere."""
    if not isinstance(source, Iterator):
        return None
    from sfumato.engines.stream import StreamEngine

    return opening.remote(StreamEngine(source))


_RECOGNISERS: tuple[Callable[[Any, Opening], Table | None], ...] = (
    _text, _pandas, _polars, _pyarrow, _duckdb, _spark, _arrow_stream,
    _record_batches,
)  # fmt: skip
