"""Counting and numbering when there are too many possible keys for a table.

Keys are scattered by a bijection on 64 bits (so a scattered key still stands for exactly one
combination), dealt into buckets by their leading bits, and each bucket is counted in a small hash
table that stays in the cache. Whole keys are compared: a collision costs time, never an answer.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from sfumato.budget import spans, together
from sfumato.kernels.compiling import always_compiled
from sfumato.kernels.direct_table import fill_keys
from sfumato.kernels.groups import BLOCK, Columns
from sfumato.kernels.ranking import sorted_order

__all__ = ["count_keys", "find_keys", "number_keys", "slots_of"]

Numbers = npt.NDArray[np.uint32]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODDER = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)
_BUCKET_ENTRIES = 8192
_MOST_BITS = 10
_FEWEST_SLOTS = 4096
FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""Marks an empty slot: no key below 2^62 is scattered to this number."""
_ALL_BITS = np.uint64(0)


@always_compiled
def scatter(key):  # type: ignore[no-untyped-def]
    """Odd multiples and a folded shift are bijections; two of them mix all bits."""
    key *= _ODD
    key ^= key >> _HALF
    return key * _ODDER


def _gather(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Make scattered keys, in their place, the keys again."""
    keys *= np.uint64(pow(int(_ODDER), -1, 1 << 64))
    keys ^= keys >> _HALF
    keys *= np.uint64(pow(int(_ODD), -1, 1 << 64))
    return keys


def _rank(order: Numbers, start: int, stop: int, ranks: Numbers) -> None:
    ranks[order[start:stop]] = np.arange(start, stop, dtype=np.uint32)


@always_compiled
def slot(slots, key, bits):  # type: ignore[no-untyped-def]
    """Where a key is, or the free slot where it belongs."""
    mask = np.uint64(len(slots) - 1)
    at = (key >> (np.uint64(32) - bits)) & mask
    while slots[at] != key and slots[at] != FREE:
        at = (at + np.uint64(1)) & mask
    return at


@always_compiled
def _fill(addresses, widths, radices, start, stop, bits, sizes):  # type: ignore[no-untyped-def]
    """How many entries fall into each bucket."""
    keys = np.empty(BLOCK, np.uint64)
    shift = np.uint64(64) - bits
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            sizes[np.int64(scatter(keys[i]) >> shift)] += 1


@always_compiled
def _deal(addresses, widths, radices, start, stop, bits, next_place, scattered, entries):  # type: ignore[no-untyped-def]
    """Put keys (and entry numbers, if there is room for them) into their buckets."""
    keys = np.empty(BLOCK, np.uint64)
    shift = np.uint64(64) - bits
    with_entries = len(entries) > 0
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            key = scatter(keys[i])
            bucket = np.int64(key >> shift)
            place = next_place[bucket]
            next_place[bucket] = place + 1
            scattered[place] = key
            if with_entries:
                entries[place] = at + i


@always_compiled
def _grow(slots, numbers, bits):  # type: ignore[no-untyped-def]
    wider = np.full(4 * len(slots), FREE, np.uint64)
    moved = np.empty(4 * len(slots), np.uint32)
    for i in range(len(slots)):
        if slots[i] != FREE:
            at = slot(wider, slots[i], bits)
            wider[at] = slots[i]
            moved[at] = numbers[i]
    return wider, moved


@always_compiled
def _number(marks, first, last, bits, scattered, locals_, distinct, counts):  # type: ignore[no-untyped-def]
    """Number the keys of each bucket in order of appearance, from 0 in every bucket.

    Distinct keys go to the front of the bucket's own stretch of `distinct`.
    """
    slots = np.empty(_FEWEST_SLOTS, np.uint64)
    numbers = np.empty(_FEWEST_SLOTS, np.uint32)
    for bucket in range(first, last):
        begin, end = marks[bucket], marks[bucket + 1]
        slots[:] = FREE
        found = 0
        for i in range(begin, end):
            key = scattered[i]
            at = slot(slots, key, bits)
            if slots[at] == FREE:
                if 2 * found >= len(slots):
                    slots, numbers = _grow(slots, numbers, bits)
                    at = slot(slots, key, bits)
                slots[at] = key
                numbers[at] = found
                distinct[begin + found] = key
                found += 1
            locals_[i] = numbers[at]
        counts[bucket] = found


@always_compiled
def _count(marks, first, last, bits, scattered, totals):  # type: ignore[no-untyped-def]
    """Sizes of the classes of each bucket, at the front of its own stretch of `totals`."""
    slots = np.empty(_FEWEST_SLOTS, np.uint64)
    numbers = np.empty(_FEWEST_SLOTS, np.uint32)
    for bucket in range(first, last):
        begin, end = marks[bucket], marks[bucket + 1]
        slots[:] = FREE
        found = 0
        for i in range(begin, end):
            key = scattered[i]
            at = slot(slots, key, bits)
            if slots[at] == FREE:
                if 2 * found >= len(slots):
                    slots, numbers = _grow(slots, numbers, bits)
                    at = slot(slots, key, bits)
                slots[at] = key
                numbers[at] = found
                totals[begin + found] = 1
                found += 1
            else:
                totals[begin + numbers[at]] += 1


@always_compiled
def _place(marks, first, last, entries, locals_, bases, ranks, ids):  # type: ignore[no-untyped-def]
    """Class numbers back to where the entries were."""
    ranked = len(ranks) > 0
    for bucket in range(first, last):
        base = bases[bucket]
        for i in range(marks[bucket], marks[bucket + 1]):
            number = base + np.int64(locals_[i])
            ids[entries[i]] = ranks[number] if ranked else number


@always_compiled
def _fill_slots(keys, slots, numbers):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        key = scatter(keys[i])
        at = slot(slots, key, _ALL_BITS)
        slots[at] = key
        numbers[at] = i


@always_compiled
def _find(addresses, widths, radices, entries, slots, numbers, missing, found):  # type: ignore[no-untyped-def]
    """Number of each entry's key, or `missing`; without slots a key is its own place."""
    keys = np.empty(BLOCK, np.uint64)
    hashed = len(slots) > 0
    for start in range(0, entries, BLOCK):
        end = min(entries, start + BLOCK)
        fill_keys(addresses, widths, radices, start, end, keys)
        for i in range(end - start):
            if hashed:
                key = scatter(keys[i])
                at = slot(slots, key, _ALL_BITS)
                found[start + i] = numbers[at] if slots[at] == key else missing
            else:
                found[start + i] = numbers[np.int64(keys[i])]


def _buckets(
    columns: Columns, threads: int, with_entries: bool
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.int64], np.uint64]:
    """Scattered keys bucket by bucket, their entries, where each bucket begins, and its bits."""
    entries = columns.entries
    bits = np.uint64(min(max(1, (entries // _BUCKET_ENTRIES).bit_length()), _MOST_BITS))
    buckets = 1 << int(bits)
    parts = spans(entries, threads)
    sizes = np.zeros((len(parts), buckets), np.int64)
    together(
        _fill,
        [
            (*columns.layout, start, stop, bits, row)
            for (start, stop), row in zip(parts, sizes, strict=True)
        ],
    )
    # Bucket by bucket, and inside a bucket part by part: entries keep their order.
    places = np.cumsum(sizes.T.ravel()).reshape(buckets, len(parts)).T - sizes
    scattered = np.empty(entries, np.uint64)
    numbers = np.empty(entries if with_entries else 0, np.uint32)
    together(
        _deal,
        [
            (*columns.layout, start, stop, bits, np.ascontiguousarray(row), scattered, numbers)
            for (start, stop), row in zip(parts, places, strict=True)
        ],
    )
    marks = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))]).astype(np.int64)
    return scattered, numbers, marks, bits


