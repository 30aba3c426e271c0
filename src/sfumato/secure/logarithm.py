"""Shares of x to shares of a scaled ln x: the corrected protocol of Lindell & Pinkas.

x = 2^n (1 + ε) with -1/4 <= ε < 1/2, so ln x = n ln 2 + ln(1 + ε) (formula 2.1). Phase one, a
garbled circuit, finds n and e = ε · 2^N; phase two evaluates a polynomial for ln(1 + ε).

Two settings, chosen by the ring of the shares:

*The paper's*, modulo an odd m. The circuit returns shares modulo m, the polynomial is the Taylor
series at the scale σ = 2^(N k) · lcm(2, …, k). Lindell & Pinkas took 2^N · lcm(2, …, k) and divided
modulo m by powers of two that do not divide, which gives nonsense (§3). How shares of n become
shares of n · ln 2 is a choice (`SCALINGS`): by default both multiply by round(σ · ln 2).

*The fast one*, modulo 2^R. The circuit leaves bits shared by exclusive or, which transfers turn
into numbers modulo a wider 2^L; the polynomial is minimax at the scale 2^F; at the end both drop
the lowest L - R bits of their shares, which leaves shares modulo 2^R at the scale 2^(F-L+R), one
unit off at most.

`log2_quick` is the paper's cheap alternative (§6): the position of the leading one and the next
four bits. Between powers of two log2(1 + f) is taken as f. The paper says the result is within
1/16; in truth it is 0 to 0.149 too small: up to 0.0861 from the straight line, up to 1/16 from
cutting f off. Adding half of that makes the error at most 0.0745 either way.

`log_opened` is a logarithm that a cheating party can neither falsify nor, but for one bit, look
behind: it is run twice (`garbling.run_twice`), so everything must happen inside one circuit. The
logarithm there is a table: 128 chords of ln(1 + f), chosen by the first seven bits after the
leading one; a table costs 128 AND gates however many bits its entries have, since garbled XOR is
free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError, spell
from sfumato.secure import polynomial
from sfumato.secure.arithmetic import check_room, scale, shares_of_bits, wrapping_shares
from sfumato.secure.circuit import ZERO, Builder, Circuit, Word, constant
from sfumato.secure.garbling import run_circuit, run_twice
from sfumato.secure.shares import LARGEST_RING, Limbs, Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session


COUNTS = Ring.power_of_two(64)
"""In the fast setting counts, and what is computed from them, are shared modulo 2^64."""
SETTINGS = ("fast", "paper")

SCALINGS = ("whole", "table", "exact", "statistical")
"""From n to n · ln 2 in the paper's setting: both multiply their shares by the whole number
round(σ · ln 2); a table in the circuit (Lindell & Pinkas); a factor that is not whole, with a small
circuit that finds out which shares wrapped (§4) or with shares that always do (§5)."""

_FRACTION_BITS = 20
_TERMS, _FAST_PRECISION = 5, 16
_AT_ONCE = 1 << 16
"""Logarithms worked on at a time, which bounds memory to some 100 MB."""
_MANTISSA = 4
_QUICK_SCALE = 1024
_CENTRE = 76
"""0.0742 · 1024: half of the largest shortfall."""
QUICK_ERROR = 0.0745
_OPENED_BITS = 20
_CHORD_BITS, _REST_BITS, _SLOPE_BITS = 7, 9, 10
"""Bits of f that choose a chord; bits of f along it; bits of its slope."""
_DROPPED = _SLOPE_BITS + _CHORD_BITS + _REST_BITS - _OPENED_BITS
_LEAST_BITS, _MOST_BITS = _CHORD_BITS + _REST_BITS + 1, 63


class LogSettings(TypedDict, total=False):
    """How exactly a logarithm is computed; both sides must choose alike.

    Attributes
    ----------
    bits
        Public bound on x: 0 <= x < 2^bits. By default the largest the ring allows (40 at most).
    fraction_bits
        Fast setting only: the result has the scale 2^fraction_bits; default 20.
    terms
        Degree k of the polynomial. Default: 5, or in an odd ring the largest of 5, 4, 3, 2 that
        fits its modulus.
    precision
        Bits N of ε. Default: 16, or `bits` in an odd ring (then ε is exact, as in the paper).
    scaling
        Odd ring only, one of `SCALINGS`: how n becomes n · ln 2; default ``"whole"``. The others
        have it in units of 2^-N, half a unit, 1.5 units and one unit off at most.
    """

    bits: int | None
    fraction_bits: int | None
    terms: int | None
    precision: int | None
    scaling: str | None


def log(
    session: Session, x: Shares, *, backend: str = "ot", **settings: Unpack[LogSettings]
) -> Shares:
    """Shares of scale · ln x, in the ring of x.

    ln 0 is given as 0 (within the stated error), so that x · ln x is 0 there, as information
    theory wants it.

    Parameters
    ----------
    x
        Shares of integers (scale 1), 0 <= x < 2^bits. What lies outside gives a wrong result,
        not an error: nobody can see it.
    backend
        How the polynomial is evaluated: ``"ot"``, or the paper's ``"paillier"``.
    **settings
        How exactly: see `LogSettings`.

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
        raise ParameterError("there are no numbers to take the logarithm of")
    plan = _plan(x.ring, **settings)
    session.begin("log", plan=plan, n=len(x), backend=backend)
    session.transfers.reserve(len(x) * plan.transfers(backend))
    parts = (x[i : i + _AT_ONCE] for i in range(0, len(x), _AT_ONCE))
    if isinstance(plan, _Fast):
        return Shares.concatenate([_fast(session, part, plan, backend) for part in parts])
    return Shares.concatenate([_paper(session, part, plan, backend) for part in parts])


