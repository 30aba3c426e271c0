"""Greedy k-member clustering, within boundaries if there are any.

After Byun, Kamra, Bertino & Li 2006: a group starts from an entry far from the last one and takes
the entry with which it loses least until it satisfies the rules; what remains joins the group it
hurts least. Run inside the blocks that boundaries leave, it is GreedyCKA of Miller, Campan & Truta
2008. Time grows with the square of the entries; large blocks are therefore cut into parts first,
and what their borders cost is repaired by a pass of `annealing` over parts with other borders. When
time is over, the parts that are left are cut by Mondrian.

While a group grows, a table says for every value of every column what the group would lose with it,
so that the price of a candidate is one look-up a column; a column's table is made anew only when
the group shows something else on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.methods.annealing import improve
from sfumato.anonymization.methods.mondrian import (
    coarse_partition,
    cut_groups,
    runs_of_blocks,
)
from sfumato.anonymization.methods.moves import Ground, Search
from sfumato.anonymization.methods.pricing import (
    END,
    begin,
    entries_that_fit,
    group_loss,
    grow,
    grow_all,
    loss_with,
    losses_at,
    number_positions,
    prices_of,
    union_loss,
)
from sfumato.anonymization.problem import (
    Blocks,
    Problem,
    Solution,
    allowed_blocks,
    grouped,
    positions_of,
    sensitive_of,
)
from sfumato.budget import each
from sfumato.errors import ParameterError
from sfumato.kernels.compiling import compiled
from sfumato.privacy.rules import (
    CLOSE_EQUAL,
    CLOSE_ORDERED,
    CLOSE_TREE,
    DISTINCT,
    PERSONS,
    clear,
    forget,
    holds,
    take_in,
)

EXACT = 25_000
"""Entries up to which a block is clustered as a whole."""
WORK = 64
"""Entries that another loop has gone through while this one compares an entry with the others."""
PART = 2_000
"""Least number of entries of the parts that larger blocks are cut into."""


def solve(problem: Problem) -> Solution:
    """Cluster every block.

    Options: ``loss`` (``certainty`` or ``height``), ``part_size`` (least number of entries
    of the parts that larger blocks are cut into; 0 never cuts).
    """
    loss = str(problem.options.get("loss", "certainty"))
    part_size = _part_size(problem)
    blocks = allowed_blocks(problem)
    groups, cut = clustered_groups(problem, blocks, loss, part_size)
    stopped = problem.budget.stopped_by
    if not cut or stopped:
        return grouped(problem, groups, stopped_by=stopped, details={"parts": cut} if cut else {})
    problem.budget.progress("repairing borders")
    search = Search(problem, blocks, groups, Ground.of(problem, loss))
    improve(search, problem.seed, passes=1)
    return search.solution(details={"parts": cut}, stopped_by=problem.budget.stopped_by)


def clustered_groups(
    problem: Problem, blocks: Blocks, loss: str = "certainty", part_size: int | None = None
) -> tuple[npt.NDArray[Any], int]:
    """Group of every entry, -1 outside of the blocks; and the number of parts, 0 if not cut.

    Parts whose turn has not come when the time is over are cut by Mondrian.
    """
    budget, limited = problem.budget, problem.budget.seconds is not None
    prices = prices_of(problem, loss)
    least, largest, cut = PART, EXACT, 0
    if part_size is not None:
        least, largest = part_size, 2 * part_size or len(blocks.order)
    fit = entries_that_fit(problem, prices)
    if np.diff(blocks.starts).max(initial=0) > min(largest, fit):
        blocks = coarse_partition(problem, blocks, int(min(least or fit, fit / 2)))
        cut = blocks.count
    groups = np.full(problem.entries.entries, -1, dtype=np.int64)
    table, sensitive = positions_of(problem), sensitive_of(problem)
    runs = runs_of_blocks(blocks.starts, budget.threads, WORK)
    if limited:
        runs = [blocks.starts[at : at + 2] for at in range(blocks.count)]

    def cluster(starts: npt.NDArray[Any]) -> int:
        """Cluster some blocks, and number their groups from 0 on; how many there are."""
        budget.progress("clustering", float(starts[0] / len(blocks.order)))
        if limited and budget.spent():
            return 0
        count: int = _cluster_blocks(
            table,
            problem.counts,
            sensitive,
            blocks.order,
            starts,
            prices,
            problem.rules,
            groups,
        )
        return count

    first, work = 0, WORK * len(blocks.order)
    late = []
    for starts, count in zip(runs, each(cluster, runs, work, budget.threads), strict=True):
        if count:
            groups[blocks.order[starts[0] : starts[-1]]] += first
        elif starts[-1] > starts[0]:
            late.append(blocks.order[starts[0] : starts[-1]])
        first += count
    if late:
        ends = np.cumsum([0, *map(len, late)])
        rest = Blocks(np.concatenate(late), ends)
        found = cut_groups(replace(problem, options={}, budget=budget.unhurried()), rest)
        groups[rest.order] = first + found[rest.order]
    return groups, cut


def _part_size(problem: Problem) -> int | None:
    given = problem.options.get("part_size")
    if given is None:
        return None
    if not isinstance(given, int) or given < 0:
        raise ParameterError(
            "part_size must be a number of entries", remedy="Give e.g. part_size=2000, or 0."
        )
    return given


TALLIED = 8_000_000
"""Groups times sensitive values up to which all groups are tallied while leftovers are placed."""
TRIES = 16
"""Groups that are asked to take a leftover before it goes to the pile."""
ROUNDING = 1e-9
"""Losses that differ by less may be the same."""


@compiled
def _new(run, counts, rules):  # type: ignore[no-untyped-def]
    """Whether a run holds somebody who is not yet in the group."""
    if rules.runs.shape[0] == 1:
        return counts[rules.people + 2 + run] != counts[rules.people + 1] + 1
    for m in range(rules.runs[run], rules.runs[run + 1]):
        if counts[rules.marks[m, 0]] != counts[rules.people + 1] + 1:
            return True
    return False


@compiled
def _wanted(sensitive, size, counts, rules):  # type: ignore[no-untyped-def]
    """Whether these sensitive values bring a group that fails its rules nearer to holding them.

    Persons: one it lacks, while it lacks any. Distinct values: one it lacks. Closeness: one it has
    too few of. Otherwise one that is rarer in the group than the average.
    """
    for r in range(rules.kinds.shape[0]):
        kind = rules.kinds[r]
        if kind == PERSONS:
            if counts[rules.people] < rules.persons and not _new(sensitive[-1], counts, rules):
                return False
            continue
        at = sensitive[rules.columns[r]]
        if kind == DISTINCT:
            if counts[at] > 0:
                return False
        elif kind in (CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE):
            if counts[at] >= rules.reference[at] * size:
                return False
        else:
            distinct = 0
            for c in range(rules.offsets[rules.columns[r]], rules.offsets[rules.columns[r] + 1]):
                if counts[c] > 0:
                    distinct += 1
            if counts[at] * distinct >= size:
                return False
    return True


def _filled(
    head: npt.NDArray[Any], ints: npt.NDArray[Any], floats: npt.NDArray[Any],
    memory: npt.NDArray[Any], axis: int, starts: npt.NDArray[Any], values: npt.NDArray[Any],
    losses: npt.NDArray[Any],
) -> None:  # fmt: skip
    own = slice(starts[axis], starts[axis + 1])
    losses[own] = losses_at(head, ints, floats, memory[0], axis, values[own])


@compiled(instead=_filled)
def _fill(head, ints, floats, memory, axis, starts, values, losses):  # type: ignore[no-untyped-def]
    """What a group would lose on an axis with each of its values."""
    for at in range(starts[axis], starts[axis + 1]):
        losses[at] = loss_with(head, ints, floats, memory, 0, axis, values[at])


def _lost(codes: npt.NDArray[Any], alive: int, losses: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What a group would lose with each candidate: added up in the order of the columns."""
    total = np.zeros(alive)
    for axis in range(codes.shape[1]):
        total += losses[codes[:alive, axis]]
    return total


