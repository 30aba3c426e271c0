"""The engine for a Spark data frame: questions run on the cluster, only answers come back.

What is collected is histograms, classes under their limit, and samples; never all rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.protocol import BATCH_ROWS, Column, Staged, columns_named, names_in
from sfumato.engines.recoding import Recoding
from sfumato.engines.results import ClassSizes, Codes, as_declared, codes_of, rows_identity
from sfumato.engines.spark_types import by_position, columns_of
from sfumato.engines.watching import watching
from sfumato.errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEngine"]


class SparkEngine:
    """A Spark data frame.

    Parameters
    ----------
    frame
        The rows; the frame itself is not changed, cached or collected.
    name
        How messages call it.
    """

    kind: Literal["memory", "duckdb", "postgres", "spark", "stream"] = "spark"
    exact_order = False

    def __init__(self, frame: DataFrame, name: str = "Spark data frame") -> None:
        self.frame = frame
        self.name = name
        self.session: SparkSession = frame.sparkSession
        self._columns: tuple[Column, ...] | None = None
        self._row_count: int | None = None
        self._view: str | None = None

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        if self._columns is None:
            with self.guarded():
                self._columns = columns_of(self.frame, self.name)
        return self._columns

    def row_count(self) -> int:
        """Number of rows."""
        if self._row_count is None:
            found = self.ask(sql.row_count(self.rows()))
            self._row_count = int(found.column(0)[0].as_py())
        return self._row_count

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null, in one job."""
        found = self.ask(sql.null_counts(self.rows(), columns))
        return {name: int(cell[0].as_py()) for name, cell in zip(columns, found, strict=True)}

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of class sizes, by two group-bys on the cluster."""
        found = self.ask(sql.class_sizes(self.rows(), columns), budget, "counting classes")
        return ClassSizes.of(dict(zip(*(c.to_pylist() for c in found.columns), strict=True)))

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes with their counts, in ascending order of their codes."""
        found = self.ask(sql.classes(self.rows(), columns, limit), budget, "listing classes")
        return codes_of(found, columns_named(self.schema(), columns), limit, self.name)

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        return self.classes([column], limit)

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Rows in random order, the first of them; the seed decides while partitions stay."""
        names = names_in(self.schema(), columns)
        found = self.ask(sql.at_random(self.rows(), names, rows, seed))
        return as_declared(found, columns_named(self.schema(), names))

    def stage(
        self,
        recoding: Recoding,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Apply a recoding on the cluster and write a folder beside its final place."""
        from sfumato.engines.spark_release import stage

        return stage(self, recoding, destination, format, budget)

    def fingerprint(self) -> str:
        """Row count, schema and the sum of row hashes, computed on the cluster."""
        return rows_identity(self.ask(sql.fingerprint(self.rows())), self.schema(), "spark")

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows, one partition after the other; needs pyarrow on the executors."""
        import pyarrow as pa

        names = names_in(self.schema(), columns)
        declared = columns_named(self.schema(), names)
        try:
            with self.guarded():
                frame = self.session.sql(sql.text(sql.all_rows(self.rows(), names), "spark"))
                packed = frame.mapInArrow(_packing(), "rows binary").toLocalIterator()
                for (data,) in packed:
                    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                        yield from as_declared(reader.read_all(), declared).to_batches(rows)
        except EngineError as error:
            if "No module named 'pyarrow'" not in str(error.__cause__):
                raise
            raise EngineError(
                "the Python of Spark's executors has no pyarrow",
                where=self.name,
                remedy="Install it there, or set PYSPARK_PYTHON to a Python that has it.",
            ) from error

    def close(self) -> None:
        """Forget the temporary view; the session belongs to the caller."""
        if self._view is not None and not self._stopped():
            self.session.catalog.dropTempView(self._view)
        self._view = None

    def rows(self) -> sql.Rows:
        """The frame as SQL sees it."""
        if self._view is None:
            self.schema()
            view = f"sfumato_{uuid.uuid4().hex}"
            with self.guarded():
                by_position(self.frame).createOrReplaceTempView(view)
            self._view = view
        return sql.Rows(sql.table(self._view), self.schema(), "spark")

    def ask(
        self, statement: sql.Node, budget: Budget | None = None, doing: str = "asking Spark"
    ) -> pa.Table:
        """The answer to a statement."""
        with self.watched(budget, doing):
            return self.session.sql(sql.text(statement, "spark")).toArrow()

    @contextmanager
    def watched(self, budget: Budget | None, doing: str) -> Iterator[None]:
        """Run jobs that stop when the budget is spent, with Spark's errors turned into ours."""
        if budget is None:
            with self.guarded():
                yield
            return
        tag = f"sfumato-{uuid.uuid4().hex}"
        add, remove, interrupt = self._tags()
        with watching(budget, lambda: interrupt(tag), doing, self.name), self.guarded():
            add(tag)
            try:
                yield
            finally:
                remove(tag)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn Spark's errors into ours, without its words: these could quote a cell."""
        from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            yield
        except (OSError, EOFError, Py4JNetworkError) as error:
            raise self._lost() from error
        except PySparkException as error:
            if self._stopped():
                raise self._lost() from error
            condition = error.getCondition() or type(error).__name__
            raise self._refused(condition) from error
        except (Py4JError, AttributeError, AssertionError) as error:
            if self._stopped():
                raise self._lost() from error
            if not isinstance(error, Py4JError):
                raise
            raise self._refused(_java_class(error)) from error

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
    def _remote(self) -> bool:
        """Whether this is a Spark Connect session, which has no context at hand."""
        return type(self.session).__module__.startswith("pyspark.sql.connect")

    def _tags(self) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
        """How to tag jobs, untag them, and stop those with a tag."""
        if self._remote:
            return self.session.addTag, self.session.removeTag, self.session.interruptTag
        # The session's own tags do not reach jobs that answer in Arrow; the context's do.
        context = self.session.sparkContext
        return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag

    def _stopped(self) -> bool:
        """Whether the session's context is gone."""
        if self._remote:
            return False
        try:
            context: Any = self.session.sparkContext
            return context._jsc is None or bool(context._jsc.sc().isStopped())
        except Exception:
            return True


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


def _java_class(error: Any) -> str:
    try:
        return str(error.java_exception.getClass().getSimpleName())
    except Exception:
        return type(error).__name__
