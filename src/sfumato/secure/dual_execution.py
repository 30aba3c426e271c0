"""A logarithm that a cheating party can neither falsify nor, but for one bit, look behind.

*Dual execution* (Mohassel & Franklin 2006; Huang, Katz & Evans 2012): both run the circuit twice,
each garbling once, so each learns the result from tables of the other's making. Before anybody
believes it they compare H(labels of my result in my own tables, labels I got in the other's). The
two hashes are equal only if both runs gave the same result: of what the honest side garbled a
cheater knows the labels of the true result alone. So a circuit that computes something else is
noticed, unless it gives the same: whether it does is the one bit that a cheater may learn, once for
all numbers together. It needs transfers that hold against cheaters, which are checked.

Everything must happen inside one circuit. The logarithm there is a table: 128 chords of
ln(1 + f), chosen by the first seven bits after the leading one; a table costs 128 AND gates however
many bits its entries have, since garbled XOR is free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure.circuit import ZERO, Builder, Circuit, Word, constant
from sfumato.secure.garbling import Bits, Words, evaluate_circuit, garble_circuit
from sfumato.secure.shares import Ring

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["log_opened", "log_opened_error", "run_twice"]

_FRACTION_BITS = 20
_CHORD_BITS, _REST_BITS, _SLOPE_BITS = 7, 9, 10
"""Bits of f that choose a chord; bits of f along it; bits of its slope."""
_DROPPED = _SLOPE_BITS + _CHORD_BITS + _REST_BITS - _FRACTION_BITS
_LEAST_BITS, _MOST_BITS = _CHORD_BITS + _REST_BITS + 1, 63


def log_opened(session: Session, mine: Sequence[int], *, bits: int) -> NDArray[np.float64]:
    """Logarithms of sums of which each side knows one part, known to both.

    A party that does not follow the protocol is caught, and learns at most one bit beyond the
    result.

    Parameters
    ----------
    mine
        My part of each sum.
    bits
        Every sum is below 2^bits.

    Examples
    --------
    >>> from sfumato.secure import together
    >>> def party(session):
    ...     return log_opened(session, [600 if session.is_alice else 400], bits=20).round(3)
    >>> [float(found[0]) for found in together(party, party)]  # ln 1000
    [6.908, 6.908]
    """
    if not _LEAST_BITS <= bits <= _MOST_BITS:
        raise ParameterError(
            f"sums of {bits} bits cannot be worked on", remedy=f"Use {_LEAST_BITS} to {_MOST_BITS}."
        )
    ring = Ring.power_of_two(64)
    session.begin("log, opened", bits=bits, n=len(mine))
    inputs = ring.to_bits(ring.encode(mine), bits).T
    found = run_twice(session, _circuit(bits), inputs, n=len(mine))
    session.note_learned("both", "the logarithms of the sums")
    weights = 2.0 ** (np.arange(len(found)) - _FRACTION_BITS)
    numbers: NDArray[np.float64] = weights @ found
    return numbers


def log_opened_error(bits: int) -> float:
    """The bound on |result - ln x| of `log_opened`.

    Examples
    --------
    >>> log_opened_error(40) < 2e-5
    True
    """
    return _chords()[2] + 0.5 * 2.0**-_FRACTION_BITS


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


@lru_cache(maxsize=1)
def _chords() -> tuple[list[int], list[int], float]:
    """Starts (at 2^20) and slopes (at 2^10) of the chords, and how far off they are at most.

    The start is such that errors are centred: of the chord, of cutting f off after sixteen bits,
    and of cutting the product off.
    """
    rest = np.arange(1 << _REST_BITS)
    starts, slopes, worst = [], [], 0.0
    for chord in range(1 << _CHORD_BITS):
        f = (chord * len(rest) + rest) / (len(rest) << _CHORD_BITS)
        low, high = np.log1p(f), np.log1p(f + 1 / (len(rest) << _CHORD_BITS))
        slope = round(float(high[-1] - low[0]) * (1 << (_CHORD_BITS + _SLOPE_BITS)))
        rise = (slope * rest >> _DROPPED) / (1 << _FRACTION_BITS)
        middle = float((low - rise).min() + (high - rise).max()) / 2
        start = round(middle * (1 << _FRACTION_BITS))
        made = start / (1 << _FRACTION_BITS) + rise
        worst = max(worst, float((high - made).max()), float((made - low).max()))
        starts.append(start)
        slopes.append(slope)
    return starts, slopes, worst


@lru_cache(maxsize=8)
def _circuit(bits: int) -> Circuit:
    """ln of the sum of two numbers at the scale 2^20: places · ln 2 + start + slope · rest."""
    builder = Builder()
    x = builder.reconstruct(Ring.power_of_two(64), bits)
    value, zeros = builder.leading_one(x, _CHORD_BITS + _REST_BITS + 1)
    rest = value[bits - 1 - _CHORD_BITS - _REST_BITS : bits - 1 - _CHORD_BITS]
    chord = value[bits - 1 - _CHORD_BITS : bits - 1]
    starts, slopes, _ = _chords()
    scale = 1 << _FRACTION_BITS
    places = [round((bits - 1 - z) * float(np.log(2)) * scale) for z in range(bits)]
    lines = _lines(builder, chord, len(starts))
    slope = _looked_up(builder, lines, slopes)
    rise = _product(builder, slope, rest)[_DROPPED:]
    width = (round(bits * float(np.log(2)) * scale) + scale // 1000).bit_length()
    total = constant(0, width)
    for word in (
        _looked_up(builder, _lines(builder, zeros, bits), places),
        _looked_up(builder, lines, starts),
        rise,
    ):
        total, _ = builder.add(total, [*word, *([ZERO] * (width - len(word)))])
    return builder.finish(total)


def _lines(builder: Builder, index: Word, count: int) -> Word:
    """A wire for each of the first `count` values of a number: one where it has that value."""
    if len(index) == 1:
        return [builder.invert(index[0]), index[0]][:count]
    half = len(index) // 2
    low = _lines(builder, index[:half], 1 << half)
    high = _lines(builder, index[half:], -(-count >> half))
    return [builder.both(a, b) for b in high for a in low][:count]


def _looked_up(builder: Builder, lines: Word, table: Sequence[int]) -> Word:
    """The entry of the line that is one: XOR alone."""
    out = []
    for bit in range(max(table).bit_length()):
        wire = ZERO
        for line, entry in zip(lines, table, strict=True):
            if entry >> bit & 1:
                wire = builder.xor(wire, line)
        out.append(wire)
    return out


def _product(builder: Builder, a: Word, b: Word) -> Word:
    """a · b, by adding up shifted copies."""
    width = len(a) + len(b)
    total = constant(0, width)
    for place, bit in enumerate(b):
        row = [builder.both(bit, wire) for wire in a]
        part, carry = builder.add(total[place : place + len(a)], row)
        total[place : place + len(a) + 1] = [*part, carry]
    return total
