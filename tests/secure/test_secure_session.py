"""Greetings, bindings, endings: both sides say clearly what does not fit."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from ports import at_once
from sfumato import secure
from sfumato.errors import ParameterError, PeerError
from sfumato.secure import session as session_module
from sfumato.secure.channel import Channel
from sfumato.secure.session import Session


def greet(*settings: dict) -> list[BaseException | Session]:
    """Two sessions with their own settings; what each side ended up with."""
    channels = [Channel(s, timeout=60) for s in socket.socketpair()]
    done = at_once("01", lambda at: Session(channels[int(at)], **settings[int(at)]), seconds=20)
    for channel in channels:
        channel.close()
    return [done.get(at) for at in "01"]


def settings(role: str, **other) -> dict:
    return {"role": role, "program": "id3", "parameters": {"target": "diagnosis"}, **other}


def test_equal_settings_make_a_session():
    alice, bob = greet(settings("alice"), settings("bob"))
    assert alice.role == bob.peer == "alice"
    assert alice.hash_keys(3) == bob.hash_keys(3)
    assert alice.hash_keys(1) == bob.hash_keys(1)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (settings("alice"), "both sides say they are alice"),
        (
            settings("bob", program="log", parameters={"numbers": 2}),
            "the same thing: this side runs `.*`, the other something else. Agree",
        ),
        (settings("bob", parameters={"target": "age"}), "parameters differ: target"),
        (settings("bob", parameters={}), "parameters differ: target"),
        (settings("bob", parameters={"target": "diagnosis", "x": 1}), "parameters differ: x"),
    ],
)
def test_a_difference_is_named_on_both_sides(other, words):
    for error in greet(settings("alice"), other):
        assert isinstance(error, PeerError)
        assert re.search(words, str(error)), str(error)


def test_values_of_parameters_are_not_sent():
    one, other = socket.socketpair()
    channel = Channel(one, timeout=0.2)
    with pytest.raises(PeerError):
        Session(channel, "alice", program="id3", parameters={"threshold": "very private 4711"})
    sent = other.recv(1 << 16)
    assert b"threshold" in sent
    assert b"4711" not in sent
    other.close()


def test_another_version_is_an_error_on_both_sides(monkeypatch):
    original = session_module._canonical

    def aged(value):
        if isinstance(value, dict) and value.get("role") == "bob":
            value = {**value, "version": 99}
        return original(value)

    monkeypatch.setattr(session_module, "_canonical", aged)
    alice, bob = greet(settings("alice"), settings("bob"))
    assert isinstance(alice, PeerError)
    assert f"version {session_module.PROTOCOL_VERSION} of the protocol" in str(alice)
    # Bob believes that versions agree; Alice has hung up on him.
    assert isinstance(bob, (PeerError, Session))


@pytest.mark.parametrize("nonce", ["ab" * 32, "ab", 7, None])
def test_a_greeting_holds_a_nonce_that_is_not_mine(nonce):
    mine = {
        "protocol": "sfumato-secure",
        "version": 1,
        "program": "id3",
        "role": "alice",
        "parameters": {},
        "nonce": "ab" * 32,
    }
    theirs = {**mine, "role": "bob"}
    assert session_module._differences(mine, {**theirs, "nonce": "cd" * 32}) == []
    (found,) = session_module._differences(mine, {**theirs, "nonce": nonce})
    assert "no fresh nonce" in found


@pytest.mark.parametrize("answer", [b"{}", b"[1]", b"not json", b"[" * 60000, b'{"protocol": 1}'])
def test_a_peer_that_speaks_another_language_is_refused(answer):
    one, other = socket.socketpair()
    peer = Channel(other, timeout=60)
    peer.send("greeting", answer)
    with pytest.raises(PeerError):
        Session(Channel(one, timeout=60), "alice", program="id3")
    peer.close()


def test_greetings_that_are_too_long_are_refused():
    one, other = socket.socketpair()
    names = {f"parameter {i}": i for i in range(2000)}
    with one, other, pytest.raises(ParameterError, match="larger than"):
        Session(Channel(one, timeout=1), "alice", program="id3", parameters=names)


def test_parameters_must_be_plain():
    with pytest.raises(ParameterError, match="JSON"):
        secure.together(lambda s: 1, lambda s: 1, parameters={"x": object()}, timeout=1)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([("sum", 8)], [("sum", 9)]),
        ([("sum", 8)], [("log", 8)]),
        ([("sum", 8)], [("sum", 8), ("sum", 8)]),
    ],
)
def test_parties_that_drift_apart_stop(mine, theirs):
    def party(operations):
        def play(session):
            for name, bits in operations:
                session.begin(name, bits=bits)
            return session.exchange("results", b"x")

        return play

    assert secure.together(party(mine), party(mine), timeout=60)
    with pytest.raises(PeerError, match=r"another step|stopped"):
        secure.together(party(mine), party(theirs), timeout=60)


def test_the_side_that_failed_explains_and_the_other_is_told_nothing_private():
    heard = []

    def alice(session):
        raise ValueError("patient 4711 has no diagnosis")

    def bob(session):
        try:
            session.exchange("results", b"x")
        except PeerError as error:
            heard.append(str(error))
            raise

    with pytest.raises(ValueError, match="4711"):
        secure.together(alice, bob)
    assert "stopped: it met an error of its own" in heard[0]
    assert "4711" not in heard[0]


def test_leaving_waits_for_the_other_side():
    order = []

    def alice(session):
        order.append("alice done")

    def bob(session):
        threading.Event().wait(0.2)
        order.append("bob done")

    secure.together(alice, bob)
    assert order == ["alice done", "bob done"]


def test_the_report_counts_and_says_who_learned_what():
    ring = secure.Ring.power_of_two(32)

    def party(session):
        x = secure.private(ring, [3, 4])
        secure.reveal(session, x, to="alice", what="the sums")
        secure.argmin(session, x, what="the smaller")
        session.note_learned("both", "the smaller")  # said twice, listed once
        return session.report()

    alice, bob = secure.together(party, party)
    assert alice.learned == bob.learned == (("alice", "the sums"), ("both", "the smaller"))
    assert alice.bytes_sent == bob.bytes_received
    assert alice.bytes_received == bob.bytes_sent
    assert alice.messages_sent == bob.messages_received
    assert alice.and_gates == bob.and_gates > 0
    assert alice.oblivious_transfers == bob.oblivious_transfers > 0
    assert alice.to_dict()["learned"][0] == {"who": "alice", "what": "the sums"}
    assert '"role": "bob"' in bob.to_json()


def test_unknown_roles_and_addresses_are_refused():
    with pytest.raises(ParameterError, match="not a role"):
        secure.connect("carol", ("127.0.0.1", 1), program="log")
    with pytest.raises(ParameterError, match="only loopback"):
        secure.listen("alice", ("0.0.0.0", 7000), program="log")
    with pytest.raises(ParameterError, match="only loopback"):
        secure.connect("alice", ("192.0.2.1", 7000), program="log")
    with pytest.raises(ParameterError, match="not a port"):
        secure.listen("alice", ("127.0.0.1", 70000), program="log")
    with pytest.raises(PeerError, match=r"the other party did not connect within 0\.1 s"):
        secure.listen("alice", ("127.0.0.1", 0), program="log", timeout=0.1)
    with pytest.raises(PeerError, match="nobody answers"):
        secure.connect("bob", ("127.0.0.1", 1), program="log", timeout=0.1)


def test_a_busy_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(ParameterError, match="cannot listen"):
            secure.listen("alice", ("127.0.0.1", port), program="log", timeout=1)


def test_ends_are_compared_with_what_the_other_sent_received_and_opened():
    sent, received, opened = (bytes([at]) * 32 for at in range(3))
    mine, other = sent + received + opened, bytes([9]) * 32
    assert session_module._endings(mine, received + sent + opened) == ""
    for theirs in (sent + received + opened, received + other + opened, other + sent + opened):
        assert "is not what the other received" in session_module._endings(mine, theirs)
    assert session_module._endings(mine, received + sent + other) == "the results differ"
