"""Paillier's encryption and both backends of the oblivious polynomial."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sfumato import secure
from sfumato.errors import ParameterError, PeerError
from sfumato.secure import Ring, Shares, polynomial
from sfumato.secure.counting import many_cross_counts
from sfumato.secure.polynomial import KEY_BITS, PrivateKey, PublicKey
from two_parties import P60, RINGS, agree, residues, split

KEY = PrivateKey.generate(1024)


def test_decryption_inverts_encryption():
    n = KEY.public.n
    for number in (0, 1, 12345, n - 1):
        assert KEY.decrypt(KEY.encrypt(number)) == number
    assert KEY.encrypt(7) != KEY.encrypt(7)


def test_ciphertexts_combine():
    rng = random.Random(5)
    for _ in range(5):
        numbers = [rng.randrange(1 << 200) for _ in range(3)]
        factors = [rng.randrange(1 << 200) for _ in range(3)]
        constant = rng.randrange(1 << 400)
        ciphertexts = [KEY.encrypt(v) for v in numbers]
        expected = sum(a * b for a, b in zip(numbers, factors, strict=True)) + constant
        assert KEY.decrypt(KEY.public.combine(ciphertexts, factors, constant)) == expected


def test_the_answer_is_blinded_anew():
    ciphertext = KEY.encrypt(3)
    answers = {KEY.public.combine([ciphertext], [5], 1) for _ in range(4)}
    assert len(answers) == 4


def test_keys_have_3072_bits():
    assert KEY_BITS == 3072
    with pytest.raises(ParameterError, match="256 bits"):
        PrivateKey.generate(256)


@pytest.mark.parametrize(
    "n",
    [KEY.public.n + 1, KEY.public.n >> 1, KEY.p**2, 3 * (((1 << 1024) - 1) // 3 - 2), KEY.p],
    ids=["even", "too short", "a square", "small factor", "a prime"],
)
def test_improper_keys_are_found_weak(n):
    assert PublicKey(n).is_weak(1024 if n != KEY.p else n.bit_length())


def test_a_proper_key_passes():
    assert not KEY.public.is_weak(1024)


def test_things_that_are_no_ciphertexts_are_refused():
    for wrong in (0, KEY.public.n**2, KEY.p):
        with pytest.raises(PeerError, match="not a ciphertext"):
            KEY.public.combine([wrong], [1], 0)


def test_secrets_do_not_show():
    assert str(KEY.p) not in repr(KEY)


@pytest.mark.crossed(12)
@pytest.mark.parametrize("ring", RINGS, ids=str)
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomials_by_transfers(ring, degree):
    rng = random.Random(degree)
    xs = [rng.randrange(ring.modulus) for _ in range(10)]
    coefficients = [rng.randrange(-ring.modulus, ring.modulus) for _ in range(degree + 1)]
    check(ring, xs, coefficients, "ot")


@pytest.mark.parametrize("ring", [Ring.odd(P60), Ring.power_of_two(256)], ids=str)
def test_polynomials_by_paillier(ring):
    check(ring, [0, 5, ring.modulus - 1], [3, -1, 4, 1], "paillier")


def test_a_mask_is_far_longer_than_what_it_hides(monkeypatch):
    drawn = []

    def watched(width, draw=polynomial.secrets.randbits):
        drawn.append(width)
        return draw(width)

    monkeypatch.setattr(polynomial.secrets, "randbits", watched)
    ring = Ring.odd(P60)
    check(ring, [5, 7], [3, -1, 4, 1], "paillier")
    masks = [width for width in drawn if width < KEY_BITS // 4]  # others are primes and blindings
    assert masks == [2 * 60 + 2 + 80] * 2


def check(ring, xs, coefficients, backend):
    x = split(ring, xs)

    def party(session):
        mine = x[session.role].values
        for _ in range(2 if backend == "ot" else 1):
            result = polynomial.evaluate(session, ring, mine, coefficients, backend=backend)
        return secure.reveal(session, Shares(ring, result), what="p(x)")

    expected = [sum(c * v**i for i, c in enumerate(coefficients)) % ring.modulus for v in xs]
    assert residues(ring, agree(party)) == expected


def test_constants_are_no_polynomials():
    ring = Ring.odd(P60)
    with pytest.raises(ParameterError, match="at least degree one"):
        agree(lambda s: polynomial.evaluate(s, ring, ring.encode([1]), [5]))


def test_a_bad_key_ends_the_session():
    ring = Ring.odd(P60)

    def alice(session):
        return polynomial.evaluate(session, ring, ring.encode([1]), [1, 1, 1], backend="paillier")

    def bob(session):
        session.begin("polynomial", ring=ring, coefficients=[1, 1, 1], n=1, backend="paillier")
        session.channel.send("Paillier key", bytes(383) + b"\x04")
        return session.exchange("wait", b"")

    with pytest.raises(PeerError, match=r"proper|stopped"):
        secure.together(alice, bob, timeout=60)


@pytest.mark.parametrize("ring", [Ring.odd(P60), Ring.power_of_two(64)], ids=str)
def test_products_under_encryption(ring, monkeypatch):
    monkeypatch.setattr(polynomial, "KEY_BITS", 1024)
    numbers, others = [0, 1, -5, 12345], [7, -1, -5, 2**20]
    x, y = split(ring, numbers), split(ring, others)

    def party(session):
        found = polynomial.product(session, x[session.role], y[session.role], "paillier")
        return secure.reveal(session, found, what="products")

    assert agree(party).tolist() == [a * b for a, b in zip(numbers, others, strict=True)]


def test_counts_under_encryption(monkeypatch):
    """More bits than are sent at once, several vectors a side, one of them without any one."""
    monkeypatch.setattr(polynomial, "_AT_ONCE", 8)
    monkeypatch.setattr(polynomial, "KEY_BITS", 1024)
    rng = np.random.default_rng(3)
    alices, bobs = rng.random((3, 21)) < 0.5, rng.random((2, 21)) < 0.5
    alices[1] = False
    ring = Ring.odd(P60)

    def party(session):
        mine, theirs = (alices, 2) if session.is_alice else (bobs, 3)
        (found,) = many_cross_counts(session, [(mine, theirs)], ring=ring, backend="paillier")
        return secure.reveal(session, found, what="counts")

    assert agree(party).tolist() == (alices.astype(int) @ bobs.T.astype(int)).reshape(-1).tolist()
