"""Numbers that stand for the numbers of a class: means, medians, middles and bounds.

Whatever stands for a class is the same in all its rows, so that every promise about classes is
kept: rows that could not be told apart by a range cannot be told apart by one number. Classes that
happen to show the same number become one, and all privacy models stay true of unions of classes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.anonymization.problem import Solution, largest_sets
from sfumato.engines.protocol import column_of
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.fields import checked
from sfumato.hierarchy.labels import Interval, moments, read_interval
from sfumato.hierarchy.ranges import Ranges, numbers
from sfumato.hierarchy.tree import Array
from sfumato.tables import table
from sfumato.tables.columnar import with_columns
from sfumato.tables.source import is_pandas, is_polars
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.hierarchy import Published


WORDS = {
    "mean": "shown as the mean of its class",
    "median": "shown as about the median of its class",
    "middle": "shown as the middle of its range",
    "bounds": "shown as the bounds of its range",
}
"""What is said of a column whose classes show a number."""
STANDING = ("mean", "median", "middle")
"""Those that are one number, which other classes may show, too."""
_DAY = re.compile(r"[-+]?\d{4,}-\d{2}-\d{2}")
_NOON = re.compile(_DAY.pattern + "(?: 12:00:00)?")
"""A day, or the noon between two days: an end of a range of days."""
_DIGITS = 1e-6
"""Means are rounded to about this share of the column's spread."""


def bound_names(column: str) -> tuple[str, str]:
    """The columns that hold the bounds of a column."""
    return f"{column}_from", f"{column}_to"


class Shown(NamedTuple):
    """A column of numbers, dates or times: the entry that each group shows, and the entries."""

    codes: Array
    values: pa.Array


def number_columns(solution: Solution, column: str, how: str) -> dict[str, Shown]:
    """The columns that stand for a blurred column in the release."""
    published = solution.published[column]
    if how in ("mean", "median", "middle"):
        _require_floats(solution.problem.entries.values_of(column), column)
    if how == "bounds":
        ends = _bounds(solution, column, published)
        return {
            name: Shown(np.maximum(published.codes, 0), end)
            for name, end in zip(bound_names(column), ends, strict=True)
        }
    if how == "middle":
        middles = _halfway(*_bounds(solution, column, published))
        if pa.types.is_date(solution.problem.entries.values_of(column).type):
            middles = middles.cast(pa.date32(), safe=False)  # ends may be noons, middles are days
        return {column: Shown(np.maximum(published.codes, 0), middles)}
    return {column: _Classes(solution, column, published).shown(how)}


def as_read(solution: Solution, shows: Mapping[str, str]) -> Solution:
    """The solution as whoever receives it reads it: a number covers what its rows span.

    So the loss of means and middles is what `utility` finds by comparing both tables.
    """
    published = dict(solution.published)
    for name, how in shows.items():
        if how == "bounds" and name in published:
            published[name] = _without_ends(number_columns(solution, name, how), published[name])
        if how not in STANDING or name not in published:
            continue
        if not (solution.groups >= 0).any():
            continue  # nobody is released, so no number is shown
        (shown,) = number_columns(solution, name, how).values()
        distinct = shown.values.dictionary_encode(null_encoding="encode")
        of_group = np.asarray(distinct.indices)[shown.codes]
        problem = solution.problem
        codes = problem.entries.column(name)
        codes = codes if solution.entry is None else codes[solution.entry]
        groups = np.where(solution.groups >= 0, of_group[solution.groups], -1)
        line = Ranges(problem.entries.values_of(name), name)
        numbered = line.standing(codes, groups, distinct.dictionary)
        published[name] = numbered.take(of_group)
    return replace(solution, published=published)


def _without_ends(ends: Mapping[str, Shown], published: Published) -> Published:
    """The same where all that shows no ends reads alike: stars as well as missing values."""
    low, high = (np.asarray(one.values.is_null()) for one in ends.values())
    empty = low & high
    if not (empty & published.blurred).any():
        return published
    star = int(np.argmax(empty & published.blurred))
    codes = published.codes
    return replace(published, codes=np.where((codes >= 0) & empty[codes], star, codes))


