"""Privacy models as numbers, and whether a group of rows satisfies them, in compiled loops.

Anonymizers call `take_in`, `holds` and `forget` from their own loops. What they publish is checked
again by `sfumato.privacy.check`, which shares no code with this file.

Persons are counted by a mark each, which says in which group they were met last: no table of the
values of a group has to be made, or emptied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sfumato.errors import ColumnError, did_you_mean
from sfumato.hierarchy.tree import Array, Tree
from sfumato.kernels.compiling import Loop, bare, compiled, without_numba
from sfumato.privacy.base import TOLERANCE, Model, SensitiveColumn

DISTINCT, ENTROPY, RECURSIVE, CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE, ALPHA, MAPPED, LIKE = range(9)
PERSONS = 9
COMPARED = (CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE, LIKE)
"""Rules that compare groups with the distribution of all rows."""


class Rules(NamedTuple):
    """What every group must satisfy, as plain numbers and arrays.

    A group is described by its number of rows and by the counts of its sensitive values: value c
    of sensitive column j is counted at ``counts[offsets[j] + c]``.
    ``sfumato.privacy.rules.holds(size, counts, rules)`` answers whether the group satisfies all
    rules, after `take_in` was told of its entries. Where rows are counted all rules are
    monotone: if two groups satisfy them, so does their union. Where persons are counted that is
    true of their number and of distinct values; two groups that share persons may hold alone and
    fail together for the other rules.

    Attributes
    ----------
    k
        Least number of rows.
    kinds, columns, values, extras
        One entry a rule: what is asked, of which sensitive column, its number (l, t or α), and a
        second one (c of recursive diversity; the code α is asked of, or -1 for every code;
        whether distinct values are those of different ranges).
    offsets
        Where the counts of each sensitive column begin; the last entry is their total number.
    reference
        Share of each value in the table, laid out like the counts.
    order, ranks
        For each column, the codes that occur in order of their values, from `offsets` on, and how
        many they are; a missing value has no place among them.
    missing
        For each column whether its last code stands for missing values.
    tree_offsets, tree_parent, tree_cost
        For each column with a hierarchy, its nodes: parent (relative, -1 for the root) and height
        over the height of the tree.
    mapped, crowd
        For k-map, where the rows to be released are counted and right after them the people of the
        population, and how many people every group needs; -1 where k-map is not asked.
    people, persons
        Where the different persons of a group are counted, and right after them the stamp of the
        group; and how many of them every group needs. -1 where rows are counted.
    bins
        Where the range of each value is counted, laid out like the counts: at its first value;
        empty where no rule asks for ranges.
    runs, marks
        The persons of run r are ``marks[runs[r]:runs[r + 1]]``: where it is noted that the person
        was met in the group of the current stamp, and for each sensitive column where it is noted
        that she was met with the value she has here. Where there are no runs the number of a run
        is that of a person, whose mark comes right after the stamp.
    """

    k: int
    kinds: Array
    columns: Array
    values: Array
    extras: Array
    offsets: Array
    reference: Array
    order: Array
    ranks: Array
    missing: Array
    tree_offsets: Array
    tree_parent: Array
    tree_cost: Array
    mapped: int = -1
    crowd: int = 0
    people: int = -1
    persons: int = 0
    bins: Array = np.zeros(0, np.int64)
    runs: Array = np.zeros(1, np.int64)
    marks: Array = np.zeros((0, 1), np.int64)


def minimum_rows(models: Sequence[Model]) -> int:
    """The largest number of rows that any of the models asks of a class outright."""
    return max([1, *(model.least_rows for model in models)])


def compares(rules: Rules) -> bool:
    """Whether rules compare groups with the distribution of all rows."""
    return not set(COMPARED).isdisjoint(rules.kinds.tolist())


def compile_rules(
    models: Sequence[Model], sensitive: Mapping[str, SensitiveColumn] | None = None
) -> Rules:
    """Turn models into rules for compiled anonymizers.

    Parameters
    ----------
    models
        What must hold, all together.
    sensitive
        The sensitive columns, in the order in which the anonymizer counts them.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.privacy import DistinctDiversity, KAnonymity, SensitiveColumn
    >>> from sfumato.privacy.rules import holds
    >>> illness = SensitiveColumn(np.array([5, 3, 2]))
    >>> models = [KAnonymity(3), DistinctDiversity(2, "illness")]
    >>> rules = compile_rules(models, {"illness": illness})
    >>> holds(3, np.array([3, 0, 0]), rules), holds(3, np.array([1, 2, 0]), rules)
    (False, True)
    """
    sensitive = dict(sensitive or {})
    names = list(sensitive)
    trees: dict[str, Tree] = {}
    rules: list[tuple[int, int, float, float]] = []
    for model in models:
        if model.about is None:
            continue  # sizes are no figures of a sensitive column; for k-map see `with_crowd`
        if model.about not in sensitive:
            raise ColumnError(
                f"{model.name} is asked of `{model.about}`, which is not a sensitive column",
                remedy=did_you_mean(model.about, names),
            )
        column = sensitive[model.about]
        tree = model.tree(column)
        if tree is not None:
            trees[model.about] = tree
        kind, value, extra = model.rule(column)
        rules.append((kind, names.index(model.about), value, extra))

    sizes = [len(column.counts) for column in sensitive.values()]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    missing = np.array([column.has_missing for column in sensitive.values()], dtype=np.int64)
    counts = [column.counts for column in sensitive.values()]
    reference, order, ranks = _distribution(counts, missing)
    grown = [trees.get(name) for name in names]
    tree_sizes = [0 if tree is None else tree.nodes for tree in grown]
    table = np.array(rules, dtype=np.float64).reshape(-1, 4)
    return Rules(
        k=minimum_rows(models),
        kinds=table[:, 0].astype(np.int64),
        columns=table[:, 1].astype(np.int64),
        values=table[:, 2].copy(),
        extras=table[:, 3].copy(),
        offsets=offsets,
        reference=reference,
        order=order,
        ranks=ranks,
        missing=missing,
        tree_offsets=np.concatenate([[0], np.cumsum(tree_sizes)]).astype(np.int64),
        tree_parent=_joined([tree.parent for tree in grown if tree is not None], np.int64),
        tree_cost=_joined(
            [tree.level / max(tree.height, 1) for tree in grown if tree is not None], np.float64
        ),
        bins=_bins(models, sensitive, offsets),
    )


def _bins(
    models: Sequence[Model], sensitive: Mapping[str, SensitiveColumn], offsets: Array
) -> Array:
    """Where the range of each value is counted; nothing where no model asks for ranges."""
    edges = {model.about: getattr(model, "bins", ()) for model in models if model.about}
    edges = {name: bins for name, bins in edges.items() if bins}
    if not edges:
        return np.zeros(0, dtype=np.int64)
    places = np.arange(offsets[-1])
    for at, (name, column) in enumerate(sensitive.items()):
        if name in edges:
            bins = column.bins(edges[name])
            _, first, which = np.unique(bins, return_index=True, return_inverse=True)
            places[offsets[at] : offsets[at + 1]] = offsets[at] + first[which]
    return places


def with_crowd(rules: Rules, k: int) -> Rules:
    """The same rules, and k-map: every group that is released has k people of a population.

    Groups then hold rows and people. The last sensitive column says which: its first code counts
    rows, its second people, and its third is where people are counted who have no sensitive value.
    All other rules are about the rows alone; a group without rows releases nobody and always holds.
    """
    place = int(rules.offsets[-1])
    return rules._replace(
        kinds=np.append(rules.kinds, MAPPED),
        columns=np.append(rules.columns, len(rules.offsets) - 1),
        values=np.append(rules.values, float(k)),
        extras=np.append(rules.extras, 0.0),
        offsets=np.append(rules.offsets, place + 3),
        reference=np.append(rules.reference, np.zeros(3)),
        order=np.append(rules.order, np.full(3, -1)),
        ranks=np.append(rules.ranks, 0),
        missing=np.append(rules.missing, 0),
        tree_offsets=np.append(rules.tree_offsets, rules.tree_offsets[-1]),
        mapped=place,
        crowd=int(k),
    )


def with_persons(rules: Rules, runs: Array, persons: Array, pairs: Sequence[Array]) -> Rules:
    """The same rules about persons: a person counts once in a group, and once with each value.

    Parameters
    ----------
    runs, persons
        Person of each element of the runs, numbered from 0; run r is
        ``persons[runs[r]:runs[r + 1]]``.
    pairs
        For each sensitive column a number for the person and the value of each element.
    """
    place = int(rules.offsets[-1])
    if not pairs and (np.diff(runs) == 1).all():
        runs = np.zeros(1, np.int64)
    marks, free = np.empty((len(persons), 1 + len(pairs)), np.int64), place + 2
    for at, numbers in enumerate((persons, *pairs)):
        marks[:, at] = numbers
        marks[:, at] += free
        free += int(numbers.max()) + 1 if len(numbers) else 0
    return rules._replace(
        kinds=np.append(rules.kinds, PERSONS),
        columns=np.append(rules.columns, len(rules.offsets) - 1),
        values=np.append(rules.values, float(rules.k)),
        extras=np.append(rules.extras, 0.0),
        offsets=np.append(rules.offsets, free),
        people=place,
        persons=rules.k,
        runs=runs.astype(np.int64),
        marks=marks,
    )


def recounted(rules: Rules, counts: Array) -> Rules:
    """The same rules, measured against other rows.

    Parameters
    ----------
    counts
        How many of those rows hold each sensitive value, laid out like the counts of a group.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.privacy import Closeness, SensitiveColumn
    >>> illness = SensitiveColumn(np.array([5, 3, 2]))
    >>> rules = compile_rules([Closeness(0.1, "illness")], {"illness": illness})
    >>> recounted(rules, np.array([4, 0, 4])).reference.tolist()
    [0.5, 0.0, 0.5]
    """
    ends = rules.offsets if rules.people < 0 else rules.offsets[:-1]
    parts = [counts[a:b] for a, b in pairwise(ends)]
    reference, order, ranks = _distribution(parts, rules.missing)
    return rules._replace(reference=reference, order=order, ranks=ranks)


def _distribution(columns: Sequence[Array], missing: Array) -> tuple[Array, Array, Array]:
    """`reference`, `order` and `ranks` of rules, from the counts of each sensitive column."""
    reference, order = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    ranks = np.zeros(len(columns), dtype=np.int64)
    for j, counts in enumerate(columns):
        occurring = np.flatnonzero(counts[: len(counts) - missing[j]] > 0)
        ranks[j] = len(occurring)
        order.append(np.r_[occurring, np.full(len(counts) - len(occurring), -1)])
        reference.append(counts / max(int(counts.sum()), 1))
    return np.concatenate(reference), np.concatenate(order).astype(np.int64), ranks


def _joined(parts: list[Array], dtype: type) -> Array:
    return np.concatenate([part.astype(dtype) for part in parts] or [np.zeros(0, dtype)])


@bare
def take_in(entry: int, weight: int, sensitive: Array, rules: Rules, counts: Array) -> None:
    """Count the rows of an entry, or its persons, into a group.

    `sensitive` says where the values of the entry are counted; where persons are, its last column
    is the run of the entry's persons.
    """
    if rules.people < 0:
        for s in range(sensitive.shape[1]):
            counts[sensitive[entry, s]] += weight
        return
    values = sensitive.shape[1] - 1
    run, now = sensitive[entry, values], counts[rules.people + 1] + 1
    if rules.runs.shape[0] == 1:  # entries of one person each, and no sensitive values
        if counts[rules.people + 2 + run] != now:
            counts[rules.people + 2 + run] = now
            counts[rules.people] += 1
        return
    for m in range(rules.runs[run], rules.runs[run + 1]):
        if counts[rules.marks[m, 0]] != now:
            counts[rules.marks[m, 0]] = now
            counts[rules.people] += 1
        for s in range(values):
            if counts[rules.marks[m, s + 1]] != now:
                counts[rules.marks[m, s + 1]] = now
                counts[sensitive[entry, s]] += 1


@bare
def forget(entry: int, sensitive: Array, rules: Rules, counts: Array) -> None:
    """Forget what an entry of the group was counted with; the counts of no entry stay."""
    if rules.people < 0:
        for s in range(sensitive.shape[1]):
            counts[sensitive[entry, s]] = 0
        return
    for s in range(sensitive.shape[1] - 1):
        counts[sensitive[entry, s]] = 0
    counts[rules.people] = 0
    counts[rules.people + 1] += 1


@bare
def clear(rules: Rules, counts: Array) -> None:
    """Forget all entries."""
    for at in range(counts.shape[0] if rules.people < 0 else rules.people + 1):
        counts[at] = 0
    if rules.people >= 0:
        counts[rules.people + 1] += 1


@bare
def enough(rules: Rules, counts: Array) -> bool:
    """Whether a group holds already, whatever else it takes in: only persons are asked for."""
    only = rules.people >= 0 and rules.kinds.shape[0] == 1
    return bool(only and counts[rules.people] >= rules.persons)


@without_numba
def held(chosen: Array, weights: Array, sensitive: Array, rules: Rules) -> Array:
    """What some entries together hold, laid out as rules count it."""
    counts = np.zeros(rules.offsets[-1], np.int64)
    for i in range(chosen.shape[0]):
        take_in(chosen[i], weights[chosen[i]], sensitive, rules, counts)
    return counts


@bare
def holds(size: int, counts: Array, rules: Rules) -> bool:
    """Whether a group of `size` rows with these counts of sensitive values satisfies all rules.

    Where k-map is asked, a group also holds people of the population: then the rows are counted
    where the rules say. So are persons: then a share is a share of the persons, and a distribution
    one of persons with their values.
    """
    if rules.mapped >= 0:
        size = int(counts[rules.mapped])
        if size == 0:
            return True
        if counts[rules.mapped + 1] < rules.crowd:
            return False
    if size < rules.k:
        return False
    persons = size if rules.people < 0 else int(counts[rules.people])
    for r in range(rules.kinds.shape[0]):
        kind, j, value = rules.kinds[r], rules.columns[r], rules.values[r]
        start, stop = rules.offsets[j], rules.offsets[j + 1]
        if kind == PERSONS:
            if persons < value:
                return False
            continue
        if rules.people >= 0:
            size = _total(counts, start, stop)
        known = stop - rules.missing[j]  # a missing value protects nobody
        unknown = int(counts[known]) if known < stop else 0
        if kind == DISTINCT:
            by_bins = rules.extras[r] > 0
            if _distinct(counts, start, known, rules.bins, by_bins) < value:
                return False
        elif kind == ALPHA:
            largest = _largest(counts, start, stop, rules.extras[r])
            if largest > value * persons + TOLERANCE * persons:
                return False
        elif kind == ENTROPY:
            if _entropy(counts, start, known, size - unknown) < value - TOLERANCE:
                return False
        elif kind == RECURSIVE:
            if not _recursive(counts, start, known, int(value), rules.extras[r]):
                return False
        elif kind == CLOSE_EQUAL:
            if _equal(counts, start, stop, size, rules.reference) > value + TOLERANCE:
                return False
        elif kind == CLOSE_ORDERED:
            there = 1.0 - rules.reference[known] if known < stop else 1.0
            if _ordered(counts, start, size, unknown, there, rules, j) > value + TOLERANCE:
                return False
        elif kind == LIKE:
            if not _alike(counts, start, stop, size, rules.reference, value, rules.extras[r] > 0):
                return False
        elif kind == CLOSE_TREE:
            first, last = rules.tree_offsets[j], rules.tree_offsets[j + 1]
            distance = _tree(
                counts,
                start,
                stop,
                size,
                rules.reference,
                rules.tree_parent[first:last],
                rules.tree_cost[first:last],
            )
            if distance > value + TOLERANCE:
                return False
    return True


@bare
def sides_hold(
    sides: Array, weights: Array, sensitive: Array, rules: Rules, counts: Array, first: int = 0
) -> bool:
    """Whether the two parts of a group satisfy all rules but k: entries go to side 0 or 1.

    Looks at the entries and never at all values there are, of which a group holds few. It needs
    rules that `by_entries` and `counts` of two lines that are zero, and leaves them zero.

    Parameters
    ----------
    sensitive
        Where the values of each entry are counted, one line a column.
    first
        The group's first entry there.
    """
    for r in range(rules.kinds.shape[0]):
        kind, j = rules.kinds[r], rules.columns[r]
        value, extra = rules.values[r], rules.extras[r]
        start, stop = rules.offsets[j], rules.offsets[j + 1]
        codes = sensitive[j, first : first + sides.shape[0]]
        known = stop - rules.missing[j]
        if kind == DISTINCT:
            good = _both_distinct(sides, codes, known, value, rules.bins, extra > 0, counts)
        else:
            if kind == ALPHA:
                known = stop
            good = _both_even(sides, weights, codes, start, known, kind, value, extra, counts)
        if not good:
            return False
    return True


@bare
def by_entries(rules: Rules) -> bool:
    """Whether a group can be judged by the values it holds, without those it does not."""
    if rules.people >= 0 or rules.mapped >= 0:
        return False
    for kind in rules.kinds:
        if kind != DISTINCT and kind != ENTROPY and kind != RECURSIVE and kind != ALPHA:
            return False
    return True


@bare
def _both_distinct(
    sides: Array,
    codes: Array,
    known: int,
    least: float,
    bins: Array,
    by_bins: bool,
    counts: Array,
) -> bool:
    """Whether both sides hold so many values; stops looking when they do."""
    found_left, found_right, looked = 0, 0, 0
    for i in range(sides.shape[0]):
        side, code = sides[i], codes[i]
        looked += 1
        place = bins[code] if by_bins else code
        if code < known and counts[side, place] == 0:
            counts[side, place] = 1
            if side:
                found_right += 1
            else:
                found_left += 1
            if found_left >= least and found_right >= least:
                break
    for i in range(looked):
        counts[sides[i], bins[codes[i]] if by_bins else codes[i]] = 0
    return bool(found_left >= least and found_right >= least)


@compiled
def _both_even(
    sides: Array,
    weights: Array,
    codes: Array,
    start: int,
    known: int,
    kind: int,
    value: float,
    extra: float,
    counts: Array,
) -> bool:
    """Whether both sides satisfy a rule about how often they hold each value."""
    sizes = np.zeros(2, np.int64)
    for i in range(sides.shape[0]):
        if codes[i] < known:
            counts[sides[i], codes[i]] += weights[i]
            sizes[sides[i]] += weights[i]
    largest, spread = np.zeros(2, np.int64), np.zeros(2)
    ranked = int(value) - 1 if kind == RECURSIVE else 0
    top = np.zeros((2, ranked), np.int64)
    for i in range(sides.shape[0]):
        side, code = sides[i], codes[i]
        held = counts[side, code]
        if held == 0:
            continue
        counts[side, code] = 0
        if kind != ALPHA or extra < 0 or code == start + int(extra):
            largest[side] = max(largest[side], held)
        if kind == ENTROPY and held > 1:
            spread[side] += held * math.log(held)
        for at in range(ranked):
            if held > top[side, at]:
                top[side, at], held = held, top[side, at]
    for side in range(2):
        size = sizes[side]
        if kind == ALPHA:
            if largest[side] > value * size + TOLERANCE * size:
                return False
        elif kind == ENTROPY:
            if size == 0 or math.log(size) - spread[side] / size < value - TOLERANCE:
                return False
        else:
            for at in range(ranked):
                size -= top[side, at]
            if not largest[side] < extra * size:
                return False
    return True


@bare
def _total(counts: Array, start: int, stop: int) -> int:
    total = 0
    for c in range(start, stop):
        total += counts[c]
    return total


@bare
def _distinct(counts: Array, start: int, stop: int, bins: Array, by_bins: bool) -> int:
    found, last = 0, -1
    for c in range(start, stop):
        if counts[c] > 0:
            here = bins[c] if by_bins else c
            found += here != last
            last = here
    return found


@bare
def _largest(counts: Array, start: int, stop: int, only: float) -> int:
    if only >= 0:
        largest = counts[start + int(only)]
    else:
        largest = counts[start]
        for c in range(start + 1, stop):
            largest = max(largest, counts[c])
    return largest  # type: ignore[no-any-return]


@bare
def _entropy(counts: Array, start: int, stop: int, size: int) -> float:
    if size == 0:
        return -math.inf
    total = 0.0
    for c in range(start, stop):
        if counts[c] > 0:
            total += counts[c] * math.log(counts[c])
    return float(math.log(size) - total / size)


@compiled
def _recursive(counts: Array, start: int, stop: int, l: int, c: float) -> bool:  # noqa: E741
    top = np.zeros(max(min(l - 1, stop - start), 1), np.int64)  # the largest, largest first
    rest = 0
    for value in range(start, stop):
        held = counts[value]
        for at in range(top.shape[0]):
            if held > top[at]:
                top[at], held = held, top[at]
        rest += held
    return bool(top[0] < c * (rest if l > 1 else rest + top[0]))


@bare
def _equal(counts: Array, start: int, stop: int, size: int, reference: Array) -> float:
    moved = 0.0
    for c in range(start, stop):
        moved += abs(counts[c] / size - reference[c])
    return moved / 2.0


@bare
def _ordered(
    counts: Array, start: int, size: int, unknown: int, there: float, rules: Rules, column: int
) -> float:
    """Distance by rank of what is known, and what is missing here and not there, or the reverse.

    `unknown` of the rows lack a value; in the table a share `there` has one.
    """
    here = (size - unknown) / size
    if unknown == size or there <= 0.0:
        return abs(here - there)
    ranks = rules.ranks[column]
    moved, carried = 0.0, 0.0
    for i in range(ranks - 1):
        c = start + rules.order[start + i]
        carried += counts[c] / (size - unknown) - rules.reference[c] / there
        moved += abs(carried)
    return float(abs(here - there) + min(here, there) * moved / max(ranks - 1, 1))


@bare
def _alike(
    counts: Array, start: int, stop: int, size: int, reference: Array, beta: float, enhanced: bool
) -> bool:
    for c in range(start, stop):
        if counts[c] > 0:
            share = reference[c]
            if share == 0.0:  # rows that were left out were the only ones of this value
                return False
            limit = min(beta, -math.log(share)) if enhanced else beta
            if counts[c] / size / share - 1.0 > limit + TOLERANCE:
                return False
    return True


@compiled
def _tree(
    counts: Array,
    start: int,
    stop: int,
    size: int,
    reference: Array,
    parent: Array,
    cost: Array,
) -> float:
    """Earth mover's distance over a tree, bottom up (Li et al. 2007, section 5.3)."""
    leaves = stop - start
    surplus, lack = np.zeros(parent.shape[0]), np.zeros(parent.shape[0])
    moved = 0.0
    for node in range(parent.shape[0]):
        if node < leaves:
            extra = counts[start + node] / size - reference[start + node]
        else:
            extra = surplus[node] - lack[node]
            moved += cost[node] * min(surplus[node], lack[node])
        above = parent[node]
        if above >= 0:
            if extra > 0:
                surplus[above] += extra
            else:
                lack[above] -= extra
    return moved


