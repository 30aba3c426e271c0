"""Numbers and dates without a tree: a cell shows the range that its group spans."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import each
from sfumato.engines.encoding import stored_cells, valid_cells
from sfumato.engines.writing import parsed
from sfumato.errors import ColumnError, HierarchyError
from sfumato.hierarchy.ends import FINEST, TICKS, Ends, finer_ends, round_ends
from sfumato.hierarchy.labels import (
    Interval,
    Published,
    as_text,
    decoded,
    different_texts,
    in_zone,
    null_code,
    read_interval,
)
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids, group_spans, representatives

_FINEST_NUMBERS = FINEST / 5
"""Numbers end at finer steps than days do: classes are far narrower than the whole."""
_LATE = re.compile(r"\d{5,}-")
"""Years after 9999, in which ranges end that reach the last day before."""
MOST_MORE = 0.01
"""How much more may be lost by round ends, as a share of what is lost by exact ones."""


class Ranges:
    """A column of numbers or dates, generalized to ranges of neighbouring values.

    Positions are ranks: the column's values in ascending order, then what has no place among
    numbers (null, not-a-number, infinities). A range that mixes the two can only be shown as
    ``*``, as if each of those stood directly below the root of a tree.

    Parameters
    ----------
    values
        Distinct values of the column, in the order of its codes.
    name
        The column, for error messages.
    held, k
        Rows that hold each value, for ranges that end at round numbers: no end is then a value of
        fewer than k rows (see `round_ends`). Without them a range ends at the smallest and the
        largest value inside.

    Attributes
    ----------
    position, order
        Rank of each code, and the code at each rank.
    points
        The values as numbers, ascending.
    width
        Largest point minus smallest.
    widest
        How wide a range may become by ending at a round number; a wider one keeps its own ends.
    intervals
        Numbers of intervals, by position, out of which no range may grow so; None: it may.

    Examples
    --------
    >>> age = Ranges(pa.array([34, 21, 25, None]), "age")
    >>> age.labels([0, 1, 0], [1, 1, 3]).to_pylist()
    ['[21, 26)', '25', '*']
    >>> age.loss([0, 1, 0], [1, 1, 3]).round(3).tolist()
    [0.308, 0.0, 1.0]
    >>> rounded = Ranges(age.values, "age", held=[1, 1, 1, 1], k=2)
    >>> rounded.published([0, 1], [1, 1]).array().to_pylist()
    ['[20, 26)', '25']
    """

    kind: Literal["ranges"] = "ranges"

    def __init__(self, values: pa.Array, name: str, held: Any = None, k: int = 0) -> None:
        values = decoded(values)
        points = numbers(values, name)
        finite = np.isfinite(points)
        on_line = np.asarray(pc.sort_indices(values))
        on_line = on_line[finite[on_line]]
        self.values = values
        self.name = name
        self.size = len(values)
        self.order = np.concatenate([on_line, np.flatnonzero(~finite)]).astype(np.int32)
        self.position = np.empty(self.size, dtype=np.int32)
        self.position[self.order] = np.arange(self.size, dtype=np.int32)
        self.points = points[on_line]
        self.width = float(self.points[-1]) - float(self.points[0]) if len(on_line) else 0.0
        if not np.isfinite(self.width):
            raise ColumnError(
                "the numbers are too far apart for ranges",
                where=f"column `{name}`",
                remedy="Give the column a hierarchy.",
            )
        self.null_code = null_code(values)
        self.widest = math.inf
        self.intervals: Array | None = None
        self.ends: Ends | None = None
        if held is not None:
            line = values.take(pa.array(on_line))
            finest = FINEST if pa.types.is_temporal(line.type) else _FINEST_NUMBERS
            self._cells = (line, np.asarray(held)[on_line], k, finest)
            self.ends = round_ends(*self._cells)

    def __repr__(self) -> str:
        return f"Ranges(column `{self.name}`, {self.size} values)"

    def spans(self, codes: Any, groups: Any, n_groups: int) -> tuple[Array, Array]:
        """Lowest and highest rank in each group; an empty group has high < low."""
        low, high = group_spans(self.position, np.asarray(codes), np.asarray(groups), int(n_groups))
        return low, high

    def loss(self, low: Any, high: Any) -> Array:
        """Width of each range over the width of the column; 1 for ``*``, 0 for single values."""
        low, high = np.asarray(low), np.asarray(high)
        if len(self.points) == 0:
            return np.asarray(low != high, dtype=float)
        last = len(self.points) - 1
        spread = self.points[np.minimum(high, last)] - self.points[np.minimum(low, last)]
        share = spread / (self.width or 1.0)
        return np.where(low == high, 0.0, np.where(high > last, 1.0, share))

    def labels(self, low: Any, high: Any) -> pa.Array:
        """Text of ranges that end at values: a single value as itself, ``[20, 30)``, or ``*``.

        The open end is the next whole number or day; for other types it is the next value of the
        column, and the column's largest value closes its range.
        """
        low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
        ranked = self.values.take(pa.array(self.order))
        text = as_text(ranked)
        line = ranked[: len(self.points)]
        ends, bracket = _ends(line)
        inside = np.minimum(high, max(len(line) - 1, 0))
        if len(line) == 0:
            interval = pa.array(["*"] * len(low))
        else:
            interval = pc.binary_join_element_wise(
                pa.scalar("["),
                text.take(pa.array(np.minimum(low, len(line) - 1))),
                pa.scalar(", "),
                ends.take(pa.array(inside)),
                bracket.take(pa.array(inside)),
                "",
            )
            interval = pc.if_else(pa.array(high >= len(line)), "*", interval)
        return pc.if_else(pa.array(low == high), text.take(pa.array(low)), interval)

    def published(self, low: Any, high: Any, ends: Ends | None = None) -> Published:
        """What rows or groups that show these ranges publish; high < low is a suppressed row.

        Ranges are widened to the column's ends, or to those given; what they cover, and so their
        loss, are the values between those.
        """
        low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
        shown = high >= low
        low, high, inverse = _distinct(low[shown], high[shown], self.size)
        labels, low, high = self._widened(low, high, ends or self.ends)
        mixed = (high >= len(self.points)) & (low != high)  # shown as `*`: covers everything
        low, high = np.where(mixed, 0, low), np.where(mixed, self.size - 1, high)
        distinct, first, again = np.unique(
            low * self.size + high, return_index=True, return_inverse=True
        )
        codes = np.full(len(shown), -1, dtype=np.int32)
        codes[shown] = again[inverse]
        low, high = np.divmod(distinct, max(self.size, 1))
        loss = self.loss(low, high)
        labels = labels.take(pa.array(first))
        return Published(codes, labels, loss, loss, loss, low, high, self.order)

    def standing(self, codes: Any, groups: Any, shown: pa.Array) -> Published:
        """What numbers or dates publish that stand for rows: each covers what those rows span.

        Parameters
        ----------
        codes, groups
            The value of each row, and the entry of `shown` that it shows; -1 for suppressed rows.
        shown
            Different numbers or dates. Null stands for everything, unless all its rows are null.

        Examples
        --------
        >>> age = Ranges(pa.array([21, 25, 34]), "age")
        >>> means = age.standing([0, 1, 2], [0, 0, 1], pa.array([23.0, 34.0]))
        >>> means.loss.round(3).tolist(), means.leaf_count.tolist()
        ([0.308, 0.0], [2, 1])
        """
        low, high = (np.asarray(end, np.int64) for end in self.spans(codes, groups, len(shown)))
        low, high = np.where(high < low, 0, low), np.where(high < low, 0, high)
        null = -1 if self.null_code is None else int(self.position[self.null_code])
        open_ = np.asarray(shown.is_null()) & ~((low == null) & (high == null))
        open_ |= (high >= len(self.points)) & (low != high)
        low, high = np.where(open_, 0, low), np.where(open_, self.size - 1, high)
        loss = np.where(open_ & (self.size > 1), 1.0, self.loss(low, high))
        numbers = np.arange(len(shown), dtype=np.int32)
        return Published(numbers, as_text(shown), loss, loss, loss, low, high, self.order)

    def finer(self) -> Iterator[Ends]:
        """Ever finer ends of the column; none where ranges end at values."""
        return iter(()) if self.ends is None else finer_ends(*self._cells)

    def moved(self, low: Array, high: Array, ends: Ends) -> tuple[Array, Array]:
        """The ranks that ranges cover once they are widened to these ends."""
        _, _, first, last, moves = self._moved(low, high, ends)
        return np.where(moves, first, low), np.where(moves, last, high)

    def _moved(
        self, low: Array, high: Array, ends: Ends
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Ends around ranges, the ranks between those, and whether a range moves to them."""
        inside = np.minimum(high, len(self.points) - 1)
        begin, end = ends.around(np.minimum(low, inside), inside)
        first, last = ends.below[begin], ends.below[end] - 1
        moves = (low < high) & (high < len(self.points))
        first = np.minimum(first, last)
        moves &= self.points[last] - self.points[first] <= self.widest
        if self.intervals is not None:
            moves &= self.intervals[first] == self.intervals[last]
        return begin, end, first, last, moves

    def _widened(self, low: Array, high: Array, ends: Ends | None) -> tuple[pa.Array, Array, Array]:
        """Labels of ranges between the column's ends, and the ranks that lie inside."""
        labels = self.labels(low, high)
        if ends is None or len(low) == 0:
            return labels, low, high
        begin, end, first, last, moves = self._moved(low, high, ends)
        text = pc.binary_join_element_wise(
            pa.scalar("["),
            ends.texts.take(pa.array(begin)),
            pa.scalar(", "),
            ends.texts.take(pa.array(end)),
            pa.scalar(")"),
            "",
        )
        labels = pc.if_else(pa.array(moves), text, labels)
        return labels, np.where(moves, first, low), np.where(moves, last, high)

    def read(self, labels: pa.Array) -> tuple[Array, Array]:
        """The ranks that each label of a release spans."""
        distinct = different_texts(labels)
        entries = [self.span(text) for text in distinct.dictionary.to_pylist()]
        unknown = sum(entry is None or entry[1] < entry[0] for entry in entries)
        if unknown:
            raise HierarchyError(
                f"{unknown} distinct labels of the release are not ranges of the original values",
                where=f"column `{self.name}`",
                remedy="Give the table that the release was made from.",
            )
        spans = np.array(entries, dtype=np.int64).reshape(-1, 2)[np.asarray(distinct.indices)]
        return spans[:, 0], spans[:, 1]

    def span(self, text: str | None) -> tuple[int, int] | None:
        """Ranks spanned by one label; None where it is neither a value nor a range.

        Examples
        --------
        >>> Ranges(pa.array([21, 25, 34]), "age").span("[20, 30)")
        (0, 1)
        """
        if text is None and self.null_code is not None:
            rank = int(self.position[self.null_code])
            return rank, rank
        if text is None or text == "*":
            return 0, self.size - 1
        if text in self._rank_of:
            return (self._rank_of[text],) * 2
        found = read_interval(text)
        if found is None:
            value = self._point(text)
            low = int(np.searchsorted(self.points, value)) if value is not None else -1
            return (low, low) if 0 <= low < len(self.points) and self.points[low] == value else None
        exactly = self._exactly(found)
        if exactly is not None:
            return exactly
        begin = -math.inf if found.low is None else self._point(found.low)
        end = math.inf if found.high is None else self._point(found.high)
        if begin is None or end is None:
            return None
        low = int(np.searchsorted(self.points, begin, "left" if found.with_low else "right"))
        high = int(np.searchsorted(self.points, end, "right" if found.with_high else "left")) - 1
        return low, high

    def _exactly(self, found: Interval) -> tuple[int, int] | None:
        """Ranks between ends of whole or decimal numbers, which floating point would round."""
        kind = self.values.type
        if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            return None
        first = bisect_left if found.with_low else bisect_right
        last = bisect_right if found.with_high else bisect_left
        try:
            low, high = Decimal(found.low or "-Infinity"), Decimal(found.high or "Infinity")
            return first(self._exact, low), last(self._exact, high) - 1
        except InvalidOperation:  # no numbers
            return None

    @cached_property
    def _exact(self) -> list[Decimal]:
        """The numbers of the line, ascending."""
        line = self.values.take(pa.array(self.order[: len(self.points)]))
        return [Decimal(value) for value in line.to_pylist()]

    @cached_property
    def _rank_of(self) -> dict[str, int]:
        """Rank of each value by its text."""
        text = as_text(self.values.take(pa.array(self.order))).to_pylist()
        return {item: rank for rank, item in enumerate(text) if item is not None}

    def _point(self, text: str) -> float | None:
        """Text as a number: that of a value, or of a number between values."""
        rank = self._rank_of.get(text)
        if rank is not None and rank < len(self.points):
            return float(self.points[rank])
        kind = self.values.type
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            kind = pa.float64()  # ends lie beyond the largest integer, and between numbers
        try:
            if pa.types.is_time(kind) and text == "24:00:00":
                return math.inf
            if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
                return self._moment(text, kind)
            return float(numbers(parsed(pa.array([text]), kind), self.name)[0])
        except (ValueError, pa.ArrowNotImplementedError):
            return None

    def _moment(self, text: str, kind: pa.DataType) -> float:
        """A day or point in time as a number."""
        days = pa.types.is_date(kind)
        if _LATE.match(text):  # Arrow writes these years, but does not read them
            ticks = float(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))
            second = 1 / 86_400 if days else TICKS[kind.unit]
            return ticks * second / TICKS["us"]
        if days and ":" in text:  # noon, between two days
            return float(pa.scalar(text).cast(pa.timestamp("s")).value) / 86_400
        zoned = not days and kind.tz is not None
        end = in_zone(pa.array([text])) if zoned else pa.array([text])
        return float(numbers(parsed(end, kind), self.name)[0])


