"""Where a table is cut into parts: a coarse tree of cuts, planned from a sample of its rows.

Cuts are Mondrian's first levels. Rows are cut on the axis on which they are spread widest, into two
sides whose sizes are as the parts wanted on each; numbers at a value, the leaves of a tree between
the children of a node, and categories without a tree into the common ones and the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.actions import ranked
from sfumato.anonymization.request import Request
from sfumato.engines.parts import Cut, Parting
from sfumato.engines.results import Codes
from sfumato.hierarchy import EncodedHierarchy, Ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.anonymization.parts import Whole

__all__ = ["indices", "joined", "merged", "merged_into", "parts_of", "plan_parts"]

Array = npt.NDArray[Any]

MOST_MEMBERS = 256
"""Values that a cut lists at most."""


@dataclass(frozen=True, eq=False)
class _Axis:
    """A column that rows can be cut by: where each sampled row lies, and what a cut there says."""

    name: str
    position: Array
    place: Array
    edges: Array
    """Positions at which a cut may be made."""
    values: pa.Array
    """The value at each position."""
    listed: bool
    """Whether positions are no order of values, so that a cut lists them."""
    priority: float


def plan_parts(
    sample: pa.Table, whole: Whole, request: Request, parts: int, least: int = 1
) -> Parting:
    """Cuts that make about so many parts of about the same size, from a sample of rows.

    Parameters
    ----------
    least
        Sampled rows that a part must have.
    """
    axes = [axis for name in request.qi_columns if (axis := _axis(sample, whole, request, name))]
    cuts: list[Cut] = []
    number = 0

    def grow(rows: Array, wanted: int) -> int:
        nonlocal number
        found = _best_cut(axes, rows, wanted, least) if wanted > 1 else None
        if found is None:
            number += 1
            return -number
        axis, low, edge = found
        at = len(cuts)
        cuts.append(Cut(axis.name, axis.values.slice(0, 0), axis.listed, 0, 0))
        below = axis.position[rows] < edge
        share = max(1, min(wanted - 1, round(wanted * float(below.mean()))))
        inside = np.arange(low, edge) if axis.listed else np.array([edge])
        cuts[at] = Cut(
            axis.name,
            axis.values.take(indices(inside)),
            axis.listed,
            grow(rows[below], share),
            grow(rows[~below], wanted - share),
        )
        return at

    grow(np.arange(sample.num_rows), parts)
    return Parting(tuple(cuts), number)


def _axis(sample: pa.Table, whole: Whole, request: Request, name: str) -> _Axis | None:
    """A quasi-identifier as sampled rows lie on it; None where it cannot be cut."""
    from sfumato.engines.encoding import codes_among, codes_of_table

    own = codes_of_table(sample.select([name]))
    values, codes = own.values[0], own.arrays[0].astype(np.int64)
    if len(values) < 2 or values.type in _uncut() or name in whole.changed:
        return None  # values that actions make equal stay together
    weights = [request.weights.get(column, 1.0) for column in request.qi_columns]
    priority = request.weights.get(name, 1.0) / max(weights) if request.weights else 0.0
    shape = whole.shapes.get(name)
    if isinstance(shape, EncodedHierarchy):
        return _tree_axis(name, shape, codes_among(values, shape.values)[codes], priority)
    if isinstance(shape, Ranges) or name in whole.open:
        line = np.arange(len(values)) / (len(values) - 1)
        if isinstance(shape, Ranges):
            points = shape.points[np.minimum(shape.position, len(shape.points) - 1)]
            there = codes_among(values, shape.values)
            line = (points[there] - shape.points[0]) / (shape.width or 1.0)
        edges = np.arange(1, len(values) - (1 if values.null_count else 0))
        return _Axis(name, codes, line, edges, values, False, priority)
    common = np.argsort(-np.bincount(codes, minlength=len(values)), kind="stable")
    position = np.empty(len(values), np.int64)
    position[common] = np.arange(len(values))
    most = min(len(values), MOST_MEMBERS + 1)
    line = np.arange(len(values)) / (len(values) - 1)
    ordered = values.take(indices(common))
    edges = np.arange(1, most)
    return _Axis(name, position[codes], line, edges, ordered, True, priority)


def _tree_axis(name: str, shape: EncodedHierarchy, codes: Array, priority: float) -> _Axis:
    """The leaves of a tree lie beside each other; cuts fall between the children of a node."""
    edges = np.unique(shape.first[(shape.first > 0)])
    at = np.argsort(shape.position, kind="stable")
    line = np.arange(shape.size) / max(shape.size - 1, 1)
    rising = bool((np.diff(at) > 0).all()) and not shape.values.null_count
    values = shape.values.take(indices(at))
    return _Axis(name, shape.position[codes].astype(np.int64), line, edges, values,
                 not rising, priority)  # fmt: skip


def _uncut() -> tuple[pa.DataType, ...]:
    import pyarrow as pa

    return (pa.null(), pa.binary(), pa.large_binary())


def _best_cut(
    axes: Sequence[_Axis], rows: Array, wanted: int, least: int
) -> tuple[_Axis, int, int] | None:
    """The axis with the largest spread that can be cut, where rows begin on it, and the cut."""
    scored = []
    for at, axis in enumerate(axes):
        low, high = int(axis.position[rows].min()), int(axis.position[rows].max())
        if low < high:
            spread = abs(float(axis.place[high] - axis.place[low]))
            scored.append((spread + axis.priority, -at, low, high))
    share = (wanted // 2) / wanted
    for _, at, low, high in sorted(scored, reverse=True):
        axis = axes[-at]
        edges = axis.edges[(axis.edges > low) & (axis.edges <= high)]
        if axis.listed:
            edges = edges[edges - low <= MOST_MEMBERS]
        if not len(edges):
            continue
        below = np.searchsorted(np.sort(axis.position[rows]), edges)
        best = int(np.argmin(np.abs(below - share * len(rows))))
        if min(below[best], len(rows) - below[best]) >= max(least, 1):
            return axis, low, int(edges[best])
    return None


def merged_into(
    parting: Parting,
    fine: Sequence[bool],
    counts: Array,
    holds: Any,
    *,
    overlapping: bool = False,
) -> Array:
    """For each part the part it becomes, once failing ones were merged with their neighbours.

    A branch of the tree stays cut where both of its sides satisfy the rules.

    Parameters
    ----------
    counts
        What each part holds, a row each; what a branch holds is the sum of its parts.
    holds
        Whether something that holds these counts satisfies the rules.
    overlapping
        Whether persons of one part may be in another, too: a branch holds at least what the
        largest of its parts does, and more is not known.
    """
    into = np.zeros(parting.parts, dtype=np.int64)
    number = 0

    def inside(at: int) -> list[int]:
        if at < 0:
            return [-1 - at]
        return [*inside(parting.cuts[at].yes), *inside(parting.cuts[at].no)]

    def good(at: int) -> bool:
        parts = inside(at)
        if len(parts) == 1:
            return fine[parts[0]]
        inside_all = counts[parts].max(axis=0) if overlapping else counts[parts].sum(axis=0)
        return bool(holds(inside_all))

    def number_from(at: int) -> None:
        nonlocal number
        if at < 0 or not (good(parting.cuts[at].yes) and good(parting.cuts[at].no)):
            into[inside(at)] = number
            number += 1
            return
        number_from(parting.cuts[at].yes)
        number_from(parting.cuts[at].no)

    if parting.cuts:
        number_from(0)
    return into


def merged(parting: Parting, into: Array) -> Parting:
    """The same cuts, with parts that became one numbered alike."""

    def renamed(at: int) -> int:
        return at if at >= 0 else -1 - int(into[-1 - at])

    cuts = tuple(replace(cut, yes=renamed(cut.yes), no=renamed(cut.no)) for cut in parting.cuts)
    number = int(into.max()) + 1
    return Parting(cuts if number > 1 else (), number)


def parts_of(entries: Codes, parting: Parting) -> Array:
    """The part of each entry, as a statement would say it."""
    from sfumato.engines.encoding import codes_among

    def go(at: int, chosen: Array) -> None:
        if at < 0:
            answer[chosen] = -1 - at
            return
        cut = parting.cuts[at]
        values = entries.values_of(cut.column)
        known = codes_among(cut.values, values)
        goes = np.zeros(len(values), dtype=bool)
        if cut.among:
            goes[known[known >= 0]] = True
        else:
            _, ranks = ranked(joined(cut.values, values))
            goes = ranks[1:] < ranks[0]
        yes = goes[entries.column(cut.column)[chosen]]
        go(cut.yes, chosen[yes])
        go(cut.no, chosen[~yes])

    answer = np.zeros(entries.entries, dtype=np.int64)
    if parting.cuts:
        go(0, np.arange(entries.entries))
    return answer


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays([first.cast(second.type), second])


def indices(numbers: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(numbers.astype(np.int64))
