"""`stream`: anything tabular as rows that pass by once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from sfumato.engines.spool import PrivateFolder
from sfumato.engines.stream import StreamEngine
from sfumato.errors import SourceError
from sfumato.tables.formats import kind_of
from sfumato.tables.open import table
from sfumato.tables.source import kept
from sfumato.tables.table import Table

__all__ = ["stream"]

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
    engine: StreamEngine
    if isinstance(source, str) and source == "-":
        reading = {"delimiter": delimiter, "encoding": encoding, "null_values": null_values}
        engine = StreamEngine(
            _standard_input({**reading, "header": header}), name or "standard input"
        )
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
    if opened.engine.capabilities.partitioned:
        from sfumato.engines.spark import Spark
        from sfumato.engines.sql_engine import SQLEngine
        from sfumato.engines.stream import PartitionedStream

        assert isinstance(opened.engine, SQLEngine)
        assert isinstance(opened.engine.connection, Spark)
        return PartitionedStream(opened.engine.connection, opened.columns)
    if isinstance(opened.engine, StreamEngine):
        return opened.engine
    return StreamEngine(opened.batches(), name or opened.name, opened.close)


def _standard_input(reading: dict[str, Any]) -> Iterable[Any]:
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError(
            "nothing is piped in",
            where="standard input",
            remedy="Pipe a table in, e.g. `cat people.csv | sfumato key - --eps 0.001`.",
        )
    return _batches(sys.stdin.buffer, "standard input", reading)


def _batches(piped: BinaryIO, name: str, reading: dict[str, Any]) -> Iterable[Any]:
    """Record batches of whatever the first bytes announce."""
    import pyarrow as pa

    from sfumato.tables.text import joined, read_fully, text_batches

    first = read_fully(piped, _BEGINNING)
    if not first:
        raise SourceError("nothing was piped in", where=name, remedy="Export the table again.")
    whole = joined(first, piped)
    kind, compression = kind_of(first, name, reading.get("delimiter"))
    if compression is not None:
        unpacked = pa.CompressedInputStream(pa.PythonFile(whole, mode="r"), compression)
        return _batches(unpacked, name, reading)
    if kind == "text":
        return text_batches(whole, name, **reading)
    if kind == "arrow stream":
        return _arrow_batches(whole, name)
    return _kept(whole, name)


def _arrow_batches(piped: BinaryIO, name: str) -> Iterator[Any]:
    import pyarrow as pa

    try:
        yield from pa.ipc.open_stream(pa.PythonFile(piped, mode="r"))
    except (pa.ArrowException, OSError):
        raise SourceError(
            "this Arrow stream is damaged or incomplete", where=name, remedy="Export it again."
        ) from None


def _kept(piped: BinaryIO, name: str) -> Iterator[Any]:
    """Files that begin with their end (Parquet) must be kept while they are read."""
    folder = PrivateFolder()
    try:
        with table(kept(piped, folder, name)) as opened:
            yield from opened.batches()
    finally:
        folder.close()