def _farthest_of_all(codes: npt.NDArray[Any], alive: int, losses: npt.NDArray[Any]) -> int:
    return int(np.argmax(_lost(codes, alive, losses))) if alive else 0


@compiled(instead=_farthest_of_all)
def _farthest(codes, alive, losses):  # type: ignore[no-untyped-def]
    best, found = -1.0, 0
    for i in range(alive):
        loss = 0.0
        for axis in range(codes.shape[1]):
            loss += losses[codes[i, axis]]
        if loss > best:
            best, found = loss, i
    return found


def _nearest_of_all(
    codes: npt.NDArray[Any], alive: int, losses: npt.NDArray[Any], now: float
) -> int:
    if not alive:
        return -1
    total = _lost(codes, alive, losses)
    free = total <= now
    return int(np.argmax(free) if free.any() else np.argmin(total))


@compiled(instead=_nearest_of_all)
def _nearest(codes, alive, losses, now):  # type: ignore[no-untyped-def]
    """The candidate with which a group that loses `now` would lose least."""
    columns = codes.shape[1]
    half = columns // 2
    best, found = np.inf, -1
    for i in range(alive):
        loss = 0.0
        for axis in range(half):
            loss += losses[codes[i, axis]]
        if loss >= best:
            continue
        for axis in range(half, columns):
            loss += losses[codes[i, axis]]
        if loss < best:
            best, found = loss, i
            if loss <= now:
                break
    return found


