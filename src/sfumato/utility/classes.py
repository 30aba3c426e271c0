"""What the classes of a release say about its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import ColumnError, did_you_mean
from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array
from sfumato.privacy.histogram import ClassHistogram
from sfumato.results import Result
from sfumato.utility.view import View

__all__ = [
    "Similarity",
    "average_class_size",
    "discernibility",
    "majority_penalty",
    "similarity",
    "weighted_discernibility",
]

_CELLS = 1 << 24
"""Pairs of sets that are compared at a time."""


def discernibility(view: View) -> int:
    """C_DM: every row pays the size of its class, a suppressed row the whole table.

    Bayardo & Agrawal 2005.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 0, 2], [1, 1, -1])})
    >>> discernibility(view)  # 2² + 3
    7
    """
    return _squares(view.class_sizes) + view.suppressed_rows * view.rows


def weighted_discernibility(
    view: View, weights: Mapping[str, float] | None = None, *, overlapping: bool = False
) -> float:
    """C_WDM = Σ_i weight_i Σ_m |E^m_i|² over the classes of each column alone.

    Xiong & Rangachari 2008, section 4.2: in each column every row pays for the rows that it cannot
    be told from. A suppressed row pays the whole table in every column.

    Parameters
    ----------
    weights
        Importance of each column; 1 where nothing is said.
    overlapping
        A row cannot be told from those whose cell *overlaps* its own: they may hold the same
        value. By default only rows that read the same are a class; then ``[20, 30)`` and
        ``[25, 40)`` count as told apart, and a column blurred in many ways looks precise.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 1, 2], [1, 2, 2])})
    >>> weighted_discernibility(view), weighted_discernibility(view, overlapping=True)
    (3.0, 7.0)
    """
    weights = dict(weights or {})
    for name in weights:
        if name not in view.columns:
            raise ColumnError(
                f"`{name}` is no quasi-identifier", remedy=did_you_mean(name, view.columns)
            )
    total = 0.0
    for name in view.columns:
        weight = weights.get(name, 1.0)
        if weight == 0.0:
            continue
        if overlapping:
            cost = _overlapping(view, name)
        else:
            rows = np.bincount(view.labels(name), weights=view.weight[view.kept])
            cost = _squares(rows.astype(np.int64))
        total += weight * (cost + view.suppressed_rows * view.rows)
    return total


def _overlapping(view: View, column: str) -> int:
    """Pairs of released rows whose cells in a column overlap, each with itself and both ways."""
    shown = view.published[column]
    rows = np.bincount(
        shown.codes[view.kept], weights=view.weight[view.kept], minlength=len(shown.low)
    ).astype(np.int64)
    released = int(rows.sum())
    if len(np.unique(shown.order)) == len(shown.order):  # cells are runs of one order
        ends = np.bincount(shown.high, weights=rows, minlength=len(shown.order) + 1)
        begins = np.bincount(shown.low, weights=rows, minlength=len(shown.order) + 1)
        before = np.cumsum(ends) - ends
        after = released - np.cumsum(begins)
        apart = (before[shown.low] + after[shown.high]).astype(np.int64)
        return sum(int(many) * (released - int(far)) for many, far in zip(rows, apart, strict=True))
    return _overlapping_sets(shown, rows)


def _overlapping_sets(shown: Published, rows: Array) -> int:
    """The same for sets of values, by comparing the distinct sets some at a time."""
    values = int(shown.order.max(initial=-1)) + 1
    holds = np.zeros((len(shown.low), values), dtype=np.float32)
    holds[np.repeat(np.arange(len(shown.low)), shown.leaf_count), shown.order] = 1.0
    pairs = 0
    step = max(1, _CELLS // max(len(holds), 1))
    for begin in range(0, len(holds), step):
        common = holds[begin : begin + step] @ holds.T > 0.0
        pairs += sum(
            int(many) * int(rows[meets].sum())
            for many, meets in zip(rows[begin : begin + step], common, strict=True)
        )
    return pairs


def average_class_size(view: View) -> float:
    """Released rows a class; 0 where nothing was released."""
    released = view.rows - view.suppressed_rows
    return released / len(view.class_sizes) if released else 0.0


def majority_penalty(view: View, target: Any) -> float:
    """Share of rows that differ from the majority of their class in a target, or are suppressed.

    Iyengar's classification metric (2002).

    Parameters
    ----------
    target
        Code of the target for every row, suppressed ones too.
    """
    if view.rows == 0:
        return 0.0
    target = np.asarray(target)
    ids, number = view.classes
    kept = view.weight[view.kept]
    size = int(target.max(initial=0)) + 1
    histogram = ClassHistogram.of(ids, number, target[view.kept], size, kept)
    majority = (histogram.largest_share() * histogram.sizes).round().sum()
    return float(view.rows - majority) / view.rows


@dataclass(frozen=True)
class Similarity(Result):
    """Share of equal original cells in pairs of released rows.

    Attributes
    ----------
    within
        Among pairs in the same class: how alike those are that were made indistinguishable.
    between
        Among pairs in different classes.
    """

    within: float | None
    between: float | None


def similarity(view: View) -> Similarity:
    """Clustering quality: how alike rows were within classes and between them.

    Counted exactly over all pairs, by the histograms of each column in each class. None where
    there is no pair.
    """
    ids, number = view.classes
    weight = view.weight[view.kept]
    released = int(weight.sum())
    pairs_within = _pairs(view.class_sizes)
    pairs = released * (released - 1) // 2
    equal_within = equal = 0
    for name in view.columns:
        codes = np.asarray(view.original[name])[view.kept]
        size = int(codes.max(initial=0)) + 1
        histogram = ClassHistogram.of(ids, number, codes, size, weight)
        equal_within += _pairs(histogram.count)
        equal += _pairs(histogram.total)
    cells_within = pairs_within * len(view.columns)
    cells_between = (pairs - pairs_within) * len(view.columns)
    return Similarity(
        within=equal_within / cells_within if cells_within else None,
        between=(equal - equal_within) / cells_between if cells_between else None,
    )


def _squares(sizes: Any) -> int:
    """Sum of squares, exact for any number of rows."""
    found, times = np.unique(sizes, return_counts=True)
    pairs = zip(found.tolist(), times.tolist(), strict=True)
    return sum(size * size * number for size, number in pairs)


def _pairs(sizes: Any) -> int:
    """Pairs of rows in common groups of these sizes, exact."""
    return (_squares(sizes) - int(np.sum(sizes))) // 2
