"""Spark: questions run on the cluster, only answers come back, a release is a folder of files.

What is collected is histograms, classes under their limit, and samples; never all rows. A release
gets a temporary name beside its destination and is renamed through Hadoop's file system, which
every store that Spark writes to offers. Spark's ``_SUCCESS`` marker must be there before a folder
is read back or renamed.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

from sqlglot import exp

from sfumato._version import __version__
from sfumato.engines import statements as sql
from sfumato.engines.connection import Connection, Session, temporary_name
from sfumato.engines.database_types import by_position, columns_of, uploadable
from sfumato.engines.protocol import BATCH_ROWS, Capabilities, Column, as_declared, column_of
from sfumato.engines.sql_engine import SQLEngine
from sfumato.engines.writing import ONE_COLUMN_NULL, FileFormat, format_of
from sfumato.errors import ColumnError, EngineError, ParameterError, spell

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_MARKER = "_SUCCESS"
_PACKED_BYTES = 1 << 23
"""Bytes of rows, about, that are on their way together."""
_EMPTY = "\0sfumato: the empty string\0"
"""What stands for `""` between Spark's CSV reader and us."""
_LOST = (
    "the connection to Spark was lost",
    "Check that the session still runs, and start again if there is no release.",
)
_NO_ARROW = (
    "pyarrow is not installed on Spark's executors",
    f"Install sfumato {__version__} there, or set PYSPARK_PYTHON to a Python that has it.",
)
_REFUSED = (
    "Spark could not answer ({reason})",
    "Spark's own log says more; if an executor ran out of memory or disk, give it more.",
)


class _Dialect(sql.Dialect):
    joins_alike = True
    octets = "OCTET_LENGTH"

    def random(self, seed: int) -> sql.Node:
        return sql.call("RAND", seed)

    def class_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        hashed = sql.call("XXHASH64", *keys)
        return exp.BitwiseAnd(this=hashed, expression=exp.convert((1 << 63) - 1))

    def key_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        # A null alone would leave the hash of the cells before it.
        told = [(key, exp.Is(this=key.copy(), expression=exp.null())) for key in keys]
        return sql.call("XXHASH64", *(cell for both in told for cell in both))

    def by_key(self, statement: exp.Select) -> exp.Select:
        # Spark would first count within partitions, where nearly all hashes differ.
        statement.set("distribute", exp.Distribute(expressions=[sql.field("h")]))
        return statement

    def rewritten(self, cell: sql.Node, pattern: str, by: str) -> sql.Node:
        return sql.call("REGEXP_REPLACE", cell, pattern, by.replace("\\", "$"))

    def hex_number(self, digits: sql.Node) -> sql.Node:
        return exp.cast(sql.call("CONV", digits, 16, 10), exp.DataType.build("decimal(20, 0)"))


_DIALECT = _Dialect("spark")


