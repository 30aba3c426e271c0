"""What a group of rows costs: the loss of what it shows, column by column, for compiled loops.

Clustering asks millions of times "what would this group lose if that entry joined it?". The answer
needs little memory of a group: on a tree the node it shows, on a line its ends, for a set of values
which of them it holds. A group's memory is one row of a table of numbers, laid out by
`Prices.head`. The three arrays of `Prices` are handed on one by one: unpacking a tuple in the
innermost loops would cost more than what they do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sfumato.anonymization.problem import Problem, axes_of
from sfumato.budget import Budget, usable_threads
from sfumato.errors import ParameterError, did_you_mean
from sfumato.hierarchy import EncodedHierarchy, ValueSets
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import bare, compiled

LINE, TREE, SET = 0, 1, 2
KIND, SLOT, END, PRICE, CAP, PARENT, FIRST, LAST, LEAF = range(9)
"""Columns of `Prices.head`."""

WORD = 63
"""Values remembered by one number of a set; the sign stays out of it."""

_LOSSES = ("certainty", "height")
"""Share of the column's values that a cell covers, or its level in the tree over the height."""


class Prices(NamedTuple):
    """Prices of all columns, packed into three arrays so that compiled functions take them fast.

    Attributes
    ----------
    head
        One row a column: its kind; where a group's memory of it begins and ends (the node; or the
        two ends; or the number of values and the values as bits); where its prices lie in `floats`
        (of nodes, of places on the line, of one more value), and its highest price; where its
        tree lies in `ints` (parents, first and last positions of nodes, node of each position).
    ints, floats
        What `head` points into. Prices are losses in [0, 1] times the column's weight.
    """

    head: Array
    ints: Array
    floats: Array

    @property
    def slots(self) -> int:
        """Numbers that a group's memory takes."""
        return int(self.head[-1, END])


def prices_of(problem: Problem, loss: str = "certainty") -> Prices:
    """Prices of a problem's columns, in the order of its quasi-identifiers.

    Parameters
    ----------
    loss
        ``certainty`` counts the values that a cell covers (normalized certainty penalty),
        ``height`` the level of its node (information loss of Byun et al. 2006).
    """
    if loss not in _LOSSES:
        raise ParameterError(f"there is no loss `{loss}`", remedy=did_you_mean(loss, _LOSSES))
    axes = axes_of(problem)
    head = np.zeros((len(problem.qi), 9), dtype=np.int64)
    ints, floats = _Pool(np.int64), _Pool(np.float64)
    slot = 0
    for axis, name in enumerate(problem.qi):
        shape, weight = problem.shapes[name], problem.weight(name)
        row = head[axis]
        row[SLOT] = slot
        row[CAP] = floats.add(np.array([weight]))
        if isinstance(shape, EncodedHierarchy):
            row[KIND] = TREE
            price = shape.loss if loss == "certainty" else shape.relative_height
            row[PRICE] = floats.add(price * weight)
            row[PARENT] = ints.add(shape.parent)
            row[FIRST] = ints.add(shape.first)
            row[LAST] = ints.add(shape.last)
            row[LEAF] = ints.add(shape.order)
            slot += 1
        elif isinstance(shape, ValueSets):
            row[KIND] = SET
            row[PRICE] = floats.add(np.array([weight / max(shape.size - 1, 1)]))
            slot += 2 + shape.size // WORD
        else:
            row[KIND] = LINE
            places = axes.places[axes.offsets[axis] : axes.offsets[axis + 1]]
            row[PRICE] = floats.add(places * weight)
            slot += 2
        row[END] = slot
    return Prices(head, ints.joined(), floats.joined())


FEWEST, COPIES = 100, 6
"""Least number of entries of a part where memory is scarce, and how often what a group shows is
held while a part is searched."""


