"""Compiled search: disturb a few classes, repair them, and keep that if it gained or nearly did.

A step founds a class around a piece with pieces near it, or lets a piece go elsewhere, or closes a
class. Classes that are too small then take pieces that others can spare, or are closed in turn.
Steps that lose something are kept now and then, the less often the later it is (simulated
annealing, Kirkpatrick, Gelatt & Vecchi 1983). No step that is kept leaves a class that fails its
rules.
"""

from __future__ import annotations

import numpy as np

from sfumato.anonymization._classes import (
    AFTER,
    CHANGES,
    ENTRY,
    HEAD,
    HOME,
    JOINED,
    LEFT,
    MOVES,
    OPEN,
    ROWS,
    SIZE,
    STEP,
    begin_step,
    close_class,
    draw,
    keep,
    move,
    open_class,
    take_back,
    undo,
)
from sfumato.anonymization._compiled import bare
from sfumato.anonymization._moves import (
    LARGE,
    LEAST,
    cheapest_cover,
    founders,
    settle,
    spare_piece,
    tighten,
)
from sfumato.privacy._kernels import holds

__all__ = ["anneal"]

CLOSE, JOIN = 0.03, 0.3
"""Share of the steps that close a class, and of those that move a single piece."""
HARM, NOISE = 0.5, 0.5
"""Most that a piece is thought to be missed in a class that is just large enough, and most by
which its loss is misjudged, so that other founders are chosen the next time. In units."""
SLACK = 4.0
"""Repair goes on while the loss has grown by no more units than this beyond what may be kept."""


@bare
def _room(now, rows):  # type: ignore[no-untyped-def]
    """Whether so many more moves can be written down."""
    return (
        now.count[MOVES] + rows < now.moved.shape[0]
        and now.count[CHANGES] + rows < now.changed.shape[0]
    )


@bare
def _evacuate(world, now, group):  # type: ignore[no-untyped-def]
    """Close a class and settle its pieces elsewhere; whether all found a place."""
    if not _room(now, now.classes[group, SIZE] + 1):
        return False
    close_class(world, now, group)
    while now.classes[group, HEAD] >= 0:
        if not settle(world, now, now.classes[group, HEAD], group):
            return False
    return True


@bare
def _price_of_closing(world, now, group):  # type: ignore[no-untyped-def]
    """What a small class would lose if each of its pieces joined a class that covers it."""
    pieces, price = now.pieces, 0.0
    member = now.classes[group, HEAD]
    while member >= 0:
        _, cost = cheapest_cover(world, now, pieces[member, ENTRY], group, np.inf)
        price += pieces[member, ROWS] * (cost - now.costs[group])
        member = pieces[member, AFTER]
    return price


@bare
def _fill_up(world, now, group, k):  # type: ignore[no-untyped-def]
    """Fill a small class with spare pieces if that is cheaper than closing it; whether it was."""
    if not _room(now, k):
        return False
    moves, price = now.count[MOVES], 0.0
    limit = _price_of_closing(world, now, group)
    while now.classes[group, SIZE] < k:
        piece, more = spare_piece(world, now, group, k)
        price += more
        if piece < 0 or price >= limit:
            take_back(now, moves)
            return False
        move(now, piece, group)
    return True


@bare
def _holds(world, now, group, rules, counts):  # type: ignore[no-untyped-def]
    """Whether a class satisfies all rules."""
    pieces, classes, sensitive = now.pieces, now.classes, world.sensitive
    if classes[group, SIZE] < rules.k or rules.kinds.shape[0] == 0:
        return classes[group, SIZE] >= rules.k
    counts[:] = 0
    member = classes[group, HEAD]
    while member >= 0:
        for s in range(sensitive.shape[1]):
            counts[sensitive[pieces[member, ENTRY], s]] += pieces[member, ROWS]
        member = pieces[member, AFTER]
    return holds(classes[group, SIZE], counts, rules)