def _distinct(low: Array, high: Array, size: int) -> tuple[Array, Array, Array]:
    """Different spans among so many ranks, in their order, and the number of each that is given."""
    ids, count = class_ids([end.astype(np.uint32) for end in (low, high)], (size, size))
    one = representatives(ids, count)
    return low[one], high[one], ids


class _Fit:
    """The ranges of one column, moved to ever finer ends."""

    def __init__(self, line: Ranges, low: Array, high: Array, rows: Array) -> None:
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        shown = high >= low
        low, high, inverse = _distinct(low[shown], high[shown], line.size)
        self._spans = low, high
        self._rows = np.bincount(inverse, np.asarray(rows)[shown], len(low))
        self._line, self._grids = line, line.finer()
        self.least = float((self._rows * line.loss(*self._spans)).sum())
        self.ends: Ends | None = None
        self.more, self.finest = math.inf, False
        self.refine()

    def refine(self) -> None:
        """Look at the next finer ends, and take them where less is lost."""
        ends = next(self._grids, None)
        if ends is None:
            self.finest, self.more = True, 0.0 if self.ends is None else self.more
            return
        moved = self._line.moved(*self._spans, ends)
        more = float((self._rows * self._line.loss(*moved)).sum()) - self.least
        if more < self.more:
            self.ends, self.more = ends, more


