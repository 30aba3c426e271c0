"""Prioritized Mondrian: greedy top-down cuts of the space of quasi-identifiers.

After LeFevre, DeWitt & Ramakrishnan 2006 and Xiong & Rangachari (application-oriented
anonymization). A group is cut on the axis with the largest score, a mix of

- *spread*: how much of the axis the group covers,
- *priority*: how much the user's analysis needs the column,
- *gain*: how much the cut tells about a target column (the reduction of its entropy; the paper's
  formula 4.3 prints the entropy that remains, of which less is better),

as long as both parts satisfy every rule. Strict cuts keep equal values together; relaxed ones may
split them.

Entries are moved in memory, so that a group is one run of entries; a column that a group no longer
differs in is neither looked at nor moved again. Categories without a tree have no order of their
own. They are laid on their axis by how common they are: cuts then part common values from each
other early and keep the rare ones together, which loses less than any order of their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.anonymization.problem import (
    TREE,
    Blocks,
    Problem,
    Solution,
    allowed_blocks,
    axes_of,
    pieced,
    sensitive_of,
    with_ranges,
)
from sfumato.budget import each, spans, together, usable_threads
from sfumato.engines.protocol import usual_dtype
from sfumato.errors import ParameterError
from sfumato.hierarchy import Published, Ranges, ValueSets
from sfumato.hierarchy.tree import Array, lowest_common_ancestors
from sfumato.kernels import group_sums
from sfumato.kernels.compiling import compiled
from sfumato.kernels.ranking import translate
from sfumato.privacy import Rules
from sfumato.privacy.rules import by_entries, clear, holds, sides_hold, take_in

METRICS = ("spread", "priority", "gain")


def solve(problem: Problem) -> Solution:
    """Cut until no cut is allowed.

    Options: ``cut_weights`` (mix of the three metrics), ``target`` (a sensitive column whose
    entropy counts), ``relaxed`` (split equal values), ``cuts`` (positions by column at which the
    workload cuts).
    """
    mix = _mix(problem)
    entry = None
    blocks = allowed_blocks(problem)
    if problem.options.get("relaxed", False):
        entry = np.repeat(np.arange(problem.entries.entries), problem.counts)
        blocks = _row_blocks(problem, blocks)
    found = cut(
        problem,
        blocks,
        rules=problem.rules,
        mix=mix,
        priority=_priorities(problem),
        wanted=dict(problem.options.get("cuts", {})),
        target=_target(problem),
        entry=entry,
    )
    threads = problem.budget.threads
    if entry is None:
        return Solution(found.groups(problem.entries.entries, threads), found.published(problem))
    rows = np.ones(len(entry), dtype=np.int64)
    return pieced(problem, entry, rows, found.groups(len(entry), threads))


def cut_groups(problem: Problem, blocks: Blocks) -> Array:
    """Group of every entry, cut without options; nobody asks what the groups show."""
    mix, priority = _mix(problem), _priorities(problem)
    found = cut(problem, blocks, rules=problem.rules, mix=mix, priority=priority)
    return found.groups(problem.entries.entries, problem.budget.threads)


def _row_blocks(problem: Problem, blocks: Blocks) -> Blocks:
    """Blocks of entries as blocks of single rows, which are numbered entry after entry."""
    many = problem.counts[blocks.order]
    first = (np.cumsum(problem.counts) - problem.counts)[blocks.order]
    ends = np.cumsum(many)
    order = np.repeat(first - (ends - many), many) + np.arange(int(many.sum()))
    return Blocks(order, np.r_[0, ends][blocks.starts])


def _mix(problem: Problem) -> np.ndarray[Any, np.dtype[np.float64]]:
    given = {"spread": 1.0, "priority": 1.0, "gain": 0.0}
    if "target" in problem.options:
        given["gain"] = 1.0
    for name, weight in dict(problem.options.get("cut_weights", {})).items():
        number = isinstance(weight, (int, float)) and 0 <= weight < np.inf
        if name not in METRICS or not number:
            raise ParameterError(
                "the weights of the cut metrics could not be read",
                remedy="Give e.g. spread=1,priority=1,gain=0.",
            )
        given[name] = float(weight)
    if sum(given.values()) <= 0:
        raise ParameterError("all weights of the cut metrics are zero", remedy="Give spread=1.")
    return np.array([given[name] for name in METRICS])


def _priorities(problem: Problem) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weights of the columns from 0 to 1; without any, no column comes before another."""
    weights = np.array([problem.weight(name) for name in problem.qi])
    if not problem.weights or not weights.max():
        return np.zeros(len(weights))
    return np.asarray(weights / weights.max())


