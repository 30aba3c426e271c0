"""Compiled arithmetic on ring elements: numbers of up to 256 bits as rows of 64-bit limbs.

A ring is passed as four values: `modulus` (limbs; unused for a power of two), `mask` (of the top
limb), `odd` (whether the modulus is odd) and `inverse` (-modulus^-1 mod 2^64, for Montgomery's
reduction). Everything is written for any number of limbs.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

__all__ = [
    "add",
    "add_limbs",
    "montgomery_reduce",
    "multiply",
    "reduce_once",
    "subtract",
    "subtract_limbs",
    "sum_groups",
]

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, inline="always")
def _product_high(a, b):  # type: ignore[no-untyped-def]
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@njit(cache=True, nogil=True, inline="always")
def reduce_once(x, carry, modulus):  # type: ignore[no-untyped-def]
    """Subtract the modulus from x (with a carry above its top limb) if x is not below it."""
    limbs = len(modulus)
    if carry == _ZERO:
        k = limbs - 1
        while k >= 0 and x[k] == modulus[k]:
            k -= 1
        if k >= 0 and x[k] < modulus[k]:
            return
    borrow = _ZERO
    for k in range(limbs):
        t = x[k] - modulus[k]
        under = uint64(x[k] < modulus[k])
        x[k] = t - borrow
        borrow = under | uint64(t < borrow)


@njit(cache=True, nogil=True, inline="always")
def add_limbs(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    limbs = len(modulus)
    carry = _ZERO
    for k in range(limbs):
        t = x[k] + y[k]
        over = uint64(t < y[k])
        s = t + carry
        carry = over | uint64(s < t)
        out[k] = s
    if odd:
        reduce_once(out, carry, modulus)
    else:
        out[limbs - 1] &= mask


@njit(cache=True, nogil=True, inline="always")
def subtract_limbs(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    limbs = len(modulus)
    borrow = _ZERO
    for k in range(limbs):
        t = x[k] - y[k]
        under = uint64(x[k] < y[k])
        out[k] = t - borrow
        borrow = under | uint64(t < borrow)
    if odd:
        if borrow:
            carry = _ZERO
            for k in range(limbs):
                t = out[k] + modulus[k]
                over = uint64(t < modulus[k])
                s = t + carry
                carry = over | uint64(s < t)
                out[k] = s
    else:
        out[limbs - 1] &= mask


@njit(cache=True, nogil=True, inline="always")
def montgomery_reduce(wide, out, modulus, inverse):  # type: ignore[no-untyped-def]
    """out = wide · 2^(-64·limbs) mod modulus, for wide < modulus · 2^(64·limbs); uses up wide."""
    limbs = len(modulus)
    top = _ZERO
    for i in range(limbs):
        factor = wide[i] * inverse
        carry = _ZERO
        for j in range(limbs):
            low = factor * modulus[j]
            high = _product_high(factor, modulus[j])
            t = wide[i + j] + low
            high += uint64(t < low)
            s = t + carry
            high += uint64(s < t)
            wide[i + j] = s
            carry = high
        k = i + limbs
        while carry and k < 2 * limbs:
            t = wide[k] + carry
            carry = uint64(t < carry)
            wide[k] = t
            k += 1
        top += carry
    for k in range(limbs):
        out[k] = wide[limbs + k]
    reduce_once(out, top, modulus)


@njit(cache=True, nogil=True, inline="always")
def _wide_product(x, y, wide):  # type: ignore[no-untyped-def]
    limbs = len(x)
    for k in range(2 * limbs):
        wide[k] = _ZERO
    for i in range(limbs):
        carry = _ZERO
        for j in range(limbs):
            low = x[i] * y[j]
            high = _product_high(x[i], y[j])
            t = wide[i + j] + low
            high += uint64(t < low)
            s = t + carry
            high += uint64(s < t)
            wide[i + j] = s
            carry = high
        wide[i + limbs] = carry


@njit(cache=True, nogil=True)
def add(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out = x + y; a single row on either side serves all."""
    for i in range(len(out)):
        add_limbs(x[i % len(x)], y[i % len(y)], out[i], modulus, mask, odd)


@njit(cache=True, nogil=True)
def subtract(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out = x - y; a single row on either side serves all."""
    for i in range(len(out)):
        subtract_limbs(x[i % len(x)], y[i % len(y)], out[i], modulus, mask, odd)


@njit(cache=True, nogil=True)
def multiply(x, y, out, modulus, mask, odd, inverse, square):  # type: ignore[no-untyped-def]
    """out = x · y; `square` is 2^(128·limbs) mod modulus. A single row of y serves all."""
    limbs = len(modulus)
    wide = np.empty(2 * limbs, np.uint64)
    half = np.empty(limbs, np.uint64)
    for i in range(len(out)):
        _wide_product(x[i], y[i % len(y)], wide)
        if odd:
            montgomery_reduce(wide, half, modulus, inverse)
            _wide_product(half, square, wide)
            montgomery_reduce(wide, out[i], modulus, inverse)
        else:
            for k in range(limbs):
                out[i, k] = wide[k]
            out[i, limbs - 1] &= mask


@njit(cache=True, nogil=True)
def sum_groups(x, group, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out[g] = sum of the g-th run of `group` rows of x."""
    for g in range(len(out)):
        out[g] = _ZERO
        for i in range(g * group, (g + 1) * group):
            add_limbs(out[g], x[i], out[g], modulus, mask, odd)
