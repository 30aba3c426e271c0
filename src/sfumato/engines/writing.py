"""Writing record batches to a file beside its final place: formats, CSV text, the writer.

A `Writer` takes record batches and writes a hidden temporary file in the destination's folder.
In CSV null is an empty cell, the empty string is ``""``, and text is quoted only where a reader
would otherwise misread it; `parsed` is the inverse of `written` for every type it takes.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
import secrets
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from sfumato.engines.encoding import as_arrow, stored_cells, valid_cells
from sfumato.engines.foreign import FOREIGN, carried, check_room, write_foreign
from sfumato.engines.protocol import BATCH_ROWS, TextForm
from sfumato.errors import EngineError, ParameterError, SourceError, did_you_mean, spell
from sfumato.files import refuse_other_than_file
from sfumato.kernels.ranking import by_appearance

_GROUP, _WIDE, _FEWEST = BATCH_ROWS, 32, 1024
"""Rows of a group up to so many columns, of wider tables as many cells, and rows at least."""
_GROUP_TEXT, _MANY_LABELS = 1 << 24, 1 << 20
"""Bytes of text after which no row of a group follows, and of labels that not all rows carry."""
_PAGE = 1 << 10
"""Rows after which a page may end."""
LABELS = {b"labels": b"few"}
"""Metadata of a column of text that holds few different ones."""
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
    refuse_other_than_file(destination)
    path = Path(destination)
    if not path.parent.is_dir():
        raise ParameterError(
            "the folder to write to does not exist",
            where=str(path.parent),
            remedy="Create it first.",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ParameterError(
            "the folder cannot be written to",
            where=str(path.parent),
            remedy="Choose a folder that you can write to.",
        )
    for given in inputs:
        with suppress(OSError):
            if os.path.samefile(given, path):
                raise ParameterError(
                    "this is the table being read; it would be lost",
                    where=destination,
                    remedy="Write to another name.",
                )
    if path.is_symlink() and not path.exists():
        raise ParameterError(
            "this is a link to a file that does not exist",
            where=destination,
            remedy="Write to that file, or remove the link.",
        )
    if not force and path.exists():
        raise ParameterError(
            "this file exists already",
            where=destination,
            remedy=f"Choose another name, or replace it with {spell('force', True)}.",
        )


class Writer:
    """Writes record batches of one schema to a temporary sibling of the destination.

    Parameters
    ----------
    schema
        Columns of the output; metadata is not written, since it may hold what nobody looked at.
        In Parquet, columns that are `marked_as_labels` are written from dictionaries.
    destination
        Path of the file to be.
    format
        ``csv``, ``tsv`` (with ``.gz`` or ``.zst`` behind), ``parquet``, ``arrow`` or an ending of
        another program's files; None goes by the destination's ending.
    inputs
        Files being read, which the output must not replace.
    form
        How a text file is written; batches hold the text of the columns that it reads.
    memory
        Bytes that files of other programs, which are written whole, may take.
    spreadsheet_safe
        Whether text that a spreadsheet would run is made `harmless`.
    """

    def __init__(
        self,
        schema: pa.Schema,
        destination: str,
        format: str | None = None,
        *,
        inputs: Sequence[str | Path] = (),
        form: TextForm | None = None,
        memory: int | None = None,
        spreadsheet_safe: bool = False,
    ) -> None:
        self.destination = destination
        self.memory = memory
        self.format = format_of(destination, format)
        self.schema = _bare(schema)
        self._labels = [f.name for f in schema if LABELS.items() <= (f.metadata or {}).items()]
        if self.format.kind in FOREIGN:
            self.schema = carried(self.format.kind, self.schema, destination)
        elif self.format.kind == "parquet":
            self.schema = pa.schema([(f.name, _without_seconds(f.type)) for f in self.schema])
        self.form = TextForm(self.format.delimiter, "utf-8", {}) if form is None else form
        self._stored = _as_text(self.schema, self.form)
        # cells that are read as something else, a number with a comma, say, stay what they are
        texts = [
            f.name for f in self.schema if _is_text(f.type) and f.name not in self.form.readers
        ]
        self._to_be_safe = frozenset(texts if spreadsheet_safe else ())
        self.made_text: set[str] = set()
        """Columns of which cells were made harmless."""
        self._mark = "".encode(self.form.encoding)  # the byte order mark, where there is one
        check_destination(destination, inputs=inputs)
        self.rows = 0
        text = self.format.kind in ("csv", "tsv")
        self.formulas = sum(map(_is_formula, schema.names)) if text else None
        """Cells of a text file that a spreadsheet would run; None in files of other formats."""
        place = Path(destination)
        self.path = place.with_name(f".{place.name[:100]}.{secrets.token_hex(8)}.partial")
        # before it is there: whoever interrupts just then leaves nothing behind, either
        self._remove = weakref.finalize(self, removed, self.path)
        self._create()
        self._held: list[pa.RecordBatch] = []
        self._waiting = self._waiting_text = 0
        self._text = bytearray()
        self._open_files = ExitStack()
        self._sink: Any = None
        self._file: Any = None
        self._guarded(self._open)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; dictionaries are written as plain values."""
        for rows in self.ready(batch):
            self.pack(rows)

    def ready(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Append rows, and give those that can be packed now.

        Another thread may pack them meanwhile, as long as it does so in this order.
        """
        start = 0
        for end in _ends(batch):
            self.rows += end - start
            rows = self._fitted(batch.slice(start, end - start))
            if self._labels and _text_bytes(rows) > _MANY_LABELS:
                rows = compact(rows)
            self._held.append(rows)
            self._waiting += rows.num_rows
            self._waiting_text += _text_bytes(rows)
            if self.format.kind in FOREIGN:
                cells, text = self.rows * len(self.schema), self._waiting_text
                check_room(self.format.kind, cells, self.memory, self.destination, text)
            yield from self._whole_groups()
            start = end

    def pack(self, rows: pa.RecordBatch) -> None:
        """Write rows that are `ready`."""
        self._guarded(self._append, rows)

    def finish(self) -> Path:
        """Bring everything to disk; the temporary file is complete."""
        if self.format.kind in FOREIGN:
            self._guarded(self._write_whole)
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()

    def _create(self) -> None:
        """Make the temporary file, which nobody else can read."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise ParameterError(
                f"cannot write here: {(error.strerror or str(error)).lower()}",
                where=str(self.path.parent),
                remedy="Choose a folder that you can write to and that has space.",
            ) from error

    def _open(self) -> None:
        keep = self._open_files.enter_context
        if self.format.kind in FOREIGN:
            return
        if self.format.kind == "parquet":
            import pyarrow.parquet as pq

            self._stored = _as_dictionaries(self.schema, self._labels)
            # Pages end between such batches: with long texts they would be as long as a group.
            long = any(map(_of_any_length, self._stored.types))
            self._file = keep(
                pq.ParquetWriter(
                    str(self.path),
                    self._stored,
                    compression="snappy",
                    store_schema=False,
                    # The least and the greatest label are found slowly, and tell readers nothing.
                    write_statistics=[n for n in self.schema.names if n not in self._labels],
                    write_batch_size=_PAGE if long else _GROUP,
                )
            )
            # Readers are told of plain text: dictionaries are only how it is handed over.
            told = base64.b64encode(self.schema.serialize().to_pybytes())
            self._file.add_key_value_metadata({"ARROW:schema": told})
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
            head = header_line(self.schema.names, self.form.delimiter)
            self._sink.write(self._mark + self._encoded(head))

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the writer's types; text is written from dictionaries as they are.

        Zeros are written without a sign: it would tell rows apart that are equal.
        """
        text = self.format.kind in ("csv", "tsv")
        arrays = []
        for field, array in zip(self._stored, batch.columns, strict=True):
            if field.name in self._to_be_safe:
                safe = harmless(array)
                if safe is not array:
                    self.made_text.add(field.name)
                    array = safe
            held = array.type
            if pa.types.is_dictionary(field.type):
                arrays.append(_numbered(array, field.type.value_type))
                continue
            if text and pa.types.is_dictionary(held) and not pa.types.is_floating(field.type):
                held = held.value_type
            array = array if held == field.type else array.cast(field.type)
            arrays.append(unsigned_zeros(array) if pa.types.is_floating(field.type) else array)
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._file is not None:
            self._file.write_batch(batch)
        else:
            assert self.formulas is not None
            self.formulas += sum(count_formulas(column) for column in batch.columns)
            for start in range(0, batch.num_rows, _LINES):
                cells = lines(compact(batch.slice(start, _LINES)), self.form.delimiter)
                self._text += self._encoded(cells)
                self._write_text(_TEXT)

    def _encoded(self, text: Any) -> Any:
        """Text in UTF-8 as the file encodes it."""
        if self.form.encoding == "utf-8":
            return text
        try:
            return bytes(text).decode().encode(self.form.encoding).removeprefix(self._mark)
        except UnicodeEncodeError:
            raise ParameterError(
                f"labels of the release have letters that {self.form.encoding}, the encoding of "
                "the table, does not have",
                where=self.destination,
                remedy="Convert the table to UTF-8 first, or write Parquet.",
            ) from None

    def _write_text(self, size: int) -> None:
        """Write text in pieces of one size, so that compressed bytes depend on nothing else."""
        whole = len(self._text) - len(self._text) % size
        for start in range(0, whole, size):
            self._sink.write(bytes(self._text[start : start + size]))
        del self._text[:whole]

    def _whole_groups(self, *, all_: bool = False) -> Iterator[pa.RecordBatch]:
        """Held rows in whole groups, or `all_`: the same rows give the same bytes.

        Lines of text have no groups, and files of other programs are written at once.
        """
        if self.format.kind in FOREIGN:
            return
        if self._file is None:
            yield self._held.pop()
            return
        if not self._held or not len(self.schema):  # Arrow finds rows in any slice of no columns
            return
        group = min(_GROUP, max(_FEWEST, _WIDE * _GROUP // len(self.schema)))
        if not all_ and self._waiting < group and self._waiting_text < _GROUP_TEXT:
            return
        table = pa.Table.from_batches(self._held, self._stored)
        while rows := _group_rows(table, group, all_=all_):
            yield _copied(table.slice(0, rows))
            table = table.slice(rows)
        if self._labels and _text_bytes(table) > _MANY_LABELS:  # the same ones come again
            rest = table.combine_chunks().to_batches()
            table = pa.Table.from_batches(map(compact, rest), self._stored)
        self._held = table.to_batches()
        self._waiting, self._waiting_text = table.num_rows, _text_bytes(table)

    def _write_whole(self) -> None:
        """Other programs' files are written at once."""
        rows = pa.Table.from_batches(self._held, self.schema)
        self._held.clear()
        write_foreign(self.format.kind, rows, self.path, self.destination)

    def _close(self) -> None:
        if self._text:
            self._write_text(len(self._text))
        if self._file is not None:
            for rows in self._whole_groups(all_=True):
                self._file.write_batch(rows)
        self._file = self._sink = None
        self._open_files.close()
        synced(self.path)

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


