"""Counting and numbering the keys of entries: a table cell for every key, or a hash table.

A cell for every possible key is the fastest way as long as the table is not much larger than the
data. Cells are small so that the table stays near: a byte that is carried when it runs over, or a
bit with the number of bits before it.

Where there are too many possible keys, they are scattered by a bijection on 64 bits (so a scattered
key still stands for exactly one combination), dealt into buckets by their leading bits, and each
bucket is counted in a small hash table that stays in the cache. Whole keys are compared: a
collision costs time, never an answer.
"""

from __future__ import annotations

import itertools
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sfumato.budget import spans, together
from sfumato.kernels.classes import BLOCK, Columns, Histogram, histogram_of
from sfumato.kernels.compiling import always_compiled
from sfumato.kernels.ranking import sorted_order

_LANES = 4
_LANED_CELLS = 1 << 14
"""Up to this many cells, neighbours count in tables of their own: equal neighbours would otherwise
wait for each other's additions."""

_SHARED_CELLS = 1 << 24
"""Above this many cells a second table costs more than a second thread saves."""


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing: Any, address: Any) -> Any:
    """The memory at an address, for `numba.carray`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.uint64), generate


@always_compiled
def _add(codes, radix, keys):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        keys[i] += keys.dtype.type(codes[i]) * radix


@always_compiled
def fill_keys(addresses, widths, radices, start, stop, keys):  # type: ignore[no-untyped-def]
    """Keys of the entries start … stop."""
    entries = stop - start
    for i in range(entries):
        keys[i] = 0
    for column in range(len(addresses)):
        # The radix in the keys' own width keeps the loops in vector registers.
        radix = keys.dtype.type(radices[column])
        pointer = _pointer(addresses[column] + np.uint64(start) * np.uint64(widths[column]))
        if widths[column] == 1:
            _add(numba.carray(pointer, (entries,), np.uint8), radix, keys)
        elif widths[column] == 2:
            _add(numba.carray(pointer, (entries,), np.uint16), radix, keys)
        else:
            _add(numba.carray(pointer, (entries,), np.uint32), radix, keys)


@intrinsic  # type: ignore[untyped-decorator]
def bit_count(typing: Any, word: Any) -> Any:
    """Number of bits that are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


bit_count.plain = lambda word: int(word).bit_count()


@always_compiled
def _count_in_lanes(addresses, widths, radices, start, stop, table):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        whole = (end - at) // 4 * 4
        for i in range(0, whole, 4):
            table[0, keys[i]] += 1
            table[1, keys[i + 1]] += 1
            table[2, keys[i + 2]] += 1
            table[3, keys[i + 3]] += 1
        for i in range(whole, end - at):
            table[0, keys[i]] += 1


@always_compiled
def _count_in_bytes(addresses, widths, radices, start, stop, table, carried):  # type: ignore[no-untyped-def]
    """Count modulo 256; a key is listed each time its cell runs over. Returns how many are."""
    keys = np.empty(BLOCK, np.uint32)
    carries = 0
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            count = np.uint8(table[keys[i]] + 1)
            table[keys[i]] = count
            if count == 0:
                carried[carries] = keys[i]
                carries += 1
    return carries


@always_compiled
def _add_bytes(total, words, table, carried):  # type: ignore[no-untyped-def]
    """Add a table of bytes to another; words are the same bytes, eight at a time."""
    carries = 0
    for word in range(len(words)):
        if words[word] != 0:
            for cell in range(8 * word, 8 * word + 8):
                count = np.uint8(total[cell] + table[cell])
                if count < table[cell]:
                    carried[carries] = cell
                    carries += 1
                total[cell] = count
    return carries


@always_compiled
def _count_bytes(words, table, histogram):  # type: ignore[no-untyped-def]
    for word in range(len(words)):
        if words[word] != 0:
            for cell in range(8 * word, 8 * word + 8):
                histogram[table[cell]] += 1


@always_compiled
def _weigh(addresses, widths, radices, start, stop, weights, table):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            table[keys[i]] += weights[at + i]


@always_compiled
def _count_entries(addresses, widths, radices, start, stop, table):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            table[keys[i]] += 1


@always_compiled
def _mark(addresses, widths, radices, start, stop, marks):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            marks[keys[i]] = 1


@always_compiled
def _index(words, ranks):  # type: ignore[no-untyped-def]
    """Each word of marks beside the number of marks before it; returns the number of all."""
    before = np.uint64(0)
    for i in range(len(words)):
        ranks[i, 0] = words[i]
        ranks[i, 1] = before
        before += bit_count(words[i])
    return before


@always_compiled
def _number_entries(addresses, widths, radices, start, stop, ranks, ids):  # type: ignore[no-untyped-def]
    """Rank of each entry's key among the marked ones."""
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            word = keys[i] >> np.uint32(6)
            below = (np.uint64(1) << np.uint64(keys[i] & np.uint32(63))) - np.uint64(1)
            ids[at + i] = ranks[word, 1] + bit_count(ranks[word, 0] & below)


