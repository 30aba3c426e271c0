"""Searches of the lattice of column sets: depth first, level by level, and all sets at once.

Whatever is asked (a key, a β-distinct or β-separation set) only gets truer with more columns. So a
search never looks at a superset of a set that is good already.

The compiled steps refine partitions: entries lie in the order of their classes, which `starts`
bounds; an entry stands for the rows it weighs. Classes of one entry are dropped, since no column
can part them: how many there were and the pairs of rows within them is carried along.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.protocol import CodeArray, Codes, usual_dtype
from sfumato.errors import ParameterError, spell
from sfumato.kernels.compiling import compiled
from sfumato.quasi.greedy import Goal

MERGED = 1 << 14
"""Entries are merged when the columns left have at most so many combinations."""


@compiled
def count_parts(  # type: ignore[no-untyped-def]
    values, weights, starts, classes, cardinality, sums, lanes, most_pairs, least_parts
):
    """Pairs of rows that one more column leaves together, and the parts it makes of the classes.

    Gives up with what it has as soon as there are more pairs than `most_pairs`, or there cannot be
    `least_parts` parts any more.
    """
    pairs, parts = 0, 0
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        if pairs > most_pairs or parts + starts[classes] - begin < least_parts:
            return pairs, parts
        if end - begin == 2:  # most classes of a deep partition
            first, second = weights[begin], weights[begin + 1]
            pairs += (first * (first - 1) + second * (second - 1)) // 2
            if values[begin] == values[begin + 1]:
                pairs += first * second
                parts += 1
            else:
                parts += 2
        elif end - begin >= 4 * cardinality:
            more = _count_large(values[begin:end], weights[begin:end], cardinality, lanes)
            pairs += more[0]
            parts += more[1]
        else:
            for i in range(begin, end):
                before, weight = sums[values[i]], weights[i]
                pairs += before * weight + weight * (weight - 1) // 2
                parts += before == 0
                sums[values[i]] = before + weight
            for i in range(begin, end):
                sums[values[i]] = 0
    return pairs, parts


@compiled
def _count_large(values, weights, cardinality, lanes):  # type: ignore[no-untyped-def]
    """Pairs and number of parts of one class that holds many entries a value.

    Neighbours count in tables of their own: equal ones would wait for each other's additions.
    """
    lanes[: 4 * cardinality] = 0
    size = values.shape[0]
    at = 0
    while at + 3 < size:
        lanes[4 * np.int64(values[at])] += weights[at]
        lanes[4 * np.int64(values[at + 1]) + 1] += weights[at + 1]
        lanes[4 * np.int64(values[at + 2]) + 2] += weights[at + 2]
        lanes[4 * np.int64(values[at + 3]) + 3] += weights[at + 3]
        at += 4
    while at < size:
        lanes[4 * np.int64(values[at])] += weights[at]
        at += 1
    pairs, parts = 0, 0
    for value in range(cardinality):
        first = 4 * value
        rows = lanes[first] + lanes[first + 1] + lanes[first + 2] + lanes[first + 3]
        pairs += rows * (rows - 1) // 2
        parts += rows > 0
    return pairs, parts


@compiled
def makes_smaller(values, weights, starts, classes, k, sums):  # type: ignore[no-untyped-def]
    """Whether one more column makes a class of fewer than k rows."""
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        for i in range(begin, end):
            sums[values[i]] += weights[i]
        small = False
        for i in range(begin, end):
            small |= 0 < sums[values[i]] < k
            sums[values[i]] = -1
        for i in range(begin, end):
            sums[values[i]] = 0
        if small:
            return True
    return False


@compiled
def refine(  # type: ignore[no-untyped-def]
    table, weights, starts, classes, column, cardinalities, sums, place, order, seen, new_starts
):
    """The partition that one more column makes, told by the columns before it.

    Entries are copied into the order of their classes, so that all loops run through memory, and
    merged where that is cheap.

    Returns the columns before it and the weights of the new entries, the number of classes, of
    their entries, of classes dropped, and of pairs in those.
    """
    made, filled, alone, fixed = _split(
        table[column], weights, starts, classes, sums, place, order, new_starts
    )
    smaller, lighter = _gather(table, weights, column, order, filled)
    combinations = 1
    for before in range(column):
        combinations = min(combinations * cardinalities[before], MERGED + 1)
    if column >= 2 and combinations <= MERGED and 2 * made < filled:
        made, filled, dropped, pairs = _merge(
            smaller, lighter, new_starts, made, cardinalities, combinations, seen
        )
        alone += dropped
        fixed += pairs
    return smaller, lighter, made, filled, alone, fixed


@compiled
def _split(values, weights, starts, classes, sums, place, order, new_starts):  # type: ignore[no-untyped-def]
    """Where the entries of a finer partition come from; classes of one entry are dropped.

    Returns the number of classes, of their entries, of classes dropped, and of pairs in those.
    """
    filled, made, alone, fixed = 0, 0, 0, 0
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        for i in range(begin, end):
            sums[values[i]] += 1
        for i in range(begin, end):
            value = values[i]
            if sums[value] > 1:
                new_starts[made] = filled
                made += 1
                place[value] = filled
                filled += sums[value]
                sums[value] = -1
            if sums[value] == -1:
                order[place[value]] = i
                place[value] += 1
            else:
                alone += 1
                fixed += weights[i] * (weights[i] - 1) // 2
        for i in range(begin, end):
            sums[values[i]] = 0
    new_starts[made] = filled
    return made, filled, alone, fixed


@compiled
def _gather(table, weights, columns, order, filled):  # type: ignore[no-untyped-def]
    """The first columns of a table at some entries, in their order, and the entries' weights."""
    taken = np.empty((columns, filled), table.dtype)
    for column in range(columns):
        for i in range(filled):
            taken[column, i] = table[column, order[i]]
    return taken, weights[order[:filled]]