def _bare(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata and with plain types in place of dictionaries."""

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


def _without_seconds(type_: pa.DataType) -> pa.DataType:
    """The type in which Parquet keeps a column: nothing there is counted in whole seconds."""
    if t.is_timestamp(type_) and type_.unit == "s":
        return pa.timestamp("ms", type_.tz)
    return pa.time32("ms") if type_ == pa.time32("s") else type_


def _as_text(schema: pa.Schema, form: TextForm) -> pa.Schema:
    """The schema with text for columns whose cells stay as they stand."""
    return pa.schema(
        [pa.field(f.name, pa.string() if f.name in form.readers else f.type) for f in schema]
    )


def marked_as_labels(field: pa.Field) -> pa.Field:
    """A column of text that holds few different ones, many times each."""
    return field.with_metadata(LABELS) if t.is_string(field.type) else field


def _as_dictionaries(schema: pa.Schema, labels: Sequence[str]) -> pa.Schema:
    """The schema with dictionaries of text for some columns."""

    def stored(field: pa.Field) -> pa.DataType:
        return pa.dictionary(pa.int32(), field.type) if field.name in labels else field.type

    return pa.schema([pa.field(field.name, stored(field)) for field in schema])


def _numbered(array: pa.Array, type_: pa.DataType) -> pa.DictionaryArray:
    """Cells as indices of 32 bits into a dictionary without null."""
    if not t.is_dictionary(array.type) or array.dictionary.null_count:
        return array.cast(type_).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        array.indices.cast(pa.int32()), array.dictionary.cast(type_), safe=False
    )


def _by_appearance(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same cells with a dictionary of those that occur, in the order in which they do.

    What is written then depends on the cells alone, and not on where they come from.
    """
    indices = array.indices
    numbers, found = by_appearance(
        stored_cells(indices), valid_cells(indices), len(array.dictionary)
    )
    nulls = numbers == 0 if indices.null_count else None
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers.view(np.int32) - np.int32(1), mask=nulls),
        array.dictionary.take(as_arrow(found)),
        safe=False,
    )


def compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with dictionaries of what occurs in them, and not in all of a table."""
    arrays = [
        _by_appearance(_numbered(array, array.type.value_type))
        if t.is_dictionary(array.type)
        else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def unsigned_zeros(array: pa.Array) -> pa.Array:
    """Floats with 0.0 in place of -0.0."""
    if pa.types.is_float16(array.type):  # Arrow does not calculate with them
        return pc.add(array.cast(pa.float32()), pa.scalar(0.0, pa.float32())).cast(array.type)
    return pc.add(array, pa.scalar(0.0, array.type))


def _of_any_length(type_: pa.DataType) -> bool:
    tests = (t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)
    return any(test(type_) for test in tests)


def _text_bytes(rows: pa.Table | pa.RecordBatch) -> int:
    """Bytes of cells of any length, and of the dictionaries of labels."""
    size: int = sum(column.nbytes for column in rows.columns if _of_any_length(column.type))
    labels = [column for column in rows.columns if t.is_dictionary(column.type)]
    chunks = [c for column in labels for c in getattr(column, "chunks", (column,))]
    return size + int(sum(chunk.dictionary.nbytes for chunk in chunks))


def _new_text(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Bytes of text of each row; of labels, where they are seen first."""
    if not t.is_dictionary(column.type):
        lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy()
        return lengths
    array = _by_appearance(pa.concat_arrays(column.chunks))
    numbers = pc.fill_null(array.indices, -1).to_numpy()
    _, first = np.unique(numbers, return_index=True)
    sizes = np.zeros(len(numbers), np.int64)
    sizes[first[numbers[first] >= 0]] = pc.binary_length(array.dictionary).to_numpy()
    return sizes


