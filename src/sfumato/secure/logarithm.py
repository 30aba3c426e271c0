"""Shares of x to shares of a scaled ln x: the corrected protocol of Lindell & Pinkas.

x = 2^n (1 + ε) with -1/4 <= ε < 1/2, so ln x = n ln 2 + ln(1 + ε) (formula 2.1). Phase one, a
garbled circuit, finds n and e = ε · 2^N; phase two evaluates a polynomial for ln(1 + ε).

Two settings, chosen by the ring of the shares:

*The paper's*, modulo an odd m. The circuit returns shares modulo m, the polynomial is the Taylor
series at the scale σ = 2^(N k) · lcm(2, …, k). Lindell & Pinkas took 2^N · lcm(2, …, k) and divided
modulo m by powers of two that do not divide, which gives nonsense (§3).

*The fast one*, modulo 2^R. The circuit leaves bits shared by exclusive or, which transfers turn
into numbers modulo a wider 2^L; the polynomial is minimax at the scale 2^F; at the end both drop
the lowest L - R bits of their shares, which leaves shares modulo 2^R at the scale 2^(F-L+R), one
unit off at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure import polynomial, series, words, yao
from sfumato.secure.arithmetic import multiply, shares_of_bits
from sfumato.secure.circuit import ZERO, Builder, Circuit, Word
from sfumato.secure.sharing import Limbs, Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["known_bits", "log", "log_error", "x_log_x"]

_FRACTION_BITS = 20
_FAST_TERMS, _FAST_PRECISION = 5, 16
_AT_ONCE = 1 << 16
"""Logarithms worked on at a time, which bounds memory to some 100 MB."""


def log(
    session: Session,
    x: Shares,
    *,
    bits: int | None = None,
    fraction_bits: int | None = None,
    terms: int | None = None,
    precision: int | None = None,
    backend: str = "ot",
) -> Shares:
    """Shares of scale · ln x, in the ring of x.

    ln 0 is given as 0 (within the stated error), so that x · ln x is 0 there, as information
    theory wants it.

    Parameters
    ----------
    x
        Shares of integers (scale 1), 0 <= x < 2^bits. What lies outside gives a wrong result,
        not an error: nobody can see it.
    bits
        Public bound on x; by default the largest the ring allows (40 at most).
    fraction_bits
        Fast setting only: the result has the scale 2^fraction_bits; default 20.
    terms
        Degree k of the polynomial. Default: 5, or in an odd ring the largest of 5, 4, 3, 2 that
        fits its modulus.
    precision
        Bits N of ε. Default: 16, or `bits` in an odd ring (then ε is exact, as in the paper).
    backend
        How the polynomial is evaluated: ``"ot"``, or the paper's ``"paillier"``.

    Examples
    --------
    >>> from sfumato.secure import private, reveal_real, together
    >>> def party(session):
    ...     x = private(Ring.odd(2**60 - 93), [100 if session.is_alice else 23])
    ...     return reveal_real(session, log(session, x, bits=10), what="ln x").round(2).tolist()
    >>> together(party, party)  # ln 123 = 4.81, by five terms of the Taylor series
    ([4.81], [4.81])
    """
    if x.scale != 1:
        raise ParameterError("log takes whole numbers, not scaled ones")
    if not len(x):
        raise ParameterError("there is no number to take the logarithm of")
    plan = _plan(x.ring, bits, fraction_bits, terms, precision)
    session.begin("log", plan=plan, n=len(x), backend=backend)
    parts = (x[i : i + _AT_ONCE] for i in range(0, len(x), _AT_ONCE))
    if isinstance(plan, _Fast):
        return Shares.concatenate([_fast(session, part, plan, backend) for part in parts])
    return Shares.concatenate([_paper(session, part, plan, backend) for part in parts])


def log_error(
    ring: Ring,
    *,
    bits: int | None = None,
    fraction_bits: int | None = None,
    terms: int | None = None,
    precision: int | None = None,
) -> float:
    """The stated bound on |result - ln x| of `log` with the same parameters.

    Examples
    --------
    >>> log_error(Ring.power_of_two(64), bits=40) < 3e-5
    True
    """
    return _plan(ring, bits, fraction_bits, terms, precision).error


def x_log_x(
    session: Session,
    x: Shares,
    *,
    bits: int | None = None,
    fraction_bits: int | None = None,
    terms: int | None = None,
    precision: int | None = None,
    backend: str = "ot",
) -> Shares:
    """Shares of scale · x · ln x, zero for x = 0; parameters as in `log`.

    The ring must have room for the product. By default `fraction_bits` is 20, or as many as fit.
    """
    ring = x.ring
    known = known_bits(ring, bits)
    room = ring.bits - known - known.bit_length() - 1
    if ring.is_power_of_two and fraction_bits is None:
        fraction_bits = min(_FRACTION_BITS, room)
    plan = _plan(ring, known, fraction_bits, terms, precision)
    if 2 * plan.scale * math.ceil(known * math.log(2)) << known >= ring.modulus:
        raise ParameterError(
            f"x · ln x of numbers below 2^{known} does not fit modulo {ring} at this scale",
            remedy="Take a larger ring, smaller `bits`, or fewer fraction bits or terms.",
        )
    logarithm = log(
        session,
        x,
        bits=known,
        fraction_bits=fraction_bits,
        terms=terms,
        precision=precision,
        backend=backend,
    )
    return multiply(session, x, logarithm)


# What both sides agree on before they start


@dataclass(frozen=True)
class _Paper:
    ring: Ring
    bits: int
    precision: int
    terms: int

    @property
    def scale(self) -> int:
        return series.taylor_scale(self.precision, self.terms)

    @property
    def ln2(self) -> int:
        """σ · ln 2: at this scale multiplying shares of n by an integer is exact enough."""
        return _times_ln2(self.scale)

    @property
    def error(self) -> float:
        cut = 0.0 if self.precision >= self.bits else 2.0**-self.precision / 0.75
        return series.taylor_error(self.terms) + cut + self.bits / self.scale


@dataclass(frozen=True)
class _Fast:
    ring: Ring
    bits: int
    precision: int
    terms: int
    fraction_bits: int
    scale_bits: int

    @property
    def scale(self) -> int:
        return 1 << self.fraction_bits

    @property
    def dropped(self) -> int:
        return self.scale_bits - self.fraction_bits

    @property
    def wide(self) -> Ring:
        return Ring.power_of_two(self.ring.bits + self.dropped)

    @property
    def coefficients(self) -> list[int]:
        return list(series.minimax(self.precision, self.terms, self.scale_bits))

    @property
    def ln2(self) -> int:
        return _times_ln2(1 << self.scale_bits)

    @property
    def error(self) -> float:
        polynomial = series.minimax_error(self.precision, self.terms, self.scale_bits)
        return polynomial + 1.0 / self.scale + self.bits * 2.0**-self.scale_bits


def _plan(
    ring: Ring,
    bits: int | None,
    fraction_bits: int | None,
    terms: int | None,
    precision: int | None,
) -> _Paper | _Fast:
    known = known_bits(ring, bits)
    if ring.is_power_of_two:
        return _fast_plan(ring, known, fraction_bits, terms, precision)
    if fraction_bits is not None:
        raise ParameterError(
            "an odd modulus has the paper's scale, not a number of fraction bits",
            remedy="Leave `fraction_bits` out, or use a power of two.",
        )
    return _paper_plan(ring, known, terms, precision)


def known_bits(ring: Ring, bits: int | None) -> int:
    """The public bound on x, checked, or the default: what the ring allows, at most 40."""
    largest = ring.bits - 1
    known = min(40, largest) if bits is None else bits
    if not 1 <= known <= min(64, largest):
        raise ParameterError(
            f"x cannot have {known} bits modulo {ring}",
            remedy=f"`bits` is 1 to {min(64, largest)} here.",
        )
    return known


def _paper_plan(ring: Ring, bits: int, terms: int | None, precision: int | None) -> _Paper:
    exact = max(3, bits) if precision is None else precision
    for k in (5, 4, 3, 2) if terms is None else (terms,):
        plan = _Paper(ring, bits, exact, k)
        # The necessary condition: ln x · σ must be readable as a signed residue.
        needed = math.ceil(2 * plan.scale * bits * math.log(2))
        if ring.modulus > needed:
            return plan
    raise ParameterError(
        f"a modulus of {ring.bits} bits is too small for {k} terms and {exact} bits of precision",
        remedy=f"Take a modulus above 2^{needed.bit_length()}, or fewer terms or bits.",
    )


@lru_cache(maxsize=64)
def _fast_plan(
    ring: Ring, bits: int, fraction_bits: int | None, terms: int | None, precision: int | None
) -> _Fast:
    fraction = _FRACTION_BITS if fraction_bits is None else fraction_bits
    k = _FAST_TERMS if terms is None else terms
    exact = _FAST_PRECISION if precision is None else precision
    best = series.minimax_error(exact, k, exact * k + 40)
    scale_bits = max(fraction, exact * (k - 1))
    while (
        ring.bits + scale_bits - fraction <= 256
        and series.minimax_error(exact, k, scale_bits) > 1.1 * best
    ):
        scale_bits += 1
    if fraction < 1 or fraction + bits.bit_length() + 1 > ring.bits:
        raise ParameterError(
            f"logarithms with {fraction} fraction bits do not fit modulo {ring}",
            remedy="Take a larger ring or fewer fraction bits.",
        )
    if ring.bits + scale_bits - fraction > 256:
        raise ParameterError(
            f"{k} terms at {exact} bits of precision need shares of more than 256 bits here",
            remedy="Take fewer terms, less precision or a smaller ring.",
        )
    return _Fast(ring, bits, exact, k, fraction, scale_bits)


@lru_cache(maxsize=64)
def _times_ln2(scale: int) -> int:
    """round(scale · ln 2) for scales far beyond floating point: ln 2 = Σ 1 / (i · 2^i)."""
    guard = 64
    total, i = 0, 1
    while (scale << guard) >> i:
        total += (scale << guard) // (i << i)
        i += 1
    return (total + (1 << (guard - 1))) >> guard


# Phase one


def _split(builder: Builder, x: Word, precision: int) -> tuple[Word, int, int, Word]:
    """Leading zeros, whether x > 0, whether the next bit is one, and the low bits of e.

    With h the bit after the leading one: n = (width - 1 - leading zeros) + h. If h = 0 then
    e = f, else e = (f - 2^N) / 2, where f holds the N bits after the leading one. In two's
    complement of N bits the sign of e is h.
    """
    width = len(x)
    value, zeros = words.leading_one(builder, x, precision + 1)
    after = [value[i] if i >= 0 else ZERO for i in range(width - 1 - precision, width - 1)]
    half = after[-1]
    low = words.choose(builder, half, after[1:], after[:-1])
    return zeros, value[-1], half, low


@lru_cache(maxsize=32)
def _fast_circuit(ring: Ring, bits: int, precision: int) -> Circuit:
    builder = Builder()
    x = words.reconstruct(builder, ring, bits)
    zeros, positive, half, low = _split(builder, x, precision)
    return builder.finish([*zeros, positive, half, *low])


@lru_cache(maxsize=32)
def _paper_circuit(ring: Ring, bits: int, precision: int) -> Circuit:
    """x modulo m in, n - r and e + 2^(N-2) - s modulo m out, for Alice's random r and s."""
    builder = Builder()
    x = words.reconstruct(builder, ring, bits)
    r, s = builder.alice(ring.bits), builder.alice(ring.bits)
    zeros, positive, half, low = _split(builder, x, precision)
    size = bits.bit_length() + 1
    padded = [*zeros, *([ZERO] * (size - len(zeros)))]
    places, _ = words.subtract(builder, words.constant(bits - 1, size), padded)
    n, _ = words.add(builder, places, words.constant(0, size), half)
    n = [builder.both(positive, wire) for wire in n]
    # e >= -2^(N-2): adding 2^(N-2) makes it non-negative, so the difference wraps only once.
    e, _ = words.add(builder, [*low, half], words.constant(1 << (precision - 2), precision))
    outputs: Word = []
    for number, mask in ((n, r), (e, s)):
        wide = [*number, *([ZERO] * ring.bits)][: ring.bits]
        outputs += words.subtract_modulo(builder, wide, mask, ring)
    return builder.finish(outputs)


