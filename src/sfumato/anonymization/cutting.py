"""Cutting blocks of entries into groups: what Mondrian and the division into districts share.

Categories without a tree have no order of their own. They are laid on their axis by how common they
are: cuts then part common values from each other early and keep the rare ones together, which
loses less than any order of their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.blocks import Blocks
from sfumato.anonymization.problem import Problem
from sfumato.anonymization.space import axes_of
from sfumato.engines.results import smallest_dtype
from sfumato.errors import ParameterError
from sfumato.hierarchy import Published, Ranges, ValueSets
from sfumato.privacy import Rules

__all__ = ["Cut", "cut"]

Array = npt.NDArray[Any]
_FEWEST_MARKS = 1 << 20


@dataclass(frozen=True, eq=False)
class Cut:
    """Groups that lie one after the other.

    Attributes
    ----------
    table
        Position of every entry on every axis, one row an axis, in the order of the groups.
    index
        Which piece each place holds.
    ends
        Where each group ends.
    codes
        For each axis of values without order, the code at each position.
    """

    table: Array
    index: Array
    ends: Array
    codes: dict[str, Array]

    def groups(self, pieces: int) -> Array:
        """Group of each of so many pieces; -1 outside of all blocks."""
        groups = np.full(pieces, -1, dtype=np.int32)
        numbers = np.arange(len(self.ends), dtype=np.int32)
        groups[self.index] = np.repeat(numbers, np.diff(self.ends, prepend=0))
        return groups

    def published(self, problem: Problem) -> dict[str, Published]:
        """What each group shows on each axis: its lowest ancestor, range or set of values."""
        from sfumato.anonymization._mondrian import spans_of_groups
        from sfumato.hierarchy.tree_kernels import lowest_common_ancestors

        shown = {}
        for axis, name in enumerate(problem.qi):
            shape = problem.shapes[name]
            if isinstance(shape, ValueSets):
                shown[name] = shape.published(*self._sets(axis, name, shape))
                continue
            low, high = spans_of_groups(self.table[axis], self.ends)
            if isinstance(shape, Ranges):
                shown[name] = shape.published(low, high)
                continue
            nodes = lowest_common_ancestors(
                shape.parent, shape.first, shape.last, shape.order, low, high
            )
            shown[name] = shape.published(nodes)
        return shown

    def _sets(self, axis: int, name: str, shape: ValueSets) -> tuple[Array, Array]:
        """The codes of each group, as offsets and members."""
        from sfumato.anonymization._mondrian import held_values

        codes, count = self.codes[name], len(self.ends)
        if count * shape.size > max(16 * self.table.shape[1], _FEWEST_MARKS):
            groups = np.repeat(np.arange(count), np.diff(self.ends, prepend=0))
            return shape.collect(codes[self.table[axis]], groups, count)
        held = held_values(self.table[axis], self.ends, codes)
        offsets = np.cumsum(np.count_nonzero(held, axis=1))
        return np.r_[0, offsets], np.flatnonzero(held) % max(shape.size, 1)


def cut(
    problem: Problem,
    blocks: Blocks,
    *,
    rules: Rules,
    mix: Array,
    priority: Array,
    wanted: dict[str, Array] | None = None,
    target: tuple[Array, int] | None = None,
    entry: Array | None = None,
) -> Cut:
    """Cut blocks into groups that satisfy the rules, until no cut is allowed.

    Parameters
    ----------
    blocks
        Entries, or single rows where `entry` is given.
    mix, priority
        Weights of spread, priority and gain in the score of an axis; priority of each axis.
    wanted
        For some axes, positions right after which cuts are taken before all others.
    target
        Code of each entry in the column whose entropy counts, and the number of its codes.
    entry
        The entry of each row: rows are cut, and equal ones may be parted (relaxed Mondrian).
    """
    from sfumato.anonymization._mondrian import cut_blocks

    index = blocks.order.astype(np.int32 if len(blocks.order) < 2**31 else np.int64)
    chosen = index if entry is None else entry[index]
    everything = entry is None and len(chosen) == problem.entries.entries and blocks.count <= 1
    table, codes = _positions(problem, None if everything else chosen)
    axes = axes_of(problem)
    weights = problem.counts[chosen]
    if entry is not None:
        weights = np.ones(len(chosen), dtype=np.int64)
    sensitive = np.empty((len(problem.sensitive), len(chosen)), dtype=np.int64)
    for at, name in enumerate(problem.sensitive):
        sensitive[at] = problem.entries.column(name)[chosen] + problem.rules.offsets[at]
    ends = cut_blocks(
        table,
        weights.astype(np.int32 if problem.rows < 2**31 else np.int64),
        sensitive,
        np.zeros(0, dtype=np.int64) if target is None else target[0][chosen].astype(np.int64),
        1 if target is None else target[1],
        index,
        blocks.starts,
        axes,
        np.array([name in codes for name in problem.qi]),
        rules,
        mix,
        priority,
        _counted(problem, wanted or {}),
        entry is not None,
    )
    return Cut(table, index, ends, codes)


def _positions(problem: Problem, chosen: Array | None) -> tuple[Array, dict[str, Array]]:
    """Positions of some entries (or all), one row an axis; codes of axes without order."""
    shapes = [problem.shapes[name] for name in problem.qi]
    entries = problem.entries.entries if chosen is None else len(chosen)
    widest = smallest_dtype(max((shape.size for shape in shapes), default=1))
    table = np.empty((len(shapes), entries), dtype=widest)
    codes = {}
    for axis, (name, shape) in enumerate(zip(problem.qi, shapes, strict=True)):
        column = problem.entries.column(name)
        if isinstance(shape, ValueSets):
            codes[name] = _by_rows(column, problem.counts, shape.size)
            position = np.empty(shape.size, dtype=widest)
            position[codes[name]] = np.arange(shape.size)
        else:
            position = shape.position.astype(widest)
        np.take(position, column if chosen is None else column[chosen], out=table[axis])
    return table, codes


def _by_rows(column: Array, counts: Array, size: int) -> Array:
    """Codes of a column, the commonest first."""
    from sfumato.kernels import group_sums

    return np.argsort(-group_sums(column, size, counts), kind="stable").astype(np.int64)


def _counted(problem: Problem, wanted: dict[str, Array]) -> Array:
    """For each place on each axis, how many wanted cuts lie before it; one place more an axis."""
    counted = []
    for name in problem.qi:
        marks = np.zeros(problem.shapes[name].size + 1, dtype=np.int64)
        marks[_places(wanted.get(name, ()), len(marks) - 1, name) + 1] = 1
        counted.append(np.cumsum(marks))
    return np.concatenate(counted)


def _places(cuts: Any, size: int, name: str) -> Array:
    """Cuts of a column as places among its values."""
    places = np.asarray(cuts if np.ndim(cuts) else [cuts])
    whole = len(places) == 0 or places.dtype.kind in "iu"
    if places.ndim != 1 or not whole or ((places < 0) | (places >= size)).any():
        raise ParameterError(
            f"cuts of `{name}` must be places among its values, from 0 to {size - 1:,}",
            remedy="Leave them out, and give a --workload that says where to cut.",
        )
    return places.astype(np.int64)
