"""Writing a table beside its final place, and giving it its name in one step.

A `Writer` takes record batches and writes a hidden temporary file in the destination's folder. Once
complete and on disk it is `Staged`: it can be read back and verified, then committed (renamed) or
discarded. Whatever goes wrong in between, nothing is left behind.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sfumato.atomic import usual_mode
from sfumato.engines.csvtext import header_line, lines
from sfumato.engines.formats import FileFormat, format_of
from sfumato.engines.protocol import BATCH_ROWS, Engine, Source
from sfumato.engines.written import WrittenFile
from sfumato.errors import EngineError, ParameterError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FileStaged", "Writer", "check_destination", "stage_batches"]

_GROUP = 2 * BATCH_ROWS
"""Rows of a row group or record batch in the file."""
_LINES, _TEXT = 1 << 14, 1 << 20
"""Lines put together at once, and bytes written at once."""
_GZIP_LEVEL = 6


def check_destination(
    destination: str, *, inputs: Sequence[str | Path] = (), force: bool = True
) -> None:
    """Refuse a destination that cannot be written, before any work is done.

    Parameters
    ----------
    destination
        Path of the file to be.
    inputs
        Files the table is read from; a release never replaces them, not even with `force`.
    force
        Whether an existing file may be replaced.
    """
    path = Path(destination)
    if path.is_dir():
        raise ParameterError(
            "this is a folder", where=destination, remedy="Name a file to write in it."
        )
    if not path.parent.is_dir():
        raise ParameterError(
            "the folder to write to does not exist", where=str(path.parent), remedy="Make it first."
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ParameterError(
            "the folder cannot be written to",
            where=str(path.parent),
            remedy="Write to a folder of yours.",
        )
    for given in inputs:
        with suppress(OSError):
            if os.path.samefile(given, path):
                raise ParameterError(
                    "this is the table being read; it would be lost",
                    where=destination,
                    remedy="Write to another name.",
                )
    if not force and path.exists():
        raise ParameterError(
            "this file exists already",
            where=destination,
            remedy="Choose another name, or replace it with --force (force=True).",
        )


class Writer:
    """Writes record batches of one schema to a temporary sibling of the destination.

    Parameters
    ----------
    schema
        Columns of the output; metadata is not written, since it may hold what nobody looked at.
    destination
        Path of the file to be.
    format
        ``csv``, ``tsv`` (with ``.gz`` or ``.zst`` behind), ``parquet`` or ``arrow``; None goes by
        the destination's ending.
    inputs
        Files being read, which the output must not replace.
    """

    def __init__(
        self,
        schema: pa.Schema,
        destination: str,
        format: str | None = None,
        *,
        inputs: Sequence[str | Path] = (),
    ) -> None:
        self.schema = _bare(schema)
        self.destination = destination
        self.format = format_of(destination, format)
        check_destination(destination, inputs=inputs)
        self.rows = 0
        self.path = self._temporary()
        self._remove = weakref.finalize(self, _unlink, self.path)
        self._held: list[pa.RecordBatch] = []
        self._text = bytearray()
        self._open_files = ExitStack()
        self._sink: Any = None
        self._file: Any = None
        self._guarded(self._open)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; dictionaries are written as plain values."""
        if batch.num_rows:
            self.rows += batch.num_rows
            self._guarded(self._append, self._fitted(batch))

    def finish(self) -> Path:
        """Bring everything to disk; the temporary file is complete."""
        self._guarded(self._close)
        return self.path

    def discard(self) -> None:
        """Remove the temporary file; safe at any time."""
        self._held.clear()
        self._text.clear()
        with suppress(Exception):
            self._close()
        self._remove()

    def release(self) -> Path:
        """Hand the temporary file over to whoever renames or removes it."""
        self._remove.detach()
        return self.path

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.discard()

    def _temporary(self) -> Path:
        path = Path(self.destination)
        try:
            descriptor, name = tempfile.mkstemp(
                prefix=f".{path.name[:100]}.", suffix=".partial", dir=path.parent
            )
        except OSError as error:
            raise ParameterError(
                f"cannot write here: {(error.strerror or str(error)).lower()}",
                where=str(path.parent),
                remedy="Write to a folder of yours that has space.",
            ) from error
        os.close(descriptor)
        return Path(name)

    def _open(self) -> None:
        import pyarrow as pa

        keep = self._open_files.enter_context
        if self.format.kind == "parquet":
            import pyarrow.parquet as pq

            self._file = keep(pq.ParquetWriter(str(self.path), self.schema, compression="zstd"))
            return
        if self.format.compression == "gzip":
            # Arrow would take the slowest level; a name or time in the file would be no use.
            raw = keep(self.path.open("wb"))
            self._sink = keep(gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0))
        else:
            self._sink = keep(pa.output_stream(str(self.path), compression=self.format.compression))
        if self.format.kind == "arrow":
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._file = keep(pa.ipc.new_file(self._sink, self.schema, options=options))
        else:
            self._sink.write(header_line(self.schema.names, self.format.delimiter))

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the writer's types; text is written from dictionaries as they are.

        Zeros are written without a sign: it would tell rows apart that are equal.
        """
        import pyarrow as pa

        text = self.format.kind in ("csv", "tsv")
        arrays = []
        for field, array in zip(self.schema, batch.columns, strict=True):
            held = array.type
            if text and pa.types.is_dictionary(held) and not pa.types.is_floating(field.type):
                held = held.value_type
            array = array if held == field.type else array.cast(field.type)
            arrays.append(_unsigned_zeros(array) if pa.types.is_floating(field.type) else array)
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            for start in range(0, batch.num_rows, _LINES):
                self._text += lines(batch.slice(start, _LINES), self.format.delimiter)
                self._write_text(_TEXT)
        else:
            self._held.append(batch)
            self._write_held(_GROUP)

    def _write_text(self, size: int) -> None:
        """Write text in pieces of one size, so that compressed bytes depend on nothing else."""
        whole = len(self._text) - len(self._text) % size
        for start in range(0, whole, size):
            self._sink.write(bytes(self._text[start : start + size]))
        del self._text[:whole]

    def _write_held(self, size: int) -> None:
        """Write held rows in groups of one size: the same rows give the same bytes."""
        import pyarrow as pa

        if sum(batch.num_rows for batch in self._held) < size:
            return
        table = pa.Table.from_batches(self._held, self.schema)
        whole = table.num_rows - table.num_rows % size
        for start in range(0, whole, size):
            self._file.write_batch(_copied(table.slice(start, size)))
        self._held = table.slice(whole).to_batches()

    def _close(self) -> None:
        if self._text:
            self._write_text(len(self._text))
        if left := sum(batch.num_rows for batch in self._held):
            self._write_held(left)
        self._file = self._sink = None
        self._open_files.close()
        _sync(self.path)

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except OSError as error:
            self.discard()
            raise EngineError(
                f"writing failed: {error.strerror or error}",
                where=self.destination,
                remedy="Free some space or write to another disk; nothing was left behind.",
            ) from error
        except BaseException:
            self.discard()
            raise


class FileStaged:
    """A complete file that does not have its final name yet (see `Staged`).

    Parameters
    ----------
    writer
        A writer whose rows are all in; its file is finished here.
    reopen
        Makes the engine that reads back what was written.
    """

    def __init__(self, writer: Writer, reopen: Callable[[Source], Engine]) -> None:
        self.destination = writer.destination
        self.rows = writer.rows
        self.format: FileFormat = writer.format
        self.schema = writer.schema
        writer.finish()
        self.path = writer.release()
        self._reopen = reopen
        self._engine: Engine | None = None
        self._remove = weakref.finalize(self, _unlink, self.path)

    def engine(self) -> Engine:
        """Reads back what was written, with explicit settings."""
        if self._engine is None:
            written = WrittenFile(self.path, self.format, self.schema, self.destination)
            self._engine = self._reopen(written)
        return self._engine

    def commit(self, *, force: bool = False) -> None:
        """Rename to the final name in one step; refuses to replace a file without `force`."""
        self._forget_engine()
        check_destination(self.destination, force=force)
        try:
            os.chmod(self.path, usual_mode())
            if force:
                os.replace(self.path, self.destination)
            else:
                _rename_without_replacing(self.path, self.destination)
        except FileExistsError:
            check_destination(self.destination, force=False)
            raise
        except OSError as error:
            raise EngineError(
                f"the finished file could not be put in place: {error.strerror}",
                where=self.destination,
                remedy="Check that the folder may still be written to, then start again.",
            ) from error
        _sync(Path(self.destination).parent)

    def discard(self) -> None:
        """Remove the temporary file; after `commit` there is none."""
        self._forget_engine()
        self._remove()

    def _forget_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def stage_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    destination: str,
    format: str | None = None,
    *,
    reopen: Callable[[Source], Engine],
    inputs: Sequence[str | Path] = (),
) -> FileStaged:
    """Write record batches beside their final place.

    Parameters
    ----------
    batches
        The rows of the output; each batch is cast to `schema` where it differs.
    schema
        Columns of the output.
    destination, format, inputs
        As for `Writer`. Engines give their source's files: ``getattr(source, "paths", ())``.
    reopen
        Makes the engine that reads back what was written: an engine's own class will do.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> from pathlib import Path
    >>> batch = pa.record_batch({"age": [30, 40]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder, "out.csv")
    ...     staged = stage_batches([batch], batch.schema, str(out), reopen=lambda source: source)
    ...     [rows.to_pydict() for rows in staged.engine().batches()], out.exists()
    ...     staged.commit()
    ...     out.read_text()
    ([{'age': [30, 40]}], False)
    'age\\n30\\n40\\n'
    """
    with ExitStack() as stack:
        if isinstance(batches, Generator):
            # If writing fails, it lets go of its engine now and not whenever it is collected.
            stack.callback(batches.close)
        writer = stack.enter_context(Writer(schema, destination, format, inputs=inputs))
        for batch in batches:
            writer.write(batch)
        return FileStaged(writer, reopen)


def _bare(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata and with plain types in place of dictionaries."""
    import pyarrow as pa
    import pyarrow.types as t

    def plain(type_: pa.DataType) -> pa.DataType:
        encoded = t.is_dictionary(type_) or t.is_run_end_encoded(type_)
        return type_.value_type if encoded else type_

    names = schema.names
    for at, name in enumerate(names):
        if name in names[:at]:
            raise SourceError(
                f"the output would have two columns named `{name}`", remedy="Rename one of them."
            )
    return pa.schema([pa.field(field.name, plain(field.type)) for field in schema])


def _unsigned_zeros(array: pa.Array) -> pa.Array:
    """Floats with 0.0 in place of -0.0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_float16(array.type):  # Arrow does not calculate with them
        return pc.add(array.cast(pa.float32()), pa.scalar(0.0, pa.float32())).cast(array.type)
    return pc.add(array, pa.scalar(0.0, array.type))


def _copied(table: pa.Table) -> pa.RecordBatch:
    """One batch that starts its own buffers: a slice of another's is written differently."""
    import pyarrow as pa

    arrays = [
        pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)]) for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_without_replacing(path: Path, destination: str) -> None:
    """A hard link fails if the name is taken, which a rename would not."""
    try:
        os.link(path, destination)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(destination):
            raise FileExistsError(destination) from None
        os.rename(path, destination)
        return
    _unlink(path)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)
