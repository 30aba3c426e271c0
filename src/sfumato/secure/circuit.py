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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

__all__ = ["AND", "NOT", "ONE", "XOR", "ZERO", "Builder", "Circuit", "Word"]

XOR, NOT, AND = 0, 1, 2
ZERO, ONE = -1, -2
Word = list[int]
"""Wires of a number, the lowest bit first; `ZERO` and `ONE` are constants."""


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
