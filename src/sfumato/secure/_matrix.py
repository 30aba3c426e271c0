"""A matrix of bits turned on its side: what makes oblivious transfers out of AES streams."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["transpose"]

_TILE = 8
"""Blocks of 64 x 64 bits turned at a time: a row of them is one register of AVX-512."""


@intrinsic
def _exchange(typing, first, second, shift, mask):  # type: ignore[no-untyped-def]
    """Exchange bits of two rows of `_TILE` words: the masked ones of the second, shifted, with the
    first's. LLVM does not find by itself that a whole row fits into one register."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row, index = ir.VectorType(ir.IntType(64), _TILE), ir.IntType(32)
        undefined = ir.Constant(row, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(index, _TILE), [ir.Constant(index, 0)] * _TILE)
        places = [builder.inttoptr(address, row.as_pointer()) for address in arguments[:2]]
        spread = []
        for word in arguments[2:]:
            single = builder.insert_element(undefined, word, ir.Constant(index, 0))
            spread.append(builder.shuffle_vector(single, undefined, everywhere))
        low, high = (builder.load(place, align=8) for place in places)
        moved = builder.and_(builder.xor(builder.lshr(low, spread[0]), high), spread[1])
        builder.store(builder.xor(low, builder.shl(moved, spread[0])), places[0], align=8)
        builder.store(builder.xor(high, moved), places[1], align=8)
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 4), generate


@njit(cache=True, nogil=True)
def transpose(rows, columns):  # type: ignore[no-untyped-def]
    """Turn 128 rows of bits, uint64[128, words], into their columns, uint64[64·words, 2].

    Blocks of 64 x 64 bits, `_TILE` side by side, are turned by exchanging halves, quarters, …
    (Hacker's Delight, 7-3).
    """
    tile = np.zeros((128, _TILE), np.uint64)
    place = np.uint64(tile.ctypes.data)
    size = np.uint64(8 * _TILE)
    for first in range(0, rows.shape[1], _TILE):
        count = min(_TILE, rows.shape[1] - first)
        for i in range(128):
            for word in range(count):
                tile[i, word] = rows[i, first + word]
        width = 32
        mask = np.uint64(0x00000000FFFFFFFF)
        while width:
            k = 0
            while k < 128:
                _exchange(
                    place + size * np.uint64(k), place + size * np.uint64(k + width),
                    np.uint64(width), mask,
                )  # fmt: skip
                k = (k + width + 1) & ~width
            width >>= 1
            mask ^= mask << np.uint64(width)
        for word in range(count):
            for i in range(64):
                columns[64 * (first + word) + i, 0] = tile[i, word]
                columns[64 * (first + word) + i, 1] = tile[64 + i, word]