def _shares(marks: npt.NDArray[np.int64], threads: int) -> list[tuple[int, int]]:
    """Ranges of buckets with about the same number of entries."""
    cuts = [int(np.searchsorted(marks, marks[-1] * part // threads)) for part in range(1, threads)]
    edges = [0, *cuts, len(marks) - 1]
    return list(itertools.pairwise(edges))


def count_keys(columns: Columns, threads: int) -> npt.NDArray[np.uint32]:
    """Size of every class, with zeros in between."""
    scattered, _, marks, bits = _buckets(columns, threads, with_entries=False)
    totals = np.zeros(columns.entries, np.uint32)
    together(
        _count, [(marks, *share, bits, scattered, totals) for share in _shares(marks, threads)]
    )
    return totals


def number_keys(
    columns: Columns, ordered: bool, threads: int
) -> tuple[npt.NDArray[np.uint32], int]:
    """Class number of every entry and the number of classes; by key if `ordered`."""
    scattered, entries, marks, bits = _buckets(columns, threads, with_entries=True)
    shares = _shares(marks, threads)
    locals_ = np.empty(columns.entries, np.uint32)
    distinct = np.empty(columns.entries, np.uint64)
    counts = np.zeros(len(marks) - 1, np.int64)
    together(
        _number,
        [(marks, *share, bits, scattered, locals_, distinct, counts) for share in shares],
    )
    bases = np.concatenate([[0], np.cumsum(counts)])
    count = int(bases[-1])
    ranks = np.empty(0, np.uint32)
    if ordered:
        stretches = zip(marks[:-1].tolist(), counts.tolist(), strict=True)
        found = np.concatenate([distinct[begin : begin + many] for begin, many in stretches])
        parts = spans(count, threads)
        together(_gather, [(found[start:stop],) for start, stop in parts])
        order = sorted_order(found, columns.space, threads)
        ranks = np.empty(count, np.uint32)
        together(_rank, [(order, *part, ranks) for part in parts])
    ids = np.empty(columns.entries, np.uint32)
    together(_place, [(marks, *share, entries, locals_, bases, ranks, ids) for share in shares])
    return ids, count


def slots_of(
    keys: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """A hash table of different keys, and the number of each beside it."""
    slots = np.full(1 << (2 * len(keys)).bit_length(), FREE, np.uint64)
    numbers = np.empty(len(slots), np.uint32)
    _fill_slots(keys, slots, numbers)
    return slots, numbers


def find_keys(
    columns: Columns,
    slots: npt.NDArray[np.uint64],
    numbers: npt.NDArray[np.uint32],
    missing: int,
) -> npt.NDArray[np.uint32]:
    """Number of each entry's key, or `missing`; without slots a key is its own place."""
    found = np.empty(columns.entries, np.uint32)
    _find(*columns.layout, columns.entries, slots, numbers, np.uint32(missing), found)
    return found
