"""Arithmetic on shared numbers: products, public factors, comparisons.

*Products* by Gilboa's method (1999): if Alice knows x and Bob y, then x · y = Σ_j y_j · 2^j x, so
one correlated transfer for each bit of y leaves the two with shares of the product. A product of
shared numbers is two local products and two of those.

*Factors that are not integers* (§4 and §5 of the paper): rounded multiplication does not distribute
over addition modulo m, but nearly. With shares a, b of v, ρ·v is ρ·a + ρ·b if a + b < m, and ρ·m
less if the sum wraps around. Each side rounds its own part; what remains to be known, in shares,
is whether the sum wrapped.

*Comparisons* are small circuits whose outputs are opened to both sides; all else stays hidden.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure import _kernels
from sfumato.secure.circuit import Builder, Circuit, constant
from sfumato.secure.garbling import run_circuit
from sfumato.secure.oblivious_transfer import hashed
from sfumato.secure.shares import Limbs, Ring, Shares, receive_elements

if TYPE_CHECKING:
    from sfumato.secure.session import Session


_TRANSFERS = 1 << 14
"""Transfers worked on at a time: what is made of them stays in the cache."""
_SPARE = 16
"""Room behind a message for kernels that read and write whole words."""
_LEAST_SECURITY = 40


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
    size = _kernels.message_bytes(ring.bits, bits, not ring.is_power_of_two)
    for part in _parts(n, bits):
        x = np.ascontiguousarray(mine[part])
        q = session.ot_sender.extend(len(x) * bits)
        zero, one = hashed(session, q, ring.pad_words)
        message = np.empty(len(x) * size + _SPARE, np.uint8)
        if _is_short(ring):
            _kernels.gilboa_send_short(zero, one, x, bits, ring.bits, message, share[part])
        else:
            _kernels.gilboa_send(
                zero, one, x, bits, ring.bits, message, share[part], *ring.kernel, ring.inverse
            )
        session.channel.send("products: corrections", message[:-_SPARE])
        session.progress("products", part.stop / n)
    return share


def _asked(session: Session, ring: Ring, mine: Limbs, bits: int) -> Limbs:
    """Bob's share of the products."""
    n = len(mine)
    share = np.empty((n, ring.limbs), np.uint64)
    size = _kernels.message_bytes(ring.bits, bits, not ring.is_power_of_two)
    parts = _parts(n, bits)
    choices = (ring.to_bits(mine[part], bits).reshape(-1) for part in parts)
    for part, (_, t) in zip(parts, session.ot_receiver.ahead(choices), strict=True):
        y = np.ascontiguousarray(mine[part])
        (chosen,) = hashed(session, t, ring.pad_words)
        raw = session.channel.receive("products: corrections", len(y) * size)
        raw += bytes(_SPARE)
        message = np.frombuffer(raw, np.uint8)
        if _is_short(ring):
            _kernels.gilboa_receive_short(chosen, y, bits, ring.bits, message, share[part])
        else:
            _kernels.gilboa_receive(
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


# Factors that are not integers


def scale(
    session: Session,
    x: Shares,
    factor: float | Fraction,
    *,
    method: str = "exact",
    largest: int | None = None,
    security: int = _LEAST_SECURITY,
) -> Shares:
    """Shares of factor · x, off by less than 1.5 units (1 with the statistical method).

    Parameters
    ----------
    factor
        Public; a float is taken as the fraction it is. The ring must hold factor · x.
    method
        ``"exact"`` finds out by a small circuit which shares wrapped (§4). ``"statistical"``
        takes it that all did (§5): no communication at all, right except with probability
        2^-security for uniform shares, always right for those of `share_wrapping`.
    largest
        Statistical method: public bound on the absolute value of x times its scale.
    security
        Statistical method: at least 40 bits, for which the modulus must have room.

    Examples
    --------
    >>> from sfumato.secure import private, reveal, together
    >>> def party(session):
    ...     x = private(Ring.odd(10007), [1000 if session.is_alice else -400])
    ...     return abs(int(reveal(session, scale(session, x, 0.5), what="half")[0]) - 300) < 1.5
    >>> together(party, party)
    (True, True)
    """
    whole_factor = Fraction(factor)
    if method not in ("exact", "statistical"):
        raise ParameterError(
            f"`{method}` is not a method of scaling", remedy="Use exact or statistical."
        )
    whole = whole_factor.numerator // whole_factor.denominator
    rest = whole_factor - whole
    session.begin(
        "scale", ring=x.ring, n=len(x), factor=whole_factor, method=method, largest=largest
    )
    if method == "exact":
        part = _exact(session, x, rest)
    else:
        part = _statistical(session, x, rest, largest, security)
    return Shares(x.ring, x.ring.add(x.ring.times(x.values, whole), part), x.scale)


def rescale(session: Session, x: Shares, new_scale: int, **how: Any) -> Shares:
    """The same numbers at another scale; `how` goes to `scale`."""
    moved = scale(session, x, Fraction(new_scale, x.scale), **how)
    return Shares(x.ring, moved.values, new_scale)


def share_wrapping(
    session: Session,
    numbers: Any | None,
    *,
    ring: Ring,
    owner: str,
    n: int,
    largest: int,
    security: int = _LEAST_SECURITY,
) -> Shares:
    """Split the owner's numbers (0 to `largest`) into shares whose sum always wraps (§5).

    The other side's share is drawn around m/2 from an interval 2^security times as wide as the
    numbers: what it tells about them is at most 2^-security.
    """
    check_room(ring, largest, security)
    session.begin("share wrapping", ring=ring, n=n, owner=owner, largest=largest)
    if session.role != owner:
        return Shares(ring, receive_elements(session, "share wrapping", ring, n))
    values = [int(v) for v in np.asarray(numbers, dtype=object).reshape(-1)]
    if len(values) != n:
        raise ParameterError(f"{n} numbers were announced, {len(values)} given")
    if not all(0 <= v <= largest for v in values):
        raise ParameterError(f"some numbers lie outside 0 to {largest}")
    drawn = wrapping_shares(ring, n, largest=largest, security=security)
    session.channel.send("share wrapping", drawn)
    return Shares(ring, ring.subtract(ring.encode(values), drawn))


def wrapping_shares(ring: Ring, n: int, *, largest: int, security: int = _LEAST_SECURITY) -> Limbs:
    """Random shares around m/2: those that complete them to 0 … `largest` always wrap (§5)."""
    check_room(ring, largest, security)
    width = largest << security
    first = (ring.modulus - width) // 2
    return ring.encode([first + secrets.randbelow(width) for _ in range(n)])


def _exact(session: Session, x: Shares, rest: Fraction) -> Limbs:
    ring, n = x.ring, len(x)
    # Signed numbers become residues 0 … m-1 by a constant that Alice adds and takes off again.
    shift = ring.modulus // 2
    mine = ring.add(x.values, ring.encode([shift])) if session.is_alice else x.values
    circuit = _wrap_circuit(ring)
    session.transfers.reserve(n * (len(circuit.bob_slots) + 1))
    wrapped = run_circuit(session, circuit, ring.to_bits(mine).T, n=n)
    excess = _rounded(rest * ring.modulus)
    (correction,) = shares_of_bits(session, ring, wrapped, [[-excess]])
    offset = -rest * shift if session.is_alice else Fraction(0)
    return ring.add(_multiplied(ring, mine, rest, offset), correction)


def _statistical(
    session: Session, x: Shares, rest: Fraction, largest: int | None, security: int
) -> Limbs:
    if largest is None:
        raise ParameterError("the statistical method needs `largest`, a bound on the numbers")
    ring = x.ring
    check_room(ring, 2 * largest, security)
    if not session.is_alice:
        return _multiplied(ring, x.values, rest, Fraction(0))
    shifted = ring.add(x.values, ring.encode([largest]))
    return _multiplied(ring, shifted, rest, -rest * (largest + ring.modulus))


def check_room(ring: Ring, largest: int, security: int = _LEAST_SECURITY) -> None:
    """Refuse a modulus without room for numbers to `largest` and the security asked for."""
    if security < _LEAST_SECURITY:
        raise ParameterError(
            f"{security} bits of statistical security are too few",
            remedy=f"Use at least {_LEAST_SECURITY}.",
        )
    if largest < 1:
        raise ParameterError("the bound on the numbers must be at least one")
    if ring.modulus < (largest << security) + 4 * largest:
        raise ParameterError(
            f"modulo {ring} there is no room for numbers to {largest} and {security} bits of "
            "statistical security",
            remedy="Take a larger ring, or the exact method.",
        )


def _multiplied(ring: Ring, values: Limbs, rest: Fraction, offset: Fraction) -> Limbs:
    """round(rest · value + offset) for every residue."""
    below = rest.denominator * offset.denominator
    slope, start = rest.numerator * offset.denominator, offset.numerator * rest.denominator
    numbers = (int(v) % ring.modulus for v in ring.decode(values))
    return ring.encode([(2 * (slope * v + start) + below) // (2 * below) for v in numbers])


def _rounded(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


@lru_cache(maxsize=32)
def _wrap_circuit(ring: Ring) -> Circuit:
    builder = Builder()
    a, b = builder.alice(ring.bits), builder.bob(ring.bits)
    return builder.finish([builder.wrapped(a, b, ring)])


# Comparisons


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
    index = _numbers(
        run_circuit(session, _smallest_circuit(ring, size), bits.T, n=n, reveal="both")
    )
    if (index >= size).any():
        session.refuse("opened an index outside the group", "smallest")
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
        raise ParameterError(f"numbers modulo {ring} cannot reach the limit {limit}")
    session.note_learned("both", what)
    session.begin("below", ring=ring, limit=limit, n=len(shares))
    bits = ring.to_bits(_ordered(session, shares)).T
    circuit = _below_circuit(ring, limit - lowest)
    return _flags(run_circuit(session, circuit, bits, n=len(shares), reveal="both"))


def is_zero(session: Session, shares: Shares, *, what: str) -> NDArray[np.bool_]:
    """Whether each number is zero: Alice's share equals minus Bob's."""
    ring = shares.ring
    session.note_learned("both", what)
    session.begin("zero", ring=ring, n=len(shares))
    mine = shares.values if session.is_alice else ring.negate(shares.values)
    bits = ring.to_bits(mine).T
    return _flags(run_circuit(session, _equal_circuit(ring), bits, n=len(shares), reveal="both"))


def _ordered(session: Session, shares: Shares) -> Limbs:
    """Shift signed numbers so that their order is the order of residues: Alice adds a constant."""
    if not session.is_alice:
        return shares.values
    ring = shares.ring
    return ring.add(shares.values, ring.encode([ring.modulus // 2]))


@lru_cache(maxsize=64)
def _smallest_circuit(ring: Ring, group: int) -> Circuit:
    builder = Builder()
    numbers = [builder.reconstruct(ring) for _ in range(group)]
    return builder.finish(builder.smallest(numbers))


@lru_cache(maxsize=64)
def _below_circuit(ring: Ring, limit: int) -> Circuit:
    builder = Builder()
    number = [*builder.reconstruct(ring), -1]
    return builder.finish([builder.less_than(number, constant(limit, ring.bits + 1))])


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
