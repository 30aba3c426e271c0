"""Framing: limits, time-outs, steps, statistics, and ten thousand broken frames."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, PeerError
from sfumato.secure.channel import LARGEST_MESSAGE, Channel, _tag


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    here, there = (Channel(s, timeout=60) for s in socket.socketpair())
    yield here, there
    here.close()
    there.close()


@pytest.fixture
def raw() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel and the bare socket at its other end."""
    one, other = socket.socketpair()
    channel = Channel(one, timeout=0.3)
    yield channel, other
    channel.close()
    other.close()


def test_messages_arrive_and_are_counted(pair):
    here, there = pair
    here.send("first", b"abc")
    here.send("second", np.arange(4, dtype=np.uint64))
    assert bytes(there.receive("first", 3)) == b"abc"
    assert np.frombuffer(there.receive("second", 32), np.uint64).tolist() == [0, 1, 2, 3]
    there.send("third", b"")
    assert bytes(here.receive_at_most("third", 10)) == b""
    assert (here.traffic.bytes_sent, here.traffic.messages_sent) == (16 + 3 + 16 + 32, 2)
    assert (here.traffic.bytes_received, here.traffic.messages_received) == (16, 1)
    assert here.traffic.rounds == 1
    assert there.traffic.rounds == 0


def test_both_may_send_large_messages_at_once(pair):
    payload = os.urandom(1 << 24)  # far more than any socket buffer
    received = {}

    def talk(name, channel):
        channel.send("large", payload)
        received[name] = bytes(channel.receive("large", len(payload)))

    threads = [threading.Thread(target=talk, args=item) for item in zip("ab", pair, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert received["a"] == received["b"] == payload


def test_another_step_is_refused_on_both_sides(pair):
    here, there = pair
    here.send("one thing", b"abcd")
    with pytest.raises(PeerError, match=r"another step.*same version"):
        there.receive("another thing", 4)
    with pytest.raises(PeerError, match="stopped: it received a message that does not belong"):
        here.receive("answer", 1)


def test_bindings_must_agree(pair):
    here, there = pair
    here.rebind(b"terms=5")
    there.rebind(b"terms=4")
    here.send("step", b"x")
    with pytest.raises(PeerError, match="other parameters"):
        there.receive("step", 1)


def test_wrong_length_is_refused_before_it_is_read(pair):
    here, there = pair
    here.send("step", b"x" * 100)
    with pytest.raises(PeerError, match="announced 100 bytes where 99 bytes were expected"):
        there.receive("step", 99)


def test_oversized_length_field_stores_nothing(raw):
    channel, other = raw
    tag = _tag(b"", "step", 0)
    other.sendall(struct.pack(">4sI8s", b"SFUd", 0xFFFFFFFF, tag) + b"x" * 1000)
    with pytest.raises(PeerError, match="announced 4294967295 bytes"):
        channel.receive_at_most("step", 1 << 40)
    assert LARGEST_MESSAGE < 0xFFFFFFFF


def test_a_silent_peer_is_given_up_within_the_time_out(raw):
    channel, _ = raw
    started = time.monotonic()
    with pytest.raises(PeerError, match=r"no progress within the time-out of 0\.3 s"):
        channel.receive("step", 1)
    assert time.monotonic() - started < 60


def test_a_dripping_peer_is_given_up(raw):
    channel, other = raw
    done = threading.Event()

    def drip():
        frame = struct.pack(">4sI8s", b"SFUd", 100, _tag(b"", "step", 0)) + bytes(100)
        for i in range(len(frame)):
            if done.wait(0.05):
                return
            other.send(frame[i : i + 1])

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(PeerError, match="no progress within"):
        channel.receive("step", 100)
    done.set()
    thread.join()


def test_a_peer_that_does_not_read_is_given_up(raw):
    channel, _ = raw
    with pytest.raises(PeerError, match="no progress within"):
        channel.send("step", bytes(1 << 24))


def test_a_closed_connection_is_named(raw):
    channel, other = raw
    other.close()
    with pytest.raises(PeerError, match="closed the connection"):
        channel.receive("step", 1)
    with pytest.raises(PeerError, match="connection is closed"):
        channel.send("step", b"x")


def test_a_message_cut_short_is_an_error(raw):
    channel, other = raw
    other.sendall(struct.pack(">4sI8s", b"SFUd", 100, _tag(b"", "step", 0)) + bytes(99))
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerError, match="closed the connection"):
        channel.receive("step", 100)


def test_a_reason_is_shown_without_control_characters(raw):
    channel, other = raw
    text = b"no\x1b[31m more\n"
    other.sendall(struct.pack(">4sI8s", b"SFUx", len(text), bytes(8)) + text)
    with pytest.raises(PeerError, match=r"stopped: no\[31m more"):
        channel.receive("step", 1)


def test_impossible_settings_are_refused():
    one, other = socket.socketpair()
    with pytest.raises(ParameterError, match="time-out"):
        Channel(one, timeout=0)
    channel = Channel(one)
    with pytest.raises(ParameterError, match="smaller batches"):
        channel.send("step", np.broadcast_to(np.uint8(0), LARGEST_MESSAGE + 1).copy())
    channel.close()
    other.close()


def _mangled(rng: random.Random, frame: bytes) -> bytes:
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(64))
    if kind == 1:
        return frame[: rng.randrange(len(frame))]
    if kind == 2:
        place = rng.randrange(16)
        return frame[:place] + bytes([frame[place] ^ (1 << rng.randrange(8))]) + frame[place + 1 :]
    if kind == 3:
        return frame[:4] + struct.pack(">I", rng.getrandbits(32)) + frame[8:]
    return struct.pack(">4sI", rng.choice([b"SFUd", b"SFUx"]), rng.getrandbits(32)) + rng.randbytes(
        rng.randrange(40)
    )