class Spark(Connection):
    """A Spark data frame, which is not changed, cached or collected."""

    kind = "spark"
    capabilities = Capabilities(remote=True, ordered=False, partitioned=True, runs_work=True)

    def __init__(self, frame: DataFrame, name: str = "Spark data frame") -> None:
        self.frame = frame
        self.name = name
        self.spark: SparkSession = frame.sparkSession
        self._view: str | None = None
        self._forget: Callable[[], Any] = lambda: None
        self._columns: tuple[Column, ...] = ()
        self._checked = False

    def rows(self) -> sql.Rows:
        """The frame as a temporary view."""
        if self._view is None:
            view = f"sfumato_{uuid.uuid4().hex}"
            with self.guarded():
                self._columns = columns_of(self.frame, self.name)
                by_position(self.frame).createOrReplaceTempView(view)
            self._view = view
            # Who gives a frame to a verb closes nothing.
            self._forget = forget = weakref.finalize(self, _forget_view, self.spark, view)
            forget.atexit = False
        return sql.Rows(sql.table(self._view), self._columns, _DIALECT)

    def session(self, *, apart: bool = False, writing: bool = False) -> _Session:
        """Statements to come, whose jobs can be stopped together."""
        return _Session(self)

    def target(self, destination: str, format: str | None, schema: pa.Schema) -> _Target:
        """A folder; without the ending of a file format, of Parquet files."""
        found = _format(destination, format, schema)
        with self.guarded():
            self._tell_apart(schema.names)
            return _Target(self, destination, found, schema)

    def _tell_apart(self, names: Sequence[str]) -> None:
        """Refuse names that files of this session do not tell apart."""
        if self.spark.conf.get("spark.sql.caseSensitive") == "true":
            return
        known: dict[str, str] = {}
        for name in names:
            if (other := known.setdefault(name.lower(), name)) != name:
                raise ColumnError(
                    f"columns `{other}` and `{name}` differ in case only, and this session of "
                    "Spark does not write both",
                    where=self.name,
                    remedy="Rename one, or set spark.sql.caseSensitive to true.",
                )

    def shares(self, other: Connection) -> bool:
        """Whether another frame is of the same session."""
        return isinstance(other, Spark) and other.spark is self.spark

    def view(self, statement: sql.Node) -> Spark:
        """What a statement gives, as a frame."""
        with self.guarded():
            return Spark(self.answer(statement), self.name)

    def close(self) -> None:
        """Forget the temporary view; the session belongs to the caller."""
        self._forget()
        self._view = None

    def answer(self, statement: sql.Node) -> DataFrame:
        """The answer to a statement, computed when it is asked for."""
        return self.spark.sql(sql.text(statement, _DIALECT))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn Spark's errors into ours, without its words: these could quote a cell."""
        from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException, PythonException

        lost, ours = (OSError, EOFError, Py4JNetworkError), (AttributeError, AssertionError)
        try:
            yield
        except Exception as error:
            if (interrupted := _interruption(error)) is not None:
                raise interrupted from None
            if not isinstance(error, (*lost, *ours, Py4JError, PySparkException)):
                raise
            what, remedy = _REFUSED
            if isinstance(error, lost) or self._stopped():
                what, remedy = _LOST
            elif isinstance(error, ours):
                raise
            # What went wrong in Python on an executor reaches us as text only.
            elif isinstance(error, PythonException) and "No module named 'pyarrow'" in str(error):
                what, remedy = _NO_ARROW
            raise EngineError(
                what.format(reason=_reason(error)), where=self.name, remedy=remedy
            ) from error

    def reaches(self, destination: str) -> bool:
        """Whether a path without a scheme is a file of this machine; remote sessions do not say."""
        if self._connect or "://" in destination:
            return False
        session: Any = self.spark
        with self.guarded():
            system = session._jsc.hadoopConfiguration().get("fs.defaultFS")
        return str(system).startswith("file:")

    def tags(self) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
        """How to tag jobs, untag them, and stop those with a tag."""
        if self._connect:
            return self.spark.addTag, self.spark.removeTag, self.spark.interruptTag
        # The session's own tags do not reach jobs that answer in Arrow; the context's do.
        context = self.spark.sparkContext
        return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag

    def require_own_version(self) -> None:
        """Refuse executors that do not have Sfumato, or another version of it."""
        if self._checked:
            return
        frame = self.spark.range(0, 64, 1, self.spark.sparkContext.defaultParallelism)
        found = {row.version for row in frame.mapInArrow(_versions(), "version string").collect()}
        if found - {__version__}:
            others = ", ".join(sorted(found - {__version__}))
            raise EngineError(
                f"executors need sfumato {__version__} to work on parts, and have {others}",
                where=self.name,
                remedy="Install the same version there, or set PYSPARK_PYTHON to a Python that "
                "has it.",
            )
        self._checked = True

    def accumulated(self, reports: dict[int, bytes]) -> Any:
        """An accumulator that gathers reports by part into a mapping of ours."""
        from pyspark.accumulators import AccumulatorParam

        class Gathered(AccumulatorParam):  # type: ignore[misc]
            def zero(self, value: dict[int, bytes]) -> dict[int, bytes]:
                return {}

            def addInPlace(
                self, value1: dict[int, bytes], value2: dict[int, bytes]
            ) -> dict[int, bytes]:
                value1.update(value2)
                return value1

        return self.spark.sparkContext.accumulator(reports, Gathered())

    @property
    def _connect(self) -> bool:
        """Whether this is a Spark Connect session, which has no context at hand."""
        return _connects(self.spark)

    def files(self) -> Sequence[Path]:
        """The files of a folder in this machine's own file system, in the order of their names."""
        with self.guarded():
            parts = [urlsplit(one) for one in self.frame.inputFiles()]
        paths = sorted(Path(url2pathname(part.path)) for part in parts)
        here = all(part.scheme in ("", "file") for part in parts) and all(map(Path.is_file, paths))
        return paths if here else ()

    def _stopped(self) -> bool:
        """Whether the session's context is gone."""
        return _stopped(self.spark)


