"""Peers that die, lines that are cut, bytes that are wrong: an error in time, never a hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from cli_tools import forks
from namespaces import two_hosts
from ports import free_port
from sfumato import secure
from sfumato.errors import PeerError, SfumatoError
from sfumato.secure import Ring
from sfumato.secure.channel import Channel
from two_parties import PROGRAMS, Recorder, everything, logarithms_over_tls, understudy

TIMEOUT = 60


@pytest.fixture(scope="module")
def actor():
    with understudy() as someone:
        yield someone


def messages(program: str) -> int:
    """How many messages a side sends and receives in all."""
    counts = []

    def party(session):
        PROGRAMS[program](session)
        traffic = session.channel.traffic
        counts.append(traffic.messages_sent + traffic.messages_received)

    secure.together(party, party)
    # Four more at the end, twice there and back. Who dies while waiting for the last has finished:
    # the other side has heard so and ends well.
    return max(counts) + 3


def write_result(role: str, program: str, port: int, output: Path, times: int = 1) -> None:
    """Run a program and write its result once both sides have ended, as the command line does."""
    with secure.listen(role, ("127.0.0.1", port), program=program, timeout=TIMEOUT) as session:
        for _ in range(times):
            result = PROGRAMS[program](session)
    output.write_text(str(result))


@pytest.mark.parametrize("stride", [8, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("role", ["alice", "bob"])
def test_a_peer_killed_at_each_step(actor, role, stride, tmp_path):
    living = "bob" if role == "alice" else "alice"
    # who dies before it has said a word was never here: the door stays open for it
    # steps take turns: what the other role does in between is a step of the other role
    for step in range(1 + (role == "bob"), messages("everything"), stride):
        port = free_port()
        actor.play(role, "everything", port, fatal=step)
        output = tmp_path / f"{step}.txt"
        started = time.monotonic()
        with pytest.raises(PeerError) as caught:
            write_result(living, "everything", port, output)
        assert time.monotonic() - started < TIMEOUT
        assert not output.exists()
        assert "1000" not in str(caught.value)
        actor.wait()


@pytest.mark.parametrize("stride", [4, pytest.param(2, marks=pytest.mark.slow)])
def test_a_peer_killed_at_each_step_of_the_papers_setting(actor, stride, tmp_path):
    for step in range(1, messages("paper"), stride):
        port = free_port()
        actor.play("bob", "paper", port, fatal=step)
        with pytest.raises(PeerError):
            write_result("alice", "paper", port, tmp_path / "result.txt")
        assert not list(tmp_path.iterdir())
        actor.wait()


def test_an_unharmed_peer_ends_well(actor):
    port = free_port()
    actor.play("bob", "everything", port)
    with secure.listen("alice", ("127.0.0.1", port), program="everything") as session:
        result = everything(session)
    actor.wait()
    assert np.allclose(result[:3], np.log([3, 1000, 77]), atol=3e-5)
    assert result[3:] == [0, 9 + 200, 1_000_000 + 200, 77**2 + 200]


@pytest.mark.parametrize(
    "share",
    [0.001, 0.5, 0.999, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.1, 0.3, 0.7, 0.9))],
)
def test_a_line_cut_after_some_bytes(actor, share, tmp_path):
    total = 500_000
    port = free_port()
    recorder = Recorder(port, cut_after=max(1, int(share * total)))
    actor.play("bob", "everything", recorder.port)
    with pytest.raises(PeerError):  # twenty times: more than any cut lets through
        write_result("alice", "everything", port, tmp_path / "result.txt", times=20)
    assert not list(tmp_path.iterdir())
    actor.wait()
    recorder.close()


@pytest.mark.crossed(2)
@pytest.mark.parametrize("liar", ["alice", "bob"])
@pytest.mark.parametrize("ring", [Ring.power_of_two(32), Ring.odd((1 << 61) - 1)], ids=str)
def test_garbage_for_content_gives_an_error_or_a_wrong_number(monkeypatch, ring, liar):
    """Right frames with random content, one message of the liar's after the other: no crash."""
    original = Channel.send
    rng = np.random.default_rng(6)
    lying: set[threading.Thread] = set()
    left = [0]
    sent = [0]

    def party(session):
        lying.discard(threading.current_thread())
        if session.role == liar:
            lying.add(threading.current_thread())
        before = session.channel.traffic.messages_sent
        x = secure.private(ring, [3, 4])
        logarithm = secure.log(session, x, bits=6)
        secure.argmin(session, logarithm, what="the smaller")
        result = secure.reveal(session, logarithm, what="both logarithms")
        if session.role == liar:
            sent[0] = session.channel.traffic.messages_sent - before
        return result

    def corrupted(self, step, payload):
        if threading.current_thread() in lying:
            left[0] -= 1
            if left[0] == 0:
                payload = rng.bytes(memoryview(payload).nbytes)
        return original(self, step, payload)

    monkeypatch.setattr(Channel, "send", corrupted)
    secure.together(party, party)
    messages_of_liar = sent[0]
    assert messages_of_liar >= 5
    for target in range(1, messages_of_liar + 1):
        left[0] = target
        with contextlib.suppress(SfumatoError):
            secure.together(party, party, timeout=60)
        assert left[0] <= 0, "the message was never sent"


def test_a_slow_peer_is_waited_for_within_the_time_out():
    def slow(session):
        for _ in range(3):
            time.sleep(0.2)
            session.exchange("step", b"x")
        return 1

    def fast(session):
        for _ in range(3):
            session.exchange("step", b"x")
        return 1

    assert secure.together(slow, fast, timeout=60) == (1, 1)
    with pytest.raises(PeerError, match=r"time-out|waited too long"):
        secure.together(slow, fast, timeout=0.1)


def keys_in(folder: Path) -> Path:
    for role in ("alice", "bob"):
        secure.make_keys(folder, role)
    return folder


def agree_on_logarithms(folder: Path) -> bool:
    told = {(folder / f"{role}.txt").read_text(encoding="utf-8") for role in ("alice", "bob")}
    return told == {"6.9078 0.6932 2.6391 True"}


def test_two_processes_over_tls(tmp_path):
    context, port = forks(), str(free_port())
    keys = str(keys_in(tmp_path))
    parties = [
        context.Process(target=logarithms_over_tls, args=(role, mode, "127.0.0.1", port, keys))
        for role, mode in (("alice", "listen"), ("bob", "connect"))
    ]
    for party in parties:
        party.start()
    for party in parties:
        party.join(120)
    assert [party.exitcode for party in parties] == [0, 0]
    assert agree_on_logarithms(tmp_path)


@pytest.mark.slow  # the same two parties as above
def test_two_hosts_in_two_network_namespaces(tmp_path):
    keys, code = str(keys_in(tmp_path)), "import sys, two_parties as t; t.logarithms_over_tls"
    paths = os.pathsep.join([str(Path(secure.__file__).parents[2]), str(Path(__file__).parents[1])])
    with two_hosts() as (address, first, second):
        parties = [
            subprocess.Popen(
                [*host, sys.executable, "-c", f"{code}(*sys.argv[1:])", *words, "7000", keys],
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": paths},
            )
            for host, words in (
                (first, ("alice", "listen", address)),
                (second, ("bob", "connect", address)),
            )
        ]
        said = [party.communicate(timeout=120) for party in parties]
    assert [party.returncode for party in parties] == [0, 0], said
    assert agree_on_logarithms(tmp_path)
