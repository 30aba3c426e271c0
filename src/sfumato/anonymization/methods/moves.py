"""A grouping that `annealing` improves, and the moves of its pieces and classes, to be taken back.

A class shows something fixed and takes every piece that this covers, so a piece that moves costs
or saves the difference of two numbers and nobody needs to look at the others. An index of bits
says which classes cover a position of an axis: the classes that cover an entry are the bits that
all its positions share; everything else is looked for among the entries near a piece. Every step is
written down until it is kept, and can be taken back.

Arrays of the state are read from the tuple once a function: reading them in inner loops would cost
more than what those do.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sfumato.anonymization.methods.pricing import (
    END,
    FIRST,
    KIND,
    LAST,
    SET,
    SLOT,
    TREE,
    WORD,
    Prices,
    begin,
    covers,
    group_loss,
    group_losses,
    grow,
    grow_all,
    loss_with,
    losses_with,
    prices_of,
    total_loss,
)
from sfumato.anonymization.problem import (
    Blocks,
    Problem,
    Solution,
    grouped,
    pieced,
    positions_of,
    sensitive_of,
)
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import bare

ENTRY, ROWS, HOME, AFTER, AHEAD = range(5)
"""Columns of `State.pieces`: entry, rows it stands for, its class, and its neighbours in the list
of the class's pieces."""
SIZE, HEAD, OPEN, TOUCHED, LEFT, JOINED, SEEN = range(7)
"""Columns of `State.classes`: rows, first piece, whether it is open; the step in which it was last
changed, left or joined, and the search in which it was last looked at."""
MOVES, CHANGES, STEP, FREE, LOOKS, MOST = range(6)
"""Places of `State.count`: pieces moved and classes changed in this step, number of the step,
class numbers that are free, searches so far, and how large the class of those left out may be."""
ENDLESS = 1 << 40
"""Rows that the class of those left out has beside its own: so it can spare every piece. It is the
last of all, is never open, and no step writes it down: nothing is repaired or judged there."""
LEAST = 1e-9
"""A gain smaller than this is rounding."""
REACH = 16
"""Neighbours of a piece among which a class that grows, or a piece to spare, is looked for."""
LARGE = 64
"""Classes of more pieces keep showing what they did when one leaves: nobody looks through them."""


class Ground(NamedTuple):
    """What all groupings of a problem's entries share: positions, sensitive values and prices."""

    table: Array
    sensitive: Array
    prices: Prices

    @classmethod
    def of(cls, problem: Problem, loss: str = "certainty") -> Ground:
        """For what a group loses see `prices_of`."""
        return cls(positions_of(problem), sensitive_of(problem), prices_of(problem, loss))