# The protocol


def _paper(session: Session, x: Shares, plan: _Paper, backend: str) -> Shares:
    ring, n = plan.ring, len(x)
    if plan.precision + 1 > ring.bits:
        raise ParameterError(f"{plan.precision} bits of precision do not fit modulo {ring}")
    circuit = _paper_circuit(ring, plan.bits, plan.precision)
    if session.is_alice:
        powers, epsilon = ring.random(n), ring.random(n)
        inputs = np.concatenate([ring.to_bits(v) for v in (x.values, powers, epsilon)], axis=1)
        yao.run(session, circuit, inputs.T, n=n, reveal="bob")
        epsilon = ring.subtract(epsilon, ring.encode([1 << (plan.precision - 2)]))
    else:
        outputs = yao.run(session, circuit, ring.to_bits(x.values).T, n=n, reveal="bob")
        powers = ring.from_bits(outputs[: ring.bits].T)
        epsilon = ring.from_bits(outputs[ring.bits :].T)
    coefficients = series.taylor(plan.precision, plan.terms)
    correction = polynomial.evaluate(session, ring, epsilon, coefficients, backend=backend)
    return Shares(ring, ring.add(ring.times(powers, plan.ln2), correction), plan.scale)


def _fast(session: Session, x: Shares, plan: _Fast, backend: str) -> Shares:
    wide, n = plan.wide, len(x)
    circuit = _fast_circuit(plan.ring, plan.bits, plan.precision)
    inputs = plan.ring.to_bits(x.values, plan.bits).T
    shared = yao.run(session, circuit, inputs, n=n)
    main_weights, main_constant, low_weights = _weights(plan)
    main, epsilon = shares_of_bits(session, wide, shared, [main_weights, low_weights])
    if session.is_alice:
        main = wide.add(main, wide.encode([main_constant]))
    correction = polynomial.evaluate(session, wide, epsilon, plan.coefficients, backend=backend)
    total = _drop(wide.add(main, correction), plan)
    if session.is_alice:  # dropping loses 0 to 2 units: centre it
        total = plan.ring.add(total, plan.ring.encode([1]))
    return Shares(plan.ring, total, plan.scale)