@compiled
def _merge(table, weights, starts, classes, cardinalities, combinations, seen):  # type: ignore[no-untyped-def]
    """Make one entry of the entries of a class that agree in all columns left, in place.

    What is still to come cannot tell them apart. Classes of one entry are dropped; returns the
    number of classes, of their entries, of classes dropped, and of pairs in those.
    """
    columns = table.shape[0]
    filled, made, alone, fixed = 0, 0, 0, 0
    keys = np.empty(combinations, np.int64)
    begin = starts[0]
    for c in range(classes):
        end, first = starts[c + 1], filled
        for i in range(begin, end):
            key = np.int64(0)
            for column in range(columns):
                key = key * cardinalities[column] + table[column, i]
            at = seen[key]
            if at < 0:
                seen[key] = filled
                keys[filled - first] = key
                for column in range(columns):
                    table[column, filled] = table[column, i]
                weights[filled] = weights[i]
                filled += 1
            else:
                weights[at] += weights[i]
        for i in range(filled - first):
            seen[keys[i]] = -1
        begin = end
        if filled - first == 1:
            alone += 1
            fixed += weights[first] * (weights[first] - 1) // 2
            filled = first
        else:
            starts[made] = first
            made += 1
    starts[made] = filled
    return made, filled, alone, fixed


NO_LIMIT = np.iinfo(np.int64).max


