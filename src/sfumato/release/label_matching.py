"""What a released cell says about a person: which values of an outside table it may stand for.

Understood are values, ``*`` (``**`` beside a value ``*``) and null (anything), ranges
``[20, 30)``, ``[20, 29]``, ``20-29``, ``<20``, ``>=90``, ``90+`` (of a date: so many years ago),
sets ``{Divorced, Widowed}``, masked codes ``021**`` and ``021``, parts of dates (``1987``,
``1987-03``, ``1987-Q1``, ``1980s``) and the nodes of a hierarchy.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns.codebooks import RESTRICTED_AREAS, looks_postal, postal_text
from sfumato.errors import ColumnError
from sfumato.hierarchy import Ranges
from sfumato.hierarchy.labels import as_text, braces_around, set_members
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import bare, compiled, without_numba

if TYPE_CHECKING:
    from sfumato.hierarchy import Hierarchy, Ranges


Ints = npt.NDArray[np.int64]

_AND_ABOVE = re.compile(r"(-?\d+(?:\.\d+)?)\s*\+")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d*?)0+(?=Z|[+-]|$)")
_PART_OF_DATE = re.compile(r"(\d{4})(?:-(\d{2}(?:-\d{2})?)|-Q([1-4])|(s))?")

MOST_LISTED = 100_000_000
"""Values that sets of a column may list together, where they are no runs of values."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Which of a column's values each released cell covers.

    Values have a *place*; a cell covers the places ``low <= place <= high`` (high < low: none).
    Where some cells are sets that are no runs, the places of the one numbered i are `listed` from
    ``starts[i]`` to ``starts[i + 1]``, ascending, none of a cell that is a run; `low`, `high` are
    only the outer limits. `unread` cells were not understood, or name values that the other table
    does not have; they cover nothing.
    """

    place: Ints
    low: Ints
    high: Ints
    starts: Ints | None = None
    listed: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    unread: int = 0

    def covers(self, cell: npt.NDArray[Any], code: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether cells cover values, pair by pair."""
        at = self.place[code]
        inside = (self.low[cell] <= at) & (at <= self.high[cell])
        if self.starts is not None:
            numbers = np.arange(len(self.low)).repeat(np.diff(self.starts))
            size = len(self.place)
            pairs = np.append(numbers * size + self.listed, -1)  # ascending, but for the last
            asked = np.asarray(cell, np.int64) * size + at
            there = pairs[np.searchsorted(pairs[:-1], asked)] == asked
            inside &= there | (np.diff(self.starts)[cell] == 0)
        return np.asarray(inside)

    @property
    def size(self) -> Ints:
        """Values that each cell covers."""
        run = np.maximum(self.high - self.low + 1, 0)
        many = 0 if self.starts is None else np.diff(self.starts)
        return np.asarray(np.where(many, many, run))

    def codes(self, cell: int) -> Ints:
        """The values that a cell covers."""
        places = np.arange(self.low[cell], self.high[cell] + 1)
        if self.starts is not None and self.starts[cell] < self.starts[cell + 1]:
            places = self.listed[self.starts[cell] : self.starts[cell + 1]]
        return np.asarray(self._code_at[places])

    @cached_property
    def _code_at(self) -> Ints:
        return np.argsort(self.place)


class Cells(NamedTuple):
    """What the rows of a release cover, as compiled loops take it.

    Attributes
    ----------
    rows
        The cell of each row in each column.
    low, high
        For each row and column the first and the last place.
    sets
        For each column with cells that are no runs its number, and where its `starts` begin among
        those of all.
    starts, listed
        The places of cells that are no runs, as in a `Reading`.
    """

    rows: Array
    low: Array
    high: Array
    sets: Array
    starts: Array
    listed: Array


class Tree(NamedTuple):
    """Points in a k-d tree: their order, and of each node its range in it, its two children (-1 for
    a leaf), the box around its points and their weight."""

    order: Array
    span: Array
    child: Array
    box: Array
    total: Array


