"""Complete output that has no name yet: read back, verified, then published in one step.

Whatever goes wrong before `commit`, nothing is left behind.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sfumato.budget import submitted, usable_threads
from sfumato.engines.foreign import FOREIGN, read_foreign
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Column,
    Engine,
    KeepsText,
    Source,
    TextForm,
    column_of,
)
from sfumato.engines.spool import (
    Spool,
    allow,
    batch_rows,
    held_bytes,
    parquet_batches,
    stored_sizes,
    text_as_dictionary,
)
from sfumato.engines.writing import (
    ONE_COLUMN_NULL,
    FileFormat,
    Writer,
    check_destination,
    format_of,
    header_line,
    parsed,
    removed,
    synced,
)
from sfumato.errors import EngineError, SfumatoError
from sfumato.files import file_fingerprint, usual_mode

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import numpy.typing as npt
    from pyarrow import csv

    from sfumato.engines import statements as sql
    from sfumato.engines.connection import Session


class Target(Protocol):
    """Where a release goes: first under a temporary name, then under its own."""

    def fill(
        self,
        session: Session | None,
        rows: sql.Node | Iterator[pa.RecordBatch],
        schema: pa.Schema,
        written: Container[str],
    ) -> None:
        """Write rows, or what a session's statement gives, under the temporary name.

        Of rows that come from here, columns that were not `written` keep the type they have there.
        """

    def engine(self) -> Engine:
        """Reads what was written, under whichever name it has now."""

    def publish(self, *, force: bool) -> None:
        """Rename in one atomic step; refuse to replace without `force`."""

    def appeared(self) -> bool:
        """Whether it has its final name, also where whoever gave it was interrupted then."""

    def remove(self) -> None:
        """Remove what has the temporary name, if anything."""


class Staged:
    """Output that has been written but is not yet visible under its final name.

    Attributes
    ----------
    formulas
        Cells of a text file that a spreadsheet would run; None where it is no text file.
    made_text
        Columns of which such cells were made harmless.
    order
        Which row of the source each row was, where that is known and rows were moved.
    beside
        The same rows with their owners, where these were laid aside on the way; they get no name.
    """

    formulas: int | None = None
    made_text: Collection[str] = ()
    order: npt.NDArray[np.uint32] | None = None
    beside: Staged | None = None

    def __init__(
        self, target: Target, destination: str, fill: Callable[[], None] = lambda: None
    ) -> None:
        self.destination = destination
        self.target = target
        self._waits = True
        self._engine: Engine | None = None
        try:
            fill()
        except BaseException:
            with suppress(SfumatoError):
                target.remove()
            raise

    def engine(self) -> Engine:
        """Reads back what was written."""
        if self._engine is None:
            self._engine = self.target.engine()
        return self._engine

    def commit(self, *, force: bool = False) -> None:
        """Give it its final name in one atomic step; refuses to replace without `force`."""
        if self._waits:
            self.rest()
            self.target.publish(force=force)
            self.settled()

    def discard(self) -> None:
        """Leave nothing behind; safe to call more than once, and after `commit`."""
        if self.beside is not None:
            self.beside.discard()
        self.rest()
        if self._waits:
            self.target.remove()
            self.settled()

    def rest(self) -> None:
        """Close what reads it, which would keep it from being renamed."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def settled(self) -> None:
        """Whoever gave it its name, or removed it, says so: nothing is left to be done."""
        self._waits = False


class FileTarget:
    """A complete file beside its final place (see `Target`).

    Parameters
    ----------
    writer
        A writer whose rows are all in; its file is finished here.
    reopen
        Makes the engine that reads back what was written.
    folder
        A folder of its own, which goes with it.
    """

    def __init__(
        self, writer: Writer, reopen: Callable[[Source], Engine], folder: PrivateFolder | None
    ) -> None:
        self._destination = writer.destination
        self._folder = folder
        self._reopen = reopen
        writer.finish()
        self.path = writer.release()
        self._remove = weakref.finalize(self, removed, self.path)
        self._written = WrittenFile(
            self.path, writer.format, writer.schema, writer.destination, writer.form, writer.rows
        )

    def fill(self, *_: object) -> None:
        """Nothing: it is complete."""

    def engine(self) -> Engine:
        """Reads back what was written, with explicit settings."""
        return self._reopen(self._written)

    def publish(self, *, force: bool) -> None:
        """Rename to the final name in one step; refuses to replace a file without `force`."""
        check_destination(self._destination, force=force)
        try:
            os.chmod(self.path, usual_mode())
            if force:
                os.replace(self.path, self._destination)
            else:
                _rename_without_replacing(self.path, self._destination)
        except FileExistsError:
            check_destination(self._destination, force=False)
            raise
        except OSError as error:
            raise EngineError(
                f"the finished file could not be put in place: {error.strerror}",
                where=self._destination,
                remedy="Check that the folder may still be written to, then start again.",
            ) from error
        synced(Path(self._destination).parent)

    def appeared(self) -> bool:
        """Whether the temporary name is gone, or the final one is another for the same file."""
        with suppress(OSError):
            return os.path.samefile(self.path, self._destination)
        return not os.path.lexists(self.path)

    def remove(self) -> None:
        """Remove the temporary file."""
        self._remove()
        if self._folder is not None:
            self._folder.close()