def log_error(ring: Ring, **settings: Unpack[LogSettings]) -> float:
    """The stated bound on |result - ln x| of `log` with the same parameters.

    Examples
    --------
    >>> log_error(Ring.power_of_two(64), bits=40) < 3e-5
    True
    """
    return _plan(ring, **settings).error


def log_scale(ring: Ring, **settings: Unpack[LogSettings]) -> int:
    """The scale of the result of `log` with the same parameters."""
    return _plan(ring, **settings).scale


def x_log_x(
    session: Session, x: Shares, *, backend: str = "ot", **settings: Unpack[LogSettings]
) -> Shares:
    """Shares of scale · x · ln x, zero for x = 0; parameters as in `log`.

    The ring must have room for the product. By default `fraction_bits` is 20, or as many as fit.
    """
    ring = x.ring
    known = settings["bits"] = known_bits(ring, settings.get("bits"))
    if ring.is_power_of_two and settings.get("fraction_bits") is None:
        room = ring.bits - known - known.bit_length() - 1
        settings["fraction_bits"] = min(_FRACTION_BITS, room)
    plan = _plan(ring, **settings)
    if 2 * plan.scale * math.ceil(known * math.log(2)) << known >= ring.modulus:
        raise ParameterError(
            f"x · ln x of numbers below 2^{known} does not fit modulo {ring} at this scale",
            remedy="Take a larger ring, smaller `bits`, or fewer fraction bits or terms.",
        )
    products = 0 if backend == "paillier" else 2 * ring.bits
    session.transfers.reserve(len(x) * (plan.transfers(backend) + products))
    return polynomial.product(session, x, log(session, x, backend=backend, **settings), backend)