def cells_of(rows: npt.NDArray[Any], readings: Sequence[Reading]) -> Cells:
    """What rows of cells cover."""
    low, high = (np.empty(rows.shape, np.int32) for _ in range(2))
    sets, starts, listed = [], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for at, reading in enumerate(readings):
        low[:, at], high[:, at] = reading.low[rows[:, at]], reading.high[rows[:, at]]
        if reading.starts is not None:
            sets.append((at, sum(map(len, starts))))
            starts.append(reading.starts + sum(map(len, listed)))
            listed.append(reading.listed)
    found = np.array(sets, np.int64).reshape(-1, 2)
    return Cells(rows, low, high, found, np.concatenate(starts), np.concatenate(listed))


def read_cells(
    name: str,
    labels: pa.Array,
    values: pa.Array,
    hierarchy: Hierarchy | None = None,
    *,
    of_person: bool = True,
    null_is_value: bool = False,
) -> Reading:
    """Read the distinct cells of a released column against the distinct values of another table.

    Parameters
    ----------
    name
        The column, for messages.
    labels
        Distinct cells of the release.
    values
        Distinct values of the outside table, ascending, a null last.
    hierarchy
        The tree whose nodes the release shows, where it does.
    of_person
        Whether the values are those of persons who are looked for: then a null may be anybody, and
        cells that all mean nothing there are refused. Otherwise a null is a value like others.
    null_is_value
        Whether a null of persons, too, is a value like others, and no star.

    Examples
    --------
    >>> import pyarrow as pa
    >>> labels = pa.array(["[20, 30)", "30", "*", "90+"])
    >>> reading = read_cells("age", labels, pa.array([20, 29, 30, 95]))
    >>> reading.low.tolist(), reading.high.tolist()
    ([0, 2, 0, 3], [1, 2, 3, 3])
    """
    reader = _Reader(name, values, hierarchy)
    reader.null_is_value = null_is_value or not of_person
    texts = as_text(labels).to_pylist()
    if not of_person:
        own = zip(as_text(values).to_pylist(), reader.place.tolist(), strict=True)
        reader.at |= dict(own)  # 2138 is itself, and no area of ZIP codes
    covered = [reader.places(text) for text in reader.plain(texts)]
    if of_person and texts and all(places is None for places in covered):
        raise ColumnError(
            f"none of its {len(texts):,} distinct cells is a value, range or set of values of the "
            "other table",
            where=f"column `{name}`",
            remedy="Give the hierarchies the release was made with, or check "
            "that both tables write the column alike.",
        )
    return reader.reading(covered)


