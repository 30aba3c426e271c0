"""What a release cost: how much less precise its cells are, how large its classes.

All measures read a `View`: a release beside the table it was made from, row by row.

Losses of precision are 0 for the original and grow to 1.

LeFevre's Mondrian, on which Xiong & Rangachari build, publishes regions: what cuts leave of each
column, not the range of what is in a class. For `weighted_discernibility` the classes of any
release are cut apart again: never through a class, in the column that a part is spread most in, at
its median, or else where such a cut is nearest to it. For a release of LeFevre's strict Mondrian by
spread alone these are its own regions; for any other, regions it could have been cut into. Classes
that no cut parts share theirs. Values without order are laid out by how common they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.budget import each
from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids
from sfumato.kernels.compiling import compiled
from sfumato.kernels.ranking import largest_first
from sfumato.privacy.classes import ClassHistogram
from sfumato.results import Result

READINGS = ("label", "overlap", "region")
"""Which rows a row cannot be told from in one column; see `weighted_discernibility`."""
_CELLS = 1 << 24
"""Pairs of sets that are compared at a time."""


@dataclass(frozen=True, eq=False)
class View:
    """Original codes and published cells of the quasi-identifiers, aligned.

    Parameters
    ----------
    original
        Codes of each column in the original table.
    published
        What each row shows in the release; a suppressed row shows nothing in any column.
    counts
        Rows that each entry stands for; 1 each by default.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> shown = age.published([0, 0, 2, 0], [1, 1, 2, -1])
    >>> view = View({"age": np.array([0, 1, 2, 1])}, {"age": shown})
    >>> view.rows, view.suppressed_rows, view.class_sizes.tolist()
    (4, 1, [2, 1])
    """

    original: Mapping[str, Array]
    published: Mapping[str, Published]
    counts: Array | None = None

    def __post_init__(self) -> None:
        for name, shown in self.published.items():
            if name not in self.original or len(self.original[name]) != len(shown):
                raise ColumnError(
                    f"column `{name}` does not have one original value for each released cell",
                    remedy="Give original codes and cells of the same rows.",
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """The quasi-identifiers."""
        return tuple(self.published)

    @cached_property
    def weight(self) -> Array:
        """Rows each entry stands for."""
        if self.counts is not None:
            return np.asarray(self.counts, dtype=np.int64)
        length = len(next(iter(self.published.values()))) if self.published else 0
        return np.ones(length, dtype=np.int64)

    @cached_property
    def kept(self) -> Array:
        """Whether each entry is in the release."""
        kept = np.ones(len(self.weight), dtype=bool)
        for shown in self.published.values():
            kept &= shown.codes >= 0
        return kept

    @property
    def rows(self) -> int:
        """Rows of the original table."""
        return int(self.weight.sum())

    @property
    def suppressed_rows(self) -> int:
        """Rows that are not in the release."""
        return int(self.weight[~self.kept].sum())

    @property
    def suppressed_cells(self) -> int:
        """Cells of released rows that tell nothing any more: ``*``, or all there is."""
        weight = self.weight[self.kept]
        return sum(
            int(weight[shown.loss[shown.codes[self.kept]] >= 1.0].sum())
            for shown in self.published.values()
        )

    def labels(self, column: str) -> Array:
        """A number for the text each released entry shows in a column; equal text, equal number."""
        shown = self.published[column]
        numbered = shown.labels.dictionary_encode(null_encoding="encode").indices
        return np.asarray(numbered)[shown.codes[self.kept]]

    @cached_property
    def classes(self) -> tuple[Array, int]:
        """The class of each released entry in the release, and the number of classes."""
        cells = len(self.kept) * len(self.columns)
        arrays = each(lambda name: self.labels(name).astype(np.uint32), self.columns, cells)
        ids, number = class_ids(
            arrays,
            tuple(int(array.max(initial=0)) + 1 for array in arrays),
            entries=int(self.kept.sum()),
        )
        return ids.astype(np.int64), number

    @cached_property
    def class_sizes(self) -> Array:
        """Rows of each class of the release."""
        ids, number = self.classes
        return np.bincount(ids, weights=self.weight[self.kept], minlength=number).astype(np.int64)


def certainty_penalty(view: View) -> float:
    """Normalized certainty penalty (Xu et al. 2006): the mean over all cells.

    A category costs (leaves - 1) / (values - 1), leaves and values counted among those that occur
    in the table; a range costs its width over the column's; a dropped row costs 1 a cell.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 0, 2], [1, 1, 2])})
    >>> round(certainty_penalty(view), 4)
    0.0833
    """
    return _mean(view, [_weighted(view, shown.loss, shown) for shown in view.published.values()])


def column_losses(view: View) -> dict[str, float]:
    """Normalized certainty penalty of each column alone."""
    return {
        name: _weighted(view, shown.loss, shown) / max(view.rows, 1)
        for name, shown in view.published.items()
    }


def information_loss(view: View) -> float:
    """Sum over all rows and columns of height(node)/height(tree); a dropped row costs 1 a column.

    Byun et al. 2006 and Miller, Campan & Truta 2008, where it is written per cluster; ranges cost
    their share of the column's width.
    """
    return sum(_weighted(view, shown.height_loss, shown) for shown in view.published.values())


def general_loss(view: View) -> float:
    """Iyengar's general loss metric: the penalty counted among all values of a hierarchy."""
    sums = [_weighted(view, shown.domain_loss, shown) for shown in view.published.values()]
    return _mean(view, sums)


