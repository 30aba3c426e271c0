"""Where ranges of a column begin and end: at round numbers and whole days, months and years.

A range that ends at the smallest and largest value of its group shows two cells of the table to
everybody. Ends of a grid show none: no end is a value that fewer than k rows hold (but for
00:00:00, before which no range of times can begin), and no such value lies alone between two
neighbouring ends. How fine the grid is depends on the column's spread, and where classes are known,
on what they lose by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.hierarchy.labels import as_text
from sfumato.hierarchy.tree import Array

FINEST = 0.01
"""A step is at most this share of the spread of the middle rows, unless values are coarser."""
_MIDDLE = (0.1, 0.9)
"""Between these quantiles of rows; extremes must not make the grid coarse for everybody else."""
_MOST_POINTS = 100_000
"""Grids of more points hold only those near values."""
_TOO_FAR = 0.1
"""Share of the spread that avoiding rare values may cost before ends move between the values."""
_FINER = tuple(0.5**halved for halved in range(17))
"""Shares of the longest step that are tried where it would make ranges too wide."""
SITTING = (1.0, 0.9, 0.5, 0.1)
"""Shares of values that decide how far apart values lie; one odd value must not decide alone."""
_MOST_LOOKED_AT = 10_000
"""Values that are enough to tell how far apart most of them lie."""
_SAFE = 2**62
"""Whole numbers below this leave room for a step beyond them."""
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of time in a second."""
_DAY = 86_400
_CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
"""Round seconds, minutes and hours, in seconds."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Where ranges may begin and end, ascending.

    Attributes
    ----------
    below
        How many of the column's values on the line lie below each end.
    points, texts, values
        The ends as numbers, as labels show them, and as values of their own type.
    step
        The distance between two neighbours, in words.
    """

    below: Array
    points: Array
    texts: pa.Array
    values: pa.Array
    step: str

    def around(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The nearest ends around the values of ranks ``low … high``: at or below, and above."""
        begin = np.searchsorted(self.below, low, "right") - 1
        return begin, np.searchsorted(self.below, high, "right")


def round_ends(line: pa.Array, counts: Array, k: int, finest: float = FINEST) -> Ends | None:
    """The grid of a column, without the values that fewer than k rows hold.

    Parameters
    ----------
    line
        The column's distinct finite values, ascending.
    counts
        Rows that hold each of them; a value of no row is held by nobody.
    k
        From how many rows on a value may be an end.
    finest
        The longest step, as a share of the spread of the middle rows.

    Returns
    -------
    ends
        None where there is nothing to cut: fewer than two values.

    Examples
    --------
    >>> ages = pa.array([18, 21, 22, 35, 36, 90])
    >>> grid = round_ends(ages, np.array([9, 9, 9, 1, 9, 1]), k=5)
    >>> grid.step, grid.texts.to_pylist()[17:20], grid.texts.to_pylist()[-2:]
    ('1', ['34', '36', '37'], ['89', '91'])
    """
    if len(line) < 2:
        return None
    grid = _grid_of(line, _middle_rows(line, counts), finest)
    if grid is None:
        return None
    place, rare = grid.held(grid.points, counts, k)
    if rare.any():
        fewer, spaced = _but_for(rare), grid.spaced(grid.resolution)
        if grid.width(place, fewer, counts) - grid.width(place, spaced, counts) > _TOO_FAR:
            return grid.between(counts, k)
    return grid.on_values(counts, k)


def finer_ends(line: pa.Array, counts: Array, k: int, finest: float = FINEST) -> Iterator[Ends]:
    """Grids at ever finer round numbers, then grids between values, ever finer.

    Parameters are those of `round_ends`. The last grid cuts between all values, but for those that
    fewer than k rows hold: each shares its place with a neighbour.

    Examples
    --------
    >>> ages = pa.array([20, 21, 22, 23, 24])
    >>> for ends in finer_ends(ages, np.array([9, 9, 1, 9, 9]), k=5):
    ...     print(ends.texts.to_pylist())
    ['19', '20', '21', '23', '24', '25']
    ['18.5', '19.5', '21.5', '24.5']
    ['18.5', '19.5', '20.5', '22.5', '23.5', '24.5']
    """
    grids = []
    for grid in _finer(line, counts, finest):
        yield grid.on_values(counts, k)
        if grid.held(grid.points, counts, k)[1].any():
            grids.append(grid)
    for grid in grids:
        yield grid.between(counts, k)
    if grids and grids[-1].step <= float(grids[-1].resolution):
        yield grids[-1].around_values(counts, k)


def _finer(line: pa.Array, counts: Array, finest: float) -> Iterator[_Grid]:
    """Grids of ever finer steps, down to that of the values."""
    if len(line) < 2:
        return
    middle, step = _middle_rows(line, counts), math.inf
    for share in _FINER:
        grid = _grid_of(line, middle, finest * share)
        if grid is None:
            return
        if grid.step < step:
            step = grid.step
            yield grid
        if step <= float(grid.resolution) or len(grid.points) > _MOST_POINTS:
            return


def _but_for(rare: Array) -> Array:
    """Which points stay: the first and last lie beyond all values, or where a day begins, ends."""
    fine = ~rare
    fine[[0, -1]] = True
    return fine


@dataclass(frozen=True, eq=False)
class _Grid:
    """Candidates for ends, in the unit of the column (days, microseconds, the number itself)."""

    line: Array
    points: Array
    step: float
    resolution: Any
    kind: pa.DataType
    words: str

    def held(self, points: Array, counts: Array, k: int) -> tuple[Array, Array]:
        """How many values lie below each point, and whether fewer than k rows hold just it."""
        line = self.line.astype(object) if points.dtype == object else self.line
        below = np.searchsorted(line, points)
        inside = np.minimum(below, len(line) - 1)
        hits = (below < len(line)) & (line[inside] == points)
        return below, hits & (counts[inside] > 0) & (counts[inside] < k)

    def spaced(self, resolution: Any) -> Array:
        """Which points to take so that two values at least lie between neighbours."""
        every = max(1, math.ceil(2 * float(resolution) / self.step))
        places = np.round(self.points.astype(float) / self.step)
        chosen = places % every == 0
        chosen[places > places[-1] - every] = False  # too near to the last
        chosen[[0, -1]] = True
        return np.asarray(chosen)

    def on_values(self, counts: Array, k: int) -> Ends:
        """All points but for the values that fewer than k rows hold."""
        below, rare = self.held(self.points, counts, k)
        fine = _but_for(rare)
        values = _typed(self.points[fine], self.kind)
        return Ends(below[fine], self.points[fine].astype(float), _text(values), values, self.words)

    def between(self, counts: Array, k: int) -> Ends:
        """Ends half a value below round ones, as long as those are nobody's either.

        Where values lie unevenly, the distance that makes the shortest ranges is a value's.
        """
        found = [self._lowered(each, counts, k) for each in self._resolutions()]
        return min(found, key=lambda ends: _width(ends.below, ends.points, counts))

    def _resolutions(self) -> list[Any]:
        """How far apart all values lie, and how far apart most of them."""
        if pa.types.is_date(self.kind):
            return [self.resolution]
        if pa.types.is_temporal(self.kind):
            second = TICKS[self.kind.unit]
            return list(dict.fromkeys(_finest(self.line, second, share) for share in SITTING))
        return list(dict.fromkeys(resolution(self.line, share) for share in SITTING))

    def around_values(self, counts: Array, k: int) -> Ends:
        """Ends half a value below all points, none of them around a value of few rows alone."""
        return self._lowered(self.resolution, counts, k, all_points=True)

    def _lowered(self, resolution: Any, counts: Array, k: int, *, all_points: bool = False) -> Ends:
        points = self.points if all_points else self.points[self.spaced(resolution)]
        ends = _halfway(points, resolution, self.kind)
        if ends[-1] <= self.line[-1:].tolist()[0]:  # values off the grid may lie above
            ends[-1] = points[-1:].tolist()[0]
        below, rare = self.held(ends, counts, k)
        fine = _but_for(rare)
        if all_points:
            fine[fine] = _not_alone(below[fine], counts, k)
        values, words = _typed_between(ends[fine], self.kind), f"{self.words}, between values"
        return Ends(below[fine], ends[fine].astype(float), _text(values), values, words)

    def width(self, below: Array, chosen: Array, counts: Array) -> float:
        """How wide the range around one row becomes on average, over the spread."""
        # Beyond 2 to the 53 different whole numbers may be the same float.
        spread = float(self.line[-1]) - float(self.line[0]) or float(self.resolution)
        return _width(below[chosen], self.points[chosen].astype(float), counts) / spread


def _not_alone(below: Array, counts: Array, k: int) -> Array:
    """Which ends to keep so that values of fewer than k rows share their place with a neighbour.

    The neighbour is that of fewer rows: ranges that end there become wider by it.
    """
    rows = np.diff(np.concatenate([[0.0], np.cumsum(counts)])[below])
    keep, joined = np.ones(len(below), dtype=bool), np.zeros(len(rows), dtype=bool)
    for at in np.flatnonzero((rows > 0) & (rows < k)).tolist():
        if joined[at] or len(rows) < 2:
            continue
        left = at > 0 and (at + 1 == len(rows) or rows[at - 1] <= rows[at + 1])
        keep[at if left else at + 1] = False
        joined[[at - 1, at] if left else [at, at + 1]] = True
    return keep


def _width(below: Array, points: Array, counts: Array) -> float:
    """How wide the range around one row becomes on average."""
    end = np.searchsorted(below, np.arange(len(counts)), "right")
    widths = points[end] - points[end - 1]
    return float(np.average(widths, weights=counts)) if counts.any() else 0.0


def _middle_rows(line: pa.Array, counts: Array) -> tuple[int, int]:
    """Ranks between which most rows lie, and with them the spread that decides the step."""
    reached = np.cumsum(counts)
    last = len(line) - 1
    low, high = (min(int(np.searchsorted(reached, share * reached[-1])), last) for share in _MIDDLE)
    return (low, high) if low < high else (0, last)


def _grid_of(line: pa.Array, middle: tuple[int, int], finest: float) -> _Grid | None:
    kind = line.type
    if pa.types.is_date(kind):
        days = np.asarray(line.cast(pa.date32()).cast(pa.int32()), dtype=np.int64)
        return _calendar(days, kind, finest * float(days[middle[1]] - days[middle[0]]))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        moments = np.asarray(line.cast(whole), dtype=np.int64)
        return _clock(moments, kind, finest * float(moments[middle[1]] - moments[middle[0]]))
    exact = _exact(line, kind)
    spread = Decimal(str(exact[middle[1]])) - Decimal(str(exact[middle[0]]))
    return _numeric(exact, kind, finest * float(spread))


def _numeric(exact: Array, kind: pa.DataType, most: float) -> _Grid | None:
    """Multiples of 1, 2 or 5 times a power of ten."""
    if not 0 < most < math.inf:
        return None
    unit = resolution(exact)
    step = max(round_step(most), unit)

    def place(value: Any) -> int:
        return math.floor(Decimal(str(value)) / step)

    places = _places(place(exact[0]), place(exact[-1]), lambda: map(place, exact.tolist()))
    points = [step * at for at in places]
    if pa.types.is_integer(kind):
        numbers: Array = np.array([int(point) for point in points], dtype=exact.dtype)
    elif pa.types.is_decimal(kind):
        numbers = np.array(points, dtype=object)
    else:
        numbers = np.unique([float(point) for point in points])
        if numbers[0] > exact[0] or numbers[-1] <= exact[-1]:
            return None  # the step is lost among numbers of this size
    return _Grid(exact, numbers, float(step), unit, kind, f"{float(step):g}")


def _places(first: int, last: int, all_places: Callable[[], Iterable[int]]) -> list[int]:
    """From one before the first place to one behind the last; of very many, those near values.

    Those are the places of values and their neighbours: whoever moves on from one finds the next.
    """
    if last - first < _MOST_POINTS:
        return list(range(first - 1, last + 2))
    return sorted({place + step for place in all_places() for step in (-1, 0, 1, 2)})


def _exact(line: pa.Array, kind: pa.DataType) -> Array:
    """Values that compare exactly with round numbers."""
    if pa.types.is_floating(kind):  # as they are written: 0.9 of 32 bits is less than 0.9 of 64
        return np.asarray((line if kind == pa.float64() else as_text(line)).cast(pa.float64()))
    if pa.types.is_integer(kind) and max(abs(line[0].as_py()), abs(line[-1].as_py())) < _SAFE:
        return np.asarray(line.cast(pa.int64()))
    return np.array(line.to_pylist(), dtype=object)


def round_step(most: float) -> Decimal:
    """The largest of 1, 2, 5, 10, 20, … (or 0.1, 0.2, …) that is not above `most`.

    Examples
    --------
    >>> [float(round_step(most)) for most in (0.73, 3, 36.5)]
    [0.5, 2.0, 20.0]
    """
    unit = Decimal(1).scaleb(math.floor(math.log10(most)))
    return max((unit * m for m in (1, 2, 5) if float(unit * m) <= most), default=unit)


def resolution(exact: Array, share: float = 1.0) -> Decimal:
    """The largest power of ten that divides all values, or so many of them.

    It is tiny for numbers of full precision.
    """
    if share < 1:
        exact = exact[:: len(exact) // _MOST_LOOKED_AT + 1]
    if exact.dtype == object:
        digits = sorted((_last_digit(Decimal(value)) for value in exact), reverse=True)
        return Decimal(1).scaleb(digits[math.ceil(share * len(digits)) - 1])
    for digit in range(15, -16, -1):
        looks = (exact[:100], exact) if share == 1 else (exact,)
        if all((_rounded(some, digit) == some).mean() >= share for some in looks):
            return Decimal(1).scaleb(digit)
    return Decimal(1).scaleb(-300)


def _rounded(numbers: Array, digits: int) -> Array:
    """Numbers as multiples of a power of ten."""
    if numbers.dtype == np.int64:
        return np.asarray(numbers // 10 ** max(digits, 0) * 10 ** max(digits, 0))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.round(numbers, -digits))


def _last_digit(value: Decimal) -> int:
    """The power of ten of a number's last digit."""
    return 15 if value == 0 else int(value.normalize().as_tuple().exponent)


def _calendar(days: Array, kind: pa.DataType, most: float) -> _Grid:
    """Whole days, months or years; 1, 2 or 5 times a power of ten of years."""
    points, words = next(_calendars(int(days[0]), int(days[-1]), most))
    return _Grid(days, points, _mean_step(points), 1, kind, words)


def _calendars(first: int, last: int, most: float) -> Iterator[tuple[Array, str]]:
    """Days that begin a unit of the calendar, the longest unit of at most so many days first."""
    years = round_step(most / 366) if most >= 366 else None
    if years is not None and years >= 1:
        yield _begins(first, last, "Y", int(years)), _counted(int(years), "year")
    if most >= 31:
        yield _begins(first, last, "M", 1), "1 month"
    yield np.arange(first - 1, last + 2), "1 day"


def _begins(first: int, last: int, unit: str, every: int) -> Array:
    """First days of every so many units, from before the first day to after the last."""
    ends = np.array([first, last]).astype("datetime64[D]").astype(f"datetime64[{unit}]")
    low, high = (int(at) for at in ends.astype(np.int64))
    origin = -1970 if unit == "Y" else 0
    start = (low - origin) // every * every + origin - every
    units = np.arange(start, high + every + 1, every)
    return np.asarray(units.astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(np.int64))


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" + ("s" if number > 1 else "")


def _mean_step(points: Array) -> float:
    return float(points[-1] - points[0]) / (len(points) - 1)


def _clock(moments: Array, kind: pa.DataType, longest: float) -> _Grid:
    """Round seconds, minutes and hours; then whole days, months and years."""
    second = TICKS[kind.unit]
    most = longest / second
    resolution = _finest(moments, second)
    if most >= _DAY and not pa.types.is_duration(kind):
        day = _DAY * second
        first, last = int(moments[0] // day), int(moments[-1] // day)
        points, words = next(_calendars(first, last, most / _DAY))
        points = points * day
    else:
        step, words = _tick(most, second, resolution)
        held = moments // step
        points = np.array(_places(int(held[0]), int(held[-1]), held.tolist)) * step
    if pa.types.is_time(kind):
        points = np.unique(np.clip(points, 0, _DAY * second))
    return _Grid(moments, points, _mean_step(points), resolution, kind, words)


def _finest(moments: Array, second: int, share: float = 1.0) -> int:
    """The longest round time that divides all moments, or so many of them."""
    for ticks in (*(_DAY * second,), *(seconds * second for seconds in (3600, 60, 1))):
        if (moments % ticks == 0).mean() >= share:
            return int(ticks)
    ticks = second
    while ticks > 1 and (moments % ticks == 0).mean() < share:
        ticks //= 10
    return ticks


def _tick(most: float, second: int, resolution: int) -> tuple[int, str]:
    """The longest round time of at most so many seconds, in ticks of the column, and its name."""
    if most >= _DAY:
        days = max(int(round_step(most / _DAY)), resolution // (_DAY * second))
        return days * _DAY * second, _counted(days, "day")
    if most >= 1:
        seconds = max(tick for tick in _CLOCK if tick <= most)
    else:
        seconds = 0
        ticks = max(int(round_step(most * second)) if most * second >= 1 else 1, resolution)
        if ticks < second:
            return ticks, f"{ticks / second:g} seconds"
    seconds = max(seconds, resolution // second, 1)
    for unit, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            return seconds * second, _counted(seconds // unit, name)
    raise AssertionError("whole seconds are seconds")


def _typed(points: Array, kind: pa.DataType) -> pa.Array:
    """Ends as values: of the column's type where they fit it."""
    if pa.types.is_date(kind):
        return pa.array(points.astype(np.int32)).cast(pa.date32())
    if pa.types.is_time(kind):
        last = _DAY * TICKS[kind.unit] - 1  # midnight at the end of the day is no time of day
        return pa.array(np.minimum(points, last)).cast(
            pa.int32() if pa.types.is_time32(kind) else pa.int64()
        ).cast(kind)  # fmt: skip
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(points.astype(np.int64)).cast(kind)
    if pa.types.is_integer(kind):
        fits = all(-(2**63) <= point < 2**63 for point in points)
        return pa.array(points.tolist(), pa.int64() if fits else pa.decimal128(38, 0))
    return pa.array(points.tolist())


def _halfway(points: Array, resolution: Any, kind: pa.DataType) -> Array:
    """Half a resolution below points, exactly: decimal numbers where floating point is not."""
    if pa.types.is_date(kind):
        return np.asarray(points - 0.5)
    if pa.types.is_temporal(kind):
        moved = points - resolution // 2  # at one tick nothing lies between
        return np.maximum(moved, 0) if pa.types.is_time(kind) else np.asarray(moved)
    half = Decimal(resolution) / 2
    lowered = [Decimal(str(point)) - half for point in points.tolist()]
    large = pa.types.is_integer(kind) and max(abs(lowered[0]), abs(lowered[-1])) >= 2**51
    exact = large or pa.types.is_decimal(kind)
    return np.array(lowered, dtype=object) if exact else np.array(lowered, dtype=float)


def _typed_between(points: Array, kind: pa.DataType) -> pa.Array:
    """Ends between values as values: noons between days, numbers between numbers."""
    if pa.types.is_date(kind):
        return pa.array((points * _DAY).astype(np.int64)).cast(pa.timestamp("s"))
    if pa.types.is_temporal(kind):
        return _typed(points, kind)
    return pa.array([Decimal(end) if points.dtype == object else end for end in points.tolist()])


def _text(values: pa.Array) -> pa.Array:
    """Ends as they stand in labels: no zeros behind the second."""
    text = as_text(values)
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        text = pc.replace_substring_regex(text, r"\.0+(Z?)$", r"\1")
        text = pc.replace_substring_regex(text, r"^23:59:59\.9+$", "24:00:00")
        if pc.all(pc.match_substring_regex(text, " 00:00:00Z?$")).as_py():
            text = pc.replace_substring_regex(text, " 00:00:00Z?$", "")
    return text
