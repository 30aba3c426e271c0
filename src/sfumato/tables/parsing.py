"""Columns of text that are mostly dates or numbers: found, and turned into values when asked.

Tables typed by hand hold ``31.12.1999`` beside ``1999-12-31`` and ``48.227,00`` beside ``48227``.
Such a column is text until somebody says what it is (``parse``). What a cell means is decided from
the whole column: a 13 in the first place of ``13/02/2020`` says that days come first, two points in
``1.234.567`` that they are no decimal points. Where a column does not tell, it is asked for.
"""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from sfumato.engines.protocol import BATCH_ROWS, Column, Source, TextForm, column_of
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.tables.celltypes import MISSING_WORDS
from sfumato.tables.source import BaseSource

if TYPE_CHECKING:
    from sfumato.tables.text import TextFile


Unparsed = Literal["stop", "null"]

KINDS = {
    "date": "dates",
    "date:dmy": "dates, the day first",
    "date:mdy": "dates, the month first",
    "number": "numbers",
    "number:comma": "numbers with a decimal comma",
    "number:point": "numbers with a decimal point",
}
"""What a column can be turned into."""
MOST = 0.6
"""Share of its different cells from which on a column is mostly dates, or mostly numbers."""
_NOTHING = frozenset({*MISSING_WORDS, "n/a", "na", "-", "--", "nan", "NaN"})

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar enero janvier gennaio", "feb february februar febrero fevrier",
            "mar march marz maerz marzo mars mrz", "apr april abril avril aprile abr",
            "may mai mayo maggio mag", "jun june juni junio juin giugno",
            "jul july juli julio juillet luglio", "aug august agosto aout ago",
            "sep sept september septiembre septembre settembre", "oct october oktober okt octubre "
            "octobre ottobre", "nov november noviembre novembre", "dec december dezember dez "
            "diciembre decembre dicembre dic",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_CLOCK = re.compile(r"[T ](\d{1,2}:[\d:.]+)(?:Z| ?[+-]\d{2}:?\d{2})?$", re.IGNORECASE)
"""A time of day behind a date."""
_TIME = r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z| ?[+-]\d{2}:?\d{2})?)?"


@dataclass(frozen=True)
class _Layout:
    """A way to write dates: what people call it, and where year, month and day stand."""

    called: str
    pattern: re.Pattern[str]

    def parts(self, cell: str) -> tuple[str, str, str] | None:
        found = self.pattern.fullmatch(cell)
        return None if found is None else (found["y"], found["m"], found["d"])


_LAYOUTS = tuple(
    _Layout(called, re.compile(pattern + _TIME, re.IGNORECASE))
    for called, pattern in (
        ("yyyy-mm-dd", r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})"),
        ("yyyy/mm/dd", r"(?P<y>\d{4})[/.](?P<m>\d{1,2})[/.](?P<d>\d{1,2})"),
        ("yyyymmdd", r"(?P<y>(?:19|20)\d{2})(?P<m>\d{2})(?P<d>\d{2})"),
        ("dd.mm.yyyy", r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})"),
        ("d month yyyy", r"(?P<d>\d{1,2})\.? ?-?(?P<m>[^\W\d]{3,10})\.?,? ?-?(?P<y>\d{4})"),
        ("month d, yyyy", r"(?P<m>[^\W\d]{3,10})\.? (?P<d>\d{1,2})(?:st|nd|rd|th)?,? (?P<y>\d{4})"),
    )
)
_SLASHED = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4})" + _TIME, re.IGNORECASE)
"""Dates of which only the column tells whether the day or the month comes first."""


def _date(cell: str, day_first: bool | None) -> tuple[dt.date, str] | None:
    """The date in a cell, and how it is written."""
    slashed = _SLASHED.fullmatch(cell)
    if slashed is not None:
        if day_first is None:
            return None
        first, second = int(slashed[1]), int(slashed[3])
        day, month = (first, second) if day_first else (second, first)
        called = f"dd{slashed[2]}mm{slashed[2]}yyyy" if day_first else "mm/dd/yyyy"
        return _made(slashed[4], str(month), str(day), called)
    for layout in _LAYOUTS:
        parts = layout.parts(cell)
        if parts is not None:
            return _made(*parts, layout.called)
    return None


def _made(year: str, month: str, day: str, called: str) -> tuple[dt.date, str] | None:
    named = _MONTHS.get(_plain(month)) if not month.isdigit() else int(month)
    try:
        return dt.date(int(year), named or 0, int(day)), called
    except ValueError:
        return None


def _plain(word: str) -> str:
    accents = str.maketrans("äéèûü", "aeeuu")
    return word.lower().translate(accents)