def _ends(batch: pa.RecordBatch) -> list[int]:
    """Where to cut rows, so that long texts of dictionaries do not become many at once."""
    summed: np.ndarray[Any, Any] | None = None
    for array in batch.columns:
        if not (t.is_dictionary(array.type) and _of_any_length(array.type.value_type)):
            continue
        lengths = pc.fill_null(pc.binary_length(array.dictionary), 0).to_numpy()
        if len(lengths) and len(array) * int(lengths.max()) >= _GROUP_TEXT:
            of_rows = np.append(lengths, 0)[pc.fill_null(array.indices, len(lengths)).to_numpy()]
            summed = of_rows.astype(np.int64) if summed is None else summed + of_rows
    if summed is None:
        return [batch.num_rows] if batch.num_rows else []
    summed = np.cumsum(summed)
    whole = np.arange(_GROUP_TEXT, int(summed[-1]), _GROUP_TEXT)
    return sorted({*(np.searchsorted(summed, whole) + 1).tolist(), batch.num_rows})


def _group_rows(table: pa.Table, group: int, *, all_: bool) -> int:
    """Rows of the group that comes first; 0 if more may belong to it."""
    first = table.slice(0, group)
    if _text_bytes(first) >= _GROUP_TEXT:
        texts = [c for c in first.columns if t.is_dictionary(c.type) or _of_any_length(c.type)]
        summed = np.cumsum(sum(map(_new_text, texts)))
        if summed[-1] >= _GROUP_TEXT:
            return int(np.searchsorted(summed, _GROUP_TEXT)) + 1
    return first.num_rows if all_ or first.num_rows == group else 0


