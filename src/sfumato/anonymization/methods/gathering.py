"""Steps of `annealing` that take whole classes at once: draw what a class shows, gather its rows.

Where groups are large, nobody finds k rows for a new class among the neighbours of one. Here the
class comes first: what the class of a piece shows is narrowed on some columns and widened on
others. Whoever it covers and loses less there is gathered from the classes that can spare them, or
that are better closed for it. The same looks for rows that a class which is too small lacks.
"""

from __future__ import annotations

import numpy as np

from sfumato.anonymization.methods.moves import (
    AFTER,
    ENTRY,
    HEAD,
    HOME,
    LEAST,
    ROWS,
    SIZE,
    cheapest_cover,
    draw,
    move,
    open_class,
    span,
    tighten,
)
from sfumato.anonymization.methods.pricing import (
    FIRST,
    KIND,
    LAST,
    LEAF,
    PARENT,
    SET,
    SLOT,
    TREE,
    WORD,
    bare,
    covers,
    group_loss,
    grow,
)

__all__ = ["fill_from_classes", "gather", "sketch"]

WITHIN, QUOTA = 7, 8
"""Columns of `State.classes`: rows that a template covers, and how many of them are wanted."""
MORE = 0.5
"""Chance that one more column of a template is changed."""
NARROW = 0.6
"""Share of the changes that let a template show less on a column."""


@bare
def _narrow(world, now, group, axis, position):  # type: ignore[no-untyped-def]
    """Let a class cover less of an axis, but still a position; some of it, drawn."""
    head, ints, memories, chance = world.head, world.ints, now.memories, now.chance
    at = head[axis, SLOT]
    if head[axis, KIND] == TREE:
        parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
        shown = memories[group, at]
        node = ints[head[axis, LEAF] + position]
        while node != shown:
            above = ints[parent + node]
            same = ints[first + above] == ints[first + shown]
            if same and ints[last + above] == ints[last + shown]:
                memories[group, at] = node
                return
            node = above
        return
    if head[axis, KIND] == SET:
        for other in range(world.starts[axis + 1] - world.starts[axis]):
            word, bit = at + 1 + other // WORD, np.int64(1) << (other % WORD)
            if memories[group, word] & bit and other != position and draw(chance) < 0.5:
                memories[group, word] ^= bit
                memories[group, at] -= 1
        return
    low, high = memories[group, at], memories[group, at + 1]
    cut = low + np.int64(draw(chance) * (high - low))
    if low == high:
        return
    if position <= cut:
        memories[group, at + 1] = cut
    else:
        memories[group, at] = cut + 1


@bare
def _widen(world, now, group, axis):  # type: ignore[no-untyped-def]
    """Let a class cover more of an axis: the next node up, a value more, up to twice the range."""
    head, ints, memories, chance = world.head, world.ints, now.memories, now.chance
    size, at = world.starts[axis + 1] - world.starts[axis], head[axis, SLOT]
    if head[axis, KIND] == TREE:
        low, high = span(world, memories, group, axis)
        if high - low == size - 1:
            return
        grow(head, ints, memories, group, axis, low - 1 if low > 0 else high + 1)
    elif head[axis, KIND] == SET:
        grow(head, ints, memories, group, axis, np.int64(draw(chance) * size))
    else:
        low, high = memories[group, at], memories[group, at + 1]
        step = 1 + np.int64(draw(chance) * (high - low + 1))
        if draw(chance) < 0.5:
            memories[group, at] = max(low - step, 0)
        else:
            memories[group, at + 1] = min(high + step, size - 1)


@bare
def sketch(world, now, piece):  # type: ignore[no-untyped-def]
    """Make the template of a class that covers a piece and shows more of it than its class does.

    Whether it does.
    """
    pieces, template = now.pieces, now.classes.shape[0]
    home, entry, axes = pieces[piece, HOME], pieces[piece, ENTRY], world.head.shape[0]
    for slot in range(now.memories.shape[1]):
        now.memories[template, slot] = now.memories[home, slot]
    while True:
        axis = np.int64(draw(now.chance) * axes)
        if draw(now.chance) < NARROW:
            _narrow(world, now, template, axis, np.int64(world.table[entry, axis]))
        else:
            _widen(world, now, template, axis)
        if draw(now.chance) >= MORE:
            break
    cost = group_loss(world.head, world.floats, now.memories, template)
    return cost < now.costs[home] - LEAST


@bare
def _inside(world, now, group, block):  # type: ignore[no-untyped-def]
    """List the entries of a block that a class covers; their number.

    They are looked for along the axis on which the class covers fewest.
    """
    head, ints, table, memories = world.head, world.ints, world.table, now.memories
    begins, along, inside = world.begins, world.along, now.inside
    best, chosen = np.int64(table.shape[0] + 1), 0
    for axis in range(head.shape[0]):
        low, high = span(world, memories, group, axis)
        at = world.starts[axis] + axis
        many = begins[at + high + 1] - begins[at + low]
        if many < best:
            best, chosen = many, axis
    low, high = span(world, memories, group, chosen)
    at, found = world.starts[chosen] + chosen, 0
    for place in range(begins[at + low], begins[at + high + 1]):
        entry = along[chosen, place]
        if world.block[entry] == block and covers(head, ints, memories, group, table, entry):
            inside[found] = entry
            found += 1
    return found


