"""`Table`, the handle all verbs take; `table` makes one of anything tabular, `stream` of rows that
pass by once.

A chain of small recognisers looks at what was given, each for one kind of source; the first that
knows it opens it. A recogniser goes by the name of the object's module, so that nothing is imported
for kinds that are not in play.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import pyarrow as pa

from sfumato.budget import Budget, available_memory, checked_memory, parse_memory, within_budget
from sfumato.engines.protocol import (
    BATCH_ROWS,
    ClassSizes,
    Codes,
    Column,
    Engine,
    PersonSizes,
    Source,
)
from sfumato.errors import ColumnError, ParameterError, SourceError, did_you_mean
from sfumato.fields import checked
from sfumato.files import may_be_dataset
from sfumato.results import Frames

if TYPE_CHECKING:
    from sfumato.engines.stream import StreamEngine
    from sfumato.tables.parsing import Unparsed


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
        return tuple(self._known.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns this handle shows."""
        return tuple(self._known)

    @cached_property
    def _known(self) -> dict[str, Column]:
        known = {column.name: column for column in self.engine.schema()}
        return known if self._shown is None else {name: known[name] for name in self._shown}

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.engine.row_count()

    @checked
    def column(self, name: str) -> Column:
        """One column by name."""
        (found,) = self.require([name])
        return self._known[found]

    def require(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """The given columns if all exist and none is doubled; all columns for None."""
        if columns is None:
            return self.columns
        if isinstance(columns, str):
            columns = [columns]
        given = list(columns) if hasattr(columns, "__getitem__") else None
        if (
            given is None
            or isinstance(columns, Mapping)
            or not all(isinstance(name, str) for name in given)
        ):
            raise ParameterError(
                "columns must be a list of their names",
                where=self.name,
                remedy='Write e.g. ["age", "sex"].',
            )
        named = set[str]()
        for name in given:
            if name not in self._known:
                raise ColumnError(
                    f"there is no column `{name}`",
                    where=self.name,
                    remedy=did_you_mean(name, self._known),
                )
            if name in named:
                raise ColumnError(
                    f"column `{name}` is named twice", where=self.name, remedy="Name it once."
                )
            named.add(name)
        return tuple(given)

    def select(self, columns: Sequence[str]) -> Table:
        """The same table showing only these columns."""
        return Table(self.engine, self.require(columns))

    def exclude(self, columns: Sequence[str]) -> Table:
        """The same table without these columns."""
        hidden = set(self.require(columns))
        return Table(self.engine, [name for name in self.columns if name not in hidden])

    @checked
    def class_sizes(
        self, columns: Sequence[str] | None = None, budget: Budget | None = None
    ) -> ClassSizes:
        """Histogram of class sizes of a column set (of all columns for None)."""
        return self.engine.class_sizes(self.require(columns), budget)

    @checked
    def person_sizes(
        self, columns: Sequence[str] | None, person: str, budget: Budget | None = None
    ) -> PersonSizes:
        """Class sizes of a column set in different persons."""
        (person,) = Table(self.engine).require([person])
        names = [name for name in self.require(columns) if name != person]
        return self.engine.person_sizes(names, person, budget)

    @checked
    def classes(
        self,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        budget: Budget | None = None,
    ) -> Codes:
        """The classes of a column set with their counts."""
        return self.engine.classes(self.require(columns), limit, budget)

    @checked
    def codes(self, columns: Sequence[str] | None = None, budget: Budget | None = None) -> Codes:
        """What algorithms work on: the rows where they are in memory, else the classes.

        Either way entry counts tell how many rows an entry stands for.
        """
        names = self.require(columns)
        return self.engine.codes(names, budget)

    @checked
    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        return self.engine.values(self.require([column])[0], limit)

    @checked
    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Uniform sample of rows without replacement."""
        if rows < 0:
            raise ParameterError(f"{rows} rows are not possible", remedy="Give zero or more.")
        return self.engine.sample(rows, self.require(columns), seed)

    @checked
    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows as record batches."""
        if rows < 1:
            raise ParameterError(
                f"batches of {rows} rows are not possible", remedy="Give 1 or more."
            )
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
    parse: Mapping[str, str]
    unparsed: str

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
        if self.parse:
            from sfumato.tables.parsing import ParsedSource, ParsedText
            from sfumato.tables.text import TextFile

            made = ParsedText if isinstance(source, TextFile) else ParsedSource
            source = made(source, self.parse, self.unparsed)
        return Table(embedded_engine(source, self.engine, self.memory, self.threads))

    def remote(self, engine: Engine) -> Table:
        """A table on an engine that holds its own rows."""
        if self.parse:
            raise ParameterError(
                "columns of a database, of Spark or of a stream cannot be parsed here",
                remedy="Convert them in the query, or read a file.",
            )
        opened = Table(engine)
        if self.columns is not None:
            opened = opened.select(self.columns)
        return opened.exclude(self.exclude) if self.exclude is not None else opened


@contextmanager
def opened(source: Any) -> Iterator[Table]:
    """A source as a table, which is closed in the end unless somebody else had opened it."""
    made = table(source)
    try:
        yield made
    finally:
        if not isinstance(source, Table):
            made.close()


@within_budget
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
    parse: Mapping[str, str] | None = None,
    unparsed: Unparsed = "stop",
) -> Table:
    """Open anything tabular as a handle; no rows are read that need not be read.

    Parameters
    ----------
    source
        A path (CSV, TSV, Parquet, Arrow; ``.gz`` and ``.zst``; Excel, SPSS, Stata, SAS, SQLite,
        JSON, ORC and Avro, a sheet or table of it behind ``#``), a folder or pattern of Parquet
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
    parse
        Columns that are to be turned into ``date`` or ``number``, however their cells are written,
        and in text files whatever they look like; ``date:dmy``, ``date:mdy``, ``number:comma`` and
        ``number:point`` say what a column does not tell.
    unparsed
        What becomes of cells that are no such thing: ``stop``, or ``null`` with a warning that
        counts them.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.table(pa.table({"id": [1, 2], "age": [30, 30]}), exclude=["id"])
    >>> people.columns, people.rows
    (('age',), 2)
    """
    check_engine(engine)
    if isinstance(source, Table):
        if parse:
            raise ParameterError(
                "this table is open already", remedy="Say what to parse when it is opened."
            )
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
        parse=dict(parse or {}),
        unparsed=unparsed,
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


