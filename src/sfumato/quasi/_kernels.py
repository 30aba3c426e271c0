"""Compiled searches of the lattice of column sets."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["hitting_sets", "search_below"]

MERGED = 1 << 14
"""Entries are merged when the columns left have at most so many combinations."""


@numba.njit(nogil=True, cache=True)
def _count_large(values, weights, cardinality, lanes):  # type: ignore[no-untyped-def]
    """Pairs and number of parts of one class that holds many entries a value.

    Neighbours count in tables of their own: equal ones would wait for each other's additions.
    """
    lanes[: 4 * cardinality] = 0
    size = values.shape[0]
    at = 0
    while at + 3 < size:
        lanes[4 * np.int64(values[at])] += weights[at]
        lanes[4 * np.int64(values[at + 1]) + 1] += weights[at + 1]
        lanes[4 * np.int64(values[at + 2]) + 2] += weights[at + 2]
        lanes[4 * np.int64(values[at + 3]) + 3] += weights[at + 3]
        at += 4
    while at < size:
        lanes[4 * np.int64(values[at])] += weights[at]
        at += 1
    pairs, parts = 0, 0
    for value in range(cardinality):
        first = 4 * value
        rows = lanes[first] + lanes[first + 1] + lanes[first + 2] + lanes[first + 3]
        pairs += rows * (rows - 1) // 2
        parts += rows > 0
    return pairs, parts


@numba.njit(nogil=True, cache=True)
def _count(  # type: ignore[no-untyped-def]
    values, weights, starts, classes, cardinality, sums, lanes, most_pairs, least_parts
):
    """Pairs of rows that one more column leaves together, and the parts it makes of the classes.

    Gives up with what it has as soon as there are more pairs than `most_pairs`, or there cannot be
    `least_parts` parts any more.
    """
    pairs, parts = 0, 0
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        if pairs > most_pairs or parts + starts[classes] - begin < least_parts:
            return pairs, parts
        if end - begin == 2:  # most classes of a deep partition
            first, second = weights[begin], weights[begin + 1]
            pairs += (first * (first - 1) + second * (second - 1)) // 2
            if values[begin] == values[begin + 1]:
                pairs += first * second
                parts += 1
            else:
                parts += 2
        elif end - begin >= 4 * cardinality:
            more = _count_large(values[begin:end], weights[begin:end], cardinality, lanes)
            pairs += more[0]
            parts += more[1]
        else:
            for i in range(begin, end):
                before, weight = sums[values[i]], weights[i]
                pairs += before * weight + weight * (weight - 1) // 2
                parts += before == 0
                sums[values[i]] = before + weight
            for i in range(begin, end):
                sums[values[i]] = 0
    return pairs, parts


@numba.njit(nogil=True, cache=True)
def _makes_smaller(values, weights, starts, classes, k, sums):  # type: ignore[no-untyped-def]
    """Whether one more column makes a class of fewer than k rows."""
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        for i in range(begin, end):
            sums[values[i]] += weights[i]
        small = False
        for i in range(begin, end):
            small |= 0 < sums[values[i]] < k
            sums[values[i]] = -1
        for i in range(begin, end):
            sums[values[i]] = 0
        if small:
            return True
    return False


@numba.njit(nogil=True, cache=True)
def _split(values, weights, starts, classes, sums, place, order, new_starts):  # type: ignore[no-untyped-def]
    """Where the entries of a finer partition come from; classes of one entry are dropped.

    Returns the number of classes, of their entries, of classes dropped, and of pairs in those.
    """
    filled, made, alone, fixed = 0, 0, 0, 0
    for c in range(classes):
        begin, end = starts[c], starts[c + 1]
        for i in range(begin, end):
            sums[values[i]] += 1
        for i in range(begin, end):
            value = values[i]
            if sums[value] > 1:
                new_starts[made] = filled
                made += 1
                place[value] = filled
                filled += sums[value]
                sums[value] = -1
            if sums[value] == -1:
                order[place[value]] = i
                place[value] += 1
            else:
                alone += 1
                fixed += weights[i] * (weights[i] - 1) // 2
        for i in range(begin, end):
            sums[values[i]] = 0
    new_starts[made] = filled
    return made, filled, alone, fixed


@numba.njit(nogil=True, cache=True)
def _gather(table, weights, columns, order, filled):  # type: ignore[no-untyped-def]
    """The first columns of a table at some entries, in their order, and the entries' weights."""
    taken = np.empty((columns, filled), table.dtype)
    for column in range(columns):
        for i in range(filled):
            taken[column, i] = table[column, order[i]]
    return taken, weights[order[:filled]]