def coincidences(solution: Solution, shows: Mapping[str, str]) -> list[str]:
    """Sentences about means and medians that happen to be values of fewer than k rows."""
    told = []
    for name, how in shows.items():
        if how not in ("mean", "median") or name not in solution.published:
            continue
        (shown,) = number_columns(solution, name, how).values()
        rare = _Classes(solution, name, solution.published[name]).rare
        there = np.isin(numbers(shown.values, name), rare)
        rows = solution.sizes
        held = there[shown.codes[: len(rows)]] & (rows > 0)
        if held.any():
            classes = int(held.sum())
            who = "rows" if solution.problem.person is None else "persons"
            told.append(
                f"the {how} of `{name}` in {counted(classes, 'class')} "
                f"({counted(int(rows[held].sum()), 'row')}) happens to be a value that fewer than "
                f"{solution.problem.rules.k:,} {who} hold{_where_none(solution, name)}"
            )
    return told


def _where_none(solution: Solution, name: str) -> str:
    """What shows no such value, if anything does: ranges whose ends were chosen so."""
    shape = solution.problem.shapes[name]
    if not isinstance(shape, Ranges) or shape.ends is None:
        return ""
    return f"; ends of ranges never are ({spell('numbers_as', {name: 'bounds'})})"


class _Classes:
    """The numbers of one column, class by class.

    Where sets of quasi-identifiers share columns, and where histories stay whole, rows of many
    groups show the same range: there all that do count as one class. A person has groups for each
    of her events, and one birth year in all of them.
    """

    def __init__(self, solution: Solution, column: str, published: Published) -> None:
        problem = solution.problem
        entry = solution.entry_of_piece
        rows = solution.rows_of_pieces(problem)
        kept = solution.groups >= 0
        alone = len(largest_sets(problem.sets)) <= 1 and solution.linkable is None
        self.of_group = np.arange(len(published)) if alone else np.maximum(published.codes, 0)
        self.count = int(self.of_group.max(initial=-1)) + 1
        self.values = problem.entries.values_of(column)
        if pa.types.is_dictionary(self.values.type):
            self.values = self.values.cast(self.values.type.value_type)
        self.points = numbers(self.values, column)
        all_codes = problem.entries.column(column)
        self.codes = all_codes[entry[kept]].astype(np.int64)
        self.rows = rows[kept]
        self.classes = self.of_group[solution.groups[kept]]
        held = problem.held[column]
        self.rare = self.points[(held > 0) & (held < problem.rules.k)]

    def shown(self, how: str) -> Shown:
        first = np.full(self.count, len(self.values), dtype=np.int64)
        last = np.full(self.count, -1, dtype=np.int64)
        np.minimum.at(first, self.classes, self.codes)
        np.maximum.at(last, self.classes, self.codes)
        off_line = np.zeros(self.count, dtype=bool)
        off_line[self.classes[~np.isfinite(self.points[self.codes])]] = True
        single = first == last
        made = self.means()
        if how == "median":
            central = self.medians()
            shown = _rounded(central, self.values.type)  # as it will be read
            made = np.where(np.isin(shown, self.rare), made, central)
        points = np.where(single, self.points[np.minimum(first, len(self.values) - 1)], made)
        missing = (off_line & ~single) | (last < 0)
        empty = single & np.asarray(self.values.is_null())[np.minimum(first, len(self.values) - 1)]
        distinct, at = np.unique(np.where(missing | empty, np.nan, points), return_inverse=True)
        lost = pa.array(missing | empty)
        entries = _typed(distinct, self.values.type)
        whole = pc.if_else(lost, pa.nulls(self.count, entries.type), entries.take(pa.array(at)))
        encoded = whole.dictionary_encode(null_encoding="encode")
        return Shown(np.asarray(encoded.indices)[self.of_group], encoded.dictionary)

    def means(self) -> Array:
        """Mean of each class, rounded to what the column's spread makes of interest."""
        finite = np.isfinite(self.points[self.codes])
        codes, rows, classes = self.codes[finite], self.rows[finite], self.classes[finite]
        on_line = self.points[np.isfinite(self.points)]
        base = on_line.min() if len(on_line) else 0.0
        total = np.bincount(
            classes, weights=(self.points[codes] - base) * rows, minlength=self.count
        )
        size = np.bincount(classes, weights=rows, minlength=self.count)
        mean = np.divide(total, size, out=np.full(self.count, np.nan), where=size > 0) + base
        spread = float(np.ptp(on_line)) if len(on_line) else 0.0
        digits = -math.floor(math.log10(spread * _DIGITS)) if spread > 0 else 0
        return np.asarray(np.round(mean, min(digits, 300)) if abs(digits) < 300 else mean)

    def medians(self) -> Array:
        """The mean of the two rows in the middle of each class; of three where one is in it."""
        order = np.lexsort((self.points[self.codes], self.classes))
        ends = np.cumsum(self.rows[order])
        size = np.bincount(self.classes, weights=self.rows, minlength=self.count).astype(np.int64)
        start = np.cumsum(size) - size
        inner = np.where(size % 2 == 0, 1, np.minimum(size, 3))
        low = np.maximum((size - 1) // 2 - (inner == 3), 0)
        high = np.minimum(size // 2 + (inner == 3), np.maximum(size - 1, 0))
        held = self.points[self.codes[order]]

        def at(place: Array) -> Array:
            found = np.searchsorted(ends, start + place, "right")
            return np.asarray(held[np.minimum(found, len(held) - 1)])

        three = (at(low) + at((size - 1) // 2) + at(high)) / 3
        return np.where(inner == 3, three, (at(low) + at(high)) / 2)


def _rounded(points: Array, kind: pa.DataType) -> Array:
    """Numbers as they are, days as whole days, and moments as whole seconds."""
    if pa.types.is_date(kind):
        return np.asarray(np.floor(points + 0.5))
    if pa.types.is_temporal(kind):
        second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return np.asarray(np.floor(points / second + 0.5) * second)
    return points


def _typed(points: Array, kind: pa.DataType) -> pa.Array:
    """Numbers as numbers, and as days or moments where the column holds such."""
    if not pa.types.is_temporal(kind):
        return pa.array(points, pa.float64())
    short = pa.types.is_date(kind) or pa.types.is_time32(kind)
    ticks = np.nan_to_num(_rounded(points, kind)).astype(np.int32 if short else np.int64)
    return pa.array(ticks).cast(pa.date32() if pa.types.is_date(kind) else kind)


def _bounds(solution: Solution, column: str, published: Published) -> tuple[pa.Array, pa.Array]:
    """Both ends of what each entry of a column shows: of its range, or the one value twice."""
    values = solution.problem.entries.values_of(column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    low: list[str | None] = []
    high: list[str | None] = []
    own = published.order[published.low]
    alone = ~published.blurred
    for text, single in zip(published.labels.to_pylist(), alone.tolist(), strict=True):
        found = None if text is None or single else _interval(text, values.type)
        low.append(None if found is None else found.low)
        high.append(None if found is None else found.high)
    unread = sum(
        end is None and not single and text is not None and text.strip("*") != ""
        for end, single, text in zip(low, alone.tolist(), published.labels.to_pylist(), strict=True)
    )
    if unread:
        raise ParameterError(
            f"{counted(unread, 'label')} of column `{column}` cannot be read as a range of two "
            "ends",
            remedy=f"Show the means of its classes, e.g. {spell('numbers_as', 'mean')}.",
        )
    singles = values.take(pa.array(own))
    ends = []
    for texts in (low, high):
        read = _read_ends(texts, values.type)
        if pa.types.is_floating(read.type):
            _require_floats(values, column)
        known = singles.cast(read.type, safe=False) if singles.type != read.type else singles
        ends.append(pc.if_else(pa.array(alone), known, read))
    return ends[0], ends[1]


_WHOLE_FLOATS = 2**53
"""Up to here floats hold every whole number."""


def type_of_bounds(kind: pa.DataType, values: pa.Array) -> pa.DataType:
    """The type of bounds of which some may lie between two whole numbers or days."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    return pa.float64() if pa.types.is_integer(kind) and not _beyond_floats(values) else kind


def _beyond_floats(values: pa.Array) -> bool:
    """Whether there are whole numbers that floats round to others."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not pa.types.is_integer(kind):
        return False
    least, most = pc.min_max(values.cast(kind)).as_py().values()
    return least is not None and max(-least, most) > _WHOLE_FLOATS


def _require_floats(values: pa.Array, column: str) -> None:
    """Refuse floats in place of whole numbers that they would round to others."""
    if _beyond_floats(values):
        raise ParameterError(
            f"column `{column}` holds whole numbers beyond 2^53, which floats round: no mean, "
            "middle or end between two of them can be shown as a number",
            remedy=f"Show ranges ({spell('numbers_as', {column: 'range'})}), or take a fixed "
            "number off the column before.",
        )


def _interval(text: str, kind: pa.DataType) -> Interval | None:
    """The range that a label of a column means; a month or a year is not one of two days."""
    found = read_interval(text)
    days = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if found is None or not days or all(_DAY.match(end or "") for end in (found.low, found.high)):
        return found
    return None


def _read_ends(texts: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """Ends of ranges as values: of the column's type where all fit it."""
    text = pa.array(texts, pa.string())
    if pa.types.is_duration(kind):
        return text.cast(pa.int64()).cast(kind)
    if pa.types.is_time(kind):
        clock = pc.replace_substring(text, "24:00:00", "23:59:59.999999")
        stamp = pc.binary_join_element_wise("1970-01-01", clock, " ")
        fine = "ns" if kind.unit == "ns" else "us"
        return stamp.cast(pa.timestamp(fine)).cast(pa.timestamp(kind.unit), safe=False).cast(kind)
    if pa.types.is_date(kind):
        return _first_fitting(text, pa.date32(), pa.timestamp("s"))
    if pa.types.is_timestamp(kind):
        return moments(text, kind)
    wider = pa.int64() if pa.types.is_integer(kind) else pa.float64()
    return _first_fitting(text, wider, pa.float64())


def _first_fitting(text: pa.Array, *kinds: pa.DataType) -> pa.Array:
    for kind in kinds[:-1]:
        try:
            return _cast(text, kind)
        except pa.ArrowInvalid:
            continue
    return _cast(text, kinds[-1])


def _cast(text: pa.Array, kind: pa.DataType) -> pa.Array:
    return moments(text, kind) if pa.types.is_temporal(kind) else text.cast(kind)


def _halfway(low: pa.Array, high: pa.Array) -> pa.Array:
    """The middle between two ends: a number, a day, a moment."""
    kind = low.type if low.type == high.type else pa.float64()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Whole numbers above 2 to the 53 are rounded, as every number between them is.
        first, last = low.cast(pa.float64(), safe=False), high.cast(pa.float64(), safe=False)
        return pc.add(first, pc.divide(pc.subtract(last, first), 2.0))
    whole = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
    first, last = low.cast(whole), high.cast(whole)
    middle = pc.add(first, pc.divide(pc.subtract(last, first), pa.scalar(2, whole)))
    return middle.cast(kind)


@checked
def midpoints(frame: Any, columns: Sequence[str] | None = None) -> Any:
    """A release with numbers and dates in place of its ranges: the middle of each.

    Labels of any release are understood, also of other tools: ``[20, 30)``, ``20-29``, and single
    values. A star, and a range without two ends (``>= 90``), become null.

    Parameters
    ----------
    frame
        A pandas or polars data frame, an Arrow table, or anything `sfumato.table` opens, which
        becomes an Arrow table.
    columns
        Columns to change; by default the text columns that hold ranges and nothing but ranges,
        numbers or dates, stars and nulls.

    Examples
    --------
    >>> import pyarrow as pa
    >>> release = pa.table({"age": ["[20, 30)", "34", "*"], "sex": ["F", "M", "F"]})
    >>> midpoints(release).to_pydict()
    {'age': [25.0, 34.0, None], 'sex': ['F', 'M', 'F']}
    """
    rows, kept = frame, (is_pandas(frame) or is_polars(frame) or isinstance(frame, pa.Table))
    if not kept:
        rows = table(frame).to_arrow()
    known = [
        str(name) for name in (rows.column_names if isinstance(rows, pa.Table) else rows.columns)
    ]
    for name in columns or ():
        if name not in known:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, known))
    made = {}
    for name in known if columns is None else columns:
        middles = _middles(_arrow(rows[name]))
        if middles is not None:
            made[name] = middles
        elif columns is not None:
            raise ColumnError(
                f"column `{name}` holds no ranges of numbers or dates",
                remedy="Name columns whose cells are ranges such as [20, 30).",
            )
    return with_columns(rows, made)


def _arrow(column: Any) -> pa.Array | None:
    """A column of a frame as Arrow holds it; None where it mixes types, and so holds no labels."""
    try:
        array = column if isinstance(column, pa.ChunkedArray) else column.to_arrow()
    except AttributeError:
        try:
            array = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            return None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _middles(column: pa.Array | None) -> pa.Array | None:
    """The middles of a column of labels; None where it holds something else."""
    if column is None:
        return None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column_of("", column.type).kind != "text":
        return None
    encoded = column.cast(pa.string()).dictionary_encode()
    texts = [text if text.strip("*") else None for text in encoded.dictionary.to_pylist()]
    found = [None if text is None else read_interval(text) for text in texts]
    if not any(found):
        return None
    low = [text if one is None else one.low for text, one in zip(texts, found, strict=True)]
    high = [text if one is None else one.high for text, one in zip(texts, found, strict=True)]
    ends = pa.array(low, pa.string()), pa.array(high, pa.string())
    for kind in (pa.float64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            middles = _halfway(*(_cast(end, kind) for end in ends))
        except pa.ArrowInvalid:
            continue
        if all(_NOON.fullmatch(end) for end in (*low, *high) if end is not None):
            middles = middles.cast(pa.date32(), safe=False)
        return middles.take(encoded.indices)
    return None
