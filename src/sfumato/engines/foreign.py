"""Files of other programs: Excel, SPSS, Stata, SAS, SQLite, JSON, ORC and Avro.

Such a file is read whole and written whole. Each kind has one reader, which gives an Arrow table,
and one writer where the kind can be written. Cells of one column that have several types become
text. What other libraries say when they fail may quote cells and is not passed on. What is written
tells nothing but the rows: not when it was made, and the same rows are the same bytes.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import re
import shutil
import sqlite3
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from sfumato.budget import PROGRAM_MEMORY, Budget, available_memory
from sfumato.engines.protocol import MOST_COLUMNS, column_of
from sfumato.errors import (
    ColumnError,
    EngineMemoryError,
    MissingExtraError,
    ParameterError,
    SfumatoError,
    SourceError,
    did_you_mean,
    spell,
)


@dataclass(frozen=True)
class Foreign:
    """A kind of file.

    Attributes
    ----------
    title
        What people call it.
    endings
        Of its files' names, without the dot, the usual one first.
    read
        Gives the rows of a path; a part (a sheet or a table) may be chosen.
    write
        Writes rows to a path; None where the format cannot be written.
    parts
        What a file may hold several of.
    """

    title: str
    endings: tuple[str, ...]
    read: Callable[[Path, str | None], pa.Table]
    write: Callable[[pa.Table, Path], None] | None = None
    parts: str | None = None


def read_foreign(
    kind: str, path: Path, part: str | None, name: str, memory: int | None = None
) -> pa.Table:
    """The rows of a file of another program.

    Parameters
    ----------
    kind
        A key of `FOREIGN`.
    part
        The sheet or table; None where there is only one.
    name
        How messages call the file.
    memory
        Bytes that reading may take; None is all that are free.
    """
    foreign = FOREIGN[kind]
    if part is not None and foreign.parts is None:
        raise SourceError(
            f"{foreign.title} has no parts to choose with #",
            where=name,
            remedy="Leave out # and what follows.",
        )
    given = _given.set(memory)
    try:
        with _in_our_words(foreign.title, name):
            rows = foreign.read(path, part)
            _check_width(rows.num_columns)
    finally:
        _given.reset(given)
    return type(rows).from_arrays([_flat(column) for column in rows.columns], rows.column_names)


def parts_of(path: Path) -> tuple[str, ...]:
    """The sheets or tables of a file that may hold several; whoever reads it says what is wrong."""
    with suppress(Exception):
        with path.open("rb") as file:
            first = file.read(16)
        if first.startswith(b"PK"):
            _check_book(path)
            with path.open("rb") as file, closing(_workbook(file)) as book:
                return tuple(book.sheetnames)
        if first.startswith(b"SQLite format 3"):
            place = f"{path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(place, uri=True)) as database:
                return tuple(_tables_in(database))
    return ()


def write_foreign(kind: str, rows: pa.Table, path: Path, name: str) -> None:
    """Write rows as a file of another program."""
    foreign = FOREIGN[kind]
    assert foreign.write is not None
    try:
        foreign.write(rows, path)
    except (SfumatoError, OSError):
        raise
    except Exception as error:
        if _no_room(error):
            raise OSError(str(error)) from None
        raise ParameterError(
            f"{foreign.title} cannot hold this table ({type(error).__name__}): a name of a column "
            "or a value is not allowed there",
            where=name,
            remedy="Write Parquet or CSV, or rename the columns.",
        ) from None


def _no_room(error: Exception) -> bool:
    """Whether a library says that bytes could not be written."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return str(error) == "Unable to write data"


