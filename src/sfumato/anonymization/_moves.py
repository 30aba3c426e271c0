"""Compiled answers to what a piece or a class could do: whom to join, whom to found a class with.

Classes that cover a piece are found by the index of bits, everything else among the entries near
it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sfumato.anonymization._classes import (
    AFTER,
    ENTRY,
    HEAD,
    HOME,
    LOOKS,
    OPEN,
    ROWS,
    SEEN,
    SIZE,
    copy_mold,
    draw,
    move,
    reshape,
)
from sfumato.anonymization._compiled import bare
from sfumato.anonymization._pricing import (
    begin,
    covers,
    group_loss,
    grow,
    grow_all,
    loss_with,
    losses_with,
)

__all__ = ["LEAST", "Company", "cheapest_cover", "founders", "settle", "spare_piece", "tighten"]

LEAST = 1e-9
"""A gain smaller than this is rounding."""
REACH = 16
"""Neighbours of a piece among which a class that grows, or a piece to spare, is looked for."""
LARGE = 64
"""Classes of more pieces keep showing what they did when one leaves: nobody looks through them."""


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
def cheapest_cover(world, now, entry, but, limit):  # type: ignore[no-untyped-def]
    """The class that covers an entry at the least cost below a limit, but not that one; or -1."""
    table, starts, seats, sieve = world.table, world.starts, world.seats, world.sieve
    head, ints, kin, memories = world.head, world.ints, world.kin, now.memories
    bits, costs, classes, pieces = now.bits, now.costs, now.classes, now.pieces
    best, found = limit, -1
    first = seats[starts[sieve[0]] + table[entry, sieve[0]]]
    second = seats[starts[sieve[-1]] + table[entry, sieve[-1]]]
    if sieve.shape[0] > 1:
        second = seats[starts[sieve[1]] + table[entry, sieve[1]]]
    for at in range(bits.shape[1]):
        word = bits[first, at] & bits[second, at]
        for z in range(2, sieve.shape[0]):
            if word == 0:
                break
            axis = sieve[z]
            word &= bits[seats[starts[axis] + table[entry, axis]], at]
        while word != 0:
            group = (at << 6) + _lowest(word)
            word &= word - np.uint64(1)
            if group == but or costs[group] >= best:
                continue
            member = classes[group, HEAD]
            if member < 0 or kin[pieces[member, ENTRY]] != kin[entry]:
                continue
            if covers(head, ints, memories, group, table, entry):
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
    group, cost = cheapest_cover(world, now, entry, but, np.inf)
    growing = _cheapest_growth(world, now, piece, but, cost * now.pieces[piece, ROWS] - LEAST)
    if growing >= 0:
        mold = now.classes.shape[0]
        copy_mold(now, mold, growing)
        grow_all(world.head, world.ints, now.memories, mold, world.table, entry)
        reshape(world, now, growing, mold)
        group = growing
    if group < 0:
        return False
    move(now, piece, group)
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
def tighten(world, now, group):  # type: ignore[no-untyped-def]
    """Let a class show no more than it must."""
    head, ints, memories, table = world.head, world.ints, now.memories, world.table
    pieces, mold = now.pieces, now.classes.shape[0]
    member = now.classes[group, HEAD]
    begin(head, ints, memories, mold, table, pieces[member, ENTRY])
    for _ in range(LARGE):
        member = pieces[member, AFTER]
        if member < 0:
            if group_loss(head, world.floats, memories, mold) < now.costs[group] - LEAST:
                reshape(world, now, group, mold)
            return
        grow_all(head, ints, memories, mold, table, pieces[member, ENTRY])


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
    """Choose who founds a class with a piece, and make its mold; their number, 0 if too few.

    Whoever costs least joins until there are enough.
    """
    head, ints, floats, table = world.head, world.ints, world.floats, world.table
    memories, pieces, mold = now.memories, now.pieces, now.classes.shape[0]
    chosen, candidate, number, gift = company.chosen, company.piece, company.friend, company.gift
    entry, total, losses = company.entry, company.total, company.losses
    friends, many = _candidates(world, now, piece, k, harm, noise, company)
    begin(head, ints, memories, mold, table, pieces[piece, ENTRY])
    total[:friends] = 0.0
    for axis in range(head.shape[0]):
        row = losses[axis]
        losses_with(head, ints, floats, memories, mold, axis, table, entry, friends, row)
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
            changed = grow(head, ints, memories, mold, axis, table[pieces[other, ENTRY], axis])
            if changed and size < k:
                row = losses[axis]
                for f in range(friends):
                    total[f] -= row[f]
                losses_with(head, ints, floats, memories, mold, axis, table, entry, friends, row)
                for f in range(friends):
                    total[f] += row[f]
    return found
