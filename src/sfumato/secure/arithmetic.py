"""Products of shared numbers, by Gilboa's method on oblivious transfers.

If Alice knows x and Bob knows y, then x · y = Σ_j y_j · 2^j x: one correlated transfer for each bit
of y leaves the two with shares of the product (Gilboa 1999). A product of shared numbers is two
local products and two of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure import _products
from sfumato.secure.sharing import Limbs, Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["cross_products", "multiply", "pads", "shares_of_bits"]

_TRANSFERS = 1 << 14
"""Transfers worked on at a time: what is made of them stays in the cache."""
_SPARE = 16
"""Room behind a message for kernels that read and write whole words."""


def multiply(session: Session, a: Shares, b: Shares) -> Shares:
    """Multiply shared numbers, element by element.

    The scale of the result is the product of the scales; the ring must have room for it.

    Examples
    --------
    >>> from sfumato.secure import Ring, private, reveal, together
    >>> def party(session):
    ...     x = private(Ring.power_of_two(32), [2, 5] if session.is_alice else [1, -9])
    ...     return reveal(session, multiply(session, x, x), what="squares").tolist()
    >>> together(party, party)
    ([9, 16], [9, 16])
    """
    if a.ring != b.ring:
        raise ParameterError(f"shares modulo {a.ring} and modulo {b.ring} do not mix")
    if len(a) != len(b):
        raise ParameterError(f"{len(a)} and {len(b)} shares do not fit together")
    ring, n = a.ring, len(a)
    # (a0 + a1)(b0 + b1): Alice brings a0 and b0, Bob b1 and a1 in the same order.
    first, second = (a, b) if session.is_alice else (b, a)
    mixed = cross_products(session, ring, np.concatenate([first.values, second.values]))
    total = ring.add(ring.multiply(a.values, b.values), ring.add(mixed[:n], mixed[n:]))
    return Shares(ring, total, a.scale * b.scale)


def cross_products(session: Session, ring: Ring, mine: Limbs, *, used: int | None = None) -> Limbs:
    """My share of Alice's number times Bob's number, for each position.

    Parameters
    ----------
    mine
        My numbers, as ring elements.
    used
        How many of the lowest bits of Bob's numbers count; the others must be zero.
    """
    bits = ring.bits if used is None else used
    n = len(mine)
    session.begin("products", ring=ring, n=n, bits=bits)
    with session.overlapping(n * bits):
        return (
            _offered(session, ring, mine, bits)
            if session.is_alice
            else _asked(session, ring, mine, bits)
        )


def _offered(session: Session, ring: Ring, mine: Limbs, bits: int) -> Limbs:
    """Alice's share of the products."""
    n = len(mine)
    share = np.empty((n, ring.limbs), np.uint64)
    size = _products.message_bytes(ring.bits, bits, not ring.is_power_of_two)
    for part in _parts(n, bits):
        x = np.ascontiguousarray(mine[part])
        q = session.ot_sender.extend(len(x) * bits)
        zero, one = pads(session, q, ring.pad_words)
        message = np.empty(len(x) * size + _SPARE, np.uint8)
        if _is_short(ring):
            _products.gilboa_send_short(zero, one, x, bits, ring.bits, message, share[part])
        else:
            _products.gilboa_send(
                zero, one, x, bits, ring.bits, message, share[part], *ring.kernel, ring.inverse
            )
        session.channel.send("products: corrections", message[:-_SPARE])
        session.progress("products", part.stop / n)
    return share


def _asked(session: Session, ring: Ring, mine: Limbs, bits: int) -> Limbs:
    """Bob's share of the products."""
    n = len(mine)
    share = np.empty((n, ring.limbs), np.uint64)
    size = _products.message_bytes(ring.bits, bits, not ring.is_power_of_two)
    parts = _parts(n, bits)
    choices = (ring.to_bits(mine[part], bits).reshape(-1) for part in parts)
    for part, (_, t) in zip(parts, session.ot_receiver.ahead(choices), strict=True):
        y = np.ascontiguousarray(mine[part])
        (chosen,) = pads(session, t, ring.pad_words)
        raw = session.channel.receive("products: corrections", len(y) * size)
        raw += bytes(_SPARE)
        message = np.frombuffer(raw, np.uint8)
        if _is_short(ring):
            _products.gilboa_receive_short(chosen, y, bits, ring.bits, message, share[part])
        else:
            _products.gilboa_receive(
                chosen, y, bits, ring.bits, message, share[part], *ring.kernel, ring.inverse
            )
        session.progress("products", part.stop / n)
    return share


def _parts(n: int, bits: int) -> list[slice]:
    step = max(1, _TRANSFERS // bits)
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _is_short(ring: Ring) -> bool:
    """Whether elements fit two registers, for which there are faster loops."""
    return ring.is_power_of_two and ring.bits <= 128


def pads(session: Session, keys: Limbs, words: int) -> tuple[Limbs, ...]:
    """Hash the keys of transfers to `words` (even) words each, every block under a fresh key.

    Alice gets the pads for both choices, Bob the one he chose.
    """
    deltas = (None, session.ot_sender.delta) if session.is_alice else (None,)
    if words == 2:
        key = session.hash_keys(1)
        return tuple(session.engine.hash(keys, key, delta=delta) for delta in deltas)
    made = tuple(np.empty((len(keys), words), np.uint64) for _ in deltas)
    for block in range(0, words, 2):
        key = session.hash_keys(1)
        for out, delta in zip(made, deltas, strict=True):
            out[:, block : block + 2] = session.engine.hash(keys, key, delta=delta)
    return made


def shares_of_bits(
    session: Session, ring: Ring, bits: NDArray[np.uint8], weights: Sequence[Sequence[int]]
) -> list[Limbs]:
    """Turn bits shared by exclusive or into weighted sums shared in a ring.

    A bit is a xor b = a + (1 - 2a) · b: one transfer each, however many sums are made of it.

    Parameters
    ----------
    bits
        My shares of the bits, uint8[width, n].
    weights
        For each wanted sum, the weight of every bit (negative ones are fine).
    """
    width, n = bits.shape
    flat = np.ascontiguousarray(bits.T).reshape(-1)
    mine = ring.encode(1 - 2 * flat.astype(np.int64) if session.is_alice else flat)
    share = cross_products(session, ring, mine, used=1)
    if session.is_alice:
        share = ring.add(share, ring.encode(flat))
    sums = []
    for row in weights:
        if len(row) != width:
            raise ParameterError(f"{width} bits need as many weights, not {len(row)}")
        sums.append(ring.sum(ring.multiply(share, np.tile(ring.encode(row), (n, 1))), width))
    return sums