def _weights(plan: _Fast) -> tuple[list[int], int, list[int]]:
    """Weights of the circuit's output bits in n · ln 2 · 2^F and in e.

    n = width - 1 - zeros + half for x > 0; the weight of "x > 0" takes away what would be left
    for x = 0, where the circuit counts as many zeros as its shifter can. The polynomial's own
    constant is left to itself there: it is below the stated error.
    """
    width, steps = plan.bits, max(1, (plan.bits - 1).bit_length())
    counted = sum(1 << j for j in range(steps) if 1 << j < width)
    places = [-(1 << j) if 1 << j < width else 0 for j in range(steps)]
    surplus = width - 1 - counted
    main = [*places, surplus, 1] + [0] * (plan.precision - 1)
    low = [0] * (steps + 1) + [-(1 << (plan.precision - 1))]
    low += [1 << i for i in range(plan.precision - 1)]
    return [w * plan.ln2 for w in main], counted * plan.ln2, low


def _drop(values: Limbs, plan: _Fast) -> Limbs:
    """Drop the lowest bits of a share: shares modulo 2^L become shares modulo 2^R."""
    out = np.zeros((len(values), plan.ring.limbs), np.uint64)
    whole, rest = divmod(plan.dropped, 64)
    padded: NDArray[np.uint64] = np.concatenate(
        [values, np.zeros((len(values), 2), np.uint64)], axis=1
    )
    for k in range(plan.ring.limbs):
        out[:, k] = padded[:, k + whole] >> np.uint64(rest)
        if rest:
            out[:, k] |= padded[:, k + whole + 1] << np.uint64(64 - rest)
    out[:, -1] &= np.uint64((1 << (plan.ring.bits - 64 * (plan.ring.limbs - 1))) - 1)
    return out