def stage_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    destination: str,
    format: str | None = None,
    *,
    reopen: Callable[[Source], Engine],
    inputs: Sequence[str | Path] = (),
    form: TextForm | None = None,
    order: npt.NDArray[np.uint32] | None = None,
    threads: int | None = None,
    folder: PrivateFolder | None = None,
    memory: int | None = None,
    meanwhile: Callable[[], bool] | None = None,
    spreadsheet_safe: bool = False,
) -> Staged:
    """Write record batches beside their final place.

    Parameters
    ----------
    batches
        The rows of the output; each batch is cast to `schema` where it differs.
    schema
        Columns of the output.
    destination, format, inputs, form, memory, spreadsheet_safe
        As for `Writer`. Engines give their source's files: ``getattr(source, "paths", ())``.
    reopen
        Makes the engine that reads back what was written: an engine's own class will do.
    order
        As for `Staged`.
    threads
        Upper limit; None means all cores.
    folder
        As for `FileTarget`.
    meanwhile
        As for `Budget`.

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
        writer = stack.enter_context(
            Writer(
                schema,
                destination,
                format,
                inputs=inputs,
                form=form,
                memory=memory,
                spreadsheet_safe=spreadsheet_safe,
            )
        )
        _write_all(writer, batches, threads, meanwhile)
        staged = Staged(FileTarget(writer, reopen, folder), destination)
        staged.formulas, staged.made_text = writer.formulas, writer.made_text
        staged.order = order
        return staged


_READY, _READY_BYTES = 8, 1 << 26
"""Groups of rows that may wait to be packed while something else is done, and their bytes."""


def _write_all(
    writer: Writer,
    batches: Iterable[pa.RecordBatch],
    threads: int | None,
    meanwhile: Callable[[], bool] | None = None,
) -> None:
    """Pack rows while the next ones are made ready, where there are threads for both."""
    if usable_threads(threads) < 2:
        for batch in batches:
            writer.write(batch)
        return
    waiting = deque[tuple[Future[None], int]]()

    def wait(most: int) -> None:
        """Until no more than so many groups are left, doing what else there is to do."""
        while len(waiting) > most or (
            len(waiting) > 1 and sum(size for _, size in waiting) > _READY_BYTES
        ):
            packed, _ = waiting[0]
            while not packed.done() and meanwhile is not None and meanwhile():
                pass
            packed.result()
            waiting.popleft()

    with ThreadPoolExecutor(1, "sfumato-writer") as pool:
        try:
            for batch in batches:
                for rows in writer.ready(batch):
                    waiting.append((submitted(pool, writer.pack, rows), rows.nbytes))
                    del rows  # while the next ones are made, only the writer holds them
                    wait(1 if meanwhile is None else _READY)
                del batch
            wait(0)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def kept_form(source: Source | None, destination: str, format: str | None) -> TextForm | None:
    """How a release is written whose kept cells stay as they stand in a text file.

    None where the table or the release is no text. The delimiter stays too, unless the ending says
    another one: that of a release (.tsv), or .csv in place of .tsv.
    """
    if not isinstance(source, KeepsText):
        return None
    kind = format_of(destination, format).kind
    if kind not in ("csv", "tsv"):
        return None
    form = source.text_form()
    tabs = form.delimiter == "\t" and ".tsv" not in PurePath(source.name.lower()).suffixes
    if kind == "csv" and (tabs or form.delimiter.isprintable()):
        return form
    return replace(form, delimiter="\t" if kind == "tsv" else ",")


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
    removed(path)


_BLOCK = 1 << 20
"""Bytes of text that Arrow parses at a time; it reads 32 such blocks ahead."""


class WrittenFile:
    """A file of known format and schema, as a `Source`."""

    memory: int | None = None

    def __init__(
        self,
        path: Path,
        format: FileFormat,
        schema: pa.Schema,
        name: str,
        form: TextForm | None = None,
        rows: int | None = None,
    ) -> None:
        self.rows = rows
        self.form = TextForm(format.delimiter, "utf-8", {}) if form is None else form
        self.name = name
        self.path = path
        self.paths = (path,)
        self.format = format
        self.arrow_schema = schema
        self.columns_apart = format.kind == "parquet"
        self._spool: Spool | None = None

    def schema(self) -> tuple[Column, ...]:
        """The columns, as they were declared when the file was written."""
        return self._columns

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(column_of(f.name, f.type, where=self.name) for f in self.arrow_schema)

    def row_count(self) -> int | None:
        """Number of rows where the file states it."""
        if self.format.kind != "parquet":
            return None
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path).num_rows)

    def column_sizes(self) -> dict[str, int]:
        """About how much there is to read of each column, where the file states it."""
        if self.format.kind != "parquet":
            return {}
        import pyarrow.parquet as pq

        return stored_sizes(pq.read_metadata(self.path))

    def code_bytes(self) -> int:
        """About how much memory the codes take: four bytes a cell, at most one cell a byte."""
        rows = self.row_count()
        cells = self.path.stat().st_size if rows is None else rows * len(self.arrow_schema)
        return 4 * cells

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows as they stand in the file."""
        names = list(self.arrow_schema.names) if columns is None else list(columns)
        readers = {"parquet": self._parquet, "arrow": self._arrow}
        foreign = self.format.kind in FOREIGN
        read = self._foreign if foreign else readers.get(self.format.kind, self._text)
        try:
            for batch in read(names, rows):
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
        except (pa.ArrowException, OSError):
            # Arrow's own words may quote cells, so they are not passed on.
            raise self._unreadable() from None

    def _unreadable(self) -> EngineError:
        return EngineError(
            "what was written cannot be read back",
            where=self.name,
            remedy="Check the disk; this is not about the content of the table.",
        )

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them: Parquet directly, the others after one reading."""
        if self.format.kind == "parquet":
            allow(connection, [self.path])
            return connection.read_parquet(str(self.path))
        if self._spool is None:
            self._spool = Spool.of(
                self.arrow_schema, map(self._declared, self.batches()), held_bytes(self.memory)
            )
        return self._spool.relation(connection)

    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return file_fingerprint(self.path)

    def close(self) -> None:
        """Remove temporary files; the file itself stays."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _declared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.cast(self.arrow_schema)

    def _parquet(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        text, rows = text_as_dictionary(self.arrow_schema), batch_rows(rows, len(names))
        for batch in parquet_batches(self.path, names, text, rows, self.memory):
            yield batch.select(names)

    def _arrow(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        wanted = [self.arrow_schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        # not mapped: all of it that was read would count as memory of the process
        with pa.OSFile(str(self.path)) as raw, pa.ipc.open_file(raw, options=options) as file:
            for index in range(file.num_record_batches):
                yield file.get_batch(index).select(names)

    def _foreign(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        table = read_foreign(self.format.kind, self.path, None, self.name)
        if self.rows not in (None, table.num_rows):  # some writers do not notice a full disk
            raise self._unreadable()
        columns = []
        for name in names:
            column, declared = table.column(name), self.arrow_schema.field(name).type
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            columns.append(column.cast(declared))
        yield from pa.Table.from_arrays(columns, names=names).to_batches(max_chunksize=rows)

    def _text(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Text in blocks; from a line on that does not fit one, in pieces of whole lines."""
        given = 0
        for read in (self._blocks, self._pieces):
            try:
                seen = 0
                for batch in read():
                    fresh = batch.slice(max(given - seen, 0))
                    seen += batch.num_rows
                    if fresh.num_rows:
                        given = seen
                        fields = [self.arrow_schema.field(name) for name in names]
                        arrays = [self._values(fresh.column(f.name), f) for f in fields]
                        yield pa.RecordBatch.from_arrays(arrays, names=names)
                return
            except pa.ArrowInvalid:  # perhaps a line that is longer than a block
                if read == self._pieces:
                    raise

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        """Cells as text; others than the one asked for are read and parsed meanwhile."""
        from pyarrow import csv

        with self._lines() as stream:
            if stream is not None:
                yield from csv.open_csv(stream, *self._how(_BLOCK))

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        """The same one piece after the other: Arrow would read 32 ahead, however large."""
        from pyarrow import csv

        with self._lines() as stream:
            if stream is None:
                return
            held = bytearray()
            while read := stream.read(_BLOCK):
                held += read
                end = _line_end(held)
                if end > 0:
                    piece = bytes(held[:end])
                    del held[:end]
                    yield from csv.read_csv(pa.BufferReader(piece), *self._how(end)).to_batches()
            yield from csv.read_csv(pa.BufferReader(held), *self._how(len(held))).to_batches()

    def _how(self, block: int) -> tuple[csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions]:
        from pyarrow import csv

        names = self.arrow_schema.names
        return (
            csv.ReadOptions(column_names=names, block_size=block),
            csv.ParseOptions(
                delimiter=self.form.delimiter, quote_char='"', double_quote=True,
                escape_char=False, newlines_in_values=True, ignore_empty_lines=True,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[ONE_COLUMN_NULL if len(names) == 1 else ""], strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip

    @contextmanager
    def _lines(self) -> Iterator[pa.NativeFile | None]:
        """The text of the file from the end of its first line on; None if there are no rows.

        That line end reads as a blank line, and keeps a byte order mark in the first cell from
        being taken for the file's.
        """
        head = header_line(self.arrow_schema.names, self.form.delimiter)
        with self._decoded() as stream:
            begins = stream.read(len(head) + 1)
        if begins[: len(head) - 1] != head[:-1]:
            raise self._unreadable()
        with self._decoded() as stream:
            stream.read(len(head) - 1)
            yield stream if len(begins) > len(head) else None

    @contextmanager
    def _decoded(self) -> Iterator[pa.NativeFile]:
        """The text of the file as UTF-8."""
        with pa.input_stream(str(self.path), compression=self.format.compression) as stream:
            if self.form.encoding != "utf-8":
                stream = pa.transcoding_input_stream(stream, self.form.encoding, "utf-8")
            yield stream

    def _values(self, cells: pa.Array, field: pa.Field) -> pa.Array:
        """Cells of a text file as values."""
        reader = self.form.readers.get(field.name)
        return parsed(cells, field.type) if reader is None else reader(cells)


def _line_end(text: bytearray) -> int:
    """Where the last whole line ends: after as many opening quotes as closing ones; else -1.

    Examples
    --------
    >>> _line_end(bytearray(b'1,"a"\\n2,"b\\nc')), _line_end(bytearray(b'1,"a\\nb'))
    (5, -1)
    """
    quotes, end = text.count(b'"'), len(text)
    while True:
        at = text.rfind(b"\n", 0, end)
        quotes -= text.count(b'"', max(at, 0), end)
        if at < 0 or quotes % 2 == 0:
            return at
        end = at


@contextmanager
def appearing_folder(output: str | None) -> Iterator[Path]:
    """A folder beside the final place, which gets that name when the block ends well.

    Without a name it is a passing one.
    """
    if output is None:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as passing:
            yield Path(passing)
        return
    place = Path(output)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise _not_in_place(output, error) from error
    try:
        yield folder
        mode = usual_mode()
        folder.chmod(mode | (mode & 0o444) >> 2)
        synced(folder)
        if place.is_dir():  # what may be replaced was asked before
            _replace_folder(folder, place)
        else:
            os.rename(folder, place)
        synced(place.parent)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _not_in_place(output, error) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _not_in_place(output: str, error: OSError) -> EngineError:
    return EngineError(
        f"the folder could not be put in place ({error.strerror})",
        where=output,
        remedy="Check its name, and that the folder it is in may be written to and has space.",
    )


def _replace_folder(folder: Path, place: Path) -> None:
    """Put a folder in the place of another, in one atomic step where the system can; it goes."""
    if _exchanged(folder, place):
        shutil.rmtree(folder, ignore_errors=True)
        return
    aside = folder.with_name(f"{folder.name}.replaced")
    try:
        os.rename(place, aside)
        os.rename(folder, place)
    finally:  # whoever interrupts: one of both has the name
        if place.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            os.rename(aside, place)


def _exchanged(one: Path, other: Path) -> bool:
    """Whether two paths have changed their names; Linux can, on most of its file systems."""
    change = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if change is None:
        return False
    return bool(change(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE."""