def few_groups_hold(
    groups: Array, number: int, weights: Array, sensitive: Array, rules: Rules
) -> Array:
    """`groups_hold` without a compiler; by numpy for the rules that are asked most."""
    if rules.people >= 0 or rules.mapped >= 0:
        each: Array = groups_hold.plain(groups, number, weights, sensitive, rules)
        return each
    inside = groups >= 0
    groups, weights, sensitive = groups[inside], weights[inside], sensitive[inside]
    sizes = np.bincount(groups, weights, number).astype(np.int64)
    counts = np.zeros((number, rules.offsets[-1]), np.int64)
    for values in sensitive.T:
        np.add.at(counts, (groups, values), weights)
    good = sizes >= max(rules.k, 1)
    for r, (kind, j, value) in enumerate(
        zip(rules.kinds, rules.columns, rules.values, strict=True)
    ):
        start, stop = rules.offsets[j], rules.offsets[j + 1]
        some = np.flatnonzero(good)
        if kind == DISTINCT and not rules.extras[r]:
            here = (counts[some, start : stop - rules.missing[j]] > 0).sum(axis=1) >= value
        elif kind == CLOSE_EQUAL:
            moved = np.zeros(len(some))
            for c in range(start, stop):  # added up as `_equal` does
                moved += np.abs(counts[some, c] / sizes[some] - rules.reference[c])
            here = moved / 2.0 <= value + TOLERANCE
        else:
            here = [holds.plain(sizes[group], counts[group], rules) for group in some]
        good[some] = here
    return good


@partial(Loop, instead=few_groups_hold, direct=True)
def groups_hold(
    groups: Array, number: int, weights: Array, sensitive: Array, rules: Rules
) -> Array:
    """Whether each group satisfies all rules; members of a group may lie anywhere."""
    good = np.zeros(number, np.bool_)
    ends = np.zeros(number + 1, np.int64)
    for group in groups:
        ends[group + 1] += 1  # first those of no group
    for group in range(number):
        ends[group + 1] += ends[group]
    order = np.empty(groups.shape[0], np.int64)
    for i in range(groups.shape[0] - 1, -1, -1):
        ends[groups[i] + 1] -= 1
        order[ends[groups[i] + 1]] = i
    counts = np.zeros(rules.offsets[-1], np.int64)
    for group in range(number):
        begin, end = ends[group + 1], ends[group + 2] if group + 1 < number else order.shape[0]
        if begin == end:
            continue
        size = 0
        for z in range(begin, end):
            i = order[z]
            size += weights[i]
            if not enough(rules, counts):
                take_in(i, weights[i], sensitive, rules, counts)
        good[group] = holds(size, counts, rules)
        for z in range(begin, end):
            forget(order[z], sensitive, rules, counts)
    return good
