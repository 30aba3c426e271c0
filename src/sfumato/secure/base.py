"""Base oblivious transfers: 128 transfers of a key by public-key cryptography.

The protocol of Chou & Orlandi (2015) on edwards25519: Bob offers a point A = b·G, Alice answers
R = x·G for choice 0 and R = x·G + A for choice 1. Keys are hashes of b·R and b·(R - A), of which
Alice knows x·A. Only additions need Edwards coordinates; multiplications are X25519, the fastest
and best examined one there is. It gives a point up to its sign: that is what both hash.

X25519 multiplies by the "clamped" numbers of RFC 7748, the multiples of eight from 2^254 to 2^255,
which reach half of the group. With a random sign they reach all of it, evenly up to 2^-126, so R
tells nothing of the choice. As multiples of eight they also clear whatever a received point may
hold outside the main subgroup. Received points must be on the curve, in canonical form, and not of
small order.

Answers travel in parts: Bob works on the first while Alice makes the next.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, PeerError

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["receive_keys", "send_keys"]

Words = NDArray[np.uint64]
_POINT = 32
_PART = 32
"""Answers in a message."""
_FIELD = 2**255 - 19
_SIGN = 1 << 255
_NEUTRAL = 1


def send_keys(session: Session, count: int) -> tuple[Words, Words]:
    """Offer `count` pairs of fresh keys; the other side learns one of each pair, we not which."""
    curve = _curve()
    session.begin("base transfers", count=count)
    secret = secrets.token_bytes(_POINT)
    offer = curve.crypto_scalarmult_ed25519_base(secret)
    session.channel.send("base transfers: offer", offer)
    first, second = [], []
    for start in range(0, count, _PART):
        size = min(_PART, count - start)
        raw = bytes(session.channel.receive("base transfers: choices", _POINT * size))
        answers = [raw[i : i + _POINT] for i in range(0, len(raw), _POINT)]
        try:
            moved = [curve.crypto_core_ed25519_sub(answer, offer) for answer in answers]
            places = _montgomery([*answers, *moved])
            common = [curve.crypto_scalarmult(secret, place) for place in places]
        except (RuntimeError, ValueError):
            _refuse(session)
        for i, answer in enumerate(answers):
            first.append(_key(start + i, offer, answer, common[i]))
            second.append(_key(start + i, offer, answer, common[size + i]))
    return _words(first), _words(second)


def receive_keys(session: Session, choices: Sequence[int]) -> Words:
    """Learn one key of each offered pair, as `choices` (0 or 1) say."""
    curve = _curve()
    session.begin("base transfers", count=len(choices))
    offer = bytes(session.channel.receive("base transfers: offer", _POINT))
    if not curve.crypto_core_ed25519_is_valid_point(offer):
        _refuse(session)
    drawn = [secrets.token_bytes(_POINT) for _ in choices]
    answers: list[bytes] = []
    for start in range(0, len(choices), _PART):
        part = [
            _answer(curve, secret, offer, choice)
            for secret, choice in zip(
                drawn[start : start + _PART], choices[start : start + _PART], strict=True
            )
        ]
        session.channel.send("base transfers: choices", b"".join(part))
        answers += part
    (place,) = _montgomery([offer])
    common = (curve.crypto_scalarmult(secret, place) for secret in drawn)
    pairs = zip(answers, common, strict=True)
    return _words([_key(i, offer, answer, point) for i, (answer, point) in enumerate(pairs)])


def _answer(curve: Any, secret: bytes, offer: bytes, choice: int) -> bytes:
    """±x·G or ±x·G + A; the top bit of the secret, which clamping drops, is the sign."""
    point = bytearray(curve.crypto_scalarmult_ed25519_base(secret))
    point[-1] ^= secret[-1] & 0x80
    plain = bytes(point)
    moved: bytes = curve.crypto_core_ed25519_add(plain, offer)
    return moved if choice else plain


def _montgomery(points: list[bytes]) -> list[bytes]:
    """What X25519 takes, u = (1 + y) / (1 - y), of public points; one inversion for them all."""
    heights = [int.from_bytes(point, "little") % _SIGN for point in points]
    if any(y >= _FIELD or y == _NEUTRAL for y in heights):
        raise ValueError("not a proper point")
    products = [1]
    for y in heights:
        products.append(products[-1] * (1 - y) % _FIELD)
    inverse = pow(products.pop(), -1, _FIELD)
    places = []
    for y, before in zip(reversed(heights), reversed(products), strict=True):
        places.append(((1 + y) * inverse * before % _FIELD).to_bytes(_POINT, "little"))
        inverse = inverse * (1 - y) % _FIELD
    return places[::-1]


def _refuse(session: Session) -> NoReturn:
    session.channel.stop("it received a point that is not in the group")
    raise PeerError(
        "the other party sent a point that is not in the group",
        where="step `base transfers`",
        remedy="Run the same version on both sides; do not trust a peer that does it twice.",
    )


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
