"""Products of shares: exhaustively for small moduli, at random for large ones."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from sfumato import secure
from sfumato.errors import ParameterError
from sfumato.secure import Ring, Shares
from sfumato.secure.arithmetic import cross_products, shares_of_bits
from two_parties import RINGS, agree, residues, split


@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 7, 8, 9, 13, 16])
def test_products_exhaustively(modulus):
    """Every pair of residues; Alice's and Bob's own numbers."""
    ring = Ring(modulus)
    pairs = list(itertools.product(range(modulus), repeat=2))
    mine = {"alice": [a for a, _ in pairs], "bob": [b for _, b in pairs]}

    def party(session):
        product = cross_products(session, ring, ring.encode(mine[session.role]))
        return secure.reveal(session, Shares(ring, product), what="products")

    assert residues(ring, agree(party)) == [a * b % modulus for a, b in pairs]


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_products_of_shares_at_random(ring):
    rng = random.Random(ring.modulus)
    xs = [rng.randrange(ring.modulus) for _ in range(20)] + [0, ring.modulus - 1]
    ys = [rng.randrange(ring.modulus) for _ in range(20)] + [5, ring.modulus - 1]
    x, y = split(ring, xs), split(ring, ys)

    def party(session):
        product = secure.multiply(session, x[session.role], y[session.role])
        return secure.reveal(session, product, what="products")

    expected = [a * b % ring.modulus for a, b in zip(xs, ys, strict=True)]
    assert residues(ring, agree(party)) == expected


def test_many_products_go_in_several_parts():
    ring = Ring.power_of_two(64)
    numbers = np.arange(5000)
    x = split(ring, numbers)

    def party(session):
        mine = x[session.role]
        return secure.reveal(session, secure.multiply(session, mine, mine), what="squares")

    np.testing.assert_array_equal(agree(party), numbers**2)


def test_scales_multiply():
    ring = Ring.power_of_two(64)

    def party(session):
        x = Shares(ring, ring.encode([3]), scale=4)
        y = Shares(ring, ring.encode([5]), scale=8)
        return secure.reveal_real(session, secure.multiply(session, x, y), what="product")

    assert agree(party).tolist() == [6 / 4 * 10 / 8]


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_bits_become_numbers(ring):
    rng = np.random.default_rng(1)
    bits = {role: rng.integers(0, 2, (5, 40), np.uint8) for role in ("alice", "bob")}
    weights = [[1, 2, 4, 8, -16], [0, 0, 3, 0, 0]]

    def party(session):
        sums = shares_of_bits(session, ring, bits[session.role], weights)
        return secure.reveal(session, Shares(ring, np.concatenate(sums)), what="numbers")

    plain = (bits["alice"] ^ bits["bob"]).astype(int)
    expected = np.concatenate([np.array(row) @ plain for row in weights])
    assert agree(party).tolist() == expected.tolist()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="do not mix"):
        agree(lambda s: secure.multiply(s, secure.zeros(Ring(4), 1), secure.zeros(Ring(8), 1)))
    with pytest.raises(ParameterError, match="do not fit"):
        agree(lambda s: secure.multiply(s, secure.zeros(Ring(4), 1), secure.zeros(Ring(4), 2)))
    with pytest.raises(ParameterError, match="2 bits need as many weights"):
        agree(lambda s: shares_of_bits(s, Ring(4), np.zeros((2, 1), np.uint8), [[1]]))