def granularity(view: View) -> float:
    """Share of detail that is left, 1 minus the general loss; ARX shows it under this name."""
    return 1.0 - general_loss(view)


def non_uniform_entropy(view: View, held: Mapping[str, Array] | None = None) -> float:
    """Bits lost about the original values, over the bits lost by suppressing everything.

    De Waal & Willenborg 1999, Gionis & Tassa 2009: a cell that shows b costs
    log2(rows whose value lies below b / rows with its own value). 0 where nothing can be lost.

    Parameters
    ----------
    held
        Rows of each original value by column, for a view of groups in place of rows. The sum over
        rows then falls into a sum over groups and one over values.
    """
    if held is not None:
        return _entropy_of_groups(view, held)
    lost = possible = 0.0
    for name, shown in view.published.items():
        codes = view.original[name]
        rows = np.bincount(codes, weights=view.weight).astype(float)
        rows = np.append(rows, np.zeros(max(0, int(shown.order.max(initial=-1)) + 1 - len(rows))))
        own = np.maximum(rows[codes], 1.0)
        below = np.full(len(codes), float(view.rows))
        below[view.kept] = shown.weight(rows)[shown.codes[view.kept]]
        lost += float((view.weight * np.log2(np.maximum(below, own) / own)).sum())
        possible += float((view.weight * np.log2(view.rows / own)).sum())
    return lost / possible if possible > 0 else 0.0


def _entropy_of_groups(view: View, held: Mapping[str, Array]) -> float:
    lost = possible = rounding = 0.0
    for name, shown in view.published.items():
        own = held[name][held[name] > 0]
        known = float((own * np.log2(own)).sum())
        below = np.full(len(view.weight), float(max(view.rows, 1)))
        below[view.kept] = shown.weight(held[name])[shown.codes[view.kept]]
        lost += float((view.weight * np.log2(np.maximum(below, 1.0))).sum()) - known
        most = view.rows * float(np.log2(max(view.rows, 1)))
        possible += most - known
        rounding += most * 1e-13  # a single cell of a billion costs more
    return lost / possible if possible > 0 and lost > rounding else 0.0


def _weighted(view: View, per_entry: Array, shown: Published) -> float:
    """Sum of a cost over all rows of a column; 1 for a dropped row."""
    kept = view.kept
    released = float((view.weight[kept] * per_entry[shown.codes[kept]]).sum())
    return released + view.suppressed_rows


def _mean(view: View, sums: list[float]) -> float:
    """Over all cells; 0 for a table without any."""
    return sum(sums) / max(view.rows * len(sums), 1)


def distribution_distances(
    view: View, ordered: Sequence[str] = (), held: Mapping[str, Array] | None = None
) -> dict[str, float]:
    """How far each column's distribution moved, from 0 to 1.

    The released one spreads every cell evenly over the values it covers. Distance: the share of
    rows that must move (total variation); for `ordered` columns, how far they move in ranks over
    the number of ranks (earth mover's distance). `held` are the rows of each original value by
    column, for a view of groups in place of rows.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.array([0, 0, 1])}, {"age": age.published([0] * 3, [1] * 3)})
    >>> round(distribution_distances(view)["age"], 4)
    0.1667
    """
    distances = {}
    for name in view.columns:
        before, after = distributions(view, name, None if held is None else held[name])
        gap = after - before
        if name in ordered:
            occurring = np.flatnonzero(before > 0)
            steps = max(len(occurring) - 1, 1)
            distances[name] = float(np.abs(np.cumsum(gap[occurring])).sum() / steps)
        else:
            distances[name] = float(np.abs(gap).sum() / 2)
    return distances


