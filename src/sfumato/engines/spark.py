"""Spark: questions run on the cluster, only answers come back, a release is a folder of files.

What is collected is histograms, classes under their limit, and samples; never all rows. A release
gets a temporary name beside its destination and is renamed through Hadoop's file system, which
every store that Spark writes to offers. Spark's ``_SUCCESS`` marker must be there before a folder
is read back or renamed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato._version import __version__
from sfumato.engines import statements as sql
from sfumato.engines.database_types import by_position, columns_of, uploadable
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Capabilities,
    Column,
    Source,
    as_declared,
    column_of,
)
from sfumato.engines.sql_engine import Connection, Session, SQLEngine, temporary_name
from sfumato.engines.writing import ONE_COLUMN_NULL, FileFormat, format_of
from sfumato.errors import EngineError, ParameterError, spell

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Spark"]

_MARKER = "_SUCCESS"
_EMPTY = "\0sfumato: the empty string\0"
"""What stands for `""` between Spark's CSV reader and us."""


class _Dialect(sql.Dialect):
    def random(self, seed: int) -> sql.Node:
        return exp.Anonymous(this="RAND", expressions=[exp.Literal.number(seed)])

    def length(self, cell: sql.Node) -> sql.Node:
        return exp.Anonymous(this="OCTET_LENGTH", expressions=[cell])

    def class_hash(self, keys: Sequence[sql.Node]) -> sql.Node:
        hashed = exp.Anonymous(this="XXHASH64", expressions=[key.copy() for key in keys])
        return exp.BitwiseAnd(this=hashed, expression=exp.Literal.number((1 << 63) - 1))

    def rewritten(self, cell: sql.Node, pattern: str, by: str) -> sql.Node:
        words = [exp.Literal.string(word) for word in (pattern, by.replace("\\", "$"))]
        return exp.Anonymous(this="REGEXP_REPLACE", expressions=[cell, *words])

    def hex_number(self, digits: sql.Node) -> sql.Node:
        bases = [exp.Literal.number(16), exp.Literal.number(10)]
        converted = exp.Anonymous(this="CONV", expressions=[digits, *bases])
        return exp.cast(converted, exp.DataType.build("decimal(20, 0)"))


_DIALECT = _Dialect("spark")


class Spark:
    """A Spark data frame (see `Connection`), which is not changed, cached or collected."""

    kind = "spark"
    capabilities = Capabilities(remote=True, ordered=False, partitioned=True, runs_work=True)
    source: Source | None = None

    def __init__(self, frame: DataFrame, name: str = "Spark data frame") -> None:
        self.frame = frame
        self.name = name
        self.spark: SparkSession = frame.sparkSession
        self._view: str | None = None
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
        return sql.Rows(sql.table(self._view), self._columns, _DIALECT)

    def session(self, *, apart: bool = False, writing: bool = False) -> _Session:
        """Statements to come, whose jobs can be stopped together."""
        return _Session(self)

    def target(self, destination: str, format: str | None, schema: pa.Schema) -> _Target:
        """A folder; without the ending of a file format, of Parquet files."""
        found = _format(destination, format, schema)
        with self.guarded():
            _Place(self, destination).check()
        return _Target(self, destination, found, schema)

    def over(self, source: Source) -> Connection:
        """Files are read back by DuckDB."""
        from sfumato.engines.duckdb import DuckDB

        return DuckDB(source)

    def shares(self, other: Connection) -> bool:
        """Whether another frame is of the same session."""
        return isinstance(other, Spark) and other.spark is self.spark

    def view(self, statement: sql.Node) -> Spark:
        """What a statement gives, as a frame."""
        with self.guarded():
            return Spark(self.answer(statement), self.name)

    def close(self) -> None:
        """Forget the temporary view; the session belongs to the caller."""
        if self._view is not None and not self._stopped():
            self.spark.catalog.dropTempView(self._view)
        self._view = None

    def answer(self, statement: sql.Node) -> DataFrame:
        """The answer to a statement, computed when it is asked for."""
        return self.spark.sql(sql.text(statement, _DIALECT))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn Spark's errors into ours, without its words: these could quote a cell."""
        from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException, PythonException

        try:
            yield
        except (OSError, EOFError, Py4JNetworkError) as error:
            raise self._lost() from error
        except PySparkException as error:
            if self._stopped():
                raise self._lost() from error
            # What went wrong in Python on an executor reaches us as text only.
            if isinstance(error, PythonException) and "No module named 'pyarrow'" in str(error):
                raise EngineError(
                    "pyarrow is not installed on Spark's executors",
                    where=self.name,
                    remedy=f"Install sfumato {__version__} there, or set PYSPARK_PYTHON to a "
                    "Python that has it.",
                ) from error
            condition = error.getCondition() or type(error).__name__
            raise self._refused(condition) from error
        except (Py4JError, AttributeError, AssertionError) as error:
            if self._stopped():
                raise self._lost() from error
            if not isinstance(error, Py4JError):
                raise
            raise self._refused(_java_class(error)) from error

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

    def _lost(self) -> EngineError:
        return EngineError(
            "the connection to Spark was lost",
            where=self.name,
            remedy="Check that the session still runs, then start again; nothing was published.",
        )

    def _refused(self, reason: str) -> EngineError:
        return EngineError(
            f"Spark could not answer ({reason})",
            where=self.name,
            remedy="Spark's own log says more; if an executor ran out of memory or disk, give it "
            "more.",
        )

    @property
    def _connect(self) -> bool:
        """Whether this is a Spark Connect session, which has no context at hand."""
        return type(self.spark).__module__.startswith("pyspark.sql.connect")

    def _stopped(self) -> bool:
        """Whether the session's context is gone."""
        if self._connect:
            return False
        try:
            context: Any = self.spark.sparkContext
            return context._jsc is None or bool(context._jsc.sc().isStopped())
        except Exception:
            return True