def test_ten_thousand_broken_frames_give_errors_and_never_hang():
    rng = random.Random(20240501)
    for case in range(10_000):
        one, other = socket.socketpair()
        channel = Channel(one, timeout=60)
        payload = rng.randbytes(rng.randrange(1, 40))
        good = struct.pack(">4sI8s", b"SFUd", len(payload), _tag(b"", "step", 0)) + payload
        broken = _mangled(rng, good)
        assert broken != good
        other.sendall(broken)
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(PeerError):
            channel.receive("step", len(payload))
        assert len(channel._inbox) == 0, case
        channel.close()
        other.close()


def test_a_peer_that_floods_instead_of_reading_fills_a_bounded_inbox_and_wakes_nobody(
    raw, monkeypatch
):
    """It used to be stored up to half a gigabyte, and a full inbox kept a core busy."""
    monkeypatch.setattr("sfumato.secure.channel._LARGEST_INBOX", 1 << 20)
    channel, other = raw
    done = threading.Event()

    def flood():
        other.settimeout(0.05)
        while not done.is_set():
            with contextlib.suppress(OSError):
                other.send(bytes(1 << 16))

    thread = threading.Thread(target=flood)
    thread.start()
    waits = 0
    wait = Channel._wait

    def counted(self, step, deadline, **events):
        nonlocal waits
        waits += 1
        wait(self, step, deadline, **events)

    monkeypatch.setattr(Channel, "_wait", counted)
    payload = bytes(1 << 22)
    with pytest.raises(PeerError, match="no progress within"):
        channel.send("step", payload)
    done.set()
    thread.join()
    assert len(channel._inbox) <= (1 << 20) + len(payload) + 16
    assert waits < 5_000


def test_bytes_that_only_come_do_not_count_as_progress_of_what_is_sent(raw):
    """A peer that drips while it does not read used to be waited for by the message's length."""
    channel, other = raw
    done = threading.Event()

    def drip():
        while not done.wait(0.02):
            other.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(PeerError, match=r"no progress within the time-out of 0\.3 s"):
        channel.send("step", bytes(1 << 26))  # a thousand seconds at the slowest rate
    done.set()
    thread.join()


def test_the_time_of_the_whole_work_holds():
    one, other = socket.socketpair()
    channel = Channel(one, timeout=60, budget=Budget(seconds=0.05))
    with pytest.raises(BudgetError, match="time was over"):
        channel.receive("step", 1)
    there = Channel(other, timeout=60)
    with pytest.raises(PeerError, match="stopped: its time was over"):
        there.receive("step", 1)
    there.close()