def _copied(table: pa.Table) -> pa.RecordBatch:
    """One batch that starts its own buffers: a slice of another's is written differently."""
    arrays = []
    for column in table.columns:
        if t.is_dictionary(column.type):
            one = column.num_chunks == 1
            arrays.append(
                _by_appearance(column.chunk(0) if one else pa.concat_arrays(column.chunks))
            )
        else:
            arrays.append(pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)]))
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def synced(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():  # folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def removed(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


ONE_COLUMN_NULL = "NA"
"""Null in a table of one column, where an empty cell would be an empty line."""

DELIMITERS = (",", ";", "\t", "|")
"""What a reader may take for a delimiter; cells that contain one are quoted, whichever is used."""

_EXACT_INTEGERS = 1e15
"""Floats below this print without exponent, so that ``.0`` may follow."""


def written(array: pa.Array, name: str) -> pa.Array:
    """The cells of a column as text; null stays null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> written(pa.array([1.0, 0.5, None]), "height").to_pylist()
    ['1.0', '0.5', None]
    """
    type_ = array.type
    if t.is_run_end_encoded(type_):
        return written(pc.run_end_decode(array), name)
    if t.is_dictionary(type_):
        # Null may hide in the indices or among the values; taking keeps both.
        return written(array.dictionary, name).take(array.indices)
    if t.is_floating(type_):
        text = array.cast(pa.string())
        wide = array.cast(pa.float64())
        whole = pc.and_(pc.equal(wide, pc.floor(wide)), pc.less(pc.abs(wide), _EXACT_INTEGERS))
        plain = pc.and_(whole, pc.invert(pc.match_substring(text, "e")))
        return pc.if_else(plain, pc.binary_join_element_wise(text, "0", "."), text)
    if t.is_duration(type_):
        return array.cast(pa.int64()).cast(pa.string())
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_):
        raise ParameterError(
            f"column `{name}` holds binary values, which CSV cannot carry",
            remedy="Write Parquet, or leave the column out.",
        )
    if t.is_date(type_) or t.is_timestamp(type_):
        _refuse_far_years(array, name)
    return array.cast(pa.string())


def _refuse_far_years(array: pa.Array, name: str) -> None:
    """Readers know years of four digits; the earliest and the latest cell decide for all."""
    extremes = pc.min_max(array)
    text = pa.array([extremes["min"], extremes["max"]], array.type).cast(pa.string())
    if pc.any(pc.invert(pc.match_substring_regex(text, "^[0-9]{4}-"))).as_py():
        raise ParameterError(
            f"column `{name}` holds dates outside the years 0 to 9999, which CSV cannot carry",
            remedy="Write Parquet, correct the dates, or leave the column out.",
        )


_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"


def _formulas(text: pa.Array) -> pa.Array:
    """Which cells a spreadsheet takes for formulas; negative numbers are none."""
    begins = pc.match_substring_regex(text, _FORMULA)
    return pc.and_not(begins, pc.match_substring_regex(text, _NUMBER)).fill_null(False)


