"""Oblivious evaluation of a public polynomial at a shared number (§2 of the paper, step 4).

With shares α (Alice's) and y (Bob's), p(α + y) = Σ_j D_j(α) · y^j, where Alice knows every D_j(α)
and Bob every y^j. What remains are k - 1 products of a number of Alice's by one of Bob's: D_0 is
Alice's alone, and D_k, the highest coefficient, is public. All in one round.

Two backends make the products: oblivious transfers (`ot`), or Bob's encrypted powers (`paillier`).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError, PeerError
from sfumato.secure.arithmetic import cross_products
from sfumato.secure.paillier import KEY_BITS, PrivateKey, PublicKey
from sfumato.secure.sharing import Limbs, Ring

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["BACKENDS", "evaluate"]

BACKENDS = ("ot", "paillier")
_HIDING = 80
"""Bits by which the mask exceeds what it hides in the Paillier backend."""


def evaluate(
    session: Session,
    ring: Ring,
    share: Limbs,
    coefficients: Sequence[int],
    *,
    backend: str = "ot",
) -> Limbs:
    """My share of p(x), given my share of x.

    Parameters
    ----------
    coefficients
        Of the public polynomial p, from the constant up: integers, taken modulo the ring.
    backend
        ``"ot"`` or ``"paillier"``.
    """
    if backend not in BACKENDS:
        raise ParameterError(f"`{backend}` is not a backend", remedy="Use ot or paillier.")
    degree, n = len(coefficients) - 1, len(share)
    if degree < 1:
        raise ParameterError("a polynomial to evaluate has at least degree one")
    public = [c % ring.modulus for c in coefficients]
    session.begin("polynomial", ring=ring, coefficients=public, n=n, backend=backend)
    powers = _powers(ring, share, degree)
    if session.is_alice:
        shifted = [_shifted(ring, public, powers, j) for j in range(degree)]
        own, factors = shifted[0], shifted[1:]
    else:
        own, factors = ring.times(powers[degree], public[degree]), powers[1:degree]
    if degree == 1:
        return own
    if backend == "paillier":
        return ring.add(own, _by_paillier(session, ring, factors))
    mixed = cross_products(session, ring, np.stack(factors, axis=1).reshape(-1, ring.limbs))
    return ring.add(own, ring.sum(mixed, degree - 1))


def _powers(ring: Ring, share: Limbs, degree: int) -> list[Limbs]:
    powers = [np.repeat(ring.encode([1]), len(share), axis=0)]
    for _ in range(degree):
        powers.append(ring.multiply(powers[-1], share))
    return powers


def _shifted(ring: Ring, coefficients: list[int], powers: list[Limbs], j: int) -> Limbs:
    """D_j(α) = Σ_{i >= j} c_i · C(i, j) · α^(i-j)."""
    total = np.zeros_like(powers[0])
    for i in range(j, len(coefficients)):
        total = ring.add(total, ring.times(powers[i - j], coefficients[i] * math.comb(i, j)))
    return total


def _by_paillier(session: Session, ring: Ring, factors: list[Limbs]) -> Limbs:
    """Bob sends encrypted powers, Alice returns their masked sum of products.

    The sum is an integer below (k - 1) · m²; Alice's mask is 2^80 times longer, so Bob sees
    noise. Modulo m the mask is her share.
    """
    products, n = len(factors), len(factors[0])
    if session.is_alice:
        key = _public_key(session)
        raw = bytes(session.channel.receive("Paillier powers", key.size * products * n))
        received = _split(raw, key.size)
        numbers = [[int(v) % ring.modulus for v in ring.decode(f)] for f in factors]
        width = 2 * ring.bits + products.bit_length() + _HIDING
        masks = [secrets.randbits(width) for _ in range(n)]
        answers = [
            key.combine(
                received[i * products : (i + 1) * products], [row[i] for row in numbers], masks[i]
            )
            for i in range(n)
        ]
        session.channel.send("Paillier results", _join(answers, key.size))
        return ring.encode([-mask for mask in masks])
    private = _private_key(session)
    size = private.public.size
    columns = [[int(v) % ring.modulus for v in ring.decode(f)] for f in factors]
    encrypted = [private.encrypt(columns[j][i]) for i in range(n) for j in range(products)]
    session.channel.send("Paillier powers", _join(encrypted, size))
    raw = bytes(session.channel.receive("Paillier results", size * n))
    return ring.encode([private.decrypt(c) for c in _split(raw, size)])


def _public_key(session: Session) -> PublicKey:
    if session.paillier is None:
        raw = bytes(session.channel.receive("Paillier key", KEY_BITS // 8))
        key = PublicKey(int.from_bytes(raw, "big"))
        try:
            key.check()
        except PeerError:
            session.channel.stop("it received a key that is not proper")
            raise
        session.paillier = key
    assert isinstance(session.paillier, PublicKey)
    return session.paillier


def _private_key(session: Session) -> PrivateKey:
    if session.paillier is None:
        key = PrivateKey.generate()
        session.channel.send("Paillier key", key.public.n.to_bytes(KEY_BITS // 8, "big"))
        session.paillier = key
    assert isinstance(session.paillier, PrivateKey)
    return session.paillier


def _join(numbers: list[int], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "big") for number in numbers)


def _split(raw: bytes, size: int) -> list[int]:
    return [int.from_bytes(raw[i : i + size], "big") for i in range(0, len(raw), size)]