@numba.njit(nogil=True, cache=True)
def _merge(table, weights, starts, classes, cardinalities, combinations, seen):  # type: ignore[no-untyped-def]
    """Make one entry of the entries of a class that agree in all columns left, in place.

    What is still to come cannot tell them apart. Classes of one entry are dropped; returns the
    number of classes, of their entries, of classes dropped, and of pairs in those.
    """
    columns = table.shape[0]
    filled, made, alone, fixed = 0, 0, 0, 0
    keys = np.empty(combinations, np.int64)
    begin = starts[0]
    for c in range(classes):
        end, first = starts[c + 1], filled
        for i in range(begin, end):
            key = np.int64(0)
            for column in range(columns):
                key = key * cardinalities[column] + table[column, i]
            at = seen[key]
            if at < 0:
                seen[key] = filled
                keys[filled - first] = key
                for column in range(columns):
                    table[column, filled] = table[column, i]
                weights[filled] = weights[i]
                filled += 1
            else:
                weights[at] += weights[i]
        for i in range(filled - first):
            seen[keys[i]] = -1
        begin = end
        if filled - first == 1:
            alone += 1
            fixed += weights[first] * (weights[first] - 1) // 2
            filled = first
        else:
            starts[made] = first
            made += 1
    starts[made] = filled
    return made, filled, alone, fixed


@numba.njit(nogil=True, cache=True)
def _holds_known(mask, known, heads, nexts, bit):  # type: ignore[no-untyped-def]
    """Whether a known set that contains `bit` lies within `mask`."""
    at = heads[bit]
    while at >= 0:
        if known[at] & ~mask == 0:
            return True
        at = nexts[at * 64 + bit]
    return False


