"""What is wrong with a text file that could not be read, and where.

The fast reader only says that something is wrong, and quotes the line, which may hold somebody's
data. So the file is read once more, slowly, for the line or the byte, and nothing is quoted.
"""

from __future__ import annotations

import csv
import io
from typing import Any, BinaryIO

from sfumato.errors import SourceError
from sfumato.tables.dialect import (
    Layout,
    first_undecodable,
    long_cells_allowed,
    looks_western,
    never_closed,
    runs_to_the_end,
)

__all__ = ["ragged_line", "unclosed_quote", "undecodable_bytes"]


def undecodable_bytes(file: BinaryIO, name: str, encoding: str, packed: bool) -> SourceError | None:
    """The error for bytes that do not fit the encoding; None if all do."""
    found = first_undecodable(file, encoding)
    if found is None:
        return None
    offset, around = found
    western = encoding == "utf-8" and looks_western(around)
    hint = "it looks like cp1252 (Windows Western)" if western else "e.g. cp1252 or latin-1"
    unpacked = " of the unpacked file" if packed else ""
    return SourceError(
        f"the byte at offset {offset:,}{unpacked} is not {encoding}",
        where=name,
        remedy=f"Say which encoding the file has with --encoding (encoding=…): {hint}.",
    )


def ragged_line(file: BinaryIO, name: str, encoding: str, layout: Layout) -> SourceError | None:
    """The error for the first line with too many or too few cells; None if there is none."""
    width = len(layout.names)
    reader = _reader(file, encoding, layout, strict=False)
    ended, declaration = 0, layout.declared
    with long_cells_allowed():
        for record in reader:
            if record and declaration:
                declaration = False
            elif record and len(record) != width:
                first, lines = ended + 1, reader.line_num - ended
                cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
                return SourceError(
                    f"line {first:,} has {cells}, the {_first(layout)} has {width}",
                    where=name,
                    remedy=f"It runs over {lines:,} lines: a quote may not be closed."
                    if lines > 1
                    else "Quote cells that contain the delimiter, or say which it is with "
                    "--delimiter (delimiter=…).",
                )
            ended = reader.line_num
    return None


def unclosed_quote(file: BinaryIO, name: str, encoding: str, layout: Layout) -> SourceError | None:
    """The error for a quote that runs to the end of the file; None if there is none."""
    reader = _reader(file, encoding, layout, strict=True)
    ended = 0
    with long_cells_allowed():
        while True:
            try:
                if next(reader, None) is None:
                    return None
            except csv.Error as error:
                if not runs_to_the_end(error):
                    return None  # strict about something that the fast reader tolerates
                return never_closed(ended + 1, name)
            ended = reader.line_num


def _first(layout: Layout) -> str:
    return "header" if layout.header else "first line"


def _reader(file: BinaryIO, encoding: str, layout: Layout, *, strict: bool) -> Any:
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    text = io.TextIOWrapper(file, encoding=codec, errors="replace", newline="")
    return csv.reader(text, delimiter=layout.delimiter, strict=strict)
