"""Oblivious transfer extension: millions of transfers from 128, with AES only.

The protocol of Ishai, Kilian, Nissim & Petrank (2003), semi-honest. Alice sends, Bob receives:
afterwards Alice holds q_i, Bob t_i = q_i xor c_i · Δ for his choices c_i, where Δ is Alice's
secret. What is done with the pairs is hashed first, so Δ never meets anything else; garbled
circuits draw a Δ of their own.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.secure import _matrix
from sfumato.secure.base import receive_keys, send_keys

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["AHEAD", "OTReceiver", "OTSender"]

Words = NDArray[np.uint64]
_COLUMNS = 128
_CHUNK = 1 << 15
"""Transfers worked on at a time: their bit matrix, half a mebibyte, stays in the cache."""
AHEAD = 1 << 18
"""Transfers that Bob asks for before he waits for Alice's answer to the first of them."""


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
            _matrix.transpose(rows, q[start : start + width])
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
            _matrix.transpose(rows, t[start : start + width])
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
