"""The promise of linkable releases: whole histories, of which any m rows may be known.

It is checked by counting, from nothing but the released table: for every person every combination
of at most m shown event cells, two equal events being two, must be had by k persons of the same
shown own cells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Self

import numpy as np

from sfumato.budget import Budget
from sfumato.release.promise import Finding
from sfumato.tables import Table
from sfumato.wording import counted

__all__ = ["LinkedHistories"]


@dataclass(frozen=True)
class LinkedHistories:
    """Own columns and any m rows of a person leave at least k persons.

    Parameters
    ----------
    m
        Rows of a person that may be known; None means all of them, and how many they are.
    own, events
        Quasi-identifiers with one value a person, and the others.
    person
        The column of pseudonyms that says whose rows are whose.
    """

    k: int
    m: int | None
    own: tuple[str, ...]
    events: tuple[str, ...]
    person: str
    kind: str = field(default="linked-histories", init=False)

    @property
    def qi(self) -> tuple[tuple[str, ...], ...]:
        """The quasi-identifiers, as other promises name them."""
        return ((*self.own, *self.events),)

    def to_dict(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "m": self.m,
            "own": list(self.own),
            "events": list(self.events),
            "person": self.person,
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            int(parameters["k"]),
            None if parameters["m"] is None else int(parameters["m"]),
            tuple(parameters["own"]),
            tuple(parameters["events"]),
            str(parameters["person"]),
        )

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Count who has what."""
        histories = self._histories(table, budget)
        odd = self._odd(histories, table)
        if odd is not None:
            return odd
        fewest, attackers, failing = None, 0, 0
        for persons in histories.values():
            had: Counter[tuple[int, ...]] = Counter()
            for history in persons.values():
                had.update(set(self._known(sorted(history))))
            attackers += len(had)
            if had:
                least = min(had.values())
                fewest = least if fewest is None else min(fewest, least)
                failing += sum(number < self.k for number in had.values())
        many = "all" if self.m is None else f"any {self.m}"
        return Finding(
            check=self.kind,
            holds=not failing,
            say=f"whoever knows {', '.join(self.own) or 'no own column'} of a person and {many} of "
            f"her rows ({', '.join(self.events) or 'which say nothing more'}) is left with at "
            f"least {fewest or 0:,} persons, {self.k:,} asked",
            measured={"k": fewest, "known": attackers, "failing": failing},
            remedy="Ask for less, or release rows that cannot be linked.",
            class_sizes=(fewest, len(histories)),
        )

    def _histories(
        self, table: Table, budget: Budget | None
    ) -> dict[tuple[Any, ...], dict[Any, list[int]]]:
        """For each combination of own cells the persons, and the events of each."""
        entries = table.classes((*self.own, *self.events, self.person), budget=budget)
        assert entries.counts is not None
        found: dict[tuple[Any, ...], dict[Any, list[int]]] = defaultdict(dict)
        own = [entries.column(name).tolist() for name in self.own]
        cells = list(zip(*(entries.column(n).tolist() for n in self.events), strict=True))
        numbers = {cell: at for at, cell in enumerate(sorted(set(cells)))}
        items = [numbers[cell] for cell in cells] or [0] * entries.entries
        people = entries.column(self.person).tolist()
        for at, times in enumerate(np.asarray(entries.counts).tolist()):
            history = found[tuple(column[at] for column in own)].setdefault(people[at], [])
            history += [items[at]] * times
        return found

    def _odd(
        self, histories: Mapping[tuple[Any, ...], Mapping[Any, Any]], table: Table
    ) -> Finding | None:
        """That pseudonyms do not name persons: nobody, or somebody with two sets of own cells."""
        nobody = table.engine.null_counts([self.person])[self.person]
        times = Counter(person for persons in histories.values() for person in persons)
        twice = sum(number > 1 for number in times.values())
        if not nobody and not twice:
            return None
        return Finding(
            check=self.kind,
            holds=False,
            say=f"`{self.person}` does not name persons: {counted(nobody, 'row', does='are')} "
            f"nobody's, and {twice:,} pseudonyms have more than one set of own cells",
            measured={"nobody": nobody, "twice": twice},
            remedy="Get the release again from its maker.",
        )

    def _known(self, history: list[int]) -> Iterator[tuple[int, ...]]:
        if self.m is None:
            yield tuple(history)
            return
        yield ()  # who knows no row of hers still knows her own columns
        for size in range(1, self.m + 1):
            yield from combinations(history, size)