@dataclass(frozen=True)
class Setting:
    """How trees and nets compute: fast, or as in the paper.

    In the paper's setting numbers are shared modulo a prime of the size that section 3 states,
    logarithms are `terms` terms of the Taylor series of an exact ε, and polynomials, products and
    scalar products are made under Paillier's encryption.

    Attributes
    ----------
    name
        ``"fast"`` or ``"paper"``.
    terms
        Of the series, in the paper's setting; default 5.
    backend
        ``"ot"`` or ``"paillier"``; by default what the setting has.

    Examples
    --------
    >>> Setting().ring(17), Setting("paper", terms=3).ring(17).bits  # 17·3 + 2·3 + log2 17 + 17
    (Ring(modulus=18446744073709551616), 79)
    """

    name: str = "fast"
    terms: int | None = None
    backend: str | None = None

    def __post_init__(self) -> None:
        if self.name not in SETTINGS:
            raise ParameterError(f"`{self.name}` is not a setting", remedy="Use fast or paper.")
        if self.terms is not None and not self.is_paper:
            raise ParameterError(
                "the fast setting has its own number of terms",
                remedy=f"Leave {spell('terms', self.terms)} out, or add "
                f"{spell('setting', 'paper')}.",
            )
        if self.terms is not None:
            polynomial.taylor_scale(3, self.terms)
        polynomial.check_backend(self.products)

    @property
    def is_paper(self) -> bool:
        """Whether it is the paper's."""
        return self.name == "paper"

    @property
    def products(self) -> str:
        """By which backend numbers are multiplied."""
        return self.backend or ("paillier" if self.is_paper else "ot")

    @property
    def facts(self) -> dict[str, Any]:
        """What both sides must have chosen alike."""
        return {"setting": self.name, "terms": self.terms, "backend": self.products}

    def ring(self, bits: int, weight: int = 0) -> Ring:
        """The ring for x · ln x of numbers below 2^bits, and for `weight` times such a logarithm.

        The size that section 3 of the paper states for x · ln x, or more if it is needed.
        """
        if not self.is_paper:
            return COUNTS
        k, n = self._terms, max(3, bits)
        stated = n * k + 2 * k + math.ceil(math.log2(n)) + n
        largest = polynomial.taylor_scale(n, k) * math.ceil(n * math.log(2))
        size = max(stated, (4 * largest * max(weight, 1 << bits)).bit_length())
        if size > LARGEST_RING:
            raise ParameterError(
                f"{k} terms of the logarithm of numbers below 2^{bits} need a modulus of {size} "
                "bits",
                remedy=f"Up to {LARGEST_RING} are possible: take fewer terms.",
            )
        return Ring.odd(polynomial.prime_of(size))

    def logarithms(self, bits: int, fast: LogSettings) -> LogSettings:
        """Settings of logarithms: those given in the fast setting, else the paper's."""
        return {"bits": bits, "terms": self._terms} if self.is_paper else {"bits": bits, **fast}

    @property
    def _terms(self) -> int:
        return _TERMS if self.terms is None else self.terms


FAST = Setting()


# What both sides agree on before they start


@dataclass(frozen=True)
class _Paper:
    ring: Ring
    bits: int
    precision: int
    terms: int
    scaling: str = "whole"

    @property
    def scale(self) -> int:
        return polynomial.taylor_scale(self.precision, self.terms)

    def transfers(self, backend: str) -> int:
        """Oblivious transfers for one logarithm."""
        inputs = len(self.circuit.bob_slots)
        return inputs + (0 if backend == "paillier" else (self.terms - 1) * self.ring.bits)

    @property
    def circuit(self) -> Circuit:
        return _paper_circuit(self.ring, self.bits, self.precision, self.scaling == "table")

    @property
    def ln2(self) -> int:
        """σ · ln 2: at this scale multiplying shares of n by an integer is exact enough."""
        return _times_ln2(self.scale)

    @property
    def error(self) -> float:
        cut = 0.0 if self.precision >= self.bits else 2.0**-self.precision / 0.75
        units = {"table": 0.5, "exact": 1.5, "statistical": 1.0}.get(self.scaling, 0.0)
        main = math.ldexp(units, -self.precision) or self.bits / self.scale
        return polynomial.taylor_error(self.terms) + cut + main


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

    def transfers(self, backend: str) -> int:
        """Oblivious transfers for one logarithm."""
        circuit = _fast_circuit(self.ring, self.bits, self.precision)
        products = 0 if backend == "paillier" else (self.terms - 1) * self.wide.bits
        return len(circuit.bob_slots) + len(circuit.output_slots) + products

    @property
    def coefficients(self) -> list[int]:
        return list(polynomial.minimax(self.precision, self.terms, self.scale_bits))

    @property
    def ln2(self) -> int:
        return _times_ln2(1 << self.scale_bits)

    @property
    def error(self) -> float:
        fitted = polynomial.minimax_error(self.precision, self.terms, self.scale_bits)
        return fitted + 1.0 / self.scale + self.bits * 2.0**-self.scale_bits


