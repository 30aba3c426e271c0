"""Yao's garbled circuits: the protocol that runs a circuit, once or twice.

In the protocol (`run_circuit`) Alice garbles and Bob evaluates a whole batch of instances. Bob's
input labels come by oblivious transfer, Alice's from a seed. The result stays shared between the
two (each output bit is the exclusive or of Alice's and Bob's bit) unless it is to be opened.

*Dual execution* (`run_twice`; Mohassel & Franklin 2006; Huang, Katz & Evans 2012): both run the
circuit twice, each garbling once, so each learns the result from tables of the other's making.
Before anybody believes it they compare H(labels of my result in my own tables, labels I got in the
other's). The two hashes are equal only if both runs gave the same result: of what the honest side
garbled a cheater knows the labels of the true result alone. So a circuit that computes something
else is noticed, unless it gives the same: whether it does is the one bit that a cheater may learn,
once for all numbers together. It needs transfers that hold against cheaters, which are checked.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.secure.aes import Bits, Words
from sfumato.secure.circuit import Circuit
from sfumato.secure.oblivious_transfer import AHEAD, hashed

if TYPE_CHECKING:
    from sfumato.secure.session import Session


_BATCH = 256
"""Instances garbled together: their labels stay in the cache."""


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


def run_twice(session: Session, circuit: Circuit, inputs: Any, *, n: int) -> Bits:
    """Run `circuit` with either side garbling, and open its outputs only if both runs agree.

    Parameters
    ----------
    circuit
        Symmetric: it takes as many bits of Alice's as of Bob's and does not care whose are whose.
    inputs
        My input bits, uint8[my inputs, n].

    Returns
    -------
    uint8[outputs, n]
        The output bits.
    """
    mine = np.ascontiguousarray(inputs, np.uint8)
    session.begin("circuit, twice", digest=circuit.digest, n=n)
    exchanged = session.mirrored()
    for run in (session, exchanged):
        with run.overlapping(len(circuit.bob_slots) * n):
            if run.is_alice:
                offered = garble_circuit(run, circuit, mine, n)
                colours = np.packbits(offered.colours.reshape(-1))
                session.channel.send("circuit: colours", colours)
            else:
                got = evaluate_circuit(run, circuit, mine, n)
                size = (got.colours.size + 7) // 8
                raw = np.frombuffer(session.channel.receive("circuit: colours", size), np.uint8)
                theirs = np.unpackbits(raw, count=got.colours.size).reshape(got.colours.shape)
                result: Bits = got.colours ^ theirs
    session.absorb(exchanged)
    session.and_gates += 2 * circuit.and_gates * n
    assert offered.delta is not None
    own = offered.labels ^ (result.astype(np.uint64)[..., None] * offered.delta)
    wires = circuit.output_slots >= 0  # constants have no labels
    _compare(session, own[wires], got.labels[wires])
    session.note_opened(result.tobytes())
    return result


def _compare(session: Session, own: Words, got: Words) -> None:
    """Whether both runs gave the same: labels of Alice's tables first, then of Bob's."""
    first, second = (own, got) if session.is_alice else (got, own)
    digest = hashlib.sha256(first.tobytes() + second.tobytes()).digest()
    if session.sealed_exchange("circuit: comparison", digest) != digest:
        session.refuse("garbled another circuit or changed its numbers", "circuit: comparison")
