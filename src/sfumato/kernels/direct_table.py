"""Counting and numbering with a table cell for every possible key.

The fastest way as long as the table is not much larger than the data. Cells are small so that the
table stays near: a byte that is carried when it runs over, or a bit with the number of bits before
it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sfumato.budget import spans, together
from sfumato.kernels.compiling import always_compiled
from sfumato.kernels.groups import BLOCK, Columns, Histogram, histogram_of

__all__ = ["cell_histogram", "cell_sums", "fill_keys", "number_cells", "ones"]

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
def ones(typing: Any, word: Any) -> Any:
    """Number of bits that are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


ones.plain = lambda word: int(word).bit_count()


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
def _count(addresses, widths, radices, start, stop, table):  # type: ignore[no-untyped-def]
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
        before += ones(words[i])
    return before


@always_compiled
def _number(addresses, widths, radices, start, stop, ranks, ids):  # type: ignore[no-untyped-def]
    """Rank of each entry's key among the marked ones."""
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            word = keys[i] >> np.uint32(6)
            below = (np.uint64(1) << np.uint64(keys[i] & np.uint32(63))) - np.uint64(1)
            ids[at + i] = ranks[word, 1] + ones(ranks[word, 0] & below)


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
        _count(*columns.layout, 0, columns.entries, sums)
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
    together(_number, [(*columns.layout, *part, ranks, ids) for part in parts])
    return ids, count
