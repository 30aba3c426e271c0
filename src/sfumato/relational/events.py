"""Blur histories of several tables so that (k, m) holds for their joined view.

Whoever knows the quasi-identifying own columns of a person (those of the table of persons), the
quasi-identifying cells of any m of her other rows, whichever table they are in, and which of these
rows show the same keys, is left with at least k persons.

1. Own columns are blurred into classes of persons, as of single tables.
2. Within a class rows start as blurred as can be: all that is seen of a row is its table, which of
   its references are there, and which keys it shares with other rows. What fewer than k persons
   have of that is left out, and with a row the rows that refer to it.
3. Cells are made precise top down as long as every combination of at most m rows that somebody has
   is had by k persons of the class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.linkable import ROOM, EventSpace, require_countable
from sfumato.anonymization.problem import Problem, Solution, published_groups
from sfumato.budget import Budget
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import BudgetError, ParameterError, spell
from sfumato.privacy import KAnonymity, compile_rules
from sfumato.relational.histories import NOBODY, Histories, Part
from sfumato.wording import counted

Array = npt.NDArray[Any]
Token = tuple[int, int]
Seen = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Blurred:
    """What becomes of each table.

    Attributes
    ----------
    solutions
        By table the groups of its rows and what they show; rows left out are in none.
    kept
        By table which rows stay.
    """

    solutions: Mapping[str, Solution]
    kept: Mapping[str, Array]


def blur(
    histories: Histories, problems: Mapping[str, Problem], k: int, m: int | None, budget: Budget
) -> Blurred:
    """Groups of the rows of every table.

    Parameters
    ----------
    problems
        By table how its quasi-identifiers may be blurred.
    m
        How many rows of a person may be known; None means all of them.
    """
    if histories.persons < k:
        raise ParameterError(
            f"k = {k:,} is larger than the dataset, which has "
            f"{counted(histories.persons, 'person')}",
            remedy=f"Ask for {spell('k', histories.persons)} at most."
            if histories.persons
            else "There is nobody to release.",
        )
    events = histories.events
    lengths = histories.lengths
    m = None if m is None else min(m, int(lengths.max(initial=0)))
    require_countable(ClassSizes.of_counts(lengths), m)
    own = histories.own
    classes = _own_classes(problems[own.name], own, k, bool(events))
    rows = _Rows.read(histories, problems)
    if m is None and rows.are_linked:
        raise ParameterError(
            "whole histories cannot be compared where rows of one table refer to rows of another",
            remedy=f"Ask for fewer rows, e.g. {spell('m', 2)}, or leave out what refers to them.",
        )
    fresh = rows.fresh
    by_class: dict[int, list[int]] = {}
    for person, number in enumerate(classes.tolist()):
        by_class.setdefault(number, []).append(person)
    for at, persons in enumerate(by_class.values()):
        budget.progress("blurring histories", at / len(by_class))
        fresh = _Class(rows, persons, k, m, fresh, budget).solve()
    return _blurred(histories, problems, classes, rows)


def _own_classes(problem: Problem, own: Part, k: int, room: bool) -> Array:
    """Class of each person by what is shown of her own columns."""
    from sfumato.anonymization.methods import mondrian  # it loads the compiler

    persons = len(own.entry)
    if not own.qi:
        return np.zeros(persons, dtype=np.int64)
    least = min(ROOM * k if room else k, persons)
    return mondrian.solve(
        replace(
            problem,
            entries=problem.entries.select(own.qi),
            rules=compile_rules([KAnonymity(least)]),
        )
    ).groups.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of all tables that lead to the person, numbered through.

    Attributes
    ----------
    first
        By table the number of its first row.
    shown
        What is shown of each row so far; -1 for rows that are left out.
    table, entry
        Where it stands.
    tokens
        What it shows of keys that other rows of its person show as well.
    needed_by
        The rows that refer to a row.
    of
        By person her rows of which something may be known.
    spaces
        By table how cells may be made precise.
    """

    first: dict[str, int]
    shown: list[int]
    table: list[str]
    entry: list[int]
    tokens: list[tuple[Token, ...]]
    needed_by: dict[int, list[int]]
    of: list[list[int]]
    spaces: dict[str, EventSpace]

    @classmethod
    def read(cls, histories: Histories, problems: Mapping[str, Problem]) -> _Rows:
        made = cls({}, [], [], [], [], {}, [[] for _ in range(histories.persons)], {})
        kinds: dict[tuple[str, frozenset[int]], int] = {}
        parts = list(histories.parts.values())[1:]
        for part in parts:
            made.first[part.name] = len(made.shown)
            if part.qi:
                made.spaces[part.name] = EventSpace.of(problems[part.name], part.qi)
            for at, person in enumerate(part.person.tolist()):
                tokens = part.tokens[at] if part.qi and person != NOBODY else ()
                if person != NOBODY and part.qi:
                    made.of[person].append(len(made.shown))
                kind = (part.name, frozenset(place for place, _ in tokens))
                made.shown.append(-1 if person == NOBODY else kinds.setdefault(kind, len(kinds)))
                made.table.append(part.name)
                made.entry.append(int(part.entry[at]))
                made.tokens.append(tokens)
        for part in parts:
            for at, needs in enumerate(part.needs):
                for _, to, row in needs:
                    needed = made.needed_by.setdefault(made.first[to] + row, [])
                    needed.append(made.first[part.name] + at)
        for rows in made.of:
            seen = Counter(token for row in rows for token in {t for _, t in made.tokens[row]})
            for row in rows:
                made.tokens[row] = tuple(one for one in made.tokens[row] if seen[one[1]] > 1)
        for row, shown in enumerate(made.shown):
            if shown < 0:
                made.leave_out(row)
        return made

    @property
    def are_linked(self) -> bool:
        """Whether rows of a person show the same keys."""
        return any(self.tokens)

    @property
    def fresh(self) -> int:
        """A number that nothing is shown by yet."""
        return max(self.shown, default=-1) + 1

    def leave_out(self, row: int) -> None:
        """Leave out a row, and all that refer to it."""
        waiting = [row]
        while waiting:
            row = waiting.pop()
            self.shown[row] = -1
            waiting += [one for one in self.needed_by.get(row, ()) if self.shown[one] >= 0]

    def stay(self, person: int) -> list[int]:
        """The rows of a person that are not left out."""
        return [row for row in self.of[person] if self.shown[row] >= 0]

    def seen(self, rows: Sequence[int]) -> Seen:
        """What is seen of some rows: what they show, and which keys they share.

        Keys are numbered as they come; of the orders of rows that show the same, the first counts.
        """
        shown = tuple(sorted(self.shown[row] for row in rows))
        tokens = Counter(t for row in rows for t in {token for _, token in self.tokens[row]})
        shared = {token for token, number in tokens.items() if number > 1}
        if not shared:
            return shown
        told = []
        for order in permutations(rows):
            if tuple(self.shown[row] for row in order) != shown:
                continue
            numbers: dict[int, int] = {}
            told.append(
                tuple(
                    tuple(
                        (place, numbers.setdefault(token, len(numbers)))
                        for place, token in self.tokens[row]
                        if token in shared
                    )
                    for row in order
                )
            )
        return (shown, min(told))


