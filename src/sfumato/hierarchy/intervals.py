"""Hierarchies of numbers and dates: intervals, then wider intervals, then everything."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ParameterError, spell
from sfumato.fields import checked
from sfumato.hierarchy.ends import FINEST, SITTING, Ends, resolution, round_ends
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.labels import as_text, decoded
from sfumato.hierarchy.ranges import numbers
from sfumato.hierarchy.tree import Array

_MOST_INTERVALS = 1_000_000
_MANY = 0.25
"""Share of rare values among the ends from which on all ends move between values."""


@checked
def intervals(
    values: pa.Array,
    *,
    width: float | None = None,
    count: int | None = None,
    edges: Sequence[float] | None = None,
    fanout: int = 2,
    counts: Any = None,
    k: int = 5,
    name: str = "values",
) -> Hierarchy:
    """Cut numbers (or dates, in days) into intervals, and those into wider ones.

    Parameters
    ----------
    values
        Distinct values of the column; nulls are left out, a column's null gets its own place when
        the hierarchy is bound.
    width, count, edges
        One of them: the width of the finest intervals, aligned to multiples of itself; how many of
        equal width; or the edges between them, with an open interval at either end.
    fanout
        How many intervals become one on the next level.
    counts
        With `width`, rows that hold each value: then no interval ends at a value of fewer than `k`
        rows. Multiples that are such values are left out, and where those are many, all ends lie
        half a unit below multiples. Without it, all multiples are ends.
    k
        With `count` or `counts`, from how many rows on a value may be an end.

    Examples
    --------
    >>> ages = intervals(pa.array([17, 23, 38]), width=5)
    >>> [level.to_pylist() for level in ages.levels()][1:3]
    [['[15, 20)', '[20, 25)', '[35, 40)'], ['[10, 20)', '[20, 30)', '[30, 40)']]
    >>> known = intervals(pa.array([17, 20, 38]), width=5, counts=[9, 1, 9])
    >>> known.levels()[1].to_pylist()
    ['[15, 25)', '[15, 25)', '[35, 40)']
    """
    if sum(given is not None for given in (width, count, edges)) != 1:
        raise ParameterError(
            "intervals need exactly one of width, count and edges",
            remedy=f"Give one, e.g. {spell('width', 5)}.",
        )
    _refuse_fanout(fanout)
    values = decoded(values)
    points, kept = _points(values, name)
    finite = points[np.isfinite(points)]
    if edges is not None:
        levels = _between(points, np.asarray(edges, dtype=float), fanout, values.type)
    elif len(finite) == 0 or finite.min() == finite.max():
        levels = []
    elif not np.isfinite(float(finite.max()) - float(finite.min())):
        raise ParameterError(
            "the numbers are too far apart", where=f"column `{name}`", remedy="Give the edges."
        )
    elif width is not None:
        rare = np.zeros(0)
        if counts is not None:
            rows = counts_of(values, counts)[np.asarray(values.is_valid())]
            rare = points[(rows > 0) & (rows < k)]
        levels = _aligned(points, float(width), fanout, values.type, name, rare)
    else:
        assert count is not None
        levels = _equal_width(values.drop_null(), points, count, fanout, k)
    return _hierarchy(kept, levels)


@checked
def equal_frequency(
    values: pa.Array,
    counts: Any = None,
    *,
    groups: int,
    fanout: int = 2,
    k: int = 5,
    name: str = "values",
) -> Hierarchy:
    """Cut numbers (or dates) into intervals that hold about equally many rows.

    Intervals end at round numbers, none of them a value of fewer than `k` rows.

    Equal values stay together; a value so common that it would fill an interval gets one to
    itself, so that the others do not drown in it.

    Parameters
    ----------
    counts
        Rows that hold each value; 1 each by default.
    groups
        How many intervals on the finest level.
    k
        From how many rows on a value may be an end.

    Examples
    --------
    >>> incomes = equal_frequency(pa.array([11, 23, 38, 1000]), groups=2)
    >>> incomes.levels()[1].to_pylist()
    ['[10, 35)', '[10, 35)', '[35, 1005)', '[35, 1005)']
    """
    if groups < 1:
        raise ParameterError(f"{groups} groups are not possible", remedy="Give at least 1.")
    _refuse_fanout(fanout)
    values = decoded(values)
    weight = np.ones(len(values)) if counts is None else counts_of(values, counts)
    points, kept = _points(values, name)
    weight = weight[np.asarray(values.is_valid())]
    order = _in_order(values.drop_null(), points)
    if len(order) == 0:
        return _hierarchy(kept, [])
    line, weights = values.drop_null().take(pa.array(order)), weight[order]
    begins = _balanced(weights, min(groups, len(weights)))

    def below(ends: Ends) -> Array:
        return ends.around(begins, begins)[0]

    ends = _rounded(line, weights, k, begins, below)
    return _hierarchy(kept, _merging(order, len(points), ends, fanout))


def counts_of(values: pa.Array, counts: Any) -> Array:
    """How many rows have each of the values."""
    try:
        found = np.asarray(counts, dtype=float)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(0)
    if found.shape != (len(values),):
        raise ParameterError(
            "`counts` must hold a number for each value",
            remedy=f"Give {len(values):,} numbers, or leave it out.",
        )
    return found


def _in_order(values: pa.Array, points: Array) -> Array:
    """Places of the finite values, ascending; whole numbers exactly, whatever their size."""
    order = np.asarray(pc.sort_indices(values))
    return np.asarray(order[np.isfinite(points[order])], dtype=np.int64)


def _balanced(weight: Array, groups: int) -> Array:
    """First values of intervals of about equal weight, at most `groups` of them."""
    heavy = weight > weight.sum() / groups
    left = groups - 2 * int(heavy.sum())  # each of them, and the interval it cuts in two
    if left < 1 or not weight[~heavy].any():
        heavy[:], left = False, groups
    light = np.where(heavy, 0.0, weight)
    middle = np.cumsum(light) - light / 2
    share = np.minimum((middle / light.sum() * left).astype(int), left - 1)
    begins = np.r_[True, np.diff(share) > 0] | heavy | np.r_[False, heavy[:-1]]
    return np.flatnonzero(begins)


def _aligned(
    points: Array, width: float, fanout: int, kind: pa.DataType, name: str, rare: Array
) -> list[pa.Array]:
    """Intervals between multiples of a width, then of `fanout` times that width, …

    None ends at a rare value; what is no end of one level is none of the next either.
    """
    if not (width > 0 and np.isfinite(width)):
        raise ParameterError(
            f"a width of {width:g} is not possible", remedy="Give a number larger than zero."
        )
    finite = points[np.isfinite(points)]
    lower = 0.0
    levels: list[pa.Array] = []
    while True:
        if not levels and len(rare):
            lower = _lowering(finite, width, rare)
        lowest, highest = float(finite.min()) + lower, float(finite.max()) + lower
        first, last = np.floor(lowest / width) - 1, np.floor(highest / width) + 2
        if last - first > _MOST_INTERVALS:
            raise ParameterError(
                f"a width of {width:g} makes {last - first:.3g} intervals",
                where=f"column `{name}`",
                remedy="Give a larger width.",
            )
        cuts = _multiples(first, last, width, lower)
        if (np.diff(cuts) <= 0).any():
            raise ParameterError(
                f"a width of {width:g} is lost among numbers of this size",
                where=f"column `{name}`",
                remedy="Give a larger width.",
            )
        cuts = cuts[~np.isin(cuts, rare)]
        used = np.unique(np.searchsorted(cuts, finite, "right"))
        if len(used) == 1:
            return levels
        levels.append(_labels(points, cuts, kind))
        if len(used) == 2 and lowest < 0 <= highest and -lowest <= width and highest < width:
            return levels  # the intervals on either side of zero never become one
        width *= fanout


def _multiples(first: float, last: float, width: float, lower: float) -> Array:
    """Multiples of a width, or numbers so far below them."""
    # Rounding to 15 digits makes 3 * 0.1 the number people write.
    return np.array([float(f"{i * width - lower:.15g}") for i in np.arange(first, last + 1)])


def _lowering(finite: Array, width: float, rare: Array) -> float:
    """How far below multiples intervals end: not at all, unless many multiples are rare values."""
    first, last = np.floor(finite.min() / width), np.floor(finite.max() / width)
    if last - first > _MOST_INTERVALS:
        return 0.0
    if np.isin(_multiples(first, last, width, 0.0), rare).mean() <= _MANY:
        return 0.0
    for half in dict.fromkeys(float(resolution(finite, share)) / 2 for share in SITTING):
        if not np.isin(_multiples(first, last, width, half), rare).any():
            return half
    return 0.0


def _equal_width(
    values: pa.Array, points: Array, count: int, fanout: int, k: int
) -> list[pa.Array]:
    """So many intervals of about equal width around all values."""
    if count < 1:
        raise ParameterError(f"{count} intervals are not possible", remedy="Give at least 1.")
    order = _in_order(values, points)
    cuts = np.linspace(points[order[0]], points[order[-1]], count, endpoint=False)
    line = values.take(pa.array(order))

    def below(ends: Ends) -> Array:
        return np.searchsorted(ends.points, cuts, "right") - 1

    begins = np.searchsorted(points[order], cuts)
    ends = _rounded(line, np.ones(len(line)), k, begins, below)
    return _merging(order, len(points), ends, fanout)


def _rounded(
    line: pa.Array, counts: Array, k: int, begins: Array, below: Callable[[Ends], Array]
) -> tuple[Array, list[str]]:
    """Round ends below cuts, and one above all values: how many values lie below each, its text.

    They are as coarse as keeps them apart. Where nothing round lies between two cuts, intervals of
    numbers are cut between the values instead, and of others there are fewer.
    """
    last = np.array([len(line) - 1])
    best: tuple[Array, list[str]] = (np.array([0, len(line)]), ["", ""])
    for finest in (FINEST, FINEST / 10, FINEST / 100, FINEST / 10_000):
        ends = round_ends(line, counts, k, finest)
        if ends is None:
            break
        wanted = np.append(below(ends), ends.around(last, last)[1])
        at = np.unique(wanted)
        found = ends.below[at], ends.texts.take(pa.array(at)).to_pylist()
        if len(at) == len(wanted):
            return found
        best = max(found, best, key=lambda one: (one[1][0] != "", len(one[1])))
    return best if pa.types.is_temporal(line.type) else _between_values(line, begins, best[1])


def _between_values(line: pa.Array, begins: Array, outer: list[str]) -> tuple[Array, list[str]]:
    """Ends between the first values of intervals and the values before them."""
    below, texts = [0], [outer[0]]
    for begin in np.unique(begins[begins > 0]).tolist():
        text = _middle(line[begin - 1].as_py(), line[begin].as_py())
        if text is not None:
            below.append(begin)
            texts.append(text)
    return np.array([*below, len(line)]), [*texts, outer[-1]]


def _middle(low: Any, high: Any) -> str | None:
    """The number of fewest digits about halfway; None where no number lies between.

    Examples
    --------
    >>> _middle(2, 3), _middle(9, 100_000), _middle(2**60, 2**60 + 1), _middle(0.0, 5e-324)
    ('2.5', '50000', '1152921504606846976.5', None)
    """
    first, last = Decimal(str(low)), Decimal(str(high))
    half = (first + last) / 2
    for digits in range(1, 29):
        middle = Context(prec=digits).plus(half)
        if isinstance(low, float):
            if low < float(middle) < high:
                return _text(float(middle), pa.float64())
        elif first < middle < last:
            return f"{middle:f}"
    return None


def _between(points: Array, edges: Array, fanout: int, kind: pa.DataType) -> list[pa.Array]:
    """Intervals between given edges, open at either end."""
    if len(edges) == 0 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ParameterError("edges must be finite and ascending", remedy="Write e.g. 18,30,65.")
    levels = []
    while len(edges):
        levels.append(_labels(points, np.concatenate([[-np.inf], edges, [np.inf]]), kind))
        edges = edges[fanout - 1 :: fanout]
    return levels


def _merging(order: Array, size: int, ends: tuple[Array, list[str]], fanout: int) -> list[pa.Array]:
    """Intervals from each end to the next, then ever `fanout` neighbours together."""
    below, texts = ends
    levels = []
    at = np.arange(len(below))
    rank = np.full(size, -1)
    rank[order] = np.arange(len(order))
    while len(at) > 2:
        labels = [_interval(texts[low], texts[high]) for low, high in pairwise(at)]
        place = np.clip(np.searchsorted(below[at], rank, "right") - 1, 0, len(labels) - 1)
        levels.append(pa.array(labels).take(pa.array(place, mask=rank < 0)))
        at = np.append(at[:-1][::fanout], at[-1])
    return levels


def _interval(low: str, high: str) -> str:
    """An interval's label; an end that is empty is open."""
    if not low or not high:
        return f"< {high}" if high else f">= {low}"
    return f"[{low}, {high})"