class Search:
    """A grouping that can be improved, part by part (see `annealing.improve`).

    Equal rows need not stay together: an entry of many rows that lends some of them to its
    neighbours may save those more than its rows lose. Entries are therefore taken as pieces, single
    rows as far as they can be spared and one piece for the rest.

    Parameters
    ----------
    blocks
        Entries that may be grouped.
    groups
        Group of each entry to start from; -1 outside of the blocks, and of those left out.
    ground
        What is known of the entries, and what a group loses.
    most
        Rows of the blocks that may be left out; each of them loses all that matters.
    """

    def __init__(
        self,
        problem: Problem,
        blocks: Blocks,
        groups: Array,
        ground: Ground | None = None,
        most: int = 0,
    ) -> None:
        self.problem = problem
        self.blocks = blocks
        self.table, self.sensitive, self.prices = ground or Ground.of(problem)
        self.nearby: dict[Any, Array] = {}  # who is near whom, as it was last looked for
        self.told: tuple[Array, Solution] | None = None  # groups, and what they show
        self.most = most
        self.everything = float(sum(problem.weight(name) for name in problem.qi))
        kept = np.zeros(len(self.table), dtype=bool)
        kept[blocks.order] = True
        self.entry, self.rows, self.first_piece = _pieces(problem, kept)
        self._begin(groups)

    def _begin(self, groups: Array) -> None:
        inside = groups[self.entry]
        used = np.zeros(int(groups.max(initial=-1)) + 2, dtype=np.int64)
        used[inside] = 1
        numbers = np.cumsum(used) - 1
        numbers[-1] = -1  # of those left out
        self.groups: Array = numbers[inside]

    def begun_at(self, groups: Array) -> Search:
        """One that starts from another grouping of the same entries."""
        other = copy.copy(self)
        other._begin(groups)
        return other

    @property
    def left_out(self) -> int:
        """How many rows of the blocks are in no group."""
        return int(self.rows[self.groups < 0].sum())

    def loss(self) -> float:
        """What all rows of the blocks lose together, over all columns."""
        pieces, many = (self.entry, self.rows, self.groups), int(self.groups.max(initial=-1)) + 1
        if out := self.left_out:
            kept = np.flatnonzero(self.groups >= 0)
            pieces = self.entry[kept], self.rows[kept], self.groups[kept]
        lost = float(total_loss(*self.prices, self.table, *pieces, many))
        return lost + out * self.everything

    def solution(self, **facts: Any) -> Solution:
        """The grouping as it is now; what is in no group is suppressed."""
        if self.told is None or not np.array_equal(self.told[0], self.groups):
            self.told = self.groups.copy(), self._solution()
        return replace(self.told[1], **facts)

    def _solution(self) -> Solution:
        left_out = np.flatnonzero(np.diff(self.first_piece) == 0)
        whole = np.full(len(self.table), -1)
        whole[self.entry] = self.groups
        if (whole[self.entry] == self.groups).all():
            return grouped(self.problem, whole)
        entry = np.concatenate([self.entry, left_out])
        rows = np.concatenate([self.rows, self.problem.counts[left_out]])
        groups = np.concatenate([self.groups, np.full(len(left_out), -1)])
        return pieced(self.problem, entry, rows, groups)


def _pieces(problem: Problem, kept: Array) -> tuple[Array, Array, Array]:
    """Entry and rows of each piece, and where the pieces of each entry begin."""
    spare = problem.rules.k - 1
    large = problem.counts > 2 * spare  # a piece that still satisfies k, and rows to spare
    many = np.where(large, spare + 1, problem.counts)
    many = np.where(kept, many, 0)
    first = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    entry = np.repeat(np.arange(len(many)), many)
    rows = np.ones(len(entry), dtype=np.int64)
    core = large & kept
    rows[first[:-1][core]] = problem.counts[core] - spare
    return entry, rows, first


class World(NamedTuple):
    """What a search never changes.

    Attributes
    ----------
    table, sensitive, block
        Positions of each entry, where its sensitive values are counted, and its block: entries of
        different blocks never share a class.
    first
        Pieces of entry e are ``first[e] … first[e + 1] - 1``.
    near
        Entries near each entry, nearest first, -1 where there are no more.
    starts, index_row
        Row of the index of position p of axis j is ``index_row[starts[j] + p]``; many positions
        share few rows.
    along, begins
        The entries by their positions on each axis, and where those of position p of axis j begin:
        at ``begins[starts[j] + j + p]``.
    lookup
        Rows of the index that an entry is looked up in, one an axis, first those in which few
        classes are.
    head, ints, floats
        `Prices`.
    """

    table: Any
    sensitive: Any
    block: Any
    first: Any
    near: Any
    starts: Any
    index_row: Any
    along: Any
    begins: Any
    lookup: Any
    head: Any
    ints: Any
    floats: Any


class State(NamedTuple):
    """The classes as they are, and how to get back to where the step began.

    Attributes
    ----------
    pieces, classes, count
        See the names of their columns and places.
    memories, costs
        What each class shows and what a row in it loses. Memories have one row more than there is
        room for classes: the template of a class to be.
    bits
        The index: class c has bit ``c % 64`` of word ``c // 64`` in every row it covers, also
        while it is not open.
    free
        Numbers of classes that are not open.
    change
        By how much the loss has grown in this step.
    moved, changed, saved, saved_costs
        Pieces moved in this step and where they were; classes changed, whether they were open, what
        they showed and what they cost.
    chance
        State of the random numbers.
    inside, donors
        Room for a list of entries, and for one of classes; see `annealing.gather`.
    tallies
        How many rows of each class have each sensitive value; of no class where that would take
        too much room, or where persons are counted.
    totals
        How many rows of the table have each sensitive value, where rows may be left out and rules
        compare with those that are not.
    """

    pieces: Any
    classes: Any
    memories: Any
    costs: Any
    bits: Any
    free: Any
    count: Any
    change: Any
    moved: Any
    changed: Any
    saved: Any
    saved_costs: Any
    chance: Any
    inside: Any
    donors: Any
    tallies: Any
    totals: Any


