"""What of a table may be shown: only values that many rows hold.

A report is read by more people than the table is. Values held by fewer than `RARE` rows are never
named in it, neither in text nor on an axis; ranges of numbers begin and end at round figures, and
their ends are those between which all but a few rows lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.hierarchy import labels
from sfumato.tables import Table
from sfumato.wording import shown

RARE = 10
"""Values that fewer rows hold are not shown."""
MOST_VALUES = 12
"""Values of a column shown at most."""
MOST_BINS = 24
MOST_DISTINCT = 200_000
"""Columns with more values than this are not drawn."""

Floats = npt.NDArray[np.float64]
Ranges = list[tuple[float, float, float, float]]
"""Low end, high end, rows before, rows after."""


def name_of(table: str) -> str:
    """A table's name without the folder it lies in and without what a database address holds.

    Examples
    --------
    >>> name_of("/home/ada/people.csv"), name_of("postgresql://ada:secret@host/db#public.people")
    ('people.csv', 'public.people')
    """
    if "://" in table:
        return shown(table).partition("#")[2] or "a database table"
    return PurePath(table).name or "table"


def counts_of(table: Table, column: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Values of a column and the rows that hold each."""
    found = table.values(column)
    counts = np.ones(found.entries, np.int64) if found.counts is None else found.counts
    held = np.bincount(found.arrays[0], weights=counts, minlength=len(found.values[0]))
    return found.values[0], held.astype(np.int64)


def as_text(values: pa.Array) -> list[str | None]:
    """Values as a release writes them."""
    texts: list[str | None] = labels.as_text(values).to_pylist()
    return texts


def common_values(
    before: Mapping[str, int], after: Mapping[str, float]
) -> tuple[list[tuple[str, float, float]], int]:
    """Values to show, with their shares before and after, and how many are not shown.

    Shares are of all rows on their side, so that rows that were left out change them only as far as
    they change the distribution. Most frequent values come first.

    Examples
    --------
    >>> common_values({"F": 50, "M": 40, "X": 10}, {"F": 60, "M": 4})
    ([('F', 0.5, 0.9375), ('M', 0.4, 0.0625), ('X', 0.1, 0.0)], 0)
    """
    common = sorted((v for v, n in before.items() if n >= RARE), key=lambda v: (-before[v], v))
    first, then = sum(before.values()), sum(after.values())
    shown = [
        (value, before[value] / first, after.get(value, 0) / then if then else 0.0)
        for value in common[:MOST_VALUES]
    ]
    return shown, len(before) - len(shown)


