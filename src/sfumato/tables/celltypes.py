"""What type a column of a text file has, decided from all of its values and without loss.

A column is a number, date or truth value only if every cell can be written back exactly as it
stands, so that cells that differ in the file differ in the table: ``01``, ``+1`` and ``1.0`` next
to ``1`` make a column text, and so ZIP codes keep their zeros. Each type says which cells it
accepts; a `ColumnReading` sees a file's cells batch by batch and keeps the types that no cell has
refuted.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = 38
"""What a 128-bit decimal holds."""


def cast_or_none(cells: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """Cells cast to a type, or None if one of them cannot be."""
    try:
        return cells.cast(type_)
    except pa.ArrowException:
        return None


def written_back(values: pa.Array | None, cells: pa.Array) -> bool:
    """Whether values, written as text, are exactly the cells they came from."""
    return values is not None and bool(pc.all(pc.equal(values.cast(pa.string()), cells)).as_py())


class BooleanText:
    """``true`` and ``false``, in one spelling throughout."""

    def __init__(self) -> None:
        self._spellings = [("true", "false"), ("True", "False"), ("TRUE", "FALSE")]

    def accepts(self, cells: pa.Array) -> bool:
        """Whether some spelling has only such words."""
        words = cells.unique() if len(cells) > 2 else cells
        if len(words) > 2:
            return False
        found = set(words.to_pylist())
        self._spellings = [pair for pair in self._spellings if found <= set(pair)]
        return bool(self._spellings)

    def type(self) -> pa.DataType:
        """Boolean."""
        return pa.bool_()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as truth values."""
        return pc.equal(cells, self._spellings[0][0])


class IntegerText:
    """Integers of 64 bits, without leading zeros or plus sign."""

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells are such integers."""
        return written_back(cast_or_none(cells, self.type()), cells)

    def type(self) -> pa.DataType:
        """A signed integer of 64 bits."""
        return pa.int64()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as integers."""
        return cells.cast(self.type())


class BigIntegerText(IntegerText):
    """Integers of up to 38 digits."""

    def type(self) -> pa.DataType:
        """A decimal without fraction."""
        return pa.decimal128(_DIGITS, 0)


class DecimalText:
    """Numbers with the same number of digits behind the point, such as prices."""

    def __init__(self) -> None:
        self._scale: int | None = None
        self._digits = 1

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells have the same scale and fit 38 digits."""
        points = pc.find_substring(cells, ".")
        lengths = pc.binary_length(cells)
        scales = pc.min_max(pc.subtract(pc.subtract(lengths, points), 1)).as_py()
        if pc.min(points).as_py() < 0 or scales["min"] != scales["max"]:
            return False
        if self._scale is None:
            self._scale = scales["max"]
        if not 0 < self._scale < _DIGITS or scales["max"] != self._scale:
            return False
        self._digits = max(self._digits, self._scale, pc.max(lengths).as_py() - 1)
        return self._digits <= _DIGITS and written_back(cast_or_none(cells, self.type()), cells)

    def type(self) -> pa.DataType:
        """A decimal of that scale."""
        return pa.decimal128(self._digits, self._scale)

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as decimals."""
        return cells.cast(self.type())


_LOW, _HIGH = 1e-3, 1e10
"""Between these, every form writes digits without exponent, except R for round numbers."""
_ROUND = 1e5

_FORMS = ("python", "python, whole numbers bare", "arrow", "arrow, whole numbers pointed", "R")


