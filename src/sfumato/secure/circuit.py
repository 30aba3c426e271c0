"""Boolean circuits for two parties: a builder that folds and prunes, and the program it makes.

XOR and NOT are free in garbling, an AND costs two ciphertexts, so the builder counts ANDs: it
folds constants, shares common gates and drops what no output needs. The finished `Circuit` is a
straight line of gates over a small set of reusable slots, so that a batch stays in the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.secure.shares import Ring


XOR, NOT, AND = 0, 1, 2
ZERO, ONE = -1, -2
Word = list[int]
"""Wires of a number, the lowest bit first; `ZERO` and `ONE` are constants."""


def constant(value: int, bits: int) -> Word:
    """A number known to both; negative numbers in two's complement."""
    return [ONE if value >> i & 1 else ZERO for i in range(bits)]


@dataclass(frozen=True, eq=False)
class Circuit:
    """A pruned circuit with its slots assigned.

    Examples
    --------
    >>> builder = Builder()
    >>> a, b = builder.alice(2), builder.bob(2)
    >>> circuit = builder.finish([builder.both(x, y) for x, y in zip(a, b)])
    >>> circuit.and_gates, circuit.plain([[1], [1]], [[0], [1]]).tolist()
    (2, [[0], [1]])
    """

    program: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
    """Kind, left slot, right slot and target slot of every gate."""
    slots: int
    alice_slots: NDArray[np.int64]
    bob_slots: NDArray[np.int64]
    output_slots: NDArray[np.int64]
    """Slot of every output bit; -1 and -2 are the constants zero and one."""
    and_gates: int
    free_gates: int
    depth: int
    """Largest number of ANDs on a path."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the circuit: what two parties compare before they run it."""
        parts = (*self.program, self.alice_slots, self.bob_slots, self.output_slots)
        joined = b"".join(np.asarray(part, np.int64).tobytes() + b"|" for part in parts)
        return hashlib.sha256(joined).hexdigest()

    def plain(self, alice: Any, bob: Any) -> NDArray[np.uint8]:
        """Evaluate in the clear, for many instances: uint8[inputs, n] to uint8[outputs, n]."""
        mine, theirs = np.asarray(alice, np.uint8), np.asarray(bob, np.uint8)
        n = max(mine.shape[1] if mine.size else 0, theirs.shape[1] if theirs.size else 0)
        wires = np.zeros((self.slots, n), np.uint8)
        if len(self.alice_slots):
            wires[self.alice_slots] = mine
        if len(self.bob_slots):
            wires[self.bob_slots] = theirs
        for kind, left, right, target in zip(*self.program, strict=True):
            if kind == XOR:
                wires[target] = wires[left] ^ wires[right]
            elif kind == NOT:
                wires[target] = wires[left] ^ 1
            else:
                wires[target] = wires[left] & wires[right]
        return self.pick(wires)

    def pick(self, wires: NDArray[np.uint8], *, one: int = 1) -> NDArray[np.uint8]:
        """The output bits among `wires` (uint8[slots, n]); `one` stands for the constant."""
        out = wires[np.maximum(self.output_slots, 0)]
        out[self.output_slots == ZERO] = 0
        out[self.output_slots == ONE] = one
        return out

    def __str__(self) -> str:
        return (
            f"{self.and_gates} AND, {self.free_gates} XOR/NOT, depth {self.depth}, "
            f"{len(self.alice_slots)} + {len(self.bob_slots)} inputs, "
            f"{len(self.output_slots)} outputs"
        )


