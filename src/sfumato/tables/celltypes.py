"""What type a column of a text file has, decided from all of its values and without loss.

A column is a number, date or truth value only if every cell can be written back exactly as it
stands, so that cells that differ in the file differ in the table: ``01``, ``+1`` and ``1.0`` next
to ``1`` make a column text, and so ZIP codes keep their zeros. A `ColumnReading` sees a file's
cells batch by batch and keeps the types that no cell has refuted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sfumato.tables.celltext import (
    BigIntegerText,
    BooleanText,
    DateText,
    DecimalText,
    FloatText,
    IntegerText,
    TimestampText,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MISSING_WORDS", "ColumnReading"]

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


_TYPES: tuple[type[CellType], ...] = (
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
        self, null_words: Sequence[str] = (), types: Sequence[type[CellType]] = _TYPES
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
        import pyarrow as pa
        import pyarrow.compute as pc

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
        import pyarrow as pa

        return self._candidates[0].type() if self.typed else pa.string()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as values of the column's type."""
        import pyarrow as pa

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
        import pyarrow as pa

        type_ = self.type()
        helped = self.missing or self._null_words
        return None if helped or type_ not in (pa.int64(), pa.float64(), pa.date32()) else type_


def _without(cells: pa.Array, words: Sequence[str]) -> pa.Array:
    """Cells with null in place of some words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    absent = pc.is_in(cells, value_set=pa.array(words, pa.string()))
    return pc.if_else(absent, pa.scalar(None, pa.string()), cells)


def _recoded(indices: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """Dictionary-encoded text whose codes never point to a null."""
    import numpy as np
    import pyarrow as pa

    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        moved = pa.array(np.cumsum(valid, dtype=np.int32) - 1, mask=~valid)
        indices, values = moved.take(indices), values.drop_null()
    return pa.DictionaryArray.from_arrays(indices, values)