class _Class:
    """The persons of one class of own columns."""

    def __init__(
        self, rows: _Rows, persons: list[int], k: int, m: int | None, fresh: int, budget: Budget
    ) -> None:
        self.rows, self.persons, self.k, self.m, self.fresh = rows, persons, k, m, fresh
        self.budget = budget

    def solve(self) -> int:
        """Leave out rows until the promise holds, then make cells precise; the next number."""
        if self.m is None:
            self._to_same_lengths()
        else:
            self._to_shared_combinations()
        self._refine()
        return self.fresh

    # --- what may be known ------------------------------------------------------------------------

    def known(self, person: int, least: int = 0) -> set[Seen]:
        """What may be known of a person's rows, something of it shown by `least` or above."""
        self._in_time()
        rows = self.rows.stay(person)
        shown = self.rows.shown
        if self.m is None:
            history = tuple(sorted(shown[row] for row in rows))
            return {history} if not least or (history and history[-1] >= least) else set()
        if not any(self.rows.tokens[row] for row in rows):
            return _multisets([shown[row] for row in rows], self.m, least)
        return {
            self.rows.seen(some)
            for some in self._known_together(rows)
            if max(shown[row] for row in some) >= least
        }

    def _known_together(self, rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Every choice of at most m rows."""
        assert self.m is not None
        for size in range(1, self.m + 1):
            for at, some in enumerate(combinations(rows, size)):
                if at % 4096 == 0:
                    self._in_time()
                yield some

    def _in_time(self) -> None:
        if self.budget.spent():
            raise BudgetError(
                "histories could not be blurred before the time was over, and nothing is released",
                remedy="Allow more time, ask for fewer known rows (m), or leave out tables with "
                "very long histories.",
            )

    def _failing(self) -> tuple[dict[int, set[Seen]], set[Seen]]:
        """What each person has, and what fewer than k persons have."""
        had = {person: self.known(person) for person in self.persons}
        support = Counter(one for mine in had.values() for one in mine)
        return had, {one for one, number in support.items() if number < self.k}

    # --- leaving out ------------------------------------------------------------------------------

    def _to_shared_combinations(self) -> None:
        while True:
            had, failing = self._failing()
            if not failing:
                return
            for person in self.persons:
                if had[person] & failing:
                    self._cut(person, failing)

    def _cut(self, person: int, failing: set[Seen]) -> None:
        """Leave out rows of a person until she has nothing of what fails."""
        rows = self.rows.stay(person)
        if not any(self.rows.tokens[row] for row in rows):
            self._cut_plain(rows, failing)
            return
        guilty: dict[int, list[tuple[int, ...]]] = {row: [] for row in rows}
        for some in self._known_together(rows):
            if self.rows.seen(some) in failing:
                for row in some:
                    guilty[row].append(some)
        number = {row: len(some) for row, some in guilty.items()}
        shown = self.rows.shown
        while max(number.values(), default=0):
            self.rows.leave_out(max(number, key=lambda row: (number[row], row)))
            # what is shown of other rows stays as it was, so that nothing must be seen anew
            for gone in [row for row in number if shown[row] < 0]:
                del number[gone]
                for some in guilty[gone]:
                    if sum(row in number for row in some) == len(some) - 1:
                        for row in some:
                            if row in number:
                                number[row] -= 1

    def _cut_plain(self, rows: list[int], failing: set[Seen]) -> None:
        """The same where rows share no keys: of what fails, the kind that costs least."""
        by_kind: dict[int, list[int]] = {}
        for row in rows:
            by_kind.setdefault(self.rows.shown[row], []).append(row)
        for one in sorted(failing, key=lambda seen: (len(seen), repr(seen))):
            needed = Counter(one)
            left = {
                kind: [row for row in by_kind.get(kind, ()) if self.rows.shown[row] >= 0]
                for kind in needed
            }
            if all(len(left[kind]) >= number for kind, number in needed.items()):
                kind = min(needed, key=lambda kind: (len(left[kind]) - needed[kind], kind))
                for row in left[kind][needed[kind] - 1 :]:
                    self.rows.leave_out(row)

    def _to_same_lengths(self) -> None:
        """Join histories of unlike lengths with the nearest until k persons have each."""
        groups: dict[tuple[int, ...], list[int]] = {}
        kinds = sorted({self.rows.shown[r] for p in self.persons for r in self.rows.stay(p)})
        for person in self.persons:
            number = Counter(self.rows.shown[row] for row in self.rows.stay(person))
            groups.setdefault(tuple(number[kind] for kind in kinds), []).append(person)
        while len(groups) > 1 and any(len(some) < self.k for some in groups.values()):
            one = max((g for g in groups if len(groups[g]) < self.k), key=lambda g: (sum(g), g))
            nearest = min((g for g in groups if g != one), key=lambda g: (_apart(one, g), g))
            both = tuple(map(min, one, nearest))
            joined = groups.pop(one) + groups.pop(nearest)
            groups.setdefault(both, []).extend(joined)
        for lengths, persons in groups.items():
            for person in persons:
                rows = self.rows.stay(person)
                for kind, length in zip(kinds, lengths, strict=True):
                    for row in [r for r in rows if self.rows.shown[r] == kind][length:]:
                        self.rows.leave_out(row)

    # --- making precise ---------------------------------------------------------------------------

    def _refine(self) -> None:
        """Part what is shown until no further part would keep the promise."""
        shown = self.rows.shown
        hers = [row for person in self.persons for row in self.rows.stay(person)]
        whose = {row: person for person in self.persons for row in self.rows.stay(person)}
        by_item: dict[int, list[int]] = {}
        for row in hers:
            by_item.setdefault(shown[row], []).append(row)
        waiting = sorted(by_item)
        while waiting:
            rows = by_item[waiting.pop()]
            space = self.rows.spaces[self.rows.table[rows[0]]]
            persons = {whose[row] for row in rows}
            before = shown[rows[0]]
            for parts in space.cuts(np.array([self.rows.entry[row] for row in rows])):
                numbers = (self.fresh + parts).tolist()
                for row, number in zip(rows, numbers, strict=True):
                    shown[row] = number
                if self._hold(persons):
                    for row, number in zip(rows, numbers, strict=True):
                        by_item.setdefault(number, []).append(row)
                    waiting += sorted(set(numbers))
                    self.fresh = max(numbers) + 1
                    break
                for row in rows:
                    shown[row] = before

    def _hold(self, persons: set[int]) -> bool:
        """Whether whatever has a new cell is had by k persons."""
        support: Counter[Seen] = Counter()
        for person in persons:
            support.update(self.known(person, self.fresh))
        return all(number >= self.k for number in support.values())


def _multisets(shown: list[int], m: int, least: int) -> set[Seen]:
    """Combinations of at most m numbers, one of them `least` or larger.

    Examples
    --------
    >>> sorted(_multisets([1, 2, 1], 2, 2))
    [(1, 2), (2,)]
    """
    few = sorted(one for one, times in Counter(shown).items() for _ in range(min(times, m)))
    return {
        some for size in range(1, m + 1) for some in combinations(few, size) if some[-1] >= least
    }


def _apart(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def _blurred(
    histories: Histories, problems: Mapping[str, Problem], classes: Array, rows: _Rows
) -> Blurred:
    """What each table shows."""
    own = histories.own
    kept = {own.name: np.ones(len(own.entry), dtype=bool)}
    solutions = {}
    if own.qi:
        number = int(classes.max(initial=-1)) + 1
        groups = classes.astype(np.int32)
        shown = published_groups(problems[own.name], groups, number)
        solutions[own.name] = Solution(groups, shown, solves=problems[own.name])
    for part in list(histories.parts.values())[1:]:
        first = rows.first[part.name]
        mine = np.array(rows.shown[first : first + len(part.entry)], dtype=np.int64)
        kept[part.name] = mine >= 0
        if part.qi or (mine < 0).any():
            of = np.append(classes, 0)[part.person]
            solutions[part.name] = _pieces(problems[part.name], part, of, mine)
    return Blurred(solutions, kept)


def _pieces(problem: Problem, part: Part, classes: Array, shown: Array) -> Solution:
    """Rows of one entry that show the same are a piece."""
    kept = shown >= 0
    groups = np.full(len(shown), -1, dtype=np.int64)
    pairs = np.stack([classes[kept], shown[kept]], axis=1)
    groups[kept] = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    count = int(groups.max(initial=-1)) + 1
    keys, number = np.unique(part.entry * (count + 1) + groups + 1, return_counts=True)
    entry, group = np.divmod(keys, count + 1)
    shows = published_groups(problem, groups, count, part.entry)
    if np.array_equal(entry, np.arange(problem.entries.entries)):  # no entry is parted
        return Solution((group - 1).astype(np.int32), shows, solves=problem)
    return Solution(
        (group - 1).astype(np.int32),
        shows,
        entry=entry.astype(np.int64),
        rows=number.astype(np.int64),
        solves=problem,
    )
