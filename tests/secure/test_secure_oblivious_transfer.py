"""Oblivious transfers: what each side ends up with, and points that are no points."""

from __future__ import annotations

import os

import nacl.bindings
import numpy as np
import pytest

from sfumato.errors import PeerError
from sfumato.secure import Ring, multiply, private, reveal, together
from sfumato.secure import oblivious_transfer as ot
from sfumato.secure.oblivious_transfer import OTReceiver, OTSender

P25519 = 2**255 - 19
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
ORDER_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
PROPER = nacl.bindings.crypto_scalarmult_ed25519_base(b"7" * 32)


def test_the_receiver_gets_the_chosen_key_of_each_pair():
    choices = [0, 1, 1, 0, 1]

    def alice(session):
        return ot.send_keys(session, len(choices))

    def bob(session):
        return ot.receive_keys(session, choices)

    (first, second), got = together(alice, bob)
    for i, choice in enumerate(choices):
        wanted, other = (second, first) if choice else (first, second)
        np.testing.assert_array_equal(got[i], wanted[i])
        assert not np.array_equal(got[i], other[i])
    assert len({row.tobytes() for row in (*first, *second)}) == 2 * len(choices)


def test_an_answer_of_half_the_offer_does_not_make_the_two_keys_equal():
    """Equal keys would leave a column of the matrix of transfers unmasked: Bob's choices."""

    def alice(session):
        session.begin("base transfers", count=1)
        offer = bytes(session.channel.receive("base transfers: offer", 32))
        half = ((GROUP_ORDER + 1) // 2).to_bytes(32, "little")
        answer = nacl.bindings.crypto_scalarmult_ed25519_noclamp(half, offer)
        assert nacl.bindings.crypto_core_ed25519_add(answer, answer) == offer
        session.channel.send("base transfers: choices", answer)

    _, (first, second) = together(alice, lambda session: ot.send_keys(session, 1))
    assert (first != second).any()


@pytest.mark.parametrize(
    "point",
    [
        bytes(32),  # order four
        (1).to_bytes(32, "little"),  # the neutral element
        (P25519 - 1).to_bytes(32, "little"),  # order two
        ORDER_8,
        (2).to_bytes(32, "little"),  # not on the curve
        (P25519 + 1).to_bytes(32, "little"),  # not canonical
        b"\xff" * 32,
    ],
    ids=["order 4", "neutral", "order 2", "order 8", "off the curve", "not canonical", "ones"],
)
@pytest.mark.parametrize("liar", ["alice", "bob"])
def test_bad_points_are_refused(point, liar):
    def alice(session):
        if liar == "bob":
            return ot.send_keys(session, 2)
        session.begin("base transfers", count=2)
        session.channel.send("base transfers: offer", point)
        return session.channel.receive("base transfers: choices", 64)

    def bob(session):
        if liar == "alice":
            return ot.receive_keys(session, [0, 1])
        session.begin("base transfers", count=2)
        session.channel.receive("base transfers: offer", 32)
        session.channel.send("base transfers: choices", PROPER + point)
        return session.exchange("wait for the verdict", b"")

    errors = []

    def noting(party, honest):
        def run(session):
            try:
                return party(session)
            except PeerError as error:
                if honest:
                    errors.append(str(error))
                raise

        return run

    with pytest.raises(PeerError):
        together(noting(alice, liar != "alice"), noting(bob, liar != "bob"), timeout=60)
    assert "a point that is not in the group" in errors[0]


def test_an_answer_that_repeats_the_offer_is_refused():
    """R = A would make the second common point the neutral one, which everybody knows."""

    def alice(session):
        return ot.send_keys(session, 2)

    def bob(session):
        session.begin("base transfers", count=2)
        offer = bytes(session.channel.receive("base transfers: offer", 32))
        session.channel.send("base transfers: choices", PROPER + offer)
        return session.exchange("wait for the verdict", b"")

    with pytest.raises(PeerError, match="a point that is not in the group"):
        together(alice, bob, timeout=60)


def test_a_part_of_small_order_in_an_answer_changes_nothing(monkeypatch):
    """Multiples of eight clear it: the sender's keys do not tell anything of its secret."""
    answer = ot._answer

    def impure(curve, secret, offer, choice):
        return curve.crypto_core_ed25519_add(answer(curve, secret, offer, choice), ORDER_8)

    monkeypatch.setattr(ot, "_answer", impure)
    choices = [0, 1, 1]

    def alice(session):
        return ot.send_keys(session, len(choices))

    def bob(session):
        return ot.receive_keys(session, choices)

    pairs, got = together(alice, bob)
    for i, choice in enumerate(choices):
        np.testing.assert_array_equal(got[i], pairs[choice][i])


def test_clamped_numbers_with_a_sign_reach_the_whole_group():
    """What the module says: multiples of eight in [2^254, 2^255), and their negatives.

    Divided by eight, which permutes the group, they are two runs of 2^251 consecutive residues.
    """
    eighth = pow(8, -1, GROUP_ORDER)
    first, last = 2**254 * eighth % GROUP_ORDER, (2**255 - 8) * eighth % GROUP_ORDER
    assert (first, last) == (2**251, 2**252 - 1)
    missed = (GROUP_ORDER - last) + (GROUP_ORDER - last - 1)  # below the negatives, above the rest
    twice = GROUP_ORDER - first - first + 1
    assert 2 * 2**251 + missed - twice == GROUP_ORDER
    assert missed / GROUP_ORDER < 2.0**-126


def test_answers_have_either_sign_and_hide_the_choice():
    offer = PROPER
    for choice in (0, 1):
        signs = [
            ot._answer(nacl.bindings, os.urandom(32), offer, choice)[31] >> 7 for _ in range(400)
        ]
        assert 120 < sum(signs) < 280
    secret = bytes(31) + b"\x01"
    opposite = bytes(31) + b"\x81"
    plain = ot._answer(nacl.bindings, secret, offer, 0)
    assert ot._answer(nacl.bindings, opposite, offer, 0) == plain[:31] + bytes([plain[31] ^ 0x80])


def test_conversion_to_montgomery_form_is_that_of_libsodium():
    points = [nacl.bindings.crypto_scalarmult_ed25519_base(os.urandom(32)) for _ in range(20)]
    wanted = [nacl.bindings.crypto_sign_ed25519_pk_to_curve25519(point) for point in points]
    assert ot._montgomery(points) == wanted


@pytest.mark.parametrize("engine", ["aes-ni", "openssl"])
@pytest.mark.parametrize("counts", [[1], [128, 5], [1000, 70000, 3]])
def test_extension_correlates_by_the_choices(engine, counts):
    rng = np.random.default_rng(3)
    choices = [rng.integers(0, 2, count, np.uint8) for count in counts]

    def alice(session):
        sender = session.ot_sender
        return sender.delta, [sender.extend(count) for count in counts]

    def bob(session):
        return [session.ot_receiver.extend(bits) for bits in choices]

    (delta, sent), received = together(alice, bob, engine=engine)
    for q, t, bits in zip(sent, received, choices, strict=True):
        np.testing.assert_array_equal(t, q ^ (bits[:, None].astype(np.uint64) * delta))
    everything = np.concatenate(sent)
    assert len({row.tobytes() for row in everything}) == len(everything)  # nothing is used twice


def test_asking_ahead_keeps_the_order():
    parts = [np.full(10, i % 2, np.uint8) for i in range(4)]

    def alice(session):
        return [session.ot_sender.extend(10) for _ in parts], session.ot_sender.delta

    def bob(session):
        return list(session.ot_receiver.ahead(iter(parts)))

    (sent, delta), received = together(alice, bob)
    for q, (bits, t) in zip(sent, received, strict=True):
        np.testing.assert_array_equal(t, q ^ (bits[:, None].astype(np.uint64) * delta))


def test_alice_sends_and_bob_receives():
    def alice(session):
        return isinstance(session.ot_sender, OTSender), session.ot_sender is session.ot_sender

    def bob(session):
        return isinstance(session.ot_receiver, OTReceiver), True

    assert together(alice, bob) == ((True, True), (True, True))


@pytest.mark.parametrize("engine", ["aes-ni", "openssl"])
def test_work_that_needs_many_lots_is_done_lot_by_lot(monkeypatch, engine):
    """Bob tells his choices ahead, but never beyond the lot that both have in stock."""
    monkeypatch.setattr(ot, "_LOT", 1 << 15)
    ring = Ring.power_of_two(64)

    def party(session):
        x = private(ring, np.arange(1, 1001))
        squares = reveal(session, multiply(session, x, x), what="squares")
        return squares.tolist(), session.transfers.lots

    (alice, lots), (bob, others) = together(party, party, engine=engine)
    assert alice == bob == [(2 * i) ** 2 for i in range(1, 1001)]
    assert lots == others == 4


def test_every_lot_is_checked(monkeypatch):
    """A column that is inconsistent in the second lot only is caught as well."""
    monkeypatch.setattr(ot, "_LOT", 1 << 12)
    made = OTReceiver._stream

    def lying(self, schedule, count):
        rows = made(self, schedule, count)
        if self.lots and schedule is self._second:
            rows[:80, 0] ^= np.uint64(1)
        return rows

    monkeypatch.setattr(OTReceiver, "_stream", lying)

    def alice(session):
        session.ot_sender.extend(100)
        return session.ot_sender.extend(5000)

    def bob(session):
        session.ot_receiver.extend(np.ones(100, np.uint8))
        return session.ot_receiver.extend(np.ones(5000, np.uint8))

    with pytest.raises(PeerError, match="did not choose alike in all columns"):
        together(alice, bob)


def test_a_key_of_a_transfer_belongs_to_its_number_and_to_all_that_was_said():
    said = [b"offer", b"answer", b"common"]
    keys = {ot._key(number, choice, *said) for number in range(3) for choice in (0, 1)}
    keys |= {ot._key(0, 0, *(b"other" if at == place else x for at, x in enumerate(said)))
             for place in range(3)}  # fmt: skip
    assert len(keys) == 9


def test_the_check_works_in_the_field_of_its_polynomial():
    """Products are reduced modulo x^64 + x^4 + x^3 + x + 1, an irreducible polynomial."""
    modulus = 1 << 64 | 0b11011
    words = np.random.default_rng(0).integers(0, 2**64, (50, 2), np.uint64)
    words[0] = [0, 2**64 - 1]
    for (low, high), found in zip(words, ot._reduced(words[:, 0], words[:, 1]), strict=True):
        left = int(high) << 64 | int(low)
        for bit in range(127, 63, -1):
            if left >> bit & 1:
                left ^= modulus << (bit - 64)
        assert int(found) == left


def test_every_word_has_a_weight_of_its_own_that_nobody_knows_before():
    def party(session):
        stock = session.transfers
        return [stock._weights(bytes([seed]) * 16, 64 * 100).tolist() for seed in (1, 2)]

    (first, second), _ = together(party, party)
    assert first[-1] == second[-1] == 1
    assert len({*first, *second}) == 2 * 99 + 1