def _day_first(cells: Sequence[str]) -> bool | None:
    """Whether days come before months; None where no cell or both orders say so."""
    pairs = [(int(m[1]), int(m[3])) for cell in cells if (m := _SLASHED.fullmatch(cell))]
    days, months = any(a > 12 for a, _ in pairs), any(b > 12 for _, b in pairs)
    return days if days != months else None


_NUMBER = re.compile(
    r"[-+−(]?\s*(?:[$€£¥]|[A-Z]{3}\s)?\s*[-+−]?"
    r"(?P<digits>\d[\d.,'’  _]*)"
    r"\s*(?:[$€£¥%]|[A-Z]{3})?\)?-?"
)


def _number(cell: str, comma: bool) -> float | None:
    """The number in a cell, with a decimal comma or a decimal point."""
    found = _NUMBER.fullmatch(cell)
    if found is None:
        return None
    point, group = (",", ".") if comma else (".", ",")
    whole, _, rest = found["digits"].strip().partition(point)
    parts = re.split(rf"[{re.escape(group)}'’  _]", whole)
    if len(parts) > 1 and not all(len(part) == 3 for part in parts[1:]):
        return None
    if not rest.isdigit() and rest:
        return None
    negative = (
        cell.startswith(("-", "−", "(")) or cell.endswith("-") or "-" in cell.split(parts[0])[0]
    )
    value = float("".join(parts) + ("." + rest if rest else ""))
    return -value if negative else value


def _decimal_comma(cells: Sequence[str]) -> bool | None:
    """Whether a comma begins the fraction; None where the column does not tell."""
    votes: Counter[bool] = Counter()
    for cell in cells:
        found = _NUMBER.fullmatch(cell)
        digits = "" if found is None else found["digits"].strip()
        commas, points = digits.count(","), digits.count(".")
        if commas and points:
            votes[digits.rfind(",") > digits.rfind(".")] += 1
        elif commas > 1 or points > 1:
            votes[points > 1] += 1
        elif commas and len(digits) - digits.find(",") != 4:
            votes[True] += 1
        elif points and len(digits) - digits.find(".") != 4:
            votes[False] += 1
    if votes:
        return votes[True] > votes[False]
    doubtful = any("," in cell or "." in cell for cell in cells if _NUMBER.fullmatch(cell))
    return None if doubtful else False


@dataclass(frozen=True)
class GuessedKind:
    """What cells of a text column are, how that is written, and of how many of them it holds."""

    kind: str
    written: tuple[str, ...]
    read: int
    """Cells that are it."""
    cells: int
    """Cells that say something: words for missing ones are no cells."""
    others: int = 0
    """Different texts among the cells that are not it."""
    silent: int = 0
    """Cells that hold a word for missing."""
    whole: bool = True
    """Whether these are all cells of the column."""

    @property
    def say(self) -> str:
        """In words that quote no cell."""
        how = f" ({', '.join(self.written)})" if self.written else ""
        looked = " looked at" if not self.whole else ""
        left = self.cells - self.read
        if not left:
            cells = "all cells" if self.whole else f"all {self.cells:,} cells looked at"
            aside = " but those that say they are missing" if self.silent else ""
            return f"{cells}{aside} are {self.kind}s{how}"
        told = f"{self.read:,} of {self.cells:,} cells{looked} are {self.kind}s{how}"
        same = ", perhaps a code for missing" if left > 1 and self.others == 1 else ""
        other = "one other text" if self.others == 1 else "other texts"
        return f"{told}, {left:,} {'hold' if left > 1 else 'holds'} {other}{same}"


def guessed_kind(
    cells: Sequence[str], counts: Sequence[int] | None = None, *, whole: bool = True
) -> GuessedKind | None:
    """What most of some different cells of a text column are, if it is something better than text.

    Parameters
    ----------
    cells
        Different cells.
    counts
        How often each occurs; once, unless told.
    whole
        Whether these are all cells of the column.

    Examples
    --------
    >>> guessed_kind(["31.12.1999", "1999-12-30", "unknown", "1.1.2000"]).say
    '3 of 4 cells are dates (dd.mm.yyyy, yyyy-mm-dd), 1 holds one other text'
    >>> guessed_kind(["48.227,00", "1.500,50", "12,00"]).say
    'all cells are numbers (decimal comma, points between thousands)'
    >>> guessed_kind(["1", "2", "3", "N"], [1, 1, 2, 96]).say
    '4 of 100 cells are numbers, 96 hold one other text, perhaps a code for missing'
    """
    held: Counter[str] = Counter()
    silent = 0
    for cell, times in zip(cells, counts or [1] * len(cells), strict=True):
        text = cell.strip()
        if text in _NOTHING:
            silent += times
        else:
            held[text] += times
    present = list(held)
    if len(present) < 2:
        return None
    enough = MOST if len(present) > 2 else 1.0

    def found(kind: str, ways: Sequence[str], read: Sequence[str]) -> GuessedKind:
        others = len(present) - len(read)
        number = sum(held[text] for text in read)
        return GuessedKind(kind, tuple(ways), number, held.total(), others, silent, whole)

    slashed = any(_SLASHED.fullmatch(cell) for cell in present)
    order = _day_first(present)
    first = True if order is None else order
    dates = {cell: made[1] for cell in present if (made := _date(cell, first))}
    if len(dates) >= enough * len(present):
        ways = [called for called, _ in Counter(dates.values()).most_common()]
        if slashed and order is None:
            ways = [way for way in ways if "/" not in way or way == "yyyy/mm/dd"]
            ways.append("dd/mm/yyyy or mm/dd/yyyy")
        return found("date", ways, list(dates))
    codes = sum(cell.isdigit() and cell.startswith("0") and len(cell) > 1 for cell in present)
    comma = _decimal_comma(present)
    read = [cell for cell in present if _number(cell, bool(comma)) is not None]
    if len(read) < enough * len(present) or codes:  # leading zeros: codes, not numbers
        return None
    return found("number", _number_ways(read, comma), read)


