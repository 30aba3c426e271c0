"""Oblivious transfer: 128 by public-key cryptography, and from them millions with AES only.

*Base transfers* (`send_keys`, `receive_keys`) follow Chou & Orlandi (2015) on edwards25519: Bob
offers a point A = b·G, Alice answers R = x·G for choice 0 and R = x·G + A for choice 1. Keys are
hashes of b·R and b·(R - A), of which Alice knows x·A. Only additions need Edwards coordinates;
multiplications are X25519, the fastest and best examined one there is. It gives a point up to its
sign: that is what both hash.

X25519 multiplies by the "clamped" numbers of RFC 7748, the multiples of eight from 2^254 to 2^255,
which reach half of the group. With a random sign they reach all of it, evenly up to 2^-126, so R
tells nothing of the choice. As multiples of eight they also clear whatever a received point may
hold outside the main subgroup. Received points must be on the curve, in canonical form, and not of
small order.

Answers travel in parts: Bob works on the first while Alice makes the next.

*The extension* (`OTSender`, `OTReceiver`) is that of Ishai, Kilian, Nissim & Petrank (2003),
semi-honest. Alice sends, Bob receives: afterwards Alice holds q_i, Bob t_i = q_i xor c_i · Δ for
his choices c_i, where Δ is Alice's secret. What is done with the pairs is hashed first, so Δ never
meets anything else; garbled circuits draw a Δ of their own.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["AHEAD", "OTReceiver", "OTSender", "receive_keys", "send_keys", "transpose"]

Words = NDArray[np.uint64]
_POINT = 32
_PART = 32
"""Answers in a message."""
_FIELD = 2**255 - 19
_SIGN = 1 << 255
_NEUTRAL = 1
_COLUMNS = 128
_CHUNK = 1 << 15
"""Transfers worked on at a time: their bit matrix, half a mebibyte, stays in the cache."""
AHEAD = 1 << 18
"""Transfers that Bob asks for before he waits for Alice's answer to the first of them."""
_TILE = 8
"""Blocks of 64 x 64 bits turned at a time: a row of them is one register of AVX-512."""


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
    session.refuse("sent a point that is not in the group", "base transfers")


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


# The extension


class OTSender:
    """Alice's end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        secret = secrets.token_bytes(16)
        self.delta: Words = np.frombuffer(secret, np.uint64).copy()
        bits = np.unpackbits(np.frombuffer(secret, np.uint8), bitorder="little")
        self._mask = (np.uint64(0) - bits.astype(np.uint64))[:, None]
        keys = receive_keys(session, bits.tolist())
        self._schedule = session.engine.schedule(keys)
        self._block = 0

    def extend(self, count: int) -> Words:
        """Receive Bob's matrix and return q, uint64[count, 2]."""
        session = self._session
        session.oblivious_transfers += count
        q = np.empty((_rounded(count), 2), np.uint64)
        for start, width in _chunks(count):
            raw = session.channel.receive("transfers: matrix", _COLUMNS * width // 8)
            matrix = np.frombuffer(raw, np.uint64).reshape(_COLUMNS, width // 64)
            rows = np.empty_like(matrix)
            session.engine.stream(self._schedule, self._block, rows)
            self._block += width // 128
            matrix &= self._mask
            rows ^= matrix
            transpose(rows, q[start : start + width])
        return q[:count]


class OTReceiver:
    """Bob's end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        first, second = send_keys(session, _COLUMNS)
        self._first = session.engine.schedule(first)
        self._second = session.engine.schedule(second)
        self._block = 0

    def extend(self, choices: NDArray[np.uint8]) -> Words:
        """Send the matrix for these choices (0 or 1) and return t, uint64[count, 2]."""
        session = self._session
        count = len(choices)
        session.oblivious_transfers += count
        t = np.empty((_rounded(count), 2), np.uint64)
        for start, width in _chunks(count):
            wanted = np.zeros(width, np.uint8)
            part = choices[start : start + width]
            wanted[: len(part)] = part
            packed = np.packbits(wanted, bitorder="little").view(np.uint64)
            rows = np.empty((_COLUMNS, width // 64), np.uint64)
            matrix = np.empty_like(rows)
            session.engine.stream(self._first, self._block, rows)
            session.engine.stream(self._second, self._block, matrix)
            self._block += width // 128
            matrix ^= rows
            matrix ^= packed
            session.channel.send("transfers: matrix", matrix)
            transpose(rows, t[start : start + width])
        return t[:count]

    def ahead(self, choices: Iterable[NDArray[np.uint8]]) -> Iterator[tuple[Any, Words]]:
        """Choices with their t, asked for well ahead, so that Alice need not wait for Bob."""
        asked: deque[tuple[Any, Words]] = deque()
        waiting = 0
        for part in choices:
            asked.append((part, self.extend(part)))
            waiting += len(part)
            while waiting > AHEAD and len(asked) > 1:
                waiting -= len(asked[0][0])
                yield asked.popleft()
        yield from asked


def _rounded(count: int) -> int:
    return (count + 127) // 128 * 128


def _chunks(count: int) -> list[tuple[int, int]]:
    total = _rounded(count)
    return [(start, min(_CHUNK, total - start)) for start in range(0, total, _CHUNK)]


# A matrix of bits turned on its side: what makes transfers out of AES streams


@intrinsic
def _exchange(typing, first, second, shift, mask):  # type: ignore[no-untyped-def]
    """Exchange bits of two rows of `_TILE` words: the masked ones of the second, shifted, with the
    first's. LLVM does not find by itself that a whole row fits into one register."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row, index = ir.VectorType(ir.IntType(64), _TILE), ir.IntType(32)
        undefined = ir.Constant(row, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(index, _TILE), [ir.Constant(index, 0)] * _TILE)
        places = [builder.inttoptr(address, row.as_pointer()) for address in arguments[:2]]
        spread = []
        for word in arguments[2:]:
            single = builder.insert_element(undefined, word, ir.Constant(index, 0))
            spread.append(builder.shuffle_vector(single, undefined, everywhere))
        low, high = (builder.load(place, align=8) for place in places)
        moved = builder.and_(builder.xor(builder.lshr(low, spread[0]), high), spread[1])
        builder.store(builder.xor(low, builder.shl(moved, spread[0])), places[0], align=8)
        builder.store(builder.xor(high, moved), places[1], align=8)
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 4), generate


@njit(cache=True, nogil=True)
def transpose(rows, columns):  # type: ignore[no-untyped-def]
    """Turn 128 rows of bits, uint64[128, words], into their columns, uint64[64·words, 2].

    Blocks of 64 x 64 bits, `_TILE` side by side, are turned by exchanging halves, quarters, …
    (Hacker's Delight, 7-3).
    """
    tile = np.zeros((128, _TILE), np.uint64)
    place = np.uint64(tile.ctypes.data)
    size = np.uint64(8 * _TILE)
    for first in range(0, rows.shape[1], _TILE):
        count = min(_TILE, rows.shape[1] - first)
        for i in range(128):
            for word in range(count):
                tile[i, word] = rows[i, first + word]
        width = 32
        mask = np.uint64(0x00000000FFFFFFFF)
        while width:
            k = 0
            while k < 128:
                _exchange(
                    place + size * np.uint64(k), place + size * np.uint64(k + width),
                    np.uint64(width), mask,
                )  # fmt: skip
                k = (k + width + 1) & ~width
            width >>= 1
            mask ^= mask << np.uint64(width)
        for word in range(count):
            for i in range(64):
                columns[64 * (first + word) + i, 0] = tile[i, word]
                columns[64 * (first + word) + i, 1] = tile[64 + i, word]