def check_room(kind: str, cells: int, memory: int | None, name: str, text: int = 0) -> None:
    """Refuse a file that is written, and read back, whole where that takes more than the memory.

    Bytes of `text` count besides the cells, once they are known.

    Examples
    --------
    >>> check_room("orc", 1_000, 1 << 28, "people.orc")
    >>> check_room("excel", 10_000_000, 1 << 28, "people.xlsx")
    Traceback (most recent call last):
    sfumato.errors.EngineMemoryError: people.xlsx: 10,000,000 cells take about 1,081 MiB until an...
    """
    if kind not in FOREIGN or memory is None:
        return
    needed = _WRITTEN.get(kind, _CELL) * cells + _LETTER * text
    if not Budget(memory=memory).holds(needed):
        raise EngineMemoryError(
            f"{cells:,} cells take about {needed + PROGRAM_MEMORY >> 20:,} MiB until "
            f"{FOREIGN[kind].title} is written and read back, more than the {memory >> 20:,} MiB "
            "allowed",
            where=name,
            remedy="Write Parquet or CSV, which are written in parts, or allow more memory (e.g. "
            f"{spell('memory', '4GB')}).",
        )


_WRITTEN = {"json": 160, "avro": 120, "sqlite": 70, "json lines": 60, "orc": 30}
"""Bytes that a cell takes while a file is written and read back, measured; of others 100."""


def carried(kind: str, schema: pa.Schema, name: str) -> pa.Schema:
    """The types in which a kind of file carries columns; what it cannot carry is refused."""
    numbers = kind in ("sqlite", "spss", "stata", "sas transport")
    texts = kind in ("json", "json lines", "sqlite")
    types = {
        **dict.fromkeys(("float", "decimal"), pa.float64()),
        **dict.fromkeys(("integer", "duration"), pa.int64()),
        "boolean": pa.int64() if numbers else pa.bool_(),
        "date": pa.string() if texts else pa.date32(),
        "timestamp": pa.string() if texts else pa.timestamp("us"),
        "binary": pa.binary() if kind in ("sqlite", "avro", "orc") else None,
    }
    fields = []
    for field in schema:
        held = types.get(column_of(field.name, field.type).kind, pa.string())
        if held is None:
            raise ParameterError(
                f"column `{field.name}` holds binary values, which {FOREIGN[kind].title} cannot "
                "carry",
                where=name,
                remedy="Write Parquet, or leave the column out.",
            )
        fields.append(pa.field(field.name, held))
    return pa.schema(fields)


@contextmanager
def _in_our_words(title: str, name: str) -> Iterator[None]:
    try:
        yield
    except SfumatoError as error:
        if error.where is None:
            raise type(error)(error.what, where=name, remedy=error.remedy) from None
        raise
    except ImportError:
        raise MissingExtraError("formats", f"reading {title}") from None
    except MemoryError:
        raise SourceError(
            "its rows need more memory than is available", where=name, remedy=_IN_PARTS
        ) from None
    except Exception as error:
        raise SourceError(
            f"{title} is damaged, incomplete or of a version that is not known "
            f"({type(error).__name__})",
            where=name,
            remedy="Export it again, as CSV or Parquet if need be.",
        ) from None


# What is small as a file may be endless as a table


_IN_PARTS = "Export it as Parquet or CSV, which are read in parts, or give more memory."
_CELL, _LETTER = 100, 4
"""Bytes that a cell takes as a Python value, about, and every letter of it until it is a column."""
_NUMBER = 80
"""Bytes that a number of a statistics program takes until it is a column, measured."""
_COPIES = 3
"""How many times the bytes of a column Arrow takes to read it."""
_OBJECTS = 25
"""Bytes that a byte of JSON takes as Python values, about."""
_LARGEST_BOOK = 2 << 30
"""Bytes of the sheets of a workbook, unpacked; a million rows of twenty columns have half of it."""