class FloatText:
    """Floats in one of the forms that programs write."""

    def __init__(self) -> None:
        self._forms = set(_FORMS)
        self._not_a_number: set[str] = set()
        self._zeros: set[str] = set()

    def accepts(self, cells: pa.Array) -> bool:
        """Whether one form fits all cells."""
        values = cast_or_none(cells, pa.float64())
        if values is None:
            return False
        nan = pc.is_nan(values)
        if pc.any(nan).as_py():
            self._not_a_number.update(cells.filter(nan).unique().to_pylist())
            if len(self._not_a_number) > 1:
                return False
            cells, values = cells.filter(pc.invert(nan)), values.filter(pc.invert(nan))
        self._zeros.update(cells.filter(pc.equal(values, 0.0)).unique().to_pylist())
        if len(self._zeros) > 1:
            return False
        short = values.cast(pa.string())
        bare = _flags(pc.equal(short, cells))
        pointed = _flags(pc.equal(pc.binary_join_element_wise(short, ".0", ""), cells))
        numbers = values.to_numpy(zero_copy_only=False)
        whole, size = np.floor(numbers) == numbers, np.abs(numbers)
        plain = ((size >= _LOW) & (size < _HIGH)) | (size == 0)
        rest = np.fmod(size, _ROUND, where=plain, out=np.zeros_like(size))
        plain &= ~((size >= _ROUND) & (rest == 0))
        with_point = np.where(whole, pointed, bare)
        self._keep("python", with_point[plain].all())
        self._keep("python, whole numbers bare", bare[plain].all())
        self._keep("R", bare[plain].all())
        self._keep("arrow", bare.all())
        exponent = _flags(pc.match_substring(short, "e")) | np.isinf(numbers)
        self._keep("arrow, whole numbers pointed", np.where(exponent, bare, with_point).all())
        self._look_closely(cells.filter(pa.array(~plain)).to_pylist(), numbers[~plain])
        return bool(self._forms)

    def type(self) -> pa.DataType:
        """A float of 64 bits."""
        return pa.float64()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as floats."""
        return cells.cast(self.type())

    def _keep(self, form: str, fits: Any) -> None:
        if not fits:
            self._forms.discard(form)

    def _look_closely(self, cells: list[str], numbers: npt.NDArray[np.float64]) -> None:
        """Very small, very large and round numbers, where the forms differ."""
        for cell, number in zip(cells, numbers.tolist(), strict=True):
            if not self._forms - {"arrow", "arrow, whole numbers pointed"}:
                return
            python = repr(number)
            self._keep("python", cell == python)
            self._keep("python, whole numbers bare", cell == python.removesuffix(".0"))
            if "R" in self._forms:
                self._keep("R", cell == _as_r_writes(python))


def _flags(array: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return flags


def _as_r_writes(python: str) -> str:
    """R writes the shorter of ``100000`` and ``1e+05``, the former if they are equally long.

    Examples
    --------
    >>> _as_r_writes("100000.0"), _as_r_writes("120000.0"), _as_r_writes("0.0001")
    ('1e+05', '120000', '1e-04')
    """
    if "inf" in python:
        return python.replace("inf", "Inf")
    sign, digits, exponent = Decimal(python).normalize().as_tuple()
    assert isinstance(exponent, int)
    fixed = format(Decimal(python).normalize(), "f").lstrip("-")
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    power = exponent + len(digits) - 1
    scientific = f"{first}{'.' + rest if rest else ''}e{'-' if power < 0 else '+'}{abs(power):02d}"
    shorter = fixed if len(fixed) <= len(scientific) else scientific
    return ("-" if sign else "") + shorter


_FIRST_YEAR = "0001"
_NANOSECOND_YEARS = (1678, 2261)
"""First and last whole year that 64 bits of nanoseconds around 1970 hold."""
_PARTS = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<t>[ T])[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.(?P<f>[0-9]{1,9}))?(?P<z>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?$"  # noqa: E501


class DateText:
    """Dates such as ``2024-02-29``."""

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells are dates of the calendar."""
        lengths = pc.min_max(pc.binary_length(cells)).as_py()
        if lengths != {"min": 10, "max": 10} or pc.min(cells).as_py() < _FIRST_YEAR:
            return False
        return written_back(cast_or_none(cells, pa.date32()), cells)

    def type(self) -> pa.DataType:
        """A date."""
        return pa.date32()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as dates."""
        return cells.cast(self.type())


class TimestampText:
    """Points in time such as ``2024-02-29 12:30:00`` or ``2024-02-29T12:30:00.5Z``.

    All cells have the same sign between date and time and the same zone or none; fractions of a
    second are either all of the same length or all without trailing zeros.
    """

    def __init__(self) -> None:
        self._layout: tuple[str, str] | None = None
        self._fraction_digits: set[int] = set()
        self._trailing_zeros = False
        self._years = (9999, 0)

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells are points in time of one layout."""
        parts = pc.extract_regex(cells, _PARTS)
        if parts.null_count or pc.min(cells).as_py() < _FIRST_YEAR:
            return False
        between, fraction, zone = (parts.field(name) for name in ("t", "f", "z"))
        if len(between.unique()) > 1 or len(zone.unique()) > 1:
            return False
        layout = (between[0].as_py(), zone[0].as_py() or "")
        self._layout = self._layout or layout
        if layout != self._layout:
            return False
        self._fraction_digits.update(pc.binary_length(fraction).unique().to_pylist())
        zeros = pc.ends_with(fraction, "0")
        self._trailing_zeros = self._trailing_zeros or bool(pc.any(zeros).as_py())
        if self._trailing_zeros and len(self._fraction_digits) > 1:
            return False
        years = pc.min_max(cells).as_py()
        first, last = int(years["min"][:4]), int(years["max"][:4])
        self._years = (min(first, self._years[0]), max(last, self._years[1]))
        if max(self._fraction_digits) > 6 and not self._fits_nanoseconds():
            return False
        # Casting checks the calendar and the clock; the pattern has checked everything else.
        return cast_or_none(self._normal(cells), self.type()) is not None

    def type(self) -> pa.DataType:
        """A timestamp in microseconds, or nanoseconds where needed, in the zone of the cells."""
        unit = "ns" if max(self._fraction_digits, default=0) > 6 else "us"
        return pa.timestamp(unit, _zone_name(self._layout[1] if self._layout else ""))

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as points in time."""
        return self._normal(cells).cast(self.type())

    def _fits_nanoseconds(self) -> bool:
        return _NANOSECOND_YEARS[0] <= self._years[0] and self._years[1] <= _NANOSECOND_YEARS[1]

    @staticmethod
    def _normal(cells: pa.Array) -> pa.Array:
        return pc.replace_substring(cells, "T", " ", max_replacements=1)


def _zone_name(suffix: str) -> str | None:
    """The zone that the end of a cell stands for.

    Examples
    --------
    >>> _zone_name(""), _zone_name("Z"), _zone_name("+02"), _zone_name("-0530")
    (None, 'UTC', '+02:00', '-05:30')
    """
    if not suffix:
        return None
    digits = suffix[1:].replace(":", "").ljust(4, "0")
    if suffix == "Z" or digits == "0000":
        return "UTC"
    return f"{suffix[0]}{digits[:2]}:{digits[2:]}"


MISSING_WORDS = ("", "NA", "N/A", "#N/A", "NULL", "null", "None", "?", ".")
"""What programs write for a missing number, date or truth value (the empty one in quotes)."""


class CellType(Protocol):
    """A type that a column of text may have."""

    def accepts(self, cells: pa.Array) -> bool:
        """Whether the column may still have this type, having seen these cells too."""

    def type(self) -> pa.DataType:
        """The type, once all cells have been seen."""

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells, or null, as values."""


