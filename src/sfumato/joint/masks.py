"""Numbers under masks: 128-bit fixed point, and pairwise masks that cancel in the sum.

A number is held as two 64-bit limbs: its floor, and its fraction times 2^64. Any double below
2^62 is represented to 2^-64, and sums are exact and do not depend on the order of the parties.
Each pair of parties shares a key (X25519); one adds the key's stream to its numbers, the other
subtracts it, modulo 2^128. To anybody who lacks one of a party's keys its numbers are uniform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, PeerError, UnfinishedError

__all__ = [
    "LARGEST",
    "LIMB_BYTES",
    "PairKeys",
    "add",
    "mask_stream",
    "pack",
    "to_fixed",
    "to_floats",
    "unpack",
]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

LIMB_BYTES = 16
LARGEST = 2.0**50
"""No party's sum may be larger. Random numbers are, so that nonsense is not taken for a total."""


def to_fixed(values: Floats) -> Words:
    """Floats as 128-bit two's complement fixed point: columns (low, high).

    Examples
    --------
    >>> to_floats(add(to_fixed(np.array([0.25, -3.0])), to_fixed(np.array([0.5, 1.0])))).tolist()
    [0.75, -2.0]
    """
    if not np.isfinite(values).all() or (np.abs(values) >= LARGEST).any():
        raise UnfinishedError(
            "a sum grew beyond all bounds: the model diverges",
            remedy="Raise the penalty; perhaps some columns separate the outcomes perfectly.",
        )
    # The magnitude first: 1 - 2^-60 has no double, so small negative numbers would lose digits.
    size = np.abs(values)
    whole = np.floor(size)
    fraction = (size - whole) * 2.0**32  # exact; in two halves, as 2^64 is no 64-bit integer
    upper = np.floor(fraction)
    lower = np.floor((fraction - upper) * 2.0**32)
    fixed = np.empty((len(values), 2), dtype=np.uint64)
    fixed[:, 0] = (upper.astype(np.uint64) << np.uint64(32)) | lower.astype(np.uint64)
    fixed[:, 1] = whole.astype(np.uint64)
    below = values < 0
    fixed[below] = _negative(fixed[below])
    return fixed


def to_floats(fixed: Words) -> Floats:
    """The nearest floats of 128-bit fixed point numbers."""
    below = fixed[:, 1].view(np.int64) < 0
    size = fixed.copy()
    size[below] = _negative(size[below])
    floats = size[:, 1].astype(np.float64) + size[:, 0].astype(np.float64) * 2.0**-64
    return np.where(below, -floats, floats)


def add(a: Words, b: Words) -> Words:
    """Sum modulo 2^128."""
    out = a + b
    out[:, 1] += (out[:, 0] < a[:, 0]).astype(np.uint64)
    return out


def _negative(a: Words) -> Words:
    out = ~a
    out[:, 0] += np.uint64(1)
    out[:, 1] += (out[:, 0] == 0).astype(np.uint64)
    return out


def pack(fixed: Words) -> bytes:
    """Fixed point numbers as bytes for the wire."""
    return np.ascontiguousarray(fixed, dtype="<u8").tobytes()


def unpack(data: bytes | bytearray) -> Words:
    """Bytes from the wire as fixed point numbers."""
    return np.frombuffer(bytes(data), dtype="<u8").astype(np.uint64).reshape(-1, 2)


def mask_stream(key: bytes, epoch: int, number: int, size: int) -> Words:
    """`size` uniform 128-bit numbers of one key, fresh for every epoch and round (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    # The cipher's nonce: block counter 0, then epoch and round, so no stream is used twice.
    nonce = bytes(4) + epoch.to_bytes(4, "little") + number.to_bytes(8, "little")
    stream = Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(LIMB_BYTES * size))
    return unpack(stream)


class PairKeys:
    """One party's ephemeral X25519 key and the keys it shares with each other party."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        except ImportError:
            raise MissingExtraError("secure", "the exact fit") from None
        self._private = X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._shared: dict[str, bytes] = {}
        self._name = ""

    def agree(self, name: str, publics: Mapping[str, bytes], context: bytes) -> None:
        """Derive the pairwise keys; `context` binds them to the study and everybody's keys."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        self._name = name
        for other, public in publics.items():
            if other != name:
                try:
                    secret = self._private.exchange(X25519PublicKey.from_public_bytes(public))
                except ValueError:  # another length, or a point of small order
                    raise PeerError(f"the public key of `{other}` is no key") from None
                first, second = sorted((name, other))
                label = f"sfumato joint mask\0{first}\0{second}\0".encode()
                self._shared[other] = hashlib.sha256(label + context + secret).digest()

    def mask(self, values: Words, others: list[str], epoch: int, number: int) -> Words:
        """Add the masks shared with the others; they cancel in the sum over everybody."""
        out = values
        for other in others:
            stream = mask_stream(self._shared[other], epoch, number, len(values))
            out = add(out, stream if self._name < other else _negative(stream))
        return out