def published_ranges(
    spans: Mapping[str, tuple[Ranges, Array, Array]], rows: Array, lost: float = 0.0
) -> dict[str, Published]:
    """What groups publish of columns of ranges, with ends as coarse as loses little by them.

    The column that loses most by its ends gets finer ones, until all together lose at most
    `MOST_MORE` more than with exact ends. Where some have no finer ends and lose more than that by
    themselves, the others stop at that much.

    Parameters
    ----------
    spans
        By column its shape and the lowest and highest rank in each group.
    rows
        Rows of each group.
    lost
        What the other columns lose, summed over rows.

    Examples
    --------
    >>> wage = Ranges(pa.array(range(1000, 9000, 7)), "wage", held=[1] * 1143, k=5)
    >>> wage.published([3], [9]).array().to_pylist()
    ['[1020, 1080)']
    >>> published_ranges({"wage": (wage, [3], [9])}, [7])["wage"].array().to_pylist()
    ['[1020, 1065)']
    """
    cells = len(rows) * len(spans)
    fitted = each(lambda column: _Fit(*column, rows), spans.values(), cells)
    fits = dict(zip(spans, fitted, strict=True))
    allowed = MOST_MORE * (lost + sum(fit.least for fit in fits.values()))
    while coarse := [fit for fit in fits.values() if not fit.finest]:
        more = sum(fit.more for fit in coarse)
        fixed = sum(fit.more for fit in fits.values()) - more
        if more <= (allowed - fixed if fixed < allowed else allowed):
            break
        max(coarse, key=lambda fit: fit.more).refine()

    def published(name: str) -> Published:
        line, low, high = spans[name]
        made = line.published(low, high, fits[name].ends)
        object.__setattr__(made, "more", fits[name].more)
        return made

    return dict(zip(spans, each(published, spans, cells), strict=True))


