"""Scalar products of binary vectors against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import secure
from sfumato.errors import ParameterError, PeerError
from sfumato.secure import Ring
from two_parties import P60, agree

rings = st.sampled_from(
    [Ring.power_of_two(b) for b in (8, 12, 17, 32, 64, 100)] + [Ring.odd(P60), Ring.odd(101)]
)


@given(rings, st.integers(1, 4), st.integers(1, 4), st.integers(1, 60), st.integers(0, 2**32))
@settings(max_examples=20)
def test_all_pairs_of_vectors(ring, alices, bobs, n, seed):
    rng = np.random.default_rng(seed)
    vectors = {"alice": rng.random((alices, n)) < 0.5, "bob": rng.random((bobs, n)) < 0.5}

    def party(session):
        theirs = bobs if session.is_alice else alices
        counts = secure.cross_counts(session, vectors[session.role], theirs=theirs, ring=ring)
        return secure.reveal(session, counts, what="counts")

    expected = (vectors["alice"].astype(int) @ vectors["bob"].T.astype(int)).reshape(-1)
    assert agree(party).tolist() == expected.tolist()


def test_a_long_vector():
    rng = np.random.default_rng(0)
    n = 100_000
    vectors = {"alice": rng.random(n) < 0.3, "bob": rng.random(n) < 0.6}

    def party(session):
        count = secure.scalar_product(session, vectors[session.role], ring=Ring.power_of_two(20))
        return secure.reveal(session, count, what="count")

    assert agree(party).tolist() == [int((vectors["alice"] & vectors["bob"]).sum())]


def test_a_contingency_table_from_one_hot_columns():
    rng = np.random.default_rng(4)
    left, right = rng.integers(0, 3, 500), rng.integers(0, 4, 500)

    def party(session):
        mine = left == np.arange(3)[:, None] if session.is_alice else right == np.arange(4)[:, None]
        theirs = 4 if session.is_alice else 3
        counts = secure.cross_counts(session, mine, theirs=theirs, ring=Ring.power_of_two(16))
        return secure.reveal(session, counts, what="the table").reshape(3, 4)

    table = np.zeros((3, 4), int)
    np.add.at(table, (left, right), 1)
    np.testing.assert_array_equal(agree(party), table)


@pytest.mark.parametrize("mine", [[0, 2], [0.5], ["a"], []])
def test_vectors_must_be_binary(mine):
    with pytest.raises(ParameterError, match=r"binary|elements"):
        agree(lambda s: secure.scalar_product(s, np.array(mine), ring=Ring.power_of_two(16)))


def test_shapes_are_checked():
    ring = Ring.power_of_two(16)
    with pytest.raises(ParameterError, match="one vector"):
        agree(lambda s: secure.scalar_product(s, np.ones((2, 2), bool), ring=ring))
    with pytest.raises(ParameterError, match="must form a table"):
        agree(lambda s: secure.cross_counts(s, np.ones(2, bool), theirs=1, ring=ring))


def test_vectors_of_different_lengths_are_noticed():
    def party(session):
        mine = np.ones(10 if session.is_alice else 11, bool)
        return secure.scalar_product(session, mine, ring=Ring.power_of_two(16))

    with pytest.raises(PeerError):
        secure.together(party, party, timeout=60)