def _is_formula(name: str) -> bool:
    return re.match(_FORMULA, name) is not None and re.match(_NUMBER, name) is None


def count_formulas(column: pa.Array) -> int:
    """Cells of a column that a spreadsheet would run.

    Examples
    --------
    >>> import pyarrow as pa
    >>> count_formulas(pa.array(["=HYPERLINK(...)", "-5", "@SUM(A1)", "a=b", None]))
    2
    """
    if t.is_dictionary(column.type):
        if not _is_text(column.type.value_type):
            return 0
        return pc.sum(_formulas(column.dictionary).take(column.indices)).as_py() or 0
    if not _is_text(column.type):
        return 0
    return pc.sum(_formulas(column.cast(pa.large_string()))).as_py() or 0


def harmless(column: pa.Array) -> pa.Array:
    """The same cells with an apostrophe before those that a spreadsheet would run.

    Cells that already have apostrophes before such a sign get one more: different cells stay
    different. Where there are none of either, it is the column itself.

    Examples
    --------
    >>> import pyarrow as pa
    >>> harmless(pa.array(["=1+1", "'=1+1", "-5", "a=b"])).to_pylist()
    ["'=1+1", "''=1+1", '-5', 'a=b']
    """
    if t.is_dictionary(column.type):
        shown = column.dictionary
        if not _is_text(shown.type) or not pc.any(_quotable(shown).take(column.indices)).as_py():
            return column
        return pa.DictionaryArray.from_arrays(column.indices, harmless(shown))
    if not _is_text(column.type) or not pc.any(_quotable(column)).as_py():
        return column
    plain = column.cast(pa.large_string())
    mark, nothing = (pa.scalar(text, pa.large_string()) for text in ("'", ""))
    quoted = pc.binary_join_element_wise(mark, plain, nothing)
    return pc.if_else(_quotable(plain), quoted, plain).cast(column.type)


def _quotable(text: pa.Array) -> pa.Array:
    """Which cells a spreadsheet takes for formulas, whatever apostrophes stand before them."""
    return _formulas(pc.utf8_ltrim(text.cast(pa.large_string()), "'"))


def _is_text(type_: pa.DataType) -> bool:
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_))


def parsed(text: pa.Array, type_: pa.DataType) -> pa.Array:
    """The values that `written` wrote.

    Examples
    --------
    >>> import pyarrow as pa
    >>> parsed(pa.array(["1.0", None]), pa.float64()).to_pylist()
    [1.0, None]
    """
    if t.is_dictionary(type_):
        return parsed(text, type_.value_type)
    if t.is_null(type_):
        return pa.nulls(len(text))
    if t.is_time(type_):
        # Arrow parses timestamps, not times of day.
        stamp = pc.binary_join_element_wise("1970-01-01", text, " ")
        return stamp.cast(pa.timestamp(type_.unit)).cast(type_)
    if t.is_duration(type_):
        return text.cast(pa.int64()).cast(type_)
    return text.cast(type_)


