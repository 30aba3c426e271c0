"""How the cells of a text file are laid out: its delimiter, its header, its columns.

Quotes come before delimiters. Whether a quote opens a cell depends on what stands before it, so
every delimiter that may be meant gets its own reading: cells that are quoted in full are taken out,
then delimiters are counted in the lines that remain. A quote left over speaks against the reading.

Where a file does not fit its layout, the fast reader only says that something is wrong and quotes
the line, which may hold somebody's data: the file is read once more, slowly, for the line or the
byte, and nothing is quoted.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from sfumato.engines.writing import DELIMITERS
from sfumato.errors import ParameterError, SourceError, spell
from sfumato.wording import counted

_LOOKED_AT = 2000
"""Records of the sample that decide."""
_IN_NO_TEXT = "\x1f"
"""Delimiter of a file of one column in which all the usual ones occur."""
_DECLARATION = re.compile(r"(\"?)sep=([^\"\r\n])\1(?:[\r\n]+|\Z)", re.IGNORECASE)
"""Excel's first line that names the delimiter; programs that quote every cell quote it, too."""
_MEANT_TO_QUOTE = re.compile(r'\s+"[^"]*(?:"[^"]*"[^"]*)*')
"""A cell with a blank before its quote, which is never closed in it."""
_NUMBER = re.compile(r"[-+]?\d[\d.\xa0\u202f ]*(?:,\d+)*")
"""A number, perhaps with decimal comma."""
_PROSE = re.compile(r"(?:[^,;\t|]|[,;] )*")
"""Text that nobody would cut further."""


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
    declared
        Whether a line above the header names the delimiter (``sep=;``).
    above
        Bytes of UTF-8 above the first row: byte order mark, blank lines, declaration and header,
        except for the last line end. (It reads as a blank line, and keeps a byte order mark in the
        first cell from being taken for the file's.)
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
    declared: bool
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
    start = len(text) - len(text.lstrip("\ufeff\r\n"))
    declaration = _DECLARATION.match(text, start)
    if declaration and declaration[1] and declaration[2] not in text[declaration.end() :]:
        declaration = None  # a column that is called so
    if declaration:
        delimiter = delimiter or declaration[2]
        start = declaration.end()
    if delimiter is not None and (
        not re.fullmatch(r'[^"\r\n]', delimiter) or not delimiter.isascii()
    ):
        raise ParameterError(
            "a delimiter is one ASCII character, and neither a quote nor a line end",
            where=name,
            remedy=f"Write e.g. {spell('delimiter', ';')}, or leave it out to have it found.",
        )
    above, text = text[:start], text[start:]
    if not text.strip(" \r\n"):
        raise SourceError("the file is empty", where=name, remedy="Export it again.")
    if not complete:
        # The last line may be cut off; a file of one long line is looked at as it is.
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    order = ("\t", *(d for d in DELIMITERS if d != "\t")) if tabs else DELIMITERS
    found = delimiter or _guessed(text, order, complete=complete, tabs=tabs)
    records = _records(text, found)
    _refuse_quotes(text, found, name, 1 + len(above.splitlines()))
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
        declared=declaration is not None,
        above=len((above[:-1] if above.endswith(("\n", "\r")) else above).encode()),
        empty=complete and not records,
        repetitive=tuple(_recurs(records, at) for at in range(len(names))),
        line_bytes=max(len(text) / max(text.count("\n"), text.count("\r"), 1), 1.0),
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


def _refuse_quotes(text: str, delimiter: str, name: str, line: int) -> None:
    """Refuse quotes that do not do what they were meant to: Arrow's reader takes them as they come.

    Only the beginning of the file is looked at: whoever writes quotes in another way does it there.
    """
    if '"' not in text:
        return
    lines = io.StringIO(text, newline="").readlines()
    reader, ended = csv.reader(lines, delimiter=delimiter, strict=True), 0
    with long_cells_allowed():
        for _ in range(_LOOKED_AT):
            try:
                record = next(reader, None)
            except csv.Error as error:
                if not runs_to_the_end(error):
                    raise goes_on(line + ended, name) from None
                return
            if record is None:
                return
            if (
                any(map(_MEANT_TO_QUOTE.fullmatch, record))
                and any(
                    _MEANT_TO_QUOTE.fullmatch(cell)  # and is not quoted itself
                    for bare in _cut("".join(lines[ended : reader.line_num]), delimiter, True).lines
                    for cell in bare.split(delimiter)
                )
            ):
                raise SourceError(
                    f"a quote stands behind a blank in line {line + ended:,}, where it quotes "
                    "nothing, and is not closed in its cell",
                    where=name,
                    remedy="Write the file without blanks between delimiters and quotes.",
                )
            ended = reader.line_num


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


def goes_on(line: int, name: str) -> SourceError:
    """The error for text between a closing quote and the end of its cell."""
    return SourceError(
        f"in the row that begins in line {line:,} a cell goes on behind its closing quote",
        where=name,
        remedy="Double quotes that belong to the text, or close the one that opens too early; "
        "nothing, not even a blank, may stand between a closing quote and the next delimiter.",
    )


@dataclass(frozen=True)
class _Cut:
    """A text as one delimiter cuts it: lines with ``q`` in place of quoted cells."""

    delimiter: str
    lines: list[str]

    @property
    def width(self) -> int:
        """Cells of the first line."""
        return self.lines[0].count(self.delimiter) + 1

    @property
    def fitting(self) -> float:
        """The share of lines with as many cells as the first and no quote out of place."""
        between = self.width - 1
        return sum(
            line.count(self.delimiter) == between and '"' not in line for line in self.lines
        ) / len(self.lines)

    @property
    def whole(self) -> float:
        """The share of cells that nobody would cut further."""
        cells = [cell for line in self.lines[:_LOOKED_AT] for cell in line.split(self.delimiter)]
        return sum(bool(_PROSE.fullmatch(c) or _NUMBER.fullmatch(c)) for c in cells) / len(cells)

    def makes_a_table(self, share: float) -> bool:
        """Whether more than a share of the lines below the first are cut alike.

        Decimal commas and the punctuation of prose cut nothing.
        """
        below = self.lines[1:]
        cut = [line for line in below if self.delimiter in line]
        alike = Counter(line.count(self.delimiter) for line in cut).values()
        return max(alike, default=0) > share * len(below) and not all(
            _NUMBER.fullmatch(line) or (self.delimiter == ";" and _PROSE.fullmatch(line))
            for line in cut
        )


def _cut(text: str, delimiter: str, complete: bool) -> _Cut:
    beside = rf"{re.escape(delimiter)}\r\n"
    closed = rf'"(?=[{beside}]|\Z)' if complete else rf'(?:"(?=[{beside}]|\Z)|\Z)'
    # what stands before the quote is looked at behind it: so quotes are searched for, and quickly
    quoted = rf'"(?<![^{beside}]")[^"]*+(?:""[^"]*+)*+{closed}'
    bare = re.sub(quoted, "q", text) if '"' in text else text
    lines = bare.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return _Cut(delimiter, [line for line in lines if line])


def _guessed(text: str, order: Sequence[str], *, complete: bool, tabs: bool) -> str:
    """The delimiter of a text; the first in order where several are as good."""
    cuts = [_cut(text, d, complete) for d in order if d in text or d == order[0]]
    tables = [cut for cut in cuts if cut.width > 1]
    if not tables:
        return _of_one_column(cuts, order)
    most = max(cut.fitting for cut in tables)
    best = [cut for cut in tables if cut.fitting == most]
    if len(best) == 1 or (tabs and best[0].delimiter == "\t"):
        return best[0].delimiter
    return max(best, key=lambda cut: (cut.whole, cut.width)).delimiter


def _of_one_column(cuts: Sequence[_Cut], order: Sequence[str]) -> str:
    """A delimiter that cuts nothing, so that the whole line is the cell.

    Where the usual delimiter cuts most lines below the first into a table, or another one nearly
    all of them, the first is a title and not a header. Then that delimiter is kept, and the reader
    refuses the file instead of guessing.
    """
    for cut, share in zip(cuts, (0.5, *[0.9] * len(cuts)), strict=False):
        if cut.makes_a_table(share):
            return cut.delimiter
    cutting = {cut.delimiter for cut in cuts if any(cut.delimiter in line for line in cut.lines)}
    return next((d for d in order if d not in cutting), _IN_NO_TEXT)


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


_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŒœŠšŽžÐðÞþ"
    "€‚„‘’“”–—…•§©®°±²³·ºª¼½¾¿¡«»£\xa0´µ×"
)
_CHUNK = 1 << 20


