"""Base oblivious transfers: 128 transfers of a key by public-key cryptography.

The protocol of Chou & Orlandi (2015) in the prime-order subgroup of edwards25519. Every received
point is checked: on the curve, in the main subgroup, not of small order, in canonical form.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, PeerError

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["receive_keys", "send_keys"]

_POINT = 32
Words = NDArray[np.uint64]


def send_keys(session: Session, count: int) -> tuple[Words, Words]:
    """Offer `count` pairs of fresh keys; the other side learns one of each pair, we not which."""
    curve = _curve()
    session.begin("base transfers", count=count)
    secret = _scalar(curve)
    public = curve.crypto_scalarmult_ed25519_base_noclamp(secret)
    session.channel.send("base transfers: offer", public)
    answers = bytes(session.channel.receive("base transfers: choices", _POINT * count))
    offset = curve.crypto_scalarmult_ed25519_noclamp(secret, public)
    first, second = [], []
    for i in range(count):
        answer = _checked(curve, answers[_POINT * i : _POINT * (i + 1)], session)
        common = curve.crypto_scalarmult_ed25519_noclamp(secret, answer)
        first.append(_key(i, public, answer, common))
        other = curve.crypto_core_ed25519_sub(common, offset)
        second.append(_key(i, public, answer, other))
    return _words(first), _words(second)


def receive_keys(session: Session, choices: Sequence[int]) -> Words:
    """Learn one key of each offered pair, as `choices` (0 or 1) say."""
    curve = _curve()
    session.begin("base transfers", count=len(choices))
    public = bytes(session.channel.receive("base transfers: offer", _POINT))
    _checked(curve, public, session)
    keys, answers = [], []
    for i, choice in enumerate(choices):
        secret = _scalar(curve)
        plain = curve.crypto_scalarmult_ed25519_base_noclamp(secret)
        moved = curve.crypto_core_ed25519_add(plain, public)
        answer = moved if choice else plain
        answers.append(answer)
        common = curve.crypto_scalarmult_ed25519_noclamp(secret, public)
        keys.append(_key(i, public, answer, common))
    session.channel.send("base transfers: choices", b"".join(answers))
    return _words(keys)


def _checked(curve: Any, point: bytes, session: Session) -> bytes:
    if not curve.crypto_core_ed25519_is_valid_point(point):
        session.channel.stop("it received a point that is not in the group")
        raise PeerError(
            "the other party sent a point that is not in the group",
            where="step `base transfers`",
            remedy="Run the same version on both sides; do not trust a peer that does it twice.",
        )
    return point


def _scalar(curve: Any) -> bytes:
    while True:
        scalar: bytes = curve.crypto_core_ed25519_scalar_reduce(secrets.token_bytes(64))
        if any(scalar):
            return scalar


def _key(number: int, offer: bytes, answer: bytes, common: bytes) -> bytes:
    text = b"sfumato base transfer" + number.to_bytes(4, "big") + offer + answer + common
    return hashlib.sha256(text).digest()[:16]


def _words(keys: list[bytes]) -> Words:
    return np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2).copy()


def _curve() -> Any:
    try:
        import nacl.bindings
    except ImportError as error:
        raise MissingExtraError("secure", "secure computation") from error
    return nacl.bindings
