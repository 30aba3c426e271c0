"""Counting and numbering with one table cell for every possible key.

The fastest way while the table stays small; see `scattered` for the other case.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from sfumato.kernels.keys import BLOCK, Columns, fill_keys
from sfumato.kernels.parallel import spans, together

__all__ = ["count_cells", "number_cells"]

_LANES = 4
_LANED_CELLS = 1 << 14
"""Up to this many cells, neighbours count in tables of their own: equal neighbours would otherwise
wait for each other's additions."""


@numba.njit(nogil=True, cache=True)
def _count(addresses, widths, radices, start, stop, table, cells):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    laned = len(table) > cells
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        entries = end - at
        fill_keys(addresses, widths, radices, at, end, keys)
        i = 0
        if laned:
            while i + 3 < entries:
                table[np.int64(keys[i])] += 1
                table[cells + np.int64(keys[i + 1])] += 1
                table[2 * cells + np.int64(keys[i + 2])] += 1
                table[3 * cells + np.int64(keys[i + 3])] += 1
                i += 4
        while i < entries:
            table[np.int64(keys[i])] += 1
            i += 1


@numba.njit(nogil=True, cache=True)
def _weigh(addresses, widths, radices, start, stop, weights, table):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            table[np.int64(keys[i])] += weights[at + i]


@numba.njit(nogil=True, cache=True)
def _mark(addresses, widths, radices, start, stop, numbers):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            numbers[np.int64(keys[i])] = 1


@numba.njit(nogil=True, cache=True)
def _rank(numbers):  # type: ignore[no-untyped-def]
    """Turn marks into ranks among the marked cells; returns how many there are."""
    rank = np.int64(0)
    for cell in range(len(numbers)):
        marked = numbers[cell]
        numbers[cell] = rank
        rank += np.int64(marked)
    return rank


@numba.njit(nogil=True, cache=True)
def _number(addresses, widths, radices, start, stop, numbers, ids):  # type: ignore[no-untyped-def]
    keys = np.empty(BLOCK, np.uint32)
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        fill_keys(addresses, widths, radices, at, end, keys)
        for i in range(end - at):
            ids[at + i] = numbers[np.int64(keys[i])]


def count_cells(
    columns: Columns, weights: npt.NDArray[np.int64] | None, threads: int
) -> npt.NDArray[Any]:
    """Rows with each possible key; zero where a key does not occur."""
    cells = columns.space
    parts = spans(columns.entries, threads)
    if weights is not None:
        tables = [np.zeros(cells, np.int64) for _ in parts]
        together(
            _weigh,
            [
                (*columns.layout, start, stop, weights, table)
                for (start, stop), table in zip(parts, tables, strict=True)
            ],
        )
    else:
        size = cells * _LANES if cells <= _LANED_CELLS else cells
        tables = [np.zeros(size, np.uint32) for _ in parts]
        together(
            _count,
            [
                (*columns.layout, start, stop, table, cells)
                for (start, stop), table in zip(parts, tables, strict=True)
            ],
        )
    total: npt.NDArray[Any] = tables[0]
    for table in tables[1:]:
        total += table
    if len(total) > cells:
        total = total.reshape(_LANES, cells).sum(axis=0, dtype=np.uint32)
    return total


def number_cells(columns: Columns, threads: int) -> tuple[npt.NDArray[np.uint32], int]:
    """Class number of every entry, in ascending order of keys, and the number of classes."""
    parts = spans(columns.entries, threads)
    numbers = np.zeros(columns.space, np.uint32)
    # Threads may write the same mark at the same time: they write the same value.
    together(_mark, [(*columns.layout, start, stop, numbers) for start, stop in parts])
    count = int(_rank(numbers))
    ids = np.empty(columns.entries, np.uint32)
    together(_number, [(*columns.layout, start, stop, numbers, ids) for start, stop in parts])
    return ids, count
