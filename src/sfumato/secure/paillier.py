"""Paillier's homomorphic encryption (1999), the paper's way to evaluate polynomials obliviously.

Ciphertexts can be added, and multiplied by known numbers, without the key. Kept because it is the
described system; oblivious transfers do the same work hundreds of times faster.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import MissingExtraError, ParameterError, PeerError

__all__ = ["KEY_BITS", "PrivateKey", "PublicKey"]

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