def _target(problem: Problem) -> tuple[np.ndarray[Any, Any], int] | None:
    name = problem.options.get("target")
    if name is None:
        return None
    if name not in problem.entries.columns:
        raise ParameterError(
            f"the target `{name}` is neither sensitive nor a quasi-identifier",
            remedy="List it among one of them.",
        )
    return problem.entries.column(name), len(problem.entries.values_of(name))


_FEWEST_MARKS = 1 << 20
_NOWHERE = np.zeros(0, np.int64)
_UNCOMPILED = 1.2e-4  # seconds that cutting takes about for an entry where it is not compiled


@dataclass(frozen=True, eq=False)
class Cut:
    """Groups that lie one after the other.

    Attributes
    ----------
    table
        Position of every entry on every axis, one row an axis, in the order of the groups.
    index
        Which piece each place holds.
    ends, rows
        Where each group ends, and how many rows it has.
    codes
        For each axis of values without order, the code at each position.
    """

    table: Array
    index: Array
    ends: Array
    rows: Array
    codes: dict[str, Array]

    def groups(self, pieces: int, threads: int | None) -> Array:
        """Group of each of so many pieces; -1 outside of all blocks."""
        groups = np.empty(pieces, dtype=np.int32)
        if len(self.index) < pieces:
            groups[:] = -1
        workers = usable_threads(threads, len(self.index))
        parts = spans(len(self.ends), workers)
        together(_place_groups, [(self.index, self.ends, *part, groups) for part in parts])
        return groups

    def published(self, problem: Problem) -> dict[str, Published]:
        """What each group shows on each axis: its lowest ancestor, range or set of values."""

        def showing(axis: int) -> Published | tuple[Ranges, Array, Array]:
            shape = problem.shapes[problem.qi[axis]]
            if isinstance(shape, ValueSets):
                return shape.published(*self._sets(axis, problem.qi[axis], shape))
            low, high = _spans_of_groups(self.table[axis], self.ends)
            if isinstance(shape, Ranges):
                return shape, low, high
            nodes = lowest_common_ancestors(
                shape.parent, shape.first, shape.last, shape.order, low, high
            )
            return shape.published(nodes)

        cells, threads = self.table.size, problem.budget.threads
        found = each(showing, range(len(problem.qi)), cells, threads)
        return with_ranges(problem, dict(zip(problem.qi, found, strict=True)), self.rows)

    def _sets(self, axis: int, name: str, shape: ValueSets) -> tuple[Array, Array]:
        """The codes of each group, as offsets and members."""
        codes, count = self.codes[name], len(self.ends)
        if count * shape.size > max(16 * self.table.shape[1], _FEWEST_MARKS):
            groups = np.repeat(np.arange(count), np.diff(self.ends, prepend=0))
            return shape.collect(codes[self.table[axis]], groups, count)
        held = _held_values(self.table[axis], self.ends, codes)
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
    pieces = int(blocks.starts[-1])
    everything = entry is None and pieces == problem.entries.entries and blocks.count <= 1
    chosen: Any = slice(None)
    if not everything:
        chosen = blocks.order if entry is None else entry[blocks.order]
    table, codes = _positions(problem, None if everything else chosen)
    axes = axes_of(problem)

    def index_of() -> Array:
        if everything:
            return np.arange(pieces, dtype=_narrow(pieces))
        return blocks.order.astype(_narrow(pieces))

    def weights_of() -> Array:
        if entry is not None:
            return np.ones(pieces, dtype=_narrow(problem.rows))
        return np.array(problem.counts[chosen], dtype=_narrow(problem.rows))

    made = each(lambda make: make(), (index_of, weights_of), 2 * pieces, problem.budget.threads)
    index, weights = made
    ends, rows = _ends_of_groups(
        blocks.starts,
        problem.budget.threads,
        table,
        weights,
        np.ascontiguousarray(sensitive_of(problem)[chosen].T),
        np.zeros(0, dtype=np.int64) if target is None else target[0][chosen].astype(np.int64),
        1 if target is None else target[1],
        index,
        axes,
        np.array([name in codes for name in problem.qi]),
        rules,
        mix,
        priority,
        _counted(problem, wanted or {}),
        entry is not None,
    )
    return Cut(table, index, ends, rows, codes)


