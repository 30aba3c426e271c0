"""Numbers split between two parties: rings, shares, and how a shared value is opened.

A value v is held as two shares a (Alice's) and b (Bob's) with a + b = v modulo m. Each share alone
is uniformly random. Residues in the upper half stand for negative numbers (§2 of the paper).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure import _kernels

if TYPE_CHECKING:
    from sfumato.secure.session import Session


Limbs = NDArray[np.uint64]
"""Ring elements as rows of 64-bit limbs, the lowest first."""
LARGEST_RING = 256


@dataclass(frozen=True)
class Ring:
    """Integers modulo 2^L or modulo an odd number, of up to 256 bits.

    Examples
    --------
    >>> ring = Ring.power_of_two(64)
    >>> ring.decode(ring.encode([7, -2]))
    array([ 7, -2])
    >>> Ring.odd(101).decode(Ring.odd(101).encode([50, 51]))
    array([ 50, -50])
    """

    modulus: int

    def __post_init__(self) -> None:
        m = self.modulus
        if m < 2 or (m % 2 == 0 and m & (m - 1)):
            raise ParameterError("a modulus is a power of two, or odd and at least 3")
        if self.bits > LARGEST_RING:
            raise ParameterError(
                f"a modulus of {self.bits} bits is too large",
                remedy=f"Up to {LARGEST_RING} bits are supported.",
            )

    @classmethod
    def power_of_two(cls, bits: int) -> Ring:
        """Integers modulo 2^bits: the fast setting."""
        if not 1 <= bits <= LARGEST_RING:
            raise ParameterError(f"a ring of {bits} bits is not possible", remedy="Use 1 to 256.")
        return cls(1 << bits)

    @classmethod
    def odd(cls, modulus: int) -> Ring:
        """Integers modulo an odd number: the paper's setting."""
        if modulus % 2 == 0:
            raise ParameterError("this modulus is even", remedy="Use Ring.power_of_two.")
        return cls(modulus)

    @property
    def is_power_of_two(self) -> bool:
        """Whether the modulus is 2^bits."""
        return self.modulus & (self.modulus - 1) == 0

    @cached_property
    def bits(self) -> int:
        """Bits of a share."""
        return (self.modulus - 1).bit_length()

    @property
    def limbs(self) -> int:
        """64-bit words of a share."""
        return (self.bits + 63) // 64

    def __str__(self) -> str:
        return f"2^{self.bits}" if self.is_power_of_two else f"{self.modulus}"

    # What the compiled loops need

    @cached_property
    def _modulus_limbs(self) -> Limbs:
        return _limbs(0 if self.is_power_of_two else self.modulus, self.limbs)

    @cached_property
    def _mask(self) -> np.uint64:
        return np.uint64((1 << (self.bits - 64 * (self.limbs - 1))) - 1)

    @cached_property
    def kernel(self) -> tuple[Limbs, np.uint64, bool]:
        """Modulus, mask and kind as the compiled loops take them."""
        return self._modulus_limbs, self._mask, not self.is_power_of_two

    @cached_property
    def inverse(self) -> np.uint64:
        """-modulus^-1 modulo 2^64 (zero for a power of two)."""
        if self.is_power_of_two:
            return np.uint64(0)
        return np.uint64(-pow(self.modulus, -1, 1 << 64) % (1 << 64))

    @cached_property
    def _square(self) -> Limbs:
        return _limbs((1 << (128 * self.limbs)) % self.modulus, self.limbs)

    @property
    def pad_words(self) -> int:
        """64-bit words of hash output that make one uniformly random element."""
        needed = self.bits if self.is_power_of_two else self.bits + 64
        return 2 * ((needed + 127) // 128)

    # Elements

    def encode(self, numbers: Any) -> Limbs:
        """Turn integers (signed) into ring elements."""
        if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "iub":
            return self._encode_array(numbers.reshape(-1))
        values = [int(v) for v in np.asarray(numbers, dtype=object).reshape(-1)]
        out = np.empty((len(values), self.limbs), np.uint64)
        raw = b"".join((v % self.modulus).to_bytes(8 * self.limbs, "little") for v in values)
        out[:] = np.frombuffer(raw, "<u8").reshape(out.shape)
        return out

    def _encode_array(self, numbers: NDArray[Any]) -> Limbs:
        signed = numbers.dtype.kind == "i"
        wide = numbers.astype(np.int64 if signed else np.uint64)
        negative = wide < 0
        out = np.zeros((len(numbers), self.limbs), np.uint64)
        out[:, 0] = wide.view(np.uint64)
        if self.is_power_of_two:
            out[:, 1:] -= negative[:, None]  # two's complement: all ones above a negative number
            out[:, -1] &= self._mask
            return out
        out[negative, 0] = np.uint64(0) - out[negative, 0]
        if self._not_below_modulus(out).any():
            return self.encode(numbers.astype(object))
        out[negative] = self.negate(out[negative])
        return out

    def decode(self, elements: Limbs) -> NDArray[Any]:
        """Read ring elements as signed integers: int64 up to 64 bits, Python integers above."""
        if self.bits <= 64 and self.is_power_of_two:
            shift = np.uint64(64 - self.bits)
            return (elements[:, 0] << shift).view(np.int64) >> np.int64(64 - self.bits)
        raw, width = np.ascontiguousarray(elements).tobytes(), 8 * self.limbs
        half = self.modulus // 2
        values = [
            int.from_bytes(raw[i : i + width], "little") % self.modulus
            for i in range(0, len(raw), width)
        ]
        # Odd moduli have one more non-negative residue; a power of two one more negative one.
        top = half - 1 if self.is_power_of_two else half
        signed = [v - self.modulus if v > top else v for v in values]
        return np.array(signed, dtype=np.int64 if self.bits <= 64 else object)

    def random(self, count: int) -> Limbs:
        """Uniformly random elements, from the operating system's generator."""
        out = _random_words(count, self.limbs)
        out[:, -1] &= self._mask
        if self.is_power_of_two:
            return out
        while True:
            rejected = np.flatnonzero(self._not_below_modulus(out))
            if not len(rejected):
                return out
            fresh = _random_words(len(rejected), self.limbs)
            fresh[:, -1] &= self._mask
            out[rejected] = fresh

    def _not_below_modulus(self, elements: Limbs) -> NDArray[np.bool_]:
        above = np.zeros(len(elements), bool)
        equal = np.ones(len(elements), bool)
        for k in reversed(range(self.limbs)):
            above |= equal & (elements[:, k] > self._modulus_limbs[k])
            equal &= elements[:, k] == self._modulus_limbs[k]
        return above | equal

    @property
    def _wraps(self) -> bool:
        """Whether numpy computes with elements as they are, so that nothing needs compiling."""
        return self.is_power_of_two and self.limbs == 1

    def holds(self, elements: Limbs) -> bool:
        """Whether all are proper elements, below the modulus."""
        if self.is_power_of_two:
            return not (elements[:, -1] & ~self._mask).any()
        return not self._not_below_modulus(elements).any()

    def add(self, x: Limbs, y: Limbs) -> Limbs:
        """x + y, element by element; a single element serves all."""
        if self._wraps:
            return (x + y) & self._mask
        out = np.empty((max(len(x), len(y)), self.limbs), np.uint64)
        _kernels.add(x, y, out, *self.kernel)
        return out

    def subtract(self, x: Limbs, y: Limbs) -> Limbs:
        """x - y, element by element; a single element serves all."""
        if self._wraps:
            return (x - y) & self._mask
        out = np.empty((max(len(x), len(y)), self.limbs), np.uint64)
        _kernels.subtract(x, y, out, *self.kernel)
        return out

    def negate(self, x: Limbs) -> Limbs:
        """-x, element by element."""
        if not len(x):
            return x.copy()
        return self.subtract(np.zeros((1, self.limbs), np.uint64), x)

    def multiply(self, x: Limbs, y: Limbs) -> Limbs:
        """x · y, element by element; a single y serves all."""
        if self._wraps:
            return (x * y) & self._mask
        out = np.empty((len(x), self.limbs), np.uint64)
        _kernels.multiply(x, y, out, *self.kernel, self.inverse, self._square)
        return out

    def times(self, x: Limbs, constant: int) -> Limbs:
        """x · constant for a public integer."""
        return self.multiply(x, self.encode([constant]))

    def sum(self, x: Limbs, group: int) -> Limbs:
        """Sums of consecutive groups."""
        if self._wraps:
            sums: Limbs = x[: len(x) // group * group].reshape(-1, group, 1).sum(axis=1)
            return sums & self._mask
        out = np.empty((len(x) // group, self.limbs), np.uint64)
        _kernels.sum_groups(x, group, out, *self.kernel)
        return out

    def sum_runs(self, x: Limbs, starts: NDArray[np.int64]) -> Limbs:
        """Sums of runs of any length: each from its start to the next one's."""
        if self.is_power_of_two and self.bits == 64:  # numbers of 64 bits add up as they are
            return np.add.reduceat(x, starts, axis=0)
        ends = [*starts[1:], len(x)]
        runs = (x[start:end] for start, end in zip(starts, ends, strict=True))
        return np.concatenate([self.sum(np.ascontiguousarray(run), len(run)) for run in runs])

    def to_bits(self, elements: Limbs, used: int | None = None) -> NDArray[np.uint8]:
        """The lowest `used` bits of each element, uint8[n, used]."""
        raw = np.ascontiguousarray(elements).view(np.uint8).reshape(len(elements), 8 * self.limbs)
        return np.unpackbits(raw, axis=1, bitorder="little")[:, : used or self.bits]

    def from_bits(self, bits: NDArray[np.uint8]) -> Limbs:
        """Elements from their bits, uint8[n, at most bits]."""
        full = np.zeros((len(bits), 64 * self.limbs), np.uint8)
        full[:, : bits.shape[1]] = bits
        return np.packbits(full, axis=1, bitorder="little").view(np.uint64)


@dataclass(frozen=True, eq=False)
class Shares:
    """One party's part of a vector of shared numbers.

    The numbers are (Alice's values + Bob's values) modulo the ring's modulus, read as signed
    integers, divided by `scale`. Sums, differences and public multiples need no communication.

    Examples
    --------
    >>> ring = Ring.power_of_two(16)
    >>> mine = private(ring, [1, 2, 3, 4])
    >>> len(mine), ring.decode((mine * 3).sum(group=2).values)
    (4, array([ 9, 21]))
    """

    ring: Ring
    values: Limbs = field(repr=False)
    scale: int = 1

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != self.ring.limbs:
            raise ParameterError("these values do not belong to this ring")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Shares:
        picked = self.values[index]
        return replace(self, values=picked.reshape(-1, self.ring.limbs))

    def __add__(self, other: Shares) -> Shares:
        self._same_kind(other)
        return replace(self, values=self.ring.add(self.values, other.values))

    def __sub__(self, other: Shares) -> Shares:
        self._same_kind(other)
        return replace(self, values=self.ring.subtract(self.values, other.values))

    def __neg__(self) -> Shares:
        return replace(self, values=self.ring.negate(self.values))

    def __mul__(self, constant: int) -> Shares:
        """Multiply the numbers by a public integer."""
        return replace(self, values=self.ring.times(self.values, int(constant)))

    def plus(self, session: Session, constant: int) -> Shares:
        """Add a public number: Alice adds ``constant · scale`` to her share."""
        if not session.is_alice:
            return self
        addend = self.ring.encode([constant * self.scale])
        return replace(self, values=self.ring.add(self.values, addend))

    def sum(self, *, group: int | None = None) -> Shares:
        """Add all numbers, or each run of `group` consecutive numbers."""
        size = len(self) if group is None else group
        if size < 1 or len(self) % size:
            raise ParameterError(f"{len(self)} shares cannot be summed in groups of {size}")
        return replace(self, values=self.ring.sum(self.values, size))

    def repeat(self, times: int) -> Shares:
        """Each number `times` times in a row."""
        return replace(self, values=np.repeat(self.values, times, axis=0))

    @staticmethod
    def concatenate(parts: Sequence[Shares]) -> Shares:
        """All numbers of all parts, in order."""
        if not parts:
            raise ParameterError("there is nothing to concatenate")
        for part in parts[1:]:
            parts[0]._same_kind(part, same_length=False)
        return replace(parts[0], values=np.concatenate([p.values for p in parts]))

    def _same_kind(self, other: Shares, *, same_length: bool = True) -> None:
        if self.ring != other.ring:
            raise ParameterError(f"shares modulo {self.ring} and modulo {other.ring} do not mix")
        if self.scale != other.scale:
            raise ParameterError(
                f"shares scaled by {self.scale} and by {other.scale} do not mix",
                remedy="Multiply by public integers until the scales agree.",
            )
        if same_length and len(self) != len(other) and 1 not in (len(self), len(other)):
            raise ParameterError(f"{len(self)} and {len(other)} shares do not fit together")


def private(ring: Ring, numbers: Any) -> Shares:
    """My own numbers as my share, to which the other party adds its own (or `zeros`)."""
    return Shares(ring, ring.encode(numbers))


def zeros(ring: Ring, n: int) -> Shares:
    """My share of n numbers that the other party alone knows."""
    return Shares(ring, np.zeros((n, ring.limbs), np.uint64))


def share(session: Session, numbers: Any | None, *, ring: Ring, owner: str, n: int) -> Shares:
    """Split the owner's numbers into two uniformly random shares.

    Parameters
    ----------
    numbers
        The owner's integers; None on the other side.
    owner
        ``"alice"`` or ``"bob"``.
    n
        How many numbers; known to both.
    """
    session.begin("share", ring=ring, owner=owner, n=n)
    if owner not in ("alice", "bob"):
        raise ParameterError(f"`{owner}` is not a role", remedy="Use alice or bob.")
    if session.role != owner:
        return Shares(ring, receive_elements(session, "share", ring, n))
    values = ring.encode(numbers)
    if len(values) != n:
        raise ParameterError(f"{n} numbers were announced, {len(values)} given")
    mask = ring.random(n)
    session.channel.send("share", mask)
    return Shares(ring, ring.subtract(values, mask))


def reveal(session: Session, shares: Shares, *, to: str = "both", what: str) -> Any:
    """Open shared numbers as signed integers (still multiplied by their scale).

    Parameters
    ----------
    to
        ``"alice"``, ``"bob"`` or ``"both"``; the other side gets None.
    what
        What becomes known, in words: it goes into the session's statement.
    """
    if to not in ("alice", "bob", "both"):
        raise ParameterError(f"`{to}` is not a party", remedy="Use alice, bob or both.")
    ring = shares.ring
    session.begin("reveal", ring=ring, to=to, n=len(shares), scale=shares.scale)
    session.note_learned(to, what)
    if to in ("both", session.peer):
        session.channel.send("reveal", np.ascontiguousarray(shares.values))
    if to not in ("both", session.role):
        return None
    theirs = receive_elements(session, "reveal", ring, len(shares))
    opened = ring.add(shares.values, theirs)
    if to == "both":
        session.note_opened(opened.tobytes())
    return ring.decode(opened)


def reveal_real(session: Session, shares: Shares, *, to: str = "both", what: str) -> Any:
    """Open shared numbers as real numbers: divided by their scale."""
    opened = reveal(session, shares, to=to, what=what)
    if opened is None:
        return None
    return np.array([int(v) / shares.scale for v in opened], dtype=np.float64)


def receive_elements(session: Session, step: str, ring: Ring, n: int) -> Limbs:
    """Receive n ring elements; anything that is not one is refused."""
    raw = session.channel.receive(step, n * ring.limbs * 8)
    elements = np.frombuffer(raw, np.uint64).reshape(n, ring.limbs)
    if not ring.holds(elements):
        session.refuse("sent numbers outside the agreed ring", step)
    return elements


def _limbs(value: int, count: int) -> Limbs:
    return np.frombuffer(value.to_bytes(8 * count, "little"), "<u8").copy()


def _random_words(count: int, limbs: int) -> Limbs:
    return np.frombuffer(os.urandom(8 * count * limbs), np.uint64).reshape(count, limbs).copy()
