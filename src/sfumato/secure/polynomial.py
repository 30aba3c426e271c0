"""Oblivious evaluation of a public polynomial at a shared number (§2 of the paper, step 4).

With shares α (Alice's) and y (Bob's), p(α + y) = Σ_j D_j(α) · y^j, where Alice knows every D_j(α)
and Bob every y^j. What remains are k - 1 products of a number of Alice's by one of Bob's: D_0 is
Alice's alone, and D_k, the highest coefficient, is public. All in one round.

Two backends make the products: oblivious transfers (`ot`), or Bob's powers under Paillier's
homomorphic encryption (1999), where ciphertexts can be added, and multiplied by known numbers,
without the key. That is the described system; transfers do the same work hundreds of times faster.

Two polynomials stand for ln(1 + ε) on -1/4 <= ε < 1/2: the paper's truncated Taylor series, exact
in integers at the scale σ = 2^(N k) · lcm(2, …, k) (§3, formula 3.7), and a near-minimax one at the
scale 2^F.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, ParameterError, PeerError
from sfumato.secure.arithmetic import cross_products, multiply
from sfumato.secure.shares import Limbs, Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session


BACKENDS = ("ot", "paillier")
_HIDING = 80
"""Bits by which the mask exceeds what it hides in the Paillier backend."""
_AT_ONCE = 64
"""Numbers encrypted before they are sent: the other side waits for no more."""
_LOW, _HIGH = -0.25, 0.5
_LARGEST_TERMS = 12


def evaluate(
    session: Session, ring: Ring, share: Limbs, coefficients: Sequence[int], *, backend: str = "ot"
) -> Limbs:
    """My share of p(x), given my share of x.

    Parameters
    ----------
    coefficients
        Of the public polynomial p, from the constant up: integers, taken modulo the ring.
    backend
        ``"ot"`` or ``"paillier"``.
    """
    check_backend(backend)
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


def check_backend(backend: str) -> None:
    """Refuse names of ways to multiply that do not exist."""
    if backend not in BACKENDS:
        raise ParameterError(f"`{backend}` is not a backend", remedy="Use ot or paillier.")


def product(session: Session, a: Shares, b: Shares, backend: str = "ot") -> Shares:
    """`multiply` by a backend: in the paper the system that evaluates polynomials multiplies, too.

    With Paillier's encryption (a + a')(b + b') costs Bob two ciphertexts and Alice one answer.
    """
    check_backend(backend)
    if backend == "ot":
        return multiply(session, a, b)
    ring = a.ring
    session.begin("encrypted products", ring=ring, n=len(a))
    mine = [a.values, b.values] if session.is_alice else [b.values, a.values]
    mixed = _by_paillier(session, ring, mine)
    total = ring.add(ring.multiply(a.values, b.values), mixed)
    return Shares(ring, total, a.scale * b.scale)


def paillier_counts(session: Session, bits: NDArray[Any], theirs: int, ring: Ring) -> Limbs:
    """Scalar products of all of Alice's binary vectors with all of Bob's (Yang & Wright).

    Bob encrypts every bit of his, once; Alice adds up those where hers is one, and a mask.

    Parameters
    ----------
    bits
        My vectors, [vectors, n].
    theirs
        How many vectors the other side has.

    Returns
    -------
    Limbs
        My shares, index ``alice * bobs + bob``.
    """
    n = bits.shape[1]
    parts = [slice(i, min(i + _AT_ONCE, n)) for i in range(0, n, _AT_ONCE)]
    if not session.is_alice:
        private = _private_key(session)
        size = private.public.size
        for vector in bits:
            for part in parts:
                encrypted = [private.encrypt(int(bit)) for bit in vector[part]]
                session.channel.send("Paillier bits", _join(encrypted, size))
        raw = bytes(session.channel.receive("Paillier counts", size * theirs * len(bits)))
        return ring.encode([private.decrypt(c) for c in _split(raw, size)])
    key = _public_key(session)
    totals = np.ones((len(bits), theirs), object)
    for bob in range(theirs):
        for part in parts:
            length = key.size * (part.stop - part.start)
            received = _split(bytes(session.channel.receive("Paillier bits", length)), key.size)
            for at, vector in enumerate(bits):
                chosen = [received[i] for i in np.flatnonzero(vector[part])]
                totals[at, bob] = key.add([totals[at, bob], *chosen])
    flat = [int(total) for total in totals.reshape(-1)]
    masks = [secrets.randbits(ring.bits + n.bit_length() + _HIDING) for _ in flat]
    answers = [key.combine([one], [1], mask) for one, mask in zip(flat, masks, strict=True)]
    session.channel.send("Paillier counts", _join(answers, key.size))
    return ring.encode([-mask for mask in masks])


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
    parts = range(0, len(factors[0]), _AT_ONCE)
    taken = ([factor[i : i + _AT_ONCE] for factor in factors] for i in parts)
    return np.concatenate([_some_by_paillier(session, ring, part) for part in taken])


def _some_by_paillier(session: Session, ring: Ring, factors: list[Limbs]) -> Limbs:
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
        if key.is_weak(KEY_BITS):
            session.refuse("sent a key that is not a proper Paillier key", "Paillier key")
        session.paillier = key
    assert isinstance(session.paillier, PublicKey)
    return session.paillier


def _private_key(session: Session) -> PrivateKey:
    if session.paillier is None:
        key = PrivateKey.generate(KEY_BITS)
        session.channel.send("Paillier key", key.public.n.to_bytes(KEY_BITS // 8, "big"))
        session.paillier = key
    assert isinstance(session.paillier, PrivateKey)
    return session.paillier


def _join(numbers: list[int], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "big") for number in numbers)


def _split(raw: bytes, size: int) -> list[int]:
    return [int.from_bytes(raw[i : i + size], "big") for i in range(0, len(raw), size)]


# Polynomials that stand for ln(1 + ε), with integer coefficients in e = ε · 2^N


def taylor_scale(precision: int, terms: int) -> int:
    """σ = 2^(N k) · lcm(2, …, k): the correction of the paper's §3."""
    _check(precision, terms)
    return (1 << precision * terms) * math.lcm(*range(1, terms + 1))


def taylor(precision: int, terms: int) -> list[int]:
    """Coefficients of σ · Σ (-1)^(i-1) ε^i / i in e = ε · 2^N: all are integers.

    Examples
    --------
    >>> taylor(4, 2)  # σ = 2^8 · 2:  512 e/16 - 512 (e/16)^2 / 2
    [0, 32, -1]
    """
    scale = taylor_scale(precision, terms)
    return [0] + [(-1) ** (i - 1) * (scale >> precision * i) // i for i in range(1, terms + 1)]


def taylor_error(terms: int) -> float:
    """Largest |Taylor polynomial - ln(1 + ε)| on the interval: reached at its upper end.

    Examples
    --------
    >>> [round(taylor_error(k), 4) for k in (3, 4, 5)]  # §7 of the paper
    [0.0112, 0.0044, 0.0018]
    """
    ends = []
    for at in (_LOW, _HIGH):
        total = math.fsum(-((-at) ** i) / i for i in range(1, terms + 1))
        ends.append(abs(total - math.log1p(at)))
    return max(ends)


@lru_cache(maxsize=64)
def minimax(precision: int, terms: int, scale_bits: int) -> tuple[int, ...]:
    """Coefficients of a near-minimax polynomial, times 2^F, as integers.

    Chebyshev interpolation, then the coefficients are rounded from the highest down; after each
    the lower ones are fitted again to what is left, so that they take up most of its rounding
    error. Since e is cut off, not rounded, the polynomial aims at the middle, ε + 2^-(N+1).
    """
    _check(precision, terms)
    nodes = _chebyshev_nodes(16 * terms)
    target = np.log1p(nodes + 2.0 ** -(precision + 1))
    rounded = [0] * (terms + 1)
    for degree in range(terms, -1, -1):
        fitted = np.polynomial.Chebyshev.fit(nodes, target, degree, domain=[_LOW, _HIGH])
        top = fitted.convert(kind=np.polynomial.Polynomial).coef
        unit = 2.0 ** (scale_bits - precision * degree)
        rounded[degree] = round(float(top[degree]) * unit) if len(top) > degree else 0
        target = target - rounded[degree] / unit * nodes**degree
    return tuple(rounded)


@lru_cache(maxsize=64)
def minimax_error(precision: int, terms: int, scale_bits: int) -> float:
    """Largest error of `minimax`, with the cutting off of ε, over the whole interval."""
    coefficients = minimax(precision, terms, scale_bits)
    count = min(3 << (precision - 2), 1 << 17)
    e = np.linspace(_LOW, _HIGH - 2.0**-precision, count)
    scaled = [c * 2.0 ** (precision * i - scale_bits) for i, c in enumerate(coefficients)]
    value = np.polynomial.polynomial.polyval(e, scaled)
    exact, cut = np.log1p(e), np.log1p(e + 2.0**-precision)
    return float(max(np.abs(value - exact).max(), np.abs(value - cut).max()))


def _chebyshev_nodes(count: int) -> NDArray[np.float64]:
    angles = (2 * np.arange(count) + 1) * np.pi / (2 * count)
    return (_LOW + _HIGH) / 2 + (_HIGH - _LOW) / 2 * np.cos(angles)


def _check(precision: int, terms: int) -> None:
    if not 2 <= terms <= _LARGEST_TERMS:
        raise ParameterError(f"{terms} terms are impossible", remedy=f"Use 2 to {_LARGEST_TERMS}.")
    if not 3 <= precision <= 64:
        raise ParameterError(f"{precision} bits of precision are impossible", remedy="Use 3 to 64.")


KEY_BITS = 3072
_SMALLEST = 512


@dataclass(frozen=True)
class PublicKey:
    """What the other side may know: encrypt, add, multiply by known numbers."""

    n: int

    @property
    def size(self) -> int:
        """Bytes of a ciphertext."""
        return (self.n.bit_length() * 2 + 7) // 8

    def is_weak(self, bits: int = KEY_BITS) -> bool:
        """Whether the modulus is plainly not a product of two large primes."""
        gmp = _gmpy2()
        return bool(
            self.n.bit_length() != bits
            or self.n % 2 == 0
            or gmp.is_prime(self.n)
            or gmp.is_square(self.n)
            or gmp.gcd(self.n, gmp.primorial(10000)) != 1
        )

    def blinding(self) -> Any:
        """A fresh random n-th power modulo n²: what makes equal numbers look different."""
        gmp = _gmpy2()
        while True:
            r = secrets.randbelow(self.n - 1) + 1
            if gmp.gcd(r, self.n) == 1:
                return gmp.powmod(r, self.n, self.n * self.n)

    def add(self, ciphertexts: list[int]) -> int:
        """Encrypt the sum of what is encrypted; not blinded, so not to be shown."""
        total, square = _gmpy2().mpz(1), self.n * self.n
        for ciphertext in ciphertexts:
            total = total * ciphertext % square
        return int(total)

    def combine(self, ciphertexts: list[int], factors: list[int], constant: int) -> int:
        """Encrypt Σ number · factor + constant, freshly blinded."""
        gmp = _gmpy2()
        square = gmp.mpz(self.n) ** 2
        total = (1 + gmp.mpz(constant) * self.n) * self.blinding() % square
        for ciphertext, factor in zip(ciphertexts, factors, strict=True):
            if not 0 < ciphertext < square or gmp.gcd(ciphertext, self.n) != 1:
                raise PeerError(
                    "the other party sent something that is not a ciphertext",
                    where="step `Paillier powers`",
                    remedy="Run the same version on both sides.",
                )
            total = total * gmp.powmod(ciphertext, factor, square) % square
        return int(total)


@dataclass(frozen=True)
class PrivateKey:
    """The key pair.

    Examples
    --------
    >>> key = PrivateKey.generate(512)  # far too short for use
    >>> key.decrypt(key.public.combine([key.encrypt(20), key.encrypt(1)], [2, 1], 1))
    42
    """

    p: int = field(repr=False)
    q: int = field(repr=False)

    @classmethod
    def generate(cls, bits: int = KEY_BITS) -> PrivateKey:
        """Two random primes of half the length each, from the operating system's randomness."""
        if bits < _SMALLEST or bits % 2:
            raise ParameterError(f"a key of {bits} bits is not possible", remedy="Use 3072.")
        while True:
            p, q = _prime(bits // 2), _prime(bits // 2)
            if p != q and (p * q).bit_length() == bits:
                return cls(p, q)

    @property
    def public(self) -> PublicKey:
        """What the other side may know."""
        return PublicKey(self.p * self.q)

    def encrypt(self, number: int) -> int:
        """Encrypt under one's own key: the blinding is computed modulo p² and q² apart."""
        gmp = _gmpy2()
        n = self.p * self.q
        r = secrets.randbelow(n - 1) + 1
        parts = []
        for prime in (self.p, self.q):
            square = gmp.mpz(prime) ** 2
            parts.append((gmp.powmod(r % square, n % (prime * (prime - 1)), square), square))
        blinding = _crt(parts)
        return int((1 + gmp.mpz(number) * n) * blinding % (gmp.mpz(n) ** 2))

    def decrypt(self, ciphertext: int) -> int:
        """The number in [0, n), again modulo p² and q² apart."""
        gmp = _gmpy2()
        n = gmp.mpz(self.p * self.q)
        parts = []
        for prime in (self.p, self.q):
            square = gmp.mpz(prime) ** 2
            raised = gmp.powmod(ciphertext % square, prime - 1, square)
            factor = gmp.invert((gmp.powmod(1 + n, prime - 1, square) - 1) // prime, prime)
            parts.append(((raised - 1) // prime * factor % prime, gmp.mpz(prime)))
        return int(_crt(parts))


def _crt(parts: list[tuple[Any, Any]]) -> Any:
    (a, m), (b, k) = parts
    return a + m * ((b - a) * _gmpy2().invert(m, k) % k)


def prime_of(bits: int) -> int:
    """The smallest prime of so many bits.

    Examples
    --------
    >>> prime_of(8)
    131
    """
    return int(_gmpy2().next_prime(1 << (bits - 1)))


def _prime(bits: int) -> int:
    gmp = _gmpy2()
    while True:
        candidate = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if gmp.is_prime(candidate, 40):
            return candidate


def _gmpy2() -> Any:
    try:
        import gmpy2
    except ImportError as error:
        raise MissingExtraError("secure", "the Paillier backend") from error
    return gmpy2
