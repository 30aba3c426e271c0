"""Arithmetic on numbers that nobody sees: secret sharing among the parties of an exact fit.

A secret is a number to which every party contributes, and which none of them knows. Everybody holds
a *share* of it: its own point on a polynomial of degree t whose value at zero is the secret (Shamir
1979), with t the largest number below half of the parties. Any t shares are uniform and say
nothing; t + 1 of them tell the secret, so fewer than half of the parties must be in league. All
calculate modulo a prime 2^521 - 1, in fixed point with 128 binary places.

Sums of secrets, and sums with public numbers, cost nothing: everybody adds shares. A *product* of
two shares lies on a polynomial of degree 2t, which all parties together still determine. They open
it under a random number r, drop the places that a product of fixed point numbers has too many, and
take r less those places away again (as Catrina & Saxena 2010, without their bits: what is dropped
may carry, so that the last of the 128 places is off by as many units as there are parts of r).
The random numbers need no messages: every set of n - t parties has a key in common, and r is a sum
over the sets (Cramer, Damgård & Ishai 2005). Of any t parties one set is unknown; its part of r has
68 bits more than any product, which hides the product to within 2^-68.

To *open* a number is to show it rounded to a grid, and not a digit finer: the places below the grid
are dropped in the same way, so the number that is shown lies within (s + 1)/2 grid steps of the
true one, s being the number of sets (3 for three parties), with chance deciding between neighbours.

*Two parties* (`Pair`) cannot share like this: of two, one is half. They hold two numbers that add
up to the secret modulo 2^256, with 64 binary places, and multiply by oblivious transfer
(`sfumato.secure`), which takes hundreds of times as many bytes. Each drops places of its own share;
that is right but for the last place, except with probability 2^-60 at most (Mohassel & Zhang 2017).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, comb, log2
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError, UnfinishedError
from sfumato.joint.parties import Exchange, key_stream

if TYPE_CHECKING:
    from sfumato.secure.session import Session


Floats = NDArray[np.float64]
Secret = NDArray[Any]
"""My shares, as Python's whole numbers: an ordinary array, to add and to slice."""

MODULUS = 2**521 - 1
FRACTION = 128
_BYTES = 66
_LARGEST = 2.0**99
"""Secrets are smaller, and so are products."""
_OFFSET = 1 << (2 * FRACTION + 99)
"""Added before anything is opened, so that no negative number is."""
_MASK_BYTES = 53
_MOST_PARTIES = 9
_PAIR_BITS, _PAIR_FRACTION = 256, 64
_PAIR_MODULUS = 1 << _PAIR_BITS
_PART = 1 << 17
"""Numbers in a message."""


@dataclass
class Opened:
    """What was shown to everybody at each step: how many numbers, and of how many bits in all."""

    numbers: dict[str, int] = field(default_factory=dict)
    bits: dict[str, float] = field(default_factory=dict)

    def note(self, step: str, units: NDArray[Any]) -> None:
        """Note numbers that were opened, in units of their grid."""
        bits = sum(log2(2 * abs(float(unit)) + 1) for unit in units)
        self.numbers[step] = self.numbers.get(step, 0) + len(units)
        self.bits[step] = self.bits.get(step, 0.0) + bits


class Arithmetic(Protocol):
    """What the exact fits need: secrets, their sums and products, and a way to open some."""

    opened: Opened

    @property
    def parties(self) -> tuple[str, ...]: ...
    def places(self, precision: float) -> int: ...
    def total(self, step: str, values: Floats) -> Secret: ...
    def public(self, values: Floats) -> Secret: ...
    def multiply(self, a: Secret, b: Secret) -> Secret: ...
    def matmul(self, a: Secret, b: Secret) -> Secret: ...
    def open(self, step: str, secret: Secret, places: int) -> Floats: ...


class LocalArithmetic:
    """One party alone, in floating point: makes an exact fit an ordinary one, or a rehearsal."""

    parties = ("alone",)

    def __init__(self) -> None:
        self.opened = Opened()

    def places(self, precision: float) -> int:
        """Binary places that a number must be opened to."""
        return ceil(-log2(precision))

    def total(self, step: str, values: Floats) -> Secret:
        """The values themselves."""
        return values

    def public(self, values: Floats) -> Secret:
        """The values themselves."""
        return values

    def multiply(self, a: Secret, b: Secret) -> Secret:
        """Products, element by element."""
        return np.asarray(a * b)

    def matmul(self, a: Secret, b: Secret) -> Secret:
        """Products of matrices."""
        return np.asarray(a @ b)

    def open(self, step: str, secret: Secret, places: int) -> Floats:
        """Round to a grid of 2^-places."""
        units = np.rint(np.asarray(secret, dtype=np.float64) * 2.0**places)
        self.opened.note(step, units)
        return np.asarray(units * 2.0**-places)


