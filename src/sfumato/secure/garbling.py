"""Yao's garbled circuits: hashing and garbling engines, and the protocol that runs a circuit.

Two engines, compiled AES-NI (`_aes`) and numpy with OpenSSL, give the same bytes, so a party with
the instructions and one without can work together.

In the protocol (`run_circuit`) Alice garbles and Bob evaluates a whole batch of instances. Bob's
input labels come by oblivious transfer, Alice's from a seed. The result stays shared between the
two (each output bit is the exclusive or of Alice's and Bob's bit) unless it is to be opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, ParameterError
from sfumato.secure.circuit import NOT, XOR, Circuit
from sfumato.secure.oblivious_transfer import AHEAD, ROWS_A_KEY, hashed

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = [
    "CompiledEngine",
    "Engine",
    "Outputs",
    "PortableEngine",
    "choose",
    "evaluate_circuit",
    "garble_circuit",
    "run_circuit",
]

Bits = NDArray[np.uint8]
Words = NDArray[np.uint64]
_BATCH = 256
"""Instances garbled together: their labels stay in the cache."""
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
        """H(labels[i] xor delta; key + i // 4096, i % 4096) for every i."""

    def combine(self, rows: Words, weights: Words, low: Words, high: Words) -> None:
        """Add Σ_w rows[r, w] · weights[w], carry-less products of 128 bits, to (high, low)[r]."""

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
        """Hash every label, 4,096 under a key."""
        low, high = (np.uint64(0), np.uint64(0)) if delta is None else (delta[0], delta[1])
        rows = np.ascontiguousarray(labels)  # the kernel walks over memory, not over strides
        out = np.empty_like(rows)
        self._aes.hash_rows(rows, *_key(key), low, high, out, ROWS_A_KEY)
        return out

    def combine(self, rows: Words, weights: Words, low: Words, high: Words) -> None:
        """By the processor's carry-less multiplication."""
        self._aes.combine(rows, weights, low, high)

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
        """Hash every label, 4,096 under a key."""
        shifted = labels if delta is None else labels ^ delta
        mixed = np.empty_like(shifted)
        tweaks = np.arange(len(labels), dtype=np.uint64) % np.uint64(ROWS_A_KEY)
        mixed[:, 0] = shifted[:, 1] ^ tweaks
        mixed[:, 1] = shifted[:, 0] ^ shifted[:, 1]
        encrypted: Words = np.empty_like(mixed)
        for number, start in enumerate(range(0, len(mixed), ROWS_A_KEY)):
            part = slice(start, start + ROWS_A_KEY)
            encrypted[part] = _aes_blocks(_shifted(key, number).to_bytes(16, "little"), mixed[part])
        return encrypted ^ mixed

    def combine(self, rows: Words, weights: Words, low: Words, high: Words) -> None:
        """Bit by bit."""
        for bit in range(64):
            chosen = np.uint64(0) - ((weights >> np.uint64(bit)) & np.uint64(1))
            words = np.bitwise_xor.reduce(rows & chosen, axis=1)
            low ^= words << np.uint64(bit)
            if bit:
                high ^= words >> np.uint64(64 - bit)

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


# Yao's protocol


def run_circuit(
    session: Session, circuit: Circuit, inputs: Any, *, n: int, reveal: str | None = None
) -> Bits:
    """Run `circuit` on n instances.

    Parameters
    ----------
    inputs
        My input bits, uint8[my inputs, n].
    reveal
        ``"both"`` or ``"bob"``: open the outputs to them instead of leaving them shared.

    Returns
    -------
    uint8[outputs, n]
        My shares of the output bits, or the bits themselves.
    """
    mine = np.ascontiguousarray(inputs, np.uint8)
    wanted = len(circuit.alice_slots if session.is_alice else circuit.bob_slots)
    if mine.shape != (wanted, n):
        raise ParameterError(f"this circuit takes {wanted} input bits for each of {n} instances")
    session.begin("circuit", digest=circuit.digest, n=n, reveal=reveal)
    session.and_gates += circuit.and_gates * n
    with session.overlapping(len(circuit.bob_slots) * n):
        run = garble_circuit if session.is_alice else evaluate_circuit
        outputs = run(session, circuit, mine, n).colours
    if reveal is None:
        return outputs
    packed = np.packbits(outputs.reshape(-1))
    if session.is_alice or reveal == "both":
        session.channel.send("circuit: outputs", packed)
    if session.is_alice and reveal == "bob":
        return np.zeros_like(outputs)
    theirs = np.frombuffer(session.channel.receive("circuit: outputs", len(packed)), np.uint8)
    opened: Bits = outputs ^ np.unpackbits(theirs, count=outputs.size).reshape(outputs.shape)
    if reveal == "both":
        session.note_opened(opened.tobytes())
    return opened


@dataclass(frozen=True)
class Outputs:
    """What one side holds of a circuit's outputs.

    Parameters
    ----------
    colours
        Shares of the output bits, uint8[outputs, n].
    labels
        Labels, uint64[outputs, n, 2]: of zero for who garbled, the active ones for who evaluated.
        Constant outputs have none.
    delta
        What a label of one differs by; None for who evaluated.
    """

    colours: Bits
    labels: Words
    delta: Words | None = None

    @classmethod
    def empty(cls, circuit: Circuit, n: int, delta: Words | None = None) -> Outputs:
        """Room for all instances."""
        wires = len(circuit.output_slots)
        return cls(np.empty((wires, n), np.uint8), np.empty((wires, n, 2), np.uint64), delta)

    def take(self, circuit: Circuit, part: slice, wires: Words, *, one: int) -> None:
        """What some instances ended with; `one` is the share of a constant one."""
        self.labels[:, part] = wires[np.maximum(circuit.output_slots, 0)]
        self.labels[circuit.output_slots < 0, part] = 0
        colours = (wires[:, :, 0] & np.uint64(1)).astype(np.uint8)
        self.colours[:, part] = circuit.pick(colours, one=one)


def garble_circuit(session: Session, circuit: Circuit, mine: Bits, n: int) -> Outputs:
    """Alice's side of a circuit."""
    delta = np.frombuffer(os.urandom(16), np.uint64).copy()
    delta[0] |= np.uint64(1)  # the lowest bit of a label is its colour
    outputs = Outputs.empty(circuit, n, delta)
    his = len(circuit.bob_slots)
    for asked in _parts(n, his):
        start = asked[0].start
        q = session.ot_sender.extend(his * (asked[-1].stop - start))
        for part in asked:
            count = part.stop - part.start
            wires = np.empty((circuit.slots, count, 2), np.uint64)
            seed = os.urandom(16)
            active = _labels(session, seed, len(mine), count)
            wires[circuit.alice_slots] = active ^ (_spread(mine[:, part]) & delta)
            keys = q[(part.start - start) * his : (part.stop - start) * his]
            zero, one = hashed(session, keys)
            correction = zero ^ one ^ delta
            wires[circuit.bob_slots] = zero.reshape(count, his, 2).transpose(1, 0, 2)
            tables = session.engine.garble(
                circuit, wires, delta, session.hash_keys(2 * circuit.and_gates)
            )
            session.channel.send("circuit: labels", seed + correction.tobytes())
            session.channel.send("circuit: tables", tables)
            outputs.take(circuit, part, wires, one=1)
        session.progress("circuits", asked[-1].stop / n)
    return outputs


def evaluate_circuit(session: Session, circuit: Circuit, mine: Bits, n: int) -> Outputs:
    """Bob's side of a circuit."""
    outputs = Outputs.empty(circuit, n)
    his = len(mine)
    plan = _parts(n, his)
    # Bob's choices run one group ahead: Alice garbles while Bob evaluates.
    bits = (
        np.ascontiguousarray(mine[:, asked[0].start : asked[-1].stop].T).reshape(-1)
        for asked in plan
    )
    for asked, (choices, t) in zip(plan, session.ot_receiver.ahead(bits), strict=True):
        start = asked[0].start
        for part in asked:
            count = part.stop - part.start
            lines = slice((part.start - start) * his, (part.stop - start) * his)
            raw = session.channel.receive("circuit: labels", 16 + 16 * his * count)
            correction = np.frombuffer(raw, np.uint64, offset=16).reshape(-1, 2)
            wires = np.empty((circuit.slots, count, 2), np.uint64)
            wires[circuit.alice_slots] = _labels(
                session, bytes(raw[:16]), len(circuit.alice_slots), count
            )
            (got,) = hashed(session, t[lines])
            got ^= _spread(choices[lines]) & correction
            wires[circuit.bob_slots] = got.reshape(count, his, 2).transpose(1, 0, 2)
            key = session.hash_keys(2 * circuit.and_gates)
            size = circuit.and_gates * 2 * count * 16
            tables = np.frombuffer(session.channel.receive("circuit: tables", size), np.uint64)
            session.engine.evaluate(
                circuit, wires, tables.reshape(circuit.and_gates, 2, count, 2), key
            )
            outputs.take(circuit, part, wires, one=0)
        session.progress("circuits", asked[-1].stop / n)
    return outputs


def _labels(session: Session, seed: bytes, inputs: int, count: int) -> Words:
    """Alice's active labels: uniformly random, so a seed of sixteen bytes says them all."""
    schedule = session.engine.schedule(np.frombuffer(seed, np.uint64).reshape(1, 2))
    out = np.empty((1, 2 * inputs * count), np.uint64)
    session.engine.stream(schedule, 0, out)
    return out.reshape(inputs, count, 2)


def _spread(bits: Bits) -> Words:
    """All ones where the bit is one, with an axis for the two words of a label."""
    return (np.uint64(0) - bits.astype(np.uint64))[..., None]


def _parts(n: int, inputs: int) -> list[list[slice]]:
    """Batches of instances, in groups for which Bob's transfers are asked together."""
    batches = [slice(i, min(i + _BATCH, n)) for i in range(0, n, _BATCH)]
    together = max(1, AHEAD // max(1, _BATCH * inputs))
    return [batches[i : i + together] for i in range(0, len(batches), together)]
