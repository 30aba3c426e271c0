"""Compiled exchanges: a piece leaves a group and another takes its place.

The newcomer is near one of those that stay. Either the two change places, or the newcomer comes
from a group that can spare it and the one that leaves joins the group where it hurts least. Groups
that are just large enough, from which nobody can simply move away, are no obstacle to this.
"""

from __future__ import annotations

import numba
import numpy as np

from sfumato.anonymize._pricing import group_loss, loss_with
from sfumato.anonymize._search import LEAST, best_home, fine, gather, link, unlink, without

__all__ = ["exchange"]


@numba.njit(nogil=True, cache=True)
def _renew(group, heads, after, entry, table, head, ints, floats, memories, losses):  # type: ignore[no-untyped-def]
    """Look anew at what a group shows and loses."""
    without(group, -1, heads, after, entry, table, head, ints, memories, memories.shape[0] - 1)
    memories[group] = memories[memories.shape[0] - 1]
    losses[group] = group_loss(head, floats, memories, group)


@numba.njit(nogil=True, cache=True)
def exchange(table, entry, weights, sensitive, first_piece, near, prices, rules, group_of, reach):  # type: ignore[no-untyped-def]
    """Offer every piece an exchange; changes `group_of`, returns what was gained.

    Newcomers are looked for among the first `reach` neighbours of those that stay; the other
    parameters are those of `sweep`.
    """
    head, ints, floats = prices.head, prices.ints, prices.floats
    pieces, columns = entry.shape[0], table.shape[1]
    groups = np.int64(0)
    for piece in range(pieces):
        groups = max(groups, group_of[piece] + 1)
    memories, sizes, losses, heads, after, ahead = gather(
        table, entry, weights, prices, group_of, groups + 2
    )
    spare, guest = groups, groups + 1  # the memory's last row is for `_renew`
    stamp = np.zeros(groups + 2, np.int64)
    stamps = np.zeros(1, np.int64)
    asked = np.full(pieces, -1, np.int64)
    counts = np.zeros(rules.offsets[-1], np.int64)
    gained = 0.0
    for piece in range(pieces):
        home = group_of[piece]
        if losses[home] <= 0.0:
            continue
        weight = weights[piece]
        rest = sizes[home] - weight
        if rest <= 0:
            continue
        without(home, piece, heads, after, entry, table, head, ints, memories, spare)
        now = sizes[home] * losses[home]
        other_home, price = best_home(
            piece, home, entry, weights, table, near, first_piece, group_of, stamp, stamps,
            sensitive, counts, rules, heads, after, head, ints, floats, memories, sizes, losses,
            np.inf,
        )  # fmt: skip
        best, newcomer, swap = -LEAST, -1, True
        stays, looked = heads[home], 0
        while stays >= 0 and looked < 8:
            if stays == piece:
                stays = after[stays]
                continue
            looked += 1
            for z in range(-1, reach):
                friend = entry[stays] if z < 0 else near[entry[stays], z]
                if friend < 0:
                    break
                for other in range(first_piece[friend], first_piece[friend + 1]):
                    source = group_of[other]
                    size = rest + weights[other]
                    if source == home or asked[other] == piece or size < rules.k:
                        continue
                    asked[other] = piece
                    there = sizes[source] * losses[source]
                    limit = best + now + there
                    loss = 0.0
                    for axis in range(columns):
                        loss += loss_with(
                            head, ints, floats, memories, spare, axis, table[friend, axis]
                        )
                        if size * loss >= limit:
                            break
                    if size * loss >= limit:
                        continue
                    left = sizes[source] - weights[other]
                    if left == 0:
                        continue
                    without(source, other, heads, after, entry, table, head, ints, memories, guest)
                    change = size * loss - now - there
                    if left >= rules.k and other_home >= 0 and other_home != source:
                        full = change + left * group_loss(head, floats, memories, guest) + price
                        if full < best:
                            best, newcomer, swap = full, other, False
                    if left + weight >= rules.k:
                        loss = 0.0
                        for axis in range(columns):
                            loss += loss_with(
                                head, ints, floats, memories, guest, axis, table[entry[piece], axis]
                            )
                        full = change + (left + weight) * loss
                        if full < best:
                            best, newcomer, swap = full, other, True
            stays = after[stays]
        if newcomer < 0:
            continue
        source = group_of[newcomer]
        if rules.kinds.shape[0]:
            size = rest + weights[newcomer]
            left = sizes[source] - weights[newcomer]
            if not fine(
                home, newcomer, piece, size, heads, after, entry, weights, sensitive, counts, rules
            ):
                continue
            leaver = piece if swap else -1
            left += weight if swap else 0
            if not fine(
                source, leaver, newcomer, left, heads, after, entry, weights, sensitive, counts,
                rules,
            ):  # fmt: skip
                continue
        target = source if swap else other_home
        unlink(piece, home, heads, after, ahead)
        unlink(newcomer, source, heads, after, ahead)
        link(piece, target, heads, after, ahead)
        link(newcomer, home, heads, after, ahead)
        group_of[piece], group_of[newcomer] = target, home
        sizes[home] += weights[newcomer] - weight
        sizes[source] -= weights[newcomer]
        sizes[target] += weight
        _renew(home, heads, after, entry, table, head, ints, floats, memories, losses)
        _renew(source, heads, after, entry, table, head, ints, floats, memories, losses)
        if not swap:
            _renew(target, heads, after, entry, table, head, ints, floats, memories, losses)
        gained -= best
    return gained
