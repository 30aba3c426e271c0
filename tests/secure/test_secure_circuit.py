"""Circuits against integers, and garbled circuits against the same circuits in the clear."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.secure import Ring
from sfumato.secure.circuit import AND, ONE, ZERO, Builder
from sfumato.secure.garbling import run_circuit
from two_parties import agree


def numbers(bits: np.ndarray) -> list[int]:
    return [int(sum(int(b) << i for i, b in enumerate(column))) for column in bits.T]


def inputs(values: list[int], width: int) -> np.ndarray:
    return np.array([[v >> i & 1 for v in values] for i in range(width)], np.uint8)


def pairs(width: int, limit: int | None = None) -> tuple[list[int], list[int]]:
    both = list(itertools.product(range(limit or 1 << width), repeat=2))
    return [a for a, _ in both], [b for _, b in both]


def two_words(width, function):
    builder = Builder()
    a, b = builder.alice(width), builder.bob(width)
    out = function(builder, a, b)
    circuit = builder.finish(out)
    xs, ys = pairs(width)
    return xs, ys, numbers(circuit.plain(inputs(xs, width), inputs(ys, width))), circuit


@pytest.mark.parametrize("width", [1, 2, 4])
def test_addition_costs_one_and_a_bit(width):
    xs, ys, got, circuit = two_words(width, lambda c, a, b: [*c.add(a, b)[0]])
    assert got == [(x + y) % (1 << width) for x, y in zip(xs, ys, strict=True)]
    assert circuit.and_gates == width - 1  # the last carry is not asked for
    xs, ys, got, circuit = two_words(width, lambda c, a, b: (lambda s: [*s[0], s[1]])(c.add(a, b)))
    assert got == [x + y for x, y in zip(xs, ys, strict=True)]
    assert circuit.and_gates == width


@pytest.mark.parametrize("width", [1, 3, 4])
def test_subtraction_and_comparison(width):
    xs, ys, got, _ = two_words(width, lambda c, a, b: (lambda s: [*s[0], s[1]])(c.subtract(a, b)))
    full = 1 << width
    expected = [(x - y) % full + full * (x >= y) for x, y in zip(xs, ys, strict=True)]
    assert got == expected
    xs, ys, got, circuit = two_words(width, lambda c, a, b: [c.less_than(a, b)])
    assert got == [int(x < y) for x, y in zip(xs, ys, strict=True)]
    assert circuit.and_gates == width


def test_choosing():
    xs, ys, got, circuit = two_words(3, lambda c, a, b: c.choose_word(a[0], a, b))
    assert got == [x if x & 1 else y for x, y in zip(xs, ys, strict=True)]
    assert circuit.and_gates == 3


@pytest.mark.parametrize("modulus", [2, 4, 16, 3, 5, 7, 11, 15])
def test_modular_arithmetic_exhaustively(modulus):
    ring = Ring(modulus)
    xs, ys = pairs(ring.bits, modulus)
    for operation, expected in (
        (Builder.add_modulo, [(x + y) % modulus for x, y in zip(xs, ys, strict=True)]),
        (Builder.subtract_modulo, [(x - y) % modulus for x, y in zip(xs, ys, strict=True)]),
        (
            lambda c, a, b, r: [c.wrapped(a, b, r)],
            [int(x + y >= modulus) for x, y in zip(xs, ys, strict=True)],
        ),
    ):
        builder = Builder()
        a, b = builder.alice(ring.bits), builder.bob(ring.bits)
        circuit = builder.finish(operation(builder, a, b, ring))
        assert numbers(circuit.plain(inputs(xs, ring.bits), inputs(ys, ring.bits))) == expected


@pytest.mark.parametrize("width", range(1, 11))
@pytest.mark.parametrize("keep", [2, 5, 12])
def test_leading_one(width, keep):
    builder = Builder()
    x = builder.alice(width)
    value, zeros = builder.leading_one(x, keep)
    circuit = builder.finish([*value, *zeros])
    xs = list(range(1 << width))
    bits = circuit.plain(inputs(xs, width), np.zeros((0, len(xs))))
    shifted, counts = numbers(bits[:width]), numbers(bits[width:])
    lowest = max(0, width - keep)
    for x_value, got, count in zip(xs[1:], shifted[1:], counts[1:], strict=True):
        assert count == width - x_value.bit_length()
        assert got >> lowest == (x_value << count) >> lowest
    assert shifted[0] == 0


@pytest.mark.parametrize("table", [[0], [5, 3], [7, 0, 2], [0, 9, 1, 4, 4, 100, 63]])
def test_looking_up_a_public_table(table):
    builder = Builder()
    width = max(1, (len(table) - 1).bit_length())
    circuit = builder.finish([*builder.look_up(builder.alice(width), table), ZERO])
    found = circuit.plain(inputs(list(range(len(table))), width), np.zeros((0, len(table))))
    assert numbers(found) == table


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_smallest_is_the_first_of_equals(count):
    builder = Builder()
    numbers_in = [builder.alice(2) for _ in range(count)]
    circuit = builder.finish(builder.smallest(numbers_in))
    cases = list(itertools.product(range(4), repeat=count))
    bits = np.concatenate([inputs([case[i] for case in cases], 2) for i in range(count)])
    got = numbers(circuit.plain(bits, np.zeros((0, len(cases)))))
    assert got == [case.index(min(case)) for case in cases]


def test_constants_fold_and_equal_gates_are_shared():
    builder = Builder()
    (a,), (b,) = builder.alice(1), builder.bob(1)
    assert builder.both(a, ZERO) == ZERO
    assert builder.both(ONE, a) == a
    assert builder.both(a, a) == a
    assert builder.xor(a, a) == ZERO
    assert builder.xor(a, ZERO) == a
    assert builder.xor(a, ONE) == builder.invert(a)
    assert builder.invert(builder.invert(a)) == a
    assert builder.both(a, b) == builder.both(b, a)
    assert builder.xor(a, b) == builder.xor(b, a)
    builder.both(a, builder.invert(b))  # no output needs it
    circuit = builder.finish([builder.both(a, b), ZERO, ONE])
    assert (circuit.and_gates, circuit.free_gates, circuit.depth) == (1, 0, 1)
    assert circuit.plain([[1]], [[1]]).tolist() == [[1], [0], [1]]
    assert str(circuit) == "1 AND, 0 XOR/NOT, depth 1, 1 + 1 inputs, 3 outputs"
    with pytest.raises(ParameterError, match="without outputs"):
        builder.finish([])


def test_the_digest_tells_circuits_apart():
    digests = set()
    for gate in ("both", "either", "xor"):
        builder = Builder()
        (a,), (b,) = builder.alice(1), builder.bob(1)
        digests.add(builder.finish([getattr(builder, gate)(a, b)]).digest)
    assert len(digests) == 3


@st.composite
def circuits(draw):
    builder = Builder()
    wires = [*builder.alice(draw(st.integers(1, 4))), *builder.bob(draw(st.integers(1, 4)))]
    wires += [ZERO, ONE]
    for _ in range(draw(st.integers(1, 25))):
        gate = draw(st.sampled_from(["both", "xor", "invert", "either", "choose"]))
        count = {"invert": 1, "choose": 3}.get(gate, 2)
        chosen = [draw(st.sampled_from(wires)) for _ in range(count)]
        wires.append(getattr(builder, gate)(*chosen))
    outputs = draw(st.lists(st.sampled_from(wires), min_size=1, max_size=6))
    return builder.finish(outputs), draw(st.integers(1, 300)), draw(st.integers(0, 2**32 - 1))


@given(circuits(), st.sampled_from(["aes-ni", "openssl"]), st.sampled_from([None, "both"]))
@settings(max_examples=30)
def test_garbled_and_plain_agree_gate_by_gate(case, engine, reveal):
    circuit, n, seed = case
    rng = np.random.default_rng(seed)
    alice = rng.integers(0, 2, (len(circuit.alice_slots), n), np.uint8)
    bob = rng.integers(0, 2, (len(circuit.bob_slots), n), np.uint8)
    from sfumato.secure import together

    def party(session):
        mine = alice if session.is_alice else bob
        return run_circuit(session, circuit, mine, n=n, reveal=reveal)

    one, other = together(party, party, engine=engine)
    expected = circuit.plain(alice, bob)
    if reveal:
        np.testing.assert_array_equal(one, expected)
        np.testing.assert_array_equal(other, expected)
    else:
        np.testing.assert_array_equal(one ^ other, expected)


def test_every_single_gate_and_truth_table():
    builder = Builder()
    (a,), (b,) = builder.alice(1), builder.bob(1)
    outputs = [
        builder.both(a, b),
        builder.either(a, b),
        builder.xor(a, b),
        builder.invert(a),
        builder.both(builder.invert(a), b),
        builder.both(builder.invert(a), builder.invert(b)),
        a,
        b,
    ]
    circuit = builder.finish(outputs)
    assert int((circuit.program[0] == AND).sum()) == circuit.and_gates
    alice, bob = np.array([[0, 0, 1, 1]], np.uint8), np.array([[0, 1, 0, 1]], np.uint8)

    def party(session):
        return run_circuit(session, circuit, alice if session.is_alice else bob, n=4, reveal="both")

    assert agree(party).tolist() == [
        [0, 0, 0, 1],
        [0, 1, 1, 1],
        [0, 1, 1, 0],
        [1, 1, 0, 0],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 1, 1],
        [0, 1, 0, 1],
    ]


def test_wrong_numbers_of_inputs_are_refused():
    builder = Builder()
    (a,), (b,) = builder.alice(1), builder.bob(1)
    circuit = builder.finish([builder.both(a, b)])
    with pytest.raises(ParameterError, match="takes 1 input bits for each of 2"):
        agree(lambda s: run_circuit(s, circuit, np.zeros((1, 3)), n=2))