@compiled
def _nearest_wanted(codes, alive, losses, who, sensitive, size, counts, rules):  # type: ignore[no-untyped-def]
    """As `_nearest`, among candidates whose sensitive values help; -1 if there is none."""
    best, found = np.inf, -1
    for i in range(alive):
        loss = 0.0
        for axis in range(codes.shape[1]):
            loss += losses[codes[i, axis]]
        if loss < best and _wanted(sensitive[who[i]], size, counts, rules):
            best, found = loss, i
    return found


@compiled
def _move_up(who, codes, at, last):  # type: ignore[no-untyped-def]
    """Put the last entry in another's place; to assign rows takes numba much longer to compile."""
    who[at] = who[last]
    for axis in range(codes.shape[1]):
        codes[at, axis] = codes[last, axis]


@compiled
def _cluster(table, weights, sensitive, members, prices, rules, groups, first):  # type: ignore[no-untyped-def]
    """Cluster the entries of one block; groups are numbered from `first` on. Returns the next."""
    columns = table.shape[1]
    head, ints, floats = prices.head, prices.ints, prices.floats
    who, axes = np.empty(members.shape[0], np.int64), np.empty(columns, np.int64)
    for i in range(members.shape[0]):
        who[i] = members[i]
    for axis in range(columns):
        axes[axis] = axis
    codes, starts, values = number_positions(table, members, axes)
    losses = np.zeros(starts[columns])
    memory = np.zeros((1, head[-1, END]), np.int64)
    counts = np.zeros(rules.offsets[-1], np.int64)
    alive, group = members.shape[0], first
    i = 0
    while i < alive:  # entries of many rows that hold by themselves lose nothing
        entry = who[i]
        take_in(entry, weights[entry], sensitive, rules, counts)
        alone = holds(weights[entry], counts, rules)
        forget(entry, sensitive, rules, counts)
        if alone:
            groups[entry] = group
            group += 1
            alive -= 1
            _move_up(who, codes, i, alive)
        else:
            i += 1
    left = np.int64(0)
    for i in range(alive):
        left += weights[who[i]]
    last = who[0]
    leftovers = np.empty(members.shape[0], np.int64)
    lost = 0
    grown = np.empty(members.shape[0], np.int64)
    while alive > 0 and left >= rules.k:
        begin(head, ints, memory, 0, table, last)
        for axis in range(columns):
            _fill(head, ints, floats, memory, axis, starts, values, losses)
        found = _farthest(codes, alive, losses)
        begin(head, ints, memory, 0, table, who[found])
        for axis in range(columns):
            _fill(head, ints, floats, memory, axis, starts, values, losses)
        size, many, done = np.int64(0), 0, False
        while True:
            last = who[found]
            grown[many] = last
            many += 1
            size += weights[last]
            take_in(last, weights[last], sensitive, rules, counts)
            alive -= 1
            _move_up(who, codes, found, alive)
            for axis in range(columns):
                if grow(head, ints, memory, 0, axis, table[last, axis]):
                    _fill(head, ints, floats, memory, axis, starts, values, losses)
            done = holds(size, counts, rules)
            if done or alive == 0:
                break
            found = -1
            if size >= rules.k:
                found = _nearest_wanted(codes, alive, losses, who, sensitive, size, counts, rules)
                if found < 0:
                    break
            else:
                found = _nearest(codes, alive, losses, group_loss(head, floats, memory, 0))
        left -= size
        for z in range(many):
            forget(grown[z], sensitive, rules, counts)
            if done:
                groups[grown[z]] = group
            else:
                leftovers[lost] = grown[z]
                lost += 1
        if done:
            group += 1
    for i in range(alive):
        leftovers[lost] = who[i]
        lost += 1
    return place_leftovers(
        table, weights, sensitive, members, leftovers[:lost], prices, rules, groups, first, group
    )


@compiled
def _never_harms(rules):  # type: ignore[no-untyped-def]
    """Whether a group that holds still does whatever joins it: only company and values count."""
    good = True
    for kind in rules.kinds:
        good = good and kind in (DISTINCT, PERSONS)
    return good


@compiled
def _least(numbers):  # type: ignore[no-untyped-def]
    """Where the smallest of some numbers is, the first of equal ones."""
    at = 0
    for i in range(numbers.shape[0]):
        if numbers[i] < numbers[at]:
            at = i
    return at


@compiled
def _joins(  # type: ignore[no-untyped-def]
    entry, group, weights, sensitive, members, groups, sizes, first, counts, rules, tallies
):
    """Whether a group still holds with one more entry, which is then among those tallied."""
    if tallies.shape[0]:
        counts = tallies[group - first]
    else:
        clear(rules, counts)
        for i in range(members.shape[0]):
            if groups[members[i]] == group:
                take_in(members[i], weights[members[i]], sensitive, rules, counts)
    take_in(entry, weights[entry], sensitive, rules, counts)
    return holds(sizes[group - first] + weights[entry], counts, rules)


