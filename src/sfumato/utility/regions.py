"""Regions of a release: what cuts leave of each column, not the range of what is in a class.

LeFevre's Mondrian, on which Xiong & Rangachari build, publishes regions. Here the classes of any
release are cut apart again: never through a class, in the column that a part is
spread most in, at its median, or else where such a cut is nearest to it. For a release of
LeFevre's strict Mondrian by spread alone these are its own regions; for any other, regions it could
have been cut into. Classes that no cut parts share theirs. Values without order are laid out by
how common they are.
"""

from __future__ import annotations

import numpy as np

from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.utility.view import View

__all__ = ["regions"]


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
        widest = np.argsort(-spread, kind="mergesort")
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
    for place in np.argsort(at[part], kind="mergesort"):
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
    by_low = np.argsort(low[part], kind="mergesort")
    best, best_distance = np.int64(-1), total + 1
    reached, before = np.int64(-1), np.int64(0)
    for place in by_low:
        i = part[place]
        if before > 0 and low[i] > reached and abs(2 * before - total) < best_distance:
            best, best_distance = reached, abs(2 * before - total)
        reached = max(reached, high[i])
        before += rows[i]
    return best