def _several(source: Any, _: Opening) -> None:
    """Datasets, which are refused."""
    made = _is(source, "sfumato", "Dataset")
    if not (made or may_be_dataset(source)):
        return
    from sfumato.tables.several import names_several, parts_of_one

    name = source.name if made else os.fsdecode(source)
    if not made and parts_of_one(name):
        return  # whoever reads them as one table says which of them does not fit
    if made or names_several(name):
        raise ParameterError(
            "this is a dataset of several tables",
            where=name,
            remedy="Name one of its tables, or use a verb that takes datasets: scan, anonymize, "
            "verify, attack and report on the command line, those of sfumato.relational in Python.",
        )


def _text(source: Any, opening: Opening) -> Table | None:
    if not isinstance(source, (str, os.PathLike)):
        return None
    from sfumato.tables import formats

    given = os.fspath(source)
    if isinstance(given, bytes):
        given = os.fsdecode(given)
    if given == "-":
        return opening.embedded(formats.open_standard_input(opening))
    if isinstance(source, str) and formats.is_postgres(source):
        opening.refuse_text_options("the database", "a table of PostgreSQL")
        return opening.remote(formats.open_postgres(source, opening.query))
    if isinstance(source, str) and formats.is_query(source) and not os.path.exists(source):
        opening.refuse_text_options("the query", "a query")
        return opening.embedded(formats.open_query(source, opening))
    return opening.embedded(formats.open_path(given, opening))


def _pandas(source: Any, opening: Opening) -> Table | None:
    if not _is(source, "pandas", "DataFrame"):
        return None
    from sfumato.tables.columnar import ArrowSource, FrameSource, from_pandas

    name = "the pandas data frame"
    if opening.memory is not None:
        return opening.embedded(FrameSource(source, name, opening.columns, opening.exclude))
    rows = from_pandas(source, name, opening.columns, opening.exclude)
    return opening.embedded(ArrowSource(rows, name))


