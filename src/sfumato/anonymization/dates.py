"""Dates moved by one secret number of days a person: order and intervals of a history survive.

The number follows from a secret key and the person, so that all tables of a house move alike. It is
no promise: who knows one date of a person knows how far all of hers were moved. Dates stay
quasi-identifiers unless the user says otherwise.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.actions import ranked
from sfumato.engines.recoding import Cells, Step
from sfumato.engines.results import Codes, smallest_dtype
from sfumato.errors import ColumnError, spell
from sfumato.hierarchy.labels import as_text
from sfumato.tables.parsing import MOST, messy

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.tables import Table

__all__ = [
    "commonest_date",
    "date_columns",
    "days_of",
    "known_to_all",
    "moved",
    "shift_step",
    "shifted",
    "unmoved",
]

_PURPOSE = b"sfumato: days by which the dates of a person are moved\0"


def date_columns(table: Table, left_out: Sequence[str]) -> tuple[str, ...]:
    """The columns of dates and times that a release shows."""
    return tuple(
        column.name
        for column in table.schema
        if column.kind in ("date", "timestamp") and column.name not in left_out
    )


def unmoved(table: Table, left_out: Sequence[str], seed: int = 0) -> dict[str, bool]:
    """Columns that look like dates, months or years and are not moved; whether they can be parsed.

    Text, and numbers like 20240131, 31012024 or 202401, also where empty cells made them fractions;
    years are known by the name of the column, too.
    """
    kinds = ("text", "integer", "float", "decimal")
    columns = [c.name for c in table.schema if c.kind in kinds and c.name not in left_out]
    found: dict[str, bool] = {}
    if not columns:
        return found
    sample = table.sample(_LOOKED_AT, columns, seed)
    for name in columns:
        texts = as_text(sample[name].unique()).to_pylist()
        cells = [text.strip() for text in texts if text is not None]
        text = any(c.name == name and c.kind == "text" for c in table.schema)
        mostly = messy(cells) if text else None
        if mostly is not None and mostly.kind == "date":
            found[name] = True
            continue
        days = _like(cells, _DIGITS, 1.0) or (text and _like(cells, _MONTH, MOST))
        if days or (_YEARS.search(name) and _like(cells, _YEAR, 1.0)):
            found[name] = False
    return found


_LOOKED_AT = 2_000
_DAY_NUMBER = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_DIGITS = re.compile(
    _DAY_NUMBER.pattern
    + r"|(?:0?[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])(?:19|20)\d\d|(?:19|20)\d\d(?:0[1-9]|1[0-2])"
)
"""Days and months without signs."""
_DAY = r"(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4})"
_MONTH = re.compile(
    r"\d{4}[-/.]\d{1,2}|\d{4}Q[1-4]|\d{1,2}[-/.]\d{4}|\d{1,2}([-/.])\d{1,2}\1\d{2}(?:[ T].*)?|"
    r"\d{4}-?W\d\d(?:-?[1-7])?|\d{1,2}([-. ])[^\W\d]{3}\2\d{2}|\d{1,2}\.\d{1,2}\.|"
    rf"{_DAY} ?[-–/] ?{_DAY}|{_DAY_NUMBER.pattern}"
)
"""Months, weeks, quarters, days of years of two digits or of no year, days without signs, and from
a day to a day: they are not read as dates."""
_YEAR = re.compile(r"(?:18|19|20)\d\d")
_YEARS = re.compile("year|yob|born|birth|date|jahr|geboren|geburt|datum|annee|année", re.IGNORECASE)


def _like(cells: Sequence[str], pattern: re.Pattern[str], share: float) -> bool:
    return bool(cells) and sum(map(bool, map(pattern.fullmatch, cells))) >= share * len(cells)


def commonest_date(cells: pa.Array, who: npt.NDArray[np.int64]) -> int:
    """How many persons have the date that most of them have.

    Examples
    --------
    >>> import datetime, pyarrow as pa
    >>> never = datetime.date(2099, 12, 31)
    >>> commonest_date(pa.array([never, never, never, None]), np.array([0, 0, 1, 2]))
    2
    """
    encoded = cells.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    persons = int(who.max(initial=0)) + 1
    pairs = np.unique(codes[codes >= 0] * persons + who[codes >= 0])
    return int(np.bincount(pairs // persons).max(initial=0))


def known_to_all(name: str, most: int, persons: int) -> str | None:
    """What is said of a column of moved dates in which one date is many persons'."""
    if most < max(_MANY_PERSONS, _MANY_SHARE * persons):
        return None
    return (
        f"before dates were moved, `{name}` held one date for {most:,} of {persons:,} persons: "
        "whoever knows or guesses it reads from it how far all of theirs were moved; empty what "
        f"stands for no date, or leave the column out ({spell('identifiers', [name])})"
    )