def numeric_bins(
    values: Floats,
    rows: npt.NDArray[np.int64],
    released: Mapping[Any, float],
    bins: int | None = None,
) -> Ranges:
    """Rows in round ranges of a number, before and after a release: all of them, `only_common` ones
    may be shown.

    Whole numbers get bins of whole numbers. A published range such as ``[20, 29]`` counts in every
    bin it touches, in proportion; rows beyond the ends count in the outermost bins: every row is
    counted once on either side, but for released cells that tell no number.

    Examples
    --------
    >>> ages, rows = np.array([20.0, 30.0, 99.0]), np.array([50, 50, 1])
    >>> numeric_bins(ages, rows, {"[20, 39]": 101}, bins=1)
    [(20.0, 30.0, 50.0, 50.5), (30.0, 40.0, 51.0, 50.5)]
    """
    order = np.argsort(values)
    values, rows = values[order], rows[order]
    inside = np.cumsum(rows)
    if not len(values) or inside[-1] < 2 * RARE:
        return []
    low = values[np.searchsorted(inside, RARE)]
    high = values[np.searchsorted(inside, inside[-1] - RARE)]
    whole = bool((values == np.floor(values)).all())
    # Few rows fill few bins; `only_common` would join more.
    number = bins or min(MOST_BINS, max(6, int(inside[-1]) // (4 * RARE)))
    edges = _round_edges(float(low), float(high), number, whole)
    if len(edges) < 3:
        return []
    before = np.zeros(len(edges) - 1)
    np.add.at(before, _bin_of(values, edges), rows)
    after = np.zeros(len(edges) - 1)
    for value, held in released.items():
        ends = number_ends(value, whole)
        if ends is not None:
            after += held * _spread(*ends, edges)
    sides = (edges[:-1], edges[1:], before, after)
    return list(zip(*(side.tolist() for side in sides), strict=True))


def only_common(bins: Ranges) -> Ranges:
    """Bins as they may be shown: one that few rows hold before is joined with a neighbour.

    Examples
    --------
    >>> only_common([(0, 1, 20.0, 20.0), (1, 2, 3.0, 3.0), (2, 3, 40.0, 40.0)])
    [(0, 2, 23.0, 23.0), (2, 3, 40.0, 40.0)]
    """
    found = list(bins)
    while len(found) > 1:
        few = [at for at, (_, _, held, _) in enumerate(found) if 0 < held < RARE]
        if not few:
            break
        beside = [at for at in (few[0] - 1, few[0] + 1) if 0 <= at < len(found)]
        # The smaller neighbour that holds something; bars stay about as wide as they were.
        other = min(beside, key=lambda at: (found[at][2] == 0, found[at][2]))
        first, last = sorted((few[0], other))
        (low, _, one, now), (_, high, two, then) = found[first], found[last]
        found[first : last + 1] = [(low, high, one + two, now + then)]
    return found


def safe_moments(times: npt.ArrayLike, each: int = 1, most: int = 24) -> list[float]:
    """Round moments, with the times of at least `RARE` people between any two of them.

    Nobody's own time is among them unless it is a round figure; the last few lie beyond. Each time
    stands for at least `each` people.

    Examples
    --------
    >>> safe_moments(np.arange(1.0, 101.0), most=5)
    [20.0, 40.0, 60.0, 80.0]
    >>> safe_moments([1.0, 2.0, 3.0])
    []
    """
    ordered = np.sort(np.asarray(times, dtype=np.float64))
    enough = math.ceil(RARE / max(1, each))
    if len(ordered) < 2 * enough:
        return []
    kept: list[float] = []
    behind = 0
    for edge in _round_edges(0.0, float(ordered[-enough]), most)[1:]:
        passed = int(np.searchsorted(ordered, edge, side="right"))
        if passed - behind >= enough and len(ordered) - passed >= enough:
            kept.append(float(edge))
            behind = passed
    return kept


def _round_edges(low: float, high: float, bins: int, whole: bool = False) -> Floats:
    width = max(high - low, 0.0)
    if width == 0:
        return np.array([low])
    rough = max(width / bins, 1.0) if whole else width / bins
    unit = 10.0 ** math.floor(math.log10(rough))
    steps = [unit * m for m in (1, 2, 2.5, 5, 10) if not whole or (unit * m).is_integer()]
    step = next(step for step in steps if step >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.floor(high / step + 1e-9) + 1
    return np.asarray(np.arange(first, last + 1) * step, dtype=np.float64)


def _bin_of(values: Floats, edges: Floats) -> npt.NDArray[np.int64]:
    at = np.searchsorted(edges, values, side="right") - 1
    return np.clip(at, 0, len(edges) - 2).astype(np.int64)


def number_ends(value: Any, whole: bool) -> tuple[float, float] | None:
    """The two ends of a published number or range; None for stars, nulls and other labels.

    A whole number reaches up to the next one; a range of whole numbers from the first inside it up
    to the one behind the last.

    Examples
    --------
    >>> number_ends("[1, 2.5)", whole=True), number_ends("[1, 2.5)", whole=False)
    ((1.0, 3.0), (1.0, 2.5))
    """
    try:
        number = float(value)
        return (number, number + whole) if math.isfinite(number) else None
    except (TypeError, ValueError):
        found = labels.read_interval(str(value))
    if found is None or found.low is None or found.high is None:
        return None
    try:
        low, high = float(found.low), float(found.high)
    except ValueError:
        return None
    if not whole:
        return low, high
    behind = math.floor(high) + 1 if found.with_high else math.ceil(high)
    return float(math.ceil(low)), float(behind)


def _spread(low: float, high: float, edges: Floats) -> Floats:
    """The share of a range that falls into each bin; the outermost bins reach on for ever."""
    share = np.zeros(len(edges) - 1)
    if high <= low:
        share[_bin_of(np.array([low]), edges)] = 1.0
        return share
    ends = edges.copy()
    ends[0], ends[-1] = min(low, ends[0]), max(high, ends[-1])
    overlap = np.minimum(high, ends[1:]) - np.maximum(low, ends[:-1])
    return np.asarray(np.maximum(overlap, 0.0) / (high - low))


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