def _points(values: pa.Array, name: str) -> tuple[Array, pa.Array]:
    """The values without nulls, as numbers and as text."""
    values = values.drop_null()
    return numbers(values, name), as_text(values)


def _labels(points: Array, cuts: Array, kind: pa.DataType) -> pa.Array:
    """Label of the interval that each point lies in; null for what is no finite number."""
    ends = [_text(cut, kind) if np.isfinite(cut) else "" for cut in cuts]
    texts = [_interval(low, high) for low, high in pairwise(ends)]
    at = np.clip(np.searchsorted(cuts, points, "right") - 1, 0, len(texts) - 1)
    return pa.array(texts, type=pa.string()).take(pa.array(at, mask=~np.isfinite(points)))


def _hierarchy(kept: pa.Array, levels: list[pa.Array]) -> Hierarchy:
    """Leaves, the levels, and the root; not-a-number and infinities repeat their own label."""
    named = [level.fill_null(kept) if level.null_count else level for level in levels]
    return Hierarchy.from_levels([kept, *named, pa.repeat("*", len(kept))])


def _text(point: float, kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=int(np.ceil(point)))
        return day.isoformat()
    if pa.types.is_timestamp(kind):
        return str(pa.scalar(int(point), pa.int64()).cast(kind).cast(pa.string()).as_py())
    point = float(point)
    return str(int(point)) if point.is_integer() and abs(point) < 1e15 else repr(point)


def _refuse_fanout(fanout: int) -> None:
    if fanout < 2:
        raise ParameterError(f"a fanout of {fanout} never ends", remedy="Give at least 2.")
