"""Compiled enumeration of all minimal hitting sets."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["hitting_sets"]


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
