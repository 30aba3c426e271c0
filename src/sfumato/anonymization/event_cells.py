"""How precise the cells of events may be, so that any m of them leave at least k persons.

The persons of one class of own columns are looked at. Two searches look for what each event shows,
and the one that loses less is taken:

- *from above*: all events start as blurred as can be, and are parted as Mondrian cuts, as long as
  every combination of at most m events that somebody has is had by k persons. Only combinations
  with a new cell are counted again: all others were counted before.
- *from below*: all events start as they are. Where a combination is had by fewer than k persons,
  one of its cells must climb to its parent, whatever becomes of all other cells: the one by which
  least is lost does. That is the algorithm AA of Terrovitis, Mamoulis & Kalnis (VLDB 2008), here of
  any columns. What it leaves is parted again where that may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.anonymization.problem import Problem, positions_of
from sfumato.hierarchy import EncodedHierarchy, Ranges
from sfumato.hierarchy.tree import Array
from sfumato.kernels import group_distinct
from sfumato.privacy import Rules, compares, recounted
from sfumato.privacy._kernels import holds

__all__ = ["EventSpace", "Histories", "SensitiveRows", "known"]

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
