"""Scaling by fractions, both ways, and the quick logarithm to base two."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import secure
from sfumato.errors import ParameterError
from sfumato.secure import Ring, arithmetic
from sfumato.secure.logarithm import QUICK_ERROR
from two_parties import P60, RINGS, agree, split


def scaled(ring, numbers, factor, **how):
    x = split(ring, numbers)

    def party(session):
        moved = secure.scale(session, x[session.role], factor, **how)
        return secure.reveal(session, moved, what="x")

    return [int(v) for v in agree(party)]


@given(
    st.sampled_from(RINGS),
    st.fractions(min_value=0, max_value=20, max_denominator=10**6),
    st.integers(0, 2**32),
)
@settings(max_examples=15)
def test_the_exact_way_is_off_by_less_than_one_and_a_half(ring, factor, seed):
    room = int(Fraction(ring.modulus // 2 - 2) / max(factor, 1))
    rng = np.random.default_rng(seed)
    numbers = [int(rng.integers(-(2**53), 2**53)) * room // 2**53 for _ in range(20)]
    numbers += [0, room, -room]
    for number, got in zip(numbers, scaled(ring, numbers, factor), strict=True):
        assert abs(got - factor * number) <= Fraction(3, 2)


@pytest.mark.parametrize("modulus", [16, 31, 33])
@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(5, 7), Fraction(1, 2)])
def test_every_pair_of_shares(modulus, factor):
    ring = Ring(modulus)
    pairs = list(itertools.product(range(modulus), repeat=2))
    mine = {"alice": [a for a, _ in pairs], "bob": [b for _, b in pairs]}
    values = [int(v) for v in ring.decode(ring.encode([a + b for a, b in pairs]))]

    def party(session):
        x = secure.private(ring, mine[session.role])
        return secure.reveal(session, secure.scale(session, x, factor), what="x")

    for value, got in zip(values, agree(party), strict=True):
        distance = abs(int(got) - factor * value)
        assert min(distance, modulus - distance) <= Fraction(3, 2)


@pytest.mark.parametrize("ring", [Ring.odd((1 << 128) - 159), Ring.power_of_two(100)], ids=str)
def test_the_statistical_way_needs_no_message(ring):
    numbers = [0, 1, -1, 2**40, -(2**40), 12345]
    x = split(ring, numbers)

    def party(session):
        before = session.channel.traffic.messages_sent
        mine = x[session.role]
        moved = secure.scale(session, mine, math.log(2), method="statistical", largest=2**40)
        assert session.channel.traffic.messages_sent == before
        return secure.reveal(session, moved, what="x")

    for number, got in zip(numbers, agree(party), strict=True):
        assert abs(int(got) - Fraction(math.log(2)) * number) <= 1


def test_wrapping_shares_always_wrap():
    ring, largest = Ring.odd(P60), 1000
    numbers = [0, 1, 999, 1000] * 500

    def party(session):
        mine = numbers if session.is_alice else None
        x = secure.share_wrapping(
            session, mine, ring=ring, owner="alice", n=len(numbers), largest=largest
        )
        moved = secure.scale(session, x, Fraction(1, 3), method="statistical", largest=largest)
        return x.values[:, 0].astype(object), secure.reveal(session, moved, what="thirds")

    (a, got), (b, _) = secure.together(party, party)
    assert (a + b == np.array(numbers, object) + P60).all()
    assert all(abs(int(g) - Fraction(n, 3)) <= 1 for g, n in zip(got, numbers, strict=True))
    width = largest << 40
    assert all(abs(int(v) - P60 // 2) <= width // 2 + 1 for v in b)


def test_the_scale_of_a_logarithm_can_be_taken_back():
    ring = Ring.odd(P60)
    x = split(ring, [5, 1000])

    def party(session):
        logarithm = secure.log(session, x[session.role], bits=10)
        small = secure.rescale(session, logarithm, 1 << 20)
        assert small.scale == 1 << 20
        return secure.reveal_real(session, small, what="ln x")

    assert np.abs(agree(party) - np.log([5, 1000])).max() < 0.0018 + 2**-19


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"method": "guess"}, "not a method of scaling"),
        ({"method": "statistical"}, "needs `largest`"),
        ({"method": "statistical", "largest": 1000, "security": 39}, "39 bits"),
        ({"method": "statistical", "largest": 1 << 20}, "no room"),
        ({"method": "statistical", "largest": 0}, "at least one"),
    ],
)
def test_bad_ways_are_refused(how, words):
    x = secure.zeros(Ring.odd(P60), 1)
    with pytest.raises(ParameterError, match=words):
        agree(lambda s: secure.scale(s, x, 0.5, **how).values)


def test_wrapping_shares_have_room_beside_the_numbers():
    needed = (1000 << 40) + 4000
    arithmetic.check_room(Ring.odd(needed + 1), 1000, 40)
    with pytest.raises(ParameterError, match="no room"):
        arithmetic.check_room(Ring.odd(needed - 1), 1000, 40)


def test_wrapping_shares_check_their_numbers():
    def party(session, numbers, n):
        return secure.share_wrapping(
            session, numbers, ring=Ring.odd(P60), owner=session.role, n=n, largest=9
        )

    with pytest.raises(ParameterError, match="outside 0 to 9"):
        secure.together(lambda s: party(s, [10], 1), lambda s: party(s, [10], 1), timeout=60)
    with pytest.raises(ParameterError, match="announced"):
        secure.together(lambda s: party(s, [1], 2), lambda s: party(s, [1], 2), timeout=60)


def quick(ring, numbers, **how):
    x = split(ring, numbers)

    def party(session):
        result = secure.log2_quick(session, x[session.role], **how)
        return secure.reveal_real(session, result, what="log2 x")

    return agree(party)


@pytest.mark.parametrize("ring", [Ring.power_of_two(32), Ring.odd(P60)], ids=str)
def test_the_quick_logarithm_of_every_number_of_twelve_bits(ring):
    numbers = list(range(1, 4096))
    truth = np.log2(numbers)
    plain = truth - quick(ring, numbers, bits=12, centred=False)
    assert plain.min() >= 0
    assert 0.14 < plain.max() < 0.149  # not 1/16, as §6 says
    assert np.abs(truth - quick(ring, numbers, bits=12)).max() <= QUICK_ERROR


@pytest.mark.parametrize("bits", [1, 2, 5, 6])
def test_the_quick_logarithm_of_few_bits(bits):
    numbers = list(range(1, 1 << bits))
    got = quick(Ring.power_of_two(32), numbers, bits=bits)
    assert np.abs(got - np.log2(numbers)).max() <= QUICK_ERROR
    assert quick(Ring.power_of_two(32), [0], bits=bits, centred=False).tolist() == [0.0]


def test_the_quick_logarithm_needs_room():
    with pytest.raises(ParameterError, match="does not fit"):
        quick(Ring.power_of_two(12), [1], bits=10)
    x = secure.Shares(Ring(1 << 32), Ring(1 << 32).encode([1]), 2)
    with pytest.raises(ParameterError, match="whole numbers"):
        agree(lambda s: secure.log2_quick(s, x))
