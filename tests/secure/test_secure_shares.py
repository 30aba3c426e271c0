"""Rings against Python's integers; shares add up, look random, and refuse what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import secure
from sfumato.errors import ParameterError, PeerError
from sfumato.secure import Ring, Shares
from two_parties import BY_CHANCE, RINGS, agree, residues, running, split

rings = st.sampled_from(
    [*RINGS, *(Ring.power_of_two(b) for b in (1, 2, 63)), *(Ring.odd(m) for m in (3, 5, 2**63 - 1))]
)


@st.composite
def elements(draw):
    ring = draw(rings)
    edge = st.sampled_from([0, 1, ring.modulus - 1, ring.modulus // 2, ring.modulus // 2 + 1])
    number = st.one_of(edge, st.integers(0, ring.modulus - 1))
    size = draw(st.integers(1, 6))
    many = st.lists(number, min_size=size, max_size=size)
    return ring, [v % ring.modulus for v in draw(many)], [v % ring.modulus for v in draw(many)]


@pytest.mark.parametrize("way", ["compiled", "instead"])
@given(elements())
@settings(max_examples=300)
def test_arithmetic_is_that_of_integers_modulo_m(way, case):
    ring, xs, ys = case
    x, y = ring.encode(xs), ring.encode(ys)
    m = ring.modulus
    pairs = list(zip(xs, ys, strict=True))
    with running(way):
        assert residues(ring, ring.decode(ring.add(x, y))) == [(a + b) % m for a, b in pairs]
        assert residues(ring, ring.decode(ring.subtract(x, y))) == [(a - b) % m for a, b in pairs]
        assert residues(ring, ring.decode(ring.multiply(x, y))) == [a * b % m for a, b in pairs]
        assert residues(ring, ring.decode(ring.negate(x))) == [-a % m for a in xs]
        assert residues(ring, ring.decode(ring.times(x, -7))) == [-7 * a % m for a in xs]
        assert residues(ring, ring.decode(ring.sum(x, len(xs)))) == [sum(xs) % m]
    assert residues(ring, ring.decode(ring.from_bits(ring.to_bits(x)))) == xs


@given(elements())
def test_the_upper_half_is_negative(case):
    ring, xs, _ = case
    read = [int(v) for v in ring.decode(ring.encode(xs))]
    low, high = -(ring.modulus // 2), ring.modulus - ring.modulus // 2
    assert all(low <= v < high for v in read)
    assert [v % ring.modulus for v in read] == xs


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_arrays_and_lists_encode_alike(ring):
    numbers = np.array([-50, -1, 0, 1, 49])
    np.testing.assert_array_equal(ring.encode(numbers), ring.encode(numbers.tolist()))
    large = np.array([-(2**63), 2**63 - 1, 2**62])
    np.testing.assert_array_equal(ring.encode(large), ring.encode(large.tolist()))
    positive = np.array([2**64 - 1, 5], np.uint64)
    np.testing.assert_array_equal(ring.encode(positive), ring.encode(positive.tolist()))
    small = np.array([0, 1, 1], np.uint8)
    np.testing.assert_array_equal(ring.encode(small), ring.encode([0, 1, 1]))


@pytest.mark.parametrize("ring", [Ring.power_of_two(5), Ring.odd(29), Ring.odd(3)], ids=str)
def test_random_elements_are_uniform(ring):
    from scipy.stats import chisquare

    drawn = residues(ring, ring.decode(ring.random(20_000)))
    assert chisquare(np.bincount(drawn, minlength=ring.modulus)).pvalue > BY_CHANCE


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_hashes_have_bits_to_spare_for_an_odd_modulus(ring):
    """Modulo m, 64 bits more than it has leave no residue likelier by more than 2^-64."""
    spare = 64 * ring.pad_words - ring.bits
    assert spare >= (0 if ring.is_power_of_two else 64)


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_shares_open_to_what_was_shared(ring):
    numbers = [5, -3, 0]

    def party(session):
        mine = numbers if session.is_alice else None
        x = secure.share(session, mine, ring=ring, owner="alice", n=3)
        y = secure.share(
            session, None if session.is_alice else [1, 1, 1], ring=ring, owner="bob", n=3
        )
        return secure.reveal(session, (x + y - x) * 2 + x.plus(session, 4), what="a sum")

    assert agree(party).tolist() == [11, 3, 6]


def test_only_the_named_party_learns():
    def party(session):
        x = secure.private(Ring.power_of_two(16), [1])
        return secure.reveal(session, x, to="bob", what="the sum")

    alice, bob = secure.together(party, party)
    assert alice is None
    assert bob.tolist() == [2]


def test_groups_slices_and_repetitions():
    ring = Ring.power_of_two(16)
    x = secure.private(ring, [1, 2, 3, 4, 5, 6])
    assert ring.decode(x.sum(group=3).values).tolist() == [6, 15]
    assert ring.decode(x.sum().values).tolist() == [21]
    assert ring.decode(x[2].values).tolist() == [3]
    assert ring.decode(x[1:3].values).tolist() == [2, 3]
    assert ring.decode(x[np.array([5, 0])].values).tolist() == [6, 1]
    assert ring.decode(x[:2].repeat(2).values).tolist() == [1, 1, 2, 2]
    assert ring.decode((-x[:2]).values).tolist() == [-1, -2]
    both = Shares.concatenate([x[:1], secure.zeros(ring, 2)])
    assert ring.decode(both.values).tolist() == [1, 0, 0]


def test_real_numbers_are_divided_by_the_scale():
    def party(session):
        x = Shares(Ring.power_of_two(128), Ring.power_of_two(128).encode([3, -5]), scale=8)
        return secure.reveal_real(session, x, what="twice three eighths")

    assert agree(party).tolist() == [0.75, -1.25]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Ring(0), "power of two, or odd"),
        (lambda: Ring(12), "power of two, or odd"),
        (lambda: Ring.odd(12), "even"),
        (lambda: Ring.power_of_two(0), "0 bits"),
        (lambda: Ring.power_of_two(257), "257 bits"),
        (lambda: Ring.odd((1 << 300) + 1), "301 bits"),
        (lambda: Shares(Ring.odd(5), np.zeros((2, 3), np.uint64)), "do not belong"),
        (lambda: secure.zeros(Ring.odd(5), 2) + secure.zeros(Ring.odd(7), 2), "do not mix"),
        (lambda: secure.zeros(Ring.odd(5), 2) + secure.zeros(Ring.odd(5), 3), "fit together"),
        (lambda: secure.zeros(Ring.odd(5), 5).sum(group=2), "groups of 2"),
        (lambda: Shares.concatenate([]), "nothing"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, words):
    with pytest.raises(ParameterError, match=words):
        wrong()


def test_scales_do_not_mix():
    ring = Ring.odd(5)
    with pytest.raises(ParameterError, match="scales agree"):
        Shares(ring, ring.encode([1]), 2) - Shares(ring, ring.encode([1]), 3)


def test_announced_lengths_and_roles_are_checked():
    def party(session):
        return secure.share(session, [1, 2], ring=Ring.odd(5), owner="alice", n=3)

    with pytest.raises(ParameterError, match="3 numbers were announced, 2 given"):
        secure.together(party, party)

    def nobody(session):
        return secure.reveal(session, secure.zeros(Ring.odd(5), 1), to="carol", what="x")

    with pytest.raises(ParameterError, match="not a party"):
        secure.together(nobody, nobody)


@pytest.mark.parametrize("ring", [Ring.odd(101), Ring.power_of_two(70)], ids=str)
def test_numbers_outside_the_ring_are_refused(ring):
    def liar(session):
        session.begin("reveal", ring=ring, to="both", n=1, scale=1)
        session.channel.send("reveal", np.full((1, ring.limbs), 2**64 - 1, np.uint64))
        return session.channel.receive("reveal", 8 * ring.limbs)

    def honest(session):
        return secure.reveal(session, secure.zeros(ring, 1), what="x")

    with pytest.raises(PeerError, match="outside the agreed ring"):
        secure.together(honest, liar, timeout=60)


def test_helper_shares_add_up():
    ring = Ring.odd(101)
    shares = split(ring, [1, 50, 100])
    total = ring.add(shares["alice"].values, shares["bob"].values)
    assert residues(ring, ring.decode(total)) == [1, 50, 100]
