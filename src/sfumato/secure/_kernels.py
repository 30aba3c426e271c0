"""Arithmetic on ring elements, and products of them by oblivious transfer: compiled, or by numpy.

Numbers of up to 256 bits are rows of 64-bit limbs, the lowest first.

A ring is passed as four values: `modulus` (limbs; unused for a power of two), `mask` (of the top
limb), `odd` (whether the modulus is odd) and `inverse` (-modulus^-1 mod 2^64, for Montgomery's
reduction). Everything is written for any number of limbs.

What a loop or numpy does depends on how many numbers there are, never on what they are, but for one
step: the compiled `gilboa_receive` looks at each bit of Bob's number and adds only where it is one.
When a loop is compiled depends on the time its calls have taken, so on how many numbers they had.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sfumato.kernels.compiling import Loop, bare, njit, plain

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)

_kernel = partial(partial, Loop, most=1 << 22)
"""Marks a loop and says what numpy does instead while that is quicker than to compile it."""


@bare
def _product_high(a, b):  # type: ignore[no-untyped-def]
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@bare
def reduce_once(x, carry, modulus):  # type: ignore[no-untyped-def]
    """Subtract the modulus from x (with a carry above its top limb) if x is not below it."""
    borrow = _ZERO
    for k in range(len(modulus)):
        t = x[k] - modulus[k]
        borrow = np.uint64(x[k] < modulus[k]) | np.uint64(t < borrow)
    taken = _ZERO - (carry | (borrow ^ _ONE))
    borrow = _ZERO
    for k in range(len(modulus)):
        less = modulus[k] & taken
        t = x[k] - less
        under = np.uint64(x[k] < less)
        x[k] = t - borrow
        borrow = under | np.uint64(t < borrow)


@bare
def add_limbs(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    limbs = len(modulus)
    carry = _ZERO
    for k in range(limbs):
        t = x[k] + y[k]
        over = np.uint64(t < y[k])
        s = t + carry
        carry = over | np.uint64(s < t)
        out[k] = s
    if odd:
        reduce_once(out, carry, modulus)
    else:
        out[limbs - 1] &= mask


@bare
def subtract_limbs(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    limbs = len(modulus)
    borrow = _ZERO
    for k in range(limbs):
        t = x[k] - y[k]
        under = np.uint64(x[k] < y[k])
        out[k] = t - borrow
        borrow = under | np.uint64(t < borrow)
    if odd:
        wrapped = _ZERO - borrow
        carry = _ZERO
        for k in range(limbs):
            more = modulus[k] & wrapped
            t = out[k] + more
            over = np.uint64(t < more)
            s = t + carry
            carry = over | np.uint64(s < t)
            out[k] = s
    else:
        out[limbs - 1] &= mask


@bare
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
            high += np.uint64(t < low)
            s = t + carry
            high += np.uint64(s < t)
            wide[i + j] = s
            carry = high
        for k in range(i + limbs, 2 * limbs):
            t = wide[k] + carry
            carry = np.uint64(t < carry)
            wide[k] = t
        top += carry
    for k in range(limbs):
        out[k] = wide[limbs + k]
    reduce_once(out, top, modulus)


@bare
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
            high += np.uint64(t < low)
            s = t + carry
            high += np.uint64(s < t)
            wide[i + j] = s
            carry = high
        wide[i + limbs] = carry


# What numpy does instead takes the same steps, each for all numbers at once: where a loop has a
# limb, it has a row of them.

_Array = NDArray[Any]
_add_rows, _subtract_rows = plain(add_limbs), plain(subtract_limbs)
_reduce_rows, _product_rows = plain(montgomery_reduce), plain(_wide_product)


def _added(x: _Array, y: _Array, out: _Array, *ring: Any) -> None:
    _add_rows(x.T, y.T, out.T, *ring)


def _subtracted(x: _Array, y: _Array, out: _Array, *ring: Any) -> None:
    _subtract_rows(x.T, y.T, out.T, *ring)


def _multiplied(
    x: _Array, y: _Array, out: _Array, modulus: _Array, mask: np.uint64, odd: bool,
    inverse: np.uint64, square: _Array,
) -> None:  # fmt: skip
    wide = np.empty((2 * len(modulus), len(x)), np.uint64)
    _product_rows(x.T, y.T, wide)
    if odd:
        half = np.empty((len(modulus), len(x)), np.uint64)
        _reduce_rows(wide, half, modulus, inverse)
        _product_rows(half, square, wide)
        _reduce_rows(wide, out.T, modulus, inverse)
    else:
        out[:] = wide[: len(modulus)].T
        out[:, -1] &= mask


def _summed(x: _Array, group: int, out: _Array, *ring: Any) -> None:
    rest = x[: len(out) * group].reshape(len(out), group, x.shape[1]).transpose(2, 1, 0).copy()
    while group > 1:
        half, group = group // 2, (group + 1) // 2
        _add_rows(rest[:, :half], rest[:, group : group + half], rest[:, :half], *ring)
    out[:] = rest[:, 0].T


@_kernel(instead=_added, patience=0.5)
def add(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out = x + y; a single row on either side serves all."""
    for i in range(len(out)):
        add_limbs(x[i % len(x)], y[i % len(y)], out[i], modulus, mask, odd)


