"""Dual execution: right logarithms, and cheaters who are caught by the comparison."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from sfumato import secure
from sfumato.errors import ParameterError, PeerError
from sfumato.secure import Ring, garbling, logarithm
from sfumato.secure.channel import Channel
from sfumato.secure.logarithm import log_opened, log_opened_error

RING = Ring.power_of_two(64)
NUMBERS = {"alice": [600, 12, 1, 2**38], "bob": [400, 30, 1, 2**38 + 5]}
LOGARITHMS = np.log(np.add(NUMBERS["alice"], NUMBERS["bob"]))


def party(session: secure.Session) -> Any:
    return secure.log_of_sums(NUMBERS[session.role], peer=session, dual=True)


def test_logarithms_are_right_on_both_sides():
    alice, bob = secure.together(party, party)
    assert alice.found == bob.found
    assert alice.found.error < 2e-5
    np.testing.assert_allclose(alice.found.logarithms, LOGARITHMS, rtol=0, atol=alice.found.error)
    assert alice.session.and_gates == bob.session.and_gates > 0
    assert alice.session.oblivious_transfers == bob.session.oblivious_transfers == 2 * 40 * 4


@pytest.mark.parametrize("bits", [17, 24, 40, 63])
def test_the_circuit_keeps_its_bound(bits):
    """All places of the leading one, the ends of all chords, and what lies between."""
    rng = np.random.default_rng(bits)
    powers = 2 ** np.arange(1, bits, dtype=np.int64)
    chords = (1 << (bits - 1)) // 128 * (128 + np.arange(128, dtype=np.int64))
    drawn = np.exp(rng.uniform(np.log(2), np.log(2.0 ** (bits - 1)), 3000)).astype(np.int64)
    sums = np.concatenate([powers, powers - 1, chords, chords - 1, drawn, [(1 << bits) - 1]])
    sums = sums[sums >= 2]
    hers = (sums * rng.random(len(sums))).astype(np.int64)
    words = [RING.to_bits(RING.encode(part), bits).T for part in (hers, sums - hers)]
    found = logarithm._opened_circuit(bits).plain(*words)
    numbers = 2.0 ** (np.arange(len(found)) - 20) @ found
    assert np.abs(numbers - np.log(sums)).max() <= log_opened_error(bits) < 1.4e-5


def test_one_session_may_use_it_again_and_with_other_operations():
    def mixed(session):
        first = log_opened(session, [3 if session.is_alice else 4], bits=20)
        x = secure.private(RING, [5 if session.is_alice else 2])
        second = secure.reveal_real(session, secure.log(session, x, bits=20), what="ln 7")
        return [*first, *second, *log_opened(session, [6 if session.is_alice else 1], bits=20)]

    for found in secure.together(mixed, mixed):
        np.testing.assert_allclose(found, np.log(7), atol=3e-5)


def caught(party=party) -> str:
    with pytest.raises(PeerError) as error:
        secure.together(party, party)
    return str(error.value)


@pytest.mark.parametrize("liar", ["alice", "bob"])
@pytest.mark.parametrize("step", ["circuit: tables", "circuit: labels", "circuit: colours"])
def test_whoever_garbles_something_else_is_caught(monkeypatch, liar, step):
    """Without dual execution both sides would end with the same wrong number, and well."""
    original, roles = Channel.send, {}

    def send(self, at, payload):
        if at == step and roles.get(threading.get_ident()) == liar:
            payload = bytes(255 - b for b in memoryview(payload).cast("B").tobytes())
        return original(self, at, payload)

    def lying(session):
        roles[threading.get_ident()] = session.role
        return party(session)

    monkeypatch.setattr(Channel, "send", send)
    assert "garbled another circuit or changed its numbers" in caught(lying)


def test_the_same_lie_is_not_caught_by_a_single_run(monkeypatch):
    """What the page on two parties says: the result is wrong, alike on both sides."""
    original, roles = Channel.send, {}

    def send(self, at, payload):
        if at == "circuit: tables" and roles.get(threading.get_ident()) == "alice":
            payload = bytes(255 - b for b in memoryview(payload).cast("B").tobytes())
        return original(self, at, payload)

    def lying(session):
        roles[threading.get_ident()] = session.role
        return secure.log_of_sums(NUMBERS[session.role], peer=session).found.logarithms

    monkeypatch.setattr(Channel, "send", send)
    alice, bob = secure.together(lying, lying)
    assert alice == bob
    assert np.abs(np.array(alice) - LOGARITHMS).max() > 1


@pytest.mark.parametrize("liar", ["alice", "bob"])
@pytest.mark.parametrize("run", ["garble_circuit", "evaluate_circuit"])
def test_other_numbers_in_one_of_the_runs_are_caught(monkeypatch, liar, run):
    original, roles = getattr(garbling, run), {}

    def other(session, circuit, mine, n):
        if roles.get(threading.get_ident()) == liar:
            mine = mine.copy()
            mine[9] ^= 1
        return original(session, circuit, mine, n)

    def lying(session):
        roles[threading.get_ident()] = session.role
        return party(session)

    monkeypatch.setattr(garbling, run, other)
    assert "changed its numbers" in caught(lying)


def test_the_two_runs_use_other_keys_and_another_secret():
    def look(session):
        log_opened(session, [1], bits=20)
        other = session.mirrored()
        assert other.role == session.peer
        deltas = session.ot_sender if session.is_alice else other.ot_sender
        return session._hash_key_base, other._hash_key_base, deltas.delta.tobytes()

    alice, bob = secure.together(look, look)
    assert alice[:2] == bob[:2]
    assert alice[0] != alice[1]
    assert alice[2] != bob[2]


def test_impossible_bounds_are_refused():
    with pytest.raises(ParameterError, match="sums of 64 bits"):
        secure.together(*[lambda s: log_opened(s, [1], bits=64)] * 2)