def checked_encoding(encoding: str) -> str:
    """The canonical name of an encoding that the user named."""
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        "a,b".encode(name)  # there are codecs that are about something else than text
        return name
    except (LookupError, UnicodeError, ValueError):
        raise ParameterError(
            f"there is no encoding `{encoding}`", remedy="Common ones are utf-8, cp1252 and utf-16."
        ) from None


def guessed_encoding(sample: bytes, *, complete: bool) -> str:
    """The encoding of a file by its first bytes.

    UTF-8 unless a byte order mark or zero bytes say otherwise, or the bytes cannot be UTF-8 and
    make sense as Windows-1252 (which contains Latin-1's letters).

    Examples
    --------
    >>> guessed_encoding("José".encode("cp1252"), complete=True)
    'cp1252'
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if sample.startswith(mark):
            return encoding
    even, odd = sample[:4096:2].count(0), sample[1:4096:2].count(0)
    if max(even, odd) > 0.4 * len(sample[:4096]) / 2:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=complete)
    except UnicodeDecodeError:
        return "cp1252" if looks_western(sample) else "utf-8"
    return "utf-8"


def looks_western(sample: bytes) -> bool:
    """Whether bytes make sense as Windows-1252: Western letters and signs, mostly beside words.

    Examples
    --------
    >>> looks_western("Chalon-sur-Saône, à côté".encode("cp1252")), looks_western(b"1,\\xff,2")
    (True, False)
    """
    if codecs.BOM_UTF16_LE in sample or codecs.BOM_UTF16_BE in sample:
        return False  # nobody writes thorn beside ÿ: this is the beginning of another file
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return False
    found = within = 0
    for match in re.finditer(r"[^\x00-\x7f]", text):
        at = match.start()
        if match[0] not in _WESTERN:
            return False
        found += 1
        beside = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
        within += any(c.isalpha() or c in " 0123456789" for c in beside)
    return found > 0 and 2 * within >= found


def first_undecodable(file: BinaryIO, encoding: str) -> tuple[int, int, bytes] | None:
    """Offset and line of the first byte that does not fit an encoding, and what is around it."""
    decoder = codecs.getincrementaldecoder(encoding)()
    read, line = 0, 1
    while True:
        chunk = file.read(_CHUNK)
        pending = decoder.getstate()[0]
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            whole = pending + chunk
            around = whole[max(error.start - 200, 0) : error.start + 200]
            line += whole[: error.start].count(b"\n") - pending.count(b"\n")
            return read - len(pending) + error.start, line, around
        except UnicodeError:  # of codecs that want a mark at the beginning
            return 0, 1, b""
        if not chunk:
            return None
        read += len(chunk)
        line += chunk.count(b"\n")


def undecodable_bytes(file: BinaryIO, name: str, encoding: str, packed: bool) -> SourceError | None:
    """The error for bytes that do not fit the encoding; None if all do."""
    found = first_undecodable(file, encoding)
    if found is None:
        return None
    offset, line, around = found
    western = encoding == "utf-8" and looks_western(around)
    hint = ": it looks like cp1252 (Windows Western)" if western else " or latin-1"
    unpacked = " of the unpacked file" if packed else ""
    return SourceError(
        f"the byte at offset {offset:,}{unpacked} is not {encoding} (line {line:,})",
        where=name,
        remedy=f"Say which encoding the file has, e.g. {spell('encoding', 'cp1252')}{hint}.",
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
                cells = counted(len(record), "cell")
                return SourceError(
                    f"line {first:,} has {cells}, the {_first(layout)} has {width}",
                    where=name,
                    remedy=f"It runs over {lines:,} lines: a quote may not be closed."
                    if lines > 1
                    else "Quote cells that contain the delimiter, or say which it is "
                    f"({spell('delimiter', ';')}).",
                )
            ended = reader.line_num
    return None


def unclosed_quote(file: BinaryIO, name: str, encoding: str, layout: Layout) -> SourceError | None:
    """The error for a quote that swallows lines below its own; None if there is none."""
    reader = _reader(file, encoding, layout, strict=True)
    ended = 0
    with long_cells_allowed():
        while True:
            try:
                if next(reader, None) is None:
                    return None
            except csv.Error as error:
                broken = never_closed if runs_to_the_end(error) else goes_on
                return broken(ended + 1, name)
            ended = reader.line_num


def _first(layout: Layout) -> str:
    return "header" if layout.header else "first line"


def _reader(file: BinaryIO, encoding: str, layout: Layout, *, strict: bool) -> Any:
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    text = io.TextIOWrapper(file, encoding=codec, errors="replace", newline="")
    return csv.reader(text, delimiter=layout.delimiter, strict=strict)
