"""Compiled book-keeping of classes while a search changes them: move, open, close, and take back.

A class shows something fixed and takes every piece that this covers, so a piece that moves costs
or saves the difference of two numbers and nobody needs to look at the others. An index of bits
says which classes cover a position of an axis: the classes that cover an entry are the bits that
all its positions share. Every step is written down until it is kept, and can be taken back.

Arrays of the state are read from the tuple once a function: reading them in inner loops would cost
more than what those do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sfumato.anonymization._compiled import bare
from sfumato.anonymization._pricing import group_loss
from sfumato.anonymization.pricing import FIRST, KIND, LAST, SET, SLOT, TREE, WORD

__all__ = [
    "State",
    "World",
    "begin_step",
    "close_class",
    "copy_mold",
    "draw",
    "keep",
    "move",
    "open_class",
    "populate",
    "reshape",
    "take_back",
    "undo",
]

ENTRY, ROWS, HOME, AFTER, AHEAD = range(5)
"""Columns of `State.pieces`: entry, rows it stands for, its class, and its neighbours in the list
of the class's pieces."""
SIZE, HEAD, OPEN, TOUCHED, LEFT, JOINED, SEEN = range(7)
"""Columns of `State.classes`: rows, first piece, whether it is open; the step in which it was last
changed, left or joined, and the search in which it was last looked at."""
MOVES, CHANGES, STEP, FREE, LOOKS = range(5)
"""Places of `State.count`: pieces moved and classes changed in this step, number of the step,
class numbers that are free, and searches so far."""


class World(NamedTuple):
    """What a search never changes.

    Attributes
    ----------
    table, sensitive, kin
        Positions of each entry, where its sensitive values are counted, and its block: entries of
        different blocks never share a class.
    first
        Pieces of entry e are ``first[e] … first[e + 1] - 1``.
    near
        Entries near each entry, nearest first, -1 where there are no more.
    starts, seats
        Row of the index of position p of axis j is ``seats[starts[j] + p]``; many positions share
        few rows.
    sieve
        The axes, first those on which few classes cover a position.
    head, ints, floats
        `Prices`.
    """

    table: Any
    sensitive: Any
    kin: Any
    first: Any
    near: Any
    starts: Any
    seats: Any
    sieve: Any
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
        room for classes: the mold of a class to be.
    bits
        The index: class c has bit ``c % 64`` of word ``c // 64`` in every row it covers.
    free
        Numbers of classes that are not open.
    change
        By how much the loss has grown in this step.
    moved, changed, saved, saved_costs
        Pieces moved in this step and where they were; classes changed, whether they were open, what
        they showed and what they cost.
    chance
        State of the random numbers.
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
def _enter(pieces, classes, piece, group):  # type: ignore[no-untyped-def]
    first = classes[group, HEAD]
    pieces[piece, AFTER] = first
    pieces[piece, AHEAD] = -1
    if first >= 0:
        pieces[first, AHEAD] = piece
    classes[group, HEAD] = piece
    classes[group, SIZE] += pieces[piece, ROWS]
    pieces[piece, HOME] = group


@bare
def _leave(pieces, classes, piece):  # type: ignore[no-untyped-def]
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


@bare
def _copy(target, at, source, origin):  # type: ignore[no-untyped-def]
    """Copy a memory; assigning one row of an array to another would copy it twice."""
    for slot in range(target.shape[1]):
        target[at, slot] = source[origin, slot]