def distributions(view: View, name: str, held: Array | None) -> tuple[Array, Array]:
    """Shares of a column's values before and after."""
    shown = view.published[name]
    before = held
    if before is None:
        codes = np.asarray(view.original[name])
        size = max(int(shown.order.max(initial=-1)), int(codes.max(initial=-1))) + 1
        before = np.bincount(codes, weights=view.weight, minlength=size)
    cells = np.bincount(
        shown.codes[view.kept], weights=view.weight[view.kept], minlength=len(shown.low)
    )
    change = np.zeros(len(shown.order) + 1)
    np.add.at(change, shown.low, cells / shown.leaf_count)
    np.add.at(change, shown.high + 1, -cells / shown.leaf_count)
    after = np.zeros(len(before))
    np.add.at(after, shown.order, np.cumsum(change)[:-1])
    return before / max(float(before.sum()), 1.0), after / max(float(cells.sum()), 1.0)


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
    view: View, weights: Mapping[str, float] | None = None, *, by: str = "label"
) -> float:
    """C_WDM = Σ_i weight_i Σ_m |E^m_i|² over the classes of each column alone.

    Xiong & Rangachari 2008, section 4.3: in each column every row pays for the rows that it cannot
    be told from. A suppressed row pays the whole table in every column.

    Parameters
    ----------
    weights
        Importance of each column; 1 where nothing is said.
    by
        Which rows those are, as the paper does not say: with ``"label"`` those that read the same
        (then ``[20, 30)`` and ``[25, 40)`` count as told apart, and a column blurred in many ways
        looks precise); with ``"overlap"`` those whose cell overlaps its own, which may hold the
        same value; with ``"region"`` those in the same region of the column (see
        `sfumato.utility.measures`).

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 1, 2], [1, 2, 2])})
    >>> [weighted_discernibility(view, by=reading) for reading in READINGS]
    [3.0, 7.0, 9.0]
    """
    weights = dict(weights or {})
    for name in weights:
        if name not in view.columns:
            raise ColumnError(
                f"`{name}` is not a quasi-identifier", remedy=did_you_mean(name, view.columns)
            )
    if by not in READINGS:
        raise ParameterError(f"`{by}` is not a reading", remedy=f"Use {', '.join(READINGS)}.")
    found = regions(view) if by == "region" else {}
    total = 0.0
    for name in view.columns:
        weight = weights.get(name, 1.0)
        if weight == 0.0:
            continue
        if by == "overlap":
            cost = _overlapping(view, name)
        else:
            same = found[name] if found else view.labels(name)
            rows = np.bincount(same, weights=view.weight[view.kept])
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


def regions(view: View) -> dict[str, Array]:
    """The region of each released entry in each column, numbered.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 40, 60]), "age")
    >>> shown = age.published([0, 0, 2, 3], [1, 1, 2, 3])
    >>> regions(View({"age": np.arange(4)}, {"age": shown}))["age"].tolist()
    [0, 0, 1, 2]
    """
    kept, columns = view.kept, len(view.columns)
    at, low, high = (np.empty((columns, int(kept.sum())), np.int64) for _ in range(3))
    size = np.zeros(columns, np.int64)
    for axis, name in enumerate(view.columns):
        shown, position = view.published[name], _positions(view, name)
        codes = shown.codes[kept]
        size[axis] = len(position) - 1
        at[axis] = position[np.asarray(view.original[name])[kept]]
        covered = position[shown.order]
        if len(covered):
            ends = np.stack([shown.low, shown.high + 1], axis=1).reshape(-1)
            padded = np.append(covered, covered[-1])
            low[axis] = np.minimum.reduceat(padded, ends)[::2][codes]
            high[axis] = np.maximum.reduceat(padded, ends)[::2][codes]
    # a class that a number stands for may lie outside of what its cell covers
    np.minimum(low, at, out=low)
    np.maximum(high, at, out=high)
    first, last = _cut_apart(at, low, high, view.weight[kept], size)
    return {
        name: np.unique(np.stack([first[axis], last[axis]]), axis=1, return_inverse=True)[1]
        for axis, name in enumerate(view.columns)
    }


