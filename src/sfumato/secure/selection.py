"""From shares to a public answer: which value is smallest, whether it lies below a limit.

Small circuits whose outputs are opened to both sides; everything else stays hidden.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError, PeerError
from sfumato.secure import words, yao
from sfumato.secure.circuit import Builder, Circuit
from sfumato.secure.sharing import Limbs, Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["argmax", "argmin", "below", "is_zero"]


def argmin(
    session: Session, shares: Shares, *, group: int | None = None, what: str
) -> NDArray[np.int64]:
    """Index of the smallest number of each group, known to both; the first of equals.

    Parameters
    ----------
    group
        Length of the consecutive groups; one group of all numbers if not given.
    what
        What becomes known, in words: it goes into the session's statement.

    Examples
    --------
    >>> from sfumato.secure import private, together
    >>> def party(session):
    ...     x = private(Ring.power_of_two(16), [5, -7, 3] if session.is_alice else [1, 1, 1])
    ...     return argmin(session, x, what="the cheapest").tolist()
    >>> together(party, party)
    ([1], [1])
    """
    size = len(shares) if group is None else group
    if size < 1 or len(shares) % size:
        raise ParameterError(f"{len(shares)} shares do not fall into groups of {size}")
    ring, n = shares.ring, len(shares) // size
    session.note_learned("both", what)
    session.begin("smallest", ring=ring, group=size, n=n)
    if size == 1:
        return np.zeros(n, np.int64)
    bits = ring.to_bits(_ordered(session, shares)).reshape(n, size * ring.bits)
    index = _numbers(yao.run(session, _smallest_circuit(ring, size), bits.T, n=n, reveal="both"))
    if (index >= size).any():
        session.channel.stop("it received an index outside the group")
        raise PeerError(
            "the other party opened an index outside the group",
            where="step `smallest`",
            remedy="Run the same version on both sides.",
        )
    return index


def argmax(
    session: Session, shares: Shares, *, group: int | None = None, what: str
) -> NDArray[np.int64]:
    """Index of the largest number of each group, known to both; the first of equals."""
    ring, turned = shares.ring, -shares
    if session.is_alice and ring.is_power_of_two:  # -1 - x: the least number has no negative
        turned = Shares(ring, ring.subtract(turned.values, ring.encode([1])), shares.scale)
    return argmin(session, turned, group=group, what=what)


def below(session: Session, shares: Shares, limit: int, *, what: str) -> NDArray[np.bool_]:
    """Whether each number (still multiplied by its scale) is below a public limit."""
    ring = shares.ring
    lowest = -(ring.modulus // 2)
    if not lowest <= limit <= ring.modulus + lowest:
        raise ParameterError(f"no number modulo {ring} can reach the limit")
    session.note_learned("both", what)
    session.begin("below", ring=ring, limit=limit, n=len(shares))
    bits = ring.to_bits(_ordered(session, shares)).T
    circuit = _below_circuit(ring, limit - lowest)
    return _flags(yao.run(session, circuit, bits, n=len(shares), reveal="both"))


def is_zero(session: Session, shares: Shares, *, what: str) -> NDArray[np.bool_]:
    """Whether each number is zero: Alice's share equals minus Bob's."""
    ring = shares.ring
    session.note_learned("both", what)
    session.begin("zero", ring=ring, n=len(shares))
    mine = shares.values if session.is_alice else ring.negate(shares.values)
    bits = ring.to_bits(mine).T
    return _flags(yao.run(session, _equal_circuit(ring), bits, n=len(shares), reveal="both"))


def _ordered(session: Session, shares: Shares) -> Limbs:
    """Shift signed numbers so that their order is the order of residues: Alice adds a constant."""
    if not session.is_alice:
        return shares.values
    ring = shares.ring
    return ring.add(shares.values, ring.encode([ring.modulus // 2]))


@lru_cache(maxsize=64)
def _smallest_circuit(ring: Ring, group: int) -> Circuit:
    builder = Builder()
    numbers = [words.reconstruct(builder, ring) for _ in range(group)]
    return builder.finish(words.smallest(builder, numbers))


@lru_cache(maxsize=64)
def _below_circuit(ring: Ring, limit: int) -> Circuit:
    builder = Builder()
    number = [*words.reconstruct(builder, ring), -1]
    return builder.finish([words.less_than(builder, number, words.constant(limit, ring.bits + 1))])


@lru_cache(maxsize=64)
def _equal_circuit(ring: Ring) -> Circuit:
    builder = Builder()
    different = [
        builder.xor(a, b)
        for a, b in zip(builder.alice(ring.bits), builder.bob(ring.bits), strict=True)
    ]
    while len(different) > 1:  # a tree: depth log2
        half = len(different) // 2
        pairs = [builder.either(different[i], different[half + i]) for i in range(half)]
        different = pairs + different[2 * half :]
    return builder.finish([builder.invert(different[0])])


def _numbers(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    weights = np.int64(1) << np.arange(len(bits), dtype=np.int64)
    numbers: NDArray[np.int64] = (bits.astype(np.int64) * weights[:, None]).sum(axis=0)
    return numbers


def _flags(bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = bits[0].astype(np.bool_)
    return flags