def _plan(
    ring: Ring,
    bits: int | None = None,
    fraction_bits: int | None = None,
    terms: int | None = None,
    precision: int | None = None,
    scaling: str | None = None,
) -> _Paper | _Fast:
    known = known_bits(ring, bits)
    if scaling not in (None, *SCALINGS):
        raise ParameterError(
            f"`{scaling}` is not a way from n to n · ln 2", remedy=f"Use {', '.join(SCALINGS)}."
        )
    if ring.is_power_of_two:
        if scaling is not None:
            raise ParameterError(
                "modulo a power of two n · ln 2 is a sum of bits, and nothing is scaled",
                remedy=f"Leave {spell('scaling', scaling)} out, or choose an odd modulus.",
            )
        return _fast_plan(ring, known, fraction_bits, terms, precision)
    if fraction_bits is not None:
        raise ParameterError(
            "an odd modulus has the paper's scale, not a number of fraction bits",
            remedy="Leave `fraction_bits` out, or use a power of two.",
        )
    return _paper_plan(ring, known, terms, precision, scaling or "whole")


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


def _paper_plan(
    ring: Ring, bits: int, terms: int | None, precision: int | None, scaling: str
) -> _Paper:
    exact = max(3, bits) if precision is None else precision
    if scaling == "statistical":
        check_room(ring, 2 * bits)
    for k in (5, 4, 3, 2) if terms is None else (terms,):
        plan = _Paper(ring, bits, exact, k, scaling)
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
    k = _TERMS if terms is None else terms
    exact = _FAST_PRECISION if precision is None else precision
    best = polynomial.minimax_error(exact, k, exact * k + 40)
    scale_bits = max(fraction, exact * (k - 1))
    while (
        ring.bits + scale_bits - fraction <= 256
        and polynomial.minimax_error(exact, k, scale_bits) > 1.1 * best
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
    value, zeros = builder.leading_one(x, precision + 1)
    after = [value[i] if i >= 0 else ZERO for i in range(width - 1 - precision, width - 1)]
    half = after[-1]
    low = builder.choose_word(half, after[1:], after[:-1])
    return zeros, value[-1], half, low


@lru_cache(maxsize=32)
def _fast_circuit(ring: Ring, bits: int, precision: int) -> Circuit:
    builder = Builder()
    x = builder.reconstruct(ring, bits)
    zeros, positive, half, low = _split(builder, x, precision)
    return builder.finish([*zeros, positive, half, *low])


@lru_cache(maxsize=32)
def _paper_circuit(ring: Ring, bits: int, precision: int, table: bool = False) -> Circuit:
    """x modulo m in, n - r and e + 2^(N-2) - s modulo m out, for Alice's random r and s.

    With a table n · ln 2 · 2^N, rounded, stands for n, as Lindell & Pinkas have it.
    """
    builder = Builder()
    x = builder.reconstruct(ring, bits)
    r, s = builder.alice(ring.bits), builder.alice(ring.bits)
    zeros, positive, half, low = _split(builder, x, precision)
    size = bits.bit_length() + 1
    padded = [*zeros, *([ZERO] * (size - len(zeros)))]
    places, _ = builder.subtract(constant(bits - 1, size), padded)
    n, _ = builder.add(places, constant(0, size), half)
    n = [builder.both(positive, wire) for wire in n]
    if table:
        n = builder.look_up(n, [_times_ln2(i << precision) for i in range(bits + 1)])
    # e >= -2^(N-2): adding 2^(N-2) makes it non-negative, so the difference wraps only once.
    e, _ = builder.add([*low, half], constant(1 << (precision - 2), precision))
    outputs: Word = []
    for number, mask in ((n, r), (e, s)):
        wide = [*number, *([ZERO] * ring.bits)][: ring.bits]
        outputs += builder.subtract_modulo(wide, mask, ring)
    return builder.finish(outputs)


# The protocol


def _paper(session: Session, x: Shares, plan: _Paper, backend: str) -> Shares:
    ring, n = plan.ring, len(x)
    if plan.precision + 1 > ring.bits:
        raise ParameterError(f"{plan.precision} bits of precision do not fit modulo {ring}")
    circuit = plan.circuit
    if session.is_alice:
        powers, epsilon = ring.random(n), ring.random(n)
        if plan.scaling == "statistical":
            powers = wrapping_shares(ring, n, largest=2 * plan.bits)
        inputs = np.concatenate([ring.to_bits(v) for v in (x.values, powers, epsilon)], axis=1)
        run_circuit(session, circuit, inputs.T, n=n, reveal="bob")
        epsilon = ring.subtract(epsilon, ring.encode([1 << (plan.precision - 2)]))
    else:
        outputs = run_circuit(session, circuit, ring.to_bits(x.values).T, n=n, reveal="bob")
        powers = ring.from_bits(outputs[: ring.bits].T)
        epsilon = ring.from_bits(outputs[ring.bits :].T)
    coefficients = polynomial.taylor(plan.precision, plan.terms)
    correction = polynomial.evaluate(session, ring, epsilon, coefficients, backend=backend)
    main = _main_term(session, Shares(ring, powers), plan)
    return Shares(ring, ring.add(main, correction), plan.scale)


def _main_term(session: Session, powers: Shares, plan: _Paper) -> Limbs:
    """σ · n · ln 2 from what phase one delivered: n, or its entry in the table."""
    ring = plan.ring
    if plan.scaling == "whole":
        return ring.times(powers.values, plan.ln2)
    if plan.scaling != "table":
        ln2 = Fraction(_times_ln2(1 << (plan.precision + 64)), 1 << 64)
        powers = scale(session, powers, ln2, method=plan.scaling, largest=plan.bits)
    return ring.times(powers.values, plan.scale >> plan.precision)


def _fast(session: Session, x: Shares, plan: _Fast, backend: str) -> Shares:
    wide, n = plan.wide, len(x)
    circuit = _fast_circuit(plan.ring, plan.bits, plan.precision)
    inputs = plan.ring.to_bits(x.values, plan.bits).T
    shared = run_circuit(session, circuit, inputs, n=n)
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
    places, counted = _places(plan.bits)
    main = [*places, 1] + [0] * (plan.precision - 1)
    low = [0] * len(places) + [-(1 << (plan.precision - 1))]
    low += [1 << i for i in range(plan.precision - 1)]
    return [w * plan.ln2 for w in main], counted * plan.ln2, low


def _places(width: int) -> tuple[list[int], int]:
    """Weights of the leading zeros and of "x > 0" in the place of the leading one; a constant."""
    steps = max(1, (width - 1).bit_length())
    counted = sum(1 << j for j in range(steps) if 1 << j < width)
    zeros = [-(1 << j) if 1 << j < width else 0 for j in range(steps)]
    return [*zeros, width - 1 - counted], counted


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


# The quick one


def log2_quick(
    session: Session, x: Shares, *, bits: int | None = None, centred: bool = True
) -> Shares:
    """Shares of 1024 · log2 x, at most 0.0745 off (in log2 x); 0 for x = 0 if not centred.

    Parameters
    ----------
    x
        Shares of integers, 0 <= x < 2^bits, in any ring with room for the result.
    bits
        Public bound on x; by default the largest the ring allows (40 at most).
    centred
        Add the constant that makes the error symmetric; False leaves the paper's own result.

    Examples
    --------
    >>> from sfumato.secure import private, reveal_real, together
    >>> def party(session):
    ...     x = private(Ring.power_of_two(32), [1000 if session.is_alice else 24])
    ...     result = log2_quick(session, x, bits=20, centred=False)
    ...     return reveal_real(session, result, what="log2 x").tolist()
    >>> together(party, party)
    ([10.0], [10.0])
    """
    if x.scale != 1:
        raise ParameterError("log2_quick takes whole numbers, not scaled ones")
    ring = x.ring
    width = known_bits(ring, bits)
    if 2 * _QUICK_SCALE * (width + 1) >= ring.modulus:
        raise ParameterError(
            f"{_QUICK_SCALE} · log2 of numbers below 2^{width} does not fit modulo {ring}",
            remedy="Take a larger ring.",
        )
    session.begin("log2", ring=ring, bits=width, n=len(x), centred=centred)
    used = width if ring.is_power_of_two else ring.bits
    circuit = _quick_circuit(ring, width)
    session.transfers.reserve(len(x) * (len(circuit.bob_slots) + len(circuit.output_slots)))
    shared = run_circuit(session, circuit, ring.to_bits(x.values, used).T, n=len(x))
    places, counted = _places(width)
    mantissa = [_QUICK_SCALE >> (_MANTISSA - i) for i in range(_MANTISSA)]
    weights = [*(w * _QUICK_SCALE for w in places), *mantissa]
    (total,) = shares_of_bits(session, ring, shared, [weights])
    if session.is_alice:
        added = counted * _QUICK_SCALE + (_CENTRE if centred else 0)
        total = ring.add(total, ring.encode([added]))
    return Shares(ring, total, _QUICK_SCALE)


@lru_cache(maxsize=32)
def _quick_circuit(ring: Ring, bits: int) -> Circuit:
    builder = Builder()
    x = builder.reconstruct(ring, bits)
    value, zeros = builder.leading_one(x, _MANTISSA + 1)
    first = bits - 1 - _MANTISSA
    mantissa = [value[i] if i >= 0 else ZERO for i in range(first, bits - 1)]
    return builder.finish([*zeros, value[-1], *mantissa])


def log_opened(session: Session, mine: Sequence[int], *, bits: int) -> NDArray[np.float64]:
    """Logarithms of sums of which each side knows one part, known to both.

    A party that does not follow the protocol is caught, and learns at most one bit beyond the
    result.

    Parameters
    ----------
    mine
        My part of each sum.
    bits
        Every sum is below 2^bits.

    Examples
    --------
    >>> from sfumato.secure import together
    >>> def party(session):
    ...     return log_opened(session, [600 if session.is_alice else 400], bits=20).round(3)
    >>> [float(found[0]) for found in together(party, party)]  # ln 1000
    [6.908, 6.908]
    """
    if not _LEAST_BITS <= bits <= _MOST_BITS:
        raise ParameterError(
            f"sums of {bits} bits cannot be worked on", remedy=f"Use {_LEAST_BITS} to {_MOST_BITS}."
        )
    ring = Ring.power_of_two(64)
    session.begin("log, opened", bits=bits, n=len(mine))
    inputs = ring.to_bits(ring.encode(mine), bits).T
    found = run_twice(session, _opened_circuit(bits), inputs, n=len(mine))
    session.note_learned("both", "the logarithms of the sums")
    weights = 2.0 ** (np.arange(len(found)) - _OPENED_BITS)
    numbers: NDArray[np.float64] = weights @ found
    return numbers


def log_opened_error(bits: int) -> float:
    """The bound on |result - ln x| of `log_opened`.

    Examples
    --------
    >>> log_opened_error(40) < 2e-5
    True
    """
    return _chords()[2] + 0.5 * 2.0**-_OPENED_BITS


@lru_cache(maxsize=1)
def _chords() -> tuple[list[int], list[int], float]:
    """Starts (at 2^20) and slopes (at 2^10) of the chords, and how far off they are at most.

    The start is such that errors are centred: of the chord, of cutting f off after sixteen bits,
    and of cutting the product off.
    """
    rest = np.arange(1 << _REST_BITS)
    starts, slopes, worst = [], [], 0.0
    for chord in range(1 << _CHORD_BITS):
        f = (chord * len(rest) + rest) / (len(rest) << _CHORD_BITS)
        low, high = np.log1p(f), np.log1p(f + 1 / (len(rest) << _CHORD_BITS))
        slope = round(float(high[-1] - low[0]) * (1 << (_CHORD_BITS + _SLOPE_BITS)))
        rise = (slope * rest >> _DROPPED) / (1 << _OPENED_BITS)
        middle = float((low - rise).min() + (high - rise).max()) / 2
        start = round(middle * (1 << _OPENED_BITS))
        made = start / (1 << _OPENED_BITS) + rise
        worst = max(worst, float((high - made).max()), float((made - low).max()))
        starts.append(start)
        slopes.append(slope)
    return starts, slopes, worst


@lru_cache(maxsize=8)
def _opened_circuit(bits: int) -> Circuit:
    """ln of the sum of two numbers at the scale 2^20: places · ln 2 + start + slope · rest."""
    builder = Builder()
    x = builder.reconstruct(Ring.power_of_two(64), bits)
    value, zeros = builder.leading_one(x, _CHORD_BITS + _REST_BITS + 1)
    rest = value[bits - 1 - _CHORD_BITS - _REST_BITS : bits - 1 - _CHORD_BITS]
    chord = value[bits - 1 - _CHORD_BITS : bits - 1]
    starts, slopes, _ = _chords()
    scale = 1 << _OPENED_BITS
    places = [round((bits - 1 - z) * float(np.log(2)) * scale) for z in range(bits)]
    lines = _lines(builder, chord, len(starts))
    slope = _looked_up(builder, lines, slopes)
    rise = _product(builder, slope, rest)[_DROPPED:]
    width = (round(bits * float(np.log(2)) * scale) + scale // 1000).bit_length()
    total = constant(0, width)
    for word in (
        _looked_up(builder, _lines(builder, zeros, bits), places),
        _looked_up(builder, lines, starts),
        rise,
    ):
        total, _ = builder.add(total, [*word, *([ZERO] * (width - len(word)))])
    return builder.finish(total)


def _lines(builder: Builder, index: Word, count: int) -> Word:
    """A wire for each of the first `count` values of a number: one where it has that value."""
    if len(index) == 1:
        return [builder.invert(index[0]), index[0]][:count]
    half = len(index) // 2
    low = _lines(builder, index[:half], 1 << half)
    high = _lines(builder, index[half:], -(-count >> half))
    return [builder.both(a, b) for b in high for a in low][:count]


def _looked_up(builder: Builder, lines: Word, table: Sequence[int]) -> Word:
    """The entry of the line that is one: XOR alone."""
    out = []
    for bit in range(max(table).bit_length()):
        wire = ZERO
        for line, entry in zip(lines, table, strict=True):
            if entry >> bit & 1:
                wire = builder.xor(wire, line)
        out.append(wire)
    return out


def _product(builder: Builder, a: Word, b: Word) -> Word:
    """a · b, by adding up shifted copies."""
    width = len(a) + len(b)
    total = constant(0, width)
    for place, bit in enumerate(b):
        row = [builder.both(bit, wire) for wire in a]
        part, carry = builder.add(total[place : place + len(a)], row)
        total[place : place + len(a) + 1] = [*part, carry]
    return total
