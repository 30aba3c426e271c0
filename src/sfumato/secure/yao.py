"""Yao's protocol: run a circuit on inputs of both parties, for a whole batch of instances.

Alice garbles, Bob evaluates. Bob's input labels come by oblivious transfer, Alice's from a seed.
The result stays shared between the two (each output bit is the exclusive or of Alice's and Bob's
bit) unless it is to be opened.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure.circuit import Circuit

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["run"]

Bits = NDArray[np.uint8]
Words = NDArray[np.uint64]
_BATCH = 256
"""Instances garbled together: their labels stay in the cache."""
_AHEAD = 1 << 18
"""Transfers Bob asks for in one go."""


def run(
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
        outputs = (
            _garble(session, circuit, mine, n)
            if session.is_alice
            else _evaluate(session, circuit, mine, n)
        )
    if reveal is None:
        return outputs
    packed = np.packbits(outputs.reshape(-1))
    if session.is_alice or reveal == "both":
        session.channel.send("circuit: outputs", packed)
    if session.is_alice and reveal == "bob":
        return np.zeros_like(outputs)
    theirs = np.frombuffer(session.channel.receive("circuit: outputs", len(packed)), np.uint8)
    return outputs ^ np.unpackbits(theirs, count=outputs.size).reshape(outputs.shape)


def _garble(session: Session, circuit: Circuit, mine: Bits, n: int) -> Bits:
    delta = np.frombuffer(os.urandom(16), np.uint64).copy()
    delta[0] |= np.uint64(1)  # the lowest bit of a label is its colour
    outputs = np.empty((len(circuit.output_slots), n), np.uint8)
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
            zero, correction = _offer(session, keys, delta)
            wires[circuit.bob_slots] = zero.reshape(count, his, 2).transpose(1, 0, 2)
            tables = session.engine.garble(
                circuit, wires, delta, session.hash_keys(2 * circuit.and_gates)
            )
            session.channel.send("circuit: labels", seed + correction.tobytes())
            session.channel.send("circuit: tables", tables)
            colours = (wires[:, :, 0] & np.uint64(1)).astype(np.uint8)
            outputs[:, part] = circuit.pick(colours)
        session.progress("circuits", asked[-1].stop / n)
    return outputs


def _evaluate(session: Session, circuit: Circuit, mine: Bits, n: int) -> Bits:
    outputs = np.empty((len(circuit.output_slots), n), np.uint8)
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
            got = session.engine.hash(t[lines], session.hash_keys(1))
            got ^= _spread(choices[lines]) & correction
            wires[circuit.bob_slots] = got.reshape(count, his, 2).transpose(1, 0, 2)
            key = session.hash_keys(2 * circuit.and_gates)
            size = circuit.and_gates * 2 * count * 16
            tables = np.frombuffer(session.channel.receive("circuit: tables", size), np.uint64)
            session.engine.evaluate(
                circuit, wires, tables.reshape(circuit.and_gates, 2, count, 2), key
            )
            colours = (wires[:, :, 0] & np.uint64(1)).astype(np.uint8)
            outputs[:, part] = circuit.pick(colours, one=0)
        session.progress("circuits", asked[-1].stop / n)
    return outputs


def _offer(session: Session, keys: Words, delta: Words) -> tuple[Words, Words]:
    """Labels of zero for Bob's inputs, and what turns his hash into the label of his bit."""
    key = session.hash_keys(1)
    zero = session.engine.hash(keys, key)
    one = session.engine.hash(keys, key, delta=session.ot_sender.delta)
    return zero, zero ^ one ^ delta


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
    together = max(1, _AHEAD // max(1, _BATCH * inputs))
    return [batches[i : i + together] for i in range(0, len(batches), together)]