class Pair:
    """One party's end of the arithmetic of two parties.

    Parameters
    ----------
    session
        A session of `sfumato.secure` with the other party.
    parties
        The two parties' names.
    """

    def __init__(self, session: Session, parties: tuple[str, ...]) -> None:
        from sfumato.secure.shares import Ring

        self.opened = Opened()
        self.parties = parties
        self._session = session
        self._ring = Ring.power_of_two(_PAIR_BITS)
        self._half = 1 if session.is_alice else -1
        mine = secrets.token_bytes(32)
        theirs = session.exchange("seed", mine)
        if len(theirs) != len(mine):
            session.refuse("sent a message of another length", "seed")
        self._key = bytes(a ^ b for a, b in zip(mine, theirs, strict=True))
        self._drawn = 0
        self.shown = hashlib.sha256()
        """Of all that was opened: both must have been shown the same."""

    def places(self, precision: float) -> int:
        """Binary places that a number must be opened to, to be off by less than `precision`."""
        return ceil(log2(1 / precision))

    def total(self, step: str, values: Floats) -> Secret:
        """The sum of what both bring: a secret of which each holds its own part, under a mask."""
        fixed = to_fixed(values, _PAIR_FRACTION)
        self._drawn += 1
        stream = key_stream(self._key, self._drawn, fixed.size * _PAIR_BITS // 8)
        mask = random_numbers(stream, _PAIR_BITS // 8).reshape(fixed.shape)
        return np.asarray((fixed + self._half * mask) % _PAIR_MODULUS)

    def public(self, values: Floats) -> Secret:
        """What both know, in the form of a secret."""
        return to_fixed(values, _PAIR_FRACTION) * (1 if self._session.is_alice else 0)

    def multiply(self, a: Secret, b: Secret) -> Secret:
        """Products, element by element."""
        left, right = np.broadcast_arrays(a, b)
        return self._shortened(self._products(left, right), _PAIR_FRACTION)

    def matmul(self, a: Secret, b: Secret) -> Secret:
        """Products of matrices."""
        rows, inner, columns = a.shape[0], a.shape[1], b.shape[1]
        left = np.broadcast_to(a[:, :, None], (rows, inner, columns))
        right = np.broadcast_to(b[None, :, :], (rows, inner, columns))
        return self._shortened(self._products(left, right).sum(axis=1), _PAIR_FRACTION)

    def open(self, step: str, secret: Secret, places: int) -> Floats:
        """Show both a secret, rounded to a grid of 2^-places."""
        short = self._shortened(secret, _PAIR_FRACTION - places).reshape(-1)
        size = _PAIR_BITS // 8
        data = b"".join([int(share).to_bytes(size, "little") for share in short])
        theirs = self._session.exchange(f"open {step}", data, limit=len(data))
        if len(theirs) != len(data):
            self._session.refuse("sent a message of another length", f"open {step}")
        total = (short + random_numbers(theirs, size)) % _PAIR_MODULUS
        signed = np.where(total >= _PAIR_MODULUS // 2, total - _PAIR_MODULUS, total)
        if any(abs(unit) >= 2.0 ** (places + 60) for unit in signed):
            self._session.refuse("sent a number that no rows give", f"open {step}")
        units = signed.astype(np.float64)
        self.opened.note(step, units)
        self.shown.update(units.tobytes())
        return np.asarray(units * 2.0**-places).reshape(np.shape(secret))

    def _products(self, a: Secret, b: Secret) -> Secret:
        from sfumato.secure.arithmetic import multiply
        from sfumato.secure.shares import Shares

        left, right = (Shares(self._ring, self._ring.encode(each.reshape(-1))) for each in (a, b))
        product = multiply(self._session, left, right)
        found = np.asarray(self._ring.decode(product.values), dtype=object)
        return found.reshape(a.shape) % _PAIR_MODULUS

    def _shortened(self, share: Secret, drop: int) -> Secret:
        """My share without its last places: mine rounded down, or the other's rounded up."""
        whole = (self._half * share) % _PAIR_MODULUS >> drop
        return np.asarray((self._half * whole) % _PAIR_MODULUS)


class Shamir:
    """One party's end of the arithmetic of three parties or more.

    Parameters
    ----------
    exchange
        The connection to the others.
    """

    def __init__(self, exchange: Exchange) -> None:
        names = exchange.parties
        if not 3 <= len(names) <= _MOST_PARTIES:
            raise ParameterError(
                f"secrets are shared among three to {_MOST_PARTIES} parties, not {len(names)}"
            )
        self.opened = Opened()
        self._exchange = exchange
        self._degree = (len(names) - 1) // 2
        self._points = range(1, len(names) + 1)
        self._me = names.index(exchange.name) + 1
        self._sets = comb(len(names), self._degree)
        self._drawn = 0
        self._keys = self._common_keys()

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody, in alphabetical order."""
        return self._exchange.parties

    def places(self, precision: float) -> int:
        """Binary places that a number must be opened to, to be off by less than `precision`."""
        return ceil(log2((self._sets + 1) / 2 / precision))

    def total(self, step: str, values: Floats) -> Secret:
        """The sum over all parties of what each of them brings, as a secret."""
        fixed = to_fixed(values).reshape(-1)
        parts = [self._dealt(step, fixed[i : i + _PART]) for i in range(0, len(fixed), _PART)]
        return np.concatenate(parts).reshape(np.shape(values))

    def public(self, values: Floats) -> Secret:
        """What everybody knows, in the form of a secret."""
        return to_fixed(values)

    def multiply(self, a: Secret, b: Secret) -> Secret:
        """Products, element by element."""
        return self._shortened(a % MODULUS * (b % MODULUS))

    def matmul(self, a: Secret, b: Secret) -> Secret:
        """Products of matrices: one message for each entry, however long the sums in it are."""
        return self._shortened((a % MODULUS) @ (b % MODULUS))

    def open(self, step: str, secret: Secret, places: int) -> Floats:
        """Show everybody a secret, rounded to a grid of 2^-places."""
        drop = FRACTION - places
        flat = np.asarray(secret, dtype=object).reshape(-1)
        mask, kept = self._masks(len(flat), drop, self._degree)
        hidden = self._recombined(f"hide {step}", flat + _OFFSET + mask, self._degree)
        units = (hidden >> drop) - (_OFFSET >> drop) - kept
        shown = self._recombined(f"open {step}", units, self._degree)
        signed = np.where(shown > MODULUS // 2, shown - MODULUS, shown)
        if any(abs(unit) >= _LARGEST * 2.0**places for unit in signed):
            self._exchange.fail(step, "a number that no rows give was opened: somebody miscounts")
        # Dropped places carry (sets - 1)/2 units on average.
        centred = signed.astype(np.float64) - (self._sets - 1) / 2
        self.opened.note(step, centred)
        return np.asarray(centred * 2.0**-places).reshape(np.shape(secret))

    # Polynomials

    def _dealt(self, step: str, fixed: Secret) -> Secret:
        """Deal shares of my numbers to everybody; the sum of what I was dealt."""
        terms = [random_numbers(secrets.token_bytes(_BYTES * len(fixed)), _BYTES)
                 for _ in range(self._degree)]  # fmt: skip

        def at(point: int) -> Secret:
            value = fixed
            for power, term in enumerate(terms, start=1):
                value = value + term * point**power
            return np.asarray(value % MODULUS)

        names = self.parties
        messages = {
            name: pack(at(point))
            for name, point in zip(names, self._points, strict=True)
            if point != self._me
        }
        share = at(self._me)
        for dealt in self._exchange.scatter(step, messages).values():
            share = share + self._unpacked(step, dealt)
        return np.asarray(share % MODULUS)

    def _shortened(self, product: Secret) -> Secret:
        """Shares of products without the places that they have too many."""
        flat = product.reshape(-1)
        parts = [self._short(flat[i : i + _PART]) for i in range(0, len(flat), _PART)]
        return np.concatenate(parts).reshape(product.shape)

    def _short(self, product: Secret) -> Secret:
        mask, kept = self._masks(len(product), FRACTION, 2 * self._degree)
        hidden = self._recombined("product", product + _OFFSET + mask, 2 * self._degree)
        return np.asarray(((hidden >> FRACTION) - (_OFFSET >> FRACTION) - kept) % MODULUS)

    def _recombined(self, step: str, share: Secret, degree: int) -> Secret:
        """What everybody's shares of a polynomial of this degree give at zero."""
        mine = pack(share % MODULUS)
        received = self._exchange.broadcast(step, mine)
        shares = [self._unpacked(step, received[name]) for name in self.parties]
        needed = list(self._points)[: degree + 1]
        for point in self._points[degree + 1 :]:
            # More shares than are needed must lie on the same polynomial.
            if (_interpolated(shares, needed, point) != shares[point - 1]).any():
                self._exchange.fail(step, "the parties' shares do not fit together")
        return _interpolated(shares, needed, 0)

    def _unpacked(self, step: str, data: bytes) -> Secret:
        share = random_numbers(data, _BYTES)
        if (share >= MODULUS).any():
            self._exchange.fail(step, "a party sent an invalid share")
        return share

    # Random numbers in common

    def _common_keys(self) -> list[tuple[bytes, int]]:
        """The key of every set of n - t parties with me in it, and its polynomial at my point.

        The polynomial is one at zero and vanishes at the points of all who are not in the set. The
        first party of a set draws its key.
        """
        names, me = self.parties, self._exchange.name
        sets = list(combinations(names, len(names) - self._degree))
        drawn = {members: secrets.token_bytes(32) for members in sets if members[0] == me}
        most = max(sum(members[0] == name for members in sets) for name in names)

        def given(sender: str, receiver: str) -> list[tuple[str, ...]]:
            return [members for members in sets if members[0] == sender and receiver in members]

        told = self._exchange.scatter(
            "keys",
            {
                other: b"".join(drawn[s] for s in given(me, other)).ljust(32 * most, b"\0")
                for other in names
                if other != me
            },
        )
        keys = dict(drawn)
        for other, data in told.items():
            for at, members in enumerate(given(other, me)):
                keys[members] = data[32 * at : 32 * at + 32]
        found = []
        for members, key in sorted(keys.items()):
            outside = [
                p for p, name in zip(self._points, names, strict=True) if name not in members
            ]
            found.append((key, _product((p - self._me) * pow(p, -1, MODULUS) for p in outside)))
        return found

    def _masks(self, count: int, drop: int, degree: int) -> tuple[Secret, Secret]:
        """Shares of random numbers, on polynomials of this degree, and of them less some places."""
        self._drawn += 1
        mask: Secret = np.zeros(count, dtype=object)
        kept: Secret = np.zeros(count, dtype=object)
        zeros = degree - self._degree
        for key, weight in self._keys:
            stream = key_stream(key, self._drawn, count * (_MASK_BYTES + zeros * _BYTES))
            numbers = random_numbers(stream[: count * _MASK_BYTES], _MASK_BYTES)
            kept = kept + (numbers >> drop) * weight
            for power in range(1, zeros + 1):  # a polynomial of the higher degree, zero at zero
                start = count * (_MASK_BYTES + (power - 1) * _BYTES)
                more = random_numbers(stream[start : start + count * _BYTES], _BYTES)
                numbers = numbers + more * self._me**power
            mask = mask + numbers * weight
        return mask % MODULUS, kept % MODULUS


def _interpolated(shares: list[Secret], points: list[int], at: int) -> Secret:
    value: Secret = np.zeros(len(shares[0]), dtype=object)
    for point in points:
        others = [other for other in points if other != point]
        weight = _product((at - o) * pow(point - o, -1, MODULUS) for o in others)
        value = value + shares[point - 1] * weight
    return np.asarray(value % MODULUS)


def _product(factors: Any) -> int:
    value = 1
    for factor in factors:
        value = value * factor % MODULUS
    return value


def to_fixed(values: Floats, places: int = FRACTION) -> Secret:
    """Numbers in fixed point, as whole numbers.

    Examples
    --------
    >>> (to_fixed(np.array([0.5, -3.0])) >> (FRACTION - 1)).tolist()
    [1, -6]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all() or (np.abs(numbers) >= _LARGEST).any():
        raise UnfinishedError(
            "a sum grew beyond all bounds: the model diverges",
            remedy="Raise the penalty; perhaps some columns separate the outcomes perfectly.",
        )
    flat = np.empty(numbers.size, dtype=object)
    flat[:] = [int(number) for number in np.ldexp(numbers, places).reshape(-1).tolist()]
    return flat.reshape(numbers.shape)


def random_numbers(data: bytes, size: int) -> Secret:
    """Whole numbers of `size` bytes each."""
    numbers = np.empty(len(data) // size, dtype=object)
    numbers[:] = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
    return numbers


def pack(shares: Secret) -> bytes:
    """Shares as bytes for the wire."""
    return b"".join([share.to_bytes(_BYTES, "little") for share in shares.tolist()])
