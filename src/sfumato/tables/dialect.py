"""How the cells of a text file are laid out: its delimiter, its header, its columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sfumato.engines.writing import DELIMITERS
from sfumato.errors import ParameterError, SourceError

__all__ = ["Layout", "layout_of", "long_cells_allowed", "never_closed", "runs_to_the_end"]

_LOOKED_AT = 2000
"""Records of the sample that decide."""


@dataclass(frozen=True)
class Layout:
    """How a text file is cut into cells.

    Parameters
    ----------
    delimiter
        What stands between cells.
    names
        The columns, as the header names them or ``column_1``, ….
    header
        Whether there is a header.
    above
        Bytes of UTF-8 above the first row: byte order mark, blank lines and header, except for the
        last line end. (It reads as a blank line, and keeps a byte order mark in the first cell
        from being taken for the file's.)
    empty
        Whether the file is known to hold no rows.
    repetitive
        For each column whether its values recur so often that a dictionary pays.
    line_bytes
        Mean length of a line.
    """

    delimiter: str
    names: tuple[str, ...]
    header: bool
    above: int
    empty: bool
    repetitive: tuple[bool, ...]
    line_bytes: float


def layout_of(
    text: str, name: str, *, complete: bool, delimiter: str | None, header: bool, tabs: bool
) -> Layout:
    """The layout of a file by its beginning.

    Parameters
    ----------
    text
        The beginning of the file.
    name
        The file, for messages.
    complete
        Whether that is all of it.
    delimiter
        As the user gave it; None guesses.
    header
        Whether the first line names the columns.
    tabs
        Whether the file's name speaks for tabs.

    Examples
    --------
    >>> found = layout_of("id;name\\n1;Ann, MD\\n", "a.csv", complete=True, delimiter=None,
    ...                   header=True, tabs=False)
    >>> found.delimiter, found.names
    (';', ('id', 'name'))
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ParameterError(
            "a delimiter is one character, and neither a quote nor a line end",
            where=name,
            remedy="Write e.g. --delimiter ';', or leave it out to have it found.",
        )
    start = len(text) - len(text.lstrip("\ufeff\r\n"))
    above, text = text[:start], text[start:]
    if not text.strip():
        raise SourceError("the file is empty", where=name, remedy="Export it again.")
    if not complete:
        # The last line may be cut off; a file of one long line is looked at as it is.
        text = text[: text.rfind("\n") + 1] or text
    order = ("\t", *DELIMITERS) if tabs else DELIMITERS
    # A delimiter that does not occur cuts nothing; where none fits, the first one is taken.
    likely = [d for d in order if d in text or d == order[0]]
    cut = {d: _records(text, d) for d in ([delimiter] if delimiter else likely)}
    found = max(cut, key=lambda d: _fitness(cut[d]))
    records = cut[found]
    names = tuple(records[0])
    if header:
        records = records[1:]
        above += text[: _end_of_first(text, found, name, 1 + len(above.splitlines()))]
    else:
        names = tuple(f"column_{i + 1}" for i in range(len(names)))
    return Layout(
        delimiter=found,
        names=names,
        header=header,
        above=len((above[:-1] if above.endswith(("\n", "\r")) else above).encode()),
        empty=complete and not records,
        repetitive=tuple(_recurs(records, at) for at in range(len(names))),
        line_bytes=max(len(text) / max(text.count("\n"), 1), 1.0),
    )


def _records(text: str, delimiter: str) -> list[list[str]]:
    """The first records of a text; empty lines are none."""
    records: list[list[str]] = []
    with long_cells_allowed():
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if record:
                records.append(record)
            if len(records) >= _LOOKED_AT:
                break
    return records


def _end_of_first(text: str, delimiter: str, name: str, line: int) -> int:
    """Where the first record ends, its line end included."""
    lines = io.StringIO(text, newline="")
    with long_cells_allowed():
        next(csv.reader(iter(lines.readline, ""), delimiter=delimiter))
        end = lines.tell()
        try:
            next(csv.reader(io.StringIO(text[:end], newline=""), delimiter=delimiter, strict=True))
        except csv.Error as error:
            if runs_to_the_end(error):
                raise never_closed(line, name) from None
    return end


def runs_to_the_end(error: csv.Error) -> bool:
    """Whether Python's reader came to the end within quotes."""
    return "unexpected end" in str(error)


def never_closed(line: int, name: str) -> SourceError:
    """The error for a quote that swallows the rest of the file."""
    return SourceError(
        f"a quote opens in line {line:,} and is never closed",
        where=name,
        remedy="Close it, or double it if it belongs to the text.",
    )


def _fitness(records: list[list[str]]) -> tuple[float, int]:
    """How well a delimiter fits: the share of records cut into as many cells as the header."""
    width = len(records[0])
    if width < 2:
        return (0.0, 0)
    return (sum(len(record) == width for record in records) / len(records), width)


def _recurs(rows: list[list[str]], at: int) -> bool:
    cells = [row[at] for row in rows if at < len(row)]
    return 2 * len(set(cells)) <= len(cells)


@contextmanager
def long_cells_allowed() -> Iterator[None]:
    """Python's reader refuses long cells unless told otherwise."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
