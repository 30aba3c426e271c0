"""A release made on a Spark cluster: the recoding is uploaded, a folder of files is written.

The folder gets a temporary name beside its destination; `commit` renames it through Hadoop's file
system, which every store that Spark writes to offers. Spark's ``_SUCCESS`` marker must be there
before a folder is read back or renamed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.protocol import Engine, Staged, column_of
from sfumato.engines.recoding import Recoding, mapping_table, output_schema, unmatched
from sfumato.engines.spark import SparkEngine
from sfumato.engines.spark_types import uploadable
from sfumato.engines.writing import FileFormat, format_of
from sfumato.errors import EngineError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["SparkStaged", "stage"]

_MARKER = "_SUCCESS"
_EMPTY = "\0sfumato: the empty string\0"
"""What stands for `""` between Spark's CSV reader and us."""


def stage(
    engine: SparkEngine,
    recoding: Recoding,
    destination: str,
    format: str | None,
    budget: Budget | None,
) -> Staged:
    """Apply a recoding on the cluster; see `Engine.stage`.

    A destination without the ending of a file format becomes a folder of Parquet files.
    """
    schema = output_schema(engine.schema(), recoding)
    kind = _format(destination, format, schema)
    with engine.guarded():
        place = _Place(engine, destination)
        place.check()
    options = _options(kind, schema)
    partial = f"{destination.rstrip('/')}.partial-{uuid.uuid4().hex[:12]}"
    staged = SparkStaged(engine, destination, partial, kind, schema, options)
    try:
        with (
            engine.watched(budget, "recoding on Spark"),
            _recoded(engine, recoding, schema) as frame,
        ):
            writer = frame.write.format(_spark_name(kind)).options(**options)
            writer.option("emptyValue", '""').save(partial)
            staged.require_marker()
    except BaseException:
        staged.discard()
        raise
    return staged


class SparkStaged:
    """A folder that does not have its final name yet (see `Staged`)."""

    def __init__(
        self,
        origin: SparkEngine,
        destination: str,
        partial: str,
        format: FileFormat,
        schema: pa.Schema,
        options: Mapping[str, str],
    ) -> None:
        self.destination = destination
        self._origin = origin
        self._partial: str | None = partial
        self._format = format
        self._schema = schema
        self._options = dict(options)
        self._engine: SparkEngine | None = None

    def engine(self) -> Engine:
        """Reads back what was written."""
        if self._engine is None:
            with self._origin.guarded():
                reader = self._origin.session.read.format(_spark_name(self._format))
                reader = reader.options(**self._options)
                place = self._partial or self.destination
                if self._format.kind == "parquet":
                    frame = reader.load(place)
                else:
                    # Read as nothing, `""` would be null like an empty cell.
                    reader = reader.option("emptyValue", _EMPTY)
                    reader = reader.schema(uploadable(self._schema.empty_table())[1])
                    frame = reader.load(place).replace(_EMPTY, "")
            self._engine = SparkEngine(frame, name=self.destination)
        return self._engine

    def commit(self, *, force: bool = False) -> None:
        """Give the folder its final name."""
        if self._partial is None:
            return
        self._forget_engine()
        with self._origin.guarded():
            self.require_marker()
            _Place(self._origin, self.destination).fill(self._partial, force=force)
        self._partial = None

    def discard(self) -> None:
        """Remove the folder; after `commit` there is none to remove."""
        self._forget_engine()
        if self._partial is not None:
            with self._origin.guarded():
                _Place(self._origin, self._partial).remove()
            self._partial = None

    def require_marker(self) -> None:
        """Refuse a folder that Spark did not finish."""
        if not _Place(self._origin, f"{self._partial}/{_MARKER}").exists():
            raise EngineError(
                f"Spark left no {_MARKER} marker, so the folder may be incomplete",
                where=self.destination,
                remedy="Set mapreduce.fileoutputcommitter.marksuccessfuljobs to true.",
            )

    def _forget_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


class _Place:
    """A path in whatever file system Spark writes to."""

    def __init__(self, engine: SparkEngine, path: str) -> None:
        session: Any = engine.session
        try:
            self._hadoop = session._jvm.org.apache.hadoop.fs.Path
            configuration = session._jsc.hadoopConfiguration()
        except AttributeError:  # Spark Connect
            raise EngineError(
                "a remote Spark session cannot rename files",
                where=engine.name,
                remedy="Write the release from a session on the cluster itself.",
            ) from None
        self._engine = engine
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
                "the folder to write to does not exist", where=self._name, remedy="Make it first."
            )
        mine = str(self._files.makeQualified(self._path).toString())
        for given in self._engine.frame.inputFiles():
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
                    remedy="Choose another name, or replace it with --force (force=True).",
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
                remedy="Check the rights to rename there; nothing was replaced.",
            )


@contextmanager
def _recoded(engine: SparkEngine, recoding: Recoding, schema: pa.Schema) -> Iterator[DataFrame]:
    """The rows of the release, as a frame that is computed when written."""
    rows, total, session = engine.rows(), engine.row_count(), engine.session
    mappings: list[sql.Mapping] = []
    try:
        for step in recoding.steps:
            mapping = sql.Mapping(
                f"sfumato_{uuid.uuid4().hex}",
                step.match.columns,
                tuple(step.cells),
                step.first is not None,
            )
            table, types = uploadable(mapping_table(step))
            session.createDataFrame(table, types).createOrReplaceTempView(mapping.relation)
            mappings.append(mapping)
        if mappings:
            found = engine.ask(sql.entries(rows, mappings))
            if any(column[0].as_py() != total for column in found.columns):
                raise unmatched(engine.name)
        yield session.sql(sql.text(sql.recoded(rows, mappings, recoding.drop), "spark"))
    finally:
        for mapping in mappings:
            session.catalog.dropTempView(mapping.relation)


def _format(destination: str, named: str | None, schema: pa.Schema) -> FileFormat:
    try:
        found = format_of(destination, named)
    except ParameterError:
        if named is not None:
            raise
        return FileFormat("parquet")
    if found.kind == "arrow":
        raise ParameterError(
            "Spark does not write Arrow files", where=destination, remedy="Write Parquet or CSV."
        )
    for field in schema:
        if found.kind != "parquet" and column_of(field.name, field.type).kind == "binary":
            raise ParameterError(
                f"column `{field.name}` holds binary values, which CSV cannot carry",
                where=destination,
                remedy="Write Parquet, or leave the column out.",
            )
    return found


def _spark_name(format: FileFormat) -> str:
    return "parquet" if format.kind == "parquet" else "csv"


def _options(format: FileFormat, schema: pa.Schema) -> dict[str, str]:
    """How values are written and read back, with nothing left to Spark's defaults."""
    from sfumato.engines.writing import ONE_COLUMN_NULL

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