def lines(batch: pa.RecordBatch, delimiter: str) -> pa.Buffer:
    """A record batch as CSV lines, without header.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"name": ["Ann, MD", "", None], "age": [30, 40, 50]})
    >>> print(lines(batch, ",").to_pybytes().decode(), end="")
    "Ann, MD",30
    "",40
    ,50
    """
    null = ONE_COLUMN_NULL if batch.num_columns == 1 else ""
    cells = [
        _quoted(column, name, null, delimiter)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    rows = pc.binary_join_element_wise(
        *cells, delimiter, null_handling="replace", null_replacement=null
    )
    # The data buffer of an array of lines, each with its end, is the file's content.
    ended = pc.binary_join_element_wise(rows, "", "\n")
    _, offsets, data = ended.buffers()
    if data is None:
        return pa.py_buffer(b"")
    ends = np.frombuffer(offsets, np.int32)[ended.offset : ended.offset + len(ended) + 1]
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def header_line(names: list[str], delimiter: str) -> bytes:
    """The line of column names; ``sep=x`` bare would declare a delimiter."""
    special = (*DELIMITERS, delimiter, '"', "\r", "\n", "\ufeff", "sep=")
    cells = [
        '"' + name.replace('"', '""') + '"' if not name or any(s in name for s in special) else name
        for name in names
    ]
    return (delimiter.join(cells) + "\n").encode()


def _quoted(column: pa.Array, name: str, null: str, delimiter: str) -> pa.Array:
    """One column's cells as they stand in the file, null where the cell is null."""
    type_ = column.type
    if t.is_run_end_encoded(type_):
        return _quoted(pc.run_end_decode(column), name, null, delimiter)
    if t.is_dictionary(type_):
        return _quoted(column.dictionary, name, null, delimiter).take(column.indices)
    text = written(column, name)
    if not (t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)):
        return text
    needs = pc.or_(pc.equal(text, ""), pc.equal(text, null))
    for special in (*DELIMITERS, delimiter, '"', "\r", "\n"):
        needs = pc.or_(needs, pc.match_substring(text, special))
    if not pc.any(needs).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    quote = pa.scalar('"')
    return pc.if_else(needs, pc.binary_join_element_wise(quote, doubled, quote, ""), text)


_KINDS = {
    "csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet", "pq": "parquet",
    "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
    **{end: kind for kind, one in FOREIGN.items() if one.write is not None for end in one.endings},
}  # fmt: skip
_COMPRESSIONS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd"}


@dataclass(frozen=True)
class FileFormat:
    """A kind of file and its outer compression."""

    kind: str
    """``csv``, ``tsv``, ``parquet``, ``arrow``, or a kind of `FOREIGN`."""
    compression: Literal["gzip", "zstd"] | None = None

    @property
    def delimiter(self) -> str:
        """What stands between two cells of a text file."""
        return "\t" if self.kind == "tsv" else ","


def format_of(path: str, named: str | None = None) -> FileFormat:
    """The format a file is to be written in: as named by the user, else by the path's ending.

    Examples
    --------
    >>> format_of("people.csv.gz")
    FileFormat(kind='csv', compression='gzip')
    >>> format_of("out.dat", "parquet").kind
    'parquet'
    """
    text = named.lower().lstrip(".") if named is not None else PurePath(path).name.lower()
    parts = text.split(".")
    compression = _COMPRESSIONS.get(parts[-1])
    if compression is not None:
        parts.pop()
    kind = _KINDS.get(parts[-1]) if parts and (named is not None or len(parts) > 1) else None
    if kind is None:
        given = parts[-1] if parts else text
        raise ParameterError(
            f"cannot tell the format to write from `{named or PurePath(path).name}`",
            where=path,
            remedy="Use the ending .csv, .tsv, .parquet, .arrow, or one of another program that is "
            f"written, such as .xlsx, .sav or .jsonl. {did_you_mean(given, _KINDS)}",
        )
    if named is not None and (said := _said_by(path)) not in (None, kind):
        raise ParameterError(
            f"the file is named {said} and would be written as {kind}",
            where=path,
            remedy="Leave out the format, or change the ending.",
        )
    if compression is not None and kind not in ("csv", "tsv"):
        raise ParameterError(
            f"{kind} files are compressed inside or not at all, not as a whole",
            where=path,
            remedy=f"Leave out the last ending: .{parts[-1]} is enough.",
        )
    return FileFormat(kind, compression)  # type: ignore[arg-type]


def _said_by(path: str) -> str | None:
    """The kind of file that a path's ending says, if it says one."""
    parts = PurePath(path).name.lower().split(".")
    if parts[-1] in _COMPRESSIONS:
        parts.pop()
    return _KINDS.get(parts[-1]) if len(parts) > 1 else None