@bare
def _donors(world, now, group, many):  # type: ignore[no-untyped-def]
    """List the classes of the first so many entries listed, and count their rows; how many."""
    pieces, classes, first, found = now.pieces, now.classes, world.first, 0
    for z in range(many):
        for piece in range(first[now.inside[z]], first[now.inside[z] + 1]):
            home = pieces[piece, HOME]
            if home == group:
                continue
            if classes[home, WITHIN] == 0:
                now.donors[found] = home
                found += 1
            classes[home, WITHIN] += pieces[piece, ROWS]
    return found


@bare
def _price_of_parting(world, now, home, template, limit):  # type: ignore[no-untyped-def]
    """What the rows of a class that a template does not cover lose elsewhere; stops at a limit."""
    head, ints, memories, table = world.head, world.ints, now.memories, world.table
    pieces, price, before, cost = now.pieces, 0.0, np.int64(-1), 0.0
    member = now.classes[home, HEAD]
    while member >= 0 and price < limit:
        entry = pieces[member, ENTRY]
        if entry != before:
            before, cost = entry, 0.0
            if not covers(head, ints, memories, template, table, entry):
                _, cost = cheapest_cover(world, now, entry, home, np.inf)
                cost -= now.costs[home]
        price += cost * pieces[member, ROWS]
        member = pieces[member, AFTER]
    return price


@bare
def _claim(world, now, template, found, cost, k):  # type: ignore[no-untyped-def]
    """Decide how many rows each class gives to one that costs less: rows, and what is saved.

    A class gives what it can spare, or everything where the rest is better off elsewhere.
    """
    classes, costs, taken, value = now.classes, now.costs, np.int64(0), 0.0
    for z in range(found):
        home = now.donors[z]
        gain, within = costs[home] - cost, classes[home, WITHIN]
        classes[home, QUOTA] = 0
        if gain <= LEAST:
            continue
        quota, spare = within, max(classes[home, SIZE] - k, 0)
        if spare < within < classes[home, SIZE]:
            more = (within - spare) * gain
            price = _price_of_parting(world, now, home, template, more)
            if price < more:
                value -= price
            else:
                quota = spare
        classes[home, QUOTA] = quota
        value += quota * gain
        taken += quota
    return taken, value


@bare
def _borrow(now, found, cost, lacking, k, limit):  # type: ignore[no-untyped-def]
    """Decide which classes give the rows that are lacking: rows, and what that costs."""
    classes, costs, taken, price = now.classes, now.costs, np.int64(0), 0.0
    while taken < lacking and price < limit:
        least, who = np.inf, -1
        for z in range(found):
            home = now.donors[z]
            can = min(classes[home, WITHIN], classes[home, SIZE] - k) > classes[home, QUOTA]
            if can and cost - costs[home] < least:
                least, who = cost - costs[home], home
        if who < 0:
            break
        most = min(classes[who, WITHIN], classes[who, SIZE] - k) - classes[who, QUOTA]
        rows = min(most, lacking - taken)
        classes[who, QUOTA] += rows
        taken += rows
        price += rows * least
    return taken, price


@bare
def _bring(world, now, group, many):  # type: ignore[no-untyped-def]
    """Move into a class what was decided on, of the first so many entries listed."""
    pieces, classes, first = now.pieces, now.classes, world.first
    for z in range(many):
        for piece in range(first[now.inside[z]], first[now.inside[z] + 1]):
            home, rows = pieces[piece, HOME], pieces[piece, ROWS]
            if home != group and rows <= classes[home, QUOTA]:
                classes[home, QUOTA] -= rows
                move(world, now, piece, group)


@bare
def _forget(now, found):  # type: ignore[no-untyped-def]
    for z in range(found):
        now.classes[now.donors[z], WITHIN] = 0
        now.classes[now.donors[z], QUOTA] = 0


@bare
def gather(world, now, block, k, limit):  # type: ignore[no-untyped-def]
    """Open a class that shows the template and gather whoever loses less there; whether it is open.

    It is not where too few come, or where that seems to lose more than the limit.
    """
    template = now.classes.shape[0]
    cost = group_loss(world.head, world.floats, now.memories, template)
    many = _inside(world, now, template, block)
    found = _donors(world, now, template, many)
    taken, value = _claim(world, now, template, found, cost, k)
    if taken < k:
        more, price = _borrow(now, found, cost, k - taken, k, value + limit)
        taken += more
        value -= price
    group = np.int64(-1)
    if taken >= k and value + limit >= 0.0:
        group = open_class(world, now, template)
    if group >= 0:
        _bring(world, now, group, many)
        if now.classes[group, HEAD] >= 0:
            tighten(world, now, group, now.pieces.shape[0])
    _forget(now, found)
    return group >= 0


@bare
def fill_from_classes(world, now, group, k, limit):  # type: ignore[no-untyped-def]
    """Fill a class that is too small with rows others can spare, below a price; whether it was."""
    block = world.block[now.pieces[now.classes[group, HEAD], ENTRY]]
    many = _inside(world, now, group, block)
    found = _donors(world, now, group, many)
    lacking = k - now.classes[group, SIZE]
    taken, price = _borrow(now, found, now.costs[group], lacking, k, limit)
    good = taken >= lacking and price < limit
    if good:
        _bring(world, now, group, many)
    _forget(now, found)
    return good and now.classes[group, SIZE] >= k