def _connects(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _stopped(session: SparkSession) -> bool:
    if _connects(session):
        return False
    try:
        context: Any = session.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:
        return True


def _forget_view(session: SparkSession, view: str) -> None:
    with suppress(Exception):  # a session that is lost has no views either
        if not _stopped(session):
            session.catalog.dropTempView(view)


class _Session(Session):
    """Statements whose jobs bear one tag."""

    def __init__(self, database: Spark) -> None:
        self._database = database
        self._tag = f"sfumato-{uuid.uuid4().hex}"
        self._uploaded: list[str] = []

    def execute(self, statement: sql.Node, columns: Sequence[Column]) -> pa.Table:
        """The answer to a statement."""
        with self._database.guarded():
            found = self._database.answer(statement).toArrow()
        return as_declared(found, columns)

    def stream(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        rows: int = BATCH_ROWS,
        pieces: int = 1,
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement, one partition after the other; executors need pyarrow."""
        import pyarrow as pa

        with self._database.guarded():
            answer = self._database.answer(statement)
            answer = answer.repartition(pieces) if pieces > 1 else answer
            frame = answer.mapInArrow(_packing(), "rows binary")
            for (data,) in frame.toLocalIterator():
                with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                    yield from as_declared(reader.read_all(), columns).to_batches(rows)

    def run(self, statement: sql.Node) -> None:
        """Run a statement that has no answer."""
        with self._database.guarded():
            self._database.answer(statement).collect()

    def upload(self, name: str, table: pa.Table) -> None:
        """Let statements see a table, under a temporary view."""
        with self._database.guarded():
            cells, types = uploadable(table)
            self._database.spark.createDataFrame(cells, types).createOrReplaceTempView(name)
        self._uploaded.append(name)

    def apply(
        self,
        statement: sql.Node,
        act: Callable[..., tuple[pa.Table, bytes]],
        schema: pa.Schema,
        reports: dict[int, bytes],
        beside: sql.Node | None = None,
    ) -> exp.Select:
        """Work on each part on the executors, which must have this version of Sfumato.

        Reports come back as an accumulator by part, so that a part that was worked on twice,
        because an executor was lost, is reported once.
        """
        with self._database.guarded():
            self._database.require_own_version()
            nothing, types = uploadable(schema.empty_table())
            done = _one_part(act, self._database.accumulated(reports), nothing)
            rows = self._grouped(statement)
            # Spark looks at how many tables a function takes.
            if beside is None:
                made = rows.applyInArrow(lambda mine: done(mine), types)
            else:
                both = rows.cogroup(self._grouped(beside))
                made = both.applyInArrow(lambda mine, theirs: done(mine, theirs), types)
            name = temporary_name()
            by_position(made).createOrReplaceTempView(name)
        self._uploaded.append(name)
        cells = [sql.named(sql.field(f"c{at}"), name) for at, name in enumerate(schema.names)]
        return sql.select("SELECT CELLS FROM MADE", CELLS=cells, MADE=sql.table(name))

    def _grouped(self, statement: sql.Node) -> Any:
        rows = self._database.answer(statement)
        return rows.groupBy(rows.columns[0])

    def cancel(self) -> None:
        """Stop the jobs of this session."""
        _, _, interrupt = self._database.tags()
        interrupt(self._tag)

    def __enter__(self) -> Self:
        with self._database.guarded():
            add, _, _ = self._database.tags()
            add(self._tag)
        return self

    def __exit__(self, *error: object) -> None:
        with self._database.guarded():
            _, remove, _ = self._database.tags()
            remove(self._tag)
            for name in self._uploaded:
                self._database.spark.catalog.dropTempView(name)


class _Target:
    """A folder beside its final name, in whatever file system Spark writes to (see `Target`)."""

    def __init__(
        self, origin: Spark, destination: str, format: FileFormat, schema: pa.Schema
    ) -> None:
        session: Any = origin.spark
        try:
            self._path = session._jvm.org.apache.hadoop.fs.Path
            configuration = session._jsc.hadoopConfiguration()
        except AttributeError:  # Spark Connect
            raise EngineError(
                "a remote Spark session cannot rename files",
                where=origin.name,
                remedy="Write the release from a session on the cluster itself.",
            ) from None
        self._origin = origin
        self._destination = destination
        self._partial = f"{destination.rstrip('/')}.partial-{uuid.uuid4().hex[:12]}"
        self._folder = self._partial
        self._schema = schema
        self._format = "parquet" if format.kind == "parquet" else "csv"
        self._options = _options(format, schema)
        self._files = self._path(destination).getFileSystem(configuration)
        self._check()

    def _check(self) -> None:
        """Refuse a destination in a folder that does not exist, or one being read."""
        final = self._files.makeQualified(self._path(self._destination))
        if final.getParent() is None or not self._files.exists(final.getParent()):
            raise ParameterError(
                "the folder to write to does not exist",
                where=self._destination,
                remedy="Create it first.",
            )
        mine = str(final.toString())
        for given in self._origin.frame.inputFiles():
            if f"{self._path(given).toString()}/".startswith(f"{mine}/"):
                raise ParameterError(
                    "this is the table being read; it would be lost",
                    where=self._destination,
                    remedy="Write to another name.",
                )

    def fill(
        self,
        session: Session | None,
        rows: sql.Node | Iterator[pa.RecordBatch],
        schema: pa.Schema,
        written: Container[str],
    ) -> None:
        """Write the folder; executors write what they make, so that no rows come from here."""
        assert isinstance(rows, sql.Node)
        with self._origin.guarded():
            frame = self._origin.answer(rows)
            writer = frame.write.format(self._format).options(**self._options)
            writer.option("emptyValue", '""').save(self._partial)
            self._require_marker()

    def engine(self) -> SQLEngine:
        """Reads the folder."""
        with self._origin.guarded():
            reader = self._origin.spark.read.format(self._format).options(**self._options)
            if self._format == "parquet":
                frame = reader.load(self._folder)
            else:
                # Read as nothing, `""` would be null like an empty cell.
                reader = reader.option("emptyValue", _EMPTY)
                reader = reader.schema(uploadable(self._schema.empty_table())[1])
                frame = reader.load(self._folder).replace(_EMPTY, "")
        return SQLEngine(Spark(frame, name=self._destination))

    def publish(self, *, force: bool) -> None:
        """Give the folder its final name; an old one stays until the new one is there."""
        with self._origin.guarded():
            self._require_marker()
            final, partial, aside = map(
                self._path, (self._destination, self._partial, f"{self._partial}.replaced")
            )
            replaces = self._files.exists(final)
            if replaces and not force:
                raise ParameterError(
                    "this folder exists already",
                    where=self._destination,
                    remedy=f"Choose another name, or replace it with {spell('force', True)}.",
                )
            try:
                if replaces:
                    self._rename(final, aside)
                self._rename(partial, final)
            finally:
                # Interrupted or not, and even where a name was given meanwhile: one of both is
                # there, and a folder renamed to one that exists would be put into it.
                if replaces and self._files.exists(final):
                    self._files.delete(aside, True)
                elif replaces:
                    self._files.rename(aside, final)
        self._folder = self._destination

    def appeared(self) -> bool:
        """Whether the temporary name is gone; where Spark is gone, it may be."""
        try:
            with self._origin.guarded():
                return not self._files.exists(self._path(self._partial))
        except EngineError:
            return True

    def remove(self) -> None:
        """Remove the folder."""
        with self._origin.guarded():
            self._files.delete(self._path(self._partial), True)

    def _rename(self, old: Any, new: Any) -> None:
        if not self._files.rename(old, new):
            raise EngineError(
                "the finished folder could not be put in place",
                where=self._destination,
                remedy="Check that you may rename there; nothing was replaced.",
            )

    def _require_marker(self) -> None:
        """Refuse a folder that Spark did not finish."""
        if not self._files.exists(self._path(f"{self._partial}/{_MARKER}")):
            raise EngineError(
                f"Spark left no {_MARKER} marker, so the folder may be incomplete",
                where=self._destination,
                remedy="Set mapreduce.fileoutputcommitter.marksuccessfuljobs to true.",
            )


def _format(destination: str, named: str | None, schema: pa.Schema) -> FileFormat:
    try:
        found = format_of(destination, named)
    except ParameterError:
        if named is not None:
            raise
        return FileFormat("parquet")
    if found.kind not in ("csv", "tsv", "parquet"):
        raise ParameterError(
            f"Spark does not write {found.kind} files",
            where=destination,
            remedy="Write Parquet or CSV.",
        )
    for field in schema:
        if found.kind != "parquet" and column_of(field.name, field.type).kind == "binary":
            raise ParameterError(
                f"column `{field.name}` holds binary values, which CSV cannot carry",
                where=destination,
                remedy="Write Parquet, or leave the column out.",
            )
    return found


def _options(format: FileFormat, schema: pa.Schema) -> dict[str, str]:
    """How values are written and read back, with nothing left to Spark's defaults."""
    if format.kind == "parquet":
        return {"compression": "snappy"}
    return {
        "header": "true",
        "sep": format.delimiter,
        "quote": '"',
        "escape": '"',
        "encoding": "UTF-8",
        "multiLine": "true",
        # An empty line would be no row at all.
        "nullValue": ONE_COLUMN_NULL if len(schema) == 1 else "",
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "mode": "FAILFAST",
        "compression": format.compression or "none",
    }


def _packing() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Turns record batches into bytes, one cell each, on the executors.

    A function within a function travels by value, so that executors need not have Sfumato.
    """
    most = _PACKED_BYTES

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            rows = max(1, int(batch.num_rows * most / max(batch.nbytes, 1)))
            for start in range(0, batch.num_rows, rows):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch.slice(start, rows))
                data = pa.array([sink.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([data], names=["rows"])

    return packed


def _versions() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The version of Sfumato on the executors; travels by value, since there may be none."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            from sfumato import __version__ as version
        except ImportError:
            version = "none"
        for _ in batches:
            yield pa.record_batch({"version": [version]})

    return told


def _one_part(
    act: Callable[..., tuple[pa.Table, bytes]], told: Any, nothing: pa.Table
) -> Callable[..., pa.Table]:
    """What an executor does with the rows of one part, whose number comes first.

    Where others go with them, a part may have others alone: nothing comes of it.
    """

    def done(*tables: pa.Table) -> pa.Table:
        if not tables[0].num_rows:
            return nothing
        part = int(tables[0].column(0)[0].as_py())
        made, report = act(*(one.drop_columns([one.column_names[0]]) for one in tables))
        told.add({part: report})
        return uploadable(made)[0]

    return done


def _interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Ctrl-C, where what it did to Spark is all that is told."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def _reason(error: Any) -> str:
    """The condition that Spark names, else the class of the error, of Java's if it is Java's."""
    try:
        return str(error.getCondition() or type(error).__name__)
    except AttributeError:
        exception = getattr(error, "java_exception", None)
        return str(exception.getClass().getSimpleName()) if exception else type(error).__name__
