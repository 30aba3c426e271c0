"""Dates and points in time in the ISO form, as they stand in text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.tables.numbertext import cast_or_none, written_back

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DateText", "TimestampText"]

_FIRST_YEAR = "0001"
_NANOSECOND_YEARS = (1678, 2261)
"""First and last whole year that 64 bits of nanoseconds around 1970 hold."""
_PARTS = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<t>[ T])[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.(?P<f>[0-9]{1,9}))?(?P<z>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?$"  # noqa: E501


class DateText:
    """Dates such as ``2024-02-29``."""

    def accepts(self, cells: pa.Array) -> bool:
        """Whether all cells are dates of the calendar."""
        import pyarrow as pa
        import pyarrow.compute as pc

        lengths = pc.min_max(pc.binary_length(cells)).as_py()
        if lengths != {"min": 10, "max": 10} or pc.min(cells).as_py() < _FIRST_YEAR:
            return False
        return written_back(cast_or_none(cells, pa.date32()), cells)

    def type(self) -> pa.DataType:
        """A date."""
        import pyarrow as pa

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
        import pyarrow.compute as pc

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
        import pyarrow as pa

        unit = "ns" if max(self._fraction_digits, default=0) > 6 else "us"
        return pa.timestamp(unit, _zone_name(self._layout[1] if self._layout else ""))

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as points in time."""
        return self._normal(cells).cast(self.type())

    def _fits_nanoseconds(self) -> bool:
        return _NANOSECOND_YEARS[0] <= self._years[0] and self._years[1] <= _NANOSECOND_YEARS[1]

    @staticmethod
    def _normal(cells: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

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