@bare
def _index(world, memories, bits, group, on):  # type: ignore[no-untyped-def]
    """Enter a class in all rows of the index that it covers, or strike it out."""
    head, ints, starts, seats = world.head, world.ints, world.starts, world.seats
    word, bit = group >> 6, np.uint64(1) << np.uint64(group & 63)
    for axis in range(head.shape[0]):
        at, start = head[axis, SLOT], starts[axis]
        if head[axis, KIND] == SET:
            for position in range(starts[axis + 1] - start):
                if (memories[group, at + 1 + position // WORD] >> (position % WORD)) & 1:
                    if on:
                        bits[seats[start + position], word] |= bit
                    else:
                        bits[seats[start + position], word] &= ~bit
            continue
        low, high = memories[group, at], np.int64(0)
        if head[axis, KIND] == TREE:
            high = ints[head[axis, LAST] + low]
            low = ints[head[axis, FIRST] + low]
        else:
            high = memories[group, at + 1]
        for row in range(seats[start + low], seats[start + high] + 1):
            if on:
                bits[row, word] |= bit
            else:
                bits[row, word] &= ~bit


@bare
def populate(world, now, groups, many):  # type: ignore[no-untyped-def]
    """Open the first so many classes, put every piece into its own, and fill the index."""
    for group in range(many):
        now.classes[group, HEAD] = -1
        now.classes[group, OPEN] = 1
        now.costs[group] = group_loss(world.head, world.floats, now.memories, group)
        _index(world, now.memories, now.bits, group, True)
    for group in range(now.classes.shape[0] - 1, many - 1, -1):
        now.classes[group, HEAD] = -1
        now.free[now.count[FREE]] = group
        now.count[FREE] += 1
    for piece in range(groups.shape[0]):
        _enter(now.pieces, now.classes, piece, groups[piece])


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
    if classes[group, TOUCHED] == count[STEP]:
        return
    classes[group, TOUCHED] = count[STEP]
    at = count[CHANGES]
    now.changed[at, 0], now.changed[at, 1] = group, classes[group, OPEN]
    _copy(now.saved, at, now.memories, group)
    now.saved_costs[at] = now.costs[group]
    count[CHANGES] = at + 1


@bare
def move(now, piece, group):  # type: ignore[no-untyped-def]
    """Move a piece into a class that covers it."""
    pieces, classes, costs = now.pieces, now.classes, now.costs
    home = pieces[piece, HOME]
    _remember(now, home)
    _remember(now, group)
    at = now.count[MOVES]
    now.moved[at, 0], now.moved[at, 1] = piece, home
    now.count[MOVES] = at + 1
    _leave(pieces, classes, piece)
    _enter(pieces, classes, piece, group)
    classes[home, LEFT] = now.count[STEP]
    classes[group, JOINED] = now.count[STEP]
    now.change[0] += pieces[piece, ROWS] * (costs[group] - costs[home])


@bare
def take_back(now, moves):  # type: ignore[no-untyped-def]
    """Take back all moves but the first ones of this step."""
    pieces, classes, costs, moved = now.pieces, now.classes, now.costs, now.moved
    for at in range(now.count[MOVES] - 1, moves - 1, -1):
        piece, home = moved[at, 0], moved[at, 1]
        now.change[0] += pieces[piece, ROWS] * (costs[home] - costs[pieces[piece, HOME]])
        _leave(pieces, classes, piece)
        _enter(pieces, classes, piece, home)
    now.count[MOVES] = moves


@bare
def open_class(world, now, mold):  # type: ignore[no-untyped-def]
    """Open a class that shows what a mold does; -1 where there is no room."""
    count = now.count
    if count[FREE] == 0:
        return -1
    count[FREE] -= 1
    group = now.free[count[FREE]]
    _remember(now, group)
    _copy(now.memories, group, now.memories, mold)
    now.costs[group] = group_loss(world.head, world.floats, now.memories, group)
    now.classes[group, OPEN] = 1
    _index(world, now.memories, now.bits, group, True)
    return group


@bare
def close_class(world, now, group):  # type: ignore[no-untyped-def]
    """Let nobody find a class any more; whoever is in it must move."""
    _remember(now, group)
    _index(world, now.memories, now.bits, group, False)
    now.classes[group, OPEN] = 0


@bare
def reshape(world, now, group, mold):  # type: ignore[no-untyped-def]
    """Let a class show what a mold does."""
    _remember(now, group)
    _index(world, now.memories, now.bits, group, False)
    _copy(now.memories, group, now.memories, mold)
    cost = group_loss(world.head, world.floats, now.memories, group)
    now.change[0] += now.classes[group, SIZE] * (cost - now.costs[group])
    now.costs[group] = cost
    _index(world, now.memories, now.bits, group, True)


@bare
def copy_mold(now, mold, group):  # type: ignore[no-untyped-def]
    """Make a mold of what a class shows."""
    _copy(now.memories, mold, now.memories, group)


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
    take_back(now, 0)
    classes = now.classes
    for at in range(now.count[CHANGES]):
        group, was_open = now.changed[at, 0], now.changed[at, 1]
        if classes[group, OPEN]:
            _index(world, now.memories, now.bits, group, False)
        _copy(now.memories, group, now.saved, at)
        now.costs[group] = now.saved_costs[at]
        classes[group, OPEN] = was_open
        if was_open:
            _index(world, now.memories, now.bits, group, True)
        else:
            now.free[now.count[FREE]] = group
            now.count[FREE] += 1