_MANY_PERSONS, _MANY_SHARE = 10, 0.1


def days_of(persons: pa.Array, key: bytes, most: int) -> npt.NDArray[np.int64]:
    """Days by which the dates of each person are moved, uniform from -`most` to `most`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> days = days_of(pa.array(["P1", "P2", "P1"]), b"a key of 16 bytes or more", 365)
    >>> bool(days[0] == days[2]), bool((abs(days) <= 365).all())
    (True, True)
    """
    made = [
        int.from_bytes(hmac.digest(key, _PURPOSE + str(text).encode(), "sha256")) % (2 * most + 1)
        for text in as_text(persons).to_pylist()
    ]
    return np.array(made, dtype=np.int64) - most


def moved(values: pa.Array, days: npt.NDArray[np.int64], name: str) -> pa.Array:
    """Dates or times, each moved by its own number of days; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if pa.types.is_date(values.type):
            plain = values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
            there = _in_calendar(pc.add_checked(plain, pa.array(days)), 1)
            return there.cast(pa.int32()).cast(pa.date32())
        step = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit] * 86_400
        plain = values.cast(pa.int64())
        return _in_calendar(pc.add_checked(plain, pa.array(days * step)), step).cast(values.type)
    except pa.ArrowInvalid:
        raise ColumnError(
            f"a date of column `{name}` cannot be moved: it would leave the calendar",
            remedy="Mend or leave out such dates, or leave the column out.",
        ) from None


def _in_calendar(moved_to: pa.Array, step: int) -> pa.Array:
    """Numbers of days (or parts of them, `step` a day) since 1970, all in the years 1 to 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.min_max(moved_to)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not _FIRST_DAY * step <= low <= high < (_LAST_DAY + 1) * step:
        raise pa.ArrowInvalid("no such day")
    return moved_to


_FIRST_DAY = (date.min - date(1970, 1, 1)).days
_LAST_DAY = (date.max - date(1970, 1, 1)).days


def shifted(
    codes: Codes, person: str, columns: Sequence[str], days: npt.NDArray[np.int64]
) -> Codes:
    """The same entries, their dates moved as their person's are.

    Parameters
    ----------
    columns
        Columns of dates; those that the entries do not have are passed over.
    days
        Days by the code of the person.
    """
    arrays, values = list(codes.arrays), list(codes.values)
    by_entry = days[codes.column(person).astype(np.int64)]
    for at, name in enumerate(codes.columns):
        if name in columns:
            cells = values[at].take(_indices(arrays[at]))
            values[at], numbers = ranked(moved(cells, by_entry, name))
            arrays[at] = numbers.astype(smallest_dtype(len(values[at])))
    return replace(codes, arrays=tuple(arrays), values=tuple(values))


def _indices(codes: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(codes.astype(np.int64))


def shift_step(table: Table, name: str, person: str, key: bytes, most: int) -> Step:
    """The step that moves the dates of one column."""
    match = table.classes((name, person))
    made = shifted(match, person, [name], days_of(match.values_of(person), key, most))
    return Step(match, {name: Cells(made.column(name), made.values_of(name))})