@bare
def draw(chance):  # type: ignore[no-untyped-def]
    """A number in [0, 1) (xorshift64*, Vigna 2016); its state must not be zero."""
    state = chance[0]
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    chance[0] = state
    return ((state * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) * 2.0**-53


@bare
def _enter(sensitive, now, piece, group):  # type: ignore[no-untyped-def]
    pieces, classes, tallies = now.pieces, now.classes, now.tallies
    first = classes[group, HEAD]
    pieces[piece, AFTER] = first
    pieces[piece, AHEAD] = -1
    if first >= 0:
        pieces[first, AHEAD] = piece
    classes[group, HEAD] = piece
    classes[group, SIZE] += pieces[piece, ROWS]
    pieces[piece, HOME] = group
    if tallies.shape[0]:
        for s in range(sensitive.shape[1]):
            tallies[group, sensitive[pieces[piece, ENTRY], s]] += pieces[piece, ROWS]


@bare
def _leave(sensitive, now, piece):  # type: ignore[no-untyped-def]
    pieces, classes, tallies = now.pieces, now.classes, now.tallies
    group = pieces[piece, HOME]
    ahead, after = pieces[piece, AHEAD], pieces[piece, AFTER]
    if ahead >= 0:
        pieces[ahead, AFTER] = after
    else:
        classes[group, HEAD] = after
    if after >= 0:
        pieces[after, AHEAD] = ahead
    classes[group, SIZE] -= pieces[piece, ROWS]
    pieces[piece, HOME] = -1
    if tallies.shape[0]:
        for s in range(sensitive.shape[1]):
            tallies[group, sensitive[pieces[piece, ENTRY], s]] -= pieces[piece, ROWS]


@bare
def _copy(target, at, source, origin):  # type: ignore[no-untyped-def]
    """Copy a memory; assigning one row of an array to another would copy it twice."""
    for slot in range(target.shape[1]):
        target[at, slot] = source[origin, slot]


@bare
def span(world, memories, group, axis):  # type: ignore[no-untyped-def]
    """First and last position of an axis that a class may cover; with a set of values, of all."""
    head, ints, at = world.head, world.ints, world.head[axis, SLOT]
    if head[axis, KIND] == SET:
        return np.int64(0), world.starts[axis + 1] - world.starts[axis] - 1
    low, high = memories[group, at], np.int64(0)
    if head[axis, KIND] == TREE:
        high = ints[head[axis, LAST] + low]
        low = ints[head[axis, FIRST] + low]
    else:
        high = memories[group, at + 1]
    return low, high


@bare
def _index(world, now, group, axis, on):  # type: ignore[no-untyped-def]
    """Enter a class in all rows of the index that it covers on an axis, or strike it out."""
    starts, index_row, memories, bits = world.starts, world.index_row, now.memories, now.bits
    word, bit = group >> 6, np.uint64(1) << np.uint64(group & 63)
    at, start = world.head[axis, SLOT], starts[axis]
    if world.head[axis, KIND] == SET:
        for position in range(starts[axis + 1] - start):
            if (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1:
                if on:
                    bits[index_row[start + position], word] |= bit
                else:
                    bits[index_row[start + position], word] &= ~bit
        return
    low, high = span(world, memories, group, axis)
    for row in range(index_row[start + low], index_row[start + high] + 1):
        if on:
            bits[row, word] |= bit
        else:
            bits[row, word] &= ~bit


@bare
def _show(world, now, group, source, origin):  # type: ignore[no-untyped-def]
    """Let a class show what some memory says, and enter it in the index where it then belongs."""
    head, memories = world.head, now.memories
    for axis in range(head.shape[0]):
        first, end = head[axis, SLOT], head[axis, END]
        same = True
        for slot in range(first, end):
            same = same and memories[group, slot] == source[origin, slot]
        if same:
            continue
        _index(world, now, group, axis, False)
        for slot in range(first, end):
            memories[group, slot] = source[origin, slot]
        _index(world, now, group, axis, True)


def populate(world: World, now: State, groups: Array, many: int) -> None:
    """Open the first so many classes, put every piece into its own, and fill the index."""
    classes, pieces, room = now.classes, now.pieces, len(now.classes)
    classes[:, HEAD] = -1
    classes[:many, OPEN] = 1
    now.costs[:many] = group_losses(world.head, world.floats, now.memories[:many])
    now.bits[:] = _packed(_covered(world, now.memories[:room], len(now.bits)))
    unused = np.arange(room - 1 - (now.count[MOST] > 0), many - 1, -1)
    now.free[: len(unused)] = unused
    now.count[FREE] = len(unused)
    order = np.argsort(groups, kind="stable")
    pieces[:, HOME] = groups
    same = np.flatnonzero(np.diff(groups[order]) == 0)
    pieces[:, AFTER : AHEAD + 1] = -1
    pieces[order[same + 1], AFTER] = order[same]  # the last that came is the first of the list
    pieces[order[same], AHEAD] = order[same + 1]
    last = np.delete(order, same)
    classes[groups[last], HEAD] = last
    np.add.at(classes[:, SIZE], groups, pieces[:, ROWS])
    if len(now.tallies):
        for values in world.sensitive[pieces[:, ENTRY]].T:
            np.add.at(now.tallies, (groups, values), pieces[:, ROWS])


def _covered(world: World, memories: Array, rows: int) -> Array:
    """Which of so many rows of the index classes cover, one column a class."""
    head, ints = world.head, world.ints
    covered = np.zeros((rows, len(memories)), dtype=bool)
    for axis, at in enumerate(head[:, SLOT]):
        index_row = world.index_row[world.starts[axis] : world.starts[axis + 1]]
        if head[axis, KIND] == SET:
            for position, row in enumerate(index_row):
                held = memories[:, at + 1 + position // WORD] >> (position % WORD)
                covered[row] |= (held & 1).astype(bool)
            continue
        low, high = memories[:, at], memories[:, at + head[axis, END] - head[axis, SLOT] - 1]
        if head[axis, KIND] == TREE:
            low, high = ints[head[axis, FIRST] + low], ints[head[axis, LAST] + high]
        own = np.arange(index_row[0], index_row[-1] + 1)[:, None]
        covered[own[:, 0]] = (own >= index_row[low]) & (own <= index_row[high])
    return covered


def _packed(bits: Array) -> Array:
    """Bits of 64 columns each as one number."""
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


@bare
def begin_step(now):  # type: ignore[no-untyped-def]
    """From here on changes are written down."""
    count = now.count
    count[MOVES] = count[CHANGES] = 0
    count[STEP] += 1
    now.change[0] = 0.0


@bare
def _remember(now, group):  # type: ignore[no-untyped-def]
    """Write down what a class was before the step, once."""
    classes, count = now.classes, now.count
    if classes[group, TOUCHED] >= count[STEP]:
        return
    classes[group, TOUCHED] = count[STEP]
    at = count[CHANGES]
    now.changed[at, 0], now.changed[at, 1] = group, classes[group, OPEN]
    _copy(now.saved, at, now.memories, group)
    now.saved_costs[at] = now.costs[group]
    count[CHANGES] = at + 1


@bare
def move(world, now, piece, group):  # type: ignore[no-untyped-def]
    """Move a piece into a class that covers it."""
    pieces, classes, costs = now.pieces, now.classes, now.costs
    home = pieces[piece, HOME]
    _remember(now, home)
    _remember(now, group)
    at = now.count[MOVES]
    now.moved[at, 0], now.moved[at, 1] = piece, home
    now.count[MOVES] = at + 1
    _leave(world.sensitive, now, piece)
    _enter(world.sensitive, now, piece, group)
    classes[home, LEFT] = now.count[STEP]
    classes[group, JOINED] = now.count[STEP]
    now.change[0] += pieces[piece, ROWS] * (costs[group] - costs[home])


@bare
def take_back(world, now, moves):  # type: ignore[no-untyped-def]
    """Take back all moves but the first ones of this step."""
    pieces, costs, moved = now.pieces, now.costs, now.moved
    for at in range(now.count[MOVES] - 1, moves - 1, -1):
        piece, home = moved[at, 0], moved[at, 1]
        now.change[0] += pieces[piece, ROWS] * (costs[home] - costs[pieces[piece, HOME]])
        _leave(world.sensitive, now, piece)
        _enter(world.sensitive, now, piece, home)
    now.count[MOVES] = moves


@bare
def open_class(world, now, template):  # type: ignore[no-untyped-def]
    """Open a class that shows what a template does; -1 where there is no room."""
    count = now.count
    if count[FREE] == 0:
        return -1
    count[FREE] -= 1
    group = now.free[count[FREE]]
    _remember(now, group)
    _show(world, now, group, now.memories, template)
    now.classes[group, OPEN] = 1
    now.costs[group] = group_loss(world.head, world.floats, now.memories, group)
    return group


@bare
def close_class(now, group):  # type: ignore[no-untyped-def]
    """Let nobody find a class any more; whoever is in it must move.

    It stays in the index until its number is given to another.
    """
    _remember(now, group)
    now.classes[group, OPEN] = 0


@bare
def _reshape(world, now, group, template):  # type: ignore[no-untyped-def]
    """Let a class show what a template does."""
    _remember(now, group)
    _show(world, now, group, now.memories, template)
    cost = group_loss(world.head, world.floats, now.memories, group)
    now.change[0] += now.classes[group, SIZE] * (cost - now.costs[group])
    now.costs[group] = cost


@bare
def keep(now):  # type: ignore[no-untyped-def]
    """End a step: classes it closed are free."""
    for at in range(now.count[CHANGES]):
        group = now.changed[at, 0]
        if not now.classes[group, OPEN]:
            now.free[now.count[FREE]] = group
            now.count[FREE] += 1


@bare
def undo(world, now):  # type: ignore[no-untyped-def]
    """Go back to where the step began."""
    take_back(world, now, 0)
    for at in range(now.count[CHANGES]):
        group, was_open = now.changed[at, 0], now.changed[at, 1]
        now.classes[group, OPEN] = was_open
        if was_open:
            _show(world, now, group, now.saved, at)
            now.costs[group] = now.saved_costs[at]
        else:
            now.free[now.count[FREE]] = group
            now.count[FREE] += 1


class Company(NamedTuple):
    """Room for the pieces that may found a class with another.

    Attributes
    ----------
    chosen
        Those that do.
    piece, friend, gift
        Candidates: piece, number of its entry among those near, and what is saved where it is.
    entry, total, losses
        Entries near: their numbers, and what the class would lose with them, in all and by axis.
    """

    chosen: Any
    piece: Any
    friend: Any
    gift: Any
    entry: Any
    total: Any
    losses: Any


@bare
def _lowest(word):  # type: ignore[no-untyped-def]
    """Number of the lowest bit of a word that is set."""
    bit, low = 0, word & (~word + np.uint64(1))
    if low & np.uint64(0xFFFFFFFF00000000):
        bit += 32
    if low & np.uint64(0xFFFF0000FFFF0000):
        bit += 16
    if low & np.uint64(0xFF00FF00FF00FF00):
        bit += 8
    if low & np.uint64(0xF0F0F0F0F0F0F0F0):
        bit += 4
    if low & np.uint64(0xCCCCCCCCCCCCCCCC):
        bit += 2
    if low & np.uint64(0xAAAAAAAAAAAAAAAA):
        bit += 1
    return bit


@bare
def cheapest_cover(world, now, piece, but, limit):  # type: ignore[no-untyped-def]
    """The class that covers a piece at the least cost below a limit, but not that one; or -1.

    That of those left out covers everybody, as long as it has room.
    """
    head, ints, table = world.head, world.ints, world.table
    block, lookup = world.block, world.lookup
    bits, costs, classes, pieces = now.bits, now.costs, now.classes, now.pieces
    entry, out = pieces[piece, ENTRY], classes.shape[0] - 1
    best, found, axes = limit, -1, lookup.shape[1]
    wide = classes[out, SIZE] + pieces[piece, ROWS] <= now.count[MOST]
    if wide and out != but and costs[out] < limit:
        best, found = costs[out], out
    exact = bits.shape[0] == world.starts[axes]  # no two positions share a row
    first, second = lookup[entry, 0], lookup[entry, min(1, axes - 1)]
    for at in range(bits.shape[1]):
        word = bits[first, at] & bits[second, at]
        for z in range(2, axes):
            if word == 0:
                break
            word &= bits[lookup[entry, z], at]
        while word != 0:
            group = (at << 6) + _lowest(word)
            word &= word - np.uint64(1)
            if group == but or costs[group] >= best or not classes[group, OPEN]:
                continue
            member = classes[group, HEAD]
            if member < 0 or block[pieces[member, ENTRY]] != block[entry]:
                continue
            if exact or covers(head, ints, now.memories, group, table, entry):
                best, found = costs[group], group
    return found, best


@bare
def _cheapest_growth(world, now, piece, but, limit):  # type: ignore[no-untyped-def]
    """The class of somebody near that grows around a piece at the least price; or -1."""
    table, near, first = world.table, world.near, world.first
    head, ints, floats, memories = world.head, world.ints, world.floats, now.memories
    pieces, classes, costs, count = now.pieces, now.classes, now.costs, now.count
    count[LOOKS] += 1
    entry, rows = pieces[piece, ENTRY], pieces[piece, ROWS]
    best, found = limit, -1
    for z in range(min(near.shape[1], REACH)):
        friend = near[entry, z]
        if friend < 0:
            break
        for other in range(first[friend], first[friend + 1]):
            group = pieces[other, HOME]
            if group == but or classes[group, SEEN] == count[LOOKS] or not classes[group, OPEN]:
                continue
            classes[group, SEEN] = count[LOOKS]
            alone = classes[group, SIZE] * costs[group]
            size = classes[group, SIZE] + rows
            if size * costs[group] - alone >= best:
                continue
            loss = 0.0
            for axis in range(head.shape[0]):
                loss += loss_with(head, ints, floats, memories, group, axis, table[entry, axis])
                if size * loss - alone >= best:
                    break
            if size * loss - alone < best:
                best, found = size * loss - alone, group
    return found


@bare
def settle(world, now, piece, but):  # type: ignore[no-untyped-def]
    """Move a piece to where it hurts least, but not there; whether there is such a class."""
    entry = now.pieces[piece, ENTRY]
    group, cost = cheapest_cover(world, now, piece, but, np.inf)
    growing = _cheapest_growth(world, now, piece, but, cost * now.pieces[piece, ROWS] - LEAST)
    if growing >= 0:
        template = now.classes.shape[0]
        _copy(now.memories, template, now.memories, growing)
        grow_all(world.head, world.ints, now.memories, template, world.table, entry)
        _reshape(world, now, growing, template)
        group = growing
    if group < 0:
        return False
    move(world, now, piece, group)
    return True


@bare
def spare_piece(world, now, group, k):  # type: ignore[no-untyped-def]
    """A piece near a class and covered by it that another class can spare at the least price."""
    table, near, first = world.table, world.near, world.first
    pieces, classes, costs = now.pieces, now.classes, now.costs
    head, ints, memories = world.head, world.ints, now.memories
    best, found = np.inf, -1
    member = classes[group, HEAD]
    while member >= 0:
        entry = pieces[member, ENTRY]
        for z in range(-1, min(near.shape[1], REACH)):
            friend = entry if z < 0 else near[entry, z]
            if friend < 0:
                break
            for other in range(first[friend], first[friend + 1]):
                home, rows = pieces[other, HOME], pieces[other, ROWS]
                if home == group or classes[home, SIZE] - rows < k:
                    continue
                price = (costs[group] - costs[home]) * rows
                if price >= best:
                    continue
                if not covers(head, ints, memories, group, table, friend):
                    break
                best, found = price, other
        member = pieces[member, AFTER]
    return found, best


@bare
def tighten(world, now, group, most):  # type: ignore[no-untyped-def]
    """Let a class show no more than it must, if it has at most so many pieces."""
    head, ints, memories, table = world.head, world.ints, now.memories, world.table
    pieces, template = now.pieces, now.classes.shape[0]
    member = now.classes[group, HEAD]
    begin(head, ints, memories, template, table, pieces[member, ENTRY])
    for _ in range(most):
        member = pieces[member, AFTER]
        if member < 0:
            if group_loss(head, world.floats, memories, template) < now.costs[group] - LEAST:
                _reshape(world, now, group, template)
            return
        less, entry = False, pieces[member, ENTRY]
        for axis in range(head.shape[0]):
            first, last = head[axis, SLOT], head[axis, END] - 1
            same = memories[template, first] == memories[group, first]
            if not same or memories[template, last] != memories[group, last]:
                less = True
                grow(head, ints, memories, template, axis, table[entry, axis])
        if not less:
            return  # it shows what it must already


@bare
def _candidates(world, now, piece, k, harm, noise, company):  # type: ignore[no-untyped-def]
    """Whoever is near a piece, and what is saved where it is; numbers of entries and pieces.

    A class that is just large enough loses something when a piece leaves it. How much is not known
    before it is tried, and is therefore drawn.
    """
    near, first = world.near, world.first
    pieces, classes, costs, chance = now.pieces, now.classes, now.costs, now.chance
    entry, home = pieces[piece, ENTRY], pieces[piece, HOME]
    friends, many = 0, 0
    for z in range(-1, near.shape[1]):
        friend = entry if z < 0 else near[entry, z]
        if friend < 0:
            break
        company.entry[friends] = friend
        for other in range(first[friend], first[friend + 1]):
            if other == piece or many == company.piece.shape[0]:
                continue
            group, rows = pieces[other, HOME], pieces[other, ROWS]
            gift = costs[group] + noise * draw(chance)
            if group != home and classes[group, SIZE] - rows < k:
                gift -= harm * draw(chance)
            company.piece[many] = other
            company.friend[many] = friends
            company.gift[many] = gift * rows
            many += 1
        friends += 1
    return friends, many


@bare
def founders(world, now, piece, k, harm, noise, company):  # type: ignore[no-untyped-def]
    """Choose who founds a class with a piece, and make its template; their number, 0 if too few.

    Whoever costs least joins until there are enough.
    """
    head, ints, floats, table = world.head, world.ints, world.floats, world.table
    memories, pieces, template = now.memories, now.pieces, now.classes.shape[0]
    chosen, candidate, number, gift = company.chosen, company.piece, company.friend, company.gift
    entry, total, losses = company.entry, company.total, company.losses
    friends, many = _candidates(world, now, piece, k, harm, noise, company)
    begin(head, ints, memories, template, table, pieces[piece, ENTRY])
    for f in range(friends):
        total[f] = 0.0
    for axis in range(head.shape[0]):
        row = losses[axis]
        losses_with(head, ints, floats, memories, template, axis, table, entry, friends, row)
        for f in range(friends):
            total[f] += row[f]
    chosen[0] = piece
    found, size, cost = 1, pieces[piece, ROWS], 0.0
    while size < k:
        best, who = np.inf, -1
        for c in range(many):
            other = candidate[c]
            if other < 0:
                continue
            loss = total[number[c]]
            price = size * (loss - cost) + pieces[other, ROWS] * loss - gift[c]
            if price < best:
                best, who = price, c
        if who < 0:
            return 0
        other = candidate[who]
        candidate[who] = -1
        chosen[found] = other
        found += 1
        size += pieces[other, ROWS]
        cost = total[number[who]]
        for axis in range(head.shape[0]):
            changed = grow(head, ints, memories, template, axis, table[pieces[other, ENTRY], axis])
            if changed and size < k:
                row = losses[axis]
                for f in range(friends):
                    total[f] -= row[f]
                losses_with(
                    head, ints, floats, memories, template, axis, table, entry, friends, row
                )
                for f in range(friends):
                    total[f] += row[f]
    return found