def _positions(view: View, column: str) -> Array:
    """The place of each original code on the line of its column."""
    shown = view.published[column]
    codes = np.asarray(view.original[column])
    size = max(int(shown.order.max(initial=-1)), int(codes.max(initial=-1))) + 1
    order = shown.order
    if len(np.unique(order)) != len(order) or len(order) < size:  # sets of values: no order
        order = np.argsort(-np.bincount(codes, view.weight, size), kind="stable")
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    return place


@compiled
def _cut_apart(at, low, high, rows, size):  # type: ignore[no-untyped-def]
    """First and last position of each entry's region on each axis.

    A part is cut on the axis that it is spread most on, at the median of its rows, if no box lies
    on both sides; else on the next axis. Where no median serves, the cut is taken that is nearest
    to half of the rows, again on the first axis that has any. What cannot be cut is a region.

    Parameters
    ----------
    at
        Position of each entry on each axis, [axes, entries].
    low, high
        Its box: that of its class.
    rows
        Rows that each entry stands for.
    size
        Last position of each axis.
    """
    axes, entries = at.shape
    first = np.zeros((axes, entries), np.int64)
    last = np.zeros((axes, entries), np.int64)
    for axis in range(axes):
        last[axis, :] = size[axis]
    order = np.arange(entries)
    moved = np.empty(entries, np.int64)
    begins = np.zeros(entries + 1, np.int64)
    ends = np.zeros(entries + 1, np.int64)
    ends[0] = entries
    waiting = 1 if entries else 0
    spread = np.empty(axes, np.float64)
    while waiting:
        waiting -= 1
        begin, end = begins[waiting], ends[waiting]
        part = order[begin:end]
        total = np.int64(0)
        for i in part:
            total += rows[i]
        for axis in range(axes):
            least, most = at[axis, part[0]], at[axis, part[0]]
            for i in part:
                least, most = min(least, at[axis, i]), max(most, at[axis, i])
            spread[axis] = (most - least) / max(size[axis], 1)
        widest = largest_first(spread)
        chosen, cut = -1, np.int64(-1)
        for axis in widest:
            if spread[axis] > 0.0:
                cut = _median(at[axis], rows, part, total)
                if _parts(low[axis], high[axis], part, cut):
                    chosen = axis
                    break
        if chosen < 0:
            for axis in widest:
                if spread[axis] > 0.0:
                    cut = _nearest(low[axis], high[axis], rows, part, total)
                    if cut >= 0:
                        chosen = axis
                        break
        if chosen < 0:
            continue
        left, right = begin, end
        for i in part:
            if at[chosen, i] <= cut:
                moved[left] = i
                last[chosen, i] = cut
                left += 1
            else:
                right -= 1
                moved[right] = i
                first[chosen, i] = cut + 1
        order[begin:end] = moved[begin:end]
        begins[waiting], ends[waiting] = begin, left
        begins[waiting + 1], ends[waiting + 1] = left, end
        waiting += 2
    return first, last


@compiled
def _median(at, rows, part, total):  # type: ignore[no-untyped-def]
    """The position of the row in the middle, the lower of two."""
    sought = (total - 1) // 2
    before = np.int64(0)
    for place in largest_first(-at[part]):
        before += rows[part[place]]
        if before > sought:
            return at[part[place]]
    return at[part[0]]


@compiled
def _parts(low, high, part, cut):  # type: ignore[no-untyped-def]
    """Whether a cut leaves boxes on both sides and crosses none."""
    left, right = False, False
    for i in part:
        if high[i] <= cut:
            left = True
        elif low[i] > cut:
            right = True
        else:
            return False
    return left and right


@compiled
def _nearest(low, high, rows, part, total):  # type: ignore[no-untyped-def]
    """The cut that crosses no box and is nearest to half of the rows; -1 if there is none."""
    by_low = largest_first(-low[part])
    best, best_distance = np.int64(-1), total + 1
    reached, before = np.int64(-1), np.int64(0)
    for place in by_low:
        i = part[place]
        if before > 0 and low[i] > reached and abs(2 * before - total) < best_distance:
            best, best_distance = reached, abs(2 * before - total)
        reached = max(reached, high[i])
        before += rows[i]
    return best
