"""Whole histories under pseudonyms: (k, m), however many of her rows somebody knows.

Whoever knows all quasi-identifying own columns of a person and the quasi-identifying cells of any m
of her rows is left with at least k persons (k^m-anonymity of Terrovitis, Mamoulis & Kalnis, VLDB
2008, within classes of own columns). Own columns have one value a person, event columns several.

1. Own columns are blurred into classes of persons, larger than k where there are events to blur.
2. Within a class, events that are as blurred as can be are all alike: then any m of them are like
   any other m, if enough persons have as many; what is too long for that is cut: events are left
   out. Where rows of a person that look alike are shown once, nothing is too long.
3. Event cells are made as precise as they may be (`Histories`). Two searches look for what each
   event shows, and the one that loses less is taken. *From above*: all events start as blurred as
   can be, and are parted as Mondrian cuts, as long as every combination of at most m events that
   somebody has is had by k persons. Only combinations with a new cell are counted again: all others
   were counted before. *From below*: all events start as they are. Where a combination is had by
   fewer than k persons, one of its cells must climb to its parent, whatever becomes of all other
   cells: the one by which least is lost does. That is the algorithm AA of Terrovitis et al., here
   of any columns. What it leaves is parted again where that may be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.anonymization.methods import mondrian
from sfumato.anonymization.problem import (
    Problem,
    ShownHistories,
    Solution,
    positions_of,
    published_groups,
    sensitive_of,
)
from sfumato.budget import Budget
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import BudgetError, ParameterError, spell
from sfumato.hierarchy import EncodedHierarchy, Published, Ranges
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids, group_distinct, representatives
from sfumato.privacy import KAnonymity, Rules, compares, compile_rules, recounted
from sfumato.privacy.rules import PERSONS, holds
from sfumato.utility import column_losses

MOST_COMBINATIONS = 20_000_000
"""Combinations of events of one person, summed over persons, beyond which nothing is started."""
VALUES_COST = 20
"""How many times fewer may be counted where sensitive values are, too."""
AGAIN = 5
"""How often classes are held against the distribution of the rows that are left."""
ROOM = 2
"""Times k that classes of own columns hold, where there are event columns to blur within them."""


def own_columns(problem: Problem) -> tuple[tuple[str, ...], dict[str, int]]:
    """Quasi-identifiers with one value a person; of the others how many persons contradict it."""
    who, persons = _who(problem)
    own, contradictions = [], {}
    for name in problem.qi:
        codes = problem.entries.column(name)
        sizes = (max(persons, 1), len(problem.entries.values_of(name)))
        ids, pairs = class_ids((who, codes), sizes, entries=len(who))
        if pairs == persons:
            own.append(name)
            continue
        first = np.zeros(pairs, dtype=np.int64)
        first[ids] = np.arange(len(ids))
        contradictions[name] = int((np.bincount(who[first], minlength=persons) > 1).sum())
    return tuple(own), contradictions


def _who(problem: Problem) -> tuple[Array, int]:
    """Person of each entry, and how many there are."""
    assert problem.person is not None
    who = problem.entries.column(problem.person).astype(np.uint32)
    rules = problem.rules
    if len(rules.runs) > 1:  # runs are of one person, and one combination of sensitive values
        who = (rules.marks[:, 0] - (rules.people + 2))[rules.runs[who]].astype(np.uint32)
    return who, int(who.max()) + 1 if len(who) else 0


def combinations_of(histories: ClassSizes, m: int | None) -> int:
    """How many combinations of at most m events all persons have; of whole histories one each.

    Examples
    --------
    >>> two = ClassSizes.of({3: 1, 2: 1})
    >>> combinations_of(two, 2), combinations_of(two, None)
    (9, 2)
    """
    if m is None:
        return histories.classes
    return sum(
        number * sum(math.comb(length, size) for size in range(1, min(m, length) + 1))
        for length, number in histories.to_dict().items()
    )


def require_countable(histories: ClassSizes, m: int | None, *, values: bool = False) -> None:
    """Refuse histories with more combinations than can be counted, before anything is started.

    Parameters
    ----------
    histories
        How many persons have how many rows.
    values
        Whether sensitive values of whoever shares a combination are counted, too.
    """
    cost = combinations_of(histories, m)
    most = MOST_COMBINATIONS // (VALUES_COST if values else 1)
    if cost <= most or m is None:
        return
    rows = max(histories.to_dict())
    fewer = range(min(m, rows) - 1, 0, -1)
    fits = next((n for n in fewer if combinations_of(histories, n) <= most), None)
    smaller = f"ask for {spell('m', fits)}, " if fits is not None else ""
    longest = combinations_of(ClassSizes.of({rows: 1}), m)
    some = f"release a sample of the persons (about {most / cost:.1%} of them fit), "
    raise BudgetError(
        f"the {histories.classes:,} histories have {cost:,} combinations of at most {m} rows, and "
        f"up to {most:,} are counted{' with sensitive values' if values else ''}",
        remedy=f"To go on, {smaller}{some if longest <= most / 10 else ''}leave out the longest "
        "histories, or release rows that cannot be linked.",
    )


def solve_linkable(problem: Problem, k: int, m: int | None, *, once: bool = False) -> Solution:
    """Groups of rows that show the same, and what they show; some rows are in none.

    Parameters
    ----------
    problem
        Its entries are each of one person, and the number of a run is that of a person.
    m
        How many rows of a person may be known; None means all of them.
    once
        Whether rows of a person that show the same events are shown once, and the others left out.
    """
    who, persons = _who(problem)
    own, contradictions = own_columns(problem)
    events = tuple(name for name in problem.qi if name not in own)
    entry = np.repeat(np.arange(len(who)), problem.counts)  # one piece a row
    lengths = np.bincount(who[entry], minlength=persons)
    asked, m = m, None if m is None else min(m, int(lengths.max(initial=1)))
    known = lengths if m is None else np.minimum(lengths, m)
    # without events, how many rows somebody has is known, unless they are shown once
    unlike = len(np.unique(known)) > 1 and not once
    classes = _own_classes(problem, own, who, persons, k, bool(events) or unlike)
    items = np.zeros(len(entry), dtype=np.int64)
    if events or unlike or problem.sensitive:
        space = EventSpace.of(problem, events)
        sensitive = _sensitive(problem, who[entry], entry)
        for _ in range(AGAIN):
            items = _events(space, entry, who, classes, k, m, problem.budget, once, sensitive)
            left = None if sensitive is None else sensitive.among(items >= 0)
            if left is None or left is sensitive:
                break
            sensitive = left
    if (items < 0).all():
        raise ParameterError(
            f"all {len(items):,} rows would have to be left out of histories that stay whole",
            remedy="Ask for a smaller k or m, or for less of sensitive columns.",
        )
    again = _again(who[entry], items) if once else np.zeros(len(entry), dtype=bool)
    classes = classes[who[entry]]
    return _solution(problem, own, events, entry, classes, items, again, contradictions, asked)


def _sensitive(problem: Problem, person: Array, entry: Array) -> SensitiveRows | None:
    """What rows tell of sensitive columns, if there are any."""
    if not problem.sensitive:
        return None
    places = sensitive_of(problem)[entry, : len(problem.sensitive)]
    return SensitiveRows(problem.rules, person, places)


def _again(person: Array, items: Array) -> Array:
    """Rows that show what a row of the same person before them shows.

    Examples
    --------
    >>> _again(np.array([0, 0, 1, 0]), np.array([7, 8, 7, 7])).tolist()
    [False, False, False, True]
    """
    again = np.ones(len(person), dtype=bool)
    again[np.unique(np.stack([person, items]), axis=1, return_index=True)[1]] = False
    return again & (items >= 0)


def _own_classes(
    problem: Problem, own: tuple[str, ...], who: Array, persons: int, k: int, room: bool
) -> Array:
    """Class of each person by what is shown of her own columns."""
    if not own or persons == 0:
        return np.zeros(persons, dtype=np.int64)
    first = np.zeros(persons, dtype=np.int64)
    first[who] = np.arange(len(who))
    least = min(ROOM * k if room else k, persons)
    if problem.sensitive:
        asked = problem.rules.kinds == PERSONS
        rules = problem.rules._replace(
            values=np.where(asked, float(least), problem.rules.values), persons=least
        )
        shapes = {name: problem.shapes[name] for name in own}
        found = mondrian.solve(replace(problem, qi=own, shapes=shapes, rules=rules, options={}))
        return found.groups.astype(np.int64)[first]  # rows of a person have the same own cells
    people = replace(
        problem,
        entries=replace(
            problem.entries.select(own).take(first), counts=np.ones(persons, dtype=np.int64)
        ),
        qi=own,
        sensitive=(),
        shapes={name: problem.shapes[name] for name in own},
        rules=compile_rules([KAnonymity(least)]),
        weights={n: w for n, w in problem.weights.items() if n in own},
        options={},
        person=None,
    )
    return mondrian.solve(people).groups.astype(np.int64)


def _events(
    space: EventSpace,
    entry: Array,
    who: Array,
    classes: Array,
    k: int,
    m: int | None,
    budget: Budget,
    once: bool,
    sensitive: SensitiveRows | None,
) -> Array:
    """What each row shows of its events, as numbers within its class; -1 for rows left out."""
    items = np.full(len(entry), -1, dtype=np.int64)
    person = who[entry]
    order = np.argsort(classes[person], kind="stable")
    edges = np.flatnonzero(np.diff(classes[person][order])) + 1
    parts = np.split(order, edges) if len(order) else []
    for at, rows in enumerate(parts):
        budget.progress("blurring events", at / len(parts))
        told = None if sensitive is None else sensitive.of(rows)
        if not once:  # as blurred as can be, everybody shows one event
            stay = _cut_to_length(person[rows], k, m)
            if told is not None:
                stay = _cut_to_values(person[rows], stay, k, m, told)
                told = told.of(stay)
            rows = rows[stay]
        found = Histories(space, entry[rows], person[rows], k, m, once=once, sensitive=told)
        items[rows] = found.blurred()
    return items


def _cut_to_length(person: Array, k: int, m: int | None) -> Array:
    """Which rows stay, so that no length (up to m) is had by fewer than k persons."""
    order = np.argsort(person, kind="stable")
    starts = np.r_[True, np.diff(person[order]) != 0]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - first
    _, lengths = np.unique(person, return_counts=True)
    allowed = _lengths(lengths, k, m)
    return rank < allowed[np.unique(person, return_inverse=True)[1]]


def _cut_to_values(
    person: Array, stay: Array, k: int, m: int | None, sensitive: SensitiveRows
) -> Array:
    """Which of the rows that may stay do, so that models hold for the persons of every length."""
    stay = stay.copy()
    while stay.any():
        number = np.bincount(person[stay], minlength=int(person.max()) + 1)[person]
        found = sorted({*number[stay].tolist()}, reverse=True)
        for length in found if m is None else range(min(m, found[0]), 0, -1):
            group = stay & (number == length if m is None else number >= length)
            enough = len(np.unique(person[group])) >= k
            if not enough or not sensitive.hold(np.flatnonzero(group)):
                break
        else:
            return stay
        lower = [one for one in found if one < length]
        shorter = length - 1 if m is not None else max(lower, default=0)
        for one in np.unique(person[group]).tolist():
            stay[np.flatnonzero(stay & (person == one))[shorter:]] = False
    return stay


def _lengths(lengths: Array, k: int, m: int | None) -> Array:
    """How long each history may be.

    Examples
    --------
    >>> lengths = np.array([1, 2, 5])
    >>> _lengths(lengths, 2, 3).tolist(), _lengths(lengths, 2, None).tolist()
    ([1, 2, 2], [0, 2, 2])
    """
    allowed = lengths.copy()
    if m is not None:
        for size in range(m, 0, -1):
            enough = int((allowed >= size).sum())
            if 0 < enough < k:
                allowed[allowed >= size] = size - 1
        return allowed
    waiting: list[int] = []
    for length in sorted({*lengths.tolist()}, reverse=True):
        waiting += np.flatnonzero(lengths == length).tolist()
        if len(waiting) >= k:
            allowed[waiting] = length
            waiting = []
    allowed[waiting] = 0
    return allowed


def _solution(
    problem: Problem,
    own: tuple[str, ...],
    events: tuple[str, ...],
    entry: Array,
    classes: Array,
    items: Array,
    again: Array,
    contradictions: dict[str, int],
    m: int | None,
) -> Solution:
    kept = items >= 0
    pair = (classes[kept].astype(np.uint32), items[kept].astype(np.uint32))
    sizes = tuple(int(one.max(initial=0)) + 1 for one in pair)
    ids, count = class_ids(pair, sizes, entries=int(kept.sum()))
    groups = np.full(len(entry), -1, dtype=np.int64)
    groups[kept] = ids
    class_of = np.zeros(count, dtype=np.int64)
    class_of[groups[kept]] = classes[kept]
    shown = {}
    if own:
        by_class = np.where(kept, classes, -1)
        mine = replace(problem, qi=own)
        number = int(classes.max(initial=-1)) + 1
        for name, published in published_groups(mine, by_class, number, entry).items():
            shown[name] = published.take(class_of)
    if events:
        shown |= published_groups(replace(problem, qi=events), groups, count, entry)
    shown = {name: shown[name] for name in problem.qi}
    found = _pieces(entry, np.where(again, -1, groups), count, shown)
    # a row that another one shows has lost what that one lost, and not everything
    counted = _pieces(entry, groups, count, shown) if again.any() else found
    lost = column_losses(replace(counted, solves=replace(problem, sets=(problem.qi,))).view)
    who, persons = _who(problem)
    told: ShownHistories = {
        "m": "all" if m is None else m,
        "own": list(own),
        "events": list(events),
        "contradictions": {n: c for n, c in contradictions.items() if 20 * c <= persons},
        "rows": len(entry),
        "rows_left_out": int((~kept | again).sum()),
        "rows_shown_once": int(again.sum()),
        "persons": persons,
        "persons_left_out": persons - len(np.unique(who[entry[kept]])),
        "ncp_own": float(np.mean([lost[n] for n in own])) if own else None,
        "ncp_events": float(np.mean([lost[n] for n in events])) if events else None,
        "support_error": _support_error(problem, found, events) if events else None,
    }
    return replace(found, linkable=told)


def _pieces(entry: Array, groups: Array, count: int, shown: dict[str, Published]) -> Solution:
    """Rows of one entry that are in the same group are one piece."""
    keys, inverse = np.unique(entry * (count + 1) + groups + 1, return_inverse=True)
    piece, group = np.divmod(keys, count + 1)
    return Solution(
        (group - 1).astype(np.int32),
        shown,
        entry=piece.astype(np.int64),
        rows=np.bincount(inverse).astype(np.int64),
    )


COMMON = 20
"""The commonest events, by which it is measured how well a release tells how common they are."""


def _support_error(problem: Problem, found: Solution, events: tuple[str, ...]) -> float | None:
    """Mean relative error of how many persons have the commonest events, and any two of them.

    What a cell covers is taken for equally likely, as whoever reads the release must.
    """
    who, persons = _who(problem)
    item, count = problem.entries.numbered(events)
    held = group_distinct(item, count, who, max(persons, 1))
    common = np.argsort(-held, kind="stable")[:COMMON]
    first = np.asarray(representatives(item, count))
    true, told = np.zeros((len(common), persons)), np.zeros((len(common), persons))
    kept = found.groups >= 0
    entry = found.entry_of_piece
    owner, rows = who[entry[kept]], (problem.counts if found.rows is None else found.rows)[kept]
    for at, one in enumerate(common):
        true[at, who[item == one]] = 1.0
        likely = np.ones(len(found.published[events[0]].codes))
        for name in events:
            wanted = np.zeros(len(problem.entries.values_of(name)), dtype=bool)
            wanted[problem.entries.column(name)[first[one]]] = True
            shown = found.published[name]
            likely *= shown.covered(wanted)[shown.codes]
        without = np.log1p(-np.minimum(likely, 1 - 1e-12))[found.groups[kept]]
        told[at] = 1.0 - np.exp(np.bincount(owner, weights=without * rows, minlength=persons))
    pairs = np.triu_indices(len(common))
    real, said = (true @ true.T)[pairs], (told @ told.T)[pairs]
    same = pairs[0] == pairs[1]
    said[same] = told.sum(axis=1)
    there = real > 0
    return float(np.mean(np.abs(said - real)[there] / real[there])) if there.any() else None


FROM_BELOW = 1_000_000
"""Combinations of events of a class beyond which cells are looked for from above alone."""


@dataclass(frozen=True, eq=False)
class EventSpace:
    """The event columns: position of each entry on each axis, and how axes may be cut."""

    positions: Array
    shapes: tuple[Any, ...]

    @classmethod
    def of(cls, problem: Problem, events: tuple[str, ...]) -> EventSpace:
        table = positions_of(problem)
        chosen = [problem.qi.index(name) for name in events]
        return cls(
            table[:, chosen].astype(np.int64), tuple(problem.shapes[name] for name in events)
        )

    def cuts(self, entries: Array) -> Iterator[Array]:
        """Ways to part some entries, the widest axis first: a number of the part of each."""
        spreads = []
        for axis, shape in enumerate(self.shapes):
            held = np.unique(self.positions[entries, axis])
            if len(held) > 1:
                spreads.append((-self._spread(shape, held), axis))
        for _, axis in sorted(spreads):
            yield self._parts(self.shapes[axis], self.positions[entries, axis])

    def loss(self, entries: Array) -> float:
        """The certainty penalty of a cell that shows all of some entries, summed over columns."""
        lost = 0.0
        for axis, shape in enumerate(self.shapes):
            held = np.unique(self.positions[entries, axis])
            if not isinstance(shape, EncodedHierarchy):
                lost += self._spread(shape, held)
                continue
            codes = shape.order[held]
            levels = (shape.ancestors[codes, level] for level in range(shape.height + 1))
            lost += float(
                next(shape.loss[nodes[0]] for nodes in levels if (nodes == nodes[0]).all())
            )
        return lost

    def _spread(self, shape: Any, held: Array) -> float:
        if isinstance(shape, Ranges):
            return float(shape.loss(held[:1], held[-1:])[0])
        return float((len(held) - 1) / max(shape.size - 1, 1))

    def _parts(self, shape: Any, at: Array) -> Array:
        """Children of the lowest common ancestor in a tree, else two halves."""
        if isinstance(shape, EncodedHierarchy):
            codes = shape.order[at]
            for level in range(shape.height, -1, -1):
                nodes = shape.ancestors[codes, level]
                if len(np.unique(nodes)) > 1:
                    return np.asarray(np.unique(nodes, return_inverse=True)[1])
        held, counts = np.unique(at, return_counts=True)
        ends = np.cumsum(counts)
        cut = int(np.argmin(np.abs(ends[:-1] - ends[-1] / 2)))
        return np.asarray(at > held[cut]).astype(np.int64)


def known(history: Sequence[int], m: int | None, least: int = 0) -> set[tuple[int, ...]]:
    """What may be known of a history: at most m of its items, one of them `least` or larger.

    Examples
    --------
    >>> sorted(known([1, 1, 2], 2))
    [(1,), (1, 1), (1, 2), (2,)]
    """
    few = _few(history, m)
    if m is None:
        return {tuple(few)} if few and few[-1] >= least else set()
    found: set[tuple[int, ...]] = set()
    for size in range(1, min(m, len(few)) + 1):
        found |= {one for one in combinations(few, size) if one[-1] >= least}
    return found


def _few(history: Iterable[int], m: int | None) -> list[int]:
    """A history in order; what it has more than m times, m times."""
    ordered = sorted(history)
    if m is None:
        return ordered
    return [one for at, one in enumerate(ordered) if at < m or ordered[at - m] != one]


@dataclass(frozen=True, eq=False)
class SensitiveRows:
    """What rows tell of sensitive columns, and what models ask of any group of persons.

    Attributes
    ----------
    rules
        They count persons: each once, and once with every value of hers.
    person
        Whose each row is.
    places
        Where each value of a row is counted, a column for each sensitive one.
    """

    rules: Rules
    person: Array
    places: Array

    def of(self, rows: Array) -> SensitiveRows:
        """The same of some of the rows."""
        return SensitiveRows(self.rules, self.person[rows], self.places[rows])

    def among(self, kept: Array) -> SensitiveRows:
        """The same, held against the distribution of the rows that are left; itself if it is."""
        if not compares(self.rules) or kept.all():
            return self
        rules = recounted(self.rules, self._counts(np.flatnonzero(kept))[:-1])
        same = np.allclose(rules.reference, self.rules.reference)
        return self if same else SensitiveRows(rules, self.person, self.places)

    def hold(self, rows: Array) -> bool:
        """Whether the models hold for the persons of some rows, as far as these rows tell."""
        counts = self._counts(rows)
        return bool(holds(int(counts[-1]), counts, self.rules))

    def _counts(self, rows: Array) -> Array:
        """How many persons have each value in some rows, and last how many persons there are."""
        width = self.rules.people + 1
        counts = np.zeros(width, dtype=np.int64)
        who = self.person[rows].astype(np.int64)
        for places in self.places[rows].T:
            counts += np.bincount(np.unique(who * width + places) % width, minlength=width)
        counts[-1] = len(np.unique(who))
        return counts


class Histories:
    """The events of the persons of one class, and what is shown of each so far.

    Parameters
    ----------
    entry, person
        The entry of each row, and whose it is.
    m
        How many events of a person may be known; None means all of them.
    once
        Whether events of a person that look alike are shown once.
    sensitive
        What must hold for the sensitive values of whoever has the same events, and for those of
        the rows that show them.
    """

    def __init__(
        self,
        space: EventSpace,
        entry: Array,
        person: Array,
        k: int,
        m: int | None,
        *,
        once: bool = False,
        sensitive: SensitiveRows | None = None,
    ) -> None:
        self.space, self.entry, self.k, self.m, self.once = space, entry, k, m, once
        self.sensitive = sensitive
        self.shown = np.zeros(len(entry), dtype=np.int64)
        _, self.person = np.unique(person, return_inverse=True)
        self.persons = int(self.person.max(initial=-1)) + 1
        self.by_person = np.argsort(self.person, kind="stable")
        self.begins = np.searchsorted(self.person[self.by_person], np.arange(self.persons + 1))

    def blurred(self) -> Array:
        """What each row shows, as numbers; those of the search that loses less."""
        from_above = self._refined(np.zeros(len(self.entry), dtype=np.int64))
        # A cell that climbs helps against too few persons, not always against too few values. And
        # where one event is known, each cell is parted or not whatever becomes of the others.
        below = self.sensitive is None and self.m != 1 and self._countable()
        cut = _Cuts(self).climbed() if below else None
        if cut is None:
            return from_above
        from_below = self._refined(cut)
        return min((from_above, from_below), key=self._loss)

    def _countable(self) -> bool:
        """Whether there are events to look at from below, and not too many combinations of them."""
        lengths = np.diff(self.begins).astype(np.float64)
        number = lengths.copy()
        term = lengths
        for size in range(2, (self.m or 1) + 1):
            term = term * np.maximum(lengths - size + 1, 0) / size
            number += term
        return bool(self.space.shapes) and 0 < float(number.sum()) <= FROM_BELOW

    def _loss(self, shown: Array) -> float:
        """The penalty summed over rows."""
        order = np.argsort(shown, kind="stable")
        edges = np.flatnonzero(np.diff(shown[order])) + 1
        return sum(len(rows) * self.space.loss(self.entry[rows]) for rows in np.split(order, edges))

    def _refined(self, start: Array) -> Array:
        """Part what is shown until no further part would keep the promise."""
        self.shown = start.copy()
        order = np.argsort(start, kind="stable")
        edges = np.flatnonzero(np.diff(start[order])) + 1
        waiting = [rows for rows in np.split(order, edges) if len(rows)]
        fresh = int(start.max(initial=-1)) + 1
        while waiting:
            rows = waiting.pop()
            before = self.shown[rows[0]]
            for parts in self.space.cuts(self.entry[rows]):
                self.shown[rows] = fresh + parts
                if self._hold(rows, parts, fresh):
                    waiting += [rows[parts == part] for part in range(int(parts.max()) + 1)]
                    fresh += int(parts.max()) + 1
                    break
                self.shown[rows] = before
        return self.shown

    def _hold(self, rows: Array, parts: Array, fresh: int) -> bool:
        """Whether every combination with a new item is had by k persons."""
        if self.m is not None:  # most cuts fail by single items, which are counted at once
            who, number = self.person[rows].astype(np.uint32), int(parts.max()) + 1
            had = group_distinct(parts.astype(np.uint32), number, who, self.persons)
            if had.min() < self.k or (self.m == 1 and self.sensitive is None):
                return bool(had.min() >= self.k)
        holders: dict[tuple[int, ...], list[int]] = {}
        for one in np.unique(self.person[rows]).tolist():
            history = self.shown[self._rows_of(one)].tolist()
            for some in known([*{*history}] if self.once else history, self.m, fresh):
                holders.setdefault(some, []).append(one)
        if not all(len(persons) >= self.k for persons in holders.values()):
            return False
        return self.sensitive is None or all(map(self._tell_little, holders, holders.values()))

    def _rows_of(self, person: int) -> Array:
        return self.by_person[self.begins[person] : self.begins[person + 1]]

    def _tell_little(self, some: tuple[int, ...], persons: list[int]) -> bool:
        """Whether models hold for who has some events: for all their rows, and those that match."""
        assert self.sensitive is not None
        rows = np.concatenate([self._rows_of(one) for one in persons])
        matching = [rows[self.shown[rows] == item] for item in {*some}]
        return all(map(self.sensitive.hold, (rows, *matching)))


class _Cuts:
    """The tree of cells that cuts from above make down to single cells, and cuts through it.

    A cut is written as the node that each leaf is shown as.

    Attributes
    ----------
    parent, under, loss
        Of each node the one above it (the root's is -1), its leaves, and what its rows lose.
        Leaves come first.
    leaf
        The leaf of each row.
    histories
        Histories as leaves, and how many persons have each.
    """

    def __init__(self, of: Histories) -> None:
        self.of = of
        cells, leaf = np.unique(of.space.positions[of.entry], axis=0, return_inverse=True)
        self.leaf = leaf.reshape(-1)
        self.parent = [-1] * len(cells)
        self.under = [[one] for one in range(len(cells))]
        self.loss = [0.0] * len(cells)
        self._grow(np.arange(len(of.entry)), -1)
        histories = (
            self.leaf[of.by_person[of.begins[one] : of.begins[one + 1]]].tolist()
            for one in range(of.persons)
        )
        self.histories = Counter(tuple(sorted(one)) for one in histories)

    def _grow(self, rows: Array, above: int) -> None:
        waiting = [(rows, above)]
        while waiting:
            rows, above = waiting.pop()
            parts = next(self.of.space.cuts(self.of.entry[rows]), None)
            if parts is None:
                self.parent[int(self.leaf[rows[0]])] = above
                continue
            self.parent.append(above)
            self.under.append(np.unique(self.leaf[rows]).tolist())
            self.loss.append(len(rows) * self.of.space.loss(self.of.entry[rows]))
            node = len(self.parent) - 1
            waiting += [(rows[parts == part], node) for part in range(int(parts.max()) + 1)]

    def climbed(self) -> Array | None:
        """Climb until no combination is had by too few; what each row shows then, as numbers."""
        cut = list(range(int(self.leaf.max()) + 1))
        while rare := self._rare(cut):
            there, before = {*cut}, [*cut]
            for some in rare:
                ways = self._ways(some, cut) if there.issuperset(some) else []
                if ways:
                    node = min(ways)[1]
                    there -= {cut[leaf] for leaf in self.under[node]}
                    there.add(node)
                    for leaf in self.under[node]:
                        cut[leaf] = node
            if cut == before:
                return None
        return np.unique(np.array(cut)[self.leaf], return_inverse=True)[1].astype(np.int64)

    def _rare(self, cut: Sequence[int]) -> list[tuple[int, ...]]:
        """Combinations that fewer than k persons have, of the smallest size that has any."""
        m, alike = self.of.m, set if self.of.once else list
        shown = [
            (_few(alike(cut[leaf] for leaf in one), m), number)
            for one, number in self.histories.items()
        ]
        for size in (None,) if m is None else range(1, m + 1):
            support: Counter[tuple[int, ...]] = Counter()
            for history, number in shown:
                some = {tuple(history)} if size is None else {*combinations(history, size)}
                for one in some:
                    support[one] += number
            found = [one for one, number in support.items() if number < self.of.k]
            if found:
                return sorted(found)
        return []

    def _ways(self, some: Sequence[int], cut: Sequence[int]) -> list[tuple[float, int]]:
        """The parents of some nodes of a cut, and what is lost by climbing there."""
        parents = sorted({self.parent[node] for node in some} - {-1})
        found = []
        for parent in parents:
            below = {cut[leaf] for leaf in self.under[parent]}
            found.append((self.loss[parent] - sum(self.loss[node] for node in below), parent))
        return found
