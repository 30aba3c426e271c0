"""Oblivious transfer: 128 by public-key cryptography, and from them millions with AES only.

*Base transfers* (`send_keys`, `receive_keys`) follow Chou & Orlandi (2015) on edwards25519: Bob
offers a point A = b·G, Alice answers R = x·G for choice 0 and R = x·G + A for choice 1. Keys are
hashes of b·R and b·(R - A), of which Alice knows x·A. Only additions need Edwards coordinates;
multiplications are X25519, the fastest and best examined one there is. It gives a point up to its
sign: that is what both hash, and with it which of the two keys it is for. For R = A/2 the points
differ in the sign alone; if the keys did not differ either, Bob's choices would lie open in his
matrix.

X25519 multiplies by the "clamped" numbers of RFC 7748, the multiples of eight from 2^254 to 2^255,
which reach half of the group. With a random sign they reach all of it, evenly up to 2^-126, so R
tells nothing of the choice. As multiples of eight they also clear whatever a received point may
hold outside the main subgroup. Received points must be on the curve, in canonical form, and not of
small order.

Answers travel in parts: Bob works on the first while Alice makes the next.

*The extension* (`OTSender`, `OTReceiver`) is that of Ishai, Kilian, Nissim & Petrank (2003).
Alice sends, Bob receives: afterwards Alice holds q_i, Bob t_i = q_i xor c_i · Δ for his choices
c_i, where Δ is Alice's secret. What is done with the pairs is hashed first (`hashed`), so Δ never
meets anything else; garbled circuits draw a Δ of their own.

Transfers are made in stock, for random choices r_i; when one is used, Bob sends c_i xor r_i. Before
any of a lot is used Alice checks it (Keller, Orsini & Scholl 2015, in the form that Roy 2022
proves): Bob must have used the same choices in all 128 columns of his matrix, else he would learn
bits of Δ. She draws weights χ_b; Bob answers with Σ_b χ_b · (word b of it), in GF(2^64), of his
choices and of each column. A column with other choices passes only if Bob guessed its bit of Δ, or
by a chance of 2^-64. The last word of a lot is not used: with weight one it hides all others.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError
from sfumato.kernels.compiling import compiled

if TYPE_CHECKING:
    from sfumato.secure.session import Session


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
"""Choices that Bob tells in one message at most."""
_LOT = 1 << 19
"""Transfers made and checked together at most, then used without waiting for each other."""
_WORD = 64
"""Bits of a word, and of the statistical security of the check."""
ROWS_A_KEY = 1 << 12
"""Rows hashed under one key; Alice hashes each for both choices, so twice as many blocks."""
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
            first.append(_key(start + i, 0, offer, answer, common[i]))
            second.append(_key(start + i, 1, offer, answer, common[size + i]))
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
    learned = enumerate(zip(choices, answers, common, strict=True))
    return _words([_key(i, choice, offer, answer, at) for i, (choice, answer, at) in learned])


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


def _key(number: int, choice: int, offer: bytes, answer: bytes, common: bytes) -> bytes:
    place = number.to_bytes(4, "big") + bytes([choice])
    text = b"sfumato base transfer" + place + offer + answer + common
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


class _Stock:
    """Transfers that were made and checked, and not yet used: the same number on both sides."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._block = 0
        self._wanted = 0
        self._keys = np.empty((0, 2), np.uint64)
        self.lots = 0

    def reserve(self, count: int) -> None:
        """Announce how many will be used soon, so that few lots are made for them."""
        self._wanted = max(self._wanted, count)

    def _take(self, count: int) -> Words:
        """The keys of the next transfers."""
        if count > len(self._keys):
            need = max(count, min(_LOT, self._wanted)) - len(self._keys)
            self._session.begin("transfers", count=need)
            made = self._make(_rounded(need))
            self._keys = np.concatenate([self._keys, made]) if len(self._keys) else made
            self.lots += 1
        self._wanted = max(0, self._wanted - count)
        self._session.oblivious_transfers += count
        taken, self._keys = self._keys[:count], self._keys[count:]
        return taken

    def _make(self, count: int) -> Words:
        raise NotImplementedError

    def _stream(self, schedule: NDArray[np.uint8], count: int) -> Words:
        """The next bits of all columns, for `count` transfers."""
        rows = np.empty((_COLUMNS, count // _WORD), np.uint64)
        self._session.engine.stream(schedule, self._block, rows)
        return rows

    def _weights(self, seed: bytes, count: int) -> Words:
        """χ for each word of a lot; one for the last."""
        engine = self._session.engine
        out = np.empty((1, count // _WORD), np.uint64)
        engine.stream(engine.schedule(np.frombuffer(seed, np.uint64).reshape(1, 2)), 0, out)
        out[0, -1] = 1
        weights: Words = out[0]
        return weights


class OTSender(_Stock):
    """Alice's end."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        secret = secrets.token_bytes(16)
        self.delta: Words = np.frombuffer(secret, np.uint64).copy()
        bits = np.unpackbits(np.frombuffer(secret, np.uint8), bitorder="little")
        self._mask = np.uint64(0) - bits.astype(np.uint64)
        keys = receive_keys(session, bits.tolist())
        self._schedule = session.engine.schedule(keys)

    def extend(self, count: int) -> Words:
        """Learn how Bob's choices differ from those in stock, and return q, uint64[count, 2]."""
        q = self._take(count)
        if not count:
            return q
        raw = self._session.channel.receive("transfers: choices", (count + 7) // 8)
        flip(q, np.frombuffer(raw, np.uint8), self.delta[0], self.delta[1])
        return q

    def _make(self, count: int) -> Words:
        """Receive Bob's matrix, check it, and turn it on its side."""
        channel = self._session.channel
        parts, q = [], np.empty((count, 2), np.uint64)
        for start, width in _chunks(count):
            rows = self._stream(self._schedule, width)
            self._block += width // 128
            raw = channel.receive("transfers: matrix", _COLUMNS * width // 8)
            matrix = np.frombuffer(raw, np.uint64).reshape(rows.shape)
            matrix &= self._mask[:, None]
            rows ^= matrix
            transpose(rows, q[start : start + width])
            parts.append(rows)
        seed = os.urandom(16)
        channel.send("transfers: weights", seed)
        answer = np.frombuffer(channel.receive("transfers: check", 8 * (_COLUMNS + 1)), np.uint64)
        weights = self._weights(seed, count)
        wanted = answer[1:] ^ (answer[0] & self._mask)
        if (_combined(self._session, parts, weights) != wanted).any():
            self._session.refuse("did not choose alike in all columns", "transfers: check")
        return q[: count - _WORD]


class OTReceiver(_Stock):
    """Bob's end."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        first, second = send_keys(session, _COLUMNS)
        self._first = session.engine.schedule(first)
        self._second = session.engine.schedule(second)
        self._drawn = np.empty(0, np.uint8)

    def extend(self, choices: NDArray[np.uint8]) -> Words:
        """Tell how these choices (0 or 1) differ from those in stock; t, uint64[count, 2]."""
        count = len(choices)
        t = self._take(count)
        drawn, self._drawn = self._drawn[:count], self._drawn[count:]
        if count:
            flipped = np.packbits(drawn ^ choices, bitorder="little")
            self._session.channel.send("transfers: choices", flipped)
        return t

    def _make(self, count: int) -> Words:
        """Send the matrix for random choices, and answer Alice's check."""
        channel = self._session.channel
        packed = np.frombuffer(os.urandom(count // 8), np.uint64)
        parts, t = [], np.empty((count, 2), np.uint64)
        for start, width in _chunks(count):
            rows = self._stream(self._first, width)
            matrix = self._stream(self._second, width)
            self._block += width // 128
            matrix ^= rows
            matrix ^= packed[start // _WORD : (start + width) // _WORD]
            channel.send("transfers: matrix", matrix)
            transpose(rows, t[start : start + width])
            parts.append(rows)
        weights = self._weights(bytes(channel.receive("transfers: weights", 16)), count)
        mine = _combined(self._session, [packed[None, :]], weights)
        columns = _combined(self._session, parts, weights)
        channel.send("transfers: check", np.concatenate([mine, columns]))
        bits = np.unpackbits(packed.view(np.uint8), bitorder="little")[: count - _WORD]
        self._drawn = np.concatenate([self._drawn, bits])
        return t[: count - _WORD]

    def ahead(self, choices: Iterable[NDArray[np.uint8]]) -> Iterator[tuple[Any, Words]]:
        """Choices with their t, told as far ahead as the stock goes: Alice need not wait for Bob.

        Before a new lot is made, what was told is used up, as it is on Alice's side.
        """
        asked: deque[tuple[Any, Words]] = deque()
        for part in choices:
            if len(part) > len(self._keys):
                while asked:
                    yield asked.popleft()
            asked.append((part, self.extend(part)))
        yield from asked


def hashed(session: Session, keys: Words, words: int = 2) -> tuple[Words, ...]:
    """Hash the keys of transfers to `words` (even) words each, every block under a fresh key.

    Alice gets the hashes for both choices, Bob the one he chose.
    """
    deltas = (None, session.ot_sender.delta) if session.is_alice else (None,)
    made = tuple(np.empty((len(keys), words), np.uint64) for _ in deltas)
    for block in range(0, words, 2):
        key = session.hash_keys(-(-len(keys) // ROWS_A_KEY))
        for out, delta in zip(made, deltas, strict=True):
            out[:, block : block + 2] = session.engine.hash(keys, key, delta=delta)
    return made


def _combined(session: Session, parts: list[Words], weights: Words) -> Words:
    """Σ weight · word in GF(2^64) of each row, whose words lie one part after the other."""
    low = np.zeros(len(parts[0]), np.uint64)
    high = np.zeros_like(low)
    start = 0
    for rows in parts:
        words = rows.shape[1]
        session.engine.combine(rows, weights[start : start + words], low, high)
        start += words
    return _reduced(low, high)


def _reduced(low: Words, high: Words) -> Words:
    """Polynomials of 128 bits modulo x^64 + x^4 + x^3 + x + 1."""
    over = (high >> np.uint64(63)) ^ (high >> np.uint64(61)) ^ (high >> np.uint64(60))
    reduced: Words = low ^ _times_tail(high) ^ _times_tail(over)
    return reduced


def _times_tail(words: Words) -> Words:
    """Times x^4 + x^3 + x + 1, cut to 64 bits."""
    tail: Words = (
        words ^ (words << np.uint64(1)) ^ (words << np.uint64(3)) ^ (words << np.uint64(4))
    )
    return tail


def _rounded(count: int) -> int:
    """Room for so many transfers and a word that is not used, in whole blocks of AES."""
    return (count + _WORD + 127) // 128 * 128


def _chunks(total: int) -> list[tuple[int, int]]:
    return [(start, min(_CHUNK, total - start)) for start in range(0, total, _CHUNK)]


def _flipped(q: Words, flipped: NDArray[np.uint8], low: np.uint64, high: np.uint64) -> None:
    bits = np.unpackbits(flipped, count=len(q), bitorder="little").astype(np.uint64)
    q ^= (np.uint64(0) - bits)[:, None] & np.array([low, high])


@compiled(most=1 << 22, patience=0.5, instead=_flipped)
def flip(q, flipped, low, high):  # type: ignore[no-untyped-def]
    """Add Δ = (low, high) to the rows of q whose bit in `flipped` (uint8, lowest first) is one."""
    for i in range(len(q)):
        bit = np.uint64(flipped[i >> 3] >> np.uint8(i & 7)) & np.uint64(1)
        chosen = np.uint64(0) - bit
        q[i, 0] ^= low & chosen
        q[i, 1] ^= high & chosen


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


def _turned(rows: Words, columns: Words) -> None:
    words, width = rows.shape[1], 32
    turned = rows.copy()
    mask = np.uint64(0x00000000FFFFFFFF)
    while width:
        halves = turned.reshape(-1, 2, width, words)
        low, high = halves[:, 0], halves[:, 1]
        moved = ((low >> np.uint64(width)) ^ high) & mask
        low ^= moved << np.uint64(width)
        high ^= moved
        width >>= 1
        mask ^= mask << np.uint64(width)
    columns.reshape(words, 64, 2)[:] = turned.reshape(2, 64, words).transpose(2, 1, 0)


@compiled(most=1 << 22, patience=0.7, instead=_turned)
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