@compiled(most=1 << 17)
def search_below(  # type: ignore[no-untyped-def]
    table, cardinalities, weights, top, max_pairs, min_classes, k, max_size, known, found, every
):
    """All minimal good sets whose highest column is `top`, given those below it.

    Sets are visited in the order of their bit masks, so that every subset of a set comes before
    it; supersets of a good set are skipped. A set is good if it leaves at most `max_pairs` pairs
    of rows together and makes at least `min_classes` classes; or, where `k` is not 0, if it makes
    a class of fewer than k rows.

    `known` holds the good sets found so far and receives new ones from `found` on. With `every`
    given (pairs and classes of each mask), nothing is skipped and all sets are written down.
    Returns the number of known sets, or -1 - that number when `known` is full.
    """
    m, n = table.shape
    depth_limit = min(max_size, top + 1)
    all_sets = every.shape[0] > 0
    widest = 1
    for c in range(m):
        widest = max(widest, cardinalities[c])
    sums = np.zeros(widest, np.int64)
    lanes = np.zeros(4 * widest, np.int64)
    place = np.zeros(widest, np.int64)
    order = np.empty(n, np.int64)
    seen = np.full(MERGED, -1, np.int64)
    # The partition of each depth.
    tables = [table] * (depth_limit + 1)
    weight = [weights] * (depth_limit + 1)
    starts = np.zeros((depth_limit + 1, n // 2 + 2), np.int64)
    classes = np.zeros(depth_limit + 1, np.int64)
    alone = np.zeros(depth_limit + 1, np.int64)
    fixed = np.zeros(depth_limit + 1, np.int64)
    starts[0, 1] = n
    classes[0] = 1 if n > 0 else 0
    # Its column set, the column to try next, and the one to stop before.
    masks = np.zeros(depth_limit + 1, np.uint64)
    cursor = np.zeros(depth_limit + 1, np.int64)
    before = np.zeros(depth_limit + 1, np.int64)
    cursor[0], before[0] = top, top + 1
    heads = np.full(64, -1, np.int64)
    nexts = np.full(known.shape[0] * 64, -1, np.int64)
    for at in range(found):
        _chain(known[at], at, m, heads, nexts)
    depth = 0
    while depth >= 0:
        column = cursor[depth]
        if column >= before[depth] or depth >= depth_limit:
            depth -= 1
            continue
        cursor[depth] += 1
        mask = masks[depth] | (np.uint64(1) << np.uint64(column))
        if not all_sets and _holds_known(mask, known, heads, nexts, column):
            continue
        values = tables[depth][column]
        if k:
            good = makes_smaller(values, weight[depth], starts[depth], classes[depth], k, sums)
        else:
            pairs, parts = count_parts(
                values,
                weight[depth],
                starts[depth],
                classes[depth],
                cardinalities[column],
                sums,
                lanes,
                NO_LIMIT if all_sets else max_pairs - fixed[depth],
                0 if all_sets else min_classes - alone[depth],
            )
            pairs += fixed[depth]
            parts += alone[depth]
            good = pairs <= max_pairs and parts >= min_classes and not all_sets
            if all_sets:
                every[mask, 0], every[mask, 1] = pairs, parts
        if good:
            if found == known.shape[0]:
                return -1 - found
            known[found] = mask
            _chain(mask, found, m, heads, nexts)
            found += 1
            continue
        down = depth + 1
        if column == 0 or down >= depth_limit:
            continue
        smaller, lighter, made, entries, dropped, dropped_pairs = refine(
            tables[depth],
            weight[depth],
            starts[depth],
            classes[depth],
            column,
            cardinalities,
            sums,
            place,
            order,
            seen,
            starts[down],
        )
        alone[down] = alone[depth] + dropped
        fixed[down] = fixed[depth] + dropped_pairs
        if not all_sets and k == 0:
            stuck = fixed[down] + _pairs_within(lighter, entries)
            if stuck > max_pairs or alone[down] + entries < min_classes:
                continue
        tables[down], weight[down], classes[down] = smaller, lighter, made
        masks[down] = mask
        cursor[down], before[down] = 0, column
        depth = down
    return found


@compiled
def _chain(mask, at, columns, heads, nexts):  # type: ignore[no-untyped-def]
    """Put a known set at the head of its columns' chains."""
    for bit in range(columns):
        if mask >> np.uint64(bit) & np.uint64(1):
            nexts[at * 64 + bit] = heads[bit]
            heads[bit] = at


@compiled
def _holds_known(mask, known, heads, nexts, bit):  # type: ignore[no-untyped-def]
    """Whether a known set that contains `bit` lies within `mask`."""
    at = heads[bit]
    while at >= 0:
        if known[at] & ~mask == 0:
            return True
        at = nexts[at * 64 + bit]
    return False


@compiled
def _pairs_within(weights, entries):  # type: ignore[no-untyped-def]
    """Pairs of rows of one entry: they stay together whatever columns are still to come."""
    pairs = 0
    for i in range(entries):
        pairs += weights[i] * (weights[i] - 1) // 2
    return pairs


_UNCOMPILED = 4e-5  # seconds that a column set takes about where nothing is compiled
SUBSET_COLUMNS = 24
"""Columns up to which the table of all subsets fits memory."""
DEPTH_FIRST_COLUMNS = 64
"""Columns up to which a column set fits a machine word."""

Set = tuple[int, ...]


@dataclass(frozen=True)
class Minimal:
    """Minimal good sets, and whether these are all."""

    sets: tuple[Set, ...]
    complete: bool = True
    stopped_by: str | None = None

    def within(self, columns: int, max_size: int | None) -> Minimal:
        """All of them also where a size limit left out but all columns, which hold one of these."""
        limited = max_size is not None and max_size + 1 >= columns and self.stopped_by is None
        return replace(self, complete=True) if limited and self.sets else self


def depth_first(codes: Codes, goal: Goal, max_size: int | None, budget: Budget) -> Minimal:
    """All minimal sets that reach a goal."""
    if goal.met(codes, ()):
        return Minimal(((),))
    max_pairs = np.iinfo(np.int64).max if goal.pairs is None else goal.pairs
    return _search(codes, max_pairs, goal.classes, 0, max_size, budget)


def violating(codes: Codes, k: int, max_size: int | None, budget: Budget) -> Minimal:
    """All minimal sets that make a class of fewer than k rows."""
    if 0 < codes.rows < k:
        return Minimal(((),))
    return _search(codes, 0, 0, k, max_size, budget)


def _search(
    codes: Codes, max_pairs: int, min_classes: int, k: int, max_size: int | None, budget: Budget
) -> Minimal:
    """Depth-first search with stripped partitions.

    Each set costs one pass over the rows that are not yet alone, and memory is one partition for
    each level of the search.
    """

    width = len(codes.columns)
    if width > DEPTH_FIRST_COLUMNS:
        raise ParameterError(
            f"the depth-first search takes at most {DEPTH_FIRST_COLUMNS} columns, not {width}",
            remedy="Use the method `hitting-set` for keys, or `levelwise` with a largest size "
            f"({spell('max_size', 4)}).",
        )
    order, table, cardinalities, weights = _prepared(codes)
    largest = width if max_size is None else max_size
    known = np.zeros(1024, dtype=np.uint64)
    none = np.zeros((0, 2), dtype=np.int64)
    found = 0
    for top in range(width):
        budget.progress(f"{found} found", top / width)
        if budget.spent():
            return Minimal(_sets_of(known[:found], order), False, budget.stopped_by)
        asked = (table, cardinalities, weights, top, max_pairs, min_classes, k, largest)
        while (outcome := search_below(*asked, known, found, none)) < 0:
            known = np.concatenate([known, np.zeros(len(known), dtype=np.uint64)])
        found = outcome
    return Minimal(_sets_of(known[:found], order), max_size is None or max_size >= width)


def all_subsets(codes: Codes, budget: Budget) -> npt.NDArray[np.int64]:
    """Unseparated pairs of rows and number of classes of every column set, by bit mask.

    The number of pairs a set leaves together is the number of pairs whose *agree set* (the columns
    in which they agree) contains it: one table answers every β. Bit i stands for column i.
    """

    width = len(codes.columns)
    if width > SUBSET_COLUMNS:
        raise ParameterError(
            f"a table of all column sets takes at most {SUBSET_COLUMNS} columns, not {width}",
            remedy=f"Choose fewer columns, or the method `levelwise` with a largest size "
            f"({spell('max_size', 4)}).",
        )
    order, table, cardinalities, weights = _prepared(codes)
    search_below.ahead(_UNCOMPILED * (1 << width))
    every = np.zeros((1 << width, 2), dtype=np.int64)
    known = np.zeros(0, dtype=np.uint64)
    for top in range(width):
        budget.progress("measuring all column sets", (1 << top) / (1 << width))
        if budget.spent():
            raise ParameterError(
                "the time is too short to measure all column sets",
                remedy=f"Allow more ({spell('time', '10m')}), or name fewer columns.",
            )
        search_below(table, cardinalities, weights, top, 0, 0, 0, width, known, 0, every)
    rows = codes.rows
    every[0] = rows * (rows - 1) // 2, min(1, rows)
    # From bits in search order back to bits in column order.
    masks = np.arange(1 << width)
    searched = np.zeros(1 << width, dtype=np.int64)
    for bit, column in enumerate(order):
        searched |= (masks >> column & 1) << bit
    return every[searched]


def minimal_from_subsets(every: npt.NDArray[np.int64], goal: Goal, max_size: int | None) -> Minimal:
    """Minimal good sets, read off the table of all subsets."""
    good = every[:, 1] >= goal.classes
    if goal.pairs is not None:
        good &= every[:, 0] <= goal.pairs
    width = len(every).bit_length() - 1
    masks = np.arange(len(every))
    minimal = good.copy()
    for bit in range(width):
        has = (masks >> bit & 1).astype(np.bool_)
        minimal[has] &= ~good[masks[has] ^ (1 << bit)]
    sets = tuple(
        tuple(c for c in range(width) if mask >> c & 1) for mask in np.flatnonzero(minimal).tolist()
    )
    if max_size is not None:
        sets = tuple(s for s in sets if len(s) <= max_size)
    return Minimal(in_order(sets), max_size is None or max_size >= width)


TOO_MANY = "too many sets"
"""What stopped a search that would have had to look at more sets than can be held, or asked about.
"""


def remedy_of(stopped: str | None, budget: Budget, *, asked: bool = False) -> tuple[str, ...]:
    """What to do where there were too many sets: nothing else, so nothing is said.

    `asked`: whether a database was asked about one after the other, which time is limited for.
    """
    if stopped != TOO_MANY:
        return ()
    more = [f"only small ones ({spell('max_size', 2)})", "sets of fewer columns that you name"]
    if asked and budget.seconds is None:
        more.append(f"as many as there is time for ({spell('time', '10m')})")
    elif budget.memory is not None:
        more.append(f"all with more memory ({spell('memory', '4GB')})")
    return (
        "there are too many sets to look at all of them; look at " + ", ".join(more[:-1])
        + f", or {more[-1]}",
    )  # fmt: skip


SET_BYTES = 200
"""What a column set takes that waits to be asked about, and then for larger ones."""
FEW_SETS = 10_000
"""Sets that are not too many, whatever the memory; nor for a database to be asked about."""


def levelwise(
    width: int,
    good: Callable[[Set], bool],
    max_size: int | None,
    budget: Budget,
    *,
    hopeless: Callable[[Set], bool] | None = None,
    ahead: Callable[[Sequence[Set]], None] | None = None,
    border: Sequence[Set] = ((),),
) -> Minimal:
    """All minimal good sets, level by level, asking one set after the other.

    It ends before a level whose sets would take more than a quarter of the memory, or without a
    time limit, of which a database would have to be asked about too many.

    Parameters
    ----------
    good
        Whether a set reaches the goal.
    hopeless
        A cheap test that may rule a set out before `good` is asked (a sample).
    ahead
        Told of all sets of a level before `good` is asked of each.
    border
        Where to begin: every good set contains one of these. No set below them is asked.
    """
    found: list[Set] = []
    level: list[Set] = [columns for columns in border if not columns]
    top = width if max_size is None else min(max_size, width)
    most = (
        sys.maxsize - 1 if budget.memory is None else max(FEW_SETS, budget.memory // 4 // SET_BYTES)
    )
    if ahead is not None and budget.seconds is None:
        most = min(most, FEW_SETS)
    for size in range(top + 1):
        open_sets: list[Set] = []
        if ahead is not None and not budget.spent():
            ahead(level)
        for at, columns in enumerate(level):
            if at % 64 == 0:
                budget.progress(f"{len(found)} found, sets of {size}", at / max(1, len(level)))
                if budget.spent():
                    return Minimal(in_order(found), False, budget.stopped_by)
            if (hopeless is None or not hopeless(columns)) and good(columns):
                found.append(columns)
            else:
                open_sets.append(columns)
        if size == top:
            ended = not open_sets and all(len(columns) <= top for columns in border)
            return Minimal(in_order(found), top == width or ended)
        if () in border:
            level = list(islice(_next_level(open_sets, width), most + 1))
        else:
            waiting = [columns for columns in border if len(columns) == size + 1]
            level = _above_border(open_sets, waiting, found, width)
        if len(level) > most:
            return Minimal(in_order(found), False, TOO_MANY)
    return Minimal(in_order(found))


def _next_level(open_sets: Sequence[Set], width: int) -> Iterator[Set]:
    """Sets one larger all of whose subsets one smaller are still open."""
    still = set(open_sets)
    for columns in open_sets:
        for column in range(columns[-1] + 1 if columns else 0, width):
            larger = (*columns, column)
            if all(part in still for part in combinations(larger, len(columns))):
                yield larger


def _above_border(
    open_sets: Sequence[Set], waiting: Sequence[Set], found: Sequence[Set], width: int
) -> list[Set]:
    """Sets one larger than open ones, and those of the border that waited for their size.

    Subsets of a set need not have been asked here, so those that contain a find are taken out.
    """
    grown = {
        tuple(sorted((*columns, column)))
        for columns in open_sets
        for column in range(width)
        if column not in columns
    }
    grown.update(waiting)
    finds = [frozenset(columns) for columns in found]
    return sorted(columns for columns in grown if not any(f.issubset(columns) for f in finds))


def in_order(sets: Iterable[Set]) -> tuple[Set, ...]:
    """Small sets first, then by their columns."""
    return tuple(sorted((tuple(sorted(s)) for s in sets), key=lambda s: (len(s), s)))


def _prepared(
    codes: Codes,
) -> tuple[
    list[int],
    CodeArray,
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
]:
    """The codes as one matrix, columns with few values first, so that high bits split most."""
    order = sorted(range(len(codes.columns)), key=lambda c: codes.cardinalities[c])
    size = (len(order), codes.entries)
    widest = usual_dtype(max(codes.cardinalities, default=1), math.prod(size))
    table = np.empty(size, dtype=widest)
    for at, column in enumerate(order):
        table[at] = codes.arrays[column]
    cardinalities = np.array([codes.cardinalities[c] for c in order], dtype=np.int64)
    weights = np.ones(codes.entries, dtype=np.int64) if codes.counts is None else codes.counts
    return order, table, cardinalities, weights


def _sets_of(masks: npt.NDArray[np.uint64], order: Sequence[int]) -> tuple[Set, ...]:
    sets = [
        tuple(column for bit, column in enumerate(order) if mask >> bit & 1)
        for mask in masks.tolist()
    ]
    return in_order(sets)
