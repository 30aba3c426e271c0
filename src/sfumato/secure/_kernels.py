"""Compiled arithmetic on ring elements, and products of them by oblivious transfer.

Numbers of up to 256 bits are rows of 64-bit limbs, the lowest first.

A ring is passed as four values: `modulus` (limbs; unused for a power of two), `mask` (of the top
limb), `odd` (whether the modulus is odd) and `inverse` (-modulus^-1 mod 2^64, for Montgomery's
reduction). Everything is written for any number of limbs.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from sfumato.kernels.compiling import njit

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(nogil=True, inline="always")
def _product_high(a, b):  # type: ignore[no-untyped-def]
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@njit(nogil=True, inline="always")
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


@njit(nogil=True, inline="always")
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


@njit(nogil=True, inline="always")
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


@njit(nogil=True, inline="always")
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


@njit(nogil=True, inline="always")
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


@njit(nogil=True)
def add(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out = x + y; a single row on either side serves all."""
    for i in range(len(out)):
        add_limbs(x[i % len(x)], y[i % len(y)], out[i], modulus, mask, odd)


@njit(nogil=True)
def subtract(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out = x - y; a single row on either side serves all."""
    for i in range(len(out)):
        subtract_limbs(x[i % len(x)], y[i % len(y)], out[i], modulus, mask, odd)


@njit(nogil=True)
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


@njit(nogil=True)
def sum_groups(x, group, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out[g] = sum of the g-th run of `group` rows of x."""
    for g in range(len(out)):
        out[g] = _ZERO
        for i in range(g * group, (g + 1) * group):
            add_limbs(out[g], x[i], out[g], modulus, mask, odd)


@njit(nogil=True, inline="always")
def _pad(hashed, out, wide, modulus, mask, odd, inverse, entropy):  # type: ignore[no-untyped-def]
    """Turn hash output into a ring element that is uniform up to 2^-63.

    Modulo 2^L: the low bits. Modulo an odd m: `entropy` = bits of m + 63 of the hash, reduced in
    Montgomery's way (multiplication by a unit keeps the uniform distribution).
    """
    limbs = len(modulus)
    if not odd:
        for k in range(limbs):
            out[k] = hashed[k]
        out[limbs - 1] &= mask
        return
    for k in range(2 * limbs):
        first = 64 * k
        if first >= entropy:
            wide[k] = _ZERO
        elif first + 64 <= entropy:
            wide[k] = hashed[k]
        else:
            wide[k] = hashed[k] & ((_ONE << np.uint64(entropy - first)) - _ONE)
    montgomery_reduce(wide, out, modulus, inverse)


@njit(nogil=True)
def message_bytes(bits, used, odd):  # type: ignore[no-untyped-def]
    """Bytes of Gilboa's message for one product by a factor of which `used` bits are taken.

    Modulo 2^L bit j of the factor only needs L - j bits: what lies above is multiplied out.
    """
    if odd:
        return used * ((bits + 7) // 8)
    total = 0
    for j in range(used):
        total += (bits - j + 7) // 8
    return total


@njit(nogil=True)
def gilboa_send(  # type: ignore[no-untyped-def]
    zero, one, x, used, bits, message, share, modulus, mask, odd, inverse
):
    """Alice's side of x · y by one correlated transfer for each of `used` bits of Bob's y.

    zero, one: hashes of the two keys of each transfer, uint64[n·used, words]. Writes the message
    (pad0 - pad1 + x, at the place of bit j) and Alice's share -Σ pad0 · 2^j.
    """
    limbs = len(modulus)
    entropy = bits + 63
    p0 = np.empty(limbs, np.uint64)
    p1 = np.empty(limbs, np.uint64)
    shifted = np.empty(limbs, np.uint64)
    part = np.empty(limbs, np.uint64)
    wide = np.empty(2 * limbs, np.uint64)
    position = 0
    for i in range(len(x)):
        for k in range(limbs):
            shifted[k] = x[i, k]
            share[i, k] = _ZERO
        for j in range(used):
            row = i * used + j
            _pad(zero[row], p0, wide, modulus, mask, odd, inverse, entropy)
            _pad(one[row], p1, wide, modulus, mask, odd, inverse, entropy)
            subtract_limbs(p0, p1, part, modulus, mask, odd)
            if odd:
                add_limbs(part, shifted, part, modulus, mask, odd)
                add_limbs(shifted, shifted, shifted, modulus, mask, odd)
                size = (bits + 7) // 8
            else:
                add_limbs(part, x[i], part, modulus, mask, odd)
                size = (bits - j + 7) // 8
                _shift_left(p0, j, mask)
            subtract_limbs(share[i], p0, share[i], modulus, mask, odd)
            spare = 0 if odd else 8 * size - (bits - j)
            _write(part, message, position, size, spare)
            position += size


@njit(nogil=True)
def gilboa_receive(  # type: ignore[no-untyped-def]
    chosen, y, used, bits, message, share, modulus, mask, odd, inverse
):
    """Bob's side: his share is Σ (pad_y + y_j · message) · 2^j."""
    limbs = len(modulus)
    entropy = bits + 63
    pad = np.empty(limbs, np.uint64)
    part = np.empty(limbs, np.uint64)
    wide = np.empty(2 * limbs, np.uint64)
    position = 0
    for i in range(len(y)):
        for k in range(limbs):
            share[i, k] = _ZERO
        for j in range(used):
            _pad(chosen[i * used + j], pad, wide, modulus, mask, odd, inverse, entropy)
            size = (bits + 7) // 8 if odd else (bits - j + 7) // 8
            if (y[i, j >> 6] >> np.uint64(j & 63)) & _ONE:
                _read(part, message, position, size)
                if odd:
                    reduce_once(part, _ZERO, modulus)  # a peer may send anything
                add_limbs(pad, part, pad, modulus, mask, odd)
            if not odd:
                _shift_left(pad, j, mask)
            add_limbs(share[i], pad, share[i], modulus, mask, odd)
            position += size


@intrinsic
def _store(typing, place, word):  # type: ignore[no-untyped-def]
    """Write eight bytes at any address: numba's arrays know aligned ones only."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def _load(typing, place):  # type: ignore[no-untyped-def]
    """Read eight bytes from any address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.uint64), generate


@njit(nogil=True, inline="always")
def _masks(width):  # type: ignore[no-untyped-def]
    """The lowest `width` bits of two words."""
    full = ~_ZERO
    if width >= 128:
        return full, full
    if width > 64:
        return full, (_ONE << np.uint64(width - 64)) - _ONE
    if width == 64:
        return full, _ZERO
    return (_ONE << np.uint64(width)) - _ONE, _ZERO


@njit(nogil=True, inline="always")
def _left(low, high, places):  # type: ignore[no-untyped-def]
    if places >= 64:
        return _ZERO, low << np.uint64(places - 64)
    if places == 0:
        return low, high
    shift = np.uint64(places)
    return low << shift, (high << shift) | (low >> (np.uint64(64) - shift))


@njit(nogil=True)
def gilboa_send_short(zero, one, x, used, bits, message, share):  # type: ignore[no-untyped-def]
    """`gilboa_send` modulo 2^bits, bits <= 128, in registers.

    Whole words are written at every place, the next one over the surplus: `message` has sixteen
    bytes more than are sent.
    """
    place = np.uint64(message.ctypes.data)
    two = x.shape[1] == 2
    for i in range(len(x)):
        x0 = x[i, 0]
        x1 = x[i, 1] if two else _ZERO
        s0 = _ZERO
        s1 = _ZERO
        for j in range(used):
            z0, z1 = zero[i * used + j, 0], zero[i * used + j, 1]
            o0, o1 = one[i * used + j, 0], one[i * used + j, 1]
            d0 = z0 - o0
            d1 = z1 - o1 - uint64(z0 < o0)
            p0 = d0 + x0
            p1 = d1 + x1 + uint64(p0 < d0)
            m0, m1 = _masks(bits - j)
            _store(place, p0 & m0)
            _store(place + np.uint64(8), p1 & m1)
            place += np.uint64((bits - j + 7) >> 3)
            z0, z1 = _left(z0, z1, j)
            s1 -= z1 + uint64(s0 < z0)
            s0 -= z0
        m0, m1 = _masks(bits)
        share[i, 0] = s0 & m0
        if two:
            share[i, 1] = s1 & m1


@njit(nogil=True)
def gilboa_receive_short(chosen, y, used, bits, message, share):  # type: ignore[no-untyped-def]
    """`gilboa_receive` modulo 2^bits, bits <= 128; `message` has sixteen bytes of padding."""
    place = np.uint64(message.ctypes.data)
    two = y.shape[1] == 2
    for i in range(len(y)):
        s0 = _ZERO
        s1 = _ZERO
        for j in range(used):
            chose = _ZERO - ((y[i, j >> 6] >> np.uint64(j & 63)) & _ONE)
            c0, c1 = chosen[i * used + j, 0], chosen[i * used + j, 1]
            p0 = c0 + (_load(place) & chose)
            p1 = c1 + (_load(place + np.uint64(8)) & chose) + uint64(p0 < c0)
            place += np.uint64((bits - j + 7) >> 3)
            # What lies above the bits - j bits in use is shifted out.
            p0, p1 = _left(p0, p1, j)
            s0 += p0
            s1 += p1 + uint64(s0 < p0)
        m0, m1 = _masks(bits)
        share[i, 0] = s0 & m0
        if two:
            share[i, 1] = s1 & m1


@njit(nogil=True)
def vector_send(zero, one, bits_of, message, share):  # type: ignore[no-untyped-def]
    """Scalar products of many binary vectors at once, modulo 2^(8·size), size <= 8.

    zero, one: hashes as bytes, uint8[n, vectors·size]; bits_of: uint8[n, vectors]. Transfer i
    carries, for every vector, pad0 - pad1 + bit; `share` collects -Σ pad0 (uint64[vectors]).
    """
    n, vectors = bits_of.shape
    size = zero.shape[1] // vectors
    for i in range(n):
        for v in range(vectors):
            p0 = _ZERO
            p1 = _ZERO
            for b in range(size):
                p0 |= np.uint64(zero[i, v * size + b]) << np.uint64(8 * b)
                p1 |= np.uint64(one[i, v * size + b]) << np.uint64(8 * b)
            value = p0 - p1 + np.uint64(bits_of[i, v])
            share[v] -= p0
            for b in range(size):
                message[i, v * size + b] = (value >> np.uint64(8 * b)) & np.uint64(255)


@njit(nogil=True)
def vector_receive(chosen, choice, message, share):  # type: ignore[no-untyped-def]
    """Bob's side of `vector_send`: choice is uint8[n]."""
    n, width = chosen.shape
    vectors = len(share)
    size = width // vectors
    for i in range(n):
        for v in range(vectors):
            value = _ZERO
            other = _ZERO
            for b in range(size):
                value |= np.uint64(chosen[i, v * size + b]) << np.uint64(8 * b)
                other |= np.uint64(message[i, v * size + b]) << np.uint64(8 * b)
            share[v] += value + (other if choice[i] else _ZERO)


@njit(nogil=True, inline="always")
def _shift_left(x, places, mask):  # type: ignore[no-untyped-def]
    limbs = len(x)
    whole = places >> 6
    rest = np.uint64(places & 63)
    for k in range(limbs - 1, -1, -1):
        value = _ZERO
        if k - whole >= 0:
            value = x[k - whole] << rest
            if rest and k - whole - 1 >= 0:
                value |= x[k - whole - 1] >> (np.uint64(64) - rest)
        x[k] = value
    x[limbs - 1] &= mask


@njit(nogil=True, inline="always")
def _write(x, message, position, size, spare):  # type: ignore[no-untyped-def]
    for b in range(size):
        message[position + b] = (x[b >> 3] >> np.uint64(8 * (b & 7))) & np.uint64(255)
    if spare:  # bits above the ones in use would tell something about x
        message[position + size - 1] &= np.uint8(255 >> spare)


@njit(nogil=True, inline="always")
def _read(x, message, position, size):  # type: ignore[no-untyped-def]
    for k in range(len(x)):
        x[k] = _ZERO
    for b in range(size):
        x[b >> 3] |= np.uint64(message[position + b]) << np.uint64(8 * (b & 7))