@bare
def _repair(world, now, rules, counts, limit):  # type: ignore[no-untyped-def]
    """Close or fill up every changed class that fails; whether all was put right."""
    classes, changed, at = now.classes, now.changed, 0
    while at < now.count[CHANGES]:
        group = changed[at, 0]
        at += 1
        if not classes[group, OPEN]:
            continue
        if classes[group, HEAD] < 0:
            close_class(world, now, group)
        elif not _holds(world, now, group, rules, counts):
            if now.change[0] > limit:
                return False
            if classes[group, SIZE] < rules.k and _fill_up(world, now, group, rules.k):
                at -= 1  # it may still fail for another reason
            elif not _evacuate(world, now, group):
                return False
    return True


@bare
def _relieve(world, now, k):  # type: ignore[no-untyped-def]
    """Let classes that were joined pass on what they can spare to cheaper ones that cover it."""
    pieces, classes, costs = now.pieces, now.classes, now.costs
    for at in range(now.count[CHANGES]):
        group, looked = now.changed[at, 0], 0
        if not classes[group, OPEN] or classes[group, JOINED] != now.count[STEP]:
            continue
        member = classes[group, HEAD]
        while member >= 0 and classes[group, SIZE] > k and looked < LARGE and _room(now, 2):
            looked, following = looked + 1, pieces[member, AFTER]
            if classes[group, SIZE] - pieces[member, ROWS] >= k:
                limit = costs[group] - LEAST
                better, _ = cheapest_cover(world, now, pieces[member, ENTRY], group, limit)
                if better >= 0:
                    move(now, member, better)
            member = following


@bare
def _tidy(world, now, rules, counts):  # type: ignore[no-untyped-def]
    """Last touches of a step; whether all changed classes hold."""
    classes = now.classes
    for at in range(now.count[CHANGES]):
        group = now.changed[at, 0]
        if classes[group, OPEN] and classes[group, LEFT] == now.count[STEP]:
            tighten(world, now, group)
    if rules.kinds.shape[0]:
        for at in range(now.count[CHANGES]):
            group = now.changed[at, 0]
            if classes[group, OPEN] and not _holds(world, now, group, rules, counts):
                return False
    return True


@bare
def _disturb(world, now, piece, k, unit, company):  # type: ignore[no-untyped-def]
    """Begin a step at a piece; whether there is anything to repair and to judge."""
    home = now.pieces[piece, HOME]
    kind = draw(now.chance)
    if kind < CLOSE:
        return _evacuate(world, now, home)
    if kind < CLOSE + JOIN:
        return settle(world, now, piece, home)
    many = founders(world, now, piece, k, HARM * unit, NOISE * unit, company)
    familiar = True
    for c in range(many):
        familiar = familiar and now.pieces[company.chosen[c], HOME] == home
    if familiar:
        return False
    group = open_class(world, now, now.classes.shape[0])
    if group < 0:
        return False
    for c in range(many):
        move(now, company.chosen[c], group)
    return True


@bare
def anneal(world, now, company, rules, counts, turns, unit, heat, cooling):  # type: ignore[no-untyped-def]
    """Take a step at each of these pieces in turn; returns by how much the loss has fallen.

    Parameters
    ----------
    turns
        Pieces to begin at. Those in cheap classes are often passed over.
    unit
        What a row in an expensive class loses; other losses are judged by it.
    heat, cooling
        Loss in units that is kept with probability 1/e at first, and what that is multiplied by
        each turn.
    """
    pieces, costs, gained = now.pieces, now.costs, 0.0
    for turn in range(turns.shape[0]):
        heat *= cooling
        piece = turns[turn]
        home, entry = pieces[piece, HOME], pieces[piece, ENTRY]
        if costs[home] <= unit * draw(now.chance):
            continue
        if piece > world.first[entry] and pieces[piece - 1, HOME] == home:
            continue  # no different from the one before it
        begin_step(now)
        loss = -heat * unit * np.log(1.0 - draw(now.chance))
        good = _disturb(world, now, piece, rules.k, unit, company)
        good = good and _repair(world, now, rules, counts, loss + SLACK * unit)
        if good:
            _relieve(world, now, rules.k)
            good = _tidy(world, now, rules, counts)
        if good and now.change[0] <= loss:
            gained -= now.change[0]
            keep(now)
        else:
            undo(world, now)
    return gained