@numba.njit(nogil=True, cache=True)
def search_below(  # type: ignore[no-untyped-def]
    table, cardinalities, weights, top, max_pairs, min_classes, k, max_size, known, found, every
):
    """All minimal good sets whose highest column is `top`, given those below it.

    Sets are visited in the order of their bit masks, so that every subset of a set comes before
    it; supersets of a good set are skipped. A set is good if it leaves at most `max_pairs` pairs
    of rows together and makes at least `min_classes` classes; or, where `k` is not 0, if it makes
    a class of fewer than k rows.

    `known` holds the good sets found so far and receives new ones from `found` on. With `every`
    given (pairs and classes of each mask), nothing is skipped and all sets are written down.
    Returns the number of known sets, or -1 - that number when `known` is full.
    """
    m, n = table.shape
    depth_limit = min(max_size, top + 1)
    widest = 1
    for c in range(m):
        widest = max(widest, cardinalities[c])
    sums = np.zeros(widest, np.int64)
    lanes = np.zeros(4 * widest, np.int64)
    place = np.zeros(widest, np.int64)
    order = np.empty(n, np.int64)
    seen = np.full(MERGED, -1, np.int64)
    starts = np.zeros((depth_limit + 1, n // 2 + 2), np.int64)
    classes = np.zeros(depth_limit + 1, np.int64)
    alone = np.zeros(depth_limit + 1, np.int64)
    fixed = np.zeros(depth_limit + 1, np.int64)
    masks = np.zeros(depth_limit + 1, np.uint64)
    cursor = np.zeros(depth_limit + 1, np.int64)
    lowest = np.zeros(depth_limit + 1, np.int64)
    heads = np.full(64, -1, np.int64)
    nexts = np.full(known.shape[0] * 64, -1, np.int64)
    one = np.uint64(1)
    for at in range(found):
        for bit in range(m):
            if known[at] >> np.uint64(bit) & one:
                nexts[at * 64 + bit] = heads[bit]
                heads[bit] = at
    all_sets = every.shape[0] > 0
    no_limit = np.iinfo(np.int64).max
    # Entries are copied into the order of their classes, so that all loops run through memory.
    tables = [table] * (depth_limit + 1)
    weight = [weights] * (depth_limit + 1)
    starts[0, 0], starts[0, 1] = 0, n
    classes[0] = 1 if n > 0 else 0
    cursor[0], lowest[0] = top, top + 1
    depth = 0
    while depth >= 0:
        column = cursor[depth]
        if column >= lowest[depth] or depth >= depth_limit:
            depth -= 1
            continue
        cursor[depth] += 1
        mask = masks[depth] | (one << np.uint64(column))
        if not all_sets and _holds_known(mask, known, heads, nexts, column):
            continue
        values = tables[depth][column]
        if k:
            good = _makes_smaller(values, weight[depth], starts[depth], classes[depth], k, sums)
        else:
            pairs, parts = _count(
                values,
                weight[depth],
                starts[depth],
                classes[depth],
                cardinalities[column],
                sums,
                lanes,
                no_limit if all_sets else max_pairs - fixed[depth],
                0 if all_sets else min_classes - alone[depth],
            )
            pairs += fixed[depth]
            parts += alone[depth]
            good = pairs <= max_pairs and parts >= min_classes and not all_sets
            if all_sets:
                every[mask, 0], every[mask, 1] = pairs, parts
        if good:
            if found == known.shape[0]:
                return -1 - found
            known[found] = mask
            for bit in range(m):
                if mask >> np.uint64(bit) & one:
                    nexts[found * 64 + bit] = heads[bit]
                    heads[bit] = found
            found += 1
            continue
        if column == 0 or depth + 1 >= depth_limit:
            continue
        down = depth + 1
        made, filled, dropped, pairs_in = _split(
            values, weight[depth], starts[depth], classes[depth], sums, place, order, starts[down]
        )
        alone[down] = alone[depth] + dropped
        fixed[down] = fixed[depth] + pairs_in
        smaller, lighter = _gather(tables[depth], weight[depth], column, order, filled)
        combinations = 1
        for c in range(column):
            combinations = min(combinations * cardinalities[c], MERGED + 1)
        if column >= 2 and combinations <= MERGED and 2 * made < filled:
            made, filled, dropped, pairs_in = _merge(
                smaller, lighter, starts[down], made, cardinalities, combinations, seen
            )
            alone[down] += dropped
            fixed[down] += pairs_in
        if not all_sets and k == 0:
            # Rows of one entry stay together whatever columns are still to come.
            stuck = fixed[down]
            for i in range(filled):
                stuck += lighter[i] * (lighter[i] - 1) // 2
            if stuck > max_pairs or alone[down] + filled < min_classes:
                continue
        classes[down] = made
        tables[down] = smaller
        weight[down] = lighter
        masks[down] = mask
        cursor[down], lowest[down] = 0, column
        depth = down
    return found


@numba.njit(nogil=True, cache=True)
def hitting_sets(edges, words, limit, max_size):  # type: ignore[no-untyped-def]
    """All minimal sets of vertices that hit every edge (Murakami & Uno's MMCS).

    `edges` says for each vertex, as bits of `words` words, which edges contain it. Returns the
    sets as rows of booleans, at most `limit` of them, and whether these are all (of at most
    `max_size` vertices).
    """
    vertices = edges.shape[0]
    count = 0
    out = np.zeros((256, vertices), np.bool_)
    everything = np.zeros(words, np.uint64)
    for v in range(vertices):
        for w in range(words):
            everything[w] |= edges[v, w]
    uncovered = np.zeros((vertices + 2, words), np.uint64)
    critical = np.zeros((vertices + 2, vertices + 1, words), np.uint64)
    chosen = np.zeros(vertices + 1, np.int64)
    candidate = np.zeros((vertices + 2, vertices), np.bool_)
    branch = np.zeros((vertices + 2, vertices), np.int64)
    branches = np.zeros(vertices + 2, np.int64)
    cursor = np.zeros(vertices + 2, np.int64)
    uncovered[0] = everything
    candidate[0, :] = True
    depth = 0
    branches[0] = -1
    while depth >= 0:
        if branches[depth] < 0:  # first visit of this node
            edge = _thinnest(edges, uncovered[depth], candidate[depth], words)
            if edge < 0:
                if count == limit:
                    return out[:count], False
                if count == out.shape[0]:
                    grown = np.zeros((2 * count, vertices), np.bool_)
                    grown[:count] = out
                    out = grown
                for i in range(depth):
                    out[count, chosen[i]] = True
                count += 1
                depth -= 1
                continue
            if depth >= max_size:
                depth -= 1
                continue
            branches[depth] = 0
            cursor[depth] = 0
            word, bit = edge >> 6, np.uint64(edge & 63)
            for v in range(vertices):
                if candidate[depth, v] and (edges[v, word] >> bit) & np.uint64(1):
                    branch[depth, branches[depth]] = v
                    branches[depth] += 1
                    candidate[depth, v] = False
        if cursor[depth] >= branches[depth]:
            depth -= 1
            continue
        v = branch[depth, cursor[depth]]
        cursor[depth] += 1
        minimal = True
        for i in range(depth):
            alive = False
            for w in range(words):
                left = critical[depth, i, w] & ~edges[v, w]
                critical[depth + 1, i, w] = left
                alive |= left != 0
            if not alive:
                minimal = False
                break
        if not minimal:
            continue
        for w in range(words):
            critical[depth + 1, depth, w] = uncovered[depth, w] & edges[v, w]
            uncovered[depth + 1, w] = uncovered[depth, w] & ~edges[v, w]
        chosen[depth] = v
        candidate[depth + 1] = candidate[depth]
        candidate[depth, v] = True  # for the siblings that follow
        depth += 1
        branches[depth] = -1
    return out[:count], True


@numba.njit(nogil=True, cache=True)
def _thinnest(edges, uncovered, candidate, words):  # type: ignore[no-untyped-def]
    """An uncovered edge with the fewest candidates, -1 if all are covered."""
    best, fewest, looked = -1, edges.shape[0] + 1, 0
    for w in range(words):
        left = uncovered[w]
        while left:
            low = left & (~left + np.uint64(1))
            bit = 0
            probe = low
            while probe > np.uint64(1):
                probe >>= np.uint64(1)
                bit += 1
            left ^= low
            size = 0
            for v in range(edges.shape[0]):
                if candidate[v] and edges[v, w] & low:
                    size += 1
            if size < fewest:
                best, fewest = w * 64 + bit, size
                if fewest <= 1:
                    return best
            looked += 1
            if looked >= 64:  # a good choice is enough; the best one costs more than it saves
                return best
    return best