class _Session:
    """Statements whose jobs bear one tag (see `Session`)."""

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
        self, statement: sql.Node, columns: Sequence[Column], rows: int = BATCH_ROWS
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement, one partition after the other; executors need pyarrow."""
        import pyarrow as pa

        with self._database.guarded():
            frame = self._database.answer(statement).mapInArrow(_packing(), "rows binary")
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
    ) -> sql.Node:
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
        return exp.select(*cells).from_(sql.table(name))

    def _grouped(self, statement: sql.Node) -> Any:
        rows = self._database.answer(statement)
        return rows.groupBy(rows.columns[0])

    def seed(self, seed: int) -> None:
        """Nothing: a statement carries its seed, which decides while partitions stay."""

    def cancel(self) -> None:
        """Stop the jobs of this session."""
        _, _, interrupt = self._database.tags()
        interrupt(self._tag)

    def __enter__(self) -> _Session:
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
    """A folder beside its final name (see `Target`)."""

    def __init__(
        self, origin: Spark, destination: str, format: FileFormat, schema: pa.Schema
    ) -> None:
        self._origin = origin
        self._destination = destination
        self._partial = f"{destination.rstrip('/')}.partial-{uuid.uuid4().hex[:12]}"
        self._folder = self._partial
        self._schema = schema
        self._format = "parquet" if format.kind == "parquet" else "csv"
        self._options = _options(format, schema)

    def fill(self, session: Session, statement: sql.Node) -> None:
        """Write the folder."""
        with self._origin.guarded():
            frame = self._origin.answer(statement)
            writer = frame.write.format(self._format).options(**self._options)
            writer.option("emptyValue", '""').save(self._partial)
            self._require_marker()

    def fill_rows(self, *_: object) -> None:
        """Never asked for: executors write what they make."""
        raise NotImplementedError("Spark writes where the rows are")

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
        """Give the folder its final name."""
        with self._origin.guarded():
            self._require_marker()
            _Place(self._origin, self._destination).fill(self._partial, force=force)
        self._folder = self._destination

    def remove(self) -> None:
        """Remove the folder."""
        with self._origin.guarded():
            _Place(self._origin, self._partial).remove()

    def _require_marker(self) -> None:
        """Refuse a folder that Spark did not finish."""
        if not _Place(self._origin, f"{self._partial}/{_MARKER}").exists():
            raise EngineError(
                f"Spark left no {_MARKER} marker, so the folder may be incomplete",
                where=self._destination,
                remedy="Set mapreduce.fileoutputcommitter.marksuccessfuljobs to true.",
            )


class _Place:
    """A path in whatever file system Spark writes to."""

    def __init__(self, database: Spark, path: str) -> None:
        session: Any = database.spark
        try:
            self._hadoop = session._jvm.org.apache.hadoop.fs.Path
            configuration = session._jsc.hadoopConfiguration()
        except AttributeError:  # Spark Connect
            raise EngineError(
                "a remote Spark session cannot rename files",
                where=database.name,
                remedy="Write the release from a session on the cluster itself.",
            ) from None
        self._database = database
        self._name = path
        self._path = self._hadoop(path)
        self._files = self._path.getFileSystem(configuration)

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def remove(self) -> None:
        self._files.delete(self._path, True)

    def check(self) -> None:
        """Refuse a destination in a folder that does not exist, or one being read."""
        parent = self._files.makeQualified(self._path).getParent()
        if parent is None or not self._files.exists(parent):
            raise ParameterError(
                "the folder to write to does not exist", where=self._name, remedy="Create it first."
            )
        mine = str(self._files.makeQualified(self._path).toString())
        for given in self._database.frame.inputFiles():
            path = self._hadoop(given)
            if str(path.toString()).startswith(f"{mine}/") or str(path.toString()) == mine:
                raise ParameterError(
                    "this is the table being read; it would be lost",
                    where=self._name,
                    remedy="Write to another name.",
                )

    def fill(self, partial: str, *, force: bool) -> None:
        """Rename a finished folder to this path; an old one stays until the new one is there."""
        aside = None
        if self.exists():
            if not force:
                raise ParameterError(
                    "this folder exists already",
                    where=self._name,
                    remedy=f"Choose another name, or replace it with {spell('force', True)}.",
                )
            aside = self._hadoop(f"{partial}.replaced")
            self._renamed(self._path, aside)
        try:
            self._renamed(self._hadoop(partial), self._path)
        except BaseException:
            if aside is not None:
                self._files.rename(aside, self._path)
            raise
        if aside is not None:
            self._files.delete(aside, True)

    def _renamed(self, old: Any, new: Any) -> None:
        if not self._files.rename(old, new):
            raise EngineError(
                "the finished folder could not be put in place",
                where=self._name,
                remedy="Check that you may rename there; nothing was replaced.",
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
        return {"compression": "zstd"}
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

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
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


def _java_class(error: Any) -> str:
    try:
        return str(error.java_exception.getClass().getSimpleName())
    except Exception:
        return type(error).__name__