def _polars(source: Any, opening: Opening) -> Table | None:
    name = "the polars data frame"
    if _is(source, "polars", "DataFrame"):
        from sfumato.tables.columnar import ArrowSource, FrameSource, from_polars

        if opening.memory is not None:
            return opening.embedded(FrameSource(source, name, opening.columns, opening.exclude))
        rows = from_polars(source, name, opening.columns, opening.exclude)
        return opening.embedded(ArrowSource(rows, name))
    if _is(source, "polars", "LazyFrame"):
        from sfumato.tables.columnar import CopySource, arrow_ready

        if opening.memory is not None:
            raise SourceError(
                "what polars takes to compute a lazy frame is bounded by no memory limit",
                where=name,
                remedy='Write it to a file first, e.g. frame.sink_parquet("people.parquet", '
                "row_group_size=16_384), and give that, or give no limit.",
            )
        write = arrow_ready(source).sink_parquet
        return opening.embedded(CopySource(write, name, opening.columns, opening.exclude))
    return None


def _pyarrow(source: Any, opening: Opening) -> Table | None:
    if _is(source, "pyarrow", "RecordBatch"):
        source = pa.Table.from_batches([source])
    if _is(source, "pyarrow", "Table"):
        from sfumato.tables.columnar import ArrowSource

        name = "the Arrow table"
        return opening.embedded(ArrowSource(source, name, opening.columns, opening.exclude))
    if _is(source, "pyarrow", "Dataset"):
        from sfumato.tables.columnar import DatasetSource

        name = "the Arrow dataset"
        return opening.embedded(DatasetSource(source, name, opening.columns, opening.exclude))
    return None


def _duckdb(source: Any, opening: Opening) -> Table | None:
    if not _is(source, "duckdb", "DuckDBPyRelation"):
        return None
    from sfumato.tables.formats import open_relation

    return opening.embedded(open_relation(source, "the DuckDB relation", opening))


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
    from sfumato.tables.source import StreamSource

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
    _several, _text, _pandas, _polars, _pyarrow, _duckdb, _spark, _arrow_stream,
    _record_batches,
)  # fmt: skip


EngineName = Literal["auto", "memory", "duckdb"]
_ENGINES = ("auto", "memory", "duckdb")
WORK_ON_CODES = 2.5
"""How many times the codes of a table reading, counting and searching take, measured."""


def embedded_engine(source: Source, engine: str, memory: int | None, threads: int | None) -> Engine:
    """The engine for rows that this process reads itself.

    Parameters
    ----------
    source
        The rows.
    engine
        ``memory``, ``duckdb``, or ``auto`` to go by size.
    memory
        Bytes the engine may take; None is half of the memory that is free now.
    threads
        Upper limit of threads; None means all cores.
    """
    check_engine(engine)
    if memory is not None:
        source.memory = memory
    if engine == "auto":
        if memory is None:
            fits = source.code_bytes() <= available_memory() // 2
        else:
            fits = Budget(memory=memory).holds(WORK_ON_CODES * source.code_bytes())
        engine = "memory" if fits else "duckdb"
    if engine == "memory":
        from sfumato.engines.memory import MemoryEngine

        return MemoryEngine(source, threads=threads, memory=memory)
    from sfumato.engines.duckdb import DuckDB
    from sfumato.engines.sql_engine import SQLEngine

    return SQLEngine(DuckDB(source, memory=memory, threads=threads))


def roomy(opened: Table, size: float, budget: Budget) -> Table:
    """The same table; out of core where work that takes so many bytes would not fit the memory."""
    from sfumato.engines.memory import MemoryEngine

    engine = opened.engine
    if not isinstance(engine, MemoryEngine) or budget.holds(size):
        return opened
    roomier = embedded_engine(engine.source, "duckdb", budget.memory, budget.threads)
    return Table(roomier, opened.columns)


def refuse_too_wide(opened: Table, budget: Budget, *, writing: bool, lookups: int = 1) -> None:
    """Refuse rows that could not be moved within the memory, before work starts.

    They have too many columns, or a cell that is too long. In a release new cells may be looked up
    by several sets of columns. A cluster writes its rows itself.
    """
    from sfumato.engines.protocol import asks_sql

    if asks_sql(opened.engine):
        columns = len(opened.columns)
        opened.engine.connection.check_width(columns, writing=writing, lookups=lookups)
        if not (writing and opened.engine.capabilities.runs_work):
            opened.engine.check_cells(opened.columns, budget.memory)


def check_engine(engine: str) -> None:
    """Refuse an engine that does not exist."""
    if engine not in _ENGINES:
        raise ParameterError(
            f"there is no engine `{engine}`",
            remedy=did_you_mean(engine, _ENGINES)
            + " Databases are chosen by their URL, Spark by its data frame.",
        )