def numbers(values: pa.Array, name: str) -> Array:
    """Numbers, or dates as numbers; not-a-number where there is none.

    Raises
    ------
    ColumnError
        If the values are neither numbers nor dates.
    """
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise ColumnError(
            f"ranges need numbers or dates, not {kind}",
            where=f"column `{name}`",
            remedy="Give the column another kind of hierarchy.",
        )
    values = values.cast(pa.float64(), safe=False)
    points, valid = stored_cells(values), valid_cells(values)
    return np.where(valid, points, np.nan) if len(valid) else points


def _ends(line: pa.Array) -> tuple[pa.Array, pa.Array]:
    """For each value, the text that ends a range at it, and the bracket that follows."""
    if len(line) == 0:
        return as_text(line), pa.array([], pa.string())
    if pa.types.is_integer(line.type):
        following = pc.add(line.cast(pa.decimal128(20, 0)), 1)
        return following.cast(pa.string()), pa.array([")"] * len(line))
    if pa.types.is_date(line.type):
        days = line.cast(pa.date32()).cast(pa.int32())
        following = pc.add(days, pa.scalar(1, pa.int32())).cast(pa.date32())
        return following.cast(pa.string()), pa.array([")"] * len(line))
    text = as_text(line)
    brackets = pa.array([")"] * (len(line) - 1) + ["]"])
    return pa.concat_arrays([text[1:], text[-1:]]), brackets