def entries_that_fit(problem: Problem, prices: Prices) -> float:
    """How many entries a part may have under a limit: of each group, all values have a bit."""
    budget = problem.budget
    if budget.memory is None:
        return np.inf
    row = COPIES * 8 * prices.slots * usable_threads(budget.threads) / max(problem.rules.k, 1)
    return max(FEWEST, budget.memory // 4 / row)


class _Pool:
    """Arrays laid one after the other."""

    def __init__(self, dtype: type) -> None:
        self.parts: list[Array] = [np.zeros(0, dtype)]
        self.dtype = dtype
        self.length = 0

    def add(self, part: Array) -> int:
        """Where the array begins."""
        self.parts.append(part.astype(self.dtype))
        self.length += len(part)
        return self.length - len(part)

    def joined(self) -> Array:
        return np.concatenate(self.parts)


@bare
def _climb(head, ints, axis, node, low, high):  # type: ignore[no-untyped-def]
    """Lowest ancestor of a node, or itself, that covers these positions."""
    parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
    while low < ints[first + node] or high > ints[last + node]:
        node = ints[parent + node]
    return node


@bare
def _span(head, floats, axis, low, high):  # type: ignore[no-untyped-def]
    base = head[axis, PRICE]
    return min(floats[head[axis, CAP]], floats[base + high] - floats[base + low])


@bare
def begin(head, ints, memories, group, table, entry):  # type: ignore[no-untyped-def]
    """Make a group's memory that of a single entry."""
    for axis in range(head.shape[0]):
        at = head[axis, SLOT]
        position = np.int64(table[entry, axis])
        if head[axis, KIND] == TREE:
            memories[group, at] = ints[head[axis, LEAF] + position]
        elif head[axis, KIND] == SET:
            for slot in range(at + 1, head[axis, END]):
                memories[group, slot] = 0
            memories[group, at] = 1
            memories[group, at + 1 + position // WORD] = np.int64(1) << (position % WORD)
        else:
            memories[group, at] = position
            memories[group, at + 1] = position


@bare
def grow(head, ints, memories, group, axis, position):  # type: ignore[no-untyped-def]
    """Let a position join a group on one axis; whether the group shows something else now."""
    at = head[axis, SLOT]
    position = np.int64(position)
    if head[axis, KIND] == TREE:
        node = _climb(head, ints, axis, memories[group, at], position, position)
        changed = node != memories[group, at]
        memories[group, at] = node
        return changed
    if head[axis, KIND] == SET:
        word, bit = at + 1 + position // WORD, np.int64(1) << (position % WORD)
        if memories[group, word] & bit:
            return False
        memories[group, word] |= bit
        memories[group, at] += 1
        return True
    if memories[group, at] <= position <= memories[group, at + 1]:
        return False
    memories[group, at] = min(memories[group, at], position)
    memories[group, at + 1] = max(memories[group, at + 1], position)
    return True


@bare
def grow_all(head, ints, memories, group, table, entry):  # type: ignore[no-untyped-def]
    """Let an entry join a group."""
    for axis in range(head.shape[0]):
        grow(head, ints, memories, group, axis, table[entry, axis])


@bare
def covers(head, ints, memories, group, table, entry):  # type: ignore[no-untyped-def]
    """Whether what a group shows is true of an entry."""
    for axis in range(head.shape[0]):
        at = head[axis, SLOT]
        position = np.int64(table[entry, axis])
        if head[axis, KIND] == SET:
            if not (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1:
                return False
            continue
        low, high = memories[group, at], np.int64(0)
        if head[axis, KIND] == TREE:
            high = ints[head[axis, LAST] + low]
            low = ints[head[axis, FIRST] + low]
        else:
            high = memories[group, at + 1]
        if position < low or position > high:
            return False
    return True


@bare
def _loss_of(head, floats, memories, group, axis):  # type: ignore[no-untyped-def]
    """What a group loses on an axis."""
    at = head[axis, SLOT]
    if head[axis, KIND] == TREE:
        return floats[head[axis, PRICE] + memories[group, at]]
    if head[axis, KIND] == SET:
        return (memories[group, at] - 1) * floats[head[axis, PRICE]]
    return _span(head, floats, axis, memories[group, at], memories[group, at + 1])


@bare
def group_loss(head, floats, memories, group):  # type: ignore[no-untyped-def]
    """What each row of a group loses, over all axes."""
    total = 0.0
    for axis in range(head.shape[0]):
        total += _loss_of(head, floats, memories, group, axis)
    return total


def group_losses(head: Array, floats: Array, memories: Array) -> Array:
    """`group_loss` of all groups at once, by numpy."""
    total = np.zeros(len(memories))
    for kind, at, price, cap in head[:, [KIND, SLOT, PRICE, CAP]]:
        if kind == TREE:
            total += floats[price + memories[:, at]]
        elif kind == SET:
            total += (memories[:, at] - 1) * floats[price]
        else:
            low, high = floats[price + memories[:, at]], floats[price + memories[:, at + 1]]
            total += np.minimum(floats[cap], high - low)
    return total


@bare
def loss_with(head, ints, floats, memories, group, axis, position):  # type: ignore[no-untyped-def]
    """What a group would lose on an axis if a position joined it."""
    at = head[axis, SLOT]
    position = np.int64(position)
    if head[axis, KIND] == TREE:
        node = _climb(head, ints, axis, memories[group, at], position, position)
        return floats[head[axis, PRICE] + node]
    if head[axis, KIND] == SET:
        known = (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1
        return (memories[group, at] - known) * floats[head[axis, PRICE]]
    low, high = min(memories[group, at], position), max(memories[group, at + 1], position)
    return _span(head, floats, axis, low, high)


def losses_at(
    head: Array, ints: Array, floats: Array, memory: Array, axis: int, positions: Array
) -> Array:
    """`loss_with` of many positions at once, by numpy; `memory` is that of one group."""
    kind, at, price = head[axis, KIND], head[axis, SLOT], head[axis, PRICE]
    positions = positions.astype(np.int64)
    lost: Array
    if kind == TREE:
        parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
        node = np.full(positions.shape, memory[at])
        while (out := (positions < ints[first + node]) | (positions > ints[last + node])).any():
            node[out] = ints[parent + node[out]]
        lost = floats[price + node]
    elif kind == SET:
        known = (memory[at + 1 + positions // WORD] >> (positions % WORD)) & 1
        lost = (memory[at] - known) * floats[price]
    else:
        low, high = np.minimum(memory[at], positions), np.maximum(memory[at + 1], positions)
        lost = np.minimum(floats[head[axis, CAP]], floats[price + high] - floats[price + low])
    return lost


@bare
def losses_with(head, ints, floats, memories, group, axis, table, entries, many, losses):  # type: ignore[no-untyped-def]
    """What a group would lose on an axis if any one of the first so many entries joined it."""
    at, price, cap = head[axis, SLOT], head[axis, PRICE], floats[head[axis, CAP]]
    if head[axis, KIND] == SET:
        values, one = memories[group, at], floats[price]
        for i in range(many):
            position = np.int64(table[entries[i], axis])
            known = (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1
            losses[i] = (values - known) * one
        return
    loss = _loss_of(head, floats, memories, group, axis)
    if head[axis, KIND] == TREE:
        parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
        shown = memories[group, at]
        low, high = ints[first + shown], ints[last + shown]
        for i in range(many):
            position = np.int64(table[entries[i], axis])
            losses[i] = loss
            if position < low or position > high:
                node = ints[parent + shown]
                while position < ints[first + node] or position > ints[last + node]:
                    node = ints[parent + node]
                losses[i] = floats[price + node]
        return
    low, high = memories[group, at], memories[group, at + 1]
    least, most = floats[price + low], floats[price + high]
    for i in range(many):
        position = np.int64(table[entries[i], axis])
        losses[i] = loss
        if position < low:
            losses[i] = min(cap, most - floats[price + position])
        elif position > high:
            losses[i] = min(cap, floats[price + position] - least)


@bare
def _bits(word):  # type: ignore[no-untyped-def]
    """How many bits of a word are set."""
    word = word - ((word >> 1) & 0x5555555555555555)
    word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F
    word = word + (word >> 8)
    word = word + (word >> 16)
    return (word + (word >> 32)) & 0x7F


@bare
def union_loss(head, ints, floats, memories, group, other):  # type: ignore[no-untyped-def]
    """What each row of two groups would lose if they were one."""
    total = 0.0
    for axis in range(head.shape[0]):
        at = head[axis, SLOT]
        if head[axis, KIND] == TREE:
            twin = memories[other, at]
            low, high = ints[head[axis, FIRST] + twin], ints[head[axis, LAST] + twin]
            node = _climb(head, ints, axis, memories[group, at], low, high)
            total += floats[head[axis, PRICE] + node]
        elif head[axis, KIND] == SET:
            values = 0
            for word in range(at + 1, head[axis, END]):
                values += _bits(memories[group, word] | memories[other, word])
            total += (values - 1) * floats[head[axis, PRICE]]
        else:
            low = min(memories[group, at], memories[other, at])
            high = max(memories[group, at + 1], memories[other, at + 1])
            total += _span(head, floats, axis, low, high)
    return total


def _few_memories(
    head: Array, ints: Array, table: Array, entry: Array, groups: Array, many: int
) -> Array:
    """`memories_of` by numpy."""
    memories = np.zeros((many, head[-1, END]), np.int64)
    order = np.argsort(groups.astype(np.min_scalar_type(many)), kind="stable")
    first = np.flatnonzero(np.diff(groups[order], prepend=-1))
    shown, positions = groups[order[first]], table[entry[order]].astype(np.int64)
    if not len(first):
        return memories
    for axis, (kind, at, end) in enumerate(head[:, [KIND, SLOT, END]]):
        if kind == SET:
            words, bits = at + 1 + positions[:, axis] // WORD, positions[:, axis] % WORD
            np.bitwise_or.at(memories, (groups[order], words), np.int64(1) << bits)
            memories[:, at] = np.bitwise_count(memories[:, at + 1 : end]).sum(axis=1)
            continue
        low = np.minimum.reduceat(positions[:, axis], first)
        high = np.maximum.reduceat(positions[:, axis], first)
        if kind == TREE:
            parent, last, leaf = head[axis, [PARENT, LAST, LEAF]]
            low = ints[leaf + low]
            while (out := ints[last + low] < high).any():
                low[out] = ints[parent + low[out]]
        memories[shown, at] = low
        if kind == LINE:
            memories[shown, at + 1] = high
    return memories


@compiled(instead=_few_memories, direct=True)
def memories_of(head, ints, table, entry, groups, many):  # type: ignore[no-untyped-def]
    """What each of so many groups of pieces shows."""
    memories = np.zeros((many, head[-1, END]), np.int64)
    begun = np.zeros(many, np.bool_)
    for piece in range(entry.shape[0]):
        group = groups[piece]
        if begun[group]:
            grow_all(head, ints, memories, group, table, entry[piece])
        else:
            begin(head, ints, memories, group, table, entry[piece])
            begun[group] = True
    return memories


@compiled(direct=True)
def total_loss(head, ints, floats, table, entry, rows, groups, many):  # type: ignore[no-untyped-def]
    """What all rows of so many groups of pieces lose, over all axes.

    Of one group after the other: where columns have many values, a group's memory is large.
    """
    ends = np.zeros(many + 1, np.int64)
    for piece in range(entry.shape[0]):
        ends[groups[piece] + 1] += 1
    for group in range(many):
        ends[group + 1] += ends[group]
    order = np.empty(entry.shape[0], np.int64)
    for piece in range(entry.shape[0]):  # from here on, where a group begins is where it ends
        order[ends[groups[piece]]] = piece
        ends[groups[piece]] += 1
    memory = np.zeros((1, head[-1, END]), np.int64)
    total, at = 0.0, 0
    for group in range(many):
        size = 0
        for nth in range(at, ends[group]):
            piece = order[nth]
            if nth > at:
                grow_all(head, ints, memory, 0, table, entry[piece])
            else:
                begin(head, ints, memory, 0, table, entry[piece])
            size += rows[piece]
        at = ends[group]
        if size > 0:
            total += size * group_loss(head, floats, memory, 0)
    return total


SAMPLE = 64
"""Entries by which the axes of a part are judged."""
CHUNK = 256
"""Entries for which neighbours are looked for before somebody asks whether there is time left."""
_ROUNDING = 1e-9
"""Losses that differ by less are the same."""


def _losses_together(
    head: Array, ints: Array, floats: Array, axis: int, one: Array, other: Array
) -> Array:
    """What groups of two entries each would lose on an axis, given their positions."""
    kind, price, cap = head[axis, KIND], head[axis, PRICE], floats[head[axis, CAP]]
    low, high = np.minimum(one, other), np.maximum(one, other)
    lost: Array
    if kind == TREE:
        parent, last = head[axis, PARENT], head[axis, LAST]
        node = ints[head[axis, LEAF] + low]
        while (out := ints[last + node] < high).any():
            node[out] = ints[parent + node[out]]
        lost = floats[price + node]
    elif kind == SET:
        lost = (low != high) * floats[price]
    else:
        lost = np.minimum(cap, floats[price + high] - floats[price + low])
    return lost


@compiled
def _seen(table, members, axis):  # type: ignore[no-untyped-def]
    """1 for each position of an axis that some of these entries have, 0 for others up to there."""
    most = 0
    for i in range(members.shape[0]):
        most = max(most, table[members[i], axis])
    seen = np.zeros(most + 1, np.int64)
    for i in range(members.shape[0]):
        seen[table[members[i], axis]] = 1
    return seen


@compiled
def number_positions(table, members, axes):  # type: ignore[no-untyped-def]
    """The positions of entries numbered through all axes: codes, where axes start, positions."""
    many, columns = members.shape[0], axes.shape[0]
    codes = np.empty((many, columns), np.int32)
    starts = np.zeros(columns + 1, np.int64)
    values = np.empty(many * columns, np.int64)
    for z in range(columns):
        number = _seen(table, members, axes[z])
        at = starts[z]
        for position in range(number.shape[0]):
            if number[position]:
                number[position], values[at] = at, position
                at += 1
        for i in range(many):
            codes[i, z] = number[table[members[i], axes[z]]]
        starts[z + 1] = at
    return codes, starts, values


@compiled
def _insert(near, price, found, entry, loss):  # type: ignore[no-untyped-def]
    """Insert an entry into a list sorted by loss, of which it is one; the last may fall out."""
    at = min(found, price.shape[0] - 1)
    while at > 0 and price[at - 1] > loss:
        price[at], near[at] = price[at - 1], near[at - 1]
        at -= 1
    price[at], near[at] = loss, entry


class _Part(NamedTuple):
    """Entries of a part by their positions, axis by axis, first those that tell most.

    Attributes
    ----------
    members
        The entries, sorted by their codes.
    axes, firsts, values
        The axes, where the codes of each begin, and the position that each code stands for.
    codes
        Positions numbered through all axes, one row a member.
    leads, skips
        On how many first axes each member agrees with the one before it; and the next member after
        each that differs from it on the first axes: one, two, three …
    begins
        The first member that has each code of the first axis.
    """

    members: Array
    axes: Array
    firsts: Array
    values: Array
    codes: Array
    leads: Array
    skips: Array
    begins: Array

    @classmethod
    def of(cls, table: Array, members: Array, head: Array, ints: Array, floats: Array) -> _Part:
        some, seen, spread = table[members[:: max(1, len(members) // SAMPLE)]], [], []
        for axis, positions in enumerate(table[members].T):
            there = np.flatnonzero(np.bincount(positions))
            one = some[:, axis].astype(np.int64)
            lost = _losses_together(head, ints, floats, axis, one[:, None], one)
            # on axes of few positions on which strangers lose much most candidates fail, and many
            # at once
            spread.append(np.cumsum(lost)[-1] / math.log(2.0 + len(there)))
            seen.append(there)
        axes = np.argsort(-np.array(spread), kind="stable")
        values = [seen[axis] for axis in axes]
        firsts = np.append(0, np.cumsum([len(there) for there in values]))
        codes = np.empty((len(members), len(axes)), np.int32)
        for z, (axis, there) in enumerate(zip(axes, values, strict=True)):
            number = np.zeros(there[-1] + 1, np.int32)
            number[there] = firsts[z] + np.arange(len(there))
            codes[:, z] = number[table[members, axis]]
        order = np.lexsort(codes.T[::-1])
        codes = codes[order]
        same = np.cumprod(codes[1:, :-1] == codes[:-1, :-1], axis=1)
        leads = np.concatenate([[0], same.sum(axis=1), [0]])
        end = np.arange(1, len(members) + 1)
        ends = np.where(leads[1:, None] <= np.arange(len(axes)), end[:, None], len(members))
        skips = np.minimum.accumulate(ends[::-1])[::-1]
        begins = np.searchsorted(codes[:, 0], np.arange(len(values[0])))
        return cls(
            members[order], axes, firsts, np.concatenate(values), codes, leads,
            np.ascontiguousarray(skips, np.int32), begins,
        )  # fmt: skip


@compiled
def _lose_along(head, ints, floats, memory, axis, values, begin, end, own, losses):  # type: ignore[no-untyped-def]
    """Fill in what a single entry, whose code is `own`, loses with each code of an axis."""
    low, high, node = own, own, memory[0, head[axis, SLOT]]
    if head[axis, KIND] != TREE:
        for at in range(begin, end):
            losses[at] = loss_with(head, ints, floats, memory, 0, axis, values[at])
        high, low = end, begin
    while low > begin or high < end:  # codes are sorted, so that a node covers a run of them
        first, last = ints[head[axis, FIRST] + node], ints[head[axis, LAST] + node]
        price = floats[head[axis, PRICE] + node]
        while low > begin and values[low - 1] >= first:
            low -= 1
            losses[low] = price
        while high < end and values[high] <= last:
            losses[high] = price
            high += 1
        node = ints[head[axis, PARENT] + node]


@compiled
def _near_one(codes, leads, skips, losses, i, start, ordered, limit, near, price):  # type: ignore[no-untyped-def]
    """Fill the list of member number i, given its losses by position.

    Members that agree on their first axes lose the same there, and are passed over together when
    that is too much; nor do those come near it that lie beyond on an axis that is `ordered`. At
    least as many as the list has room for lose less than the limit.
    """
    many, columns = codes.shape
    partial = np.zeros(columns + 1)
    found, wish = 0, near.shape[0]
    for turn in range(2):
        j, end, z = (i + 1, many, 0) if turn == 0 else (start, i, 0)
        while j < end:
            loss = partial[z]
            while z < columns:
                loss += losses[codes[j, z]]
                if loss >= limit:
                    break
                z += 1
                partial[z] = loss
            if z == columns:
                _insert(near, price, found, j, loss)
                found = min(found + 1, wish)
                if found == wish:
                    limit = price[wish - 1]
                j += 1
            elif z == 0 and ordered and turn == 0:
                break
            else:
                j = skips[j, z]
            z = leads[j]


@compiled
def _limit(codes, losses, i, near):  # type: ignore[no-untyped-def]
    """A loss below which there are enough members: that with those near the one before, and it."""
    worst = 0.0
    for z in range(-1, near.shape[1]):
        friend = i - 1 if z < 0 else near[i - 1, z]
        if friend < 0:
            return np.inf
        if friend != i:
            loss = 0.0
            for at in codes[friend]:
                loss += losses[at]
            worst = max(worst, loss)
    return worst + _ROUNDING


def _few_look_near(
    head: Array, ints: Array, floats: Array, table: Array, part: _Part, near: Array, first: int,
    last: int,
) -> None:  # fmt: skip
    """`_look_near` by numpy: all pairs."""
    many, runs = len(part.codes), np.split(part.values, part.firsts[1:-1])
    losses = [
        _losses_together(head, ints, floats, axis, values[:, None], values)
        for axis, values in zip(part.axes, runs, strict=True)
    ]
    codes, wish = part.codes - part.firsts[:-1], min(near.shape[1], many - 1)
    for i in range(first, last):
        others = np.arange(i + 1, i + many) % many  # those that follow it come first
        lost = np.zeros(many - 1)
        for axis, code in zip(losses, codes.T, strict=True):
            lost += axis[code[i]][code[others]]
        near[i, :wish] = others[np.argsort(lost, kind="stable")[:wish]]


@compiled(most=1 << 16, instead=_few_look_near, direct=True)
def _look_near(head, ints, floats, table, part, near, first, last):  # type: ignore[no-untyped-def]
    """Find those near each of some members; members before have theirs already."""
    axes, firsts, values, codes = part.axes, part.firsts, part.values, part.codes
    memory, losses = np.zeros((1, head[-1, END]), np.int64), np.zeros(values.shape[0])
    price, axis = np.empty(near.shape[1]), axes[0]
    ordered, low, high = head[axis, KIND] != SET, np.int64(0), np.int64(0)
    for i in range(first, last):
        begin(head, ints, memory, 0, table, part.members[i])
        for z in range(np.int64(ordered), axes.shape[0]):
            if i == first or codes[i, z] != codes[i - 1, z]:
                given = codes[i, z]
                _lose_along(
                    head, ints, floats, memory, axes[z], values, firsts[z], firsts[z + 1], given,
                    losses,
                )  # fmt: skip
        own, start, limit = np.int64(codes[i, 0]), np.int64(0), np.inf
        if ordered and (i == first or own != codes[i - 1, 0]):  # what lies far away is not asked
            low, high = own, own
            losses[own] = loss_with(head, ints, floats, memory, 0, axis, values[own])
        for turn in range(2):
            least, most = own, own
            if turn == 0:
                for z in range(-1, near.shape[1] if i > 0 else -1):
                    friend = i - 1 if z < 0 else near[i - 1, z]
                    if friend >= 0:
                        least = min(least, np.int64(codes[friend, 0]))
                        most = max(most, np.int64(codes[friend, 0]))
            while ordered and low > 0 and (low > least or (turn and losses[low] < limit)):
                low -= 1
                losses[low] = loss_with(head, ints, floats, memory, 0, axis, values[low])
            while (
                ordered
                and high < firsts[1] - 1
                and (high < most or (turn and losses[high] < limit))
            ):
                high += 1
                losses[high] = loss_with(head, ints, floats, memory, 0, axis, values[high])
            if turn == 0 and i > 0:
                limit = _limit(codes, losses, i, near)
        if ordered:
            while own > low and losses[own - 1] < limit:
                own -= 1
            start = part.begins[own]
        _near_one(
            codes, part.leads, part.skips, losses, i, start, ordered, limit, near[i], price
        )  # fmt: skip


def nearest_entries(
    table: Array, order: Array, starts: Array, prices: Prices, near: Array, budget: Budget
) -> None:
    """For every entry those of its part with which it would lose least, -1 where too few.

    Part d is ``order[starts[d]:starts[d + 1]]``. When the time is over, the others have none.
    """
    near[:] = -1
    for members in filter(len, np.split(order, starts[1:-1])):
        part, at = _Part.of(table, members, *prices), 0
        found = np.full((len(members), near.shape[1]), -1, near.dtype)
        while at < len(members) and not budget.spent():
            end = len(members) if budget.seconds is None else min(at + CHUNK, len(members))
            _look_near(*prices, table, part, found, at, end)
            at = end
        near[part.members] = np.where(found < 0, -1, part.members[found])