@_kernel(instead=_subtracted, patience=0.5)
def subtract(x, y, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out = x - y; a single row on either side serves all."""
    for i in range(len(out)):
        subtract_limbs(x[i % len(x)], y[i % len(y)], out[i], modulus, mask, odd)


@_kernel(instead=_multiplied, patience=0.5)
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


@_kernel(instead=_summed, patience=0.5)
def sum_groups(x, group, out, modulus, mask, odd):  # type: ignore[no-untyped-def]
    """out[g] = sum of the g-th run of `group` rows of x."""
    for g in range(len(out)):
        out[g] = _ZERO
        for i in range(g * group, (g + 1) * group):
            add_limbs(out[g], x[i], out[g], modulus, mask, odd)


@partial(bare, forceinline=True)
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


def message_bytes(bits: int, used: int, odd: bool) -> int:
    """Bytes of Gilboa's message for one product by a factor of which `used` bits are taken."""
    return sum(size for size, _ in _places(bits, used, odd))


def _places(bits: int, used: int, odd: bool) -> list[tuple[int, int]]:
    """Bytes of each part of Gilboa's message, and how many bits of its last byte are spare.

    Modulo 2^L bit j of the factor only needs L - j bits: what lies above is multiplied out.
    """
    widths = [bits if odd else bits - j for j in range(used)]
    return [((width + 7) // 8, 0 if odd else -width % 8) for width in widths]


@bare
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


@bare
def _write(x, message, position, size, spare):  # type: ignore[no-untyped-def]
    for b in range(size):
        message[position + b] = (x[b >> 3] >> np.uint64(8 * (b & 7))) & np.uint64(255)
    if spare:  # bits above the ones in use would tell something about x
        message[position + size - 1] &= np.uint8(255 >> spare)


@bare
def _read(x, message, position, size):  # type: ignore[no-untyped-def]
    for k in range(len(x)):
        x[k] = _ZERO
    for b in range(size):
        x[b >> 3] |= np.uint64(message[position + b]) << np.uint64(8 * (b & 7))


_pad_rows, _shift_rows = plain(_pad), plain(_shift_left)
_reduce_rows_once = plain(reduce_once)


def _sent(
    zero: _Array, one: _Array, x: _Array, used: int, bits: int, message: _Array, share: _Array,
    modulus: _Array, mask: np.uint64, odd: bool, inverse: np.uint64,
) -> None:  # fmt: skip
    n, limbs = x.shape
    ring = modulus, mask, odd
    pads = [hashed.reshape(n, used, hashed.shape[1]) for hashed in (zero, one)]
    p0, p1, part = np.empty((3, limbs, n), np.uint64)
    wide, shifted, total = np.empty((2 * limbs, n), np.uint64), x.T.copy(), share.T
    total[:] = 0
    width = message_bytes(bits, used, odd)
    lines = message[: n * width].reshape(n, width)
    position = 0
    for j, (size, spare) in enumerate(_places(bits, used, odd)):
        for pad, hashed in zip((p0, p1), pads, strict=True):
            _pad_rows(hashed[:, j].T, pad, wide, *ring, inverse, bits + 63)
        _subtract_rows(p0, p1, part, *ring)
        _add_rows(part, shifted, part, *ring)
        if odd:
            _add_rows(shifted, shifted, shifted, *ring)
        else:
            _shift_rows(p0, j, mask)
        _subtract_rows(total, p0, total, *ring)
        line = lines[:, position : position + size]
        line[:] = part.T.copy().view(np.uint8)[:, :size]
        line[:, -1] &= np.uint8(255 >> spare)  # what lies above would tell something about x
        position += size


def _received(
    chosen: _Array, y: _Array, used: int, bits: int, message: _Array, share: _Array,
    modulus: _Array, mask: np.uint64, odd: bool, inverse: np.uint64,
) -> None:  # fmt: skip
    n, limbs = y.shape
    ring = modulus, mask, odd
    hashed = chosen.reshape(n, used, chosen.shape[1])
    pad, wide = np.empty((limbs, n), np.uint64), np.empty((2 * limbs, n), np.uint64)
    total = share.T
    total[:] = 0
    width = message_bytes(bits, used, odd)
    lines = message[: n * width].reshape(n, width)
    position = 0
    for j, (size, _) in enumerate(_places(bits, used, odd)):
        _pad_rows(hashed[:, j].T, pad, wide, *ring, inverse, bits + 63)
        whole = np.zeros((n, 8 * limbs), np.uint8)
        whole[:, :size] = lines[:, position : position + size]
        part = whole.view(np.uint64).T
        if odd:
            _reduce_rows_once(part, _ZERO, modulus)  # a peer may send anything
        part &= _ZERO - ((y[:, j >> 6] >> np.uint64(j & 63)) & _ONE)
        _add_rows(pad, part, pad, *ring)
        if not odd:
            _shift_rows(pad, j, mask)
        _add_rows(total, pad, total, *ring)
        position += size


def _short(bits: int, limbs: int) -> tuple[_Array, np.uint64, bool, np.uint64]:
    """A ring modulo 2^bits, as the loops for all rings take it."""
    mask = np.uint64((1 << (bits - 64 * (limbs - 1))) - 1)
    return np.zeros(limbs, np.uint64), mask, False, _ZERO


def _sent_short(
    zero: _Array, one: _Array, x: _Array, used: int, bits: int, message: _Array, share: _Array
) -> None:
    _sent(zero, one, x, used, bits, message, share, *_short(bits, x.shape[1]))


def _received_short(
    chosen: _Array, y: _Array, used: int, bits: int, message: _Array, share: _Array
) -> None:
    _received(chosen, y, used, bits, message, share, *_short(bits, y.shape[1]))


@_kernel(instead=_sent, patience=2.0)
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


@_kernel(instead=_received, patience=2.0)
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


@_kernel(instead=_sent_short, patience=0.7)
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
            d1 = z1 - o1 - np.uint64(z0 < o0)
            p0 = d0 + x0
            p1 = d1 + x1 + np.uint64(p0 < d0)
            m0, m1 = _masks(bits - j)
            _store(place, p0 & m0)
            _store(place + np.uint64(8), p1 & m1)
            place += np.uint64((bits - j + 7) >> 3)
            z0, z1 = _left(z0, z1, j)
            s1 -= z1 + np.uint64(s0 < z0)
            s0 -= z0
        m0, m1 = _masks(bits)
        share[i, 0] = s0 & m0
        if two:
            share[i, 1] = s1 & m1


@_kernel(instead=_received_short, patience=0.7)
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
            p1 = c1 + (_load(place + np.uint64(8)) & chose) + np.uint64(p0 < c0)
            place += np.uint64((bits - j + 7) >> 3)
            # What lies above the bits - j bits in use is shifted out.
            p0, p1 = _left(p0, p1, j)
            s0 += p0
            s1 += p1 + np.uint64(s0 < p0)
        m0, m1 = _masks(bits)
        share[i, 0] = s0 & m0
        if two:
            share[i, 1] = s1 & m1


def _numbers(rows: _Array, vectors: int) -> _Array:
    """Numbers of few bytes, uint8[n, vectors·size], as uint64[n, vectors]."""
    size = rows.shape[1] // vectors
    whole = np.zeros((len(rows), vectors, 8), np.uint8)
    whole[:, :, :size] = rows.reshape(len(rows), vectors, size)
    numbers: _Array = whole.view(np.uint64)[:, :, 0]
    return numbers


def _vector_sent(
    zero: _Array, one: _Array, bits_of: _Array, message: _Array, share: _Array
) -> None:
    n, vectors = bits_of.shape
    p0, p1 = _numbers(zero, vectors), _numbers(one, vectors)
    share -= p0.sum(axis=0)
    values = (p0 - p1 + bits_of).view(np.uint8).reshape(n, vectors, 8)
    message[:] = values[:, :, : zero.shape[1] // vectors].reshape(message.shape)


def _vector_received(chosen: _Array, choice: _Array, message: _Array, share: _Array) -> None:
    chose = _ZERO - choice.astype(np.uint64)[:, None]
    other = _numbers(message, len(share)) & chose
    share += (_numbers(chosen, len(share)) + other).sum(axis=0)


@_kernel(instead=_vector_sent, patience=0.7)
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


@_kernel(instead=_vector_received, patience=0.7)
def vector_receive(chosen, choice, message, share):  # type: ignore[no-untyped-def]
    """Bob's side of `vector_send`: choice is uint8[n]."""
    n, width = chosen.shape
    vectors = len(share)
    size = width // vectors
    for i in range(n):
        chose = _ZERO - np.uint64(choice[i])
        for v in range(vectors):
            value = _ZERO
            other = _ZERO
            for b in range(size):
                value |= np.uint64(chosen[i, v * size + b]) << np.uint64(8 * b)
                other |= np.uint64(message[i, v * size + b]) << np.uint64(8 * b)
            share[v] += value + (other & chose)
