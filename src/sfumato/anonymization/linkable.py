"""Whole histories under pseudonyms: (k, m), however many of her rows somebody knows.

Whoever knows all quasi-identifying own columns of a person and the quasi-identifying cells of any m
of her rows is left with at least k persons (k^m-anonymity of Terrovitis, Mamoulis & Kalnis, VLDB
2008, within classes of own columns). Own columns have one value a person, event columns several.

1. Own columns are blurred into classes of persons, larger than k where there are events to blur.
2. Within a class, events that are as blurred as can be are all alike: then any m of them are like
   any other m, if enough persons have as many; what is too long for that is cut: events are left
   out. Where rows of a person that look alike are shown once, nothing is too long.
3. Event cells are made as precise as they may be (see `event_cells`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.anonymization.event_cells import EventSpace, Histories, SensitiveRows
from sfumato.anonymization.methods import mondrian
from sfumato.anonymization.problem import (
    Problem,
    ShownHistories,
    Solution,
    published_groups,
    sensitive_of,
)
from sfumato.budget import Budget
from sfumato.engines.results import ClassSizes
from sfumato.errors import BudgetError, spell
from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids, group_distinct, representatives
from sfumato.privacy import KAnonymity, compile_rules
from sfumato.privacy.rules import PERSONS
from sfumato.utility import column_losses

__all__ = [
    "MOST_COMBINATIONS",
    "ROOM",
    "combinations_of",
    "own_columns",
    "require_countable",
    "solve_linkable",
]

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
        number * sum(math.comb(length, size) for size in range(1, m + 1))
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
    fits = next((n for n in range(m - 1, 0, -1) if combinations_of(histories, n) <= most), None)
    smaller = f"ask for {spell('m', fits)}, " if fits is not None else ""
    share = most / cost
    raise BudgetError(
        f"the {histories.classes:,} histories have {cost:,} combinations of at most {m} rows, and "
        f"up to {most:,} are counted{' with sensitive values' if values else ''}",
        remedy=f"To go on, {smaller}release a sample of the persons (about {share:.1%} of them "
        "fit), leave out the longest histories, or release rows that cannot be linked.",
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
    again = _again(who[entry], items) if once else np.zeros(len(entry), dtype=bool)
    classes = classes[who[entry]]
    return _solution(problem, own, events, entry, classes, items, again, contradictions, m)


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