def _number_ways(cells: Sequence[str], comma: bool | None) -> tuple[str, ...]:
    point, group = (",", ".") if comma else (".", ",")
    names = {",": "commas", ".": "points", "'": "apostrophes", " ": "blanks", "’": "apostrophes"}
    ways = []
    if comma:
        ways.append("decimal comma")
    between = [
        names[sign]
        for sign in (group, "'", "’", " ")
        if any(
            sign in (m["digits"].strip() if (m := _NUMBER.fullmatch(cell)) else "")
            for cell in cells
        )
    ]
    if between:
        ways.append(f"{between[0]} between thousands")
    if comma is None:
        ways.append(f"{names[point]} or {names[group]} between thousands")
    return tuple(dict.fromkeys(ways))


class ParsedSource(BaseSource):
    """A source some of whose text columns are turned into dates or numbers.

    Parameters
    ----------
    source
        The rows.
    parse
        What each column is, a key of `KINDS`.
    unparsed
        What becomes of cells that are no such thing: ``stop``, or ``null`` with a warning.
    """

    def __init__(self, source: Source, parse: Mapping[str, str], unparsed: str = "stop") -> None:
        if unparsed not in ("stop", "null"):
            raise ParameterError(
                f"`{unparsed}` is not what cells can become that do not parse",
                remedy=did_you_mean(unparsed, ("stop", "null")),
            )
        self.name = source.name
        self.paths = source.paths
        self._source = source
        self._unparsed = unparsed
        known = {column.name: column for column in source.schema()}
        self._readers: dict[str, Callable[[str], Any]] = {}
        for name, kind in parse.items():
            self._check(name, kind, known)
            if known[name].kind == "timestamp":
                warnings.warn(
                    f"column `{name}` holds points in time already, which keep their time of day",
                    stacklevel=4,
                )
        wanted = [name for name in parse if known[name].kind == "text"]
        cells = _cells(source, wanted) if wanted else {}
        for name in wanted:
            self._readers[name] = self._reader(name, parse[name], cells[name])
        self._types = {name: _type(parse[name], list(cells[name])) for name in wanted}
        self._schema = tuple(
            column_of(c.name, self._types[c.name]) if c.name in self._types else c
            for c in source.schema()
        )
        self._arrow_schema = pa.schema([(column.name, column.type) for column in self._schema])

    def _check(self, name: str, kind: str, known: Mapping[str, Column]) -> None:
        if name not in known:
            raise ColumnError(
                f"there is no column `{name}`", where=self.name, remedy=did_you_mean(name, known)
            )
        if not isinstance(kind, str) or kind not in KINDS:
            raise ParameterError(
                f"column `{name}` cannot be turned into `{kind}`",
                where=self.name,
                remedy=did_you_mean(str(kind), KINDS),
            )
        held = known[name].kind
        is_it = held in (("date", "timestamp") if kind.startswith("date") else _NUMERIC)
        if held != "text" and not is_it:
            raise ColumnError(
                f"column `{name}` holds a {held} in each cell, not text",
                where=self.name,
                remedy="Do not parse it.",
            )

    def _reader(self, name: str, kind: str, cells: Counter[str]) -> Callable[[str], Any]:
        """How one column's cells are read; cells that are no such thing stop it, or are counted."""
        texts = list(cells)
        read = _date_reader(kind, texts) if kind.startswith("date") else _number_reader(kind, texts)
        if read is None:
            order = kind == "date"
            raise ColumnError(
                f"column `{name}` does not tell whether "
                + ("days or months come first" if order else "a comma begins the fraction"),
                where=self.name,
                remedy="Say it, e.g. "
                + spell("parse", {name: "date:dmy" if order else "number:comma"})
                + ".",
            )
        if kind.startswith("date"):
            self._say_what_is_left_out(name, cells)
        failed = sum(count for text, count in cells.items() if read(text) is None)
        if failed:
            what = KINDS[kind].split(",")[0]
            said = f"{failed:,} cells of column `{name}` are not {what}"
            if failed == 1:
                said = f"1 cell of column `{name}` cannot be read as {what}"
            if self._unparsed == "stop":
                raise ColumnError(
                    said,
                    where=self.name,
                    remedy=f"Correct them, or make them missing with {spell('unparsed', 'null')}.",
                )
            warnings.warn(f"{said} and became missing", stacklevel=5)
        return read

    def _say_what_is_left_out(self, name: str, cells: Counter[str]) -> None:
        """Say how many cells hold a time of day other than midnight, which no date has."""
        times = ((_CLOCK.search(text.strip()), count) for text, count in cells.items())
        timed = sum(count for found, count in times if found and found[1].strip("0:."))
        if timed:
            cell, hold = ("cell", "holds") if timed == 1 else ("cells", "hold")
            warnings.warn(
                f"{timed:,} {cell} of column `{name}` {hold} a time of day, which dates leave out",
                stacklevel=6,
            )

    def row_count(self) -> int | None:
        """Number of rows where it is known."""
        return self._source.row_count()

    def code_bytes(self) -> int:
        """About how much memory the codes take."""
        return self._source.code_bytes()

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        return map(self._parsed_batch, self._source.batches(columns, rows))

    def _parsed_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = batch.schema.names
        arrays = [self._parsed(n, array) for n, array in zip(names, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _parsed(self, name: str, array: pa.Array) -> pa.Array:
        if name not in self._readers:
            return array
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        read, type_ = self._readers[name], self._types[name]
        values = [None if text is None else read(text) for text in array.dictionary.to_pylist()]
        return pa.array(values, type_).take(array.indices)

    def fingerprint(self) -> str:
        """Of the rows as they came."""
        return self._source.fingerprint()

    def close(self) -> None:
        """Remove temporary copies."""
        super().close()
        self._source.close()


class ParsedText(ParsedSource):
    """A parsed source of text: a release repeats the cells of the columns that are not parsed."""

    _source: TextFile

    def text_form(self) -> TextForm:
        """How the file is written; what was parsed is written anew."""
        form = self._source.text_form()
        kept = {name: read for name, read in form.readers.items() if name not in self._readers}
        return replace(form, readers=kept)

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The cells of some columns as they stand in the file, or as values where parsed."""
        return map(self._parsed_batch, self._source.texts(columns))


_NUMERIC = ("integer", "float", "decimal")
_WHOLE = re.compile(r"[-+]?\d{1,18}")


def _cells(source: Source, names: Sequence[str]) -> dict[str, Counter[str]]:
    """The different cells of some columns, and how often they occur."""
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for batch in source.batches(names):
        for name in names:
            column = batch.column(batch.schema.get_field_index(name))
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            counted = column.drop_null().value_counts()
            texts, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
            for text, count in zip(texts, counts, strict=True):
                if text.strip() not in _NOTHING:
                    found[name][text] += count
    return found


def _type(kind: str, texts: Sequence[str]) -> pa.DataType:
    if kind.startswith("date"):
        return pa.date32()
    return pa.int64() if _all_whole(texts) else pa.float64()


def _all_whole(texts: Sequence[str]) -> bool:
    """Whether numbers are written in digits alone, so that they are whole numbers and stay so."""
    return bool(texts) and all(_WHOLE.fullmatch(text.strip()) for text in texts)


def _date_reader(kind: str, texts: Sequence[str]) -> Callable[[str], Any] | None:
    stripped = [text.strip() for text in texts]
    order: bool | None = {"date:dmy": True, "date:mdy": False}.get(kind)
    if order is None:
        order = _day_first(stripped)
        if order is None and any(_SLASHED.fullmatch(text) for text in stripped):
            return None

    def read(text: str) -> dt.date | None:
        found = _date(text.strip(), order)
        return None if found is None else found[0]

    return read


def _number_reader(kind: str, texts: Sequence[str]) -> Callable[[str], Any] | None:
    stripped = [text.strip() for text in texts]
    comma: bool | None = {"number:comma": True, "number:point": False}.get(kind)
    if comma is None:
        comma = _decimal_comma(stripped)
    if comma is None:
        return None
    decided, whole = comma, _all_whole(stripped)

    def read(text: str) -> float | None:
        cell = text.strip()
        if whole:
            return int(cell) if _WHOLE.fullmatch(cell) else None
        return _number(cell, decided)

    return read
