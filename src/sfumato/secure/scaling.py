"""Multiply shared numbers by a factor that is not an integer (§4 and §5 of the paper).

Rounded multiplication does not distribute over addition modulo m, but nearly: with shares a, b of
v, ρ·v is ρ·a + ρ·b if a + b < m, and ρ·m less if the sum wraps around. Each side rounds its own
part; what remains to be known, in shares, is whether the sum wrapped.
"""

from __future__ import annotations

import secrets
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.secure import words, yao
from sfumato.secure.arithmetic import shares_of_bits
from sfumato.secure.circuit import Builder, Circuit
from sfumato.secure.sharing import Limbs, Ring, Shares, receive_elements

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["rescale", "scale", "share_wrapping"]

_LEAST_SECURITY = 40


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
        raise ParameterError(f"`{method}` is no way to scale", remedy="Use exact or statistical.")
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
    _check_room(ring, largest, security)
    session.begin("share wrapping", ring=ring, n=n, owner=owner, largest=largest)
    if session.role != owner:
        return Shares(ring, receive_elements(session, "share wrapping", ring, n))
    values = [int(v) for v in np.asarray(numbers, dtype=object).reshape(-1)]
    if len(values) != n:
        raise ParameterError(f"{n} numbers were announced, {len(values)} given")
    if not all(0 <= v <= largest for v in values):
        raise ParameterError(f"some numbers lie outside 0 to {largest}")
    width = largest << security
    first = (ring.modulus - width) // 2
    drawn = [first + secrets.randbelow(width) for _ in values]
    session.channel.send("share wrapping", ring.encode(drawn))
    return Shares(ring, ring.encode([v - d for v, d in zip(values, drawn, strict=True)]))


def _exact(session: Session, x: Shares, rest: Fraction) -> Limbs:
    ring, n = x.ring, len(x)
    # Signed numbers become residues 0 … m-1 by a constant that Alice adds and takes off again.
    shift = ring.modulus // 2
    mine = ring.add(x.values, ring.encode([shift])) if session.is_alice else x.values
    circuit = _wrap_circuit(ring)
    wrapped = yao.run(session, circuit, ring.to_bits(mine).T, n=n)
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
    _check_room(ring, 2 * largest, security)
    if not session.is_alice:
        return _multiplied(ring, x.values, rest, Fraction(0))
    shifted = ring.add(x.values, ring.encode([largest]))
    return _multiplied(ring, shifted, rest, -rest * (largest + ring.modulus))


def _check_room(ring: Ring, largest: int, security: int) -> None:
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
    return builder.finish([words.wrapped(builder, a, b, ring)])