@compiled(direct=True)
def place_leftovers(  # type: ignore[no-untyped-def]
    table, weights, sensitive, members, leftovers, prices, rules, groups, first, last
):
    """Give each leftover to the group it hurts least; returns the number after the last group.

    Groups of the block are ``first … last - 1``. What no group can take without failing its rules
    is piled up, and the pile swallows the nearest groups until it holds.
    """
    if leftovers.shape[0] == 0:
        return last
    columns = table.shape[1]
    head, ints, floats = prices.head, prices.ints, prices.floats
    many = last - first
    memories = np.zeros((many + 1, head[-1, END]), np.int64)
    sizes = np.zeros(many, np.int64)
    for i in range(leftovers.shape[0]):
        groups[leftovers[i]] = -1
    for i in range(members.shape[0]):
        entry = members[i]
        group = groups[entry] - first
        if group < 0:
            continue
        if sizes[group] == 0:
            begin(head, ints, memories, group, table, entry)
        grow_all(head, ints, memories, group, table, entry)
        sizes[group] += weights[entry]
    losses = np.zeros(many)
    for group in range(many):
        losses[group] = group_loss(head, floats, memories, group)
    counts, free = np.zeros(rules.offsets[-1], np.int64), _never_harms(rules)
    room = many if not free and rules.people < 0 and many * counts.shape[0] <= TALLIED else 0
    tallies = np.zeros((room, counts.shape[0]), np.int64)
    for i in range(members.shape[0] if room else 0):
        if groups[members[i]] >= first:
            tally = tallies[groups[members[i]] - first]
            take_in(members[i], weights[members[i]], sensitive, rules, tally)
    pile = np.empty(leftovers.shape[0], np.int64)
    piled = 0
    hurt = np.empty(many)
    for i in range(leftovers.shape[0]):
        entry = leftovers[i]
        least = np.inf
        for group in range(many):
            alone, size = sizes[group] * losses[group], sizes[group] + weights[entry]
            hurt[group] = size * losses[group] - alone  # at least; nothing is shown more exactly
            if hurt[group] > least + ROUNDING:
                continue
            loss = 0.0
            for axis in range(columns):
                loss += loss_with(head, ints, floats, memories, group, axis, table[entry, axis])
                if size * loss - alone > least:
                    break
            hurt[group] = size * loss - alone
            if free and hurt[group] < least:
                least = hurt[group]
        taken = -1
        for _ in range(min(TRIES, many)):
            group = _least(hurt)
            if free or _joins(
                entry,
                first + group,
                weights,
                sensitive,
                members,
                groups,
                sizes,
                first,
                counts,
                rules,
                tallies,
            ):
                taken = group
                break
            if room:
                take_in(entry, -weights[entry], sensitive, rules, tallies[group])
            hurt[group] = np.inf
        if taken < 0:
            pile[piled] = entry
            piled += 1
            continue
        groups[entry] = first + taken
        sizes[taken] += weights[entry]
        grow_all(head, ints, memories, taken, table, entry)
        losses[taken] = group_loss(head, floats, memories, taken)
    if piled == 0:
        return last
    begin(head, ints, memories, many, table, pile[0])
    size = np.int64(0)
    clear(rules, counts)
    for i in range(piled):
        groups[pile[i]] = last
        size += weights[pile[i]]
        grow_all(head, ints, memories, many, table, pile[i])
        take_in(pile[i], weights[pile[i]], sensitive, rules, counts)
    while not holds(size, counts, rules):
        best, nearest = np.inf, -1
        for group in range(many):
            if sizes[group] == 0:
                continue
            loss = union_loss(head, ints, floats, memories, many, group)
            price = (size + sizes[group]) * loss - sizes[group] * losses[group]
            if price < best:
                best, nearest = price, group
        if nearest < 0:
            break
        sizes[nearest] = 0
        for i in range(members.shape[0]):
            entry = members[i]
            if groups[entry] == first + nearest:
                groups[entry] = last
                size += weights[entry]
                grow_all(head, ints, memories, many, table, entry)
                take_in(entry, weights[entry], sensitive, rules, counts)
    return last + 1


@compiled(most=1 << 14, patience=0.4, direct=True)
def _cluster_blocks(table, weights, sensitive, order, starts, prices, rules, groups):  # type: ignore[no-untyped-def]
    """Cluster every block; block b is ``order[starts[b]:starts[b + 1]]``. Fills `groups`.

    Groups are numbered from 0 on; returns how many there are.
    """
    group = np.int64(0)
    for block in range(starts.shape[0] - 1):
        members = order[starts[block] : starts[block + 1]]
        group = _cluster(table, weights, sensitive, members, prices, rules, groups, group)
    return group