def cell_histogram(
    columns: Columns, weights: npt.NDArray[np.int64] | None, threads: int
) -> Histogram:
    """Histogram of class sizes."""
    if columns.space > _SHARED_CELLS:
        threads = 1
    parts = spans(columns.entries, threads)
    if weights is not None:
        sums = np.zeros((len(parts), columns.space), np.int64)
        calls = [(*columns.layout, *part, weights, t) for part, t in zip(parts, sums, strict=True)]
        together(_weigh, calls)
        return histogram_of(sums.sum(axis=0))
    if columns.space <= _LANED_CELLS:
        lanes = np.zeros((len(parts), _LANES, columns.space), np.uint32)
        calls = [(*columns.layout, *part, t) for part, t in zip(parts, lanes, strict=True)]
        together(_count_in_lanes, calls)
        return histogram_of(lanes.sum(axis=(0, 1), dtype=np.uint32))
    return _byte_histogram(columns, parts)


def cell_sums(columns: Columns, weights: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    """Entries of every possible key, or the sum of their weights."""
    sums = np.zeros(columns.space, np.int64)
    if weights is None:
        _count_entries(*columns.layout, 0, columns.entries, sums)
    else:
        _weigh(*columns.layout, 0, columns.entries, weights, sums)
    return sums


def _byte_histogram(columns: Columns, parts: list[tuple[int, int]]) -> Histogram:
    """Histogram of class sizes by cells of a byte and a list of those that ran over."""
    tables = np.zeros((len(parts), -(-columns.space // 8) * 8), np.uint8)
    carried = [np.empty((stop - start) // 256 + 1, np.uint32) for start, stop in parts]
    calls = [
        (*columns.layout, *part, table, carry)
        for part, table, carry in zip(parts, tables, carried, strict=True)
    ]
    carries = together(_count_in_bytes, calls)
    over = [carry[:many] for carry, many in zip(carried, carries, strict=True)]
    total = tables[0]
    for table in tables[1:]:
        carry = np.empty(columns.entries // 256 + 1, np.uint32)
        over.append(carry[: _add_bytes(total, table.view(np.uint64), table, carry)])
    table = np.zeros(256, np.int64)
    _count_bytes(total.view(np.uint64), total, table)
    # Cells that ran over were counted by what is left in them: put them where they belong.
    cells, times = np.unique(np.concatenate(over), return_counts=True)
    table -= np.bincount(total[cells], minlength=256)
    table[0] = 0
    small = np.flatnonzero(table)
    sizes, classes = np.unique(total[cells] + 256 * times, return_counts=True)
    return np.concatenate([small, sizes]), np.concatenate([table[small], classes])


def number_cells(columns: Columns, threads: int) -> tuple[npt.NDArray[np.uint32], int]:
    """Class number of every entry, in ascending order of keys, and the number of classes."""
    parts = spans(columns.entries, threads)
    marks = np.zeros(-(-columns.space // 64) * 64, np.bool_)
    # Threads may write the same mark at the same time: they write the same value.
    together(_mark, [(*columns.layout, *part, marks) for part in parts])
    words = np.packbits(marks, bitorder="little").view("<u8")
    ranks = np.empty((len(words), 2), np.uint64)
    count = int(_index(words, ranks))
    ids = np.empty(columns.entries, np.uint32)
    together(_number_entries, [(*columns.layout, *part, ranks, ids) for part in parts])
    return ids, count


_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODDER = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)
_BACK_FROM_ODD, _BACK_FROM_ODDER = (np.uint64(pow(int(odd), -1, 1 << 64)) for odd in (_ODD, _ODDER))
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


@always_compiled
def unscatter(key):  # type: ignore[no-untyped-def]
    """The key that was scattered."""
    key *= _BACK_FROM_ODDER
    key ^= key >> _HALF
    return key * _BACK_FROM_ODD


@always_compiled
def _gather(marks, first, last, scattered, bases, keys):  # type: ignore[no-untyped-def]
    """Bring the scattered keys of some buckets together, and make them the keys again."""
    for bucket in range(first, last):
        begin, base = marks[bucket], bases[bucket]
        for i in range(bases[bucket + 1] - base):
            keys[base + i] = unscatter(scattered[begin + i])


@always_compiled
def _rank(order, start, stop, ranks):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        ranks[np.int64(order[i])] = i


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
def _number(marks, first, last, bits, scattered, locals_, counts):  # type: ignore[no-untyped-def]
    """Number the keys of each bucket in order of appearance, from 0 in every bucket.

    Distinct keys go to the front of the bucket's own stretch of the keys.
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
                scattered[begin + found] = key  # behind, or where it is
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
    counts = np.zeros(len(marks) - 1, np.int64)
    together(_number, [(marks, *share, bits, scattered, locals_, counts) for share in shares])
    bases = np.concatenate([[0], np.cumsum(counts)])
    count = int(bases[-1])
    ranks = np.empty(0, np.uint32)
    if ordered:
        keys = np.empty(count, np.uint64)
        together(_gather, [(marks, *share, scattered, bases, keys) for share in shares])
        del scattered  # sorting takes as much
        order = sorted_order(keys, columns.space, threads, keep=False)
        ranks = np.empty(count, np.uint32)
        together(_rank, [(order, *part, ranks) for part in spans(count, threads)])
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
