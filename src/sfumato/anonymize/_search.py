"""Compiled local search over groups of pieces: move, dissolve and reinsert, found new groups.

Pieces know the entries that are near them, and whatever they do they do with those: join a group
that a neighbour is in, or found a new one with neighbours whose groups can spare them. A group
whose pieces all find better places is dissolved. A step that does not gain is undone. No step
leaves a group that fails its rules.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymize._pricing import begin, group_loss, grow_all, loss_with
from sfumato.anonymize.pricing import END
from sfumato.privacy._kernels import holds

__all__ = ["sweep", "total_loss"]

LEAST = 1e-9
"""A gain smaller than this is rounding."""
LARGE = 64
"""Groups of more pieces are not looked through when one leaves: they keep showing what they did."""


@numba.njit(nogil=True, cache=True)
def gather(table, entry, weights, prices, group_of, room):  # type: ignore[no-untyped-def]
    """What groups show, their sizes and losses, and their pieces as lists linked both ways.

    There is room for so many groups, and one more memory.
    """
    head, ints, floats = prices.head, prices.ints, prices.floats
    memories = np.zeros((room + 1, head[-1, END]), np.int64)
    sizes = np.zeros(room, np.int64)
    losses = np.zeros(room)
    heads = np.full(room, -1, np.int64)
    after = np.full(entry.shape[0], -1, np.int64)
    ahead = np.full(entry.shape[0], -1, np.int64)
    for piece in range(entry.shape[0]):
        group = group_of[piece]
        if heads[group] < 0:
            begin(head, ints, memories, group, table, entry[piece])
        else:
            grow_all(head, ints, memories, group, table, entry[piece])
        sizes[group] += weights[piece]
        link(piece, group, heads, after, ahead)
    for group in range(room):
        if heads[group] >= 0:
            losses[group] = group_loss(head, floats, memories, group)
    return memories, sizes, losses, heads, after, ahead


@numba.njit(nogil=True, cache=True)
def unlink(piece, group, heads, after, ahead):  # type: ignore[no-untyped-def]
    if ahead[piece] >= 0:
        after[ahead[piece]] = after[piece]
    else:
        heads[group] = after[piece]
    if after[piece] >= 0:
        ahead[after[piece]] = ahead[piece]


@numba.njit(nogil=True, cache=True)
def link(piece, group, heads, after, ahead):  # type: ignore[no-untyped-def]
    after[piece] = heads[group]
    ahead[piece] = -1
    if heads[group] >= 0:
        ahead[heads[group]] = piece
    heads[group] = piece


@numba.njit(nogil=True, cache=True)
def fine(group, plus, minus, size, heads, after, entry, weights, sensitive, counts, rules):  # type: ignore[no-untyped-def]
    """Whether a group holds its rules with one piece more or one less."""
    if size < rules.k:
        return False
    if rules.kinds.shape[0] == 0:
        return True
    piece = heads[group]
    while piece >= 0:
        if piece != minus:
            for s in range(sensitive.shape[1]):
                counts[sensitive[entry[piece], s]] += weights[piece]
        piece = after[piece]
    if plus >= 0:
        for s in range(sensitive.shape[1]):
            counts[sensitive[entry[plus], s]] += weights[plus]
    good = holds(size, counts, rules)
    piece = heads[group]
    while piece >= 0:
        for s in range(sensitive.shape[1]):
            counts[sensitive[entry[piece], s]] = 0
        piece = after[piece]
    if plus >= 0:
        for s in range(sensitive.shape[1]):
            counts[sensitive[entry[plus], s]] = 0
    return good


@numba.njit(nogil=True, cache=True)
def without(group, piece, heads, after, entry, table, head, ints, memories, spare):  # type: ignore[no-untyped-def]
    """Remember at `spare` what a group shows without a piece."""
    first, seen = True, 0
    other = heads[group]
    while other >= 0:
        if other != piece:
            if first:
                begin(head, ints, memories, spare, table, entry[other])
                first = False
            else:
                grow_all(head, ints, memories, spare, table, entry[other])
            seen += 1
            if seen > LARGE:
                memories[spare] = memories[group]
                return
        other = after[other]


@numba.njit(nogil=True, cache=True)
def _join_price(  # type: ignore[no-untyped-def]
    piece, group, entry, weights, table, head, ints, floats, memories, sizes, losses, limit
):
    """By how much the loss grows when a piece joins a group; stops beyond a limit."""
    weight, size = weights[piece], sizes[group]
    alone = size * losses[group]
    loss = 0.0
    for axis in range(head.shape[0]):
        loss += loss_with(head, ints, floats, memories, group, axis, table[entry[piece], axis])
        if (size + weight) * loss - alone >= limit:
            return np.inf
    return (size + weight) * loss - alone


@numba.njit(nogil=True, cache=True)
def best_home(  # type: ignore[no-untyped-def]
    piece, home, entry, weights, table, near, first_piece, group_of, stamp, stamps, sensitive,
    counts, rules, heads, after, head, ints, floats, memories, sizes, losses, limit,
):  # fmt: skip
    """The group of a neighbour that a piece joins at the least price below a limit, or -1."""
    stamps[0] += 1
    mark = stamps[0]
    stamp[home] = mark
    best, found = limit, -1
    for z in range(-1, near.shape[1]):
        friend = entry[piece] if z < 0 else near[entry[piece], z]
        if friend < 0:
            break
        for other in range(first_piece[friend], first_piece[friend + 1]):
            group = group_of[other]
            if stamp[group] == mark:
                continue
            stamp[group] = mark
            price = _join_price(
                piece,
                group,
                entry,
                weights,
                table,
                head,
                ints,
                floats,
                memories,
                sizes,
                losses,
                best,
            )
            if price < best and (
                rules.kinds.shape[0] == 0
                or fine(
                    group, piece, -1, sizes[group] + weights[piece], heads, after, entry, weights,
                    sensitive, counts, rules,
                )
            ):  # fmt: skip
                best, found = price, group
    return found, best


@numba.njit(nogil=True, cache=True)
def _found(  # type: ignore[no-untyped-def]
    piece, fresh, entry, weights, table, near, first_piece, group_of, k, head, ints, floats,
    memories, sizes, losses, chosen, limit,
):  # fmt: skip
    """Found a group of a piece and neighbours that their groups can spare.

    Whoever costs least joins until there are enough. Returns the number of members, which are in
    `chosen`; 0 where the loss would not grow by less than the limit.
    """
    home = group_of[piece]
    begin(head, ints, memories, fresh, table, entry[piece])
    size, cost, lent, many = weights[piece], 0.0, 0.0, 1
    chosen[0] = piece
    while size < k:
        best, found = np.inf, -1
        for z in range(-1, near.shape[1]):
            friend = entry[piece] if z < 0 else near[entry[piece], z]
            if friend < 0:
                break
            for other in range(first_piece[friend], first_piece[friend + 1]):
                lender = group_of[other]
                if other == piece or (lender != home and sizes[lender] - weights[other] < k):
                    continue
                taken = False
                spared = weights[other]
                for c in range(1, many):
                    if chosen[c] == other:
                        taken = True
                    if group_of[chosen[c]] == lender:
                        spared += weights[chosen[c]]
                if taken or (lender != home and sizes[lender] - spared < k):
                    continue
                gift = weights[other] * losses[lender]
                loss = 0.0
                for axis in range(head.shape[0]):
                    loss += loss_with(
                        head, ints, floats, memories, fresh, axis, table[friend, axis]
                    )
                    if size * (loss - cost) + weights[other] * loss >= best + gift:
                        break
                full = size * (loss - cost) + weights[other] * loss - gift
                if full < best:
                    best, found = full, other
        if found < 0:
            return 0
        chosen[many] = found
        many += 1
        lent += weights[found] * losses[group_of[found]]
        size += weights[found]
        grow_all(head, ints, memories, fresh, table, entry[found])
        cost = group_loss(head, floats, memories, fresh)
    if size * cost - lent >= limit:
        return 0
    return many


@numba.njit(nogil=True, cache=True)
def _save(group, journal, memories, sizes, losses, saved, saved_sizes, saved_losses, touched, mark):  # type: ignore[no-untyped-def]
    """Keep what a group was before a step, once."""
    if touched[group] == mark:
        return journal
    touched[group] = mark
    saved[journal] = memories[group]
    saved_sizes[journal] = sizes[group]
    saved_losses[journal] = losses[group]
    return journal + 1


@numba.njit(nogil=True, cache=True)
def sweep(  # type: ignore[no-untyped-def]
    table, entry, weights, sensitive, first_piece, near, prices, rules, group_of
):
    """Try every group once, worst first; changes `group_of`, returns what was gained.

    Parameters
    ----------
    entry, weights
        Entry of each piece (ascending) and the rows it stands for.
    first_piece
        Pieces of entry e are ``first_piece[e] … first_piece[e + 1] - 1``.
    near
        Neighbours of each entry.
    group_of
        Group of each piece, dense.
    """
    head, ints, floats = prices.head, prices.ints, prices.floats
    pieces = entry.shape[0]
    groups = np.int64(0)
    rows = np.int64(0)
    for piece in range(pieces):
        groups = max(groups, group_of[piece] + 1)
        rows += weights[piece]
    room = groups + rows // max(rules.k, 1) + 2
    memories, sizes, losses, heads, after, ahead = gather(
        table, entry, weights, prices, group_of, room
    )
    spare = room
    free = np.empty(room, np.int64)
    freed = 0
    for group in range(room - 1, groups - 1, -1):
        free[freed] = group
        freed += 1
    stamp = np.zeros(room, np.int64)
    stamps = np.zeros(1, np.int64)
    touched = np.zeros(room, np.int64)
    mark = np.int64(0)
    counts = np.zeros(rules.offsets[-1], np.int64)
    depth = 4096
    saved = np.zeros((depth, head[-1, END]), np.int64)
    saved_groups = np.zeros(depth, np.int64)
    saved_sizes = np.zeros(depth, np.int64)
    saved_losses = np.zeros(depth)
    moved = np.zeros(depth, np.int64)
    moved_from = np.zeros(depth, np.int64)
    chosen = np.zeros(rules.k + 1, np.int64)
    gained = 0.0
    worst = np.argsort(-losses[:groups])
    for turn in range(groups):
        pivot = worst[turn]
        if sizes[pivot] == 0 or losses[pivot] <= 0.0:
            continue
        # one step: pieces leave the pivot one by one; if too few remain, all must go
        mark += 1
        journal, moves = 0, 0
        total = 0.0
        stuck = False
        piece = heads[pivot]
        tried = 0
        while piece >= 0:
            following = after[piece]
            tried += 1
            if tried > LARGE or moves + rules.k + 2 >= depth or journal + rules.k + 2 >= depth:
                stuck = True
                break
            # join a group of a neighbour
            target, price = best_home(
                piece, pivot, entry, weights, table, near, first_piece, group_of, stamp, stamps,
                sensitive, counts, rules, heads, after, head, ints, floats, memories, sizes, losses,
                np.inf,
            )  # fmt: skip
            # or found one with neighbours that can be spared
            fresh, many = -1, 0
            if freed > 0 and rules.k > 1:
                fresh = free[freed - 1]
                many = _found(
                    piece, fresh, entry, weights, table, near, first_piece, group_of, rules.k, head,
                    ints, floats, memories, sizes, losses, chosen, price - LEAST,
                )  # fmt: skip
            if many == 0 and target < 0:
                stuck = True
                break
            if many > 0 and rules.kinds.shape[0]:
                size = np.int64(0)
                for c in range(many):
                    size += weights[chosen[c]]
                    for s in range(sensitive.shape[1]):
                        counts[sensitive[entry[chosen[c]], s]] += weights[chosen[c]]
                good = holds(size, counts, rules)
                for c in range(many):
                    for s in range(sensitive.shape[1]):
                        counts[sensitive[entry[chosen[c]], s]] = 0
                for c in range(1, many):
                    lender = group_of[chosen[c]]
                    if lender != pivot:
                        good = good and fine(
                            lender, -1, chosen[c], sizes[lender] - weights[chosen[c]], heads, after,
                            entry, weights, sensitive, counts, rules,
                        )  # fmt: skip
                        for d in range(1, c):
                            good = good and group_of[chosen[d]] != lender
                if not good:
                    many = 0
                    if target < 0:
                        stuck = True
                        break
            if many > 0:
                target = fresh
                freed -= 1
                touched[fresh] = mark
                saved_groups[journal] = fresh
                saved_sizes[journal] = 0
                saved_losses[journal] = 0.0
                journal += 1
                sizes[fresh] = 0
                losses[fresh] = 0.0
                heads[fresh] = -1
            else:
                chosen[0] = piece
                many = 1
            for c in range(many):
                mover = chosen[c]
                if mover == following:
                    following = after[following]
                source = group_of[mover]
                for side in range(2):
                    group = source if side == 0 else target
                    before = journal
                    journal = _save(
                        group, journal, memories, sizes, losses, saved, saved_sizes, saved_losses,
                        touched, mark,
                    )  # fmt: skip
                    if journal > before:
                        saved_groups[before] = group
                total -= sizes[source] * losses[source]
                if source != pivot:
                    without(source, mover, heads, after, entry, table, head, ints, memories, spare)
                    memories[source] = memories[spare]
                unlink(mover, source, heads, after, ahead)
                sizes[source] -= weights[mover]
                if source == pivot and sizes[source] > 0:
                    without(source, -1, heads, after, entry, table, head, ints, memories, spare)
                    memories[source] = memories[spare]
                losses[source] = (
                    group_loss(head, floats, memories, source) if sizes[source] > 0 else 0.0
                )
                total += sizes[source] * losses[source]
                total -= sizes[target] * losses[target]
                if sizes[target] == 0:
                    begin(head, ints, memories, target, table, entry[mover])
                else:
                    grow_all(head, ints, memories, target, table, entry[mover])
                link(mover, target, heads, after, ahead)
                sizes[target] += weights[mover]
                group_of[mover] = target
                losses[target] = group_loss(head, floats, memories, target)
                total += sizes[target] * losses[target]
                moved[moves] = mover
                moved_from[moves] = source
                moves += 1
            # a step may end when the pivot is gone or holds; it is kept if it gained
            if sizes[pivot] == 0:
                break
            if total < -LEAST and fine(
                pivot, -1, -1, sizes[pivot], heads, after, entry, weights, sensitive, counts, rules
            ):
                gained -= total
                total = 0.0
                journal, moves = 0, 0
                mark += 1
            piece = following
        done = not stuck and total < -LEAST
        if done and sizes[pivot] > 0:
            done = fine(
                pivot, -1, -1, sizes[pivot], heads, after, entry, weights, sensitive, counts, rules
            )
        if done:
            gained -= total
            if sizes[pivot] == 0:
                free[freed] = pivot
                freed += 1
            continue
        for z in range(moves - 1, -1, -1):
            mover = moved[z]
            unlink(mover, group_of[mover], heads, after, ahead)
            link(mover, moved_from[z], heads, after, ahead)
            group_of[mover] = moved_from[z]
        for z in range(journal):
            group = saved_groups[z]
            memories[group] = saved[z]
            sizes[group] = saved_sizes[z]
            losses[group] = saved_losses[z]
            if sizes[group] == 0:
                free[freed] = group
                freed += 1
    return gained


@numba.njit(nogil=True, cache=True)
def total_loss(table, entry, weights, prices, group_of):  # type: ignore[no-untyped-def]
    """What all pieces lose together."""
    groups = np.int64(0)
    for piece in range(entry.shape[0]):
        groups = max(groups, group_of[piece] + 1)
    _, sizes, losses, _, _, _ = gather(table, entry, weights, prices, group_of, groups)
    return (sizes * losses).sum()