class Builder:
    """Collects gates; wires are numbers, words are lists of wires."""

    def __init__(self) -> None:
        self._gates: list[tuple[int, int, int, int]] = []
        self._known: dict[tuple[int, int, int], int] = {}
        self._wires = 0
        self._alice: Word = []
        self._bob: Word = []

    def alice(self, bits: int) -> Word:
        """Input wires that Alice sets."""
        wires = [self._new() for _ in range(bits)]
        self._alice += wires
        return wires

    def bob(self, bits: int) -> Word:
        """Input wires that Bob sets."""
        wires = [self._new() for _ in range(bits)]
        self._bob += wires
        return wires

    def xor(self, a: int, b: int) -> int:
        """a ≠ b; free."""
        if a == b:
            return ZERO
        if ZERO in (a, b):
            return a if b == ZERO else b
        if ONE in (a, b):
            return self.invert(a if b == ONE else b)
        return self._gate(XOR, min(a, b), max(a, b))

    def invert(self, a: int) -> int:
        """Not a; free."""
        if a in (ZERO, ONE):
            return ONE if a == ZERO else ZERO
        known = (NOT, a, a)
        if known not in self._known:
            self._known[(NOT, self._gate(NOT, a, a), self._known[known])] = a
        return self._known[known]

    def both(self, a: int, b: int) -> int:
        """a and b; one AND gate."""
        if ZERO in (a, b):
            return ZERO
        if ONE in (a, b):
            return a if b == ONE else b
        if a == b:
            return a
        return self._gate(AND, min(a, b), max(a, b))

    def either(self, a: int, b: int) -> int:
        """a or b; one AND gate."""
        return self.xor(self.xor(a, b), self.both(a, b))

    def choose(self, condition: int, yes: int, no: int) -> int:
        """yes if condition else no; one AND gate."""
        return self.xor(no, self.both(condition, self.xor(yes, no)))

    # Words

    def add(self, a: Word, b: Word, carry: int = ZERO) -> tuple[Word, int]:
        """a + b and the carry; one AND a bit."""
        out = []
        for x, y in zip(a, b, strict=True):
            moved = self.xor(y, carry)
            out.append(self.xor(x, moved))
            carry = self.xor(carry, self.both(self.xor(x, carry), moved))
        return out, carry

    def subtract(self, a: Word, b: Word) -> tuple[Word, int]:
        """a - b, and a wire that is one if a >= b; one AND a bit."""
        return self.add(a, [self.invert(y) for y in b], ONE)

    def less_than(self, a: Word, b: Word) -> int:
        """a < b, unsigned; one AND a bit."""
        return self.invert(self.subtract(a, b)[1])

    def choose_word(self, condition: int, yes: Word, no: Word) -> Word:
        """yes if condition else no; one AND a bit."""
        return [self.choose(condition, y, n) for y, n in zip(yes, no, strict=True)]

    def look_up(self, index: Word, table: Sequence[int]) -> Word:
        """The entry of a public table at an index below its length; one choice a bit and pair."""
        bits = max(table).bit_length()
        entries = [constant(value, bits) for value in table]
        for wire in index:
            # what has no neighbour is only reached where this bit of the index is zero
            entries = [
                self.choose_word(wire, entries[i + 1], entries[i]) if i + 1 < len(entries)
                else entries[i]
                for i in range(0, len(entries), 2)
            ]  # fmt: skip
        return entries[0]

    def add_modulo(self, a: Word, b: Word, ring: Ring) -> Word:
        """a + b modulo the ring's modulus, for a and b below it; one AND a bit, three if odd."""
        total, carry = self.add(a, b)
        if ring.is_power_of_two:
            return total
        total = [*total, carry]
        reduced, fits = self.subtract(total, constant(ring.modulus, ring.bits + 1))
        return self.choose_word(fits, reduced, total)[: ring.bits]

    def subtract_modulo(self, a: Word, b: Word, ring: Ring) -> Word:
        """a - b modulo the ring's modulus, for a and b below it; one AND a bit, two if odd."""
        difference, fits = self.subtract(a, b)
        if ring.is_power_of_two:
            return difference
        below = self.invert(fits)
        back = [self.both(below, bit) for bit in constant(ring.modulus, ring.bits)]
        return self.add(difference, back)[0]

    def reconstruct(self, ring: Ring, used: int | None = None) -> Word:
        """The lowest `used` bits of a number shared in the ring; both sides give their shares.

        Modulo 2^L the lower bits depend on the lower bits of the shares alone, so only those enter.
        """
        used = ring.bits if used is None else used
        taken = used if ring.is_power_of_two else ring.bits
        a, b = self.alice(taken), self.bob(taken)
        if ring.is_power_of_two:
            return self.add(a, b)[0]
        return self.add_modulo(a, b, ring)[:used]

    def wrapped(self, a: Word, b: Word, ring: Ring) -> int:
        """Whether the ordinary sum a + b reaches the modulus; one AND a bit, two if odd."""
        total, carry = self.add(a, b)
        if ring.is_power_of_two:
            return carry
        return self.subtract([*total, carry], constant(ring.modulus, ring.bits + 1))[1]

    def leading_one(self, x: Word, keep: int) -> tuple[Word, Word]:
        """Shift x left until its top bit is one, and count the places.

        Returns the shifted word, of which only the top `keep` bits are made, and the number of
        leading zeros in binary. A logarithmic shifter: if the top 2^j bits are all zero, shift by
        2^j, for j falling. Zero stays zero.
        """
        width = len(x)
        steps = max(1, (width - 1).bit_length())
        value = list(x)
        places: Word = [ZERO] * steps
        for j in reversed(range(steps)):
            distance = 1 << j
            if distance >= width:
                continue
            occupied = ZERO
            for wire in value[width - distance :]:
                occupied = self.either(occupied, wire)
            places[j] = self.invert(occupied)
            # Bits that later shifts cannot bring into the top `keep` places are not needed.
            lowest = max(0, width - keep - (distance - 1))
            shifted = [value[i - distance] if i >= distance else ZERO for i in range(width)]
            value = [
                self.choose(places[j], shifted[i], value[i]) if i >= lowest else ZERO
                for i in range(width)
            ]
        return value, places

    def smallest(self, words: list[Word]) -> Word:
        """Index of the smallest word, unsigned; the first of equals. A knock-out tournament."""
        bits = max(1, (len(words) - 1).bit_length())
        field = [(word, constant(i, bits)) for i, word in enumerate(words)]
        while len(field) > 1:
            winners = []
            for (a, index_a), (b, index_b) in zip(field[::2], field[1::2], strict=False):
                second = self.less_than(b, a)
                winners.append(
                    (self.choose_word(second, b, a), self.choose_word(second, index_b, index_a))
                )
            if len(field) % 2:
                winners.append(field[-1])
            field = winners
        return field[0][1]

    # The finished circuit

    def finish(self, outputs: Sequence[int]) -> Circuit:
        """Drop gates that no output needs, and give the rest slots to live in."""
        if not outputs:
            raise ParameterError("a circuit without outputs computes nothing")
        gates = self._needed(outputs)
        last_use = {wire: len(gates) for wire in outputs}
        for number, (_, a, b, _) in enumerate(gates):
            for wire in (a, b):
                last_use[wire] = max(number, last_use.get(wire, number))
        slot = {wire: i for i, wire in enumerate([*self._alice, *self._bob])}
        free: list[int] = []
        slots = len(slot)
        program = np.empty((4, len(gates)), np.int64)
        level: dict[int, int] = {}
        for number, (kind, a, b, out) in enumerate(gates):
            if free:
                slot[out] = free.pop()
            else:
                slot[out] = slots
                slots += 1
            program[:, number] = kind, slot[a], slot[b], slot[out]
            level[out] = max(level.get(a, 0), level.get(b, 0)) + (kind == AND)
            free += [slot[wire] for wire in {a, b} if last_use[wire] == number]
        ands = sum(gate[0] == AND for gate in gates)
        return Circuit(
            program=(program[0], program[1], program[2], program[3]),
            slots=slots,
            alice_slots=np.array([slot[w] for w in self._alice], np.int64),
            bob_slots=np.array([slot[w] for w in self._bob], np.int64),
            output_slots=np.array([slot[w] if w >= 0 else w for w in outputs], np.int64),
            and_gates=ands,
            free_gates=len(gates) - ands,
            depth=max(level.values(), default=0),
        )

    def _needed(self, outputs: Sequence[int]) -> list[tuple[int, int, int, int]]:
        alive = set(outputs)
        kept = []
        for gate in reversed(self._gates):
            if gate[3] in alive:
                alive |= {gate[1], gate[2]}
                kept.append(gate)
        return kept[::-1]

    def _gate(self, kind: int, a: int, b: int) -> int:
        known = (kind, a, b)
        if known not in self._known:
            out = self._new()
            self._gates.append((kind, a, b, out))
            self._known[known] = out
        return self._known[known]

    def _new(self) -> int:
        self._wires += 1
        return self._wires - 1