class _Reader:
    """Turns one label after the other into the places it covers."""

    def __init__(self, name: str, values: pa.Array, hierarchy: Hierarchy | None) -> None:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.line = _line(name, values)
        self.null_is_value = False
        postal = looks_postal(name, values)
        if postal:  # read from a spreadsheet, 02138 may have become the number 2138
            values = postal_text(name, values, pad=True)
        self.size = len(values)
        self.is_moment = pa.types.is_timestamp(values.type)
        self.text: list[str | None] = self.plain(as_text(values).to_pylist())
        self.sorted = sorted(text for text in self.text if text is not None)
        self.place = np.arange(self.size)
        self.is_date = pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)
        self.is_date |= bool(self.sorted) and all(map(_ISO_DATE.match, self.sorted))
        self.codes = 0  # length of ZIP-like codes
        if postal:
            self.codes = min(len(text) for text in self.text if text is not None)
        self.leaves: dict[str, list[str]] = {}
        if hierarchy is not None:
            self._climb(hierarchy)
        self.at = {text: int(self.place[i]) for i, text in enumerate(self.text)}

    def _climb(self, hierarchy: Hierarchy) -> None:
        """Order values as the leaves of the tree, so that a node covers one run of places."""
        levels = [self.plain(level.to_pylist()) for level in hierarchy.levels()]
        order = {levels[0][leaf]: at for at, leaf in enumerate(hierarchy.tree.order.tolist())}
        rank = [order.get(text, len(order)) for text in self.text]
        self.place[np.argsort(rank, kind="stable")] = np.arange(self.size)
        for level in levels[1:]:
            for leaf, label in zip(levels[0], level, strict=True):
                self.leaves.setdefault(label, []).append(leaf)

    def plain(self, texts: list[Any]) -> list[Any]:
        """Points in time without the zeros that tell in which unit a file keeps them."""
        if not self.is_moment:
            return texts
        return [text and _FRACTION.sub(_without_zeros, text) for text in texts]

    def places(self, text: str | None) -> Ints | tuple[int, int] | None:
        """Covered places, or (low, high) where they are one run; None if not understood."""
        if text is None and not self.null_is_value:
            return 0, self.size - 1
        if text in self.at:  # a value that is a star itself; all values have one more star
            return self.at[text], self.at[text]
        if text is None:
            return None
        if text and not text.strip("*"):
            return 0, self.size - 1
        if text in self.leaves:
            return self._of(self.leaves[text])
        if braces := braces_around(text):
            members = set_members(text[braces:-braces])
            return None if members is None else self._of(members)
        if self.is_date and (part := _PART_OF_DATE.fullmatch(text)):
            days = self._of_dates(part)
            is_day = len(text) == len("2020-01-31")  # where no time is on it, a value not known
            return None if is_day and not len(days) else days
        if self.is_date and (match := _AND_ABOVE.fullmatch(text)):
            born = dt.date.today().year - int(float(match[1]))
            return self._of(self.sorted[: bisect_left(self.sorted, f"{born + 1:04}")])
        if self.codes and text.isdigit() and len(text) < self.codes:
            return self._area(text)
        if "*" in text.rstrip("*"):
            return None
        if text.endswith(".*"):  # dotted codes: the code itself, and all below it
            return self._of([text[:-2], *self._beginning(text[:-1])])
        if text.endswith("*"):
            fits = self._beginning(text.rstrip("*"))
            return self._of([t for t in fits if len(t) == len(text)] or fits)
        return self._range(text)

    def _area(self, area: str) -> Ints:
        """ZIP codes of an area; 000 stands for all areas with few people."""
        heads = RESTRICTED_AREAS if area == "000" else {area}
        return self._of([text for head in heads for text in self._beginning(head)])

    def _beginning(self, head: str) -> list[str]:
        """All texts that begin so."""
        start = bisect_left(self.sorted, head)
        return self.sorted[start : bisect_left(self.sorted, head + "\U0010ffff", start)]

    def _of(self, texts: Sequence[str | None]) -> Ints:
        return np.array(sorted({self.at[t] for t in texts if t in self.at}), dtype=np.int64)

    def _of_dates(self, part: re.Match[str]) -> Ints:
        year, month, quarter, decade = part.groups()
        heads = [f"{year}-"]
        if month:
            heads = [f"{year}-{month}"]
        elif quarter:
            first = 3 * int(quarter) - 2
            heads = [f"{year}-{m:02}" for m in range(first, first + 3)]
        elif decade:
            heads = [year[:3]]
        return self._of([text for head in heads for text in self._beginning(head)])

    def _range(self, text: str) -> Ints | tuple[int, int] | None:
        found = None if self.line is None else self.line.span(text)
        if self.line is None or found is None:
            return None
        low, high = found
        codes = self.line.order[low : high + 1]
        if len(codes) and codes[-1] - codes[0] == high - low and not self.leaves:
            return int(codes[0]), int(codes[-1])
        return np.sort(self.place[codes])  # not-a-number is elsewhere, or places follow the tree

    def reading(self, covered: Sequence[Ints | tuple[int, int] | None]) -> Reading:
        low = np.zeros(len(covered), np.int64)
        high = np.full(len(covered), -1, np.int64)
        scattered: dict[int, Ints] = {}
        many = np.zeros(len(covered) + 1, np.int64)
        for cell, places in enumerate(covered):
            if places is None or len(places) == 0:
                continue  # fits nobody
            if isinstance(places, tuple):
                low[cell], high[cell] = places
                continue
            low[cell], high[cell] = places[0], places[-1]
            if places[-1] - places[0] + 1 != len(places):
                scattered[cell], many[cell + 1] = places, len(places)
        unread = sum(places is None for places in covered)
        if not scattered:
            return Reading(self.place, low, high, unread=unread)
        if many.sum() > MOST_LISTED:
            raise ColumnError(
                f"{len(scattered):,} sets list {many.sum():,} values, of the "
                f"{self.size:,} that there are, which is too many",
                remedy="Give the hierarchy that the sets come from.",
            )
        listed = np.concatenate([*scattered.values()]).astype(np.int32)
        return Reading(self.place, low, high, many.cumsum(), listed, unread)


