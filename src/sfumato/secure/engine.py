"""Which implementation of AES hashing and garbling runs: compiled AES-NI, or numpy with OpenSSL.

Both give the same bytes, so a party with the instructions and one without can work together.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, ParameterError
from sfumato.secure.circuit import NOT, XOR, Circuit

__all__ = ["CompiledEngine", "Engine", "PortableEngine", "choose", "warm_up"]

Words = NDArray[np.uint64]
_MASK = (1 << 64) - 1


class Engine(Protocol):
    """Hashing and garbling of whole batches."""

    @property
    def name(self) -> str:
        """ "aes-ni" or "openssl"."""

    def schedule(self, keys: Words) -> object:
        """Prepare keys (uint64[n, 2]) for `stream`."""

    def stream(self, schedule: object, first: int, out: Words) -> None:
        """Row r of out (uint64[n, words]) = AES-CTR of key r, from block `first` on."""

    def hash(self, labels: Words, key: int, *, delta: Words | None = None) -> Words:
        """H(labels[i] xor delta; key, i) for every i."""

    def garble(self, circuit: Circuit, wires: Words, delta: Words, key: int) -> Words:
        """Fill `wires` (labels of zero) gate by gate; return the tables."""

    def evaluate(self, circuit: Circuit, wires: Words, tables: Words, key: int) -> None:
        """Fill `wires` (active labels) gate by gate."""


class CompiledEngine:
    """AES-NI (and VAES where there is) through numba."""

    name = "aes-ni"

    def __init__(self) -> None:
        from sfumato.secure import _aes

        self._aes = _aes

    def schedule(self, keys: Words) -> object:
        """Key schedules, uint8[n, 176]."""
        return self._aes.expand_keys(keys)

    def stream(self, schedule: object, first: int, out: Words) -> None:
        """AES-CTR streams, one key a row."""
        self._aes.ctr(schedule, np.uint64(first), out)

    def hash(self, labels: Words, key: int, *, delta: Words | None = None) -> Words:
        """Hash every label under one key."""
        low, high = (np.uint64(0), np.uint64(0)) if delta is None else (delta[0], delta[1])
        rows = np.ascontiguousarray(labels)  # the kernel walks over memory, not over strides
        out = np.empty_like(rows)
        self._aes.hash_rows(rows, *_key(key), low, high, out)
        return out

    def garble(self, circuit: Circuit, wires: Words, delta: Words, key: int) -> Words:
        """Half gates over the batch."""
        tables = np.empty((circuit.and_gates, 2, wires.shape[1], 2), np.uint64)
        self._aes.garble(*circuit.program, wires, tables, delta, *_key(key))
        return tables

    def evaluate(self, circuit: Circuit, wires: Words, tables: Words, key: int) -> None:
        """Half gates over the batch."""
        self._aes.evaluate(*circuit.program, wires, tables, *_key(key))


class PortableEngine:
    """numpy, with AES from OpenSSL: for processors without the AES instructions."""

    name = "openssl"

    def schedule(self, keys: Words) -> object:
        """The keys themselves."""
        return [row.tobytes() for row in keys]

    def stream(self, schedule: object, first: int, out: Words) -> None:
        """AES-CTR streams, one key a row."""
        assert isinstance(schedule, list)
        counters = np.zeros((out.shape[1] // 2, 2), np.uint64)
        counters[:, 0] = np.arange(first, first + len(counters), dtype=np.uint64)
        for row, key in enumerate(schedule):
            out[row] = _aes_blocks(key, counters).reshape(-1)

    def hash(self, labels: Words, key: int, *, delta: Words | None = None) -> Words:
        """Hash every label under one key."""
        shifted = labels if delta is None else labels ^ delta
        mixed = np.empty_like(shifted)
        mixed[:, 0] = shifted[:, 1] ^ np.arange(len(labels), dtype=np.uint64)
        mixed[:, 1] = shifted[:, 0] ^ shifted[:, 1]
        return _aes_blocks(key.to_bytes(16, "little"), mixed) ^ mixed

    def garble(self, circuit: Circuit, wires: Words, delta: Words, key: int) -> Words:
        """Half gates over the batch."""
        tables = np.empty((circuit.and_gates, 2, wires.shape[1], 2), np.uint64)
        gate = 0
        for kind, left, right, target in zip(*circuit.program, strict=True):
            a, b = wires[left], wires[right]
            if kind == XOR:
                wires[target] = a ^ b
            elif kind == NOT:
                wires[target] = a ^ delta
            else:
                key_a, key_b = _shifted(key, 2 * gate), _shifted(key, 2 * gate + 1)
                a0 = self.hash(a, key_a)
                a1 = self.hash(a, key_a, delta=delta)
                b0 = self.hash(b, key_b)
                b1 = self.hash(b, key_b, delta=delta)
                colour_a, colour_b = _colour(a), _colour(b)
                first = a0 ^ a1 ^ (colour_b & delta)
                second = b0 ^ b1 ^ a
                tables[gate, 0], tables[gate, 1] = first, second
                wires[target] = a0 ^ (colour_a & first) ^ b0 ^ (colour_b & (second ^ a))
                gate += 1
        return tables

    def evaluate(self, circuit: Circuit, wires: Words, tables: Words, key: int) -> None:
        """Half gates over the batch."""
        gate = 0
        for kind, left, right, target in zip(*circuit.program, strict=True):
            a, b = wires[left], wires[right]
            if kind == XOR:
                wires[target] = a ^ b
            elif kind == NOT:
                wires[target] = a
            else:
                hashed_a = self.hash(a, _shifted(key, 2 * gate))
                hashed_b = self.hash(b, _shifted(key, 2 * gate + 1))
                first, second = tables[gate, 0], tables[gate, 1]
                wires[target] = (
                    hashed_a ^ (_colour(a) & first) ^ hashed_b ^ (_colour(b) & (second ^ a))
                )
                gate += 1


def choose(name: str = "auto") -> Engine:
    """The engine of that name; "auto" takes the compiled one where the processor allows it."""
    if name not in ("auto", "aes-ni", "openssl"):
        raise ParameterError(f"`{name}` is not an engine", remedy="Use auto, aes-ni or openssl.")
    if name != "openssl":
        from sfumato.secure import _aes

        if _aes.available():
            return CompiledEngine()
        if name == "aes-ni":
            raise ParameterError(
                "this processor has no AES instructions", remedy="Use the engine openssl or auto."
            )
    return PortableEngine()


def warm_up(progress: Callable[[str], None] | None = None) -> float:
    """Compile or load every kernel now, before a peer waits; returns the seconds it took.

    The compiled code is kept on disk: only the first run on a machine compiles.

    Parameters
    ----------
    progress
        Receives one line if anything must be compiled.
    """
    started = time.monotonic()
    from sfumato.secure.logarithm import log
    from sfumato.secure.scalar import scalar_product
    from sfumato.secure.session import Session, together
    from sfumato.secure.sharing import Ring, private

    def party(session: Session) -> None:
        for ring in (Ring.power_of_two(64), Ring.odd((1 << 60) - 93)):
            numbers = private(ring, [3, 4])
            log(session, numbers, bits=10)
            scalar_product(session, np.ones(64, bool), ring=Ring.power_of_two(32))

    with _said_when_compiling(progress):
        together(party, party, program="warm-up")
    return time.monotonic() - started


@contextlib.contextmanager
def _said_when_compiling(progress: Callable[[str], None] | None) -> Iterator[None]:
    """Say once that it takes a while, as soon as a kernel is not found on disk."""
    if progress is None:
        yield
        return
    from numba.core import event

    left = [progress]

    class FirstCompiled(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: object) -> None:
            if left:
                left.pop()("preparing compiled code (once on this machine, up to half a minute)")

        def on_end(self, event: object) -> None:
            """Nothing more to say."""

    with event.install_listener("numba:compile", FirstCompiled()):
        yield


def _key(key: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(key & _MASK), np.uint64(key >> 64)


def _shifted(key: int, offset: int) -> int:
    return (key + offset) % (1 << 128)


def _colour(labels: Words) -> Words:
    return (np.uint64(0) - (labels[:, :1] & np.uint64(1))).astype(np.uint64)


def _aes_blocks(key: bytes, blocks: Words) -> Words:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError as error:
        raise MissingExtraError("secure", "secure computation") from error

    encrypted = (
        Cipher(algorithms.AES(key), modes.ECB())
        .encryptor()
        .update(np.ascontiguousarray(blocks).tobytes())
    )
    return np.frombuffer(encrypted, np.uint64).reshape(blocks.shape)