def memory_in_bytes(memory: int | str | None) -> int | None:
    """A memory limit given as a number of bytes or as people write it.

    Examples
    --------
    >>> memory_in_bytes("1GB"), memory_in_bytes(None)
    (1073741824, None)
    """
    if isinstance(memory, str):
        return parse_memory(memory)
    return None if memory is None else checked_memory(memory)


_BEGINNING = 64


def stream(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    null_values: Sequence[str] | None = None,
    header: bool = True,
    name: str | None = None,
) -> Table:
    """Rows that are seen once and kept nowhere; one sample of them can be had.

    Parameters
    ----------
    source
        ``-`` for standard input (text or an Arrow stream, also compressed), an iterator of record
        batches, a Spark data frame (each partition is a stream, their samples are merged), or
        anything `sfumato.table` opens; a PostgreSQL table comes through a server-side cursor.
    columns, exclude
        Columns to show, or to leave out.
    delimiter, encoding, null_values, header
        Of text on standard input, as for `sfumato.table`.
    name
        How messages call the stream.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> batches = (pa.record_batch({"id": [i], "even": [i % 2 == 0]}) for i in range(500))
    >>> sf.minimum_key(stream(batches), eps=0.01).columns
    ('id',)
    """
    from sfumato.engines.stream import StreamEngine

    if isinstance(source, str) and source == "-":
        from sfumato.tables.formats import piped_in

        reading = {"delimiter": delimiter, "encoding": encoding, "null_values": null_values}
        rows = _batches(piped_in(), "standard input", {**reading, "header": header})
        engine = StreamEngine(rows, name or "standard input")
    elif _holds_batches(source):
        engine = StreamEngine(source, name or "the stream")
    else:
        engine = _engine_of(table(source), name)
    opened = Table(engine)
    if columns is not None:
        opened = opened.select(columns)
    return opened if exclude is None else opened.exclude(exclude)


def _holds_batches(source: Any) -> bool:
    """Whether something gives record batches one after the other."""
    return isinstance(source, (Iterator, list, tuple)) or type(source).__name__ in (
        "RecordBatchReader",
        "RecordBatchStreamReader",
    )


def _engine_of(opened: Table, name: str | None) -> StreamEngine:
    from sfumato.engines.stream import PartitionedStream, StreamEngine

    if opened.engine.capabilities.partitioned:
        from sfumato.engines.protocol import asks_sql
        from sfumato.engines.spark import Spark

        assert asks_sql(opened.engine)
        assert isinstance(opened.engine.connection, Spark)
        return PartitionedStream(opened.engine.connection, opened.columns)
    if isinstance(opened.engine, StreamEngine):
        return opened.engine
    return StreamEngine(opened.batches(), name or opened.name, opened.close)


def _batches(piped: BinaryIO, name: str, reading: dict[str, Any]) -> Iterable[Any]:
    """Record batches of whatever the first bytes announce."""
    from sfumato.tables.formats import kind_of
    from sfumato.tables.text import joined, read_fully, text_batches

    first = read_fully(piped, _BEGINNING)
    if not first:
        raise SourceError("nothing was piped in", where=name, remedy="Export the table again.")
    whole = joined(first, piped)
    kind, compression = kind_of(first, name, reading.get("delimiter"), reading.get("encoding"))
    if compression is not None:
        unpacked = pa.CompressedInputStream(pa.PythonFile(whole, mode="r"), compression)
        return _batches(unpacked, name, reading)
    if kind == "text":
        return text_batches(whole, name, **reading)
    if kind == "arrow stream":
        return _arrow_batches(whole, name)
    return _kept(whole, name)


def _arrow_batches(piped: BinaryIO, name: str) -> Iterator[Any]:
    try:
        yield from pa.ipc.open_stream(pa.PythonFile(piped, mode="r"))
    except (pa.ArrowException, OSError):
        raise SourceError(
            "this Arrow stream is damaged or incomplete", where=name, remedy="Export it again."
        ) from None


def _kept(piped: BinaryIO, name: str) -> Iterator[Any]:
    """Files that begin with their end (Parquet) must be kept while they are read."""
    from sfumato.engines.private_folder import PrivateFolder
    from sfumato.tables.source import saved_stream

    folder = PrivateFolder()
    try:
        with table(saved_stream(piped, folder, name)) as opened:
            yield from opened.batches()
    finally:
        folder.close()