def _without_zeros(fraction: re.Match[str]) -> str:
    return "." + fraction[1] if fraction[1] else ""


def _line(name: str, values: pa.Array) -> Ranges | None:
    """The values as numbers on a line; None for categories."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return None
    try:
        return Ranges(values, name)
    except ColumnError:
        return None


LEAF = 16


@compiled
def _halve(order: Array, points: Array, column: int, start: int, stop: int, middle: int) -> None:
    """Order a stretch so that no value before `middle` exceeds one after it (Hoare's selection)."""
    low, high = start, stop - 1
    while low < high:
        pivot = points[order[(low + high) // 2], column]
        i, j = low, high
        while i <= j:
            while points[order[i], column] < pivot:
                i += 1
            while points[order[j], column] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@without_numba
def build_tree(points: Array, weights: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Order points into a k-d tree: the parts of a `Tree`."""
    n, m = points.shape
    order = np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    most = max(1, 4 * (n // LEAF + 1))
    span = np.zeros((most, 2), np.int64)
    child = np.full((most, 2), -1, np.int64)
    box = np.zeros((most, m, 2), np.int64)
    total = np.zeros(most)
    span[0, 1] = n
    made, node = 1, 0
    whole = np.zeros(m, np.int64)
    while node < made:
        start, stop = span[node, 0], span[node, 1]
        wide, width = 0, -1.0
        for d in range(m):
            low = high = points[order[start], d] if stop > start else 0
            for i in range(start, stop):
                value = points[order[i], d]
                low, high = min(low, value), max(high, value)
            box[node, d, 0], box[node, d, 1] = low, high
            if node == 0:
                whole[d] = max(1, high - low)
            share = (high - low) / whole[d]  # of a column with few values as of one with many
            if share > width:
                wide, width = d, share
        for i in range(start, stop):
            total[node] += weights[order[i]]
        if stop - start > LEAF and width > 0:
            middle = (start + stop) // 2
            _halve(order, points, wide, start, stop, middle)
            child[node, 0], child[node, 1] = made, made + 1
            span[made, 0], span[made, 1] = start, middle
            span[made + 1, 0], span[made + 1, 1] = middle, stop
            made += 2
        node += 1
    return order, span[:made], child[:made], box[:made], total[:made]


@bare
def _listed_below(cells: Cells, begin: int, end: int, place: int) -> int:
    """How many places of a stretch of the list lie before one."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if cells.listed[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low - begin


@bare
def _visit(cells: Cells, r: int, node: int, box: Array) -> int:
    """How the released row meets the box around a node: 0 not, 2 wholly, 1 partly."""
    whole = 2
    for d in range(cells.low.shape[1]):
        first, last = box[node, d, 0], box[node, d, 1]
        if last < cells.low[r, d] or first > cells.high[r, d]:
            return 0
        if first < cells.low[r, d] or last > cells.high[r, d]:
            whole = 1
    for s in range(cells.sets.shape[0]):
        d = cells.sets[s, 0]
        at = cells.sets[s, 1] + cells.rows[r, d]
        begin, end = cells.starts[at], cells.starts[at + 1]
        if begin == end:  # it is a run
            continue
        first, last = box[node, d, 0], box[node, d, 1]
        before = _listed_below(cells, begin, end, first)
        covered = _listed_below(cells, begin, end, last + 1) - before
        if covered == 0:
            return 0
        if covered < last - first + 1:
            whole = 1
    return whole


@bare
def _matches(cells: Cells, r: int, points: Array, at: int) -> bool:
    for d in range(cells.low.shape[1]):
        if points[at, d] < cells.low[r, d] or points[at, d] > cells.high[r, d]:
            return False
    for s in range(cells.sets.shape[0]):
        d = cells.sets[s, 0]
        line = cells.sets[s, 1] + cells.rows[r, d]
        begin, end = cells.starts[line], cells.starts[line + 1]
        if begin == end:
            continue
        found = begin + _listed_below(cells, begin, end, points[at, d])
        if found == end or cells.listed[found] != points[at, d]:
            return False
    return True


@without_numba
def count_people(cells: Cells, points: Array, weights: Array, tree: Tree) -> Array:
    """Weight of the points that each released row may stand for."""
    order, span, child = tree.order, tree.span, tree.child
    found = np.zeros(len(cells.rows))
    stack = np.empty(len(span) + 2, np.int64)
    for r in range(len(cells.rows)):
        stack[0], depth = 0, 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            meets = _visit(cells, r, node, tree.box)
            if meets == 0:
                continue
            if meets == 2:
                found[r] += tree.total[node]
            elif child[node, 0] < 0:
                for i in range(span[node, 0], span[node, 1]):
                    if _matches(cells, r, points, order[i]):
                        found[r] += weights[order[i]]
            else:
                stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
                depth += 2
    return found


@without_numba
def count_persons(cells: Cells, points: Array, person: Array, persons: int, tree: Tree) -> Array:
    """Different persons among the points that each released row may stand for."""
    order, span, child = tree.order, tree.span, tree.child
    found = np.zeros(len(cells.rows))
    seen = np.full(persons, -1, np.int64)
    stack = np.empty(len(span) + 2, np.int64)
    for r in range(len(cells.rows)):
        stack[0], depth = 0, 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            meets = _visit(cells, r, node, tree.box)
            if meets == 0:
                continue
            if meets == 1 and child[node, 0] >= 0:
                stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
                depth += 2
                continue
            for i in range(span[node, 0], span[node, 1]):
                who = person[order[i]]
                if seen[who] != r and (meets == 2 or _matches(cells, r, points, order[i])):
                    seen[who] = r
                    found[r] += 1
    return found


@compiled
def _points_in(cells: Cells, r: int, points: Array, tree: Tree, found: Array) -> int:
    """Collect the points that a released row may stand for; how many they are."""
    order, span, child = tree.order, tree.span, tree.child
    stack = np.empty(len(span) + 2, np.int64)
    stack[0], depth, count = 0, 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if _visit(cells, r, node, tree.box) == 0:
            continue
        if child[node, 0] >= 0:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
            continue
        for i in range(span[node, 0], span[node, 1]):
            if _matches(cells, r, points, order[i]):
                found[count] = order[i]
                count += 1
    return count


@without_numba
def claim_points(cells: Cells, points: Array, weights: Array, least: int, tree: Tree) -> Array:
    """The released row that each point goes to; -1 where none may stand for it.

    One released row after the other takes all points that are left and that it may stand for, if
    they weigh enough. Those that got none then try again, with points that others can spare.
    """
    owner = np.full(len(points), -1, np.int64)
    weight = np.zeros(len(cells.rows), np.int64)
    found = np.empty(len(points), np.int64)
    for spared in range(2):
        for r in range(len(cells.rows)):
            if weight[r] > 0:
                continue
            count = _points_in(cells, r, points, tree, found)
            free, more = 0, 0
            for i in range(count):
                if owner[found[i]] < 0:
                    free += weights[found[i]]
            if free == 0:
                continue
            for i in range(count):
                at = found[i]
                other = owner[at]
                short = spared == 1 and other >= 0 and free + more < least
                if short and weight[other] - weights[at] >= least:
                    weight[other] -= weights[at]
                    more += weights[at]
                    owner[at] = -2 - other
            enough = free + more >= least
            for i in range(count):
                at = found[i]
                if owner[at] < 0 and enough:
                    owner[at] = r
                elif owner[at] < -1:  # it was not enough: give back
                    owner[at] = -2 - owner[at]
                    weight[owner[at]] += weights[at]
            if enough:
                weight[r] = free + more
    return owner