def _check_width(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise ColumnError(
            f"the table has {columns:,} columns, more than {MOST_COLUMNS:,}",
            remedy="Choose columns in the program that makes it, or check the delimiter.",
        )


_given: ContextVar[int | None] = ContextVar("_given", default=None)
"""Bytes that reading may take, if somebody said so."""


def _room() -> tuple[int, str]:
    """Bytes that reading may take, and how to speak of them."""
    free, given = available_memory(), _given.get()
    if given is not None and given < free:
        return given, f"{given / 2**30:,.2f} GB may be used"
    return free, f"{free / 2**30:,.2f} GB are free"


def _check_memory(needed: float) -> None:
    room, said = _room()
    if needed > room:
        raise SourceError(
            f"reading it would take about {needed / 2**30:,.2f} GB of memory, and {said}",
            remedy=_IN_PARTS,
        )


Row = TypeVar("Row", bound=Collection[Any])


def _that_fit(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows, as long as there is memory to hold them; letters count where it is limited."""
    (room, said), limited = _room(), _given.get() is not None
    held = 0
    for row in rows:
        held += _CELL * (1 + len(row))
        if limited:
            cells: Iterable[Any] = row.values() if isinstance(row, dict) else row
            held += _LETTER * sum(len(c) for c in cells if isinstance(c, (str, bytes)))
        if held > room:
            raise SourceError(
                f"its rows need more memory than is available: {said}", remedy=_IN_PARTS
            )
        yield row


_SOME = 1 << 14
"""Cells that are Python values at the same time."""


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists and maps as JSON text, since no engine counts them."""
    if not t.is_nested(column.type):
        return column
    parts = [
        [
            None if v is None else json.dumps(v, default=str)
            for v in chunk.slice(at, _SOME).to_pylist()
        ]
        for chunk in column.chunks
        for at in range(0, len(chunk), _SOME)
    ]
    return pa.chunked_array([pa.array(texts, pa.string()) for texts in parts], pa.string())


# Rows as Python values


def _table(names: Sequence[Any], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """A table from rows of Python values, each column of the one type that its cells have."""
    _check_width(len(names))
    held = list(_that_fit(rows))
    columns = []
    for at, name in enumerate(names):
        cells = [row[at] if at < len(row) else None for row in held]
        columns.append(_array(cells))
        if _mixes(cells):
            warnings.warn(
                f"column `{name}` has fractions and whole numbers beyond 2 to the 53, which no "
                "floating-point number holds exactly; it is read as text",
                stacklevel=2,
            )
    return pa.Table.from_arrays(columns, names=[str(name) for name in names])


def _array(cells: list[Any]) -> pa.Array:
    """Cells as one type: numbers, dates or points in time if all are, else text.

    Examples
    --------
    >>> _array([1, 2.5, None]).to_pylist(), _array([1, "n/a"]).to_pylist()
    ([1.0, 2.5, None], ['1', 'n/a'])
    """
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {dt.date, dt.datetime} and dt.datetime in kinds:
        stamps = [
            c if c is None or isinstance(c, dt.datetime) else dt.datetime.combine(c, dt.time())
            for c in cells
        ]
        zone = any(c is not None and c.tzinfo is not None for c in stamps)
        if not zone and all(c is None or c.time() == dt.time() for c in stamps):
            return pa.array([None if c is None else c.date() for c in stamps], pa.date32())
        return pa.array(stamps, pa.timestamp("us", "UTC" if zone else None))
    if kinds <= {int, float} and float in kinds and not _mixes(cells):
        return pa.array([None if c is None else float(c) for c in cells], pa.float64())
    if len(kinds) <= 1:
        try:
            return pa.array(cells, from_pandas=False)
        except (pa.ArrowException, OverflowError):
            pass
    return pa.array([None if c is None else _spelled(c) for c in cells], pa.string())


def _mixes(cells: list[Any]) -> bool:
    """Whether fractions stand beside whole numbers that would lose digits as floats."""
    large = any(isinstance(c, int) and abs(c) > _EXACT and not _is_float(c) for c in cells)
    return large and any(isinstance(c, float) for c in cells)


def _is_float(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _spelled(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return json.dumps(cell, default=str) if isinstance(cell, (dict, list)) else str(cell)


def _part(part: str | None, known: Sequence[str], what: str) -> str:
    """The sheet or table that is meant."""
    if part is None and len(known) == 1:
        return known[0]
    if part in known:
        assert part is not None
        return part
    if not known:
        raise SourceError(f"the file holds no {what}", remedy=f"Give one that holds a {what}.")
    if part is None:
        shown = ", ".join(f"`{name}`" for name in known[:12])
        raise SourceError(
            f"the file holds {len(known)} {what}s: {shown}",
            remedy=f"Name one behind #, e.g. FILE#{known[0]}.",
        )
    raise SourceError(f"there is no {what} `{part}`", remedy=did_you_mean(part, known))


# Excel


def _check_book(path: Path) -> None:
    """Refuse archives that are no workbooks, and those that are small only while packed."""
    import zipfile

    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if "xl/workbook.xml" not in archive.namelist():
            raise SourceError(
                "this is a ZIP archive, not a table",
                remedy="Unpack it, or save it as .xlsx or CSV.",
            )
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        if unpacked > _LARGEST_BOOK:
            raise SourceError(
                f"the workbook has {unpacked / 2**30:,.1f} GB when it is unpacked, more than "
                f"{_LARGEST_BOOK / 2**30:,.0f} GB",
                remedy="Save the sheet as CSV.",
            )
        # what cells take is counted as they come, but texts that they share are read before
        shared = sum(part.file_size for part in parts if part.filename == "xl/sharedStrings.xml")
        _check_memory(2 * (unpacked + shared))


def _read_excel(path: Path, part: str | None) -> pa.Table:
    _check_book(path)
    # given a name, the library judges by its ending
    with path.open("rb") as file, closing(_workbook(file)) as book:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what a sheet says of its size need not be so
        filled = [s.title for s in book.worksheets if any(_filled(row) for row in s.values)]
        sheet = book[_part(part, filled or book.sheetnames, "sheet")]
        rows = list(_that_fit(row for row in sheet.values if _filled(row)))
    if not rows:
        raise SourceError("the sheet is empty", remedy="Choose another sheet with #.")
    width = max(at + 1 for row in rows for at, cell in enumerate(row) if cell is not None)
    at = _header(rows)
    head = [*rows[at], *[None] * width][:width]
    names = [f"column_{at + 1}" if cell is None else _spelled(cell) for at, cell in enumerate(head)]
    return _table(names, ([_excel_cell(cell) for cell in row[:width]] for row in rows[at + 1 :]))


def _header(rows: Sequence[Sequence[Any]]) -> int:
    """Which row names the columns: the first that is more than half as wide as the widest.

    Rows above it are titles. A row of numbers names nothing: it would print somebody's cells.
    """
    filled = [sum(cell is not None for cell in row) for row in rows[:_TITLES]]
    at = next(at for at, cells in enumerate(filled) if 2 * cells > max(filled))
    cells = [cell for cell in rows[at] if cell is not None]
    if 2 * sum(isinstance(cell, str) for cell in cells) <= len(cells) and len(rows) > at + 1:
        raise SourceError(
            "the first row holds values, not names of columns",
            remedy="Put a row with names above it.",
        )
    return at


def _workbook(file: BinaryIO) -> Any:
    import openpyxl

    return openpyxl.load_workbook(file, read_only=True, data_only=True)


def _filled(row: Sequence[Any]) -> bool:
    return any(cell is not None for cell in row)


def _excel_cell(cell: Any) -> Any:
    """Errors such as #N/A are missing values."""
    return None if isinstance(cell, str) and cell in _EXCEL_ERRORS else cell


_EXCEL_ERRORS = {"#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"}
_NO_XML = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x{FFFE}\x{FFFF}]"
_TITLES = 50
"""Rows among which the names of columns are looked for."""
_EXCEL_ROWS = 1_048_576
_EXCEL_FIRST_DAY = dt.date(1900, 3, 1)
_EXACT = 2**53


def _write_excel(rows: pa.Table, path: Path) -> None:
    try:
        import openpyxl
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.writer.excel import ExcelWriter
    except ImportError:
        raise MissingExtraError("formats", "writing an Excel workbook") from None
    _check_for_excel(rows)
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("release")

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        made = WriteOnlyCell(sheet, value)
        made.data_type = "s"  # never a formula
        return made

    sheet.append([cell(name) for name in rows.schema.names])
    for batch in rows.to_batches():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            sheet.append([cell(value) for value in row])
    book.properties.created = book.properties.modified = _NO_DAY
    with _Timeless(path, "w", zipfile.ZIP_DEFLATED) as archive:
        ExcelWriter(book, archive).save()


_NO_DAY = dt.datetime(1980, 1, 1)
"""What stands where a format wants to say when a file was made: the first day of zip archives."""


class _Timeless(zipfile.ZipFile):
    """An archive whose files are all of the same day."""

    def write(self, filename: Any, arcname: Any = None, *_: Any) -> None:
        with open(filename, "rb") as held, self.open(self._named(arcname), "w") as file:
            shutil.copyfileobj(held, file)

    def writestr(self, name: Any, data: Any, *_: Any) -> None:
        super().writestr(self._named(name), data)

    def _named(self, name: Any) -> zipfile.ZipInfo:
        told = zipfile.ZipInfo(str(name))  # of the first day, if none is said
        told.compress_type = zipfile.ZIP_DEFLATED
        return told


def _check_for_excel(rows: pa.Table) -> None:
    """Refuse what a workbook would lose or change."""
    lost = None
    if rows.num_rows >= _EXCEL_ROWS:
        lost = f"there are more than {_EXCEL_ROWS - 1:,} rows"
    empty = pa.array([True] * rows.num_rows)
    for column in rows.columns:
        empty = pc.and_(empty, column.combine_chunks().is_null())
        if pa.types.is_integer(column.type):
            if _beyond_exact(column):
                lost = "there are numbers of more than 15 digits, which Excel would round"
        elif pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            first = pa.scalar(_EXCEL_FIRST_DAY, pa.date32()).cast(column.type)
            if pc.any(pc.less(column, first)).as_py():
                lost = "there are dates before March 1900, which Excel cannot hold"
        elif _holds(column, _NO_XML):
            lost = "there are characters that no workbook can hold"
    if rows.num_columns and pc.any(empty).as_py():
        lost = "there are rows without any value, which a workbook would lose"
    if lost is not None:
        raise ParameterError(lost, remedy="Write Parquet or CSV.")


def _holds(column: pa.ChunkedArray, pattern: str) -> bool:
    text = pa.types.is_string(column.type)
    return text and bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


# SPSS, Stata and SAS


def _read_statistics(reader: str, path: Path, part: str | None) -> pa.Table:
    import pyreadstat

    read = getattr(pyreadstat, reader)
    _, told = read(str(path), metadataonly=True)
    widths, size = told.variable_storage_width, path.stat().st_size
    held = [
        _CELL + _LETTER * widths[name] if kind == "string" else _NUMBER
        for name, kind in told.readstat_variable_types.items()
    ]
    # SAS transport files do not say how many rows they have, and pack none of them.
    rows = told.number_rows or size // max(sum(widths.values()), 1)
    _check_memory(max(rows * sum(held), 4 * size))
    columns, meta = read(str(path), output_format="dict")
    arrays = []
    for name, cells in columns.items():
        labels = meta.variable_value_labels.get(name, {})
        arrays.append(_labelled(_statistics_array(cells), labels))
    return pa.Table.from_arrays(arrays, names=list(columns))


def _statistics_array(cells: Any) -> pa.Array:
    """Numbers of these programs are floats; those that are all whole are integers."""
    numbers = np.asarray(cells)
    if numbers.dtype.kind == "f":
        missing = np.isnan(numbers)
        present = numbers[~missing]
        exact = np.isfinite(present) & (np.abs(present) < _EXACT)
        if exact.all() and (present == np.floor(present)).all():
            whole = np.where(missing, 0, numbers).astype(np.int64)
            return pa.array(whole, pa.int64(), mask=missing)
        return pa.array(numbers, pa.float64(), mask=missing)
    values = [None if _missing(cell) else cell for cell in cells]
    return _array(values)


def _missing(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and cell != cell)


def _labelled(array: pa.Array, labels: dict[Any, str]) -> pa.Array:
    """Labels in place of codes where every code has one; `-9 = refused` alone names no category."""
    codes = array.unique().drop_null().to_pylist()
    if not labels or not codes or not all(code in labels for code in codes):
        return array
    named = pa.array([str(labels[code]) for code in codes], pa.string())
    if len(set(named.to_pylist())) < len(codes):
        return array
    at = pc.index_in(array, value_set=pa.array(codes, array.type))
    return pa.DictionaryArray.from_arrays(at, named)


def _write_statistics(writer: str, title: str, rows: pa.Table, path: Path) -> None:
    try:
        import pandas as pd
        import pyreadstat
    except ImportError:
        raise MissingExtraError("formats", f"writing {title}") from None
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if not pa.types.is_floating(column.type) and _beyond_exact(column):
            raise ParameterError(
                f"column `{name}` has whole numbers beyond 2 to the 53, which {title} cannot "
                "hold exactly",
                remedy="Write Parquet or CSV, or make the column text.",
            )
    frame = pd.DataFrame(
        {
            name: pd.Series(column.to_pylist(), dtype=_pandas_type(column))
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        }
    )
    getattr(pyreadstat, writer)(frame, str(path))
    end, moment, none = _MOMENTS[writer]
    with path.open("r+b") as file:
        head = file.read(4096)
        head = head[: match.start() if (match := re.search(end, head)) else 0]
        file.seek(0)
        file.write(re.sub(moment, none, head))


_MOMENTS = {
    "write_sav": (
        rb"(?s)(?<=^.{109})", rb"\d\d \w{3} \d\d\d\d:\d\d:\d\d", b"01 Jan 8000:00:00"),
    "write_dta": (rb"</header>", rb"\d\d \w{3} \d{4} \d\d:\d\d", b"01 Jan 1980 00:00"),
    "write_xport": (
        rb"HEADER RECORD\*+NAM", rb"\d\d\w{3}\d\d:\d\d:\d\d:\d\d", b"01JAN80:00:00:00"),
}  # fmt: skip
"""Where the head of a file ends, how it says when it was made, and the same of no day."""


def _beyond_exact(column: pa.ChunkedArray) -> bool:
    """Whether a column has numbers so large that floats do not hold all whole ones."""
    if not (t.is_integer(column.type) or t.is_floating(column.type)):
        return False
    large = pc.or_(pc.greater(column, _EXACT), pc.less(column, -_EXACT))
    return bool(pc.any(large).as_py())


def _pandas_type(column: pa.ChunkedArray) -> str:
    if t.is_integer(column.type):
        return "float64" if column.null_count else "int64"
    return "float64" if t.is_floating(column.type) else "object"


# SQLite


def _read_sqlite(path: Path, part: str | None) -> pa.Table:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        chosen = _part(part, _tables_in(database), "table")
        quoted = '"' + chosen.replace('"', '""') + '"'
        found = database.execute(f"SELECT * FROM {quoted}")
        names = [column[0] for column in found.description]
        return _table(names, found)


def _tables_in(database: sqlite3.Connection) -> list[str]:
    listed = database.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    return [name for (name,) in listed]


def _write_sqlite(rows: pa.Table, path: Path) -> None:
    types = {"integer": "INTEGER", "float": "REAL", "binary": "BLOB"}
    held = [column_of(field.name, field.type) for field in rows.schema]
    columns = ", ".join(
        '"' + one.name.replace('"', '""') + '" ' + types.get(one.kind, "TEXT") for one in held
    )
    marks = ", ".join("?" * rows.num_columns)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = OFF")  # a file beside it, which could be left over
        database.execute(f"CREATE TABLE release ({columns})")
        for batch in rows.to_batches():
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            database.executemany(f"INSERT INTO release VALUES ({marks})", values)


# JSON


def _read_json(path: Path, part: str | None) -> pa.Table:
    """A list of objects, or an object whose only list they are."""
    _check_memory(_OBJECTS * path.stat().st_size)
    read = json.loads(path.read_bytes())
    if isinstance(read, dict):
        if len({len(v) if isinstance(v, list) else None for v in read.values()} | {None}) == 2:
            columns = [v for v in read.values() if isinstance(v, list)]
            if len(columns) == len(read) and not any(
                isinstance(c, dict) for v in columns for c in v
            ):
                return _dates_read(_table(list(read), zip(*columns, strict=True)))
        lists = [v for v in read.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
        read = lists[0] if len(lists) == 1 else [read]
    if not isinstance(read, list) or not all(isinstance(row, dict) for row in read):
        raise SourceError(
            "this JSON is not a list of objects, one for each row",
            remedy="Write one object a row, with the columns' names as keys.",
        )
    return _dates_read(_of_objects(_flattened(row) for row in read))


def _of_objects(objects: Iterable[dict[str, Any]], names: Sequence[str] = ()) -> pa.Table:
    """Flat objects as rows; `names` are those of the columns where there are no objects."""
    rows = list(objects)
    keys = list(dict.fromkeys(key for row in rows for key in row)) or names
    return _table(keys, ([row.get(key) for key in keys] for row in rows))


def _flattened(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Objects inside objects as columns ``outer.inner``."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict) and value:
            flat |= _flattened(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def json_kind(path: Path) -> str:
    """Whether a file is one JSON document, or one on each of several lines."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        lines = list(islice((text for text in file if text.strip()), 2))
    try:
        several = len(lines) > 1 and isinstance(json.loads(lines[0]), dict)
    except ValueError:
        several = False
    return "json lines" if several else "json"


def _read_json_lines(path: Path, part: str | None) -> pa.Table:
    from pyarrow.json import ReadOptions, read_json

    _check_memory(4 * path.stat().st_size)
    try:
        rows = read_json(str(path), ReadOptions(block_size=1 << 26))
    except pa.ArrowInvalid:
        return _json_lines_by_hand(path)
    if any(_beyond_exact(column) for column in rows.columns):
        return _json_lines_by_hand(path)  # whole numbers of any length, which Arrow makes floats
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        rows = rows.flatten()
    return _dates_read(rows)


def _json_lines_by_hand(path: Path) -> pa.Table:
    """Lines whose cells change their type, which Arrow's reader refuses."""
    _check_memory(_OBJECTS * path.stat().st_size)
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if not isinstance(row, dict):
                    raise SourceError(
                        f"line {number:,} is not a JSON object",
                        remedy="Write one object a line, with the columns' names as keys.",
                    )
                rows.append(_flattened(row))
    return _dates_read(_of_objects(rows))


def _dates_read(rows: pa.Table) -> pa.Table:
    """JSON has no dates: text that is an ISO date throughout is one."""
    for at, field in enumerate(rows.schema):
        column = rows.column(at)
        if pa.types.is_string(field.type) and column.null_count < len(column):
            fits = pc.all(pc.match_substring_regex(column, r"^\d{4}-\d\d-\d\d$")).as_py()
            if not fits:
                continue
        elif not pa.types.is_timestamp(field.type):
            continue
        try:
            rows = rows.set_column(at, field.name, column.cast(pa.date32()))
        except pa.ArrowInvalid:
            continue
    return rows


def _write_json(rows: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for at, text in enumerate(_objects(rows)):
            file.write(",\n" if at else "\n")
            file.write(text)
        file.write("\n]\n")


def _write_json_lines(rows: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in _objects(rows))


def _objects(rows: pa.Table) -> Iterator[str]:
    for batch in rows.to_batches():
        for row in batch.to_pylist():
            yield json.dumps(row, ensure_ascii=False)


# ORC and Avro


def _read_orc(path: Path, part: str | None) -> pa.Table:
    import pyarrow.orc

    file = pyarrow.orc.ORCFile(str(path))
    _check_memory(8.0 * file.nrows * len(file.schema))
    stripes: list[pa.RecordBatch] = []
    held = 0
    for at in range(file.nstripes):
        stripes.append(file.read_stripe(at))
        held += stripes[-1].nbytes
        _check_memory(_COPIES * held * file.nstripes / (at + 1))
    return pa.Table.from_batches(stripes, file.schema)


def _write_orc(rows: pa.Table, path: Path) -> None:
    import pyarrow.orc

    with path.open("wb") as file:
        sink = _Patient(file)
        pyarrow.orc.write_table(rows, sink, compression="zstd")
    if sink.error is not None:
        raise sink.error


class _Patient(io.RawIOBase):
    """A file that keeps its errors for later: ORC's writer ends the process for them."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.given = file, 0
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        self.given += len(data)
        return len(data)

    def tell(self) -> int:
        return self.given


def _read_avro(path: Path, part: str | None) -> pa.Table:
    import fastavro

    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        names = [field["name"] for field in schema["fields"]]
        return _of_objects(_that_fit(_flattened(record) for record in reader), names)


def _write_avro(rows: pa.Table, path: Path) -> None:
    try:
        import fastavro
    except ImportError:
        raise MissingExtraError("formats", "writing Avro") from None

    types: dict[str, Any] = {
        "date": {"type": "int", "logicalType": "date"},
        "timestamp": {"type": "long", "logicalType": "local-timestamp-micros"},
        "boolean": "boolean",
        "integer": "long",
        "float": "double",
        "binary": "bytes",
    }
    held = [column_of(field.name, field.type) for field in rows.schema]
    fields = [{"name": c.name, "type": ["null", types.get(c.kind, "string")]} for c in held]
    schema = fastavro.parse_schema({"type": "record", "name": "release", "fields": fields})
    with path.open("wb") as file:
        records = (row for batch in rows.to_batches() for row in batch.to_pylist())
        # the mark between blocks, drawn anew for every file otherwise
        mark = hashlib.md5(repr(schema).encode(), usedforsecurity=False).digest()
        fastavro.writer(file, schema, records, codec="deflate", sync_marker=mark)


FOREIGN: dict[str, Foreign] = {
    "excel": Foreign("an Excel workbook", ("xlsx", "xlsm"), _read_excel, _write_excel, "sheet"),
    "spss": Foreign(
        "an SPSS file", ("sav", "zsav"), partial(_read_statistics, "read_sav"),
        partial(_write_statistics, "write_sav", "an SPSS file"),
    ),
    "stata": Foreign(
        "a Stata file", ("dta",), partial(_read_statistics, "read_dta"),
        partial(_write_statistics, "write_dta", "a Stata file"),
    ),
    "sas": Foreign("a SAS table", ("sas7bdat",), partial(_read_statistics, "read_sas7bdat")),
    "sas transport": Foreign(
        "a SAS transport file", ("xpt",), partial(_read_statistics, "read_xport"),
        partial(_write_statistics, "write_xport", "a SAS transport file"),
    ),
    "sqlite": Foreign(
        "an SQLite database", ("sqlite", "sqlite3", "db"), _read_sqlite, _write_sqlite, "table"
    ),
    "json": Foreign("a JSON document", ("json",), _read_json, _write_json),
    "json lines": Foreign(
        "a file of JSON lines", ("jsonl", "ndjson"), _read_json_lines, _write_json_lines
    ),
    "orc": Foreign("an ORC file", ("orc",), _read_orc, _write_orc),
    "avro": Foreign("an Avro file", ("avro",), _read_avro, _write_avro),
}  # fmt: skip
"""Every kind, by the word that the rest of the program uses for it."""
