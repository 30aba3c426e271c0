"""Arithmetic in circuits: words of wires, lowest bit first; the cost in ANDs stands beside each."""

from __future__ import annotations

from sfumato.secure.circuit import ONE, ZERO, Builder, Word
from sfumato.secure.sharing import Ring

__all__ = [
    "add",
    "add_modulo",
    "choose",
    "constant",
    "leading_one",
    "less_than",
    "reconstruct",
    "shift_right",
    "smallest",
    "subtract",
    "subtract_modulo",
    "wrapped",
]


def constant(value: int, bits: int) -> Word:
    """A number known to both; negative numbers in two's complement."""
    return [ONE if value >> i & 1 else ZERO for i in range(bits)]


def add(builder: Builder, a: Word, b: Word, carry: int = ZERO) -> tuple[Word, int]:
    """a + b and the carry; one AND a bit."""
    out = []
    for x, y in zip(a, b, strict=True):
        moved = builder.xor(y, carry)
        out.append(builder.xor(x, moved))
        carry = builder.xor(carry, builder.both(builder.xor(x, carry), moved))
    return out, carry


def subtract(builder: Builder, a: Word, b: Word) -> tuple[Word, int]:
    """a - b, and a wire that is one if a >= b; one AND a bit."""
    return add(builder, a, [builder.invert(y) for y in b], ONE)


def less_than(builder: Builder, a: Word, b: Word) -> int:
    """a < b, unsigned; one AND a bit."""
    return builder.invert(subtract(builder, a, b)[1])


def choose(builder: Builder, condition: int, yes: Word, no: Word) -> Word:
    """yes if condition else no; one AND a bit."""
    return [builder.choose(condition, y, n) for y, n in zip(yes, no, strict=True)]


def add_modulo(builder: Builder, a: Word, b: Word, ring: Ring) -> Word:
    """a + b modulo the ring's modulus, for a and b below it; one AND a bit, three if odd."""
    total, carry = add(builder, a, b)
    if ring.is_power_of_two:
        return total
    total = [*total, carry]
    reduced, fits = subtract(builder, total, constant(ring.modulus, ring.bits + 1))
    return choose(builder, fits, reduced, total)[: ring.bits]


def subtract_modulo(builder: Builder, a: Word, b: Word, ring: Ring) -> Word:
    """a - b modulo the ring's modulus, for a and b below it; one AND a bit, two if odd."""
    difference, fits = subtract(builder, a, b)
    if ring.is_power_of_two:
        return difference
    below = builder.invert(fits)
    back = [builder.both(below, bit) for bit in constant(ring.modulus, ring.bits)]
    return add(builder, difference, back)[0]


def reconstruct(builder: Builder, ring: Ring, used: int | None = None) -> Word:
    """The lowest `used` bits of a number shared in the ring; both sides give their shares.

    Modulo 2^L the lower bits depend on the lower bits of the shares alone, so only those enter.
    """
    used = ring.bits if used is None else used
    taken = used if ring.is_power_of_two else ring.bits
    a, b = builder.alice(taken), builder.bob(taken)
    if ring.is_power_of_two:
        return add(builder, a, b)[0]
    return add_modulo(builder, a, b, ring)[:used]


def wrapped(builder: Builder, a: Word, b: Word, ring: Ring) -> int:
    """Whether the ordinary sum a + b reaches the modulus; one AND a bit, two if odd."""
    total, carry = add(builder, a, b)
    if ring.is_power_of_two:
        return carry
    return subtract(builder, [*total, carry], constant(ring.modulus, ring.bits + 1))[1]


def leading_one(builder: Builder, x: Word, keep: int) -> tuple[Word, Word]:
    """Shift x left until its top bit is one, and count the places.

    Returns the shifted word, of which only the top `keep` bits are made, and the number of leading
    zeros in binary. A logarithmic shifter: if the top 2^j bits are all zero, shift by 2^j, for
    j falling. Zero stays zero.
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
            occupied = builder.either(occupied, wire)
        places[j] = builder.invert(occupied)
        # Bits that later shifts cannot bring into the top `keep` places are not needed any more.
        lowest = max(0, width - keep - (distance - 1))
        shifted = [value[i - distance] if i >= distance else ZERO for i in range(width)]
        value = [
            builder.choose(places[j], shifted[i], value[i]) if i >= lowest else ZERO
            for i in range(width)
        ]
    return value, places


def shift_right(builder: Builder, x: Word, places: Word) -> Word:
    """x shifted right by a secret number of places; one AND a bit and binary digit of `places`."""
    value = list(x)
    for j, wire in enumerate(places):
        distance = 1 << j
        moved = [*value[distance:], *([ZERO] * min(distance, len(value)))]
        value = choose(builder, wire, moved, value)
    return value


def smallest(builder: Builder, words: list[Word]) -> Word:
    """Index of the smallest word, unsigned; the first of equals. A knock-out tournament."""
    bits = max(1, (len(words) - 1).bit_length())
    field = [(word, constant(i, bits)) for i, word in enumerate(words)]
    while len(field) > 1:
        winners = []
        for (a, index_a), (b, index_b) in zip(field[::2], field[1::2], strict=False):
            second = less_than(builder, b, a)
            winners.append(
                (choose(builder, second, b, a), choose(builder, second, index_b, index_a))
            )
        if len(field) % 2:
            winners.append(field[-1])
        field = winners
    return field[0][1]
