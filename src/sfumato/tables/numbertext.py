"""Truth values, integers and decimals as they stand in text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BigIntegerText", "BooleanText", "DecimalText", "IntegerText", "cast_or_none",
           "written_back"]  # fmt: skip

_DIGITS = 38
"""What a 128-bit decimal holds."""


def cast_or_none(cells: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """Cells cast to a type, or None if one of them cannot be."""
    import pyarrow as pa

    try:
        return cells.cast(type_)
    except pa.ArrowException:
        return None


def written_back(values: pa.Array | None, cells: pa.Array) -> bool:
    """Whether values, written as text, are exactly the cells they came from."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
        import pyarrow as pa

        return pa.bool_()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as truth values."""
        import pyarrow.compute as pc

        return pc.equal(cells, self._spellings[0][0])


class IntegerText:
    """Integers of 64 bits, without leading zeros or plus sign."""

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells are such integers."""
        return written_back(cast_or_none(cells, self.type()), cells)

    def type(self) -> pa.DataType:
        """A signed integer of 64 bits."""
        import pyarrow as pa

        return pa.int64()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as integers."""
        return cells.cast(self.type())


class BigIntegerText(IntegerText):
    """Integers of up to 38 digits."""

    def type(self) -> pa.DataType:
        """A decimal without fraction."""
        import pyarrow as pa

        return pa.decimal128(_DIGITS, 0)


class DecimalText:
    """Numbers with the same number of digits behind the point, such as prices."""

    def __init__(self) -> None:
        self._scale: int | None = None
        self._digits = 1

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells have the same scale and fit 38 digits."""
        import pyarrow.compute as pc

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
        import pyarrow as pa

        return pa.decimal128(self._digits, self._scale)

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as decimals."""
        return cells.cast(self.type())