def _narrow(limit: int) -> type[np.signedinteger[Any]]:
    """The type of numbers up to a limit, which are moved again and again."""
    return np.int32 if limit < 2**31 else np.int64


def _ends_of_groups(starts: Array, threads: int | None, *given: Any) -> Array:
    """Cut blocks into groups on several cores; returns where groups end, and their rows.

    How a group is cut depends on nothing outside of it, so groups may be cut at the same time once
    the first cuts were made. They lie in the same order whoever cuts them. First come cuts into two
    parts a thread, or a few more: halves are never quite equal, and of several parts whoever is
    done earlier takes another.
    """
    entries = int(starts[-1])
    _cut_blocks.ahead(_UNCOMPILED * entries)
    workers = usable_threads(threads, entries)
    if workers > 1:
        starts = _cut_large(starts, workers, 2 * entries // (2 * workers + 1), given)
        for parts in (8, 32):  # few blocks are not cut far: the last one would be waited for
            least = entries // (parts * workers)
            starts = np.append(0, _cut_each(starts, workers, least, given)[0])
    return _cut_each(starts, workers, 0, given)


def _cut_large(starts: Array, workers: int, least: int, given: Sequence[Any]) -> Array:
    """Cut blocks of more than `least` entries, and what is left of them, on all cores.

    Where a block is cut is found on one of them; what it holds is moved array by array.
    """
    table, weights, sensitive, target, _, index = given[:6]
    moved = [index, weights, *([target] if len(target) else []), *table, *sensitive]  # wide first

    def sides(block: tuple[int, int]) -> tuple[int, int, Array] | None:
        """Where a block begins, its left part ends, and who goes there; None: it is not cut."""
        begin, end = block
        where = np.array([-1, 0, 0])
        _cut_blocks(np.array(block), 0, *given, where)
        if where[0] < 0:
            return None
        side = np.empty(end - begin, np.uint8)
        return begin, begin + _sides(table[where[0], begin:end], where[1], where[2], side), side

    def part(work: tuple[Array, int, Array]) -> None:
        array, begin, side = work
        own = array[begin : begin + len(side)]
        _move(own, side, np.empty_like(own))

    blocks = list(pairwise(starts.tolist()))
    while blocks := [(begin, end) for begin, end in blocks if end - begin > least]:
        entries = sum(end - begin for begin, end in blocks)
        found = [cut for cut in each(sides, blocks, entries, workers) if cut is not None]
        work = [(array, begin, side) for begin, _, side in found for array in moved]
        each(part, work, entries * len(moved), workers)
        blocks = [(begin, middle) for begin, middle, _ in found]
        blocks += [(middle, begin + len(side)) for begin, middle, side in found]
        starts = np.union1d(starts, [middle for _, middle, _ in found]).astype(np.int64)
    return starts


def _cut_each(starts: Array, workers: int, least: int, given: Sequence[Any]) -> Array:
    """Cut blocks into groups, those of more than `least` entries; several blocks at a time."""
    runs = runs_of_blocks(starts, workers)

    def cut_run(run: Array) -> Array:
        ends, groups = _cut_blocks(run, least, *given, _NOWHERE)
        return np.asarray(ends)[:, :groups]

    return np.concatenate(each(cut_run, runs, int(starts[-1]), workers), axis=1)


def runs_of_blocks(starts: Array, threads: int | None, work: int = 1) -> list[Array]:
    """Blocks as runs of about the same number of entries, some for each thread.

    Parameters
    ----------
    starts
        The blocks' first entries, and the end.
    work
        How much more there is to do with an entry than to go past it.

    Examples
    --------
    >>> [run.tolist() for run in runs_of_blocks(np.array([0, 3, 9]), threads=1)]
    [[0, 3, 9]]
    """
    entries = int(starts[-1])
    workers = usable_threads(threads, work * entries)
    pieces = 1 if workers < 2 else 16 * workers
    marks = np.searchsorted(starts, [entries * piece // pieces for piece in range(1, pieces)])
    marks = np.unique([0, *marks.tolist(), len(starts) - 1])
    return [starts[a : b + 1] for a, b in pairwise(marks)] if len(marks) > 1 else [starts]


def _positions(problem: Problem, chosen: Array | None) -> tuple[Array, dict[str, Array]]:
    """Positions of some entries (or all), one row an axis; codes of axes without order."""
    shapes = [problem.shapes[name] for name in problem.qi]
    entries = problem.entries.entries if chosen is None else len(chosen)
    widest = usual_dtype(max((shape.size for shape in shapes), default=1), len(shapes) * entries)
    table = np.empty((len(shapes), entries), dtype=widest)
    codes = {}

    def place(axis: int) -> None:
        name, shape = problem.qi[axis], shapes[axis]
        column = problem.entries.column(name)
        if isinstance(shape, ValueSets):
            codes[name] = _by_rows(column, problem.counts, shape.size)
            position = np.empty(shape.size, dtype=widest)
            position[codes[name]] = np.arange(shape.size)
        else:
            position = shape.position.astype(widest)
        translate(column if chosen is None else column[chosen], position, table[axis])

    each(place, range(len(shapes)), table.size, problem.budget.threads)
    return table, codes


def _by_rows(column: Array, counts: Array, size: int) -> Array:
    """Codes of a column, the commonest first."""
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
            remedy="Leave them out, and give a workload that says where to cut.",
        )
    return places.astype(np.int64)


def coarse_partition(
    problem: Problem, blocks: Blocks, entries: int, seed: int | None = None
) -> Blocks:
    """Cut blocks into parts of at least so many entries, each of which satisfies the rules.

    Parts are small enough for work that looks at every pair. Other seeds prefer other columns, so
    that what is a border of one partition lies inside a part of the next.

    Parameters
    ----------
    entries
        Least number of entries, on average; parts have at most about twice as many.
    seed
        Which columns to prefer; None cuts where the spread is largest.
    """
    columns = len(problem.qi)
    priority = np.zeros(columns) if seed is None else np.random.default_rng(seed).random(columns)
    rows = int(problem.counts[blocks.order].sum())
    least = max(problem.rules.k, int(entries * rows / max(len(blocks.order), 1)))
    found = cut(
        problem,
        blocks,
        rules=problem.rules._replace(k=least),
        mix=np.array([1.0, 1.0, 0.0]),
        priority=priority,
    )
    return Blocks(found.index.astype(np.int64), np.r_[0, found.ends].astype(np.int64))


BITS = 64
"""Values of a column up to which a group's are collected as the bits of one number."""


@compiled
def _node(axes, axis, low, high):  # type: ignore[no-untyped-def]
    """Lowest node of a tree that covers two positions, counted from the axis' first node."""
    base = axes.node_offsets[axis]
    node = axes.leaf[axes.offsets[axis] + low]
    while low < axes.first[base + node] or high > axes.last[base + node]:
        node = axes.parent[base + node]
    return node


@compiled
def _total(weights):  # type: ignore[no-untyped-def]
    """Rows of a group."""
    rows = np.int64(0)
    for i in range(weights.shape[0]):
        rows += weights[i]
    return rows


@compiled
def _ends(column):  # type: ignore[no-untyped-def]
    """Lowest and highest position of a group."""
    low, high = column[0], column[0]
    for i in range(column.shape[0]):
        low = min(low, column[i])
        high = max(high, column[i])
    return np.int64(low), np.int64(high)


@compiled
def _distinct(column, size, seen, now):  # type: ignore[no-untyped-def]
    """Number of positions that a group holds; `seen` says when each was last met."""
    if size <= BITS:
        bits = np.uint64(0)
        for i in range(column.shape[0]):
            bits |= np.uint64(1) << np.uint64(column[i])
        held = 0
        while bits:
            bits &= bits - np.uint64(1)
            held += 1
        return held
    held = 0
    for i in range(column.shape[0]):
        if seen[column[i]] != now:
            seen[column[i]] = now
            held += 1
    return held


def _few_sorted_runs(column: Array, weights: Array, runs: Array) -> int:
    """`_sorted_runs` by numpy."""
    seen, at = np.unique(column, return_inverse=True)
    runs[0, : len(seen)], runs[1, : len(seen)] = seen, 0
    np.add.at(runs[1], at, weights)
    return len(seen)


@compiled(instead=_few_sorted_runs)
def _sorted_runs(column, weights, runs):  # type: ignore[no-untyped-def]
    """`_runs` by sorting in a heap; numba's own sorting takes ten times as long to compile."""
    end, found = column.shape[0], 0
    for i in range(end):
        runs[0, i], runs[1, i] = column[i], weights[i]
    root = end // 2
    while end > 1:
        if root > 0:
            root -= 1
        else:
            end -= 1
            for side in range(2):
                runs[side, 0], runs[side, end] = runs[side, end], runs[side, 0]
        at, below = root, 2 * root + 1
        while below < end:
            if below + 1 < end and runs[0, below + 1] > runs[0, below]:
                below += 1
            if runs[0, at] >= runs[0, below]:
                break
            for side in range(2):
                runs[side, at], runs[side, below] = runs[side, below], runs[side, at]
            at, below = below, 2 * below + 1
    for i in range(column.shape[0]):
        if found == 0 or runs[0, found - 1] != runs[0, i]:
            runs[0, found], runs[1, found] = runs[0, i], runs[1, i]
            found += 1
        else:
            runs[1, found - 1] += runs[1, i]
    return found


@compiled
def _runs(column, weights, low, high, sizes, runs):  # type: ignore[no-untyped-def]
    """The positions that a group holds, ascending, and their rows; returns how many they are.

    By counting where that is cheap, else by sorting: a few entries may lie far apart.
    """
    entries = column.shape[0]
    found = 0
    if high - low < 4 * entries + 64:
        sizes[: high - low + 1] = 0
        for i in range(entries):
            sizes[column[i] - low] += weights[i]
        for position in range(high - low + 1):
            if sizes[position] > 0:
                runs[0, found], runs[1, found] = low + position, sizes[position]
                found += 1
        return found
    return _sorted_runs(column, weights, runs)


@compiled
def _middle(runs, found, total):  # type: ignore[no-untyped-def]
    """The cut that halves a group exactly, and how many rows of the next position go left too."""
    left = 0
    for run in range(found):
        if left + runs[1, run] >= total // 2:
            return runs[0, run] - 1, total // 2 - left
        left += runs[1, run]
    return runs[0, found - 1], 0


@compiled
def _best_cut(axes, axis, runs, found, total, k, wanted, persons, cuts):  # type: ignore[no-untyped-def]
    """Last position of the left part: nearest to half, both parts of at least k rows; -1 if none.

    Trees are cut between children of the group's node. Where the workload's predicates cut, a cut
    is taken before all others; `wanted` counts those cuts from the left. Both parts also need so
    many `persons`, those of each cut being in `cuts`; where none are asked for, that is not read.
    """
    node = -1
    if axes.kinds[axis] == TREE:
        node = _node(axes, axis, runs[0, 0], runs[0, found - 1])
    first = axes.offsets[axis] + axis  # `wanted` has one count more than an axis has positions
    best, best_distance, best_wanted = -1, total, False
    left = 0
    for run in range(found - 1):
        left += runs[1, run]
        if left < k:
            continue
        if total - left < k:
            break
        if persons and min(cuts[0, run], cuts[1, run]) < persons:
            continue
        here, following = runs[0, run], runs[0, run + 1]
        if node >= 0 and _node(axes, axis, here, following) != node:
            continue
        preferred = wanted[first + following] > wanted[first + here]
        distance = abs(2 * left - total)
        if (preferred and not best_wanted) or (
            preferred == best_wanted and distance < best_distance
        ):
            best, best_distance, best_wanted = here, distance, preferred
    return best


@compiled
def _entropy(counts, total):  # type: ignore[no-untyped-def]
    entropy = 0.0
    for count in counts:
        if count > 0:
            entropy -= count / total * math.log2(count / total)
    return entropy


@compiled
def _gain(column, weights, target, cut, classes):  # type: ignore[no-untyped-def]
    """Share of the target's entropy that a cut takes away."""
    left = np.zeros(classes, np.int64)
    right = np.zeros(classes, np.int64)
    for i in range(column.shape[0]):
        if column[i] <= cut:
            left[target[i]] += weights[i]
        else:
            right[target[i]] += weights[i]
    lefts, rights = _total(left), _total(right)
    both, total = np.zeros(classes, np.int64), lefts + rights
    for value in range(classes):
        both[value] = left[value] + right[value]
    before = _entropy(both, total)
    if before <= 0.0:
        return 0.0
    after = (lefts * _entropy(left, lefts) + rights * _entropy(right, rights)) / total
    return (before - after) / before


@compiled
def _parts_have(column, run, cut, extra, people, least, runs, marks, met):  # type: ignore[no-untyped-def]
    """Whether both parts of a cut hold enough persons; `run` are the runs of the entries.

    It stops as soon as they do, so that large groups cost no more than small ones. Those met so far
    are few, and are looked through: marks of millions of persons would be far apart in memory.
    """
    single = runs.shape[0] == 1
    left, right = 0, 0
    for i in range(column.shape[0]):
        goes_left = column[i] <= cut
        if extra > 0 and column[i] == cut + 1:
            goes_left = True
            extra -= 1
        if (goes_left and left >= least) or (not goes_left and right >= least):
            continue
        first, last = (0, 1) if single else (runs[run[i]], runs[run[i] + 1])
        for m in range(first, last):
            mark = people + 2 + run[i] if single else marks[m, 0]
            side = 0 if goes_left else 1
            known = left if goes_left else right
            at = 0
            while at < known and met[side, at] != mark:
                at += 1
            if at < known or known >= least:
                continue
            met[side, known] = mark
            if goes_left:
                left += 1
            else:
                right += 1
        if left >= least and right >= least:
            return True
    return False


@compiled
def _parts_hold(column, weights, sensitive, begin, cut, extra, rules, counts):  # type: ignore[no-untyped-def]
    """Whether both parts of a cut satisfy all rules."""
    if rules.people >= 0 and rules.kinds.shape[0] == 1:
        run = sensitive[sensitive.shape[0] - 1, begin : begin + column.shape[0]]
        return _parts_have(
            column,
            run,
            cut,
            extra,
            rules.people,
            rules.persons,
            rules.runs,
            rules.marks,
            np.empty((2, rules.persons), np.int64),
        )
    lefts, rights, values = counts[0], counts[1], sensitive.T
    clear(rules, lefts)
    clear(rules, rights)
    left, right = 0, 0
    for i in range(column.shape[0]):
        goes_left = column[i] <= cut
        if extra > 0 and column[i] == cut + 1:
            goes_left = True
            extra -= 1
        if goes_left:
            left += weights[i]
            take_in(begin + i, weights[i], values, rules, lefts)
        else:
            right += weights[i]
            take_in(begin + i, weights[i], values, rules, rights)
    return holds(left, lefts, rules) and holds(right, rights, rules)


@compiled
def _place(positions, position):  # type: ignore[no-untyped-def]
    """Where a position is among ascending ones."""
    low, high = 0, positions.shape[0]
    while low < high:
        middle = (low + high) // 2
        if positions[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _persons_of_cuts(column, begin, runs, found, sensitive, rules, counts, ends, cuts):  # type: ignore[no-untyped-def]
    """Persons to the left and to the right of every cut, in the order of the runs.

    A person is to the left from her first position on, and to the right up to her last one; `ends`
    holds the two, at the place of her mark.
    """
    clear(rules, counts)
    now, base = counts[rules.people + 1] + 1, rules.people + 2
    single = rules.runs.shape[0] == 1
    for i in range(column.shape[0]):
        run = sensitive[sensitive.shape[0] - 1, begin + i]
        first, last = (0, 1) if single else (rules.runs[run], rules.runs[run + 1])
        for m in range(first, last):
            mark = base + run if single else rules.marks[m, 0]
            if counts[mark] != now:
                counts[mark] = now
                ends[0, mark - base], ends[1, mark - base] = column[i], column[i]
            else:
                ends[0, mark - base] = min(ends[0, mark - base], column[i])
                ends[1, mark - base] = max(ends[1, mark - base], column[i])
    for side in range(2):
        for run in range(found):
            cuts[side, run] = 0
    clear(rules, counts)
    now = counts[rules.people + 1] + 1
    positions = runs[0, :found]
    persons = 0
    for i in range(column.shape[0]):
        run = sensitive[sensitive.shape[0] - 1, begin + i]
        first, last = (0, 1) if single else (rules.runs[run], rules.runs[run + 1])
        for m in range(first, last):
            mark = base + run if single else rules.marks[m, 0]
            if counts[mark] != now:
                counts[mark] = now
                persons += 1
                cuts[0, _place(positions, ends[0, mark - base])] += 1
                cuts[1, _place(positions, ends[1, mark - base])] += 1
    begun, ended = 0, 0
    for run in range(found):
        begun += cuts[0, run]
        ended += cuts[1, run]
        cuts[0, run], cuts[1, run] = begun, persons - ended


@compiled
def _sides(column, cut, extra, goes_left):  # type: ignore[no-untyped-def]
    """Which entries go left; returns how many."""
    lefts = 0
    for i in range(column.shape[0]):
        left = column[i] <= cut
        if extra > 0 and column[i] == cut + 1:
            left = True
            extra -= 1
        goes_left[i] = left
        lefts += left
    return lefts


@compiled
def _move(column, goes_left, spare):  # type: ignore[no-untyped-def]
    """Bring the left part to the front, both parts in order.

    Every entry is written to both sides and only one of them advances: no branch to guess.
    """
    front, back = np.int64(0), np.int64(0)
    for i in range(column.shape[0]):
        value, left = column[i], np.int64(goes_left[i])
        column[front] = value
        spare[back] = value
        front += left
        back += 1 - left
    for i in range(back):
        column[front + i] = spare[i]


@compiled(most=1 << 18, patience=0.5, direct=1 << 22)
def _cut_blocks(  # type: ignore[no-untyped-def]
    starts,
    least,
    table,
    weights,
    sensitive,
    target,
    classes,
    index,
    axes,
    sets,
    rules,
    mix,
    priority,
    wanted,
    relaxed,
    where,
):
    """Cut every block until no cut is allowed.

    Returns where groups end, in the moved order, and below that their rows, with more room than is
    used, and the number of groups. `starts` are the
    blocks' first entries and the end; groups of at most `least` entries are left for another time.
    `table` has one row a column; `sets` says which columns show the values that a group holds, not
    the range they span; `mix` the weights of spread, priority and gain in the score of an axis
    (Xiong & Rangachari, section 4.4). Relaxed cuts of lines halve a group exactly and need entries
    of one row each. If `where` has room, the first cut is only told there: its axis (-1: there is
    none), the position after which it comes, and how many entries of the next one go left.
    """
    # One long loop on purpose: most groups are small, and handing the axes to a function for each
    # of them (scoring, choosing, moving) costs 5 to 30 % of the whole.
    columns = table.shape[0]
    entries = starts[-1] - starts[0]
    rows = _total(weights[starts[0] : starts[-1]])
    ends = np.empty((2, min(entries, rows // max(1, rules.k)) + starts.shape[0]), np.int64)
    groups = 0
    widest = 1
    for c in range(columns):
        widest = max(widest, axes.sizes[c])
    seen = np.full(widest, -1, np.int64)
    sizes = np.zeros(widest, np.int64)
    runs = np.zeros((2, widest), np.int64)
    counts = np.zeros((2, rules.offsets[-1]), np.int64)
    cuts = np.zeros((2, widest if rules.people >= 0 else 0), np.int64)
    known = rules.offsets[-1] - rules.people - 2  # persons, and not fewer
    met = np.zeros((2, known if rules.people >= 0 else 0), np.int64)
    goes_left = np.empty(entries, np.uint8)
    few = by_entries(rules)
    spare_codes = np.empty(entries, table.dtype)
    spare_rows = np.empty(entries, weights.dtype)
    spare_index = np.empty(entries, index.dtype)
    spare_target = np.empty(entries if target.shape[0] else 0, target.dtype)
    spare_values = np.empty(entries if sensitive.shape[0] else 0, sensitive.dtype)
    low = np.zeros(columns, np.int64)
    high = np.zeros(columns, np.int64)
    score = np.zeros(columns, np.float64)
    stack = np.empty((entries + 2, 2), np.int64)
    mixed = mix[0] + mix[1] + mix[2]
    visits = 0
    for block in range(starts.shape[0] - 1):
        stack[0, 0], stack[0, 1] = starts[block], starts[block + 1]
        depth = 1
        while depth > 0:
            depth -= 1
            begin, end = stack[depth, 0], stack[depth, 1]
            own = weights[begin:end]
            total = _total(own)
            chosen, cut, extra = -1, -1, 0
            if end - begin > least and total >= 2 * rules.k:
                for c in range(columns):
                    column = table[c, begin:end]
                    low[c], high[c] = _ends(column)
                    score[c] = -1.0
                    if low[c] == high[c]:
                        continue
                    if axes.kinds[c] == TREE:
                        node = _node(axes, c, low[c], high[c])
                        spread = axes.loss[axes.node_offsets[c] + node]
                    elif sets[c]:
                        held = _distinct(column, axes.sizes[c], seen, visits)
                        visits += 1
                        spread = (held - 1) / (axes.sizes[c] - 1)
                    else:
                        places = axes.places[axes.offsets[c] :]
                        spread = min(1.0, places[high[c]] - places[low[c]])
                    score[c] = mix[0] * spread + mix[1] * priority[c]
                    if mix[2] > 0.0:
                        found = _runs(column, own, low[c], high[c], sizes, runs)
                        at = _best_cut(axes, c, runs, found, total, rules.k, wanted, 0, cuts)
                        if at < 0:
                            score[c] = -1.0
                            continue
                        score[c] += mix[2] * _gain(column, own, target[begin:end], at, classes)
                    score[c] /= mixed
                for _ in range(columns):
                    axis = 0
                    for c in range(1, columns):
                        if score[c] > score[axis]:
                            axis = c
                    if score[axis] < 0.0:
                        break
                    score[axis] = -1.0
                    column = table[axis, begin:end]
                    found = _runs(column, own, low[axis], high[axis], sizes, runs)
                    extra = 0
                    if relaxed and axes.kinds[axis] != TREE:
                        at, extra = _middle(runs, found, total)
                    else:
                        at = _best_cut(axes, axis, runs, found, total, rules.k, wanted, 0, cuts)
                        if at < 0:
                            continue
                    if few and rules.kinds.shape[0]:
                        side = goes_left[: end - begin]
                        _sides(column, at, extra, side)
                        if not sides_hold(side, own, sensitive, rules, counts, begin):
                            continue
                    elif not few and not _parts_hold(
                        column, own, sensitive, begin, at, extra, rules, counts
                    ):
                        if rules.people < 0:
                            continue
                        _persons_of_cuts(
                            column, begin, runs, found, sensitive, rules, counts[0], met, cuts
                        )
                        extra, many = 0, rules.persons
                        at = _best_cut(axes, axis, runs, found, total, rules.k, wanted, many, cuts)
                        if at < 0 or not _parts_hold(
                            column, own, sensitive, begin, at, 0, rules, counts
                        ):
                            continue
                    chosen, cut = axis, at
                    break
            if where.shape[0]:
                where[0], where[1], where[2] = chosen, cut, extra
                return ends, groups
            if chosen < 0:
                ends[0, groups], ends[1, groups] = end, total
                groups += 1
                continue
            side = goes_left[: end - begin]
            middle = begin + _sides(table[chosen, begin:end], cut, extra, side)
            for c in range(columns):
                if low[c] < high[c]:
                    _move(table[c, begin:end], side, spare_codes)
            if rows > entries:  # else all weigh the same
                _move(own, side, spare_rows)
            _move(index[begin:end], side, spare_index)
            if target.shape[0]:
                _move(target[begin:end], side, spare_target)
            for s in range(sensitive.shape[0]):
                _move(sensitive[s, begin:end], side, spare_values)
            stack[depth, 0], stack[depth, 1] = middle, end
            stack[depth + 1, 0], stack[depth + 1, 1] = begin, middle
            depth += 2
    return ends, groups


@compiled(most=1 << 18)
def _place_groups(index, ends, first, last, groups):  # type: ignore[no-untyped-def]
    """Give the pieces of some groups their number."""
    for group in range(first, last):
        for i in range(ends[group - 1] if group else 0, ends[group]):
            groups[index[i]] = group


@compiled(most=1 << 18)
def _spans_of_groups(column, ends):  # type: ignore[no-untyped-def]
    """Lowest and highest position of groups that lie one after the other."""
    low = np.empty(ends.shape[0], np.int64)
    high = np.empty(ends.shape[0], np.int64)
    begin = 0
    for group in range(ends.shape[0]):
        low[group], high[group] = _ends(column[begin : ends[group]])
        begin = ends[group]
    return low, high


@compiled(most=1 << 18)
def _held_values(column, ends, code_of):  # type: ignore[no-untyped-def]
    """Whether each group holds each code, for groups that lie one after the other."""
    held = np.zeros((ends.shape[0], code_of.shape[0]), np.bool_)
    begin = 0
    for group in range(ends.shape[0]):
        for i in range(begin, ends[group]):
            held[group, code_of[column[i]]] = True
        begin = ends[group]
    return held