TYPES: tuple[type[CellType], ...] = (
    BooleanText, IntegerText, FloatText, BigIntegerText, DecimalText, DateText, TimestampText,
)  # fmt: skip


class ColumnReading:
    """The types one column may have, narrowed down cell by cell.

    Parameters
    ----------
    null_words
        Cells that mean null because the user says so, in text too.
    types
        The types it may have, the most wanted first.

    Notes
    -----
    Only the first type that is left is checked against every cell. If a late cell refutes it, the
    others have not seen the earlier cells: the reading is then `unsure`, and `again` gives one that
    must see all cells once more. Few columns need that, and all others are read in half the time.

    Examples
    --------
    >>> import pyarrow as pa
    >>> age, code = ColumnReading(), ColumnReading()
    >>> age.see(pa.array(["1", "20", None]))
    >>> code.see(pa.array(["01", "20", None]))
    >>> str(age.type()), str(code.type())
    ('int64', 'string')
    """

    def __init__(
        self, null_words: Sequence[str] = (), types: Sequence[type[CellType]] = TYPES
    ) -> None:
        self.unsure = False
        self._null_words = tuple(null_words)
        self._candidates = [candidate() for candidate in types]
        self._others_behind = False
        self._seen_values = False
        self._seen_null = False
        self._missing: set[str] = set()

    def see(self, cells: pa.Array) -> None:
        """Take cells into account: text, plain or dictionary-encoded, with nulls."""
        if not self._candidates:
            return
        self._seen_null = self._seen_null or cells.null_count > 0
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary
        if self._null_words:
            cells = _without(cells, self._null_words)
            self._seen_null = self._seen_null or cells.null_count > 0
        cells = cells.drop_null()
        missing = pc.is_in(cells, value_set=pa.array(MISSING_WORDS))
        if pc.any(missing).as_py():
            self._missing.update(cells.filter(missing).unique().to_pylist())
            cells = cells.filter(pc.invert(missing))
        if len(self._missing) + self._seen_null > 1:
            self._candidates = []  # two ways to say nothing are two values
        # Most columns of text are found out by their first cells.
        for part in (cells.slice(0, 16), cells.slice(16)):
            if len(part):
                self._narrow(part)

    def _narrow(self, cells: pa.Array) -> None:
        """Keep the types that these cells do not refute."""
        self._seen_values = True
        if self._candidates and self._candidates[0].accepts(cells):
            self._others_behind = len(self._candidates) > 1
            return
        self._candidates = [c for c in self._candidates[1:] if c.accepts(cells)]
        self.unsure = bool(self._candidates) and (self.unsure or self._others_behind)

    def again(self) -> ColumnReading:
        """A fresh reading of the types that are left."""
        return ColumnReading(self._null_words, [type(c) for c in self._candidates])

    @property
    def typed(self) -> bool:
        """Whether the column holds something other than text."""
        return bool(self._candidates) and self._seen_values

    @property
    def missing(self) -> tuple[str, ...]:
        """Words that stand for null in this column; text has none."""
        return tuple(sorted(self._missing)) if self.typed else ()

    def type(self) -> pa.DataType:
        """The type of the column; text where nothing else is without loss."""
        return self._candidates[0].type() if self.typed else pa.string()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as values of the column's type."""
        words = self._null_words + self.missing
        if not self.typed and not words:
            return cells
        if pa.types.is_dictionary(cells.type):
            values = self.convert(cells.dictionary)
            return values.take(cells.indices) if self.typed else _recoded(cells.indices, values)
        if words:
            cells = _without(cells, words)
        return self._candidates[0].convert(cells) if self.typed else cells

    def native_type(self) -> pa.DataType | None:
        """The type if Arrow's own reader reads the column without help."""
        type_ = self.type()
        helped = self.missing or self._null_words
        return None if helped or type_ not in (pa.int64(), pa.float64(), pa.date32()) else type_


def _without(cells: pa.Array, words: Sequence[str]) -> pa.Array:
    """Cells with null in place of some words."""
    absent = pc.is_in(cells, value_set=pa.array(words, pa.string()))
    return pc.if_else(absent, pa.scalar(None, pa.string()), cells)


def _recoded(indices: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """Dictionary-encoded text whose codes never point to a null."""
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        moved = pa.array(np.cumsum(valid, dtype=np.int32) - 1, mask=~valid)
        indices, values = moved.take(indices), values.drop_null()
    return pa.DictionaryArray.from_arrays(indices, values)
